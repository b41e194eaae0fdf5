"""Tables in memory: budgets, batches, test keys, results, and what is refused."""

from __future__ import annotations

import contextlib
import json
import re
import threading

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")
pytest.importorskip("pydantic")

import pandas as pd

from dpcore import BudgetError, ParameterError, ParameterTypeError, PrivateTable, SecureRandom
from dpcore.accounting import Ledger
from dpcore.errors import DataError, JobError, StorageError
from dpcore.testing import KeyedRandom
from support.extras import evaluated
from support.releases import REGIONS, clinic

SUM = {"lower": 0, "upper": 20, "missing": 0}


@pytest.fixture
def frame():
    return clinic(300).to_pandas()


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "study.ledger", epsilon=1.0, unit="person")


def person(frame, **settings):
    return PrivateTable(frame, unit="person", max_rows_per_unit=2, **settings)


# Budgets


@evaluated
@pytest.mark.parametrize(("first", "second"), [("age < 15", "true) OR (true"), ("true) OR (true", "age < 15"), ("age < 15", "true)")])
def test_a_condition_cannot_end_another(first, second):
    """Who may only add conditions to a table that others have filtered sees none of the rows that they left out."""
    table = PrivateTable(pd.DataFrame({"age": [10, 20, 30]}))
    with pytest.raises(JobError, match="is no expression of SQL"):
        table.where(first).where(second)
    with table.batch(epsilon=1.0) as batch, pytest.raises(JobError, match="is no expression of SQL"):
        batch.where(first).where(second)
    assert table.where("age < 15 OR age > 25").where("age < 15 OR age = 30").count(epsilon=1e5).value == 2


def test_a_ledger_pays_for_each_query(frame, ledger):
    table = person(frame, ledger=ledger.path)
    table.sum("visits", epsilon=0.25, **SUM)
    table.mean("visits", epsilon=0.5, **SUM)
    entries = ledger.entries()
    assert [(entry.state, entry.what, entry.job, entry.run) for entry in entries] == [
        ("done", "release of 1 query on pandas DataFrame", None, None)
    ] * 2
    assert ledger.remaining.epsilon == 0.25


def test_a_ledger_refuses_before_a_row_is_read(frame, ledger):
    table = person(frame, ledger=ledger.path)
    with pytest.raises(BudgetError, match="needs epsilon 2"):
        table.sum("visits", epsilon=2.0, **SUM)
    with pytest.raises(JobError, match="missing must be declared"):
        table.sum("visits", epsilon=0.5, lower=0, upper=20)
    with pytest.raises(JobError, match=r"unit = 'row'"):
        PrivateTable(frame, ledger=ledger.path).sum("visits", epsilon=0.5, **SUM)
    with pytest.raises(StorageError, match="no such file"):
        person(frame, ledger="nowhere.ledger").sum("visits", epsilon=0.5, **SUM)
    assert list(ledger.entries()) == []


def test_a_dataset_has_the_name_that_its_ledger_is_for(frame, tmp_path):
    ledger = Ledger.create(tmp_path / "study.ledger", epsilon=1.0, dataset="visits-2026")
    with pytest.raises(JobError, match=r"^dataset is required"):
        PrivateTable(frame, ledger=ledger.path).sum("visits", epsilon=0.5, **SUM)
    PrivateTable(frame, ledger=ledger.path, dataset="visits-2026").sum("visits", epsilon=0.5, **SUM)
    assert [entry.dataset for entry in ledger.entries()] == ["visits-2026"]


def test_max_epsilon_limits_all_answers_of_a_table(frame):
    table = person(frame, max_epsilon=1.0)
    table.sum("visits", epsilon=0.75, **SUM)
    with pytest.raises(BudgetError, match=r"epsilon 0\.75.*max_epsilon = 1\.0"):
        table.group_by("region", groups=REGIONS).count(epsilon=0.5)
    with pytest.raises(BudgetError, match="max_delta = 0"):
        table.count("visits", lower=0, upper=3, epsilon=0.1, delta=1e-6)
    table.mean("visits", epsilon=0.25, **SUM)


def test_what_is_refused_before_a_row_is_read_gives_its_budget_back(frame, ledger):
    table = person(frame, max_epsilon=1.5, ledger=ledger.path)
    with pytest.raises(BudgetError):
        table.sum("visits", epsilon=1.25, **SUM)
    table.sum("visits", epsilon=1.0, **SUM)


@pytest.mark.parametrize("epsilon", [10**400, -(10**400)])
def test_an_epsilon_beyond_all_floats_is_refused_in_words(frame, epsilon):
    with pytest.raises(JobError, match="epsilon must be representable as float64"):
        PrivateTable(frame).count(epsilon=epsilon)


def test_each_thread_that_asks_a_batch_gets_its_own_answer(frame, monkeypatch):
    """Also one that is being asked when the block ends: it is answered, or refused."""
    table = PrivateTable(frame, relation="add_remove")
    batch = table.batch(epsilon=1.0)
    planned, ended, found = threading.Event(), threading.Event(), []
    plan = type(batch._collected).plan

    def slow(collected, questions):
        made = plan(collected, questions)
        planned.set()
        ended.wait(0.2)
        return made

    monkeypatch.setattr(type(batch._collected), "plan", slow)

    def ask(name):
        with contextlib.suppress(ParameterError):  # the block has ended
            found.append((name, batch.count(epsilon=0.1, name=name)))

    asking = [threading.Thread(target=ask, args=[name]) for name in ("a", "b")]
    with batch:
        for each in asking:
            each.start()
        assert planned.wait(60)
    ended.set()
    for each in asking:
        each.join()
    assert found
    assert [answer.document["name"] for _, answer in found] == [name for name, _ in found]


def test_threads_do_not_overspend(frame, tmp_path):
    table = PrivateTable(frame, max_epsilon=1.0, threads=1)
    found = []

    def ask():
        try:
            table.sum("visits", epsilon=0.25, **SUM)
            found.append("answered")
        except BudgetError:
            found.append("refused")

    workers = [threading.Thread(target=ask) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(found) == ["answered"] * 4 + ["refused"] * 4


# Batches


def test_a_batch_is_one_charge(frame, ledger):
    with person(frame, ledger=ledger.path).batch(epsilon=1.0) as batch:
        total = batch.sum("visits", epsilon=0.25, **SUM)
        regions = batch.group_by("region", groups=REGIONS).count(epsilon=0.5)
        with pytest.raises(ParameterError, match="has not ended"):
            _ = total.value
        assert "not ended" in repr(total)
        assert list(ledger.entries()) == []
    (entry,) = ledger.entries()
    assert (entry.state, entry.what) == ("done", "release of 2 queries on pandas DataFrame")
    assert ledger.remaining.epsilon == 0.25
    assert isinstance(total.value, float)
    assert regions.value.shape == (4,)
    assert total.plan is regions.plan
    assert total.plan.privacy.epsilon == 0.75


def test_a_batch_that_overruns_its_budget_spends_nothing(frame, ledger):
    table = person(frame, ledger=ledger.path, max_epsilon=10.0)
    answers = []

    def overrun():
        with table.batch(epsilon=1.0) as batch:
            answers.append(batch.sum("visits", epsilon=0.75, **SUM))
            batch.mean("visits", epsilon=0.5, **SUM)

    with pytest.raises(BudgetError, match="epsilon"):
        overrun()
    with pytest.raises(ParameterError, match="has not ended"):
        _ = answers[0].value
    assert list(ledger.entries()) == []


def test_a_batch_beyond_its_ledger_spends_nothing(frame, ledger):
    def overrun():
        with person(frame, ledger=ledger.path).batch(epsilon=3.0) as batch:
            batch.sum("visits", epsilon=0.75, **SUM)
            batch.sum("visits", epsilon=0.5, **SUM)

    with pytest.raises(BudgetError, match="the ledger"):
        overrun()
    assert list(ledger.entries()) == []


def test_a_refused_query_leaves_a_batch_as_it_was(frame):
    with person(frame).batch(epsilon=1.0) as batch:
        first = batch.sum("visits", epsilon=0.75, **SUM)
        with pytest.raises(BudgetError):
            batch.sum("visits", epsilon=0.5, **SUM)
        with pytest.raises(JobError, match="no column 'visit'"):
            batch.sum("visit", epsilon=0.125, **SUM)
        second = batch.sum("visits", epsilon=0.25, **SUM)
    assert [result.document["name"] for result in (first, second)] == ["sum of visits", "sum of visits (2)"]


def test_queries_of_a_batch_share_its_epsilon_by_weight(frame):
    with person(frame).batch(epsilon=1.0) as batch:
        fixed = batch.sum("visits", epsilon=0.25, **SUM)
        answers = [batch.sum("visits", weight=weight, **SUM) for weight in (1, 2)]
    assert fixed.privacy.epsilon == 0.25
    assert [answer.privacy.epsilon for answer in answers] == pytest.approx([0.25, 0.5])
    assert fixed.plan.privacy.epsilon <= 1.0


def test_a_batch_has_one_block(frame):
    batch = person(frame).batch(epsilon=1.0)
    with pytest.raises(ParameterError, match="inside of its with block"):
        batch.count(epsilon=0.5)
    with batch:
        pass
    with pytest.raises(ParameterError, match="inside of its with block"):
        batch.count(epsilon=0.5)
    with pytest.raises(ParameterError, match="one with block"), batch:
        pass


def test_an_error_in_the_block_reads_nothing(frame, ledger):
    def fail():
        with person(frame, ledger=ledger.path).batch(epsilon=1.0) as batch:
            batch.count(epsilon=0.5)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list(ledger.entries()) == []


# Test keys


def test_no_query_repeats_the_noise_of_another(frame):
    key = KeyedRandom(bytes(32))
    table, other = PrivateTable(frame, rng=key), PrivateTable(frame, rng=key)
    answers = [each.sum("visits", epsilon=1.0, **SUM).value for each in (table, table, other, other)]
    assert len(set(answers)) == 4
    again = PrivateTable(frame, rng=KeyedRandom(bytes(32)))
    with again.batch(epsilon=2.0) as batch:
        two = [batch.sum("visits", epsilon=1.0, **SUM) for _ in range(2)]
    assert [result.value for result in two] == answers[:2]


def test_plans_and_refusals_take_no_position_of_a_key(frame):
    key = KeyedRandom(bytes(32))
    table = PrivateTable(frame, rng=key, max_epsilon=1.0)
    table.plan("sum", "visits", epsilon=1.0, **SUM)
    with pytest.raises(BudgetError):
        table.sum("visits", epsilon=2.0, **SUM)
    with pytest.raises(JobError):
        table.sum("nothing", epsilon=1.0, **SUM)
    found = table.sum("visits", epsilon=1.0, **SUM)
    assert found.value == PrivateTable(frame, rng=KeyedRandom(bytes(32))).sum("visits", epsilon=1.0, **SUM).value


def test_a_key_serves_as_many_queries_as_a_job_has(frame):
    key = KeyedRandom(bytes(32))
    for _ in range(4096):
        key.position()
    with pytest.raises(ParameterError, match="4096 queries"):
        PrivateTable(frame, rng=key).count("visits", lower=1, upper=2, epsilon=1.0)


def test_keyed_noise_is_never_charged(frame, ledger):
    with pytest.raises(JobError, match="not private"):
        person(frame, ledger=ledger.path, rng=KeyedRandom(bytes(32)))
    assert "keyed, not private" in repr(person(frame, rng=KeyedRandom(bytes(32))))


def test_other_sources_are_refused(frame):
    person(frame, rng=SecureRandom())
    for rng in (KeyedRandom(bytes(32)).at(1), np.random.default_rng(1), 7):
        with pytest.raises(ParameterTypeError, match="rng must be"):
            person(frame, rng=rng)


# Results


def test_results_have_numbers_and_frames(frame):
    table = PrivateTable(frame, relation="add_remove")
    count = table.count(epsilon=1.0)
    assert isinstance(count.value, int)
    assert count.interval[0] <= count.value <= count.interval[1]
    assert (count.privacy.epsilon, count.privacy.relation) == (1.0, "add_remove")
    assert count.to_pandas().columns.tolist() == ["value", "stderr", "lower", "upper"]
    bins = table.histogram("visits", epsilon=1.0, edges=np.array([0, 10, 29.0]), missing=0)
    assert bins.to_arrow().column_names == ["left", "right", "value", "stderr", "lower", "upper"]
    assert bins.interval.shape == (2, 2)
    top = table.top("region", s=2, epsilon=1.0, candidates=REGIONS, values=True)
    assert top.to_arrow().column_names == ["region", "value", "stderr", "lower", "upper"]
    assert set(top.value) <= set(REGIONS)
    assert table.top("region", s=2, epsilon=1.0, candidates=pd.Index(REGIONS)).to_arrow().column_names == ["region"]
    quartiles = table.quantile("cost", epsilon=1.0, q=(0.25, 0.75), grid=range(120), missing=0)
    assert quartiles.to_pandas()["q"].tolist() == [0.25, 0.75]
    assert quartiles.interval is None
    assert quartiles.stderr is None
    for result in (count, bins, top, quartiles):
        assert "<table>" in result._repr_html_()
        assert repr(result).startswith("TableResult(")


def test_numbers_are_written_as_on_pages():
    from dpcore.frames.results import Answered, TableResult

    def shown(value, stderr, interval, **keys):
        query = {"name": "q", "kind": "mean", "column": "x", "privacy": {"epsilon": 1.0, "delta": 0.0}, "value": value, "stderr": stderr}
        document = {"relation": "replace", "unit": "row", "queries": [query | {"interval": interval} | keys]}
        result = TableResult(Answered("arrow", "a table", document, places=(0,)), 0)
        return repr(result), re.findall(r"<td>(.*?)</td>", result._repr_html_())

    one = shown(-30123.4567, 14.2, [-30151.0, -30095.9])
    assert one == ("TableResult(q: −30,123 in [−30,151, −30,096], epsilon=1)", ["−30,123", "14", "−30,151", "−30,096", "0.091 %"])
    groups = {"group_by": "site", "groups": ["a", 7, None]}
    several = shown([20240, 1.5, None], [3.0, 0.25, None], [[20234, 20246], [1.0, 2.0], None], **groups)
    assert several[1] == ["a", "20,240", "3.0", "20,234", "20,246", "0.030 %", "7", "1.50", "0.25", "1.00", "2.00", "33 %", *"––––––"]
    assert shown(None, None, None)[0] == "TableResult(q: no value, epsilon=1)"
    assert shown(1_234_567, 0.0, [1_234_567, 1_234_567])[1] == ["1,234,567", "0", "1,234,567", "1,234,567"]


def test_a_column_of_groups_that_is_named_like_a_number(frame):
    found = PrivateTable(frame.rename(columns={"region": "value"})).group_by("value", groups=REGIONS).count(epsilon=1.0)
    assert found.to_arrow().column_names == ["value_", "value", "stderr", "lower", "upper"]


def test_a_report_is_written(frame, tmp_path):
    pytest.importorskip("jinja2")
    found = PrivateTable(frame, dataset="clinic 2026").mean("cost", epsilon=1.0, lower=0, upper=120, missing=0)
    paths = found.report(tmp_path / "out")
    assert "from clinic 2026, protecting one row" in paths[1].read_text()
    assert sorted(path.name for path in paths) == ["mean-of-cost.html", "mean-of-cost.json"]
    assert json.loads((tmp_path / "out" / "mean-of-cost.json").read_text())["queries"] == [found.document]
    with pytest.raises(ParameterTypeError):
        found.report(3)


def test_a_plan_reads_no_row(frame, monkeypatch):
    from dpcore.frames.pandas_source import PandasSource

    monkeypatch.setattr(PandasSource, "batches", None)
    table = person(frame)
    plan = table.group_by("region", groups=REGIONS).plan("mean", "cost", epsilon=1.0, lower=0, upper=120, missing=0)
    assert plan.privacy.epsilon == 1.0
    assert plan.unit == "person"
    assert "<table>" in plan._repr_html_()
    assert table.plan("covariance", ["cost", "visits"], epsilon=1.0, lower=[0, 0], upper=[9, 9], missing=[0, 0]).privacy.epsilon == 1.0
    with pytest.raises(ParameterError, match="kind must be one of"):
        table.plan("average", "cost")


# Mistakes


def test_mistakes_name_the_argument(frame):
    table = PrivateTable(frame)
    with pytest.raises(JobError, match=r"^epsilon must be"):
        table.count(epsilon=-1)
    with pytest.raises(JobError, match=r"^lower = 3.* must be less than upper = 2"):
        table.mean("cost", epsilon=1.0, lower=3, upper=2)
    with pytest.raises(JobError, match=r"pandas DataFrame: there is no column 'costs'.*'cost'"):
        table.mean("costs", epsilon=1.0, lower=0, upper=2)
    with pytest.raises(JobError, match=r"^upper is required"):
        table.mean("cost", epsilon=1.0, lower=0)
    with pytest.raises(ParameterError, match="epsilon is required"):
        table.mean("cost", lower=0, upper=1)
    with pytest.raises(ParameterError, match="weight is for queries of a batch"):
        table.mean("cost", weight=1, lower=0, upper=1)
    with pytest.raises(DataError, match=r"^column 'region' holds a cell that is[^-]*and unknown is not given; [^-]*$"):
        table.histogram("region", epsilon=1.0, categories=["x", "y"], missing="x")
    with pytest.raises(JobError, match="max_rows_per_unit is required"):
        PrivateTable(frame, unit="person").count(epsilon=1.0)
    with pytest.raises(JobError, match="relation"):
        PrivateTable(frame, relation="add")
    with pytest.raises(ParameterError, match="at least one column"):
        table.group_by(groups=REGIONS)
    with pytest.raises(ParameterError, match="groups must have the columns"):
        table.group_by("region", "visits", groups={"region": REGIONS})
    with pytest.raises(ParameterTypeError, match="sql must be a str"):
        table.where(3)
    with pytest.raises(ParameterTypeError, match="columns must be a list of names"):
        table.lookup(frame, "region", "visits")
    with pytest.raises(ParameterTypeError, match="band must be a str"):
        table.derive(band=3)


@pytest.mark.parametrize("given", [3, None, {"a": [1]}, [1, 2], np.zeros((2, 2)), pd.Series([1])])
def test_what_is_no_table_is_refused(given):
    with pytest.raises(ParameterTypeError, match="frame must be"):
        PrivateTable(given)


def test_what_gives_its_rows_once_is_refused():
    table = clinic(10)
    with pytest.raises(ParameterError, match=r"read twice.*frame\.read_all\(\)"):
        PrivateTable(table.to_reader())
    with pytest.raises(ParameterError, match=r"read twice.*an iterator"):
        PrivateTable(batch for batch in table.to_batches())
    assert PrivateTable(table.to_reader().read_all()).count().value == 10


@evaluated
def test_public_tables_of_a_batch_are_told_apart(frame):
    one, two = (pd.DataFrame({"region": REGIONS, name: [value] * 4}) for name, value in (("one", 1), ("two", 2)))
    with PrivateTable(frame).batch(epsilon=2e4) as batch:
        answers = [
            batch.lookup(table, "region", [name]).mean(name, epsilon=1e4, lower=0, upper=3, missing="skip")
            for name, table in (("one", one), ("two", two))
        ]
    assert [answer.value for answer in answers] == pytest.approx([1, 2], abs=0.01)


@evaluated
def test_a_condition_of_a_table_comes_before_the_choice_of_rows():
    """Of each person all rows but one do not pass; they must not take its place, and in a batch they may."""
    rows = pd.DataFrame({"person": np.repeat(np.arange(500), 40), "last": np.tile(np.arange(40) == 39, 500)})
    table = PrivateTable(rows, unit="person", max_rows_per_unit=1)
    assert table.where("last").count(epsilon=1e6).value == 500
    with table.batch(epsilon=2e6) as batch:
        late = batch.where("last").count(epsilon=1e6)
    assert late.value < 100
