"""Mechanisms on pandas 2.2 and 3.1: dtypes of every sort, the index, missing values and memory."""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import threading

import numpy as np
import pytest

pd = pytest.importorskip("pandas", reason="make test-interop PEER=pandas22")
pa = pytest.importorskip("pyarrow", reason="make test-interop PEER=pandas22")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from dpcore import local, mechanisms  # noqa: E402
from dpcore.errors import DataError, ParameterError, ParameterTypeError, UntestedVersionWarning  # noqa: E402
from dpcore.interop import pandas as dp  # noqa: E402
from dpcore.testing import KeyedRandom  # noqa: E402
from support.columns import BITS, CODED, FLOATS, INTEGERS, LABELLED, LABELS, MECHANISMS, NUMPY, REALS, WHOLES, Case, cases, same  # noqa: E402
from support.jobs import KEY  # noqa: E402
from support.kernels import Law  # noqa: E402
from support.laws import ERROR_RATE, binomial_p_value, count, integers_law, p_value, steps_law  # noqa: E402
from support.versions import only_tested  # noqa: E402

only_tested(dp.PEER, dp.ARROW)

LAPLACE = mechanisms.Laplace(1.0, 1.0)
COUNTS = mechanisms.DiscreteLaplace(1.0, 1)
EXACT = mechanisms.Laplace(1e9, 1.0)
TEXT = MECHANISMS["KaryResponse of labels"]
SECRET = 31337.5
MASKED = {pa.int8(): "Int8", pa.int16(): "Int16", pa.int32(): "Int32", pa.int64(): "Int64", pa.uint8(): "UInt8", pa.uint16(): "UInt16",
          pa.uint32(): "UInt32", pa.uint64(): "UInt64", pa.float32(): "Float32", pa.float64(): "Float64",
          pa.bool_(): "boolean"}  # fmt: skip


def cells_of(series):
    """The cells as a list: None for missing ones."""
    return [None if cell is None or cell is pd.NA or (isinstance(cell, float) and math.isnan(cell)) else cell for cell in series.tolist()]


def as_none(cells):
    return [None if isinstance(cell, float) and math.isnan(cell) else cell for cell in cells]


def one_chunk(case):
    return [[cell for chunk in case.chunks for cell in chunk]]


def expected(case):
    from support.columns import twin

    return as_none(twin(case.name, case.kind, one_chunk(case), case.missing, case.dtype))


def index_of(n):
    return pd.Index([f"row {i}" for i in range(n)], name="rows")


def checked(case, series):
    found = dp.release(series, case.mechanism, missing=case.missing, dtype=case.dtype, rng=KeyedRandom(KEY))
    assert found.index.equals(series.index)
    assert found.name == series.name
    assert same(cells_of(found), expected(case))
    return found


NUMBERS = (*FLOATS, *INTEGERS, pa.bool_())


@given(cases(names=[*REALS, *WHOLES, *BITS, *CODED, "BinaryResponse"], kinds=NUMBERS))
def test_columns_of_numpy(case: Case):
    (cells,) = one_chunk(case)
    if case.kind not in FLOATS and None in cells:
        return
    values = np.array([math.nan if cell is None else cell for cell in cells], NUMPY[case.kind])
    found = checked(case, pd.Series(values, index=index_of(len(values)), name="x"))
    if case.dtype == "column" and case.name in REALS and case.kind in FLOATS:
        assert found.dtype == NUMPY[case.kind]


@given(cases(names=[*REALS, *WHOLES, *BITS, *CODED, "BinaryResponse"], kinds=tuple(MASKED), nan=False))
def test_nullable_columns(case: Case):
    (cells,) = one_chunk(case)
    series = pd.Series(pd.array(cells, dtype=MASKED[case.kind]), index=index_of(len(cells)), name="x")
    found = checked(case, series)
    if case.name not in {"UnaryEncoding", "SubsetSelection", "LocalHashing", "HadamardResponse"}:
        assert found.dtype.na_value is pd.NA
    if case.dtype == "column" and (case.name in {"BinaryResponse", "KaryResponse"} or (case.name in REALS and case.kind in FLOATS)):
        assert found.dtype == series.dtype


@given(cases())
def test_columns_of_arrow(case: Case):
    array = pd.arrays.ArrowExtensionArray(case.cells)
    series = pd.Series(array, index=index_of(len(array)), name="x")
    found = dp.release(series, case.mechanism, missing=case.missing, dtype=case.dtype, rng=KeyedRandom(KEY))
    assert isinstance(found.dtype, pd.ArrowDtype)
    assert same([_plain(cell) for cell in pa.chunked_array(found.array.__arrow_array__()).to_pylist()], case.expected())


def _plain(cell):
    return int(cell) if type(cell).__name__ == "Decimal" else cell


@settings(max_examples=settings.default.max_examples // 2)
@given(cases(names=list(LABELLED), kinds=(pa.large_string(),)), st.sampled_from(["category", "string", "object", "str"]))
def test_columns_of_text(case: Case, dtype):
    (cells,) = one_chunk(case)
    series = pd.Series(cells, dtype=object, index=index_of(len(cells)), name="x").astype("object" if dtype == "object" else dtype)
    if dtype == "str" and pd.__version__ < "3":
        return  # turns None into text
    found = checked(case, series)
    if case.name == "KaryResponse of labels" and case.dtype == "column" and dtype != "category":
        assert found.dtype == series.dtype


def test_categories_are_the_mechanisms():
    full = pd.Series(["a", "b"], dtype=pd.CategoricalDtype(list(reversed(LABELS)), ordered=True))
    assert dp.release(full, TEXT, missing="refuse").dtype == full.dtype
    found = dp.release(pd.Series(["a", "a"], dtype=pd.CategoricalDtype(["a", "left behind"])), TEXT, missing="refuse")
    assert list(found.cat.categories) == list(LABELS)


# Frames


def test_frames_keep_the_index_and_what_is_named():
    index = pd.MultiIndex.from_tuples([("n", 1), ("n", 2), ("s", 1)], names=["region", "year"])
    frame = pd.DataFrame({"sum": [1.0, 2.0, math.nan], "secret": ["x", "y", "z"], "n": [1, 2, 3], "public": ["p", "q", "r"]}, index=index)
    found = dp.release(frame, {"n": COUNTS, "sum": EXACT}, missing={"sum": "keep"}, keep=["public"])
    assert list(found.columns) == ["sum", "n", "public"]
    assert found.index.equals(index)
    assert found["sum"].round(3).tolist()[:2] == [1, 2]
    assert math.isnan(found["sum"].iloc[2])
    assert found["public"].equals(frame["public"])
    assert found["n"].dtype == np.int64


def test_labels_of_columns_may_be_anything_that_pandas_allows():
    numbered = dp.release(pd.DataFrame(np.zeros((2, 3))), {0: EXACT, 2: LAPLACE}, missing=0, keep=[1])
    assert numbered.columns.tolist() == [0, 1, 2]
    assert numbered[1].tolist() == [0, 0]
    people = pd.DataFrame({"region": ["n", "n", "s"], "sex": ["f", "m", "f"], "cost": [1.0, 2.0, 3.0]})
    levels = people.groupby("region").agg({"cost": ["sum", "count"]})
    found = dp.release(levels, {("cost", "sum"): EXACT, ("cost", "count"): COUNTS}, missing="refuse")
    assert found.columns.equals(levels.columns)
    assert found.round(3)[("cost", "sum")].tolist() == [3, 3]
    crossed = pd.crosstab(people["region"], people["sex"])
    found = dp.release(crossed, {"m": COUNTS}, keep=["f"])
    assert found.columns.name == "sex"
    assert found.index.equals(crossed.index)
    assert found["f"].equals(crossed["f"])


def test_subclasses_stay():
    class Frame(pd.DataFrame):
        @property
        def _constructor(self):
            return Frame

    assert type(dp.release(Frame({"x": [1.0]}), {"x": LAPLACE}, missing="refuse")) is Frame


def test_a_repeated_index_stays():
    series = pd.Series([1, 2, 3], index=[7, 7, 7])
    assert list(dp.release(series, COUNTS).index) == [7, 7, 7]


# Memory


def test_numbers_are_read_where_they_are_and_results_are_taken_where_they_are(monkeypatch):
    seen = []
    original = mechanisms.Laplace.release

    def watched(mechanism, values, **options):
        reports = original(mechanism, values, **options)
        seen.append((values.ctypes.data, reports.ctypes.data))
        return reports

    monkeypatch.setattr(mechanisms.Laplace, "release", watched)
    values = np.arange(100.0)
    plain = pd.Series(values, copy=False)
    found = dp.release(plain, LAPLACE, missing=0)
    assert seen[0] == (values.ctypes.data, found.to_numpy().ctypes.data)
    framed = dp.release(pd.DataFrame({"x": plain}, copy=False), {"x": LAPLACE}, missing=0)
    assert seen[1] == (values.ctypes.data, framed["x"].to_numpy().ctypes.data)
    masked = dp.release(pd.Series(pd.arrays.FloatingArray(values, np.zeros(100, np.bool_)), copy=False), LAPLACE, missing="keep")
    assert seen[2] == (values.ctypes.data, masked.to_numpy(copy=False).ctypes.data)
    arrow = pa.chunked_array([values])
    cells = dp.release(pd.Series(pd.arrays.ArrowExtensionArray(arrow)), LAPLACE, missing="keep").array.__arrow_array__()
    assert seen[3] == (values.ctypes.data, pa.chunked_array(cells).chunk(0).buffers()[1].address)
    block = np.arange(20.0).reshape(10, 2)
    dp.release(pd.DataFrame(block, columns=["a", "b"], copy=False), {"b": LAPLACE}, missing=0)
    assert seen[4][0] == block.ctypes.data + 8


def test_results_can_be_changed():
    for series in (pd.Series([1.0, 2.0]), pd.Series([1, 2], dtype="Int64"), pd.Series([True, False], dtype="boolean")):
        mechanism = local.BinaryResponse(1.0) if str(series.dtype) == "boolean" else LAPLACE if series.dtype == np.float64 else COUNTS
        found = dp.release(series, mechanism, missing="refuse")
        found.iloc[0] = found.iloc[1]
        assert found.iloc[0] == found.iloc[1]


def test_the_given_data_are_not_changed():
    frame = pd.DataFrame({"x": [1.0, math.nan], "y": pd.array([1, None], dtype="Int64")})
    before = frame.copy(deep=True)
    dp.release(frame, {"x": LAPLACE, "y": COUNTS}, missing=5)
    pd.testing.assert_frame_equal(frame, before)


# Missing values, and other bad input


def test_missing_must_be_said_where_a_dtype_allows_it():
    assert dp.release(pd.Series([1, 2]), COUNTS).notna().all()
    assert dp.release(pd.Series([True]), local.BinaryResponse(1.0)).notna().all()
    for series, mechanism in (
        (pd.Series([1.0]), LAPLACE),
        (pd.Series([1], dtype="Int64"), COUNTS),
        (pd.Series([1], dtype="int64[pyarrow]"), COUNTS),
        (pd.Series(["a"], dtype="category"), TEXT),
        (pd.Series(["a"], dtype=object), TEXT),
    ):
        with pytest.raises(ParameterError, match="missing is required"):
            dp.release(series, mechanism)
    with pytest.raises(ParameterError, match="'x' can hold nulls"):
        dp.release(pd.DataFrame({"y": [1], "x": [1.0]}), {"y": COUNTS, "x": LAPLACE})


def test_nan_is_missing():
    series = pd.Series([1.0, math.nan])
    assert abs(dp.release(series, EXACT, missing=5) - [1, 5]).max() < 1e-6
    bits = dp.release(series, local.BoundedMean(50.0, -1.0, 1.0), missing="keep")
    assert bits.dtype == "boolean"
    assert bits.tolist() == [True, pd.NA]
    with pytest.raises(DataError, match="row 1"):
        dp.release(pd.Series([SECRET, None], dtype="Float64"), LAPLACE, missing="refuse")


BAD = {
    "a list": ([1.0], LAPLACE, ParameterTypeError, r"must be a Series.*lists.*go to the mechanism itself: mechanism\.release"),
    "a sum": (np.float64(SECRET), LAPLACE, ParameterTypeError, r"got float64; numbers.*go to the mechanism itself: mechanism\.release"),
    "a group": (pd.Series([SECRET]).groupby([1]), LAPLACE, ParameterTypeError, "got SeriesGroupBy$"),
    "numbers as objects": (pd.Series([SECRET], dtype=object), COUNTS, ParameterTypeError, r"objects are read as text.*convert_dtypes\(\)"),
    "a column of dates": (
        pd.DataFrame({"x": pd.to_datetime(["2020-01-01"])}),
        {"x": LAPLACE},
        ParameterTypeError,
        "column 'x': no mechanism",
    ),
    "several for one": (pd.Series([1.0]), {"x": LAPLACE}, ParameterTypeError, "takes one mechanism"),
    "one for a frame": (pd.DataFrame({"x": [1.0]}), LAPLACE, ParameterTypeError, "a mapping of column names"),
    "no column": (pd.DataFrame({"x": [1.0]}), {"y": LAPLACE}, ParameterError, "no column 'y'"),
    "two columns": (pd.DataFrame([[1.0, 2.0]], columns=["x", "x"]), {"x": LAPLACE}, ParameterError, "several columns"),
    "dates": (pd.Series(pd.to_datetime(["2020-01-01"])), LAPLACE, ParameterTypeError, "datetime64"),
    "zones": (pd.Series(pd.to_datetime(["2020-01-01"]).tz_localize("UTC")), LAPLACE, ParameterTypeError, "takes columns|does not read"),
    "periods": (pd.Series(pd.period_range("2020-01", periods=2)), LAPLACE, ParameterTypeError, "Laplace takes|Arrow does not read"),
    "text": (pd.Series(["a"]), LAPLACE, ParameterTypeError, "takes columns"),
    "objects": (pd.Series([SECRET, "a"], dtype=object), TEXT, DataError, "must hold text"),
    "unsigned": (pd.Series([1], dtype="uint8"), COUNTS, ParameterTypeError, "mechanism"),
    "infinite": (pd.Series([SECRET, math.inf]), LAPLACE, DataError, "finite"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_without_showing_it(name):
    data, mechanism, kind, words = BAD[name]
    with pytest.raises(kind, match=words) as caught:
        dp.release(data, mechanism, missing="refuse")
    assert "31337" not in str(caught.value)


def test_other_versions_warn(monkeypatch):
    monkeypatch.setattr(dp, "PEER", dp.PEER.__class__(module="pandas", distribution="pandas", tested=("0.1",), extra="pandas"))
    with pytest.warns(UntestedVersionWarning, match="pandas"):
        dp.release(pd.Series([1]), COUNTS)


# Processes


def drawn(_=None):
    return tuple(dp.release(pd.Series(np.zeros(20)), LAPLACE, missing="refuse"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forks_and_threads_draw_other_noise():
    drawn()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        rows = [drawn(), *pool.map(drawn, range(4))]
    threads = [threading.Thread(target=lambda: rows.append(drawn())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(rows)) == 9


@pytest.mark.long
def test_spawned_processes_draw_other_noise():
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert len({*pool.map(drawn, range(4)), drawn()}) == 5


def test_results_are_pickled():
    found = dp.release(pd.DataFrame({"x": [1.0], "y": pd.array([1], dtype="Int64")}), {"x": LAPLACE, "y": COUNTS}, missing="refuse")
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(found)), found)


# Laws

N = 200_000


def test_laws():
    frame = pd.DataFrame({"real": np.zeros(N), "whole": pd.array(np.zeros(N, np.int64), dtype="Int64"), "answer": np.ones(N, np.bool_)})
    answer = local.BinaryResponse(1.0)
    found = dp.release(frame, {"real": LAPLACE, "whole": COUNTS, "answer": answer}, missing={"real": 0, "whole": 0}, rng=KeyedRandom(KEY))
    coarse = 2.0**-4
    real = steps_law(Law("laplace", 1.0, coarse), 0.0, 200)
    whole = integers_law(Law("discrete_laplace", COUNTS.scale, None), 40)
    reals, wholes = np.rint(found["real"].to_numpy() / coarse), found["whole"].to_numpy(np.int64)
    assert p_value(count(reals, 200), real) > ERROR_RATE
    assert p_value(count(np.rint(reals * 1.05), 200), real) < ERROR_RATE
    assert p_value(count(wholes, 40), whole) > ERROR_RATE
    assert p_value(count(np.where(np.arange(N) % 40 == 0, 0, wholes), 40), whole) < ERROR_RATE
    truth = int(found["answer"].sum())
    assert binomial_p_value(truth, N, answer.support.p) > ERROR_RATE
    assert binomial_p_value(truth, N, answer.support.p + 0.01) < ERROR_RATE
