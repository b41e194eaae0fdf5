"""`dpcore init`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpcore._commands import SHORT
from dpcore._commands.options import SET, WithoutPandas
from dpcore._disk.signals import Deferred

HELP = """Draft a job for a table, with comments that explain it; or make up a table for a job.

FILE is a file, a folder or a glob of .parquet, .csv or .arrow files. Only its schema is read, never a row: the draft holds the names and
types of the columns.

\b
    dpcore init visits.parquet --job job.toml            # questions about the table, for dpcore release
    dpcore init visits.parquet --kind privatize          # a private copy of the table, for dpcore privatize; prints the draft

Where the draft has ???, write what only you can know, such as the range of a column. Take it from the subject, never from the data. Then
try the job with --dry-run, which reads no row either.

The names of a CSV are its first line, which is a row of data if the file has no header. So a draft for a CSV needs --curator, which says
that you may see the data. A CSV has no types: its columns are drafted as comments.

With --table FILE is a job of dpcore release, and a table is made up for dpcore rehearse: values are drawn evenly between the bounds and
from the categories, edges, groups and days that the job declares; names and types come from the schema of its input. It never reads a row.
Values do not lie beyond the bounds, so such a table shows noise and coverage, and no bias from clamping.

\b
    dpcore init job.toml --table made-up.parquet --rows 50000 --rows-per-unit 5

\b
Exit codes: 0 drafted; 2 a wrong option, a file that exists, or a CSV without --curator; 4 the system (unreadable input);
1 a bug in dpcore.
"""
MOST_ROWS = 100_000_000


OF_TABLES = {"joined": "--join", "rows": "--rows", "each": "--rows-per-unit", "given": "--set"}
"""Options for --table only, by their arguments."""


def _check(**options: Any) -> None:
    """Raise `click.UsageError` for options that do not belong together."""
    if options["table"] is not None and options["job"] is not None:
        raise click.UsageError("--job writes a draft, and --table a table for a job; give one of them")
    for key, name in OF_TABLES.items():
        if options[key] not in {None, ()} and options["table"] is None:
            raise click.UsageError(f"{name} is for --table")


@click.command("init", help=HELP, short_help=SHORT["init"])
@click.argument("path", metavar="FILE")
@click.option(
    "--kind",
    type=click.Choice(("release", "privatize")),
    default="release",
    show_default=True,
    help="The command that the job is for.",
)
@click.option("--job", type=click.Path(path_type=Path), metavar="JOB", help="Write the draft to this file. Default: print it.")
@click.option("--curator", is_flag=True, help="Draft a job for a CSV as well: you may see the first line of the file.")
@click.option("--table", type=click.Path(path_type=Path), metavar="OUT.parquet", help="Make up a table for the job FILE.")
@click.option(
    "--join", "joined", metavar="JOINPATH", help="With --table: in the place of a table that the job joins, and not of its input."
)
@click.option("--rows", type=click.IntRange(1, MOST_ROWS), help="Rows of that table. Default: 10000.")
@click.option("--rows-per-unit", "each", type=click.IntRange(1, MOST_ROWS), help="Rows of each unit. Default: max_rows_per_unit, or 1.")
@click.option("--set", "given", multiple=True, metavar="KEY=VALUE", help=f"With --table: {SET[0].lower()}{SET[1:]}")
def command(**options: Any) -> None:
    """Draft a job; the entry point turns errors into exit codes."""
    _check(**options)
    with Deferred():
        from dpcore.jobs.commands.init import run

        WithoutPandas().settle()
    run(**options)
