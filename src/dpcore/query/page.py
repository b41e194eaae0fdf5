"""The page of `dpcore release --report`: the queries and their cost, each answer with its error, and the ledger after the job."""

from __future__ import annotations

import itertools
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore.pages.numbers import counted, percentage_of, plain_name, rounded_down, rounded_up
from dpcore.pages.page import Pages
from dpcore.pages.plots import shortened
from dpcore.pages.words import NOT_SECURE, guarantee_shown, misses_in_words, whose
from dpcore.query.pictures import made_rows, picture_of
from dpcore.query.prose import (
    accounting_in_words,
    adding_up_in_words,
    as_list,
    few_values_in_words,
    is_exact,
    limits_in_words,
    neighbours_in_words,
    noise_in_words,
    release_protection,
    rows_in_words,
    spaced,
)
from dpcore.query.questions import asked, declared, labelled, names_of_whole, used
from dpcore.query.units_of_answers import axis_of
from dpcore.query.view import MARK, RULE, View

if TYPE_CHECKING:
    from collections.abc import Mapping


PARTS = ("budget", "spent", "remaining")


class ReleasePages(Pages):
    """The files of `release --report DIR`; `write` takes the document that `dpcore release` prints."""

    template = "release"

    def content(self, subject: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
        document, subject = subject, labelled(subject)
        queries, privacy = subject["queries"], subject["privacy"]
        whole = names_of_whole(subject)
        presence = subject.get("relation", "replace") == "add_remove"
        levels = sorted(
            {
                query["confidence"]
                for query in queries
                if query.get("interval") is not None and query.get("confidence") and not is_exact(query)
            }
        )
        shown = {
            "title": self._title(subject),
            "about": self._about(subject),
            "queries": [
                section_of(number, {**query, "unit": subject["unit"]}) | {"used": used(subject, query, whole)}
                for number, query in enumerate(queries, 1)
            ],
            "guarantee": guarantee_shown(
                privacy["epsilon"], privacy["delta"], subject["unit"], protection=release_protection(subject, whole), presence=presence
            ),
            "neighbours": neighbours_in_words(subject) + accounting_in_words(subject),
            "ledger": ledger_shown(subject.get("ledger"), privacy),
            "commitment": commitment_shown(subject.get("commitment")),
            "alarm": NOT_SECURE,
            "limits": limits_in_words(subject, whole),
            "misses": misses_in_words(levels) if levels else None,
            "confidence": percentage_of(levels[0]) if len(levels) == 1 else "",
            "rule": RULE,
        }
        return document, shown

    def _title(self, document: Mapping[str, Any]) -> str:
        """The name of the page, and of its queries."""
        names = [plain_name(query["name"]) for query in document["queries"]]
        told = ", ".join(names) if len(names) <= NAMED else counted(len(names), "answer")
        return told if told == self.name else f"{self.name}: {told}"

    def _about(self, document: Mapping[str, Any]) -> str:
        """The table, and whom the guarantee protects."""
        origin = self._provenance
        table = origin.dataset or (PurePath(origin.input).name if origin.input else None)
        rows = f", about the rows for which {spaced(document['where'])}" if document.get("where") else ""
        return f"{f'from {table}, ' if table else ''}protecting {whose(document['unit'])}{rows}"


MATCH = (
    "every answer, error, interval, noise scale, bound and group of the document, and every table that the release made up, follows from "
    "the key that was committed to, from the job in the key file, and from an input with the same bytes, by the code that the commitment "
    "names"
)
"""What a match shows, in the words of docs/verify.md."""
NOT_TRIED = "that several keys were not tried until the answers pleased"


def commitment_shown(said: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The commitment of a release that can be replayed, and what it shows."""
    if said is None:
        return None
    if said.get("deposited"):
        keys = (
            f"It shows {NOT_TRIED} only to those who know that the commitment was deposited with a third party before the run, and that "
            "the public randomness came after it. It never shows"
        )
    else:
        keys = f"It does not show {NOT_TRIED}, nor"
    code = said["code"]
    return {
        "digest": said["hmac_sha256"],
        "randomness": said.get("public_randomness"),
        "code": f"dpcore {code['version']}, stream {code['stream_version']}, {code['sha256']}",
        "match": f"The holder of the table kept the key of the noise. A match of dpcore verify shows that {MATCH}.",
        "limits": f"{keys} that the data are true, complete or not chosen.",
    }


SYMBOLS = {"epsilon": "ε", "rho": "ρ", "mu": "μ"}
"""What ledgers count, by its name."""


def ledger_shown(ledger: Mapping[str, Any] | None, privacy: Mapping[str, Any]) -> dict[str, Any] | None:
    """The state of a ledger after this job, as numbers and as shares of its budget."""
    if ledger is None:
        return None
    counted = {"zcdp": "rho", "gdp": "mu"}.get(str(ledger.get("kind")), "epsilon")
    by_rho = counted != "epsilon"
    rows = []
    for key, symbol in ((counted, SYMBOLS[counted]), ("delta", "δ of failures" if by_rho else "δ")):
        parts = {name: _part(ledger, name, key) for name in PARTS}
        job = "–" if by_rho else rounded_up(privacy[key])
        rows.append({"symbol": symbol, "job": job} | {name: _amount(name, value) for name, value in parts.items()})
    # What this job added to the sum of ρ is not what it guarantees by itself, so both are one share.
    own = 0.0 if by_rho else privacy["epsilon"]
    budget, spent = _part(ledger, "budget", counted), _part(ledger, "spent", counted)
    if counted == "mu" and budget and spent is not None:  # whose squares add up
        budget, spent = 1.0, (spent / budget) ** 2
    earlier, share = _shares(budget, spent, own)
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


LISTED, FIRST = 5000, 1000
"""Rows of a table, at the most; of more only the first."""
TALL = 40
"""A table of more rows scrolls inside of a box."""
NAMED = 3
"""Queries that a title names."""


def section_of(number: int, query: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section of the page about one query.

    Parameters
    ----------
    number : int
        Its place on the page, from 1.
    query : mapping
        Its entry in the document.
    """
    view = View(query)
    made = made_rows(query) if view.kind.picture == "made_rows" else None
    single = view[0] if view.is_single else None
    value, exactness = view.summary() if made is None else (made["rows"], None)
    has_one_error = len(view) and len(set(as_list(query.get("stderr"), 1))) == 1
    return {
        "anchor": f"query-{number}",
        "name": query["name"],
        "kind": query["kind"].replace("_", "-"),
        "what": made["cells"] if made else what(view),
        "asked": asked(query),
        "declared": declared(query),
        "epsilon": rounded_up(query["privacy"]["epsilon"]),
        "delta": rounded_up(query["privacy"]["delta"]) if query["privacy"]["delta"] else None,
        "noise": noise_in_words(query),
        "notes": [
            *dict.fromkeys(str(note) for note in as_list(query.get("note"), 1) if note is not None),
            *adding_up_in_words(query),
            *(few_values_in_words(query) or rows_in_words(query)),
            *view.kind.caveats(query),
        ],
        "confidence": view.confidence,
        "value": value,
        "in_words": view.kind.has_labels,
        "exactness": exactness,
        "single": single,
        "stderr": None if not has_one_error or view[0].is_exact else view[0].error,
        "picture": picture_of(view),
        "table": table_of(view) if single is None and len(view) else None,
        "made": made,
        "negative": view.kind.counts_rows and bool((view.numbers[0] < 0).any()),
    }


def what(view: View) -> str:
    """What an answer consists of: groups or parts, and the largest of its numbers that can be used."""
    if len(view) <= 1:
        return ""
    if not view.is_grouped and not view.kind.counts_rows:
        return "" if view.kind.has_labels else ", ".join(view.parts[:3]) + (", …" if len(view.parts) > 3 else "")
    parts = ("bin", "bins") if view.query.get("edges") is not None else ("category", "categories")
    size = counted(view.groups, "group") if view.is_grouped else counted(len(view), *parts)
    values = np.where(view.noisy, np.nan, view.numbers[0])
    if (view.is_grouped and len(view.parts) > 1) or not np.isfinite(values).any():
        return size
    place = int(np.nanargmax(values))
    return f"{size}, the largest {shortened(view.name(place))}: {view[place].shown[0]}"


def table_of(view: View) -> dict[str, Any]:
    """The table of an answer: a line for each number, or without intervals for each group.

    Parameters
    ----------
    view : View
        Of the answer.
    """
    parts, label = len(view.parts), view.label_head
    most = LISTED if len(view) <= LISTED else FIRST
    rows = list(itertools.islice(view.rows(0, max(most // parts, 1)), most))
    has_ends = any(row.lower is not None for row in rows)
    heads = [(name, False) for name in view.group_heads]
    body: list[dict[str, Any]]
    if view.is_grouped and parts > 1 and not has_ends:
        heads += [(part, not view.kind.has_labels) for part in view.parts]
        answers = [[row.shown[0] if row.label is None else row.label for row in rows[at : at + parts]] for at in range(0, len(rows), parts)]
        body = [{"names": rows[at * parts].groups, "cells": cells} for at, cells in enumerate(answers)]
        total, noun = view.groups, "group"
    else:
        head = view.kind.head(view.query) if parts > 1 or not view.is_grouped else ""
        heads += [(head, False)] if head else []
        heads += [] if label is None else [(label, False)]
        heads += [(axis_of("released", view.query) if view.query.get("unit_of_measure") else "released", True)] if view.has_values else []
        body = [_line(row, head, has_values=view.has_values, has_ends=has_ends) for row in rows]
        total, noun = len(view), "row"
    return {
        "heads": heads,
        "with_intervals": has_ends,
        "rows": body,
        "names_are": not view.has_values and view.kind.has_labels,
        "stated": f"The first {len(body):,} of {counted(total, noun)}; the JSON file has all." if len(body) < total else "",
        "size": counted(total, noun),
        "tall": len(body) > TALL,
    }


def _line(row: Any, head: str, *, has_values: bool, has_ends: bool) -> dict[str, Any]:
    names = [*row.groups, *([row.part] if head else []), *([] if row.label is None else [row.label])]
    ends = {"interval": row.interval or "–", "share": row.share or "–", "mark": MARK if row.is_noisy else None} if has_ends else {}
    return {"names": names, "cells": [row.shown[0]] if has_values else [], **ends}
