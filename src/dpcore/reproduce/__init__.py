"""Figures, tables and theorems of the five sources of dpcore, measured again on simulated data.

The command `dpcore reproduce` uses these names::

    from dpcore.reproduce import Setting, run

    findings = run(["overfitting"], Setting(seed=1, quick=True))

A study is one module in `dpcore.reproduce.studies` that defines `STUDY`. Data and noise come from a seed, so a run repeats bit for bit on
every machine. Nothing in it is private: documents have `secure = false`.
"""

from dpcore.reproduce.registry import Study, known_studies
from dpcore.reproduce.results import Check, Figure, Panel, Section, Series, Slope, Table
from dpcore.reproduce.run import Findings, run
from dpcore.reproduce.setting import Setting

__all__ = ["Check", "Figure", "Findings", "Panel", "Section", "Series", "Setting", "Slope", "Study", "Table", "known_studies", "run"]


def __dir__() -> list[str]:
    return __all__
