"""Pólya's urn and uniform integers, drawn exactly: in float64 where its error is too small to matter, else in rational numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpcore._exact.intervals import exactly
from dpcore.distributions._choices import Uniforms, draw_codes

if TYPE_CHECKING:
    from dpcore._exact.sampling import Uniform
    from dpcore.rng import Stream

Codes = npt.NDArray[np.int64]

_URN_ERROR = 2.0**-50
"""Bound of the error of u·(A + t) relative to A + t: 2^-53 each for the bits of u left out, A, the sum and the product."""
_BLOCK = 1 << 15
"""Draws whose parents are found together, so that intermediate numbers stay in the cache."""
_LOW = np.uint64(2**32 - 1)
_HALF = np.uint64(32)


def uniform_integers(bound: int | Codes, n: int, *, rng: Stream | None = None) -> Codes:
    """n independent integers, uniform on [0, bound), for a bound in [1, 2^62], or for one each: ⌊bound·U⌋."""
    uniforms = Uniforms(rng)
    words, bounds = uniforms.words(n), np.asarray(bound, np.uint64)
    high, low = _product(words, bounds)
    # U lies in [w, w + 1)·2^-64, so bound·U in [low, low + bound)·2^-64 above the integer `high`
    for index in np.flatnonzero(low > ~bounds + np.uint64(1)):
        high[index] = _floor(uniforms[int(index)], Fraction(int(np.broadcast_to(bounds, n)[index])))
    return high.view(np.int64)


def _product(words: npt.NDArray[np.uint64], bounds: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """High and low 64 bits of words·bounds, by halves."""
    b_high, b_low = bounds >> _HALF, bounds & _LOW
    w_high, w_low = words >> _HALF, words & _LOW
    bottom = w_low * b_low
    middle = w_high * b_low + (bottom >> _HALF)
    other = w_low * b_high + (middle & _LOW)
    return w_high * b_high + (middle >> _HALF) + (other >> _HALF), (other << _HALF) | (bottom & _LOW)


def _floor(uniform: Uniform, factor: Fraction, most: int | None = None) -> int:
    """⌊factor·U⌋, or `most` if that is less: as many bits of U as it takes."""
    precision = 128
    while True:
        at = uniform.at(precision)
        low, high = (math.floor(exactly(end) * factor) for end in (at.low, at.high))
        if most is not None:
            low, high = min(low, most), min(high, most)
        if low == high:
            return low
        precision *= 2


def urn_parents(mass: Fraction, k: int, *, rng: Stream | None = None) -> Codes:
    """For draws t = 0 … k − 1 from an urn that holds `mass` at first: j < t for a copy of draw j, with probability 1/(mass + t) each, or t.

    Parameters
    ----------
    mass : Fraction
        Mass A of the urn at first, in (0, 2^960]; every draw puts one more of its kind in.
    k : int
        Number of draws.
    rng : Stream, optional
        None is the secure source.

    Returns
    -------
    ndarray of int64, shape (k,)
        min(t, ⌊U_t·(A + t)⌋), exactly.
    """
    uniforms = Uniforms(rng)
    words, parents, size = uniforms.words(k), np.empty(k, np.int64), float(mass)
    for start in range(0, k, _BLOCK):
        t = np.arange(start, min(start + _BLOCK, k), dtype=np.float64)
        total = t + size
        place = (words[start : start + _BLOCK] >> np.uint64(11)) * 2.0**-53 * total
        total *= _URN_ERROR
        high = np.minimum(np.floor(place + total), t)
        low = np.clip(np.floor(place - total), 0.0, t)
        parents[start : start + _BLOCK] = low
        for index in (start + np.flatnonzero(low != high)).tolist():
            parents[index] = _floor(uniforms[index], mass + index, index)
    return parents


def urn_codes(parents: Codes, base: Callable[[int], Codes]) -> Codes:
    """Codes of the draws: base(size) makes those of the draws that copy none, and every other has the code of what it copies.

    Chains of copies are resolved by pointer jumping; they are of logarithmic length, so this takes a few passes.
    """
    is_root = parents == np.arange(len(parents))
    roots, copies = np.flatnonzero(is_root), np.flatnonzero(~is_root)
    above, found = parents[copies], parents.copy()
    while True:
        nearer = found[above]
        if np.array_equal(nearer, above):
            break
        found[copies] = above = nearer
    codes: Codes = np.empty(len(parents), np.int64)
    codes[roots] = base(len(roots))
    codes[copies] = codes[above]
    return codes


def record_codes(counts: Codes, size: int, *, rng: Stream | None = None) -> Codes:
    """Codes of records drawn with replacement: j with probability counts[j]/Σ counts exactly."""
    cumulative = np.cumsum(counts)
    place = uniform_integers(int(cumulative[-1]), size, rng=rng)
    return np.searchsorted(cumulative, place, side="right").astype(np.int64)


def mixed_codes(weights: Sequence[int], parts: Sequence[Callable[[int], Codes]], n: int, *, rng: Stream | None = None) -> Codes:
    """n codes, each made by parts[i] with probability weights[i]/Σ weights exactly."""
    part = draw_codes(weights, n, rng=rng)
    codes = np.empty(n, np.int64)
    for i, make in enumerate(parts):
        where = np.flatnonzero(part == i)
        codes[where] = make(len(where))
    return codes
