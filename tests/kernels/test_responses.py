"""Local randomisers give one answer at every level, thread count, chunk size and cut, and it is what exact integers make of the bits."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dpcore import _backend
from dpcore._backend.words import KernelWords
from dpcore._exact.probability import HALF, Probability, inclusion, logistic_complement, one_of, tilted
from dpcore.testing import KeyedRandom
from support.channels import big, clustered, dyadic, plain, thirds
from support.kernels import KEY, LEVELS, Array, SecureCipher, at_level, same_bits

N = 5000
THIRD = Probability(Fraction(1), Fraction(0), Fraction(3), Fraction(0), Fraction(1))
FLIP = logistic_complement(1.0)


def codes(k: int, n: int = N, dtype: Any = np.int64) -> Array:
    return np.random.default_rng(7).integers(0, k, n).astype(dtype)


def reals(n: int = N) -> Array:
    return np.random.default_rng(8).normal(1.0, 2.0, n)


Respond = Callable[..., Array]
TABLES = {
    name: _backend.ChannelTable(*channel)
    for name, channel in {
        "dyadic": dyadic(41, 7), "thirds": thirds(5), "clustered": clustered(300), "big": big(6), "wide": dyadic(700, 2),
        "one outcome": (np.ones((4, 1), np.int64), 1), "pinned": plain(41, 9),
    }.items()
}  # fmt: skip
RESPONSES: dict[str, tuple[Respond, Array]] = {
    "flip": (lambda x, **o: _backend.flip_bools(x, FLIP, **o), codes(2).astype(bool)),
    "flip-third": (lambda x, **o: _backend.flip_bools(x, THIRD, **o), codes(2).astype(bool)),
    "bounded": (lambda x, **o: _backend.bounded_response(x, -1.0, 3.0, 0.7, None, **o), reals()),
    "bounded-steep": (lambda x, **o: _backend.bounded_response(x, 1.0, 1.0 + 2.0**-30, 50.0, None, **o), reals()),
    "bounded-int": (lambda x, **o: _backend.bounded_response(x, -3.0, 60.5, 1.0, None, **o), codes(100) - 20),
    "table": (lambda x, **o: _backend.table_response(x, 1.3, (Fraction(-1), Fraction(1, 3), Fraction(1)), None, **o), codes(3)),
    **{
        f"kary-{k}-{epsilon}-{dtype.__name__}": (
            lambda x, k=k, e=epsilon, **o: _backend.kary_response(x, e, k, None, **o), codes(k, dtype=dtype)
        )
        for k, epsilon, dtype in (
            (2, 0.01, np.int8), (7, 1.0, np.uint8), (100, 50.0, np.int16), (1000, 3.0, np.uint16), (2**20, 14.0, np.int32),
            (2**24, 0.01, np.uint32), (2**24, 700.0, np.int64), (16, 1.0, np.int64),
        )
    },
    **{
        f"unary-{k}": (lambda x, k=k, **o: _backend.unary_response(x, k, HALF, FLIP, None, **o), codes(k, 400))
        for k in (2, 7, 8, 9, 64, 127, 128, 1000)
    },
    "unary-symmetric": (lambda x, **o: _backend.unary_response(x, 70, logistic_complement(-1.0), FLIP, None, **o), codes(70, 400)),
    **{
        f"subset-{k}-{w}": (lambda x, k=k, w=w, **o: _backend.subset_response(x, k, w, inclusion(1.0, k, w), None, **o), codes(k, 400))
        for k, w in ((2, 1), (9, 3), (64, 17), (1000, 269))
    },
    **{
        f"channel-{name}": (lambda x, t=table, **o: _backend.channel_response(x, t, None, **o), codes(len(table.rows)))
        for name, table in TABLES.items()
    },
    "hashing": (lambda x, **o: _backend.hashing_response(x, 1.0, 1000, 4, None, **o), codes(1000)),
    "hadamard": (lambda x, **o: _backend.hadamard_response(x, 100, FLIP, None, **o), codes(100)),
}  # fmt: skip
each = pytest.mark.parametrize("name", RESPONSES)
PINNED = ("flip", "bounded", "table", "kary-16-1.0-int64", "channel-pinned", "unary-9", "subset-9-3", "hashing", "hadamard")


def answer(name: str, start: int = 0, stop: int | None = None, *, first: int = 0, threads: int = 1, secure: bool = False) -> Array:
    respond, x = RESPONSES[name]
    rng: Any = SecureCipher(first + start) if secure else KeyedRandom(KEY).at(3, first + start)
    return respond(x[start:stop], position=rng.position(), threads=threads)


@each
def test_levels_agree(name):
    found = []
    for level in LEVELS:
        with at_level(level):
            found.append(answer(name, first=11))
    assert all(same_bits(one, found[0]) for one in found)


@each
def test_threads_and_chunks_do_not_matter(name, monkeypatch):
    whole = answer(name)
    monkeypatch.setattr(_backend.threads, "CHUNK", 97)
    monkeypatch.setattr(_backend.threads, "SMALL", 0)
    assert same_bits(answer(name, threads=3), whole)


@each
@pytest.mark.parametrize("first", [0, 77, 1023])
def test_pieces_are_the_whole(name, first):
    whole, n = answer(name, first=first), len(RESPONSES[name][1])
    cuts = [0, 1, 64, 129, 255, 256, n - 1, n]
    pieces = [answer(name, a, b, first=first) for a, b in pairwise(cuts)]
    assert same_bits(np.concatenate(pieces), whole)


@each
def test_limbs_and_tiers_do_not_matter(name, monkeypatch):
    whole = answer(name, stop=400)
    monkeypatch.setattr(_backend.Testing, "limbs", 3)
    assert same_bits(answer(name, stop=400), whole)
    for tier in (1, 2):
        monkeypatch.setattr(_backend.Testing, "tier", tier)
        assert same_bits(answer(name, stop=400), whole)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 63, 64, 65, 1023, 1024, 1025, 8191, 8192, 8193, 20_000])
@pytest.mark.parametrize("first", [0, 5, 64, 1000])
def test_packed_flips_are_the_flips_packed(n, first):
    x = np.random.default_rng(n).integers(0, 2, n).astype(bool)
    position = KeyedRandom(KEY).at(1, first).position()
    flipped = _backend.flip_bools(x, FLIP, position, threads=1)
    packed = _backend.flip_packed(np.packbits(x, bitorder="little"), n, FLIP, position, threads=1)
    assert same_bits(packed, np.packbits(flipped, bitorder="little"))


# Slow twins: the bits by their addresses, and exact integers


def uniform(words: KernelWords, element: int, first: int, bits: int, domain: int = 6) -> Fraction:
    """U of one element to `bits` + 512 bits."""
    value = first
    for word in words.more(domain, element, 0, 0):
        value = value << 64 | word
    return Fraction(value, 2 ** (bits + 512))


def plane_bits(words: KernelWords, lane: int) -> int:
    group = words.group(5, lane // 1024)
    return int("".join(str(group[16 * j + lane % 1024 // 64] >> (lane % 64) & 1) for j in range(8)), 2)


def piece(words: KernelWords, element: int, bits: int) -> int:
    each_group = 8192 // bits
    place = element % each_group * bits
    return words.group(5, element // each_group)[place // 64] >> (place % 64) & (2**bits - 1)


def exact(p: Probability) -> Fraction:
    return Fraction(p.floor(2048), 2**2048)


@pytest.fixture
def words():
    return KernelWords(KEY, 3, 0)


@pytest.mark.parametrize(("name", "p"), [("flip", FLIP), ("flip-third", THIRD)])
def test_a_flip_is_a_comparison_of_its_bits(name, p, words):
    x, found = RESPONSES[name][1], answer(name)
    expected = [bool(x[e]) ^ (uniform(words, e, plane_bits(words, e), 8) < exact(p)) for e in range(N)]
    assert found.tolist() == expected


@pytest.mark.long
@pytest.mark.parametrize(("name", "lower", "upper", "epsilon"), [("bounded", -1, 3, 0.7), ("bounded-int", -3, 60.5, 1.0)])
def test_a_bounded_mean_is_a_comparison_of_its_bits(name, lower, upper, epsilon, words):
    x, found = RESPONSES[name][1], answer(name)
    low, high = Fraction(lower), Fraction(upper)
    for e in range(1500):
        value = min(max(Fraction(x[e].item()), low), high)
        p = exact(tilted(epsilon, (2 * value - low - high) / (high - low)))
        assert bool(found[e]) == (uniform(words, e, piece(words, e, 16), 16) < p)


@pytest.mark.parametrize(("name", "k", "epsilon"), [(n, int(n.split("-")[1]), float(n.split("-")[2])) for n in RESPONSES if "kary" in n])
def test_a_kary_response_is_a_floor(name, k, epsilon, words):
    x, found, q = RESPONSES[name][1], answer(name), exact(one_of(epsilon, k))
    for e in range(1500):
        other = int(uniform(words, e, piece(words, e, 32), 32) / q)
        code = int(x[e])
        assert int(found[e]) == (code if other >= k - 1 else other + (other >= code))


@pytest.mark.parametrize("k", [7, 9, 127])
def test_a_unary_report_has_a_comparison_in_each_bit(k, words):
    x, found = RESPONSES[f"unary-{k}"][1], np.unpackbits(answer(f"unary-{k}"), axis=1, bitorder="little")
    width = (k + 7) // 8 * 8
    for record in range(60):
        for bit in range(width):
            lane = record * width + bit
            p = exact(HALF if bit == x[record] else FLIP)
            wanted = bit < k and uniform(words, lane, plane_bits(words, lane), 8) < p
            assert bool(found[record, bit]) == wanted


@pytest.mark.parametrize(("k", "w", "record_words"), [(9, 3, 2), (64, 17, 16), (1000, 269, 256)])
def test_a_subset_is_floyds(k, w, record_words, words):
    x, found = RESPONSES[f"subset-{k}-{w}"][1], np.unpackbits(answer(f"subset-{k}-{w}"), axis=1, bitorder="little")

    def own_piece(record: int, i: int) -> int:
        return piece(words, 2 * record_words * record + i, 32)

    for record in range(40):
        code = int(x[record])
        included = uniform(words, record, own_piece(record, 0), 32, domain=4) < exact(inclusion(1.0, k, w))
        size, members = w - included, set()
        for draw in range(size):
            u = Fraction(own_piece(record, draw + 1), 2**32)
            u += sum(Fraction(word, 2 ** (32 + 64 * (i + 1))) for i, word in enumerate(words.more(6, record, draw, 0)))
            bound = k - 1 - size + draw + 1
            chosen = int(u * bound)
            members.add(bound - 1 if chosen in members else chosen)
        expected = {m + (m >= code) for m in members} | ({code} if included else set())
        assert set(np.flatnonzero(found[record]).tolist()) == expected


def test_a_hashing_report_is_a_kary_response_of_a_hash(words):
    x, found, q = RESPONSES["hashing"][1], answer("hashing"), exact(one_of(1.0, 4))
    for e in range(1500):
        seed = words.group(0, e // 128)[e % 128] & (2**62 - 1)
        a, b = seed % 2**31, seed >> 31
        h = (a * int(x[e]) + b) % (2**31 - 1) % 4
        other = int(uniform(words, e, piece(words, e, 32), 32) / q)
        assert (int(found["seed"][e]), int(found["code"][e])) == (seed, h if other >= 3 else other + (other >= h))


def test_a_hadamard_report_is_a_sign(words):
    x, found = RESPONSES["hadamard"][1], answer("hadamard")
    for e in range(1500):
        word = words.group(0, e // 128)[e % 128]
        row = word & 127
        flipped = uniform(words, e, word >> 32, 32, domain=2) < exact(FLIP)
        positive = (row & int(x[e])).bit_count() % 2 == 0
        assert (int(found["row"][e]), bool(found["bit"][e])) == (row, positive ^ flipped)


# Ties: probabilities made from the bits themselves


def constant(value: Fraction) -> Probability:
    return Probability(value, Fraction(0), Fraction(1), Fraction(0), Fraction(1))


@pytest.mark.parametrize("limbs", [3, 8])
@pytest.mark.parametrize("offset", [-1, 0, 1])
@pytest.mark.parametrize("bits", [72, 90, 300])
def test_a_tie_is_decided_by_the_bits_after_it(bits, offset, limbs, words, monkeypatch):
    monkeypatch.setattr(_backend.Testing, "limbs", limbs)
    lane = 1500
    u = uniform(words, lane, plane_bits(words, lane), 8)
    p = constant(Fraction(int(u * 2**bits) + offset, 2**bits))
    flipped = _backend.flip_bools(np.zeros(2000, bool), p, KeyedRandom(KEY).at(3).position(), threads=1)
    # p is U cut after `bits` bits, and a unit there more or less: U < p only for the one above
    assert bool(flipped[lane]) == (offset == 1)


def test_a_bound_too_small_is_noticed(monkeypatch):
    x = np.linspace(-1, 3, 2_000_001)
    respond = RESPONSES["bounded"][0]
    position = KeyedRandom(KEY).at(3).position()
    right = respond(x, position=position, threads=1)
    monkeypatch.setattr(_backend.Testing, "bound_factor", -(2.0**30))  # decides half of a sixteen-bit step too early
    assert not same_bits(respond(x, position=position, threads=1), right)


@each
def test_the_secure_cipher_has_one_answer_too(name):
    found = []
    for level in LEVELS:
        with at_level(level):
            if _backend.secure_cipher() == "aes256":
                found.append(answer(name, secure=True))
                assert same_bits(np.concatenate([answer(name, 0, 130, secure=True), answer(name, 130, secure=True)]), found[0])
    assert all(same_bits(one, found[0]) for one in found)


# The stream itself

GOLDEN = {
    "flip": "5359ee9f61d4dd416969b36b670d63fe740036ca58abf00032a589a04869abab",
    "bounded": "3ad2548fd0c1ec2d854104abcbb4cef3f7c83e051c21e748fc3035dc89d9b290",
    "table": "f7b44a48b678d44c8cf96d676f4799d53a54c68e0a48f20fdcbe59606f510712",
    "kary-16-1.0-int64": "299846bf93f4f96f3bbdca4faa556c9398ed4f67b5ba60cfb38ed8c496ffc042",
    "channel-pinned": "eff81e5a1b40f3525ccf032fb19b92fe221aea4ed8c457ec9b5f8935f8aa61d6",
    "unary-9": "8a75cb38cfc7dca337e10666e57e6270e35236d6504374daf06a0ccb3b2d08d8",
    "subset-9-3": "118030fc7ccad7216b656da76a4a549d273874e4b4b80028a50889d604aa89c2",
    "hashing": "28f40a7cd87a2e6b932dfcc4d20800b73f29b688081c71d03cdd7cf9abeaf5a7",
    "hadamard": "2ab2efa1708e6b36b89e5f7b99a4ae65ca15ad816b4b6f4adc520e6881ccb257",
}


def stream_digest(name: str) -> str:
    """SHA-256 of the reports of plain inputs (no generator's) under the tests' key, from two places of the stream."""
    respond, x = RESPONSES[name]
    plain = np.arange(3000) * 7 % (2 if name == "flip" else 3 if name == "table" else 9)
    plain = plain.astype(x.dtype) / (1 if x.dtype.kind != "f" else 4)
    positions = (KeyedRandom(KEY).at(0, 0).position(), KeyedRandom(KEY).at(3, 2**30 + 5).position())
    reports = [respond(plain.astype(x.dtype), position=position, threads=1) for position in positions]
    return hashlib.sha256(b"".join(report.tobytes() for report in reports)).hexdigest()


@pytest.mark.skipif(sys.byteorder != "little", reason="reports are digested as little-endian bytes")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", PINNED)
def test_the_stream_has_not_changed(name, level):
    """A new digest here is a new `stream_version`: results that users reproduce from keys are other ones."""
    with at_level(level):
        assert stream_digest(name) == GOLDEN[name]
