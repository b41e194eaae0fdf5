"""Private tests of distributions: forms of input, refusals, the slow twin, known answers."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from dpcore import DataError, ParameterError, ParameterTypeError, Privacy, inference
from dpcore.inference import (
    TestOutcome,
    identity_test,
    sample_size_needed,
    sample_size_order,
    sign_separation,
    uniformity_test,
)
from dpcore.inference._signs import SignRows, check_signs
from dpcore.inference._thresholds import thresholds
from dpcore.inference._whitening import signs_of_whitened, whitened, whitening_matrix
from dpcore.inference.distribution_tests import _noisy_statistic, noisy_sums, squared_length, uniform_sums
from dpcore.testing import KeyedRandom
from support.kernels import KEY
from support.signs import slow_statistic, uniform_rows

SIGNED = ("int8", "int16", "int32", "int64", "float16", "float32", "float64")


def signs_of(n, d, seed=0):
    return 2 * np.random.default_rng(seed).integers(0, 2, (n, d)) - 1


def packed(signs):
    return np.packbits(np.asarray(signs) > 0, axis=1, bitorder="little")


def run(X, **options):
    return uniformity_test(X, 2.0, 1e-3, alpha=0.5, rng=KeyedRandom(KEY), **options)


# Forms of input


@pytest.mark.parametrize("d", [1, 7, 8, 9, 64, 65])
def test_all_forms_of_the_same_records_agree(d, tmp_path):
    signs = signs_of(301, d)
    expected = run(signs)
    assert math.isfinite(expected.statistic)
    assert run(signs > 0) == run(packed(signs), columns=d) == run(signs.tolist()) == expected
    assert all(run(signs.astype(dtype)) == expected for dtype in SIGNED)
    assert run(np.asfortranarray(signs)) == run(np.repeat(signs, 2, axis=0)[::2]) == expected
    assert run(np.asfortranarray(packed(signs)), columns=d) == run(np.repeat(packed(signs), 2, axis=1)[:, ::2], columns=d) == expected
    np.save(tmp_path / "rows.npy", packed(signs))
    assert run(np.load(tmp_path / "rows.npy", mmap_mode="r"), columns=d) == expected


def test_threads_and_blocks_change_nothing(monkeypatch):
    signs = signs_of(5000, 40)
    expected = run(signs, threads=1)
    assert all(run(signs, threads=t) == run(packed(signs), columns=40, threads=t) == expected for t in (2, 5))
    monkeypatch.setattr(inference._signs, "_DENSE_BLOCK", 777)
    monkeypatch.setattr(inference._signs, "_PACKED_BLOCK", 333)
    assert run(signs) == run(packed(signs), columns=40) == expected


def test_bits_beyond_the_columns_are_not_looked_at():
    rows = packed(signs_of(300, 13))
    other = rows | np.array([0, 224], np.uint8)
    limits = dataclasses.replace(thresholds(300, 13, 2.0, 1e-3), filter=60, second=1e9)
    found = [_noisy_statistic(SignRows(r, 13, packed=True), limits, KeyedRandom(KEY), None) for r in (rows, other)]
    assert found[0] == found[1]
    assert not np.array_equal(rows, other)


@pytest.mark.parametrize(
    ("X", "options", "error", "message"),
    [
        (np.zeros((4, 2), np.uint8), {}, ParameterError, "columns must be the number of signs"),
        (np.zeros((4, 2), np.uint8), {"columns": 8}, ParameterError, "columns must be in [9, 16], got 8"),
        (np.zeros((4, 2), np.uint8), {"columns": 17}, ParameterError, "columns must be in [9, 16], got 17"),
        (np.ones((4, 2)), {"columns": 2}, ParameterError, "columns must be None unless"),
        (np.ones(4), {}, ParameterError, "shape (n, d), got 1 dimensions"),
        (np.ones((1, 4)), {}, ParameterError, "at least two records and one column, got shape (1, 4)"),
        (np.ones((4, 0)), {}, ParameterError, "got shape (4, 0)"),
        (np.ones((4, 2), complex), {}, ParameterTypeError, "records must have one of the dtypes"),
        (np.ma.masked_array(np.ones((4, 2))), {}, ParameterTypeError, "masked"),
        (np.ones((4, 2)), {"threads": 0}, ParameterError, "threads must be in"),
    ],
)
def test_records_that_do_not_fit_are_refused(X, options, error, message):
    with pytest.raises(error) as caught:
        uniformity_test(X, 1.0, 1e-3, alpha=0.5, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [0, 2, -3, math.nan, math.inf, 0.5])
def test_an_entry_that_is_no_sign_is_named_by_its_place_alone(value):
    X = signs_of(3000, 50).astype(np.float64)
    X[2503, 17] = X[2600, 3] = value
    with pytest.raises(DataError, match=r"row 2503, column 17 is another number") as caught:
        uniformity_test(X, 1.0, 1e-3, alpha=0.5)
    assert str(value) not in str(caught.value).replace("2503", "").replace("17", "").replace("-1 and 1 only", "")


@pytest.mark.parametrize(
    ("epsilon", "delta", "alpha", "message"),
    [
        (4.0001, 1e-3, 0.5, "epsilon must be in [8.673617379884035e-19, 4.0], got 4.0001"),
        (0.0, 1e-3, 0.5, "epsilon must be in"),
        (1.0, 0.0, 0.5, "delta must be in"),
        (1.0, 0.51, 0.5, ", 0.5], got 0.51"),
        (1.0, 1e-3, 0.0, "alpha must be in"),
        (1.0, 1e-3, 2.01, "alpha must be in [9.094947017729282e-13, 2.0], got 2.01"),
        (2.0**-50, 1e-3, 0.5, "epsilon=8.881784197001252e-16 must be larger for n=4 records of d=4 signs"),
    ],
)
def test_parameters_outside_the_proof_are_refused(epsilon, delta, alpha, message):
    with pytest.raises(ParameterError) as caught:
        uniformity_test(np.full((4, 4), 7.0), epsilon, delta, alpha=alpha)  # before the data, which are wrong, are looked at
    assert message in str(caught.value)


def test_an_outcome_is_frozen_and_says_what_it_cost():
    outcome = run(signs_of(50, 4))
    assert isinstance(outcome, TestOutcome)
    assert outcome.privacy == Privacy(2.0, 1e-3)
    assert outcome.sample_size_needed == sample_size_needed(2.0, 1e-3, d=4, alpha=0.5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        outcome.reject = True  # type: ignore[misc]


# The steps


def shrunk(n, d, epsilon=2.0, delta=1e-3, **changed):
    return dataclasses.replace(thresholds(n, d, epsilon, delta), **changed)


@pytest.mark.parametrize("d", [3, 64, 70])
def test_every_step_has_a_slow_twin(d):
    seen = set()
    for seed in range(30):
        signs, key = signs_of(40, d, seed), bytes([seed]) * 32
        limits = shrunk(
            40, d, sigma=2.0, filter=2 * d, second=25.0 if seed % 3 else 12.0, first=20.0 if seed % 5 else 10.0, third_scale=9.0
        )
        found = _noisy_statistic(check_signs(signs, None), limits, KeyedRandom(key), None)
        assert found == slow_statistic(signs, limits, key)
        seen.add(math.isinf(found))
    assert seen == {True, False}


def test_a_coarse_grid_rounds_the_statistic_down():
    signs, limits = signs_of(40, 5), shrunk(40, 5, grid=64, third_scale=200.0)
    found = _noisy_statistic(check_signs(signs, None), limits, KeyedRandom(KEY), None)
    assert found == slow_statistic(signs, limits, KEY)
    assert found % 64 == 0


def test_filtered_rows_are_found_and_added_up():
    signs = signs_of(500, 37)
    vector = np.random.default_rng(3).integers(-50, 50, 37)
    products = signs @ vector
    for limit in (0, 100, 300, 10**6):
        for rows in (check_signs(signs, None), check_signs(packed(signs), 37)):
            count, total = rows.beyond(vector, limit, None)
            assert count == (np.abs(products) > limit).sum()
            assert np.array_equal(total, signs[np.abs(products) > limit].sum(axis=0))


def test_uniform_rows_are_uniform_and_many():
    sums = uniform_sums(10_000, 130, KeyedRandom(KEY), None)
    assert sums.shape == (130,)
    assert np.abs(sums).max() < 6 * 100
    assert 60 < np.sqrt((sums**2).mean()) < 140
    assert np.all(uniform_sums(0, 130, None, None) == 0)


def test_sums_and_lengths_are_exact_beyond_64_bits():
    sums = np.full(3, 2**40, np.int64)
    assert squared_length(sums, 2**40) == 3 * 2**80
    assert squared_length(np.array([3, -4]), 5) == 25


def test_noisy_sums_are_integers_of_bounded_size():
    limits = shrunk(10, 4, sigma=1000.0)
    noisy = noisy_sums(np.array([5, -5, 0, 1]), 10, limits, KeyedRandom(KEY), None)
    assert noisy.dtype == np.int64
    assert np.abs(noisy).max() <= 64_010


def test_known_answers():
    n = 4000
    rng = KeyedRandom(KEY)
    fair = uniform_rows(n, 16, rng)
    assert not uniformity_test(fair, 4.0, 0.01, alpha=2.0, columns=16, rng=rng).reject
    everyone = np.full((n, 2), 255, np.uint8)
    outcome = uniformity_test(everyone, 4.0, 0.01, alpha=2.0, columns=16, rng=rng)
    assert (outcome.reject, outcome.statistic) == (True, math.inf)  # the first step sees it
    half = np.repeat(np.array([[255, 255], [0, 0]], np.uint8), n // 2, axis=0)
    outcome = uniformity_test(half, 4.0, 0.01, alpha=2.0, columns=16, rng=rng)
    assert outcome.reject is False  # sums of 0: T = −nd, though the records are far from uniform
    assert outcome.statistic == pytest.approx(-16 * n, abs=30 * thresholds(n, 16, 4.0, 0.01).third_scale)
    tilted = fair.copy()
    tilted[:, 0] |= np.where(np.arange(n) % 40 == 0, 255, 0).astype(np.uint8)
    limits = thresholds(n, 16, 4.0, 0.01)
    value = _noisy_statistic(SignRows(tilted, 16, packed=True), dataclasses.replace(limits, third_scale=1e-3), rng, None)
    signs = 2 * np.unpackbits(tilted, axis=1, bitorder="little").astype(int) - 1
    assert value == (signs.sum(axis=0) ** 2).sum() - n * 16


def test_the_secure_source_differs_from_run_to_run():
    signs = signs_of(100, 8)
    assert len({uniformity_test(signs, 1.0, 1e-3, alpha=0.5).statistic for _ in range(5)}) == 5


# Identity


def test_whitening_is_a_function_of_one_record_bit_for_bit():
    random = np.random.default_rng(4)
    d = 23
    mixed = random.standard_normal((d, d))
    inverse, mean = whitening_matrix(mixed @ mixed.T + 0.1 * np.eye(d), d), random.standard_normal(d)
    x = random.standard_normal((400, d))
    together = whitened(x, mean, inverse)
    for j in range(0, 400, 37):
        assert np.array_equal(whitened(x[j : j + 1], mean, inverse)[:, 0], together[:, j])
        assert np.array_equal(whitened(x[j : j + 5][::-1], mean, inverse)[:, ::-1], together[:, j : j + 5])
    # which a product of matrices does not promise: it is right, and no more
    assert np.allclose(together, inverse @ (x - mean).T)


def test_whitening_gives_the_identity():
    mixed = np.random.default_rng(5).standard_normal((6, 6))
    cov = mixed @ mixed.T + np.eye(6)
    inverse = whitening_matrix(cov, 6)
    assert np.allclose(inverse @ cov @ inverse.T, np.eye(6))
    assert np.array_equal(inverse, np.tril(inverse))


def test_a_zero_gets_a_sign_of_its_own_and_other_records_keep_theirs():
    random = np.random.default_rng(6)
    x = random.integers(-1, 2, (6000, 3)).astype(np.float64)
    inverse, mean = np.eye(3), np.zeros(3)
    rows = signs_of_whitened(x, mean, inverse, rng=KeyedRandom(KEY))
    found = np.unpackbits(rows, axis=1, bitorder="little", count=3).astype(bool)
    assert np.array_equal(found[x != 0], x[x != 0] > 0)
    coins = found[x == 0]
    assert abs(coins.mean() - 0.5) < 5 * 0.5 / math.sqrt(len(coins))
    assert not np.array_equal(found, np.unpackbits(signs_of_whitened(x, mean, inverse, rng=None), axis=1, bitorder="little", count=3))
    changed = x.copy()
    changed[100] = 1.0
    again = np.unpackbits(signs_of_whitened(changed, mean, inverse, rng=KeyedRandom(KEY)), axis=1, bitorder="little", count=3)
    decided = (x != 0).all(axis=1)
    decided[100] = False
    assert np.array_equal(again[decided], found[decided])


def test_infinities_are_signs_or_coins_and_nan_is_refused():
    x = np.array([[np.inf, 1.0], [-np.inf, np.inf], [1e308, -1e308]])
    rows = signs_of_whitened(x, np.array([0.0, 0.0]), np.array([[1.0, 0.0], [-3.0, 2.0]]), rng=KeyedRandom(KEY))
    found = np.unpackbits(rows, axis=1, bitorder="little", count=2)
    assert found[:, 0].tolist() == [1, 0, 1]
    assert found[0, 1] == 0
    assert found[1, 1] == 1
    x[1, 0] = np.nan
    with pytest.raises(DataError, match="row 1, column 0"):
        identity_test(x, 1.0, 1e-3, alpha=1.0, mean=[0.0, 0.0], cov=np.eye(2))


def test_identity_is_uniformity_of_signs():
    random = np.random.default_rng(7)
    cov = np.array([[4.0, 1.5, 0.0], [1.5, 1.0, 0.2], [0.0, 0.2, 9.0]])
    x = random.multivariate_normal([1, 2, 3], cov, 900)
    outcome = identity_test(x, 2.0, 1e-3, alpha=1.0, mean=[1, 2, 3], cov=cov, rng=KeyedRandom(KEY))
    signs = np.linalg.solve(np.linalg.cholesky(cov), (x - [1, 2, 3]).T).T > 0
    expected = uniformity_test(signs, 2.0, 1e-3, alpha=sign_separation(1.0), rng=KeyedRandom(KEY))
    assert outcome == expected
    assert sign_separation(1.0) == 0.84 / math.sqrt(2)
    assert identity_test(x.astype(np.float32), 2.0, 1e-3, alpha=1.0, mean=[1, 2, 3], cov=cov).privacy == Privacy(2.0, 1e-3)


@pytest.mark.parametrize(
    ("mean", "cov", "message"),
    [
        ([0.0], np.eye(2), "mean must have the shape (2,) of a record, got (1,)"),
        ([0.0, math.nan], np.eye(2), "mean must be finite, got nan"),
        ([0.0, 0.0], np.eye(3), "cov must have the shape (2, 2), got (3, 3)"),
        ([0.0, 0.0], [[1.0, math.inf], [math.inf, 1.0]], "cov must be finite, got inf"),
        ([0.0, 0.0], [[1.0, 0.5], [0.4, 1.0]], "cov must be symmetric"),
        ([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]], "cov must be positive definite"),
    ],
)
def test_means_and_covariances_that_do_not_fit_are_refused(mean, cov, message):
    with pytest.raises(ParameterError) as caught:
        identity_test(np.ones((5, 2)), 1.0, 1e-3, alpha=1.0, mean=mean, cov=cov)
    assert message in str(caught.value)


def test_separation_of_signs_is_a_lower_bound_and_the_printed_one_is_not():
    from scipy.special import erf

    random = np.random.default_rng(8)
    for _ in range(200):
        m = random.standard_normal(10) * random.choice([0.01, 0.3, 1, 10])
        nu = np.linalg.norm(erf(m / math.sqrt(2)))
        assert nu >= sign_separation(np.linalg.norm(m))
    m = np.array([10.0] + [0.0] * 9)  # printed: ‖ν‖² ≥ 0.84²·min(‖m‖²/2, d)
    assert np.linalg.norm(erf(m / math.sqrt(2))) ** 2 == pytest.approx(1.0)
    assert 0.84**2 * min(np.linalg.norm(m) ** 2 / 2, 10) == pytest.approx(7.056)


# Sample sizes


def test_sample_sizes_grow_as_the_theorem_says():
    assert sample_size_order(1.0, d=16, alpha=0.5) == 4 / 0.25 + 2 / 0.5
    base = sample_size_needed(1.0, 1e-6, d=64, alpha=0.5)
    assert sample_size_needed(1.0, 1e-6, d=64, alpha=0.25) > base > sample_size_needed(2.0, 1e-6, d=64, alpha=0.5)
    assert sample_size_needed(1.0, 1e-9, d=64, alpha=0.5) > base
    # d^(1/4)/(αε) times √logs for the noise of R; for small α the noise of T decides: (√d·log/(α²ε))^(2/3)
    small = [sample_size_needed(1.0, 1e-6, d=64, alpha=0.5 / f) for f in (1, 2, 4, 8)]
    assert all(2 < b / a < 4 for a, b in itertools.pairwise(small))


@pytest.mark.parametrize("d", [0, 2**41])
def test_sample_sizes_need_a_dimension(d):
    with pytest.raises(ParameterError, match="d must be in"):
        sample_size_needed(1.0, 1e-3, d=d, alpha=0.5)
