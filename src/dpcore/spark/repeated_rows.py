"""Whether a row may be in a table twice, or not at all, because Spark has computed a part of it again.

Behind a shuffle Spark keeps what each task has sent, and computes again only what an executor had that was lost. If the second attempt at
a task has other rows than the first, or sends them elsewhere, the tasks behind the shuffle read a mixture of two tables. From Spark 4.2 on
Spark compares checksums, and then runs everything behind that task again or ends the job. Before, it marks few plans, and so a frame that
may vary is refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dpcore.errors import JobError
from dpcore.spark.own_expressions import PACKAGE, is_own
from dpcore.spark.row_order import LEAVES_OUT, each_of
from dpcore.spark.settings import is_connect, version_of
from dpcore.spark.watching import unlogged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

CHECKSUMS = ("spark.sql.shuffle.orderIndependentChecksum.enabled", "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch")
"""Settings of Spark under which it notices that a second attempt has sent other rows."""
NOTICES = (4, 2)
"""The first Spark that then also drops what tasks further behind made of them; both settings are on unless somebody turns them off."""
ROW_BY_ROW = ("Project", "Filter", "SubqueryAlias", "View", "Union", "Generate", "Expand", "ResolvedHint", "WithCTE", "CTERelationDef")
"""Steps of the analysed plan that move no row to another task, and look at one row at a time."""
OTHERS = ("MapInArrow", "PythonMapInArrow", "MapInPandas", "MapPartitions", "MapElements", "SerializeFromObject", "DeserializeToObject")
"""Steps that move none, and run the code of others."""
IN_TURN = ("LocalLimit", "Sample")
"""Steps that move none, and whose rows follow from the order in which they come, which is another one behind a shuffle."""
MOVING = ("Sort", "Repartition", "RepartitionByExpression", "Join", "Aggregate", "Distinct", "Intersect", "Except")
"""Steps that move rows, with one result whatever their order. Of limits, windows and dropped duplicates it is another one."""
JOINED = ("ListQuery", "Exists", "LateralSubquery")
"""Tables inside of expressions."""
ORDERLY = ("Count", "Min", "Max", "CountIf", "BoolAnd", "BoolOr")
"""Aggregates that do not depend on the order of the rows; sums do not if they are of whole numbers."""
WHOLE = ("LongType", "DecimalType")
LEAVES = ("LocalRelation", "Range", "OneRowRelation", "HiveTableRelation", "CTERelationRef")
FILES = ("org.apache.spark.sql.execution.datasources.v2.", "org.apache.iceberg.")
"""Where tables of files are, in the newer interface of Spark."""
BATCH = re.compile(rb"(?s)(batchSize\x94)(?:K.|M..)|\x95.{8}")
"""In what is pickled for the workers: how many rows go at a time, which follows from the length of a list, and the lengths of frames."""
LISTED = ("ParallelCollectionRDD", "MapPartitionsRDD", "PythonRDD", "ReliableCheckpointRDD", "LocalCheckpointRDD")


def check_repeats(frame: DataFrame, *, is_moved: bool) -> None:
    """Raise `JobError` if a record could take part twice because Spark computes a part of the frame again, and does not notice.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        What a job reads.
    is_moved : bool
        Whether the job moves rows between tasks, as it does to bring those of a unit together.

    Raises
    ------
    JobError
        With the step or the function because of which the rows may vary, and what to do.
    """
    session = frame.sparkSession
    if is_connect(frame) or notices(session):  # a session of Spark Connect that does not notice is refused
        return
    plan: Any = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - plans have no public form in Python
    steps = list(_steps(plan))
    if not is_moved and all(map(_stays, steps)):
        return
    varies = next((why for step in steps if (why := _why_it_varies(step, session)) is not None), None)
    if varies is not None:
        raise JobError(
            f"frame may have other rows when Spark {session.version} computes a part of it again ({varies}), and rows move between tasks: "
            "if an executor is lost, a record could then be there twice. Write the frame to files and pass what you read from them; or use "
            f"Spark {NOTICES[0]}.{NOTICES[1]} or later, which compares checksums of what it moves"
        )


def notices(session: SparkSession) -> bool:
    """Whether Spark itself sees that a second attempt at a task has sent other rows than the first."""
    if version_of(session.version) < NOTICES:
        return False
    with unlogged():
        return all(str(session.conf.get(name)).lower() == "true" for name in CHECKSUMS)


def _steps(plan: Any) -> Iterator[Any]:
    """The steps of an analysed plan, those of tables in its conditions included."""
    yield plan
    for below in [*each_of(plan.children()), *_tables_in(plan)]:
        yield from _steps(below)


def _tables_in(step: Any) -> Iterator[Any]:
    """The plans of tables with which the expressions of a step compare rows: Spark joins them. A single value is found once, before."""
    for expression in _expressions(step):
        name = expression.getClass().getSimpleName()
        if name in JOINED or (name == "ScalarSubquery" and expression.children().size()):
            yield expression.plan()


def _stays(step: Any) -> bool:
    """Whether a step moves no row."""
    name = step.getClass().getSimpleName()
    if any(True for _ in _tables_in(step)):
        return False
    if name == "LogicalRDD":
        return all(each in LISTED for each, _ in _lineage(step.rdd()))
    return name in (*ROW_BY_ROW, *OTHERS, *IN_TURN) or not step.children().size()


def _why_it_varies(step: Any, session: SparkSession) -> str | None:
    """The step or function because of which two attempts may have different rows; None if they have the same."""
    name: str = step.getClass().getSimpleName()
    if name in (*ROW_BY_ROW, *MOVING, *LEAVES) or (name == "Deduplicate" and step.keys().size() == step.output().size()):
        return next(map(_name_of, _varying(step)), None)
    return name if step.children().size() or not _is_stable(step, name, session) else None


def _is_stable(leaf: Any, name: str, session: SparkSession) -> bool:
    """Whether a source has the same rows for every attempt, as long as no file changes."""
    if name == "LogicalRelation":
        relation = leaf.relation()
        if relation.getClass().getSimpleName() != "HadoopFsRelation":
            return False
        options = relation.options().keys().mkString("\n").lower().splitlines()
        return not any(option in options for option in LEAVES_OUT)
    if name.startswith("DataSourceV2"):
        return str(leaf.table().getClass().getName()).startswith(FILES)
    if name != "LogicalRDD":
        return False
    own = _command_of_lists(session)
    return all(each in LISTED and (command is None or command == own) for each, command in _lineage(leaf.rdd()))


def _expressions(step: Any) -> Iterator[Any]:
    """The expressions of one step, those inside of others included."""
    waiting = [*each_of(step.expressions())]
    while waiting:
        expression = waiting.pop()
        yield expression
        waiting += each_of(expression.children())


def _varying(step: Any) -> Iterator[Any]:
    """The expressions of a step that need not give the same again."""
    for expression in _expressions(step):
        draws = not expression.deterministic() and all(each.deterministic() for each in each_of(expression.children()))
        if draws or not is_own(expression):
            yield expression
        elif _name_of(expression) == "AggregateExpression" and not _is_orderly(function := expression.aggregateFunction()):
            yield function


def _is_orderly(function: Any) -> bool:
    """Whether an aggregate gives the same for rows in any order."""
    name = str(function.getClass().getName()).removeprefix(f"{PACKAGE}aggregate.")
    return name in ORDERLY or (name == "Sum" and _name_of(function.dataType()) in WHOLE)


def _name_of(expression: Any) -> str:
    return str(expression.getClass().getSimpleName()).rstrip("$")


def _lineage(rdd: Any) -> Iterator[tuple[str, str | None]]:
    """The steps of a frame that was made of an RDD, and of those in Python what they run."""
    waiting = [rdd]
    while waiting:
        each = waiting.pop()
        name = each.getClass().getSimpleName()
        yield name, _command(each) if name == "PythonRDD" else None
        waiting += [dependency.rdd() for dependency in each_of(each.dependencies())]


def _command(rdd: Any) -> str:
    """What the workers of Python run for an RDD; an empty text if Spark does not tell."""
    for field in rdd.getClass().getDeclaredFields():
        if field.getType().getSimpleName() == "PythonFunction":
            field.setAccessible(True)
            numbers = str(field.get(rdd).command().mkString(",")).split(",")
            return BATCH.sub(rb"\1", bytes(int(number) & 255 for number in numbers)).hex()
    return ""


def _command_of_lists(session: SparkSession) -> str | None:
    """What they run for `createDataFrame` of a list, whose rows are always the same; None if this Spark makes such a frame otherwise."""
    plan: Any = session.createDataFrame([(0,)], "x int")._jdf.queryExecution().analyzed()  # noqa: SLF001
    leaf = next(step for step in _steps(plan) if not step.children().size())
    if leaf.getClass().getSimpleName() != "LogicalRDD":
        return None
    return next((command for _, command in _lineage(leaf.rdd()) if command), None)
