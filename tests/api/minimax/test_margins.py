"""The binary search of tests: its default step, margins, intervals and progress."""

from __future__ import annotations

import inspect
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.local import BinaryChannel, KaryResponse
from dpcore.minimax import BinarySearchEstimator, Model, optimal_channel, worst_distribution

GRID = np.linspace(-3.0, 3.0, 25)
MODEL = Model.moment(GRID, kappa=2.0, C=1.0)
CHANNEL = BinaryChannel(1.0, np.clip(GRID, -1.5, 1.5))


@pytest.fixture(scope="module")
def binary() -> BinarySearchEstimator:
    return BinarySearchEstimator(MODEL, CHANNEL, n=403, step=0.3)


@pytest.fixture(scope="module")
def kary() -> BinarySearchEstimator:
    pytest.importorskip("clarabel")
    return BinarySearchEstimator(Model(np.arange(4.0)), KaryResponse(2.0, k=4), n=403, step=0.4)


def test_the_tuned_step_is_the_default():
    assert inspect.signature(BinarySearchEstimator).parameters["step"].default == "tuned"


@pytest.mark.long
@pytest.mark.parametrize(("n", "epsilon"), [(1, 1.0), (20, 0.01), (3, 2.0**-20)])
def test_with_too_few_reports_tuning_gives_the_middle_and_bounds_that_hold(n, epsilon):
    optimal = optimal_channel(MODEL, epsilon, n=n)
    estimator = BinarySearchEstimator(MODEL, optimal, n=n)
    assert optimal.certificate.holds
    low, high = estimator.theta_range
    if estimator.N <= 2:
        assert set(estimator.estimate(np.arange(n + 1))) == {estimator.values[0]}
        assert estimator.margin(0.999) == pytest.approx((high - low) / 2)
    assert estimator.risk_bound() >= worst_distribution(estimator).risk * (1 - 1e-9)
    assert estimator.interval(estimator.estimate(0), 0.999) == pytest.approx((low, high), abs=1e-9)


@pytest.mark.parametrize("which", ["binary", "kary"])
def test_a_margin_is_the_first_that_the_bound_allows(which, request):
    estimator = request.getfixturevalue(which)
    for confidence in (0.5, 0.95, 0.999, 1 - 1e-9):
        steps = round(estimator.margin(confidence) / estimator.step)
        assert estimator.error_bound(steps - 1) <= 1 - confidence
        assert steps == 1 or estimator.error_bound(steps - 2) > 1 - confidence * (1 + 1e-12)
    with pytest.raises(ParameterError, match="confidence must be in"):
        estimator.margin(1.0)
    assert estimator.margin(Decimal("0.95")) == estimator.margin(Fraction(19, 20)) == estimator.margin(0.95)


def test_intervals_cover_where_a_test_ends_at_the_range():
    """The step divides the range, so that the last cell is a single point up to rounding."""
    f = np.array([0.0, 0.1, 0.3, 1.0])
    estimator = BinarySearchEstimator(Model(f), BinaryChannel(2.0, f - f.mean()), n=20, step=0.5)
    counts = np.arange(21)
    low, high = estimator.interval(estimator.estimate(counts), 0.95).T
    for theta, q in zip(f, estimator.matrix[:, 1], strict=True):
        assert stats.binom.pmf(counts, 20, q)[(low <= theta) & (theta <= high)].sum() >= 0.95


def test_intervals_are_cut_to_the_range(binary):
    low, high = binary.theta_range
    margin = binary.margin(0.9)
    assert binary.interval(0.0, 0.9).tolist() == [max(-margin, low), min(margin, high)]
    found = binary.interval([low, 0.1], confidence=0.9)
    assert found.shape == (2, 2)
    assert found[0].tolist() == [low, min(low + margin, high)]


@pytest.mark.long
@pytest.mark.parametrize("channel", [CHANNEL, np.random.default_rng(0).dirichlet(np.ones(3), 25)], ids=["binary", "three"])
def test_construction_reports_its_progress(channel):
    seen: list[tuple[int, int]] = []
    silent = BinarySearchEstimator(MODEL, channel, n=200)
    told = BinarySearchEstimator(MODEL, channel, n=200, progress=lambda done, total: seen.append((done, total)))
    assert told.step == silent.step
    assert len({total for _, total in seen}) == 1
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1][0] == seen[-1][1] > 30
    with pytest.raises(ParameterTypeError, match="progress must be a function"):
        BinarySearchEstimator(MODEL, channel, n=200, progress=True)


def test_notebooks_see_a_table(binary):
    shown = binary._repr_html_()
    assert shown.startswith("<table>")
    assert "403" in shown
