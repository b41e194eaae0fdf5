"""How long one row of each unit takes to make, beside DuckDB's own GROUP BY of the same file, in one run.

    python benchmarks/rows_of_units.py --rows 10000000 --units 1000000

Five aggregates of integers. The database may add numbers in any way and keep no promise about them; here the answers have to be equal.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpcore.batch import make_release_plan, parse_release_job
from dpcore.query.local_backend import LocalPasses
from dpcore.tables.progress import Silent

THREADS = 2
MADE = {"n": "count(*)", "low": "min(a)", "high": "max(b)", "total": "sum(b)", "some": "bool_or(a > 90)"}


@dataclass(frozen=True)
class Room:
    """A folder for what does not fit into memory."""

    spill: Path


def by_database(path: Path) -> tuple[float, pa.Table]:
    """Seconds, and the rows."""
    columns = ", ".join(f"{sql} AS {name}" for name, sql in MADE.items())
    with duckdb.connect(config={"threads": THREADS}) as database:
        began = time.perf_counter()
        database.execute(f"CREATE TABLE made AS SELECT unit, {columns} FROM '{path}' GROUP BY unit")
        taken = time.perf_counter() - began
        return taken, database.sql("SELECT * REPLACE (CAST(total AS BIGINT) AS total) FROM made ORDER BY unit").to_arrow_table()


def by_dpcore(path: Path, folder: Path) -> tuple[float, pa.Table]:
    """The same."""
    job = {
        "version": 1, "input": {"path": str(path)}, "output": {"path": str(folder / "answers.json")},
        "privacy": {"max_epsilon": 1.0, "unit": "unit"}, "per_unit": MADE, "query": [{"name": "n", "kind": "count", "epsilon": 1.0}],
    }  # fmt: skip
    plan = make_release_plan(parse_release_job(job))
    began = time.perf_counter()
    made = LocalPasses(Room(folder / "spill"), THREADS, Silent()).make_rows(plan).inputs.made  # type: ignore[attr-defined]
    return time.perf_counter() - began, pa.Table.from_batches(made).sort_by("unit")


def main() -> None:
    """Measure, in turns."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--units", type=int, default=10**6)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as name:
        folder, path = Path(name), Path(name) / "in.parquet"
        columns = {"a": rng.integers(0, 100, given.rows).astype(np.int32), "b": rng.integers(-(10**6), 10**6, given.rows)}
        pq.write_table(pa.table({"unit": rng.integers(0, given.units, given.rows), **columns}), path)
        del columns
        ratios = []
        for _ in range(given.rounds):
            own, found = by_dpcore(path, folder)
            others, wanted = by_database(path)
            ratios.append(own / others)
            if found.equals(wanted.cast(found.schema)) is False:
                sys.exit("the rows differ")
            print(f"dpcore {own:.2f} s, DuckDB {others:.2f} s")
    print(f"median ratio {statistics.median(ratios):.2f}; {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB with both")


if __name__ == "__main__":
    main()
