"""Bounds that are found privately: exact sums between them, and no more loss than declared, on all neighbours of tiny tables."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dpcore.batch.release.answers import PrivateMeanAnswer
from dpcore.batch.release.cells import OnGrid, Reals
from dpcore.batch.release.found_bounds import BoundedNumber, BoundedQuantiles, octave_steps, rest_epsilon
from dpcore.batch.release.kinds import kind_of
from dpcore.batch.release.moments import MomentAnswer
from dpcore.batch.release.octaves import EDGES, OCTAVES, WIDEST, Octaves, grid_between, octave_grid, rounded_bounds, steps_of
from dpcore.batch.release.queries import MeanQuery, MedianQuery, QuantileQuery, SpreadQuery, SumQuery
from dpcore.batch.release.sensitivity import Contribution
from support.losses import largest_loss

EPSILON, FOR_BOUNDS = 0.7, 0.2
ZERO = OCTAVES
"""Place of 0 among the ends of bins."""
UNITS = [
    Contribution(1, replaced=True, n_is_public=True),
    Contribution(1, replaced=False, n_is_public=False),
    Contribution(1, replaced=True, n_is_public=False),
    Contribution(2, replaced=True, n_is_public=False),
    Contribution(2, replaced=False, n_is_public=False),
]
VALUES = (-5.0, 0.0, 0.3, 1.0, 6.0)
ENDS = [(ZERO, place_of) for place_of in (ZERO + 33, ZERO + 35)] + [(ZERO - 36, ZERO + 36), (ZERO - 36, ZERO - 33), (ZERO + 33, ZERO + 34)]
"""[0, 1], [0, 4], [−8, 8], [−8, −1] and [1, 2]."""
EVERY = [*VALUES, math.inf, -math.inf, -0.0, 5e-324, -1e-300, 2.0**-32, -(2.0**-32), 2.0**64, 1e300, math.pi, 2.0**53 + 2, 1 / 3]


def answer_of(kind, bound, epsilon=EPSILON, bounds_epsilon=FOR_BOUNDS, **keys):
    head = {"name": "m", "kind": kind, "column": "x", "epsilon": epsilon, "bounds": "private", "bounds_epsilon": bounds_epsilon, **keys}
    relation = "replace" if bound.replaced else "add_remove"
    if kind in {"median", "quantile"}:
        section = (MedianQuery if kind == "median" else QuantileQuery)(**head)
        return BoundedQuantiles.made(kind_of(section), section, OnGrid.of(section.grid, 0.0), bound, relation)
    section = {"sum": SumQuery, "mean": MeanQuery, "var": SpreadQuery}[kind](**head)
    return BoundedNumber.made(kind_of(section), section, (("x", Reals(WIDEST, 0.0)),), bound, relation)


def test_ends_of_the_tests_are_what_they_say():
    assert [(EDGES[low], EDGES[high]) for low, high in ENDS] == [(0, 1), (0, 4), (-8, 8), (-8, -1), (1, 2)]
    assert len(EDGES) == 195
    assert list(EDGES) == sorted(EDGES)


@pytest.mark.parametrize("bits", [31, 53])
def test_a_number_is_in_a_step_of_its_own_bin(bits):
    numbers = np.array([*EVERY, *(np.random.default_rng(1).standard_cauchy(2000) * 10)])
    codes, steps = steps_of(numbers, bits)
    for number, code, step in zip(numbers.tolist(), codes.tolist(), steps.tolist(), strict=True):
        clamped = min(max(number, WIDEST[0]), WIDEST[1])
        octave = code - OCTAVES if code >= OCTAVES else OCTAVES - 1 - code
        near = (1 if code >= OCTAVES else -1) * Fraction(step) * Fraction(2) ** (octave - 32 - bits)
        assert EDGES[code] <= clamped <= EDGES[code + 1]
        assert EDGES[code] <= near <= EDGES[code + 1]
        assert abs(near - Fraction(clamped)) <= max(abs(Fraction(clamped)), Fraction(2) ** -32) / 2**bits
        if bits == 53 and abs(number) >= 2.0**-32:
            assert near == Fraction(clamped)


@pytest.mark.parametrize("squares", [False, True])
def test_sums_between_any_ends_are_those_of_clamped_numbers(squares):
    rng = np.random.default_rng(2)
    numbers = np.concatenate([EVERY, rng.normal(0, 10, 500), rng.integers(-100, 100, 500)])
    whole = Octaves.of(numbers, squares=squares)
    assert Octaves.of(numbers[:7], squares=squares) + Octaves.of(numbers[7:], squares=squares) == whole
    bits = 31 if squares else 53
    codes, steps = steps_of(numbers, bits)
    octaves = np.where(codes >= OCTAVES, codes - OCTAVES, OCTAVES - 1 - codes)
    signs = np.where(codes >= OCTAVES, 1, -1)
    exact = [int(s) * Fraction(k) * Fraction(2) ** (int(o) - 32 - bits) for s, k, o in zip(signs, steps, octaves, strict=True)]
    for low, high in [*ENDS, (0, len(EDGES) - 1), (ZERO, ZERO + 1), (3, 190)]:
        lower, upper = Fraction(EDGES[low]), Fraction(EDGES[high])
        clamped = [min(max(each, lower), upper) for each in exact]
        moments, step = whole.moments(low, high)
        assert moments.n == len(numbers)
        assert moments.sums[0] * step == sum(each - lower for each in clamped)
        if squares:
            assert moments.product * step**2 == sum((each - lower) ** 2 for each in clamped)
            assert octave_steps(low, high).most * step == upper - lower
            continue
        for origin in (0.0, 0.5, float(lower)):
            total = whole.total(low, high, origin)
            grid = Fraction(total.grid)
            assert total.grid == grid_between(low, high)
            assert Fraction(total.high) + Fraction(total.low) == sum(each - Fraction(origin) for each in clamped) // grid * grid


def test_bounds_are_rounded_outward_to_the_grid():
    for low, high in itertools.combinations(range(0, len(EDGES), 7), 2):
        lower, upper = rounded_bounds(low, high)
        grid = Fraction(grid_between(low, high))
        assert lower <= EDGES[low]
        assert EDGES[high] <= upper
        assert (Fraction(upper) - Fraction(lower)) % (2 * grid) == 0
        assert max(EDGES[low] - lower, upper - EDGES[high]) <= 2.0**-60 * max(abs(lower), abs(upper))


# What a release can lose


def owned(bound):
    """Pairs of what one unit holds in two neighbouring tables."""
    if bound.n_is_public:
        return [((one,), (other,)) for one, other in itertools.combinations(VALUES, 2)]
    own = [rows for k in range(bound.rows + 1) for rows in itertools.combinations_with_replacement(VALUES, k)]
    return list(itertools.combinations(own, 2)) if bound.replaced else [(rows, ()) for rows in own]


def loss_of_bins(answer, one, other):
    """Loss of the noisy counts of all bins."""
    return Fraction(sum(abs(a - b) for a, b in zip(one.rows, other.rows, strict=True))) / Fraction(answer.bins.scale)


def loss_between(answer, one, other, ends):
    """Loss of what is released between bounds."""
    inner = answer._inner(*ends)
    first, second = (answer.kind.of_bins(inner, each, *ends) for each in (one, other))
    if isinstance(inner, MomentAnswer):
        return largest_loss(inner, first, second)
    exact = [Fraction(each.high) + Fraction(each.low) for each in (first, second)]
    if isinstance(inner, PrivateMeanAnswer):
        return abs(exact[0] - exact[1]) / Fraction(inner.total.scale) + abs(first.n - second.n) / Fraction(inner.count.scale)
    return abs(exact[0] - exact[1]) / Fraction(inner.mechanism.scale)


@pytest.mark.parametrize("bound", UNITS, ids=str)
@pytest.mark.parametrize("kind", ["sum", "mean", "var"])
def test_bounds_and_answer_together_lose_no_more_than_epsilon(kind, bound):
    answer = answer_of(kind, bound)
    whole = answer_of(kind, bound, epsilon=2 * EPSILON, bounds_epsilon=EPSILON)  # the broken twin: both releases have all of ε
    worst = unshared = Fraction(0)
    tallies = {rows: answer.tally(len(rows), [np.array(rows, float)]) for pair in owned(bound) for rows in pair}
    for one, other in (tuple(map(tallies.__getitem__, pair)) for pair in owned(bound)):
        bins = loss_of_bins(answer, one, other)
        assert bins <= Fraction(FOR_BOUNDS)
        for ends in ENDS:
            worst = max(worst, bins + loss_between(answer, one, other, ends))
            unshared = max(unshared, loss_of_bins(whole, one, other) + loss_between(whole, one, other, ends))
    assert worst <= Fraction(EPSILON)
    assert float(worst) > 0.6 * EPSILON  # no needless noise: parts are for the worst of each draw
    assert unshared > Fraction(EPSILON)


def choices(answer, rows, ends):
    """Log-probabilities of the points, for the level of a median."""
    inner = answer._inner(*ends)
    counts = answer.tally(len(rows), [answer.reads[0][1].read(pa.array(rows, pa.float64()))])
    inside = answer._inside(counts, ends)
    exponents = inner.epsilon * inner.utilities(inside, Fraction(1, 2)) / (2 * inner.sensitivities[0])
    return exponents - np.log(np.exp(exponents - exponents.max()).sum()) - exponents.max()


@pytest.mark.parametrize("bound", UNITS[:3], ids=str)
def test_medians_between_found_bounds_lose_no_more_than_epsilon(bound):
    answer = answer_of("median", bound)
    worst = 0.0
    for one, other in owned(bound):
        others = (0.3, 6.0)
        for ends in ENDS:
            change = choices(answer, [*others, *one], ends) - choices(answer, [*others, *other], ends)
            worst = max(worst, float(np.abs(change).max()))
    rest = rest_epsilon(answer.section)
    assert worst <= rest * (1 + 1e-9)
    assert Fraction(rest) + Fraction(FOR_BOUNDS) <= Fraction(EPSILON)
    assert worst > 0.3 * rest


def test_quantiles_count_bins_by_their_points():
    """Counts of the points, summed between the ends of bins, are counts of the bins, each with its upper end."""
    answer = answer_of("quantile", UNITS[0], q=(0.25, 0.75))
    numbers = [value for value in EVERY if math.isfinite(value)]
    counts = answer.tally(len(numbers), [answer.reads[0][1].read(pa.array(numbers, pa.float64()))])
    bins = answer._bins(counts)
    clamped = np.clip(numbers, *WIDEST)
    expected = [int(((low < clamped) & (clamped <= high)).sum()) for low, high in itertools.pairwise(EDGES)]
    expected[0] += int((clamped == WIDEST[0]).sum())
    assert bins == expected
    grid = octave_grid()
    assert list(grid) == sorted(grid)
    assert set(EDGES) <= set(grid)


def test_the_threshold_is_what_empty_bins_do_not_pass():
    """Exactly, by the tail of the discrete Laplace law; half of it would be passed far too often."""
    for bound, epsilon in itertools.product(UNITS, (0.01, 0.2, 3.0)):
        answer = answer_of("sum", bound, epsilon=2 * epsilon, bounds_epsilon=epsilon)
        r = math.exp(-1 / answer.bins.scale)
        passes = [(len(EDGES) - 1) * r ** (threshold + 1) / (1 + r) for threshold in (answer.threshold, answer.threshold // 2)]
        assert 1e-9 < passes[0] <= 1e-6 < passes[1]
