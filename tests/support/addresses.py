"""The address map as formulas: which bits of the keystream an element reads. The same code takes numbers and z3's bit vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from support.keystream import (
    ACCEPT,
    BULK,
    MORE,
    MORE_ACCEPT,
    MORE_PARTNER,
    MORE_RESPONSE,
    MORE_SELECTION,
    MORE_TABLE,
    RESPONSE,
    SELECTION,
    TABLE,
)

HALF = 64
Number = Any
"""An int, or a bit vector of 64 bits."""


class Read(NamedTuple):
    """Bits that an element reads: of a word in a group, or all of an element's chunk.

    `owner` is the element, or for the words of a pair the pair's first element; `is_pair` tells the two apart. `attempts` are those of a
    chunk: 0 alone, 1 and later, or all of them.
    """

    domain: int
    unit: Number
    place: Number
    first_bit: Number
    n_bits: int
    attempts: str
    owner: Number
    is_pair: bool


def right(x: Number, n: int) -> Number:
    """x shifted right; unsigned."""
    if isinstance(x, int):
        return x >> n
    import z3

    return z3.LShR(x, n)


def word(domain: int, element: Number, owner: Number, *, is_pair: bool = False) -> Read:
    """The element's word of 64 bits, in groups of 128."""
    return Read(domain, right(element, 7), element & 127, 0, 64, "none", owner, is_pair)


def piece(domain: int, element: Number, bits: int) -> Read:
    """16 or 32 bits of an element; a group has 128 words of them."""
    share = {16: 2, 32: 1}[bits]  # elements in a word: 2^share
    inside = element & ((128 << share) - 1)
    return Read(
        domain, right(element, 7 + share), right(inside, share), bits * (inside & ((1 << share) - 1)), bits, "none", element, is_pair=False
    )


def planes(domain: int, lane: Number) -> Iterator[Read]:
    """Eight single bits of a lane, in planes of 16 words; a group has 1024 lanes."""
    inside = lane & 1023
    for j in range(8):
        yield Read(domain, right(lane, 10), 16 * j + right(inside, 6), inside & 63, 1, "none", lane, is_pair=False)


def chunks(domain: int, element: Number, attempts: str, owner: Number | None = None, *, is_pair: bool = False) -> Read:
    """Chunks of eight words, all of them."""
    return Read(domain, element, 0, 0, 64, attempts, element if owner is None else owner, is_pair)


def _pair(e: Number) -> list[Read]:
    first, second = e & ~HALF, e | HALF
    words = [word(BULK, each, first, is_pair=True) for each in (first, second)]
    return words + [chunks(MORE, each, "first", first, is_pair=True) for each in (first, second)]


def _rounded(e: Number) -> list[Read]:
    own = [chunks(MORE, e, "later"), chunks(MORE_PARTNER, e, "later"), chunks(MORE_ACCEPT, e, "all")]
    return [*_pair(e), piece(ACCEPT, e, 16), *own]


READS: dict[str, Callable[[Number], list[Read]]] = {
    "laplace": lambda e: [word(BULK, e, e), chunks(MORE, e, "first")],
    "gaussian": _pair,
    "table": lambda e: [word(TABLE, e, e), chunks(MORE_TABLE, e, "first")],
    "rounded": _rounded,
    "flip": lambda e: [*planes(RESPONSE, e), chunks(MORE_RESPONSE, e, "first")],
    "bounded": lambda e: [piece(RESPONSE, e, 16), chunks(MORE_RESPONSE, e, "first")],
    "kary": lambda e: [piece(RESPONSE, e, 32), chunks(MORE_RESPONSE, e, "first")],
    "channel": lambda e: [piece(RESPONSE, e, 32), chunks(MORE_RESPONSE, e, "first")],
    "hashing": lambda e: [word(BULK, e, e), chunks(MORE, e, "first"), piece(RESPONSE, e, 32), chunks(MORE_RESPONSE, e, "first")],
    "hadamard": lambda e: [word(BULK, e, e), chunks(MORE, e, "first")],
    "projective": lambda e: [word(BULK, e, e), chunks(MORE, e, "first"), chunks(MORE_ACCEPT, e, "first")],
    "sampled": lambda e: [word(BULK, e, e), chunks(MORE, e, "first"), chunks(MORE_RESPONSE, e, "first")],
    "selection": lambda e: [piece(SELECTION, e, 16), chunks(MORE_SELECTION, e, "first")],
}
"""By kind. Discrete Laplace, uniform words and choices read as Laplace does; additive local kinds and sums as their noise."""
CALLS = [(kind,) for kind in READS] + [("table", "rounded")]
"""Kinds that one call may have."""
FIRST_STREAM = READS | {"table": READS["laplace"]}
"""The map of `stream_version` 1."""
