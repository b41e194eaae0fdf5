"""The lines that `make test` writes: files by name, failures at once, the time that is left."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.mark.long
@pytest.mark.parametrize("processes", [(), ("-n", "2", "--dist", "loadfile")], ids=["one process", "two"])
def test_each_file_is_named_once_and_each_failure_at_once(tmp_path, processes):
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "test_good.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    (tmp_path / "test_bad.py").write_text("def test_c(): assert 0\ndef test_d(): pass\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        f"--rootdir={tmp_path}",
        "-o",
        f"pythonpath={TESTS}",
    ]
    done = subprocess.run([*command, "--by-file", *processes, str(tmp_path)], capture_output=True, text=True, check=False, cwd=tmp_path)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("[", "FAILED"))]
    assert sorted(re.sub(r"^\[ *\d+ %, .* left\] ", "", line) for line in lines if line.startswith("[") and "%" in line) == [
        "test_bad.py: 2 tests, 1 failed",
        "test_good.py: 2 tests",
    ]
    assert lines[-2].startswith("[100 %") or lines[-1].startswith("FAILED test_bad.py::test_c - ")
    assert "FAILED test_bad.py::test_c" in lines
    assert "1 failed, 3 passed" in done.stdout
