"""The base of the two kinds of binary search: N, the grid of estimates, and the methods of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore.minimax.programs.frames import Frame

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


class Search(ABC):
    """A binary search of tests with a given step, for a model in its standard form."""

    n: int
    step: float
    frame: Frame
    """The conversion from the standard form to the units of the model."""

    @property
    @abstractmethod
    def theta_range(self) -> tuple[float, float]:
        """The range of θ over the model, rounded outwards."""

    @cached_property
    def reach(self) -> float:
        """R, the length of the range of θ."""
        low, high = self.theta_range
        return high - low

    @cached_property
    def intervals(self) -> int:
        """N = min{N: NΔ > R}."""
        return number_of_intervals(self.reach, self.step)

    @cached_property
    def grid(self) -> Array:
        """The possible estimates jΔ, j = 1 … N − 1, counted from the lower end of the range; the middle alone if N ≤ 2."""
        if self.intervals <= 2:
            return np.array([self.reach / 2])
        return np.asarray(np.arange(1, self.intervals) * self.step, np.float64)

    @property
    def uncounted(self) -> float:
        """How far beyond (l + 1)Δ an error may lie that `error_bound` does not count."""
        return 0.0

    @property
    @abstractmethod
    def values(self) -> Array:
        """The possible estimates in the units of the model."""

    @abstractmethod
    def estimates(self, counts: Counts, threads: int | None) -> Array:
        """Estimate θ of data sets from counts of all outcomes, shape (B, K), or of +z0, shape (B,), depending on the search."""

    @abstractmethod
    def decide(self, level: int, node: int, counts: Counts) -> int:
        """Return the outcome of one test for one data set, shape (K,)."""

    @abstractmethod
    def error_bound(self, index: int) -> float:
        """Bound P(|θ̂ − θ| > (index + 1)Δ) over the model."""

    def first_allowed(self, allowed: float) -> int:
        """Return the first index whose `error_bound` is at most `allowed`; that of N is 0."""
        first, last = 0, self.intervals
        while first < last:
            middle = (first + last) // 2
            first, last = (first, middle) if self.error_bound(middle) <= allowed else (middle + 1, last)
        return first

    @abstractmethod
    def inverted(self, counts: Counts, level: float) -> Array:
        """Return intervals of θ, shape (B, 2), in the units of the model: each misses with at most this probability.

        Counts are those that `estimates` takes.
        """

    @abstractmethod
    def risk_bound(self, loss: Callable[[Array], Array]) -> float:
        """Bound E loss(|θ̂ − θ|) over the model."""


def outcome_of_empty(*, zero: bool, one: bool) -> int | None:
    """Return the decision of Steinberger (2019), Lemma 3.16, if H0 or H1 is empty; None if neither is."""
    if not zero and not one:
        return None
    return int(zero)


def number_of_intervals(reach: float, step: float) -> int:
    """Return N = min{N: N·step > reach}."""
    count = int(reach // step)
    while count * step <= reach:
        count += 1
    while count > 1 and (count - 1) * step > reach:
        count -= 1
    return count
