"""Mechanisms as statistical experiments: privacy profiles, testing regions, Blackwell's order, decisions made from outcomes, and audits.

A mechanism with finitely many inputs and outputs is a matrix with a row for each input (docs/mechanisms-as-experiments.md); any other can
be run and audited (docs/auditing.md).
"""

from dpcore.experiments.audit import AuditResult, audit, repeat
from dpcore.experiments.conversion import from_mechanism
from dpcore.experiments.experiment import Experiment
from dpcore.experiments.power import max_power
from dpcore.experiments.regions import Region
from dpcore.experiments.sufficiency import DecisionProblem, Sufficiency, is_sufficient

__all__ = [
    "AuditResult",
    "DecisionProblem",
    "Experiment",
    "Region",
    "Sufficiency",
    "audit",
    "from_mechanism",
    "is_sufficient",
    "max_power",
    "repeat",
]
