"""The page of `dpcore rehearse --report`: bias and noise of each answer, the rows that are lost, and settings side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from dpcore.pages.numbers import percentage_of, plain_name
from dpcore.pages.page import Pages, Provenance
from dpcore.pages.words import whose
from dpcore.query.rehearsal_words import (
    BANNER,
    HEADINGS,
    LABEL_HEADINGS,
    NOTES,
    compared,
    is_best,
    label_lines,
    lines,
    lost_in_words,
    misses,
    named,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MOST_ROWS = 200
"""Numbers of a query in the table of the page; the JSON has all."""
MOST_BARS = 24
"""Numbers of a query in a plot."""


class RehearsalPages(Pages):
    """The files of `rehearse --report DIR`; `write` takes the report that the command prints as JSON."""

    template = "rehearsal"

    @classmethod
    def of(cls, folder: Path, job: Path) -> Self:
        """Named after a job file."""
        return cls(folder, f"{job.stem}-rehearsal", provenance=Provenance(job=str(job)))

    def content(self, subject: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
        sweep = subject["sweep"]
        names = [query["name"] for query in subject["settings"][0]["queries"]]
        places = [place for place, name in enumerate(names) if sweep is None or sweep["query"] in {None, name}]
        shown: dict[str, Any] = {
            "banner": BANNER,
            "whose": whose(subject["unit"]),
            "queries": [_query(subject, place) for place in places],
            "headings": HEADINGS,
            "label_headings": LABEL_HEADINGS,
            "notes": NOTES,
            "compared": None,
        }
        if sweep is not None:
            headings, rows = compared(subject)
            shown["compared"] = {"headings": headings[:-1], "rows": [{"cells": row[:-1], "is_best": row[-1] == "best"} for row in rows]}
        return subject, shown


def _query(report: Mapping[str, Any], place: int) -> dict[str, Any]:
    """One query, under each setting."""
    settings = [
        {
            "value": setting["value"],
            "is_best": report["sweep"] is not None and is_best(report, query, setting["value"]),
            "lines": lines(query)[:MOST_ROWS],
            "labels": None if query["labels"] is None else label_lines(query)[:MOST_ROWS],
            "lost": lost_in_words(query),
            "why": query["why"],
            "misses": misses(query, report["runs"]),
            "epsilon": f"{query['epsilon']:.4g}",
        }
        for setting in report["settings"]
        for query in [setting["queries"][place]]
    ]
    first = report["settings"][0]["queries"][place]
    return {
        "name": plain_name(first["name"]),
        "kind": first["kind"].replace("_", " "),
        "column": first["column"],
        "confidence": percentage_of(first["confidence"]),
        "has_intervals": any(number["coverage"] is not None for number in first["numbers"]),
        "settings": settings,
        "plot": _plot(report, place),
    }


def _plot(report: Mapping[str, Any], place: int) -> str | None:
    """Bias and noise: of each number, or, in a sweep, of the whole answer by setting."""
    from dpcore.query.rehearsal_plots import ErrorBar, errors_plot

    bars = []
    many = report["sweep"] is not None
    for setting in report["settings"]:
        query = setting["queries"][place]
        known = [number for number in query["numbers"] if None not in (number["bias"], number["noise"], number["rmse"])]
        if not known:
            continue
        if many:
            count = len(known)
            bias = (sum(number["bias"] ** 2 for number in known) / count) ** 0.5
            noise = (sum(number["noise"] ** 2 for number in known) / count) ** 0.5
            bars.append(ErrorBar(str(setting["value"]), bias, noise, query["rmse"]))
        else:
            bars += [ErrorBar(named(number), abs(number["bias"]), number["noise"], number["rmse"]) for number in known]
    if not bars:
        return None
    name = report["settings"][0]["queries"][place]["name"]
    return errors_plot(bars[:MOST_BARS], title=f"Bias, noise and total error of {min(len(bars), MOST_BARS)} bars of {name}")
