"""What a lemma is, and what its proof may ask for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from pycparser import c_parser

from proofs.c_source import KERNELS, Source, levels, read
from proofs.execute import DOUBLE, Cell, Execution, Pointer, RefusedError, Type, Value
from proofs.trees import Node, node, variable

U = Fraction(1, 2**53)
"""The rounding unit of float64."""
How = Literal["machine", "hand", "measured"]


class ProofError(Exception):
    """A lemma whose proof does not go through."""


@dataclass(frozen=True)
class Context:
    """What is proved about: a folder with the sources of the kernels, as each CPU level compiles them."""

    kernels: Path = KERNELS

    @property
    def levels(self) -> tuple[str, ...]:
        return tuple(levels())

    def source(self, level: str) -> Source:
        return read(self.kernels, level)

    def text(self, file: str) -> str:
        """A file of the kernels in one line, with its comments."""
        return re.sub(r"\s+", " ", (self.kernels / file).read_text(encoding="utf-8"))

    def stated(self, file: str, pattern: str) -> tuple[Fraction, ...]:
        """Numbers that a comment states."""
        found = re.search(pattern, self.text(file))
        if found is None:
            raise ProofError(f"{file} does not state {pattern!r}")
        return tuple(Fraction(group) for group in found.groups())

    def constants(self, level: str) -> dict[str, Fraction]:
        """The constants of the error bounds in core/noise.c."""
        found = re.search(r"static const double (ALPHA = [^;]*);", self.text("core/noise.c"))
        if found is None:
            raise ProofError("core/noise.c has no constants of an error bound")
        run = Execution(self.source(level))
        tree = c_parser.CParser().parse(f"static const double {found[1]};")
        return {each.name: Fraction(run.evaluate(each.init, {}).x) for each in tree.ext}

    def says(self, file: str, text: str) -> None:
        """Raise ProofError unless a file has this text, whatever its line breaks."""
        if re.sub(r"\s+", " ", text) not in self.text(file):
            raise ProofError(f"{file} no longer has the text that the lemma is about: {text}")


@dataclass(frozen=True)
class Lemma:
    """One statement about the kernels or the engine.

    Attributes
    ----------
    name : str
        A short name.
    statement : str
        What holds, in words and formulas.
    how : str
        Whether it is proved by machine, by hand, or measured.
    by : str
        What proves it: Gappa, Sollya, z3, fractions, enumeration; or where the proof or measurement is.
    functions : tuple of str
        Functions of the kernels that it is about.
    check : callable
        Raises where the proof fails; None where nothing runs.
    """

    name: str
    statement: str
    how: How
    by: str
    functions: tuple[str, ...] = ()
    check: Callable[[Context], None] | None = field(default=None, compare=False)


# What the lanes' own lemmas share


def lane_call(name: str, *parts: str) -> Callable[[Execution, list[Value]], Any]:
    """Stand for a call of a lane: a node of its name for its value, and one for each place that it writes to."""

    def handler(run: Execution, given: list[Value]) -> Any:
        numbers = [v.x for v in given if v.type.kind != "pointer"]
        for part, v in zip(parts, [v for v in given if v.type.kind == "pointer"], strict=True):
            v.x.cells[v.x.at].value = node(f"call:{name}.{part}", *numbers)
        return node(f"call:{name}", *numbers)

    return handler


CONVERSIONS = {name: lane_call(name) for name in ("from_int64", "fraction_from_int64", "nearest", "nearest_small")}
REDUCE = {"reduce": lane_call("reduce", "power")}


def number_cell() -> Cell:
    return Cell(DOUBLE)


def pointer_to(*cells: Cell) -> Pointer:
    return Pointer(list(cells))


def word(name: str) -> Node:
    """A random word."""
    return variable(name, width=64)


def muladd_of(x: Any) -> tuple[Any, Any, Any]:
    """The operands a, b, c of a·b + c, fused or not."""
    if isinstance(x, Node) and x.op == "fma":
        return x.args[0], x.args[1], x.args[2]
    if isinstance(x, Node) and x.op == "add" and isinstance(x.args[0], Node) and x.args[0].op == "mul":
        return (*x.args[0].args, x.args[1])
    raise RefusedError(f"{getattr(x, 'op', x)} where the lemma has a product and a sum")


def operands_of(x: Any, op: str) -> tuple[Any, ...]:
    """The operands of an operation of this name."""
    if not isinstance(x, Node) or x.op != op:
        raise RefusedError(f"{getattr(x, 'op', x)} where the lemma has {op}")
    return x.args


def same(found: Any, expected: Any, what: str) -> None:
    """Raise RefusedError unless both are one."""
    equal = found is expected if isinstance(expected, Node) else type(found) is type(expected) and found == expected
    if not equal:
        raise RefusedError(f"{what} is not what the lemma is about")


def called(run: Execution, name: str) -> Any:
    """The value of the last call of a function."""
    for each, _, value in reversed(run.called):
        if each == name:
            return value
    raise RefusedError(f"{name} is not called")


def structure(run: Execution, name: str, **fields: Any) -> Pointer:
    """A pointer to a structure with these fields; the others have no value."""
    cell = run.new(Type("struct", of=name))
    for key, value in fields.items():
        cell.value[key].value = value
    return Pointer([cell])
