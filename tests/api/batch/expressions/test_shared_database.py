"""The database that all expressions of a process share: nobody sees the rows of another, and nothing stays."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref

import duckdb
import pyarrow as pa
import pytest

from dpcore.tables.sql import database
from dpcore.tables.sql.evaluation import Evaluation
from dpcore.tables.sql.program import ROWS, Compiler

COLUMNS = {"a": "BIGINT"}


def program(text):
    with Compiler(dict(COLUMNS)) as compiler:
        compiler.condition(("where",), text)
        return compiler.program([], {"it": text})


def batch(*values):
    return pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], ["a"])


def test_rows_of_one_connection_are_no_table_of_another():
    with database.connected() as one, database.connected() as other:
        one.register(ROWS, pa.table({"a": [1]}))
        assert one.sql(f"select a from {ROWS}").fetchall() == [(1,)]
        with pytest.raises(duckdb.CatalogException):
            other.sql(f"select a from {ROWS}")
    with database.connected() as later, pytest.raises(duckdb.CatalogException):
        later.sql(f"select a from {ROWS}")


def test_questions_at_the_same_time_have_their_own_rows():
    found, start = {}, threading.Barrier(8)

    def ask(number):
        with Evaluation(program(f"a > {number}")) as evaluation:
            start.wait()
            found[number] = [evaluation.of(batch(*range(size))).conditions["it"].sum() for size in range(1, 60)]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == {number: [max(size - number - 1, 0) for size in range(1, 60)] for number in range(8)}


def test_no_rows_stay_after_an_evaluation():
    with Evaluation(program("a > 1")) as evaluation:
        evaluation.of(batch(1, 2, 3))
        cells = weakref.ref(evaluation._connection()._cells)
        assert cells() is not None
    gc.collect()
    assert cells() is None


def test_the_settings_hold_in_every_connection_and_cannot_be_changed():
    with database.connected() as connection:
        with pytest.raises(duckdb.InvalidInputException, match="locked"):
            connection.execute("set enable_external_access = true")
        with pytest.raises(duckdb.Error):
            connection.execute("select * from read_csv('/etc/passwd')")
        assert connection.execute("select 1 // 0, current_setting('threads')").fetchall() == [(None, 1)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_opens_its_own():
    database.connected().close()
    parents = database._shared._database
    child = os.fork()
    if not child:
        code = 1
        try:
            database.connected().close()
            made = database._shared._database
            code = int(made is None or made is parents or made.execute("select 1").fetchall() != [(1,)])
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert database._shared._database is parents


GENERATIONS = """
import os, sys
from dpcore.tables.sql import database

def asked():
    with database.connected() as connection:
        assert connection.execute("select 1").fetchall() == [(1,)]

asked()
for _ in range(3):
    child = os.fork()
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    asked()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_children_of_children_close_no_database_of_another_process():
    subprocess.run([sys.executable, "-W", "ignore", "-c", GENERATIONS], check=True, timeout=60)
