"""`dpcore estimate`."""

from __future__ import annotations

from typing import Any

import click

from dpcore._commands import SHORT
from dpcore._commands.options import WithoutPandas, check_engine, engine_options, log_option, report_option, threads_option
from dpcore._disk.signals import Deferred
from dpcore._terminal import form_option

HELP = """Estimate from tables that `dpcore privatize` wrote, without bias and with confidence intervals.

PATH is a file, a folder or a glob of .parquet, .csv or .arrow files; the rows of all files are combined, so no row may be in two of
them. It may be an address of a store, such as s3://bucket/key. The files' own metadata (for CSV in NAME.csv.dpcore.json beside
it) describe how the reports were made, so there is nothing to configure.

\b
    dpcore privatize job.toml
    dpcore estimate out/visits-private.parquet --report out
    dpcore estimate "out/2024-*.parquet" --column visits --confidence 0.99 > visits.json

The result is a table on a terminal and JSON elsewhere, with one entry for each column:

\b
    kind         mean          laplace, gaussian, discrete_laplace, discrete_gaussian, bounded_mean, binary_channel
                 proportion    binary: the share of true, or of the second of two categories
                 frequencies   kary, unary, subset, hashing, hadamard, projective: the share of each category
    value        unbiased; a frequency can be below 0 or above 1
    stderr       its standard error
    interval     lower and upper end; one in twenty 95 % intervals misses the true value
    consistent   the nearest possible value: frequencies at least 0 with sum 1
    unanswered   of columns with missing = "skip": the share of rows without a value; the other numbers are about the rest

The true value refers to the data as the job declares them: clamped, and with missing and unknown values replaced.

Estimating spends nothing: anything computed from private reports alone is as private as the reports.

\b
Exit codes: 0 done; 2 files that do not belong together, no such column, or the installation;
3 no metadata, damaged metadata, or a cell that is not a report; 4 the system (unreadable input);
130, 143 interrupted; 1 a bug in dpcore.
"""


@click.command("estimate", help=HELP, short_help=SHORT["estimate"])
@click.argument("path", metavar="PATH", nargs=-1, required=True)
@click.option(
    "--output",
    metavar="FILE",
    help="Also write the JSON to this file, whose name ends in .json.",
)
@click.option("--overwrite", is_flag=True, help="Replace an --output that exists.")
@form_option
@log_option
@report_option("DIR/NAME-estimate.html, a page with plots, and the JSON")
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Coverage of each interval.",
)
@click.option(
    "--target",
    type=click.Choice(("population", "sample")),
    default="population",
    show_default=True,
    help="Whether intervals are for the population that the rows were drawn from, or for these rows.",
)
@click.option("--column", "columns", multiple=True, metavar="NAME", help="Only this column; may be repeated.")
@threads_option("count")
@engine_options
def command(*, path: tuple[str, ...], engine: str, master: str | None, conf: tuple[str, ...], **options: Any) -> None:
    """Estimate and print; the entry point turns errors into exit codes."""
    if len(path) > 1:
        raise click.UsageError(f"PATH is one file, folder or glob, got {len(path)}; for several files write a glob in quotes: 'out/*.csv'")
    options["path"] = path[0]
    if check_engine(engine, master, conf):
        with Deferred():
            from dpcore.spark.commands import estimate
        estimate(master=master, conf=conf, **options)
        return
    with Deferred():
        from dpcore.jobs.commands.estimate import run

        WithoutPandas().settle()
    run(**options)
