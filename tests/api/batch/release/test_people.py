"""Queries about whole units: how many there are, how many different values they have, and sums of which each has a bounded part."""

from __future__ import annotations

import datetime as dt
import decimal
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dpcore.jobs.release_job import load_release_job
from dpcore.query import unit_statistics as whole_units
from dpcore.query.run import run
from dpcore.query.written_plans import make_release_plan
from dpcore.tables.units import by_unit
from support.jobs import FORMATS, write_table
from support.laws import p_value
from support.releases import Counter

SURE_SUM = {"kind": "sum", "column": "cost", "epsilon": 1e10}
ROWS = 2000
REGIONS = ["north", "south"]
GROUPED = {"group_by": "region", "groups": REGIONS}
DISTINCT = {
    "units": {"kind": "count_distinct"},
    "sites": {"kind": "count_distinct", "column": "site", "max_values_per_unit": 1000},
    "sites by region": {"kind": "count_distinct", "column": "site", "max_values_per_unit": 1000, **GROUPED},
    "codes": {"kind": "count_distinct", "column": "code", "k": 20, "max_values_per_unit": 1000},
    "words": {"kind": "count_distinct", "column": "site", "categories": ["s1", "s2", "nowhere"], "max_values_per_unit": 1000, **GROUPED},
    "all of it": {**SURE_SUM, "max_sum_per_unit": 1e6, "missing": 0},
    "some of it": {**SURE_SUM, "max_sum_per_unit": 40, "missing": 0},
    "skipped": {**SURE_SUM, "max_sum_per_unit": 40, "missing": "skip", "lower": -5, **GROUPED},
}


def table(rows=ROWS):
    index = np.arange(rows)
    people = [None if i % 41 == 0 else f"p{i * i % 151}" for i in range(rows)]
    return pa.table(
        {
            "person": pa.array(people),
            "site": pa.array([None if i % 17 == 3 else f"s{i * 7919 % 307}" for i in range(rows)]),
            "region": pa.array([[*REGIONS, "abroad"][i // 5 % 3] for i in range(rows)]),
            "code": pa.array(index * 31 % 57, pa.int32()),
            "cost": pa.array([None if i % 23 == 5 else (i * 37 % 400) / 10 - 8 for i in range(rows)]),
        }
    )


@pytest.fixture
def place(tmp_path, capsys):
    place = Counter(tmp_path, capsys)
    write_table(table(), place.source, row_group_rows=333)
    return place


def answers(place, queries, privacy=None, epsilon=1e5, **how):
    place.write_release(queries, privacy={"max_epsilon": 1e12, **(privacy or {})}, epsilon=epsilon)
    found = run(make_release_plan(load_release_job(place.job), overwrite=True), **how)
    return {query["name"]: query["value"] for query in found["queries"]}


def rows_of(own):
    rows = table().to_pylist()
    return rows if own else [row for row in rows if row["person"] is not None]


def part_of(row, total, most, lower):
    cost = min(max(row["cost"] or 0.0, lower), most)
    return Fraction(cost) if total <= most else Fraction(cost) * most / total


def bounded_sum(rows, most, lower, among=None):
    """The sum of scaled values, before steps are cut."""
    totals = defaultdict(Fraction)
    for i, row in enumerate(rows):
        totals[row["person"] or i] += abs(part_of(row, 0, most, lower))
    return float(sum(part_of(row, totals[row["person"] or i], most, lower) for i, row in enumerate(rows) if among in {None, row["region"]}))


def truth(own):
    rows = rows_of(own)
    there = [row for row in rows if row["site"]]
    return {
        "units": len({row["person"] or i for i, row in enumerate(rows)}),
        "sites": len({row["site"] for row in there}),
        "sites by region": [len({row["site"] for row in there if row["region"] == region}) for region in REGIONS],
        "codes": len({row["code"] for row in rows if row["code"] < 20}),
        "words": [len({row["site"] for row in there if row["region"] == region} & {"s1", "s2"}) for region in REGIONS],
        "all of it": bounded_sum(rows, 1e6, -1e6),
        "some of it": bounded_sum(rows, 40, -40),
        "skipped": [bounded_sum([row for row in rows if row["region"] in REGIONS], 40, -5, region) for region in REGIONS],
    }


@pytest.mark.long
@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("own", [False, True])
def test_answers_are_those_of_a_computation_by_hand(place, source, own):
    place.source = place.folder / f"in.{source}"
    write_table(table(), place.source, row_group_rows=333)
    privacy = {"unit": "person"} | ({"null_unit": "own"} if own else {})
    found, wanted = answers(place, DISTINCT, privacy), truth(own)
    for name, value in wanted.items():
        assert found[name] == (pytest.approx(value, abs=0.01) if name in {"all of it", "some of it", "skipped"} else value), name


@pytest.mark.long
def test_answers_do_not_depend_on_pieces_threads_or_memory(place, monkeypatch):
    queries = {name: query | ({"max_values_per_unit": 2} if "max_values_per_unit" in query else {}) for name, query in DISTINCT.items()}
    queries["units by region"] = {"kind": "count_distinct", **GROUPED}
    privacy = {"unit": "person", "max_rows_per_unit": 5, "null_unit": "own"}
    once = answers(place, queries, privacy, threads=1)
    assert answers(place, queries, privacy, threads=3, piece_rows=7) == once
    for name in ("HELD_BYTES", "RUN_BYTES"):
        monkeypatch.setattr(by_unit, name, 3000)
    for module in (by_unit, whole_units):
        monkeypatch.setattr(module, "PIECE_ROWS", 20)
    assert answers(place, queries, privacy, threads=2, piece_rows=50) == once
    assert place.left_behind() == ["answers.json"]


def test_units_choose_among_their_values_uniformly(place):
    """Each of 4,000 units has the value 0 in one row, 1 in two and 2 in five; each value is as likely to be the one that stays."""
    units, values = 4000, [0, 1, 1, 2, 2, 2, 2, 2]
    whose = np.repeat(np.arange(units), len(values))
    column = np.tile(values, units)
    write_table(pa.table({"person": whose, "value": column + 3 * whose, "place": column}), place.source)
    query = {"kind": "count_distinct", "column": "value", "max_values_per_unit": 1, "group_by": "place", "groups": [0, 1, 2]}
    counts = np.array(answers(place, {"it": query}, {"unit": "person"})["it"])
    assert counts.sum() == units
    assert p_value(counts, np.full(3, 1 / 3)) > 1e-6
    # Had every row the same chance, 2 would stay five times as often as 0.
    assert p_value(counts, np.array([1, 2, 5]) / 8) < 1e-6


def test_rows_need_no_bound_if_every_query_bounds_units_itself(place):
    with pytest.raises(Exception, match="max_rows_per_unit is required with unit = 'person'"):
        answers(place, {"n": {"kind": "count"}, "units": DISTINCT["units"]}, {"unit": "person"})
    with pytest.raises(Exception, match="max_rows_per_unit is required"):
        answers(place, {"units": {"kind": "count_distinct", **GROUPED}}, {"unit": "person"})
    found = answers(place, {"units": DISTINCT["units"], "n": {"kind": "count"}}, {"unit": "person", "max_rows_per_unit": 1})
    assert found["units"] == found["n"] == truth(own=False)["units"]


@pytest.mark.parametrize(
    ("query", "privacy", "said"),
    [
        ({"kind": "count_distinct"}, {}, 'write kind = "count"'),
        ({"kind": "count_distinct", "column": "site"}, {"unit": "person"}, "max_values_per_unit is required with unit = 'person'"),
        ({"kind": "count_distinct", "column": "site", "max_values_per_unit": 2}, {}, "must be 1 or left out"),
        ({"kind": "count_distinct", "max_values_per_unit": 2}, {"unit": "person"}, "max_values_per_unit without column"),
        ({"kind": "count_distinct", "column": "site", "k": 3, "categories": ["a", "b"]}, {}, "categories and k were given"),
        ({"kind": "sum", "column": "cost", "max_sum_per_unit": 5}, {}, "max_sum_per_unit is for jobs whose unit is a column"),
        ({"kind": "sum", "column": "cost", "max_sum_per_unit": -5}, {"unit": "person"}, "max_sum_per_unit must be"),
        ({"kind": "mean", "column": "cost", "max_sum_per_unit": 5, "lower": 0, "upper": 1}, {"unit": "person"}, "unknown key"),
    ],
)
def test_what_makes_no_sense_is_refused(place, query, privacy, said):
    with pytest.raises(Exception, match=said):
        answers(place, {"it": query}, privacy)


@pytest.mark.long
def test_a_row_has_one_value(place):
    query = {"kind": "count_distinct", "column": "site"}
    found = answers(place, {"sites": query, "by": query | GROUPED})
    rows = [row for row in rows_of(own=True) if row["site"]]
    assert found["sites"] == len({row["site"] for row in rows})
    assert found["by"] == [len({row["site"] for row in rows if row["region"] == region}) for region in REGIONS]


NOW = dt.datetime(2020, 1, 2, 3, 4, 5, 6)
VALUES = {
    "int8": (pa.int8(), [1, -1, 1, None]),
    "int64": (pa.int64(), [2**63 - 1, 2**63 - 2, -(2**63), None, 2**63 - 1]),
    "uint64": (pa.uint64(), [2**64 - 1, 2**64 - 2, 0, None, 0]),
    "float32": (pa.float32(), [0.5, 0.5, None, float("nan"), 1.0]),
    "float64": (pa.float64(), [0.0, -0.0, 1.0, float("nan"), None, 1.0]),
    "bool": (pa.bool_(), [True, False, None, True]),
    "string": (pa.string(), ["a", "", "a", None, "NA"]),
    "large_string": (pa.large_string(), ["a", "b" * 300, "b" * 300, "b" * 299 + "c", None]),
    "binary": (pa.large_binary(), [b"a", b"\xff", b"\xff", None]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a", None]),
    "date32": (pa.date32(), [NOW.date(), NOW.date(), dt.date(1, 1, 1), None]),
    "date64": (pa.date64(), [NOW.date(), NOW.date(), dt.date(1, 1, 1), None]),
    "timestamp": (pa.timestamp("us"), [NOW, NOW, NOW.replace(microsecond=7), None]),
    "zone": (pa.timestamp("ms", "Europe/Berlin"), [NOW, NOW, NOW.replace(second=7), None]),
    "time": (pa.time64("us"), [NOW.time(), NOW.time(), dt.time(0), None]),
    "duration": (pa.duration("s"), [dt.timedelta(1), dt.timedelta(1), dt.timedelta(0), None]),
    "decimal128": (pa.decimal128(5, 2), [decimal.Decimal("1.10"), decimal.Decimal("1.1"), decimal.Decimal(-2), None]),
    "decimal256": (pa.decimal256(76, 0), [decimal.Decimal(10**75), decimal.Decimal(10**75), decimal.Decimal(10**75 + 1), None]),
    "null": (pa.null(), [None, None]),
}


@pytest.mark.some(8)
@pytest.mark.parametrize("name", VALUES)
def test_values_of_every_type_are_compared_as_they_are(place, name):
    kind, values = VALUES[name]
    place.source = place.folder / "in.arrow"
    column = pa.array([None if isinstance(value, float) and value != value else value for value in values], kind)
    write_table(pa.table({"person": np.arange(len(values)) % 2, "value": column}), place.source)
    query = {"kind": "count_distinct", "column": "value"}
    wanted = len(set(column.drop_null().to_pylist()))
    assert answers(place, {"it": query}) == {"it": wanted}
    assert answers(place, {"it": query | {"max_values_per_unit": 9}}, {"unit": "person"}) == {"it": wanted}


def test_jobs_without_these_keys_keep_their_run_ids(place):
    from dpcore.jobs.release_job import parse_release_job
    from dpcore.tables.run_ids import run_ids

    job = {
        "version": 1,
        "input": {"path": "/in.parquet"},
        "output": {"path": "/out.json"},
        "privacy": {"max_epsilon": 1.0},
        "query": [{"name": "a", "kind": "sum", "column": "x", "lower": 0, "upper": 1, "missing": 0, "epsilon": 1.0}],
    }
    assert "max_sum_per_unit" not in str(run_ids(parse_release_job(job)))
    bounded = {**job["query"][0], "max_sum_per_unit": 1.0}
    by_person = {**job, "privacy": {"max_epsilon": 1.0, "unit": "person"}, "query": [bounded]}
    assert set(run_ids(parse_release_job(by_person))).isdisjoint(run_ids(parse_release_job(job)))


@pytest.mark.long
def test_the_page_and_the_terminal_say_what_was_asked(place):
    queries = DISTINCT | {"units by region": {"kind": "count_distinct", **GROUPED}}
    place.write_release(queries, privacy={"unit": "person", "max_rows_per_unit": 3, "max_epsilon": 1e12})
    done = place.dpcore("release", place.job, "--report", place.folder / "report")
    assert done.code == 0, done.said
    page = next((place.folder / "report").glob("*.html")).read_text(encoding="utf-8")
    for words in ("How many different", "How many units there are", "at most 40 in all"):
        assert words in page, words


@pytest.mark.long
def test_only_rows_that_pass_a_condition_are_there(place):
    """Of the job or of the query; and the rows of a unit that do not pass take no part in its bound."""
    queries = {name: DISTINCT[name] for name in ("units", "sites", "some of it")}
    passing = [row for row in rows_of(own=False) if row["region"] == "north"]
    wanted = {
        "units": len({row["person"] for row in passing}),
        "sites": len({row["site"] for row in passing if row["site"]}),
        "some of it": pytest.approx(bounded_sum(passing, 40, -40), abs=0.01),
    }
    by_query = {name: query | {"where": "region = 'north'"} for name, query in queries.items()}
    assert answers(place, by_query, {"unit": "person"}) == wanted
    few = {name: query | ({"max_values_per_unit": 1} if name == "sites" else {}) for name, query in queries.items()}
    one = answers(place, {name: query | {"where": "region = 'north'"} for name, query in few.items()}, {"unit": "person"})
    place.write_release(few, privacy={"unit": "person", "max_epsilon": 1e12}, epsilon=1e5)
    place.job.write_text(place.job.read_text().replace("version = 1\n", "version = 1\nwhere = \"region = 'north'\"\n"))
    found = run(make_release_plan(load_release_job(place.job), overwrite=True))
    assert {query["name"]: query["value"] for query in found["queries"]} == one


@pytest.mark.parametrize("sign", [1, -1])
def test_bounds_beyond_the_sum_move_no_number_beyond_it(place, sign):
    """A row that names no unit is one by itself, and is not scaled."""
    write_table(pa.table({"person": pa.array(["a", "a", None]), "x": pa.array([0.0, 9.0 * sign, 9.0 * sign])}), place.source)
    ends = sorted((5.0 * sign, 10.0 * sign))
    query = {"kind": "sum", "column": "x", "max_sum_per_unit": 3, "lower": ends[0], "upper": ends[1], "missing": ends[0], "epsilon": 1e8}
    found = answers(place, {"it": query}, {"unit": "person", "null_unit": "own"})
    assert found["it"] == pytest.approx(6 * sign, abs=1e-3)
