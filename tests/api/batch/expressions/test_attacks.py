"""Hostile expressions: each is refused before any row is read, with a message that says why."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from dpcore.errors import JobError
from dpcore.tables.sql.allowed import FUNCTIONS, INFIX, LONGEST_ROW, TYPES
from dpcore.tables.sql.database import opened
from dpcore.tables.sql.evaluation import Evaluation
from dpcore.tables.sql.program import Compiler
from support.expressions import HARMLESS, HOSTILE

COLUMNS = {"a": "BIGINT", "b": "BIGINT", "x": "DOUBLE", "s": "VARCHAR", "t": "VARCHAR", "d": "DATE", "ts": "TIMESTAMP", "f": "BOOLEAN"}


def refusal(text, columns=COLUMNS):
    """The message about an expression that cannot be derived; None if it can."""
    with Compiler(dict(columns)) as compiler:
        try:
            compiler.derive(("derive", 0), "value", text)
        except JobError as error:
            return str(error)
    return None


@pytest.mark.parametrize(("kind", "text"), HOSTILE)
def test_hostile_expressions_are_refused(kind, text):
    del kind
    found = refusal(text)
    if text in HARMLESS:
        assert found is None or "AS" in found
    else:
        assert found is not None
        assert found.startswith("derive[0].sql = ")
        assert len(found) < len(text) + 500


def test_there_are_hundreds_of_them():
    assert len(HOSTILE) > 350
    assert len(set(HOSTILE)) == len(HOSTILE)


@pytest.mark.some(7)
@pytest.mark.parametrize(
    "text",
    ["(" * 5000 + "a" + ")" * 5000, "NOT " * 2000 + "f", "a" + " + a" * 200, "abs(" * 100 + "a" + ")" * 100, "a" * 20_000,
     "f" + " AND f" * 1200, "a IN (" + "1, " * 1500 + "1)", "CASE WHEN f THEN " * 90 + "1" + " END" * 90, "[" * 3000 + "]" * 3000,
     "(" * 300, "\0", "a\0", "'\0'", "\ud800", ""],
)  # fmt: skip
def test_what_is_too_long_or_too_deep_is_refused(text):
    assert refusal(text) is not None


def test_every_function_that_can_be_called_is_a_builtin_of_one_row():
    database = opened()
    overloads = database.sql("select function_name, function_type, stability, parameter_types from duckdb_functions()").fetchall()
    known = {
        name: (kind, stability)
        for name, kind, stability, types in overloads
        if kind in {"scalar", "macro"} and not any("TIME ZONE" in (each or "") or "TZ" in (each or "") for each in types)
    }
    # Without those of instants with a time zone, which no expression has.
    assert not any("ZONE" in each or "TZ" in each for each in TYPES)
    macros = {"split_part", "date_add"}
    for name in FUNCTIONS:
        kind, stability = known[name]
        assert (kind, stability) == ("scalar", "CONSISTENT") or (name in macros and kind == "macro"), name
    bodies = database.sql("select function_name, macro_definition from duckdb_functions() where function_type = 'macro'").fetchall()
    for name, body in bodies:
        if name in macros:
            assert not any(word in body.lower() for word in ("select", "random", "current", "now(", "read", "setting")), (name, body)
    assert set(INFIX) <= set(FUNCTIONS)
    database.close()


def test_no_function_that_knows_more_than_its_arguments_can_be_called():
    database = opened()
    names = "select distinct function_name from duckdb_functions() where "
    odd = "stability <> 'CONSISTENT' or has_side_effects or function_type in ('aggregate', 'table', 'pragma')"
    others, scalars = (
        {name for (name,) in database.sql(names + which).fetchall()}
        for which in (odd, "function_type = 'scalar' and stability = 'CONSISTENT'")
    )
    assert not set(FUNCTIONS) & (others - scalars)
    database.close()


@pytest.mark.parametrize(
    "statement",
    ["select * from read_text('/etc/passwd')", "select * from '/etc/passwd'", "copy (select 1) to '/tmp/attack.csv'",
     "attach '/tmp/attack.db'", "install httpfs", "load httpfs", "set enable_external_access = true", "set threads = 8",
     "set memory_limit = '100GB'", "set lock_configuration = false", "set ieee_floating_point_ops = true",
     "export database '/tmp/attack'", "select * from glob('/etc/*')"],
)  # fmt: skip
def test_the_database_reads_no_file_and_keeps_its_settings(statement):
    with opened() as database:
        with pytest.raises(duckdb.Error):
            database.execute(statement).fetchall()
        with pytest.raises(duckdb.Error):
            database.cursor().execute(statement).fetchall()


def test_the_database_takes_no_table_from_the_variables_of_python():
    secret = pa.table({"a": [1]})
    with opened() as database, pytest.raises(duckdb.Error):
        database.sql("select * from secret").fetchall()
    assert secret.num_rows == 1


def test_texts_cannot_grow_from_one_derived_column_to_the_next():
    def doubled(compiler):
        name = "s"
        for i in range(60):
            compiler.derive(("derive", i), f"s{i}", f"{name} || {name}")
            name = f"s{i}"

    with Compiler({"s": "VARCHAR"}) as compiler, pytest.raises(JobError, match=str(LONGEST_ROW)):
        doubled(compiler)


def test_quotes_and_names_reach_no_statement():
    """What looks like SQL in a string, or in a column's name, is text."""
    nasty = "x') FROM cells; DROP TABLE cells; --"
    column = 'a" FROM cells; --'
    quoted = '"' + column.replace('"', '""') + '"'
    with Compiler({column: "VARCHAR", "n0": "BIGINT", "c0": "BIGINT", "cells": "BIGINT"}) as compiler:
        compiler.derive(
            ("derive", 0), "g0", f"CASE WHEN {quoted} = '{nasty.replace(chr(39), 2 * chr(39))}' THEN n0 + c0 + cells ELSE -1 END"
        )
        program = compiler.program(["g0"], {})
    batch = pa.record_batch({column: [nasty, "y"], "n0": [1, 2], "c0": [10, 20], "cells": [100, 200]})
    with Evaluation(program) as evaluation:
        assert evaluation.of(batch).columns["g0"].to_pylist() == [111, -1]


def test_columns_that_differ_in_capitals_alone_have_to_be_written_exactly():
    columns = {"Age": "BIGINT", "AGE": "BIGINT", "size": "BIGINT"}
    assert refusal('"Age" + SIZE', columns) is None
    assert "several columns" in refusal("age + 1", columns)
    assert "Did you mean 'size'" in refusal("sise + 1", columns)


def test_a_column_may_have_the_name_of_a_function_of_time():
    with Compiler({"current_date": "BIGINT", "user": "BIGINT", "rowid": "BIGINT"}) as compiler:
        compiler.derive(("derive", 0), "v", 'current_date + "user" * 10 + rowid * 100')
        program = compiler.program(["v"], {})
    with Evaluation(program) as evaluation:
        assert evaluation.of(pa.record_batch({"current_date": [1], "user": [2], "rowid": [3]})).columns["v"].to_pylist() == [321]
