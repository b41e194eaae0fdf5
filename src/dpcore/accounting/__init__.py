"""Privacy accounting: noise from guarantees, guarantees of many uses together, and budgets that cannot be overspent.

Each function rounds against its user: an ε or δ is never below, a scale never too small for, the true value.
"""

from dpcore.accounting._sealed_files import SealedFile, move_into_place
from dpcore.accounting.calibration import Calibration, calibrate, least_scale, max_queries
from dpcore.accounting.concentrated import (
    rho_bounded_range,
    rho_gaussian,
    rho_laplace,
    rho_pure,
    zcdp_delta,
    zcdp_discrete_gaussian_scale,
    zcdp_epsilon,
    zcdp_rho,
)
from dpcore.accounting.ledger import Ledger
from dpcore.accounting.loss_distributions import LossDistribution, pld
from dpcore.accounting.rules import advanced, basic, optimal, optimal_heterogeneous, parallel
from dpcore.accounting.scales import (
    MAX_INTEGER_SENSITIVITY,
    analytic_gaussian_scale,
    classical_gaussian_scale,
    discrete_gaussian_delta,
    exact_discrete_gaussian_scale,
    gaussian_delta,
    laplace_scale,
)
from dpcore.accounting.spends import Budget, Entry, Reservation
from dpcore.accounting.uses import Composition, Uses, compose, delta_for_epsilon, epsilon_for_delta

__all__ = [
    "MAX_INTEGER_SENSITIVITY",
    "Budget",
    "Calibration",
    "Composition",
    "Entry",
    "Ledger",
    "LossDistribution",
    "Reservation",
    "SealedFile",
    "Uses",
    "advanced",
    "analytic_gaussian_scale",
    "basic",
    "calibrate",
    "classical_gaussian_scale",
    "compose",
    "delta_for_epsilon",
    "discrete_gaussian_delta",
    "epsilon_for_delta",
    "exact_discrete_gaussian_scale",
    "gaussian_delta",
    "laplace_scale",
    "least_scale",
    "max_queries",
    "move_into_place",
    "optimal",
    "optimal_heterogeneous",
    "parallel",
    "pld",
    "rho_bounded_range",
    "rho_gaussian",
    "rho_laplace",
    "rho_pure",
    "zcdp_delta",
    "zcdp_discrete_gaussian_scale",
    "zcdp_epsilon",
    "zcdp_rho",
]


def __dir__() -> list[str]:
    return __all__
