"""Releases and tables on sessions of Spark Connect: the answers of one machine, and each promise kept or refused with its reason."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore import PrivateTable
from dpcore.accounting import Ledger
from dpcore.batch import load_release_job, make_release_plan
from dpcore.batch import release as on_one_machine
from dpcore.errors import DataError, JobError, ParameterTypeError, StorageError
from dpcore.frames.sources import records_of
from dpcore.spark import Declared, failures, part_passes, privatize, release
from dpcore.spark.watching import watched
from dpcore.testing import KeyedRandom
from support.connect_server import Server, serving, session_on
from support.every_query import EVERY_UNIT, document, job_text, table
from support.jobs import KEY
from support.spark import environment

pytest.importorskip("grpc", reason="the extra spark-connect is not installed")

DECLARED = Declared(encrypted=True)
ROWS, PEOPLE = 700, 90
WORD, NUMBER = "quillfeather", 73.8125171
COUNT = {
    "version": 1,
    "privacy": {"max_epsilon": 1.0, "unit": "who", "max_rows_per_unit": 2, "relation": "add_remove"},
    "query": [{"name": "n", "kind": "count", "epsilon": 1.0}],
}
OTHER = """
import os, sys
os.environ["PYTHONPATH"] = {folder!r}
os.execv({python!r}, [{python!r}, *sys.argv[1:]])
"""
"""A Python of executors that finds another dpcore first."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with two executors."""
    with serving(tmp_path_factory.mktemp("connect") / "server") as started:
        yield started


@pytest.fixture
def session(server):
    """A session of one test."""
    with session_on(server) as made:
        yield made


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a table."""
    folder = tmp_path_factory.mktemp("release")
    pq.write_table(table(ROWS, PEOPLE), folder / "in.parquet", row_group_size=100)
    return folder


def people(folder: Path, n: int = 400) -> str:
    """A table with a word and a number that no message may have."""
    cells = {"who": [f"{WORD}-{place % 9}" for place in range(n)], "city": [WORD, "a"] * (n // 2), "age": np.full(n, NUMBER)}
    pq.write_table(pa.table(cells), folder / "people.parquet")
    return str(folder / "people.parquet")


def ledger(folder: Path) -> dict[str, object]:
    """The part of a job that names a new ledger."""
    Ledger.create(folder / "a.ledger", epsilon=10.0, relation="add_remove", unit="who")
    return {"ledger": {"path": str(folder / "a.ledger")}, "output": {"path": str(folder / "out.json")}}


def spent(folder: Path) -> float:
    return Ledger(folder / "a.ledger").spent.epsilon


@pytest.mark.parametrize("unit", ["row", "person", "joined"])
def test_every_query_has_the_answer_of_one_machine(session, place, unit):
    jobs = {}
    for where in ("here", "there"):
        files = {"input": {"path": str(place / "in.parquet")}, "output": {"path": str(place / f"{where} {unit}.json")}}
        jobs[where] = place / f"{where} {unit}.toml"
        job = files | document(place, unit)
        # A fourth of the queries, and those that name the groups of others.
        some = [query for number, query in enumerate(job["query"]) if number % 4 == 0 or query["kind"] == "groups"]
        jobs[where].write_text(job_text(job | {"query": some}))
    wanted = on_one_machine(make_release_plan(load_release_job(jobs["here"])))
    others = place / "others.parquet"
    frames = {str(others): session.read.parquet(str(others))} if unit == "joined" else None
    release(session.read.parquet(str(place / "in.parquet")).repartition(3), jobs["there"], joined=frames, connect=DECLARED)
    found = json.loads((place / f"there {unit}.json").read_text())
    for one, other in zip(wanted["queries"], found["queries"], strict=True):
        assert one == other, one["name"]
    differ = {"run", "time", "input", "job"}
    assert {key: value for key, value in found.items() if key not in differ} == {
        key: value for key, value in wanted.items() if key not in differ
    }
    assert found["input"] == wanted["input"] | {"format": "spark", "files": 1, "connect": {"encrypted": "declared"}}
    assert EVERY_UNIT[unit].get("unit", "row") in {"row", "person"}


def test_a_table_asks_the_same(session, place):
    path = str(place / "in.parquet")
    said = {"unit": "person", "max_rows_per_unit": 3, "max_epsilon": 10.0}
    query = {"lower": -2, "upper": 4, "missing": 0, "epsilon": 1.0}
    here = PrivateTable(pq.read_table(path), rng=KeyedRandom(KEY), **said)
    there = PrivateTable(session.read.parquet(path), rng=KeyedRandom(KEY), connect=DECLARED, **said)
    assert here.mean("v", **query).value == there.mean("v", **query).value
    by_group = {"groups": ["a", "b"]}
    wanted, found = (each.where("v > 0").group_by("g", **by_group).mean("v", **query) for each in (here, there))
    assert wanted.value.tolist() == found.value.tolist()
    assert [row.asDict() for row in found.to_native().collect()] == wanted.to_arrow().to_pylist()


def test_a_public_frame_has_the_cells_of_one_machine(session, tmp_path):
    when = datetime(2026, 7, 1, 12, 30, 15, 123456, tzinfo=UTC)
    cells = {
        "when": pa.array([when, None], pa.timestamp("us", "UTC")), "naive": pa.array([when.replace(tzinfo=None)] * 2, pa.timestamp("us")),
        "day": [when.date(), None], "paid": pa.array([Decimal("1.50"), None], pa.decimal128(7, 2)), "name": ["a", None],
        "raw": [b"\x00\xff", None], "n": pa.array([2**62 + 1, None]), "x": [0.1, None],
    }  # fmt: skip
    pq.write_table(pa.table(cells), tmp_path / "t.parquet")
    assert records_of(session.read.parquet(str(tmp_path / "t.parquet")), list(cells)) == pa.table(cells).to_pylist()


# What is refused, before a charge


def test_what_cannot_hold_is_refused_and_costs_nothing(session, tmp_path):
    frame, job = session.read.parquet(people(tmp_path)), COUNT | ledger(tmp_path)
    with pytest.raises(JobError, match=r"^connect is not given"):
        release(frame, job)
    with pytest.raises(JobError, match=r"^connect is not given"):
        PrivateTable(frame, max_epsilon=1.0, relation="add_remove").count(epsilon=1.0)
    for name, value in (("spark.sql.adaptive.enabled", "true"), ("spark.sql.files.ignoreMissingFiles", "true")):
        before = session.conf.get(name)
        session.conf.set(name, value)
        with pytest.raises(JobError, match=f"{name} is '{value}'"):
            release(frame, job, connect=DECLARED)
        session.conf.set(name, before)
    name = "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch"
    session.conf.set(name, "false")
    with pytest.raises(JobError, match=f"{name} is 'false'"):
        release(frame, job, connect=DECLARED)
    column = {"name": "city", "mechanism": "kary", "categories": ["a", "b"], "epsilon": 1.0}
    with pytest.raises(ParameterTypeError, match="the key of the noise would go to its server in the plan"):
        privatize(frame, {"version": 1, "privacy": {"max_epsilon": 1.0}, "column": [column]})
    assert spent(tmp_path) == 0
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize("version", ["0.0.1", None])
def test_executors_with_another_dpcore_are_refused_and_cost_nothing(session, tmp_path, version):
    package = tmp_path / "other" / "dpcore"
    package.mkdir(parents=True)
    says = "__version__ = '0.0.1'" if version else "raise ImportError"
    for name, text in (
        ("__init__", says),
        ("_backend", "selected_level = lambda: 'avx2'"),
        ("rng", "STREAM_VERSION = 2"),
        ("_version", ""),
    ):
        (package / f"{name}.py").write_text(f"{text}\n")
    python = tmp_path / "python"
    program = OTHER.format(folder=str(tmp_path / "other"), python=sys.executable)
    python.write_text(f"#!{sys.executable}\n{program}")
    python.chmod(0o755)
    session.conf.set("spark.sql.execution.pyspark.python", str(python))
    said = r"dpcore 0\.0\.1 \(stream 2\), and Python 3" if version else "dpcore cannot be imported by its Python"
    with pytest.raises(JobError, match=said):
        release(session.read.parquet(people(tmp_path)), COUNT | ledger(tmp_path), connect=DECLARED)
    assert spent(tmp_path) == 0


# While a job runs


def test_settings_that_change_and_files_that_change_end_a_job_that_stays_charged(session, server, tmp_path):
    path = people(tmp_path)
    frame, job = session.read.parquet(path), COUNT | ledger(tmp_path)
    # Another program with the same session, as the id of a session allows.
    changed = []

    def change(done, total):
        if not changed:
            changed.append(done)
            session.conf.set("spark.sql.adaptive.enabled", "true")

    with pytest.raises(JobError, match=r"spark\.sql\.adaptive\.enabled is 'true'"):
        release(frame, job, connect=DECLARED, progress=change)
    assert spent(tmp_path) == 1
    session.conf.set("spark.sql.adaptive.enabled", "false")

    def replace(done, total):
        people(tmp_path, 300)

    with pytest.raises(StorageError, match="the input changed"):
        release(frame, job | {"output": {"path": str(tmp_path / "two.json")}}, connect=DECLARED, progress=replace)
    assert not list(tmp_path.glob("*.json"))


def test_an_interrupt_ends_the_work_of_the_server(session):
    def slow(batches):
        import time

        for batch in batches:
            time.sleep(300)
            yield batch

    def interrupt(done, total):
        raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        watched(session, session.range(0, 4, 1, 2).mapInArrow(slow, "id long").collect, interrupt)
    assert watched(session, session.range(3).count) == 3
    assert time.monotonic() - start < 120


class Cutting:
    """A way to a server that is cut again and again."""

    def __init__(self, server: Server) -> None:
        self._there = server.url.removeprefix("sc://").split(":")
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"sc://127.0.0.1:{self._socket.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self.cuts = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def cut(self) -> None:
        """Close all connections."""
        some, self._open = self._open, []
        for each in some:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self.cuts += bool(some)

    def _serve(self) -> None:
        while True:
            one, _ = self._socket.accept()
            other = socket.create_connection((self._there[0], int(self._there[1])))
            self._open += [one, other]
            for source, target in ((one, other), (other, one)):
                threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)


def test_a_connection_that_is_cut_doubles_no_result(server, tmp_path):
    way = Cutting(server)
    with session_on(Server(way.url, server.folder)) as session:
        _cut(way, session, tmp_path)


def _cut(way, session, tmp_path):
    n = 3000
    cells = {"who": np.arange(n) % 1000, "x": np.arange(n) % 7, "g": np.arange(n) % 211}
    pq.write_table(pa.table(cells), tmp_path / "t.parquet")
    query = {"kind": "sum", "column": "x", "lower": 0, "upper": 7, "missing": 0, "epsilon": 1.0, "group_by": "g"}
    keys = {"name": "keys", "kind": "groups", "group_by": "g", "epsilon": 3.0, "delta": 0.01}
    queries = ([query | {"name": "by", "groups": list(range(211))}], [keys, query | {"name": "found", "groups": "private"}])
    units = {"unit": "who", "max_rows_per_unit": 3, "max_groups_per_unit": 3}
    jobs = [
        {"version": 1, "privacy": {"max_epsilon": 9.0, "max_delta": 0.1, **units}, "testing": {"key_hex": KEY.hex()}, "query": each}
        for each in queries
    ]
    frame = session.read.parquet(str(tmp_path / "t.parquet"))

    def answers():
        found = [release(frame, job, connect=DECLARED) for job in jobs]
        documents = [found[0].document, *(each.document for each in found[1].values())]
        return [json.dumps({name: value for name, value in each.items() if name != "time"}) for each in documents]

    wanted = answers()
    done = threading.Event()

    def cutting():
        while not done.wait(0.7):
            way.cut()

    thread = threading.Thread(target=cutting)
    thread.start()
    try:
        found = answers()
    finally:
        done.set()
        thread.join()
    assert way.cuts > 2
    assert found == wanted


# What the server keeps


def forms_of(secret: bytes) -> list[str]:
    """Bytes as text: hexadecimal, base64 at every offset, escaped as protocol buffers are printed, and lists of numbers."""
    texts = [secret.hex(), "".join(f"\\{byte:03o}" for byte in secret), ", ".join(map(str, secret)), repr(secret)[2:-1]]
    return texts + [base64.b64encode(bytes(pad) + secret).decode()[8 if pad else 0 : -4] for pad in range(3)]


def test_neither_keys_nor_cells_are_in_the_log_or_the_events_of_the_server(server, session, tmp_path, monkeypatch, capfd):
    keys = []

    def noted(position):
        keys.append(of_position(position))
        return keys[-1]

    of_position = part_passes.hash_key
    monkeypatch.setattr(part_passes, "hash_key", noted)
    frame = session.read.parquet(people(tmp_path))
    city = {"name": "c", "kind": "histogram", "column": "city", "categories": ["a", "b"], "epsilon": 0.5, "missing": "a"}
    release(frame, COUNT, connect=DECLARED)
    with pytest.raises(DataError, match=r"^column 'city' holds a cell that is not one of the declared") as refused:
        release(frame, COUNT | {"query": [city]}, connect=DECLARED)
    assert WORD not in str(refused.value)
    log, events = server.log(), server.events()
    assert "ConnectOperationStarted" in events
    assert "aborting job" in log
    assert len(keys) == 2
    assert len(keys[0]) == len(failures.SECRET) == 16
    for text in (log, events):
        assert not [form for secret in (*keys, failures.SECRET) for form in forms_of(secret) if form in text]
        assert WORD not in text
        assert str(NUMBER) not in text
    # What Spark itself says of a cell that it cannot read is in the server's log, and in no message of dpcore.
    with pytest.raises(StorageError, match="CAST_INVALID_INPUT") as unread:
        release(frame.where("cast(city as int) > 0"), COUNT, connect=DECLARED)
    assert WORD not in str(unread.value)
    assert WORD not in "".join(capfd.readouterr())


# The command line


def command(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess:
    line = [sys.executable, "-m", "dpcore", *words]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=600, env=environment() | variables, check=False)


def test_the_command_releases_a_table_of_the_server(server, session, tmp_path):
    session.read.parquet(people(tmp_path)).write.saveAsTable("people")
    job = COUNT | {"input": {"path": "table:people"}, "output": {"path": "answers.json"}} | {"testing": {"key_hex": KEY.hex()}}
    (tmp_path / "job.toml").write_text(job_text(job))
    (tmp_path / "here.toml").write_text(job_text(job | {"input": {"path": "people.parquet"}, "output": {"path": "here.json"}}))
    words = ("release", "job.toml", "--engine", "spark", "--master", server.url)
    undeclared = command(tmp_path, *words)
    assert (undeclared.returncode, undeclared.stdout) == (2, "")
    assert "--connect-encrypted" in undeclared.stderr
    dry = command(tmp_path, *words, "--connect-encrypted", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert json.loads(dry.stdout)["input"]["connect"] == {"encrypted": "declared"}
    done = command(tmp_path, *words[:-2], "--connect-encrypted", "--json", SPARK_REMOTE=server.url)
    assert done.returncode == 0, done.stderr
    assert command(tmp_path, "release", "here.toml").returncode == 0
    wanted, found = (json.loads((tmp_path / name).read_text()) for name in ("here.json", "answers.json"))
    assert found["queries"] == wanted["queries"]
    assert found["input"]["connect"] == {"encrypted": "declared"}
    local = {"version": 1, "input": {"path": "table:people"}, "output": {"path": "out"}, "privacy": {"max_epsilon": 1.0}}
    column = {"name": "city", "mechanism": "kary", "categories": ["a", "b"], "epsilon": 1.0, "missing": "a", "unknown": "a"}
    (tmp_path / "local.toml").write_text(job_text(local | {"column": [column]}))
    for refused in (
        command(tmp_path, "privatize", "local.toml", "--engine", "spark", "--master", server.url),
        command(tmp_path, "estimate", "reports", "--engine", "spark", "--master", server.url),
        command(tmp_path, *words[:-1], f"{server.url}/;token=secret", "--connect-encrypted"),
    ):
        assert refused.returncode == 2, refused.stderr
    assert "every user of this machine sees command lines" in refused.stderr
