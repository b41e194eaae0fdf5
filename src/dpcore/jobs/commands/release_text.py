"""Text of `dpcore release`: the plan, and the summary of a run."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from dpcore._guarantee import OWN_ROWS
from dpcore._terminal import make_table
from dpcore.jobs.commands import words
from dpcore.pages.numbers import plain_name, plain_number, rounded_up
from dpcore.query.document import Noise, error_in_own_unit, noise_in_own_unit
from dpcore.query.plan import declared_reads
from dpcore.query.prose import as_words, column_in_words, spaced
from dpcore.tables.run_ids import plain

if TYPE_CHECKING:
    from rich.table import Table

    from dpcore.privacy import Privacy
    from dpcore.query.document import Estimator
    from dpcore.query.plan import ReleasePlan
    from dpcore.query.request import JoinSection, MadeSection, PerUnitSection, QuerySection, ReleaseJob

HEADINGS = ("query", "kind", "column", "epsilon", "delta", "noise", "sensitivity", "scale", "standard error")
ERRORS = (
    "Standard errors are about the noise alone; – means that they depend on the data or on the number of rows. `dpcore plan JOB --assume "
    "n=10000` says how far answers may then be off."
)


def describe(plan: ReleasePlan) -> str:
    """Input, outputs and ledger of a plan, one line each."""
    ledger = plan.job.ledger
    lines = [words.source(plan, count_rows=plan.job.n_is_public), f"output  {plan.job.output.path} (JSON)"]
    ways = [(what, answer.section, how) for answer in plan.estimators for what, how in answer.ways]
    lines += [f"{what:8}{how}" for what, _, how in ways if what == "table"]
    lines += [*_unit(plan.job), *_derived(plan.job)]
    lines += [f"{what:8}{plain_name(section.name)}: {how}" for what, section, how in ways if what != "table"]
    return "\n".join(lines if ledger is None else [*lines, f"ledger  {ledger.path}"])


def _called(job: ReleaseJob) -> str:
    """The unit, as the job calls it."""
    return plain_name(job.privacy.protected.removesuffix(OWN_ROWS))


def _unit(job: ReleaseJob) -> list[str]:
    """Which rows of each unit are used, where answers are about more than one."""
    unit, most = _called(job), job.privacy.max_rows_per_unit
    if job.privacy.unit == "row" or most is None or most == 1:
        return []
    return [f"unit    at most {most} rows of each {unit}, chosen at random; for one of each: max_rows_per_unit = 1, or [per_unit]"]


def _derived(job: ReleaseJob) -> list[str]:
    """What is derived, and which rows are asked about."""
    made = job.per_unit
    lines = _of_stage(job)
    if made is not None:
        by = f" and {as_words(made.keys)}" if made.keys else ""
        lines += [f"made    a row for each {_called(job)}{by}", *_columns(made), *_of_stage(made)]
    return lines + [f"where   {plain_name(each.name)}: {spaced(each.where)}" for each in job.query if each.where is not None]


def _of_stage(stage: ReleaseJob | PerUnitSection | JoinSection | MadeSection) -> list[str]:
    """What is joined, looked up and derived, and which rows stay."""
    lines = []
    for each in getattr(stage, "join", ()):
        kind = "" if each.how == "left" else ", only units that it has"
        lines.append(f"join    {plain_name(each.path)} on {plain_name(each.unit or 'the unit')}{kind}")
        lines += [f"        {line}" for line in [*_of_stage(each), *_columns(each.per_unit), *_of_stage(each.per_unit)]]
    lines += [f"lookup  {as_words(each.columns)} of {plain_name(each.path)} by {plain_name(each.key)}" for each in stage.lookup]
    lines += [f"derive  {plain_name(each.name)} = {spaced(each.sql)}" for each in stage.derive]
    return lines + ([] if stage.where is None else [f"where   {spaced(stage.where)}"])


def _columns(made: MadeSection) -> list[str]:
    return [f"made    {plain_name(name)} = {column_in_words(plain(column, ''))}" for name, column in made.columns.items()]


def open_cells(plan: ReleasePlan) -> list[str]:
    """A line for each column whose cells can end the run; a job with a ledger has none."""
    full = _full(plan)
    found: dict[str, None] = {}
    for query, read in zip(plan.job.query, declared_reads(plan.job), strict=True):
        for name, cells in read.columns():
            keys = tuple(key for key in cells.missing_keys() if key != "missing" or name not in full)
            found |= dict.fromkeys([words.ends_the_run(query.name, name, keys)] if keys else [])
    return list(found)


def _full(plan: ReleasePlan) -> set[str]:
    """The columns of which the schema says that each cell has a value."""
    schema = None if plan.recipe is not None else plan.inputs.inspect(plan.inputs.paths[0]).schema
    return set() if schema is None else {field.name for field in schema if not field.nullable}


def query_table(plan: ReleasePlan) -> Table:
    """The queries as a table for a terminal: a line for each draw."""
    lines = (_lines(answer, plan.job.spent_on(answer.section), plan.rows) for answer in plan.estimators)
    return make_table(HEADINGS, itertools.chain.from_iterable(lines))


def _lines(answer: Estimator, spent: Privacy, rows: int | None) -> list[tuple[str, ...]]:
    section = answer.section
    noise = [Noise(**each) for each in noise_in_own_unit(section, [each.document() for each in answer.noise])]
    error = error_in_own_unit(section, answer.expected_error(rows))
    shown = (error is None and answer.in_place_of_error) or plain_number(error, 4)
    head = (section.name, section.kind, columns_in_words(section), rounded_up(spent.epsilon, 6), rounded_up(spent.delta, 6))
    first, *others = [_drawn(each) for each in dict.fromkeys(noise)] or [("none: public", "–", "–")]
    return [(*head, *first, shown), *(("",) * len(head) + other + ("",) for other in others)]


def columns_in_words(section: QuerySection) -> str:
    """The columns that a query reads, as text."""
    return ", ".join(section.column_names) or plain_number(None)


def _drawn(noise: Noise) -> tuple[str, str, str]:
    scale = plain_number(float(noise.scale), 4) if math.isfinite(noise.scale) else "–"
    return noise.law.replace("_", " "), plain_number(float(noise.sensitivity), 6), scale
