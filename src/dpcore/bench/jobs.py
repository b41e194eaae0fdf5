"""Jobs on files beside plain pyarrow, which reads and writes the same files without privacy."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from dpcore.bench.benchmark import Benchmark, Plan, Prepare, Side, Work

PIECE = 1000
"""Rows of a small row group."""
QUERIES: list[dict[str, Any]] = [
    {"name": "rows", "kind": "count"},
    {"name": "ages", "kind": "histogram", "column": "age", "edges": [18, 30, 40, 50, 60, 70, 100]},
    {"name": "visits", "kind": "sum", "column": "visits", "lower": 0, "upper": 50},
    {"name": "mean cost", "kind": "mean", "column": "cost", "lower": 0, "upper": 1000},
    {"name": "quartiles", "kind": "quantile", "column": "cost", "q": [0.25, 0.5, 0.75], "grid": {"start": 0, "stop": 1000, "step": 5}},
]
"""Questions of the timed release."""


class Files:
    """The files of the timed jobs, in a temporary folder, made when they are asked for. They are removed with the object.

    Parameters
    ----------
    rows : int
        Rows of the table.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows

    @cached_property
    def folder(self) -> Path:
        """Where they are."""
        folder = tempfile.TemporaryDirectory(prefix="dpcore-bench-")
        weakref.finalize(self, folder.cleanup)
        return Path(folder.name)

    @cached_property
    def table(self) -> Path:
        """The table, in large row groups."""
        from dpcore.bench.rows import make_rows

        path = self.folder / "rows.parquet"
        make_rows(self.rows, path)
        return path

    @cached_property
    def pieces(self) -> Path:
        """The first tenth of the table, in row groups of `PIECE` rows."""
        from dpcore.bench.rows import make_rows

        path = self.folder / "pieces.parquet"
        make_rows(max(1, self.rows // 10), path, row_group_rows=PIECE)
        return path

    @cached_property
    def tenth(self) -> Path:
        """The first tenth of the table, in large row groups."""
        from dpcore.bench.rows import make_rows

        path = self.folder / "tenth.parquet"
        make_rows(max(1, self.rows // 10), path)
        return path

    @cached_property
    def private(self) -> Path:
        """The privatised table."""
        self.privatizing(self.table)()
        return self.folder / "private.parquet"

    def privatizing(self, source: Path, name: str = "private") -> Work:
        """Return the work of `dpcore privatize`."""
        from dpcore.batch import load_job, make_plan, privatize
        from dpcore.bench.rows import JOB

        job = self.folder / f"{name}.toml"
        job.write_text(JOB.format(source=source.as_posix(), target=(self.folder / f"{name}.parquet").as_posix()), encoding="utf-8")
        plan = make_plan(load_job(job), overwrite=True)
        return lambda: privatize(plan)

    def releasing(self) -> Work:
        """Return the work of `dpcore release`, with five queries."""
        from dpcore.batch import make_release_plan, parse_release_job
        from dpcore.batch.release import run

        job = {
            "version": 1,
            "input": {"path": str(self.table)},
            "output": {"path": str(self.folder / "answers.json")},
            "privacy": {"max_epsilon": float(len(QUERIES))},
            "query": [query | {"epsilon": 1.0} for query in QUERIES],
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

    def copying(self, *, in_our_encodings: bool) -> Work:
        """Return the work of reading and writing the privatised table with pyarrow, in its default encodings or in those of a job."""
        import pyarrow.parquet as pq

        from dpcore.batch.tables.writers import encodings_of

        private, target = self.private, self.folder / "copy.parquet"
        repeating, encodings = encodings_of(pq.read_schema(private))
        options: dict[str, Any] = {"use_dictionary": repeating or False, "column_encoding": encodings or None} if in_our_encodings else {}

        def work() -> None:
            pq.write_table(pq.read_table(private), target, compression="zstd", **options)

        return work


def _checked(files: Files) -> Callable[[Any, Any], None]:
    def check(_inputs: Any, _result: Any) -> None:
        import pyarrow.parquet as pq

        if pq.ParquetFile(files.private).metadata.num_rows != files.rows:
            raise AssertionError("privatize: rows are missing")

    return check


def check_release(files: Files, result: Any) -> None:
    """Raise if the count of a release is more than 100 off; noise of scale 2 is so with probability below 10^-20."""
    counted = next(query["value"] for query in result["queries"] if query["name"] == "rows")
    if abs(counted - files.rows) >= 100:
        raise AssertionError("release: the number of rows is wrong")


def table_benchmarks(plan: Plan) -> Iterator[Benchmark]:
    """Jobs on a table of ten times as many rows as large arrays have values, and four columns.

    Parameters
    ----------
    plan : Plan
        How much is measured.
    """
    files = Files(10 * plan.size)

    def row(name: str, size: int, ours: Prepare, *sides: Side, check: Callable[[Any, Any], None] | None = None) -> Benchmark:
        return Benchmark(
            group="tables", name=name, size=size, unit="row", threads=plan.cores, inputs=lambda: files, ours=ours, check=check, sides=sides,
            character="whole", weight=10.0, package="pyarrow",
        )  # fmt: skip

    read = Side(name="pyarrow reads the table", kind="bound", package="pyarrow", prepare=lambda made: made.reading(lambda: made.table))
    copied = Side(
        name="pyarrow reads and writes the private table", kind="bound", package="pyarrow", judges=True,
        prepare=lambda made: made.copying(in_our_encodings=False),
    )  # fmt: skip
    alike = Side(
        name="the same in dpcore's encodings", kind="bound", package="pyarrow", prepare=lambda made: made.copying(in_our_encodings=True)
    )
    yield row(
        "dpcore privatize, 4 columns", files.rows, lambda made: made.privatizing(made.table), copied, alike, read, check=_checked(files)
    )
    columns = ["visits", "age", "cost"]
    named = Side(
        name="pyarrow reads the columns", kind="bound", package="pyarrow", judges=True,
        prepare=lambda made: made.reading(lambda: made.table, columns),
    )  # fmt: skip
    yield row(
        "dpcore release, 5 queries", files.rows, lambda made: made.releasing(), named,
        check=check_release,
    )  # fmt: skip
    private = Side(
        name="pyarrow reads the columns", kind="bound", package="pyarrow", judges=True,
        prepare=lambda made: made.reading(lambda: made.private),
    )  # fmt: skip
    yield row("dpcore estimate, 4 columns", files.rows, lambda made: made.estimating(), private)
    whole = Side(name="itself on one file", kind="itself", judges=True, prepare=lambda made: made.privatizing(made.tenth, "of-tenth"))
    yield row(
        f"dpcore privatize, row groups of {PIECE:,}", max(1, files.rows // 10),
        lambda made: made.privatizing(made.pieces, "of-pieces"), whole,
    )  # fmt: skip
