"""Random words of rows, by which units choose: from a row's position, or under a test key from what the row holds.

Words by value choose the same rows of a table in any order, on one machine and on many. Equal rows of a unit are numbered, and each number
has a word of its own, as if it were drawn: of three rows a, a and b of which a unit keeps one, a stays with probability 2/3. Which of equal
rows has which number changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore import _backend
from dpcore.batch.tables.row_hash import RowHash, derived, hash_key, hash_of_groups, is_hashed
from dpcore.rng import SecureRandom

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from dpcore.batch.tables.rows import Rows
    from dpcore.rng import Stream
    from dpcore.testing import KeyedRandom

    Array = npt.NDArray[Any]
    Words = npt.NDArray[np.uint64]

ROWS, UNITS, GROUPS, VALUES = b"rows", b"units", b"groups", b"values"
"""What the keys of hashes are for."""


class RowWords:
    """A random word for each row, by its position in the input, so that it does not matter how rows are cut."""

    def __init__(self, key: KeyedRandom | None, nonce: int) -> None:
        source: Stream = SecureRandom() if key is None else key.at(nonce)
        self._position = source.position()

    def of(self, rows: Rows) -> pa.Array:
        """The words of some rows."""
        position = self._position._replace(first_element=rows.first)
        return pa.array(_backend.uniform_words(position, len(rows.batch)))


class RowValues:
    """What words by value are made of: the hash and the marks of each row, and words of the groups of its unit.

    Parameters
    ----------
    key : bytes
        16 bytes: `row_hash.hash_key` makes them.
    unit : str
        The column that holds the unit.
    types : mapping
        Types of the columns of a row; those that `is_hashed` take part, whatever the others are.
    """

    def __init__(self, key: bytes, unit: str, types: Mapping[str, pa.DataType]) -> None:
        self.types = {name: kind for name, kind in types.items() if is_hashed(kind)}
        self._key = key
        self._row, self._unit = RowHash(derived(key, ROWS), self.types), RowHash(derived(key, UNITS), (unit,))

    @classmethod
    def keyed(cls, key: KeyedRandom, nonce: int, unit: str, types: Mapping[str, pa.DataType]) -> RowValues:
        """Under a test key."""
        return cls(hash_key(key.at(nonce).position()), unit, types)

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

    @classmethod
    def keyed(cls, key: KeyedRandom, nonce: int, unit: str, column: str) -> ValueWords:
        """Under a test key."""
        return cls(hash_key(key.at(nonce).position()), unit, column)

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
