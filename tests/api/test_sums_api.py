"""The exact sums as a user meets them: what is returned, merged, compared and refused."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from dpcore import DataError, ParameterError, ParameterTypeError
from dpcore.sums import ExactSum, clamped_sum, clipped_sum, grid_of
from dpcore.testing import KeyedRandom
from support.environments import X86_ROUNDING, environment, on_x86_linux, rounding


def test_fields():
    total = clipped_sum(np.array([0.25, 9.0, -0.5]), 1.9)
    assert isinstance(total, ExactSum)
    assert (total.high, total.low, total.n, total.grid) == (0.25 + total.radius - 0.5, 0.0, 3, 2.0**-50)
    assert type(total.high) is type(total.low) is float
    assert total.radius == total.upper == -total.lower == np.floor(1.9 * 2.0**50) / 2.0**50
    assert total.integers == round(total.high * 2**50)
    assert total.sensitivity() == total.sensitivity("replace") == 2 * total.radius
    assert total.sensitivity("add_remove") == total.radius


def test_bounds_are_rounded_inward():
    total = clamped_sum([1e9], 0.1, 100.3)
    assert 0.1 < total.lower < 0.1 + total.grid
    assert 100.3 - total.grid < total.upper <= 100.3
    assert total.high == total.upper == total.sensitivity("add_remove")
    assert total.sensitivity() == total.upper - total.lower
    negative = clamped_sum([1e9], -7.3, -2.1)
    assert negative.radius == -negative.lower >= 7.3 - negative.grid
    assert clamped_sum([0.0], 0.0, 2.0**900).upper == 2.0**900


def test_columns():
    total = clipped_sum([[1, 2], [3, -40]], 8)
    assert total.high.tolist() == [4.0, -6.0]
    assert total.low.tolist() == [0.0, 0.0]
    assert total.integers == (4 << 47, -6 << 47)
    with pytest.raises(ValueError, match="read-only"):
        total.high[0] = 1.0


@pytest.mark.parametrize("shape", [(0,), (0, 3), (5, 0), (0, 0)], ids=str)
def test_nothing_to_add(shape):
    total = clipped_sum(np.zeros(shape), 1.0)
    assert np.array_equal(total.high, np.zeros(shape[1:]))
    assert total.n == shape[0]
    assert np.array_equal(total.integers, np.zeros(shape[1:]))
    assert np.shape(total.noisy("laplace", 1.0)) == shape[1:]


def test_merging_and_equality():
    x = np.random.default_rng(1).standard_normal((100, 4))
    whole, parts = clipped_sum(x, 1.0), [clipped_sum(x[i : i + 7], 1.0) for i in range(0, 100, 7)]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged + part
    assert merged == whole
    assert hash(merged) == hash(whole)
    assert pickle.loads(pickle.dumps(whole)) == whole
    assert whole != clipped_sum(x[:-1], 1.0)
    assert whole != clipped_sum(x, 1.5)
    assert whole != 3
    with pytest.raises(ValueError, match="read-only"):
        merged.high[0] = 1.0
    for other in (clipped_sum(x, 1.5), clipped_sum(x[:, :3], 1.0), clipped_sum(x[:, 0], 1.0), clamped_sum(x, 0, 1)):
        with pytest.raises(ParameterError, match="equal bounds, grids and shapes"):
            whole + other
    with pytest.raises(TypeError):
        whole + 1


def test_a_merged_sum_has_a_largest_count():
    total = clipped_sum([1.0], 1.0)
    for _ in range(53):
        total = total + total
    assert total.integers == 2**103
    with pytest.raises(ParameterError, match=r"at most 2\*\*53 records"):
        total + clipped_sum([1.0], 1.0)


@pytest.mark.parametrize("radius", [0, -1.0, np.nan, np.inf, 2.0**-901, 2.0**901])
def test_a_radius_outside_its_range(radius):
    with pytest.raises(ParameterError, match="radius must be in"):
        clipped_sum([1.0], radius)


@pytest.mark.parametrize("radius", [True, "1", None, 1j, [1.0]])
def test_a_radius_that_is_no_number(radius):
    with pytest.raises(ParameterTypeError, match="radius must be a real number"):
        clipped_sum([np.nan], radius)


def test_wrong_bounds():
    for lower, upper in ((1, 1), (2, 1)):
        with pytest.raises(ParameterError, match="lower must be below upper"):
            clamped_sum([1.0], lower, upper)
    with pytest.raises(ParameterError, match="magnitude of at least"):
        clamped_sum([1.0], 0, 2.0**-901)
    with pytest.raises(ParameterError, match="multiple of the grid"):
        clamped_sum([1.0], np.nextafter(1, 2), np.nextafter(1, 2) + 2.0**-52)
    with pytest.raises(ParameterError, match="lower must be in"):
        clamped_sum([1.0], -np.inf, 0)
    with pytest.raises(ParameterError, match="upper must be in"):
        clamped_sum([1.0], 0, np.nan)


@pytest.mark.parametrize(
    "x",
    [
        3.0,
        np.zeros((2, 2, 2)),
        np.array([1 + 1j]),
        np.array([True]),
        np.array([None]),
        np.ma.array([1.0], mask=[1]),
        np.array([1.0], ">f8"),
        "a",
    ],
    ids=repr,
)
def test_arrays_that_are_none(x):
    with pytest.raises(ParameterTypeError, match="records must"):
        clipped_sum(x, 1.0)


def test_threads_are_checked():
    for threads in (0, 4097):
        with pytest.raises(ParameterError, match="threads"):
            clipped_sum([1.0], 1.0, threads=threads)
        with pytest.raises(ParameterError, match="threads"):
            clipped_sum([1.0], 1.0).noisy("laplace", 1.0, threads=threads)


def test_data_are_not_in_messages():
    with pytest.raises(DataError) as caught:
        clipped_sum([41.25, np.nan], 1.0)
    assert str(caught.value) == "records must not hold NaN; the number at index 1 is NaN"


def test_noise_arguments():
    total = clipped_sum([[1.0, 2.0]], 1.0)
    with pytest.raises(ParameterError, match="noise must be"):
        total.noisy("discrete_laplace", 1.0)
    for scale in (0.0, np.inf, -1.0, [1.0, np.nan]):
        with pytest.raises(ParameterError, match="scale must be in"):
            total.noisy("gaussian", scale)
    with pytest.raises(ParameterError, match="broadcast"):
        total.noisy("gaussian", [1.0, 2.0, 3.0])
    with pytest.raises(ParameterTypeError, match="rng must be"):
        total.noisy("gaussian", 1.0, rng=np.random.default_rng())
    with pytest.raises(ParameterError, match="relation must be"):
        total.sensitivity("both")


def test_noise_is_drawn_once_for_each_call():
    total, rng = clipped_sum([[1.0, 2.0]], 1.0), KeyedRandom(bytes(32))
    first, second = total.noisy("laplace", 1.0, rng=rng), total.noisy("laplace", 1.0, rng=rng)
    assert np.array_equal(first, total.noisy("laplace", 1.0, rng=KeyedRandom(bytes(32))))
    assert not np.array_equal(first, second)
    assert not np.array_equal(total.noisy("laplace", 1.0), total.noisy("laplace", 1.0))


def test_grid_of():
    assert [grid_of(bound) for bound in (1.0, 1.99, 2.0, 2.0**-900)] == [2.0**-50, 2.0**-50, 2.0**-49, 2.0**-950]
    with pytest.raises(ParameterError, match="bound"):
        grid_of(0.0)


@on_x86_linux
@pytest.mark.parametrize("direction", X86_ROUNDING)
def test_rounded_sums_are_the_same_in_every_direction_of_rounding(direction):
    total = clipped_sum(np.random.default_rng(5).normal(size=(400, 30)), 0.3)
    values, sensitivity = total.rounded()
    with environment(rounding(X86_ROUNDING[direction])):
        others, other = total.rounded()
    assert other.hex() == sensitivity.hex()
    assert others.tobytes() == values.tobytes()
    coarse = math.ldexp(total.grid, (400 * int(total.radius / total.grid)).bit_length() - 53)
    assert coarse > total.grid
    assert (values / coarse % 1 == 0).all()
