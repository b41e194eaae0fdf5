"""Every target of the Makefile runs in an environment that it has made itself: here in a fresh clone with an empty home, or in CI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.source_tree, pytest.mark.skipif(shutil.which("make") is None, reason="make is not here")]

ROOT = Path(__file__).resolve().parents[2]
HERE = {
    "help": "make test-long",
    "demo": "Once more would exceed the budget, so it is refused:",
    "docs": "build succeeded",
    "bench BENCH_ARGS=--quick": "noise",
    "lint": "passed",
    "stubs": "",
    "format": "unchanged",
    "hooks": "pre-commit installed",
    "clean": "",
}
"""Targets in the order in which a fresh clone runs them, with words of what they print."""
BY_HAND = {
    "test-long": "the default tests and those that take an hour more, before a release",
    "test-spark": "its two halves run in CI, test-spark4 and test-spark35",
    "test-ft": "CI installs on a free-threaded interpreter without make; here PYTHON_FT names one that is built by hand",
    "dist": "test-wheel begins with it",
    "test-aarch64": "needs a cross compiler, an emulator and, for more than C, the system that AARCH64_ROOT names",
    "test-musl": "needs musl and, for more than C, the Python that MUSL_PYTHON names",
    "ownership": "a part of test-long",
    "planted": "builds the kernels again and again, for 40 minutes; a long test runs the runner on two faults",
    "fuzz": "searches for as long as MINUTES says; the default tests run what it has kept",
    "speed-json": "measures for 22 minutes on a machine that does nothing else",
    "speed-table": "writes the tables of what speed-json has measured; tests/packaging/test_documents.py compares them",
}
"""Targets that nothing runs by itself, and why."""


def targets():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)[1].split()
    described = re.findall(r"^([a-z0-9-]+):.*?## ", text, re.MULTILINE)
    return phony, described


def in_ci():
    """The targets of the workflows, each value of a matrix for itself."""
    found = set()
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        text = path.read_text(encoding="utf-8")
        values = {key: re.split(r",\s*", listed) for key, listed in re.findall(r"^\s+(\w+): \[(.*)\]$", text, re.MULTILINE)}
        for line in re.findall(r"run: make ((?:[a-z0-9-]|\$\{\{[^}]*\}\})+)", text):
            key = re.search(r"\$\{\{ matrix\.(\w+) \}\}", line)
            found |= {re.sub(r"\$\{\{.*?\}\}", value, line) for value in values[key[1]]} if key else {line}
    return found


def test_every_target_runs_here_or_in_ci_or_says_why_not():
    phony, described = targets()
    assert sorted(phony) == sorted(described)
    ran = {line.split()[0] for line in HERE} | in_ci()
    assert set(described) == ran | set(BY_HAND)
    assert not set(BY_HAND) & ran


def test_the_workflows_are_read():
    assert {"lint", "docs", "demo", "bench", "test", "test-interop", "test-spark4", "test-spark35", "sanitize", "tsan"} <= in_ci()


@pytest.mark.long
def test_the_targets_run_in_a_fresh_clone_with_an_empty_home(tmp_path):
    """Each environment is made by the target that needs it. `docs` failed so: its extra lacked a package that the tests' extra has."""
    home, clone = tmp_path / "home", tmp_path / "clone"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV", "MAKE", "COVERAGE", "PYTEST"))}
    for line, words in HERE.items():
        finished = subprocess.run(
            ["make", *line.split()], cwd=clone, env=kept | {"HOME": str(home)}, check=False, capture_output=True, text=True, timeout=3600
        )
        assert finished.returncode == 0, (line, finished.stdout[-2000:], finished.stderr[-2000:])
        assert words in finished.stdout + finished.stderr, (line, finished.stdout[-2000:])
        changed = subprocess.run(["git", "status", "--porcelain"], cwd=clone, check=True, capture_output=True, text=True).stdout
        assert changed == "", (line, changed)
    assert not (clone / ".venv").exists()
