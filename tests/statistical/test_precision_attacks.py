"""Attacks on the low bits of released numbers: they find nothing on our Laplace noise, and the same code breaks NumPy's.

An attack is an event A that the low bits decide. ε-differential privacy demands P(A | x = 0) ≤ e^ε·P(A | x = 1) and the reverse; with
scale 1 and |x − x'| = 1, ε is 1. `dpcore.audit.lower_bound` counts the events and claims a violation where exact bounds at error rate 10^-6
exclude the inequality. Sources: Mironov (2012); Haney et al. (2022).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpcore import Privacy, noise
from dpcore.audit import AuditResult, audit
from dpcore.testing import KeyedRandom
from support.broken import Run, numpys_laplace
from support.kernels import KEY, Array, Law

ERROR_RATE = 1e-6
INPUTS = ((0.0, 1.0), (1.0, 0.0), (1 / 3, 4 / 3), (0.0, 1.0 - 2.0**-30), (1234.5, 1234.5 + 1 / 3))


def ours(grid: float | None) -> Run:
    def run(x: float, size: int, rng: Any) -> Array:
        return noise.laplace(np.full(size, x), 1.0, grid=grid, rng=rng)

    return run


OURS = pytest.mark.parametrize("run", [ours(None), ours(2.0**-40)], ids=["default grid", "finest grid"])


def attack(run: Run, events: Any, n: int, x0: float = 0.0, x1: float = 1.0) -> AuditResult:
    return audit(run, x0, x1, privacy=Privacy(1.0), events=events, runs=n, confidence=1 - ERROR_RATE, rng=KeyedRandom(KEY))


# All low bits that an audit knows: outputs reachable from one input and not from the other, trailing zeros at every threshold and binade


@pytest.mark.some(2)
@OURS
@pytest.mark.parametrize(("x0", "x1"), INPUTS)
def test_low_bits_tell_nothing_of_ours(run, x0, x1):
    assert attack(run, ["low_bits"], 200_000, x0, x1).refuted is False


@pytest.mark.some(3)
@pytest.mark.parametrize(("x0", "x1"), INPUTS[:-1])  # near 1234 sums are multiples of 2^-42, which noise of scale 1 reaches all
def test_low_bits_give_numpy_away(x0, x1):
    assert attack(numpys_laplace, ["low_bits"], 200_000, x0, x1).epsilon_lower > 3


# Outputs reachable from one input and not from the other, one by one


def reachable(y: float, x: float) -> bool:
    """Whether a Laplace sampler that inverts a uniform of 53 bits in floats can release y from x: some v·2^-52 has x ∓ ln(v) = y."""
    w = y - x
    middle = round(math.exp(-abs(w)) * 2**52)
    sign = math.copysign(1.0, w)
    return any(x + sign * -math.log(v * 2.0**-52) == y for v in range(max(1, middle - 4), middle + 5))


def reachability(outputs: Array) -> Array:
    """2·(reachable from 0) + (reachable from 1)."""
    return np.array([2 * reachable(y, 0.0) + reachable(y, 1.0) for y in outputs.tolist()])


@pytest.mark.long
@OURS
def test_reachable_outputs_tell_nothing_of_ours(run):
    assert attack(run, [reachability], 40_000).refuted is False


@pytest.mark.long
def test_reachable_outputs_give_numpy_away():
    found = attack(numpys_laplace, [reachability], 40_000)
    assert found.epsilon_lower > 1.5


# Trailing zeros between the two inputs

REGION = (0.25, 0.5)
"""Between the two inputs: from x = 1 NumPy's sum x + w is a multiple of 2^-53 there, from x = 0 of 2^-54 only."""


def multiples(t: int) -> Callable[[Array], Array]:
    """Whether numbers of the region are multiples of 2^-t, that is have at least so many trailing zeros; 2 outside of the region."""

    def event(y: Array) -> Array:
        scaled = np.ldexp(y, t)
        return np.where((y >= REGION[0]) & (y < REGION[1]), scaled == np.rint(scaled), 2)

    return event


THRESHOLDS = [multiples(t) for t in range(75)]


@pytest.mark.long
@OURS
def test_trailing_zeros_tell_nothing_of_ours(run):
    assert attack(run, THRESHOLDS, 400_000).refuted is False


@pytest.mark.long
def test_trailing_zeros_give_numpy_away():
    found = attack(numpys_laplace, [multiples(53)], 400_000)
    assert found.likelier == "x0"
    assert found.epsilon_lower > 3
    assert attack(numpys_laplace, THRESHOLDS, 400_000).refuted is True


@pytest.mark.some(2)
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
