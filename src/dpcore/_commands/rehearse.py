"""`dpcore rehearse`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpcore._commands import SHORT
from dpcore._commands.options import SET, WithoutPandas, report_option, threads_option
from dpcore._disk.signals import Deferred
from dpcore._terminal import form_option

HELP = """Run JOB many times on a public table, to see how good its answers would be.

JOB is a job of dpcore release. Its own tables are not read, its ledger is not charged, and its output is not written. What is read is the
table of --on, which has the columns of the input and is public: last year's published file, an open data set, or one that is made up.

\b
    dpcore init job.toml --table made-up.parquet                         # make a table from the ranges that the job declares
    dpcore rehearse job.toml --on made-up.parquet --public
    dpcore rehearse job.toml --on open.parquet --public --sweep upper=50000,100000,200000 --report out
    dpcore rehearse job.toml --on open.parquet --public --sweep "mean cost.epsilon=0.1,0.3,1" --set privacy.max_epsilon=5
    dpcore rehearse job.toml --on visits.parquet --on patients.parquet=open-patients.parquet --public     # a job with a [[join]]

For each query, and each group or number of its answer, it prints

\b
    truth        the exact answer: of all rows, without bounds that cut numbers off
    bias         how far clamping, and leaving out rows of a unit, move the answer before any noise
    noise        the standard deviation of the answers
    total error  the root of the mean squared distance from the truth
    coverage     how many of the intervals hold the truth; they claim 95 %, or the confidence of the query

and how many rows count, and where the others are lost. A narrow range means little noise and much bias, a wide one the reverse: a sweep
shows settings side by side, and marks the one with the least total error. Do not choose settings on the private
table itself: they would reveal something about its rows.

The exact numbers and the noise of a rehearsal are not private (secure: false). --public is your word that anyone may see the table; dpcore
cannot check it. It only refuses the files of the job itself and a table that is named as its data set.

\b
Exit codes: 0 rehearsed; 2 the job, the schema, an option, or a table that is the job's own; 3 found in rows; 4 the system (unreadable
input); 1 a bug in dpcore; 130 interrupted.
"""
MOST_RUNS = 100_000


@click.command("rehearse", help=HELP, short_help=SHORT["rehearse"])
@click.argument("job", type=click.Path(path_type=Path))
@click.option("--on", "on", multiple=True, metavar="TABLE", help="The public table; JOINPATH=TABLE for one that the job joins.")
@click.option("--public", is_flag=True, help="Your word that anyone may see these tables. Required.")
@click.option("--runs", type=click.IntRange(2, MOST_RUNS), default=200, show_default=True, help="How often the job is run.")
@click.option(
    "--sweep", "swept", metavar="KEY=VALUE,…", help="Compare values of a key: upper, max_rows_per_unit, or NAME.upper of one query."
)
@click.option("--set", "given", multiple=True, metavar="KEY=VALUE", help=SET)
@form_option
@report_option("DIR/NAME.html, a page with plots, and the JSON")
@threads_option("compute")
def command(**options: Any) -> None:
    """Rehearse a job; the entry point turns errors into exit codes."""
    with Deferred():
        from dpcore.jobs.commands.rehearse import run

        WithoutPandas().settle()
    run(**options)
