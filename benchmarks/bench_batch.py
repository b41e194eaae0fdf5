"""`dpcore privatize` on 10^7 rows × 4 columns, beside its floor: plain pyarrow reads the input and writes values already privatised."""

from __future__ import annotations

import runpy
import statistics
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dpcore.batch import load_job, make_plan, privatize

ROWS = 10_000_000
ROUNDS = 5


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("batch")
    source, job = folder / "rows.parquet", folder / "job.toml"
    script = runpy.run_path(str(Path(__file__).with_name("make_rows.py")))
    script["make_rows"](ROWS, source)
    job.write_text(script["JOB"].format(source=source, target=folder / "private.parquet"), encoding="utf-8")
    return make_plan(load_job(job))


def seconds(action):
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


@pytest.mark.parametrize("encodings", ["pyarrow's", "the job's"])
def test_job_beside_its_floor(benchmark, plan, encodings):
    """The second floor saves pyarrow the dictionaries of columns that never repeat, as the job does."""
    privatize(plan)
    private = pq.read_table(plan.output)
    assert len(private) == ROWS
    copy = plan.output.with_name("floor.parquet")
    dictionary = True if encodings == "pyarrow's" else [column.name for column in plan.columns if column.mechanism.integral]

    def floor():
        pq.read_table(plan.inputs.paths[0], columns=list(plan.read_types))
        pq.write_table(private, copy, compression="zstd", use_dictionary=dictionary)

    ratios = [seconds(lambda: privatize(plan)) / seconds(floor) for _ in range(ROUNDS)]
    benchmark.pedantic(lambda: privatize(plan), rounds=ROUNDS)
    benchmark.extra_info["rows"] = ROWS
    benchmark.extra_info["times the floor (median of alternating runs)"] = round(statistics.median(ratios), 3)
