"""What `dpcore estimate` does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
import pyarrow as pa

from dpcore._disk.addresses import Address
from dpcore._disk.files import AtomicFile, remove_stale
from dpcore._disk.signals import Deferred
from dpcore._disk.staging import staged, staging_folder
from dpcore._disk.stores import has_bucket
from dpcore._terminal import make_table, print_table, wants_json
from dpcore.errors import JobError, StorageError
from dpcore.jobs.commands.log import Logged, logged
from dpcore.jobs.commands.progress import shown_on
from dpcore.jobs.commands.words import name_reports, write_reports
from dpcore.jobs.estimate import ColumnEstimate, Estimates, estimate, report_name
from dpcore.pages.numbers import json_text, misses, readable
from dpcore.pages.words import NOT_SECURE, guarantee_in_words
from dpcore.tables.local_paths import check_local
from dpcore.tables.output.publication import make_folder
from dpcore.tables.places import LOG, check_distinct, output_place
from dpcore.tables.sources import exists

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore._disk.addresses import Location
    from dpcore.jobs.estimate_page import EstimatePages

LINES = 8
"""Categories of one column that the terminal shows."""


def run(
    path: str,
    folder: Path | None,
    confidence: float,
    target: str,
    columns: tuple[str, ...],
    threads: int | None,
    *,
    as_json: bool | None,
    output: str | None,
    overwrite: bool,
    log: Path | None,
    estimating: Callable[..., Estimates] | None = None,
) -> None:
    """Estimate and print; the entry point turns errors into exit codes."""
    with logged(log, "estimate", input=path) as events:
        place = None if output is None else _check_output(output, log, overwrite=overwrite)
        pages = None if folder is None else _pages(folder, path)
        if threads is not None:
            pa.set_cpu_count(threads)
        with shown_on(sys.stderr, count_rows=estimating is None) as progress:
            shown = Logged(progress, events)
            found = (estimating or estimate)(
                path, confidence=confidence, target=target, columns=columns or None, threads=threads, progress=shown
            )
        if not found.secure:
            click.echo(f"warning: {NOT_SECURE}", err=True)
        if place is not None:
            _write(place, json_text(found.document()) + "\n", overwrite=overwrite)
        if pages is not None:
            write_reports(pages, found)  # before standard output, which may be a closed pipe
        events.write("done", outputs=[] if place is None else [str(place)])
        if wants_json(as_json):
            click.echo(json_text(found.document()))
        else:
            show(found)
        if pages is not None:
            name_reports(pages.paths)


def _check_output(output: str, log: Path | None, *, overwrite: bool) -> Location:
    """Refuse a file that could be something else than estimates, before any row is read."""
    place = output_place(output, "--output")
    if place.suffix.lower() != ".json":
        raise JobError(f"--output {str(output)!r} must end in .json")
    if exists(place) and not overwrite:
        raise JobError(f"--output {str(output)!r} exists; name another file, or give --overwrite")
    check_distinct([("--output", place), *([] if log is None else [(LOG, log)])], [])
    if isinstance(place, Path):
        make_folder(place.parent)
    elif not has_bucket(place):
        raise JobError(f"--output {str(output)!r}: there is no such bucket")
    return place


def _write(output: Location, text: str, *, overwrite: bool) -> None:
    """Write the JSON, complete or not at all."""
    with Deferred():
        beside = staged(output, staging_folder(None)) if isinstance(output, Address) else output
        remove_stale(beside)
        file = AtomicFile(output, beside)
        try:
            file.write(text.encode())
            if exists(output) and not overwrite:
                raise StorageError(f"{output} has appeared since the estimate began; it is left as it is")
            file.commit()
        finally:
            file.abort()


def _pages(folder: Path, path: str) -> EstimatePages:
    """The pages, made before any row is read: a wrong folder or a missing extra is found first."""
    from dpcore.jobs.estimate_page import EstimatePages

    check_local("--report", str(folder))
    return EstimatePages(folder, report_name(path))


SKEW = 0.02
"""Of its length, how far the middle of an interval may be from the estimate without a word."""
SKEWED = " An interval need not have its estimate in the middle."


def _are_skewed(found: Estimates) -> bool:
    """Whether the estimate of some interval does not lie in the middle of it."""
    for column in found.columns:
        low, high = np.atleast_2d(column.interval).T
        if np.any(np.abs((low + high) / 2 - column.estimate.value) > SKEW * (high - low)):
            return True
    return False


def show(found: Estimates) -> None:
    """Print a short table."""
    most = "at most about" if any(column.column.skips for column in found.columns) else "about"  # see Answered
    headings = ("column", "", "estimate", f"{100 * found.confidence:.10g} % interval")
    print_table(
        make_table(headings, (line for column in found.columns for line in _lines(column)), right=headings[2:]),
        f"\n{found.rows:,} rows; of these intervals {most} {misses(found.confidence)} misses.{SKEWED if _are_skewed(found) else ''}",
        guarantee_in_words(found.whole.epsilon, found.whole.delta, found.whole.unit),
    )


def _lines(column: ColumnEstimate) -> list[tuple[str, str, str, str]]:
    """The most frequent categories, or the one number."""
    values, stderr = np.atleast_1d(column.estimate.value), np.atleast_1d(column.estimate.stderr)
    intervals = np.atleast_2d(column.interval)
    order = np.argsort(-values, kind="stable")[:LINES]
    summary = f"{column.summary}, of rows with a value" if column.column.skips else column.summary
    labels = [summary] if column.kind != "frequencies" else [str(label) for label in column.labels or ()]
    lines = []
    for place, i in enumerate(order):
        value, lower, upper = readable([values[i], *intervals[i]], float(stderr[i]), percent=column.kind != "mean")
        lines.append((column.column.name if place == 0 else "", labels[i], value, f"{lower} to {upper}"))
    if len(values) > LINES:
        lines.append(("", f"… {len(values) - LINES:,} more", "", ""))
    if column.unanswered is not None:
        share, ends = column.unanswered, column.unanswered.interval(column.confidence)
        value, lower, upper = readable([float(share.value), *map(float, ends)], float(share.stderr), percent=True)
        lines.append(("", "no value, share of all rows", value, f"{lower} to {upper}"))
    return lines
