"""Places outside of this machine that show an output in one step: folders that Hadoop renames, and tables with a log."""

from __future__ import annotations

import contextlib
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dpcore.errors import JobError, StorageError
from dpcore.spark.reading import TABLE
from dpcore.tables.local_paths import SCHEME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dpcore.spark.sinks import Sink

IDENTIFIER = re.compile(r"[\w`]+(\.[\w`]+)*")


class Place(Protocol):
    """A place that shows an output in one step.

    Attributes
    ----------
    is_shown : bool
        Whether readers see the output. From then on no error may say that nothing was published.
    """

    is_shown: bool

    def check(self) -> None:
        """Raise `JobError` if the output exists and is not to be replaced."""

    def write(self, writer: Any) -> None:
        """Write with Spark."""

    def show(self) -> None:
        """Rename the output, if it does not have its name yet."""

    def drop(self) -> None:
        """Remove what is not shown."""


class LoggedTable:
    """A table whose log has one commit for all files. Not tested here: no registry that dpcore's tests use has the jars."""

    def __init__(self, session: SparkSession, sink: Sink) -> None:
        self.is_shown = False
        self._session, self._sink = session, sink
        self._is_name = sink.path.startswith(TABLE)
        self._place = _table_name(sink.path) if self._is_name else _address(sink.path)

    def check(self) -> None:
        """Ask the catalogue; of a table without a name Spark asks when it writes."""
        if not self._sink.overwrite and self._is_name and self._session.catalog.tableExists(self._place):
            raise JobError(f"the table {self._place} exists; if a second output is intended, which spends again, use overwrite=True")

    def write(self, writer: Any) -> None:
        """Write, and commit to the log."""
        if self._is_name:
            writer.saveAsTable(self._place)
        else:
            writer.save(self._place)
        self.is_shown = True

    def show(self) -> None:
        """Nothing: the commit of the log has shown the rows."""

    def drop(self) -> None:
        """Nothing: without the commit no reader sees the files."""


def _table_name(path: str) -> str:
    name = path.removeprefix(TABLE).strip()
    if IDENTIFIER.fullmatch(name) is None:
        raise JobError(f"path = {path!r}: after {TABLE!r} comes the name of a table, such as catalogue.schema.people")
    return name


def _address(path: str) -> str:
    """A path of this machine as its address: to Spark a bare one is of the cluster's own file system."""
    return path if SCHEME.match(path) is not None else Path(path).absolute().as_uri()


class Address:
    """A folder of a file system that Hadoop reaches: hidden and renamed, or shown by a committer that needs no rename.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        Whose Hadoop it is.
    sink : Sink
        Where the output goes.
    renames : bool
        Whether the file system renames a folder in one step.
    """

    def __init__(self, session: SparkSession, sink: Sink, *, renames: bool) -> None:
        context: Any = session.sparkContext
        java = context._jvm.org.apache.hadoop.fs  # noqa: SLF001 - Python has no access to the file systems of Hadoop
        self.is_shown = False
        self._sink, self._renames = sink, renames
        self._final = java.Path(sink.path)
        self._system = self._final.getFileSystem(context._jsc.hadoopConfiguration())  # noqa: SLF001
        parent, name = self._final.getParent(), self._final.getName()
        mark = secrets.token_hex(8)
        self._hidden = java.Path(parent, f".{name}.{mark}.tmp") if renames else self._final
        self._before = java.Path(parent, f".{name}.{mark}.old")
        self._astray = java.Path(self._final, f".{name}.{mark}.tmp")

    def check(self) -> None:
        """Ask the file system."""
        if self._system.exists(self._final) and not (self._sink.overwrite and self._renames):
            asked = "; a committer without renames replaces nothing: name another folder" if self._sink.overwrite else ""
            raise JobError(f"path = {self._sink.path!r} exists: a second output of one table spends its budget again{asked}")

    def write(self, writer: Any) -> None:
        """Write under the hidden name, or under the final one with a committer that needs no rename."""
        writer.save(self._hidden.toString())
        self.is_shown = not self._renames

    def show(self) -> None:
        """Rename the folder; what has its name is put aside, and back if that fails.

        Raises
        ------
        StorageError
            If the output did not get its name. After it has, `is_shown` is true, and the error is about the output that it replaced.
        """
        if not self._renames:
            return
        path = self._sink.path
        replaces = self._system.exists(self._final)
        if replaces and not self._sink.overwrite:
            raise StorageError(f"{path} has appeared since the job was planned, and stays as it is; nothing was published")
        if replaces and not self._renamed(self._final, self._before):
            raise StorageError(f"{path} could not be replaced, and stays as it is; nothing was published")
        moved = self._renamed(self._hidden, self._final)
        # Into a folder that has appeared meanwhile Hadoop moves another one, and calls that a success.
        if moved and self._system.exists(self._astray):
            self._delete(self._astray)
            raise StorageError(f"{path} has appeared while the job ran, and stays as it is; nothing was published{self._aside(replaces)}")
        if not moved:
            is_back = replaces and self._renamed(self._before, self._final)
            beside = "; the earlier output is as before" if is_back else self._aside(replaces)
            raise StorageError(f"{path} could not be given its name; nothing was published{beside}")
        self.is_shown = True
        if replaces and not self._delete(self._before):
            raise StorageError(f"the earlier output, which was replaced, could not be removed: {self._before.toString()}")

    def drop(self) -> None:
        """Remove the hidden folder."""
        if self._renames:
            self._delete(self._hidden)

    def _aside(self, replaces: bool) -> str:
        return f"; the earlier output is {self._before.toString()}" if replaces else ""

    def _renamed(self, source: Any, target: Any) -> bool:
        """Whether a folder has another name now. A call that fails on its way may have done so."""
        try:
            return bool(self._system.rename(source, target))
        except Exception:
            with contextlib.suppress(Exception):
                return not self._system.exists(source) and bool(self._system.exists(target))
            return False

    def _delete(self, folder: Any) -> bool:
        """Whether a folder is gone, with what was in it."""
        with contextlib.suppress(Exception):
            return bool(self._system.delete(folder, True))  # noqa: FBT003
        return False
