"""One answer everywhere: under a key, results do not depend on CPU level, threads, chunks, memory layout, dtype or aliasing."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import numpy as np
import pytest

from dpcore import _backend, noise
from dpcore.testing import KeyedRandom
from support.kernels import EXACT, FAST, KEY, LAWS, LEVELS, Array, Law, at_level, at_tier, layouts, same_bits

BLOCK = 512
each_law = pytest.mark.parametrize("law", LAWS, ids=str)
each_level = pytest.mark.parametrize("level", LEVELS)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let arrays of a few thousand elements go to the threads, in ranges that are no multiple of a block."""
    monkeypatch.setattr(_backend.threads, "CHUNK", 997)
    monkeypatch.setattr(_backend.threads, "SMALL", 0)


def portable(law: Law, values: Array, element: int = 0) -> Array:
    """What every other way must give: baseline level, one thread, contiguous input."""
    with at_level("baseline"):
        return law.add(np.ascontiguousarray(values), element, threads=1)  # type: ignore[no-any-return]


# Levels, lengths, threads, chunks


@each_level
@each_law
def test_every_length_is_a_prefix_of_the_longest(law: Law, level: str) -> None:
    values = law.values(2 * BLOCK + 1)
    expected = portable(law, values)
    with at_level(level):
        for k in range(2 * BLOCK + 2):
            assert same_bits(law.add(values[:k]), expected[:k]), k


@each_level
@each_law
@pytest.mark.parametrize("element", [1, 63, 64, 127, 128, 511, 512, 2**32 * 16 - 5, 2**40 + 3, 2**63 - 1])
def test_every_first_element(law: Law, level: str, element: int) -> None:
    values = law.values(700)
    expected = portable(law, values, element)
    with at_level(level):
        assert same_bits(law.add(values, element), expected)


@each_level
@each_law
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_threads(law: Law, level: str, threads: int) -> None:
    values = law.values(10**5 + 1)
    expected = portable(law, values)
    with at_level(level):
        assert same_bits(law.add(values, threads=threads), expected)


@pytest.mark.some(34)
@each_level
@each_law
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.usefixtures("small_chunks")
def test_threads_on_ranges_of_odd_length(law: Law, level: str, threads: int) -> None:
    values = law.values(10**4)
    expected = portable(law, values, 77)
    with at_level(level):
        assert same_bits(law.add(values, 77, threads=threads), expected)


@each_law
@pytest.mark.parametrize("threads", [2, 4])
def test_several_full_chunks(law: Law, threads: int) -> None:
    values = law.values(3 * _backend.threads.CHUNK + 5)
    assert same_bits(law.add(values, threads=threads), law.add(values, threads=1))


@each_level
@each_law
@pytest.mark.parametrize("start", [0, 5, 2**33 + 100])
def test_pieces_at_their_elements_make_the_whole(law: Law, level: str, start: int) -> None:
    values = law.values(5000)
    cuts = [0, 1, 2, 65, 128, 129, 500, 640, 641, 1024, 1600, 2047, 4096, 5000]
    with at_level(level):
        pieces = [law.add(values[a:b], start + a) for a, b in pairwise(cuts)]
    assert same_bits(np.concatenate(pieces), portable(law, values, start))


@each_level
@each_law
def test_scalars_are_the_elements_of_the_array(law: Law, level: str) -> None:
    values = law.values(300)
    expected = portable(law, values, 2**20)
    with at_level(level):
        singles = [law.add(value, 2**20 + i) for i, value in enumerate(values.tolist())]
        numpy_singles = [law.add(value, 2**20 + i) for i, value in enumerate(values)]
    assert same_bits(np.array(singles, expected.dtype), expected)
    assert same_bits(np.array(numpy_singles, expected.dtype), expected)


@each_law
def test_calls_of_a_keyed_source_are_its_nonces(law: Law) -> None:
    values, rng = law.values(100), KeyedRandom(KEY)
    options = {} if law.discrete else {"grid": law.grid}
    results = [law.function(values, law.scale, rng=rng, **options) for _ in range(3)]
    for nonce, result in enumerate(results):
        assert same_bits(result, law.add(values, nonce=nonce))
    assert len({r.tobytes() for r in results}) == 3


# Layout


@each_level
@each_law
def test_memory_layout_of_values_and_out(law: Law, level: str) -> None:
    values = law.values((12, 90, 7))
    expected = portable(law, values)
    with at_level(level):
        for name, form in layouts(values):
            assert same_bits(law.add(form), expected.reshape(form.shape)), name
        for name, form in layouts(law.zeros(values.shape)):
            if form.flags.writeable:
                given = values.reshape(form.shape)
                assert law.add(given, out=form) is form
                assert same_bits(form, expected.reshape(form.shape)), name


@each_law
@pytest.mark.usefixtures("small_chunks")
def test_memory_layout_on_threads(law: Law) -> None:
    values = law.values((12, 90, 7))
    expected = portable(law, values)
    for name, form in layouts(values):
        assert same_bits(law.add(form, threads=3), expected.reshape(form.shape)), name


@pytest.mark.some(3)
@each_level
@each_law
@pytest.mark.parametrize("tier", [FAST, EXACT])
def test_stores_past_the_cache(law: Law, level: str, tier: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every alignment and length, with samples that the exact tier decides in between."""
    monkeypatch.setattr(_backend.noise, "_STREAMED", 0)
    n = 1300 if tier == FAST else 40
    values = law.values(n)
    expected = portable(law, values, 5)
    with at_level(level), at_tier(tier):
        for first in range(9):
            for size in (0, 1, 2, 3, n - 8, n - first):
                memory = np.full(n + 12, 77, expected.dtype)
                law.add(values[:size], 5, scale=np.full(size, law.scale), out=memory[first : first + size])  # no short call
                assert same_bits(memory[first : first + size].copy(), expected[:size])
                assert (np.delete(memory, slice(first, first + size)) == 77).all()


@each_level
@each_law
def test_broadcast_input_draws_for_every_element(law: Law, level: str) -> None:
    row = np.broadcast_to(law.values(33), (40, 33))
    one = np.broadcast_to(law.values(())[()], (1320,))
    with at_level(level):
        assert same_bits(law.add(row), portable(law, row.copy()))
        assert same_bits(law.add(one), portable(law, one.copy()))


@each_law
def test_no_dimension_and_no_element(law: Law) -> None:
    values = law.values(1)
    expected = portable(law, values)
    assert same_bits(law.add(values.reshape(())), expected.reshape(()))
    for shape in ((0,), (3, 0, 2), (0, 5)):
        assert same_bits(law.add(law.zeros(shape)), law.zeros(shape))


@each_level
@each_law
@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "int32", "int16", "int8", "uint32", "uint16", "uint8"])
def test_narrow_dtypes_are_widened_exactly(law: Law, level: str, dtype: str) -> None:
    if law.discrete and dtype.startswith("f"):
        return  # the type of the parameter is wrong there; the tests of the API have it
    plain = np.random.default_rng(5)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        values = plain.standard_normal(1500).astype(kind)
        values[:4] = [np.finfo(kind).max, np.finfo(kind).tiny, np.finfo(kind).smallest_subnormal, -0.0]
    else:
        low, high = max(np.iinfo(kind).min, -(2**53)), min(np.iinfo(kind).max, 2**53)
        values = plain.integers(low, high, 1500, endpoint=True).astype(kind)
    with at_level(level):
        assert same_bits(law.add(values), portable(law, values.astype(law.zeros(0).dtype)))
        assert same_bits(law.add(values[::-3]), portable(law, values[::-3].astype(law.zeros(0).dtype)))


# Aliasing


@each_level
@each_law
def test_in_place_and_overlapping_out(law: Law, level: str) -> None:
    values = law.values(3000)
    expected = portable(law, values)
    with at_level(level):
        own = values.copy()
        assert law.add(own, out=own) is own
        assert same_bits(own, expected)
        for shift in (1, 100, 513):
            ahead, behind = np.concatenate([values, values[:shift]]), np.concatenate([values[:shift], values])
            assert same_bits(law.add(ahead[:3000], out=ahead[shift:]).copy(), expected)
            assert same_bits(law.add(behind[shift:], out=behind[:3000]).copy(), expected)
        backwards = values.copy()
        assert same_bits(law.add(backwards, out=backwards[::-1]).copy(), expected)


@each_law
def test_out_over_the_bytes_of_another_dtype(law: Law) -> None:
    memory = np.zeros(2000, law.zeros(0).dtype)
    narrow = memory.view(np.int32)[: 2 * 1000 : 2]
    narrow[:] = law.values(1000) % 1000
    expected = portable(law, narrow.astype(memory.dtype))
    assert same_bits(law.add(narrow, out=memory[:1000]).copy(), expected)


# Scales by element


@each_level
@pytest.mark.parametrize("grid", [None, 2.0**-4])
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_scale_arrays_are_the_uniform_scales_element_by_element(law: Law, level: str, grid: float | None) -> None:
    values = law.values((301, 5))
    scales = np.array([0.3, 1.0, 7.99, 8.0, 1000.0])
    options = {} if law.discrete else {"grid": grid}
    expected = np.stack([law.add(values, scale=float(s), **options)[:, j] for j, s in enumerate(scales)], axis=1)
    with at_level(level):
        full = np.broadcast_to(scales, values.shape)
        for form in (scales, scales[None], full, full.copy(), np.asfortranarray(full), scales.tolist()):
            assert same_bits(law.add(values, scale=form, **options), expected)
        one = np.full(values.shape, law.scale)
        assert same_bits(law.add(values, scale=one, **options), law.add(values, **options))


@each_level
@pytest.mark.parametrize("law", LAWS[:2], ids=str)
@pytest.mark.parametrize("dtype", ["int64", "int32", "float32", "float16"])
def test_scale_arrays_with_values_of_other_dtypes(law: Law, level: str, dtype: str) -> None:
    values, scales = np.arange(-1000, 1000).reshape(500, 4).astype(dtype), np.array([0.3, 1.0, 8.0, 0.3])
    with at_level(level):
        assert same_bits(law.add(values, scale=scales), law.add(values.astype(np.float64), scale=scales))
        large = (10**17 + 1 + values.astype(np.int64)).copy()
        columns = [law.add(large, scale=float(s))[:, j] for j, s in enumerate(scales)]
        assert same_bits(law.add(large, scale=scales), np.stack(columns, axis=1))


@each_level
@each_law
@pytest.mark.parametrize("columns", [2, 3, 64, 255, 256, 257, 511, 512, 513, 700])
def test_rows_of_scales_of_any_length(law: Law, level: str, columns: int) -> None:
    """The parameters of a row that repeats are made once, and each block begins elsewhere among them."""
    scales = np.resize([0.3, 1.0, 7.99, 8.0, 1000.0, 7.0, 31.5], columns)
    values = law.values((2500 // columns, columns))
    with at_level(level):
        together = law.add(values, 77, scale=scales)
        for scale in np.unique(scales):
            alone = law.add(values, 77, scale=float(scale))
            assert same_bits(together[:, scales == scale].copy(), alone[:, scales == scale].copy())
        part = law.add(values[:, 1 : columns - 1], 3, scale=scales[1 : columns - 1])
        full = np.broadcast_to(scales[1 : columns - 1], part.shape).copy()
        assert same_bits(part, law.add(values[:, 1 : columns - 1], 3, scale=full))


@each_law
@pytest.mark.usefixtures("small_chunks")
def test_scale_arrays_on_threads(law: Law) -> None:
    values, scales = law.values((400, 7)), np.array([1.5, 2, 4, 0.3, 9, 20.5, 1.5])
    assert same_bits(law.add(values, scale=scales, threads=3), law.add(values, scale=scales, threads=1))


@pytest.mark.parametrize("distinct", [2, 300, 2048, 2049, 3000])
def test_arrays_of_many_scales(distinct: int) -> None:
    """Few distinct scales are found by a table, more of them by sorting; each element has the noise of its own."""
    law = Law("discrete_laplace", 1.0)
    own = 0.5 + np.arange(distinct) / 64
    scales = np.random.default_rng(3).permutation(np.resize(own, 3 * distinct)).reshape(3, -1)
    values = law.values(scales.shape)
    expected = np.array(
        [[law.add(values[i : i + 1, j], i * distinct + j, scale=float(scales[i, j]))[0] for j in range(0, distinct, 7)] for i in range(3)]
    )
    assert same_bits(law.add(values, scale=scales)[:, ::7].copy(), expected)
    assert same_bits(law.add(values.T, scale=np.asfortranarray(scales).T), law.add(values.T, scale=scales.T.copy()))


def test_scale_arrays_of_other_dtypes() -> None:
    law = LAWS[0]
    values = law.values((10, 3))
    expected = law.add(values, scale=np.array([1.0, 2.0, 3.0]))
    for dtype in ("int64", "uint8", "float32"):
        assert same_bits(law.add(values, scale=np.array([1, 2, 3], dtype)), expected)


# The stream itself

GOLDEN = {
    "laplace-1.7": "eec88ef3fa3a54001ea6baa9feea8fd67b5182ae65723a3d96251e1ae8839994",
    "gaussian-1.7": "9cb21be28e9b03b5338869a4324cb3da65a399bb6d98bbfc6dfe5ef16f411948",
    "discrete_laplace-3.3": "b198ba8e98be558dd68978db81c35456ad0719f37308520fdd8e28617f9fe1c6",
    "discrete_gaussian-3.3": "5d90adc482164ead9e1b38929c4b9795f4f59c96a183e468cf160a03bba66de1",
    "discrete_gaussian-20.5": "15305f99a59c29df26a026bad027ab7e6625831b694a6fb1fb89f4026c8746cc",
}


def stream_digest(law: Law) -> str:
    """SHA-256 of the noise of 20,000 elements under the tests' key, from two places of the stream, little-endian."""
    drawn = np.concatenate([law.draw(15000), law.draw(5000, 2**41 + 5, nonce=3)])
    return hashlib.sha256(drawn.astype(drawn.dtype.newbyteorder("<")).tobytes()).hexdigest()


MIXED = "5181f76c2ce2cb48cbf867c2cd3e4b974b47e6ec0b94fc09489530aa92bb67b0"


@each_level
def test_the_stream_of_mixed_scales_has_not_changed(level: str) -> None:
    scales = np.resize([1.0, 1.0, 1000.0, 7.9, 8.0], 20000)
    with at_level(level):
        drawn = noise.discrete_gaussian(np.zeros(20000, np.int64), scales, rng=KeyedRandom(KEY).at(0))
    assert hashlib.sha256(drawn.astype("<i8").tobytes()).hexdigest() == MIXED


@each_level
def test_an_element_of_mixed_scales_is_the_one_of_its_own_scale(level: str) -> None:
    scales = np.resize([1.0, 1.0, 1000.0, 7.9, 8.0], 3000)
    with at_level(level):
        mixed = noise.discrete_gaussian(np.zeros(3000, np.int64), scales, rng=KeyedRandom(KEY).at(0, 77))
        for scale in np.unique(scales):
            alone = Law("discrete_gaussian", float(scale)).draw(3000, 77)
            assert np.array_equal(mixed[scales == scale], alone[scales == scale])


@each_level
@each_law
def test_the_stream_has_not_changed(law: Law, level: str) -> None:
    """A new digest here is a new `stream_version`: results that users reproduce from keys are other ones."""
    with at_level(level):
        assert stream_digest(law) == GOLDEN[str(law)]
