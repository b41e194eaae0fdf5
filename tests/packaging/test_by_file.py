"""The lines that `make test` writes: files by name, failures at once, the time that is left."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import by_file, parts_of_files

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


def test_parts_are_all_files_once():
    files = [f"tests/test_{number}.py" for number in range(11)]
    parts = [parts_of_files.files_of((number, 4), reversed(files)) for number in (1, 2, 3, 4)]
    assert sorted(file for each in parts for file in each) == sorted(files)
    assert [len(each) for each in parts] == [3, 3, 3, 2]


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "1/0", "a/b", "-1/4"])
def test_a_part_that_is_none_is_refused(text):
    with pytest.raises(pytest.UsageError, match=r"--part must be K/M with 1 ≤ K ≤ M"):
        parts_of_files.part(text)


@pytest.mark.long
def test_a_run_takes_the_files_of_its_part():
    here = "tests/api/blackwell/"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", "-m", "long or not long", here]
    found = [
        subprocess.run([*command, *option], capture_output=True, text=True, check=True, cwd=TESTS.parent).stdout
        for option in ([], ["--part", "1/2"], ["--part", "2/2"])
    ]
    every, first, second = ({line for line in text.splitlines() if "::" in line} for text in found)
    assert first | second == every
    assert not first & second
    assert first
    assert second


class Terminal:
    """Stands for the terminal of pytest."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.pluginmanager = self

    def getplugin(self, name: str) -> Terminal:
        assert name == "terminalreporter"
        return self

    def write_line(self, text: str, **markup: bool) -> None:
        self.lines.append(text)


def test_the_slowest_files_are_named_while_they_run(monkeypatch):
    """Of 100 quick tests and 5 slow ones in one more file, the last take most of the time: no time is told that they exceed."""
    now = 0.0
    monkeypatch.setattr(by_file.time, "monotonic", lambda: now)
    terminal = Terminal()
    shown = by_file.ByFile(terminal)
    ids = [f"test_{file}.py::test_{place}" for file in range(10) for place in range(10)] + [
        f"test_slow.py::test_{place}" for place in range(5)
    ]
    shown.count(ids)
    for nodeid in ids:
        now += 60.0 if "slow" in nodeid else 1.2
        shown.pytest_runtest_logfinish(nodeid)
    assert terminal.lines[4] == "[ 47 %, 1 min left] test_4.py: 10 tests"
    assert terminal.lines[9:] == [
        "[ 95 %, 1 file left] test_9.py: 10 tests",
        *(f"[ {95 + done} %] running: test_slow.py ({done} of 5)" for done in (1, 2, 3, 4)),
        "[100 %, 0 files left] test_slow.py: 5 tests",
    ]
