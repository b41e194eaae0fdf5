"""Text of `dpcore privatize` about a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcore._terminal import make_table
from dpcore.jobs.commands.words import source
from dpcore.jobs.privatize_page import HEADINGS, column_row

if TYPE_CHECKING:
    from rich.table import Table

    from dpcore.jobs.privatize_plan import Plan


def column_table(plan: Plan) -> Table:
    """The columns of the output as a table for a terminal."""
    kept = [(name, "kept as it is", *["–"] * (len(HEADINGS) - 2)) for name in plan.job.keep]
    return make_table(HEADINGS, [*kept, *map(column_row, plan.columns)])


def describe(plan: Plan) -> str:
    """Input and output of a plan, one line each."""
    section = plan.job.output
    shards = f", {len(plan.shards)} shard{'s' if len(plan.shards) > 1 else ''}" if plan.shards else ""
    return f"{source(plan)}\noutput  {section.path} ({section.resolved_format}, compression {section.resolved_compression}{shards})"
