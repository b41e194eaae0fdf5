"""Comma-separated text as columns of cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpcore._kernels import _text

if TYPE_CHECKING:
    from collections.abc import Sequence

START_OF_RECORD, INSIDE_QUOTES = int(_text.START_OF_RECORD), int(_text.INSIDE_QUOTES)


@dataclass(frozen=True, slots=True)
class TextRecords:
    """Consecutive records of a text.

    Attributes
    ----------
    rows : int
        How many.
    behind : int
        Position behind the last of them.
    is_open : bool
        Whether the text ends inside a quoted cell.
    cells : list of tuple of ndarray
        For each wanted column where its cells begin, with one entry more than there are, and their bytes one behind the other.
    """

    rows: int
    behind: int
    is_open: bool
    cells: list[tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]]


def split_records(text: bytes, columns: int, wanted: Sequence[int], most: int, *, final: bool) -> TextRecords:
    """The first records of a text, at most so many: each has cells in `columns` columns, of which the `wanted` are taken.

    A record with too few cells has empty ones, of one with too many the rest is passed over. In a text of several columns empty lines
    are no records. A record that the text does not hold the end of is left, unless the text is `final`.
    """
    slots = np.full(columns, -1, np.int32)
    slots[list(wanted)] = np.arange(len(wanted), dtype=np.int32)
    starts, ends = np.empty((2, len(wanted), most), np.int64)
    rows, behind, is_open = _text.split(text, final, columns > 1, slots, starts, ends)
    return TextRecords(rows, behind, is_open, [_gathered(text, starts[i, :rows], ends[i, :rows]) for i in range(len(wanted))])


def _gathered(
    text: bytes, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    offsets = np.empty(len(starts) + 1, np.int32)
    content = np.empty(int((ends - starts).sum()), np.uint8)
    _text.gather(text, starts, ends, offsets, content)
    return offsets, content


def end_of_record(text: bytes, state: int = START_OF_RECORD) -> tuple[int, int]:
    """Position behind a record that began before the text, or −1; and the state in which the next text goes on."""
    found, state = _text.record_end(text, state)
    return int(found), int(state)
