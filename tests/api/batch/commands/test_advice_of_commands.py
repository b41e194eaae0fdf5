"""Commands say what to do about tables of other programs, cells that end a run, and queries that are too many."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pydantic")

import pyarrow as pa
import pyarrow.parquet as pq

from dpcore.accounting import Ledger
from dpcore.jobs.estimate_sections import TITLES
from support.releases import Counter

HEAD = 'version = 1\n[input]\npath = "{source}"\n[output]\npath = "out/answers.json"\n[privacy]\nmax_epsilon = {limit}\n'
QUERIES = """
[[query]]
name = "m"
kind = "mean"
column = "income"
lower = 0
upper = 1000
epsilon = 1.0
[[query]]
name = "towns"
kind = "histogram"
column = "town"
categories = ["a", "b"]
epsilon = 1.0
"""
ROWS = "person,town,income\n" + "".join(f"{row},{'ab'[row % 2]},{row}\n" for row in range(40))


@pytest.fixture
def place(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dpcore._terminal.on_terminal", lambda: True)
    (tmp_path / "v.csv").write_text(ROWS, encoding="utf-8")
    return Counter(tmp_path, capsys)


def written(place, text=QUERIES, source="v.csv", limit=2.0):
    place.job.write_text(HEAD.format(source=source, limit=limit) + text, encoding="utf-8")


@pytest.mark.parametrize(("separator", "word"), [(";", "';'"), ("\t", "tabs"), ("|", "'|'")])
def test_other_separators_are_named_if_a_column_of_the_job_shows_them(place, separator, word):
    (place.folder / "v.csv").write_text(ROWS.replace(",", separator), encoding="utf-8")
    written(place)
    done = place.release("--dry-run")
    assert done.code == 2
    assert f"this one seems to be separated by {word}: save it with commas. If you may see the data, --curator lists" in done.err
    assert "person" not in done.err
    written(place, QUERIES.replace("income", "wages").replace("town", "place"))
    done = place.release("--dry-run")
    assert (done.code, "separated" in done.err) == (2, False), done.said


def test_a_dry_run_names_cells_that_end_the_run(place):
    written(place)
    done = place.release("--dry-run")
    assert done.code == 0, done.said
    assert 'column income (m), a cell that is missing or does not parse ends the run with exit code 3: add missing = "skip"' in done.out
    assert 'a cell that is no category ends the run with exit code 3: add missing = "skip" and unknown = "skip", or a value' in done.out
    assert "`dpcore plan JOB --assume n=10000` says" in done.out
    (place.folder / "v.csv").write_text(ROWS.replace(",5\n", ",\n"), encoding="utf-8")
    done = place.release("--curator")
    assert (done.code, 'missing = "skip" leaves such rows out' in done.err) == (3, True), done.said
    written(place, QUERIES.replace("epsilon", 'missing = "skip"\nepsilon').replace('"b"]', '"b"]\nunknown = "skip"'))
    assert "ends the run" not in place.release("--dry-run").out


def test_a_column_that_cannot_be_null_needs_nothing(place):
    fields = [pa.field("income", pa.int64(), nullable=False), pa.field("town", pa.string())]
    pq.write_table(pa.table({"income": [1, 2], "town": ["a", "b"]}, pa.schema(fields)), place.folder / "v.parquet")
    written(place, source="v.parquet")
    done = place.release("--dry-run")
    assert ("column income" in done.out, "column town" in done.out) == (False, True), done.said


def test_a_cell_that_is_no_category_names_both_ways(place):
    (place.folder / "v.csv").write_text(ROWS.replace(",a,", ",c,"), encoding="utf-8")
    written(place)
    done = place.release()
    assert done.code == 3
    assert 'unknown = "skip" leaves such rows out of the result; an unknown that is one of the categories stands for' in done.err


def test_a_local_job_names_cells_that_end_the_run(place):
    entry = '[[column]]\nname = "town"\nmechanism = "kary"\nepsilon = 1.0\ncategories = ["a", "b"]\n'
    text = HEAD.format(source="v.csv", limit=1.0).replace("answers.json", "rows.parquet") + entry
    place.job.write_text(text, encoding="utf-8")
    done = place.dpcore("privatize", place.job, "--dry-run")
    assert done.code == 0, done.said
    assert 'ends the run with exit code 3: add missing = "skip" and unknown = one of the possible answers' in done.out
    Ledger.create(place.folder / "ledger.db", epsilon=1.0)
    place.job.write_text(text.replace('"v.csv"', '"v.csv"\ndataset = "v"') + '[ledger]\npath = "ledger.db"\n', encoding="utf-8")
    done = place.dpcore("privatize", place.job, "--dry-run")
    assert 'a cell that is no category: add missing = "skip" and unknown = one of the possible answers' in done.err


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ('mechanism = "binary"\nmissing = "skip"', "words such as yes and no count as missing. If the answers are words, declare them"),
        ('mechanism = "binary"\nmissing = false', "words such as yes and no count as missing"),
        ('mechanism = "laplace"\nlower = 0\nupper = 9\nmissing = 0', "what is no number, such as €12 or 1.234,50, counts as missing"),
        ('mechanism = "binary"\nmissing = "skip"\ncategories = ["no", "yes"]', None),
        ('mechanism = "binary"', None),
    ],
)
def test_a_dry_run_says_what_text_counts_as_missing(place, entry, words):
    """A survey of yes and no was randomised as one in which nobody had answered."""
    head = HEAD.format(source="v.csv", limit=1.0).replace("answers.json", "rows.parquet")
    place.job.write_text(f'{head}[[column]]\nname = "town"\nepsilon = 1.0\n{entry}\n', encoding="utf-8")
    done = place.dpcore("privatize", place.job, "--dry-run")
    assert done.code == 0, done.said
    assert (words is None) == ("as missing" not in done.out)
    assert words is None or words in done.out


def test_plan_shows_a_job_that_spends_too_much(place, monkeypatch):
    written(place, limit=1.0)
    done = place.dpcore("plan", place.job, "--assume", "n=40")
    assert done.code == 0, done.said
    assert "Together the queries exceed the limits of [privacy], and a run would be refused: the job spends epsilon = 2.0" in done.out
    monkeypatch.setattr("dpcore._terminal.on_terminal", lambda: False)
    assert json.loads(place.dpcore("plan", place.job).out)["exceeds"].startswith("the job spends epsilon = 2.0")
    assert place.release("--dry-run").code != 0
    written(place)
    assert json.loads(place.dpcore("plan", place.job).out)["exceeds"] is None
    written(place, QUERIES.replace("epsilon = 1.0\n[[", "weight = 1\n[["), limit=0.5)
    assert place.dpcore("plan", place.job).code != 0


def test_a_delta_that_is_not_allowed_names_its_limit(place):
    written(place, QUERIES.replace("epsilon = 1.0\n[[", "epsilon = 1.0\ndelta = 1e-6\n[["))
    assert "Allow it: max_delta = 1e-06 in [privacy], or more" in place.release("--dry-run").err


def test_text_of_units_is_cast_in_its_expression(place):
    made = '[per_unit]\nincome = "mode(income)"\n'
    query = QUERIES.split("[[query]]")[1].replace("epsilon", 'missing = "skip"\nepsilon')
    query = "[[query]]" + query
    written(place, 'unit = "person"\n' + made + query)
    done = place.release("--dry-run")
    assert (done.code, 'income = "mode(CAST(income AS DOUBLE))"' in done.err) == (2, True), done.said
    written(place, 'unit = "person"\n' + made.replace("(income)", "(CAST(income AS DOUBLE))") + query)
    assert place.release("--dry-run").code == 0


def test_tables_are_no_jobs(place):
    done = place.dpcore("release", place.folder / "v.csv")
    assert (done.code, "a job file is expected here, and `dpcore init` drafts one for a table" in done.err) == (2, True), done.said
    (place.folder / "v.parquet").write_bytes(b"PAR1\xff")
    assert "a job file is expected here" in place.dpcore("release", place.folder / "v.parquet").err


@pytest.mark.parametrize("ending", ["xlsx", "dta", "json"])
def test_tables_of_other_programs_are_saved_first(place, ending):
    (place.folder / f"v.{ending}").write_bytes(b"PK")
    written(place, source=f"v.{ending}")
    done = place.release("--dry-run")
    assert f"dpcore does not read '.{ending}'; save the table as CSV or Parquet" in done.err
    assert "input.format" not in done.err


def test_titles_say_that_answers_may_be_kept():
    assert all("kept, or" in TITLES[mechanism] for mechanism in ("binary", "kary"))
