"""One record never moves an exact sum by more than its declared sensitivity, in rational arithmetic; it does so to a sum of floats."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.sums import clamped_sum, clipped_sum, grid_of
from support.sums import awkward_values, half_ulps, sequential_sum, slow_integers

BOUNDS = ((-1.0, 1.0), (-1.75, 1.75), (0.0, 50.0), (-0.3, 1e6), (3.0, 3.5), (-(2.0**-900), 2.0**-900), (-1e250, 1e251))
PAIRS = 100_000
DTYPES = (np.float64, np.float64, np.float64, np.float32, np.float16)
LAYOUTS = (
    np.asarray,
    np.asfortranarray,
    lambda x: x[::-1],
    lambda x: np.repeat(x, 2, axis=0)[::2],
    lambda x: np.repeat(x, 2, axis=1)[:, ::2],
)


def value_of(total) -> Fraction:
    """A sum as a fraction, from its two parts."""
    return Fraction(total.high) + Fraction(total.low)


@pytest.mark.long
def test_a_hundred_thousand_neighbouring_pairs_of_columns():
    """Each column is a data set; its neighbour has one record replaced, all of them in another order and memory layout."""
    random, columns, done, largest = np.random.default_rng(1), 1000, 0, dict.fromkeys(BOUNDS, Fraction(0))
    while done < PAIRS:
        bounds = BOUNDS[done // columns % len(BOUNDS)]
        grid, rows = grid_of(max(map(abs, bounds))), int(random.integers(1, 40))
        x = awkward_values(random, (rows, columns), *bounds, grid)
        other = x.copy()
        place = random.integers(0, rows, columns)
        other[place, np.arange(columns)] = np.choose(
            random.integers(0, 3, columns),
            [awkward_values(random, columns, *bounds, grid), np.full(columns, -np.inf), np.full(columns, np.inf)],
        )
        other = other[random.permutation(rows)]
        dtype, layout = DTYPES[int(random.integers(len(DTYPES)))], LAYOUTS[int(random.integers(len(LAYOUTS)))]
        with np.errstate(over="ignore"):
            x, other = x.astype(dtype), layout(other.astype(dtype))
        first, second = clamped_sum(x, *bounds), clamped_sum(other, *bounds, threads=3)
        cut = int(random.integers(0, rows + 1))
        assert clamped_sum(other[:cut], *bounds) + clamped_sum(other[cut:], *bounds) == second
        moved = max(abs(a - b) for a, b in zip(first.integers, second.integers, strict=True)) * Fraction(grid)
        assert moved <= Fraction(first.sensitivity()) == Fraction(first.upper) - Fraction(first.lower)
        largest[bounds] = max(largest[bounds], moved / Fraction(first.sensitivity()))
        done += columns
    assert set(largest.values()) == {1}  # the declared sensitivity is attained


@pytest.mark.long
def test_twenty_thousand_neighbouring_pairs_of_one_column():
    random = np.random.default_rng(2)
    for case in range(PAIRS // 5):
        bounds = BOUNDS[case % len(BOUNDS)]
        grid, n = grid_of(max(map(abs, bounds))), int(random.integers(1, 30))
        x = awkward_values(random, n, *bounds, grid)
        other, first = random.permutation(x), clamped_sum(x, *bounds)
        assert clamped_sum(other, *bounds) == first
        other[random.integers(0, n)] = awkward_values(random, 1, *bounds, grid)[0]
        assert abs(value_of(clamped_sum(other, *bounds)) - value_of(first)) <= Fraction(first.sensitivity())
        assert abs(value_of(clamped_sum(other[1:], *bounds)) - value_of(clamped_sum(other, *bounds))) <= Fraction(
            first.sensitivity("add_remove")
        )


@pytest.mark.parametrize("n", [10, 1000, 100_000])
def test_a_sum_of_floats_exceeds_its_formula(n):
    """Casacuberta et al. (2022): [0, v, v, …] and [1, v, v, …] are neighbours; float sums of them differ by more than upper − lower = 1."""
    x = half_ulps(n)
    neighbour = x.copy()
    neighbour[0] = 1.0
    moved = Fraction(sequential_sum(neighbour, 0.0, 1.0)) - Fraction(sequential_sum(x, 0.0, 1.0))
    assert moved > 1
    assert moved - 1 > n * Fraction(2) ** -54
    exact = [clamped_sum(data, 0.0, 1.0) for data in (x, neighbour)]
    assert value_of(exact[1]) - value_of(exact[0]) == 1 == Fraction(exact[0].sensitivity())


def test_a_sum_of_floats_depends_on_the_order():
    x = np.random.default_rng(3).standard_normal(1000)
    shuffled = np.random.default_rng(4).permutation(x)
    assert sequential_sum(x, -1, 1) != sequential_sum(shuffled, -1, 1)
    assert clipped_sum(x, 1.0) == clipped_sum(shuffled, 1.0)


@given(st.lists(st.floats(allow_nan=False), max_size=20), st.floats(2.0**-900, 2.0**900), st.data())
def test_any_floats(values, radius, data):
    total = clipped_sum(values, radius)
    assert total.integers == slow_integers(np.array(values), total.lower, total.upper, total.grid)
    assert total.high == float(value_of(total)) or values == []
    assert clipped_sum(data.draw(st.permutations(values)), radius) == total
    cut = data.draw(st.integers(0, len(values)))
    assert clipped_sum(values[:cut], radius) + clipped_sum(values[cut:], radius) == total
    clipped = sum(Fraction(min(max(value, -radius), radius)) for value in values)
    # Each value is rounded by at most half a step, or by less than one where the radius itself was rounded down.
    assert abs(value_of(total) - clipped) <= len(values) * Fraction(total.grid)
