"""`where`, `[[derive]]` and `[[lookup]]`: a job with them answers as one on the table that they describe, with the same key bit by bit."""

from __future__ import annotations

import datetime as dt
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dpcore.jobs.release_job import load_release_job
from dpcore.query.run import run
from dpcore.query.written_plans import make_release_plan
from support.jobs import FORMATS, toml, write_table
from support.releases import QUERIES, Counter, clinic, release_text

GROUPED = {"group_by": "region", "groups": ["east", "west"]}
SPREADS = {
    "variance": {"kind": "var", "column": "cost", "lower": 10.0, "upper": 90.0, "missing": 20.0},
    "together": {"kind": "covariance", "columns": ["cost", "visits"], "lower": [0, 0], "upper": [90, 20], "missing": [20, 0]},
    "by region": {"kind": "mean", "column": "visits", "lower": 0, "upper": 20, "missing": 0} | GROUPED,
    "median": {"kind": "median", "column": "cost", "grid": {"start": 0, "stop": 120, "step": 0.5}, "missing": 0} | GROUPED,
}
EVERY = QUERIES | SPREADS
ADD_REMOVE = {"relation": "add_remove"}


@pytest.fixture
def place(tmp_path, capsys):
    return Counter(tmp_path, capsys)


def job_text(place, queries, *, where=None, derive=(), lookup=(), **settings):
    """A job with further sections."""
    text = release_text(place.source, place.target, queries, **settings)
    if where is not None:
        text = f"where = {toml(where)}\n" + text
    for name, sql in derive:
        text += f"[[derive]]\nname = {toml(name)}\nsql = {toml(sql)}\n"
    for path, key, columns in lookup:
        text += f"[[lookup]]\npath = {toml(str(path))}\nkey = {toml(key)}\ncolumns = {toml(columns)}\n"
    return text


def answers(place, queries, table=None, **settings):
    """The document of a job, keyed."""
    if table is not None:
        write_table(table, place.source, row_group_rows=97)
    place.job.write_text(job_text(place, queries, **settings), encoding="utf-8")
    return run(make_release_plan(load_release_job(place.job), overwrite=True))


def values(document):
    return [
        {key: each for key, each in query.items() if key not in {"where", "column", "columns", "group_by"}} for query in document["queries"]
    ]


@pytest.mark.long
@pytest.mark.parametrize("where", ["visits >= 5 AND region <> 'east'", "region IS NULL", "cost > 20", "visits > 1000"])
def test_the_condition_of_a_job_means_the_table_without_other_rows(place, where):
    table = clinic(1000)
    filtered = answers(place, EVERY, table, where=where, privacy=ADD_REMOVE)
    visits, region, cost = (table[name].to_pylist() for name in ("visits", "region", "cost"))
    passes = {
        "visits >= 5 AND region <> 'east'": [v >= 5 and r is not None and r != "east" for v, r in zip(visits, region, strict=True)],
        "region IS NULL": [r is None for r in region],
        "cost > 20": [c is not None and c > 20 for c in cost],
        "visits > 1000": [False] * 1000,
    }[where]
    assert filtered["where"] == where
    assert "rows" not in filtered
    kept = table.filter(pa.array(passes))
    assert values(filtered) == values(answers(place, EVERY, kept, privacy=ADD_REMOVE))
    # The condition of each query instead of the job's.
    queries = {name: query | {"where": where} for name, query in EVERY.items()}
    assert values(answers(place, queries, table, privacy=ADD_REMOVE)) == values(filtered)


@pytest.mark.long
@pytest.mark.parametrize("source", FORMATS)
def test_in_every_format_however_it_is_cut_and_by_however_many_threads(place, source):
    place.source = place.folder / f"in.{source}"
    table = clinic(3000)
    count = "CAST(visits AS INTEGER)" if source == "csv" else "visits"
    where, derive = f"{count} % 3 <> 0 OR region = 'east'", [("band", f"CASE WHEN {count} < 10 THEN 'few' ELSE 'many' END")]
    queries = {
        "bands": {"kind": "histogram", "column": "band", "categories": ["few", "many"], "missing": "few", "unknown": "few"},
        "far": {"kind": "count", "where": "band = 'many' AND region IS NOT NULL"},
        "mean": {"kind": "mean", "column": "visits", "lower": 0, "upper": 20, "missing": 0, "group_by": "band", "groups": ["many", "few"]},
    }
    write_table(table, place.source, row_group_rows=97)
    place.job.write_text(job_text(place, queries, where=where, derive=derive), encoding="utf-8")
    found = []
    for threads, piece_rows in ((1, None), (2, 50), (3, 700)):
        plan = make_release_plan(load_release_job(place.job), overwrite=True)
        found.append(run(plan, threads=threads, piece_rows=piece_rows))
    assert found[0] == found[1] == found[2]
    place.source = place.folder / "in.parquet"
    write_table(table, place.source)
    place.job.write_text(
        job_text(place, queries, where=where.replace(count, "visits"), derive=[(n, s.replace(count, "visits")) for n, s in derive])
    )
    assert values(run(make_release_plan(load_release_job(place.job), overwrite=True))) == values(found[0])


def test_derived_columns_are_like_columns_of_the_input(place):
    table = clinic(1000)
    visits, cost = table["visits"].to_numpy(), table["cost"].to_pylist()
    beside = table.append_column("double", pa.array(visits.astype(np.int64) * 2)).append_column(
        "sum", pa.array([None if c is None or c != c else c + 2.0 * v for c, v in zip(cost, visits.tolist(), strict=True)], pa.float64())
    )
    beside = beside.append_column("high", pa.array([None if c is None or c != c else c > 60 for c in cost], pa.bool_()))
    derive = [("double", "visits * 2"), ("sum", "cost + double"), ("high", "cost > 60"), ("unused", "1 // visits")]
    queries = {
        "sum": {"kind": "sum", "column": "double", "lower": 0, "upper": 40, "missing": 0},
        "mean": {"kind": "mean", "column": "sum", "lower": 0.0, "upper": 90.0, "missing": 1.0},
        "high": {"kind": "mean", "column": "high", "lower": 0, "upper": 1, "missing": 0},
        "codes": {"kind": "top_s", "column": "double", "s": 3, "k": 60, "values": True},
        "made": place.synthetic() | {"columns": [{"name": "double", "edges": [0, 1, 5, 10, 60], "missing": 0}]},
    }
    assert values(answers(place, queries, table, derive=derive)) == values(answers(place, queries, beside))


@pytest.mark.parametrize("where", [{"where": "adult"}, {}])
def test_a_derived_column_that_is_a_group_can_be_the_condition(place, where):
    query = {"kind": "count", "group_by": "adult", "groups": [False, True], "epsilon": 1e5}
    queries = {"it": query if where else query | {"where": "adult"}}
    table = pa.table({"age": [10, 18, None, 30]})
    assert answers(place, queries, table, derive=[("adult", "age >= 18")], **where)["queries"][0]["value"] == [0, 2]


def test_the_number_of_rows_is_private_after_a_condition(place):
    table = clinic(400)
    bounded = {"column": "visits", "lower": 1, "upper": 3}
    queries = {"n": {"kind": "count"}, "m": {"kind": "mean"} | bounded, "s": {"kind": "sum"} | bounded}
    open_, hidden = answers(place, queries, table), answers(place, queries, where="visits > 2")
    assert [query["privacy"]["epsilon"] for query in open_["queries"]] == [0.0, 1.0, 1.0]
    assert [query["privacy"]["epsilon"] for query in hidden["queries"]] == [1.0, 1.0, 1.0]
    assert hidden["privacy"]["epsilon"] == 3.0
    assert open_["rows"] == 400
    assert "rows" not in hidden
    assert [query["noise"][0]["sensitivity"] for query in open_["queries"][1:]] == [2.0, 2.0]
    # One number of [1, 3] leaves or enters, or one turns into another: 3. The mean is about its middle, 2, and is over a noisy count.
    assert [[noise["sensitivity"] for noise in query["noise"]] for query in hidden["queries"]] == [[1], [2.0, 1], [3.0]]
    assert "count" in hidden["queries"][1]
    single = answers(place, {"n": {"kind": "count", "where": "visits > 2"}, "all": {"kind": "count"}})
    assert [query["privacy"]["epsilon"] for query in single["queries"]] == [1.0, 0.0]
    assert single["rows"] == 400


def test_rows_that_do_not_pass_take_no_place_of_their_units(place):
    """Each person has five rows, of which two pass; with two rows a person all of them stay, where the condition is the job's."""
    people = 200
    table = pa.table({"person": np.repeat(np.arange(people), 5), "place": np.tile(np.arange(5), people), "x": np.ones(5 * people)})
    privacy = {"unit": "person", "max_rows_per_unit": 2}
    query = {"n": {"kind": "count", "epsilon": 1e6}}
    assert answers(place, query, table, where="place >= 3", privacy=privacy)["queries"][0]["value"] == 2 * people
    after = answers(place, {"n": {"kind": "count", "epsilon": 1e6, "where": "place >= 3"}}, privacy=privacy)["queries"][0]["value"]
    assert people / 2 < after < 1.1 * people  # 2 of 5 rows are chosen, and 2 of 5 pass
    # Groups likewise, also of a derived column.
    grouped = {"n": {"kind": "count", "epsilon": 1e6, "group_by": "half", "groups": [1, 2]}}
    found = answers(place, grouped, derive=[("half", "place // 2")], where="place >= 3", privacy=privacy | {"max_groups_per_unit": 1})
    assert sum(found["queries"][0]["value"]) == people


def test_units_and_their_parts_are_those_of_rows_that_pass(place):
    table = clinic(600)
    rows = [row for row in table.to_pylist() if row["visits"] > 20]
    privacy = {"unit": "person", "max_rows_per_unit": 1000}
    queries = {
        "people": {"kind": "count_distinct"},
        "in the east": {"kind": "count_distinct", "where": "region = 'east'"},
        "given": {"kind": "mean", "column": "cost", "lower": 0, "upper": 120, "missing": "skip", "where": "visits < 25"},
    }
    sure = {name: query | {"epsilon": 1e5} for name, query in queries.items()}
    found = answers(place, sure, table, where="visits > 20", privacy=privacy)["queries"]
    assert found[0]["value"] == len({row["person"] for row in rows})
    assert found[1]["value"] == len({row["person"] for row in rows if row["region"] == "east"})
    costs = [row["cost"] for row in rows if row["visits"] < 25 and row["cost"] is not None and row["cost"] == row["cost"]]
    assert found[2]["value"] == pytest.approx(float(np.clip(costs, 0, 120).mean()), abs=0.1)


def test_undeclared_cells_of_rows_that_do_not_pass_end_no_job(place):
    table = pa.table({"x": pa.array([1.0, None, 3.0]), "r": pa.array(["a", "b", "q"])})
    queries = {
        "mean": {"kind": "mean", "column": "x", "lower": 0, "upper": 5, "where": "x IS NOT NULL"},
        "cells": {"kind": "histogram", "column": "r", "categories": ["a", "b"], "where": "r IN ('a', 'b')"},
    }
    assert len(answers(place, queries, table)["queries"]) == 2
    place.job.write_text(job_text(place, {"mean": {"kind": "mean", "column": "x", "lower": 0, "upper": 5}}, where="r <> 'a'"))
    done = place.release("--overwrite", "--curator")
    assert done.code == 3
    assert "row 1 (counted from 0)" in done.err


@pytest.mark.long
@pytest.mark.parametrize("source", FORMATS)
def test_no_row_ends_a_job_that_has_paid(place, source):
    """Cells on which every operation of the job fails, one way or another."""
    place.source = place.folder / f"in.{source}"
    numbers = [0, 1, -(2**63), 2**63 - 1, None, -1]
    texts = ["", "x" * 5000, "-1e400", "2024-02-31", None, "\U0001f600"]
    table = pa.table({"n": pa.array(numbers * 20), "s": pa.array(texts * 20), "k": pa.array(["a", "b", "z", None] * 30)})
    write_table(table, place.source, row_group_rows=7)
    n = "TRY_CAST(n AS BIGINT)" if source == "csv" else "n"
    derive = [
        ("ratio", f"1000 // {n} + {n} * {n}"),
        ("day", "CAST(s AS DATE) + CAST(10 * CAST(s AS DOUBLE) AS INTEGER)"),
        ("late", "day > '2020-01-01' OR ln(ratio) > 0"),
        ("word", "upper(s) || '-' || CAST(ratio AS VARCHAR)"),
    ]
    queries = {
        "sum": {"kind": "sum", "column": "ratio", "lower": 0, "upper": 5, "missing": 1},
        "words": {"kind": "histogram", "column": "word", "categories": ["A-1", "B"], "missing": "B", "unknown": "B"},
        "late": {"kind": "count", "where": "late OR sqrt(ratio) > 3", "group_by": "maker", "groups": ["A", "B"]},
    }
    public = place.folder / "makers.csv"
    public.write_text("k,maker\na,A\nb,B\n")
    ledger = place.folder / "l.ledger"
    assert place.dpcore("ledger", "create", ledger, "--epsilon", 10).code == 0
    lookup = [(public, "k", ["maker"])]
    place.job.write_text(job_text(place, queries, where=f"{n} % 7 <> 3 OR s < 'a'", derive=derive, lookup=lookup, ledger=ledger))
    done = place.release()
    assert done.code == 0, done.said


def test_single_brackets_are_explained(place):
    write_table(clinic(5), place.source)
    text = job_text(place, {"n": {"kind": "count"}})
    place.job.write_text(text + '[derive]\nname = "a"\nsql = "visits"\n')
    assert "write [[derive]] above each derive" in place.release().err


# Public tables


def planes(place, ending="parquet", **changed):
    columns = {
        "tail": ["N1", "N2", "N3"],
        "seats": pa.array([100, 200, None], pa.int32()),
        "maker": pa.array(["A", "B", "A"]).dictionary_encode(),
    }
    path = place.folder / f"planes.{ending}"
    write_table(pa.table(columns | changed), path)
    return path


@pytest.mark.some(2)
@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("source", FORMATS)
def test_a_public_table_is_joined_by_its_key(place, source, ending):
    place.source = place.folder / f"in.{source}"
    tails = pa.array(["N1", "N9", None, "N2", "N3"] * 20)
    table = pa.table({"tail": tails.dictionary_encode() if source == "parquet" else tails, "delay": np.arange(100)})
    queries = {
        "seats": {"kind": "sum", "column": "seats", "lower": 0, "upper": 300, "missing": 0, "epsilon": 1e5},
        "makers": {"kind": "count", "group_by": "maker", "groups": ["A", "B"], "epsilon": 1e5},
        "large": {"kind": "count", "where": "big AND maker = 'B'", "epsilon": 1e5},
    }
    if source == "csv":
        table = table.set_column(0, "tail", pc.fill_null(tails, ""))
    found = answers(place, queries, table, derive=[("big", "seats >= 150")], lookup=[(planes(place, ending), "tail", ["seats", "maker"])])
    seats, makers, large = (query["value"] for query in found["queries"])
    assert seats == pytest.approx(20 * 300, abs=0.1)
    assert makers == [40, 20]
    assert large == 20
    assert found["lookup"][0]["key"] == "tail"


@pytest.mark.parametrize(
    ("changed", "lookup", "said"),
    [
        ({"tail": ["N1", "N2", "N1"]}, {}, "1 keys of column 'tail'"),
        ({"tail": ["N1", None, "N3"]}, {}, "1 rows without a key"),
        ({"tail": [1, 2, 3]}, {}, "is VARCHAR in the input and BIGINT in"),
        ({}, {"key": "nothing"}, "is not a column of the input"),
        ({}, {"key": "ratio"}, "has a type in the input that cannot be a key"),
        ({}, {"columns": ["wings"]}, "has no column 'wings'; it has tail, seats, maker"),
        ({}, {"columns": ["delay"]}, "there is a column 'delay' already"),
        ({"seats": pa.array([[1], [2], [3]])}, {}, "cannot be looked up"),
        ({}, {"columns": []}, "lookup[0].columns: must not be empty"),
    ],
)
def test_a_table_that_cannot_be_joined_is_refused_before_the_first_row(place, changed, lookup, said):
    write_table(pa.table({"tail": ["N1"], "delay": [1], "ratio": [0.5]}), place.source)
    public = planes(place, **changed)
    entry = {"key": "tail", "columns": ["seats"]} | lookup
    place.job.write_text(job_text(place, {"n": {"kind": "count"}}, lookup=[(public, entry["key"], entry["columns"])]))
    done = place.release()
    assert done.code == 2
    assert said in done.err
    assert not place.target.exists()


def test_the_input_is_no_public_table(place):
    write_table(pa.table({"tail": ["N1"], "delay": [1]}), place.source)
    place.job.write_text(job_text(place, {"n": {"kind": "count"}}, lookup=[(place.source, "tail", ["delay"])]))
    done = place.release()
    assert done.code == 2
    assert "look-up" in done.err


# Mistakes


@pytest.mark.parametrize(
    ("settings", "query", "said"),
    [
        ({"where": "visits"}, {}, "where = 'visits' must be a condition"),
        ({"where": "visit > 1"}, {}, "Did you mean 'visits'?"),
        ({"where": "visits > (SELECT 1)"}, {}, "has a subquery"),
        ({"where": ""}, {}, "where = '': must be a string that is not empty"),
        ({}, {"where": "random() < 0.5"}, "query[0].where = 'random() < 0.5' calls 'random'"),
        ({}, {"where": "sum(visits) > 1"}, "calls 'sum'"),
        ({"derive": [("visits", "1 + visits")]}, {}, "derive[0].name = 'visits': there is a column of that name already"),
        ({"derive": [("a", "visits"), ("a", "visits")]}, {}, "derive[1].name = 'a'"),
        ({"derive": [("a", "b + 1"), ("b", "visits")]}, {}, "derive[0].sql = 'b + 1' names 'b', which is not a column"),
        ({"derive": [("a", "CAST(visits AS HUGEINT)")]}, {}, "is an integer of 128 bits"),
        (
            {"derive": [("a", "region || 'x'")]},
            {"kind": "sum", "column": "a", "lower": 0, "upper": 1, "missing": 0},
            "column 'a' has type string",
        ),
    ],
)  # fmt: skip
def test_a_wrong_expression_is_refused_before_the_first_row(place, settings, query, said):
    write_table(clinic(20), place.source)
    place.job.write_text(job_text(place, {"n": {"kind": "count"} | query}, **settings))
    done = place.release()
    assert done.code == 2, done.said
    assert said in done.err
    assert not place.target.exists()


@pytest.mark.parametrize("more", ['where = "a > 1"\n', '[[derive]]\nname = "b"\nsql = "a"\n', '[[lookup]]\npath = "p.csv"\nkey = "a"\n'])
def test_a_local_job_has_none_of_it_and_says_why(place, more):
    write_table(pa.table({"a": [1, 2]}), place.source)
    text = (
        f'version = 1\n{more if more.startswith("where") else ""}[input]\npath = {toml(str(place.source))}\n[output]\npath = "o.parquet"\n'
    )
    text += '[privacy]\nmax_epsilon = 1\n[[column]]\nname = "a"\nmechanism = "laplace"\nepsilon = 1\nlower = 0\nupper = 1\n'
    place.job.write_text(text + ("" if more.startswith("where") else more))
    done = place.dpcore("privatize", place.job)
    assert done.code == 2
    assert "a filter would publish how many rows pass" in done.err


def test_a_ledger_job_with_expressions_is_charged_once_and_named_by_them(place):
    write_table(clinic(100), place.source)
    ledger = place.folder / "l.ledger"
    assert place.dpcore("ledger", "create", ledger, "--epsilon", 10).code == 0
    queries = {"n": {"kind": "count"}}
    place.job.write_text(job_text(place, queries, where="visits > 3", ledger=ledger))
    first = place.release()
    assert first.code == 0, first.said
    again = place.release()
    assert again.code == 0
    assert "already published" in again.err
    place.job.write_text(job_text(place, queries, where="visits > 4", ledger=ledger))
    assert place.release().code == 2  # another job, whose output exists


def test_dates_and_times_can_be_compared_and_cut(place):
    days = [dt.date(2024, 1, 1) + dt.timedelta(days=i) for i in range(366)]
    table = pa.table(
        {"day": pa.array(days), "moment": pa.array([dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC) + dt.timedelta(days=i) for i in range(366)])}
    )
    queries = {
        "spring": {"kind": "count", "where": "day BETWEEN '2024-03-01' AND DATE '2024-05-31'", "epsilon": 1e5},
        "late": {"kind": "count", "where": "moment >= TIMESTAMP '2024-12-01 00:00:00'", "epsilon": 1e5},
        "months": {"kind": "histogram", "column": "month", "categories": list(range(1, 13)), "missing": 1, "unknown": 1, "epsilon": 1e5},
    }
    found = answers(place, queries, table, derive=[("month", "CAST(month(day) AS INTEGER)")])
    assert [query["value"] for query in found["queries"][:2]] == [92, 31]
    assert found["queries"][2]["value"] == [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


@pytest.mark.long
def test_the_document_and_its_page_can_be_made_of_it(place):
    write_table(clinic(300), place.source)
    place.job.write_text(job_text(place, EVERY, where="visits > 1", derive=[("d", "visits * 2")]))
    done = place.release("--overwrite", "--report", place.folder / "report")
    assert done.code == 0, done.said
    assert json.loads(place.target.read_text())["derive"] == [{"name": "d", "sql": "visits * 2"}]
    assert place.release("--overwrite", "--dry-run").code == 0
