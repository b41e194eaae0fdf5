"""What `dpcore release` answers: near the exact statistic, in every format, whatever is declared about neighbours and units."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dpcore.jobs.release_job import load_release_job
from dpcore.query.encoders import Points
from dpcore.query.run import run
from dpcore.query.written_plans import make_release_plan
from support.jobs import FORMATS, write_table
from support.releases import QUERIES, SURE, Counter, clinic, filled, truth

ROWS = 3000


@pytest.fixture
def place(tmp_path, capsys):
    place = Counter(tmp_path, capsys)
    write_table(clinic(ROWS), place.source)
    return place


def check_answers(answers, table):
    """Each answer is as near to the truth as it says, at a confidence that no run of these tests will ever contradict."""
    assert list(answers) == list(QUERIES)
    for name, answer in answers.items():
        exact = truth(name, table)
        assert answer["confidence"] == SURE
        match answer["kind"]:
            case "quantile":
                check_quantiles(answer, exact)
            case "top_s":
                check_top(answer, exact)
            case _:
                interval = np.atleast_2d(answer["interval"])
                assert (interval[:, 0] <= exact).all(), name
                assert (exact <= interval[:, 1]).all(), name


def check_quantiles(answer, values):
    values = np.sort(np.clip(values, answer["grid"][0], answer["grid"][-1]))
    for level, value, error in zip(answer["q"], answer["value"], answer["rank_error"], strict=True):
        below, at_or_below = np.searchsorted(values, value - 0.5, "right"), np.searchsorted(values, value, "right")
        assert below - error <= level * len(values) <= at_or_below + error


def check_top(answer, counts):
    assert len(set(answer["value"])) == answer["s"] == 3
    for chosen, noisy, (low, high) in zip(answer["value"], answer["counts"], answer["interval"], strict=True):
        assert low <= counts[chosen] <= high
        assert low < noisy < high
    # Noise of scale 2·3/(1/2), a maximum over 30 candidates: 20 scales are beyond reach.
    assert min(counts[answer["value"]]) >= np.sort(counts)[-3] - 20 * answer["noise"][0]["scale"]


@pytest.mark.parametrize("source", FORMATS)
def test_every_kind_in_every_format(place, source):
    table = clinic(ROWS)
    place.source = write_table(table, place.folder / f"in.{source}", row_group_rows=777)
    place.write_release()
    check_answers(place.answered(), table)


@pytest.mark.some(3)
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_every_kind_for_every_relation(place, relation, delta):
    noisy = {name: query if query["kind"] == "quantile" else query | {"delta": delta} for name, query in QUERIES.items()}
    place.write_release(noisy, privacy={"relation": relation})
    document = place.answers()
    check_answers({query["name"]: query for query in document["queries"]}, clinic(ROWS))
    assert (document["unit"], document["relation"], document["secure"]) == ("row", relation, False)
    public = relation == "replace"  # the number of rows then costs nothing
    assert document["privacy"] == {"epsilon": 8.0 if public else 9.0, "delta": pytest.approx((7 if public else 8) * delta)}
    # Only where neighbours have equally many rows may their number be told.
    assert document.get("rows") == (ROWS if relation == "replace" else None)


GROUPED = [name for name, query in QUERIES.items() if query["kind"] in {"count", "sum", "mean", "quantile"}]


@pytest.mark.some(3)
@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize(
    "privacy", [{}, {"relation": "add_remove"}, {"unit": "person", "max_rows_per_unit": ROWS, "max_groups_per_unit": 3}], ids=str
)
def test_groups_are_answered_each(place, source, privacy):
    """Rows of other groups, and of none, count nowhere; a group that nobody is in has an answer as well."""
    table = clinic(ROWS)
    place.source = write_table(table, place.folder / f"in.{source}", row_group_rows=777)
    groups = ["east", "nobody", "west"]
    place.write_release({name: QUERIES[name] | {"group_by": "region", "groups": groups} for name in GROUPED}, privacy=privacy, epsilon=30.0)
    answers = place.answered()
    for position, group in enumerate(groups):
        part = table.filter(pc.equal(table["region"], group))
        for name in GROUPED:
            answer = answers[name]
            assert answer["groups"] == groups
            one = answer | {
                key: answer[key][position] for key in ("value", "interval", *(["rank_error"] if "rank_error" in answer else []))
            }
            if answer["kind"] == "quantile":
                check_quantiles(one, truth(name, part))
            elif len(part) or answer["kind"] != "mean":
                low, high = one["interval"]
                assert low <= truth(name, part) <= high, (name, group)
            else:
                assert 10 <= one["value"] <= 90


def test_a_job_on_a_wide_table(place):
    columns = {f"c{i:04d}": np.arange(20) % (i % 7 + 1) for i in range(3000)}
    write_table(pa.table(columns), place.source)
    wanted = [f"c{i:04d}" for i in range(0, 3000, 10)]
    place.write_release({name: {"kind": "sum", "column": name, "lower": 0, "upper": 6} for name in wanted}, epsilon=1e4)
    answers = place.answered()
    assert [round(answers[name]["value"]) for name in wanted] == [int(columns[name].sum()) for name in wanted]


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_units_within_their_bound_keep_all_their_rows(place, relation):
    table = clinic(ROWS)
    most = max(np.bincount(table["person"].to_numpy()))
    place.write_release(privacy={"unit": "person", "max_rows_per_unit": int(most), "relation": relation})
    document = place.answers()
    check_answers({query["name"]: query for query in document["queries"]}, table)
    assert "rows" not in document
    assert document["max_rows_per_unit"] == most


@pytest.mark.long
def test_the_result_does_not_depend_on_how_rows_are_cut(place):
    for privacy in ({}, {"unit": "person", "max_rows_per_unit": 2}):
        place.write_release(privacy=privacy)
        plan = make_release_plan(load_release_job(place.job), overwrite=True)
        documents = [run(plan, threads=threads, piece_rows=rows) for threads, rows in ((1, None), (3, 100), (2, 17), (4, 2999))]
        assert documents[1:] == documents[:-1]


def test_the_result_does_not_depend_on_the_cut_of_files(place):
    table = clinic(ROWS)
    place.write_release()
    whole = place.answers()["queries"]
    for start in range(0, ROWS, 700):
        write_table(table.slice(start, 700), place.folder / f"parts/part-{start:05d}.arrow")
    place.source = place.folder / "parts"
    place.write_release()
    assert place.answers()["queries"] == whole


def test_without_a_key_answers_differ(place):
    place.write_release(key=None)
    first, second = place.answers(), place.answers()
    assert first["secure"] is True
    assert first["queries"] != second["queries"]
    check_answers({query["name"]: query for query in first["queries"]}, clinic(ROWS))


def test_answers_of_one_job_are_independent(place):
    place.write_release({str(i): {"kind": "count", "column": "visits", "lower": 0, "upper": 100} for i in range(20)})
    noise = {answer["value"] - ROWS for answer in place.answered().values()}
    assert len(noise) > 3


@pytest.mark.parametrize("source", FORMATS)
def test_tables_without_rows(place, source):
    place.source = write_table(clinic(0), place.folder / f"in.{source}")
    place.write_release()
    answers = place.answered()
    assert answers["mean cost"]["value"] is None
    assert "no rows" in answers["mean cost"]["note"]
    assert abs(answers["rows"]["value"]) < 30
    place.write_release(privacy={"relation": "add_remove"})
    assert 10 <= place.answered()["mean cost"]["value"] <= 90
    place.write_release(privacy={"unit": "person", "max_rows_per_unit": 2})
    assert len(place.answered()["regions"]["value"]) == 4


def test_files_without_rows_in_a_folder(place):
    table = clinic(50)
    for name, part in (("a", table.slice(0, 0)), ("b", table), ("c", table.slice(0, 0))):
        write_table(part, place.folder / f"in/{name}.parquet")
    place.source = place.folder / "in"
    place.write_release()
    check_answers(place.answered(), table)


def test_integers_beyond_the_unit_of_float64_keep_it(place):
    write_table(pa.table({"n": pa.array([2**60 + 1] * 5 + [-(2**60)] * 5)}), place.source)
    place.write_release({"s": {"kind": "sum", "column": "n", "lower": -1000, "upper": 1000}}, epsilon=1e6)
    assert round(place.answered()["s"]["value"]) == 0


def test_numbers_at_the_ends_of_float64(place):
    """Errors are told without squaring them."""
    write_table(pa.table({"x": [1e270, -1e270, 1e300]}), place.source)
    bounds = {"column": "x", "lower": -1e270, "upper": 1e270}
    for relation in ("replace", "add_remove"):
        queries = {"sum": {"kind": "sum", **bounds}, "mean": {"kind": "mean", **bounds}}
        place.write_release(queries, epsilon=1e-10, privacy={"relation": relation})
        assert 1e270 < place.answered()["sum"]["stderr"] < 1e282


def test_narrow_floats_count_alike_whether_or_not_a_piece_has_nulls(place):
    numbers = pa.array([0.1, 0.2, 0.3] * 5, pa.float32())
    queries = {
        "some": {"kind": "count", "column": "x", "lower": 0.1, "upper": 0.3},
        "bins": {"kind": "histogram", "column": "x", "edges": [0, 0.1, 0.2, 0.3, 1], "missing": 0.9},
        "sum": {"kind": "sum", "column": "x", "lower": 0.1, "upper": 0.3, "missing": 0.1},
    }
    seen = []
    for table in (pa.table({"x": numbers}), pa.table({"x": pa.concat_arrays([numbers, pa.array([None], pa.float32())])})):
        write_table(table, place.source)
        place.write_release(queries, epsilon=1e6)
        seen.append({name: answer["value"] for name, answer in place.answered().items()})
    assert seen[0]["some"] == seen[1]["some"]
    assert seen[0]["bins"][:3] == seen[1]["bins"][:3]
    assert seen[1]["sum"] - seen[0]["sum"] == pytest.approx(0.1, abs=1e-4)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "uint32", "int64", "uint64", "float", "double", "halffloat", "bool"])
def test_columns_of_every_number_type(place, kind):
    column = pa.array([0, 1, 1, None, 1, 0])
    for step in ["float", kind] if kind == "halffloat" else [kind]:
        column = column.cast(step)
    write_table(pa.table({"n": column}), place.source)
    queries = {
        "sum": {"kind": "sum", "column": "n", "lower": 0, "upper": 3, "missing": 2},
        "mean": {"kind": "mean", "column": "n", "lower": 0, "upper": 3, "missing": 1},
        "bins": {"kind": "histogram", "column": "n", "edges": [0, 0.5, 1.5, 2.5], "missing": 2.0},
        "some": {"kind": "count", "column": "n", "lower": 1, "upper": 1},
        "median": {"kind": "quantile", "column": "n", "q": 0.5, "grid": [-1, 0, 0.5, 1, 2], "missing": 1},
    }
    place.write_release(queries, epsilon=1e5)
    answers = {name: answer["value"] for name, answer in place.answered().items()}
    rounded = {name: np.round(value, 2).tolist() for name, value in answers.items()}
    assert rounded == {"sum": 5.0, "mean": 0.67, "bins": [2, 3, 1], "some": 3, "median": 1.0}


@pytest.mark.parametrize("source", FORMATS)
def test_categories_from_a_file_and_codes(place, source):
    table = pa.table({"n": pa.array([7, 9, 7, 8, 3]), "t": pa.array(["a", "b", "a", "NA", ""])})
    place.source = write_table(table, place.folder / f"in.{source}")
    (place.folder / "n.csv").write_text("n\n7\n8\n9\n")
    (place.folder / "t.csv").write_text("t\na\nb\nNA\n")
    queries = {
        "n": {"kind": "histogram", "column": "n", "categories_file": str(place.folder / "n.csv"), "unknown": 9},
        "k": {"kind": "histogram", "column": "n", "k": 10},
        "t": {"kind": "histogram", "column": "t", "categories_file": str(place.folder / "t.csv"), "missing": "b", "unknown": "b"},
        "top": {"kind": "top_s", "column": "t", "candidates_file": str(place.folder / "t.csv"), "s": 2},
        "one": {"kind": "count", "column": "n", "categories": [7]},
    }
    if source == "csv":
        del queries["n"]
    place.write_release(queries, epsilon=1e5)
    answers = {name: answer["value"] for name, answer in place.answered().items()}
    expected = {"n": [2, 1, 2], "k": [0, 0, 0, 1, 0, 0, 0, 2, 1, 1], "t": [2, 2, 1], "one": 2}
    assert {name: answers[name] for name in expected if name in answers} == {name: expected[name] for name in expected if name in answers}
    assert answers["top"][0] == "a"


def test_dictionary_columns(place):
    table = pa.table({"t": pa.array(["a", "b", "a", None, "x"]).dictionary_encode()})
    write_table(table, place.source)
    queries = {
        "t": {"kind": "histogram", "column": "t", "categories": ["a", "b"], "missing": "b", "unknown": "a"},
        "some": {"kind": "count", "column": "t", "categories": ["b", "x"]},
    }
    place.write_release(queries, epsilon=1e5)
    assert {name: answer["value"] for name, answer in place.answered().items()} == {"t": [3, 2], "some": 2}


def test_a_count_needs_no_column_at_all(place):
    place.write_release({"n": {"kind": "count"}}, epsilon=1e5)
    for source in FORMATS:
        place.source = write_table(clinic(100), place.folder / f"in.{source}")
        place.write_release({"n": {"kind": "count"}}, epsilon=1e5)
        assert place.answered()["n"]["value"] == 100


def test_bins_hold_their_left_edges_and_the_last_one_its_right(place):
    write_table(pa.table({"x": [-5.0, 0.0, 0.999, 1.0, 1.5, 2.0, 3.0]}), place.source)
    place.write_release({"h": {"kind": "histogram", "column": "x", "edges": [0, 1, 2]}}, epsilon=1e5)
    assert place.answered()["h"]["value"] == [3, 4]


def test_a_number_of_bins_is_that_many_of_equal_width(place):
    write_table(pa.table({"x": [-5.0, 0.0, 0.3, 0.35, 0.7, 0.8, 3.0]}), place.source)
    place.write_release({"h": {"kind": "histogram", "column": "x", "bins": 10, "lower": 0, "upper": 1}}, epsilon=1e5)
    answer = place.answered()["h"]
    assert answer["edges"] == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert answer["value"] == [2, 0, 0, 2, 0, 0, 0, 1, 1, 1]


def test_quantiles_of_ties_are_where_they_are(place):
    write_table(pa.table({"x": [5.0] * 100}), place.source)
    place.write_release({"h": {"kind": "quantile", "column": "x", "q": [0.01, 0.5, 0.99], "grid": list(range(10))}}, epsilon=1e5)
    assert place.answered()["h"]["value"] == [5.0, 5.0, 5.0]
    write_table(pa.table({"x": [4.2] * 100 + [100.0] * 50}), place.source)
    place.write_release({"h": {"kind": "quantile", "column": "x", "q": [0.5, 0.9], "grid": list(range(10))}}, epsilon=1e5)
    assert place.answered()["h"]["value"] == [5.0, 9.0]


@pytest.mark.parametrize(
    "points",
    [
        np.arange(201) / 10,
        np.arange(16, dtype=float),
        np.arange(17) * 0.1 + 1e3,
        np.arange(1000) + np.sin(np.arange(1000)) / 5,
        np.cumsum(1 + np.arange(50) % 7.0),
        np.arange(100) * 1e-300,
        np.array([-1e300, 0.0, 1e300]),
        np.linspace(-8e307, 8e307, 64) * 2,
        np.arange(64) + 2.0**60,
    ],
    ids=range(9),
)
def test_places_among_points_are_those_of_a_search(points):
    found = Points(tuple(points.tolist()))
    rng = np.random.default_rng(7)
    near = np.concatenate([points, np.nextafter(points, -np.inf), np.nextafter(points, np.inf)])
    span = float(points[-1] / 2 - points[0] / 2) * 3
    with np.errstate(over="ignore"):
        anywhere = points[0] + span * rng.uniform(-0.5, 1.2, 5000)
    x = np.concatenate([near, anywhere, [np.inf, -np.inf, 0.0, -0.0, 1e308, -1e308, 5e-324]])
    assert (found.below(x) == np.searchsorted(points, x, "left")).all()
    assert (found.not_above(x) == np.searchsorted(points, x, "right")).all()
    for kind in (np.int64, np.float32, np.int8):
        few = np.arange(-100, 100).astype(kind)
        assert (found.below(few) == np.searchsorted(points, few, "left")).all()
    assert len(found.below(x[:0])) == 0


def test_grids_are_the_decimals_that_are_meant(place):
    write_table(pa.table({"x": [0.3] * 9}), place.source)
    grid = {"start": 0, "stop": 0.95, "step": 0.1}
    place.write_release({"h": {"kind": "quantile", "column": "x", "q": 0.5, "grid": grid}}, epsilon=1e5)
    answer = place.answered()["h"]
    assert answer["value"] == 0.3
    assert answer["grid"] == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]


def test_the_document_is_one_json_object_on_standard_output(place):
    place.write_release()
    done = place.release()
    document = json.loads(done.out)
    assert document == json.loads(place.target.read_text(encoding="utf-8"))
    about = ["run", "time", "input", "job", "guarantee"]
    assert list(document) == ["format", "version", "secure", "unit", "relation", "privacy", *about, "rows", "queries"]
    for query in document["queries"]:
        assert {"name", "kind", "column", "privacy", "value", "stderr", "interval", "confidence", "noise"} <= set(query)
        assert query["privacy"] == {"epsilon": 0.0 if query["name"] == "rows" else 1.0, "delta": 0.0}
    assert "NOT PRIVATE" in done.err
    assert place.left_behind() == ["answers.json"]


def test_missing_and_unknown_are_what_the_truth_says():
    # The truth itself, on a table small enough to read.
    table = pa.table({"cost": [None, 5.0, float("nan"), 95.0], "region": [None, "east", "abroad", "west"]})
    assert filled({"missing": 20.0}, table["cost"].to_pylist()) == [20.0, 5.0, 20.0, 95.0]
    assert truth("mean cost", table) == (20 + 10 + 20 + 90) / 4
    assert truth("regions", table) == [1, 1, 0, 2]
    assert truth("costs", table) == [1, 2, 1]
