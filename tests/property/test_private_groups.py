"""Neighbouring tables differ in the numbers that a selection of keys sees by what its proof says: by 1, in as many groups as it counts on.

Random tables, and neighbours of each: a unit that is there or not, and a unit whose rows turn into others. The numbers are those that the
engine counts. With test_partitions_privacy.py, which enumerates the decisions about such numbers, this is the guarantee. Twins that count
rows in place of units, or that forget a bound, break it.
"""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from dpcore.batch import make_release_plan, parse_release_job, release
from dpcore.batch.release import key_counts
from dpcore.batch.release.private_groups import KeysAnswer
from support.jobs import write_table

KEYS = [None, "a", "b", "c", "d", "e"]
ROWS, MOST = 3, 2
TABLES = 15


@pytest.fixture
def seen(monkeypatch, tmp_path):
    """Counts of keys as the engine has them: the rule is asked about each, and releases all."""
    found: dict[str, int] = {}

    class All:
        half, method = 1, "all"

        def release(self, counts, rng, threads):
            self.counts = counts.tolist()
            return np.ones(len(counts), np.bool_)

    rule = All()
    made = KeysAnswer.made.__func__
    touched: list[tuple[int, int]] = []

    def watched(cls, section, grouping, bound, relation):
        answer = made(cls, section, grouping, bound, relation)
        touched.append((answer.touched, answer.changed))
        return cls(section, grouping, rule, answer.touched, answer.changed)

    monkeypatch.setattr(KeysAnswer, "made", classmethod(watched))

    def count(rows, privacy):
        table = pa.table({"unit": pa.array([u for u, _ in rows], pa.string()), "key": pa.array([k for _, k in rows], pa.string())})
        source = write_table(table, tmp_path / "t.parquet")
        job = {
            "version": 1,
            "input": {"path": str(source)},
            "output": {"path": str(tmp_path / "o.json")},
            "privacy": {"max_epsilon": 1.0, "max_delta": 0.1, **privacy},
            "testing": {"key_hex": "01" * 32},
            "query": [{"name": "k", "kind": "groups", "group_by": "key", "epsilon": 1.0, "delta": 0.1}],
        }
        rule.counts = []
        document = release(make_release_plan(parse_release_job(job), overwrite=True))
        found.clear()
        found.update(zip(document["queries"][0]["value"], rule.counts, strict=True))
        return dict(found), touched[-1]

    return count


def differences(one, other):
    """How much each key's number moved."""
    return [abs(one.get(key, 0) - other.get(key, 0)) for key in {*one, *other}]


def moved(count, draw, privacy, relation):
    """The differences between a random table and a neighbour, and what the selection counts on."""
    others = [(f"u{draw.randrange(4)}", draw.choice(KEYS)) for _ in range(draw.randrange(8))]
    # The rows of the unit come last: the words of all other rows stay, and so do the choices among them.
    own = [("me", draw.choice(KEYS)) for _ in range(draw.randrange(1, 6))]
    new = [("me", draw.choice(KEYS)) for _ in range(draw.randrange(1, 6))] if relation == "replace" else []
    if "unit" not in privacy:
        own, new = own[:1], new[:1]
    before, bound = count(others + own, {**privacy, "relation": relation})
    after, _ = count(others + new, {**privacy, "relation": relation})
    return differences(before, after), bound


CASES = {
    "row": {},
    "unit": {"unit": "unit", "max_rows_per_unit": ROWS},
    "groups": {"unit": "unit", "max_rows_per_unit": ROWS, "max_groups_per_unit": MOST},
}


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("case", CASES)
def test_a_unit_moves_as_many_numbers_as_the_selection_counts_on(seen, case, relation):
    draw = random.Random(f"{case} {relation}")
    most = {"row": 1, "unit": ROWS, "groups": MOST}[case]
    reached = 0
    for _ in range(TABLES):
        found, (touched, changed) = moved(seen, draw, CASES[case], relation)
        assert touched == most
        assert changed == (2 * most if relation == "replace" else most)
        assert max(found, default=0) <= 1
        assert sum(found) <= changed
        reached = max(reached, sum(found))
    assert reached >= min(changed, 3)


@pytest.mark.parametrize(
    ("what", "old", "new"),
    [("rows are no units", "case when unit is null then count(*) else 1 end", "count(*)")],
)
def test_broken_twins_are_found(seen, monkeypatch, what, old, new):
    assert old in key_counts.OF_UNITS
    monkeypatch.setattr(key_counts, "OF_UNITS", key_counts.OF_UNITS.replace(old, new))
    draw = random.Random(what)
    assert any(max(moved(seen, draw, CASES["unit"], "add_remove")[0], default=0) > 1 for _ in range(TABLES))


def test_a_bound_that_is_forgotten_is_found(seen, monkeypatch):
    monkeypatch.setattr(key_counts._Counting, "_kept", property(lambda self: None, lambda self, value: None), raising=False)
    draw = random.Random(3)
    assert any(sum(moved(seen, draw, CASES["groups"], "add_remove")[0]) > MOST for _ in range(TABLES))
