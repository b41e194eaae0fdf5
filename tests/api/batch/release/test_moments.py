"""Variances, standard deviations and covariances as jobs: near the truth in every format, for every relation, unit and group."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from dpcore.jobs.release_job import load_release_job
from dpcore.query.run import run
from dpcore.query.written_plans import make_release_plan
from support.jobs import FORMATS, write_table
from support.releases import SURE, Counter

ROWS = 3000
SPREADS = {
    "variance": {"kind": "var", "column": "cost", "lower": 10.0, "upper": 90.0, "missing": 20.0},
    "deviation": {"kind": "std", "column": "visits", "lower": 0, "upper": 20, "missing": 0, "ddof": 0},
    "together": {
        "kind": "covariance",
        "columns": ["cost", "visits"],
        "lower": [10.0, 0],
        "upper": [90.0, 20],
        "missing": [20.0, 0],
    },
}


@pytest.fixture
def place(tmp_path, capsys):
    place = Counter(tmp_path, capsys)
    write_table(table(), place.source)
    return place


def table(rows=ROWS):
    """Costs with nulls and NaN, visits that go with them, people and regions."""
    index = np.arange(rows)
    cost = index * 7919 % 1200 / 10.0
    visits = (cost / 5 + index % 7).astype(np.int64)
    holes = [None if i % 19 == 7 else float("nan") if i % 11 == 3 else value for i, value in enumerate(cost.tolist())]
    regions = np.array(["east", "west", "north"])[index % 3]
    return pa.table({"person": index // 3, "cost": pa.array(holes, pa.float64()), "visits": visits, "region": pa.array(regions)})


def truths(rows):
    """What the queries of `SPREADS` are about."""
    cost = [20.0 if value is None or value != value else value for value in rows["cost"].to_pylist()]
    x, y = np.clip(cost, 10, 90), np.clip(rows["visits"].to_numpy(), 0, 20)
    return {"variance": x.var(ddof=1), "deviation": y.std(), "together": np.cov(x, y)[0, 1]}


def check(answers, exact):
    for name, answer in answers.items():
        low, high = answer["interval"]
        assert low <= exact[name] <= high, name
        assert low <= answer["value"] <= high
        assert answer["coverage"] == "at least"
        assert answer["confidence"] == SURE


@pytest.mark.parametrize("source", FORMATS)
def test_in_every_format(place, source):
    place.source = write_table(table(), place.folder / f"in.{source}", row_group_rows=777)
    place.write_release(SPREADS)
    answers = place.answered()
    check(answers, truths(table()))
    assert [answer["ddof"] for answer in answers.values()] == [1, 0, 1]
    assert all(answer["releases"] == 2 for answer in answers.values())
    # With much ε the answer is the truth, but for steps of 2^-31 of the width.
    place.write_release(SPREADS, epsilon=1e8)
    for name, answer in place.answered().items():
        assert answer["value"] == pytest.approx(truths(table())[name], rel=1e-6)


@pytest.mark.some(3)
@pytest.mark.parametrize("privacy", [{"relation": "add_remove"}, {"unit": "person", "max_rows_per_unit": 3}], ids=str)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_where_the_number_of_rows_is_private(place, privacy, delta):
    place.write_release({name: query | {"delta": delta} for name, query in SPREADS.items()}, privacy=privacy)
    answers = place.answered()
    check(answers, truths(table()))
    assert all(abs(answer["count"] - ROWS) < 2000 for answer in answers.values())
    assert [len(answer["noise"]) for answer in answers.values()] == [3, 3, 4]


@pytest.mark.parametrize("privacy", [{}, {"relation": "add_remove"}, {"unit": "person", "max_rows_per_unit": 3}], ids=str)
def test_for_each_group(place, privacy):
    groups = ["west", "nobody", "east"]
    grouped = {name: query | {"group_by": "region", "groups": groups} for name, query in SPREADS.items()}
    place.write_release(grouped, privacy=privacy, epsilon=20.0)
    answers = place.answered()
    for position, group in enumerate(groups):
        part = table().filter(pa.array([each == group for each in table()["region"].to_pylist()]))
        one = {name: answer | {key: answer[key][position] for key in ("value", "stderr", "interval")} for name, answer in answers.items()}
        if len(part):
            check(one, truths(part))
        else:
            assert all(answer["value"] is not None for answer in one.values())


def test_few_rows_get_one_release_and_the_plan_says_when(place):
    write_table(table(50), place.source)
    place.write_release(SPREADS, epsilon=2.0)
    plan = json.loads(place.release("--dry-run", "--json").out)
    assert all("of fewer than 100 rows one release" in query["method"] for query in plan["queries"])
    answers = place.answered()
    check(answers, truths(table(50)))
    assert all(answer["releases"] == 1 and len(answer["noise"]) == 1 and "centre" not in answer for answer in answers.values())
    # n²·Var moves by (n − 1)·w².
    assert answers["variance"]["noise"][0]["sensitivity"] == pytest.approx(49 * 80.0**2)
    place.write_release(SPREADS, privacy={"relation": "add_remove"})
    text = place.release("--dry-run", "--table").out
    assert "spread  variance: two releases: noisy means, then products of distances from them" in text


def test_of_one_row_only_the_variance_of_all_rows_exists(place):
    write_table(table(1), place.source)
    place.write_release({str(ddof): SPREADS["variance"] | {"ddof": ddof} for ddof in (0, 1)}, epsilon=1e8)
    answers = place.answered()
    assert answers["0"]["value"] == pytest.approx(0, abs=1e-3)
    assert (answers["1"]["value"], answers["1"]["note"]) == (None, "there are fewer than 2 rows, and so no answer")


@pytest.mark.long
def test_the_answer_does_not_depend_on_how_rows_are_cut(place):
    for privacy in ({}, {"unit": "person", "max_rows_per_unit": 2}):
        place.write_release(SPREADS, privacy=privacy)
        plan = make_release_plan(load_release_job(place.job), overwrite=True)
        documents = [run(plan, threads=threads, piece_rows=rows) for threads, rows in ((1, None), (3, 100), (2, 17), (4, 2999))]
        assert documents[1:] == documents[:-1]


def test_the_terminal_and_the_page_say_what_was_made(place):
    place.write_release(SPREADS | {"by region": SPREADS["variance"] | {"group_by": "region", "groups": ["east", "west"]}})
    done = place.release("--table", "--report", place.folder / "report")
    assert done.code == 0, done.said
    assert "“variance”, “deviation”, “together” and “by region” may be wider than the confidence says" in done.out
    text = next((place.folder / "report").glob("*.html")).read_text(encoding="utf-8").replace("\xa0", " ")
    for words in (
        "The variance of cost, divided by n − 1.",
        "The standard deviation of visits, divided by n.",
        "The covariance of cost and visits, divided by n − 1.",
        "Values of cost below 10 count as 10, values above 90 as 90, missing ones as 20.",
        "distances were taken from the noisy mean",
        "at least 99.9999 %",
        "The variance of cost, divided by n − 1, in each of 2 declared groups by region.",
    ):
        assert words in text, words


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"kind": "var", "column": "cost", "lower": 0, "upper": 1, "ddof": 2}, ["query[0].ddof = 2", "must be 0 or 1"]),
        ({"kind": "var", "column": "cost"}, ["query[0].lower is required"]),
        ({"kind": "std", "column": "cost", "lower": 3, "upper": 3}, ["lower = 3.0 must be less than upper = 3.0"]),
        ({"kind": "var", "column": "cost", "lower": 0, "upper": 1e200}, ["upper − lower must be in"]),
        ({"kind": "variance", "column": "cost", "lower": 0, "upper": 1}, ["'variance' is unknown", 'write kind = "var"']),
        ({"kind": "covariance", "columns": ["cost"], "lower": [0, 0], "upper": [1, 1]}, ["columns must be a list of two columns"]),
        ({"kind": "covariance", "columns": ["cost", "cost"], "lower": [0, 0], "upper": [1, 1]}, ["two different columns"]),
        ({"kind": "covariance", "columns": ["cost", "visits"], "lower": 0, "upper": [1, 1]}, ["lower must be a list of two numbers"]),
        ({"kind": "covariance", "columns": ["cost", "visits"], "lower": [0, 2], "upper": [1, 1]}, ["column 'visits': lower = 2"]),
        ({"kind": "covariance", "columns": ["cost", "visits"], "lower": [0, 0], "upper": [1, "x"]}, ["upper[1]"]),
        ({"kind": "covariance", "columns": ["cost", "region"], "lower": [0, 0], "upper": [1, 1]}, ["'region' has type string"]),
    ],
)
def test_what_is_refused(place, query, words):
    place.write_release({"m": query})
    done = place.release()
    assert done.code == 2, done.said
    for each in words:
        assert each in done.err, done.err
    assert not place.target.exists()


def test_a_ledger_wants_missing_for_both_columns(place):
    ledger = place.folder / "a.ledger"
    assert place.dpcore("ledger", "create", ledger, "--epsilon", "9").code == 0
    place.write_release({"m": {key: value for key, value in SPREADS["together"].items() if key != "missing"}}, ledger=ledger)
    done = place.release()
    assert (done.code, "missing" in done.err) == (2, True)
    place.write_release(SPREADS, ledger=ledger)
    assert place.release().code == 0
