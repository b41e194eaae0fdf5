"""The rows that are made of units: equal to those of Python's fractions, in any order, in any pieces, and of each unit alone."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from dpcore.tables.units import unit_rows
from support.made import TWINS, by_unit, grid_sum, rounded, rows_made, same_bits, steps, within

INT64 = 2**63
BIG = "9" * 28 + "." + "9" * 10
VALUES = {
    "i": ([0, 1, -1, 3, INT64 - 1, -INT64, 2**53 + 1], pa.int64()),
    "u": ([0, 1, 2**64 - 1, 2**63, 7], pa.uint64()),
    "f": ([0.0, -0.0, float("nan"), 1.1, 2.2, 3.3, -5e-324, 1.7976931348623157e308, -1e300], pa.float64()),
    "d": ([Decimal("1.10"), Decimal("2.20"), Decimal("3.30"), Decimal("-999.99"), Decimal("0.00")], pa.decimal128(5, 2)),
    "e": ([Decimal(BIG), Decimal(f"-{BIG}"), Decimal("0.0000000001"), Decimal("1.1000000000")], pa.decimal128(38, 10)),
    "s": (["", "a", "B", "b", "ä", "a\0"], pa.string()),
    "day": ([dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29)], pa.date32()),
    "t": ([dt.datetime(2024, 2, 29, 12), dt.datetime(1969, 12, 31, 23, 59, 59, 999999)], pa.timestamp("us")),
    "b": ([True, False], pa.bool_()),
}
"""Extremes, ties, both zeros, NaN, and decimals that floats do not have."""
SQL = {
    "count": "count({0})",
    "different": "count(DISTINCT {0})",
    "min": "min({0})",
    "max": "max({0})",
    "mode": "mode({0})",
    "upper": "quantile_disc({0}, 0.9)",
    "median": "median({0})",
    "mean": "avg({0})",
}
NUMBERS = ("i", "u", "d", "e")
ASKED = [
    (name, how)
    for name in VALUES
    for how in SQL
    if (how != "mean" or name in NUMBERS) and (how != "median" or name in (*NUMBERS, "f")) and not (name == "b" and how == "upper")
]


def table_of(seed, rows=400, units=40):
    rng = random.Random(seed)
    columns = {"unit": pa.array([rng.choice([None, *range(units)]) for _ in range(rows)], pa.int64())}
    for name, (values, kind) in VALUES.items():
        columns[name] = pa.array([rng.choice([None, *values]) for _ in range(rows)], kind)
    return pa.table(columns)


def asked():
    columns = {f"{name}_{how}": SQL[how].format(name) for name, how in ASKED}
    sums = {f"{name}_sum": f"sum({name})" for name in (*NUMBERS, "b")}
    others = {
        "rows": "count(*)",
        "total": {"sum": "f", "lower": -10, "upper": 7.5},
        "average": {"mean": "f", "lower": -10, "upper": 7.5},
        "first": "arg_min(s, t)",
        "last": "arg_max(s, t)",
        "some": "bool_or(b)",
        "all": "bool_and(b)",
        "bits": "bit_xor(i)",
        "few": "count(*) FILTER (WHERE i > 0)",
        "odd": "max(i // (i - 1))",
    }
    return columns | sums | others


def pairs(table, a, b):
    found = {}
    for unit, one, other in zip(*(table.column(name).to_pylist() for name in ("unit", a, b)), strict=True):
        if unit is not None:
            found.setdefault(unit, [])
            if other is not None:
                found[unit].append((other, one is not None, one))
    return found


def test_equals_the_fractions_of_python(tmp_path):
    table = table_of(1)
    made = rows_made(tmp_path, table, asked())
    units = made.column("unit").to_pylist()
    assert units == sorted({unit for unit in table.column("unit").to_pylist() if unit is not None})
    for name, how in ASKED:
        values = by_unit(table, name)
        assert list(map(repr, made.column(f"{name}_{how}").to_pylist())) == [repr(TWINS[how](values[unit])) for unit in units], (name, how)
    for name in ("i", "u", "b"):
        values = by_unit(table, name)
        wanted = [within(sum(values[unit]), -INT64, INT64 - 1) if values[unit] else None for unit in units]
        assert made.column(f"{name}_sum").to_pylist() == wanted, name
    for name, scale in (("d", 2), ("e", 10)):
        values, sums = by_unit(table, name), made.column(f"{name}_sum").to_pylist()
        wanted = [
            within(sum(steps(each, scale) for each in values[unit]), 1 - 10**38, 10**38 - 1) if values[unit] else None for unit in units
        ]
        assert [None if each is None else steps(each, scale) for each in sums] == wanted, name
        assert None in wanted or name == "d"
    values = by_unit(table, "f")
    sums = [grid_sum(values[unit], -10.0, 7.5) for unit in units]
    assert made.column("total").to_pylist() == [rounded(each) if values[unit] else None for unit, each in zip(units, sums, strict=True)]
    means = [rounded(each / len(values[unit])) if values[unit] else None for unit, each in zip(units, sums, strict=True)]
    assert made.column("average").to_pylist() == means
    found = pairs(table, "s", "t")
    least = [min(((b, not there, a or "") for b, there, a in found[unit]), default=None) for unit in units]
    assert made.column("first").to_pylist() == [None if each is None or each[1] else each[2] for each in least]
    most = [max(((b, there, a or "") for b, there, a in found[unit]), default=None) for unit in units]
    assert made.column("last").to_pylist() == [None if each is None or not each[1] else each[2] for each in most]


ORDERS = {"rows": {}, "pieces": {"piece_rows": 7}, "threads": {"piece_rows": 13, "threads": 3}}


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("way", ORDERS)
def test_order_pieces_threads_and_disk_change_no_bit(tmp_path, way, on_disk, monkeypatch):
    table, every = table_of(2), asked()
    columns = dict(list(every.items())[:: 4 if on_disk else 1])  # 256 statements take long to be planned
    wanted = rows_made(tmp_path, table, columns)
    if on_disk:
        monkeypatch.setattr(unit_rows, "HELD_BYTES", 0)
        monkeypatch.setattr(unit_rows, "MADE_BYTES", 0)
    for seed in range(2):
        moved = table.take(np.random.default_rng(seed).permutation(len(table)))
        assert same_bits(rows_made(tmp_path, moved, columns, **ORDERS[way]), wanted)


@pytest.mark.parametrize("sql", ["mode(s)", "avg(f)", "sum(f)"])
def test_aggregates_of_the_database_depend_on_the_order(sql):
    """The broken twins: what a unit's value is would depend on how the rows of others let its own be met."""
    table = pa.table({"s": [10, 20, 30, 40] * 3, "f": [1.1, 2.2, 3.3, 1e16, -1e16, 0.1] * 2})
    found = set()
    for seed in range(50):
        rows = table.take(np.random.default_rng(seed).permutation(len(table)))  # noqa: F841 - read by the database
        found |= {*duckdb.sql(f"SELECT {sql} FROM rows").fetchall()}
    assert len(found) > 1


def test_the_least_of_the_most_frequent_is_no_twin(tmp_path):
    for seed in range(5):
        table = pa.table({"unit": [1] * 12, "s": [10, 20, 30, 40] * 3}).take(np.random.default_rng(seed).permutation(12))
        assert rows_made(tmp_path, table, {"m": "mode(s)"}).column("m").to_pylist() == [10]


def test_a_hundred_thousand_neighbours(tmp_path):
    """Units whose rows stay have the same row, bit by bit, whatever the rows of all others become, in whatever order they come."""
    rng = np.random.default_rng(3)
    n, units = 600_000, 200_000
    columns = {
        "unit": rng.integers(0, units, n), "i": rng.integers(-4, 5, n), "f": rng.choice([0.0, -0.0, 1.1, 2.2, 3.3, np.nan], n),
        "s": rng.integers(0, 3, n),
    }  # fmt: skip
    changes = rng.random(units) < 0.5
    per_unit = {
        "n": "count(*)", "m": "mode(s)", "sum": "sum(i)", "mean": "avg(i)", "total": {"mean": "f", "lower": 0, "upper": 3},
        "low": "min(f)", "mid": "median(f)",
    }  # fmt: skip
    other = {name: np.where(changes[columns["unit"]], rng.permutation(each), each) for name, each in columns.items() if name != "unit"}
    moved = rng.permutation(n)
    table, neighbour = pa.table(columns), pa.table({"unit": columns["unit"], **other}).take(moved)
    one, two = rows_made(tmp_path, table, per_unit), rows_made(tmp_path, neighbour, per_unit, threads=2, piece_rows=50_000)
    assert one.column("unit").to_pylist() == two.column("unit").to_pylist()
    same = np.logical_and.reduce(
        [
            np.array(list(map(repr, one.column(name).to_pylist()))) == np.array(list(map(repr, two.column(name).to_pylist())))
            for name in per_unit
        ]
    )
    stayed = ~changes[one.column("unit").to_numpy()]
    assert stayed.sum() > 90_000
    assert same[stayed].all()
    assert not same[~stayed].all()


@pytest.mark.parametrize("on_disk", [False, True])
def test_rows_without_a_unit(tmp_path, on_disk, monkeypatch):
    if on_disk:
        monkeypatch.setattr(unit_rows, "HELD_BYTES", 0)
    table = pa.table({"unit": [None, "x", None, "x"], "v": [1, 2, 3, 4]})
    dropped = rows_made(tmp_path, table, {"n": "count(*)"})
    assert dropped.to_pylist() == [{"unit": "x", "n": 2}]
    own = rows_made(tmp_path, table, {"n": "count(*)", "v": "sum(v)"}, {"null_unit": "own"})
    assert sorted(own.column("v").to_pylist()) == [1, 3, 6]


def test_second_keys(tmp_path):
    table = pa.table({"unit": [1, 1, 1, 2, 2, 2], "month": ["jan", "feb", "jan", "feb", None, "apr"], "v": [1, 2, 3, 4, 5, 6]})
    per_unit = {"v": "sum(v)", "by": "month", "groups": ["jan", "feb", "mar"]}
    made = rows_made(tmp_path, table, per_unit, {"max_groups_per_unit": 2})
    assert made.select(["unit", "month", "v"]).to_pylist() == [
        {"unit": 1, "month": "feb", "v": 2}, {"unit": 1, "month": "jan", "v": 4}, {"unit": 2, "month": "feb", "v": 4},
    ]  # fmt: skip


def test_second_keys_that_are_derived_or_looked_up(tmp_path):
    (tmp_path / "months.csv").write_text("m,name\n1,jan\n2,feb\n", encoding="utf-8")
    table = pa.table({"unit": [1, 1, 2], "day": [dt.date(2025, 1, 5), dt.date(2025, 2, 5), dt.date(2025, 1, 9)], "m": ["1", "2", "1"]})
    keys = {"max_groups_per_unit": 2}
    derive = [{"name": "month", "sql": "month(day)"}]
    made = rows_made(tmp_path, table, {"n": "count(*)", "by": "month", "groups": [1, 2]}, keys, derive=derive)
    assert made.column("month").to_pylist() == [1, 2, 1]
    lookup = [{"path": str(tmp_path / "months.csv"), "key": "m", "columns": ["name"]}]
    made = rows_made(tmp_path, table, {"n": "count(*)", "by": "name", "groups": ["jan", "feb"]}, keys, lookup=lookup)
    assert made.column("name").to_pylist() == ["feb", "jan", "jan"]


def test_what_comes_before(tmp_path):
    """Look-ups, derived columns and the condition are of the rows of the input."""
    (tmp_path / "wards.csv").write_text("ward,floor\na,1\nb,2\n", encoding="utf-8")
    table = pa.table({"unit": [1, 1, 2, 2], "ward": ["a", "b", "b", "z"], "v": [1.0, 2.0, 3.0, 4.0]})
    made = rows_made(
        tmp_path, table, {"floor": "max(floor)", "high": "max(twice)", "n": "count(*)"}, where="v < 4",
        lookup=[{"path": str(tmp_path / "wards.csv"), "key": "ward", "columns": ["floor"]}], derive=[{"name": "twice", "sql": "2 * v"}],
    )  # fmt: skip
    assert made.select(["floor", "high", "n"]).to_pylist() == [{"floor": 2, "high": 4.0, "n": 2}, {"floor": 2, "high": 6.0, "n": 1}]


def test_long_names_are_units_of_their_own(tmp_path):
    names = ["x" * 300, "x" * 301, "x" * 300, "y"]
    made = rows_made(tmp_path, pa.table({"unit": names}), {"n": "count(*)"})
    assert sorted(made.column("n").to_pylist()) == [1, 1, 2]
    assert "y" in made.column("unit").to_pylist()


def test_means_are_rounded_once(tmp_path):
    """A quotient of rounded numbers is the broken twin, which these sums and many others tell."""
    units = [
        [665254580340503029, 933955842044160735, 81764416680803268],
        [144958205352227900, 886337164459431291, 553468892355352739],
        [1126235001121345247, 845858274200769781, 617322500051646343],
        [889494496822216957, 1091793049439790752, 646410893918047508],
    ]
    assert all(float(sum(values)) / 3 != rounded(Fraction(sum(values), 3)) for values in units)
    table = pa.table({"unit": np.repeat(np.arange(len(units)), 3), "i": [value for values in units for value in values]})
    made = rows_made(tmp_path, table, {"m": "avg(i)"})
    assert made.column("m").to_pylist() == [rounded(Fraction(sum(values), 3)) for values in units]
