"""Drafts of jobs: what the names and types of a table tell, with comments for the rest. No row is read."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from dpcore.jobs.commands.draft_queries import TITLES, query_lines, quoted
from dpcore.jobs.loading import OPEN
from dpcore.pages.printable import UNPRINTABLE, printable
from dpcore.tables.types.values import REAL_TYPES
from dpcore.tables.types.whole_arrays import VIEW

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MOST_COLUMNS = 200
"""Columns that are drafted; a comment names the number of the others."""
MOST_LETTERS = 130
"""Letters of a line of names."""
LOCAL = ("number", "category", "truth")
"""Kinds of columns that local mechanisms take."""
MISSING = f'missing = {OPEN}           # "skip": estimates leave empty cells out; or what they count as:'


def job_for(path: str, form: str, columns: Mapping[str, pa.DataType | None], kind: str) -> str:
    """Return the text of a job.

    Parameters
    ----------
    path : str
        The input, as the user named it.
    form : str
        Its format.
    columns : mapping
        The type of each column; None in a format that has none.
    kind : {"release", "privatize"}
        The command that the job is for.
    """
    usable = {name: _kept(each, kind) for name, each in columns.items()}
    count = sum(_is_fit(name) and (given is None or usable[name] is not None) for name, given in list(columns.items())[:MOST_COLUMNS])
    parts = [_head_of_release(path) if kind == "release" else _head_of_privatize(path, form, max(count, 1))]
    drafted = _query if kind == "release" else _column
    shown = dict(list(columns.items())[:MOST_COLUMNS])
    parts += ["\n".join(drafted(name, each, usable[name])) for name, each in shown.items() if each is not None or not _is_fit(name)]
    untyped = [name for name, each in shown.items() if each is None and _is_fit(name)]
    if untyped:
        parts.append("\n".join(_without_types(untyped, _WAYS[kind])))
    if len(columns) > MOST_COLUMNS:
        parts.append(f"# {len(columns) - MOST_COLUMNS:,} more columns are not drafted.")
    return "\n\n".join(parts) + "\n"


def kind_of(given: pa.DataType | None) -> str | None:
    """What can be done with a type: a key of `draft_queries.TITLES`; None if nothing is drafted for it."""
    plain = given.value_type if given is not None and pa.types.is_dictionary(given) else given
    if plain is None:
        return None
    if plain in REAL_TYPES:
        return "number" if plain is given else "category"
    kinds = {
        "truth": pa.types.is_boolean,
        "decimal": pa.types.is_decimal,
        "date": pa.types.is_date,
        "timestamp": pa.types.is_timestamp,
        "time": pa.types.is_time,
        "duration": pa.types.is_duration,
        "category": lambda each: pa.types.is_string(each) or pa.types.is_large_string(each) or each == VIEW,
    }
    return next((name for name, is_kind in kinds.items() if is_kind(plain)), None)


def _kept(given: pa.DataType | None, kind: str) -> str | None:
    """The kind of a column, if the command takes it."""
    found = kind_of(given)
    return found if kind == "release" or (found in LOCAL and given != VIEW) else None


def _head_of_release(path: str) -> str:
    stem = _stem(path)
    return f"""\
# A draft by dpcore init. Write what only you can know in place of each {OPEN}: ranges and categories from what you know about the
# subject, never from the data. Then: dpcore release JOB --dry-run, which reads no row. Remove the queries that you do not need: the
# fewer there are, the less noise each has.
version = 1

[input]
path = {quoted(path)}
# dataset = "{stem}-1"       # the name and version of the data, for a ledger: raise it when the table has changed

[output]
path = {quoted(f"out/{stem}-release.json")}

[privacy]
max_epsilon = 1.0             # what all answers together may reveal about one row, or one unit:
                              # ε up to 1 is strong, 1 to 3 moderate, above 3 weak, above 10 hardly a promise
# relation = "add_remove"     # protects whether somebody is in the table, too; histograms then have half the noise. Default: "replace"
# max_delta = 1e-6            # with accounting = "zcdp", which makes many answers cheaper together, and a delta in each query
# accounting = "zcdp"
# unit = "person_id"          # if a person may have several rows: the column that identifies the person, and
# max_rows_per_unit = 1       # how many rows of a person are used; or, in its place, one row that is made of all rows of a person:

# [per_unit]                  # queries are then about persons
# rows = "count(*)"           # or max(x), mode(x), bool_or(x = 'a'), sum(x) of integers; columns of a CSV are text: CAST(x AS DOUBLE)
# total = {{ sum = "cost", lower = 0, upper = 100 }}             # of floats, each within bounds

# [[join]]                    # what another private table has of the same persons, one row for each
# path = "others.parquet"
# per_unit = {{ plan = "min(plan)" }}

# [ledger]                    # a budget over many jobs: dpcore ledger create {stem}.ledger --epsilon 4
# path = "{stem}.ledger"

# Each query gets its weight's share of max_epsilon. In place of a weight you can give a query its own epsilon = 0.5.
[[query]]
name = "rows"
kind = "count"
# weight = 1                                                   # without the sign # once the number of rows is private, or with groups
# group_by = ["region", "district"]                            # counts and sums for groups, from the coarsest column to the finest,
# groups = {{ region = ["N", "S"], district = ["1", "2"] }}      # which are declared; or "districts.csv", a row for each district
# consistent = true                                            # and whose totals agree, down to each district
# kind = "running_total", steps = 52, step = "${{DATE}}", ...      # in a job of its own: a total every week, all under one budget"""


def _query(name: str, given: pa.DataType | None, kind: str | None) -> Iterator[str]:
    if not _is_fit(name):
        yield f"# {printable(name)!r}: the name holds control characters; rename the column to use it."
        return
    if given is None or kind is None:
        yield from _unused(name, given)
        return
    yield f"# {name} ({given})"
    yield from query_lines(kind, name, given)


def _head_of_privatize(path: str, form: str, count: int) -> str:
    stem = _stem(path)
    ending = Path(path).suffix or f".{form}"
    return f"""\
# A draft by dpcore init. Write what only you can know in place of each {OPEN}: ranges and categories from what you know about the
# subject, never from the data. Then: dpcore privatize JOB --dry-run, which reads no row. Remove the columns that you do not need: they
# are then not in the output, and cost nothing.
version = 1
# keep = ["state"]            # public columns, which are copied as they are and not protected

[input]
path = {quoted(path)}

[output]
path = {quoted(f"out/{stem}-private{ending}")}

[privacy]
max_epsilon = {float(count)}             # what all columns of one row may reveal together: the sum of their epsilon
# unit = "person_id"          # if a person may have several rows: the column that identifies the person, and
# max_rows_per_unit = 1       # how many rows of a person are used"""


def _column(name: str, given: pa.DataType | None, kind: str | None) -> Iterator[str]:
    if not _is_fit(name):
        yield f"# {printable(name)!r}: the name holds control characters; rename the column to use it."
        return
    if given is None or kind is None:
        yield from _unused(name, given)
        return
    yield f"# {name} ({given})"
    if kind == "truth":
        yield from [*_column_head(name, "binary"), f"{MISSING} true or false"]
    elif kind == "number":
        yield from _number_column(name, "discrete_laplace" if pa.types.is_integer(given) else "laplace")
    else:
        yield from _category_column(name)


def _number_column(name: str, mechanism: str) -> list[str]:
    return [
        *_column_head(name, mechanism),
        f"lower = {OPEN}             # numbers below count as this one",
        f"upper = {OPEN}             # numbers above count as this one: the narrower the range, the less noise",
        f"{MISSING} a number",
    ]


def _category_column(name: str) -> list[str]:
    return [
        *_column_head(name, "kary"),
        '# mechanism = "binary" with categories = ["no", "yes"] is for two answers',
        f'categories = {OPEN}        # all values that you expect, as in ["north", "south"]',
        f"{MISSING} a category",
        f"unknown = {OPEN}           # and the one that replaces any other value",
    ]


def _column_head(name: str, mechanism: str) -> list[str]:
    return ["[[column]]", f"name = {quoted(name)}", f'mechanism = "{mechanism}"', "epsilon = 1.0"]


def _without_types(names: Sequence[str], ways: Mapping[str, Callable[[str], Sequence[str]]]) -> Iterator[str]:
    """All ways to use columns whose types the format does not tell, as comments: once, for the first of them."""
    first, *others = names
    listed = _in_lines(list(map(quoted, others)))
    yield "# The types of the columns are not known: a cell is read as what you ask for. Take the signs # from the lines of one of these."
    if listed:
        yield f"# They are written for {quoted(first)}. Copy them for the other columns, with these names:"
        yield from (f"#   {line}" for line in listed)
    for title, lines in ways.items():
        yield f"# For {title}:"
        yield from (f"# {line}" for line in lines(first))


def _in_lines(names: Sequence[str]) -> list[str]:
    """Names with commas between them, in lines of few letters."""
    lines: list[str] = []
    for place, name in enumerate(names):
        text = f"{name}," if place + 1 < len(names) else name
        if lines and len(lines[-1]) + 1 + len(text) <= MOST_LETTERS:
            lines[-1] += f" {text}"
        else:
            lines.append(text)
    return lines


_WAYS: dict[str, dict[str, Callable[[str], Sequence[str]]]] = {
    "release": {
        TITLES["number"]: functools.partial(query_lines, "number"),
        TITLES["category"]: functools.partial(query_lines, "category"),
        f"{TITLES['date']} and {TITLES['timestamp']}": functools.partial(query_lines, "timestamp"),
    },
    "privatize": {TITLES["number"]: lambda name: _number_column(name, "laplace"), TITLES["category"]: _category_column},
}
"""For each command the ways to use a column of text."""


def _unused(name: str, given: pa.DataType | None) -> list[str]:
    return [f"# {name} ({printable(str(given))}): nothing is drafted for this type."]


def _is_fit(name: str) -> bool:
    return bool(name) and UNPRINTABLE.search(name) is None


def _stem(path: str) -> str:
    """A name for outputs: letters, digits and signs that need no escapes."""
    stem = Path(path.rstrip("/*")).stem or "table"
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "-" for letter in stem)
