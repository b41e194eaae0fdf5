"""A driver that gives a stranger files which nobody has shipped is found, whatever its version says; no Java runs here."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from pathlib import Path

import pytest

from dpcore.spark import served_files
from dpcore.spark.served_files import leads_out


@contextlib.contextmanager
def driver(folder: Path, *, stays: bool):
    """What answers as Spark's driver does: with `stays` as since 4.3.0, and else as before."""

    def serve(made):
        asked, _ = made.accept()
        with asked:
            length, kind = struct.unpack(">qB", asked.recv(9))
            assert kind == 6
            name = asked.recv(length)[4:].decode()
            place = folder / name.removeprefix("/artifacts/")
            is_given = place.is_file() and not (stays and folder.resolve() not in place.resolve().parents)
            head = struct.pack(">qBi", 9 + 4 + len(name), 7 if is_given else 8, len(name)) + name.encode()
            asked.sendall(head + (place.read_bytes() if is_given else b"not found"))

    with socket.create_server(("127.0.0.1", 0)) as made:
        thread = threading.Thread(target=serve, args=(made,), daemon=True)
        thread.start()
        yield made.getsockname()[1]
        thread.join(10)


@pytest.mark.parametrize("stays", [False, True])
def test_a_way_out_of_the_folder_is_found(tmp_path, stays):
    with driver(tmp_path, stays=stays) as port:
        assert leads_out("127.0.0.1", port) is not stays


def test_who_does_not_answer_serves_nothing(monkeypatch):
    monkeypatch.setattr(served_files, "SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as made:
        port = made.getsockname()[1]
        assert not leads_out("127.0.0.1", port)
    assert not leads_out("127.0.0.1", port)


@pytest.mark.parametrize(("version", "stays", "warns"), [("4.0.0", False, True), ("4.2.1", True, False), ("3.5.9", False, False)])
def test_a_session_is_asked(tmp_path, version, stays, warns):
    with contextlib.ExitStack() as opened:
        port = opened.enter_context(driver(tmp_path, stays=stays)) if version != "3.5.9" else 1
        conf = {"spark.driver.host": "127.0.0.1", "spark.driver.port": str(port)}
        rows = type("Rows", (), {"collect": lambda self: []})
        context = type("Context", (), {"getConf": lambda self: conf})()
        session = type("Session", (), {"version": version, "sparkContext": context, "sql": lambda self, text: rows()})()
        said = served_files.warning_of_files(session)
        assert (said is not None) is warns
        assert said is None or (f"127.0.0.1:{port}" in said and f"Spark {version}" in said)
