"""The scale of noise on one answer that a guarantee needs, and the guarantee that a scale gives.

Every result is rounded towards privacy. The last step of each function is done in interval arithmetic, so the direction of the rounding is
proven. The guarantees hold for either relation of neighbours, which enters through the sensitivity alone.
"""

from __future__ import annotations

from functools import lru_cache

from dpcore._validation import check_integer, check_positive, check_real, check_sensitivity
from dpcore.accounting._checks import check_noise_scale, check_nonnegative, check_open_delta
from dpcore.errors import ParameterError

MAX_INTEGER_SENSITIVITY = 2**53


def laplace_scale(epsilon: float, sensitivity: float) -> float:
    r"""Return the scale b = Δ₁/ε of ε-private Laplace noise, continuous or discrete, rounded up.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, positive and finite.
    sensitivity : float
        ℓ1 sensitivity Δ₁ of the whole answer, positive and finite.

    Returns
    -------
    float
        The smallest float64 ≥ Δ₁/ε, or inf if there is none.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or is not a real number.

    Notes
    -----
    Guarantee: noise of this scale satisfies \|ln p(y | x) − ln p(y | x')\| ≤ Δ₁/b ≤ ε for all neighbours x, x' and outputs y.

    Cost: 10 µs.

    Source: Private inference (chapter 9), Definition 9.1.3.

    Examples
    --------
    >>> laplace_scale(0.5, 3.0)
    6.0
    """
    epsilon = check_positive("epsilon", epsilon)
    return quotient_up(check_sensitivity(sensitivity), epsilon)


@lru_cache(maxsize=4096)
def quotient_up(sensitivity: float, epsilon: float, factor: int = 1) -> float:
    """The smallest float64 ≥ factor·sensitivity/epsilon, or inf if there is none. It is kept, because fractions take microseconds."""
    from fractions import Fraction

    from dpcore._exact.intervals import fraction_up  # intervals, which `import dpcore` need not load

    return fraction_up(factor * Fraction(sensitivity) / Fraction(epsilon))


def gaussian_delta(epsilon: float, scale: float, sensitivity: float) -> float:
    """Return the least δ for which Gaussian noise is (ε, δ)-private, rounded up.

    δ = Φ(Δ/2σ − εσ/Δ) − e^ε Φ(−Δ/2σ − εσ/Δ).

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, in [0, ∞).
    scale : float
        Standard deviation σ of the noise, positive and finite.
    sensitivity : float
        ℓ2 sensitivity Δ of the whole answer, positive and finite, in the unit of `scale`.

    Returns
    -------
    float
        In (0, 1]. At most a few units in the last place above the true value, never below it.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or is not a real number.

    Notes
    -----
    Cost: 1 ms.

    Source: Balle & Wang (2018), Theorem 8.

    Examples
    --------
    The classical formula at ε = 8 is far outside the range ε ≤ 1 of its proof. Its noise does not reach δ = 10⁻³:

    >>> import math
    >>> print(f"{gaussian_delta(8.0, math.sqrt(2 * math.log(1.25 / 1e-3)) / 8.0, 1.0):.3g}")
    0.00131
    """
    from fractions import Fraction

    from dpcore.accounting import _calibration

    epsilon = check_nonnegative("epsilon", epsilon)
    ratio = Fraction(check_sensitivity(sensitivity)) / Fraction(check_noise_scale(scale))
    return _calibration.gaussian_delta(epsilon, ratio)


def analytic_gaussian_scale(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the least standard deviation of (ε, δ)-private Gaussian noise, rounded up.

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
        A σ with `gaussian_delta(epsilon, σ, sensitivity)` ≤ δ, which is proven for this float64. Within 2 units in the last place of the
        least.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or is not a real number.

    Notes
    -----
    Rounding up is safe, because δ falls as σ grows.

    Cost: 10 to 20 ms for a new (ε, δ), then cached.

    Source: Balle & Wang (2018), Algorithm 1, which corrects Private inference (chapter 9), Definition 9.1.4 and Algorithm 9.2.1.

    Examples
    --------
    >>> analytic_gaussian_scale(1.0, 1e-5, 1.0)
    3.730631634815942
    """
    from dpcore.accounting import _calibration

    epsilon, delta = check_positive("epsilon", epsilon), check_open_delta("delta", delta)
    return _calibration.analytic_gaussian_scale(epsilon, delta, check_sensitivity(sensitivity))


def classical_gaussian_scale(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the classical scale σ = Δ√(2 ln(1.25/δ))/ε of Gaussian noise, rounded up, for ε ≤ 1.

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
        At most 1 unit in the last place above the value of the formula, never below it; inf beyond the range of float64.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range. The proof does not cover ε > 1: at ε = 8 and δ = 10⁻³ the formula's noise has δ = 1.31·10⁻³.

    Notes
    -----
    `analytic_gaussian_scale` is smaller and holds for every ε.

    Cost: 30 µs.

    Source: Private inference (chapter 9), Definition 9.1.4; Dwork & Roth (2014), Theorem A.1.

    Examples
    --------
    >>> round(classical_gaussian_scale(1.0, 1e-5, 1.0), 4)
    4.8448
    """
    from dpcore.accounting import _calibration

    epsilon, delta, sensitivity = check_positive("epsilon", epsilon), check_open_delta("delta", delta), check_sensitivity(sensitivity)
    if epsilon > 1:
        raise ParameterError(f"epsilon must be in (0, 1] for method='classical', whose proof needs it, got {epsilon!r}")
    return _calibration.classical_gaussian_scale(epsilon, delta, sensitivity)


def discrete_gaussian_delta(epsilon: float, scale: float, sensitivity: int) -> float:
    """Return the least δ for which one integer answer plus discrete Gaussian noise is (ε, δ)-private, rounded up.

    δ = Σ_z (p(z) − e^ε p(z−Δ))₊ with p(z) ∝ e^(−z²/2σ²), z ∈ ℤ.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, in [0, ∞).
    scale : float
        Parameter σ of the noise, in (2^−20, 2^40].
    sensitivity : int
        Sensitivity Δ of the answer, in [1, 2^53]. Smaller shifts have a smaller δ, so only Δ counts.

    Returns
    -------
    float
        In (0, 1], never below the true value.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or has the wrong type.

    Notes
    -----
    δ is not monotone in σ. For σ < 1 it is up to about five times the δ of the continuous Gaussian.

    Cost: 1 to 60 ms for any scale.

    Source: Canonne, Kamath & Steinke (2020), Theorem 7.

    Examples
    --------
    >>> [round(discrete_gaussian_delta(2.0, scale, 1), 3) for scale in (0.50, 0.52, 0.56)]
    [0.105, 0.117, 0.136]
    """
    from dpcore.accounting import _calibration

    epsilon = check_nonnegative("epsilon", epsilon)
    scale = check_real("scale", scale, low=2.0**-20, high=2.0**40, include_low=False)
    sensitivity = check_integer("sensitivity", sensitivity, low=1, high=MAX_INTEGER_SENSITIVITY)
    return _calibration.discrete_gaussian_delta(epsilon, scale, sensitivity)


def exact_discrete_gaussian_scale(epsilon: float, delta: float, sensitivity: int) -> float:
    """Return the smallest scale found at which discrete Gaussian noise on one integer answer is (ε, δ)-private.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, positive and finite.
    delta : float
        Failure mass δ, in (0, 1).
    sensitivity : int
        Sensitivity Δ of the answer, in [1, 2^53].

    Returns
    -------
    float
        A σ with `discrete_gaussian_delta(epsilon, σ, sensitivity)` ≤ δ, which is proven for this float64. Do not round it: a larger σ may
        fail.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or has the wrong type.

    Notes
    -----
    The result is never above `zcdp_discrete_gaussian_scale`. Below σ = 32 the search walks up a grid of ratio 1.008, so it can miss a dip
    of δ(σ) that is narrower.

    Cost: 10 to 300 ms for new parameters, then cached.

    Examples
    --------
    >>> round(exact_discrete_gaussian_scale(2.0, 0.11, 1), 3)
    0.499
    """
    from dpcore.accounting import _calibration

    epsilon, delta = check_positive("epsilon", epsilon), check_open_delta("delta", delta)
    sensitivity = check_integer("sensitivity", sensitivity, low=1, high=MAX_INTEGER_SENSITIVITY)
    return _calibration.exact_discrete_gaussian_scale(epsilon, delta, sensitivity)
