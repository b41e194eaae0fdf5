"""Dates, timestamps, times and durations in job files: numbers that know how they are written.

A date is its number of days since 1970-01-01, everything else a number of microseconds: of a timestamp since 1970-01-01T00:00:00, of an
instant (a timestamp with an offset) the same in UTC, of a time since midnight. All of them are integers that float64 holds.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

SECOND, DAY = 10**6, 86_400 * 10**6
EPOCH = 719_163
"""The ordinal of 1970-01-01."""
DAYS = dt.date.min.toordinal() - EPOCH, dt.date.max.toordinal() - EPOCH
EXACT = 2**53
DURATION = re.compile(r"([+-])?P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,6}))?S)?)?", re.ASCII)
EXAMPLES = {
    "date": "2013-01-31",
    "timestamp": "2013-01-31T12:00:00",
    "instant": "2013-01-31T12:00:00Z",
    "time": "12:00:00",
    "duration": "PT1H30M",
}
"""Each sort, as ISO 8601 writes it."""
PLAIN = {float, int, bool, str, type(None)}
"""Types of values of a document that are written as they are."""


class Timed(float):
    """A number of days or microseconds of a sort.

    Attributes
    ----------
    sort : str
        "date", "timestamp", "instant", "time" or "duration".
    """

    __slots__ = ("sort",)
    sort: str

    @classmethod
    def of(cls, sort: str, number: int) -> Timed:
        """The number of a sort; raises ValueError if float64 does not hold it."""
        if abs(number) > EXACT:
            raise ValueError(f"must be within 285 years of 1970, or shorter, to be exact in microseconds, like {EXAMPLES[sort]}")
        made = cls(number)
        made.sort = sort
        return made

    def __repr__(self) -> str:
        return written(self.sort, int(self))

    __str__ = __repr__


def sort_of(value: object) -> str | None:
    """The sort of a bound; None of a plain number."""
    return value.sort if isinstance(value, Timed) else None


def timed(value: object) -> Timed | None:
    """The date, timestamp, time or duration that a value of a job file is; None if it is none.

    Parameters
    ----------
    value : object
        TOML's own dates and times, durations of Python, or text as ISO 8601 writes it.
    """
    if isinstance(value, Timed):
        return value
    if isinstance(value, str):
        found = parsed(value)
        return None if found is None else Timed.of(*found)
    if isinstance(value, dt.datetime):
        return Timed.of("timestamp" if value.tzinfo is None else "instant", _microseconds(value))
    if isinstance(value, dt.date):
        return Timed.of("date", value.toordinal() - EPOCH)
    if isinstance(value, dt.timedelta):
        return Timed.of("duration", value // dt.timedelta(microseconds=1))
    return Timed.of("time", _of_day(value)) if isinstance(value, dt.time) and value.tzinfo is None else None


def parsed(text: str) -> tuple[str, int] | None:
    """Sort and number of a text; None if it is of no sort."""
    duration = DURATION.fullmatch(text)
    if duration is not None and text[-1] not in "PT":
        sign, days, hours, minutes, seconds, parts = duration.groups(default="0")
        size = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
        size = size * SECOND + int(parts.ljust(6, "0") if parts != "0" else 0)
        return "duration", -size if sign == "-" else size
    try:
        if len(text) == len(EXAMPLES["date"]):
            return "date", dt.date.fromisoformat(text).toordinal() - EPOCH
        if ":" in text and "-" not in text[:5]:
            time = dt.time.fromisoformat(text)
            return None if time.tzinfo is not None else ("time", _of_day(time))
        moment = dt.datetime.fromisoformat(text)
        return "timestamp" if moment.tzinfo is None else "instant", _microseconds(moment)
    except (ValueError, OverflowError):
        return None


def _of_day(time: dt.time) -> int:
    return ((time.hour * 60 + time.minute) * 60 + time.second) * SECOND + time.microsecond


def _microseconds(moment: dt.datetime) -> int:
    offset = moment.utcoffset() or dt.timedelta(0)
    local = (moment.toordinal() - EPOCH) * DAY + _of_day(moment.time())
    return local - ((offset.days * 86_400 + offset.seconds) * SECOND + offset.microseconds)


def written(sort: str, number: float | Fraction, *, up: bool = False) -> str:
    """A number of a sort as ISO 8601 writes it: rounded to whole days or microseconds, and within the years 1 to 9999."""
    whole = math.ceil(number) if up else math.floor(number)
    if sort == "duration":
        return _duration(whole)
    low, high = DAYS if sort == "date" else (0, DAY - 1) if sort == "time" else (DAYS[0] * DAY, (DAYS[1] + 1) * DAY - 1)
    whole = min(max(whole, low), high)
    if sort == "date":
        return dt.date.fromordinal(whole + EPOCH).isoformat()
    days, rest = divmod(whole, DAY)
    seconds, parts = divmod(rest, SECOND)
    time = dt.time(seconds // 3600, seconds // 60 % 60, seconds % 60, parts).isoformat()
    if sort == "time":
        return time
    return f"{dt.date.fromordinal(days + EPOCH).isoformat()}T{time}{'Z' if sort == 'instant' else ''}"


def _duration(size: int) -> str:
    sign, size = "-" if size < 0 else "", abs(size)
    days, rest = divmod(size, DAY)
    seconds, parts = divmod(rest, SECOND)
    hours, minutes, seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    second = f"{seconds}.{parts:06}".rstrip("0") if parts else str(seconds)
    clock = "".join(f"{value}{unit}" for value, unit in ((hours, "H"), (minutes, "M"), (second, "S")) if value not in {0, "0"})
    if not days and not clock:
        return "PT0S"
    return f"{sign}P{f'{days}D' if days else ''}{f'T{clock}' if clock else ''}"


def plainly(value: Any) -> Any:
    """A document with the text of each date or time in it."""
    if isinstance(value, Timed):
        return repr(value)
    if isinstance(value, dict):
        return {key: plainly(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return value if _are_plain(value) else [plainly(each) for each in value]
    return value


def copied(values: list[Any] | tuple[Any, ...]) -> list[Any] | None:
    """A list of the same, if all are numbers, texts and None of Python, as a job file and JSON have them, or all are tables of such.

    There may be millions, so it looks at the types, which are few, and not at each value. None if it cannot tell.
    """
    kinds = set(map(type, values))
    if kinds <= PLAIN:
        return list(values)
    if kinds == {dict} and set(map(type, itertools.chain.from_iterable(map(dict.values, values)))) <= PLAIN:
        return list(map(dict, values)) if set(map(type, itertools.chain.from_iterable(values))) == {str} else None
    return None


def _are_plain(values: Iterable[Any]) -> bool:
    """Whether lists hold numbers and texts only, or lists of them; looks at types, of which there are few, and not at each value."""
    kinds = set(map(type, values))
    while kinds and kinds <= {list, tuple}:
        values = list(itertools.chain.from_iterable(values))
        kinds = set(map(type, values))
    return kinds <= PLAIN
