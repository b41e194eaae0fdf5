"""The answers to many groups at once are those to each group, with the words that belong to it."""

from __future__ import annotations

import itertools
import tomllib
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from dpcore.batch import parse_release_job
from dpcore.query.kinds import moments
from dpcore.query.noise import APART, Draw
from dpcore.query.statistics import MomentsOfGroups
from dpcore.query.written_plans import make_release_plan
from dpcore.testing import KeyedRandom
from support.jobs import KEY, write_table
from support.releases import release_text
from support.totals import total_of

GROUPS, ROWS = 5, 400
GRID = {"grid": [0, 1, 2, 5, 8]}
CHOICES = {
    "median": {"kind": "median", "column": "v", **GRID},
    "skipped": {"kind": "median", "column": "v", "missing": "skip", **GRID},
    "quantiles": {"kind": "quantile", "column": "v", "q": [0.1, 0.25, 0.9], **GRID},
    "top": {"kind": "top_s", "column": "v", "k": 9, "s": 3},
    "values": {"kind": "top_s", "column": "v", "k": 9, "s": 3, "values": True},
    "peeled": {"kind": "top_s", "column": "v", "k": 9, "s": 2, "method": "peeling", "values": True, "delta": 1e-6},
    "one-shot": {"kind": "top_s", "column": "v", "k": 9, "s": 3, "method": "oneshot_laplace", "epsilon": 0.1, "delta": 1e-3},
}
BOUNDS = {"lower": -3.5, "upper": 8}
MOMENTS = {
    "variance": {"kind": "var", "column": "v", **BOUNDS},
    "deviation": {"kind": "std", "column": "v", "ddof": 0, "delta": 1e-6, **BOUNDS},
    "skipped": {"kind": "std", "column": "v", "missing": "skip", **BOUNDS},
    "covariance": {"kind": "covariance", "columns": ["v", "w"], "lower": [0, -9], "upper": [8, 9]},
    "far": {"kind": "var", "column": "w", "lower": 2**60, "upper": 2**60 + 1000},
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    table = pa.table({"g": pa.array([0]), "v": pa.array([1], pa.int64()), "w": [1.0]})
    return write_table(table, tmp_path_factory.mktemp("rows") / "in.parquet")


def answer_of(source, query):
    full = {"epsilon": 2.0, "group_by": "g", "groups": {"g": {"k": GROUPS}}, **query}
    text = release_text(source, source.with_suffix(".json"), {"x": full}, privacy={"relation": "add_remove"})
    (answer,) = make_release_plan(parse_release_job(tomllib.loads(text))).estimators
    return answer


def tally_of(answer):
    """Rows of all groups but the last, and of none."""
    draws = np.random.default_rng(5)
    codes = draws.choice(np.array([0, 1, 2, 3, GROUPS], np.int32), ROWS)
    read = []
    for _, cells in answer.reads:
        values = pa.array(draws.integers(0, 9, ROWS), mask=draws.random(ROWS) < (0.3 if answer.section.missing == "skip" else 0)) \
            if hasattr(answer.section, "missing") else pa.array(draws.integers(0, 9, ROWS))  # fmt: skip
        read.append(cells.read(values))
    return total_of(answer.measure, read, codes)


class OfGroup:
    """The stream of one group: so many elements into each of the draws."""

    secure = False

    def __init__(self, draws, element):
        self._draws = iter(draws)
        self._element = element

    def position(self):
        return next(self._draws).at(self._element).position()


def one_by_one(answer, tallies, apart, draws):
    """The answers to the groups, one after the other."""
    key = KeyedRandom(KEY)
    drawn = [Draw(key) for _ in range(draws)]
    alone = replace(answer, grouping=None)
    answers = [alone.release(tally, OfGroup(drawn, group * apart)) for group, tally in enumerate(tallies)]
    return {name: [each[name] for each in answers] for name in answers[0]}


def one_group_each(tally):
    """The sums of each group, as those of one group."""
    for group in range(tally.groups):
        alone = MomentsOfGroups(1, len(tally.totals))
        for mine, totals in zip(alone.totals, tally.totals, strict=True):
            mine[0] = totals[group]
        yield alone


@pytest.mark.parametrize("name", CHOICES)
def test_choices_of_all_groups_are_those_of_each(source, name):
    answer = answer_of(source, CHOICES[name])
    tally = tally_of(answer)
    expected = one_by_one(answer, [np.stack([each, np.zeros_like(each)]) for each in tally[:-1]], APART, 4)
    found = answer.release(tally, KeyedRandom(KEY))
    assert found == expected
    assert list(found) == list(expected)
    assert len({str(each) for each in found["value"]}) > 1


@pytest.mark.parametrize("name", MOMENTS)
def test_moments_of_all_groups_are_those_of_each(source, name, monkeypatch):
    """But for a unit in the last place of a scale; and however many groups are answered at a time."""
    answer = answer_of(source, MOMENTS[name])
    tally = tally_of(answer)
    expected = one_by_one(answer, list(one_group_each(tally)), 1, 4)
    found = answer.release(tally, KeyedRandom(KEY))
    assert set(found) == set(expected)
    for key, values in found.items():
        assert np.asarray(values) == pytest.approx(np.asarray(expected[key]), rel=1e-9), key
    monkeypatch.setattr(moments, "AT_A_TIME", 2)
    assert answer.release(tally, KeyedRandom(KEY)) == found


def test_scales_of_products_are_rounded_up(source):
    """Never below that of one group, which is the exact one rounded up."""
    answer = answer_of(source, MOMENTS["covariance"])
    ends = [(0, steps.most, steps.most // 2, 1, steps.most // 3 + 12345) for steps in answer.steps]
    pairs = np.array(list(itertools.product(*ends)), np.int64)
    released = object.__new__(moments._TwoReleases)
    released.estimator, released.centres = answer, list(pairs.T)
    for pair, scale in zip(pairs.tolist(), released._product_scales().tolist(), strict=True):
        exact = answer.product_scale(tuple(pair))
        assert exact <= scale <= exact * (1 + 2.0**-50)
