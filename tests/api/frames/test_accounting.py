"""How the answers of a batch add up: the accounting of a table, of a batch, and of a ledger."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")
pytest.importorskip("pydantic")

import pyarrow as pa

from dpcore import BudgetError, ParameterError, PrivateTable
from dpcore.accounting import Ledger
from dpcore.errors import JobError
from dpcore.testing import KeyedRandom
from support.frames import answers_of_job
from support.jobs import KEY
from support.releases import clinic

SUM = {"lower": 0, "upper": 20, "missing": 0}
GAUSSIAN = {"delta": 1e-7, **SUM}


@pytest.fixture
def frame():
    return clinic(300).to_pandas()


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "study.ledger", epsilon=1.0)


@pytest.mark.parametrize("accounting", ["zcdp", pytest.param("pld", marks=pytest.mark.long)])
def test_a_batch_with_an_accounting_is_the_job(frame, tmp_path, accounting):
    if accounting == "pld":
        pytest.importorskip("dp_accounting")
    settings = {"relation": "add_remove"}
    queries = [{"kind": "sum", "column": "visits", "name": f"s{place}", "weight": 1.0, **GAUSSIAN} for place in range(2)]
    limits = {"max_epsilon": 1.0, "max_delta": 1e-6, "accounting": accounting}
    answers = answers_of_job(tmp_path, pa.Table.from_pandas(frame), queries, {**settings, **limits})
    table = PrivateTable(frame, rng=KeyedRandom(KEY), accounting=accounting, **settings)
    with table.batch(epsilon=1.0, delta=1e-6) as batch:
        found = [batch.sum("visits", name=f"s{place}", weight=1.0, **GAUSSIAN) for place in range(2)]
    assert [json.loads(json.dumps(result.document)) for result in found] == answers
    assert sum(result.privacy.epsilon for result in found) > 1.05  # basic accounting gives 1 in all
    assert found[0].plan.privacy.epsilon <= 1.0
    assert f"accounting='{accounting}'" in repr(table)
    assert f"accounting='{accounting}'" in repr(batch)
    with table.batch(epsilon=1.0, accounting="basic") as plain:
        first = plain.sum("visits", weight=1.0, **SUM)
    assert first.privacy.epsilon == 1.0


def test_single_queries_and_batches_add_up_by_epsilon(frame):
    """The limit of the table counts what a batch reaches, and single queries as they are."""
    table = PrivateTable(frame, accounting="zcdp", max_epsilon=1.5, max_delta=1e-5)
    with table.batch(epsilon=1.0, delta=1e-6) as batch:
        batch.sum("visits", epsilon=0.1, **GAUSSIAN)
        reached = batch.sum("visits", epsilon=0.1, **GAUSSIAN)
    assert 0.0 < reached.plan.privacy.epsilon < 1.0
    table.mean("visits", epsilon=1.0, **SUM)
    with pytest.raises(BudgetError, match=r"max_epsilon = 1\.5"):
        table.mean("visits", epsilon=0.5, **SUM)


def test_a_zcdp_ledger_pays_for_a_batch_by_rho(frame, tmp_path):
    rho, failures = 0.05, 1e-7
    ledger = Ledger.create(tmp_path / "rho.ledger", rho=rho, failure_delta=failures)
    table = PrivateTable(frame, ledger=ledger.path, accounting="zcdp")
    with table.batch(epsilon=0.5, delta=1e-6) as batch:
        for _ in range(2):
            batch.sum("visits", weight=1.0, **GAUSSIAN)
    assert 0 < ledger.spent.rho < rho


@pytest.mark.parametrize(
    ("settings", "batch", "words"),
    [
        ({"accounting": "renyi"}, {}, "accounting = 'renyi'"),
        ({"accounting": "pld", "ledger": True}, {}, "for jobs without a \\[ledger\\]"),
        ({}, {"accounting": "renyi"}, "accounting = 'renyi'"),
        ({}, {"accounting": "zcdp"}, "delta of a batch with accounting='zcdp' must be positive"),
        ({"accounting": "zcdp"}, {}, "delta of a batch with accounting='zcdp' must be positive"),
        ({"ledger": True}, {"accounting": "pld", "delta": 1e-6}, "for jobs without a \\[ledger\\]"),
    ],
)
def test_accountings_that_are_refused(frame, ledger, settings, batch, words):
    settings = {**settings, **({"ledger": ledger.path} if "ledger" in settings else {})}
    with pytest.raises((JobError, ParameterError), match=words):
        PrivateTable(frame, **settings).batch(1.0, **batch)
    assert not list(ledger.entries())
