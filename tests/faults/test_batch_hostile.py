"""Job files, metadata and names made to do harm: bounded work, a documented exit code, nothing that a terminal or a spreadsheet obeys."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcore.pages.numbers import json_text
from dpcore.pages.printable import printable, printable_lines
from support.jobs import Workplace, people, write_table
from support.releases import Counter

VISITS = {"visits": {"mechanism": "hadamard", "epsilon": 1.0, "k": 30, "missing": 0, "unknown": 0}}
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u202e\u2066]")


@pytest.fixture
def place(tmp_path, capsys):
    place = Workplace(tmp_path, capsys)
    write_table(people(30), place.source)
    return place


# Job files


@pytest.mark.some(7)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + "[" * 100_000, "nested too deeply"),
        ("a = " + "{a = " * 100_000, "nested too deeply"),
        (".".join("a" * 20_000) + " = 1", "more than 32 parts"),
        ("[" + " . ".join(['"a"'] * 20_000) + "]", "more than 32 parts"),
        ("a = " + "9" * 100_000, "a number is too long"),
        ("a = '" + "x" * (17 << 20) + "'", "more than 16 MiB"),
        ("\n".join(f"k{i} = 1" for i in range(3000)), "… and "),
    ],
)
@pytest.mark.parametrize("command", ["privatize", "release"])
def test_a_job_file_that_is_made_to_take_long(place, command, text, words):
    place.job.write_text(text, encoding="utf-8")
    done = place.dpcore(command, place.job)
    assert done.code == 2, done.said
    assert words in done.err
    assert len(done.err) < 20_000


def test_long_lists_of_numbers_are_no_dotted_keys(place):
    place.write_job({"visits": {"mechanism": "binary_channel", "epsilon": 1.0, "k": 100, "phi": [i / 7 for i in range(100)], "missing": 0}})
    assert "dotted" not in place.privatize("--dry-run").err


@pytest.mark.parametrize("name", ["a\x1b[2Jb", "a\nb", "\x9b31m", "\u202egnp.exe"])
def test_names_with_control_characters(place, name):
    place.write_job({name: {"mechanism": "binary", "epsilon": 1.0}})
    done = place.privatize()
    assert done.code == 2
    assert "must not hold control characters" in done.err
    assert not UNSAFE.search(done.said)


def test_what_a_terminal_is_shown():
    assert printable("a\x1b[31mb\nc\x9b\u202e\x7f") == "a\\x1b[31mb\\x0ac\\x9b\\u202e\\x7f"
    assert printable_lines("a\r\nb") == "a\\x0d\nb"
    assert printable("naïve 数 🙂 =1") == "naïve 数 🙂 =1"
    value = {"a\x9b": ["\u202e", 1], "b": "\x1b"}
    assert json.loads(json_text(value)) == value
    assert not UNSAFE.search(json_text(value))


def test_a_file_name_cannot_command_the_terminal(place):
    folder = place.folder / "in"
    write_table(people(3), folder / "a\x1b[2J.parquet")
    (folder / "b\u202e.parquet").write_bytes(b"no table")
    place.source = folder
    place.write_job(VISITS)
    done = place.privatize()
    assert done.code == 4, done.said
    assert "\\u202e.parquet" in done.err
    assert not UNSAFE.search(done.said)


# Formulas


FORMULAS = ["=cmd|' /C calc'!A0", "+1+cmd", "-2+3", "@sum(a1)", "\t=1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_csv_has_a_formula_for_a_category(place, text):
    column = {"mechanism": "kary", "epsilon": 1.0, "categories": [text, "b"], "missing": "b", "unknown": "b"}
    place.target = place.folder / "out/private.csv"
    place.write_job({"state": column})
    done = place.privatize()
    assert done.code == 2, done.said
    assert "a category of column 'state' = " in done.err
    assert "formula" in done.err
    for mechanism, target in (("unary", "private.csv"), ("kary", "private.parquet")):
        place.target = place.folder / "out" / target
        place.write_job({"state": column | {"mechanism": mechanism}})
        assert place.privatize().code == 0
    place.target = place.folder / "out/numbers.csv"
    place.write_job({"state": column | {"categories": ["-1", "+2.5", "-1e5", "b"]}})
    assert place.privatize().code == 0


@pytest.mark.parametrize("name", FORMULAS[:4])
def test_no_csv_has_a_formula_for_a_header(place, name):
    place.source = write_table(pa.table({name: [1, 2]}), place.folder / "named.parquet")
    place.target = place.folder / "out/private.csv"
    place.write_job({name: {"mechanism": "binary", "epsilon": 1.0, "missing": 0, "unknown": 0}})
    done = place.privatize()
    assert done.code == 2, done.said
    assert "the name of a column of the output = " in done.err


def test_no_synthetic_csv_has_a_formula(tmp_path, capsys):
    place = Counter(tmp_path, capsys)
    write_table(pa.table({"n": ["=1+1", "b"]}), place.source)
    columns = [{"name": "n", "categories": ["=1+1", "b"], "missing": "b", "unknown": "b"}]
    place.write_release({"x": place.synthetic("csv", columns=columns)})
    done = place.release()
    assert done.code == 2, done.said
    assert "a category of column 'n' = '=1+1'" in done.err
    place.write_release({"x": place.synthetic(columns=columns)})
    assert place.release().code == 0


# Metadata


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """A table of reports, its schema's and its field's metadata."""
    folder = tmp_path_factory.mktemp("reports")
    source = write_table(people(30), folder / "in.parquet")
    from dpcore.batch import make_plan, parse_job, privatize

    columns = [{"name": name, **column} for name, column in VISITS.items()]
    job = {"version": 1, "input": {"path": str(source)}, "output": {"path": str(folder / "out.parquet")}, "column": columns}
    job["privacy"] = {"max_epsilon": 1.0}
    privatize(make_plan(parse_job(job)))
    table = pq.read_table(folder / "out.parquet")
    return table, json.loads(table.schema.metadata[b"dpcore"]), json.loads(table.schema.field(0).metadata[b"dpcore"])


def with_metadata(table: pa.Table, whole: bytes, field: bytes, name: str = "visits") -> pa.Table:
    changed = table.schema.field(0).with_name(name).with_metadata({b"dpcore": field})
    return pa.Table.from_arrays(table.columns, schema=pa.schema([changed], metadata={b"dpcore": whole}))


def estimated(place: Workplace, table: pa.Table):
    place.target = write_table(table, place.folder / "claims.parquet")
    return place.estimate()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": 2**24}, "more categories than"),
        ({"k": 31}, None),
        ({"k": None, "categories_file": "/etc/hostname"}, "are damaged"),
        ({"epsilon": float("nan")}, "are damaged"),
        ({"epsilon": 1e308}, None),
        ({"k": 10**30}, "more categories than"),
        ({"categories": ["\x1b[2J", "b"], "k": 2}, None),
    ],
)
def test_metadata_that_claim_what_no_file_could_hold(place, reports, change, words):
    table, whole, field = reports
    done = estimated(place, with_metadata(table, json.dumps(whole).encode(), json.dumps(field | change).encode()))
    assert done.code in ((0, 3) if words is None else (3,)), done.said
    assert words is None or words in done.err
    assert not UNSAFE.search(done.said)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": ' * 100_000, "9" * 100_000, "\x00", "", "null", "[]"])
def test_metadata_that_are_nested_or_nothing(place, reports, text):
    table, whole, field = reports
    for parts in ((text, json.dumps(field)), (json.dumps(whole), text)):
        done = estimated(place, with_metadata(table, *(part.encode() for part in parts)))
        assert done.code == 3, done.said
        assert "Traceback" not in done.err


def test_a_sidecar_that_is_nested(place):
    place.target = place.folder / "out/private.csv"
    place.write_job(VISITS)
    assert place.privatize().code == 0
    (place.folder / "out/private.csv.dpcore.json").write_text("[" * 100_000)
    assert place.estimate().code == 3


def test_a_column_name_of_a_file_cannot_command_the_terminal(place, reports):
    table, whole, field = reports
    done = estimated(place, with_metadata(table, json.dumps(whole).encode(), json.dumps(field).encode(), name="visits\x1b[2J"))
    assert done.code == 3
    assert not UNSAFE.search(done.said)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**25) | st.floats() | st.sampled_from(["", "row", "kary", "hadamard", "\x1b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["k", "a"]), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_change_of_the_metadata_ends_in_an_estimate_or_exit_code_3(place, reports, data):
    table, whole, field = reports
    whole, field = dict(whole), dict(field)
    target = data.draw(st.sampled_from([whole, field]))
    target[data.draw(st.sampled_from([*target, "phi", "w", "g", "categories_file", "variant"]))] = data.draw(JSON)
    done = estimated(place, with_metadata(table, json.dumps(whole).encode(), json.dumps(field).encode()))
    assert done.code in {0, 3}, done.said
    assert not UNSAFE.search(done.said)
