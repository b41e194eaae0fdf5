"""The numbers of an answer as lines of a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dpcore.batch.release.labels import with_unit
from dpcore.batch.release.words import as_list
from dpcore.pages.numbers import plain_number, readable, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Line = tuple[str, str]


def numbers_of(
    labels: Sequence[str], values: Sequence[float | str], stderr: Any, intervals: Sequence[Sequence[float]], query: Mapping[str, Any]
) -> Iterator[Line]:
    """A label and a number with its interval on each line."""
    for label, value, error, ends in zip(labels, values, as_list(stderr, len(values)), intervals, strict=True):
        if not error:
            yield label, f"{with_unit(plain_number(value), query)} (exact)"
            continue
        if isinstance(value, str):  # a date or a time
            yield label, f"{value} ({ends[0]} to {ends[1]})"
            continue
        lower, upper = ends
        even = math.isclose(value - lower, upper - value, rel_tol=1e-6, abs_tol=1e-9 * abs(value))
        numbers = [value, upper - value] if even else [value, lower, upper]
        whole = all(float(number).is_integer() for number in numbers)
        shown, *others = map(_whole, numbers) if whole else readable(numbers, float(error), percent=False)
        yield label, with_unit(f"{shown} ± {others[0]}" if even else f"{shown} ({others[0]} to {others[1]})", query)


def _whole(number: float) -> str:
    return written(int(number), ",")
