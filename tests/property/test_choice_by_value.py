"""Under a test key the rows, groups and values with which a unit takes part follow from what its own rows hold, and from nothing else.

The law of the choice is checked over keys: it is that of a draw without replacement, also where rows are equal. A twin whose equal rows
share one word is found.
"""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore.frames.arrow_source import ArrowSource
from dpcore.frames.inputs import FrameInput
from dpcore.jobs.release_job import parse_release_job
from dpcore.query.in_memory import make_unwritten_plan
from dpcore.tables.units import by_unit, contributions
from dpcore.tables.units import row_random_bits as row_words
from dpcore.tables.units.units import beyond, choose_rows
from support.laws import ERROR_RATE, binomial_p_value, p_value

GROUPS = ["east", "west", "north"]
Row = tuple[str | None, str, int]


def kept(folder: Path, rows: list[Row], key: int, limit: int, groups: int | None = None) -> list[bool]:
    """Which rows take part: each has a unit, a group and a number."""
    table = pa.table({name: pa.array([row[place] for row in rows], kind) for place, (name, kind) in enumerate(COLUMNS.items())})
    bound = {} if groups is None else {"max_groups_per_unit": groups}
    grouped = {} if groups is None else {"group_by": "group", "groups": GROUPS}
    job = {
        "version": 1,
        "input": {"path": "frame"},
        "output": {"path": "answers.json"},
        "privacy": {"max_epsilon": 9.0, "unit": "unit", "max_rows_per_unit": limit, **bound},
        "testing": {"key_hex": key.to_bytes(32, "big").hex()},
        "query": [{"name": "n", "kind": "sum", "column": "x", "lower": 0, "upper": 9, "missing": 0, "epsilon": 1.0, **grouped}],
    }
    plan = make_unwritten_plan(parse_release_job(job), FrameInput.of(ArrowSource(table, "table")))
    grouping = None if groups is None else plan.grouping
    chosen = choose_rows(plan, None, folder / "spill", 1, lambda *_: None, grouping=grouping, by_value=plan.by_value)
    return list(map(bool, chosen.mask(0, len(rows))))


COLUMNS = {"unit": pa.string(), "group": pa.string(), "x": pa.int64()}


def content(folder: Path, rows: list[Row], *bounds: int | None) -> Counter[Row]:
    """The rows that take part, in no order."""
    return Counter(row for row, takes_part in zip(rows, kept(folder, rows, *bounds), strict=True) if takes_part)


ROW = st.tuples(st.sampled_from(["a", "b", "c", None]), st.sampled_from([*GROUPS, "abroad"]), st.integers(0, 2))
CASE = st.tuples(st.lists(ROW, min_size=1, max_size=14), st.integers(0, 5), st.integers(1, 3), st.sampled_from([None, 1, 2]))
PERSONS = settings(deadline=None, max_examples=60)


@pytest.mark.long
@PERSONS
@given(case=CASE, data=st.data())
def test_the_order_of_rows_decides_nothing(tmp_path_factory, case, data):
    rows, *bounds = case
    folder = tmp_path_factory.mktemp("choice")
    shuffled = data.draw(st.permutations(rows))
    assert content(folder, rows, *bounds) == content(folder, shuffled, *bounds)


@pytest.mark.long
@PERSONS
@given(case=CASE, others=st.lists(ROW, max_size=10))
def test_a_unit_decides_by_its_own_rows_alone(tmp_path_factory, case, others):
    """Whatever other units there are, and wherever their rows lie, one keeps the rows that it keeps alone."""
    rows, *bounds = case
    folder = tmp_path_factory.mktemp("choice")
    own = [row for row in rows if row[0] == "a"]
    strangers = [("b" if row[0] == "a" else row[0], *row[1:]) for row in others]
    alone = content(folder, own, *bounds) if own else Counter()
    among = content(folder, [*strangers[::2], *own, *strangers[1::2]], *bounds)
    assert Counter({row: n for row, n in among.items() if row[0] == "a"}) == alone


@PERSONS
@given(case=CASE)
def test_no_unit_keeps_more_than_it_may_nor_less_than_it_could(tmp_path_factory, case):
    rows, key, limit, groups = case
    found = content(tmp_path_factory.mktemp("choice"), rows, key, limit, groups)
    for unit in "abc":
        own = [row for row in rows if row[0] == unit]
        mine = [row for row in found.elements() if row[0] == unit]
        in_groups = {row[1] for row in mine} & set(GROUPS)
        if groups is None:
            assert len(mine) == min(limit, len(own))
        else:
            assert len(in_groups) <= groups
            assert len(mine) <= limit
            open_to = len({row[1] for row in own} & set(GROUPS))
            assert len(mine) == limit or open_to > groups or len(mine) == len(own)
    assert not any(row[0] is None for row in found)


@pytest.mark.long
@PERSONS
@given(case=CASE, parts=st.integers(2, 4), data=st.data())
def test_parts_with_all_rows_of_their_units_choose_what_one_machine_chooses(tmp_path_factory, case, parts, data):
    """As the tasks of a cluster do, each for the rows that it was given, in the order in which they came."""
    rows, *bounds = case
    folder = tmp_path_factory.mktemp("choice")
    task_of = {unit: data.draw(st.integers(0, parts - 1)) for unit in "abc"}
    found: Counter[Row] = Counter()
    for part in range(parts):
        mine = [row for place, row in enumerate(rows) if task_of.get(row[0] or "", place % parts) == part]
        found += content(folder, data.draw(st.permutations(mine)), *bounds) if mine else Counter()
    assert found == content(folder, rows, *bounds)


@pytest.mark.long
@pytest.mark.parametrize("piece_rows", [1 << 20, 3])
def test_what_is_held_in_memory_changes_nothing(tmp_path, monkeypatch, piece_rows):
    rows = [(f"p{i % 5}", GROUPS[i % 3], i * i % 4) for i in range(120)]
    expected = [content(tmp_path, rows, 1, 4, groups) for groups in (None, 1, 2)]
    monkeypatch.setattr(contributions, "PIECE_ROWS", 7)
    for name, value in (("HELD_BYTES", 0), ("RUN_BYTES", 1), ("PIECE_ROWS", piece_rows)):
        monkeypatch.setattr(by_unit, name, value)
    assert [content(tmp_path, rows, 1, 4, groups) for groups in (None, 1, 2)] == expected


# The law, exactly: over all orders of the words


@pytest.mark.parametrize(("rows", "limit"), [([0, 0, 1], 1), ([0, 0, 1], 2), ([0, 0, 1, 1], 2), ([0, 0, 0, 1, 2], 2), ([0, 1, 2, 3], 3)])
def test_over_all_orders_of_words_every_choice_of_places_has_the_same_weight(rows, limit):
    """Words of a row and its number among equals are a random function's: each order of them is as likely as any other."""
    hashes, units, places = np.array(rows, np.uint64), np.zeros(len(rows), np.int64), np.arange(len(rows))
    law = Counter(tuple(sorted(each)) for each in itertools.combinations(rows, limit))

    def chosen(numbers: np.ndarray) -> Counter[tuple[int, ...]]:
        things = sorted(set(zip(rows, numbers.tolist(), strict=True)))
        found: Counter[tuple[int, ...]] = Counter()
        for order in itertools.permutations(range(len(things))):
            word = dict(zip(things, order, strict=True))
            words = np.array([word[thing] for thing in zip(rows, numbers.tolist(), strict=True)], np.uint64)
            over = beyond(units, places, words, limit)
            found[tuple(sorted(np.array(rows)[~over].tolist()))] += 1
        return found

    def weights(found: Counter[tuple[int, ...]]) -> dict[tuple[int, ...], Fraction]:
        return {rows: Fraction(count, found.total()) for rows, count in found.items()}

    assert weights(chosen(row_words.repeats(units, hashes, np.zeros_like(hashes), places))) == weights(law)
    if len(set(rows)) < len(rows):
        assert weights(chosen(np.zeros(len(rows), np.int64))) != weights(law)


# The law, over units: their names are part of what their rows hold

UNITS = 2000


def choices(folder: Path, rows: list[tuple[str, int]], *bounds: int) -> Counter[tuple[tuple[str, int], ...]]:
    """What each of many units with the same rows, of a group and a number, takes part with."""
    everybody = [(f"p{unit}", *row) for unit in range(UNITS) for row in rows]
    found: dict[str, list[tuple[str, int]]] = {f"p{unit}": [] for unit in range(UNITS)}
    for unit, *row in content(folder, everybody, 7, *bounds).elements():
        found[str(unit)].append((str(row[0]), int(row[1])))
    return Counter(tuple(sorted(each)) for each in found.values())


A, B, C = ("east", 0), ("west", 1), ("north", 2)


def share_of_a(folder: Path) -> float:
    """The p-value of how often a row that is there twice stays, where one of three stays."""
    return binomial_p_value(choices(folder, [A, A, B], 1)[A,], UNITS, 2 / 3)


def test_of_a_a_and_b_a_stays_with_probability_two_thirds(tmp_path):
    assert share_of_a(tmp_path) > ERROR_RATE


def test_equal_rows_with_one_word_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(row_words, "repeats", lambda units, *_: np.zeros(len(units), np.int64))
    assert share_of_a(tmp_path) < ERROR_RATE


@pytest.mark.some(2)
@pytest.mark.parametrize("rows", [[A, A, B, C], [A, A, A, B, B], [A, B, C]])
@pytest.mark.parametrize("limit", [1, 2])
def test_every_choice_of_rows_is_equally_likely(tmp_path, rows, limit):
    """Choices of places: some of them have the same rows."""
    every = [tuple(sorted(each)) for each in itertools.combinations(rows, limit)]
    law = Counter(every)
    found = choices(tmp_path, rows, limit)
    assert set(found) == set(law)
    assert p_value(np.array([found[each] for each in law]), np.array([law[each] for each in law]) / len(every)) > ERROR_RATE


def test_every_group_of_a_unit_is_equally_likely(tmp_path):
    """However many rows it has in each."""
    found = choices(tmp_path, [*[("east", i) for i in range(6)], B, C], 9, 1)
    counts = np.array([sum(n for rows, n in found.items() if rows[0][0] == group) for group in GROUPS])
    assert p_value(counts, np.full(3, 1 / 3)) > ERROR_RATE
    assert p_value(counts, np.array([6, 1, 1]) / 8) < ERROR_RATE


def test_keys_choose_independently(tmp_path):
    rows = [(f"p{unit}", *row) for unit in range(UNITS) for row in (A, B)]
    one, other = (np.array(kept(tmp_path, rows, key, 1))[::2] for key in (1, 2))
    assert p_value(np.bincount(2 * one + other, minlength=4), np.full(4, 1 / 4)) > ERROR_RATE
