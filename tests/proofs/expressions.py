"""The expressions of C that the lanes are written in."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from proofs.execute import DOUBLE, INT, UINT64, Cell, Execution, Pointer, RefusedError, Type, Unknown, Value
from proofs.trees import Node, node

NUMBER_FUNCTIONS = {"fabs": "abs", "sqrt": "sqrt", "__builtin_fma": "fma", "__builtin_rint": "rint"}
"""Functions of the C library that are an operation of IEEE 754 each."""


def evaluate(run: Execution, expression: Any, frame: Any) -> Value:
    """The value of an expression."""
    kind = type(expression).__name__
    handler = _HANDLERS.get(kind)
    if handler is None:
        raise RefusedError(f"an expression of the form {kind}")
    return handler(run, expression, frame)


def _constant(run: Execution, expression: Any, frame: Any) -> Value:
    text = expression.value
    if "double" in expression.type:
        return Value(DOUBLE, float.fromhex(text) if text.lower().startswith("0x") else float(text))
    if "int" not in expression.type and "char" not in expression.type:
        raise RefusedError(f"a constant of type {expression.type}")
    digits = text.rstrip("uUlL")
    suffix = text[len(digits) :].lower()
    value = int(digits, 0)
    is_hex = digits.lower().startswith("0x")
    for width in (32, 64) if "l" not in suffix else (64,):
        if "u" not in suffix and value < 1 << (width - 1):
            return Value(Type("int", width, is_signed=True), value)
        if ("u" in suffix or is_hex) and value < 1 << width:
            return Value(Type("int", width), value)
    raise RefusedError(f"a constant {text}")


def _id(run: Execution, expression: Any, frame: Any) -> Value:
    name = expression.name
    if name in frame:
        return _read(frame[name], name)
    constants = run.source.constants
    if name not in constants:
        raise RefusedError(f"the name {name} is not known")
    given = constants[name]
    if isinstance(given, c_ast.Decl):
        kind = run.type_of(given.type)
        return run.converted(evaluate(run, given.init, {}), kind)
    return Value(INT, run.integer(given) & 0xFFFFFFFF)


def _read(cell: Cell, name: str) -> Value:
    if cell.type.kind == "array":
        return Value(Type("pointer", of=cell.type.of), Pointer(cell.value))
    if cell.value is None and cell.type.kind != "pointer":
        raise RefusedError(f"{name} is read before it has a value")
    return Value(cell.type, cell.value)


def place(run: Execution, expression: Any, frame: Any) -> Cell:
    """The variable, element or field that an expression names."""
    if isinstance(expression, c_ast.ID):
        if expression.name not in frame:
            raise RefusedError(f"an assignment to {expression.name}, which is not local")
        return frame[expression.name]
    if isinstance(expression, c_ast.ArrayRef):
        base = evaluate(run, expression.name, frame)
        if isinstance(base.x, Pointer) and isinstance(base.x.cells, Unknown):
            array = base.x.cells
            return Cell(array.type, node(f"element:{array.name}", evaluate(run, expression.subscript, frame).x))
        return _at(base.x, run.integer(expression.subscript, frame))
    if isinstance(expression, c_ast.UnaryOp) and expression.op == "*":
        return _at(evaluate(run, expression.expr, frame).x, 0)
    if isinstance(expression, c_ast.StructRef):
        if expression.type == "->":
            fields = _at(evaluate(run, expression.name, frame).x, 0).value
        else:
            fields = evaluate(run, expression.name, frame).x
        if expression.field.name not in fields:
            raise RefusedError(f"the field {expression.field.name} is not known")
        return fields[expression.field.name]
    if isinstance(expression, c_ast.Cast):
        raise RefusedError("memory that is read as another type")
    raise RefusedError(f"a place of the form {type(expression).__name__}")


def _at(pointer: Any, index: int) -> Cell:
    if not isinstance(pointer, Pointer):
        raise RefusedError("a pointer that is not known")
    at = pointer.at + index
    if not 0 <= at < len(pointer.cells):
        raise RefusedError(f"element {at} is beyond its array")
    return pointer.cells[at]


def _reference(run: Execution, expression: Any, frame: Any) -> Value:
    return _read(place(run, expression, frame), "an element or a field")


def _unary(run: Execution, expression: Any, frame: Any) -> Value:
    op = expression.op
    if op == "&":
        if isinstance(expression.expr, c_ast.ArrayRef):
            base = evaluate(run, expression.expr.name, frame)
            return Value(base.type, Pointer(base.x.cells, base.x.at + run.integer(expression.expr.subscript, frame)))
        cell = place(run, expression.expr, frame)
        return Value(Type("pointer"), Pointer([cell]))
    if op == "*":
        return _reference(run, expression, frame)
    if op == "sizeof":
        return Value(UINT64, _size(run, expression.expr, frame))
    if op in {"p++", "p--", "++", "--"}:
        cell = place(run, expression.expr, frame)
        old = _read(cell, "a counter")
        new = run.binary(op.strip("p")[0], old, Value(INT, 1))
        cell.value = run.converted(new, cell.type).x
        return old if op.startswith("p") else Value(cell.type, cell.value)
    value = evaluate(run, expression.expr, frame)
    if op == "!":
        truth = run.truth(value)
        return Value(INT, node("negation", truth) if isinstance(truth, Node) else int(not truth))
    if op == "-" and value.type.kind == "double":
        return Value(DOUBLE, run.operation("neg", value.x))
    if value.type.kind != "int":
        raise RefusedError(f"an operation {op} on {value.type.kind}")
    kind = run.promoted(value.type)
    x = run._number(run.converted(value, kind))
    if op == "-":
        return Value(kind, run.on_bits("minus", 0, x, width=kind.width))
    if op == "~":
        return Value(kind, run.on_bits("not", x, width=kind.width))
    if op == "+":
        return Value(kind, x)
    raise RefusedError(f"the operation {op}")


def _size(run: Execution, expression: Any, frame: Any) -> int:
    kind = run.type_of(expression) if isinstance(expression, c_ast.Typename) else place(run, expression, frame).type
    return _bytes_of(run, kind)


def _bytes_of(run: Execution, kind: Type) -> int:
    if kind.kind == "array":
        return kind.size * _bytes_of(run, kind.of)
    if kind.kind == "int":
        return kind.width // 8
    if kind.kind == "double":
        return 8
    raise RefusedError(f"the size of a {kind.kind}")


def _binary(run: Execution, expression: Any, frame: Any) -> Value:
    op = expression.op
    left = evaluate(run, expression.left, frame)
    if op in {"&&", "||"}:
        a = run.truth(left)
        if not isinstance(a, Node) and bool(a) == (op == "||"):
            return Value(INT, int(a))
        b = run.truth(evaluate(run, expression.right, frame))
        if not isinstance(a, Node):
            return Value(INT, b if isinstance(b, Node) else int(b))
        if not isinstance(b, Node):
            return Value(INT, a if bool(b) == (op == "&&") else int(b))
        return Value(INT, node("both" if op == "&&" else "either", a, b))
    return run.binary(op, left, evaluate(run, expression.right, frame))


def _ternary(run: Execution, expression: Any, frame: Any) -> Value:
    condition = run.truth(evaluate(run, expression.cond, frame))
    if not isinstance(condition, Node):
        return evaluate(run, expression.iftrue if condition else expression.iffalse, frame)
    a, b = evaluate(run, expression.iftrue, frame), evaluate(run, expression.iffalse, frame)
    if "double" in {a.type.kind, b.type.kind}:
        return Value(DOUBLE, node("select", condition, run.converted(a, DOUBLE).x, run.converted(b, DOUBLE).x))
    if a.type.kind != "int" or b.type.kind != "int":
        raise RefusedError("a choice between pointers by data")
    kind = run.common(a.type, b.type)
    x, y = (run._number(run.converted(v, kind)) for v in (a, b))
    return Value(kind, node("select", condition, x, y, width=kind.width))


def _cast(run: Execution, expression: Any, frame: Any) -> Value:
    kind = run.type_of(expression.to_type)
    value = evaluate(run, expression.expr, frame)
    if kind.kind == "pointer":
        if not isinstance(value.x, (Pointer, Node)) and not value.x:
            return Value(kind, None)
        if isinstance(value.x, Pointer) and run.type_of(kind.of) == value.x.cells[value.x.at].type:
            return Value(kind, value.x)
        raise RefusedError("memory that is read as another type")
    return run.converted(value, kind)


def _assignment(run: Execution, expression: Any, frame: Any) -> Value:
    cell = place(run, expression.lvalue, frame)
    value = evaluate(run, expression.rvalue, frame)
    if expression.op != "=":
        value = run.binary(expression.op[:-1], _read(cell, "a variable"), value)
    converted = run.converted(value, cell.type)
    cell.value = run._stored(converted)
    return converted


def _call(run: Execution, expression: Any, frame: Any) -> Value:
    if not isinstance(expression.name, c_ast.ID):
        raise RefusedError("a call through a pointer")
    name = expression.name.name
    given = [evaluate(run, each, frame) for each in (expression.args.exprs if expression.args else [])]
    if name in run.opaque:
        found = run.opaque[name](run, given)
        run.called.append((name, [v.x for v in given], found))
        function = run.source.functions.get(name)
        kind = run.type_of(function.decl.type.type) if function else INT
        return Value(kind, found)
    if name == "memcpy":
        return _copied(run, given)
    if name in NUMBER_FUNCTIONS:
        return Value(DOUBLE, run.operation(NUMBER_FUNCTIONS[name], *(run.converted(v, DOUBLE).x for v in given)))
    if name not in run.source.functions:
        raise RefusedError(f"the function {name} is not in the sources")
    found = run._enter(name, given)
    run.called.append((name, [v.x for v in given], None if found is None else found.x))
    return found if found is not None else Value(Type("void"), None)


def _copied(run: Execution, given: list[Value]) -> Value:
    """memcpy of eight bytes between a number and the integer of its bits."""
    to, source = (_at(v.x, 0) for v in given[:2])
    if given[2].x != 8:
        raise RefusedError("a copy of other than eight bytes")
    value = _read(source, "what is copied").x
    kinds = (to.type.kind, source.type.kind)
    if kinds == ("int", "double"):
        to.value = run.operation("to_bits", value)
    elif kinds == ("double", "int"):
        to.value = run.operation("of_bits", value)
    else:
        raise RefusedError(f"a copy from {kinds[1]} to {kinds[0]}")
    return Value(Type("void"), None)


def _literal(run: Execution, expression: Any, frame: Any) -> Value:
    cell = run.new(run.type_of(expression.type))
    run._initialise(cell, expression.init, frame)
    return Value(cell.type, cell.value)


def _list(run: Execution, expression: Any, frame: Any) -> Value:
    value = Value(Type("void"), None)
    for each in expression.exprs:
        value = evaluate(run, each, frame)
    return value


_HANDLERS = {
    "Constant": _constant,
    "ID": _id,
    "ArrayRef": _reference,
    "StructRef": _reference,
    "UnaryOp": _unary,
    "BinaryOp": _binary,
    "TernaryOp": _ternary,
    "Cast": _cast,
    "Assignment": _assignment,
    "FuncCall": _call,
    "CompoundLiteral": _literal,
    "ExprList": _list,
}
