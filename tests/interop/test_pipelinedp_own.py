"""PipelineDP's own tests of its noise and its engine's parts, with `dpcore.interop.pipelinedp` installed.

Nothing on PyPI has them, so that they come from its repository, at the last commit whose tests fit the version that we test with.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

pytestmark = pytest.mark.long
pytest.importorskip("pipeline_dp", reason="make test-interop PEER=pipelinedp")

REPOSITORY, COMMIT = "https://github.com/OpenMined/PipelineDP", "ec6e56edbf2ce8e2b2297df3e4992d91609d1d94"
SUITES = {"dp_computations_test": 66, "combiners_test": 102, "budget_accounting_test": 25, "report_generator_test": 5}
"""Files of PipelineDP's tests, and how many pass in each. Left out: the engine's, because they need Apache Beam, those of Beam and Spark,
and those of backends, bounds, histograms, partition selection and frames, which call nothing that is replaced."""
REMOVED = "test_create_accumulator"
"""Of quantiles: it calls a method that the tested version does not have, and fails without dpcore, too."""
PLUGIN = "from dpcore.interop import pipelinedp\n\ndef pytest_configure(config):\n    pipelinedp.install()\n"


def sources() -> Path:
    """Folder with PipelineDP's `tests`, kept in the environment, without its package: what is tested is what is installed."""
    kept = Path(sys.prefix) / "peer-tests" / f"pipeline-dp-{COMMIT[:7]}"
    if not (kept / "tests").is_dir():
        kept.mkdir(parents=True, exist_ok=True)
        steps = ["init -q", f"fetch -q --depth 1 {REPOSITORY} {COMMIT}", f"checkout -q {COMMIT} -- tests"]
        if any(subprocess.run(["git", *step.split()], cwd=kept, check=False, capture_output=True).returncode for step in steps):
            pytest.skip("the tests in PipelineDP's repository are not to be had")
    return kept


def test_pipelinedps_own_tests_pass(tmp_path):
    pytest.importorskip("absl.testing", reason="make test-interop PEER=pipelinedp")
    folder, report = sources(), tmp_path / "report.xml"
    (tmp_path / "dpcore_pipelinedp_plugin.py").write_text(PLUGIN)
    (settings := tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "dpcore_pipelinedp_plugin", "-p", "no:cacheprovider", f"--junitxml={report}"]
    files = [f"--rootdir={folder}", f"--config-file={settings}", *(f"tests/{name}.py" for name in SUITES)]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    finished = subprocess.run([*command, *files], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert report.exists(), finished.stdout[-2000:] + finished.stderr[-2000:]
    passed, failed = dict.fromkeys(SUITES, 0), []
    for case in ET.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(case.attrib["name"])
        elif case.find("skipped") is None:
            passed[next(name for name in SUITES if f"{name}." in case.attrib["classname"])] += 1
    assert failed in ([], [REMOVED])
    assert passed == SUITES
