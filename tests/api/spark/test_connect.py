"""Spark Connect without a server: what must be declared, what is asked of a session, and results that are read twice."""

from __future__ import annotations

import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from dpcore import PrivateTable
from dpcore.errors import JobError, ParameterError, ParameterTypeError, StorageError
from dpcore.jobs.commands.words import source
from dpcore.spark import Declared, connect, estimate, settings
from dpcore.spark.part_passes import SparkPasses, _batches
from dpcore.spark.part_totals import PartOfTotals
from dpcore.spark.partitions import most_tasks, partitions_of
from dpcore.spark.reading import table_of
from dpcore.spark.snapshots import Snapshot, pinned
from dpcore.tables.progress import Silent
from dpcore.tables.sections import InputSection

DECLARED = Declared(encrypted=True)
PROMISED = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
}
GOOD = PROMISED | {"spark.sql.shuffle.partitions": "200"}


class SparkSession:
    """Stands for a session of Spark Connect: its settings, and files that its executors look at."""

    session_id = "one"

    def __init__(self, conf=None, version="4.3.0", host="localhost", files=None, **more):
        self.conf = SimpleNamespace(get=(GOOD | (conf or {})).__getitem__)
        self.version, self.files, self.done = version, files or {}, []
        self.client = SimpleNamespace(_builder=SimpleNamespace(secure=more.get("secure", False), host=host))
        self.read = SimpleNamespace(format=lambda name: SimpleNamespace(load=self.load))

    def load(self, places):
        rows = [(place, *self.files[place]) for place in places if place in self.files]
        return SimpleNamespace(selectExpr=lambda *names: SimpleNamespace(collect=lambda: rows))

    def addTag(self, tag):
        self.done.append("tag")

    def removeTag(self, tag):
        self.done.append("untag")

    def registerProgressHandler(self, handler):
        handler(stages=[SimpleNamespace(num_tasks=4, num_completed_tasks=1)], inflight_tasks=1, operation_id="", done=False)

    def removeProgressHandler(self, handler):
        pass

    def interruptTag(self, tag):
        self.done.append("interrupted")


class DataFrame:
    """Stands for a frame of one."""

    def __init__(self, session, rows=(), files=()):
        self.sparkSession, self.rows, self.files, self.steps = session, rows, files, []

    def inputFiles(self):
        return list(self.files)

    def coalesce(self, count):
        self.steps.append(("coalesce", count))
        return self

    def mapInArrow(self, task, schema):
        self.steps.append(("map", task.func.__name__))
        return self

    def repartition(self, count, *columns):
        self.steps.append(("repartition", count))
        return self

    def collect(self):
        return list(self.rows)


for kind in (SparkSession, DataFrame):
    kind.__module__ = f"pyspark.sql.connect.{'session' if kind is SparkSession else 'dataframe'}"


def refusal(session, declared=DECLARED):
    with pytest.raises(JobError) as refused:
        connect.check_session(session, declared)
    return str(refused.value)


def test_a_session_is_accepted_that_is_declared_and_set():
    connect.check_session(SparkSession(), DECLARED)
    assert DECLARED.document() == {"encrypted": "declared"}
    assert pickle.loads(pickle.dumps(DECLARED)) == DECLARED


@pytest.mark.parametrize("declared", [None, Declared(encrypted=False)])
def test_what_nothing_shows_must_be_declared(declared):
    assert refusal(SparkSession(), declared).startswith("connect is not given, and nothing shows whether")


def test_only_a_declaration_is_one():
    with pytest.raises(ParameterTypeError, match=r"connect must be dpcore\.spark\.Declared\(encrypted=True\), got bool"):
        connect.check_session(SparkSession(), True)
    with pytest.raises(ParameterTypeError, match="encrypted must be True or False, got str"):
        Declared(encrypted="yes")


@pytest.mark.parametrize(("name", "value"), PROMISED.items())
def test_each_setting_that_a_promise_needs_is_asked_for(name, value):
    wrong = "false" if value == "true" else "true"
    said = refusal(SparkSession({name: wrong}))
    assert f"{name} is {wrong!r}: it must be {value!r}, because" in said
    assert said.endswith(f'spark.conf.set("{name}", "{value}")')
    assert f"{name} is ''" in refusal(SparkSession({name: ""}))  # a server that does not say


@pytest.mark.parametrize("version", ["3.5.9", "4.0.0", "4.1.2"])
def test_a_server_that_does_not_notice_other_rows_is_refused(version):
    said = refusal(SparkSession(version=version))
    assert said.startswith(f"Spark Connect needs Spark 4.2 or later on both sides, and the server has {version[:3]}")


def test_exact_statistics_in_plain_text_from_another_machine_are_warned_of():
    with pytest.warns(UserWarning, match=r"^the connection to first is not encrypted by Spark Connect"):
        connect.check_session(SparkSession(host="first"), DECLARED)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        connect.check_session(SparkSession(host="first", secure=True), DECLARED)
        connect.check_session(SparkSession(host="127.0.0.1"), DECLARED)
        connect.check_session(SparkSession(host="[::1]"), DECLARED)


def test_a_declaration_is_for_sessions_that_do_not_show_their_settings():
    session = type("SparkSession", (), {"__module__": "pyspark.sql.session"})()
    with pytest.raises(ParameterError, match=r"^connect is for sessions of Spark Connect; this one has its driver in this process"):
        connect.check_session(session, DECLARED)
    with pytest.raises(ParameterError, match=r"^connect is for frames of Spark Connect; frame is of type DataFrame"):
        PrivateTable(pd.DataFrame({"x": [1.0]}), connect=DECLARED)


def test_the_key_of_the_noise_goes_to_no_server():
    with pytest.raises(ParameterTypeError, match="the key of the noise would go to its server"):
        settings.check_is_session(SparkSession())
    with pytest.raises(ParameterTypeError, match=r"dpcore\.batch\.estimate and dpcore estimate read them on any machine"):
        estimate("reports", session=SparkSession())


def test_a_path_of_this_machine_is_none_of_a_server():
    for path in ("people.parquet", "s3a://bucket/people", "file:/data/people"):
        with pytest.raises(JobError, match="name a table that it knows, as table:"):
            table_of(SparkSession(), InputSection(path=path))


ADDRESSES = ["sc://", "sc:///", "sc://host:port", "sc://host:123456", "http://host"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(JobError, match=r"^the address of a server of Spark Connect must be like sc://host:15002"):
        connect.opened(address, {})


def test_a_server_that_does_not_answer_is_told_at_once():
    with pytest.raises(StorageError, match=r"^no server of Spark Connect answers at 127\.0\.0\.1:9$"):
        connect.opened("sc://127.0.0.1:9/;token=secret", {})


def test_the_address_is_that_of_the_master_or_of_the_variable(monkeypatch):
    monkeypatch.setenv(connect.REMOTE, "sc://one")
    assert connect.address_of(None) == "sc://one"
    assert connect.address_of("local[2]") is None
    assert connect.address_of("sc://two") == "sc://two"
    monkeypatch.setenv(connect.REMOTE, "local[2]")
    assert connect.address_of(None) is None


def test_a_plan_in_words_says_what_is_declared():
    def said(files, **more):
        origin = {"format": "spark", "files": files, **more}
        plan = SimpleNamespace(
            inputs=SimpleNamespace(origin=origin), rows=None, job=SimpleNamespace(input=SimpleNamespace(path="table:db.visits"))
        )
        return source(plan)

    assert said(2) == "input   table:db.visits (spark, 2 files, rows unknown before reading)"
    assert said(1) == "input   table:db.visits (spark, 1 file, rows unknown before reading)"
    declared = said(None, connect=DECLARED.document())
    assert declared == (
        "input   table:db.visits (spark, files unknown, Spark Connect, whose encryption is declared, rows unknown before reading)"
    )


# Files


def test_files_are_known_by_size_and_time_whatever_their_names():
    files = {"file:///a/b%20%7B1%7D.parquet": (3, 5), "s3a://bucket/x%25.parquet": (4, 6)}
    shown = {r"file:///a/b \{1\}.parquet": (3, 5), r"s3a://bucket/x%.parquet": (4, 6)}
    session = SparkSession(files=shown)
    session.load = lambda places: SimpleNamespace(
        selectExpr=lambda *names: SimpleNamespace(
            collect=lambda: [(place.replace("file:///", "file:/").replace("\\", ""), *shown[place]) for place in places]
        )
    )
    assert pinned(DataFrame(session, files=files)) == Snapshot(files)


def test_a_file_that_is_gone_or_changed_ends_the_job():
    session = SparkSession(files={"file:/a": (3, 5)})
    frame = DataFrame(session, files=["file:/a"])
    before = pinned(frame)
    session.files["file:/a"] = (3, 6)
    with pytest.raises(StorageError, match="the input changed"):
        before.check(frame)
    session.files.clear()
    with pytest.raises(StorageError, match="the input changed"):
        before.check(frame)


class RefusedError(Exception):
    """Stands for an error of pyspark, with its name."""

    def getCondition(self):
        return self.args[0]


def test_a_server_that_opens_no_files_for_its_users_tells_their_names():
    session = SparkSession({"spark.sql.shuffle.partitions": "3"})

    def load(places):
        raise RefusedError(condition)

    session.load, condition = load, "INSUFFICIENT_PERMISSIONS"
    frame = DataFrame(session, files=["s3://a"])
    assert pinned(frame) == Snapshot({"s3://a": (connect.UNKNOWN, connect.UNKNOWN)})
    assert partitions_of(frame, pinned(frame).files.values()) == 3  # as the session says
    condition = "PATH_NOT_FOUND"
    with pytest.raises(StorageError):
        pinned(frame)


def test_partitions_follow_from_the_bytes_of_files():
    frame = DataFrame(SparkSession({"spark.sql.shuffle.partitions": "7"}))
    assert partitions_of(frame) == 7
    assert partitions_of(frame, [(10, 0)]) == 1
    assert partitions_of(frame, [(64 << 20, 0), (96 << 20, 0)]) == 10


# Results


def passes(session, files=None):
    table = SimpleNamespace(frame=DataFrame(session), snapshot=SimpleNamespace(files=files or {}, check=lambda frame: None))
    return SparkPasses(table, Silent())


class Job:
    """A job of one count of some groups."""

    holds_rows = False

    def __init__(self, groups=3):
        self._groups = groups

    def added_up(self, rows):
        return PartOfTotals([np.zeros(self._groups, np.int64)], 0)


def pieces(times=1):
    part = PartOfTotals([np.array([4, 0, 5])], 9)
    return [(place, piece) for _ in range(times) for place, piece in part.pieces()]


def test_a_result_that_comes_twice_is_refused():
    session = SparkSession()
    once = passes(session)._total(Job(), DataFrame(session, pieces()), "")
    assert (once.totals[0].tolist(), once.rows) == ([4, 0, 5], 9)
    with pytest.raises(StorageError, match=r"^Spark gave a part of its result twice"):
        passes(session)._total(Job(), DataFrame(session, pieces(2)), "")


def test_a_failure_of_the_server_is_told_in_the_words_of_dpcore_and_belongs_to_the_action():
    session = SparkSession()

    def fail():
        assert session.done == ["tag"]
        raise ValueError("Ann Example HIV")

    frame = DataFrame(session)
    frame.collect = fail
    with pytest.raises(StorageError, match=r"^Spark could not finish the job \(ValueError\)"):
        passes(session)._total(Job(), frame, "")
    assert session.done == ["tag", "untag"]


def test_each_range_comes_from_one_task_and_moved_bytes_are_bounded():
    session = SparkSession()
    frame = DataFrame(session, pieces())
    passes(session)._total(Job(), frame, "")
    assert frame.steps[0] == ("coalesce", 1 << 20)
    assert frame.steps[-2:] == [("repartition", 1), ("map", "merged_parts")]
    large = DataFrame(session, [])
    passes(session)._total(Job(1 << 20), large, "")
    assert large.steps[0] == ("coalesce", most_tasks(8 * (1 << 20) + 8))


def test_keys_that_come_twice_or_out_of_order_are_refused():
    rows = [(b"a", 1), (b"b", 2), (b"\xff", 3)]
    assert sum(len(batch) for batch in _batches(iter(rows))) == 3
    for wrong in (rows * 2, [rows[1], rows[0]], [rows[0], rows[0]]):
        with pytest.raises(StorageError, match=r"^Spark gave a part of its result twice"):
            list(_batches(iter(wrong)))


def test_settings_that_change_during_a_pass_end_it():
    conf = dict(GOOD)
    session = SparkSession()
    session.conf = SimpleNamespace(get=conf.__getitem__)
    assert passes(session)._run(lambda: "found", "") == "found"
    assert session.done == ["tag", "untag"]
    with pytest.raises(JobError, match=r"spark\.sql\.adaptive\.enabled is 'true'"):
        passes(session)._run(lambda: conf.update({"spark.sql.adaptive.enabled": "true"}), "")


def test_tables_of_two_sessions_are_not_joined():
    from dpcore.spark.joined_rows import check_is_one_session

    one, other = SparkSession(), SparkSession()
    check_is_one_session(one, [SimpleNamespace(frame=DataFrame(one))])
    other.session_id = "two"
    here = type("SparkSession", (), {"__module__": "pyspark.sql.session"})()
    for first, second in ((one, other), (here, one), (one, here)):
        with pytest.raises(ParameterError, match="both tables must be of one session"):
            check_is_one_session(first, [SimpleNamespace(frame=DataFrame(second))])
