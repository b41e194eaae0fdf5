"""Numbers of nested groups that add up, against a dense solution in rationals that knows no tree, only which leaves each number is of."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from dpcore.query.adding_up import AddedUp, LeastSquares, Tree, nearest_non_negative
from dpcore.query.linear_widths import bound_widths, laws, width


def tree_of(rng, depth, most=3):
    """A tree of random shape."""
    sizes, parents = [int(rng.integers(1, 3))], []
    for _ in range(depth):
        children = rng.integers(1, most + 1, sizes[-1])
        parent = np.repeat(np.arange(sizes[-1]), children)
        rng.shuffle(parent)
        parents.append(parent.astype(np.int64))
        sizes.append(len(parent))
    return Tree(tuple(sizes), tuple(parents))


def membership(tree):
    """For each node, level by level, which leaves it has: rows of 0 and 1."""
    rows = [np.eye(tree.sizes[-1], dtype=int)]
    for level in range(len(tree.sizes) - 2, -1, -1):
        above = np.zeros((tree.sizes[level], tree.sizes[-1]), int)
        for child, parent in enumerate(tree.parents[level]):
            above[parent] += rows[0][child]
        rows.insert(0, above)
    return [[Fraction(int(each)) for each in row] for row in np.concatenate(rows)]


def solved(matrix, right):
    """Gauss, in rationals; `right` has several columns."""
    n = len(matrix)
    rows = [[*line, *more] for line, more in zip(matrix, right, strict=True)]
    for i in range(n):
        pivot = next(j for j in range(i, n) if rows[j][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [each / rows[i][i] for each in rows[i]]
        for j in range(n):
            if j != i and rows[j][i]:
                rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [row[n:] for row in rows]


def coefficients(tree, variances):
    """The matrix that makes estimates of released numbers: A (AᵀWA)⁻¹ AᵀW."""
    a = membership(tree)
    weights = [1 / Fraction(variance) for variance, size in zip(variances, tree.sizes, strict=True) for _ in range(size)]
    leaves = range(tree.sizes[-1])
    square = [[sum(w * row[i] * row[j] for w, row in zip(weights, a, strict=True)) for j in leaves] for i in leaves]
    inner = solved(square, [[w * row[i] for w, row in zip(weights, a, strict=True)] for i in leaves])
    return [[sum(row[i] * inner[i][k] for i in leaves) for k in range(len(a))] for row in a]


CASES = [(seed, depth) for seed in range(6) for depth in (1, 2, 3)]


@pytest.mark.parametrize(("seed", "depth"), CASES)
def test_estimates_and_variances_are_those_of_the_dense_solution(seed, depth):
    rng = np.random.default_rng(seed)
    tree = tree_of(rng, depth, 3 if depth < 3 else 2)
    variances = [Fraction(int(each), 4) for each in rng.integers(1, 40, depth + 1)]
    exact = coefficients(tree, variances)
    values = [rng.integers(-50, 50, (size, 2)).astype(float) for size in tree.sizes]
    flat = np.concatenate(values)
    wanted = np.array([[float(sum(a * Fraction(y) for a, y in zip(row, column, strict=True))) for column in flat.T] for row in exact])
    fit = LeastSquares.of(tree, [float(each) for each in variances])
    assert np.allclose(np.concatenate(fit.estimates(values)), wanted, rtol=1e-11, atol=1e-11)

    each = [variance for variance, size in zip(variances, tree.sizes, strict=True) for _ in range(size)]
    spread = [sum(a * a * v for a, v in zip(row, each, strict=True)) for row in exact]
    assert all(variance <= raw for variance, raw in zip(spread, each, strict=True)), "no cell is less exact than before"
    assert np.allclose(np.concatenate(fit.squares([float(each) for each in variances])), [float(s) for s in spread], rtol=1e-11)
    other = [Fraction(int(each)) for each in rng.integers(1, 9, depth + 1)]
    squares = [
        sum(a * a * v for a, v in zip(row, [s for s, size in zip(other, tree.sizes, strict=True) for _ in range(size)], strict=True))
        for row in exact
    ]
    assert np.allclose(np.concatenate(fit.squares([float(each) for each in other])), [float(s) for s in squares], rtol=1e-11)

    numbers, found = laws(fit)
    for node, (row, law) in enumerate(zip(exact, np.concatenate(numbers), strict=True)):
        levels = [level for level, size in enumerate(tree.sizes) for _ in range(size)]
        mine = Counter((level, round(abs(float(a)), 9)) for level, a in zip(levels, row, strict=True) if a)
        theirs = Counter()
        for (level, a), often in found[law].items():
            theirs[level, round(a, 9)] += often
        assert mine == theirs, node


def test_the_ratio_of_a_top_is_what_is_said_of_it():
    tree = Tree((1, 4), (np.zeros(4, np.int64),))
    fit = LeastSquares.of(tree, [2.0, 3.0])
    assert fit.squares([2.0, 3.0])[0][0] / 2.0 == pytest.approx(12 / (12 + 2))


def test_floats_add_up_in_any_order():
    rng = np.random.default_rng(5)
    tree = tree_of(rng, 3, 6)
    for size in (1e-300, 1e-3, 1.0, 1e17, 1e300):
        found = AddedUp.of_leaves(tree, rng.normal(0, size, (tree.sizes[-1], 1))).values()
        for level, parents in enumerate(tree.parents):
            for parent in range(tree.sizes[level]):
                children = found[level + 1][parents == parent, 0].tolist()
                assert sum(children) == sum(reversed(children)) == found[level][parent, 0]
    assert AddedUp.of_leaves(tree, np.zeros((tree.sizes[-1], 1))).values()[0].tolist() == [[0.0]] * tree.sizes[0]


@pytest.mark.parametrize("seed", range(12))
def test_whole_numbers_are_beside_their_own_and_add_up(seed):
    rng = np.random.default_rng(seed)
    tree = tree_of(rng, int(rng.integers(1, 4)), 5)
    leaves = rng.normal(0, [0.1, 3.0, 1e5, 1e16][seed % 4], (tree.sizes[-1], 2))
    leaves[rng.random(leaves.shape) < 0.3] = np.rint(leaves[0, 0])
    exact = AddedUp.of_leaves(tree, leaves)
    whole = exact.whole()
    for level, (number, found) in enumerate(zip(exact.values(), whole.values(), strict=True)):
        assert (np.abs(number - found) < 1).all() or np.abs(number).max() > 2**53
        assert (found == np.rint(found)).all()
        if level:
            assert (tree.sums(level - 1, found) == whole.values()[level - 1]).all()
    assert (np.abs(exact.values()[0] - whole.values()[0]) <= 0.5).all()
    not_negative = AddedUp.of_leaves(tree, np.abs(leaves)).whole()
    assert all((each >= 0).all() for each in not_negative.multiples)


def nearest_by_enumeration(tree, variances, values):
    """Of all sets of leaves that are 0: the best of those solutions that are not negative. For small trees."""
    a = np.array(membership(tree), float)
    weights = np.concatenate([np.full(size, 1 / v) for v, size in zip(variances, tree.sizes, strict=True)])
    best, at = np.inf, None
    for used in itertools.product((False, True), repeat=tree.sizes[-1]):
        mask = np.array(used)
        x = np.zeros(len(mask))
        if mask.any():
            part = a[:, mask]
            x[mask] = np.linalg.solve(part.T @ (weights[:, None] * part), part.T @ (weights * values))
        if (x >= 0).all():
            cost = float(weights @ (a @ x - values) ** 2)
            if cost < best:
                best, at = cost, a @ x
    return at


@pytest.mark.parametrize("seed", range(20))
def test_no_number_without_a_negative_one_is_nearer(seed):
    rng = np.random.default_rng(seed)
    while True:
        tree = tree_of(rng, int(rng.integers(1, 4)), 3)
        if tree.sizes[-1] <= 9:
            break
    variances = rng.uniform(0.5, 20, len(tree.sizes)).tolist()
    truth = tree_values(tree, np.where(rng.random(tree.sizes[-1]) < 0.5, 0.0, rng.uniform(0, 9, tree.sizes[-1])))
    released = [each + rng.normal(0, math.sqrt(v), len(each)) for each, v in zip(truth, variances, strict=True)]
    found = np.concatenate(nearest_non_negative(tree, variances, [each[:, None] for each in released]))[:, 0]
    assert np.allclose(found, nearest_by_enumeration(tree, variances, np.concatenate(released)), atol=1e-8)
    # The claim: over variances, no more squared error than the linear estimate has, and than what was released.
    weights = np.concatenate([np.full(size, 1 / v) for v, size in zip(variances, tree.sizes, strict=True)])
    linear = np.concatenate(LeastSquares.of(tree, variances).estimates([each[:, None] for each in released]))[:, 0]
    errors = [float(weights @ (each - np.concatenate(truth)) ** 2) for each in (found, linear, np.concatenate(released))]
    assert errors[0] <= errors[1] + 1e-9 <= errors[2] + 2e-9


def tree_values(tree, leaves):
    values = [leaves]
    for level in range(len(tree.sizes) - 2, -1, -1):
        values.insert(0, tree.sums(level, values[0]))
    return values


# Widths, against laws that are known.


@pytest.mark.parametrize("beta", [0.5, 0.05, 1e-3, 1e-6])
def test_widths_of_one_and_of_two_laplace_numbers(beta):
    one = width(beta, "laplace", Counter({(0, 0.5): 1}), [6.0])
    assert 3 * math.log(1 / beta) <= one <= 3 * math.log(1 / beta) * 1.02
    two = width(beta, "laplace", Counter({(0, 0.5): 2}), [6.0]) / 3
    assert math.exp(-two) * (1 + two / 2) <= beta <= math.exp(-two * 0.98) * (1 + two * 0.98 / 2)


@pytest.mark.parametrize("scale", [0.2, 0.7, 3.0, 40.0])
@pytest.mark.parametrize("beta", [0.05, 1e-4])
def test_widths_of_discrete_numbers_cover_and_are_hardly_too_wide(scale, beta):
    """Halves and quarters of discrete Laplace numbers: their sum is on a lattice, whose law is an exact convolution."""
    terms = Counter({(0, 0.5): 3, (1, 0.25): 2})
    scales = [scale, 2 * scale]
    reach = int(4 * scales[1] * 45) + 8
    law = np.ones(1)
    for (level, step), often in terms.items():
        k = np.arange(-reach, reach + 1)
        masses = np.exp(-np.abs(k) / scales[level])
        lattice = np.zeros(2 * reach * int(4 * step) + 1)
        lattice[:: int(4 * step)] = masses / masses.sum()
        for _ in range(often):
            law = np.convolve(law, lattice) if len(lattice) * len(law) < 1e7 else _convolved(law, lattice)
    points = (np.arange(len(law)) - len(law) // 2) / 4

    def outside(half):
        return float(law[np.abs(points) > half].sum())

    found = width(beta, "discrete_laplace", terms, scales)
    assert outside(found) <= beta * (1 + 1e-9)
    assert outside(found * 0.98 - 0.25) > beta, "no narrower interval by a step and two per cent does"
    squares = np.array([sum(often * (scales[level] * step) ** 2 for (level, step), often in terms.items())])
    bound = float(bound_widths(beta, squares, max(scales[level] * step for level, step in terms))[0])
    assert outside(bound) <= beta
    assert found <= bound


def _convolved(one, other):
    size = len(one) + len(other) - 1
    return np.maximum(np.fft.irfft(np.fft.rfft(one, size) * np.fft.rfft(other, size), size), 0.0)
