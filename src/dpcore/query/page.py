"""The page of `dpcore release --report`: the queries and their cost, each answer with its error, and the ledger after the job."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore.pages import plots
from dpcore.pages.numbers import (
    counted,
    ends_of,
    percentage_of,
    plain_name,
    plain_number,
    plain_range,
    readable,
    rounded,
    rounded_down,
    rounded_up,
    with_digits,
)
from dpcore.pages.page import Pages
from dpcore.pages.words import NOT_SECURE, guarantee_shown, misses_in_words
from dpcore.query import plots as release_plots
from dpcore.query.bin_axes import axis_of_bins
from dpcore.query.group_sections import cross_of_groups, lines_of_groups
from dpcore.query.kinds import KINDS
from dpcore.query.plots import FEW, MOST_BARS, synthetic_section
from dpcore.query.prose import (
    accounting_in_words,
    as_list,
    cell_names,
    coverage_in_words,
    is_exact,
    key_names,
    limits_in_words,
    neighbours_in_words,
    noise_in_words,
    quantile_limits,
    quantile_name,
    release_protection,
    size,
)
from dpcore.query.questions import asked, declared, in_text, labelled
from dpcore.query.units_of_answers import axis_of, with_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt


PARTS = ("budget", "spent", "remaining")


class ReleasePages(Pages):
    """The files of `release --report DIR`; `write` takes the document that `dpcore release` prints."""

    template = "release"

    def content(self, subject: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """The page of a release's document."""
        from dpcore.query.page import section_of

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


SHOWN = 40
"""Categories or bins whose table is open; of more, up to `LISTED`, a table opens on demand."""
LISTED = 5000
ONE_OF = {"categories": "category", "bins": "bin", "groups": "group"}
"""The subject of a row of the table."""


def section_of(number: int, query: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section of the page about one query.

    Parameters
    ----------
    number : int
        Its place on the page, from 1.
    query : mapping
        Its entry in the document.
    """
    shown = {
        "anchor": f"query-{number}",
        "name": query["name"],
        "kind": query["kind"].replace("_", "-"),
        "column": query.get("column"),
        "asked": asked(query),
        "declared": declared(query),
        "epsilon": rounded_up(query["privacy"]["epsilon"]),
        "delta": rounded_up(query["privacy"]["delta"]) if query["privacy"]["delta"] else None,
        "noise": noise_in_words(query),
        "note": note_of(query),
        "confidence": coverage_in_words(query),
    }
    if query["value"] is None:
        return shown | _number(query)
    if in_text(query):
        return shown | _texts(query)
    kind = KINDS[query["kind"]]
    return shown | FORMS[kind.form_of_groups if query.get("groups") is not None else kind.form](query)


def _texts(query: Mapping[str, Any]) -> dict[str, Any]:
    """Dates or times: one, one for each level, or a line of them for each group."""
    if query.get("groups") is not None:
        names = [plain_name(group) for group in cell_names(query)]
        lines = [{"label": label, "values": as_list(value, 1)} for label, value in zip(names, query["value"], strict=True)]
        levels = [quantile_name(level) for level in as_list(query.get("q"), 1)] if query.get("rank_error") else [query["kind"]]
        found = {"form": "lines", "summary": counted(len(names), "group"), "value": counted(len(names), "value"), "levels": levels}
        return {**found, "interval": None, "lines": lines[:LISTED], "ranks": _rank_error(query)}
    values, interval = as_list(query["value"], 1), query.get("interval")
    levels = as_list(query.get("q"), len(values))
    shown = (
        values[0] if len(values) == 1 else "; ".join(f"{quantile_name(level)} {value}" for level, value in zip(levels, values, strict=True))
    )
    ends = None if interval is None else f"{interval[0]} to {interval[1]}"
    error = {"stderr": query.get("stderr"), "ranks": _rank_error(query), "in_words": len(values) > 1}
    return {"form": "number", "value": shown, "interval": ends, "plot": None, **error}


def _number(query: Mapping[str, Any]) -> dict[str, Any]:
    """A count, a sum, a mean or a moment."""
    value, interval = query["value"], query.get("interval")
    if interval is None or is_exact(query):
        return {
            "form": "number",
            "value": "none" if value is None else plain_number(value),
            "interval": None,
            "stderr": None,
            "plot": None,
        }
    lower, upper = map(float, interval)
    numbers = with_digits([value, lower, upper], query.get("stderr"))
    limits, part_of = _limits(query, float(value), (lower, upper))
    title = f"{query['name']}: {numbers[0]}, interval {ends_of(numbers[1], numbers[2])}"
    return {
        "form": "number",
        "value": with_unit(numbers[0], query),
        "interval": with_unit(ends_of(numbers[1], numbers[2]), query),
        "stderr": _two_digits(query.get("stderr")),
        "plot": plots.interval_plot(float(value), (lower, upper), limits, percent=False, title=title, label=_label(query)),
        "part_of": part_of,
    }


def _limits(query: Mapping[str, Any], value: float, interval: tuple[float, float]) -> tuple[tuple[float, float], str | None]:
    """Return the range of the axis, and the possible range if the axis shows only a part of it."""
    # Noise of a large ε can be too small to show.
    width = interval[1] - interval[0] or max(abs(value), 1.0) / 8
    limits = KINDS[query["kind"]].limits(query)
    if limits is None:
        return (value - 2 * width, value + 2 * width), None
    short = 0 < width < plots.SHORT * (limits[1] - limits[0])
    return limits, plain_range(*limits) if short else None


def _cells(query: Mapping[str, Any]) -> dict[str, Any]:
    """A number for each category, bin or group."""
    values, axis, labels = numbers_of(query["value"]), axis_of_bins(query), cell_names(query)
    parts = "bins" if axis is not None else "groups" if query.get("groups") is not None else "categories"
    kinds = "counts" if _counts_rows(query) else "values"
    # Bins keep their order, as do a few categories; of many the largest come first.
    order = np.arange(len(values)) if axis is not None or len(values) <= FEW else np.argsort(-values, kind="stable")
    listed, is_long = [int(i) for i in order] if len(values) <= SHOWN else [], SHOWN < len(values) <= LISTED
    return {
        "form": parts,
        "one": ONE_OF[parts],
        "counts": kinds,
        "summary": counted(len(values), ONE_OF[parts], parts) + _largest(query, labels, values),
        "value": counted(len(values), kinds.removesuffix("s")),
        "interval": None,
        "with_intervals": query.get("interval") is not None,
        "stderr": _two_digits(_common(query.get("stderr"))),
        "plot": _cells_plot(query, values, order[:MOST_BARS]),
        "drawn": [] if axis is None else axis.notes(str(query["column"])),
        "banded": axis is not None and axis.is_line,
        "rows": _table_of_counts(query, labels, listed),
        "all_rows": _table_of_counts(query, labels, range(len(values))) if is_long else [],
        "total": len(values),
        "bars": min(len(values), MOST_BARS),
        "hidden": max(0, len(values) - MOST_BARS),
        "negative": kinds == "counts" and bool((values < 0).any()),
        "expected_misses": _expected_misses(query, len(values)),
    } | (cross_of_groups(query, values) if parts == "groups" else {})


def _expected_misses(query: Mapping[str, Any], count: int) -> str | None:
    """How many of so many intervals do not contain the true value."""
    if not query.get("confidence"):
        return None
    at_most = "at most " if query.get("coverage") else ""
    return (
        f"of all {percentage_of(query['confidence'])} intervals, {at_most}about {plain_number(rounded(count * (1 - query['confidence'])))}"
    )


def _largest(query: Mapping[str, Any], labels: Sequence[str], values: npt.NDArray[np.float64]) -> str:
    if not np.isfinite(values).any():
        return ""
    place = int(np.nanargmax(values))
    [row] = _table_of_counts(query, labels, [place])
    return f", the largest {plots.shortened(labels[place])}: {row['value']}"


def _cells_plot(query: Mapping[str, Any], values: npt.NDArray[np.float64], drawn: npt.NDArray[np.intp]) -> str | None:
    """Bins over their axis, or bars of some categories."""
    axis, title = axis_of_bins(query), f"{query['name']}: {counted(len(values), 'released number')}"
    intervals = None if query.get("interval") is None else intervals_of(query["interval"])
    if axis is not None:
        return release_plots.bin_plot(axis, values, intervals, title=title, label=axis_of(str(query["column"]), query))
    drawn = drawn[np.isfinite(values[drawn])]
    if not len(drawn):
        return None
    labels, shown = cell_names(query), values[drawn]
    ends = np.stack([shown, shown], axis=1) if intervals is None else intervals[drawn]
    return plots.frequency_plot([labels[i] for i in drawn], shown, ends, title=title, label=_label(query), percent=False)


def _counts_rows(query: Mapping[str, Any]) -> bool:
    return KINDS[query["kind"]].counts_rows


def _label(query: Mapping[str, Any]) -> str:
    """Return the label of the axis of an answer."""
    if _counts_rows(query):
        return "rows"
    return axis_of(KINDS[query["kind"]].subject(query), query)


def _quantiles(query: Mapping[str, Any]) -> dict[str, Any]:
    """Chosen points of a grid."""
    values = [float(value) for value in np.atleast_1d(query["value"])]
    names = [quantile_name(level) for level in as_list(query.get("q"), len(values))]
    intervals = _pairs(query.get("interval"), len(values))
    limits = quantile_limits(query, values)
    title = f"{query['name']}: " + ", ".join(f"{name} {plain_number(value)}" for name, value in zip(names, values, strict=True))
    rows = [
        {"label": name, "value": plain_number(value), "interval": None if pair is None else _ends(pair)}
        for name, value, pair in zip(names, values, intervals, strict=True)
    ]
    return {
        "form": "quantiles",
        "summary": ", ".join(names[:3]) + (", …" if len(names) > 3 else ""),
        "value": ", ".join(str(row["value"]) for row in rows[:3]) + (", …" if len(rows) > 3 else ""),
        "interval": rows[0]["interval"] if len(rows) == 1 else None,
        "plot": release_plots.quantile_plot(names, values, intervals, limits, title=title, label=axis_of(str(query["column"]), query)),
        "rows": rows,
        "ranks": _rank_error(query),
        "with_intervals": any(pair is not None for pair in intervals),
    }


def _chosen(query: Mapping[str, Any]) -> dict[str, Any]:
    """Chosen categories, with their counts if those were asked."""
    labels, counts = [plain_name(label) for label in as_list(query["value"], 1)], query.get("counts")
    pairs = _pairs(query.get("interval"), len(labels))
    stderr = as_list(query.get("stderr"), len(labels))
    rows = []
    for place, label in enumerate(labels):
        count = interval = None
        if counts is not None:
            count, interval = _count_with_ends(counts[place], pairs[place], stderr[place])
        rows.append({"place": place + 1, "label": label, "value": count, "interval": interval})
    return {
        "form": "chosen",
        "in_words": True,
        "summary": f"{len(labels)} of {size(query.get('candidates'))} candidates",
        "value": ", ".join(map(plots.shortened, labels[:3])) + (", …" if len(labels) > 3 else ""),
        "interval": None,
        "rows": rows,
        "with_counts": counts is not None,
        "stderr": _two_digits(_common(query.get("stderr"))),
        "is_one": not isinstance(query["value"], list),
        "ordered": query.get("method") != "oneshot_laplace",
    }


def _keys(query: Mapping[str, Any]) -> dict[str, Any]:
    """The names of released groups."""
    names = key_names(query)
    return {
        "form": "keys",
        "in_words": True,
        "summary": counted(len(names), "group"),
        "value": ", ".join(map(plots.shortened, names[:3])) + (", …" if len(names) > 3 else "") or "none",
        "interval": None,
        "names": names[:LISTED],
        "hidden": max(0, len(names) - LISTED),
    }


def numbers_of(values: Sequence[float | None]) -> npt.NDArray[np.float64]:
    """The numbers of an answer, NaN where there is none."""
    return np.asarray(values, dtype=np.float64)


def intervals_of(pairs: Sequence[Sequence[float] | None]) -> npt.NDArray[np.float64]:
    """The intervals of an answer as an array of shape (m, 2), NaN where there is none."""
    return np.asarray([(np.nan, np.nan) if pair is None else pair for pair in pairs], dtype=np.float64)


def note_of(query: Mapping[str, Any]) -> str | None:
    """Return the notes in the document on an answer, or on those of several groups, each note once."""
    notes = as_list(query.get("note"), 1)
    return "; ".join(dict.fromkeys(str(note) for note in notes if note is not None)) or None


def _table_of_counts(query: Mapping[str, Any], labels: Sequence[str], places: Sequence[int]) -> list[dict[str, Any]]:
    values = query["value"]
    stderr, intervals = as_list(query.get("stderr"), len(values)), _pairs(query.get("interval"), len(values))
    rows = []
    for place in places:
        value, interval = _count_with_ends(values[place], intervals[place], stderr[place])
        rows.append({"label": labels[place], "value": value, "interval": interval})
    return rows


def _count_with_ends(value: float, pair: Sequence[float] | npt.NDArray[np.float64] | None, stderr: float | None) -> tuple[str, str | None]:
    """A number and its interval, with the digits that the standard error calls for."""
    if pair is None:
        return plain_number(value), None
    numbers = with_digits([value, *pair], stderr)
    return numbers[0], ends_of(numbers[1], numbers[2])


def _rank_error(query: Mapping[str, Any]) -> str | None:
    """Return how far a chosen quantile is from the wanted one, in rows."""
    errors = query.get("rank_error")
    if errors is None:
        return None
    return counted(math.ceil(float(np.max(errors))), "row")


def _ends(pair: Sequence[float]) -> str:
    return plain_range(float(pair[0]), float(pair[1]))


def _pairs(interval: Any, count: int) -> list[Any]:
    """One pair for each value, whether the document has one pair, a list of them, or none because there is none or no value."""
    if interval is None or not len(interval):
        return [None] * count
    return list(interval) if isinstance(interval[0], list | tuple | np.ndarray) or interval[0] is None else [interval]


def _common(stderr: Any) -> float | None:
    """The standard error that all parts of an answer have, if it is one."""
    parts = set(np.atleast_1d(stderr).tolist()) if stderr is not None else set()
    return parts.pop() if len(parts) == 1 else None


def _two_digits(stderr: float | None) -> str | None:
    if stderr is None:
        return None
    return readable([stderr], stderr, percent=False)[0]


def _lines(query: Mapping[str, Any]) -> dict[str, Any]:
    """A line for each group."""
    return lines_of_groups(query, _rank_error(query))


FORMS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "number": _number,
    "cells": _cells,
    "lines": _lines,
    "quantiles": _quantiles,
    "chosen": _chosen,
    "keys": _keys,
    "synthetic": synthetic_section,
}
"""What a page shows, by the form that the kind of the query names."""
