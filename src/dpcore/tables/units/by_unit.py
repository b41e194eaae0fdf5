"""Rows put into parts by a hash of their unit, so that all rows of a unit lie in one part.

What does not fit into memory is written to disk, encrypted, a run of rows after the other, each sorted by part.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dpcore.tables.types.slices import stored
from dpcore.tables.units.spills import Spill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    import numpy.typing as npt

HELD_BYTES = 128 << 20
"""Memory for rows, beyond which they are written to disk."""
RUN_BYTES = 24 << 20
"""Rows are sorted by part when there are so many bytes of them."""
FIRST_RUN_BYTES = 8 << 20
"""The same before any rows are written to disk, where few large runs are best: smaller arrays stay in the cache."""
PART_BITS = 8
PARTS = 1 << PART_BITS
NAMELESS = PARTS
"""The part of rows that name no unit."""
FEW_ROWS = 1 << 14
"""So many rows, if they are all, are one part: to go through many costs more than any work on them."""
PIECE_ROWS = 1 << 19
PIECE_BYTES = 48 << 20
"""A part is read in pieces of about so many rows or bytes, in case one unit has most rows."""


class ByUnit:
    """Rows in parts: `add` all of them, `finish`, and then read parts in any order.

    Parameters
    ----------
    folder : Path
        For a file of what does not fit into memory; it is made when it is needed.
    schema : pyarrow.Schema
        Of the rows. The first column is the unit: an integer, or bytes.
    """

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self._folder, self._schema = folder, schema
        self._multiplier = secrets.randbits(64) | 1  # nobody can choose names that fall into one part
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        self._runs: list[tuple[pa.RecordBatch, npt.NDArray[np.int64]]] = []
        self._held = 0
        self._spill: Spill | None = None
        self._written: list[npt.NDArray[np.int64]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._spill is not None:
            self._spill.close()

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows; those of a part come back in the order in which they were added."""
        if len(rows) == 0:
            return
        self._waiting.append(rows)
        self._bytes += rows.nbytes
        if self._bytes >= (RUN_BYTES if self._written else min(FIRST_RUN_BYTES, RUN_BYTES)):
            self._sort()

    def finish(self) -> None:
        """End the adding of rows."""
        self._sort(few=not self._held and not self._written and sum(map(len, self._waiting)) <= FEW_ROWS)

    def filled(self) -> list[int]:
        """The parts of rows that name a unit, without those that have no row."""
        sizes = [np.diff(starts) for _, starts in self._runs] + [first + 1 for first in self._written]
        return np.flatnonzero(sum(sizes, np.zeros(PARTS + 1, np.int64))[:PARTS]).tolist()

    def pieces(self, part: int) -> Iterator[pa.RecordBatch]:
        """The rows of a part, in pieces of bounded size."""
        found: list[pa.RecordBatch] = []
        for rows in self._slices(part):
            found.append(rows)
            if sum(map(len, found)) >= PIECE_ROWS or sum(each.nbytes for each in found) >= PIECE_BYTES:
                yield _one(found)
                found = []
        if found:
            yield _one(found)

    def _slices(self, part: int) -> Iterator[pa.RecordBatch]:
        for first in self._written:
            if self._spill is not None and first[part] >= 0:
                yield self._spill.read(int(first[part]))
        for rows, starts in self._runs:
            if starts[part + 1] > starts[part]:
                yield rows.slice(starts[part], starts[part + 1] - starts[part])

    def _sort(self, *, few: bool = False) -> None:
        if not self._waiting:
            return
        rows = _one(self._waiting)
        self._waiting, self._bytes = [], 0
        parts = _parts(rows.column(0), None if few else self._multiplier)
        starts = np.concatenate([[0], np.cumsum(np.bincount(parts, minlength=PARTS + 1))])
        # A stable sort of integers of 16 bits is a radix sort.
        rows = rows.take(pa.array(np.argsort(parts, kind="stable")))
        self._runs.append((rows, starts))
        self._held += rows.nbytes
        if self._held > HELD_BYTES:
            self._write()

    def _write(self) -> None:
        """Move all runs to the file."""
        if self._spill is None:
            self._spill = Spill(self._folder, self._schema)
        for rows, starts in self._runs:
            sizes = np.diff(starts)
            places = np.full(len(sizes), -1)
            for part in np.flatnonzero(sizes):
                places[part] = self._spill.write(rows.slice(starts[part], sizes[part]))
            self._written.append(places)
        self._runs, self._held = [], 0


class Numbering:
    """Numbers for values, from 0 in the order in which they first come.

    Attributes
    ----------
    names : pyarrow.Array or None
        The value of each number; None before the first.
    """

    def __init__(self) -> None:
        self.names: pa.Array | None = None

    def of(self, values: pa.Array) -> npt.NDArray[np.int64]:
        """The number of each value; there are no nulls."""
        known = 0 if self.names is None else len(self.names)
        found = (values if self.names is None else pa.concat_arrays([self.names, values])).dictionary_encode()
        self.names = found.dictionary
        numbers: npt.NDArray[np.int64] = found.indices.to_numpy()[known:].astype(np.int64)
        return numbers


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays([batch.column(place) for batch in batches]) for place in range(batches[0].num_columns)]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


def _parts(units: pa.Array, multiplier: int | None) -> npt.NDArray[np.uint16]:
    """The part of each unit; without a multiplier, one part is that of all."""
    if multiplier is None:
        parts = np.zeros(len(units), np.uint16)
    else:
        factor = np.uint64(multiplier)
        hashed = _hashed_integers(units, factor) if pa.types.is_integer(units.type) else hashed_bytes(units, factor)
        parts = (hashed >> np.uint64(64 - PART_BITS)).astype(np.uint16)
    if units.null_count:
        parts[units.is_null().to_numpy(zero_copy_only=False)] = NAMELESS
    return parts


def _hashed_integers(units: pa.Array, factor: np.uint64) -> npt.NDArray[np.uint64]:
    values = units.fill_null(0).to_numpy(zero_copy_only=False)
    return _mixed(values.astype(np.uint64) * factor, factor)


def _mixed(words: npt.NDArray[np.uint64], factor: np.uint64) -> npt.NDArray[np.uint64]:
    """Words of which the upper bits depend on all bits."""
    words ^= words >> np.uint64(32)
    words *= factor
    return words


def hashed_bytes(units: pa.Array, factor: np.uint64) -> npt.NDArray[np.uint64]:
    """A hash of names, eight bytes of all of them at a time."""
    data = units.buffers()[2]
    ends = stored(units, np.int64 if pa.types.is_large_binary(units.type) else np.int32, more=1).astype(np.int64)
    text = np.zeros(int(ends[-1] - ends[0]) + 8, np.uint8)
    if data is not None:
        text[:-8] = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    starts, sizes = ends[:-1] - ends[0], np.diff(ends)
    words: npt.NDArray[np.uint64] = np.ndarray(len(text) - 7, "<u8", text, strides=(1,))
    hashed = sizes.astype(np.uint64) * factor
    for step in range(0, int(sizes.max(initial=0)), 8):
        rows = np.flatnonzero(sizes > step)
        beyond = np.maximum(step + 8 - sizes[rows], 0).astype(np.uint64)
        own = words[starts[rows] + step] & (np.uint64(2**64 - 1) >> (np.uint64(8) * beyond))
        hashed[rows] = _mixed((hashed[rows] ^ own) * factor, factor)
    return hashed
