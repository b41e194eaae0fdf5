"""Private tables that are joined on the unit: against joins of others, over pairs of tables, and by the index alone."""

from __future__ import annotations

import datetime as dt
import itertools
import random

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.batch import make_release_plan, parse_release_job, release
from dpcore.query.local_backend import LocalPasses
from dpcore.tables.progress import Silent
from dpcore.tables.units import unit_index, unit_rows
from dpcore.tables.units.contributions import compared
from dpcore.tables.units.unit_index import UnitIndex
from support.answers import parts_of
from support.jobs import KEY, write_table
from support.made import Room
from support.neighbours import Statistics, Tables
from support.parts import losses
from support.versions import writes_views

EPSILON = 0.75
COUNT = {"name": "n", "kind": "count", "epsilon": EPSILON}
SUM = {"name": "s", "kind": "sum", "column": "z", "lower": -2, "upper": 3, "missing": 1, "epsilon": EPSILON}
BINS = {"name": "b", "kind": "histogram", "column": "z", "edges": [-10, 0, 10], "missing": 0.5, "epsilon": EPSILON}
GROUPED = {"name": "g", "kind": "count", "group_by": "t", "groups": ["a", "b"], "epsilon": EPSILON}
WHERE = {"name": "w", "kind": "count", "where": "z > 0 OR v > 8", "epsilon": EPSILON}
QUERIES = [COUNT, SUM, BINS, GROUPED, WHERE]
RIGHT = {"z": "sum(z)", "t": "min(t)"}


def job_of(folder, *, how="left", made=None, privacy=None, queries=QUERIES, right=None, **keys):
    """Two tables, `left.parquet` and `right.parquet`."""
    join = [{"path": str(folder / "right.parquet"), "unit": "who", "how": how, "per_unit": RIGHT, **(right or {})}]
    stage = {"join": join} if made is None else {"per_unit": {**made, "join": join}}
    bound = {} if made is not None else {"max_rows_per_unit": 2}
    return {
        "version": 1, "input": {"path": str(folder / "left.parquet")}, "output": {"path": str(folder / "out.json")},
        "privacy": {"max_epsilon": 1e9, "unit": "unit", **bound, **(privacy or {})}, "query": queries, **stage, **keys,
    }  # fmt: skip


# Over pairs of tables

LEFT_COLUMNS, RIGHT_COLUMNS = {"v": pa.int64()}, {"z": pa.int64(), "t": pa.string()}
OTHERS = [((), ()), (((1,), (9,)), ((-5, "a"), (7, "b")))]
OWN = [(1,), (9,)]
THEIRS = [(), ((5, "a"),), ((-9, "b"),), ((-9, "b"), (2, "a"))]
SETTINGS = [
    pytest.param(how, made, relation, id=f"{how} {'made' if made else 'rows'} {relation}")
    for how, made, relation in itertools.product(("left", "inner"), (None, {"v": "max(v)"}), ("replace", "add_remove"))
]


def plan_of(folder, **keys):
    write_table(pa.table({"unit": [1], "v": [1]}), folder / "left.parquet")
    write_table(pa.table({"unit": [1], "z": [1], "t": ["a"]}), folder / "right.parquet")
    return make_release_plan(parse_release_job(job_of(folder, right={"unit": "unit"}, **keys)), overwrite=True)


def loss_of(plan, tables, folder, query):
    found = Statistics(plan, tables, LEFT_COLUMNS, folder / "spill", RIGHT_COLUMNS).of(query)
    return float(losses([parts_of(plan.estimators[query], each) for each in found], tables.pairs).max())


@pytest.mark.parametrize(("how", "made", "relation"), SETTINGS)
def test_no_neighbour_among_pairs_of_tables_costs_more(tmp_path, how, made, relation):
    """All that one unit may have in both tables, beside others: it is replaced, or comes and goes, in both together."""
    plan = plan_of(tmp_path, how=how, made=made, privacy={"relation": relation})
    tables = Tables.pairs_of(OTHERS, OWN, 2, relation, THEIRS)
    for place, query in enumerate(QUERIES):
        loss = loss_of(plan, tables, tmp_path, place)
        assert EPSILON / 2 * (1 - 1e-6) <= loss <= EPSILON * (1 + 1e-6), query["name"]


def test_a_right_side_that_is_not_made_unique_is_rejected(tmp_path):
    """The broken twin joins the rows of the other table as they are: a unit with two of them there has each of its rows twice."""
    plan = plan_of(tmp_path, how="left")
    tables = Tables.pairs_of(OTHERS, OWN, 2, "replace", THEIRS)
    assert loss_of(plan, tables, tmp_path, 0) <= EPSILON * (1 + 1e-6)
    left, right = tables.batch(LEFT_COLUMNS), tables.other_batch(RIGHT_COLUMNS)  # noqa: F841 - read by the database
    rows = dict(duckdb.sql('SELECT "table", count(*) FROM "left" LEFT JOIN "right" USING (unit, "table") GROUP BY 1').fetchall())
    counts = np.array([rows.get(place, 0) for place in range(len(tables.rows))])
    steps = np.abs(counts[tables.pairs[:, 0]] - counts[tables.pairs[:, 1]]).max()
    (noise,) = plan.estimators[0].noise
    assert steps / noise.scale > EPSILON * (1 + 1e-6)


def test_a_hundred_thousand_neighbours(tmp_path):
    """Rows of units that stay have what they had, bit by bit, whatever others have in the other table, in whatever order."""
    rng = np.random.default_rng(5)
    units, n = 150_000, 300_000
    who = rng.integers(0, units, n)
    right = {"z": rng.integers(-9, 9, n), "t": rng.choice(["a", "b", "c"], n)}
    changes = rng.random(units) < 0.3
    other = {name: np.where(changes[who], rng.permutation(each), each) for name, each in right.items()}
    moved = rng.permutation(n)
    gone = ~(changes[who] & (rng.random(n) < 0.5))
    write_table(pa.table({"unit": np.arange(units), "v": np.zeros(units, np.int64)}), tmp_path / "left.parquet")
    found = []
    for table in (pa.table({"who": who, **right}), pa.table({"who": who, **other}).filter(pa.array(gone)).take(np.argsort(moved[gone]))):
        write_table(table, tmp_path / "right.parquet")
        plan = make_release_plan(parse_release_job(job_of(tmp_path)), overwrite=True)
        (join,) = LocalPasses(Room(tmp_path / "spill"), 2, Silent(), 20_000).make_rows(plan).joins
        columns, _ = join.of(pa.array(np.arange(units)))
        found.append([columns["z"].to_pylist(), columns["t"].to_pylist()])
    stayed = np.flatnonzero(~changes).tolist()
    for one, two in zip(*found, strict=True):
        assert [one[unit] for unit in stayed] == [two[unit] for unit in stayed]
        assert one != two
    assert len(stayed) > 100_000


# Against the joins of a database


def some_tables(seed, rows=500, units=60):
    rng = random.Random(seed)

    def column(make, n):
        return [None if rng.random() < 0.1 else make() for _ in range(n)]

    left = pa.table({"unit": column(lambda: rng.randrange(units), rows), "v": column(lambda: rng.randrange(9), rows)})
    right = pa.table({
        "who": pa.array(column(lambda: rng.randrange(10, units + 20), rows), pa.int32()), "z": column(lambda: rng.randrange(-4, 9), rows),
        "t": column(lambda: rng.choice("abc"), rows),
    })  # fmt: skip
    return left, right


EXACT = [query | {"epsilon": 1e5} for query in QUERIES]
MADE_SQL = "SELECT who, sum(z) AS z, min(t) AS t FROM r WHERE who IS NOT NULL GROUP BY who"
ANSWERS = """SELECT count(*), sum(least(greatest(coalesce(z, 1), -2), 3)), count(*) FILTER (WHERE z < 0),
count(*) FILTER (WHERE coalesce(z, 0) >= 0), count(*) FILTER (WHERE t = 'a'), count(*) FILTER (WHERE t = 'b'),
count(*) FILTER (WHERE z > 0 OR v > 8) FROM j"""
"""Numbers beyond the edges are in the outer bins."""


@pytest.mark.some(4)
@pytest.mark.parametrize("how", ["left", "inner"])
@pytest.mark.parametrize("made", [None, {"v": "max(v)", "n": "count(*)"}])
@pytest.mark.parametrize("null_unit", ["drop", "own"])
def test_answers_are_those_of_a_database(tmp_path, how, made, null_unit):
    l, r = some_tables(1)  # noqa: E741 - read by the database
    write_table(l, tmp_path / "left.parquet")
    write_table(r, tmp_path / "right.parquet")
    privacy = {"null_unit": null_unit, **({} if made else {"max_rows_per_unit": 1000})}
    found = release(make_release_plan(parse_release_job(job_of(tmp_path, how=how, made=made, privacy=privacy, queries=EXACT))))
    named = "unit IS NOT NULL" if null_unit == "drop" else "true"
    source = f"(SELECT unit, v FROM l WHERE {named})"
    if made:
        source = f"(SELECT unit, max(v) AS v FROM {source} GROUP BY unit, CASE WHEN unit IS NULL THEN random() END)"
    database = duckdb.connect()
    database.register("l", l)
    database.register("r", r)
    database.execute(f"CREATE TABLE j AS SELECT a.*, z, t FROM {source} a {how} JOIN ({MADE_SQL}) b ON a.unit = b.who")
    (wanted,) = database.execute(ANSWERS).fetchall()
    answers = [each for query in found["queries"] for each in (query["value"] if isinstance(query["value"], list) else [query["value"]])]
    assert [round(each) for each in answers] == [int(each) for each in wanted]
    assert max(wanted) > 20


def test_what_is_joined_may_be_derived_filtered_looked_up_and_made(tmp_path):
    left, right = some_tables(2)
    write_table(left, tmp_path / "left.parquet")
    write_table(right, tmp_path / "right.parquet")
    (tmp_path / "names.csv").write_text("t,name\na,alpha\nb,beta\n", encoding="utf-8")
    lookup = [{"path": str(tmp_path / "names.csv"), "key": "t", "columns": ["name"]}]
    queries = [
        {"name": "n", "kind": "count", "group_by": "name", "groups": ["alpha", "beta"], "epsilon": 1e5},
        {"name": "s", "kind": "sum", "column": "twice", "lower": -50, "upper": 50, "missing": 0, "epsilon": 1e7},
    ]
    right_side = {
        "where": "z >= 0", "derive": [{"name": "more", "sql": "z + 1"}],
        "per_unit": {"y": "sum(more)", "t": "min(t)", "where": "y < 40", "derive": [{"name": "half", "sql": "y / 2"}]},
    }  # fmt: skip
    job = job_of(
        tmp_path, how="inner", right=right_side, queries=queries, lookup=lookup, derive=[{"name": "twice", "sql": "2 * half"}],
        where="half > 1", privacy={"max_rows_per_unit": 1000},
    )  # fmt: skip
    found = release(make_release_plan(parse_release_job(job)))["queries"]
    l, r = left, right  # noqa: E741, F841 - read by the database
    (wanted,) = duckdb.sql(
        "WITH m AS (SELECT who, sum(z + 1) AS y, min(t) AS t FROM r WHERE who IS NOT NULL AND z >= 0 GROUP BY who), j AS (SELECT l.*, y, t "
        "FROM l JOIN m ON l.unit = m.who WHERE y < 40 AND y / 2 > 1) "
        "SELECT count(*) FILTER (WHERE t = 'a'), count(*) FILTER (WHERE t = 'b'), sum(y) FROM j"
    ).fetchall()
    assert found[0]["value"] == list(wanted[:2])
    assert found[1]["value"] == pytest.approx(float(wanted[2]), abs=0.1)
    largest = {"name": "s", "kind": "sum", "column": "zz", "lower": -50, "upper": 50, "missing": 0, "epsilon": 1e7}
    made = job_of(tmp_path, how="inner", queries=[largest])
    made |= {"per_unit": {"zz": "max(z + v)"}, "privacy": {"max_epsilon": 1e9, "unit": "unit"}}
    found = release(make_release_plan(parse_release_job(made), overwrite=True), threads=2)["queries"]
    ((wanted,),) = duckdb.sql(
        f"SELECT sum(zz) FROM (SELECT max(z + v) AS zz FROM l JOIN ({MADE_SQL}) m ON l.unit = m.who GROUP BY unit)"
    ).fetchall()
    assert found[0]["value"] == pytest.approx(float(wanted), abs=0.1)


@pytest.mark.parametrize("way", [{"piece_rows": 7}, {"threads": 3, "piece_rows": 13}, {"disk": True}, {"moved": True}])
def test_order_pieces_threads_and_disk_change_no_bit(tmp_path, way, monkeypatch):
    left, right = some_tables(3)
    write_table(left, tmp_path / "left.parquet")
    write_table(right, tmp_path / "right.parquet")
    job = job_of(tmp_path, how="inner", made={"v": "max(v)"}, testing={"key_hex": KEY.hex()})
    wanted = release(make_release_plan(parse_release_job(job)))["queries"]
    if way.get("moved"):
        order = np.random.default_rng(1).permutation(len(left))
        write_table(left.take(order), tmp_path / "left.parquet")
        write_table(right.take(order[::-1]), tmp_path / "right.parquet")
    if way.get("disk"):
        monkeypatch.setattr(unit_rows, "HELD_BYTES", 0)
        monkeypatch.setattr(unit_rows, "MADE_BYTES", 0)
    options = {key: each for key, each in way.items() if key in {"threads", "piece_rows"}}
    assert release(make_release_plan(parse_release_job(job), overwrite=True), **options)["queries"] == wanted


# Types of units

DAYS = [dt.date(2024, 1, 1) + dt.timedelta(days) for days in (0, 1, 2)]
LONG = ["x" * 300, "x" * 301, "ä" * 200]
SAME = {
    "widths": (pa.array([1, 2, 3], pa.int64()), pa.array([1, 2, 3], pa.uint16())),
    "unsigned": (pa.array([2**63, 2, 3], pa.uint64()), pa.array([2**63, 2, 3], pa.uint64())),
    "texts": (pa.array(["a", "b", "c"]), pa.array(["a", "b", "c"], pa.large_string())),
    "labels": (pa.array(["a", "b", "c"]).dictionary_encode(), pa.array(["a", "b", "c"], pa.string_view())),
    "long": (pa.array(LONG), pa.array(LONG, pa.large_string())),
    "days": (pa.array(DAYS), pa.array(DAYS)),
    "instants": (pa.array(DAYS).cast(pa.timestamp("ms", "UTC")), pa.array(DAYS).cast(pa.timestamp("ms", "UTC"))),
}


def some_of(units):
    """The third, and twice the second; a view cannot be taken from."""
    third, second = (units[place : place + 1] for place in (2, 1))
    if pa.types.is_dictionary(units.type):
        return units.take(pa.array([2, 1, 1]))
    return pa.array([*third.to_pylist(), *second.to_pylist(), *second.to_pylist()], units.type)


@pytest.mark.some(14)
@pytest.mark.parametrize("made", [None, {"v": "max(v)"}])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("kind", SAME)
def test_units_of_these_types_are_equal(tmp_path, kind, swapped, made):
    one, other = reversed(SAME[kind]) if swapped else SAME[kind]
    if kind == "labels" and not writes_views():
        pytest.skip("this pyarrow writes no views to Parquet")
    pq.write_table(pa.table({"unit": one, "v": [1, 2, 3]}), tmp_path / "left.parquet")
    pq.write_table(
        pa.table({"who": some_of(other), "z": [1, 1, 1], "t": ["a", "b", "b"]}),
        tmp_path / "right.parquet",
    )
    found = release(make_release_plan(parse_release_job(job_of(tmp_path, how="inner", made=made, queries=EXACT[:2]))))["queries"]
    assert found[0]["value"] == 2
    assert found[1]["value"] == pytest.approx(3, abs=0.01)


def test_long_names_meet_on_rows_that_are_made(tmp_path):
    test_units_of_these_types_are_equal(tmp_path, "long", swapped=False, made={"v": "max(v)"})


@pytest.mark.parametrize("made", [None, {"v": "max(CAST(v AS BIGINT))"}])
def test_units_of_files_without_types(tmp_path, made):
    """In a CSV a cell of "NA" names no unit; in a table with types it is a name."""
    (tmp_path / "left.csv").write_text("unit,v\na,1\nb,2\nNA,3\n" + f"{LONG[0]},4\n", encoding="utf-8")
    for name, text in (("right.csv", "who,z,t\na,1,x\nNA,5,y\n" + f"{LONG[0]},1,z\n"), ("right.parquet", None)):
        right = tmp_path / name
        if text is None:
            pq.write_table(pa.table({"who": ["a", "NA", LONG[0]], "z": [1, 5, 1], "t": ["x", "y", "z"]}), right)
        else:
            right.write_text(text, encoding="utf-8")
        job = job_of(
            tmp_path, how="inner", made=made, queries=EXACT[:2], right={"path": str(right), "per_unit": {"z": "sum(CAST(z AS BIGINT))"}}
        )
        job["input"]["path"] = str(tmp_path / "left.csv")
        found = release(make_release_plan(parse_release_job(job), overwrite=True))["queries"]
        assert found[0]["value"] == 2
        assert found[1]["value"] == pytest.approx(2, abs=0.01)


# The index


POOLS = {
    "int8": range(-128, 128), "uint64": [0, 2**64 - 1, 2**63, *range(99)], "int64": [-(2**63), 2**63 - 1, *range(-50, 50)],
    "date32": range(500),
}  # fmt: skip


@pytest.mark.parametrize("collide", [False, True])
@pytest.mark.parametrize("kind", ["int8", "int64", "uint64", "date32", "string", "large_string"])
def test_the_index_has_the_places_of_a_dictionary(kind, collide, monkeypatch):
    if collide:  # names with one hash are told apart
        right = unit_index.hashed_bytes
        monkeypatch.setattr(unit_index, "hashed_bytes", lambda units, factor: right(units, factor) % np.uint64(3))
    rng = random.Random(kind)
    dtype = getattr(pa, kind)()
    pool = {"int8": range(-128, 128), "uint64": [0, 2**64 - 1, 2**63, *range(99)], "int64": [-(2**63), 2**63 - 1, *range(-50, 50)]}.get(
        kind
    )
    pool = pool or (range(500) if kind == "date32" else [f"{i}" * (i % 40) for i in range(150)])
    values = list(dict.fromkeys(pool))
    stored = rng.sample(values, len(values) // 2)

    def array(cells):
        return pa.array(cells, pa.int32()).view(dtype) if kind == "date32" else pa.array(cells, dtype)

    index = UnitIndex(compared(array([*stored[:20], None, *stored[20:]])))
    known = {value: place + (place >= 20) for place, value in enumerate(stored)}
    asked = [rng.choice([None, *values]) for _ in range(2000)]
    assert index.places(compared(array(asked))).tolist() == [-1 if each is None else known.get(each, -1) for each in asked]
    assert index.places(compared(array([]))).tolist() == []
    assert UnitIndex(compared(array([]))).places(compared(array(asked[:5]))).tolist() == [-1] * 5


def test_pieces_do_not_follow_the_length_of_texts(tmp_path):
    write_table(pa.table({"unit": [1], "v": [1]}), tmp_path / "left.parquet")
    found = []
    for text in ("a", "a" * 4000):
        write_table(pa.table({"who": [1], "z": [1], "t": [text]}), tmp_path / "right.parquet")
        plan = make_release_plan(parse_release_job(job_of(tmp_path)), overwrite=True)
        made = LocalPasses(Room(tmp_path / "spill"), 1, Silent()).make_rows(plan)
        assert made.joins[0].columns["t"].to_pylist() == [text]
        found += [plan.derivations.adding.most_rows, made.derivations.adding.most_rows]
    assert len(set(found)) == 1


def test_rows_of_nobody_are_not_made_of_the_other_table(tmp_path):
    """A million of them would take memory, and answer whose join they are part of."""
    write_table(pa.table({"unit": [None, 1], "v": [1, 2]}), tmp_path / "left.parquet")
    write_table(pa.table({"who": [None, None, 1], "z": [5, 6, 7], "t": ["a", "b", "c"]}), tmp_path / "right.parquet")
    plan = make_release_plan(parse_release_job(job_of(tmp_path, privacy={"null_unit": "own"})))
    (join,) = LocalPasses(Room(tmp_path / "spill"), 1, Silent()).make_rows(plan).joins
    assert join.columns["z"].to_pylist() == [7]
    columns, _ = join.of(pa.array([None, 1], pa.int64()))
    assert columns["z"].to_pylist() == [None, 7]


@pytest.mark.parametrize("made", [None, {"n": "count(*)"}])
def test_an_inner_join_leaves_rows_out_without_a_column(tmp_path, made):
    """Nothing of the other table is read but who is in it."""
    write_table(pa.table({"unit": [1, 1, 2, 3], "v": [1, 2, 3, 4]}), tmp_path / "left.parquet")
    write_table(pa.table({"who": [1, 1, 3, 4], "z": [1, 2, 3, 4], "t": list("abcd")}), tmp_path / "right.parquet")
    for right in ({}, {"per_unit": {}}):
        job = job_of(tmp_path, how="inner", made=made, queries=EXACT[:1], right=right)
        (found,) = release(make_release_plan(parse_release_job(job), overwrite=True))["queries"]
        assert found["value"] == (2 if made else 3)
