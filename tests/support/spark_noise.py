"""Tables, jobs and naive code for the tests of local privacy on Spark."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 4_000
HEX = bytes(range(32)).hex()
COLUMNS = [
    {"name": "age", "mechanism": "laplace", "epsilon": 1.0, "lower": 0.0, "upper": 100.0, "missing": 50.0},
    {"name": "smoker", "mechanism": "binary", "epsilon": 1.0, "missing": False},
]


def table(rows: int = ROWS) -> pa.Table:
    places = np.arange(rows)
    return pa.table({"id": places, "age": (places % 97).astype(np.float64), "smoker": places % 3 == 0})


def write_input(folder: Path, rows: int = ROWS, files: int = 4) -> str:
    """A folder with some files; the rows of each follow those of the file before."""
    folder.mkdir(parents=True)
    whole = table(rows)
    for place in range(files):
        start, stop = rows * place // files, rows * (place + 1) // files
        pq.write_table(whole.slice(start, stop - start), folder / f"in-{place}.parquet")
    return str(folder)


def job(*, keyed: bool = True, **sections) -> dict:
    """Two columns with noise, and the number of each row kept."""
    made = {"version": 1, "keep": ["id"], "privacy": {"max_epsilon": 2.0}, "column": COLUMNS}
    return made | ({"testing": {"key_hex": HEX}} if keyed else {}) | sections


def rows_of(folder: Path | str) -> pa.Table:
    """The rows of an output by their number, which says whether each is there once."""
    files = sorted(Path(folder).glob("*.parquet"))
    return pa.concat_tables([pq.read_table(file) for file in files]).sort_by("id")


def is_complete(found: pa.Table, rows: int = ROWS) -> bool:
    """Whether every record was published once."""
    return found["id"].to_pylist() == list(range(rows))


def noise_of(found: pa.Table) -> np.ndarray:
    """The noise of each age."""
    return found["age"].to_numpy() - (found["id"].to_numpy() % 97)


def naive(frame):
    """A frame with noise that is drawn anew whenever Spark computes it: what a user writes who does not know what may be repeated."""

    def draw(batches):
        from dpcore import noise

        for batch in batches:
            ages = noise.laplace(batch.column("age").to_numpy(), 100.0)
            yield pa.RecordBatch.from_arrays([batch.column("id"), pa.array(ages)], names=["id", "age"])

    return frame.select("id", "age").mapInArrow(draw, "id bigint, age double")


def failing_once(frame, folder: Path, *, after: int = 1_000_000_000):
    """The same rows; the first attempt at each of two partitions fails behind its rows, or behind so many batches."""
    marks = str(folder)
    folder.mkdir(parents=True, exist_ok=True)

    def fail(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        number = 0
        for number, batch in enumerate(batches):
            if number >= after:
                break
            yield batch
        if context.attemptNumber() == 0 and context.partitionId() in (0, 1):
            Path(marks, f"failed-{context.partitionId()}-{secrets.token_hex(4)}").touch()
            raise RuntimeError("a fault on purpose")

    return frame.mapInArrow(fail, frame.schema)


def failures(folder: Path) -> int:
    """How many attempts have failed on purpose."""
    return len(list(folder.glob("failed-*")))


def metadata_of(schema: pa.Schema) -> dict:
    """All of dpcore's metadata, read."""
    whole = {field.name: json.loads(field.metadata[b"dpcore"]) for field in schema if field.metadata}
    return whole | {"": json.loads(schema.metadata[b"dpcore"])}
