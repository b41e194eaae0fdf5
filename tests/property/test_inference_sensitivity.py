"""The sensitivities that inference relies on hold for the numbers it computes, in integer arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpcore.inference import _gram
from dpcore.inference._parameters import l2_of_equal
from dpcore.sums import ExactSum, clipped_sum, grid_of

K = _gram.RADIUS


def slow_products(x, y, x_radius, y_radius):
    """Products of Python integers, row by row: X'X, X'y and y'y."""
    d = x.shape[1]
    gram, cross, square = np.zeros((d, d), object), np.zeros(d, object), 0
    for i in range(len(x)):
        row = [int(v) for v in _gram._rows(x[i : i + 1], x_radius, 0)[0]]
        response = int(_gram._responses(y[i : i + 1], y_radius, 0)[0])
        gram += np.array([[a * b for b in row] for a in row], object)
        cross += np.array([a * response for a in row], object)
        square += response**2
    return gram, cross, square


def products(x, y, x_radius, y_radius):
    """The upper triangle of X'X, X'y and y'y as lists of integers."""
    d = x.shape[1]
    integers = list(_gram.cross_products(x, y, x_radius, y_radius).integers)
    return integers[: -d - 1], integers[-d - 1 : -1], integers[-1]


def awkward_rows(random, n, d, radius):
    """Rows of every length, sparse and dense ones, and some that are on the sphere or far outside."""
    rows = random.standard_normal((n, d)) * (random.random((n, d)) < random.choice([0.3, 1.0]))
    norms = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    sizes = random.choice([0.0, 1e-30, 0.3, 1 - 1e-9, 1.0, 1 + 1e-9, 7.0, 1e200], (n, 1))
    with np.errstate(over="ignore"):
        rows = rows / norms * sizes * radius
    rows[random.random(n) < 0.1] = random.choice([np.inf, -np.inf, 1e308, radius], d)
    return rows


@pytest.mark.some(2)
@pytest.mark.parametrize("d", [1, 2, 3, 7, 20, 300])
def test_rows_stay_in_the_ball(d):
    random = np.random.default_rng(d)
    for radius in (1.0, 2.0**-400, 3e100):
        rows = awkward_rows(random, 3000, d, radius)
        whole = _gram._rows(rows, radius, 0)
        squares = [sum(int(v) ** 2 for v in row) for row in whole.tolist()]
        assert max(squares) <= K**2
        assert max(squares) > 0.999 * K**2
        with np.errstate(over="ignore"):
            inside = np.linalg.norm(rows / radius, axis=1) < 0.99
        assert np.abs(whole[inside] - rows[inside] / radius * K).max() <= 0.5 + 1e-6  # no more than rounding
        assert np.array_equal(_gram._rows(rows[::-1], radius, 0), whole[::-1])


def test_a_row_that_would_be_too_long_is_dropped(monkeypatch):
    """The check behind the proof: with room beyond the ball, rows on the sphere leave it, and become zero."""
    monkeypatch.setattr(_gram.math, "sqrt", lambda _: -10.0)  # room = K + 4
    rows = np.random.default_rng(1).standard_normal((100, 3))
    assert not _gram._rows(rows, 0.01, 0).any()


@pytest.mark.parametrize(("n", "d"), [(1, 1), (50, 3), (200, 12)])
def test_products_are_exact(n, d):
    random = np.random.default_rng(n)
    x, y = awkward_rows(random, n, d, 2.0), random.standard_normal(n) * 3
    gram, cross, square = products(x, y, 2.0, 1.5)
    slow = slow_products(x, y, 2.0, 1.5)
    assert gram == slow[0][np.triu_indices(d)].tolist()
    assert cross == slow[1].tolist()
    assert square == slow[2]


@pytest.mark.parametrize("blocks", [1, 520])
def test_blocks_of_extreme_rows_do_not_round(blocks):
    """Every product is 2^40 or nearly; with more than 512 blocks of 8192 rows all carries occur."""
    n = _gram.BLOCK * blocks + 17
    y = np.broadcast_to(np.array([5.0]), (n,))
    x = np.broadcast_to(np.array([[0.7, -1e9]]), (n, 2))
    gram, cross, square = products(x, y, 1.0, 1.0)
    a, b = (int(v) for v in _gram._rows(x[:1], 1.0, 0)[0])
    assert gram == [n * a * a, n * a * b, n * b * b]
    assert cross == [n * a * K, n * b * K]
    assert square == n * K**2
    assert b == -(K - 2)  # room for √2/2 of rounding and a step


@pytest.mark.long
def test_products_of_many_columns():
    """More columns than rows of a block: blocks are smaller, and sums the same."""
    random = np.random.default_rng(6)
    x, y = random.integers(-3, 4, (700, 900)).astype(np.float64), random.integers(-1, 2, 700)
    whole = _gram._rows(x, 1.0, 0).astype(np.int64)
    gram, cross, square = products(x, y, 1.0, 1.0)
    assert gram == (whole.T @ whole)[np.triu_indices(900)].tolist()
    assert cross == (whole.T @ (y * K)).tolist()
    assert square == int((y * y).sum()) * K**2


@pytest.mark.long
def test_neighbouring_tables_move_the_products_by_at_most_their_sensitivity():
    random, largest = np.random.default_rng(5), [0.0, 0.0, 0.0]
    for case in range(4000):
        d = int(random.integers(1, 6))
        x, y = awkward_rows(random, 3, d, 1.0), random.choice([-9.0, -1.0, 0.3, 1.0], 3)
        other, response = x.copy(), y.copy()
        other[case % 3], response[case % 3] = awkward_rows(random, 1, d, 1.0)[0], random.choice([-1.0, 0.0, 1.0])
        if case % 4 == 0:
            other[case % 3], response[case % 3] = -x[case % 3], y[case % 3]
        first, second = products(x, y, 1.0, 1.0), products(other, response, 1.0, 1.0)
        moved = *(sum((v - w) ** 2 for v, w in zip(first[i], second[i], strict=True)) for i in (0, 1)), (first[2] - second[2]) ** 2
        for i, (square, limit) in enumerate(zip(moved, (2 * K**4, 4 * K**4, K**4), strict=True)):
            assert square <= limit
            largest[i] = max(largest[i], square / limit)
    assert min(largest) > 0.99  # each bound is nearly attained


@pytest.mark.some(3)
@pytest.mark.parametrize("n", [1, 7, 9, 1000, 10**6, 2**40 + 1, 2**50])
def test_rounded_sums_keep_their_sensitivity(n):
    """Two neighbouring sums anywhere between the extremes, by integers; rounding to the nearest floats does move them apart."""
    random, radius = np.random.default_rng(n % 1000), 1.37
    grid = grid_of(radius)
    most = math.floor(radius / grid)
    worst = float_worst = Fraction(0)
    for scale in (0, 1, 3, 20, 50):
        ends = [int(Fraction(u) * n * most) >> scale for u in random.uniform(-1, 1, 400).tolist()]
        others = [min(max(t + random.choice([-2, 2]).item() * most, -n * most), n * most) for t in ends]
        first, second = (of_integers(t, grid, n, most) for t in (ends, others))
        (a, sensitivity), (b, _) = first.rounded(), second.rounded()
        coarse = max(Fraction(grid), Fraction(2) ** ((n * most).bit_length() - 53) * Fraction(grid))
        assert Fraction(2 * radius) - 2 * Fraction(grid) <= sensitivity < Fraction(2 * radius) + coarse
        for t, value in zip(ends, a.tolist(), strict=True):
            assert Fraction(value) == math.floor(t * Fraction(grid) / coarse + Fraction(1, 2)) * coarse
        for u, v, p, q in zip(a.tolist(), b.tolist(), first.high.tolist(), second.high.tolist(), strict=True):
            moved = max(abs(Fraction(u) - Fraction(v)), abs(abs(Fraction(u)) - abs(Fraction(v))))
            worst = max(worst, moved / Fraction(sensitivity))
            float_worst = max(float_worst, abs(Fraction(p) - Fraction(q)) / Fraction(first.sensitivity()))
    assert worst <= 1
    assert n < 9 or float_worst > 1


def of_integers(integers, grid, n, most):
    """An exact sum that is a given tuple of integers."""
    high = np.array([float(t) for t in integers])
    low = np.array([float(t - int(h)) for t, h in zip(integers, high.tolist(), strict=True)])
    return ExactSum(high * grid, low * grid, grid, n, -most * grid, most * grid)


def test_rounded_without_records_and_of_one_column():
    assert clipped_sum([], 1.5).rounded() == (0.0, 3.0)
    assert clipped_sum([1.25, 9.0], 1.5).rounded() == (2.75, 3.0)


@pytest.mark.parametrize("bound", [1.0, 3.7, 2.0**-900, 2.0**900])
def test_the_l2_sensitivity_is_rounded_up_and_no_further(bound):
    for d in (1, 2, 3, 4, 10, 999, 10**6):
        found = l2_of_equal(bound, d)
        assert Fraction(found) ** 2 >= Fraction(bound) ** 2 * d > Fraction(math.nextafter(found, 0.0)) ** 2
