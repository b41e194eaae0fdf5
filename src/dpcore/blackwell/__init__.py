"""Mechanisms as statistical experiments: privacy profiles, testing regions, Blackwell's order, and decisions made from outcomes.

A mechanism with finitely many inputs and outputs is a matrix with one row for each input (docs/mechanisms-as-experiments.md). For any other
mechanism, `dpcore.audit` bounds the privacy loss by running it.
"""

from dpcore.blackwell.conversion import from_mechanism
from dpcore.blackwell.experiment import Experiment
from dpcore.blackwell.power import bayes_factors, max_power
from dpcore.blackwell.regions import Region
from dpcore.blackwell.sufficiency import DecisionProblem, Sufficiency, is_sufficient
from dpcore.blackwell.trade_offs import TradeOff

__all__ = [
    "DecisionProblem",
    "Experiment",
    "Region",
    "Sufficiency",
    "TradeOff",
    "bayes_factors",
    "from_mechanism",
    "is_sufficient",
    "max_power",
]


def __dir__() -> list[str]:
    return __all__
