"""The page of `dpcore release --report`: the queries and their cost, each answer with its error, and the ledger after the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.batch.release.questions import labelled
from dpcore.batch.release.words import accounting_in_words, is_exact, limits_in_words, neighbours_in_words, release_protection
from dpcore.pages.numbers import percentage_of, rounded_down, rounded_up
from dpcore.pages.page import Pages
from dpcore.pages.words import NOT_SECURE, guarantee_shown, misses_in_words

if TYPE_CHECKING:
    from collections.abc import Mapping

PARTS = ("budget", "spent", "remaining")


class ReleasePages(Pages):
    """The files of `release --report DIR`; `write` takes the document that `dpcore release` prints."""

    template = "release"

    def content(self, subject: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """The page of a release's document."""
        from dpcore.batch.release.sections import section_of

        document, subject = subject, labelled(subject)
        queries, privacy = subject["queries"], subject["privacy"]
        presence = subject.get("relation", "replace") == "add_remove"
        levels = sorted(
            {
                query["confidence"]
                for query in queries
                if query.get("interval") is not None and query.get("confidence") and not is_exact(query)
            }
        )
        shown = {
            "name": self.name,
            "queries": [section_of(number, query) for number, query in enumerate(queries, 1)],
            "guarantee": guarantee_shown(
                privacy["epsilon"], privacy["delta"], subject["unit"], protection=release_protection(subject), presence=presence
            ),
            "neighbours": neighbours_in_words(subject) + accounting_in_words(subject),
            "ledger": ledger_shown(subject.get("ledger"), privacy),
            "alarm": NOT_SECURE,
            "limits": limits_in_words(subject),
            "misses": misses_in_words(levels) if levels else None,
            "confidence": percentage_of(levels[0]) if len(levels) == 1 else "",
        }
        return document, shown


def ledger_shown(ledger: Mapping[str, Any] | None, privacy: Mapping[str, Any]) -> dict[str, Any] | None:
    """The state of a ledger after this job, as numbers and as shares of its budget."""
    if ledger is None:
        return None
    by_rho = ledger.get("kind") == "zcdp"
    rows = []
    for key, symbol in (("rho", "ρ"), ("delta", "δ of failures")) if by_rho else (("epsilon", "ε"), ("delta", "δ")):
        parts = {name: _part(ledger, name, key) for name in PARTS}
        job = "–" if by_rho else rounded_up(privacy[key])
        rows.append({"symbol": symbol, "job": job} | {name: _amount(name, value) for name, value in parts.items()})
    counted = "rho" if by_rho else "epsilon"
    # What this job added to the sum of ρ is not what it guarantees by itself, so both are one share.
    own = 0.0 if by_rho else privacy["epsilon"]
    earlier, share = _shares(_part(ledger, "budget", counted), _part(ledger, "spent", counted), own)
    shares = {"earlier": f"{earlier:.2f}", "job": f"{share:.2f}" if share else None}
    return {"path": ledger.get("path"), "kind": ledger.get("kind"), "rows": rows, "shares": shares}


def _shares(budget: float | None, spent: float | None, job: float) -> tuple[float, float]:
    """Per cent of a budget that was spent before a job, and by it."""
    if not budget or spent is None:
        return 0.0, 0.0
    share = min(100.0, 100 * job / budget)
    return min(100.0 - share, max(0.0, 100 * (spent - job) / budget)), share


def _amount(name: str, value: float | None) -> str:
    """A part of a budget: what was spent is rounded up, what may be spent down."""
    if value is None:
        return "–"
    return rounded_up(value) if name == "spent" else rounded_down(value)


def _part(ledger: Mapping[str, Any], name: str, key: str) -> float | None:
    section = ledger.get(name)
    value = section.get(key) if isinstance(section, dict) else None
    return None if value is None else float(value)
