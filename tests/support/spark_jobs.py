"""A table and jobs as a user writes them, for tests of commands on Spark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 3000
LOCAL = """
version = 1
keep = ["region"]
[input]
path = "people"
[output]
path = "out/private.parquet"
[privacy]
max_epsilon = 5.0
[[column]]
name = "smoker"
mechanism = "binary"
epsilon = 1.0
[[column]]
name = "visits"
mechanism = "discrete_laplace"
epsilon = 1.0
lower = 0
upper = 20
missing = 0
"""
CENTRAL = """
version = 1
[input]
path = "people"
[output]
path = "out/answers.json"
[privacy]
max_epsilon = 4.0
unit = "person"
max_rows_per_unit = 2
relation = "add_remove"
[[query]]
name = "regions"
kind = "histogram"
column = "region"
categories = ["north", "south"]
missing = "north"
unknown = "north"
epsilon = 1.0
[[query]]
name = "visits"
kind = "mean"
column = "visits"
lower = 0
upper = 20
missing = 0
epsilon = 1.0
"""
CHARGED = CENTRAL + '[ledger]\npath = "visits.ledger"\n'
KEYED = CENTRAL + f'[testing]\nkey_hex = "{"07" * 32}"\n'


def people(folder: Path) -> None:
    """A table in three files, with nulls."""
    (folder / "people").mkdir()
    numbers = np.random.default_rng(5)
    for part in range(3):
        visits = [None if i % 17 == 0 else int(v) for i, v in enumerate(numbers.integers(0, 25, ROWS // 3))]
        table = pa.table({
            "person": numbers.integers(0, 700, ROWS // 3),
            "smoker": numbers.random(ROWS // 3) < 0.3,
            "visits": pa.array(visits, pa.int32()),
            "region": pa.array(np.where(numbers.random(ROWS // 3) < 0.5, "north", "south")),
        })  # fmt: skip
        pq.write_table(table, folder / "people" / f"part-{part}.parquet")
