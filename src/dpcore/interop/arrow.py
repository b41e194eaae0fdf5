"""Mechanisms on Arrow data: arrays and tables of pyarrow, and every object with ``__arrow_c_stream__``.

The values of a column are read where they are, and the results have its type, its chunks and, if you say so, its nulls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from dpcore.errors import DpcoreError, ParameterError, ParameterTypeError
from dpcore.interop._needed import needed
from dpcore.interop._peers import Peer

if TYPE_CHECKING:
    import pyarrow as pa

    from dpcore.interop._columns import TableNoise
    from dpcore.local import Estimate
    from dpcore.rng import Stream

__all__ = ["PEER", "estimate", "release"]

PEER = Peer(module="pyarrow", distribution="pyarrow", tested=("18", "20", "25", "26"), extra="batch")


def release(
    data: Any,
    mechanism: Any,
    *,
    missing: Any = None,
    dtype: Literal["column", "mechanism"] = "column",
    keep: Sequence[str] = (),
    rng: Stream | None = None,
    threads: int | None = None,
) -> Any:
    """Release every value of a column, or of columns of a table.

    Parameters
    ----------
    data : pyarrow.Array, ChunkedArray, RecordBatch, Table or RecordBatchReader, or an object with ``__arrow_c_stream__``
        A column, for one mechanism; a table, for a mapping.
    mechanism : object, or mapping of str to object
        Of `dpcore.mechanisms`, whose `release` is called, or of `dpcore.local`, whose `privatize` is; or one for each column by its name.
    missing : "refuse", "keep", or a value; or mapping of str to these
        What becomes of nulls and NaN. A value (a number, a truth value, a code or a label) stands for them, and nothing about them is
        published. "keep" leaves them where they are: which rows have no value is then public. "refuse" raises at the first one, and that
        it raises is not covered by the guarantee. Required where a column may have nulls by its type, unless the mechanism itself has
        `missing` or `unknown`; floats may always be NaN.
    dtype : {"column", "mechanism"}, default "column"
        "column": the type of the column where it can hold the results; float32 rounds them, and narrow integers end at their ends.
        "mechanism": float64, int64, bool or codes, which `estimate` takes.
    keep : sequence of str, optional
        Columns of a table that the result has as they are. They are not protected. All others are left out.
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads; None chooses it by the number of values and of processors.

    Returns
    -------
    pyarrow.Array, ChunkedArray, RecordBatch, Table or RecordBatchReader
        What was given, with the same chunks; a ChunkedArray or Table for other objects. A RecordBatchReader releases each batch when it is
        read.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument does not fit; this depends on the types of the columns, and not on the rows.
    DataError
        If a value is missing and `missing` is "refuse", or the mechanism refuses it. The message names a row, never a value.
    EntropyError
        If the operating system gives no randomness.
    ModuleNotFoundError
        If pyarrow is not installed.

    Notes
    -----
    Guarantee: that of the mechanism. A mechanism of `dpcore.mechanisms` covers the whole column, whose sensitivity it was made for; one of
    `dpcore.local` covers each record. Several columns compose. The number of rows, the lengths of the chunks and, with "keep", the
    positions of nulls are published.

    Cost: that of the mechanism. Numbers and packed truth values are read without a copy, unless some are missing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from dpcore.interop import arrow
    >>> from dpcore.mechanisms import Laplace
    >>> table = pa.table({"region": ["north", "south"], "sum": [120.5, None]})
    >>> released = arrow.release(table, {"sum": Laplace(epsilon=1.0, sensitivity=1.0)}, missing="keep", keep=["region"])
    >>> released.schema.names, released["sum"].null_count
    (['region', 'sum'], 1)
    """
    needed(PEER)
    from dpcore.interop._columns import ColumnNoise, TableNoise

    if isinstance(mechanism, Mapping):
        return _table(data, TableNoise.of(mechanism, missing, dtype, keep, rng, threads))
    if len(keep):
        raise ParameterError("keep names columns of a table; give a mapping of column names to mechanisms")
    noise = ColumnNoise.of(mechanism, missing, dtype, rng, threads)
    return _column(data, noise)


def _column(data: Any, noise: Any) -> Any:
    import pyarrow as pa

    if isinstance(data, pa.Array):
        noise.result(data.type, which="the array")
        return noise.array(data)
    cells = chunked(data)
    noise.result(cells.type, which="the column")
    return noise.chunked(cells)


def _table(data: Any, noise: TableNoise) -> Any:
    import pyarrow as pa

    if isinstance(data, pa.RecordBatchReader):
        return pa.RecordBatchReader.from_batches(noise.schema(data.schema), _batches(data, noise))
    table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else table_of(data)
    found = released(table, noise)
    return found.to_batches()[0] if isinstance(data, pa.RecordBatch) and len(found) else _alike(found, data)


def _alike(table: pa.Table, data: Any) -> Any:
    import pyarrow as pa

    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatch.from_arrays([column.combine_chunks() for column in table.columns], schema=table.schema)
    return table


def _batches(reader: pa.RecordBatchReader, noise: TableNoise) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in reader:
        yield from released(pa.Table.from_batches([batch]), noise).to_batches()


def released(table: pa.Table, noise: TableNoise) -> pa.Table:
    """The columns of a table that `noise` names."""
    import pyarrow as pa

    schema = noise.schema(table.schema)
    columns = [noise.column(name, table.column(name)) for name in schema.names]
    return pa.Table.from_arrays(columns, schema=schema)


def chunked(data: Any) -> pa.ChunkedArray:
    """A column as Arrow, by its stream."""
    import pyarrow as pa

    from dpcore.interop._columns import refused

    if isinstance(data, pa.ChunkedArray):
        return data
    if not hasattr(type(data), "__arrow_c_stream__"):
        raise refused(data, "an array of pyarrow or have __arrow_c_stream__")
    cells = _imported(data, pa.chunked_array)
    if pa.types.is_struct(cells.type):
        raise ParameterTypeError("data is a table, or a column of structs: a table takes a mapping of column names to mechanisms")
    return cells


def table_of(data: Any) -> pa.Table:
    """A table as Arrow, by its stream."""
    import pyarrow as pa

    from dpcore.interop._columns import refused

    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.Array | pa.ChunkedArray) or not hasattr(type(data), "__arrow_c_stream__"):
        if hasattr(data, "scanner"):
            raise ParameterTypeError("a dataset is read in batches: give data.scanner().to_reader(), or data.to_table()")
        raise refused(data, "a table of pyarrow, or have __arrow_c_stream__, where mechanisms are given by column")
    return _imported(data, lambda stream: pa.RecordBatchReader.from_stream(stream).read_all())


def _imported(data: Any, read: Any) -> Any:
    """What a library's stream gives. What it says about a failure may quote a row, so only its class is shown."""
    try:
        return read(data)
    except DpcoreError:
        raise
    except Exception as error:
        kind = type(error).__name__
    raise ParameterError(f"data, of type {type(data).__name__}, cannot be read through __arrow_c_stream__ ({kind})")


def estimate(reports: Any, mechanism: Any, *, target: Literal["population", "sample"] = "population") -> Estimate:
    """Estimate from a column of reports that a mechanism of `dpcore.local` made.

    Parameters
    ----------
    reports : pyarrow.Array or ChunkedArray, or an object with ``__arrow_c_stream__``
        A column that `release` gave, of reports that were not rounded: with `dtype="mechanism"`, or of a column that had the type of the
        reports. Nulls and NaN are left out.
    mechanism : object
        The mechanism that made them.
    target : {"population", "sample"}, default "population"
        What standard errors and intervals refer to: the distribution that the records were drawn from, or these records.

    Returns
    -------
    Estimate
        As `mechanism.estimate` gives it.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the column does not hold reports of the mechanism, or holds none.
    DataError
        If a report is not one that the mechanism can make.

    Notes
    -----
    Cost: that of `mechanism.estimate`, and a copy of the reports.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from dpcore.interop import arrow
    >>> from dpcore.local import BinaryResponse
    >>> mechanism = BinaryResponse(epsilon=1.0)
    >>> reports = arrow.release(pa.array([True, False] * 50_000), mechanism, missing="refuse")
    >>> bool(abs(arrow.estimate(reports, mechanism).value - 0.5) < 0.05)
    True
    """
    needed(PEER)
    import pyarrow as pa

    from dpcore.interop._reports import reports_of

    cells = pa.chunked_array([reports]) if isinstance(reports, pa.Array) else chunked_or_struct(reports)
    arrays = reports_of(cells, mechanism)
    found: Estimate = mechanism.estimate(arrays, target=target)
    return found


def chunked_or_struct(data: Any) -> pa.ChunkedArray:
    """A column as Arrow; reports of two fields are structs."""
    import pyarrow as pa

    return data if isinstance(data, pa.ChunkedArray) else _imported(data, pa.chunked_array)
