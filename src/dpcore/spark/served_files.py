"""Whether the driver gives files of its user to anybody: Spark 4.0 to 4.2 may, on a port that asks for no secret.

A driver serves what a job ships, by name, and from Spark 4.0 on a folder of things that a session adds. Before Spark 4.2.1 and 4.3.0 a name
may lead out of that folder, to each file that the driver may read: the cluster's secret, tables, ledgers. Later releases of the older
branches may have the correction, so a session is asked for a file that only a driver with the fault would give.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.spark.settings import version_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SERVING, CLOSED = (4, 0), (4, 3)
"""The first Spark with such a folder, and the first of which every release stays in it."""
SECONDS = 3.0
FOLDER, UP = "/artifacts/", "../" * 64
"""The folder, and the way to the root from wherever it is."""
STREAM = 6
"""The kind of a frame that asks for a stream."""
MOST_BYTES = 1 << 14
WARNING = (
    "the driver of Spark {version} gives every file that its user may read to anybody who reaches its port {host}:{port}, without the "
    "secret (SPARK-58056): install pyspark 4.3 or later, or the newest 4.2, on all machines"
)


def warning_of_files(spark: SparkSession) -> str | None:
    """What to say of a session whose driver serves files that nobody has shipped; None if it does not."""
    if not SERVING <= version_of(spark.version) < CLOSED:
        return None
    conf = spark.sparkContext.getConf()
    host = conf.get("spark.driver.bindAddress", None) or conf.get("spark.driver.host", "127.0.0.1")
    port = int(conf.get("spark.driver.port", "0") or 0)
    spark.sql("SELECT 1").collect()  # runs on the driver; Spark serves the folder from the first query on
    return WARNING.format(version=spark.version, host=host, port=port) if leads_out(host, port) else None


def leads_out(host: str, port: int) -> bool:
    """Whether a driver gives a file outside its folders to somebody without the secret; the file is made for this, and holds a word."""
    word = secrets.token_hex(32).encode()
    with tempfile.TemporaryDirectory(prefix="dpcore-look-") as folder:
        place = Path(folder).resolve() / "word"
        place.write_bytes(word)
        name = f"{FOLDER}{UP}{place.as_posix().lstrip('/')}".encode()
        body = struct.pack(">i", len(name)) + name
        found = b""
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=SECONDS) as asked:
            asked.sendall(struct.pack(">qB", 9 + len(body), STREAM) + body)
            while word not in found and len(found) < MOST_BYTES and (more := asked.recv(MOST_BYTES)):
                found += more
        return word in found
