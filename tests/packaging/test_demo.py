"""The truths that `make demo` prints beside its answers, computed again by pandas and NumPy on the sample data."""

from __future__ import annotations

import importlib.util
import itertools
import math
import tomllib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("pydantic")

import pandas as pd
import pyarrow.parquet as pq

from dpcore.batch import load_release_job, make_release_plan, release
from dpcore.query.kinds import QUERY_SECTIONS

pytestmark = pytest.mark.source_tree

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "examples" / "randhie.parquet"


def demo():
    spec = importlib.util.spec_from_file_location("demo", ROOT / "examples" / "demo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DEMO = demo()


def table():
    return pq.read_table(SAMPLE), pd.read_parquet(SAMPLE)


def queries():
    return tomllib.loads((ROOT / "examples" / "release.toml").read_text(encoding="utf-8"))["query"]


def clamped(frame, query):
    return frame[query["column"]].fillna(query["missing"]).clip(query["lower"], query["upper"])


def by_pandas(query, answer, frame):
    """The statistic of a query of the example, as pandas computes it; nothing of the demo is used."""
    values = frame[query["column"]]
    match query["kind"]:
        case "count":
            return [values.between(query["lower"], query["upper"]).sum()]
        case "histogram" if "categories" in query:
            text = values.astype(object).where(values.notna(), query["missing"]).astype(str)
            text = text.where(text.isin(query["categories"]), query["unknown"])
            return [(text == category).sum() for category in query["categories"]]
        case "histogram":
            filled = values.fillna(query["missing"]).clip(query["edges"][0], query["edges"][-1])
            edges, last = query["edges"], query["edges"][-2:]
            inner = [((filled >= lower) & (filled < upper)).sum() for lower, upper in itertools.pairwise(edges[:-1])]
            return [*inner, filled.between(*last).sum()]
        case "mean":
            return [clamped(frame, query).mean()]
        case "std":
            return [clamped(frame, query).std()]
        case "sum":
            return [clamped(frame, query).sum()]
        case "quantile":
            ranked = sorted(values.fillna(query["missing"]))
            return [ranked[math.ceil(round(level * len(ranked), 6)) - 1] for level in query["q"]]
        case "top_s":
            return [(values == label).sum() for label in answer["value"]]
    raise AssertionError(query["kind"])


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """The example answered with little noise, in a folder of its own."""
    folder = tmp_path_factory.mktemp("demo")
    text = (ROOT / "examples" / "release.toml").read_text(encoding="utf-8")
    text = text.split("[ledger]")[0].replace("examples/randhie.parquet", str(SAMPLE)) + "[[query]]" + text.split("[[query]]", 1)[1]
    (folder / "job.toml").write_text(text.replace("out/randhie-release.json", str(folder / "out.json")), encoding="utf-8")
    return release(make_release_plan(load_release_job(folder / "job.toml")))["queries"]


def test_the_truths_are_those_of_pandas(released):
    arrow, frame = table()
    asked = {query["name"]: query for query in queries()}
    assert [answer["name"] for answer in released] == list(asked)
    for answer in released:
        found = DEMO.released_truth(answer, arrow)
        assert np.allclose(found, by_pandas(asked[answer["name"]], answer, frame), rtol=1e-12), answer["name"]
        assert len(DEMO.labels_of(answer)) == len(found)


def test_the_truth_of_a_standard_deviation_is_not_that_of_a_mean(released):
    """The demo once printed 2.850966 beside an answer about 4.384, and said that the interval misses."""
    (spread,) = (answer for answer in released if answer["kind"] == "std")
    (true,) = DEMO.released_truth(spread, table()[0])
    assert round(true, 3) == 4.384
    assert spread["interval"][0] - 0.3 < true < spread["interval"][1] + 0.3


def test_every_kind_that_the_demo_asks_has_a_truth():
    assert {query["kind"] for query in queries()} <= set(DEMO.TRUTHS) <= set(QUERY_SECTIONS)


@pytest.mark.parametrize("wrong", [{"kind": "mode"}, {"kind": "covariance"}, {"where": "mdvis > 0"}, {"group_by": "health"}])
def test_what_has_no_truth_is_an_error(released, wrong):
    with pytest.raises(ValueError, match="does not know the truth"):
        DEMO.released_truth(released[0] | wrong, table()[0])


def test_an_estimate_of_another_kind_is_an_error():
    with pytest.raises(ValueError, match="'median'"):
        DEMO.truth({"kind": "median", "name": "mdvis"}, table()[0]["mdvis"])


def test_the_truths_of_the_local_half_are_those_of_pandas():
    arrow, frame = table()
    column = {"kind": "mean", "lower": 0, "upper": 50}
    assert np.isclose(DEMO.truth(column, arrow["mdvis"])[0], frame["mdvis"].clip(0, 50).mean())
    health = {"kind": "frequencies", "categories": ["excellent", "good"], "unknown": "good"}
    text = frame["health"].astype(str)
    expected = [(text == "excellent").mean(), (text != "excellent").mean()]
    assert np.allclose(DEMO.truth(health, arrow["health"]), expected)
