"""Groups over several columns: every row counts in the group that it is declared to be in, and in no other."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dpcore.jobs.release_job import load_release_job
from dpcore.query.local_backend import LocalPasses
from dpcore.query.prose import GroupNames
from dpcore.query.run import measured as measured_by
from dpcore.query.written_plans import make_release_plan
from support.jobs import FORMATS, refused, write_table
from support.releases import Counter

ROWS = 997
EDGES = [0, 18, 65, 120]
GROUPS = {
    "region": ["south", "north"],
    "age": {"edges": EDGES},
    "day": {"by": "month", "first": "2013-01-15", "last": "2013-03-20"},
}
MONTHS = ["2013-01", "2013-02", "2013-03"]
KINDS = {
    "rows": {"kind": "count"},
    "few": {"kind": "count", "column": "visits", "lower": 2, "upper": 5},
    "cells": {"kind": "histogram", "column": "visits", "edges": [0, 2, 4, 9], "missing": 0},
    "sum": {"kind": "sum", "column": "cost", "lower": -1.5, "upper": 20, "missing": 0},
    "mean": {"kind": "mean", "column": "cost", "lower": -1.5, "upper": 20, "missing": 0},
    "median": {"kind": "median", "column": "cost", "grid": [0, 5, 10, 15], "missing": 0},
    "quartiles": {"kind": "quantile", "column": "cost", "q": [0.25, 0.75], "grid": [0, 5, 10, 15], "missing": 0},
    "std": {"kind": "std", "column": "visits", "lower": 0, "upper": 8, "missing": 0},
    "both": {"kind": "covariance", "columns": ["visits", "cost"], "lower": [0, 0], "upper": [16, 8], "missing": [0, 0]},
    "top": {"kind": "top_s", "column": "visits", "k": 9, "s": 2, "values": True},
}


class Room:
    """What `measure` needs of an output: a folder to spill into."""

    def __init__(self, folder):
        self.spill = folder


class Quiet:
    def begin(self, stage):
        pass

    def update(self, rows, fraction):
        pass


@pytest.fixture
def place(tmp_path, capsys):
    return Counter(tmp_path, capsys)


def people(rows=ROWS):
    """Rows of all groups and of none, with nulls in every column of the groups."""
    index = np.arange(rows)
    regions = [None if i % 17 == 3 else ["north", "south", "abroad"][i * i % 3] for i in range(rows)]
    ages = [None if i % 19 == 5 else [-3, 0, 17, 18, 64.5, 65, 120, 121][i * 7 % 8] for i in range(rows)]
    begin = dt.date(2013, 1, 10)
    days = [None if i % 23 == 7 else begin + dt.timedelta(days=i * 13 % 80) for i in range(rows)]
    return pa.table(
        {
            "region": pa.array(regions, pa.string()),
            "age": pa.array(ages, pa.float64()),
            "day": pa.array(days, pa.date32()),
            "visits": pa.array(index * 5 % 11, pa.int64()),
            "cost": pa.array(index * 7 % 31 / 1.25),
            "person": pa.array(index % 41, pa.int64()),
        }
    )


def age_of(value):
    """The bin of an age."""
    if value is None or not EDGES[0] <= value <= EDGES[-1]:
        return None
    place = min(int(np.searchsorted(EDGES, value, "right")) - 1, len(EDGES) - 2)
    return (EDGES[place], EDGES[place + 1])


def month_of(day):
    inside = day is not None and dt.date(2013, 1, 15) <= day <= dt.date(2013, 3, 20)
    return day.strftime("%Y-%m") if inside else None


def key_of_row(row):
    return row["region"], age_of(row["age"]), month_of(row["day"])


def by_group(table, key=key_of_row):
    """The rows of each group, one after the other."""
    found = {}
    for row in table.to_pylist():
        found.setdefault(key(row), []).append(row)
    return found


def statistic(query, rows):
    """The exact statistic of some rows, computed without the engine: what `exact` makes of the engine's."""
    values = [row[query["column"]] for row in rows] if "column" in query else []
    match query["kind"]:
        case "count" if values or "column" in query:
            return sum(query["lower"] <= value <= query["upper"] for value in values)
        case "count":
            return len(rows)
        case "histogram":
            places = [min(max(np.searchsorted(query["edges"], value, "right") - 1, 0), 2) for value in values]
            return np.bincount(np.array(places, int), minlength=3).tolist()
        case "sum":
            return sum((on_grid(min(max(value, -1.5), 20.0), 20.0) for value in values), Fraction(0))
        case "mean":
            middle = 20 / 2 - 1.5 / 2
            return sum((on_grid(min(max(value - middle, -10.75), 10.75), 10.75) for value in values), Fraction(0)), len(rows)
        case "median" | "quantile":
            grid = query["grid"]
            places = [min(int(np.searchsorted(grid, value, "left")), len(grid) - 1) for value in values]
            return np.bincount(np.array(places, int), minlength=len(grid)).tolist()
        case "std":
            steps = [min(value, 8) * 2**28 for value in values]
            return len(rows), (sum(steps),), sum(step**2 for step in steps)
        case "covariance":
            pairs = [(min(row["visits"], 16) * 2**27, round(Fraction(min(row["cost"], 8)) * 2**28)) for row in rows]
            return len(rows), tuple(map(sum, zip(*pairs, strict=True))) if pairs else (0, 0), sum(one * other for one, other in pairs)
        case "top_s":
            return np.bincount(np.array([value for value in values if value < 9], int), minlength=9).tolist()
    raise AssertionError(query["kind"])


def on_grid(value, largest):
    """The multiple of the grid of sums that is nearest."""
    grid = Fraction(2) ** (math.frexp(largest)[1] - 1 - 50)
    return round(Fraction(value) / grid) * grid


def exact(query, tally, group):
    """The statistic of one group, from the engine's."""
    if query["kind"] in {"sum", "mean"}:
        total = tally.sums.integers[group] * Fraction(tally.sums.grid)
        return total if query["kind"] == "sum" else (total, int(tally.counts[group]))
    if query["kind"] in {"std", "covariance"}:
        moments = list(tally.each())[group]
        return moments.n, moments.sums, moments.product
    return tally[group].tolist() if query["kind"] == "count" else tally[group, :-1].tolist()


def measured(place, table, queries, privacy=None, ending="parquet", threads=2, piece_rows=None):
    """The plan and the exact statistics of a job."""
    place.source = write_table(table, place.folder / f"in.{ending}", row_group_rows=131)
    place.write_release(queries, privacy=privacy or {})
    plan = make_release_plan(load_release_job(place.job), overwrite=True)
    _, tallies, rows = measured_by(plan, LocalPasses(Room(place.folder / "spill"), threads, Quiet(), piece_rows))
    assert rows == len(table)
    return plan, dict(zip(queries, tallies, strict=True))


@pytest.mark.parametrize("ending", FORMATS)
def test_all_combinations_of_lists_bins_and_dates(place, ending):
    queries = {name: query | {"group_by": list(GROUPS), "groups": GROUPS} for name, query in KINDS.items()}
    plan, tallies = measured(place, people(), queries, ending=ending)
    rows = by_group(people())
    keys = list(itertools.product(["south", "north"], itertools.pairwise(EDGES), MONTHS))
    assert plan.grouping.size == len(keys) == 18
    declared = plan.estimators[0].public_parameters()
    assert declared["group_by"] == ["region", "age", "day"]
    assert (
        list(zip(*([tuple(key) if isinstance(key, list) else key for key in each] for each in declared["groups"].values()), strict=True))
        == keys
    )
    for name, query in KINDS.items():
        for group, key in enumerate(keys):
            assert exact(query, tallies[name], group) == statistic(query, rows.get(key, [])), (name, key)


@pytest.mark.parametrize("ending", FORMATS)
def test_nulls_are_a_group_where_they_are_declared(place, ending):
    groups = {
        "region": {"values": ["north"], "null": True},
        "age": {"edges": EDGES, "null": True},
        "day": {"by": "year", "first": "2013-01-15", "last": "2013-03-20", "null": True},
    }
    _, tallies = measured(place, people(), {"n": {"kind": "count", "group_by": list(groups), "groups": groups}}, ending=ending)

    def key(row):
        year = None if row["day"] is None else (month_of(row["day"]) or "none")[:4]
        return row["region"], "none" if row["age"] is not None and age_of(row["age"]) is None else age_of(row["age"]), year

    rows = by_group(people(), key)
    keys = itertools.product(["north", None], [*itertools.pairwise(EDGES), None], ["2013", None])
    assert tallies["n"][:-1].tolist() == [len(rows.get(key, [])) for key in keys]
    assert sum(tallies["n"].tolist()) == ROWS


@pytest.mark.some(6)
@pytest.mark.parametrize("way", ["parquet", "csv", "arrow", "records"])
@pytest.mark.parametrize("ending", FORMATS)
def test_the_rows_of_a_public_table_are_the_groups(place, way, ending):
    wanted = [("north", 10), ("abroad", 3), ("south", 0), ("north", 2), ("nowhere", 0)]
    cells = pa.table({"visits": [visits for _, visits in wanted], "region": [region for region, _ in wanted], "other": list("abcde")})
    if way == "records":
        groups = [{"region": region, "visits": visits} for region, visits in wanted]
    else:
        groups = str(write_table(cells, place.folder / f"cells.{way}"))
    queries = {name: query | {"group_by": ["region", "visits"], "groups": groups} for name, query in KINDS.items()}
    plan, tallies = measured(place, people(), queries, ending=ending)
    rows = by_group(people(), lambda row: (row["region"], row["visits"]))
    text = str if way == ending == "csv" else int  # Where neither file has types, text is compared.
    assert plan.estimators[0].public_parameters()["groups"] == {
        "region": [one for one, _ in wanted],
        "visits": [text(one) for _, one in wanted],
    }
    for name, query in KINDS.items():
        for group, key in enumerate(wanted):
            assert exact(query, tallies[name], group) == statistic(query, rows.get(key, [])), (name, key)


def test_a_null_of_a_public_table_stands_for_nulls(place):
    cells = pa.table({"region": ["north", None, None], "visits": [1, 1, None]})
    groups = str(write_table(cells, place.folder / "cells.parquet"))
    _, tallies = measured(place, people(), {"n": {"kind": "count", "group_by": ["region", "visits"], "groups": groups}})
    rows = by_group(people(), lambda row: (row["region"], row["visits"]))
    assert tallies["n"][:-1].tolist() == [len(rows["north", 1]), len(rows[None, 1]), 0]


def test_pieces_and_threads_do_not_matter(place):
    """The keyed answers, too: noise is drawn on all groups at once, after all rows were added up."""
    queries = {name: query | {"group_by": list(GROUPS), "groups": GROUPS} for name, query in KINDS.items()}
    privacy = {"unit": "person", "max_rows_per_unit": 7, "max_groups_per_unit": 2, "null_unit": "drop"}
    answers = []
    for threads, piece_rows in ((1, None), (2, 10), (3, 77)):
        plan, tallies = measured(place, people(), queries, privacy, threads=threads, piece_rows=piece_rows)
        from dpcore.query.draws import QueryDraws
        from dpcore.tables.arrays import listed
        from dpcore.tables.sections import key_of

        key = key_of(plan.job.testing)
        assert key is not None
        answers.append(
            [
                {name: listed(each) for name, each in answer.release(tally, QueryDraws(key, i)).items()}
                for i, (answer, tally) in enumerate(zip(plan.estimators, tallies.values(), strict=True))
            ]
        )
    assert answers[0] == answers[1] == answers[2]


def test_a_whole_job(place):
    """Lists are aligned with the groups, and intervals hold the truth."""
    place.source = write_table(people(), place.folder / "in.parquet", row_group_rows=131)
    queries = {name: query | {"group_by": list(GROUPS), "groups": GROUPS} for name, query in KINDS.items()}
    place.write_release(queries, privacy={"relation": "add_remove"}, epsilon=50.0)
    rows, answers = by_group(people()), place.answers()["queries"]
    for query, answer in zip(KINDS.values(), answers, strict=True):
        keys = list(zip(*answer["groups"].values(), strict=True))
        assert len(keys) == len(answer["value"]) == len(answer["stderr"]) == len(answer["interval"]) == 18
        for group, (region, age, month) in enumerate(keys):
            found = rows.get((region, tuple(age), month), [])
            if query["kind"] in {"count", "sum", "histogram"}:
                low, high = np.moveaxis(np.array(answer["interval"][group]), -1, 0)
                truth = np.array(statistic(query, found), float)
                assert (low <= truth).all()
                assert (truth <= high).all()
            elif query["kind"] == "mean" and found:
                low, high = answer["interval"][group]
                assert low <= np.mean([min(max(row["cost"], -1.5), 20) for row in found]) <= high
            elif query["kind"] == "top_s":
                assert len(answer["value"][group]) == len(answer["counts"][group]) == 2


def test_one_column_of_a_list_has_keys_by_column(place):
    plan, _ = measured(place, people(), {"n": {"kind": "count", "group_by": ["region"], "groups": ["north"]}})
    assert plan.estimators[0].public_parameters() == {"group_by": ["region"], "groups": {"region": ["north"]}}
    plan, _ = measured(
        place, people(), {"n": {"kind": "count", "group_by": "age", "groups": {"age": {"bins": 2, "lower": 0, "upper": 10}}}}
    )
    assert plan.estimators[0].public_parameters() == {"group_by": "age", "groups": [[0.0, 5.0], [5.0, 10.0]]}


TWO = {"group_by": ["region", "visits"]}
LEAP = {"by": "day", "first": "2013-02-30", "last": "2013-03-01"}


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"group_by": [], "groups": ["a"]}, ["group_by must be the name of a column or a list of names, got []"]),
        ({"group_by": ["a", "a"], "groups": ["a"]}, ["group_by must list at most 16 different columns"]),
        ({**TWO, "groups": ["a"]}, ["groups = [...] is for one column; with several write groups = { region = [...], visits = [...] }"]),
        ({**TWO, "groups": {"region": ["a"]}}, ["groups must declare the columns of group_by, 'region', 'visits', but has 'region'"]),
        ({**TWO, "groups": {"region": ["a"], "visits": {"k": 1}}}, ["visits.k", "k must be in [2, 16777216], got 1"]),
        ({**TWO, "groups": {"region": ["a", "a"], "visits": [1]}}, ["region must be distinct, but 'a' is listed 2 times"]),
        ({**TWO, "groups": {"region": ["a"], "visits": {"edgs": [1, 2]}}}, ["visits.edgs: unknown key", "Did you mean 'edges'?"]),
        ({**TWO, "groups": {"region": ["a"], "visits": {}}}, ["visits: needs one of values = [...]", "none was given"]),
        ({**TWO, "groups": {"region": ["a"], "visits": {"edges": [2, 1]}}}, ["edges must increase, but edges[1] = 1.0 follows 2.0"]),
        ({**TWO, "groups": {"region": ["a"], "visits": {"bins": 3}}}, ["visits: bins needs lower and upper, in this order"]),
        ({**TWO, "groups": {"region": ["a"], "visits": {"k": 3, "lower": 1}}}, ["lower and upper belong to bins, which was not given"]),
        ({"group_by": "day", "groups": {"day": {"by": "week"}}}, ["day.by = 'week': must be 'year', 'month' or 'day'"]),
        ({"group_by": "day", "groups": {"day": {"by": "day", "first": "2013-01-01"}}}, ["by needs first and last", "last = None"]),
        ({"group_by": "day", "groups": {"day": LEAP}}, ["day.first: must be a date like 2013-01-31, got '2013-02-30'"]),
        ({**TWO, "groups": {"region": ["a"], "visits": {"k": 1_000_001}}}, ["groups must be at most 1000000", "are 1000001"]),
        ({**TWO, "groups": {"region": {"k": 2000}, "visits": {"k": 2000}}}, ["are 4000000; name those that are wanted in a public table"]),
        ({**TWO, "groups": "cells.txt"}, ["the path of a public table", "'cells.txt'"]),
        ({**TWO, "groups": "no-such.csv"}, ["no-such.csv"]),
        ({**TWO, "groups": [{"region": "a", "visits": 1}, {"region": "a"}]}, ["has the same columns in each; groups[1] is"]),
        ({**TWO, "groups": [{"region": "a", "visits": 0.5}]}, ["groups[0].visits must be a string or an integer, got 0.5"]),
        ({**TWO, "groups": [{"region": "a", "visits": 1}] * 2}, ["another combination, but region = 'a', visits = 1 comes 2 times"]),
        ({**TWO, "groups": [{"region": "a", "visits": 1}, {"region": "b", "visits": "x"}]}, ["all strings or all integers"]),
        ({**TWO, "groups": {"region": {"by": "year", "first": "2013-01-01", "last": "2013-01-02"}, "visits": [1]}}, []),
        ({"group_by": "cost", "groups": {"cost": ["a"]}}, ["column 'cost' has type double"]),
    ],
    ids=str,
)
def test_mistakes(place, query, words):
    place.source = write_table(people(40), place.folder / "in.parquet")
    place.write_release({"x": {"kind": "count", **query}})
    if not words:
        assert place.run().code == 0  # text may hold dates
    elif words == ["no-such.csv"]:
        done = place.run()
        assert done.code == 4
        assert "no such file" in done.err
    else:
        refused(place, *words)


def test_a_public_table_that_is_none(place):
    place.source = write_table(people(40), place.folder / "in.parquet")
    query = {"kind": "count", **TWO, "groups": str(place.folder / "cells.csv")}
    place.write_release({"x": query})
    for text, words in (
        ("region,visits\nnorth,1\nnorth,2\nnorth,1\n", ["another combination, but region = 'north', visits = '1' comes 2 times"]),
        ("region,visit\nnorth,1\n", ["there is no column 'visits'", "Did you mean 'visit'?"]),
        ("region,visits\n", ["has no rows"]),
        ("region,visits\nnorth,one\n", ["the column holds integers, but category 0 is 'one'"]),
        ("region,visits\n,1\n", ["column 'region' of the groups has no value"]),
    ):
        (place.folder / "cells.csv").write_text(text, encoding="utf-8")
        refused(place, *words)
    write_table(pa.table({"region": ["a"], "visits": [0.5]}), place.folder / "cells.parquet")
    place.write_release({"x": query | {"groups": str(place.folder / "cells.parquet")}})
    refused(place, "column 'visits' of the groups has type double; it must be a string or an integer type")
    place.write_release({"x": query | {"groups": str(place.source)}})
    refused(place, "in.parquet")


def test_a_job_beyond_the_cells_of_an_answer(place):
    place.source = write_table(people(40), place.folder / "in.parquet")
    groups = {"group_by": "visits", "groups": {"visits": {"k": 600_000}}}
    for name, words in (("cells", "categories or bins must have at most 1048576 points for all groups together, got 1800000"),
                        ("median", "grid must have at most 1048576 points for all groups together, got 2400000"),
                        ("top", "candidates must have at most 1048576 points for all groups together, got 5400000")):  # fmt: skip
        place.write_release({"x": KINDS[name] | groups})
        refused(place, words)


def test_names_of_groups():
    names = GroupNames({"groups": {"a": ["x", None], "b": [[0, 1.5], [1.5, 4]]}})
    assert list(names) == ["x, 0 to below 1.5", "no value, 1.5 to 4"]
    assert names[1:] == ["no value, 1.5 to 4"]
