"""The sample data is what its provenance says, and the demo runs on it."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dpcore.batch import load_job

pytestmark = pytest.mark.source_tree


def test_the_health_column_restates_its_indicators(repository):
    table = pq.read_table(repository / "examples/randhie.parquet")
    assert len(table) == 20_190
    for category, indicator in {"good": "hlthg", "fair": "hlthf", "poor": "hlthp"}.items():
        assert pc.equal(table["health"].cast("string"), category).cast("int64").equals(table[indicator])
    assert set(table["health"].unique().to_pylist()) == {"excellent", "good", "fair", "poor"}


def test_the_job_uses_every_mechanism_within_its_budget(repository):
    job = load_job(repository / "examples/job.toml")
    assert {column.mechanism for column in job.column} == {"laplace", "gaussian", "discrete_laplace", "discrete_gaussian"}
    assert job.secure


def test_the_demo_shows_where_the_result_is_and_what_the_noise_predicts(repository, tmp_path):
    shutil.copytree(repository / "examples", tmp_path / "examples")
    done = subprocess.run([sys.executable, tmp_path / "examples/demo.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "out/randhie-private.parquet" in done.stdout
    assert "a person with k rows is protected at k·ε" in done.stdout
    assert all(name in done.stdout for name in ("mdvis", "disea", "lpi", "idp", "predicts"))
    assert len(pq.read_table(tmp_path / "out/randhie-private.parquet")) == 20_190
