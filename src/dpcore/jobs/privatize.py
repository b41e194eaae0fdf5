"""Local privacy for tables: every row is privatised on its own, and rows stream from input to output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from dpcore._backend import default_threads
from dpcore._dataclasses import dataclass
from dpcore._validation import check_integer
from dpcore.jobs.privatize_plan import Plan
from dpcore.tables.checks import check_is
from dpcore.tables.output import metadata
from dpcore.tables.output.output import Output, TableOutput
from dpcore.tables.output.sharded import ShardedOutput
from dpcore.tables.output.writers import written
from dpcore.tables.pieces import Cut
from dpcore.tables.pipeline import UNFINISHED, Pipeline
from dpcore.tables.progress import Progress, Shown, shown_by
from dpcore.tables.randomise import NoisyColumn
from dpcore.tables.rows import Rows, piece_rows_for, read_rows, refused_cell
from dpcore.tables.sections import key_of
from dpcore.tables.types.kept import kept
from dpcore.tables.types.values import CellError
from dpcore.tables.units.units import choose_rows, choosing_words

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dpcore.rng import Stream
    from dpcore.tables.units.units import Kept


class Addressed(Protocol):
    """Streams by the number of a column and the position of a row."""

    def at(self, nonce: int, element: int = 0) -> Stream:
        """Return the stream of one column from one row on."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of a finished job.

    Attributes
    ----------
    plan : Plan
        The plan that was run.
    rows : int
        Rows of the output, as many as the input has.
    """

    plan: Plan
    rows: int

    @property
    def guarantee(self) -> str:
        """The guarantee in words, for a report or a publication."""
        return self.plan.job.guarantee


def privatize(plan: Plan, *, threads: int | None = None, progress: Shown = None, piece_rows: int | None = None) -> Summary:
    """Run a planned job.

    Parameters
    ----------
    plan : Plan
        From `make_plan`.
    threads : int, optional
        Threads that add noise; one more reads and one writes. Default: the CPUs this process may use.
    progress : callable or Progress, optional
        Called as `progress(done, total)` on the calling thread, a few times a second, in thousandths of each stage. An object with
        `begin(stage)` and `update(rows, fraction)` learns the stages as well.
    piece_rows : int, optional
        Rows handled at a time; the output does not depend on it.

    Returns
    -------
    Summary
        The number of rows, and the plan.

    Raises
    ------
    ParameterTypeError
        If `plan` is not a `Plan`.
    BudgetError
        If the ledger does not have what the job spends.
    DataError
        If a row does not fit its declaration and the job declares nothing for it. The message names the column, and file and row only
        with `curator`; it never quotes a value.
    StorageError
        If the input cannot be read or the output not written. Nothing is left under the output's name.
    PublishedError
        If something fails after the output was published; its cause says what.

    Notes
    -----
    Guarantee: the rows that one unit owns are protected at `plan.job.total`, the sum over the columns times `max_rows_per_unit`.

    Cost: one pass over the input, two with a unit; memory does not depend on the number of rows.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from dpcore.batch import make_plan, parse_job, privatize
    >>> with TemporaryDirectory() as folder:
    ...     source = Path(folder, "people.parquet")
    ...     pq.write_table(pa.table({"smoker": [True, False] * 500}), source)
    ...     job = {
    ...         "version": 1,
    ...         "input": {"path": str(source)},
    ...         "output": {"path": f"{folder}/private.parquet"},
    ...         "privacy": {"max_epsilon": 1.0},
    ...         "column": [{"name": "smoker", "mechanism": "binary", "epsilon": 1.0}],
    ...     }
    ...     privatize(make_plan(parse_job(job))).rows
    1000
    """
    check_is("plan", plan, Plan, "make_plan")
    threads = default_threads() if threads is None else check_integer("threads", threads, low=1, high=4096)
    shown = shown_by(progress)
    with plan.publication.truth(), plan.publication as publication, _output(plan, threads) as output:
        if publication.charge.is_recorded:
            output.allocate(plan.rows or 0)
        publication.reserve()
        chosen = _chosen(plan, output, threads, shown)
        shown.begin("privatising")
        written = dict(zip(plan.schema.names, plan.schema.types, strict=True))
        _stream(plan, output, chosen, threads, shown, piece_rows or piece_rows_for(plan.read_types, written))
        publication.publish(output.seal())
    return Summary(plan, output.rows)


def _output(plan: Plan, threads: int) -> TableOutput:
    kind, compression = plan.job.output.resolved_format, plan.job.output.resolved_compression
    if plan.shards:
        said = metadata.schema_metadata(plan.job)
        return ShardedOutput(plan.publication, plan.shards, plan.output, plan.schema, kind, compression, said, threads=threads)
    sidecar = metadata.sidecar(plan.job, plan.columns)
    return Output(plan.publication, plan.output, plan.schema, kind, compression, sidecar)


def _chosen(plan: Plan, output: TableOutput, threads: int, progress: Progress) -> Kept | None:
    """The rows whose cells are noised as they are, if the unit is not the row: at most so many of each unit."""
    if plan.unit_type is None:
        return None
    progress.begin(choosing_words(plan))
    refuse = plan.job.privacy.refuses_units
    return choose_rows(plan, key_of(plan.job.testing), output.spill, threads, progress.update, refuse=refuse)


def privatize_rows(
    columns: tuple[NoisyColumn, ...],
    schema: pa.Schema,
    batch: pa.RecordBatch,
    key: Addressed | None,
    first: int,
    suppressed: npt.NDArray[np.bool_] | None = None,
) -> pa.RecordBatch:
    """Privatise the rows of one batch: kept columns first, then those with noise.

    Parameters
    ----------
    columns : tuple of NoisyColumn
        The columns that get noise.
    schema : pyarrow.Schema
        Of the result; its other columns are copied.
    batch : pyarrow.RecordBatch
        Holds all of them.
    key : KeyedRandom, another object with its method `at`, or None
        None is the secure source, with a separate key for each column of each batch.
    first : int
        Position of the batch's first row in the whole input. A keyed job addresses its noise by column and row, so its output does
        not depend on how the rows are cut.
    suppressed : ndarray of bool, optional
        Rows whose cells are noised as if they were missing.

    Raises
    ------
    CellError
        If a cell is missing and its column declares no `missing`.
    """
    arrays = [written(kept(batch.column(field.name)), field.type) for field in schema if not metadata.is_noisy(field)]
    for position, column in enumerate(columns):
        rng = None if key is None else key.at(nonce=position, element=first)
        try:
            arrays += column.privatize(batch.column(column.name), rng, suppressed)
        except CellError as error:
            raise CellError(error.row, error.problem, column.name) from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _stream(plan: Plan, output: TableOutput, chosen: Kept | None, threads: int, progress: Progress, piece_rows: int) -> None:
    key = key_of(plan.job.testing)
    done = 0.0

    def transform(rows: Rows) -> tuple[pa.RecordBatch, float]:
        try:
            suppressed = None if chosen is None else chosen.dropped_among(rows.first, len(rows.batch))
            return privatize_rows(plan.columns, plan.schema, rows.batch, key, rows.first, suppressed), rows.done
        except CellError as error:
            raise refused_cell(rows, error, curator=plan.curator) from None

    def write(result: tuple[pa.RecordBatch, float]) -> None:
        nonlocal done
        output.write(result[0])
        done = result[1]

    def tick() -> None:
        progress.update(output.rows, min(done, UNFINISHED))

    source = read_rows(plan.inputs, plan.read_types, Cut(piece_rows, use_threads=threads > 1))
    Pipeline(source, transform, write, threads=threads).run(tick)
    progress.update(output.rows, 1.0)
