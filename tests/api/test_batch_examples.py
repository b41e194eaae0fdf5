"""The sample data is what its provenance says, and the demo runs on it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import numpy as np
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


def test_the_coins_column_restates_its_logarithm(repository):
    table = pq.read_table(repository / "examples/randhie.parquet")
    coins = table["coins"].to_numpy()
    assert set(coins.tolist()) == {0, 25, 50, 95, 100}
    assert np.abs(np.log1p(coins) - table["lncoins"].to_numpy()).max() < 1e-5


def test_the_job_shows_several_kinds_of_mechanisms_within_its_budget(repository):
    job = load_job(repository / "examples/job.toml")
    assert {column.mechanism for column in job.column} == {"bounded_mean", "laplace", "binary", "kary", "unary"}
    assert job.total.epsilon == job.privacy.max_epsilon == 6.0
    assert job.secure


def test_the_demo_shows_truth_estimate_and_interval(repository, tmp_path):
    shutil.copytree(repository / "examples", tmp_path / "examples")
    done = subprocess.run([sys.executable, tmp_path / "examples/demo.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "out/randhie-private.parquet" in done.stdout
    assert "a person with k rows is protected at k·ε" in done.stdout
    assert all(word in done.stdout for word in ("mdvis", "disea", "hlthg", "excellent", "coins", "95 % interval", "one in twenty misses"))
    lines = re.findall(r"(\d\.\d{3}|1\d\.\d{3}) +(−?-?\d+\.\d{3}) +(-?\d+\.\d{3}) to (-?\d+\.\d{3})", done.stdout)
    assert len(lines) == 12
    # Each estimate is within five standard errors of the truth, up to the last digit shown.
    assert all(
        abs(float(value) - float(true)) <= 5 / 1.96 / 2 * (float(upper) - float(lower)) + 0.002 for true, value, lower, upper in lines
    )
    assert len(pq.read_table(tmp_path / "out/randhie-private.parquet")) == 20_190
    assert "excellent" in (tmp_path / "out/randhie-private-estimate.html").read_text(encoding="utf-8")
