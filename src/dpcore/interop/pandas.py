"""Mechanisms on pandas: Series and frames of NumPy's dtypes, of nullable ones, of categories and text, and of Arrow."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpcore._series import like
from dpcore.errors import DataError, ParameterTypeError
from dpcore.interop._needed import needed
from dpcore.interop._peers import Peer

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from dpcore.interop._cells import Array, Mask
    from dpcore.interop._columns import ColumnNoise
    from dpcore.rng import Stream

__all__ = ["PEER", "release"]

PEER = Peer(module="pandas", distribution="pandas", tested=("2.2", "3.1"), extra="pandas")
ARROW = Peer(module="pyarrow", distribution="pyarrow", tested=("18", "20", "25", "26"), extra="batch")


def release(
    data: Any,
    mechanism: Any,
    *,
    missing: Any = None,
    dtype: Literal["column", "mechanism"] = "column",
    keep: Sequence[Hashable] = (),
    rng: Stream | None = None,
    threads: int | None = None,
) -> Any:
    """Release every value of a Series, or of columns of a frame.

    Parameters
    ----------
    data : pandas.Series or DataFrame
        A Series, for one mechanism; a frame, for a mapping.
    mechanism : object, or mapping of labels to object
        Of `dpcore.mechanisms` or `dpcore.local`; or one for each column by its label, which may be a number, or a tuple of several levels.
    missing : "refuse", "keep", or a value; or mapping of labels to these
        What becomes of NaN, None and `pandas.NA`, as in `dpcore.interop.arrow.release`. Required for all dtypes but NumPy's integers and
        bool, unless the mechanism itself has `missing` or `unknown`.
    dtype : {"column", "mechanism"}, default "column"
        "column": the dtype of the column where it can hold the results. "mechanism": float64, int64, bool or codes, of the same kind of
        array.
    keep : sequence of labels, optional
        Columns of a frame that the result has as they are. They are not protected. All others are left out.
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads; None chooses it by the number of values and of processors.

    Returns
    -------
    pandas.Series or DataFrame
        With the index of `data`, which must not depend on the records, and the labels of its columns.

    Raises
    ------
    ParameterError, ParameterTypeError, DataError, EntropyError
        As `dpcore.interop.arrow.release`.
    ModuleNotFoundError
        If pandas or pyarrow is not installed.

    Notes
    -----
    Guarantee: that of the mechanism. The index and the number of rows are published as they are.

    Cost: that of the mechanism. Numbers are read where pandas has them, and it takes the results where they are.

    Examples
    --------
    >>> import pandas as pd
    >>> from dpcore.interop import pandas as dp
    >>> from dpcore.mechanisms import DiscreteLaplace
    >>> counts = pd.Series([120, 80], index=["north", "south"], name="people")
    >>> released = dp.release(counts, DiscreteLaplace(epsilon=1.0, sensitivity=1))
    >>> list(released.index), released.name, released.dtype
    (['north', 'south'], 'people', dtype('int64'))
    """
    needed(PEER, ARROW)
    import pandas as pd

    from dpcore.interop._columns import ColumnNoise, TableNoise, refused

    if isinstance(data, pd.Series):
        if isinstance(mechanism, Mapping) or len(keep):
            raise ParameterTypeError("a Series takes one mechanism, and keep is for frames")
        return _series(data, ColumnNoise.of(mechanism, missing, dtype, rng, threads), "the Series")
    if not isinstance(data, pd.DataFrame):
        raise refused(data, "a Series or a DataFrame of pandas")
    table = TableNoise.of(mechanism, missing, dtype, keep, rng, threads)
    names = table.chosen(list(data.columns))
    for name in names:
        if name in table.columns:
            _named(name, data[name], table.columns[name], _kind)
    found = [_named(name, data[name], table.columns[name], _series) if name in table.columns else data[name] for name in names]
    result = getattr(data, "_constructor", pd.DataFrame)(dict(enumerate(found)), index=data.index, copy=False)
    # The labels of the columns stay what they are: numbers, tuples of several levels, and the name that they have together.
    wanted = set(names)
    result.columns = data.columns[[place for place, name in enumerate(data.columns) if name in wanted]]
    return result


def _named(name: Hashable, column: pd.Series, noise: ColumnNoise, work: Callable[..., Any]) -> Any:
    try:
        return work(column, noise, f"the column {name!r}")
    except (DataError, ParameterTypeError) as error:
        raise type(error)(f"column {name!r}: {error}") from None


def _kind(column: pd.Series, noise: ColumnNoise, which: str) -> pa.DataType:
    """The Arrow type of a column, by its dtype; raises if the mechanism does not take it, or a declaration is missing."""
    import pyarrow as pa

    is_numpy = isinstance(column.dtype, np.dtype)
    if is_numpy and column.dtype.kind not in "iufbO":
        raise ParameterTypeError(f"no mechanism takes the dtype {column.dtype}")
    try:
        kind = pa.from_numpy_dtype(column.dtype) if is_numpy and column.dtype.kind != "O" else _arrow(column.iloc[:0]).type
    except (DataError, pa.ArrowNotImplementedError):
        raise ParameterTypeError(f"Arrow does not read the dtype {column.dtype}") from None
    try:
        noise.result(kind, nullable=not is_numpy or column.dtype.kind == "O", which=which)
    except ParameterTypeError as error:
        hint = ": objects are read as text; give numbers and truth values a dtype, with convert_dtypes()" if column.dtype == object else ""
        raise ParameterTypeError(f"{error}{hint}") from None
    return kind


def _series(column: pd.Series, noise: ColumnNoise, which: str) -> pd.Series:
    """The reports of a column."""
    from dpcore.interop._cells import is_text

    kind = _kind(column, noise, which)
    if isinstance(column.dtype, np.dtype) and column.dtype.kind != "O":
        return like(column, _of_numpy(column.to_numpy(), noise, kind))
    found = noise.chunked(_arrow(column))
    result = like(column, _stored(found, column.dtype))
    # pandas 3 makes a Series of its own text dtype of objects that are all text.
    return result.astype(object) if column.dtype == object and is_text(found.type) else result


def _arrow(column: pd.Series) -> pa.ChunkedArray:
    """A column as Arrow; objects as text. What Arrow says about an object that is none may quote it."""
    import pandas as pd
    import pyarrow as pa

    try:
        if isinstance(column.dtype, pd.CategoricalDtype) and not isinstance(column.dtype.categories.dtype, np.dtype | pd.StringDtype):
            found = pa.array(column.array, from_pandas=True)
        elif isinstance(column.dtype, pd.CategoricalDtype):
            codes = column.cat.codes.to_numpy()
            labels = pa.array(column.dtype.categories, type=pa.large_string() if column.dtype.categories.dtype.kind == "O" else None)
            found = pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), labels, ordered=column.dtype.ordered)
        else:
            found = pa.array(column.array, type=pa.large_string() if column.dtype == object else None, from_pandas=True)
    except Exception:
        found = None
    if found is None:
        raise DataError(
            f"a column of the dtype {column.dtype.name} must hold text and missing values only; or convert it with convert_dtypes()"
        )
    return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])


def _of_numpy(values: Array, noise: ColumnNoise, dtype: pa.DataType) -> Any:
    """Values of a dtype of NumPy, read where they are. Where bits about missing numbers stay missing, the result is nullable."""
    import pandas as pd
    import pyarrow as pa

    from dpcore.interop import _cells as cells_of

    absent = cells_of.nan_mask(values)
    reports = noise.reports(noise.form.prepared(values), None, absent, dtype, len(values))
    found = noise.form.result(dtype)
    if found in cells_of.INTEGERS or found in cells_of.FLOATS or found == pa.bool_():
        plain = reports.astype(found.to_pandas_dtype(), copy=False)
        stays = absent is not None and noise.policy == "keep" and plain.dtype.kind == "b"
        return pd.arrays.BooleanArray(plain, absent) if stays else plain
    return pd.arrays.ArrowExtensionArray(pa.chunked_array([noise.form.write(reports, dtype, len(values), None)]))


def _stored(reports: pa.ChunkedArray, dtype: Any) -> Any:
    """Reports as an array of pandas, of the same sort as a column of this dtype."""
    import pandas as pd
    import pyarrow as pa

    from dpcore.interop import _cells as cells_of

    kind = reports.type
    if isinstance(dtype, pd.ArrowDtype):
        return pd.arrays.ArrowExtensionArray(reports)
    if pa.types.is_dictionary(kind):
        return _categorical(reports, dtype)
    if cells_of.is_text(kind):
        return dtype.__from_arrow__(reports) if isinstance(dtype, pd.StringDtype) else pd.array(reports.to_pylist(), dtype=object)
    if kind in cells_of.INTEGERS or kind in cells_of.FLOATS or kind == pa.bool_():
        cells = _one(reports)
        return _nullable(cells, cells_of.null_mask(cells), is_masked=hasattr(dtype, "numpy_dtype"))
    return pd.arrays.ArrowExtensionArray(reports)


def _one(reports: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    return (
        reports.chunk(0)
        if reports.num_chunks == 1
        else pa.concat_arrays(reports.chunks)
        if reports.num_chunks
        else pa.array([], reports.type)
    )


def _nullable(cells: pa.Array, absent: Mask | None, *, is_masked: bool) -> Any:
    """Numbers or truth values in a nullable array; in one of NumPy, if the column had none and nothing is missing."""
    import pandas as pd
    import pyarrow as pa

    from dpcore.interop import _cells as cells_of

    is_bool = cells.type == pa.bool_()
    values = (
        np.unpackbits(cells_of.bits_of(cells), count=len(cells), bitorder="little").view(np.bool_)
        if is_bool
        else cells_of.numbers_of(cells)
    )
    if absent is None and not is_masked:
        return values
    mask = np.zeros(len(cells), np.bool_) if absent is None else absent
    make = pd.arrays.BooleanArray if is_bool else pd.arrays.FloatingArray if values.dtype.kind == "f" else pd.arrays.IntegerArray
    return make(values, mask)


def _categorical(reports: pa.ChunkedArray, dtype: Any) -> Any:
    """Labels as categories: those of the column if they are the mechanism's, else the mechanism's."""
    import pandas as pd

    from dpcore.interop import _cells as cells_of

    cells = _one(reports)
    places, absent = cells_of.numbers_of(cells.indices), cells_of.null_mask(cells)
    codes = places.astype(np.int64) if absent is None else np.where(absent, -1, places.astype(np.int64))
    labels = cells.dictionary.to_pylist()
    found = pd.Categorical.from_codes(codes, categories=pd.Index(labels, dtype=dtype.categories.dtype), ordered=dtype.ordered)
    return found.set_categories(dtype.categories) if set(labels) == set(dtype.categories) else found
