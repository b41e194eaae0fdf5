"""Columns of every type with nulls, chunks and offsets; every mechanism; and the slow twin of a release: one list at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from dpcore import local, mechanisms
from dpcore.rng import resolve
from dpcore.testing import KeyedRandom
from support.jobs import KEY

FLOATS = {pa.float16(): np.float16, pa.float32(): np.float32, pa.float64(): np.float64}
SIGNED = {pa.int8(): np.int8, pa.int16(): np.int16, pa.int32(): np.int32, pa.int64(): np.int64}
UNSIGNED = {pa.uint8(): np.uint8, pa.uint16(): np.uint16, pa.uint32(): np.uint32, pa.uint64(): np.uint64}
INTEGERS = SIGNED | UNSIGNED
NUMPY = FLOATS | INTEGERS | {pa.bool_(): np.bool_}
WHOLE = pa.decimal128(38, 0)
LABELS = ("a", "b", "cde", "")
TEXTS = (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.uint32(), pa.large_string()))

REALS = {
    "Laplace": mechanisms.Laplace(1.0, 1.0),
    "Gaussian": mechanisms.Gaussian(1.0, 1e-6, 1.0),
    "LocalLaplace": local.LocalLaplace(1.0, -10.0, 10.0),
    "LocalGaussian": local.LocalGaussian(1.0, 1e-6, -10.0, 10.0),
}
WHOLES = {
    "DiscreteLaplace": mechanisms.DiscreteLaplace(0.1, 1),
    "DiscreteGaussian": mechanisms.DiscreteGaussian(1.0, 1e-6, 1),
    "LocalDiscreteLaplace": local.LocalDiscreteLaplace(1.0, -10, 10),
    "LocalDiscreteGaussian": local.LocalDiscreteGaussian(1.0, 1e-6, -10, 10),
}
BITS = {"BoundedMean": local.BoundedMean(1.0, -10.0, 10.0)}
ANSWERS = {"BinaryResponse": local.BinaryResponse(1.0)}
CODED = {
    "KaryResponse": local.KaryResponse(1.0, k=5),
    "BinaryChannel": local.BinaryChannel(1.0, (0.0, 1.0, -1.0, 0.5, 0.2)),
    "UnaryEncoding": local.UnaryEncoding(1.0, k=5),
    "SubsetSelection": local.SubsetSelection(1.0, k=12),
    "LocalHashing": local.LocalHashing(1.0, k=5),
    "HadamardResponse": local.HadamardResponse(1.0, k=5),
    "ProjectiveGeometryResponse": local.ProjectiveGeometryResponse(1.0, k=5),
}
LABELLED = {
    "KaryResponse of labels": local.KaryResponse.from_categories(1.0, LABELS),
    "UnaryEncoding of labels": local.UnaryEncoding.from_categories(1.0, LABELS),
    "BinaryChannel of labels": local.BinaryChannel(1.0, (0.0, 1.0, -1.0, 0.5), categories=LABELS),
}
QUIET = {
    "Laplace": mechanisms.Laplace(1e15, 1.0),
    "DiscreteLaplace": mechanisms.DiscreteLaplace(100.0, 1),
    "BinaryResponse": local.BinaryResponse(500.0),
    "KaryResponse": local.KaryResponse(500.0, k=5),
    "KaryResponse of labels": local.KaryResponse.from_categories(500.0, LABELS),
}
"""Mechanisms that change nothing, but with probability below 10^-40 or behind the tenth digit: results show what they were made of."""
MECHANISMS = REALS | WHOLES | BITS | ANSWERS | CODED | LABELLED


@dataclass(frozen=True)
class Stream:
    """A column or a table of a library that nobody knows."""

    data: Any

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.data.__arrow_c_stream__(requested_schema)


@dataclass(frozen=True)
class Case:
    """A column, its cells as lists, and what is done with it."""

    name: str
    kind: pa.DataType
    chunks: list[list[Any]]
    cells: pa.ChunkedArray
    missing: Any
    dtype: str

    @property
    def mechanism(self) -> Any:
        return MECHANISMS[self.name]

    def expected(self) -> list[Any]:
        """The slow twin's answer."""
        return twin(self.name, self.kind, self.chunks, self.missing, self.dtype)


def is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def kinds_of(name: str) -> list[pa.DataType]:
    """Types of columns that the mechanism takes."""
    if name in REALS or name in BITS:
        return [*FLOATS, *INTEGERS, WHOLE]
    if name in WHOLES:
        return [*INTEGERS, WHOLE]
    if name in ANSWERS:
        return [pa.bool_(), *INTEGERS]
    return list(TEXTS) if name in LABELLED else list(INTEGERS)


def cells_of(name: str, kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Cells, without missing ones."""
    if kind in TEXTS:
        return st.sampled_from(LABELS)
    if kind == pa.bool_() or name in ANSWERS:
        return st.booleans().map(bool if kind == pa.bool_() else int)
    if name in CODED:
        return st.integers(0, 4)
    if kind in FLOATS:
        return st.floats(-100, 100, width=16)
    low = 0 if kind in UNSIGNED else -100
    return st.integers(low, 100)


def stand_in_of(name: str, kind: pa.DataType) -> st.SearchStrategy[Any]:
    found = cells_of(name, kind)
    return found.map(bool) if name in ANSWERS else found


def array_of(cells: list[Any], kind: pa.DataType, before: list[Any], behind: list[Any], *, bitmap: bool) -> pa.Array:
    """An array of these cells, as a slice of a longer one; what lies under a null is no number."""
    whole = [*before, *cells, *behind]
    if kind in NUMPY and kind != pa.bool_():
        garbage = np.nan if kind in FLOATS else 77
        values = np.array([garbage if cell is None else cell for cell in whole], NUMPY[kind])
        mask = np.array([cell is None for cell in whole], np.bool_)
        found = pa.array(values, kind, mask=mask if bitmap or mask.any() else None, from_pandas=False)
    elif pa.types.is_dictionary(kind):
        found = pa.array(whole, kind.value_type).dictionary_encode().cast(kind)
    else:
        found = pa.array(whole, kind)
    return found.slice(len(before), len(cells))


@st.composite
def cases(draw: Any, names: Any = tuple(MECHANISMS), kinds: Any = None, *, chunks: int = 3, nan: bool = True) -> Case:
    """A column in chunks that are slices of longer arrays."""
    name = draw(st.sampled_from(sorted(names)))
    kind = draw(st.sampled_from([kind for kind in kinds_of(name) if kinds is None or kind in kinds]))
    dtype = draw(st.sampled_from(("column", "mechanism")))
    if name in WHOLES and kind in UNSIGNED:
        dtype = "mechanism"
    missing = draw(st.one_of(st.sampled_from(("keep", "refuse")), stand_in_of(name, kind)))
    some = cells_of(name, kind)
    if missing != "refuse":
        gone = st.sampled_from((None, math.nan)) if kind in FLOATS and nan else st.none()
        some = st.one_of(some, some, gone)
    parts = draw(st.lists(st.lists(some, max_size=20), min_size=1, max_size=chunks))
    pads = draw(st.lists(st.tuples(st.integers(0, 17), st.integers(0, 9)), min_size=len(parts), max_size=len(parts)))
    more = [None] if missing != "refuse" else [draw(cells_of(name, kind))]
    arrays = [
        array_of(part, kind, more * before, more * behind, bitmap=draw(st.booleans()))
        for part, (before, behind) in zip(parts, pads, strict=True)
    ]
    return Case(name, kind, parts, pa.chunked_array(arrays, type=kind), missing, dtype)


def quiet(case: Case) -> list[Any]:
    """What a mechanism of `QUIET` gives, but for the digits behind the tenth."""
    cells = [cell for chunk in case.chunks for cell in chunk]
    return [cell if case.missing in {"keep", "refuse"} or not is_missing(cell) else case.missing for cell in cells]


def near(found: list[Any], expected: list[Any]) -> bool:
    """Equal, numbers but for the digits behind the tenth; NaN and null as themselves."""
    pairs = zip(found, expected, strict=True)
    return len(found) == len(expected) and all(
        math.isclose(a, b, abs_tol=1e-9) or (is_missing(a) and is_missing(b)) if isinstance(a, float) and b is not None else a == b
        for a, b in pairs
    )


def twin(name: str, kind: pa.DataType, chunks: list[list[Any]], missing: Any, dtype: str) -> list[Any]:
    """Reports of each chunk by a call of the mechanism on a list's array."""
    mechanism, stream = MECHANISMS[name], resolve(KeyedRandom(KEY))
    call = getattr(mechanism, "release", None) or mechanism.privatize
    found: list[Any] = []
    for chunk in chunks:
        neutral = "a" if kind in TEXTS else 0
        stand_in = neutral if isinstance(missing, str) and missing in {"keep", "refuse"} else missing
        filled = [stand_in if is_missing(cell) else cell for cell in chunk]
        reports = call(_input(filled, name, kind), rng=stream)
        shown = [_shown(report, name, kind, dtype) for report in _rows(reports)]
        for cell, report in zip(chunk, shown, strict=True):
            keeps_nan = cell is not None and isinstance(report, float)
            found.append(report if missing != "keep" or not is_missing(cell) else math.nan if keeps_nan else None)
    return found


def _input(filled: list[Any], name: str, kind: pa.DataType) -> Any:
    if kind in TEXTS:
        return np.array(filled, object)
    if kind == pa.bool_():
        return np.array(filled, np.bool_)
    return np.array(filled, np.float64 if kind in FLOATS else np.int64)


def _rows(reports: Any) -> list[Any]:
    if reports.dtype.names:
        return [{name: report[name].item() for name in reports.dtype.names} for report in reports]
    return [report.tobytes() if reports.ndim == 2 else report.item() for report in reports]


def _shown(report: Any, name: str, kind: pa.DataType, dtype: str) -> Any:
    """A report as the column shows it."""
    if name in REALS and kind in FLOATS and dtype == "column":
        with np.errstate(over="ignore"):
            return float(NUMPY[kind](report))
    if name in WHOLES and dtype == "column" and kind in SIGNED:
        limits = np.iinfo(NUMPY[kind])
        return min(max(report, int(limits.min)), int(limits.max))
    if name in ANSWERS and kind in INTEGERS and dtype == "column":
        return int(report)
    if name == "KaryResponse of labels" and dtype == "column":
        return LABELS[report]
    return report


def same(found: list[Any], expected: list[Any]) -> bool:
    """Equal, NaN and NaN too."""
    return len(found) == len(expected) and all(
        (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b)) or (a == b and (a is None) == (b is None))
        for a, b in zip(found, expected, strict=True)
    )
