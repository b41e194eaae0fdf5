"""Files of Arrow and Parquet that are as they should be: what mutations begin with."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ipc

from fuzz.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 6


def tables() -> Iterator[tuple[str, pa.Table]]:
    """Tables with columns of all kinds."""
    index = range(ROWS)
    nulls = [None if i == 2 else i for i in index]
    yield "plain", table(ROWS)
    yield (
        "nested",
        pa.table(
            {
                "visits": nulls,
                "tags": pa.array([None if i == 1 else ["x"] * (i % 3) for i in index]),
                "pair": pa.array([{"k": i, "v": "y"} for i in index]),
                "map": pa.array([[("k", i)] for i in index], pa.map_(pa.string(), pa.int64())),
                "fixed": pa.array([[i, i] for i in index], pa.list_(pa.int8(), 2)),
            }
        ),
    )
    yield (
        "times",
        pa.table(
            {
                "visits": pa.array(nulls, pa.uint8()),
                "amount": pa.array(nulls, pa.int64()).cast(pa.decimal128(30, 0)).cast(pa.decimal128(12, 2)),
                "day": pa.array(nulls, pa.int32()).cast(pa.date32()),
                "moment": pa.array(nulls, pa.int64()).cast(pa.timestamp("ns", "UTC")),
                "clock": pa.array(nulls, pa.int64()).cast(pa.time64("us")),
            }
        ),
    )
    yield (
        "texts",
        pa.table(
            {
                "text": pa.array(["a", "bb", None, "é", "", "c"], pa.large_string()),
                "label": pa.array(["a", "b", None, "c", "a", "b"]).dictionary_encode(),
                "flag": pa.array([True, None, False, True, True, False]),
                "code": pa.array([1, 2, 3, None, 5, 6], pa.float32()),
                "raw": pa.array([b"a", b"\xff", None, b"", b"c", b"d"]),
            }
        ),
    )
    yield "empty", table(0)


def arrow_files() -> dict[str, bytes]:
    """Arrow files, by their names."""
    found = {name: _arrow(each, 4) for name, each in tables()}
    plain = table(ROWS)
    found["parts"] = _arrow(table(20), 100)
    found["lz4"] = _arrow(plain, 100, compression="lz4")
    found["views"] = _arrow(
        pa.table({"text": pa.array(["a", "b", None, "long enough for a buffer"], pa.string_view()), "nothing": pa.nulls(4)}), 4
    )
    grown = [pa.record_batch({"label": pa.array(each).dictionary_encode()}) for each in (["a"], ["a", "b"], ["a", "b", "c"])]
    found["growing"] = _arrow(pa.Table.from_batches(grown), 100, emit_dictionary_deltas=True)
    return found


def _arrow(each: pa.Table, rows: int, **options: Any) -> bytes:
    sink = io.BytesIO()
    with ipc.new_file(sink, each.schema, options=ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(each, max_chunksize=rows)
    return sink.getvalue()


def parquet_files() -> dict[str, bytes]:
    """Parquet files, by their names."""
    found = {name: _parquet(each, row_group_size=4) for name, each in tables()}
    plain = table(ROWS).drop_columns(["label"])
    found["delta"] = _parquet(plain, use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY", "visits": "DELTA_BINARY_PACKED"})
    found["checked"] = _parquet(plain, write_page_checksum=True, data_page_version="2.0")
    found["zstd"] = _parquet(plain, compression="zstd", store_schema=False)
    found["bare"] = _parquet(plain, store_schema=False, write_statistics=False, row_group_size=2)
    return found


def _parquet(each: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(each, sink, **{"compression": "none", **options})
    return sink.getvalue()
