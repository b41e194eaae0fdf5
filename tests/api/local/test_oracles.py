"""How calls of the randomisers for categories are checked: parameters before data, positions in messages, and no write on a refusal."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore import _backend, errors
from dpcore.local import HadamardResponse, KaryResponse, LocalHashing, SubsetSelection, UnaryEncoding
from dpcore.testing import KeyedRandom
from support.ids import shown

KINDS = [KaryResponse, UnaryEncoding, SubsetSelection, LocalHashing, HadamardResponse]
each_kind = pytest.mark.parametrize("kind", KINDS)
N, K = 5000, 12


def rng():
    return KeyedRandom(bytes(range(32)))


def codes(dtype=np.int64):
    return (np.arange(N) * 7 % K).astype(dtype)


def empty_reports(kind, dtype=np.int64):
    if kind in (UnaryEncoding, SubsetSelection):
        return np.zeros((N, (K + 7) // 8), np.uint8)
    return np.zeros(N, {LocalHashing: _backend.HASHING_REPORT, HadamardResponse: _backend.HADAMARD_REPORT}.get(kind, np.dtype(dtype)))


@each_kind
def test_a_code_outside_is_refused_by_position_before_anything_is_written(kind):
    x, out = codes(), empty_reports(kind)
    x[[4321, 4999]] = K, -1
    with pytest.raises(errors.DataError, match=r"index \(4321,\)") as caught:
        kind(1.0, k=K).privatize(x, rng=rng(), out=out)
    assert "unknown" in str(caught.value)
    assert not out.view(np.uint8).any()
    mapped = x.copy()
    mapped[[4321, 4999]] = 5
    np.testing.assert_array_equal(kind(1.0, k=K, unknown=5).privatize(x, rng=rng()), kind(1.0, k=K).privatize(mapped, rng=rng()))


@each_kind
@pytest.mark.parametrize(
    ("arguments", "error", "name"),
    [
        ({"threads": 0}, errors.ParameterError, "threads"),
        ({"threads": 4097}, errors.ParameterError, "threads"),
        ({"threads": True}, errors.ParameterTypeError, "threads"),
        ({"threads": 2.0}, errors.ParameterTypeError, "threads"),
        ({"rng": np.random.default_rng(1)}, errors.ParameterTypeError, "rng"),
        ({"out": np.zeros(3)}, (errors.ParameterError, errors.ParameterTypeError), "out"),
    ],
    ids=shown,
)
def test_wrong_parameters_are_refused_before_the_codes_are_looked_at(kind, arguments, error, name):
    mechanism, wrong = kind(1.0, k=K), np.full(N, -1)
    with pytest.raises(error, match=name):
        mechanism.privatize(wrong, **arguments)
    if name == "threads":
        with pytest.raises(error, match=name):
            mechanism.aggregate(empty_reports(kind), **arguments)


@pytest.mark.parametrize(("dtype", "k"), [(np.uint8, 257), (np.int8, 129), (np.uint16, 65537)])
def test_a_dtype_that_does_not_hold_every_answer_is_refused_with_both_names(dtype, k):
    with pytest.raises(errors.ParameterError, match=f"{k - 1}, got {np.dtype(dtype).name}"):
        KaryResponse(1.0, k=k).privatize(np.zeros(3, dtype))
    assert KaryResponse(1.0, k=k - 1).privatize(np.zeros(3, dtype)).dtype == dtype
    assert UnaryEncoding(1.0, k=k).privatize(np.zeros(3, dtype)).shape == (3, (k + 7) // 8)


@each_kind
def test_out_that_overlaps_the_codes_changes_no_report(kind):
    # codes are read after others' reports were written: unless they are copied, these are taken for codes
    mechanism, out = kind(1.0, k=K), empty_reports(kind)
    expected = mechanism.privatize(codes(), rng=rng())
    for shift in (0, 8, 800):
        memory = np.zeros(8 * N + out.nbytes + shift, np.uint8)
        x = memory[: 8 * N].view(np.int64)
        x[:] = codes()
        overlapping = memory[shift : shift + out.nbytes].view(out.dtype).reshape(out.shape)
        assert mechanism.privatize(x, rng=rng(), out=overlapping) is overlapping
        np.testing.assert_array_equal(overlapping, expected)


def test_a_kary_response_may_replace_its_codes():
    expected = KaryResponse(1.0, k=K).privatize(codes(np.uint8), rng=rng())
    x = codes(np.uint8)
    assert KaryResponse(1.0, k=K).privatize(x, rng=rng(), out=x) is x
    np.testing.assert_array_equal(x, expected)
    x = codes(np.uint8)
    KaryResponse(1.0, k=K).privatize(x, rng=rng(), out=x[::-1])
    np.testing.assert_array_equal(x[::-1], expected)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_report_of_another_size_is_named_by_its_row(threads):
    mechanism = SubsetSelection(0.5, k=20)
    reports = mechanism.privatize(np.zeros(40_000, np.int64), rng=rng())
    assert mechanism.aggregate(reports, threads=threads).n == 40_000
    reports[31_234] = 0
    with pytest.raises(errors.DataError, match="row 31234 "):
        mechanism.aggregate(reports, threads=threads)


@pytest.mark.parametrize("kind", [UnaryEncoding, SubsetSelection])
def test_a_report_with_bits_beyond_k_is_named_by_its_row(kind):
    mechanism = kind(1.0, k=K)
    reports = mechanism.privatize(codes(), rng=rng())
    reports[77, 1] |= 1 << 4
    with pytest.raises(errors.DataError, match="row 77 "):
        mechanism.aggregate(reports)


@pytest.mark.parametrize("kind", [KaryResponse, UnaryEncoding, SubsetSelection, LocalHashing, HadamardResponse])
def test_progress_is_told_and_changes_nothing(kind, monkeypatch):
    monkeypatch.setattr("dpcore.local._oracle.COUNTED_AT_ONCE", 300 * K)
    mechanism, seen = kind(1.0, k=K), []
    reports = mechanism.privatize(np.arange(1000) % K, rng=KeyedRandom(bytes(32)))
    counted = mechanism.aggregate(reports, progress=lambda done, total: seen.append((done, total)))
    assert counted == mechanism.aggregate(reports)
    assert seen == [(300, 1000), (600, 1000), (900, 1000), (1000, 1000)]
    assert mechanism.aggregate(reports[:0], progress=seen.append).n == 0


def test_an_impossible_report_is_named_by_its_place_among_all(monkeypatch):
    monkeypatch.setattr("dpcore.local._oracle.COUNTED_AT_ONCE", 300 * K)
    reports = np.arange(1000) % K
    reports[777] = K
    with pytest.raises(errors.DataError, match="index 777 is not"):
        KaryResponse(1.0, k=K).aggregate(reports, progress=print)
