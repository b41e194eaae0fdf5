"""Rehearsals: each run is a release, and bias, noise and coverage are what NumPy finds beside them."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pyarrow as pa
import pytest

from dpcore.batch import parse_release_job
from dpcore.query.in_memory import answers, make_unwritten_plan
from dpcore.query.rehearsal import Setting, check_rehearsable, public_tables, rehearsed
from dpcore.query.rehearsal_words import cells
from dpcore.tables.progress import Silent
from support.jobs import write_table

ROWS, PEOPLE, RUNS = 1500, 400, 12
ROW = {"max_epsilon": 1e3, "max_delta": 0.1}
UNIT = {**ROW, "unit": "person", "max_rows_per_unit": 3, "relation": "add_remove"}
X = {"column": "x", "lower": 0, "upper": 400}


def table():
    rng = np.random.default_rng(7)
    return pa.table(
        {
            "person": np.sort(rng.integers(0, PEOPLE, ROWS)),
            "x": np.round(rng.gamma(1.5, 200, ROWS), 1) + 0.1,
            "y": rng.integers(0, 50, ROWS),
            "z": pa.array([None if i % 10 == 3 else float(i % 7) for i in range(ROWS)]),
            "place": rng.choice(list("abcd"), ROWS, p=[0.5, 0.3, 0.15, 0.05]),
        }
    )


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_table(table(), tmp_path_factory.mktemp("rehearsals") / "public.parquet")


def job_of(*queries, privacy=ROW, **keys):
    return parse_release_job(
        {
            "version": 1,
            "input": {"path": "private.parquet"},
            "output": {"path": "answers.json"},
            "privacy": privacy,
            "query": [{"name": f"q{place}", "epsilon": 1.0, **query} for place, query in enumerate(queries)],
            **keys,
        }
    )


def rehearse(source, *queries, runs=RUNS, **keys):
    job = job_of(*queries, **keys)
    tables = public_tables(job, [str(source)], are_public=True)
    report = rehearsed([Setting(job)], None, tables, runs=runs, progress=Silent(), threads=1)
    return report["settings"][0]["queries"]


def released(source, run, *queries, **keys):
    """The answers of a release with the key of a run."""
    job = job_of(*queries, **keys, testing={"key_hex": hashlib.sha256(b"dpcore rehearsal, run %d" % run).hexdigest()})
    job = job.model_copy(update={"input": job.input.model_copy(update={"path": str(source)})})
    return answers(make_unwritten_plan(job), threads=1)["queries"]


MEAN_AND_SUM = ({"kind": "mean", **X, "epsilon": 0.3}, {"kind": "sum", **X, "group_by": "place", "groups": ["a", "b"]})


@pytest.mark.parametrize("privacy", [ROW, UNIT], ids=["row", "unit"])
def test_each_run_is_a_release(source, privacy):
    """Noise, total error and coverage, recomputed from releases under the same keys; the truth is NumPy's."""
    runs = 5
    mean, sums = rehearse(source, *MEAN_AND_SUM, runs=runs, privacy=privacy)
    every = [released(source, run, *MEAN_AND_SUM, privacy=privacy) for run in range(runs)]
    x, place = table()["x"].to_numpy(), table()["place"].to_numpy(zero_copy_only=False)
    for number, truth, found in [
        (mean["numbers"][0], x.mean(), [(run[0]["value"], run[0]["interval"]) for run in every]),
        (sums["numbers"][1], x[place == "b"].sum(), [(run[1]["value"][1], run[1]["interval"][1]) for run in every]),
    ]:
        values = np.array([value for value, _ in found])
        assert number["truth"] == pytest.approx(truth, rel=1e-7)
        assert number["noise"] == pytest.approx(values.std(ddof=1), rel=1e-12)
        assert number["rmse"] == pytest.approx(np.sqrt(np.mean((values - truth) ** 2)), rel=1e-6)
        assert number["coverage"] == np.mean([low <= truth <= high for _, (low, high) in found])


def test_bias_is_that_of_clamping(source):
    """Answers of rows: NumPy with and without the bounds."""
    rows = table()
    x, y = rows["x"].to_numpy(), rows["y"].to_numpy()
    cut = np.clip(x, 0, 400)
    near = {"rel": 1e-5}
    queries = {
        "mean": ({"kind": "mean", **X}, x.mean(), cut.mean()),
        "sum": ({"kind": "sum", **X}, x.sum(), cut.sum()),
        "variance": ({"kind": "var", **X}, x.var(ddof=1), cut.var(ddof=1)),
        "geometric mean": (
            {"kind": "geometric_mean", "column": "x", "lower": 50, "upper": 400},
            np.exp(np.log(x).mean()),
            np.exp(np.log(np.clip(x, 50, 400)).mean()),
        ),
        "covariance": (
            {"kind": "covariance", "columns": ["x", "y"], "lower": [0, 0], "upper": [400, 30]},
            np.cov(x, y)[0, 1],
            np.cov(cut, np.clip(y, 0, 30))[0, 1],
        ),
        "between": ({"kind": "count", "column": "y", "lower": 3, "upper": 9}, *[((y >= 3) & (y <= 9)).sum()] * 2),
        "rate": ({"kind": "rate", "column": "y", "lower": 3, "upper": 9}, *[((y >= 3) & (y <= 9)).mean()] * 2),
        "values": ({"kind": "count_distinct", "column": "y"}, *[len(set(y))] * 2),
        "skipped": ({"kind": "mean", "column": "z", "lower": 0, "upper": 3, "missing": "skip"}, 0.0, 0.0),
    }
    z = np.array([each for each in rows["z"].to_pylist() if each is not None])
    queries["skipped"] = (queries["skipped"][0], z.mean(), np.clip(z, 0, 3).mean())
    found = rehearse(source, *(query for query, _, _ in queries.values()), runs=2)
    for name, query in zip(queries, found, strict=True):
        (number,), (_, truth, without_noise) = query["numbers"], queries[name]
        assert number["truth"] == pytest.approx(truth, **near), name
        assert number["without_noise"] == pytest.approx(without_noise, **near), name
        assert number["bias"] == pytest.approx(without_noise - truth, rel=1e-3, abs=1e-4 * abs(truth)), name
    assert found[-1]["rows"]["missing"] == ROWS - len(z)


def test_the_truth_of_a_quantile_is_a_number_of_the_column(source):
    (found,) = rehearse(source, {"kind": "median", "column": "x", "grid": [0, 100, 200, 1000], "epsilon": 20}, runs=3)
    middle = np.sort(table()["x"].to_numpy())[[ROWS // 2 - 1, ROWS // 2]]
    assert found["numbers"][0]["truth"] in middle
    assert found["numbers"][0]["without_noise"] == 1000
    assert found["numbers"][0]["coverage"] is None, "a quantile has no interval"


def test_rows_that_units_may_not_add(source):
    """What is lost is counted by NumPy from the table alone."""
    rows = table()
    person, place, y = (rows[name].to_numpy(zero_copy_only=False) for name in ("person", "place", "y"))
    counted, passing = np.bincount(person), y < 25
    kept = np.minimum(np.bincount(person[passing], minlength=PEOPLE), 3).sum()
    found = rehearse(
        source,
        {"kind": "count"},
        {"kind": "count", "group_by": "place", "groups": ["a", "b"]},
        {"kind": "count_distinct", "column": "y", "max_values_per_unit": 1},
        privacy=UNIT,
        runs=3,
    )
    assert found[0]["numbers"][0]["truth"] == ROWS
    assert found[0]["numbers"][0]["bias"] == np.minimum(counted, 3).sum() - ROWS
    assert found[0]["rows"] == {
        "table": ROWS,
        "condition": 0,
        "bounding": ROWS - np.minimum(counted, 3).sum(),
        "groups": 0,
        "missing": None,
        "used": np.minimum(counted, 3).sum(),
    }
    assert [number["truth"] for number in found[1]["numbers"]] == [(place == "a").sum(), (place == "b").sum()]
    assert 0 < found[1]["rows"]["groups"] < (~np.isin(place, ["a", "b"])).sum()
    assert found[2]["numbers"][0]["truth"] == len(set(y))
    (some,) = rehearse(source, {"kind": "count"}, privacy=UNIT, runs=2, where="y < 25")
    assert (some["rows"]["condition"], some["rows"]["bounding"]) == ((~passing).sum(), passing.sum() - kept)
    assert some["numbers"][0]["truth"] == passing.sum()


def test_intervals_are_held_against_the_truth_without_clamping(source):
    """And not, as a broken twin would, against the clamped answer, which they hold as often as they claim."""
    (mean,) = rehearse(source, MEAN_AND_SUM[0], runs=60)
    number = mean["numbers"][0]
    intervals = [released(source, run, MEAN_AND_SUM[0])[0]["interval"] for run in range(60)]
    clamped = np.clip(table()["x"].to_numpy(), 0, 400).mean()
    broken_twin = np.mean([low <= clamped <= high for low, high in intervals])
    assert broken_twin > 0.85
    assert number["coverage"] == 0.0
    (wide,) = rehearse(source, {**MEAN_AND_SUM[0], "upper": 3000}, runs=60)
    assert wide["numbers"][0]["coverage"] > 0.85
    assert abs(wide["numbers"][0]["bias"]) < 1e-6 * wide["numbers"][0]["truth"]


def test_choices_and_groups_that_only_the_table_knows(source):
    found = rehearse(
        source,
        {"kind": "mode", "column": "place", "candidates": list("abcd"), "epsilon": 0.01},
        {"kind": "groups", "group_by": "place", "delta": 1e-3},
        {"kind": "count", "group_by": "place", "groups": "private", "epsilon": 0.05},
        {"kind": "mean", "column": "y", "bounds": "private", "bounds_epsilon": 0.3, "missing": 0},
    )
    (mode,), (keys,) = found[0]["labels"], found[1]["labels"]
    assert mode["best"] == ["a"]
    chosen = [
        released(source, run, {"kind": "mode", "column": "place", "candidates": list("abcd"), "epsilon": 0.01})[0]["value"]
        for run in range(RUNS)
    ]
    assert mode["same"] == pytest.approx(np.mean([each == "a" for each in chosen]))
    assert 0.3 < mode["same"] < 1.0
    assert keys["best"] == list("abcd")
    assert [number["groups"] for number in found[2]["numbers"]] == [["a"], ["b"], ["c"], ["d"]]
    place = table()["place"].to_pylist()
    assert [number["truth"] for number in found[2]["numbers"]] == [place.count(each) for each in "abcd"]
    assert found[3]["numbers"][0]["truth"] == pytest.approx(np.mean(table()["y"].to_numpy()), rel=1e-6)


def test_there_is_no_truth_for_a_table(source, tmp_path):
    output = tmp_path / "made.parquet"
    columns = [{"name": "place", "categories": list("abcd"), "missing": "a", "unknown": "a"}]
    (found,) = rehearse(source, {"kind": "synthetic", "columns": columns, "output": str(output)}, runs=2)
    assert "is answered by a table" in found["why"]
    assert (found["rmse"], output.exists()) == (None, False)


def test_rows_made_of_units_and_joined_tables(source, tmp_path):
    """Totals of persons, clamped while they are made; and a second public table in the place of a joined one."""
    people = write_table(pa.table({"person": np.arange(PEOPLE), "age": np.arange(PEOPLE) % 80}), tmp_path / "people.parquet")
    made = {"per_unit": {"cost": {"sum": "x", "lower": 0, "upper": 300}}}
    join = {"join": [{"path": "private-people.parquet", "per_unit": {"age": "max(age)"}}]}
    privacy = {key: value for key, value in UNIT.items() if key != "max_rows_per_unit"}
    query = {"kind": "mean", "column": "cost", "lower": 0, "upper": 600}
    (found,) = rehearse(source, query, privacy=privacy, runs=3, **made)
    person, x = table()["person"].to_numpy(), table()["x"].to_numpy()
    there = np.unique(person)
    assert found["numbers"][0]["truth"] == pytest.approx(np.bincount(person, x)[there].mean(), rel=1e-6)
    each = np.bincount(person, np.clip(x, 0, 300))[there]
    assert found["numbers"][0]["without_noise"] == pytest.approx(np.clip(each, 0, 600).mean(), rel=1e-5)
    old = {"kind": "count", "column": "age", "lower": 0, "upper": 39}
    job = job_of(old, privacy=UNIT, **join)
    tables = public_tables(job, [str(source), f"private-people.parquet={people}"], are_public=True)
    report = rehearsed([Setting(job)], None, tables, runs=3, progress=Silent())
    assert report["joined"] == {"private-people.parquet": str(people)}
    number = report["settings"][0]["queries"][0]["numbers"][0]
    assert number["truth"] == (person % 80 < 40).sum()
    assert number["bias"] < 0


def test_the_report_is_json_and_the_same_again(source):
    queries = (*MEAN_AND_SUM, {"kind": "histogram", "column": "place", "categories": list("abc"), "unknown": "skip", "missing": "skip"})
    first, again = (json.dumps(rehearse(source, *queries, runs=3)) for _ in range(2))
    assert first == again


def test_a_step_of_a_series_is_not_rehearsed(tmp_path):
    query = {"kind": "running_total", "steps": 5, "step": 1, "state": str(tmp_path / "secret.state")}
    with pytest.raises(Exception, match="a rehearsal touches no state"):
        check_rehearsable(job_of(query, privacy=UNIT))
    assert list(tmp_path.iterdir()) == []


def test_a_bias_that_is_what_rounding_leaves_is_none():
    number = {"truth": 593.6, "bias": -6.3e-7, "noise": 1.6, "rmse": 1.6, "coverage": 0.95, "answered": 1.0}
    assert cells(number)[:4] == ("593.6", "≈ 0", "1.6", "1.6")
    assert cells({**number, "bias": -6.3e-3})[1] == "−0.0063"
    assert cells({**number, "bias": 0.0})[1] == "0"
