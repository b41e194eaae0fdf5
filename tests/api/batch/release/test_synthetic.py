"""Synthetic tables of `dpcore release`: like the data where noise is small, complete, typed, reproducible, and explained."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

from dpcore.accounting import Ledger, rho_pure, zcdp_rho
from dpcore.jobs.release_job import load_release_job
from dpcore.query.kinds.synthetic import PAIR_CELLS, cut
from dpcore.query.made_rows import Counts, Histogram
from dpcore.query.run import run
from dpcore.query.sensitivity import Contribution
from dpcore.query.written_plans import make_release_plan
from dpcore.rng import STREAM_VERSION
from dpcore.tables.output import metadata
from support.jobs import FORMATS, read_table, write_table
from support.releases import MADE_UP, QUERIES, Counter, cells_of, clinic

ROWS = 3000
SURELY = 1e5
"""An ε at which counts have no noise, but for a probability of e^(−10^4)."""


@pytest.fixture
def place(tmp_path, capsys):
    place = Counter(tmp_path, capsys)
    write_table(clinic(ROWS), place.source)
    return place


def made(place, query, **job):
    """Run a job with this query; its answer and its table."""
    place.write_release({"x": query}, **job)
    (answer,) = place.answers()["queries"]
    assert answer["value"]["path"] == query["output"]
    return answer, read_table(place.target.parent / query["output"].rpartition("/")[2])


def frequencies(columns, table):
    """Rows in each joint cell."""
    counts = np.zeros([len(c.get("categories") or c["edges"][1:]) for c in columns], np.int64)
    np.add.at(counts, tuple(cells_of(column, table) for column in columns), 1)
    return counts


# What it writes


@pytest.mark.some(2)
@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("ending", FORMATS)
def test_a_joint_table_is_like_the_data(place, source, ending):
    place.source = write_table(clinic(ROWS), place.folder / f"in.{source}", row_group_rows=777)
    columns = [MADE_UP[0], MADE_UP[1], MADE_UP[2] | {"integers": True}]
    answer, table = made(place, place.synthetic(ending, columns=columns, draws=20_000), epsilon=SURELY)
    truth, found = frequencies(MADE_UP, clinic(ROWS)), frequencies(MADE_UP, table)
    assert len(table) == answer["value"]["rows"] == 20_000
    # Binomial counts: 8 standard deviations.
    assert (np.abs(found - 20_000 * truth / ROWS) <= 8 * np.sqrt(20_000 * truth / ROWS)).all()
    assert [str(kind) for kind in table.schema.types] == [column["type"] for column in answer["columns"]] == ["string", "double", "int64"]
    assert table.column_names == ["region", "cost", "visits"]
    assert answer["value"]["total"] == ROWS
    assert answer["value"]["cells"] == truth.size == 48
    for axis, column in enumerate(answer["value"]["columns"]):
        exact = truth.sum(axis=tuple({0, 1, 2} - {axis}))
        assert column["counts"] == exact.tolist()
        assert column["shares"] == pytest.approx(exact / ROWS)
    for pair, axes in zip(answer["value"]["pairs"], itertools.combinations(range(3), 2), strict=True):
        (left,) = {0, 1, 2} - set(axes)
        assert np.asarray(pair["shares"]) == pytest.approx(truth.sum(axis=left) / ROWS)


def test_groups_of_columns_are_independent(place):
    query = place.synthetic(marginals=[["visits", "region"], ["cost"]], draws=40_000)
    answer, table = made(place, query, epsilon=SURELY)
    truth, found = frequencies(MADE_UP, clinic(ROWS)), frequencies(MADE_UP, table)
    expected = 40_000 * truth.sum(axis=1)[:, None, :] * truth.sum(axis=(0, 2))[:, None] / ROWS**2
    assert (np.abs(found - expected) <= 8 * np.sqrt(expected)).all()
    assert answer["joint"] == [["visits", "region"], ["cost"]]
    assert answer["value"]["cells"] == 16 + 3
    assert [pair["columns"] for pair in answer["value"]["pairs"]] == [["visits", "region"]]
    # The order of the table is that of the job, however columns are grouped.
    assert table.column_names == ["region", "cost", "visits"]


def test_marginals_are_every_column_by_itself(place):
    answer, table = made(place, place.synthetic(method="marginals", draws=40_000), epsilon=SURELY)
    truth, found = frequencies(MADE_UP, clinic(ROWS)), frequencies(MADE_UP, table)
    one, two, three = (truth.sum(axis=tuple({0, 1, 2} - {axis})) / ROWS for axis in range(3))
    expected = 40_000 * one[:, None, None] * two[:, None] * three
    assert (np.abs(found - expected) <= 8 * np.sqrt(expected) + 1).all()
    assert answer["joint"] == [["region"], ["cost"], ["visits"]]
    assert answer["value"]["pairs"] == []
    assert answer["noise"] == [{"law": "discrete_laplace", "sensitivity": 6, "scale": pytest.approx(6 / SURELY)}]


@pytest.mark.parametrize("ending", FORMATS)
def test_the_table_says_what_it_spent(place, ending):
    query = place.synthetic(ending, delta=1e-6)
    made(place, query, key=None, privacy={"relation": "add_remove"}, epsilon=0.75)
    path = place.target.parent / f"made.{ending}"
    if ending == "csv":
        said = json.loads(metadata.sidecar_path(path).read_text())
        assert said["fields"] == {}
        said = said["schema"]
    else:
        schema = pq.read_schema(path) if ending == "parquet" else ipc.open_file(path).schema
        assert not any(field.nullable for field in schema)
        said = json.loads(schema.metadata[b"dpcore"])
    assert said["epsilon"] == 0.75
    assert said["delta"] == 1e-6
    assert (said["unit"], said["relation"], said["secure"], said["kind"]) == ("row", "add_remove", True, "synthetic")
    assert said["stream_version"] == STREAM_VERSION
    # It is no table of reports.
    done = place.dpcore("estimate", path)
    assert done.code == 3
    assert "a synthetic table holds no reports to estimate from" in done.err


def test_values_inside_of_bins(place):
    table = pa.table({"n": pa.array([0, 1, 2, 3, 9], pa.uint8()), "x": [0.0, 0.5, 1.0, 1.5, 99.0]})
    write_table(table, place.source)
    columns = [
        {"name": "n", "edges": [-0.5, 2, 2.5, 9]},
        {"name": "x", "edges": [-1e308, 1.0, float(np.nextafter(1.0, 2)), 1e308]},
    ]
    answer, made_up = made(place, place.synthetic(columns=columns, draws=50_000), epsilon=SURELY)
    n, x = made_up["n"].to_numpy(), made_up["x"].to_numpy()
    assert [column["type"] for column in answer["columns"]] == ["int64", "double"]
    assert sorted(set(n.tolist())) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    shares = np.bincount(n) / len(n)
    assert np.abs(shares - [0.2, 0.2, 0.2, *[0.4 / 7] * 7]).max() < 0.02
    assert set(x[n == 2].tolist()) == {1.0}
    assert ((x[n < 2] < 1.0) & (x[n < 2] >= -1e308)).all()
    assert np.unique(x[n < 2]).size > 10_000


def test_integers_are_a_matter_of_the_column_or_the_job(place):
    columns = [{"name": "visits", "edges": [0, 10, 28], "integers": False}, {"name": "cost", "edges": [0, 50, 100], "missing": 0}]
    _, table = made(place, place.synthetic(columns=columns))
    assert [str(kind) for kind in table.schema.types] == ["double", "double"]
    columns = [columns[0] | {"integers": True}, columns[1] | {"integers": True}]
    _, table = made(place, place.synthetic(columns=columns))
    assert [str(kind) for kind in table.schema.types] == ["int64", "int64"]
    # Of several files every one must hold integers.
    place.source = place.folder / "in"
    tables = [clinic(5), clinic(5).set_column(1, "visits", pa.array([1.5] * 5))]
    for names in (("a", "b"), ("b", "a")):
        for name, each in zip(names, tables, strict=True):
            write_table(each, place.source / f"{name}.parquet")
        _, table = made(place, place.synthetic(columns=[{"name": "visits", "edges": [0, 10, 28]}]))
        assert str(table.schema.types[0]) == "double"


def test_categories_of_every_kind(place):
    listed = place.folder / "listed.csv"
    listed.write_text("region\nnorth\neast\nsouth\nwest\nabroad\n")
    columns = [
        {"name": "region", "categories_file": str(listed), "missing": "west"},
        {"name": "visits", "k": 29},
        {"name": "person", "categories": [5, 3], "unknown": 5},
    ]
    answer, table = made(place, place.synthetic(columns=columns, method="marginals"), epsilon=SURELY)
    assert [str(kind) for kind in table.schema.types] == ["string", "int64", "int64"]
    assert set(table["region"].to_pylist()) == {"north", "east", "west", "abroad"}  # there is no south in the data
    assert set(table["person"].to_pylist()) <= {3, 5}
    assert answer["columns"][0]["categories"] == ["north", "east", "south", "west", "abroad"]
    assert answer["columns"][0]["missing"] == "west"
    assert sum(answer["value"]["columns"][1]["counts"]) == ROWS


# How many rows


def test_rows_of_a_table(place):
    answer, table = made(place, place.synthetic())
    assert len(table) == answer["value"]["rows"] == ROWS
    _, table = made(place, place.synthetic(draws=7))
    assert len(table) == 7


@pytest.mark.parametrize("privacy", [{"relation": "add_remove"}, {"unit": "person", "max_rows_per_unit": ROWS}], ids=str)
def test_a_private_number_of_rows_is_noisy(place, privacy):
    query = place.synthetic(marginals=[["region", "cost"], ["visits"]])
    answer, table = made(place, query, privacy=privacy, epsilon=2.0 if "relation" in privacy else 1e4)
    assert len(table) == answer["value"]["rows"] == answer["value"]["total"]
    scale = answer["noise"][0]["scale"]
    assert abs(len(table) - ROWS) < 40 * scale
    counts = [column["counts"] for column in answer["value"]["columns"]]
    # Both histograms tell it; that of fewer cells does so with less noise.
    assert len(table) == round((sum(counts[0]) / 12 + sum(counts[2]) / 4) / (1 / 12 + 1 / 4))


def test_rows_must_be_given_where_noise_hides_them(place):
    place.write_release({"x": place.synthetic()}, privacy={"relation": "add_remove"}, epsilon=1e-6)
    done = place.release()
    assert done.code == 2
    assert "query[0] ('x', synthetic): draws is required: the number of rows is private here, and the sum of 48 noisy cells" in done.err
    answer, table = made(place, place.synthetic(draws=10), privacy={"relation": "add_remove"}, epsilon=1e-6)
    assert len(table) == 10
    assert answer["noise"][0]["scale"] == pytest.approx(1e6)


def test_an_empty_table(place):
    write_table(clinic(0), place.source)
    for ending in FORMATS:
        answer, table = made(place, place.synthetic(ending), epsilon=SURELY)
        assert len(table) == answer["value"]["rows"] == 0
        assert table.column_names == ["region", "cost", "visits"]
    answer, table = made(place, place.synthetic(draws=4000, marginals=[["region", "visits"], ["cost"]]), epsilon=SURELY)
    # Nothing is above 0, so everything is equally likely.
    assert answer["note"] == "noise left no count above 0, so that all cells are equally likely: region, visits, cost"
    found = frequencies(MADE_UP, table)
    assert np.abs(found - 4000 / 48).max() < 8 * np.sqrt(4000 / 48)
    assert answer["value"]["columns"][0]["shares"] == [0.25] * 4


def test_a_noisy_number_of_rows_below_zero(place):
    write_table(clinic(0), place.source)
    totals = []
    for first in range(12):
        key = bytes([first]) + bytes(31)
        answer, table = made(place, place.synthetic(), privacy={"relation": "add_remove"}, key=key)
        totals.append(answer["value"]["total"])
        assert len(table) == max(totals[-1], 0)
    assert min(totals) < 0 < max(totals)


# Reproducible


@pytest.mark.long
def test_the_table_does_not_depend_on_how_rows_are_cut(place):
    queries = {"rows": QUERIES["rows"], "x": place.synthetic(marginals=[["region", "visits"], ["cost"]], draws=150_000)}
    for privacy in ({}, {"unit": "person", "max_rows_per_unit": 2}):
        place.write_release(queries, privacy=privacy)
        plan = make_release_plan(load_release_job(place.job), overwrite=True)
        documents, tables = [], []
        for threads, rows in ((1, None), (3, 100), (4, 2999)):
            documents.append(run(plan, threads=threads, piece_rows=rows))
            tables.append(pq.read_table(place.target.parent / "made.parquet"))
        assert documents[1:] == documents[:-1]
        assert tables[1:] == tables[:-1]


def test_more_rows_begin_with_fewer(place):
    longer = made(place, place.synthetic(draws=300))[1]
    assert made(place, place.synthetic(draws=170))[1] == longer.slice(0, 170)


def test_without_a_key_tables_differ(place):
    first, second = (made(place, place.synthetic(), key=None)[1] for _ in range(2))
    assert first.schema == second.schema
    assert first != second


def test_several_tables_of_one_job(place):
    names = ["a", "b", "c"]
    queries = {
        name: place.synthetic(columns=[column], output=str(place.target.parent / f"{name}.csv"))
        for name, column in zip(names, MADE_UP, strict=True)
    }
    place.write_release(queries)
    answers = place.answered()
    expected = [f"{name}.csv{more}" for name in names for more in ("", ".dpcore.json")]
    assert place.left_behind() == sorted([*expected, "answers.json"])
    assert all(len(read_table(place.target.parent / f"{name}.csv")) == ROWS for name in answers)


# Many cells


def test_many_cells_with_few_rows(place):
    """The counts of 2^20 cells, of which the rows of a piece touch a few, are gathered as those that they touch."""
    columns = [{"name": "visits", "k": 1024}, {"name": "person", "k": 1024}]
    answer, table = made(place, place.synthetic(columns=columns), epsilon=SURELY)
    assert answer["value"]["cells"] == 2**20
    assert answer["value"]["pairs"] == []
    data = clinic(ROWS)
    known = set(zip(data["visits"].to_pylist(), data["person"].to_pylist(), strict=True))
    assert set(zip(table["visits"].to_pylist(), table["person"].to_pylist(), strict=True)) <= known
    exact = np.bincount(data["person"].to_numpy(), minlength=1024)
    assert answer["value"]["columns"][1]["counts"] == exact.tolist()


def test_tallies_of_parts_add_up_whatever_their_form():
    codes = np.array([3, 900, 3, 17], np.int64)
    sparse, dense = Counts.of(1000, 4, codes), Counts.of(1000, 1000, np.arange(1000) // 2)
    assert sparse.cells is not None
    assert dense.cells is None
    expected = np.bincount(codes, minlength=1000) + np.bincount(np.arange(1000) // 2, minlength=1000)
    for one, other in itertools.permutations([sparse, dense]):
        both = Counts.of(1000, 0, codes[:0])
        both += one
        both += other
        assert both.rows == 1004
        assert (both.all() == expected).all()
    assert sparse.cells.tolist() == [3, 17, 900]
    assert Counts.of(1000, 0, codes[:0]).all().sum() == 0


def test_cells_of_joint_columns_count_like_digits():
    histogram = Histogram((2, 0), (3, 5), 10)
    read = [np.array([0, 4, 2]), np.array([9, 9, 9]), np.array([0, 1, 2])]
    assert histogram.cells(read).tolist() == [10, 10 + 9, 10 + 12]
    assert histogram.of(np.arange(30))[1, 4] == 19


def test_cutting():
    assert cut(np.array([[3, -1], [0, 2]])).tolist() == [[3, 0], [0, 2]]
    assert cut(np.array([-3, 0, -1])).tolist() == [1, 1, 1]


def test_wide_pairs_are_left_out(place):
    columns = [{"name": "visits", "k": PAIR_CELLS // 2}, {"name": "person", "k": 3, "unknown": 0}, {"name": "region", "categories": ["a"]}]
    columns[2] |= {"unknown": "a", "missing": "a"}
    answer, _ = made(place, place.synthetic(columns=columns))
    assert [pair["columns"] for pair in answer["value"]["pairs"]] == [["visits", "region"], ["person", "region"]]


# What it costs


@pytest.mark.parametrize(
    ("rows", "replaced", "count", "l1", "squared"),
    [(1, True, 1, 2, 2), (1, True, 3, 6, 6), (4, True, 2, 16, 64), (1, False, 3, 3, 3), (5, False, 4, 20, 100)],
)
def test_the_sensitivity_of_several_histograms(rows, replaced, count, l1, squared):
    found = Contribution(rows, replaced, n_is_public=False).histograms(count)
    assert (found.l1, found.alone) == (l1, False)
    assert found.l2 == np.sqrt(squared) or found.l2 == np.nextafter(np.sqrt(squared), np.inf)
    assert Contribution(rows, replaced, n_is_public=False).cells == Contribution(rows, replaced, n_is_public=False).histograms(1)


def test_gaussian_noise_of_many_histograms_grows_with_their_root(place):
    scales = {}
    for method in ("joint", "marginals"):
        place.write_release({"x": place.synthetic(method=method, delta=1e-6)})
        (answer,) = make_release_plan(load_release_job(place.job)).estimators
        scales[method] = answer.noise[0].scale
    assert scales["marginals"] / scales["joint"] == pytest.approx(np.sqrt(3), rel=1e-6)


def test_the_ledger_pays_for_it(place):
    ledger = Ledger.create(place.folder / "rho.ledger", rho=zcdp_rho(3.0, 1e-6, failure_delta=1e-7), failure_delta=1e-7)
    place.write_release({"x": place.synthetic(method="marginals")}, ledger=ledger.path, epsilon=0.5)
    place.answers()
    (entry,) = ledger.entries()
    assert entry.rho == pytest.approx(rho_pure(0.5), rel=1e-9)


@pytest.mark.long
def test_only_jobs_with_a_table_load_what_draws_rows():
    """It loads SciPy, which takes longer than many a job."""
    program = "import sys, dpcore.query.run; print([name for name in ('dpcore.distributions', 'scipy') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# The page, and the plan


def test_a_dry_run_says_what_table_it_would_write(place):
    place.write_release({"x": place.synthetic(), "y": place.synthetic("csv", method="marginals", draws=1)})
    before = sorted(place.folder.rglob("*"))
    done = place.release("--dry-run", "--table")
    assert done.code == 0
    assert "made.parquet: as many rows as are read, drawn from 48 cells of one histogram" in done.out
    assert "made.csv: 1 row, drawn from 11 cells of 3 histograms" in done.out
    assert "region, cost, visits" in done.out
    assert sorted(place.folder.rglob("*")) == before


@pytest.mark.long
def test_the_page_shows_each_column_and_pair(place):
    pytest.importorskip("matplotlib")
    wide = {"name": "person", "k": 1500}
    listed = {"name": "visits", "k": 29}
    queries = {
        "joint <b>": place.synthetic(),
        "groups": place.synthetic("csv", columns=[wide, listed, *MADE_UP[:2]], marginals=[["person"], ["region", "cost"], ["visits"]]),
        "fine": place.synthetic("arrow", columns=[{"name": "cost", "edges": {"start": 0, "stop": 100, "step": 1}, "missing": 0}]),
    }
    place.write_release(queries)
    assert place.release("--report", place.folder / "report").code == 0
    text = (place.folder / "report/answers.html").read_text(encoding="utf-8")
    for words in (
        "synthetic: 3 columns, 48 cells",
        '<span class="value">3,000 rows</span>',
        "A table of made-up rows with the columns region, cost, visits, drawn together.",
        "A table of made-up rows with the columns person, visits, region, cost, drawn independently but for region and cost.",
        "A table of made-up rows with the column cost.",
        "Missing values of region count as “west”; unknown values of region count as “north”; missing values of cost count as 30.",
        "<h3>region and cost</h3>",
        "whole numbers within a bin are uniform",
        "1,460 less frequent categories are not drawn.",
        "The band shows the noisy counts, the line the expected counts.",
        "and only these\nnumbers and tables left it.",
        "Discrete Laplace noise of scale 2, for a sensitivity of 2.",
    ):
        assert words in text, words
    assert text.count("<svg") / 2 == (3 + 3) + (4 + 1) + 1
    assert "<b>" not in text
