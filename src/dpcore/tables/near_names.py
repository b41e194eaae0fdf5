"""Suggests the name that is nearly the one given, and no other: a name may come from the data."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_NAMES = 10_000
"""Number of names that are compared: a file may have any number."""


def near_name(name: str, names: Iterable[str]) -> str | None:
    """Return the name that is nearest to `name`, or None if none is near.

    The header of a file may be a row of data. So the name is shown only if it reveals little beyond what was typed: names of four letters
    or more may have one slip, of eight or more two, and shorter ones may differ in capitals only.
    """
    allowed = 0 if len(name) < 4 else 1 if len(name) < 8 else 2
    candidates = (each for each in islice(names, MOST_NAMES) if abs(len(each) - len(name)) <= allowed)
    near = ((slips(name.casefold(), each.casefold(), allowed), each) for each in candidates)
    found = [pair for pair in near if pair[0] <= allowed]
    return min(found, key=lambda pair: pair[0])[1] if found else None


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return a sentence that suggests the name that is nearly `name`, with a space before it; "" if there is none."""
    near = near_name(name, names)
    return "" if near is None else f" Did you mean {near!r}?"


def slips(one: str, two: str, most: int) -> int:
    """Letters that are wrong, missing, too many, or swapped with the next; `most` + 1 stands for all above `most`."""
    two_before: list[int] = []
    before = list(range(len(two) + 1))
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, other in enumerate(two, 1):
            least = min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == two[j - 2] and one[i - 2] == other:
                least = min(least, two_before[j - 2] + 1)
            row.append(least)
        if min(row) > most:
            return most + 1
        two_before, before = before, row
    return min(before[-1], most + 1)
