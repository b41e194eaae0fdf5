"""Text of `dpcore release`: the plan, and the summary of a run."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from dpcore._terminal import make_table
from dpcore.jobs.commands import words
from dpcore.pages.numbers import plain_name, plain_number, rounded_up
from dpcore.query.noise import Noise
from dpcore.query.prose import neighbours_in_words, release_guarantee, spaced
from dpcore.query.units_of_answers import error_in_own_unit, in_own_unit, noise_in_own_unit

if TYPE_CHECKING:
    from rich.table import Table

    from dpcore.privacy import Privacy
    from dpcore.query.estimators import Estimator
    from dpcore.query.plan import ReleasePlan
    from dpcore.query.query_sections import QuerySection
    from dpcore.query.request import ReleaseJob

HEADINGS = ("query", "kind", "column", "epsilon", "delta", "noise", "sensitivity", "scale", "standard error")
ERRORS = "Standard errors are those of the noise; – means that it depends on the data or on the number of rows."


def describe(plan: ReleasePlan) -> str:
    """Input, outputs and ledger of a plan, one line each."""
    ledger = plan.job.ledger
    lines = [words.source(plan, count_rows=plan.job.n_is_public), f"output  {plan.job.output.path} (JSON)"]
    ways = [(what, answer.section, how) for answer in plan.estimators for what, how in answer.ways]
    lines += [f"{what:8}{how}" for what, _, how in ways if what == "table"]
    lines += _derived(plan.job)
    lines += [f"{what:8}{plain_name(section.name)}: {how}" for what, section, how in ways if what != "table"]
    return "\n".join(lines if ledger is None else [*lines, f"ledger  {ledger.path}"])


def _derived(job: ReleaseJob) -> list[str]:
    """What is derived, and which rows are asked about."""
    lines = [
        f"lookup  {', '.join(map(plain_name, each.columns))} of {plain_name(each.path)} by {plain_name(each.key)}" for each in job.lookup
    ]
    lines += [f"derive  {plain_name(each.name)} = {spaced(each.sql)}" for each in job.derive]
    lines += [] if job.where is None else [f"where   {spaced(job.where)}"]
    return lines + [f"where   {plain_name(each.name)}: {spaced(each.where)}" for each in job.query if each.where is not None]


def statement(job: ReleaseJob) -> str:
    """The guarantee in words."""
    head = job.head()
    return f"{release_guarantee(head)}\n{neighbours_in_words(head)}"


def query_table(plan: ReleasePlan) -> Table:
    """The queries as a table for a terminal: a line for each draw."""
    lines = (_lines(answer, plan.job.spent_on(answer.section), plan.rows) for answer in plan.estimators)
    return make_table(HEADINGS, itertools.chain.from_iterable(lines))


def plan_document(plan: ReleasePlan) -> dict[str, Any]:
    """Return the document of `--dry-run --json`: the head of the document that the job will write, and for each query its noise."""
    job = plan.job
    rows = {"rows": plan.rows} if job.n_is_public else {}
    return {
        **job.head(),
        "run": plan.publication.charge.run,
        "max_epsilon": job.privacy.max_epsilon,
        "max_delta": job.privacy.max_delta,
        "statement": statement(job),
        "input": {"path": job.input.path, "format": plan.inputs.format, "files": len(plan.inputs.paths), **rows},
        "output": {"path": job.output.path},
        "ledger": None if job.ledger is None else {"path": job.ledger.path},
        "queries": [_planned(plan, answer) for answer in plan.estimators],
        "dry_run": True,
    }


def _planned(plan: ReleasePlan, answer: Estimator) -> dict[str, Any]:
    section, spent = answer.section, plan.job.spent_on(answer.section)
    document = {
        "name": section.name,
        "kind": section.kind,
        "column": section.column,
        "privacy": {"epsilon": spent.epsilon, "delta": spent.delta},
        **answer.public_parameters(),
        "noise": [noise.document() for noise in answer.noise],
        "stderr": answer.expected_error(plan.rows if plan.job.n_is_public else None),
    }
    return in_own_unit(section, document)


def _lines(answer: Estimator, spent: Privacy, rows: int | None) -> list[tuple[str, ...]]:
    section = answer.section
    noise = [Noise(**each) for each in noise_in_own_unit(section, [each.document() for each in answer.noise])]
    error = error_in_own_unit(section, answer.expected_error(rows))
    shown = plain_number(error, 4)
    head = (section.name, section.kind, columns_in_words(section), rounded_up(spent.epsilon, 6), rounded_up(spent.delta, 6))
    first, *others = [_drawn(each) for each in dict.fromkeys(noise)] or [("none: public", "–", "–")]
    return [(*head, *first, shown), *(("",) * len(head) + other + ("",) for other in others)]


def columns_in_words(section: QuerySection) -> str:
    """The columns that a query reads, as text."""
    return ", ".join(section.column_names) or plain_number(None)


def _drawn(noise: Noise) -> tuple[str, str, str]:
    scale = plain_number(float(noise.scale), 4) if math.isfinite(noise.scale) else "–"
    return noise.law.replace("_", " "), plain_number(float(noise.sensitivity), 6), scale
