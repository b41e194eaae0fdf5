"""A release on Spark has the answers of one machine, but for its provenance, whatever asks it and however the table lies."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.batch import load_release_job, make_release_plan
from dpcore.batch import release as on_one_machine
from dpcore.spark import release
from support.every_query import EVERY_UNIT, document, job_text, table
from support.jobs import KEY

ROWS, PEOPLE = 700, 90
PROVENANCE = {"run", "time", "input", "job"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the table."""
    folder = tmp_path_factory.mktemp("release")
    pq.write_table(table(ROWS, PEOPLE), folder / "in.parquet", row_group_size=100)
    return folder


def said(answer):
    """The document without its provenance."""
    return {key: value for key, value in answer.items() if key not in PROVENANCE}


def assert_same(wanted, found):
    for one, other in zip(wanted["queries"], found["queries"], strict=True):
        assert one == other, one["name"]
    assert said(wanted) == said(found)


def job_of(place, name, unit, **options):
    """A job file."""
    files = {"input": {"path": str(place / "in.parquet")}, "output": {"path": str(place / f"{name}.json")}}
    path = place / f"{name}.toml"
    path.write_text(job_text(files | document(place, unit, **options)))
    return path


@pytest.mark.parametrize("unit", EVERY_UNIT)
def test_every_query_has_the_answer_of_one_machine(spark, place, unit):
    wanted = on_one_machine(make_release_plan(load_release_job(job_of(place, f"here {unit}", unit))))
    release(spark.read.parquet(str(place / "in.parquet")).repartition(3), job_of(place, f"there {unit}", unit))
    found = json.loads((place / f"there {unit}.json").read_text())
    assert_same(wanted, found)
    assert found["input"] == wanted["input"] | {"format": "spark", "files": 1}


def test_nested_groups_have_the_answer_of_one_machine(spark, place):
    """Of rows, and of persons whose rows are chosen: parents are declared for one query, and looked up for the others."""
    lands = place / "lands.parquet"
    pq.write_table(pa.table({"c": list(range(7)), "land": list("xxyyyzz")}), lands)
    nested = {"group_by": ["land", "c"], "groups": {"c": [1, 2, 3, 5]}, "consistent": True}
    numbers = {"column": "v", "lower": -2, "upper": 4, "missing": 0}
    queries = [
        {"kind": "count", "epsilon": 1.0, **nested},
        {"kind": "sum", "epsilon": 1.0, **numbers, **nested, "consistent": {"levels": {"total": 1, "c": 3}}},
        {"kind": "sum", "epsilon": 1.0, "column": "v", "missing": 0.0, "max_sum_per_unit": 3.0, **nested},
        {"kind": "histogram", "epsilon": 1.0, "column": "g", "categories": ["a", "b"], "missing": "a", "unknown": "skip", **nested}
        | {"group_by": ["g", "c"], "groups": {"g": ["a", "b"], "c": [1, 2]}, "consistent": {"integral": True}},
    ]
    job = {
        "version": 1, "input": {"path": str(place / "in.parquet")}, "output": {"path": str(place / "nested.json")},
        "privacy": {"max_epsilon": 10, "unit": "person", "max_rows_per_unit": 3}, "testing": {"key_hex": KEY.hex()},
        "lookup": [{"path": str(lands), "key": "c", "columns": ["land"]}],
        "query": [{"name": f"query {place}", **query} for place, query in enumerate(queries)],
    }  # fmt: skip
    path = place / "nested.toml"
    path.write_text(job_text(job))
    wanted = on_one_machine(make_release_plan(load_release_job(path)))
    (place / "nested.json").unlink()
    release(spark.read.parquet(str(place / "in.parquet")).repartition(3), path)
    assert_same(wanted, json.loads((place / "nested.json").read_text()) | {"input": wanted["input"]})


def test_a_running_total_goes_on_on_spark(spark, place):
    """Each step by another engine, on one state: the answers of one machine."""
    query = {
        "name": "total",
        "kind": "running_total",
        "steps": 4,
        "epsilon": 1.0,
        "where": "p // q > 0",
        "group_by": "g",
        "groups": ["a", "b"],
    }
    frame = spark.read.parquet(str(place / "in.parquet")).repartition(3)
    wanted, found = [], []
    for number in (1, 2, 3):
        for kind, answers in (("here", wanted), ("there", found)):
            job = {
                "version": 1,
                "input": {"path": str(place / "in.parquet")},
                "output": {"path": str(place / kind / f"total {number}.json")},
            }
            job |= {"privacy": {"max_epsilon": 1.0, **EVERY_UNIT["person"]}, "testing": {"key_hex": KEY.hex()}}
            job["query"] = [query | {"step": number, "state": str(place / f"states {kind}" / "total.state")}]
            path = place / f"{kind} {number}.toml"
            path.write_text(job_text(job))
            if kind == "here" or number == 2:
                answers.append(on_one_machine(make_release_plan(load_release_job(path))))
            else:
                release(frame, path)
                answers.append(json.loads((place / kind / f"total {number}.json").read_text()))
    for one, other in zip(wanted, found, strict=True):
        assert_same(one, other)
    assert len({str(each["queries"][0]["value"]) for each in wanted}) == 3
    # The last step again: the stored answer.
    again = release(frame, path, overwrite=True)
    assert again.document["value"] == found[-1]["queries"][0]["value"]
