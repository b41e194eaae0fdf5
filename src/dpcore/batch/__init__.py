"""Batch jobs: tables in, privatised tables out, estimates from them, in bounded memory. Needs the extra `batch`.

The `dpcore` command is a thin shell over these names::

    from dpcore.batch import estimate, load_job, make_plan, privatize

    summary = privatize(make_plan(load_job("job.toml")))
    estimates = estimate(summary.plan.output)
"""

from dpcore.batch.engine import Summary, privatize
from dpcore.batch.errors import JobError, StorageError
from dpcore.batch.estimation import ColumnEstimate, Estimates, estimate
from dpcore.batch.job import Job, load_job, parse_job
from dpcore.batch.plan import Plan, make_plan

__all__ = [
    "ColumnEstimate",
    "Estimates",
    "Job",
    "JobError",
    "Plan",
    "StorageError",
    "Summary",
    "estimate",
    "load_job",
    "make_plan",
    "parse_job",
    "privatize",
]
