"""The decision of a ledger: whether a spend is granted.

A spend is granted if it agrees with the ledger in relation, unit and data set, and if everything that was granted before and this spend
together stay within both limits of the budget. The transaction that reads the totals also writes the reservation, so no other process can
spend in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcore._dataclasses import dataclass
from dpcore._version import __version__
from dpcore.accounting.ledger import commitments, rows, series
from dpcore.accounting.ledger.amounts import ZERO, Amount
from dpcore.errors import BudgetError, ParameterError

if TYPE_CHECKING:
    import sqlite3

    from dpcore.accounting.ledger.opened import OpenLedger
    from dpcore.accounting.ledger.rows import Header
    from dpcore.accounting.ledger.spends import Kind


@dataclass(frozen=True, slots=True)
class Request:
    """A requested spend; None for values that the caller left out."""

    cost: Amount
    what: str
    job: str | None = None
    run: str | None = None
    relation: object = None
    unit: object = None
    dataset: str | None = None
    secure: object = True
    queries: str | None = None
    series: str | None = None
    commitment: str | None = None


def grant(opened: OpenLedger, request: Request) -> int:
    """Reserve a spend and return its number, or refuse it and write nothing.

    Raises
    ------
    BudgetError
        If the spend does not fit.
    ParameterError
        If it does not agree with the ledger, or with the commitments that the ledger holds.
    OSError
        If the ledger cannot be read or written.
    """
    header = opened.header
    check_agreement(request, header)
    opened.complete()
    with opened.transaction(write=True) as connection:
        checked = opened.check_spends(connection)
        _check_commitment(connection, opened, request)
        is_paid = request.series is not None and series.last_step(connection, opened.path, request.series) is not None
        cost = request.cost.nothing if is_paid else request.cost
        if not fits(checked.total + cost, header.budget, header.kind):
            left = rest(checked.total, header.budget).words(header.kind, up=False)
            raise BudgetError(f"{request.what!r} needs {cost.words(header.kind)}; the ledger has {left} left")
        dataset = header.dataset if request.dataset is None else request.dataset
        values = (request.what, rows.now(), request.job, request.run, __version__, header.relation, header.unit, dataset)
        added = rows.write_spend(connection, checked, cost, values)
        rows.write_spender(connection, added.id)
        if request.queries is not None:
            rows.write_asked(connection, added.id, request.queries)
        if request.run is not None and request.commitment is not None:
            commitments.write(connection, added.id, request.run, request.commitment)
        if request.series is not None and not is_paid:
            series.write_step(connection, opened.path, added.id, request.series, 0, "")
    opened.checked = added
    return added.id


def _check_commitment(connection: sqlite3.Connection, opened: OpenLedger, request: Request) -> None:
    """Refuse a key that another run has, and another key of the same run."""
    if request.commitment is not None and request.run is None:
        raise ParameterError("run is required with commitment: a key is for one run")
    found = commitments.read(connection, opened.path)
    known = ((number, *each, rows.state_of(connection, opened.path, number)) for number, each in found.items())
    refused = commitments.refusal(known, request.run, request.commitment)
    if refused is not None:
        raise ParameterError(refused)


def check_agreement(request: Request, header: Header) -> None:
    """Refuse a spend whose cost cannot be added to the others, and noise that is not private."""
    for name, value, own in (("relation", request.relation, header.relation), ("unit", request.unit, header.unit)):
        if value is not None and value != own:
            raise ParameterError(
                f"{name} must be that of the ledger, {own!r}, got {value!r}: guarantees for different {name}s do not add up"
            )
    if header.dataset is not None and request.dataset not in (None, header.dataset):
        raise ParameterError(f"dataset must be the one the ledger was made for, {header.dataset!r}, got {request.dataset!r}")
    if request.secure is not True:
        raise ParameterError(
            "secure must be True: noise from a test key can be recomputed by anyone who has the key, so a ledger does not pay for it"
        )


def fits(total: Amount, budget: Amount, kind: Kind) -> bool:
    """Whether a total is within the budget. Both limits are fixed when the ledger is made, and neither is traded for the other."""
    wanted, most = (total.epsilon, budget.epsilon) if kind == "basic" else (total.rho, budget.rho)
    return (wanted or ZERO) <= (most or ZERO) and total.delta <= budget.delta


def rest(total: Amount, budget: Amount) -> Amount:
    """Return what is left of a budget, and 0 for a part that is overdrawn because another program wrote to the file."""
    epsilon = None if budget.epsilon is None else max(budget.epsilon - (total.epsilon or ZERO), ZERO)
    rho = None if budget.rho is None else max(budget.rho - (total.rho or ZERO), ZERO)
    return Amount(epsilon, max(budget.delta - total.delta, ZERO), rho)
