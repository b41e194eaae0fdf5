"""Local randomisers against slow twins in exact integers: every law and cipher, far places of the stream, rare paths, and ties."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpcore import _backend
from dpcore._exact.probability import HALF, Probability, inclusion, logistic_complement, one_of
from dpcore.rng import StreamPosition
from support.kernels import AES_LEVELS, EXACT, FAST, KEY, LEVELS, Array, at_level, at_tier
from support.responses import Twin, codes, constant

NONCE = 3
Respond = Callable[..., Array]
Expect = Callable[[Twin, int, int], list[Any]]
"""What a twin makes of a number of records from a first element on."""
PHI = (Fraction(-1), Fraction(1, 3), Fraction(0), Fraction(1))


def options(first: int = 0, *, secure: bool = False) -> dict[str, Any]:
    return {"position": StreamPosition(KEY, 0 if secure else NONCE, first, secure), "threads": 1}


def rows(reports: Array) -> list[Any]:
    """Reports as plain values: numbers, lists of bytes, or pairs of fields."""
    return reports.tolist()  # type: ignore[no-any-return]


def flips(p: Probability) -> tuple[Respond, Expect, int]:
    x = codes(2, 5000).astype(bool)
    return (
        lambda n, **o: _backend.flip_bools(x[:n], p, **o),
        lambda twin, first, n: [twin.flip(first + i, x[i], p) for i in range(n)],
        5000,
    )


def bounded(lower: float, upper: float, epsilon: float, dtype: str = "float64") -> tuple[Respond, Expect, int]:
    plain = np.random.default_rng(8)
    x = (lower + (upper - lower) * plain.uniform(-0.2, 1.2, 1500)).astype(dtype)
    if x.dtype.kind == "f":
        x[:4] = [-np.inf, np.inf, lower, upper]
    return (
        lambda n, **o: _backend.bounded_response(x[:n], lower, upper, epsilon, None, **o),
        lambda twin, first, n: [twin.bounded(first + i, x[i].item(), lower, upper, epsilon) for i in range(n)],
        1500,
    )


def table(epsilon: float) -> tuple[Respond, Expect, int]:
    x = codes(len(PHI), 4000)
    return (
        lambda n, **o: _backend.table_response(x[:n], epsilon, PHI, None, **o),
        lambda twin, first, n: [twin.table(first + i, int(x[i]), epsilon, PHI) for i in range(n)],
        4000,
    )


def kary(k: int, epsilon: float, dtype: str) -> tuple[Respond, Expect, int]:
    x, q = codes(k, 1500, dtype), one_of(epsilon, k)
    return (
        lambda n, **o: _backend.kary_response(x[:n], epsilon, k, None, **o),
        lambda twin, first, n: [twin.kary(first + i, int(x[i]), q, k) for i in range(n)],
        1500,
    )


def unary(k: int, p: Probability, q: Probability) -> tuple[Respond, Expect, int]:
    n = max(3, 12_000 // k)
    x = codes(k, n)
    x[:2] = [0, k - 1]
    return (
        lambda n, **o: _backend.unary_response(x[:n], k, p, q, None, **o),
        lambda twin, first, n: [twin.unary(first + i, int(x[i]), k, p, q) for i in range(n)],
        n,
    )


def subset(k: int, w: int, epsilon: float = 1.0) -> tuple[Respond, Expect, int]:
    n, p = max(2, 6000 // k), inclusion(epsilon, k, w)
    x = codes(k, n)
    return (
        lambda n, **o: _backend.subset_response(x[:n], k, w, p, None, **o),
        lambda twin, first, n: [twin.subset(first + i, int(x[i]), k, w, p) for i in range(n)],
        n,
    )


def hashing(k: int, epsilon: float, g: int) -> tuple[Respond, Expect, int]:
    x, q = codes(k, 1500), one_of(epsilon, g)
    return (
        lambda n, **o: _backend.hashing_response(x[:n], epsilon, k, g, None, **o),
        lambda twin, first, n: [twin.hashing(first + i, int(x[i]), q, g) for i in range(n)],
        1500,
    )


def hadamard(k: int, p: Probability) -> tuple[Respond, Expect, int]:
    x = codes(k, 3000)
    return (
        lambda n, **o: _backend.hadamard_response(x[:n], k, p, None, **o),
        lambda twin, first, n: [twin.hadamard(first + i, int(x[i]), k, p) for i in range(n)],
        3000,
    )


FLIP, RARE = logistic_complement(1.0), logistic_complement(50.0)
LAWS: dict[str, tuple[Respond, Expect, int]] = {
    **{f"flip-{name}": flips(p) for name, p in (
        ("0.01", logistic_complement(0.01)), ("50", RARE), ("700", logistic_complement(700.0)), ("half", HALF), ("never", constant(0)),
        ("always", constant(1)), ("third", constant(Fraction(1, 3))), ("short", constant(Fraction(3, 256))),
        ("long", constant(Fraction(3, 2**40))), ("below-one", constant(1 - Fraction(1, 2**200))),
    )},
    "bounded": bounded(-1.0, 3.0, 0.7),
    "bounded-weak": bounded(0.0, 1.0, 0.01),
    "bounded-steep": bounded(1.0, 1.0 + 2.0**-30, 50.0),
    "bounded-700": bounded(-1e300, 1e300, 700.0),
    "bounded-small": bounded(0.0, 2.0**-959, 1.0),
    "bounded-far": bounded(2.0**52, 2.0**52 + 7, 1.0),
    "bounded-int": bounded(-3.0, 60.5, 1.0, "int16"),
    "bounded-half": bounded(-3.0, 60.5, 1.0, "float16"),
    **{f"table-{epsilon}": table(epsilon) for epsilon in (0.01, 1.3, 50.0, 700.0)},
    **{f"kary-{k}-{epsilon}": kary(k, epsilon, dtype) for k, epsilon, dtype in (
        (2, 0.01, "int8"), (2, 700.0, "uint8"), (3, 1.0, "int16"), (3, 50.0, "uint16"), (1000, 0.01, "int32"), (2**20, 14.0, "uint32"),
        (2**20, 0.01, "int64"), (2**24, 0.01, "int32"), (2**24, 16.6, "int64"), (2**24, 50.0, "int64"), (2**24, 700.0, "int64"),
    )},
    **{f"unary-{k}": unary(k, HALF, FLIP) for k in (2, 7, 8, 9, 64, 128, 1000, 5000, 20_000)},
    "unary-symmetric": unary(70, logistic_complement(-1.0), FLIP),
    "unary-steep": unary(70, logistic_complement(-50.0), RARE),
    **{f"subset-{k}-{w}": subset(k, w) for k, w in (
        (2, 1), (3, 1), (3, 2), (8, 7), (9, 3), (64, 17), (300, 254), (1000, 255), (1000, 999), (6000, 4500))},
    "subset-steep": subset(40, 1, 50.0),
    **{f"hashing-{g}-{epsilon}": hashing(2**24, epsilon, g) for g, epsilon in (
        (2, 0.01), (4, 1.0), (7, 1.7), (2**20, 13.9), (2**24, 700.0))},
    **{f"hadamard-{k}": hadamard(k, FLIP) for k in (2, 3, 100, 2**20, 2**24)},
    "hadamard-weak": hadamard(10, logistic_complement(0.01)),
    "hadamard-50": hadamard(10, RARE),
}  # fmt: skip
each_law = pytest.mark.parametrize("name", LAWS)


@pytest.mark.some(19)
@each_law
def test_the_twin_gives_the_same_reports(name: str) -> None:
    respond, expect, n = LAWS[name]
    assert rows(respond(n, **options())) == expect(Twin.keyed(), 0, n)


SOME = ("flip-third", "bounded", "table-1.3", "kary-1000-0.01", "unary-9", "unary-1000", "subset-64-17", "hashing-7-1.7", "hadamard-100")


@pytest.mark.some(5)
@pytest.mark.parametrize("first", [5, 1023, 2**32 - 3, 2**40 + 77, 2**53 - 1])
@pytest.mark.parametrize("name", SOME)
def test_far_places_of_the_stream(name: str, first: int) -> None:
    respond, expect, n = LAWS[name]
    n = min(n, 150)
    assert rows(respond(n, **options(first))) == expect(Twin.keyed(), first, n)


@pytest.mark.parametrize("name", [n for n in SOME if "unary" not in n and "subset" not in n])
def test_the_last_elements_of_a_stream(name: str) -> None:
    respond, expect, _ = LAWS[name]
    first = 2**63 - 1
    assert rows(respond(150, **options(first))) == expect(Twin.keyed(), first, 150)


@pytest.mark.parametrize(("name", "lanes"), [("unary-9", 16), ("unary-1000", 1000), ("subset-64-17", 16)])
def test_the_last_lanes_of_a_stream(name: str, lanes: int) -> None:
    respond, expect, _ = LAWS[name]
    first = (2**64 - 1) // lanes - 12
    assert rows(respond(10, **options(first))) == expect(Twin.keyed(), first, 10)
    with pytest.raises(ValueError, match="lanes"):
        respond(10, **options(first + 3))


@pytest.mark.some(4)
@pytest.mark.parametrize("level", AES_LEVELS)
@pytest.mark.parametrize("name", SOME)
def test_the_secure_cipher_has_the_same_twins(name: str, level: str) -> None:
    respond, expect, n = LAWS[name]
    n = min(n, 600)
    with at_level(level):
        found = rows(respond(n, **options(2**33 + 7, secure=True)))
        assert found == expect(Twin.aes(), 2**33 + 7, n)
    assert found != rows(respond(n, **options(2**33 + 7)))


@pytest.mark.parametrize("limbs", [3, 4])
@each_law
def test_few_limbs_decide_the_same(name: str, limbs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    respond, _, n = LAWS[name]
    expected = rows(respond(n, **options()))
    monkeypatch.setattr(_backend.Testing, "limbs", limbs)
    assert rows(respond(n, **options())) == expected


@pytest.mark.some(2)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", [name for name in LAWS if "bounded" in name])
def test_every_tier_of_a_bounded_mean(name: str, level: str) -> None:
    respond, _, n = LAWS[name]
    expected = rows(respond(n, **options()))
    with at_level(level):
        for tier in range(FAST, EXACT + 1):
            with at_tier(tier):
                assert rows(respond(n, **options())) == expected


REDRAWN = {1_950_446_112: 0x628222A180000000, 1_991_156_749: 0x555C39F87FFFFFFF, 3_180_312_154: 0x3FFFFFFFBE5EBC27}
"""Elements whose bulk word is no hash function, a = 0, a = P and b = P in turn; found by search: one word in 2^29.4 is none."""


@pytest.mark.parametrize("element", REDRAWN)
@pytest.mark.parametrize("level", LEVELS)
def test_a_seed_outside_the_family_is_drawn_again(element: int, level: str) -> None:
    twin, q = Twin.keyed(), one_of(1.0, 4)
    assert twin.word(element) == REDRAWN[element]
    x = codes(1000, 9)
    with at_level(level):
        found = rows(_backend.hashing_response(x, 1.0, 1000, 4, None, **options(element - 4)))
    assert found == [twin.hashing(element - 4 + i, int(x[i]), q, 4) for i in range(9)]
    assert found[4][0] != REDRAWN[element] % 2**62
