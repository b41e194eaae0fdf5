"""Trees of operations: what the lanes of the kernels compute, as data. Equal trees are one object."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Operand = Any
"""A node, or a constant: a float, or an integer of the width that its operation names."""


@dataclass(frozen=True, eq=False)
class Node:
    """An operation on operands. Those on numbers round to float64 once."""

    op: str
    args: tuple[Operand, ...]
    width: int = 0

    def __repr__(self) -> str:
        width = str(self.width) if self.width else ""
        return f"{self.op}{width}({', '.join(map(repr, self.args))})" if self.args else self.op


_made: dict[tuple[Any, ...], Node] = {}


def node(op: str, *args: Operand, width: int = 0) -> Node:
    """Return the node of this operation, the same one each time."""
    key = (op, width, *((type(a), id(a) if isinstance(a, Node) else a, math.copysign(1, a) if isinstance(a, float) else 0) for a in args))
    if key not in _made:
        _made[key] = Node(op, args, width)
    return _made[key]


def variable(name: str, width: int = 0) -> Node:
    """Return a variable: a number, or an integer of so many bits."""
    return node("variable", name, width=width)


def nodes_of(*roots: Operand) -> list[Node]:
    """All nodes below the roots, operands first."""
    found: dict[Node, None] = {}
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(roots) if isinstance(root, Node)]
    while stack:
        here, is_left = stack.pop()
        if here in found:
            continue
        if is_left:
            found[here] = None
        else:
            stack.append((here, True))
            stack.extend((arg, False) for arg in reversed(here.args) if isinstance(arg, Node))
    return list(found)


def leaves(*roots: Operand) -> Iterator[Node]:
    """Variables below the roots."""
    return (each for each in nodes_of(*roots) if each.op == "variable")


def replaced(root: Operand, by: Mapping[Operand, Operand]) -> Operand:
    """The tree with some nodes replaced by others."""
    done: dict[Node, Operand] = {}
    for each in nodes_of(root):
        if each in by:
            done[each] = by[each]
        elif each.op == "variable":
            done[each] = each
        else:
            done[each] = node(each.op, *(done[a] if isinstance(a, Node) else a for a in each.args), width=each.width)
    return done[root] if isinstance(root, Node) else root


# The semantics: what IEEE 754 and C say that each operation gives


def bits_of(x: float) -> int:
    return int.from_bytes(struct.pack("<d", x), "little")


def double_of(bits: int) -> float:
    return struct.unpack("<d", bits.to_bytes(8, "little"))[0]


def rounded(exact: Fraction) -> float:
    """The nearest float64, ties to even."""
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.copysign(math.inf, exact)


def _fused(a: float, b: float, c: float) -> float:
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return rounded(exact) if exact else a * b + c


def _quotient(a: float, b: float) -> float:
    if b != 0.0:
        return a / b
    return math.nan if a == 0.0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _nearest(x: float) -> float:
    return math.copysign(float(round(x)), x) if math.isfinite(x) else x


def signed(x: int, width: int) -> int:
    """The integer that the bits stand for in two's complement."""
    return x - (1 << width) if x >> (width - 1) else x


ON_NUMBERS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _quotient,
    "neg": lambda a: -a,
    "abs": abs,
    "sqrt": lambda a: math.sqrt(a) if a >= 0 else math.nan,
    "fma": _fused,
    "rint": _nearest,
    "flt": lambda a, b: a < b,
    "fle": lambda a, b: a <= b,
    "feq": lambda a, b: a == b,
    "of_bits": double_of,
    "to_bits": bits_of,
}
"""Operations on numbers; the comparisons give truth values, `to_bits` and `of_bits` change the reading of 64 bits."""
ON_BITS = {
    "plus": lambda a, b, w: a + b,
    "minus": lambda a, b, w: a - b,
    "times": lambda a, b, w: a * b,
    "and": lambda a, b, w: a & b,
    "or": lambda a, b, w: a | b,
    "xor": lambda a, b, w: a ^ b,
    "not": lambda a, w: ~a,
    "left": lambda a, b, w: a << b if b < w else 0,
    "right": lambda a, b, w: a >> b,
    "arithmetic_right": lambda a, b, w: signed(a, w) >> b,
    "eq": lambda a, b, w: a == b,
    "below": lambda a, b, w: a < b,
    "less": lambda a, b, w: signed(a, w) < signed(b, w),
}
"""Operations on integers modulo 2^width; the last three give truth values."""
TRUTHS = {"flt", "fle", "feq", "eq", "below", "less", "both", "either", "negation"}


def value_of(root: Operand, given: Mapping[str, Any]) -> Any:
    """Evaluate a tree with IEEE 754 and two's complement, given its variables by name."""
    done: dict[Node, Any] = {}
    for each in nodes_of(root):
        if each.op == "variable":
            done[each] = given[each.args[0]]
        else:
            done[each] = _result(each, [done[a] if isinstance(a, Node) else a for a in each.args])
    return done[root] if isinstance(root, Node) else root


OTHERS = {
    "select": lambda args, w: args[1] if args[0] else args[2],
    "both": lambda args, w: all(args),
    "either": lambda args, w: any(args),
    "negation": lambda args, w: not args[0],
    "truth": lambda args, w: int(args[0]),
    "from_signed": lambda args, w: float(signed(args[0], w)),
    "from_unsigned": lambda args, w: float(args[0]),
    "zero_extended": lambda args, w: args[0],
    "cut": lambda args, w: args[0] & ((1 << w) - 1),
    "sign_extended": lambda args, w: signed(args[0], args[1]) & ((1 << w) - 1),
}
"""Choices and conversions, given the operands and the width."""


def _result(each: Node, args: list[Any]) -> Any:
    if each.op in ON_NUMBERS:
        return ON_NUMBERS[each.op](*args)
    if each.op in ON_BITS:
        found = ON_BITS[each.op](*args, each.width)
        return found if each.op in TRUTHS else found & ((1 << each.width) - 1)
    if each.op in OTHERS:
        return OTHERS[each.op](args, each.width)
    raise ValueError(f"nothing evaluates {each.op}")


def operand_of(root: Operand, op: str) -> tuple[Operand, ...]:
    """The operands of an operation of this name; raises ValueError for another one."""
    if not isinstance(root, Node) or root.op != op:
        raise ValueError(f"{getattr(root, 'op', root)} where {op} was expected")
    return root.args
