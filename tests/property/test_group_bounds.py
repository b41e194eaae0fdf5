"""Bounds that are found privately for all groups together: all neighbours of tiny tables, by the loss of both releases."""

from __future__ import annotations

import dataclasses
import itertools
import math
import tomllib
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dpcore.batch import parse_release_job
from dpcore.batch.release import calibration
from dpcore.batch.release.bounds_pass import counting
from dpcore.batch.release.kinds import kind_of
from dpcore.batch.release.octaves import EDGES, OCTAVES
from dpcore.batch.release.plan import make_release_plan
from support.jobs import write_table
from support.losses import largest_loss
from support.releases import release_text

EPSILON, FOR_BOUNDS = 0.75, 0.25
KINDS = ("sum", "mean", "var", "median")
PRIVACY = [
    {"relation": "replace"},
    {"relation": "add_remove"},
    {"relation": "replace", "unit": "person", "max_rows_per_unit": 2},
    {"relation": "add_remove", "unit": "person", "max_rows_per_unit": 2},
    {"relation": "replace", "unit": "person", "max_rows_per_unit": 2, "max_groups_per_unit": 1},
]
ROWS = [*itertools.product((0, 1), (-1.0, 3.0, 5.0)), (2, 3.0)]
"""The group of a row, 2 for none, and its number."""
ENDS = [(OCTAVES, OCTAVES + 34), (OCTAVES - 33, OCTAVES + 34), (OCTAVES + 33, OCTAVES + 34)]
"""[0, 2], [−1, 2] and [1, 2]."""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    table = pa.table({"g": ["a"], "x": [0.5], "person": [1]})
    return write_table(table, tmp_path_factory.mktemp("bounds") / "in.parquet")


def plan_of(source, kind, privacy, **keys):
    query = {"kind": kind, "column": "x", "group_by": "g", "groups": ["a", "b"], "epsilon": EPSILON, "missing": 0, **keys}
    found = {"bounds": "private", "bounds_epsilon": FOR_BOUNDS, **query}
    text = release_text(source, source.with_suffix(".json"), {"x": found}, privacy=privacy)
    return make_release_plan(parse_release_job(tomllib.loads(text)))


def read_of(answer, rows):
    cells = pa.array([number for _, number in rows], pa.float64())
    return [*(each.read(cells) for _, each in answer.reads), np.array([group for group, _ in rows], np.int32)]


class Released:
    """The bins, and the answer between each pair of bounds, of all tables that are asked about."""

    def __init__(self, plan):
        (self.answer,), (self.bins,) = plan.answers, counting(plan).answers
        self.inner = [self.answer.each.between(ends) for ends in ENDS]
        self.known = {}

    def of(self, rows):
        rows = tuple(sorted(rows))
        if rows not in self.known:
            bins = self.bins.tally(len(rows), read_of(self.bins, rows))
            self.known[rows] = bins, [self.between(inner, rows) for inner in self.inner]
        return self.known[rows]

    def between(self, inner, rows):
        tallies = kind_of(inner.section).tallies(inner)
        tally = tallies.nothing(2)
        *read, codes = read_of(inner, rows)
        tallies.add(tally, codes, read)
        return tally

    def loss(self, one, other):
        """Of the bins, and of the worst answer between bounds."""
        (bins, tallies), (others, other_tallies) = self.of(one), self.of(other)
        first = float(int(np.abs(bins - others).sum()) / Fraction(self.answer.each.bins.scale))
        return first, max(map(loss_between, self.inner, tallies, other_tallies))


def loss_between(inner, one, other):
    match inner.section.kind:
        case "var":
            centres = [(0,)]
            return float(sum(largest_loss(inner, a, b, centres) for a, b in zip(one.each(), other.each(), strict=True)))
        case "median":
            return sum(loss_of_choice(inner, a, b) for a, b in zip(one[:-1, :-1], other[:-1, :-1], strict=True))
    sums = ([total * Fraction(each.sums.grid) for total in each.sums.integers] for each in (one, other))
    moved = sum(abs(a - b) for a, b in zip(*sums, strict=True))
    if inner.section.kind == "sum":
        return float(moved / Fraction(inner.mechanism.scale))
    return float(moved / Fraction(inner.total.scale) + int(np.abs(one.counts - other.counts).sum()) / Fraction(inner.count.scale))


def loss_of_choice(inner, one, other):
    if (one == other).all():
        return 0.0
    logs = []
    for counts in (one, other):
        exponents = inner.epsilon * inner.utilities(counts, Fraction(1, 2)) / (2 * inner.sensitivities[0])
        logs.append(exponents - np.log(np.exp(exponents).sum()))
    return float(np.abs(logs[0] - logs[1]).max())


def neighbours(privacy):
    """Pairs of tables that differ in one unit, beside a row of each group and none."""
    most = privacy.get("max_rows_per_unit", 1)
    least = 1 if "unit" not in privacy and privacy["relation"] == "replace" else 0
    owned = [rows for size in range(least, most + 1) for rows in itertools.combinations_with_replacement(ROWS, size)]
    if "max_groups_per_unit" in privacy:
        owned = [rows for rows in owned if len({group for group, _ in rows} - {2}) <= 1]
    pairs = itertools.combinations(owned, 2) if privacy["relation"] == "replace" else ((rows, ()) for rows in owned)
    for one, other in pairs:
        for rest in ((), (ROWS[0], ROWS[4])):
            yield rest + one, rest + other


CASES = [(kind, privacy) for privacy in PRIVACY for kind in (KINDS if "max_groups_per_unit" not in privacy else KINDS[:1])]


@pytest.mark.parametrize(("kind", "privacy"), CASES, ids=str)
def test_bounds_and_answers_of_all_groups_lose_no_more_than_epsilon(source, kind, privacy):
    released = Released(plan_of(source, kind, privacy))
    losses = [released.loss(*pair) for pair in neighbours(privacy)]
    assert max(first for first, _ in losses) == pytest.approx(FOR_BOUNDS, rel=1e-9)
    assert max(map(sum, losses)) <= EPSILON * (1 + 1e-9)
    if kind == "sum":
        assert max(map(sum, losses)) >= EPSILON * (1 - 1e-9)


@pytest.mark.parametrize("twin", ["bins for one row", "all of epsilon twice"])
def test_a_broken_twin_is_found(source, twin, monkeypatch):
    """Bins with the noise of a row that is added, where two rows are replaced by others; or no share for the bins."""
    privacy, right = PRIVACY[2], calibration.contribution
    if twin == "bins for one row":
        monkeypatch.setattr(calibration, "contribution", lambda job, query: dataclasses.replace(right(job, query), rows=1, replaced=False))
        released = Released(plan_of(source, "sum", privacy))
    else:
        released = Released(plan_of(source, "sum", privacy, epsilon=EPSILON + FOR_BOUNDS))
    assert max(sum(released.loss(*pair)) for pair in neighbours(privacy)) > EPSILON * 1.01


def random_tables(rng):
    """A table, and one in which the rows of one unit are others: numbers of many sizes, in three groups and in none."""
    rows = [(int(rng.integers(0, 4)), float(rng.standard_cauchy() * 2.0 ** rng.integers(-40, 70))) for _ in range(rng.integers(2, 8))]
    return [row for row in rows if rng.random() < 0.7], rows[:2], rows[-2:]


@pytest.mark.parametrize("count", [100, pytest.param(100_000, marks=pytest.mark.long)])
def test_bins_of_random_neighbours_are_within_their_sensitivity(source, count):
    """In integers: m rows leave and m enter, whatever groups they are in."""
    plan = plan_of(source, "sum", PRIVACY[2])
    (answer,), (bins,) = plan.answers, counting(plan).answers
    rng, largest = np.random.default_rng(16), 0
    for _ in range(count):
        rest, one, other = random_tables(rng)
        counts = [bins.tally(9, read_of(bins, [*rest, *own])) for own in (one, other)]
        largest = max(largest, int(np.abs(counts[0] - counts[1]).sum()))
    assert largest == answer.each.bins.sensitivity == 4
    assert len(EDGES) - 1 == 194


def test_a_grid_is_as_fine_as_groups_allow(source):
    each = plan_of(source, "median", PRIVACY[0]).answers[0].each
    for groups, ends in itertools.product((1, 50, 100, 1000, 5377), ((0, 194), *ENDS)):
        points = each.fitting(ends, groups).points
        grid = each.fitting(ends, groups).between(ends).cells.grid
        assert points in {1, 2, 4, 8, 16, 32, 64}
        assert len(grid) * groups <= 2**20
        assert points == 64 or 2 * len(grid) * groups > 2**20 * (1 - 2 / len(grid))
        assert (grid[0], grid[-1]) == (EDGES[ends[0]], EDGES[ends[1]])
        assert math.isfinite(sum(grid))
