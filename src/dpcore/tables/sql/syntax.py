"""From the text of an expression to a checked tree.

The database parses: what comes back is its own syntax tree, whose nodes are compared with what `allowed` lists, key by key. A tree has to
consist of known nodes alone, so a form of SQL that nobody thought of is refused, and so is the tree of a version with other nodes. What is
evaluated later is written anew from the checked tree: nothing of the text reaches the database again but quoted strings and numbers.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, TypeVar

from dpcore._dataclasses import dataclass
from dpcore.errors import reason
from dpcore.tables.near_names import suggestion
from dpcore.tables.sql.allowed import AGGREGATES, COMPARISONS, CONJUNCTIONS, FUNCTIONS, OTHER_AGGREGATES, TARGETS
from dpcore.tables.sql.habits import IN_AGGREGATES, habit, habit_of
from dpcore.tables.sql.installed import duckdb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LONGEST_TEXT = 10_000
DEEPEST, MOST_NODES = 64, 1000
PARSE = "select json_serialize_sql('SELECT ' || ?), json_serialize_sql('SELECT (' || ? || ')')"
"""Statements of an expression by itself and inside of brackets: a comment at its end, or a ;, makes a difference."""
WHOLE_NUMBER = re.compile(r"-?[0-9]{1,38}", re.ASCII)
NUMBER = re.compile(r"-?(?:[0-9]{1,308}\.?[0-9]{0,308}|\.[0-9]{1,308})(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)
SELECT: dict[str, Any] = {
    "type": "SELECT_NODE",
    "modifiers": [],
    "cte_map": {"map": []},
    "from_table": {"type": "EMPTY", "alias": "", "sample": None},
    "where_clause": None,
    "group_expressions": [],
    "group_sets": [],
    "aggregate_handling": "STANDARD_HANDLING",
    "having": None,
    "sample": None,
    "qualify": None,
}
"""What a statement holds beside its expressions, if it has no clause."""
CALL: dict[str, Any] = {
    "schema": "",
    "catalog": "",
    "filter": None,
    "order_bys": {"type": "ORDER_MODIFIER", "orders": []},
    "distinct": False,
    "export_state": False,
}
"""A call that is no aggregate's, and of no schema."""
REFUSED = {
    "AGGREGATE": "an aggregate",
    "COLLATE": "a collation",
    "LAMBDA": "a lambda",
    "PARAMETER": "a parameter",
    "POSITIONAL_REFERENCE": "a position in place of a column",
    "STAR": "*",
    "SUBQUERY": "a subquery",
    "WINDOW": "a window function",
}
"""Nodes that a row's value must not depend on, in words."""
ONE_AGGREGATE = "must be one aggregate of a unit's rows, such as count(*) or max(age); compute with several in [[per_unit.derive]]"


class SyntaxRefusedError(Exception):
    """An expression that is not allowed; the message says why, and holds nothing but the expression."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: how it is written for the database, and its text."""

    sql: str
    text: str
    is_text: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column, by the name it has in the table."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """An operation on the values of its parts.

    Attributes
    ----------
    kind : str
        "function", "cast", "compare", "between", "in", "logic", "not", "null", "case" or "coalesce".
    name : str
        The function, operator or type.
    parts : tuple
        Its arguments; of a case each condition with its value, and the value of the rest.
    """

    kind: str
    name: str
    parts: tuple[Node, ...]


Node = Literal | Column | Call


@dataclass(frozen=True, slots=True)
class Aggregation:
    """An aggregate of expressions over some rows.

    Attributes
    ----------
    name : str
        From `AGGREGATES`.
    parts : tuple
        Its arguments.
    distinct : bool
        Whether each value counts once.
    """

    name: str
    parts: tuple[Node, ...]
    distinct: bool = False


Found = TypeVar("Found", Node, Aggregation)


def parsed(text: str, database: duckdb.DuckDBPyConnection) -> Node:
    """Parse and check an expression.

    Raises
    ------
    SyntaxRefusedError
        If it is not one expression of allowed parts.
    """
    return _parsed(text, database, lambda tree, found: tree.node(found, 0))


def aggregation(text: str, database: duckdb.DuckDBPyConnection) -> Aggregation:
    """Parse and check one aggregate of expressions.

    Raises
    ------
    SyntaxRefusedError
        If it is something else, or has parts that are not allowed.
    """
    return _parsed(text, database, _Tree.aggregation)


def _parsed(text: str, database: duckdb.DuckDBPyConnection, walk: Callable[[_Tree, Mapping[str, Any]], Found]) -> Found:
    if len(text) > LONGEST_TEXT:
        raise SyntaxRefusedError(f"is longer than {LONGEST_TEXT} characters")
    try:
        (found,) = database.execute(PARSE, [text, text]).fetchall()
        document, enclosed = map(json.loads, found)
    except (duckdb.Error, UnicodeError, RecursionError, ValueError) as error:
        raise SyntaxRefusedError(f"is no expression of SQL{reason(error)}") from None
    if document.get("error"):
        raise SyntaxRefusedError(f"is no expression of SQL: {document.get('error_message', '')}{habit_of(text)}")
    tree = _tree_of(document, walk)
    if enclosed.get("error") or _tree_of(enclosed, walk) != tree:
        raise SyntaxRefusedError("must mean the same in brackets: leave out a comment or a ; at its end")
    return tree


def _tree_of(document: Mapping[str, Any], walk: Callable[[_Tree, Mapping[str, Any]], Found]) -> Found:
    try:
        return walk(_Tree(), _only_expression(document))
    except (KeyError, TypeError, AttributeError, IndexError, ValueError):
        raise SyntaxRefusedError("has a part that is not known here") from None


def both(first: str, second: str, database: duckdb.DuckDBPyConnection) -> str:
    """The expression that is true where both are.

    Raises
    ------
    SyntaxRefusedError
        If the two are not its only parts. Each has been checked by itself.
    """
    joined = f"({first}) AND ({second})"
    parts = [part for text in (first, second) for part in _parts_of_and(parsed(text, database))]
    if _parts_of_and(parsed(joined, database)) != parts:
        raise SyntaxRefusedError("cannot be joined with another condition")
    return joined


def _parts_of_and(node: Node) -> list[Node]:
    """The conditions that must all be true; brackets between them are lost."""
    return [part for each in node.parts for part in _parts_of_and(each)] if isinstance(node, Call) and node.name == "AND" else [node]


def _only_expression(document: Mapping[str, Any]) -> Any:
    """The expression of a document that has one statement, with one expression, without any clause."""
    statements = document["statements"]
    node = dict(statements[0]["node"])
    expressions = node.pop("select_list", [])
    source = node.get("from_table")
    if isinstance(source, dict):
        node["from_table"] = {key: each for key, each in source.items() if not key.startswith("query_location")}
    if len(statements) != 1 or statements[0]["named_param_map"] != [] or node != SELECT or len(expressions) != 1:
        raise SyntaxRefusedError("must be one expression: without FROM, WHERE, ORDER BY, further columns or statements")
    return expressions[0]


class _Tree:
    """The walk over a tree."""

    def __init__(self) -> None:
        self._nodes = 0

    def node(self, found: Mapping[str, Any], depth: int) -> Node:
        """The checked form of a node of the database's tree."""
        self._nodes += 1
        if depth > DEEPEST or self._nodes > MOST_NODES:
            raise SyntaxRefusedError(f"has more than {MOST_NODES} parts, or parts that are nested more than {DEEPEST} deep")
        known = {key: each for key, each in found.items() if not key.startswith("query_location")}
        kind, _, alias = known.pop("class"), known.pop("type"), known.pop("alias")
        if alias != "":
            raise SyntaxRefusedError(f"has a name, AS {alias}; leave it out")
        if kind in REFUSED:
            raise SyntaxRefusedError(f"has {REFUSED[kind]}; its value must follow from one row alone")
        walk = getattr(self, f"_{kind.lower()}", None)
        if walk is None:
            raise SyntaxRefusedError("has a part that is not known here")
        return walk(found["type"], known, depth + 1)  # type: ignore[no-any-return]

    def aggregation(self, found: Mapping[str, Any]) -> Aggregation:
        """The checked form of an aggregate; a FILTER makes its arguments NULL elsewhere."""
        known = {key: each for key, each in found.items() if not key.startswith("query_location")}
        kind, _, alias = known.pop("class"), known.pop("type"), known.pop("alias")
        if kind != "FUNCTION" or alias != "" or known.get("is_operator"):
            has = f"has {REFUSED[kind]}; it " if kind in {"WINDOW", "SUBQUERY"} else ""
            raise SyntaxRefusedError(f"{has}{ONE_AGGREGATE}")
        called, _, arguments, path = (known.pop(key) for key in ("function_name", "is_operator", "arguments", "qualified_name"))
        condition, distinct = known.pop("filter"), known.pop("distinct")
        if known.get("order_bys") != CALL["order_bys"]:
            raise SyntaxRefusedError(f"has an ORDER BY inside of {called!r}; the order of a unit's rows must change nothing")
        if known.pop("is_legacy_function_call", False) or path != {"path": [called]}:
            raise SyntaxRefusedError("has a part that is not known here")
        if known != {key: each for key, each in CALL.items() if key not in {"filter", "distinct"}}:
            raise SyntaxRefusedError("has a part that is not known here")
        name = OTHER_AGGREGATES.get(called.lower(), called.lower())
        if name in FUNCTIONS or name in {"if", "nullif"}:
            raise SyntaxRefusedError(ONE_AGGREGATE)
        if name not in AGGREGATES:
            advice = f"; {IN_AGGREGATES[name]}" if name in IN_AGGREGATES else f".{suggestion(name, AGGREGATES)}"
            raise SyntaxRefusedError(f"calls {called!r}, which is not one of the aggregates that can be made of a unit's rows{advice}")
        parts = self._nodes_of([each["expression"] for each in arguments], 1)
        if any(set(each) != {"name", "expression"} or each["name"] for each in arguments) or len(parts) != AGGREGATES[name]:
            raise SyntaxRefusedError(f"calls {called!r} with {len(parts)} arguments; it takes {AGGREGATES[name]}")
        if distinct and name != "count":
            raise SyntaxRefusedError(f"has DISTINCT inside of {called!r}; it is for count(DISTINCT x)")
        if condition is None:
            return Aggregation(name, parts, distinct)
        when = self.node(condition, 1)
        if name == "count_star":
            name, parts = "count", (Literal("(1)", "1"),)
        ordered = len(parts) if name != "quantile_disc" else 1
        chosen = tuple(Call("case", "CASE", (when, each, Literal("NULL", ""))) for each in parts[:ordered])
        return Aggregation(name, (*chosen, *parts[ordered:]), distinct)

    def _nodes_of(self, found: list[Any], depth: int) -> tuple[Node, ...]:
        return tuple(self.node(each, depth) for each in found)

    def _column_ref(self, _: str, found: dict[str, Any], __: int) -> Node:
        names = _only(found, "column_names")
        if len(names) != 1:
            raise SyntaxRefusedError(f"names {'.'.join(names)}; write a column's name alone, in double quotes if it has a point")
        return Column(names[0])

    def _constant(self, _: str, found: dict[str, Any], __: int) -> Node:
        literal = _only(found, "literal")
        kind, text = literal["kind"], literal["text"]
        if kind == "STRING" and "\0" not in text:
            return Literal("'" + text.replace("'", "''") + "'", text, is_text=True)
        if (kind == "INTEGER" and WHOLE_NUMBER.fullmatch(text)) or (kind == "NUMERIC" and NUMBER.fullmatch(text)):
            return Literal(f"({text})", text)
        if kind == "BOOLEAN" and text in {"true", "false"}:
            return Literal(text, text)
        if kind == "NULL_LITERAL":
            return Literal("NULL", "")
        raise SyntaxRefusedError(f"has the constant {text!r}, which is neither a text, a number, true, false nor NULL")

    def _comparison(self, kind: str, found: dict[str, Any], depth: int) -> Node:
        left, right = _only(found, "left", "right")
        return Call("compare", COMPARISONS[kind], self._nodes_of([left, right], depth))

    def _conjunction(self, kind: str, found: dict[str, Any], depth: int) -> Node:
        return Call("logic", CONJUNCTIONS[kind], self._nodes_of(_only(found, "children"), depth))

    def _between(self, kind: str, found: dict[str, Any], depth: int) -> Node:
        parts = _only(found, "input", "lower", "upper")
        if kind != "COMPARE_BETWEEN":
            raise SyntaxRefusedError("has a part that is not known here")
        return Call("between", "BETWEEN", self._nodes_of(list(parts), depth))

    def _case(self, _: str, found: dict[str, Any], depth: int) -> Node:
        checks, other = _only(found, "case_checks", "else_expr")
        pairs = [part for check in checks for part in _only(dict(check), "when_expr", "then_expr")]
        return Call("case", "CASE", self._nodes_of([*pairs, other], depth))

    def _operator(self, kind: str, found: dict[str, Any], depth: int) -> Node:
        parts = self._nodes_of(_only(found, "children"), depth)
        match kind:
            case "OPERATOR_NOT":
                return Call("not", "NOT", parts)
            case "OPERATOR_IS_NULL" | "OPERATOR_IS_NOT_NULL":
                return Call("null", "IS NULL" if kind == "OPERATOR_IS_NULL" else "IS NOT NULL", parts)
            case "COMPARE_IN" | "COMPARE_NOT_IN":
                return Call("in", "IN" if kind == "COMPARE_IN" else "NOT IN", parts)
            case "OPERATOR_COALESCE":
                return Call("coalesce", "COALESCE", parts)
            case "OPERATOR_TRY":
                return parts[0]  # Whatever fails is NULL.
        raise SyntaxRefusedError("has a part that is not known here; lists and structs cannot be used")

    def _cast(self, _: str, found: dict[str, Any], depth: int) -> Node:
        child, _, target = _only(found, "child", "try_cast", "type_expr")
        return Call("cast", _target(target), (self.node(child, depth),))

    def _function(self, _: str, found: dict[str, Any], depth: int) -> Node:
        name, _, arguments, path = (found.pop(key) for key in ("function_name", "is_operator", "arguments", "qualified_name"))
        if found.pop("is_legacy_function_call", False):  # of databases from 2.0.1 on
            raise SyntaxRefusedError(f"calls {name!r} in a way that is not known here")
        if path != {"path": [name]} or found != CALL or any(set(each) != {"name", "expression"} or each["name"] for each in arguments):
            called = f"calls {name!r} with what only aggregates have, or with the name of a schema or an argument"
            raise SyntaxRefusedError(called + habit(name.lower()))
        name = name.lower()
        if name not in FUNCTIONS and name not in {"if", "nullif"}:
            advice = habit(name) or f".{suggestion(name, FUNCTIONS)}"
            raise SyntaxRefusedError(f"calls {name!r}, which is not one of the functions that can be used{advice}")
        parts = self._nodes_of([each["expression"] for each in arguments], depth)
        if name == "if" and len(parts) == 3:
            return Call("case", "CASE", parts)
        if name == "nullif" and len(parts) == 2:
            return Call("case", "CASE", (Call("compare", "=", parts), Literal("NULL", ""), parts[0]))
        _check_literals(name, parts)
        return Call("function", name, parts)


def _only(found: dict[str, Any], *keys: str) -> Any:
    """The values of the keys that a node has, and it has no others."""
    if set(found) != set(keys):
        raise SyntaxRefusedError("has a part that is not known here")
    return found[keys[0]] if len(keys) == 1 else tuple(found[key] for key in keys)


def _target(found: dict[str, Any]) -> str:
    """The type that a cast names."""
    name = found["type_name"]
    plain = TARGETS.get(name.upper())
    if plain is None or found["class"] != "TYPE" or found["schema"] or found["catalog"] or found["qualified_name"] != {"path": [name]}:
        raise SyntaxRefusedError(f"casts to {name!r}; it must be one of {', '.join(sorted(set(TARGETS.values())))}")
    sizes = [_size(each) for each in found["children"]]
    if plain != "DECIMAL":
        return plain  # The length of a VARCHAR means nothing.
    if len(sizes) > 2 or not 1 <= ([*sizes, 18])[0] <= 38 or not 0 <= ([*sizes, 3, 3])[1] <= ([*sizes, 18])[0]:
        raise SyntaxRefusedError("casts to DECIMAL(width, scale), where the width must be in [1, 38] and the scale in [0, width]")
    return f"DECIMAL({', '.join(map(str, sizes))})" if sizes else "DECIMAL(18, 3)"


def _size(found: dict[str, Any]) -> int:
    literal = found["literal"] if found["class"] == "CONSTANT" else {}
    if literal.get("kind") != "INTEGER" or not WHOLE_NUMBER.fullmatch(literal["text"]):
        raise SyntaxRefusedError("casts to a type whose size is not a number")
    return int(literal["text"])


def literals_of(parts: tuple[Node, ...]) -> tuple[str | None, ...]:
    """The texts of the arguments that are literals."""
    return tuple(each.text if isinstance(each, Literal) else None for each in parts)


def _check_literals(name: str, parts: tuple[Node, ...]) -> None:
    """Refuse a call whose value has no bound."""
    function = FUNCTIONS[name]
    if any(place < len(parts) and not isinstance(parts[place], Literal) for place in function.literals):
        which = " and ".join(f"argument {place + 1}" for place in function.literals if place < len(parts))
        raise SyntaxRefusedError(f"calls {name!r}, whose {which} must be written out, and not computed")
    if function.literals and max(function.literals[:1]) >= len(parts):
        raise SyntaxRefusedError(f"calls {name!r} with too few arguments")
    problem = function.check((*literals_of(parts), None, None, None))
    if problem is not None:
        raise SyntaxRefusedError(f"calls {name!r}, which {problem}")


def column_named(name: str, columns: Mapping[str, object]) -> str:
    """The column that a name means: the one so written, or the only one that differs in capitals alone.

    Raises
    ------
    SyntaxRefusedError
        If there is none, or there are several.
    """
    if name in columns:
        return name
    near = [each for each in columns if each.lower() == name.lower()]
    if len(near) == 1:
        return near[0]
    if near:
        raise SyntaxRefusedError(f"names {name!r}, and several columns are written so but for capitals; write one of them in double quotes")
    advice = suggestion(name, columns) or f" A text is written in single quotes: {name!r}"
    raise SyntaxRefusedError(f"names {name!r}, which is not a column of the input and is not derived before.{advice}")
