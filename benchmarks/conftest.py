"""What all benchmarks share: the plan of a session, and a table of its ratios at the end."""

from __future__ import annotations

import os
from typing import Any

import pytest

from dpcore import _backend
from dpcore.bench import Benchmark, Plan, benchmarks
from dpcore.bench.document import statistics_of
from dpcore.bench.results import Results, Row
from dpcore.bench.run import run
from dpcore.bench.table import rows_of

VALUES = int(os.environ.get("DPCORE_BENCH_VALUES", "1000000"))
SECONDS = 2.0
"""Time of a benchmark."""
GRACE = 60.0
"""Time by which its first block may be longer."""
PLAN = Plan(size=VALUES, largest=VALUES, cores=_backend.default_threads(), quick=True)
MEASURED: list[Row] = []
LEVELS = _backend.available_levels()[::-1]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each benchmark of the group that the module names, at each CPU level."""
    if "item" in metafunc.fixturenames:
        items = benchmarks(PLAN, metafunc.module.GROUPS)
        pairs = [(item, level) for item in items for level in (LEVELS if item.levels else LEVELS[:1])]
        metafunc.parametrize(("item", "level"), pairs, ids=[f"{item.key}-{level}" for item, level in pairs])


@pytest.fixture
def measure(benchmark: Any):
    """Run one benchmark of the registry, and hand its numbers to pytest-benchmark."""

    def measured(item: Benchmark, level: str) -> Results:
        results, interruption = benchmark.pedantic(run, ([item], SECONDS), {"mode": "full", "levels": (level,), "grace": GRACE}, rounds=1)
        if interruption is not None:
            raise interruption
        if item.package in {absent.package for absent in results.absent}:
            pytest.skip(f"{item.package} is not installed")
        assert results.broken == ()
        (row,) = results.rows
        MEASURED.append(row)
        ratios = {other.name: row.ratio(other) for other in row.others}
        benchmark.extra_info.update(ratios={name: [r.value, r.low, r.high] for name, r in ratios.items() if r is not None})
        benchmark.extra_info.update(nanoseconds=row.ours.nanoseconds, ours=statistics_of(row.ours.known, row.ours.calls))
        return results

    return measured


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table of ratios."""
    if MEASURED:
        terminalreporter.section("ratios")
        headings, rows = rows_of(MEASURED)
        for line in [headings, *rows]:
            terminalreporter.write_line("  ".join(line))
