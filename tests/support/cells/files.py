"""Columns of files: Parquet, Arrow IPC and CSV, folders of columns, several files, and datasets of files."""

from __future__ import annotations

import functools
import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import quote

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from pyarrow import ipc

from dpcore.frames.sources import source_of
from dpcore.tables.discovery import discover
from dpcore.tables.formats import arrow as arrow_input
from dpcore.tables.pieces import Cut
from support.cells.arrow import ARROW_TYPES, REFUSED, Label, array_of
from support.locality import LISTED, NAME, TYPES, Column, register

_FOLDER = tempfile.TemporaryDirectory(prefix="dpcore-cells-")
_NUMBERS = itertools.count()


def place(ending: str = "") -> Path:
    """A new name of a file or folder."""
    return Path(_FOLDER.name, f"{next(_NUMBERS)}{ending}")


def pieces_of(frame: object, rows: int) -> Iterator[pa.RecordBatch]:
    """The pieces of at most so many rows that the readers of files give to the engine."""
    source = source_of(frame)
    inputs = discover(source, declared={NAME: "integer"} if "integers" in source else None) if isinstance(source, str) else source.input()
    for path in inputs.paths:
        types = inputs.inspect(path).types
        for piece in inputs.pieces(path, {NAME: pa.binary() if types is None else types[NAME]}, Cut(rows, use_threads=False)):
            yield piece.batch


def parts_of(frame: object, rows: int) -> Iterator[pa.RecordBatch]:
    """The same, each record batch of a file in parts of eight rows."""
    with mock.patch.multiple(arrow_input, WHOLE_BYTES=0, PART_BYTES=1):
        yield from pieces_of(frame, rows)


def add(source: str, kind: str, write: Callable[[Sequence[Any]], object], cells: Mapping[str, Any], **more: Any) -> None:
    """Add a column whose frames are files."""
    register(Column(source, kind, write, cells, read=more.pop("read", pieces_of), **more))


def table_of(kind: pa.DataType, cells: Sequence[Any]) -> pa.Table:
    """A table with the column, and one that is not read."""
    return pa.table({"other": pa.array(range(len(cells)), pa.int64()), NAME: array_of(kind, cells)})


# Parquet

Options = dict[str, Any]
PARQUET: dict[str, Options] = {
    "parquet": {},
    "parquet in groups of two rows": {"row_group_size": 2},
    "parquet in small pages": {"data_page_size": 1, "write_batch_size": 1, "use_dictionary": False},
}
WRITINGS: dict[str, tuple[tuple[str, ...], Options]] = {
    "INT96": (("timestamp[ns]", "timestamp[us]"), {"use_deprecated_int96_timestamps": True}),
    "decimals as integers": (("decimal64(9, 2)", "decimal32(5, 1)"), {"store_decimal_as_integer": True}),
    "delta lengths": (("string", "binary"), {"use_dictionary": False, "column_encoding": {NAME: "DELTA_LENGTH_BYTE_ARRAY"}}),
    "delta bytes": (("string", "binary"), {"use_dictionary": False, "column_encoding": {NAME: "DELTA_BYTE_ARRAY"}}),
    "delta integers": (("int32", "int64"), {"use_dictionary": False, "column_encoding": {NAME: "DELTA_BINARY_PACKED"}}),
    "split floats": (("float", "double"), {"use_dictionary": False, "column_encoding": {NAME: "BYTE_STREAM_SPLIT"}}),
    "without the schema of Arrow": (("string", "timestamp[us]", "uint32", "large_string"), {"store_schema": False}),
    "second pages": (("string", "int64", "double"), {"data_page_version": "2.0"}),
}
"""Ways to write some types that the usual one does not choose."""
NOT_PARQUET = {
    "decimal128(5, -2)": "Parquet has no negative scale",
    "dictionary<string_view, int8>": "pyarrow writes no labels that are views",
    "months": "pyarrow writes no such intervals",
    "run ends of string": "pyarrow writes no run ends",
    "run ends of int64": "pyarrow writes no run ends",
    "run ends of float64": "pyarrow writes no run ends",
}
FAR_SECONDS = ("most", "least")
"""Milliseconds, which Parquet has at least, do not hold them."""


def _written(kind: pa.DataType, options: Options, cells: Sequence[Any]) -> str:
    path = place(".parquet")
    pq.write_table(table_of(kind, cells), path, **options)
    return str(path)


def _label(cell: Label) -> Label:
    """The same label of a dictionary without null, which Parquet has none."""
    there = cell.labels.is_valid().to_pylist()
    is_label = cell.place is not None and there[cell.place]
    kept = [cell.labels.slice(row, 1) for row, is_there in enumerate(there) if is_there]
    labels = pa.concat_arrays(kept) if kept else pa.array([], cell.labels.type)
    return Label(labels, sum(there[: cell.place]) if is_label else None)


def parquet_zoo(name: str) -> dict[str, Any]:
    """The cells of a type that Parquet can hold."""
    kind, cells = ARROW_TYPES[name]
    if pa.types.is_dictionary(kind):
        return {each: _label(cell) for each, cell in cells.items()}
    far = FAR_SECONDS if pa.types.is_timestamp(kind) and kind.unit == "s" else ()
    return {each: cell for each, cell in cells.items() if each not in far}


PARQUET_TYPES = [name for name in ARROW_TYPES if name not in NOT_PARQUET]
for _source, _options in PARQUET.items():
    for _name in PARQUET_TYPES:
        _kind = ARROW_TYPES[_name][0]
        add(_source, _name, functools.partial(_written, _kind, _options), parquet_zoo(_name), is_refused=_name in REFUSED)
for _way, (_names, _options) in WRITINGS.items():
    for _name in filter(ARROW_TYPES.get, _names):  # of which an older pyarrow lacks some
        add("parquet by other ways", f"{_name} as {_way}", functools.partial(_written, ARROW_TYPES[_name][0], _options), parquet_zoo(_name))
TYPES["parquet"] = lambda: set(ARROW_TYPES)
LISTED["parquet"] = NOT_PARQUET | {name: name for name in PARQUET_TYPES}


# Arrow IPC


def _ipc(kind: pa.DataType, rows: int, cells: Sequence[Any], options: Options | None = None) -> str:
    path, table = place(".arrow"), table_of(kind, cells)
    with ipc.new_file(path, table.schema, options=ipc.IpcWriteOptions(**(options or {}))) as file:
        for batch in table.to_batches(max_chunksize=rows):
            file.write_batch(batch)
    return str(path)


def _growing(kind: pa.DataType, cells: Sequence[Label]) -> str:
    """A dictionary that each record batch adds a label to, in messages of their own."""
    path = place(".arrow")
    schema = pa.schema({"other": pa.int64(), NAME: kind})
    with ipc.new_file(path, schema, options=ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as file:
        labels = cells[0].labels.slice(0, 1) if cells else None
        for row, cell in enumerate(cells):
            index = pa.array([None if cell.place is None else len(labels)], kind.index_type)
            labels = labels if cell.place is None else pa.concat_arrays([labels, cell.labels.slice(cell.place, 1)])
            batch = [pa.array([row]), pa.DictionaryArray.from_arrays(index, labels)]
            file.write_batch(pa.record_batch(batch, schema=schema))
    return str(path)


for _name, (_kind, _cells) in ARROW_TYPES.items():
    _refused = _name in REFUSED
    add("arrow file", _name, functools.partial(_ipc, _kind, 1 << 20), _cells, is_refused=_refused)
    add("arrow file in batches of two rows", _name, functools.partial(_ipc, _kind, 2), _cells, is_refused=_refused)
    add("arrow file in parts", _name, functools.partial(_ipc, _kind, 1 << 20), _cells, is_refused=_refused, read=parts_of)
for _name in ("string", "int64", "decimal128(20, 3)"):
    _kind, _cells = ARROW_TYPES[_name]
    add("arrow file", f"{_name} compressed", functools.partial(_ipc, _kind, 2, options={"compression": "zstd"}), _cells)
for _name in ("dictionary<string, int32>", "dictionary<int64, int8>"):
    add("arrow file", f"{_name} that grows", functools.partial(_growing, ARROW_TYPES[_name][0]), ARROW_TYPES[_name][1])
TYPES["arrow file"] = lambda: set(ARROW_TYPES)
LISTED["arrow file"] = {name: name for name in ARROW_TYPES}


# CSV: what stands between two commas

WORDS_OF_CSV = [
    b"", b'""', b"NA", b"NaN", b"null", b"nan", b"a", b"caf\xe9", b"\xff\xfe", b"\xef\xbb\xbfa", b"a\x00b", b" a ", b'"a,b"', b'"a\nb"',
    b'"a\r\nb"', b'"a""b"', b'a"b', b"\xed\xa0\x80", b"\xe2\x82\xac", b"x" * 70_000, b"=1+1", b"true", b"True", b"false",
]  # fmt: skip
NUMBERS_OF_CSV = [
    b"0", b"1", b"2", b"5", b" 5 ", b"+5", b"05", b"5.0", b"5.5", b"5.", b".5", b"5e0", b"0x5", b"1e400", b"-1e400", b"1e-400", b"inf",
    b"-0", b"9" * 20, b"-" + b"9" * 20, b"9" * 5_000, b"0." + b"3" * 5_000, b"9007199254740993", b"9223372036854775807",
    b"9223372036854775808", b"1_000", b"\xd9\xa5",
]  # fmt: skip
TIMES_OF_CSV = [
    b"2024-01-31", b"2024-02-31", b"2024-01-31T12:00:00", b"2024-01-31 12:00:00Z", b"2024-01-31T12:00:00+02:00", b"0000-01-01", b"12:00:00",
    b"PT1H", b"P1D",
]  # fmt: skip


def _csv(ending: bytes, last: bytes, cells: Sequence[bytes]) -> str:
    path = place(".csv")
    lines = [b"other," + NAME.encode(), *(b"%d,%s" % pair for pair in enumerate(cells))]
    path.write_bytes(ending.join(lines) + last)
    return str(path)


CSV_ZOO = {f"{number}: {text[:12]!r}": text for number, text in enumerate([*WORDS_OF_CSV, *NUMBERS_OF_CSV, *TIMES_OF_CSV])}
add("csv", "text", functools.partial(_csv, b"\n", b"\n"), CSV_ZOO)
add("csv", "lines of Windows, the last without an end", functools.partial(_csv, b"\r\n", b""), CSV_ZOO)


# Folders, and several files

MANY = ("string", "int32", "int64", "double", "decimal128(20, 3)", "timestamp[us]", "date32[day]", "bool", "dictionary<string, int8>")


def _files(kind: pa.DataType, cells: Sequence[Any]) -> str:
    folder = place()
    folder.mkdir()
    for start in range(0, max(len(cells), 1), 2):
        pq.write_table(table_of(kind, cells[start : start + 2]), folder / f"{start:04}.parquet")
    return str(folder)


def _folders(kind: str, cells: Sequence[str]) -> str:
    """A folder for each cell, and one beside them, without rows, that is named as no number is."""
    folder = place(f"-{kind}")
    for row, cell in enumerate(cells or ["0"]):
        inner = folder / f"part-{row:04}" / f"{NAME}={quote(cell, safe='')}"
        inner.mkdir(parents=True)
        pq.write_table(pa.table({"other": pa.array([row] if cells else [], pa.int64())}), inner / "a.parquet")
    return str(folder)


def _dataset(kind: pa.DataType, ending: str, cells: Sequence[Any]) -> pads.Dataset:
    """A file of two rows each, in two formats."""
    folder = place()
    folder.mkdir()
    for start in range(0, max(len(cells), 1), 2):
        table, path = table_of(kind, cells[start : start + 2]), folder / f"{start:04}.{ending}"
        if ending == "parquet":
            pq.write_table(table, path)
        else:
            with ipc.new_file(path, table.schema) as file:
                file.write_table(table)
    return pads.dataset(str(folder), format="parquet" if ending == "parquet" else "ipc")


def _wide(first: pa.DataType, second: pa.DataType, is_dataset: bool, cells: Sequence[Any]) -> object:
    """Rows of a narrow type in one file, and each other in a file of a wider one."""
    folder = place()
    folder.mkdir()
    pq.write_table(table_of(first, []), folder / "0000.parquet")
    for row, cell in enumerate(cells):
        kind = first if _fits(first, cell) else second
        pq.write_table(table_of(kind, [cell]), folder / f"{row + 1:04}.parquet")
    return pads.dataset(str(folder)) if is_dataset else str(folder)


def _fits(kind: pa.DataType, cell: Any) -> bool:
    try:
        pa.array([cell], kind)
    except (pa.ArrowException, OverflowError):
        return False
    return True


for _name in MANY:
    _kind = ARROW_TYPES[_name][0]
    add("several files", _name, functools.partial(_files, _kind), parquet_zoo(_name))
    for _ending in ("parquet", "arrow"):
        _cells = parquet_zoo(_name) if _ending == "parquet" else ARROW_TYPES[_name][1]
        add("dataset of files", f"{_name} in {_ending}", functools.partial(_dataset, _kind, _ending), _cells)
INTEGERS = {str(cell): cell for cell in (0, 1, 5, -1, 127, 128, 2**31, 2**53 + 1, -(2**63))} | {"null": None}
for _first, _second in ((pa.int8(), pa.int64()), (pa.int32(), pa.int64())):
    for _is_dataset, _source in ((False, "several files"), (True, "dataset of files")):
        add(_source, f"{_first} and {_second}", functools.partial(_wide, _first, _second, _is_dataset), INTEGERS)
WORDS = ("", "a", "5", "05", "5.5", "2024-01-31", "NA", "é", "a b/c=d", "9" * 30, "-0", "__HIVE_DEFAULT_PARTITION__")
add("folders", "declared integers", functools.partial(_folders, "integers"), {f"folder {text[:9]!r}": text for text in WORDS if text})
