"""Trade-off curves: the least error of the second kind of tests at every level, which is the lower border of a testing region."""

from __future__ import annotations

import itertools
import math
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore._validation import REAL_DTYPES, check_array, check_integer, check_real
from dpcore.accounting import gdp_delta
from dpcore.blackwell.experiment import Experiment
from dpcore.blackwell.regions import testing_pieces
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.privacy import Privacy

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike

    import numpy.typing as npt
    from matplotlib.axes import Axes

    from dpcore.noise import Real

    Points = npt.NDArray[np.float64]

REACH = 9.0
"""Standard deviations from its end at which the tangents of a Gaussian curve end: beyond lies less than 10^−18."""
MOST_MU = 25.0
LARGEST_EPSILON = 700.0
SAME = 1e-12
SAME_SLOPE = 2.0**-48
"""Relative."""


@dataclass(frozen=True, slots=True, eq=False)
class TradeOff:
    r"""A trade-off curve f: every test of neighbours with level α misses with probability f(α) at least.

    `TradeOff.of` is the curve of an experiment, `TradeOff.private` that of one or several (ε, δ), and `TradeOff.gaussian` that of μ-GDP.

    Attributes
    ----------
    vertices : ndarray of float64, shape (v, 2)
        Corners (α, f(α)) from α = 0 to α = 1, read-only. The curve is convex and linear between them.
    name : str
        Words for a legend.

    Notes
    -----
    The region above the curve and below its mirror image (1 − α, 1 − β) is the testing region R(M, x₀, x₁), with the axes exchanged; by
    Blackwell's theorem one curve is below another one exactly if its pair is sufficient for the other pair.

    Source: Mechanisms as experiments (2014), Section 2.1; Dong, Roth & Su (2022).

    Examples
    --------
    >>> from dpcore import local
    >>> from dpcore.blackwell import from_mechanism
    >>> response = TradeOff.of(from_mechanism(local.KaryResponse(1.0, k=3)), 0, 1)
    >>> claimed = TradeOff.private(Privacy(1.0))
    >>> round(response.type_two(0.1), 4), round(claimed.type_two(0.1), 4)
    (0.7282, 0.7282)
    >>> response.is_above(claimed), claimed.is_above(response)
    (True, False)
    """

    vertices: Points = field(repr=False)
    name: str

    @classmethod
    def of(cls, experiment: Experiment, i: int, j: int, *, name: str = "") -> Self:
        r"""Return the curve of tests of state i against state j.

        Parameters
        ----------
        experiment : Experiment
            The mechanism.
        i, j : int
            Positions of the two states; i is the null hypothesis.
        name : str, optional
            Words for a legend.

        Returns
        -------
        TradeOff
            From the Neyman-Pearson tests, up to the rounding of their sums.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a position is outside its range, or the first argument is no `Experiment`.
        """
        if not isinstance(experiment, Experiment):
            raise ParameterTypeError(f"experiment must be an Experiment, got {type(experiment).__name__}")
        states = len(experiment.matrix)
        i, j = (check_integer(word, at, low=-states, high=states - 1) for word, at in (("i", i), ("j", j)))
        pieces = testing_pieces(experiment.matrix[i], experiment.matrix[j])
        # each outcome adds its share of missed detections where the test accepts, and of false alarms where it rejects
        missed, alarm = pieces.max(axis=1).T
        possible = (missed > 0) | (alarm > 0)
        missed, alarm = missed[possible], alarm[possible]
        with np.errstate(divide="ignore"):
            order = np.argsort(-(missed / alarm), kind="stable")
        free = int((alarm == 0).sum())  # outcomes that state i never has: to reject on them costs nothing
        levels = np.concatenate([[0.0], np.cumsum(alarm[order])])
        left = np.concatenate([[0.0], np.cumsum(missed[order][::-1])])[::-1]
        points = np.column_stack([np.minimum(levels, 1.0), np.minimum(left, 1.0)])[free:]
        points[-1] = 1.0, 0.0
        return cls(_corners(points), name or f"states {i} and {j}")

    @classmethod
    def private(cls, *guarantees: Privacy, name: str = "") -> Self:
        r"""Return the curve of everything that satisfies one or several (ε, δ) at once.

        Parameters
        ----------
        *guarantees : Privacy
            At least one, each with an ε of at most 700, all for one relation. Several of one mechanism together say more than each alone.
        name : str, optional
            Words for a legend.

        Returns
        -------
        TradeOff
            max over the guarantees of max(0, 1 − δ − e^ε α, e^−ε(1 − δ − α)).

        Raises
        ------
        ParameterError, ParameterTypeError
            If there is no guarantee, or one is no `Privacy`, has an ε above 700, or another relation than the first.

        Notes
        -----
        With one guarantee this is the border of R(ε, δ).

        Source: Mechanisms as experiments (2014), Theorem 2.
        """
        if not guarantees:
            raise ParameterError("guarantees must have at least one Privacy, got none")
        for place, each in enumerate(guarantees):
            if not isinstance(each, Privacy):
                raise ParameterTypeError(f"guarantees[{place}] must be a dpcore.Privacy, got {each!r}")
            if each.relation != guarantees[0].relation:
                raise ParameterError(
                    f"guarantees[{place}] must have the relation of the first, {guarantees[0].relation!r}, got {each.relation!r}"
                )
            if each.epsilon > LARGEST_EPSILON:
                raise ParameterError(f"guarantees[{place}] must have an epsilon of at most {LARGEST_EPSILON:g}, got {each.epsilon!r}")
        pairs = [(each.epsilon, each.delta) for each in guarantees]
        first = guarantees[0]
        words = f"({first.epsilon:g}, {first.delta:g})-private" if len(guarantees) == 1 else f"{len(guarantees)} guarantees"
        return cls(_above_lines(pairs), name or words)

    @classmethod
    def gaussian(cls, mu: float, *, tangents: int = 96, name: str = "") -> Self:
        r"""Return the curve G_μ of μ-GDP, as the polygon of its tangents, which is nowhere above it.

        Parameters
        ----------
        mu : float
            Gaussian privacy μ, in [0, 25].
        tangents : int, default 96
            Tangents on each side of the middle, in [2, 4096]. Each is one (ε, δ) of `accounting.gdp_delta`, rounded up.
        name : str, optional
            Words for a legend.

        Returns
        -------
        TradeOff
            Below G_μ by at most 10^−3 for μ ≤ 3 with the default, and by a quarter of it with twice as many tangents.
            `accounting.GaussianPrivacy.type_two` has single values.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range.

        Notes
        -----
        Cost: 1 ms for each tangent.

        Source: Dong, Roth & Su (2022), Equation 6 and Corollary 1.
        """
        mu = check_real("mu", mu, low=0.0, high=MOST_MU, rounding="up")
        tangents = check_integer("tangents", tangents, low=2, high=4096)
        # the tangent at level Φ(−μ/2 − r) has ε = μr, and β = Φ(r − μ/2) there
        losses = {mu * (mu / 2 + REACH) * k / tangents for k in range(tangents)}
        return cls(_above_lines([(epsilon, gdp_delta(mu, epsilon)) for epsilon in losses]), name or f"{mu:g}-GDP")

    @overload
    def type_two(self, level: Real) -> float: ...
    @overload
    def type_two(self, level: npt.ArrayLike) -> Points: ...
    def type_two(self, level: Any) -> Any:
        """Return f(α), the least error of the second kind at a level.

        Parameters
        ----------
        level : float or array_like
            Level α, in [0, 1]. Any shape.

        Returns
        -------
        float or ndarray of float64
            Of the shape of `level`.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a level is outside [0, 1].
        """
        levels = check_array("level", level, REAL_DTYPES).astype(np.float64)
        for each in levels.ravel().tolist():
            check_real("level", each, low=0.0, high=1.0)
        found = np.interp(levels, *self.vertices.T)
        return float(found) if np.ndim(level) == 0 else found

    def delta(self, epsilon: float) -> float:
        """Return the least δ of an (ε, δ) that follows from the curve, for both orders of the pair.

        Parameters
        ----------
        epsilon : float
            Privacy loss ε, in [0, 700].

        Returns
        -------
        float
            max over corners of 1 − β − e^ε α and 1 − α − e^ε β, and at least 0; up to rounding.

        Raises
        ------
        ParameterError, ParameterTypeError
            If ε is outside its range.

        Notes
        -----
        Source: Dong, Roth & Su (2022), Proposition 6.
        """
        factor = math.exp(check_real("epsilon", epsilon, low=0.0, high=LARGEST_EPSILON))
        level, missed = self.vertices.T
        return max(0.0, float((1 - missed - factor * level).max()), float((1 - level - factor * missed).max()))

    def is_above(self, other: TradeOff, *, tolerance: float = SAME) -> bool:
        """Return whether this curve is nowhere below another one: whatever has it is at least as private.

        Parameters
        ----------
        other : TradeOff
            The other curve.
        tolerance : float, default 1e-12
            How far below counts as rounding, in [0, 1].

        Returns
        -------
        bool
            Compared at the corners of both, between which both are linear.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument is outside its range or is no `TradeOff`.
        """
        if not isinstance(other, TradeOff):
            raise ParameterTypeError(f"other must be a TradeOff, got {type(other).__name__}")
        tolerance = check_real("tolerance", tolerance, low=0.0, high=1.0)
        levels = np.union1d(self.vertices[:, 0], other.vertices[:, 0])
        return bool(np.all(self.type_two(levels) >= other.type_two(levels) - tolerance))

    @overload
    def plot(self, *others: TradeOff, target: str | PathLike[str]) -> Path: ...
    @overload
    def plot(self, *others: TradeOff, target: Axes) -> Axes: ...
    def plot(self, *others: TradeOff, target: Any) -> Any:
        """Draw this curve and others.

        Parameters
        ----------
        *others : TradeOff
            Further curves.
        target : path or matplotlib axes
            A file to write, whose ending is a type that matplotlib knows; or axes to draw on.

        Returns
        -------
        Path or axes
            The path of the file, or the given axes.

        Raises
        ------
        ParameterTypeError
            If an argument has the wrong type.
        ModuleNotFoundError
            If `target` is a file and matplotlib, of the extra `report`, is not installed.
        """
        from dpcore.blackwell import _plots

        for place, other in enumerate(others):
            if not isinstance(other, TradeOff):
                raise ParameterTypeError(f"others[{place}] must be a TradeOff, got {type(other).__name__}")
        return _plots.draw_curves([(each.name, each.vertices) for each in (self, *others)], target)


def _corners(points: Points) -> Points:
    """Points of a convex curve without those that lie on a line between others, read-only."""
    kept = [points[0]]
    for place in range(1, len(points) - 1):
        (x0, y0), (x1, y1), (x2, y2) = kept[-1], points[place], points[place + 1]
        # relative, because a short edge far out decides δ at a large ε
        one, other = (x1 - x0) * (y2 - y1), (x2 - x1) * (y1 - y0)
        if abs(one - other) > SAME_SLOPE * (abs(one) + abs(other)):
            kept.append(points[place])
    result: Points = np.array([*kept, points[-1]])
    result.setflags(write=False)
    return result


def _above_lines(guarantees: Iterable[tuple[float, float]]) -> Points:
    """Corners of max(0, 1 − δ − e^ε α, e^−ε(1 − δ − α)) over guarantees, for α in [0, 1]."""
    steepest: dict[float, float] = {}
    for epsilon, delta in guarantees:
        # a line is (slope, value at 0), slopes positive downwards; of equal ones the highest counts
        for slope, start in ((math.exp(epsilon), 1 - delta), (math.exp(-epsilon), math.exp(-epsilon) * (1 - delta))):
            steepest[slope] = max(steepest.get(slope, 0.0), start)
    lines = [*sorted(steepest.items(), reverse=True), (0.0, 0.0)]
    upper: list[tuple[float, float]] = []
    for slope, start in lines:
        if upper and start >= upper[-1][1]:  # flatter and higher at 0 already
            while upper and start >= upper[-1][1]:
                upper.pop()
        while len(upper) >= 2 and _crossing(upper[-1], (slope, start)) <= _crossing(upper[-2], upper[-1]):
            upper.pop()
        upper.append((slope, start))
    points = [(0.0, upper[0][1])]
    for one, other in itertools.pairwise(upper):
        level = _crossing(one, other)
        if 0 < level < 1:
            points.append((level, max(other[1] - other[0] * level, 0.0)))
    points.append((1.0, 0.0))
    result: Points = np.array(points)
    result.setflags(write=False)
    return result


def _crossing(one: tuple[float, float], other: tuple[float, float]) -> float:
    """The level at which two lines meet, the first of which is steeper."""
    return (one[1] - other[1]) / (one[0] - other[0])
