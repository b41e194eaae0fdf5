"""Unit samples to a hundred bits by mpmath, from the words that the fast path sees; what it does not see is set to its middle."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from mpmath import libmp

from dpcore import _backend
from support.kernels import Array

PRECISION = 110
PIECE = 20_000


def _pair(x: tuple[int, int, int, int]) -> tuple[float, float]:
    high = libmp.to_float(x)
    return high, libmp.to_float(libmp.mpf_sub(x, libmp.from_float(high)))


def _negative_log(numerator: int, exponent: int) -> tuple[int, int, int, int]:
    return libmp.mpf_neg(libmp.mpf_log(libmp.from_man_exp(numerator, exponent), PRECISION))  # type: ignore[no-any-return]


def exponential_reference(words: Array) -> Array:
    """Rows (high, low) of −ln|X| at |X| = (m + ½)·2^-63, m the magnitude that each word shows."""
    rows = []
    for word in words.tolist():
        magnitude = word ^ (2**64 - 1) if word >> 63 else word
        rows.append(_pair(_negative_log(2 * magnitude + 1, -64)))
    return np.array(rows)


def normal_reference(words: Array) -> Array:
    """Rows (R, cosine high, cosine low, sine high, sine low) of R·cos(2πV) and R·sin(2πV) for rows (word of U, word of V)."""
    rows = []
    for u, v in words.tolist():
        radius = libmp.mpf_sqrt(libmp.mpf_shift(_negative_log(2 * u + 1, -65), 1), PRECISION)
        cosine, sine = libmp.mpf_cos_sin_pi(libmp.from_man_exp(2 * v + 1, -64), PRECISION)
        members = [_pair(libmp.mpf_mul(radius, wave, PRECISION)) for wave in (cosine, sine)]
        rows.append((libmp.to_float(radius), *members[0], *members[1]))
    return np.array(rows)


def on_all_cores(function: object, words: Array) -> Array:
    """A reference of many words, in processes of their own."""
    pieces = [words[start : start + PIECE] for start in range(0, len(words), PIECE)]
    with ProcessPoolExecutor(_backend.default_threads(), mp_context=multiprocessing.get_context("spawn")) as executor:
        return np.concatenate(list(executor.map(function, pieces)))  # type: ignore[arg-type]
