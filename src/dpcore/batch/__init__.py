"""Batch jobs: tables in, privatised tables out, estimates from them, in bounded memory. Needs the extra `batch`.

The `dpcore` command is a thin shell over these names::

    from dpcore.batch import estimate, load_job, make_plan, privatize

    summary = privatize(make_plan(load_job("job.toml")))
    estimates = estimate(summary.plan.output)

Central releases have a job, a plan and a run of their own::

    from dpcore.batch import load_release_job, make_release_plan
    from dpcore.batch.release import run

    document = run(make_release_plan(load_release_job("release.toml")))
"""

from dpcore.batch.estimate.run import ColumnEstimate, Estimates, estimate
from dpcore.batch.privatize.job import Job, load_job, parse_job
from dpcore.batch.privatize.plan import Plan, make_plan
from dpcore.batch.privatize.run import Summary, privatize
from dpcore.batch.release.job import ReleaseJob, load_release_job, parse_release_job
from dpcore.batch.release.plan import ReleasePlan, make_release_plan
from dpcore.errors import JobError, StorageError

__all__ = [
    "ColumnEstimate",
    "Estimates",
    "Job",
    "JobError",
    "Plan",
    "ReleaseJob",
    "ReleasePlan",
    "StorageError",
    "Summary",
    "estimate",
    "load_job",
    "load_release_job",
    "make_plan",
    "make_release_plan",
    "parse_job",
    "parse_release_job",
    "privatize",
]


def __dir__() -> list[str]:
    return __all__
