"""Arrays of Arrow that may begin in the middle of their buffers: their numbers, and their cells for which a condition holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import numpy.typing as npt

SEES_SLICES = int(pa.__version__.partition(".")[0]) >= 24
"""Whether pyarrow finds out where a slice of text begins that stands beside one null. Before, its result pointed behind the text's end."""


def stored(cells: pa.Array, dtype: npt.DTypeLike, *, words: int = 1, more: int = 0) -> npt.NDArray[Any]:
    """Return the numbers of the second buffer without a copy: `words` of each cell, and of `more` behind the last.

    What it holds under a null is arbitrary. Only what belongs to the cells is looked at: a file may say that its buffer is longer, by part
    of a number, too.
    """
    kind, count = np.dtype(dtype), (len(cells) + more) * words
    if not len(cells):
        return np.zeros(count, kind) if words == 1 else np.zeros((more, words), kind)
    found = np.frombuffer(cells.buffers()[1], kind, count, cells.offset * words * kind.itemsize)
    return found if words == 1 else found.reshape(-1, words)


def where(fits: pa.Array, cells: pa.Array) -> pa.Array:
    """Return the cells of rows for which a condition is true, and null for the others."""
    one_null = SEES_SLICES or cells.offset == 0
    return pc.if_else(fits, cells, pa.scalar(None, cells.type) if one_null else pa.nulls(len(cells), cells.type))
