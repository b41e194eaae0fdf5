"""Timing beside peers and bounds. Every claim of speed is a ratio from one run in which both sides take turns."""

from dpcore.bench.bands import Ratio, ratio_of
from dpcore.bench.benchmark import Benchmark, Plan, Side
from dpcore.bench.noise import Case, cases, check_answer
from dpcore.bench.registry import GROUPS, benchmarks
from dpcore.bench.timing import take_turns

__all__ = ["GROUPS", "Benchmark", "Case", "Plan", "Ratio", "Side", "benchmarks", "cases", "check_answer", "ratio_of", "take_turns"]


def __dir__() -> list[str]:
    return __all__
