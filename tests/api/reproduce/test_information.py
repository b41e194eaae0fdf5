"""What the study of Wasserman & Zhou (2010) on information is made of; each check refuses a broken twin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpcore.distributions import ks_distance
from dpcore.reproduce import information as own
from dpcore.reproduce.densities import Linear
from dpcore.reproduce.estimates import Mean
from dpcore.reproduce.rate_curves import Curve
from dpcore.reproduce.setting import Setting
from dpcore.reproduce.studies import information as study
from dpcore.testing import KeyedRandom

QUICK = Setting(1, quick=True)


@pytest.fixture
def stream():
    return KeyedRandom(bytes(range(32)))


@pytest.mark.parametrize("slope", [0.0, 1.0])
@pytest.mark.parametrize("k", [1, 5, 60])
def test_distances_of_draws_in_the_plane(slope, k):
    density, random = Linear(slope), np.random.default_rng(k)
    draws = np.round(random.random((k, 2)), 2)  # with ties
    found = own.draws_ks_plane(density, draws)
    assert found == pytest.approx(ks_distance(draws, lambda x: density.cdf(np.clip(x, 0, 1)).prod(axis=1)), abs=1e-12)
    assert found >= abs(1 - density.cdf(draws.max(axis=0)).prod()) - 1e-12


def test_distances_of_histograms_in_the_plane():
    density, bins = Linear(1.0), 3
    masses = np.random.default_rng(0).dirichlet(np.ones(9), 4)
    found = own.histograms_ks_plane(density, masses)
    x = np.linspace(0, 1, 8 * bins + 1)
    for row, distance in zip(masses, found, strict=True):
        below = np.zeros((len(x), len(x)))
        for i, mass in enumerate(row):
            part = [np.clip(x * bins - at, 0, 1) for at in divmod(i, bins)]
            below += mass * np.outer(*part)
        assert distance == pytest.approx(np.abs(below - np.outer(density.cdf(x), density.cdf(x))).max(), abs=1e-12)
    uniform = own.histograms_ks_plane(Linear(0.0), np.full((1, 9), 1 / 9))
    assert uniform[0] == pytest.approx(0.0, abs=1e-12)


def test_errors_of_means_are_those_of_their_laws(stream):
    errors = own.mean_errors(400, 300, stream)
    variance = 1 / 12 - 1 / 144
    expected = {
        "the data's mean": variance / 400,
        "exponential mechanism": (variance + 1) / 400,
        "Laplace noise": variance / 400 + 2 / 400**2,
    }
    for name, value in expected.items():
        assert abs(errors[name].mean() - value) < 6 * errors[name].std() / 300**0.5
    assert errors["exponential mechanism"].mean() > 4 * errors["Laplace noise"].mean()


def curve(exponent: float) -> Curve:
    n = (1000, 10_000, 100_000)
    means = tuple(Mean(size**exponent, size**exponent / 1000) for size in n)
    return Curve("a", "perturbed_histogram", "ks", n, means, (9, 9, 9), {"dimension": 2})


def test_slopes_in_the_plane_are_judged():
    assert study._no_slower(curve(-0.5)).holds
    assert not study._no_slower(curve(-0.2)).holds
    assert study._between(curve(-0.5), QUICK).holds
    assert not study._between(curve(-0.25), QUICK).holds


def test_small_balls_are_judged():
    assert study._below([0.2, 0.9, 1.0], [0.1, 0.9, 1.0], 1000).holds
    assert not study._below([0.2, 0.9], [0.5, 0.8], 1000).holds
    assert study._within({10: (1.0, 0.5), 100: (0.5, 0.2)}).holds
    assert not study._within({10: (1.0, 0.5), 100: (0.1, 0.2)}).holds


def checks(section) -> dict[str, bool]:
    return {check.claim: check.holds for check in section.checks}


def test_one_record(monkeypatch):
    assert all(checks(study._one_record(QUICK)).values())
    two = own.two_laws
    monkeypatch.setattr(
        own, "two_laws", lambda epsilon, n, others: two(1.05 * epsilon, n, others)
    )  # a mechanism that loses more than it says
    assert not any(checks(study._one_record(QUICK)).values())


def test_covariances(monkeypatch):
    assert all(checks(study._covariance(QUICK)).values())
    right = study.series_covariance
    monkeypatch.setattr(study, "series_covariance", lambda beta, terms: 2 * right(beta, terms=terms))
    assert not any(checks(study._covariance(QUICK)).values())


def test_the_power_of_the_best_test_is_that_of_neyman_and_pearson():
    rows = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
    assert study._powers(rows, np.array([0.0, 0.2, 0.35, 1.0])).tolist() == pytest.approx([0.0, 0.5, 0.65, 1.0])


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_every_claim_of_a_quick_run_holds(seed):
    for section in study.sections(replace(QUICK, seed=seed)):
        assert all(checks(section).values()), section.title
