"""Gaussian differential privacy: the μ of a mechanism, and the (ε, δ) that follow from a μ. Every result is rounded towards privacy.

A mechanism is μ-GDP if no test of its outputs on neighbours is better than the best test of N(0, 1) against N(μ, 1): its error of the
second kind at level α is at least G_μ(α) = Φ(Φ⁻¹(1 − α) − μ). By Blackwell's theorem its outputs are then a function of such a normal
number and of coins. The squares μ² add up over adaptive uses. Source: Dong, Roth & Su (2022).
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from dpcore._dataclasses import dataclass
from dpcore._validation import check_positive, check_real, check_sensitivity
from dpcore.accounting._checks import check_loss, check_noise_scale, check_nonnegative, check_open_delta
from dpcore.privacy import Privacy, as_written, written_down

if TYPE_CHECKING:
    from dpcore.privacy import Relation


def mu_gaussian(scale: float, sensitivity: float) -> float:
    """Return μ = Δ/σ of continuous Gaussian noise, rounded or not, rounded up.

    Parameters
    ----------
    scale : float
        Standard deviation σ of the noise, positive and finite.
    sensitivity : float
        ℓ2 sensitivity Δ of the whole answer, positive and finite, in the unit of `scale`.

    Returns
    -------
    float
        The smallest float64 ≥ Δ/σ.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or is not a real number.

    Notes
    -----
    Valid for `mechanisms.Gaussian`, `local.LocalGaussian` and `noise.gaussian`: what they release is a fixed function of the answer plus an
    ideal normal number, so it is post-processing.

    Not valid for discrete Gaussian noise, whose δ exceeds that of μ = Δ/σ: by up to a factor of 3.7 at σ = Δ/2 and of 1.007 at σ = 10Δ
    while it is above 10^−6, and of 6.6 and 1.02 down to 10^−15. That noise is ρ-zCDP with ρ = Δ²/2σ² (`rho_gaussian`), and for one integer
    answer `discrete_gaussian_delta` has its own δ.

    Cost: 10 µs.

    Source: Dong, Roth & Su (2022), Theorem 1.

    Examples
    --------
    >>> mu_gaussian(4.0, 1.0)
    0.25
    """
    from dpcore._exact.intervals import fraction_up

    return fraction_up(Fraction(check_sensitivity(sensitivity)) / Fraction(check_noise_scale(scale)))


def mu_pure(epsilon: float) -> float:
    """Return μ = 2Φ⁻¹(e^ε/(1 + e^ε)) of any ε-private mechanism, rounded up.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, in [0, ∞).

    Returns
    -------
    float
        The least μ for which every ε-private mechanism is μ-GDP, within some units in the last place. Close to 1.2533·ε for small ε.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or is not a real number.

    Notes
    -----
    The trade-off curve of randomised response, which every ε-private mechanism post-processes, is linear from (0, 1) over (p, p) to (1, 0)
    with p = 1/(1 + e^ε). G_μ is convex and goes through the same three points, so it is nowhere above.

    ρ of the same mechanism is at most ε²/2, which is the ρ of μ = ε: for ε-private mechanisms zCDP counts less than GDP does.

    Cost: 2 ms, more for ε below 10^−30; then cached.

    Examples
    --------
    >>> print(f"{mu_pure(0.1):.5f} {mu_pure(1.0):.5f}")
    0.12531 1.23204
    """
    from dpcore.accounting import _gaussian

    return _gaussian.mu_pure(check_loss("epsilon", epsilon))


def gdp_delta(mu: float, epsilon: float) -> float:
    """Return the least δ for which every μ-GDP mechanism is (ε, δ)-private, rounded up.

    δ = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ).

    Parameters
    ----------
    mu : float
        Gaussian privacy μ, in [0, ∞).
    epsilon : float
        Privacy loss ε, in [0, ∞).

    Returns
    -------
    float
        In [0, 1]: at most a unit in the last place above the value of the formula, never below it.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or is not a real number.

    Notes
    -----
    Cost: 1 ms.

    Source: Dong, Roth & Su (2022), Corollary 1; Balle & Wang (2018), Theorem 8.

    Examples
    --------
    >>> print(f"{gdp_delta(0.5, 1.0):.4g}")
    0.00683
    """
    from dpcore.accounting import _calibration

    mu, epsilon = check_loss("mu", mu), check_nonnegative("epsilon", epsilon)
    return _calibration.gaussian_delta(epsilon, Fraction(mu)) if mu else 0.0


def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the least ε for which every μ-GDP mechanism is (ε, δ)-private, rounded up.

    Parameters
    ----------
    mu : float
        Gaussian privacy μ, in [0, ∞).
    delta : float
        Failure mass δ, in (0, 1).

    Returns
    -------
    float
        In [0, ∞]. `gdp_delta` of it is at most δ; within 10^−13 of the least, relative.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or is not a real number.

    Notes
    -----
    Cost: 30 ms.

    Examples
    --------
    >>> print(f"{gdp_epsilon(0.5, 1e-6):.4f}")
    2.2541
    """
    from dpcore.accounting import _composition

    mu, delta = check_loss("mu", mu), check_open_delta("delta", delta)
    return _composition.gaussian_epsilon(delta, Fraction(mu)) if mu else 0.0


def gdp_mu(epsilon: float, delta: float, *, failure_delta: float = 0.0) -> float:
    """Return the largest μ for which every μ-GDP mechanism is (ε, δ)-private, rounded down.

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
        Within 10^−12 of the largest μ with `gdp_delta(μ, epsilon)` ≤ δ − failure_delta, and never above it; `gdp_epsilon` of it is at most
        ε.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or is not a real number.

    Notes
    -----
    Cost: 0.1 s for new parameters, then cached.

    Examples
    --------
    >>> print(f"{gdp_mu(1.0, 1e-6):.5f}")
    0.23670
    """
    from dpcore.accounting import _gaussian

    epsilon, delta = check_positive("epsilon", epsilon), check_open_delta("delta", delta)
    failures = check_loss("failure_delta", failure_delta, high=delta)
    return _gaussian.largest_mu(epsilon, written_down(as_written(delta) - as_written(failures)))


def gdp(*parts: float | GaussianPrivacy) -> GaussianPrivacy:
    """Compose μ-GDP releases from the same data: √(Σμ²), rounded up.

    Parameters
    ----------
    *parts : float or GaussianPrivacy
        μ of each release, in [0, ∞): that of Gaussian noise (`mu_gaussian`), of ε-private releases (`mu_pure`), or of several together.

    Returns
    -------
    GaussianPrivacy
        The guarantee of all of them together.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a part is outside its range or is not a real number.

    Notes
    -----
    The releases may be adaptive: each mechanism may depend on earlier answers. If their μ depend on earlier answers too, use a `Ledger`
    made with `mu=`.

    Cost: 10 µs for each part.

    Source: Dong, Roth & Su (2022), Corollary 2.

    Examples
    --------
    >>> gdp(0.75, 1.0)
    GaussianPrivacy(mu=1.25)
    >>> round(gdp(0.75, 1.0).epsilon(1e-6), 3)
    6.312
    """
    from dpcore.accounting import _gaussian

    given = [part.mu if isinstance(part, GaussianPrivacy) else check_loss("mu", part) for part in parts]
    return GaussianPrivacy(given[0] if len(given) == 1 else _gaussian.composed(given))


@dataclass(frozen=True, slots=True)
class GaussianPrivacy:
    """A guarantee of μ-GDP; `gdp` returns it, and a `Ledger` of kind "gdp" or "zcdp" takes it.

    Parameters
    ----------
    mu : float
        Gaussian privacy μ, in [0, ∞). A number that float64 does not hold is rounded up.

    Raises
    ------
    ParameterError, ParameterTypeError
        If μ is outside its range or is not a real number.

    Notes
    -----
    `blackwell.TradeOff.gaussian` draws its trade-off curve.

    Examples
    --------
    >>> one = GaussianPrivacy(0.5)
    >>> one.rho, round(one.type_two(0.05), 4)
    (0.125, 0.8739)
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", check_loss("mu", self.mu))

    @property
    def rho(self) -> float:
        """ρ = μ²/2, rounded up: what is μ-GDP is ρ-zCDP, but not conversely."""
        from dpcore._exact.intervals import fraction_up

        return fraction_up(Fraction(self.mu) ** 2 / 2)

    def delta(self, epsilon: float) -> float:
        """Return the least δ at an ε, as `gdp_delta` does.

        Parameters
        ----------
        epsilon : float
            Privacy loss ε, in [0, ∞).

        Returns
        -------
        float
            In [0, 1], rounded up.
        """
        return gdp_delta(self.mu, epsilon)

    def epsilon(self, delta: float) -> float:
        """Return the least ε at a δ, as `gdp_epsilon` does.

        Parameters
        ----------
        delta : float
            Failure mass δ, in (0, 1).

        Returns
        -------
        float
            In [0, ∞], rounded up.
        """
        return gdp_epsilon(self.mu, delta)

    def privacy(self, delta: float, *, relation: Relation = "replace") -> Privacy:
        """Return the (ε, δ) at a δ.

        Parameters
        ----------
        delta : float
            Failure mass δ, in (0, 1).
        relation : {"replace", "add_remove"}, default "replace"
            Relation of neighbours that μ refers to.

        Returns
        -------
        Privacy
            Its ε is `gdp_epsilon(μ, delta)`.
        """
        return Privacy(self.epsilon(delta), delta, relation)

    def type_two(self, level: float) -> float:
        """Return the trade-off curve G_μ(α): the least error of the second kind of a test of level α, rounded down.

        Parameters
        ----------
        level : float
            Level α, the probability of a false alarm, in [0, 1].

        Returns
        -------
        float
            Φ(Φ⁻¹(1 − α) − μ), within one part in 10^15, never above it. No test of neighbours by the outputs misses less.
        """
        from dpcore.accounting import _gaussian

        return _gaussian.type_two(self.mu, check_real("level", level, low=0.0, high=1.0, rounding="up"))
