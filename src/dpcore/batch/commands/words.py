"""What the commands that run jobs say alike: of the input, the budget, a curator, and a job that ends early."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from dpcore.errors import PublishedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpcore.batch.jobfile.sections import JobFile
    from dpcore.batch.privatize.plan import Plan
    from dpcore.batch.release.plan import ReleasePlan
    from dpcore.batch.tables.publication import Publication

CURATOR = (
    "curator: messages may say which rows are at fault and which columns a CSV has. They are outside the guarantee; show them to nobody "
    "who must not see the input."
)
CURATOR_HELP = (
    "For whoever may see the input: messages may say which rows are at fault, and which columns a CSV has. They are outside the "
    "guarantee. Not for jobs with a ledger."
)


@contextlib.contextmanager
def truthful(publication: Publication) -> Iterator[None]:
    """Say of a job that ends early what it has shown and what it has cost."""
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
    """What is spent beside what is allowed."""
    total, limits = job.total, job.privacy
    return f"budget  epsilon {total.epsilon!r} of {limits.max_epsilon!r}, delta {total.delta!r} of {limits.max_delta!r}"
