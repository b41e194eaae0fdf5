"""A proxy between a job and a store: it cuts answers and uploads half-way, fails requests, and lets a test act between two of them."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

ERROR = b'<?xml version="1.0"?><Error><Code>%s</Code><Message>secret words of the store</Message></Error>'


@dataclass(frozen=True)
class Request:
    """What a store is asked."""

    method: str
    path: str
    headers: Any

    @property
    def is_data(self) -> bool:
        """Whether it reads a part of an object."""
        return self.method == "GET" and "Range" in self.headers

    @property
    def is_part(self) -> bool:
        """Whether it sends a part of an object."""
        return self.method == "PUT"

    @property
    def is_completion(self) -> bool:
        """Whether it makes an upload visible."""
        return self.method == "POST" and "uploadId=" in self.path


Rule = Callable[[Request], object]


@dataclass
class Faults:
    """The rules of a proxy, each a word for what happens to a request, or None: the first that gives a word decides.

    "cut" sends half of an answer, "lose" takes half of an upload, "forget" loses the answer to a request that was carried out, and a number
    is the status of a failure.
    """

    rules: list[Rule] = field(default_factory=list)
    seen: list[Request] = field(default_factory=list)
    endpoint: str = ""

    def decide(self, request: Request) -> object:
        """What happens to a request."""
        self.seen.append(request)
        return next((word for word in (rule(request) for rule in self.rules) if word is not None), None)


def always(what: str, word: object) -> Rule:
    """The same word for every request of a kind."""
    return lambda request: word if getattr(request, what) else None


def once(what: str, word: object, after: int = 0) -> Rule:
    """A word for one request of a kind, after some others of that kind; if it is a function, it is called."""
    left = iter([None] * after)
    done = threading.Event()

    def rule(request: Request) -> object:
        if not getattr(request, what) or done.is_set() or next(left, done) is None:
            return None
        done.set()
        return word() if callable(word) else word

    return rule


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    faults: Faults
    upstream: str

    def log_message(self, *args: Any) -> None:
        """Nothing is printed."""

    def _hang_up(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def _body(self, *, half: bool) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return b"".join(parts)
        length = int(self.headers.get("Content-Length") or 0)
        return self.rfile.read(length // 2 if half else length)

    def _serve(self) -> None:
        word = self.faults.decide(Request(self.command, self.path, self.headers))
        body = self._body(half=word == "lose")
        if word == "lose":
            self._hang_up()
            return
        if isinstance(word, int):
            self._answer(word, {}, ERROR % (b"AccessDenied" if word == 403 else b"InternalError"))
            return
        upstream = http.client.HTTPConnection(self.upstream, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in {"transfer-encoding", "connection", "expect"}}
        upstream.request(self.command, self.path, body, headers | {"Content-Length": str(len(body))} if body else headers)
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        if word == "forget":
            self._hang_up()
            return
        self._answer(answer.status, dict(answer.getheaders()), content, cut=word == "cut")

    def _answer(self, status: int, headers: dict[str, str], content: bytes, *, cut: bool = False) -> None:
        self.send_response_only(status)
        left_out = {"connection", "transfer-encoding"} | ({"content-length"} if self.command != "HEAD" else set())
        for name, value in headers.items():
            if name.lower() not in left_out:
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if cut else content)
        if cut:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_WR)
            self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *args: Any) -> None:
        """A client that hangs up is no news."""


@contextmanager
def fault_proxy(endpoint: str) -> Iterator[Faults]:
    """A proxy before a server, without rules at first."""
    faults = Faults()
    handler = type("Handler", (_Handler,), {"faults": faults, "upstream": urlsplit(endpoint).netloc})
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    faults.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield faults
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
