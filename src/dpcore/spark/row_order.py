"""Whether every attempt at a task gets the same rows in the same order, which the plan of a frame tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.spark.own_expressions import is_own
from dpcore.spark.watching import unlogged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

IN_PLACE = ("Project", "Filter", "ColumnarToRow", "InputAdapter")
"""Physical steps that take the rows of what is below them in their order."""
COMPILED, SCAN, PARQUET = "WholeStageCodegen (", "Scan parquet ", "ParquetFileFormat"
"""What the names of compiled steps and of scans begin with, and Spark's own reader of Parquet."""
LEAVES_OUT = ("ignorecorruptfiles", "ignoremissingfiles")
"""Options of a read under which an attempt may lack a file that another one had."""


def is_determined(frame: DataFrame) -> bool:
    """Whether the cells of a frame follow from those of its source: no chance and no code of others takes part.

    Spark counts functions of users as determined unless they say otherwise, and `aes_encrypt`, which draws a vector, as well; so what may
    take part is listed (`own_expressions`).
    """
    query: Any = frame._jdf.queryExecution()  # noqa: SLF001 - plans have no public form in Python
    try:
        with unlogged():
            return bool(query.analyzed().deterministic()) and all(map(is_own, _expressions(query.optimizedPlan())))
    except Exception:
        return False  # Spark computes small tables to plan them, and may fail at a cell: the run says so in words


def comes_in_order(frame: DataFrame) -> bool:
    """Whether every attempt at a partition gets the same rows in the same order, as long as no file changes.

    So it is where tasks read their parts of Parquet files, which Spark chooses once, and at most leave rows out by their own values. Behind
    a shuffle or a sort, from a cache, and where chance or code of others takes part, it need not be so.
    """
    if not is_determined(frame):
        return False
    step: Any = frame._jdf.queryExecution().executedPlan()  # noqa: SLF001
    while step.children().size() == 1:
        name = step.nodeName()
        if name not in IN_PLACE and not name.startswith(COMPILED):
            return False
        step = step.children().apply(0)
    if step.children().size() or not step.nodeName().startswith(SCAN):
        return False
    relation = step.relation()
    options = relation.options().keys().mkString("\n").lower().splitlines()
    is_own = relation.fileFormat().getClass().getSimpleName() == PARQUET
    return is_own and not any(name in options for name in LEAVES_OUT)


def each_of(found: Any) -> Iterator[Any]:
    """The elements of a sequence of Scala."""
    return (found.apply(place) for place in range(found.size()))


def _expressions(plan: Any) -> Iterator[Any]:
    """All expressions of a plan, those inside of others included."""
    waiting = [*each_of(plan.expressions())]
    while waiting:
        expression = waiting.pop()
        yield expression
        waiting += each_of(expression.children())
    for below in each_of(plan.children()):
        yield from _expressions(below)
