"""`randomise` of the mechanisms that choose: binary, exponential, permute-and-flip, and the exponential mechanisms on categories.

Where there is no noise (ε = ∞, sensitivity 0) diffprivlib's own method serves.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from dpcore import _backend
from dpcore._exact.pending import SelectionNoise
from dpcore._exact.probability import logistic_complement
from dpcore.errors import ParameterTypeError
from dpcore.interop._entering import EXACT
from dpcore.interop.diffprivlib import _scales
from dpcore.interop.diffprivlib._draws import INTEGER_TYPES, NUMBER_TYPES, Array, stream_of
from dpcore.interop.diffprivlib._numbers import Randomise, is_own
from dpcore.interop.diffprivlib._tables import coin, table_of
from dpcore.selection._measure import Tilted, check_measure

_FEW, _FAR = 16, 10_000.0
"""Up to so many categories, at most so many scales apart, are drawn from a table, which takes some 25 µs a category to make."""


def flipped(original: Randomise) -> Randomise:
    """The method of Binary: the other label with probability 1/(1 + e^ε)."""

    def randomise(self: Any, value: Any) -> Any:
        self._check_all(value)
        if self.epsilon == math.inf:
            return original(self, value)
        return self.value1 if (value == self.value1) ^ coin(logistic_complement(self.epsilon), self._rng.random) else self.value0

    return randomise


class _Scores(NamedTuple):
    """What follows from the lists of a mechanism on candidates. Lists can change, so that copies are compared before it is used."""

    utility: list[Any]
    measure: list[Any] | None
    scale: float
    scores: Array
    tilted: Tilted | None


_lists: WeakKeyDictionary[Any, _Scores] = WeakKeyDictionary()


def chosen(kind: SelectionNoise, original: Randomise) -> Randomise:
    """The method of Exponential ("gumbel") and PermuteAndFlip ("exponential")."""

    def randomise(self: Any, value: Any = None) -> Any:
        self._check_all(value)
        scale = _scales.argmax(self.epsilon, self.sensitivity, halved=self.monotonic) if is_own(self) else 0.0
        if not scale:
            return original(self, value)
        kept = _lists.get(self)
        if kept is None or scale != kept.scale or self.utility != kept.utility or self.measure != kept.measure:
            kept = _lists[self] = _scores(self, scale)
        if kept.tilted is not None:
            index = kept.tilted.one(stream_of(self), 1)
        else:
            index = int(_backend.select_largest(kind, kept.scores, scale, 1, stream_of(self).position(), threads=None)[0])
        return self.candidates[index] if self.candidates else index

    return randomise


def _scores(mechanism: Any, scale: float) -> _Scores:
    utility, measure = list(mechanism.utility), mechanism.measure
    scores = _floats("utility", utility)
    tilted = Tilted(scores, check_measure(_floats("measure", measure), scores.size), scale) if measure else None
    return _Scores(utility, list(measure) if measure else measure, scale, scores, tilted)


def _floats(name: str, numbers: list[Any]) -> Array:
    """The numbers as float64, each by itself: an integer beyond 2^53 counts as 2^53, so that no rounding moves two lists apart."""
    kinds = set(map(type, numbers))
    if not kinds <= NUMBER_TYPES:
        others = ", ".join(sorted(kind.__name__ for kind in kinds - NUMBER_TYPES))
        raise ParameterTypeError(f"{name} must hold floats and integers of Python or NumPy that float64 or int64 holds, got {others}")
    if kinds & INTEGER_TYPES:
        return np.array([float(min(max(int(each), -EXACT), EXACT)) if type(each) in INTEGER_TYPES else float(each) for each in numbers])
    return np.array(numbers, np.float64)


class _Row:
    """The categories for one value of a mechanism, at its ε."""

    __slots__ = ("_names", "_scale", "_scores", "_table")

    def __init__(self, mechanism: Any, value: str, scale: float) -> None:
        self._names: list[str] = list(mechanism._normalising_constant)
        self._scores = np.array([-float(mechanism._get_utility(value, other)) for other in self._names])
        self._scale = scale
        self._table = None
        if len(self._names) <= _FEW and -float(self._scores.min()) <= _FAR * scale:
            self._table = table_of(tuple(Fraction(score) / Fraction(scale) for score in self._scores.tolist()))

    def draw(self, mechanism: Any) -> str:
        """One category with P ∝ e^(−u/b)."""
        if self._table is not None:
            return self._names[self._table.index(mechanism._rng.random)]
        position = stream_of(mechanism).position()
        return self._names[int(_backend.select_largest("gumbel", self._scores, self._scale, 1, position, threads=1)[0])]


class _Rows(NamedTuple):
    """What follows from the utilities and the ε of a mechanism on categories."""

    utilities: object
    epsilon: float
    scale: float
    rows: dict[str, _Row]


_kept: WeakKeyDictionary[Any, _Rows] = WeakKeyDictionary()


def categorical(original: Randomise) -> Randomise:
    """The method of ExponentialCategorical and ExponentialHierarchical: P ∝ e^(−ε·u(value, target)/2Δ), without the 2 if balanced."""

    def randomise(self: Any, value: Any) -> Any:
        self._check_all(value)
        kept = _kept.get(self)
        if kept is None or kept.epsilon != self.epsilon or kept.utilities is not self._utility_values:
            scale = _scales.argmax(self.epsilon, float(self._sensitivity), halved=_is_balanced(self)) if is_own(self) else 0.0
            kept = _kept[self] = _Rows(self._utility_values, self.epsilon, scale, {})
        if not kept.scale:
            return original(self, value)
        row = kept.rows.get(value)
        if row is None:
            row = kept.rows[value] = _Row(self, value, kept.scale)
        return row.draw(self)

    return randomise


def _is_balanced(mechanism: Any) -> bool:
    """Whether all values have the same utilities, in some order: diffprivlib compares sums of exponentials, up to 10^-5."""
    names = list(mechanism._normalising_constant)
    return mechanism._balanced_tree and len({tuple(sorted(mechanism._get_utility(a, b) for b in names)) for a in names}) == 1
