"""The largest hockey-stick divergence over pairs of rows: blocks of pairs, bounded by their envelopes, the most promising first."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from typing import TYPE_CHECKING

import numpy as np

from dpcore._backend import for_ranges
from dpcore._dataclasses import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float64]
    Pairs = npt.NDArray[np.intp]

ROWS = 32
"""Rows of a block. The search treats all pairs of two blocks together."""
SLACK = 2.0**-48
"""Relative difference that counts as equal. Sums of thousands of terms have smaller errors."""
ROUNDING = 2.0**-40
"""Absolute. Pairwise sums of up to 2^26 probabilities with a total of at most 1 have smaller errors."""
CANDIDATES = 64
"""Pairs whose roots are computed before the next pass over all pairs."""
LARGEST_EXPONENT = 690.0
"""Up to here e^ε can be split into two halves of 26 bits without overflow."""
LIST_ENTRIES = 1 << 18
"""Entries of the rows of listed pairs in one piece of work."""


@dataclass(frozen=True, slots=True)
class Attained:
    """A divergence and the ordered pair of rows that has it."""

    value: float
    i: int
    j: int


def largest_delta(matrix: Matrix, epsilon: float, pairs: Pairs | None, *, floor: float, threads: int | None) -> float:
    """Max over ordered pairs of Σ_y (P_i(y) − e^ε P_j(y))_+, or `floor` if none is above it; None as `pairs` stands for all pairs."""
    found = largest_pairs(matrix, epsilon, pairs, floor=floor, threads=threads)
    return max([floor, *(exact_delta(matrix[each.i], matrix[each.j], epsilon) for each in found[:1])])


def largest_pairs(matrix: Matrix, epsilon: float, pairs: Pairs | None, *, floor: float, threads: int | None) -> list[Attained]:
    """Pairs above `floor`: the largest one first, then some other large ones. Empty if no pair is above `floor`."""
    scaled = times_exp(matrix, epsilon)
    search = _AllPairs(matrix, scaled) if pairs is None else _ListedPairs(matrix, scaled, pairs)
    return search.largest(floor, threads)


def times_exp(matrix: Matrix, epsilon: float) -> Matrix:
    """e^ε·P, infinite where it overflows and 0 where P is, for ε = ∞ too."""
    with np.errstate(over="ignore"):
        # in two steps, since e^ε itself leaves the range of float64 before e^ε times a small probability does
        half = math.exp(min(epsilon, 1400.0) / 2)
        return matrix * half * half


def exact_delta(p: Matrix, q: Matrix, epsilon: float) -> float:
    """Σ (p − e^ε q)_+, rounded once; beyond ε = `LARGEST_EXPONENT` up to the rounding of each term."""
    if epsilon > LARGEST_EXPONENT:
        rest = p - times_exp(q, epsilon)
        return math.fsum(rest[rest > 0])
    high, low = _exp_in_two(epsilon)
    product, error = _exact_product(high, q)
    small = low * q + error
    positive = (p - product) - small > 0
    return max(0.0, math.fsum(np.concatenate([p[positive], -product[positive], -small[positive]])))


def _exp_in_two(epsilon: float) -> tuple[float, float]:
    """e^ε as the sum of two floats."""
    context = Context(prec=60)
    value = context.exp(Decimal(epsilon))
    high = float(value)
    return high, float(context.subtract(value, Decimal(high)))


def _exact_product(a: float, b: Matrix) -> tuple[Matrix, Matrix]:
    """The rounded product and what was rounded away (Dekker)."""
    a_high, a_low = _halves(np.asarray(a))
    b_high, b_low = _halves(b)
    product = a * b
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(x: Matrix) -> tuple[Matrix, Matrix]:
    shifted = x * 134217729.0
    high = shifted - (shifted - x)
    return high, x - high


class _AllPairs:
    """Branch and bound: a block of rows i and one of rows j have no pair above Σ_y (max_i P_i(y) − e^ε min_j P_j(y))_+."""

    def __init__(self, matrix: Matrix, scaled: Matrix) -> None:
        self._matrix, self._scaled = matrix, scaled
        self._starts = np.arange(0, len(matrix), ROWS)
        self._highest = np.maximum.reduceat(matrix, self._starts)
        self._lowest = np.minimum.reduceat(scaled, self._starts)
        self._value = 0.0

    def largest(self, floor: float, threads: int | None) -> list[Attained]:
        """The largest pair of each pair of blocks that the search visited, in descending order."""
        bounds = np.array([_positive_part(high, self._lowest).sum(axis=1) for high in self._highest])
        np.minimum(bounds, 1.0, out=bounds)
        order = np.argsort(-bounds, axis=None, kind="stable")
        results: list[tuple[float, int, Attained]] = []
        self._value = floor

        def work(start: int, stop: int) -> None:
            for place in range(start, stop):
                a, b = divmod(int(order[place]), len(bounds))
                if bounds[a, b] <= self._value * (1 + SLACK):
                    return  # and so are those that follow
                found = self._within(a, b)
                if found is not None and found.value > floor:
                    results.append((-found.value, place, found))
                    self._value = max(self._value, found.value)

        for_ranges(work, order.size, threads, elements_per_unit=1 / (ROWS * ROWS * self._matrix.shape[1]))
        return [found for _, _, found in sorted(results)]

    def _within(self, a: int, b: int) -> Attained | None:
        """The largest pair of rows of two blocks, or None if bounds show that it is not above the known value."""
        # where even the envelopes are negative every pair is
        columns = np.flatnonzero(self._highest[a] > self._lowest[b])
        rows = slice(self._starts[a], self._starts[a] + ROWS)
        left, right = self._matrix[rows, columns], self._scaled[self._starts[b] : self._starts[b] + ROWS, columns]
        promising = np.flatnonzero(_positive_part(left, self._lowest[b][columns]).sum(axis=1) > self._value * (1 + SLACK))
        best: Attained | None = None
        buffer = np.empty_like(right)
        masses = left.sum(axis=1)
        for i in promising.tolist():
            # Σ p − Σ min(p, e^ε q) is faster and equal up to rounding errors of the sums, which may be as large as a small δ
            rough = masses[i] - np.minimum(left[i], right, out=buffer).sum(axis=1)
            known = self._value if best is None else max(self._value, best.value)
            near = np.flatnonzero(rough > known - ROUNDING)
            if not len(near):
                continue
            values = _positive_part(left[i], right[near]).sum(axis=1)
            j = int(values.argmax())
            if best is None or values[j] > best.value:
                best = Attained(float(values[j]), int(self._starts[a]) + i, int(self._starts[b]) + int(near[j]))
        return best


class _ListedPairs:
    """Pairs from a list of the caller, in pieces of bounded memory."""

    def __init__(self, matrix: Matrix, scaled: Matrix, pairs: Pairs) -> None:
        self._matrix, self._scaled, self._pairs = matrix, scaled, pairs

    def largest(self, floor: float, threads: int | None) -> list[Attained]:
        """The largest pairs in descending order."""
        values = np.empty(len(self._pairs))
        step = max(1, LIST_ENTRIES // self._matrix.shape[1])

        def work(start: int, stop: int) -> None:
            for first in range(start, stop, step):
                i, j = self._pairs[first : min(first + step, stop)].T
                values[first : first + len(i)] = _positive_part(self._matrix[i], self._scaled[j]).sum(axis=1)

        for_ranges(work, len(values), threads, elements_per_unit=1 / self._matrix.shape[1])
        best = np.argsort(-values, kind="stable")[:CANDIDATES]
        return [Attained(float(values[k]), *map(int, self._pairs[k])) for k in best if values[k] > floor]


def _positive_part(a: Matrix, b: Matrix) -> Matrix:
    difference = np.subtract(a, b)
    return np.maximum(difference, 0.0, out=difference)


def pure_epsilon(matrix: Matrix, pairs: Pairs | None) -> float:
    """Max over pairs and outcomes of ln P_i(y) − ln P_j(y); an outcome with probability 0 in both rows does not count."""
    if pairs is None:
        high, low = matrix.max(axis=0), matrix.min(axis=0)
        return _largest_ratio(high, low)
    step = max(1, LIST_ENTRIES // matrix.shape[1])
    pieces = (pairs[first : first + step].T for first in range(0, len(pairs), step))
    return max(_largest_ratio(matrix[i].ravel(), matrix[j].ravel()) for i, j in pieces)


def _largest_ratio(high: Matrix, low: Matrix) -> float:
    possible = high > 0
    high, low = high[possible], low[possible]
    if (low == 0).any():
        return math.inf
    return max(0.0, float((np.log(high) - np.log(low)).max()) if len(high) else 0.0)


def approximate_epsilon(matrix: Matrix, delta: float, pairs: Pairs | None, *, threads: int | None) -> float:
    """Least ε ≥ 0 with no pair above `delta`.

    The δ of each pair is convex, piecewise linear and decreasing in e^ε, so the root of one pair above `delta` is at most the root of the
    maximum. Each step goes from a guess to the root of the worst pair there, until no pair is above `delta`.
    """
    n = len(matrix)
    # any pairs give a first guess: here each state with one other state, some hundreds at most
    first = np.arange(0, n, -(-n // (4 * CANDIDATES))) if pairs is None else pairs[:: -(-len(pairs) // (4 * CANDIDATES))]
    guesses = zip(first, (first + n // 2) % n, strict=True) if pairs is None else first
    epsilon = max(epsilon_of_pair(matrix[i], matrix[j], delta) for i, j in guesses)
    while not math.isinf(epsilon):
        found = largest_pairs(matrix, epsilon, pairs, floor=delta * (1 + SLACK), threads=threads)
        root = max([0.0, *(epsilon_of_pair(matrix[each.i], matrix[each.j], delta) for each in found[:CANDIDATES])])
        if root <= epsilon:
            break
        epsilon = root
    return epsilon


def epsilon_of_pair(p: Matrix, q: Matrix, delta: float) -> float:
    """Least ε ≥ 0 with Σ (p − e^ε q)_+ ≤ δ.

    The sum is the largest of P(S) − e^ε Q(S) over the sets S of outcomes with the largest likelihood ratios, so its root is the largest of
    their roots. This needs no comparison of the sum with δ, which rounding errors would decide for a small δ.
    """
    never = q == 0
    certain = math.fsum(p[never])
    if certain > delta:
        return math.inf
    possible = ~never & (p > 0)
    p, q = p[possible], q[possible]
    with np.errstate(over="ignore"):
        order = np.argsort(-(p / q), kind="stable")
    excess, mass = certain + np.cumsum(p[order]) - delta, np.cumsum(q[order])
    above = excess > 0
    return max(0.0, float((np.log(excess[above]) - np.log(mass[above])).max(initial=0.0)))
