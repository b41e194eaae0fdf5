"""`KaryResponse`, from a record to an estimate. What it shares with other mechanisms is tested elsewhere:

- its matrix of probabilities, exact and private: `test_channels.py`, `test_extremes.py`
- variances and estimates: `test_supports.py`, `test_estimates.py`
- strings, categoricals and Series: `test_labels.py`
- arguments and errors: `test_oracles.py`, `test_local_api.py`, `test_reports.py`
- every report against a slow twin with fractions: `tests/kernels/test_responses.py`
- the law of 10⁷ reports, and coverage of intervals: `tests/statistical/test_local_law.py`, `test_local_coverage.py`
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcore import Privacy
from dpcore.errors import DataError, ParameterError
from dpcore.local import KaryResponse
from dpcore.testing import KeyedRandom
from support.kernels import same_bits

K = 7
MECHANISM = KaryResponse(1.0, k=K)
CODES = np.random.default_rng(3).integers(0, K, 20_000)


def keyed():
    return KeyedRandom(bytes(range(32)))


def test_the_truth_is_told_with_the_stated_probability():
    told = np.mean(MECHANISM.privatize(CODES, rng=keyed()) == CODES)
    truth = math.e / (math.e + K - 1)
    assert abs(told - truth) < 5 * math.sqrt(truth * (1 - truth) / CODES.size)
    assert abs(told - truth / (1 - truth) / 2) > 0.05  # not that of a mechanism which counts the true category twice
    assert MECHANISM.support.p == truth
    assert MECHANISM.privacy == Privacy(1.0)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64])
def test_reports_have_the_shape_and_dtype_of_the_codes(dtype):
    codes = CODES.reshape(100, 200).astype(dtype)
    reports = MECHANISM.privatize(codes, rng=keyed())
    assert (reports.shape, reports.dtype) == (codes.shape, codes.dtype)
    assert np.array_equal(reports.reshape(-1), MECHANISM.privatize(CODES, rng=keyed()))


def test_a_single_code_gives_a_python_int():
    report = MECHANISM.privatize(3, rng=keyed())
    assert type(report) is int
    assert report == MECHANISM.privatize(np.array([3]), rng=keyed())[0]


def test_codes_may_be_overwritten_by_their_reports():
    codes = CODES.copy()
    assert MECHANISM.privatize(codes, rng=keyed(), out=codes) is codes
    assert same_bits(codes, MECHANISM.privatize(CODES, rng=keyed()))


@pytest.mark.parametrize("bad", [-1, K, 10**6])
def test_a_code_outside_the_categories_is_refused_or_replaced(bad):
    codes = np.array([2, 0, bad, 1])
    with pytest.raises(DataError, match=r"records must hold codes in \[0, 6\].*the one at index \(2,\) is not") as raised:
        MECHANISM.privatize(codes)
    assert str(bad) not in str(raised.value).replace("[0, 6]", "")
    replaced = KaryResponse(1.0, k=K, unknown=5).privatize(codes, rng=keyed())
    assert same_bits(replaced, MECHANISM.privatize(np.array([2, 0, 5, 1]), rng=keyed()))


def test_counts_and_frequencies_of_known_reports():
    reports = np.repeat(np.arange(K), [60, 40, 0, 20, 0, 0, 80])
    counted = MECHANISM.aggregate(reports)
    assert (counted.n, counted.counts.tolist()) == (200, [60, 40, 0, 20, 0, 0, 80])
    found = MECHANISM.estimate(counted)
    q = 1 / (math.e + K - 1)
    assert found.value == pytest.approx((counted.counts / 200 - q) / (math.e * q - q), rel=1e-12)
    assert found.value.sum() == pytest.approx(1.0)
    assert (found.interval()[:, 0] <= found.value).all()


def test_sizes_are_given_by_name():
    with pytest.raises(TypeError):
        KaryResponse(1.0, 7)  # type: ignore[misc]
    for k in (1, 2**24 + 1):
        with pytest.raises(ParameterError, match=rf"k must be in \[2, 16777216\], got {k}"):
            KaryResponse(1.0, k=k)
