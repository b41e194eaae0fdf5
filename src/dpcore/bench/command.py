"""What `dpcore bench` and `dpcore bench compare` do."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpcore._terminal import echo, make_table, print_table, wants_json
from dpcore.bench import document
from dpcore.bench.compare import BANDS, CHARACTERS, OUTCOMES, compare
from dpcore.bench.compare import document as comparison_document
from dpcore.bench.pace import items_and_seconds
from dpcore.bench.results import OURS
from dpcore.bench.run import run
from dpcore.bench.table import FOOTNOTE, RIGHT, band, notes, rows_of, significant
from dpcore.pages.numbers import json_text

if TYPE_CHECKING:
    from dpcore.bench.benchmark import Benchmark
    from dpcore.bench.compare import Comparison
    from dpcore.bench.results import Results

SLOWER = 1
"""Exit code of `compare` if a row became slower, and of a run in which an answer of dpcore is wrong."""
PAGE = "bench"
"""Name of the files of --report."""


def run_command(groups: tuple[str, ...], folder: Path | None, file: Path | None, *, quick: bool, full: bool, table: bool) -> int:
    """Run benchmarks, write the files, and print the ratios.

    Parameters
    ----------
    groups : tuple of str
        Groups of benchmarks; empty for all but tables.
    folder, file : Path or None
        Where the page and the JSON go.
    quick, full : bool
        The kind of run; quick if neither is given.
    table : bool
        Whether to print a table into a pipe too.

    Returns
    -------
    int
        The exit code.
    """
    mode = "full" if full and not quick else "quick"
    items, seconds = items_and_seconds(mode, groups)
    pages = None if folder is None else _pages(folder)
    if file is not None:
        document.check_place(file)
    results, interruption = _measured(items, seconds, mode)
    if not results.rows and interruption is not None:
        raise interruption
    if file is not None:
        document.write(file, results)
    if pages is not None:
        pages.write(results)  # before standard output, which may be a closed pipe
    _print(results, as_json=wants_json(False if table else None))
    if pages is not None:
        echo("report  " + ", ".join(map(str, pages.paths)), err=True)
    if interruption is not None:
        echo(f"dpcore: interrupted; {len(results.rows)} benchmarks that were done are kept", err=True)
        return 128 + int(getattr(interruption, "number", signal.SIGINT))
    return SLOWER if any(broken.side == OURS for broken in results.broken) else 0


def _pages(folder: Path) -> Any:
    """Open the pages before anything runs, so that a wrong folder or a missing extra costs no time."""
    from dpcore.bench.page import BenchPages

    return BenchPages(folder, PAGE)


def _measured(items: tuple[Benchmark, ...], seconds: float, mode: str) -> tuple[Results, BaseException | None]:
    from dpcore.jobs.commands.progress import shown_on

    with shown_on(sys.stderr, count_rows=False) as shown:
        shown.begin("benchmarks")
        return run(items, seconds, mode=mode, progress=lambda done, total: shown.update(done, done / total))


def _print(results: Results, *, as_json: bool) -> None:
    if as_json:
        click.echo(document.text(results))
        return
    headings, cells = rows_of(results.rows)
    print_table(make_table(headings, cells, right=RIGHT), "", FOOTNOTE, *notes(results))


def run_comparison(before: Path, after: Path, *, as_json: bool | None) -> int:
    """Compare the files of two runs.

    Parameters
    ----------
    before, after : Path
        The files.
    as_json : bool or None
        Whether to print JSON.

    Returns
    -------
    int
        The exit code.
    """
    found = compare(document.read(before), document.read(after))
    if wants_json(as_json):
        click.echo(json_text(comparison_document(found)))
    else:
        _print_comparison(found)
    return SLOWER if found.is_slower else 0


def _print_comparison(found: Comparison) -> None:
    if found.machines:
        echo("The files are of two machines; only ratios to bounds are compared:")
        for name, (one, other) in found.machines.items():
            echo(f"    {name}: {one}; {other}")
    if found.interrupted:
        echo("One of the runs was interrupted; what it did not reach is not compared.")
    changed = [*found.with_outcome("slower"), *found.with_outcome("faster")]
    if changed:
        rows = [
            (change.outcome, change.row.title, change.row.level, change.bound, significant(change.before.value), band(change.before),
             significant(change.after.value), band(change.after), f"× {significant(change.factor)}")
            for change in changed
        ]  # fmt: skip
        print_table(make_table(("", "benchmark", "level", "÷ bound", "before", "band", "after", "band", "change"), rows), "")
    counts = {outcome: len(found.with_outcome(outcome)) for outcome in OUTCOMES}
    echo(
        ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) + f", of {len(found.changes)} benchmarks that both files have"
    )
    echo("A change is more than " + ", ".join(f"{allowed:.0%} for {CHARACTERS[name]}" for name, allowed in BANDS.items()) + ".")
    missing = len(found.only_before) + len(found.only_after)
    if missing:
        echo(f"{missing} benchmarks are in one file only, and {len(found.unjudged)} have no bound.")
