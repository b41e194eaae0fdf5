"""Where the numbers of a document come from: the run, its input and its job. All of it is declared; nothing is read from rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dpcore.pages.page import now

if TYPE_CHECKING:
    from dpcore.tables.plans import JobPlan
    from dpcore.tables.sections import JobFile


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
        for a table of Spark, `files`, which is None if Spark lists none, and `dataset`)
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
