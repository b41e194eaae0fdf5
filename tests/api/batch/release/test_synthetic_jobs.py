"""Jobs for synthetic tables that cannot run end with exit code 2, say what is wrong, and write nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest

from support.jobs import write_table
from support.releases import Counter, clinic


@pytest.fixture
def place(tmp_path, capsys):
    place = Counter(tmp_path, capsys)
    write_table(clinic(30), place.source)
    return place


REGION = {"name": "region", "categories": ["a", "b"]}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"columns": []}, ["query[0]: columns must list between 1 and 1024 columns, got 0 of them"]),
        ({"columns": [REGION, REGION]}, ["columns: 2 entries are named 'region'; a column is declared once"]),
        ({"columns": [{"name": "region"}]}, ["query[0].columns[0]: column 'region' needs one of categories", "(query 'x')"]),
        ({"columns": [REGION | {"bin": [0, 1]}]}, ["query[0].columns[0].bin: unknown key; allowed here:", "did you mean 'bins'?"]),
        ({"columns": [{"categories": ["a", "b"]}]}, ["query[0].columns[0].name is required"]),
        ({"columns": ["region"]}, ["query[0].columns[0] = 'region': must be a table"]),
        ({"columns": [REGION | {"missing": "c"}]}, ["missing must be one of the categories ['a', 'b'], got 'c'"]),
        ({"columns": [REGION | {"integers": True}]}, ["integers is for columns with bins, and this column has none"]),
        (
            {"columns": [{"name": "visits", "edges": [0, 0.2, 0.8], "integers": True}]},
            ["the bin between the edges 0.2 and 0.8 holds no integer; set integers = false for real numbers"],
        ),
        (
            {"columns": [{"name": "visits", "edges": [0, 0.2, 0.8]}]},
            ["query[0] ('x', synthetic): column 'visits': the bin between the edges 0.2 and 0.8 holds no integer"],
        ),
        (
            {"columns": [{"name": "visits", "edges": [0, 1e17]}]},
            ["column 'visits': edges of bins of integers must be in [−2^53, 2^53], got [0.0, 1e+17]"],
        ),
        ({"output": "made.txt"}, ["query[0].output: must be the path of a table that ends in one of .parquet, .csv, .arrow, got"]),
        ({"method": "copula"}, ["query[0].method = 'copula': must be 'joint' or 'marginals'"]),
        ({"marginals": [["region"]]}, ["marginals must hold each column in one group, but no group holds 'cost'"]),
        ({"marginals": [["region", "cost"], ["visits", "cost"]]}, ["but 2 groups hold 'cost'"]),
        ({"marginals": [["region", "cost"], ["visits", "age"]]}, ["marginals names 'age', which is not one of the columns: 'region'"]),
        ({"marginals": [["region", "cost", "visits"], []]}, ["marginals must not hold an empty group"]),
        ({"marginals": [["region", "cost", "visits"]], "method": "joint"}, ["marginals = [[...], ...] says which columns are joint"]),
        ({"draws": 0}, ["query[0].draws: draws must be in [1, 2147483647], got 0"]),
        ({"max_cells": 2**24 + 1}, ["query[0].max_cells: max_cells must be in [1, 16777216], got 16777217"]),
        (
            {"max_cells": 47},
            ["query[0] ('x', synthetic): there are 48 cells (4 × 3 × 4), and max_cells = 47", 'method = "marginals"', "a larger max_cells"],
        ),
        (
            {"max_cells": 14, "marginals": [["region", "cost"], ["visits"]]},
            ["there are 16 cells, one histogram with 4 × 3, and max_cells = 14; take fewer or coarser columns"],
        ),
        ({"columns": [{"name": "visits", "k": 5000}, {"name": "person", "k": 5000}]}, ["there are 25,000,000 cells (5000 × 5000)"]),
        ({"columns": [{"name": f"c{i}", "categories": [0]} for i in range(33)]}, ["at most 32 columns may be joint, got 33 of them"]),
        ({"columns": [REGION, {"name": "regoin", "k": 3}]}, ["there is no column 'regoin'", "Did you mean 'region'?"]),
        ({"columns": [{"name": "region", "k": 3}]}, ["column 'region' has type string, but 'x' (synthetic with these categories) takes"]),
        ({"epsilon": 1e-13}, ["query[0] ('x', synthetic)", "must give a noise scale"]),
        ({"group_by": "region", "groups": ["a"]}, ["query[0].group_by: unknown key"]),
    ],
)  # fmt: skip
def test_mistakes_in_a_query(place, changed, words):
    write_table(
        pa.table({**dict(zip(clinic(5).column_names, clinic(5).columns, strict=True)), **{f"c{i}": [0] * 5 for i in range(33)}}),
        place.source,
    )
    place.write_release({"x": place.synthetic() | changed})
    before = sorted(place.folder.rglob("*"))
    done = place.release()
    assert done.code == 2, done.said
    for word in words:
        assert word in done.err, (word, done.err)
    assert "Traceback" not in done.err
    assert sorted(place.folder.rglob("*")) == before


def test_stand_ins_of_a_file_of_categories(place):
    listed = place.folder / "listed.csv"
    listed.write_text("region\nnorth\neast\n")
    place.write_release({"x": place.synthetic(columns=[{"name": "region", "categories_file": str(listed), "missing": "south"}])})
    done = place.release()
    assert done.code == 2
    assert "query[0] ('x', synthetic): column 'region': missing must be one of the categories, got 'south'" in done.err


def test_tables_in_the_way(place):
    query = place.synthetic()
    place.write_release({"x": query})
    assert place.release().code == 0
    place.target.unlink()
    before = (place.target.parent / "made.parquet").read_bytes()
    done = place.release()
    assert done.code == 2
    assert "query[0].output = " in done.err
    assert "a second time" in done.err
    assert (place.target.parent / "made.parquet").read_bytes() == before
    assert place.release("--overwrite").code == 0
    assert (place.target.parent / "made.parquet").read_bytes() != b""
    for changed, words in (
        ({"output": str(place.source)}, "is the same file as input.path"),
        ({"output": str(place.folder / "x.csv")}, "query[1].output = "),
    ):
        place.write_release({"x": query | changed, "y": query | changed})
        done = place.release("--overwrite")
        assert done.code == 2
        assert words in done.err
    place.target = place.folder / "made.csv.dpcore.json"
    place.write_release({"x": query | {"output": str(place.folder / "made.csv")}})
    done = place.release()
    assert done.code == 2
    assert "is the same file as" in done.err
    assert "made.csv.dpcore.json" in done.err
