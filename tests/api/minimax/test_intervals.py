"""Intervals from counts: shapes, bad input, and that they are shorter than ± margin."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.local import BinaryChannel, KaryResponse
from dpcore.minimax import BinarySearchEstimator, LinearEstimator, Model, truncated_moment

GRID = np.linspace(-3.0, 3.0, 25)
MODEL = Model.moment(GRID, kappa=2.0, C=1.0)
CHANNEL = BinaryChannel(1.0, np.clip(GRID, -1.5, 1.5))


@pytest.fixture(scope="module")
def binary() -> BinarySearchEstimator:
    return BinarySearchEstimator(MODEL, CHANNEL, n=4000, step=0.1)


@pytest.fixture(scope="module")
def kary() -> BinarySearchEstimator:
    pytest.importorskip("clarabel")
    return BinarySearchEstimator(Model(np.arange(4.0)), KaryResponse(2.0, k=4), n=400, step=0.4)


def test_shapes_follow_those_of_estimate(binary, kary):
    assert binary.interval(counts=2000).shape == (2,)
    assert binary.interval(counts=[1900, 2000]).shape == (2, 2)
    assert binary.interval(counts=[[2100, 1900], [2000, 2000]]).tolist() == binary.interval(counts=[1900, 2000]).tolist()
    assert kary.interval(counts=[100, 100, 100, 100]).shape == (2,)
    assert kary.interval(counts=[[100, 100, 100, 100]] * 3, confidence=0.5).shape == (3, 2)
    assert binary.interval(0.25).tolist() == binary.interval(estimate=0.25, confidence=0.95).tolist()


def test_intervals_from_counts_are_shorter_and_grow_with_the_confidence(binary, kary):
    for counts in (1700, 2000, 2150):
        lengths = [float(np.diff(binary.interval(counts=counts, confidence=c))[0]) for c in (0.5, 0.9, 0.95, 1 - 1e-9)]
        assert lengths == sorted(lengths)
        assert lengths[2] < 2 * binary.margin()
    found = np.diff(kary.interval(counts=[[100, 100, 100, 100], [190, 90, 60, 60], [60, 60, 90, 190]]))
    assert np.all(found < 1.2 * kary.margin())


def test_units_and_offsets_change_nothing(binary):
    model = Model(1e9 - 2.0**20 * GRID, A=[GRID**2], b=[1.0], points=GRID)
    moved = BinarySearchEstimator(model, CHANNEL, n=4000, step=0.1 * 2.0**20)
    low, high = binary.interval(counts=2110)
    assert moved.interval(counts=2110) == pytest.approx([1e9 - 2.0**20 * high, 1e9 - 2.0**20 * low], abs=1e-3 * 2.0**20)


def test_bad_input_is_refused(binary, kary):
    with pytest.raises(ParameterError, match="give either estimate or counts: neither was"):
        binary.interval()
    with pytest.raises(ParameterError, match="both were"):
        binary.interval(0.0, counts=2000)
    for confidence in (0.0, 1.0, float("nan")):
        with pytest.raises(ParameterError, match="confidence"):
            binary.interval(counts=2000, confidence=confidence)
    with pytest.raises(DataError, match=r"counts must be in \[0, 4000\]"):
        binary.interval(counts=4001)
    with pytest.raises(DataError, match="must sum to 400"):
        kary.interval(counts=[100, 100, 100, 101])
    with pytest.raises(ParameterTypeError):
        binary.interval(counts=2000.0)
    with pytest.raises(ParameterError, match="bias is not known"):
        LinearEstimator([-1.0, 1.0], 1.0).interval(3, n=10)
    with pytest.raises(DataError):
        truncated_moment(1.0, n=100, kappa=2.0, C=1.0).interval(101, n=100)
    with pytest.raises(ParameterError, match="n must be"):
        truncated_moment(1.0, n=100, kappa=2.0, C=1.0).interval(0, n=0)


@pytest.mark.parametrize("epsilon", [1e-6, 700.0])
@pytest.mark.parametrize("n", [1, 10**12])
def test_extreme_numbers_of_reports_and_budgets(n, epsilon):
    mean = truncated_moment(epsilon, n=n, kappa=2.0, C=1.0)
    ends = mean.interval([0, n // 2, n], 0.99, n=n)
    assert np.isfinite(ends).all()
    assert np.all(np.diff(ends) >= 0)
    middle = mean.estimate_counts(n // 2, n=n)
    assert ends[1, 0] <= middle <= ends[1, 1]
