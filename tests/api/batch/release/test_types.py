"""Columns of the types that warehouses have: as numbers, categories, groups and in filters, with what each is expected to give."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.batch.release.job import load_release_job
from dpcore.batch.release.plan import make_release_plan
from dpcore.batch.release.run import run
from support.jobs import write_table
from support.releases import Counter

D = decimal.Decimal
VIEWS = [pa.string_view()] if hasattr(pa, "string_view") else []


@pytest.fixture
def place(tmp_path, capsys):
    return Counter(tmp_path, capsys)


def answers(place, queries, source="in.arrow", table=None, **more):
    if table is not None:
        place.source = place.folder / source
        write_table(table, place.source)
    place.write_release(queries, privacy={"max_epsilon": 1e12, **more}, epsilon=1e5)
    found = run(make_release_plan(load_release_job(place.job), overwrite=True))
    return {query["name"]: query["value"] for query in found["queries"]}


SUM = {"kind": "sum", "column": "x", "missing": 0, "epsilon": 1e8}
NUMBERS = {
    "decimal128": (pa.decimal128(9, 2), [D("1.25"), D("-0.75"), None, D("1000.00")], 10.5),
    "decimal256": (pa.decimal256(76, 0), [D(3), D(10**75), D(-(10**75)), None, D(-4)], -1),
    "decimal of many digits": (pa.decimal128(38, 37), [D("1.5"), D("-9.9999999999999999999999999999999999999"), None], -8.5),
    "negative scale": (pa.decimal128(5, -2), [D(100), D(-300), None], 0),
    "bool": (pa.bool_(), [True, None, True, False], 2),
    "null": (pa.null(), [None, None], 0),
    "labels of numbers": (pa.dictionary(pa.int8(), pa.int64()), [3, 4, 3, None], 10),
    "uint64": (pa.uint64(), [2**64 - 1, 3, None], 13),
}


@pytest.mark.parametrize("source", ["in.arrow", "in.parquet"])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(place, name, source):
    kind, values, wanted = NUMBERS[name]
    if source == "in.parquet" and name == "negative scale":
        pytest.skip("Parquet has none")
    queries = {"it": SUM | {"lower": -10, "upper": 10}, "there": SUM | {"missing": "skip", "lower": -10, "upper": 10}}
    queries["few"] = {"kind": "count", "column": "x", "lower": -5, "upper": 3}
    queries["bins"] = {"kind": "histogram", "column": "x", "edges": [-10, 0, 10], "missing": 0}
    queries["median"] = {"kind": "median", "column": "x", "grid": [-10, 0, 1.25, 10], "missing": 0}
    found = answers(place, queries, source, pa.table({"x": pa.array(values, kind)}))
    assert found["it"] == pytest.approx(wanted, abs=0.01)
    assert found["there"] == pytest.approx(wanted, abs=0.01)
    assert found["few"] == sum(value is not None and -5 <= value <= 3 for value in values)
    assert sum(found["bins"]) == len(values)


def test_decimals_are_the_nearest_floats(place):
    """Those with 15 digits, so that bounds and edges that a job writes as decimals mean the same numbers."""
    from dpcore.batch.tables.plain import numbers

    rng = np.random.default_rng(5)
    for scale in range(16):
        whole = [int(each) for each in rng.integers(-(10**15) + 1, 10**15, 200)]
        values = [D(each).scaleb(-scale) for each in whole]
        for kind in (pa.decimal128(20, scale), pa.decimal256(60, scale)):
            assert numbers(pa.array(values, kind)).to_pylist() == [float(str(value)) for value in values]


def test_decimals_of_any_size_are_near(place):
    from dpcore.batch.tables.plain import numbers

    values = [D(sign * (10**digits + 7)) for digits in range(76) for sign in (1, -1)] + [D(2**63), D(-(2**63)), D(-(2**64) + 5), D(2**127)]
    found = numbers(pa.array([*values, None], pa.decimal256(76, 0))).to_pylist()
    assert found[-1] is None
    assert found[:-1] == pytest.approx([float(value) for value in values], rel=1e-14)


CATEGORIES = {
    "whole floats": (pa.float64(), [1.0, 2.0, 2.5, None, float("nan"), 1e300, float("inf"), 2.0, 7.0], [1, 2, 3], [1, 2, 0], 4, 2),
    "float32": (pa.float32(), [1.0, 2.0, 2.5, None], [1, 2], [1, 1], 2, 0),
    "bool": (pa.bool_(), [True, False, None, True], [False, True], [1, 2], 1, 0),
    "bool the other way": (pa.bool_(), [True, False, None, True], [True, False], [2, 1], 1, 0),
    "bool as numbers": (pa.bool_(), [True, False, None, True], [0, 1], [1, 2], 1, 0),
    "null": (pa.null(), [None, None], ["a", "b"], [0, 0], 2, 0),
    "null of numbers": (pa.null(), [None, None], [5, 6], [0, 0], 2, 0),
    "large_string": (pa.large_string(), ["a", "b", None, "c"], ["a", "b"], [1, 1], 1, 1),
    "dictionary of floats": (pa.dictionary(pa.int8(), pa.float64()), [1.0, 2.5, 1.0, None], [1, 2], [2, 0], 2, 0),
    "int64": (pa.int64(), [2**63 - 1, 2**63 - 2, None], [2**63 - 1, 2**63 - 3], [1, 0], 1, 1),
    "uint64": (pa.uint64(), [2**64 - 1, 2**63 - 1, None], [2**63 - 1, 2**63 - 3], [1, 0], 1, 1),
    **dict.fromkeys(
        ["string_view"][: len(VIEWS)], (VIEWS[-1] if VIEWS else None, ["a", "b" * 40, None, "c"], ["a", "b" * 40], [1, 1], 1, 1)
    ),
}


@pytest.mark.parametrize("source", ["in.arrow", "in.parquet"])
@pytest.mark.parametrize("name", CATEGORIES)
def test_categories_and_groups(place, name, source):
    kind, values, listed, wanted, missing, unknown = CATEGORIES[name]
    if source == "in.parquet" and "dictionary of floats" in name:
        pytest.skip("read as floats")
    column = {"column": "x", "categories": listed}
    queries = {
        "plain": {"kind": "histogram", **column, "missing": listed[0], "unknown": listed[1]},
        "skipping": {"kind": "histogram", **column, "missing": "skip", "unknown": "skip"},
        "counted": {"kind": "count", **column},
        "grouped": {"kind": "count", "group_by": "x", "groups": listed},
        "most": {"kind": "top_s", "column": "x", "s": 1, "candidates": listed},
    }
    found = answers(place, queries, source, pa.table({"x": pa.array(values, kind)}))
    assert found["skipping"] == found["grouped"] == wanted
    assert found["counted"] == sum(wanted)
    assert found["plain"] == [wanted[0] + missing, wanted[1] + unknown, *wanted[2:]]
    assert wanted[listed.index(found["most"][0])] == max(wanted)


def test_answers_of_a_csv_are_true_or_false(place):
    (place.folder / "in.csv").write_text("x,y\ntrue,1\nFalse,0\n,NA\n1,1\n7,7\nmaybe,maybe\n")
    place.source = place.folder / "in.csv"
    queries = {
        "x": {"kind": "histogram", "column": "x", "categories": [False, True], "missing": "skip", "unknown": "skip"},
        "by y": {"kind": "count", "group_by": "y", "groups": [True, False]},
    }
    assert answers(place, queries) == {"x": [1, 2], "by y": [2, 1]}


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_a_column_may_be_null_throughout_one_file(place, order):
    """Wherever in the folder: the types of the other files say how it is read."""
    folder = place.folder / "in"
    folder.mkdir()
    values = {"n": pa.array([1, 2, 3]), "word": pa.array(["a", "b", "a"]), "code": pa.array([5, 6, 5]), "person": pa.array([1, 2, 3])}
    nulls = {"n": pa.nulls(2), "word": pa.nulls(2), "code": pa.nulls(2), "person": pa.array([4, 5])}
    (place.folder / "codes.csv").write_text("code\n5\n6\n")
    for name, table in zip(order, (values, nulls), strict=True):
        pq.write_table(pa.table(table), folder / f"{name}.parquet")
    place.source = folder
    queries = {
        "sum": SUM | {"column": "n", "lower": 0, "upper": 9},
        "words": {"kind": "histogram", "column": "word", "categories": ["a", "b"], "missing": "b", "unknown": "a"},
        "codes": {"kind": "histogram", "column": "code", "categories_file": str(place.folder / "codes.csv"), "missing": 6, "unknown": 5},
        "different": {"kind": "count_distinct", "column": "word"},
    }
    found = answers(place, queries)
    assert found.pop("sum") == pytest.approx(6, abs=0.01)
    assert found == {"words": [2, 3], "codes": [2, 3], "different": 2}
    assert answers(place, {"units": {"kind": "count_distinct"}}, unit="person") == {"units": 5}


@pytest.mark.skipif(not VIEWS, reason="pyarrow has no views")
def test_units_may_be_views(place):
    table = pa.table({"person": pa.array(["a", "b" * 40, "a", None], pa.string_view())})
    assert answers(place, {"units": {"kind": "count_distinct"}}, table=table, unit="person") == {"units": 2}
