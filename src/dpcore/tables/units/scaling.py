"""Scales integers so that their absolute values sum to at most a bound, in integers of 64 bits, without rounding errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Integers = npt.NDArray[np.int64]

MOST_BITS = 50
"""Bits of the bound, and of each integer."""
LIMB_BITS = 25
"""Sums are kept in two words, the lower one of so many bits."""
_LOW = 2**LIMB_BITS - 1
_WIDE = 2**61
"""Below it a remainder of the division fits into 64 bits, with some to spare."""


class Totals:
    """The sum of the absolute values of each unit, however large."""

    def __init__(self) -> None:
        self._high, self._low = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def add(self, units: Integers, sizes: Integers) -> None:
        """Add sizes in [0, 2^50] to the sums of units, which are numbered from 0."""
        more = int(units.max(initial=-1)) + 1 - len(self._high)
        if more > 0:
            self._high, self._low = (np.append(each, np.zeros(more, np.int64)) for each in (self._high, self._low))
        np.add.at(self._high, units, sizes >> LIMB_BITS)
        np.add.at(self._low, units, sizes & _LOW)
        self._high += self._low >> LIMB_BITS
        self._low &= _LOW

    def exact(self, unit: int) -> int:
        """The sum of a unit."""
        return (int(self._high[unit]) << LIMB_BITS) + int(self._low[unit])

    def over(self, most: int) -> npt.NDArray[np.bool_]:
        """Whether the sum of each unit is more than the bound."""
        found: npt.NDArray[np.bool_] = (self._high > most >> LIMB_BITS) | ((self._high == most >> LIMB_BITS) & (self._low > most & _LOW))
        return found

    def divisors(self, units: Integers) -> tuple[Integers, npt.NDArray[np.bool_]]:
        """The sums of units that 61 bits hold; of others the upper word and one, and that this was done."""
        high, low = self._high[units], self._low[units]
        far = high >= _WIDE >> LIMB_BITS
        return np.where(far, high + 1, (np.where(far, 0, high) << LIMB_BITS) + low), far


def scaled(steps: Integers, units: Integers, totals: Totals, most: int) -> Integers:
    r"""Scale the steps of each unit whose absolute values sum to more than a bound.

    Parameters
    ----------
    steps : ndarray of int64 of shape (n,)
        Integers k in [−most, most].
    units : ndarray of int64 of shape (n,)
        Whose each is.
    totals : Totals
        The sums T of |k| of each unit over all of its steps.
    most : int
        The bound C, in [1, 2^50].

    Returns
    -------
    ndarray of int64 of shape (n,)
        k where T ≤ C, otherwise sign(k)·⌊|k|·C / T⌋.

    Notes
    -----
    Guarantee: the absolute values of one unit sum to at most C: Σ ⌊|k|·C / T⌋ ≤ C·Σ|k| / T = C. From T ≥ 2^61 on, more than 2^11 times C,
    it is ⌊⌊|k| / 2^25⌋·C / T'⌋ with T' = ⌊T / 2^25⌋ + 1 ≥ T / 2^25 ≥ Σ ⌊|k| / 2^25⌋, for which the same holds.

    A quotient q = ⌊a·C / T⌋ is found from its value in float64, which is off by less than 2, since a·C / T < 2^50. Its remainder
    a·C − q·T is then less than 3·T < 2^63 in magnitude, and so exact in arithmetic modulo 2^64; it says by how much q is off.
    """
    over = totals.over(most)[units]
    if not over.any():
        return steps
    found: Integers = steps.copy()
    chosen = np.flatnonzero(over)
    divisors, far = totals.divisors(units[chosen])
    sizes = np.abs(steps[chosen])
    sizes = np.where(far, sizes >> LIMB_BITS, sizes)
    found[chosen] = np.sign(steps[chosen]) * _quotients(sizes, most, divisors)
    return found


def _quotients(sizes: Integers, most: int, divisors: Integers) -> Integers:
    near = np.floor(sizes * (most / divisors)).astype(np.int64)
    with np.errstate(over="ignore"):
        remainders = sizes * np.int64(most) - near * divisors
    return np.asarray(near + remainders // divisors, np.int64)
