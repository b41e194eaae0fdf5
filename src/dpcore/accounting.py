"""From a guarantee to a scale, and from a scale to the guarantee it really has.

Each function rounds against its user: a δ or ε is never below, a scale never too small for, the true value. The last step of each is
done in interval arithmetic, so the rounding is proven and not estimated. The guarantees hold for either relation of neighbours: it enters
through the sensitivity alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpcore._validation import check_integer, check_positive, check_real
from dpcore.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcore._intervals import Interval

LEAST_FLOAT = 5e-324
_CACHE = 1024
_FAR = 40
"""Beyond so many standard deviations a tail is below the least float64: Φ(−40) < 10^−349."""
_SCANNED_SCALE = 32.0


def _check_delta(delta: object) -> float:
    return check_real("delta", delta, low=0.0, high=1.0, include_low=False, include_high=False)


def _holds(evaluate: Callable[[int], Interval], bound: float) -> bool:
    """Whether evaluate(precision) ≤ bound for certain; what stays undecided at high precision counts as no."""
    precision = 192
    while precision <= 1 << 14:
        value = evaluate(precision)
        if value.at_most(bound):
            return True
        if (-value).at_most(-bound):
            return False
        precision *= 2
    return False


def laplace_scale(epsilon: float, sensitivity: float) -> float:
    r"""Give the scale b = Δ₁/ε of ε-private Laplace noise, continuous or discrete, rounded up.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, positive and finite.
    sensitivity : float
        ℓ1 sensitivity Δ₁ of the whole answer, positive and finite.

    Returns
    -------
    float
        The smallest float64 ≥ Δ₁/ε, exactly; inf if there is none.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or no real number.

    Notes
    -----
    Guarantee of the mechanism: \|ln p(y | x) − ln p(y | x')\| ≤ Δ₁/b ≤ ε. Source: document 004, Definition 9.1.3.

    Examples
    --------
    >>> laplace_scale(0.5, 3.0)
    6.0
    """
    from dpcore._intervals import fraction_up

    epsilon = check_positive("epsilon", epsilon)
    sensitivity = check_positive("sensitivity", sensitivity)
    return fraction_up(Fraction(sensitivity) / Fraction(epsilon))


def _gaussian_tails(epsilon: float, ratio: Interval) -> tuple[Interval, Interval]:
    # With s = Δ/σ and u = ε/s − s/2:  δ = Φ(−u) − e^ε Φ(−u−s) = φ(u)·(R(u) − R(u+s)), R the Mills ratio, since e^ε φ(u+s) = φ(u).
    # No e^ε is formed, and the difference's cancellation costs log2(1/s) bits or so, which precision pays for.
    from dpcore._intervals import mills_ratio, normal_density

    u = epsilon / ratio - ratio / 2
    return normal_density(u), mills_ratio(u) - mills_ratio(u + ratio)


def _gaussian_delta(epsilon: float, ratio: Fraction, precision: int) -> Interval:
    from dpcore._intervals import Interval

    density, gap = _gaussian_tails(epsilon, Interval.of(ratio, precision))
    return density * gap


def gaussian_delta(epsilon: float, scale: float, sensitivity: float) -> float:
    r"""Give the least δ for which Gaussian noise is (ε, δ)-private, rounded up.

    δ = Φ(Δ/2σ − εσ/Δ) − e^ε Φ(−Δ/2σ − εσ/Δ).

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, in [0, ∞).
    scale : float
        Standard deviation σ of the noise, positive and finite.
    sensitivity : float
        ℓ2 sensitivity Δ of the whole answer, positive and finite, in the units of `scale`.

    Returns
    -------
    float
        In (0, 1]: at most a few units in the last place above the true value, never below it.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or no real number.

    Notes
    -----
    Cost: about 1 ms. Source: Balle and Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, Theorem 8.

    Examples
    --------
    The classical formula at ε = 8, far outside the range ε ≤ 1 of its proof, misses its δ = 10⁻³:

    >>> print(f"{gaussian_delta(8.0, math.sqrt(2 * math.log(1.25 / 1e-3)) / 8.0, 1.0):.3g}")
    0.00131
    """
    from dpcore._intervals import refined

    epsilon = check_real("epsilon", epsilon, low=0.0, high=math.inf, include_high=False)
    ratio = Fraction(check_positive("sensitivity", sensitivity)) / Fraction(check_positive("scale", scale))
    distance = Fraction(epsilon) / ratio - ratio / 2
    if abs(distance) > _FAR:
        return LEAST_FLOAT if distance > 0 else 1.0
    return min(refined(lambda precision: _gaussian_delta(epsilon, ratio, precision)).upper(), 1.0)


@lru_cache(maxsize=_CACHE)
def _gaussian_ratio(epsilon: float, delta: float) -> Interval:
    """Solve δ(ε, s) = δ for s = Δ/σ to some 100 bits; what is made of it is certified by the caller."""
    from dpcore._intervals import Interval, exp, log, sqrt

    precision = 256 + 2 * abs(math.frexp(delta)[1]) + 2 * abs(math.frexp(epsilon)[1])
    target = Interval.of(delta, precision)
    z = sqrt(-2 * log(target))
    # Both are below the solution: δ(s) < Φ(−u(s)) ≤ e^(−u²/2), and δ(s) ≤ s/√(2π).
    ratio = 2 * epsilon / (z + sqrt(z * z + 2 * Interval.of(epsilon, precision)))
    ratio = (ratio if (2.5 * target).at_most(ratio) else 2.5 * target).middle()
    for _ in range(200):
        density, gap = _gaussian_tails(epsilon, ratio)
        # d ln δ / d ln s = s/(R(u) − R(u+s)), which falls in s: from below, Newton's steps never pass the solution.
        step = (log(target / (density * gap)) * gap / ratio).middle()
        ratio = (ratio * exp(step)).middle()
        if (step * step).at_most(2.0**-180):
            break
    return ratio


def analytic_gaussian_scale(epsilon: float, delta: float, sensitivity: float) -> float:
    r"""Give the least standard deviation of (ε, δ)-private Gaussian noise, rounded up.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, positive and finite.
    delta : float
        Failure mass δ, in (0, 1).
    sensitivity : float
        ℓ2 sensitivity Δ of the whole answer, positive and finite.

    Returns
    -------
    float
        σ with `gaussian_delta(epsilon, σ, sensitivity)` ≤ δ, shown for this very float64; within 2 units in the last place of the least.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or no real number.

    Notes
    -----
    Rounding up is safe: δ falls as σ grows. Cost: about 20 ms for a new (ε, δ), then cached.
    Source: Balle and Wang, ICML 2018, Algorithm 1; corrects document 004, Definition 9.1.4 and Algorithm 9.2.1.

    Examples
    --------
    >>> analytic_gaussian_scale(1.0, 1e-5, 1.0)
    3.730631634816464
    """
    epsilon, delta = check_positive("epsilon", epsilon), _check_delta(delta)
    return _analytic_gaussian_scale(epsilon, delta, check_positive("sensitivity", sensitivity))


@lru_cache(maxsize=_CACHE)
def _analytic_gaussian_scale(epsilon: float, delta: float, sensitivity: float) -> float:
    shift = Fraction(sensitivity)
    scale = (sensitivity / _gaussian_ratio(epsilon, delta)).upper()
    while scale < math.inf and not _holds(lambda precision: _gaussian_delta(epsilon, shift / Fraction(scale), precision), delta):
        scale = math.nextafter(scale, math.inf)
    return scale


def classical_gaussian_scale(epsilon: float, delta: float, sensitivity: float) -> float:
    r"""Give the classical σ = Δ√(2 ln(1.25/δ))/ε, rounded up; only for ε ≤ 1, where its proof holds.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, in (0, 1].
    delta : float
        Failure mass δ, in (0, 1).
    sensitivity : float
        ℓ2 sensitivity Δ of the whole answer, positive and finite.

    Returns
    -------
    float
        At most 1 unit in the last place above the formula's value, never below it; inf above the range of float64.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range; ε > 1 in particular: at ε = 8 and δ = 10⁻³ the formula's noise has δ = 1.31·10⁻³.

    Notes
    -----
    Source: document 004, Definition 9.1.4; Dwork and Roth, "The algorithmic foundations of differential privacy", Theorem A.1.

    Examples
    --------
    >>> round(classical_gaussian_scale(1.0, 1e-5, 1.0), 4)
    4.8448
    """
    from dpcore._intervals import Interval, log, sqrt

    epsilon, delta = check_positive("epsilon", epsilon), _check_delta(delta)
    shift = Interval.of(check_positive("sensitivity", sensitivity), 192)
    if epsilon > 1:
        raise ParameterError(f"epsilon must be in (0, 1] for the classical calibration, whose proof fails beyond, got {epsilon!r}")
    return (shift * sqrt(2 * log(1.25 / Interval.of(delta, 192))) / epsilon).upper()


# An order α > 1 is written as 1 + x: near α = 1 the logarithms below are then accurate.


def _best_order(objective: Callable[[float], float]) -> float:
    """Minimise a quasi-convex function of x > 0 by golden section over ln x; any x gives a valid bound, so closeness is enough."""
    low, high = -700.0, 700.0
    shrink = (math.sqrt(5) - 1) / 2
    left, right = high - shrink * (high - low), low + shrink * (high - low)
    at_left, at_right = objective(math.exp(left)), objective(math.exp(right))
    for _ in range(90):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - shrink * (high - low)
            at_left = objective(math.exp(left))
        else:
            low, left, at_left = left, right, at_right
            right = low + shrink * (high - low)
            at_right = objective(math.exp(right))
    return math.exp((low + high) / 2)


def _order_terms(x: float) -> tuple[Interval, Interval]:
    """x and −ln((1/x)·(1 − 1/(1+x))^(1+x)) = ln(1+x) + x ln(1 + 1/x), as intervals."""
    from dpcore._intervals import Interval, log

    order = Interval.of(x, 256 + 2 * abs(math.frexp(x)[1]))
    return order, log(1 + order) + order * log(1 + 1 / order)


def _float_terms(x: float) -> float:
    return math.log1p(x) + x * math.log1p(1 / x)


def zcdp_delta(rho: float, epsilon: float) -> float:
    r"""Give a δ for which every ρ-zCDP mechanism is (ε, δ)-private, rounded up.

    δ = min over α > 1 of exp((α−1)(αρ−ε))/(α−1) · (1−1/α)^α, the tight conversion of a Rényi bound at one order, at the best order.

    Parameters
    ----------
    rho : float
        Zero-concentrated privacy ρ, in [0, ∞).
    epsilon : float
        Privacy loss ε, in [0, ∞).

    Returns
    -------
    float
        In (0, 1].

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or no real number.

    Notes
    -----
    The exponent is convex in α, so the minimum is global. Source: Canonne, Kamath and Steinke, arXiv:2004.00010, Proposition 12;
    Asoodeh et al., arXiv:2001.05990.

    Examples
    --------
    >>> print(f"{zcdp_delta(0.1, 2.0):.3g}")
    2.02e-06
    """
    from dpcore._intervals import exp

    rho = check_real("rho", rho, low=0.0, high=math.inf, include_high=False)
    epsilon = check_real("epsilon", epsilon, low=0.0, high=math.inf, include_high=False)
    order, terms = _order_terms(_best_order(lambda x: x * ((1 + x) * rho - epsilon) - _float_terms(x)))
    return min(exp(order * ((1 + order) * rho - epsilon) - terms).upper(), 1.0)


def zcdp_epsilon(rho: float, delta: float) -> float:
    r"""Give an ε for which every ρ-zCDP mechanism is (ε, δ)-private, rounded up.

    ε = min over α > 1 of αρ + (ln(1/δ) + (α−1) ln(1−1/α) − ln α)/(α−1), or 0 where that is negative.

    Parameters
    ----------
    rho : float
        Zero-concentrated privacy ρ, in [0, ∞).
    delta : float
        Failure mass δ, in (0, 1).

    Returns
    -------
    float
        In [0, ∞].

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or no real number.

    Notes
    -----
    Source: as `zcdp_delta`, solved for ε.

    Examples
    --------
    >>> print(f"{zcdp_epsilon(0.1, 1e-6):.4f}")
    2.0708
    """
    from dpcore._intervals import Interval, log

    rho = check_real("rho", rho, low=0.0, high=math.inf, include_high=False)
    delta = _check_delta(delta)
    log_delta = math.log(delta)
    order, terms = _order_terms(_best_order(lambda x: (1 + x) * rho - (log_delta + math.log1p(x)) / x - math.log1p(1 / x)))
    return max(((1 + order) * rho - (log(Interval.of(delta, order.precision)) + terms) / order).upper(), 0.0)


def zcdp_discrete_gaussian_scale(epsilon: float, delta: float, sensitivity: float) -> float:
    r"""Give the scale of (ε, δ)-private discrete Gaussian noise by way of zCDP with ρ = Δ²/2σ², rounded up.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, positive and finite.
    delta : float
        Failure mass δ, in (0, 1).
    sensitivity : float
        ℓ2 sensitivity Δ of the whole answer, positive and finite.

    Returns
    -------
    float
        σ with min over α of exp((α−1)(αΔ²/2σ² − ε))/(α−1)·(1−1/α)^α ≤ δ; inf if it is above the range of float64.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or no real number.

    Notes
    -----
    Valid for vectors of integers, and for the continuous Gaussian. The bound is monotone in σ, which the discrete Gaussian's own δ is not.
    Cost: below 1 ms. Source: Canonne, Kamath and Steinke, arXiv:2004.00010, Theorem 14 and Proposition 12.

    Examples
    --------
    >>> print(f"{zcdp_discrete_gaussian_scale(1.0, 1e-6, 1.0):.4f}")
    4.6002
    """
    epsilon, delta = check_positive("epsilon", epsilon), _check_delta(delta)
    return _zcdp_discrete_gaussian_scale(epsilon, delta, check_positive("sensitivity", sensitivity))


@lru_cache(maxsize=_CACHE)
def _zcdp_discrete_gaussian_scale(epsilon: float, delta: float, sensitivity: float) -> float:
    from dpcore._intervals import Interval, log, sqrt

    # For a fixed order the bound is at most δ exactly when ρ ≤ (εx + ln δ + terms)/(x(1+x)); the best order allows the largest ρ.
    log_delta = math.log(delta)
    order, terms = _order_terms(_best_order(lambda x: -(epsilon + (log_delta + _float_terms(x)) / x) / (1 + x)))
    rho = (order * epsilon + log(Interval.of(delta, order.precision)) + terms) / (order * (1 + order))
    return (sensitivity / sqrt(2 * rho)).upper() if not rho.at_most(0) else math.inf


def _discrete_gaussian_cut(epsilon: float, scale: float, shift: int) -> int:
    """Find the largest z with p(z) > e^ε p(z−Δ), in exact arithmetic: a z on the wrong side would give too small a δ."""
    return math.ceil(Fraction(shift, 2) - Fraction(epsilon) * Fraction(scale) ** 2 / shift) - 1


def _discrete_gaussian_delta(epsilon: float, scale: float, shift: int, precision: int) -> Interval:
    # Σ_z (p(z) − e^ε p(z−Δ))_+ = P(Z ≤ m) − e^ε P(Z ≤ m−Δ), m the cut, as p(z)/p(z−Δ) falls in z.
    from dpcore._intervals import Interval, discrete_tail_ratio, exp

    double_variance = 2 * Fraction(scale) ** 2
    cut = _discrete_gaussian_cut(epsilon, scale, shift)

    def tail(start: int, gain: float) -> Interval:  # e^gain · Σ_{z ≥ start} e^(−z²/2σ²)
        exponent = Fraction(gain) - Fraction(start * start) / double_variance
        return exp(Interval.of(exponent, precision)) * discrete_tail_ratio(start, scale, precision)

    norm = 2 * discrete_tail_ratio(0, scale, precision) - 1
    near = tail(-cut, 0.0) if cut <= 0 else norm - tail(cut + 1, 0.0)
    return (near - tail(shift - cut, epsilon)) / norm


def discrete_gaussian_delta(epsilon: float, scale: float, sensitivity: int) -> float:
    r"""Give the least δ for which one integer answer plus discrete Gaussian noise is (ε, δ)-private, rounded up.

    δ = Σ_z (p(z) − e^ε p(z−Δ))₊ with p(z) ∝ e^(−z²/2σ²), z ∈ ℤ.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, in [0, ∞).
    scale : float
        Parameter σ of the noise, in (2^−20, 2^40].
    sensitivity : int
        Sensitivity Δ of the one answer, ≥ 1. Smaller shifts have a smaller δ, so Δ alone counts.

    Returns
    -------
    float
        In (0, 1], never below the true value.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Not monotone in σ, and up to 1.9 times the continuous Gaussian's δ for σ < 1. Cost: 1 to 60 ms, whatever the scale.
    Source: Canonne, Kamath and Steinke, arXiv:2004.00010, Theorem 7.

    Examples
    --------
    >>> [round(discrete_gaussian_delta(2.0, scale, 1), 3) for scale in (0.52, 0.56)]
    [0.105, 0.127]
    """
    from dpcore._intervals import refined

    epsilon = check_real("epsilon", epsilon, low=0.0, high=math.inf, include_high=False)
    scale = check_real("scale", scale, low=2.0**-20, high=2.0**40, include_low=False)
    sensitivity = check_integer("sensitivity", sensitivity, low=1)
    cut = _discrete_gaussian_cut(epsilon, scale, sensitivity)
    if abs(cut) > _FAR * scale + 1:  # P(|Z| ≥ m) ≤ 2e^(−m²/2σ²)
        return LEAST_FLOAT if cut < 0 else 1.0
    return min(refined(lambda precision: _discrete_gaussian_delta(epsilon, scale, sensitivity, precision)).upper(), 1.0)


def exact_discrete_gaussian_scale(epsilon: float, delta: float, sensitivity: int) -> float:
    r"""Give the smallest scale found at which discrete Gaussian noise on one integer answer is (ε, δ)-private.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, positive and finite.
    delta : float
        Failure mass δ, in (0, 1).
    sensitivity : int
        Sensitivity Δ of the one answer, ≥ 1.

    Returns
    -------
    float
        σ with `discrete_gaussian_delta(epsilon, σ, sensitivity)` ≤ δ, shown for this very float64. At a larger σ it may fail: do not round.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Never above `zcdp_discrete_gaussian_scale`. Below σ = 32 a grid of ratio 1.008 is searched from below, so that a dip of δ(σ) narrower
    than that can be missed. Cost: 10 to 300 ms for new parameters, then cached.

    Examples
    --------
    >>> round(exact_discrete_gaussian_scale(2.0, 0.11, 1), 3)
    0.494
    """
    epsilon, delta = check_positive("epsilon", epsilon), _check_delta(delta)
    return _exact_discrete_gaussian_scale(epsilon, delta, check_integer("sensitivity", sensitivity, low=1))


@lru_cache(maxsize=_CACHE)
def _exact_discrete_gaussian_scale(epsilon: float, delta: float, shift: int) -> float:
    limit = zcdp_discrete_gaussian_scale(epsilon, delta, shift)
    if limit == math.inf:
        return limit
    search = _scan_discrete_scale if limit <= _SCANNED_SCALE else _near_discrete_scale
    start = search(epsilon, delta, shift, limit)
    for bits in range(50, 0, -2):  # the searches are approximate: step away until the certificate holds
        scale = start * (1 + 2.0**-bits)
        if scale >= limit:
            break
        if _holds(lambda precision: _discrete_gaussian_delta(epsilon, scale, shift, precision), delta):  # noqa: B023
            return scale
    return limit  # zCDP proves this one
