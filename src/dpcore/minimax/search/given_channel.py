"""What a given channel allows: the risks between which the best estimator behind it lies, and which members its reports cannot distinguish.

The channel is that of one report; n reports are independent. Without a channel, the records are open. By Steinberger (2019), Lemma 3.2,
Satz 3.1, Lemma 3.17 and Satz 3.10, all of it follows from the Hellinger modulus of the reports.
"""

from __future__ import annotations

import math
import sys
from dataclasses import field
from typing import Any

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore._validation import check_integer, check_real
from dpcore.errors import ParameterTypeError
from dpcore.minimax.losses import Loss, as_loss
from dpcore.minimax.programs.frames import times_power_of_two
from dpcore.minimax.search.finite_tests import Projections
from dpcore.minimax.spaces import certified
from dpcore.minimax.spaces.bounds import constant_of_risk
from dpcore.minimax.spaces.matrices import Array, channel_matrix, check_inputs
from dpcore.minimax.spaces.models import Model
from dpcore.minimax.spaces.moduli import LARGEST, Modulus, modulus_hellinger
from dpcore.minimax.spaces.products import MOST_RECORDS, ROUNDING, Bounds, error_sum, power_up

RADII: Array = np.geomspace(0.3, 3.0, 9)
"""Hellinger radii that a search for the best pair tries first, in units of n^(−1/2)."""
REFINED = 4
"""Further radii around the best of them."""
MARGIN = 1e-7
"""Relative change of a radius that covers the rounding of reports, which differ by 1e-8 of their probabilities or more."""


@dataclass(frozen=True, slots=True, eq=False)
class ChannelLowerBound:
    """A risk that no estimator behind a given channel can go below in the worst case over the model.

    Attributes
    ----------
    value : float
        The bound, l(Δ/2)·η/2.
    eta : float
        η: no test of the reports of the two members below has a smaller sum of error probabilities.
    difference : float
        Δ = θ(p1) − θ(p0).
    p0, p1 : ndarray of float64, shape (X,)
        Two members of the model.
    """

    value: float
    eta: float
    difference: float
    p0: Array = field(repr=False)
    p1: Array = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class ChannelUpperBound:
    """A worst-case risk that some estimator behind a given channel attains, by a theorem.

    Attributes
    ----------
    value : float
        The bound, C0·l(ω(n^(−1/2))).
    C0 : float
        (1 + 16a)·a^⌈2 ln C / ln 1.5⌉ with C = √(2 ln 2a) + 2 and the constant a of the loss.
    modulus : Modulus
        The Hellinger modulus of the reports at n^(−1/2).
    """

    value: float
    C0: float
    modulus: Modulus


def channel_lower_bound(model: Model, channel: Any = None, *, n: int, loss: Loss | str = "squared") -> ChannelLowerBound:
    r"""Compute a worst-case risk that no estimator from n reports of a given channel can go below.

    Parameters
    ----------
    model : Model
        The model and its functional.
    channel : array_like of float, shape (X, K), or a mechanism with `channel`, optional
        The channel of each report, private or not. Without it, the estimator sees the records.
    n : int
        Number of reports, in [1, 2^53].
    loss : Loss or {"absolute", "squared"}, default "squared"
        Loss of the absolute error. The risk is the expected loss.

    Returns
    -------
    ChannelLowerBound
        The largest bound over a search of pairs of members, rounded down. Each pair alone proves its bound.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is outside its range or of the wrong type.
    ModuleNotFoundError
        If the extra `minimax` is not installed.

    Notes
    -----
    Members p0 and p1 with θ(p1) − θ(p0) = Δ, whose n reports no test distinguishes with a sum of errors below η, prove that some member
    has a risk of at least l(Δ/2)·η/2. `lower_bound` holds for every ε-private channel. If the conditions of a model leave no interior,
    members satisfy them to 1e-10 of their scale.
    Cost: about 13 conic programs; 1 s for 200 points and 3 outcomes.
    Source: Steinberger (2019), Satz 3.1 and Lemma 3.2.

    Examples
    --------
    >>> from dpcore.local import BinaryResponse
    >>> from dpcore.minimax import Model, channel_lower_bound
    >>> f"{channel_lower_bound(Model([0.0, 1.0]), BinaryResponse(1.0), n=1000).value:.3g}"
    '0.000194'
    """
    matrix, n, loss = _checked(model, channel, n, loss)
    frame, standard = model.frame, model.standard
    scaled, power = loss.scaled(frame.exponent)
    found: dict[float, tuple[float, float, float, Modulus]] = {}

    def bound(place: float) -> float:
        pair = modulus_hellinger(standard, min(place / math.sqrt(n), LARGEST), channel=matrix)
        eta = _errors(pair.p0, pair.p1, matrix, n).lower
        difference = _safe(standard, pair.value)
        found[place] = eta / 2 * float(scaled(difference / 2)) * (1 - ROUNDING), eta, difference, pair
        return found[place][0]

    for place in RADII:
        bound(float(place))
    for _ in range(REFINED // 2):
        places = sorted(found)
        index = max(range(len(places)), key=lambda k: found[places[k]][0])
        for other in (index - 1, index + 1):
            if 0 <= other < len(places):
                bound(math.sqrt(places[index] * places[other]))
    value, eta, difference, pair = max(found.values(), key=lambda each: each[0])
    value = min(times_power_of_two(value, power), sys.float_info.max)  # rounded down, beyond float64 too
    return ChannelLowerBound(value, eta, frame.difference(difference), pair.p0, pair.p1)


def channel_upper_bound(model: Model, channel: Any = None, *, n: int, loss: Loss | str = "squared") -> ChannelUpperBound:
    r"""Compute a worst-case risk that some estimator from n reports of a given channel attains, by a theorem.

    Parameters
    ----------
    model : Model
        The model and its functional.
    channel : array_like of float, shape (X, K), or a mechanism with `channel`, optional
        The channel of each report, private or not. Without it, the estimator sees the records.
    n : int
        Number of reports, in [1, 2^53].
    loss : Loss or {"absolute", "squared"}, default "squared"
        Loss of the absolute error. The risk is the expected loss.

    Returns
    -------
    ChannelUpperBound
        C0·l(ω(n^(−1/2))) with the Hellinger modulus ω of the reports, rounded up.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is outside its range or of the wrong type.
    ModuleNotFoundError
        If the extra `minimax` is not installed.

    Notes
    -----
    With `channel_lower_bound` it gives the order of the risk for every channel, without a condition on ω; without a channel, the order of
    the risk without privacy. C0 is about 10⁴ for squared loss. `BinarySearchEstimator(model, channel, n=n).risk_bound()` is far smaller.
    Cost: a conic program and two linear programs.
    Source: Steinberger (2019), Satz 3.10, Bemerkung 3.11 (a) and Satz 2.2.

    Examples
    --------
    >>> from dpcore.local import BinaryResponse
    >>> from dpcore.minimax import Model, channel_upper_bound
    >>> found = channel_upper_bound(Model([0.0, 1.0]), BinaryResponse(1.0), n=10**8, loss="absolute")
    >>> f"{found.C0:.6g}", f"{found.value:.4g}"
    ('427.148', '0.09243')
    """
    matrix, n, loss = _checked(model, channel, n, loss)
    frame, standard = model.frame, model.standard
    scaled, power = loss.scaled(frame.exponent)
    C0 = constant_of_risk(scaled)
    modulus = modulus_hellinger(standard, n**-0.5 * (1 + MARGIN), channel=matrix)
    value = C0 * float(scaled(max(modulus.upper, 0.0))) * (1 + ROUNDING)
    found = times_power_of_two(value, power)
    return ChannelUpperBound(math.nextafter(found, math.inf) if value > 0 else 0.0, C0, modulus.in_units(frame))


def indistinguishable_difference(model: Model, channel: Any = None, *, eta: float, n: int) -> Modulus:
    r"""Bound how much θ can differ while no test of n reports of a given channel has a sum of errors of η or less.

    Parameters
    ----------
    model : Model
        The model and its functional.
    channel : array_like of float, shape (X, K), or a mechanism with `channel`, optional
        The channel of each report. Without it, the tests see the records.
    eta : float
        Sum of the two error probabilities, in (0, 1).
    n : int
        Number of reports, in [1, 2^53].

    Returns
    -------
    Modulus
        Its `value` and its `upper` enclose Δ_A(η), the supremum of all Δ for which some hypotheses θ ≤ t and θ ≥ t + Δ have no test with
        errors that sum to η or less. `value` is the difference of the members `p0` and `p1`, within the Hellinger distance `radius` of
        reports.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is outside its range or of the wrong type.
    ModuleNotFoundError
        If the extra `minimax` is not installed.

    Notes
    -----
    ω(√(2(1 − η0^{1/(2n)}))) ≤ Δ_A(η) ≤ ω(√(2(1 − η^{1/n}))) with η0 = η(2 − η) and the Hellinger modulus ω of the reports.
    Cost: two conic programs and a few linear programs.
    Source: Steinberger (2019), Satz 3.1, Lemma 3.2 and Lemma 3.17.

    Examples
    --------
    >>> from dpcore.local import BinaryResponse
    >>> from dpcore.minimax import Model, indistinguishable_difference
    >>> found = indistinguishable_difference(Model([0.0, 1.0]), BinaryResponse(1.0), eta=0.5, n=1000)
    >>> round(found.value, 4), round(found.upper, 4)
    (0.0367, 0.0805)
    """
    matrix, n, _ = _checked(model, channel, n, "squared")
    eta = check_real("eta", eta, low=0.0, high=1.0, include_low=False, include_high=False)
    near = hellinger_radius(eta, n) * (1 - MARGIN)
    far = math.sqrt(-2 * math.expm1(math.log(eta) / n)) * (1 + MARGIN)
    inner = modulus_hellinger(model, near, channel=matrix)
    outer = modulus_hellinger(model, far, channel=matrix)
    return Modulus(inner.value, inner.p0, inner.p1, near, outer.upper)


def reports_testing_affinity(model: Model, channel: Any = None, *, difference: float, n: int) -> Bounds:
    r"""Bound the smallest sum of errors of tests of θ ≤ t against θ ≥ t + Δ from n reports, for the hardest t.

    Parameters
    ----------
    model : Model
        The model and its functional.
    channel : array_like of float, shape (X, K), or a mechanism with `channel`, optional
        The channel of each report. Without it, the tests see the records.
    difference : float
        Δ ≥ 0, in the unit of θ.
    n : int
        Number of reports, in [1, 2^53].

    Returns
    -------
    Bounds
        They enclose η_A(Δ) = sup_t ρ_T(conv(Q P^n: θ(P) ≤ t), conv(Q P^n: θ(P) ≥ t + Δ)). The lower one comes from two members, the upper
        one is ρ^n with the largest Hellinger affinity ρ of the reports of two members that are Δ apart. Both are 0 if no members are.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is outside its range or of the wrong type.
    ModuleNotFoundError
        If the extra `minimax` is not installed.

    Notes
    -----
    Cost: about ten conic programs.
    Source: Steinberger (2019), Satz 3.1 and Lemma 3.17.

    Examples
    --------
    >>> from dpcore.local import BinaryResponse
    >>> from dpcore.minimax import Model, reports_testing_affinity
    >>> found = reports_testing_affinity(Model([0.0, 1.0]), BinaryResponse(1.0), difference=0.1, n=1000)
    >>> round(found.lower, 4), round(found.upper, 4)
    (0.1438, 0.3434)
    """
    matrix, n, _ = _checked(model, channel, n, "squared")
    difference = check_real("difference", difference, low=0.0, high=math.inf, include_high=False)
    if difference == 0.0:
        return Bounds(1.0, 1.0)
    standard, wanted = model.standard, model.frame.standard_difference(difference)
    projections = Projections(standard, np.eye(model.size) if matrix is None else matrix)
    affinity = projections.affinity(wanted)
    upper = power_up(affinity * (1 + 2.0**-50), n) if affinity > 0 else 0.0
    pair = _pair_apart(standard, matrix, wanted, max(affinity, 0.0))
    lower = 0.0 if pair is None else _errors(*pair, matrix, n).lower
    return Bounds(min(lower, upper, 1.0), min(upper, 1.0))


def indistinguishable_radius(channel: Any, *, eta: float, n: int) -> float:
    r"""Return a total variation distance of records within which no test of n reports of a given channel has a sum of errors below η.

    Parameters
    ----------
    channel : array_like of float, shape (X, K), or a mechanism with `channel`
        The channel of each report.
    eta : float
        Sum of the two error probabilities, in (0, 1).
    n : int
        Number of reports, in [1, 2^53].

    Returns
    -------
    float
        The radius r, rounded down; ∞ if the reports do not depend on the records. θ differs by ω_TV(r) at least while tests have errors
        that sum to η or more, whatever the model: `modulus_tv(model, r).value` is at most Δ_A(η).

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is outside its range or of the wrong type.

    Notes
    -----
    With M and m the largest and the smallest entry of a column, a difference of reports is at most tv·(M − m), so
    hellinger² ≤ min(tv²·Σ (M − m)²/(4m), 2·tv·δ) with the largest total variation distance δ of two rows. The radius is the distance at
    which this bound reaches 2(1 − η0^{1/(2n)}), η0 = η(2 − η). It is at least 2√2 times that of Satz 3.3, which holds for every ε-private
    channel.
    Cost: X² K operations.
    Source: Steinberger (2019), Lemma 3.2 and Satz 3.3.

    Examples
    --------
    >>> from dpcore.local import BinaryResponse
    >>> from dpcore.minimax import indistinguishable_radius
    >>> round(indistinguishable_radius(BinaryResponse(1.0), eta=0.5, n=1000), 5)
    0.02692
    """
    matrix = channel_matrix(channel)
    n = check_integer("n", n, low=1, high=MOST_RECORDS)
    eta = check_real("eta", eta, low=0.0, high=1.0, include_low=False, include_high=False)
    square = hellinger_radius(eta, n) ** 2
    largest, smallest = matrix.max(axis=0), matrix.min(axis=0)
    moved = largest > smallest
    if not moved.any():
        return math.inf
    with np.errstate(divide="ignore", over="ignore"):
        steep = float((np.square(largest - smallest)[moved] / (4 * smallest[moved])).sum())
    apart = max(float(np.abs(matrix - row).sum(axis=1).max()) / 2 for row in matrix)
    return max(math.sqrt(square / steep) if math.isfinite(steep) else 0.0, square / (2 * apart)) * (1 - ROUNDING)


def hellinger_radius(eta: float, n: int) -> float:
    """√(2(1 − η0^{1/(2n)})), η0 = η(2 − η): distributions within it have ρ_T(q0^n, q1^n) ≥ η, because ρ_H² ≤ ρ_T(2 − ρ_T)."""
    # each form keeps its digits on one side: 1 − η = 1 for small η, and η0 = 1 for large
    logarithm = math.log(eta) + math.log(2 - eta) if eta < 0.5 else math.log1p(-((1 - eta) ** 2))
    return math.sqrt(-2 * math.expm1(logarithm / (2 * n)))


def _checked(model: object, channel: Any, n: object, loss: Loss | str) -> tuple[Array | None, int, Loss]:
    if not isinstance(model, Model):
        raise ParameterTypeError(f"model must be a Model, got {type(model).__name__}")
    matrix = None if channel is None else check_inputs(channel_matrix(channel, model.points), model.size)
    return matrix, check_integer("n", n, low=1, high=MOST_RECORDS), as_loss(loss)


def _errors(p0: Array, p1: Array, matrix: Array | None, n: int) -> Bounds:
    reports = (p0, p1) if matrix is None else (p0 @ matrix, p1 @ matrix)
    q0, q1 = (q / q.sum() for q in reports)
    return error_sum(q0, q1, n, terms=2 * len(p0) + len(q0))


def _safe(model: Model, value: float) -> float:
    return max(value - certified.lost(model, value), 0.0)


def _pair_apart(model: Model, matrix: Array | None, difference: float, affinity: float) -> tuple[Array, Array] | None:
    """Find two members that are at least `difference` apart and whose reports are nearly as close as possible."""
    radius = math.sqrt(2 * max(1 - affinity, 0.0))
    for more in (0.0, 1e-6, 1e-4, 1e-2, 0.1, 1.0, None):
        wide = LARGEST if more is None else min(max(radius * (1 + more), 1e-9), LARGEST)
        pair = modulus_hellinger(model, wide, channel=matrix)
        if _safe(model, pair.value) >= difference:
            share = min(difference / _safe(model, pair.value) * (1 + ROUNDING), 1.0)
            return pair.p0, pair.p0 + share * (pair.p1 - pair.p0)
        if wide >= LARGEST:
            break
    return None
