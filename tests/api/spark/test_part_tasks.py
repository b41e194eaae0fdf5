"""Tasks find exact partial statistics: however rows are put into parts, and parts are merged, the driver has those of one machine."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from dpcore.errors import DataError, StorageError
from dpcore.frames.arrow_source import ArrowSource
from dpcore.frames.inputs import FrameInput
from dpcore.jobs.release_job import parse_release_job
from dpcore.query import local_backend
from dpcore.query.in_memory import answers, make_unwritten_plan
from dpcore.query.run import document_of, measured
from dpcore.query.statistics import SumsOfGroups
from dpcore.spark.part_tasks import PartJob, guarded
from dpcore.tables.arrays import with_lists
from dpcore.tables.pieces import FileInfo
from dpcore.tables.progress import Silent
from dpcore.tables.units.row_hash import types_of_rows
from dpcore.tables.units.row_random_bits import ByValue
from support.every_query import EVERY_UNIT, document, table
from support.part_passes import PartPasses

ROWS, PEOPLE = 700, 90


def plan_of(folder, unit, rows, queries=None, **options):
    job = {"input": {"path": "rows"}, "output": {"path": "nowhere"}, **document(folder, unit, **options)}
    job |= {} if queries is None else {"query": queries}
    return make_unwritten_plan(parse_release_job(job), FrameInput.of(ArrowSource(rows, "rows", is_snapshot=True)))


def in_parts(plan, rows, parts):
    """The document, from the statistics of parts."""
    passes = PartPasses(plan, rows, parts)
    return document_of(*measured(plan, passes), {}, Silent())


CASES = [pytest.param(unit, where, marks=[pytest.mark.long]) for unit in EVERY_UNIT for where in (None, "p < 3")]


FEW = [
    {"name": "rows", "kind": "count", "group_by": "g", "groups": ["a", "b"], "epsilon": 1.0},
    {"name": "sum", "kind": "sum", "column": "v", "lower": -1, "upper": 3, "missing": 2, "epsilon": 1.0},
    {"name": "codes", "kind": "count_distinct", "column": "code", "max_values_per_unit": 2, "epsilon": 1.0},
    {"name": "people", "kind": "count_distinct", "epsilon": 1.0},
]


def statistics(folder, rows, parts, *, seed=1, together=True, choice=None):
    """The exact statistics of a few queries, of which a job without a test key chooses rows and values by a hash."""
    plan = plan_of(folder, "person", rows, key=None, queries=FEW)
    choice = choice or ByValue(bytes(16), types_of_rows([FileInfo(tuple(rows.column_names), rows.schema, None)]))
    _, found, count = measured(plan, PartPasses(replace(plan, by_value=choice), rows, parts, seed, together=together))
    return [each.totals[0].tolist() if isinstance(each, SumsOfGroups) else np.asarray(each).tolist() for each in found], count


@pytest.mark.long
@pytest.mark.parametrize(("parts", "seed"), [(1, 2), (3, 3), (40, 4)])
def test_neither_parts_nor_order_matter_without_a_test_key(tmp_path, parts, seed):
    rows = table(ROWS, PEOPLE)
    assert statistics(tmp_path, rows, parts, seed=seed) == statistics(tmp_path, rows, 5)


@pytest.mark.long
def test_twins_with_a_divided_unit_or_another_key_are_found(tmp_path):
    rows = table(ROWS, PEOPLE)
    right = statistics(tmp_path, rows, 5)
    divided = statistics(tmp_path, rows, 5, together=False)
    assert divided[0][3] > right[0][3]
    assert sum(divided[0][0]) > sum(right[0][0])
    other = ByValue(bytes(range(16)), types_of_rows([FileInfo(tuple(rows.column_names), rows.schema, None)]))
    assert statistics(tmp_path, rows, 5, choice=other) != right


def test_what_a_task_sends_and_gets_has_neither_ledger_nor_output(tmp_path):
    plan = plan_of(tmp_path, "person", table(ROWS, PEOPLE), queries=FEW)
    job = PartJob.of(plan, [], FileInfo((), pa.schema([]), None))
    sent = pickle.loads(pickle.dumps(job))
    assert sent.plan.publication is None
    assert sent.plan.inputs is None
    assert sent.plan.job.ledger is None
    assert "plan" not in repr(job)


@pytest.mark.parametrize("unit", EVERY_UNIT)
def test_every_query_is_sent_to_tasks(tmp_path, unit):
    plan = plan_of(tmp_path, unit, table(ROWS, PEOPLE))
    sent = pickle.loads(pickle.dumps(PartJob.of(plan, [each.measure for each in plan.estimators], FileInfo((), pa.schema([]), None))))
    assert [each.parameters() for each in sent.plan.estimators] == [each.parameters() for each in plan.estimators]


@pytest.mark.parametrize("unit", ["row", "person"])
def test_threads_add_few_rows_up_as_the_caller_does(tmp_path, monkeypatch, unit):
    rows, queries = table(ROWS, PEOPLE), FEW[: 2 if unit == "row" else None]
    here = with_lists(answers(plan_of(tmp_path, unit, rows, queries=queries), threads=2))
    monkeypatch.setattr(local_backend, "FEW_ROWS", 0)
    by_threads = with_lists(answers(plan_of(tmp_path, unit, rows, queries=queries), threads=2, piece_rows=50))
    assert here == by_threads


def test_an_error_that_may_quote_a_cell_stays_in_the_task():
    with pytest.raises(StorageError, match="ValueError") as caught, guarded():
        raise ValueError("secret cell")
    assert "secret" not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(DataError, match="column"), guarded():
        raise DataError("column 'x' holds a cell that is null")


@pytest.mark.long
@pytest.mark.parametrize(("unit", "where"), [*CASES, ("person of groups", "p < 3")])
def test_every_query_has_the_answer_of_one_machine(tmp_path, unit, where):
    rows = table(ROWS, PEOPLE)
    wanted = with_lists(answers(plan_of(tmp_path, unit, rows, where=where), threads=1))
    found = with_lists(in_parts(plan_of(tmp_path, unit, rows, where=where), rows, 5))
    for one, other in zip(wanted["queries"], found["queries"], strict=True):
        assert one == other, one["name"]
    assert wanted == found
