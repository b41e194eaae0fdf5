"""Comma-separated text as columns of cells, and objects as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore._kernels import _text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


@dataclass(frozen=True, slots=True)
class EncodedTexts:
    """Texts, one behind the other.

    Attributes
    ----------
    offsets : ndarray of int64 of shape (n + 1,)
        Where each begins in `content`.
    content : bytearray
        Their UTF-8.
    present : ndarray of bool of shape (n,)
        Whether there is one.
    """

    offsets: npt.NDArray[np.int64]
    content: bytearray
    present: npt.NDArray[np.bool_]


def encode_objects(cells: list[object], rule: Callable[[object], str | None], absent: tuple[object, ...]) -> EncodedTexts:
    """Objects as text: a str is itself, None and NaN and the objects in `absent` are missing, and `rule` says what every other one is."""
    offsets, present = np.empty(len(cells) + 1, np.int64), np.empty(len(cells), np.uint8)
    content = _text.encode(cells, rule, absent, offsets, present)
    return EncodedTexts(offsets, content, present.view(np.bool_))
