"""Numbers in the buffers of an Arrow array, where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa


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
