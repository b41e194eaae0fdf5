"""How much a run measures, and how long it takes."""

from __future__ import annotations

from dpcore import _backend
from dpcore.bench.benchmark import Benchmark, Plan
from dpcore.bench.registry import TABLES, benchmarks

SIZES = {"quick": (200_000, 10**6, 2 * 10**6), "full": (10**7, 10**8, 10**7)}
"""Values of large arrays, of the largest of a curve, and of those that several threads work on."""
SECONDS = {"quick": 105.0, "full": 1140.0}
"""Time of all groups but tables; imports and the page take the rest of what `--help` promises."""
EACH = {"quick": 1.5, "full": 8.0}
"""Most time of a benchmark of weight 1, if only some groups run."""
OF_TABLES = {"quick": 108.0, "full": 2400.0}


def items_and_seconds(mode: str, groups: tuple[str, ...] = ()) -> tuple[tuple[Benchmark, ...], float]:
    """Return what a run measures, and its time.

    Parameters
    ----------
    mode : {"quick", "full"}
        The kind of run.
    groups : tuple of str, optional
        Groups. Default: all but tables and interop.

    Raises
    ------
    ParameterError
        If there is no such group.
    """
    size, largest, threaded = SIZES[mode]
    items = benchmarks(Plan(size=size, largest=largest, cores=_backend.default_threads(), quick=mode == "quick", threaded=threaded), groups)
    others = [item for item in items if item.group != TABLES]
    weights = sum(item.weight * (0.25 if item.character == "call" else 1.5) for item in others)
    seconds = min(SECONDS[mode], EACH[mode] * weights) + (OF_TABLES[mode] if len(others) < len(items) else 0.0)
    return items, seconds
