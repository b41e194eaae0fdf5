"""The privacy loss of an answer for each group, exactly: all tables of a few rows, and all of their neighbours."""

from __future__ import annotations

import dataclasses
import itertools
import tomllib

import numpy as np
import pyarrow as pa
import pytest

from dpcore.batch import parse_release_job
from dpcore.query import plan as calibration
from dpcore.query.written_plans import make_release_plan
from support.answers import parts_of
from support.jobs import write_table
from support.parts import losses
from support.releases import release_text
from support.totals import total_of

EPSILON = 0.75
GROUPS = {"g": ["a", "b"], "h": {"edges": [0, 1]}}
"""Two groups: of the first column, where the second is inside of its bin."""
KINDS = {
    "count": {"kind": "count"},
    "count of some": {"kind": "count", "column": "v", "lower": 1, "upper": 2},
    "histogram": {"kind": "histogram", "column": "v", "k": 3},
    "sum": {"kind": "sum", "column": "v", "lower": 1, "upper": 2},
    "mean": {"kind": "mean", "column": "v", "lower": 0, "upper": 2},
    "median": {"kind": "median", "column": "v", "grid": [0, 1, 2]},
    "quantiles": {"kind": "quantile", "column": "v", "q": [0.2, 0.5], "grid": [0, 1, 2]},
    "top": {"kind": "top_s", "column": "v", "k": 3, "s": 1},
    "top two with values": {"kind": "top_s", "column": "v", "k": 3, "s": 2, "values": True},
    "peeled": {"kind": "top_s", "column": "v", "k": 3, "s": 1, "method": "peeling"},
}
ROWS = [*itertools.product((0, 1), (0, 2)), (2, 0)]
"""Code of a group, 2 for a row of none, and a value. (Values between these add no larger loss, and a third value takes longer.)"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    table = pa.table({"g": ["a"], "h": [0.5], "v": pa.array([1], pa.int64()), "person": [1]})
    return write_table(table, tmp_path_factory.mktemp("groups") / "in.parquet")


def answer_of(source, query, privacy):
    """The answer of a job, calibrated."""
    full = {"epsilon": EPSILON, "group_by": ["g", "h"], "groups": GROUPS, **query}
    text = release_text(source, source.with_suffix(".json"), {"x": full}, privacy=privacy)
    (answer,) = make_release_plan(parse_release_job(tomllib.loads(text))).estimators
    return answer


def tally_of(answer, rows):
    codes = np.array([group for group, _ in rows], np.int32)
    values = np.array([value for _, value in rows], np.int64)
    read = [cells.read(pa.array(values)) for _, cells in answer.reads]
    return total_of(answer.measure, read, codes, rows=len(rows))


def multisets(most, least=0):
    return [rows for size in range(least, most + 1) for rows in itertools.combinations_with_replacement(ROWS, size)]


def neighbours(privacy):
    """Pairs of tables that differ in one unit; the others' rows come first."""
    most = privacy.get("max_rows_per_unit", 1)
    by_row = privacy.get("unit", "row") == "row"
    gone = privacy["relation"] == "add_remove"
    ends = multisets(most, 1 if by_row and not gone else 0)
    for rest in multisets(2 if most == 1 else 1):
        for one in ends:
            for other in [()] if gone else ends:
                yield rest + one, rest + other
                if gone:
                    yield rest, rest + one


def largest_loss(answer, privacy):
    known, ways, pairs = {}, [], []

    def place(rows):
        key = tuple(sorted(rows))
        if key not in known:
            known[key] = len(ways)
            ways.append(parts_of(answer, tally_of(answer, rows)))
        return known[key]

    for one, other in neighbours(privacy):
        pairs.append((place(one), place(other)))
    return losses(ways, np.array(pairs)).max()


PRIVACY = [
    {"relation": "replace"},
    {"relation": "add_remove"},
    {"relation": "replace", "unit": "person", "max_rows_per_unit": 2},
    {"relation": "add_remove", "unit": "person", "max_rows_per_unit": 2},
]


@pytest.mark.parametrize("privacy", PRIVACY, ids=str)
@pytest.mark.parametrize("name", KINDS)
def test_the_loss_of_all_groups_together_is_within_epsilon(source, name, privacy):
    found = largest_loss(answer_of(source, KINDS[name], privacy), privacy)
    assert found <= EPSILON * (1 + 1e-6)
    if name in {"count", "histogram", "sum"}:
        assert found >= EPSILON * (1 - 1e-9)


@pytest.mark.parametrize("name", KINDS)
def test_noise_for_the_wrong_neighbours_is_found(source, name, monkeypatch):
    """The broken twin: noise for one row that is added or removed, where two rows are replaced."""
    privacy = PRIVACY[2]
    right = calibration.contribution

    def wrong(job, query):
        return dataclasses.replace(right(job, query), rows=1, replaced=False)

    monkeypatch.setattr(calibration, "contribution", wrong)
    assert largest_loss(answer_of(source, KINDS[name], privacy), privacy) > EPSILON * 1.01


@pytest.mark.some(2)
@pytest.mark.parametrize("privacy", PRIVACY, ids=str)
@pytest.mark.parametrize("kind", ["median", "top"])
def test_rho_of_choices_covers_their_loss(source, kind, privacy):
    """ρ ≥ the loss in the mean, KL divergence, of every pair of neighbours: zCDP bounds it by ρ."""
    answer = answer_of(source, KINDS[kind], privacy)
    largest = 0.0
    for one, other in neighbours(privacy):
        (here,), (there,) = (parts_of(answer, tally_of(answer, rows)) for rows in (one, other))
        divergence = sum((np.exp(mine.logs) * (mine.logs - theirs.logs)).sum() for mine, theirs in zip(here, there, strict=True))
        largest = max(largest, divergence)
    assert 0 < largest <= answer.rho
