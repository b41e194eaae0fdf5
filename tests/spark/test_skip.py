"""`missing = "skip"` on Spark: the schema and metadata of one machine, and estimates that hold the truth."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcore.batch import make_plan, parse_job
from dpcore.batch import privatize as local_privatize
from dpcore.spark import estimate, privatize

ROWS = 4000
COLUMNS = [
    {"name": "cost", "mechanism": "laplace", "epsilon": 2.0, "lower": 0, "upper": 20, "missing": "skip"},
    {"name": "visits", "mechanism": "bounded_mean", "epsilon": 2.0, "lower": 0, "upper": 20, "missing": "skip"},
    {"name": "region", "mechanism": "kary", "epsilon": 2.0, "categories": ["north", "south"], "missing": "skip"},
]


def test_columns_with_empty_cells(spark, tmp_path):
    there = np.arange(ROWS) % 4 > 0
    numbers = pa.array([float(place % 21) if each else None for place, each in enumerate(there)])
    words = pa.array([["north", "south"][place % 2] if each else None for place, each in enumerate(there)])
    pq.write_table(pa.table({"cost": numbers, "visits": numbers, "region": words}), tmp_path / "in.parquet", compression="none")
    job = {
        "version": 1,
        "input": {"path": str(tmp_path / "in.parquet")},
        "output": {"path": str(tmp_path / "local.parquet")},
        "privacy": {"max_epsilon": 6.0},
        "testing": {"key_hex": "07" * 32},
        "column": COLUMNS,
    }
    local_privatize(make_plan(parse_job(job)))
    pending = privatize(spark.read.parquet(job["input"]["path"]), job)
    assert pending.guarantee.startswith("Whatever one person answered")
    pending.write(str(tmp_path / "there"))
    there_schema, here_schema = pq.read_schema(next((tmp_path / "there").glob("*.parquet"))), pq.read_schema(job["output"]["path"])
    assert {field.name: field.metadata for field in there_schema} == {field.name: field.metadata for field in here_schema}
    assert there_schema.types == here_schema.types
    truth = {"cost": np.mean([place % 21 for place in np.flatnonzero(there)]), "region": np.array([1 / 3, 2 / 3])}
    truth["visits"] = truth["cost"]
    for column in estimate(str(tmp_path / "there"), confidence=0.999999, target="sample").columns:
        ends = np.atleast_2d(column.interval)
        assert (ends[:, 0] <= truth[column.column.name]).all(), column
        assert (truth[column.column.name] <= ends[:, 1]).all(), column
        low, high = column.unanswered.interval(0.999999)
        assert low <= 0.25 <= high
