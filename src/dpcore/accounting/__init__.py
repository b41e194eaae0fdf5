"""Privacy accounting: noise scales from guarantees, the guarantee of many releases together, and budgets that cannot be overspent.

Every result is rounded towards privacy. An ε or δ is never below its true value, and a scale is never too small for its guarantee. The rule
of `compose` that suits your mechanisms, and how to keep a `Ledger`, are in docs/accounting.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcore._lazy import found_in

if TYPE_CHECKING:
    from dpcore.accounting.best_rule import compose, delta_for_epsilon, epsilon_for_delta
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
    from dpcore.accounting.dp_events import from_dp_event, to_dp_event
    from dpcore.accounting.gaussian_privacy import GaussianPrivacy, gdp, gdp_delta, gdp_epsilon, gdp_mu, mu_gaussian, mu_pure
    from dpcore.accounting.ledger import Budget, Entry, Ledger, Reservation
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
    from dpcore.accounting.shuffling import ShuffledReports, shuffled, shuffled_delta, shuffled_local_epsilon
    from dpcore.accounting.uses import Composition, Uses
else:
    __getattr__ = found_in(
        __name__,
        {
            "best_rule": "compose delta_for_epsilon epsilon_for_delta",
            "calibration": "Calibration calibrate least_scale max_queries",
            "concentrated": (
                "rho_bounded_range rho_gaussian rho_laplace rho_pure zcdp_delta zcdp_discrete_gaussian_scale zcdp_epsilon zcdp_rho"
            ),
            "dp_events": "from_dp_event to_dp_event",
            "gaussian_privacy": "GaussianPrivacy gdp gdp_delta gdp_epsilon gdp_mu mu_gaussian mu_pure",
            "ledger": "Budget Entry Ledger Reservation",
            "loss_distributions": "LossDistribution pld",
            "rules": "advanced basic optimal optimal_heterogeneous parallel",
            "scales": (
                "MAX_INTEGER_SENSITIVITY analytic_gaussian_scale classical_gaussian_scale discrete_gaussian_delta "
                "exact_discrete_gaussian_scale gaussian_delta laplace_scale"
            ),
            "shuffling": "ShuffledReports shuffled shuffled_delta shuffled_local_epsilon",
            "uses": "Composition Uses",
        },
    )

__all__ = [
    "MAX_INTEGER_SENSITIVITY",
    "Budget",
    "Calibration",
    "Composition",
    "Entry",
    "GaussianPrivacy",
    "Ledger",
    "LossDistribution",
    "Reservation",
    "ShuffledReports",
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
    "from_dp_event",
    "gaussian_delta",
    "gdp",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "laplace_scale",
    "least_scale",
    "max_queries",
    "mu_gaussian",
    "mu_pure",
    "optimal",
    "optimal_heterogeneous",
    "parallel",
    "pld",
    "rho_bounded_range",
    "rho_gaussian",
    "rho_laplace",
    "rho_pure",
    "shuffled",
    "shuffled_delta",
    "shuffled_local_epsilon",
    "to_dp_event",
    "zcdp_delta",
    "zcdp_discrete_gaussian_scale",
    "zcdp_epsilon",
    "zcdp_rho",
]


def __dir__() -> list[str]:
    return __all__
