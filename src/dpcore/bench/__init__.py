"""Timing beside peers and bounds. Every claim of speed is a ratio from one run in which both sides take turns."""

from dpcore.bench.noise import Case, cases, check_answer
from dpcore.bench.table import Row, as_json, as_text
from dpcore.bench.timing import Timing, take_turns

__all__ = ["Case", "Row", "Timing", "as_json", "as_text", "cases", "check_answer", "take_turns"]


def __dir__() -> list[str]:
    return __all__
