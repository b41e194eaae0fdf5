"""`bounds = "private"` as jobs: bounds that hold the rows, answers between them, and none where rows are too few."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from dpcore.jobs.release_job import load_release_job
from dpcore.query.run import run
from dpcore.query.written_plans import make_release_plan
from support.jobs import FORMATS, write_table
from support.laws import ERROR_RATE
from support.releases import Counter
from support.totals import total_of

ROWS = 4000
FOUND = {
    "total": {"kind": "sum"},
    "average": {"kind": "mean"},
    "variance": {"kind": "var"},
    "deviation": {"kind": "std", "ddof": 0},
    "middle": {"kind": "median"},
    "tails": {"kind": "quantile", "q": [0.1, 0.9]},
}
FOUND = {name: {**query, "column": "x", "missing": 0, "bounds": "private", "bounds_epsilon": 2.0} for name, query in FOUND.items()}


@pytest.fixture
def place(tmp_path, capsys):
    place = Counter(tmp_path, capsys)
    write_table(table(), place.source)
    return place


def table(rows=ROWS):
    """Numbers of either sign, most of them in a few powers of two, a few far away, and holes."""
    index = np.arange(rows)
    x = (index * 7919 % 1000) / 10.0 - 20
    x[:3] = [1e9, -1e30, math.inf][:rows]
    holes = [None if i % 10 == 9 else value for i, value in enumerate(x.tolist())]
    return pa.table({"x": pa.array(holes, pa.float64()), "person": index // 2, "region": pa.array(["a", "b"] * (rows // 2))})


def check(answers, values):
    for name, answer in answers.items():
        lower, upper = answer["lower"], answer["upper"]
        assert (lower, upper) == (-32.0, 128.0), name
        assert answer["bounds"]["epsilon"] == 2.0
        x = np.clip(values, lower, upper)
        if answer["kind"] in {"median", "quantile"}:
            wanted = np.atleast_1d(np.quantile(x, answer["q"]))
            assert np.allclose(np.atleast_1d(answer["value"]), wanted, atol=4)
            continue
        exact = {"total": x.sum(), "average": x.mean(), "variance": x.var(ddof=1), "deviation": x.std()}[name]
        low, high = answer["interval"]
        assert low <= exact <= high, name


@pytest.mark.some(2)
@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("privacy", [{}, {"relation": "add_remove"}, {"unit": "person", "max_rows_per_unit": 2}], ids=str)
def test_answers_lie_between_bounds_that_hold_the_rows(place, source, privacy):
    place.source = write_table(table(), place.folder / f"in.{source}", row_group_rows=777)
    place.write_release(FOUND, privacy=privacy, epsilon=4.0)
    check(place.answered(), [0.0 if value is None else value for value in table()["x"].to_pylist()])


def test_rows_without_a_value_can_be_skipped(place):
    place.write_release({name: query | {"missing": "skip"} for name, query in FOUND.items()}, epsilon=4.0)
    answers = place.answered()
    check(answers, [value for value in table()["x"].to_pylist() if value is not None])
    assert abs(answers["average"]["count"] - 0.9 * ROWS) < 50


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_what_is_spent_and_drawn_is_said(place, delta):
    noisy = {name: query | {"delta": delta} for name, query in FOUND.items() if query["kind"] not in {"median", "quantile"}}
    place.write_release(noisy, epsilon=3.0)
    for answer in place.answered().values():
        bins, *rest = answer["noise"]
        assert (bins["law"], bins["sensitivity"], bins["scale"]) == ("discrete_laplace", 2, 1.0)
        assert rest[0]["law"] == ("gaussian" if delta else "laplace")
        assert answer["privacy"]["epsilon"] == 3.0
    plan = json.loads(place.release("--dry-run", "--json", "--overwrite").out)
    for query in plan["queries"]:
        assert (query["lower"], query["upper"], query["stderr"]) == (None, None, None)
        assert query["bounds"]["threshold"] == 19


@pytest.mark.long
def test_the_terminal_and_the_page_say_how_bounds_are_found(place):
    place.write_release(FOUND, epsilon=4.0)
    text = place.release("--dry-run", "--table").out
    assert "bounds  average: found from powers of two with more than 19 rows after noise of scale 1, for 2.0 of ε" in text
    assert "spread  variance: two releases" in text
    done = place.release("--table", "--report", place.folder / "report")
    assert done.code == 0, done.said
    page = next((place.folder / "report").glob("*.html")).read_text(encoding="utf-8").replace("\xa0", " ")
    assert "Values below −32 count as −32, values above 128 as 128; these bounds were found privately, with ε = 2, " in page
    assert "as the ends of the powers of two that hold more than 19 noisy rows" in page


@pytest.mark.long
def test_few_rows_have_no_bounds_and_no_answer_and_the_job_ends_well(place):
    for rows in (0, 2, 10):
        write_table(table(rows), place.source)
        place.write_release(FOUND, epsilon=4.0)
        document = place.answers()
        for answer in document["queries"]:
            assert (answer["value"], answer["lower"], answer["upper"]) == (None, None, None)
            assert "no power of two has enough rows" in answer["note"]
            assert len(answer["noise"]) == 1
    done = place.release("--overwrite", "--table", "--report", place.folder / "report")
    assert done.code == 0, done.said
    assert "no power of two has enough rows" in done.out
    page = next((place.folder / "report").glob("*.html")).read_text(encoding="utf-8").replace("\xa0", " ")
    assert "no bounds were found: no power of two holds more than 19 noisy rows" in page.replace("No bounds", "no bounds")


def test_zeros_alone_have_narrow_bounds(place):
    write_table(pa.table({"x": np.zeros(1000)}), place.source)
    place.write_release(FOUND, epsilon=100.0)
    for answer in place.answered().values():
        assert (answer["lower"], answer["upper"]) == (0.0, 2.0**-32)
        assert np.all(np.abs(np.atleast_1d(answer["value"])) < 1e-6)


@pytest.mark.long
def test_the_answer_does_not_depend_on_how_rows_are_cut(place):
    place.write_release(FOUND, epsilon=4.0)
    plan = make_release_plan(load_release_job(place.job), overwrite=True)
    documents = [run(plan, threads=threads, piece_rows=rows) for threads, rows in ((1, None), (3, 100), (2, 17), (4, 2999))]
    assert documents[1:] == documents[:-1]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"lower": 0}, ['bounds = "private" finds them; leave lower out']),
        ({"lower": 0, "upper": 1}, ["leave lower and upper out"]),
        ({"bounds_epsilon": 1.0}, ["bounds_epsilon must be less than epsilon = 1.0", "got 1.0"]),
        ({"bounds_epsilon": 0}, ["bounds_epsilon must be positive"]),
        ({"bounds_epsilon": None}, ["belong together; only bounds was given"]),
        ({"bounds": None}, ["query[0].lower is required"]),
        ({"bounds": "found"}, ["query[0].bounds = 'found'", "'private'"]),
        ({"missing": 1e30}, ["missing must be in [lower, upper]"]),
    ],
)
def test_what_is_refused(place, changed, words):
    query = {key: value for key, value in (FOUND["average"] | {"bounds_epsilon": 0.5} | changed).items() if value is not None}
    place.write_release({"m": query})
    done = place.release()
    assert done.code == 2, done.said
    for each in words:
        assert each in done.err, done.err


def test_a_grid_is_not_declared_where_bounds_are_found(place):
    place.write_release({"m": FOUND["middle"] | {"grid": [0, 1]}}, epsilon=4.0)
    assert "leave grid out" in place.release().err


@pytest.mark.some(2)
@pytest.mark.parametrize("draws", [400, pytest.param(20_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ["total", "average", "variance"])
@pytest.mark.parametrize("privacy", [{}, {"relation": "add_remove"}], ids=str)
def test_intervals_cover_the_numbers_between_the_released_bounds(place, name, privacy, draws):
    from scipy import stats

    place.write_release({name: FOUND[name] | {"confidence": 0.9, "bounds_epsilon": 0.5}}, privacy=privacy)
    (answer,) = make_release_plan(load_release_job(place.job)).estimators
    x = np.array([0.0 if value is None else value for value in table()["x"].to_pylist()])
    bins = total_of(answer.measure_of_bins, [x])
    hits = 0
    for _ in range(draws):
        known = replace(answer, found=answer.ends(bins, None))
        released = known.release(total_of(known.measure, [x]), None)
        y = np.clip(x, released["lower"], released["upper"])
        exact = {"total": y.sum(), "average": y.mean(), "variance": y.var(ddof=1)}[name]
        low, high = released["interval"]
        hits += bool(low <= exact <= high)
    assert stats.beta.ppf(1 - ERROR_RATE, hits + 1, max(draws - hits, 1)) >= 0.9
