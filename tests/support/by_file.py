"""What `make test` shows: a line for each file whose tests have run, and how long the rest will take."""

from __future__ import annotations

import time
from collections import Counter

import pytest


class ByFile:
    """A plugin that writes lines for files where pytest writes letters for tests."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.start = time.monotonic()
        self.waiting: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.total = 0

    def count(self, nodeids: list[str]) -> None:
        """Learn which tests will run."""
        self.waiting = Counter(nodeid.partition("::")[0] for nodeid in nodeids)
        self.total = len(nodeids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Learn it from the only process."""
        if session.items:
            self.count([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Learn it from one of several processes: all collect the same."""
        self.count(ids)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self, report: pytest.TestReport):
        """Keep the categories of pytest's summary, without its letters; a failure is named at once."""
        category, _, word = yield
        return category, "", word

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Name a failure when it happens."""
        if report.failed:
            self.failed[report.nodeid.partition("::")[0]] += 1
            self.write(f"FAILED {report.nodeid}", red=True)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Write the line of a file after its last test."""
        file = nodeid.partition("::")[0]
        self.seen[file] += 1
        if self.seen[file] == self.waiting[file]:
            self.write(self.line(file, self.seen.total(), time.monotonic() - self.start))

    def line(self, file: str, done: int, seconds: float) -> str:
        """Say what ran, how much of all that is, and how long the rest takes at the same pace."""
        left = seconds * (self.total - done) / done / 60
        rest = f"{left:.0f} min left" if left >= 1 else "less than a minute left"
        failed = f", {self.failed[file]} failed" if self.failed[file] else ""
        return f"[{100 * done // self.total:3d} %, {rest}] {file}: {self.waiting[file]} tests{failed}"

    def write(self, text: str, **markup: bool) -> None:
        """Write a line where pytest writes."""
        self.config.pluginmanager.getplugin("terminalreporter").write_line(text, **markup)
