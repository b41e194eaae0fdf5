"""Randomised responses, composed by enumeration."""

from __future__ import annotations

import itertools

import mpmath

MP = mpmath.MPContext()
MP.dps = 80


def enumerated(epsilons, total):
    """δ₀(ε') of unequal randomised responses by all 2^k outcomes."""
    result = MP.mpf(0)
    for signs in itertools.product((1, -1), repeat=len(epsilons)):
        loss = MP.fsum(s * MP.mpf(e) for s, e in zip(signs, epsilons, strict=True))
        weight = MP.fprod(1 / (1 + MP.exp(-s * MP.mpf(e))) for s, e in zip(signs, epsilons, strict=True))
        if loss > total:
            result += weight * -MP.expm1(total - loss)
    return result
