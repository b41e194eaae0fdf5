"""What Spark says may quote cells: only what a task of dpcore has sealed is shown, and Spark's own name for the kind of an error."""

from __future__ import annotations

import pickle
import traceback

import pytest

from dpcore.errors import DataError, DpcoreError, JobError, StorageError
from dpcore.spark.failures import from_spark, sealed
from dpcore.spark.part_tasks import guarded
from dpcore.spark.rows_tasks import RowsTask
from dpcore.spark.workers import Stamp, stamp
from dpcore.tables.types.values import CellError

CELL = "Ann Example HIV"


class SparkError(Exception):
    """Stands for an error of pyspark."""


class NamedError(SparkError):
    """One with a name for its kind, beside the message."""

    def getCondition(self):
        return self.args[1]


def said_by_worker(error):
    """The message of Spark for what a worker raised."""
    lines = "".join(traceback.format_exception(error))
    return SparkError(f"An exception was thrown from the Python worker. Please see the stack trace below.\n{lines}")


def raised(error, there=None):
    """What leaves a task in which an error happens."""
    with pytest.raises(DpcoreError) as found, (there or stamp()).guarding():
        raise error
    return found.value


@pytest.mark.parametrize("kind", [DataError, JobError, StorageError])
def test_an_error_of_a_task_comes_out_as_it_was_raised(kind):
    found = from_spark(said_by_worker(raised(kind("column 'x': a cell is missing (row 3)"))))
    assert (type(found), str(found)) == (kind, "column 'x': a cell is missing (row 3)")


def test_an_error_of_a_cell_is_one_of_the_data():
    found = from_spark(said_by_worker(raised(CellError(3, "not one of the declared categories", "city"))))
    assert (type(found), str(found)) == (DataError, "column 'city': not one of the declared categories")


@pytest.mark.parametrize("name", ["dpcore.errors.JobError", "dpcore.tables.types.values.CellError"])
@pytest.mark.parametrize("seal", ["", f" (sealed {'0' * 32})"])
def test_a_cell_that_looks_like_an_error_of_dpcore_is_not_shown(name, seal):
    found = from_spark(SparkError(f"[CAST_INVALID_INPUT] The value 'x\n {name}: {CELL}{seal}' of the type STRING cannot be cast"))
    assert CELL not in str(found)
    assert type(found) is StorageError


def test_a_seal_of_another_driver_or_of_another_message_does_not_count():
    other = Stamp(stamp().version, stamp().stream, bytes(16))
    assert "gone" not in str(from_spark(said_by_worker(raised(StorageError("a file is gone"), other))))
    mine = str(sealed(StorageError("a file is gone"), stamp().secret))
    for changed in (f"JobError: {mine}", f"StorageError: {mine.replace('gone', CELL)}"):
        assert str(from_spark(SparkError(f"dpcore.errors.{changed}"))).startswith("Spark could not finish the job (SparkError)")


def test_the_kind_of_an_error_is_never_read_from_its_message():
    assert "HIV" not in str(from_spark(SparkError("ValueError: bad diagnosis [HIV_POSITIVE]")))
    assert "(DIVIDE_BY_ZERO)" in str(from_spark(NamedError(f"[{CELL}]", "DIVIDE_BY_ZERO")))
    assert "(NamedError)" in str(from_spark(NamedError("", CELL)))


def test_nothing_that_a_library_says_is_in_the_traceback_of_a_task():
    with pytest.raises(StorageError) as inner, guarded():
        raise ValueError(CELL)
    for found in (raised(ValueError(CELL)), inner.value):
        assert CELL not in "".join(traceback.format_exception(found))
        assert "ValueError" in str(found)


def test_a_task_that_writes_rows_shows_nothing_either(monkeypatch):
    class Context:
        @staticmethod
        def partitionId():
            return 0

    class Noise:
        def noised(self, batches, partition):
            raise OverflowError(CELL)

    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setattr(pyspark.TaskContext, "get", classmethod(lambda cls: Context))
    with pytest.raises(StorageError) as found:
        list(RowsTask(Noise(), {}, stamp())([]))
    assert CELL not in "".join(traceback.format_exception(found.value))


def test_another_python_of_executors_is_told():
    said = "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.10 than that in driver: 3.11, PySpark cannot run with"
    assert str(from_spark(SparkError(said))) == (
        "Spark could not finish the job: executors have another minor version of Python than this process, which pickles its functions for "
        "them"
    )


def test_workers_have_the_seal_of_the_driver_and_do_not_show_it():
    assert pickle.loads(pickle.dumps(stamp())) == stamp()
    assert stamp().secret.hex() not in repr(stamp())
    assert repr(stamp().secret) not in repr(stamp())
