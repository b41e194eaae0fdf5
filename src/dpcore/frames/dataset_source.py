"""Datasets of pyarrow: each fragment is read as the file that it is, with its own schema.

A scan of pyarrow casts what it reads to the schema of the dataset, and one value that does not fit ends it. So nothing is scanned here: the
readers of files read the fragments, the plan sees the schema of each, and columns that a fragment lacks are null.
"""

from __future__ import annotations

import contextlib
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pads
from pyarrow import fs

from dpcore._dataclasses import dataclass
from dpcore.errors import JobError, ParameterError, StorageError
from dpcore.frames.arrow_source import ArrowSource, read_batch, read_type
from dpcore.frames.inputs import shielded
from dpcore.tables.discovery import check_read_once
from dpcore.tables.formats.table_columns import TableColumns
from dpcore.tables.inputs import Inputs, reader_of
from dpcore.tables.pieces import Cut, FileInfo
from dpcore.tables.plans import with_values
from dpcore.tables.sources import Partitioned, SourceFile, Version, check_same, opened, version_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from dpcore._disk.stores import ObjectVersion
    from dpcore.frames.source import FrameSource
    from dpcore.tables.inputs import Reader
    from dpcore.tables.pieces import Piece
    from dpcore.tables.sections import Format
    from dpcore.tables.sources import InputFile

NAME = "pyarrow Dataset"
ELSEWHERE = -1
"""The device of files of other systems than that of this machine."""
FORMATS: dict[type, Format] = {pads.ParquetFileFormat: "parquet", pads.IpcFileFormat: "arrow", pads.FeatherFileFormat: "arrow"}
TAKEN = "a Dataset must be one of Parquet or Arrow IPC files, or of tables in memory"
FILTERED = (
    "frame must be a Dataset without a filter, whose expression could fail at a row; keep rows with where of the table, as in "
    "PrivateTable(dataset).where('x > 5')"
)
PARTIAL = "holds some of the row groups of its file; make the Dataset of whole files, and keep rows with where of the table"


def of_dataset(dataset: Any) -> FrameSource:
    """The source of a dataset; raises `ParameterError` if its fragments are not such files."""
    if dataset._scan_options:  # noqa: SLF001  # pyarrow tells it in no other way
        raise ParameterError(FILTERED)
    kinds = set(_kinds(dataset))
    if kinds == {pads.InMemoryDataset}:
        (table,) = shielded(Path(NAME), (each.to_table() for each in [dataset]))  # a reader runs code of others
        return ArrowSource(table, NAME)
    if kinds != {pads.FileSystemDataset}:
        named = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise ParameterError(
            f"frame of type {type(dataset).__name__}: {TAKEN}, got {named or 'an empty one'}; to hold it in memory, pass frame.to_table()"
        )
    fragments = tuple(dataset.get_fragments())
    for fragment in fragments:
        _check_format(fragment.format)
    if not fragments:
        return ArrowSource(dataset.schema.empty_table(), NAME)
    return DatasetSource(dataset.schema, fragments)


def _kinds(dataset: Any) -> Iterator[type]:
    """The types of a dataset, or of those that it joins."""
    if type(dataset) is not pads.UnionDataset:
        yield type(dataset)
        return
    for each in dataset.children:
        yield from _kinds(each)


def _check_format(format: Any) -> None:  # noqa: A002
    if type(format) not in FORMATS:
        name = type(format).__name__.removesuffix("FileFormat").upper()
        paths = "; pass the paths of the files, whose cells are then read as the queries declare" if name == "CSV" else ""
        raise ParameterError(
            f"frame is a Dataset of {name} files, which pyarrow reads by types that it takes from some rows, and {TAKEN}{paths}"
        )
    unit = getattr(getattr(format, "read_options", None), "coerce_int96_timestamp_unit", None)
    if unit not in {None, "ns"}:
        raise ParameterError(
            f"frame is a Dataset that reads timestamps with coerce_int96_timestamp_unit = {unit!r}, and must be one without"
        )


@dataclass(frozen=True, slots=True)
class DatasetSource:
    """A dataset of files, which are read anew in each pass.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the dataset: its columns, and the types of those that a fragment lacks.
    fragments : tuple of pyarrow.dataset.FileFragment
        The files.
    """

    schema: pa.Schema = field(repr=False)
    fragments: tuple[Any, ...] = field(repr=False)
    name: str = NAME
    native: str = "arrow"
    is_snapshot: bool = False

    def input(self) -> DatasetInput:
        """The input of one run."""
        (made,) = shielded(Path(NAME), self._inputs())
        return made

    def _inputs(self) -> Iterator[DatasetInput]:
        count = len(self.fragments)
        places = (Path("" if fragment.buffer is not None else _place(fragment)[1]) for fragment in self.fragments)
        names: list[InputFile] = [Partitioned(place, f"{NAME} (fragment {number} of {count})") for number, place in enumerate(places, 1)]
        parts = dict(zip(names, self.fragments, strict=True))
        found = dict(_versions(parts))
        check_read_once(names, tuple(found[name] for name in names))
        format = FORMATS[type(self.fragments[0].format)]  # noqa: A001
        yield DatasetInput(format, tuple(names), found, parts, columns=_columns(self.schema, parts))

    def info(self) -> FileInfo:
        """The schema; no row is read."""
        inputs = self.input()
        return with_values([inputs.inspect(path) for path in inputs.paths], self.schema.names)

    def batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of some columns, in batches of at most so many."""
        inputs = self.input()
        for path in inputs.paths:
            types = inputs.inspect(path).types or {}
            for piece in inputs.pieces(path, {name: types[name] for name in names}, Cut(rows)):
                yield read_batch(piece.batch)

    def evaluated(self, names: Sequence[str]) -> DatasetSource:  # noqa: ARG002
        """Return self; files are read in pieces."""
        return self


@dataclass(frozen=True, slots=True)
class DatasetInput(Inputs):
    """The fragments of a dataset as the files of an input.

    Attributes
    ----------
    fragments : dict
        The fragment of each name.
    """

    fragments: dict[InputFile, Any] = field(repr=False)

    def inspect(self, path: InputFile) -> FileInfo:
        """The schema of a fragment, with the columns that it lacks."""
        (info,) = shielded(path, self._infos(path))
        return info

    def _infos(self, path: InputFile) -> Iterator[FileInfo]:
        info = Inputs.inspect(self, path)
        fragment = self.fragments[path]
        if isinstance(fragment, pads.ParquetFileFragment) and fragment.num_row_groups != fragment.metadata.num_row_groups:
            raise JobError(f"{path}: it {PARTIAL}")
        yield info

    def pieces(self, path: InputFile, types: Mapping[str, pa.DataType], cut: Cut) -> Iterator[Piece]:
        """The columns in `types`, in pieces of bounded rows and bytes."""
        return shielded(path, Inputs.pieces(self, path, types, cut))

    def _opened(self, path: InputFile) -> AbstractContextManager[SourceFile]:
        found, fragment = self.found[path], self.fragments[path]
        return opened(path, found) if _is_local(fragment) else _opened_elsewhere(path, fragment, found)

    def _reader(self, path: InputFile) -> Reader:
        return reader_of(FORMATS[type(self.fragments[path].format)])


def _columns(schema: pa.Schema, parts: Mapping[InputFile, Any]) -> TableColumns:
    """The columns of a dataset; the values of its partitions without dictionaries."""
    keys = {name: pads.get_partition_keys(fragment.partition_expression) for name, fragment in parts.items()}
    partitions = {name for each in keys.values() for name in each}
    fields = [each.with_type(_plain(each.type) if each.name in partitions else read_type(each.type)) for each in schema]
    kinds = {each.name: each.type for each in fields}
    values = {part: {name: pa.scalar(value, kinds[name]) for name, value in each.items() if name in kinds} for part, each in keys.items()}
    return TableColumns(pa.schema(fields), values)


def _plain(dtype: pa.DataType) -> pa.DataType:
    return read_type(dtype.value_type if pa.types.is_dictionary(dtype) else dtype)


def _place(fragment: Any) -> tuple[Any, str]:
    """The file system of a file, and its path there; of a system that shows a part of another one, the other one."""
    system, path = fragment.filesystem, fragment.path
    while type(system) is fs.SubTreeFileSystem:
        path, system = f"{system.base_path}{path}", system.base_fs
    return system, path


def _is_local(fragment: Any) -> bool:
    return fragment.buffer is None and type(_place(fragment)[0]) is fs.LocalFileSystem


def _versions(parts: Mapping[InputFile, Any]) -> Iterator[tuple[InputFile, Version | ObjectVersion]]:
    """What each fragment is now; those of one file system, which may be far away, are asked for at once.

    Two systems of one kind, such as two connections to a store, may show one file: their files are the same if their paths are.
    """
    systems: list[tuple[Any, dict[InputFile, str]]] = []
    for name, fragment in parts.items():
        if fragment.buffer is not None:
            yield name, Version(0, fragment.buffer.address, fragment.buffer.size, 0)
        elif _is_local(fragment):
            yield name, version_of(name)
        else:
            found, path = _place(fragment)
            together = next((paths for system, paths in systems if system == found), None)
            systems.append((found, {name: path})) if together is None else together.update({name: path})
    for system, paths in systems:
        for name, each in zip(paths, system.get_file_info(list(paths.values())), strict=True):
            if each.type != fs.FileType.File:
                raise StorageError(f"{name}: there is no such file")
            identity = hash((system.type_name, system.normalize_path(each.path)))
            yield name, Version(ELSEWHERE, identity, each.size, each.mtime_ns or 0)


@contextlib.contextmanager
def _opened_elsewhere(path: InputFile, fragment: Any, found: Version | ObjectVersion) -> Iterator[SourceFile]:
    """Open a fragment that is no file of this machine; raises `StorageError` if it is another than it was, now or at the end."""
    if fragment.buffer is not None:
        with fragment.open() as file:
            yield SourceFile(path, file, found.size)
        return

    def check() -> None:
        (now,) = (version for _, version in _versions({path: fragment}))
        check_same(path, now, found)

    with fragment.open() as file:
        check()
        try:
            yield SourceFile(path, file, found.size, is_remote=True)
        except Exception:
            check()
            raise
        check()
