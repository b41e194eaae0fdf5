"""Groups that only the data know, asked about from Python."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")
pytest.importorskip("pydantic")
pytest.importorskip("duckdb")

import numpy as np
import pandas as pd

from dpcore import BudgetError, ParameterError, PrivateTable
from dpcore.query.kinds import QUERY_SECTIONS
from dpcore.testing import KeyedRandom
from support.frames import answers_of_job, keyed
from support.jobs import KEY

pytestmark = pytest.mark.skipif("groups" not in QUERY_SECTIONS, reason="jobs have no private groups yet")

MEAN = {"lower": 0, "upper": 100, "missing": 0}
SETTINGS = {"unit": "person", "max_rows_per_unit": 1, "relation": "add_remove"}


@pytest.fixture
def frame():
    """Three frequent diagnoses, and two that one person has each."""
    found = np.repeat(["flu", "cold", "gout", "rare", "rarer"], [1000, 600, 398, 1, 1])
    return pd.DataFrame({"person": np.arange(2000), "diagnosis": found, "cost": np.arange(2000) % 100})


def test_a_batch_is_the_job(frame, tmp_path):
    import pyarrow as pa

    queries = [
        {"kind": "groups", "name": "keys", "group_by": "diagnosis", "epsilon": 1.0, "delta": 1e-6},
        {"kind": "count", "name": "count", "group_by": "diagnosis", "groups": "private", "epsilon": 0.5},
        {"kind": "mean", "name": "mean", "column": "cost", "group_by": "diagnosis", "groups": "private", "epsilon": 0.5, **MEAN},
    ]
    answers = answers_of_job(tmp_path, pa.Table.from_pandas(frame), queries, SETTINGS)
    with keyed(frame, **SETTINGS).batch(epsilon=2.0, delta=1e-6) as batch:
        groups = batch.group_by("diagnosis", groups="private", epsilon=1.0, delta=1e-6)
        found = [groups.count(epsilon=0.5, name="count"), groups.mean("cost", epsilon=0.5, name="mean", **MEAN)]
    assert [json.loads(json.dumps(result.document)) for result in found] == answers[1:]
    assert found[0].to_pandas()["diagnosis"].tolist() == ["cold", "flu", "gout"]
    assert [(each.privacy.epsilon, each.privacy.delta) for each in found] == [(1.5, 1e-6), (0.5, 0.0)]  # the first names the groups
    assert found[0].plan.privacy.delta == pytest.approx(1e-6)


def test_keys_are_paid_for_once(frame):
    table = PrivateTable(frame, **SETTINGS, max_epsilon=2.0, max_delta=1e-5)
    groups = table.group_by("diagnosis", groups="private", delta=1e-6)
    assert groups.plan("count", epsilon=1.0).privacy.epsilon == 1.0
    first = groups.count(epsilon=1.0)
    assert first.privacy == first.plan.privacy == table.spent
    assert first.guarantee == first.plan.guarantee
    assert repr(first).endswith("epsilon=1, delta=1e-06)")
    second = groups.mean("cost", epsilon=1.0, **MEAN)
    assert (second.plan.privacy.epsilon, second.plan.privacy.delta) == (1.0, 0.0)
    assert second.to_pandas()["diagnosis"].tolist() == first.to_pandas()["diagnosis"].tolist() == ["cold", "flu", "gout"]
    with pytest.raises(BudgetError):
        groups.count(epsilon=0.5)


def test_several_columns(frame):
    frame["half"] = np.where(frame["cost"] < 50, "lower", "upper")
    groups = PrivateTable(frame, **SETTINGS).group_by("diagnosis", "half", groups="private", epsilon=1.0, delta=1e-6)
    first, second = groups.count(epsilon=1.0), groups.count(epsilon=1.0)
    assert len(first.value) == len(second.value) == 6
    assert first.to_arrow().column_names[:2] == ["diagnosis", "half"]
    assert first.to_pandas()[["diagnosis", "half"]].equals(second.to_pandas()[["diagnosis", "half"]])


def test_no_group_may_be_named(frame):
    groups = PrivateTable(frame.iloc[-2:], **SETTINGS).group_by("diagnosis", groups="private", epsilon=1.0, delta=1e-9)
    assert groups.count(epsilon=1.0).to_arrow().num_rows == 0
    with pytest.raises(ParameterError, match="no group of diagnosis was named"):
        groups.count(epsilon=1.0)


EMPTY = {
    "count": ({}, ["value", "stderr", "lower", "upper"]),
    "histogram": ({"column": "cost", "edges": [0, 50, 100], "missing": 0}, ["left", "right", "value", "stderr", "lower", "upper"]),
    "quantile": ({"column": "cost", "q": [0.2, 0.8], "grid": [0, 50, 100], "missing": 0}, ["q", "value", "stderr", "lower", "upper"]),
    "top": ({"column": "cost", "k": 9, "s": 2}, ["cost"]),
    "mean": ({"column": "cost", **MEAN}, ["value", "stderr", "lower", "upper"]),
}


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", EMPTY)
def test_an_answer_to_no_group_is_an_empty_table(frame, kind, tmp_path):
    keys, columns = EMPTY[kind]
    groups = PrivateTable(frame.iloc[-2:], **SETTINGS).group_by("diagnosis", groups="private", delta=1e-9)
    found = getattr(groups, kind)(epsilon=1.0, **keys)
    assert found.to_arrow().num_rows == 0
    assert found.to_arrow().column_names == ["diagnosis", *columns]
    assert "0 rows" in repr(found)
    assert "<table" in found._repr_html_()
    assert found.report(tmp_path)


def test_what_naming_costs_is_for_private_groups(frame):
    with pytest.raises(ParameterError, match='are for groups="private"'):
        keyed(frame).group_by("diagnosis", groups=["flu"], epsilon=1.0)
    key = KeyedRandom(KEY)
    with pytest.raises(ParameterError, match="delta"):
        PrivateTable(frame, **SETTINGS, rng=key).group_by("diagnosis", groups="private").count(epsilon=1.0)


DAYS = {"days": None, "months": "strftime(day, '%Y-%m')", "years": "year(day)"}


@pytest.mark.long
@pytest.mark.parametrize("period", DAYS)
def test_dates_that_were_found_are_reused(frame, tmp_path, period):
    """By day, by month and by year: in a batch as in a job, by later queries, and as declared groups."""
    import pyarrow as pa

    rows, sql, key = len(frame), DAYS[period], {"epsilon": 5.0, "delta": 1e-5}
    days = pa.array(np.datetime64("2023-12-22") + np.arange(rows) * 20 // rows, pa.date32())
    table = pa.table({"day": days, "x": np.arange(rows) % 10})
    view = keyed(table, relation="add_remove")
    view, name = (view, "day") if sql is None else (view.derive(period=sql), "period")
    asked = {"lower": 0, "upper": 10, "missing": 0, "epsilon": 20.0}
    queries = [
        {"kind": "groups", "name": "keys", "group_by": name, **key},
        {"kind": "count", "name": "n", "group_by": name, "groups": "private", "epsilon": 20.0},
        {"kind": "mean", "name": "m", "column": "x", "group_by": name, "groups": "private", **asked},
    ]
    derived = {} if sql is None else {"derive": [{"name": name, "sql": sql}]}
    answers = answers_of_job(tmp_path, table, queries, {"relation": "add_remove"}, **derived)
    with view.batch(50.0, 1e-4) as batch:
        groups = batch.group_by(name, groups="private", **key)
        found = [groups.count(epsilon=20.0, name="n"), groups.mean("x", name="m", **asked)]
    assert [json.loads(json.dumps(result.document)) for result in found] == answers[1:]
    groups = PrivateTable(table, relation="add_remove").derive(period=sql or "day").group_by("period", groups="private", **key)
    first, later = groups.count(epsilon=20.0), groups.mean("x", **asked)
    keys = answers[0]["value"]
    assert first.document["groups"] == keys
    assert later.to_arrow().column(0).to_pylist() == first.to_arrow().column(0).to_pylist()
    declared = PrivateTable(table, relation="add_remove").derive(period=sql or "day").group_by("period", groups=keys).count(epsilon=20.0)
    assert np.allclose(first.value, declared.value, atol=5)
    assert np.allclose(later.document["count"], declared.value, atol=5)
    assert abs(sum(declared.value) - rows) < 100


def test_the_epsilon_for_a_first_answer_pays_for_the_names_too():
    """Half of it names the groups, so twice as much is needed as once they have names, or where the names have their own."""
    table = PrivateTable(pd.DataFrame({"town": ["a", "b"]}), relation="add_remove")
    first = table.group_by("town", groups="private", delta=1e-8)
    own = table.group_by("town", groups="private", epsilon=1.0, delta=1e-8)
    found, later = (each.epsilon_for("count", half_width=5) for each in (first, own))
    assert found.epsilon == 2 * later.epsilon
    assert found.given == later.given == 1.0
    assert found.half_width == later.half_width <= 5
    (naming, count) = first.plan("count", epsilon=found.epsilon).document["queries"]
    assert naming["privacy"]["epsilon"] == count["privacy"]["epsilon"] == later.epsilon
