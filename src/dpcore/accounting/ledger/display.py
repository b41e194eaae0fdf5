"""A ledger as text and as HTML, for a prompt and a notebook: its budget, what is spent, and what remains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcore._html import facts_table
from dpcore.accounting.ledger.decision import rest
from dpcore.accounting.ledger.spends import budget_of
from dpcore.errors import ParameterError

if TYPE_CHECKING:
    from dpcore.accounting.ledger.opened import OpenLedger
    from dpcore.accounting.ledger.spends import Budget

UNKNOWN = "unknown, because the file cannot be read"


def _words(amount: Budget) -> str:
    parts = (("mu", amount.mu), ("rho", amount.rho), ("epsilon", amount.epsilon))
    name, value = next(part for part in parts if part[1] is not None)
    return f"{name} {value!r}, delta {amount.delta!r}"


def lines(opened: OpenLedger) -> list[tuple[str, str]]:
    """Return names and values to show. A file that cannot be read any more is not an error here."""
    header = opened.header
    about = [
        ("path", str(opened.path)),
        ("kind", header.kind),
        ("relation", header.relation),
        ("unit", header.unit),
        ("data set", "several" if header.dataset is None else header.dataset),
        ("budget", _words(budget_of(header.budget, header.kind, up=False))),
    ]
    try:
        total = opened.total()
    except (OSError, ParameterError):
        return [*about, ("spent", UNKNOWN), ("remaining", UNKNOWN)]
    spent = budget_of(total, header.kind, up=True)
    left = budget_of(rest(total, header.budget), header.kind, up=False)
    return [*about, ("spent", _words(spent)), ("remaining", _words(left))]


def text(opened: OpenLedger) -> str:
    """Return the lines as plain text."""
    return "\n".join(["Ledger", *(f"  {name:<10} {value}" for name, value in lines(opened))])


def html(opened: OpenLedger) -> str:
    """Return the lines as an HTML table, with every text escaped."""
    return facts_table("Ledger", lines(opened))
