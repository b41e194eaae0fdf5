"""Private groups of people on a large table: which keys are named, how many, and that nothing else is anywhere.

Keys of each number of people are kept as often as the selection says: exact binomial tests at an error rate of 10^-6 for all of them.
Nearly everybody has as many rows as may be, and no row is dropped, so that the numbers of people are known.
"""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from dpcore import selection
from support.jobs import peak_memory, toml
from support.laws import ERROR_RATE, binomial_p_value

MOST = 32
"""Rows, and so groups, of a person."""
EPSILON, DELTA = 1.0, 1e-2
KEYS = 200_000
"""Half of them have fewer than fifty people; together they have 10^7 rows."""
MEMORY = 1 << 30
NAMES = re.compile(rb"key-[0-9]{7}")


def people_of(rng):
    """People of each key, between 1 and 99, and the key and the person of each row, in a random order."""
    people = rng.integers(1, 100, KEYS)
    key = np.repeat(np.arange(KEYS), people)
    person = np.arange(len(key)) % -(-len(key) // MOST)  # neighbours differ, so that nobody is twice in a key
    order = rng.permutation(len(key))
    return people, pa.array([f"key-{k:07}" for k in range(KEYS)]).take(pa.array(key[order])), person[order]


def job_of(folder):
    """Keys, and answers with next to no noise, which are then the numbers of rows and of people."""
    lines = [
        "version = 1",
        f"[input]\npath = {toml(str(folder / 'in.parquet'))}",
        f"[output]\npath = {toml(str(folder / 'out/answers.json'))}",
        f'[privacy]\nmax_epsilon = 3000.0\nmax_delta = 0.1\nunit = "person"\nmax_rows_per_unit = {MOST}\nrelation = "add_remove"',
        f'[testing]\nkey_hex = "{"16" * 32}"',
        f'[[query]]\nname = "keys"\nkind = "groups"\ngroup_by = "key"\nepsilon = {EPSILON}\ndelta = {DELTA}',
        '[[query]]\nname = "rows"\nkind = "count"\ngroup_by = "key"\ngroups = "private"\nepsilon = 1000.0',
        '[[query]]\nname = "people"\nkind = "count_distinct"\ngroup_by = "key"\ngroups = "private"\nepsilon = 1000.0',
    ]
    (folder / "job.toml").write_text("\n".join(lines), encoding="utf-8")
    return folder / "job.toml"


@pytest.mark.long
def test_keys_are_kept_as_often_as_the_selection_says_and_no_other_is_named(tmp_path):
    people, key, person = people_of(np.random.default_rng(16))
    pq.write_table(pa.table({"key": key, "person": person}), tmp_path / "in.parquet")
    del key, person
    code, peak, said = peak_memory("release", job_of(tmp_path), "--report", tmp_path / "report", "--log", tmp_path / "log")
    assert code == 0, said
    assert peak < MEMORY
    named, rows, distinct = json.loads((tmp_path / "out/answers.json").read_text(encoding="utf-8"))["queries"]
    released = {name.encode() for name in named["value"]}
    written = {path for path in tmp_path.rglob("*") if path.is_file() and path.name != "in.parquet"}
    assert {path.name for path in written} >= {"answers.json", "job.toml", "log"}
    for content in (said.encode(), *(path.read_bytes() for path in written)):
        assert set(NAMES.findall(content)) <= released
    places = np.array([int(name[4:]) for name in named["value"]])
    for counts in (rows, distinct):
        assert counts["groups"] == named["value"]
        assert np.array_equal(counts["value"], people[places])
    assert_law(people, np.isin(np.arange(KEYS), places))


def assert_law(people, kept):
    """Numbers of people by themselves, and all together; a selection that takes each key for one with a person more is found out."""
    probabilities = np.array([0.0, *(probability(n) for n in range(1, 101))])
    for n in range(1, 100):
        trials = kept[people == n]
        assert binomial_p_value(int(trials.sum()), len(trials), probabilities[n]) > ERROR_RATE / 200, n
    for more, is_right in ((0, True), (1, False)):
        expected = probabilities[people + more]
        z = (kept.sum() - expected.sum()) / np.sqrt((expected * (1 - expected)).sum())
        assert (2 * stats.norm.sf(abs(z)) > ERROR_RATE / 2) == is_right


def probability(n):
    return selection.partition_probability(n, EPSILON, DELTA, max_partitions=MOST, relation="add_remove")
