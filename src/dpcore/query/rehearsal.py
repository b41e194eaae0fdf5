r"""A release job many times on a public or made-up table, to see what its answers would be worth: bias, noise, coverage, rows left out.

Each run is what `dpcore release` would do, with noise from a test key of its own: the plan of `make_unwritten_plan`, the passes of
`measured`, and the answers of its estimators. Exact statistics that no key decides are computed once and shared by all runs; where units
choose rows or values, or where groups or bounds are found, each run reads the table again.

Beside the runs two more answers are computed for each query, both by the engine, with the least noise that it can make (`quiet`):

- *without noise*: from the same exact statistics as the run;
- *true*: from all rows of all units, with the query that `Kind.unclamped` makes of it, which cuts nothing off.

Their difference is the bias. Intervals are compared with the true answer, since they know only of the noise. Nothing here is private.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpcore._backend import default_threads
from dpcore._dataclasses import dataclass
from dpcore.errors import JobError, ParameterError
from dpcore.query import rehearsal_words
from dpcore.query.in_memory import make_unwritten_plan, room
from dpcore.query.kinds import kind_of
from dpcore.query.local_backend import LocalPasses
from dpcore.query.plan import answers_of, declared_reads
from dpcore.query.private_groups import Keys
from dpcore.query.reads import PrivateGrouping
from dpcore.query.rehearsal_columns import NoTruthError, RowsOf, Seen
from dpcore.query.rehearsal_made_up import made_up_table
from dpcore.query.rehearsal_runs import Runs
from dpcore.query.rehearsal_tables import NOT_PUBLIC, PublicTables, public_tables
from dpcore.query.run import answer_in_numbers, measured, with_keys
from dpcore.query.statistics import Measure
from dpcore.query.unit_sections import BoundedAggregate
from dpcore.query.view import View
from dpcore.tables.progress import Silent
from dpcore.tables.sections import TestingSection
from dpcore.tables.types.timed import plainly

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from dpcore.query.estimators import Estimator
    from dpcore.query.plan import ReleasePlan
    from dpcore.query.rehearsal_page import RehearsalPages
    from dpcore.query.request import ReleaseJob
    from dpcore.tables.progress import Progress

__all__ = [
    "NOT_PUBLIC",
    "PublicTables",
    "Setting",
    "Sweep",
    "check_rehearsable",
    "made_up_table",
    "pages_of",
    "public_tables",
    "rehearsal_words",
    "rehearsed",
]

FORMAT = 1
"""Format of the report."""
QUIETEST, QUIET = 60, 4
"""Powers of two of the largest and of the least ε that is tried for an answer without noise."""
KEYS, ALL_KEYS = 6, 1 - 2.0**-20
"""The power of two and the δ with which keys of groups are named without noise."""
WIDER = 2.0**20
"""How much wider the bounds of sums for each unit are for the true answer. Their grid is still fine then, 2^-30 of the declared bounds."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A job, with what a sweep sets in it.

    Attributes
    ----------
    job : ReleaseJob
        The job.
    value : str or None
        The swept value as it was typed; None without a sweep.
    """

    job: ReleaseJob
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is swept.

    Attributes
    ----------
    key : str
        As it was typed.
    query : str or None
        The query whose key it is; None for a key of the whole job.
    """

    key: str
    query: str | None


def check_rehearsable(job: ReleaseJob) -> None:
    """Raise `JobError` for a job that goes on with what earlier runs have kept."""
    for query in job.query:
        if query.step_of_series is not None:
            raise JobError(
                f"query {query.name!r} (kind = {query.kind!r}) makes one step of a series from its state file, and a rehearsal touches no "
                'state; rehearse a step as kind = "count" or "sum", and see the error of all steps with dpcore release --dry-run'
            )


def rehearsed(
    settings: Sequence[Setting],
    sweep: Sweep | None,
    tables: PublicTables,
    *,
    runs: int,
    progress: Progress,
    threads: int | None = None,
) -> dict[str, Any]:
    """Rehearse a job, once for each setting, and return the report as JSON has it.

    Parameters
    ----------
    settings : sequence of Setting
        The job as it is, or with each value of a sweep.
    sweep : Sweep or None
        What is swept.
    tables : PublicTables
        What stands for the input and for the tables that are joined.
    runs : int
        How many runs.
    progress : Progress
        Shows the runs.
    threads : int, optional
        Threads that read and compute. Default: the CPUs this process may use.
    """
    threads = default_threads() if threads is None else threads
    # All are planned before any row is read: what is wrong with the last value is said at once.
    planned = [Rehearsal(setting.job, tables, threads) for setting in settings]
    found = []
    for place, (setting, rehearsal) in enumerate(zip(settings, planned, strict=True), 1):
        at = "" if sweep is None else f", {sweep.key} = {setting.value} ({place} of {len(settings)})"
        progress.begin(f"rehearsing{at}")
        found.append({"value": setting.value, "queries": rehearsal.report(runs, progress)})
    job = settings[0].job
    return {
        "format": FORMAT,
        "rehearsal": True,
        "secure": False,
        "runs": runs,
        "on": tables.path,
        "joined": tables.joined_paths,
        "unit": job.privacy.protected,
        "relation": job.privacy.relation,
        "sweep": None if sweep is None else {"key": sweep.key, "query": sweep.query, "best": _best(found, sweep)},
        "settings": found,
    }


def pages_of(folder: Path, job: Path) -> RehearsalPages:
    """The files of `rehearse --report`, for a job file."""
    from dpcore.query.rehearsal_page import RehearsalPages

    return RehearsalPages.of(folder, job)


def _best(found: Sequence[Mapping[str, Any]], sweep: Sweep) -> dict[str, Any]:
    """The value with the least total error, for each query that a sweep changes."""
    best: dict[str, Any] = {}
    for place, query in enumerate(found[0]["queries"]):
        errors = [(setting["queries"][place]["rmse"], setting["value"]) for setting in found]
        known = [(error, value) for error, value in errors if error is not None]
        if len({error for error, _ in known}) > 1 and sweep.query in {None, query["name"]}:
            best[query["name"]] = min(known, key=lambda pair: pair[0])[1]
    return best


class _AllRows(LocalPasses):
    """Passes over the rows of all units: none is left out because its unit has too many."""

    def choose_rows(self, plan: ReleasePlan) -> None:
        """Keep all."""


class Rehearsal:
    """The runs of one job.

    Parameters
    ----------
    job : ReleaseJob
        The job; its ledger, its output and its test key are not looked at.
    tables : PublicTables
        What is read.
    threads : int
        Threads that read and compute.
    """

    def __init__(self, job: ReleaseJob, tables: PublicTables, threads: int) -> None:
        declared_reads(job)  # What a release with a ledger refuses is not worth a rehearsal.
        self._job = job.model_copy(update={"ledger": None, "input": tables.section, "testing": _key(0)})
        self._tables, self._threads = tables, threads
        self._plan = self._planned(self._job)
        self._quiet, self._why_loud = self._quietest()

    def report(self, runs: int, progress: Progress) -> list[dict[str, Any]]:
        """What is said of each query."""
        found = [Runs(is_fixed=not isinstance(each.grouping, PrivateGrouping)) for each in self._plan.estimators]
        plan, totals, lost = self._first(found)
        again = self._reads_again()
        for run in range(runs):
            if again and run:
                with room() as spill:
                    plan, totals, _ = measured(self._planned(self._keyed(run)), LocalPasses(spill, self._threads, Silent()))
                self._note_quiet(plan, totals, found)
            plan = replace(plan, job=self._keyed(run))
            for place, total in enumerate(totals):
                found[place].add(self._view(plan, place, total))
            progress.update(run + 1, (run + 1) / runs)
        for place, each in enumerate(found):
            self._find_truth(place, each)
        return [self._said(place, each, lost[place]) for place, each in enumerate(found)]

    # Plans

    def _planned(self, job: ReleaseJob) -> ReleasePlan:
        return make_unwritten_plan(job, self._tables.inputs, self._tables.joined)

    def _keyed(self, run: int) -> ReleaseJob:
        return self._job.model_copy(update={"testing": _key(run)})

    def _reads_again(self) -> bool:
        """Whether a key decides what is computed of the rows, before noise."""
        estimators = self._plan.estimators
        finds = any(each.waits_for_keys or each.measure_of_bins is not None for each in estimators)
        measures = [each.measure for each in estimators]
        return finds or self._plan.job.asked.chooses_rows or any(each is not None and each.statistic.draws_words for each in measures)

    def _quietest(self) -> tuple[list[Estimator | None], list[str]]:
        """The estimators with the least noise, and why there is none for some."""
        job, answer_of = answers_of(_basic(self._job), self._tables.inputs, self._tables.joined)
        found: list[Estimator | None] = []
        why: list[str] = []
        for place in range(len(job.query)):
            try:
                quiet = quiet_job(job, place, answer_of)
                found.append(answer_of(place, quiet))
                why.append("")
            except NoTruthError as error:
                found.append(None)
                why.append(str(error))
        return found, why

    # Answers

    def _first(self, found: list[Runs]) -> tuple[ReleasePlan, list[Any], list[dict[str, Any]]]:
        """The statistics of the first run, and what became of the rows."""
        with room() as spill:
            passes = LocalPasses(spill, self._threads, Silent())
            plan, totals, rows = measured(self._plan, passes)
            self._note_quiet(plan, totals, found)
            taking = [Measure((), RowsOf(each.groups), each.grouping) if each.measure else None for each in plan.estimators]
            ready = replace(plan, job=plan.job.asked)
            kept, _ = passes.add_up(ready, taking, "counting rows")
            passing = kept
            if self._plan.job.asked.chooses_rows:
                passing, _ = _AllRows(spill, self._threads, Silent()).add_up(ready, taking, "counting rows")
        lost: list[dict[str, Any]] = []
        for place, estimator in enumerate(plan.estimators):
            measure = estimator.measure
            if measure is None:
                lost.append({"table": rows})
                continue
            statistic = measure.statistic
            inside, outside = map(int, passing[place] if statistic.of_all_rows else kept[place])
            used = statistic.used(totals[place])
            passed = int(sum(passing[place]))
            lost.append(
                {
                    "table": rows,
                    "condition": rows - passed,
                    "bounding": passed - inside - outside,
                    "groups": outside,
                    "missing": None if used is None else inside - used,
                    "used": inside if used is None else used,
                }
            )
        return plan, totals, lost

    def _note_quiet(self, plan: ReleasePlan, totals: Sequence[Any], found: list[Runs]) -> None:
        """Answers without noise from the statistics of a run, where they are the same."""
        for place, total in enumerate(totals):
            quiet = self._quiet[place]
            if quiet is None or isinstance(total, Keys):
                continue
            resolved = _in_place(plan, place, quiet, totals)
            measures = [each.estimators[place].measure for each in (plan, resolved)]
            if None not in measures and len({measure.statistic for measure in measures if measure is not None}) == 1:
                found[place].note_quiet(self._view(resolved, place, total))

    def _view(self, plan: ReleasePlan, place: int, total: Any) -> View:
        return View(plainly(answer_in_numbers(plan, place, total, None, Silent())))

    def _find_truth(self, place: int, runs: Runs) -> None:
        """The true answer of one query, and the one without noise if no run had it."""
        if self._quiet[place] is None:
            runs.why = self._why_loud[place]
            return
        try:
            if not runs.has_quiet:
                runs.note_quiet(self._alone(self._only(place), LocalPasses))
            runs.truth = self._alone(self._true_job(place), _AllRows)
        except (NoTruthError, JobError, ParameterError) as error:
            runs.why = str(error)

    def _only(self, place: int) -> ReleaseJob:
        """A job with one query, and with those that find its groups."""
        job = _basic(self._job)
        query = job.query[place]
        private = isinstance(self._plan.estimators[place].grouping, PrivateGrouping) and not query.selects_groups
        finding = [each for each in job.query if private and each.selects_groups]
        return job.model_copy(update={"query": [query, *finding]})

    def _true_job(self, place: int) -> ReleaseJob:
        """The job of a query that nothing is cut off for."""
        job = _wide_rows(self._only(place))
        estimator = self._plan.estimators[place]

        def measured_now(measure: Measure) -> Any:
            with room() as spill:
                passes = _AllRows(spill, self._threads, Silent())
                plan = self._planned(job)
                plan = passes.make_rows(plan) if plan.recipe is not None or plan.joins else plan
                totals, _ = passes.add_up(plan, [measure, *[None] * (len(plan.estimators) - 1)], "looking at a column")
                return totals[0]

        rows = int(sum(measured_now(Measure((), RowsOf(1)))))
        seen = Seen(measured_now, rows, 0 if estimator.grouping is None else min(int(estimator.grouping.size), rows))
        query = job.query[0]
        return job.model_copy(update={"query": [kind_of(query).unclamped(query, seen), *job.query[1:]]})

    def _alone(self, job: ReleaseJob, engine: type[LocalPasses]) -> View:
        """The answer to the first query of a job, without noise."""
        composed, answer_of = answers_of(job, self._tables.inputs, self._tables.joined)
        for place in range(len(job.query)):
            composed = quiet_job(composed, place, answer_of)
        with room() as spill:
            plan, totals, _ = measured(self._planned(composed), engine(spill, self._threads, Silent()))
            return self._view(plan, 0, totals[0])

    def _said(self, place: int, runs: Runs, lost: dict[str, Any]) -> dict[str, Any]:
        query = self._plan.job.query[place]
        return {
            "name": query.name,
            "kind": query.kind,
            "column": query.column,
            "epsilon": self._plan.job.spent_on(query).epsilon,
            "confidence": query.confidence,
            "rows": lost,
            **runs.said(),
        }


def quiet_job(job: ReleaseJob, place: int, answer_of: Any) -> ReleaseJob:
    """The job with the largest ε of one query that its noise can be made for, and no δ if it needs none."""
    query = job.query[place]
    # Keys are then named by δ alone, of which nothing else is made: nearly all that one unit has, and all that several have.
    powers = range(KEYS, KEYS - 1, -1) if query.selects_groups else range(QUIETEST, QUIET - 1, -2)
    for power in powers:
        for delta in [ALL_KEYS] if query.selects_groups else dict.fromkeys((0.0, query.delta)):
            queries = [*job.query[:place], _spending(query, math.ldexp(1.0, power), delta), *job.query[place + 1 :]]
            tried = job.model_copy(update={"query": queries})
            try:
                answer_of(place, tried)
            except (JobError, ParameterError):
                continue
            return tried
    raise NoTruthError(f"{query.name!r} ({query.kind}) cannot be answered without noise")


def _key(run: int) -> TestingSection:
    """The key of a run: the same for each setting of a sweep, so that settings are compared under the same draws."""
    return TestingSection(key_hex=hashlib.sha256(b"dpcore rehearsal, run %d" % run).hexdigest())


def _basic(job: ReleaseJob) -> ReleaseJob:
    """The job without a limit on what its queries spend, each of which has an ε."""
    privacy = job.privacy.model_copy(update={"accounting": "basic", "max_epsilon": math.ldexp(1.0, 900)})
    queries = [_spending(each, 1.0, each.delta) for each in job.query]
    return job.model_copy(update={"privacy": privacy, "query": queries})


def _spending(query: Any, epsilon: float, delta: float) -> Any:
    """A query with this ε and δ; one that costs nothing stays as it is."""
    if not query.has_cost:
        return query
    bounds = {} if getattr(query, "bounds_epsilon", None) is None else {"bounds_epsilon": epsilon / 2}
    return query.model_copy(update={"epsilon": epsilon, "delta": delta, "weight": None, **bounds})


def _wide_rows(job: ReleaseJob) -> ReleaseJob:
    """The job with wide bounds of the sums that are made of each unit's rows."""

    def wide(section: Any) -> Any:
        columns = {
            name: each.model_copy(update=dict(zip(("lower", "upper"), _wider(each), strict=True)))
            if isinstance(each, BoundedAggregate)
            else each
            for name, each in section.columns.items()
        }
        joins = {"join": [joined(each) for each in section.join]} if hasattr(section, "join") else {}
        return section.model_copy(update={"columns": columns, **joins})

    def joined(section: Any) -> Any:
        return section.model_copy(update={"per_unit": wide(section.per_unit)})

    made = None if job.per_unit is None else wide(job.per_unit)
    return job.model_copy(update={"per_unit": made, "join": [joined(each) for each in job.join]})


def _wider(bounds: BoundedAggregate) -> tuple[float, float]:
    reach = WIDER * max(abs(bounds.lower), abs(bounds.upper))
    return -reach, reach


def _in_place(plan: ReleasePlan, place: int, estimator: Estimator, totals: Sequence[Any]) -> ReleasePlan:
    """The plan with another estimator of one query, for the groups that were found."""
    estimators = [*plan.estimators[:place], estimator, *plan.estimators[place + 1 :]]
    return with_keys(replace(plan, estimators=tuple(estimators)), totals)
