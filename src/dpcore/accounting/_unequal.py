"""Optimal composition of unequal guarantees, which is #P-hard to compute exactly (Murtagh & Vadhan, 2016), between two bounds.

The parts are randomised responses R(ε_i), with loss ±ε_i. Let a ≤ ε ≤ b be neighbours on a grid of width h. R(ε) is replaced by the mixture
of R(a), with probability w, and R(b), where w makes the total variations tanh(·/2) agree. The least δ of R(ε) at ln y is
(e^ε − y)/(1 + e^ε), linear in tanh(ε/2), for y in [e^−ε, e^ε], 0 above, and 1 − y below. So that of the mixture is the same for y in
[e^−a, e^a]. Elsewhere it is convex, and that of R(ε) goes on in a straight line from there and is then 0 or 1 − y: the mixture is above.
This holds for compositions, too, so δ₀ of the mixtures, whose losses lie on the grid, is an upper bound.

It exceeds the true one by little. The excess of one part is at most H = (1 − w)(e^b − e^ε)/(1 + e^b), for ln y in [a, b], and e^−a·H for
ln y in [−b, −a]. Replace one part after the other: part i adds at most the expected excess at y = e^(ε' − L), L the loss of the others,
some replaced and some not. Give the outcomes of R(ε) and the mixture the same signs, which have the same law: then no loss changes by
more than h. With n parts that are not on the grid, L of the mixtures is in [ε' − b − nh, ε' − a + nh] in the first case; with a positive
loss of part i, of probability ≥ ½, the sum of all is in ε' ± (n + 1)h. In the second case it is so with a negative one, of probability
1/(1 + e^ε), and e^−a·(1 + e^ε) ≤ 1 + e^h. Together

    δ₀ of the mixtures − δ₀ ≤ (3 + e^h)·Σ H_i·P(|loss of the mixtures − ε'| ≤ (n + 1)h),

which falls as h². On the grid the law is computed by adding one part at a time, and δ₀(ε') = Σ_{s > ε'} P(s)·(1 − e^(ε'−s)) has positive
terms only.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpcore.accounting import _composition
from dpcore.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MOST_CELLS = 2**31
MOST_POINTS = 2**23
FIRST_CELLS, FIRST_POINTS = 2**24, 2**16
BLOCK = 2**14
PROBE = 3
"""Bits by which the grid that a refusal is decided on is coarser than the finest one: coarser ones still promise too little."""
ROUNDING = 2.0**-53


class Mixture:
    """The response with ε as responses on a grid: losses ±low and ±(low + 1) in steps of `grid`, by whose probability the former occur."""

    def __init__(self, epsilon: float, grid: float) -> None:
        self.low = math.floor(Fraction(epsilon) / Fraction(grid))
        self.near, self.far = 1.0, 0.0
        self.excess = 0.0
        above = float((self.low + 1) * Fraction(grid) - Fraction(epsilon))
        below = float(Fraction(epsilon) - self.low * Fraction(grid))
        self.likely = [1 / (1 + math.exp(-(self.low + i) * grid)) for i in range(2)]
        self.unlikely = [math.exp(-(self.low + i) * grid) * self.likely[i] for i in range(2)]
        if below:
            # tanh(x/2) − tanh(y/2) = sinh((x − y)/2)/(cosh(x/2)·cosh(y/2)), so nothing cancels
            likely = 1 / (1 + math.exp(-epsilon))
            share = likely / math.sinh(grid / 2)
            self.near = share / self.likely[0] * math.exp(-below / 2) * math.sinh(above / 2)
            self.far = share / self.likely[1] * math.exp(above / 2) * math.sinh(below / 2)
            self.excess = self.far * self.likely[1] * -math.expm1(-above)

    @property
    def steps(self) -> int:
        """The largest loss, in steps."""
        return self.low + (self.far > 0)

    def added_to(self, law: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the law of a sum with this loss, whose first entry is for the least sum."""
        most = self.steps
        result = np.zeros(law.size + 2 * most)
        terms = []
        for share, steps, likely, unlikely in zip((self.near, self.far), (self.low, self.low + 1), self.likely, self.unlikely, strict=True):
            if share:
                terms += [(most - steps, share * unlikely), (most + steps, share * likely)]
        scratch = np.empty(min(law.size, BLOCK))
        for first in range(0, law.size, BLOCK):  # blocks that stay in the cache
            block = law[first : first + BLOCK]
            product = scratch[: block.size]
            for moved, weight in terms:
                np.multiply(block, weight, out=product)
                result[first + moved : first + moved + block.size] += product
        return result


class Composition:
    """δ₀ of the mixtures of all parts on one grid, and how far above the true one it may be."""

    def __init__(self, mixtures: Sequence[Mixture], grid: float) -> None:
        law = np.ones(1)
        for mixture in sorted(mixtures, key=lambda mixture: mixture.steps):
            law = mixture.added_to(law)
        self.law = law
        self.losses = (np.arange(law.size) - law.size // 2) * grid  # exact: the grid is a power of two
        moved = sum(mixture.far > 0 for mixture in mixtures)
        self.reach = (moved + 2) * grid  # one more than proved, for its rounding
        self.excess = (3 + math.exp(grid)) * math.fsum(mixture.excess for mixture in mixtures)
        # A weight is good to 24 units, a step adds 4 and the sums at the end less than 128. Underflows lose 2^−1074 a product.
        self.relative = (32 * len(mixtures) + 256) * ROUNDING
        self.absolute = 8 * law.size * (len(mixtures) + 1) * 5e-324

    def delta(self, epsilon: float) -> float:
        """δ₀ of the mixtures at ε', up to the rounding."""
        first = int(np.searchsorted(self.losses, epsilon, side="right"))
        return float(np.sum(self.law[first:] * -np.expm1(epsilon - self.losses[first:])))

    def meets(self, epsilon: float, target: float) -> bool:
        """Whether δ₀(ε') ≤ target for certain."""
        return self.delta(epsilon) * (1 + self.relative) + self.absolute <= target

    def least_epsilon(self, target: float) -> float:
        """Find ε' with δ₀(ε') ≤ target, close to the least one."""
        low, high = 0.0, float(self.losses[-1])
        if self.meets(0.0, target):
            return 0.0
        while high - low > 2.0**-44 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.meets(middle, target) else (middle, high)
        return high

    def shortfall(self, epsilon: float, target: float) -> float:
        """Return the bound of the excess over what it may be if the true δ₀ exceeds the target at ε': that is certain up to 1."""
        first, last = np.searchsorted(self.losses, [epsilon - self.reach, epsilon + self.reach], side="left")
        excess = self.excess * float(np.sum(self.law[first : last + 1]))
        room = self.delta(epsilon) * (1 - self.relative) - self.absolute - target
        return excess * (1 + self.relative) / room if room > 0 else math.inf


def optimal_epsilon(parts: Sequence[tuple[float, float]], delta_total: float, tolerance: float) -> float:
    """Refine the grid until the true ε' is certainly above the bound less the tolerance, and return the bound."""
    deltas = [(1, 0.0, delta) for _, delta in parts]
    epsilons = [epsilon for epsilon, _ in parts if epsilon]
    target = _composition.left_over(deltas, delta_total)
    if not target or not epsilons:
        fits = sum((Fraction(delta) for _, delta in parts), Fraction(0)) <= Fraction(delta_total)
        return _composition.sum_up(epsilons) if fits or target else math.inf
    most = _composition.sum_up(epsilons)
    if most <= tolerance:
        return most
    finest = math.floor(math.log2(min(MOST_CELLS / len(epsilons), MOST_POINTS) / most))
    if finest < 0:
        raise _too_fine(len(epsilons), tolerance)
    bits = max(min(math.floor(math.log2(min(FIRST_CELLS / len(epsilons), FIRST_POINTS) / most)), finest), 0)
    while True:
        grid = 2.0**-bits
        composed = Composition([Mixture(epsilon, grid) for epsilon in epsilons], grid)
        found = min(composed.least_epsilon(target), most)
        if found <= tolerance:
            return found
        shortfall = composed.shortfall(found - tolerance, target)
        if shortfall <= 1:
            return found
        needed = bits + max(1, math.ceil(math.log2(shortfall) / 2)) if shortfall < math.inf else finest + 1
        if needed > finest and bits >= finest - PROBE:
            raise _too_fine(len(epsilons), tolerance)
        bits = needed if needed <= finest else max(finest - PROBE, bits + 1)


def _too_fine(parts: int, tolerance: float) -> ParameterError:
    return ParameterError(f"tolerance must be larger for these {parts} parts, whose grid would have too many points, got {tolerance!r}")
