"""What is said of a plan before it runs, in the form of the document that its answers will have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.query.estimators import Estimator
from dpcore.query.noise import Noise
from dpcore.query.prose import neighbours_in_words, release_guarantee
from dpcore.query.units_of_answers import error_in_own_unit, in_own_unit, noise_in_own_unit

if TYPE_CHECKING:
    from dpcore.query.plan import ReleasePlan
    from dpcore.query.request import ReleaseJob

__all__ = ["Estimator", "Noise", "error_in_own_unit", "noise_in_own_unit", "plan_document", "statement"]


def statement(job: ReleaseJob) -> str:
    """The guarantee in words."""
    head = job.head()
    return f"{release_guarantee(head, job.names_of_whole)}\n{neighbours_in_words(head)}"


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
        "input": {"path": job.input.path, **plan.inputs.origin, **rows},
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
        **({} if answer.behind is None else {"behind": answer.behind}),
    }
    return in_own_unit(section, document)
