"""Tests between Hellinger projections: their certificates against members of the model, exact laws, and the binary route."""

from __future__ import annotations

from itertools import product
from math import factorial, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore.local import BinaryChannel, KaryResponse
from dpcore.minimax import Model, hellinger_affinity, losses
from dpcore.minimax.search.count_tests import CountSearch
from dpcore.minimax.search.finite_tests import FiniteSearch, Projections, risk_of_tails, two_sided_tails
from dpcore.minimax.spaces.certified import Maximiser
from dpcore.minimax.spaces.polygon import trace_polygon
from support.searches import walk_table

pytest.importorskip("clarabel")
seeds = st.integers(0, 2**32 - 1)


def random_case(seed: int, outcomes: int = 3):
    """A model of one of three kinds and a channel with a positive matrix."""
    rng = np.random.default_rng(seed)
    f = np.sort(rng.normal(size=6))
    model = [
        lambda: Model(f),
        lambda: Model.moment(f, kappa=2.0, C=float((f**2).mean())),
        lambda: Model.hull(f, rng.dirichlet(np.ones(6), 5)),
    ][seed % 3]()
    matrix = rng.dirichlet(np.ones(outcomes), 6) + 0.2
    return rng, model, matrix / matrix.sum(axis=1, keepdims=True)


def members(rng, model: Model, count: int) -> np.ndarray:
    """Random mixtures of extreme members, the ends of θ among them."""
    extremes = np.array([model.extreme(d)[1] for d in (model.f, -model.f, *rng.normal(size=(6, model.size)))])
    found = np.concatenate([extremes, rng.dirichlet(np.full(len(extremes), 0.3), count) @ extremes]).clip(0)
    return found / found.sum(axis=1, keepdims=True)


def multinomial_law(n: int, q: np.ndarray):
    """All counts of n reports and their probabilities."""
    counts = np.array([c for c in product(range(n + 1), repeat=len(q)) if sum(c) == n])
    ways = [factorial(n) / prod(map(factorial, c)) for c in counts.tolist()]
    return counts, np.array(ways) * np.prod(q**counts, axis=1)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(seeds, st.floats(0, 0.9), st.floats(0.05, 1), st.integers(1, 7))
def test_no_member_errs_more_than_the_bound(seed, start, length, n):
    rng, model, matrix = random_case(seed)
    low, high = model.theta_range
    a, b = low + start * (high - low), low + min(start + length, 1.0) * (high - low)
    test = Projections(model, matrix).test(a, b)
    for p in members(rng, model, 40):
        counts, law = multinomial_law(n, p @ matrix)
        decided = counts @ test.weights > 0
        if p @ model.f <= a:
            assert law[decided].sum() <= test.affinity**n + 1e-9
        if p @ model.f >= b:
            assert law[~decided].sum() <= test.affinity**n + 1e-9


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(seeds, st.floats(0.01, 1.0))
def test_no_pair_is_closer_than_the_bound(seed, share):
    rng, model, matrix = random_case(seed)
    low, high = model.theta_range
    distance = share * (high - low)
    bound = Projections(model, matrix).affinity(distance)
    found = members(rng, model, 60)
    thetas = found @ model.f
    i, j = np.nonzero(thetas[None] - thetas[:, None] >= distance)
    closest = max((float(hellinger_affinity(found[a] @ matrix, found[b] @ matrix)) for a, b in zip(i, j, strict=True)), default=0.0)
    assert closest <= bound + 1e-12


def test_bounds_are_attained():
    """On two points everything is known: the affinity of distance R is that of the two rows."""
    matrix = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    projections = Projections(Model([0.0, 1.0]), matrix)
    exact = float(hellinger_affinity(*matrix))
    assert projections.affinity(1.0) == pytest.approx(exact, abs=1e-8)
    assert projections.test(0.0, 1.0).affinity == pytest.approx(exact, abs=1e-8)
    assert projections.test(0.0, 1.0).weights == pytest.approx(np.log(matrix[1] / matrix[0]) / 2, abs=1e-4)
    assert projections.affinity(0.0) == pytest.approx(1.0)
    assert projections.affinity(1.001) == 0.0


@pytest.mark.parametrize("noise", [1e-3, 0.3])
def test_bounds_do_not_trust_the_cone_solver(monkeypatch, noise):
    """With a wrong projection and wrong multipliers they become loose, and stay bounds."""
    rng, model, matrix = random_case(3)
    projections = Projections(model, matrix)
    right = projections._closest

    def wrong(rows, bounds):
        logs, multipliers, duals = right(rows, bounds)
        return logs + noise * rng.normal(size=len(logs)), *(found * (1 + noise * rng.random(found.shape)) for found in (multipliers, duals))

    low, high = model.theta_range
    a, b = low + 0.3 * (high - low), low + 0.7 * (high - low)
    exact = projections.test(a, b).affinity, projections.affinity(b - a)
    monkeypatch.setattr(projections, "_closest", wrong)
    found = projections.test(a, b), projections.affinity(b - a)
    assert found[0].affinity >= exact[0] - 1e-7
    assert found[1] >= exact[1] - 1e-7
    for p in members(rng, model, 60):
        moment = (p @ matrix) @ np.exp(found[0].weights * (1 if p @ model.f <= a else -1))
        if not a < p @ model.f < b:
            assert moment <= found[0].affinity * (1 + 1e-9) or found[0].affinity == 1.0


@pytest.mark.parametrize(("a", "b", "outcome"), [(-1.0, 0.5, 1), (0.5, 2.0, 0), (-1.0, 2.0, 1)])
def test_empty_hypotheses_have_constant_tests(a, b, outcome):
    test = Projections(Model([0.0, 1.0]), np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])).test(a, b)
    assert (np.array([[3, 0, 0], [0, 0, 3], [1, 1, 1]]) @ test.weights > 0).tolist() == [bool(outcome)] * 3
    assert test.affinity == 0.0


def test_hypotheses_that_look_alike_have_a_sensible_test():
    """Where the channel cannot tell θ ≤ a from θ ≥ b, the test still tells their far ends apart, and claims nothing."""
    grid = np.linspace(-4, 4, 33)
    lumped = BinaryChannel(1.0, np.sign(grid)).channel()
    three = np.column_stack([lumped[:, 0], lumped[:, 1] / 2, lumped[:, 1] / 2])
    test = Projections(Model.moment(grid, kappa=2.0, C=1.0), three).test(-0.05, 0.05)
    assert test.affinity > 1 - 1e-6
    assert test.weights[0] < -0.01
    assert test.weights[1:].min() > 0.01


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 200), st.floats(1.0, 3.0), st.integers(3, 9))
def test_two_outcomes_by_either_route(n, epsilon, intervals):
    """φ is linear in f, so q is in θ and no two hypotheses overlap: both routes test the same closest ends."""
    f = np.linspace(-1.0, 1.0, 7)
    model, channel = Model(f), BinaryChannel(epsilon, f).channel()
    step = 2.0 / (intervals - 0.5)
    count = CountSearch(n, step, trace_polygon(Maximiser(model), f, channel[:, 1]))
    finite = FiniteSearch(Projections(model, channel), n, step)
    plus = np.arange(n + 1)
    one, other = count.estimates(plus, None), finite.estimates(np.stack([n - plus, plus], axis=1), None)
    differ = np.flatnonzero(np.abs(one - other) > 1e-9)
    # Ties may be decided either way, and the solver finds likelihood ratios to some digits: thresholds move by a count at most.
    assert len(differ) <= intervals
    assert all(other[i] in other[[max(i - 1, 0), min(i + 1, n)]] or one[i] in one[[max(i - 1, 0), min(i + 1, n)]] for i in differ)
    for index in range(intervals):
        assert count.error_bound(index) <= finite.error_bound(index) + 1e-9
    assert count.risk_bound(losses.squared()) <= finite.risk_bound(losses.squared()) * (1 + 5e-3)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_decisions_by_either_route_where_hypotheses_overlap(epsilon):
    """Nodes whose hypotheses the channel tells apart decide alike for every count, up to a count beside the threshold."""
    grid = np.linspace(-3, 3, 25)
    model, n = Model.moment(grid, kappa=2.0, C=1.0), 300
    channel = BinaryChannel(epsilon, np.clip(grid, -1.5, 1.5)).channel()
    count = CountSearch(n, 0.23, trace_polygon(Maximiser(model), grid, channel[:, 1]))
    finite = FiniteSearch(Projections(model, channel), n, 0.23)
    compared = 0
    for level in range(1, count.intervals - 1, 2):
        for node in range(1, level + 1, 2):
            a, b = finite.theta_range[0] + 0.23 * node, finite.theta_range[0] + 0.23 * (node + count.intervals - level - 1)
            if finite._projections.test(a, b).affinity > 1 - 1e-5:
                continue
            first = count.first(level, node)
            compared += 1
            assert [finite.decide(level, node, np.array([n - c, c])) for c in (first - 3, first + 2)] == [0, 1]
    assert compared > 5


@pytest.mark.parametrize("data_sets", [1, 50, 5000])
def test_walks_are_those_of_the_complete_table(data_sets):
    search = FiniteSearch(Projections(Model(np.arange(8.0)), KaryResponse(2.0, k=8).channel()), 500, 1.1)
    rng = np.random.default_rng(data_sets)
    counts = rng.multinomial(500, rng.dirichlet(np.ones(8), data_sets))
    estimates = search.estimates(counts, None)
    some = int(np.isfinite(search._weights[:, 0]).sum())
    for level in range(1, search.intervals - 1):
        for node in range(1, level + 1):
            search._prepare(level, node)
    assert some <= len(search._weights) == (search.intervals - 2) * (search.intervals - 1) // 2
    places = walk_table(counts, search._weights, search.intervals - 2)
    assert estimates == pytest.approx(search.theta_range[0] + 1.1 * places)
    assert np.array_equal(estimates, search.estimates(counts, 3))


def test_only_tests_that_are_met_are_computed():
    search = FiniteSearch(Projections(Model(np.arange(8.0)), KaryResponse(2.0, k=8).channel()), 500, 0.4)
    search.estimates(np.full((1, 8), 0) + np.array([500, 0, 0, 0, 0, 0, 0, 0]), None)
    assert int(np.isfinite(search._weights[:, 0]).sum()) == search.intervals - 2


# Sums of bounds


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.integers(1, 20))
def test_tails_are_the_lemma_s_sums(affinities, n):
    falling = np.sort(affinities)[::-1]
    count = len(falling) + 2
    tails = two_sided_tails(falling, n)
    errors = {d: falling[d - 1] ** n for d in range(1, count - 1)}
    for index in range(count - 1):
        cells = [
            sum(errors[d] for d in range(index + 1, count - cell)) + sum(errors[d] for d in range(index + 1, cell - 1))
            for cell in range(1, count + 1)
        ]
        assert tails[index] == pytest.approx(min(max(cells), 1.0), rel=2e-6, abs=1e-12)
        assert tails[index] <= min(1.0, 2 * sum(errors[d] for d in range(index + 1, count - 1)) * (1 + 2e-6) + 1e-12)
    assert (np.diff(tails) <= 1e-12).all()
    assert tails[-1] <= 1e-12


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.01, 1.0), st.floats(0.5, 20.0))
def test_risks_of_tails(tails, step, reach):
    falling = np.append(np.sort(tails)[::-1], 0.0)
    loss = losses.squared()
    expected = sum(
        float(loss(min((m + 1) * step, reach))) * (1.0 if m == 0 else falling[m - 1])
        - float(loss(min((m + 1) * step, reach))) * (falling[m] if m < len(falling) else 0.0)
        for m in range(len(falling) + 1)
    )
    # Abel: Σ l(η_m)·P(η_{m−1} < error ≤ η_m) with the tails as probabilities
    assert risk_of_tails(falling, step, reach, loss) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_bounds_beyond_the_last_interval():
    search = FiniteSearch(Projections(Model(np.arange(4.0)), KaryResponse(2.0, k=4).channel()), 100, 0.7)
    bounds = [search.error_bound(index) for index in range(search.intervals + 2)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[search.intervals - 2 :] == [0.0] * 4
    assert search.risk_bound(losses.absolute()) <= 3.0
