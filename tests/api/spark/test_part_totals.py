"""What tasks send of their statistics: as much as they hold, and in any order, of any number of steps, the same sums."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dpcore.errors import JobError
from dpcore.query.made_rows import Counts
from dpcore.query.statistics import MomentsOfGroups, SumsOfGroups, wholes, words_of
from dpcore.spark import partitions
from dpcore.spark.part_totals import NARROW, WIDE, PartOfTotals, merged
from dpcore.spark.partitions import check_moved, merging, most_tasks
from support.statistics_simulation import simulate

GROUPS = 3 * WIDE + 7
WIDE_SUMS = (-(2**126), -(2**64), -1, 0, 1, 2**63, 2**64 - 1, 2**64, 2**126)


def empty() -> PartOfTotals:
    """One statistic of each form that there is, and places without one."""
    sums, moments = SumsOfGroups(GROUPS, -1.0, 1.0), MomentsOfGroups(5, 3)
    counts, cells = np.zeros(NARROW + 3, np.int64), np.zeros((4, 6), np.int64)
    return PartOfTotals([None, sums, counts, moments, np.zeros(9, np.int64).astype(object), cells, None, Counts.of(90, 0, cells[:0, 0])], 0)


def put(rows: np.ndarray, place: int, value: int, count: int) -> None:
    low = value % 2**64
    rows[place] = low - 2**64 if low >= 2**63 else low, value >> 64, count


def part(chance: random.Random, *, dense: bool) -> tuple[PartOfTotals, dict]:
    """Statistics, and the same as integers of Python by their places."""
    made, known = empty(), {}
    _, sums, counts, moments, whole, cells, _, table = made.totals
    for name, rows in (("sums", sums.totals), *((f"moments {i}", each) for i, each in enumerate(moments.totals))):
        for place in range(len(rows)) if dense else chance.sample(range(len(rows)), 2):
            value, count = chance.choice(WIDE_SUMS) // 64, chance.randrange(50)
            put(rows, place, value, count)
            known[name, place] = value, count
    for name, values in (("counts", counts), ("cells", cells.reshape(-1)), ("whole", whole), ("table", table.narrow[0])):
        for place in range(len(values)) if dense else chance.sample(range(len(values)), 2):
            values[place] = chance.randrange(-(2**70), 2**70) if name == "whole" else chance.randrange(2**40)
            known[name, place] = int(values[place]), 0
    made.rows = chance.randrange(2**40)
    table.total[0] = made.rows + 1
    known["rows", 0] = made.rows, table.rows
    return made, known


def as_integers(found: PartOfTotals) -> dict:
    """Every integer of statistics that is not zero, by its place."""
    _, sums, counts, moments, whole, cells, _, table = found.totals
    known = {}
    for name, rows in (("sums", sums.totals), *((f"moments {i}", each) for i, each in enumerate(moments.totals))):
        known |= {(name, place): ((high << 64) + low % 2**64, count) for place, (low, high, count) in enumerate(rows.tolist())}
    for name, values in (("counts", counts), ("cells", cells.reshape(-1)), ("whole", whole), ("table", table.all())):
        known |= {(name, place): (int(value), 0) for place, value in enumerate(values)}
    known["rows", 0] = found.rows, table.rows
    return {place: value for place, value in known.items() if value != (0, 0)}


@pytest.mark.parametrize("seed", range(6))
def test_parts_are_added_exactly_in_any_order_and_in_any_steps(seed):
    chance = random.Random(seed)
    parts = [part(chance, dense=number % 3 == 0) for number in range(1, 8)]
    wanted: dict = {}
    for _, known in parts:
        for place, (value, count) in known.items():
            before = wanted.get(place, (0, 0))
            wanted[place] = before[0] + value, before[1] + count
    waiting = [list(each.pieces()) for each, _ in parts] + [list(empty().pieces())]
    while len(waiting) > 1:
        some = [waiting.pop(chance.randrange(len(waiting))) for _ in range(min(chance.randrange(1, 4), len(waiting)))]
        pieces = [piece for each in some for piece in each]
        waiting.append(list(merged(chance.sample(pieces, len(pieces))).pieces()))
    assert as_integers(empty().filled(merged(waiting[0]))) == {place: value for place, value in wanted.items() if value != (0, 0)}


def test_nothing_is_sent_of_no_rows():
    assert list(empty().pieces()) == []
    assert as_integers(empty().filled(merged([]))) == {}


@pytest.mark.parametrize("held", [0, 1, 40, 1000])
def test_what_is_sent_is_as_large_as_the_groups_that_a_part_holds(held):
    sums = SumsOfGroups(10**6, -1.0, 1.0)
    sums.totals[np.random.default_rng(held).choice(10**6, held, replace=False), 2] = 1
    made = PartOfTotals([sums], held)
    assert made.size > 24 * 10**6
    assert sum(len(piece) for _, piece in made.pieces()) <= held * (24 + 2 + 8) + 18
    assert [place for place, _ in made.pieces()] == sorted({place for place, _ in made.pieces()})


def test_a_part_that_holds_all_groups_sends_hardly_more_than_its_integers():
    sums = SumsOfGroups(10**5, -1.0, 1.0)
    sums.totals[:] = -1
    made = PartOfTotals([sums], 1)
    assert sum(len(piece) for _, piece in made.pieces()) <= made.size + 8 * made.ranges
    assert max(len(piece) for _, piece in made.pieces()) <= 12 * 1024 + 8


def test_integers_of_python_have_words():
    values = np.array([*WIDE_SUMS, 2**75 - 1, -(2**75)], object)
    assert wholes(words_of(values)).tolist() == values.tolist()
    assert words_of(values[:0]).shape == (0, 3)


@pytest.mark.parametrize(("size", "tasks"), [(8, 10**5), (8_000, 10**5), (24 * 10**6, 10**5), (512 << 20, 8192), (8, 1), (1 << 20, 200)])
def test_merging_gives_no_task_too_much_and_the_driver_one_set(size, tasks):
    ranges = -(-size // (12 << 10))
    steps = merging(size, ranges, tasks)
    if not steps:
        assert size * tasks <= partitions.DIRECT_BYTES
        return
    assert steps[-1][1] == 1
    assert all(count <= max(tasks**0.5 + 1, partitions.MOST_MERGING) and count <= ranges * spread for count, spread in steps)
    per_task = size * tasks / steps[0][0]
    assert per_task <= 2 * max(partitions.MERGED_BYTES, size * tasks / partitions.MOST_MERGING)
    if len(steps) > 1:  # the second step merges what the tasks of the first send
        assert steps[0][1] > 1
        assert size * steps[0][1] <= partitions.MERGED_BYTES


def test_statistics_of_all_tasks_are_bounded():
    assert most_tasks(24 * 10**6) > 10**5
    check_moved(24 * 10**6, lambda: 10**5)
    check_moved(1000, lambda: pytest.fail("to count tasks may take an action of Spark, and so few bytes are never too many"))
    with pytest.raises(JobError, match=r"512 MiB, and 8193 tasks have them: more than 4 TiB .* at most 8192 tasks"):
        check_moved(512 << 20, lambda: 8193)


@pytest.mark.parametrize("held", [100_000, 30])
def test_the_statistics_of_many_tasks_are_merged_in_little_memory(held):
    """The simulation of `docs/cluster.md` at a thousandth of its size; the long test has it whole."""
    found = simulate(2_000, 100_000, held, most_mergers=2)
    assert found.is_right
    assert max(found.memory, found.driver_memory) < 16 << 20
    assert found.sent < (2_600_000 if held == 100_000 else 1_100)


@pytest.mark.long
def test_a_day_of_many_tasks_and_groups_is_merged_in_little_memory():
    dense, skewed = simulate(100_000, 1_000_000, 1_000_000, most_mergers=1), simulate(100_000, 1_000_000, 100, most_mergers=1)
    assert dense.is_right
    assert skewed.is_right
    assert dense.moved < partitions.MOVED_BYTES
    assert skewed.moved < 1 << 30
    assert max(found.driver_memory for found in (dense, skewed)) < 64 << 20
    assert max(found.memory for found in (dense, skewed)) < 16 << 20
    assert max(found.driver for found in (dense, skewed)) < 5
    assert skewed.slowest < dense.slowest < 120
