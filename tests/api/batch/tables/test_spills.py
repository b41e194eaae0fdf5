"""Rows on disk while a job runs: as they were, and not to be read by others."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

from dpcore.tables.units.spills import Spill

SECRET = "the name of somebody"


def batches():
    rng = np.random.default_rng(1)
    return [
        pa.record_batch({"name": [SECRET, None, f"number {place}"], "v": pa.array(rng.random(3))}).slice(0, size)
        for place, size in enumerate([3, 0, 1, 2, 3] * 5)
    ]


def content(spill):
    spill._file.seek(0)
    return spill._file.read()


def test_batches_come_back_in_any_order_and_from_several_threads(tmp_path):
    some = batches()
    spill = Spill(tmp_path, some[0].schema)
    with ThreadPoolExecutor(4) as pool:
        numbers = list(pool.map(spill.write, some))
        places = np.random.default_rng(2).permutation(len(some))
        found = list(pool.map(lambda place: spill.read(numbers[place]), places))
    assert sorted(numbers) == list(range(len(some)))
    assert all(one.equals(some[place]) for one, place in zip(found, places, strict=True))
    spill.close()


def test_no_cell_is_in_the_file(tmp_path):
    """A file that holds batches as Arrow writes them is the broken twin."""
    some = batches()
    spills = [Spill(tmp_path, some[0].schema) for _ in range(2)]
    for spill in spills:
        for batch in some:
            spill.write(batch)
    first, second = map(content, spills)
    plain = b"".join(memoryview(batch.serialize()) for batch in some)
    assert SECRET.encode() in plain
    assert SECRET.encode() not in first
    assert len(first) == len(second) >= len(plain)
    assert np.mean(np.frombuffer(first, np.uint8) == np.frombuffer(second, np.uint8)) < 0.05
    words = np.frombuffer(first, np.uint64)
    assert len(set(words.tolist())) == len(words), "equal words of one file: a key stream that begins anew"


def test_the_file_has_no_name_and_goes_with_its_owner(tmp_path):
    spill = Spill(tmp_path, batches()[0].schema)
    spill.write(batches()[0])
    assert list(tmp_path.iterdir()) == []
    file = spill._file
    if os.name != "nt":
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
    del spill
    assert file.closed


def test_a_file_that_others_cut_off_is_an_error(tmp_path):
    spill = Spill(tmp_path, batches()[0].schema)
    number = spill.write(batches()[0])
    spill._file.truncate(8)
    with pytest.raises(OSError, match="shorter"):
        spill.read(number)
