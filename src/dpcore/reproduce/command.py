"""`dpcore reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcore.pages.numbers import json_text
from dpcore.reproduce.registry import ALL, chosen_studies, known_studies
from dpcore.reproduce.run import run
from dpcore.reproduce.setting import LARGEST_SEED, SIMULATED, Setting

if TYPE_CHECKING:
    from dpcore.reproduce.page import ReproducedPages

HELP = """Measure figures, tables and theorems of the literature again, on simulated data.

NAME is one of the experiments below, or `all`.

\b
{studies}

\b
    dpcore reproduce all --report out
    dpcore reproduce overfitting --seed 7 > overfitting.json

The result is JSON on standard output, with one section for each figure, table or theorem: what the source says, what was measured with
its standard errors, slopes beside those of the theory, and whether promises were kept. The page of --report has the plots.

Data and noise come from the seed. The same seed gives the same result on every machine; nothing here is private.

\b
Exit codes: 0 done; 2 no such experiment, or the installation; 4 the system (a report that cannot be written);
130, 143 interrupted; 1 a bug in dpcore.
"""


class _Experiment(click.Command):
    """Names the studies in its help only when asked for it: they load much that no other command needs."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        studies = known_studies()
        width = max(map(len, studies))
        lines = (f"    {name:<{width}}   {study.summary}" for name, study in studies.items())
        self.help = HELP.format(studies="\n".join(lines))
        super().format_help_text(ctx, formatter)


@click.command("reproduce", cls=_Experiment, help=HELP, short_help="Measure what the literature claims, on simulated data.")
@click.argument("name")
@click.option(
    "--report",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Also write a page with plots, DIR/NAME.html (experiments.html for all), and the JSON.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, LARGEST_SEED),
    metavar="INTEGER",
    default=0,
    show_default=True,
    help="Another number gives other data and noise.",
)
@click.option("--quick", is_flag=True, help="Fewer replicates and smaller grids.")
def command(name: str, folder: Path | None, seed: int, *, quick: bool) -> None:
    """Run and print; errors are turned into exit codes by the entry point."""
    chosen_studies([name])
    pages = None if folder is None else _pages(folder, "experiments" if name == ALL else name)
    click.echo(f"warning: {SIMULATED}", err=True)
    findings = run([name], Setting(seed, quick), progress=lambda title, seconds: click.echo(f"{seconds:6.1f} s  {title}", err=True))
    click.echo(json_text(findings.document()))
    if not findings.kept:
        click.echo("warning: a promise was not kept: a rare chance, or a bug; another --seed tells", err=True)
    if pages is not None:
        pages.write(findings)
        click.echo("report  " + ", ".join(map(str, pages.paths)), err=True)


def _pages(folder: Path, name: str) -> ReproducedPages:
    """The pages, made before anything is measured: a wrong folder or a missing extra costs nothing."""
    from dpcore.reproduce.page import ReproducedPages

    return ReproducedPages(folder, name)
