"""From a target back to the mechanism: the least noise, the most uses."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpcore._validation import check_choice, check_positive, check_sensitivity
from dpcore.accounting._checks import MOST_USES, check_privacy, check_uses
from dpcore.accounting.best_rule import compose
from dpcore.accounting.concentrated import rho_gaussian
from dpcore.accounting.scales import analytic_gaussian_scale
from dpcore.accounting.uses import Uses, check_all_uses
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.privacy import Privacy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CALIBRATED = ("pure", "laplace", "bounded_range", "gaussian")
CLOSENESS = 2.0**-31
"""Relative distance at which a search for a scale ends."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A parameter that meets a target, and why.

    Parameters
    ----------
    parameter : float
        The scale of the noise, or ε of one use, as the function that made this says.
    rule : str
        The rule of `compose` that shows it.
    privacy : Privacy
        The guarantee of all uses together, by that rule; not above the target.
    """

    parameter: float
    rule: str
    privacy: Privacy


def _meets(uses: tuple[Uses, ...], target: Privacy) -> bool:
    """Whether some rule shows the target; the cheap rules are asked first."""
    from dpcore.accounting import _rules

    return any(rule.delta(target.epsilon) <= target.delta for rule in _rules.applicable(uses))


def least_scale(uses_of: Callable[[float], Sequence[Uses] | Uses], target: Privacy, *, start: float = 1.0) -> Calibration:
    r"""Find the smallest scale b at which some uses meet a target together.

    Parameters
    ----------
    uses_of : callable
        Gives, for a scale b > 0, the uses that share it. Larger scales must not cost more.
    target : Privacy
        What all uses together may have, ε finite.
    start : float, default 1.0
        A scale of about the right size, to begin with; any positive one finds the result.

    Returns
    -------
    Calibration
        With the scale as `parameter`, at most 10^−9 above the smallest that the best rule allows, and certified: `compose` of its uses at
        the target's δ has at most the target's ε.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is wrong, or no scale up to 2^1000 meets the target (Gaussian noise at δ = 0, say).

    Notes
    -----
    Cost: some 40 evaluations of the rules.

    Examples
    --------
    Ten noisy maxima with Gumbel noise and Laplace noise on what they chose, all of one scale, for sensitivity 1:

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
                raise ParameterError("target must be within reach of some scale up to 2^1000, and is not")
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
    r"""Find the least noise with which k uses of a mechanism meet a target, under the best rule that `compose` knows.

    Parameters
    ----------
    target : Privacy
        What all k uses together may have, ε positive and finite.
    mechanism : {"pure", "bounded_range", "laplace", "gaussian"}
        As in `Uses`.
    uses : int
        Number of uses, in [1, 10^18].
    sensitivity : float, default 1.0
        Sensitivity of one use, ℓ1 for "laplace" and ℓ2 for "gaussian". The others have none: leave it at 1.

    Returns
    -------
    Calibration
        With the scale of the noise as `parameter` for "laplace" and "gaussian", and ε of one use for "pure" and "bounded_range"; within
        10^−9 of the best that the rules allow, for "gaussian" within 10^−13.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is wrong; for "gaussian" with δ = 0 in particular.

    Notes
    -----
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
        raise ParameterError(f"sensitivity must be left at 1 for mechanism={mechanism!r}, which has none, got {sensitivity!r}")

    if mechanism == "gaussian":  # k Gaussians are one, of √k times the sensitivity
        scale = analytic_gaussian_scale(epsilon, target.delta, sensitivity * math.sqrt(k))
        return _certified(lambda scale: Uses("gaussian", uses=k, rho=rho_gaussian(scale, sensitivity)), target, scale)

    def uses_of(scale: float) -> Uses:
        if mechanism == "laplace":
            return Uses("laplace", uses=k, epsilon=_quotient(sensitivity, scale))
        return Uses(mechanism, uses=k, epsilon=1 / scale)  # type: ignore[arg-type]

    found = least_scale(uses_of, target, start=sensitivity * math.sqrt(k) / epsilon)
    if mechanism == "laplace":
        return _if_basic(found, uses_of, target, _quotient(sensitivity, epsilon, times=k))
    inverted = Calibration(1 / found.parameter, found.rule, found.privacy)
    return _if_basic(inverted, lambda loss: Uses(mechanism, uses=k, epsilon=loss), target, -_quotient(-epsilon, k))  # type: ignore[arg-type]


def _quotient(numerator: float, denominator: float, times: int = 1) -> float:
    """Divide exactly, and round up."""
    from fractions import Fraction

    from dpcore._exact.intervals import fraction_up

    return fraction_up(times * Fraction(numerator) / Fraction(denominator))


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
    r"""Find the largest k for which k uses of a mechanism meet a target, under the best rule that `compose` knows.

    Parameters
    ----------
    target : Privacy
        What all k uses together may have.
    use : Uses
        One use; its `uses` count as the size of one query.

    Returns
    -------
    int
        In [0, 10^18]: 0 if not even one use fits.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is of the wrong type.

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
