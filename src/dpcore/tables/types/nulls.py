"""Cells that become null where a condition does not hold."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

SEES_SLICES = int(pa.__version__.partition(".")[0]) >= 24
"""Whether pyarrow finds out where a slice of text begins that stands beside one null. Before, its result pointed behind the text's end."""


def where(fits: pa.Array, cells: pa.Array) -> pa.Array:
    """Return the cells of rows for which a condition is true, and null for the others."""
    one_null = SEES_SLICES or cells.offset == 0
    return pc.if_else(fits, cells, pa.scalar(None, cells.type) if one_null else pa.nulls(len(cells), cells.type))
