"""The width that is planned is at least that of the interval of every count, and no more than a thousandth above it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from dpcore.local import BinaryResponse, BoundedMean, HadamardResponse, KaryResponse, LocalDiscreteLaplace, LocalLaplace
from dpcore.local._count_intervals import frequency_interval
from dpcore.local._error_curves import LISTED, widest_share
from dpcore.local._limits import CERTAIN
from dpcore.local._support import Support

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
    assert planned <= true * (1 + (2e-3 if n > LISTED else 1e-12))


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
