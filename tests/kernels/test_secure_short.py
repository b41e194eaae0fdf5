"""Few values under the secure source go from its key to their results in one call: what the general way gives under the same key."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpcore import local, noise, selection
from dpcore._backend import levels, threads
from dpcore._backend.hooks import Testing
from dpcore._backend.partitions import Brackets
from dpcore._kernels import _noise
from dpcore.errors import DataError, ParameterError
from dpcore.rng import SecureRandom
from dpcore.testing import KeyedRandom

Array = np.ndarray
CODES, NUMBERS = np.arange(90) % 16, np.linspace(-1.0, 9.0, 90)


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], bytes]:
    """Name the key that the operating system gives from now on."""
    current = [bytes(32)]
    monkeypatch.setattr(os, "urandom", lambda n: bytes(bytearray(current[0]))[:n])

    def use(number: int) -> bytes:
        current[0] = hashlib.sha256(b"%d" % number).digest()
        return current[0]

    return use


NOISES: dict[str, tuple[Callable[..., Any], Array]] = {
    "laplace": (noise.laplace, NUMBERS), "gaussian": (noise.gaussian, NUMBERS),
    "discrete_laplace": (noise.discrete_laplace, CODES - 3), "discrete_gaussian": (noise.discrete_gaussian, CODES - 3),
}  # fmt: skip


@pytest.mark.parametrize("scale", [0.8, 20.0, 3, np.float64(11)])
@pytest.mark.parametrize("name", NOISES)
def test_noise_of_few_values(name: str, scale: Any, key: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    function, values = NOISES[name]
    for number in range(20):
        few = values[: number + 1]
        key(number)
        found = [function(few, scale), np.array(function(few.tolist(), scale)), function(few, scale, out=np.empty_like(few))]
        strided, own = np.empty((len(few), 2), few.dtype), few.copy()
        function(few, scale, out=strided[:, 1])
        function(own, scale, out=own)
        single = function(few[0].item(), scale)
        with monkeypatch.context() as patch:
            patch.setattr(threads, "SMALL", 0)
            expected = function(few, scale)
            first = function(few[0].item(), scale)
        for each in (*found, strided[:, 1], own):
            assert each.dtype == few.dtype
            np.testing.assert_array_equal(each, expected)
        assert single == first == expected[0]


def test_lists_and_outputs_of_other_kinds_go_the_general_way(key: Callable[[int], bytes]) -> None:
    key(1)
    expected = noise.laplace(np.array([1.0, 2.0]), 1.0)
    assert noise.laplace([1, 2], 1.0).tolist() == noise.laplace([1.0, 2], 1.0).tolist() == expected.tolist()
    assert noise.laplace(np.array([1.0, 2.0]), 1.0, out=np.zeros(2, np.float32)).tolist() == expected.astype(np.float32).tolist()
    assert noise.laplace([[1.0], [2.0]], 1.0).tolist() == [[each] for each in expected.tolist()]
    assert noise.discrete_laplace([True, 2], 1.0).dtype == np.int64
    for out in (np.zeros(3), np.broadcast_to(np.zeros(1), 2), np.lib.stride_tricks.as_strided(np.zeros(1), (2,), (0,))):
        with pytest.raises(ParameterError, match="out must"):
            noise.laplace(np.array([1.0, 2.0]), 1.0, out=out)
    with pytest.raises(DataError, match=r"index \(1,\)"):
        noise.laplace([1.0, float("nan")], 1.0)


MECHANISMS: dict[str, tuple[Any, Array]] = {
    "binary": (local.BinaryResponse(1.0), CODES < 5), "mean": (local.BoundedMean(1.0, 0.0, 8.0), NUMBERS),
    "int mean": (local.BoundedMean(1.0, 0.0, 8.0), CODES), "kary": (local.KaryResponse(1.0, k=16), CODES),
    "kary uint8": (local.KaryResponse(1.0, k=16), CODES.astype(np.uint8)), "unary": (local.UnaryEncoding(1.0, k=16), CODES),
    "symmetric": (local.UnaryEncoding(1.0, k=19, method="symmetric"), CODES), "subset": (local.SubsetSelection(1.0, k=16), CODES),
    "large subset": (local.SubsetSelection(1.0, k=70), CODES), "hashing": (local.LocalHashing(1.0, k=16), CODES),
    "hadamard": (local.HadamardResponse(1.0, k=16), CODES), "projective": (local.ProjectiveGeometryResponse(1.0, k=16), CODES),
    "large space": (local.ProjectiveGeometryResponse(2.0, k=1000), CODES),
    "one line": (local.ProjectiveGeometryResponse(4.0, k=3), CODES % 3),
    "vector": (local.VectorMean(1.0, 0.0, 8.0, d=4), np.stack([NUMBERS] * 4, axis=1)),
    "signs": (local.VectorMean(1.0, 0.0, 8.0, d=4, method="hypercube"), np.stack([NUMBERS] * 4, axis=1)),
    "replaced": (local.KaryResponse(1.0, k=8, unknown=3), CODES),
    "missing": (local.BoundedMean(1.0, 0.0, 8.0, missing=2.0), np.where(CODES > 2, NUMBERS, np.nan)),
}  # fmt: skip


@pytest.mark.parametrize("name", MECHANISMS)
def test_reports_of_few_records(name: str, key: Callable[[int], bytes]) -> None:
    mechanism, records = MECHANISMS[name]
    for number, few in enumerate([records, records[:1], records[1:8:3], np.concatenate([records] * 12), records[:0]]):
        key(number)
        found, expected = mechanism.privatize(few), mechanism.privatize(few, rng=SecureRandom())
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        assert found.tobytes() == expected.tobytes()
    if records.ndim == 1:
        single = records[0].item()
        assert np.array_equal(mechanism.privatize(single), mechanism.privatize(single, rng=SecureRandom()))
        assert np.array_equal(mechanism.privatize(np.array(single)), mechanism.privatize(np.array(single), rng=SecureRandom()))


@pytest.mark.parametrize(
    ("mechanism", "records", "message"),
    [
        (local.KaryResponse(1.0, k=4), np.array([0, 4]), r"index \(1,\)"),
        (local.UnaryEncoding(1.0, k=4), np.array([0, -1]), r"index \(1,\)"),
        (local.ProjectiveGeometryResponse(1.0, k=16), np.array([0, 16]), r"index \(1,\)"),
        (local.BoundedMean(1.0, 0.0, 8.0), np.array([0.0, np.nan]), r"index \(1,\)"),
        (local.VectorMean(1.0, 0.0, 8.0, d=2), np.array([[0.0, 1.0], [np.nan, 1.0]]), r"index \(1, 0\)"),
        (local.VectorMean(1.0, 0.0, 8.0, d=2, method="hypercube"), np.array([[0.0, np.nan]]), r"index \(0, 1\)"),
    ],
)
def test_what_is_refused(mechanism: Any, records: Array, message: str) -> None:
    with pytest.raises(DataError, match=message):
        mechanism.privatize(records)


def test_codes_that_a_dtype_does_not_hold_are_refused() -> None:
    with pytest.raises(ParameterError, match="dtype that holds"):
        local.KaryResponse(1.0, k=300).privatize(np.array([1, 2], np.uint8))


CHOICES: dict[str, Callable[..., Any]] = {
    "argmax": lambda scores, **more: selection.noisy_argmax(scores, 1.0, 1.0, **more),
    "gumbel": lambda scores, **more: selection.exponential_mechanism(scores, 1.0, 1.0, **more),
    "flip": lambda scores, **more: selection.permute_and_flip(scores, 1.0, 1.0, **more),
    "top": lambda scores, **more: selection.top_s(scores, 1.0, 1.0, s=3, **more).indices.tolist(),
    "peeling": lambda scores, **more: selection.top_s(scores, 1.0, 1.0, s=3, delta=1e-6, method="peeling", **more).indices.tolist(),
    "all": lambda scores, **more: selection.top_s(scores, 1.0, 1.0, s=len(scores), delta=1e-6, method="peeling", **more).indices.tolist(),
}


@pytest.mark.parametrize("name", CHOICES)
def test_choices_among_few_scores(name: str, key: Callable[[int], bytes]) -> None:
    """Beside the same call without pruning, which begins with no threshold."""
    for number in range(60):
        generator = np.random.default_rng(number)
        scores = generator.integers(-5, 6, 3 + number) if number % 3 else generator.normal(size=3 + number) * 10
        key(number)
        found = CHOICES[name](scores)
        assert found == CHOICES[name](scores, rng=SecureRandom())
        Testing.unpruned = True
        try:
            assert found == CHOICES[name](scores)
        finally:
            Testing.unpruned = False


def test_the_result_of_top_s_is_one_of_its_class() -> None:
    chosen = selection.top_s([1.0, 2.0], 1.0, 1.0, s=1)
    assert type(chosen) is selection.Selection
    assert (chosen.values, chosen.value_scale, chosen.labels) == (None, None, None)
    with pytest.raises(AttributeError):
        chosen.scale = 1.0  # type: ignore[misc]


def test_partitions(key: Callable[[int], bytes]) -> None:
    counts = np.arange(200) % 40
    for number in range(20):
        key(number)
        found = selection.select_partitions(counts, 1.0, 1e-6)
        assert found.dtype == np.bool_
        np.testing.assert_array_equal(found, selection.select_partitions(counts, 1.0, 1e-6, rng=SecureRandom()))
        np.testing.assert_array_equal(found[:7], selection.select_partitions(counts[:7].astype(np.int16), 1.0, 1e-6))


# What the short way cannot finish goes on under its position: another one would be a draw anew, which what is undecided must not decide


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The keys that the operating system has given, each another one."""
    given: list[bytes] = []

    def read(n: int) -> bytes:
        given.append(hashlib.sha256(b"%d" % len(given)).digest()[:n])
        return bytes(bytearray(given[-1]))

    monkeypatch.setattr(os, "urandom", read)
    return given


def test_noise_that_is_left_to_the_general_way_is_under_the_same_position(keys: list[bytes]) -> None:
    law = _noise.Law(_noise.LAPLACE, 1.0)
    call = _noise.ShortCall(law, None, threads, Testing, levels.secure_cipher, lambda values, position: (values, position))
    for values in (np.array([1.0, np.inf]), [1.0, np.inf]):
        left, (used, nonce, first, secure) = call.release(values, None)
        assert left.tolist() == [1.0, np.inf]
        assert (bytes(used), nonce, first, secure) == (keys.pop(), 0, 0, True)
        assert not keys


def test_partitions_that_are_left_to_the_exact_tier_are_under_the_same_position(keys: list[bytes]) -> None:
    undecided = Brackets(np.zeros(1, np.uint64), np.full(1, 2**64 - 1, np.uint64), 0)
    found = undecided.decide(np.arange(3))
    assert isinstance(found, tuple)
    assert [(bytes(found[0]), *found[1:])] == [(each, 0, 0, True) for each in keys]


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_call_reads_one_key(name: str, keys: list[bytes]) -> None:
    mechanism, records = MECHANISMS[name]
    for calls in range(1, 30):
        mechanism.privatize(records)
        assert len(keys) == calls


@pytest.mark.parametrize("name", CHOICES)
def test_every_choice_reads_one_key(name: str, keys: list[bytes]) -> None:
    for calls in range(1, 30):
        CHOICES[name](np.full(5, 2**60, np.int64))
        assert len(keys) == calls


@pytest.mark.parametrize("name", ["argmax", "top", "peeling"])
def test_ties_of_scores_beyond_the_noise_are_decided_under_the_same_position(name: str, key: Callable[[int], bytes]) -> None:
    """Scores near 2^53 with noise of scale one: floats do not tell the keys."""
    for number in range(10):
        key(number)
        scores = np.full(5, 2**60 + number, np.int64)
        assert CHOICES[name](scores) == CHOICES[name](scores, rng=SecureRandom())


# A scale for each value

FORMS: dict[str, Callable[[Array], Any]] = {
    "int64": lambda s: s.astype(np.int64), "int32": lambda s: s.astype(np.int32), "uint8": lambda s: s.astype(np.uint8),
    "float32": lambda s: s.astype(np.float32), "float16": lambda s: s.astype(np.float16), "strided": lambda s: np.repeat(s, 2)[::2],
    "list": lambda s: s.tolist(), "backwards": lambda s: s[::-1].copy()[::-1], "read-only": lambda s: np.frombuffer(s.tobytes()),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["discrete_laplace", "discrete_gaussian"])
def test_scales_of_any_form_are_numbers_alike(name: str, form: str) -> None:
    function = NOISES[name][0]
    for size in (1, 2, 63, 64, 65, 700):
        scales = 1.0 + np.arange(size) * 7 % 19
        values, rng = np.zeros(size, np.int64), KeyedRandom(bytes(32)).at(3)
        expected = np.array([function(values, each, rng=rng)[i] for i, each in enumerate(scales.tolist())])
        np.testing.assert_array_equal(function(values, FORMS[form](scales), rng=rng), expected)


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf, 2.0**41, 2.0**-20])
def test_a_scale_out_of_range_is_refused_wherever_it_is(wrong: float) -> None:
    for place in (0, 5, 64, 299):
        scales = np.full(300, 2.0)
        scales[place] = wrong
        with pytest.raises(ParameterError, match=rf"at index \({place},\)"):
            noise.discrete_laplace(np.zeros(300, np.int64), scales)


@pytest.mark.parametrize("distinct", [2047, 2048, 2049, 3000])
def test_more_distinct_scales_than_are_numbered(distinct: int) -> None:
    scales = 1.0 + np.arange(distinct) / 4096
    values, rng = np.zeros(distinct, np.int64), KeyedRandom(bytes(32)).at(3)
    found = noise.discrete_laplace(values, scales, rng=rng)
    for i in (0, 17, distinct - 1):
        assert found[i] == noise.discrete_laplace(values, scales[i].item(), rng=rng)[i]
