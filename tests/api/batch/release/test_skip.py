"""`missing = "skip"`: statistics of the rows that have a value, as AVG in SQL, whose number is private."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dpcore.jobs.release_job import load_release_job
from dpcore.query.run import run
from dpcore.query.written_plans import make_release_plan
from support.jobs import FORMATS, write_table
from support.parts import exact_sums
from support.releases import SURE, Counter
from support.totals import total_of

ROWS = 3000
SKIPPED = {
    "sum": {"kind": "sum", "column": "gust", "lower": 5.0, "upper": 90.0},
    "mean": {"kind": "mean", "column": "gust", "lower": 5.0, "upper": 90.0},
    "whole": {"kind": "mean", "column": "whole", "lower": 0, "upper": 90},
    "variance": {"kind": "var", "column": "gust", "lower": 5.0, "upper": 90.0},
    "together": {"kind": "covariance", "columns": ["gust", "whole"], "lower": [5.0, 0], "upper": [90.0, 90]},
    "median": {"kind": "median", "column": "gust", "grid": {"start": 0, "stop": 100, "step": 1}},
    "bins": {"kind": "histogram", "column": "gust", "edges": [0, 30, 60, 90]},
    "words": {"kind": "histogram", "column": "word", "categories": ["east", "west"], "unknown": "skip"},
}
SKIPPED = {name: query | {"missing": "skip"} for name, query in SKIPPED.items()}


@pytest.fixture
def place(tmp_path, capsys):
    place = Counter(tmp_path, capsys)
    write_table(table(), place.source)
    return place


def table(rows=ROWS):
    """Most gusts are null or NaN, other columns have holes elsewhere."""
    index = np.arange(rows)
    gust = (index * 7919 % 1000 / 10.0).tolist()
    gust = [None if i % 3 else float("nan") if i % 12 == 9 else value for i, value in enumerate(gust)]
    whole = [None if i % 5 == 0 else int(i * i % 97) for i in range(rows)]
    word = [None if i % 7 == 0 else ["east", "west", "abroad"][i // 3 % 3] for i in range(rows)]
    return pa.table(
        {
            "person": index // 2,
            "gust": pa.array(gust, pa.float64()),
            "whole": pa.array(whole, pa.int64()),
            "word": pa.array(word, pa.string()),
            "all null": pa.nulls(rows, pa.float64()),
        }
    )


def there(values):
    return [value for value in values if value is not None and value == value]


def truths(rows):
    """Without the engine."""
    gust, whole = rows["gust"].to_pylist(), rows["whole"].to_pylist()
    pairs = [pair for pair in zip(gust, whole, strict=True) if len(there(pair)) == 2]
    x = np.clip(there(gust), 5, 90)
    both = np.array(pairs)
    words = there(rows["word"].to_pylist())
    return {
        "sum": x.sum(),
        "mean": x.mean(),
        "whole": np.clip(there(whole), 0, 90).mean(),
        "variance": x.var(ddof=1),
        "together": np.cov(np.clip(both[:, 0], 5, 90), np.clip(both[:, 1], 0, 90))[0, 1],
        "median": np.median(np.ceil(there(gust))),
        "bins": np.histogram(np.clip(there(gust), 0, 89), [0, 30, 60, 90])[0],
        "words": np.array([words.count("east"), words.count("west")]),
    }


def check(answers, exact):
    for name, answer in answers.items():
        assert answer["missing"] == "skip"
        if name == "median":
            assert abs(answer["value"] - exact[name]) <= 4
            continue
        interval = np.atleast_2d(answer["interval"])
        assert (interval[:, 0] <= exact[name]).all(), name
        assert (exact[name] <= interval[:, 1]).all(), name


@pytest.mark.some(2)
@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("privacy", [{}, {"relation": "add_remove"}, {"unit": "person", "max_rows_per_unit": 2}], ids=str)
def test_rows_without_a_value_count_nowhere(place, source, privacy):
    place.source = write_table(table(), place.folder / f"in.{source}", row_group_rows=777)
    place.write_release(SKIPPED, privacy=privacy, epsilon=5.0)
    answers = place.answered()
    check(answers, truths(table()))
    assert abs(answers["mean"]["count"] - len(there(table()["gust"].to_pylist()))) < 100


def test_how_many_have_a_value_is_private_and_paid_for(place):
    place.write_release(SKIPPED | {"filled": SKIPPED["mean"] | {"missing": 20.0}})
    document = place.answers()
    answers = {query["name"]: query for query in document["queries"]}
    assert document["rows"] == ROWS
    assert (len(answers["mean"]["noise"]), len(answers["filled"]["noise"])) == (2, 1)
    assert answers["mean"]["coverage"] == "at least"
    # A row with 90 may turn into one without a value; of rows that all have one the sum moves by 85.
    assert [noise["sensitivity"] for noise in answers["sum"]["noise"]] == [90.0]
    assert [noise["sensitivity"] for noise in answers["mean"]["noise"]] == [85.0, 1]
    assert len(answers["variance"]["noise"]) == 3


def test_for_each_group(place):
    names = ("sum", "mean", "variance", "together", "median")
    grouped = {name: SKIPPED[name] | {"group_by": "word", "groups": ["east", "west", "nowhere"]} for name in names}
    place.write_release(grouped, epsilon=30.0)
    answers = place.answered()
    words = table()["word"].to_pylist()
    for position, group in enumerate(["east", "west"]):
        part = table().filter(pa.array([word == group for word in words]))
        one = {name: answer | {key: answer[key][position] for key in ("value", "interval")} for name, answer in answers.items()}
        check(one, truths(part))


@pytest.mark.long
@pytest.mark.parametrize("source", FORMATS)
def test_rows_with_a_value_are_counted_in_columns_of_any_type(place, source):
    rows = table(2000).set_column(4, "all null", pa.array([None, "a"] * 1000).dictionary_encode())
    place.source = write_table(rows, place.folder / f"in.{source}", row_group_rows=777)
    columns = ["gust", "whole", "word", "all null"]
    counted = {name: {"kind": "count", "column": name, "missing": "skip"} for name in columns}
    place.write_release(counted | {"east": counted["gust"] | {"group_by": "word", "groups": ["east"]}})
    answers = place.answered()
    for name in columns:
        low, high = answers[name]["interval"]
        assert low <= len(there(rows[name].to_pylist())) <= high, name
        assert answers[name]["noise"][0]["sensitivity"] == 1
    pairs = zip(rows["word"].to_pylist(), rows["gust"].to_pylist(), strict=True)
    low, high = answers["east"]["interval"][0]
    assert low <= len(there([gust for word, gust in pairs if word == "east"])) <= high
    page = place.release("--overwrite", "--report", place.folder / "report")
    assert page.code == 0, page.said
    assert "How many rows have a value of gust." in next((place.folder / "report").glob("*.html")).read_text(encoding="utf-8")


def test_a_column_of_nulls_has_an_answer(place):
    nothing = {name: SKIPPED[name] | {"column": "all null"} for name in ("sum", "mean", "variance", "median", "bins")}
    place.write_release(nothing, epsilon=5.0)
    answers = place.answered()
    low, high = answers["sum"]["interval"]
    assert low <= 0 <= high
    assert 5 <= answers["mean"]["value"] <= 90


@pytest.mark.long
def test_the_answer_does_not_depend_on_how_rows_are_cut(place):
    place.write_release(SKIPPED)
    plan = make_release_plan(load_release_job(place.job), overwrite=True)
    documents = [run(plan, threads=threads, piece_rows=rows) for threads, rows in ((1, None), (3, 100), (2, 17), (4, 2999))]
    assert documents[1:] == documents[:-1]


def test_a_category_called_skip_is_a_category(place):
    write_table(pa.table({"word": ["skip", None, "go", "stop"]}), place.source)
    query = {"kind": "histogram", "column": "word", "missing": "skip", "unknown": "go"}
    place.write_release({"its own": query | {"categories": ["skip", "go"]}, "left out": query | {"categories": ["no", "go"]}}, epsilon=1e6)
    answers = place.answered()
    assert answers["its own"]["value"] == [2, 2]
    assert answers["left out"]["value"] == [0, 3]


@pytest.mark.long
def test_a_ledger_takes_skip_as_declared_and_the_page_says_it(place):
    ledger = place.folder / "a.ledger"
    assert place.dpcore("ledger", "create", ledger, "--epsilon", "99").code == 0
    place.write_release(SKIPPED, ledger=ledger)
    done = place.release("--report", place.folder / "report")
    assert done.code == 0, done.said
    text = next((place.folder / "report").glob("*.html")).read_text(encoding="utf-8")
    assert "values above 90 as 90; rows with missing values are left out." in text
    assert "Rows in which one of them is missing are left out." in text
    assert "Rows with missing values are left out; rows with unknown values are left out." in text


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"kind": "mean", "column": "gust", "lower": 0, "upper": 1, "missing": "drop"}, ['must be a number, or "skip"', "'drop'"]),
        ({"kind": "count", "missing": "skip"}, ['missing = "skip" counts the rows whose column has a value: it needs column']),
        ({"kind": "count", "column": "gust", "lower": 0, "upper": 1, "missing": "skip"}, ["without categories and bounds"]),
        ({"kind": "histogram", "column": "gust", "edges": [0, 1], "missing": "drop"}, ["missing must be a number", '"skip"']),
        ({"kind": "covariance", "columns": ["gust", "whole"], "lower": [0, 0], "upper": [1, 1], "missing": "drop"}, ["list of two"]),
        (
            {"kind": "synthetic", "output": "made.parquet", "columns": [{"name": "gust", "edges": [0, 1], "missing": "skip"}]},
            ["not for synthetic tables"],
        ),
    ],
)
def test_what_is_refused(place, query, words):
    place.write_release({"m": query})
    done = place.release()
    assert done.code == 2, done.said
    for each in words:
        assert each in done.err, done.err


def test_sums_of_rows_that_may_lose_their_value_move_by_no_more_than_the_noise_hides(place):
    """All changes of one row, over bounds on both sides of 0 and beside it; U − L, the broken twin, is exceeded beside 0."""
    values = [None, float("nan"), -9.0, 4.0, 7.0, 99.0]
    for lower, upper in ((-3.0, 5.0), (4.0, 7.0), (-7.0, -4.0)):
        place.write_release({"s": {"kind": "sum", "column": "x", "lower": lower, "upper": upper, "missing": "skip"}})
        write_table(pa.table({"x": [1.0]}), place.source)
        (answer,) = make_release_plan(load_release_job(place.job), overwrite=True).estimators
        read = [[cells.read(pa.array([value], pa.float64())) for _, cells in answer.reads] for value in values]
        sums = [each[0] for each in (exact_sums(total_of(answer.measure, columns)) for columns in read)]
        worst = max(abs(one - other) for one, other in itertools.combinations(sums, 2))
        assert worst == Fraction(answer.noise[0].sensitivity)
        assert (worst > Fraction(upper) - Fraction(lower)) == (not lower < 0 < upper)


def test_intervals_of_means_cover(place):
    assert SURE > 0.99
    place.write_release({"m": SKIPPED["mean"] | {"confidence": 0.9}}, epsilon=0.5)
    plan = make_release_plan(load_release_job(place.job))
    (answer,) = plan.estimators
    gust = table().combine_chunks().column("gust").chunk(0)
    tally = total_of(answer.measure, [cells.read(gust) for _, cells in answer.reads])
    exact = truths(table())["mean"]
    hits = sum(low <= exact <= high for low, high in (answer.release(tally, None)["interval"] for _ in range(2000)))
    assert hits > 1750
