"""Expressions of SQL: what the list of allowed functions lets through is evaluated, and compared with plain Python."""

from __future__ import annotations

import datetime as dt
import functools
import json
import os
import zlib
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import duckdb
import pyarrow as pa

from dpcore.errors import JobError
from dpcore.tables.sql.allowed import FUNCTIONS, OF_TEXT
from dpcore.tables.sql.arrow_values import database_type
from dpcore.tables.sql.database import connected
from dpcore.tables.sql.evaluation import Evaluation
from dpcore.tables.sql.program import Compiler
from dpcore.tables.sql.syntax import SyntaxRefusedError, both, parsed
from fuzz import expression_text
from fuzz.plain_expressions import UNSURE, value
from fuzz.target import MARK, NUMBER_MARK, FoundError, Target

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from dpcore.tables.sql.program import Program

BIG = 2**63 - 1
CANARY = "zq7canary"
"""What no expression can see: a file, a variable of the environment, an object of Python."""
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "a": (pa.int64(), [0, 1, -1, BIG, -BIG - 1, 7, None, NUMBER_MARK, 2]),
    "b": (pa.int64(), [3, 0, -1, 1, 63, BIG, 2, None, -BIG - 1]),
    "x": (pa.float64(), [0.0, 1.5, -0.0, 1e308, float("inf"), float("nan"), None, -400.25, 5e-324]),
    "s": (pa.string(), ["", "a", MARK, "abc", "x" * 4096, None, "日本é", "2024-02-30", "A%_"]),
    "t": (pa.string(), ["a", "", "bc", None, "x", "1.5", "true", "\x00", "é"]),
    "f": (pa.bool_(), [True, False, None, True, True, False, None, False, True]),
    "d": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29), None, *[dt.date(1970, 1, 1)] * 5]),
    "ts": (
        pa.timestamp("us"),
        [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), None, *[dt.datetime(2024, 2, 29, 12)] * 6],
    ),
    "n": (pa.decimal128(10, 2), [Decimal("0.00"), Decimal("99999999.99"), Decimal("-99999999.99"), None, *[Decimal("1.25")] * 5]),
    "c": (pa.time64("us"), [dt.time(0), dt.time(23, 59, 59, 999999), None, *[dt.time(12)] * 6]),
    "w": (pa.duration("us"), [dt.timedelta(0), dt.timedelta(hours=-1), dt.timedelta(days=2_932_895), None, *[dt.timedelta(1)] * 5]),
}
BATCH = pa.record_batch({name: pa.array(values, kind) for name, (kind, values) in COLUMNS.items()})
KINDS = {name: database_type(kind) for name, (kind, _) in COLUMNS.items()}
ROWS = [{name: COLUMNS[name][1][i] for name in ("a", "b", "s", "t", "f")} for i in range(len(BATCH))]
"""For the plain reader: columns whose values are Python's own."""

people = pa.table({"a": [CANARY]})
"""An object of Python that the database could take for a table."""


class Expressions(Target):
    """An expression behind `where:`, `derive:` or `aggregate:`, or two conditions behind `both:`, a line each."""

    name: ClassVar[str] = "expressions"
    promise: ClassVar[str] = (
        "what is accepted calls pure functions alone, sees its row alone, raises for no row, and has the value that plain Python computes"
    )
    longest: ClassVar[int] = 2000
    words: ClassVar[tuple[str, ...]] = (
        *FUNCTIONS,
        *OF_TEXT,
        *expression_text.KINDS,
        *expression_text.LITERALS,
        "where:",
        "derive:",
        "aggregate:",
        "both:",
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        os.environ["DPCORE_FUZZ"] = CANARY
        for name in (f"{CANARY}.csv", "people.csv"):
            (folder / name).write_text(f"a,b\n{CANARY},1\n", encoding="utf-8")

    def declares(self, mark: str, data: bytes) -> bool:
        return mark.encode() in data

    def mutated(self, data: bytes, rng: random.Random) -> bytes | None:
        kind, _, text = data.decode(errors="replace").partition(":")
        kind = rng.choice(("where", "derive", "derive", "aggregate", "both")) if rng.random() < 0.2 else kind
        changed = expression_text.aggregate(rng) if kind == "aggregate" and rng.random() < 0.5 else expression_text.mutated(text, rng)
        if kind == "both":
            changed = f"{text.partition(chr(10))[0]}\n{changed}"
        return f"{kind}:{changed}".encode(errors="replace")

    def run(self, data: bytes) -> None:
        kind, _, text = data.decode(errors="replace").partition(":")
        if kind == "both":
            self._both(*(each.strip() for each in (text.partition("\n")[0], text.partition("\n")[2])))
            return
        with Compiler(dict(KINDS)) as compiler:
            if kind == "aggregate":
                found = compiler.parsed(("per_unit", "n"), text, aggregate=True)
                for node in found.parts:
                    compiler.argument(("per_unit", "n"), text, node)
                return
            if kind == "where":
                compiler.condition(("where",), text)
                program = compiler.program([], {"where": text})
            else:
                compiler.derive(("derive", 0), "found", text)
                program = compiler.program(["found"], {})
        self._check_program(program)
        self._check_values(program, text, data)

    def _both(self, first: str, second: str) -> None:
        """Two conditions that are joined hold where both do."""
        keys = ("first", "second", "both")
        with Compiler(dict(KINDS)) as compiler, connected() as database:
            for key, text in zip(keys, (first, second), strict=False):
                compiler.condition((key,), text)
            try:
                joined = both(first, second, database)
            except SyntaxRefusedError as error:
                raise JobError(str(error)) from None
            compiler.condition(("both",), joined)
            program = compiler.program([], dict(zip(keys, (first, second, joined), strict=True)))
        with Evaluation(program) as evaluation:
            found = [evaluation.of(BATCH).conditions[key] for key in keys]
        if (found[2] != (found[0] & found[1])).any():
            raise FoundError(f"joined conditions hold for {found[2].tolist()}, and not for {(found[0] & found[1]).tolist()}")

    def _check_program(self, program: Program) -> None:
        """Raise if the program calls a function that the database itself does not call pure, or reads another table."""
        with connected() as database:
            (said,) = database.execute("SELECT json_serialize_sql(?)", [program.query]).fetchone() or ("{}",)
        for node in _nodes(json.loads(said)):
            name = node.get("function_name")
            if name is not None and not _is_pure(name):
                raise FoundError(f"the program calls {name!r}, which is {sorted(map(str, functions()[name.lower()]))}")
            if node.get("type") in {"TABLE_FUNCTION", "PIVOT", "SHOW_REF"} or node.get("table_name", "cells") not in {"cells", ""}:
                raise FoundError(f"the program reads {node.get('table_name') or node.get('type')!r}")

    def _check_values(self, program: Program, text: str, data: bytes) -> None:
        with Evaluation(program) as evaluation:
            whole = _listed(evaluation.of(BATCH))
            order = list(reversed(range(len(BATCH))))
            turned = _listed(evaluation.of(BATCH.take(pa.array(order))))
            alone = [zlib.crc32(data + bytes([i])) % len(BATCH) for i in range(2)]
            each = [_listed(evaluation.of(BATCH.slice(i, 1)))[0] for i in alone]
        if repr([turned[i] for i in order]) != repr(whole):
            raise FoundError(f"the value of a row depends on the order of rows: {whole} and {turned}")
        if repr(each) != repr([whole[i] for i in alone]):
            raise FoundError(f"the value of a row depends on others: alone {each}, together {[whole[i] for i in alone]}")
        if any(CANARY in str(found) for found in whole) and CANARY not in text:
            raise FoundError("an expression sees what is none of its row")
        self._compare(program, text, whole)

    def _compare(self, program: Program, text: str, whole: list[Any]) -> None:
        """Compare with the plain reader, where that knows a value."""
        with connected() as database:
            tree = parsed(text, database)
        kinds = {str: {"VARCHAR"}, bool: {"BOOLEAN"}, int: {"BIGINT"}}
        for row, found in zip(ROWS, whole, strict=True):
            expected = value(tree, row)
            if expected is UNSURE or (program.types and program.types["found"] not in kinds.get(type(expected), program.types.values())):
                continue
            if program.conditions:
                expected = expected is True
            if found != expected or type(found) is not type(expected):
                raise FoundError(f"{text!r} is {found!r} for a row, and by plain Python {expected!r}")


def _listed(values: Any) -> list[Any]:
    """The one column or condition of a program."""
    (found,) = (*values.columns.values(), *values.conditions.values())
    return found.to_pylist() if hasattr(found, "to_pylist") else found.tolist()


def _nodes(found: Any) -> list[dict[str, Any]]:
    """All tables of a JSON document."""
    if isinstance(found, list):
        return [node for each in found for node in _nodes(each)]
    return [found, *(node for each in found.values() for node in _nodes(each))] if isinstance(found, dict) else []


def _is_pure(name: str) -> bool:
    """Whether the value of a function follows from its arguments: of a macro, if that of all it calls does. An operator has no entry."""
    found = functions().get(name.lower(), set())
    if definitions := [text for kind, _, text in found if kind == "macro"]:
        return all(_is_pure(called) for text in definitions for called in _called(text))
    # What also takes times with a zone has a second form, which depends on the zone of the session: no type of ours has one.
    stabilities = {stability for _, stability, _ in found}
    return not found or ("CONSISTENT" in stabilities and "VOLATILE" not in stabilities)


def _called(expression: str) -> set[str]:
    with connected() as database:
        (said,) = database.execute("SELECT json_serialize_sql(?)", [f"SELECT {expression}"]).fetchone() or ("{}",)
    return {node["function_name"] for node in _nodes(json.loads(said)) if node.get("function_name")}


@functools.cache
def functions() -> dict[str, set[tuple[str, str | None, str | None]]]:
    """What the database says of each function: its kind, whether its value follows from its arguments, and what a macro stands for."""
    with duckdb.connect() as database:
        rows = database.execute("SELECT function_name, function_type, stability, macro_definition FROM duckdb_functions()").fetchall()
    found: dict[str, set[tuple[str, str | None, str | None]]] = {}
    for name, *said in rows:
        found.setdefault(name.lower(), set()).add(tuple(said))
    return found
