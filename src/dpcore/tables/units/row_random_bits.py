"""Random words of rows, by which units choose: from a row's position, or under a key that is kept from what the row holds.

Words by value choose the same rows of a table in any order, on one machine and on many. Equal rows of a unit are numbered, and each number
has a word of its own, as if it were drawn: of three rows a, a and b of which a unit keeps one, a stays with probability 2/3. Which of equal
rows has which number changes nothing.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore.rng import SecureRandom
from dpcore.tables.units.row_hash import RowHash, derived, hash_key, hash_of_groups, types_of_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from dpcore.rng import Numbered, Stream
    from dpcore.tables.pieces import FileInfo
    from dpcore.tables.rows import Rows

    Array = npt.NDArray[Any]
    Words = npt.NDArray[np.uint64]

ROW_NONCE, GROUP_NONCE = 2**32 - 1, 2**32 - 2
"""Nonces of the words of a keyed job: beyond those of all queries."""
ROWS, UNITS, GROUPS, VALUES = b"rows", b"units", b"groups", b"values"
"""What the keys of hashes are for."""


class RowWords:
    """A random word for each row, by its position in the input, so that it does not matter how rows are cut."""

    def __init__(self, key: Numbered | None, nonce: int) -> None:
        source: Stream = SecureRandom() if key is None else key.at(nonce)
        self._position = source.position()

    def of(self, rows: Rows) -> pa.Array:
        """The words of some rows."""
        position = self._position._replace(first_element=rows.first)
        return pa.array(_backend.uniform_words(position, len(rows.batch)))


@dataclass(frozen=True, slots=True)
class ByValue:
    """A choice of rows, groups and values of units that follows from what rows hold.

    Whichever process has all rows of a unit makes the same choice among them, in every pass over them and at every attempt. So an engine
    with many processes pickles it into its tasks, and gives them the columns of `types` beside those that queries read.

    Attributes
    ----------
    key : bytes
        16 bytes. Of a job without a test key they come from the operating system, or follow from a committed key that does.
    types : dict
        The columns that are hashed, with their types; how those are stored changes nothing.
    """

    key: bytes = field(repr=False)
    types: dict[str, pa.DataType]

    @classmethod
    def keyed(cls, key: Numbered, infos: Iterable[FileInfo]) -> ByValue:
        """Under a test key or a committed one, for the columns of some files."""
        return cls(hash_key(key.at(ROW_NONCE).position()), types_of_rows(infos))

    def rows(self, unit: str) -> RowValues:
        """For the rows of the units in a column."""
        return RowValues(self.key, unit, self.types)

    def values(self, query: int, unit: str, column: str) -> ValueWords:
        """For the values of a column that a query counts."""
        return ValueWords(derived(self.key, b"query %d" % query), unit, column)


class RowValues:
    """What words by value are made of: the hash and the marks of each row, and words of the groups of its unit.

    Parameters
    ----------
    key : bytes
        16 bytes.
    unit : str
        The column that holds the unit.
    names : iterable of str
        The columns of a row.
    """

    def __init__(self, key: bytes, unit: str, names: Iterable[str]) -> None:
        self._key = key
        self._row, self._unit = RowHash(derived(key, ROWS), names), RowHash(derived(key, UNITS), (unit,))

    def of(self, batch: pa.RecordBatch) -> tuple[Words, Words]:
        """The hash and the marks of each row."""
        return self._row.of(batch)

    def of_groups(self, batch: pa.RecordBatch, groups: pa.Array) -> Words:
        """A word for the unit and the group of each row: the same for all rows of the unit in the group."""
        units, _ = self._unit.of(batch)
        return words_of(derived(self._key, GROUPS), units, hash_of_groups(derived(self._key, GROUPS + b" of rows"), groups))

    def words(self, units: Array, hashes: Words, marks: Words, places: Array) -> Words:
        """The words of rows, of which all with equal hashes are given."""
        return words_of(derived(self._key, VALUES), hashes, repeats(units, hashes, marks, places))


class ValueWords:
    """Words for the values of units in groups: each different one of a unit has one word, wherever its rows lie.

    Parameters
    ----------
    key : bytes
        16 bytes.
    unit, column : str
        The columns that hold the unit and the value.
    """

    def __init__(self, key: bytes, unit: str, column: str) -> None:
        self._key, self._column = derived(key, b"of values"), column
        self._unit, self._value = RowHash(derived(key, UNITS), (unit,)), RowHash(derived(key, VALUES), (column,), exactly=True)

    def of(self, batch: pa.RecordBatch, codes: Array | None, groups: Array | None = None) -> Words:
        """The words of rows; values are the cells of the column, or the codes of declared ones if there are some."""
        values = self._value.of(batch)[0] if codes is None else codes.astype(np.uint64)
        return words_of(self._key, self._unit.of(batch)[0], values, np.zeros(len(batch)) if groups is None else groups)


def words_of(key: bytes, *parts: Array) -> Words:
    """A word for each row of whole numbers."""
    rows = np.stack([np.asarray(part).astype(np.uint64) for part in parts], axis=1)
    found = np.zeros(len(rows), np.uint64)
    _backend.add_row_hashes(key, rows, None, found)
    return found


def repeats(units: Array, hashes: Words, marks: Words, places: Array) -> npt.NDArray[np.int64]:
    """The number of each row among those of its unit with equal hashes, in the order of their marks, from 0; equal ones by their place."""
    found = np.zeros(len(hashes), np.int64)
    order = np.argsort(hashes)
    same = hashes[order][1:] == hashes[order][:-1]
    if not same.any():
        return found
    # Few rows have equals, and only they are sorted by more than their hash.
    chosen = np.sort(order[np.append(same, False) | np.append(False, same)])
    order = chosen[np.lexsort((places[chosen], marks[chosen], hashes[chosen], units[chosen]))]
    begins = np.append(True, (hashes[order][1:] != hashes[order][:-1]) | (units[order][1:] != units[order][:-1]))
    starts = np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
    found[order] = np.arange(len(order)) - starts
    return found
