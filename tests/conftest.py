"""What every test shares: the settings of Hypothesis, and which tests need more than an installed package."""

from __future__ import annotations

import hashlib
import importlib.util
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

REPOSITORY = Path(__file__).resolve().parent.parent

# A wheel without extras is complete (the core needs numpy and scipy only); the tests of an extra then have no subject.
EXTRAS = {
    "pyarrow click rich pydantic duckdb": (
        "api/batch/* api/spark/* api/reproduce/* "
        "*/test_batch_* */test_release_* faults/test_commit_steps* faults/test_places* faults/test_published* "
        "property/test_totals* property/test_expressions* property/test_private_bounds* property/test_moments* property/test_quantiles* "
        "property/test_where* property/test_whole_units* statistical/test_moments* statistical/test_private_groups* "
        "statistical/test_real_table* api/pages/test_every_page* api/pages/test_narrow_screens* api/pages/test_plots*"
    ),
    "pyarrow click rich pydantic duckdb clarabel dp_accounting": "packaging/test_docstrings* packaging/test_documents*",
    "build.__main__": "packaging/test_distributions*",  # a folder may have the name alone
    "clarabel": "api/bench/* api/reproduce/* api/minimax/* */test_minimax_*",
    "dp_accounting": "api/accounting/test_pld* api/accounting/test_dp_events*",
    "sklearn": "interop/test_sklearn*",
    "pyarrow pydantic pandas polars duckdb narwhals": "interop/test_wrapped_frames*",
    "z3": "kernels/test_address_proof*",
    # `make test-interop` has an environment for each of these.
    "pyarrow": "interop/test_arrow* interop/test_polars* interop/test_pandas* interop/test_duckdb*",
    "pyarrow pydantic pandas polars duckdb": "property/test_locality*",
    "polars": "interop/test_polars*",
    "pandas": "interop/test_pandas*",
    "duckdb": "interop/test_duckdb*",
    "diffprivlib": "interop/test_diffprivlib*",
    "opacus": "interop/test_opacus*",
    "tmlt.core": "interop/test_tumult*",
    "opendp": "interop/test_opendp*",
    "pyspark pyarrow duckdb pydantic": "spark/*",
    "pyarrow click rich pydantic duckdb matplotlib jinja2": "fuzz/*",
    "ray dask daft": "interop/test_recipes*",
    "snsql": "interop/test_smartnoise*",
    "pipeline_dp": "interop/test_pipelinedp*",
    "deltalake": "stores/test_delta*",
    "moto pyarrow": "stores/*",  # `make test-stores` has an environment for these
}


def is_absent(module: str) -> bool:
    """Whether a module cannot be imported."""
    try:
        return importlib.util.find_spec(module) is None
    except ModuleNotFoundError:  # nor what it is a part of
        return True


ABSENT = [tests for modules, tests in EXTRAS.items() if any(map(is_absent, modules.split()))]
collect_ignore_glob = sorted({test for tests in ABSENT for test in tests.split()})

# A kernel's first call can pay for a thread pool; a deadline per example would time that, and timed tests are banned.
for profile, examples in {"default": 40, "long": 200}.items():
    settings.register_profile(
        f"dpcore-{profile}", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow], max_examples=examples
    )
settings.load_profile("dpcore-default")


# A shell without job control starts its background jobs with SIGINT ignored, nohup with SIGHUP, and whoever inherits that ignores it too:
# the jobs that tests start and interrupt would run on. What a terminal gives is what the tests are about, however they are started.
START_SIGNALS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
if hasattr(signal, "SIGHUP"):
    START_SIGNALS[signal.SIGHUP] = signal.SIG_DFL


@pytest.fixture(autouse=True, scope="session")
def ordinary_signals() -> None:
    """Take back what the starting shell ignores or blocks; processes that the tests start inherit that."""
    for number, usual in START_SIGNALS.items():
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, usual)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, START_SIGNALS)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Give the options that `make test` and `make test-long` use."""
    parser.addoption("--by-file", action="store_true", help="Name each file when its tests have run, with the time that is left.")
    parser.addoption("--part", metavar="K/M", help="Run the K-th of M parts of the files.")


def pytest_configure(config: pytest.Config) -> None:
    """Take more examples where long tests run too; report by file, in the process that reports."""
    if "long" in config.option.markexpr.replace("not long", ""):
        settings.load_profile("dpcore-long")
    if config.getoption("by_file") and not hasattr(config, "workerinput"):
        from support.by_file import ByFile

        config.pluginmanager.register(ByFile(config), "by-file")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take the files of a part; of tests marked `some(n)` n cases, with each value of each parameter as far as they suffice.

    All cases where long tests run too.
    """
    if config.getoption("part"):
        from support.parts_of_files import files_of, part

        files = files_of(part(config.getoption("part")), (item.nodeid.partition("::")[0] for item in items))
        _deselect(config, items, {item for item in items if item.nodeid.partition("::")[0] not in files})
    if "long" in config.option.markexpr.replace("not long", ""):
        return
    cases: dict[str, list[Any]] = {}
    # In an order that looks random, so that values of different parameters meet, and that is the same in every process.
    for item in sorted(items, key=lambda each: hashlib.sha256(each.nodeid.encode()).digest()):
        if item.get_closest_marker("some") is not None:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out = {item for of_one in cases.values() for item in _beyond(of_one, of_one[0].get_closest_marker("some").args[0])}
    _deselect(config, items, left_out)


def _deselect(config: pytest.Config, items: list[pytest.Item], left_out: set[pytest.Item]) -> None:
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def _beyond(cases: list[Any], most: int) -> list[Any]:
    """All cases but so many of them: those with a value that none before them has come first."""
    first, others, seen = [], [], set()
    for case in cases:
        values = set(case.callspec.indices.items())
        (others if values <= seen else first).append(case)
        seen |= values
    return [*first, *others][most:]


def pytest_report_header() -> str:
    """Name what is under test: a failure at one CPU level only is a different failure."""
    from dpcore import __version__, _backend

    levels = ", ".join(f"[{name}]" if name == _backend.selected_level() else name for name in _backend.available_levels())
    return f"dpcore {__version__}, CPU levels: {levels}"


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the source tree, for tests marked `source_tree`."""
    return REPOSITORY


MOST_FALSE_ALARMS = 1e-3
"""Largest sum of the error rates of the suite's audits, so that the line that states the sum means something."""


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a session whose audits are allowed to fail too often; those that a test makes to count failures go uncounted there."""
    summary = session.config.pluginmanager.get_plugin("dpcore-summary")
    total = getattr(summary, "total", 0.0)  # 0 without the plugin
    if total > MOST_FALSE_ALARMS:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        print(f"\nthe error rates of the audits add up to {total:g}, more than {MOST_FALSE_ALARMS:g}: {max(summary.spent)}")
