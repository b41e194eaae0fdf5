"""What one unit can do to the answers of a job with a condition: all neighbours of small tables, for every kind of query.

Tables are enumerated through the engine: expressions, filters, cells and tallies. A statistic that is additive depends on the rows of one
unit alone; the utility of a quantile does not, so that others' rows stand beside them.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dpcore.jobs.release_job import parse_release_job
from dpcore.query.encoders import read_column
from dpcore.query.plan import contribution
from dpcore.query.sensitivity import Contribution
from dpcore.query.written_plans import make_release_plan
from dpcore.tables.rows import Rows, RowsOfFile
from dpcore.tables.sql.derivation import Passing
from support.jobs import write_table
from support.parts import exact_sums
from support.totals import total_of

BOUNDS = {"column": "v", "lower": -1.0, "upper": 3.0, "missing": 2.0}
QUERIES = {
    "n": {"kind": "count"},
    "some": {"kind": "count", "column": "v", "lower": 0, "upper": 5},
    "cells": {"kind": "histogram", "column": "g", "categories": ["a", "b"], "missing": "a", "unknown": "b"},
    "bins": {"kind": "histogram", "column": "twice", "edges": [-3, 0, 2, 7], "missing": 0},
    "sum": {"kind": "sum", **BOUNDS},
    "high": {"kind": "sum", "column": "v", "lower": 2.0, "upper": 3.0, "missing": 2.0},
    "mean": {"kind": "mean", **BOUNDS},
    "variance": {"kind": "var", **BOUNDS},
    "together": {"kind": "covariance", "columns": ["v", "twice"], "lower": [-1, -2], "upper": [3, 6], "missing": [0, 0]},
    "third": {"kind": "quantile", "column": "v", "q": 0.3, "grid": [-1, 0, 1, 2, 3], "missing": 0},
    "by group": {"kind": "count", "group_by": "g", "groups": ["a", "b"]},
    "sums": {"kind": "sum", **BOUNDS, "group_by": "g", "groups": ["a", "b"]},
    "top": {"kind": "top_s", "column": "g", "candidates": ["a", "b"], "s": 1},
    "made": {"kind": "synthetic", "columns": [{"name": "g", "categories": ["a", "b"], "missing": "a", "unknown": "b"}], "output": ""},
}
WHERE = "p // q > 0 AND v IS NOT NULL"
"""Passes for q = 1 and p = 1; with q = 0 it fails, and with a null in v it is false."""
VALUES = [(v, g, p, q) for v in (-9.0, 0.5, 9.0) for g in ("a", "b") for p, q in ((1, 1),)] + [
    (-9.0, "a", 0, 1), (9.0, "b", 1, 0), (None, "a", 1, 1), (9.0, None, 1, 1), (float("nan"), "b", 1, 1), (9.0, "z", None, None),
]  # fmt: skip
"""Rows that pass, and rows that do not for different reasons."""
OTHERS = [(0.5, "a", 1, 1), (2.0, "b", 1, 1), (3.0, "a", 0, 1)]


def table_of(rows):
    v, g, p, q = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [], [])
    arrays = [pa.array(v, pa.float64()), pa.array(g, pa.string()), pa.array(p, pa.int64()), pa.array(q, pa.int64())]
    return pa.RecordBatch.from_arrays([*arrays, pa.array(range(len(rows)), pa.int64())], ["v", "g", "p", "q", "unit"])


def plan_of(folder, on_job, privacy):
    """A plan whose condition is the job's, or that of each query."""
    source = folder / "in.parquet"
    write_table(pa.Table.from_batches([table_of(OTHERS)]), source)
    own = {} if on_job else {"where": WHERE}
    queries = [{"name": name, "epsilon": 1.0, **own, **query} for name, query in QUERIES.items()]
    queries[-1] |= {"output": str(folder / "made.parquet")}
    job = {
        "version": 1, "input": {"path": str(source)}, "output": {"path": str(folder / "o.json")},
        "privacy": {"max_epsilon": 1e3} | privacy, "query": queries, "derive": [{"name": "twice", "sql": "v * 2"}],
    }  # fmt: skip
    return make_release_plan(parse_release_job(job | ({"where": WHERE} if on_job else {})))


class Statistics:
    """The exact statistic of each query, as a vector, for any rows."""

    def __init__(self, plan, deriving):
        self._plan, self._deriving = plan, deriving
        self._names = tuple({name: None for answer in plan.estimators for name, _ in answer.reads})

    def of(self, rows):
        batch = table_of(rows)
        derived = self._deriving.of(Rows(batch, (RowsOfFile(0, Path("in"), 0),), 0, 1.0))
        passing = Passing(derived, None, self._plan.derivations.conditions, self._names)
        found = {}
        for place, (name, answer) in enumerate(zip(QUERIES, self._plan.estimators, strict=True)):
            part = passing.of(place)
            read = [part.taking_part(read_column(part.rows, each, cells)) for each, cells in answer.reads]
            codes = None if answer.grouping is None else part.taking_part(answer.grouping.codes(part.rows.batch))
            tally = total_of(answer.measure, read, codes, rows=part.n)
            found[name] = self._vector(name, answer, tally)
        return found

    def _vector(self, name, answer, tally):
        if name in {"sum", "high", "mean"}:
            return [*exact_sums(tally), *(tally.counts.tolist() if name == "mean" else ())]
        if name in {"variance", "together"}:
            (moments,) = tally.each()
            return [moments.n, *(moments.about(centres) for centres in centres_of(answer))]
        if name == "third":
            return answer.utilities(tally[0, :-1], Fraction(3, 10)).tolist()
        if name == "sums":
            return exact_sums(tally)
        if name == "by group":
            return tally[:-1].tolist()
        if name == "made":
            return tally.all().tolist()
        return np.ravel(tally[:-1] if tally.ndim == 1 else tally[:-1, :-1]).tolist()


def centres_of(answer):
    """Centres that the noisy means of a variance or a covariance may be rounded to."""
    ends = [(0, steps.most // 2, steps.most) for steps in answer.steps]
    return list(itertools.product(*ends))


def neighbours(relation, unit):
    """Pairs of what one unit may own."""
    if unit == "row":
        owned = [(), *((row,) for row in VALUES)]
        some = [(one, other) for one in owned[1:] for other in owned[1:]]
        return some if relation == "replace" else [(one, ()) for one in owned]
    owned = [own for k in range(3) for own in itertools.combinations_with_replacement(VALUES, k)]
    return [(one, other) for one in owned for other in (owned if relation == "replace" else [()])]


SETTINGS = list(itertools.product(("replace", "add_remove"), ("row", "unit"), (True, False)))
DEFAULT = {("replace", "row", True), ("add_remove", "unit", True)}
"""Conditions of a job. `test_release_matrix.py` has those of queries."""


@pytest.mark.parametrize(
    ("relation", "unit", "on_job"), [pytest.param(*each, marks=() if each in DEFAULT else pytest.mark.long) for each in SETTINGS]
)
def test_no_unit_moves_an_answer_by_more_than_its_noise_hides(tmp_path, relation, unit, on_job):
    """All neighbours, of up to two rows a unit. Each bound is reached, and the twin that takes n for public is exceeded."""
    privacy = {"relation": relation} | ({} if unit == "row" else {"unit": "unit", "max_rows_per_unit": 2})
    plan = plan_of(tmp_path, on_job, privacy)
    most = 1 if unit == "row" else 2
    for query in plan.job.query:
        assert contribution(plan.job, query) == Contribution(most, replaced=relation == "replace", n_is_public=False)
    pairs = neighbours(relation, unit)
    with plan.derivations.adding.opened() as deriving:
        statistics = Statistics(plan, deriving)
        known = {own: statistics.of([*OTHERS, *own]) for own in {each for pair in pairs for each in pair}}
    largest = dict.fromkeys(QUERIES, Fraction(0))
    squared = dict.fromkeys(QUERIES, Fraction(0))
    products = dict.fromkeys(("variance", "together"), False)
    for one, other in pairs:
        for name, answer in zip(QUERIES, plan.estimators, strict=True):
            change = [abs(b - a) for a, b in zip(known[one][name], known[other][name], strict=True)]
            moved = max(change) if name in {"third", "top"} else change[0] if name == "mean" else sum(change)
            if name in products:
                bounds = [answer._product_sensitivity(centres) / answer.squared_step for centres in centres_of(answer)]
                assert change[0] <= most
                assert all(each <= limit for each, limit in zip(change[1:], bounds, strict=True))
                products[name] |= any(2 * each > limit for each, limit in zip(change[1:], bounds, strict=True))
                continue
            largest[name] = max(largest[name], Fraction(moved))
            squared[name] = max(squared[name], sum(Fraction(each) ** 2 for each in change))
    bound = Contribution(most, replaced=relation == "replace", n_is_public=False)
    for name, answer in zip(QUERIES, plan.estimators, strict=True):
        if name in {"variance", "together"}:
            assert products[name], name
            continue
        sensitivity = answer.sensitivities[0] if name == "third" else Fraction(answer.noise[0].sensitivity)
        assert largest[name] <= sensitivity, name
        assert largest[name] == sensitivity, (name, float(largest[name]), float(sensitivity))
    for name in ("cells", "bins", "by group", "made"):
        assert squared[name] <= Fraction(bound.cells.l2) ** 2
        assert math.isclose(bound.cells.l2**2, squared[name])
    if relation == "replace" and unit == "row":
        public = replace(bound, n_is_public=True)
        assert Fraction(public.total(2.0, 3.0).l1) < largest["high"]  # the broken twin: U − L = 1, and 3 is what moves
        assert largest["n"] == 1  # which a table of public size gives away for nothing


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_moments_after_a_condition_have_private_counts(tmp_path, relation):
    for on_job in (True, False):
        plan = plan_of(tmp_path, on_job, {"relation": relation})
        answers = dict(zip(QUERIES, plan.estimators, strict=True))
        for name in ("variance", "together"):
            assert any(noise.law.startswith("discrete") and noise.sensitivity == 1 for noise in answers[name].noise)
        (tmp_path / "o.json").unlink(missing_ok=True)
