"""What the two kinds of binary search share: N, the grid of estimates, and what each must tell."""

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
    """What both searches tell about themselves: N, the grid of estimates, tests, and bounds."""

    n: int
    step: float
    frame: Frame
    """What brings the search, which is one of a model in its standard form, to the model's own units."""

    @property
    @abstractmethod
    def theta_range(self) -> tuple[float, float]:
        """Between these lies θ of every member; rounded outwards."""

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
        """The numbers jΔ that estimates are among, j = 1 … N − 1; the middle alone if N ≤ 2."""
        if self.intervals <= 2:
            return np.array([self.reach / 2])
        return np.asarray(np.arange(1, self.intervals) * self.step, np.float64)

    @property
    @abstractmethod
    def values(self) -> Array:
        """What can be estimated, in the model's own units."""

    @abstractmethod
    def estimates(self, counts: Counts, threads: int | None) -> Array:
        """Estimates of data sets from their counts: of all outcomes, shape (B, K), or of +z0, shape (B,), as the search has it."""

    @abstractmethod
    def decide(self, level: int, node: int, counts: Counts) -> int:
        """The outcome of one test for one data set, shape (K,)."""

    @abstractmethod
    def error_bound(self, index: int) -> float:
        """Bound sup P(|θ̂ − θ| > (index + 1)Δ) over the model."""

    @abstractmethod
    def risk_bound(self, loss: Callable[[Array], Array]) -> float:
        """Bound sup E loss(|θ̂ − θ|) over the model."""


def outcome_of_empty(*, zero: bool, one: bool) -> int | None:
    """What Steinberger (2019), Lemma 3.16, decides where H0 or H1 is empty; None if neither is."""
    if not zero and not one:
        return None
    return int(zero)


def number_of_intervals(reach: float, step: float) -> int:
    """N = min{N: N·step > reach}."""
    count = int(reach // step)
    while count * step <= reach:
        count += 1
    while count > 1 and (count - 1) * step > reach:
        count -= 1
    return count
