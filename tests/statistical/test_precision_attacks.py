"""Attacks on the low bits of released numbers: they find nothing here, and the same code finds NumPy's leak."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from support.kernels import KEY, Array

from dpcore import noise
from dpcore.testing import KeyedRandom

N = 200_000
ERROR_RATE = 1e-6
Release = Callable[[float], Array]


def ours(x: float) -> Array:
    return noise.laplace(np.full(N, x), 1.0, rng=KeyedRandom(KEY).at(int(x * 8)))


def ours_gaussian(x: float) -> Array:
    return noise.gaussian(np.full(N, x), 1.0, rng=KeyedRandom(KEY).at(100 + int(x * 8)))


def numpys(x: float) -> Array:
    return x + np.random.default_rng(int(x * 8)).laplace(size=N)


def grid_of(outputs: Array) -> float:
    """The coarsest power of two that divides all outputs."""
    exponent = 60
    while exponent > -1100 and (np.mod(outputs, 2.0**exponent) != 0).any():
        exponent -= 1
    return 2.0**exponent


def trailing_zeros(outputs: Array) -> Array:
    """Trailing zero bits of each output as a fixed-point number with 75 bits after the point; 75 if there is none."""
    mantissas, exponents = np.frexp(outputs)
    integers = np.abs(mantissas * 2.0**53).astype(np.int64)
    low = np.where(integers == 0, 1, integers & -integers)
    return np.clip(np.log2(low.astype(float)).astype(int) + exponents - 53 + 75, 0, 75)


def trailing_zero_leak(release: Release, x0: float, x1: float) -> bool:
    """Whether the number of trailing zeros tells x0 from x1 at one of 75 thresholds, at error rate 1e-6 in all."""
    a, b = trailing_zeros(release(x0)), trailing_zeros(release(x1))
    for threshold in range(1, 76):
        table = np.array([[(a >= threshold).sum(), (a < threshold).sum()], [(b >= threshold).sum(), (b < threshold).sum()]])
        if (table.sum(axis=0) == 0).any():
            continue
        if stats.fisher_exact(table).pvalue < ERROR_RATE / 75:
            return True
    return False


@pytest.mark.parametrize("release", [ours, ours_gaussian])
def test_outputs_reachable_from_neighbours_are_the_same_grid(release: Release) -> None:
    # 0.1 has bits down to 2^-56: none of them may show
    grids = {grid_of(release(x)) for x in (0.0, 1.0, 0.1, 1 / 3)}
    assert grids == {noise.default_grid(1.0)}


def test_numpys_outputs_are_not_on_one_grid() -> None:
    assert grid_of(numpys(0.0)) < grid_of(numpys(1024.0))


@pytest.mark.parametrize("release", [ours, ours_gaussian])
@pytest.mark.parametrize("neighbours", [(0.0, 1.0), (0.0, 0.1), (1.0, 1024.0)])
def test_trailing_zeros_tell_nothing(release: Release, neighbours: tuple[float, float]) -> None:
    assert not trailing_zero_leak(release, *neighbours)


@pytest.mark.parametrize("neighbours", [(0.0, 1.0), (1.0, 1024.0)])
def test_trailing_zeros_give_numpy_away(neighbours: tuple[float, float]) -> None:
    assert trailing_zero_leak(numpys, *neighbours)


def test_smallest_outputs_are_as_likely_from_both() -> None:
    # Mironov's attack: which doubles near x can be reached at all. Near x, ours reaches every multiple of the grid, from 0 as from 1.
    grid = noise.default_grid(1.0)
    near_zero, near_one = ours(0.0) / grid, (ours(1.0) - 1.0) / grid
    assert np.array_equal(near_zero, np.rint(near_zero))
    assert np.array_equal(near_one, np.rint(near_one))
    for modulus in (2, 3, 8, 64):
        a, b = (np.bincount(np.mod(v, modulus).astype(int), minlength=modulus) for v in (near_zero, near_one))
        assert stats.chi2_contingency(np.array([a, b])).pvalue > ERROR_RATE
