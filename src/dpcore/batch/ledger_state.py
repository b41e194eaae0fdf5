"""What a ledger says about itself, for JSON: in `dpcore ledger show`, and beside the answers that a job paid for with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.privacy import written_sum

if TYPE_CHECKING:
    from pathlib import Path

    from dpcore.accounting import Entry, Ledger
    from dpcore.privacy import Privacy

FORMAT = 1


def ledger_summary(ledger: Ledger, path: str | Path) -> dict[str, Any]:
    """Budget, what is spent of it, and what remains.

    Parameters
    ----------
    ledger : Ledger
        The ledger, as it is now.
    path : str or Path
        What its user calls it.

    Returns
    -------
    dict
        `path`, `accounting`, `relation`, `unit`, and `budget`, `spent`, `remaining`, each with `epsilon` and `delta`; the last two with
        `rho` for a ledger that adds ρ up. `remaining.epsilon` is then that of the largest spend that is pure.
    """
    parts = {"budget": _amount(ledger.budget), "spent": _amount(ledger.spent), "remaining": _amount(ledger.remaining)}
    if ledger.accounting == "zcdp":
        parts["spent"]["rho"], parts["remaining"]["rho"] = ledger.spent_rho, ledger.remaining_rho
    return {"path": str(path), "accounting": ledger.accounting, "relation": ledger.budget.relation, "unit": ledger.unit} | parts


def ledger_state(ledger: Ledger, path: str | Path) -> dict[str, Any]:
    """The summary with what is reserved, and all entries."""
    entries = list(ledger.entries())
    reserved = [entry for entry in entries if entry.state == "reserved"]
    keys = ("rho", "delta") if ledger.accounting == "zcdp" else ("epsilon", "delta")
    held = {key: written_sum(getattr(entry, key) or 0.0 for entry in reserved) for key in keys}
    summary = ledger_summary(ledger, path)
    remaining = summary.pop("remaining")
    listed = [_entry(entry) for entry in entries]
    return {"format": FORMAT} | summary | {"reserved": held, "remaining": remaining, "entries": listed}


def _amount(privacy: Privacy) -> dict[str, float]:
    return {"epsilon": privacy.epsilon, "delta": privacy.delta}


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "what": entry.what,
        "when": entry.when.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "state": entry.state,
        "epsilon": entry.epsilon,
        "delta": entry.delta,
        "rho": entry.rho,
        "job": entry.job,
        "version": entry.version,
    }
