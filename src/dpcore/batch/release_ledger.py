"""What a release job charges to its ledger, and when."""

from __future__ import annotations

import contextlib
import shlex
from typing import TYPE_CHECKING, Any

from dpcore.accounting import Ledger
from dpcore.batch.errors import JobError, StorageError
from dpcore.batch.ledger_state import ledger_summary
from dpcore.errors import BudgetError
from dpcore.privacy import Privacy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpcore.accounting import Budget
    from dpcore.batch.release_answers import Answer
    from dpcore.batch.release_job import ReleaseJob


class Charge:
    """What a job takes from its ledger: one reservation for all of its queries.

    It is made after the rows were read, so that a job that finds a row it cannot use spends nothing, and before any noise is drawn. It
    is marked done when the output is in place; a job that dies in between leaves a reservation, which counts as spent.

    Parameters
    ----------
    job : ReleaseJob
        Names the ledger, if there is one.
    answers : tuple of Answer
        What it draws.

    Attributes
    ----------
    is_open : bool
        Whether the ledger has been charged for a job that is not done.

    Raises
    ------
    JobError
        If the ledger is for other neighbours or another unit.
    StorageError
        If there is no such ledger.
    BudgetError
        If it does not have what the job spends.
    """

    def __init__(self, job: ReleaseJob, answers: tuple[Answer, ...]) -> None:
        self._job, self._ledger = job, _opened(job)
        self.is_open = False
        if self._ledger is None:
            return
        self._amount = amount_of(job, answers, self._ledger.kind)
        self.check()

    def check(self) -> None:
        """Raise `BudgetError` if the ledger could not pay as it is now; spends nothing."""
        if self._ledger is None:
            return
        if not self._ledger.fits(self._amount):
            needed, left = self._ledger.cost(self._amount), self._ledger.remaining
            raise BudgetError(f"the job needs {_words(needed)}, but the ledger {self._ledger.path} has {_words(left)} left")

    @contextlib.contextmanager
    def reserved(self) -> Iterator[None]:
        """Reserve the whole job; at the end of the block, if nothing went wrong, it is done."""
        if self._ledger is None:
            yield
            return
        count = len(self._job.query)
        what = f"release of {count} quer{'ies' if count > 1 else 'y'} on {self._job.input.path}"
        with self._ledger.spend(self._amount, what=what, job=self._job.output.path, unit=self._job.privacy.unit, secure=self._job.secure):
            self.is_open = True
            yield
        self.is_open = False

    def summary(self) -> dict[str, Any] | None:
        """The ledger as it is now, for the document."""
        return None if self._ledger is None or self._job.ledger is None else ledger_summary(self._ledger, self._job.ledger.path)


def _words(amount: Budget) -> str:
    counted = f"epsilon {amount.epsilon!r}" if amount.rho is None else f"rho {amount.rho:.6g}"
    return f"{counted}, delta {amount.delta!r}"


def amount_of(job: ReleaseJob, answers: tuple[Answer, ...], kind: str) -> Privacy | list[Privacy | float]:
    """(ε, δ) of the whole job; for a ledger that adds ρ up, the ρ of each query, or its (ε, δ) if that is all that is known."""
    if kind == "basic":
        return job.total
    guarantees = (Privacy(answer.section.epsilon, answer.section.delta, job.privacy.relation) for answer in answers)
    return [guarantee if answer.rho is None else answer.rho for answer, guarantee in zip(answers, guarantees, strict=True)]


def _command(job: ReleaseJob) -> str:
    """What makes a ledger that can pay for the job."""
    words = ["dpcore ledger create", shlex.quote("" if job.ledger is None else job.ledger.path), "--epsilon …"]
    if job.total.delta:
        words.append("--delta …")
    if job.privacy.relation != "replace":
        words.append(f"--relation {job.privacy.relation}")
    if job.privacy.unit != "row":
        words.append(f"--unit {shlex.quote(job.privacy.protected)}")
    return " ".join(words)


def _opened(job: ReleaseJob) -> Ledger | None:
    if job.ledger is None:
        return None
    if not job.secure:
        raise JobError("[testing] and [ledger] exclude each other: noise under a key protects nobody, and a ledger does not pay for it")
    try:
        ledger = Ledger(job.ledger.path)
    except FileNotFoundError:
        raise StorageError(f"ledger.path = {job.ledger.path!r}: no such file; make one with {_command(job)}") from None
    if ledger.relation != job.privacy.relation:
        raise JobError(
            f"privacy.relation = {job.privacy.relation!r}, but the budget of the ledger {job.ledger.path} is for "
            f"{ledger.relation!r}: guarantees for different neighbours do not add up (dpcore ledger create --relation makes another)"
        )
    if ledger.unit != job.privacy.protected:
        raise JobError(
            f"privacy.unit = {job.privacy.protected!r}, but the budget of the ledger {job.ledger.path} is for {ledger.unit!r}: guarantees "
            f"for different units do not add up (dpcore ledger create --unit makes another)"
        )
    return ledger
