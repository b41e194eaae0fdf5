"""Jobs that read a table of any bytes: what the targets of CSV, Arrow and Parquet files have in common."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from dpcore.batch import estimate, make_plan, make_release_plan, parse_job, parse_release_job, privatize, release
from dpcore.tables.discovery import discover
from dpcore.tables.pieces import Cut
from dpcore.tables.sql.arrow_values import database_type
from fuzz.target import MARK, NUMBER_MARK, FoundError, Target

if TYPE_CHECKING:
    from dpcore.tables.inputs import Inputs
    from dpcore.tables.pieces import FileInfo

FEW = {"mechanism": "kary", "epsilon": 1.0, "categories": ["a", "b", "c"], "missing": "a", "unknown": "c"}
NUMBERS = {"mechanism": "discrete_laplace", "epsilon": 1.0, "lower": 0, "upper": 20, "missing": 0}
LOCAL: dict[str, dict[str, Any]] = {
    "visits": NUMBERS,
    "income": {"mechanism": "laplace", "epsilon": 1.0, "lower": 0.0, "upper": 50_000.0, "missing": 0.0},
    "label": FEW,
    "text": {**FEW, "mechanism": "unary"},
    "flag": {"mechanism": "binary", "epsilon": 1.0, "missing": True, "unknown": False},
    "code": {"mechanism": "hadamard", "epsilon": 1.0, "k": 9, "missing": 0, "unknown": 0},
}
QUERIES: list[dict[str, Any]] = [
    {"name": "sum", "kind": "sum", "column": "visits", "lower": 0, "upper": 9, "missing": 0},
    {"name": "labels", "kind": "histogram", "column": "label", "categories": ["a", "b"], "missing": "a", "unknown": "b"},
    {"name": "quantile", "kind": "quantile", "column": "income", "q": 0.5, "grid": [0, 3, 6, 9], "missing": 0},
    {"name": "texts", "kind": "top_s", "column": "text", "s": 1, "candidates": ["a", "b"]},
    {"name": "codes", "kind": "count_distinct", "column": "code", "k": 9},
    {"name": "flags", "kind": "rate", "column": "flag", "categories": [True], "missing": "skip"},
]
MOST_CONDITIONS = 6


def local_job(source: str, target: str, columns: list[str], keep: list[str]) -> dict[str, Any]:
    """A job that privatises some columns and keeps others."""
    found = [{"name": name, **LOCAL[name]} for name in columns]
    return {
        "version": 1, "keep": keep, "input": {"path": source}, "output": {"path": target, "compression": "none"},
        "privacy": {"max_epsilon": 9.0},
        "column": found,
    }  # fmt: skip


def release_job(source: str, info: FileInfo, *, unit: str | None = None) -> dict[str, Any]:
    """A job with the queries, conditions, derived columns and groups that the columns of a file allow."""
    names, types = [name for name in info.names if info.names.count(name) == 1], info.types
    queries = [query for query in QUERIES if query["column"] in names]
    usable = [name for name in names if database_type(None if types is None else types[name]) is not None and '"' not in name and name]
    queries += [{"name": f"with {name}", "kind": "count", "where": f'"{name}" IS NOT NULL'} for name in usable[:MOST_CONDITIONS]]
    derive = []
    if "visits" in usable:
        derive.append({"name": "half", "sql": "CAST(visits AS DOUBLE) / 2"})
        grouped = {"group_by": "text", "groups": ["a"]} if "text" in names else {}
        queries.append({"name": "half", "kind": "mean", "column": "half", "lower": 0, "upper": 9, "missing": 0, **grouped})
    privacy: dict[str, Any] = {"max_epsilon": 99.0} if unit is None else {"max_epsilon": 99.0, "unit": unit, "max_rows_per_unit": 2}
    return {
        "version": 1, "input": {"path": source}, "output": {"path": "out.json"}, "privacy": privacy, "derive": derive,
        "query": [{"epsilon": 1.0, **query, **_of_unit(query, unit)} for query in queries],
    }  # fmt: skip


def _of_unit(query: dict[str, Any], unit: str | None) -> dict[str, Any]:
    return {"max_values_per_unit": 2} if unit is not None and query["kind"] == "count_distinct" else {}


def table(rows: int = 12) -> pa.Table:
    """Text, labels, lists, numbers and nulls: whatever has offsets, indices and bitmaps."""
    index = range(rows)
    words = [("a", "b", "c", MARK)[i % 4] for i in index]
    return pa.table(
        {
            "visits": pa.array([None if i == 3 else NUMBER_MARK if i == 7 else i % 9 for i in index]),
            "income": pa.array([None if i == 4 else i / 4 for i in index]),
            "label": pa.array(words).dictionary_encode(),
            "text": pa.array([None if i == 2 else word for i, word in enumerate(words)]),
            "flag": pa.array([i % 3 == 0 for i in index]),
            "code": pa.array([i % 9 for i in index], pa.int16()),
            "note": pa.array([f'"{i}", {MARK}' for i in index]),
        }
    )


class Files(Target):
    """A file of a format, read as jobs read it."""

    ending: ClassVar[str]
    megabytes: ClassVar[int] = 300

    def run(self, data: bytes) -> None:
        source = self.folder / f"in.{self.ending}"
        source.write_bytes(data)
        inputs = discover(source.name)
        info = inputs.inspect(inputs.paths[0])
        self.look(inputs, data)
        self._jobs(source.name, info, zlib.crc32(data) % 4)

    def look(self, inputs: Inputs, data: bytes) -> None:
        """Read the file itself, and compare what there is to compare."""
        raise NotImplementedError

    def is_watched(self, path: Path) -> bool:
        return path.name != f"in.{self.ending}"

    def declares(self, mark: str, data: bytes) -> bool:
        """Names of columns are public, and a mutation can make one of a value."""
        return mark in self.public

    @property
    def public(self) -> str:
        """Names of the columns of the input, as far as it has some."""
        try:
            return " ".join(discover(f"in.{self.ending}").inspect(Path(f"in.{self.ending}")).names)
        except Exception:
            return ""

    def _jobs(self, source: str, info: FileInfo, chosen: int) -> None:
        """One of the jobs, by the bytes of the input."""
        if chosen == 0:
            self.is_reading = True
            release(make_release_plan(parse_release_job(release_job(source, info))), threads=1)
            return
        if chosen == 1 and info.names:
            self.is_reading = True
            release(
                make_release_plan(parse_release_job(release_job(source, info, unit="note" if "note" in info.names else info.names[0]))),
                threads=1,
            )
            return
        names = list(info.names)
        columns = [name for name in LOCAL if name in names]
        keep = [name for name in dict.fromkeys(names) if name not in columns and names.count(name) == 1] if self.ending != "csv" else []
        target = f"out.{self.ending}"
        done = privatize(make_plan(parse_job(local_job(source, target, columns, keep[:8]))), threads=1, piece_rows=5)
        if done.rows:
            found = estimate(target, threads=1)
            if found.rows != done.rows:
                raise FoundError(f"{done.rows} rows were written, and {found.rows} are read")


def pieces(inputs: Inputs, types: dict[str, pa.DataType], rows: int = 5) -> list[pa.RecordBatch]:
    """The rows of the one file of an input."""
    return [piece.batch for piece in inputs.pieces(inputs.paths[0], types, Cut(rows, use_threads=False))]
