"""Programs in the manner of the user guides of pandas, polars, pyarrow and DuckDB: what they return keeps its types, shapes and names."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

pytest.importorskip("polars", reason="make test runs it")
pytest.importorskip("pandas", reason="make test runs it")
pytest.importorskip("duckdb", reason="make test runs it")

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as dataset
import pyarrow.parquet as parquet

from dpcore import local
from dpcore.interop import arrow
from dpcore.interop import duckdb as dp_duckdb
from dpcore.interop import pandas as dp_pandas
from dpcore.interop import polars as dp_polars
from dpcore.mechanisms import DiscreteLaplace, Laplace
from support.versions import only_tested

only_tested(arrow.PEER, dp_duckdb.PEER, dp_pandas.PEER, dp_polars.PEER)

COUNTS = DiscreteLaplace(epsilon=1e5, sensitivity=1, relation="add_remove")  # the answers are those without noise
MEANS = Laplace(epsilon=1e9, sensitivity=1.0, relation="add_remove")
HEIGHTS = local.LocalLaplace(1.0, 1.0, 2.5)
SPECIES = local.KaryResponse.from_categories(epsilon=2.0, categories=["cat", "dog"])
PEOPLE = {
    "name": ["Ada", "Ben", "Cleo", "Dan"],
    "born": [dt.date(1997, 1, 10), dt.date(1985, 2, 15), dt.date(1983, 3, 22), dt.date(1981, 4, 30)],
    "weight": [57.9, 72.5, None, 83.1],
    "height": [1.56, 1.77, 1.65, 1.75],
    "pet": ["cat", "dog", None, "cat"],
}


@pytest.fixture
def file(tmp_path):
    """The people, as a file of Parquet."""
    pl.DataFrame(PEOPLE).write_parquet(tmp_path / "people.parquet")
    return tmp_path / "people.parquet"


def test_polars_scans_groups_and_selects(file):
    plan = pl.scan_parquet(file).with_columns(decade=pl.col("born").dt.year() // 10 * 10)
    answers = plan.group_by("decade", maintain_order=True).agg(pl.len().cast(pl.Int64).alias("n"), pl.col("weight").mean())
    found = dp_polars.release(answers, {"n": COUNTS, "weight": MEANS}, missing={"n": "refuse", "weight": 0.0}, keep=["decade"])
    assert found.schema == answers.collect_schema()
    assert found["n"].to_list() == [1, 3]
    assert found["weight"].round(3).to_list() == [57.9, 77.8]
    with pytest.raises(Exception, match=r"column 'n': noise makes negative numbers.*dtype=\"mechanism\""):
        dp_polars.release(plan.select(pl.len().alias("n")), {"n": COUNTS}, missing="refuse")
    with dp_polars.install():
        dp_polars.install()  # a cell that is run again
        reports = plan.select("name", pl.col("weight", "height").dp.release(HEIGHTS, missing="keep")).collect(engine="streaming")
    dp_polars.uninstall()
    assert reports.columns == ["name", "weight", "height"]
    assert reports["weight"].null_count() == 1
    pets = pl.read_parquet(file)["pet"].cast(pl.Categorical)
    assert dp_polars.release(pets[1:4], SPECIES, missing="keep").is_null().to_list() == [False, True, False]
    assert dp_polars.release(pets, SPECIES, missing="cat").dtype == pl.Categorical


def test_pandas_groups_pivots_and_cuts(file):
    people = pd.read_parquet(file)
    people["tall"] = pd.cut(people["height"], [1.0, 1.7, 2.5], labels=["no", "yes"])
    by_pet = people.groupby("pet")["height"].agg(["size", "mean"])
    found = dp_pandas.release(by_pet, {"size": COUNTS, "mean": MEANS}, missing="refuse")
    pd.testing.assert_frame_equal(found, by_pet, atol=1e-6)
    counts = people["pet"].value_counts()
    pd.testing.assert_series_equal(dp_pandas.release(counts, COUNTS), counts)
    table = pd.crosstab(people["tall"], people["pet"])
    pd.testing.assert_frame_equal(dp_pandas.release(table, dict.fromkeys(table.columns, COUNTS)), table)
    response = local.KaryResponse.from_categories(epsilon=1.0, categories=["no", "yes"])
    reports = dp_pandas.release(people.set_index("name")[["tall", "weight", "born"]].iloc[1:], {"tall": response, "weight": HEIGHTS},
                                missing={"tall": "no", "weight": "keep"}, keep=["born"])  # fmt: skip
    assert reports.dtypes.equals(people[["tall", "weight", "born"]].dtypes)
    assert reports.index.tolist() == PEOPLE["name"][1:]
    assert reports["weight"].isna().tolist() == [False, True, False]
    with pytest.raises(TypeError, match="go to the mechanism itself"):
        dp_pandas.release(people["height"].mean(), MEANS, missing="refuse")
    assert abs(MEANS.release(people["height"].mean()) - 1.6825) < 1e-6


def test_pyarrow_reads_computes_and_groups(file):
    table = parquet.read_table(file)
    sums = table.group_by("pet").aggregate([("height", "sum"), ([], "count_all")])
    found = arrow.release(sums, {"height_sum": MEANS, "count_all": COUNTS}, missing="refuse", keep=["pet"])
    assert found.schema.types == sums.schema.types
    assert found["count_all"].equals(sums["count_all"])
    with pytest.raises(TypeError, match=r"scanner\(\)\.to_reader"):
        arrow.release(dataset.dataset(file), {"height": HEIGHTS}, missing="refuse")
    batches = dataset.dataset(file).scanner(columns=["height", "name"]).to_reader()
    reports = arrow.release(batches, {"height": HEIGHTS}, missing="refuse", keep=["name"]).read_all()
    assert reports["name"].to_pylist() == PEOPLE["name"]
    days = pa.array([1, 12, 17, 23, 28], pa.int8())
    assert arrow.release(days[1:3], COUNTS, missing="refuse").equals(days[1:3])
    pets = table["pet"].dictionary_encode()
    assert arrow.release(pets, SPECIES, missing="keep").type == pets.type


def test_duckdb_reads_files_and_frames(file):
    connection = duckdb.connect()
    frame = pd.DataFrame({"name": PEOPLE["name"], "visits": [1, 2, 3, 4]})
    question = "SELECT pet, avg(height) AS height, sum(visits) AS visits FROM frame JOIN '{}' USING (name) GROUP BY pet ORDER BY pet"
    answers = connection.sql(question.format(file))
    found = dp_duckdb.release(answers, {"height": MEANS, "visits": COUNTS}, missing="refuse", keep=["pet"], connection=connection)
    assert found.columns == answers.columns
    assert found.types == answers.types
    assert [row[2] for row in found.fetchall()] == [5, 2, 3]
    assert connection.sql("SELECT count(*) FROM found JOIN answers USING (pet)").fetchall() == [(2,)]
    assert found.df().equals(found.df())
    reports = dp_duckdb.release(connection.read_parquet(str(file)), {"weight": HEIGHTS}, missing=75.0, keep=["name"])
    assert len(reports.fetchall()) == 4
    assert np.isfinite(reports.df()["weight"]).all()
    assert frame["visits"].tolist() == [1, 2, 3, 4]
