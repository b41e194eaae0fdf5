"""Statistics of whole units: what one unit can change, by enumeration of all neighbours of small tables and on random ones."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dpcore.query import unit_statistics as whole_units
from dpcore.query.sensitivity import Contribution
from dpcore.query.unit_statistics import BoundedSums, ChosenValueCounts, Gathered, UnitCounts, ValueCounts
from dpcore.tables.units.scaling import LIMB_BITS, Totals, scaled

GROUPS, VALUES = 2, 3
ROWS = [None, *itertools.product(range(2), range(GROUPS), range(VALUES))]
"""A row of a small table: unit, group and value; None if it is not there."""
WORDS = [30, 10, 20]
RNG = np.random.default_rng(20261123)


def made(statistic, columns, spill):
    """The statistic of rows that are given by column."""
    gathered = Gathered(statistic, spill)
    gathered += pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, statistic.schema, strict=True)], schema=statistic.schema
    )
    return np.array(gathered.made(2), dtype=object)


def small_tables():
    return list(itertools.product(ROWS, repeat=3))


def neighbours(tables, replaced):
    """Pairs of places of tables that differ in the rows of unit 0: they are other rows, or under add_remove there are none."""
    by_others = {}
    for place, table in enumerate(tables):
        others = tuple(row if row is not None and row[0] == 1 else None for row in table)
        by_others.setdefault(others, []).append((place, any(row is not None and row[0] == 0 for row in table)))
    for same in by_others.values():
        for (one, has), (other, also) in itertools.product(same, repeat=2):
            if replaced or (has and not also):
                yield one, other


def of_all(statistic, tables, spill, pick):
    """The statistic of each table, all computed at once: units and groups of different tables are different."""
    rows = [(place, i, row) for place, table in enumerate(tables) for i, row in enumerate(table) if row is not None]
    return made(statistic, pick(rows), spill).reshape(len(tables), -1)


def moves(found, tables, replaced):
    """The largest ℓ1 and squared ℓ2 distance, for all groups and for one count."""
    pairs = np.array(list(neighbours(tables, replaced)))
    apart = np.abs((found[pairs[:, 0]] - found[pairs[:, 1]]).astype(np.int64))
    return apart.sum(axis=1).max(), (apart**2).sum(axis=1).max()


def units_of(rows):
    return [2 * place + row[0] for place, _, row in rows]


def in_groups(rows):
    return [GROUPS * place + row[1] for place, _, row in rows]


def in_tables(rows):
    return [place for place, _, _ in rows]


def chosen(rows, groups, words=WORDS):
    return [units_of(rows), [row[2] for _, _, row in rows], groups, [words[i] for _, i, _ in rows]]


@pytest.mark.parametrize("replaced", [False, True])
def test_one_unit_moves_counts_of_units_by_one_in_each_group_that_it_touches(tmp_path, replaced):
    tables = small_tables()
    statistic = UnitCounts(pa.int64(), len(tables), nameless=False)
    alone = of_all(statistic, tables, tmp_path, lambda rows: [units_of(rows), in_tables(rows)])
    assert moves(alone, tables, replaced) == (1, 1)
    assert all(found == [len({row[0] for row in table if row})] for found, table in zip(alone.tolist(), tables, strict=True))
    statistic = UnitCounts(pa.int64(), GROUPS * len(tables), nameless=False)
    grouped = of_all(statistic, tables, tmp_path, lambda rows: [units_of(rows), in_groups(rows)])
    bound = Contribution(3, replaced, n_is_public=False).units(GROUPS)
    assert moves(grouped, tables, replaced) == (bound.l1, 2)
    assert bound.l2 == pytest.approx(math.sqrt(2))
    assert bound.l2 >= math.sqrt(2)


@pytest.mark.long
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("codes", [None, VALUES])
def test_one_unit_moves_counts_of_values_by_as_many_as_it_keeps(tmp_path, replaced, most, codes):
    tables = small_tables()
    statistic = ChosenValueCounts(pa.int64(), pa.int64(), len(tables), most, False, codes)
    alone = of_all(statistic, tables, tmp_path, lambda rows: chosen(rows, in_tables(rows)))
    part = Contribution(most, replaced, n_is_public=False)
    assert moves(alone, tables, replaced)[0] == part.count.l1
    statistic = ChosenValueCounts(pa.int64(), pa.int64(), GROUPS * len(tables), most, False, codes)
    grouped = of_all(statistic, tables, tmp_path, lambda rows: chosen(rows, in_groups(rows)))
    l1, l2 = moves(grouped, tables, replaced)
    # Three rows are too few for both tables to have three values of one unit in other groups.
    assert l1 == min(part.cells.l1, 6)
    assert l2 <= Fraction(part.cells.l2) ** 2
    if most < 3:
        broken = ChosenValueCounts(pa.int64(), pa.int64(), GROUPS * len(tables), most + 1, False, codes)
        assert moves(of_all(broken, tables, tmp_path, lambda rows: chosen(rows, in_groups(rows))), tables, replaced)[0] > part.cells.l1


@pytest.mark.parametrize("replaced", [False, True])
def test_one_row_moves_counts_of_values_by_one_or_two_in_groups(tmp_path, replaced):
    rows = [None, *itertools.product(range(GROUPS), range(VALUES))]
    tables = [table for table in itertools.product(rows, repeat=3) if not replaced or None not in table]
    pairs = [
        (one, other)
        for one, other in itertools.product(range(len(tables)), repeat=2)
        if sum(a != b for a, b in zip(tables[one], tables[other], strict=True)) == 1
        and (replaced or tables[one].count(None) != tables[other].count(None))
    ]
    there = [(place, row) for place, table in enumerate(tables) for row in table if row is not None]
    for groups, count in ((1, "count"), (GROUPS, "cells")):
        columns = [[row[1] for _, row in there], [groups * place + (row[0] if groups > 1 else 0) for place, row in there]]
        found = made(ValueCounts(pa.int64(), groups * len(tables)), columns, tmp_path).reshape(len(tables), -1)
        apart = np.abs(np.array([found[a] - found[b] for a, b in pairs]).astype(np.int64)).sum(axis=1).max()
        assert apart == getattr(Contribution(1, replaced, n_is_public=replaced), count).l1


def laws(found, scale, reach=12):
    """The law of a count with discrete Laplace noise, on a few numbers, without its constant."""
    return np.exp(-np.abs(np.arange(-reach, reach + 1)[None, :] - found[:, None]) / scale)


@pytest.mark.long
@pytest.mark.parametrize("replaced", [False, True])
def test_the_law_of_a_count_of_values_differs_by_epsilon_between_neighbours(tmp_path, replaced):
    """Over all orders of the words, so that the choice of values is a part of the law."""
    epsilon, most = 0.7, 2
    tables = small_tables()
    statistic = ChosenValueCounts(pa.int64(), pa.int64(), len(tables), most, False)
    law = {most: 0.0, 1: 0.0}
    for words in itertools.permutations(WORDS):
        found = of_all(statistic, tables, tmp_path, lambda rows, words=words: chosen(rows, in_tables(rows), words))[:, 0].astype(float)
        law = {k: each + laws(found, k / epsilon) for k, each in law.items()}
    pairs = np.array(list(neighbours(tables, replaced)))
    ratios = {k: np.abs(np.log(each[pairs[:, 0]]) - np.log(each[pairs[:, 1]])).max() for k, each in law.items()}
    assert ratios[most] <= epsilon * (1 + 1e-12)
    assert ratios[1] > 1.5 * epsilon  # noise made for one value


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("steps", [(-3, 1, 3), (0, 1, 2, 3)])
def test_one_unit_moves_sums_by_its_bound(tmp_path, replaced, steps, monkeypatch):
    most = 4
    rows = [None, *itertools.product(range(2), range(GROUPS), steps)]
    tables = list(itertools.product(rows, repeat=3))
    part = Contribution(1, replaced, n_is_public=False)
    ends = (most if min(steps) < 0 else 0, most)

    def found(groups):
        statistic = BoundedSums(pa.int64(), groups * len(tables), most, nameless=False)
        where = in_tables if groups == 1 else in_groups
        return of_all(statistic, tables, tmp_path, lambda rows: [units_of(rows), [row[2] for _, _, row in rows], where(rows)])

    assert moves(found(1), tables, replaced)[0] == part.total(-ends[0], ends[1]).l1
    l1, l2 = moves(found(GROUPS), tables, replaced)
    bound = part.totals(-ends[0], ends[1])
    assert l1 == bound.l1
    assert l2 == round(bound.l2**2)

    def rounded(steps, units, totals, most):
        exact = np.array([totals.exact(unit) for unit in units.tolist()], np.float64)
        return np.where(exact > most, np.rint(steps * most / np.maximum(exact, 1) + 0.1 * np.sign(steps)), steps).astype(np.int64)

    monkeypatch.setattr(whole_units, "scaled", rounded)
    assert moves(found(GROUPS), tables, replaced)[0] > bound.l1


def sizes(most, n):
    choices = [0, 1, most, -most, most // 2, int(RNG.integers(-most, most + 1))]
    return np.array([choices[i] for i in RNG.integers(0, len(choices), n)], np.int64)


@pytest.mark.parametrize("trials", [300, pytest.param(100_000, marks=pytest.mark.long)])
def test_scaling_is_the_floor_of_the_exact_quotient(trials):
    for _ in range(trials):
        most = int(RNG.choice([1, 2, 3, 1000, 2**49 + 1, 2**50 - 1, 2**50, int(RNG.integers(1, 2**50))]))
        units, steps = RNG.integers(0, 3, 8), sizes(most, 8)
        totals, exact = Totals(), [0, 0, 0]
        copies = int(RNG.choice([1, 1, 5, 2**11, 2**13]))
        for _ in range(min(copies, 5)):
            totals.add(units, np.abs(steps))
        more = (copies - min(copies, 5)) * most
        totals.add(units[:1], np.zeros(1, np.int64))
        totals._high[units[0]] += more >> LIMB_BITS
        totals._low[units[0]] += more & (2**LIMB_BITS - 1)
        totals.add(units[:1], np.zeros(1, np.int64))
        for unit, step in zip(units.tolist(), steps.tolist(), strict=True):
            exact[unit] += min(copies, 5) * abs(step)
        exact[units[0]] += more
        found = scaled(steps, units, totals, most)
        for unit, step, got in zip(units.tolist(), steps.tolist(), found.tolist(), strict=True):
            total, size = exact[unit], abs(step)
            near = size * most // max(total, 1) if total < 2**61 else (size >> LIMB_BITS) * most // ((total >> LIMB_BITS) + 1)
            assert got == (step if total <= most else int(np.sign(step)) * near)
            assert totals.exact(unit) == total


@pytest.mark.long
@pytest.mark.parametrize("tables", [300, pytest.param(100_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("replaced", [False, True])
def test_random_neighbours_are_no_further_apart(tmp_path, tables, replaced):
    """Each table has a unit of its own that differs from its neighbour's, and others that are the same."""
    groups, most, rows = 3, 1000, 40 * tables
    table, unit = RNG.integers(0, tables, rows), RNG.integers(0, 3, rows)
    group, value, word = RNG.integers(0, groups, rows), RNG.integers(0, 6, rows), RNG.permutation(rows)
    step = np.where(RNG.random(rows) < 0.3, RNG.integers(-most, most + 1, rows), RNG.integers(-40, 41, rows))
    side = RNG.integers(0, 2, rows)  # rows of unit 0 are in one of the neighbours, and under add_remove in the first
    first = (unit > 0) | (side == 0) | (not replaced)
    second = (unit > 0) | ((side == 1) & replaced)
    part = Contribution(1, replaced, n_is_public=False)

    def apart(statistic, columns):
        found = [made(statistic, [column[there] for column in columns], tmp_path) for there in (first, second)]
        return np.abs((found[0] - found[1]).astype(np.int64)).reshape(tables, -1).sum(axis=1)

    units, cells = 3 * table + unit, groups * table + group
    for k in (1, 4):
        counts = ChosenValueCounts(pa.int64(), pa.int64(), groups * tables, k, False)
        assert apart(counts, [units, value, cells, word]).max() <= Contribution(k, replaced, n_is_public=False).cells.l1
        counts = ChosenValueCounts(pa.int64(), pa.int64(), tables, k, False, 6)
        assert apart(counts, [units, value, table, word]).max() <= k
    sums = apart(BoundedSums(pa.int64(), groups * tables, most, False), [units, step, cells])
    assert part.totals(-most, most).l1 / 2 < sums.max() <= part.totals(-most, most).l1
