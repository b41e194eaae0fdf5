"""Tumult Core's own tests of what `dpcore.interop.tumult` replaces, from its sdist on PyPI, with the module installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

SUITES = {
    "0.19.1": {
        "unit/measurements/pandas_measurements/test_series.py": 39,
        "unit/measurements/test_noise_mechanisms.py": 192,
        "unit/measurements/test_spark_measurements.py": 56,
        "system/noise_distribution_tests/test_base_mechanisms.py": 15,
    },
    "0.20.0": {
        "unit/measurements/pandas_measurements/test_series.py": 42,
        "unit/measurements/test_noise_mechanisms.py": 216,
        "unit/measurements/test_spark_measurements.py": 62,
        "system/noise_distribution_tests/test_base_mechanisms.py": 15,
    },
}
"""Files of Tumult's tests, and how many pass in each. Left out: quantiles, domains, metrics, transformations and queryables, which use
nothing that is replaced, and the distributions of counts, sums, averages and variances, which take half an hour and have the same noise."""
PLUGIN = "from dpcore.interop import tumult\n\ndef pytest_configure(config):\n    tumult.install()\n"


def sources() -> Path:
    """Folder with Tumult's `test`, kept in the environment: pip unpacks the sdist and leaves it there, also where it cannot be built."""
    version = metadata.version("tmlt.core")
    kept = Path(sys.prefix) / "peer-tests" / f"tmlt.core-{version}"
    if not (kept / "test").is_dir():
        unpacked = kept / "unpacked"
        unpacked.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--no-clean", "--no-deps", "--no-binary", "tmlt.core", f"tmlt.core=={version}"]
        subprocess.run(command, cwd=unpacked, env={**os.environ, "TMPDIR": str(unpacked)}, capture_output=True, check=False)
        found = list(unpacked.glob("**/tmlt*/test/conftest.py"))
        if not found:
            pytest.skip("the sdist of tmlt.core is not to be had")
        shutil.copytree(found[0].parent, kept / "test")
        shutil.rmtree(unpacked)
    return kept


def run(folder: Path, report: Path) -> subprocess.CompletedProcess[str]:
    (folder / "dpcore_tumult_plugin.py").write_text(PLUGIN)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow: takes long\n")
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "dpcore_tumult_plugin", "-p", "no:cacheprovider", f"--junitxml={report}"]
    files = [f"test/{name}" for name in SUITES[metadata.version("tmlt.core")]]
    return subprocess.run([*command, *files], cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_tumults_own_tests_pass(tmp_path):
    pytest.importorskip("parameterized", reason="make test-interop PEER=tumult")
    report = tmp_path / "report.xml"
    finished = run(sources(), report)
    assert report.exists(), finished.stdout[-2000:] + finished.stderr[-2000:]
    suites = SUITES[metadata.version("tmlt.core")]
    passed, failed = dict.fromkeys(suites, 0), []
    for case in ET.parse(report).iter("testcase"):
        name = next(each for each in suites if each.removesuffix(".py").replace("/", ".") in case.attrib["classname"])
        bad = case.find("failure") is not None or case.find("error") is not None
        if bad:
            failed.append(f"{name}::{case.attrib['name']}")
        elif case.find("skipped") is None:
            passed[name] += 1
    assert failed == []
    assert passed == suites
