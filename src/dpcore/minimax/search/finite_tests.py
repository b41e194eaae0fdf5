"""Binary search of tests behind any finite channel: the tests of LeCam and Birgé between Hellinger projections, with proved bounds.

The hypotheses are H0: θ ≤ a and H1: θ ≥ b. Let (q0*, q1*) be the pair of their images that is closest in Hellinger distance, and
r = √(q1*/q0*). The test decides for H1 if Σ count·ln r > 0. By Markov's inequality, its errors are at most (max_{H0} q·r)^n and
(max_{H1} q·(1/r))^n, for any r > 0. For any multipliers λ, μ ≥ 0, the maxima are at most λa + max (q·r − λθ) and max (q·(1/r) + μθ) − μb
over the whole model, and any multipliers of its conditions bound these in turn. With the multipliers of the cone solver, the bounds equal
the Hellinger affinity Σ √(q0* q1*). Inaccurate multipliers would give larger bounds, not invalid ones.
"""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore.errors import DpcoreError, ParameterError
from dpcore.minimax.programs.frames import STANDARD, Frame
from dpcore.minimax.programs.program import Program
from dpcore.minimax.search.search import Search, outcome_of_empty
from dpcore.minimax.spaces.certified import Maximiser
from dpcore.minimax.spaces.hypotheses import LEAST
from dpcore.minimax.spaces.inversion import RatioIntervals

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore.minimax._progress import Steps
    from dpcore.minimax.programs.program import ConeRows, Expression
    from dpcore.minimax.spaces.models import Model

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
SLACK = 5e-8
"""Relative amount by which the bound of a test may exceed that of its distance: the tolerance of the cone solver."""
INDISTINCT = 1e-7
"""Affinities closer to 1 than this cannot be distinguished from 1, given the tolerance of the cone solver."""
TABLE_ENTRIES = 2**26
HALVINGS = 16
"""Steps of the search for a distance; it needs no accuracy."""
ROUNDING = 1.0 + 1e-6
"""Allowance for rounding in sums of bounds, larger than any rounding error there."""
COARSE = 40
"""Number of distances at which affinities are computed to choose a step."""
SAMPLE = 256
"""Number of data sets that walk first, if there are many."""


@dataclass(frozen=True, eq=False, slots=True)
class Projection:
    """A test between two hypotheses.

    Attributes
    ----------
    weights : ndarray, shape (K,)
        The test decides for H1 if counts @ weights > 0.
    affinity : float
        Each of its two errors is at most affinity^n.
    """

    weights: Array
    affinity: float


class Projections:
    """Tests between hypotheses about θ behind a channel, for any step of a search.

    Parameters
    ----------
    model : Model
        𝒫 and θ.
    matrix : ndarray, shape (X, K)
        The channel; rows sum to 1.
    """

    def __init__(self, model: Model, matrix: Array) -> None:
        self._model, self.matrix = model, matrix
        self._maximise = Maximiser(model)
        self._unit = float(np.abs(model.f).max()) or 1.0

    @cached_property
    def theta_range(self) -> tuple[float, float]:
        """The range of θ over the model, rounded outwards."""
        return -self._maximise(-self._model.f)[0], self._maximise(self._model.f)[0]

    @property
    def outcomes(self) -> int:
        """K."""
        return int(self.matrix.shape[1])

    def test(self, a: float, b: float) -> Projection:
        """Find the test of H0: θ ≤ a against H1: θ ≥ b.

        If a hypothesis is empty, the test is constant, as in Steinberger (2019), Lemma 3.16. If the channel cannot distinguish the
        hypotheses, the test is that of hypotheses further apart around the same middle, and its bound is 1.
        """
        empty = outcome_of_empty(zero=a < self.theta_range[0], one=b > self.theta_range[1])
        if empty is not None:
            return Projection(np.full(self.outcomes, 2.0 * empty - 1.0), 0.0)
        found = self._between(a, b)
        middle, half, reach = (a + b) / 2, b - a, self.theta_range[1] - self.theta_range[0]
        further = found
        while further.affinity > 1 - INDISTINCT and half < reach:
            half = max(2 * half, reach / 64)
            further = self._between(max(middle - half, self.theta_range[0]), min(middle + half, self.theta_range[1]))
        return found if further is found else Projection(further.weights, 1.0)

    def _between(self, a: float, b: float) -> Projection:
        low, high = self._model.theta_range
        # Ends beyond the range of θ, due to outward rounding, are moved back. This makes hypotheses larger, never smaller.
        a, b = max(a, low), min(b, high)
        logs, (lam, mu), duals = self._closest(self._test_rows, (a, -b))
        f = self._model.f
        zero = lam * a + self._maximise.bound(self.matrix @ np.exp(logs) - lam * f, duals[0])
        one = self._maximise.bound(self.matrix @ np.exp(-logs) + mu * f, duals[1]) - mu * b
        # A common factor of r makes both bounds equal to their geometric mean.
        weights = logs + 0.5 * math.log(one / zero)
        # Sums of count·weight are rounded, by less than this for each report.
        rounding = (self.outcomes + 8) * (1.0 + float(np.abs(weights).max())) * 2.0**-52
        return Projection(weights, min(math.sqrt(zero * one) * (1.0 + rounding), 1.0))

    def affinity(self, distance: float) -> float:
        """Bound the Hellinger affinity of all pairs whose θ differ by at least `distance`: 0 if there are none, 1 if the solver gave up."""
        if distance > self.theta_range[1] - self.theta_range[0]:
            return 0.0
        low, high = self._model.theta_range
        distance = min(distance, high - low)
        try:
            logs, (lam,), duals = self._closest(self._pair_rows, (-distance,))
        except DpcoreError:
            return 1.0
        f = self._model.f
        # Σ √(q0 q1) ≤ ½ Σ (q0 r + q1/r) for any r. The condition on θ enters by its multiplier.
        zero = self._maximise.bound(self.matrix @ np.exp(logs) - lam * f, duals[0])
        one = self._maximise.bound(self.matrix @ np.exp(-logs) + lam * f, duals[1])
        return float(min((zero + one - lam * distance) / 2, 1.0))

    def ratio_intervals(self, n: int, level: float) -> RatioIntervals:
        """Invert the test of the closest pair at the distance at which its errors are level/2, or at the largest distance.

        For a normal shift, this distance makes the intervals shortest.
        """
        low, high = 0.0, self.theta_range[1] - self.theta_range[0]
        wanted = math.log(level / 2)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            affinity = self.affinity(middle)
            low, high = (low, middle) if n * math.log(max(affinity, LEAST)) <= wanted else (middle, high)
        most = self._model.theta_range[1] - self._model.theta_range[0]
        logs = self._closest(self._pair_rows, (-min(high, most),))[0]
        return RatioIntervals.of(self._model, self.matrix, logs)

    @cached_property
    def _test_rows(self) -> ConeRows:
        """Rows for two members, the first with θ ≤ a, the second with −θ ≤ −b, and the roots of the products of their images."""
        return self._program(lambda p0, p1: [p0, -1.0 * p1])

    @cached_property
    def _pair_rows(self) -> ConeRows:
        """Rows for two members with θ(p0) − θ(p1) ≤ −d, and the roots of the products of their images."""
        return self._program(lambda p0, p1: [p0 - p1])

    def _program(self, conditions: Callable[[Expression, Expression], list[Expression]]) -> ConeRows:
        program = Program()
        members = program.member(self._model), program.member(self._model)
        transposed = sp.csr_array(self.matrix.T)
        program.rotated(program.variables(self.outcomes), *(transposed @ member for member in members))
        for condition in conditions(*members):
            program.at_most((self._model.f / self._unit) @ condition, 0.0)
        return program.cone_rows()

    def _closest(self, rows: ConeRows, bounds: tuple[float, ...]) -> tuple[Array, Array, Array]:
        """Maximize the affinity. Return ln r, the multipliers of the conditions on θ, and those of the conditions of each member."""
        right, stop = rows.right.copy(), rows.sizes[0] + rows.inequalities
        right[stop - len(bounds) : stop] = np.divide(bounds, self._unit)
        objective = np.zeros(rows.matrix.shape[1])
        objective[-self.outcomes :] = 1.0
        _, duals, cones = replace(rows, right=right).maximise(objective)
        # Σ roots ≤ Σ (rates[0]·q0 + rates[1]·q1). The multipliers r/2 and 1/(2r) of the cones are as accurate as the solver's gap; the
        # projections themselves only as its square root, where the maximum is flat.
        rates = np.maximum([cones[:, 0] + cones[:, 2], cones[:, 0] - cones[:, 2]], LEAST)
        split = len(duals) - len(bounds)
        return np.log(rates[0] / rates[1]) / 2, 2.0 * duals[split:] / self._unit, 2.0 * duals[:split].reshape(2, -1)


class FiniteSearch(Search):
    """The search for one step Δ. A test is computed when a data set first needs it, and then kept.

    Parameters
    ----------
    projections : Projections
        Tests of the model behind the channel.
    n : int
        Number of reports.
    step : float
        Δ > 0.
    frame : Frame, optional
        The conversion to the units of the model.
    """

    def __init__(self, projections: Projections, n: int, step: float, frame: Frame = STANDARD) -> None:
        self._projections, self.n, self.step, self.frame = projections, n, step, frame
        self._affinities: dict[int, float] = {}
        self._ratios: dict[float, RatioIntervals] = {}
        self._lock = threading.Lock()
        levels = max(self.intervals - 2, 0)
        lanes = _backend.WALK_LANES
        nodes, width = levels * (levels + 1) // 2, -(-projections.outcomes // lanes) * lanes
        if nodes * width > TABLE_ENTRIES:
            raise ParameterError(
                f"step must be larger: {frame.difference(step)!r} gives {nodes} tests with {width} weights each, more than {TABLE_ENTRIES}"
            )
        self._weights = np.full((nodes, width), np.nan)

    @property
    def theta_range(self) -> tuple[float, float]:
        return self._projections.theta_range

    @property
    def weights(self) -> Array:
        """A read-only view of the table of tests."""
        view = self._weights.view()
        view.flags.writeable = False
        return view

    def affinity(self, steps: int) -> float:
        """Bound the affinity of hypotheses at distance steps·Δ, and of every test between such hypotheses."""
        if steps not in self._affinities:
            bound = self._projections.affinity(steps * self.step) * (1 + SLACK)
            # Hypotheses that cannot be distinguished use the test of others, whose bound does not apply to them.
            self._affinities[steps] = bound if bound <= 1 - INDISTINCT else 1.0
        return self._affinities[steps]

    def _prepare(self, level: int, node: int) -> int:
        """Compute the test of a node if it is not in the table yet, and return its row."""
        row = (level - 1) * level // 2 + node - 1
        with self._lock:
            if np.isnan(self._weights[row, 0]):
                distance = self.intervals - level - 1
                a = self.theta_range[0] + node * self.step
                b = self.theta_range[0] + (node + distance) * self.step
                test = self._projections.test(a, b)
                self._check(test.affinity, distance)
                self._weights[row] = np.pad(test.weights, (0, self._weights.shape[1] - len(test.weights)))
        return row

    def _check(self, affinity: float, distance: int) -> None:
        """Make sure that the bounds cover a test: raise the bound at its distance, or raise an error if bounds were already returned."""
        if affinity > self.affinity(distance):
            if "_tails" in vars(self):
                raise DpcoreError(
                    f"a test at distance {distance}Δ exceeds the error bound that was returned for it, because the cone solver was "
                    "inaccurate; scale f and the rows of A to similar sizes"
                )
            self._affinities[distance] = affinity

    def decide(self, level: int, node: int, counts: Counts) -> int:
        row = self._prepare(level, node)
        return int(counts @ self._weights[row, : len(counts)] > 0)

    @cached_property
    def values(self) -> Array:
        return self.frame.points(self.theta_range[0] + self.grid)

    def estimates(self, counts: Counts, threads: int | None) -> Array:
        if self.intervals <= 2:
            return np.full(len(counts), self.values[0])
        found: Array = self.values[self._places(counts, threads) - 1]
        return found

    def _places(self, counts: Counts, threads: int | None) -> npt.NDArray[np.int32]:
        """Return the last nodes of all data sets."""
        if len(counts) > 16 * SAMPLE:
            # A sample walks first. It needs most of the tests that the others need, and every round of a walk visits all data sets.
            self._places(counts[:: len(counts) // SAMPLE], threads)
        steps = self.intervals - 2
        level, place = np.ones(len(counts), np.int32), np.ones(len(counts), np.int32)
        _backend.walk(counts, self._weights, level, place, steps, threads=threads)
        waiting = np.flatnonzero(level <= steps)
        while len(waiting):
            for k, j in np.unique(np.stack([level[waiting], place[waiting]]), axis=1).T.tolist():
                self._prepare(k, j)
            levels, places = level[waiting], place[waiting]
            _backend.walk(counts[waiting], self._weights, levels, places, steps, threads=threads)
            level[waiting], place[waiting] = levels, places
            waiting = waiting[levels <= steps]
        return place

    def tails(self) -> Array:
        """Bound P(|θ̂ − θ| > (l + 1)Δ) over the model, for l = 0 … N − 2.

        A θ in [(m − 1)Δ, mΔ) can only be removed by tests of H0: θ ≤ mΔ, at distances d up to N − 1 − m, and of H1: θ ≥ (m − 1)Δ, at
        distances up to m − 2. An error beyond (l + 1)Δ needs such a test at a distance above l (Steinberger, 2019, proof of Lemma 3.16).
        """
        count = self.intervals
        return two_sided_tails(np.array([self.affinity(d) for d in range(1, count - 1)]), self.n)

    def inverted(self, counts: Counts, level: float) -> Array:
        if level not in self._ratios:
            self._ratios[level] = self._projections.ratio_intervals(self.n, level)
        return self.frame.intervals_outwards(self._ratios[level].intervals(self.n, counts, level))

    def error_bound(self, index: int) -> float:
        return 0.0 if self.intervals <= 2 or index > self.intervals - 2 else float(self._tails[index])

    @cached_property
    def _tails(self) -> Array:
        return self.tails()

    def risk_bound(self, loss: Callable[[Array], Array]) -> float:
        if self.intervals <= 2:
            return float(loss(np.array([self.reach / 2]))[0])
        return risk_of_tails(self._tails, self.step, self.reach, loss)


def two_sided_tails(affinities: Array, n: int) -> Array:
    """Sum the error bounds of tests at distances l + 1 and more that can remove one θ.

    Parameters
    ----------
    affinities : ndarray, shape (N − 2,)
        Bounds at the distances Δ, 2Δ, ….
    n : int
        Number of reports.

    Returns
    -------
    ndarray, shape (N − 1,)
        For l = 0 … N − 2, at most 1.
    """
    # beyond[d] sums the error bounds of tests at distances above d = 0 … N − 2, from the smallest on.
    beyond = np.append(np.cumsum((affinities**n)[::-1])[::-1], 0.0)
    count = len(affinities) + 2
    cells = np.arange(1, count + 1)
    far = beyond[np.clip(count - 1 - cells, 0, None)][:, None], beyond[np.clip(cells - 2, 0, None)][:, None]
    sums = sum(np.maximum(beyond - rest, 0.0) for rest in far)
    tails: Array = np.minimum(np.max(sums, axis=0) * ROUNDING, 1.0)
    return tails


def risk_of_tails(tails: Array, step: float, reach: float, loss: Callable[[Array], Array]) -> float:
    """Return loss(Δ) + Σ_l (loss((l + 2)Δ) − loss((l + 1)Δ))·P(|θ̂ − θ| > (l + 1)Δ). No error exceeds the range R."""
    losses = loss(np.minimum(np.arange(1, len(tails) + 2) * step, reach))
    return float(losses[0] + np.diff(losses) @ tails)


def tuned_intervals(projections: Projections, n: int, loss: Callable[[Array], Array], most: int, steps: Steps) -> int:
    """Find the N whose step R/(N − ½) has the smallest risk bound. Affinities between computed distances are interpolated."""
    low, high = projections.theta_range
    reach = high - low
    distances = reach * np.linspace(0.0, 1.0, COARSE + 1) ** 2
    affinities = np.empty(len(distances))
    for index, distance in enumerate(distances):
        affinities[index] = projections.affinity(float(distance))
        steps.advance()
    rates = -np.log(np.maximum(affinities, LEAST))
    bounds = {2: float(loss(np.array([reach / 2]))[0])}
    for count in range(3, most + 1):
        step = reach / (count - 0.5)
        between = np.exp(-np.interp(np.arange(1, count - 1) * step, distances, rates))
        bounds[count] = risk_of_tails(two_sided_tails(between, n), step, reach, loss)
    return min(bounds, key=lambda count: bounds[count])
