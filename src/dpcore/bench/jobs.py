"""Jobs on files beside plain pyarrow and DuckDB, which read, write and aggregate the same files without privacy; and tables in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from dpcore.bench.benchmark import Benchmark, Plan, Prepare, Side, Work
from dpcore.bench.frames import (
    answering,
    asking,
    averaged_by_polars,
    averaging_groups,
    by_diffprivlib,
    check_answers,
    check_groups,
    frame_of,
)
from dpcore.bench.tables import COUNTED, GROUPED, PIECE, ROWS_PER_UNIT, Files

Row = Callable[..., Benchmark]
COPIED = "pyarrow reads and writes the private table"
READ = "pyarrow reads the columns"
COLUMNS = ["visits", "age", "cost"]
"""Those of the five queries."""
BY_POLARS = "polars averages the groups"
ROWS_OF_GROUPS, MANY_GROUPS = 10**6, (10**5, 10**6)
"""Rows of a frame, and groups of it, but for runs that only try whether everything works."""
ONE_FILE = "itself on one file"
AGGREGATED = "DuckDB aggregates the units"
WITHOUT_GROUPS = "itself without groups"
SHARDED_ROWS = 1 << 23
"""Rows from which on `shards = "auto"` makes several."""


def _bound(name: str, prepare: Prepare, *, package: str = "pyarrow", judges: bool = True) -> Side:
    return Side(name=name, kind="bound", package=package, prepare=prepare, judges=judges)


def _itself(name: str, prepare: Prepare, *, judges: bool = True) -> Side:
    return Side(name=name, kind="itself", prepare=prepare, judges=judges)


def _check_private(files: Files, _inputs: Any, _result: Any) -> None:
    import pyarrow.parquet as pq

    if pq.ParquetFile(files.private).metadata.num_rows != files.rows:
        raise AssertionError("privatize: rows are missing")


def check_release(files: Files, result: Any) -> None:
    """Raise if the count of a release is more than 100 off; noise of scale 2 is so with probability below 10^-20."""
    check_count(files.rows, files, result)


def check_count(rows: int, _files: Files, result: Any) -> None:
    """Raise if the count of a release is more than 100 off.

    Parameters
    ----------
    rows : int
        What was counted.
    _files : Files
        Not used.
    result : object
        Of the release. Its noise has a scale of at most 3.
    """
    counted = next(query["value"] for query in result["queries"] if query["name"] == "rows")
    if abs(counted - rows) >= 100:
        raise AssertionError("release: the number of rows is wrong")


def check_cells(files: Files, result: Any) -> None:
    """Raise if the mean of some cell is far from DuckDB's.

    Parameters
    ----------
    files : Files
        The table.
    result : object
        Of the release. The noise of a cell's sum has a scale of 4000, and that of its count one of 4.
    """
    (query,) = result["queries"]
    cells = zip(*query["groups"].values(), strict=True)
    found = dict(zip(cells, query["value"], strict=True))
    for visits, age, mean, count in files.averaging_cells()():
        if abs(found[visits, age] - mean) > 40 * (4000 + 4 * mean) / max(1, count - 160):
            raise AssertionError("release: a mean is wrong")


def _whole_tables(files: Files, row: Row) -> Iterator[Benchmark]:
    """The three commands on the table."""
    yield row(
        "dpcore privatize, 4 columns", files.rows, lambda made: made.privatizing(made.table),
        _bound(COPIED, lambda made: made.copying(lambda: made.private, in_our_encodings=False)),
        _bound("the same in dpcore's encodings", lambda made: made.copying(lambda: made.private, in_our_encodings=True), judges=False),
        _bound("pyarrow reads the table", lambda made: made.reading(lambda: made.table), judges=False),
        check=partial(_check_private, files),
    )  # fmt: skip
    yield row(
        "dpcore release, 5 queries", files.rows, lambda made: made.releasing(),
        _bound(READ, lambda made: made.reading(lambda: made.table, COLUMNS)), check=check_release,
    )  # fmt: skip
    yield row(
        "dpcore release, where, a mean by 2 columns", files.rows, lambda made: made.releasing_cells(),
        _bound("DuckDB averages without noise", lambda made: made.averaging_cells(), package="duckdb"), check=check_cells,
    )  # fmt: skip
    yield row(
        "dpcore estimate, 4 columns",
        files.rows,
        lambda made: made.estimating(),
        _bound(READ, lambda made: made.reading(lambda: made.private)),
    )


def _shapes(files: Files, row: Row, cores: int) -> Iterator[Benchmark]:
    """Small pieces, many columns, several files."""
    yield row(
        f"dpcore privatize, row groups of {PIECE:,}", files.few, lambda made: made.privatizing(made.pieces, "of-pieces"),
        _itself(ONE_FILE, lambda made: made.privatizing(made.tenth, "of-tenth")),
    )  # fmt: skip
    yield row(
        f"dpcore release, row groups of {PIECE:,}", files.few, lambda made: made.releasing(made.pieces),
        _itself(ONE_FILE, lambda made: made.releasing(made.tenth)), check=partial(check_count, files.few),
    )  # fmt: skip
    yield row(
        f"dpcore privatize, {files.columns:,} columns", files.wide_rows, lambda made: made.privatizing_wide(),
        _bound(COPIED, lambda made: made.copying(lambda: made.private_wide, in_our_encodings=False)),
    )  # fmt: skip
    yield row(
        f"dpcore release, {files.files:,} files", files.files * PIECE, lambda made: made.releasing(made.folder_of_files),
        _bound(READ, lambda made: made.reading_files(COLUMNS)), check=partial(check_count, files.files * PIECE),
    )  # fmt: skip
    yield row(
        f"dpcore release, {files.files:,} files, units", files.files * PIECE, lambda made: made.releasing_files_of_units(),
        _bound(READ, lambda made: made.reading_files([*COLUMNS, "person"])), check=partial(check_count, files.files * PIECE),
    )  # fmt: skip
    shards: int | str = "auto" if files.rows >= SHARDED_ROWS else max(2, cores)
    yield row(
        f"dpcore privatize, shards = {shards}", files.rows, lambda made: made.privatizing(made.table, "sharded", shards),
        _itself("itself into one file", lambda made: made.privatizing(made.table)),
    )  # fmt: skip


def _units(files: Files, row: Row) -> Iterator[Benchmark]:
    """Releases that protect units of several rows: where none has too many, and where each has."""
    for limit, said in ((ROWS_PER_UNIT, "none over the limit"), (1, "all over the limit")):
        rows = files.rows if limit > 1 else min(files.rows, max(1, files.rows // ROWS_PER_UNIT))
        yield row(
            f"dpcore release, units, {said}", files.rows, partial(_counting, limit, grouped=False),
            _bound(AGGREGATED, lambda made: made.aggregating(COUNTED), package="duckdb"), check=partial(check_count, rows),
        )  # fmt: skip
        yield row(
            f"dpcore release, units with groups, {said}", files.rows, partial(_counting, limit, grouped=True),
            _bound(AGGREGATED + " and groups", lambda made: made.aggregating(GROUPED), package="duckdb"),
            _itself(WITHOUT_GROUPS, partial(_counting, limit, grouped=False), judges=False),
        )  # fmt: skip


def _frames(files: Files, row: Row) -> Iterator[Benchmark]:
    """The questions of the release about tables in memory."""

    def check(library: str, made: Files, result: Any) -> None:
        check_answers(made.few, answering(library, frame_of(library, made.tenth)), result)

    for library, by in (("pyarrow", "duckdb"), ("pandas", "pandas"), ("polars", "polars")):
        checked = partial(check, library)
        peer = Side(
            name="diffprivlib", package="diffprivlib", check=checked, prepare=lambda made: by_diffprivlib(frame_of("pandas", made.tenth))
        )
        yield row(
            f"PrivateTable of {library}, 5 queries", files.few, partial(_asking, library),
            _itself("itself on the Parquet file", lambda made: asking(made.tenth)),
            _bound(f"{by} answers without noise", partial(_answering, library), package=by, judges=False),
            *([peer] if library == "pandas" else []), check=checked, package=library,
        )  # fmt: skip


def _groups(files: Files, row: Row) -> Iterator[Benchmark]:
    """A mean by many groups of a frame."""
    rows = min(files.rows, ROWS_OF_GROUPS)
    for groups in MANY_GROUPS:
        few = max(1, groups * rows // ROWS_OF_GROUPS)
        yield row(
            f"PrivateTable of polars, a mean by {few:,} groups", rows, lambda made: made[1],
            _bound(BY_POLARS, lambda made: averaged_by_polars(made[0]), package="polars"),
            check=lambda made, result: check_groups(made[0], result), package="polars", inputs=partial(averaging_groups, rows, few),
        )  # fmt: skip


def _asking(library: str, made: Files) -> Work:
    return asking(frame_of(library, made.tenth))


def _answering(library: str, made: Files) -> Work:
    return answering(library, frame_of(library, made.tenth))


def _counting(limit: int, files: Files, *, grouped: bool) -> Callable[[], object]:
    return files.releasing_units(limit, grouped=grouped)


def table_benchmarks(plan: Plan) -> Iterator[Benchmark]:
    """Jobs on a table of ten times as many rows as large arrays have values, and four columns; on one with units; on a wide one; on frames.

    Parameters
    ----------
    plan : Plan
        How much is measured.
    """
    files = Files(10 * plan.size)

    def row(name: str, size: int, ours: Prepare, *sides: Side, package: str = "pyarrow", **more: Any) -> Benchmark:
        return Benchmark(
            group="tables", name=name, size=size, unit="row", threads=plan.cores, ours=ours, sides=sides, character="whole", weight=10.0,
            package=package, **{"inputs": lambda: files} | more,
        )  # fmt: skip

    yield from _whole_tables(files, row)
    yield from _shapes(files, row, plan.cores)
    yield from _units(files, row)
    yield from _frames(files, row)
    yield from _groups(files, row)
