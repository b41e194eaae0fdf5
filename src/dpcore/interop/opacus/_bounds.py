"""How far arithmetic in float32 moves the ℓ2 sensitivity of a sum of clipped gradients. The proof is in docs/interop/opacus.md."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from dpcore._exact.intervals import fraction_up

ROUNDOFF = Fraction(1, 2**24)
"""Largest relative error of one operation in float32."""
ROWS = 64
"""Gradients that are added in any order; the sums of so many are added in pairs."""
COLUMNS = 4096
"""Numbers of one gradient whose squares are added in float32; the sums of so many are added in float64."""
RADII = (2.0**-30, 2.0**100)
"""Range of a clipping bound: within it, what underflows is below the last term of the bound, and no sum overflows."""
MAX_PARAMETERS, MAX_SAMPLES = 2**33, 2**24
TAIL_BITS = 64
"""A Poisson batch is larger than its declared limit with probability at most 2^-64."""


@lru_cache(maxsize=256)
def inflation(parameters: int, samples: int) -> Fraction:
    """The factor F of docs/interop/opacus.md: the sums of neighbours differ by at most F times the clipping bound."""
    norm = (1 + (COLUMNS // 2 + 4) * ROUNDOFF) * (1 + Fraction(parameters + 4, 2**53))
    terms = roundings(samples) * ROUNDOFF
    addition = 1 + 2 * samples * terms / (1 - terms)
    underflow = 1 + Fraction(1, 2**28)
    return norm * addition * underflow


def roundings(samples: int) -> int:
    """Through how many roundings a term of the sum goes: 64 in its block, those of the pairs, and two for the batches of a step."""
    return ROWS + (-(-samples // ROWS) - 1).bit_length() + 2


def samples_limit(expected: float, accumulated: int) -> int:
    """A public number of samples that a step does not exceed: certainly for batches of that size, but for 2^-64 if they are Poisson.

    Bernstein: P(X ≥ m + t) ≤ exp(−t²/(2m + 2t/3)) for a sum X of independent indicators with mean m.
    """
    mean, rate = expected + 1, TAIL_BITS * math.log(2)  # Opacus rounds the expectation down
    limit = mean + rate / 3 + math.sqrt(rate * rate / 9 + 2 * mean * rate)
    return min(MAX_SAMPLES, accumulated * math.ceil(limit))


def root_up(square: Fraction) -> float:
    """The smallest float64 that is not below the root of `square`, or the next one."""
    shift = max(0, 128 - (square.numerator.bit_length() - square.denominator.bit_length()))
    shift += shift % 2
    scaled = math.isqrt(math.ceil(square * 2**shift)) + 1
    return fraction_up(Fraction(scaled, 2 ** (shift // 2)))
