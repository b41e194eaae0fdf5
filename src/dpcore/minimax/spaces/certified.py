"""Numbers that are valid for any answer of a solver: upper bounds by weak duality, and repaired members for lower bounds."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from dpcore.errors import DpcoreError
from dpcore.minimax.programs.frames import Frame, frame_of, moves
from dpcore.minimax.programs.linear_programs import TOLERANCE
from dpcore.minimax.programs.program import Expression, Program, Region, Solution
from dpcore.minimax.spaces.matrices import Array
from dpcore.minimax.spaces.models import Model

LEAST_SLACK = 1e-9
"""A model whose conditions leave less room than this has no inside."""
LEAST_LOSS = 1e-6
"""Share of a difference between members that could not be repaired which may be due to the solver."""
LOOSE = 1e-8
"""A program is refined if its bound exceeds the value that it attains by more, in units of the functional."""
_centres: WeakKeyDictionary[Model, Array | None] = WeakKeyDictionary()


def spread(model: Model, direction: Array, *, refined: bool = False) -> float:
    """Return an upper bound of direction·(p1 − p0) over pairs of members. It is close unless the solver gave up.

    `direction` holds X finite numbers. The bound comes from weak duality. For mixtures it is computed from differences of their vertices,
    so that it loses no digits to what they have in common.
    """
    region = model.region
    if region.below.shape[0] or region.free.any():
        return largest(model, direction, refined=refined) + largest(model, -direction, refined=refined)
    moving = moves(region).T
    gains, rounding = moving @ direction, (region.image.shape[0] + 4) * 2.0**-53 * (abs(moving) @ np.abs(direction))
    return float(((gains + rounding).max() - (gains - rounding).min()) * (1 + 2.0**-50))


def largest(model: Model, direction: Array, *, refined: bool = False) -> float:
    """Return an upper bound of direction·p over the model, by weak duality. It is close unless the solver gave up.

    `direction` holds X finite numbers.
    """
    maximise = Maximiser(model, refined=refined)
    try:
        return maximise(direction)[0]
    except DpcoreError:
        return maximise.bound(direction, np.zeros(model.region.below.shape[0]))


class Maximiser:
    """The largest values of linear functionals over a model, rounded up by weak duality.

    Parameters
    ----------
    model : Model
        The model.
    refined : bool, default False
        Whether programs are solved below the tolerance of the solver.
    """

    def __init__(self, model: Model, *, refined: bool = False) -> None:
        self._region, self._possible, self._program, self._refined = model.region, model.possible, Program(), refined
        self._member = self._program.member(model)

    def __call__(self, direction: Array) -> tuple[float, Array]:
        """Bound direction·p over the model.

        Parameters
        ----------
        direction : ndarray, shape (X,)
            The functional.

        Returns
        -------
        float
            An upper bound, equal to the maximum up to the tolerance of the solver.
        ndarray, shape (X,)
            A distribution that attains it, up to that tolerance.

        Raises
        ------
        DpcoreError
            If the solver gives up.
        """
        frame, shape = frame_of(direction, self._possible)
        if not self._region.below.shape[0] and not self._region.free.any():
            place = int((self._region.image.T @ shape).argmax())  # for a hull, the maximum is at a vertex
            return self._up(frame, dual_bound(self._region, shape, np.zeros(0))), self._region.image[:, [place]].toarray()[:, 0]
        solution = self._program.maximise(shape @ self._member, refined=self._refined)
        bound = dual_bound(self._region, shape, solution.duals)
        if not self._refined and bound - solution.value > LOOSE:
            # A condition with a bound below the tolerance of the solver has no price there.
            solution = self._program.maximise(shape @ self._member, refined=True)
            bound = min(bound, dual_bound(self._region, shape, solution.duals))
        return self._up(frame, bound), solution.value_of(self._member)

    def _up(self, frame: Frame, bound: float) -> float:
        """Return a bound in the units of the direction, rounded up."""
        found = frame.difference(bound)
        return frame.origin + found + 4 * 2.0**-53 * (abs(frame.origin) + abs(found))

    def bound(self, direction: Array, duals: Array) -> float:
        """Bound direction·p over the model with any multipliers ≥ 0 of its conditions."""
        return dual_bound(self._region, np.where(self._possible, direction, direction[self._possible].min()), duals)


def dual_bound(region: Region, direction: Array, duals: Array) -> float:
    """Bound direction·p over a region with any multipliers ≥ 0 of its conditions.

    For multipliers y ≥ 0, direction·p ≤ y·at_most + max over coordinates of (direction − belowᵀy), because masses sum to 1.
    """
    gains = np.asarray(region.image.T @ direction, np.float64)
    duals = _balanced(region, gains, duals)
    rests = gains - region.below.T @ duals
    costs = duals * region.at_most
    magnitude = np.abs(region.image).T @ np.abs(direction) + np.abs(region.below).T @ duals
    # The error of a sum of k products is below (k + 1)·2^−53 times the sum of their magnitudes.
    rounding = (max(region.image.shape[0], *region.below.shape) + 4) * 2.0**-53
    return float(costs.sum() + rounding * np.abs(costs).sum() + (rests + rounding * magnitude)[~region.free].max())


def _balanced(region: Region, gains: Array, duals: Array) -> Array:
    """Adjust the multipliers so that the free variables cancel: the rest goes to the rows that bound them."""
    duals = duals.copy()
    for variable in np.flatnonzero(region.free):
        rest = float((gains - region.below.T @ duals)[variable])
        row, coefficient = _bound_of(region.below, int(variable), rest)
        duals[row] += rest / coefficient
    return duals


def _bound_of(below: Any, variable: int, sign: float) -> tuple[int, float]:
    """Return the row that contains only this variable, with a coefficient of this sign."""
    for row in np.flatnonzero(np.diff(below.indptr) == 1):
        place = below.indptr[row]
        coefficient = float(below.data[place])
        if below.indices[place] == variable and coefficient * sign >= 0:
            return int(row), coefficient
    raise AssertionError("every free variable of a model has a lower and an upper bound")


class Member:
    """A point of a model in a program, whose variables can be read and repaired afterwards.

    Attributes
    ----------
    p : Expression, shape (X,)
        The masses.
    variables : Expression, shape (Y,)
        The variables of the model's region.
    """

    def __init__(self, program: Program, model: Model) -> None:
        first, count = program.width, len(model.region.free)
        self.p = program.member(model)
        self.variables = Expression(count, ((first, sp.eye_array(count, format="csr")),), np.zeros(count))


def repaired(model: Model, first: Array, second: Array) -> tuple[Array, Array]:
    """Return two members of the model, from a solver's variables for them; see `repaired_variables`."""
    p0, p1 = np.stack(repaired_variables(model, first, second)) @ model.region.image.T
    return np.asarray(p0), np.asarray(p1)


def repaired_variables(model: Model, first: Array, second: Array) -> tuple[Array, Array]:
    """Return variables of two members of the model, from a solver's variables for them.

    Both move the same share of the way to a point inside the model, just far enough to satisfy every condition. Their difference shrinks by
    that share. In a model without an inside, they move to the nearest vertices that the simplex method finds, because errors of 1e-10 of an
    interior-point solver may lie far outside if conditions nearly agree.
    """
    region = model.region
    both = np.stack([_normalised(region, first), _normalised(region, second)])
    centre = _centre(model)
    if centre is not None:
        excess = (region.below @ both.T).max(axis=1) - region.at_most
        room = region.at_most - region.below @ centre
        outside = excess > 0
        way = float((excess[outside] / (excess[outside] + room[outside])).max(initial=0.0))
        both = both + way * (centre - both)
    elif region.below.shape[0]:
        both = np.stack([_projected(model, variables) for variables in both])
    return both[0], both[1]


def _projected(model: Model, variables: Array) -> Array:
    """Return the nearest variables of a member, a vertex of a linear program."""
    program, size = Program(), len(variables)
    member, away = Member(program, model), program.variables(size)
    program.at_most(member.variables - away, variables)
    program.at_most(-1.0 * member.variables - away, -variables)
    solution = program.maximise(-np.ones(size) @ away)
    return _normalised(model.region, solution.value_of(member.variables))


def _normalised(region: Region, variables: Array) -> Array:
    values = np.where(region.free, variables, np.maximum(variables, 0.0))
    return np.asarray(values / (region.equal @ values)[0])


def _centre(model: Model) -> Array | None:
    """Return the variables that are furthest inside all inequalities, in units of their largest coefficients; None if there are none."""
    if model not in _centres:
        _centres[model] = _find_centre(model)
    return _centres[model]


def _find_centre(model: Model) -> Array | None:
    region, program = model.region, Program()
    if region.below.shape[0] == 0:
        return None
    member, distance = Member(program, model), program.variables(1)
    scale = sp.csr_array(np.maximum(np.abs(region.below).max(axis=1).toarray().reshape(-1, 1), 1e-300))
    program.at_most(region.below @ member.variables + scale @ distance, region.at_most)
    program.at_most(distance, 1.0)
    solution = program.maximise(distance)
    variables = _normalised(region, solution.value_of(member.variables))
    room = region.at_most - region.below @ variables
    return variables if (room > LEAST_SLACK * scale.toarray()[:, 0]).all() else None


def has_inside(model: Model) -> bool:
    """Return whether `repaired` gives members of the model exactly, up to the last digit."""
    return model.region.below.shape[0] == 0 or _centre(model) is not None


def lost(model: Model, difference: float) -> float:
    """Return how much of a difference of θ the solver's tolerance may be worth: 0 if members were repaired."""
    return 0.0 if has_inside(model) else difference * LEAST_LOSS + 10 * TOLERANCE * float(np.abs(model.f).max())


def solved(model: Model, solution: Solution, first: Member, second: Member) -> tuple[Array, Array]:
    """Return the repaired members of a solution."""
    return repaired(model, solution.value_of(first.variables), solution.value_of(second.variables))
