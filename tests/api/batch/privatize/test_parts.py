"""Large record batches and row groups are read in parts, and decoded values bound the parts: the rows are the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

from dpcore.errors import StorageError
from dpcore.tables import pieces, sources
from dpcore.tables.discovery import discover
from dpcore.tables.formats import arrow as arrow_input
from dpcore.tables.formats import parquet as parquet_input
from dpcore.tables.pieces import Cut
from support.jobs import people, write_table

ROWS = 1000


def table():
    index = np.arange(ROWS)
    nulls = index % 7 == 3
    text = np.array([f"note {i} " + "x" * (i % 50) for i in index], object)
    return pa.table(
        {
            "unread": pa.array([["a"] * (i % 3) for i in index]),
            "i8": pa.array(index % 100, pa.int8(), mask=nulls),
            "i64": pa.array(index * 7),
            "f": pa.array(index / 8, mask=nulls),
            "flag": pa.array(index % 3 == 0, mask=nulls),
            "text": pa.array(text, mask=nulls),
            "long": pa.array(text, pa.large_string()),
            "fixed": pa.array([b"%08d" % i for i in index], pa.binary(8), mask=nulls),
            "day": pa.array(index.astype("datetime64[D]")),
            "money": pa.array(index).cast(pa.decimal128(30, 2)),
            "label": pa.array([f"state {i % 5}" for i in index], mask=nulls).dictionary_encode(),
            "lists": pa.array([[i] * (i % 4) for i in index], mask=nulls),
            "structs": pa.array([{"a": i, "b": None} for i in index], pa.struct([("a", pa.int64()), ("b", pa.string())])),
            "nothing": pa.nulls(ROWS),
        }
    )


READ = [name for name in table().column_names if name != "unread"]
FLAT = ["i8", "i64", "f", "flag", "text", "long", "fixed", "day", "money"]


def read(path, names, rows=1 << 20):
    inputs = discover(str(path))
    schema = inputs.inspect(path).schema
    found = list(inputs.pieces(path, {name: schema.field(name).type for name in names}, Cut(rows)))
    assert [piece.row for piece in found] == np.cumsum([0, *(len(piece.batch) for piece in found[:-1])]).tolist()
    assert all(0 < piece.done <= 1 for piece in found)
    return pa.Table.from_batches([piece.batch for piece in found]), found


@pytest.mark.some(5)
@pytest.mark.parametrize("names", [READ, FLAT, ["text"], ["label", "i8"], ["flag"], ["nothing", "f"]])
@pytest.mark.parametrize("batch_rows", [1000, 333])
@pytest.mark.parametrize("compression", [None, "lz4"])
def test_parts_of_a_record_batch_make_the_batch(tmp_path, monkeypatch, names, batch_rows, compression):
    monkeypatch.setattr(arrow_input, "WHOLE_BYTES", 0)
    monkeypatch.setattr(arrow_input, "PART_BYTES", 100)
    path = tmp_path / "in.arrow"
    with ipc.new_file(path, table().schema, options=ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table(), max_chunksize=batch_rows)
    found, parts = read(path, names)
    assert found.to_pydict() == table().select(names).to_pydict()
    if compression is None and set(names) & set(FLAT):
        assert len(parts) > ROWS // batch_rows * 2


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("i64", (pa.int64(), pa.int32(), pa.int8())),
        ("f", (pa.float64(), pa.float32(), pa.int64())),
        ("text", (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()))),
    ],
)
def test_files_of_other_types_are_read_by_their_own(tmp_path, monkeypatch, ending, name, kinds):
    """The type of the last file was taken for that of the first: of 64-bit numbers each half was a row's, and one record moved two."""
    monkeypatch.setattr(arrow_input, "WHOLE_BYTES", 0)
    values = pa.array([i % 100 for i in range(ROWS)]) if name != "text" else pa.array([f"label {i % 100}" for i in range(ROWS)])
    for one in kinds:
        path = tmp_path / f"{one.id}.{ending}"
        write_table(
            pa.table({name: values.cast(one) if one.id != pa.dictionary(pa.int32(), pa.string()).id else values.dictionary_encode()}), path
        )
        inputs = discover(str(path))
        for other in kinds:
            found = pa.concat_arrays(
                [piece.batch.column(name).cast(values.type) for piece in inputs.pieces(path, {name: other}, Cut(ROWS))]
            )
            assert found.equals(values), (one, other)


def test_a_message_without_bitmaps_and_files_of_older_versions(tmp_path, monkeypatch):
    monkeypatch.setattr(arrow_input, "WHOLE_BYTES", 0)
    monkeypatch.setattr(arrow_input, "PART_BYTES", 100)
    for version in (ipc.MetadataVersion.V4, ipc.MetadataVersion.V5):
        for legacy in (False, True):
            path = tmp_path / f"{version}-{legacy}.arrow"
            options = ipc.IpcWriteOptions(metadata_version=version, use_legacy_format=legacy)
            with ipc.new_file(path, table().schema, options=options) as writer:
                writer.write_table(table())
            assert read(path, FLAT)[0].to_pydict() == table().select(FLAT).to_pydict()


@pytest.mark.some(3)
@pytest.mark.parametrize("names", [READ, ["text", "label"], ["lists"], ["i8", "f"]])
@pytest.mark.parametrize("encoding", ["dictionary", "plain", "shared"])
def test_row_groups_come_in_parts_by_their_decoded_size(tmp_path, monkeypatch, names, encoding):
    monkeypatch.setattr(parquet_input, "PIECE_BYTES", 300)
    monkeypatch.setattr(parquet_input, "LABEL_BYTES", 300)
    monkeypatch.setattr(parquet_input, "FEW_ROWS", 50)
    monkeypatch.setattr(pieces, "PIECE_BYTES", 2000)
    path = tmp_path / "in.parquet"
    settings = {
        "dictionary": {"use_dictionary": True},
        "plain": {"use_dictionary": False},
        "shared": {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY", "long": "DELTA_BYTE_ARRAY"}},
    }
    pq.write_table(table(), path, row_group_size=300, store_schema=True, **settings[encoding])
    found, parts = read(path, names, 400)
    assert found.to_pydict() == table().select(names).to_pydict()
    assert len(parts) > 4 or names == ["i8", "f"]


def long_labels(rows):
    """A small file of a few long labels, each in many rows."""
    labels = pa.array([str(i) * 20_000 for i in range(10)])
    return pa.DictionaryArray.from_arrays(pa.array(np.arange(rows) % 10, pa.int32()), labels)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_pieces_of_long_labels_have_few_rows(tmp_path, ending, plain):
    labels = long_labels(50_000)
    path = tmp_path / f"in.{ending}"
    if ending == "parquet":
        # Without Arrow's own schema nothing says that the column was a dictionary.
        pq.write_table(pa.table({"x": labels}), path, store_schema=not plain)
    else:
        write_table(pa.table({"x": labels}), path)
    assert path.stat().st_size < 1 << 20
    found, parts = read(path, ["x"])
    assert len(found) == 50_000
    assert max(len(piece.batch) for piece in parts) <= pieces.PIECE_BYTES // 20_000 + 1


def test_text_whose_parts_end_before_they_begin_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(arrow_input, "WHOLE_BYTES", 0)
    path = tmp_path / "in.arrow"
    ends = np.array([0, 4, 2, 8], np.int32)
    text = pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(ends), pa.py_buffer(b"abcdefgh")])
    with ipc.new_file(path, pa.schema([("x", pa.string())])) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([text], names=["x"]))
    with pytest.raises(StorageError, match=r"record batch 0 of 1 \(counted from 0\) is unreadable"):
        read(path, ["x"])


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_a_file_is_open_once_for_a_pass(tmp_path, monkeypatch, ending):
    """Opening it by its name again could open another."""
    path = write_table(people(300), tmp_path / f"in.{ending}")
    inputs, opened = discover(str(path)), []
    schema = inputs.inspect(path).schema
    open_file = pa.OSFile
    monkeypatch.setattr(sources.pa, "OSFile", lambda *arguments: opened.append(arguments) or open_file(*arguments))
    assert len(list(inputs.pieces(path, {"note": schema.field("note").type}, Cut(100)))) >= 3
    assert opened == [(str(path), "rb")]
