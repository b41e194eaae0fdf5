"""Text that `dpcore privatize` and `dpcore release` share: input, budget, `--curator`, and jobs that end early."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dpcore._terminal import echo
from dpcore.errors import BudgetError, JobError, PublishedError, StorageError
from dpcore.pages.numbers import plain_name
from dpcore.pages.words import NOT_SECURE
from dpcore.tables.checks import MEANT, to_declare
from dpcore.tables.local_paths import check_local
from dpcore.tables.places import LOG, REPORT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from dpcore.errors import DpcoreError
    from dpcore.tables.output.charge import Charge
    from dpcore.tables.output.spending import Spending
    from dpcore.tables.places import Place
    from dpcore.tables.plans import JobPlan
    from dpcore.tables.sections import JobFile

SomePlan = TypeVar("SomePlan", bound="JobPlan")
CURATOR = (
    "curator: messages may say which rows are at fault and which columns a CSV has. They are outside the guarantee; show them only to "
    "people who may see the input."
)
DRY_RUN = "Dry run: only the schema was read, nothing was written, and nothing is spent."
REFUSED = "dry run: the plan is above; a run would be refused, for this reason:"


def begin(*, dry_run: bool, folder: Path | None, curator: bool) -> None:
    """Refuse options that contradict each other, and explain `--curator`."""
    if dry_run and folder is not None:
        raise click.UsageError("--dry-run writes nothing, so it cannot be combined with --report")
    if folder is not None:
        check_local("--report", str(folder))
    if curator:
        click.echo(CURATOR, err=True)


def other_files(job: Path, reports: Iterable[Path], log: Path | None) -> list[Place]:
    """The files of a command beside those that its job names, for the check that no file has two uses."""
    return [("the job file", job), *((REPORT, path) for path in reports), *([] if log is None else [(LOG, log)])]


def warn(job: JobFile, others: Iterable[str] = ()) -> None:
    """Warn if the job's noise can be repeated, and so removed; and of what else there is."""
    for text in [*([] if job.secure else [NOT_SECURE]), *others]:
        echo(f"warning: {text}", err=True)


def is_published(plan: JobPlan, what: str) -> bool:
    """Whether an earlier run of the same job has published its output, or left it complete; prints a message about it."""
    said = plan.publication.already()
    if said is not None:
        echo(_with_old_output(said, plan, what), err=True)
    return said is not None


def _with_old_output(said: str, plan: JobPlan, what: str) -> str:
    """A message about a run that the ledger knows; a step of a series is made once, so nothing is left to say."""
    return said if plan.job.is_paid_once else f"{said}\n{old_output(what, plan.publication.charge)}"


def old_output(what: str, charge: Charge) -> str:
    """What a run that the ledger knows does not tell, for an output that consists of answers or rows."""
    again = f"{charge.to_spend_again}; that spends" if charge.is_committed else "name another output.path, or give --overwrite; both spend"
    return (
        f"These are the {what} of that run. If the table has changed since, these are still the old {what}. For new ones {again} again. "
        "A job with another [input] dataset counts as another run."
    )


def planned(make: Callable[..., SomePlan], job: Any, *, dry_run: bool, **options: Any) -> tuple[SomePlan, DpcoreError | None]:
    """The plan of a job. For a dry run also the error with which a run would be refused because of its ledger or its output."""
    try:
        return make(job, **options), None
    except (JobError, BudgetError, StorageError) as error:
        if not dry_run:
            raise
        # Without a ledger, and with room for the output: if that fails as well, there is no plan to show.
        try:
            plan = make(job.model_copy(update={"ledger": None}), **options | {"overwrite": True, "curator": False})
        except (JobError, BudgetError, StorageError):
            raise error from None
        uncharged: Any = plan.job
        return replace(plan, job=uncharged.model_copy(update={"ledger": job.ledger})), error


def end_dry_run(plan: JobPlan, error: DpcoreError | None, what: str) -> None:
    """After the plan, say whether a run would spend nothing; raise the error with which it would be refused."""
    try:
        if error is not None:
            raise error
        said = plan.publication.charge.foretold(plan.publication.names)
    except (JobError, BudgetError, StorageError):
        echo(REFUSED, err=True)
        raise
    if said is not None:
        echo(_with_old_output(said, plan, what), err=True)


def write_reports(pages: Any, found: object) -> None:
    """Write the files of `--report`; the first plot takes seconds, which are not silent."""
    echo("report  drawing the page …", err=True)
    pages.write(found)


def name_reports(paths: Iterable[Path]) -> None:
    """Print which files `--report` wrote."""
    echo("report  " + ", ".join(map(str, paths)), err=True)


@contextlib.contextmanager
def truthful(publication: Spending) -> Iterator[None]:
    """If the job ends early, report what it has published and whether it was charged."""
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


def source(plan: JobPlan, *, count_rows: bool = True) -> str:
    """Input of a plan in a line."""
    origin = plan.inputs.origin
    files = origin["files"]
    found = "files unknown" if files is None else f"{files} file{'s' if files > 1 else ''}"
    found += ", Spark Connect, whose encryption is declared" if "connect" in origin else ""
    rows = "rows unknown before reading" if plan.rows is None else f"{plan.rows:,} rows"
    if not count_rows:
        rows = "the number of rows is private"
    return f"input   {plan.job.input.path} ({origin['format']}, {found}, {rows})"


def budget(job: JobFile) -> str:
    """The privacy that the job spends, beside its limits."""
    total, limits = job.total, job.privacy
    return f"budget  epsilon {total.epsilon!r} of {limits.max_epsilon!r}, delta {total.delta!r} of {limits.max_delta!r}"


def ends_the_run(name: str, column: str, keys: tuple[str, ...], skipped: tuple[str, ...] = ("missing", "unknown")) -> str:
    """What a dry run says of a column whose cells can end the run."""
    cells = " or ".join(MEANT[key] for key in keys)
    advice = to_declare(keys, skipped)
    return f"Note: in column {plain_name(column)} ({plain_name(name)}), {cells} ends the run with exit code 3: {advice}."
