"""Writes a Parquet file of N rows and four columns, row group by row group, in the memory of one row group.

    python benchmarks/make_rows.py 100000000 rows.parquet

The values are made up, look like a health survey, and are the same on every run: they come from multiplicative hashes of the row number.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUP_ROWS = 1 << 20
SCHEMA = pa.schema([("visits", pa.int64()), ("age", pa.int32()), ("income", pa.float64()), ("cost", pa.float64())])
JOB = """version = 1
[input]
path = "{source}"
[output]
path = "{target}"
[privacy]
max_epsilon = 4.0
max_delta = 2e-6
[[column]]
name = "visits"
mechanism = "discrete_laplace"
epsilon = 1.0
lower = 0
upper = 50
[[column]]
name = "age"
mechanism = "discrete_gaussian"
epsilon = 1.0
delta = 1e-6
lower = 18
upper = 100
[[column]]
name = "income"
mechanism = "laplace"
epsilon = 1.0
lower = 0
upper = 200000
[[column]]
name = "cost"
mechanism = "gaussian"
epsilon = 1.0
delta = 1e-6
lower = 0
upper = 5000
"""
"""A job with all four mechanisms on these columns."""


def uniform(start: int, stop: int, salt: int) -> np.ndarray:
    """Numbers in (0, 1) for rows start … stop − 1."""
    rows = np.arange(start, stop, dtype=np.uint64) + np.uint64(salt << 40)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        rows = (rows ^ (rows >> np.uint64(shift))) * np.uint64(factor)
    return ((rows >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def row_group(start: int, stop: int) -> pa.Table:
    """Rows start … stop − 1."""
    visits = np.floor(-3.0 * np.log(uniform(start, stop, 1))).astype(np.int64)
    age = (18 + 72 * uniform(start, stop, 2)).astype(np.int32)
    income = np.round(30_000 * -np.log(uniform(start, stop, 3)), 2)
    cost = np.round(120 * -np.log(uniform(start, stop, 4)), 2)
    return pa.table([visits, age, income, cost], schema=SCHEMA)


def make_rows(rows: int, path: Path, *, row_group_rows: int = ROW_GROUP_ROWS) -> None:
    """Write the file."""
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        for start in range(0, rows, row_group_rows):
            writer.write_table(row_group(start, min(start + row_group_rows, rows)), row_group_size=row_group_rows)


if __name__ == "__main__":
    if len(sys.argv) != 3 or not sys.argv[1].isdecimal():
        sys.exit(__doc__)
    make_rows(int(sys.argv[1]), Path(sys.argv[2]))
