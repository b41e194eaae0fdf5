"""Columns, index levels and levels of a MultiIndex of pandas, of every dtype."""

from __future__ import annotations

import datetime as dt
import functools
import inspect
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.core.dtypes.base import _registry

from support.cells.arrow import APART, ARROW_TYPES, apart, array_of
from support.cells.arrow import REFUSED as ARROW_REFUSED
from support.cells.objects import OBJECTS
from support.locality import LISTED, NAME, SOURCES, TYPES, Column, register

SOURCES["PandasSource"] = "pandas"


def objects(cells: Sequence[Any]) -> np.ndarray[Any, Any]:
    """An array of objects, none of which is asked what it is."""
    found = np.empty(len(cells), object)
    for place, cell in enumerate(cells):
        found[place] = cell
    return found


def _numbers(kind: str) -> dict[str, Any]:
    dtype = np.dtype(kind)
    if dtype.kind == "f":
        found = ["nan", "inf", "-inf", "-0.0", 0, 1, 1.5, 5, 7, np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal]
        return {f"{cell}": dtype.type(cell) for cell in found}
    if dtype.kind == "b":
        return {"True": True, "False": False}
    ends = np.iinfo(dtype)
    return {str(cell): dtype.type(cell) for cell in {0, 1, 5, ends.max, ends.max - 1, ends.min, min(2**53 + 1, ends.max)}}


def _moments(unit: str) -> dict[str, Any]:
    counts = {"least": -(2**63) + 1, "most": 2**63 - 1, "zero": 0, "one": 1, "before": -1, "today": 1_706_702_400}
    times = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    return {"NaT": -(2**63), **counts, "today": counts["today"] * times}


WORDS = {f"text {place}": text for place, text in enumerate(("", "a", "5", "1001", "é", "nan", "x" * 3000, "2024-01-31", "\U0001f600"))}
LONE = {"surrogate": "\ud800", "surrogate within": "a\udcff"}
NULL: dict[str, Any] = {"null": None}


def _as_numbers(kind: str) -> Any:
    return lambda cells: pd.Series(np.array(cells, kind))


def _as_moments(kind: str) -> Any:
    return lambda cells: pd.Series(np.array(cells, np.int64).view(kind))


def _zoned(unit: str, zone: str) -> Any:
    return lambda cells: pd.Series(
        pd.arrays.DatetimeArray._simple_new(np.array(cells, np.int64).view(f"M8[{unit}]"), dtype=pd.DatetimeTZDtype(unit, zone))
    )


def _of(dtype: Any) -> Any:
    return lambda cells: pd.Series(list(cells), dtype=dtype)


def _masked(dtype: Any, kind: str) -> Any:
    def made(cells: Sequence[Any]) -> Any:
        absent = np.array([cell is None for cell in cells], np.bool_)
        values = np.array([0 if cell is None else cell for cell in cells], kind)
        return pd.Series({"I": pd.arrays.IntegerArray, "F": pd.arrays.FloatingArray, "B": pd.arrays.BooleanArray}[dtype](values, absent))

    return made


def _categories(labels: Any, *, ordered: bool = False) -> Any:
    """Cells are numbers of labels."""
    return lambda cells: pd.Series(pd.Categorical.from_codes(np.array(cells, np.int16), dtype=pd.CategoricalDtype(labels, ordered)))


def _arrow_backed(kind: pa.DataType) -> Any:
    return lambda cells: pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([array_of(kind, cells)])))


def _arrow_backed_apart(kind: pa.DataType, cells: Sequence[Any]) -> pd.Series:
    """One chunk a cell, each with its own dictionary."""
    return pd.Series(pd.arrays.ArrowExtensionArray(apart(kind, cells)))


def _sparse(kind: str, fill: Any) -> Any:
    return lambda cells: pd.Series(pd.arrays.SparseArray(np.array(cells, kind), fill_value=fill, dtype=pd.SparseDtype(kind, fill)))


def _texts() -> dict[str, tuple[Any, dict[str, Any]]]:
    kinds = {"string of python": pd.StringDtype("python"), "string of pyarrow": pd.StringDtype("pyarrow")}
    if "na_value" in inspect.signature(pd.StringDtype).parameters:
        kinds |= {f"str of {storage}": pd.StringDtype(storage, na_value=np.nan) for storage in ("python", "pyarrow")}
    else:  # pandas 2.2
        kinds["str of pyarrow"] = pd.StringDtype("pyarrow_numpy")
    return {name: (_of(dtype), WORDS | NULL | (LONE if "python" in name else {})) for name, dtype in kinds.items()}


def _codes(labels: Any) -> dict[str, Any]:
    return {"none": -1} | {f"label {place}": place for place in range(len(labels))}


HASHABLE = (str, int, float, bool, bytes, tuple, Decimal, dt.date, pd.Timestamp, pd.Timedelta, complex)


def _can_be_labels() -> pd.Index:
    """The objects of which an index of different ones can be made."""
    found = {repr(cell): cell for cell in OBJECTS.values() if any(type(cell) is kind for kind in HASHABLE)}
    return pd.Index(objects([cell for text, cell in found.items() if "nan" not in text.lower() or text == "'nan'"]), dtype=object).unique()


def _in_chunks(*chunks: pa.Array) -> pd.Index:
    return pd.Index(pd.arrays.ArrowExtensionArray(pa.chunked_array(chunks)))


LABELS = {
    "object": _can_be_labels(),
    "str": pd.Index(list(WORDS.values()), dtype="str"),
    "int64": pd.Index([7, 5, -1, 2**63 - 1]),
    "uint8": pd.Index(np.array([7, 0, 255], np.uint8)),
    "float64": pd.Index([1.5, np.inf, -0.0, 5.0]),
    "bool": pd.Index([True, False]),
    "Int64": pd.Index([7, 5], dtype="Int64"),
    "datetime64[ns]": pd.DatetimeIndex(["2024-01-31", "1970-01-01"]).as_unit("ns"),
    "datetime64[us, zone]": pd.DatetimeIndex(["2024-01-31", "1970-01-01"], tz="Europe/Berlin").as_unit("us"),
    "timedelta64[s]": pd.Index(np.array([0, 5], "m8[s]")),
    "period": pd.period_range("2024-01", periods=3, freq="M"),
    "interval": pd.interval_range(0, 3),
    "arrow string": pd.Index(pd.array(["a", "5"], dtype=pd.ArrowDtype(pa.string()))),
    "arrow decimal": pd.Index(pd.array([Decimal("1.5"), Decimal(2)], dtype=pd.ArrowDtype(pa.decimal128(5, 1)))),
    "arrow string in chunks": _in_chunks(pa.array(["a"]), pa.array(["5", "b"])),
    "arrow dictionary in chunks": _in_chunks(pa.array(["a"]).dictionary_encode(), pa.array(["b", None]).dictionary_encode("encode")),
    "none": pd.Index([], dtype=object),
}
"""Categories, and levels, of each dtype."""
NO_CATEGORIES = {"arrow dictionary in chunks"}
"""Labels of which pandas makes levels, and no categories: it cannot tell whether they are different."""
NUMBERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
UNITS = ("s", "ms", "us", "ns")
ZONES = ("UTC", "Europe/Berlin")
COMPANIONS = ("str 1", "NoneType 72", "bytes 65", "scalar large text 1001", "raises str")

DTYPES: dict[str, tuple[Any, dict[str, Any]]] = {
    "object": (lambda cells: pd.Series(objects(cells), dtype=object), OBJECTS),
    **{kind: (_as_numbers(kind), _numbers(kind)) for kind in NUMBERS},
    "float128": (_as_numbers("longdouble"), _numbers("longdouble")),
    "complex128": (_as_numbers("complex128"), {"i": 1j, "nan": complex("nan"), "1": 1 + 0j}),
    **{f"datetime64[{unit}]": (_as_moments(f"M8[{unit}]"), _moments(unit)) for unit in UNITS},
    **{f"timedelta64[{unit}]": (_as_moments(f"m8[{unit}]"), _moments(unit)) for unit in UNITS},
    **{f"datetime64[{unit}, {zone}]": (_zoned(unit, zone), _moments(unit)) for unit in UNITS for zone in ZONES},
    **{
        kind: (_masked("I", kind.lower()), _numbers(kind.lower()) | NULL)
        for kind in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
    },
    **{kind: (_masked("F", kind.lower()), _numbers(kind.lower()) | NULL) for kind in ("Float32", "Float64")},
    "boolean": (_masked("B", "bool"), _numbers("bool") | NULL),
    **_texts(),
    **{f"category of {name}": (_categories(labels), _codes(labels)) for name, labels in LABELS.items() if name not in NO_CATEGORIES},
    "ordered category": (_categories(LABELS["int64"], ordered=True), _codes(LABELS["int64"])),
    "Sparse[float64, nan]": (_sparse("float64", np.nan), _numbers("float64")),
    "Sparse[float64, 0]": (_sparse("float64", 0.0), _numbers("float64")),
    "Sparse[int64, 0]": (_sparse("int64", 0), _numbers("int64")),
    "Sparse[bool, False]": (_sparse("bool", False), _numbers("bool")),
    "Sparse[object]": (
        lambda cells: pd.Series(pd.arrays.SparseArray(objects(cells), dtype=pd.SparseDtype(object, np.nan))),
        WORDS | NULL | {"number": 5, "bytes": b"a"},
    ),
    "Sparse[datetime64[ns]]": (lambda cells: pd.Series(pd.arrays.SparseArray(np.array(cells, np.int64).view("M8[ns]"))), _moments("ns")),
    "period[M]": (
        lambda cells: pd.Series(pd.PeriodIndex.from_ordinals(cells, freq="M")),
        {"NaT": -(2**63), "zero": 0, "one": 1, "far": 10**6},
    ),
    "interval": (
        lambda cells: pd.Series(pd.arrays.IntervalArray.from_arrays(np.array(cells, float), np.array(cells, float) + 1)),
        {"null": np.nan, "one": 1.0, "five": 5.0},
    ),
    **{f"arrow {name}": (_arrow_backed(kind), cells) for name, (kind, cells) in ARROW_TYPES.items() if not name.startswith("extension")},
}
"""For each dtype what makes a Series of it, and its zoo."""
REFUSED = {"float128", "complex128"}
NO_INDEX = {"float16", "float128"}
"""Dtypes of which pandas makes no index; nor of Sparse ones."""


def _of_column(made: Any, cells: Sequence[Any]) -> pd.DataFrame:
    return pd.DataFrame({NAME: made(cells)})


def _of_index(made: Any, cells: Sequence[Any]) -> pd.DataFrame:
    values = made(cells)  # of objects, pandas 2.2 would look for another dtype
    return pd.DataFrame({"other": np.arange(len(cells))}, index=pd.Index(values, dtype=values.dtype, name=NAME))


def _of_level(labels: pd.Index, cells: Sequence[Any], *, names: Sequence[Any] = ("other", NAME)) -> pd.DataFrame:
    """A MultiIndex whose last level has these labels, numbered by the cells."""
    codes = [np.zeros(len(cells), np.int8), np.array(cells, np.int16)]
    return pd.DataFrame(
        {"more": np.arange(len(cells))}, index=pd.MultiIndex([pd.Index(["a"]), labels], codes, names=names, verify_integrity=False)
    )


def _offset(made: Any, cells: Sequence[Any]) -> pd.DataFrame:
    """Some rows of a longer frame."""
    return (
        pd.DataFrame({NAME: made([*cells[:1], *cells, *cells[-1:]])}).iloc[1 : len(cells) + 1]
        if len(cells)
        else pd.DataFrame({NAME: made(cells)})
    )


for _name, (_made, _cells) in DTYPES.items():
    _beside = COMPANIONS if _name == "object" else ()
    _refused = _name in REFUSED or _name.removeprefix("arrow ") in ARROW_REFUSED
    register(Column("pandas", _name, functools.partial(_of_column, _made), _cells, beside=_beside, is_refused=_refused))
    register(Column("pandas slice", _name, functools.partial(_offset, _made), _cells, is_refused=_refused))
    if not _name.startswith("Sparse") and _name not in NO_INDEX:
        register(Column("pandas index", _name, functools.partial(_of_index, _made), _cells, is_refused=_refused))
for _name, (_kind, _cells) in (ARROW_TYPES | APART).items():
    if not _name.startswith("extension"):
        _made = functools.partial(_arrow_backed_apart, _kind)
        _refused = _name in ARROW_REFUSED
        register(
            Column(
                "pandas chunk a cell",
                f"arrow {_name}",
                lambda cells, made=_made: pd.DataFrame({NAME: made(cells)}),
                _cells,
                is_refused=_refused,
            )
        )
        register(Column("pandas index chunk a cell", f"arrow {_name}", functools.partial(_of_index, _made), _cells, is_refused=_refused))
for _name, _labels in LABELS.items():
    register(Column("pandas level", _name, functools.partial(_of_level, _labels), _codes(_labels)))
    register(
        Column("pandas level beside one without a name", _name, functools.partial(_of_level, _labels, names=(None, NAME)), _codes(_labels))
    )


def _dtypes() -> set[str]:
    """The dtypes that pandas lists, and those of NumPy that its columns have."""
    return {each.__name__ for each in _registry.dtypes} | {each.__name__ for each in np.sctypeDict.values()}


NO_COLUMN = "pandas turns it into another dtype"
TYPES["pandas"] = _dtypes
LISTED["pandas"] = {
    **{kind: kind for kind in (*NUMBERS, "complex128")},
    **{f"{kind}Dtype": kind for kind in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64")},
    "longdouble": "float128",
    "bool_": "bool",
    "object_": "object",
    "datetime64": "datetime64[ns]",
    "timedelta64": "timedelta64[ns]",
    "ArrowDtype": "arrow int64",
    "BooleanDtype": "boolean",
    "CategoricalDtype": "category of object",
    "DatetimeTZDtype": "datetime64[ns, UTC]",
    "IntervalDtype": "interval",
    "PeriodDtype": "period[M]",
    "SparseDtype": "Sparse[float64, nan]",
    "StringDtype": "str of python",
    **dict.fromkeys(("str_", "bytes_", "void"), NO_COLUMN),
    **dict.fromkeys(("longlong", "ulonglong"), "another name of int64 or uint64"),
    **dict.fromkeys(("complex64", "clongdouble"), "as complex128"),
}
