"""Mechanisms on relations of DuckDB, which are evaluated once."""

from __future__ import annotations

import gc
import math
import multiprocessing
import pickle
import threading

import numpy as np
import pytest

duckdb = pytest.importorskip("duckdb", reason="make test runs it")
pa = pytest.importorskip("pyarrow", reason="make test runs it")

from hypothesis import given, settings  # noqa: E402

from dpcore import local, mechanisms  # noqa: E402
from dpcore.errors import DataError, ParameterError, ParameterTypeError, UntestedVersionWarning  # noqa: E402
from dpcore.interop import arrow  # noqa: E402
from dpcore.interop import duckdb as dp  # noqa: E402
from dpcore.testing import KeyedRandom  # noqa: E402
from support.columns import MECHANISMS, QUIET, Case, cases, near, quiet, same  # noqa: E402
from support.jobs import KEY  # noqa: E402
from support.kernels import Law  # noqa: E402
from support.laws import ERROR_RATE, count, integers_law, p_value, steps_law  # noqa: E402
from support.versions import only_tested  # noqa: E402

only_tested(dp.PEER, dp.ARROW)

LAPLACE = mechanisms.Laplace(1.0, 1.0)
COUNTS = mechanisms.DiscreteLaplace(1.0, 1)
LABELLED = MECHANISMS["KaryResponse of labels"]
SECRET = 31337.5


@pytest.fixture
def connection():
    with duckdb.connect() as found:
        yield found


@settings(max_examples=settings.default.max_examples // 4)
@given(
    cases(kinds=(pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.float32(), pa.float64(), pa.decimal128(38, 0), pa.bool_(), pa.string()))
)
def test_a_relation_gets_what_its_table_gets(case: Case):
    with duckdb.connect() as connection:
        relation = connection.from_arrow(pa.table({"x": case.cells, "public": pa.array(range(len(case.cells)))}))
        table = relation.to_arrow_table()
        options = {"missing": case.missing, "dtype": case.dtype, "keep": ["public"]}
        found = dp.release(relation, {"x": case.mechanism}, connection=connection, rng=KeyedRandom(KEY), **options)
        alone = arrow.release(table, {"x": case.mechanism}, rng=KeyedRandom(KEY), **options)
        shown = duckdb.from_arrow(alone, connection=connection)
        assert found.types[1:] == shown.types[1:]
        assert same([row[0] for row in found.fetchall()], [row[0] for row in shown.fetchall()])


@settings(max_examples=settings.default.max_examples // 4)
@given(cases(names=list(QUIET), kinds=(pa.int16(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.string())))
def test_round_trips(case: Case):
    with duckdb.connect() as connection:
        relation = connection.from_arrow(pa.table({"x": case.cells, "row": pa.array(range(len(case.cells)), pa.int64())}))
        odd = relation.filter("row % 2 = 1").order("row")
        found = dp.release(odd, {"x": QUIET[case.name]}, missing=case.missing, keep=["row"], connection=connection)
        assert near([row[0] for row in found.order("row").fetchall()], quiet(case)[1::2])
        assert found.types == odd.types or case.name == "Laplace"


TYPES = {
    "TINYINT": (COUNTS, "1"),
    "SMALLINT": (COUNTS, "1"),
    "INTEGER": (COUNTS, "1"),
    "BIGINT": (COUNTS, "1"),
    "HUGEINT": (COUNTS, "1"),
    "FLOAT": (LAPLACE, "1.5"),
    "DOUBLE": (LAPLACE, "1.5"),
    "BOOLEAN": (local.BinaryResponse(1.0), "true"),
    "UTINYINT": (MECHANISMS["KaryResponse"], "1"),
    "VARCHAR": (LABELLED, "'a'"),
    "ENUM('a', 'b', 'cde', '')": (LABELLED, "'a'"),
}


@pytest.mark.some(8)
@pytest.mark.parametrize("kind", TYPES)
def test_types_and_nulls_are_kept(connection, kind):
    mechanism, cell = TYPES[kind]
    relation = connection.sql(f"SELECT CAST(x AS {kind}) AS x FROM (VALUES ({cell}), (NULL)) t(x)")
    found = dp.release(relation, {"x": mechanism}, missing="keep", connection=connection)
    assert found.types == relation.types
    assert [row[0] is None for row in found.fetchall()] == [False, True]


@pytest.mark.long
def test_a_query_is_evaluated_once_and_its_result_stays(connection):
    calls = []

    def noted(value: int) -> int:
        calls.append(value)
        return value

    connection.create_function("noted", noted, ["BIGINT"], "BIGINT", side_effects=True)
    relation = connection.sql("SELECT noted(i) AS x, i AS other FROM range(10) t(i)")
    found = dp.release(relation, {"x": COUNTS}, missing="refuse", connection=connection)
    assert len(calls) == 10
    gc.collect()
    assert found.to_arrow_table() == found.to_arrow_table()
    assert connection.sql("SELECT count(*) FROM found").fetchall() == [(10,)]
    assert len(calls) == 10


def test_results_stand_beside_other_tables(connection):
    connection.sql("CREATE TABLE names AS SELECT 1 AS g, 'one' AS name")
    counts = connection.sql("SELECT i % 2 AS g, count(*) AS n FROM range(100) t(i) GROUP BY ALL")
    released = dp.release(counts, {"n": COUNTS}, missing="refuse", keep=["g"], connection=connection)
    assert released.columns == ["g", "n"]
    assert connection.sql("SELECT name FROM released JOIN names USING (g)").fetchall() == [("one",)]


NAMES = ["a b", "a", "b", "a.b", 'a"."b', "select", "Größe", 'q"q', 'q""q', '"', '"a"', "*", "x.*", "-- c", "it's", "c1", "c0"]


def test_names_may_be_anything(connection):
    """And each column is read by its own name, not as what it would mean in SQL."""
    relation = connection.from_arrow(pa.table({name: pa.array([place]) for place, name in enumerate(NAMES)}))
    found = dp.release(relation, {"b": COUNTS}, missing="refuse", keep=[name for name in NAMES if name != "b"], connection=connection)
    assert found.columns == NAMES
    (row,) = found.fetchall()
    assert [each for place, each in enumerate(row) if NAMES[place] != "b"] == [place for place, name in enumerate(NAMES) if name != "b"]
    for place, name in enumerate(NAMES):
        alone = dp.release(relation, {"c0" if name != "c0" else "c1": COUNTS}, missing="refuse", keep=[name], connection=connection)
        assert alone.project(f'"{name.replace(chr(34), chr(34) * 2)}"').fetchall() == [(place,)]


def test_names_that_differ_in_capitals_are_refused(connection):
    """DuckDB would read the first of them in place of the other, be that public or not."""
    relation = connection.sql('SELECT 1 AS name, 2 AS x, 3 AS "Name"')
    with pytest.raises(ParameterError, match=r"relation has columns whose names differ in capitals only, such as 'name'"):
        dp.release(relation, {"x": COUNTS}, missing="refuse", keep=["Name"], connection=connection)
    other = connection.sql('SELECT 1 AS "ä", 2 AS "Ä"')  # which DuckDB tells apart
    assert dp.release(other, {"ä": COUNTS}, missing="refuse", keep=["Ä"], connection=connection).project('"Ä"').fetchall() == [(2,)]


def test_many_chunks(connection):
    relation = connection.sql("SELECT CAST(i AS DOUBLE) AS x, i AS i FROM range(300000) t(i)")
    found = dp.release(relation, {"x": mechanisms.Laplace(1e6, 1.0)}, missing="refuse", keep=["i"], connection=connection)
    values = found.to_arrow_table()
    assert abs(values["x"].to_numpy() - values["i"].to_numpy()).max() < 0.01


BAD = {
    "no relation": (lambda _: pa.table({"x": [1.0]}), {"x": LAPLACE}, ParameterTypeError, "must be one of DuckDB"),
    "one mechanism": (lambda c: c.sql("SELECT 1.5::DOUBLE AS x"), LAPLACE, ParameterTypeError, "mapping"),
    "no column": (lambda c: c.sql("SELECT 1.5::DOUBLE AS x"), {"y": LAPLACE}, ParameterError, "no column 'y'"),
    "a date": (lambda c: c.sql("SELECT DATE '2020-01-01' AS x"), {"x": LAPLACE}, ParameterTypeError, "'x'"),
    "an enumeration": (lambda c: c.sql("SELECT 'a'::ENUM('a', 'b') AS x"), {"x": LABELLED}, ParameterError, "ENUM"),
    "digits": (lambda c: c.sql("SELECT 1.5::DECIMAL(9, 2) AS x"), {"x": LAPLACE}, ParameterTypeError, "decimal"),
    "a failing query": (lambda c: c.sql(f"SELECT CAST('{SECRET}x' AS DOUBLE) AS x"), {"x": LAPLACE}, ParameterError, "not shown"),
    "null": (lambda c: c.sql(f"SELECT * FROM (VALUES ({SECRET}::DOUBLE), (NULL)) t(x)"), {"x": LAPLACE}, DataError, "row 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_without_showing_it(connection, name):
    make, mechanism, kind, words = BAD[name]
    with pytest.raises(kind, match=words) as caught:
        dp.release(make(connection), mechanism, missing="refuse", connection=connection)
    assert "31337" not in str(caught.value)


def test_missing_must_be_said(connection):
    with pytest.raises(ParameterError, match="'x' can hold nulls"):
        dp.release(connection.sql("SELECT 1 AS x"), {"x": COUNTS})


def test_other_versions_warn(monkeypatch, connection):
    monkeypatch.setattr(dp, "PEER", dp.PEER.__class__(module="duckdb", distribution="duckdb", tested=("0.1",), extra="batch"))
    with pytest.warns(UntestedVersionWarning, match="duckdb"):
        dp.release(connection.sql("SELECT 1 AS x"), {"x": COUNTS}, missing="refuse", connection=connection)


def test_threads_draw_other_noise(connection):
    rows = []

    def work():
        cursor = connection.cursor()
        relation = cursor.sql("SELECT 0::DOUBLE AS x FROM range(20)")
        rows.append(tuple(dp.release(relation, {"x": LAPLACE}, missing="refuse", connection=cursor).fetchall()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(rows)) == 4


def drawn(_=None):
    with duckdb.connect() as own:
        relation = own.sql("SELECT 0::DOUBLE AS x FROM range(20)")
        return tuple(dp.release(relation, {"x": LAPLACE}, missing="refuse", connection=own).fetchall())


@pytest.mark.long
@pytest.mark.parametrize("method", [name for name in ("fork", "spawn") if name in multiprocessing.get_all_start_methods()])
def test_other_processes_with_connections_of_their_own_draw_other_noise(method):
    drawn()
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert len({drawn(), *pool.map_async(drawn, range(4)).get(timeout=120)}) == 5


def test_results_are_pickled_as_tables(connection):
    found = dp.release(connection.sql("SELECT 0::DOUBLE AS x"), {"x": LAPLACE}, missing="refuse", connection=connection).to_arrow_table()
    assert pickle.loads(pickle.dumps(found)) == found


def test_laws(connection):
    n = 200_000
    relation = connection.sql(f"SELECT 0::DOUBLE AS x, 0::BIGINT AS i FROM range({n})")
    found = dp.release(
        relation, {"x": LAPLACE, "i": COUNTS}, missing="refuse", connection=connection, rng=KeyedRandom(KEY)
    ).to_arrow_table()
    coarse = 2.0**-4
    reals, wholes = np.rint(found["x"].to_numpy() / coarse), found["i"].to_numpy()
    real = steps_law(Law("laplace", 1.0, coarse), 0.0, 200)
    whole = integers_law(Law("discrete_laplace", COUNTS.scale, None), 40)
    assert p_value(count(reals, 200), real) > ERROR_RATE
    assert p_value(count(np.rint(reals * 1.05), 200), real) < ERROR_RATE
    assert p_value(count(wholes, 40), whole) > ERROR_RATE
    assert p_value(count(np.where(np.arange(n) % 40 == 0, 0, wholes), 40), whole) < ERROR_RATE
    assert not math.isnan(reals.sum())
