"""Numbers of nested groups that add up, over 10^4 keyed runs: less squared error than what was released, and intervals that cover.

Both are paired: the two errors of a run come from the same draws. Error rate: 10^-6 for each test; coverage is judged by the one-sided
bound of Clopper and Pearson. Runs are the parts of one answer, which the estimate treats one by one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dpcore.jobs.release_job import parse_release_job
from dpcore.query.adding_up import LeastSquares
from dpcore.query.nested_groups import Adjustment
from dpcore.query.written_plans import make_release_plan
from dpcore.testing import KeyedRandom
from support.jobs import write_table
from support.laws import ERROR_RATE

RUNS = 10_000
CONFIDENCE = 0.9
DISTRICTS = {"a": 1, "b": 2, "c": 5}
"""Irregular: so many districts of each region."""
KINDS = {
    "counts": {"kind": "count", "epsilon": 0.8},
    "counts, Gaussian": {"kind": "count", "epsilon": 0.8, "delta": 1e-6},
    "sums": {"kind": "sum", "column": "x", "lower": -1, "upper": 4, "missing": 0, "epsilon": 0.8},
    "sums, Gaussian": {"kind": "sum", "column": "x", "lower": -1, "upper": 4, "missing": 0, "epsilon": 0.8, "delta": 1e-6},
}


def drawn(folder, query):
    """The estimator, the exact numbers of its nodes, and what was released of them in each run."""
    source = write_table(pa.table({"region": ["a"], "district": [0], "x": [1.0]}), folder / "in.parquet")
    pairs = [{"region": region, "district": district} for region, count in DISTRICTS.items() for district in range(count)]
    levels = {"total": 1, "region": 1, "district": 2}
    entry = {"name": "x", "confidence": CONFIDENCE, "group_by": ["region", "district"], "groups": pairs, "consistent": {"levels": levels}}
    job = {
        "version": 1, "input": {"path": str(source)}, "output": {"path": str(folder / "o.json")},
        "privacy": {"max_epsilon": 1.0, "max_delta": 1e-5}, "query": [entry | query],
    }  # fmt: skip
    (estimator,) = make_release_plan(parse_release_job(job)).estimators
    total = estimator.statistic.zero(folder)
    exact = np.zeros(sum(estimator.nesting.tree.sizes))
    rng = KeyedRandom(b"nested groups, for their tests!!")
    runs = np.array([estimator.release(total, rng)["value"] for _ in range(RUNS)], np.float64).T
    return estimator, exact, runs


@pytest.mark.parametrize("name", KINDS)
def test_numbers_that_add_up_are_nearer_and_their_intervals_cover(tmp_path, name):
    estimator, exact, released = drawn(tmp_path, KINDS[name])
    noise = [each.document() for each in estimator.noise]
    said = Adjustment(estimator.nesting, noise, estimator.section).of(released)
    errors, before = said["value"] - exact[:, None], released - exact[:, None]
    gained = before**2 - errors**2
    deviations = gained.mean(axis=1) / (gained.std(axis=1) / np.sqrt(RUNS))
    assert (deviations > stats.norm.isf(ERROR_RATE)).all(), "each node has less squared error, beyond doubt"
    ratios = (errors**2).mean(axis=1) / said["stderr"][:, 0] ** 2
    spread = (errors**2).std(axis=1) / said["stderr"][:, 0] ** 2 / np.sqrt(RUNS)
    assert (np.abs(ratios - 1) < stats.norm.isf(ERROR_RATE / 2 / len(ratios)) * spread).all(), "and as much as its standard error says"
    inside = (np.abs(said["interval"] - said["value"][..., None])[..., 0] >= np.abs(errors)).sum(axis=1)
    assert (stats.beta.isf(ERROR_RATE / len(inside), inside + 1, RUNS - inside) >= CONFIDENCE).all()
    if said.get("coverage") is None:  # not a bound: hardly too wide
        discrete = 0.05 if KINDS[name]["kind"] == "count" else 0.005
        assert (stats.beta.ppf(ERROR_RATE, inside, RUNS - inside + 1) <= CONFIDENCE + discrete).all()


def test_twins_are_rejected(tmp_path):
    """Weights that are all one are further away; intervals of the raw numbers' width with the estimate's variance do not cover."""
    estimator, exact, released = drawn(tmp_path, KINDS["sums"])
    noise = [each.document() for each in estimator.noise]
    said = Adjustment(estimator.nesting, noise, estimator.section).of(released)
    flat = LeastSquares.of(estimator.nesting.tree, [1.0] * 3)
    found = estimator.nesting.ordered(flat.estimates(estimator.nesting.by_level(released)))
    lost = ((found - exact[:, None]) ** 2 - (said["value"] - exact[:, None]) ** 2)[0]
    assert lost.mean() / (lost.std() / np.sqrt(RUNS)) > stats.norm.isf(ERROR_RATE)
    narrow = np.abs(said["interval"] - said["value"][..., None])[..., 0] * 0.95
    inside = (narrow >= np.abs(said["value"] - exact[:, None])).sum(axis=1)
    assert (stats.beta.isf(ERROR_RATE, inside + 1, RUNS - inside) < CONFIDENCE).any()
