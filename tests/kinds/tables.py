"""The tables that examples are asked of, and keys that several kinds share."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

# Keys of queries on the table of `support.every_query`

NUMBERS = {"column": "v", "lower": -1.0, "upper": 3.0, "missing": 2.0}
FOUND = {"column": "v", "missing": 2.0, "bounds": "private", "bounds_epsilon": 5.0}
GRID = {"column": "v", "grid": {"start": -1, "stop": 3, "step": 0.25}, "missing": 1}


# Queries that DuckDB answers too, on random tables of `person`, `region`, `code`, `x` and `day`


@dataclass(frozen=True)
class Oracle:
    """A query, and the same in DuckDB's SQL: its groups, if there are any, and the exact answer.

    Attributes
    ----------
    keys : dict
        Of the query. ε is chosen so that no integer moves, and few numbers by more than `near`.
    sql : str
        On a view `t`, in which NaN is NULL.
    near : float
        How far the answer may be from that of DuckDB.
    of_no_rows : float or None
        The answer to a group without rows; None if there is none.
    is_choice : bool
        Whether DuckDB gives all answers between which noise decides.
    of_units : bool
        Whether it is about units: `person`.
    """

    keys: dict[str, Any]
    sql: str
    epsilon: float = 9e5
    near: float = 0.0
    of_no_rows: float | None = 0
    is_choice: bool = False
    of_units: bool = False


ODD = ["", " ", "a", "A", "a ", "null", "NaN", "0", "' OR 1=1 --", "ü\u0308", "\U0001f600", "long " * 80, 'say "x"', "%_\\"]
EDGES = [-4.0, -1.0, 0.0, 0.1, 3.0, 8.0]
FIRST = dt.date(2023, 11, 17)
MONTHS = {"by": "month", "first": "2023-12-01", "last": "2024-02-29"}
WHERE = "x > -1 AND (region IS NULL OR region <> 'a') OR code % 3 = 1"
BANDS = ["none", "low", "high"]
REGIONS = {"region": {"values": ODD, "null": True}}
LIST = {"group_by": "region", "groups": ODD}
TWO = {"group_by": ["region", "code"], "groups": {**REGIONS, "code": {"k": 6, "null": True}}}
X = {"column": "x", "lower": -4.0, "upper": 8.0, "missing": "skip"}
CLAMPED, THERE = "greatest(-4.0, least(8.0, x))", "x IS NOT NULL"
BIN = "CASE WHEN x >= -4 AND x <= 8 THEN least((x >= -1)::int + (x >= 0)::int + (x >= 0.1)::int + (x >= 3)::int + (x >= 8)::int, 4) END"
