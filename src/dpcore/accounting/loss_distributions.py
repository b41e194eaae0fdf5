"""Privacy loss distributions and amplification by sampling, through Google's dp-accounting (the extra `accounting`)."""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

from dpcore._dataclasses import dataclass
from dpcore._extras import needs, refuse_old
from dpcore._validation import check_choice, check_integer, check_real
from dpcore.accounting._checks import check_delta, check_nonnegative
from dpcore.accounting.uses import Uses, check_all_uses
from dpcore.errors import ParameterError, ParameterTypeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcore.privacy import Relation

Sampling = Literal["none", "poisson", "without_replacement"]
SAMPLINGS = ("none", "poisson", "without_replacement")


@dataclass(frozen=True, slots=True)
class LossDistribution:
    """The privacy loss of several uses as dp-accounting computes it; `pld` returns it.

    Attributes
    ----------
    uses : tuple of Uses
        What is used.
    sampling : {"none", "poisson", "without_replacement"}
        How the records of every use are drawn.
    relation : {"replace", "add_remove"}
        Relation of neighbours.
    method : {"pld", "rdp"}
        Privacy loss distributions, or Rényi divergences.
    accountant : object
        The object of dp-accounting.
    """

    uses: tuple[Uses, ...]
    sampling: Sampling
    relation: Relation
    method: Literal["pld", "rdp"]
    accountant: Any = field(repr=False, compare=False)

    def epsilon(self, delta: float) -> float:
        """Return ε at a total δ.

        Parameters
        ----------
        delta : float
            Total failure mass δ, in [0, 1).

        Returns
        -------
        float
            In [0, ∞].

        Raises
        ------
        ParameterError, ParameterTypeError
            If δ is outside its range or is not a real number.
        """
        delta = check_delta("delta", delta)
        ask = self.accountant.get_epsilon_for_delta if self.method == "pld" else self.accountant.get_epsilon
        return max(float(ask(delta)), 0.0)

    def delta(self, epsilon: float) -> float:
        """Return δ at a total ε.

        Parameters
        ----------
        epsilon : float
            Total privacy loss ε, in [0, ∞).

        Returns
        -------
        float
            In [0, 1].

        Raises
        ------
        ParameterError, ParameterTypeError
            If ε is outside its range or is not a real number.
        """
        epsilon = check_nonnegative("epsilon", epsilon)
        ask = self.accountant.get_delta_for_epsilon if self.method == "pld" else self.accountant.get_delta
        return min(max(float(ask(epsilon)), 0.0), 1.0)


def pld(
    uses: Sequence[Uses] | Uses,
    *,
    sampling: Sampling,
    rate: float | None = None,
    sample_size: int | None = None,
    population: int | None = None,
    relation: Relation = "replace",
    discretization: float = 1e-4,
) -> LossDistribution:
    """Compose uses by their privacy loss distributions, which also account for amplification by sampling.

    Parameters
    ----------
    uses : Uses or sequence of Uses
        What is used. If there is sampling, every use has a separate sample, and the ε and ρ are those of the mechanism on its sample for
        neighbours of this `relation`.
    sampling : {"none", "poisson", "without_replacement"}
        How the records of every use are drawn, secretly and independently of everything else. There is no default, because the result holds
        only if you draw them so.
    rate : float, optional
        Probability, in (0, 1], with which every record takes part. For "poisson" only, and required there.
    sample_size, population : int, optional
        How many records are drawn, out of how many. For "without_replacement" only, and required there.
    relation : {"replace", "add_remove"}, default "replace"
        Relation of neighbours. "poisson" needs "add_remove", and "without_replacement" needs "replace".
    discretization : float, default 1e-4
        Step of the grid of privacy losses, in [1e-7, 1].

    Returns
    -------
    LossDistribution
        With the methods `epsilon(delta)` and `delta(epsilon)`.

    Raises
    ------
    ModuleNotFoundError
        If dp-accounting is not installed.
    ParameterError, ParameterTypeError
        If an argument is wrong, or dp-accounting does not support the combination: "concentrated" uses have no loss distribution; only
        "laplace" and "gaussian" can be sampled, and only "gaussian" without replacement.

    Notes
    -----
    The results are dp-accounting's pessimistic estimates. They are upper bounds except for the rounding of float64, which the other
    functions of this module include and this one does not; do not rely on a δ below 10^−10. "pure", "approximate" and "bounded_range" count
    as the worst mechanism of their (ε, δ).

    Cost: 10 ms to some seconds; grows with the losses divided by `discretization`.

    Source: Zhu, Dong & Wang (2022), Theorem 11 for Poisson sampling. Sampling without replacement is computed by Rényi divergences (Wang,
    Balle & Kasiviswanathan, 2019, Theorem 27), since a loss distribution of one use, composed with itself, need not dominate there (Lebeda
    et al., 2024).

    Examples
    --------
    >>> steps = Uses("gaussian", uses=1000, rho=rho_gaussian(1.0, 1.0))  # doctest: +SKIP
    >>> round(pld(steps, sampling="poisson", rate=0.01, relation="add_remove").epsilon(1e-6), 2)  # doctest: +SKIP
    2.12
    """
    every = check_all_uses(uses)
    check_choice("sampling", sampling, SAMPLINGS)
    check_choice("relation", relation, ("replace", "add_remove"))
    discretization = check_real("discretization", discretization, low=1e-7, high=1.0)
    _check_sampling(every, sampling, relation)
    probability = _check_rate(sampling, rate)
    draw = _check_draw(sampling, sample_size, population)
    try:
        import dp_accounting
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(needs("pld needs", "accounting"), name=error.name) from error
    refuse_old("dp_accounting")
    if draw is not None:
        return LossDistribution(every, sampling, relation, "rdp", _renyi(dp_accounting, every, *draw))
    return LossDistribution(every, sampling, relation, "pld", _distribution(every, probability, discretization))


def _check_sampling(uses: tuple[Uses, ...], sampling: Sampling, relation: Relation) -> None:
    needed = {"poisson": "add_remove", "without_replacement": "replace"}.get(sampling, relation)
    if relation != needed:
        raise ParameterError(f"relation must be {needed!r} for sampling={sampling!r}, got {relation!r}")
    known = {
        "none": ("pure", "approximate", "laplace", "bounded_range", "gaussian"),
        "poisson": ("laplace", "gaussian"),
        "without_replacement": ("gaussian",),
    }[sampling]
    for i, use in enumerate(uses):
        if use.mechanism not in known:
            choices = ", ".join(map(repr, known))
            raise ParameterError(f"uses[{i}].mechanism must be one of {choices} for sampling={sampling!r}, got {use.mechanism!r}")


def _check_rate(sampling: Sampling, rate: object) -> float:
    if sampling == "poisson":
        return check_real("rate", rate, low=0.0, high=1.0, include_low=False, rounding="up")
    if rate is not None:
        raise ParameterTypeError(f"rate must be left out for sampling={sampling!r}, got {rate!r}")
    return 1.0


def _check_draw(sampling: Sampling, sample_size: object, population: object) -> tuple[int, int] | None:
    if sampling == "without_replacement":
        drawn = check_integer("sample_size", sample_size, low=1)
        return drawn, check_integer("population", population, low=drawn)
    for name, value in (("sample_size", sample_size), ("population", population)):
        if value is not None:
            raise ParameterTypeError(f"{name} must be left out for sampling={sampling!r}, got {value!r}")
    return None


def _noise_multiplier(rho: float) -> float:
    """Return σ/Δ = 1/√(2ρ), rounded down."""
    return 1 / math.sqrt(2 * rho) * (1 - 2.0**-50)


def _renyi(dp_accounting: Any, uses: tuple[Uses, ...], sample_size: int, population: int) -> Any:
    from dp_accounting import rdp

    accountant = rdp.RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    for use in uses:
        if use.rho:
            noise = dp_accounting.GaussianDpEvent(_noise_multiplier(use.rho))
            accountant.compose(dp_accounting.SampledWithoutReplacementDpEvent(population, sample_size, noise), use.uses)
    return accountant


def _distribution(uses: tuple[Uses, ...], probability: float, discretization: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution

    total = privacy_loss_distribution.identity(value_discretization_interval=discretization)
    for use in uses:
        if use.rho != 0 and (use.rho or use.epsilon or use.delta):
            total = total.compose(_one_distribution(privacy_loss_distribution, use, probability, discretization))
    return total


def _one_distribution(library: Any, use: Uses, probability: float, discretization: float) -> Any:
    options = {"value_discretization_interval": discretization}
    if use.rho is not None:
        if probability == 1:  # k Gaussians are one
            return library.from_gaussian_mechanism(_noise_multiplier(use.rho) / math.sqrt(use.uses) * (1 - 2.0**-50), **options)
        one = library.from_gaussian_mechanism(_noise_multiplier(use.rho), sampling_prob=probability, **options)
    elif use.mechanism == "laplace":
        scale = math.nextafter(1 / use.epsilon, 0.0)
        one = library.from_laplace_mechanism(scale, sampling_prob=probability, **options)
    else:
        from dp_accounting.pld import common

        one = library.from_privacy_parameters(common.DifferentialPrivacyParameters(use.epsilon, use.delta), **options)
    return one.self_compose(use.uses)
