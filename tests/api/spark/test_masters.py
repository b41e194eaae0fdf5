"""Masters of standalone clusters: one that is not there is said at once, and one that takes programs from anybody is warned of."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
import time
from pathlib import Path

import pytest

from dpcore import _spark_masters as masters
from dpcore.errors import JobError, StorageError

SAID = {"action": "SubmissionStatusResponse", "serverSparkVersion": "4.3.0", "submissionId": "none", "success": False}


@contextlib.contextmanager
def server(answer: bytes, status: int = 200, *, host: str = "127.0.0.1", wanted: int = 0):
    """A server of HTTP on the loopback device; yields its port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            """Nothing."""

    with http.server.ThreadingHTTPServer((host, wanted), Handler) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        try:
            yield made.server_address[1]
        finally:
            made.shutdown()
            thread.join()


@contextlib.contextmanager
def listener():
    """A port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made.getsockname()[1]


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as made:
        return made.getsockname()[1]


@pytest.mark.parametrize(
    ("master", "hosts"),
    [
        ("spark://first:7077", [("first", 7077)]),
        ("spark://a:1,b:2", [("a", 1), ("b", 2)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
        ("spark://nowhere", []),
        ("spark://a:²", []),
        ("local[4]", []),
        ("yarn", []),
    ],
)
def test_hosts_of_a_master(master, hosts):
    assert masters.hosts_of(master) == hosts


def test_a_master_that_is_not_there_is_said_in_one_sentence():
    port = closed_port()
    before = time.monotonic()
    with pytest.raises(StorageError, match=rf"^no Spark master answers at spark://127\.0\.0\.1:{port}: Connection refused: start"):
        masters.check_answers(f"spark://127.0.0.1:{port}")
    assert time.monotonic() - before < 5


@pytest.mark.parametrize("host", ["first..example", "a" * 64, ".", "first.ex\ud800mple", "first\0"])
def test_a_mistyped_master_is_said_in_one_sentence(host, monkeypatch, capfd):
    """The codec of host names raises an error of its own, and it was "a bug in dpcore"."""
    with pytest.raises(StorageError, match=r"^no Spark master answers at spark://.*: start it, or name the one that runs$"):
        masters.check_answers(f"spark://{host}:7077")
    assert masters.open_submissions([host]) == []
    with listener() as port:
        masters.check_answers(f"spark://{host}:7077,127.0.0.1:{port}")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("written", "port"), [("²", 6066), ("6_066", 6066), ("-1", 6066), ("", 6066), ("9" * 5000, 6066), ("6070", 6070)])
def test_a_port_that_is_no_number_is_the_usual_one(written, port, tmp_path, monkeypatch):
    (tmp_path / "spark-defaults.conf").write_text(f"spark.master.rest.port {written}\n", encoding="utf-8")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    looked: list[int] = []
    monkeypatch.setattr(masters, "open_submissions", lambda hosts, at: looked.append(at) or [])
    assert masters.warning_here() is None
    assert looked == [port]


@pytest.mark.parametrize("port", [0, 65536, 70000, 99999])
def test_a_port_that_no_machine_has_is_said_and_no_other_is_asked(monkeypatch, port):
    """The system would ask at what remains of the number."""
    monkeypatch.setattr(socket, "create_connection", lambda place, timeout: pytest.fail(f"asked at {place}"))
    words = rf"^no Spark master answers at spark://127\.0\.0\.1:{port} \(a port is a number from 1 to 65535\): start it"
    with pytest.raises(StorageError, match=words):
        masters.check_answers(f"spark://127.0.0.1:{port}")
    assert port == 0 or masters.open_submissions(["127.0.0.1"], port) == []


@pytest.mark.parametrize(
    "text",
    [
        "spark.ui.enabled\nspark.master spark://x:7077\n",
        "spark.ui.enabled \t\n\nspark.master\t=  spark://x:7077 \nspark.app.name\n",
        "# spark.master spark://y:7077\n  spark.master: spark://x:7077",
    ],
)
def test_a_key_without_a_value_leaves_the_next_line_alone(text, tmp_path, monkeypatch):
    (tmp_path / "spark-defaults.conf").write_text(text)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    looked: list[str] = []
    monkeypatch.setattr(masters, "open_submissions", lambda hosts, at: looked.extend(hosts) or [])
    assert masters.warning_here() is None
    assert "x" in looked


def test_one_of_several_masters_is_enough():
    with listener() as port:
        masters.check_answers(f"spark://127.0.0.1:{closed_port()},127.0.0.1:{port}")
    masters.check_answers("local[2]")


def test_a_host_that_drops_connections_ends_in_time(monkeypatch):
    def silent(place, timeout):
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", silent)
    with pytest.raises(StorageError, match=r"no answer within 10 seconds"):
        masters.check_answers("spark://far:7077")


@pytest.mark.long
def test_an_open_port_of_submissions_is_found_and_others_are_not(monkeypatch):
    with server(json.dumps(SAID).encode()) as port:
        assert masters.open_submissions(["127.0.0.1", "127.0.0.1"], port) == [f"127.0.0.1:{port}"]
        said = masters.warning_for({"spark.master": "spark://127.0.0.1:7077", "spark.master.rest.port": str(port)})
        assert f"takes programs without a secret at 127.0.0.1:{port}" in said
        assert "write 'spark.master.rest.enabled false'" in said
    assert masters.open_submissions([], port) == masters.open_submissions(["127.0.0.1"], closed_port()) == []
    for other in (b"<html>", b"[1]", b"{}", b"\xff\xfe"):
        with server(other) as port:
            assert masters.open_submissions(["127.0.0.1"], port) == []
    monkeypatch.setattr(masters, "LOOK_SECONDS", 0.2)
    with listener() as port:
        assert masters.open_submissions(["127.0.0.1"], port) == []
    assert masters.warning_for({"spark.master": "local[2]"}) is None


def test_info_looks_at_this_machine_and_at_the_master_of_the_settings(tmp_path, monkeypatch, capsys):
    from dpcore.cli import run

    monkeypatch.setattr(socket, "gethostname", lambda: "127.0.0.1")
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    with server(json.dumps(SAID).encode()) as port:
        (tmp_path / "spark-defaults.conf").write_text(f"# a comment\nspark.master spark://127.0.0.1:1\nspark.master.rest.port={port}\n")
        assert run(["info", "--json"]) == 0
        assert f"127.0.0.1:{port}" in json.loads(capsys.readouterr().out)["warning"]
    assert run(["info", "--json"]) == 0
    assert "warning" not in json.loads(capsys.readouterr().out)


def test_info_finds_a_master_of_this_machine_on_whatever_address_it_listens(tmp_path, monkeypatch, capsys):
    """As on the page, whose first machine has a name of its own, and SPARK_LOCAL_IP=127.0.0.1 in its shells."""
    from dpcore.cli import run

    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    with server(json.dumps(SAID).encode(), host="127.0.0.2") as port:
        (tmp_path / "spark-defaults.conf").write_text(f"spark.driver.host 127.0.0.2\nspark.master.rest.port {port}\n")
        assert run(["info", "--json"]) == 0
        assert f"127.0.0.2:{port}" in json.loads(capsys.readouterr().out)["warning"]
        if Path("/proc/net/tcp").exists():
            (tmp_path / "spark-defaults.conf").write_text(f"spark.master.rest.port {port}\n")
            assert run(["info", "--json"]) == 0
            assert f"127.0.0.2:{port}" in json.loads(capsys.readouterr().out)["warning"]


@pytest.mark.long
def test_a_master_that_found_its_port_taken_is_found_at_the_next_one():
    for _ in range(100):
        with contextlib.suppress(OSError), server(b"another service") as port, server(json.dumps(SAID).encode(), wanted=port + 1):
            assert masters.open_submissions(["127.0.0.1"], port) == [f"127.0.0.1:{port + 1}"]
            return
    raise AssertionError("no two ports in a row are free")


def test_who_answers_a_byte_at_a_time_holds_nobody_up(monkeypatch):
    """Any user of a machine may listen on the port."""
    monkeypatch.setattr(masters, "MOST_SECONDS", 0.5)
    end = threading.Event()

    def drip(made):
        asked, _ = made.accept()
        with asked, contextlib.suppress(OSError):
            asked.sendall(b"HTTP/1.1 200 OK\r\n")
            while not end.wait(0.2):
                asked.sendall(b"X: y\r\n")

    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(30)
        made.listen()
        thread = threading.Thread(target=lambda: [drip(made), drip(made)], daemon=True)
        thread.start()
        before = time.monotonic()
        assert masters.open_submissions(["127.0.0.1"], made.getsockname()[1]) == []
        assert time.monotonic() - before < 5
        end.set()


def test_a_session_names_a_master_once(monkeypatch):
    from dpcore.spark import session

    monkeypatch.setattr(session, "running_session", lambda: None)
    with pytest.raises(StorageError, match="no Spark master answers"):
        session.make_session(f"spark://127.0.0.1:{closed_port()}")  # before Java starts
    with pytest.raises(JobError, match="name one of them"):
        session.make_session("spark://a:1", conf={"spark.master": "spark://b:1"})


@pytest.mark.parametrize("words", [["privatize", "job.toml"], ["release", "answers.toml"], ["estimate", "t.parquet"]])
def test_the_commands_end_with_code_4(tmp_path, monkeypatch, capsys, words):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dpcore.cli import run
    from dpcore.spark import commands, session

    for module in (session, commands):
        monkeypatch.setattr(module, "running_session", lambda: None)
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"smoker": [True, False]}), "t.parquet")
    head = 'version = 1\n[input]\npath = "t.parquet"\n[output]\npath = "{}"\n[privacy]\nmax_epsilon = 1.0\n'
    (tmp_path / "job.toml").write_text(head.format("out.parquet") + '[[column]]\nname = "smoker"\nmechanism = "binary"\nepsilon = 1.0\n')
    (tmp_path / "answers.toml").write_text(head.format("a.json") + '[[query]]\nname = "n"\nkind = "count"\nepsilon = 1.0\n')
    if words[0] == "estimate":
        assert run(["privatize", "job.toml"]) == 0
        words = ["estimate", "out.parquet"]
        capsys.readouterr()
    port = closed_port()
    before = time.monotonic()
    assert run([*words, "--engine", "spark", "--master", f"spark://127.0.0.1:{port}"]) == 4
    assert time.monotonic() - before < 30
    said = capsys.readouterr().err
    assert f"no Spark master answers at spark://127.0.0.1:{port}" in said
    assert "bug" not in said
    assert len(said.strip().splitlines()) == 1
