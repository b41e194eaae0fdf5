"""Exact statistics of some rows, on their way from a task to the driver: cut into ranges, of which a part sends what is not zero.

All statistics of a job are integers: rows of three words for sums of 128 bits with their numbers of rows, and single ones of 64 bits. Each
has a place among all, which follows from the job alone. A range is 512 or 1,536 neighbours, so what a part sends of a range is at most
12 KiB, as large as the groups that it holds, and nothing where it holds none. Ranges are added up apart from each other: a task that merges
some need not hold others, and Spark, which hands 10,000 values at a time to Python, needs no more than 120 MiB for them.

**Lemma.** Parts may be merged in any order and in any number of steps: the result is that of adding whole statistics.
*Proof.* A missing integer is a zero, which changes no sum. Places are disjoint, and at each place the addition, modulo 2⁶⁴ or 2¹²⁸, is
associative and commutative. ∎
"""

from __future__ import annotations

import struct
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore.query.backend import WIDTH, wholes, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

WIDE, NARROW = 512, 512 * WIDTH
"""Rows of three words, and single integers, of a range."""
HEADER = struct.Struct("<II")
"""Of what a part sends of a range: whether it is wide and whether it names its places, and how many integers it has."""
NAMED = 2
WORD, PLACE = np.dtype("<i8"), np.dtype("<u2")


@dataclass(slots=True)
class PartOfTotals:
    """Exact statistics of some rows.

    Attributes
    ----------
    totals : list
        One for each query, in the order of the plan; None where nothing is added up.
    rows : int
        How many rows they are of.
    """

    totals: list[Any]
    rows: int

    @property
    def size(self) -> int:
        """Bytes of all integers, zeros included: what a part sends is about as much or less."""
        return sum(array.nbytes for _, arrays in self._arrays() for array in arrays)

    @property
    def ranges(self) -> int:
        """Number of ranges."""
        return sum(1 for _ in self._ranges())

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """What is not zero: numbers of ranges, in order, each with its integers."""
        for place, (is_wide, slices) in enumerate(self._ranges()):
            piece = _piece(slices[0] if len(slices) == 1 else np.concatenate(slices), is_wide=is_wide)
            if piece is not None:
                yield place, piece

    def filled(self, merging: Merging) -> PartOfTotals:
        """The same statistics, which are those of no rows, with what was merged."""
        arrays = self._arrays()
        for place, (_, slices) in enumerate(self._ranges(arrays)):
            found, start = merging.taken(place), 0
            for each in slices if found is not None else ():
                each[:] = found[start : start + len(each)]  # type: ignore[index]  # slices of none are not looked at
                start += len(each)
        (_, wide), (_, narrow) = arrays
        words = iter(wide)
        for total in self.totals:
            if isinstance(total, np.ndarray):
                if total.dtype == object:
                    total.reshape(-1)[:] = wholes(next(words))
            elif total is not None:
                for _ in total.wide:
                    next(words)
        return PartOfTotals(self.totals, int(narrow[-1][0]))

    def _arrays(self) -> tuple[tuple[bool, list[Integers]], tuple[bool, list[Integers]]]:
        """Whether they are wide, and all integers: views of the statistics, but for those of Python, and last the number of rows."""
        wide: list[Integers] = []
        narrow: list[Integers] = []
        for total in self.totals:
            if not isinstance(total, np.ndarray):
                wide += [] if total is None else total.wide
                narrow += [] if total is None else total.narrow
            elif total.dtype == object:
                wide.append(words_of(total.reshape(-1)))
            else:
                narrow.append(total.reshape(-1))
        return (True, wide), (False, [*narrow, np.array([self.rows], WORD)])

    def _ranges(self, arrays: Iterable[tuple[bool, list[Integers]]] | None = None) -> Iterator[tuple[bool, list[Integers]]]:
        """The ranges in order, each as the slices of arrays that it goes over."""
        for is_wide, kind in self._arrays() if arrays is None else arrays:
            length, slices, room = (WIDE, [], WIDE) if is_wide else (NARROW, [], NARROW)
            for array in kind:
                start = 0
                while start < len(array):
                    slices.append(array[start : start + room])
                    start, room = start + len(slices[-1]), room - len(slices[-1])
                    if not room:
                        yield is_wide, slices
                        slices, room = [], length
            if slices:
                yield is_wide, slices


@dataclass(slots=True)
class Merging:
    """Parts that are added up, each range by itself."""

    _sums: dict[int, Integers] = field(default_factory=dict)

    def add(self, place: int, piece: bytes) -> None:
        """Add what a part has sent of a range."""
        kind, count = HEADER.unpack_from(piece)
        is_wide = bool(kind & 1)
        width = WIDTH if is_wide else 1
        values = np.frombuffer(piece, WORD, count * width, HEADER.size)
        total = self._sums.get(place)
        if total is None:
            total = self._sums[place] = np.zeros((WIDE, WIDTH) if is_wide else NARROW, np.int64)
        places: Any = slice(count)
        if kind & NAMED:
            places = np.frombuffer(piece, PLACE, count, HEADER.size + values.nbytes)
        if is_wide:
            some = total[places]
            _backend.merge_grouped_sums(some, values.reshape(count, width))
            total[places] = some
        else:
            total[places] += values

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """What is not zero, as a part sends it."""
        for place, total in self._sums.items():
            piece = _piece(total, is_wide=total.ndim > 1)
            if piece is not None:
                yield place, piece

    def taken(self, place: int) -> Integers | None:
        """The sums of a range, which are forgotten; None if no part has any."""
        return self._sums.pop(place, None)


def merged(pieces: Iterable[tuple[int, bytes]]) -> Merging:
    """All pieces, added up."""
    merging = Merging()
    for place, piece in pieces:
        merging.add(place, piece)
    return merging


def _piece(integers: Integers, *, is_wide: bool) -> bytes | None:
    """The integers of a range that are not zero, with their places where that is shorter; None if there are none."""
    there = integers[:, 0] | integers[:, 1] | integers[:, 2] if is_wide else integers
    places = np.flatnonzero(there)
    if not len(places):
        return None
    if len(places) * (integers.itemsize * integers[0].size + PLACE.itemsize) < integers.nbytes:
        named = integers[places].astype(WORD, copy=False).tobytes() + places.astype(PLACE).tobytes()
        return HEADER.pack(is_wide | NAMED, len(places)) + named
    last = int(places[-1]) + 1
    return HEADER.pack(is_wide, last) + integers[:last].astype(WORD, copy=False).tobytes()
