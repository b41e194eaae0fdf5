"""The catalogue of planted faults fits the source tree, and its runner tells what is caught from what is not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from planted.catalogue import ROOT, mistakes, read

pytestmark = pytest.mark.source_tree

FAULTS = read()
FEWEST = 60
"""Faults by which the suite is measured; a suite that is made smaller catches them all."""


def test_every_fault_can_be_planted_and_names_tests_that_exist():
    assert [each for fault in FAULTS for each in mistakes(fault)] == []


def test_faults_are_told_apart_and_are_not_fewer_than_the_measure():
    names = [fault.name for fault in FAULTS]
    assert len(names) == len(set(names)) >= FEWEST
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name) for name in names)
    assert len({(fault.file, fault.old) for fault in FAULTS}) == len(FAULTS)
    assert all(len(fault.promise) > 40 and fault.part and fault.promise.endswith(".") for fault in FAULTS)


def test_an_entry_that_has_rotted_is_found():
    fault = FAULTS[0]
    assert "occurs 0 times" in mistakes(replace(fault, old="no such text"))[0]
    assert "times" in mistakes(replace(fault, old="\n"))[0]
    assert "the new text is the old one" in mistakes(replace(fault, new=fault.old))[0]
    assert "no test is named" in mistakes(replace(fault, tests=()))[0]
    assert "there is no file" in mistakes(replace(fault, tests=("tests/test_gone.py",)))[0]
    assert "has no test" in mistakes(replace(fault, tests=("tests/planted/test_catalogue.py::test_gone",)))[0]


PLANTED = """
[[fault]]
name = "width-of-half-the-noise"
promise = "An interval is as wide as its noise asks for."
part = "Releases"
file = "src/dpcore/_spread.py"
old = '''{old}'''
new = '''{new}'''
tests = ["tests/api/test_spread.py"]

[[fault]]
name = "another-word"
promise = "Nothing is promised about the words of a comment."
part = "Releases"
file = "src/dpcore/_spread.py"
old = '''{comment}'''
new = '''Another comment.'''
tests = ["tests/api/test_spread.py"]
"""


@pytest.mark.long
@pytest.mark.skipif(not (ROOT / ".venv").is_dir() or os.name != "posix", reason="the runner copies the environment of make test")
def test_a_fault_is_caught_and_a_change_that_breaks_nothing_is_not(tmp_path):
    text = (ROOT / "src/dpcore/_spread.py").read_text(encoding="utf-8")
    line = re.search(r"^    return width.*$", text, re.MULTILINE)[0]
    comment = text.splitlines()[0].strip('"')
    catalogue = tmp_path / "catalogue"
    catalogue.mkdir()
    planted = PLANTED.format(old=line, new=line.replace("return ", "return 0.5 * ", 1), comment=comment)
    (catalogue / "two.toml").write_text(planted, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "planted", "--catalogue", str(catalogue), "--report", str(tmp_path / "table.md")],
        cwd=ROOT / "tests",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"width-of-half-the-noise: caught by tests/api/test_spread.py::test_\w+", done.stdout), done.stdout
    assert re.search(r"another-word: NOT caught: all \d+ cases pass", done.stdout), done.stdout
    assert "1 of 2 faults are caught." in (tmp_path / "table.md").read_text(encoding="utf-8")
