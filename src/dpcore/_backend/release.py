"""Kernels of distributions and of their tests: choices among weighted codes, sums of cosines, paths inside a band, products with signs."""

from __future__ import annotations

import math
import threading
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._backend.memory import contiguous
from dpcore._backend.threads import for_ranges
from dpcore._backend.words import Position, uniform_words
from dpcore._dataclasses import dataclass
from dpcore._kernels import _release

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
COSINE_GRID = 2.0**-40
COSINE_LARGEST = int(_release.COSINE_LARGEST)
"""Largest magnitude of a rounded √2·cos(πjx), in units of the grid: ⌊√2·2^40⌋."""
_BLOCK = 2**16
"""Records and words that are handled at a time."""
_TERMS_AT_A_TIME = 2**26
"""Products that are summed between two checks for signals."""
_MOST_GUIDE = 20


def choose_codes(thresholds: npt.NDArray[np.uint64], n: int, position: Position, *, threads: int | None) -> tuple[Counts, Counts]:
    """For each of n elements how many of the ascending thresholds are at most its word; and the elements whose words are thresholds."""
    bits = max(1, min(_MOST_GUIDE, len(thresholds).bit_length() + 1, n.bit_length()))
    guide = np.append(np.searchsorted(thresholds, np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)), len(thresholds)).astype(
        np.uint32
    )
    codes, tied, lock = np.empty(n, np.int64), list[Counts](), threading.Lock()
    key, nonce, first, secure = position

    def work(start: int, stop: int) -> None:
        for low in range(start, stop, _BLOCK):
            part = codes[low : min(low + _BLOCK, stop)]
            words = uniform_words((key, nonce, first + low, secure), len(part))
            if _release.choose(words, thresholds, guide, 64 - bits, part):
                with lock:
                    tied.append(low + np.flatnonzero(np.isin(words, thresholds)))

    for_ranges(work, n, threads)
    return codes, np.sort(np.concatenate(tied)) if tied else np.empty(0, np.int64)


def rounded_cosines(x: Floats, terms: int) -> Counts:
    """√2·cos(πjx) for j = 1 … terms in units of the grid, rounded towards zero: shape (n, terms); x in [0, 1]."""
    out, ignored = np.empty((len(x), terms), np.int64), np.zeros(terms, np.int64)
    for start in range(0, len(x), _BLOCK):
        _release.cosines(contiguous(x[start : start + _BLOCK], np.float64), ignored, out[start : start + _BLOCK])
    return out


def cosine_sums(x: Floats, terms: int, *, threads: int | None) -> tuple[int, ...]:
    """Σ_i of the rounded √2·cos(πj x_i) for j = 1 … terms, exactly, in units of the grid."""
    totals, lock = np.zeros(terms, object), threading.Lock()

    def work(start: int, stop: int) -> None:
        for low in range(start, stop, _BLOCK):
            sums = np.zeros(terms, np.int64)
            _release.cosines(contiguous(x[low : min(low + _BLOCK, stop)], np.float64), sums)
            with lock:
                np.add(totals, sums, out=totals)

    for_ranges(work, len(x), threads, elements_per_unit=1 / max(1, terms))
    return tuple(int(total) for total in totals)


@dataclass(frozen=True, slots=True, eq=False)
class BandPaths:
    """Sums over paths that stay inside a band: f_i(C) = Σ Π_j 1/c_j! over c_1 + … + c_i = C with every partial sum inside.

    Attributes
    ----------
    lower, upper : ndarray of int64, shape (m,)
        The band: partial sums C_i in [lower_i, upper_i].
    offsets : ndarray of int64, shape (m + 1,)
        f_i(C) is at offsets[i − 1] + C − lower_i.
    mantissas : ndarray of float64
        In [1, 2), or 0.
    exponents : ndarray of int64
        f is mantissa·2^exponent.
    relative_error : float
        Bound of the relative error of every f; one that is 0 has the mantissa 0.
    """

    lower: Counts
    upper: Counts
    offsets: Counts
    mantissas: Floats
    exponents: Counts
    relative_error: float


def band_paths(lower: Counts, upper: Counts) -> BandPaths:
    """Fill the table; bands do not fall, lie in [0, k] and end in lower = upper = k. Cost: Σ_i width_i·width_(i−1) products."""
    widths = np.maximum(upper - lower + 1, 0)
    offsets = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    mantissas, exponents = np.empty(offsets[-1]), np.empty(offsets[-1])
    low, high = np.ascontiguousarray(lower, np.int64), np.ascontiguousarray(upper, np.int64)
    weights = step_weights(int(upper[-1]))
    work = np.cumsum(widths * np.concatenate([[1], widths[:-1]])) // _TERMS_AT_A_TIME
    ends = np.append(np.flatnonzero(np.diff(work)) + 1, len(lower)).tolist()
    for start, stop in zip([0, *ends], ends, strict=False):
        _release.band_rows((low, high, offsets), weights, mantissas, exponents, start, stop)
    # a weight, a product and at most (k + 1)/8 + 10 additions per row are rounded
    error = len(lower) * (int(upper[-1]) / 8 + 16) * 2.0**-53
    return BandPaths(low, high, offsets, mantissas, exponents.astype(np.int64), error / (1 - error))


@lru_cache(maxsize=8)
def step_weights(k: int) -> tuple[Floats, Floats]:
    """1/c! for c = k, …, 0 as mantissas in [1, 2), each within 2^-53 + 2^-100 of itself, and exponents."""
    mantissas, exponents = np.empty(k + 1), np.empty(k + 1)
    leading, length = 1 << 191, 1  # c! = leading·2^(length − 192), but for the bits that are cut off: a part of at most c·2^-191 of it
    for c in range(k + 1):
        leading *= max(c, 1)
        excess = leading.bit_length() - 192
        leading, length = leading >> excess, length + excess
        mantissa, exponent = math.frexp(((1 << 318) // leading) * 2.0**-127)  # 2^191/leading, in (1/2, 1]
        mantissas[k - c], exponents[k - c] = 2 * mantissa, exponent - length
    mantissas.flags.writeable = exponents.flags.writeable = False  # all callers share the arrays
    return mantissas, exponents


def sign_products(packed: npt.NDArray[np.uint8], values: npt.ArrayLike, *, threads: int | None) -> Counts:
    """Σ_i x_i·v_i for each row x of packed signs, a set bit being +1; d = len(values) columns, Σ|v_i| < 2^62."""
    v = np.asarray(values, np.int64)
    planes = _bit_planes(v, packed.shape[1])
    rows = packed if packed.shape[1] < 2 or packed.strides[1] == 1 else contiguous(packed)
    out = np.zeros(len(rows), np.int64)

    def work(start: int, stop: int) -> None:
        _release.weigh_bits(rows[start:stop], planes, out[start:stop])

    for_ranges(work, len(rows), threads, elements_per_unit=max(2.0**-10, 16 / max(1, planes.size)))
    return 2 * out - np.int64(v.sum())


def _bit_planes(v: Counts, width: int) -> npt.NDArray[Any]:
    """The bits of two's complement, one plane each, as little-endian words of rows of `width` bytes."""
    n_planes = int(np.abs(v).max(initial=0)).bit_length() + 1
    planes = np.zeros((n_planes, (width + 7) // 8 * 8), np.uint8)
    for b, plane in enumerate(planes):
        bits = np.packbits((v >> b & 1).astype(np.uint8), bitorder="little")
        plane[: len(bits)] = bits
    return planes.view("<u8").astype(np.uint64, copy=False)
