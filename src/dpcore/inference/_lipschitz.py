"""Lipschitz extension of T from C(Δ) to all data sets, by enumeration, and the steps of Private inference (chapter 9), Algorithm 9.3.2."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import accounting
from dpcore._dataclasses import dataclass
from dpcore.inference._sample_size import least_allowed, noisy_tail
from dpcore.inference._tails import laplace_tail
from dpcore.noise import default_grid

Progress = Callable[[int, int], object]
Constants = tuple[float, float, float]
"""The factors of Δ*, of the next Δ, and of n√d in the limit of a step of the loop."""
DOCUMENT: Constants = (1000.0, 11.0, 10.0)

WIDTH_GRID = 2.0**-10
"""Δ is rounded up to its multiples, so that T + 4Δh is a float64 exactly."""
_CHUNK = 1 << 16


class States:
    """All data sets of n records of d signs: T, and the least Δ whose C(Δ) they are in.

    Data set s has as record j the bits jd … jd + d − 1 of s.

    Parameters
    ----------
    n, d : int
        Numbers of records and of signs.
    progress : callable, optional
        Called with the number of data sets that are done, and of all.
    """

    def __init__(self, n: int, d: int, progress: Progress | None = None) -> None:
        self.n, self.d = n, d
        self._signs = 2 * (np.arange(1 << d)[:, None] >> np.arange(d) & 1) - 1
        size = 1 << (n * d)
        self.statistics, self.reaches = np.empty(size, np.int64), np.empty(size, np.int64)
        for part, records in self._chunks():
            sums = sum((self._signs[r] for r in records), np.zeros((1, d), np.int64))
            self.statistics[part] = (sums**2).sum(axis=1) - n * d
            self.reaches[part] = np.max([np.abs((self._signs[r] * sums).sum(axis=1)) for r in records], axis=0)
            if progress is not None:
                progress(part.stop, size)

    def _chunks(self) -> Iterator[tuple[slice, list[npt.NDArray[np.int64]]]]:
        """Yield all data sets, some at a time, as the codes of their first, second, … records."""
        size = 1 << (self.n * self.d)
        for start in range(0, size, _CHUNK):
            states = np.arange(start, min(start + _CHUNK, size))
            yield slice(start, start + len(states)), [states >> j * self.d & ((1 << self.d) - 1) for j in range(self.n)]

    def distances(self, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Number of records in which each data set differs from the one with these records."""
        out = np.empty(len(self.statistics), np.int64)
        for part, records in self._chunks():
            out[part] = sum((r != code for r, code in zip(records, codes.tolist(), strict=True)), np.zeros(1, np.int64))
        return out

    def extension(self, distances: npt.NDArray[np.int64], width: float) -> float:
        """T̂ = min of T(X') + 4Δ·d_H(X, X') over X' in C(Δ), Δ = width, exactly; 0 where C(Δ) is empty.

        For any T on C(Δ), T̂ moves by at most 4Δ with one record, since each term of the minimum does.
        """
        inside = self.reaches <= width
        if not inside.any():
            return 0.0
        least = np.full(self.n + 1, np.inf)
        np.minimum.at(least, distances[inside], self.statistics[inside])
        return float((least + 4 * width * np.arange(self.n + 1)).min())

    def extensions(self, width: float) -> npt.NDArray[np.float64]:
        """T̂ of every data set: the distances are sums over records, so the minimum is taken over one record after the other."""
        inside = self.reaches <= width
        if inside.all():
            return self.statistics.astype(np.float64)
        if not inside.any():
            return np.zeros(len(self.statistics))
        found = np.where(inside, self.statistics, np.inf).reshape((1 << self.d,) * self.n)
        for record in range(self.n):
            found = np.minimum(found, found.min(axis=record, keepdims=True) + 4 * width)
        return found.reshape(-1)

    def p_value(self, steps: list[Step], statistic: float) -> float:
        """Return P(a step before the last rejects, or the last has a noisy T̂ of `statistic` or more) under the uniform law, rounded up.

        The law is exact: all data sets are equally likely, and the noises of the steps are independent. `statistic` is that of the last
        step that was made.
        """
        *before, last = steps
        limits = [(step, step.limit) for step in before] + [(last, statistic)]
        if not before and last.width >= self.reaches.max():
            values, counts = np.unique(self.statistics, return_counts=True)
            return min(1.0, float(_exceeds(values, last, statistic) @ counts) / len(self.statistics) * (1 + 1e-9))
        accepted = np.ones(len(self.statistics))
        for step, limit in limits:
            accepted *= 1 - _exceeds(self.extensions(step.width), step, limit)
        return min(1.0, float(np.mean(1 - accepted)) * (1 + 1e-9) + 2.0**-50)


def _exceeds(values: npt.NDArray[Any], step: Step, limit: float) -> npt.NDArray[np.float64]:
    """P(T̂ + noise, rounded to its grid, ≥ limit)."""
    return laplace_tail((limit - default_grid(step.scale) / 2 - values) / step.scale)


@dataclass(frozen=True, slots=True)
class Step:
    """One noisy comparison: reject if T̂ + Lap(scale) > limit, T̂ being the extension from C(width)."""

    width: float
    scale: float
    limit: float


def steps(n: int, d: int, epsilon: float, alpha: float, constants: Constants) -> list[Step]:
    """All comparisons of Algorithm 9.3.2, the last one being lines 9-12; they do not depend on the data."""
    most = math.ceil(math.log(n))
    share = _rounded_down(Fraction(epsilon) / most)  # ε' = ε/M, for each of at most M comparisons
    log_beta = math.log(10.0 * n)
    smallest = constants[0] * max(d, math.sqrt(n * d), log_beta / share) * log_beta
    found, width = [], float(n * d)
    for _ in range(most - 1):
        if width <= smallest:
            break
        found.append(_step(width, share, constants[2] * n * math.sqrt(d) + 4 * width * log_beta / share))
        width = _grid_up(constants[1] * (d + math.sqrt(n * d) + width / (n * share) + math.sqrt(width / share)) * log_beta)
    return [*found, _step(width, share, 0.25 * n * (n - 1) * alpha**2)]


def _step(width: float, epsilon: float, limit: float) -> Step:
    return Step(width, accounting.laplace_scale(epsilon, 4 * width), limit)


def _rounded_down(exact: Fraction) -> float:
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, 0.0)


def _grid_up(width: float) -> float:
    return math.ceil(width / WIDTH_GRID) * WIDTH_GRID


def error_bounds(n: int, d: int, alpha: float, epsilon: float) -> tuple[float, float]:
    """Bound both errors for data that lie in every C(Δ), with the constants of the chapter: of the loop and of the last comparison."""
    *loop, last = steps(n, d, epsilon, alpha, DOCUMENT)
    pairs = float(n) * (n - 1)
    early = 2 / (2 + DOCUMENT[2] ** 2) + len(loop) / (20 * n) if loop else 0.0
    size = early + noisy_tail(last.limit, 2 * pairs * d, last.scale)
    miss = noisy_tail(3 * last.limit, 2 * pairs * d + 4 * pairs * (n - 2) * alpha**2, last.scale)
    return size, miss


@lru_cache(maxsize=512)
def least_sample_size(d: int, alpha: float, epsilon: float) -> int:
    """The least n, as bisection finds it, with both bounds at most 1/3."""
    return least_allowed(lambda n: error_bounds(n, d, alpha, epsilon))
