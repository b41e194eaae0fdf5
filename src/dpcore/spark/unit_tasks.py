"""Which rows of each unit keep their cells: at most so many, chosen where all rows of the unit meet, and then scattered again.

Three steps, with a shuffle behind each of the first two. Rows get a keyed hash of their unit, by which they meet. Where they have met, each
row gets a word, a keyed hash of what it holds and of its number among equal rows of the unit. The rows with the smallest words keep their
cells; the others are hidden, which means that they are noised as if they were missing. Then a hash of the words scatters the rows, so that
neither the order nor the files of the output depend on whose rows they are, or on which of them are hidden.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.spark.canonical import canonical_parts
from dpcore.spark.noise_tasks import FILE, HIDDEN, INDEX
from dpcore.tables.types.whole_arrays import decoded
from dpcore.tables.units.row_hash import RowHash
from dpcore.tables.units.row_random_bits import ByValue, words_of
from dpcore.tables.units.units import beyond

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    import numpy.typing as npt

    from dpcore.rng import JobKey
    from dpcore.spark.workers import Stamp

    Words = npt.NDArray[np.uint64]

MEETING, WORD = "__dpcore_meeting", "__dpcore_word"
"""Columns beside those of the job: where a row meets the others of its unit, and by which word it is scattered."""


@dataclass(frozen=True)
class UnitTask:
    """What the steps need to know.

    Attributes
    ----------
    by_value : ByValue
        The key of the choice, and the columns that a row holds.
    meeting : bytes
        The key of the meeting places: 16 bytes.
    unit : str
        The column that holds the unit.
    limit : int
        Rows of a unit that keep their cells.
    null_is_unit : bool
        Whether a row that names no unit is a unit of its own; otherwise its cells are hidden.
    stamp : Stamp
        The driver's dpcore.
    """

    by_value: ByValue
    meeting: bytes
    unit: str
    limit: int
    null_is_unit: bool
    stamp: Stamp

    @classmethod
    def keyed(cls, key: JobKey, types: dict[str, pa.DataType], unit: str, *, limit: int, null_is_unit: bool, stamp: Stamp) -> UnitTask:
        """The steps under the key of a job."""
        choice, meeting = (bytes(key.derived(purpose, []))[:16] for purpose in ("choice of rows", "meeting of rows"))
        return cls(ByValue(choice, types), meeting, unit, limit, null_is_unit, stamp)

    def met(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the place where each meets the others of its unit.

        One that names no unit goes where its own name puts it, so that 10,000 equal ones are not one partition; without names of rows, what
        it holds does.
        """
        with self.stamp.guarding():
            yield from self._met(batches)

    def _met(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        of_unit, of_row = RowHash(self.meeting, (self.unit,), exactly=True), RowHash(self.meeting, self.by_value.types)
        of_name = RowHash(self.meeting, (FILE, INDEX))
        for batch in batches:
            by_itself = of_name if FILE in batch.schema.names else of_row
            named = batch.column(self.unit).is_valid().to_numpy(zero_copy_only=False)
            places = np.where(named, of_unit.of(batch)[0], by_itself.of(batch)[0])
            yield batch.append_column(MEETING, pa.array(places.view(np.int64)))

    def chosen(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows with their words, and whether they are hidden. They come sorted by their meeting places."""
        with self.stamp.guarding():
            yield from self._together(batches)

    def _together(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Choose among the rows of each meeting place, which may come in several batches."""
        pending: list[pa.RecordBatch] = []
        for batch in batches:
            if not len(batch):
                continue
            places = batch.column(MEETING).to_numpy()
            if pending and pending[-1].column(MEETING)[-1].as_py() != places[0]:
                yield self._chosen(pending)
                pending = []
            last = int(np.searchsorted(places, places[-1]))  # rows from here on may go on in the next batch
            if last:
                yield self._chosen([*pending, batch.slice(0, last)])
                pending = []
            pending.append(batch.slice(last))
        if pending:
            yield self._chosen(pending)

    def _chosen(self, parts: list[pa.RecordBatch]) -> pa.RecordBatch:
        """Choose among rows that are all of their units."""
        table = pa.Table.from_batches(parts).combine_chunks()
        batch = table.to_batches(max_chunksize=len(table))[0]
        column = decoded(batch.column(self.unit))
        named = column.is_valid().to_numpy(zero_copy_only=False)
        codes = column.dictionary_encode().indices.fill_null(len(column)).to_numpy(zero_copy_only=False).astype(np.int64)
        values = self.by_value.rows(self.unit)
        hashes, marks = values.of(batch)
        if FILE in batch.schema.names:  # equal rows without a unit meet in many places, and must not have one word
            hashes = np.where(named, hashes, hashes ^ batch.column(MEETING).to_numpy().view(np.uint64))
        places = places_of(batch, self.by_value.types, hashes, marks)
        words = values.words(codes, hashes, marks, places)
        hidden = np.zeros(len(batch), np.bool_) if self.null_is_unit else ~named
        hidden[named] = beyond(codes[named], places[named], words[named], self.limit)
        return _with(batch, words_of(self.meeting, words, marks), hidden)


def places_of(batch: pa.RecordBatch, hashed: Container[str], hashes: Words, marks: Words) -> npt.NDArray[np.int64]:
    """The order of rows with equal hashes, which follows from the rows, and not from the order in which a shuffle brings them.

    Where the source names its rows it is that of their names. Rows without names, or with one name, are in the order of what their hashes
    leave out: the signs of zeros, and nested cells. Those that are still equal are the same record, and it does not matter which is which.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        The rows.
    hashed : container of str
        The columns of which the hashes are.
    hashes, marks : ndarray of uint64
        Of each row.

    Returns
    -------
    ndarray of int64
        The place of each row among those with its hashes; of a row that is alone, 0.
    """
    places = np.zeros(len(batch), np.int64)
    alike = _alike(marks, hashes)
    if not len(alike):
        return places
    rows, keys = batch.take(pa.array(alike)), [marks[alike], hashes[alike]]
    if FILE in batch.schema.names:
        keys = [rows.column(INDEX).to_numpy(), rows.column(FILE).to_numpy(), *keys]
    if len(_alike(*keys)):
        keys = [*_left_out(rows, hashed), *keys]
    places[alike[np.lexsort(keys)]] = np.arange(len(alike))
    return places


def _alike(*keys: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The rows, in their order, that agree with another one in all keys."""
    order = np.lexsort(keys)
    same = np.logical_and.reduce([key[order][1:] == key[order][:-1] for key in keys])
    return np.sort(order[np.append(same, False) | np.append(False, same)]) if same.any() else np.empty(0, np.int64)


def _left_out(rows: pa.RecordBatch, hashed: Container[str]) -> Iterator[npt.NDArray[Any]]:
    """What hashes of rows do not have of them, as numbers whose order follows from the cells."""
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if name in (MEETING, FILE, INDEX):
            continue
        if name not in hashed:
            contents = [b"".join(map(bytes, canonical_parts(column.slice(place, 1)))) for place in range(len(column))]
            ranks = {content: rank for rank, content in enumerate(sorted(set(contents)))}
            yield np.array([ranks[content] for content in contents])
        elif pa.types.is_floating(column.type):
            numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
            yield np.signbit(numbers) & (numbers == 0)


def _with(batch: Any, words: npt.NDArray[np.uint64], hidden: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    names = [name for name in batch.schema.names if name != MEETING]
    arrays = [*(batch.column(name) for name in names), pa.array(words.view(np.int64)), pa.array(hidden)]
    return pa.RecordBatch.from_arrays(arrays, [*names, WORD, HIDDEN])
