"""What a given channel allows, by Steinberger (2019): bounds against enumeration of small cases, and twins that are wrong."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import linprog

from dpcore import local
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.minimax import (
    BinarySearchEstimator,
    Model,
    apply,
    channel_lower_bound,
    channel_upper_bound,
    indistinguishable_difference,
    indistinguishable_radius,
    losses,
    modulus_tv,
    reports_testing_affinity,
    tv_of_products,
    upper_bound,
)
from support.minimax_models import model as known

pytest.importorskip("clarabel")
COIN = Model([0.0, 1.0])
BIT = local.BinaryResponse(1.0)
SLOPE = math.tanh(0.5)
"""P(+) of BIT rises by this much from θ = 0 to θ = 1."""


def minimax_risk(n: int, grid: int = 31) -> float:
    """The least worst-case squared risk of θ of a coin from n one-bit reports, over randomised estimators on a grid: a linear program."""
    places = np.linspace(0.0, 1.0, grid)
    shares = 0.5 + SLOPE * (places - 0.5)
    laws = stats.binom.pmf(np.arange(n + 1)[None], n, shares[:, None])
    losses_ = (places[:, None] - places[None]) ** 2
    rows = np.hstack([(laws[:, :, None] * losses_[:, None, :]).reshape(grid, -1), -np.ones((grid, 1))])
    whole = np.hstack([np.kron(np.eye(n + 1), np.ones((1, grid))), np.zeros((n + 1, 1))])
    cost = np.append(np.zeros((n + 1) * grid), 1.0)
    found = linprog(cost, A_ub=rows, b_ub=np.zeros(grid), A_eq=whole, b_eq=np.ones(n + 1))
    # between members of the grid the risk changes little: it is a polynomial of degree n + 2 on [0, 1]
    rule = found.x[:-1].reshape(n + 1, grid)
    fine = np.linspace(0.0, 1.0, 2001)
    law = stats.binom.pmf(np.arange(n + 1)[None], n, (0.5 + SLOPE * (fine - 0.5))[:, None])
    return float((law @ rule * (fine[:, None] - places[None]) ** 2).sum(axis=1).max())


@pytest.mark.parametrize("n", [1, 6, 30])
def test_no_estimator_goes_below_the_bound_of_its_channel(n):
    found, least = channel_lower_bound(COIN, BIT, n=n), minimax_risk(n)
    assert 0.05 * least < found.value <= least


def test_a_bound_that_forgets_the_other_reports_is_noticed():
    """The twin: η of a single report in place of that of n."""
    n = 30
    found = channel_lower_bound(COIN, BIT, n=n)
    single = 1 - tv_of_products(apply(BIT, found.p0), apply(BIT, found.p1), 1).upper
    assert found.eta < single
    far = indistinguishable_difference(COIN, BIT, eta=0.5, n=1).value
    assert (far / 2) ** 2 * 0.25 > minimax_risk(n)


@pytest.mark.some(3)
@pytest.mark.parametrize("name", ["simplex", "moment 2", "hull", "uniform", "hoelder 1"])
@pytest.mark.parametrize("outcomes", [2, 3])
def test_the_pair_proves_the_lower_bound(name, outcomes):
    of, n = known(name), 40
    points = np.arange(of.size)
    low, high = of.theta_range
    phi = np.clip((of.f - low) / (high - low) * 2 - 1, -1, 1)
    channel = local.BinaryChannel(1.0, tuple(phi.tolist())) if outcomes == 2 else local.KaryResponse(1.0, k=of.size).channel()
    if outcomes == 3:
        channel = np.stack([channel[:, points % 3 == k].sum(axis=1) for k in range(3)], axis=1)
    found = channel_lower_bound(of, channel, n=n, loss="absolute")
    assert found.value == pytest.approx(found.difference / 2 * found.eta / 2, rel=1e-9)
    for p in (found.p0, found.p1):
        assert of.contains(p, tolerance=1e-7)
    assert of.theta(found.p1) - of.theta(found.p0) >= found.difference * (1 - 1e-6)
    q0, q1 = apply(channel, found.p0 / found.p0.sum()), apply(channel, found.p1 / found.p1.sum())
    assert found.eta <= error_sum(q0, q1, n) + 1e-12


def error_sum(q0: np.ndarray, q1: np.ndarray, n: int) -> float:
    """ρ_T of n reports, by all counts and multinomial probabilities."""
    counts = np.array([c for c in itertools.product(range(n + 1), repeat=len(q0) - 1) if sum(c) <= n])
    counts = np.column_stack([counts, n - counts.sum(axis=1)])
    laws = [stats.multinomial.pmf(counts, n, q / q.sum()) for q in (q0, q1)]
    return float(np.minimum(*laws).sum())


@pytest.mark.some(3)
@pytest.mark.parametrize("channel", [BIT, local.BinaryResponse(4.0), None], ids=["1", "4", "open"])
@pytest.mark.parametrize("n", [1, 5, 60])
def test_the_affinity_of_reports_lies_between_its_bounds(channel, n):
    """η_A by enumeration: behind one bit the closest ends are least favourable (binomials have a monotone likelihood ratio)."""
    slope = 1.0 if channel is None else float(np.ptp(channel.channel()[:, 0]))
    for difference in (0.05, 0.3, 1.0):
        starts = np.linspace(0.0, 1.0 - difference, 41)
        shares = [0.5 + slope * (theta - 0.5) for theta in (starts, starts + difference)]
        counts = np.arange(n + 1)[None]
        exact = np.minimum(*(stats.binom.pmf(counts, n, share[:, None]) for share in shares)).sum(axis=1).max()
        found = reports_testing_affinity(COIN, channel, difference=difference, n=n)
        assert found.lower <= exact + 1e-9
        assert exact <= found.upper + 1e-9
        assert found.lower > 0.9 * exact - 1e-9


def test_an_affinity_of_twice_the_distance_is_noticed():
    """The twin of Lemma 3.17 without its factor ½: (1 − d_H²)^n is smaller than η_A."""
    found = reports_testing_affinity(COIN, BIT, difference=1.0, n=60)
    distance = 2 * (1 - found.upper ** (1 / 60))
    assert (1 - distance) ** 60 < found.lower < found.upper


def test_lists_of_members_are_easier_than_the_model():
    """η_A of some members of a model with three outcomes, by the definition over their joint laws, stays below the bound of the model."""
    from dpcore.minimax import minimax_test

    f = np.array([-1.0, 0.0, 1.0])
    of, channel, n, difference = Model.moment(f, kappa=2.0, C=0.6), local.KaryResponse(1.5, k=3), 3, 0.6
    rng = np.random.default_rng(4)
    corners = np.array([of.extreme(d)[1] for d in rng.normal(size=(30, 3))])
    members = np.concatenate([corners, rng.dirichlet(np.full(len(corners), 0.3), 60) @ corners]).clip(0)
    laws = members @ channel.channel()
    joint = np.einsum("ia,ib,ic->iabc", laws, laws, laws).reshape(len(laws), -1)
    joint /= joint.sum(axis=1, keepdims=True)
    thetas, largest = members @ f, 0.0
    for t in np.linspace(-0.5, 0.0, 6):
        below, above = joint[thetas <= t], joint[thetas >= t + difference]
        if len(below) and len(above):
            hard = minimax_test(Model.hull(np.arange(27.0), below), Model.hull(np.arange(27.0), above))
            largest = max(largest, hard.lower)
    found = reports_testing_affinity(of, channel, difference=difference, n=n)
    assert 0.3 * found.lower < largest <= found.upper + 1e-9


@pytest.mark.some(3)
@pytest.mark.parametrize("eta", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("n", [1, 30])
def test_the_difference_lies_between_its_bounds(eta, n):
    counts = np.arange(n + 1)[None]

    def hardest(difference: float) -> float:
        starts = np.linspace(0.0, 1.0 - difference, 81)
        shares = [0.5 + SLOPE * (theta - 0.5) for theta in (starts, starts + difference)]
        return float(np.minimum(*(stats.binom.pmf(counts, n, share[:, None]) for share in shares)).sum(axis=1).max())

    differences = np.linspace(0.0, 1.0, 401)
    exact = max(d for d in differences if hardest(d) > eta)
    found = indistinguishable_difference(COIN, BIT, eta=eta, n=n)
    assert found.value <= exact + 0.0026
    assert exact <= found.upper + 1e-9
    assert found.upper < 6 * max(found.value, 0.01) or found.upper == pytest.approx(1.0)


# Satz 3.10


@pytest.mark.some(1)
@pytest.mark.parametrize("loss", ["squared", "absolute", losses.huber(0.5)], ids=["squared", "absolute", "huber"])
def test_upper_bounds_are_those_of_the_theorem_and_above_an_estimator(loss):
    of, n = Model.moment(np.linspace(-4.0, 4.0, 17), kappa=2.0, C=1.0), 500
    for channel in (local.BinaryChannel(1.0, tuple(np.clip(of.f / 3, -1, 1).tolist())), np.eye(of.size), None):
        found = channel_upper_bound(of, channel, n=n, loss=loss)
        assert found.C0 == upper_bound(of, 1.0, n=n, loss=loss).C0
        if channel is not None and not isinstance(channel, np.ndarray):
            least = channel_lower_bound(of, channel, n=n, loss=loss)
            search = BinarySearchEstimator(of, channel, n=n, step="tuned", loss=loss)
            assert least.value <= search.risk_bound(loss) <= found.value
    opened, kept = (channel_upper_bound(of, each, n=n, loss=loss).value for each in (None, np.eye(of.size)))
    assert opened == pytest.approx(kept, rel=1e-4)


@pytest.mark.parametrize(("origin", "exponent"), [(3.0, -40), (2.0**30, 41)])
def test_units_and_origins_do_not_matter(origin, exponent):
    unit = 2.0**exponent
    moved = Model([origin * unit, (origin + 1) * unit])
    here, there = channel_lower_bound(COIN, BIT, n=50), channel_lower_bound(moved, BIT, n=50)
    assert there.value == pytest.approx(here.value * unit**2, rel=1e-5)
    assert there.difference == pytest.approx(here.difference * unit, rel=1e-5)


# Lemma 3.2


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.95), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_no_test_tells_members_within_the_radius_apart(seed, eta, n):
    rng = np.random.default_rng(seed)
    matrix = rng.dirichlet(np.ones(3), 3) + rng.choice([0.0, 0.1, 1.0])
    matrix /= matrix.sum(axis=1, keepdims=True)
    radius = indistinguishable_radius(matrix, eta=eta, n=n)
    p0, p1 = rng.dirichlet(np.full(3, 0.5), 2)
    share = min(radius / max(np.abs(p1 - p0).sum() / 2, 1e-300), 1.0)
    assert error_sum(p0 @ matrix, (p0 + share * (p1 - p0)) @ matrix, n) >= eta - 1e-12


@pytest.mark.parametrize("eta", [0.6, 0.75, 0.9])
def test_the_radius_of_one_bit_is_narrow(eta):
    """One bit tells the two laws beside the middle apart at 1.4 times the radius, and not within it."""
    channel = local.BinaryResponse(1.0).channel()
    radius = indistinguishable_radius(channel, eta=eta, n=1)
    for share, is_hidden in [(1.0, True), (1.4, False)]:
        beside = np.array([1.0, -1.0]) * share * radius / 2
        assert (error_sum((0.5 + beside) @ channel, (0.5 - beside) @ channel, 1) >= eta) == is_hidden


@pytest.mark.parametrize("n", [1, 20])
def test_a_radius_four_times_as_large_is_noticed(n):
    radius = 4 * indistinguishable_radius(BIT, eta=0.9, n=n)
    middle = np.array([0.5, 0.5])
    apart = middle + min(radius, 0.5) * np.array([-1.0, 1.0])
    assert error_sum(middle @ BIT.channel(), apart @ BIT.channel(), n) < 0.9


@pytest.mark.parametrize("epsilon", [2.0**-20, 0.1, 1.0, 5.0, 700.0])
@pytest.mark.parametrize("n", [1, 1000, 10**12])
def test_the_radius_is_larger_than_that_of_all_private_channels(epsilon, n):
    for channel in (local.BinaryResponse(epsilon), local.KaryResponse(epsilon, k=5)):
        found = indistinguishable_radius(channel, eta=0.5, n=n)
        printed = 0.5 / math.sqrt(2 * n) / math.expm1(epsilon)
        assert found >= 2 * math.sqrt(2) * printed * (1 - 1e-9)
    assert indistinguishable_radius([[0.5, 0.5], [0.5, 0.5]], eta=0.5, n=n) == math.inf
    assert 0 < indistinguishable_radius(np.eye(2), eta=0.5, n=n) <= 1


def test_the_modulus_at_the_radius_is_hidden():
    of = known("moment 2")
    channel = local.KaryResponse(1.0, k=of.size)
    radius = indistinguishable_radius(channel, eta=0.3, n=500)
    assert modulus_tv(of, radius).value <= indistinguishable_difference(of, channel, eta=0.3, n=500).upper * (1 + 1e-9)


@pytest.mark.some(3)
@pytest.mark.parametrize("n", [1, 10**6, 2**53])
@pytest.mark.parametrize("epsilon", [1e-6, 700.0])
def test_extreme_arguments(n, epsilon):
    channel = local.BinaryResponse(epsilon)
    low, high = channel_lower_bound(COIN, channel, n=n), channel_upper_bound(COIN, channel, n=n)
    assert 0 <= low.value <= 0.25 <= 0.25 * (1 + high.value)
    assert low.value <= high.value
    found = reports_testing_affinity(COIN, channel, difference=0.5, n=n)
    assert 0 <= found.lower <= found.upper <= 1
    assert reports_testing_affinity(COIN, channel, difference=1.5, n=n) == (0.0, 0.0)
    assert reports_testing_affinity(COIN, channel, difference=0.0, n=n) == (1.0, 1.0)


def test_a_constant_functional_has_no_risk():
    of = Model([1.0, 1.0, 1.0])
    channel = local.KaryResponse(1.0, k=3)
    assert channel_lower_bound(of, channel, n=10).value == channel_upper_bound(of, channel, n=10).value == 0.0
    assert reports_testing_affinity(of, channel, difference=1e-9, n=10) == (0.0, 0.0)
    assert indistinguishable_difference(of, channel, eta=0.5, n=10).upper < 1e-12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: channel_lower_bound(COIN, BIT, n=0), "n must be"),
        (lambda: channel_lower_bound(COIN, local.KaryResponse(1.0, k=3), n=1), "channel must have 2 rows"),
        (lambda: channel_upper_bound(COIN, [[0.5, 0.6], [0.5, 0.5]], n=1), "masses that sum to 1"),
        (lambda: indistinguishable_difference(COIN, BIT, eta=1.0, n=1), "eta must be"),
        (lambda: indistinguishable_difference(COIN, BIT, eta=math.nan, n=1), "eta must be"),
        (lambda: reports_testing_affinity(COIN, BIT, difference=-1.0, n=1), "difference must be"),
        (lambda: indistinguishable_radius(BIT, eta=0.0, n=1), "eta must be"),
        (lambda: indistinguishable_radius(BIT, eta=0.5, n=2**60), "n must be"),
    ],
)
def test_refused_arguments(call, message):
    with pytest.raises(ParameterError, match=message):
        call()


def test_refused_types():
    with pytest.raises(ParameterTypeError, match="model must be a Model, got list"):
        channel_lower_bound([0.0, 1.0], BIT, n=5)
    with pytest.raises(ParameterTypeError, match="loss must be"):
        channel_upper_bound(COIN, BIT, n=5, loss=3)
