"""Records of signs from product laws, and the private test of uniformity once more in plain Python."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np

from dpcore import _backend, noise
from dpcore.local import BinaryResponse
from dpcore.testing import KeyedRandom


def uniform_rows(n, d, rng):
    """Packed rows that are uniform on {±1}^d."""
    width = (d + 7) // 8
    return _backend.uniform_words(rng.position(), -(-n * width // 8)).view(np.uint8)[: n * width].reshape(n, width)


def spread_rows(n, d, mean, rng):
    """Packed rows of d independent signs with this mean each; d a multiple of 8."""
    ones = np.full(n * d // 8, 255, np.uint8)
    return BinaryResponse(2 * math.atanh(mean)).privatize_packed(ones, n=n * d, rng=rng).reshape(n, d // 8)


def concentrated_rows(n, d, mean, rng):
    """Packed rows whose first sign has this mean, the others being fair."""
    rows = uniform_rows(n, d, rng).copy()
    first = np.ones(n, np.uint8) if mean == 1 else np.unpackbits(spread_rows(-(-n // 8), 8, mean, rng).ravel(), count=n)
    rows[:, 0] = rows[:, 0] & 254 | first
    return rows


def constants(n, d, epsilon, delta):
    """Limits and scales of Private inference (chapter 9), Algorithm 9.3.3, at 60 digits, for the budget of one step."""
    with mpmath.workdps(60):
        e, f = mpmath.mpf(epsilon), mpmath.mpf(delta)
        ln, sqrt = mpmath.log, mpmath.sqrt
        width = 16 * (
            d * ln(d / f)
            + d / (n * e**2) * ln(1 / f) ** 2
            + sqrt(n * d) * sqrt(ln(d / f) * ln(n / f))
            + sqrt(d) / e * ln(1 / f) * sqrt(ln(n / f))
        )
        reach = 4 * d / e * sqrt(ln(5 / (4 * f)) * ln(n / f))
        return {
            "first_scale": 2 / e,
            "first": sqrt(2 * n * ln(d / f)) + 2 / e * ln(1 / f),
            "sigma": sqrt(8 * d * ln(5 / (4 * f))) / e,
            "filter": width + reach,
            "reach": reach,
            "second_scale": 1 / e,
            "second": ln(1 / f) / e,
            "third_scale": (4 * width + 12 * reach) / e,
        }


def slow_statistic(signs, limits, key):
    """z₃, or inf, by loops over Python integers; the noise is drawn in the same order from the same stream."""
    rng, (n, d) = KeyedRandom(key), np.shape(signs)
    rows = [[int(s) for s in row] for row in signs]
    sums = [sum(row[i] for row in rows) for i in range(d)]
    if noise.laplace(max(abs(s) for s in sums), limits.first_scale, rng=rng) > limits.first:
        return math.inf
    noisy = [int(v) for v in noise.gaussian(np.array(sums), limits.sigma, grid=1.0, rng=rng)]
    far = [j for j in range(n) if abs(sum(x * v for x, v in zip(rows[j], noisy, strict=True))) > limits.filter]
    if noise.laplace(len(far), limits.second_scale, rng=rng) > limits.second:
        return math.inf
    width = -(-d // 64)
    words = _backend.uniform_words(rng.position(), len(far) * width).reshape(-1, width).tolist() if far else []
    for j, row in zip(far, words, strict=True):
        rows[j] = [2 * (row[i // 64] >> i % 64 & 1) - 1 for i in range(d)]
    statistic = sum(sum(row[i] for row in rows) ** 2 - n for i in range(d))
    rounded = statistic // limits.grid * limits.grid
    return rounded + Fraction(noise.laplace(0.0, limits.third_scale, grid=float(limits.grid), rng=rng))
