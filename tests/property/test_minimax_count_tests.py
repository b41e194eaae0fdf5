"""Tests of counts against exact binomial laws, and the polygon, walk and bounds of a binary channel against enumeration."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import special

from dpcore.minimax import Model, _binomial, losses
from dpcore.minimax.search import count_tests
from dpcore.minimax.search.count_tests import CountSearch, first_counts
from dpcore.minimax.search.search import number_of_intervals, outcome_of_empty
from dpcore.minimax.spaces.certified import Maximiser
from dpcore.minimax.spaces.polygon import trace_polygon
from support.searches import binomial_pmf, boundary, pmf, ranges, rejects, walk

shares = st.floats(0.01, 0.99)
tiny_models = st.integers(0, 2**32 - 1)


def tiny(seed: int, points: int = 5, vertices: int = 4):
    """A hull of a few distributions, a channel, and the (θ, q) of the vertices."""
    rng = np.random.default_rng(seed)
    corners = rng.dirichlet(np.ones(points), vertices)
    f, q = rng.normal(size=points), rng.uniform(0.2, 0.8, points)
    model = Model.hull(f, corners)
    return model, q, np.stack([corners @ f, corners @ q], axis=1)


def polygon_of(model, q):
    polygon = trace_polygon(Maximiser(model), model.f, q)
    return polygon if polygon.rises else polygon.mirrored()


# Binomial tails


@given(st.integers(1, 60), shares, st.data())
def test_tails_are_rounded_up_and_no_more(n, q, data):
    first = data.draw(st.integers(-1, n + 2))
    law = binomial_pmf(n, q)
    for found, exact in (
        (_binomial.at_least(first, n, q), sum(law[max(first, 0) :])),
        (_binomial.below(first, n, q), sum(law[: max(first, 0)])),
    ):
        assert Fraction(float(found)) >= exact
        assert float(found) <= float(exact) * (1 + 1e-9) + 3e-20


@pytest.mark.long
@pytest.mark.parametrize(("n", "q"), [(10**6, 0.3), (10**6, 0.01), (10**5, 0.77)])
@pytest.mark.parametrize("z", [-11.0, -6.0, -1.0, 0.3, 4.0, 8.0, 12.0])
def test_tails_of_many_reports(n, q, z):
    first = round(n * q + z * math.sqrt(n * q * (1 - q)))
    law = pmf(n, q)  # to about 10⁻⁹, relatively
    for found, exact in ((_binomial.at_least(first, n, q), law[first:].sum()), (_binomial.below(first, n, q), law[:first].sum())):
        assert float(found) >= exact * (1 - 1e-8)
        assert float(found) <= exact * (1 + 1e-8) + 3e-20


@pytest.mark.parametrize(("first", "q", "up", "down"), [(0, 0.0, 1, 0), (1, 0.0, 0, 1), (5, 1.0, 1, 0), (6, 1.0, 0, 1), (6, 0.5, 0, 1)])
def test_tails_at_the_ends(first, q, up, down):
    assert float(_binomial.at_least(first, 5, q)) == pytest.approx(up, abs=1e-200)
    assert float(_binomial.below(first, 5, q)) == pytest.approx(down, abs=1e-200)


# Single tests


def first_of(n, zero, one) -> int:
    return int(first_counts(n, *(tuple(np.array([end]) for end in ends) for ends in (zero, one)))[0])


@given(st.integers(1, 40), shares, shares)
@example(10, 0.25, 0.75)
def test_error_sums_are_those_of_the_best_test(n, near, far):
    near, far = sorted((near, far))
    assume(far - near > 1e-9)
    first = first_of(n, (near / 2, near), (far, (1 + far) / 2))
    zero, one = binomial_pmf(n, near), binomial_pmf(n, far)
    errors = sum(zero[first:]) + sum(one[:first])
    best = sum(map(min, zero, one))  # 1 − TV: no test has less
    assert best <= errors <= best * (1 + Fraction(1, 10**9))
    above, below = [*itertools.accumulate(reversed(zero), initial=Fraction(0))][::-1], itertools.accumulate(one, initial=Fraction(0))
    assert all(sum_ >= errors * (1 - Fraction(1, 10**9)) for sum_ in map(operator.add, above, below))


@given(st.integers(2, 30), shares, shares, st.integers(1, 3))
def test_a_threshold_that_is_off_is_worse(n, near, far, shift):
    near, far = sorted((near, far))
    assume(far - near > 0.05)
    first = first_of(n, (0.0, near), (far, 1.0))
    zero, one = binomial_pmf(n, near), binomial_pmf(n, far)
    sums = [sum(zero[t:]) + sum(one[:t]) for t in (first, min(first + shift, n + 1), max(first - shift, 0))]
    assert sums[0] < max(sums)


@given(st.integers(1, 25), shares, shares, st.floats(0, 1), st.floats(0, 1))
def test_the_closest_ends_are_least_favourable(n, near, far, inside, outside):
    near, far = sorted((near, far))
    assume(far - near > 1e-6)
    first = first_of(n, (0.0, near), (far, 1.0))
    errors = [sum(binomial_pmf(n, q)[first:]) for q in (near, near * inside)]
    misses = [sum(binomial_pmf(n, q)[:first]) for q in (far, far + (1 - far) * outside)]
    assert errors[1] <= errors[0]
    assert misses[1] <= misses[0]


@given(st.integers(1, 50), st.tuples(shares, shares), st.tuples(shares, shares))
def test_first_counts_are_those_of_the_rule(n, zero, one):
    zero, one = tuple(sorted(zero)), tuple(sorted(one))
    first = first_of(n, zero, one)
    near, far = zero[1], one[0]
    for count in range(n + 1):
        if near < far:
            statistic = count * math.log(far / near) + (n - count) * math.log((1 - far) / (1 - near))
        else:
            statistic = count - n * (max(zero[0], far) + min(near, one[1])) / 2
        if abs(statistic) > 1e-9:
            assert (count >= first) == rejects(n, count, zero, one, True)


@pytest.mark.parametrize(("near", "far", "first"), [(0.0, 0.5, 1), (0.5, 1.0, 10), (0.0, 1.0, 6)])
def test_certain_outcomes(near, far, first):
    assert first_of(10, (0.0, near), (far, 1.0)) == first


@pytest.mark.parametrize(("zero", "one", "outcome"), [(False, False, None), (True, False, 1), (False, True, 0), (True, True, 1)])
def test_empty_hypotheses(zero, one, outcome):
    assert outcome_of_empty(zero=zero, one=one) == outcome
    none, some = (math.nan, math.nan), (0.3, 0.4)
    first = first_of(7, none if zero else some, none if one else (0.5, 0.6))
    assert first == {1: 0, 0: 8}.get(outcome, first)
    assert outcome is not None or 0 < first < 8


# The polygon


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(tiny_models, st.floats(-0.2, 1.2), st.floats(0, 1))
def test_ranges_of_the_polygon(seed, start, length):
    model, q, pairs = tiny(seed)
    polygon = trace_polygon(Maximiser(model), model.f, q)
    low, reach = pairs[:, 0].min(), np.ptp(pairs[:, 0])
    left, right = low + start * reach, low + (start + length) * reach
    found, exact = polygon.range_over([left], [right]), ranges(pairs, left, right)
    if math.isnan(exact[0]):
        assert np.isnan(found[0][0])
        return
    assert found[0][0] <= exact[0] + 1e-15
    assert found[1][0] >= exact[1] - 1e-15
    assert [found[0][0], found[1][0]] == pytest.approx(exact, abs=1e-8)
    mirrored = polygon.mirrored().range_over([left], [right])
    assert [1 - mirrored[1][0], 1 - mirrored[0][0]] == pytest.approx(exact, abs=1e-8)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(tiny_models)
def test_every_member_lies_in_the_outer_polygon(seed):
    rng = np.random.default_rng(seed)
    grid = np.linspace(-3, 3, 40)
    model, q = Model.moment(grid, kappa=2.0, C=1.0), rng.uniform(0.3, 0.7, 40)
    polygon = trace_polygon(Maximiser(model), grid, q, most=int(rng.integers(6, 60)))
    for _ in range(20):
        _, p = model.extreme(rng.normal(size=40))
        theta = float(p @ grid)
        low, high = polygon.range_over([theta], [theta])
        assert low[0] - 1e-9 <= p @ q <= high[0] + 1e-9


@pytest.mark.long
@pytest.mark.parametrize("top", [False, True])
def test_members_at_the_boundary(top):
    grid = np.linspace(-3, 3, 41)
    model, q = Model.moment(grid, kappa=2.0, C=1.0), 0.5 + 0.2 * np.sin(2 * grid)
    polygon = trace_polygon(Maximiser(model), grid, q)
    for theta in np.linspace(-0.99, 0.99, 21):
        p = polygon.member(theta, top=top)
        low, high = polygon.range_over([theta], [theta])
        assert model.contains(p)
        assert p @ grid == pytest.approx(theta, abs=1e-9)
        assert p @ q == pytest.approx((high if top else low)[0], abs=1e-8)


@pytest.mark.long
def test_few_programmes_leave_a_valid_outer_polygon():
    grid = np.linspace(-3, 3, 200)
    model, q = Model.moment(grid, kappa=2.0, C=1.0), 0.5 + 0.2 * np.sin(2 * grid)
    coarse, fine = (trace_polygon(Maximiser(model), grid, q, most=most) for most in (8, 400))
    ends = np.linspace(-0.9, 0.9, 50)
    (low, high), (inner, outer) = (polygon.range_over(ends, ends) for polygon in (coarse, fine))
    assert (low <= inner).all()
    assert (high >= outer).all()
    assert (high - outer).max() > 1e-4


# The search


@functools.cache
def traced(seed: int):
    """The polygon of a small model, and the length of its range of θ."""
    model, q, pairs = tiny(seed)
    return polygon_of(model, q), float(np.ptp(pairs[:, 0]))


@pytest.mark.parametrize("intervals", [3, 12, 40])
def test_first_counts_that_interlace_are_the_steps(intervals, monkeypatch):
    """What the last level alone gives is what all levels give; where the conditions fail it often is not."""
    levels, wrong, held = count_tests._by_levels, 0, 0
    for seed in range(20):
        polygon, reach = traced(seed)
        search = CountSearch(10**6, reach / (intervals - 0.5), polygon)
        ends, expected = search._hypotheses, levels(10**6, intervals, *search._hypotheses)
        held += count_tests._interlace(*ends)
        assert np.array_equal(count_tests.step_counts(10**6, intervals, *ends), expected)
        with monkeypatch.context() as change:  # a twin that takes the last level always
            change.setattr(count_tests, "_interlace", lambda *_: True)
            wrong += not np.array_equal(count_tests.step_counts(10**6, intervals, *ends), expected)
    assert held > 3
    assert wrong > 3 or intervals == 3


@pytest.mark.parametrize("q", [1e-300, 1e-12, 0.01, 0.3, 0.5, 0.999])
def test_roots_of_likelihood_ratios_rise_by_more_than_they_are_rounded(q):
    """By `SEPARATE`, and to the next: the first count of 2^40 reports moves, or stays; it never falls."""
    n = 2**40
    near = np.minimum(q + count_tests.SEPARATE * np.array([0.0, 1.0, 2.0, 3.0, 1000.0]), 1 - 2.0**-30)
    for far in (near[-1] + 2.0**-35, near[-1] + (1 - near[-1]) / 3, 1 - 2.0**-53):
        zero, one = (np.zeros(5), near), (np.full(5, far), np.ones(5))
        assert (np.diff(first_counts(n, zero, one)) >= 0).all()
        mirrored = first_counts(n, (np.zeros(5), np.full(5, 1 - far)), (1 - near[::-1], np.ones(5)))
        assert (np.diff(mirrored) >= 0).all()


@pytest.mark.parametrize(("n", "q"), [(10**5, 0.3), (10**7, 0.01), (10**9, 0.77)])
def test_near_tails_are_near(n, q):
    first = np.round(n * q + math.sqrt(n * q * (1 - q)) * np.linspace(-7, 7, 57))
    plain = special.ndtr((first - 0.5 - n * q) / math.sqrt(n * q * (1 - q)))
    for near, bound in zip(_binomial.NEAR, _binomial.BOUNDS, strict=True):
        assert np.abs(near(first, n, q) - bound(first, n, q)).max() < 1e-5
    assert n > 10**8 or np.abs(plain - _binomial.below(first, n, q)).max() > 1e-5  # without the correction
    few = np.arange(5.0)
    assert np.array_equal(_binomial.near_below(few, 4, q), _binomial.below(few, 4, q))


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(tiny_models, st.integers(1, 40), st.integers(3, 12))
def test_the_step_function_is_the_walk(seed, n, intervals):
    model, q, pairs = tiny(seed)
    polygon = polygon_of(model, q)
    search = CountSearch(n, np.ptp(pairs[:, 0]) / (intervals - 0.5), polygon)
    assert search.intervals == intervals
    places = np.round((search.estimates(np.arange(n + 1), None) - search.theta_range[0]) / search.step).astype(int).tolist()
    literal = [walk(n, c, pairs, search.step, intervals) for c in range(n + 1)]
    ties = [c for c in range(n + 1) if places[c] != literal[c]]
    # A statistic of exactly 0 may be rounded either way: then the neighbouring count agrees.
    assert len(ties) <= max(1, n // 8)
    assert all(places[c] in {literal[max(c - 1, 0)], literal[min(c + 1, n)]} for c in ties)
    assert all(np.diff(places) >= 0) or all(np.diff(places) <= 0)


@settings(max_examples=settings().max_examples // 3, deadline=None)
@given(tiny_models, st.integers(1, 40), st.integers(3, 10), st.integers(0, 10))
def test_error_bounds_are_the_suprema(seed, n, intervals, index):
    model, q, pairs = tiny(seed)
    reach, low = np.ptp(pairs[:, 0]), pairs[:, 0].min()
    search = CountSearch(n, reach / (intervals - 0.4), polygon_of(model, q))
    estimates = search.estimates(np.arange(n + 1), None)
    limits = low + search.step * np.arange(intervals + 1)
    thetas = np.clip(np.concatenate([limits + shift for shift in (-1e-7 * reach, 1e-7 * reach)]), low, low + reach)
    risks = [pmf(n, at)[np.abs(estimates - theta) > (index + 1) * search.step * (1 + 1e-12)].sum() for theta, at in boundary(pairs, thetas)]
    assert search.error_bound(index) == pytest.approx(max(risks), abs=1e-4)
    assert search.error_bound(index) >= max(risks) - 1e-9


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(tiny_models, st.integers(1, 40), st.integers(1, 10), st.sampled_from(["absolute", "squared", "huber", "root"]))
def test_risk_bounds_are_the_suprema(seed, n, intervals, name):
    loss = {"absolute": losses.absolute(), "squared": losses.squared(), "huber": losses.huber(0.1), "root": losses.power(0.5)}[name]
    model, q, pairs = tiny(seed)
    reach, low = np.ptp(pairs[:, 0]), pairs[:, 0].min()
    search = CountSearch(n, reach / (intervals - 0.4), polygon_of(model, q))
    estimates = search.estimates(np.arange(n + 1), None)
    places = boundary(pairs, np.linspace(low, low + reach, 400))
    risks = [pmf(n, at) @ loss(np.abs(estimates - theta)) for theta, at in places]
    bound = search.risk_bound(loss)
    assert max(risks) <= bound * (1 + 1e-9)
    assert bound <= max(risks) * 1.03


def test_exact_multiples_of_the_step():
    """Where R is a multiple of Δ the last cell is but one point, and its errors are those of that point."""
    model = Model([0.0, 1.0])
    search = CountSearch(30, 0.25, polygon_of(model, np.array([0.3, 0.7])))
    assert search.intervals == 5
    estimates = search.estimates(np.arange(31), None)
    for index in range(3):
        thetas = np.concatenate([np.arange(5) * 0.25, np.arange(4) * 0.25 + 1e-9, np.arange(1, 5) * 0.25 - 1e-9])
        risks = [pmf(30, 0.3 + 0.4 * t)[np.abs(estimates - t) > (index + 1) * 0.25 + 1e-11].sum() for t in thetas]
        assert search.error_bound(index) == pytest.approx(max(risks), abs=1e-6)


@pytest.mark.parametrize(
    ("reach", "step", "count"), [(1.0, 0.1, 11), (1.0, 0.25, 5), (0.99, 0.25, 4), (0.1, 1.0, 1), (1.0, 1.0, 2), (0.3, 0.1, 3)]
)
def test_number_of_intervals(reach, step, count):
    found = number_of_intervals(reach, step)
    assert found * step > reach >= (found - 1) * step
    assert abs(found - count) <= (0 if reach != 0.3 else 1)


@given(st.floats(1e-6, 1e6), st.integers(1, 1000), st.floats(-3e-16, 3e-16))
def test_number_of_intervals_is_least(step, count, shift):
    reach = step * count * (1 + shift)
    found = number_of_intervals(reach, step)
    assert found * step > reach >= (found - 1) * step


def test_constant_estimates_of_coarse_steps():
    model = Model([0.0, 1.0])
    for step in (0.6, 1.0, 5.0):
        search = CountSearch(10, step, polygon_of(model, np.array([0.3, 0.7])))
        assert search.intervals <= 2
        assert search.estimates(np.arange(11), None).tolist() == pytest.approx([0.5] * 11)
        assert [search.error_bound(index) for index in range(3)] == [0.0, 0.0, 0.0]
        assert search.risk_bound(losses.squared()) == pytest.approx(0.25)
        assert len(search.thresholds) == 0


def test_a_channel_that_tells_nothing():
    model = Model([0.0, 1.0, 2.0])
    search = CountSearch(10, 0.3, polygon_of(model, np.full(3, 0.5)))
    assert search.error_bound(0) == 1.0
    assert search.risk_bound(losses.absolute()) >= 1.0
