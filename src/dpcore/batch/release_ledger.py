"""What a release job charges to its ledger, and when."""

from __future__ import annotations

import contextlib
import shlex
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpcore._intervals import fraction_up
from dpcore.accounting import Ledger
from dpcore.batch.errors import JobError, StorageError
from dpcore.batch.ledger_state import ledger_summary
from dpcore.errors import BudgetError
from dpcore.privacy import Privacy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpcore.batch.release_answers import Answer
    from dpcore.batch.release_job import ReleaseJob

SLACK = 1 - 1e-8
"""A ledger tells how much ρ remains within 10^−9 of it; whether a spend fits is decided by the spend itself."""


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
        self._amount = amount_of(job, answers, self._ledger.accounting)
        self.check()

    def check(self) -> None:
        """Raise `BudgetError` if the ledger could not pay as it is now; spends nothing."""
        if self._ledger is None:
            return
        if isinstance(self._amount, Privacy):
            left = self._ledger.remaining
            fits = self._amount.epsilon <= left.epsilon and (self._amount.delta <= left.delta or self._ledger.accounting == "zcdp")
            words = f"epsilon {self._amount.epsilon!r}, delta {self._amount.delta!r}", f"epsilon {left.epsilon!r}, delta {left.delta!r}"
        else:
            rest = self._ledger.remaining_rho
            fits, words = self._amount * SLACK <= rest, (f"rho {self._amount:.6g}", f"rho {rest:.6g}")
        if not fits:
            raise BudgetError(f"the job needs {words[0]}, but the ledger {self._ledger.path} has {words[1]} left")

    @contextlib.contextmanager
    def reserved(self) -> Iterator[None]:
        """Reserve the whole job; at the end of the block, if nothing went wrong, it is done."""
        if self._ledger is None:
            yield
            return
        count = len(self._job.query)
        what = f"release of {count} quer{'ies' if count > 1 else 'y'} on {self._job.input.path}"
        with self._ledger.spend(self._amount, what=what, job=self._job.output.path):
            self.is_open = True
            yield
        self.is_open = False

    def summary(self) -> dict[str, Any] | None:
        """The ledger as it is now, for the document."""
        return None if self._ledger is None or self._job.ledger is None else ledger_summary(self._ledger, self._job.ledger.path)


def amount_of(job: ReleaseJob, answers: tuple[Answer, ...], accounting: str) -> Privacy | float:
    """(ε, δ) of the whole job; for a ledger that adds ρ up, its ρ, if that of every query is known."""
    rhos = [answer.rho for answer in answers]
    if accounting == "basic" or any(rho is None for rho in rhos):
        return job.total
    return fraction_up(sum((Fraction(rho) for rho in rhos if rho is not None), Fraction(0)))


def _command(job: ReleaseJob) -> str:
    """What makes a ledger that can pay for the job."""
    words = ["dpcore ledger create", shlex.quote("" if job.ledger is None else job.ledger.path), "--epsilon …"]
    if job.total.delta:
        words.append("--delta …")
    if job.privacy.relation != "replace":
        words.append(f"--relation {job.privacy.relation}")
    if job.privacy.unit != "row":
        words.append(f"--unit {shlex.quote(job.privacy.unit)}")
    return " ".join(words)


def _opened(job: ReleaseJob) -> Ledger | None:
    if job.ledger is None:
        return None
    try:
        ledger = Ledger(job.ledger.path)
    except FileNotFoundError:
        raise StorageError(f"ledger.path = {job.ledger.path!r}: no such file; make one with {_command(job)}") from None
    if ledger.budget.relation != job.privacy.relation:
        raise JobError(
            f"privacy.relation = {job.privacy.relation!r}, but the budget of the ledger {job.ledger.path} is for "
            f"{ledger.budget.relation!r}: guarantees for different neighbours do not add up (dpcore ledger create --relation makes another)"
        )
    if ledger.unit != job.privacy.unit:
        raise JobError(
            f"privacy.unit = {job.privacy.unit!r}, but the budget of the ledger {job.ledger.path} is for {ledger.unit!r}: guarantees for "
            f"different units do not add up (dpcore ledger create --unit makes another)"
        )
    return ledger
