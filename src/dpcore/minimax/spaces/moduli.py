"""Moduli of continuity: how much θ can differ between two members of a model that are close to each other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from dpcore._dataclasses import dataclass
from dpcore._validation import TINY_NORMAL, check_real
from dpcore.errors import DpcoreError, ParameterTypeError
from dpcore.minimax.programs.frames import Frame, most_moved, moves
from dpcore.minimax.programs.program import Program, Solution
from dpcore.minimax.spaces import certified
from dpcore.minimax.spaces.certified import Member
from dpcore.minimax.spaces.matrices import Array, channel_matrix, check_inputs
from dpcore.minimax.spaces.models import Model

LARGEST = math.sqrt(2.0)
"""No two distributions have a larger Hellinger distance."""
ENOUGH = 1e-6
"""No further program is solved once the two bounds of a modulus are this close, relatively."""
WIDEST = 1000.0
"""A program may be solved at a radius that is this many times larger."""
LEAST_UNIT = 2.0**-30
"""Smallest unit of a radius. Smaller units would make coefficients too large for the solver."""
NOISE = 1e-9
"""A mass below this, from an interior-point solver, may really be 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Modulus:
    """A modulus of continuity at one radius, with a lower and an upper bound.

    Attributes
    ----------
    value : float
        A lower bound: θ(p1) − θ(p0) for the two distributions below. It never exceeds `upper`.
    p0, p1 : ndarray of float64, shape (X,)
        Two members of the model whose distance is at most the radius.
    radius : float
        The radius.
    upper : float
        An upper bound, by weak duality. It does not depend on the accuracy of the solver.
    """

    value: float
    p0: Array = field(repr=False)
    p1: Array = field(repr=False)
    radius: float
    upper: float

    def __post_init__(self) -> None:
        """Put the bounds in order.

        `upper` is proved. Members of a model without an inside satisfy its conditions to the solver's tolerance only, and their θ may
        differ by more. They then move towards each other.
        """
        if self.value > self.upper:
            share = self.upper / self.value
            object.__setattr__(self, "p1", self.p0 + share * (self.p1 - self.p0))
            object.__setattr__(self, "value", self.upper)

    def in_units(self, frame: Frame) -> Modulus:
        """Convert a result about a model's standard form to the units of the model.

        Parameters
        ----------
        frame : Frame
            The model's `frame`.

        Returns
        -------
        Modulus
            Its bounds are rounded outwards.
        """
        return replace(self, value=frame.difference(self.value), upper=frame.difference(self.upper) * (1 + 2.0**-50))


def modulus_tv(model: Model, radius: float) -> Modulus:
    """Compute how much θ can differ between members at total variation distance at most r, by linear programming.

    ω(r) = max{θ(p1) − θ(p0): p0, p1 in the model, tv(p0, p1) ≤ r}.

    Parameters
    ----------
    model : Model
        The model and its functional.
    radius : float
        r ≥ 0; from 1 on it is no restriction.

    Returns
    -------
    Modulus
        A lower and an upper bound of ω(r), usually equal to about 9 digits.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is outside its range or of the wrong type.

    Notes
    -----
    ω is concave in r, so ω(r + s) ≤ ω(r) + ω(s).
    Cost: three linear programs; 0.05 s for 500 points.
    Source: Steinberger (2019), Definition 2.1 and Aufgabe 3.5.

    Examples
    --------
    >>> from dpcore.minimax import Model, modulus_tv
    >>> found = modulus_tv(Model([0.0, 1.0, 4.0]), 0.25)
    >>> round(found.value, 9), round(found.upper, 9)
    (1.0, 1.0)
    """
    radius = _check(model, radius)
    return modulus_of(model.standard, radius, largest_difference_tv(model.standard, radius)).in_units(model.frame)


def modulus_hellinger(model: Model, radius: float, *, channel: Any = None) -> Modulus:
    """Compute how much θ can differ between members whose reports have Hellinger distance at most r, by conic programming.

    ω(r) = max{θ(p1) − θ(p0): p0, p1 in the model, hellinger(Q p0, Q p1) ≤ r}.

    Parameters
    ----------
    model : Model
        The model and its functional.
    radius : float
        r ≥ 0; from √2 on it is no restriction.
    channel : array_like of float, shape (X, K), or a mechanism with `channel`, optional
        Q. Without it, the distance is that of the records.

    Returns
    -------
    Modulus
        A lower and an upper bound of ω(r), usually equal to about 6 digits.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is outside its range or of the wrong type.
    ModuleNotFoundError
        If the extra `minimax` is not installed.

    Notes
    -----
    ω is concave in r².
    Cost: a conic program with X cones, or with K cones if there is a channel, and two linear programs.
    Source: Steinberger (2019), Definition 2.1 and Section 3.2.1.

    Examples
    --------
    >>> from dpcore.minimax import Model, modulus_hellinger
    >>> found = modulus_hellinger(Model([0.0, 1.0, 4.0]), 0.25)  # range·r·√(1 − r²/4)
    >>> round(found.value, 6), round(found.upper, 6)
    (0.992157, 0.992157)
    """
    radius = _check(model, radius)
    matrix = None if channel is None else check_inputs(channel_matrix(channel, model.points), model.size)
    if radius >= LARGEST:
        return replace(modulus_tv(model, 1.0), radius=radius)
    return _modulus_hellinger(model.standard, radius, matrix).in_units(model.frame)


def _modulus_hellinger(model: Model, radius: float, matrix: Array | None) -> Modulus:
    """Compute the modulus of a model in its standard form."""
    pairs = hellinger_pairs(model, radius, matrix)
    best = next(pairs)
    upper = min(whole_range(model), _upper_hellinger(model, radius, matrix, best))
    while upper > best.value * (1 + ENOUGH) and (pair := next(pairs, None)) is not None:
        best = max(best, pair, key=lambda each: each.value)
        upper = min(upper, _upper_hellinger(model, radius, matrix, pair))
    return Modulus(best.value, best.p0, best.p1, radius, upper)


def _check(model: Any, radius: object) -> float:
    if not isinstance(model, Model):
        raise ParameterTypeError(f"model must be a Model, got {type(model).__name__}")
    return check_real("radius", radius, low=0.0, high=math.inf, include_high=False)


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two members of a model within a radius, with the dual variables of the program that found them.

    Attributes
    ----------
    p0, p1 : ndarray, shape (X,)
        The members.
    value : float
        θ(p1) − θ(p0).
    slope : float
        Gain for one more unit of the program's radius. That is r for total variation. For Hellinger it is the square of the radius in
        units of r², divided by r.
    weights : ndarray
        Total variation, shape (X,): duals w of p1 − p0 ≤ t, in [0, slope]. Hellinger, shape (K,): multipliers of q1 − q0.
    costs : tuple of ndarray
        Duals of the model's own inequalities, for p0 and for p1.
    """

    p0: Array
    p1: Array
    value: float
    slope: float
    weights: Array
    costs: tuple[Array, Array]


def largest_difference_tv(model: Model, radius: float, *, refined: bool = False) -> Pair:
    """Solve the program of `modulus_tv`: max θ(p1) − θ(p0), p1 − p0 ≤ t, Σt ≤ r. The differences sum to 0, so Σt is the distance."""
    two, radius = _Two(model), min(radius, 1.0)
    unit = _near_power_of_two(max(min(radius, float(two.units.sum())), LEAST_UNIT))
    near = two.program.at_most((two.units / unit) @ two.t, radius / unit)
    solution = two.program.maximise(two.gain, refined=refined)
    slope = float(solution.dual(near)[0]) / unit
    return two.pair(solution, slope, radius)


def nearest_pair(model: Model, difference: float, *, refined: bool = False) -> Pair:
    """Find members whose θ differ by `difference` and whose total variation distance is smallest. Units are those of `Pair`."""
    two = _Two(model)
    size, unit = _near_power_of_two(float(np.abs(two.gains).max())), _near_power_of_two(float(two.units.max()))
    apart = two.program.at_most((-1.0 / size) * two.gain, -difference / size)
    solution = two.program.maximise((-two.units / unit) @ two.t, refined=refined)
    price = float(solution.dual(apart)[0]) * unit / size
    if not price > 0:
        raise DpcoreError("the members of the model are too close together: the linear programs find no distance between them")
    return two.pair(solution, 1.0 / price, math.inf, unit / price)


class _Two:
    """A program about two members p0 and p1, and t with p1 − p0 ≤ t.

    The unit of each t is the largest mass that a variable moves to its point. The mass that all variables have in common is left out,
    because HiGHS would drop smaller coefficients beside it.
    """

    def __init__(self, model: Model) -> None:
        self._model, self._moving, self.program = model, moves(model.region), Program()
        self.units = most_moved(self._moving)
        self._members = Member(self.program, model), Member(self.program, model)
        self.t = self.program.variables(model.size)
        step = self._members[1].variables - self._members[0].variables
        self._above = self.program.at_most((sp.diags_array(1 / self.units) @ self._moving) @ step - self.t, 0.0)
        self.gains: Array = np.asarray(self._moving.T @ model.f)
        self.gain = self.gains @ step

    def pair(self, solution: Solution, slope: float, radius: float, unit: float = 1.0) -> Pair:
        """Return the members of a solution, moved together to the radius, and its duals; `unit` converts the objective to θ."""
        model = self._model
        v0, v1 = certified.repaired_variables(model, *(solution.value_of(member.variables) for member in self._members))
        p0, step = model.region.image @ v0, self._moving @ (v1 - v0)
        distance = float(np.abs(step).sum() / 2)
        step *= 1.0 if distance <= radius else radius / distance
        weights = np.minimum(unit * solution.dual(self._above) / self.units, slope)
        return Pair(p0, p0 + step, max(float(model.f @ step), 0.0), slope, weights, _costs(model, solution, unit))


def _near_power_of_two(value: float) -> float:
    """Return the power of two near a value ≥ 0, and 1 for 0."""
    return math.ldexp(1.0, round(math.log2(value))) if value > 0 else 1.0


def _costs(model: Model, solution: Solution, unit: float = 1.0) -> tuple[Array, Array]:
    """Return the duals of the inequalities of two members, in units of θ."""
    rows = model.region.below.shape[0]
    return unit * solution.duals[:rows], unit * solution.duals[rows : 2 * rows]


def _pair(model: Model, solution: Solution, p0: Array, p1: Array, slope: float, weights: Array) -> Pair:
    return Pair(p0, p1, max(float(model.f @ (p1 - p0)), 0.0), slope, weights, _costs(model, solution))


def modulus_of(model: Model, radius: float, pair: Pair, *, refined: bool = False) -> Modulus:
    """Return the modulus of a pair, with its upper bound.

    ω ≤ r·λ + max (f − w)·p1 + max −(f − w)·p0 for all w in [0, λ], because Σ w(p1 − p0) ≤ λ·tv.
    """
    rest = model.f - pair.weights
    upper = min(radius, 1.0) * float(pair.weights.max()) + certified.spread(model, rest, refined=refined)
    return Modulus(pair.value, pair.p0, pair.p1, radius, min(upper, whole_range(model, refined=refined)))


def whole_range(model: Model, *, refined: bool = False) -> float:
    """Return an upper bound of the length of the functional's range."""
    return certified.spread(model, model.f, refined=refined)


def hellinger_pairs(model: Model, radius: float, matrix: Array | None) -> Iterator[Pair]:
    """Yield pairs within the Hellinger radius. The first is usually the best.

    If the radius is too small for the solver, larger radii are tried: a part of the way between their members is within the radius, and
    their multipliers prove a bound for every radius. The last pair has identical reports. If no radius could be solved, the last error of
    the solver is raised.
    """
    target, solved, failure = radius, False, None
    while 0.0 < target < LARGEST and target <= WIDEST * radius:
        try:
            pair = _within(model, target, radius, matrix)
        except DpcoreError as error:
            failure = error
        else:
            solved = True
            yield pair
        target *= 10
    if failure is not None and not solved:
        raise failure
    yield _indistinguishable(model, matrix)


def _within(model: Model, radius: float, allowed: float, matrix: Array | None) -> Pair:
    """Solve the conic program in D = (p1 − p0)/r, so that small radii lose no digits.

    With m = (q0 + q1)/2 and d = q1 − q0 = r QᵀD, the condition m − √(q0 q1) ≤ e is (d/2)² ≤ e(2m − e), and Σe ≤ r²/2. The unit of e is
    r²/2.
    """
    to_reports: Any = sp.eye_array(model.size, format="csr") if matrix is None else matrix.T
    program = Program()
    first, second, difference = Member(program, model), Member(program, model), program.variables(model.size, free=True)
    program.equal(second.p - first.p - radius * difference, 0.0)
    program.equal(np.ones(model.size) @ difference, 0.0)
    e = program.variables(to_reports.shape[0])
    near = program.at_most(np.ones(to_reports.shape[0]) @ e, 1.0)
    program.rotated(math.sqrt(0.5) * (to_reports @ difference), e, to_reports @ (first.p + second.p) - (radius**2 / 2) * e)
    solution = program.maximise(model.f @ difference)
    p0, p1 = _farthest(model, solution.value_of(first.variables), solution.value_of(second.variables), allowed, matrix)
    return _pair(model, solution, p0, p1, float(solution.dual(near)[0]), math.sqrt(0.5) * -solution.tilts)


def _indistinguishable(model: Model, matrix: Array | None) -> Pair:
    """Solve for radius 0: the distributions of the reports agree."""
    program = Program()
    first, second = Member(program, model), Member(program, model)
    difference = second.p - first.p
    program.equal(difference if matrix is None else matrix.T @ difference, 0.0)
    solution = program.maximise(model.f @ difference)
    p0, p1 = certified.solved(model, solution, first, second)
    return _pair(model, solution, p0, p1, 0.0, np.zeros(0))


def _farthest(model: Model, v0: Array, v1: Array, radius: float, matrix: Array | None) -> tuple[Array, Array]:
    """Return the better of two pairs within the radius: the solver's, and the same with tiny variables set to their middle."""
    noise, middle = (np.maximum(v0, v1) < NOISE) & ~model.region.free, (v0 + v1) / 2
    found = []
    for variables in ((v0, v1), (np.where(noise, middle, v0), np.where(noise, middle, v1))):
        p0, p1 = certified.repaired(model, *variables)
        found.append((p0, p0 + _share_within(p0, p1, radius, matrix) * (p1 - p0)))
    return max(found, key=lambda pair: float(model.f @ (pair[1] - pair[0])))


def _share_within(p0: Array, p1: Array, radius: float, matrix: Array | None) -> float:
    """Find the largest share of the way from p0 to p1 that stays within the radius, by bisection. The model is convex and contains it."""

    def inside(share: float) -> bool:
        q0, q1 = (p if matrix is None else p @ matrix for p in (p0, p0 + share * (p1 - p0)))
        difference = (q1 - q0) / np.maximum(np.sqrt(q0) + np.sqrt(q1), TINY_NORMAL)
        return bool(difference @ difference <= radius**2)

    if inside(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) else (low, middle)
    return low


def _upper_hellinger(model: Model, radius: float, matrix: Array | None, pair: Pair) -> float:
    """Bound the modulus: ω ≤ rκ + max (f − Qτ + rQβ)·p1 + max (Qτ − f + rQβ)·p0 for all κ > 0 and τ, with β = τ²/(κ + √(κ² + r²τ²)).

    For each outcome, (d/2)² ≤ e(2m − e) implies τd ≤ κr·e/(r²/2) + rβ·2m. This is the dual of `_within`.
    """
    if not pair.slope > 0.0:
        return math.inf
    slope, tau = pair.slope, pair.weights
    beta = tau**2 / (slope + np.sqrt(slope**2 + (radius * tau) ** 2))
    explained, excess = (tau, radius * beta) if matrix is None else (matrix @ tau, radius * (matrix @ beta))
    away = model.f - explained
    return radius * slope + certified.largest(model, away + excess) + certified.largest(model, excess - away)
