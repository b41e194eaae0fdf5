"""Frames of every library with the rows of one table, and the same questions asked of a `PrivateTable` and in a job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from dpcore import PrivateTable
from dpcore.batch import make_release_plan, parse_release_job, release
from dpcore.query.kinds import KINDS
from dpcore.testing import KeyedRandom
from support.jobs import KEY

METHODS = {word: method.name for kind in KINDS.values() for word, method in zip(kind.names, kind.methods, strict=False)}
"""The method of each kind of query that has one."""


class Stream:
    """A table of a library that nobody knows."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def pandas_objects(table: pa.Table) -> Any:
    """A frame whose text is of Python objects, and whose first column is a level of the index."""
    frame = table.to_pandas().set_index(table.column_names[0])
    for name in frame.columns:
        if str(frame[name].dtype) in {"str", "string", "object"}:
            frame[name] = frame[name].astype(object)
    return frame


def pandas_nullable(table: pa.Table) -> Any:
    """A frame with nullable dtypes and categories."""
    frame = table.to_pandas().convert_dtypes()
    for name, kind in zip(table.column_names, table.schema.types, strict=True):
        if pa.types.is_string(kind):
            frame[name] = frame[name].astype("category")
    return frame


def polars(table: pa.Table) -> Any:
    return pytest.importorskip("polars").from_arrow(table)


def polars_categories(table: pa.Table) -> Any:
    pl = pytest.importorskip("polars")
    return pl.from_arrow(table).with_columns(pl.col(pl.String).cast(pl.Categorical))


def duckdb(table: pa.Table) -> Any:
    return pytest.importorskip("duckdb").from_arrow(table)


def cut(table: pa.Table) -> pa.Table:
    """The same table in chunks."""
    size = max(len(table) // 7, 1)
    return pa.concat_tables([table.slice(start, size) for start in range(0, max(len(table), 1), size)])


FRAMES = {
    "pandas": lambda table: table.to_pandas(),
    "pandas objects": pandas_objects,
    "pandas nullable": pandas_nullable,
    "polars": polars,
    "polars lazy": lambda table: polars(table).lazy(),
    "polars categories": polars_categories,
    "table": lambda table: table,
    "chunks": cut,
    "batch": lambda table: table.combine_chunks().to_batches()[0] if len(table) else pa.RecordBatch.from_pylist([], table.schema),
    "dataset": pads.dataset,
    "duckdb": duckdb,
    "stream": Stream,
}


def asked(table: Any, query: Mapping[str, Any]) -> Any:
    """Ask a `[[query]]` of a table."""
    keys = {key: value for key, value in query.items() if key not in {"kind", "group_by", "groups", "where"}}
    table = table.where(query["where"]) if "where" in query else table
    if "group_by" in query:
        names = query["group_by"]
        table = table.group_by(*([names] if isinstance(names, str) else names), groups=query["groups"])
    return getattr(table, METHODS[query["kind"]])(**keys)


def answers_of_job(
    folder: Path, table: pa.Table, queries: list[dict[str, Any]], privacy: Mapping[str, Any], **more: Any
) -> list[dict[str, Any]]:
    """The answers of a keyed job on a Parquet file with the rows."""
    source = folder / "table.parquet"
    pq.write_table(table, source)
    document = {
        "version": 1,
        "input": {"path": str(source)},
        "output": {"path": str(folder / "answers.json")},
        "privacy": {"max_epsilon": 1e6, "max_delta": 0.5, **privacy},
        "testing": {"key_hex": KEY.hex()},
        "query": queries,
        **more,
    }
    release(make_release_plan(parse_release_job(document), overwrite=True))
    return json.loads((folder / "answers.json").read_text())["queries"]


def keyed(frame: object, **settings: Any) -> PrivateTable:
    """A table with the key of `answers_of_job`."""
    return PrivateTable(frame, rng=KeyedRandom(KEY), **settings)


def everything(error):
    """The text of an error and of all errors that it carries."""
    found = []
    while error is not None:
        found += [str(error), repr(error)]
        error = error.__cause__ or error.__context__
    return " ".join(found)
