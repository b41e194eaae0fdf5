"""Contribution bounding, and what one unit can then do: the sensitivities hold on neighbouring tables, and are reached."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter as Multiset
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dpcore.jobs.release_job import load_release_job, parse_release_job
from dpcore.query.local_backend import LocalPasses
from dpcore.query.plan import contribution
from dpcore.query.questions import names_of_whole
from dpcore.query.run import measured
from dpcore.query.sensitivity import SQRT2_UP, Contribution
from dpcore.query.written_plans import make_release_plan
from dpcore.tables.units.units import choose_rows
from support.jobs import FORMATS, write_table
from support.laws import binomial_p_value, p_value
from support.losses import largest_loss
from support.parts import exact_sums
from support.releases import Counter, clinic, release_text

ERROR_RATE = 1e-6
LEVELS = (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10))
BOUNDS = ((0, 3), (-2, 3), (-3, -1), (1, 4))


@pytest.fixture
def place(tmp_path, capsys):
    return Counter(tmp_path, capsys)


class Room:
    """What `measure` needs of an output: a folder to spill into."""

    def __init__(self, folder):
        self.spill = folder


class Quiet:
    def begin(self, stage):
        pass

    def update(self, rows, fraction):
        pass


def planned(place, table, queries, privacy, key=bytes(32)):
    write_table(table, place.source, row_group_rows=7)
    place.write_release(queries, privacy=privacy, key=key)
    return make_release_plan(load_release_job(place.job), overwrite=True)


def kept_rows(place, table, rows, groups=None, key=bytes(32)):
    """Positions of the rows that take part."""
    privacy = {"unit": "person", "max_rows_per_unit": rows} | ({} if groups is None else {"max_groups_per_unit": groups})
    grouped = {} if groups is None else {"group_by": "region", "groups": ["a", "b", "c", "d"]}
    plan = planned(place, table, {"n": {"kind": "count", **grouped}}, privacy, key)
    from dpcore.tables.sections import key_of

    grouping = None if groups is None else plan.grouping
    kept = choose_rows(plan, key_of(plan.job.testing), place.folder / "spill", 2, lambda rows, fraction: None, grouping=grouping)
    return np.flatnonzero(kept.mask(0, len(table)))


# Which rows take part


@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("people", [1, 7, 100])
def test_no_unit_has_more_rows_than_allowed_and_none_loses_more_than_it_must(place, source, people):
    place.source = place.folder / f"in.{source}"
    person = np.arange(300) ** 2 % people
    for rows in (1, 2, 5, 1000):
        kept = kept_rows(place, pa.table({"person": pa.array([f"p{each}" for each in person])}), rows)
        owned = Multiset(person.tolist())
        assert Multiset(person[kept].tolist()) == {unit: min(times, rows) for unit, times in owned.items()}


def test_the_choice_is_uniform(place):
    """Each of the 10 pairs of 5 rows, for 6,000 units under one key; choosing the first rows is rejected."""
    units = 6000
    person = np.tile(np.arange(units), 5)
    kept = kept_rows(place, pa.table({"person": person}), 2)
    chosen = {unit: [] for unit in range(units)}
    for row in kept.tolist():
        chosen[person[row]].append(row // units)
    pairs = Multiset(tuple(sorted(each)) for each in chosen.values())
    counts = np.array([pairs[pair] for pair in itertools.combinations(range(5), 2)])
    assert counts.sum() == units
    assert p_value(counts, np.full(10, 0.1)) > ERROR_RATE
    assert p_value(np.array([units, *[0] * 9]), np.full(10, 0.1)) < ERROR_RATE


@pytest.mark.long
def test_groups_are_chosen_uniformly_however_many_rows_they_have(place):
    """Each unit has 1 row in a, 2 in b, 5 in c, and one of no group; one group stays, each with probability 1/3."""
    units = 5000
    regions = ["a", "b", "b", "c", "c", "c", "c", "c", "nowhere"]
    table = pa.table({"person": np.repeat(np.arange(units), 9), "region": pa.array(regions * units)})
    kept = kept_rows(place, table, 9, groups=1)
    stays = np.zeros((units, 9), bool)
    stays.reshape(-1)[kept] = True
    assert stays[:, 8].all()
    by_group = np.stack([stays[:, 0], stays[:, 1], stays[:, 3]], axis=1)
    assert (by_group.sum(axis=1) == 1).all()
    assert (stays[:, 1] == stays[:, 2]).all()
    assert (stays[:, 3:8] == stays[:, 3:4]).all()
    counts = by_group.sum(axis=0)
    assert p_value(counts, np.full(3, 1 / 3)) > ERROR_RATE
    # Had every row the same chance, c would stay five times as often as a.
    assert p_value(counts, np.array([1, 2, 5]) / 8) < ERROR_RATE


@pytest.mark.long
def test_rows_within_the_chosen_groups_are_chosen_uniformly(place):
    """The first row of a group lends it its word; it is no likelier to stay for that."""
    units = 20_000
    regions = ["a", "a", "b", "b"]
    table = pa.table({"person": np.repeat(np.arange(units), 4), "region": pa.array(regions * units)})
    kept = kept_rows(place, table, 1, groups=1) % 4
    counts = np.bincount(kept, minlength=4)
    assert counts.sum() == units
    assert p_value(counts, np.full(4, 0.25)) > ERROR_RATE
    assert binomial_p_value(int(units * 0.3), units, 0.25) < ERROR_RATE


@pytest.mark.parametrize(("rows", "groups"), [(1, 1), (2, 1), (2, 2), (3, 2), (4, 3)])
def test_no_unit_is_in_more_groups_than_allowed(place, rows, groups):
    index = np.arange(600)
    table = pa.table({"person": index * index % 37, "region": pa.array([["a", "b", "c", "d", "x"][i * 7919 % 5] for i in range(600)])})
    kept = kept_rows(place, table, rows, groups)
    for unit in range(37):
        own = [row for row in kept.tolist() if table["person"][row].as_py() == unit]
        named = {table["region"][row].as_py() for row in own} - {"x"}
        everywhere = {table["region"][int(row)].as_py() for row in np.flatnonzero(table["person"].to_numpy() == unit)} - {"x"}
        assert len(own) <= rows
        assert len(named) <= min(groups, rows)
        assert not everywhere or rows < 2 or own


def test_other_units_keep_what_they_keep(place):
    """Under one key, whatever a unit's rows hold or to whom they belong, the choice among the others' rows is the same."""
    index = np.arange(400)
    person = index * 7 % 50
    regions = np.array(["a", "b", "c", "d"])[index * 13 % 4]
    before = kept_rows(place, pa.table({"person": person, "region": pa.array(regions)}), 3, 2)
    for other in (7, 1000):
        changed = np.where(person == 13, other if other > 50 else 13, person)
        moved = np.where(person == 13, "a", regions)
        after = kept_rows(place, pa.table({"person": changed, "region": pa.array(moved)}), 3, 2)
        assert [row for row in after.tolist() if person[row] != 13] == [row for row in before.tolist() if person[row] != 13]


def test_another_key_chooses_other_rows(place):
    table = pa.table({"person": np.zeros(1000, np.int64)})
    first, second = kept_rows(place, table, 10), kept_rows(place, table, 10, key=bytes([1]) * 32)
    assert first.tolist() != second.tolist()
    assert len(kept_rows(place, table, 10, key=None)) == 10


# What a unit can do


def unit_tables(rows, values):
    """All that a unit may own: up to `rows` rows, of these values."""
    return [own for k in range(rows + 1) for own in itertools.combinations_with_replacement(values, k)]


def neighbours(bound, values):
    """Pairs of what one unit may own in two neighbouring tables."""
    if bound.n_is_public:
        return [((one,), (other,)) for one in values for other in values]
    owned = unit_tables(bound.rows, values)
    return [(own, other) for own in owned for other in (owned if bound.replaced else [()])]


def norms(pairs, statistic):
    """Largest change in ℓ1 and, squared, in ℓ2."""
    changes = [[b - a for a, b in zip(statistic(one), statistic(other), strict=True)] for one, other in pairs]
    return max(sum(map(abs, change)) for change in changes), max(sum(each * each for each in change) for change in changes)


CASES = [
    Contribution(1, replaced=True, n_is_public=True),
    *(Contribution(rows, replaced, n_is_public=False) for rows in (1, 2, 3) for replaced in (False, True)),
]


@pytest.mark.parametrize("bound", CASES, ids=str)
def test_sensitivities_are_the_largest_changes(bound):
    """By enumeration of all that a unit may own; each is reached, so that none could be smaller."""
    cells = range(3)
    l1, l2 = norms(neighbours(bound, list(cells)), lambda own: [own.count(cell) for cell in cells])
    assert bound.cells.l1 == l1
    assert bound.cells.l2 == float(bound.rows * (SQRT2_UP if bound.replaced else 1))
    assert Fraction(bound.cells.l2) ** 2 >= l2
    assert math.isclose(bound.cells.l2**2, l2)
    assert bound.count.l1 == norms(neighbours(bound, [0, 1]), lambda own: [sum(own)])[0]
    for lower, upper in BOUNDS:
        pairs = neighbours(bound, [lower, upper])
        assert bound.total(lower, upper).l1 == norms(pairs, lambda own: [sum(own)])[0]
        assert bound.total(lower, upper).l2 == bound.total(lower, upper).l1
        grouped = neighbours(bound, [(group, value) for group in (0, 1, None) for value in (lower, upper)])
        l1, l2 = norms(grouped, lambda own: [sum(value for group, value in own if group == each) for each in (0, 1)])
        assert bound.totals(lower, upper).l1 == l1
        assert math.isclose(bound.totals(lower, upper).l2 ** 2, l2)
        assert Fraction(bound.totals(lower, upper).l2) ** 2 >= l2
    for level in LEVELS:
        # What a unit adds to the rank below a point, times the denominator: 1 row below, or 1 row above.
        below, above = level.denominator - level.numerator, -level.numerator
        assert bound.rank(level) >= norms(neighbours(bound, [below, above]), lambda own: [sum(own)])[0]
        assert bound.rank(level) == norms(neighbours(bound, [below, above]), lambda own: [sum(own)])[0]


def test_groups_that_a_unit_touches():
    for rows, groups, replaced in itertools.product((1, 2, 3), (None, 1, 2), (False, True)):
        bound = Contribution(rows, replaced, n_is_public=False, groups=groups)
        one = [own for own in unit_tables(rows, range(4)) if groups is None or len(set(own)) <= groups]
        pairs = [(own, other) for own in one for other in (one if replaced else [()])]
        most = max(len({cell for cell in range(4) if own.count(cell) != other.count(cell)}) for own, other in pairs)
        assert bound.touched(4) == most


def test_what_a_job_says_about_units():
    def bound(**privacy):
        text = release_text("in.parquet", "out.json", {"n": {"kind": "count", "group_by": "g", "groups": [1, 2]}}, privacy=privacy)
        import tomllib

        job = parse_release_job(tomllib.loads(text))
        return contribution(job, job.query[0])

    assert bound() == Contribution(1, replaced=True, n_is_public=True)
    assert bound(relation="add_remove") == Contribution(1, replaced=False, n_is_public=False)
    assert bound(unit="p", max_rows_per_unit=3) == Contribution(3, replaced=True, n_is_public=False)
    assert bound(unit="p", max_rows_per_unit=3, max_groups_per_unit=2) == Contribution(3, replaced=True, n_is_public=False, groups=2)


BY_REGION_AND_X = {
    "group_by": ["region", "x"],
    "groups": {"region": ["a", "b", "c"], "x": {"edges": [-4, 2, 8]}},
}
QUERIES = {
    "n": {"kind": "count"},
    "some": {"kind": "count", "column": "x", "lower": 0, "upper": 5},
    "cells": {"kind": "histogram", "column": "region", "categories": ["a", "b", "c", "d"]},
    "sum": {"kind": "sum", "column": "x", "lower": -4.0, "upper": 9.0},
    "mean": {"kind": "mean", "column": "x", "lower": -4.0, "upper": 9.0},
    "median": {"kind": "quantile", "column": "x", "q": [0.3], "grid": list(range(-5, 12))},
    "sums": {"kind": "sum", "column": "x", "lower": -4.0, "upper": 9.0, "group_by": "region", "groups": ["a", "b", "c"]},
    "top": {"kind": "top_s", "column": "region", "candidates": ["a", "b", "c", "d"], "s": 2},
    "cells by": {"kind": "histogram", "column": "x", "edges": [-4, 0, 4, 9], **BY_REGION_AND_X},
    "median by": {"kind": "quantile", "column": "x", "q": [0.3], "grid": list(range(-5, 12)), **BY_REGION_AND_X},
    "top by": {"kind": "top_s", "column": "region", "candidates": ["a", "b", "c", "d"], "s": 2, **BY_REGION_AND_X},
}


def tallies(place, table, privacy):
    """The exact statistics under a fixed key, as vectors."""
    plan = planned(place, table, QUERIES, privacy)
    _, found, _ = measured(plan, LocalPasses(Room(place.folder / "spill"), 2, Quiet()))
    by_name = dict(zip(QUERIES, found, strict=True))
    quantile = plan.estimators[list(QUERIES).index("median")]
    return plan, {
        "n": [by_name["n"][0]],
        "some": [by_name["some"][0]],
        "cells": by_name["cells"][0, :-1].tolist(),
        "sum": exact_sums(by_name["sum"]),
        "mean": exact_sums(by_name["mean"]),
        "median": quantile.utilities(by_name["median"][0, :-1], Fraction(3, 10)).tolist(),
        "sums": exact_sums(by_name["sums"]),
        "top": by_name["top"][0, :-1].tolist(),
        "cells by": by_name["cells by"][:-1, :-1].reshape(-1).tolist(),
        "median by": [
            utility
            for counts in by_name["median by"][:-1, :-1]
            for utility in plan.estimators[list(QUERIES).index("median by")].utilities(counts, Fraction(3, 10)).tolist()
        ],
        "top by": by_name["top by"][:-1, :-1].reshape(-1).tolist(),
    }


def unit_changes(privacy, rows, rng):
    """A table, and a neighbour: the rows of one unit, at the end, are others or are gone; the others keep their places."""
    index = np.arange(40)
    person, x, region = index % 9 + 1, rng.integers(-8, 15, 40) / 2, rng.integers(0, 4, 40)
    ends = []
    for own in (rows, rows if privacy.get("unit", "row") == "row" else rng.integers(0, 6)):
        gone = privacy.get("relation") == "add_remove" and ends
        size = 0 if gone else own
        extreme = np.full(size, rng.choice([-100.0, 100.0])) if rng.integers(2) else rng.integers(-8, 15, size) / 2
        regions = np.full(size, rng.integers(0, 4)) if rng.integers(2) else rng.integers(0, 4, size)
        ends.append((np.zeros(size, np.int64), extreme, regions))
    names = np.array(["a", "b", "c", "d"])
    return [
        pa.table(
            {
                "person": np.concatenate([person, end[0]]),
                "x": np.concatenate([x, end[1]]).astype(np.float64),
                "region": pa.array(names[np.concatenate([region, end[2]]).astype(int)]),
            }
        )
        for end in ends
    ]


@pytest.mark.some(2)
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("unit", [{}, {"unit": "person", "max_rows_per_unit": 2}])
def test_neighbouring_tables_differ_by_no_more_than_the_noise_hides(place, relation, unit):
    """Random neighbours through the whole engine; half the sensitivity, the broken twin, is exceeded by some of them."""
    privacy = unit | {"relation": relation}
    rng = np.random.default_rng(2026)
    largest = dict.fromkeys(QUERIES, 0.0)
    # Under replacement of rows their number does not move at all.
    quiet = {"n"} if relation == "replace" and not unit else set()
    for _ in range(25):
        one, other = unit_changes(privacy, 1 if not unit else 5, rng)
        (plan, first), (_, second) = tallies(place, one, privacy), tallies(place, other, privacy)
        for answer, name in zip(plan.estimators, QUERIES, strict=True):
            change = [b - a for a, b in zip(first[name], second[name], strict=True)]
            if name in quiet:  # public, and free
                assert not any(change)
                continue
            sensitivity = answer.sensitivities[0] if name == "median" else Fraction(answer.noise[0].sensitivity)
            moved = max(map(abs, change)) if name in {"median", "top"} else sum(map(abs, change))
            if name == "median by":  # of each group the point that moves most, in tenths of a rank
                moved = sum(max(map(abs, change[place : place + 17])) for place in range(0, len(change), 17))
                sensitivity = answer.sensitivities[0] * answer.moved
            assert moved <= sensitivity, name
            largest[name] = max(largest[name], float(moved / sensitivity))
    assert not [(name, value) for name, value in largest.items() if value <= 0.5 and name not in quiet]


MOMENTS = {
    "var": {"kind": "var", "column": "x", "lower": -4.0, "upper": 9.0, "missing": 0.0},
    "vars": {"kind": "var", "column": "x", "lower": -4.0, "upper": 9.0, "missing": "skip", "group_by": "region", "groups": ["a", "b", "c"]},
    "covariance": {"kind": "covariance", "columns": ["x", "person"], "lower": [-4.0, 0], "upper": [9.0, 5], "missing": "skip"},
    "found": {"kind": "std", "column": "x", "bounds": "private", "bounds_epsilon": 0.3, "missing": "skip"},
}


def losses(place, privacy, tables):
    """What each moment loses between two tables, its releases taken together, for some centres."""
    found = []
    for table in tables:
        plan = planned(place, table, MOMENTS, privacy)
        passes = LocalPasses(Room(place.folder / "spill"), 2, Quiet())
        plan, totals, _ = measured(plan, passes)
        answers = dict(zip(MOMENTS, plan.estimators, strict=True))
        between = replace(answers["found"], found=(0, 102)).inner
        waiting = replace(answers["found"], found=None)
        others = [
            passes.add_up(plan, [None] * (len(MOMENTS) - 1) + [each], "")[0][-1] for each in (waiting.measure_of_bins, between.measure)
        ]
        found.append({name: list(each.each()) for name, each in zip(MOMENTS, totals, strict=True) if name != "found"} | {"found": others})
    one, other = found
    for name in ("var", "vars", "covariance"):
        yield name, sum(largest_loss(answers[name], *pair) for pair in zip(one[name], other[name], strict=True))
    bins = int(np.abs(one["found"][0] - other["found"][0]).sum())
    moments = (each["found"][1].each() for each in found)
    yield "found", bins / Fraction(answers["found"].bins.scale) + largest_loss(between, *(next(each) for each in moments))


@pytest.mark.long
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("unit", [{}, {"unit": "person", "max_rows_per_unit": 2}])
def test_neighbouring_tables_lose_no_more_moments_than_epsilon(place, relation, unit):
    """Random neighbours through the whole engine, whose rows may lose their value."""
    rng = np.random.default_rng(2027)
    largest = dict.fromkeys(MOMENTS, Fraction(0))
    for _ in range(10):
        tables = unit_changes(unit | {"relation": relation}, 1 if not unit else 5, rng)
        tables = [table.set_column(1, "x", pa.array([None if x == 5 else x for x in table["x"].to_pylist()])) for table in tables]
        for name, loss in losses(place, unit | {"relation": relation}, tables):
            assert loss <= 1, name
            largest[name] = max(largest[name], loss)
    assert all(value > Fraction(1, 4) for value in largest.values()), largest


def test_the_guarantee_says_for_which_answers_rows_are_left_out(place):
    """Also where it is copied from: the plan, the terminal and the document."""
    write_table(clinic(20), place.source)
    queries = {"rows": {"kind": "count"}, "visits": {"kind": "sum", "column": "visits", "max_sum_per_unit": 30, "missing": 0}}
    place.write_release(queries, privacy={"unit": "person", "max_rows_per_unit": 3})
    said = "at most 3 rows of each were used, chosen at random, except in “visits”."
    planned, done = place.release("--dry-run", "--table"), place.release()
    assert done.code == 0, done.said
    for text in (planned.said, done.err, json.loads(done.out)["guarantee"]):
        assert said in " ".join(text.split())


def test_jobs_and_documents_agree_on_the_answers_for_which_no_row_is_left_out(place):
    """Pages know the document alone, and plans the job alone."""
    write_table(clinic(40), place.source)
    bounded, grouped = {"column": "visits", "missing": 0}, {"group_by": "region", "groups": ["north"]}
    queries = {
        "rows": {"kind": "count"},
        "sum": {"kind": "sum", **bounded, "lower": 0, "upper": 9},
        "limited": {"kind": "sum", **bounded, "max_sum_per_unit": 30},
        "units": {"kind": "count_distinct"},
        "units of groups": {"kind": "count_distinct", **grouped},
        "values": {"kind": "count_distinct", "column": "visits", "max_values_per_unit": 2},
        "values of groups": {"kind": "count_distinct", "column": "visits", "max_values_per_unit": 2, **grouped},
    }
    place.write_release(queries, privacy={"unit": "person", "max_rows_per_unit": 3})
    whole = ["limited", "units", "values", "values of groups"]
    assert load_release_job(place.job).names_of_whole == whole
    assert names_of_whole(place.answers()) == whole
