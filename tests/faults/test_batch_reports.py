"""Files that are no reports, or no longer: `estimate` says what is wrong and where, with exit code 3, and never quotes a cell."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.jobs import COLUMNS, FORMATS, Workplace, damage, peak_memory, people, read_table, vouch_for, write_table

SECRET = "48151623"
EVERY = {
    "visits": COLUMNS["visits"],
    "income": COLUMNS["income"],
    "yes": {"mechanism": "binary", "epsilon": 1.0},
    "state": {"mechanism": "kary", "epsilon": 1.0, "categories": [f"state {i}" for i in range(5)]},
    "code": {"mechanism": "kary", "epsilon": 1.0, "k": 9},
    "bits": {"mechanism": "unary", "epsilon": 1.0, "k": 12},
    "set": {"mechanism": "subset", "epsilon": 1.0, "k": 12},
    "hash": {"mechanism": "hashing", "epsilon": 1.0, "k": 12},
    "sign": {"mechanism": "hadamard", "epsilon": 1.0, "k": 12},
}
PRIVACY = {"max_epsilon": 100.0, "max_delta": 1e-5}


def table(rows):
    index = np.arange(rows)
    extra = {name: pa.array(index % 9) for name in ("code", "bits", "set", "hash", "sign")} | {"yes": pa.array(index % 2 == 0)}
    result = people(rows)
    for name, values in extra.items():
        result = result.append_column(name, values)
    return result


@pytest.fixture
def place(tmp_path, capsys):
    place = Workplace(tmp_path, capsys)
    write_table(table(300), place.source)
    return place


def privatized(place, ending="parquet", **changes):
    place.target = place.folder / f"out/private.{ending}"
    place.write_job({**EVERY, **changes}, privacy=PRIVACY, keep=["note"])
    done = place.privatize("--overwrite")
    assert done.code == 0, done.err


def test_reports_of_a_version_that_called_the_method_variant(place):
    privatized(place)
    now = place.estimate().out
    table = pq.read_table(place.target)
    position = table.schema.get_field_index("bits")
    field = table.schema.field(position)
    said = field.metadata[b"dpcore"]
    assert said.count(b'"method"') == 1
    earlier = field.with_metadata({b"dpcore": said.replace(b'"method"', b'"variant"')})
    pq.write_table(table.cast(table.schema.set(position, earlier)), place.target)
    assert place.estimate().out == now


def refused(place, *words, code=3, arguments=()):
    done = place.estimate(*arguments)
    assert (done.code, done.out) == (code, ""), done.said
    for word in words:
        assert word in done.err, (word, done.err)
    assert SECRET not in done.said
    assert "Traceback" not in done.err
    assert "bug" not in done.err


# Metadata


@pytest.mark.parametrize("ending", FORMATS)
def test_a_table_that_is_no_output(place, ending):
    place.target = write_table(people(5), place.folder / f"table.{ending}")
    if ending == "csv":
        refused(place, "its metadata are missing: table.csv.dpcore.json must be beside it")
    else:
        refused(place, f"table.{ending}: no dpcore metadata", "It is not an output of `dpcore privatize`")


def test_a_program_that_dropped_the_metadata(place):
    privatized(place)
    written = read_table(place.target)
    pq.write_table(written.replace_schema_metadata(None), place.target)
    refused(place, "the dpcore metadata of the file are damaged or missing")
    bare = pa.schema([field.remove_metadata() for field in written.schema], metadata=written.schema.metadata)
    pq.write_table(pa.table(written.columns, schema=bare), place.target)
    refused(place, "no column carries dpcore metadata")


def test_nothing_to_read(place):
    place.target = place.folder / "nowhere"
    refused(place, "no such file or folder", code=4)
    place.target.mkdir()
    refused(place, "no parquet, csv or arrow file found", code=4)
    place.target = place.folder / "a.xlsx"
    place.target.write_bytes(b"")
    refused(place, "dpcore does not read '.xlsx'; save the table as CSV or Parquet", code=2)


def rewrite(place, change):
    """Let `change` edit the metadata of the output: those of the file, and those of the columns."""
    written = read_table(place.target)
    whole = json.loads(written.schema.metadata[b"dpcore"])
    fields = {field.name: json.loads(field.metadata[b"dpcore"]) for field in written.schema if field.metadata}
    change(whole, fields)
    schema = pa.schema(
        [
            field.with_metadata({"dpcore": value if isinstance(value := fields[field.name], str) else json.dumps(value)})
            if field.name in fields
            else field
            for field in written.schema
        ],
        metadata={"dpcore": json.dumps(whole)},
    )
    pq.write_table(pa.table(written.columns, schema=schema), place.target)


def edited(name, **changes):
    def change(whole, fields):
        (whole if name is None else fields[name]).update(changes)

    return change


def replaced(name, value):
    def change(_whole, fields):
        fields[name] = value

    return change


@pytest.mark.some(6)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (edited(None, secure="yes"), ["metadata of the file are damaged or missing: secure"]),
        (edited(None, epsilon=None), ["metadata of the file are damaged or missing: epsilon"]),
        (edited(None, format=2), ["metadata of the file are damaged or missing: format"]),
        (edited("visits", format=2), ["column 'visits' have format 2: a later version of dpcore reads it"]),
        (edited("visits", format=None), ["column 'visits' have format None"]),
        (edited("visits", mechanism="magic"), ["column 'visits' name the mechanism 'magic'", "this version supports laplace, gaussian"]),
        (edited("visits", mechanism=7), ["name the mechanism 7"]),
        (edited("visits", epsilon=-1.0), ["column 'visits' are damaged: epsilon", "must be positive"]),
        (edited("visits", epsilon="1"), ["column 'visits' are damaged: epsilon"]),
        (edited("visits", lower=30), ["column 'visits' are damaged", "lower = 30 must be less than upper = 20"]),
        (edited("visits", lower=None), ["column 'visits' are damaged: lower"]),
        (edited("visits", delta=0.5), ["are damaged: delta is 0.5, but the other keys make it 0.0"]),
        (edited("income", grid=1.0), ["column 'income' are damaged: grid is 1.0, but the other keys make it"]),
        (edited("income", epsilon=64.0), ["column 'income' are damaged: grid is"]),
        (edited("state", k=4), ["column 'state' are damaged: k is 4, but the other keys make it 5"]),
        (edited("state", categories=["a", "a"]), ["column 'state' are damaged", "distinct"]),
        (edited("state", categories=["a"]), ["column 'state' are damaged"]),
        (edited("state", categories=None, k=None), ["column 'state' are damaged", "kary needs one of"]),
        (edited("state", unknown="nowhere"), ["column 'state' are damaged", "unknown must be one of the categories"]),
        (edited("set", w=5), ["column 'set' are damaged: w is 5"]),
        (edited("hash", g=9), ["column 'hash' are damaged: g is 9"]),
        (edited("bits", method="fast"), ["column 'bits' are damaged: method"]),
        (edited("bits", k=2**30), ["the dpcore metadata have more categories than"]),
        (edited("bits", k=10**400), ["the dpcore metadata have more categories than"]),
        (edited("bits", epsilon=1e300), ["column 'bits' are damaged", "epsilon must be in"]),
        (replaced("visits", [1, 2]), ["column 'visits' are damaged: not a JSON object"]),
        (replaced("visits", "{broken"), ["column 'visits' are damaged: not JSON"]),
    ],
)
def test_damaged_metadata(place, change, words):
    privatized(place)
    rewrite(place, change)
    refused(place, "private.parquet", *words)


def test_columns_whose_metadata_nobody_asks_for_do_not_matter(place):
    privatized(place)
    rewrite(place, edited("visits", mechanism="magic"))
    assert place.estimate("--column", "state").code == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{broken", "not JSON, so the metadata are damaged"),
        (b"[]", "not the metadata that dpcore writes"),
        (b"{}", "not the metadata that dpcore writes"),
        (b'{"schema": {}, "fields": {}}', "no column carries dpcore metadata"),
        (b'{"schema": {}, "fields": {"visits": 3}}', "column 'visits' are damaged: not a JSON object"),
        (b"\xff\xfe", "not JSON"),
    ],
)
def test_damaged_sidecars(place, content, words):
    privatized(place, "csv")
    place.target.with_name("private.csv.dpcore.json").write_bytes(content)
    refused(place, words)


def test_a_sidecar_of_another_table(place):
    privatized(place, "csv")
    place.target.write_text("a,b\n1,2\n")
    refused(place, "private.csv: there is no column 'visits', which the dpcore metadata of 'visits' call for")


@pytest.mark.some(3)
@pytest.mark.parametrize("change", ["size", "content", "the table of another run", "the sidecar of another run"])
def test_a_table_and_a_sidecar_that_do_not_belong_together(place, change):
    """Two runs of one job on one name could mix, and then one table was read with what the other had declared."""
    privatized(place, "csv")
    sidecar = place.target.with_name("private.csv.dpcore.json")
    other, content = sidecar.read_bytes(), place.target.read_bytes()
    if change == "size":
        place.target.write_bytes(content + content.splitlines()[-1] + b"\n")
    elif change == "content":
        lines = content.splitlines(keepends=True)
        place.target.write_bytes(b"".join([lines[0], *lines[:0:-1]]))
    else:
        place.write_job(EVERY, privacy=PRIVACY, keep=["note"], key=bytes(range(1, 33)))
        assert place.privatize("--overwrite").code == 0
        if change == "the sidecar of another run":
            place.target.write_bytes(content)
        else:
            sidecar.write_bytes(other)
    refused(place, "private.csv: this is not the table that private.csv.dpcore.json was written for")


def test_a_sidecar_of_the_first_stream_names_no_table(place):
    privatized(place, "csv")
    path = place.target.with_name("private.csv.dpcore.json")
    said = json.loads(path.read_text())
    del said["table"]
    path.write_text(json.dumps(said))
    refused(place, "the metadata do not say which table they are for")
    said["schema"]["stream_version"] = 1
    path.write_text(json.dumps(said))
    assert place.estimate().code == 0


# Files together


def copies(place, **changes):
    """Two outputs in one folder, the second made by a job with changes."""
    privatized(place)
    folder = place.folder / "both"
    folder.mkdir()
    shutil.copy(place.target, folder / "a.parquet")
    privatized(place, **changes)
    shutil.copy(place.target, folder / "b.parquet")
    place.target = folder


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"visits": {**COLUMNS["visits"], "upper": 21}},
            ["b.parquet: column 'visits' was made with upper = 21", "a.parquet has it with 20"],
        ),
        ({"state": {**EVERY["state"], "categories": [f"state {i}" for i in (1, 0, 2, 3, 4)]}}, ["column 'state'", "categories"]),
        ({"bits": {**EVERY["bits"], "method": "symmetric"}}, ["method = 'symmetric'", "estimate them separately"]),
        ({"bits": {**EVERY["set"]}}, ["mechanism = 'subset'"]),
        ({"visits": {**COLUMNS["visits"], "epsilon": 2.0}}, ["b.parquet: the file says epsilon = 10.0", "a.parquet says 9.0"]),
        ({"age": {**COLUMNS["age"], "epsilon": 1e-9}}, ["epsilon"]),
    ],
)
def test_files_that_do_not_agree(place, changes, words):
    copies(place, **changes)
    refused(place, *words, code=2)


def test_files_with_other_columns(place):
    copies(place)
    rewrite_as = place.target / "b.parquet"
    written = read_table(rewrite_as)
    pq.write_table(written.drop_columns(["sign"]), rewrite_as)
    refused(place, "b.parquet: there are no reports in a column 'sign', but", "a.parquet has some", code=2)


def test_files_of_two_formats(place):
    copies(place)
    (place.target / "c.csv").write_text("a\n1\n")
    refused(place, "cannot tell the format from the endings '.csv', '.parquet'", code=2)


def test_a_foreign_file_among_outputs(place):
    copies(place)
    write_table(people(3), place.target / "c.parquet")
    refused(place, "c.parquet: no dpcore metadata")


# Rows


@pytest.mark.parametrize("ending", FORMATS)
def test_no_rows(place, ending):
    write_table(table(5).slice(0, 0), place.source)
    privatized(place, ending)
    refused(place, "no rows, so there is nothing to estimate from")


def tampered(place, name, values, row=None):
    """Replace a column of the output; with `row`, one cell of it."""
    written = read_table(place.target)
    index, field = written.schema.get_field_index(name), written.schema.field(name)
    if row is not None:
        cells = written[name].to_pylist()
        cells[row] = values
        values = pa.array(cells, field.type)
    changed = pa.field(name, values.type, metadata=field.metadata)
    write_table(written.set_column(index, changed, values), place.target)


@pytest.mark.some(3)
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("income", 0.1),
        ("income", float("nan")),
        ("income", float("inf")),
        ("state", SECRET),
        ("code", 9),
        ("code", -1),
        ("code", int(SECRET)),
        ("bits", b"\x00\xff"),
        ("set", b"\x00\x00"),
        ("hash", {"seed": 0, "code": 0}),
        ("hash", {"seed": 2**31 - 1, "code": 0}),
        ("hash", {"seed": 1, "code": 1000}),
        ("sign", {"row": 16, "bit": True}),
    ],
)
def test_reports_that_a_mechanism_cannot_make(place, ending, name, cell):
    privatized(place, ending)
    for row in (0, 123, 299):
        tampered(place, name, cell, row)
        where = f"private.{ending}: row {row} (counted from 0), column {name!r}"
        refused(place, where, "not a report that the mechanism can make; the file was changed after dpcore wrote it")
        privatized(place, ending)


@pytest.mark.parametrize("name", EVERY)
def test_missing_reports(place, name):
    privatized(place)
    tampered(place, name, None, 17)
    refused(place, f"private.parquet: row 17 (counted from 0), column {name!r}: null, which no report is")


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("visits", pa.array([1.0] * 300), "has type double, but reports of discrete_laplace with its metadata have type int64"),
        ("yes", pa.array([1] * 300), "has type int64, but reports of binary"),
        ("state", pa.array([1] * 300), "has type int64, but reports of kary"),
        ("code", pa.array([b"1"] * 300), "has type binary"),
        ("bits", pa.array([b"1"] * 300, pa.binary(1)), "have type fixed_size_binary[2]"),
        ("hash", pa.array([{"seed": 1}] * 300), "has type struct<seed: int64>"),
        ("sign", pa.array([1] * 300), "has type int64, but reports of hadamard"),
    ],
)
def test_reports_of_the_wrong_type(place, name, values, words):
    privatized(place)
    tampered(place, name, values)
    refused(place, f"private.parquet: column {name!r}", words)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (",true,", f",{SECRET},", "the cell is not true or false"),
        ('"state 1"', f'"{SECRET}"', "column 'state': not a report that the mechanism can make"),
        ('"state 1"', '"NA"', "column 'state': not a report that the mechanism can make"),
    ],
)
def test_csv_cells_that_are_no_reports(place, old, new, words):
    privatized(place, "csv")
    text = place.target.read_text()
    assert old in text
    place.target.write_text(text.replace(old, new, 1))
    vouch_for(place.target)
    refused(place, "private.csv: row", words)


@pytest.mark.parametrize("new", ["", "0", "00000", "zz00", f"{SECRET}"])
def test_csv_digits_that_are_no_reports(place, new):
    privatized(place, "csv")
    header, first, *rest = place.target.read_text().splitlines()
    cells = first.split(",")
    at = header.split(",").index('"bits"')
    # The note has two quoted commas before it.
    cells[at - len(header.split(","))] = f'"{new}"'
    place.target.write_text("\n".join([header, ",".join(cells), *rest]) + "\n")
    vouch_for(place.target)
    refused(place, "private.csv: row 0 (counted from 0), column 'bits': not the 4 hexadecimal digits of a report")


@pytest.mark.long
def test_the_first_bad_row_is_named(place):
    write_table(pa.concat_tables([table(1000)] * 500).combine_chunks(), place.source)
    privatized(place)
    tampered(place, "code", 9, 499_000)
    tampered(place, "code", 9, 400_001)
    for threads in (1, 4):
        refused(place, "row 400001 (counted from 0), column 'code'", arguments=["--threads", threads])


def test_an_unreadable_row_group(place):
    privatized(place)
    damage(place.target, 0, "income")
    refused(place, "row group 0 of 1 (counted from 0) is unreadable", code=4)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_file_cut_short(place, ending):
    privatized(place, ending)
    place.target.write_bytes(place.target.read_bytes()[:-100])
    refused(place, f"private.{ending}: cannot be read as", code=4)


def test_a_report_folder_that_is_a_file(place):
    privatized(place)
    (place.folder / "report").write_text("")
    done = place.estimate("--report", place.folder / "report")
    assert (done.code, done.out) == (4, "")
    assert "cannot make the folder" in done.err


@pytest.mark.long
def test_memory_does_not_grow_with_the_rows(place):
    """Ten million reports of 12 bytes and counts of a hundred categories, in pieces."""
    rows = 10_000_000
    column = pa.chunked_array([pa.array(range(100), pa.int16())] * (rows // 100)).combine_chunks()
    place.source = write_table(pa.table({"x": column}), place.folder / "in.arrow", row_group_rows=rows)
    place.write_job({"x": {"mechanism": "hadamard", "epsilon": 1.0, "k": 100}}, privacy=PRIVACY)
    code, _, err = peak_memory("privatize", place.job)
    assert code == 0, err
    code, peak, err = peak_memory("estimate", place.target)
    assert code == 0, err
    assert peak < 350 << 20


@pytest.mark.long
def test_long_reports_stay_in_bounded_memory(place):
    """A row of 2^20 random bits takes 128 KiB: as many rows as of numbers would take 16 GiB."""
    write_table(pa.table({"x": pa.array(np.arange(600), pa.int32())}), place.source)
    place.write_job({"x": {"mechanism": "unary", "epsilon": 8.0, "k": 2**20}}, privacy=PRIVACY, compression="none")
    code, peak, err = peak_memory("privatize", place.job)
    assert code == 0, err
    assert peak < 500 << 20
    code, peak, err = peak_memory("estimate", place.target)
    assert code == 0, err
    # The estimates of a million categories and their JSON are most of it.
    assert peak < 800 << 20
