"""Interop beside the native paths of its peers: one module a peer."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from dpcore.bench.benchmark import Benchmark, Plan

PEERS: tuple[str, ...] = (
    "columns",
    "diffprivlib",
    "numpy",
    "opacus",
    "opendp",
    "pipelinedp",
    "smartnoise",
    "tumult",
)
"""Modules of this package, in the order of the table."""


def interop_benchmarks(plan: Plan) -> Iterator[Benchmark]:
    """Every module of `dpcore.interop` beside its peer.

    Parameters
    ----------
    plan : Plan
        How much is measured.
    """
    for peer in PEERS:
        yield from import_module(f"dpcore.bench.interop.{peer}").benchmarks(plan)
