"""The law of a report about every coordinate: signs that mostly agree with a corner of the hypercube, counted in integers.

The report z ∈ {−1, 1}^d has weight e^ε if it agrees with the corner v in at least a coordinates, and weight 1 otherwise. N of the 2^d
reports agree so often, so the weights sum to W = (e^ε − 1)N + 2^d. By symmetry E z_j v_j is the same for all j, and
Σ_{k ≥ a} C(d, k)(2k − d)/d = C(d − 1, a − 1), so E z_j v_j = (e^ε − 1)·C(d − 1, a − 1)/W.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from dpcore._backend import HypercubeLaw
from dpcore._dataclasses import dataclass
from dpcore._exact.probability import Probability, logistic_complement
from dpcore.local._categories import PRECISION

_ONE, _ZERO = Fraction(1), Fraction(0)


@dataclass(frozen=True, slots=True, eq=False)
class Hypercube:
    """The law for one ε and d.

    Attributes
    ----------
    agreements : int
        a.
    likely : int
        N = Σ_{k ≥ a} C(d, k).
    gain : Fraction
        E z_j v_j, up to 2^−250 of its size.
    """

    agreements: int
    likely: int
    gain: Fraction


def rational(value: Fraction) -> Probability:
    """A probability that does not depend on ε."""
    return Probability(value, _ZERO, _ONE, _ZERO, _ONE)


def likely_counts(d: int) -> list[int]:
    """How many reports agree with a corner in at least a coordinates, for a = 0 … d."""
    counts, total = [], 0
    for k in range(d, -1, -1):
        total += math.comb(d, k)
        counts.append(total)
    return counts[::-1]


@lru_cache(maxsize=256)
def hypercube(epsilon: float, d: int) -> Hypercube:
    """The law whose a has the largest gain; the smallest of equals."""
    q = Fraction(logistic_complement(epsilon).floor(PRECISION), 2**PRECISION)
    odds = (1 - 2 * q) / q  # e^ε − 1
    counts = likely_counts(d)

    def gain(a: int) -> Fraction:
        value: Fraction = odds * math.comb(d - 1, a - 1) / (odds * counts[a] + 2**d)
        return value

    a, best = d // 2 + 1, gain(d // 2 + 1)
    while a < d and (further := gain(a + 1)) > best:  # unimodal, see docs/exactness-local.md
        a, best = a + 1, further
    return Hypercube(a, counts[a], best)


@lru_cache(maxsize=256)
def law_of_signs(epsilon: float, d: int) -> HypercubeLaw:
    """What the kernels draw by."""
    made = hypercube(epsilon, d)
    likely, w = made.likely, d - made.agreements
    weight = Probability(_ZERO, Fraction(likely), Fraction(2**d - likely), Fraction(likely), Fraction(epsilon))
    return HypercubeLaw(d, w, weight, _table(d, w, likely))


def _table(d: int, w: int, likely: int) -> tuple[Probability, ...]:
    """P(S ≤ s) given S ≤ w, then given S > w, for the numbers S of coordinates that differ."""
    inside, outside, total = [], [], 0
    for s in range(d):
        total += math.comb(d, s)
        if s < w:
            inside.append(rational(Fraction(total, likely)))
        elif s > w:
            outside.append(rational(Fraction(total - likely, 2**d - likely)))
    return (*inside, *outside)
