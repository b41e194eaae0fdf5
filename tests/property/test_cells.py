"""Cells of records: a slow twin, relations, and points that fall into their own cell again."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore import ParameterError
from dpcore.distributions._boxes import Box
from dpcore.distributions._cells import Cells
from dpcore.testing import KeyedRandom

ENDS = [(0.0, 1.0), (-1.0, 1.0), (-3.7, 11.1), (1e6, 1e6 + 1), (-1e-270, 3e-270), (-(2.0**899), 2.0**899), (0.1, 0.3), (5.0, 5.5)]


def rng():
    return KeyedRandom(bytes(32)).at(3)


def slow_codes(x, cells):
    """One record and one axis at a time, in Python's floats."""
    codes = []
    for record in np.asarray(x, np.float64).reshape(len(x), -1).tolist():
        code = 0
        for value, low, high, b in zip(record, cells.box.low, cells.box.high, cells.shape, strict=True):
            unit = (min(max(value, low), high) - low) / (high - low)
            code = code * b + min(math.floor(unit * b), b - 1)
        codes.append(code)
    return np.array(codes)


def awkward(n, low, high, seed):
    """Records inside, outside, at the bounds, and near the edges of bins."""
    random = np.random.default_rng(seed)
    x = low + random.random(n) * (high - low)
    x[random.random(n) < 0.1] = low
    x[random.random(n) < 0.1] = high
    x[random.random(n) < 0.05] = np.inf
    x[random.random(n) < 0.05] = -np.inf
    near = random.random(n) < 0.3
    x[near] = np.nextafter(
        low + np.round((x[near].clip(low, high) - low) / (high - low) * 6) / 6 * (high - low), random.choice([-np.inf, np.inf])
    )
    return x


@pytest.mark.parametrize("ends", ENDS, ids=str)
@pytest.mark.parametrize("bins", [1, 2, 6, 7, 1000])
def test_codes_are_those_of_the_slow_twin(ends, bins):
    cells = Cells.of(bins, Box.of(ends, 1))
    x = awkward(2000, *ends, bins)
    assert np.array_equal(cells.codes(x), slow_codes(x, cells))
    assert np.array_equal(cells.codes(x[:, None]), slow_codes(x, cells))
    assert np.array_equal(cells.counts(x), np.bincount(slow_codes(x, cells), minlength=bins))


@pytest.mark.parametrize(("bins", "shape"), [(64, (8, 8)), ((3, 5), (3, 5)), ((1, 7), (1, 7)), ((4, 1), (4, 1))])
def test_codes_of_pairs(bins, shape):
    box = Box.of(((-2.0, 10.0), (1.0, 70.0)))
    cells = Cells.of(bins, box)
    x = np.stack([awkward(3000, -2.0, 1.0, 1), awkward(3000, 10.0, 70.0, 2)], axis=1)
    assert (cells.shape, cells.m) == (shape, math.prod(shape))
    assert cells.volume == pytest.approx(180 / cells.m)
    for strided in (x, np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2], x[::-1][::-1]):
        assert np.array_equal(cells.codes(strided), slow_codes(x, cells))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int8", "uint8", "uint32"])
def test_other_dtypes_are_binned_by_their_values(dtype):
    x = np.arange(0, 120).astype(dtype)
    cells = Cells.of(7, Box.of((10.1, 99.7), 1))
    assert np.array_equal(cells.codes(x), slow_codes(x, cells))


def test_counts_do_not_depend_on_threads_or_blocks():
    x = np.random.default_rng(1).beta(2, 5, (1_300_001, 2))
    for bins in ((1, 1), (20, 30), (700, 700)):
        cells = Cells.of(bins, Box.of((0, 1), 2))
        counts = cells.counts(x, threads=1)
        assert np.array_equal(counts, np.bincount(cells.codes(x), minlength=cells.m))
        assert np.array_equal(counts, cells.counts(x, threads=3))
        assert np.array_equal(counts, cells.counts(x[:400_000]) + cells.counts(x[400_000:]))


def test_data_are_not_copied():
    x = np.random.default_rng(1).random(4_000_000)  # 32 MB
    cells = Cells.of(1000, Box.of((-1.0, 2.0), 1))
    cells.counts(x, threads=2)
    tracemalloc.start()
    cells.counts(x, threads=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000


@given(
    st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)),
    st.integers(1, 5000),
    st.lists(st.floats(allow_nan=False), min_size=2, max_size=30),
)
def test_cells_do_not_fall_as_records_rise(ends, bins, values):
    low, width = ends
    try:
        cells = Cells.of(bins, Box.of((low, low + width), 1))
    except ParameterError:
        return  # cells of a few units in the last place
    codes = cells.codes(np.sort(np.array(values)))
    assert (np.diff(codes) >= 0).all()
    assert ((codes >= 0) & (codes < bins)).all()


@pytest.mark.parametrize("ends", ENDS, ids=str)
@pytest.mark.parametrize("bins", [1, 3, 1000, 2**20 + 7])
def test_points_fall_into_their_own_cell(ends, bins):
    try:
        cells = Cells.of(bins, Box.of(ends, 1))
    except ParameterError:
        assert ends == (1e6, 1e6 + 1)
        return
    codes = np.concatenate([np.arange(min(bins, 5000)), np.full(20, bins - 1)])
    points = cells.places(codes, rng=rng())
    assert np.array_equal(cells.codes(points), codes)
    assert ((points >= ends[0]) & (points <= ends[1])).all()
    assert len(np.unique(points)) == len(points)


@pytest.mark.parametrize("ends", ENDS, ids=str)
@pytest.mark.parametrize("bins", [3, 1000, 49_999])
def test_points_at_the_ends_of_a_bin_are_brought_back(ends, bins):
    """Offsets that no run would meet: 0, and the largest below 1."""
    cells = Cells.of(bins, Box.of(ends, 1)) if bins < 49_999 or ends[0] != 1e6 else Cells.of(bins, Box.of((1e3, 1e3 + 1), 1))
    codes = np.arange(bins)
    plain_is_wrong = 0
    for offset in (0.0, 2.0**-53, 1 - 2.0**-53):
        points = cells._axis_places(codes, np.full(bins, offset), 0)
        assert np.array_equal(cells.codes(points), codes)
        plain_is_wrong += int((cells.codes(cells._axis_points(codes, np.full(bins, offset), 0)) != codes).sum())
    assert plain_is_wrong > 0  # without the step back it would not hold


def test_points_of_pairs_fall_into_their_own_cell():
    cells = Cells.of((30, 50), Box.of(((0, -7), (1, 20))))
    codes = np.tile(np.arange(1500), 20)
    points = cells.places(codes, rng=rng())
    assert points.shape == (30_000, 2)
    assert np.array_equal(cells.codes(points), codes)


@pytest.mark.parametrize("ends", ENDS, ids=str)
def test_units_and_back(ends):
    box = Box.of(ends, 1)
    x = np.linspace(*ends, 1001)
    unit = box.to_unit(x)
    assert unit.shape == (1001, 1)
    assert (unit[0], unit[-1]) == (0.0, 1.0)
    assert np.allclose(box.from_unit(unit), x, rtol=1e-14, atol=1e-15 * (ends[1] - ends[0]))
    assert np.array_equal(box.to_unit(np.array([-np.inf, np.inf]))[:, 0], [0.0, 1.0])


@pytest.mark.long
def test_a_hundred_million_records_in_two_million_cells():
    x = np.tile(np.arange(250, dtype=np.uint8), 400_000).reshape(-1, 2)
    cells = Cells.of((2**11, 2**10), Box.of((0, 249.5), 2))
    once = cells.counts(x[:125])
    tracemalloc.start()
    counts = cells.counts(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(counts, 400_000 * once)
    assert peak < 12 * 8 * cells.m


def test_what_cells_refuse():
    cells = Cells.of((4, 4), Box.of((0, 1), 2))
    for wrong in ([0.5], np.zeros((3, 3)), 0.5):
        for ask in (cells.codes, cells.counts, cells.box.to_unit):
            with pytest.raises(ParameterError, match=r"records must have shape \(n, 2\), got"):
                ask(wrong)
    for codes in ([16], [0, -1]):
        with pytest.raises(ParameterError, match=r"codes must be in \[0, 16\)"):
            cells.places(codes)
    with pytest.raises(ParameterError, match=r"codes must have shape \(q,\)"):
        cells.places([[1]])
    with pytest.raises(ParameterError, match="threads must be in"):
        cells.codes([[0.5, 0.5]], threads=0)
    assert cells.places(np.zeros(0, np.int64)).shape == (0, 2)
    assert cells.codes(np.zeros((0, 2))).shape == (0,)
    assert cells.counts(np.zeros((0, 2))).sum() == 0
