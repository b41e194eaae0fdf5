"""Events in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dpcore._dataclasses import dataclass

MOST_PIECES, MOST_CODES = 6, 4
"""Intervals, and codes in words, that a description lists."""


@dataclass(frozen=True, slots=True)
class Piece:
    """An interval of integers or floats.

    Attributes
    ----------
    low, high : number or None
        Ends; None is infinity.
    with_low, with_high : bool
        Whether the ends belong to it.
    """

    low: Any
    high: Any
    with_low: bool = True
    with_high: bool = True

    def __str__(self) -> str:
        if self.low is not None and self.low == self.high:
            return f"{{{self.low!r}}}"
        left = "(−∞" if self.low is None else f"{'[' if self.with_low else '('}{self.low!r}"
        return f"{left}, " + ("∞)" if self.high is None else f"{self.high!r}{']' if self.with_high else ')'}")

    def holds(self, code: int) -> bool:
        """Whether an integer is in an interval of integers."""
        return (self.low is None or code >= self.low) and (self.high is None or code <= self.high)


def interval_words(pieces: Sequence[Piece]) -> str:
    """Describe where a number lies: "is at most 0.5", "lies in {1} ∪ [3, 7)".

    Examples
    --------
    >>> interval_words([Piece(None, 0.5)]), interval_words([Piece(100, 100)]), interval_words([Piece(1.0, None, with_low=False)])
    ('is at most 0.5', 'is 100', 'is above 1.0')
    """
    if len(pieces) == 1:
        (piece,) = pieces
        if piece.low is not None and piece.low == piece.high:
            return f"is {piece.low!r}"
        if piece.low is None and piece.high is not None:
            return f"is {'at most' if piece.with_high else 'below'} {piece.high!r}"
        if piece.high is None and piece.low is not None:
            return f"is {'at least' if piece.with_low else 'above'} {piece.low!r}"
    more = f" ∪ … ({len(pieces)} pieces)" if len(pieces) > MOST_PIECES else ""
    return "lies in " + (" ∪ ".join(map(str, pieces[:MOST_PIECES])) or "∅") + more


def code_words(meanings: Mapping[int, str]) -> Callable[[Sequence[Piece]], str]:
    """Return a function that describes a set of codes by the meanings of its members."""

    def words(pieces: Sequence[Piece]) -> str:
        found = [meaning for code, meaning in meanings.items() if any(piece.holds(code) for piece in pieces)]
        more = f"; or {len(found) - MOST_CODES} further cases" if len(found) > MOST_CODES else ""
        return "; or ".join(found[:MOST_CODES]) + more

    return words


def support_words() -> dict[int, str]:
    """Meanings of 2·(supports x0) + (supports x1)."""
    return {
        0: "the report supports neither x0 nor x1",
        1: "the report supports x1 and not x0",
        2: "the report supports x0 and not x1",
        3: "the report supports both x0 and x1",
    }


SIDES = {
    frozenset({0}): "lies below both inputs",
    frozenset({1}): "lies between the inputs",
    frozenset({2}): "lies above both inputs",
    frozenset({0, 1}): "does not lie above both inputs",
    frozenset({1, 2}): "does not lie below both inputs",
    frozenset({0, 2}): "does not lie between the inputs",
}
SUMS = {
    frozenset({0}): "is not {x} plus a float",
    frozenset({1}): "is {x} plus a float only after rounding",
    frozenset({3}): "is exactly {x} plus a float",
    frozenset({0, 1}): "is not exactly {x} plus a float",
    frozenset({1, 3}): "is {x} plus a float",
    frozenset({0, 3}): "is {x} plus a float exactly or not at all",
}
"""Words for sets of codes; the set of all codes needs no words. A difference that is a float is exact, so that bit 2 comes with bit 1."""
Codes = frozenset[int]


def sum_words(name: str) -> Callable[[Sequence[Piece]], str]:
    """Return a function that describes sets of the codes of `_low_bits.representable`."""

    def words(pieces: Sequence[Piece]) -> str:
        held = {
            (side, a, b)
            for side in range(3)
            for a in (0, 1, 3)
            for b in (0, 1, 3)
            if any(piece.holds(16 * side + 4 * a + b) for piece in pieces)
        }
        found = [f"{name} {_sum_case(*case)}" for case in _boxes(held)]
        more = f"; or {len(found) - MOST_CODES} further cases" if len(found) > MOST_CODES else ""
        return "; or ".join(found[:MOST_CODES]) + more

    return words


def _boxes(held: set[tuple[int, int, int]]) -> list[tuple[Codes, Codes, Codes]]:
    """Divide a set of (side, a, b) into products of sets: join the a's with equal (side, b), then the sides with equal b."""
    of_a: dict[frozenset[tuple[int, int]], set[int]] = {}
    for a in sorted({a for _, a, _ in held}):
        of_a.setdefault(frozenset((side, b) for side, other, b in held if other == a), set()).add(a)
    boxes = []
    for rest, every in of_a.items():
        of_side: dict[Codes, set[int]] = {}
        for side in sorted({side for side, _ in rest}):
            of_side.setdefault(frozenset(b for other, b in rest if other == side), set()).add(side)
        boxes += [(frozenset(sides), frozenset(every), bs) for bs, sides in of_side.items()]
    return boxes


def _sum_case(sides: Codes, a: Codes, b: Codes) -> str:
    parts = [SIDES.get(sides, ""), SUMS.get(a, "").format(x="x0"), SUMS.get(b, "").format(x="x1")]
    return " and ".join(part for part in parts if part) or "is any number"


def inverse_words(name: str, scale: float) -> dict[int, str]:
    """Meanings of the codes of `_low_bits.reachable`."""
    sampler = f"±{scale:g}·ln(v/2⁵²) for an integer v"
    return {
        0: f"{name} is neither x0 nor x1 {sampler}",
        1: f"{name} is x1 {sampler}, and is not so from x0",
        2: f"{name} is x0 {sampler}, and is not so from x1",
        3: f"{name} is both x0 and x1 {sampler}",
    }


def zeros_words(name: str) -> Callable[[Sequence[Piece]], str]:
    """Return a function that describes sets of the codes of `_low_bits.trailing_zeros`."""

    def words(pieces: Sequence[Piece]) -> str:
        more = f"; or {len(pieces) - MOST_CODES} further cases" if len(pieces) > MOST_CODES else ""
        return f"{name} {'; or '.join(map(_zeros_piece, pieces[:MOST_CODES]))}{more}"

    return words


def _zeros_piece(piece: Piece) -> str:
    special = {-3: "is not finite", -2: "is −0", -1: "is 0"}
    found = [words for code, words in special.items() if piece.holds(code)]
    if piece.high is None or piece.high >= 0:
        found.append(_binade(piece.low if piece.low is not None and piece.low >= 0 else None, piece.high))
    return "; or ".join(found)


def _binade(low: int | None, high: int | None) -> str:
    """Binades and zeros from one code to another one."""
    first = None if low is None else (low // 64 - 1074, low % 64)
    last = None if high is None else (high // 64 - 1074, high % 64)
    if first is not None and last is not None and first[0] == last[0]:
        zeros = str(first[1]) if first[1] == last[1] else f"{first[1]} to {last[1]}"
        return f"lies in ±[2^{first[0]}, 2^{first[0] + 1}) and its 53-bit mantissa ends in {zeros} zeros"
    left = "" if first is None else f"from ±2^{first[0]} with {first[1]} zeros at the end of the mantissa"
    right = "" if last is None else f"up to ±2^{last[0]} with {last[1]} zeros at the end of the mantissa"
    return "lies " + (" ".join(part for part in (left, right) if part) or "anywhere else")
