"""What an answer releases about a table, as its kind's file in `tests/kinds` says, and between bounds that are found privately."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpcore.query.grids import OCTAVES
from dpcore.query.nested_groups import NestedEstimator
from dpcore.query.private_bounds import PrivateBounds
from kinds import merged
from support.parts import Part, noisy

ENDS = [(OCTAVES, OCTAVES + 33), (OCTAVES - 36, OCTAVES + 36), (OCTAVES - 36, OCTAVES - 33)]
"""Bounds that may be found: [0, 1], [−8, 8] and [−8, −1]."""
RELEASED, WAYS = merged("RELEASED"), merged("WAYS")


def parts_of(answer: Any, total: Any) -> list[list[Part]]:
    """The parts of an answer about a table, for each of several ways in which it may be made.

    Choices and moments are one group after the other; numbers of all groups get noise all at once.
    """
    if isinstance(answer, PrivateBounds):
        return _between_found_bounds(answer, total)
    if isinstance(answer, NestedEstimator):
        return [[part for level, each in zip(answer.levels, answer.totals(total), strict=True) for part in parts_of(level, each)[0]]]
    if type(answer) in WAYS:
        found: list[list[Part]] = WAYS[type(answer)](answer, total)
        return found
    return [RELEASED[type(answer)](answer, total)]


def between_bounds(answer: PrivateBounds) -> list[Any]:
    """The answers between bounds that may be found."""
    return [replace(answer, found=ends).inner for ends in ENDS]


def _between_found_bounds(answer: PrivateBounds, total: Any) -> list[list[Part]]:
    """The bins, and then the answer between any bounds."""
    rows, between = total
    bins = noisy(rows.tolist(), answer.bins.scale)
    return [[bins, *way] for inner, each in zip(between_bounds(answer), between, strict=True) for way in parts_of(inner, each)]
