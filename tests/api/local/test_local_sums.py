"""Noise on clamped numbers, exact sums of its reports, and the projection of estimates onto distributions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mpmath import exp, fsum, mpf, sinh, workprec

from dpcore import ParameterError, ParameterTypeError, local, noise
from dpcore._spread import noise_variance
from dpcore.local._additive import BLOCK, around, float_moments
from dpcore.testing import KeyedRandom
from support.kernels import KEY, same_bits

LAPLACE, GAUSSIAN = local.LocalLaplace(1.0, -2.0, 6.0), local.LocalGaussian(1.0, 1e-6, -2.0, 6.0)
DISCRETE, DISCRETE_GAUSSIAN = local.LocalDiscreteLaplace(1.0, -2, 6), local.LocalDiscreteGaussian(1.0, 1e-6, -2, 6)
ADDITIVE = (LAPLACE, GAUSSIAN, DISCRETE, DISCRETE_GAUSSIAN)
each_additive = pytest.mark.parametrize("mechanism", ADDITIVE, ids=repr)


def keyed():
    return KeyedRandom(KEY).at(0)


def records(mechanism, n):
    plain = np.random.default_rng(3)
    return plain.integers(-4, 9, n) if mechanism.integral else plain.normal(1, 3, n)


# Noise on clamped numbers


@given(
    st.sampled_from(ADDITIVE),
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-50, 50), min_size=1, max_size=60),
    st.integers(0, 60),
)
@example(DISCRETE, [2**63 - 1] * 60, 30)
@example(DISCRETE, [-(2**63)] * 60, 30)
@example(LAPLACE, [2**63 - 1, -(2**63), 0], 1)
def test_sums_are_those_of_python_integers_however_they_are_split(mechanism, steps, cut):
    reports = np.array(steps, np.int64) if mechanism.integral else np.array([float(s) * mechanism.grid for s in steps])
    whole = mechanism.aggregate(reports)
    middle = (Fraction(mechanism.lower) + Fraction(mechanism.upper)) / 2 / Fraction(mechanism.grid)
    d = [int(Fraction(report) / Fraction(mechanism.grid)) - round(middle) for report in reports.tolist()]
    assert whole.counts == (sum(d), sum(step * step for step in d))
    assert mechanism.aggregate(reports[cut:]) + mechanism.aggregate(reports[:cut]) == whole


@each_additive
def test_sums_do_not_depend_on_the_order_of_many_reports(mechanism):
    reports = mechanism.privatize(records(mechanism, 50_000), rng=keyed())
    reports[::1000] = 2**62 if mechanism.integral else 2.0**62  # far ones among near ones
    whole = mechanism.aggregate(reports)
    assert mechanism.aggregate(np.random.default_rng(1).permutation(reports)) == whole
    parts = [mechanism.aggregate(part) for part in np.array_split(reports, 7)]
    for order in itertools.islice(itertools.permutations(parts), 0, 5040, 1009):
        total = order[0]
        for part in order[1:]:
            total += part
        assert total == whole
        assert same_bits(mechanism.estimate(total).value, mechanism.estimate(whole).value)


@pytest.mark.parametrize(
    ("mechanism", "tolerance", "n"),
    [
        *[(m, 0.02, 400_000) for m in ADDITIVE],
        # Of these noises one in 1,500 is not zero: the tolerance is five standard deviations of their number.
        (local.LocalDiscreteLaplace(8.0, 0, 1), 0.1, 4_000_000),
        (local.LocalDiscreteGaussian(8.0, 1e-3, 0, 1), 0.1, 4_000_000),
        (local.LocalLaplace(0.01, 0.0, 1e6), 0.02, 400_000),
    ],
    ids=repr,
)
def test_the_stated_variance_is_the_noises(mechanism, tolerance, n):
    middle = mechanism.lower
    reports = mechanism.privatize(np.full(n, middle), rng=keyed())
    found = float(np.var(reports.astype(np.float64)))
    assert found == pytest.approx(mechanism.noise_variance, rel=tolerance)
    assert found != pytest.approx(1.3 * mechanism.noise_variance, rel=tolerance)


def test_the_variance_of_discrete_noise_is_the_sum_over_its_law():
    for scale in (0.1, 0.5, 1.0, 3.9, 4.0, 20.0):
        z = np.arange(-1000, 1001, dtype=np.float64)
        for kind, weights in (("discrete_laplace", np.exp(-abs(z) / scale)), ("discrete_gaussian", np.exp(-(z**2) / (2 * scale**2)))):
            assert noise_variance(kind, scale) == pytest.approx(float(weights @ z**2 / weights.sum()), rel=1e-12)


def test_the_variance_of_discrete_noise_is_within_two_units_in_the_last_place():
    ends = (1.5, 2.0**20)  # of the ways to compute it
    for scale in (0.03, 0.7, 5.0, 900.0, *(math.nextafter(end, 0.0) for end in ends), *ends, 2.0**40):
        with workprec(200):
            of_laplace = 1 / (2 * sinh(1 / (2 * mpf(scale))) ** 2)
            laws = {"discrete_laplace": of_laplace}
            if scale < 6:
                weights = {k: exp(-mpf(k * k) / (2 * mpf(scale) ** 2)) for k in range(-80, 81)}
                laws["discrete_gaussian"] = fsum(k * k * weight for k, weight in weights.items()) / fsum(weights.values())
            for kind, exact in laws.items():
                assert abs(noise_variance(kind, scale) / exact - 1) <= mpf(2) ** -51


def test_the_noise_is_that_of_the_noise_functions_on_clamped_numbers():
    for mechanism in ADDITIVE:
        x = records(mechanism, 5000)
        draw = getattr(noise, mechanism.kind)
        wanted = draw(np.clip(x, mechanism.lower, mechanism.upper), mechanism.scale, rng=keyed())
        assert same_bits(mechanism.privatize(x, rng=keyed()), wanted)
        in_place = np.clip(x, -100, 100)
        assert same_bits(mechanism.privatize(in_place, rng=keyed(), out=in_place), wanted)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
@each_additive
def test_integers_of_every_width_are_clamped_at_both_ends(mechanism, dtype):
    info = np.iinfo(dtype)
    x = np.array([info.min, 0, 1, 5, info.max] * 30, dtype)
    clamped = np.array([min(max(v, -2), 6) for v in x.tolist()])
    wanted = mechanism.privatize(clamped, rng=keyed())
    assert same_bits(mechanism.privatize(x, rng=keyed()), wanted)
    strided = np.zeros((len(x), 2), wanted.dtype)
    mechanism.privatize(x, rng=keyed(), out=strided[:, 1])
    assert same_bits(strided[:, 1].copy(), wanted)
    assert not strided[:, 0].any()


def test_whole_numbers_beyond_floats_keep_their_unit_in_any_dtype():
    low = 2**53
    mechanism = local.LocalLaplace(700.0, float(low), float(low + 64))
    x = np.array([low + 1, low + 3, low + 63])
    assert same_bits(mechanism.privatize(x, rng=keyed()), mechanism.privatize(x.astype(np.uint64), rng=keyed()))
    exact = local.LocalDiscreteLaplace(700.0, low, low + 64)
    assert np.array_equal(np.median([exact.privatize(x) for _ in range(101)], axis=0), x)
    # a saturated report is still one that can be summed
    top = local.LocalDiscreteLaplace(2.0**-19, 2**63 - 2**20, 2**63 - 1)
    reports = top.privatize(np.full(1000, 2**63 - 1), rng=keyed())
    assert (reports == 2**63 - 1).any()
    assert np.isfinite(top.estimate(reports).interval()).all()


def test_integer_bounds_are_checked():
    for make in (local.LocalDiscreteLaplace, lambda e, lo, up, **o: local.LocalDiscreteGaussian(e, 1e-6, lo, up, **o)):
        for lower, upper in ((1, 1), (2, 1), (0, 2**63), (-(2**63) - 1, 0)):
            with pytest.raises(ParameterError, match=r"lower|upper"):
                make(1.0, lower, upper)
        for bad in (0.0, True, "0", None):
            with pytest.raises(ParameterTypeError, match="lower must be an integer"):
                make(1.0, bad, 5)
        with pytest.raises(ParameterError, match=r"missing must be in \[0, 5\], got 6"):
            make(1.0, 0, 5, missing=6)
    with pytest.raises(ParameterTypeError, match="records must"):
        DISCRETE.privatize(np.zeros(3))


@pytest.mark.parametrize(("lower", "upper"), [(-1e-20, 1.0), (-1.0, 2.0**-60), (1e-17, 1.0), (-0.1, 0.2), (0.1, 0.3), (-(2.0**53), 1.5)])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_the_scale_covers_the_exact_distance_of_the_bounds(epsilon, lower, upper):
    exact = Fraction(upper) - Fraction(lower)  # which a difference of floats may fall short of
    scale = local.LocalLaplace(epsilon, lower, upper).scale
    assert Fraction(scale) * Fraction(epsilon) >= exact
    assert Fraction(scale) * Fraction(epsilon) <= exact * (1 + Fraction(1, 2**50))
    assert local.LocalGaussian(epsilon, 1e-6, lower, upper).scale >= local.LocalGaussian(epsilon, 1e-6, 0.0, float(exact)).scale


@each_additive
def test_a_single_report_has_the_variance_that_bounds_allow(mechanism):
    one = mechanism.privatize(np.full(1, mechanism.upper), rng=keyed())
    assert mechanism.estimate(one, target="sample").stderr == pytest.approx(mechanism.noise_variance**0.5, rel=1e-12)
    assert mechanism.estimate(one).stderr == pytest.approx((mechanism.noise_variance + 16.0) ** 0.5, rel=1e-12)


# Nearest distribution


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=6))
@example([1e17])
@example([2e16, 0.0])
@example([1.7e308, -1.7e308, 1.7e308])
@example([1e308, 1e308, 1e308])
def test_the_projection_of_any_numbers_is_a_distribution(raw):
    nearest = local.project_to_simplex(raw)
    assert nearest.dtype == np.float64
    assert nearest.min() >= 0
    assert nearest.sum() == pytest.approx(1.0, abs=1e-9)
    assert nearest[int(np.argmax(raw))] == nearest.max()
    assert np.allclose(local.project_to_simplex(nearest), nearest, rtol=0, atol=1e-12)


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=5))
def test_the_projection_is_the_best_over_all_supports(raw):
    """Brute force: for each support the point of the simplex' face that is nearest, if it has no negative part."""
    raw = np.array(raw)
    best = np.inf
    for chosen in itertools.product([False, True], repeat=len(raw)):
        face = np.array(chosen)
        if not face.any():
            continue
        point = np.where(face, raw - (raw[face].sum() - 1) / face.sum(), 0.0)
        if point.min() >= 0:
            best = min(best, float(np.linalg.norm(point - raw)))
    found = local.project_to_simplex(raw)
    assert float(np.linalg.norm(found - raw)) == pytest.approx(best, rel=1e-9, abs=1e-9)
    # a twin that cuts and rescales is further away, or no better
    cut = np.clip(raw, 0, None)
    if cut.sum() > 0:
        assert float(np.linalg.norm(cut / cut.sum() - raw)) >= best - 1e-9


def test_the_projection_checks_its_argument():
    assert local.project_to_simplex([1, 2]).tolist() == [0.0, 1.0]
    assert local.project_to_simplex(np.array([0.5, 0.25], np.float32)).tolist() == [0.625, 0.375]
    for bad in (np.ma.masked_array([1.0, 0.0], [True, False]), [[1.0], [0.5, 0.5]], None, [True, False], [1j], np.array([0.5], object)):
        with pytest.raises(ParameterTypeError, match="frequencies must"):
            local.project_to_simplex(bad)
    for bad in (0.5, np.zeros((2, 2)), []):
        with pytest.raises(ParameterError, match="frequencies must be a non-empty vector"):
            local.project_to_simplex(bad)


@pytest.mark.parametrize("bits", [1, 5, 20, 21, 36, 40, 51, 53])
@pytest.mark.parametrize("size", [0, 1, 7, BLOCK])
def test_moments_of_floats_are_exact(bits, size):
    """At the ends of every range that they treat alike, with all numbers as large as that."""
    most = 2**bits - 1
    for d in (
        np.random.default_rng(bits).integers(-most, most, size, endpoint=True),
        np.full(size, most),
        np.full(size, -most),
        np.full(size, min(2**20, most)),
    ):
        numbers = d.tolist()
        assert float_moments(d.astype(np.float64)) == (sum(numbers), sum(number * number for number in numbers))


@pytest.mark.parametrize("centre", [0, 12345, -(2**51) + 1, 2**51, -(2**70)])
@pytest.mark.parametrize("most", [10, 2**51 - 1, 2**51, 2**63 - 1])
def test_sums_around_a_centre_are_exact_at_every_size(centre, most):
    d = np.append(np.random.default_rng(3).integers(-most, most, 1000, endpoint=True), [most, -most])
    away = [number - centre for number in d.tolist()]
    assert around(d, centre) == (sum(away), sum(number * number for number in away))
