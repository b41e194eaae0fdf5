"""Start-up: the CPU time of fresh processes that import dpcore or run a command, beside importing NumPy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial

from dpcore.bench.benchmark import Benchmark, Plan, Prepare, Side, Work

LINES = {
    "import dpcore": ("-c", "import dpcore"),
    "from dpcore import noise": ("-c", "from dpcore import noise"),
    "dpcore --help": ("-m", "dpcore.cli", "--help"),
    "dpcore info": ("-m", "dpcore.cli", "info"),
}


def fresh(*arguments: str) -> Work:
    """A work that runs a new interpreter with these arguments, and fails if it does.

    Parameters
    ----------
    *arguments : str
        The command line of the interpreter.
    """
    command = [sys.executable, *arguments]
    return partial(subprocess.run, command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


def _running(*arguments: str) -> Prepare:
    return lambda _inputs: fresh(*arguments)


def start_benchmarks(_plan: Plan) -> Iterator[Benchmark]:
    """Fresh processes.

    Parameters
    ----------
    _plan : Plan
        Not used.
    """
    sides = (
        Side(name="import numpy", prepare=_running("-c", "import numpy"), kind="bound", judges=True),
        Side(name="an empty program", prepare=_running("-c", "pass"), kind="bound"),
    )
    for name, arguments in LINES.items():
        yield Benchmark(
            group="start", name=name, size=1, unit="process", inputs=lambda: None, ours=_running(*arguments), sides=sides, children=True,
            character="whole", weight=3.0, package="click" if name.startswith("dpcore") else "numpy",
        )  # fmt: skip
