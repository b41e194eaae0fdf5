"""One answer from every way to hand over records: lengths, places, threads, memory layouts, dtypes, and `out` over the input.

`test_responses.py` cuts and splits each law in a few ways; here are all of them, for one law of each kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dpcore import _backend
from dpcore._exact.probability import HALF, inclusion, logistic_complement
from dpcore.rng import StreamPosition
from support.channels import dyadic
from support.kernels import AES_LEVELS, KEY, LEVELS, Array, at_level, layouts, same_bits
from support.responses import codes

FLIP = logistic_complement(1.0)
CHANNEL, WIDE = _backend.ChannelTable(*dyadic(41, 100)), _backend.ChannelTable(*dyadic(300, 3))
PHI = (Fraction(-1), Fraction(1, 3), Fraction(1))
INTEGERS = ("int64", "int32", "int16", "int8", "uint32", "uint16", "uint8")
LENGTHS = (
    0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 767, 768, 769, 1023, 1024, 1025,
    2047, 2048, 2049, 4095, 4096, 4097, 8191, 8192, 8193,
)  # fmt: skip
LONGEST = LENGTHS[-1]
Respond = Callable[..., Array]


def packed(x: Array, **o: Any) -> Array:
    """Flips of packed bits, one byte of 0 or 1 a record, so that they are cut as the others are."""
    bits = np.packbits(x.astype(bool), bitorder="little")
    return np.unpackbits(_backend.flip_packed(bits, len(x), FLIP, **o), count=len(x), bitorder="little")


def subset(k: int, w: int) -> Respond:
    return lambda x, **o: _backend.subset_response(x, k, w, inclusion(1.0, k, w), None, **o)


def unary(k: int) -> Respond:
    return lambda x, **o: _backend.unary_response(x, k, HALF, FLIP, None, **o)


def kary(k: int, epsilon: float) -> Respond:
    return lambda x, **o: _backend.kary_response(x, epsilon, k, None, **o)


# Randomisers that take arrays of any shape, with the category count or None for real values
ANY_SHAPE: dict[str, tuple[Respond, int | None]] = {
    "flip": (lambda x, **o: _backend.flip_bools(x, FLIP, **o), 2),
    "bounded": (lambda x, **o: _backend.bounded_response(x, -1.0, 3.0, 0.7, None, **o), None),
    "bounded-missing": (lambda x, **o: _backend.bounded_response(x, -1.0, 3.0, 0.7, 1.25, **o), None),
    "table": (lambda x, **o: _backend.table_response(x, 1.3, PHI, None, **o), 3),
    "kary": (kary(100, 2.0), 100),
    "kary-open": (kary(2**24, 0.01), 2**24),  # 32 bits leave one record in 250 open
    "kary-unknown": (lambda x, **o: _backend.kary_response(x, 1.0, 50, 49, **o), 100),
    "channel": (lambda x, **o: _backend.channel_response(x, CHANNEL, None, **o), 100),
    "channel-wide-unknown": (lambda x, **o: _backend.channel_response(x, WIDE, 1, **o), 100),
    "hashing": (lambda x, **o: _backend.hashing_response(x, 1.0, 1000, 4, None, **o), 1000),
    "hadamard": (lambda x, **o: _backend.hadamard_response(x, 100, FLIP, None, **o), 100),
}
ONE_ROW: dict[str, tuple[Respond, int]] = {
    "packed": (packed, 2),
    **{f"unary-{k}": (unary(k), k) for k in (2, 7, 8, 9, 64, 65, 128, 1000, 5000)},
    "unary-unknown": (lambda x, **o: _backend.unary_response(x, 60, HALF, FLIP, 59, **o), 100),
    **{f"subset-{k}-{w}": (subset(k, w), k) for k, w in ((2, 1), (9, 3), (64, 17), (1000, 269))},
}
ALL: dict[str, tuple[Respond, int | None]] = ANY_SHAPE | ONE_ROW  # type: ignore[assignment]
each_level = pytest.mark.parametrize("level", LEVELS)
each_law = pytest.mark.parametrize("name", ALL)
each_shape_law = pytest.mark.parametrize("name", ANY_SHAPE)


def values(name: str, shape: Any) -> Array:
    """Records for one law, the same at every call."""
    k = ALL[name][1]
    if k is None:
        drawn = np.random.default_rng(8).normal(1.0, 2.0, shape)
        drawn[drawn > 4.9] = np.nan if "missing" in name else np.inf
        return drawn
    drawn = np.random.default_rng(7).integers(0, k, shape)
    return drawn.astype(bool) if k == 2 and name in {"flip", "packed"} else drawn


def respond(name: str, x: Array, element: int = 0, *, secure: bool = False, threads: int = 1, **more: Any) -> Array:
    position = StreamPosition(KEY, 3, element, secure)
    return ALL[name][0](x, position=position, threads=threads, **more)


def portable(name: str, x: Array, element: int = 0) -> Array:
    """What every other way must give: baseline level, one thread, contiguous input."""
    with at_level("baseline"):
        return respond(name, np.ascontiguousarray(x), element)


def last_element(name: str, n: int) -> int:
    """Near the end of what a stream can number."""
    lanes = {"unary": 5008, "subset": 256}.get(name.split("-", maxsplit=1)[0], 2)
    return 2**64 // lanes - n - 1


# Lengths, places, threads


@pytest.mark.some(18)
@each_level
@each_law
@pytest.mark.parametrize("element", [0, 5])
def test_every_length_is_a_prefix_of_the_longest(name: str, level: str, element: int) -> None:
    n = LONGEST if "5000" not in name and "1000" not in name else 2049
    x = values(name, n)
    expected = portable(name, x, element)
    with at_level(level):
        for length in LENGTHS:
            assert same_bits(respond(name, x[:length], element), expected[:length]), length


@pytest.mark.some(22)
@each_level
@each_law
def test_every_first_element(name: str, level: str) -> None:
    x = values(name, 700)
    for element in (1, 63, 64, 127, 255, 511, 1000, 1023, 2**32 - 3, 2**32 * 16 - 5, 2**40 + 3, last_element(name, 700)):
        expected = portable(name, x, element)
        with at_level(level):
            assert same_bits(respond(name, x, element), expected), element


@pytest.mark.some(46)
@each_law
@pytest.mark.parametrize("element", [0, 3, 2**33 + 100])
def test_pieces_at_their_elements_make_the_whole(name: str, element: int) -> None:
    x = values(name, 5000)
    cuts = [0, 1, 2, 65, 128, 129, 255, 500, 640, 641, 1024, 1600, 2047, 4096, 4999, 5000]
    pieces = [respond(name, x[a:b], element + a) for a, b in pairwise(cuts)]
    assert same_bits(np.concatenate(pieces), portable(name, x, element))


@pytest.mark.some(22)
@each_level
@each_law
@pytest.mark.parametrize(("chunk", "element"), [(97, 77), (997, 0), (2048, 5)])
def test_threads_on_ranges_of_odd_length(name: str, level: str, chunk: int, element: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = values(name, 3000)
    expected = portable(name, x, element)
    monkeypatch.setattr(_backend.threads, "CHUNK", chunk)
    monkeypatch.setattr(_backend.threads, "SMALL", 0)
    with at_level(level):
        for threads in (1, 2, 3, 4):
            assert same_bits(respond(name, x, element, threads=threads), expected), threads


@pytest.mark.parametrize("name", ["flip", "packed", "bounded", "table", "kary", "hashing", "hadamard", "unary-9", "subset-9-3"])
def test_several_full_chunks(name: str) -> None:
    x = values(name, 16 * _backend.threads.CHUNK // (1 if name in {"flip", "packed"} else 8) + 5)
    assert same_bits(respond(name, x, threads=4), respond(name, x, threads=1))


@pytest.mark.parametrize("level", AES_LEVELS)
@each_law
def test_the_secure_cipher(name: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = values(name, 3000)
    with at_level(AES_LEVELS[0]):
        expected = respond(name, x, 77, secure=True)
    monkeypatch.setattr(_backend.threads, "CHUNK", 997)
    monkeypatch.setattr(_backend.threads, "SMALL", 0)
    with at_level(level):
        assert same_bits(respond(name, x, 77, secure=True, threads=3), expected)
        assert same_bits(respond(name, x[1000:], 1077, secure=True), expected[1000:])
        assert not same_bits(respond(name, x, 77), expected)


@each_level
@pytest.mark.parametrize("element", [0, 1, 5, 8, 63, 64, 100, 1000, 1023, 2**40 + 3])
def test_packed_flips_are_the_flips(level: str, element: int) -> None:
    for n in LENGTHS:
        x = values("flip", n)
        expected = np.packbits(portable("flip", x, element), bitorder="little")
        with at_level(level):
            bits = np.packbits(x, bitorder="little")
            if n % 8:
                bits[-1] |= 0xFF << n % 8 & 0xFF  # what lies behind the records is not read
            o = {"threads": 1, "position": StreamPosition(KEY, 3, element)}
            assert same_bits(_backend.flip_packed(bits, n, FLIP, **o), expected), n
            assert _backend.flip_packed(bits, n, FLIP, out=bits, **o) is bits
            assert same_bits(bits, expected), n


# Memory layouts and dtypes


@each_level
@each_shape_law
def test_memory_layouts(name: str, level: str) -> None:
    x = values(name, (12, 90, 7))
    expected = portable(name, x)
    with at_level(level):
        for label, form in layouts(x):
            assert same_bits(respond(name, form), expected.reshape(form.shape)), label


@each_level
@pytest.mark.parametrize("name", [name for name in ANY_SHAPE if name not in {"hashing", "hadamard"}])
def test_memory_layouts_of_out(name: str, level: str) -> None:
    x = values(name, (12, 90, 7))
    expected = portable(name, x)
    with at_level(level):
        for label, form in layouts(np.zeros(x.shape, expected.dtype)):
            if form.flags.writeable:
                assert respond(name, x.reshape(form.shape), out=form) is form
                assert same_bits(form, expected.reshape(form.shape)), label


@each_level
@pytest.mark.parametrize("name", ["hashing", "hadamard"])
def test_reports_stored_past_the_cache(name: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every alignment and length, and nothing beside them."""
    monkeypatch.setattr(_backend.noise, "_STREAMED", 0)
    x = values(name, 1300)
    expected = portable(name, x)
    size = expected.dtype.itemsize
    with at_level(level):
        for first in range(9):
            for n in (1, 2, 3, 7, 127, 128, 129, 513, 1300):
                memory = np.full(size * 1300 + 24, 77, np.uint8)
                out = memory[first : first + size * n].view(expected.dtype)
                assert respond(name, x[:n], out=out) is out
                assert same_bits(out.copy(), expected[:n])
                assert (np.delete(memory, slice(first, first + size * n)) == 77).all()


@pytest.mark.parametrize("name", [name for name in ONE_ROW if name != "packed"])
def test_one_row_in_every_layout(name: str) -> None:
    x = values(name, 1200)
    expected = portable(name, x)
    wide, record = np.zeros(3600, x.dtype), np.zeros(1200, [("gap", "i1"), ("value", x.dtype)])
    wide[::3], record["value"] = x, x
    for form in (x[::-1].copy()[::-1], wide[::3], record["value"]):
        assert same_bits(respond(name, form), expected)
    out = np.full(expected.shape, 255, np.uint8)
    assert respond(name, x, out=out) is out
    assert same_bits(out, expected)


@each_shape_law
def test_layouts_on_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = values(name, (12, 90, 7))
    expected = portable(name, x)
    monkeypatch.setattr(_backend.threads, "CHUNK", 97)
    monkeypatch.setattr(_backend.threads, "SMALL", 0)
    for label, form in layouts(x):
        assert same_bits(respond(name, form, threads=3), expected.reshape(form.shape)), label


@each_shape_law
def test_broadcast_records_and_no_dimension(name: str) -> None:
    row = np.broadcast_to(values(name, 33), (40, 33))
    one = np.broadcast_to(values(name, 1)[0], (1320,))
    assert same_bits(respond(name, row), portable(name, row.copy()))
    assert same_bits(respond(name, one), portable(name, one.copy()))
    assert same_bits(respond(name, values(name, 1).reshape(())), portable(name, values(name, 1)).reshape(()))
    for shape in ((0,), (3, 0, 2), (0, 5)):
        assert respond(name, values(name, shape)).shape == shape


def holds(dtype: str, name: str) -> bool:
    """Whether every answer of a law fits an integer dtype."""
    return "kary" not in name or np.iinfo(dtype).max >= int(ALL[name][1] or 0) - 1


OF_CODES = [name for name, (_, k) in ALL.items() if k is not None and name != "packed"]


@pytest.mark.some(62)
@each_level
@pytest.mark.parametrize(("name", "dtype"), [(name, dtype) for name in OF_CODES for dtype in INTEGERS if holds(dtype, name)])
def test_codes_of_every_dtype(name: str, dtype: str, level: str) -> None:
    x = codes(min(int(ALL[name][1] or 0), 100), 1500)
    expected, narrow = portable(name, x), x.astype(dtype)
    wide, unaligned = np.zeros(4500, dtype), np.zeros(1500, [("gap", "i1"), ("value", dtype)])
    wide[1::3], unaligned["value"] = narrow, narrow
    with at_level(level):
        for form in (narrow, wide[1::3], unaligned["value"]):
            assert same_bits(respond(name, form), expected.astype(dtype) if "kary" in name else expected)


@each_level
@pytest.mark.parametrize("dtype", ["float32", "float16", *INTEGERS])
def test_numbers_of_every_dtype(level: str, dtype: str) -> None:
    x = (np.random.default_rng(9).normal(1.0, 2.0, 1500).clip(0 if dtype.startswith("u") else -9, 9)).astype(dtype)
    expected = portable("bounded", x.astype(np.float64))
    with at_level(level):
        assert same_bits(respond("bounded", x), expected)
        assert same_bits(respond("bounded", x[::-3]), portable("bounded", x[::-3].astype(np.float64)))


def test_what_stands_for_the_unknown_and_the_missing() -> None:
    x = codes(100, 3000)
    assert same_bits(respond("kary-unknown", x), respond("kary-unknown", np.where(x < 50, x, 49)))
    assert same_bits(respond("unary-unknown", x), respond("unary-unknown", np.where(x < 60, x, 59)))
    numbers = values("bounded-missing", 3000)
    assert np.isnan(numbers).any()
    assert same_bits(respond("bounded-missing", numbers), respond("bounded", np.where(np.isnan(numbers), 1.25, numbers)))


# Aliasing


@each_level
def test_flips_in_place(level: str) -> None:
    for n in LENGTHS:
        x = values("flip", n)
        expected = portable("flip", x, 77)
        with at_level(level):
            own, strided = x.copy(), np.repeat(x, 2)
            respond("flip", own, 77, out=own)
            respond("flip", strided[::2], 77, out=strided[::2])
        assert same_bits(own, expected)
        assert same_bits(strided[::2].copy(), expected)
        assert same_bits(strided[1::2].copy(), x)


@each_level
@pytest.mark.parametrize(("name", "dtype"), [(name, dtype) for name in ("kary", "kary-open") for dtype in INTEGERS if holds(dtype, name)])
def test_kary_responses_in_place(name: str, dtype: str, level: str) -> None:
    x = values(name, 5000).astype(dtype)
    expected = portable(name, x, 5)
    with at_level(level):
        own, strided = x.copy(), np.repeat(x, 2)
        assert respond(name, own, 5, out=own) is own
        respond(name, strided[::2], 5, out=strided[::2])
    assert same_bits(own, expected)
    assert same_bits(strided[::2].copy(), expected)


@each_level
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_tables_in_place_of_bytes(level: str, dtype: str) -> None:
    x = codes(3, 5000, dtype)
    expected = portable("table", x)
    with at_level(level):
        respond("table", x, out=x.view(bool))
    assert same_bits(x.view(bool), expected)
