"""What `make_session` does when its start fails half way, and what commands print of its warnings; no Java runs here."""

from __future__ import annotations

import threading
import types
import warnings

import pytest

from dpcore.cli import run
from dpcore.errors import StorageError
from dpcore.spark import commands, session, watching

pytest.importorskip("pyspark")


class Java:
    """Looks like the gateway to Java, whose log is no log4j 2."""

    @property
    def jvm(self):
        return types.SimpleNamespace(org=types.SimpleNamespace(apache=types.SimpleNamespace()))


@pytest.fixture
def contexts(monkeypatch):
    """The contexts that a start makes; each ends up in the list that it is in when it is stopped."""
    made = types.SimpleNamespace(running=[], stopped=[])

    class Context:
        _gateway = Java()
        _active_spark_context = None

        def __init__(self, conf, gateway):
            made.running.append(self)

        def stop(self):
            made.running.remove(self)
            made.stopped.append(self)

    class Conf(dict):
        def __init__(self, loadDefaults=True, *, _jvm=None):
            super().__init__()

        def setAll(self, pairs):
            self.update(pairs)
            return self

        def getAll(self):
            return list(self.items())

    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr("pyspark.SparkContext", Context)
    monkeypatch.setattr("pyspark.SparkConf", Conf)
    monkeypatch.setattr("pyspark.sql.SparkSession", lambda context: context)
    monkeypatch.setattr(session, "_settle", lambda settled, given, app_name: settled.update(given))
    monkeypatch.setattr(session, "running_session", lambda: None)
    monkeypatch.setattr(session, "warning_of_files", lambda made: None)
    return made


def test_a_session_starts_with_another_log_than_log4j(contexts):
    assert session.make_session("local[1]") is contexts.running[0]


def test_a_warning_that_is_an_error_leaves_no_context_running(contexts, monkeypatch):
    monkeypatch.setattr(session, "_quiet", lambda jvm: None)
    monkeypatch.setattr(session, "warning_of_files", lambda made: "files are given away")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="files are given away"):
            session.make_session("local[1]")
    assert (len(contexts.stopped), contexts.running) == (1, [])


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("of a cell", "; Spark's log above says why (RuntimeError)"),
        ("io.fabric8.kubernetes.client.KubernetesClientException: of a cell", ": the API server of Kubernetes does not answer, or refuses"),
        ("Must specify an executor container image", ": spark.kubernetes.container.image is not set"),
    ],
)
def test_a_start_that_fails_leaves_no_context_running(contexts, monkeypatch, error, words):
    def fails(context):
        raise RuntimeError(error)

    monkeypatch.setattr("pyspark.sql.SparkSession", fails)
    with pytest.raises(StorageError) as caught:
        session.make_session("local[1]")
    assert str(caught.value).startswith(f"Spark did not start on local[1]{words}")
    assert "of a cell" not in str(caught.value)
    assert (len(contexts.stopped), contexts.running) == (1, [])


def test_the_warnings_of_a_start_that_fails_are_printed(tmp_path, monkeypatch, capsys):
    """Among them that of a port that is open to anybody."""

    def fails(master, *, conf):
        warnings.warn("a port is open", UserWarning, stacklevel=2)
        raise StorageError("no master")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "running_session", lambda: None)
    monkeypatch.setattr(commands, "make_session", fails)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert run(["estimate", "t.parquet", "--engine", "spark"]) == 4
    assert capsys.readouterr().err.splitlines() == ["dpcore: warning: a port is open", "dpcore: no master"]


def test_a_warning_of_another_thread_is_printed_as_the_others(capsys):
    """That no executor has come is seen by a timer."""
    before = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with commands._Session(None, []):
            thread = threading.Thread(target=lambda: warnings.warn(watching.LONELY, UserWarning, stacklevel=1))
            thread.start()
            thread.join()
            assert capsys.readouterr().err == f"dpcore: warning: {watching.LONELY}\n"
    assert warnings.showwarning is before
