"""Statistics of turns: the undisturbed time of a block of turns, ratios within blocks, and their bands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from dpcore._dataclasses import dataclass

FASTEST = 0.1
"""Share of the turns of a block that count as undisturbed: other work on a machine only makes a turn longer."""
WIDEST = 1.5
"""A band whose ends differ by more than this factor is too wide to say which side is faster."""
ALIKE = 1.02
"""Sides whose ratio may be within this factor of 1 are as fast as each other: code and data lie differently in every process."""
CONFIDENCE = 0.95
"""Least coverage of a band, from six blocks on."""
Verdict = Literal["faster", "slower", "no winner", "too noisy"]


def undisturbed(turns: Sequence[float]) -> float:
    """The time of a block of turns: that of its fastest tenth.

    Parameters
    ----------
    turns : sequence of float
        Seconds of a call, at least one.

    Examples
    --------
    >>> undisturbed([1.0] * 19 + [50.0]), undisturbed([3.0])
    (1.0, 3.0)
    """
    return sorted(turns)[int(FASTEST * (len(turns) - 1))]


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of times with its band.

    Attributes
    ----------
    value : float
        Median over the blocks of turns.
    low, high : float
        An interval for the median between two of the blocks, the narrowest with a coverage of 0.95; all blocks if they are fewer than 6.
    blocks : int
        Number of blocks.
    """

    value: float
    low: float
    high: float
    blocks: int

    @property
    def coverage(self) -> float:
        """Probability that the band contains the median of all blocks that such a run may have; 0 for one block."""
        return _coverage(self.blocks, _left_out(self.blocks))

    @property
    def verdict(self) -> Verdict:
        """What a ratio of another side's time to ours says."""
        if self.blocks < 2 or self.high > WIDEST * self.low:
            return "too noisy"
        if self.low > ALIKE:
            return "faster"
        return "slower" if self.high * ALIKE < 1 else "no winner"

    @property
    def inverse(self) -> Ratio:
        """The ratio the other way round."""
        return Ratio(1 / self.value, 1 / self.high, 1 / self.low, self.blocks)


def ratio_of(blocks: Sequence[float]) -> Ratio:
    """Return the ratio whose value in each block is known.

    Parameters
    ----------
    blocks : sequence of float
        At least one.

    Returns
    -------
    Ratio
        Its median and its band.

    Raises
    ------
    ValueError
        If there are no blocks.

    Notes
    -----
    Cost: that of sorting.

    Examples
    --------
    >>> from dpcore.bench import ratio_of
    >>> ratio_of([2.1, 2.0, 2.2, 2.1, 2.3]).verdict, ratio_of([0.9, 1.0, 1.1]).verdict, ratio_of([1.0, 2.0]).verdict
    ('faster', 'no winner', 'too noisy')
    """
    if not blocks:
        raise ValueError("a ratio needs at least one block of turns")
    ordered, out = sorted(blocks), _left_out(len(blocks))
    middle = ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1]
    # The geometric mean of the middle two, so that the inverse is the median of the inverses.
    return Ratio(math.sqrt(middle[0] * middle[-1]) if len(middle) > 1 else middle[0], ordered[out], ordered[-1 - out], len(blocks))


def _left_out(blocks: int) -> int:
    """Blocks at each end that a band leaves out."""
    out = 0
    while _coverage(blocks, out + 1) >= CONFIDENCE:
        out += 1
    return out


def _coverage(blocks: int, out: int) -> float:
    """Probability that the median lies between the order statistics: not more than `out` blocks are on one side of it."""
    return 1 - 2 * sum(math.comb(blocks, i) for i in range(out + 1)) / 2.0**blocks
