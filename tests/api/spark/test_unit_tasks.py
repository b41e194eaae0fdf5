"""Bounding the rows of units in the steps of a cluster: at most so many keep their cells, wherever rows lie and however they are cut."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.spark.canonical import canonical_parts
from dpcore.spark.noise_tasks import FILE, HIDDEN, INDEX
from dpcore.spark.unit_tasks import MEETING, WORD, UnitTask
from dpcore.spark.workers import stamp
from dpcore.tables.pieces import FileInfo
from dpcore.tables.units.row_hash import types_of_rows
from dpcore.testing import KeyedJobKey
from support.laws import ERROR_RATE, binomial_p_value

SCHEMA = pa.schema([("who", pa.string()), ("age", pa.float64())])
ROWS = st.lists(st.tuples(st.sampled_from(["a", "b", "c", "", None]), st.sampled_from([1.0, 2.0, None])), max_size=30)


def task(limit=2, key=bytes(32), *, own=False) -> UnitTask:
    held = types_of_rows([FileInfo(tuple(SCHEMA.names), SCHEMA, None)])
    return UnitTask.keyed(KeyedJobKey(key), held, "who", limit=limit, null_is_unit=own, stamp=stamp())


def batch_of(rows) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([row[place] for row in rows], SCHEMA.types[place]) for place in (0, 1)], schema=SCHEMA)


def cluster(made: UnitTask, rows, partitions=3, size=4) -> list[dict]:
    """The steps as Spark runs them: rows meet, are sorted, are chosen from, and are scattered."""
    met = [row for batch in made.met([batch_of(rows)]) for row in batch.to_pylist()]
    found = []
    for partition in range(partitions):
        here = sorted((row for row in met if row[MEETING] % partitions == partition), key=lambda row: row[MEETING])
        schema = SCHEMA.append(pa.field(MEETING, pa.int64()))
        batches = pa.Table.from_pylist(here, schema).to_batches(max_chunksize=size)
        found += [row for batch in made.chosen(batches) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: row[WORD])


@given(ROWS, st.integers(1, 4), st.booleans())
def test_at_most_so_many_rows_of_a_unit_keep_their_cells_and_no_fewer(rows, limit, own):
    found = cluster(task(limit, own=own), rows)
    assert Counter((row["who"], row["age"]) for row in found) == Counter(rows)
    sizes, kept = Counter(who for who, _ in rows), Counter(row["who"] for row in found if not row[HIDDEN])
    for who, size in sizes.items():
        wanted = (size if own else 0) if who is None else min(size, limit)
        assert kept[who] == wanted


@given(ROWS, st.randoms(use_true_random=False), st.integers(1, 5), st.integers(1, 7))
def test_order_partitions_and_batches_change_nothing(rows, random, partitions, size):
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert cluster(task(), rows) == cluster(task(), shuffled, partitions, size)


def test_words_differ_between_rows_and_keys():
    rows = [(who, age) for who in "abc" for age in (1.0, 2.0)] + [("a", 1.0)] * 5
    found = cluster(task(), rows)
    assert len({row[WORD] for row in found}) == len(rows)
    assert [row[WORD] for row in found] != [row[WORD] for row in cluster(task(key=bytes(31) + b"\1"), rows)]


@pytest.mark.long
def test_of_equal_rows_each_has_its_chance():
    """Of a, a and b one stays: a with probability 2/3, at an error rate of 10⁻⁶."""
    runs = 1000
    kept = 0
    for number in range(runs):
        found = cluster(task(1, number.to_bytes(32, "little")), [("x", 1.0), ("x", 1.0), ("x", 2.0)], partitions=1)
        kept += next(row["age"] for row in found if not row[HIDDEN]) == 1.0
    assert binomial_p_value(kept, runs, 2 / 3) > ERROR_RATE
    assert binomial_p_value(runs // 2, runs, 2 / 3) < ERROR_RATE  # what a choice among different rows would give


@pytest.mark.long
def test_the_order_of_the_output_does_not_depend_on_the_units():
    """Rows of one unit are scattered like those of many: how many of them are neighbours in the output is that of a random order."""
    runs, n = 200, 12
    neighbours = 0
    for number in range(runs):
        rows = [("same" if place < n // 2 else f"unit {place}", float(place)) for place in range(n)]
        found = cluster(task(1, number.to_bytes(32, "big")), rows, partitions=2)
        inside = np.array([row["who"] == "same" for row in found])
        neighbours += int((inside[1:] & inside[:-1]).sum())
    expected = runs * (n - 1) * (n // 2) * (n // 2 - 1) / (n * (n - 1))
    assert abs(neighbours - expected) < 6 * np.sqrt(expected * 2)


@pytest.mark.long
def test_who_is_chosen_is_not_seen_in_the_order():
    runs = 600
    first = 0
    for number in range(runs):
        found = cluster(task(1, number.to_bytes(32, "big")), [("x", 1.0), ("x", 2.0)], partitions=1)
        first += not found[0][HIDDEN]
    assert binomial_p_value(first, runs, 0.5) > ERROR_RATE


TICKS = {pa.int32(): pa.int32(), pa.date32(): pa.int32(), pa.timestamp("us"): pa.int64()}


@pytest.mark.parametrize("kind", [*TICKS, pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_units_of_every_type_meet(kind):
    texts = pa.array(["c", "a", "c", None, "a", "c"])
    is_text = pa.types.is_dictionary(kind) or pa.types.is_large_string(kind)
    cells = texts.dictionary_encode().cast(kind) if is_text else pa.array([3, 1, 3, None, 1, 3], pa.int64()).cast(TICKS[kind]).cast(kind)
    schema = pa.schema([("who", cells.type)])
    held = types_of_rows([FileInfo(("who",), schema, None)])
    made = UnitTask.keyed(KeyedJobKey(bytes(32)), held, "who", limit=1, null_is_unit=False, stamp=stamp())
    (met,) = made.met([pa.RecordBatch.from_arrays([cells], schema=schema)])
    order = np.argsort(met.column(MEETING).to_numpy(), kind="stable")
    found = [row for batch in made.chosen([met.take(pa.array(order))]) for row in batch.to_pylist()]
    assert sum(not row[HIDDEN] for row in found) == 2


NESTED = pa.list_(pa.float64())
HARD = {
    "rows of one file": pa.table({"who": ["x"] * 9, "age": [1.0] * 9, FILE: [7] * 9, INDEX: list(range(9))}),
    "rows of two files, one of them twice": pa.table(
        {"who": ["x"] * 9, "age": [1.0] * 9, FILE: [7, 8, 8] * 3, INDEX: [0, 1, 1, 1, 2, 3, 2, 4, 5]}
    ),
    "zeros with signs": pa.table({"who": ["x"] * 9, "age": [0.0, -0.0, None] * 3}),
    "nested cells": pa.table({"who": ["x"] * 9, "age": [1.0] * 9, "held": pa.array([[1.0], [2.0], None] * 3, NESTED)}),
    "one file, and cells that a task has made of a row": pa.table(
        {"who": ["x"] * 9, "age": [0.0, -0.0, 0.0] * 3, FILE: [7] * 9, INDEX: [3] * 9, "held": pa.array([[1.0], [2.0], []] * 3, NESTED)}
    ),
}


@pytest.mark.parametrize("case", list(HARD))
def test_a_second_attempt_finds_the_same_rows_in_the_same_order_however_the_shuffle_brings_them(case):
    """Also rows with equal hashes: with their names, the signs of their zeros and nested cells, each is where it was."""
    table = HARD[case]
    made, found = task(limit=4), set()
    for seed in range(8):
        shuffled = table.take(pa.array(np.random.default_rng(seed).permutation(len(table))))
        met = pa.Table.from_batches(list(made.met(shuffled.to_batches()))).sort_by(MEETING)
        chosen = pa.Table.from_batches(list(made.chosen(met.to_batches()))).sort_by(WORD)
        found.add(repr([b"".join(map(bytes, canonical_parts(column))) for column in chosen.columns]))
    assert len(found) == 1
