"""`dpcore rehearse`, and the made-up tables of `dpcore init`: refusals, sweeps, the page, and what is left untouched."""

from __future__ import annotations

import json
import os
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.accounting import Ledger
from support.html_pages import Page
from support.jobs import Workplace, damage, write_table

JOB = """
version = 1
[input]
path = "private/*.parquet"
dataset = "claims-2026"
[output]
path = "answers.json"
[ledger]
path = "budget.ledger"
[privacy]
max_epsilon = 2.0
unit = "person"
max_rows_per_unit = 2
relation = "add_remove"
[[query]]
name = "visits"
kind = "count"
epsilon = 0.5
group_by = "ward"
groups = ["a", "b"]
[[query]]
name = "mean cost"
kind = "mean"
column = "cost"
lower = 0
upper = 100
missing = "skip"
epsilon = 1.0
"""
NUMBER = {"groups", "part", "truth", "without_noise", "bias", "noise", "rmse", "coverage", "answered"}
QUERY = {"name", "kind", "column", "epsilon", "confidence", "rows", "rmse", "why", "numbers", "labels"}
REPORT = {"format", "rehearsal", "secure", "runs", "on", "joined", "unit", "relation", "sweep", "settings"}


def people(seed):
    rng = np.random.default_rng(seed)
    cost = np.round(rng.gamma(2, 40, 400), 2)
    return pa.table({"person": np.arange(400) // 4, "ward": rng.choice(list("abc"), 400), "cost": cost})


@pytest.fixture
def place(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "private").mkdir()
    write_table(people(1), tmp_path / "private" / "in.parquet")
    write_table(people(2), tmp_path / "public.parquet")
    (tmp_path / "job.toml").write_text(JOB, encoding="utf-8")
    return Workplace(tmp_path, capsys)


def rehearse(place, *options):
    return place.dpcore("rehearse", "job.toml", "--on", "public.parquet", "--public", "--runs", "3", *options)


def everything(folder):
    """Each file with its content and when it was written."""
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(folder.rglob("*")) if path.is_file()}


def test_nothing_of_the_job_is_touched(place):
    Ledger.create(place.folder / "budget.ledger", epsilon=3.0, relation="add_remove", unit="person", dataset="claims-2026")
    before = everything(place.folder)
    done = rehearse(place, "--json")
    assert done.code == 0, done.said
    assert everything(place.folder) == before
    (place.folder / "private").rename("elsewhere")  # nor is the input needed
    (place.folder / "budget.ledger").unlink()
    assert json.loads(rehearse(place, "--json").out) == json.loads(done.out)


def test_the_report_has_these_keys(place):
    report = json.loads(rehearse(place, "--json").out)
    assert report.keys() == REPORT
    assert (report["format"], report["rehearsal"], report["secure"], report["runs"]) == (1, True, False, 3)
    (setting,) = report["settings"]
    assert setting.keys() == {"value", "queries"}
    for query in setting["queries"]:
        assert query.keys() == QUERY
        assert query["rows"].keys() == {"table", "condition", "bounding", "groups", "missing", "used"}
        assert all(number.keys() == NUMBER for number in query["numbers"])
    visits, cost = setting["queries"]
    assert [number["groups"] for number in visits["numbers"]] == [["a"], ["b"]]
    assert cost["rows"]["bounding"] == 200


def test_a_terminal_shows_numbers_rows_and_a_warning(place):
    done = rehearse(place, "--table")
    assert done.code == 0, done.said
    assert "rehearsing" in done.err
    for words in (
        "total error",
        "coverage",
        "NOT PRIVATE (secure = false)",
        "200 of 400 rows count (50 %)",
        "50 % are lost by what a unit may add",
    ):
        assert words in done.out, words
    assert "visits: the intervals of 2 numbers hold the truth less often than 95 %" in done.out


def test_a_sweep_compares_settings(place):
    report = json.loads(rehearse(place, "--json", "--sweep", "upper=20,150,1e9").out)
    assert report["sweep"] == {"key": "upper", "query": "mean cost", "best": {"mean cost": "150"}}
    assert [setting["value"] for setting in report["settings"]] == ["20", "150", "1e9"]
    low, middle, high = (setting["queries"][1]["numbers"][0] for setting in report["settings"])
    assert low["bias"] < -40 < middle["bias"]
    assert low["noise"] < middle["noise"] < high["noise"]
    assert low["truth"] == middle["truth"] == high["truth"]
    done = rehearse(place, "--table", "--sweep", "mean cost.upper=20,150")
    assert re.search(r"mean cost +150 .* best", done.out)
    assert "visits" not in done.out, "the sweep does not change it"
    rows = json.loads(rehearse(place, "--json", "--sweep", "max_rows_per_unit=1,4").out)
    assert rows["sweep"]["query"] is None
    assert [setting["queries"][0]["rows"]["bounding"] for setting in rows["settings"]] == [300, 0]
    assert rows["sweep"]["best"]["visits"] == "4"
    groups = rehearse(place, "--json", "--sweep", 'visits.groups=["a"],["a", "b", "c"]')
    assert [len(setting["queries"][0]["numbers"]) for setting in json.loads(groups.out)["settings"]] == [1, 3]


def test_the_page(place):
    done = rehearse(place, "--report", "out", "--sweep", "upper=20,150", "--json")
    assert done.code == 0, done.said
    page = (place.folder / "out" / "job-rehearsal.html").read_text(encoding="utf-8")
    assert "<svg" in page
    shown = " ".join(Page(page).shown.split())
    for words in (
        "NOT PRIVATE (secure = false)",
        "Settings side by side",
        "upper = 150 (best)",
        "Intervals of 1 number",
    ):
        assert words in shown, words
    assert json.loads((place.folder / "out" / "job-rehearsal.json").read_text(encoding="utf-8")) == json.loads(done.out)
    assert rehearse(place, "--report", "out", "--json").code == 0
    page = (place.folder / "out" / "job-rehearsal.html").read_text(encoding="utf-8")
    assert "Settings side by side" not in Page(page).shown


def linked(place):
    os.link("private/in.parquet", "hard.parquet")
    (place.folder / "soft.parquet").symlink_to("private/in.parquet")
    (place.folder / "folder").symlink_to("private")
    write_table(people(3), place.folder / "claims-2026.parquet")
    (place.folder / "both").mkdir()
    write_table(people(3), place.folder / "both" / "a.parquet")
    os.link("private/in.parquet", "both/b.parquet")


OWN = "is the same file as input.path"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--on", "public.parquet"], ["--public is required", "without any privacy", "cannot check that", "dpcore init JOB --table"]),
        (["--public"], ["--on is required", "input.path = 'private/*.parquet'", "dpcore init JOB --table"]),
        (["--public", "--on", "private/*.parquet"], ["--on = 'private/*.parquet' is what the job itself reads"]),
        (["--public", "--on", "private/in.parquet"], [OWN, "private/in.parquet", "The job protects it"]),
        (["--public", "--on", "private"], [OWN]),
        (["--public", "--on", "hard.parquet"], [OWN, "hard.parquet"]),
        (["--public", "--on", "soft.parquet"], [OWN]),
        (["--public", "--on", "folder"], [OWN]),
        (["--public", "--on", "folder/i*.parquet"], [OWN]),
        (["--public", "--on", "both"], [OWN, "both/b.parquet"]),
        (["--public", "--on", "claims-2026.parquet"], ["the name of the data set that the job protects, input.dataset = 'claims-2026'"]),
        (["--public", "--on", "public.parquet", "--on", "other.parquet"], ["'public.parquet' was given already", "this job joins none"]),
        (["--public", "--on", "public.parquet", "--set", "input.path=x.parquet"], ["--set input.path=x.parquet", "leave it out"]),
        (["--public", "--on", "gone.parquet"], ["gone.parquet"]),
        (["--public", "--on", "public.parquet", "--sweep", "epsilon=1,2"], ["2 queries have this", "visits.epsilon, mean cost.epsilon"]),
        (["--public", "--on", "public.parquet", "--sweep", "uper=1,2"], ["no query of the job has this key", "Did you mean 'upper'?"]),
        (["--public", "--on", "public.parquet", "--sweep", "viists.upper=1,2"], ["no query is named 'viists'", "Did you mean 'visits'?"]),
        (["--public", "--on", "public.parquet", "--sweep", "upper=1"], ["from 2 to 20 different values, got '1'"]),
        (["--public", "--on", "public.parquet", "--sweep", "upper"], ["must be KEY=VALUE,VALUE"]),
        (["--public", "--on", "public.parquet", "--sweep", "upper=200,-5"], ["with -5 in --sweep", "upper"]),
        (["--public", "--on", "public.parquet", "--sweep", "mean cost.epsilon=1,9"], ["with 9 in --sweep", "--set privacy.max_epsilon="]),
    ],
)  # fmt: skip
def test_what_is_refused(place, options, words):
    linked(place)
    before = everything(place.folder)
    done = place.dpcore("rehearse", "job.toml", *options)
    assert done.code == (4 if "gone.parquet" in options else 2), done.said
    for word in words:
        assert word in done.err, (word, done.err)
    assert (done.out, "Traceback" in done.err) == ("", False)
    assert everything(place.folder) == before


def test_all_values_of_a_sweep_are_planned_before_a_row_is_read(place):
    done = rehearse(place, "--sweep", "mean cost.column=cost,price")
    assert (done.code, "price" in done.err, "rehearsing" in done.err) == (2, True, False), done.said


def test_what_a_release_refuses_a_rehearsal_refuses_too(place):
    """With a ledger all that a cell may need is declared, and columns must be there."""
    for old, new, word in [('missing = "skip"', "", "missing"), ('column = "cost"', 'column = "price"', "price")]:
        (place.folder / "job.toml").write_text(JOB.replace(old, new), encoding="utf-8")
        done = rehearse(place)
        assert (done.code, word in done.err) == (2, True), done.said
    (place.folder / "job.toml").write_text(
        JOB.replace('missing = "skip"', "").replace('[ledger]\npath = "budget.ledger"', ""), encoding="utf-8"
    )
    rows = people(2)
    write_table(rows.set_column(2, "cost", pa.array([None, *rows["cost"].to_pylist()[1:]])), place.folder / "public.parquet")
    done = rehearse(place)
    assert (done.code, "cost" in done.err) == (3, True), done.said


JOINED = """
[[join]]
path = "private/people.parquet"
[join.per_unit]
age = "max(age)"
"""


def test_joined_tables_have_public_ones_in_their_place(place):
    ages = pa.table({"person": np.arange(100), "age": np.arange(100) % 80})
    write_table(ages, place.folder / "private" / "people.parquet")
    write_table(ages.slice(50), place.folder / "ages.parquet")
    text = JOB.replace("private/*.parquet", "private/in.parquet").replace("[[query]]", JOINED + "[[query]]", 1)
    (place.folder / "job.toml").write_text(text, encoding="utf-8")
    for options, words in [
        ([], "--on private/people.parquet=PUBLIC.parquet is required"),
        (["--on", "private/people.parquet=private/people.parquet"], "is what the job itself reads"),
        (["--on", "private/people.parquet=private/../private/in.parquet"], "is the same file as input.path"),
        (["--on", "private/people.parquet=ages.parquet", "--on", "private/people.parquet=ages.parquet"], "was given already"),
        (["--on", "ages.parquet"], "give JOINPATH=PATH with one of 'private/people.parquet'"),
    ]:
        done = rehearse(place, *options)
        assert (done.code, words in done.err) == (2, True), done.said
    done = place.dpcore("rehearse", "job.toml", "--on", "private/people.parquet", "--public", "--on", "private/people.parquet=ages.parquet")
    assert (done.code, "is what the job itself reads" in done.err) == (2, True), done.said
    done = rehearse(place, "--on", "private/people.parquet=ages.parquet", "--json")
    assert done.code == 0, done.said
    assert json.loads(done.out)["joined"] == {"private/people.parquet": "ages.parquet"}
    made = place.dpcore("init", "job.toml", "--join", "private/people.parquet", "--table", "made.parquet", "--rows", "80")
    assert (made.code, "--on private/people.parquet=made.parquet" in made.err) == (0, True), made.said
    assert pq.read_table("made.parquet")["person"].to_pylist() == list(range(80))
    assert rehearse(place, "--on", "private/people.parquet=made.parquet").code == 0
    made = place.dpcore("init", "job.toml", "--join", "other.parquet", "--table", "x.parquet")
    assert (made.code, "the job joins 'private/people.parquet'" in made.err) == (2, True), made.said


def test_the_help_says_what_public_means(place):
    done = place.dpcore("rehearse", "--help")
    assert done.code == 0
    for words in ("--public is your word that anyone may see the table", "--sweep", "bias", "coverage", "Exit codes", "secure: false"):
        assert words in " ".join(done.out.split()), words


# Made-up tables


def test_a_made_up_table_holds_what_is_declared(place):
    """And reads no row: the cells of the input are damaged, and its schema is not."""
    path = place.folder / "private" / "in.parquet"
    schema = pq.read_schema(path)
    for name in schema.names:
        damage(path, 0, name)
    with pytest.raises(OSError, match=r".+"):
        pq.read_table(path)
    done = place.dpcore("init", "job.toml", "--table", "made.parquet", "--rows", "1001", "--rows-per-unit", "5")
    assert done.code == 0, done.said
    assert "dpcore rehearse job.toml --on made.parquet --public" in done.err
    made = pq.read_table("made.parquet")
    assert made.schema.names == schema.names
    assert made.schema.types == schema.types
    assert (made.num_rows, len(set(made["person"].to_pylist()))) == (1001, 201)
    cost = made["cost"].to_numpy()
    assert (cost.min() >= 0, cost.max() <= 100, cost.std() > 20) == (True, True, True)
    assert set(made["ward"].to_pylist()) == {"a", "b"}
    report = place.dpcore("rehearse", "job.toml", "--on", "made.parquet", "--public", "--runs", "3", "--json")
    assert report.code == 0, report.said
    assert json.loads(report.out)["settings"][0]["queries"][1]["numbers"][0]["bias"] == pytest.approx(0, abs=5)
    again = place.dpcore("init", "job.toml", "--table", "made.parquet")
    assert (again.code, "exists; name another file" in again.err) == (2, True)


EVERY = """
version = 1
[input]
path = "nowhere.parquet"
[output]
path = "answers.json"
[privacy]
max_epsilon = 9
[[query]]
name = "days"
kind = "count"
weight = 1
group_by = ["day", "region", "town"]
groups = { day = { by = "month", first = 2024-01-01, last = 2024-03-31 }, region = ["n", "s"], town = { k = 3 } }
[[query]]
name = "took"
kind = "mean"
column = "took"
lower = "PT0S"
upper = "PT2H"
missing = "skip"
weight = 1
[[query]]
name = "bins"
kind = "histogram"
column = "age"
edges = [0, 18, 65]
missing = "skip"
weight = 1
[[query]]
name = "log"
kind = "geometric_mean"
column = "wage"
lower = 10
upper = 1000
missing = "skip"
weight = 1
[[query]]
name = "share"
kind = "rate"
column = "size"
lower = 2
upper = 4
missing = "skip"
weight = 1
[[query]]
name = "middle"
kind = "median"
column = "dose"
grid = [1, 2, 5]
missing = "skip"
weight = 1
"""


def test_a_table_without_a_schema_is_made_of_declarations(place):
    (place.folder / "job.toml").write_text(EVERY, encoding="utf-8")
    assert place.dpcore("init", "job.toml", "--table", "made.parquet").code == 0
    made = pq.read_table("made.parquet")
    assert set(made.schema.names) == {"day", "region", "town", "took", "age", "wage", "size", "dose"}
    assert (made["day"].type, made["took"].type) == (pa.date32(), pa.duration("us"))
    size = made["size"].to_numpy()
    assert 0.2 < np.mean((size >= 2) & (size <= 4)) < 0.5, "some rows fulfil the condition, and some do not"
    done = place.dpcore("rehearse", "job.toml", "--on", "made.parquet", "--public", "--runs", "2", "--json")
    assert done.code == 0, done.said
    took = json.loads(done.out)["settings"][0]["queries"][1]["numbers"][0]
    assert took["truth"] == pytest.approx(np.mean(made["took"].cast(pa.int64()).to_numpy()), rel=1e-6), "in microseconds"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--table", "made.csv"], "must end in .parquet"),
        (["--rows", "5"], "--rows is for --table"),
        (["--table", "made.parquet", "--job", "x.toml"], "--job writes a draft"),
        (["--table", "made.parquet", "--set", "privacy.unit=row"], "max_rows_per_unit"),
    ],
)
def test_made_up_tables_that_are_refused(place, options, words):
    done = place.dpcore("init", "job.toml", *options)
    assert (done.code, words in done.err) == (2, True), done.said
    assert not (place.folder / "made.parquet").exists()


def test_a_made_up_table_for_conditions_needs_a_schema(place):
    text = EVERY.replace("[input]", 'where = "other > 3"\n[input]', 1)
    (place.folder / "job.toml").write_text(text, encoding="utf-8")
    done = place.dpcore("init", "job.toml", "--table", "made.parquet")
    assert (done.code, "has no schema with types" in done.err, "--set input.path=PATH" in done.err) == (2, True, True), done.said
