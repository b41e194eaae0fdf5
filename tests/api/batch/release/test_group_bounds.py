"""`bounds = "private"` with groups, as jobs: one pair of bounds for all groups, and each group's answer between them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from dpcore.accounting import rho_pure
from dpcore.jobs.release_job import load_release_job
from dpcore.query.run import run
from dpcore.query.written_plans import make_release_plan
from support.jobs import write_table
from support.releases import Counter

ROWS = 4000
GROUPS = ["a", "b", "empty"]
FOUND = {
    "total": {"kind": "sum"},
    "average": {"kind": "mean"},
    "variance": {"kind": "var"},
    "deviation": {"kind": "std", "ddof": 0},
    "middle": {"kind": "median"},
    "tails": {"kind": "quantile", "q": [0.1, 0.9]},
}
COMMON = {"column": "x", "missing": 0, "bounds": "private", "bounds_epsilon": 2.0, "group_by": "region", "groups": GROUPS}
FOUND = {name: {**query, **COMMON} for name, query in FOUND.items()}


def table(rows=ROWS):
    """Numbers below 100 in two groups, larger ones in no group, and holes."""
    index = np.arange(rows)
    region = np.array(["a", "b", "a", "none"])[index % 4]
    x = (index * 7919 % 1000) / 10.0 - 20
    x = np.where(region == "none", 1e6, np.where(region == "b", x / 4, x))
    holes = [None if i % 10 == 9 else value for i, value in enumerate(x.tolist())]
    return pa.table({"x": pa.array(holes, pa.float64()), "person": index // 2, "region": region})


@pytest.fixture
def place(tmp_path, capsys):
    place = Counter(tmp_path, capsys)
    write_table(table(), place.source)
    return place


def exact(name, x):
    return {"total": np.sum, "average": np.mean, "variance": lambda v: np.var(v, ddof=1), "deviation": np.std}[name](x)


def check(answers, group, skips=False):
    """Answers about a group lie about those of its own rows between the bounds."""
    frame = table().to_pandas()
    x = frame["x"][frame["region"] == GROUPS[group]]
    for name, answer in answers.items():
        assert (answer["lower"], answer["upper"]) == (-32.0, 128.0), name
        y = np.clip(x.dropna() if skips else x.fillna(0), -32, 128)
        if "q" in answer:
            wanted = np.atleast_1d(np.quantile(y, answer["q"]))
            assert np.allclose(np.atleast_1d(answer["value"][group]), wanted, atol=4)
            assert "grid" not in answer
        else:
            low, high = answer["interval"][group]
            assert low <= exact(name, y) <= high, name


@pytest.mark.long
@pytest.mark.parametrize("privacy", [{}, {"relation": "add_remove"}, {"unit": "person", "max_rows_per_unit": 2}], ids=str)
def test_groups_have_one_pair_of_bounds_from_the_rows_of_all_groups(place, privacy):
    place.write_release(FOUND, privacy=privacy, epsilon=40.0)
    answers = place.answered()
    for group in range(2):
        check(answers, group)
    for answer in answers.values():
        assert answer["bounds"]["epsilon"] == 2.0
        assert answer["noise"][0]["law"] == "discrete_laplace"
        assert answer["noise"][0]["sensitivity"] == {"add_remove": 1}.get(privacy.get("relation"), 4 if privacy else 2)
        assert answer["privacy"]["epsilon"] == 40.0


def test_a_job_of_all_ways_at_once(place):
    """Skipped rows, a condition, private groups, δ and queries without found bounds beside them."""
    queries = {
        "keys": {"kind": "groups", "group_by": "region", "epsilon": 10.0, "delta": 1e-4},
        "skipped": FOUND["average"] | {"missing": "skip"},
        "gaussian": FOUND["total"] | {"delta": 1e-5},
        "middle": FOUND["middle"] | {"missing": "skip"},
        "few": FOUND["average"] | {"where": "x < 8 AND region <> 'b'"},
        "private": FOUND["average"] | {"groups": "private"},
        "private middle": FOUND["middle"] | {"groups": "private"},
        "plain": {"kind": "count", "group_by": "region", "groups": GROUPS},
        "whole": {key: value for key, value in FOUND["average"].items() if key not in {"group_by", "groups"}},
    }
    place.write_release(queries, epsilon=40.0)
    answers = place.answered()
    check({"average": answers["skipped"], "middle": answers["middle"]}, 0, skips=True)
    check({"total": answers["gaussian"]}, 1)
    assert answers["gaussian"]["noise"][1]["law"] == "gaussian"
    assert answers["few"]["upper"] == 8.0
    assert answers["whole"]["upper"] == 2.0**20
    assert answers["private"]["groups"] == ["a", "b", "none"]
    assert answers["private"]["upper"] == 2.0**20
    assert answers["private middle"]["value"][2] == pytest.approx(1e6, rel=0.05)


def test_the_answer_does_not_depend_on_how_rows_are_cut(place):
    place.write_release(FOUND, epsilon=4.0)
    plan = make_release_plan(load_release_job(place.job), overwrite=True)
    documents = [run(plan, threads=threads, piece_rows=rows) for threads, rows in ((1, None), (3, 100), (2, 1717))]
    assert documents[1:] == documents[:-1]


def test_bounds_are_those_of_a_query_without_groups_where_each_row_is_in_one(place):
    everything = {"groups": ["a", "b", "none"]}
    queries = {name: query | everything for name, query in FOUND.items() if name != "tails"}
    whole = {name: {key: each for key, each in query.items() if key not in {"group_by", "groups"}} for name, query in queries.items()}
    found = []
    for each in (queries, whole):
        place.write_release(each, epsilon=40.0)
        found.append({name: (answer["lower"], answer["upper"], answer["noise"][0]) for name, answer in place.answered().items()})
    assert {name: bounds for name, bounds in found[0].items() if name != "middle"} == {
        name: bounds for name, bounds in found[1].items() if name != "middle"
    }


@pytest.mark.long
def test_few_rows_have_no_bounds_and_no_answer_and_the_job_ends_well(place):
    write_table(table(8), place.source)
    place.write_release(FOUND, epsilon=4.0)
    for answer in place.answered().values():
        assert answer["value"] == answer["stderr"] == answer["interval"] == [None] * 3
        assert (answer["lower"], answer["upper"]) == (None, None)
        assert "no power of two has enough rows" in answer["note"][2]
        assert len(answer["noise"]) == 1
    done = place.release("--overwrite", "--table", "--report", place.folder / "report")
    assert done.code == 0, done.said
    assert "no power of two has enough rows" in done.out
    page = next((place.folder / "report").glob("*.html")).read_text(encoding="utf-8").replace("\xa0", " ")
    assert "o bounds were found: no power of two holds more than 19 noisy rows" in page


@pytest.mark.long
def test_the_terminal_and_the_page_say_how_bounds_are_found(place):
    place.write_release(FOUND, epsilon=4.0)
    text = place.release("--dry-run", "--table").out
    assert "bounds  average: found from powers of two with more than 19 rows after noise of scale 1, for 2.0 of ε" in text
    plan = json.loads(place.release("--dry-run", "--json", "--overwrite").out)
    for query in plan["queries"]:
        assert (query["lower"], query["upper"], query["stderr"], query["bounds"]["threshold"]) == (None, None, None, 19)
        assert query["groups"] == GROUPS
    done = place.release("--table", "--report", place.folder / "report")
    assert done.code == 0, done.said
    page = next((place.folder / "report").glob("*.html")).read_text(encoding="utf-8").replace("\xa0", " ")
    assert "Values below −32 count as −32, values above 128 as 128; these bounds were found privately, with ε = 2, " in page


def test_zcdp_adds_up_bins_and_answers(place):
    queries = {name: query | {"bounds_epsilon": 0.25} for name, query in FOUND.items()}
    place.write_release(queries, privacy={"accounting": "zcdp", "max_epsilon": 20.0, "max_delta": 1e-6})
    for answer in make_release_plan(load_release_job(place.job)).estimators:
        assert rho_pure(0.25) < answer.rho < rho_pure(1.0)


@pytest.mark.parametrize("source", ["file", "list"])
def test_more_groups_than_quantiles_can_have(place, source):
    many = {"groups": {"region": {"k": 5378}}}
    if source == "file":
        write_table(pa.table({"region": np.arange(5378)}), place.folder / "cells.parquet")
        many = {"groups": str(place.folder / "cells.parquet")}
    write_table(pa.table({"x": [1.0], "region": [0]}), place.source)
    place.write_release({"m": FOUND["middle"] | many}, epsilon=4.0)
    assert 'groups must be at most 5377 for a quantile with bounds = "private", got 5378' in place.release().err
    place.write_release({"m": FOUND["average"] | many}, epsilon=4.0)
    assert len(place.answered()["m"]["value"]) == 5378
