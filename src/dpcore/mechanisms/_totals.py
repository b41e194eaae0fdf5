"""The two ways to release running totals: a factorisation with Gaussian noise, and a binary tree with Laplace noise.

Each says how far one entry can move what is released, keeps what the next step needs, and makes totals of what was released. The proofs
are in docs/exactness-totals.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from operator import mul
from typing import Any, ClassVar, Protocol

MOST_STEPS = 2**14
FINENESS = 64
"""The integers of the factorisation are in units of 1/(64·T) of its first coefficient."""
PRECISION = 128
"""Bits behind the point of the coefficients that make totals."""
MOST_BITS = 512
"""Of an integer of a state: entries and noise have 64, the sums of their products with coefficients at most 100."""
ROUNDED = 1 + 2.0**-40
"""More than floats lose in a sum of so many terms."""
LEAST_NORMAL = 1.0
"""The least scale of a discrete Gaussian that is compared with a normal law."""


class Kept(Protocol):
    """What the next step needs. It is as secret as the entries."""

    @property
    def step(self) -> int:
        """Steps that were made."""

    def add(self, entry: int, noise: int) -> int:
        """Make a step; return what is released of it."""

    def total(self) -> float | int:
        """The total, made of what was released alone."""

    def written(self) -> list[Any]:
        """The state as JSON holds it."""


def _integer(value: Any) -> int:
    """An integer of a written state; raises for anything else, and for one that is longer than any of a state."""
    if type(value) is not int or value.bit_length() > MOST_BITS:
        raise ValueError("what was written is no state")
    return value


def _product(one: Iterable[int], other: Iterable[int]) -> int:
    """The sum of products of pairs, as far as both go."""
    return sum(map(mul, one, other))


# The factorisation


@lru_cache(maxsize=16)
def coefficients(steps: int) -> tuple[int, ...]:
    """The column C̃: round(s·binom(2k, k)/4^k) for k < T, s = 64·T, half up. They are positive and do not grow."""
    found, binomial = [], 1
    for k in range(steps):
        found.append(((FINENESS * steps * binomial << 1) + (1 << 2 * k)) >> (2 * k + 1))
        binomial = binomial * 2 * (2 * k + 1) // (k + 1)
    return tuple(found)


@lru_cache(maxsize=16)
def _inverse(steps: int, count: int) -> tuple[int, ...]:
    """The first coefficients of s·B̃ in units of 2^−128: of s over (1 − x)·C̃(x), each within 1.02·(k + 1) units."""
    column, first = coefficients(steps), FINENESS * steps
    series = [1 << PRECISION]
    for k in range(1, count):
        exact = -_product(column[1 : k + 1], reversed(series))
        series.append((2 * exact + first) // (2 * first))
    totals, sum_ = [], 0
    for each in series:
        sum_ += each
        totals.append(sum_)
    return tuple(totals)


def decoder(steps: int, count: int) -> tuple[int, ...]:
    """The first `count` coefficients at least; few lengths are computed, and kept."""
    return _inverse(steps, min(steps, 1 << (count - 1).bit_length()))


def squared_norm(steps: int, moved: int) -> int:
    """‖C̃₁ + … + C̃_m‖² of the first m columns: the largest of any m, because C̃ is not negative and does not grow."""
    column = coefficients(steps)
    sums, window = 0, 0
    for k in range(steps):
        window += column[k] - (column[k - moved] if k >= moved else 0)
        sums += window * window
    return sums


class Factorised:
    """All entries, and what was released of them: y = C̃x + z.

    Parameters
    ----------
    steps : int
        T.
    entries, answers : sequence of int
        x and y of the steps that were made.
    """

    def __init__(self, steps: int, entries: Sequence[int] = (), answers: Sequence[int] = ()) -> None:
        self._steps, self._entries, self._answers = steps, list(entries), list(answers)

    @property
    def step(self) -> int:
        """Steps that were made."""
        return len(self._answers)

    def add(self, entry: int, noise: int) -> int:
        """Make a step; return y_t."""
        entries = [*self._entries, entry]
        answer = _product(coefficients(self._steps), reversed(entries)) + noise
        self._entries = entries
        self._answers.append(answer)
        return answer

    def total(self) -> float:
        """B̃y: exact up to 2^−134·Σ|y_k|, then rounded once."""
        weights = decoder(self._steps, self.step)
        return _product(weights, reversed(self._answers)) / (FINENESS * self._steps << PRECISION)

    def written(self) -> list[Any]:
        """Entries and answers."""
        return [list(self._entries), list(self._answers)]


class Factorisation:
    """Gaussian noise on C̃x, of which all totals are made."""

    law: ClassVar[str] = "discrete_gaussian"

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def begin(self, written: Sequence[Any] = ((), ())) -> Factorised:
        """The state of no steps, or one that was written."""
        entries, answers = written
        if len(entries) != len(answers):
            raise ValueError("entries and answers are not of the same steps")
        return Factorised(self.steps, [*map(_integer, entries)], [*map(_integer, answers)])

    def deviation(self, scale: float, step: int) -> float:
        """Standard deviation of the noise of a total, rounded up."""
        return scale * math.sqrt(sum(each * each for each in self._weights(step))) * ROUNDED

    def width(self, scale: float, step: int, beta: float) -> float:
        """A half-width that the noise exceeds with probability at most β.

        The noise is sub-Gaussian with the variance σ²·Σb²; and each z_k is within 1/2 of a normal number but for a probability of 1/(10σ²).
        """
        from dpcore._exact.intervals import Interval
        from dpcore.accounting._calibration import gaussian_width

        deviation = self.deviation(scale, step)
        width = deviation * math.sqrt(2 * math.log(2 / beta)) * ROUNDED
        left = beta - step / (10 * scale * scale) if scale >= LEAST_NORMAL else 0.0
        if left > beta / 2:
            slack = sum(map(abs, self._weights(step))) / 2 * ROUNDED
            width = min(width, gaussian_width(deviation, Interval.of(left / ROUNDED, 192), slack))
        return width

    def _weights(self, step: int) -> list[float]:
        unit = FINENESS * self.steps << PRECISION
        return [each / unit for each in decoder(self.steps, step)[:step]]


# The tree


def covered(steps: int) -> list[int]:
    """In how many nodes each entry is, of those that some step completes and no larger one at the same step.

    At step t the node of the last 2^i entries is completed, 2^i the lowest bit of t. An entry is in one node of each level at most.
    """
    counts = [0] * steps
    for step in range(1, steps + 1):
        for entry in range(step - (step & -step), step):
            counts[entry] += 1
    return counts


@lru_cache(maxsize=16)
def nodes_moved(steps: int, moved: int) -> int:
    """In how many nodes any m entries are together, at most: at most m times the number of levels."""
    return sum(sorted(covered(steps), reverse=True)[:moved])


class Nodes:
    """The open nodes: one for each bit of the number of steps, with its exact and its noisy sum.

    Parameters
    ----------
    nodes : sequence of (int, int, int)
        Entries of each, a power of two, the largest first; its exact sum; its noisy sum.
    """

    def __init__(self, nodes: Sequence[Sequence[int]] = ()) -> None:
        self._nodes = [(size, exact, noisy) for size, exact, noisy in nodes]

    @property
    def step(self) -> int:
        """Steps that were made."""
        return sum(size for size, _, _ in self._nodes)

    def add(self, entry: int, noise: int) -> int:
        """Make a step; return the noisy sum of the node that it completes."""
        nodes, size = list(self._nodes), 1
        while nodes and nodes[-1][0] == size:
            entry += nodes.pop()[1]
            size *= 2
        self._nodes = [*nodes, (size, entry, entry + noise)]
        return entry + noise

    def total(self) -> int:
        """The sum of the noisy sums."""
        return sum(noisy for _, _, noisy in self._nodes)

    def written(self) -> list[Any]:
        """Each node."""
        return [list(each) for each in self._nodes]


class Tree:
    """Laplace noise on the sums of a binary tree."""

    law: ClassVar[str] = "discrete_laplace"

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def begin(self, written: Sequence[Any] = ()) -> Nodes:
        """The state of no steps, or one that was written."""
        nodes = [tuple(map(_integer, each)) for each in written]
        sizes = [size for size, _, _ in nodes]
        steps = sum(sizes)
        if not 0 <= steps <= self.steps or sizes != [1 << bit for bit in reversed(range(steps.bit_length())) if steps >> bit & 1]:
            raise ValueError("the nodes are not those of a number of steps")
        return Nodes(nodes)

    def deviation(self, scale: float, step: int) -> float:
        """Standard deviation of the noise of a total."""
        from dpcore._spread import noise_variance

        return math.sqrt(step.bit_count() * noise_variance(self.law, scale))

    def width(self, scale: float, step: int, beta: float) -> int:
        """The least integer that the noise exceeds with probability at most β."""
        low, high = -1, 1
        while tail(scale, step.bit_count(), high) > beta / ROUNDED:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if tail(scale, step.bit_count(), middle) <= beta / ROUNDED else (middle, high)
        return high


def tail(scale: float, count: int, a: int) -> float:
    """P(|Z₁ + … + Z_n| > a) of discrete Laplace numbers: all terms are positive.

    2·Σ_{i<n} g_i·(1 + r)^−(n+i)·P(N_{n−i} > a), r = e^(−1/t). N_k counts failures before k successes of probability 1 − r, and the g_i are
    the coefficients of ((1 − (1 − r²)v)/(1 − v))^n.
    """
    r, p = math.exp(-1 / scale), -math.expm1(-1 / scale)
    # (1 − qv)/(1 − v) = 1 + (1 − q)(v + v² + …), to the power n.
    factor = [1.0, *[r * r] * (count - 1)]
    powers = [1.0, *[0.0] * (count - 1)]
    for _ in range(count):
        powers = [sum(map(mul, powers[: i + 1], reversed(factor[: i + 1]))) for i in range(count)]
    return 2 * sum(power * (1 + r) ** -(count + i) * _waits(scale, p, count - i, a) for i, power in enumerate(powers))


def _waits(scale: float, p: float, successes: int, a: int) -> float:
    """P(N_k > a): fewer than k successes in a + k trials."""
    trials, term, found = a + successes, 1.0, 0.0
    for j in range(successes):
        found += term * math.exp(-(trials - j) / scale)
        term *= (trials - j) * p / (j + 1)
    return found


def scale_of_rho(rho: float, squared: Fraction) -> float:
    """The least float64 σ with Δ²/2σ² ≤ ρ, given Δ²."""
    wanted = squared / (2 * Fraction(rho))
    scale = math.sqrt(wanted) if wanted < Fraction(2) ** 1000 else math.inf
    while scale < math.inf and Fraction(scale) ** 2 < wanted:
        scale = math.nextafter(scale, math.inf)
    return scale


def root_up(squared: Fraction) -> float:
    """The least float64 whose square is not below a number."""
    return scale_of_rho(0.5, squared)
