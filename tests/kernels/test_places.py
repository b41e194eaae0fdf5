"""Places among points and moments of reports equal their slow twins at every level, for arrays of every dtype and make."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from dpcore import _backend
from support.kernels import LEVELS, at_level

at_each_level = pytest.mark.parametrize("level", LEVELS)
SIZES = (0, 1, 7, 15, 16, 17, 511, 512, 513, 2047, 2048, 2049, 5000)
REALS = [np.float64, np.float32, np.float16, np.int64, np.int32, np.int16, np.int8, np.uint32, np.uint16, np.uint8]
POINTS = {
    "one": (np.array([3.0]), 0.0),
    "few": (np.array([-5.0, 0.0, 0.3, 7.0, 1e300]), 0.0),
    "fifteen": (np.arange(15) ** 2 / 7, 0.0),
    "even": (np.arange(201) / 10, 0.1),
    "bytes": (np.arange(255) - 100.0, 1.0),
    "more": (np.arange(256) - 100.0, 1.0),
    "moved": (np.arange(1000) / 3 + np.sin(np.arange(1000)) / 13, 1 / 3),
    "far": (np.arange(64) + 2.0**40, 1.0),
}


def random() -> np.random.Generator:
    return np.random.default_rng(11)


def numbers(dtype: object, size: int, points: np.ndarray) -> np.ndarray:
    """Numbers beside the points, on them, beyond them."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        around = np.concatenate([points, np.nextafter(points, -np.inf), np.nextafter(points, np.inf), [np.inf, -np.inf, 0.0, -0.0, 5e-324]])
        with np.errstate(over="ignore"):
            chosen = random().choice(around, size) + random().choice([0.0, 0.0, 1e-3, -0.4, 100.0], size)
            return chosen.astype(dtype)
    around = np.concatenate([np.floor(points), np.ceil(points), np.floor(points) - 1]).clip(-(2**60), 2**60).astype(np.int64)
    x = random().choice(np.append(around, [np.iinfo(dtype).min, np.iinfo(dtype).max]), size)
    return x.clip(np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)


def slow_places(x: np.ndarray, points: np.ndarray, *, counts_equal: bool) -> list[int]:
    """One number after the other."""
    return [sum(point < number or (counts_equal and point == number) for point in points.tolist()) for number in map(float, x)]


def makes(x: np.ndarray) -> list[np.ndarray]:
    """The same items in memory of every kind."""
    raw = np.zeros(x.nbytes + 1, np.uint8)
    misaligned = raw[1:].view(x.dtype)
    misaligned[:] = x
    wide = np.zeros((len(x), 3), x.dtype)
    wide[:, 1] = x
    read_only = x.copy()
    read_only.flags.writeable = False
    return [x, misaligned, wide[:, 1], x[::-1].copy()[::-1], read_only]


@pytest.mark.some(12)
@at_each_level
@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("points", POINTS)
def test_places(level, dtype, points):
    points, step = POINTS[points]
    padded = np.concatenate([[-np.inf], points, [np.inf]])
    x = numbers(dtype, 700, points)
    for counts_equal in (False, True):
        expected = slow_places(x, points, counts_equal=counts_equal)
        with at_level(level):
            for array in makes(x):
                found = _backend.places(array, padded, step, counts_equal=counts_equal)
                assert found.dtype == (np.uint8 if len(points) <= 255 else np.int64)
                assert found.tolist() == expected


@at_each_level
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("points", ["few", "even", "more"])
def test_places_of_any_number_of_numbers(level, size, points):
    points, step = POINTS[points]
    padded, x = np.concatenate([[-np.inf], points, [np.inf]]), numbers(np.float64, size, points)
    with at_level(level):
        found = _backend.places(x, padded, step, counts_equal=True, threads=2)
    assert found.tolist() == np.searchsorted(points, x, "right").tolist()


@at_each_level
@pytest.mark.parametrize("points", POINTS)
def test_the_place_of_a_nan_is_among_the_points(level, points):
    points, step = POINTS[points]
    padded = np.concatenate([[-np.inf], points, [np.inf]])
    with at_level(level):
        for counts_equal in (False, True):
            found = _backend.places(np.full(100, np.nan), padded, step, counts_equal=counts_equal)
            assert found.min() >= 0
            assert found.max() <= len(points)


# Moments


def slow_moments(x: np.ndarray, centre: int, grid: float) -> tuple[int, int]:
    """In rational arithmetic."""
    away = [Fraction(number) / Fraction(grid) - centre for number in x.tolist()]
    assert all(each.denominator == 1 for each in away)
    return sum(map(int, away)), sum(int(each) ** 2 for each in away)


def refused(start: int, stop: int) -> tuple[int, int]:
    raise AssertionError((start, stop))


@pytest.mark.some(98)
@at_each_level
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("bits", [1, 24, 25, 26, 40, 50])
@pytest.mark.parametrize("centre", [0, -12345, 2**45])
def test_moments(level, size, bits, centre):
    """The kernel takes all of them: nothing is left to `far`."""
    most = 2**bits - 1
    for d in (random().integers(-most, most, size, endpoint=True), np.full(size, most), np.full(size, -most)):
        x = (d + centre).astype(np.int64)
        expected = int(d.astype(object).sum()) if size else 0, sum(number * number for number in d.tolist())
        with at_level(level):
            for array in makes(x):
                assert _backend.moments(array, centre, 1.0, refused) == expected
            for grid in (1.0, 2.0**-30, 2.0**-985, 2.0**900):
                for array in makes(x * grid):
                    assert _backend.moments(array, centre, grid, refused) == expected


@pytest.mark.some(2)
@at_each_level
@pytest.mark.parametrize("centre", [0, 2**62 - 1, -(2**62) + 1, 2**62, -(2**63), 2**80])
def test_moments_of_integers_of_every_size(level, centre):
    """What the kernel does not take is left to `far`, in ranges that cover it once."""
    edges = [0, 1, -1, 2**50 - 1, 2**50, -(2**50), -(2**50) - 1, 2**62, 2**63 - 1, -(2**63), 2**63 - 2**50]
    x = np.array([edge for edge in edges for _ in range(400)], np.int64)
    x[:600] = min(max(centre, -(2**63)), 2**63 - 1)
    seen = []

    def far(start: int, stop: int) -> tuple[int, int]:
        seen.append((start, stop))
        return slow_moments(x[start:stop], centre, 1)

    with at_level(level):
        for array in makes(x):
            seen.clear()
            assert _backend.moments(array, centre, 1.0, far) == slow_moments(x, centre, 1)
            assert all(0 <= a < b <= len(x) for a, b in seen)
            assert all(before[1] <= after[0] for before, after in pairwise(seen))


@pytest.mark.some(207)
@at_each_level
@pytest.mark.parametrize("grid", [1.0, 2.0**-40, 2.0**-985, 2.0**935])
@pytest.mark.parametrize("bad", ["half", "quarter", "nan", "inf", "-inf", "far", "tiny"])
@pytest.mark.parametrize("place", [0, 511, 2500, 4999])
def test_what_is_no_report_near_the_centre_is_left_to_far(level, grid, bad, place):
    x = random().integers(-1000, 1000, 5000) * grid
    x[place] = {"half": 0.5, "quarter": 1000.25, "far": 2.0**50, "tiny": 2.0**-60}.get(bad, math.nan) * grid
    if bad in {"nan", "inf", "-inf"}:
        x[place] = float(bad)
    with at_level(level):
        for array in makes(x):
            seen = []
            _backend.moments(array, 0, grid, lambda start, stop, seen=seen: (seen.append((start, stop)), (0, 0))[1])
            assert any(start <= place < stop for start, stop in seen)
            assert sum(stop - start for start, stop in seen) <= 2048


@at_each_level
def test_a_report_that_rounds_to_the_grid_near_a_large_centre_is_found(level):
    """With a centre of 2^60 steps, reports of float64 are multiples of 256 steps, and their distances are exact."""
    centre = 2**60
    x = centre + 256.0 * random().integers(-1000, 1000, 3000)
    with at_level(level):
        assert _backend.moments(x, centre, 1.0, refused) == slow_moments(x, centre, 1.0)
