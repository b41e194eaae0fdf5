"""Whether DuckDB can be used here, which only expressions need, and groups that only the data know; or why not."""

from __future__ import annotations

from dpcore._extras import advice, lacking
from dpcore.errors import JobError

__all__ = ["duckdb"]

if _missing := lacking("expressions"):
    raise JobError(advice("an expression, or a query whose groups only the data know,", "expressions", _missing))

import duckdb
