"""`[per_unit]` in jobs and frames: the same answers, and refusals before a row is read."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import dpcore
from dpcore import PrivateTable
from dpcore.batch import make_release_plan, parse_release_job, release
from dpcore.errors import JobError, ParameterError, ParameterTypeError
from dpcore.testing import KeyedRandom
from support.jobs import KEY, write_table
from support.made import job_of
from support.versions import writes_views

ROWS, UNITS = 3000, 400
PER_UNIT = {"n": "count(*)", "cost": {"sum": "cost", "lower": 0, "upper": 50}, "late": "bool_or(hour > 20)"}


def table():
    rng = np.random.default_rng(1)
    return pa.table({
        "unit": rng.integers(0, UNITS, ROWS), "cost": rng.random(ROWS) * 60, "hour": rng.integers(0, 24, ROWS),
        "month": rng.integers(1, 4, ROWS), "text": ["a"] * ROWS, "span": pa.array(rng.integers(0, 9, ROWS), pa.duration("us")),
    })  # fmt: skip


QUERIES = [
    {"name": "often", "kind": "count", "where": "n >= 8", "epsilon": 4.0},
    {"name": "mean cost", "kind": "mean", "column": "each", "lower": 0, "upper": 50, "missing": 0, "epsilon": 4.0},
]


def asked(folder, **keys):
    per_unit = PER_UNIT | {"where": "late", "derive": [{"name": "each", "sql": "cost / n"}]}
    job = job_of(folder, per_unit, {"max_epsilon": 8.0}, where="hour > 2", **keys)
    return job | {"query": QUERIES}


def test_frames_have_the_answers_of_jobs(tmp_path):
    write_table(table(), tmp_path / "in.parquet")
    document = release(make_release_plan(parse_release_job(asked(tmp_path, testing={"key_hex": KEY.hex()}))))
    visits = PrivateTable(table(), unit="unit", relation="add_remove", rng=KeyedRandom(KEY))
    people = visits.where("hour > 2").per_unit(n="count(*)", cost=dpcore.total("cost", lower=0, upper=50), late="bool_or(hour > 20)")
    people = people.derive(each="cost / n").where("late")
    with people.batch(epsilon=8.0) as batch:
        often = batch.where("n >= 8").count(epsilon=4.0)
        each = batch.mean("each", epsilon=4.0, lower=0, upper=50, missing=0)
    assert [query["value"] for query in document["queries"]] == [often.value, each.value]
    assert document["per_unit"]["columns"] == PER_UNIT | {"cost": {"sum": "cost", "lower": 0.0, "upper": 50.0}}
    assert "rows" not in document


def test_answers_are_those_of_a_database(tmp_path):
    """An ε so large that the noise is less than what two computations may differ by."""
    write_table(table(), tmp_path / "in.parquet")
    job = asked(tmp_path) | {"query": [query | {"epsilon": 1e5} for query in QUERIES]}
    job["privacy"]["max_epsilon"] = 2e5
    found = release(make_release_plan(parse_release_job(job)))["queries"]
    (wanted,) = duckdb.sql(
        "WITH u AS (SELECT count(*) AS n, sum(least(greatest(cost, 0), 50)) AS cost, bool_or(hour > 20) AS late FROM "
        f"'{tmp_path / 'in.parquet'}' WHERE hour > 2 GROUP BY unit) SELECT count(*) FILTER (WHERE n >= 8), avg(cost / n) FROM u WHERE late"
    ).fetchall()
    assert found[0]["value"] == wanted[0]
    assert found[1]["value"] == pytest.approx(wanted[1], rel=1e-3)


def test_how_many_units_there_are_is_private_and_one_row_is_all_that_changes(tmp_path):
    write_table(table(), tmp_path / "in.parquet")
    for relation, times in (("add_remove", 1), ("replace", 1)):
        plan = make_release_plan(parse_release_job(job_of(tmp_path, PER_UNIT, {"relation": relation})), overwrite=True)
        (noise,) = plan.estimators[0].noise
        assert noise.scale == pytest.approx(times, rel=1e-9)
    for keys in (1, 3):
        per_unit = PER_UNIT | {"by": "month", "groups": [1, 2, 3]}
        plan = make_release_plan(parse_release_job(job_of(tmp_path, per_unit, {"max_groups_per_unit": keys})), overwrite=True)
        (noise,) = plan.estimators[0].noise
        assert noise.scale == pytest.approx(keys, rel=1e-9)


REFUSED = {
    "first(cost)": "depends on the order",
    "string_agg(text)": "makes a list or a text",
    "string_agg(text ORDER BY hour)": "ORDER BY",
    "sum(cost)": "needs bounds",
    "avg(cost)": "needs bounds",
    "sum(text)": "is for numbers",
    "median(text)": "quantile_disc",
    "bool_or(hour)": "write a condition",
    "bit_and(cost)": "for integers",
    "max(count(*))": "count_star",
    "sum(hour) OVER ()": "window function",
    "cost + 1": "one aggregate",
    "cost": "one aggregate",
    "max(cost) / 2": "per_unit.derive",
    "min(nothing)": "is not a column",
    "max(span)": "length of time",
    "max(1)": "same for every row",
    "sum(DISTINCT hour)": "DISTINCT",
    "quantile_disc(hour, 2)": "[0, 1]",
    "quantile_disc(hour, cost)": "number in",
    "arg_min(hour)": "takes 2",
    "count(*); drop table x": "no expression",
    "max(random())": "random",
    "max((SELECT 1))": "subquery",
}


@pytest.mark.parametrize("text", REFUSED)
def test_other_aggregates_are_refused(tmp_path, text):
    write_table(table(), tmp_path / "in.parquet")
    with pytest.raises(JobError, match=r"per_unit\.x") as caught:
        make_release_plan(parse_release_job(job_of(tmp_path, {"x": text})))
    assert REFUSED[text] in str(caught.value)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("per_unit", "privacy", "said"),
    [
        (PER_UNIT, {"unit": "row"}, "per_unit: needs privacy.unit"),
        (PER_UNIT, {"max_rows_per_unit": 3}, "privacy.max_rows_per_unit"),
        (PER_UNIT, {"max_groups_per_unit": 3}, "privacy.max_groups_per_unit"),
        (PER_UNIT | {"by": "month", "groups": [1, 2]}, {}, "privacy.max_groups_per_unit"),
        (PER_UNIT | {"by": "month"}, {"max_groups_per_unit": 2}, "belong together"),
        (PER_UNIT | {"by": "month", "groups": "private"}, {"max_groups_per_unit": 2}, "must be declared"),
        (PER_UNIT | {"by": "month", "groups": {"month": {"edges": [0, 2, 4]}}}, {"max_groups_per_unit": 2}, "derive a column"),
        (PER_UNIT | {"by": "month", "groups": ["jan"]}, {"max_groups_per_unit": 2}, "has type int64"),
        (PER_UNIT | {"by": "n", "groups": [1]}, {"max_groups_per_unit": 2}, "by has a column of this name"),
        ({}, {}, "needs a column"),
        ({"unit": "count(*)"}, {}, "give this one another"),
        ({"x": 3}, {}, "must be an aggregate"),
        ({"x": {"sum": "cost", "lower": 1, "upper": 0}}, {}, "lower must be less"),
        ({"x": {"sum": "cost", "mean": "cost", "lower": 0, "upper": 1}}, {}, "needs one of"),
        ({"x": {"sum": "text", "lower": 0, "upper": 1}}, {}, "bounds are for"),
        (PER_UNIT | {"derive": [{"name": "n", "sql": "1 + n"}]}, {}, "per_unit.derive[0].name"),
        (PER_UNIT | {"where": "hour > 3"}, {}, "per_unit.where"),
    ],
)
def test_what_cannot_be_made_is_refused(tmp_path, per_unit, privacy, said):
    write_table(table(), tmp_path / "in.parquet")
    with pytest.raises(JobError) as caught:
        make_release_plan(parse_release_job(job_of(tmp_path, per_unit, privacy)))
    assert said in str(caught.value)


def test_refusals_of_tables():
    with pytest.raises(ParameterError, match="needs the unit"):
        PrivateTable(table()).per_unit(n="count(*)")
    with pytest.raises(ParameterError, match="without max_rows_per_unit"):
        PrivateTable(table(), unit="unit", max_rows_per_unit=2).per_unit(n="count(*)")
    people = PrivateTable(table(), unit="unit").per_unit(n="count(*)")
    with pytest.raises(ParameterError, match="already"):
        people.per_unit(m="max(n)")
    with pytest.raises(ParameterTypeError, match="n must be an aggregate"):
        PrivateTable(table(), unit="unit").per_unit(n=3)
    with pytest.raises(JobError, match=r"per_unit\.n"):
        PrivateTable(table(), unit="unit").per_unit(n="first(cost)").count(epsilon=1.0)


NAMES = ["a", "b", "a", None, "c"]
NUMBERS = [1, 2, 1, None, 3]
TYPES = {
    "string": pa.array(NAMES), "large_string": pa.array(NAMES, pa.large_string()), "string_view": pa.array(NAMES, pa.string_view()),
    "labels": pa.array(NAMES).dictionary_encode(), "int8": pa.array(NUMBERS, pa.int8()), "date": pa.array(NUMBERS, pa.date32()),
    "uint64": pa.array([each and each + 2**63 for each in NUMBERS], pa.uint64()), "timestamp": pa.array(NUMBERS, pa.timestamp("us")),
    "instant": pa.array(NUMBERS, pa.timestamp("ms", "UTC")),
    "date64": pa.array(NUMBERS, pa.date32()).cast(pa.date64()), "csv": pa.array(NAMES),
}  # fmt: skip


@pytest.mark.some(11)
@pytest.mark.parametrize("keys", [{}, {"by": "text", "groups": ["x", "y"]}])
@pytest.mark.parametrize("kind", TYPES)
def test_units_of_every_type(tmp_path, kind, keys):
    """Of a file without types, too, in which units, keys and arguments are text."""
    if kind == "string_view" and not writes_views():
        pytest.skip("this pyarrow writes no views to Parquet")
    source = tmp_path / ("in.csv" if kind == "csv" else "in.parquet")
    write_table(pa.table({"unit": TYPES[kind], "text": ["x", "y", "y", "x", "x"], "v": [1, 2, 3, 4, 5]}), source)
    per_unit = {"v": "sum(CAST(v AS BIGINT))", "x": "bool_or(text = 'x')", **keys}
    total = {"name": "v", "kind": "sum", "column": "v", "lower": 0, "upper": 9, "epsilon": 1e6, "missing": 0}
    job = job_of(tmp_path, per_unit, {"max_epsilon": 1e7, **({"max_groups_per_unit": 2} if keys else {})})
    job |= {"input": {"path": str(source)}, "query": [{"name": "n", "kind": "count", "epsilon": 1e6}, total]}
    found = release(make_release_plan(parse_release_job(job)))["queries"]
    assert found[0]["value"] == (4 if keys else 3)
    assert found[1]["value"] == pytest.approx(11, abs=0.01)


@pytest.mark.parametrize("digits", ["4, 1", "9, 2", "18, 2", "38, 2"])
def test_sums_and_means_of_computed_decimals(tmp_path, digits):
    write_table(pa.table({"unit": [1, 1, 2], "v": [1.1, 2.2, 3.3]}), tmp_path / "in.parquet")
    per_unit = {"s": f"sum(CAST(v AS DECIMAL({digits})))", "m": f"avg(CAST(v AS DECIMAL({digits})))"}
    queries = [{"name": each, "kind": "sum", "column": each, "lower": 0, "upper": 9, "epsilon": 1e6, "missing": 0} for each in per_unit]
    job = job_of(tmp_path, per_unit, {"max_epsilon": 1e7}) | {"query": queries}
    found = release(make_release_plan(parse_release_job(job)))["queries"]
    assert [query["value"] for query in found] == pytest.approx([6.6, 4.95], abs=0.01)


@pytest.mark.parametrize(
    ("per_unit", "said"),
    [
        ({"x": {"sum": "cost", "lower": 0, "upper": 1e308}}, "the larger magnitude of the two must be in"),
        ({"x": {"sum": "cost", "lower": 0, "upper": 1e-300}}, "the larger magnitude of the two must be in"),
        ({"columns": 3}, "per_unit.columns"),
        ({"columns": {"n": "count(*)"}, "n": "count(cost)"}, "n is a key of the table and of its columns"),
        ({"x": "sum(text)"}, "CAST(x AS DECIMAL(18, 2))"),
    ],
)
def test_other_mistakes_are_told(tmp_path, per_unit, said):
    write_table(table(), tmp_path / "in.parquet")
    with pytest.raises(JobError, match=r"per_unit") as caught:
        make_release_plan(parse_release_job(job_of(tmp_path, per_unit)))
    assert said in str(caught.value)
