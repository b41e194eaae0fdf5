"""Values and scales at the ends of their ranges, against rational arithmetic.

The reference needs no sampler: if x is a multiple of the grid, x + W rounds to x + (W rounded), so the noise that 0 receives at the same
element gives the result for every such x. Where x is half a grid step from a multiple, the sign of the noise decides.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import pytest

from dpcore import noise
from dpcore._exact import sampling
from support.kernels import ACCURATE, EXACT, FAST, LEVELS, Array, Law, at_level, at_tier, same_bits

FLOAT_KINDS, INT_KINDS = ("laplace", "gaussian"), ("discrete_laplace", "discrete_gaussian")
LARGEST = sys.float_info.max
TINIEST = math.ulp(0.0)
INT64 = np.iinfo(np.int64)
N = 300
each_float_kind = pytest.mark.parametrize("kind", FLOAT_KINDS)
each_int_kind = pytest.mark.parametrize("kind", INT_KINDS)


def in_every_way(law: Law, values: Array) -> Array:
    """The result, which every level and tier must give alike; bits of zeros included."""
    result: Array = law.add(values)
    for level in LEVELS:
        with at_level(level):
            assert same_bits(law.add(values), result), level
    for tier in (FAST, ACCURATE, EXACT):
        with at_tier(tier):
            assert same_bits(law.add(values), result), tier
            assert [law.add(value, i) for i, value in enumerate(values[:20].tolist())] == result[:20].tolist()
    return result


def nearest_float(number: Fraction) -> float:
    """The nearest float64, or the largest one beyond it."""
    try:
        return float(number)
    except OverflowError:
        return LARGEST if number > 0 else -LARGEST


@pytest.mark.some(5)
@each_float_kind
@pytest.mark.parametrize(
    ("value", "scale", "grid"),
    [
        (1e308, 1.0, None),
        (-1e308, 1.0, None),
        (LARGEST, 1.0, 2.0**-40),
        (10.0**17 + 16, 1.0, None),
        (2.0**53 + 2, 1.0, 1.0),
        (3.0 * 2**-25, 1.0, None),
        (LARGEST, 2.0**960, None),
        (-LARGEST, 2.0**960, 2.0**920),
        (1e308, 2.0**950, 2.0**960),
        (2.0**-930, 2.0**-960, None),
        (1.0, 2.0**-960, 2.0**-1000),
        (LARGEST, 2.0**-960, None),
        (2.0**-985, 2.0**-960, None),
    ],
)
def test_multiples_of_the_grid_of_any_size(kind: str, value: float, scale: float, grid: float | None) -> None:
    law = Law(kind, scale, grid)
    result = in_every_way(law, np.full(N, value))
    offsets = law.draw(N)  # a multiple of the grid below 2^53 steps: exact
    assert result.tolist() == [nearest_float(Fraction(value) + Fraction(offset)) for offset in offsets.tolist()]


@pytest.mark.some(7)
@each_float_kind
@pytest.mark.parametrize(
    ("value", "scale", "grid"),
    [
        (TINIEST, 2.0**-960, None),
        (-TINIEST, 2.0**-960, 2.0**-1000),
        (sys.float_info.min, 2.0**-960, None),
        (-math.ulp(1e-310) * 12345, 2.0**-960, None),
        (TINIEST, 1.0, None),
        (TINIEST, 2.0**960, 2.0**1023),
        (1.0, 2.0**960, None),
        (-0.0, 1.0, None),
        (-0.0, 2.0**960, 2.0**1000),
    ],
)
def test_values_far_below_the_grid_change_nothing(kind: str, value: float, scale: float, grid: float | None) -> None:
    law = Law(kind, scale, grid)
    assert same_bits(in_every_way(law, np.full(N, value)), law.draw(N))


@pytest.mark.some(3)
@each_float_kind
@pytest.mark.parametrize("scale", [2.0**-20, 2.0**-60, 2.0**-190, 2.0**-500, 2.0**-960])
@pytest.mark.parametrize("whole", [0, -1, 6, 7, -12345677, 2**40])
def test_midpoints_go_where_the_noise_points(kind: str, scale: float, whole: int) -> None:
    law = Law(kind, scale, 1.0)
    result = in_every_way(law, np.full(50, whole + 0.5))
    signs = Law(kind, scale).draw(50)
    assert np.all(signs != 0)
    assert result.tolist() == np.where(signs > 0, whole + 1.0, float(whole)).tolist()


@each_float_kind
def test_multiples_far_from_midpoints_are_kept(kind: str) -> None:
    for scale in (2.0**-60, 2.0**-960):
        values = np.array([0.0, 1.0, -7.25, 1e300, 0.499, 2.0**52 + 1])
        assert in_every_way(Law(kind, scale, 1.0), values).tolist() == [0.0, 1.0, -7.0, 1e300, 0.0, 2.0**52 + 1]


@each_float_kind
def test_the_coarsest_grid(kind: str) -> None:
    law, step = Law(kind, 2.0**900, 2.0**1023), 2.0**1023
    values = np.array([0.0, 0.49 * step, 0.51 * step, step, 1.49 * step, 1.51 * step, LARGEST, -0.51 * step, -1.6 * step, -LARGEST])
    expected = [0.0, 0.0, step, step, step, LARGEST, LARGEST, -step, -LARGEST, -LARGEST]
    assert in_every_way(law, values).tolist() == expected


@pytest.mark.some(4)
@each_float_kind
@pytest.mark.parametrize(("scale", "grid"), [(2.0**960, 2.0**1000), (2.0**960, 2.0**971), (1.0, 2.0**1000), (1.0, 2.0**1023)])
def test_saturation_at_the_largest_float(kind: str, scale: float, grid: float) -> None:
    for edge in (LARGEST, -LARGEST):
        # The nearest multiple of the grid is ±2^1024, or, on the grid of the float's own spacing, the float itself.
        assert in_every_way(Law(kind, scale, grid), np.full(50, edge)).tolist() == [edge] * 50


@pytest.mark.some(2)
@each_float_kind
@pytest.mark.parametrize("value", [10**17 + 1, 2**53 + 1, -(2**62) - 1, INT64.max, INT64.min, 12345678901234567])
def test_large_integers_keep_their_unit(kind: str, value: int) -> None:
    for scale, grid in ((2.0**-30, 2.0**-50), (0.25, None), (1.0, 1.0), (3.0, 2.0**-20), (1e6, 1.0)):
        law = Law(kind, scale, grid)
        offsets = law.draw(N).tolist()
        result = in_every_way(law, np.full(N, value))
        assert result.tolist() == [nearest_float(value + Fraction(offset)) for offset in offsets]


@each_float_kind
def test_an_integer_between_floats_is_not_rounded_first(kind: str) -> None:
    # Noise near +0.5 to +1.5 lifts 10^17 + 7 to the float 10^17 + 16 but would leave a value rounded beforehand, 10^17, where it is.
    law = Law(kind, 4.0, 1.0)
    value = np.full(2000, 10**17 + 7)
    exact, rounded_first = law.add(value), law.add(value.astype(np.float64))
    assert np.any(exact != rounded_first)


@pytest.mark.some(2)
@each_float_kind
@pytest.mark.parametrize("scale", [1.0, 2.0**-960, 2.0**960])
def test_no_negative_zero_is_released(kind: str, scale: float) -> None:
    law = Law(kind, scale, scale * 8)  # most results are zero
    for value in (0.0, -0.0, -scale / 1024, -TINIEST):
        result = in_every_way(law, np.full(N, value))
        assert np.count_nonzero(result == 0) > N / 2
        assert not np.signbit(result[result == 0]).any()
        assert math.copysign(1.0, next(y for y in (law.add(value, i) for i in range(100)) if y == 0)) == 1.0
    int_result = law.add(np.zeros(N, np.int64))
    assert not np.signbit(int_result[int_result == 0]).any()


# Integers


@pytest.mark.some(7)
@each_int_kind
@pytest.mark.parametrize("scale", [0.3, 3.0, 20.5, 2.0**40])
@pytest.mark.parametrize("edge", [INT64.max, INT64.min, INT64.max - 2, INT64.min + 2, 2**53 + 1, -(2**62) - 1])
def test_integers_are_exact_and_saturate(kind: str, scale: float, edge: int) -> None:
    law = Law(kind, scale)
    expected = [min(max(edge + z, INT64.min), INT64.max) for z in law.draw(N).tolist()]
    assert in_every_way(law, np.full(N, edge)).tolist() == expected


@pytest.mark.parametrize("scale", [2.0**-19, 0.01, 0.05, 0.0751, 0.08, 0.5, 7.99])
def test_tables_of_small_scales_have_an_entry(scale: float) -> None:
    """The kernel reads the last entry unconditionally; and without one, every sample would need the exact tier."""
    short, long = sampling.threshold_integers(scale)
    assert 1 <= len(short) <= len(long)
    assert short == sorted(short)
    assert long == sorted(long)
    assert short[-1] < 2**31
    assert long[-1] < 2**127


@each_int_kind
def test_integers_at_the_smallest_scale(kind: str) -> None:
    law = Law(kind, math.nextafter(2.0**-20, 1.0))
    values = np.arange(-100, 100)
    assert in_every_way(law, values).tolist() == values.tolist()


@each_int_kind
def test_python_integers_beyond_int64_are_refused(kind: str) -> None:
    for value in (2**63, -(2**63) - 1, 10**30):
        with pytest.raises(TypeError, match="values"):
            Law(kind, 1.0).add(value)


def test_default_grid_follows_the_exponent_of_the_scale() -> None:
    for exponent in (-960, -1, 0, 1, 17, 959):
        scale = 2.0**exponent
        assert noise.default_grid(scale) == 2.0 ** (exponent - 25)
        assert noise.default_grid(math.nextafter(scale, math.inf)) == 2.0 ** (exponent - 25)
        assert noise.default_grid(math.nextafter(2 * scale, 0.0)) == 2.0 ** (exponent - 25)
