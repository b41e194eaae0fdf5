"""Neighbouring tables, and what is to be seen of an output without looking at its values."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
from pyarrow import ipc

from dpcore.batch import load_job, make_plan, privatize
from dpcore.tables.formats import csv as csv_input
from dpcore.tables.output import writers
from support.jobs import job_text, read_table, write_table

ROWS = 250
BLOCK_BYTES = 2048
"""Of CSV text: so small that some fifteen blocks make the table."""
OUTPUT_ROWS = 90
JOB: dict[str, dict[str, Any]] = {
    "visits": {"mechanism": "discrete_laplace", "epsilon": 1.0, "lower": 0, "upper": 20, "missing": 4},
    "income": {"mechanism": "laplace", "epsilon": 1.0, "lower": 0.0, "upper": 100.0, "missing": 50.0},
    "smoker": {"mechanism": "binary", "epsilon": 1.0, "missing": True},
    "region": {"mechanism": "kary", "epsilon": 1.0, "categories": ["north", "east", "south"], "missing": "east", "unknown": "south"},
    "town": {"mechanism": "hadamard", "epsilon": 1.0, "k": 40, "missing": 0, "unknown": 1},
    "taste": {"mechanism": "unary", "epsilon": 1.0, "categories": ["sweet", "sour"], "missing": "sour", "unknown": "sour"},
    "shop": {"mechanism": "hashing", "epsilon": 1.0, "k": 9, "missing": 0, "unknown": 8},
}
KEEP = ["state", "note"]
SAME: dict[str, list[list[Any]]] = {
    # Groups of cells that a job takes for one another, so that with a key not one byte of its output may differ.
    "visits": [[0, -5, -123456789012345], [4, None]],
    "income": [[100.0, 100.5, 12345678.125], [50.0, None]],
    "smoker": [[True, None]],
    "region": [["south", "a place that nobody declared", "x" * 700], ["east", None]],
    "town": [[0, None], [1, 40, 10**15]],
    "taste": [["sour", None, "bitter" * 50]],
    "shop": [[0, None], [8, 9, 400_000_000]],
}


def people(rows: int = ROWS) -> pa.Table:
    """A table with the columns of `JOB` and `KEEP`, and three that no job names."""
    index = np.arange(rows)
    return pa.table(
        {
            "diary": pa.array([f"day {i}" for i in index]),
            "state": pa.array([f"state {i % 5}" for i in index]),
            "visits": pa.array(index * 7 % 30),
            "income": pa.array(index * 31 % 150 + 0.5),
            "smoker": pa.array(index % 3 == 0),
            "region": pa.array([("north", "east", "south")[i % 3] for i in index]),
            "salary": pa.array(index * 1001),
            "town": pa.array(index % 40),
            "taste": pa.array([("sweet", "sour")[i % 2] for i in index]),
            "shop": pa.array(index % 9),
            "note": pa.array([f'a "quoted", note {i}' for i in index]),
            "visited": pa.array(index.astype("datetime64[D]")),
        }
    )


def with_cell(table: pa.Table, row: int, name: str, value: object) -> pa.Table:
    """The neighbour that has another value in one cell."""
    column = table[name].combine_chunks()
    cell = pa.array([value], column.type)
    changed = pa.concat_arrays([column.slice(0, row), cell, column.slice(row + 1)])
    return table.set_column(table.column_names.index(name), table.schema.field(name), changed)


class Shapes:
    """Runs the job on tables of one format pair, with parts so small that a short table has many."""

    def __init__(self, folder: Path, source: str, target: str, monkeypatch: Any) -> None:
        self.source, self.target = folder / f"in.{source}", folder / f"out/private.{target}"
        self._job = folder / "job.toml"
        privacy = {"max_epsilon": 7.0}
        self._job.write_text(job_text(self.source, self.target, JOB, keep=KEEP, privacy=privacy), encoding="utf-8")
        monkeypatch.setattr(os, "fsync", lambda _descriptor: None)  # the disk is not the subject
        monkeypatch.setattr(csv_input, "BLOCK_BYTES", BLOCK_BYTES)
        monkeypatch.setattr(writers, "ROW_GROUP_ROWS", OUTPUT_ROWS)
        monkeypatch.setattr(writers, "BATCH_ROWS", OUTPUT_ROWS, raising=False)

    def run(self, table: pa.Table, piece_rows: int | None = None, input_rows: int = 70) -> dict[str, bytes]:
        """Privatise a table; return every file that came of it."""
        write_table(table, self.source, row_group_rows=input_rows)
        privatize(make_plan(load_job(self._job), overwrite=True), piece_rows=piece_rows)
        return {path.name: path.read_bytes() for path in sorted(self.target.parent.iterdir())}

    def shape(self) -> Any:
        """All of the output but values of cells."""
        match self.target.suffix:
            case ".parquet":
                return parquet_shape(self.target)
            case ".arrow":
                return arrow_shape(self.target)
            case _:
                return csv_shape(self.target)

    def rows(self) -> pa.Table:
        """The output."""
        return read_table(self.target)


def parquet_shape(path: Path) -> Any:
    """Footer and schema; sizes and statistics are of values."""
    metadata = pq.read_metadata(path)
    chunks = []
    for group in range(metadata.num_row_groups):
        whole = metadata.row_group(group)
        for place in range(whole.num_columns):
            chunk = whole.column(place)
            said = (chunk.path_in_schema, chunk.encodings, chunk.compression, chunk.has_dictionary_page, chunk.is_stats_set)
            chunks.append((group, whole.num_rows, chunk.num_values, *map(str, said)))
    schema = [str(metadata.schema.column(place)) for place in range(metadata.num_columns)]
    return schema, metadata.metadata, metadata.created_by, metadata.num_rows, chunks


def arrow_shape(path: Path) -> Any:
    """Schema, record batches, and which buffers each has: their lengths, where they are not those of text."""
    reader = ipc.open_file(path)
    batches = []
    for number in range(reader.num_record_batches):
        batch = reader.get_batch(number)
        texts = [pa.types.is_string(field.type) for field in batch.schema]
        sizes = [
            [None if buffer is None else buffer.size for buffer in (column.buffers()[:2] if text else column.buffers())]
            for column, text in zip(batch.columns, texts, strict=True)
        ]
        batches.append((len(batch), sizes))
    return reader.schema.serialize().to_pybytes(), reader.schema.metadata, batches


def csv_shape(path: Path) -> Any:
    """Header, sidecar, and the number of cells of each row."""
    said = json.loads(path.with_name(f"{path.name}.dpcore.json").read_text(encoding="utf-8"))
    said.pop("table", None)  # its digest: of the values that are written
    table = arrow_csv.read_csv(path)
    return path.read_bytes().partition(b"\n")[0], said, len(table), table.column_names
