"""`dpcore plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpcore._commands import SHORT
from dpcore._commands.options import SET, WithoutPandas, report_option
from dpcore._disk.signals import Deferred
from dpcore._terminal import form_option

HELP = """Find the epsilon that the queries of JOB need, before anything is read or spent.

JOB is a job of dpcore release. Only the schema of its input is read. Each --target says how exact a query must be:

\b
    dpcore plan job.toml --target "visits: 20"                          # off by 20 at most, in the unit of the answer
    dpcore plan job.toml --target "visits: 5% of 400 @ 95%"             # by 5 % of an answer of 400, with a probability of 95 %
    dpcore plan job.toml --target "visits: 5% of 400 in all cells"      # all numbers of all groups at once
    dpcore plan job.toml --target "mean cost: 2.5" --assume n=10000     # of a table, or of each group, of 10,000 rows
    dpcore plan job.toml --rows "mean cost: 2.5"                        # how many rows that takes with the epsilon of the job

The name of the query may be left out if there is one only; 95 % is the default. For quantiles, top_s and mode the number is one of rows: by
how many a rank, or the frequency of what was chosen, may be off.

It prints the least epsilon of three digits that surely meets each target, how far the answer may be off with the epsilon of the job,
and the fewest rows, or the smallest answer, that meets the target with that. Then it shows for all queries how far they may be off with
several epsilons; of a query with a target for all cells, all its numbers at once.

Assume what you know about the subject. An n that was taken from the data reveals something about them.

\b
Exit codes: 0 planned; 2 the job, the schema, a target that no epsilon meets, or something that must be assumed;
4 the system (unreadable input); 1 a bug in dpcore.
"""


@click.command("plan", help=HELP, short_help=SHORT["plan"])
@click.argument("job", type=click.Path(path_type=Path))
@click.option("--target", "targets", multiple=True, metavar="TEXT", help='"NAME: 20", or "NAME: 5% of 400 in all cells @ 95%".')
@click.option("--rows", "sizes", multiple=True, metavar="TEXT", help="As --target, for the least number of rows; n need not be assumed.")
@click.option(
    "--assume",
    "assumed",
    multiple=True,
    metavar="KEY=NUMBER",
    help="n, the rows of the table or of each group; mean, variance of a column.",
)
@click.option("--input", "source", metavar="PATH", help="Read the schema of this in place of the job's input.path.")
@click.option("--set", "given", multiple=True, metavar="KEY=VALUE", help=SET)
@form_option
@report_option("DIR/NAME.html, a page with a plot, and the JSON")
def command(**options: Any) -> None:
    """Plan a job; the entry point turns errors into exit codes."""
    with Deferred():
        from dpcore.jobs.commands.plan import run

        WithoutPandas().settle()
    run(**options)
