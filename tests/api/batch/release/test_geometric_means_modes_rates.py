"""Geometric means, modes and rates: what a job may ask, what it answers on every type and format, and how pages and terminals say it."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from dpcore.accounting import Ledger
from dpcore.jobs.commands.answers_text import answer_table
from dpcore.query.page import section_of
from dpcore.query.questions import asked, declared
from support.jobs import refused, write_table
from support.releases import Counter, clinic

GEOMETRIC = {"kind": "geometric_mean", "column": "cost", "lower": 1.0, "upper": 90.0, "missing": 20.0}
MODE = {"kind": "mode", "column": "region", "candidates": ["north", "east", "south", "west"]}
RATE = {"kind": "rate", "column": "region", "categories": ["north", "east"]}
BY_REGION = {"group_by": "region", "groups": ["north", "nowhere"]}
NOISELESS = 9e5
TWO = {
    "steps": (Decimal("0.01"), pa.decimal128(9, 2)),
    "floats": (1.0, pa.float64()),
    "integers": (1, pa.int64()),
    "narrow": (1, pa.float32()),
}


@pytest.fixture
def place(tmp_path, capsys):
    place = Counter(tmp_path, capsys)
    write_table(clinic(300), place.source)
    return place


def answers(place, queries, **settings):
    place.write_release(queries, **{"epsilon": NOISELESS, **settings})
    done = place.release("--overwrite")
    assert done.code == 0, done.said
    return {query["name"]: query for query in json.loads(done.out)["queries"]}


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (GEOMETRIC | {"lower": 0}, ["query[0].lower: lower must be positive, got 0.0"]),
        (GEOMETRIC | {"lower": -1.0}, ["query[0].lower: lower must be positive, got -1.0"]),
        (GEOMETRIC | {"upper": 0.5}, ["lower = 1.0 must be less than upper = 0.5"]),
        (
            GEOMETRIC | {"upper": 1.0000001, "missing": 1},
            ["upper must be at least lower·(1 + 2^-20), got lower = 1.0 and upper = 1.0000001"],
        ),
        (GEOMETRIC | {"lower": 1e-310}, ["lower must be in [2.2250738585072014e-308, inf), got 1e-310"]),
        (GEOMETRIC | {"missing": 0}, ["missing must be in [lower, upper] = [1.0, 90.0], got 0"]),
        (GEOMETRIC | {"lower": "2024-01-01"}, ["lower must be a real number, got '2024-01-01'"]),
        (GEOMETRIC | {"bounds": "private"}, ["query[0].bounds: unknown key"]),
        (GEOMETRIC | {"column": "region"}, ["column 'region' has type string", "geometric_mean"]),
        (
            MODE | {"candidates": None},
            ["mode needs one of candidates", "none was given", 'count private groups, with group_by and groups = "private"'],
        ),
        (MODE | {"candidates": "private"}, ["candidates must be a list of values that are public, got 'private'", "sort the counts"]),
        (MODE | {"k": 3}, ["mode needs one of candidates", "candidates and k were given"]),
        (MODE | {"s": 2}, ["query[0].s: unknown key"]),
        (MODE | {"missing": "skip"}, ["query[0].missing: unknown key"]),
        (MODE | {"column": "cost"}, ["column 'cost' has type double"]),
        (RATE | {"categories": None}, ["rate needs either categories = [...] or lower and upper", "neither was given"]),
        (RATE | {"lower": 1, "upper": 2}, ["rate needs either categories", "both were given"]),
        (RATE | {"categories": None, "lower": 1}, ["lower = 1.0 and upper = None must both be given"]),
        (RATE | {"categories": None, "lower": 3, "upper": 2}, ["must both be given, and lower ≤ upper"]),
        (RATE | {"categories": None, "lower": 3, "upper": "2024-01-01"}, ["lower and upper must be all numbers"]),
        (RATE | {"missing": "north"}, ["query[0].missing = 'north'"]),
        ({"kind": "share", "column": "region"}, ["query[0].kind = 'share' is unknown", 'write kind = "rate"']),
        ({"kind": "gmean", "column": "cost"}, ['write kind = "geometric_mean"']),
    ],
)
def test_what_is_wrong_is_said_before_a_row_is_read(place, query, words):
    place.write_release({"x": {key: value for key, value in query.items() if value is not None}})
    refused(place, *words)


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
def test_answers_without_noise_are_those_of_numpy(tmp_path, capsys, ending):
    place = Counter(tmp_path, capsys)
    place.source = tmp_path / f"in.{ending}"
    table = clinic(300)
    write_table(table, place.source)
    found = answers(
        place,
        {
            "filled": GEOMETRIC,
            "skipped": GEOMETRIC | {"missing": "skip"},
            "grouped": GEOMETRIC | {"missing": "skip"} | BY_REGION,
            "mode": MODE,
            "modes": {"kind": "mode", "column": "visits", "k": 29} | BY_REGION,
            "rate": RATE,
            "of those with a value": RATE | {"missing": "skip"},
            "of dear ones": RATE | {"where": "CAST(cost AS DOUBLE) > 40"},
            "rates": {"kind": "rate", "column": "visits", "lower": 0, "upper": 9} | BY_REGION,
        },
    )
    cost = np.array([np.nan if each is None else each for each in table["cost"].to_pylist()])
    region, visits = np.array(table["region"].to_pylist(), dtype=object), table["visits"].to_numpy()
    north = region == "north"

    def geometric(values):
        return np.exp(np.log(np.clip(values, 1.0, 90.0)).mean())

    there = ~np.isnan(cost)
    assert found["filled"]["value"] == pytest.approx(geometric(np.where(there, cost, 20.0)), rel=1e-4)
    assert found["skipped"]["value"] == pytest.approx(geometric(cost[there]), rel=1e-4)
    assert found["grouped"]["value"][0] == pytest.approx(geometric(cost[there & north]), rel=1e-4)
    counts = [(region == label).sum() for label in MODE["candidates"]]
    assert counts[MODE["candidates"].index(found["mode"]["value"])] == max(counts)
    modes = np.bincount(visits[north], minlength=29)
    assert modes[found["modes"]["value"][0]] == modes.max()
    chosen = np.isin(region, ["north", "east"])
    assert found["rate"]["value"] == chosen.mean()
    assert found["of those with a value"]["value"] == chosen.sum() / np.array([each is not None for each in region]).sum()
    assert found["of dear ones"]["value"] == chosen[cost > 40].mean()
    assert found["rates"]["value"] == [(visits[north] <= 9).mean(), 0.0]
    assert found["rates"]["count"] == [north.sum(), 0]
    assert found["rates"]["interval"][1] == [0.0, 1.0]  # of no rows there is nothing to tell


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", TWO)
def test_every_type_of_numbers_is_read_as_the_same_steps(tmp_path, capsys, kind):
    unit, arrow = TWO[kind]
    whole = [None if i % 7 == 3 else i * i % 50 - 3 for i in range(200)]
    place = Counter(tmp_path, capsys)
    write_table(pa.table({"x": pa.array([None if each is None else each * unit for each in whole], arrow)}), place.source)
    scale = float(unit)
    query = {"kind": "geometric_mean", "column": "x", "lower": 2 * scale, "upper": 32 * scale, "missing": 4 * scale, "epsilon": 0.5}
    found = answers(place, {"x": query})["x"]["value"] / scale
    reference = Counter(tmp_path / "other", capsys)
    reference.source.parent.mkdir(exist_ok=True)
    write_table(pa.table({"x": pa.array(whole, pa.float64())}), reference.source)
    assert found == pytest.approx(answers(reference, {"x": query | {"lower": 2, "upper": 32, "missing": 4}})["x"]["value"], rel=1e-4)


def test_nothing_is_made_of_no_rows(place):
    write_table(clinic(300).slice(0, 0), place.source)
    found = answers(place, {"mean": GEOMETRIC, "rate": RATE, "mode": MODE})
    assert found["mean"]["value"] is found["rate"]["value"] is None
    assert found["rate"]["note"] == "the table has no rows, and so no rate"
    assert found["mode"]["value"] in MODE["candidates"]
    added = answers(place, {"rate": RATE | {"epsilon": 0.5}}, privacy={"relation": "add_remove"})["rate"]
    assert added["interval"] == [0.0, 1.0] or added["count"] > 0


@pytest.mark.long
def test_documents_are_read_as_sentences(place):
    found = answers(
        place,
        {
            "mean": GEOMETRIC | {"epsilon": 1.0},
            "mode": MODE | {"epsilon": 0.5, "confidence": 0.95},
            "modes": {"kind": "mode", "column": "visits", "k": 29, "epsilon": 0.5, "confidence": 0.95} | BY_REGION,
            "rate": RATE | {"epsilon": 1.0, "where": "cost > 40"},
            "rates": {"kind": "rate", "column": "visits", "lower": 0, "upper": 9, "missing": "skip"} | BY_REGION,
        },
    )
    assert asked(found["mean"]) == "The geometric mean of cost"
    assert declared(found["mean"]).startswith(
        "Values below 1 count as 1, values above 90 as 90; missing values count as 20; their logarithms"
    )
    assert asked(found["mode"]) == "The most frequent of the declared values of region"
    assert declared(found["mode"]) == "4 candidates were declared. With a probability of 95 % no other is ahead by more than 16 rows."
    assert declared(found["modes"]).endswith("rows, in each group for itself.")
    assert asked(found["rate"]) == "The share of rows that have region equal to one of north, east, among all, where cost > 40"
    assert asked(found["rates"]).startswith(
        "The share of rows that have visits from 0 to 9, among all with a value, in each of 2 declared groups"
    )
    document = {"queries": list(found.values())}
    rows = [[str(cell) for cell in column.cells] for column in answer_table(document).columns]
    assert found["mode"]["value"] in rows[2]
    for number, query in enumerate(document["queries"], 1):
        section = section_of(number, query)
        assert section["asked"]
        is_one = query["name"] in {"mean", "mode", "rate"}
        assert (section["single"] is not None, section["table"] is None) == (is_one, is_one)
        assert (section["picture"] is None) == (query["name"] in {"mode", "modes"})
    assert section_of(1, found["mode"])["single"].label == found["mode"]["value"]
    assert section_of(1, found["modes"])["table"]["heads"] == [("region", False), ("visits", False)]


def test_units_gaussian_noise_private_groups_and_shares_of_a_budget(place):
    private = {"group_by": "region", "groups": "private"}
    privacy = {"unit": "person", "max_rows_per_unit": 3, "max_epsilon": 4.0, "max_delta": 1e-4, "accounting": "zcdp"}
    keys = {"kind": "groups", "group_by": "region", "delta": 1e-6, "epsilon": 0.5}
    each = {
        "mean": GEOMETRIC,
        "rate": RATE | {"column": "visits", "categories": [0, 1]},
        "mode": MODE | {"column": "visits", "candidates": [0, 1]},
    }
    asked = {name: query | private | {"delta": 1e-6, "epsilon": 0.2} for name, query in each.items()}
    found = answers(place, {"keys": keys, **asked}, privacy=privacy)
    for name in each:
        assert len(found[name]["value"]) == len(found[name]["groups"]) == len(found["keys"]["value"])
    assert found["mean"]["noise"][0]["law"] == "gaussian"
    assert found["rate"]["noise"][0]["law"] == "discrete_gaussian"
    assert found["mode"]["noise"][0]["law"] == "gumbel"


def test_a_rate_of_dates_is_a_number(place):
    days = [None, *(dt.date(2024, 1, 1) + dt.timedelta(each) for each in range(9))]
    write_table(pa.table({"day": pa.array(days * 10, pa.date32())}), place.source)
    query = {"kind": "rate", "column": "day", "lower": "2024-01-01", "upper": "2024-01-03"}
    found = answers(place, {"all": query, "known": query | {"missing": "skip"}})
    assert found["all"]["value"] == 30 / 100
    assert found["known"]["value"] == 30 / 90
    assert found["all"]["lower"] == "2024-01-01"
    assert asked(found["known"]) == "The share of rows that have day from 2024-01-01 to 2024-01-03, among all with a value"


def test_with_a_ledger_no_row_can_end_a_job(place):
    """A geometric mean needs `missing`; a mode and a rate read every cell."""
    Ledger.create(place.folder / "l.ledger", epsilon=10.0)
    undeclared = {key: value for key, value in GEOMETRIC.items() if key != "missing"}
    place.write_release({"x": undeclared}, ledger=place.folder / "l.ledger")
    refused(place, "query[0] ('x', geometric_mean), column 'cost': missing must be declared where a ledger pays")
    place.write_release({"mean": GEOMETRIC, "mode": MODE, "rate": RATE}, ledger=place.folder / "l.ledger")
    assert place.release().code == 0
