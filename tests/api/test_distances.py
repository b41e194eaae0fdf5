"""No conversion before the noise moves two values apart: every type of single values is served exactly, or refused."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from dpcore import mechanisms, noise, selection
from dpcore.errors import ParameterTypeError
from support.distances import DRAWS, NUMPY, PYTHON, keeps_distance, neighbours

REALS = {float, np.float16, np.float32, np.float64}
WHOLE = {np.int8, np.int16, np.int32, np.int64, np.longlong, np.uint8, np.uint16, np.uint32}
SERVED = REALS | WHOLE
REFUSED = {
    bool, complex, Fraction, Decimal,
    np.bool_, np.uint64, np.ulonglong, np.longdouble, np.complex64, np.complex128, np.clongdouble, np.str_, np.bytes_, np.void,
    np.datetime64, np.timedelta64,
}  # fmt: skip
"""`int` is in neither list: up to int64 it is served, and beyond it refused."""
FORMS = {
    "number": lambda v: v,
    "list": lambda v: [v] * DRAWS,
    "array": lambda v: np.full(DRAWS, v),
    "column": lambda v: np.full((DRAWS, 1), v),
}


def samples(values, scale):
    """Enough noisy numbers of a number, a list or an array."""
    if np.ndim(values):
        return noise.laplace(values, scale)
    return [noise.laplace(values, scale) for _ in range(DRAWS)]


def test_every_type_of_single_values_is_in_a_list():
    assert {*PYTHON, *NUMPY} == SERVED | REFUSED | {int}
    assert not SERVED & REFUSED


@pytest.mark.some(5)
@pytest.mark.parametrize("form", ["list", "array", "column"])
@pytest.mark.parametrize("kind", sorted(SERVED, key=str))
def test_neighbours_of_a_served_type_keep_their_distance(kind, form):
    for v, w in neighbours(kind):
        assert keeps_distance(lambda value, scale: samples(FORMS[form](value), scale), v, w)


@pytest.mark.long
def test_single_numbers_keep_their_distance():
    for v, w in [*neighbours(np.int64)[::3], *neighbours(np.float16)]:
        assert keeps_distance(samples, v, w)
        assert keeps_distance(samples, *(each.item() for each in (v, w)))


@pytest.mark.parametrize("kind", sorted((kind for kind in SERVED | {int} if issubclass(kind, int | np.integer)), key=str))
def test_a_twin_that_rounds_first_is_rejected(kind):
    def rounded(value, scale):
        return noise.laplace(np.full(DRAWS, float(value)), scale)

    wide = [pair for pair in neighbours(kind) if max(map(abs, map(int, pair))) > 2**53]
    assert bool(wide) != all(keeps_distance(rounded, v, w) for v, w in wide)


def test_integers_beyond_64_bits_are_refused_and_smaller_ones_exact():
    for v, w in neighbours(int):
        if all(-(2**63) <= each < 2**63 for each in (v, w)):
            for form in ("list", "array"):
                assert keeps_distance(lambda value, scale, form=form: samples(FORMS[form](value), scale), v, w)
        for each in (v, w):
            if not -(2**63) <= each < 2**63:
                for form in FORMS.values():
                    with pytest.raises(ParameterTypeError):
                        noise.laplace(form(each), 1.0)


@pytest.mark.some(26)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", sorted(REFUSED, key=str))
def test_a_refused_type_is_refused_in_every_form(kind, form):
    made = {np.datetime64: np.datetime64("2026-01-01"), np.timedelta64: np.timedelta64(1, "D"), np.void: np.void(b"1")}
    value = made[kind] if kind in made else kind(1)
    for call in (
        lambda data: noise.laplace(data, 1.0),
        lambda data: noise.discrete_laplace(data, 1.0),
        lambda data: mechanisms.Laplace(1.0, 1.0).release(data),
        lambda data: mechanisms.DiscreteGaussian(1.0, 1e-6, 1).release(data),
        lambda data: selection.noisy_argmax(data, 1.0, 1.0),
    ):
        with pytest.raises(ParameterTypeError):
            call(FORMS[form](value))


def tables():
    """Tables of several libraries in which integers of 64 bits or decimals stand beside floats, which one array holds as floats."""
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    for kind in ("int64", "uint64", "Int64", "int64[pyarrow]"):
        yield lambda v, kind=kind: pd.DataFrame({"a": pd.Series([v], dtype=kind), "b": [0.5]})
    yield lambda v: pd.DataFrame({"a": pd.arrays.SparseArray([v], dtype="Sparse[int64]"), "b": [0.5]})
    yield lambda v: pl.DataFrame({"a": [v], "b": [0.5]})
    yield lambda v: pl.DataFrame({"a": [v], "b": [1]}, schema={"a": pl.Int64, "b": pl.UInt64})
    yield lambda v: pa.table({"a": [v], "b": [0.5]})
    yield lambda v: pa.record_batch({"a": [v], "b": [0.5]})


def test_integers_beside_floats_in_a_table_are_refused_whatever_they_are():
    for table in tables():
        for value in (1, 2**53 + 1):
            with pytest.raises(ParameterTypeError, match=r"columns|object"):
                noise.laplace(table(value), 1.0)


def test_tables_whose_columns_one_array_holds_exactly_are_served():
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    columns = {"a": np.arange(3, dtype=np.int32), "b": np.array([0.5, 1.5, 2.5]), "c": np.ones(3, np.float32), "d": np.ones(3, np.uint16)}
    for make in (pd.DataFrame, pl.DataFrame, pa.table):
        assert np.shape(noise.laplace(make(columns), 1.0)) == (3, 4)
        assert np.shape(noise.laplace(make({"a": [1, 2**53 + 1], "b": [3, 4]}), 1.0)) == (2, 2)


@pytest.mark.parametrize("kind", ["float64", "float32", "float16"])
def test_sparse_columns_beside_floats_are_served_if_their_numbers_are(kind):
    pd = pytest.importorskip("pandas")
    sparse = pd.DataFrame({"a": pd.arrays.SparseArray(np.array([0, 1, 2], kind)), "b": pd.arrays.SparseArray([0.0, 1.5, 0.0])})
    assert np.shape(noise.laplace(sparse, 1.0)) == (3, 2)


@pytest.mark.parametrize("form", [lambda each: each, lambda each: [each, 1.0], lambda each: [[each], [2.0]]])
def test_no_memory_is_not_a_wrong_argument(form):
    class Large:
        def __array__(self, dtype=None, copy=None):
            raise MemoryError

    with pytest.raises(MemoryError):
        noise.laplace(form(Large()), 1.0)
    with pytest.raises(MemoryError):
        noise.laplace([1.0], form(Large()))


def test_a_conversion_that_fails_in_its_own_way_is_refused():
    class Unreadable:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("918273.25")

    with pytest.raises(ParameterTypeError) as caught:
        noise.laplace(Unreadable(), 1.0)
    assert "918273" not in str(caught.value)
