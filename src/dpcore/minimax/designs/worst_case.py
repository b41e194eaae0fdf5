"""The largest mean square error and the largest deviations of a mean of reports over a model, from linear programs, rounded up.

A report stands for a number v. Behind a channel, its mean a·p and its second moment g·p are linear in the distribution p of a record, where
a(x) = Σ Q(x, k)·v_k and g(x) = Σ Q(x, k)·v_k². All numbers here belong to the standard form of a model.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

from dpcore._dataclasses import dataclass
from dpcore.errors import DpcoreError
from dpcore.minimax.programs.program import Program
from dpcore.minimax.spaces import certified

if TYPE_CHECKING:
    from dpcore.minimax.spaces.matrices import Array
    from dpcore.minimax.spaces.models import Model

ACCURACY = 1e-6
"""The bound of the mean square error exceeds an attained one by this share at most, unless the pieces run out."""
MOST_PIECES = 64
UNIT = 2.0**-53
TINY = 1e-290
MOST_TANGENTS = 8
"""Programs for one piece: each moves a tangent to where the last one was too high."""
LOGARITHMS = 3
"""Programs for each exponent of a deviation: the tangent of the logarithm is moved this many times."""
EXPONENTS = 24
"""Exponents that the search for a deviation tries."""


class Risk(NamedTuple):
    """A bound of the mean square error.

    Attributes
    ----------
    upper : float
        No distribution of the model has a larger one.
    attained : float
        The one at `p`, up to rounding.
    p : ndarray
        A distribution of the model, up to the tolerance of the solver.
    """

    upper: float
    attained: float
    p: Array


@dataclass(frozen=True, eq=False)
class Moments:
    """The moments of a report at each point, and the errors of center + mean of n reports.

    Attributes
    ----------
    model : Model
        The model, in its standard form.
    n : int
        Number of reports.
    center : float
        What is added to the mean.
    probabilities : ndarray, shape (X, K)
        The channel, each entry within 2^−52 of the exact one, relatively.
    values : ndarray, shape (K,)
        What each outcome stands for.
    """

    model: Model
    n: int
    center: float
    probabilities: Array = field(repr=False)
    values: Array = field(repr=False)

    @cached_property
    def _means(self) -> Array:
        return np.asarray(self.probabilities @ self.values, np.float64)

    @cached_property
    def _squares(self) -> Array:
        """g, rounded up."""
        return np.asarray(self.probabilities @ self.values**2 * (1 + (len(self.values) + 8) * UNIT), np.float64)

    @cached_property
    def _errors(self) -> Array:
        """Bias at each point: a − f + center."""
        return np.asarray(self._means - self.model.f + self.center, np.float64)

    @cached_property
    def _tangents(self) -> list[float]:
        """Means at which −t² has been bounded by a tangent."""
        return [0.0]

    @cached_property
    def _rounding(self) -> float:
        """More than the rounding error of `_means` and `_errors`."""
        sizes = float((self.probabilities @ np.abs(self.values)).max())
        return (len(self.values) + 10) * UNIT * (sizes + 1 + abs(self.center))

    @cached_property
    def biases(self) -> tuple[float, float]:
        """The smallest and the largest bias over the model, rounded outwards."""
        return (
            -certified.largest(self.model, -self._errors) - self._rounding,
            certified.largest(self.model, self._errors) + self._rounding,
        )

    @cached_property
    def second_moment(self) -> float:
        """The largest E v² over the model, rounded up."""
        return certified.largest(self.model, self._squares)

    @cached_property
    def risk(self) -> Risk:
        """The largest mean square error over the model.

        It is s² + (g·p − t²)/n at the bias s and the mean t. On a piece of the values of s, the chord lies above s²; everywhere, a tangent
        lies above −t². With both, the largest value is a linear program. The piece with the largest bound is cut in two.
        """
        low, high = self.biases
        best = Risk(math.inf, -math.inf, np.zeros(self.model.size))
        pieces: list[tuple[float, float, float]] = []
        middle = min(max(0.0, low), high)
        for left, right in ((low, middle), (middle, high)):
            best = self._tried(pieces, left, right, best)
        for _ in range(MOST_PIECES):
            bound, left, right = pieces[0]
            if -bound <= max(best.attained, 0.0) * (1 + ACCURACY):
                break
            heapq.heappop(pieces)
            for ends in ((left, (left + right) / 2), ((left + right) / 2, right)):
                best = self._tried(pieces, *ends, best)
        crude = max(-low, high) ** 2 + self.second_moment / self.n
        return best._replace(upper=min(-pieces[0][0], crude) * (1 + 8 * UNIT))

    def _tried(self, pieces: list[tuple[float, float, float]], left: float, right: float, best: Risk) -> Risk:
        bound, p = self._on_piece(left, right)
        heapq.heappush(pieces, (-bound, left, right))
        if p is None:
            return best
        attained = self.error_at(p)
        return Risk(math.inf, attained, p) if attained > best.attained else best

    def error_at(self, p: Array) -> float:
        """Return the mean square error at one distribution, up to rounding."""
        return float((self._errors @ p) ** 2 + (self._squares @ p - (self._means @ p) ** 2) / self.n)

    def _on_piece(self, left: float, right: float) -> tuple[float, Array | None]:
        """Bound the mean square error over distributions whose bias lies in a piece, and return one of them.

        y stands for −t². It lies below all tangents found so far, and the multipliers of these rows give the tangent of the bound.
        """
        best, found = math.inf, None
        for _ in range(MOST_TANGENTS):
            bound, p = self._by_tangents(left, right)
            best = min(best, bound)
            if p is None:
                break
            found, mean = p, float(self._means @ p)
            if bound - self.error_at(p) <= ACCURACY / 4 * abs(bound) or mean in self._tangents:
                break
            self._tangents.append(mean)
        return best, found

    def _by_tangents(self, left: float, right: float) -> tuple[float, Array | None]:
        model, n, room, chord = self.model, self.n, self._rounding, left + right
        unit = float(np.abs(self.values).max()) or 1.0
        touched = np.array(self._tangents)
        program = Program()
        p, y = program.member(model), program.variables(1, free=True)
        ends = program.at_most(self._errors @ p, right + room), program.at_most(-self._errors @ p, room - left)
        slopes = 2 * touched[:, None] * self._means / unit**2
        below = program.at_most(sp.csr_array(np.ones((len(touched), 1))) @ y + sp.csr_array(slopes) @ p, touched**2 / unit**2)
        gain = chord * self._errors + self._squares / n
        try:
            solution = program.maximise(gain @ p + (unit**2 / n) * (np.ones(1) @ y))
        except DpcoreError:
            return certified.largest(model, gain) - left * right + room * abs(chord), None
        upper, lower = (float(solution.dual(each)[0]) for each in ends)
        weights = solution.dual(below) / unit**2
        weights *= 1 / n / float(weights.sum()) if weights.sum() > 0 else 0.0
        mean = float(weights @ touched) * n
        rest = gain - 2 * mean / n * self._means - (upper - lower) * self._errors
        constant = -left * right + mean**2 / n + upper * (right + room) + lower * (room - left)
        # Roundings of s and t in the slope, and of the sums.
        slack = room * (abs(chord) + 2 * abs(mean) / n + upper + lower) + 16 * UNIT * (
            abs(left * right) + mean**2 / n + abs(upper * right) + abs(lower * left)
        )
        return certified.largest(model, rest) + constant + slack, solution.value_of(p)

    def deviation(self, error: float) -> float:
        r"""Return a t ≥ 0 with P(\|estimate − θ\| ≥ t) ≤ error over the model."""
        logarithm = -math.log(error / 2) * (1 + 8 * UNIT) / self.n
        return max(self._one_side(1.0, logarithm), self._one_side(-1.0, logarithm), 0.0)

    def _one_side(self, sign: float, logarithm: float) -> float:
        """Bound the errors in one direction, by Chernoff: P(e ≥ t) ≤ exp(n(log E e^{λ(v + center − θ)} − λt)) for every λ > 0.

        log m ≤ log m₀ + m/m₀ − 1 is linear in p, so the largest value over the model is a linear program, for any m₀.
        """
        start = math.sqrt(2 * logarithm / max(self.second_moment, TINY))
        grid = np.geomspace(start / 16, start * 16, EXPONENTS)
        best, index = math.inf, len(grid) // 2
        values: dict[int, float] = {}

        def at(place: int) -> float:
            if place not in values:
                values[place] = (self._cumulant(sign, float(grid[place])) + logarithm) / float(grid[place])
            return values[place]

        step = 4
        while step:
            best, index = min((at(place), place) for place in {max(index - step, 0), index, min(index + step, len(grid) - 1)})
            neighbours = [max(index - step, 0), min(index + step, len(grid) - 1)]
            if all(at(place) >= best for place in neighbours):
                step //= 2
        return best * (1 + 8 * UNIT) + self._rounding

    def _cumulant(self, sign: float, exponent: float) -> float:
        """Bound log E e^{λ·sign·(v + center − f·p)} over the model, at λ = exponent."""
        scaled = sign * exponent * self.values
        top = float(scaled.max())
        lost = 1 + (len(scaled) + 16) * UNIT + 4 * UNIT * float(np.abs(scaled).max())
        growth = self.probabilities @ np.exp(scaled - top) * lost + TINY
        rest = sign * exponent * (self.center - self.model.f)
        at, best = float(np.median(growth)), math.inf
        maximise = certified.Maximiser(self.model)
        for _ in range(LOGARITHMS):
            bound, p = maximise(growth / at + rest)
            best = min(best, bound + math.log(at) - 1 + 8 * UNIT * (abs(math.log(at)) + 1 + abs(bound) + abs(top)))
            at = max(float(growth @ p), TINY)
        return best + top
