"""What every test shares: the settings of Hypothesis, and which tests need more than an installed package."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

REPOSITORY = Path(__file__).resolve().parent.parent

# A wheel without extras is complete (the core needs numpy, scipy and mpmath only); the tests of an extra then have no subject.
collect_ignore_glob = []
if importlib.util.find_spec("pyarrow") is None:
    collect_ignore_glob += ["*test_batch_*", "*test_cli_*", "*test_experiment*", "*test_ledger_command*", "*test_release_*"]
if importlib.util.find_spec("dp_accounting") is None:
    collect_ignore_glob += ["*test_accounting_pld*"]

# A kernel's first call can pay for a thread pool; a deadline per example would time that, and timed tests are banned.
settings.register_profile("dpcore", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dpcore")


def pytest_report_header() -> str:
    """Name what is under test: a failure at one CPU level only is a different failure."""
    from dpcore import __version__, _backend

    levels = ", ".join(f"[{name}]" if name == _backend.selected_level() else name for name in _backend.available_levels())
    return f"dpcore {__version__}, CPU levels: {levels}"


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the source tree, for tests marked `source_tree`."""
    return REPOSITORY
