"""Groups whose keys only the data know: which are released, what is said about them, and what is refused."""

from __future__ import annotations

import collections
import datetime as dt
import json
import random
import re

import numpy as np
import pyarrow as pa
import pytest

from dpcore import selection
from dpcore.batch import make_release_plan, parse_release_job, release
from dpcore.errors import JobError, StorageError
from dpcore.query import key_counts
from dpcore.query import run as released_keys
from dpcore.testing import KeyedRandom
from support.jobs import FORMATS, write_table
from support.releases import Counter

CERTAIN = {"epsilon": 900.0, "delta": 1e-9}
"""A key of one unit is released with probability 10^-9 at most, a key of two with probability 1 − 10^-100."""
KEY = "07" * 32


def people(rows=600, seed=1):
    draw = random.Random(seed)
    diagnoses = [None if draw.random() < 0.05 else f"d{int(draw.paretovariate(0.7))}" for _ in range(rows)]
    begin = dt.date(2019, 12, 20)
    return pa.table(
        {
            "diagnosis": pa.array(diagnoses, pa.string()),
            "code": pa.array([draw.randrange(-250, 250) ** 3 for _ in range(rows)], pa.int64()),
            "day": pa.array([begin + dt.timedelta(draw.randrange(400)) for _ in range(rows)], pa.date32()),
            "cost": pa.array([float(draw.randrange(10)) for _ in range(rows)]),
            "person": pa.array([draw.randrange(120) for _ in range(rows)], pa.int64()),
        }
    )


class Place:
    """A folder with a table, and jobs on it."""

    def __init__(self, folder, table, suffix="parquet"):
        self.folder = folder
        self.source = write_table(table, folder / f"people.{suffix}")

    def run(self, queries, *, name="answers.json", **options):
        return release(self.plan(queries, name=name, **options), piece_rows=options.get("piece_rows"))

    def plan(self, queries, *, name="answers.json", key=KEY, **options):
        privacy = {"max_epsilon": 1e5, "max_delta": 0.9, **options.get("privacy", {})}
        more = {key: options[key] for key in ("where", "derive", "lookup") if key in options}
        job = {"version": 1, **more, "input": {"path": str(self.source)}, "output": {"path": str(self.folder / name)}, "privacy": privacy}
        if key:
            job["testing"] = {"key_hex": key}
        return make_release_plan(parse_release_job(job | {"query": queries}), overwrite=True)


def keys_query(group_by, name="keys", **options):
    return {"name": name, "kind": "groups", "group_by": group_by, **CERTAIN, **options}


def count_query(group_by, name="rows", **options):
    return {"name": name, "kind": "count", "group_by": group_by, "groups": "private", "epsilon": 900.0, **options}


def units_by_key(table, names, unit=None):
    """Distinct units of each key, computed without the engine."""
    found = collections.defaultdict(set)
    for place, row in enumerate(table.to_pylist()):
        key = tuple(row[name] for name in names)
        if None not in key:
            found[key].add(place if unit is None else row[unit])
    return {key: len(units) for key, units in found.items()}


def said(value):
    return value.isoformat() if isinstance(value, dt.date) else value


@pytest.mark.some(4)
@pytest.mark.parametrize("names", [("diagnosis",), ("code",), ("day",), ("diagnosis", "code"), ("day", "diagnosis")], ids=" ".join)
@pytest.mark.parametrize("unit", [None, "person"])
def test_keys_of_several_units_are_released_in_order_and_counted(tmp_path, names, unit):
    table = people()
    privacy = {} if unit is None else {"unit": "person", "max_rows_per_unit": 50}
    group_by = names[0] if len(names) == 1 else list(names)
    rows, error = Place(tmp_path, table), {"epsilon": 900.0 * 200}
    queries = [keys_query(group_by, **error), count_query(group_by, **error)]
    keys, counts = rows.run(queries, privacy=privacy | {"max_epsilon": 1e6})["queries"]
    units, per_key = units_by_key(table, names, unit), units_by_key(table, names)
    wanted = sorted(key for key, n in units.items() if n > 1)
    assert 3 < len(wanted) < len(units)
    listed = [list(map(said, column)) for column in zip(*wanted, strict=True)]
    assert keys["value"] == counts["groups"] == (listed[0] if len(names) == 1 else dict(zip(names, listed, strict=True)))
    assert counts["value"] == [per_key[key] for key in wanted]
    assert keys["stderr"] is None
    assert keys["privacy"] == {"epsilon": 180000.0, "delta": 1e-9}


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_gives_the_same_keys(tmp_path, suffix):
    table = people()
    keys, counts = Place(tmp_path, table, suffix).run([keys_query("diagnosis"), count_query("diagnosis")])["queries"]
    units = units_by_key(table, ["diagnosis"])
    assert keys["value"] == sorted(key for (key,), n in units.items() if n > 1)
    assert counts["value"] == [units[(key,)] for key in keys["value"]]


def test_nothing_of_other_keys_is_written(tmp_path):
    table = pa.table({"word": ["common"] * 20 + ["secretvalue"] + [None] * 3, "x": np.arange(24.0)})
    place = Place(tmp_path, table)
    mean = {"name": "m", "kind": "mean", "column": "x", "lower": 0, "upper": 30, "missing": 0, "group_by": "word", "groups": "private"}
    document = place.run([keys_query("word"), {**mean, "epsilon": 1.0}, count_query("word")])
    assert document["queries"][0]["value"] == ["common"]
    assert [query["groups"] for query in document["queries"][1:]] == [["common"]] * 2
    assert b"secretvalue" not in (tmp_path / "answers.json").read_bytes()


def test_the_decisions_are_those_of_the_selection_in_the_order_of_keys(tmp_path):
    table = people()
    counts = units_by_key(table, ["diagnosis"])
    ordered = sorted(counts)
    moderate = {"epsilon": 1.0, "delta": 1e-3}
    for place_of_query in (0, 1):
        queries = [count_query("diagnosis"), keys_query("diagnosis", **moderate)]
        keys = Place(tmp_path, table).run(queries if place_of_query else queries[::-1], name=f"{place_of_query}.json")["queries"][
            place_of_query
        ]
        rng = KeyedRandom(bytes.fromhex(KEY)).at(place_of_query)
        wanted = selection.select_partitions([counts[key] for key in ordered], 1.0, 1e-3, relation="replace", rng=rng)
        assert keys["value"] == [key for (key,), released in zip(ordered, wanted, strict=True) if released]
        assert 0 < len(keys["value"]) < len(ordered)


@pytest.mark.parametrize("touched", [1, 30])
def test_rows_in_another_order_give_the_same_document(tmp_path, touched, monkeypatch):
    monkeypatch.setattr(key_counts, "FETCHED_KEYS", 2048)
    table = people()
    privacy = {"unit": "person", "max_rows_per_unit": touched} if touched > 1 else {}
    queries = [keys_query("diagnosis", epsilon=3.0, delta=1e-2), count_query("diagnosis", epsilon=2.0)]
    documents = []
    for seed in (1, 2):
        order = np.random.default_rng(seed).permutation(table.num_rows)
        document = Place(tmp_path, table.take(order)).run(queries, name=f"{seed}.json", privacy=privacy, piece_rows=100 * seed)
        documents.append(json.dumps(document["queries"]))
    assert documents[0] == documents[1]
    assert ("gaussian" in documents[0]) == (touched > 1)


def test_a_unit_counts_in_as_many_groups_as_are_allowed(tmp_path):
    """Each key has two units of its own; one unit more has all keys, and may be in γ of them."""
    keys = [f"k{i:02}" for i in range(12)]
    table = pa.table({"key": keys * 3, "unit": ["all"] * 12 + [f"a{i}" for i in range(24)]})
    for most in (1, 5, 12):
        privacy = {"unit": "unit", "max_rows_per_unit": 12, "max_groups_per_unit": most}
        found, counts = Place(tmp_path, table).run(
            [keys_query("key", epsilon=1e4), count_query("key", epsilon=1e5)], privacy={**privacy, "max_epsilon": 1e6}
        )["queries"]
        assert found["value"] == keys
        assert sum(counts["value"]) == 24 + most
        assert set(counts["value"]) <= {2, 3}
        # The same units without the one: keys of one unit are not released.
        few = Place(tmp_path, table.slice(0, 24)).run([keys_query("key", epsilon=1e4)], privacy={**privacy, "max_epsilon": 1e6})
        assert len(few["queries"][0]["value"]) == most


def test_rows_that_name_no_unit(tmp_path):
    table = pa.table({"key": ["a", "a", "b", "b", "c", "c"], "unit": [None, None, "u", None, "u", "v"]})
    for policy, wanted in (("drop", ["c"]), ("own", ["a", "b", "c"])):
        privacy = {"unit": "unit", "max_rows_per_unit": 2, "null_unit": policy}
        assert Place(tmp_path, table).run([keys_query("key")], privacy=privacy)["queries"][0]["value"] == wanted


def test_no_key_at_all(tmp_path):
    table = pa.table({"key": ["a", "b", None], "x": [1.0, 2.0, 3.0]})
    grouped = {"missing": 0, "group_by": "key", "groups": "private", "epsilon": 1.0, "column": "x"}
    queries = [
        keys_query("key"),
        count_query("key"),
        {"name": "q", "kind": "median", "grid": [0, 1, 2], **grouped},
        {"name": "s", "kind": "sum", "lower": 0, "upper": 2, **grouped},
        {"name": "m", "kind": "mean", "lower": 0, "upper": 2, **grouped},
        {"name": "h", "kind": "histogram", "edges": [0, 1, 2], **grouped},
        {"name": "v", "kind": "var", "lower": 0, "upper": 2, **grouped},
    ]
    for rows in (table, table.slice(0, 0)):
        document = Place(tmp_path, rows).run(queries)
        assert [query["value"] for query in document["queries"]] == [[]] * 7


def test_counts_of_units_by_private_groups(tmp_path):
    """Queries about whole units have the same groups."""
    table = people()
    privacy = {"unit": "person", "max_rows_per_unit": 50, "max_epsilon": 1e6, "relation": "add_remove"}
    distinct = {"name": "people", "kind": "count_distinct", "group_by": "diagnosis", "groups": "private", "epsilon": 1e5}
    keys, units = Place(tmp_path, table).run([keys_query("diagnosis", epsilon=1e5), distinct], privacy=privacy)["queries"]
    wanted = units_by_key(table, ["diagnosis"], "person")
    assert keys["value"] == units["groups"] == sorted(key for (key,), n in wanted.items() if n > 1)
    assert units["value"] == [wanted[(key,)] for key in keys["value"]]
    nobody = Place(tmp_path, table.slice(0, 1)).run([keys_query("diagnosis", epsilon=1e5), distinct], privacy=privacy)["queries"]
    assert [query["value"] for query in nobody] == [[], []]


def test_more_keys_than_an_answer_takes(tmp_path, monkeypatch):
    table = pa.table({"key": [f"{i:03}" for i in range(50)] * 2, "x": np.zeros(100)})
    monkeypatch.setattr(released_keys, "MAX_CELLS", 30)
    median = {"name": "q", "kind": "median", "column": "x", "grid": [0, 1, 2], "missing": 0, "group_by": "key", "groups": "private"}
    document = Place(tmp_path, table).run([keys_query("key"), {**median, "epsilon": 1.0}])
    keys, medians = document["queries"]
    assert keys["value"] == medians["groups"] == [f"{i:03}" for i in range(10)]
    assert keys["note"] == "more groups were released; the first 10 in order are kept"
    assert "note" not in Place(tmp_path, table).run([keys_query("key")])["queries"][0]


def test_queries_that_share_keys_in_both_spellings(tmp_path):
    table = people()
    keys, one, listed = Place(tmp_path, table).run(
        [keys_query("diagnosis"), count_query("diagnosis"), count_query(["diagnosis"], name="listed")]
    )["queries"]
    assert listed["groups"] == {"diagnosis": keys["value"]}
    assert one["value"] == listed["value"]


def test_the_noise_and_the_guarantee_are_in_plan_and_document(tmp_path):
    place = Place(tmp_path, people())
    plan = place.plan([keys_query("diagnosis", epsilon=1.0, delta=1e-8)], privacy={"relation": "add_remove"})
    assert plan.estimators[0].parameters() == {"group_by": "diagnosis", "half_released_at": 19}
    assert plan.estimators[0].noise[0].document() == {"law": "truncated_geometric", "sensitivity": 1.0, "scale": 1.0}
    bounded = {"unit": "person", "max_rows_per_unit": 10, "relation": "add_remove"}
    assert (
        place.plan([keys_query("diagnosis", epsilon=1.0, delta=1e-8)], privacy=bounded).estimators[0].parameters()["half_released_at"]
        == 102
    )
    of_few = bounded | {"max_groups_per_unit": 2}
    assert (
        place.plan([keys_query("diagnosis", epsilon=1.0, delta=1e-8)], privacy=of_few).estimators[0].parameters()["half_released_at"] == 36
    )
    assert plan.job.total.delta == 1e-8


@pytest.mark.parametrize(
    ("queries", "words"),
    [
        ([count_query("diagnosis")], "needs a [[query]] of kind = \"groups\" with group_by = 'diagnosis'"),
        ([keys_query("diagnosis"), count_query(["diagnosis", "code"])], "group_by = ['diagnosis', 'code']"),
        ([keys_query("diagnosis", delta=0.0)], 'delta is required with kind = "groups"'),
        ([keys_query("diagnosis"), keys_query("diagnosis", name="again")], "one is enough"),
        ([keys_query("cost")], "takes a string, integer or date type"),
        ([keys_query("nothing")], "nothing"),
        ([{"name": "n", "kind": "count", "groups": "private", "epsilon": 1.0}], "group_by"),
    ],
)
def test_what_is_refused_before_a_row_is_read(tmp_path, queries, words):
    with pytest.raises(JobError) as error:
        Place(tmp_path, people()).plan(queries)
    assert words in str(error.value)


def test_conditions_and_derived_columns(tmp_path):
    table = people()
    rows = table.to_pylist()
    derive = [{"name": "letter", "sql": "substr(diagnosis, 2, 1)"}]
    for unit in (None, "person"):
        privacy = {} if unit is None else {"unit": "person", "max_rows_per_unit": 50}
        keys, counts, all_keys, some = Place(tmp_path, table).run(
            [
                keys_query("letter", where="code > 0", epsilon=1e5),
                count_query("letter"),
                keys_query("diagnosis", name="all", epsilon=1e5),
                count_query("diagnosis", name="some", where="cost < 5", epsilon=1e5),
            ],
            privacy=privacy | {"max_epsilon": 1e6},
            where="cost < 8",
            derive=derive,
        )["queries"]
        there = [row for row in rows if row["cost"] < 8 and row["diagnosis"] is not None]
        units = collections.defaultdict(set)
        for place, row in enumerate(there):
            units[row["diagnosis"]].add(place if unit is None else row["person"])
        assert all_keys["value"] == sorted(key for key, found in units.items() if len(found) > 1)
        assert some["value"] == [sum(row["cost"] < 5 and row["diagnosis"] == key for row in there) for key in some["groups"]]
        units = collections.defaultdict(set)
        for place, row in enumerate(there):
            if row["code"] > 0:
                units[row["diagnosis"][1:2]].add(place if unit is None else row["person"])
        assert keys["value"] == counts["groups"] == sorted(key for key, found in units.items() if len(found) > 1)


QUERIES = {
    "names": {"kind": "groups", "group_by": "diagnosis", "delta": 1e-6},
    "pairs": {"kind": "groups", "group_by": ["day", "code"], "delta": 1e-6},
    "none": {"kind": "groups", "group_by": "code", "delta": 1e-300},
    "each": {"kind": "count", "group_by": "diagnosis", "groups": "private"},
    "nobody": {"kind": "sum", "column": "cost", "lower": 0, "upper": 9, "missing": 0, "group_by": "code", "groups": "private"},
}


def test_pages_and_terminals_show_the_names(tmp_path, capsys):
    place = Counter(tmp_path, capsys)
    write_table(people(), place.source)
    place.write_release(QUERIES, epsilon=2.0)
    planned = place.release("--dry-run", "--table")
    assert planned.code == 0, planned.said
    assert "truncated geometric" in planned.said
    assert re.search(r"½ named at \d+ units", planned.said)
    done = place.release("--report", tmp_path / "out")
    assert done.code == 0, done.said
    shown = place.release("--overwrite", "--table")
    assert "d1" in shown.out
    assert "0 groups" in shown.out
    page = (tmp_path / "out" / "answers.html").read_text(encoding="utf-8")
    for query in json.loads(done.out)["queries"][:1]:
        assert query["value"]
        for name in query["value"]:
            assert name in page
    assert "No group." in page
    assert "released groups by diagnosis" in page
    assert "in each of 0 released groups by code" in page
    assert "Which values of diagnosis there are; one that" in page
    assert "truncated geometric noise" in page.lower()


def test_a_ledger_pays_once(tmp_path, capsys):
    place = Counter(tmp_path, capsys)
    write_table(people(), place.source)
    ledger = tmp_path / "out" / "budget.ledger"
    assert place.dpcore("ledger", "create", ledger, "--epsilon", "9", "--delta", "1e-5").code == 0
    place.write_release({name: QUERIES[name] for name in ("names", "each")}, ledger=ledger, epsilon=2.0)
    first = place.release()
    assert first.code == 0, first.said
    again = place.release()
    assert again.code == 0
    assert "already published" in again.err
    assert json.loads(again.out)["queries"] == json.loads(first.out)["queries"]
    assert json.loads(place.dpcore("ledger", "show", ledger, "--json").out)["spent"]["epsilon"] == 4.0


def test_a_failure_of_the_pass_is_told_without_values(tmp_path, monkeypatch):
    place = Place(tmp_path, people())
    plan = place.plan([keys_query("diagnosis")])
    monkeypatch.setattr(key_counts, "OF_ROWS", "select error(key::varchar), count(*) as n from keys group by key")
    with pytest.raises(StorageError, match="counting 'row' per 'diagnosis' failed; it may need more room") as error:
        release(plan)
    assert "d1" not in str(error.value)
    assert not (tmp_path / "answers.json").exists()
