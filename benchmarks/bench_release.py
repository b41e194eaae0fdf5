"""Releases of distributions and private tests beside NumPy and the time they may take; `dpcore release` on 10^7 rows beside reading the
same columns with plain pyarrow, and beside the same statistics without privacy.

`python -m pytest benchmarks/bench_release.py` prints the table of ratios; DPCORE_BENCH_VALUES is the number of values (10^7).
"""

from __future__ import annotations

import os
import runpy
import statistics
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dpcore.batch import make_release_plan, parse_release_job
from dpcore.batch.release import run
from dpcore.bench.distributions import choice_row, cosine_row, histogram_row, ks_row, product_row, sample_row, uniformity_row
from ratios import ROWS as MEASURED

VALUES = int(os.environ.get("DPCORE_BENCH_VALUES", "10000000"))
ROWS = 10_000_000
ROUNDS = 5
COMPARISONS = {
    "codes": partial(choice_row, n=VALUES, rounds=ROUNDS),
    "cosines": partial(cosine_row, n=VALUES // 100, rounds=ROUNDS),
    "signs": partial(product_row, n=VALUES // 100, rounds=ROUNDS),
    "histogram": partial(histogram_row, n=VALUES, rounds=ROUNDS),
    "synthetic records": partial(sample_row, n=VALUES, rounds=ROUNDS),
    "ks": partial(ks_row, rounds=ROUNDS),
    "uniformity": uniformity_row,
}
QUERIES = [
    {"name": "rows", "kind": "count"},
    {"name": "ages", "kind": "histogram", "column": "age", "edges": [18, 30, 40, 50, 60, 70, 100]},
    {"name": "visits", "kind": "sum", "column": "visits", "lower": 0, "upper": 50},
    {"name": "mean cost", "kind": "mean", "column": "cost", "lower": 0, "upper": 1000},
    {"name": "quartiles", "kind": "quantile", "column": "cost", "q": [0.25, 0.5, 0.75], "grid": {"start": 0, "stop": 1000, "step": 5}},
    {"name": "most frequent", "kind": "top_s", "column": "visits", "k": 50, "s": 3},
]


@pytest.mark.parametrize("comparison", COMPARISONS.values(), ids=COMPARISONS)
def test_releases(comparison, level, benchmark):
    row = benchmark.pedantic(partial(comparison, level), rounds=1)
    MEASURED.append(row)
    benchmark.extra_info.update(ratio=row.ratio, against=row.against, target=row.target, met=row.met, ours_ns=row.ours_ns)


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("release")
    script = runpy.run_path(str(Path(__file__).with_name("make_rows.py")))
    script["make_rows"](ROWS, folder / "rows.parquet")
    job = {
        "version": 1,
        "input": {"path": str(folder / "rows.parquet")},
        "output": {"path": str(folder / "answers.json")},
        "privacy": {"max_epsilon": 6.0},
        "query": [query | {"epsilon": 1.0} for query in QUERIES],
    }
    return make_release_plan(parse_release_job(job))


def seconds(action):
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def record(benchmark, plan, what, other):
    # Noise of scale 2 is beyond 100 with probability below 10^-20.
    assert abs(next(query["value"] for query in run(plan)["queries"] if query["name"] == "rows") - ROWS) < 100
    ratios = [seconds(lambda: run(plan)) / seconds(other) for _ in range(ROUNDS)]
    benchmark.pedantic(lambda: run(plan), rounds=ROUNDS)
    benchmark.extra_info["rows"] = ROWS
    benchmark.extra_info[f"times {what} (median of alternating runs)"] = round(statistics.median(ratios), 3)


def test_beside_reading_alone(benchmark, plan):
    record(benchmark, plan, "reading", lambda: pq.read_table(plan.inputs.paths[0], columns=list(plan.read_types)))


def test_beside_exact_statistics_in_memory(benchmark, plan):
    """What an analyst writes who holds the table in memory and adds no noise."""

    def exact():
        table = pq.read_table(plan.inputs.paths[0], columns=list(plan.read_types))
        age, visits, cost = (table[name].to_numpy() for name in ("age", "visits", "cost"))
        counts = np.bincount(np.clip(visits, 0, 50))
        found = (
            len(table),
            np.histogram(age, QUERIES[1]["edges"])[0],
            np.clip(visits, 0, 50).sum(),
            np.clip(cost, 0, 1000).mean(),
            pc.quantile(table["cost"], QUERIES[4]["q"]),
            np.argsort(counts)[-3:],
        )
        assert abs(found[3] - answers["mean cost"]) < 1

    answers = {query["name"]: query["value"] for query in run(plan)["queries"]}
    record(benchmark, plan, "exact statistics in memory", exact)
