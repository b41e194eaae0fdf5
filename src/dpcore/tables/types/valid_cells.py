"""Find invalid cells in one vectorised pass, so that one of them does not slow the others down."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

UTF8 = (
    r"\A(?:[\x00-\x7F]|[\xC2-\xDF][\x80-\xBF]|\xE0[\xA0-\xBF][\x80-\xBF]|[\xE1-\xEC\xEE\xEF][\x80-\xBF]{2}|\xED[\x80-\x9F][\x80-\xBF]"
    r"|\xF0[\x90-\xBF][\x80-\xBF]{2}|[\xF1-\xF3][\x80-\xBF]{3}|\xF4[\x80-\x8F][\x80-\xBF]{2})*\z"
)
"""Well-formed byte sequences (Unicode, table 3-7). Of cells of bytes Arrow matches bytes."""
AS_BYTES = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}


def are_utf8(cells: pa.Array) -> pa.Array:
    """Whether each text, or cell of bytes, is UTF-8; null where the cell is."""
    return pc.match_substring_regex(cells.view(AS_BYTES.get(cells.type, cells.type)), UTF8)


def have_digits(cells: pa.Array) -> pa.Array:
    """Whether each decimal has no more digits than its type; null where the cell is."""
    kind = cells.type
    low, high = (pa.scalar(Decimal((sign, (9,) * kind.precision, -kind.scale)), kind) for sign in (1, 0))
    return pc.and_(pc.greater_equal(cells, low), pc.less_equal(cells, high))
