"""Numbers are read where they are, whatever a file says about the length of its buffers."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from dpcore.tables.types.slices import stored

NUMBERS = [3, 1, 4, 1, 5, 9, 2]
KINDS = {
    "int8": pa.int8(),
    "uint16": pa.uint16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
}


@pytest.mark.parametrize("behind", [b"", b"\1\2\3", bytes(64)])
@pytest.mark.parametrize("name", KINDS)
def test_numbers_of_a_slice(name, behind):
    values = pa.array(NUMBERS, KINDS[name])
    longer = pa.py_buffer(values.buffers()[1].to_pybytes()[: len(NUMBERS) * np.dtype(name).itemsize] + behind)
    cells = pa.Array.from_buffers(KINDS[name], 4, [None, longer], offset=2)
    assert stored(cells, name).tolist() == cells.to_pylist() == NUMBERS[2:6]
    assert stored(cells[:0], name).tolist() == []


def test_ends_of_texts_and_words_of_decimals():
    texts = pa.array(["ab", "", "c", "def"])[1:]
    assert stored(texts, np.int32, more=1).tolist() == [2, 2, 3, 6]
    assert stored(texts[:0], np.int32, more=1).tolist() == [0]
    decimals = pa.array([-1, 2**70], pa.decimal128(38))
    assert stored(decimals, np.uint64, words=2).tolist() == [[2**64 - 1, 2**64 - 1], [0, 64]]
    assert stored(decimals[:0], np.uint64, words=2).shape == (0, 2)
