"""A frame gives the answers of a job on a file with the same rows, bit for bit, whatever library it is of."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

from support.extras import evaluated
from support.frames import FRAMES, answers_of_job, asked, keyed
from support.releases import QUERIES, REGIONS, clinic

# The same queries go to tables of every unit and relation, and of some the number of rows is public.
pytestmark = pytest.mark.filterwarnings("ignore::dpcore.errors.UnusedEpsilonWarning")

BY_REGION = {"group_by": "region", "groups": REGIONS}
MORE = {
    "median": {"kind": "median", "column": "cost", "grid": {"start": 0, "stop": 120, "step": 0.5}, "missing": 0},
    "variance": {"kind": "var", "column": "cost", "lower": 10.0, "upper": 90.0, "missing": 20.0},
    "deviation": {"kind": "std", "column": "visits", "lower": 0, "upper": 20, "missing": 1, "delta": 1e-6},
    "both": {"kind": "covariance", "columns": ["cost", "visits"], "lower": [10, 0], "upper": [90, 20], "missing": [20.0, 0]},
    "present": {"kind": "mean", "column": "cost", "lower": 10.0, "upper": 90.0, "missing": "skip"},
    "count by region": {"kind": "count", **BY_REGION},
    "mean by region": {"kind": "mean", "column": "visits", "lower": 0, "upper": 20, "missing": 3, **BY_REGION},
    "values": {"kind": "count_distinct", "column": "region", "max_values_per_unit": 1},
    "values by region": {"kind": "count_distinct", "column": "visits", "max_values_per_unit": 1, **BY_REGION},
    "present cells": {"kind": "count", "column": "cost", "missing": "skip"},
    "found": {"kind": "mean", "column": "visits", "bounds": "private", "bounds_epsilon": 0.25, "missing": 3},
    "found by region": {"kind": "mean", "column": "visits", "bounds": "private", "bounds_epsilon": 0.25, "missing": 3, **BY_REGION},
    "dear": {"kind": "mean", "column": "visits", "lower": 0, "upper": 20, "missing": 3, "where": "cost > 40 AND region <> 'east'"},
    "typical": {"kind": "geometric_mean", "column": "cost", "lower": 1.0, "upper": 90.0, "missing": "skip"},
    "typical by region": {"kind": "geometric_mean", "column": "visits", "lower": 1.0, "upper": 20.0, "missing": 2, **BY_REGION},
    "most frequent": {"kind": "mode", "column": "region", "candidates": REGIONS},
    "most frequent by region": {"kind": "mode", "column": "visits", "k": 29, **BY_REGION},
    "share": {"kind": "rate", "column": "region", "categories": REGIONS[:2], "missing": "skip"},
    "share by region": {"kind": "rate", "column": "visits", "lower": 0, "upper": 9, **BY_REGION},
    "gaussian": {"kind": "sum", "column": "cost", "lower": 0.0, "upper": 90.0, "missing": 0.0, "delta": 1e-6},
}
ASKED = [{"name": name, "epsilon": 0.5, **query} for name, query in {**QUERIES, **MORE}.items()]
SETTINGS = {
    "row": {},
    "row, add/remove": {"relation": "add_remove"},
    "person": {"unit": "person", "max_rows_per_unit": 2},
    "person, add/remove": {"unit": "person", "max_rows_per_unit": 3, "max_groups_per_unit": 2, "relation": "add_remove"},
}


UNITS_OF_ROWS = {"row": {}, "person": {"unit": "person", "max_rows_per_unit": 2}}
of_each_library_and_unit = pytest.mark.parametrize(
    ("library", "settings"),
    [
        pytest.param(library, settings, id=f"{name}-{library}", marks=() if (i + j) % 2 else pytest.mark.long)
        for i, library in enumerate(FRAMES)
        for j, (name, settings) in enumerate(UNITS_OF_ROWS.items())
    ],
)
"""Each library with rows or with people, by turns; with both behind `long`."""


OFTEN = ("row", "person, add/remove")
"""Settings of the default tests: each relation and each kind of unit once."""


@pytest.fixture(scope="module", params=[pytest.param(name, marks=() if name in OFTEN else pytest.mark.long) for name in SETTINGS])
def expected(request, tmp_path_factory):
    """The settings, and what a job answers."""
    settings = SETTINGS[request.param]
    return settings, answers_of_job(tmp_path_factory.mktemp("job"), clinic(700), ASKED, settings)


@evaluated
@pytest.mark.some(2)
@pytest.mark.parametrize("library", FRAMES)
def test_a_batch_is_the_job(library, expected):
    settings, answers = expected
    with keyed(FRAMES[library](clinic(700)), **settings).batch(epsilon=1e6, delta=0.5) as batch:
        found = [asked(batch, query) for query in ASKED]
    for result, answer in zip(found, answers, strict=True):
        assert json.loads(json.dumps(result.document)) == answer


@pytest.mark.long
@pytest.mark.parametrize("library", ["pandas", "duckdb"])
def test_queries_one_by_one_are_those_of_the_job(library, expected):
    settings, answers = expected
    table = keyed(FRAMES[library](clinic(700)), **settings)
    for query, answer in zip(ASKED, answers, strict=True):
        # The choice of groups is one for all queries of a job, and of those here only the grouped ones bound groups. A condition is one of
        # this table's rows here, and of the query's there.
        if ("max_groups_per_unit" not in settings or "group_by" in query) and "where" not in query:
            assert json.loads(json.dumps(asked(table, query).document)) == answer
        else:
            asked(table, query)


@pytest.mark.long
def test_a_path_is_the_job(expected, tmp_path):
    import pyarrow.parquet as pq

    settings, answers = expected
    pq.write_table(clinic(700), tmp_path / "clinic.parquet")
    with keyed(tmp_path / "clinic.parquet", **settings).batch(epsilon=1e6, delta=0.5) as batch:
        found = [asked(batch, query) for query in ASKED]
    assert [json.loads(json.dumps(result.document)) for result in found] == answers


@pytest.mark.long
@of_each_library_and_unit
def test_empty_frames(library, settings, tmp_path):
    answers = answers_of_job(tmp_path, clinic(700).slice(0, 0), ASKED, settings)
    with keyed(FRAMES[library](clinic(700).slice(0, 0)), **settings).batch(epsilon=1e6, delta=0.5) as batch:
        found = [asked(batch, query) for query in ASKED]
    assert [json.loads(json.dumps(result.document)) for result in found] == answers


UNITS = [
    {"kind": "count_distinct", "name": "people", "epsilon": 1.0},
    {"kind": "sum", "name": "cost", "column": "cost", "max_sum_per_unit": 150, "missing": 0, "epsilon": 1.0},
]
DERIVED = {
    "where": "visits >= 2 AND region IS NOT NULL",
    "derive": [{"name": "dear", "sql": "cost > 40"}, {"name": "twice", "sql": "visits * 2"}],
}
OF_DERIVED = [
    {"kind": "mean", "name": "twice", "column": "twice", "lower": 0, "upper": 60, "missing": 0, "epsilon": 1.0},
    {"kind": "mean", "name": "dear", "column": "dear", "lower": 0, "upper": 1, "missing": 0, "epsilon": 1.0, **BY_REGION},
]


@pytest.mark.some(2)
@pytest.mark.parametrize("library", FRAMES)
def test_queries_of_whole_units(library, tmp_path):
    settings = {"unit": "person"}
    answers = answers_of_job(tmp_path, clinic(700), UNITS, settings)
    table = keyed(FRAMES[library](clinic(700)), **settings)
    assert [json.loads(json.dumps(asked(table, query).document)) for query in UNITS] == answers


@pytest.mark.some(2)
@of_each_library_and_unit
def test_conditions_and_derived_columns(library, settings, tmp_path):
    answers = answers_of_job(tmp_path, clinic(700), OF_DERIVED, settings, **DERIVED)
    table = keyed(FRAMES[library](clinic(700)), **settings).where("visits >= 2").where("region IS NOT NULL")
    table = table.derive(**{entry["name"]: entry["sql"] for entry in DERIVED["derive"]})
    assert [json.loads(json.dumps(asked(table, query).document)) for query in OF_DERIVED] == answers
    table = keyed(FRAMES[library](clinic(700)), **settings).where(DERIVED["where"])
    with table.derive(**{entry["name"]: entry["sql"] for entry in DERIVED["derive"]}).batch(epsilon=2.0) as batch:
        found = [asked(batch, query) for query in OF_DERIVED]
    assert [json.loads(json.dumps(result.document)) for result in found] == answers


@evaluated
@pytest.mark.some(2)
@pytest.mark.parametrize("library", FRAMES)
def test_public_tables_are_looked_up(library, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    public = pa.table({"region": [*REGIONS, "abroad"], "doctors": [3, 1, 4, 1, 5]})
    pq.write_table(public, tmp_path / "public.parquet")
    entry = {"path": str(tmp_path / "public.parquet"), "key": "region", "columns": ["doctors"]}
    query = {"kind": "mean", "name": "doctors", "column": "doctors", "lower": 0, "upper": 5, "missing": 0, "epsilon": 1.0}
    settings = {"unit": "person", "max_rows_per_unit": 2}
    answers = answers_of_job(tmp_path, clinic(700), [query], settings, lookup=[entry])
    for table in (FRAMES[library](public), entry["path"]):
        if library != "pandas objects":  # whose first column is no column there
            seen = keyed(FRAMES[library](clinic(700)), **settings).lookup(table, "region", ["doctors"])
            assert [json.loads(json.dumps(asked(seen, query).document))] == answers


@pytest.mark.parametrize("library", FRAMES)
def test_answers_come_back_as_frames_of_the_library(library):
    native = {"pandas": "pandas", "polars": "polars", "duckdb": "duckdb"}.get(library.split()[0], "pyarrow")
    table = keyed(FRAMES[library](clinic(70))).group_by("region", groups=REGIONS)
    for found in (table.count(epsilon=1.0), keyed(FRAMES[library](clinic(70))).count(epsilon=1.0)):
        frame = found.to_native()
        assert type(frame).__module__.partition(".")[0].lstrip("_") == native
        assert list(frame.columns if native != "pyarrow" else frame.column_names)[-4:] == ["value", "stderr", "lower", "upper"]


GROUPED = {
    "two columns": {"kind": "mean", "column": "cost", "lower": 0, "upper": 90, "missing": 0, "group_by": ["region", "visits"],
                    "groups": {"region": REGIONS, "visits": {"edges": [0, 5, 30]}}},
    "records": {"kind": "count", "group_by": ["region", "visits"],
                "groups": [{"region": "east", "visits": 3}, {"region": None, "visits": 4}]},
    "histogram": {"kind": "histogram", "column": "visits", "edges": [0, 5, 30], "missing": 0, **BY_REGION},
    "top": {"kind": "top_s", "column": "visits", "s": 2, "k": 30, "values": True, **BY_REGION},
    "quantile": {"kind": "quantile", "column": "cost", "q": [0.5, 0.9], "grid": [0, 30, 60, 90], "missing": 0, **BY_REGION},
}  # fmt: skip


@pytest.mark.some(4)
@of_each_library_and_unit
def test_groups_of_all_kinds(library, settings, tmp_path):
    queries = [{"name": name, "epsilon": 1.0, **query} for name, query in GROUPED.items()]
    answers = answers_of_job(tmp_path, clinic(700), queries, settings)
    with keyed(FRAMES[library](clinic(700)), **settings).batch(epsilon=9.0) as batch:
        found = {query["name"]: asked(batch, query) for query in queries}
    assert [json.loads(json.dumps(result.document)) for result in found.values()] == answers
    shapes = {name: (result.to_arrow().num_rows, result.to_arrow().column_names[:3]) for name, result in found.items()}
    assert shapes == {
        "two columns": (8, ["region", "visits_left", "visits_right"]),
        "records": (2, ["region", "visits", "value"]),
        "histogram": (8, ["region", "left", "right"]),
        "top": (8, ["region", "visits", "value"]),
        "quantile": (8, ["region", "q", "value"]),
    }
    assert found["histogram"].interval.shape == (4, 2, 2)
    assert found["top"].value.shape == found["quantile"].value.shape == (4, 2)


@pytest.mark.long
def test_a_million_groups():
    import numpy as np
    import pandas as pd

    rows = np.arange(1_000_000)
    frame = pd.DataFrame({"a": rows % 1000, "b": rows // 1000})
    public = frame[rows < 10_000]
    for groups, count in (({"a": range(1000), "b": {"k": 1000}}, 1_000_000), (public, 10_000)):
        found = keyed(frame).group_by("a", "b", groups=groups).count(epsilon=1.0)
        table = found.to_arrow()
        assert table.column_names == ["a", "b", "value", "stderr", "lower", "upper"]
        assert table.num_rows == len(found.value) == count
        assert f"{count:,} rows" in repr(found)
        assert "more" in found._repr_html_()
