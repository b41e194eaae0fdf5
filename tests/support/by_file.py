"""What `make test` shows: a line for each file whose tests have run, how long the rest will take, and what is still running."""

from __future__ import annotations

import time
from collections import Counter

import pytest

SILENT_SECONDS = 20.0
"""After so long without a line, the files that are running are named."""
FEW = 0.05
"""Below this share of the tests that are left no time is told: the last files are often the slowest."""


class ByFile:
    """A plugin that writes lines for files where pytest writes letters for tests."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.start = self.written = time.monotonic()
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
        """Write the line of a file after its last test, and now and then what is running."""
        file = nodeid.partition("::")[0]
        self.seen[file] += 1
        if self.seen[file] == self.waiting[file]:
            self.write(self.line(file, time.monotonic() - self.start))
        elif time.monotonic() - self.written > SILENT_SECONDS:
            self.write(self.running())

    def line(self, file: str, seconds: float) -> str:
        """Say what ran, how much of all that is, and how long the rest takes."""
        failed = f", {self.failed[file]} failed" if self.failed[file] else ""
        return f"[{self.share():3d} %, {self.rest(seconds)}] {file}: {self.waiting[file]} tests{failed}"

    def share(self) -> int:
        """Per cent of the tests that have run."""
        return 100 * self.seen.total() // self.total

    def rest(self, seconds: float) -> str:
        """Say how long the rest takes, at the slower of two paces, of tests and of files; of the last tests, how many files they are."""
        done, files = self.seen.total(), sum(self.seen[file] == count for file, count in self.waiting.items())
        left = len(self.waiting) - files
        if self.total - done < FEW * self.total:
            return f"{left} file{'' if left == 1 else 's'} left"
        paces = [(self.total - done) / done, *([left / files] if files and done > 2 * FEW * self.total else [])]
        minutes = seconds / 60 * max(paces)
        return f"{minutes:.0f} min left" if minutes >= 1 else "less than a minute left"

    def running(self) -> str:
        """Name the files some of whose tests have run, and how many of each."""
        begun = [file for file, count in self.seen.items() if count < self.waiting[file]]
        return f"[{self.share():3d} %] running: {', '.join(f'{file} ({self.seen[file]} of {self.waiting[file]})' for file in begun)}"

    def write(self, text: str, **markup: bool) -> None:
        """Write a line where pytest writes."""
        self.written = time.monotonic()
        self.config.pluginmanager.getplugin("terminalreporter").write_line(text, **markup)
