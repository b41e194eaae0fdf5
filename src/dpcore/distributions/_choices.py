"""Exact random choices: codes with rational probabilities, and uniform numbers that are known as far as a decision needs them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._exact.intervals import exactly
from dpcore._exact.sampling import Uniform
from dpcore.errors import ParameterError
from dpcore.rng import Stream, resolve

BULK, MORE = 0, 2


class Uniforms:
    """Independent uniform numbers on (0, 1), numbered from 0, of one call of a stream."""

    def __init__(self, rng: Stream | None) -> None:
        self._position = resolve(rng).position()
        self._words = _backend.call_words(self._position)

    def __getitem__(self, index: int) -> Uniform:
        """The number, whose first 64 bits are its word."""
        element = self._position.first_element + index
        first = self._words.group(BULK, element // _backend.GROUP)[element % _backend.GROUP]
        return Uniform(first, 64, lambda chunk: self._words.more(MORE, element, 0, chunk))

    def codes(self, thresholds: npt.NDArray[np.uint64], n: int, threads: int | None) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """How many of the ascending thresholds are at most the word of each of the first n; and those whose words are thresholds."""
        return _backend.choose_codes(thresholds, n, self._position, threads=threads)

    def floats(self, start: int, stop: int) -> npt.NDArray[np.float64]:
        """The numbers [start, stop), rounded down to multiples of 2^-53."""
        position = self._position._replace(first_element=self._position.first_element + start)
        words = _backend.uniform_words(position, stop - start) >> np.uint64(11)
        # as signed integers, which processors convert faster
        return np.multiply(words.view(np.int64), 2.0**-53, dtype=np.float64)

    def words(self, n: int) -> npt.NDArray[np.uint64]:
        """The first 64 bits of the first n numbers."""
        return _backend.uniform_words(self._position, n)


def draw_codes(weights: Sequence[int], n: int, *, rng: Stream | None = None, threads: int | None = None) -> npt.NDArray[np.int64]:
    """n independent codes, j with probability weights[j]/Σ weights exactly; weights are integers ≥ 0 of any size, not all 0."""
    cumulative = list(accumulate(weights))
    total = cumulative[-1] if cumulative else 0
    if total <= 0:
        raise ParameterError(f"weights must have a positive sum, got {total}")
    # τ_j = 2^64·cumulative_j/total lies in [T_j, T_j + 1): a word other than T_j decides, and so does T_j itself if τ_j is whole
    floors = [divmod(c << 64, total) for c in cumulative[:-1]]
    thresholds = np.array([floor for floor, _ in floors if floor < 2**64], np.uint64)
    uniforms = Uniforms(rng)
    codes, tied = uniforms.codes(thresholds, n, threads)
    for index in tied.tolist():
        codes[index] = decided(uniforms[index], cumulative, total)
    return codes


def decided(uniform: Uniform, cumulative: Sequence[int], total: int) -> int:
    """The code of a uniform number: how many of cumulative/total are at most it."""
    precision = 128
    while True:
        at = uniform.at(precision)
        low, high = (sum(Fraction(c, total) <= end for c in cumulative[:-1]) for end in (exactly(at.low), exactly(at.high)))
        if low == high:
            return low
        precision *= 2


def unit_floats(shape: tuple[int, ...], *, rng: Stream | None = None) -> npt.NDArray[np.float64]:
    """Independent numbers, uniform on the multiples of 2^-53 in [0, 1)."""
    return Uniforms(rng).floats(0, math.prod(shape)).reshape(shape)
