"""Answers about dates, timestamps, times and durations in their own words, as ISO 8601 writes them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dpcore.batch.jobfile.times import DAY, plainly, sort_of, written

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore.batch.release.query_sections import QuerySection

NUMBERS = ("mean", "sum")
"""Kinds whose answers are computed, and not chosen or counted."""


def in_words(section: QuerySection, document: dict[str, Any]) -> dict[str, Any]:
    """The document of an answer with dates and times as text.

    Parameters
    ----------
    section : QuerySection
        The query.
    document : dict
        Its answer; numbers of days or microseconds.
    """
    sort = sort_of(getattr(section, "lower", None))
    if sort is None or section.kind not in NUMBERS:
        found: dict[str, Any] = plainly(document)
        return found

    def at(number: float) -> str:
        return written(sort, round(number))

    def size(number: float) -> str:
        return written("duration", math.ceil(number * DAY if sort == "date" else number))

    def ends(numbers: Any) -> Any:
        if isinstance(numbers[0], list):
            return [ends(each) for each in numbers]
        return [written(sort, numbers[0]), written(sort, numbers[1], up=True)]

    said = {"value": _each(document["value"], at), "stderr": _each(document["stderr"], size)}
    interval = document["interval"]
    unit = {"unit_of_noise": "days" if sort == "date" else "microseconds"}
    return {**plainly(document), **said, "interval": None if interval is None else ends(interval), **unit}


def _each(value: Any, rule: Callable[[float], str]) -> Any:
    if isinstance(value, list):
        return [_each(each, rule) for each in value]
    return None if value is None else rule(value)
