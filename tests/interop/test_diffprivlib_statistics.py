"""Statistics of diffprivlib's tools and models with dpcore beneath: no record moves them further than the sensitivity of their noise.

Distances are computed in rationals. The twins that are rejected are float sums: `np.sum` and `np.mean`, as diffprivlib computes them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple, Self

import diffprivlib.mechanisms as peer
import numpy as np
import pytest
from diffprivlib import models, tools
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcore.interop import diffprivlib as backend
from support.laws import ERROR_RATE, p_value


@pytest.fixture
def served() -> Iterator[None]:
    """dpcore beneath diffprivlib, arrays included."""
    with backend.install(vectorise=True):
        yield


def exactly(number: Any) -> Fraction:
    return Fraction(int(number)) if isinstance(number, int | np.integer) else Fraction(float(number))


class Release(NamedTuple):
    """One number that got noise."""

    epsilon: float
    sensitivity: Fraction
    value: Fraction


class Recorder:
    """What mechanisms get while an `epsilon` is spent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[Release] = []
        self._patch = monkeypatch

    def note(self, mechanism: Any, *parts: Any) -> None:
        values = sum((np.frompyfunc(exactly, 1, 1)(np.ravel(part)) for part in parts), np.zeros(1, object))
        self.seen += [Release(mechanism.epsilon, exactly(mechanism.sensitivity), value) for value in values]

    def __enter__(self) -> Self:
        def noting(original: Any) -> Any:
            def noted(mechanism: Any, *values: Any) -> Any:
                self.note(mechanism, *values)
                return original(mechanism, *values)

            return noted

        from dpcore.interop.diffprivlib import _bounded, _numbers

        places = [(_numbers, "exact_sums"), (_numbers, "whole_sums"), (_bounded, "domain_sums")]
        classes = [peer.LaplaceTruncated, peer.LaplaceBoundedDomain, peer.GeometricTruncated]
        for owner, name in [*(place for place in places if hasattr(*place)), *((each, "randomise") for each in classes)]:
            self._patch.setattr(owner, name, noting(getattr(owner, name)))
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def spent(name: str, one: Any, other: Any, epsilon: float, vectorise: bool, **options: Any) -> Fraction:
    """What two arrays beside each other lose, as the distances and sensitivities say: each release d·ᵋ/Δ."""
    found = []
    with backend.install(vectorise=vectorise), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for array in (one, other):
            with Recorder(pytest.MonkeyPatch()) as recorder:
                getattr(tools, name)(array, epsilon=epsilon, **options)
            found.append(recorder.seen)
    assert len(found[0]) == len(found[1])  # none where the bounds leave nothing to tell
    total = Fraction(0)
    for first, second in zip(*found, strict=True):
        assert first[:2] == second[:2], "noise must not depend on records"
        if moved := abs(first.value - second.value):
            total += moved * Fraction(first.epsilon) / first.sensitivity
    return total


FUNCTIONS = ["mean", "nanmean", "var", "nanvar", "std", "nanstd", "sum", "nansum"]


@cache
def far_from_zero(dtype: Any) -> tuple[Any, Any, tuple[float, float]]:
    """Neighbours within bounds of width 1, whose sums as floats of this type are furthest apart of many: their terms are large beside 1."""
    base, n = {np.float16: (256.0, 101), np.float32: (2.0**18, 1001), np.float64: (2.0**45, 1001)}[dtype]
    worst: tuple[Fraction, Any, Any] = (Fraction(-1), None, None)
    for seed in range(20):
        one = (base + np.random.default_rng(seed).random(n)).astype(dtype)
        for row in range(n):
            other = one.copy()
            other[row] = base + (one[row] == base)
            moved = abs(exactly(np.sum(one, dtype=dtype)) - exactly(np.sum(other, dtype=dtype)))
            worst = max(worst, (moved, one, other), key=lambda each: each[0])
    return worst[1], worst[2], (base, base + 1)


@pytest.mark.parametrize("vectorise", [False, True])
@pytest.mark.parametrize("accumulator", [None, np.float16, np.float32, np.float64, np.longdouble, int], ids=str)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_sums_of_floats_hold_their_sensitivity(name: str, dtype: Any, accumulator: Any, vectorise: bool) -> None:
    one, other, bounds = far_from_zero(dtype)
    for axis in (None, 0):
        assert spent(name, one, other, 1.0, vectorise, bounds=bounds, dtype=accumulator, axis=axis) <= 1


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_sums_and_means_in_floats_are_rejected(dtype: Any) -> None:
    one, other, (lower, upper) = far_from_zero(dtype)
    for add in (np.sum, lambda x, dtype: np.mean(x, dtype=dtype) * len(x)):
        assert abs(exactly(add(one, dtype=dtype)) - exactly(add(other, dtype=dtype))) > Fraction(upper) - Fraction(lower)


def test_a_mean_of_float32_moves_no_further_than_its_noise_allows(served: None) -> None:
    """`dtype=float32`: these neighbours were many sensitivities apart before the noise."""
    one, other, bounds = far_from_zero(np.float32)
    apart = abs(exactly(np.mean(one)) - exactly(np.mean(other))) / (Fraction(bounds[1] - bounds[0]) / len(one))
    assert apart > 8
    assert spent("mean", one, other, 1.0, True, bounds=bounds, dtype=np.float32) <= 1


RECORDS = st.one_of(
    st.floats(-10, 10, width=16), st.sampled_from([math.inf, -math.inf, 1e300, -1e300, 5e-324, 0.1, 1 / 3, 3.0, -2.5, 2.0**53 + 2]),
    st.floats(2.9, 3.1),
)  # fmt: skip
DTYPES = ["float64", "float32", "float16", "int64", "uint8", "bool", "object", "longdouble", "list", ">f8", ">i4", "uint64", ">u8"]
WIDTHS = [(0.0, 1.0), (-1.0, 1.0), (2.9, 3.1), (1e6, 1e6 + 1), (-1e-200, 3e-200), (-5, 11), (0.1, 0.1), (-1e150, 1e100), (3.0, 7.0)]


def as_type(records: list[float], dtype: str) -> Any:
    if dtype == "list":
        return records
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.array(records).astype(dtype)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    name=st.sampled_from(FUNCTIONS), records=st.lists(RECORDS, min_size=1, max_size=12), place=st.integers(0, 11),
    another=st.one_of(RECORDS, st.just(math.nan)), holes=st.lists(st.integers(0, 11), max_size=4), dtype=st.sampled_from(DTYPES),
    accumulator=st.sampled_from([None, None, np.float32, np.float16, int, np.int8, np.uint16]), bounds=st.sampled_from(WIDTHS),
    vectorise=st.booleans(), axis=st.sampled_from([None, 0]),
)  # fmt: skip
def test_no_statistic_moves_further_than_its_noise_allows(
    name: str, records: list[float], place: int, another: float, holes: list[int], dtype: str, accumulator: Any,
    bounds: tuple[float, float], vectorise: bool, axis: Any,
) -> None:  # fmt: skip
    """A record gets another value, or in the functions for NaN appears or goes: what is lost is at most ε, in rationals."""
    if np.dtype(accumulator or float).kind in "iu" and not 0 <= bounds[0] < bounds[1] < 100:
        bounds = (0, 7)
    place %= len(records)
    if name.startswith("nan"):
        records = [math.nan if row in holes else each for row, each in enumerate(records)]
    elif math.isnan(another):
        another = 0.5
    one, other = (as_type([*records[:place], each, *records[place + 1 :]], dtype) for each in (records[place], another))
    if not name.startswith("nan") and dtype != "list" and any(np.isnan(np.asarray(each, float)).any() for each in (one, other)):
        return
    assert spent(name, one, other, 1.0, vectorise, bounds=bounds, dtype=accumulator, axis=axis) <= 1


def test_a_twin_that_counts_records_of_private_number_as_all_is_rejected() -> None:
    """`nanmean` without dpcore: one of a thousand records is there, and moves the mean by the whole width at a sensitivity of 1/1000."""
    one, other = np.full(1000, np.nan), np.full(1000, np.nan)
    one[0], other[0] = 0.0, 1.0
    assert np.nanmean(other) - np.nanmean(one) > (1 - 0) / 1000
    assert spent("nanmean", one, other, 1.0, False, bounds=(0.0, 1.0)) <= 1


@pytest.mark.parametrize("dtype", ["<i1", "<i4", "<i8", "<u8", "|b1", ">i4", ">i8", ">u8"])
def test_sums_of_integers_do_not_wrap(dtype: str, served: None) -> None:
    one = np.ones(300, dtype)
    found = tools.sum(one, epsilon=math.inf, bounds=(0, 1), dtype=np.int8)
    assert found == 300
    assert isinstance(found, int)
    large = np.full(9, np.iinfo(dtype).max if dtype != "|b1" else 1, dtype)
    top = int(large[0])
    found = tools.sum(large, epsilon=math.inf, bounds=(0, min(top, 2**63 - 1)), dtype=np.int64)
    assert found == min(9 * top, 2**63 - 1)
    assert tools.sum(large, epsilon=math.inf, bounds=(0, 10), dtype=int) == 9 * min(top, 10)
    for name in ("mean", "nanmean"):
        assert getattr(tools, name)(large, epsilon=1e9, bounds=(0.0, 10.0)) == pytest.approx(min(top, 10), abs=1e-6)


@pytest.mark.parametrize("dtype", ["<u8", ">u8", "<i8", ">i8"])
def test_integers_of_64_bits_are_added_as_they_are(dtype: str, served: None) -> None:
    odd = np.full(7, 2**53 + 1, dtype)
    assert tools.sum(odd, epsilon=math.inf, bounds=(0, 2**54), dtype=int) == 7 * (2**53 + 1)


def test_masked_arrays_are_refused(served: None) -> None:
    masked = np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0])
    for name in FUNCTIONS:
        for array in (masked, [masked, masked]):
            with pytest.raises(TypeError, match="must not be a masked array"):
                getattr(tools, name)(array, bounds=(0, 3))


@pytest.mark.parametrize("array", [np.array([1j, 2]), np.array(["1", "2"]), np.array(["2020-01-01"], "datetime64[D]")], ids=str)
def test_what_is_no_number_is_refused(array: Any, served: None) -> None:
    with pytest.raises(TypeError, match="array must hold real numbers"):
        tools.mean(array, bounds=(0, 3))


def test_how_an_object_is_read_depends_on_nothing_else(served: None) -> None:
    from dpcore.interop.diffprivlib._records import records

    cells = [1, 2.5, 2**70, -(10**400), Fraction(1, 3), Decimal("1e-3"), Decimal("sNaN"), "7", None, np.float32(0.1), True, b"1", 2**53 + 1]
    objects = np.empty(len(cells), object)
    objects[:] = cells
    for whole in (False, True):
        together = records(objects, whole=whole)
        for place, cell in enumerate(cells):
            for alone in (objects[place : place + 1], [cell], (cell,)):
                assert np.array_equal(records(alone, whole=whole), together[place : place + 1], equal_nan=True), (cell, whole)


# Containers whose cells would decide their type: one odd cell moves nothing but itself

_BORDER = 2**53
ODD = [float(_BORDER), 2**64, -(2**70), Decimal(_BORDER), Fraction(1, 3), math.nan, None, "a", b"a", 1j, np.datetime64("2020"), True]


@pytest.mark.parametrize("vectorise", [False, True])
@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_one_cell_of_a_list_changes_how_no_other_is_read(odd: Any, vectorise: bool) -> None:
    """The other cells are those that float64 lacks, whole numbers at an edge, and zeros."""
    plain: dict[str, Callable[[Any], Any]] = {
        "sum": lambda odd: tools.sum([_BORDER + 1] * 50 + [odd], epsilon=1e9, bounds=(_BORDER, _BORDER + 2), dtype=int),
        "count_nonzero": lambda odd: tools.count_nonzero([0] * 50 + [odd], epsilon=1e9),
        "histogram": lambda odd: tools.histogram(
            [_BORDER + 1] * 50 + [odd], epsilon=1e9, bins=[_BORDER, _BORDER + 1, _BORDER + 2], range=(_BORDER, _BORDER + 2)
        )[0][0],
        "histogramdd": lambda odd: tools.histogram2d(
            [_BORDER + 1] * 50 + [odd], [0] * 51, epsilon=1e9, bins=[[_BORDER, _BORDER + 1, _BORDER + 2], [0, 1]], range=[[0, 1]] * 2
        )[0][0, 0],
    }
    with backend.install(vectorise=vectorise):
        for name in ("sum", "count_nonzero", "histogram", "histogramdd"):
            assert abs(int(plain[name](odd)) - int(plain[name](_BORDER if name != "count_nonzero" else 0))) <= 2, name
        along = [tools.mean([[1, 2], [2, cell]], epsilon=1e9, bounds=(0, 5), axis=0) for cell in (3, odd)]
        assert along[0].dtype == along[1].dtype
        assert abs(along[0][0] - along[1][0]) < 1e-6


# Noise of the functions for NaN


def test_the_noise_of_a_nanmean_has_its_law(served: None) -> None:
    """About the middle nothing follows from the noisy number of records: what is left is Laplace noise of the width over n·ε."""
    cells, n = 20_000, 50
    table = np.full((n, cells), 3.0)
    found = tools.nanmean(table, epsilon=float(cells), bounds=(0.0, 6.0), axis=0, random_state=1)
    edges = np.linspace(2.4, 3.6, 30) + 1e-6
    seen = np.bincount(np.searchsorted(edges, found), minlength=31)
    # a number of records m ≤ n that was cut at n is n with probability 1/(1 + e^(−1/2)); then W/m stretches the noise a little
    r = math.exp(-0.5)
    masses = [(1 - r) / (1 + r) * r**k for k in range(n - 1)]
    weights = {n: 1 - sum(masses[1:]) - r ** (n - 1) / (1 + r), **{n - k: masses[k] for k in range(1, n - 1)}, 1: r ** (n - 1) / (1 + r)}

    def law(scale: float) -> Any:
        below = np.zeros(len(edges))
        for m, weight in weights.items():
            b = scale / m
            part = np.where(edges < 3, 0.5 * np.exp((edges - 3) / b), 1 - 0.5 * np.exp((3 - edges) / b))
            below += weight * part
        return np.diff(np.concatenate([[0], below, [1]]))

    assert p_value(seen, law(6.0)) > ERROR_RATE
    assert p_value(seen, law(5.4)) < ERROR_RATE


def test_statistics_with_missing_records_find_the_truth(served: None) -> None:
    generator = np.random.default_rng(3)
    table = generator.uniform(10, 20, 100_000)
    table[generator.random(table.size) < 0.3] = np.nan
    for name in ("nanmean", "nanvar", "nanstd"):
        found = getattr(tools, name)(table, epsilon=1.0, bounds=(10, 20), random_state=1)
        assert found == pytest.approx(getattr(np, name)(table), abs=0.02)
    everything = np.full(20, np.nan)
    assert tools.nanmean(everything, epsilon=math.inf, bounds=(10, 20)) == 15
    assert 0 <= tools.nanvar(everything, epsilon=math.inf, bounds=(10, 20)) <= 25


# Models


@pytest.mark.parametrize("name", ["GaussianNB", "KMeans", "LinearRegression", "PCA"])
def test_models_add_up_in_float64(name: str) -> None:
    """Records of float32 far from 0: the noise-free statistics are those of float64, where float32 was several sensitivities away."""
    generator = np.random.default_rng(7)
    x = (generator.random((3000, 2)) + np.array([4096.0, 0.0])).astype(np.float32)
    y = (np.arange(3000) % 2).astype(np.int64)
    made: dict[str, Callable[[Any], Any]] = {
        "GaussianNB": lambda x: models.GaussianNB(epsilon=1e9, bounds=([4096, 0], [4097, 1]), random_state=1).fit(x, y).theta_,
        "KMeans": lambda x: models.KMeans(1, epsilon=1e9, bounds=([4096, 0], [4097, 1]), random_state=1).fit(x).cluster_centers_,
        "LinearRegression": lambda x: models.LinearRegression(
            epsilon=1e12, fit_intercept=False, bounds_X=([4096, 0], [4097, 1]), bounds_y=(0, 1), random_state=1
        ).fit(x, y)._obj_coefs[2],
        "PCA": lambda x: models.PCA(
            2, epsilon=1e12, centered=True, data_norm=5000.0, random_state=1
        ).fit(x).singular_values_,
    }  # fmt: skip
    with backend.install(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        narrow, wide = made[name](x.copy()), made[name](x.astype(np.float64))
    assert np.allclose(narrow, wide, rtol=1e-9)
