"""`dpcore privatize`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click
import pyarrow as pa

from dpcore.batch.commands import privatize_text, words
from dpcore.batch.commands.options import job_options
from dpcore.batch.commands.progress import shown_on
from dpcore.batch.commands.terminal import echo, print_table, wants_json
from dpcore.batch.privatize import page
from dpcore.batch.privatize.job import load_job
from dpcore.batch.privatize.plan import Plan, make_plan
from dpcore.batch.privatize.run import privatize
from dpcore.batch.tables.inputs import discover
from dpcore.pages.numbers import json_text
from dpcore.pages.page import report_paths

HELP = """Randomise a table, row by row, as JOB (a TOML file) says.

Every cell of a [[column]] is randomised on its own before it is written (local differential privacy). The holder of the output learns
little about any single row. `dpcore estimate` computes means and shares over many rows from it. Columns that the job does not name are
dropped.

A complete job:

\b
    version = 1
    keep = ["state"]                # public columns, copied as they are
    [input]
    path = "visits.parquet"         # a file, a folder or a glob: .parquet, .csv, .arrow
    [output]
    path = "out/visits-private.parquet"
    [privacy]
    max_epsilon = 5.0               # the job does not start if its columns spend more
    max_delta = 1e-6                # default 0
    [[column]]
    name = "visits"                 # integers
    mechanism = "discrete_laplace"
    epsilon = 1.0                   # smaller protects more and costs accuracy
    lower = 0                       # from what you know, never the data's minimum
    upper = 50
    missing = 0                     # replaces nulls; without it a null ends the job
    [[column]]
    name = "cost"                   # real numbers
    mechanism = "gaussian"
    epsilon = 1.0
    delta = 1e-6                    # the gaussian kinds need one
    lower = 0.0
    upper = 5000.0
    [[column]]
    name = "smoker"                 # booleans, or 0 and 1
    mechanism = "binary"            # for words: categories = ["no", "yes"]
    epsilon = 1.0
    [[column]]
    name = "region"                 # strings or integers
    mechanism = "kary"
    epsilon = 2.0
    categories = ["north", "east", "south", "west"]
    unknown = "north"               # replaces other values; without it such a value ends the job

\b
Mechanisms, by what you can estimate from them:
    means    laplace, gaussian (any numbers), discrete_laplace, discrete_gaussian (integers),
             bounded_mean (any numbers; one bit a row), binary_channel (categories; needs phi, a number for each)
    shares   binary (yes or no), kary (few categories), unary, subset, hashing, hadamard (many categories)

Declare categories, and never take them from the data: categories = [...], categories_file = "x.csv" (one column with a header), or
k = N for the codes 0 to N - 1.

First check that your numbers parse: in a CSV a cell such as 12,50 or 45 y is not a number and counts as missing, without a message.

missing replaces nulls and CSV cells that do not parse; unknown replaces values that are not a category. With both declared, no row can
end a job. Without them, a job ends at such a cell, and the message names its column; with --curator it also names the row.

Try --dry-run first: it reads the schema only, and prints the plan and the total.

Without a [ledger] running a job again spends its budget again: two outputs of one table together protect it only at the sum of both. So
an output that exists is refused unless --overwrite is given. With a ledger the same job again (same settings, same output) spends nothing
and reads nothing: the output stays as it is, also if the table has changed since.

\b
Exit codes: 0 done; 2 the job, the schema, the ledger or the installation; 3 a row;
4 the system (unreadable input, disk full); 5 published, and then something failed; 129, 130, 143 interrupted; 1 a bug in dpcore.
A job that ends early leaves nothing under the output's name.
"""


@click.command("privatize", help=HELP, short_help="Randomise a table, row by row, as a job file says.")
@job_options(plan="the plan and the total", verb="randomise", files="DIR/NAME.json and DIR/NAME.html about the output")
def command(
    job: Path,
    folder: Path | None,
    threads: int | None,
    *,
    as_json: bool | None,
    dry_run: bool,
    overwrite: bool,
    curator: bool,
) -> None:
    """Run or describe a job; the entry point turns errors into exit codes."""
    words.begin(dry_run=dry_run, folder=folder, curator=curator)
    loaded = load_job(job)
    reports = [] if folder is None else report_paths(folder, Path(loaded.output.path).stem)
    options = {"overwrite": overwrite, "curator": curator, "others": words.other_files(job, reports)}
    plan, refusal = words.planned(make_plan, loaded, dry_run=dry_run, **options)
    words.warn(loaded)
    if dry_run:
        _print_plan(plan, as_json=wants_json(as_json))
        words.end_dry_run(plan, refusal, "rows")
        return
    if words.is_published(plan.publication, "rows"):
        _print_stored(plan, None if folder is None else page.PrivatizePages(folder, plan, job), as_json=wants_json(as_json))
        return
    if threads is not None:
        pa.set_cpu_count(threads)
    pages = None if folder is None else page.PrivatizePages(folder, plan, job)
    with words.truthful(plan.publication):
        with shown_on(sys.stderr) as progress:
            summary = privatize(plan, threads=threads, progress=progress)
        if pages is not None:
            pages.write(summary.rows)  # before standard output, which may be a closed pipe
        _print_summary(plan, summary.rows, as_json=wants_json(as_json))
        if pages is not None:
            words.name_reports(pages.paths)


def _print_stored(plan: Plan, pages: page.PrivatizePages | None, *, as_json: bool) -> None:
    """Describe what an earlier run has published, from the job and its output."""
    rows = discover(str(plan.output), plan.job.output.resolved_format).inspect(plan.output).rows
    if pages is not None:
        pages.write(rows)  # before standard output, which may be a closed pipe
    if as_json:
        click.echo(json_text(page.report_document(plan, rows)))
    else:
        echo(f"{plan.output}: {'' if rows is None else f'{rows:,} rows, '}{_columns_in_words(plan)}")
        echo(f"What it says: dpcore estimate {shlex.quote(str(plan.output))}")
    if pages is not None:
        words.name_reports(pages.paths)


def _columns_in_words(plan: Plan) -> str:
    names = ", ".join(column.name for column in plan.columns[:8]) + (", …" if len(plan.columns) > 8 else "")
    return f"{len(plan.columns)} column{'s' if len(plan.columns) > 1 else ''} randomised ({names})"


def _print_plan(plan: Plan, *, as_json: bool) -> None:
    if as_json:
        click.echo(json_text(page.report_document(plan, None) | {"dry_run": True}))
        return
    print_table(
        privatize_text.describe(plan) + "\n",
        privatize_text.column_table(plan),
        "\n".join([page.PRECISION, "", words.budget(plan.job), page.privacy_statement(plan.job), *_notes(plan), words.DRY_RUN]),
    )


def _print_summary(plan: Plan, rows: int, *, as_json: bool) -> None:
    if as_json:
        click.echo(json_text(page.report_document(plan, rows)))
        return
    echo(f"{plan.output}: {rows:,} rows, {_columns_in_words(plan)}")
    echo("\n".join([f"spent {page.privacy_statement(plan.job)}", *_notes(plan)]))
    echo(f"To read it: dpcore estimate {shlex.quote(str(plan.output))}")


def _notes(plan: Plan) -> list[str]:
    return [*([page.KEPT] if plan.job.keep else []), page.PUBLIC_ROWS, page.spent_again(plan.job)]
