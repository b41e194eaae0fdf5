"""The answers of a release as a table for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore._terminal import make_table
from dpcore.batch.release.words import as_list, cell_names, limits_in_words, quantile_name
from dpcore.pages.numbers import misses, percentage_of, plain_name, plain_number, readable, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.table import Table

LINES = 12
"""Lines that one query has at most; the JSON output has all."""
Line = tuple[str, str, str]
"""Label, answer and interval."""


def answer_table(document: Mapping[str, Any]) -> Table:
    """One line for each number, with its interval.

    Parameters
    ----------
    document : mapping
        What `dpcore.batch.release.run` returns.
    """
    headings = ("query", "", "answer", "interval")
    return make_table(headings, (line for query in document["queries"] for line in _lines(query)), right=headings[2:])


def notes(document: Mapping[str, Any]) -> list[str]:
    """Notes below the table."""
    levels = sorted({query["confidence"] for query in document["queries"]})
    shares = ", ".join(f"{percentage_of(level)} (about {misses(level)} misses)" for level in levels)
    return ["\n" + " ".join([f"Intervals have confidence {shares}. They cover the noise.", *limits_in_words(document)])]


def _lines(query: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    lines = list(_grouped(query) if query.get("groups") is not None else _answered(query))
    for place, line in enumerate(lines[:LINES]):
        yield query["name"] if place == 0 else "", *line
    if len(lines) > LINES:
        yield "", f"… {len(lines) - LINES:,} more", "", ""


def _grouped(query: Mapping[str, Any]) -> Iterator[Line]:
    """The lines of each group."""
    each = ("value", "stderr", "interval", "rank_error", "count", "note")
    for place, group in enumerate(query["groups"]):
        one = {**query, **{key: query[key][place] for key in each if key in query}, "groups": None}
        for label, value, interval in _answered(one):
            yield f"{plain_name(group)}{f', {label}' if label else ''}", value, interval


def _answered(query: Mapping[str, Any]) -> Iterator[Line]:
    """The lines of one answer."""
    value = query["value"]
    if value is None:
        yield "", "–", str(query.get("note", ""))
        return
    match query["kind"]:
        case "histogram":
            yield from _numbers(cell_names(query), value, query["stderr"], query["interval"])
        case "quantile" | "median":
            levels, errors = as_list(query["q"], 1), as_list(query["rank_error"], 1)
            for level, point, error in zip(levels, as_list(value, 1), errors, strict=True):
                yield quantile_name(level), plain_number(point), f"± {plain_number(float(f'{error:.3g}'))} rows"
        case "top_s":
            if "counts" in query:
                yield from _numbers([plain_name(label) for label in value], query["counts"], query["stderr"], query["interval"])
            else:
                yield from ((f"place {place}", plain_name(label), "") for place, label in enumerate(value, 1))
        case "synthetic":
            yield f"rows in {value['path']}", plain_number(value["rows"]), ""
        case _:
            yield from _numbers([""], [value], query["stderr"], [query["interval"]])


def _numbers(labels: Sequence[str], values: Sequence[float | str], stderr: Any, intervals: Sequence[Sequence[float]]) -> Iterator[Line]:
    for label, value, error, ends in zip(labels, values, as_list(stderr, len(values)), intervals, strict=True):
        if not error:
            yield label, plain_number(value), "exact"
            continue
        if isinstance(value, str):  # a date or a time
            yield label, value, f"{ends[0]} to {ends[1]}"
            continue
        numbers = [value, *ends]
        whole = all(float(number).is_integer() for number in numbers)
        shown, lower, upper = map(_whole, numbers) if whole else readable(numbers, float(error), percent=False)
        yield label, shown, f"{lower} to {upper}"


def _whole(number: float) -> str:
    return written(int(number), ",")
