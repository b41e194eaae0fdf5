"""Mechanisms on polars: eager, lazy and streaming, with types, chunks, nulls and buffers kept, and what plans do with noise."""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

pl = pytest.importorskip("polars", reason="make test runs it")
pa = pytest.importorskip("pyarrow", reason="make test runs it")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from dpcore import local, mechanisms  # noqa: E402
from dpcore.errors import DataError, ForeignPatchError, ParameterError, ParameterTypeError, UntestedVersionWarning  # noqa: E402
from dpcore.interop import arrow  # noqa: E402
from dpcore.interop import polars as dp  # noqa: E402
from dpcore.interop._reports import reports_of  # noqa: E402
from dpcore.testing import KeyedRandom  # noqa: E402
from support.columns import LABELS, MECHANISMS, QUIET, REALS, WHOLES, Case, Stream, cases, near, quiet, same  # noqa: E402
from support.jobs import KEY  # noqa: E402
from support.kernels import Law  # noqa: E402
from support.laws import ERROR_RATE, binomial_p_value, count, integers_law, p_value, steps_law  # noqa: E402
from support.versions import only_tested  # noqa: E402

only_tested(dp.PEER, dp.ARROW)

LAPLACE = mechanisms.Laplace(1.0, 1.0)
COUNTS = mechanisms.DiscreteLaplace(1.0, 1)
EXACT = mechanisms.Laplace(1e9, 1.0)
"""Noise that rounds away."""
SECRET = 31337.5


@pytest.fixture
def namespace():
    with dp.install():
        yield


def series_of(cells):
    return pl.Series(Stream(cells)).rename("x")


@pytest.mark.long
@settings(max_examples=settings.default.max_examples // 2)
@given(cases())
def test_a_series_gets_what_the_mechanism_gives(case: Case):
    column = series_of(case.cells)
    lengths = column.chunk_lengths()
    found = dp.release(column, case.mechanism, missing=case.missing, dtype=case.dtype, rng=KeyedRandom(KEY))
    alone = arrow.release(pa.chunked_array(column), case.mechanism, missing=case.missing, dtype=case.dtype, rng=KeyedRandom(KEY))
    assert same(found.to_list(), [_plain(cell) for cell in alone.to_pylist()])
    assert found.name == "x"
    if len(column):
        assert found.chunk_lengths() == lengths
    frame = column.to_frame()
    again = dp.release(frame["x"], case.mechanism, missing=case.missing, dtype=case.dtype, rng=KeyedRandom(KEY))
    framed = dp.release(frame, {"x": case.mechanism}, missing=case.missing, dtype=case.dtype, rng=KeyedRandom(KEY))
    assert same(framed["x"].to_list(), again.to_list())


def _plain(cell):
    return int(cell) if type(cell).__name__ == "Decimal" else cell


@settings(max_examples=settings.default.max_examples // 2)
@given(cases(names=list(QUIET)), st.sampled_from(["in-memory", "streaming"]), st.integers(0, 4), st.integers(0, 40))
def test_round_trips_eager_lazy_and_streaming(case: Case, engine, first, size):
    mechanism, expected = QUIET[case.name], quiet(case)
    options = {"missing": case.missing, "dtype": "column"}
    frame = series_of(case.cells).to_frame().with_columns(public=pl.int_range(pl.len()))
    if case.name == "DiscreteLaplace" and frame.schema["x"].is_unsigned_integer():
        options["dtype"] = "mechanism"
    assert near(dp.release(frame["x"], mechanism, **options).to_list(), expected)
    assert near(dp.release(frame.slice(first, size), {"x": mechanism}, **options)["x"].to_list(), expected[first : first + size])
    with dp.install():
        plan = frame.lazy().with_columns(pl.col("x").dp.release(mechanism, **options))
    found = plan.collect(engine=engine)
    assert near(found["x"].to_list(), expected)
    assert found.schema == plan.collect_schema()
    assert near(plan.slice(first, size).collect(engine=engine)["x"].to_list(), expected[first : first + size])
    chosen = plan.filter(pl.col("public") % 2 == 1).select("x")
    assert near(chosen.collect(engine=engine)["x"].to_list(), expected[1::2])
    once = dp.release(frame.lazy().filter(pl.col("public") % 2 == 1), {"x": mechanism}, keep=["public"], engine=engine, **options)
    assert near(once["x"].to_list(), expected[1::2])
    assert once["public"].to_list() == list(range(len(expected)))[1::2]


TYPES = {
    pl.Float32: (LAPLACE, [1.0, None]),
    pl.Float64: (LAPLACE, [1.0, None]),
    pl.Int8: (COUNTS, [1, None]),
    pl.Int16: (COUNTS, [1, None]),
    pl.Int32: (COUNTS, [1, None]),
    pl.Int64: (COUNTS, [1, None]),
    pl.Decimal(38, 0): (COUNTS, [1, None]),
    pl.UInt8: (MECHANISMS["KaryResponse"], [1, None]),
    pl.UInt64: (MECHANISMS["KaryResponse"], [1, None]),
    pl.Boolean: (local.BinaryResponse(1.0), [True, None]),
    pl.String: (MECHANISMS["KaryResponse of labels"], ["a", None]),
    pl.Categorical(): (MECHANISMS["KaryResponse of labels"], ["a", None]),
    pl.Enum(["z", *LABELS]): (MECHANISMS["KaryResponse of labels"], ["a", None]),
}


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_types_are_kept_eager_lazy_and_streaming(namespace, kind, engine):
    mechanism, cells = TYPES[kind]
    frame = pl.DataFrame({"x": pl.Series(cells, dtype=kind), "public": [1, 2]})
    assert dp.release(frame["x"], mechanism, missing="keep").dtype == kind
    eager = dp.release(frame.lazy(), {"x": mechanism}, missing="keep", keep=["public"], engine=engine)
    assert eager.schema == frame.schema
    assert eager["public"].to_list() == [1, 2]
    plan = frame.lazy().select(pl.col("x").dp.release(mechanism, missing="keep"))
    assert plan.collect_schema() == {"x": kind}
    found = plan.collect(engine=engine)
    assert found.schema == {"x": kind}
    assert found["x"].null_count() == 1


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_schema_of_a_plan_is_that_of_its_result(namespace, name):
    kind = pl.String if name.endswith("labels") else pl.Boolean if name == "BinaryResponse" else pl.Int32
    column = pl.Series("x", ["a", None] if kind == pl.String else [True, None] if kind == pl.Boolean else [1, None], dtype=kind)
    for dtype in ("column", "mechanism"):
        plan = column.to_frame().lazy().select(pl.col("x").dp.release(MECHANISMS[name], missing="keep", dtype=dtype))
        assert (
            plan.collect_schema() == plan.collect().schema == {"x": dp.release(column, MECHANISMS[name], missing="keep", dtype=dtype).dtype}
        )


def test_an_enum_without_the_categories_is_refused():
    with pytest.raises(ParameterError, match="does not have all categories"):
        dp.release(pl.Series(["a"], dtype=pl.Enum(["a"])), MECHANISMS["KaryResponse of labels"], missing="refuse")


def test_nan_is_missing_and_stays_nan():
    column = pl.Series([1.0, math.nan, None])
    found = dp.release(column, EXACT, missing="keep")
    assert found.null_count() == 1
    assert math.isnan(found[1])
    assert abs(dp.release(column, EXACT, missing=5).to_numpy() - [1, 5, 5]).max() < 1e-6


# Buffers


def test_numbers_are_read_where_they_are_and_results_are_taken_where_they_are(monkeypatch):
    column = pl.Series("x", np.arange(1000.0))
    start, seen = column.to_numpy(allow_copy=False).ctypes.data, []
    original = mechanisms.Laplace.release

    def watched(mechanism, values, **options):
        reports = original(mechanism, values, **options)
        seen.append((values.ctypes.data, reports.ctypes.data))
        return reports

    monkeypatch.setattr(mechanisms.Laplace, "release", watched)
    found = dp.release(column, LAPLACE, missing="refuse")
    assert seen == [(start, found.to_numpy(allow_copy=False).ctypes.data)]
    dp.release(column.slice(100, 50).to_frame().lazy(), {"x": LAPLACE}, missing=0)
    assert seen[1][0] == start + 800


def test_kept_columns_are_not_copied():
    frame = pl.DataFrame({"x": [1.0, 2.0], "public": np.arange(2.0)})
    found = dp.release(frame, {"x": LAPLACE}, missing="refuse", keep=["public"])
    assert found["public"].to_numpy(allow_copy=False).ctypes.data == frame["public"].to_numpy(allow_copy=False).ctypes.data


# Plans


def lazily(rows, mechanism=LAPLACE):
    return pl.LazyFrame({"x": np.zeros(rows)}).select(pl.col("x").dp.release(mechanism, missing="refuse"))


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_a_plan_draws_anew_each_time_and_release_once(namespace, engine):
    plan = lazily(50)
    first, second = (plan.collect(engine=engine)["x"] for _ in range(2))
    assert (first == second).sum() == 0
    released = dp.release(pl.LazyFrame({"x": np.zeros(50)}), {"x": LAPLACE}, missing="refuse", engine=engine)
    assert released["x"].equals(released["x"])
    assert released.lazy().select("x").collect().equals(released.lazy().select("x").collect())


def test_release_collects_once_and_only_what_is_named():
    calls = []

    def noted(column):
        calls.append(len(column))
        return column

    x, other = (pl.col(name).map_batches(noted, return_dtype=pl.Float64, is_elementwise=True) for name in ("x", "other"))
    plan = pl.LazyFrame({"x": [1.0], "other": [1.0]}).with_columns(x).with_columns(other)
    dp.release(plan, {"x": LAPLACE}, missing="refuse")
    assert calls == [1]


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_every_row_is_noised_once_in_a_plan(namespace, engine, monkeypatch):
    rows = []
    original = mechanisms.Laplace.release

    def watched(mechanism, values, **options):
        rows.append(len(values))
        return original(mechanism, values, **options)

    plan = pl.LazyFrame({"x": np.zeros(250_000), "g": np.arange(250_000) % 3}).with_columns(
        n=pl.col("x").dp.release(LAPLACE, missing="refuse")
    )
    used = {
        "twice": plan.select(pl.col("n").alias("a"), (pl.col("n") * 2).alias("b")),
        "filter": plan.filter(pl.col("n") > 0).select("n"),
        "sort": plan.sort("n").select("n"),
        "groups": plan.group_by("g").agg(pl.col("n").sum().alias("sum"), pl.col("n").mean().alias("mean")),
    }
    for name, query in used.items():
        query.collect_schema()
        rows.clear()
        monkeypatch.setattr(mechanisms.Laplace, "release", watched)
        found = query.collect(engine=engine)
        monkeypatch.undo()
        assert sum(rows) == 250_000, name
        if name == "twice":
            assert (found["a"] * 2 == found["b"]).all()
        if name == "filter":
            assert (found["n"] > 0).all()


def test_groups_are_noised_by_their_aggregates(namespace):
    frame = pl.DataFrame({"g": ["a", "a", "b"], "x": [1.0, 2.0, 5.0]})
    found = frame.group_by("g", maintain_order=True).agg(pl.col("x").sum().dp.release(EXACT, missing="refuse"))
    assert found["x"].round(3).to_list() == [3.0, 5.0]


def test_a_literal_is_drawn_once_for_all_rows(namespace):
    found = pl.DataFrame({"x": [1, 2, 3]}).with_columns(n=pl.lit(0.0).dp.release(LAPLACE, missing="refuse"))
    assert found["n"].n_unique() == 1


def test_errors_of_a_plan_show_no_value(namespace):
    plan = pl.LazyFrame({"x": [SECRET, math.inf]}).select(pl.col("x").dp.release(LAPLACE, missing="refuse"))
    with pytest.raises(DataError, match="must be finite") as caught:
        plan.collect()
    assert "31337" not in str(caught.value)
    text = pl.LazyFrame({"x": ["a"]}).select(pl.col("x").dp.release(COUNTS, missing="refuse"))
    with pytest.raises(ParameterTypeError, match="takes columns of"):
        text.collect()
    with pytest.raises(pl.exceptions.PolarsError):  # polars asks the function for its type, and hides its error
        pl.LazyFrame({"x": ["a"]}).select(pl.col("x").dp.release(LAPLACE, missing="refuse")).collect()


def test_several_columns_in_one_expression(namespace):
    frame = pl.DataFrame({"a": pl.Series([0.0] * 9, dtype=pl.Float32), "b": [0] * 9})
    found = frame.lazy().select(pl.all().dp.release(LAPLACE, missing="refuse")).collect()
    assert found.schema == {"a": pl.Float32, "b": pl.Float64}
    assert not (found["a"] == found["b"]).any()


# Bad input


def test_missing_must_be_said(namespace):
    for call in (
        lambda: dp.release(pl.Series([1.0]), LAPLACE),
        lambda: dp.release(pl.DataFrame({"x": [1]}), {"x": COUNTS}),
        lambda: dp.release(pl.LazyFrame({"x": [1]}), {"x": COUNTS}),
        lambda: pl.col("x").dp.release(LAPLACE),
    ):
        with pytest.raises(ParameterError, match="missing is required"):
            call()


@pytest.mark.parametrize(
    ("data", "mechanism", "words"),
    [
        ([1.0], LAPLACE, "must be a Series"),
        (pl.Series([1.0]), {"x": LAPLACE}, "takes one mechanism"),
        (pl.DataFrame({"x": [1.0]}), LAPLACE, "a mapping of column names"),
        (pl.Series([[1.0]]), LAPLACE, "takes columns of"),
    ],
)
def test_other_things_are_refused(data, mechanism, words):
    with pytest.raises(ParameterTypeError, match=words):
        dp.release(data, mechanism, missing="refuse")


def test_errors_name_the_column():
    frame = pl.DataFrame({"age": [SECRET, None]})
    with pytest.raises(DataError, match=r"column 'age'.*row 1") as caught:
        dp.release(frame, {"age": LAPLACE}, missing="refuse")
    assert "31337" not in str(caught.value)
    with pytest.raises(ParameterError, match="no column 'size'"):
        dp.release(frame, {"size": LAPLACE}, missing="refuse")


# The namespace


def test_the_namespace_comes_and_goes():
    assert not hasattr(pl.Expr, "dp")
    with dp.install():
        assert pl.Expr.dp is dp.Namespace
        with dp.install():
            assert isinstance(pl.col("x").dp, dp.Namespace)
        assert hasattr(pl.Expr, "dp")
    assert not hasattr(pl.Expr, "dp")
    dp.uninstall()


def test_expressions_outlive_the_namespace():
    with dp.install():
        plan = lazily(5)
    assert plan.collect().height == 5


def test_anothers_namespace_stays():
    try:
        pl.api.register_expr_namespace("dp")(type("Other", (), {"__init__": lambda self, expr: None}))
        theirs = vars(pl.Expr)["dp"]
        with pytest.raises(ForeignPatchError, match="another library"):
            dp.install()
        assert vars(pl.Expr)["dp"] is theirs
    finally:
        del pl.Expr.dp


def test_a_namespace_that_was_replaced_is_not_removed():
    dp.install()
    ours = vars(pl.Expr)["dp"]
    try:
        pl.Expr.dp = "theirs"
        with pytest.raises(ForeignPatchError, match="replaced again"):
            dp.uninstall()
    finally:
        pl.Expr.dp = ours
        dp.uninstall()


def test_threads_register_once():
    seen = []

    def work():
        with dp.install():
            seen.append(lazily(10).collect()["x"].to_list())

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tuple(row) for row in seen}) == 6
    assert not hasattr(pl.Expr, "dp")


def test_other_versions_warn(monkeypatch):
    monkeypatch.setattr(dp, "PEER", dp.PEER.__class__(module="polars", distribution="polars", tested=("0.1",), extra="polars"))
    with pytest.warns(UntestedVersionWarning, match="polars"):
        dp.release(pl.Series([1.0]), LAPLACE, missing="refuse")


def test_a_half_imported_polars_is_refused(monkeypatch):
    monkeypatch.setattr(pl.__spec__, "_initializing", True, raising=False)
    with pytest.raises(ParameterError, match="still being imported"):
        dp.install()
    assert not hasattr(pl.Expr, "dp")


# Processes


def drawn(plan):
    return plan.collect()["x"].to_list()


def test_a_pickled_expression_needs_no_namespace(namespace):
    pytest.importorskip("cloudpickle", reason="polars pickles functions with it")
    expression = pickle.dumps(pl.col("x").dp.release(LAPLACE, missing="refuse"))
    dp.uninstall()
    plan = pl.LazyFrame({"x": np.zeros(20)}).select(pickle.loads(expression))
    assert len({*drawn(plan), *drawn(pickle.loads(pickle.dumps(plan)))}) == 40
    dp.install()


@pytest.mark.long
def test_a_pickled_plan_draws_in_spawned_processes(namespace):
    pytest.importorskip("cloudpickle", reason="polars pickles functions with it")
    plan = lazily(20)
    dp.uninstall()
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        rows = [tuple(row) for row in [drawn(plan), *pool.map(drawn, [plan] * 3)]]
    dp.install()
    assert len(set(rows)) == 4


def eagerly(_=None):
    return dp.release(pl.Series(np.zeros(20)), LAPLACE, missing="refuse").to_list()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_processes_draw_other_noise():
    eagerly()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert len({tuple(row) for row in [eagerly(), *pool.map(eagerly, range(4))]}) == 5


def test_importing_changes_nothing_and_imports_nothing():
    names = "{'polars', 'pandas', 'duckdb', 'pyarrow'}"
    code = f"import sys; from dpcore.interop import arrow, duckdb, pandas, polars; print({names} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# Laws

N = 100_000


def through(mechanism, column, **options):
    with dp.install():
        plan = column.to_frame().lazy().select(pl.col("x").dp.release(mechanism, missing="refuse", rng=KeyedRandom(KEY), **options))
    return plan.collect()["x"]


def reals_p_value(values, kind, scale):
    coarse = 2.0 ** (math.floor(math.log2(scale)) - 4)
    return p_value(count(np.rint(values / coarse), 200), steps_law(Law(kind, scale, coarse), 0.0, 200))


@pytest.mark.parametrize("name", REALS)
def test_laws_of_reals(name):
    mechanism = REALS[name]
    kind = "laplace" if "Laplace" in name else "gaussian"
    values = through(mechanism, pl.Series("x", np.zeros(N))).to_numpy()
    assert reals_p_value(values, kind, mechanism.scale) > ERROR_RATE
    assert reals_p_value(values * 1.04, kind, mechanism.scale) < ERROR_RATE


@pytest.mark.parametrize("name", WHOLES)
def test_laws_of_integers(name):
    mechanism = WHOLES[name]
    kind = "discrete_laplace" if "Laplace" in name else "discrete_gaussian"
    reach = math.ceil(40 * mechanism.scale)
    law = integers_law(Law(kind, mechanism.scale, None), reach)
    values = through(mechanism, pl.Series("x", np.zeros(N, np.int64))).to_numpy()
    assert p_value(count(values, reach), law) > ERROR_RATE
    broken = np.where(np.arange(N) % 40 == 0, 0, values)  # one in forty rows without noise
    assert p_value(count(broken, reach), law) < ERROR_RATE


BIT_LAWS = {
    "BinaryResponse": (local.BinaryResponse(1.0), True, local.BinaryResponse(1.0).support.p),
    "BoundedMean": (MECHANISMS["BoundedMean"], 4.0, 0.5 + 0.5 * 0.4 / MECHANISMS["BoundedMean"].z0),
    "BinaryChannel": (MECHANISMS["BinaryChannel"], 3, float(MECHANISMS["BinaryChannel"].channel()[3, 1])),
}


@pytest.mark.parametrize("name", BIT_LAWS)
def test_laws_of_bits(name):
    mechanism, cell, p = BIT_LAWS[name]
    truth = int(through(mechanism, pl.Series("x", [cell] * N)).sum())
    assert binomial_p_value(truth, N, p) > ERROR_RATE
    assert binomial_p_value(truth, N, p + 0.015) < ERROR_RATE


@pytest.mark.parametrize(
    "name", ["KaryResponse", "KaryResponse of labels", "UnaryEncoding", "SubsetSelection", "LocalHashing", "HadamardResponse"]
)
def test_laws_of_categories(name):
    mechanism = MECHANISMS[name]
    cell = LABELS[1] if name.endswith("labels") else 1
    reports = through(mechanism, pl.Series("x", [cell] * N), dtype="mechanism")
    counts = mechanism._support_counts(mechanism.aggregate(reports_of(pa.chunked_array(reports), mechanism)))
    p, q, _ = mechanism.support
    assert binomial_p_value(int(counts[1]), N, p) > ERROR_RATE
    assert binomial_p_value(int(counts[1]), N, p - 0.015) < ERROR_RATE
    assert binomial_p_value(int(counts[0]), N, q) > ERROR_RATE
    assert binomial_p_value(int(counts[0]), N, q + 0.015) < ERROR_RATE
