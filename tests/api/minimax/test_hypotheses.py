"""Tests between two models, by Steinberger (2019): both sides against enumeration, and twins that are wrong."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from dpcore import local, minimax
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.minimax import (
    Model,
    affinity_of_models,
    apply,
    hellinger_affinity,
    kl,
    kl_terms,
    minimax_test,
    tv,
    tv_of_products,
)
from dpcore.minimax.programs.program import Program
from dpcore.minimax.spaces.products import Bounds

seeds = st.integers(0, 2**32 - 1)
clarabel = pytest.importorskip("clarabel")


def hulls(rng: np.random.Generator, size: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.dirichlet(np.full(size, 0.7), count), rng.dirichlet(np.full(size, 0.7), count + 1)


def least_error_sum(first: np.ndarray, second: np.ndarray) -> float:
    """The smallest s such that some φ has E φ + E(1 − φ) ≤ s for all pairs of vertices: the definition, as a linear program of its own."""
    size = first.shape[1]
    rows = [np.concatenate([p - q, [-1.0]]) for p in first for q in second]
    found = linprog([0.0] * size + [1.0], A_ub=rows, b_ub=[-1.0] * len(rows), bounds=[(0, 1)] * size + [(None, None)])
    return float(found.fun)


# Korollar 2.7


@given(seeds, st.integers(2, 6), st.integers(1, 4))
@settings(max_examples=10, deadline=None)
def test_the_minimax_test_is_the_best_and_its_bounds_meet(seed, size, count):
    rng = np.random.default_rng(seed)
    first, second = hulls(rng, size, count)
    f = np.arange(float(size))
    found = minimax_test(Model.hull(f, first), Model.hull(f, second))
    least = least_error_sum(first, second)
    assert found.lower <= least + 1e-9
    assert least <= found.value + 1e-9
    assert found.value - found.lower < 1e-7
    # the test itself, at every vertex, and the pair, which is of the hulls; these products are rounded in an order of their own
    assert (first @ found.phi).max() <= found.errors[0] + 1e-14
    assert (second @ (1 - found.phi)).max() <= found.errors[1] + 1e-14
    assert sum(found.errors) >= found.value - 1e-15
    assert minimax.testing_affinity(found.p0, found.p1) == pytest.approx(found.lower, abs=1e-12)
    assert Model.hull(f, first).contains(found.p0)
    assert Model.hull(f, second).contains(found.p1)


def test_without_hulls_the_identity_fails():
    """The twin that takes the supremum over pairs of the lists: no test is as good."""
    first, second = np.eye(2), np.array([[0.5, 0.5]])
    found = minimax_test(Model.hull([0.0, 1.0], first), Model.hull([0.0, 1.0], second))
    assert (found.lower, found.value) == pytest.approx((1.0, 1.0), abs=1e-12)
    assert max(minimax.testing_affinity(p, second[0]) for p in first) == 0.5


def test_the_error_sum_behind_a_channel_is_that_of_its_reports():
    f = np.linspace(-1.0, 1.0, 7)
    low, high = Model(f, [f], [-0.2]), Model(f, [-f], [-0.2])
    channel = local.KaryResponse(1.0, k=7)
    found = minimax_test(low, high, channel=channel)
    assert found.value - found.lower < 1e-7
    assert found.value > minimax_test(low, high).value  # a channel hides something
    reports = apply(channel, found.p0), apply(channel, found.p1)
    assert minimax.testing_affinity(*reports) == pytest.approx(found.lower, abs=1e-12)
    # no pair of members on a grid of mixtures of two points is harder
    ends = [(i, j, w) for i, j in itertools.combinations(range(7), 2) for w in np.linspace(0, 1, 21)]
    members = np.zeros((len(ends), 7))
    for row, (i, j, w) in enumerate(ends):
        members[row, [i, j]] = w, 1 - w
    thetas, laws = members @ f, members @ channel.channel()
    sums = np.minimum(laws[thetas <= -0.2][:, None], laws[thetas >= 0.2][None]).sum(axis=2)
    assert sums.max() <= found.value + 1e-12


def test_many_records_by_their_joint_laws():
    """Three records: the hull of the joint laws of two lists, against all 256 tests without randomisation and mixtures of neighbours."""
    first, second = np.array([0.2, 0.35]), np.array([0.6, 0.7])

    def law(s: float) -> list[float]:
        return [s ** sum(z) * (1 - s) ** (3 - sum(z)) for z in itertools.product((0, 1), repeat=3)]

    found = minimax_test(Model.hull(np.arange(8.0), [law(s) for s in first]), Model.hull(np.arange(8.0), [law(s) for s in second]))
    counts = np.array([sum(z) for z in itertools.product((0, 1), repeat=3)])
    assert found.value == pytest.approx(least_error_sum(np.array([law(s) for s in first]), np.array([law(s) for s in second])), abs=1e-9)
    assert found.phi == pytest.approx((counts >= 2).astype(float), abs=1e-6)  # the closest ends, .35 and .6, are least favourable
    assert found.value == pytest.approx(1 - tv_of_products([0.65, 0.35], [0.4, 0.6], 3).lower, abs=1e-9)


@pytest.mark.parametrize("function", [minimax_test, affinity_of_models])
def test_refused_hypotheses(function):
    model = Model([0.0, 1.0])
    with pytest.raises(ParameterTypeError, match="model1 must be a Model, got list"):
        function(model, [0.0, 1.0])
    with pytest.raises(ParameterError, match="same points, got 2 and 3 of them"):
        function(model, Model([0.0, 1.0, 2.0]))
    with pytest.raises(ParameterError, match="channel must have 2 rows"):
        function(model, model, channel=local.KaryResponse(1.0, k=3))


# Satz 2.5


@given(seeds, st.integers(2, 4), st.integers(1, 3))
@settings(max_examples=4, deadline=None)
def test_affinities_of_hulls_of_products(seed, size, count):
    rng = np.random.default_rng(seed)
    f = np.arange(float(size))
    pairs = [hulls(rng, size, count) for _ in range(2)]
    affinities = [affinity_of_models(*(Model.hull(f, side) for side in pair)) for pair in pairs]
    for found, (first, second) in zip(affinities, pairs, strict=True):
        assert found.upper - found.value < 1e-6
        assert max(hellinger_affinity(p, q) for p in first for q in second) <= found.upper + 1e-12
        assert hellinger_affinity(found.p0, found.p1) == pytest.approx(found.value, abs=1e-12)
    whole = np.arange(float(size**2))
    products = [[np.outer(p, q).ravel() for p in pairs[0][side] for q in pairs[1][side]] for side in (0, 1)]
    joint = affinity_of_models(*(Model.hull(whole, vertices) for vertices in products))
    assert joint.value <= affinities[0].upper * affinities[1].upper + 1e-12  # Satz 2.5
    assert joint.upper >= affinities[0].value * affinities[1].value - 1e-12  # and it is an equality, as products of members are members


def test_without_hulls_the_product_inequality_fails():
    """The twin with affinities of the lists in place of those of their hulls."""
    first, second = np.eye(2), np.array([[0.5, 0.5]])
    products = [np.outer(p, q).ravel() for p in first for q in first], [np.outer(second[0], second[0]).ravel()]
    joint = affinity_of_models(*(Model.hull(np.arange(4.0), vertices) for vertices in products))
    assert joint.value > 0.999
    assert max(hellinger_affinity(p, second[0]) for p in first) ** 2 == pytest.approx(0.5)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_test_of_an_affinity_errs_as_seldom_as_it_says(n):
    f = np.linspace(-1.0, 1.0, 3)
    low, high = Model(f, [f], [-0.3]), Model(f, [-f], [-0.3])
    channel = local.KaryResponse(1.5, k=3)
    found = affinity_of_models(low, high, channel=channel)
    bound = found.error_bound(n)
    outcomes = np.array(list(itertools.product(range(3), repeat=n)))
    counts = np.stack([(outcomes == k).sum(axis=1) for k in range(3)], axis=1)
    decided = found.decide(counts)
    worst = []
    for model, wrong in ((low, decided), (high, ~decided)):
        members = [model.extreme(d)[1] for d in np.random.default_rng(n).normal(size=(12, 3))]
        reports = [p @ channel.channel() for p in members]
        # independent reports of different members
        rng = np.random.default_rng(3)
        for _ in range(30):
            chosen = [reports[i] for i in rng.integers(0, len(reports), n)]
            worst.append(float(np.prod([q[outcomes[:, i]] for i, q in enumerate(chosen)], axis=0)[wrong].sum()))
    assert max(worst) <= bound
    assert max(worst) > 0.2 * bound  # a bound ten times smaller would be noticed
    with pytest.raises(ParameterError, match="counts must have 3 numbers"):
        found.decide([1, 2])
    with pytest.raises(ParameterError, match="n must be"):
        found.error_bound(0)


def test_multipliers_that_favour_one_error_change_neither_the_test_nor_its_bound(monkeypatch):
    """r is found up to a factor that a solver's multipliers leave; the errors of the test are made equal again."""
    f = np.linspace(-1.0, 1.0, 3)
    low, high = Model(f, [f], [-0.3]), Model(f, [-f], [-0.1])
    channel = local.KaryResponse(1.5, k=3)
    right = affinity_of_models(low, high, channel=channel)
    solve = Program.maximise

    def lopsided(program, *arguments, **keys):
        found = solve(program, *arguments, **keys)
        return replace(found, rates=found.rates * [4.0, 1.0])

    monkeypatch.setattr(Program, "maximise", lopsided)
    found = affinity_of_models(low, high, channel=channel)
    assert found.weights == pytest.approx(right.weights, abs=1e-6)
    assert found.upper == pytest.approx(right.upper, abs=1e-9)


def test_models_that_exclude_each_other_have_no_affinity():
    first, second = Model.hull([0.0, 1.0, 2.0], [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]), Model.hull([0.0, 1.0, 2.0], [[0.0, 0.0, 1.0]])
    found = affinity_of_models(first, second)
    assert found.value < 1e-4
    assert found.upper < 1e-4
    assert minimax_test(first, second).value < 1e-9
    same = affinity_of_models(first, first)
    assert same.upper == pytest.approx(1.0, abs=1e-8)
    assert same.error_bound(2**53) <= 1.0


# Aufgabe 2.8


def exact_tv(p: list[Fraction], q: list[Fraction], n: int) -> Fraction:
    """By enumeration of all sequences, in rationals."""
    total = Fraction(0)
    for sequence in itertools.product(range(len(p)), repeat=n):
        total += abs(math.prod((p[k] for k in sequence), start=Fraction(1)) - math.prod((q[k] for k in sequence), start=Fraction(1)))
    return total / 2


@given(st.lists(st.integers(0, 20), min_size=2, max_size=4), st.lists(st.integers(0, 20), min_size=4, max_size=4), st.integers(1, 5))
@settings(max_examples=20, deadline=None)
def test_bounds_of_products_enclose_the_distance(first, second, n):
    second = second[: len(first)]
    if not sum(first) or not sum(second):
        return
    p, q = ([Fraction(k, sum(weights)) for k in weights] for weights in (first, second))
    found = tv_of_products([float(x) for x in p], [float(x) for x in q], n)
    exact = exact_tv(p, q, n)
    assert Fraction(found.lower) <= exact <= Fraction(found.upper)
    assert found.upper - found.lower < 1e-8
    assert exact <= n * exact_tv(p, q, 1)


@pytest.mark.parametrize(("p", "n"), [(0.3, 10**4), (1e-4, 10**6), (0.5, 10**9), (1 - 1e-6, 10**7)])
def test_bounds_of_many_records_are_close_and_agree_with_the_normal_law(p, n):
    step = 2 * math.sqrt(p * (1 - p) / n)
    q = min(p + step, 1.0)
    found = tv_of_products([1 - p, p], [1 - q, q], n)
    assert 0 < found.upper - found.lower < 1e-6
    normal = math.erf(2 / (2 * math.sqrt(2)))  # two standard deviations apart
    assert abs(found.lower - normal) < 0.02 + 3 / math.sqrt(n * p * (1 - p))


@pytest.mark.parametrize("n", [1, 2**40, 2**41, 2**53])
def test_bounds_of_products_at_the_ends(n):
    assert tv_of_products([0.3, 0.7], [0.3, 0.7], n) == Bounds(0.0, pytest.approx(0.0, abs=1e-5))
    assert tv_of_products([1.0, 0.0], [0.0, 1.0], n) == Bounds(pytest.approx(1.0), 1.0)
    far = tv_of_products([0.2, 0.3, 0.5], [0.5, 0.3, 0.2], n)
    assert far.lower <= far.upper
    assert n == 1 or far.lower > 0.999999
    near = tv_of_products([0.5, 0.5], [0.5 - 2.0**-30, 0.5 + 2.0**-30], n)
    assert near.lower <= near.upper <= 1.0


def test_a_distance_without_the_allowance_for_rounding_is_noticed():
    """Masses are floats: 0.1 + 0.2 and 0.3 differ, and ten million records of either are told apart by nobody."""
    p, q = [0.7, 0.3], [1 - (0.1 + 0.2), 0.1 + 0.2]
    found = tv_of_products(p, q, 10**7)
    assert found.lower == 0.0
    assert found.upper < 1e-6


@pytest.mark.parametrize(
    ("p", "q"), [([0.5, 0.6], [0.5, 0.5]), ([0.5, 0.5], [1.0]), ([[0.5, 0.5]], [[0.5, 0.5]]), ([math.nan, 1.0], [0.5, 0.5])]
)
def test_refused_products(p, q):
    with pytest.raises(ParameterError):
        tv_of_products(p, q, 3)


# Aufgabe 2.7


def chain(p: np.ndarray, q: np.ndarray) -> list[float]:
    """The conditional divergences, history by history."""
    terms = []
    for length in range(p.ndim):
        term = 0.0
        for past in itertools.product(*(range(size) for size in p.shape[:length])):
            own, other = p[past], q[past]
            own_next, other_next = (law.reshape(law.shape[0], -1).sum(axis=1) for law in (own, other))
            weight = own_next.sum()
            if weight > 0:
                term += weight * sum(
                    a / weight * math.log((a / weight) / (b / other_next.sum())) for a, b in zip(own_next, other_next, strict=True) if a > 0
                )
        terms.append(term)
    return terms


@given(seeds, st.lists(st.integers(1, 3), min_size=1, max_size=3))
@settings(max_examples=30, deadline=None)
def test_the_chain_rule(seed, shape):
    rng = np.random.default_rng(seed)
    p, q = (rng.dirichlet(np.full(math.prod(shape), 0.8)).clip(1e-6).reshape(shape) for _ in range(2))
    p, q = p / p.sum(), q / q.sum()
    found = kl_terms(p, q)
    assert found.sum() == pytest.approx(kl(p.ravel(), q.ravel()), abs=1e-12, rel=1e-10)
    assert found.tolist() == pytest.approx(chain(p, q), abs=1e-12, rel=1e-9)
    assert (found >= 0).all()


def test_histories_weighted_by_the_other_law_break_the_chain_rule():
    p, q = np.array([[0.4, 0.4], [0.1, 0.1]]), np.array([[0.1, 0.1], [0.2, 0.6]])
    first, second = kl_terms(p, q)
    other = float(q.sum(axis=1) @ kl(p / p.sum(axis=1, keepdims=True), q / q.sum(axis=1, keepdims=True)))
    assert first + second == pytest.approx(kl(p.ravel(), q.ravel()))
    assert abs(first + other - kl(p.ravel(), q.ravel())) > 0.05


def test_terms_of_what_is_excluded_are_infinite():
    assert kl_terms([[0.5, 0.5], [0.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]]).tolist() == [0.0, math.inf]
    assert kl_terms([[0.5, 0.0], [0.0, 0.5]], [[1.0, 0.0], [0.0, 0.0]]).tolist() == [math.inf, math.inf]
    assert tv([1.0], [1.0]) == 0.0
    with pytest.raises(ParameterError, match="the same shape"):
        kl_terms([[0.5, 0.5]], [0.5, 0.5])
    with pytest.raises(ParameterError, match="masses that sum to 1"):
        kl_terms([0.5, 0.2], [0.5, 0.5])
