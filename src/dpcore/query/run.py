"""Central privacy for tables: exact statistics in one pass over the rows, then one private answer for each query."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore._backend import default_threads
from dpcore._dataclasses import dataclass
from dpcore._validation import check_integer
from dpcore.pages.numbers import json_text
from dpcore.query.fields import MAX_CELLS
from dpcore.query.group_fields import MAX_GROUPS
from dpcore.query.kinds import kind_of
from dpcore.query.local_backend import LocalPasses
from dpcore.query.noise import Draw
from dpcore.query.plan import ReleasePlan, stream_of
from dpcore.query.private_bounds import with_bounds
from dpcore.query.prose import guarantee_of
from dpcore.query.reads import PrivateGrouping
from dpcore.query.units_of_answers import in_own_unit
from dpcore.tables.arrays import listed, with_lists
from dpcore.tables.checks import check_is
from dpcore.tables.progress import shown_by
from dpcore.tables.provenance import provenance
from dpcore.tables.types.timed import DAY, plainly, sort_of, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dpcore.query.backend import Passes, Room
    from dpcore.query.estimators import Estimator
    from dpcore.query.made_rows import SyntheticTable, TableColumn
    from dpcore.query.private_groups import Keys, KeysEstimator
    from dpcore.query.query_sections import QuerySection
    from dpcore.query.request import ReleaseJob
    from dpcore.rng import Stream
    from dpcore.tables.output.output import Output
    from dpcore.tables.output.publication import Publication
    from dpcore.tables.progress import Progress, Shown


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
    from dpcore.tables.output.publication import Publication

    files = plan.publication
    if not isinstance(files, Publication):
        raise AssertionError("the plan is that of a job without files")  # noqa: TRY004
    with files.truth(), files as publication, contextlib.ExitStack() as opened:
        tables = {
            place: opened.enter_context(open_table(publication, plan.job, estimator.section, estimator.table))
            for place, estimator in enumerate(plan.estimators)
            if estimator.table is not None
        }
        if plan.series is not None:
            opened.enter_context(plan.series)
        if plan.commitment is not None:
            opened.enter_context(plan.commitment).begin(plan.tables, progress)
        output = publication.open(plan.output)
        if publication.charge.is_recorded:
            output.allocate(ANSWER_BYTES * len(plan.estimators))
        # From here on the budget is spent, even if the job fails.
        publication.reserve()
        document = with_lists(document_of(*measured(plan, passes(output)), tables, progress))
        if plan.commitment is not None:
            document = plan.commitment.sealed(document)
        sealed = [file for table in tables.values() for file in table.seal()]
        output.write((json_text(document) + "\n").encode())
        publication.publish([*sealed, output.seal()])
    return document


def measured(plan: ReleasePlan, passes: Passes) -> tuple[ReleasePlan, list[Any], int]:
    """The plan with what was released on the way, each query's exact statistic and the number of rows, which are not private yet.

    What is released are keys of groups, which stand in the place of the statistic of a query for keys, and bounds.
    """
    if plan.series is not None and plan.series.is_stored:
        return plan, [None], 0  # a run before this one has drawn the answer, which is published now: no row is read
    job, plan = plan.job, replace(plan, job=plan.job.asked)
    if plan.recipe is not None or plan.joins:
        plan = passes.make_rows(plan)
    if plan.unit_type is not None and plan.job.chooses_rows:
        passes.choose_rows(plan)
    keys = select_keys(plan, passes, lambda place: stream_of(plan, place))
    plan = with_keys(plan, [keys.get(place) for place in range(len(plan.estimators))])
    counting = [estimator.measure_of_bins for estimator in plan.estimators]
    if any(counting):
        bins, _ = passes.add_up(plan, counting, "finding bounds")
        plan = replace(plan, estimators=with_bounds(plan.estimators, bins, lambda place: stream_of(plan, place)))
    totals, rows = passes.add_up(plan, [estimator.measure for estimator in plan.estimators], "adding up")
    return replace(plan, job=job), [keys.get(place, total) for place, total in enumerate(totals)], rows


def document_of(plan: ReleasePlan, totals: list[Any], rows: int, tables: dict[int, Output], progress: Progress) -> dict[str, Any]:
    """The private answers, and what is said about all of them; numbers of groups are arrays."""
    document = plan.job.head() | provenance(plan, plan.job)
    if plan.commitment is not None:
        document["commitment"] = plan.commitment.document()
    document["guarantee"] = guarantee_of(document, plan.job.names_of_whole)
    if plan.job.n_is_public and plan.series is None:
        document["rows"] = rows
    ledger = plan.publication.charge.summary()
    if ledger is not None:
        document["ledger"] = ledger
    return document | {"queries": [_answered(plan, place, total, tables.get(place), progress) for place, total in enumerate(totals)]}


def _answered(plan: ReleasePlan, place: int, total: Any, table: Output | None, progress: Progress) -> dict[str, Any]:
    return in_words(plan.estimators[place].section, answer_in_numbers(plan, place, total, table, progress))


def answer_in_numbers(plan: ReleasePlan, place: int, total: Any, table: Output | None, progress: Progress) -> dict[str, Any]:
    """The private answer to a query, with dates and times as numbers of days and microseconds."""
    estimator = plan.estimators[place]
    section, spent = estimator.section, plan.job.spent_on(estimator.section)
    rng = stream_of(plan, place)
    if table is not None:
        said = estimator.released_with_table(total, rng, lambda rows: write_rows(rows, table, progress))
    elif plan.series is not None:
        said = plan.series.answer(estimator, total, rng)
    elif estimator.grouping is not None and estimator.grouping.size == 0:
        said = {"value": [], "stderr": [], "interval": []}
    else:
        said = estimator.release(total, rng)
    unused = plan.job.unused.get(section.name)
    if unused is not None:
        said = {**said, "note": f"{said['note']}; {unused} was given and is not used"}
    document = {
        "name": section.name,
        "kind": section.kind,
        "column": section.column,
        "privacy": {"epsilon": spent.epsilon, "delta": spent.delta},
        **({} if section.where is None else {"where": section.where}),
        **estimator.public_parameters(),
        **said,
        "confidence": section.confidence,
        # Scales that follow from an earlier part of the answer are known to the answer only.
        "noise": said.get("noise", [noise.document() for noise in estimator.noise]),
    }
    return estimator.finished(in_own_unit(section, document))


def open_table(publication: Publication, job: ReleaseJob, section: Any, columns: Sequence[TableColumn]) -> Output:
    """Open the table of a query: a hidden sibling of its `output`, until that is committed."""
    import_module("dpcore.distributions")  # What draws the rows must be there before anything is spent.
    from dpcore.query.made_rows import schema_of
    from dpcore.tables.output import metadata
    from dpcore.tables.output.output import Output
    from dpcore.tables.places import output_place
    from dpcore.tables.sections import OutputSection

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


def write_rows(table: SyntheticTable, output: Output, progress: Progress) -> None:
    """Draw all rows, and write them as they come."""
    progress.begin("drawing rows")
    for batch in table.batches():
        output.write(batch)
        progress.update(output.rows, output.rows / table.rows)


def select_keys(plan: ReleasePlan, passes: Passes, stream: Callable[[int], Stream | None]) -> dict[int, Keys]:
    """The keys of each query that asks for them, by its place; each takes one pass over the columns of its groups.

    Parameters
    ----------
    plan : ReleasePlan
        The job.
    passes : Passes
        What counts the units of each key.
    stream : callable
        The stream of a query by its place.
    """
    found: dict[int, Keys] = {}
    for place, estimator in enumerate(plan.estimators):
        if estimator.waits_for_keys:
            keyed: Any = estimator
            decision = Decision(keyed, most_keys(plan.estimators, keyed.private), Draw(stream(place)), passes.threads)
            found[place] = passes.count_units(plan, place, decision.of)
    return found


@dataclass(frozen=True, slots=True)
class Decision:
    """Which keys are released.

    Attributes
    ----------
    estimator : KeysEstimator
        The query.
    most : int
        Keys that may be released.
    draw : Draw
        The noise of each key, by its place among all of them.
    threads : int
        Threads that draw.
    """

    estimator: KeysEstimator
    most: int
    draw: Draw
    threads: int

    def of(self, counted: Iterable[pa.RecordBatch]) -> Keys:
        """The keys to release, given all keys in order, as `key`, and the number of units of each, as `n`."""
        from dpcore.query.private_groups import Keys

        keys = list(self._released(counted))
        return Keys(self.estimator.private.released(keys[: self.most]), len(keys) > self.most)

    def _released(self, counted: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
        """The released keys, in order, and one more than are wanted if there are more."""
        first = found = 0
        for batch in counted:
            counts = batch.column("n").to_numpy()
            mask = self.estimator.rule.release(counts, self.draw.at(first), self.threads)
            first += len(counts)
            keys = batch.column("key").take(pa.array(np.flatnonzero(mask))).to_pylist()
            yield from keys[: self.most + 1 - found]
            found += len(keys)
            if found > self.most:
                return


def most_keys(estimators: Sequence[Estimator], grouping: PrivateGrouping) -> int:
    """How many keys may be released, so that no answer has more cells than are allowed."""
    most = MAX_GROUPS
    for estimator in estimators:
        if estimator.grouping is not None and estimator.grouping.names == grouping.names:
            most = min(most, MAX_CELLS // estimator.fewest_cells)
    return most


def with_keys(plan: ReleasePlan, totals: Sequence[Any]) -> ReleasePlan:
    """The plan for the groups whose keys were released: those among the statistics of its queries."""
    if not any(estimator.waits_for_keys for estimator in plan.estimators):
        return plan
    from dpcore.query.private_groups import Keys

    found = {keys.grouping.names: keys.grouping for keys in totals if isinstance(keys, Keys)}
    # Queries that share their groups go on to share them: the group of a row is then looked up once.
    both = {(names, listed): replace(grouping, listed=listed) for names, grouping in found.items() for listed in (False, True)}

    def known(estimator: Any) -> Any:
        grouping = estimator.grouping
        return replace(estimator, grouping=both[grouping.names, grouping.listed]) if isinstance(grouping, PrivateGrouping) else estimator

    return replace(plan, estimators=tuple(map(known, plan.estimators)))


def in_words(section: QuerySection, document: dict[str, Any]) -> dict[str, Any]:
    """The document of an answer with dates and times as text.

    Parameters
    ----------
    section : QuerySection
        The query.
    document : dict
        Its answer; numbers of days or microseconds.
    """
    sort = sort_of(getattr(section, "lower", None))
    if sort is None or kind_of(section).measured != "unit_of_measure":
        found: dict[str, Any] = plainly(document)
        return found

    document = {key: listed(each) for key, each in document.items()}

    def at(number: float) -> str:
        return written(sort, round(number))

    def size(number: float) -> str:
        return written("duration", math.ceil(number * DAY if sort == "date" else number))

    def ends(numbers: Any) -> Any:
        if isinstance(numbers[0], list):
            return [ends(each) for each in numbers]
        return [written(sort, numbers[0]), written(sort, numbers[1], up=True)]

    def said(numbers: dict[str, Any]) -> dict[str, Any]:
        interval = numbers["interval"]
        both = {"value": _each(numbers["value"], at), "stderr": _each(numbers["stderr"], size)}
        return {**both, "interval": None if interval is None else ends(interval)}

    unit = {"unit_of_noise": "days" if sort == "date" else "microseconds"}
    raw = {"raw": said(document["raw"])} if "raw" in document else {}
    return {**plainly(document), **said(document), **raw, **unit}


def _each(value: Any, rule: Callable[[float], str]) -> Any:
    if isinstance(value, list):
        return [_each(each, rule) for each in value]
    return None if value is None else rule(value)
