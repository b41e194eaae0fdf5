"""Failures of Spark in the words of dpcore: what Spark's own messages quote may be data, so they are not shown."""

from __future__ import annotations

import errno
import os
import re

from dpcore import errors
from dpcore.errors import DpcoreError, JobError, StorageError

OWN = re.compile(r"^\s*dpcore(?:\.\w+)*\.(\w+Error): (.+)$", re.MULTILINE)
"""An error of dpcore at the end of the traceback of a Python worker; its first line."""
OWN_CLASSES = ("DataError", "EntropyError", "JobError", "ParameterError", "ParameterTypeError", "StorageError", "BudgetError")
CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")
"""Spark's name for a kind of error, which never holds a value."""
INSTALL = "install the same version on every worker, or ship the driver's environment with venv-pack and spark.archives: docs/cluster.md"
WITHOUT_DPCORE = re.compile(r"No module named '?dpcore")
SIGNS = (
    ("No space left on device", f"a disk of the cluster is full: {os.strerror(errno.ENOSPC)}"),
    ("Disk quota exceeded", f"a disk of the cluster is full: {os.strerror(errno.EDQUOT)}"),
    ("OutOfMemoryError", "an executor ran out of memory; raise spark.executor.memory, or have more partitions"),
    ("Container killed", "the cluster ended an executor that needed too much memory; raise spark.executor.memoryOverhead"),
    ("Max number of executor failures", "executors failed again and again; the logs of the workers say why"),
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


def _own(text: str) -> DpcoreError | None:
    """The error that a task of dpcore raised; its message was written by dpcore and quotes no data."""
    for match in OWN.finditer(text):
        if match[1] in OWN_CLASSES:
            kind: type[DpcoreError] = getattr(errors, match[1])
            return kind(match[2].strip())
        if match[1] == "CellError":
            return errors.DataError(match[2].strip())
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
    try:
        match = CONDITION.search(str(error)[:400])
    except Exception:
        return None
    return None if match is None else match[1]
