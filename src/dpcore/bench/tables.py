"""The files of the timed jobs, and the work on them: of dpcore, of pyarrow, and of DuckDB."""

from __future__ import annotations

import json
import tempfile
import weakref
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dpcore.bench.benchmark import Work

PIECE = 1000
"""Rows of a small row group, and of a small file."""
MANY_FILES = 2000
"""Files of a folder, but for runs that only try whether everything works."""
WIDE = 5000
"""Columns of a wide table, but for runs that only try whether everything works."""
MOST_WIDE_ROWS = 10_000
ROWS_PER_UNIT = 3
"""Rows of each unit of the table of units."""
REGIONS = 16
QUERIES: list[dict[str, Any]] = [
    {"name": "rows", "kind": "count"},
    {"name": "ages", "kind": "histogram", "column": "age", "edges": [18, 30, 40, 50, 60, 70, 100]},
    {"name": "visits", "kind": "sum", "column": "visits", "lower": 0, "upper": 50},
    {"name": "mean cost", "kind": "mean", "column": "cost", "lower": 0, "upper": 1000},
    {"name": "quartiles", "kind": "quantile", "column": "cost", "q": [0.25, 0.5, 0.75], "grid": {"start": 0, "stop": 1000, "step": 5}},
]
"""Questions of the timed release."""
BY_REGION = {"name": "rows of regions", "kind": "count", "group_by": "region", "groups": list(range(REGIONS))}
GROUPED = "select person, region, count(*) as n from units group by person, region"
COUNTED = "select person, count(*) as n from units group by person"
"""DuckDB's own aggregation of the units, with and without groups."""
EARNING, FEW_VISITS, AGES = 10_000, 10, (18, 90)
BY_VISITS_AND_AGE: dict[str, Any] = {
    "name": "cost by visits and age",
    "kind": "mean",
    "column": "cost",
    "lower": 0,
    "upper": 1000,
    "missing": 0,
    "group_by": ["visits", "age"],
    "groups": {"visits": {"k": FEW_VISITS}, "age": {"values": list(range(*AGES))}},
}
"""A mean by two columns, of rows that a condition on a third one chooses."""
BY_VISITS_AND_AGE_IN_SQL = (
    f"select visits, age, avg(cost), count(*) from '{{source}}' where income > {EARNING} and visits < {FEW_VISITS} group by visits, age"
)
"""The same without noise."""
AGGREGATING_MEMORY, AGGREGATING_THREADS = "256MB", 2
"""Memory and threads of DuckDB: about those of a job with units."""


class Files:
    """The files of the timed jobs, in a temporary folder, made when they are asked for. They are removed with the object.

    Parameters
    ----------
    rows : int
        Rows of the table.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.few = max(1, rows // 10)
        self.files = max(2, min(MANY_FILES, rows // PIECE))
        self.columns = WIDE if rows >= 100 * WIDE else 10
        self.wide_rows = max(1, min(MOST_WIDE_ROWS, 4 * rows // self.columns))

    @cached_property
    def folder(self) -> Path:
        """Where they are."""
        folder = tempfile.TemporaryDirectory(prefix="dpcore-bench-")
        weakref.finalize(self, folder.cleanup)
        return Path(folder.name)

    @cached_property
    def table(self) -> Path:
        """The table, in large row groups."""
        return self._rows("rows", self.rows)

    @cached_property
    def pieces(self) -> Path:
        """The first tenth of the table, in row groups of `PIECE` rows."""
        return self._rows("pieces", self.few, row_group_rows=PIECE)

    @cached_property
    def tenth(self) -> Path:
        """The first tenth of the table, in large row groups."""
        return self._rows("tenth", self.few)

    @cached_property
    def folder_of_files(self) -> Path:
        """The first rows of the table, in many files of `PIECE` rows, with units of `ROWS_PER_UNIT` rows each."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        from dpcore.bench.rows import row_group

        folder = self.folder / "many"
        folder.mkdir()
        for number in range(self.files):
            start, stop = number * PIECE, (number + 1) * PIECE
            rows = row_group(start, stop).append_column("person", pa.array(np.arange(start, stop) // ROWS_PER_UNIT))
            pq.write_table(rows, folder / f"{number:05d}.parquet", compression="zstd")
        return folder

    def _rows(self, name: str, rows: int, **more: int) -> Path:
        from dpcore.bench.rows import make_rows

        path = self.folder / f"{name}.parquet"
        make_rows(rows, path, **more)
        return path

    @cached_property
    def wide(self) -> Path:
        """A table of many columns of numbers between 0 and 1."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path, rng = self.folder / "wide.parquet", np.random.default_rng(1)
        pq.write_table(pa.table({name: rng.random(self.wide_rows) for name in self._names()}), path, compression="zstd")
        return path

    @cached_property
    def units(self) -> Path:
        """A table of units with `ROWS_PER_UNIT` rows each, far apart, in as many regions."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path, row = self.folder / "units.parquet", np.arange(self.rows)
        person = row % max(1, self.rows // ROWS_PER_UNIT)
        region = ((person + row // max(1, self.rows // ROWS_PER_UNIT)) % REGIONS).astype(np.int32)
        pq.write_table(pa.table({"person": person * 7919 % (1 << 40), "region": region}), path, compression="zstd")
        return path

    @cached_property
    def private(self) -> Path:
        """The privatised table."""
        self.privatizing(self.table)()
        return self.folder / "private.parquet"

    @cached_property
    def private_wide(self) -> Path:
        """The privatised wide table."""
        self.privatizing_wide()()
        return self.folder / "private-wide.parquet"

    def privatizing(self, source: Path, name: str = "private", shards: int | str | None = None) -> Work:
        """Return the work of `dpcore privatize`."""
        from dpcore.bench.rows import JOB

        target = (self.folder / f"{name}.parquet").as_posix()
        text = JOB.format(source=source.as_posix(), target=target)
        if shards is not None:
            line = f'path = "{target}"\n'
            text = text.replace(line, line + f"shards = {json.dumps(shards)}\n")
        return self._privatizing(text, name)

    def privatizing_wide(self) -> Work:
        """Return the work of `dpcore privatize` on the wide table."""
        target = (self.folder / "private-wide.parquet").as_posix()
        places = f'[input]\npath = "{self.wide.as_posix()}"\n[output]\npath = "{target}"\n'
        head = f"version = 1\n{places}[privacy]\nmax_epsilon = {self.columns}.0\n"
        column = '[[column]]\nname = "{}"\nmechanism = "laplace"\nepsilon = 1.0\nlower = 0\nupper = 1\n'
        return self._privatizing(head + "".join(map(column.format, self._names())), "private-wide")

    def _privatizing(self, text: str, name: str) -> Work:
        from dpcore.batch import load_job, make_plan, privatize

        job = self.folder / f"{name}.toml"
        job.write_text(text, encoding="utf-8")
        plan = make_plan(load_job(job), overwrite=True)
        return lambda: privatize(plan)

    def releasing(self, source: Path | None = None) -> Work:
        """Return the work of `dpcore release`, with five queries."""
        return self._releasing(self.table if source is None else source, QUERIES, {})

    def releasing_files_of_units(self) -> Work:
        """Return the work of a release from many files that protects units."""
        return self._releasing(self.folder_of_files, QUERIES, {"unit": "person", "max_rows_per_unit": ROWS_PER_UNIT})

    def reading_files(self, columns: list[str]) -> Work:
        """Return the work of pyarrow that reads columns of many files, as one data set."""
        import pyarrow.dataset as ds

        folder = self.folder_of_files
        return lambda: ds.dataset(folder, format="parquet").to_table(columns=columns)

    def releasing_units(self, limit: int, *, grouped: bool) -> Work:
        """Return the work of a release of a count in which so many rows, or groups, of each unit take part."""
        privacy = {"unit": "person", "max_rows_per_unit": ROWS_PER_UNIT if grouped else limit}
        query = BY_REGION if grouped else QUERIES[0]
        return self._releasing(self.units, [query], privacy | ({"max_groups_per_unit": limit} if grouped else {}))

    def releasing_cells(self) -> Work:
        """Return the work of a release of a mean by two columns, after a condition on a third."""
        return self._releasing(self.table, [BY_VISITS_AND_AGE], {}, where=f"income > {EARNING}")

    def averaging_cells(self) -> Callable[[], list[tuple[Any, ...]]]:
        """Return the work of DuckDB that computes the same without noise, with as many threads as a job has."""
        import duckdb

        from dpcore._backend import default_threads

        sql = BY_VISITS_AND_AGE_IN_SQL.format(source=self.table.as_posix())
        threads = min(default_threads(), AGGREGATING_THREADS)

        def work() -> list[tuple[Any, ...]]:
            with duckdb.connect(":memory:", config={"threads": threads}) as database:
                return database.execute(sql).fetchall()

        return work

    def _releasing(self, source: Path, queries: Iterable[dict[str, Any]], privacy: dict[str, Any], **more: Any) -> Work:
        from dpcore.batch import make_release_plan, parse_release_job
        from dpcore.query.run import run

        asked = [query | {"epsilon": 1.0} for query in queries]
        job = {
            "version": 1,
            "input": {"path": str(source)},
            "output": {"path": str(self.folder / "answers.json")},
            "privacy": {"max_epsilon": float(len(asked)), **privacy},
            "query": asked,
            **more,
        }
        plan = make_release_plan(parse_release_job(job), overwrite=True)
        return lambda: run(plan)

    def estimating(self) -> Work:
        """Return the work of `dpcore estimate`."""
        from dpcore.batch import estimate

        private = self.private
        return lambda: estimate(private)

    def reading(self, path: Callable[[], Path], columns: list[str] | None = None) -> Work:
        """Return the work of reading a file with pyarrow."""
        import pyarrow.parquet as pq

        source = path()
        return lambda: pq.read_table(source, columns=columns)

    def copying(self, path: Callable[[], Path], *, in_our_encodings: bool) -> Work:
        """Return the work of reading and writing a privatised table with pyarrow, in its default encodings or in those of a job."""
        import pyarrow.parquet as pq

        from dpcore.tables.output.writers import encodings_of

        private, target = path(), self.folder / "copy.parquet"
        repeating, encodings = encodings_of(pq.read_schema(private))
        options: dict[str, Any] = {"use_dictionary": repeating or False, "column_encoding": encodings or None} if in_our_encodings else {}

        def work() -> None:
            pq.write_table(pq.read_table(private), target, compression="zstd", **options)

        return work

    def aggregating(self, query: str) -> Work:
        """Return the work of DuckDB that aggregates the units, with about the memory and the threads of a job, and its place to spill."""
        import duckdb

        from dpcore._backend import default_threads

        settings: dict[str, Any] = {
            "memory_limit": AGGREGATING_MEMORY, "temp_directory": str(self.folder / "spill"),
            "threads": min(default_threads(), AGGREGATING_THREADS), "preserve_insertion_order": False,
        }  # fmt: skip
        source = self.units.as_posix()

        def work() -> object:
            with duckdb.connect(":memory:", config=settings) as database:
                database.execute(f"create view units as select * from read_parquet('{source}')")
                return database.execute(f"select count(*), sum(n) from ({query})").fetchall()

        return work

    def _names(self) -> list[str]:
        return [f"c{i}" for i in range(self.columns)]
