"""Private answers about tables in memory, from Python: `PrivateTable`. Needs the extra `batch`.

A frame of pandas, polars, Arrow or DuckDB is asked as a job asks a file: the same queries, the same noise, the same ledger.

>>> import pyarrow as pa
>>> from dpcore import PrivateTable
>>> people = PrivateTable(pa.table({"person": [1, 1, 2, 3], "age": [31, 31, 52, 47]}), unit="person", max_rows_per_unit=1)
>>> answer = people.mean("age", epsilon=1.0, lower=0, upper=100)
>>> answer.privacy
Privacy(epsilon=1.0, delta=0.0, relation='replace')
>>> 0 <= answer.value <= 100
True
"""

from __future__ import annotations

from dpcore.frames.batches import TableBatch
from dpcore.frames.results import TablePlan, TableResult
from dpcore.frames.table import PrivateTable, average, total
from dpcore.frames.views import GroupedTable

__all__ = ["GroupedTable", "PrivateTable", "TableBatch", "TablePlan", "TableResult", "average", "total"]


def __dir__() -> list[str]:
    return __all__
