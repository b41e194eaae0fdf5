"""The files of accepted attempts get their names by many threads at once: all of them, or none that anybody sees."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from dpcore._disk.files import AtomicFolder
from dpcore.errors import StorageError
from dpcore.spark import folders
from dpcore.spark.folders import AcceptedAttempts, at_once

FILES = 60
SCHEMA = pa.schema([("x", pa.int64())])


@pytest.fixture
def folder(tmp_path):
    made = AtomicFolder(tmp_path / "out")
    yield made
    made.abort()


def attempts(folder, count=FILES):
    """A file for each partition, and one of an attempt whose answer came too late."""
    rows = []
    for partition in range(count):
        for attempt in ("first", "late"):
            folder.spill.joinpath(f"{partition:05}-{attempt}.arrow").write_text(f"{attempt} {partition}")
        name = f"{partition:05}-first.arrow"
        rows.append({"partition": partition, "name": name, "rows": 1, "bytes": len(f"first {partition}"), "sha256": f"{partition:064}"})
    return rows


def gathered(folder, rows):
    return AcceptedAttempts(rows).gathered(folder, SCHEMA, "arrow", "uncompressed", {})


def test_every_accepted_file_gets_the_name_of_its_partition(folder):
    rows = attempts(folder)
    found = gathered(folder, rows[::-1])
    assert list(found.items()) == [(f"part-{partition:05}.arrow", f"{partition:064}") for partition in range(FILES)]
    assert {path.name: path.read_text() for path in folder.temporary.iterdir()} == {
        f"part-{partition:05}.arrow": f"first {partition}" for partition in range(FILES)
    }
    assert all("late" in path.name for path in folder.spill.iterdir())


@pytest.mark.parametrize("broken", [0, FILES // 2, FILES - 1])
@pytest.mark.parametrize("how", ["gone", "longer", "refused"])
def test_a_rename_that_fails_among_others_shows_nothing_and_leaves_no_thread(folder, monkeypatch, broken, how):
    rows = attempts(folder)
    place, rename, busy = folder.spill / rows[broken]["name"], Path.rename, []

    def slow(self, target):
        busy.append(threading.get_ident())
        if self == place and how == "refused":
            raise PermissionError(13, "refused")
        time.sleep(0.005)
        rename(self, target)
        busy.pop()

    monkeypatch.setattr(Path, "rename", slow)
    if how == "gone":
        place.unlink()
    elif how == "longer":
        place.write_text("another attempt wrote here")
    before = threading.active_count()
    said = {"gone": "is not there", "longer": "another size", "refused": "cannot complete"}[how]
    with pytest.raises(StorageError, match=said):
        gathered(folder, rows)
    moved = sorted(folder.temporary.iterdir())
    assert threading.active_count() == before
    assert len(busy) == (how == "refused")
    time.sleep(0.05)
    assert sorted(folder.temporary.iterdir()) == moved
    assert not folder.path.exists()
    folder.abort()
    assert list(folder.path.parent.iterdir()) == []


def test_files_are_moved_by_many_threads(folder, monkeypatch):
    """On a file system that answers after a while: as long as a sixteenth of the calls take."""
    rename, most, busy, lock = Path.rename, [0], [0], threading.Lock()

    def slow(self, target):
        with lock:
            busy[0] += 1
            most[0] = max(most[0], busy[0])
        time.sleep(0.02)
        rename(self, target)
        with lock:
            busy[0] -= 1

    monkeypatch.setattr(Path, "rename", slow)
    gathered(folder, attempts(folder))
    assert most[0] == folders.AT_ONCE


def test_what_has_not_begun_is_not_done_after_an_error():
    done = []

    def work(item):
        if item == 0:
            raise OSError(5, "broken")
        time.sleep(0.01)
        done.append(item)

    with pytest.raises(OSError, match="broken"):
        at_once(work, range(10_000))
    assert len(done) < 500


def test_a_partition_with_two_answers_is_refused(folder):
    rows = attempts(folder, 3)
    with pytest.raises(StorageError, match="two answers"):
        AcceptedAttempts([*rows, rows[1]])
