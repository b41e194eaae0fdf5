"""What `dpcore privatize` tells people of a plan before it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from dpcore.batch.commands.words import source
from dpcore.batch.privatize.page import HEADINGS, column_row
from dpcore.pages.printable import printable

if TYPE_CHECKING:
    from dpcore.batch.privatize.plan import Plan


def column_table(plan: Plan) -> Table:
    """The columns of the output as a table for a terminal."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold")
    for name in plan.job.keep:
        table.add_row(Text(name), "kept as it is", *["–"] * (len(HEADINGS) - 2))
    for column in plan.columns:
        # Text, not markup: a range in brackets would be taken for a style.
        table.add_row(*(Text(printable(cell)) for cell in column_row(column)))
    return table


def describe(plan: Plan) -> str:
    """Input and output of a plan, one line each."""
    section = plan.job.output
    return f"{source(plan)}\noutput  {section.path} ({section.resolved_format}, compression {section.resolved_compression})"
