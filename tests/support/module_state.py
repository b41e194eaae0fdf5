"""What a module keeps between calls: names that functions rebind or change, caches, and objects made at import that may change."""

from __future__ import annotations

import ast

CHANGING = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "move_to_end", "pop", "popitem", "popleft", "remove", "reverse",
    "setdefault", "sort", "update", "fill", "put", "resize",
}  # fmt: skip
"""Methods that change what they are called on."""
CACHES = {"cache", "lru_cache"}
HARMLESS = {
    "Fraction", "MappingProxyType", "NewType", "ParamSpec", "Path", "Template", "TypeAdapter", "TypeVar", "bit_length", "bool",
    "bytes", "cast", "compile", "dedent", "dtype", "encode", "escape", "exp", "field", "finfo", "float", "float32", "float64",
    "format", "from_string", "fromhex", "frozenset", "fspath", "get", "getLogger", "getattr", "iinfo", "int", "int64",
    "is_dataclass", "isqrt", "join", "ldexp", "len", "log", "max", "min", "namedtuple", "nextafter", "power", "range", "replace",
    "sorted", "split", "sqrt", "str", "strip", "sum", "tuple", "uint64", "version",
}  # fmt: skip
"""Calls at module level whose results nothing changes."""
MUTABLE = ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp


def _name(node: ast.expr) -> str:
    """The last part of a dotted name, of a call too."""
    if isinstance(node, ast.Call):
        return _name(node.func)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _root(node: ast.expr) -> str:
    """The first part: `a` of `a.b[c].d`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _assigned(statement: ast.stmt) -> list[tuple[str, ast.expr]]:
    if isinstance(statement, ast.Assign):
        return [(target.id, statement.value) for target in statement.targets if isinstance(target, ast.Name)]
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value is not None:
        return [(statement.target.id, statement.value)]
    return []


def _locals(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    """Parameters and names that the function itself binds."""
    arguments = function.args
    bound = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg) if a}
    declared = {name for node in ast.walk(function) if isinstance(node, ast.Global) for name in node.names}
    bound |= {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return bound - declared


def _changes(function: ast.FunctionDef | ast.AsyncFunctionDef, shared: set[str]) -> set[str]:
    """Shared names that the function rebinds, or whose objects it changes."""
    found, outside = set(), shared - _locals(function)
    for node in ast.walk(function):
        if isinstance(node, ast.Global):
            found |= set(node.names)
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
            targets = [ast.Attribute(node.func.value, "changed", ast.Store())]
        flat = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple | ast.List) else [target])]
        found |= {_root(target) for target in flat if isinstance(target, ast.Attribute | ast.Subscript)} & outside
    return found - {"np"}  # np.sort(x), np.put(x, ...): what they change is an argument


def state_of(source: str) -> set[str]:
    """Names of a module that stand for state: `name`, `Class.name`, and `name()` for a cache."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    imported = {alias.asname or alias.name.split(".")[0] for node in imports for alias in node.names}
    values = dict(pair for statement in tree.body for pair in _assigned(statement))
    found = {f"{function.name}()" for function in functions if any(_name(d) in CACHES for d in function.decorator_list)}
    for function in functions:
        found |= _changes(function, set(values) | set(classes) | imported)
    for name, value in values.items():
        if isinstance(value, ast.Call) and _name(value) not in HARMLESS:
            found.add(name)
    for name, node in classes.items():
        found |= {f"{name}.{attribute}" for s in node.body for attribute, value in _assigned(s) if isinstance(value, MUTABLE)}
    return found
