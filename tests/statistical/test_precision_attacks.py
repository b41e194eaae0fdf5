"""Attacks on the low bits of released numbers: they find nothing on our Laplace noise, and the same code breaks NumPy's.

An attack is an event A that the low bits decide. ε-differential privacy demands P(A | x = 0) ≤ e^ε·P(A | x = 1) and the reverse; with
scale 1 and |x − x'| = 1, ε is 1. A violation is claimed where exact (Clopper-Pearson) bounds at error rate 10^-6 exclude the inequality.
Sources: Mironov (CCS 2012), "On significance of the least significant bits for differential privacy"; Haney, Desfontaines, Hartman,
Shrestha & Hay (2022), "Precision-based attacks and interval refining".
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from support.kernels import Array, Law

ERROR_RATE = 1e-6
EPSILON = 1.0
Sampler = Callable[[Array, int], Array]


def ours(values: Array, call: int) -> Array:
    return Law("laplace", 1.0).add(values, nonce=call)  # type: ignore[no-any-return]


def ours_finest(values: Array, call: int) -> Array:
    return Law("laplace", 1.0, 2.0**-40).add(values, nonce=call)  # type: ignore[no-any-return]


def numpys(values: Array, call: int) -> Array:
    return values + np.random.default_rng(call).laplace(0.0, 1.0, values.shape)


def violates(hits: int, other_hits: int, n: int, epsilon: float = EPSILON, tests: int = 1) -> bool:
    """Whether P(A) > e^ε·P'(A) is certain, A having been seen `hits` and `other_hits` times in n releases each."""
    rate = ERROR_RATE / (2 * tests)
    low = stats.beta.ppf(rate, hits, n - hits + 1) if hits else 0.0
    high = stats.beta.isf(rate, other_hits + 1, n - other_hits) if other_hits < n else 1.0
    return bool(low > math.exp(epsilon) * high)


# Outputs reachable from one input and not from the other


def reachable(y: float, x: float) -> bool:
    """Whether a Laplace sampler that inverts a uniform of 53 bits in floats can release y from x: some v·2^-52 has x ∓ ln(v) = y."""
    w = y - x
    middle = round(math.exp(-abs(w)) * 2**52)
    sign = math.copysign(1.0, w)
    return any(x + sign * -math.log(v * 2.0**-52) == y for v in range(max(1, middle - 4), middle + 5))


def reachable_hits(sample: Sampler, n: int) -> dict[str, tuple[int, int]]:
    """Hits, from x = 0 and from x = 1, of: only 0 reaches the output; only 1 does; neither does."""
    hits = {"only 0": [0, 0], "only 1": [0, 0], "neither": [0, 0]}
    for x in (0, 1):
        for y in sample(np.full(n, float(x)), x).tolist():
            from_0, from_1 = reachable(y, 0.0), reachable(y, 1.0)
            if from_0 != from_1:
                hits["only 0" if from_0 else "only 1"][x] += 1
            elif not from_0:
                hits["neither"][x] += 1
    return {event: (a, b) for event, (a, b) in hits.items()}


def reachable_attack(sample: Sampler, n: int = 40_000) -> list[str]:
    """Events of the attack that prove a violation."""
    hits = reachable_hits(sample, n)
    return [event for event, (a, b) in hits.items() if violates(a, b, n, tests=3) or violates(b, a, n, tests=3)]


@pytest.mark.parametrize("sample", [ours, ours_finest])
def test_reachable_outputs_tell_nothing_of_ours(sample: Sampler) -> None:
    assert reachable_attack(sample) == []


def test_reachable_outputs_give_numpy_away() -> None:
    found = reachable_attack(numpys)
    assert "only 0" in found
    assert "only 1" in found


# Trailing zeros

THRESHOLDS = 75
REGION = (0.25, 0.5)
"""Between the two inputs: from x = 1 NumPy's sum x + w is a multiple of 2^-53 there, from x = 0 of 2^-54 only."""


def multiples(y: Array) -> list[int]:
    """How many of the numbers are multiples of 2^-t, for t = 0 … 74: outputs with at least so many trailing zeros."""
    return [int(np.count_nonzero(np.ldexp(y, t) == np.rint(np.ldexp(y, t)))) for t in range(THRESHOLDS)]


def trailing_zero_attack(sample: Sampler, n: int = 10**6) -> list[int]:
    """Thresholds at which the low bits of outputs inside the region prove a violation; both events, both directions."""
    counts, sizes = [], []
    for x in (0, 1):
        y = sample(np.full(n, float(x)), 10 + x)
        y = y[(y >= REGION[0]) & (y < REGION[1])]
        counts.append(multiples(y))
        sizes.append(len(y))
    found = []
    for t in range(THRESHOLDS):
        a, b = counts[0][t], counts[1][t]
        pairs = [(a, b), (b, a), (sizes[0] - a, sizes[1] - b), (sizes[1] - b, sizes[0] - a)]
        if any(violates(p, q, n, tests=4 * THRESHOLDS) for p, q in pairs):
            found.append(t)
    return found


@pytest.mark.parametrize("sample", [ours, ours_finest])
def test_trailing_zeros_tell_nothing_of_ours(sample: Sampler) -> None:
    assert trailing_zero_attack(sample) == []


def test_trailing_zeros_give_numpy_away() -> None:
    assert 53 in trailing_zero_attack(numpys)


@pytest.mark.parametrize(("scale", "grid"), [(1.0, None), (1.0, 2.0**-40), (0.37, None), (1000.0, 1.0)])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_trailing_zeros_have_the_same_law_from_every_input(kind: str, scale: float, grid: float | None) -> None:
    """Sharper than privacy asks: how many low bits of output/grid are zero does not depend on the low bits of the input at all."""
    n, law = 4 * 10**5, Law(kind, scale, grid)
    step = grid or 2.0 ** (math.floor(math.log2(scale)) - 25)
    for x in (0.0, 1.0, 1 / 3, 1e-9, 5e-324, 1234.5678):  # below 2^52 steps, where floats still hold every multiple of the grid
        units = law.add(np.full(n, x), nonce=3) / step
        assert np.array_equal(units, np.rint(units))
        low_bits = np.mod(units, 16).astype(np.int64)  # uniform, as the noise spans many times sixteen steps
        assert stats.chisquare(np.bincount(low_bits, minlength=16)).pvalue > ERROR_RATE
    twin = np.random.default_rng(1).laplace(1.0, scale, n) / math.ulp(1.0)
    assert stats.chisquare(np.bincount(np.mod(twin, 16).astype(np.int64), minlength=16)).pvalue <= ERROR_RATE
