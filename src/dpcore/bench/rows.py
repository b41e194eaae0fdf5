"""Made-up tables of any length: they look like a health survey and are the same on every run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
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


def uniform(start: int, stop: int, salt: int) -> npt.NDArray[np.float64]:
    """Numbers in (0, 1) for rows start … stop − 1."""
    rows = np.arange(start, stop, dtype=np.uint64) + np.uint64(salt << 40)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        rows = (rows ^ (rows >> np.uint64(shift))) * np.uint64(factor)
    found: npt.NDArray[np.float64] = ((rows >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return found


def row_group(start: int, stop: int) -> Any:
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
