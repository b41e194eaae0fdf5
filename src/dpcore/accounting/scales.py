"""From a guarantee to the scale of noise on one answer, and from a scale to the guarantee it really has.

Each function rounds against its user: a δ or ε is never below, a scale never too small for, the true value. The last step of each is
done in interval arithmetic, so the rounding is proven and not estimated. The guarantees hold for either relation of neighbours: it enters
through the sensitivity alone.
"""

from __future__ import annotations

from dpcore._validation import check_integer, check_positive, check_real, check_sensitivity
from dpcore.accounting._checks import check_noise_scale, check_nonnegative, check_open_delta
from dpcore.errors import ParameterError

MAX_INTEGER_SENSITIVITY = 2**53


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
    Guarantee of the mechanism: \|ln p(y | x) − ln p(y | x')\| ≤ Δ₁/b ≤ ε. Source: Private inference (chapter 9), Definition 9.1.3.

    Examples
    --------
    >>> laplace_scale(0.5, 3.0)
    6.0
    """
    from fractions import Fraction

    from dpcore._exact.intervals import fraction_up

    epsilon = check_positive("epsilon", epsilon)
    return fraction_up(Fraction(check_sensitivity(sensitivity)) / Fraction(epsilon))


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
    Cost: about 1 ms. Source: Balle & Wang (2018), Theorem 8.

    Examples
    --------
    The classical formula at ε = 8, far outside the range ε ≤ 1 of its proof, misses its δ = 10⁻³:

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
    Source: Balle & Wang (2018), Algorithm 1; corrects Private inference (chapter 9), Definition 9.1.4 and Algorithm 9.2.1.

    Examples
    --------
    >>> analytic_gaussian_scale(1.0, 1e-5, 1.0)
    3.730631634815942
    """
    from dpcore.accounting import _calibration

    epsilon, delta = check_positive("epsilon", epsilon), check_open_delta("delta", delta)
    return _calibration.analytic_gaussian_scale(epsilon, delta, check_sensitivity(sensitivity))


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
    Source: Private inference (chapter 9), Definition 9.1.4; Dwork & Roth (2014), Theorem A.1.

    Examples
    --------
    >>> round(classical_gaussian_scale(1.0, 1e-5, 1.0), 4)
    4.8448
    """
    from dpcore.accounting import _calibration

    epsilon, delta, sensitivity = check_positive("epsilon", epsilon), check_open_delta("delta", delta), check_sensitivity(sensitivity)
    if epsilon > 1:
        raise ParameterError(f"epsilon must be in (0, 1] for method='classical', whose proof fails beyond, got {epsilon!r}")
    return _calibration.classical_gaussian_scale(epsilon, delta, sensitivity)


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
        Sensitivity Δ of the one answer, in [1, 2^53]. Smaller shifts have a smaller δ, so Δ alone counts.

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
    Not monotone in σ, and for σ < 1 up to some five times the continuous Gaussian's δ. Cost: 1 to 60 ms, whatever the scale.
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
    r"""Give the smallest scale found at which discrete Gaussian noise on one integer answer is (ε, δ)-private.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, positive and finite.
    delta : float
        Failure mass δ, in (0, 1).
    sensitivity : int
        Sensitivity Δ of the one answer, in [1, 2^53].

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
    0.499
    """
    from dpcore.accounting import _calibration

    epsilon, delta = check_positive("epsilon", epsilon), check_open_delta("delta", delta)
    sensitivity = check_integer("sensitivity", sensitivity, low=1, high=MAX_INTEGER_SENSITIVITY)
    return _calibration.exact_discrete_gaussian_scale(epsilon, delta, sensitivity)
