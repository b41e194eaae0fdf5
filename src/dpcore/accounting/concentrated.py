"""Zero-concentrated privacy: the ρ of a mechanism, and the (ε, δ) that follow from a ρ. Every result is rounded towards privacy.

A mechanism is ρ-zCDP if the Rényi divergence of order α between its outputs on neighbours is at most ρα for every α > 1. ρ adds up over
adaptive uses. Source: Bun & Steinke (2016).
"""

from __future__ import annotations

from dpcore._validation import check_positive, check_sensitivity
from dpcore.accounting._checks import check_loss, check_noise_scale, check_nonnegative, check_open_delta
from dpcore.privacy import as_written, written_down


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Return a δ for which every ρ-zCDP mechanism is (ε, δ)-private, rounded up.

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
        If a parameter is outside its range or is not a real number.

    Notes
    -----
    The exponent is convex in α, so the minimum is global.

    Cost: 0.1 ms.

    Source: Canonne, Kamath & Steinke (2020), Proposition 12; Asoodeh et al. (2020).

    Examples
    --------
    >>> print(f"{zcdp_delta(0.1, 2.0):.3g}")
    4.33e-06
    """
    from dpcore.accounting import _calibration

    return _calibration.zcdp_delta(check_loss("rho", rho), check_nonnegative("epsilon", epsilon))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an ε for which every ρ-zCDP mechanism is (ε, δ)-private, rounded up.

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
        If a parameter is outside its range or is not a real number.

    Notes
    -----
    Cost: 0.1 ms.

    Source: Canonne, Kamath & Steinke (2020), Proposition 12, solved for ε.

    Examples
    --------
    >>> print(f"{zcdp_epsilon(0.1, 1e-6):.4f}")
    2.1419
    """
    from dpcore.accounting import _calibration

    return _calibration.zcdp_epsilon(check_loss("rho", rho), check_open_delta("delta", delta))


def zcdp_rho(epsilon: float, delta: float, *, failure_delta: float = 0.0) -> float:
    """Return the largest ρ for which every failure_delta-approximate ρ-zCDP mechanism is (ε, δ)-private, rounded down.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, in (0, ∞).
    delta : float
        Failure mass δ, in (0, 1), for failures and for the conversion together.
    failure_delta : float, default 0.0
        The part of δ that is for failures, in [0, δ), as in `Ledger.create`.

    Returns
    -------
    float
        At least 0. Within 10^−9 of the largest ρ with `zcdp_delta(ρ, epsilon)` ≤ δ − failure_delta, and never above it.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or is not a real number.

    Notes
    -----
    Cost: 5 ms.

    Source: `zcdp_delta` for ρ-zCDP; failures add their mass (Bun & Steinke, 2016, Section 8).

    Examples
    --------
    >>> print(f"{zcdp_rho(1.0, 1e-6):.5f}")
    0.02436
    """
    from dpcore.accounting import _calibration

    epsilon, delta = check_positive("epsilon", epsilon), check_open_delta("delta", delta)
    failures = check_loss("failure_delta", failure_delta, high=delta)
    return _calibration.largest_rho(epsilon, written_down(as_written(delta) - as_written(failures)))


def zcdp_discrete_gaussian_scale(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the scale of (ε, δ)-private discrete Gaussian noise by way of zCDP with ρ = Δ²/2σ², rounded up.

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
        A σ with min over α of exp((α−1)(αΔ²/2σ² − ε))/(α−1)·(1−1/α)^α ≤ δ; inf beyond the range of float64.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or is not a real number.

    Notes
    -----
    Valid for vectors of integers and for the continuous Gaussian. This bound is monotone in σ; the δ of the discrete Gaussian itself is
    not.

    Cost: below 1 ms.

    Source: Canonne, Kamath & Steinke (2020), Theorem 14 and Proposition 12.

    Examples
    --------
    >>> print(f"{zcdp_discrete_gaussian_scale(1.0, 1e-6, 1.0):.4f}")
    4.5309
    """
    from dpcore.accounting import _calibration

    epsilon, delta = check_positive("epsilon", epsilon), check_open_delta("delta", delta)
    return _calibration.zcdp_discrete_gaussian_scale(epsilon, delta, check_sensitivity(sensitivity))


def rho_gaussian(scale: float, sensitivity: float) -> float:
    """Return ρ = Δ²/2σ² of Gaussian noise, continuous or discrete, rounded up.

    Parameters
    ----------
    scale : float
        Parameter σ of the noise, positive and finite.
    sensitivity : float
        ℓ2 sensitivity Δ of the whole answer, positive and finite, in the unit of `scale`.

    Returns
    -------
    float
        The smallest float64 ≥ Δ²/2σ².

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or is not a real number.

    Notes
    -----
    Cost: 10 µs.

    Source: Bun & Steinke (2016), Proposition 1.6; for the discrete Gaussian on integers Canonne, Kamath & Steinke (2020), Theorem 4.

    Examples
    --------
    >>> rho_gaussian(2.0, 1.0)
    0.125
    """
    from fractions import Fraction

    from dpcore._exact.intervals import fraction_up

    ratio = Fraction(check_sensitivity(sensitivity)) / Fraction(check_noise_scale(scale))
    return fraction_up(ratio * ratio / 2)


def rho_pure(epsilon: float) -> float:
    """Return ρ = ε·tanh(ε/2) ≤ ε²/2 of any ε-private mechanism, rounded up.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, in [0, ∞).

    Returns
    -------
    float
        In [0, ε²/2]. Close to ε²/2 for small ε and to ε for large ε.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or is not a real number.

    Notes
    -----
    Bun & Steinke (2016), Proposition 1.4 gives ε²/2. The smaller value is exact: every ε-private mechanism post-processes binary randomised
    response (Kairouz, Oh & Viswanath, 2015, Theorem 2.2), for which (α−1)·D_α = ln cosh((α−½)ε) − ln cosh(ε/2). As ln cosh √y is concave in
    y and (α−½)² − ¼ = α(α−1), D_α/α falls in α, and its supremum is D_1 = ε·tanh(ε/2). Permute-and-flip and noisy maxima with Laplace noise
    attain this ρ.

    Cost: 30 µs.

    Examples
    --------
    >>> print(f"{rho_pure(0.1):.6f} {rho_pure(20.0):.4f}")
    0.004996 20.0000
    """
    from dpcore.accounting import _composition

    return _composition.rho_pure(check_loss("epsilon", epsilon))


def rho_laplace(epsilon: float) -> float:
    """Return ρ = ε + e^−ε − 1 of Laplace noise of scale Δ₁/ε, rounded up.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε = Δ₁/b of the noise, in [0, ∞).

    Returns
    -------
    float
        In [0, ε²/2].

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or is not a real number.

    Notes
    -----
    Valid for continuous noise, whether or not it is rounded afterwards, and for vectors with ℓ1 sensitivity Δ₁. Not valid for the discrete
    Laplace law.

    ρ is the Kullback-Leibler divergence D_1 of the law from its copy shifted by Δ₁, and no order needs more: with s = α − ½,
    (α−1)·D_α = ln(cosh sε + sinh(sε)/2s) − ε/2, which is 0 at α = 1. The function in the logarithm is entire in w = s², of order ½, and its
    zeros are the negatives of the eigenvalues of −u″ = λu, u′(0) = u(0)/2, u(ε) = 0, all positive. So it is a product of factors 1 + w/λ,
    and its logarithm is concave in w. Since α(α−1) = w − ¼, D_α/α falls in α. For vectors, shifts ε₁ + … + ε_d ≤ ε of the coordinates add
    up to Σ ρ(ε_i) ≤ ρ(ε), as ρ is convex with ρ(0) = 0. D_α: Mironov (2017), Proposition 6.

    Cost: 30 µs.

    Examples
    --------
    >>> print(f"{rho_laplace(1.0):.6f}")
    0.367879
    """
    from dpcore.accounting import _composition

    return _composition.rho_laplace(check_loss("epsilon", epsilon))


def rho_bounded_range(epsilon: float) -> float:
    """Return ρ = min(ε²/8, ε·tanh(ε/2)) of an ε-bounded-range mechanism, rounded up.

    Parameters
    ----------
    epsilon : float
        Range ε of the privacy loss, in [0, ∞): ln p(y | x) − ln p(y | x') differs by at most ε between any two outputs y.

    Returns
    -------
    float
        In [0, ε²/8].

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or is not a real number.

    Notes
    -----
    Valid for the exponential mechanism, which is also the noisy maximum with Gumbel noise. Not valid for permute-and-flip or Laplace noise,
    whose losses range over up to 2ε. A bounded range of ε implies ε-privacy, so `rho_pure` holds as well; it is the smaller one above ε ≈
    8.

    Cost: 30 µs.

    Source: Cesar & Rogers (2021), Lemma 3.4; Dong, Durfee & Rogers (2020).

    Examples
    --------
    >>> rho_bounded_range(1.0)
    0.125
    """
    from dpcore.accounting import _composition

    return _composition.rho_bounded_range(check_loss("epsilon", epsilon))
