"""The session that the tests of this folder share; all of them are long but the smoke test."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.spark import shared

HERE = Path(__file__).parent
BRIEF = {"test_smoke.py"}
"""Files that the default run has, too: 90 seconds on two cores."""
OF_PYSPARK = (
    "ignore:PySpark does not yet fully support pandas:FutureWarning",
    "ignore:unclosed:ResourceWarning",  # sockets to Java, which pyspark leaves to the collector of garbage
    "ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning",
    "ignore::DeprecationWarning:pyspark",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests before those that are not wanted are left out."""
    for item in items:
        if HERE in item.path.parents:
            if item.path.name not in BRIEF:
                item.add_marker(pytest.mark.long)
            for warning in OF_PYSPARK:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Two worker processes, with encryption on."""
    return shared(tmp_path_factory.mktemp("spark"))
