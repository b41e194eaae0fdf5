"""Running totals of jobs: no neighbouring series of short tables costs more than ε, for rows and units, groups and conditions.

What one unit adds to a step is enumerated through the engine; what a step releases without noise comes from the mechanism of the plan.
Neighbouring series differ in one step, as neighbouring tables do; or, where the job claims that units are in at most m steps, in a unit
that is in at most m steps of one of them and, if units are replaced, in one that is in at most m steps of the other.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from dpcore.batch import make_release_plan, parse_release_job
from dpcore.query import plan as calibration
from support.jobs import write_table
from support.neighbours import Statistics, Tables

EPSILON, STEPS = 0.75, 3
COLUMNS = {"x": pa.int64(), "g": pa.string()}
OWN = [(1, "a"), (2, "b"), (0, "a"), (1, "z")]
"""Rows that pass, in two groups; one that does not; one of no group."""
GROUPS = {"all": {}, "by g": {"group_by": "g", "groups": ["a", "b"]}}
WHERE = {"every row": {}, "where": {"where": "x > 0"}, "a column": {"column": "x", "lower": 1, "upper": 9}}
UNITS = {"row": {}, "unit": {"unit": "unit", "max_rows_per_unit": 2}}
CASES = [
    each
    for each in itertools.product(UNITS, ("replace", "add_remove"), GROUPS, WHERE, (None, 1, 2), (0.0, 1e-6))
    if each[:4] != ("row", "replace", "all", "every row")  # whose number is public
]
NAMES = [", ".join(map(str, each)) for each in CASES]


def plan_of(folder, case):
    unit, relation, groups, where, claimed, delta = case
    write_table(pa.table({"x": [1], "g": ["a"], "unit": [1]}), folder / "in.parquet")
    query = {
        "name": "total", "kind": "running_total", "epsilon": EPSILON, "delta": delta, "steps": STEPS, "step": 1,
        "state": str(folder / "state" / "total.state"), **GROUPS[groups], **WHERE[where],
    }  # fmt: skip
    query |= {} if claimed is None else {"max_steps_per_unit": claimed}
    job = {
        "version": 1, "input": {"path": str(folder / "in.parquet")}, "output": {"path": str(folder / "out" / "o.json")},
        "privacy": {"max_epsilon": 1.0, "max_delta": 0.1, "relation": relation, **UNITS[unit]}, "query": [query],
    }  # fmt: skip
    return make_release_plan(parse_release_job(job))


def changes_of(folder, case, plan):
    """What the difference of two series may be, as arrays of steps and groups."""
    unit, relation, _, _, claimed, _ = case
    is_row = unit == "row"
    tables = Tables.of([()], OWN, 1 if is_row else 2, relation, public=is_row and relation == "replace" and claimed is None)
    counts = np.array([np.asarray(each)[:-1] for each in Statistics(plan, tables, COLUMNS, folder / "spill").of(0)])
    if claimed is None:
        apart = np.unique([counts[b] - counts[a] for a, b in tables.pairs], axis=0)
        for step, change in itertools.product(range(STEPS), apart):
            whole = np.zeros((STEPS, counts.shape[1]), int)
            whole[step] = change
            yield whole
        return
    added = np.unique(counts, axis=0)  # what a unit adds to a step; nothing is among it, or is not worse
    series = []
    for steps in itertools.combinations(range(STEPS), claimed):
        for each in itertools.product(added, repeat=claimed):
            whole = np.zeros((STEPS, counts.shape[1]), int)
            whole[list(steps)] = each
            series.append(whole)
    nobody = np.zeros((STEPS, counts.shape[1]), int)
    distinct = np.unique(series, axis=0)
    for one, other in itertools.product(distinct, distinct if relation == "replace" else [nobody]):
        yield other - one


def moved(plan, change):
    """How far what is released moves, in the norm of its noise."""
    way = plan.estimators[0].mechanism.way
    kept = [way.begin() for _ in range(change.shape[1])]
    moves = np.array([[state.add(int(entry), 0) for state, entry in zip(kept, row, strict=True)] for row in change], float)
    return float(np.sqrt((moves**2).sum())) if way.law == "discrete_gaussian" else float(np.abs(moves).sum())


def spent(plan, farthest):
    """The share of its budget that the worst neighbour costs."""
    (noise,) = plan.estimators[0].noise
    if noise.law == "discrete_gaussian":
        return (farthest / noise.scale) ** 2 / 2 / plan.estimators[0].rho
    return farthest / noise.scale / EPSILON


@pytest.mark.some(12)
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_no_neighbouring_series_costs_more_than_its_budget(tmp_path, case, monkeypatch):
    plan = plan_of(tmp_path, case)
    farthest = max(moved(plan, change) for change in changes_of(tmp_path, case, plan))
    assert spent(plan, farthest) <= 1 + 1e-9
    assert farthest <= plan.estimators[0].noise[0].sensitivity * (1 + 1e-12)
    assert spent(plan, farthest) >= 0.45
    # Twins: the noise for one row that is added or removed in one step, or half of the noise.
    with monkeypatch.context() as broken:
        right = calibration.contribution
        broken.setattr(calibration, "contribution", lambda job, query: replace(right(job, query), rows=1, replaced=False))
        twin = plan_of(tmp_path, case)
    assert max(spent(twin, farthest), 2 * spent(plan, farthest), 4 * spent(plan, farthest) * bool(case[5])) > 1 + 1e-6


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_claim_is_paid_for(tmp_path, delta, monkeypatch):
    """And a twin is found that takes a person in two steps for one event."""
    case = ("unit", "add_remove", "all", "every row", 2, delta)
    right_plan = plan_of(tmp_path, case)
    changes = list(changes_of(tmp_path, case, right_plan))
    assert spent(right_plan, max(moved(right_plan, change) for change in changes)) <= 1 + 1e-9
    from dpcore.query.kinds import running_total

    right = running_total.RunningTotals
    monkeypatch.setattr(running_total, "RunningTotals", lambda *args, **keys: right(*args, **keys | {"max_steps_per_unit": 1}))
    twin = plan_of(tmp_path, case)
    assert spent(twin, max(moved(twin, change) for change in changes)) > 1.2


def test_a_replaced_person_in_other_steps_is_paid_for(tmp_path, monkeypatch):
    """And a twin is found that lets a replaced person be in the same steps alone."""
    case = ("unit", "replace", "all", "every row", 2, 0.0)
    right_plan = plan_of(tmp_path, case)
    changes = list(changes_of(tmp_path, case, right_plan))
    assert spent(right_plan, max(moved(right_plan, change) for change in changes)) <= 1 + 1e-9
    from dpcore.query.sensitivity import Contribution

    monkeypatch.setattr(Contribution, "cells", Contribution.count)
    twin = plan_of(tmp_path, case)
    assert spent(twin, max(moved(twin, change) for change in changes)) > 1.2
