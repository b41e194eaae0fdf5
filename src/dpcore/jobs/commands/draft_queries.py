"""What a draft asks about a column of each kind: what people ask of such columns most, as the lines of a `[[query]]`."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa

from dpcore.jobs.loading import OPEN

if TYPE_CHECKING:
    from collections.abc import Iterator

TITLES = {
    "number": "numbers",
    "decimal": "decimals",
    "category": "categories",
    "truth": "truth values",
    "date": "dates",
    "timestamp": "timestamps",
    "time": "times of day",
    "duration": "durations",
}
"""Kinds of columns, and their plural."""
SKIPPED = 'missing = "skip"       # rows without a value are left out'
RANGE = (
    f"lower = {OPEN}             # {{}} below count as this one{{}}",
    f"upper = {OPEN}             # {{}} above count as this one: the narrower the range, the less noise",
)
PARTS_OF_A_DAY = "edges = [00:00:00, 06:00:00, 12:00:00, 18:00:00, 23:59:59]"


def query_lines(kind: str, column: str, given: pa.DataType | None = None) -> list[str]:
    """The lines of a query about a column of a kind, a key of `TITLES`, and of a type, if it is known."""
    return list(_QUERIES[kind](column, given))


def quoted(text: str) -> str:
    """A string as TOML writes it; `${` stands for itself."""
    return json.dumps(text.replace("${", "$${"), ensure_ascii=False)


def _head(title: str, kind: str, key: str, column: str) -> Iterator[str]:
    yield from ("[[query]]", f"name = {quoted(title)}", f'kind = "{kind}"', f"{key} = {quoted(column)}", "weight = 1")


def _range(what: str, note: str = "") -> Iterator[str]:
    yield RANGE[0].format(what, note)
    yield RANGE[1].format(what)


def _number(column: str, _: pa.DataType | None) -> Iterator[str]:
    yield from _head(f"mean of {column}", "mean", "column", column)
    yield from _range("numbers")
    yield f"{SKIPPED}; or the number that stands for them"


def _decimal(column: str, given: pa.DataType | None) -> Iterator[str]:
    plain = given.value_type if given is not None and pa.types.is_dictionary(given) else given
    step = Decimal(1).scaleb(-(0 if plain is None else plain.scale))
    yield from _head(f"mean of {column}", "mean", "column", column)
    yield from _range("numbers", f"; written as numbers in the column's unit, which is counted in steps of {step:f}")
    yield f"{SKIPPED}; or the number that stands for them"
    yield '# kind = "sum" adds up, with the same keys; kind = "median" takes grid = { start = 0, stop = 100, step = 0.5 } in place of them'


def _category(column: str, _: pa.DataType | None) -> Iterator[str]:
    yield from _head(f"rows by {column}", "histogram", "column", column)
    yield f'categories = {OPEN}        # all values that you expect, as in ["north", "south"]; or categories_file = "list.csv"'
    yield f"{SKIPPED}; or the category that stands for them"
    yield 'unknown = "skip"       # and rows with another value'


def _truth(column: str, _: pa.DataType | None) -> Iterator[str]:
    yield from _head(f"rows by {column}", "histogram", "column", column)
    yield "categories = [false, true]"
    yield SKIPPED
    yield 'unknown = "skip"       # needed in a CSV only'
    yield '# kind = "mean" with lower = 0 and upper = 1 is the share that is true'


def _date(column: str, _: pa.DataType | None) -> Iterator[str]:
    yield from _head(f"rows by month of {column}", "count", "group_by", column)
    yield f"[query.groups.{json.dumps(column, ensure_ascii=False)}]"  # words are not replaced in keys
    yield 'by = "month"           # or "year" or "day"'
    yield f"first = {OPEN}             # rows before this day are in no group, as in 2024-01-01"
    yield f"last = {OPEN}              # and those after this one"


def _timestamp(column: str, given: pa.DataType | None) -> Iterator[str]:
    yield from _date(column, given)
    zone = "Z" if given is not None and getattr(given, "tz", None) is not None else ""
    grid = f'{{ start = 2024-01-01T00:00:00{zone}, stop = 2024-02-01T00:00:00{zone}, step = "PT1H" }}'
    yield f'# kind = "median" with column and grid = {grid} is their middle'


def _time(column: str, _: pa.DataType | None) -> Iterator[str]:
    yield from _head(f"rows by time of {column}", "histogram", "column", column)
    yield f"{PARTS_OF_A_DAY}   # the ends of the parts of a day"
    yield f"{SKIPPED}; or the time that stands for them"


def _duration(column: str, _: pa.DataType | None) -> Iterator[str]:
    yield from _head(f"mean of {column}", "mean", "column", column)
    yield from _range("durations", ', as in "PT0S" or "PT1H30M"')
    yield f"{SKIPPED}; or the duration that stands for them"


_QUERIES = {
    "number": _number,
    "decimal": _decimal,
    "category": _category,
    "truth": _truth,
    "date": _date,
    "timestamp": _timestamp,
    "time": _time,
    "duration": _duration,
}
