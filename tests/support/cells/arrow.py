"""Columns of Arrow of every type: tables, chunks, slices, batches and streams."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads

from support.locality import LISTED, NAME, SOURCES, TYPES, Column, register

SMALL_DECIMALS = [pa.decimal32(5, 1), pa.decimal64(9, 2)] if hasattr(pa, "decimal32") else []
"""Decimals of 32 and 64 bits, which pyarrow 18 does not have."""
SOURCES["ArrowSource"] = "arrow"
SOURCES["DatasetSource"] = "dataset"


def raw(kind: pa.DataType, content: bytes) -> pa.Array:
    """A cell with some bytes, whatever its type says about them."""
    if pa.types.is_binary_view(kind) or pa.types.is_string_view(kind):
        return pa.array([content], pa.binary_view()).view(kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.array([content], pa.binary() if pa.types.is_string(kind) else pa.large_binary()).view(kind)
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(content)])


def number(kind: pa.DataType, value: int) -> pa.Array:
    """A cell that stores this integer."""
    return raw(kind, value.to_bytes(kind.bit_width // 8, "little", signed=True))


def under_a_null(kind: pa.DataType, content: bytes) -> pa.Array:
    """A null above some bytes."""
    return pa.Array.from_buffers(kind, 1, [pa.py_buffer(b"\0"), pa.py_buffer(content)])


@dataclass(frozen=True)
class Label:
    """A cell of a dictionary: the number of a label."""

    labels: pa.Array
    place: int | None


def array_of(kind: pa.DataType, cells: Iterable[Any]) -> pa.Array:
    """The cells, each of which is an array of one, or becomes one."""
    listed = list(cells)
    if pa.types.is_dictionary(kind):
        labels = listed[0].labels if listed else pa.array([], kind.value_type)
        return pa.DictionaryArray.from_arrays(
            pa.array([cell.place for cell in listed], kind.index_type), labels, ordered=kind.ordered, safe=False
        )
    made = [cell if isinstance(cell, pa.Array) else pa.array([cell], kind) for cell in listed]
    return pa.concat_arrays(made) if made else pa.array([], kind)


def _integers(kind: pa.DataType) -> dict[str, Any]:
    bits, signed = kind.bit_width, pa.types.is_signed_integer(kind)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return {str(cell): cell for cell in sorted({0, 1, 5, low, high, high - 1, min(2**53 + 1, high)})} | {"null": None}


def _floats(kind: pa.DataType) -> dict[str, Any]:
    dtype = np.dtype({16: "f2", 32: "f4", 64: "f8"}[kind.bit_width])
    ends = np.finfo(dtype)
    cells = [dtype.type(cell) for cell in ("nan", "inf", "-inf", "-0.0", 0, 1, 1.5, 7, ends.max, ends.smallest_subnormal)]
    nan = under_a_null(kind, dtype.type("nan").tobytes())
    return {f"{cell}": cell for cell in cells} | {"null": None, "nan under a null": nan, "other nan": raw(kind, b"\xff" * dtype.itemsize)}


def _texts(kind: pa.DataType) -> dict[str, Any]:
    cells = ["", "a", "b", "5", "1001", "é", "nan", "True", "2024-01-31", "\x00", "x" * 3000, "\U0001f600"]
    odd = {f"bytes {content[:3]!r}": raw(kind, content) for content in (b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xff" * 20)}
    return {f"text {cell[:3]!r}": cell for cell in cells} | odd | {"null": None}


def _bytes(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_fixed_size_binary(kind):
        return {"zero": b"\0" * kind.byte_width, "ff": b"\xff" * kind.byte_width, "null": None}
    return {f"bytes {cell[:3]!r}": cell for cell in (b"", b"a", b"NA", b"1001", b"\xff", b"x" * 3000)} | {"null": None}


def _decimals(kind: pa.DataType) -> dict[str, Any]:
    width, unit = kind.bit_width, 10 ** max(kind.scale, 0)
    ends = {
        "most": 10**kind.precision - 1,
        "beyond its digits": 10**kind.precision,
        "all bits": 2 ** (width - 1) - 1,
        "least": -(2 ** (width - 1)),
    }
    return (
        {f"{cell}": Decimal(cell) for cell in (("0", "1.5", "-1.5", "5") if kind.scale > 0 else ("0", "100", "-500"))}
        | {name: number(kind, value) for name, value in ends.items()}
        | {
            "one": number(kind, unit),
            "null": None,
        }
    )


def _ticks(kind: pa.DataType) -> dict[str, Any]:
    bits = kind.bit_width
    today = 19_753 if kind == pa.date32() else 19_753 * 86_400_000 if kind == pa.date64() else 1_706_702_400
    counts = {"zero": 0, "one": 1, "before": -1, "most": 2 ** (bits - 1) - 1, "least": -(2 ** (bits - 1)), "a day": 86_400, "today": today}
    factor = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}.get(getattr(kind, "unit", "s"), 1)
    if bits == 64 and kind != pa.date64():
        counts |= {"a day": 86_400 * factor, "today": today * factor}
    return {name: number(kind, count) for name, count in counts.items()} | {"null": None}


def _labels(values: pa.Array, kind: pa.DataType, *, ordered: bool = False) -> tuple[pa.DataType, dict[str, Any]]:
    """A dictionary with all labels, whichever cells are there; also one that has a label twice, and one that is null."""
    labels = pa.concat_arrays([values, values.slice(0, 1), pa.array([None], values.type)])
    cells = {f"label {place}": Label(labels, place) for place in range(len(labels))} | {"null": Label(labels, None)}
    return pa.dictionary(kind, values.type, ordered), cells


def _plain(kind: pa.DataType, *cells: Any) -> tuple[pa.DataType, dict[str, Any]]:
    return kind, {f"cell {place}": cell for place, cell in enumerate(cells)} | {"null": None}


def _run_ends(kind: pa.DataType, cells: dict[str, Any]) -> tuple[pa.DataType, dict[str, Any]]:
    encoded = pa.run_end_encoded(pa.int32(), kind)
    ends = pa.array([1], pa.int32())
    return encoded, {
        name: pa.Array.from_buffers(encoded, 1, [None], children=[ends, array_of(kind, [cell])]) for name, cell in cells.items()
    }


def _extension(kind: pa.DataType, cells: dict[str, Any]) -> tuple[pa.DataType, dict[str, Any]]:
    made = {name: pa.ExtensionArray.from_storage(kind, array_of(kind.storage_type, [cell])) for name, cell in cells.items()}
    return kind, made


def _of_all(make: Callable[[pa.DataType], dict[str, Any]], *kinds: pa.DataType) -> dict[str, tuple[pa.DataType, dict[str, Any]]]:
    return {str(kind): (kind, make(kind)) for kind in kinds}


UNITS = ("s", "ms", "us", "ns")
INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
TEXTS = (pa.string(), pa.large_string(), pa.string_view())
DAYS = (pa.date32(), pa.date64())
OPAQUE = pa.opaque(pa.string(), "a type", "of somebody")
SCALARS: dict[str, tuple[pa.DataType, dict[str, Any]]] = {
    "null": (pa.null(), {"null": None, "again": None}),
    "bool": (pa.bool_(), {"True": True, "False": False, "null": None}),
    **_of_all(_integers, *INTEGERS),
    **_of_all(_floats, pa.float16(), pa.float32(), pa.float64()),
    **_of_all(_texts, *TEXTS),
    **_of_all(_bytes, pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3)),
    **_of_all(_decimals, *SMALL_DECIMALS, pa.decimal128(20, 3), pa.decimal256(50, 4), pa.decimal128(5, -2)),
    **_of_all(_ticks, *DAYS, *map(pa.time32, UNITS[:2]), *map(pa.time64, UNITS[2:]), *map(pa.duration, UNITS)),
    **_of_all(_ticks, *map(pa.timestamp, UNITS), *(pa.timestamp(unit, "Europe/Berlin") for unit in UNITS), pa.timestamp("us", "UTC")),
    "timestamp of no zone": (pa.timestamp("us", "Nowhere/Land"), _ticks(pa.timestamp("us", "Nowhere/Land"))),
}
"""Types of a value, by name, with their zoo."""
NESTED: dict[str, tuple[pa.DataType, dict[str, Any]]] = {
    "list": _plain(pa.list_(pa.string()), [], ["a"], [None]),
    "large list": _plain(pa.large_list(pa.int8()), [], [1]),
    "list of one": _plain(pa.list_(pa.int8(), 1), [1]),
    "list view": _plain(pa.list_view(pa.int8()), [], [1]),
    "large list view": _plain(pa.large_list_view(pa.int8()), [], [1]),
    "struct": _plain(pa.struct([("x", pa.int8())]), {"x": 1}, {"x": None}),
    "map": _plain(pa.map_(pa.string(), pa.int8()), [("a", 1)], []),
}
LABELLED: dict[str, tuple[pa.DataType, dict[str, Any]]] = {
    f"dictionary<{kind}, {indices}>": _labels(array_of(kind, SCALARS[str(kind)][1].values()), indices)
    for kind, indices in (
        *(
            (kind, pa.int8())
            for kind in (*TEXTS, pa.int64(), pa.float32(), pa.bool_(), pa.decimal128(20, 3), pa.timestamp("us"), pa.binary())
        ),
        *((pa.string(), indices) for indices in INTEGERS[1:]),
        (pa.null(), pa.int8()),
    )
}
MANY = {f"label {place}": Label(pa.array([f"label {place}"]), 0) for place in range(130)}
"""Labels of which int8 cannot number all. Only chunks with a dictionary each hold them."""
APART = {"dictionary of many": (pa.dictionary(pa.int8(), pa.string()), MANY)}
OTHERS: dict[str, tuple[pa.DataType, dict[str, Any]]] = {
    "run ends of string": _run_ends(pa.string(), _texts(pa.string())),
    "run ends of int64": _run_ends(pa.int64(), _integers(pa.int64())),
    "run ends of float64": _run_ends(pa.float64(), _floats(pa.float64())),
    "months": (pa.month_day_nano_interval(), {"zero": (0, 0, 0), "some": (1, -2, 3), "null": None}),
    "extension uuid": _extension(pa.uuid(), {"zero": b"\0" * 16, "null": None}),
    **({"extension json": _extension(pa.json_(), _texts(pa.string()))} if hasattr(pa, "json_") else {}),  # since pyarrow 19
    "extension bool8": _extension(pa.bool8(), {"0": 0, "1": 1, "5": 5, "null": None}),
    "extension opaque": _extension(OPAQUE, _texts(pa.string())),
}
ARROW_TYPES = SCALARS | NESTED | LABELLED | OTHERS
REFUSED = {*NESTED, *(name for name in OTHERS if name.startswith("run ends"))}
"""Types that no query takes."""


class Stream:
    """A table of a library that nobody knows."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def table_of(kind: pa.DataType, cells: Sequence[Any]) -> pa.Table:
    return pa.table({NAME: array_of(kind, cells)})


def _chunks(kind: pa.DataType, cells: Sequence[Any]) -> pa.Table:
    chunks = [array_of(kind, cells[start : start + 2]) for start in range(0, len(cells), 2)]
    return pa.table({NAME: pa.chunked_array([*chunks, array_of(kind, [])], kind)})


def apart(kind: pa.DataType, cells: Sequence[Any]) -> pa.ChunkedArray:
    """Each cell in a chunk of its own, whose dictionary, if it has one, has the label of the cell and no other."""
    return pa.chunked_array([array_of(kind, [_own(cell) if isinstance(cell, Label) else cell]) for cell in cells], kind)


def _own(cell: Label) -> Label:
    return Label(cell.labels.slice(0, 0), None) if cell.place is None else Label(cell.labels.slice(cell.place, 1), 0)


def _slice(kind: pa.DataType, cells: Sequence[Any]) -> pa.Table:
    return table_of(kind, [*cells[:1], *cells[:1], *cells[:1], *cells]).slice(min(3, 3 * len(cells)))


FORMS: dict[str, Callable[[pa.DataType, Sequence[Any]], object]] = {
    "arrow table": table_of,
    "arrow chunks": _chunks,
    "arrow chunk a cell": lambda kind, cells: pa.table({NAME: apart(kind, cells)}),
    "arrow slice": _slice,
    "arrow batch": lambda kind, cells: pa.record_batch({NAME: array_of(kind, cells)}),
    "arrow stream": lambda kind, cells: Stream(table_of(kind, cells)),
    "dataset of a table": lambda kind, cells: pads.dataset(table_of(kind, cells)),
}
for _source, _form in FORMS.items():
    for _name, (_kind, _cells) in ARROW_TYPES.items():
        register(Column(_source, _name, functools.partial(_form, _kind), _cells, is_refused=_name in REFUSED))
for _name, (_kind, _cells) in APART.items():
    register(Column("arrow chunk a cell", _name, functools.partial(FORMS["arrow chunk a cell"], _kind), _cells))


def _ids() -> set[str]:
    return {name for name in dir(pa.lib) if name.startswith("Type_")}


BY_ID = {getattr(pa.lib, name): name for name in _ids()}
TYPES["arrow"] = _ids
LISTED["arrow"] = {BY_ID[kind.id]: name for name, (kind, _) in ARROW_TYPES.items() if kind.id in BY_ID} | {
    "Type_DENSE_UNION": "no library here makes a column of one, and no query takes it",
    "Type_SPARSE_UNION": "as the dense one",
    "Type_INTERVAL_MONTHS": "pyarrow has no class for it",
    "Type_INTERVAL_DAY_TIME": "pyarrow has no class for it",
}
