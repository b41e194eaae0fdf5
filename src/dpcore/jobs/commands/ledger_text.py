"""Text of `dpcore ledger`: help, and the tables that show a ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore._terminal import make_table
from dpcore.pages.numbers import plain_number, rounded_down, rounded_up
from dpcore.tables.recorded import in_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.table import Table

PARTS = ("budget", "spent", "unfinished", "failed", "remaining")
SPENT = ("spent", "unfinished", "failed")
"""The parts that are rounded up. The others are what may be spent, and are rounded down."""
NOTES = {"unfinished": " (part of spent: jobs that are running or were killed)", "failed": " (part of spent)"}
NOTHING_SPENT = "Nothing has been spent."
RULES = {
    "basic": "epsilon and delta add up",
    "zcdp": "rho and the delta of failures add up",
    "gdp": "squares of mu and the delta of failures add up",
}
"""What adds up in ledgers of each kind."""
WIDE = 160
"""Columns from which on each property of a spend has a column of its own."""
RUN = 12
"""Letters of the id of a run in a narrow table."""
SHOWN = 8
"""Queries of a spend in a table."""


def describe(state: Mapping[str, Any]) -> str:
    """Describe a ledger: what it is for, its budget, and what is spent and left of it, one line each."""
    rule = RULES[state["kind"]]
    lines = [f"ledger      {state['path']} (kind {state['kind']}: {rule}; {about(state)})"]
    for part in PARTS:
        note = NOTES.get(part, "") if any(state[part].values()) else ""
        lines.append(f"{part:<10}  {amount(state[part], up=part in SPENT)}{note}")
    return "\n".join(lines)


HEADINGS = {"version": "dpcore", "job": "job, by its output"}


def entries_table(state: Mapping[str, Any], width: int = WIDE) -> Table:
    """Make a table of the spends, for so many columns of a terminal. Columns that no spend fills are left out."""
    # a spend has the rho of its mu, because these add up
    numbers = ("id", *("rho" if key == "mu" else key for key in state["budget"]))
    keys = [*numbers, "state", "reason", "what", "job", "run", "dataset", "version", "user", "host"]
    keys = [key for key in keys if key not in ("reason", "run", "dataset", "user", "host") or any(entry[key] for entry in state["entries"])]
    if width < WIDE:
        return make_table(("when", *numbers, "state", "what"), _narrow_rows(state, numbers, keys), right=numbers)
    headings = ["when", *(HEADINGS.get(key, key) for key in keys)]
    rows = [row for entry in state["entries"] for row in _rows(entry, keys)]
    return make_table(headings, rows, right=numbers)


def _rows(entry: Mapping[str, Any], keys: Sequence[str]) -> Iterator[list[object]]:
    """The row of a spend, and below it one for each of its first queries."""
    yield [entry["when"], *(_cell(key, entry[key]) for key in keys)]
    queries = entry.get("queries", [])
    lines = [f"  {in_words(query)}" for query in queries[:SHOWN]]
    for line in [*lines, *([f"  … {len(queries) - SHOWN} more; --json has all"] if len(queries) > SHOWN else [])]:
        yield ["", *(line if key == "what" else "" for key in keys)]


def _narrow_rows(state: Mapping[str, Any], numbers: Sequence[str], keys: Sequence[str]) -> Iterator[list[object]]:
    """The rows of a narrow table: what would need a column of its own stands below what was asked."""
    for entry in state["entries"]:
        run, user, host = entry["run"], entry["user"], entry["host"]
        details = [
            *(f"{key} {entry[key]}" for key in ("reason", "job", "dataset") if key in keys and entry[key]),
            *([f"run {run[:RUN]}{'…' if len(run) > RUN else ''}"] if run else []),
            " ".join([f"dpcore {entry['version']}", *([f"by {user}"] if user else []), *([f"on {host}"] if host else [])]),
        ]
        first, *queries = _rows(entry, ["what"])
        yield [when_in_short(entry["when"]), *(_cell(key, entry[key]) for key in numbers), entry["state"], first[1]]
        for line in (*(row[1] for row in queries), *(f"  {each}" for each in details)):
            yield ["", *("" for _ in numbers), "", line]


def when_in_short(when: str) -> str:
    """A time to the minute."""
    return when[:16].replace("T", " ")


def about(state: Mapping[str, Any]) -> str:
    """Describe what the budget of a ledger refers to."""
    dataset = "for several data sets" if state["dataset"] is None else f"data set {state['dataset']}"
    return f"relation {state['relation']}; unit {state['unit']}; {dataset}"


def amount(part: Mapping[str, Any], *, up: bool = False) -> str:
    """Describe a part of a budget, rounded down; `up` is for what was spent."""
    rounded = rounded_up if up else rounded_down
    return ", ".join(f"{key} {rounded(value)}" for key, value in part.items() if value is not None)


def _cell(key: str, value: object) -> object:
    """The number of a spend, or its cost, which is rounded up; a text as it is."""
    return rounded_up(value) if isinstance(value, float) else plain_number(value) if key == "id" else value
