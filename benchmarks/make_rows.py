"""Writes a Parquet file of N rows and four columns, row group by row group, in the memory of one row group.

    python benchmarks/make_rows.py 100000000 rows.parquet

The values are made up, look like a health survey, and are the same on every run: they come from multiplicative hashes of the row number.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dpcore.bench.rows import JOB, ROW_GROUP_ROWS, SCHEMA, make_rows, row_group, uniform

__all__ = ["JOB", "ROW_GROUP_ROWS", "SCHEMA", "make_rows", "row_group", "uniform"]

if __name__ == "__main__":
    if len(sys.argv) != 3 or not sys.argv[1].isdecimal():
        sys.exit(__doc__)
    make_rows(int(sys.argv[1]), Path(sys.argv[2]))
