"""The statistics of all groups together, one array for each, and the noise that is drawn on all of them at once.

Each array has one place more than there are groups: rows of no group go there, and it is never released.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import numpy as np

from dpcore import _backend
from dpcore.batch.release.answers import (
    around,
    noisy_sums,
    standard_deviation,
    there,
)
from dpcore.sums import ExactSum, clamped_sum

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.batch.release.answers import HistogramAnswer, PrivateMeanAnswer, SumAnswer
    from dpcore.batch.release.choices import QuantileAnswer, TopAnswer
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]
    Counts = npt.NDArray[np.int64]
    Codes = npt.NDArray[np.int32]

Tally = TypeVar("Tally")


class GroupTallies(Protocol[Tally]):
    """The interface of the statistics of one kind of query, for all of its groups."""

    def nothing(self, groups: int) -> Tally:
        """The statistics of no rows."""

    def add(self, tally: Tally, codes: Codes, read: list[Array]) -> None:
        """Add rows in place, given the group of each and what the query reads."""

    def release(self, tally: Tally, rng: Stream | None) -> dict[str, Any]:
        """For each key of an answer the list over groups."""


class SumsOfGroups:
    """An exact sum for each group, and its number of rows: 128-bit integers in units of a grid.

    Parameters
    ----------
    groups : int
        How many.
    lower, upper : float
        Bounds to which each value is clamped.
    """

    __slots__ = ("_empty", "totals")

    def __init__(self, groups: int, lower: float, upper: float) -> None:
        self._empty = clamped_sum(np.empty(0), lower, upper)
        self.totals = np.zeros((groups, 3), np.int64)

    def add(self, values: Array, codes: Codes) -> None:
        """Add values to the sums of their groups."""
        one = self._empty
        _backend.add_grouped_sums(self.totals, values.astype(np.float64, copy=False), codes, one.lower, one.upper, one.grid)

    def __iadd__(self, other: SumsOfGroups) -> Self:
        _backend.merge_grouped_sums(self.totals, other.totals)
        return self

    @property
    def counts(self) -> Counts:
        """Rows of each group."""
        return np.ascontiguousarray(self.totals[:-1, 2])

    @property
    def sums(self) -> ExactSum:
        """The sum of each group."""
        one, (high, low) = self._empty, _backend.grouped_pairs(self.totals[:-1], self._empty.grid)
        return ExactSum(high, low, one.grid, int(self.totals[:-1, 2].max(initial=0)), one.lower, one.upper)


@dataclass(frozen=True, slots=True)
class PairTallies:
    """Rows of each group in each cell, point or candidate. Rows that are skipped or of no candidate are behind the last one."""

    answer: HistogramAnswer | QuantileAnswer | TopAnswer

    def nothing(self, groups: int) -> Counts:
        """No rows."""
        return np.zeros((groups + 1, self.answer.cells.size + 1), np.int64)

    def add(self, tally: Counts, codes: Codes, read: list[Array]) -> None:
        """Count pairs of a group and a cell."""
        _backend.add_code_counts(tally.reshape(-1), codes * np.int32(tally.shape[1]) + read[0].astype(np.int32, copy=False))

    def release(self, tally: Counts, rng: Stream | None) -> dict[str, Any]:
        """The answers to all groups."""
        return self.answer.release_of_groups(np.ascontiguousarray(tally[:-1, :-1]), rng)


@dataclass(frozen=True, slots=True)
class SumTallies:
    """The sum of each group."""

    answer: SumAnswer

    def nothing(self, groups: int) -> SumsOfGroups:
        """Sums of nothing."""
        return SumsOfGroups(groups + 1, self.answer.section.lower, self.answer.section.upper)

    def add(self, tally: SumsOfGroups, codes: Codes, read: list[Array]) -> None:
        """Add values."""
        values, codes = there([read[0], codes, *read[1:]], 2)
        tally.add(values, codes)

    def release(self, tally: SumsOfGroups, rng: Stream | None) -> dict[str, Any]:
        """The noisy sums."""
        answer = self.answer
        return around(np.asarray(noisy_sums(tally.sums, answer.mechanism, rng)), answer.mechanism, answer.section.confidence)


@dataclass(frozen=True, slots=True)
class MeanTallies:
    """The sum of each group's distances from the middle of the bounds, and its number of rows."""

    answer: PrivateMeanAnswer

    def nothing(self, groups: int) -> SumsOfGroups:
        """Sums of nothing."""
        return SumsOfGroups(groups + 1, -self.answer.half_width, self.answer.half_width)

    def add(self, tally: SumsOfGroups, codes: Codes, read: list[Array]) -> None:
        """Add distances."""
        values, codes = there([read[0], codes, *read[1:]], 2)
        tally.add(self.answer.distances(values), codes)

    def release(self, tally: SumsOfGroups, rng: Stream | None) -> dict[str, Any]:
        """The noisy means, clamped to the bounds, which costs nothing."""
        answer = self.answer
        total = np.asarray(noisy_sums(tally.sums, answer.total, rng))
        count = np.asarray(answer.count.release(tally.counts, rng=rng, threads=1))
        value, (low, high) = answer.mean(total, count), answer.interval(total, count)
        deviations = [standard_deviation(noise) for noise in (answer.total, answer.count)]
        return {
            "value": value.tolist(),
            "stderr": (np.hypot(deviations[0], (value - answer.middle) * deviations[1]) / np.maximum(count, 1)).tolist(),
            "interval": np.stack([low, high], axis=-1).tolist(),
            "count": count.tolist(),
        }
