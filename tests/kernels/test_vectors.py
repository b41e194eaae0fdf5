"""Reports about vectors: one answer at every level, thread count, tier and cut, and the one that fractions make of the same bits."""

from __future__ import annotations

import hashlib
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dpcore import _backend
from dpcore.errors import DataError, ParameterError
from dpcore.local import VectorMean
from dpcore.testing import KeyedRandom
from support.kernels import ACCURATE, AES_LEVELS, EXACT, FAST, KEY, LEVELS, Array, SecureCipher, at_level, at_tier, layouts, same_bits
from support.responses import Twin


def spread(d: int, n: int, dtype: str = "float64", seed: int = 5) -> Array:
    """Numbers within and beyond [−1, 3], and at its ends."""
    plain = np.random.default_rng(seed)
    x = plain.uniform(-1.6, 3.6, (n, d))
    x[plain.random((n, d)) < 0.05] = 3.0
    x[plain.random((n, d)) < 0.05] = -1.0
    if dtype.startswith("float"):
        x[plain.random((n, d)) < 0.02] = np.inf
        x[plain.random((n, d)) < 0.02] = -np.inf
    return x.astype(dtype)


def bounds_of(d: int) -> tuple[list[float], list[float]]:
    """Bounds that differ from coordinate to coordinate."""
    return [-1.0 - j % 3 for j in range(d)], [3.0 + 2.0 ** -(j % 7) for j in range(d)]


def mechanism(method: str, d: int, epsilon: float, *, several: bool = False) -> VectorMean:
    lower, upper = bounds_of(d) if several else (-1.0, 3.0)
    return VectorMean(epsilon, lower, upper, d=d, method=method)  # type: ignore[arg-type]


CASES = {
    f"{method}-{d}-{epsilon}": (method, d, epsilon)
    for method, sizes in (("sample", (1, 3, 5, 700)), ("hypercube", (1, 2, 3, 8, 63, 64, 65, 200)))
    for d, epsilon in zip(sizes, (1.0, 0.01, 3.0, 0.7, 50.0, 1.0, 2.0**-20, 6.0), strict=False)
} | {
    "hypercube-2000-700": ("hypercube", 2000, 700.0),
    "hypercube-4096-1": ("hypercube", 4096, 1.0),
    "sample-9-700": ("sample", 9, 700.0),
    "hypercube-65-2.0": ("hypercube", 65, 2.0),
}
each = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if d >= 2000 else name for name, (_, d, _) in CASES.items()]
)


def case(name: str) -> tuple[VectorMean, Array]:
    method, d, epsilon = CASES[name]
    return mechanism(method, d, epsilon, several=d % 2 == 0), spread(d, max(3, min(1500, 20_000 // d)))


def answer(name: str, start: int = 0, stop: int | None = None, *, first: int = 0, threads: int = 1, secure: bool = False) -> Array:
    vectors, x = case(name)
    rng: Any = SecureCipher(first + start) if secure else KeyedRandom(KEY).at(3, first + start)
    return vectors.privatize(x[start:stop], rng=rng, threads=threads)  # type: ignore[no-any-return]


def expected(twin: Twin, vectors: VectorMean, rows: list[list[Any]], first: int) -> list[Any]:
    bounds = [(low, high) for low, high, _ in vectors._distinct()] * (vectors.d // len(vectors._distinct()))
    if vectors.method == "sample":
        return [twin.sample(first + i, row, bounds, vectors.epsilon) for i, row in enumerate(rows)]
    return [twin.hypercube(first + i, row, bounds, vectors.epsilon, vectors.agreements) for i, row in enumerate(rows)]


@pytest.mark.some(5)
@each
@pytest.mark.parametrize("first", [0, 77, 2**40 + 3])
def test_the_twin_gives_the_same_reports(name: str, first: int) -> None:
    vectors, x = case(name)
    n = max(2, min(120, 3000 // vectors.d))
    assert answer(name, stop=n, first=first).tolist() == expected(Twin.keyed(), vectors, x[:n].tolist(), first)


@pytest.mark.some(3)
@pytest.mark.parametrize("level", AES_LEVELS)
@pytest.mark.parametrize("name", ["sample-5-3.0", "hypercube-65-2.0", "hypercube-3-3.0"])
def test_the_secure_cipher_has_the_same_twins(name: str, level: str) -> None:
    vectors, x = case(name)
    twin = Twin.aes()
    with at_level(level):
        found = vectors.privatize(x[:40], rng=SecureCipher(2**33 + 7), threads=1).tolist()
        assert found == expected(twin, vectors, x[:40].tolist(), 2**33 + 7)
    assert found != answer(name, stop=40, first=2**33 + 7).tolist()


@pytest.mark.some(4)
@each
def test_levels_agree(name: str) -> None:
    found = []
    for level in LEVELS:
        with at_level(level):
            found.append(answer(name, first=11))
    assert all(same_bits(one, found[0]) for one in found)


@pytest.mark.some(4)
@each
def test_threads_and_chunks_do_not_matter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = answer(name)
    monkeypatch.setattr(_backend.threads, "CHUNK", 37)
    monkeypatch.setattr(_backend.threads, "SMALL", 0)
    for threads in (2, 3):
        assert same_bits(answer(name, threads=threads), whole)


@pytest.mark.some(5)
@each
@pytest.mark.parametrize("first", [0, 77, 1023])
def test_pieces_are_the_whole(name: str, first: int) -> None:
    whole, n = answer(name, first=first), len(case(name)[1])
    cuts = sorted({0, 1, 2, min(64, n), min(129, n), n - 1, n})
    pieces = [answer(name, a, b, first=first) for a, b in pairwise(cuts)]
    assert same_bits(np.concatenate(pieces), whole)


@pytest.mark.some(4)
@each
def test_limbs_and_tiers_do_not_matter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n = max(2, 1200 // CASES[name][1])
    whole = answer(name, stop=n)
    for tier in (ACCURATE, EXACT):
        with at_tier(tier):
            assert same_bits(answer(name, stop=n), whole), tier
    monkeypatch.setattr(_backend.Testing, "limbs", 3)
    assert same_bits(answer(name, stop=n), whole)


def test_a_bound_that_is_too_small_is_seen() -> None:
    """The error bound of the fast tier matters: with a negative one it decides what it must not."""
    for name in ("sample-5-3.0", "hypercube-64-1.0"):
        whole = answer(name)
        with at_tier(FAST, -(2.0**44)):
            assert not same_bits(answer(name), whole), name


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int32", "int16", "int8", "uint32", "uint16", "uint8"])
@pytest.mark.parametrize("method", ["sample", "hypercube"])
def test_numbers_of_every_dtype(method: str, dtype: str) -> None:
    vectors = VectorMean(1.0, [-0.5, 0.0, 2.0], [2.5, 3.0, 100.0], d=3, method=method)  # type: ignore[arg-type]
    x = np.abs(spread(3, 400, "float64").clip(-1, 3)).astype(dtype)
    wide = vectors.privatize(x.astype(np.float64), rng=KeyedRandom(KEY))
    for tier in (FAST, ACCURATE, EXACT):
        with at_tier(tier):
            assert same_bits(vectors.privatize(x[: 400 if tier < EXACT else 50], rng=KeyedRandom(KEY)), wide[: 400 if tier < EXACT else 50])


@pytest.mark.parametrize("method", ["sample", "hypercube"])
def test_integers_keep_all_their_digits(method: str) -> None:
    base = 2**60
    vectors = VectorMean(2.0, float(base), float(base + 2**9), d=4, method=method)  # type: ignore[arg-type]
    x = base + np.random.default_rng(2).integers(0, 2**9 + 1, (300, 4))
    found = vectors.privatize(x, rng=KeyedRandom(KEY).at(3, 0)).tolist()
    assert found == expected(Twin.keyed(), vectors, x.tolist(), 0)
    assert found != vectors.privatize(x.astype(np.float64), rng=KeyedRandom(KEY).at(3, 0)).tolist()


@pytest.mark.parametrize("method", ["sample", "hypercube"])
def test_memory_layouts(method: str) -> None:
    vectors, x = mechanism(method, 7, 1.0), spread(7, 1080)
    cube = x.reshape(12, 90, 7)
    whole = vectors.privatize(x, rng=KeyedRandom(KEY))
    for label, form in layouts(cube):
        if form.shape[-1] == 7:
            assert same_bits(vectors.privatize(form, rng=KeyedRandom(KEY)), whole.reshape(12, 90, *whole.shape[1:])), label
    row = np.broadcast_to(x[0], (30, 7))
    assert same_bits(vectors.privatize(row, rng=KeyedRandom(KEY)), vectors.privatize(row.copy(), rng=KeyedRandom(KEY)))
    out = np.empty_like(whole)
    assert vectors.privatize(x, rng=KeyedRandom(KEY), out=out) is out
    assert same_bits(out, whole)
    one = vectors.privatize(x[0], rng=KeyedRandom(KEY))
    assert same_bits(one, whole[0])
    assert one.shape == whole.shape[1:]
    for shape in ((0, 7), (3, 0, 7)):
        assert vectors.privatize(np.zeros(shape)).shape[: len(shape) - 1] == shape[:-1]


def test_missing_numbers_stand_where_they_should() -> None:
    x = spread(6, 300)
    x[np.random.default_rng(3).random(x.shape) < 0.3] = np.nan
    stand_ins = [0.0, 1.0, -0.5, 2.0, 0.25, 3.0]
    for method in ("sample", "hypercube"):
        vectors = VectorMean(1.0, -1.0, 3.0, d=6, method=method, missing=stand_ins)  # type: ignore[arg-type]
        filled = np.where(np.isnan(x), stand_ins, x)
        for tier, n in ((FAST, 300), (ACCURATE, 300), (EXACT, 30)):
            with at_tier(tier):
                found = vectors.privatize(x[:n], rng=KeyedRandom(KEY))
                assert same_bits(found, vectors.privatize(filled[:n], rng=KeyedRandom(KEY)))
        strict = VectorMean(1.0, -1.0, 3.0, d=6, method=method)  # type: ignore[arg-type]
        out = np.full_like(found, 0) if method == "sample" else np.full(found.shape, 255, np.uint8)
        before = out.copy()
        with pytest.raises(DataError, match=r"index \(0, \d\) is NaN"):
            strict.privatize(x[:30], out=out)
        assert same_bits(out, before)


@pytest.mark.parametrize("n", [3, 2000])
def test_a_nan_that_is_not_drawn_is_refused_as_well(n: int) -> None:
    vectors, x = mechanism("sample", 40, 1.0), np.zeros((n, 40))
    drawn = vectors.privatize(x, rng=KeyedRandom(KEY))
    other = (int(drawn["index"][n - 1]) + 1) % 40
    x[n - 1, other] = np.nan
    out = np.zeros_like(drawn)
    with pytest.raises(DataError, match=rf"index \({n - 1}, {other}\) is NaN"):
        vectors.privatize(x, rng=KeyedRandom(KEY), out=out)
    assert same_bits(out, np.zeros_like(drawn))


def test_a_stream_that_is_too_short_is_refused() -> None:
    vectors = mechanism("hypercube", 1000, 1.0)
    last = 2**64 // 1000
    assert vectors.privatize(np.zeros((2, 1000)), rng=KeyedRandom(KEY).at(3, last - 3)).shape == (2, 125)
    with pytest.raises(ParameterError, match="lanes"):
        vectors.privatize(np.zeros((2, 1000)), rng=KeyedRandom(KEY).at(3, last - 1))


GOLDEN = {
    "sample-5-3.0": "bbd16cca8f4d5d53e271347187376e1ad2560b2ee663a1c7c3195397d420884c",
    "sample-700-0.7": "0ba5e5febd4ad90832a3760a41a4e769d9476f33cdd883d2468fe2f8eb6ba71b",
    "hypercube-3-3.0": "da111c841f60187c1d033dd66a8932b212e67382dc0c521dd89d05a70fba65cb",
    "hypercube-65-2.0": "2a19c3ae6393710fb4442d4e9e87560a31abd4824620e23115d975eed52ef07d",
    "hypercube-2000-700": "9e2b8bf7a8c95863d2b1f59d925ba33562a5810d46badb8471810255a9282ff0",
}


@pytest.mark.skipif(sys.byteorder != "little", reason="reports are digested as little-endian bytes")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", GOLDEN)
def test_the_stream_has_not_changed(name: str, level: str) -> None:
    """A new digest here is a new `stream_version`: results that users reproduce from keys are other ones."""
    method, d, epsilon = CASES[name]
    x = (np.arange(400 * d) * 7 % 9).reshape(400, d) / 4
    with at_level(level):
        reports = [
            mechanism(method, d, epsilon).privatize(x, rng=KeyedRandom(KEY).at(*place), threads=1) for place in ((0, 0), (3, 2**30 + 5))
        ]
    assert hashlib.sha256(b"".join(report.tobytes() for report in reports)).hexdigest() == GOLDEN[name]
