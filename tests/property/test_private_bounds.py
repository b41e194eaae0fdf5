"""Bounds that are found privately, for a whole table and for groups: all neighbours of tiny tables, by the loss of both releases."""

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
from dpcore.query import plan as calibration
from dpcore.query.grids import EDGES, LOG_BINS, OCTAVES, WIDEST, bins_of, log_grid
from dpcore.query.private_bounds import rest_epsilon
from dpcore.query.written_plans import make_release_plan
from support.answers import between_bounds, parts_of
from support.jobs import write_table
from support.parts import losses
from support.releases import release_text
from support.totals import total_of

EPSILON, FOR_BOUNDS = 0.75, 0.25
KINDS = ("sum", "mean", "var", "median")
GROUPS = {"the whole table": {}, "two groups": {"group_by": "g", "groups": ["a", "b"]}}
PRIVACY = [
    {"relation": "replace"},
    {"relation": "add_remove"},
    {"relation": "replace", "unit": "person", "max_rows_per_unit": 2},
    {"relation": "add_remove", "unit": "person", "max_rows_per_unit": 2},
    {"relation": "replace", "unit": "person", "max_rows_per_unit": 2, "max_groups_per_unit": 1},
]
ROWS = [*itertools.product((0, 1), (-1.0, 3.0, 9.0)), (2, 3.0)]
"""The group of a row, 2 for none, and its number."""
EVERY = [-5.0, 0.0, 0.3, 1.0, 6.0, math.inf, -math.inf, -0.0, 5e-324, -1e-300, 2.0**-32, -(2.0**-32), 2.0**64, 1e300, math.pi, 1 / 3]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    table = pa.table({"g": ["a"], "x": [0.5], "person": [1]})
    return write_table(table, tmp_path_factory.mktemp("bounds") / "in.parquet")


def answer_of(source, kind, privacy, groups, **keys):
    query = {"kind": kind, "column": "x", "epsilon": EPSILON, "missing": 0, **GROUPS[groups], **keys}
    found = {"bounds": "private", "bounds_epsilon": FOR_BOUNDS, **query}
    text = release_text(source, source.with_suffix(".json"), {"x": found}, privacy=privacy)
    (answer,) = make_release_plan(parse_release_job(tomllib.loads(text))).estimators
    return answer


def total_of_rows(measure, rows):
    """The statistic of rows; those of no group are in the whole table too."""
    cells = pa.array([number for _, number in rows], pa.float64())
    codes = None if measure.grouping is None else np.array([group for group, _ in rows], np.int32)
    return total_of(measure, [each.read(cells) for _, each in measure.reads], codes)


class Released:
    """The bins, and the answer between each pair of bounds, of all tables that are asked about."""

    def __init__(self, answer):
        self.answer, self.inner = answer, between_bounds(answer)
        self.places, self.ways = {}, []

    def place(self, rows):
        rows = tuple(sorted(rows))
        if rows not in self.places:
            self.places[rows] = len(self.ways)
            bins = total_of_rows(self.answer.measure_of_bins, rows)
            self.ways.append(parts_of(self.answer, (bins, [total_of_rows(inner.measure, rows) for inner in self.inner])))
        return self.places[rows]

    def losses(self, pairs):
        """The largest loss of the bins, and of both releases."""
        pairs = np.array([(self.place(one), self.place(other)) for one, other in pairs])
        bins = [[way[:1] for way in ways[:1]] for ways in self.ways]
        return losses(bins, pairs).max(), losses(self.ways, pairs).max()


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


CASES = [
    (kind, groups, privacy)
    for kind, groups, privacy in itertools.product(KINDS, GROUPS, PRIVACY)
    if "max_groups_per_unit" not in privacy or (kind == "sum" and groups == "two groups")
]


@pytest.mark.some(9)
@pytest.mark.parametrize(("kind", "groups", "privacy"), CASES, ids=str)
def test_bounds_and_answer_together_lose_no_more_than_epsilon(source, kind, groups, privacy):
    bins, both = Released(answer_of(source, kind, privacy, groups)).losses(neighbours(privacy))
    assert bins == pytest.approx(FOR_BOUNDS, rel=1e-9)
    assert both <= EPSILON * (1 + 1e-9)
    assert both >= EPSILON * ((1 - 1e-9) if kind == "sum" else 0.5)


@pytest.mark.some(2)
@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("twin", ["bins for one row", "all of epsilon twice"])
def test_a_broken_twin_is_found(source, twin, groups, monkeypatch):
    """Bins with the noise of a row that is added, where two rows are replaced by others; or no share for the bins."""
    privacy, right = PRIVACY[2], calibration.contribution
    if twin == "bins for one row":
        monkeypatch.setattr(calibration, "contribution", lambda job, query: dataclasses.replace(right(job, query), rows=1, replaced=False))
        answer = answer_of(source, "sum", privacy, groups)
    else:
        answer = answer_of(source, "sum", privacy, groups, epsilon=EPSILON + FOR_BOUNDS)
    assert Released(answer).losses(neighbours(privacy))[1] > EPSILON * 1.01


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("times", [300, pytest.param(10**5, marks=pytest.mark.long)])
def test_no_random_neighbours_move_the_bins_further(source, groups, times):
    """A unit with two rows, of any size, in three groups and in none: what its bins lose and gain is four rows at most."""
    answer = answer_of(source, "sum", PRIVACY[2], groups)
    rng = np.random.default_rng(47)
    largest = 0
    for _ in range(times):
        rows = [(int(rng.integers(0, 3)), float(rng.standard_cauchy() * 2.0 ** rng.integers(-40, 70))) for _ in range(rng.integers(4, 8))]
        one, other = (total_of_rows(answer.measure_of_bins, [*rows[4:], *own]) for own in (rows[:2], rows[2:4]))
        largest = max(largest, int(np.abs(one - other).sum()))
    assert largest == answer.bins.sensitivity == 4


def test_a_number_is_in_its_bin():
    assert list(EDGES) == sorted(EDGES)
    assert len(EDGES) == LOG_BINS + 1 == 195
    assert (EDGES[OCTAVES], EDGES[OCTAVES + 33], WIDEST) == (0.0, 1.0, (-(2.0**64), 2.0**64))
    numbers = np.array([*EVERY, *(np.random.default_rng(1).standard_cauchy(2000) * 10)])
    for number, code in zip(numbers.tolist(), bins_of(numbers).tolist(), strict=True):
        clamped = min(max(number, WIDEST[0]), WIDEST[1])
        assert EDGES[code] <= clamped <= EDGES[code + 1]
        # The upper end belongs to the next bin, but for the last one.
        assert clamped < EDGES[code + 1] or code == LOG_BINS - 1 or clamped <= 0


def test_a_grid_is_as_fine_as_groups_allow(source):
    answer = answer_of(source, "median", PRIVACY[0], "two groups")
    for groups, ends in itertools.product((1, 50, 100, 1000, 5377), ((0, LOG_BINS), (OCTAVES, OCTAVES + 34), (OCTAVES - 33, OCTAVES + 34))):
        query, ((_, cells),) = answer.kind.between(answer.section, answer.columns, *ends, groups)
        points = next(count for count in (1, 2, 4, 8, 16, 32, 64) if set(query.grid) <= set(log_grid(count)))
        assert cells.grid == query.grid
        assert len(query.grid) * groups <= 2**20
        assert points == 64 or 2 * len(query.grid) * groups > 2**20 * (1 - 2 / len(query.grid))
        assert (query.grid[0], query.grid[-1]) == (EDGES[ends[0]], EDGES[ends[1]])
        assert math.isfinite(sum(query.grid))


@pytest.mark.parametrize("privacy", PRIVACY[:4], ids=str)
@pytest.mark.parametrize("epsilon", [0.01, 0.2, 3.0])
def test_the_threshold_is_what_empty_bins_do_not_pass(source, privacy, epsilon):
    """Exactly, by the tail of the discrete Laplace law; half of it would be passed far too often."""
    answer = answer_of(source, "sum", privacy, "the whole table", epsilon=2 * epsilon, bounds_epsilon=epsilon)
    r = math.exp(-1 / answer.bins.scale)
    passes = [LOG_BINS * r ** (threshold + 1) / (1 + r) for threshold in (answer.threshold, answer.threshold // 2)]
    assert 1e-9 < passes[0] <= 1e-6 < passes[1]


def test_shares_of_epsilon_sum_to_no_more_than_the_whole(source):
    for whole in (0.7, 1 / 3, 0.1, EPSILON):
        section = answer_of(source, "sum", PRIVACY[0], "the whole table", epsilon=whole, bounds_epsilon=whole / 7).section
        rest = Fraction(rest_epsilon(section))
        assert Fraction(whole) * Fraction(6, 7) * (1 - Fraction(1, 2**50)) < rest <= Fraction(whole) - Fraction(whole / 7)
