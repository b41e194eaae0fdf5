"""Rows that do not fit their declaration end the job with exit code 3, a position, no value, and no output."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dpcore.batch import load_job, make_plan, privatize
from dpcore.errors import DataError
from dpcore.jobs import privatize as engine
from support.jobs import COLUMNS, FORMATS, Workplace, people, read_table, write_table
from support.refusals import refused_row

SECRET = "48151623"
INTEGERS = {"n": {"mechanism": "discrete_laplace", "epsilon": 1.0, "lower": 0, "upper": 20}}
REALS = {"n": {"mechanism": "laplace", "epsilon": 1.0, "lower": 0, "upper": 20}}
BLOCK = 4 << 20


@pytest.fixture
def place(tmp_path, capsys):
    return Workplace(tmp_path, capsys)


def refused(place, *words):
    refused_row(place, place.privatize, SECRET, *words)


@pytest.mark.parametrize("columns", [INTEGERS, REALS])
@pytest.mark.parametrize("source", FORMATS)
def test_a_null_without_missing(place, source, columns):
    place.source = write_table(pa.table({"n": pa.array([1, 2, None, None]), "m": ["a", "b", SECRET, "d"]}), place.folder / f"in.{source}")
    place.write_job(columns)
    refused(place, f"in.{source}: row 2 (counted from 0), column 'n': empty or not a number, and the job declares no `missing`")


TEXT = ["a", "b"]
UNKNOWN = "not one of the declared categories, and the job declares no `unknown` for this column"
MISSING = "null, and the job declares no `missing` for this column"
NO_ANSWER = "null or neither true nor false, and the job declares no `missing` for this column. If the answers are words, declare them"
NEITHER = "neither 0 nor 1, and the job declares no `unknown` for this column"
NUMBER = int(SECRET)


@pytest.mark.some(20)
@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize(
    ("cells", "column", "row", "problem"),
    [
        (["a", "b", SECRET], {"mechanism": "kary", "categories": TEXT}, 2, UNKNOWN),
        (["a", None, SECRET], {"mechanism": "kary", "categories": TEXT}, 1, MISSING),
        (["a", SECRET, None], {"mechanism": "kary", "categories": TEXT}, 1, UNKNOWN),
        (["a", SECRET, None], {"mechanism": "kary", "categories": TEXT, "unknown": "a"}, 2, MISSING),
        (["a", None, SECRET], {"mechanism": "kary", "categories": TEXT, "missing": "a"}, 2, UNKNOWN),
        (["a", SECRET, "b"], {"mechanism": "binary", "categories": TEXT}, 1, UNKNOWN),
        (["a", "b", None], {"mechanism": "binary_channel", "categories": TEXT, "phi": [0, 1], "unknown": "a"}, 2, MISSING),
        (["a", "b", SECRET], {"mechanism": "unary", "categories": TEXT, "missing": "a"}, 2, UNKNOWN),
        ([5, 7, NUMBER], {"mechanism": "subset", "categories": [5, 6, 7]}, 2, UNKNOWN),
        ([0, 1, NUMBER], {"mechanism": "hashing", "k": 2}, 2, UNKNOWN),
        ([0, -1, 1], {"mechanism": "hashing", "k": 2}, 1, UNKNOWN),
        ([0, 2, 1], {"mechanism": "kary", "k": 2}, 1, UNKNOWN),
        ([0, None, NUMBER], {"mechanism": "hadamard", "k": 2}, 1, MISSING),
        ([0, NUMBER, None], {"mechanism": "hadamard", "k": 2}, 1, UNKNOWN),
        ([0, None, NUMBER], {"mechanism": "hadamard", "k": 2, "missing": 1}, 2, UNKNOWN),
        ([True, None, False], {"mechanism": "binary"}, 1, MISSING),
        (
            [1.5, None, 3.0],
            {"mechanism": "bounded_mean", "lower": 0, "upper": 2},
            1,
            "empty or not a number, and the job declares no `missing`",
        ),
    ],
)
def test_cells_that_a_declaration_does_not_cover(place, source, cells, column, row, problem):
    place.source = write_table(pa.table({"m": ["-"] * 3, "n": cells}), place.folder / f"in.{source}")
    if source == "csv" and column == {"mechanism": "binary"}:
        problem = NO_ANSWER
    place.write_job({"n": {"epsilon": 1.0, **column}})
    refused(place, f"in.{source}: row {row} (counted from 0), column 'n': {problem}")


@pytest.mark.some(13)
@pytest.mark.parametrize("source", ["parquet", "arrow"])
@pytest.mark.parametrize(
    ("cells", "column", "row", "problem"),
    [
        (pa.array([1, 0, NUMBER]), {"mechanism": "binary"}, 2, NEITHER),
        (pa.array([1, -1, None]), {"mechanism": "binary"}, 1, NEITHER),
        (pa.array([1, 0, 2**64 - 1], pa.uint64()), {"mechanism": "binary", "missing": True}, 2, NEITHER),
        (pa.array([1, None, NUMBER]), {"mechanism": "binary", "unknown": False}, 1, MISSING),
        (pa.array([0, 2**64 - 1], pa.uint64()), {"mechanism": "kary", "k": 2**20}, 1, UNKNOWN),
        (pa.array([0, 2**64 - 1], pa.uint64()), {"mechanism": "unary", "categories": [-1, 0]}, 1, UNKNOWN),
        (pa.array(["a", SECRET]).dictionary_encode(), {"mechanism": "subset", "categories": TEXT}, 1, UNKNOWN),
        (pa.array(["a", None]).dictionary_encode(), {"mechanism": "subset", "categories": TEXT, "unknown": "a"}, 1, MISSING),
        (pa.array([0.5, float("nan")]), {"mechanism": "bounded_mean", "lower": 0, "upper": 2}, 1, "empty or not a number"),
    ],
)
def test_cells_of_other_types_that_a_declaration_does_not_cover(place, source, cells, column, row, problem):
    place.source = write_table(pa.table({"n": cells}), place.folder / f"in.{source}")
    place.write_job({"n": {"epsilon": 1.0, **column}})
    refused(place, f"row {row} (counted from 0), column 'n': {problem}")


@pytest.mark.parametrize(
    ("cell", "column", "problem"),
    [
        (SECRET + "x", {"mechanism": "binary"}, NO_ANSWER),
        (SECRET, {"mechanism": "binary"}, NEITHER),
        (SECRET + ".5", {"mechanism": "binary", "unknown": True}, NO_ANSWER),
        (SECRET + "x", {"mechanism": "hadamard", "k": 4}, MISSING),
        (SECRET + "x", {"mechanism": "kary", "categories": [3, 4]}, MISSING),
        (SECRET + "x", {"mechanism": "bounded_mean", "lower": 0, "upper": 2}, "empty or not a number"),
        (SECRET * 9, {"mechanism": "kary", "categories": [3, 2**63 - 1]}, UNKNOWN),
    ],
)
def test_csv_cells_that_do_not_parse_are_missing(place, cell, column, problem):
    place.source = place.folder / "in.csv"
    first = column.get("categories", [1])[0]
    place.source.write_text(f"m,n\na,{first}\nb,{cell}\n")
    place.write_job({"n": {"epsilon": 1.0, **column}})
    refused(place, f"in.csv: row 1 (counted from 0), column 'n': {problem}")


@pytest.mark.parametrize("source", ["parquet", "arrow"])
def test_a_nan_without_missing(place, source):
    place.source = write_table(pa.table({"n": [1.0, float("inf"), float("nan")]}), place.folder / f"in.{source}")
    place.write_job(REALS)
    refused(place, "row 2 (counted from 0), column 'n'")


def test_the_first_bad_row_is_named_whatever_the_threads_do(place):
    values = [None if i in {7777, 9000} else i for i in range(10_000)]
    write_table(pa.table({"n": pa.array(values, pa.int64())}), place.source, row_group_rows=1000)
    place.write_job(INTEGERS)
    for threads in (1, 2, 8):
        with pytest.raises(DataError, match=r"row 7777 \(counted from 0\)"):
            privatize(make_plan(load_job(place.job), curator=True), threads=threads, piece_rows=100)
        assert place.left_behind() == []


def test_the_row_counts_within_its_file(place):
    write_table(pa.table({"n": [1, 2, 3]}), place.folder / "in/a.parquet")
    write_table(pa.table({"n": pa.array([4, None])}), place.folder / "in/b.parquet")
    place.source = place.folder / "in"
    place.write_job(INTEGERS)
    refused(place, "b.parquet: row 1 (counted from 0)")


@pytest.mark.some(6)
@pytest.mark.parametrize(("columns", "cell"), [(INTEGERS, SECRET + "x"), (INTEGERS, SECRET + ".5"), (REALS, SECRET + "x"), (REALS, "")])
@pytest.mark.parametrize("row", [0, 3, 900_000])
def test_a_csv_cell_that_does_not_parse(place, columns, cell, row):
    place.source = place.folder / "in.csv"
    lines = ["m,n", *["a,1"] * row, f"b,{cell}", "c,2"]
    place.source.write_text("\n".join(lines) + "\n")
    assert row < 1000 or place.source.stat().st_size < BLOCK
    place.write_job(columns)
    refused(place, f"in.csv: row {row} (counted from 0), column 'n': empty or not a number")


def test_a_csv_cell_beyond_the_first_block(place):
    place.source = place.folder / "in.csv"
    rows = 2_000_000
    place.source.write_text("m,n\n" + "a,1\n" * rows + f"b,{SECRET}x\n")
    assert place.source.stat().st_size > BLOCK
    place.write_job(INTEGERS)
    refused(place, f"row {rows} (counted from 0), column 'n': empty or not a number")


def test_a_csv_row_of_too_few_cells_and_quoted_line_breaks(place):
    place.source = place.folder / "in.csv"
    place.source.write_text(f'm,n\n"{SECRET}\n\n",1\n"b,c",2\nonly\n')
    place.write_job(INTEGERS)
    refused(place, "row 2 (counted from 0), column 'n': empty or not a number")


def test_a_csv_that_ends_inside_a_quoted_cell_is_damaged(place):
    place.source = place.folder / "in.csv"
    place.source.write_text(f'm,n\na,1\n"{SECRET},2\nb,3\n')
    place.write_job(INTEGERS)
    done = place.privatize()
    assert (done.code, done.out) == (4, "")
    assert f"{place.source}: the file ends inside a quoted cell: it is damaged or cut off" in done.err
    assert place.left_behind() == []


# The privacy unit


def unit(columns, rows, **changes):
    epsilon = sum(column["epsilon"] for column in columns.values())
    return {"max_epsilon": epsilon * rows, "max_delta": 1e-5, "unit": "person", "max_rows_per_unit": rows, **changes}


@pytest.mark.parametrize("source", FORMATS)
def test_a_unit_with_as_many_rows_as_declared(place, source):
    place.source = write_table(people(300), place.folder / f"in.{source}")
    place.write_job(INTEGERS_OF_PEOPLE, privacy=unit(INTEGERS_OF_PEOPLE, 3))
    done = place.privatize()
    assert done.code == 0, done.err
    assert "epsilon = 3.0, delta = 0.0: the guarantee protects one 'person' with at most 3 rows." in done.out
    result = read_table(place.target)
    assert (len(result), result.column_names) == (300, ["visits"])
    assert b'"epsilon": 3.0' in result.schema.metadata[b"dpcore"]
    assert b'"unit": "person"' in result.schema.metadata[b"dpcore"]


@pytest.mark.parametrize("source", FORMATS)
def test_a_unit_with_more_rows_than_declared_is_refused_for_a_curator_who_wants_that(place, source):
    table = people(300)
    extra = table.slice(30, 1)
    place.source = write_table(pa.concat_tables([table, extra]).combine_chunks(), place.folder / f"in.{source}")
    place.write_job(INTEGERS_OF_PEOPLE, privacy=unit(INTEGERS_OF_PEOPLE, 3, over_limit="refuse"))
    done = place.privatize()
    assert done.code == 2
    assert "privacy.over_limit = 'refuse' needs --curator" in done.err
    done = place.privatize("--curator")
    assert (done.code, done.out, place.left_behind()) == (3, "", [])
    assert "row 300 (counted from 0): the 'person' of this row has max_rows_per_unit = 3 rows before it; nothing was written" in done.err
    place.write_job(INTEGERS_OF_PEOPLE, privacy=unit(INTEGERS_OF_PEOPLE, 4, over_limit="refuse"))
    assert place.privatize("--curator").code == 0


def test_a_unit_is_counted_over_all_files_and_named_within_one(place):
    for name in ("a", "b"):
        write_table(people(6), place.folder / f"in/{name}.parquet")
    write_table(people(3).set_column(0, "person", pa.array([SECRET_NUMBER] * 3)), place.folder / "in/c.parquet")
    write_table(people(1).set_column(0, "person", pa.array([SECRET_NUMBER])), place.folder / "in/d.parquet")
    place.source = place.folder / "in"
    place.write_job(INTEGERS_OF_PEOPLE, privacy=unit(INTEGERS_OF_PEOPLE, 6, over_limit="refuse"))
    assert place.privatize("--curator").code == 0
    for bound, where in ((5, "b.parquet: row 2 (counted from 0)"), (3, "b.parquet: row 0 (counted from 0)")):
        place.target = place.folder / f"out{bound}/private.parquet"
        place.write_job(INTEGERS_OF_PEOPLE, privacy=unit(INTEGERS_OF_PEOPLE, bound, over_limit="refuse"))
        done = place.privatize("--curator")
        assert (done.code, place.left_behind()) == (3, [])
        assert where in done.err
        assert SECRET not in done.said


def test_an_input_that_changes_after_its_rows_were_counted(place, monkeypatch):
    write_table(people(300), place.source)
    place.write_job(INTEGERS_OF_PEOPLE, privacy=unit(INTEGERS_OF_PEOPLE, 3))

    other = write_table(people(300).set_column(0, "person", pa.array([SECRET_NUMBER] * 300)), place.folder / "new.parquet")
    choose_rows = engine.choose_rows

    def choose_and_change(*arguments, **options):
        kept = choose_rows(*arguments, **options)
        other.replace(place.source)
        return kept

    monkeypatch.setattr(engine, "choose_rows", choose_and_change)
    done = place.privatize()
    assert done.code == 4, done.said
    assert "the input changed while it was read" in done.err
    assert place.left_behind() == []


INTEGERS_OF_PEOPLE = {"visits": COLUMNS["visits"]}
SECRET_NUMBER = int(SECRET)
