"""`dpcore reproduce`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcore.pages.numbers import json_text
from dpcore.reproduce.registry import ALL, chosen_studies, known_studies
from dpcore.reproduce.run import run
from dpcore.reproduce.setting import LARGEST_SEED, SIMULATED, Setting

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore.reproduce.page import ReproducedPages

EVERY = "reproduced"
"""Name of the files of all studies."""
HELP = """Measure figures, tables and theorems of the literature again, on simulated data.

NAME is one of the studies below, or `all`.

\b
{studies}

\b
    dpcore reproduce all --report out
    dpcore reproduce overfitting --seed 7 > overfitting.json

The command writes JSON to standard output, with one section for each figure, table or theorem: the statement of the document, the
measurements with standard errors, slopes beside those of the theory, identities and findings. An identity holds for every data set,
exactly or up to rounding. A finding is measured, with a statistical error. The page of --report also has the plots.

Data and noise come from the seed. The same seed gives the same result on every machine, and nothing here is private.

\b
Exit codes: 0 done; 2 an unknown study, or a missing extra; 4 an error of the system (a report that cannot be written);
130, 143 interrupted; 1 a bug in dpcore.
"""


class ReproduceCommand(click.Command):
    """A command that lists the studies only when you ask for help, because their modules take long to import."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help text with all studies."""
        studies = known_studies()
        width = max(map(len, studies))
        lines = (f"    {name:<{width}}   {study.summary}" for name, study in studies.items())
        self.help = HELP.format(studies="\n".join(lines))
        super().format_help_text(ctx, formatter)


@click.command("reproduce", cls=ReproduceCommand, help=HELP, short_help="Measure results of the literature again, on simulated data.")
@click.argument("name")
@click.option(
    "--report",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help=f"Also write a page with plots, DIR/NAME.html ({EVERY}.html for all), and the JSON.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, LARGEST_SEED),
    metavar="INTEGER",
    default=0,
    show_default=True,
    help="Seed of all data and noise.",
)
@click.option("--quick", is_flag=True, help="Use fewer replicates and smaller grids.")
def command(name: str, folder: Path | None, seed: int, *, quick: bool) -> None:
    """Run studies and print the result; the entry point turns errors into exit codes."""
    titles = [title for study in chosen_studies([name]) for title in study.titles]
    pages = None if folder is None else _pages(folder, EVERY if name == ALL else name)
    click.echo(f"warning: {SIMULATED}", err=True)
    findings = run([name], Setting(seed, quick), progress=_told(titles))
    if pages is not None:
        pages.write(findings)  # before standard output, which may be a closed pipe
    click.echo(json_text(findings.document()))
    if identities := findings.broken("identity"):
        click.echo(f"warning: {identities} identities do not hold, which is a bug in dpcore", err=True)
    if measured := findings.broken("finding"):
        click.echo(f"warning: {measured} findings do not hold, by a rare chance or a bug; try another --seed", err=True)
    if pages is not None:
        click.echo("report  " + ", ".join(map(str, pages.paths)), err=True)


def _told(titles: list[str]) -> Callable[[int, int], None]:
    """Return a function that prints a line for each section: which one, of how many, and its seconds."""
    start = time.perf_counter()

    def progress(done: int, total: int) -> None:
        nonlocal start
        now = time.perf_counter()
        click.echo(f"{done:{len(str(total))}} of {total}  {now - start:6.1f} s  {titles[done - 1]}", err=True)
        start = now

    return progress


def _pages(folder: Path, name: str) -> ReproducedPages:
    """Open the pages before any study runs, so that a wrong folder or a missing extra costs no time."""
    from dpcore.reproduce.page import ReproducedPages

    return ReproducedPages(folder, name)
