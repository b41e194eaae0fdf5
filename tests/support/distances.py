"""Neighbours at the borders of number types, and whether what is released of them keeps the distance between them.

Nothing here knows how a value enters the noise. `loss_bound` sees released numbers alone: of v and v′, released with Laplace noise of scale
|v − v′|, no event may be more than e times as probable for one as for the other. Where a conversion moves the two apart before the noise,
some event is. Rounding afterwards cannot make one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import stats

from support.laws import ERROR_RATE

BORDERS = (2**53, 2**63, 2**64, 2**70)
MIDDLES = tuple(border + border // 2**53 for border in BORDERS)
"""Between a border and the next float: on both sides of them, numbers are rounded to different floats."""
DRAWS = 6000
THRESHOLDS = 64

PYTHON = (bool, int, float, complex, Fraction, Decimal)
NUMPY = tuple(sorted({kind for kind in np.sctypeDict.values() if kind is not np.object_}, key=lambda kind: kind.__name__))
"""Every type of single values that NumPy has."""


def integer_pairs(low: int, high: int) -> Iterator[tuple[int, int]]:
    """Neighbours v, v + 1 in [low, high]: at its ends, at the borders, and in the middle between two floats above each border."""
    starts = {low, high - 1}
    for border in BORDERS:
        starts |= {sign * (border + step) for sign in (1, -1) for step in (-1, 0, 1)}
    starts |= {sign * (middle + step) for middle in MIDDLES for sign in (1, -1) for step in (-1, 0)}
    yield from ((start, start + 1) for start in sorted(starts) if low <= start < high)


def float_pairs(kind: type[np.floating[Any]]) -> Iterator[tuple[Any, Any]]:
    """A number and the next one of its type: at the borders, where the type has them, at 1 and at a third."""
    for border in (Fraction(1, 3), 1, *BORDERS):
        for sign in (1, -1):
            if border <= int(np.finfo(kind).max):
                value = kind(sign) / kind(3) if border == Fraction(1, 3) else kind(sign * border)
                yield value, np.nextafter(value, kind(0))


def exact(value: Any) -> Fraction:
    """A number of any type as a fraction."""
    if isinstance(value, np.floating):
        return Fraction(*value.as_integer_ratio())
    return Fraction(int(value)) if isinstance(value, np.integer | np.bool_) else Fraction(value)


def neighbours(kind: type) -> list[tuple[Any, Any]]:
    """Pairs of values of a type of Python or NumPy."""
    if kind in {bool, np.bool_}:
        return [(kind(0), kind(1))]
    if kind is int:
        return list(integer_pairs(-(2**71), 2**71))
    if kind is Fraction:
        return [(middle - Fraction(1, 3), middle + Fraction(1, 3)) for middle in MIDDLES]
    if kind is Decimal:
        return [(middle - Decimal("0.25"), middle + Decimal("0.25")) for middle in MIDDLES]
    if kind is float:
        return [(float(v), float(w)) for v, w in float_pairs(np.float64)]
    if kind is np.longdouble:
        return [*float_pairs(kind), *((kind(middle), np.nextafter(kind(middle), kind(np.inf))) for middle in MIDDLES)]
    if issubclass(kind, np.floating):
        return list(float_pairs(kind))
    ends = np.iinfo(kind)
    return [(kind(v), kind(w)) for v, w in integer_pairs(int(ends.min), int(ends.max))]


def distance(v: Any, w: Any) -> float:
    """|v − w|, which is a float for all pairs of this module."""
    apart = abs(exact(v) - exact(w))
    found = float(apart)
    assert Fraction(found) >= apart * (1 - Fraction(1, 2**50))
    return found


def loss_bound(first: Any, second: Any) -> float:
    """A lower bound of the loss of privacy between two samples, which exceeds the loss with probability at most 10^-6."""
    samples = [np.sort(np.asarray(each, np.float64).ravel()) for each in (first, second)]
    both = np.concatenate(samples)
    thresholds = np.unique(np.quantile(both, np.linspace(0, 1, THRESHOLDS), method="nearest"))
    failure = ERROR_RATE / (8 * len(thresholds))
    worst = 0.0
    for side in ("left", "right"):
        below = [np.searchsorted(each, thresholds, side=side) for each in samples]
        for counts in (below, [len(each) - found for each, found in zip(samples, below, strict=True)]):
            for p, q in ((0, 1), (1, 0)):
                least = stats.beta.ppf(failure, counts[p], len(samples[p]) - counts[p] + 1)
                most = stats.beta.ppf(1 - failure, counts[q] + 1, len(samples[q]) - counts[q])
                ratios = np.where(np.isnan(least), 0.0, least) / np.where(np.isnan(most), 1.0, most)
                worst = max(worst, math.log(max(1.0, float(ratios.max()))))
    return worst


def keeps_distance(release: Callable[[Any, float], Any], v: Any, w: Any) -> bool:
    """Whether `release(value, scale)`, which gives some thousand numbers with Laplace noise, has a loss of at most 1 between neighbours."""
    scale = distance(v, w)
    return loss_bound(release(v, scale), release(w, scale)) <= 1.0


def rows_whose_sums_round_apart(rest: int) -> tuple[list[float], list[float]]:
    """Two tables of numbers in [0, 1] that differ by a 1 in the first row, and whose sums in float64, in this order, differ by more than 1.

    After 2^14 ones and a half, one sum is above 2^14 and the other below. Each of the `rest` numbers of 1.1 units in the last place below
    2^14 is rounded to 2 of them in the larger sum, and to 1 in the smaller one.
    """
    unit = 2.0**-39
    smaller = [1.0] * (2**14 - 1) + [0.5] + [1.1 * unit] * rest
    return smaller, [1.0, *smaller]


def excess_of_sums(rest: int) -> Fraction:
    """By how much the sums of these two tables differ by more than 1, if every addition is rounded to float64."""
    return rest * Fraction(1, 2**39)
