"""Every type of Arrow: each use of a column works, or is refused by name before a row is read. docs/job-input.md has the table."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal

import pyarrow as pa
import pytest

from dpcore.errors import JobError
from dpcore.jobs.release_job import parse_release_job
from dpcore.query.plan import read_of
from dpcore.query.run import run
from dpcore.query.written_plans import make_release_plan
from dpcore.tables.sql.arrow_values import database_type
from support.jobs import write_table

ROWS = 40
NUMBER, TIME, MONTH, LISTED, KEY, DIFFERENT, HELD = "number", "time", "month", "listed", "key", "different", "held"


def cells(value, kind):
    """A column with nulls, of five values."""
    return pa.array([None if place % 7 == 3 else value(place % 5) for place in range(ROWS)], kind)


def named(*names):
    """Types that this version of pyarrow has."""
    return [getattr(pa, name)() for name in names if hasattr(pa, name)]


INTEGERS = named("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = named("float16", "float32", "float64")
DECIMALS = [getattr(pa, name)(digits, 2) for name, digits in (("decimal32", 9), ("decimal64", 18), ("decimal128", 38)) if hasattr(pa, name)]
TEXTS, BYTES = named("string", "large_string", "string_view"), [*named("binary", "large_binary", "binary_view"), pa.binary(1)]
LISTS = [pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.int64(), 1)]
TIMESTAMPS = [pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")]
INSTANTS = [pa.timestamp("us", "Europe/Berlin"), pa.timestamp("ns", "UTC")]
TIMES, DURATIONS = [pa.time32("s"), pa.time64("ns")], [pa.duration(unit) for unit in ("s", "ms", "us", "ns")]
DAY, MOMENT, HOUR, LONG = "2020-01-02", "2020-01-02T00:00:00", "01:00:00", "PT1S"
ALL = {NUMBER, LISTED, DIFFERENT, HELD}
OF_TIME = {TIME, LISTED, DIFFERENT, HELD}
USES = [
    # types, their values, the start of a range of them, a category, and the uses
    ([pa.bool_()], lambda i: i % 2 == 0, 0, False, ALL),
    (INTEGERS, lambda i: i, 0, 1, ALL | {KEY}),
    (FLOATS, float, 0, 1, ALL),
    ([*DECIMALS, pa.decimal256(76, 0), pa.decimal128(5, -2)], lambda i: Decimal(100 * i), 0, 100, ALL),
    (TEXTS, lambda i: "ab"[i % 2], None, "a", {TIME, LISTED, MONTH, KEY, DIFFERENT, HELD}),
    (BYTES[:1], lambda i: b"ab"[i % 2 : i % 2 + 1], None, "a", {MONTH, DIFFERENT, HELD}),
    (BYTES[1:], lambda i: b"ab"[i % 2 : i % 2 + 1], None, "a", {DIFFERENT, HELD}),
    ([pa.date32(), pa.date64()], lambda i: dt.date(2020, 1, 1 + i), DAY, DAY, OF_TIME | {MONTH, KEY}),
    (TIMESTAMPS, lambda i: dt.datetime(2020, 1, 1 + i), MOMENT, MOMENT, OF_TIME | {MONTH}),
    (INSTANTS, lambda i: dt.datetime(2020, 1, 1 + i), f"{MOMENT}Z", f"{MOMENT}Z", OF_TIME | {MONTH}),
    (TIMES, dt.time, HOUR, HOUR, OF_TIME),
    (DURATIONS, lambda i: dt.timedelta(seconds=i), LONG, LONG, OF_TIME),
    ([pa.month_day_nano_interval()], lambda i: (1, i, 0), None, None, {HELD}),
    (LISTS, lambda i: [i], None, None, set()),
    ([pa.struct([("a", pa.int64())])], lambda i: {"a": i}, None, None, set()),
    ([pa.map_(pa.string(), pa.int64())], lambda i: [("a", i)], None, None, set()),
    ([pa.uuid()] if hasattr(pa, "uuid") else [], lambda _: bytes(16), None, None, {HELD}),
]  # fmt: skip
OTHERS = [
    ("union", pa.UnionArray.from_sparse(pa.array([0] * ROWS, pa.int8()), [pa.array(range(ROWS))])),
    ("run-end encoded", pa.RunEndEncodedArray.from_arrays(pa.array([ROWS], pa.int32()), pa.array([1]))),
]
CASES = [(kind, value, low, listed, uses) for kinds, value, low, listed, uses in USES for kind in kinds]
UNITS = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string, pa.types.is_date, pa.types.is_timestamp)
ENDS = {
    None: 3,
    0: 3,
    DAY: "2020-01-04",
    MOMENT: "2020-01-04T00:00:00",
    f"{MOMENT}Z": "2020-01-04T00:00:00Z",
    HOUR: "03:00:00",
    LONG: "PT3S",
}


def queries_of(use, low, listed):
    """What is asked of a column for each use."""
    start = low if isinstance(low, str) else DAY
    column, high = {"column": "x", "missing": "skip"}, ENDS[start]
    months = {"by": "month", "first": dt.date(2020, 1, 1), "last": dt.date(2020, 3, 1)}
    others = [listed, not listed if isinstance(listed, bool) else high if isinstance(low, str) else "b" if isinstance(listed, str) else 0]
    few = [1, 2] if listed is None else others
    return {
        NUMBER: [
            {"kind": "mean", **column, "lower": 0, "upper": 3}, {"kind": "var", **column, "lower": 0, "upper": 3},
            {"kind": "sum", **column, "bounds": "private", "bounds_epsilon": 0.5}, {"kind": "median", **column, "grid": [0, 1, 3]},
            {"kind": "count", "group_by": "x", "groups": {"x": {"edges": [0, 1, 3]}}},
        ],
        TIME: [
            {"kind": "mean", **column, "lower": start, "upper": high}, {"kind": "histogram", **column, "edges": [start, high]},
            {"kind": "count", "column": "x", "lower": start, "upper": high}, {"kind": "median", **column, "grid": [start, high]},
        ],
        MONTH: [{"kind": "count", "group_by": "x", "groups": {"x": months}}],
        LISTED: [
            {"kind": "histogram", **column, "categories": few, "unknown": "skip"}, {"kind": "count", "group_by": "x", "groups": few},
            {"kind": "top_s", "column": "x", "s": 1, "candidates": few},
        ],
        KEY: [{"kind": "groups", "group_by": "x", "delta": 1e-6}],
        DIFFERENT: [{"kind": "count_distinct", "column": "x", "max_values_per_unit": 1}],
        HELD: [{"kind": "count", **column}],
    }[use]  # fmt: skip


def job_of(source, queries, **privacy):
    entries = [{"name": f"q{place}", "epsilon": 1.0, **query} for place, query in enumerate(queries)]
    output = {"path": str(source.parent / "out.json")}
    privacy = {"max_epsilon": 1e6, "max_delta": 0.5, "unit": "y", "max_rows_per_unit": 3, **privacy}
    return parse_release_job({"version": 1, "input": {"path": str(source)}, "output": output, "privacy": privacy, "query": entries})


@pytest.mark.parametrize(
    ("kind", "value", "low", "listed", "uses"), CASES, ids=lambda each: str(each) if isinstance(each, pa.DataType) else ""
)
def test_each_use_takes_the_types_that_it_says(tmp_path, kind, value, low, listed, uses):
    """By the schema alone, for a column and for labels of it."""
    del value
    kinds = [kind] if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType) else [kind, pa.dictionary(pa.int32(), kind)]
    for use in (NUMBER, TIME, MONTH, LISTED, KEY, DIFFERENT, HELD):
        for position, query in enumerate(job_of(tmp_path / "in.arrow", queries_of(use, low, listed)).query):
            taken = [all(cells.accepts(each) for _, cells in read_of(position, query).columns() if _ == "x") for each in kinds]
            assert taken == [use in uses] * len(kinds), (use, query.kind)


def asked(source, queries, **privacy):
    """Run a job; None if it is refused by name."""
    try:
        plan = make_release_plan(job_of(source, queries, **privacy), overwrite=True)
    except JobError as error:
        return None if re.search("has type|a column of a type that no expression can use|a unit is", str(error)) else error
    return run(plan)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "value", "low", "listed", "uses"), CASES, ids=lambda each: str(each) if isinstance(each, pa.DataType) else ""
)
def test_a_job_runs_or_is_refused_with_its_plan(tmp_path, kind, value, low, listed, uses):
    column = cells(value, kind)
    plain = not pa.types.is_nested(kind) and not isinstance(kind, pa.BaseExtensionType)
    columns = [column, *([pa.DictionaryArray.from_arrays(pa.array(range(ROWS)), column)] if plain else [])]
    for each in columns:
        source = write_table(pa.table({"x": each, "y": range(ROWS)}), tmp_path / "in.arrow")
        for use in (NUMBER, TIME, MONTH, LISTED, KEY, DIFFERENT, HELD):
            queries = queries_of(use, low, listed)
            filtered = [] if use == KEY else [{**query, "where": "y > 3"} for query in queries if "bounds" not in query]
            for some in (queries, filtered):
                assert not some or (asked(source, some) is not None) == (use in uses), use
        answered = asked(source, [{"kind": "count", "where": "x IS NOT NULL"}]) is not None
        assert answered == (database_type(each.type) is not None)
        units = any(is_kind(kind) for is_kind in UNITS) or kind in TEXTS
        assert (asked(source, [{"kind": "count", "where": "y > 3"}], unit="x") is not None) == units


@pytest.mark.parametrize(("name", "column"), OTHERS)
def test_what_is_no_plain_column_is_refused(tmp_path, name, column):
    del name
    source = write_table(pa.table({"x": column, "y": range(ROWS)}), tmp_path / "in.arrow")
    for use in (NUMBER, TIME, MONTH, LISTED, KEY, DIFFERENT, HELD):
        assert asked(source, queries_of(use, None, "a")) is None
