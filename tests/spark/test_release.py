"""A release on Spark has the answers of one machine, but for its provenance, whatever asks it and however the table lies."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from dpcore.batch import load_release_job, make_release_plan
from dpcore.batch import release as on_one_machine
from dpcore.spark import release
from support.every_query import UNITS, document, job_text, table

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


@pytest.mark.parametrize("unit", UNITS)
def test_every_query_has_the_answer_of_one_machine(spark, place, unit):
    wanted = on_one_machine(make_release_plan(load_release_job(job_of(place, f"here {unit}", unit))))
    release(spark.read.parquet(str(place / "in.parquet")).repartition(3), job_of(place, f"there {unit}", unit))
    found = json.loads((place / f"there {unit}.json").read_text())
    assert_same(wanted, found)
    assert found["input"] == wanted["input"] | {"format": "spark", "files": 1}
