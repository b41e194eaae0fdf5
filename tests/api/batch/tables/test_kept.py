"""A kept column is the values of its rows: nothing else that an input holds is found in the bytes of an output."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

from dpcore.jobs.privatize_plan import LISTS_FROM
from dpcore.tables.output import writers
from dpcore.tables.types.kept import kept, kept_type
from dpcore.tables.types.sizes import total_varying_bytes, varying_bytes
from support.jobs import FORMATS, Workplace, read_table, write_table

MARK = "MARKMARK"
ROWS = 48
JOB = {"visits": {"mechanism": "discrete_laplace", "epsilon": 1.0, "lower": 0, "upper": 20, "missing": 4}}
VALID = np.arange(ROWS) % 3 != 0
BITMAP = pa.py_buffer(np.packbits(VALID, bitorder="little").tobytes())
OFFSETS = pa.py_buffer(np.arange(ROWS + 1, dtype=np.int32) * 8)
HIDDEN = pa.py_buffer(b"".join(b"valuable" if valid else MARK.encode() for valid in VALID))
ALL = pa.Array.from_buffers(pa.string(), ROWS, [None, OFFSETS, HIDDEN])


def each(kind, buffers, children=()):
    return pa.Array.from_buffers(kind, ROWS, buffers, children=list(children))


ONE_EACH = pa.py_buffer(np.arange(ROWS + 1, dtype=np.int32))
TEXT = each(pa.string(), [BITMAP, OFFSETS, HIDDEN])
STRUCT = each(pa.struct([("a", pa.string())]), [BITMAP], [ALL])
COLUMNS = {
    "integers": each(pa.int64(), [BITMAP, HIDDEN]),
    "bytes": each(pa.binary(8), [BITMAP, HIDDEN]),
    "text": TEXT,
    "lists of text": each(pa.list_(pa.string()), [BITMAP, ONE_EACH], [ALL]),
    "lists of nulls": each(pa.list_(pa.string()), [None, ONE_EACH], [TEXT]),
    "pairs": each(pa.list_(pa.string(), 1), [BITMAP], [ALL]),
    "structs": STRUCT,
    "structs of structs": each(pa.struct([("b", STRUCT.type)]), [None], [STRUCT]),
    "lists of structs": each(pa.list_(STRUCT.type), [None, ONE_EACH], [STRUCT]),
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([0] * ROWS), pa.array(["a", MARK])),
    "lists of dictionaries": pa.ListArray.from_arrays(
        pa.array(range(ROWS + 1), pa.int32()), pa.DictionaryArray.from_arrays(pa.array([0] * ROWS), pa.array(["a", MARK]))
    ),
    "slack": pa.Array.from_buffers(
        pa.string(), ROWS, [None, pa.py_buffer(np.full(ROWS + 1, 16, np.int32)), pa.py_buffer(MARK.encode() * 9)]
    ),
    "view": pa.array([MARK * 4, *["x" * 20] * ROWS]).cast(pa.string_view()).slice(1),
}


@pytest.fixture
def place(tmp_path, capsys):
    return Workplace(tmp_path, capsys)


def written(place):
    assert place.target.parent.exists()
    return b"".join(path.read_bytes() for path in place.target.parent.iterdir())


@pytest.mark.parametrize("name", COLUMNS)
def test_what_is_kept_is_the_values_and_nothing_beside_them(name):
    for values in (COLUMNS[name], COLUMNS[name].slice(5)):
        made = kept(values)
        made.validate(full=True)
        assert made.type == kept_type(values.type)
        assert made.to_pylist() == values.to_pylist()
        assert varying_bytes(made).tolist() == varying_bytes(values).tolist()
        assert total_varying_bytes(made) == total_varying_bytes(made.slice(3)) + varying_bytes(made)[:3].sum() == varying_bytes(made).sum()


@pytest.mark.parametrize("target", ["parquet", "arrow"])
@pytest.mark.parametrize("name", COLUMNS)
def test_nothing_that_lies_beside_the_values_is_written(place, name, target):
    table = pa.table({"x": COLUMNS[name], "visits": np.arange(ROWS)})
    place.source, place.target = write_table(table, place.folder / "in.arrow"), place.folder / f"out/private.{target}"
    place.write_job(JOB, keep=["x"], compression="none")
    done = place.privatize()
    if name == "pairs" and target == "parquet" and int(pa.__version__.partition(".")[0]) < LISTS_FROM:
        assert done.code == 2
        assert "cannot be kept in Parquet by pyarrow" in done.err
        return
    assert done.code == 0, done.err
    assert read_table(place.target)["x"].to_pylist() == COLUMNS[name].to_pylist()
    assert MARK.encode() not in written(place)


TICKS = pa.array([0, 2**63 - 1, -(2**63), None])
DAYS = pa.array([0, 2**31 - 1, -(2**31), None], pa.int32())
BYTES = pa.array([b"a", b"\xff", b"\0", None])
NOT_UTF8 = pa.Array.from_buffers(pa.string(), 4, BYTES.buffers(), null_count=1)
EXTREMES = {
    **{
        f"time {unit} {zone}": TICKS.view(pa.timestamp(unit, zone))
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "No/Where")
    },
    **{f"duration {unit}": TICKS.view(pa.duration(unit)) for unit in ("s", "ns")},
    **{str(kind): TICKS.view(kind) for kind in (pa.date64(), pa.time64("us"), pa.time64("ns"))},
    **{str(kind): DAYS.view(kind) for kind in (pa.date32(), pa.time32("s"), pa.time32("ms"))},
    "decimal": pa.Array.from_buffers(pa.decimal128(5, 2), 4, [None, pa.py_buffer(b"\xff" * 15 + b"\x7f" + bytes(48))]),
    "bytes": BYTES,
    "large bytes": BYTES.cast(pa.large_binary()),
    "bytes of one length": pa.array([b"ab", b"\xff\xfe", b"\0\0", None], pa.binary(2)),
    "bytes of no length": pa.array([b""] * 4, pa.binary(0)),
    "text": NOT_UTF8,
    "structs of text": pa.StructArray.from_arrays([NOT_UTF8], ["a"]),
    "lists of text": pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), NOT_UTF8),
    "structs of days": pa.StructArray.from_arrays([TICKS.view(pa.date64())], ["a"]),
    "structs of nothing": pa.array([{}, {}, {}, None], pa.struct([])),
    "intervals": pa.array([(1, 2, 3), (2**31 - 1, -(2**31), 2**63 - 1), (0, 0, 0), None], pa.month_day_nano_interval()),
    "nothing": pa.nulls(4),
}


@pytest.mark.some(16)
@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("name", EXTREMES)
def test_no_kept_value_ends_a_job(place, name, target):
    """What a writer cannot take is known from its type: the job is refused before it is charged, or ends well."""
    table = pa.table({"x": EXTREMES[name], "visits": np.arange(4)})
    place.source, place.target = write_table(table, place.folder / "in.arrow"), place.folder / f"out/private.{target}"
    place.write_job(JOB, keep=["x"])
    codes = {place.privatize("--dry-run").code, place.privatize().code}
    assert codes in ({0}, {2}), codes
    if codes == {0} and target != "csv":
        found = pq.read_table(place.target) if target == "parquet" else read_table(place.target)
        assert found.num_rows == 4
        assert found["x"].null_count >= EXTREMES[name].null_count


def test_kept_bytes_and_seconds_of_other_formats(place):
    table = pa.table({"bytes": BYTES, "times": TICKS.view(pa.timestamp("s")), "visits": np.arange(4)})
    place.source = write_table(table, place.folder / "in.arrow")
    place.write_job(JOB, keep=["times"])
    assert place.privatize().code == 0
    assert pq.read_table(place.target)["times"].cast(pa.int64()).to_pylist() == [0, None, None, None]
    place.target = place.folder / "out/private.csv"
    place.write_job(JOB, keep=["bytes"])
    assert place.privatize().code == 0
    assert read_table(place.target)["bytes"].to_pylist() == ["a", "\ufffd", "\0", ""]


def test_a_type_that_cannot_be_made_anew_is_refused_by_name(place):
    union = pa.UnionArray.from_sparse(pa.array([0] * 3, pa.int8()), [pa.array([1, 2, 3])])
    place.source, place.target = write_table(pa.table({"x": union}), place.folder / "in.arrow"), place.folder / "out/private.arrow"
    place.write_job(JOB, keep=["x"])
    done = place.privatize()
    assert done.code == 2
    assert "there is no column 'visits'" in done.err
    write_table(pa.table({"x": union, "visits": [1, 2, 3]}), place.source)
    done = place.privatize()
    assert done.code == 2
    assert "keep: column 'x' of type sparse_union" in done.err


def marked_table():
    """Every cell that is not kept holds the mark, and so do all metadata."""
    said = {"owner": MARK, "pandas": MARK}
    inner = pa.struct([pa.field("a", pa.int64(), metadata=said)])
    fields = [
        pa.field("kept", pa.string(), metadata=said),
        pa.field("nested", inner, metadata=said),
        pa.field("visits", pa.int64(), metadata=said),
        pa.field("diary", pa.string(), metadata=said),
        pa.field("labels", pa.dictionary(pa.int32(), pa.string())),
    ]
    number = int.from_bytes(MARK.encode(), "little")
    columns = [
        ["public"] * ROWS,
        pa.array([{"a": 1}] * ROWS, inner),
        pa.array([number] * ROWS),
        [MARK] * ROWS,
        pa.array([MARK] * ROWS).dictionary_encode(),
    ]
    return pa.table(columns, schema=pa.schema(fields, metadata=said))


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("source", FORMATS)
def test_no_other_cell_and_no_metadata_of_the_input_is_written(place, source, target):
    table = marked_table()
    keep = ["kept", "nested"] if "csv" not in (source, target) else ["kept"]
    table = table if source != "csv" else table.drop_columns(["nested"])
    place.source, place.target = write_table(table, place.folder / f"in.{source}"), place.folder / f"out/private.{target}"
    assert MARK.encode() in place.source.read_bytes() or source == "parquet"
    place.write_job(JOB, keep=keep, key=None, **({} if target == "csv" else {"compression": "none"}))
    done = place.privatize()
    assert done.code == 0, done.err
    assert MARK.encode() not in written(place)
    if target != "csv":
        schema = read_table(place.target).schema
        assert schema.field("kept").metadata in (None, {b"PARQUET:field_id": b"1"})
        assert list(schema.metadata) == [b"dpcore"]


@pytest.mark.parametrize("target", ["parquet", "arrow"])
def test_labels_that_no_row_has_are_not_in_the_output(place, target):
    """Of a dictionary, rows that were dropped before leave their values behind."""
    rows = pa.table({"x": pa.array([*["a", "b"] * 20, MARK]).dictionary_encode(), "visits": np.arange(41)}).slice(0, 40)
    place.source, place.target = write_table(rows, place.folder / "in.parquet"), place.folder / f"out/private.{target}"
    place.write_job(JOB, keep=["x"], compression="none")
    assert place.privatize().code == 0
    assert MARK.encode() not in written(place)
    assert read_table(place.target)["x"].to_pylist() == ["a", "b"] * 20


def test_parts_of_an_output_stay_small_where_kept_text_is_long(place, monkeypatch):
    """A part ends behind the row that fills it, whatever the input's parts are."""
    monkeypatch.setattr(writers, "ROW_GROUP_BYTES", 1 << 16)
    outputs = []
    table = pa.table({"x": ["a" * 1000] * 150, "visits": np.arange(150)})
    for rows in (150, 7):
        write_table(table, place.source, row_group_rows=rows)
        place.write_job(JOB, keep=["x"])
        assert place.privatize("--overwrite").code == 0
        metadata = pq.read_metadata(place.target)
        outputs.append([metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)])
    assert outputs[0] == outputs[1] == [66, 66, 18]


def test_the_last_batch_of_an_arrow_file_holds_no_bytes_of_the_rows_cut_off(place):
    numbers = pa.table({"x": pa.array(np.arange(5, dtype=np.int32)), "visits": np.arange(5)})
    place.source, place.target = write_table(numbers.slice(0, 3), place.folder / "in.arrow"), place.folder / "out/private.arrow"
    place.write_job(JOB, keep=["x"])
    assert place.privatize().code == 0
    assert [buffer and buffer.size for buffer in ipc.open_file(place.target).get_batch(0).column(0).buffers()] == [None, 12]


@pytest.mark.parametrize("kind", [pa.list_(pa.int8(), 0), pa.list_(pa.list_(pa.int8(), 2048), 2048), pa.binary(2**21)], ids=str)
def test_values_without_a_place_or_with_too_many_are_refused(kind):
    """pyarrow divides by the length of a list, and the process ends; a null has as many places as any value."""
    with pytest.raises(pa.ArrowNotImplementedError):
        kept_type(pa.struct([("x", kind)]))
