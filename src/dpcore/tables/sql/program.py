"""From checked trees to what the database computes, one step after the other.

Each operation of an expression is a step of its own: a column that is computed from columns of the input and of steps before. A step that
fails for a row is NULL for that row, whatever comes before or behind it, because `TRY` stands around each of them and around nothing else.
So the value of a step is a function of the values of its parts, `TRUE OR 1 // 0` does not depend on what is computed first, and a failure
costs its row once.
"""

from __future__ import annotations

import itertools
from dataclasses import field
from typing import TYPE_CHECKING

from dpcore._dataclasses import dataclass
from dpcore.tables.mistakes import Keys, Mistake, MistakesError
from dpcore.tables.sql.allowed import FUNCTIONS, INFIX, LONGEST_CELL, LONGEST_ROW, OTHER_BYTES, TYPES, kind_of
from dpcore.tables.sql.database import connected
from dpcore.tables.sql.habits import habit
from dpcore.tables.sql.installed import duckdb
from dpcore.tables.sql.syntax import Aggregation, Call, Column, Literal, SyntaxRefusedError, aggregation, column_named, literals_of, parsed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from dpcore.tables.sql.syntax import Node

ROWS = "cells"
"""The table that the first steps read."""
SAMPLES = {
    "BOOLEAN": ("true", "false"),
    "VARCHAR": ("'1'", "'a'"),
    "DATE": ("'2024-02-29'", "'1969-12-31'"),
    "TIMESTAMP": ("'2024-02-29 12:34:56'", "'1969-12-31'"),
    "TIME": ("'12:34:56'", "'00:00'"),
    "INTERVAL": ("'1 month 1 day'", "'1 second'"),
    "DECIMAL": ("0", "0"),
}
"""Two values of each type, with which each step is tried before any row is read."""
NUMBERS = ("1", "0")
"""Those of the other types."""
UNFIT = {"HUGEINT": "an integer of 128 bits", "NULL": "the same for every row"}
"""Types of values that no query takes."""

FORMS = {
    "cast": "TRY_CAST({0} AS {name})",
    "compare": "({0} {name} {1})",
    "between": "({0} BETWEEN {1} AND {2})",
    "not": "(NOT {0})",
    "null": "({0} {name})",
}
"""How operations are written."""


@dataclass(frozen=True, slots=True)
class Term:
    """A value in a step: its name or constant, its type, and the most bytes that it has as text."""

    sql: str
    type: str | None
    size: int
    is_text: bool = False
    level: int = 0


@dataclass(frozen=True, slots=True)
class Program:
    """The steps of some expressions, and what they read and give.

    Attributes
    ----------
    reads : dict
        Columns of the table that are read, each with its name in the steps and its type there.
    query : str
        One statement that computes from the table `ROWS` the columns of `types`, and then those of `conditions`, in their order.
    conditions : tuple of str
        The keys of the conditions; a derived column may have the name of one.
    types : dict
        The database's type of each derived column.
    row_bytes : int
        The most bytes of the texts among these, of one row.
    """

    reads: dict[str, tuple[str, str]]
    query: str
    conditions: tuple[str, ...]
    types: dict[str, str]
    row_bytes: int


@dataclass(slots=True)
class Compiler:
    """Checks expressions one after the other, and makes one program of those that are wanted.

    Parameters
    ----------
    columns : dict
        Type of each column of the table as `arrow_values.database_type` gives it; None for those that no expression can use.
    """

    columns: dict[str, str | None]
    _database: duckdb.DuckDBPyConnection = field(default_factory=connected)
    _trees: dict[str, Node] = field(default_factory=dict)
    _read: dict[str, Term] = field(default_factory=dict)
    _derived: dict[str, Term] = field(default_factory=dict)
    _steps: dict[str, Term] = field(default_factory=dict)
    _parts: dict[str, tuple[Term, ...]] = field(default_factory=dict)
    _bytes: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self._database.close()

    def derive(self, place: Keys, name: str, text: str) -> str:
        """Check an expression and give its value a name, which later ones may use; returns its type.

        Raises
        ------
        MistakesError
            If it is not allowed, or `name` is a column already.
        """
        if name in self.columns or name in self._derived:
            text = "there is a column of that name already; give the derived one another"
            raise MistakesError(Mistake((*place, "name"), text, name))
        term = self._term_of((*place, "sql"), text)
        kind = kind_of(term.type or "NULL")
        if kind in UNFIT:
            raise _refused((*place, "sql"), text, f"is {UNFIT[kind]}, which no query takes{_remedy(kind)}")
        self._derived[name] = term
        return term.type or ""

    def parsed(self, place: Keys, text: str, *, aggregate: bool) -> Aggregation:
        """The aggregate that a text is; or an expression as the only part of one.

        Raises
        ------
        MistakesError
            If it is not allowed.
        """
        try:
            return aggregation(text, self._database) if aggregate else Aggregation("", (parsed(text, self._database),))
        except SyntaxRefusedError as error:
            raise _refused(place, text, str(error)) from None

    def argument(self, place: Keys, text: str, node: Node) -> tuple[str, str, bool]:
        """Check an argument of an aggregate; returns the name of its column, its type, and whether it is one of the table.

        Raises
        ------
        MistakesError
            If it is not allowed, or the same for every row.
        """
        taken = {**self.columns, **self._derived}
        try:
            term = self._term(node)
            name = column_named(node.name, taken) if isinstance(node, Column) else ""
        except SyntaxRefusedError as error:
            raise _refused(place, text, str(error)) from None
        kind = kind_of(term.type or "NULL")
        if kind in {*UNFIT, "INTERVAL"}:
            what = UNFIT.get(kind, "a length of time, which has no fixed number of days")
            raise _refused(place, text, f"has an argument that is {what}{_remedy(kind)}")
        if name in self.columns:
            return name, term.type or "", True
        name = next(each for each in (f"{text} {place}" for place in itertools.count()) if each not in taken)
        self._derived[name] = term
        return name, term.type or "", False

    def condition(self, place: Keys, text: str) -> None:
        """Check a condition.

        Raises
        ------
        MistakesError
            If it is not allowed, or no condition.
        """
        self._condition(place, text)

    def _condition(self, place: Keys, text: str) -> Term:
        term = self._term_of(place, text)
        if term.type not in {None, "BOOLEAN", "NULL"} or (term.type is None and term.sql not in {"true", "false", "NULL"}):
            said = f"must be a condition, true or false for each row, but it is of type {term.type or 'a constant'}"
            raise _refused(place, text, said)
        return term

    def program(self, derived: list[str], conditions: Mapping[str, str]) -> Program:
        """The program that computes some of the derived columns, and conditions given by their places, which have been checked."""
        wanted = {name: self._derived[name] for name in derived}
        checked = {key: self._condition((key,), text) for key, text in conditions.items()}
        query, read = self._query([*wanted.values()], [*checked.values()])
        reads = {name: (term.sql, term.type or "") for name, term in self._read.items() if term.sql in read}
        types = {name: term.type or "" for name, term in wanted.items()}
        row_bytes = sum(term.size for term in wanted.values() if term.type == "VARCHAR")
        return Program(reads, query, tuple(checked), types, row_bytes)

    # One expression

    def _term_of(self, place: Keys, text: str) -> Term:
        try:
            if text not in self._trees:
                self._trees[text] = parsed(text, self._database)
            return self._term(self._trees[text])
        except SyntaxRefusedError as error:
            raise _refused(place, text, str(error)) from None

    def _term(self, node: Node) -> Term:
        match node:
            case Literal():
                return Term(node.sql, None, len(node.text.encode()), node.is_text)
            case Column():
                return self._column(node.name)
            case Call():
                parts = tuple(map(self._term, node.parts))
                _check_types(node, parts)
                return self._step(node, parts)

    def _column(self, name: str) -> Term:
        name = column_named(name, {**self.columns, **self._derived})
        if name in self._derived:
            return self._derived[name]
        kind = self.columns[name]
        if kind is None:
            raise SyntaxRefusedError(f"names {name!r}, a column of a type that no expression can use")
        return self._read.setdefault(name, Term(f"c{len(self._read)}", kind, LONGEST_CELL if kind == "VARCHAR" else OTHER_BYTES))

    def _step(self, node: Call, parts: tuple[Term, ...]) -> Term:
        sql = _written(node, [each.sql for each in parts])
        if sql not in self._steps:
            kind = self._type_of(node, sql, parts)
            size = self._size_of(node, parts) if kind == "VARCHAR" else OTHER_BYTES
            level = 1 + max((each.level for each in parts), default=0)
            self._steps[sql] = Term(f"n{len(self._steps)}", kind, size, level=level)
            self._parts[sql] = parts
        return self._steps[sql]

    def _type_of(self, node: Call, sql: str, parts: tuple[Term, ...]) -> str:
        """The type of a step. It is computed for a row of NULL: what fails there is a constant, and fails for every row.

        Then for rows without NULL, inside of `TRY`: of what the database has not made for a type it tells with the first value, by an error
        that `TRY` lets through. Such a step would fail for the rows that have a value, and tell that there are some.
        """
        kinds = {each.sql: each.type for each in parts if each.type is not None}
        nulls, *samples = (", ".join(row) for row in _rows_of(kinds))
        try:
            found = self._database.sql(f"SELECT {sql} AS value FROM (SELECT {nulls})")
            kind = str(found.types[0]).strip('"')
            found.fetchall()
            self._check_constants(node, parts)
            rows = " UNION ALL ".join(f"SELECT {row}" for row in (nulls, *samples))
            self._database.sql(f"SELECT TRY({sql}) AS value FROM ({rows})").fetchall()
        except (duckdb.Error, UnicodeDecodeError) as error:  # the database may quote half of a character
            said = (isinstance(error, duckdb.Error) and str(error).partition("\n")[0].partition(": ")[2]) or "no such operation"
            raise SyntaxRefusedError(f"has {_named(node)} that cannot be computed: {said.rstrip('.')}{habit(node.name)}") from None
        if kind_of(kind) not in TYPES:
            raise SyntaxRefusedError(f"has {_named(node)} of type {kind}, which cannot be used")
        return kind

    def _check_constants(self, node: Call, parts: tuple[Term, ...]) -> None:
        """Convert the texts that something else is compared with, which raises if one has no meaning."""
        kinds = {each.type for each in parts if each.type not in {None, "VARCHAR", "NULL"}}
        for kind in kinds if node.kind in {"compare", "between", "in"} else ():
            for each in parts:
                if each.is_text:
                    self._database.sql(f"SELECT CAST({each.sql} AS {kind})").fetchall()

    def _size_of(self, node: Call, parts: tuple[Term, ...]) -> int:
        """The most bytes of the text of a step; raises if those of all steps are too many."""
        sizes = tuple(each.size for each in parts)
        if node.kind == "function":
            size = FUNCTIONS[node.name].size(sizes, (*literals_of(node.parts), None, None))
        else:
            size = max((*sizes, OTHER_BYTES))
        self._bytes += size
        if self._bytes > LONGEST_ROW:
            raise SyntaxRefusedError(
                f"makes texts that together may have more than {LONGEST_ROW} bytes a row; take left(column, 100) of long columns first"
            )
        return size

    # All of them

    def _query(self, columns: Sequence[Term], conditions: Sequence[Term]) -> tuple[str, set[str]]:
        """One statement with a level for each depth, and the columns that it reads."""
        wanted = [*columns, *conditions]
        steps = {term.sql: (sql, term) for sql, term in self._steps.items()}
        levels: dict[int, dict[str, str]] = {}
        needed = {term.sql: term.level for term in wanted if term.type is not None}
        todo, last = list(needed), {name: 1 + max((each.level for each in wanted), default=0) for name in needed}
        while todo:
            name = todo.pop()
            if name not in steps:
                continue
            sql, term = steps[name]
            levels.setdefault(term.level, {})[name] = sql
            for part in self._parts[sql]:
                if part.type is None:
                    continue
                last[part.sql] = max(last.get(part.sql, 0), term.level)
                if part.sql not in needed:
                    needed[part.sql] = part.level
                    todo.append(part.sql)
        query = ROWS
        for level in sorted(levels):
            kept = [name for name, end in last.items() if needed[name] < level and end >= level]
            made = [f"TRY({sql}) AS {name}" for name, sql in levels[level].items()]
            query = f"(SELECT {', '.join([*kept, *made])} FROM {query})"
        given = [
            f"{term.sql} AS g{place}" if place < len(columns) else f"CAST({term.sql} AS BOOLEAN) AS g{place}"
            for place, term in enumerate(wanted)
        ]
        return f"SELECT {', '.join(given)} FROM {query}", {name for name in needed if name not in steps}


def _remedy(kind: str) -> str:
    constant = "; for a number of each row, use CASE WHEN x IS NULL THEN 1 ELSE 1 END with a column x"
    return {"HUGEINT": "; use CAST(... AS BIGINT)", "NULL": constant}.get(kind, "")


def _rows_of(kinds: Mapping[str, str]) -> list[list[str]]:
    """Columns of these types: in a row of NULL, and in those of the samples."""
    rows = [["NULL AS nothing"] for _ in ("NULL", *NUMBERS)]
    for name, kind in kinds.items():
        values = ("NULL", *SAMPLES.get(kind_of(kind), NUMBERS)) if kind != "NULL" else ("NULL",) * len(rows)
        for row, value in zip(rows, values, strict=True):
            row.append(f"{value if kind == 'NULL' else f'CAST({value} AS {kind})'} AS {name}")
    return rows


def _named(node: Call) -> str:
    """What a step is, in words."""
    words = {"compare": "a comparison", "between": "a comparison", "in": "a comparison", "cast": f"a cast to {node.name}"}
    return words.get(node.kind, f"a call of {node.name!r}")


def _written(node: Call, parts: list[str]) -> str:
    """A step as the database reads it; parts are names and constants."""
    if node.kind == "coalesce":
        return f"COALESCE({', '.join(parts)})"
    if node.kind == "in":
        return f"({parts[0]} {node.name} ({', '.join(parts[1:])}))"
    if node.kind == "logic":
        return f"({f' {node.name} '.join(parts)})"
    if node.kind == "case":
        checks = " ".join(f"WHEN {when} THEN {then}" for when, then in zip(parts[:-1:2], parts[1::2], strict=True))
        return f"(CASE {checks} ELSE {parts[-1]} END)"
    if node.kind != "function":
        return FORMS[node.kind].format(*parts, name=node.name)
    pattern = FUNCTIONS[node.name].pattern
    if not pattern and node.name in INFIX and len(parts) == 2:
        pattern = FORMS["compare"]
    return pattern.format(*parts, name=node.name) if pattern else f'"{node.name}"({", ".join(parts)})'


def _check_types(node: Call, parts: tuple[Term, ...]) -> None:
    """Refuse what the database would convert without being told to: a text that is no number would be NULL, and nobody would see it."""
    if node.kind in {"logic", "not"}:
        conditions = parts
    elif node.kind == "case":
        conditions = parts[:-1:2]
    else:
        conditions = ()
    for each in conditions:
        if each.type not in {"BOOLEAN", "NULL"} and each.sql not in {"true", "false", "NULL"}:
            raise SyntaxRefusedError(f"has a part of {node.name} that is no condition; write a comparison, as in x <> 0")
    if node.kind in {"compare", "between", "in"}:
        texts = [each for each in parts if each.is_text or each.type == "VARCHAR"]
        others = [each for each in parts if not each.is_text and each.type not in {"VARCHAR", "NULL"} and each.sql != "NULL"]
        if others and any(each.type == "VARCHAR" for each in texts):
            raise SyntaxRefusedError(
                "compares a text with something else; say which is meant, as in CAST(age AS INTEGER) >= 18 or code = '7'"
            )


def _refused(place: Keys, text: str, why: str) -> MistakesError:
    return MistakesError(Mistake(place, why, text, "expression"))
