"""Text that `dpcore privatize` and `dpcore release` share: input, budget, `--curator`, and jobs that end early."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from dpcore.batch.commands.terminal import echo
from dpcore.batch.tables.places import REPORT
from dpcore.errors import PublishedError
from dpcore.pages.words import NOT_SECURE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from dpcore.batch.jobfile.sections import JobFile
    from dpcore.batch.privatize.plan import Plan
    from dpcore.batch.release.plan import ReleasePlan
    from dpcore.batch.tables.places import Place
    from dpcore.batch.tables.publication import Publication

CURATOR = (
    "curator: messages may say which rows are at fault and which columns a CSV has. They are outside the guarantee; show them only to "
    "people who may see the input."
)
DRY_RUN = "Dry run: only the schema was read, nothing was written, and nothing is spent."


def begin(*, dry_run: bool, folder: Path | None, curator: bool) -> None:
    """Refuse options that contradict each other, and say what `--curator` means."""
    if dry_run and folder is not None:
        raise click.UsageError("--dry-run writes nothing, so it cannot be combined with --report")
    if curator:
        click.echo(CURATOR, err=True)


def other_files(job: Path, reports: Iterable[Path]) -> list[Place]:
    """The files of a command beside those that its job names, for the check that no file has two uses."""
    return [("the job file", job), *((REPORT, path) for path in reports)]


def warn(job: JobFile) -> None:
    """Warn if the job's noise can be repeated, and so removed."""
    if not job.secure:
        click.echo(f"warning: {NOT_SECURE}", err=True)


def is_published(publication: Publication) -> bool:
    """Whether an earlier run of the same job was killed after its output was complete, and has just been published; says so."""
    said = publication.already()
    if said is not None:
        echo(said, err=True)
    return said is not None


def name_reports(paths: Iterable[Path]) -> None:
    """Say which files `--report` wrote."""
    echo("report  " + ", ".join(map(str, paths)), err=True)


@contextlib.contextmanager
def truthful(publication: Publication) -> Iterator[None]:
    """If the job ends early, say what it has published and whether it was charged."""
    try:
        with publication.truth():
            yield
    except PublishedError:
        raise
    except BaseException:
        if publication.charge.is_open:
            with contextlib.suppress(OSError):
                click.echo("the ledger was charged before the job ended, and stays charged", err=True)
        raise


def source(plan: Plan | ReleasePlan, *, count_rows: bool = True) -> str:
    """Input of a plan in a line."""
    files = len(plan.inputs.paths)
    rows = "rows unknown before reading" if plan.rows is None else f"{plan.rows:,} rows"
    if not count_rows:
        rows = "the number of rows is private"
    return f"input   {plan.job.input.path} ({plan.inputs.format}, {files} file{'s' if files > 1 else ''}, {rows})"


def budget(job: JobFile) -> str:
    """The privacy that the job spends, beside its limits."""
    total, limits = job.total, job.privacy
    return f"budget  epsilon {total.epsilon!r} of {limits.max_epsilon!r}, delta {total.delta!r} of {limits.max_delta!r}"
