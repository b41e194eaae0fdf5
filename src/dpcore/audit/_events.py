"""Events that separate two samples: cells of a line, unions of cells, and the choice among them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from dpcore._dataclasses import dataclass
from dpcore.audit._words import Piece, interval_words

Array = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]

DISTINCT = 1024
"""Largest number of different values for which each value is a separate cell."""
QUANTILES, TAIL = 64, 4
"""Interior quantiles that divide the cells of more values, and the least number of pilot runs beyond the outermost one."""
LEAST_ATOM = 8
"""Occurrences that make a value a separate cell when there are more values; at most a quarter of `DISTINCT` values."""
TABLE = 1 << 16
"""Integers in a range of at most this size are looked up in a table, which is faster than a search."""
NEAR = 0.02
"""Largest difference of two losses that count as nearly equal."""
CAUTION = 3.5
"""Least normal quantile that discounts a steady candidate, because there are thousands of candidates."""


@dataclass(frozen=True, eq=False)
class Feature:
    """A number that is computed from every output.

    Attributes
    ----------
    name : str
        The number in words, as "the output".
    of : callable
        Takes a block of outputs and returns a vector of bool, integers or floats.
    points : tuple of float
        Numbers that get a separate cell.
    margin : float
        By how much its events must be better than those of features without a margin, which are easier to understand.
    where : {"values", "low_bits", "own"}
        Family of the feature: plain values, low bits, or a function of the caller.
    words : callable or None
        Takes the intervals of an event and returns the event in words, for integers that encode something; None for plain numbers.
    """

    name: str
    of: Callable[[Array], Array]
    points: tuple[float, ...] = ()
    margin: float = 0.0
    where: str = "values"
    words: Callable[[Sequence[Piece]], str] | None = None

    def values(self, outputs: Array) -> Array:
        """The feature as int64 or float64."""
        found = np.asarray(self.of(outputs))
        return found.astype(np.float64 if found.dtype.kind == "f" else np.int64, copy=False)


class Partition:
    """Cells of a line: cell 2i lies between edges i − 1 and i, cell 2i + 1 is edge i itself.

    Parameters
    ----------
    edges : ndarray
        Ascending, int64 or float64.
    """

    def __init__(self, edges: Array) -> None:
        self.edges = edges
        self.cells = 2 * len(edges) + 1
        self._table: Counts | None = None
        if edges.dtype.kind == "i" and int(edges[-1]) - int(edges[0]) < TABLE and max(abs(int(edges[0])), abs(int(edges[-1]))) < 2**62:
            self._table = self._search(np.arange(int(edges[0]) - 1, int(edges[-1]) + 2))

    @classmethod
    def of(cls, pilot: Array, points: Sequence[float] = (), *, distinct: int = DISTINCT, quantiles: int = QUANTILES) -> Partition:
        """Cells for some values: each value if there are few, else quantiles and the values that occur often."""
        different, counts = np.unique(pilot, return_counts=True)
        if len(different) <= distinct:
            edges = different
        else:
            frequent = np.argsort(counts, kind="stable")[-distinct // 4 :]
            atoms = different[frequent[counts[frequent] >= LEAST_ATOM]]
            edges = np.concatenate([atoms, np.sort(pilot)[_levels(len(pilot), quantiles)]])
        extra = np.array([*points, np.inf] if pilot.dtype.kind == "f" else points, pilot.dtype)
        edges = np.unique(np.concatenate([edges, extra]))
        return cls(edges[~np.isnan(edges)] if edges.dtype.kind == "f" else edges)

    def codes(self, values: Array) -> Counts:
        """The cell of each value; NaN lies beyond infinity."""
        if self._table is None:
            return self._search(values)
        low, high = int(self.edges[0]) - 1, int(self.edges[-1]) + 1
        found: Counts = self._table[np.clip(values, low, high) - low]
        return found

    def _search(self, values: Array) -> Counts:
        place = np.searchsorted(self.edges, values)
        found: Counts = 2 * place + (self.edges[np.minimum(place, len(self.edges) - 1)] == values)
        return found

    def pieces(self, member: npt.NDArray[np.bool_]) -> list[Piece]:
        """The intervals that a union of cells consists of."""
        starts = np.flatnonzero(member & ~np.concatenate([[False], member[:-1]]))
        stops = np.flatnonzero(member & ~np.concatenate([member[1:], [False]]))
        return [self._piece(int(i), int(j)) for i, j in zip(starts, stops, strict=True)]

    def _piece(self, first: int, last: int) -> Piece:
        """Cells first … last as an interval."""
        low = self.edges[(first + 1) // 2 - 1].item() if first else None
        high = self.edges[last // 2].item() if last < self.cells - 1 else None
        if self.edges.dtype.kind == "i":
            low, high = (None if low is None else low + 1 - first % 2), (None if high is None else high - 1 + last % 2)
            return Piece(low, high)
        return Piece(low, high, with_low=bool(first % 2), with_high=bool(last % 2))


def _levels(n: int, quantiles: int) -> Counts:
    """Places in n sorted values: evenly spaced ones inside, and ones that halve the rest towards both ends."""
    inside = np.arange(1, quantiles) * n // quantiles
    tail = TAIL << np.arange(max(0, (n // quantiles // TAIL).bit_length()))
    return np.unique(np.concatenate([inside, tail, n - 1 - tail]))


@dataclass(frozen=True, eq=False)
class Candidate:
    """A union of cells of a feature, and how well it separates the two inputs.

    Attributes
    ----------
    feature, partition
        The number, and its cells.
    member : ndarray of bool
        The cells.
    likelier : int
        The input, 0 or 1, under which it is more probable.
    score : float
        The loss that it should prove.
    """

    feature: Feature
    partition: Partition
    member: npt.NDArray[np.bool_]
    likelier: int
    score: float

    def contains(self, outputs: Array) -> npt.NDArray[np.bool_]:
        """Whether each output is in the event."""
        return self.member[self.partition.codes(self.feature.values(outputs))]

    def same_as(self, other: Candidate) -> bool:
        """Whether both are one event."""
        return self.feature is other.feature and self.likelier == other.likelier and bool((self.member == other.member).all())

    @property
    def description(self) -> str:
        """The event in words."""
        pieces = self.partition.pieces(self.member)
        return self.feature.words(pieces) if self.feature.words is not None else f"{self.feature.name} {interval_words(pieces)}"


def best_candidate(
    feature: Feature, partition: Partition, ordering: Counts, scoring: Counts, counted: int, delta: float, quantile: float
) -> Candidate:
    """The best union of cells: thresholds, and unions of cells sorted by likelihood ratio. Quantiles are discounts of scores.

    Parameters
    ----------
    feature, partition
        The number that was counted, and its cells.
    ordering, scoring : ndarray of int64, shape (2, cells)
        Runs in each cell under x0 and x1, in two independent samples. The first one orders the cells, the second one judges their unions.
        With one sample for both, a union of rare cells that chance has favoured would look best.
    counted : int
        Number of runs on each input that will count the event. A candidate is worth what its shares of the runs would prove there: in the
        smaller sample that judges it, rare events prove less than they will.
    delta : float
        Failure mass δ.
    quantile : float
        Normal quantile of the discount: that of the confidence, or a larger one, see `steadier`.
    """
    starts = _groups(ordering)
    ordering, scoring = np.add.reduceat(ordering, starts, axis=1), np.add.reduceat(scoring, starts, axis=1)
    scales = counted / scoring.sum(axis=1)
    found: list[tuple[float, float, int, Counts]] = []
    for plain, order in _orders(ordering):
        grown = np.cumsum(scoring[:, order], axis=1)
        for likelier in (0, 1):
            hits, others = grown[likelier] * scales[likelier], grown[1 - likelier] * scales[1 - likelier]
            scores = losses(hits, others, counted, delta, quantile)
            at = int(np.argmax(scores))
            # Of nearly equal events take the threshold, which is easier to understand. With more runs, fewer events are nearly equal.
            handicap = 0.0 if plain else min(NEAR, float(np.sqrt((1 / (grown[:, at] + 1)).sum())))
            found.append((float(scores[at]) - handicap, float(scores[at]), likelier, order[: at + 1]))
    _, score, likelier, groups = max(found, key=lambda candidate: candidate[0])
    chosen = np.zeros(len(starts), np.bool_)
    chosen[groups] = True
    member = np.repeat(chosen, np.diff(starts, append=partition.cells))
    return Candidate(feature, partition, member, likelier, score)


def _groups(counts: Counts) -> Counts:
    """The first cells of groups: nearly empty edges and gaps join the cell on their left, so that events stay intervals."""
    total, places = counts.sum(axis=0), np.arange(counts.shape[1])
    alone = (total >= LEAST_ATOM) | ((total > 0) & (places % 2 == 0))
    alone[0] = True
    return np.flatnonzero(alone)


def _orders(counts: Counts) -> Iterator[tuple[bool, Counts]]:
    """Orders of cells: by position (True), and by likelihood ratio, plain and discounted for rare cells (False)."""
    places = np.arange(counts.shape[1])
    yield True, places
    yield True, places[::-1]
    seen = counts + 0.5
    ratio, spread = np.log(seen[0] / seen[1]), np.sqrt(1 / seen[0] + 1 / seen[1])
    for sign in (1, -1):
        yield False, np.argsort(-sign * ratio, kind="stable")
        yield False, np.argsort(2 * spread - sign * ratio, kind="stable")


def losses(hits: Array, others: Array, n: int, delta: float, quantile: float) -> npt.NDArray[np.float64]:
    """Lower bounds of ln((P − δ)/P') as a score, by Wilson's intervals, which are fast. Reported bounds use exact intervals."""
    low, high = _wilson(hits, n, -quantile), _wilson(others, n, quantile)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(low > delta, np.log(np.maximum(low - delta, 1e-300) / high), -np.inf)


def _wilson(hits: Array, n: int, z: float) -> npt.NDArray[np.float64]:
    p, share = hits / n, z * z / n
    found: npt.NDArray[np.float64] = (p + share / 2 + z * np.sqrt((p * (1 - p) + share / 4) / n)) / (1 + share)
    return found


def steadier(quantile: float) -> float:
    """A larger discount, for the judging sample, which is half the size of the counting one."""
    return math.sqrt(2.0) * max(CAUTION, quantile)


def normal_quantile(rate: float) -> float:
    """The normal quantile that a normal number exceeds with probability `rate`."""
    return float(-special.ndtri(rate))
