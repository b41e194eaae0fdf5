"""Losses and their constants; lower and upper bounds of the private minimax risk beside what is known and beside each other."""

from __future__ import annotations

import itertools
import math
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from dpcore import minimax
from dpcore.errors import DpcoreError, ParameterError, ParameterTypeError
from dpcore.minimax import Loss, Model, loss_constant, losses, lower_bound, modulus_hellinger, modulus_tv, upper_bound
from support.minimax_models import NAMES, model

ALL_LOSSES = [
    losses.absolute(),
    losses.squared(),
    losses.huber(0.3),
    losses.huber(50.0),
    losses.power(0.5),
    losses.power(3.7),
    losses.power(64),
]


@pytest.mark.parametrize("loss", ALL_LOSSES, ids=str)
@given(t=st.one_of(st.just(0.0), st.floats(1e-4, 1e4)), more=st.floats(0.0, 1e4))
def test_losses_are_regular_with_their_constant_and_no_smaller_one(loss, t, more):
    assert loss(0.0) == 0.0
    assert loss(t) <= loss(t + more) * (1 + 1e-12)
    assert loss(1.5 * t) <= loss.constant * loss(t) * (1 + 1e-12) + 1e-300
    # Teeth: at some t the constant is attained.
    assert loss(1.5e-3) == pytest.approx(loss.constant * loss(1e-3), rel=1e-9)


def test_known_losses():
    t = np.array([0.0, 0.5, 2.0, 3.0])
    assert losses.absolute()(t).tolist() == t.tolist()
    assert losses.squared()(t).tolist() == (t**2).tolist()
    assert losses.power(1.5)(t) == pytest.approx(t * np.sqrt(t))
    assert losses.huber(1.0)(t).tolist() == [0.0, 0.125, 1.5, 2.5]
    assert [loss_constant(each) for each in ("absolute", "squared", losses.huber(7.0))] == [1.5, 2.25, 2.25]
    assert loss_constant(losses.power(3)) == 27 / 8
    assert loss_constant(losses.power(0.5)) >= math.sqrt(1.5)
    assert losses.as_loss("absolute") == losses.absolute() == losses.power(1.0)
    assert losses.as_loss(losses.huber(2.0)) == Loss("huber", 2.0)


def test_losses_keep_shapes_and_travel():
    loss = losses.huber(1.0)
    assert type(loss(0.5)) is float
    assert loss(np.float32([[1.0, 2.0]])).shape == (1, 2)
    assert loss(np.zeros((0, 3))).shape == (0, 3)
    assert loss([1, 2]).dtype == np.float64
    errors = np.array([1.0, 2.0])
    losses.absolute()(errors)[0] = 7.0
    assert errors[0] == 1.0
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert len({losses.squared(), losses.power(2.0), losses.power(3.0)}) == 2


def test_refused_losses():
    for r in (0.0, -1.0, 65.0, math.nan, "2", True):
        with pytest.raises((ParameterError, ParameterTypeError), match=r"\br\b"):
            losses.power(r)
    for gamma in (0.0, -1.0, math.inf, None):
        with pytest.raises((ParameterError, ParameterTypeError), match="gamma"):
            losses.huber(gamma)
    with pytest.raises(ParameterError, match="kind"):
        Loss("cubic", 1.0)
    with pytest.raises(ParameterError, match="'absolute', 'squared'"):
        losses.as_loss("huber")
    with pytest.raises(ParameterTypeError, match="loss"):
        lower_bound(model("simplex"), 1.0, n=10, loss=abs)
    for t in (-1.0, math.nan, [0.5, -0.5]):
        with pytest.raises(ParameterError, match=r"\bt\b"):
            losses.squared()(t)


def printed_lower_bound(of: Model, n: int, epsilon: float, loss: Loss, eta: float) -> float:
    """Steinberger (2019), Korollar 3.4, to the letter."""
    eta0 = eta * (2 - eta)
    hellinger = modulus_hellinger(of, math.sqrt(eta0 * abs(math.log(eta0)) / n)).value
    tv = modulus_tv(of, (1 - eta) / math.sqrt(2 * n * math.expm1(epsilon) ** 2)).value
    return loss(max(hellinger, tv) / 2) * eta / 2


@pytest.mark.long
@pytest.mark.parametrize("name", ["simplex", "moment 2", "hoelder 1", "polytope", "hull"])
@pytest.mark.parametrize(("n", "epsilon"), [(50, 0.1), (2_000, 0.5), (2_000, 3.0)])
def test_the_lower_bound_is_at_least_the_printed_one_at_every_eta(name, n, epsilon):
    of, loss = model(name), losses.squared()
    found = lower_bound(of, epsilon, n=n)
    printed = [printed_lower_bound(of, n, epsilon, loss, eta) for eta in (0.05, 0.2, 1 / 3, 0.5, 0.7, 0.9)]
    assert found.value >= max(printed) * (1 - 2e-4)


def test_the_sharper_constant_of_2_3_5_counts_below_ln_2():
    # (2.3.5): e^ε/√2 instead of √2; for a modulus that is linear the bound grows by (2/e^ε)².
    of, epsilon = model("simplex"), 0.05
    printed = max(printed_lower_bound(of, 10**5, epsilon, losses.squared(), eta) for eta in (0.3, 1 / 3, 0.36))
    assert lower_bound(of, epsilon, n=10**5, method="steinberger").value == pytest.approx(printed * (2 / math.exp(epsilon)) ** 2, rel=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("loss", ["absolute", "squared", losses.huber(0.2)], ids=str)
@pytest.mark.parametrize(("name", "n", "epsilon"), [("moment 2", 400, 0.3), ("hull", 100, 2.0), ("moment 1.5", 5_000, 4.0)])
def test_no_other_eta_is_better(name, n, epsilon, loss):
    of = model(name)
    found = lower_bound(of, epsilon, n=n, loss=loss, method="steinberger")
    factor = min(math.sqrt(2), math.exp(epsilon) / math.sqrt(2)) * math.expm1(epsilon) * math.sqrt(n)
    for eta in np.linspace(0.02, 0.98, 11):
        tv = modulus_tv(of, (1 - eta) / factor).value
        hellinger = modulus_hellinger(of, math.sqrt(2 * (1 - (eta * (2 - eta)) ** (1 / (2 * n))))).value
        assert losses.as_loss(loss)(max(tv, hellinger) / 2) * eta / 2 <= found.value * (1 + 2e-4)


@pytest.mark.some(2)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("n", "epsilon"), [(1, 1.0), (1_000, 0.1), (10**6, 5.0)])
@pytest.mark.parametrize("method", ["best", "lecam", "van_trees", "steinberger"])
def test_what_a_lower_bound_says_of_itself(name, n, epsilon, method):
    of = model(name)
    found = lower_bound(of, epsilon, n=n, method=method)
    assert found.verify(of) <= 1e-9
    assert of.contains(found.p0, tolerance=1e-8)
    assert of.contains(found.p1, tolerance=1e-8)
    assert found.difference == pytest.approx(of.theta(found.p1) - of.theta(found.p0), rel=1e-6)
    assert found.difference <= (of.theta(found.p1) - of.theta(found.p0)) * (1 + 1e-9)
    assert found.tv >= minimax.tv(found.p0, found.p1) * (1 - 1e-9)
    assert 0 <= found.eta <= 1
    # No linear difference of θ is larger than the modulus at this distance.
    assert found.difference <= modulus_tv(of, found.tv).upper * (1 + 1e-6)
    # A constant is an estimator too.
    low, high = of.theta_range
    assert found.value <= ((high - low) / 2) ** 2
    assert found.value <= upper_bound(of, epsilon, n=n).value


@pytest.mark.long
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.sampled_from([0.05, 0.4, 1.0, 2.5]), st.sampled_from(["lecam", "steinberger"]))
@settings(max_examples=40)
def test_the_members_of_a_lower_bound_cannot_be_told_apart(seed, n, epsilon, method):
    # By enumeration: with all n reports of any private channels, no test of p0 against p1 has a sum of errors below η.
    of = model("moment 2")
    found = lower_bound(of, epsilon, n=n, method=method)
    generator = np.random.default_rng(seed)
    plus = 1 / (1 + math.exp(-epsilon))
    signs = np.sign(found.p1 - found.p0) if seed % 2 else generator.choice([-1.0, 1.0], size=of.size)
    question = np.where(signs > 0, plus, 1 - plus)
    channel = np.column_stack([1 - question, question])
    reports = [minimax.apply(channel, p) for p in (found.p0, found.p1)]
    laws = [np.array([math.prod(masses) for masses in itertools.product(q, repeat=n)]) for q in reports]
    assert minimax.testing_affinity(*laws) >= found.eta * (1 - 1e-9)


@pytest.mark.parametrize("epsilon", [0.02, 0.05, 0.1])
def test_eta_is_not_too_small_either(epsilon):
    # Teeth: n binary reports about the two members are as hard to tell apart as η says, about members four times as far they are not.
    n = 10_000
    found = lower_bound(Model([0.0, 1.0]), epsilon, n=n, method="lecam")
    affinities = []
    for distance in (found.tv, 4 * found.tv):
        shift = distance * math.tanh(epsilon / 2) / 2  # as if larger distances were possible
        laws = [binom.pmf(np.arange(n + 1), n, 0.5 + side * shift) for side in (-1, 1)]
        affinities.append(minimax.testing_affinity(*laws))
    assert affinities[0] >= found.eta > affinities[1]


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("loss", ALL_LOSSES, ids=str)
def test_two_point_risks_by_enumeration(loss, n):
    # Open records of two known laws, ε = 700: no estimator has a smaller mean of the two risks than the one that knows both laws.
    of = Model([0.0, 1.0])
    found = lower_bound(of, 700.0, n=n, loss=loss, method="lecam")
    low, high = float(found.p0[1]), float(found.p1[1])
    laws = binom.pmf(np.arange(n + 1), n, low), binom.pmf(np.arange(n + 1), n, high)
    answers = np.linspace(low, high, 2001)[:, None]
    chosen = losses.as_loss(loss)
    risks = (laws[0] * chosen(np.abs(answers - low)) + laws[1] * chosen(np.abs(answers - high))) / 2
    least = float(risks.min(axis=0).sum())
    assert found.value <= least * (1 + 1e-9)
    if chosen.kind == "huber" or chosen.parameter < 8:
        assert found.value >= least / 4  # of the right size


def test_the_bound_of_squared_loss_is_four_times_the_tested_one_where_nothing_is_learnt():
    # One report of ε = 2^−20 is worth nothing: the best estimate is the middle, with the risk (½ range)².
    of = Model([0.0, 1.0, 3.0])
    assert lower_bound(of, 2.0**-20, n=1).value == pytest.approx(2.25, rel=1e-5)
    assert lower_bound(of, 2.0**-20, n=1, method="steinberger").value == pytest.approx(1.125, rel=1e-2)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_bounds_of_a_proportion_nearly_meet(epsilon):
    # Binary randomised response has the worst-case risk z0²/(4n) exactly; with many reports nobody has much less.
    n = 10**8
    z0 = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    found = lower_bound(Model([0.0, 1.0]), epsilon, n=n)
    assert found.method == "van_trees"
    assert 0.9 * z0**2 / (4 * n) <= found.value <= z0**2 / (4 * n)


@pytest.mark.parametrize("change", ["value", "p1", "n", "epsilon"])
def test_verify_rejects_what_is_not_proved(change):
    of = model("moment 2")
    found = lower_bound(of, 1.0, n=1_000)
    broken = {
        "value": {"value": found.value * (1 + 1e-9)},
        "p1": {"p1": found.p0 + 0.999 * (found.p1 - found.p0)},
        "n": {"n": 1_010},
        "epsilon": {"epsilon": 1.01},
    }[change]
    assert found.verify(of) < 1e-15
    with pytest.raises(DpcoreError, match="does not follow"):
        replace(found, **broken).verify(of)


def test_verify_sees_distributions_outside_of_the_model():
    wide, narrow = model("moment 2"), Model.moment(np.linspace(-10.0, 10.0, 81), kappa=2.0, C=0.5)
    found = lower_bound(wide, 1.0, n=1_000)
    assert found.verify(narrow) > 1e-3
    with pytest.raises(ParameterError, match="must have 81 points"):
        found.verify(model("moment 1.5"))


@pytest.mark.parametrize("loss", ["squared", losses.power(64), losses.power(0.3), losses.huber(1e-9)], ids=str)
@pytest.mark.parametrize("unit", [1e-300, 1e-160, 1e12, 1e300])
def test_bounds_in_any_unit_are_finite_and_verified(loss, unit):
    of = Model([0.0, unit])
    found = lower_bound(of, 1.0, n=1_000, loss=loss)
    assert 0 <= found.value < math.inf
    assert found.value <= losses.as_loss(loss)(unit / 2) * (1 + 1e-12)
    assert found.verify(of) == 0.0


def test_a_value_where_no_mass_is_possible_does_not_count():
    of = Model([0.0, 1.0, 1e300], A=[[0.0, 0.0, 1.0]], b=[0.0])
    found = lower_bound(of, 1.0, n=1_000)
    assert found.value == pytest.approx(lower_bound(Model([0.0, 1.0]), 1.0, n=1_000).value, rel=1e-5)
    assert found.verify(of) < 1e-15


def test_differences_of_theta_are_those_of_the_model_and_not_of_its_rounded_form():
    # θ of the members differs by 1e-7 of what its terms do, and subtracting the middle of the values rounds the terms.
    f = np.array([0.1, 1.3, 2.7, 3.1])
    of = Model(f, A=[f + np.array([0.0, 0.0, 1e-7, 0.0]), -f], b=[1.7, -1.7 + 1e-8])
    found = lower_bound(of, 1.0, n=1_000)
    p0, p1 = ([Fraction(mass) for mass in p.tolist()] for p in (found.p0, found.p1))
    gap = sum(Fraction(v) * (b / sum(p1) - a / sum(p0)) for v, a, b in zip(f.tolist(), p0, p1, strict=True))
    assert 0 < Fraction(found.difference) <= gap
    assert found.difference == pytest.approx(float(gap), rel=1e-12)


@pytest.mark.parametrize("epsilon", [1.0, 700.0])
@pytest.mark.parametrize("n", [30, 300])
def test_van_trees_on_a_segment_by_quadrature(n, epsilon):
    # The Bayes risk for n binary reports and the prior cos² on the segment of the bound, by sums over counts and a fine grid.
    # No bound of this method may exceed it; the information of the prior is much of what decides that at small n.
    found = lower_bound(Model([0.0, 1.0]), epsilon, n=n, method="van_trees")
    s = np.linspace(-1.0, 1.0, 4_001)
    prior = np.cos(np.pi * s / 2) ** 2
    plus = 1 / (1 + math.exp(-epsilon))
    theta = (found.p0[1] + found.p1[1]) / 2 + s * (found.p1[1] - found.p0[1]) / 2
    reports = (1 - plus) + theta * (2 * plus - 1)
    joint = prior / prior.sum() * binom.pmf(np.arange(n + 1)[:, None], n, reports)
    marginal = joint.sum(axis=1)
    mean = joint @ theta / np.maximum(marginal, 1e-300)
    bayes = float((joint * (theta - mean[:, None]) ** 2).sum())
    assert found.value <= bayes * (1 + 1e-6)
    assert found.value >= 0.4 * bayes  # of the right size


def test_van_trees_is_for_squared_loss():
    with pytest.raises(ParameterError, match="squared loss only"):
        lower_bound(model("simplex"), 1.0, n=10, loss="absolute", method="van_trees")
    with pytest.raises(ParameterError, match="method"):
        lower_bound(model("simplex"), 1.0, n=10, method="fano")


@pytest.mark.some(4)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("n", [10, 1_000])
def test_the_lower_bound_of_a_proportion_beside_estimators(epsilon, n):
    # Randomised response: worst-case risk z0²/(4n), z0 = (e^ε + 1)/(e^ε − 1); without privacy 1/(4n).
    found = lower_bound(Model([0.0, 1.0]), epsilon, n=n)
    z0 = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    assert found.value <= z0**2 / (4 * n)
    # Rate and constant: within a factor of 60 of an estimator's risk, or of the whole range's.
    assert found.value >= min(z0**2 / (4 * n), 0.25) / 60
    assert upper_bound(Model([0.0, 1.0]), epsilon, n=n).value >= found.value


@pytest.mark.long
def test_bounds_are_monotone_in_n_and_epsilon():
    of = model("moment 2")
    for bound in (lower_bound, upper_bound):
        by_n = [bound(of, 0.5, n=n).value for n in (1, 10, 100, 10**4, 10**6, 10**9)]
        by_epsilon = [bound(of, epsilon, n=1_000).value for epsilon in (1e-4, 0.1, 0.5, 2.0, 8.0, 300.0)]
        for values in (by_n, by_epsilon):
            assert all(after <= before * (1 + 1e-3) for before, after in itertools.pairwise(values))


def test_much_privacy_leaves_nothing_and_none_leaves_the_sample():
    of = model("two points")
    # Bemerkung 3.5 d: ε ≪ n^{-1/2} does not converge; ε → ∞ is the problem without privacy.
    assert lower_bound(of, 1e-5, n=10**6).value > 0.05
    assert lower_bound(of, 700.0, n=1_000).distance == "hellinger"
    assert lower_bound(of, 700.0, n=1_000).value == pytest.approx(lower_bound(of, 20.0, n=1_000).value, rel=1e-9)


@pytest.mark.parametrize(
    ("loss", "a", "steps"), [("absolute", 1.5, 7), ("squared", 2.25, 7), (losses.huber(1.0), 2.25, 7), (losses.power(4), 5.0625, 8)]
)
def test_the_constant_of_satz_3_10(loss, a, steps):
    C = math.sqrt(2 * math.log(2 * a)) + 2
    assert steps - 1 < 2 * math.log(C) / math.log(1.5) <= steps
    found = upper_bound(model("simplex"), 1.0, n=10**6, loss=loss)
    assert found.C0 / ((1 + 16 * a) * a**steps) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.some(4)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("loss", ["absolute", "squared"])
def test_the_upper_bound_is_korollar_3_14(name, loss):
    of, n, epsilon = model(name), 3_000, 0.8
    found = upper_bound(of, epsilon, n=n, loss=loss)
    radius = math.sqrt(2 * (math.exp(epsilon) + 1) ** 2 / (n * (math.exp(epsilon) - 1) ** 2))
    assert found.radius == pytest.approx(radius, rel=1e-9)
    value = modulus_tv(of, radius).value
    assert found.value == pytest.approx(found.C0 * losses.as_loss(loss)(value), rel=1e-6)
    assert found.value >= found.C0 * losses.as_loss(loss)(value)


def test_rates_in_n_of_moments():
    # Beispiel 3.6 B: squared risk falls as n^{-(κ−1)/κ} under privacy, and both bounds do.
    of = Model.moment(np.concatenate([-np.geomspace(1e3, 1e-2, 60), np.geomspace(1e-2, 1e3, 60)]), kappa=2.0, C=1.0)
    sizes = [10**3, 10**6]
    for bound in (lower_bound, upper_bound):
        risks = [bound(of, 0.5, n=n).value for n in sizes]
        assert np.diff(np.log(risks))[0] / np.diff(np.log(sizes))[0] == pytest.approx(-0.5, abs=0.05)


@pytest.mark.parametrize("bound", [lower_bound, upper_bound])
def test_refused_arguments(bound):
    of = model("simplex")
    for n in (0, -3, 2.0, True, 2**54):
        with pytest.raises((ParameterError, ParameterTypeError), match=r"\bn\b"):
            bound(of, 1.0, n=n)
    for epsilon in (0.0, -1.0, 701.0, math.nan, "1"):
        with pytest.raises((ParameterError, ParameterTypeError), match="epsilon"):
            bound(of, epsilon, n=10)
    with pytest.raises(ParameterTypeError, match="model must be a Model"):
        bound(np.eye(3), 1.0, n=10)


def test_a_constant_functional_has_no_risk():
    of = Model([2.0, 2.0])
    assert lower_bound(of, 1.0, n=10).value == pytest.approx(0.0, abs=1e-12)
    assert upper_bound(of, 1.0, n=10).value == pytest.approx(0.0, abs=1e-9)
