"""`[[join]]` in jobs and `join` of tables: the same answers, refusals before a row is read, one ledger, and what is said."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpcore import PrivateTable
from dpcore.accounting import Ledger
from dpcore.batch import load_release_job, make_release_plan, parse_release_job, release
from dpcore.errors import JobError, ParameterError, ParameterTypeError
from dpcore.jobs.commands.release_text import describe
from dpcore.jobs.settings import Settings
from dpcore.query.prose import limits_in_words
from dpcore.tables.run_ids import run_ids
from dpcore.testing import KeyedRandom
from support.every_query import job_text
from support.jobs import KEY, write_table

UNITS, ROWS = 300, 2_000
RIGHT = {"plan": "min(plan)", "paid": "sum(paid)"}
QUERIES = [
    {"name": "rows", "kind": "count", "group_by": "plan", "groups": ["basic", "full"], "epsilon": 2.0},
    {"name": "paid", "kind": "mean", "column": "paid", "lower": 0, "upper": 90, "missing": 0, "epsilon": 2.0},
]


def visits():
    rng = np.random.default_rng(1)
    return pa.table({"person": rng.integers(0, UNITS, ROWS), "cost": rng.integers(0, 60, ROWS), "ward": rng.choice(["a", "b"], ROWS)})


def members():
    rng = np.random.default_rng(2)
    return pa.table({"id": rng.integers(50, UNITS + 50, 600), "plan": rng.choice(["basic", "full"], 600), "paid": rng.integers(0, 40, 600)})


def job_of(folder, join=None, **keys):
    join = {"path": str(folder / "members.parquet"), "unit": "id", "per_unit": RIGHT, **(join or {})}
    return {
        "version": 1, "input": {"path": str(folder / "visits.parquet")}, "output": {"path": str(folder / "out.json")},
        "privacy": {"max_epsilon": 4.0, "unit": "person", "relation": "add_remove", "max_rows_per_unit": 5}, "query": QUERIES,
        "join": [{key: each for key, each in join.items() if each is not None}], **keys,
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    write_table(visits(), tmp_path / "visits.parquet")
    write_table(members(), tmp_path / "members.parquet")
    return tmp_path


def tables(**privacy):
    """Two frames of different libraries."""
    one = PrivateTable(visits().to_pandas(), unit="person", relation="add_remove", rng=KeyedRandom(KEY), **privacy)
    other = PrivateTable(pl.from_arrow(members()), unit="id", relation="add_remove")
    return one, other.per_unit(plan="min(plan)", paid="sum(paid)")


def asked(table):
    with table.batch(epsilon=4.0) as batch:
        rows = batch.group_by("plan", groups=["basic", "full"]).count(epsilon=2.0)
        paid = batch.mean("paid", epsilon=2.0, lower=0, upper=90, missing=0)
    return [rows.document["value"], paid.document["value"]]


@pytest.mark.parametrize("how", ["left", "inner"])
def test_frames_have_the_answers_of_jobs(folder, how):
    document = release(make_release_plan(parse_release_job(job_of(folder, {"how": how}, testing={"key_hex": KEY.hex()}))))
    one, other = tables(max_rows_per_unit=5)
    assert asked(one.join(other, how=how)) == [query["value"] for query in document["queries"]]


def test_frames_have_the_answers_of_jobs_on_made_rows(folder):
    """Joined to the rows that are made, with a condition and a derived column on either side of the join."""
    made = {"n": "count(*)", "join": job_of(folder)["join"], "where": "n > 4", "derive": [{"name": "each", "sql": "paid / n"}]}
    made["join"][0] |= {"how": "inner", "where": "paid > 2", "per_unit": RIGHT | {"where": "paid < 80"}}
    query = {"name": "each", "kind": "sum", "column": "each", "lower": 0, "upper": 20, "missing": 0, "epsilon": 4.0}
    job = job_of(folder, testing={"key_hex": KEY.hex()}) | {"per_unit": made, "query": [query]}
    del job["join"], job["privacy"]["max_rows_per_unit"]
    document = release(make_release_plan(parse_release_job(job)))
    one = PrivateTable(visits(), unit="person", relation="add_remove", rng=KeyedRandom(KEY))
    other = PrivateTable(members(), unit="id", relation="add_remove").where("paid > 2").per_unit(plan="min(plan)", paid="sum(paid)")
    table = one.per_unit(n="count(*)").join(other.where("paid < 80"), how="inner").derive(each="paid / n").where("n > 4")
    assert table.sum("each", epsilon=4.0, lower=0, upper=20, missing=0).value == document["queries"][0]["value"]
    assert table.epsilon_for("sum", "each", lower=0, upper=20, missing=0, half_width=100).epsilon < 4


def test_public_frames_of_both_tables_keep_apart():
    """Each session numbers its public tables from 1."""
    one = PrivateTable(pd.DataFrame({"person": [1, 2], "k": ["a", "b"]}), unit="person", max_rows_per_unit=1)
    other = PrivateTable(pd.DataFrame({"id": [1, 2], "k": ["a", "b"]}), unit="id")
    other = other.lookup(pd.DataFrame({"k": ["a", "b"], "theirs": [10, 20]}), "k", ["theirs"]).per_unit(theirs="max(theirs)")
    table = one.lookup(pd.DataFrame({"k": ["a", "b"], "ours": [1, 2]}), "k", ["ours"]).join(other).derive(both="ours + theirs")
    assert table.sum("both", epsilon=1e6, lower=0, upper=50, missing=0).value == pytest.approx(33, abs=0.1)


@pytest.mark.parametrize(
    ("join", "keys", "said"),
    [
        ({"on": "ward"}, {}, "on = 'ward': private tables are joined by the unit alone"),
        ({"key": "ward"}, {}, "joined by [[lookup]]"),
        ({"per_unit": None}, {}, "needs per_unit, such as"),
        ({"per_unit": RIGHT | {"by": "plan", "groups": ["basic"]}}, {}, "by makes several"),
        ({"per_unit": {}}, {}, "per_unit needs a column"),
        ({"how": "outer"}, {}, "join[0].how = 'outer'"),
        ({"per_unit": {"ward": "min(plan)"}}, {}, "there is a column 'ward' already"),
        ({"per_unit": {"plan": "first(plan)"}}, {}, "join[0].per_unit.plan = 'first(plan)' calls 'first'"),
        ({"per_unit": {"plan": "min(nothing)"}}, {}, "join[0].per_unit.plan"),
        ({"per_unit": {"id": "count(*)"}}, {}, "join[0].per_unit.id"),
        ({"where": "cost > 1"}, {}, "join[0].where"),
        ({"unit": "plan", "per_unit": {"n": "count(*)"}}, {}, "'plan' has type string, and 'person', to which it is joined, has int64"),
        ({"unit": "who"}, {}, "there is no column 'who'"),
        ({"path": "VISITS", "unit": "person", "per_unit": {"n": "count(*)"}}, {}, "is the same file as input.path"),
        ({"path": "LINK", "unit": "person", "per_unit": {"n": "count(*)"}}, {}, "is the same file as input.path"),
        ({}, {"privacy": {"max_epsilon": 4.0}}, "join: needs privacy.unit"),
        ({}, {"output": {"path": "MEMBERS"}}, "is the same file as"),
        ({"path": "FOLDER"}, {"output": {"path": "INSIDE"}}, "is inside the input"),
        ({}, {"lookup": [{"path": "MEMBERS", "key": "ward", "columns": ["paid"]}]}, "is the same file as"),
    ],
)  # fmt: skip
def test_what_cannot_be_joined_is_refused(folder, join, keys, said):
    (folder / "link.parquet").symlink_to(folder / "visits.parquet")
    (folder / "more").mkdir()
    write_table(members(), folder / "more" / "m.parquet")
    places = {"VISITS": "visits.parquet", "LINK": "link.parquet", "MEMBERS": "members.parquet", "FOLDER": "more", "INSIDE": "more/out.json"}
    text = json.dumps(job_of(folder, join, **keys))
    for word, name in places.items():
        text = text.replace(f'"{word}"', json.dumps(str(folder / name)))
    with pytest.raises(JobError) as caught:
        make_release_plan(parse_release_job(json.loads(text)))
    assert said in str(caught.value)


def test_two_joins_of_one_file_are_refused(folder):
    job = job_of(folder)
    job["join"].append(job["join"][0] | {"per_unit": {"more": "count(*)"}})
    with pytest.raises(JobError, match=r"join\[1\].path .* is the same file as join\[0\].path"):
        make_release_plan(parse_release_job(job))


def test_refusals_of_tables():
    one, other = tables(max_rows_per_unit=5)
    plain = PrivateTable(members(), unit="id", relation="add_remove")
    for wrong, said in [
        (plain, "one row for each unit"),
        (PrivateTable(members(), unit="id", relation="add_remove", max_groups_per_unit=1).per_unit(by="plan", groups=["basic"]), "one row"),
        (PrivateTable(members(), unit="id").per_unit(n="count(*)"), "relation of the tables must be the same"),
        (one, "not joined to itself"),
        (other.join(PrivateTable(visits(), unit="person", relation="add_remove").per_unit(n="count(*)")), "one after the other"),
    ]:
        with pytest.raises(ParameterError, match=said):
            one.join(wrong)
    with pytest.raises(ParameterError, match="needs the unit of both"):
        PrivateTable(visits(), relation="add_remove").join(other)
    with pytest.raises(ParameterError, match="how must be one of 'left', 'inner', got 'cross'"):
        one.join(other, how="cross")
    with pytest.raises(ParameterError, match="on must be left out, got 'ward': private tables are joined by their unit alone"):
        one.join(other, on="ward")  # type: ignore[arg-type]
    with pytest.raises(ParameterTypeError, match="public table is joined by lookup"):
        one.join(members())
    with pytest.raises(AttributeError, match="call it before group_by"):
        one.group_by("ward", groups=["a"]).join(other)  # type: ignore[attr-defined]


# One ledger for the set


def test_a_set_has_one_entry_in_a_ledger(folder):
    ledger = Ledger.create(folder / "set.ledger", epsilon=10, relation="add_remove", unit="person", dataset="hospital-1")
    paid = {"ledger": {"path": str(ledger.path)}}
    job = job_of(folder, **paid) | {"input": {"path": str(folder / "visits.parquet"), "dataset": "hospital-1"}}
    release(make_release_plan(parse_release_job(job)))
    alone = job | {"output": {"path": str(folder / "alone.json")}, "query": [{"name": "n", "kind": "count", "epsilon": 1.0}]}
    del alone["join"]
    release(make_release_plan(parse_release_job(alone)))
    assert ledger.spent.epsilon == pytest.approx(5.0)
    assert {entry.dataset for entry in ledger.entries()} == {"hospital-1"}
    for name in ("members-1", "hospital-2"):
        other = job | {"join": [job["join"][0] | {"dataset": name}], "output": {"path": str(folder / "other.json")}}
        with pytest.raises(JobError, match=f"has dataset = '{name}', and the input 'hospital-1': a ledger has one name"):
            parse_release_job(other)
    same = job | {"join": [job["join"][0] | {"dataset": "hospital-1"}], "output": {"path": str(folder / "other.json")}}
    make_release_plan(parse_release_job(same))


def test_tables_of_one_ledger_have_one_name(folder):
    ledger = Ledger.create(folder / "set.ledger", epsilon=10, relation="replace", unit="person")
    one = PrivateTable(visits(), unit="person", max_rows_per_unit=5, ledger=ledger.path, dataset="hospital-1")
    same, other = (
        PrivateTable(members(), unit="id", dataset=name, ledger=ledger.path).per_unit(paid="sum(paid)") for name in ("hospital-1", "m")
    )
    one.join(same).count(epsilon=1.0)
    with pytest.raises(ParameterError, match="one name for all tables of a set"):
        one.join(other)
    assert ledger.spent.epsilon == 1.0
    # Another ledger pays for its own answers: what both may spend adds up.
    apart = PrivateTable(members(), unit="id", dataset="m").per_unit(paid="sum(paid)")
    answer = one.join(apart).count(epsilon=1.0)
    answer.report(folder / "page")
    assert "What another ledger pays for answers about one of these tables adds up with this." in (
        folder / "page" / "count.json"
    ).read_text(encoding="utf-8")
    assert ledger.spent.epsilon == 2.0


# What is said


def test_readers_learn_what_was_joined(folder):
    made = {
        "n": "count(*)",
        "cost": {"sum": "cost", "lower": 0, "upper": 50},
        "join": job_of(folder, {"how": "inner"})["join"],
        "where": "n > 2",
    }
    job = job_of(folder, testing={"key_hex": KEY.hex()}) | {"per_unit": made, "where": "cost < 70"}
    del job["join"], job["privacy"]["max_rows_per_unit"]
    document = release(make_release_plan(parse_release_job(job)))
    assert document["per_unit"]["join"][0]["per_unit"]["columns"] == RIGHT
    assert "protects one 'person', with all its rows in 2 tables together." in document["guarantee"]
    said = limits_in_words(document)
    assert said[0] == "Rows are made of the rows for which cost < 70; how many these are is protected."
    assert said[1] == "Answers are about one row for each person, made of its rows: n = count(*), cost = sum(cost) of values in [0, 50]."
    assert said[2].startswith("Joined on the unit with ")
    assert said[2].endswith("members.parquet: plan = min(plan), paid = sum(paid); only those who are in it stay.")
    assert said[3] == "Of these, the rows for which n > 2; how many these are is protected."


def test_the_terminal_tells_the_plan(folder):
    job = folder / "job.toml"
    job.write_text(
        f'''version = 1
[input]
path = "{folder}/visits.parquet"
[output]
path = "{folder}/out.json"
[privacy]
max_epsilon = 1
unit = "person"
[per_unit]
n = "count(*)"
[[per_unit.join]]
path = "{folder}/members.parquet"
unit = "id"
how = "inner"
where = "paid > 1"
[per_unit.join.per_unit]
paid = "sum(paid)"
[[query]]
name = "n"
kind = "count"
epsilon = 1
''',
        encoding="utf-8",
    )
    said = describe(make_release_plan(load_release_job(job)))
    assert "made    a row for each person" in said
    assert "made    n = count(*)" in said
    assert f"join    {folder}/members.parquet on id, only units that it has" in said
    assert "where   paid > 1" in said
    assert "made    paid = sum(paid)" in said


# What was found by an attack


def test_a_member_alone_charges_the_set_under_its_name(folder):
    """A column of another name holds the same units."""
    ledger = Ledger.create(folder / "set.ledger", epsilon=10, relation="add_remove", unit="person", dataset="set")
    count = [{"name": "n", "kind": "count", "epsilon": 1.0}]
    alone = {
        "version": 1, "input": {"path": str(folder / "members.parquet"), "dataset": "set"}, "output": {"path": str(folder / "alone.json")},
        "privacy": {"max_epsilon": 1, "unit": "id", "relation": "add_remove", "max_rows_per_unit": 3}, "query": count,
        "ledger": {"path": str(ledger.path)},
    }  # fmt: skip
    with pytest.raises(JobError, match=r"privacy.unit = 'id', but .* is for 'person'.*privacy.unit_name = 'person'"):
        make_release_plan(parse_release_job(alone))
    alone["privacy"]["unit_name"] = "person"
    document = release(make_release_plan(parse_release_job(alone)))
    assert document["unit"] == "person"
    assert ledger.spent.epsilon == 1.0
    table = PrivateTable(
        members(), unit="id", unit_name="person", relation="add_remove", max_rows_per_unit=3, ledger=ledger.path, dataset="set"
    )
    table.count(epsilon=1.0)
    assert ledger.spent.epsilon == 2.0
    with pytest.raises(JobError, match="unit_name = 'x' is for jobs whose unit is a column"):
        parse_release_job(alone | {"privacy": {"max_epsilon": 1, "unit_name": "x"}})


def test_a_ledger_is_one_however_it_is_named(folder, monkeypatch):
    monkeypatch.chdir(folder)
    Ledger.create("set.ledger", epsilon=10, relation="replace", unit="person")
    one = PrivateTable(visits(), unit="person", max_rows_per_unit=5, ledger="set.ledger", dataset="a")
    (folder / "link.ledger").symlink_to(folder / "set.ledger")
    for name in ("set.ledger", "./set.ledger", str(folder / "set.ledger"), "link.ledger"):
        other = PrivateTable(members(), unit="id", ledger=name, dataset="b").per_unit(paid="sum(paid)")
        with pytest.raises(ParameterError, match="one name for all tables of a set; got 'a' and 'b'"):
            one.join(other)


def test_the_ledger_says_what_was_joined(folder):
    ledger = Ledger.create(folder / "set.ledger", epsilon=10, relation="add_remove", unit="person")
    release(make_release_plan(parse_release_job(job_of(folder, ledger={"path": str(ledger.path)}))))
    (entry,) = ledger.entries()
    assert entry.what == f"release of 2 queries on {folder}/visits.parquet, joined with {folder}/members.parquet"


def test_names_of_columns_are_no_files(folder, monkeypatch):
    """A column may end in _file; what lies beside the job under the name of its aggregate decides nothing."""
    monkeypatch.chdir(folder)
    job = parse_release_job(job_of(folder, {"per_unit": RIGHT | {"any_file": "count(*)"}}))
    before = run_ids(job)
    (folder / "count(*)").write_text("stray", encoding="utf-8")
    assert run_ids(job) == before
    make_release_plan(job)


def test_the_id_of_a_run_does_not_depend_on_how_a_path_is_written(folder, monkeypatch):
    monkeypatch.chdir(folder)
    named = {"input": {"path": "visits.parquet", "dataset": "set"}}
    ids = {
        run_ids(parse_release_job(job_of(folder, {"path": path, "dataset": dataset}, **named)))[0]
        for path in ("members.parquet", "./members.parquet", str(folder / "members.parquet"))
        for dataset in (None, "set")
    }
    assert len(ids) == 1
    assert run_ids(parse_release_job(job_of(folder, {"how": "inner"}, **named)))[0] not in ids


def series_of(folder, step, **join):
    query = {"name": "t", "kind": "running_total", "steps": 3, "step": step, "state": str(folder / "states" / "t.state"), "epsilon": 1e4}
    job = job_of(folder, {"how": "inner", **join})
    job["output"] = {"path": str(folder / f"out-{step}.json")}
    return job | {"query": [query | {"max_steps_per_unit": 3}], "privacy": job["privacy"] | {"max_epsilon": 1e5}}


def test_a_series_with_a_join_claims_in_how_many_steps_a_unit_is(folder):
    job = series_of(folder, 1)
    del job["query"][0]["max_steps_per_unit"]
    with pytest.raises(JobError, match="needs max_steps_per_unit in a job that joins another table"):
        parse_release_job(job)


def test_each_step_of_a_series_may_have_another_file_of_the_joined_table(folder):
    found = []
    for step in (1, 2):
        write_table(members().slice(100 * step), folder / f"members-{step}.parquet")
        job = series_of(folder, step, path=str(folder / f"members-{step}.parquet"))
        found.append(release(make_release_plan(parse_release_job(job)))["queries"][0]["value"])
    assert found[1] > found[0] > 0


def test_a_state_inside_of_a_joined_folder_is_refused_before_it_is_paid(folder):
    (folder / "more").mkdir()
    write_table(members(), folder / "more" / "m.parquet")
    job = series_of(folder, 1, path=str(folder / "more"))
    job["query"][0]["state"] = str(folder / "more" / "t.state")
    with pytest.raises(JobError, match=r"state = .* is inside the input \(join.path"):
        make_release_plan(parse_release_job(job))


@pytest.mark.parametrize(
    ("join", "keys", "said"),
    [
        ({}, {"privacy": {"max_epsilon": 4.0, "unit": "persn", "max_rows_per_unit": 2}}, "no column 'persn'. Did you mean 'person'?"),
        ({"per_unit": RIGHT | {"join": [{"path": "x"}]}}, {}, "tables are joined one after the other"),
        ({"per_unit": RIGHT | {"groups": [1]}}, {}, "by makes several"),
        ({"path": "MIXED"}, {}, "set join[0].format to one of"),
    ],
)  # fmt: skip
def test_other_mistakes_are_told(folder, join, keys, said):
    (folder / "mixed").mkdir()
    for name in ("a.parquet", "b.csv"):
        write_table(members(), folder / "mixed" / name)
    text = json.dumps(job_of(folder, join, **keys)).replace('"MIXED"', json.dumps(str(folder / "mixed")))
    with pytest.raises(JobError) as caught:
        make_release_plan(parse_release_job(json.loads(text)))
    assert said in str(caught.value)


def test_a_setting_may_name_a_table_that_is_joined_to_made_rows(folder):
    made = {"n": "count(*)", "join": job_of(folder)["join"]}
    job = job_of(folder) | {"per_unit": made}
    del job["join"], job["privacy"]["max_rows_per_unit"]
    (folder / "job.toml").write_text(job_text(job), encoding="utf-8")
    set_to = load_release_job(folder / "job.toml", settings=Settings.read(["per_unit.join[0].how=inner"]))
    assert set_to.joined[0].how == "inner"
    for wrong, said in {
        "per_unit.join[1].how": "the job has 1 of these",
        "per_unit.join.how": "one of several",
        "per_unit.x[0].y": "has 0",
    }.items():
        with pytest.raises(JobError, match=said):
            load_release_job(folder / "job.toml", settings=Settings.read([f"{wrong}=inner"]))
