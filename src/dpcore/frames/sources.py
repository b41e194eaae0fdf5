"""What a `PrivateTable` reads: it is recognised by its type, and given one interface."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._extras import words_of_old
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.frames.arrow_source import ArrowSource, IbisSource, LazySource, PolarsSource, RelationSource
from dpcore.frames.source import ADAPTERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcore.frames.source import FrameSource

MOST_RECORDS = 1 << 16
"""Rows of a public frame that are read at a time."""

TAKEN = (
    "a DataFrame of pandas or polars, a LazyFrame, a Table, RecordBatch or Dataset of pyarrow, a relation of DuckDB, a frame of Narwhals, "
    "a table of Ibis, an object with __arrow_c_stream__, or the path of a file, a folder or a glob"
)
ONCE = (
    "frame must be read twice, once to choose the rows of each unit, and {what} gives its rows once; to hold them in memory, pass {instead}"
)


def source_of(frame: object, name: str = "frame", connect: object = None) -> FrameSource | str:
    """The source of a frame; of a path, the path. `name` is that of the argument, `connect` what is declared of a frame of Spark Connect.

    Raises
    ------
    ParameterError
        If the frame gives its rows once only, or `connect` is given for a frame of another library.
    ParameterTypeError
        If it is no frame.
    """
    if connect is not None and not type(frame).__module__.startswith("pyspark."):
        raise ParameterError(f"connect is for frames of Spark Connect; {name} is of type {type(frame).__name__}")
    if isinstance(frame, str | os.PathLike):
        return str(Path(os.fsdecode(frame)).expanduser()) if os.fsdecode(frame).startswith("~") else os.fsdecode(frame)
    if isinstance(frame, _class("narwhals", "Series")):
        raise ParameterTypeError(f"{name} must be a table, got a Series of Narwhals; use {name}.to_frame()")
    if isinstance(frame, (_class("narwhals", "DataFrame"), _class("narwhals", "LazyFrame"))):
        given: Any = frame
        return source_of(given.to_native(), name)  # which is read by its own rules: its stream may let one cell decide the type of others
    _check_is_known(frame)
    adapted = (adapter(frame, connect) for adapter in ADAPTERS)
    found = (
        next((each for each in adapted if each is not None), None)
        or _of_pandas(frame)
        or _of_polars(frame)
        or _of_duckdb(frame)
        or _of_ibis(frame)
        or _of_arrow(frame)
    )
    if found is not None:
        return found
    if isinstance(frame, Iterator):
        raise ParameterError(ONCE.format(what="an iterator", instead="a table, for example pyarrow.Table.from_batches(list(frame))"))
    if hasattr(type(frame), "__arrow_c_stream__"):
        return _of_stream(frame)
    mend = f"; make a frame of it, for example pandas.DataFrame({name})" if isinstance(frame, list | tuple | Mapping | np.ndarray) else ""
    raise ParameterTypeError(f"{name} must be {TAKEN}, got {type(frame).__name__}{mend}")


def _check_is_known(frame: object) -> None:
    """Raise `ParameterTypeError` for a frame of Spark if nothing knows it: its Arrow stream would bring all rows to this machine."""
    if type(frame).__module__.startswith("pyspark.") and "dpcore.spark" not in sys.modules:
        raise ParameterTypeError("frame is one of Spark, which tables know after `import dpcore.spark`")


def is_frame(value: object) -> bool:
    """Whether a value is a frame in memory, and no list of values."""
    if isinstance(value, str | bytes | list | tuple | Mapping | os.PathLike):
        return False
    columns = (_class("polars", "Series"), _class("pandas", "Series"), _class("pyarrow", "ChunkedArray"), _class("narwhals", "Series"))
    if isinstance(value, columns):
        return False
    is_known = isinstance(value, (_class("pandas", "DataFrame"), _class("polars", "LazyFrame"), _class("narwhals", "LazyFrame")))
    return is_known or hasattr(type(value), "__arrow_c_stream__")


def records_of(frame: object, names: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of a public frame."""
    source = source_of(frame)
    if isinstance(source, str):
        raise AssertionError("a path is no frame")  # noqa: TRY004
    absent = [name for name in names if name not in source.info().names]
    if absent:
        raise ParameterError(f"groups must have the column {absent[0]!r}")
    return [record for batch in source.batches(names, MOST_RECORDS) for record in batch.to_pylist()]


def _class(module: str, name: str) -> type:
    """A class of a package, if that is loaded; else one that has no instances."""
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, type) else _Nothing


class _Nothing:
    """Has no instances."""


def _refuse_old(name: str) -> None:
    """Raise `ParameterError` if the package of a frame is too old."""
    if words := words_of_old(name):
        raise ParameterError(f"frame cannot be read: {words}")


def _of_pandas(frame: object) -> FrameSource | None:
    if isinstance(frame, _class("pandas", "Series")):
        raise ParameterTypeError("frame must be a table, got a pandas Series; use frame.to_frame()")
    if not isinstance(frame, _class("pandas", "DataFrame")):
        return None
    _refuse_old("pandas")
    from dpcore.frames.pandas_source import PandasSource

    return PandasSource.of(frame)


def _of_polars(frame: object) -> FrameSource | None:
    if isinstance(frame, _class("polars", "Series")):
        raise ParameterTypeError("frame must be a table, got a polars Series; use frame.to_frame()")
    if isinstance(frame, (_class("polars", "LazyFrame"), _class("polars", "DataFrame"))):
        _refuse_old("polars")
    if isinstance(frame, _class("polars", "LazyFrame")):
        return LazySource(frame)
    if isinstance(frame, _class("polars", "DataFrame")):
        import polars as pl

        given: Any = frame
        return PolarsSource(pl.DataFrame(given))  # of a subclass no method is called
    return None


def _of_duckdb(frame: object) -> FrameSource | None:
    if not isinstance(frame, _class("duckdb", "DuckDBPyRelation")):
        return None
    from dpcore._relations import check_relation

    check_relation(frame, "frame")
    return RelationSource(frame)


def _of_ibis(frame: object) -> FrameSource | None:
    return IbisSource(frame) if isinstance(frame, _class("ibis.expr.types", "Table")) else None


def _of_arrow(frame: object) -> FrameSource | None:
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        return ArrowSource(frame, "pyarrow Table")
    if isinstance(frame, pa.RecordBatch):
        return ArrowSource(pa.Table.from_batches([frame]), "pyarrow RecordBatch")
    if isinstance(frame, pa.RecordBatchReader):
        raise ParameterError(ONCE.format(what="a RecordBatchReader", instead="frame.read_all()"))
    if isinstance(frame, _class("pyarrow.dataset", "Dataset")):
        from dpcore.frames.dataset_source import of_dataset

        return of_dataset(frame)
    return None


def _of_stream(frame: Any) -> FrameSource:
    """A table that is asked for its stream once, and shares its buffers."""
    import pyarrow as pa

    name = type(frame).__name__
    try:
        table = pa.RecordBatchReader.from_stream(frame).read_all()
    except MemoryError:
        raise
    except Exception:  # what it says may quote a row
        table = None
    if table is None:
        raise ParameterError(f"frame, of type {name}, has __arrow_c_stream__, but its rows cannot be read through it")
    return ArrowSource(table, name if name.isidentifier() else "Arrow stream")
