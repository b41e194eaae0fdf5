"""Studies of Steinberger (2019), chapters 1 to 3: their checks hold, and each refuses a broken twin of what it checks."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest

from dpcore import local
from dpcore.minimax import Bounds
from dpcore.reproduce import Setting, open_records, products, scope
from dpcore.reproduce.studies import limits, minimax, minimax_bounds, minimax_channels, minimax_tests

pytest.importorskip("clarabel")
QUICK = Setting(3, quick=True)


def broken(section) -> set[str]:
    """Claims of a section that do not hold."""
    return {check.claim for check in section.checks if not check.holds}


CHEAP = {
    "contraction": (lambda: limits._contraction(QUICK), 5),
    "exchange": (lambda: minimax_tests._exchange(QUICK), 3),
    "chain": (lambda: products.chain("t", QUICK), 3),
    "records": (lambda: products.records("t", QUICK), 5),
    "densities": (lambda: minimax_channels._densities(QUICK), 6),
    "normal": (lambda: minimax_channels._normal(QUICK), 3),
    "several": (lambda: minimax_channels._several(QUICK), 5),
    "metrics": (lambda: minimax_bounds._metrics(QUICK), 3),
    "powers": (lambda: minimax_bounds._powers(QUICK), 3),
}


@pytest.mark.parametrize("name", CHEAP)
def test_checks_hold(name):
    run, count = CHEAP[name]
    section = run()
    assert broken(section) == set()
    assert len(section.checks) == count
    assert all(isinstance(check.holds, bool) for check in section.checks)


def test_a_chain_rule_with_another_weight_is_noticed(monkeypatch):
    monkeypatch.setattr(products, "kl_terms", lambda p, q: kl_terms(p, q) * 1.001)
    from dpcore.minimax import kl_terms

    assert broken(products.chain("t", QUICK)) == {"the terms sum to the divergence of the first i reports, for every i"}


def test_a_distance_of_one_record_in_place_of_n_is_noticed(monkeypatch):
    from dpcore.minimax import tv_of_products

    monkeypatch.setattr(products, "tv_of_products", lambda p, q, n: tv_of_products(p, q, 1))
    assert "open records: the distance is 1 − (1 − 1/n)ⁿ" in broken(products.records("t", QUICK))


def test_densities_of_another_version_are_noticed(monkeypatch):
    def version(channel, *, reference=0):
        matrix = np.asarray(channel)
        return np.where(
            matrix[reference] > 0, matrix / np.where(matrix[reference] > 0, matrix[reference], 1), np.arange(len(matrix))[:, None]
        )

    monkeypatch.setattr(minimax_channels, "channel_densities", version)
    assert broken(minimax_channels._densities(QUICK)) == {"densities obey the bound at every report, for every reference"}


def test_reports_at_the_whole_budget_each_are_noticed(monkeypatch):
    whole = minimax_channels._bits
    monkeypatch.setattr(minimax_channels, "_bits", lambda k, epsilon: whole(k, 1.0))
    assert "the product channel has the level α₁ + … + α_k" in broken(minimax_channels._several(QUICK))


def test_a_bound_that_is_a_power_of_the_wrong_affinity_is_noticed(monkeypatch):
    from dpcore.minimax import reports_testing_affinity

    def twin(*arguments, difference, n):
        found = reports_testing_affinity(*arguments, difference=difference, n=n)
        return Bounds(found.lower, max(2 * found.upper ** (1 / n) - 1, 0.0) ** n)

    monkeypatch.setattr(minimax_bounds, "reports_testing_affinity", twin)
    assert "η_A(Δ) is at most the bound" in broken(minimax_bounds._powers(QUICK))


def test_a_metric_that_is_too_large_is_noticed(monkeypatch):
    from dpcore.minimax import tv

    monkeypatch.setattr(minimax_bounds, "tv", lambda p, q: np.asarray(tv(p, q)) ** 0)
    assert "ω(g⁻) is at most Δ₂(η), for both metrics and every η" not in broken(minimax_bounds._metrics(QUICK))  # any metric will do
    monkeypatch.setattr(minimax_bounds, "indistinguishable_difference", lambda *_, **__: replace(_modulus(), upper=0.0))
    assert "Δ₂(η) is at most the bound of Δ_A(η)" in broken(minimax_bounds._metrics(QUICK))


def _modulus():
    from dpcore.minimax import Model, modulus_tv

    return modulus_tv(Model([0.0, 1.0]), 0.1)


STATED = "each bound is l(½Δ) η/2 for the testing affinity η of the reports of its pair"


def test_a_lower_bound_that_is_too_large_is_noticed(monkeypatch):
    from dpcore.minimax import channel_lower_bound

    bound = cache(lambda *arguments, n: channel_lower_bound(*arguments, n=n))
    monkeypatch.setattr(minimax_bounds, "_least_risk", cache(minimax_bounds._least_risk))
    for factor, noticed in ((1, set()), (2, {STATED}), (4, {STATED, "no estimator goes below the bound"})):
        larger = partial(lambda factor, *arguments, n: replace(found := bound(*arguments, n=n), value=factor * found.value), factor)
        monkeypatch.setattr(minimax_bounds, "channel_lower_bound", larger)
        assert broken(minimax_bounds._least(QUICK)) == noticed


def test_half_of_another_affinity_than_that_of_the_majority_is_noticed():
    response = local.BinaryResponse(1.0)
    assert minimax_bounds._majority_off(response, 3) < 1e-9
    assert minimax_bounds._majority_off(response, 4) < 1e-9
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minimax_bounds, "reports_testing_affinity", lambda *_, **__: Bounds(0.4, 0.5))
        assert minimax_bounds._majority_off(response, 3) > 0.01


@pytest.mark.parametrize("name", ["3.6 A", "3.6 B"])
def test_a_modulus_of_another_size_is_noticed(monkeypatch, name):
    from dpcore.minimax import modulus_tv

    assert all(check.holds for check in minimax._modulus(name))
    monkeypatch.setattr(minimax, "modulus_tv", lambda model, radius: modulus_tv(model, 1.01 * radius))
    assert [check.holds for check in minimax._modulus(name)] == [True, False]


@pytest.mark.long
def test_affinities_that_are_too_small_are_noticed(monkeypatch):
    from dpcore.minimax import affinity_of_models

    assert broken(minimax_tests._products(QUICK)) == set()
    calls = iter(range(10**6))

    def twin(*models, **keywords):
        """Every third affinity, that of the products, is a little larger."""
        found = affinity_of_models(*models, **keywords)
        return replace(found, value=min(found.value * 1.01, 1.0)) if next(calls) % 4 == 2 else found

    monkeypatch.setattr(minimax_tests, "affinity_of_models", twin)
    assert "affinities of hulls of products are at most the product" in broken(minimax_tests._products(QUICK))


@pytest.mark.long
def test_tests_that_are_not_the_best_are_noticed(monkeypatch):
    from dpcore.minimax import minimax_test

    assert broken(minimax_tests._identity(QUICK)) == broken(minimax_tests._attained(QUICK)) == set()
    monkeypatch.setattr(
        minimax_tests,
        "minimax_test",
        lambda *models, **keywords: replace(found := minimax_test(*models, **keywords), value=found.value + 1e-3),
    )
    assert "the worst errors of the test and the affinity of the pair agree" in broken(minimax_tests._identity(QUICK))
    assert "the test attains the infimum on every grid" in broken(minimax_tests._attained(QUICK))


@pytest.mark.long
def test_a_modulus_with_another_constant_is_noticed(monkeypatch):
    from dpcore.minimax import modulus_hellinger, modulus_tv

    assert broken(scope.discontinuity("t", QUICK)) == broken(scope.one_bit_scope("t", QUICK)) == set()
    monkeypatch.setattr(scope, "modulus_tv", lambda model, radius: modulus_tv(model, radius / 2))
    assert "ω_TV(ε) is min(1, Kε)" in broken(scope.discontinuity("t", QUICK))
    monkeypatch.setattr(scope, "modulus_hellinger", lambda model, radius, channel: modulus_hellinger(model, 1.5 * radius, channel=channel))
    assert len(broken(scope.one_bit_scope("t", QUICK))) >= 2


def test_a_constant_that_some_channel_exceeds_is_noticed(monkeypatch):
    from dpcore.minimax import contraction_bound

    def twin(epsilon, tv, *, method="chi2"):
        if method != "chi2":
            return contraction_bound(epsilon, tv, method=method)
        return math.expm1(epsilon) ** 2 / math.exp(epsilon) * tv**2

    monkeypatch.setattr(limits, "contraction_bound", twin)
    assert "χ² and both divergences are at most c·tv²" in broken(limits._contraction(QUICK))
    monkeypatch.setattr(limits, "contraction_bound", lambda *a, **k: 1.02 * contraction_bound(*a, **k))
    assert broken(limits._contraction(QUICK)) == {"and no smaller c would do"}


# Open records


@pytest.mark.parametrize("name", open_records.OPEN_EXAMPLES)
def test_risks_of_open_records_are_those_of_a_simulation_of_its_own(name):
    """NumPy's draws of records, and the estimator as the study describes it."""
    example, n, replicates = open_records.OPEN_EXAMPLES[name], 64, 20_000
    rng = np.random.default_rng(5)
    if name == "3.6 B":
        errors = rng.choice([-1.0, 1.0], size=(replicates, n)).mean(axis=1)
    elif name == "3.7":
        errors = rng.uniform(size=(replicates, n)).max(axis=1) - 1
    else:
        # (1 + cos x)/2π, by rejection from the uniform law
        x = rng.uniform(-math.pi, math.pi, size=8 * replicates * n // 3)
        x = x[rng.uniform(size=len(x)) < (1 + np.cos(x)) / 2][: replicates * n].reshape(-1, n)
        h = n**-0.2
        if name.endswith("0"):
            errors = (np.abs(x) <= h).mean(axis=1) / (2 * h) - 1 / math.pi
        else:
            u = x - math.pi / 2
            errors = (((u > 0) & (u <= h)).mean(axis=1) - ((u <= 0) & (u > -h)).mean(axis=1)) / h**2 + 1 / (2 * math.pi)
    squares = errors**2
    stderr = squares.std() / math.sqrt(len(squares))
    assert abs(squares.mean() - example.risk(n)) < 5.5 * stderr
    own = example.errors(n, replicates, QUICK.stream("a test", name)) ** 2
    assert abs(own.mean() - example.risk(n)) < 5.5 * own.std() / math.sqrt(replicates)


@pytest.mark.parametrize("n", [1, 10, 1000])
def test_the_bound_of_two_uniform_distributions(n):
    """Over a grid of δ, with the testing affinity by its definition, and below the risk of the largest of n numbers."""
    delta = np.linspace(0, 1, 100_001)
    exact = ((delta / 2) ** 2 * (1 - delta) ** n / 2).max()  # min(1, (1 − δ)^−n) has the integral (1 − δ)^n over [0, 1 − δ]^n
    assert open_records.uniform_pair_bound(n) == pytest.approx(exact, rel=1e-6)
    assert open_records.uniform_pair_bound(n) < open_records.OPEN_EXAMPLES["3.7"].risk(n)


def test_densities_of_open_records_belong_to_the_class():
    """(1 + cos x)/2π has a second derivative of at most 1/2π, and H(2, 1) allows changes of 1."""
    z = np.linspace(-math.pi, math.pi, 1001)
    assert np.ptp(-np.cos(z) / (2 * math.pi)) <= 1
    assert open_records._bump(math.pi) - open_records._bump(-math.pi) == pytest.approx(1.0)
