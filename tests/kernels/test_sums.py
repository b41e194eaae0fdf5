"""Exact sums equal their slow twin in rational arithmetic at every level, for arrays of every make, on any number of threads."""

from __future__ import annotations

import ctypes
import ctypes.util
import itertools
import math
import platform

import numpy as np
import pytest

from dpcore import DataError, _backend
from dpcore.sums import clamped_sum, clipped_sum
from support.kernels import LEVELS, at_level
from support.sums import awkward_values, slow_integers

at_each_level = pytest.mark.parametrize("level", LEVELS)
BOUNDS = ((-1.0, 1.0), (-1.7, 1.7), (0.0, 50.0), (-0.3, 1e6), (-7.0, -2.0), (3.0, 3.5))
COLUMNS = (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 255, 511, 512, 513, 1023, 1024, 1025)


def random() -> np.random.Generator:
    return np.random.default_rng(11)


@pytest.mark.some(2)
@at_each_level
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_one_column(level, bounds):
    grid = clamped_sum([], *bounds).grid
    for n in (0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 100, 2047, 2048, 2049, 4100):
        x = awkward_values(random(), n, *bounds, grid)
        with at_level(level):
            total = clamped_sum(x, *bounds, threads=1)
        assert total.integers == slow_integers(x, total.lower, total.upper, grid), n
        assert total.n == n


@pytest.mark.some(5)
@at_each_level
@pytest.mark.parametrize("columns", COLUMNS)
def test_columns_around_every_width(level, columns):
    for rows in (0, 1, 2, 3, 9):
        x = awkward_values(random(), (rows, columns), -1.7, 1.7, 2.0**-50)
        with at_level(level):
            total = clipped_sum(x, 1.7, threads=1)
        assert total.high.shape == total.low.shape == (columns,)
        assert total.integers == slow_integers(x, total.lower, total.upper, total.grid), rows


@pytest.mark.some(2)
@at_each_level
@pytest.mark.parametrize("columns", [1, 2, 3, 10, 40, 128, 200, 1025, 5000])
def test_more_rows_than_one_carry(level, columns):
    rows = 2**11 * (8 if columns < 8 else 2) + 3
    x = random().standard_normal((rows, columns))
    with at_level(level):
        total = clipped_sum(x, 1.0, threads=1)
        assert clipped_sum(x, 1.0, threads=4) == total
        assert clipped_sum(x[: rows // 3], 1.0) + clipped_sum(x[rows // 3 :], 1.0) == total
    steps = np.rint(np.clip(x, -1, 1) * 2.0**50).astype(np.int64)
    high, low = (steps >> 30).sum(axis=0), (steps & (2**30 - 1)).sum(axis=0)
    assert total.integers == tuple((h << 30) + v for h, v in zip(high.tolist(), low.tolist(), strict=True))


@at_each_level
@pytest.mark.parametrize("columns", [1024, 4097, 32767, 32768, 32769, 65541])
def test_tiles_of_columns(level, columns):
    x = random().standard_normal((5, columns))
    steps = np.rint(np.clip(x, -1, 1) * 2.0**50).astype(np.int64).sum(axis=0)  # below 2^53: exact
    with at_level(level):
        total = clipped_sum(x, 1.0, threads=1)
        assert np.array_equal(total.high * 2.0**50, steps)
        assert clipped_sum(x, 1.0, threads=4) == total
        assert clipped_sum(np.asfortranarray(x), 1.0, threads=2) == total
        assert clipped_sum(x.astype(np.float32), 1.0) == clipped_sum(x.astype(np.float32).astype(np.float64), 1.0)


@at_each_level
def test_extreme_totals_carry_into_128_bits(level):
    ones = np.ones((70_000, 3)) * [1, -1, 0.75]
    with at_level(level):
        total = clipped_sum(ones, 1.0)
        assert total.integers == (70_000 << 50, -70_000 << 50, 52_500 << 50)
        for _ in range(30):
            total = total + total
    assert total.integers == tuple(k * 2**30 << 50 for k in (70_000, -70_000, 52_500))
    assert total.n == 70_000 * 2**30


@pytest.mark.some(6)
@at_each_level
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.int32, np.int16, np.int8, np.uint32, np.uint16, np.uint8])
@pytest.mark.parametrize("shape", [(1001,), (101, 7), (23, 600)], ids=str)
def test_every_dtype(level, dtype, shape):
    if np.issubdtype(dtype, np.integer):
        x = random().integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)
        bounds = (-300.0, 2.0**31) if dtype != np.int64 else (-(2.0**62), 2.0**63)
    else:
        x, bounds = awkward_values(random(), shape, -1.0, 1.0, 2.0**-50).clip(-6e4, 6e4).astype(dtype), (-1.0, 0.9)
    with at_level(level):
        total = clamped_sum(x, *bounds)
        assert clamped_sum(x[::-1], *bounds) == total
    assert total.integers == slow_integers(x, total.lower, total.upper, total.grid)


@at_each_level
def test_int64_enters_as_the_nearest_float(level):
    edges = [2**63 - 1, -(2**63), 2**53 + 1, -(2**53) - 1, 2**53 + 3, 2**62 + 2**9, 2**62 + 2**9 + 1]
    with at_level(level):
        for value in edges:
            total = clipped_sum(np.array([value]), 2.0**63)
            assert total.integers == slow_integers(np.array([value]), total.lower, total.upper, total.grid)
            assert clipped_sum(np.array([float(value)]), 2.0**63) == total


@pytest.mark.some(4)
@at_each_level
@pytest.mark.parametrize("columns", [1, 3, 20, 70, 700])
def test_arrays_of_every_make(level, columns):
    x = awkward_values(random(), (300, columns), -2.0, 2.0, 2.0**-49)
    read_only = x.copy()
    read_only.flags.writeable = False
    wide, tall = np.zeros((300, 3 * columns)), np.zeros((900, columns))
    wide[:, columns : 2 * columns], tall[::3] = x, x
    aside = np.zeros((300, 2, columns))
    aside[:, 1] = x
    raw = np.zeros(x.nbytes + 4, np.uint8)
    misaligned = raw[4:].view(np.float64).reshape(x.shape)
    misaligned[:] = x
    records = np.zeros(300, [("before", np.uint8), ("x", np.float64, (columns,))])
    records["x"] = x
    makes = (
        np.asfortranarray(x), read_only, wide[:, columns : 2 * columns], tall[::3], aside[:, 1], misaligned, records["x"],
        np.repeat(x, 2, axis=1)[:, ::2], x[::-1].copy()[::-1], x[:, ::-1].copy()[:, ::-1],
    )  # fmt: skip
    with at_level(level):
        total = clipped_sum(x, 2.0)
        assert [clipped_sum(made, 2.0) == total for made in makes] == [True] * len(makes)
        assert np.array_equal(clipped_sum(x[:, 0], 2.0).high, total.high[0])
        assert clipped_sum(np.broadcast_to(x[0], (300, columns)), 2.0).integers == tuple(300 * k for k in clipped_sum(x[:1], 2.0).integers)
        if columns <= 70:
            assert total.integers == slow_integers(x, total.lower, total.upper, total.grid)


@at_each_level
@pytest.mark.parametrize("exponent", [-900, -899, -500, -1, 0, 500, 899, 900])
def test_radius_extremes(level, exponent):
    for radius in {2.0**exponent, 2.0**exponent * (1.9999 if exponent < 900 else 1)}:
        x = awkward_values(random(), 200, -radius, radius, math.ldexp(1.0, exponent - 50))
        with at_level(level):
            total = clipped_sum(x, radius)
        assert total.grid == math.ldexp(1.0, exponent - 50)
        assert radius * (1 - 2.0**-50) <= total.radius <= radius
        assert total.integers == slow_integers(x, total.lower, total.upper, total.grid)


@at_each_level
@pytest.mark.parametrize("shape", [(5000,), (700, 3), (300, 40), (9, 1500), (3, 9000)], ids=str)
def test_a_nan_is_refused_wherever_it_is(level, shape):
    x = random().standard_normal(shape)
    places = [0, 1, x.size // 2, x.size - 1]
    for place, payload in itertools.product(places, (0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF)):
        holed = x.copy()
        holed.view(np.uint64).flat[place] = payload
        index = np.unravel_index(place, shape)
        where = str(int(index[0])) if len(shape) == 1 else rf"\({int(index[0])}, {int(index[1])}\)"
        for array in (holed, np.asfortranarray(holed)):
            with at_level(level), pytest.raises(DataError, match=f"index {where} is NaN"):
                clipped_sum(array, 1.0)
    x.flat[places] = np.nan
    with at_level(level), pytest.raises(DataError, match="index 0 is NaN" if len(shape) == 1 else r"index \(0, 0\) is NaN"):
        clipped_sum(x, 1.0, threads=4)


@at_each_level
@pytest.mark.parametrize("n", [4, 16, 64, 512, 4096])
def test_nans_do_not_cancel(level, n):
    with at_level(level), pytest.raises(DataError, match="index 0 is NaN"):
        clipped_sum(np.full(n, np.nan), 1.0)
    with at_level(level), pytest.raises(DataError, match=r"index \(0, 0\) is NaN"):
        clipped_sum(np.full((n, 5), -np.nan), 1.0)


@pytest.mark.skipif(platform.system() != "Linux", reason="needs the C library's fesetround")
@at_each_level
def test_the_callers_rounding_mode_does_not_matter(level):
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    x = random().standard_normal((5000, 3))
    with at_level(level):
        expected = clipped_sum(x, 1.3)
        before = library.fegetround()
        try:
            for mode in range(0, 0x1000, 0x400):  # x86's four directions; elsewhere unknown ones are refused and change nothing
                library.fesetround(mode)
                total = clipped_sum(x, 1.3, threads=1)
                library.fesetround(before)
                assert np.array_equal(total.high, expected.high)
                assert np.array_equal(total.low, expected.low)
        finally:
            library.fesetround(before)


@pytest.mark.some(34)
@at_each_level
@pytest.mark.parametrize("groups", [1, 2, 7, 1000])
@pytest.mark.parametrize("n", [0, 1, 7, 255, 256, 257, 511, 513, 4099])
def test_sums_of_groups(level, groups, n):
    """Each group has the exact sum of its rows; the slow twin adds integers one row after the other."""
    x = awkward_values(random(), n, -1.7, 1.7, 2.0**-50)
    codes = random().integers(0, groups, n).astype(np.int32)
    expected = [slow_integers(x[codes == group], -1.7, 1.7, 2.0**-50) for group in range(groups)]
    for dtype, stride in ((np.int32, 1), (np.int32, 2)):
        totals = np.zeros((groups, 3), np.int64)
        with at_level(level):
            _backend.add_grouped_sums(totals, x, np.repeat(codes, stride)[::stride].astype(dtype, copy=False), -1.7, 1.7, 2.0**-50)
        assert [(high << 64) + (low % 2**64) for low, high, _ in totals.tolist()] == expected
        assert totals[:, 2].tolist() == np.bincount(codes, minlength=groups).tolist()


def test_sums_of_groups_carry_into_128_bits_and_merge():
    """Half of the rows here, half there: the same totals as all at once."""
    x = np.tile([1.0, -1.0, -1.0, 0.75], 50_000)
    codes = np.tile(np.array([0, 1, 1, 2], np.int32), 50_000)
    totals = np.zeros((3, 3), np.int64)
    _backend.add_grouped_sums(totals, x, codes, -1.0, 1.0, 2.0**-50)
    for _ in range(20):
        _backend.merge_grouped_sums(totals, totals.copy())
    integers = [(high << 64) + (low % 2**64) for low, high, _ in totals.tolist()]
    assert integers == [50_000 << 70, -(100_000 << 70), 37_500 << 70]
    high, low = _backend.grouped_pairs(totals, 2.0**-50)
    assert (high + low).tolist() == [50_000.0 * 2**20, -100_000.0 * 2**20, 37_500.0 * 2**20]


def test_sums_of_groups_refuse_nan_and_codes_of_no_group():
    totals = np.zeros((2, 3), np.int64)
    with pytest.raises(DataError, match="records must not hold NaN"):
        _backend.add_grouped_sums(totals, np.array([0.5, np.nan]), np.zeros(2, np.int32), -1.0, 1.0, 2.0**-50)
    for wrong in (-1, 2, 2**31 - 1):
        with pytest.raises(ValueError, match="groups must be inside the totals"):
            _backend.add_grouped_sums(totals, np.array([0.5]), np.array([wrong], np.int32), -1.0, 1.0, 2.0**-50)
