"""A frame as the input of a job: it has the interface of a job's files, and plan and run do not know the difference."""

from __future__ import annotations

import zlib
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.errors import DpcoreError, StorageError
from dpcore.frames.source import OwnInput, RemoteSource
from dpcore.tables.formats.checked import checked
from dpcore.tables.inputs import Inputs
from dpcore.tables.pieces import FileInfo, Piece, slices
from dpcore.tables.types.plain import unit_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dpcore.frames.source import FrameSource
    from dpcore.tables.pieces import Cut
    from dpcore.tables.sources import InputFile

Made = TypeVar("Made")
DIGEST_ROWS = 1 << 16
PANICS = "pyo3_runtime"
"""The module of the errors of libraries in Rust, such as polars, that are no `Exception`."""
CHANGED = "the frame changed while it was read, so the result would mix two tables; try again when nothing writes to it"


@dataclass(slots=True)
class _Passes:
    """What the passes of one run share.

    Attributes
    ----------
    source : Source
        What they read.
    columns : tuple of str or None
        All columns of the run, if there is more than one pass.
    chosen : tuple of str
        The columns of the first pass.
    digest : int or None
        Of those columns before that pass, if they could change.
    """

    source: FrameSource
    columns: tuple[str, ...] | None = None
    chosen: tuple[str, ...] = ()
    digest: int | None = None

    def begin(self, names: Sequence[str]) -> bool:
        """Begin a pass; whether it is the first."""
        if self.columns is None:
            return True
        first = not self.chosen
        if first:
            self.source = self.source.evaluated(list(dict.fromkeys([*self.columns, *names])))
            self.chosen = tuple(names)
            self.digest = None if self.source.is_snapshot else _digest(self.source, self.chosen)
        return first

    def end(self) -> None:
        """End a pass that was not the first; raises `StorageError` if the rows of the units are others than then."""
        if self.digest is not None and _digest(self.source, self.chosen) != self.digest:
            raise StorageError(CHANGED)


@dataclass(frozen=True, slots=True)
class FrameInput(Inputs):
    """A frame as the one part of an input.

    Attributes
    ----------
    source : Source
        The frame.
    """

    source: FrameSource
    _passes: _Passes = field(repr=False)

    @classmethod
    def of(cls, source: FrameSource) -> FrameInput:
        """The input of one run."""
        return cls("arrow", (Path(source.name),), {}, source, _Passes(source))

    def hold(self, columns: Sequence[str]) -> None:
        """Set the columns that several passes will read."""
        self._passes.columns = tuple(columns)

    @property
    def sizes(self) -> tuple[int, ...]:
        """1: there is one part, and progress counts its rows."""
        return (1,)

    def inspect(self, path: InputFile) -> FileInfo:
        (info,) = shielded(path, (source.info() for source in [self.source]))
        return info

    def pieces(self, path: InputFile, types: Mapping[str, pa.DataType], cut: Cut) -> Iterator[Piece]:
        """The columns in `types`, in pieces of bounded rows and bytes."""
        return shielded(path, self._pieces(types, cut))

    def _pieces(self, types: Mapping[str, pa.DataType], cut: Cut) -> Iterator[Piece]:
        first, done = self._passes.begin(list(types)), 0
        source = self._passes.source
        total = source.info().rows
        for batch in source.batches(list(types), cut.rows):
            if not all(_is_read_as(batch.schema.field(name).type, kind) for name, kind in types.items()):
                raise StorageError(CHANGED)
            end = done + len(batch)
            yield from slices(Piece(checked(batch, types), done, 0.5 if not total else min(end / total, 1.0)), cut.rows)
            done = end
        if not first:
            self._passes.end()


def _is_read_as(dtype: pa.DataType, planned: pa.DataType) -> bool:
    """Whether a column has the type of the plan, which for a unit is that of its values without a dictionary."""
    return bool(dtype == planned or unit_type(dtype) == planned)


def _digest(source: FrameSource, names: Sequence[str]) -> int:
    found, before = 0, [_Labels()] * len(names)
    for batch in source.batches(names, DIGEST_ROWS):
        found = zlib.crc32(pa.RecordBatch.from_arrays(batch.columns, names=batch.schema.names).serialize(), found)
        # A batch is serialized without its labels. Those of many batches are often the same memory, and are then read once.
        labels = [_Labels(list(_labels(column))) for column in batch.columns]
        for now, last in zip(labels, before, strict=True):
            if now.places != last.places:
                for each in now.arrays:
                    found = zlib.crc32(pa.RecordBatch.from_arrays([each], names=[""]).serialize(), found)
        before = labels
    return found


@dataclass(slots=True)
class _Labels:
    """The dictionaries of some rows of a column, and where they lie."""

    arrays: list[pa.Array] = field(default_factory=list)
    places: list[tuple[int, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self.places = [(len(each), each.offset, *(part.address for part in each.buffers() if part is not None)) for each in self.arrays]


def _labels(cells: Any) -> Iterator[pa.Array]:
    """The dictionaries of an array, at any depth."""
    kind = cells.type
    if isinstance(cells, pa.ExtensionArray):
        yield from _labels(cells.storage)
    elif pa.types.is_dictionary(kind):
        yield cells.dictionary
        yield from _labels(cells.dictionary)
    elif pa.types.is_map(kind):
        yield from (*_labels(cells.keys), *_labels(cells.items))
    elif pa.types.is_struct(kind) or pa.types.is_union(kind):
        for place in range(kind.num_fields):
            yield from _labels(cells.field(place))
    elif pa.types.is_nested(kind) or pa.types.is_run_end_encoded(kind):
        yield from _labels(cells.values)


def shielded(path: InputFile, made: Iterator[Made]) -> Iterator[Made]:
    """Iterate over another library's results; of an error show only the class.

    What the library itself prints, as polars does with its panics, cannot be held back: another thread may write to standard error.
    """
    failed = None
    try:
        yield from made
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__module__ != PANICS:
            raise
        failed = _told(error, path)
    if failed is not None:
        raise failed  # Outside of the handler: what the library said may quote a row, and is not the context of this error.


def input_of(source: FrameSource) -> Inputs:
    """The input of one run on a frame."""
    return source.input() if isinstance(source, OwnInput) else FrameInput.of(source)


def public_input_of(source: FrameSource) -> Inputs:
    """The input of one run on a public table, whose rows come to this process wherever they lie."""
    return FrameInput.of(source) if isinstance(source, RemoteSource) else input_of(source)


def _told(error: BaseException, path: InputFile) -> Exception:
    """The error to report: the message of another library may quote a row, so only its class is in it, if Python or Arrow define that."""
    if isinstance(error, DpcoreError | MemoryError):
        return error
    kind = type(error)
    known = kind.__module__ in {"builtins", "pyarrow.lib"}
    return StorageError(f"{path}: its rows cannot be read{f' ({kind.__name__})' if known else ''}; what the library says is not shown")
