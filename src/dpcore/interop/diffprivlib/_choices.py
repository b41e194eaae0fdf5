"""`randomise` of the mechanisms that choose: binary, exponential, permute-and-flip, and the exponential mechanisms on categories.

Where there is no noise (ε = ∞, sensitivity 0) diffprivlib's own method serves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._exact.pending import SelectionNoise
from dpcore._exact.probability import Probability, logistic_complement
from dpcore.interop.diffprivlib import _scales
from dpcore.interop.diffprivlib._draws import Array, stream_of
from dpcore.interop.diffprivlib._numbers import Randomise, is_own
from dpcore.selection._measure import Tilted, check_measure

_DIGITS = 53
"""Random bits of one `random()`, of the operating system's randomness and of a seeded state."""


def flipped(original: Randomise) -> Randomise:
    """The method of Binary: the other label with probability 1/(1 + e^ε)."""

    def randomise(self: Any, value: Any) -> Any:
        self._check_all(value)
        if self.epsilon == math.inf:
            return original(self, value)
        return self.value1 if (value == self.value1) ^ _coin(logistic_complement(self.epsilon), self._rng.random) else self.value0

    return randomise


def _coin(p: Probability, random: Callable[[], float]) -> bool:
    """Whether a uniform number, of which as many bits are drawn as it takes, is below p."""
    number, bits = int(random() * 2.0**_DIGITS), _DIGITS
    while (floor := p.floor(bits)) == number:
        number, bits = number << _DIGITS | int(random() * 2.0**_DIGITS), bits + _DIGITS
    return number < floor


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
    scores = np.array(utility)
    scores = scores if scores.dtype.kind in "fi" else scores.astype(np.float64)
    tilted = Tilted(scores, check_measure(np.array(measure, np.float64), scores.size), scale) if measure else None
    return _Scores(utility, list(measure) if measure else measure, scale, scores, tilted)


class _Rows(NamedTuple):
    """What follows from the utilities of a mechanism on categories."""

    utilities: object
    names: list[str]
    scores: dict[str, npt.NDArray[np.float64]]
    balanced: bool


_kept: WeakKeyDictionary[Any, _Rows] = WeakKeyDictionary()


def categorical(original: Randomise) -> Randomise:
    """The method of ExponentialCategorical and ExponentialHierarchical: P ∝ e^(−ε·u(value, target)/2Δ), without the 2 if balanced."""

    def randomise(self: Any, value: Any) -> Any:
        self._check_all(value)
        if not is_own(self):
            return original(self, value)
        rows = _kept.get(self)
        if rows is None or rows.utilities is not self._utility_values:
            rows = _kept[self] = _rows(self)
        scale = _scales.argmax(self.epsilon, float(self._sensitivity), halved=rows.balanced)
        if not scale:
            return original(self, value)
        position = stream_of(self).position()
        return rows.names[_backend.select_largest("gumbel", rows.scores[value], scale, 1, position, threads=1)[0]]

    return randomise


def _rows(mechanism: Any) -> _Rows:
    names = list(mechanism._normalising_constant)
    scores = {one: np.array([-float(mechanism._get_utility(one, other)) for other in names]) for one in names}
    # diffprivlib compares the sums of exponentials up to 10^-5; the same utilities in another order make them equal.
    shapes = {tuple(sorted(row.tolist())) for row in scores.values()}
    return _Rows(mechanism._utility_values, names, scores, mechanism._balanced_tree and len(shapes) == 1)
