"""A job that the system fails, or that is killed, leaves the input as it was and nothing under the output's name."""

from __future__ import annotations

import errno
import os
import random
import runpy
import signal
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore._disk import files as atomic
from dpcore.tables.output import metadata
from support.jobs import COLUMNS, FORMATS, Workplace, damage, peak_memory, people, read_table, start, write_table

posix = pytest.mark.skipif(os.name != "posix", reason="signals and file locks of POSIX are the subject")


@pytest.fixture
def place(tmp_path, capsys):
    return Workplace(tmp_path, capsys)


def failed(place, *words, arguments=()):
    done = place.privatize(*arguments)
    assert done.code == 4, done.said
    for word in words:
        assert word in done.err, (word, done.err)
    assert "Traceback" not in done.err
    assert done.out == ""
    assert place.left_behind() == []


# Input


def test_no_input(place):
    place.write_job()
    failed(place, "in.parquet", "no such file or folder")
    place.source = place.folder / "*.parquet"
    place.write_job()
    failed(place, "no parquet, csv or arrow file found")


def test_no_job_file(place):
    failed(place, "cannot read the job file", os.strerror(errno.ENOENT))


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize("content", [b"", b"PAR1", b"ARROW1", b"neither of them, but long enough for a footer"])
def test_a_file_that_is_not_what_its_ending_says(place, ending, content):
    place.source = place.folder / f"in.{ending}"
    place.source.write_bytes(content)
    place.write_job()
    failed(place, f"in.{ending}: cannot be read as")


@pytest.mark.parametrize("group", [0, 1, 2])
def test_an_unreadable_row_group(place, group):
    write_table(people(300), place.source, row_group_rows=100)
    damage(place.source, group, "income")
    before = place.source.read_bytes()
    place.write_job()
    failed(place, f"in.parquet: row group {group} of 3 (counted from 0) is unreadable")
    assert place.source.read_bytes() == before


def test_columns_that_the_job_does_not_name_are_not_even_read(place):
    write_table(people(300), place.source)
    damage(place.source, 0, "note")
    place.write_job()
    assert place.privatize().code == 0


def test_a_row_group_cut_short(place):
    write_table(people(300), place.source, row_group_rows=100)
    content = place.source.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    place.source.write_bytes(content[: len(content) // 3] + bytes(len(content) - len(content) // 3 - footer) + content[-footer:])
    place.write_job()
    failed(place, "in.parquet: row group", "is unreadable")


def test_a_file_cut_short(place):
    for ending in ("parquet", "arrow"):
        place.source = write_table(people(300), place.folder / f"in.{ending}")
        os.truncate(place.source, place.source.stat().st_size // 2)
        place.write_job()
        failed(place, f"in.{ending}: cannot be read as")


def test_an_unreadable_arrow_batch(place):
    place.source = write_table(people(300), place.folder / "in.arrow", row_group_rows=100)
    content = place.source.read_bytes()
    # The second record batch's message: its header no longer describes a message.
    second = content.index(b"\xff\xff\xff\xff", content.index(b"\xff\xff\xff\xff", 700) + 4)
    place.source.write_bytes(content[: second + 8] + bytes(64) + content[second + 72 :])
    place.write_job()
    failed(place, "in.arrow: record batch", "of 3 (counted from 0) is unreadable")


# Output


class FullDisk:
    """Opens the device that is always full in place of the temporary, for output only."""

    def __init__(self):
        self.open = pa.OSFile

    def __call__(self, path, mode="rb"):
        return self.open("/dev/full" if mode == "wb" else path, mode)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full exists on Linux only; the limit on file size tests the rest of POSIX")
@pytest.mark.parametrize("target", FORMATS)
def test_a_full_disk(place, monkeypatch, target):
    write_table(people(2000), place.source)
    place.target = place.folder / f"out/private.{target}"
    place.write_job()
    monkeypatch.setattr(pa, "OSFile", FullDisk())
    failed(place, f"cannot write {place.target} after", "rows: No space left on device")


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
from dpcore.cli import main
main()
"""


@pytest.mark.long
@posix
@pytest.mark.parametrize("target", FORMATS)
def test_a_file_that_may_not_grow(place, target):
    write_table(people(20_000), place.source)
    place.target = place.folder / f"out/private.{target}"
    place.write_job()
    before = place.source.read_bytes()
    process = start("privatize", place.job, script=LIMITED)
    out, err = process.communicate()
    assert (process.returncode, out) == (4, "")
    assert f"cannot write {place.target} after" in err
    assert os.strerror(errno.EFBIG) in err
    assert place.left_behind() == []
    assert place.source.read_bytes() == before


def test_an_output_folder_that_is_a_file(place):
    write_table(people(5), place.source)
    (place.folder / "out").write_text("")
    place.write_job()
    done = place.privatize()
    assert done.code == 4
    assert "cannot make the folder" in done.err


@pytest.mark.parametrize("target", FORMATS)
def test_a_commit_that_fails(place, monkeypatch, target):
    def refuse(_descriptor):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    write_table(people(5), place.source)
    place.target = place.folder / f"out/private.{target}"
    place.write_job()
    monkeypatch.setattr(os, "fsync", refuse)
    failed(place, "private", os.strerror(errno.EIO))


# Kills


def check_nothing_partial(place, rows):
    """Under the final name there is nothing, or the complete output with its metadata."""
    if place.target.exists():
        assert len(read_table(place.target)) == rows
        if place.target.suffix == ".csv":
            assert metadata.sidecar_path(place.target).exists()


def temporaries(place, pid="*"):
    return list(place.target.parent.glob(f".{place.target.name}.{pid}.*.tmp")) if place.target.parent.exists() else []


def kill_while_writing(place, final_size):
    """Start the job and kill it when its temporary has reached a random size; return the exit code."""
    threshold = random.randrange(final_size)
    process = start("privatize", place.job)

    def written():
        try:
            return max((path.stat().st_size for path in temporaries(place, process.pid)), default=-1)
        except FileNotFoundError:  # renamed in between
            return -1

    while process.poll() is None and written() < threshold:
        time.sleep(0.001)
    process.kill()
    process.communicate()
    # The run has cleaned up after the dead ones before it, and leaves only its own remains to the next.
    assert all(f".{process.pid}." in path.name for path in temporaries(place))
    return process.returncode


def prepare(place, target, rows):
    write_table(people(1000), place.source)
    table = pa.concat_tables([people(1000)] * (rows // 1000))
    write_table(table, place.source, row_group_rows=50_000)
    place.target = place.folder / f"out/private.{target}"
    place.write_job(compression="none")
    assert place.privatize().code == 0
    size = place.target.stat().st_size
    for path in place.target.parent.iterdir():
        path.unlink()
    return size


@pytest.mark.long
@posix
@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.long)])
def test_kill_nine_at_random_moments(place, target, times):
    rows = 3_000_000
    size = prepare(place, target, rows)
    for _ in range(times):
        code = kill_while_writing(place, size)
        check_nothing_partial(place, rows)
        assert code == -signal.SIGKILL or place.target.exists()
        place.target.unlink(missing_ok=True)
    assert place.privatize().code == 0
    assert not [name for name in place.left_behind() if name.endswith((".tmp", ".spill"))]
    check_nothing_partial(place, rows)


SLOW = """
import sys, time
from dpcore.tables.output.output import Output
write = Output.write
def write_slowly(self, batch):
    write(self, batch)
    print("writing", file=sys.stderr, flush=True)
    time.sleep(2)
Output.write = write_slowly
from dpcore.cli import main
main()
"""


@pytest.mark.long
@posix
@pytest.mark.parametrize(
    ("target", "number", "code"),
    [
        ("parquet", signal.SIGTERM, 143),
        ("csv", signal.SIGINT, 130),
        pytest.param("csv", signal.SIGTERM, 143, marks=pytest.mark.long),
        pytest.param("parquet", signal.SIGINT, 130, marks=pytest.mark.long),
    ],
)
def test_an_interrupted_job_cleans_up(place, target, number, code):
    write_table(pa.concat_tables([people(1000)] * 3000), place.source)
    place.target = place.folder / f"out/private.{target}"
    place.write_job()
    process = start("privatize", place.job, script=SLOW)
    # It has some forty seconds to go when the signal arrives.
    while not process.stderr.readline().endswith("writing\n"):
        assert process.poll() is None
    assert temporaries(place)
    process.send_signal(number)
    out, err = process.communicate()
    assert (process.returncode, out) == (code, "")
    assert "nothing was left behind" in err
    assert place.left_behind() == []


@posix
def test_temporaries_of_the_living_are_left_alone(tmp_path):
    path = tmp_path / "private.parquet"
    living = atomic.AtomicFile(path)
    dead = tmp_path / ".private.parquet.1.0123456789abcdef.tmp"
    dead.write_text("left by a killed job")
    spilled = tmp_path / ".private.parquet.1.0123456789abcdef.spill"
    spilled.mkdir()
    (spilled / "block").write_text("more")
    others = [tmp_path / name for name in (".private.parquet.tmp", ".other.parquet.1.0123456789abcdef.tmp", "private.parquet.1.tmp")]
    for other in others:
        other.write_text("not ours")
    assert atomic.remove_stale(path) == [dead]
    assert not spilled.exists()
    assert living.temporary.exists()
    assert all(other.exists() for other in others)
    living.abort()
    assert not living.temporary.exists()


@pytest.mark.long
def test_of_jobs_at_once_one_writes_and_none_disturbs_it(place):
    write_table(people(100_000), place.source)
    place.write_job()
    jobs = [start("privatize", place.job, "--overwrite") for _ in range(3)]
    for job in jobs:
        _, err = job.communicate()
        assert job.returncode == 0 or (job.returncode == 4 and "another job is writing" in err), err
    assert any(job.returncode == 0 for job in jobs)
    assert place.left_behind() == ["private.parquet"]
    assert len(read_table(place.target)) == 100_000


# Memory


@pytest.mark.long
@posix
@pytest.mark.parametrize("source", ["parquet", "arrow"])
def test_memory_does_not_grow_with_a_row_group(place, source):
    rows = 12_000_000
    column = pa.array(range(1000), pa.int64())
    table = pa.table({"visits": pa.chunked_array([column] * (rows // 1000)).combine_chunks()})
    table = table.append_column("income", table["visits"].cast(pa.float64()))
    place.source = write_table(table, place.folder / f"in.{source}", row_group_rows=rows)
    place.write_job({name: COLUMNS[name] for name in ("visits", "income")})
    code, peak, err = peak_memory("privatize", place.job)
    assert code == 0, err
    # Loading the row group alone would take 192 MB more than this process needs.
    assert peak < 350 << 20


@posix
@pytest.mark.long
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("source", ["parquet", "arrow"])
def test_memory_is_bounded_by_decoded_bytes(place, source, kept):
    """A small file whose labels are long: its rows decoded take 1.6 GB."""
    rows = 80_000
    labels = pa.array([str(i % 10) * 20_000 + str(i) for i in range(40)])
    text = pa.DictionaryArray.from_arrays(pa.array([i % 40 for i in range(rows)], pa.int32()), labels)
    table = pa.table({"visits": [i % 20 for i in range(rows)], "text": text})
    place.source = place.folder / f"in.{source}"
    if source == "parquet":
        pq.write_table(table, place.source, store_schema=False)
    else:
        write_table(table, place.source)
    assert place.source.stat().st_size < 4 << 20
    few = {"mechanism": "kary", "epsilon": 1.0, "categories": ["a", "b"], "unknown": "a"}
    place.write_job({"visits": COLUMNS["visits"], **({} if kept else {"text": few})}, keep=["text"] if kept else [])
    code, peak, err = peak_memory("privatize", place.job)
    assert code == 0, err
    assert peak < 600 << 20


@posix
@pytest.mark.long
@pytest.mark.source_tree
def test_peak_memory_on_a_hundred_million_rows(place, repository):
    rows = 100_000_000
    make_rows = runpy.run_path(str(repository / "benchmarks/make_rows.py"))
    make_rows["make_rows"](rows, place.source)
    place.job.write_text(make_rows["JOB"].format(source=place.source, target=place.target), encoding="utf-8")
    code, peak, err = peak_memory("privatize", place.job)
    assert code == 0, err
    assert pq.ParquetFile(place.target).metadata.num_rows == rows
    assert peak <= 600 << 20
