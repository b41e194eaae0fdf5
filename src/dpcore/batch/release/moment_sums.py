"""Exact sums of steps and of their products, for the second moments of groups: 128-bit integers, whatever the number of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dpcore import _backend
from dpcore.batch.release.statistics import Statistic, add_whole
from dpcore.batch.release.steps import CACHED, MOST_STEPS, STEP_BITS, Moments, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

    from dpcore.batch.release.statistics import ReadRows
    from dpcore.batch.release.steps import Steps

    Array = npt.NDArray[Any]


class MomentsOfGroups:
    """Exact sums of each group's steps, and of both halves of their products; behind the last those of the rows of no group.

    Parameters
    ----------
    groups : int
        How many.
    parts : int
        Sums of each.
    """

    __slots__ = ("totals",)

    def __init__(self, groups: int, parts: int) -> None:
        self.totals = [np.zeros((groups + 1, 3), np.int64) for _ in range(parts)]

    def __iadd__(self, other: Self) -> Self:
        for mine, others in zip(self.totals, other.totals, strict=True):
            _backend.merge_grouped_sums(mine, others)
        return self

    @property
    def groups(self) -> int:
        """Number of groups; rows of none are added behind the last."""
        return len(self.totals[0]) - 1

    def exact(self, start: int, stop: int) -> Exact:
        """The sums of some groups."""
        *sums, high, low = (_whole(total[start:stop]) for total in self.totals)
        return Exact(self.totals[0][start:stop, 2], sums, (high << STEP_BITS) + low)

    def each(self) -> Iterator[Moments]:
        """The moments of the groups, one after the other."""
        exact = self.exact(0, self.groups)
        for n, product, *sums in zip(exact.counts.tolist(), exact.products, *exact.sums, strict=True):
            yield Moments(n, tuple(sums), product)


@dataclass(frozen=True, slots=True)
class Exact:
    """Exact moments of some groups: rows, Σk or Σk and Σl, and Σk² or Σkl; all but the first are integers of Python."""

    counts: npt.NDArray[np.int64]
    sums: list[Array]
    products: Array


def _whole(words: Array) -> Array:
    """The integers whose two words, the lower one first, are rows of an array."""
    low, high = words[:, 0].copy().view(np.uint64).astype(object), words[:, 1].astype(object)
    whole: Array = (high << 64) + low
    return whole


@dataclass(frozen=True, slots=True)
class MomentsOf(Statistic):
    """The sums of each group's steps, and of both halves of their products."""

    groups: int
    steps: tuple[Steps, ...]

    def zero(self, spill: Path) -> MomentsOfGroups:  # noqa: ARG002
        """No rows."""
        return MomentsOfGroups(self.groups, len(self.steps) + 2)

    def add(self, total: MomentsOfGroups, selected: ReadRows) -> None:
        """Add steps and products."""
        rows = selected.held(len(self.steps))
        if rows.codes is None:
            self._add_all(total, rows.columns)
            return
        columns = [steps.of(each) for steps, each in zip(self.steps, rows.columns, strict=True)]
        for totals, part in zip(total.totals, parts_of(columns), strict=True):
            # Integers of at most 31 bits are whole steps of a grid of 1.
            _backend.add_grouped_sums(totals, part.astype(np.float64), rows.codes, 0.0, MOST_STEPS, 1.0)

    def _add_all(self, total: MomentsOfGroups, columns: list[Array]) -> None:
        """Add all rows to the first group, in blocks that stay in the cache."""
        sums = [0] * len(total.totals)
        for start in range(0, len(columns[0]), CACHED):
            block = [steps.of(numbers[start : start + CACHED]) for steps, numbers in zip(self.steps, columns, strict=True)]
            sums = [known + int(part.sum()) for known, part in zip(sums, parts_of(block), strict=True)]
        for totals, part in zip(total.totals, sums, strict=True):
            add_whole(totals[0], part, len(columns[0]))
