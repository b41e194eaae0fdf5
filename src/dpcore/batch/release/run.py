"""Central privacy for tables: exact statistics in one pass over the rows, then one private answer for each query."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from dpcore._backend import default_threads
from dpcore._validation import check_integer
from dpcore.batch.release.bounds_pass import counting, with_bounds
from dpcore.batch.release.local_passes import LocalPasses
from dpcore.batch.release.plan import ReleasePlan
from dpcore.batch.release.released_keys import select_keys, with_keys
from dpcore.batch.release.stepped import in_own_unit
from dpcore.batch.release.streams import stream_of
from dpcore.batch.release.table import open_table, write_rows
from dpcore.batch.release.timed import in_words
from dpcore.batch.release.words import guarantee_of
from dpcore.batch.tables.checks import check_is
from dpcore.batch.tables.progress import Progress, Shown, shown_by
from dpcore.batch.tables.provenance import provenance
from dpcore.pages.numbers import json_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore.batch.release.local_passes import Room
    from dpcore.batch.release.passes import Passes
    from dpcore.batch.tables.output import Output

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
        tallies, rows = measure(plan, passes(output))
        document = document_of(plan, tallies, rows, tables, progress)
        sealed = [file for table in tables.values() for file in table.seal()]
        output.write((json_text(document) + "\n").encode())
        publication.publish([*sealed, output.seal()])
    return document


def measure(plan: ReleasePlan, passes: Passes) -> tuple[list[Any], int]:
    """The exact statistic of each query, and the number of rows, which are not private yet; of queries for keys what was released."""
    if plan.unit_type is not None and plan.job.chooses_rows:
        passes.choose_rows(plan)
    keys = select_keys(plan, passes, lambda place: stream_of(plan, place))
    plan = with_keys(plan, [keys.get(place) for place in range(len(plan.answers))])
    if any(answer.waits_for_bounds for answer in plan.answers):
        bins, _ = passes.add_up(counting(plan), "finding bounds")
        plan = with_bounds(plan, bins, lambda place: stream_of(plan, place))
    tallies, rows = passes.add_up(plan, "adding up")
    return [keys.get(place, tally) for place, tally in enumerate(tallies)], rows


def document_of(plan: ReleasePlan, tallies: list[Any], rows: int, tables: dict[int, Output], progress: Progress) -> dict[str, Any]:
    """The private answers, and what is said about all of them."""
    plan = with_keys(plan, tallies)
    document = plan.job.head() | provenance(plan, plan.job)
    document["guarantee"] = guarantee_of(document)
    if plan.job.n_is_public:
        document["rows"] = rows
    ledger = plan.publication.charge.summary()
    if ledger is not None:
        document["ledger"] = ledger
    return document | {"queries": [_answered(plan, place, tally, tables.get(place), progress) for place, tally in enumerate(tallies)]}


def _answered(plan: ReleasePlan, place: int, tally: Any, table: Output | None, progress: Progress) -> dict[str, Any]:
    answer = plan.answers[place]
    section, spent = answer.section, plan.job.spent_on(answer.section)
    rng = stream_of(plan, place)
    if table is not None:
        said = answer.released_with_table(tally, rng, lambda rows: write_rows(rows, table, progress))
    elif answer.keyed_by is not None and answer.keyed_by.size == 0:
        said = {"value": [], "stderr": [], "interval": []}
    else:
        said = answer.release(tally, rng)
    unused = plan.job.unused.get(section.name)
    if unused is not None:
        said = {**said, "note": f"{said['note']}; {unused} was given and is not used"}
    document = {
        "name": section.name,
        "kind": section.kind,
        "column": section.column,
        "privacy": {"epsilon": spent.epsilon, "delta": spent.delta},
        **({} if section.where is None else {"where": section.where}),
        **answer.declared(),
        **said,
        "confidence": section.confidence,
        # Scales that follow from an earlier part of the answer are known to the answer only.
        "noise": said.get("noise", [noise.document() for noise in answer.noise]),
    }
    return in_words(section, in_own_unit(section, document))
