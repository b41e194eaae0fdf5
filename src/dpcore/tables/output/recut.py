"""Cuts the rows of an output anew, so that its shape does not depend on how the input was cut.

How the rows of an input arrive depends on its bytes: one more digit in one cell of a CSV moves the end of a block of text, and with it
the length of every batch that follows. A table is therefore written in parts whose numbers of rows follow from the schema of the
output, and, where its text is long, from that text itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dpcore.tables.types.row_bytes import stored_bytes
from dpcore.tables.types.sizes import total_varying_bytes, varies, varying_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt


def rows_for(schema: pa.Schema, size: int, most: int) -> int:
    """Rows of these types that take about `size` bytes: at least 1, at most `most`."""
    return min(max(size // max(stored_bytes(dict(zip(schema.names, schema.types, strict=True))), 1), 1), most)


class Recut:
    """Gathers batches of any length into parts.

    Every part but the last has `rows` rows. It ends earlier behind the row with which its text reaches `text` bytes, which keeps memory
    bounded; text of an output is public, be it kept or released.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of the output.
    rows : int
        Rows of a part.
    text : int
        Bytes of values of varying size that a part holds, about.
    """

    def __init__(self, schema: pa.Schema, rows: int, text: int) -> None:
        self._schema, self._rows, self._text = schema, rows, text
        self._varying = [place for place, field in enumerate(schema) if varies(field.type)]
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._pending_text = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take rows, and yield the parts that they complete."""
        start, n = 0, len(batch)
        ends = self._ends(batch)
        while start < n:
            room = self._rows - self._pending_rows
            full = n if ends is None else int(np.searchsorted(ends, ends[start] + self._text - self._pending_text))
            stop = min(start + room, full, n)
            part = batch.slice(start, stop - start)
            self._pending.append(part)
            self._pending_rows += stop - start
            self._pending_text += self._text_of(part) if ends is None else int(ends[stop] - ends[start])
            start = stop
            if self._pending_rows == self._rows or self._pending_text >= self._text:
                yield self._part()

    def _text_of(self, batch: pa.RecordBatch) -> int:
        return sum(total_varying_bytes(batch.column(place)) for place in self._varying)

    def _ends(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64] | None:
        """The text before each row and behind the last; None if no part can end by it within this batch."""
        if self._pending_text + self._text_of(batch) < self._text:
            return None
        sizes = [varying_bytes(batch.column(place)) for place in self._varying]
        return np.append(0, np.cumsum(np.sum(sizes, axis=0, dtype=np.int64)))

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield what is left, if anything is."""
        if self._pending:
            yield self._part()

    def clear(self) -> None:
        """Forget what is pending."""
        self._pending.clear()
        self._pending_rows = self._pending_text = 0

    def _part(self) -> pa.RecordBatch:
        pending = list(self._pending)
        self.clear()
        # The empty slice forces a copy: of a slice, Arrow writes a few bytes of the rows behind it.
        nothing = pending[0].slice(0, 0)
        arrays = [pa.concat_arrays([batch.column(place) for batch in [*pending, nothing]]) for place in range(len(self._schema))]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
