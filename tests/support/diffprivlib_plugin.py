"""A plugin of pytest for diffprivlib's own tests, in a process of their own: with or without dpcore beneath, for several seeds.

`DPCORE_SERVES` is "", "scalars" or "arrays". `DPCORE_SEEDS` is how often each test runs; run i adds i millions to every seed. The counts
of outcomes by test go to `DPCORE_OUTCOMES` as JSON.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

STEP = 1_000_003
outcomes: dict[str, Counter[str]] = defaultdict(Counter)
runs: Counter[str] = Counter()
own = np.random.RandomState


class _LikeOwn(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, own)  # the global one and copies by pickle, too


class Shifted(own, metaclass=_LikeOwn):
    """A random state whose seed depends on the run."""

    offset = 0

    def __init__(self, seed: Any = None) -> None:
        super().__init__(seed if seed is None else seed + self.offset if isinstance(seed, int) else seed)


def pytest_configure(config: Any) -> None:
    """Serve, if that is asked for."""
    if os.environ.get("DPCORE_SERVES"):
        from dpcore.interop import diffprivlib

        diffprivlib.install(vectorise=os.environ["DPCORE_SERVES"] == "arrays")
    if int(os.environ.get("DPCORE_SEEDS", "1")) > 1:
        np.random.RandomState = Shifted  # type: ignore[misc]


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Run each test so often."""
    items[:] = items * int(os.environ.get("DPCORE_SEEDS", "1"))


def pytest_runtest_setup(item: Any) -> None:
    """Another offset for each run of a test."""
    Shifted.offset = STEP * runs[item.nodeid]
    runs[item.nodeid] += 1


def pytest_runtest_logreport(report: Any) -> None:
    """Count the outcome."""
    if report.when == "call" or report.outcome == "failed":
        outcomes[report.nodeid][report.outcome] += 1


def pytest_sessionfinish() -> None:
    """Write what was counted."""
    if path := os.environ.get("DPCORE_OUTCOMES"):
        Path(path).write_text(json.dumps(outcomes), encoding="utf-8")


def is_served() -> bool:
    """Whether dpcore is beneath diffprivlib in this process."""
    import diffprivlib.mechanisms

    return "dpcore" in diffprivlib.mechanisms.Laplace.randomise.__globals__["__name__"]
