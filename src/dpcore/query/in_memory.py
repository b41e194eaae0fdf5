"""Release jobs whose answers go to the caller: the same plan, the same run and the same charge, and no file."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from dpcore._backend import default_threads
from dpcore._dataclasses import dataclass
from dpcore._disk.signals import Deferred
from dpcore._validation import check_integer
from dpcore.errors import StorageError, reason
from dpcore.query.joins import inputs_of
from dpcore.query.local_backend import LocalPasses
from dpcore.query.plan import declared_reads, planned
from dpcore.query.run import document_of, measured
from dpcore.tables.output.charge import Charge
from dpcore.tables.output.job_words import OF_A_JOB
from dpcore.tables.output.spending import Spending
from dpcore.tables.progress import shown_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dpcore._disk.sealed_files import SealedFile
    from dpcore.query.backend import Passes, Room
    from dpcore.query.plan import ReleasePlan
    from dpcore.query.request import ReleaseJob
    from dpcore.tables.inputs import Inputs
    from dpcore.tables.output.charge import Spend
    from dpcore.tables.output.job_words import JobWords
    from dpcore.tables.progress import Progress, Shown


NOWHERE = os.devnull
"""The output of a job that writes no file."""


class Unwritten(Spending):
    """The states of a job that writes no file: planned, reserved, done. A failure after the charge leaves the charge.

    Parameters
    ----------
    charge : Charge
        What the ledger is to pay.
    """

    def __init__(self, charge: Charge) -> None:
        super().__init__((), charge)

    def publish(self, files: Sequence[SealedFile] = ()) -> None:  # noqa: ARG002
        with Deferred():
            try:
                self.charge.done()
            except OSError as error:
                raise StorageError(f"cannot record in the ledger that the answers exist{reason(error)}; they stay charged") from None
            self.state = "done"


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder that goes when the job ends."""

    spill: Path


def make_unwritten_plan(
    job: ReleaseJob, inputs: Inputs | None = None, tables: Mapping[str, Inputs] | None = None, *, words: JobWords = OF_A_JOB
) -> ReleasePlan:
    """Check a job whose answers are not written.

    Parameters
    ----------
    job : ReleaseJob
        Its output is not looked at.
    inputs : Inputs, optional
        What is read. Default: the files that the job names.
    tables : mapping, optional
        The tables that are joined, and public tables that are no files, by the paths that the job gives them.
    words : JobWords, optional
        Words of messages that depend on the door. Default: those for a job file.

    Returns
    -------
    ReleasePlan
        For `answers`.
    """
    inputs, tables = inputs_of(job, inputs, tables)

    def publication(spend: Spend) -> Unwritten:
        return Unwritten(Charge(job, spend, overwrite=True, is_repeatable=False, words=words))

    return planned(job, inputs, declared_reads(job), Path(NOWHERE), publication, tables=tables)


def answers(plan: ReleasePlan, *, threads: int | None = None, progress: Shown = None, piece_rows: int | None = None) -> dict[str, Any]:
    """Run a plan of `make_unwritten_plan`; the document is that of `run` with arrays of numbers of groups, and is not written."""
    threads = default_threads() if threads is None else check_integer("threads", threads, low=1, high=4096)
    shown = shown_by(progress)
    return answered(plan, lambda room: LocalPasses(room, threads, shown, piece_rows), shown)


def answered(plan: ReleasePlan, passes: Callable[[Room], Passes], progress: Progress) -> dict[str, Any]:
    """Charge a plan of `make_unwritten_plan`, run it on an engine, and return the document of its answers, with arrays."""
    with plan.publication as publication, room() as found:
        # From here on the budget is spent, even if the job fails.
        publication.reserve()
        document = document_of(*measured(plan, passes(found)), {}, progress)
        publication.publish(())
    return document


@contextmanager
def room() -> Iterator[Room]:
    """A folder for what does not fit into memory, which is removed after it."""
    try:
        folder = TemporaryDirectory(prefix="dpcore-", ignore_cleanup_errors=True)
    except OSError as error:
        raise StorageError(f"cannot make a temporary folder{reason(error)}") from None
    with folder as path:
        yield _Folder(Path(path) / "spill")
