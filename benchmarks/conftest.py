"""What all benchmarks share: the CPU levels, and the rows of a session as one table at its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpcore import _backend
from dpcore.bench import as_text
from ratios import ABSENT, ROWS


@pytest.fixture(params=_backend.available_levels()[::-1])
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each CPU level of this machine."""
    before = _backend.selected_level()
    _backend.select_level(request.param)
    yield request.param
    _backend.select_level(before)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table of ratios, and what could not be measured here."""
    if not ROWS:
        return
    terminalreporter.section("ratios")
    terminalreporter.write_line(as_text(sorted(ROWS, key=lambda row: (row.ours, row.against, row.level), reverse=True)))
    missing = [level for level in ("baseline", "x86_v3", "x86_v4") if level not in _backend.available_levels()]
    for line in [*dict.fromkeys(ABSENT), *(f"{level}: not measured here" for level in missing)]:
        terminalreporter.write_line(line)
