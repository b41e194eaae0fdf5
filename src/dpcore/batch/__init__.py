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
`make_release_plan` and `release`. A release whose plan was given a key file (`commit`) can be made again by `verify`; `deposit` makes the
file before there are data.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dpcore._extras import require
from dpcore.errors import JobError, StorageError

require("dpcore.batch", "batch")

if TYPE_CHECKING:
    from dpcore.jobs.estimate import ColumnEstimate, Estimates, estimate
    from dpcore.jobs.privatize import Summary, privatize
    from dpcore.jobs.privatize_job import Job, load_job, parse_job
    from dpcore.jobs.privatize_plan import Plan, make_plan
    from dpcore.jobs.release_job import load_release_job, parse_release_job
    from dpcore.query.plan import ReleasePlan
    from dpcore.query.request import ReleaseJob
    from dpcore.query.run import run as release
    from dpcore.query.verification import Verification, verify
    from dpcore.query.written_plans import deposit, make_release_plan

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
    "Verification",
    "deposit",
    "estimate",
    "load_job",
    "load_release_job",
    "make_plan",
    "make_release_plan",
    "parse_job",
    "parse_release_job",
    "privatize",
    "release",
    "verify",
]

_PLACES = {
    **dict.fromkeys(("ColumnEstimate", "Estimates", "estimate"), "dpcore.jobs.estimate"),
    **dict.fromkeys(("Summary", "privatize"), "dpcore.jobs.privatize"),
    **dict.fromkeys(("Job", "load_job", "parse_job"), "dpcore.jobs.privatize_job"),
    **dict.fromkeys(("Plan", "make_plan"), "dpcore.jobs.privatize_plan"),
    "ReleasePlan": "dpcore.query.plan",
    **dict.fromkeys(("deposit", "make_release_plan"), "dpcore.query.written_plans"),
    **dict.fromkeys(("Verification", "verify"), "dpcore.query.verification"),
    **dict.fromkeys(("load_release_job", "parse_release_job"), "dpcore.jobs.release_job"),
    "ReleaseJob": "dpcore.query.request",
    "release": "dpcore.query.run",
}
"""Where each name lies; it is loaded when it is first used."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=None)
    found = getattr(importlib.import_module(_PLACES[name]), "run" if name == "release" else name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
