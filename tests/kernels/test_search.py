"""Kernels of the binary search of tests against slow twins, at every level, for data of every make."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore import DataError, _backend
from support.kernels import LEVELS, at_level

at_each_level = pytest.mark.parametrize("level", LEVELS)


def random() -> np.random.Generator:
    return np.random.default_rng(17)


def node(level: int, place: int) -> int:
    return level * (level - 1) // 2 + place - 1


def slow_statistic(counts, weights):
    """Chunks of eight, then the tree."""
    sums = np.zeros(8)
    for z in range(0, len(weights), 8):
        sums = counts[z : z + 8] * weights[z : z + 8] if z == 0 else sums + counts[z : z + 8] * weights[z : z + 8]
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))


def slow_walk(counts, weights, levels, places, steps):
    """One data set after the other, one test after the other."""
    levels, places = levels.copy(), places.copy()
    for i, row in enumerate(counts):
        padded = np.zeros(weights.shape[1])
        padded[: len(row)] = row
        while levels[i] <= steps:
            s = slow_statistic(padded, weights[node(levels[i], places[i])])
            if np.isnan(s):
                break
            places[i] += s > 0
            levels[i] += 1
    return levels, places


def table_of_tests(steps: int, outcomes: int, *, tied: bool = False):
    """Weights of every node, padded; tied ones are small integers of sum zero, so that equal counts give statistics of exactly 0."""
    width = -(-outcomes // _backend.WALK_LANES) * _backend.WALK_LANES
    weights = np.zeros((node(steps + 1, 1), width))
    drawn = random().normal(size=(len(weights), outcomes))
    drawn = (drawn - drawn.mean(axis=1, keepdims=True)) * 2.0 ** random().integers(-40, 40, (len(weights), 1))
    if tied:
        drawn = random().integers(-3, 4, (len(weights), outcomes)).astype(float)
        drawn[:, -1] -= drawn.sum(axis=1)
    weights[:, :outcomes] = drawn
    return weights


def start(n):
    return np.ones(n, np.int32), np.ones(n, np.int32)


def check(counts, weights, steps, *, threads=1):
    levels, places = start(len(counts))
    _backend.walk(counts, weights, levels, places, steps, threads=threads)
    some = random().choice(len(counts), min(len(counts), 25), replace=False)
    expected = slow_walk(counts[some], weights, *start(len(some)), steps)
    assert np.array_equal(levels[some], expected[0])
    assert np.array_equal(places[some], expected[1])
    return levels, places


@pytest.mark.some(35)
@at_each_level
@pytest.mark.parametrize("outcomes", [2, 7, 8, 9, 24, 64, 70])
@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 2047, 2600])
def test_walk(level, outcomes, n):
    counts = random().multinomial(500, np.full(outcomes, 1 / outcomes), size=n)
    with at_level(level):
        levels, places = check(counts, table_of_tests(30, outcomes), 30)
    assert (levels == 31).all()
    assert n < 1000 or len(set(places)) > 1


@at_each_level
@pytest.mark.parametrize("n", [10, 3000])
def test_statistics_of_exactly_zero_stay_below(level, n):
    counts = np.full((n, 8), 125)
    counts[::5, 0] += 1
    with at_level(level):
        _, places = check(counts, table_of_tests(25, 8, tied=True), 25)
    assert (places[np.arange(n) % 5 != 0] == 1).all()
    assert (places[::5] > 1).any()


@at_each_level
@pytest.mark.parametrize("reports", [10**3, 10**7, 10**15])
def test_counts_of_every_size(level, reports):
    """Float holds no counts beyond 2^24, and may not decide then."""
    counts = random().multinomial(reports, np.full(8, 1 / 8), size=2500)
    with at_level(level):
        check(counts, table_of_tests(20, 8, tied=True), 20)


@at_each_level
@pytest.mark.parametrize("n", [100, 5000])
def test_walk_stops_where_no_test_is_known_and_goes_on(level, n):
    counts = random().multinomial(500, np.full(8, 1 / 8), size=n)
    weights = table_of_tests(12, 8)
    partly = weights.copy()
    partly[random().random(len(weights)) < 0.2] = np.nan
    levels, places = start(n)
    with at_level(level):
        _backend.walk(counts, partly, levels, places, 12, threads=1)
        some = slice(0, 200)
        for got, wanted in zip((levels, places), slow_walk(counts[some], partly, *start(n), 12), strict=True):
            assert np.array_equal(got[some], wanted[some])
        assert 0 < (levels < 13).mean() < 1
        _backend.walk(counts, weights, levels, places, 12, threads=1)
        at_once = start(n)
        _backend.walk(counts, weights, *at_once, 12, threads=1)
    assert np.array_equal(places, at_once[1])
    assert (levels == 13).all()


def test_levels_and_threads_agree():
    counts = random().multinomial(5000, np.full(8, 1 / 8), size=40_000)
    weights, found = table_of_tests(60, 8, tied=True), []
    for level in LEVELS:
        with at_level(level):
            for threads in (1, 3):
                levels, places = start(len(counts))
                _backend.walk(counts, weights, levels, places, 60, threads=threads)
                found.append(places)
    assert all(np.array_equal(places, found[0]) for places in found[1:])


@at_each_level
@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8, 100, 1000])
def test_step_values(level, size):
    thresholds = np.sort(random().integers(-50, 1000, size))
    values = random().normal(size=size + 1)
    counts = np.concatenate([random().integers(-100, 1100, 1003), [np.iinfo(np.int64).min, 2**62], thresholds, thresholds - 1])
    with at_level(level):
        found = _backend.step_values(counts, thresholds, values, threads=1)
        assert np.array_equal(found, values[np.searchsorted(thresholds, counts, side="right")])
        assert np.array_equal(_backend.step_values(counts[::3], thresholds, values, threads=2), found[::3])


@at_each_level
@pytest.mark.parametrize("n", [0, 1, 7, 8, 63, 64, 511, 512, 513, 70_000])
def test_rows_of_bits(level, n):
    bools = random().random((5, n)) < 0.3
    packed = np.packbits(bools, axis=1, bitorder="little")
    expected = bools.sum(axis=1)
    if n % 8:
        packed[:, -1] |= np.uint8(0xFF << n % 8 & 0xFF)  # what lies beyond n does not count
    with at_level(level):
        assert np.array_equal(_backend.count_packed_rows(packed, n, threads=2), expected)
        assert np.array_equal(_backend.count_packed_rows(np.asfortranarray(packed), n, threads=1), expected)
        assert _backend.count_packed(packed[0], n) == expected[0]
        assert np.array_equal(_backend.count_true_rows(bools, threads=2), expected)
        assert np.array_equal(_backend.count_true_rows(np.asfortranarray(bools)[:, ::-1], threads=1), expected)


@pytest.mark.parametrize("threads", [1, 4])
def test_many_packed_bits(threads):
    packed = random().integers(0, 256, 9_000_001, dtype=np.uint8)
    expected = int(np.bitwise_count(packed).sum()) if hasattr(np, "bitwise_count") else int(np.unpackbits(packed).sum())
    assert _backend.count_packed(packed, 8 * len(packed), threads=threads) == expected


@at_each_level
@pytest.mark.parametrize("k", [1, 2, 8, 16, 17, 200, 256, 300])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int64])
def test_rows_of_codes(level, k, dtype):
    codes = random().integers(0, min(k, 256), (3, 50_021)).astype(dtype)
    expected = np.array([np.bincount(row, minlength=k) for row in codes])
    with at_level(level):
        assert np.array_equal(_backend.code_counts_rows(codes, k, threads=2), expected)
        assert np.array_equal(_backend.code_counts_rows(np.asfortranarray(codes), k, threads=1), expected)
        assert np.array_equal(_backend.code_counts(codes[0], k, threads=3), expected[0])


@at_each_level
@pytest.mark.parametrize("k", [8, 100])
@pytest.mark.parametrize("place", [0, 777, 39_999])
def test_codes_outside_are_refused_by_their_index(level, k, place):
    codes = random().integers(0, k, (4, 40_000), dtype=np.uint8)
    codes[2, place] = k
    with at_level(level):
        with pytest.raises(DataError, match=rf"index \(2, {place}\)"):
            _backend.code_counts_rows(codes, k, threads=1)
        with pytest.raises(DataError, match=rf"index {place} "):
            _backend.code_counts(codes[2], k, threads=1)


@pytest.mark.parametrize("threads", [1, 4])
def test_long_rows_are_shared_out(threads):
    """Ranges of one row on several threads."""
    n = 2**21 + 1003
    bools = random().random((2, n)) < 0.4
    assert np.array_equal(_backend.count_true_rows(bools, threads=threads), bools.sum(axis=1))
    codes = random().integers(0, 8, (2, n), dtype=np.uint8)
    assert np.array_equal(_backend.code_counts_rows(codes, 8, threads=threads), [np.bincount(row, minlength=8) for row in codes])
    codes[1, n - 5] = 8
    with pytest.raises(DataError, match=rf"index \(1, {n - 5}\)"):
        _backend.code_counts_rows(codes, 8, threads=threads)
    packed = random().integers(0, 256, (2, n), dtype=np.uint8)
    for bits in (8 * n, 8 * n - 3):
        expected = np.unpackbits(packed, axis=1, bitorder="little")[:, :bits].sum(axis=1)
        assert np.array_equal(_backend.count_packed_rows(packed, bits, threads=threads), expected)


def test_every_byte_value():
    """Lane counters of bytes hold 255."""
    for value in (0, 1, 15, 255):
        same = np.full(300_000, value, np.uint8)
        assert _backend.code_counts(same, 256, threads=1)[value] == 300_000
        assert _backend.count_true_rows(np.full((1, 300_000), value != 0), threads=1)[0] == (300_000 if value else 0)
    assert _backend.code_counts(np.full(300_000, 15, np.uint8), 16, threads=1)[15] == 300_000
