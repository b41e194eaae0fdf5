"""Nested groups that add up: what a job may ask, what it answers, and how documents, pages, terminals and frames show it."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter as Counted
from decimal import Decimal
from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from dpcore.batch import make_release_plan, parse_release_job, release
from dpcore.errors import JobError, ParameterError
from dpcore.frames import PrivateTable
from dpcore.jobs.commands.answers_text import answer_table
from dpcore.query.page import section_of
from dpcore.query.questions import asked
from dpcore.testing import KeyedRandom
from support.jobs import KEY, refused, write_table
from support.releases import SURE, Counter

NOISELESS = 9e5
PAIRS = [{"region": region, "district": district} for region, district in (("a", 1), ("b", 2), ("a", 3), ("b", 1), ("c", 2))]
BY = {"group_by": ["region", "district"], "groups": PAIRS, "consistent": True}
ROWS = {"kind": "count", **BY}
COST = {"kind": "sum", "column": "cost", "lower": 0, "upper": 40, "missing": 3, **BY}
AGES = {"kind": "histogram", "column": "cost", "edges": [0, 20, 100], "missing": "skip", **BY}
UNITS = {"unit": "person", "max_rows_per_unit": 2, "relation": "add_remove"}


def country(rows=400):
    """Persons with many rows, groups that are not declared, nulls, and numbers beyond the bounds."""
    index = np.arange(rows)
    return pa.table(
        {
            "person": pa.array(index * 7 % 61),
            "region": pa.array([None if i % 37 == 1 else "abcd"[i * 7 // 5 % 4] for i in range(rows)]),
            "district": pa.array([None if i % 41 == 2 else int(i * 11 // 3 % 4) for i in range(rows)], pa.int64()),
            "cost": pa.array([None if i % 23 == 4 else float(i * 31 % 500) / 8 for i in range(rows)]),
        }
    )


@pytest.fixture
def place(tmp_path, capsys):
    place = Counter(tmp_path, capsys)
    write_table(country(), place.source)
    return place


def answers(place, queries, **settings):
    place.write_release(queries, **{"epsilon": NOISELESS, **settings})
    done = place.release("--overwrite")
    assert done.code == 0, done.said
    return {query["name"]: query for query in json.loads(done.out)["queries"]}


def by_node(answer, key="value"):
    """The numbers of a document, by the keys of their nodes: a tuple as long as the level is deep."""
    keys = zip(*answer["groups"].values(), strict=True)
    found = answer[key] if isinstance(key, str) else answer[key[0]][key[1]]
    return {node[:count]: value for node, count, value in zip(keys, answer["level"], found, strict=True)}


def assert_adds_up(numbers):
    """Each node that has children is their sum, exactly, in any order."""
    numbers = {node: np.atleast_1d(value).tolist() for node, value in numbers.items()}
    for node in numbers:
        children = [value for other, value in numbers.items() if other[:-1] == node and other]
        if children:
            assert [sum(each) for each in zip(*children, strict=True)] == numbers[node]
            assert [sum(each) for each in zip(*children[::-1], strict=True)] == numbers[node]


@pytest.mark.parametrize("privacy", [{}, UNITS, {"unit": "person", "max_rows_per_unit": 2}], ids=["rows", "persons", "replaced persons"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_all_levels_are_about_the_same_rows(place, privacy, delta):
    """Without noise the released numbers add up by themselves, and are those of the leaves that DuckDB finds."""
    queries = {"n": ROWS, "cost": COST, "ages": AGES}
    found = answers(place, {name: query | {"delta": delta} for name, query in queries.items()}, privacy=privacy)
    for name, answer in found.items():
        raw = by_node(answer, ("raw", "value"))
        assert set(raw) == {(), *((each["region"],) for each in PAIRS), *((each["region"], each["district"]) for each in PAIRS)}
        for node, value in raw.items():
            children = [other for key, other in raw.items() if key and key[:-1] == node]
            assert not children or np.allclose(np.sum(children, axis=0), value, atol=2.0 if name == "cost" and delta else 1e-2)
        assert_adds_up(by_node(answer))
        assert np.allclose(answer["value"], answer["raw"]["value"], atol=2.0 if name == "cost" and delta else 1e-2)
    if not privacy:
        counted = duckdb.read_parquet(str(place.source)).query("t", "SELECT region, district, count(*) FROM t GROUP BY 1, 2").fetchall()
        leaves = {(region, district): n for region, district, n in counted if {"region": region, "district": district} in PAIRS}
        assert len(leaves) == 5
        assert {node: value for node, value in by_node(found["n"], ("raw", "value")).items() if len(node) == 2} == leaves


def test_levels_that_are_asked_one_by_one_do_not_add_up(place):
    """The broken twins: rows that count in a region but in none of its districts, and rows of persons chosen for each level again."""
    apart = {
        "all": {"kind": "count"},
        "regions": {"kind": "count", "group_by": "region", "groups": ["a", "b", "c"]},
        "districts": {key: value for key, value in ROWS.items() if key != "consistent"},
    }
    found = answers(place, apart, privacy={"relation": "add_remove"})
    assert sum(found["regions"]["value"]) > sum(found["districts"]["value"])
    assert found["all"]["value"] > sum(found["regions"]["value"])
    other = bytes(reversed(KEY))
    one = answers(place, {"n": apart["districts"]}, privacy=UNITS)["n"]["value"]
    place.write_release({"n": apart["districts"]}, epsilon=NOISELESS, privacy=UNITS, key=other)
    again = json.loads(place.release("--overwrite").out)["queries"][0]["value"]
    assert one != again, "rows that are chosen twice give two truths"


def test_a_bound_on_what_a_person_adds_holds_for_all_levels_together(place):
    query = {key: value for key, value in COST.items() if key not in {"lower", "upper"}} | {"max_sum_per_unit": 25.0}
    found = answers(place, {"cost": query}, privacy={"unit": "person", "relation": "add_remove"})["cost"]
    raw = by_node(found, ("raw", "value"))
    assert raw[()] == pytest.approx(sum(value for node, value in raw.items() if len(node) == 2), abs=1e-2)
    assert {noise["sensitivity"] for noise in found["noise"]} == {25.0}


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_what_the_document_says_is_enough_to_make_the_numbers_again(place, delta):
    """The numbers that add up follow from the raw ones and from scales: least squares over a matrix that knows of no tree."""
    answer = answers(place, {"cost": COST | {"epsilon": 1.0, "delta": delta}})["cost"]
    raw, level = np.array(answer["raw"]["value"]), answer["level"]
    nodes = list(by_node(answer))
    leaves = [node for node in nodes if len(node) == 2]
    matrix = np.array([[float(leaf[: len(node)] == node) for leaf in leaves] for node in nodes])
    weights = np.array([1 / answer["raw"]["stderr"][place] ** 2 for place in range(len(nodes))])
    inner = np.linalg.inv(matrix.T @ (weights[:, None] * matrix))
    assert np.allclose(matrix @ inner @ matrix.T @ (weights * raw), answer["value"])
    assert np.allclose(np.sqrt(np.diag(matrix @ inner @ matrix.T)), answer["stderr"])
    assert all(one < other for one, other in zip(answer["stderr"], answer["raw"]["stderr"], strict=True))
    assert_adds_up(by_node(answer))
    assert [noise["law"] for noise in answer["noise"]] == ["gaussian" if delta else "laplace"] * 3
    assert level == [0, 1, 2, 2, 1, 2, 2, 1, 2], "a parent comes before its children"
    assert "coverage" not in answer
    widths = np.diff(answer["interval"])[:, 0] < np.diff(answer["raw"]["interval"])[:, 0]
    assert widths.all()


def test_epsilon_is_divided_over_levels_and_rounded_toward_privacy(place):
    found = answers(
        place, {"n": ROWS | {"epsilon": 0.7}, "m": ROWS | {"epsilon": 0.7, "consistent": {"levels": {"district": 1, "total": 2}}}}
    )
    equal, given = found["n"]["levels"], found["m"]["levels"]
    assert [(level["name"], level["columns"], level["groups"]) for level in equal] == [
        ("total", 0, 1),
        ("region", 1, 3),
        ("district", 2, 5),
    ]
    assert [level["name"] for level in given] == ["total", "district"]
    for levels, shares in ((equal, [Fraction(1, 3)] * 3), (given, [Fraction(2, 3), Fraction(1, 3)])):
        parts = [Fraction(level["epsilon"]) for level in levels]
        assert all(part <= share * Fraction(0.7) for part, share in zip(parts, shares, strict=True))
        assert Fraction(0.7) * (1 - Fraction(1, 2**50)) < sum(parts) <= Fraction(0.7)
    # One group may be entered or left by a row; of several two may change.
    assert [noise["sensitivity"] for noise in found["n"]["noise"]] == [1, 2, 2]
    assert [noise["scale"] for noise in found["m"]["noise"]] == [pytest.approx(1 / 0.7 * 1.5), pytest.approx(2 / 0.7 * 3)]
    assert found["m"]["level"].count(1) == 0


@pytest.mark.parametrize("accounting", ["zcdp", "pld"])
def test_other_accountings_add_up_all_levels(place, accounting):
    pytest.importorskip("dp_accounting")
    query = COST | {"epsilon": 1.0, "delta": 1e-7}
    place.write_release({"cost": query}, privacy={"max_epsilon": 3.0, "max_delta": 1e-6, "accounting": accounting})
    done = place.release("--overwrite")
    assert done.code == 0, done.said
    found = json.loads(done.out)
    assert 0 < found["privacy"]["epsilon"] <= 3.0
    if accounting == "zcdp":
        rho = sum(Fraction(noise["sensitivity"]) ** 2 / (2 * Fraction(noise["scale"]) ** 2) for noise in found["queries"][0]["noise"])
        assert rho <= Fraction(found["accounting"]["rho"]) <= rho * Fraction(1001, 1000)


def test_whole_and_not_negative_numbers_have_no_intervals(place):
    wanted = {"non_negative": True, "integral": True}
    for keys in ({"non_negative": True}, {"integral": True}, wanted):
        for query in (ROWS, COST, AGES):
            answer = answers(place, {"x": query | {"epsilon": 0.02, "consistent": keys}})["x"]
            numbers = np.array(answer["value"])
            assert answer["interval"] is None
            assert answer["stderr"] is None
            assert len(answer["raw"]["interval"]) == len(answer["value"])
            assert_adds_up(by_node(answer))
            assert not keys.get("non_negative") or (numbers >= 0).all()
            assert not keys.get("integral") or (numbers.dtype == np.int64 and (numbers == np.rint(numbers)).all())
            assert section_of(1, answer)["table"]["rows"]


def test_decimals_and_durations_add_up_as_they_are_written(place):
    table = country().append_column("paid", pa.array([Decimal(i % 997) / 100 for i in range(400)], pa.decimal128(9, 2)))
    table = table.append_column("stay", pa.array([i * 1_000_003 for i in range(400)], pa.duration("us")))
    write_table(table, place.source)
    paid = {"kind": "sum", "column": "paid", "lower": 0, "upper": 9.97, "missing": 0, "epsilon": 2.0, **BY}
    stay = {"kind": "sum", "column": "stay", "lower": "PT0S", "upper": "PT1H", "missing": "PT0S", "epsilon": 2.0, **BY}
    found = answers(place, {"paid": paid, "stay": stay})
    assert_adds_up(by_node(found["paid"]))
    assert {noise["sensitivity"] for noise in found["paid"]["noise"]} == {9.97, 2 * 9.97}
    assert_adds_up({node: _microseconds(text) for node, text in by_node(found["stay"]).items()})
    assert all(isinstance(each, str) for each in found["stay"]["raw"]["value"])


def _microseconds(text):
    """A duration of ISO 8601."""
    sizes = {"D": 86400, "H": 3600, "M": 60, "S": 1}
    parts = re.findall(r"([0-9.]+)([DHMS])", text)
    return (-1 if text.startswith("-") else 1) * sum(Fraction(number) * sizes[letter] for number, letter in parts) * 10**6


def test_parents_may_come_from_a_look_up(place):
    write_table(pa.table({"district": [3, 1, 2, 0], "land": ["a", "b", "b", "c"]}), place.source.with_name("lands.parquet"))
    section = {"lookup": [{"path": str(place.source.with_name("lands.parquet")), "key": "district", "columns": ["land"]}]}
    job = _job(
        place,
        {"n": {"kind": "count", "epsilon": 1.0, "group_by": ["land", "district"], "groups": {"district": [1, 2, 3]}, "consistent": True}},
        section,
    )
    answer = release(make_release_plan(parse_release_job(job), overwrite=True))["queries"][0]
    assert answer["groups"] == {"land": [None, "b", "b", "b", "a", "a"], "district": [None, None, 1, 2, None, 3]}
    for groups, words in [
        ({"district": [1, 7]}, "groups do not nest: the look-up by 'district' has no 'land' for the declared group 7"),
        (
            {"land": ["a", "b"], "district": [1, 2]},
            "groups do not nest: they declare district = 1 in land = 'a', but the look-up has it in 'b'",
        ),
        ({"district": {"values": [1, 2], "null": True}}, "rows without a 'district', which are a group (null = true), have no 'land'"),
        (
            [{"land": "a", "district": 2}],
            "they declare district = 2 in land = 'a', but the look-up has it in 'b'; leave 'land' out of groups",
        ),
    ]:
        query = {"kind": "count", "epsilon": 1.0, "group_by": ["land", "district"], "groups": groups, "consistent": True}
        with pytest.raises(JobError, match=re.escape(words)):
            make_release_plan(parse_release_job(_job(place, {"n": query}, section)), overwrite=True)


def _job(place, queries, more):
    return {
        "version": 1, "input": {"path": str(place.source)}, "output": {"path": str(place.source.with_name("o.json"))},
        "privacy": {"max_epsilon": 10.0}, "query": [{"name": name, **query} for name, query in queries.items()], **more,
    }  # fmt: skip


MEAN = {"kind": "mean", "column": "cost", "lower": 0, "upper": 9, "missing": 0, **BY}


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (MEAN, ["consistent is for counts and sums", "kind = 'mean' does not", "Ask for a sum and a count"]),
        ({"kind": "count_distinct", "column": "cost", **BY}, ["kind = 'count_distinct' does not"]),
        ({"kind": "count", "consistent": True}, ["consistent needs group_by and groups"]),
        (ROWS | {"groups": "private"}, ['consistent is for declared groups: of groups = "private"']),
        (COST | {"bounds": "private", "bounds_epsilon": 0.1, "lower": None, "upper": None}, ["consistent needs declared bounds"]),
        (ROWS | {"consistent": {"levels": ["regio", "district"]}}, ["names 'regio'", "'total', 'region', 'district'. Did you mean"]),
        (ROWS | {"consistent": {"levels": ["total", "region"]}}, ["consistent.levels must name 'district', the finest level"]),
        (ROWS | {"consistent": {"levels": ["district"]}}, ["and another one, got ['district']"]),
        (ROWS | {"consistent": {"levels": ["district", "district"]}}, ["must list different levels"]),
        (ROWS | {"consistent": {"levels": [{"district": 0.2}, "region"]}}, ["must name levels"]),
        (ROWS | {"consistent": {"levels": {"total": 0, "district": 1}}}, ["consistent.levels total must be in (0.0", "got 0.0"]),
        (ROWS | {"consistent": {"level": ["total"]}}, ["consistent.level: unknown key; allowed here: levels, non_negative, integral"]),
        (ROWS | {"consistent": "yes"}, ["consistent must be true, false or a table", "got 'yes'"]),
        (ROWS | {"consistent": {"integral": 1}}, ["consistent.integral = 1"]),
        (ROWS | {"groups": {"district": [1, 2]}}, ["groups declares nothing of 'region'", "[[lookup]]"]),
        (ROWS | {"group_by": ["total", "district"], "groups": {"total": ["a"], "district": [1]}}, ["named 'total'"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_a_row_is_read(place, query, words):
    place.write_release({"x": {key: value for key, value in query.items() if value is not None}})
    refused(place, *words)


def test_false_is_as_if_it_was_not_said(place):
    plain = {key: value for key, value in ROWS.items() if key != "consistent"}
    assert answers(place, {"x": ROWS | {"consistent": False}}) == answers(place, {"x": plain})


def test_frames_have_the_answer_of_a_job(place):
    pandas = pytest.importorskip("pandas")
    queries = {"n": ROWS, "cost": COST | {"delta": 1e-6}, "ages": AGES | {"consistent": {"integral": True}}}
    wanted = answers(place, queries, epsilon=1.0)
    for place_of_query, (name, query) in enumerate(queries.items()):
        rng = KeyedRandom(KEY)
        for _ in range(place_of_query):
            rng.position()
        table = PrivateTable(country().to_pandas() if name != "ages" else country(), rng=rng, unit="row")
        grouped = table.group_by("region", "district", groups=PAIRS, consistent=query["consistent"])
        keys = {key: value for key, value in query.items() if key not in {"kind", *BY}}
        found = getattr(grouped, query["kind"])(epsilon=1.0, confidence=SURE, **keys)
        assert {key: found.document[key] for key in ("value", "raw", "levels", "groups")} == {
            key: wanted[name][key] for key in ("value", "raw", "levels", "groups")
        }
        frame = found.to_pandas()
        assert list(frame.columns[:3]) == ["level", "region", "district"]
        assert frame["level"].tolist()[0] == "total"
        assert isinstance(frame, pandas.DataFrame)
    with pytest.raises(ParameterError, match="consistent is for declared groups"):
        PrivateTable(country(), unit="row").group_by("region", groups="private", delta=1e-6, consistent=True)


def test_pages_and_terminals_name_the_levels(place):
    answer = answers(place, {"n": ROWS | {"epsilon": 1.0}})["n"]
    assert asked(answer).endswith("in each of 9 nested groups: total (1), region (3) and district (5)")
    section = section_of(1, answer)
    assert section["notes"] == [
        "The numbers add up: each is the sum of those one level below. What was released before that is `raw` in the JSON document."
    ]
    names = [row["names"] for row in section["table"]["rows"]]
    assert names[:3] == [["all", "all"], ["a", "all"], ["a", "1"]]
    whole = answer | {"consistent": {"non_negative": True, "integral": True}}
    assert "are not negative and whole (so they have no intervals)" in section_of(1, whole)["notes"][0]
    assert [str(cell) for cell in answer_table({"queries": [answer]}).columns[1].cells][:3] == ["all, all", "a, all", "a, 1"]
    (estimator,) = make_release_plan(parse_release_job(_job(place, {"n": ROWS | {"epsilon": 1.0}}, {}))).estimators
    said = "total (1) for 0.3333 of ε, region (3) for 0.3333 of ε, district (5) for 0.3333 of ε"
    assert estimator.ways == (("levels", said),)


def test_the_order_of_the_declaration_is_that_of_the_document(place):
    """Groups of one parent stand together, wherever the declaration has them."""
    for pairs in itertools.islice(itertools.permutations(PAIRS), 3, 120, 80):
        answer = answers(place, {"n": ROWS | {"groups": list(pairs)}})["n"]
        nodes = list(by_node(answer))
        assert Counted(map(len, nodes)) == {0: 1, 1: 3, 2: 5}
        for spot, node in enumerate(nodes):
            if node:
                before = [each for each in nodes[:spot] if len(each) < len(node)]
                assert before[-1] == node[:-1]
        assert [node[0] for node in nodes if len(node) == 1] == list(dict.fromkeys(each["region"] for each in pairs))
