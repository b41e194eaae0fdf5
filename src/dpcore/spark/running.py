"""Runs a planned release on Spark, once session and executors are known to fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.query.in_memory import answered
from dpcore.query.run import published
from dpcore.spark.connect import check_session
from dpcore.spark.joined_rows import check_is_one_session, joined_tables
from dpcore.spark.part_passes import SparkPasses, moves_rows
from dpcore.spark.repeated_rows import check_repeats
from dpcore.spark.settings import check_durable
from dpcore.spark.table_input import SparkInput
from dpcore.spark.workers import check_workers
from dpcore.tables.progress import shown_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dpcore.query.plan import ReleasePlan
    from dpcore.tables.progress import Shown


def answered_by_spark(
    plan: ReleasePlan, session: SparkSession, progress: Shown = None, *, is_written: bool = False, connect: object = None
) -> dict[str, Any]:
    """Charge and run a plan on Spark, and return the document of its answers; before that, look at the session and at the executors."""
    table = plan.source
    if not isinstance(table, SparkInput):
        raise AssertionError(type(table))  # noqa: TRY004
    check_session(session, connect)
    if plan.job.ledger is not None:
        check_durable(session, plan.job.ledger.path)
    joined = joined_tables(plan)
    check_is_one_session(session, joined)
    for each in (table, *joined):
        check_repeats(each.frame, is_moved=moves_rows(plan))
    shown = shown_by(progress)
    passes = SparkPasses(table, shown, joined)
    passes.check_sizes(plan)
    check_workers(session)
    return (published if is_written else answered)(plan, lambda _: passes, shown)
