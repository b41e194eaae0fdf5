"""Every kind of query, with every key that changes what one unit can do to it: no neighbour of any small table costs more than ε.

The cases are the product of kinds, conditions, groups and rows without a value, for rows and for units, under both relations. What a job
may not ask is listed, and refused. A kind or a key that is in no list fails a test here. Each case is enumerated through the engine
(`support.neighbours`), and its loss follows from the scales and the laws that the plan really has (`support.answers`). Broken twins lose
more. The default run takes each kind once, a `long` run takes all cases.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from dpcore.batch import make_release_plan, parse_release_job
from dpcore.errors import JobError
from dpcore.query import nested_groups
from dpcore.query import plan as calibration
from dpcore.query.kinds import QUERY_SECTIONS
from kinds import ALONE, ELSEWHERE, EXAMPLES, LAWS, MAY_SKIP, NO_LOSS, SHARPER
from support.answers import parts_of
from support.jobs import write_table
from support.neighbours import Statistics, Tables, knowing
from support.parts import losses

EPSILON = 0.75
COLUMNS = {
    "v": pa.float64(), "w": pa.float64(), "g": pa.string(), "h": pa.float64(), "c": pa.int64(), "p": pa.int64(), "q": pa.int64(),
}  # fmt: skip
OWN = [
    (-9.0, 0.0, "a", 0.5, 0, 1, 1),
    (9.0, 3.0, "b", 1.5, 1, 1, 1),
    (9.0, 0.0, "a", 0.5, 1, 1, 1),
    (None, 3.0, "b", 1.5, 0, 1, 1),
    (9.0, 3.0, "b", 1.5, 1, 1, 0),
    (-9.0, 3.0, "z", 9.0, 2, 1, 1),
]
"""Rows beyond both bounds, in two groups; without a value; one that the condition leaves out, because it fails; one in no group."""
MANY = ((2.5, 2.0, "a", 0.5, 1, 1, 1), (2.5, 2.0, "b", 1.5, 1, 1, 1)) * 40
"""Of one candidate in each group: another one is then chosen so seldom that its probability moves as far as it can."""
OTHERS = [(), MANY, ((0.5, 1.0, "a", 0.5, 0, 1, 1), (2.5, 2.0, "a", 0.5, 0, 1, 1), (2.5, float("nan"), "b", 1.5, 1, 1, 1))]
DECIMALS = COLUMNS | {"v": pa.decimal128(6, 1), "w": pa.decimal128(3, 0)}
"""The same numbers, which are then counted in steps."""
KINDS = {name: EXAMPLES[name] | SHARPER.get(name, {}) for name in EXAMPLES} | ALONE
WHERE = {"every row": {}, "where": {"where": "p // q > 0"}}
GROUPS = {
    "one group": {},
    "a list": {"group_by": "g", "groups": ["a", "b"]},
    "two columns": {"group_by": ["g", "h"], "groups": {"g": ["a", "b"], "h": {"edges": [0, 1, 2]}}},
    "private": {"group_by": "g", "groups": "private"},
    "nested": {"group_by": ["g", "h"], "groups": {"g": ["a", "b"], "h": {"edges": [0, 1, 2]}}, "consistent": True},
}
ABSENT = {"stand-ins": {}, "skip": {"missing": "skip"}}
UNITS = {
    "row": {},
    "unit": {"unit": "unit", "max_rows_per_unit": 2},
    "made": {"unit": "unit"},
    "made by key": {"unit": "unit", "max_groups_per_unit": 2},
    "joined": {"unit": "unit", "max_rows_per_unit": 2},
}
AGGREGATES = {"v": "max(v)", "w": "min(w)", "h": "max(h)", "c": "max(c)", "p": "max(p)", "q": "min(q)"}
MADE = {"made": AGGREGATES | {"g": "min(g)"}, "made by key": AGGREGATES | {"by": "g", "groups": ["a", "b", "z"]}}
"""What is made of the rows of a unit, with the names of what it is made of: one row, or one for each of two keys."""
JOINED = {"w": pa.float64(), "q": pa.int64()}
"""Columns of another table, of which one row for each unit is made and joined."""
THEIRS: list[tuple[tuple[float, int], ...]] = [(), ((3.0, 1),), ((0.0, 1), (-1.0, 1)), ((3.0, 0),)]
"""What the unit may have in it."""
RELATIONS = ("replace", "add_remove")
SETTINGS = list(itertools.product(UNITS, RELATIONS))
CHANGES_LOSS = {
    "where",
    "group_by",
    "groups",
    "consistent",
    "missing",
    "bounds",
    "bounds_epsilon",
    "max_sum_per_unit",
    "max_values_per_unit",
    "values",
}
"""Keys that the cases vary."""
CHANGES_NO_LOSS = {
    "name", "kind", "epsilon", "weight", "delta", "confidence", "column", "columns", "lower", "upper", "categories", "categories_file", "k",
    "edges", "bins", "unknown", "ddof", "grid", "q", "s", "candidates", "candidates_file", "method", "output", "marginals", "max_cells",
    "draws",
}  # fmt: skip
"""Keys that say what is asked or how it is told; δ, weights and methods have tests of their own. A kind may add some (`NO_LOSS`)."""


@dataclass(frozen=True)
class Case:
    """A query of a kind, with a condition, groups and a treatment of rows without a value."""

    name: str
    where: str
    groups: str
    absent: str

    def query(self, unit):
        """As a job has it."""
        query = KINDS[self.name] | WHERE[self.where] | GROUPS[self.groups] | ABSENT[self.absent]
        if "bounds_epsilon" in query:
            query["bounds_epsilon"] = EPSILON / 3
        if unit == "row":
            query.pop("max_values_per_unit", None)
        if self.name in ALONE:
            query["output"] = f"made-{CASES.index(self)}.parquet"
        return {"name": " / ".join((self.name, self.where, self.groups, self.absent)), "epsilon": EPSILON, **query}

    def is_asked(self, unit):
        """Whether a job may have it."""
        keys = KINDS[self.name]
        if self.absent == "skip" and "missing" not in keys and self.name not in MAY_SKIP:
            return False
        if self.groups != "one group" and self.name in ALONE:
            return False
        if self.groups == "nested" and ("consistent" not in QUERY_SECTIONS[keys["kind"]].model_fields or "bounds" in keys):
            return False
        return unit != "row" or not (self.name == "units" or "max_sum_per_unit" in keys)

    def is_free(self, unit, relation):
        """Whether it is the number of all rows, which neighbours share."""
        return (self.name, self.where, self.groups, unit, relation) == ("rows", "every row", "one group", "row", "replace")


CASES = [Case(*each) for each in itertools.product(KINDS, WHERE, GROUPS, ABSENT)]


def document(folder, queries, unit, relation):
    keys = {"name": "keys", "kind": "groups", "group_by": "g", "epsilon": 1.0, "delta": 0.01}
    queries = [query | ({"output": str(folder / query["output"])} if "output" in query else {}) for query in queries]
    return {
        "version": 1, "input": {"path": str(folder / "in.parquet")}, "output": {"path": str(folder / "o.json")},
        "privacy": {"max_epsilon": 1e6, "max_delta": 0.1, "relation": relation, **UNITS[unit]}, "query": [keys, *queries],
        **({"per_unit": MADE[unit]} if unit in MADE else {}),
        **({"join": [{"path": str(folder / "other.parquet"), "per_unit": {"w": "max(w)", "q": "min(q)"}}]} if unit == "joined" else {}),
    }  # fmt: skip


def rows_of(rows, columns):
    """The rows as the types of the columns have them."""
    if columns is COLUMNS:
        return rows
    return tuple((*(None if each is None or each != each else Decimal(str(each)) for each in row[:2]), *row[2:]) for row in rows)


def plan_of(folder, cases, unit, relation, columns):
    """A plan for all of these cases, where the groups "a" and "b" were released."""
    (row,) = rows_of(OWN[:1], columns)
    columns = own_columns(columns, unit)
    one = pa.table({name: pa.array([value], kind) for value, (name, kind) in zip(row, columns.items(), strict=True)})
    write_table(pa.table({"unit": [1], "w": [1.0], "q": [1]}), folder / "other.parquet")
    write_table(one.append_column("unit", pa.array([1])), folder / "in.parquet")
    plan = make_release_plan(parse_release_job(document(folder, [case.query(unit) for case in cases], unit, relation)))
    return knowing(plan, [b"a", b"b"])


def own_columns(columns, unit):
    """Those of the table itself: others have the names of what is joined."""
    return {f"own {name}" if unit == "joined" and name in JOINED else name: kind for name, kind in columns.items()}


def tables_of(unit, relation, columns):
    public = unit == "row" and relation == "replace"
    others = [rows_of(rows, columns) for rows in OTHERS]
    if unit == "joined":
        both = [(rows, [(row[1], row[6]) for row in some]) for rows, some in zip(others[1:], OTHERS[1:], strict=True)]
        return Tables.pairs_of(both, rows_of(OWN[:4], columns), 2, relation, THEIRS)
    return Tables.of(others, rows_of(OWN, columns), 1 if unit == "row" else 2, relation, public=public)


def worst(plan, place, statistics, pairs):
    ways = [parts_of(plan.estimators[place], each) for each in statistics]
    return float(losses(ways, pairs).max())


def enumerated(folder, cases, unit, relation, columns, monkeypatch):
    """The loss of each case, and that of its broken twin."""
    tables, plan = tables_of(unit, relation, columns), plan_of(folder, cases, unit, relation, columns)
    statistics = Statistics(plan, tables, own_columns(columns, unit), folder / "spill", JOINED)
    found = {case: statistics.of(place) for place, case in enumerate(cases, 1)}
    loss = {case: worst(plan, place, found[case], tables.pairs) for place, case in enumerate(cases, 1)}
    with monkeypatch.context() as broken:
        right = calibration.contribution
        broken.setattr(calibration, "contribution", lambda job, query: replace(right(job, query), rows=1, replaced=False))
        twin = plan_of(folder, cases, unit, relation, columns)
    return loss, {case: worst(twin, place, found[case], tables.pairs) for place, case in enumerate(cases, 1)}


LEAST = {("made by key", "quantiles"): 0.38}
"""What a case loses at least, as a share of ε, if not half: rows that are made by key are one in each of its groups, and the noise of ranks
is for as many as a unit may have in all."""


def assert_private(folder, cases, unit, relation, columns, monkeypatch):
    """No case loses more than ε, each loses about half of it at least, and either of two broken twins loses more.

    The twins have the noise for one row that is added or removed, and half of the noise. (The noise of the first may be the right one, or
    as good: under replacement of a row, the sum and the count of a mean do not both move as far as they can.)
    """
    loss, broken = enumerated(folder, cases, unit, relation, columns, monkeypatch)
    for case, each in loss.items():
        if case.is_free(unit, relation):
            assert each == 0
            continue
        assert each <= EPSILON * (1 + 1e-6), case
        assert each >= EPSILON * (LEAST.get((unit, case.name), 0.5) - 1e-9), case
        assert max(broken[case], 2 * each) > EPSILON * (1 + 1e-6), case


def some_cases(unit, relation):
    """Of each kind one case in one of the settings in which it is asked."""
    for place, name in enumerate(KINDS):
        asked = [each for each in SETTINGS if name in {case.name for case in CASES if case.is_asked(each[0])}]
        if asked[place % len(asked)] == (unit, relation):
            cases = [case for case in CASES if case.name == name and case.is_asked(unit)]
            yield cases[11 * place % len(cases)]


@pytest.mark.some(2)
@pytest.mark.parametrize(("unit", "relation"), SETTINGS)
def test_each_kind_once(tmp_path, unit, relation, monkeypatch):
    assert_private(tmp_path, list(some_cases(unit, relation)), unit, relation, COLUMNS, monkeypatch)


def test_rates_of_replaced_rows(tmp_path, monkeypatch):
    """Both of their cells move, unless the number of rows is public: what one case of the kind need not show."""
    cases = [case for case in CASES if case.name == "rate" and case.groups in {"one group", "a list"} and case.is_asked("row")]
    assert_private(tmp_path, cases, "row", "replace", COLUMNS, monkeypatch)


def test_nested_levels_that_do_not_share_epsilon_are_rejected(tmp_path, monkeypatch):
    """The broken twin gives each level the whole ε, as queries that are asked one by one would have."""
    (case,) = (case for case in CASES if (case.name, case.where, case.groups, case.absent) == ("rows", "every row", "nested", "stand-ins"))
    tables = tables_of("unit", "add_remove", COLUMNS)

    def loss():
        plan = plan_of(tmp_path, [case], "unit", "add_remove", COLUMNS)
        return worst(plan, 1, Statistics(plan, tables, COLUMNS, tmp_path / "spill").of(1), tables.pairs)

    assert EPSILON * (1 - 1e-6) <= loss() <= EPSILON * (1 + 1e-6)
    monkeypatch.setattr(nested_groups, "part_of", lambda total, _: total)
    assert loss() >= 3 * EPSILON * (1 - 1e-6)


@pytest.mark.long
@pytest.mark.parametrize("columns", [COLUMNS, DECIMALS], ids=["floats", "decimals"])
@pytest.mark.parametrize(("unit", "relation"), SETTINGS)
def test_all_cases(tmp_path, unit, relation, columns, monkeypatch):
    assert_private(tmp_path, [case for case in CASES if case.is_asked(unit)], unit, relation, columns, monkeypatch)


def test_no_kind_and_no_key_is_forgotten():
    """A new one must be added to the cases, or be named as one that is tested elsewhere or changes no loss."""
    assert {keys["kind"] for keys in KINDS.values()} | set(ELSEWHERE) == set(QUERY_SECTIONS)
    assert not [name for names in ELSEWHERE.values() for name in names if not Path(__file__).with_name(name).exists()]
    sections = [section for kind, section in QUERY_SECTIONS.items() if kind not in ELSEWHERE]
    assert {key for section in sections for key in section.model_fields} == CHANGES_LOSS | CHANGES_NO_LOSS | set(NO_LOSS)
    assert set(LAWS) == set(QUERY_SECTIONS)
    for test in LAWS.values():
        file, _, function = test.partition("::")
        assert f"def {function}" in Path(__file__).parents[1].joinpath("statistical", file).read_text(encoding="utf-8")
    once = [case for each in SETTINGS for case in some_cases(*each)]
    assert sorted(case.name for case in once) == sorted(KINDS)
    assert {case.where for case in once} == set(WHERE)
    assert {case.groups for case in once} == set(GROUPS)
    assert {case.absent for case in once} == set(ABSENT)


@pytest.mark.parametrize("unit", UNITS)
def test_what_is_no_case_is_refused(tmp_path, unit):
    for case in CASES:
        if not case.is_asked(unit):
            with pytest.raises(JobError):
                parse_release_job(document(tmp_path, [case.query(unit)], unit, "replace"))
