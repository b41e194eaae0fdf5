"""Text of `dpcore privatize` about a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcore._terminal import make_table
from dpcore.jobs.commands.words import ends_the_run, source
from dpcore.jobs.privatize_page import HEADINGS, column_row
from dpcore.pages.numbers import plain_name

if TYPE_CHECKING:
    from rich.table import Table

    from dpcore.jobs.privatize_plan import Plan


def column_table(plan: Plan) -> Table:
    """The columns of the output as a table for a terminal."""
    kept = [(name, "kept as it is", *["–"] * (len(HEADINGS) - 2)) for name in plan.job.keep]
    return make_table(HEADINGS, [*kept, *map(column_row, plan.columns)])


def open_cells(plan: Plan) -> list[str]:
    """A line for each column whose cells can end the run, which a job with a ledger has not, or are read from text."""
    info = plan.inputs.inspect(plan.inputs.paths[0])
    lines = []
    for column in plan.columns:
        keys = column.values.missing_keys(None if info.types is None else info.types[column.name])
        if info.schema is not None and not info.schema.field(column.name).nullable:
            keys = tuple(key for key in keys if key != "missing")
        lines += [ends_the_run(column.section.mechanism, column.name, keys, skipped=("missing",))] if keys else []
        if info.types is None and column.section.missing is not None and column.values.OF_TEXT:
            lines.append(f"Note: in column {plain_name(column.name)} ({column.section.mechanism}), {column.values.OF_TEXT}.")
    return lines


def describe(plan: Plan) -> str:
    """Input and output of a plan, one line each."""
    section = plan.job.output
    shards = f", {len(plan.shards)} shard{'s' if len(plan.shards) > 1 else ''}" if plan.shards else ""
    return f"{source(plan)}\noutput  {section.path} ({section.resolved_format}, compression {section.resolved_compression}{shards})"
