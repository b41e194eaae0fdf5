"""Where the rows of units stand in a table that has one row for each."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore.tables.units.by_unit import hashed_bytes

if TYPE_CHECKING:
    import numpy.typing as npt

NONE = -1
MANY = 1 << 31


class UnitIndex:
    """Places of units, found by binary search: of integers as they are, of names by a hash, after which names are compared.

    Parameters
    ----------
    units : pyarrow.Array
        The unit of each row, as `contributions.compared` gives it: integers or bytes, each once; of a null none is found.
    """

    def __init__(self, units: pa.Array) -> None:
        self._multiplier = np.uint64(secrets.randbits(64) | 1)  # nobody can choose names with one hash
        self._is_named = not pa.types.is_integer(units.type)
        rows = np.flatnonzero(units.is_valid().to_numpy(zero_copy_only=False))
        units = _wide(units.drop_null())
        sorted_by = self._sorted_by(units)
        order = np.argsort(sorted_by, kind="stable")
        self._keys, self._rows = sorted_by[order], rows[order].astype(np.int32 if rows.max(initial=0) < MANY else np.int64)
        self._units = units.take(pa.array(order if self._is_named else order[:0]))

    def places(self, units: pa.Array) -> npt.NDArray[np.int64]:
        """The row of each unit, −1 for one that has none and for a null."""
        found = np.full(len(units), NONE, np.int64)
        if not len(self._keys):
            return found
        asked = np.flatnonzero(units.is_valid().to_numpy(zero_copy_only=False))
        units = _wide(units.drop_null())
        keys = self._sorted_by(units)
        at = np.searchsorted(self._keys, keys)
        while len(asked):
            there = at < len(self._keys)
            there[there] = self._keys[at[there]] == keys[there]
            asked, keys, at, units = asked[there], keys[there], at[there], units.filter(pa.array(there)) if self._is_named else units
            if not self._is_named:
                found[asked] = self._rows[at]
                break
            same = pc.equal(units, self._units.take(pa.array(at))).to_numpy(zero_copy_only=False)
            found[asked[same]] = self._rows[at[same]]
            # Another name has this hash: what comes next may have it, too.
            asked, keys, at, units = asked[~same], keys[~same], at[~same] + 1, units.filter(pa.array(~same))
        return found

    def _sorted_by(self, units: pa.Array) -> npt.NDArray[np.int64] | npt.NDArray[np.uint64]:
        if self._is_named:
            return hashed_bytes(units, self._multiplier)
        numbers: npt.NDArray[np.int64] = units.to_numpy(zero_copy_only=False)
        return numbers


def _wide(units: pa.Array) -> pa.Array:
    """Integers with 64 bits, and names in an array of any size."""
    if not pa.types.is_integer(units.type):
        return units.cast(pa.large_binary())
    return units if units.type == pa.uint64() else units.cast(pa.int64())
