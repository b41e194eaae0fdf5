"""Small pieces (files, row groups, record batches) are joined: few kernel calls and accumulators, and the answers of one file."""

from __future__ import annotations

import importlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

from dpcore.batch import estimate, make_plan, make_release_plan, parse_job, parse_release_job, privatize, release
from dpcore.errors import DataError, StorageError
from dpcore.tables import randomise as columns
from dpcore.tables.discovery import discover
from dpcore.tables.formats import parquet as parquet_input
from dpcore.tables.pieces import Cut
from dpcore.tables.rows import ROWS_BYTES, WIDE_BYTES, joined, piece_rows_for, read_rows
from support.jobs import COLUMNS, FORMATS, KEY, decoded, people, write_table

ROWS, PIECE = 12_000, 100
SECTIONS = [{"name": name, **section} for name, section in COLUMNS.items()]
QUERIES = [
    {"name": "all", "kind": "count"},
    {"name": "states", "kind": "histogram", "column": "state", "categories": [f"state {i}" for i in range(5)], "missing": "state 0"},
    {"name": "cost", "kind": "mean", "column": "cost", "lower": 0, "upper": 62.5, "missing": 0},
]
running = importlib.import_module("dpcore.query.local_backend")
TABLE = people(ROWS)


def in_pieces(folder, kind):
    """The table in pieces of `PIECE` rows: a file with small groups, or a folder of small files."""
    name, _, ending = kind.partition(".")
    if name == "folder":
        for start in range(0, ROWS, PIECE):
            write_table(TABLE.slice(start, PIECE), folder / "in" / f"{start:06}.{ending}")
        return folder / "in"
    return write_table(TABLE, folder / f"in.{ending}", row_group_rows=PIECE)


KINDS = [f"{name}.{ending}" for ending in FORMATS for name in ("folder", "groups") if (name, ending) != ("groups", "csv")]


def job(source, output, **sections):
    return {
        "version": 1,
        "input": {"path": str(source)},
        "output": {"path": str(output)},
        "privacy": {"max_epsilon": 10.0, "max_delta": 1e-5},
        "testing": {"key_hex": KEY.hex()},
        **sections,
    }


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_privatised_table_in_pieces_is_that_of_one_file(tmp_path, monkeypatch, kind):
    calls = []
    aggregate, made = columns.NoisyColumn.aggregate, columns.NoisyColumn.privatize
    monkeypatch.setattr(columns.NoisyColumn, "privatize", lambda *given: calls.append(len(given[1])) or made(*given))
    private = {}
    for source in (
        write_table(TABLE, tmp_path / f"one.{kind[-3:]}" if kind.endswith("csv") else tmp_path / "one.parquet"),
        in_pieces(tmp_path, kind),
    ):
        calls.clear()
        keep = ["state", "note"]
        plan = make_plan(parse_job(job(source, tmp_path / f"{source.stem}.out.parquet", column=SECTIONS, keep=keep)))
        private[source] = privatize(plan, threads=2).plan.output.read_bytes()
        assert calls == [ROWS] * len(SECTIONS)
    assert len(set(private.values())) == 1
    monkeypatch.setattr(columns.NoisyColumn, "aggregate", lambda *given: calls.append(len(given[1][0])) or aggregate(*given))
    calls.clear()
    pq.write_table(pq.read_table(plan.output), tmp_path / "small.parquet", row_group_size=PIECE)
    whole, small = (estimate(path, threads=2) for path in (plan.output, tmp_path / "small.parquet"))
    assert calls == [ROWS] * (2 * len(SECTIONS))
    assert [column.estimate.value for column in whole.columns] == [column.estimate.value for column in small.columns]


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", KINDS)
def test_the_answers_of_a_table_in_pieces_are_those_of_one_file(tmp_path, monkeypatch, kind):
    merged = []
    add = running.Totals.add
    monkeypatch.setattr(running.Totals, "add", lambda self, part: merged.append(part.rows) or add(self, part))
    answers = []
    for source in (write_table(TABLE, tmp_path / "one.parquet"), in_pieces(tmp_path, kind)):
        queries = [query | {"epsilon": 1.0} for query in QUERIES]
        plan = make_release_plan(parse_release_job(job(source, tmp_path / f"{source.stem}.json", query=queries)))
        answers.append([answer["value"] for answer in release(plan, threads=2)["queries"]])
    assert merged == [ROWS, ROWS]
    assert answers[0] == answers[1]


@pytest.mark.some(3)
@pytest.mark.parametrize("kind", KINDS)
def test_joined_rows_are_the_rows_and_know_their_places(tmp_path, kind):
    inputs = discover(str(in_pieces(tmp_path, kind)))
    info = inputs.inspect(inputs.paths[0])
    types = info.types or dict.fromkeys(TABLE.column_names, pa.string())
    found = list(read_rows(inputs, types, Cut(5000)))
    assert [len(rows.batch) for rows in found] == [5000, 5000, 2000]
    assert [rows.first for rows in found] == [0, 5000, 10_000]
    table = decoded(pa.Table.from_batches([rows.batch for rows in found]))
    wanted = decoded(TABLE)
    assert table.equals(wanted.cast(table.schema) if info.types is None else wanted)
    for rows in found:
        for row in (0, PIECE - 1, PIECE, len(rows.batch) - 1):
            path, place = rows.place(row)
            whole = rows.first + row
            assert (path, place) == (
                (inputs.paths[whole // PIECE], whole % PIECE) if kind.startswith("folder") else (inputs.paths[0], whole)
            )


def test_long_text_and_other_types_are_not_joined(tmp_path, monkeypatch):
    for index, kind in enumerate([pa.int64(), pa.int64(), pa.int32(), pa.int32()]):
        write_table(pa.table({"x": pa.array([index], kind)}), tmp_path / f"{index}.parquet")
    inputs = discover(str(tmp_path))
    assert [len(rows.batch) for rows in read_rows(inputs, {"x": pa.int64()}, Cut(10))] == [2, 2]
    table = pa.table({"note": ["x" * 100] * 10})
    text = write_table(table, tmp_path / "text" / "in.parquet", row_group_rows=1)
    inputs = discover(str(text))
    monkeypatch.setattr("dpcore.tables.rows.PIECE_BYTES", 350)
    assert [len(rows.batch) for rows in read_rows(inputs, {"note": pa.string()}, Cut(10))] == [3, 3, 3, 1]
    batches = [pa.table({"label": pa.array([f"a {i}"]).dictionary_encode()}).to_batches()[0] for i in range(300)]
    with ipc.new_file(tmp_path / "labels.arrow", batches[0].schema, options=ipc.IpcWriteOptions(unify_dictionaries=False)) as writer:
        writer.write_batch(batches[0])
    inputs = discover(str(tmp_path / "labels.arrow"))
    assert [len(rows.batch) for rows in read_rows(inputs, {"label": batches[0].schema.field(0).type}, Cut(10))] == [1]


def test_labels_of_row_groups_with_dictionaries_of_their_own(tmp_path):
    """What is joined has the values of each part, nulls included, whatever the codes of a part mean."""
    labels = [None if i % 11 == 0 else f"label {i * i % 37}" for i in range(3000)]
    table = pa.table({"label": labels, "number": np.arange(3000)})
    path = write_table(table, tmp_path / "in.parquet", row_group_rows=70)
    inputs = discover(str(path))
    found = list(read_rows(inputs, dict(zip(table.column_names, table.schema.types, strict=True)), Cut(1000)))
    assert [len(rows.batch) for rows in found] == [980, 980, 980, 60]
    assert [value for rows in found for value in rows.batch.column("label").to_pylist()] == labels


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_row_groups_whose_text_has_no_dictionary(tmp_path, encoding):
    table = pa.table({"note": [f"note {i}" for i in range(300)]})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=20, use_dictionary=False, column_encoding={"note": encoding})
    inputs = discover(str(tmp_path / "in.parquet"))
    (rows,) = read_rows(inputs, {"note": pa.string()}, Cut(1000))
    assert rows.batch.column("note").to_pylist() == table["note"].to_pylist()


def test_a_damaged_row_group_among_small_ones_is_named(tmp_path):
    table = pa.table({"x": np.random.default_rng(1).random(1000)})
    path = tmp_path / "in.parquet"
    pq.write_table(table, path, row_group_size=100, compression="none", use_dictionary=False, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    place = pq.read_metadata(path).row_group(6).column(0).data_page_offset + 500
    content[place] ^= 1
    path.write_bytes(content)
    inputs, found = discover(str(path)), []
    with pytest.raises(StorageError, match=r"row group 6 of 10 \(counted from 0\) is unreadable"):
        found.extend(read_rows(inputs, {"x": pa.float64()}, Cut(1000)))
    read = np.concatenate([rows.batch.column("x").to_numpy() for rows in found]).tolist()
    assert read == table["x"].to_pylist()[:600]


def test_rows_before_an_error_come_before_it():
    def pieces():
        for first in (0, 1):
            yield _one_row(first), 0
        raise StorageError("damaged")

    found = []
    with pytest.raises(StorageError, match="damaged"):
        found.extend(joined(pieces(), 10))
    assert [rows.batch.column(0).to_pylist() for rows in found] == [[0, 1]]


def _one_row(first):
    from dpcore.tables.rows import Rows, RowsOfFile

    return Rows(pa.record_batch({"x": [first]}), (RowsOfFile(0, None, first),), first, 0.0)


def test_a_refused_cell_is_named_by_its_own_file(tmp_path):
    for index in range(30):
        cells = [float("nan") if (index, row) == (17, 3) else 1.0 for row in range(5)]
        write_table(pa.table({"x": cells}), tmp_path / "in" / f"{index:02}.parquet")
    section = {"name": "x", "mechanism": "laplace", "epsilon": 1.0, "lower": 0, "upper": 1}
    plan = make_plan(parse_job(job(tmp_path / "in", tmp_path / "out.parquet", column=[section])), curator=True)
    with pytest.raises(DataError, match=r"17\.parquet: row 3 \(counted from 0\), column 'x'"):
        privatize(plan)


def test_runs_of_row_groups_are_bounded(tmp_path):
    path = write_table(pa.table({"x": np.arange(1000), "note": ["x" * 50] * 1000}), tmp_path / "in.parquet", row_group_rows=100)
    with pq.ParquetFile(path) as file:
        numbers, text = {"x": pa.int64()}, {"note": pa.string()}
        assert list(parquet_input._runs(file, numbers, 250)) == [range(i, i + 2) for i in range(0, 10, 2)]
        assert list(parquet_input._runs(file, numbers, 50)) == [range(i, i + 1) for i in range(10)]
        assert list(parquet_input._runs(file, text, 10_000)) == [range(10)]
        assert list(parquet_input._runs(file, {"note": pa.list_(pa.string())}, 10_000)) == [range(i, i + 1) for i in range(10)]


def test_pieces_of_many_columns_are_larger_and_those_of_long_rows_are_not():
    """Each column of each piece is a call of a mechanism; a row of long reports is one call, and memory is what counts."""
    wide = {f"c{i}": pa.float64() for i in range(5000)}
    long = {"bits": pa.binary(40_000)}
    assert piece_rows_for(wide) == WIDE_BYTES // 40_000
    assert piece_rows_for(long) == ROWS_BYTES // 40_000
    assert piece_rows_for({"x": pa.float64()}) == 1 << 17
    assert piece_rows_for({"x": pa.float64()}, is_counted=True) == 1 << 18
    assert piece_rows_for(long, is_counted=True) == ROWS_BYTES // 40_000
