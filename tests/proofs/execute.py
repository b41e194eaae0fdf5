"""Symbolic execution of the kernels' C: a function of given operands becomes the trees of what it returns and stores.

It knows the C that the lanes are written in, and refuses all else. Loops run with the counts they are given; a branch on data is an
assumption if it only leaves the function, and an error otherwise.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pycparser import c_ast

from proofs.c_source import Source
from proofs.trees import ON_BITS, ON_NUMBERS, TRUTHS, Node, node, signed


class RefusedError(Exception):
    """C that the translator does not understand, which nothing is proved of."""


@dataclass(frozen=True)
class Type:
    """A type of C: a number, an integer, a pointer, an array or a structure."""

    kind: str
    width: int = 0
    is_signed: bool = False
    of: Any = None
    size: int = 0


DOUBLE = Type("double")
INT = Type("int", 32, is_signed=True)
UINT64 = Type("int", 64)
SIZES = {"char": (8, True), "short": (16, True), "int": (32, True), "long": (64, True), "_Bool": (8, False)}


@dataclass
class Cell:
    """A variable, an element or a field."""

    type: Type
    value: Any = None


@dataclass(frozen=True)
class Pointer:
    """A place in an array; a scalar is an array of one."""

    cells: Any
    at: int = 0


@dataclass(frozen=True)
class Unknown:
    """An array whose elements are not known: reading one gives a node of its index."""

    name: str
    type: Type


@dataclass(frozen=True)
class Value:
    """What an expression gives: an operand of the trees, a pointer, or the fields of a structure."""

    type: Type
    x: Any


class _LeftError(Exception):
    """A return statement."""

    def __init__(self, value: Value | None) -> None:
        self.value = value


class _NextError(Exception):
    """A continue statement."""


Handler = Callable[["Execution", list[Value]], Any]


@dataclass
class Execution:
    """One run of a function.

    Attributes
    ----------
    source : Source
        The sources.
    opaque : dict
        Functions that are not entered, with what stands for their calls.
    called : list
        Calls in order: name, operands, and the value.
    assumed : list
        Conditions on data under which the function went on.
    """

    source: Source
    opaque: dict[str, Handler] = field(default_factory=dict)
    called: list[tuple[str, list[Any], Any]] = field(default_factory=list)
    assumed: list[Any] = field(default_factory=list)

    # Types

    def type_of(self, declared: Any) -> Type:
        """The type that a declaration names."""
        if isinstance(declared, (c_ast.Typename, c_ast.Decl, c_ast.TypeDecl)):
            return self.type_of(declared.type)
        if isinstance(declared, c_ast.PtrDecl):
            return Type("pointer", of=declared.type)
        if isinstance(declared, c_ast.ArrayDecl):
            return Type("array", of=self.type_of(declared.type), size=self.integer(declared.dim))
        if isinstance(declared, c_ast.Struct):
            return Type("struct", of=declared.name)
        if isinstance(declared, c_ast.Enum):
            return INT
        if not isinstance(declared, c_ast.IdentifierType):
            raise RefusedError(f"a declaration of type {type(declared).__name__}")
        names = list(declared.names)
        if names == ["double"]:
            return DOUBLE
        if names == ["void"]:
            return Type("void")
        if len(names) == 1 and names[0] in self.source.structs:
            return Type("struct", of=names[0])
        if len(names) == 1 and names[0] in self.source.typedefs:
            return self.type_of(self.source.typedefs[names[0]])
        base = [n for n in names if n not in {"signed", "unsigned"}] or ["int"]
        base = base[:1] if set(base) <= {"long"} else base
        if len(base) == 1 and base[0] in SIZES:
            width, is_signed = SIZES[base[0]]
            return Type("int", width, is_signed and "unsigned" not in names)
        raise RefusedError(f"a number of type {' '.join(names)}")

    def parameter_type(self, parameter: Any) -> Type:
        """The type of a parameter: an array is a pointer to its first element."""
        if isinstance(parameter.type, c_ast.ArrayDecl):
            return Type("pointer", of=parameter.type.type)
        return self.type_of(parameter.type)

    def new(self, kind: Type) -> Cell:
        """A variable without a value."""
        if kind.kind == "array":
            return Cell(kind, [self.new(kind.of) for _ in range(kind.size)])
        if kind.kind == "struct":
            return Cell(kind, {name: self.new(self.type_of(of)) for name, of in self.source.structs[kind.of]})
        return Cell(kind)

    # Conversions

    def converted(self, value: Value, to: Type) -> Value:
        """The value as another type has it."""
        if to.kind in {"pointer", "void", "struct"}:
            return Value(to, value.x)
        if value.type.kind == "pointer" or to.kind not in {"int", "double"}:
            raise RefusedError(f"a conversion from {value.type.kind} to {to.kind}")
        x = value.x
        if to.kind == "double":
            if value.type.kind == "double":
                return value
            return Value(DOUBLE, self._to_double(x, value.type))
        if value.type.kind == "double":
            if not isinstance(x, float):
                raise RefusedError("a conversion of a number to an integer")
            return Value(to, int(x) & ((1 << to.width) - 1))
        return Value(to, self._resized(x, value.type, to))

    @staticmethod
    def _to_double(x: Any, kind: Type) -> Any:
        if not isinstance(x, Node):
            return float(signed(x, kind.width) if kind.is_signed else x)
        if x.op in TRUTHS:
            return node("select", x, 1.0, 0.0)
        return node("from_signed" if kind.is_signed else "from_unsigned", x, width=kind.width)

    @staticmethod
    def _resized(x: Any, kind: Type, to: Type) -> Any:
        if isinstance(x, Node) and x.op in TRUTHS:
            return x
        if not isinstance(x, Node):
            return (signed(x, kind.width) if kind.is_signed else x) & ((1 << to.width) - 1)
        if to.width == kind.width:
            return x
        if to.width < kind.width:
            return node("cut", x, width=to.width)
        return (
            node("sign_extended", x, kind.width, width=to.width) if kind.is_signed else node("zero_extended", x, kind.width, width=to.width)
        )

    def _number(self, value: Value) -> Any:
        """An operand of an operation on integers: truth values count as 0 and 1."""
        if isinstance(value.x, Node) and value.x.op in TRUTHS:
            return node("truth", value.x, width=value.type.width)
        return value.x

    def truth(self, value: Value) -> Any:
        """Whether a value is not 0: True, False, or a node."""
        x = value.x
        if value.type.kind == "pointer":
            return x is not None
        if not isinstance(x, Node):
            return bool(x)
        if x.op in TRUTHS:
            return x
        if value.type.kind != "int":
            raise RefusedError("a number as a condition")
        return node("negation", node("eq", x, 0, width=value.type.width))

    # Operations

    def operation(self, op: str, *args: Any) -> Any:
        """An operation on numbers; of constants its result."""
        if op != "fma" and not any(isinstance(a, Node) for a in args):
            return ON_NUMBERS[op](*args)
        return node(op, *args)

    def on_bits(self, op: str, *args: Any, width: int) -> Any:
        """An operation on integers; of constants its result."""
        if not any(isinstance(a, Node) for a in args):
            found = ON_BITS[op](*args, width)
            return int(found) if op in TRUTHS else found & ((1 << width) - 1)
        return node(op, *args, width=width)

    def binary(self, op: str, a: Value, b: Value) -> Value:
        """A binary operator of C."""
        if a.type.kind == "pointer" or b.type.kind == "pointer":
            return self._of_pointers(op, a, b)
        if "double" in {a.type.kind, b.type.kind}:
            return self._of_numbers(op, self.converted(a, DOUBLE).x, self.converted(b, DOUBLE).x)
        both_truths = all(isinstance(v.x, Node) and v.x.op in TRUTHS for v in (a, b))
        if op in {"&", "|"} and both_truths:
            return Value(INT, node("both" if op == "&" else "either", a.x, b.x))
        if op == "^" and b.x == 1 and isinstance(a.x, Node) and a.x.op in TRUTHS:
            return Value(INT, node("negation", a.x))
        return self._of_integers(op, a, b)

    def _of_pointers(self, op: str, a: Value, b: Value) -> Value:
        if op == "+" and a.type.kind == "pointer" and isinstance(b.x, int):
            by = signed(b.x, b.type.width) if b.type.is_signed else b.x
            return Value(a.type, Pointer(a.x.cells, a.x.at + by))
        if op in {"==", "!="} and (a.x is None or b.x is None or 0 in {a.x, b.x}):
            same = (a.x or None) is None and (b.x or None) is None
            return Value(INT, int(same == (op == "==")))
        raise RefusedError(f"an operation {op} on pointers")

    def _of_numbers(self, op: str, a: Any, b: Any) -> Value:
        plain = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
        if op in plain:
            return Value(DOUBLE, self.operation(plain[op], a, b))
        compared = {"<": ("flt", a, b), ">": ("flt", b, a), "<=": ("fle", a, b), ">=": ("fle", b, a), "==": ("feq", a, b)}
        if op in compared:
            return Value(INT, self.operation(*compared[op]))
        raise RefusedError(f"an operation {op} on numbers")

    def _of_integers(self, op: str, a: Value, b: Value) -> Value:
        if op in {"<<", ">>"}:
            kind = self.promoted(a.type)
            x, y = self._number(self.converted(a, kind)), self._number(self.converted(b, kind))
            name = "left" if op == "<<" else "arithmetic_right" if kind.is_signed else "right"
            return Value(kind, self.on_bits(name, x, y, width=kind.width))
        kind = self.common(a.type, b.type)
        x, y = self._number(self.converted(a, kind)), self._number(self.converted(b, kind))
        plain = {"+": "plus", "-": "minus", "*": "times", "&": "and", "|": "or", "^": "xor"}
        if op in plain:
            return Value(kind, self.on_bits(plain[op], x, y, width=kind.width))
        less = "less" if kind.is_signed else "below"
        if op in {"<", ">"}:
            return Value(INT, self.on_bits(less, *((x, y) if op == "<" else (y, x)), width=kind.width))
        if op in {"<=", ">=", "!="}:
            pair = {"<=": (less, y, x), ">=": (less, x, y), "!=": ("eq", x, y)}[op]
            found = self.on_bits(*pair, width=kind.width)
            return Value(INT, node("negation", found) if isinstance(found, Node) else int(not found))
        if op == "==":
            return Value(INT, self.on_bits("eq", x, y, width=kind.width))
        if op in {"/", "%"} and isinstance(x, int) and isinstance(y, int) and not kind.is_signed:
            return Value(kind, x // y if op == "/" else x % y)
        if op in {"/", "%"} and isinstance(x, int) and isinstance(y, int) and x >> 31 == 0 and y >> 31 == 0:
            return Value(kind, x // y if op == "/" else x % y)
        raise RefusedError(f"an operation {op} on integers")

    @staticmethod
    def promoted(kind: Type) -> Type:
        return INT if kind.width < 32 else kind

    def common(self, a: Type, b: Type) -> Type:
        a, b = self.promoted(a), self.promoted(b)
        if a.width != b.width:
            return a if a.width > b.width else b
        return a if not a.is_signed else b

    # Functions

    def call(self, name: str, *given: Any) -> Any:
        """Run a function of the sources on operands; returns its value's operand, a Pointer or the fields of a structure."""
        function = self.source.functions.get(name)
        if function is None:
            raise RefusedError(f"the function {name} is not in the sources")
        parameters = list(function.decl.type.args.params) if function.decl.type.args else []
        values = []
        for parameter, x in zip(parameters, given, strict=True):
            kind = self.parameter_type(parameter)
            values.append(x if isinstance(x, Value) else Value(kind, x))
        found = self._enter(name, values)
        return None if found is None else found.x

    def _enter(self, name: str, given: list[Value]) -> Value | None:
        function = self.source.functions[name]
        declared = function.decl.type
        frame: dict[str, Cell] = {}
        parameters = declared.args.params if declared.args else []
        for parameter, value in zip(parameters, given, strict=True):
            kind = self.parameter_type(parameter)
            frame[parameter.name] = Cell(kind, self.converted(value, kind).x)
        returned = self.type_of(declared.type)
        try:
            self.run(function.body, frame)
        except _LeftError as left:
            found = left.value
            if found is None or returned.kind == "void":
                return None
            return self.converted(found, returned)
        if returned.kind != "void":
            raise RefusedError(f"{name} ends without a value")
        return None

    def run(self, statement: Any, frame: dict[str, Cell]) -> None:
        """Execute a statement."""
        handler = getattr(self, f"_run_{type(statement).__name__.lower()}", None)
        if handler is not None:
            handler(statement, frame)
        else:
            self.evaluate(statement, frame)

    def _run_compound(self, statement: Any, frame: dict[str, Cell]) -> None:
        inner = _Scope(frame)
        for each in statement.block_items or []:
            self.run(each, inner)

    def _run_declist(self, statement: Any, frame: dict[str, Cell]) -> None:
        for each in statement.decls:
            self.run(each, frame)

    _run_decllist = _run_declist

    def _run_decl(self, statement: Any, frame: dict[str, Cell]) -> None:
        if isinstance(statement.type, c_ast.Enum):
            last: Any = None
            for one in statement.type.values.enumerators:
                last = one.value if one.value is not None else ("after", last)
                _declare(frame, one.name, Cell(INT, self.integer(last)))
            return
        kind = self.type_of(statement.type)
        cell = self.new(kind)
        if statement.init is not None:
            self._initialise(cell, statement.init, frame)
        _declare(frame, statement.name, cell)

    def _initialise(self, cell: Cell, given: Any, frame: dict[str, Cell]) -> None:
        if not isinstance(given, c_ast.InitList):
            cell.value = self._stored(self.converted(self.evaluate(given, frame), cell.type))
            return
        parts = list(cell.value.values()) if cell.type.kind == "struct" else cell.value
        for part, each in zip(parts, given.exprs, strict=False):
            self._initialise(part, each, frame)
        for part in parts[len(given.exprs) :]:
            self._zero(part)

    def _zero(self, cell: Cell) -> None:
        if cell.type.kind == "double":
            cell.value = 0.0
        elif cell.type.kind == "int":
            cell.value = 0
        elif cell.type.kind == "array":
            for each in cell.value:
                self._zero(each)
        else:
            raise RefusedError("a structure that is partly initialised")

    @staticmethod
    def _stored(value: Value) -> Any:
        if value.type.kind == "struct":
            return {name: Cell(cell.type, cell.value) for name, cell in value.x.items()}
        return value.x

    def _run_return(self, statement: Any, frame: dict[str, Cell]) -> None:
        raise _LeftError(None if statement.expr is None else self.evaluate(statement.expr, frame))

    def _run_continue(self, statement: Any, frame: dict[str, Cell]) -> None:
        raise _NextError

    def _run_emptystatement(self, statement: Any, frame: dict[str, Cell]) -> None:
        return

    def _run_if(self, statement: Any, frame: dict[str, Cell]) -> None:
        condition = self.truth(self.evaluate(statement.cond, frame))
        if isinstance(condition, Node):
            leaves = isinstance(statement.iftrue, c_ast.Return) and statement.iffalse is None
            if not leaves:
                raise RefusedError("a branch on data")
            self.assumed.append(node("negation", condition))
        elif condition:
            self.run(statement.iftrue, frame)
        elif statement.iffalse is not None:
            self.run(statement.iffalse, frame)

    def _loop(self, condition: Any, after: Any, body: Any, frame: dict[str, Cell]) -> None:
        for _ in range(1 << 16):
            there = True if condition is None else self.truth(self.evaluate(condition, frame))
            if isinstance(there, Node):
                raise RefusedError("a loop whose length depends on data")
            if not there:
                return
            with contextlib.suppress(_NextError):
                self.run(body, frame)
            if after is not None:
                self.evaluate(after, frame)
        raise RefusedError("a loop that does not end")

    def _run_for(self, statement: Any, frame: dict[str, Cell]) -> None:
        inner = _Scope(frame)
        if statement.init is not None:
            self.run(statement.init, inner)
        self._loop(statement.cond, statement.next, statement.stmt, inner)

    def _run_while(self, statement: Any, frame: dict[str, Cell]) -> None:
        self._loop(statement.cond, None, statement.stmt, frame)

    # Expressions: in expressions.py

    def evaluate(self, expression: Any, frame: Any) -> Value:
        """The value of an expression."""
        from proofs.expressions import evaluate

        return evaluate(self, expression, frame)

    def integer(self, expression: Any, frame: Any = None) -> int:
        """The value of a constant expression."""
        if expression is None:
            return 0
        if isinstance(expression, tuple):
            return 0 if expression[1] is None else self.integer(expression[1]) + 1
        value = self.evaluate(expression, frame if frame is not None else {})
        if value.type.kind != "int" or not isinstance(value.x, int):
            raise RefusedError("a size that is no constant")
        return signed(value.x, value.type.width) if value.type.is_signed else value.x


class _Scope(dict):  # type: ignore[type-arg]
    """Variables of a block, with those around it behind them."""

    def __init__(self, around: Any) -> None:
        super().__init__()
        self.around = around

    def __missing__(self, name: str) -> Cell:
        return self.around[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.around


def _declare(frame: Any, name: str, cell: Cell) -> None:
    frame[name] = cell
