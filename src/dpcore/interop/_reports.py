"""Columns of reports as the arrays that `estimate` of a mechanism takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.interop import _cells as cells_of
from dpcore.interop._forms import CategoryReports, PairReports, RowReports, form_of

if TYPE_CHECKING:
    from dpcore.interop._cells import Array

VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()} if hasattr(pa, "string_view") else {}
"""Types as polars has text and bytes, which Arrow cannot filter, and those as which they are read."""


def reports_of(cells: pa.ChunkedArray, mechanism: Any) -> Array:
    """The reports of a column without its nulls, and without NaN, which is no report.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the column has a type that the mechanism's reports never have, or a mechanism of another kind is given.
    """
    form = form_of(mechanism, keeps_type=True)
    if not hasattr(mechanism, "estimate"):
        raise ParameterTypeError(f"mechanism must be a randomiser of dpcore.local, got {type(mechanism).__name__}")
    plain = cells.cast(VIEWS[cells.type]) if cells.type in VIEWS else cells
    column = plain.drop_null().combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], cells.type)
    if isinstance(form, PairReports):
        return _pairs(column, form)
    if isinstance(form, RowReports):
        return _rows(column, form)
    if isinstance(form, CategoryReports) and cells_of.is_text(column.type):
        if form.labels is None:
            raise ParameterTypeError("the column holds labels, and the mechanism has codes")
        codes = cells_of.label_codes(column, form.labels)
        if (codes == cells_of.ABSENT).any():
            raise ParameterError("the column holds a text that is none of the mechanism's categories, so it has no reports of it")
        return codes
    reports = np.asarray(column.to_numpy(zero_copy_only=False))
    return reports[~np.isnan(reports)] if reports.dtype.kind == "f" else reports


def _pairs(column: pa.Array, form: PairReports) -> Array:
    if not pa.types.is_struct(column.type) or {field.name for field in column.type} != set(form.dtype.names or ()):
        raise ParameterTypeError(f"reports of {type(form.mechanism).__name__} are structs of {', '.join(form.dtype.names or ())}")
    reports = np.empty(len(column), form.dtype)
    for name in form.dtype.names or ():
        reports[name] = column.field(name).to_numpy(zero_copy_only=False)
    return reports


def _rows(column: pa.Array, form: RowReports) -> Array:
    width = (form.k + 7) // 8
    found = column.cast(pa.large_binary()) if column.type != pa.binary(width) else column
    rows = found if found.type == pa.binary(width) else found.cast(pa.binary(width))
    return np.frombuffer(rows.buffers()[1], np.uint8)[rows.offset * width : (rows.offset + len(rows)) * width].reshape(-1, width)
