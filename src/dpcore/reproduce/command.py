"""What `dpcore reproduce` does."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcore.pages.numbers import json_text
from dpcore.reproduce.registry import ALL, chosen_studies
from dpcore.reproduce.run import run
from dpcore.reproduce.setting import SIMULATED, Setting

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore.reproduce.page import ReproducedPages

EVERY = "reproduced"
"""Name of the files of all studies."""


def run_command(name: str, folder: Path | None, seed: int, *, quick: bool) -> None:
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
