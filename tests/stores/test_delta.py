"""Tables of Delta Lake, on this machine and in a store: the rows that their log counts, and no others."""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from dpcore.tables.discovery import discover
from dpcore.tables.pieces import Cut
from dpcore.tables.rows import read_rows
from support.jobs import COLUMNS, read_table
from support.locality import NAME, Column, differences
from support.stores import Store

TABLE = pa.table(
    {"id": list(range(8)), "visits": [1, 2, 3, 4, 5, 6, 7, 8], "region": ["a b", "a/b", None, "c"] * 2, "year": [2023, 2024] * 4}
)
NUMBERS = itertools.count()
VISITS = {"visits": COLUMNS["visits"]}


@pytest.fixture(params=["a folder", "an object store"])
def root(request, tmp_path, monkeypatch):
    """Where a table is written and read."""
    if request.param == "a folder":
        return str(tmp_path / "t")
    s3: Store = request.getfixturevalue("s3")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")  # for the writer of the test
    return s3.address("deep/t")


def rows_of(root, *names):
    inputs = discover(root)
    types = {name: inputs.inspect(inputs.paths[0]).types[name] for name in names}
    batches = [rows.batch for rows in read_rows(inputs, types, Cut(3))]
    return sorted(map(str, pa.Table.from_batches(batches).to_pylist()))


def truth(root, *names):
    return sorted(map(str, DeltaTable(root).to_pyarrow_table(columns=list(names)).to_pylist()))


def test_rows_are_those_that_the_log_counts(root):
    write_deltalake(root, TABLE, partition_by=["region", "year"])
    write_deltalake(root, TABLE.set_column(0, "id", pa.array(range(8, 16))), mode="append", partition_by=["region", "year"])
    DeltaTable(root).delete("id = 3 or id > 12")
    for names in (("id", "region", "year"), ("year",), ("visits",)):
        assert rows_of(root, *names) == truth(root, *names)
    write_deltalake(root, TABLE.slice(0, 2), mode="overwrite", partition_by=["region", "year"])
    assert rows_of(root, "id", "region", "year") == truth(root, "id", "region", "year")


def test_columns_that_came_later_are_null_in_older_files(root):
    write_deltalake(root, TABLE)
    write_deltalake(root, TABLE.append_column("new", pa.array([0.5] * 8)), mode="append", schema_mode="merge")
    assert rows_of(root, "id", "new") == truth(root, "id", "new")
    assert rows_of(root, "new") == truth(root, "new")


def test_jobs_read_tables(root, place, counter):
    write_deltalake(root, TABLE, partition_by=["region"])
    DeltaTable(root).delete("id = 0")
    counter.source = place.source = root
    counts = {"kind": "count", "group_by": "region", "groups": ["a b", "a/b", "c"], "epsilon": 1000.0}
    counter.write_release({"by region": counts, "late": {"kind": "count", "where": "year >= 2024 AND region <> 'c'", "epsilon": 1000.0}})
    done = counter.release()
    assert done.code == 0, done.said
    assert [query["value"] for query in json.loads(counter.target.read_text(encoding="utf-8"))["queries"]] == [[1, 2, 2], 2]
    place.write_job(VISITS)
    assert "its folders are a column, 'region'" in place.privatize().err
    place.write_job(VISITS, keep=["region", "id"])
    done = place.privatize()
    assert done.code == 0, done.said
    assert sorted(read_table(place.target).column("id").to_pylist()) == list(range(1, 8))


def test_a_removed_file_is_not_asked_for_and_a_missing_one_is_named(place, tmp_path):
    root = str(tmp_path / "t")
    write_deltalake(root, TABLE)
    (file,) = DeltaTable(root).file_uris()
    place.source = root
    place.write_job(VISITS)
    (tmp_path / "t" / file.rpartition("/")[2]).unlink()
    done = place.privatize()
    assert done.code == 4
    assert f"{root} (file 1 of 1 in version 0): cannot be read" in done.err


def rewritten(root, change):
    """Change the actions of the first version of a table."""
    log = root / "_delta_log" / "00000000000000000000.json"
    actions = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    for action in actions:
        change(action)
    log.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")


def with_features(*names):
    said = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": list(names), "writerFeatures": list(names)}
    return lambda action: action.update(protocol=said) if "protocol" in action else None


def with_column_mapping(action):
    if "protocol" in action:
        action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
    if "metaData" in action:
        action["metaData"]["configuration"] |= {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9"}
        schema = json.loads(action["metaData"]["schemaString"])
        for number, field in enumerate(schema["fields"], 1):
            field["metadata"] |= {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": field["name"]}
        action["metaData"]["schemaString"] = json.dumps(schema)


def with_a_deletion_vector(action):
    """An example of Delta's own tests: it removes rows 3, 4, 7, 11, 18 and 29."""
    with_features("deletionVectors")(action)
    if "add" in action:
        vector = {
            "storageType": "i",
            "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
            "sizeInBytes": 44,
            "cardinality": 6,
        }
        action["add"]["deletionVector"] = vector


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_features("typeWidening"), "needs what dpcore does not know (typeWidening)"),
        (with_column_mapping, "maps the names of its columns"),
        (with_a_deletion_vector, "has rows that only deletion vectors remove"),
    ],
)
def test_tables_that_files_alone_do_not_tell_are_refused(place, tmp_path, change, words):
    place.source = tmp_path / "t"
    write_deltalake(str(place.source), pa.concat_tables([TABLE] * 5))
    rewritten(place.source, change)
    place.write_job(VISITS)
    done = place.privatize()
    assert (done.code, place.left_behind()) == (2, [])
    assert words in done.err


def test_a_feature_that_is_not_in_use_changes_nothing(place, tmp_path):
    place.source = tmp_path / "t"
    write_deltalake(str(place.source), TABLE)
    rewritten(place.source, with_features("deletionVectors"))
    place.write_job(VISITS)
    assert place.privatize().code == 0
    assert read_table(place.target).num_rows == 8


def test_a_log_that_cannot_be_read_is_named(place, tmp_path):
    root = tmp_path / "t"
    write_deltalake(str(root), TABLE)
    (root / "_delta_log" / "00000000000000000000.json").write_text("secret-cell", encoding="utf-8")
    place.source = root
    place.write_job(VISITS)
    done = place.privatize()
    assert done.code == 4
    assert f"{root}: the log of this table of Delta Lake cannot be read" in done.err
    assert "secret-cell" not in done.said


def test_the_files_of_a_table_are_not_read_without_its_log(place, tmp_path):
    root = tmp_path / "t"
    write_deltalake(str(root), TABLE, partition_by=["year"])
    for place.source in (root / "year=2023", root / "year=2023" / "*.parquet", tmp_path):
        place.write_job(VISITS, keep=["year"])
        done = place.privatize()
        assert done.code == 2
        assert "is a table of Delta Lake" in done.err


# The harness of locality

DELTA_CELLS = {
    "string": (pa.string(), ["", "a", "5", "NA", "é", "\x00", "x" * 3000, None]),
    "long": (pa.int64(), [0, -1, 2**53 + 1, 2**63 - 1, -(2**63), None]),
    "byte": (pa.int8(), [0, -128, 127, None]),
    "double": (pa.float64(), [0.0, -0.0, 1.5, float("nan"), float("inf"), 5e-324, None]),
    "decimal": (pa.decimal128(20, 3), [Decimal(0), Decimal("-1.5"), Decimal("99999999999999999.999"), None]),
    "date": (pa.date32(), [dt.date(1970, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
    "timestamp": (pa.timestamp("us", "UTC"), [dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 2, 29, 1, 2, tzinfo=dt.UTC), None]),
    "boolean": (pa.bool_(), [True, False, None]),
}  # fmt: skip


NO_FOLDERS = ["\x00", "x" * 3000, 5e-324, Decimal("-1.5")]
"""Values that make no name of a folder, or of which deltalake writes another one."""


def delta_of(root, kind, way, cells):
    """A table of some cells: as a partition, in a file of its own each, or all in one."""
    path = str(root / str(next(NUMBERS)))
    table = pa.table({"other": pa.array(range(len(cells)), pa.int64()), NAME: pa.array(cells, kind)})
    parts = [table.slice(row, 1) for row in range(len(cells))] if way == "files" else [table]
    for part in parts:
        write_deltalake(path, part, mode="append", partition_by=[NAME] if way == "partition" else None)
    return path


def cells_of(path, rows):
    """The cells in the order of their numbers: a table has none."""
    inputs = discover(path)
    found = []
    for file in inputs.paths:
        types = inputs.inspect(file).types
        found += [piece.batch for piece in inputs.pieces(file, {name: types[name] for name in ("other", NAME)}, Cut(rows))]
    (whole,) = pa.Table.from_batches(found).sort_by("other").combine_chunks().to_batches()
    yield whole


@pytest.mark.parametrize("way", ["one file", "files", "partition"])
@pytest.mark.parametrize("name", DELTA_CELLS)
def test_a_cell_is_read_alike_in_any_company(tmp_path, name, way):
    kind, cells = DELTA_CELLS[name]
    if way == "partition":
        cells = [cell for cell in cells if cell not in NO_FOLDERS]
    zoo = {f"{place}: {cell!r:.20}": cell for place, cell in enumerate(cells)}
    column = Column(f"delta, {way}", name, functools.partial(delta_of, tmp_path, kind, way), zoo, read=cells_of)
    assert differences(column) == []
