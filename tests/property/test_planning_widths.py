"""The width that is planned is at least that of the interval of every count, and no more than a thousandth above it."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special

from dpcore._proportions import share_limits
from dpcore.local import BinaryResponse, BoundedMean, HadamardResponse, KaryResponse, LocalDiscreteLaplace, LocalLaplace
from dpcore.local._count_intervals import frequency_interval
from dpcore.local._error_curves import LISTED, widest_share
from dpcore.local._limits import CERTAIN
from dpcore.local._support import Support
from dpcore.minimax.linear import curves

SIZES = [1, 2, 17, 399, 400, 401, LISTED, LISTED + 1, 2000, 30_001]
SUPPORTS = [
    CERTAIN,
    BinaryResponse(0.1).support,
    BinaryResponse(6.0).support,
    KaryResponse(1.0, k=20).support,
    HadamardResponse(2.0, k=9).support,
]


def widest(n: int, confidence: float, support: Support) -> float:
    """The widest interval of all counts, in shares, from the function that intervals come from."""
    ends = frequency_interval(np.arange(n + 1.0), n, support, confidence=confidence, target="population")
    return float((ends[:, 1] - ends[:, 0]).max()) * (support.p - support.q)


@pytest.mark.some(30)
@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("confidence", [0.3, 0.95, 1 - 1e-9])
@pytest.mark.parametrize("n", SIZES)
def test_no_count_has_a_wider_interval(n, confidence, support):
    true, planned = widest(n, confidence, support), widest_share(n, confidence, support)
    assert true <= planned * (1 + 1e-12)
    # far out, the correction for skewness of few counts does not reach its bound
    loose = 6e-3 if confidence > 0.99 and n < 10_000 else 2e-3
    assert planned <= true * (1 + (loose if n > LISTED else 1e-12))


@pytest.mark.parametrize("n", [LISTED + 1, 30_001])
def test_leaving_out_half_a_count_or_the_skewness_would_be_too_narrow(n):
    """The broken twins of the bound: Wilson's interval alone, and that with half a count on both sides but without the skewness."""
    for confidence in (0.95, 1 - 1e-9):
        u = float(special.ndtri((1 - confidence) / 2)) ** 2 / n
        wilson = math.sqrt(u / (1 + u))
        corrected = wilson + 1 / (n * (1 + u))
        true = widest(n, confidence, CERTAIN)
        assert wilson < true * (1 - 1e-9)
        assert corrected < true * (1 - 1e-9) < widest_share(n, confidence, CERTAIN)


@pytest.mark.parametrize("n", [1, 50, 5000])
def test_means_move_with_their_reach(n):
    from dpcore._error_curves import Aim

    mechanism = BoundedMean(1.0, 10.0, 30.0)
    reach = 10.0 * (math.e + 1) / (math.e - 1)
    found = mechanism.error_curve(Aim("width", 1.0, 0.9)).error(n, 1.0)
    assert found == pytest.approx(2 * reach * widest(n, 0.9, CERTAIN), rel=2e-3)


@pytest.mark.parametrize("mechanism", [LocalLaplace(1.0, 0.0, 1.0), LocalDiscreteLaplace(1.0, 0, 10)], ids=["laplace", "discrete"])
@pytest.mark.parametrize("n", [1, 30, 1000])
def test_intervals_of_a_sample_have_the_width_of_the_noise(mechanism, n):
    from dpcore._error_curves import Aim
    from dpcore.testing import KeyedRandom

    found = mechanism.error_curve(Aim("width", 1.0, 0.99), target="sample").error(n, 1.0)
    reports = mechanism.privatize(np.zeros(n, np.int64 if mechanism.integral else np.float64), rng=KeyedRandom(bytes(32)))
    ends = mechanism.estimate(reports, target="sample").interval(0.99)
    assert found == pytest.approx(float(ends[1] - ends[0]), rel=1e-9)


@pytest.mark.some(8)
@pytest.mark.parametrize("confidence", [0.02, 0.6, 0.95, 1 - 1e-9])
@pytest.mark.parametrize("n", [1, 2, 31, 4096, 4097, 300_001])
def test_no_count_has_wider_limits_of_clopper_and_pearson(n, confidence):
    """All counts of few reports; of many those near an end and in the middle, and some between."""
    middle = n // 2
    some = np.unique(np.concatenate([np.arange(200), np.geomspace(200, max(middle, 201), 500).astype(int), middle + np.arange(-200, 201)]))
    counts = np.arange(n + 1) if n < 10_000 else some
    low, high = share_limits(counts, n, (1 - confidence) / 2)
    true, planned = float((high - low).max()), curves._widest(n, confidence)
    assert true <= planned <= true * (1 + 1e-5) + (2 / n if n > curves.LISTED else 0.0)
    # what is proved for every count is more than the widest interval that was seen
    assert n <= curves.LISTED or planned >= -float(special.ndtri((1 - confidence) / 2)) / math.sqrt(n) + 2 / n


def test_the_limits_are_as_far_from_their_counts_as_is_proved():
    """The inequalities of Zubkov and Serov and of Pinsker at limits by exact sums; without the additional count they would not hold."""
    beyond = 0
    for n, rate in itertools.product((1, 7, 30), (0.3, 0.025, 1e-6)):
        z = -float(special.ndtri(rate))
        for c in range(n):
            upper = float(share_limits(c, n, rate)[1])
            exact, q = Fraction(0), Fraction(upper)
            for i in range(c + 1):
                exact += math.comb(n, i) * q**i * (1 - q) ** (n - i)
            assert float(exact) == pytest.approx(rate, rel=1e-8)
            assert upper <= (c + 1) / n + z / (2 * math.sqrt(n))
            beyond += upper > c / n + z / (2 * math.sqrt(n))
    assert beyond > 10
