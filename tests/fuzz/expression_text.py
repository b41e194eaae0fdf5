"""Expressions made from a grammar: of functions that are allowed, that the database has beside them, and of other clauses."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from dpcore.tables.sql.allowed import AGGREGATES, COMPARISONS, FUNCTIONS, INFIX, TARGETS
from support.expressions import HOSTILE

if TYPE_CHECKING:
    import random

COLUMNS = ("a", "b", "x", "s", "t", "f", "d", "ts", "n", "c", "w", "A", '"a"', "nowhere", "cells.a")
LITERALS = (
    "0", "1", "2", "-1", "3", "7", "63", "255", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1.5", ".5",
    "1e308", "1e-308",
    "1e400", "0.1", "NULL", "true", "false", "''", "'a'", "'abc'", "'%'", "'_a%'", "'2024-02-29'", "'12:30'", "'inf'", "'é'", "'日本'",
    "'year'", "'%Y-%m'",
    "DATE '2024-01-31'", "TIMESTAMP '2024-01-31 12:00:00'", "INTERVAL 1 DAY", "INTERVAL '3 months'", "x'00'", "$1", "?", "[1, 2]",
    "{'k': 1}",
)  # fmt: skip
OPERATORS = (
    *INFIX,
    *COMPARISONS.values(),
    "AND",
    "OR",
    "LIKE",
    "NOT LIKE",
    "ILIKE",
    "SIMILAR TO",
    "GLOB",
    "~",
    "~~",
    "^@",
    "!=",
    "->",
    "->>",
    "::",
)
KINDS = (*TARGETS, "DECIMAL(10, 2)", "DECIMAL(38, 38)", "DECIMAL(40, 2)", "BLOB", "JSON", "INTEGER[]", "TIMESTAMPTZ", "STRUCT(k INTEGER)")
PARTS = ("date_part", "'month'", "'epoch'", "'isodow'", "'nonsense'")
CLAUSES = (
    "{} FROM cells", "{}; SELECT 1", "{} -- ", "{} /*", "{} AS b", "{}, b", "DISTINCT {}", "{} ORDER BY 1", "{} LIMIT 1", "(SELECT {})",
    "{} OVER ()",
    "{} FILTER (WHERE f)", "{} COLLATE nocase", "EXISTS ({})", "{} WHERE f", "CAST({} AS VARCHAR(5))", "TRY({})", "({})",
    "{} UNION SELECT 1",
)  # fmt: skip


@functools.cache
def other_functions() -> tuple[str, ...]:
    """Functions of the database that no expression may call."""
    from dpcore.tables.sql.database import connected

    with connected() as database:
        rows = database.execute("SELECT DISTINCT function_name FROM duckdb_functions() ORDER BY ALL").fetchall()
    return tuple(name for (name,) in rows if name not in FUNCTIONS and name.isidentifier())


def made(rng: random.Random, depth: int = 3) -> str:
    """An expression."""
    if depth <= 0 or rng.random() < 0.15:
        return rng.choice(COLUMNS if rng.random() < 0.65 else LITERALS)
    below = functools.partial(made, rng, depth - 1)
    match rng.randrange(14):
        case 0 | 1 | 2:
            return f"{below()} {rng.choice(OPERATORS[: len(INFIX) + 10])} {below()}"
        case 3:
            return f"({below()} {rng.choice(OPERATORS)} {below()})"
        case 4 | 5 | 6:
            name = rng.choice(list(FUNCTIONS))
            count = rng.choice((1, 1, 1, 2, 2, 3, 4, 0))
            arguments = [below() for _ in range(count)]
            return f"{name}({', '.join(arguments)})" if name.isidentifier() else f"({' '.join((below(), name, below()))})"
        case 7:
            return f"CASE WHEN {below()} THEN {below()} ELSE {below()} END"
        case 8:
            return f"{rng.choice(('CAST', 'TRY_CAST'))}({below()} AS {rng.choice(KINDS)})"
        case 9:
            return f"{below()} {rng.choice(('IS NULL', 'IS NOT NULL', 'IS TRUE', 'NOTNULL'))}"
        case 10:
            return f"{below()} {rng.choice(('IN', 'NOT IN'))} ({below()}, {below()})"
        case 11:
            return rng.choice(
                (f"{below()} BETWEEN {below()} AND {below()}", f"coalesce({below()}, {below()})", f"nullif({below()}, {below()})",
                f"NOT {below()}",
                 f"-{below()}", f"if({below()}, {below()}, {below()})", f"extract(month FROM {below()})", f"{below()}::{rng.choice(KINDS)}",
                 f"substring({below()} FROM 1 FOR 2)", f"position('a' IN {below()})", f"trim(both 'a' FROM {below()})")
            )  # fmt: skip
        case 12:
            return f"{rng.choice(other_functions())}({', '.join(below() for _ in range(rng.randrange(3)))})"
        case _:
            return rng.choice(CLAUSES).format(below())


def aggregate(rng: random.Random) -> str:
    """An aggregate of a unit's rows, or something like it."""
    name = rng.choice(list(AGGREGATES)) if rng.random() < 0.8 else rng.choice(other_functions())
    if name == "count_star":
        return "count(*)" + rng.choice(("", "", f" FILTER (WHERE {made(rng, 2)})"))
    distinct = "DISTINCT " if rng.random() < 0.15 else ""
    arguments = ", ".join(made(rng, 2) for _ in range(AGGREGATES.get(name, 1)))
    return f"{name}({distinct}{arguments})" + rng.choice(("", "", "", f" FILTER (WHERE {made(rng, 2)})", " OVER ()", f" + {made(rng, 1)}"))


def mutated(text: str, rng: random.Random) -> str:
    """Another expression, in place of this one or with it inside."""
    match rng.randrange(8):
        case 0 | 1:
            return made(rng, rng.randrange(1, 5))
        case 2:
            return rng.choice(CLAUSES).format(text)
        case 3:
            return f"({text}) {rng.choice(OPERATORS)} ({made(rng, 2)})"
        case 4:
            return f"{rng.choice(list(FUNCTIONS))}({text}, {made(rng, 1)})"
        case 5:
            return rng.choice(HOSTILE)[1]
        case 6:
            words = text.split(" ")
            words[rng.randrange(len(words))] = made(rng, 2)
            return " ".join(words)
    words = text.split(" ")
    at = rng.randrange(len(words))
    return " ".join([*words[:at], *words[at + 1 :]]) or made(rng, 2)
