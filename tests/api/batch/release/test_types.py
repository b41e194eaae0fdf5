"""Columns of the types that warehouses have: as numbers, categories, groups and in filters, with what each is expected to give."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.jobs.release_job import load_release_job
from dpcore.query.run import run
from dpcore.query.written_plans import make_release_plan
from dpcore.tables.types.timed import Timed, parsed
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
    from dpcore.tables.types.plain import numbers

    rng = np.random.default_rng(5)
    for scale in range(16):
        whole = [int(each) for each in rng.integers(-(10**15) + 1, 10**15, 200)]
        values = [D(each).scaleb(-scale) for each in whole]
        for kind in (pa.decimal128(20, scale), pa.decimal256(60, scale)):
            assert numbers(pa.array(values, kind)).to_pylist() == [float(str(value)) for value in values]


def test_decimals_of_any_size_are_near(place):
    from dpcore.tables.types.plain import numbers

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
    "date32": (pa.date32(), [dt.date(2020, 1, 1), dt.date(2020, 1, 2), None], ["2020-01-01", "2020-01-03"], [1, 0], 1, 1),
    "timestamp": (pa.timestamp("ns"), [dt.datetime(2020, 1, 1, 5), None], ["2020-01-01T05:00:00", "2020-01-01T06:00:00"], [1, 0], 1, 0),
    "days": (pa.timestamp("s"), [dt.datetime(2020, 1, 1, 5), None], ["2020-01-01", "2020-01-02"], [1, 0], 1, 0),
    "time": (pa.time32("s"), [dt.time(5), dt.time(6), None], ["05:00:00", "06:00:00"], [1, 1], 1, 0),
    "duration": (pa.duration("us"), [dt.timedelta(hours=1), dt.timedelta(0)], ["PT60M", "PT1S"], [1, 0], 0, 1),
    "null of numbers": (pa.null(), [None, None], [5, 6], [0, 0], 2, 0),
    "large_string": (pa.large_string(), ["a", "b", None, "c"], ["a", "b"], [1, 1], 1, 1),
    "dictionary of floats": (pa.dictionary(pa.int8(), pa.float64()), [1.0, 2.5, 1.0, None], [1, 2], [2, 0], 2, 0),
    "int64": (pa.int64(), [2**63 - 1, 2**63 - 2, None], [2**63 - 1, 2**63 - 3], [1, 0], 1, 1),
    "uint64": (pa.uint64(), [2**64 - 1, 2**63 - 1, None], [2**63 - 1, 2**63 - 3], [1, 0], 1, 1),
    **dict.fromkeys(
        ["string_view"][: len(VIEWS)], (VIEWS[-1] if VIEWS else None, ["a", "b" * 40, None, "c"], ["a", "b" * 40], [1, 1], 1, 1)
    ),
}


@pytest.mark.some(14)
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


DAYS = [dt.date(2020, 1, day) for day in (1, 2, 3, 10, 31)]
NOONS = [dt.datetime(2020, 1, day, 12) for day in (1, 2, 3, 10, 31)]
HOURS = [dt.time(hour) for hour in (0, 6, 12, 13, 23)]
LONG = [dt.timedelta(minutes=minutes) for minutes in (-10, 0, 30, 60, 600)]
UTC = dt.UTC
BERLIN = [noon.replace(tzinfo=UTC) for noon in NOONS]
MIDNIGHTS = ["2020-01-01T00:00:00", "2020-01-03T00:00:00", "2020-02-01T00:00:00"]
INSTANTS = ["2020-01-01T00:00:00Z", "2020-01-03T01:00:00+01:00", "2020-02-01T00:00:00Z"]
MONTH = {"start": "2020-01-01", "stop": "2020-02-01", "step": "P1D"}
TIMES = {
    "date32": (pa.date32(), DAYS, ["2020-01-01", "2020-01-03", "2020-02-01"], "2020-01-10"),
    "date64": (pa.date64(), DAYS, ["2020-01-01", "2020-01-03", "2020-02-01"], "2020-01-10"),
    "days of timestamps": (pa.timestamp("ms"), NOONS, ["2020-01-01", "2020-01-03", "2020-02-01"], "2020-01-10"),
    **{
        f"timestamp {unit}": (pa.timestamp(unit), NOONS, MIDNIGHTS, "2020-01-10T00:00:00")
        for unit in ("s", "ms", "us", "ns")
    },
    "zone": (pa.timestamp("us", "Europe/Berlin"), BERLIN, INSTANTS, "2020-01-10T00:00:00Z"),
    "time32": (pa.time32("s"), HOURS, ["00:00:00", "12:00:00", "23:59:59"], "12:30:00"),
    "time64": (pa.time64("ns"), HOURS, ["00:00:00", "12:00:00", "23:59:59"], "12:30:00"),
    **{f"duration {unit}": (pa.duration(unit), LONG, ["-PT1H", "PT30M", "PT10H"], "PT45M") for unit in ("s", "ms", "us", "ns")},
    "null": (pa.null(), [None] * 5, ["2020-01-01", "2020-01-03", "2020-02-01"], "2020-01-10"),
}  # fmt: skip
TEXT = {
    "dates": (["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-10", " 2020-01-31 ", "31.1.2020", "NA", "2020-02-30"], "date32"),
    "timestamps": ([f"{noon.isoformat(' ')}" for noon in NOONS] + ["noon", ""], "timestamp us"),
    "instants": ([f"{noon.isoformat()}Z" for noon in NOONS] + ["2020-01-01T00:00:00"], "zone"),
    "times": ([hour.isoformat() for hour in HOURS] + ["25:00:00", "x" * 1000], "time32"),
    "durations": (["-PT10M", "PT0S", "PT30M", "PT1H", "PT10H", "ten hours", "P"], "duration s"),
}


def about_times(edges, middle):
    return {
        "bins": {"kind": "histogram", "column": "x", "edges": edges, "missing": "skip"},
        "count": {"kind": "count", "column": "x", "lower": edges[1], "upper": edges[2]},
        "median": {"kind": "median", "column": "x", "grid": [edges[0], edges[1], middle, edges[2]], "missing": "skip"},
        "mean": {"kind": "mean", "column": "x", "lower": edges[0], "upper": edges[2], "missing": "skip"},
    }


def expected_of(name):
    """Two of the five values lie in the first bin, the third begins the second one."""
    _, values, edges, _ = TIMES[name]
    if values[0] is None:
        return {"bins": [0, 0], "count": 0}
    mean = {
        "date": "2020-01-09", "days": "2020-01-09", "timestamp": "2020-01-09T", "zone": "2020-01-09T", "time32": "10:4", "time64": "10:4",
        "duration": "PT2H1",
    }[name.split()[0].rstrip("0123456789") if name.startswith("date") else name.split()[0]]  # fmt: skip
    three = parsed(edges[1])[1]
    below = sum(times_of(value, edges[1]) < three for value in values)
    return {"bins": [below, 5 - below], "count": 5 - below, "mean": mean}


def times_of(value, like):
    from dpcore.tables.types.timed import timed

    sort = parsed(like)[0]
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(microseconds=1)
    found = timed(value.date() if sort == "date" and isinstance(value, dt.datetime) else value)
    assert found.sort == sort
    return int(found)


@pytest.mark.some(18)
@pytest.mark.parametrize("source", ["in.arrow", "in.parquet"])
@pytest.mark.parametrize("name", TIMES)
def test_dates_and_times(place, name, source):
    kind, values, edges, middle = TIMES[name]
    if source == "in.parquet" and name == "duration s":
        pytest.skip("stored as another type")
    found = answers(place, about_times(edges, middle), source, pa.table({"x": pa.array([*values, None], kind)}))
    wanted = expected_of(name)
    if "mean" in wanted:
        assert found["mean"].startswith(wanted.pop("mean")), found
        points = [parsed(point) for point in (*edges[:2], middle, edges[2])]
        third = times_of(values[2], middle)
        assert found["median"] == repr(Timed.of(*next(point for point in points if point[1] >= third)))
    assert {key: found[key] for key in wanted} == wanted


@pytest.mark.parametrize("name", TEXT)
def test_dates_and_times_as_text(place, name):
    cells, like = TEXT[name]
    _, _, edges, middle = TIMES[like]
    place.source = place.folder / "in.csv"
    place.source.write_text("x\n" + "\n".join(f'"{cell}"' for cell in cells) + "\n")
    found, wanted = answers(place, about_times(edges, middle)), expected_of(like)
    assert found["mean"].startswith(wanted.pop("mean"))
    assert {key: found[key] for key in wanted} == wanted


def test_tomls_own_dates_and_steps(place):
    write_table(pa.table({"x": pa.array(DAYS, pa.date32())}), place.source)
    place.write_release(
        {"it": {"kind": "histogram", "column": "x", "edges": [0, 1], "missing": 0}}, privacy={"max_epsilon": 1e12}, epsilon=1e5
    )
    text = place.job.read_text()
    for edges in (
        '{ start = 2020-01-01, stop = 2020-02-05, step = "P7D" }',
        "[2020-01-01, 2020-01-08, 2020-01-15, 2020-01-22, 2020-01-29, 2020-02-05]",
    ):
        place.job.write_text(text.replace("edges = [0, 1]", f"edges = {edges}").replace("missing = 0", "missing = 2020-01-01"))
        found = run(make_release_plan(load_release_job(place.job), overwrite=True))["queries"][0]
        assert found["value"] == [3, 1, 0, 0, 1]
        assert found["edges"] == ["2020-01-01", "2020-01-08", "2020-01-15", "2020-01-22", "2020-01-29", "2020-02-05"]


def test_a_sum_of_durations_and_its_page(place):
    table = pa.table({"x": pa.array([*LONG, None], pa.duration("s")), "d": pa.array([*DAYS, None])})
    queries = {
        "sum": {"kind": "sum", "column": "x", "lower": "PT0S", "upper": "PT2H", "missing": "PT0S", "epsilon": 1e9},
        **{f"{name} d": {**query, "column": "d"} for name, query in about_times(*TIMES["date32"][2:]).items()},
        "quartiles": {"kind": "quantile", "column": "d", "q": [0.25, 0.75], "grid": MONTH, "missing": "skip"},
    }  # fmt: skip
    found = answers(place, queries, table=table)
    assert found["sum"].startswith(("PT3H30M", "PT3H29M59.9"))
    done = place.dpcore("release", place.job, "--overwrite", "--report", place.folder / "report")
    assert done.code == 0, done.said
    page = next((place.folder / "report").glob("*.html")).read_text(encoding="utf-8")
    assert "2020-01-01" in page


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"kind": "mean", "lower": "2020-01-01", "upper": 3}, "must be all numbers, or all dates or times of one sort"),
        ({"kind": "sum", "lower": "2020-01-01", "upper": "2020-01-02"}, "only durations can be added up"),
        ({"kind": "var", "lower": "2020-01-01", "upper": "2020-01-02"}, "var is for numbers"),
        ({"kind": "mean", "lower": "2020-01-02", "upper": "2020-01-01"}, "must be less than"),
        ({"kind": "histogram", "edges": ["2020-01-01", "PT1S"]}, "of one sort"),
        ({"kind": "histogram", "edges": {"start": "2020-01-01", "stop": "2020-01-05", "step": "PT1H"}}, "whole days"),
        ({"kind": "mean", "lower": "12:00:00", "upper": "13:00:00", "missing": "skip"}, "takes a time, or text like 12:00:00"),
        ({"kind": "mean", "lower": 0, "upper": 1, "missing": 0}, "has type date32"),
        ({"kind": "mean", "lower": "0001-01-01T00:00:00", "upper": "2020-01-01T00:00:00"}, "within 285 years of 1970"),
    ],
)
def test_bounds_that_fit_no_column_are_refused(place, query, said):
    with pytest.raises(Exception, match=said):
        answers(place, {"it": {"column": "x", **query}}, table=pa.table({"x": pa.array(DAYS, pa.date32())}))


@pytest.mark.parametrize("sort", ["date", "timestamp", "time", "duration", "instant"])
def test_hostile_times_end_no_job(sort):
    """Any 64 bits are some date: those out of the calendar are far away."""
    from dpcore.tables.types.times import numbers

    words = np.array([0, -1, 2**63 - 1, -(2**63), 10**18, -(10**18)], np.int64)
    kinds = {
        "date": [pa.date64(), pa.date32()],
        "timestamp": [pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")],
        "instant": [pa.timestamp(unit, "UTC") for unit in ("s", "ns")],
        "time": [pa.time64("us"), pa.time64("ns"), pa.time32("s")],
        "duration": [pa.duration(unit) for unit in ("s", "ms", "us", "ns")],
    }[sort]
    for kind in kinds:
        cells = pa.array(words.astype(np.int32) if kind.bit_width == 32 else words).view(kind)
        found = numbers(cells, sort).to_pylist()
        assert all(isinstance(each, int) for each in found)
        assert found[0] == 0
        assert (found[2] > 0) == (kind.bit_width == 64)


@pytest.mark.parametrize("kind", [pa.decimal128(9, 2), pa.float64(), pa.int64(), pa.bool_(), *VIEWS], ids=str)
def test_labels_without_any_value_are_missing(kind):
    """Such a dictionary has no entry."""
    from dpcore.tables.types.categories import declared_by
    from dpcore.tables.types.plain import numbers

    cells = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), pa.array([], kind))
    if kind not in VIEWS:
        assert numbers(cells).to_pylist() == [None, None]
    if not pa.types.is_decimal(kind):
        codes, absent = declared_by(("a", "b") if kind in VIEWS else (1, 2)).codes(cells)
        assert len(codes) == 2
        assert absent.all()
