"""Vectors of counts whose partial sums stay inside a band around the data's: their number, and uniform choices among them.

The score of counts c_1 … c_m with sum k against data a_1 … a_m with sum n is s(c) = ⌈n·max_i |A_i/n − C_i/k|⌉, A and C the partial sums.
The vectors with s(c) ≤ t are those with |k·A_i − n·C_i| ≤ k·t for every i. Everything here is integers, or floats with a proved error whose
open cases integers decide. Derivations: docs/exactness-ks.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore._exact.sampling import Uniform
from dpcore.distributions._choices import Uniforms, decided

Counts = npt.NDArray[np.int64]

MARGIN = 4.0
"""Units of the proved error by which a uniform number must miss a threshold to be decided in float64."""
_LEAST_POWER = -1200
"""Weights this many powers of two below the largest count as 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Data as the partial sums A_1 … A_m, and the number k of draws.

    Attributes
    ----------
    partial : ndarray, shape (m,)
        A_i as int64, or as Python integers where k·n could leave int64.
    k : int
        Number of draws.
    """

    partial: npt.NDArray[np.object_] | Counts
    k: int

    @classmethod
    def of(cls, counts: Counts, k: int) -> Sums:
        """Take the counts of the data's records."""
        partial = np.cumsum(counts, dtype=np.int64)
        return cls(partial if 4 * k * int(partial[-1]) < 2**63 else partial.astype(object), k)

    @property
    def n(self) -> int:
        """Number of records."""
        return int(self.partial[-1])

    def levels(self) -> Counts:
        """The scores that can occur, ascending: those of one partial sum, from the least possible score on."""
        inner = self.partial[:-1] * self.k
        steps = np.arange(self.k + 1, dtype=self.partial.dtype) * self.n
        alone = -(-abs(inner[:, None] - steps) // self.k)
        # C_i = the integer nearest to k·A_i/n does not fall, so these partial sums together have no larger score than the worst of them
        least = max((int(row.min()) for row in alone), default=0)
        found = np.unique(alone.astype(np.int64))
        return np.union1d(found[found > least], [least])

    def all_sequences(self) -> tuple[float, tuple[int, int]]:
        """m^k/k!, the weight of every sequence over k!: its binary logarithm, nearly, and integers (u, e) with u·2^e above it."""
        mantissas, exponents = _backend.step_weights(self.k)
        ways = len(self.partial) ** self.k
        cut = ways.bit_length() - 64
        above = ((ways >> max(cut, 0) << max(-cut, 0)) + 1) * (int(mantissas[0] * 2.0**52) + 2)
        rest = above.bit_length() - 53
        upper, exponent = (above >> rest) + 1, int(exponents[0]) - 52 + cut + rest
        return math.log2(upper) + exponent, (upper, exponent)

    def band(self, t: int) -> Band:
        """The partial sums of every c with s(c) ≤ t."""
        return self.within(self.k * min(t, self.n))

    def within(self, reach: int) -> Band:
        """The partial sums with |k·A_i − n·C_i| ≤ reach for every i; reach in [0, k·n]."""
        lower = np.maximum(-((reach - self.k * self.partial) // self.n), 0).astype(np.int64)
        upper = np.minimum((reach + self.k * self.partial) // self.n, self.k).astype(np.int64)
        lower[-1] = upper[-1] = self.k
        return Band(_backend.band_paths(lower, upper))


class Band:
    """A band, and choices among its paths, of which there must be one for that.

    A path C_1 ≤ … ≤ C_m = k has the weight k!/Π(C_i − C_{i−1})!, the number of sequences of k bins with these partial sums.
    """

    def __init__(self, table: _backend.BandPaths) -> None:
        self._table = table
        self.k, self.m = int(table.upper[-1]), len(table.lower)
        self.error = table.relative_error

    @property
    def weight(self) -> tuple[float, int]:
        """(f, e): Σ of the weights over k! is f·2^e, up to the relative error."""
        return float(self._table.mantissas[-1]), int(self._table.exponents[-1])

    @property
    def log2_weight(self) -> float:
        """Binary logarithm of the same in float64; −inf where there is no path."""
        mantissa, exponent = self.weight
        return math.log2(mantissa) + exponent if mantissa > 0 else -math.inf

    @property
    def ceiling(self) -> tuple[int, int]:
        """(u, e): integers with Σ of the weights over k! at most u·2^e, nearly attained."""
        mantissa, exponent = self.weight
        # f ≤ f̂/(1 − error) ≤ f̂ + 2·error·f̂ and f̂ < 2^(exponent + 1)
        return int(mantissa * 2.0**52) + math.ceil(self.error * 2.0**54) + 1, exponent - 52

    def accepts(self, uniforms: Uniforms, first: int, size: int, ceiling: tuple[int, int]) -> npt.NDArray[np.bool_]:
        """For uniform numbers `first` … whether each is below (Σ of the weights over k!)/ceiling."""
        mantissa, exponent = self.weight
        ratio = math.ldexp(mantissa / math.ldexp(ceiling[0], -52), max(exponent - ceiling[1] - 52, -1100))
        margin = MARGIN * (self.error + 2.0**-50)
        v = _unit(uniforms.words(first + size)[first:])
        accepted = v < ratio
        for index in np.flatnonzero(np.abs(v - ratio) <= margin):
            accepted[index] = self._accepts_exactly(uniforms[first + int(index)], ceiling)
        return accepted

    def _accepts_exactly(self, uniform: Uniform, ceiling: tuple[int, int]) -> bool:
        whole = math.factorial(self.k) * Fraction(2) ** ceiling[1] * ceiling[0]
        ratio = self._integers[-1][0] / whole
        return decided(uniform, [ratio.numerator, ratio.denominator], ratio.denominator) == 0

    def paths(self, uniforms: Uniforms, size: int) -> Counts:
        """Draw `size` independent paths, each with probability proportional to its weight: counts, shape (size, m)."""
        words = uniforms.words(size * (self.m - 1)).reshape(self.m - 1, size)
        sums = np.full(size, self.k)
        counts = np.empty((size, self.m), np.int64)
        for row in range(self.m - 2, -1, -1):  # C_{row+2} is known, C_{row+1} is drawn: row counts from 0
            before = np.empty_like(sums)
            for c in np.unique(sums):
                chosen = np.flatnonzero(sums == c)
                before[chosen] = self._step(row, int(c), words[row, chosen], uniforms, row * size + chosen)
            counts[:, row + 1] = sums - before
            sums = before
        counts[:, 0] = sums
        return counts

    def _step(self, row: int, c: int, words: npt.NDArray[np.uint64], uniforms: Uniforms, where: Counts) -> Counts:
        """Partial sums before c, P(b) ∝ f(b)/(c − b)!: backward sampling."""
        first = int(self._table.lower[row])
        thresholds, error = self._thresholds(row, c)
        v, margin = _unit(words), MARGIN * error
        steps = np.searchsorted(thresholds, v - margin, side="right")
        for index in np.flatnonzero(steps != np.searchsorted(thresholds, v + margin, side="right")):
            steps[index] = self._step_exactly(row, c, uniforms[int(where[index])])
        return first + steps

    def _thresholds(self, row: int, c: int) -> tuple[npt.NDArray[np.float64], float]:
        """P(partial sum ≤ b) for all b but the last, and a bound of their errors."""
        table, first = self._table, int(self._table.lower[row])
        last = min(int(table.upper[row]), c)
        held = slice(start := int(table.offsets[row]), start + last - first + 1)
        step = slice(self.k - c + first, self.k - c + last + 1)
        mantissas, exponents = _backend.step_weights(self.k)
        values = table.mantissas[held] * mantissas[step]
        powers = np.where(values > 0, table.exponents[held] + exponents[step], -np.inf)
        cumulative = np.cumsum(np.ldexp(values, np.maximum(powers - powers.max(), _LEAST_POWER).astype(np.int32)))
        return cumulative[:-1] / cumulative[-1], self.error + (len(values) + 8) * 2.0**-52

    # Integers

    @cached_property
    def _integers(self) -> list[list[int]]:
        """C!·f_i(C) for each C of the band: numbers of sequences of C bins among the first i."""
        rows: list[list[int]] = []
        before, first = [1], 0
        for low, high in zip(self._table.lower.tolist(), self._table.upper.tolist(), strict=True):
            rows.append([sum(_ways(c, first, before)) for c in range(low, high + 1)])
            before, first = rows[-1], low
        return rows

    def _step_exactly(self, row: int, c: int, uniform: Uniform) -> int:
        first = int(self._table.lower[row])
        cumulative = list(accumulate(_ways(c, first, self._integers[row])))
        return decided(uniform, cumulative, cumulative[-1])


def _ways(c: int, first: int, ways: list[int]) -> list[int]:
    """Numbers of sequences of c bins by their partial sum b = first, first + 1, … ≤ c before the last bin: C(c, b) times those of b."""
    return [math.comb(c, b) * w for b, w in enumerate(ways[: max(0, c - first + 1)], first)]


def _unit(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Uniform numbers from their first 64 bits, off by at most 2^-53."""
    return words.astype(np.float64) * 2.0**-64
