"""The page of `dpcore plan --report`: what each target needs, and how far the answers may be off, by ε."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from dpcore.pages.numbers import percentage_of, plain_number, written
from dpcore.pages.page import Pages, Provenance
from dpcore.pages.words import whose
from dpcore.query.prose import numbers_in_words

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class PlanPages(Pages):
    """The files of `plan --report DIR`; `write` takes the report that the command prints as JSON."""

    template = "plan"

    @classmethod
    def of(cls, folder: Path, job: Path) -> Self:
        """Named after a job file."""
        return cls(folder, f"{job.stem}-plan", provenance=Provenance(job=str(job)))

    def content(self, subject: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
        known = [query for query in subject["queries"] if query["why"] is None]
        groups = [
            {"unit": unit, "plot": _plot(unit, [query for query in known if query["unit"] == unit], subject)}
            for unit in dict.fromkeys(query["unit"] for query in known)
        ]
        shown = {
            "targets": [_target(target) for target in subject["targets"]],
            "together": None if subject["together"] is None else plain_number(subject["together"], 6),
            "limit": plain_number(subject["max_epsilon"], 4),
            "plots": groups,
            "epsilons": [f"{epsilon:g}" for epsilon in subject["epsilons"]],
            "rows": [_row(query) for query in subject["queries"]],
            "assumed": ", ".join(f"{key} = {plain_number(number, 8)}" for key, number in subject["assumed"].items()),
            "whose": whose(subject["unit"]),
            "is_bound": any(target["is_bound"] for target in subject["targets"]),
        }
        return subject, shown


def _target(target: Mapping[str, Any]) -> dict[str, str]:
    asked, rows = target["target"], " rows" if target["unit"] == "rows" else ""
    share = (
        "" if asked["share"] is None else f", {percentage_of(asked['share'])} of {plain_number(asked['half_width'] / asked['share'], 6)}"
    )
    at_most = "≤ " if target["is_bound"] else ""
    given, smallest = target["given"], target["smallest"] or {}
    words = [f"{written(smallest['n'], ',.0f')} rows"] if "n" in smallest else [plain_number(smallest["answer"], 4)] if smallest else ["–"]
    return {
        "name": target["name"],
        "asked": f"± {plain_number(asked['half_width'], 4)}{rows}{share}",
        "cells": numbers_in_words(asked["cells"]),
        "confidence": percentage_of(asked["confidence"]),
        "epsilon": f"{at_most}{target['epsilon']:g}",
        "given": "–"
        if given is None
        else f"{at_most}± {plain_number(given['half_width'], 4)}{rows} with {plain_number(given['epsilon'], 4)}",
        "smallest": words[0],
    }


def _given(given: Mapping[str, Any], rows: str) -> str:
    return f"± {plain_number(given['half_width'], 4)}{rows} with {plain_number(given['epsilon'], 4)}"


def _of_numbers(query: Mapping[str, Any]) -> str:
    name: str = query["name"]
    return name if query["cells"] == 1 else f"{name}, {numbers_in_words(query['cells'])}"


def _row(query: Mapping[str, Any]) -> dict[str, Any]:
    cells = ["–" if width is None else plain_number(width, 3) for width in query["half_widths"]]
    return {"name": _of_numbers(query), "cells": cells, "unit": "rows" if query["unit"] == "rows" else "", "why": query["why"]}


def _plot(unit: str, queries: list[Mapping[str, Any]], subject: Mapping[str, Any]) -> str:
    from dpcore.query.planning_plots import error_plot

    marks = [
        (target["epsilon"], target["half_width"]) for target in subject["targets"] if target["name"] in {query["name"] for query in queries}
    ]
    label = "off by, in rows" if unit == "rows" else "off by, in the unit of the answer"
    curves = [(_of_numbers(query), subject["epsilons"], query["half_widths"]) for query in queries]
    return error_plot(curves, marks, title=f"How far {len(curves)} answers may be off at 95 %, by epsilon", label=label)
