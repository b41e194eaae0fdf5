"""What diffprivlib's tools read under dpcore, in every container: each cell by itself, in a shape that no cell decides.

Nothing here knows how a container is read. A cell is known by what `released` gives for it alone.
"""

from __future__ import annotations

import math
from array import array
from collections import UserList, deque
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from diffprivlib import tools
from diffprivlib.utils import PrivacyLeakWarning

from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.interop import diffprivlib as backend


@pytest.fixture(autouse=True)
def served() -> Iterator[None]:
    """dpcore beneath diffprivlib, arrays included."""
    with backend.install(vectorise=True):
        yield


NO_NOISE = math.inf
LARGE = 2**53 + 1


def total(cells: Any, **options: Any) -> Any:
    """The sum of cells cut to integers, without noise: it tells every digit of each."""
    return tools.sum(cells, epsilon=NO_NOISE, bounds=(0, 2**54), dtype=int, **options)


def mean(cells: Any, **options: Any) -> Any:
    """The mean within [0, 8], without noise, of the cells that are there."""
    return tools.nanmean(cells, epsilon=NO_NOISE, bounds=(0.0, 8.0), **options)


# What counts as a number


class Double(float):
    """A float of somebody else."""


class Count(IntEnum):
    """An integer of somebody else."""

    THREE = 3


class Hostile(float):
    """A float that raises whatever it is asked."""

    def _raise(self, *_: object) -> Any:
        raise RuntimeError

    __float__ = __int__ = __trunc__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _raise


class Lying(int):
    """An integer that is larger than none and smaller than none."""

    def _no(self, _other: object) -> bool:
        return False

    __lt__ = __le__ = __gt__ = __ge__ = _no


NUMBERS = [
    3, 3.0, True, np.True_, np.bool_(False), Double(3), Count.THREE, Fraction(3), Decimal(3), np.longdouble(3), np.float16(3), np.int8(3),
    np.uint64(3), np.array(3.0), np.array(3, object), 2**70, -(2**70), Lying(2**80),
]  # fmt: skip
NO_NUMBERS = [None, "3", b"3", 3j, np.timedelta64(3, "s"), np.datetime64("2020"), pd.NA, pd.NaT, object(), Hostile(3), {3}, {3: 3}]


def expected(cell: Any) -> float:
    """A number within [0, 8]."""
    return min(max(float(int(cell)), 0.0), 8.0)


@pytest.mark.parametrize("cell", NUMBERS, ids=lambda cell: f"{type(cell).__name__} {cell!r}")
def test_every_number_in_a_list_counts(cell: Any) -> None:
    for cells in ([cell], (cell,), [cell, cell], [cell, None], [None, cell]):
        assert mean(cells) == pytest.approx(expected(cell))
    assert mean([cell, 4.0]) == pytest.approx((expected(cell) + 4) / 2)
    assert tools.sum([cell, 4.0], epsilon=NO_NOISE, bounds=(0, 8), dtype=int) == int(expected(cell)) + 4
    assert mean(cell) == pytest.approx(expected(cell))


def test_comparisons_of_an_array_are_numbers_one_by_one() -> None:
    values = np.array([0.2, 0.7, 0.9, 0.1])
    assert tools.mean([value > 0.5 for value in values], epsilon=NO_NOISE, bounds=(0, 1)) == 0.5
    assert tools.mean(values > 0.5, epsilon=NO_NOISE, bounds=(0, 1)) == 0.5


@pytest.mark.parametrize("cell", NO_NUMBERS, ids=lambda cell: type(cell).__name__)
def test_what_is_no_number_in_a_list_is_missing(cell: Any) -> None:
    assert mean([cell, 4.0]) == 4
    assert tools.sum([cell, 4.0], epsilon=NO_NOISE, bounds=(0, 8), dtype=int) == 4
    assert math.isnan(tools.mean([cell, 4.0], epsilon=NO_NOISE, bounds=(0, 8)))


# Containers of one axis

CELLS: list[Any] = [LARGE, 3, None, 0]


def objects(cells: list[Any]) -> Any:
    """An array of objects of one axis."""
    return np.fromiter(cells, object, len(cells))


class Other:
    """An array of another library, which NumPy can read."""

    def __init__(self, cells: list[Any]) -> None:
        self.cells = cells

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return objects(self.cells)


COLUMNS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "deque": deque,
    "UserList": UserList,
    "array of objects": objects,
    "array of another library": Other,
    "pyarrow.Array": pa.array,
    "pyarrow.ChunkedArray": lambda cells: pa.chunked_array([cells[:1], cells[1:]], pa.int64()),
    "pyarrow dictionary": lambda cells: pa.array(cells, pa.int64()).dictionary_encode(),
    "pyarrow decimal": lambda cells: pa.array([cell if cell is None else Decimal(cell) for cell in cells], pa.decimal128(38, 0)),
    "pandas Int64": lambda cells: pd.Series(cells, dtype="Int64"),
    "pandas object": lambda cells: pd.Series(cells, dtype=object),
    "pandas Arrow": lambda cells: pd.Series(cells, dtype=pd.ArrowDtype(pa.int64())),
    "pandas category": lambda cells: pd.Series(cells, dtype=object).astype("category"),
    "pandas Index": lambda cells: pd.Index(cells, dtype=object),
    "pandas array": lambda cells: pd.array(cells, dtype="Int64"),
    "pandas array of Arrow": lambda cells: pd.array(cells, dtype=pd.ArrowDtype(pa.int64())),
    "polars Series": lambda cells: pl.Series(cells, dtype=pl.Int64),
    "polars Object": lambda cells: pl.Series(cells, dtype=pl.Object),
}


def in_pairs(columns: list[list[Any]], make: Callable[[list[Any]], Any] = list) -> dict[str, Any]:
    """Columns by name."""
    return {name: make(column) for name, column in zip("ab", columns, strict=True)}


FRAMES: dict[str, Callable[[list[list[Any]]], Any]] = {
    "list of lists": lambda columns: [list(row) for row in zip(*columns, strict=True)],
    "list of tuples": lambda columns: list(zip(*columns, strict=True)),
    "list of arrays": lambda columns: [objects(list(row)) for row in zip(*columns, strict=True)],
    "array of objects": lambda columns: np.stack([objects(column) for column in columns], axis=1),
    "pyarrow.Table": lambda columns: pa.table(in_pairs(columns)),
    "pyarrow.Table with one name": lambda columns: pa.table([pa.array(column) for column in columns], ["a", "a"]),
    "pyarrow.RecordBatch": lambda columns: pa.record_batch(in_pairs(columns)),
    "pandas.DataFrame": lambda columns: pd.DataFrame(in_pairs(columns, COLUMNS["pandas Int64"])),
    "pandas.DataFrame of objects": lambda columns: pd.DataFrame(in_pairs(columns), dtype=object),
    "pandas.DataFrame of two types": lambda columns: pd.DataFrame(in_pairs(columns, COLUMNS["pandas Int64"])).astype({"b": "Float64"}),
    "pandas.DataFrame with one name": lambda columns: pd.concat(
        [pd.Series(column, dtype="Int64", name="a") for column in columns], axis=1
    ),
    "polars.DataFrame": lambda columns: pl.DataFrame(in_pairs(columns)),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_each_cell_of_a_column_is_read_as_alone(name: str) -> None:
    make = COLUMNS[name]
    assert total(make(CELLS)) == sum(total([cell]) for cell in CELLS) == LARGE + 3
    assert mean(make([2, 4, None])) == 3
    assert tools.count_nonzero(make([0, 0, 5]), epsilon=NO_NOISE) == 1
    counts, _ = tools.histogram(make([2**53, LARGE, 2**53 + 2]), epsilon=NO_NOISE, bins=[2**53, 2**53 + 2], range=(0, 1))
    assert counts.sum() == 3
    with pytest.warns(PrivacyLeakWarning):
        tools.nanmean(make(CELLS), epsilon=NO_NOISE)


def test_an_array_of_the_standard_library_is_read() -> None:
    assert total(array("q", [LARGE, 3])) == LARGE + 3
    assert total(range(4)) == 6


@pytest.mark.parametrize("name", FRAMES)
def test_each_cell_of_a_frame_is_read_as_alone(name: str) -> None:
    made = FRAMES[name]([CELLS, [1, 1, 1, None]])
    assert total(made) == LARGE + 6
    assert total(made, axis=0).tolist() == [LARGE + 3, 3]
    assert mean(FRAMES[name]([[2, 4, None], [1, None, 2]]), axis=0) == pytest.approx([3, 1.5])
    assert mean(FRAMES[name]([[2, 4, None], [1, None, 2]]), axis=1) == pytest.approx([1.5, 4, 2])


# No cell decides the shape

OBJECT_COLUMNS = ["array of objects", "array of another library", "pandas object", "pandas Index", "polars Object"]
NESTED = [[3], [3, 4], (), np.array([3, 4]), [[3]], pa.array([3])]


@pytest.mark.parametrize("name", OBJECT_COLUMNS)
@pytest.mark.parametrize("cell", NESTED, ids=[f"{type(each).__name__} {place}" for place, each in enumerate(NESTED)])
def test_a_list_in_a_cell_is_no_number_and_decides_nothing(name: str, cell: Any) -> None:
    make = COLUMNS[name]
    for cells in ([cell, 4, 2], [4, 2, cell], [cell, cell, 3], [cell] * 3 + [3]):
        there = [each for each in cells if isinstance(each, int)]
        assert mean(make(cells)) == sum(there) / len(there)
        assert np.ndim(mean(make(cells), axis=0)) == 0
    assert mean(make([cell, cell])) == 4  # the middle of the bounds: no number at all
    table = np.empty((2, 2), object)
    table[:] = [[1, 2], [3, 4]]
    table[1, 1] = cell
    assert mean(table, axis=0) == pytest.approx([2, 2])


LISTS = [
    pa.array([[1, 2], [3, 4]]), pa.array([[1, 2], [3]]), pa.array([None], pa.list_(pa.int64())), pa.array([{"a": 1}]),
    pa.array([[1, 2]], pa.list_(pa.int64(), 2)), pa.chunked_array([[[1, 2]]]), pa.table({"a": [1], "b": [[1]]}),
    pl.Series([[1, 2], [3, 4]]), pl.Series([[1, 2]], dtype=pl.Array(pl.Int64, 2)), pl.Series([{"a": 1}]),
    pl.DataFrame({"a": [1], "b": [[1]]}),
    pd.Series([[1, 2]], dtype=pd.ArrowDtype(pa.list_(pa.int64()))), pd.array([[1, 2], [3, 4]], dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
    pd.DataFrame({"a": pd.Series([[1, 2]], dtype=pd.ArrowDtype(pa.list_(pa.int64())))}),
]  # fmt: skip


@pytest.mark.parametrize("column", LISTS, ids=lambda column: f"{type(column).__module__}.{type(column).__name__}")
def test_a_column_of_lists_is_refused_by_its_type(column: Any) -> None:
    for call in (mean, total, lambda cells: tools.count_nonzero(cells, epsilon=1.0)):
        with pytest.raises(ParameterTypeError, match="array must have columns of numbers"):
            call(column)


@pytest.mark.parametrize(
    "cells", [[[1, 2], [3]], [[1, 2], 3], [3, [1, 2]], [[[1], [2]], [[1], 2]], [[1, 2], None], [np.zeros(2), np.zeros(3)]], ids=str
)
def test_the_shape_of_lists_in_a_list_is_public_and_refused_if_it_is_ragged(cells: Any) -> None:
    for call in (mean, total, lambda cells: tools.count_nonzero(cells, epsilon=1.0)):
        with pytest.raises(ParameterError, match="its shape is public") as found:
            call(cells)
        assert not any(digit in str(found.value) for digit in "123")
    assert mean(objects([*cells, 5.0])) <= 5  # where the shape is that of the container, nothing is refused


def test_lists_in_lists_have_the_shape_of_numpy() -> None:
    for cells in ([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], [[1], [2]], ((1, 2), [3, 4])):
        shaped = np.array(cells, float)
        found = mean([cells, cells], axis=0)
        assert np.shape(found) == shaped.shape
        assert np.allclose(found, shaped)
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises((ParameterError, TypeError, ValueError)):
        tools.mean(circle, epsilon=1.0, bounds=(0, 1), axis=40)


# No container


class Iterable:
    """What gives numbers, once."""

    def __iter__(self) -> Iterator[int]:
        return iter([1, 2])


NO_CONTAINERS = {
    "LazyFrame": lambda: pl.LazyFrame({"a": [1.0, 2.0]}),
    "generator": lambda: (x for x in (1.0, 2.0)),
    "map": lambda: map(float, [1, 2]),
    "iterable": Iterable,
    "set": lambda: {1.0, 2.0},
    "dict": lambda: {"a": 1.0},
    "str": lambda: "12",
    "bytes": lambda: b"12",
    "None": lambda: None,
    "type": lambda: pd.Series,
    "reader": lambda: pa.table({"a": [1]}).to_reader(),
}


@pytest.mark.parametrize("name", NO_CONTAINERS)
def test_what_is_no_container_is_refused_and_charges_nothing(name: str) -> None:
    from diffprivlib import BudgetAccountant

    account = BudgetAccountant()
    calls: list[Callable[[Any], Any]] = [
        lambda cells: tools.nanmean(cells, epsilon=1.0, bounds=(0, 8), accountant=account),
        lambda cells: tools.sum(cells, epsilon=1.0, bounds=(0, 8), dtype=int, accountant=account),
        lambda cells: tools.count_nonzero(cells, epsilon=1.0, accountant=account),
        lambda cells: tools.histogram(cells, epsilon=1.0, range=(0, 8), accountant=account),
    ]
    for call in calls:
        with pytest.raises(ParameterTypeError, match=r"array must be numbers in a list.* got one of type"):
            call(NO_CONTAINERS[name]())
    assert account.total() == (0, 0)


# Broken twins


def test_reading_as_one_array_of_numpy_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """As before: NumPy's array of objects takes its shape from the cells, and what is no container for one cell."""
    from dpcore.interop.diffprivlib import _records

    def at_once(cells: Any) -> Any:
        return np.array(cells.to_list() if hasattr(cells, "to_list") else cells, object)

    monkeypatch.setattr(_records, "_objects", at_once)
    with pytest.raises(AssertionError):
        test_a_list_in_a_cell_is_no_number_and_decides_nothing("pandas object", [3])
    with pytest.raises(pytest.fail.Exception):
        test_what_is_no_container_is_refused_and_charges_nothing("set")
    with pytest.raises(pytest.fail.Exception):
        test_a_column_of_lists_is_refused_by_its_type(pl.Series([[1, 2], [3, 4]]))


def test_the_dict_of_a_table_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpcore.interop.diffprivlib import _records

    monkeypatch.setattr(_records, "_objects", lambda table: np.array(list(table.to_pydict().values()), object).T)
    with pytest.raises(AssertionError):
        test_each_cell_of_a_frame_is_read_as_alone("pyarrow.Table with one name")
