"""How a row of a release is read must be a function of that row alone: null ones in the same piece, say, change nothing."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpcore.query.encoders import Bins, Categorical, Clamped, Grid, InRange
from dpcore.sums import clamped_sum
from dpcore.tables.types.categories import declared_by

BOUNDS = ((0.0, 0.1), (0.5, 1.0), (0.0, 2049.0), (-5.0, 70000.0), (1, 2**60), (0.5, 2.0**63), (-(2**63), 2**62))
FLOATS = [0.0, 0.1, 0.5, 1.0, 2.0, 2048.0, 65504.0, float("inf"), -float("inf")]
WIDE = [0, 1, 2, 100, 2**53 + 1, 2**60 + 1, 2**63 - 1]
CELLS: dict[pa.DataType, list[Any]] = {
    pa.float16(): [np.float16(value) for value in FLOATS],
    pa.float32(): FLOATS,
    pa.float64(): FLOATS,
    pa.int8(): [-128, -5, 0, 1, 2, 127],
    pa.int64(): [-(2**63), *WIDE],
    pa.uint64(): [*WIDE, 2**63, 2**64 - 1],
    pa.bool_(): [False, True],
}


def readers(lower: float, upper: float) -> list[Any]:
    edges = (float(lower), (float(lower) + float(upper)) / 2, float(upper))
    return [InRange(float(lower), float(upper)), Clamped((lower, upper), lower), Bins.between(edges, lower), Grid.of(edges, lower)]


def each(reader: Any, lower: float, upper: float, read: np.ndarray) -> list[Any]:
    """What the query makes of every single row."""
    if isinstance(reader, Clamped):
        return [clamped_sum(read[i : i + 1], lower, upper).integers for i in range(len(read))]
    return read.tolist()


@pytest.mark.parametrize("kind", CELLS, ids=str)
@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
def test_reading_a_number_looks_at_no_other_row(kind: pa.DataType, lower: float, upper: float) -> None:
    cells = CELLS[kind]
    others: list[list[Any]] = [[None], [None, None]]
    if pa.types.is_floating(kind):
        others.append([np.float16("nan") if kind == pa.float16() else float("nan")])
    for reader in readers(lower, upper):
        alone = list(itertools.chain.from_iterable(each(reader, lower, upper, reader.read(pa.array([cell], kind))) for cell in cells))
        for more in [[], *others]:
            together = each(reader, lower, upper, reader.read(pa.array([*cells, *more], kind))[: len(cells)])
            assert together == alone, (reader, more)


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint64(), pa.dictionary(pa.int8(), pa.int64())], ids=str)
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("listed", [(0, 1, 2), (2, 1, 77), (300, 2)])
def test_reading_a_category_looks_at_no_other_row(kind: pa.DataType, skip: bool, listed: tuple[int, ...]) -> None:
    categories = declared_by(listed)
    assert categories is not None
    reader = Categorical(categories.for_type(kind), skip=skip) if skip else Categorical(categories.for_type(kind), listed[0], listed[1])
    cells = [0, 1, 2, 77, 127]
    alone = [int(reader.read(of_kind([cell], kind))[0]) for cell in cells]
    for more in ([], [None], [None, 5, None]):
        assert reader.read(of_kind([*cells, *more], kind))[: len(cells)].tolist() == alone


def of_kind(cells: list[int | None], kind: pa.DataType) -> pa.Array:
    values = pa.array(cells, pa.int64())
    return values.dictionary_encode() if pa.types.is_dictionary(kind) else values.cast(kind)
