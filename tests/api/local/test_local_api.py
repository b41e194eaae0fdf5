"""What the local mechanisms promise their callers: arguments, errors, forms of input and output, aggregates that merge."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore import DataError, ParameterError, ParameterTypeError, Privacy, local
from dpcore.testing import KeyedRandom
from support.kernels import KEY, same_bits

BINARY, BOUNDED = local.BinaryResponse(1.0), local.BoundedMean(1.0, -2.0, 6.0)
TABLE = local.BinaryChannel(1.0, (0.5, -1.0, 0.25))
SINE = local.BinaryChannel(1.0, np.sin, bound=1.0)
ADDITIVE = (
    local.LocalLaplace(1.0, -2.0, 6.0),
    local.LocalGaussian(1.0, 1e-6, -2.0, 6.0),
    local.LocalDiscreteLaplace(1.0, -2, 6),
    local.LocalDiscreteGaussian(1.0, 1e-6, -2, 6),
)
CATEGORICAL = (
    local.KaryResponse(1.0, k=12),
    local.UnaryEncoding(1.0, k=12),
    local.UnaryEncoding(1.0, k=12, method="symmetric"),
    local.SubsetSelection(1.0, k=12),
    local.LocalHashing(1.0, k=12),
    local.HadamardResponse(1.0, k=12),
)
ALL = (BINARY, BOUNDED, TABLE, SINE, *ADDITIVE, *CATEGORICAL)
each = pytest.mark.parametrize("mechanism", ALL, ids=repr)


def records(mechanism, n=1000):
    plain = np.random.default_rng(3)
    if mechanism is BINARY:
        return plain.integers(0, 2, n).astype(bool)
    if mechanism is TABLE:
        return plain.integers(0, 3, n)
    if mechanism in CATEGORICAL:
        return plain.integers(0, 12, n)
    return plain.integers(-4, 9, n) if "Discrete" in repr(mechanism) else plain.normal(1, 3, n)


def keyed(nonce=0, element=0):
    return KeyedRandom(KEY).at(nonce, element)


# Every mechanism


@each
def test_partitions_add_up(mechanism):
    reports = mechanism.privatize(records(mechanism), rng=keyed())
    whole = mechanism.aggregate(reports)
    parts = [mechanism.aggregate(part) for part in np.split(reports, [1, 1, 500, 999])]
    total = parts[3] + parts[0] + parts[2] + parts[1] + parts[4]
    assert total == whole
    assert whole.n == 1000
    assert total != mechanism.aggregate(reports[1:])


@each
def test_estimates_of_reports_and_of_their_aggregate_agree(mechanism):
    reports = mechanism.privatize(records(mechanism))
    one, other = mechanism.estimate(reports), mechanism.estimate(mechanism.aggregate(reports))
    assert same_bits(one.value, other.value)
    assert same_bits(one.interval(), other.interval())
    assert one.n == 1000
    assert same_bits(one.interval(), one.interval(0.95))
    assert np.all(np.diff(one.interval(0.999)) > np.diff(one.interval()))
    assert np.all(np.asarray(mechanism.estimate(reports, target="sample").stderr) <= np.asarray(one.stderr) * 1.1)


@each
def test_aggregates_of_other_mechanisms_are_refused(mechanism):
    other = local.KaryResponse(3.0, k=5)
    foreign = other.aggregate(other.privatize(np.arange(5)))
    with pytest.raises(ParameterError, match="different mechanisms"):
        mechanism.estimate(foreign)
    with pytest.raises(ParameterError, match="different mechanisms"):
        mechanism.aggregate(mechanism.privatize(records(mechanism))) + foreign


@each
def test_estimation_needs_reports_and_sound_parameters(mechanism):
    reports = mechanism.privatize(records(mechanism))
    with pytest.raises(ParameterError, match="at least one"):
        mechanism.estimate(reports[:0])
    for confidence in (0.0, 1.0, -1.0, np.nan):
        with pytest.raises(ParameterError, match="confidence must be in"):
            mechanism.estimate(reports).interval(confidence)
    with pytest.raises(ParameterError, match="target must be one of 'population', 'sample'"):
        mechanism.estimate(reports, target="world")


@each
def test_no_records_give_no_reports(mechanism):
    assert len(mechanism.privatize(records(mechanism)[:0])) == 0
    assert mechanism.aggregate(mechanism.privatize(records(mechanism)[:0])).n == 0


@each
def test_mechanisms_are_values(mechanism):
    copy = pickle.loads(pickle.dumps(mechanism))
    assert copy == mechanism
    assert hash(copy) == hash(mechanism)
    assert copy.privacy == mechanism.privacy
    with pytest.raises((FrozenInstanceError, AttributeError)):
        mechanism.epsilon = 2.0


@each
def test_a_key_repeats_and_the_secure_source_does_not(mechanism):
    x = records(mechanism)
    assert same_bits(mechanism.privatize(x, rng=keyed()), mechanism.privatize(x, rng=keyed()))
    assert not same_bits(mechanism.privatize(x, rng=keyed()), mechanism.privatize(x, rng=keyed(1)))
    assert not same_bits(mechanism.privatize(x), mechanism.privatize(x))
    with pytest.raises(ParameterTypeError, match="rng must be"):
        mechanism.privatize(x, rng=np.random.default_rng())


@each
def test_arrays_that_would_mislead_are_refused(mechanism):
    x = records(mechanism)
    with pytest.raises(ParameterTypeError, match="masked"):
        mechanism.privatize(np.ma.masked_array(x, np.zeros(len(x), bool)))
    if mechanism is not SINE:
        with pytest.raises(ParameterTypeError):
            mechanism.privatize(x.astype(object))
        with pytest.raises(ParameterTypeError):
            mechanism.privatize(x.astype(str))


@pytest.mark.parametrize("epsilon", [0, -1.0, np.nan, np.inf, 2.0**-21, 701.0])
def test_epsilon_has_a_range(epsilon):
    for make in (local.BinaryResponse, lambda e: local.BoundedMean(e, 0, 1), lambda e: local.BinaryChannel(e, [1, 0])):
        with pytest.raises(ParameterError, match="epsilon must be in"):
            make(epsilon)
    for make in (local.KaryResponse, local.UnaryEncoding, local.SubsetSelection, local.LocalHashing, local.HadamardResponse):
        with pytest.raises(ParameterError, match="epsilon must be in"):
            make(epsilon, k=5)
    with pytest.raises(ParameterTypeError, match="epsilon must be a real number, got True"):
        local.BinaryResponse(True)


# One bit


def test_binary_takes_booleans_and_zeros_and_ones():
    x = records(BINARY)
    reports = BINARY.privatize(x, rng=keyed())
    for dtype in (np.int64, np.uint8, np.int16):
        assert same_bits(BINARY.privatize(x.astype(dtype), rng=keyed()), reports)
    assert same_bits(BINARY.privatize(x.tolist(), rng=keyed()), reports)
    wrong = x.astype(np.int64)
    wrong[77] = 2
    with pytest.raises(DataError, match=r"index \(77,\)") as caught:
        BINARY.privatize(wrong)
    assert "2" not in str(caught.value).replace("(77,)", "")
    lenient = local.BinaryResponse(1.0, unknown=True)
    assert same_bits(lenient.privatize(wrong, rng=keyed()), BINARY.privatize(np.where(wrong == 2, 1, wrong), rng=keyed()))
    with pytest.raises(ParameterTypeError, match="unknown must be None, True or False"):
        local.BinaryResponse(1.0, unknown=1)


def test_booleans_with_other_bytes_than_0_and_1_are_true():
    odd = np.array([0, 1, 2, 255] * 50, np.uint8).view(bool)
    reports = BINARY.privatize(odd, rng=keyed())
    assert set(reports.view(np.uint8).tolist()) <= {0, 1}
    assert same_bits(reports, BINARY.privatize(odd.view(np.uint8) != 0, rng=keyed()))


@pytest.mark.parametrize("mechanism", [BINARY, BOUNDED, TABLE, SINE], ids=repr)
def test_shapes_strides_and_out(mechanism):
    x = records(mechanism, 600)
    flat = mechanism.privatize(x, rng=keyed())
    assert flat.dtype == np.bool_
    assert same_bits(mechanism.privatize(x.reshape(20, 30), rng=keyed()), flat.reshape(20, 30))
    wide = np.empty((600, 3), x.dtype)
    wide[:, 1] = x
    assert same_bits(mechanism.privatize(wide[:, 1], rng=keyed()), flat)
    assert same_bits(mechanism.privatize(np.asfortranarray(x.reshape(20, 30)), rng=keyed()), flat.reshape(20, 30))
    out = np.zeros((600, 2), bool)
    result = mechanism.privatize(x, rng=keyed(), out=out[:, 0])
    assert same_bits(out[:, 0].copy(), flat)
    assert np.shares_memory(result, out)
    assert not out[:, 1].any()
    for bad in (np.zeros(599, bool), np.zeros(600, np.uint8), np.broadcast_to(np.zeros(1, bool), 600)):
        with pytest.raises((ParameterError, ParameterTypeError), match="out must"):
            mechanism.privatize(x, out=bad)
    scalar = mechanism.privatize(x[0].item(), rng=keyed())
    assert scalar is bool(flat[0])


def test_binary_in_place():
    x = records(BINARY)
    wanted = BINARY.privatize(x, rng=keyed())
    assert same_bits(BINARY.privatize(x, rng=keyed(), out=x), wanted)
    shared = np.zeros(1001, bool)
    shared[:1000] = records(BINARY)
    BINARY.privatize(shared[:1000], rng=keyed(), out=shared[1:])
    assert same_bits(shared[1:].copy(), wanted)


@pytest.mark.parametrize("n", [0, 1, 8, 13, 1000])
def test_packed_forms(n):
    x = records(BINARY, n)
    packed = np.packbits(x, bitorder="little")
    dirty = packed.copy()
    if n % 8:
        dirty[-1] |= 0x80
    reports = BINARY.privatize_packed(dirty, n=n, rng=keyed())
    assert same_bits(reports, np.packbits(BINARY.privatize(x, rng=keyed()), bitorder="little"))
    if n:
        assert BINARY.aggregate_packed(reports, n=n) == BINARY.aggregate(BINARY.privatize(x, rng=keyed()))
    values = records(BOUNDED, n)
    assert same_bits(BOUNDED.privatize_packed(values, rng=keyed()), np.packbits(BOUNDED.privatize(values, rng=keyed()), bitorder="little"))
    with pytest.raises(ParameterError, match="⌈n/8⌉"):
        BINARY.privatize_packed(packed, n=n + 17)


def test_numbers_are_clamped_and_missing_ones_replaced():
    x = np.array([-np.inf, -2.0, -1e300, 6.0, 1e300, np.inf, 0.5])
    clamped = np.clip(x, -2.0, 6.0)
    for nonce in range(50):
        assert same_bits(BOUNDED.privatize(x, rng=keyed(nonce)), BOUNDED.privatize(clamped, rng=keyed(nonce)))
        assert same_bits(ADDITIVE[0].privatize(x, rng=keyed(nonce)), ADDITIVE[0].privatize(clamped, rng=keyed(nonce)))
    holes = np.where(np.arange(1000) % 7 == 3, np.nan, records(BOUNDED))
    for lenient in (local.BoundedMean(1.0, -2.0, 6.0, missing=1.0), local.LocalLaplace(1.0, -2.0, 6.0, missing=1.0)):
        filled = np.where(np.isnan(holes), 1.0, holes)
        assert same_bits(lenient.privatize(holes, rng=keyed()), lenient.privatize(filled, rng=keyed()))
        assert same_bits(
            lenient.privatize(holes.astype(np.float32), rng=keyed()), lenient.privatize(filled.astype(np.float32), rng=keyed())
        )
    for strict in (BOUNDED, *ADDITIVE[:2]):
        out = np.zeros(1000, bool if strict is BOUNDED else np.float64)
        with pytest.raises(DataError, match=r"index \(?3,?\)?"):
            strict.privatize(holes, out=out)
        assert not out.any()
    with pytest.raises(ParameterError, match="missing must be in"):
        local.BoundedMean(1.0, 0.0, 1.0, missing=2.0)


@pytest.mark.parametrize(("lower", "upper"), [(1.0, 1.0), (2.0, 1.0), (0.0, 1e-300), (np.nan, 1.0), (0.0, np.inf), (-1.7e308, 1.7e308)])
def test_bounds_are_checked(lower, upper):
    for make in (local.BoundedMean, local.LocalLaplace):
        with pytest.raises(ParameterError, match=r"lower|upper"):
            make(1.0, lower, upper)


def test_a_bounded_mean_of_whole_numbers_beyond_floats():
    low = 2**60
    mechanism = local.BoundedMean(700.0, float(low), float(low + 4096))
    x = low + np.arange(0, 4097, 4096 // 16)
    hits = np.mean([mechanism.privatize(x) for _ in range(4000)], axis=0)
    assert abs(hits - (x - low) / 4096).max() < 0.05


@pytest.mark.parametrize("mechanism", [BINARY, BOUNDED, TABLE], ids=repr)
def test_a_few_reports_that_agree_are_no_certainty(mechanism):
    for reports in (np.array([True]), np.zeros(3, bool)):
        estimate = mechanism.estimate(reports)
        low, high = estimate.interval()
        assert high - low > 0.5
        assert estimate.stderr > 0.1  # no record makes a report rarer than q


def test_phi_is_checked():
    for bad in ([1.0], [0.0, 0.0], [1.0, np.nan], [[1.0, 2.0]], []):
        with pytest.raises((ParameterError, ParameterTypeError), match="phi must"):
            local.BinaryChannel(1.0, bad)
    with pytest.raises(ParameterError, match="bound is required"):
        local.BinaryChannel(1.0, np.sin)
    with pytest.raises(ParameterError, match="phi must return"):
        local.BinaryChannel(1.0, lambda v: v[:1], bound=1.0).privatize(np.zeros(5))
    assert TABLE.norm == 1.0
    assert TABLE.z0 == pytest.approx((np.e + 1) / (np.e - 1), rel=1e-15)
    with pytest.raises(DataError, match="index"):
        TABLE.privatize(np.array([0, 1, 3]))
    lenient = local.BinaryChannel(1.0, (0.5, -1.0, 0.25), unknown=2)
    assert same_bits(lenient.privatize(np.array([0, 7, -1] * 99), rng=keyed()), TABLE.privatize(np.array([0, 2, 2] * 99), rng=keyed()))


# Noise on clamped numbers


def test_additive_scales_are_those_of_the_central_mechanisms():
    from dpcore import mechanisms, noise

    laplace, gaussian, discrete_laplace, discrete_gaussian = ADDITIVE
    assert laplace.scale == mechanisms.Laplace(1.0, 8.0).scale
    assert laplace.grid == noise.default_grid(laplace.scale)
    assert gaussian.scale == mechanisms.Gaussian(1.0, 1e-6, 8.0).scale
    assert discrete_laplace.scale == mechanisms.DiscreteLaplace(1.0, 8).scale
    assert discrete_gaussian.scale == mechanisms.DiscreteGaussian(1.0, 1e-6, 8, method="exact").scale
    assert gaussian.privacy == Privacy(1.0, 1e-6)
    assert local.LocalLaplace(1.0, 0.1, 0.3).scale >= Fraction(0.3) - Fraction(0.1)


@pytest.mark.some(2)
@pytest.mark.parametrize("mechanism", ADDITIVE, ids=repr)
def test_additive_sums_are_exact(mechanism):
    reports = mechanism.privatize(records(mechanism, 70_000), rng=keyed())
    grid = Fraction(mechanism.grid)
    centre = round((Fraction(mechanism.lower) + Fraction(mechanism.upper)) / 2 / grid)
    steps = [int(Fraction(report) / grid) - centre for report in reports.tolist()]
    counted = mechanism.aggregate(reports)
    assert counted.counts == (sum(steps), sum(step * step for step in steps))
    estimate = mechanism.estimate(counted)
    assert estimate.value == pytest.approx(reports.mean(), rel=1e-12)
    assert estimate.stderr == pytest.approx(reports.std(ddof=1) / np.sqrt(70_000), rel=1e-9)
    assert mechanism.estimate(counted, target="sample").stderr == pytest.approx(np.sqrt(mechanism.noise_variance / 70_000), rel=1e-12)


def test_additive_sums_far_out():
    mechanism = local.LocalDiscreteLaplace(1.0, 2**62, 2**62 + 11)
    reports = np.array([2**63 - 1, -(2**63), 5], np.int64)
    total, squares = mechanism.aggregate(reports).counts
    centre = round(Fraction(2**63 + 11, 2))
    assert (total, squares) == (sum(int(r) - centre for r in reports), sum((int(r) - centre) ** 2 for r in reports))
    for bad in (np.nan, np.inf, ADDITIVE[0].grid / 2):
        with pytest.raises(DataError, match="index 1 "):
            ADDITIVE[0].aggregate(np.array([0.0, bad]))


def test_whole_numbers_keep_their_unit():
    low = 2**60
    mechanism = local.LocalLaplace(700.0, float(low), float(low + 2**12))
    x = np.array([low + 1, low + 3, low + 2**11 + 1])
    reports = np.array([mechanism.privatize(x) for _ in range(400)])
    assert abs((reports - float(low)).mean(axis=0) - (x - low)).max() < 300
    unsigned = np.array([2**64 - 1, 3, 2**63], np.uint64)
    wide = local.LocalDiscreteLaplace(700.0, 0, 10)
    assert np.array_equal(np.round(np.mean([wide.privatize(unsigned) for _ in range(200)], axis=0)), [10, 3, 10])


# Sequential


def test_every_choice_is_checked_before_its_record_is_looked_at():
    class Record:
        def __array__(self, *_args, **_kwargs):
            raise AssertionError("looked at")

    for choice, error in ((lambda _: "binary", ParameterTypeError), (lambda _: local.BinaryResponse(1.01), ParameterError)):
        with pytest.raises(error, match="choose must return"):
            local.SequentialChannel(1.0, choice).privatize([Record()])
    with pytest.raises(ParameterError, match="delta = 0"):
        local.SequentialChannel(1.0, lambda _: local.LocalGaussian(0.5, 1e-6, 0, 1)).privatize([Record()])
    with pytest.raises(ParameterTypeError, match="choose must be a function"):
        local.SequentialChannel(1.0, None)


def test_choices_see_the_reports_before_them():
    seen = []

    def choose(reports):
        seen.append(tuple(reports))
        return local.KaryResponse(0.5, k=4) if len(reports) % 2 else local.BinaryResponse(1.0)

    reports = local.SequentialChannel(1.0, choose).privatize([True, 3, False, 0], rng=KeyedRandom(KEY))
    assert [type(report) for report in reports] == [bool, int, bool, int]
    assert seen == [tuple(reports[:i]) for i in range(4)]
    assert reports == local.SequentialChannel(1.0, choose).privatize([True, 3, False, 0], rng=KeyedRandom(KEY))


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
def test_a_sequential_quantile_converges(epsilon, q):
    x = np.random.default_rng(1).normal(30.0, 5.0, 100_000)
    mechanism = local.SequentialQuantile(epsilon, 0.0, 100.0, q=q)
    found = mechanism.privatize(x, rng=KeyedRandom(KEY))
    assert abs(found.value - np.quantile(x, q)) < 1.5
    assert mechanism.estimate(found.reports).value == found.value
    far = local.SequentialQuantile(epsilon, 0.0, 100.0, q=q, start=100.0).privatize(x, rng=KeyedRandom(KEY))
    assert abs(far.value - np.quantile(x, q)) < 2.0


def test_a_sequential_quantile_of_few():
    mechanism = local.SequentialQuantile(1.0, -1.0, 3.0, q=0.5)
    assert mechanism.privatize(np.empty(0)).value == 1.0
    assert -1.0 <= mechanism.privatize(np.array([2.0])).value <= 3.0
    with pytest.raises(DataError, match="index"):
        mechanism.privatize(np.array([1.0, np.nan]))
    for q in (0.0, 1.0, np.nan):
        with pytest.raises(ParameterError, match="q must be in"):
            local.SequentialQuantile(1.0, 0.0, 1.0, q=q)


def test_answers_of_a_sequential_quantile_are_randomised_comparisons():
    # the guess stands still: a step too small to move it
    mechanism = local.SequentialQuantile(1.0, 0.0, 10.0, q=0.5, step=1e-300)
    bits = mechanism.privatize(np.full(100_000, 3.0), rng=KeyedRandom(KEY)).reports
    assert bits.mean() == pytest.approx(np.e / (np.e + 1), abs=0.01)
    bits = mechanism.privatize(np.full(100_000, 7.0), rng=KeyedRandom(KEY)).reports
    assert bits.mean() == pytest.approx(1 / (np.e + 1), abs=0.01)


# Post-processing


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=30))
def test_the_projection_is_the_nearest_distribution(raw):
    raw = np.array(raw)
    nearest = local.project_to_simplex(raw)
    assert nearest.min() >= 0
    assert nearest.sum() == pytest.approx(1.0, abs=1e-9)
    assert local.project_to_simplex(nearest) == pytest.approx(nearest, abs=1e-9)
    # the condition of optimality: raw - nearest is the same where nearest > 0, and no larger where it is 0
    slack = raw - nearest
    assert np.ptp(slack[nearest > 1e-9]) < 1e-9
    assert slack.max() <= slack[nearest > 1e-9].min() + 1e-9


@pytest.mark.parametrize("bad", [[], [np.nan], [[0.5, 0.5]], ["a"], [np.inf, 0.0]])
def test_the_projection_wants_finite_numbers(bad):
    with pytest.raises((ParameterError, ParameterTypeError), match="frequencies must"):
        local.project_to_simplex(bad)


@pytest.mark.parametrize("answer", [True, False, 1, 0, np.True_, np.False_, np.int64(1), np.uint8(0)])
def test_a_single_answer_is_reported_as_in_an_array(answer):
    for key in range(64):
        rng = KeyedRandom(bytes([key]) * 32)
        report = BINARY.privatize(answer, rng=rng.at(0))
        assert type(report) is bool
        assert report == BINARY.privatize(np.array([answer], bool), rng=rng.at(0))[0]


@pytest.mark.parametrize("answer", [2, -1, 2**70, np.int64(2)])
def test_a_single_answer_is_checked(answer):
    with pytest.raises((DataError, ParameterError, ParameterTypeError)):
        BINARY.privatize(answer)
    with pytest.raises(ParameterError, match="threads"):
        BINARY.privatize(True, threads=0)
