"""How far one record moves the m rounded cosines √2·cos(πjx), j = 1 … m, in ℓ1 and in ℓ2: suprema over all pairs of records.

With a, b = π(x ± y)/2 the differences are |cos πjx − cos πjy| = 2|sin ja|·|sin jb|, so that by Cauchy and Schwarz

    Σ_j |cos πjx − cos πjy| ≤ max_a Σ_j 2 sin² ja = max_θ Σ_j (1 − cos jθ),
    Σ_j (cos πjx − cos πjy)² ≤ max_a Σ_j 4 sin⁴ ja = max_θ Σ_j (1 − cos jθ)²,

with equality at a = b, that is at y = 0: both suprema are maxima of one variable. They are found on ever finer grids: at a maximum the
derivative is zero, so a cell of half-width w whose middle has the value v holds no more than v + w²·M/2, M bounding the second derivative.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpcore import _backend

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore.distributions._boxes import Reals

_CELLS_PER_TERM = 16
_PARTS = 8
_TOLERANCE = 2.0**-34
"""Error of a maximum, relative to m; rounding of the closed forms, of the order of 2^-50·m, is a small part of it."""
_ROUNDING = Fraction(5, 4)
"""A rounded cosine is off by less than 0.11 units before it is rounded towards zero, which moves a difference by less than one unit."""
_UNITS = 1 / Fraction(_backend.COSINE_GRID)


@lru_cache(maxsize=256)
def largest_change(terms: int) -> int:
    """Bound Σ_j |S_j − S'_j| over neighbours, for the sums S of rounded cosines in units of their grid: within 10^−9 of the supremum."""
    curvature = terms * (terms + 1) * (2 * terms + 1) / 6  # Σ j²
    most = _maximum(lambda q, _: terms + 0.5 - q / 2, terms, curvature)
    return min(math.ceil(_root_up(Fraction(2)) * Fraction(most) * _UNITS + _ROUNDING * terms), 2 * terms * _backend.COSINE_LARGEST)


@lru_cache(maxsize=256)
def largest_square(terms: int) -> int:
    """Bound Σ_j (S_j − S'_j)² over neighbours, in squared units of the grid: within 10^−9 of the supremum."""
    curvature = 4 * terms * (terms + 1) * (2 * terms + 1) / 6  # Σ |2j² cos jθ − 2j² cos 2jθ|
    most = _maximum(lambda q, qr: 1.5 * terms + 0.75 - q + qr / 4, terms, curvature)
    norm = _root_up(2 * Fraction(most)) * _UNITS + _ROUNDING * _root_up(Fraction(terms))
    return min(math.ceil(norm * norm), terms * (2 * _backend.COSINE_LARGEST) ** 2)


def _maximum(value: Callable[[Reals, Reals], Reals], terms: int, curvature: float) -> float:
    """Bound the maximum over θ in [0, π] of a function of sin Nt/sin t and sin 2Nt/sin 2t, where t = θ/2 and N = 2m + 1."""
    count = _CELLS_PER_TERM * terms
    places, half = (np.arange(count) + 0.5) * (math.pi / count), math.pi / (2 * count)  # middles of cells of θ
    while True:
        values = value(*_quotients(places / 2, terms))
        best, room = float(values.max()), curvature * half * half / 2
        if room <= _TOLERANCE * terms / 2:
            return best + _TOLERANCE * terms
        kept = places[values + room + _TOLERANCE * terms / 4 >= best]
        half /= _PARTS
        places = (kept[:, None] + half * np.arange(1 - _PARTS, _PARTS, 2)).ravel()


def _quotients(t: Reals, terms: int) -> tuple[Reals, Reals]:
    """sin Nt/sin t and sin 2Nt/sin 2t on (0, π/2), computed from the nearer end, where no small angle is rounded."""
    n = 2 * terms + 1
    near, u = t < math.pi / 4, math.pi / 2 - t
    first = np.where(near, np.sin(n * t) / np.sin(t), (-1) ** terms * np.cos(n * u) / np.cos(u))
    second = np.where(near, np.sin(2 * n * t) / np.sin(2 * t), np.sin(2 * n * u) / np.sin(2 * u))
    return first, second


def _root_up(square: Fraction) -> Fraction:
    """The root, rounded up to a multiple of 2^-60."""
    return Fraction(math.isqrt(math.ceil(square * 2**120)) + 1, 2**60)
