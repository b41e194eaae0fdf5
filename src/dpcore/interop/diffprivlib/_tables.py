"""Draws from a few categories with weights e^x, decided as with real numbers: quicker than noise on each where there are few."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

from dpcore._exact.intervals import Interval, exp, floor
from dpcore._exact.probability import Probability

DIGITS = 53
"""Random bits of one `random()`, of the operating system's randomness and of a seeded state."""
_GUARD = 64

Random = Callable[[], float]


def coin(p: Probability, random: Random) -> bool:
    """Whether a uniform number, of which as many bits are drawn as it takes, is below p."""
    number, bits = int(random() * 2.0**DIGITS), DIGITS
    while (below := p.floor(bits)) == number:
        number, bits = number << DIGITS | int(random() * 2.0**DIGITS), bits + DIGITS
    return number < below


class Table:
    """Indices i with P ∝ e^(xᵢ).

    Parameters
    ----------
    exponents : tuple of Fraction
        x.
    """

    def __init__(self, exponents: tuple[Fraction, ...]) -> None:
        self._exponents = exponents
        self._first = self._ends(DIGITS)

    def index(self, random: Random) -> int:
        """The first index whose share, with those before it, is above a uniform number, of which as many bits are drawn as it takes."""
        number, bits = int(random() * 2.0**DIGITS), DIGITS
        lows, highs = self._first
        while True:
            found = bisect_right(lows, number)
            if not found or number > highs[found - 1]:
                return found
            number, bits = number << DIGITS | int(random() * 2.0**DIGITS), bits + DIGITS
            lows, highs = self._ends(bits)

    def _ends(self, bits: int) -> tuple[list[int], list[int]]:
        """For each index but the last, two integers that enclose ⌊2^bits·P(at most this index)⌋."""
        weights = [exp(Interval.of(x, bits + _GUARD)) for x in self._exponents]
        *sums, total = accumulate(weights)
        shares = [part / total for part in sums]
        return [floor(share.low, bits) for share in shares], [floor(share.high, bits) for share in shares]


table_of = lru_cache(maxsize=1024)(Table)
"""Tables, which are kept: mechanisms with the same parameters are often made again."""
