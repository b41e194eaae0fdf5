"""The minimax engine beside NumPy, the memory and the clock: `make bench`. Each benchmark checks its answer.

`python -m pytest benchmarks/bench_minimax.py` prints the table; DPCORE_BENCH_VALUES is the number of records (10^7): a tenth as many data
sets, and ten times as many packed bits.
"""

from __future__ import annotations

import os
from typing import Any

from dpcore import _backend
from dpcore.bench import Row
from dpcore.bench.minimax import build_row, end_row, look_up_rows, packed_row, walk_row
from ratios import ROWS

N = int(os.environ.get("DPCORE_BENCH_VALUES", "10000000"))
ROUNDS = 7
LEVELS = _backend.available_levels()[::-1]


def keep(benchmark: Any, rows: list[Row]) -> None:
    """Keep rows for the table, and the first in the benchmark's record."""
    ROWS.extend(rows)
    row = rows[0]
    benchmark.extra_info.update(ratio=row.ratio, against=row.against, target=row.target, met=row.met, ours_ns=row.ours_ns)


def test_look_up(level: str, benchmark: Any) -> None:
    keep(benchmark, benchmark.pedantic(look_up_rows, (level, N // 10, ROUNDS), rounds=1))


def test_walk(level: str, benchmark: Any) -> None:
    keep(benchmark, [benchmark.pedantic(walk_row, (level, N // 10, 3), rounds=1)])


def test_packed_bits(level: str, benchmark: Any) -> None:
    keep(benchmark, [benchmark.pedantic(packed_row, (level, 10 * N, ROUNDS), rounds=1)])


def test_build(benchmark: Any) -> None:
    keep(benchmark, [benchmark.pedantic(build_row, (_backend.selected_level(),), rounds=1)])


def test_end_to_end(level: str, benchmark: Any) -> None:
    keep(benchmark, [benchmark.pedantic(end_row, (level, N), rounds=1)])
