"""Everything that the input's schema and the output's place can get wrong ends with exit code 2, says what, and writes nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from support.jobs import COLUMNS, FORMATS, Workplace, people, refused, write_table

VISITS, INCOME = COLUMNS["visits"], COLUMNS["income"]
MEAN = {"mechanism": "bounded_mean", "epsilon": 1.0, "lower": 0.0, "upper": 9.0}
ANSWER = {"mechanism": "binary", "epsilon": 1.0}
KARY = {"mechanism": "kary", "epsilon": 1.0, "categories": ["a", "b", "c"]}
CODES = {"mechanism": "hadamard", "epsilon": 1.0, "k": 3}


@pytest.fixture
def place(tmp_path, capsys):
    place = Workplace(tmp_path, capsys)
    write_table(people(20), place.source)
    place.write_job()
    return place


@pytest.mark.parametrize("ending", FORMATS)
def test_words_where_binary_takes_yes_and_no(place, ending):
    """The words of the suggestion are the message's own."""
    place.source = write_table(pa.table({"smoker": ["ja", "nein", "ja"]}), place.folder / f"in.{ending}")
    place.write_job({"smoker": ANSWER})
    done = place.privatize()
    assert done.code == (3 if ending == "csv" else 2)
    assert 'If the answers are words, declare them, for example categories = ["no", "yes"]' in done.err
    assert "ja" not in done.err.replace(str(place.folder), "")
    assert "nein" not in done.err
    place.write_job({"smoker": {**ANSWER, "categories": ["nein", "ja"]}})
    assert place.privatize().code == 0


@pytest.mark.parametrize("ending", FORMATS)
def test_a_missing_column(place, ending):
    place.source = write_table(people(5), place.folder / f"in.{ending}")
    place.write_job({"vists": VISITS})
    refused(
        place, f"in.{ending}", "there is no column 'vists'", "Did you mean 'visits'?", *(["person, visits, age"] if ending != "csv" else [])
    )


def test_a_missing_kept_column_and_unit(place):
    place.write_job(keep=["nowhere"])
    refused(place, "there is no column 'nowhere'")
    place.write_job(privacy={"max_epsilon": 12.0, "max_delta": 1e-5, "unit": "persn", "max_rows_per_unit": 3})
    refused(place, "there is no column 'persn'", "Did you mean 'person'?")


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize(
    ("name", "column", "words"),
    [
        ("note", INCOME, ["column 'note' has type string", "laplace takes one of", "double"]),
        ("state", VISITS, ["column 'state' has type dictionary"]),
        (
            "note",
            ANSWER,
            [
                "column 'note' has type string, but binary takes bool, or an integer type",
                'If the answers are words, declare them, for example categories = ["no", "yes"]',
            ],
        ),
        ("income", ANSWER, ["column 'income' has type double, but binary takes bool"]),
        ("visits", {**ANSWER, "categories": ["a", "b"]}, ["column 'visits' has type int64, but binary with these categories takes string"]),
        ("note", MEAN, ["column 'note' has type string, but bounded_mean takes one of", "double"]),
        ("note", CODES, ["column 'note' has type string, but hadamard with these categories takes an integer type"]),
        ("state", CODES, ["column 'state' has type dictionary<values=string", "takes an integer type, or a dictionary of these"]),
        ("income", CODES, ["column 'income' has type double"]),
        ("visits", KARY, ["column 'visits' has type int64, but kary with these categories takes string, large_string, or a dictionary"]),
        ("income", VISITS, ["column 'income' has type double", "discrete_laplace takes one of", "int64"]),
    ],
)
def test_a_column_of_the_wrong_type(place, ending, name, column, words):
    place.source = write_table(people(5), place.folder / f"in.{ending}")
    place.write_job({name: column})
    refused(place, *words)


@pytest.mark.parametrize(
    ("kind", "column", "k"),
    [
        (pa.int8(), {"k": 129}, 129),
        (pa.uint8(), {"k": 257}, 257),
        (pa.int16(), {"k": 2**24}, 2**24),
        (pa.int8(), {"categories": [1, 128]}, 2),
        (pa.uint32(), {"categories": [1, -1]}, 2),
    ],
)
def test_categories_that_a_type_cannot_hold(place, kind, column, k):
    write_table(pa.table({"x": pa.array([1, 1], kind)}), place.source)
    place.write_job({"x": {"mechanism": "kary", "epsilon": 1.0, **column}})
    words = f"column 'x' has type {kind}, which cannot hold each of the {k} categories, and kary reports any of them"
    refused(place, words, "cast the column to a wider type, or declare fewer categories")


def test_two_files_of_which_one_cannot_hold_the_categories(place):
    place.source = place.folder / "in"
    for name, kind in (("a", pa.int16()), ("b", pa.int8())):
        write_table(pa.table({"x": pa.array([1, 1], kind)}), place.source / f"{name}.parquet")
    place.write_job({"x": {"mechanism": "kary", "epsilon": 1.0, "k": 1000}})
    refused(place, "b.parquet: column 'x' has type int8, which cannot hold")


def test_a_name_that_the_columns_of_a_csv_report_take(place):
    place.target = place.folder / "out/private.csv"
    write_table(pa.table({"x": [1, 0], "x.row": [1, 0]}), place.source)
    place.write_job({"x": CODES}, keep=["x.row"])
    refused(place, "the output would have 2 columns named 'x.row'", "rename one")


def test_a_boolean_is_no_number(place):
    write_table(pa.table({"yes": [True, False]}), place.source)
    place.write_job({"yes": INCOME})
    refused(place, "column 'yes' has type bool")


@pytest.mark.parametrize("ending", FORMATS)
def test_two_columns_of_one_name(place, ending):
    place.source = place.folder / f"in.{ending}"
    if ending == "csv":
        place.source.write_text("visits,visits\n1,2\n")
    else:
        write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["visits", "visits"]), place.source)
    place.write_job({"visits": VISITS})
    refused(place, "2 columns are named 'visits'")


def test_a_csv_needs_a_header(place):
    place.source = place.folder / "in.csv"
    place.source.write_bytes(b"")
    place.write_job({"visits": VISITS})
    refused(place, "in.csv", "the first line must be a header")
    place.source.write_bytes(b"\xff\xfe,\x80\n1,2\n")
    refused(place, "the header is not comma-separated UTF-8 text")


def test_files_of_a_folder_that_do_not_fit_together(place):
    place.source = place.folder / "in"
    write_table(people(5), place.source / "a.parquet")
    write_table(people(5).drop_columns(["visits"]), place.source / "b.parquet")
    place.write_job()
    refused(place, "b.parquet", "there is no column 'visits'")
    write_table(people(5).set_column(6, "note", pa.array(range(5))), place.source / "b.parquet")
    place.write_job(keep=["note"])
    refused(place, "b.parquet", "kept column 'note' has type int64", "a.parquet has it as string")
    write_table(people(5), place.source / "b.csv")
    refused(place, "cannot tell the format from the endings '.csv', '.parquet'", "set input.format")


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct([("a", pa.int8())])])
def test_a_kept_column_that_csv_cannot_hold(place, kind):
    place.target = place.folder / "out/private.csv"
    write_table(people(5).append_column("nested", pa.nulls(5, kind)), place.source)
    place.write_job(keep=["nested"])
    refused(place, "keep: column 'nested' of type", "cannot be written as csv")


def test_csv_takes_no_compression(place):
    place.target = place.folder / "out/private.csv"
    place.write_job(compression="zstd")
    refused(place, "compression = 'zstd': csv takes 'none'")


def test_an_ending_that_says_nothing(place):
    place.target = place.folder / "out/private.data"
    place.write_job()
    refused(place, "cannot tell the format from its ending", ".parquet, .csv, .arrow")
    place.source = place.source.rename(place.folder / "in.data")
    place.target = place.folder / "out/private.csv"
    place.write_job()
    refused(place, "cannot tell the format from the ending '.data'", "set input.format")


def test_an_output_that_exists(place):
    place.target.parent.mkdir()
    place.target.write_text("precious")
    refused(place, "exists", "spend its privacy budget a second time", "--overwrite")
    assert place.target.read_text() == "precious"
    assert place.privatize("--overwrite").code == 0


def test_a_dangling_link_is_no_output(place):
    place.target.parent.mkdir()
    place.target.symlink_to(place.folder / "nowhere")
    refused(place, "is a symbolic link; name the file itself")


def test_the_output_is_a_folder(place):
    place.target.mkdir(parents=True)
    refused(place, "is a folder; name a file", arguments=["--overwrite"])


def test_the_output_is_the_input(place):
    before = place.source.read_bytes()
    for alias in ("same", "symlink", "hardlink"):
        place.target = place.folder / f"{alias}.parquet"
        match alias:
            case "same":
                place.target = place.folder / "x/../in.parquet"
                (place.folder / "x").mkdir()
            case "symlink":
                place.target.symlink_to(place.source)
            case "hardlink":
                place.target.hardlink_to(place.source)
        place.write_job()
        refused(place, "is a symbolic link" if alias == "symlink" else "is the same file as input.path", arguments=["--overwrite"])
    assert place.source.read_bytes() == before


def test_the_output_would_become_input(place):
    place.source = place.folder / "in"
    write_table(people(5), place.source / "a.parquet")
    place.target = place.source / "sub/private.parquet"
    place.write_job()
    refused(place, "is inside the input", "write it somewhere else")
    place.source = place.folder / "in/*.parquet"
    place.target = place.folder / "in/private.parquet"
    place.write_job()
    refused(place, "is inside the input")
    place.target = place.folder / "in/sub/private.parquet"
    place.write_job()
    assert place.privatize().code == 0


def test_a_unit_must_be_comparable(place):
    place.write_job(privacy={"max_epsilon": 12.0, "max_delta": 1e-5, "unit": "income", "max_rows_per_unit": 3})
    refused(place, "privacy.unit = 'income' has type double", "an integer, a string, a date or a timestamp")


def test_a_unit_must_not_be_published(place):
    place.write_job(keep=["person"], privacy={"max_epsilon": 12.0, "max_delta": 1e-5, "unit": "person", "max_rows_per_unit": 3})
    refused(place, "keep: 'person' is the privacy unit")


@pytest.mark.parametrize("mechanism", ["kary", "unary", "subset", "hashing", "hadamard", "projective", "binary"])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_what_a_dry_run_says_of_errors_holds_for_every_share(place, mechanism, epsilon):
    """Whatever the answers are: estimates from reports of all possible shares have no larger standard errors, and one has about that."""
    from dpcore import batch

    rows, errors = 2_000, []
    answers = ["no", "yes"] if mechanism == "binary" else ["a", "b", "c"]
    for share in np.linspace(0, 1, 11):
        cells = [answers[0]] * round(rows * share) + [answers[1]] * (rows - round(rows * share))
        place.source = write_table(pa.table({"answer": cells}), place.folder / "in.parquet")
        place.write_job({"answer": {"mechanism": mechanism, "categories": answers, "epsilon": epsilon}})
        job = batch.load_job(place.folder / place.job)
        (column,) = batch.make_plan(job, overwrite=True).columns
        batch.privatize(batch.make_plan(job, overwrite=True))
        (found,) = batch.estimate(place.target).columns
        errors.append(float(np.max(found.estimate.stderr)))
    promised = column.deviation / rows**0.5
    assert max(errors) == pytest.approx(promised, rel=0.03)
    assert max(errors) <= promised * (1 + 1e-9)
