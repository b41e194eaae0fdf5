"""Arrays in one piece: of views, of labels and of chunks; which bytes a text has is looked at nowhere."""

from __future__ import annotations

import pyarrow as pa

VIEW = pa.string_view() if hasattr(pa, "string_view") else None
VIEWS = (VIEW, pa.binary_view()) if VIEW is not None else ()
"""Types whose values lie in several buffers, of which Arrow takes no rows."""


def texts_of_views(cells: pa.Array) -> pa.Array:
    """Views as text with offsets, whether or not it is UTF-8."""
    plain = cells.view(pa.binary_view()).cast(pa.large_binary())
    return pa.Array.from_buffers(pa.large_string(), len(plain), plain.buffers(), offset=plain.offset)


def one_buffer(cells: pa.Array) -> pa.Array:
    """Views as text and bytes in one buffer."""
    return texts_of_views(cells) if cells.type == VIEW else cells.cast(pa.large_binary())


def decoded(cells: pa.Array) -> pa.Array:
    """Labels as what they stand for; of views as text and bytes in one buffer."""
    if not pa.types.is_dictionary(cells.type):
        return cells
    labels = cells.dictionary
    return (one_buffer(labels) if labels.type in VIEWS else labels).take(cells.indices)


def one_array(cells: pa.ChunkedArray) -> pa.Array:
    """Chunks as one array, of labels what they stand for.

    Arrow would join their dictionaries, and refuses that by what is in them: a null, or more labels than an index can number.
    """
    chunks = [decoded(chunk) for chunk in cells.chunks]
    if len(chunks) == 1:
        return chunks[0]
    kind = cells.type.value_type if pa.types.is_dictionary(cells.type) else cells.type
    return pa.concat_arrays(chunks) if chunks else pa.array([], kind)
