"""Failures of Spark in the words of dpcore: what Spark's own messages quote may be data, so they are not shown.

A message of Spark holds the traceback of the Python worker, and may hold cells that look like one. What a task of dpcore raises is
therefore sealed, by a code that only the driver and its tasks can make, and the driver shows what has the right code.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import re
import secrets
from typing import TYPE_CHECKING

from dpcore import errors
from dpcore.errors import DataError, DpcoreError, JobError, StorageError
from dpcore.tables.types.values import CellError

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = secrets.token_bytes(16)
"""Of this driver: what its tasks seal their errors with."""
OWN = re.compile(r"(\w+Error): (.+) \(sealed ([0-9a-f]{32})\)")
"""A sealed error in the traceback of a Python worker."""
OWN_CLASSES = ("DataError", "EntropyError", "JobError", "ParameterError", "ParameterTypeError", "StorageError", "BudgetError")
CONDITION = re.compile(r"[A-Z][A-Z0-9_]*(\.[A-Z0-9_]+)*")
"""Spark's name for a kind of error, as its exceptions have it beside the message: in a message it could be a cell."""
INSTALL = "install the same version on every worker, or ship the driver's environment with venv-pack and spark.archives: docs/cluster.md"
WITHOUT_DPCORE = re.compile(r"No module named '?dpcore")
VARIED = (
    "an executor was lost, and what Spark computed again had other rows than before, so it ended the job; nothing was published. The frame "
    "varies, by chance, a limit or code of others: write it to files, and pass what you read from them"
)
SIGNS = (
    ("No space left on device", f"a disk of the cluster is full: {os.strerror(errno.ENOSPC)}"),
    ("Disk quota exceeded", f"a disk of the cluster is full: {os.strerror(errno.EDQUOT)}"),
    ("OutOfMemoryError", "an executor ran out of memory; raise spark.executor.memory, or have more partitions"),
    ("Container killed", "the cluster ended an executor that needed too much memory; raise spark.executor.memoryOverhead"),
    ("PYTHON_VERSION_MISMATCH", "executors have another minor version of Python than this process, which pickles its functions for them"),
    ("Max number of executor failures", "executors failed again and again; the logs of the workers say why"),
    ("with indeterminate output", VARIED),
    ("checksum mismatch", VARIED),
    ("indeterminate rollback", VARIED),
    ("ExecutorLostFailure", "an executor was lost too often (spark.task.maxFailures); the logs of the workers say why"),
    ("Python worker exited unexpectedly", "the Python of an executor ended unexpectedly, too often; the logs of the workers say why"),
    ("FileNotFoundException", "a file of the input is gone since the job was planned"),
    ("FAILED_READ_FILE.FILE_NOT_EXIST", "a file of the input is gone since the job was planned"),
    ("AccessControlException", f"{os.strerror(errno.EACCES)}"),
    ("AccessDeniedException", f"{os.strerror(errno.EACCES)}"),
    ("No AWS Credentials", "there are no credentials for the object store"),
    ("NoAuthWithAWSException", "there are no credentials for the object store"),
    ('No FileSystem for scheme "s3"', "Spark reads s3a://bucket/…, and s3:// only where the session has a file system of that name"),
    ("UnsupportedFileSystemException", "the session has no file system for this kind of path; add its jar with spark.jars.packages"),
    ("ClassNotFoundException", "the session lacks a jar that the path or the format needs; add it with spark.jars.packages"),
    ("cancelled", "the job was cancelled"),
    ("SparkContext was shut down", "the Spark session was stopped while the job ran"),
    ("Connection refused", "the driver of Spark does not answer: its Java has ended"),
    ("Py4JNetworkError", "the driver of Spark does not answer: its Java has ended"),
)
"""What an operator can mend, by a sign in Spark's message, in the order in which signs are looked for."""


def from_spark(error: BaseException) -> DpcoreError:
    """Return the error of dpcore that a failure of Spark stands for.

    Parameters
    ----------
    error : BaseException
        What pyspark raised.

    Returns
    -------
    DpcoreError
        What a task of dpcore raised, if that was the cause; otherwise a `StorageError` that names the kind of failure. Messages of Spark
        may quote cells of a table, so no part of them is shown but Spark's name for the kind of error.
    """
    if isinstance(error, DpcoreError):
        return error
    text = _text(error)
    own = _own(text)
    if own is not None:
        return own
    if WITHOUT_DPCORE.search(text):
        return JobError(f"the Python of an executor has no dpcore; {INSTALL}")
    for sign, words in SIGNS:
        if sign in text:
            return StorageError(f"Spark could not finish the job: {words}")
    kind = _condition(error) or type(error).__name__
    return StorageError(f"Spark could not finish the job ({kind}); the logs of the driver and of the workers say why")


@contextlib.contextmanager
def sealing(secret: bytes) -> Iterator[None]:
    """Let errors out of a task with a seal, and without what libraries say: Spark writes them into logs and event files."""
    failed: DpcoreError
    try:
        yield
    except MemoryError:
        raise
    except CellError as error:
        failed = DataError(str(error) if error.column is None else f"column {error.column!r}: {error.problem}")
    except DpcoreError as error:
        failed = error
    except Exception as error:
        failed = StorageError(f"a task could not read its rows ({type(error).__name__}); what the library says is not shown")
    else:
        return
    raise sealed(failed, secret) from None  # A traceback shows what an error comes from.


def sealed(error: DpcoreError, secret: bytes) -> DpcoreError:
    """The same error with the code by which the driver knows it."""
    name = next((each.__name__ for each in type(error).__mro__ if each.__name__ in OWN_CLASSES), StorageError.__name__)
    said = " ".join(str(error).splitlines())
    kind: type[DpcoreError] = getattr(errors, name)
    return kind(f"{said} (sealed {_code(name, said, secret)})")


def _code(name: str, said: str, secret: bytes) -> str:
    return hmac.new(secret, f"{name}: {said}".encode(errors="replace"), hashlib.sha256).hexdigest()[:32]


def _own(text: str) -> DpcoreError | None:
    """The error that a task of dpcore raised; its message was written by dpcore and quotes no data."""
    for name, said, code in OWN.findall(text):
        if name in OWN_CLASSES and hmac.compare_digest(code, _code(name, said, SECRET)):
            kind: type[DpcoreError] = getattr(errors, name)
            return kind(said)
    return None


def _text(error: BaseException) -> str:
    """All that an error says, its Java part included."""
    kind = type(error).__name__
    try:
        return "\n".join([kind, str(error), str(getattr(error, "java_exception", "")), str(getattr(error, "_stackTrace", ""))])
    except Exception:
        return f"{kind}\nPy4JNetworkError"


def _condition(error: BaseException) -> str | None:
    """Spark's name for the kind of an error."""
    for name in ("getCondition", "getErrorClass"):  # the second before pyspark 4
        with contextlib.suppress(Exception):
            found = getattr(error, name)()
            if isinstance(found, str) and CONDITION.fullmatch(found):
                return found
    return None
