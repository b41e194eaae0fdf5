"""A ledger as JSON shows it: in `dpcore ledger show`, and beside the answers of a job that it paid for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.errors import ParameterError
from dpcore.privacy import as_written, written_sum, written_up

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction
    from pathlib import Path

    from dpcore.accounting import Budget, Entry, Ledger

FORMAT = 2


def ledger_summary(ledger: Ledger, path: str | Path) -> dict[str, Any]:
    """Return the budget of a ledger, what is spent of it, and what remains.

    Parameters
    ----------
    ledger : Ledger
        The ledger.
    path : str or Path
        Its name, as the user gave it.

    Returns
    -------
    dict
        `path`, `kind`, `relation`, `unit`, `dataset`, and `budget`, `spent`, `remaining`, each with `delta` and with `epsilon` (kind
        "basic"), `rho` (kind "zcdp") or `mu` (kind "gdp").
    """
    about = {"path": str(path), "kind": ledger.kind, "relation": ledger.relation, "unit": ledger.unit, "dataset": ledger.dataset}
    return about | {"budget": _amount(ledger.budget), "spent": _amount(ledger.spent), "remaining": _amount(ledger.remaining)}


def ledger_state(ledger: Ledger, path: str | Path) -> dict[str, Any]:
    """Return the summary with what is unfinished and what failed, and all entries."""
    entries = list(ledger.entries())
    summary = ledger_summary(ledger, path)
    remaining = summary.pop("remaining")
    keys = list(summary["budget"])
    unfinished = _sums((entry for entry in entries if entry.state in ("reserved", "sealed", "published")), keys)
    failed = _sums((entry for entry in entries if entry.state == "failed"), keys)
    parts = {"unfinished": unfinished, "failed": failed, "remaining": remaining}
    return {"format": FORMAT} | summary | parts | {"entries": [entry_state(entry) for entry in entries]}


def exported(path: Path) -> dict[str, Any]:
    """Return everything that a ledger of either format holds."""
    from dpcore.accounting import Ledger
    from dpcore.accounting.ledger import old_format

    try:
        old = old_format.read(path)
    except ParameterError:
        return ledger_state(Ledger(path), path)  # raises the error that fits, if it is not a ledger of the current format either
    about = {"format": 1, "path": str(path), "accounting": old.accounting, "relation": old.budget.relation, "unit": old.unit}
    entries = [
        {
            "id": place,
            "what": spend.what,
            "when": spend.reserved,
            "state": "done" if spend.done else "reserved",
            "epsilon": _rounded(spend.amount.epsilon),
            "delta": _rounded(spend.amount.delta),
            "rho": _rounded(spend.amount.rho),
            "job": spend.job,
            "version": spend.version,
        }
        for place, spend in enumerate(old.spends, 1)
    ]
    return about | {"budget": {"epsilon": old.budget.epsilon, "delta": old.budget.delta}, "entries": entries}


def _rounded(exact: Fraction | None) -> float | None:
    return None if exact is None else written_up(exact)


def _amount(budget: Budget) -> dict[str, float | None]:
    counted = {"mu": budget.mu, "rho": budget.rho, "epsilon": budget.epsilon}
    key = next(name for name, value in counted.items() if value is not None)
    return {key: counted[key], "delta": budget.delta}


def _sums(entries: Iterable[Entry], keys: list[str]) -> dict[str, float]:
    every = list(entries)
    return {key: _sum(every, key) for key in keys}


def _sum(entries: list[Entry], key: str) -> float:
    if key == "mu":  # whose squares add up; an entry has half of each
        from dpcore.accounting.ledger.amounts import mu_of

        return mu_of(as_written(written_sum(entry.rho or 0.0 for entry in entries)), up=True)
    return written_sum(getattr(entry, key) or 0.0 for entry in entries)


def entry_state(entry: Entry) -> dict[str, Any]:
    """Return one spend."""
    keys = ("epsilon", "delta", "rho", "job", "run", "version", "relation", "unit", "dataset", "secure", "user", "host")
    named = {"id": entry.id, "what": entry.what, "when": entry.when.strftime("%Y-%m-%dT%H:%M:%SZ")}
    asked = {"queries": list(entry.queries)} if entry.queries else {}
    committed = {} if entry.commitment is None else {"commitment": entry.commitment}
    return named | {"state": entry.state, "reason": entry.reason} | {key: getattr(entry, key) for key in keys} | asked | committed
