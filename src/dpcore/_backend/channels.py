"""Finite channels: tables of exact rows, and the call that draws outcomes by them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._backend.response import MORE_RESPONSE, Law, _refuse_stream, new_array
from dpcore._backend.words import KernelWords, Position, call_words
from dpcore._kernels import _response

Array = npt.NDArray[Any]
MOST_CELLS = 2**26
"""Largest number of cells of a channel, of 4 bytes each."""
CELLS_PER_OUTCOME = 4
"""Least number of cells for each outcome: few of them then have several ends inside, which a search settles."""
_LOW_BITS = 15
"""Bits of a piece after those that choose a cell; the kernel compares them with those of an end."""
_NO_END, _SEVERAL = np.uint32(0x7FFF << 16), np.uint32(1 << 31)
_CELLS_AT_ONCE = 2**20


def guide_bits(outcomes: int) -> int:
    """log2 of the number of cells for each input of a channel with so many outcomes."""
    return int(min(_response.GUIDE_BITS, (CELLS_PER_OUTCOME * outcomes - 1).bit_length()))


class ChannelTable:
    """What the kernels need of a channel.

    Parameters
    ----------
    rows : ndarray of int64 or object, shape (X, K)
        Integers ≥ 0. P(z|x) = rows[x, z]/denominator.
    denominator : int
        The sum of every row; below 2^63 for int64.
    """

    def __init__(self, rows: Array, denominator: int) -> None:
        self.rows, self.denominator = rows, denominator
        inputs, outcomes = rows.shape
        bits = guide_bits(outcomes)
        ends, cells = np.empty((inputs, outcomes - 1), np.uint64), np.empty((inputs, 1 << bits), np.uint32)
        step = max(1, _CELLS_AT_ONCE >> bits)
        for start in range(0, inputs, step):
            part = slice(start, start + step)
            ends[part] = _scaled(np.cumsum(rows[part], axis=1)[:, :-1], denominator)
            cells[part] = _cells(ends[part], bits)
        self.guide = _response.Guide(cells, ends, bits)
        self._laws: dict[int | None, Law] = {}

    def law(self, unknown: int | None) -> Law:
        """The kernels' law, where `unknown` stands for codes that are no inputs."""
        law = self._laws.get(unknown)
        if law is None:
            law = self._laws[unknown] = Law(_response.CHANNEL, (), (), len(self.rows), unknown, 0, 0, 0.0, None, self.guide)
        return law

    def outcome(self, code: int, piece: int, words: KernelWords, element: int) -> int:
        """The outcome in which the uniform number of one record lies, by as many bits as it takes.

        U lies in [prefix, prefix + 1)/2^bits. An end c/D is passed if c/D ≤ U: certainly if ⌈2^bits·c/D⌉ ≤ prefix, and not if
        2^bits·c/D ≥ prefix + 1.
        """
        row = [int(weight) for weight in self.rows[code]]
        prefix, bits = piece, 32
        for chunk in range(1024):
            for word in words.more(MORE_RESPONSE, element, 0, chunk):
                prefix, bits = prefix << 64 | word, bits + 64
            end, outcome = row[0], 0
            while end << bits <= prefix * self.denominator:
                outcome += 1
                end += row[outcome]
            if end << bits >= (prefix + 1) * self.denominator:
                return outcome
        _refuse_stream()
        return -1


def _scaled(ends: Array, denominator: int) -> npt.NDArray[np.uint64]:
    """⌊2^64·ends/denominator⌋, at most 2^64 − 1."""
    if ends.dtype == object:
        scaled: npt.NDArray[np.uint64] = np.minimum(ends * 2**64 // denominator, 2**64 - 1).astype(np.uint64)
        return scaled
    # long division, 64 binary digits; the remainder is below the denominator, so that twice it fits
    rest, quotient = ends.astype(np.uint64), np.zeros(ends.shape, np.uint64)
    whole, divisor = rest >= denominator, np.uint64(denominator)
    for _ in range(64):
        rest <<= np.uint64(1)
        digit = rest >= divisor
        rest -= divisor * digit
        quotient = quotient << np.uint64(1) | digit
    quotient[whole] = np.uint64(2**64 - 1)
    return quotient


def _cells(ends: npt.NDArray[np.uint64], bits: int) -> npt.NDArray[np.uint32]:
    """The cells of some inputs, shape (inputs, 2^bits), from the ends of their outcomes."""
    inputs, cells = len(ends), 1 << bits
    places = (ends >> np.uint64(64 - bits)).astype(np.int64) + cells * np.arange(inputs)[:, None]
    inside = np.bincount(places.reshape(-1), minlength=inputs * cells).reshape(inputs, cells)
    first = np.cumsum(inside, axis=1) - inside
    found = np.full(inputs * cells, _NO_END, np.uint32)
    found[places] = ((ends << np.uint64(bits)) >> np.uint64(64 - _LOW_BITS)).astype(np.uint32) << np.uint32(16)
    found[inside.reshape(-1) > 1] = _SEVERAL
    return found.reshape(inputs, cells) | first.astype(np.uint32)


def channel_response(
    codes: Array, table: ChannelTable, unknown: int | None, position: Position, *, threads: int | None, out: Array | None = None
) -> Array:
    """An outcome drawn from the row of each code; any shape, the smallest unsigned dtype."""
    result = new_array(out, codes.shape, np.uint8 if table.rows.shape[1] <= 2**8 else np.uint16)

    def resolve(fields: tuple[int, int, float, float, int, int]) -> None:
        index, element, _, _, code, piece = fields
        result.flat[index] = table.outcome(code, piece, call_words(position), element)

    table.law(unknown).run(
        codes, result, position, size=codes.size, is_fresh=out is None, threads=threads, elements_per_unit=1, resolve=resolve
    )
    return result
