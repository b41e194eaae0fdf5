"""A budget in memory belongs to one process: forks, copies, pickles and workers."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import select
import signal
import threading

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pydantic")
pytest.importorskip("cloudpickle")

import cloudpickle
import pyarrow as pa

from dpcore import BudgetError, ParameterTypeError, Privacy, PrivateTable
from dpcore.accounting import Ledger
from support.extras import evaluated

TABLE = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "g": ["a", "b", "a", "b"]})
ASKED = {"lower": 0, "upper": 5, "missing": 0}
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")


def told_by_child(ask):
    """What a forked child says of a question: answered, refused because of the process, or another error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        told = b"other"
        try:
            ask()
            told = b"answered"
        except BudgetError as error:
            told = b"refused" if "another process" in str(error) else b"budget"
        finally:
            os.write(writing, told)
            os._exit(0)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], 20)
    if not ready:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    told = os.read(reading, 20).decode() if ready else "hung"
    os.close(reading)
    return told


def limited(**settings):
    return PrivateTable(TABLE, max_epsilon=1.0, threads=1, **settings)


WAYS = {
    "query": lambda table: lambda: table.sum("x", epsilon=0.25, **ASKED),
    "filtered": lambda table: lambda: table.where("x > 1").count(epsilon=0.25),
    "grouped": lambda table: lambda: table.group_by("g", groups=["a", "b"]).count(epsilon=0.25),
    "private groups": lambda table: lambda: table.group_by("g", groups="private", delta=0.0).count(epsilon=0.25),
    "copy": lambda table: lambda: copy.copy(table).sum("x", epsilon=0.25, **ASKED),
    "spent": lambda table: lambda: table.spent,
}


@pytest.mark.some(5)
@forks
@pytest.mark.parametrize("way", WAYS)
def test_forked_children_of_a_table_with_a_limit_answer_nothing(way):
    table = limited()
    ask = WAYS[way](table)
    assert [told_by_child(ask) for _ in range(4)] == ["refused"] * 4
    table.sum("x", epsilon=1.0, **ASKED)
    assert table.spent == Privacy(1.0)


@forks
def test_children_of_children_and_children_after_an_answer_answer_nothing():
    table = limited()
    table.sum("x", epsilon=0.5, **ASKED)

    def grandchild():
        if told_by_child(WAYS["query"](table)) == "refused":
            WAYS["query"](table)()

    assert told_by_child(grandchild) == "refused"


@forks
def test_a_batch_that_is_open_at_a_fork_is_answered_once():
    table = limited()
    with table.batch(epsilon=1.0) as batch:
        answer = batch.sum("x", epsilon=1.0, **ASKED)

        def end():
            batch.__exit__(None, None, None)

        assert told_by_child(end) == "refused"
    assert isinstance(answer.value, float)
    assert table.spent == Privacy(1.0)


@forks
def test_a_fork_while_another_thread_spends_ends_in_a_refusal_and_waits_for_nobody():
    table = limited()
    with table._session.budget._lock:  # as another thread has it
        assert told_by_child(WAYS["query"](table)) == "refused"


@forks
def test_children_with_a_ledger_alone_share_it(tmp_path):
    ledger = Ledger.create(tmp_path / "study.ledger", epsilon=1.0)
    table = PrivateTable(TABLE, ledger=ledger, threads=1)
    told = [told_by_child(lambda: table.sum("x", epsilon=0.4, **ASKED)) for _ in range(4)]
    assert told == ["answered", "answered", "budget", "budget"]
    limited_too = limited(ledger=ledger)
    assert told_by_child(lambda: limited_too.sum("x", epsilon=0.1, **ASKED)) == "refused"


@forks
def test_a_process_with_the_number_of_its_ancestor_is_another_one(monkeypatch):
    """In a container of its own a child may have the number of the process that made the table."""
    table, number = limited(), os.getpid()

    def ask():
        monkeypatch.setattr(os, "getpid", lambda: number)
        table.sum("x", epsilon=0.25, **ASKED)

    assert told_by_child(ask) == "refused"


@pytest.mark.parametrize("copied", [copy.deepcopy, pickle.dumps, cloudpickle.dumps])
@pytest.mark.parametrize("settings", [{"max_epsilon": 1.0}, {}])
def test_a_table_is_neither_pickled_nor_copied_deeply(copied, settings):
    table = PrivateTable(TABLE, **settings)
    for each in (table, table.where("x > 1"), table.group_by("g", groups=["a"]), table.batch(epsilon=1.0)):
        with pytest.raises(ParameterTypeError, match="must not be copied or pickled"):
            copied(each)


@evaluated
def test_a_shallow_copy_and_views_spend_from_the_one_budget():
    table = limited()
    twin = copy.copy(table)
    twin.sum("x", epsilon=0.75, **ASKED)
    with pytest.raises(BudgetError, match=r"has spent epsilon 0\.75"):
        table.where("x > 0").count(epsilon=0.5)


def test_a_process_that_is_spawned_gets_no_table():
    table = limited()
    with multiprocessing.get_context("spawn").Pool(1) as pool, pytest.raises(ParameterTypeError, match="must not be copied or pickled"):
        pool.map(table.sum, ["x"])


def test_threads_of_one_process_share_the_budget():
    table, told = limited(), []

    def ask():
        try:
            table.sum("x", epsilon=0.4, **ASKED)
        except BudgetError:
            told.append("budget")
        else:
            told.append("answered")

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == ["answered"] * 2 + ["budget"] * 2


@forks
def test_a_reservation_opens_no_block_in_a_child_and_is_not_copied(tmp_path):
    ledger = Ledger.create(tmp_path / "study.ledger", epsilon=1.0)
    reservation = ledger.spend(Privacy(0.5), what="a histogram")
    assert told_by_child(reservation.__enter__) == "refused"
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ParameterTypeError, match="must not be copied or pickled"):
            copied(reservation)
    with reservation:
        pass
    assert [entry.state for entry in ledger.entries()] == ["done"]
