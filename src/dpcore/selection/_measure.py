"""The exponential mechanism with a base measure: proposals from scores that are a little too high, and coins that correct them.

docs/exactness-selection.md derives that the law is exact.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._validation import REAL_DTYPES, check_array, check_finite
from dpcore.errors import ParameterError
from dpcore.rng import Stream, StreamPosition, resolve
from dpcore.selection._calls import open_selection, select

_LARGEST = 2.0**1000
_RAISED = 2.0**-46
"""Proposals are higher by this share of their parts: 16 times what float64 and `logarithms` can lose."""
_MARGIN = 2.0**-44
_LN2 = 0.6931471805599453
_ROOT_HALF = 0.7071067811865476
_TERMS = 10
"""Of the series of atanh z, after its first; what is left is below 2^-60 of z."""
_BLOCK = 4096
"""Weights at a time, so that what is between them and their logarithms stays in the cache."""
_MORE = 2
"""The domain of the words after a coin's first, as those of `noise`."""

Reals = npt.NDArray[np.float64]


def check_measure(measure: object, size: int) -> npt.NDArray[Any]:
    """Return the weights of the scores: finite, at least 0, and not all 0."""
    array = check_array("measure", measure, REAL_DTYPES)
    if array.shape != (size,):
        raise ParameterError(f"measure must have one weight for each of the {size} scores, got shape {array.shape}")
    low, high = array.min(), array.max()  # NaN, if there is one
    if not 0 <= low <= high < math.inf:
        bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
        raise ParameterError(f"measure must have finite weights of at least 0; the one at index {int(bad[0])} is not")
    if high == 0:
        raise ParameterError("measure must have a positive weight, got only zeros")
    return array


def check_scores(scores: npt.NDArray[Any]) -> None:
    """Refuse scores that are not finite."""
    if not np.isfinite(scores).all():
        check_finite("scores", scores)


class Tilted:
    """P(i) ∝ mᵢ·e^(uᵢ/b) by rejection: i is proposed with P ∝ e^(sᵢ/b) and accepted with e^((tᵢ − sᵢ)/b), where tᵢ = uᵢ + b·ln mᵢ ≤ sᵢ.

    Parameters
    ----------
    scores : ndarray, shape (d,)
        Scores u; refused if one is not finite.
    measure : ndarray, shape (d,)
        Weights m from `check_measure`.
    scale : float
        b.
    """

    def __init__(self, scores: npt.NDArray[Any], measure: npt.NDArray[Any], scale: float) -> None:
        check_scores(scores)
        self._kept: npt.NDArray[np.int64] | None = None if measure.all() else np.flatnonzero(measure)
        if self._kept is not None:
            scores, measure = scores[self._kept], measure[self._kept]
        self._scores, self._measure, self._scale = scores, measure, scale
        below = _below_largest(scores)
        logs = logarithms(measure.astype(np.float64, copy=False)) * scale
        self._size: Reals = np.abs(below) + np.abs(logs)
        self._proposed: Reals = np.maximum(below + logs + self._size * _RAISED, -_LARGEST)

    def one(self, rng: Stream | None, threads: int | None) -> int:
        """One draw."""
        stream = resolve(rng)
        while True:
            place = select("gumbel", self._proposed, self._scale, stream, threads)
            position = stream.position()
            word = int(_backend.uniform_words(position, 1)[0])
            sure = 1.0 - float(self._size[place]) / self._scale * _MARGIN
            if ((word >> 12) + 1) * 2.0**-52 <= sure or self._decided(place, word, 0, position):
                return place if self._kept is None else int(self._kept[place])

    def several(self, count: int, rng: Stream | None, threads: int | None) -> npt.NDArray[np.int64]:
        """Independent draws."""
        stream = resolve(rng)
        found = np.empty(count, np.int64)
        missing = np.arange(count)
        while missing.size:
            places = open_selection("gumbel", self._proposed, self._scale, 1, stream, threads).winners(missing.size)
            found[missing] = places
            missing = missing[~self._accepted(places, stream.position())]
        return found if self._kept is None else self._kept[found]

    def _accepted(self, places: npt.NDArray[np.int64], position: StreamPosition) -> npt.NDArray[np.bool_]:
        """Whether each proposal is accepted. The coin is a uniform number in (0, 1) of as many bits as it takes."""
        words = _backend.uniform_words(position, places.size)
        with np.errstate(over="ignore"):
            sure = 1.0 - self._size[places] / self._scale * _MARGIN  # a coin below this is accepted, whatever was rounded
        accepted = ((words >> np.uint64(12)) + np.uint64(1)) * 2.0**-52 <= sure
        for i in np.flatnonzero(~accepted).tolist():
            accepted[i] = self._decided(int(places[i]), int(words[i]), i, position)
        return accepted

    def _decided(self, place: int, word: int, coin: int, position: StreamPosition) -> bool:
        from dpcore._exact.intervals import Interval, exp
        from dpcore._exact.sampling import Uniform, is_below

        ahead = _clamped(self._scores[place]) - _clamped(self._scores.max()) - Fraction(float(self._proposed[place]))
        exponent, weight = ahead / Fraction(self._scale), Fraction(self._measure[place].item())
        more = partial(_backend.call_words(position).more, _MORE, position.first_element + coin, 0)
        return is_below(Uniform(word, 64, more), lambda p: exp(Interval.of(exponent, p)) * Interval.of(weight, p))


def logarithms(weights: Reals) -> Reals:
    """Return ln w of positive weights, good to a relative 5·2^-53.

    NumPy's logarithm has other last bits on other CPUs. This is +, −, × and ÷ alone: with w = m·2^e and √½ ≤ m < √2 it is
    e·ln 2 + 2 atanh z of z = (m − 1)/(m + 1).
    """
    found = np.empty(weights.shape)
    for start in range(0, weights.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        m, e = np.frexp(weights[block])
        low = m < _ROOT_HALF
        m, e = np.where(low, 2.0 * m, m), e - low
        z = (m - 1.0) / (m + 1.0)
        square = z * z
        series = np.full(z.shape, 1.0 / (2 * _TERMS + 1))
        for i in range(_TERMS - 1, 0, -1):
            series *= square
            series += 1.0 / (2 * i + 1)
        found[block] = 2.0 * z + (2.0 * z * square * series + e * _LN2)
    return found


def _below_largest(scores: npt.NDArray[Any]) -> Reals:
    """The scores minus their largest, good to a relative 2^-53 and a clamp at 2^1000; integers beyond 2^53 lose nothing before."""
    if scores.dtype.kind in "iu":
        whole = scores.astype(np.int64)
        return -np.asarray(whole.max().view(np.uint64) - whole.view(np.uint64), np.float64)
    clamped = scores.astype(np.float64, copy=False)
    largest = clamped.max()
    if largest > _LARGEST or clamped.min() < -_LARGEST:
        clamped = np.clip(clamped, -_LARGEST, _LARGEST)
        largest = clamped.max()
    return np.asarray(clamped - largest, np.float64)


def _clamped(score: Any) -> Fraction:
    return min(max(Fraction(score.item()), -Fraction(_LARGEST)), Fraction(_LARGEST))
