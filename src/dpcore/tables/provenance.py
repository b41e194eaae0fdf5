"""Where the numbers of a document come from: the run, its input and its job. All of it is declared; nothing is read from rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dpcore.pages.moments import now

if TYPE_CHECKING:
    from pathlib import Path

    from dpcore.pages.page import Provenance
    from dpcore.tables.plans import JobPlan
    from dpcore.tables.sections import JobFile

SPENT_AGAIN = "Running this job again on the same data spends this budget again."
KNOWN = "Running this same job again spends nothing, as the ledger then has an entry for the run."
KNOWN_AGAIN = f"{KNOWN} With another output.path, other settings or --overwrite it spends again."

COMMITTED_AGAIN = "--overwrite is refused: the run has one key, and so one noise. For new answers {instead}; that spends again."
PAID_ONCE = (
    "Another run of this step publishes its stored answer again, and spends nothing; nor does the next step. The state of the series is as "
    "secret as the data."
)


def provenance(plan: JobPlan, job: JobFile) -> dict[str, Any]:
    """Return the keys of a document that say where it comes from.

    Parameters
    ----------
    plan : JobPlan
        The planned job.
    job : JobFile
        Its job.

    Returns
    -------
    dict
        `run` (see `run_ids`; None without an output),
        `time` (None for a job with a test key, whose output is the same at any time), `input` (`path`, `format`, which is "spark"
        for a table of Spark, `files`, which is None if Spark lists none, `dataset`, and only for Spark Connect `connect`: what its user
        declares of the session)
        and `job` (`path`, `sha256` of its bytes, `settings` of the command line), None for a job of a program.
    """
    source = job.source
    return {
        "run": plan.publication.charge.run,
        "time": _written(_time(plan)) if job.secure else None,
        "input": {"path": job.input.path, **plan.inputs.origin, "dataset": job.input.dataset},
        "job": None if source is None else {"path": source.path, "sha256": source.sha256, "settings": list(source.settings)},
    }


def _time(plan: JobPlan) -> datetime:
    """The time of this run, or of the earlier one that has published."""
    earlier = plan.publication.charge.earlier
    return now() if earlier is None else earlier.when


def _written(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def spent_again(plan: JobPlan) -> str:
    """What a job spends if it runs again."""
    job, charge = plan.job, plan.publication.charge
    if job.is_paid_once:
        return PAID_ONCE
    if charge.is_committed:
        again = COMMITTED_AGAIN.format(instead=charge.to_spend_again)
        return again if job.ledger is None else f"{KNOWN} {again}"
    return SPENT_AGAIN if job.ledger is None else KNOWN_AGAIN


def provenance_of(plan: JobPlan, source: str, output: str, job: Path) -> Provenance:
    """Where the numbers of a page come from: this run, or the earlier one that has published them."""
    from dpcore.pages.page import Provenance

    charge, from_file = plan.publication.charge, plan.job.source
    named: dict[str, Any] = {"run": charge.run, "dataset": plan.job.input.dataset}
    if from_file is not None:
        named |= {"digest": from_file.sha256, "settings": from_file.settings}
    if charge.earlier is None:
        return Provenance(source, plan.inputs.origin["files"], str(job), output, **named)
    # How many files the earlier run read is not known.
    return Provenance(source, 1, str(job), output, made=charge.earlier.when, **named)
