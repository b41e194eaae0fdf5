"""Damaged bytes of an input end in a documented exit: no signal, no bug, no hang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import fuzzing
from support.jobs import COLUMNS, FORMATS, Workplace

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="mutations run in forked children")

TARGETS = [f"{ending}-{command}" for ending in FORMATS for command in fuzzing.COMMANDS]
DOCUMENTED = {"0", "2", "3", "4"}
MUTATIONS = 300


def run(folder: Path, first: int, stop: int, targets: list[str], readers: str = "checked") -> dict[str, dict[str, list[object]]]:
    arguments = [sys.executable, fuzzing.__file__, folder, readers, first, stop, *targets]
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    ends: dict[str, dict[str, list[object]]] = json.loads(done.stdout)
    for found in ends.values():
        assert sum(map(len, found.values())) == stop - first, "every mutation has an end"
    return ends


def undocumented(ends):
    """Numbers of the mutations that end otherwise, by target and end."""
    return {(target, end): numbers for target, found in ends.items() for end, numbers in found.items() if end not in DOCUMENTED}


@pytest.mark.long
def test_damaged_files_end_in_a_documented_exit(tmp_path):
    ends = run(tmp_path, 0, 12, TARGETS)
    assert undocumented(ends) == {}
    assert all("0" in found for found in ends.values()), "some damage leaves a table"


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
def test_many_damaged_files_end_in_a_documented_exit(tmp_path, target):
    ends = run(tmp_path, 12, MUTATIONS, [target])
    print(f"{target}: mutations 12 to {MUTATIONS - 1}:", {end: len(numbers) for end, numbers in ends[target].items()})
    assert undocumented(ends) == {}


@pytest.mark.long
def test_a_reader_that_trusts_the_file_is_caught(tmp_path):
    """Among these mutations are offsets and indices that lead out of their buffers."""
    assert undocumented(run(tmp_path, 20, 25, ["arrow-privatize"], "trusting")) != {}


# Text


@pytest.fixture
def place(tmp_path, capsys):
    place = Workplace(tmp_path, capsys)
    place.source = place.folder / "in.csv"
    return place


JOB = {"visits": {**COLUMNS["visits"], "missing": 0}}
HOSTILE = {
    "zeros": b"visits,note\n1,a\0b\n\0,\0\n3,\n",
    "nothing": b"",
    "newlines": b"\n\n\n\n",
    "a header": b"visits",
    "a mark of UTF-8": b"\xef\xbb\xbfvisits\n1\n2\n",
    "a mark of UTF-8 alone": b"\xef\xbb\xbf",
    "UTF-16": "visits,note\n1,2\n".encode("utf-16"),
    "UTF-32": "visits,note\n1,2\n".encode("utf-32"),
    "Latin-1": "visits,note\n1,é\n".encode("latin-1"),
    "an open quote": b'visits,note\n1,"open\n2,x\n3,y\n',
    "quotes in the middle": b'visits,note\n1,a"b"c\n2,""x""\n',
    "an open quote in the header": b'visits,"note\n1,2\n',
    "mixed ends of lines": b"visits,note\r\n1,2\n3,4\r5,6\n\r7,8",
    "too few and too many cells": b"visits,note\n1\n2,3,4,5\n,\n\n",
    "a long line": b"visits,note\n1," + b"x" * 5_000_000 + b"\n2,y\n",
    "one line": b"visits," * 700_000,
    "many columns": b"visits," + b",".join(b"c%d" % i for i in range(200_000)) + b"\n" + b"1," * 200_000 + b"1\n",
    "numbers beyond all": b"visits\n" + b"9" * 5000 + b"\n1e999999999\n-0x1\ninf\nNaN\n",
    "commas": b"," * 100_000 + b"\n" + b"," * 100_000,
    "random": bytes(i * 7919 % 256 for i in range(100_000)),
}


@pytest.mark.some(7)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_ends_in_a_documented_exit(place, name):
    place.source.write_bytes(HOSTILE[name])
    place.write_job(JOB)
    done = place.privatize("--overwrite")
    assert str(done.code) in DOCUMENTED, done.said
    assert "Traceback" not in done.said
    assert len(done.err) < 3000
    done = place.dpcore("estimate", place.source)
    assert str(done.code) in DOCUMENTED - {"0"}, done.said


@pytest.mark.long
@pytest.mark.parametrize(
    "content",
    [
        b"visits,note\n1," + b"x" * 100_000_000 + b"\n2,y\n",
        b"visits," + b",".join(b"c%d" % i for i in range(1_000_000)) + b"\n" + b"1," * 1_000_000,
    ],
    ids=["a line of 100 MB", "a million columns"],
)
def test_text_that_is_far_too_wide_ends_in_a_documented_exit(place, content):
    place.source.write_bytes(content)
    place.write_job(JOB)
    assert str(place.privatize().code) in DOCUMENTED
