"""`dpcore estimate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
import pyarrow as pa

from dpcore.batch.commands.options import report_option, threads_option
from dpcore.batch.commands.progress import shown_on
from dpcore.batch.commands.terminal import form_option, make_table, print_table, wants_json
from dpcore.batch.commands.words import name_reports
from dpcore.batch.estimate.run import TARGETS, ColumnEstimate, Estimates, estimate, report_name
from dpcore.pages.numbers import json_text, misses, readable
from dpcore.pages.words import NOT_SECURE, guarantee_in_words

if TYPE_CHECKING:
    from dpcore.batch.estimate.page import EstimatePages

LINES = 8
"""Categories of one column that the terminal shows."""

HELP = """Estimate from tables that `dpcore privatize` wrote, without bias and with confidence intervals.

PATH is a file, a folder or a glob of .parquet, .csv or .arrow files; the rows of all files are taken together, so each row must be in
one of them. The files' own metadata (for CSV in NAME.csv.dpcore.json beside it) describe how the reports were made, so there is nothing
to configure.

\b
    dpcore privatize job.toml
    dpcore estimate out/visits-private.parquet --report out
    dpcore estimate "out/2024-*.parquet" --column visits --confidence 0.99 > visits.json

The result is a table on a terminal and JSON elsewhere, with one entry for each column:

\b
    kind         mean          laplace, gaussian, discrete_laplace, discrete_gaussian, bounded_mean, binary_channel
                 proportion    binary: the share of true, or of the second of two categories
                 frequencies   kary, unary, subset, hashing, hadamard: the share of each category
    value        unbiased; a frequency can be below 0 or above 1
    stderr       its standard error
    interval     lower and upper end; one in twenty 95 % intervals misses the true value
    consistent   the nearest possible value: frequencies at least 0 with sum 1

The true value is that of the data as the job declared them: clamped, and with missing and unknown values replaced.

Estimating spends nothing: anything computed from private reports is as private as they are.

\b
Exit codes: 0 done; 2 files that do not belong together, no such column, or the installation;
3 no metadata, damaged metadata, or a cell that is not a report; 4 the system (unreadable input);
130, 143 interrupted; 1 a bug in dpcore.
"""


@click.command("estimate", help=HELP, short_help="Estimate from privatised tables, with confidence intervals.")
@click.argument("path")
@form_option
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
    type=click.Choice(TARGETS),
    default="population",
    show_default=True,
    help="Whether intervals are for the population that the rows were drawn from, or for these rows.",
)
@click.option("--column", "columns", multiple=True, metavar="NAME", help="Only this column; may be repeated.")
@threads_option("count")
def command(
    path: str,
    folder: Path | None,
    confidence: float,
    target: str,
    columns: tuple[str, ...],
    threads: int | None,
    *,
    as_json: bool | None,
) -> None:
    """Estimate and print; the entry point turns errors into exit codes."""
    pages = None if folder is None else _pages(folder, path)
    if threads is not None:
        pa.set_cpu_count(threads)
    with shown_on(sys.stderr) as progress:
        found = estimate(path, confidence=confidence, target=target, columns=columns or None, threads=threads, progress=progress)
    if not found.secure:
        click.echo(f"warning: {NOT_SECURE}", err=True)
    if pages is not None:
        pages.write(found)  # before standard output, which may be a closed pipe
    if wants_json(as_json):
        click.echo(json_text(found.document()))
    else:
        show(found)
    if pages is not None:
        name_reports(pages.paths)


def _pages(folder: Path, path: str) -> EstimatePages:
    """The pages, made before any row is read: a wrong folder or a missing extra is found first."""
    from dpcore.batch.estimate.page import EstimatePages

    return EstimatePages(folder, report_name(path))


def show(found: Estimates) -> None:
    """Print a short table."""
    headings = ("column", "", "estimate", f"{100 * found.confidence:.10g} % interval")
    print_table(
        make_table(headings, (line for column in found.columns for line in _lines(column)), right=headings[2:]),
        f"\n{found.rows:,} rows; of these intervals about {misses(found.confidence)} misses.",
        guarantee_in_words(found.whole.epsilon, found.whole.delta, found.whole.unit),
    )


def _lines(column: ColumnEstimate) -> list[tuple[str, str, str, str]]:
    """The most frequent categories, or the one number."""
    values, stderr = np.atleast_1d(column.estimate.value), np.atleast_1d(column.estimate.stderr)
    intervals = np.atleast_2d(column.interval)
    order = np.argsort(-values, kind="stable")[:LINES]
    labels = [column.summary] if column.kind != "frequencies" else [str(label) for label in column.labels or ()]
    lines = []
    for place, i in enumerate(order):
        value, lower, upper = readable([values[i], *intervals[i]], float(stderr[i]), percent=column.kind != "mean")
        lines.append((column.column.name if place == 0 else "", labels[i], value, f"{lower} to {upper}"))
    if len(values) > LINES:
        lines.append(("", f"… {len(values) - LINES:,} more", "", ""))
    return lines
