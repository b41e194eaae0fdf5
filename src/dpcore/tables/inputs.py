"""The input files of a job, and one interface to their three formats."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore._disk.signals import Deferred
from dpcore.errors import JobError
from dpcore.tables.pieces import slices

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from dpcore._disk.stores import ObjectVersion
    from dpcore.tables.formats.table_columns import TableColumns
    from dpcore.tables.partitions import Columns
    from dpcore.tables.pieces import Cut, FileInfo, Piece
    from dpcore.tables.sections import Format
    from dpcore.tables.sources import InputFile, SourceFile, Version


class Reader(Protocol):
    """A module that reads one input format."""

    def inspect(self, source: SourceFile) -> FileInfo:
        """The file's schema and, where the format says, its number of rows."""

    def pieces(self, source: SourceFile, types: Mapping[str, pa.DataType], cut: Cut) -> Iterator[Piece]:
        """The columns of `types`, cut into batches, in the file's order."""


KNOWN_BYTES = 8 << 20
"""Size of the footers that are kept; decoded they take several times as much."""


class Known:
    """What was read of the small footers of an input: a file that has changed since has another version when it is opened."""

    def __init__(self) -> None:
        self.infos: dict[InputFile, FileInfo] = {}
        self._left = KNOWN_BYTES

    def noted(self, path: InputFile, info: FileInfo) -> FileInfo:
        """The same, kept if there is room."""
        if info.footer is not None and info.footer.serialized_size <= self._left:
            self.infos[path] = info
            self._left -= info.footer.serialized_size
        return info


def reader_of(file_format: Format) -> Reader:
    """What reads files of a format; it is loaded for the first of them, and with it what it needs of Arrow."""
    with Deferred():
        match file_format:
            case "parquet":
                from dpcore.tables.formats import parquet

                return parquet
            case "csv":
                from dpcore.tables.formats import csv

                return csv
            case "arrow":
                from dpcore.tables.formats import arrow

                return arrow


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files of a job, in the order in which they are read: sorted by path.

    Attributes
    ----------
    format : Format
        Of all of them.
    paths : tuple of Path, Address or Partitioned
        Their names, each file once.
    found : dict
        What each was when the job was planned; a file that is another when it is read, or becomes another, ends the job.
    columns : Columns, TableColumns or None
        The columns that the names of the folders, or the log of a table, hold; None if they hold none.
    """

    format: Format
    paths: tuple[InputFile, ...]
    found: dict[InputFile, Version | ObjectVersion]
    columns: Columns | TableColumns | None = field(default=None, kw_only=True)
    _known: Known = field(default_factory=Known, kw_only=True, repr=False, compare=False)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the files in bytes."""
        return tuple(self.found[path].size for path in self.paths)

    @property
    def origin(self) -> dict[str, Any]:
        """What documents say of it: the format, and the number of files."""
        return {"format": self.format, "files": len(self.paths)}

    @property
    def folder_columns(self) -> tuple[str, ...]:
        """The columns that the names of the folders hold."""
        return () if self.columns is None else tuple(self.columns.types)

    def is_as_found(self) -> bool:
        """Whether files are what they were when they were found; False where folders are columns, whose types depend on the job."""
        from dpcore.tables.sources import version_of

        return self.columns is None and all(version_of(path) == self.found[path] for path in self.paths)

    def _opened(self, path: InputFile) -> AbstractContextManager[SourceFile]:

        from dpcore.tables.sources import opened  # which a frame does without

        return opened(path, self.found[path], self._known.infos.get(path))

    def _reader(self, path: InputFile) -> Reader:  # noqa: ARG002  # other inputs have files of several formats
        return reader_of(self.format)

    def inspect(self, path: InputFile) -> FileInfo:
        """The schema of one of the files, with the columns of its folders."""
        info = self._known.infos.get(path)
        if info is None:
            with self._opened(path) as source:
                info = self._known.noted(path, self._reader(path).inspect(source))
        return info if self.columns is None else self.columns.described(path, info)

    def pieces(self, path: InputFile, types: Mapping[str, pa.DataType], cut: Cut) -> Iterator[Piece]:
        """The columns in `types` of one of the files, in pieces of bounded rows and bytes."""
        with self._opened(path) as source:
            reader = self._reader(path)
            outside = set() if self.columns is None else self.columns.outside(path, lambda: reader.inspect(source))
            own = {name: kind for name, kind in types.items() if name not in outside}
            # Readers hand over rows of columns, of which there must be some.
            for whole in reader.pieces(source, own or narrowest(path, reader.inspect(source)), cut):
                yield from slices(whole if len(own) == len(types) else self._completed(path, whole, types, outside), cut.rows)

    def _completed(self, path: InputFile, piece: Piece, types: Mapping[str, pa.DataType], outside: set[str]) -> Piece:
        """A piece with the columns that are not in its file."""
        if self.columns is None:
            raise AssertionError("there are no such columns")
        columns = [
            self.columns.column(path, name, len(piece.batch), kind) if name in outside else piece.batch.column(name)
            for name, kind in types.items()
        ]
        return replace(piece, batch=pa.RecordBatch.from_arrays(columns, list(types)))


def narrowest(path: InputFile, info: FileInfo) -> dict[str, pa.DataType]:
    """The column of a file that takes the least to read; raises `JobError` if there is none."""
    if not info.names:
        raise JobError(f"{path}: it has no columns, and so no rows that can be counted")
    if info.types is None:
        return {info.names[0]: pa.binary()}
    types = info.types
    name = min(info.names, key=lambda each: _bits(types[each]))
    return {name: types[name]}


def _bits(dtype: pa.DataType) -> int:
    try:
        return int(dtype.bit_width)
    except ValueError:
        return 1 << 20
