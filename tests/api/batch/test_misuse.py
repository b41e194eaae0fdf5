"""Who calls the functions of jobs with something else is told what they take; who lacks the extra, what to install."""

from __future__ import annotations

import pytest

from dpcore import batch
from dpcore._extras import BELOW, install
from dpcore.errors import ParameterTypeError
from support.jobs import start

PLAN = r"plan must be a Plan, which make_plan makes, got "
RELEASE_PLAN = r"plan must be a ReleasePlan, which make_release_plan makes, got "


@pytest.mark.parametrize(
    ("function", "given", "words"),
    [
        (batch.privatize, None, PLAN + "None"),
        (batch.privatize, "job.toml", PLAN + "'job.toml'"),
        (batch.release, None, RELEASE_PLAN + "None"),
        (batch.make_plan, None, "job must be a Job, which load_job or parse_job makes, got None"),
        (batch.make_release_plan, "a", "job must be a ReleaseJob, which load_release_job or parse_release_job makes, got 'a'"),
        (batch.load_job, None, "path must be that of a job file, a str or Path, got None"),
        (batch.load_release_job, 3, "path must be that of a job file, a str or Path, got 3"),
        (batch.parse_job, "version = 1", "document must be a dict, as tomllib.load returns it, got str"),
        (batch.parse_release_job, None, "document must be a dict, as tomllib.load returns it, got NoneType"),
    ],
)
def test_something_else(function, given, words):
    with pytest.raises(ParameterTypeError, match=words):
        function(given)


def test_a_plan_of_the_other_kind():
    with pytest.raises(ParameterTypeError, match=PLAN):
        batch.privatize(object.__new__(batch.ReleasePlan))


@pytest.mark.some(6)
@pytest.mark.parametrize("absent", ["pyarrow", "pydantic", "click"])
@pytest.mark.parametrize("module", ["dpcore.batch", "dpcore.query", "dpcore.tables.rows"])
def test_the_module_without_its_extra(absent, module):
    script = f"""
import sys
sys.modules[{absent!r}] = None
try:
    import {module}
except ModuleNotFoundError as error:
    print(error.name, error)
"""
    out, err = start(script=script).communicate()
    assert out == f"{absent} dpcore.batch needs the extra `batch` (not installed: {absent}); {install('batch', gap=BELOW)}\n", err
