"""The least noise, and the largest number of uses, that meet a target."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from dpcore._dataclasses import dataclass
from dpcore._validation import check_choice, check_positive, check_sensitivity
from dpcore.accounting._checks import MOST_USES, check_privacy, check_uses
from dpcore.accounting.best_rule import compose
from dpcore.accounting.concentrated import rho_gaussian
from dpcore.accounting.scales import analytic_gaussian_scale, quotient_up
from dpcore.accounting.uses import Uses, check_all_uses
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.privacy import Guaranteed, Privacy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CALIBRATED = ("pure", "laplace", "bounded_range", "gaussian")
CLOSENESS = 2.0**-31
"""Relative distance at which a search for a scale ends."""


@dataclass(frozen=True, slots=True)
class Calibration(Guaranteed):
    """A parameter that meets a target, and the rule that proves it.

    Attributes
    ----------
    parameter : float
        Scale of the noise, or ε of one use; see the function that returned it.
    rule : {"basic", "advanced", "optimal", "zcdp", "gaussian"}
        Rule of `compose` that proves the guarantee.
    privacy : Privacy
        Guarantee of all uses together by that rule. It is not above the target.
    """

    parameter: float
    rule: str
    privacy: Privacy


def _meets(uses: tuple[Uses, ...], target: Privacy) -> bool:
    """Whether some rule proves the target. Cheap rules are evaluated first."""
    from dpcore.accounting import _rules

    return any(rule.delta(target.epsilon) <= target.delta for rule in _rules.applicable(uses))


def least_scale(uses_of: Callable[[float], Sequence[Uses] | Uses], target: Privacy, *, start: float = 1.0) -> Calibration:
    """Find the smallest scale b at which given uses meet a target together.

    Parameters
    ----------
    uses_of : callable
        Function that returns, for a scale b > 0, the uses that share it. A larger scale must not cost more.
    target : Privacy
        Guarantee that all uses together must have, with finite ε.
    start : float, default 1.0
        First scale to try, positive. A good guess makes the search faster.

    Returns
    -------
    Calibration
        The scale as `parameter`, at most 10^−9 (relative) above the smallest one that the best rule allows. It is certified: `compose` of
        its uses at the target's δ has at most the target's ε.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is wrong, or no scale up to 2^1000 meets the target, as for Gaussian noise at δ = 0.

    Notes
    -----
    Cost: about 40 evaluations of the rules, some 20 ms for a hundred uses.

    Examples
    --------
    Ten noisy maxima with Gumbel noise, each followed by Laplace noise on the chosen value, all of one scale, for sensitivity 1:

    >>> def uses_of(b):
    ...     return [Uses("bounded_range", uses=10, epsilon=2 / b), Uses("laplace", uses=10, epsilon=1 / b)]
    >>> found = least_scale(uses_of, Privacy(1.0, 1e-6), start=10.0)
    >>> found.rule, round(found.parameter, 2)
    ('zcdp', 20.18)
    """
    check_privacy("target", target)
    if target.epsilon == math.inf:
        raise ParameterError("target must have a finite epsilon, got inf")
    start = check_positive("start", start)

    def meets(scale: float) -> bool:
        return _meets(check_all_uses(uses_of(scale)), target)

    low, high = _bracket(meets, start)
    while high - low > high * CLOSENESS:
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (low, middle) if meets(middle) else (middle, high)
    return _certified(uses_of, target, high)


def _bracket(meets: Callable[[float], bool], start: float) -> tuple[float, float]:
    """Find a scale that fails and one that meets, a factor of 2 apart."""
    low = high = start
    if meets(start):
        while low > 2.0**-1000 and meets(low := low / 2):
            high = low
    else:
        while not meets(high := high * 2):
            low = high
            if high > 2.0**1000:
                raise ParameterError("target must be met by some scale up to 2^1000, and it is not")
    return low, high


def _certified(uses_of: Callable[[float], Sequence[Uses] | Uses], target: Privacy, scale: float) -> Calibration:
    """Step up until `compose` itself agrees: its ε is rounded up in another place than the rules' δ."""
    step = 2.0**-50
    while True:
        found = compose(uses_of(scale), target.delta, relation=target.relation)
        if found.privacy.epsilon <= target.epsilon:
            return Calibration(scale, found.rule, found.privacy)
        scale, step = scale * (1 + step), step * 2


def calibrate(target: Privacy, mechanism: str, *, uses: int, sensitivity: float = 1.0) -> Calibration:
    """Find the least noise with which several uses of a mechanism meet a target together, under the best rule of `compose`.

    Parameters
    ----------
    target : Privacy
        Guarantee that all uses together must have, with ε positive and finite.
    mechanism : {"pure", "bounded_range", "laplace", "gaussian"}
        Kind of mechanism, as in `Uses`.
    uses : int
        Number of uses, in [1, 10^18].
    sensitivity : float, default 1.0
        Sensitivity of one use: ℓ1 for "laplace", ℓ2 for "gaussian". The other mechanisms take no sensitivity; leave it at 1.

    Returns
    -------
    Calibration
        The scale of the noise as `parameter` for "laplace" and "gaussian", and the ε of one use for "pure" and "bounded_range". It is
        within 10^−9 (relative) of the best that the rules allow, and for "gaussian" within 10^−13.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is wrong, for instance δ = 0 for "gaussian".

    Notes
    -----
    Cost: 20 ms for a hundred uses, 0.2 s for "gaussian".

    Source: `compose`, which certifies the result.

    Examples
    --------
    >>> found = calibrate(Privacy(1.0, 1e-6), "laplace", uses=100)
    >>> found.rule, round(found.parameter, 2)
    ('optimal', 41.65)
    """
    check_privacy("target", target)
    k, sensitivity = check_uses(uses), check_sensitivity(sensitivity)
    check_choice("mechanism", mechanism, CALIBRATED)
    epsilon = check_positive("target.epsilon", target.epsilon)
    if mechanism == "gaussian" and not target.delta:
        raise ParameterError("target must have delta > 0 for mechanism='gaussian', got 0.0")
    if mechanism in {"pure", "bounded_range"} and sensitivity != 1.0:
        raise ParameterError(f"sensitivity must be left at 1 for mechanism={mechanism!r}, which takes none, got {sensitivity!r}")

    if mechanism == "gaussian":  # k Gaussians are one, of √k times the sensitivity
        scale = analytic_gaussian_scale(epsilon, target.delta, sensitivity * math.sqrt(k))
        return _certified(lambda scale: Uses("gaussian", uses=k, rho=rho_gaussian(scale, sensitivity)), target, scale)

    def uses_of(scale: float) -> Uses:
        if mechanism == "laplace":
            return Uses("laplace", uses=k, epsilon=quotient_up(sensitivity, scale))
        return Uses(mechanism, uses=k, epsilon=1 / scale)  # type: ignore[arg-type]

    found = least_scale(uses_of, target, start=sensitivity * math.sqrt(k) / epsilon)
    if mechanism == "laplace":
        return _if_basic(found, uses_of, target, quotient_up(sensitivity, epsilon, k))
    inverted = Calibration(1 / found.parameter, found.rule, found.privacy)
    return _if_basic(inverted, lambda loss: Uses(mechanism, uses=k, epsilon=loss), target, -quotient_up(-epsilon, k))  # type: ignore[arg-type]


def _if_basic(found: Calibration, uses_of: Callable[[float], Uses], target: Privacy, parameter: float) -> Calibration:
    """Replace what the search found by the closed form of basic composition, if that is the rule."""
    if found.rule != "basic":
        return found
    for _ in range(4):  # 1/10 is no float64, and ten times the next larger one is more than 1
        exact = compose(uses_of(parameter), target.delta, relation=target.relation)
        if exact.privacy.epsilon <= target.epsilon:
            return Calibration(parameter, exact.rule, exact.privacy)
        parameter = math.nextafter(parameter, found.parameter)
    return found


def max_queries(target: Privacy, use: Uses) -> int:
    """Find the largest number of queries that meet a target together, under the best rule of `compose`.

    Parameters
    ----------
    target : Privacy
        Guarantee that all queries together must have.
    use : Uses
        What one query uses; its `uses` are the uses of one query.

    Returns
    -------
    int
        In [0, 10^18]. It is 0 if a single query does not fit.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument has the wrong type.

    Notes
    -----
    Cost: 5 ms for some hundreds of queries; some seconds for 10^7.

    Examples
    --------
    >>> max_queries(Privacy(1.0), Uses("laplace", epsilon=0.125)), max_queries(Privacy(1.0, 1e-6), Uses("laplace", epsilon=0.0125))
    (8, 362)
    """
    check_privacy("target", target)
    if not isinstance(use, Uses):
        raise ParameterTypeError(f"use must be a dpcore.accounting.Uses, got {use!r}")
    most = MOST_USES // use.uses

    def meets(k: int) -> bool:
        return _meets((replace(use, uses=k * use.uses),), target)

    low, high = 0, 1
    while high <= most and meets(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if meets(middle) else (low, middle)
    return low
