"""Ledgers of format 1: reading them, and copying their budget and spends into a ledger of the current format."""

from __future__ import annotations

import errno
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpcore._dataclasses import dataclass
from dpcore.accounting import _calibration
from dpcore.accounting.ledger import database
from dpcore.accounting.ledger.amounts import NOTHING, Amount, amount_in_file, read_number
from dpcore.accounting.ledger.creation import make
from dpcore.accounting.ledger.ledger import Ledger
from dpcore.errors import ParameterError
from dpcore.privacy import Privacy, as_written, written_down, written_up

if TYPE_CHECKING:
    import os

    from dpcore.accounting.ledger.states import State

TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class OldSpend:
    """A spend of a ledger of format 1."""

    what: str
    reserved: str
    done: bool
    amount: Amount
    job: str | None
    version: str


@dataclass(frozen=True, slots=True)
class OldLedger:
    """The contents of a ledger of format 1."""

    budget: Privacy
    accounting: str
    unit: str
    spends: tuple[OldSpend, ...]

    @property
    def total(self) -> Amount:
        """The sum of all spends."""
        return sum((spend.amount for spend in self.spends), NOTHING)


def read(path: str | os.PathLike[str]) -> OldLedger:
    """Read a ledger of format 1.

    Parameters
    ----------
    path : str or path
        The file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ParameterError, ParameterTypeError
        If it is not a ledger, or has another format.
    OSError
        If it cannot be read or is damaged.
    """
    where = database.resolve(path)
    if database.size(where) is None:
        raise FileNotFoundError(errno.ENOENT, "there is no ledger of this name", str(where))
    with database.transaction(where, TIMEOUT) as connection:
        database.check_format(connection, where, expected=(database.OLD_FORMAT,))
        header = connection.execute("SELECT epsilon, delta, relation, accounting, unit FROM budget").fetchone()
        rows = connection.execute(
            "SELECT what, reserved, done IS NOT NULL, epsilon, delta, rho, job, version FROM spend ORDER BY id"
        ).fetchall()
    try:
        if header is None:
            raise database.damaged(where)
        epsilon, delta, relation, accounting, unit = header
        budget = Privacy(float(epsilon), float(delta), relation)
        return OldLedger(budget, accounting, unit, tuple(_spend(row, accounting) for row in rows))
    except (ArithmeticError, ValueError, TypeError) as error:
        raise database.damaged(where) from error


def _spend(row: tuple[Any, ...], accounting: str) -> OldSpend:
    what, reserved, done, *texts, job, version = row
    epsilon, delta, rho = map(amount_in_file, texts)
    if delta is None or (epsilon if accounting == "basic" else rho) is None:
        raise ValueError(texts)
    return OldSpend(what, reserved, bool(done), Amount(epsilon, delta, rho), job, version)


def carry_over(
    path: str | os.PathLike[str], into: str | os.PathLike[str], *, failure_delta: float | None = None, dataset: str | None = None
) -> Ledger:
    r"""Make a new ledger with the budget and the spends of one of format 1. The old ledger is only read.

    Parameters
    ----------
    path, into : str or path
        The old file, and the new file, which must not exist.
    failure_delta : float, optional
        For "zcdp": limit of the δ of releases that may fail, at least what was spent of it, which is the default. Old ledgers have no
        such limit.
    dataset : str, optional
        As in `Ledger.create`.

    Returns
    -------
    Ledger
        Of kind "basic" with the old (ε₀, δ₀), or of kind "zcdp" with the largest ρ whose conversion keeps (ε₀, δ₀) with this limit.
        Spends that are reserved and not done stay reserved.

    Raises
    ------
    FileExistsError
        If there is a file at `into`.
    ParameterError, ParameterTypeError, OSError
        As in `read`, or if `failure_delta` leaves too little for what was spent.
    """
    old = read(path)
    if failure_delta is not None and old.accounting != "zcdp":
        raise ParameterError(f"failure_delta must be left out for a ledger with accounting 'basic', got {failure_delta!r}")
    limits = {"epsilon": old.budget.epsilon, "delta": old.budget.delta} if old.accounting == "basic" else _zcdp_limits(old, failure_delta)
    carried = [_carried(spend, old) for spend in old.spends]
    made = make(into, limits, relation=old.budget.relation, unit=old.unit, dataset=dataset, timeout=TIMEOUT, carried=carried)
    return Ledger(made, timeout=TIMEOUT)


def _zcdp_limits(old: OldLedger, failure_delta: float | None) -> dict[str, float]:
    total = old.total
    failures = written_up(total.delta) if failure_delta is None else read_number("failure_delta", failure_delta, written_down)
    if as_written(failures) < total.delta:
        raise ParameterError(f"failure_delta must be at least what was spent, {written_up(total.delta)!r}, got {failures!r}")
    usable = as_written(old.budget.delta) - as_written(failures)
    spent = written_up(total.rho or Fraction(0))
    rho = _calibration.largest_rho(old.budget.epsilon, written_down(usable)) if usable > 0 and old.budget.epsilon else 0.0
    if spent > rho:
        # The search ends within 10^−9 of the largest ρ, so a spent ρ slightly above the result may keep the budget as well.
        if not (usable > 0 and _calibration.keeps_zcdp(spent, old.budget.epsilon, written_down(usable))):
            raise ParameterError(
                f"failure_delta must leave enough of delta for the rho that was spent, {spent!r}, got {failures!r}; give a smaller one"
            )
        rho = spent
    return {"rho": rho, "failure_delta": failures}


def _carried(spend: OldSpend, old: OldLedger) -> tuple[Amount, tuple[object, ...], State]:
    values = (spend.what, spend.reserved, spend.job, None, spend.version, old.budget.relation, old.unit, None)
    return spend.amount, values, "done" if spend.done else "reserved"
