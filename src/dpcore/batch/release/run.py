"""Central privacy for tables: exact statistics in one pass over the rows, then one private answer for each query."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpcore._backend import default_threads
from dpcore._validation import check_integer
from dpcore.batch.jobfile.sections import OutputSection
from dpcore.batch.release.local_passes import LocalPasses
from dpcore.batch.release.plan import ReleasePlan
from dpcore.batch.release.private_bounds import with_bounds
from dpcore.batch.release.released_keys import select_keys, with_keys
from dpcore.batch.release.stepped import in_own_unit
from dpcore.batch.release.streams import stream_of
from dpcore.batch.release.table import schema_of
from dpcore.batch.release.timed import in_words
from dpcore.batch.release.words import guarantee_of
from dpcore.batch.tables import metadata
from dpcore.batch.tables.checks import check_is
from dpcore.batch.tables.output import Output
from dpcore.batch.tables.places import output_place
from dpcore.batch.tables.progress import shown_by
from dpcore.batch.tables.provenance import provenance
from dpcore.pages.numbers import json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpcore.batch.release.job import ReleaseJob
    from dpcore.batch.release.local_passes import Room
    from dpcore.batch.release.passes import Passes
    from dpcore.batch.release.table import Table, TableColumn
    from dpcore.batch.tables.progress import Progress, Shown
    from dpcore.batch.tables.publication import Publication


ANSWER_BYTES = 1 << 14
"""Room for what an answer takes in the document, about."""


def run(plan: ReleasePlan, *, threads: int | None = None, progress: Shown = None, piece_rows: int | None = None) -> dict[str, Any]:
    """Run a planned job, write its output, and return the answers. `dpcore.batch.release` is this function.

    Parameters
    ----------
    plan : ReleasePlan
        From `make_release_plan`.
    threads : int, optional
        Threads that compute; one more reads. Default: the CPUs this process may use.
    progress : callable or Progress, optional
        Called as `progress(done, total)` on the calling thread, a few times a second, in thousandths of each stage. An object with
        `begin(stage)` and `update(rows, fraction)` learns the stages as well.
    piece_rows : int, optional
        Rows handled at a time; the output does not depend on it.

    Returns
    -------
    dict
        The document that was written: `privacy`, `rows` if public, and `queries` with `value`, `stderr` and `interval`.

    Raises
    ------
    ParameterTypeError
        If `plan` is not a `ReleasePlan`.
    BudgetError
        If the ledger does not have what the job spends.
    DataError
        If a row does not fit its declaration and the job declares nothing for it. The message names the column, and file and row only
        with `curator`; it never quotes a value.
    StorageError
        If the input cannot be read or an output not written. Nothing is left under the outputs' names.
    PublishedError
        If something fails after the outputs were published; its cause says what.

    Notes
    -----
    Guarantee: all answers together protect one unit at `plan.job.total`, the sum over the queries.

    Cost: one pass over the input, two with a unit; memory does not depend on the number of rows.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from dpcore.batch import make_release_plan, parse_release_job, release
    >>> with TemporaryDirectory() as folder:
    ...     source = Path(folder, "people.parquet")
    ...     pq.write_table(pa.table({"smoker": [True, False] * 500}), source)
    ...     job = {
    ...         "version": 1,
    ...         "input": {"path": str(source)},
    ...         "output": {"path": f"{folder}/answers.json"},
    ...         "privacy": {"max_epsilon": 1.0},
    ...         "query": [{"name": "smokers", "kind": "mean", "column": "smoker", "lower": 0, "upper": 1, "epsilon": 1.0}],
    ...     }
    ...     document = release(make_release_plan(parse_release_job(job)))
    >>> document["rows"], document["queries"][0]["name"]
    (1000, 'smokers')
    """
    check_is("plan", plan, ReleasePlan, "make_release_plan")
    threads = default_threads() if threads is None else check_integer("threads", threads, low=1, high=4096)
    shown = shown_by(progress)
    return published(plan, lambda room: LocalPasses(room, threads, shown, piece_rows), shown)


def published(plan: ReleasePlan, passes: Callable[[Room], Passes], progress: Progress) -> dict[str, Any]:
    """Charge a planned job, run it on an engine, write its output, and return the answers.

    Parameters
    ----------
    plan : ReleasePlan
        From `make_release_plan`.
    passes : callable
        The engine, given room for what does not fit into memory.
    progress : Progress
        Shows tables that are written.

    Returns
    -------
    dict
        The document that was written.
    """
    with plan.publication.truth(), plan.publication as publication, contextlib.ExitStack() as opened:
        tables = {
            place: opened.enter_context(open_table(publication, plan.job, answer.section, answer.table))
            for place, answer in enumerate(plan.answers)
            if answer.table is not None
        }
        output = publication.open(plan.output)
        if publication.charge.is_recorded:
            output.allocate(ANSWER_BYTES * len(plan.answers))
        # From here on the budget is spent, even if the job fails.
        publication.reserve()
        document = document_of(*measured(plan, passes(output)), tables, progress)
        sealed = [file for table in tables.values() for file in table.seal()]
        output.write((json_text(document) + "\n").encode())
        publication.publish([*sealed, output.seal()])
    return document


def measured(plan: ReleasePlan, passes: Passes) -> tuple[ReleasePlan, list[Any], int]:
    """The plan with what was released on the way, each query's exact statistic and the number of rows, which are not private yet.

    What is released are keys of groups, which stand in the place of the statistic of a query for keys, and bounds.
    """
    if plan.unit_type is not None and plan.job.chooses_rows:
        passes.choose_rows(plan)
    keys = select_keys(plan, passes, lambda place: stream_of(plan, place))
    plan = with_keys(plan, [keys.get(place) for place in range(len(plan.answers))])
    counting = [answer.measure_of_bins for answer in plan.answers]
    if any(counting):
        bins, _ = passes.add_up(plan, counting, "finding bounds")
        plan = replace(plan, answers=with_bounds(plan.answers, bins, lambda place: stream_of(plan, place)))
    totals, rows = passes.add_up(plan, [answer.measure for answer in plan.answers], "adding up")
    return plan, [keys.get(place, total) for place, total in enumerate(totals)], rows


def document_of(plan: ReleasePlan, totals: list[Any], rows: int, tables: dict[int, Output], progress: Progress) -> dict[str, Any]:
    """The private answers, and what is said about all of them."""
    document = plan.job.head() | provenance(plan, plan.job)
    document["guarantee"] = guarantee_of(document)
    if plan.job.n_is_public:
        document["rows"] = rows
    ledger = plan.publication.charge.summary()
    if ledger is not None:
        document["ledger"] = ledger
    return document | {"queries": [_answered(plan, place, total, tables.get(place), progress) for place, total in enumerate(totals)]}


def _answered(plan: ReleasePlan, place: int, total: Any, table: Output | None, progress: Progress) -> dict[str, Any]:
    answer = plan.answers[place]
    section, spent = answer.section, plan.job.spent_on(answer.section)
    rng = stream_of(plan, place)
    if table is not None:
        said = answer.released_with_table(total, rng, lambda rows: write_rows(rows, table, progress))
    elif answer.grouping is not None and answer.grouping.size == 0:
        said = {"value": [], "stderr": [], "interval": []}
    else:
        said = answer.release(total, rng)
    unused = plan.job.unused.get(section.name)
    if unused is not None:
        said = {**said, "note": f"{said['note']}; {unused} was given and is not used"}
    document = {
        "name": section.name,
        "kind": section.kind,
        "column": section.column,
        "privacy": {"epsilon": spent.epsilon, "delta": spent.delta},
        **({} if section.where is None else {"where": section.where}),
        **answer.public_parameters(),
        **said,
        "confidence": section.confidence,
        # Scales that follow from an earlier part of the answer are known to the answer only.
        "noise": said.get("noise", [noise.document() for noise in answer.noise]),
    }
    return in_words(section, in_own_unit(section, document))


def open_table(publication: Publication, job: ReleaseJob, section: Any, columns: Sequence[TableColumn]) -> Output:
    """Open the table of a query: a hidden sibling of its `output`, until that is committed."""
    import_module("dpcore.distributions")  # What draws the rows must be there before anything is spent.
    place = OutputSection(path=section.output)
    said = metadata.spent(section.privacy, job.privacy.protected, secure=job.secure) | {
        "kind": section.kind,
        "relation": job.privacy.relation,
    }
    return Output(
        publication,
        output_place(section.output, f"{section.name}.output"),
        schema_of(columns, metadata.encode(said)),
        place.resolved_format,
        place.resolved_compression,
        {"schema": said, "fields": {}},
    )


def write_rows(table: Table, output: Output, progress: Progress) -> None:
    """Draw all rows, and write them as they come."""
    progress.begin("drawing rows")
    for batch in table.batches():
        output.write(batch)
        progress.update(output.rows, output.rows / table.rows)
