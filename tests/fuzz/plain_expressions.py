"""A plain reader of expressions: what SQL says of one row, in Python, for a part of the language that needs no database.

It reads the checked tree and shares nothing with what writes programs and runs them. `UNSURE` is the value of what it does not know.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from dpcore.tables.sql.syntax import Call, Column, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dpcore.tables.sql.syntax import Node

LEAST, MOST = -(2**63), 2**63 - 1
COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
}  # fmt: skip


class _Unsure:
    def __repr__(self) -> str:
        return "UNSURE"


UNSURE = _Unsure()


def value(node: Node, row: Mapping[str, Any]) -> Any:
    """The value of an expression for a row; integers of columns have 64 bits."""
    match node:
        case Column():
            return row.get(node.name, UNSURE)
        case Literal():
            return _literal(node)
        case Call():
            parts = [value(each, row) for each in node.parts]
            return UNSURE if any(part is UNSURE for part in parts) else _call(node, parts)
    return UNSURE


def _literal(node: Literal) -> Any:
    if node.is_text:
        return node.text
    if node.sql in {"true", "false"}:
        return node.sql == "true"
    if node.sql == "NULL":
        return UNSURE  # its type is that of its neighbours
    # Larger ones have another type, in which other numbers overflow.
    return int(node.text) if node.text.lstrip("-").isdecimal() and abs(int(node.text)) < 2**31 else UNSURE


def _same(parts: list[Any], *kinds: type) -> bool:
    """Whether all parts that are there are of one of these types, and of one and the same."""
    found = {type(part) for part in parts if part is not None}
    return len(found) <= 1 and found <= set(kinds)


def _call(node: Call, parts: list[Any]) -> Any:
    match node.kind:
        case "compare":
            return _compared(node.name, *parts) if _same(parts, int, str, bool) else UNSURE
        case "between":
            lower, upper = (
                _compared(sign, parts[0], end) if _same(parts, int, str) else UNSURE for sign, end in ((">=", parts[1]), ("<=", parts[2]))
            )
            return UNSURE if UNSURE in (lower, upper) else _kleene("AND", [lower, upper])
        case "in":
            return _contained(node.name, parts) if _same(parts, int, str) else UNSURE
        case "logic":
            return _kleene(node.name, parts) if _same(parts, bool) else UNSURE
        case "not":
            return UNSURE if not _same(parts, bool) else None if parts[0] is None else not parts[0]
        case "null":
            return (parts[0] is None) == (node.name == "IS NULL")
        case "coalesce":
            return next((part for part in parts if part is not None), None) if _same(parts, int, str, bool) else UNSURE
        case "case":
            return _chosen(parts)
        case "function":
            return _function(node.name, parts, node.parts)
    return UNSURE


def _compared(sign: str, one: Any, other: Any) -> Any:
    if sign == "IS DISTINCT FROM":
        return one != other
    if sign == "IS NOT DISTINCT FROM":
        return one == other
    if one is None or other is None:
        return None
    if isinstance(one, str):
        one, other = one.encode(), other.encode()
    return COMPARED[sign](one, other)


def _contained(name: str, parts: list[Any]) -> Any:
    first, others = parts[0], parts[1:]
    if first is None:
        return None
    found = True if first in [each for each in others if each is not None] else None if None in others else False
    return found if name == "IN" or found is None else not found


def _kleene(name: str, parts: list[Any]) -> Any:
    decisive = name == "OR"
    if any(part is decisive for part in parts):
        return decisive
    return None if None in parts else not decisive


def _chosen(parts: list[Any]) -> Any:
    values = [*parts[1::2][: len(parts) // 2], parts[-1]]
    if not _same(parts[:-1:2], bool) or not _same(values, int, str, bool):
        return UNSURE
    return next((then for when, then in zip(parts[:-1:2], parts[1::2], strict=True) if when is True), parts[-1])


def _function(name: str, parts: list[Any], nodes: tuple[Node, ...]) -> Any:
    if name in {"+", "-", "*"} and len(parts) == 2 and _same(parts, int) and any(isinstance(each, Column) for each in nodes):
        if None in parts:
            return None
        found = {"+": operator.add, "-": operator.sub, "*": operator.mul}[name](*parts)
        return found if LEAST <= found <= MOST else None
    if name in {"greatest", "least"} and _same(parts, int) and all(isinstance(each, Column) for each in nodes):
        there = [part for part in parts if part is not None]
        return None if not there else max(there) if name == "greatest" else min(there)
    if not _same(parts, str) or None in parts:
        return None if parts and None in parts and _same(parts, str) and name in TEXTS else UNSURE
    return TEXTS[name](*parts) if name in TEXTS and len(parts) == COUNTS[name] else UNSURE


TEXTS: dict[str, Callable[..., Any]] = {
    "length": len,
    "len": len,
    "strlen": lambda text: len(text.encode()),
    "starts_with": str.startswith,
    "prefix": str.startswith,
    "ends_with": str.endswith,
    "suffix": str.endswith,
    "contains": operator.contains,
    "||": operator.add,
    "instr": lambda text, part: text.find(part) + 1,
    "strpos": lambda text, part: text.find(part) + 1,
    "ascii": lambda text: ord(text[0]) if text and ord(text[0]) < 128 else UNSURE if text else 0,
    "lower": lambda text: text.lower() if text.isascii() else UNSURE,
    "upper": lambda text: text.upper() if text.isascii() else UNSURE,
    "reverse": lambda text: text[::-1] if text.isascii() else UNSURE,
}
"""Functions of text of which SQL's meaning is Python's."""
COUNTS = {name: 2 if name in {"starts_with", "prefix", "ends_with", "suffix", "contains", "||", "instr", "strpos"} else 1 for name in TEXTS}
