"""The answers of a release as a table for a terminal."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from dpcore._terminal import make_table
from dpcore.pages.numbers import misses, percentage_of, plain_number
from dpcore.query.kinds import KINDS
from dpcore.query.prose import LAWS, GroupNames, count_of_groups, is_exact, limits_in_words
from dpcore.query.questions import labelled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.table import Table

LINES = 12
"""Lines that one query has at most; the JSON output has all."""
Line = tuple[str, str]
"""Label and answer."""
NO_NOISE = "none"


def answer_table(document: Mapping[str, Any]) -> Table:
    """One line for each number: its group or cell, the answer with its half-width, and the noise.

    Parameters
    ----------
    document : mapping
        What `dpcore.query.run` returns.
    """
    headings = ("query", "group", "answer", "noise")
    return make_table(headings, (line for query in labelled(document)["queries"] for line in _lines(query)), right=("answer",))


def notes(document: Mapping[str, Any]) -> list[str]:
    """Notes below the table."""
    levels = sorted({query["confidence"] for query in document["queries"] if not is_exact(query)})
    if not levels:
        return ["\nNo noise was added: the number of rows is public."]
    shares = ", ".join(f"{percentage_of(level)} (about {misses(level)} misses)" for level in levels)
    return ["\n" + " ".join([f"Intervals have confidence {shares}. They cover the noise.", *limits_in_words(document)])]


def _lines(query: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    grouped = query.get("groups") is not None
    lines = list(itertools.islice(_grouped(query) if grouped else _answered(query), None if not grouped else LINES + 1))
    if grouped and not lines:
        yield query["name"], "", "no group", _noise(query)
        return
    # Groups can be many, and each has as many lines as the first.
    count = count_of_groups(query) * len(list(_answered(_group(query, 0)))) if grouped else len(lines)
    for place, line in enumerate(lines[:LINES]):
        yield query["name"] if place == 0 else "", *line, _noise(query) if place == 0 else ""
    if count > LINES:
        yield "", f"… {count - LINES:,} more", "", ""


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


def _grouped(query: Mapping[str, Any]) -> Iterator[Line]:
    """The lines of each group."""
    for place, group in enumerate(GroupNames(query)):
        for label, value in _answered(_group(query, place)):
            yield f"{group}{f', {label}' if label else ''}", value


def _group(query: Mapping[str, Any], place: int) -> dict[str, Any]:
    """The answer to one group."""
    parts = KINDS[query["kind"]].parts_of_answer
    return {**query, **{key: query[key][place] for key in parts if key in query}, "groups": None}


def _answered(query: Mapping[str, Any]) -> Iterator[Line]:
    """The lines of one answer."""
    value = query["value"]
    if value is None:
        note = query.get("note")
        yield "", f"– ({note})" if note else "–"
        return
    yield from KINDS[query["kind"]].lines(query)
