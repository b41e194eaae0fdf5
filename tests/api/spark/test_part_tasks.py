"""Tasks find exact partial statistics: however rows are put into parts, and parts are merged, the driver has those of one machine."""

from __future__ import annotations

import pytest

from dpcore.batch.release.job import parse_release_job
from dpcore.batch.release.run import document_of, measure
from dpcore.batch.release.unwritten import answers, make_unwritten_plan
from dpcore.batch.tables.progress import Silent
from dpcore.frames.arrow_source import ArrowSource
from dpcore.frames.inputs import FrameInput
from support.every_query import UNITS, document, table
from support.part_passes import PartPasses

ROWS, PEOPLE = 700, 90


def plan_of(folder, unit, rows, **options):
    job = {"input": {"path": "rows"}, "output": {"path": "nowhere"}, **document(folder, unit, **options)}
    return make_unwritten_plan(parse_release_job(job), FrameInput.of(ArrowSource(rows, "rows", is_snapshot=True)))


def in_parts(plan, rows, parts):
    """The document, from the statistics of parts."""
    passes = PartPasses(plan, rows, parts)
    return document_of(plan, *measure(plan, passes), {}, Silent())


CASES = [pytest.param(unit, where, marks=[pytest.mark.long]) for unit in UNITS for where in (None, "p < 3")]


@pytest.mark.parametrize(("unit", "where"), [*CASES, ("person of groups", "p < 3")])
def test_every_query_has_the_answer_of_one_machine(tmp_path, unit, where):
    rows = table(ROWS, PEOPLE)
    wanted = answers(plan_of(tmp_path, unit, rows, where=where), threads=1)
    found = in_parts(plan_of(tmp_path, unit, rows, where=where), rows, 5)
    for one, other in zip(wanted["queries"], found["queries"], strict=True):
        assert one == other, one["name"]
    assert wanted == found
