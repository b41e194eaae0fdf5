"""All neighbouring tables of a few rows over small domains, and by how much a statistic of plain Python moves between them.

Nothing here knows the engine: a table is a list of rows, a statistic a function of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Row = tuple[Any, ...]
Numbers = Sequence[Fraction | int]
Statistic = Callable[[Sequence[Row], Sequence[Row]], Sequence[Numbers]]
"""Of the rows of others and those of one unit: the parts that get noise apart from each other, each several numbers."""


@dataclass(frozen=True)
class Relation:
    """Which tables are neighbours.

    Attributes
    ----------
    relation : str
        "replace" or "add_remove".
    rows : int
        Rows of a unit at most.
    unit : bool
        Whether the unit is a column's value, and not the row.
    most_groups : int or None
        Groups that a unit is in at most.
    """

    relation: str
    rows: int = 1
    unit: bool = False
    most_groups: int | None = None

    def __str__(self) -> str:
        of = f"units of {self.rows} rows" if self.unit else "rows"
        return f"{self.relation}, {of}{'' if self.most_groups is None else f' in {self.most_groups} groups'}"

    def pairs(self, domain: Sequence[Row], group: Callable[[Row], Any] | None) -> Iterator[tuple[tuple[Row, ...], tuple[Row, ...]]]:
        """What the one unit owns in two neighbouring tables."""
        owned = [rows for size in range(self.rows + 1) for rows in itertools.combinations_with_replacement(domain, size)]
        if self.most_groups is not None and group is not None:
            owned = [rows for rows in owned if len({group(row) for row in rows} - {None}) <= self.most_groups]
        if self.relation == "add_remove":
            return ((rows, ()) for rows in owned)
        if not self.unit:
            owned = [rows for rows in owned if len(rows) == 1]
        return itertools.combinations(owned, 2)


RELATIONS = (
    Relation("replace"),
    Relation("add_remove"),
    Relation("replace", 2, unit=True),
    Relation("add_remove", 2, unit=True),
    Relation("replace", 3, unit=True, most_groups=1),
    Relation("add_remove", 3, unit=True, most_groups=1),
)


def largest_moves(
    relation: Relation,
    domain: Sequence[Row],
    others: Sequence[Sequence[Row]],
    statistic: Statistic,
    group: Callable[[Row], Any] | None = None,
) -> list[tuple[Fraction, Fraction]]:
    """For each part: the largest change of all neighbours in the norm ℓ1, and in ℓ2 squared."""
    found: list[list[Fraction]] = []
    known: dict[tuple[int, tuple[Row, ...]], Sequence[Numbers]] = {}

    def of(place: int, own: tuple[Row, ...]) -> Sequence[Numbers]:
        key = place, own
        if key not in known:
            known[key] = statistic(others[place], own)
        return known[key]

    for place in range(len(others)):
        for one, other in relation.pairs(domain, group):
            for part, (a, b) in enumerate(zip(of(place, one), of(place, other), strict=True)):
                if part == len(found):
                    found.append([Fraction(0), Fraction(0)])
                moved = [abs(Fraction(x) - Fraction(y)) for x, y in zip(a, b, strict=True)]
                found[part][0] = max(found[part][0], sum(moved, Fraction(0)))
                found[part][1] = max(found[part][1], sum((x * x for x in moved), Fraction(0)))
    return [(l1, l2) for l1, l2 in found]


# Plain statistics


def clamped(x: Fraction | None, lower: Fraction, upper: Fraction, missing: Fraction | None) -> Fraction | None:
    """A number between the bounds; what stands for a missing one, if anything does."""
    if x is None:
        x = missing
    return None if x is None else min(max(x, lower), upper)


def by_group(
    rows: Sequence[Row], groups: Sequence[Any] | None, place: int, value: Callable[[Row], Fraction | int | None]
) -> list[Fraction | int]:
    """The sum of a value over the rows of each group; over all without groups."""
    names: Sequence[Any] = [None] if groups is None else groups
    return [
        sum((v for row in rows if (groups is None or row[place] == name) and (v := value(row)) is not None), Fraction(0)) for name in names
    ]
