"""Dates, timestamps, times and durations in answers, as Python has them; documents hold their text."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMES = dt.date | dt.time | dt.timedelta


def dated(answer: Mapping[str, Any]) -> dict[str, Any]:
    """An answer of a document with dates and times in place of their text; labels of groups and categories stay text."""
    bounds = next((answer[key] for key in ("lower", "grid", "edges") if answer.get(key) is not None), None)
    if not isinstance(bounds[0] if isinstance(bounds, list | tuple) and bounds else bounds, str):
        return dict(answer)
    from dpcore.query.kinds import KINDS

    is_of_column = KINDS[answer["kind"]].measured == "unit_of_measure"  # counts and labels of categories are not
    keys = ("value", "stderr", "interval") if is_of_column else ("edges",)
    return {**answer, **{key: _each(answer[key]) for key in keys if key in answer}}


def _each(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_each(item) for item in value]
    return of_text(value) if isinstance(value, str) else value


def of_text(text: str) -> str | TIMES:
    """The date, timestamp, time or duration that a text is; the text if it is none."""
    from dpcore.tables.types.timed import DAY, EPOCH, SECOND, parsed

    found = parsed(text)
    if found is None:
        return text
    sort, number = found
    match sort:
        case "date":
            return dt.date.fromordinal(number + EPOCH)
        case "duration":
            return dt.timedelta(microseconds=number)
        case "time":
            seconds, parts = divmod(number, SECOND)
            return dt.time(seconds // 3600, seconds // 60 % 60, seconds % 60, parts)
        case _:
            days, rest = divmod(number, DAY)
            zone = dt.UTC if sort == "instant" else None
            return dt.datetime.fromordinal(days + EPOCH).replace(tzinfo=zone) + dt.timedelta(microseconds=rest)
