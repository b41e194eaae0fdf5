"""Reports and what is counted of them: forms, impossible reports, merging, estimates as values, refusals that tell no data."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest

from dpcore import DataError, ParameterError, ParameterTypeError, _backend, local
from dpcore.testing import KeyedRandom
from support.kernels import KEY, same_bits

K = 12
BINARY, BOUNDED, TABLE = local.BinaryResponse(1.0), local.BoundedMean(1.0, -2.0, 6.0), local.BinaryChannel(1.0, (0.5, -1.0, 0.25))
KARY, UNARY, SUBSET = local.KaryResponse(1.0, k=K), local.UnaryEncoding(1.0, k=K), local.SubsetSelection(1.0, k=K)
HASHING, HADAMARD = local.LocalHashing(1.0, k=K), local.HadamardResponse(1.0, k=K)
LAPLACE, GAUSSIAN = local.LocalLaplace(1.0, -2.0, 6.0), local.LocalGaussian(1.0, 1e-6, -2.0, 6.0)
DISCRETE, DISCRETE_GAUSSIAN = local.LocalDiscreteLaplace(1.0, -2, 6), local.LocalDiscreteGaussian(1.0, 1e-6, -2, 6)
ADDITIVE = (LAPLACE, GAUSSIAN, DISCRETE, DISCRETE_GAUSSIAN)
CATEGORICAL = (KARY, UNARY, local.UnaryEncoding(1.0, k=K, method="symmetric"), SUBSET, HASHING, HADAMARD)
ALL = (BINARY, BOUNDED, TABLE, *ADDITIVE, *CATEGORICAL)
each = pytest.mark.parametrize("mechanism", ALL, ids=repr)
each_additive = pytest.mark.parametrize("mechanism", ADDITIVE, ids=repr)
PRIME = _backend.HASH_PRIME


def records(mechanism, n=1000):
    plain = np.random.default_rng(3)
    if mechanism in CATEGORICAL:
        return plain.integers(0, K, n)
    if mechanism in (BINARY, TABLE):
        return plain.integers(0, 2, n)
    return plain.integers(-4, 9, n) if mechanism in (DISCRETE, DISCRETE_GAUSSIAN) else plain.normal(1, 3, n)


def keyed(nonce=0, element=0):
    return KeyedRandom(KEY).at(nonce, element)


def reports_of(mechanism, n=1000):
    return mechanism.privatize(records(mechanism, n), rng=keyed())


# Every mechanism


@each
def test_reports_are_counted_whatever_their_layout_and_threads(mechanism):
    reports = reports_of(mechanism)
    whole = mechanism.aggregate(reports)
    assert mechanism.aggregate(reports[::-1]) == whole
    assert mechanism.aggregate(reports[::2]) + mechanism.aggregate(reports[1::2]) == whole
    assert mechanism.aggregate(np.asfortranarray(reports)) == whole
    for threads in (1, 3):
        assert mechanism.aggregate(reports, threads=threads) == whole
    if reports.ndim == 1:
        assert mechanism.aggregate(reports.reshape(20, 50)) == whole
    many = mechanism.aggregate(np.concatenate([reports] * 100), threads=4)
    assert many.n == 100 * whole.n
    assert np.array_equal(np.asarray(many.counts[0]), 100 * np.asarray(whole.counts[0]))


@each
def test_records_are_read_whatever_their_layout_and_threads(mechanism):
    x = records(mechanism, 600)
    reports = mechanism.privatize(x, rng=keyed())
    wide = np.repeat(x, 3)
    for given_ in (wide[::3], x[::-1].copy()[::-1], x.tolist()):
        assert same_bits(mechanism.privatize(given_, rng=keyed()), reports)
    for threads in (1, 2, 5):
        assert same_bits(mechanism.privatize(x, rng=keyed(), threads=threads), reports)
    tail = mechanism.privatize(x[100:], rng=keyed(element=100))
    assert same_bits(tail, np.ascontiguousarray(reports[100:]))
    if x.dtype == np.int64:
        for dtype in (np.int32, np.int16, np.int8, *((np.uint8, np.uint16, np.uint32) if x.min() >= 0 else ())):
            found = mechanism.privatize(x.astype(dtype), rng=keyed())
            assert np.array_equal(found, reports)
            assert found.dtype == (dtype if mechanism is KARY else reports.dtype)
    if mechanism not in (UNARY, SUBSET, CATEGORICAL[2]):
        square = mechanism.privatize(np.asfortranarray(x.reshape(20, 30)), rng=keyed())
        assert same_bits(square, reports.reshape(20, 30))
        assert mechanism.privatize(np.zeros((3, 0, 2), x.dtype)).shape == (3, 0, 2)
    else:
        with pytest.raises(ParameterError, match="records must be a scalar or a vector"):
            mechanism.privatize(x.reshape(20, 30))


@each
def test_a_scalar_is_the_first_of_an_array(mechanism):
    x = records(mechanism, 8)
    first = mechanism.privatize(x, rng=keyed())[0]
    for one in (x[0].item(), x[0], x[0, ...]):
        report = mechanism.privatize(one, rng=keyed())
        assert np.array_equal(report, first)
    plain = {BINARY: bool, BOUNDED: bool, TABLE: bool, KARY: int, LAPLACE: float, GAUSSIAN: float, DISCRETE: int, DISCRETE_GAUSSIAN: int}
    assert type(mechanism.privatize(x[0].item())) is plain.get(mechanism, np.ndarray)
    assert mechanism.aggregate(report).n == 1
    assert mechanism.estimate(report).n == 1


@each
def test_out_is_checked_and_nothing_is_written_when_data_are_refused(mechanism):
    x = records(mechanism)
    reports = mechanism.privatize(x, rng=keyed())
    out = np.zeros_like(reports)
    assert mechanism.privatize(x, rng=keyed(), out=out) is out
    assert same_bits(out, reports)
    locked = np.zeros_like(reports)
    locked.setflags(write=False)
    for bad in (locked, np.zeros_like(reports)[:-1], np.zeros(reports.shape, np.complex128), np.ma.zeros(reports.shape, reports.dtype), []):
        with pytest.raises((ParameterError, ParameterTypeError), match="out must"):
            mechanism.privatize(x, out=bad)
    if mechanism in ADDITIVE[2:]:
        return  # every integer is clamped: no data are refused
    wrong = x.astype(np.float64) if mechanism in (BOUNDED, *ADDITIVE) else x.copy()
    wrong[777] = np.nan if wrong.dtype.kind == "f" else 98765
    out = np.zeros_like(reports)
    with pytest.raises(DataError, match="777") as caught:
        mechanism.privatize(wrong, out=out, rng=keyed())
    assert "98765" not in str(caught.value)
    # the blocks before the one that is refused may be there, unless refusals are known beforehand
    made = 512 if wrong.dtype.kind == "f" and same_bits(out[:512], reports[:512]) else 0
    assert not out[made:].view(np.uint8).any()


@pytest.mark.parametrize("mechanism", ADDITIVE[:2], ids=repr)
def test_records_that_are_refused_in_place_have_not_been_changed(mechanism):
    x = np.resize(records(mechanism).astype(np.float64), 200_000)
    x[150_000] = x[199_999] = np.nan
    memory = x.copy()
    for threads in (1, 4):
        with pytest.raises(DataError, match="150000"):
            mechanism.privatize(memory, out=memory, threads=threads)
        assert same_bits(memory, x)
        with pytest.raises(DataError, match="150000"):
            mechanism.privatize(memory, threads=threads)


@each
def test_arrays_in_foreign_byte_order_are_refused(mechanism):
    x = records(mechanism)
    swapped = x.astype(x.dtype.newbyteorder("S"))
    with pytest.raises(ParameterTypeError, match="foreign byte order"):
        mechanism.privatize(swapped)
    reports = reports_of(mechanism)
    if reports.dtype.itemsize > 1:
        with pytest.raises(ParameterTypeError, match="reports must"):
            mechanism.aggregate(reports.astype(reports.dtype.newbyteorder("S")))


@each
def test_reports_of_another_type_or_shape_are_refused(mechanism):
    reports = reports_of(mechanism)
    for bad in (reports.astype(object), np.ma.masked_array(reports), np.zeros(5, np.complex128), None, "reports", np.zeros(4, "U3")):
        with pytest.raises(ParameterTypeError, match="reports must"):
            mechanism.aggregate(bad)
    if mechanism in (UNARY, SUBSET):
        for bad in (reports[:, :1], np.zeros((3, 2, 2), np.uint8), np.zeros((3, 3), np.uint8)):
            with pytest.raises(ParameterError, match=r"shape \(n, 2\) for k = 12"):
                mechanism.aggregate(bad)


@each
def test_aggregates_and_estimates_are_pickled_copied_and_shown(mechanism):
    counted = mechanism.aggregate(reports_of(mechanism))
    for twin in (pickle.loads(pickle.dumps(counted)), copy.deepcopy(counted), copy.copy(counted)):
        assert twin == counted
        assert twin + counted == counted + twin
    assert counted != (counted.n, 0)
    assert repr(mechanism) in repr(counted)
    estimate = mechanism.estimate(counted)
    twin = pickle.loads(pickle.dumps(estimate))
    assert (same_bits(twin.value, estimate.value), same_bits(twin.interval(), estimate.interval())) == (True, True)
    for thing, name in ((counted, "n"), (estimate, "value"), (mechanism, "epsilon")):
        with pytest.raises(AttributeError):
            setattr(thing, name, 1)
    with pytest.raises(TypeError):
        hash(counted)
    with pytest.raises(TypeError):
        counted + 1
    again = mechanism.estimate(counted)  # estimating changes no count
    assert same_bits(again.value, estimate.value)
    other = dataclasses.replace(mechanism, epsilon=2.0)
    assert other != mechanism
    assert other.privacy.epsilon == 2.0
    assert other == type(mechanism)(**{f.name: getattr(other, f.name) for f in dataclasses.fields(other) if f.init})
    with pytest.raises(ParameterError, match="different mechanisms"):
        counted + local.Aggregate(other, 0, counted.counts)


@each
def test_intervals_are_wider_at_a_higher_confidence_and_finite_at_any(mechanism):
    counted = mechanism.aggregate(reports_of(mechanism))
    widths = [np.diff(mechanism.estimate(counted).interval(c)).max() for c in (1e-9, 0.5, 0.95, 1 - 1e-9, np.nextafter(1.0, 0))]
    assert np.isfinite(widths).all()
    assert (np.diff(widths) > 0).all()
    estimate = mechanism.estimate(counted)
    half = 1.959963984540054 * np.asarray(estimate.stderr)
    assert np.diff(estimate.interval())[..., 0] == pytest.approx(2 * half, rel=0.05)
    assert estimate.interval().mean(axis=-1) == pytest.approx(estimate.value, abs=0.1 * half.max())  # counts are skewed


@pytest.mark.parametrize("confidence", [True, "0.9", None, 1j])
def test_a_confidence_of_the_wrong_type(confidence):
    with pytest.raises(ParameterTypeError, match="confidence must be a real number"):
        KARY.estimate(reports_of(KARY)).interval(confidence)


# Impossible reports


def corrupted(mechanism, position, field, value):
    reports = reports_of(mechanism)
    (reports if field is None else reports[field])[position] = value
    return reports


@pytest.mark.parametrize(
    ("mechanism", "field", "value"),
    [
        (KARY, None, K),
        (KARY, None, -1),
        (KARY, None, 2**62),
        (HASHING, "code", HASHING.g),
        (HASHING, "code", 2**32 - 1),
        (HASHING, "seed", 0),
        (HASHING, "seed", 5 << 31),  # a = 0
        (HASHING, "seed", PRIME),  # a = P
        (HASHING, "seed", PRIME << 31 | 1),  # b = P
        (HASHING, "seed", 2**62 + 1),
        (HASHING, "seed", 2**64 - 1),
        (HADAMARD, "row", HADAMARD.rows),
        (HADAMARD, "row", 2**32 - 1),
        (UNARY, None, (0, 1 << 4)),
        (SUBSET, None, (0, 1 << 7)),
        (SUBSET, None, (0, 0)),
        (SUBSET, None, (255, 15)),
    ],
    ids=str,
)
@pytest.mark.parametrize("position", [0, 777, 999])
def test_reports_that_cannot_be_are_refused_by_position(mechanism, field, value, position):
    reports = corrupted(mechanism, position, field, value)
    with pytest.raises(DataError, match=rf"\b{position}\b"):
        mechanism.aggregate(reports)
    with pytest.raises(DataError, match=rf"\b{position}\b"):
        mechanism.estimate(reports)
    assert mechanism.aggregate(np.delete(reports, position, axis=0)).n == 999


@each_additive
def test_reports_off_the_grid_are_refused_by_position(mechanism):
    reports = reports_of(mechanism).astype(np.float64)
    if mechanism.integral:
        with pytest.raises(ParameterTypeError, match="reports must"):
            mechanism.aggregate(reports)
        return
    for bad in (mechanism.grid / 2, np.nan, np.inf, -np.inf, 5e-324, 1 + mechanism.grid / 4):
        broken = reports.copy()
        broken[777] = bad
        with pytest.raises(DataError, match="index 777 "):
            mechanism.aggregate(broken)


@each
@pytest.mark.parametrize(
    ("threads", "error"), [(0, ParameterError), (4097, ParameterError), (True, ParameterTypeError), ("2", ParameterTypeError)]
)
def test_numbers_of_threads_are_checked_whether_they_are_used_or_not(mechanism, threads, error):
    with pytest.raises(error, match="threads must be"):
        mechanism.aggregate(reports_of(mechanism), threads=threads)
    with pytest.raises(error, match="threads must be"):
        mechanism.privatize(records(mechanism), threads=threads)


@each
def test_what_becomes_no_array_of_numbers_is_refused_in_our_words(mechanism):
    for bad in ([[1], [2, 3]], None, "abc", [2**70], {1: 2}, [1, None]):
        for out in (None, np.zeros(2, bool)):
            with pytest.raises(ParameterTypeError, match=r"records must|out must"):
                mechanism.privatize(bad, out=out)


# One bit


def test_a_callable_is_asked_for_real_numbers_of_the_right_shape():
    x = np.linspace(-1, 1, 6)

    def returning(function):
        return local.BinaryChannel(1.0, function, bound=1.0)

    ragged = lambda v: [[1.0], *[[2.0, 3.0]] * (len(v) - 1)]  # noqa: E731
    for bad, error in (
        (lambda v: np.ma.masked_array(v, v > 0), ParameterTypeError),
        (ragged, ParameterTypeError),
        (lambda v: 1j * v, ParameterError),
        (lambda v: v > 0, ParameterError),
        (lambda v: v[:, None], ParameterError),
        (lambda _: None, ParameterError),
    ):
        out = np.zeros(6, bool)
        with pytest.raises(error, match="phi"):
            returning(bad).privatize(x, out=out)
        assert not out.any()
    late = returning(lambda v: np.where(v == 1, np.nan, v))
    out = np.zeros(200_000, bool)
    with pytest.raises(DataError, match=r"index \(199999,\)"):
        late.privatize(np.arange(200_000) // 199_999, out=out)
    assert not out.any()
    words = local.BinaryChannel(1.0, lambda v: np.char.str_len(v) - 2.0, bound=1.0)
    assert words.privatize(["a", "bb", "ccc"]).shape == (3,)
    assert type(words.privatize("a")) is bool


def test_values_of_a_callable_are_clamped_to_the_bound_and_replaced_where_missing():
    x = np.array([-np.inf, -5.0, -1.0, 0.3, 1.0, 7.0, np.inf, np.nan] * 10_000)
    wild = local.BinaryChannel(1.0, lambda v: v, bound=1.0, missing=0.25)
    tame = local.BinaryChannel(1.0, lambda v: np.where(np.isnan(v), 0.25, np.clip(v, -1, 1)), bound=1.0)
    reports = wild.privatize(x, rng=keyed())
    assert same_bits(reports, tame.privatize(x, rng=keyed()))
    assert same_bits(reports, local.BoundedMean(1.0, -1.0, 1.0, missing=0.25).privatize(x, rng=keyed()))  # in blocks and at once
    assert np.array_equal(wild.channel([-5.0, 7.0]), local.BinaryChannel(1.0, [-1.0, 1.0]).channel())


def test_points_of_a_channel_are_a_vector():
    sine = local.BinaryChannel(1.0, np.sin, bound=1.0)
    for mechanism in (BOUNDED, sine):
        assert np.array_equal(mechanism.channel(0.5), mechanism.channel([0.5]))
        assert mechanism.channel([]).shape == (0, 2)
        with pytest.raises(ParameterError, match=r"points must be a single one or a vector, got shape \(2, 2\)"):
            mechanism.channel([[0.0, 1.0], [0.5, 0.5]])
        for bad in (np.ma.masked_array([0.5], [True]), [[0.0], [1.0, 2.0]]):
            with pytest.raises(ParameterTypeError, match="points must"):
                mechanism.channel(bad)
        with pytest.raises(ParameterError, match="points must not"):
            mechanism.channel([np.nan])
    with pytest.raises(ParameterError, match="points is required"):
        sine.channel()


@pytest.mark.parametrize("epsilon", [1.0, 36.0, 50.0, 700.0])
def test_reports_that_all_agree_are_no_certainty_in_either_direction(epsilon):
    for mechanism in (local.BoundedMean(epsilon, -1.0, 1.0), local.BinaryChannel(epsilon, [1.0, -1.0]), local.BinaryResponse(epsilon)):
        none, every = (mechanism.estimate(np.full(100, answer)) for answer in (False, True))
        assert none.stderr > 0
        assert every.stderr == pytest.approx(none.stderr, rel=1e-9, abs=0.0)
        assert np.isfinite(every.interval()).all()


def test_values_of_a_report_that_overflow_are_refused():
    for make in (
        lambda: local.BinaryChannel(2.0**-20, [1e303, -1.0]),
        lambda: local.BinaryChannel(2.0**-20, np.sin, bound=1e303),
        lambda: local.BoundedMean(2.0**-20, -1e303, 1e303),
        lambda: local.BoundedMean(0.29, -(2.0**1021), 2.0**1021),  # z0 = 6.9: half the width times it is finite yet
    ):
        with pytest.raises(ParameterError, match="finite values of a report"):
            make()
    widest = local.BoundedMean(700.0, -(2.0**1021), 2.0**1021)
    for answers in (np.zeros(3, bool), np.ones(3, bool), np.array([True, False])):
        assert np.isfinite(widest.estimate(answers).value)


@pytest.mark.parametrize("mechanism", [BINARY, TABLE, KARY, HADAMARD], ids=repr)
def test_the_first_of_many_wrong_codes_is_named_whichever_thread_finds_one(mechanism):
    x = np.zeros(4_000_000, np.int8)
    x[[1_234_567, 2_345_678, 3_999_999]] = 99
    for threads in (1, 2, 4):
        with pytest.raises(DataError, match=r"index \(1234567,\)"):
            mechanism.privatize(x, threads=threads)


# Packed bits


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 63, 64, 65, 513, 4099])
@pytest.mark.parametrize("mechanism", [BINARY, BOUNDED, TABLE], ids=repr)
def test_packed_reports_hold_the_unpacked_ones_and_zeros(mechanism, n):
    x = records(mechanism, n)
    reports = mechanism.privatize(x, rng=keyed())
    wanted = np.packbits(reports, bitorder="little")
    packed = BINARY.privatize_packed(np.packbits(x, bitorder="little"), n=n, rng=keyed()) if mechanism is BINARY else None
    packed = mechanism.privatize_packed(x, rng=keyed()) if packed is None else packed
    assert same_bits(packed, wanted)
    counted = mechanism.aggregate(reports)
    assert mechanism.aggregate_packed(packed, n=n) == counted
    if n % 8:
        dirty = packed.copy()
        dirty[-1] |= 255 << n % 8 & 255
        assert mechanism.aggregate_packed(dirty, n=n) == counted
    for wrong in (n + 8 * len(packed) + 1, -1, 1.0, True, None):
        with pytest.raises((ParameterError, ParameterTypeError), match=r"n must|reports must"):
            mechanism.aggregate_packed(packed, n=wrong)
    with pytest.raises(ParameterTypeError, match="reports must"):
        mechanism.aggregate_packed(packed.astype(np.int8), n=n)


def test_packed_bits_in_place_and_out():
    bits = np.packbits(records(BINARY, 4099), bitorder="little")
    wanted = BINARY.privatize_packed(bits, n=4099, rng=keyed())
    out = np.full(len(bits), 255, np.uint8)
    assert BINARY.privatize_packed(bits, n=4099, rng=keyed(), out=out) is out
    assert same_bits(out, wanted)
    same = bits.copy()
    assert same_bits(BINARY.privatize_packed(same, n=4099, rng=keyed(), out=same), wanted)
    shifted = np.zeros(len(bits) + 1, np.uint8)
    shifted[:-1] = bits
    BINARY.privatize_packed(shifted[:-1], n=4099, rng=keyed(), out=shifted[1:])
    assert same_bits(shifted[1:].copy(), wanted)
    for bad in (np.zeros(len(bits) + 1, np.uint8), np.zeros(len(bits), bool), np.zeros(2 * len(bits), np.uint8)[::2]):
        with pytest.raises((ParameterError, ParameterTypeError), match="out must"):
            BINARY.privatize_packed(bits, n=4099, out=bad)


@pytest.mark.parametrize("k", [2, 7, 8, 9, 64, 65, 127])
@pytest.mark.parametrize("kind", [local.UnaryEncoding, local.SubsetSelection])
def test_rows_are_padded_with_zeros_and_counted_by_column(kind, k):
    mechanism = kind(0.5, k=k)
    reports = mechanism.privatize(np.arange(3 * k) % k, rng=keyed())
    assert reports.shape == (3 * k, (k + 7) // 8)
    bits = np.unpackbits(reports, axis=1, bitorder="little")
    assert not bits[:, k:].any()
    assert mechanism.aggregate(reports).counts.tolist() == bits[:, :k].sum(axis=0).tolist()
    if kind is local.SubsetSelection:
        assert (bits.sum(axis=1) == mechanism.w).all()


# Counts by their definitions


def test_counts_of_hashing_and_hadamard_by_their_definitions():
    reports = reports_of(HASHING, 300)
    supported = [0] * K
    for seed, code in reports.tolist():
        a, b = seed % 2**31, seed >> 31
        for v in range(K):
            supported[v] += (a * v + b) % PRIME % HASHING.g == code
    assert HASHING.aggregate(reports).counts.tolist() == supported
    reports = reports_of(HADAMARD, 300)
    sums, supported = [0] * HADAMARD.rows, [0] * K
    for row, bit in reports.tolist():
        sums[row] += 1 if bit else -1
        for v in range(K):
            supported[v] += ((row & v).bit_count() % 2 == 0) == bit
    counted = HADAMARD.aggregate(reports)
    assert counted.counts.tolist() == sums
    p, q, _ = HADAMARD.support
    assert HADAMARD.estimate(counted).value == pytest.approx((np.array(supported) / 300 - q) / (p - q), rel=1e-12)


def test_a_code_that_is_not_known_becomes_the_named_one_and_is_another_mechanism():
    x = records(KARY)
    strange = x.copy()
    strange[::7] = np.resize([-1, K, 2**62, -(2**62)], len(strange[::7]))
    replaced = np.where(np.arange(1000) % 7 == 0, 3, x)
    for mechanism in CATEGORICAL:
        lenient = dataclasses.replace(mechanism, unknown=3)
        assert same_bits(lenient.privatize(strange, rng=keyed()), mechanism.privatize(replaced, rng=keyed()))
        for bad in (-1, K):
            with pytest.raises(ParameterError, match=rf"unknown must be in \[0, {K - 1}\], got {bad}"):
                dataclasses.replace(mechanism, unknown=bad)
        for bad in (True, 1.0, "3"):
            with pytest.raises(ParameterTypeError, match="unknown must be an integer"):
                dataclasses.replace(mechanism, unknown=bad)


@pytest.mark.parametrize("k", [1, 0, -3, 2**24 + 1, 2.0, True, "7", None])
def test_numbers_of_categories(k):
    for kind in (local.KaryResponse, local.UnaryEncoding, local.SubsetSelection, local.LocalHashing, local.HadamardResponse):
        with pytest.raises((ParameterError, ParameterTypeError), match="k must be"):
            kind(1.0, k=k)
