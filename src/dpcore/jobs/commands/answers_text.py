"""The answers of a release as a table for a terminal."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._terminal import make_table
from dpcore.pages.numbers import counted, misses, percentage_of, plain_number
from dpcore.query.kinds import KINDS
from dpcore.query.prose import LAWS, few_values_in_words, is_exact, limits_in_words
from dpcore.query.questions import labelled, names_of_whole
from dpcore.query.view import RELATIVE_ERROR, RULE, View

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.table import Table

LINES = 12
"""Lines that one query has at most; the JSON output has all."""
LARGEST = 5
"""Of an answer with more lines, its largest numbers follow."""
NO_NOISE = "none"


def answer_table(document: Mapping[str, Any]) -> Table:
    """One line for each number: its group or cell, the answer with its half-width, the relative error, and the noise.

    Parameters
    ----------
    document : mapping
        What `dpcore.query.run` returns.
    """
    headings = ("query", "group", "answer", "error", "noise")
    return make_table(headings, (line for query in labelled(document)["queries"] for line in _lines(query)), right=("answer",))


def notes(document: Mapping[str, Any]) -> list[str]:
    """Notes below the table."""
    levels = sorted({query["confidence"] for query in document["queries"] if not is_exact(query)})
    if not levels:
        return ["\nNo noise was added: the number of rows is public."]
    shares = ", ".join(f"{percentage_of(level)} (about {misses(level)} misses)" for level in levels)
    few = [said for query in document["queries"] for said in few_values_in_words(query)]
    sure = [
        f"{query['name']}: {said[0].lower()}{said[1:]}"
        for query in document["queries"]
        if (said := KINDS[query["kind"]].sureness(query)) is not None
    ]
    rule = RULE if any(View(query).marked() for query in document["queries"]) else RELATIVE_ERROR
    limits = limits_in_words(document, names_of_whole(document))
    return ["\n" + " ".join([f"Intervals have confidence {shares}. They cover the noise. {rule}", *limits, *few]), *sure]


def _lines(query: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str, str]]:
    view = View(query)
    name, noise = query["name"], _noise(query)
    if view.kind.names_groups or not len(view):
        yield name, "", counted(len(view), "group") if view.kind.names_groups else "no group", "", noise
        name = noise = ""
    for row in itertools.islice(view.rows(0, LINES), LINES):
        yield name, row.name, row.line(query), row.share_and_mark or "", noise
        name = noise = ""
    if len(view) > LINES:
        yield "", f"… {len(view) - LINES:,} more", "", "", ""
        yield from _largest(view, query)


def _largest(view: View, query: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str, str]]:
    """The largest numbers of a list that is cut, if there is one number for each name."""
    values = view.numbers[0]
    known = np.flatnonzero(np.isfinite(values))
    if view.kind.has_labels or len(known) <= LARGEST:
        return
    yield "", f"the {LARGEST} largest:", "", "", ""
    for place in known[np.argsort(-values[known], kind="stable")[:LARGEST]]:
        row = view[int(place)]
        yield "", row.name, row.line(query), row.share_and_mark or "", ""


def _noise(query: Mapping[str, Any]) -> str:
    """The laws and scales of what was drawn."""
    drawn = query.get("noise")
    if drawn is None:
        return ""
    flat = [noise for each in drawn for noise in (each if isinstance(each, list) else [each])]
    words = [
        LAWS.get(noise["law"], noise["law"].replace("_", " ")) + ("" if noise["scale"] is None else f" {plain_number(noise['scale'], 4)}")
        for noise in flat
    ]
    return ", ".join(dict.fromkeys(words)) or NO_NOISE
