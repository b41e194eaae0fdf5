"""Batch jobs: private tables and private answers from tables of any size, in bounded memory. Needs the extra `batch`.

The `dpcore` command calls these functions. A local job randomises a table row by row, and estimates come from its output:

>>> from tempfile import TemporaryDirectory
>>> from dpcore.batch import estimate, make_plan, parse_job, privatize
>>> folder = TemporaryDirectory()
>>> column = {"name": "health", "mechanism": "kary", "epsilon": 2.0, "categories": ["excellent", "good", "fair", "poor"]}
>>> job = parse_job(
...     {
...         "version": 1,
...         "input": {"path": "examples/randhie.parquet"},
...         "output": {"path": f"{folder.name}/private.parquet"},
...         "privacy": {"max_epsilon": 2.0},
...         "column": [column],
...     }
... )
>>> job.total
Privacy(epsilon=2.0, delta=0.0, relation='replace')
>>> summary = privatize(make_plan(job))  # doctest: +SKIP
>>> estimate(summary.plan.output).columns[0].estimate.value  # doctest: +SKIP
array([0.543, 0.365, 0.077, 0.015])
>>> folder.cleanup()

A central release answers questions about a table. It has its own job, plan and function: `load_release_job`,
`make_release_plan` and `release`.
"""

from dpcore._extras import require

require("dpcore.batch", "batch")

from dpcore.batch.estimate.run import ColumnEstimate, Estimates, estimate
from dpcore.batch.privatize.job import Job, load_job, parse_job
from dpcore.batch.privatize.plan import Plan, make_plan
from dpcore.batch.privatize.run import Summary, privatize
from dpcore.batch.release.job import ReleaseJob, load_release_job, parse_release_job
from dpcore.batch.release.plan import ReleasePlan, make_release_plan
from dpcore.batch.release.run import run as release
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
    "release",
]


def __dir__() -> list[str]:
    return __all__
