"""A release with synthetic tables that rows or the system fail, or that is killed, leaves no table that is not whole."""

from __future__ import annotations

import errno
import json
import os
import signal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore._disk.sealed_files import move_into_place
from dpcore.accounting import Ledger
from dpcore.tables.output import publication
from support.jobs import FORMATS, peak_memory, start, write_table
from support.releases import Counter, clinic

posix = pytest.mark.skipif(os.name != "posix", reason="signals and file locks of POSIX are the subject")
SECRET = "48151623"


@pytest.fixture
def place(tmp_path, capsys):
    place = Counter(tmp_path, capsys)
    write_table(clinic(300), place.source, row_group_rows=100)
    return place


@pytest.fixture
def ledger(place):
    return Ledger.create(place.folder / "budget.ledger", epsilon=3.0)


def failed(place, code, *words, options=()):
    done = place.release(*options)
    assert done.code == code, done.said
    for word in words:
        assert word in done.err, (word, done.err)
    assert SECRET not in done.said
    assert "Traceback" not in done.err
    assert done.out == ""
    assert place.left_behind() == []


# Rows


@pytest.mark.some(10)
@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize(
    ("column", "cells", "row", "problem"),
    [
        ({"categories": ["a", "b"]}, ["a", "b", SECRET], 2, "not one of the declared categories, and the job declares no `unknown`"),
        ({"categories": ["a", "b"], "unknown": "a"}, ["a", SECRET, None], 2, "null, and the job declares no `missing`"),
        ({"k": 2}, [0, 1, int(SECRET)], 2, "not one of the declared categories"),
        ({"edges": [0, 1, 2]}, [0.5, None, float(SECRET)], 1, "empty or not a number, and the job declares no `missing`"),
    ],
)
def test_cells_that_no_column_declares(place, ledger, source, column, cells, row, problem):
    place.source = write_table(pa.table({"m": ["-"] * 3, "n": cells}), place.folder / f"in.{source}")
    columns = [{"name": "m", "categories": ["-"]}, {"name": "n", **column}]
    place.write_release({"x": place.synthetic(columns=columns)})
    failed(place, 3, f"in.{source}: row {row} (counted from 0), column 'n': {problem}", options=["--curator"])
    place.write_release({"x": place.synthetic(columns=columns)}, ledger=ledger.path)
    failed(place, 2, "must be declared where a ledger pays")
    assert list(ledger.entries()) == []


def test_a_row_that_takes_no_part_is_checked_as_well(place):
    """Whether there is a table must not depend on the random choice of rows."""
    write_table(pa.table({"person": [0] * 50, "n": [1.0] * 49 + [None]}), place.source)
    columns = [{"name": "n", "edges": [0, 1, 2]}]
    place.write_release({"x": place.synthetic(columns=columns)}, privacy={"unit": "person", "max_rows_per_unit": 1})
    failed(place, 3, "row 49 (counted from 0), column 'n'", options=["--curator"])


# The system


@pytest.mark.parametrize("ending", FORMATS)
def test_a_folder_of_the_table_that_is_a_file(place, ledger, ending):
    (place.folder / "elsewhere").write_text("")
    place.write_release({"x": place.synthetic(output=str(place.folder / f"elsewhere/made.{ending}"))}, ledger=ledger.path)
    failed(place, 4, "cannot make the folder")
    assert list(ledger.entries()) == []


def test_folders_above_the_table_are_made(place):
    place.write_release({"x": place.synthetic(output=str(place.folder / "some/where/made.csv"))})
    assert place.release().code == 0
    assert sorted(path.name for path in (place.folder / "some/where").iterdir()) == ["made.csv", "made.csv.dpcore.json"]
    assert place.left_behind() == ["answers.json"]


LIMITED = """
import resource, sys
import importlib
release = importlib.import_module("dpcore.query.run")
def limited(*args):
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16,) * 2)
    return write_rows(*args)
write_rows, release.write_rows = release.write_rows, limited
from dpcore.cli import main
main()
"""


@pytest.mark.long
@posix
@pytest.mark.parametrize("ending", FORMATS)
def test_no_room_for_the_table(place, ledger, ending):
    """What was drawn is spent; there is no table, and of an earlier one nothing is lost."""
    place.write_release({"x": place.synthetic(ending)})
    assert place.release().code == 0
    before = {path.name: path.read_bytes() for path in place.target.parent.iterdir()}
    place.write_release({"x": place.synthetic(ending, draws=1_000_000)}, ledger=ledger.path)
    process = start("release", place.job, "--overwrite", script=LIMITED)
    out, err = process.communicate()
    assert (process.returncode, out) == (4, ""), err
    assert "cannot write" in err
    assert os.strerror(errno.EFBIG) in err
    assert f"made.{ending}" in err
    assert "Traceback" not in err
    assert {path.name: path.read_bytes() for path in place.target.parent.iterdir()} == before
    assert [(entry.epsilon, entry.state, entry.reason) for entry in ledger.entries()] == [(1.0, "failed", "storage")]


@pytest.mark.parametrize("failing", ["answers.json", "second.csv", "second.csv.dpcore.json"])
def test_a_table_that_cannot_be_put_in_its_place_takes_the_others_back(place, monkeypatch, failing):
    def move(file, *, overwrite):
        if file.path.name == failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(file.path))
        move_into_place(file, overwrite=overwrite)

    monkeypatch.setattr(publication, "move_into_place", move)
    second = place.synthetic(output=str(place.target.parent / "second.csv"))
    place.write_release({"x": place.synthetic("csv"), "y": second})
    failed(place, 4, "cannot complete", failing, os.strerror(errno.EIO))


@pytest.mark.parametrize("failing", ["answers.json", "second.csv", "second.csv.dpcore.json"])
def test_tables_that_a_ledger_knows_are_finished_by_the_next_command(place, ledger, monkeypatch, failing):
    def move(file, *, overwrite):
        if file.path.name == failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(file.path))
        move_into_place(file, overwrite=overwrite)

    second = place.synthetic(output=str(place.target.parent / "second.csv"))
    place.write_release({"x": place.synthetic("csv"), "y": second}, ledger=ledger.path)
    with monkeypatch.context() as patch:
        patch.setattr(publication, "move_into_place", move)
        done = place.release()
    assert (done.code, "sealed in the ledger" in done.err) == (4, True), done.said
    assert [entry.state for entry in ledger.entries()] == ["sealed"]
    done = place.release()
    assert (done.code, "already published" in done.err) == (0, True), done.said
    assert [(entry.epsilon, entry.state) for entry in ledger.entries()] == [(2.0, "done")]
    assert place.left_behind() == sorted(["answers.json", "made.csv", "made.csv.dpcore.json", "second.csv", "second.csv.dpcore.json"])


PAUSED = """
import sys, time
from dpcore.query.made_rows import SyntheticTable
batches = SyntheticTable.batches
def paused(self):
    parts = batches(self, 1000)
    yield next(parts)
    print("drawn", file=sys.stderr, flush=True)
    time.sleep(30)
    yield from parts
SyntheticTable.batches = paused
from dpcore.cli import main
main()
"""


@pytest.mark.some(1)
@posix
@pytest.mark.parametrize(
    ("ending", "number", "code"),
    [("parquet", signal.SIGKILL, -9), ("csv", signal.SIGKILL, -9), ("csv", signal.SIGTERM, 143), ("parquet", signal.SIGINT, 130)],
)
def test_a_job_that_ends_while_it_draws_rows(place, ledger, ending, number, code):
    place.write_release({"x": place.synthetic(ending, draws=5000)}, ledger=ledger.path)
    process = start("release", place.job, script=PAUSED)
    while not process.stderr.readline().endswith("drawn\n"):  # behind what the log tells of progress
        assert process.poll() is None
    process.send_signal(number)
    out, err = process.communicate()
    assert (process.returncode, out) == (code, "")
    assert not [name for name in place.left_behind() if not name.startswith(".")]
    if number != signal.SIGKILL:
        assert place.left_behind() == []
        assert "the ledger was charged before the job ended, and stays charged" in err
    left = ("reserved", None) if number == signal.SIGKILL else ("failed", "interrupted")
    assert [(entry.epsilon, entry.state, entry.reason) for entry in ledger.entries()] == [(1.0, *left)]
    # The next job removes what the killed one left.
    assert place.release().code == 0
    sidecar = ["made.csv.dpcore.json"] if ending == "csv" else []
    assert place.left_behind() == sorted(["answers.json", f"made.{ending}", *sidecar])
    assert json.loads(place.target.read_text(encoding="utf-8"))["queries"][0]["value"]["rows"] == 5000


def test_an_earlier_table_stays_until_the_new_one_is_whole(place):
    place.write_release({"x": place.synthetic()})
    assert place.release().code == 0
    before = pq.read_table(place.target.parent / "made.parquet")
    write_table(clinic(300).slice(0, 299).append_column("x", pa.array([None] * 299)), place.source)
    place.write_release({"x": place.synthetic(columns=[{"name": "region", "categories": ["north", "east"]}])})
    done = place.release("--overwrite")
    assert done.code == 3
    assert pq.read_table(place.target.parent / "made.parquet") == before


@posix
@pytest.mark.long
def test_peak_memory_of_the_largest_histogram(place):
    """2^24 cells: counts, noisy counts, and the running sums of those above 0; rows stream through."""
    index = np.arange(3_000_000)
    write_table(
        pa.table({name: (index * factor >> 7) % 256 for name, factor in (("a", 7919), ("b", 104_729), ("c", 1_299_709))}), place.source
    )
    columns = [{"name": name, "k": 256} for name in "abc"]
    place.write_release({"x": place.synthetic(columns=columns, max_cells=2**24, draws=5_000_000)})
    code, peak, err = peak_memory("release", place.job)
    assert code == 0, err
    assert peak <= 900 << 20
    assert pq.read_metadata(place.target.parent / "made.parquet").num_rows == 5_000_000


@posix
@pytest.mark.long
def test_peak_memory_of_a_million_groups(place):
    """Sums and counts of 10^6 groups for each thread, then noise, and an answer for each in the document."""
    index = np.arange(3_000_000)
    table = pa.table({"a": index * 7919 % 1000, "b": index * 104_729 % 1009, "x": index % 7 / 2})
    write_table(table, place.source)
    groups = {"group_by": ["a", "b"], "groups": {"a": {"k": 1000}, "b": {"k": 1000}}}
    place.write_release({"x": {"kind": "mean", "column": "x", "lower": 0, "upper": 3, "missing": 0, **groups}}, epsilon=100.0)
    code, peak, err = peak_memory("release", place.job)
    assert code == 0, err
    assert peak <= 1 << 30
    (answer,) = json.loads(place.target.read_text(encoding="utf-8"))["queries"]
    counts = np.bincount((index * 7919 % 1000 * 1000 + index * 104_729 % 1009)[index * 104_729 % 1009 < 1000], minlength=10**6)
    assert np.abs(np.array(answer["count"]) - counts).max() <= 2
