"""`dpcore init`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpcore._commands import SHORT
from dpcore._commands.options import WithoutPandas
from dpcore._disk.signals import Deferred

HELP = """Draft a job for a table, with comments that explain it.

FILE is a file, a folder or a glob of .parquet, .csv or .arrow files. Only its schema is read, never a row: the draft holds the names and
types of the columns.

\b
    dpcore init visits.parquet --job job.toml            # questions about the table, for dpcore release
    dpcore init visits.parquet --kind privatize          # a private copy of the table, for dpcore privatize; prints the draft

Where the draft has ???, write what only you can know, such as the range of a column. Take it from the subject, never from the data. Then
try the job with --dry-run, which reads no row either.

The names of a CSV are its first line, which is a row of data if the file has no header. So a draft for a CSV needs --curator, which says
that you may see the data. A CSV has no types: its columns are drafted as comments.

\b
Exit codes: 0 drafted; 2 a wrong option, a file that exists, or a CSV without --curator; 4 the system (unreadable input);
1 a bug in dpcore.
"""


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
def command(**options: Any) -> None:
    """Draft a job; the entry point turns errors into exit codes."""
    with Deferred():
        from dpcore.jobs.commands.init import run

        WithoutPandas().settle()
    run(**options)
