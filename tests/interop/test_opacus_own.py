"""Opacus' own tests of its optimizers, its engine and what they use, from its wheel, with dpcore beneath, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest

peer = pytest.importorskip("opacus", reason="make test-interop PEER=opacus")

pytestmark = pytest.mark.long
TESTS = Path(peer.__file__).parent / "tests"
ELSEWHERE = {
    "grad_samples": "gradients of single layers, without an optimizer",
    "dp_layers": "layers, without an optimizer",
    "validators": "which layers are accepted, without an optimizer",
    "mixed_precision_test.py": "gradients in half the width, without an optimizer",
    "accountants_test.py": "accountants, without an optimizer",
}
SEEDED = {
    "test_equivalent_to_one_batch": "two trainings with one seed of torch's global generator end in the same weights",
    "test_deterministic_run": "the same, through the engine",
    "OptimizerRandomnessTest.test_global_seed": "the same, of the noise of one step",
    "PrivacyEngineSecureModeTest.test_global_seed": "the same, of an epoch",
    "test_noise_level": "a norm of up to five numbers' noise within 15 %, which one seed of that generator keeps",
}
"""Tests that need noise of torch's global generator: the noise of dpcore does not depend on it."""
ALL, NETWORKS_AND_MACHINES = 454, 110
"""All of them, and how many are skipped with and without dpcore: networks of torchvision, several GPUs, torchcsprng, and Opacus' own."""


def is_seeded(name: str) -> bool:
    """Whether the test, as Class.method, needs the global generator."""
    return any(name == each or name.partition(".")[2] == each for each in SEEDED)


def outcomes(how: str, folder: Path) -> dict[str, str]:
    """What became of each test: "passed", "skipped", or the first words of the failure."""
    report = folder / f"{how}.xml"
    command = [
        sys.executable, "-m", "pytest", "-q", "-c", os.devnull, f"--rootdir={folder}", "-p", "support.opacus_own", "-p", "no:cacheprovider",
        "-o", "python_files=*_test.py", *(f"--ignore={TESTS / name}" for name in ELSEWHERE), f"--junitxml={report}", str(TESTS),
    ]  # fmt: skip
    paths = [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"DPCORE_OPACUS": how, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True)
    found: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):
        module, _, kind = case.attrib["classname"].rpartition(".")
        states = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        found[f"{module.rpartition('.')[2]}:{kind}.{case.attrib['name']}"] = states[0] if states else "passed"
    return found


@pytest.mark.parametrize("how", ["proved", "nominal"])
def test_opacus_own_tests_pass_but_those_that_seed_the_global_generator(how: str, tmp_path: Path) -> None:
    found = outcomes(how, tmp_path)
    failed = {name for name, state in found.items() if state in ("failure", "error") and not is_seeded(name.partition(":")[2])}
    assert not failed
    assert len(found) == ALL
    assert Counter(found.values())["skipped"] == NETWORKS_AND_MACHINES
    assert {each for each in SEEDED if any(is_seeded(name.partition(":")[2]) and name.endswith(each) for name in found)} == SEEDED.keys()
