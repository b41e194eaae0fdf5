"""A risk that no ε-private method can go below in the worst case over a model."""

from __future__ import annotations

import math
from dataclasses import field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore._exact.intervals import Interval, exactly, exp, fraction_up, log, sqrt
from dpcore._validation import check_choice
from dpcore.errors import DpcoreError, ParameterError
from dpcore.minimax.programs.frames import times_power_of_two
from dpcore.minimax.programs.membership import excess
from dpcore.minimax.spaces import certified
from dpcore.minimax.spaces.bounds import check_problem
from dpcore.minimax.spaces.contraction import PRECISION, chi2_constant, contraction_bound, proved_constant
from dpcore.minimax.spaces.two_members import Problem, best_candidate, testing_error

if TYPE_CHECKING:
    from dpcore.minimax.losses import Loss
    from dpcore.minimax.spaces.matrices import Array
    from dpcore.minimax.spaces.models import Model

METHODS = ("best", "lecam", "van_trees", "steinberger")
PRECISE = 1e-13
"""More than the relative rounding errors of the last formulas."""


@dataclass(frozen=True, slots=True, eq=False)
class LowerBound:
    """A risk that no sequentially interactive ε-private method can go below in the worst case over the model.

    Attributes
    ----------
    value : float
        The bound.
    method : {"lecam", "van_trees", "steinberger"}
        How it follows from two members of the model; see `lower_bound`.
    distance : {"tv", "ratio", "hellinger"}
        Which distance of the two members it uses. "tv" and "ratio" mean that privacy limits the precision, "hellinger" that the number of
        records does.
    p0, p1 : ndarray of float64, shape (X,)
        The two members.
    difference : float
        θ(p1) − θ(p0), rounded down.
    tv : float
        Their total variation distance, rounded up.
    constant : float
        c with χ²(Qp0‖Qp1) ≤ c·tv² for every ε-private channel Q; see `contraction_bound`.
    eta : float
        No test between the two members by n private reports has a smaller sum of error probabilities.
    epsilon, n, loss : float, int and Loss
        The problem.
    """

    value: float
    method: str
    distance: str
    p0: Array = field(repr=False)
    p1: Array = field(repr=False)
    difference: float
    tv: float
    constant: float
    eta: float
    epsilon: float
    n: int
    loss: Loss = field(repr=False)

    def verify(self, model: Model) -> float:
        r"""Check the bound again, in exact rational arithmetic and without any solver.

        Parameters
        ----------
        model : Model
            The model that the bound is for.

        Returns
        -------
        float
            How far p0 or p1 lies outside of a condition of the model, relative to its largest coefficient: 0 for members. Rounding leaves
            about 1e-16, and 1e-9 if the conditions leave no interior or describe a mixture.

        Raises
        ------
        DpcoreError
            If the two distributions and the constant do not prove the value, for example because they are of another model.

        Notes
        -----
        Masses are read as rationals and scaled to the sum 1. Distance and difference of θ are then exact. The contraction constant is
        proved by the duals of two linear programs at a rational number above e^ε. Powers and roots are intervals of 128 bits.
        Cost: milliseconds for 500 points.
        """
        if model.size != len(self.p0):
            raise ParameterError(f"model must have {len(self.p0)} points, as many as p0 and p1, got {model.size}")
        proof = _Proof(model, self.p0, self.p1, self.epsilon, self.n, self.loss)
        if not self.value <= proof.risk(self.method, self.distance):
            raise DpcoreError("the bound does not follow from its two distributions: it may be for another model")
        return max(excess(model, self.p0), excess(model, self.p1))


def lower_bound(model: Model, epsilon: float, *, n: int, loss: Loss | str = "squared", method: str = "best") -> LowerBound:
    r"""Compute a worst-case risk that no ε-private method with n records can go below, with any channels and any estimator.

    Parameters
    ----------
    model : Model
        The model and its functional.
    epsilon : float
        Privacy loss of one record, in [2^−20, 700].
    n : int
        Number of records, in [1, 2^53].
    loss : Loss or {"absolute", "squared"}, default "squared"
        Loss of the absolute error. The risk is the expected loss.
    method : {"best", "lecam", "van_trees", "steinberger"}, default "best"
        "best" takes the largest of the others. "van_trees" is for squared loss only.

    Returns
    -------
    LowerBound
        The bound, the method, and the two members that prove it.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is outside its range or of the wrong type.
    ModuleNotFoundError
        If the extra `minimax` is not installed.

    Notes
    -----
    The bound holds for sequentially interactive channels (Definition 1.9). Let p0 and p1 be members with θ(p1) − θ(p0) = δ and total
    variation distance T, c the constant of `contraction_bound`, and R the largest quotient of the probabilities of an outcome at p0 and
    p1, for any ε-private channel. The affinity Σ√(P0·P1) of the laws of all n reports is at least A = (1 − min(cT²/8, (√R − 1)²/(1 + R),
    1 − Σ√(p0·p1)))^n, and the errors of a test sum to η = 1 − √(1 − A²) or more.

    "lecam": the risk is at least δ²A²/4 for squared loss, η·l(δ/2) for a convex loss l, and η·l(δ)/2 for t^r with r < 1. "van_trees": on
    the segment from p0 to p1, with a prior of Fisher information π², the squared risk is at least (δ/2)²/(n·I + π²), where I = min(cT²/4,
    (R − 1)²/4, Σ(p1 − p0)²/(4 min(p0, p1))). "steinberger" is Korollar 3.4, η/2·l(δ/2) with the constants of inequality (2.3.5) and Satz
    3.3. The pairs are those of the moduli at the best radii, and the middle parts of such segments. All numbers are rounded down. If the
    conditions of a model leave no interior, members satisfy them to 1e-10 of their scale.
    Cost: about twenty linear and ten conic programs; half a second for 500 points.
    Source: Steinberger (2019), Satz 2.9 and Korollar 3.4; the constants of "lecam" and "van_trees" are ours.

    Examples
    --------
    >>> from dpcore.minimax import Model, lower_bound
    >>> found = lower_bound(Model([0.0, 1.0]), 0.1, n=1000)
    >>> found.method, found.distance, f"{found.value:.4g}"
    ('lecam', 'ratio', '0.03683')
    """
    n, epsilon, loss = check_problem(model, epsilon, n, loss)
    chosen = check_choice("method", method, METHODS)
    if chosen == "van_trees" and not (loss.kind == "power" and loss.parameter == 2.0):
        raise ParameterError(f"method 'van_trees' is for squared loss only, got {loss}")
    frame, standard = model.frame, model.standard
    scaled, _ = loss.scaled(frame.exponent)
    constant = chi2_constant(epsilon)
    slope = min(math.sqrt(2.0), math.exp(epsilon) / math.sqrt(2.0)) * math.expm1(epsilon) * math.sqrt(n)
    best = best_candidate(standard, Problem(epsilon, n, constant, slope, scaled), chosen)
    lost = certified.lost(standard, float(standard.f @ (best.p1 - best.p0)))
    proof = _Proof(model, best.p0, best.p1, epsilon, n, loss, lost=lost)
    value = _below(proof.risk(best.method, best.distance))
    if best.method == "steinberger":
        constant = contraction_bound(epsilon, 1.0, method="steinberger")
    difference = _below(frame.difference(proof.gap))
    return LowerBound(value, best.method, best.distance, best.p0, best.p1, difference, proof.tv, constant, proof.eta, epsilon, n, loss)


def _below(value: float) -> float:
    """Return a float below a value that is known up to its last digits, or that is beyond the range of float64."""
    return math.nextafter(value * (1 - PRECISE), 0.0)


class _Proof:
    """What two distributions prove about risks. Distances are rationals, or intervals of 128 bits.

    θ is measured in the unit of the model's standard form, in which no power of a difference overflows, but without its rounding.

    Parameters
    ----------
    model : Model
        The model, whose functional counts.
    p0, p1 : ndarray
        The two distributions.
    epsilon, n, loss : float, int and Loss
        The problem.
    lost : float
        What is subtracted from the difference of θ, in the unit of the standard form.

    Attributes
    ----------
    gap, tv : float
        The difference of θ in the unit of the standard form, rounded down, and the total variation distance, rounded up.
    """

    def __init__(self, model: Model, p0: Array, p1: Array, epsilon: float, n: int, loss: Loss, *, lost: float = 0.0) -> None:
        self._pair = _rational(p0), _rational(p1)
        steps = [b - a for a, b in zip(*self._pair, strict=True)]
        # Where no mass is possible the value does not count, however large.
        values = np.where(model.possible, model.f, model.frame.origin).tolist()
        gap = sum((Fraction(v) * step for v, step in zip(values, steps, strict=True)), Fraction(0))
        gap = gap / Fraction(2) ** model.frame.exponent - Fraction(lost)
        loss, self._power = loss.scaled(model.frame.exponent)
        self._exact_tv, self._constant = sum(map(abs, steps), Fraction(0)) / 2, proved_constant(epsilon)
        self._ratio = _largest_ratio(*self._pair, exactly(exp(Interval.of(epsilon, PRECISION)).high))
        self.gap, self.tv = max(-fraction_up(-gap), 0.0), fraction_up(self._exact_tv)
        self._problem = Problem(epsilon, n, fraction_up(self._constant), 0.0, loss)

    def _logarithm(self, affinity: Interval) -> float:
        """Return a lower bound of 2n·ln(affinity)."""
        return -math.inf if affinity.lower() <= 0 else min((log(affinity) * (2 * self._problem.n)).lower(), 0.0)

    @cached_property
    def _public(self) -> float:
        return self._logarithm(_affinity(*self._pair))

    @cached_property
    def _exponent(self) -> float:
        """A lower bound of 2 ln A, by the best of three arguments."""
        root = sqrt(Interval.of(self._ratio, PRECISION))
        apart = (root - 1) * (root - 1) / Interval.of(1 + self._ratio, PRECISION)
        by_tv = Interval.of(max(1 - self._constant * self._exact_tv**2 / 8, Fraction(0)), PRECISION)
        return max(self._logarithm(by_tv), self._logarithm(1 - apart), self._public)

    @property
    def eta(self) -> float:
        """No test by n private reports has a smaller sum of error probabilities."""
        return float(testing_error(self._exponent)) * (1 - PRECISE)

    def risk(self, method: str, distance: str) -> float:
        """Return the bound of a method, up to 1e-13."""
        return times_power_of_two(self._standard_risk(method, distance), self._power)

    def _standard_risk(self, method: str, distance: str) -> float:
        problem, gap = self._problem, self.gap
        if method == "lecam":
            return float(problem.lecam(gap, self._exponent))
        if method == "van_trees":
            return float(problem.van_trees(gap, self._information))
        eta = self._steinberger() if distance == "tv" else float(testing_error(self._public))
        return eta / 2 * problem.loss(gap / 2)

    @property
    def _information(self) -> float:
        """The Fisher information of a report on the segment, in units of its half: the best of three bounds."""
        found = [self._constant * self._exact_tv**2 / 4, ((self._ratio - 1) / 2) ** 2]
        steps = [(abs(b - a) / 2, min(a, b)) for a, b in zip(*self._pair, strict=True) if a != b]
        if all(least > 0 for _, least in steps):
            found.append(sum((step**2 / least for step, least in steps), Fraction(0)))
        return fraction_up(min(found))

    def _steinberger(self) -> float:
        E, root = exp(Interval.of(self._problem.epsilon, PRECISION)), sqrt(Interval.of(2, PRECISION))
        share = root if self._problem.epsilon > math.log(2.0) else E / root
        return max((1 - share * (E - 1) * sqrt(Interval.of(self._problem.n, PRECISION)) * self._exact_tv).lower(), 0.0)


def _largest_ratio(p0: list[Fraction], p1: list[Fraction], E: Fraction) -> Fraction:
    """Return the largest quotient of the probabilities of an outcome at two distributions, in either order.

    The column of an outcome is a mixture of columns with entries 1 and E, and a quotient of linear functions is largest at one of them:
    at one that is E where the quotient of the distributions exceeds a threshold.
    """
    largest = Fraction(1)
    for above, below in ((p1, p0), (p0, p1)):
        pairs = sorted(zip(above, below, strict=True), key=lambda pair: pair[0] / pair[1] if pair[1] else Fraction(10**400), reverse=True)
        high = low = Fraction(1)
        for a, b in pairs:
            high, low = high + (E - 1) * a, low + (E - 1) * b
            largest = max(largest, high / low)
    return largest


def _affinity(p0: list[Fraction], p1: list[Fraction]) -> Interval:
    masses = (a * b for a, b in zip(p0, p1, strict=True) if a and b)
    return sum((sqrt(Interval.of(mass, PRECISION)) for mass in masses), Interval.of(0, PRECISION))


def _rational(masses: Array) -> list[Fraction]:
    """Return masses as rationals with the sum 1. Those that a solver left below 0 become 0."""
    found = [max(Fraction(mass), Fraction(0)) for mass in masses.tolist()]
    total = sum(found, Fraction(0))
    return [mass / total for mass in found]
