"""Drafts of jobs: from every format and type, without a row, and fit to run once they are filled in."""

from __future__ import annotations

import json
import re
import tomllib
from decimal import Decimal

import pyarrow as pa
import pytest

from dpcore.jobs.commands.draft import job_for, quoted
from support.jobs import Workplace, write_table

SECRET = "nobody-may-see-this"
NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
TABLE = pa.table(
    {
        **{f"number {kind}": pa.array([1, 2, None] * 10, getattr(pa, kind)()) for kind in NUMBERS},
        'odd "name" ${X} é': pa.array([SECRET, "a", None] * 10),
        "large": pa.array([SECRET, "a", None] * 10, pa.large_string()),
        "words": pa.array([SECRET, "a", None] * 10).dictionary_encode(),
        "truth": pa.array([True, False, None] * 10),
        'when "${X}" é': pa.array([1, 2, None] * 10, pa.timestamp("us")),
        "instant": pa.array([1, 2, None] * 10, pa.timestamp("ns", "Europe/Berlin")),
        "day": pa.array([1, 2, None] * 10, pa.date32()),
        "day64": pa.array([1, 2, None] * 10, pa.date64()),
        "hour": pa.array([1, 2, None] * 10, pa.time64("us")),
        "hour32": pa.array([1, 2, None] * 10, pa.time32("ms")),
        "money": pa.array([Decimal("1.5"), None, Decimal("2.5")] * 10, pa.decimal128(5, 2)),
        "took": pa.array([1, 2, None] * 10, pa.duration("us")),
        "wide": pa.array([Decimal("1.5"), None, Decimal("2.5")] * 10, pa.decimal256(60, 20)),
        "list": pa.array([[1], [2], None] * 10),
        "nothing": pa.nulls(30),
        "bytes": pa.array([b"x", b"y", None] * 10, pa.binary()),
    }
)
IN_CSV = TABLE.select(["number int64", "number float64", 'odd "name" ${X} é', "truth"])


@pytest.fixture
def place(tmp_path, capsys):
    return Workplace(tmp_path, capsys)


def drafted(place, source, *options):
    done = place.dpcore("init", source, "--job", place.job, *options)
    assert done.code == 0, done.err
    assert "fill in each ???" in done.err
    return place.job.read_text(encoding="utf-8")


BY_MONTH = ('when "${X}" é', "instant", "day", "day64")
ON_RELEASE = ("hour", "hour32", "money", "wide", "took", *BY_MONTH)


def filled_in(text):
    """What a user does: ranges, categories and stand-ins."""
    for key, value in (("first", "1970-01-01"), ("last", "1970-12-31")):
        text = re.sub(rf"^{key} = \?\?\?", f"{key} = {value}", text, flags=re.MULTILINE)
    for key, value in (("lower", "PT0S"), ("upper", "PT5M")):
        text = re.sub(rf"^{key} = \?\?\?( *# durations)", rf'{key} = "{value}"\1', text, flags=re.MULTILINE)
    for key, value in (("lower", "0"), ("upper", "5"), ("categories", '["a", "b"]'), ("unknown", '"a"')):
        text = re.sub(rf"^{key} = \?\?\?", f"{key} = {value}", text, flags=re.MULTILINE)
    blocks = text.split("[[column]]")
    for i, block in enumerate(blocks):
        stand_in = "true" if '\nmechanism = "binary"' in block else '"a"' if '"kary"' in block else "1"
        blocks[i] = re.sub(r"^missing = \?\?\?", f"missing = {stand_in}", block, flags=re.MULTILINE)
    return "[[column]]".join(blocks)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize("kind", ["release", "privatize"])
def test_a_draft_runs_when_it_is_filled_in(place, monkeypatch, ending, kind):
    monkeypatch.chdir(place.folder)
    source = write_table(TABLE, place.folder / f"in.{ending}")
    text = drafted(place, source, "--kind", kind)
    assert SECRET not in text
    refused = place.dpcore(kind, place.job, "--dry-run")
    assert refused.code == 2
    assert re.search(r"is a draft: (lower|categories|missing) = \?\?\? in line \d+, and \d+ more: write what you know", refused.err)
    place.job.write_text(filled_in(text), encoding="utf-8")
    plan = place.dpcore(kind, place.job, "--dry-run")
    assert plan.code == 0, plan.err
    done = place.dpcore(kind, place.job)
    assert done.code == 0, done.err
    document = json.loads(done.out)
    wanted = {*(f"number {each}" for each in NUMBERS), 'odd "name" ${X} é', "large", "words", "truth"}
    if kind == "release":
        asked = {query["column"] or query.get("group_by", "rows") for query in document["queries"]}
        assert asked == wanted | {"rows", *ON_RELEASE}
        assert 1 - 1e-15 < document["privacy"]["epsilon"] <= 1
    else:
        assert {column["name"] for column in document["columns"]} == wanted
        assert document["epsilon"] == document["max_epsilon"] == len(wanted)
    for name in ("list", "nothing", "bytes", *(() if kind == "release" else ("day", "money"))):
        assert re.search(rf"^# {name} \(.*\): nothing is drafted for this type\.$", text, re.MULTILINE), name


def test_a_query_of_each_kind_is_drafted():
    kinds = {
        "x": pa.decimal128(9, 3), "b": pa.bool_(), "d": pa.date64(), "t": pa.time32("s"), "z": pa.timestamp("s", "UTC"),
        "l": pa.duration("us"), "v": pa.string_view(), "f": pa.float16(), "e": pa.dictionary(pa.int8(), pa.decimal128(4, 0)),
    }  # fmt: skip
    text = job_for("in.parquet", "parquet", kinds, "release")
    blocks = text.split("[[query]]\n")[2:]
    wanted = [
        ["mean of x", "in steps of 0.001"], ["categories = [false, true]", "share"],
        ['group_by = "d"', '[query.groups."d"]', 'by = "month"'], ["rows by time of t", "06:00:00"],
        ["rows by month of z", "T00:00:00Z"], ['"PT0S"'], ["categories = ???"], ["mean of f"], ["mean of e", "in steps of 1\n"],
    ]  # fmt: skip
    for block, words in zip(blocks, wanted, strict=True):
        assert all(word in block for word in words), (block, words)
    assert len(tomllib.loads(filled_in(text))["query"]) == len(kinds) + 1
    local = job_for("in.parquet", "parquet", kinds, "privatize")
    assert local.count("nothing is drafted for this type") == 7


@pytest.mark.parametrize("kind", ["release", "privatize"])
def test_the_columns_of_a_csv_are_comments(place, monkeypatch, kind):
    monkeypatch.chdir(place.folder)
    source = write_table(IN_CSV, place.folder / "in.csv")
    refused = place.dpcore("init", source)
    assert refused.code == 2
    assert "give --curator" in refused.err
    assert "number int64" not in refused.said
    text = drafted(place, source, "--kind", kind, "--curator")
    assert SECRET not in text
    # A user takes the signs of comments away: here of what is for numbers.
    kept, is_wanted = [], False
    for line in text.splitlines():
        begins = line in {"# The type is not known. For numbers:", "# For numbers:"}
        is_wanted = begins or (is_wanted and line.startswith("# ") and not line.startswith("# For "))
        kept.append(line[2:] if is_wanted and not begins else line)
    place.job.write_text(filled_in("\n".join(kept)), encoding="utf-8")
    done = place.dpcore(kind, place.job, "--dry-run", "--curator")
    assert done.code == 0, done.err
    assert "is not used" not in done.err  # a draft is not warned of what it holds itself


@pytest.mark.parametrize(("kind", "lines"), [("release", 80), ("privatize", 45)])
def test_columns_without_types_share_one_block(kind, lines):
    """Each way to use them is written once, and all names are there; a table of 30 had more than 800 lines."""
    names = [f'no. {i} "x"' for i in range(30)]
    text = job_for("in.csv", "csv", dict.fromkeys([*names, "a\tb"]), kind)
    assert len(text.splitlines()) < lines
    assert all(quoted(name) in text for name in names)
    assert max(map(len, text.splitlines())) <= 140
    assert text.count("the name holds control characters") == 1
    for title in ("# For numbers:", "# For categories:"):
        assert text.count(title) == 1
    assert len(tomllib.loads(text).get("query", [])) == (kind == "release")
    assert "Copy them" not in job_for("in.csv", "csv", {"x": None}, kind)


def test_two_answers_are_drafted_as_binary():
    text = job_for("in", "parquet", {"smoker": pa.bool_(), "owner": pa.string()}, "privatize")
    truth, words = text.split("[[column]]")[1:]
    assert '\nmechanism = "binary"\n' in truth
    assert 'epsilon = 1.0\n# mechanism = "binary" with categories = ["no", "yes"] is for two answers\n' in words
    assert 'mechanism = "binary" with categories' in job_for("in.csv", "csv", {"owner": None}, "privatize")


def test_a_draft_is_printed_or_written_once(place):
    source = write_table(TABLE, place.source)
    text = drafted(place, source)
    printed = place.dpcore("init", source)
    assert (printed.code, printed.out) == (0, text)
    again = place.dpcore("init", source, "--job", place.job)
    assert again.code == 2
    assert "exists" in again.err
    assert place.dpcore("init", place.folder / "none.parquet").code == 4


def test_no_row_is_read(place, monkeypatch):
    source = write_table(TABLE, place.source)
    monkeypatch.setattr("dpcore.tables.rows.read_rows", lambda *_, **__: pytest.fail("rows were read"))
    drafted(place, source)


def test_names_are_written_as_toml_writes_them():
    for name in ('a"b', "a\\b", "é ${X}", "[x]", "x = 1", "# no"):
        assert tomllib.loads(f"x = {quoted(name)}")["x"].replace("$${", "${") == name
    text = job_for("in.parquet", "parquet", {"a\nb": pa.int64(), "a]\n[ledger]": None}, "release")
    assert text.count("the name holds control characters") == 2
    assert "[ledger]" not in re.findall(r"^\[.*", text, re.MULTILINE)


def test_many_columns_are_cut():
    text = job_for("in", "parquet", {f"c{i}": pa.int64() for i in range(1000)}, "privatize")
    assert text.count("[[column]]") == 200
    assert "800 more columns are not drafted" in text
