"""A job for which no executor comes says so, and goes on waiting; no Java runs here."""

from __future__ import annotations

import sys
import threading
import time
import warnings

import pytest

from dpcore.spark import watching

pytest.importorskip("pyspark")


def session(master: str, executors: int):
    """What looks like a session whose driver has so many executors."""

    class Status:
        def size(self):
            return executors + 1

    class Java:
        def sc(self):
            return self

        def getExecutorMemoryStatus(self):
            return Status()

    class Tracker:
        def getJobIdsForGroup(self, group):
            return []

    class Context:
        _jsc = Java()

        def setJobGroup(self, *_, **__):
            pass

        def statusTracker(self):
            return Tracker()

    Context.master = master
    made = type("Session", (), {})()
    made.sparkContext = Context()
    return made


@pytest.mark.long
@pytest.mark.parametrize(("master", "executors", "warns"), [("spark://a:1", 0, 1), ("spark://a:1", 1, 0), ("local[2]", 0, 0)])
def test_a_job_without_executors_says_so_once(monkeypatch, master, executors, warns):
    monkeypatch.setattr("pyspark.InheritableThread", threading.Thread)
    monkeypatch.setattr(watching, "SECONDS", 0.02)
    monkeypatch.setattr(watching, "PATIENCE", 0.1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert watching.watched(session(master, executors), lambda: time.sleep(0.5) or 7) == 7
    assert sum("no executor has come" in str(each.message) for each in said) == warns


def test_an_error_where_pyspark_has_no_logger_has_no_other_cause(monkeypatch):
    """As with pyspark 3.5."""
    monkeypatch.setitem(sys.modules, "pyspark.logger", None)
    with pytest.raises(KeyError) as caught, watching.unlogged():
        raise KeyError("name")
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
