"""The way of a command that runs a job: load, plan, show or run, publish, and say what is there."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import pyarrow as pa

from dpcore._terminal import wants_json
from dpcore.jobs.commands import words
from dpcore.jobs.commands.engines import Engine
from dpcore.jobs.commands.log import Logged, logged
from dpcore.jobs.commands.progress import shown_on
from dpcore.jobs.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpcore.jobs.commands.log import RunLog
    from dpcore.tables.plans import JobPlan

SomePlan = TypeVar("SomePlan", bound="JobPlan")
Found = TypeVar("Found")


class JobCommand(ABC, Generic[SomePlan, Found]):
    """What the commands differ in. `Found` is what an output holds: its document, or its number of rows."""

    name: ClassVar[str]
    """Of the command."""
    wanted: ClassVar[str]
    """What it publishes, in words."""

    def run(
        self,
        job: Path,
        folder: Path | None,
        threads: int | None,
        *,
        as_json: bool | None,
        dry_run: bool,
        overwrite: bool,
        curator: bool,
        source: str | None,
        target: str | None,
        given: Sequence[str],
        log: Path | None,
        engine: Engine[SomePlan, Any] | None = None,
    ) -> None:
        """Run or describe a job; the entry point turns errors into exit codes."""
        engine = self.local() if engine is None else engine
        words.begin(dry_run=dry_run, folder=folder, curator=curator)
        settings = Settings.read(given, source=source, target=target)
        with logged(log, self.name, job=str(job), settings=settings.written(), curator=curator, **engine.facts()) as events:
            loaded = self.load(job, settings)
            reports = () if folder is None else self.reports(folder, loaded)
            options = {"overwrite": overwrite, "curator": curator, "others": words.other_files(job, reports, log)}
            plan, refusal = words.planned(engine.plan, loaded, dry_run=dry_run, **options)
            events.planned(plan, dry_run=dry_run)
            words.warn(loaded, self.unused(loaded))
            if dry_run:
                self.print_plan(plan, as_json=wants_json(as_json))
                words.end_dry_run(plan, refusal, self.wanted)
                return
            # Made before any row is read: a wrong folder or a missing extra is found first.
            if words.is_published(plan, self.wanted):
                events.done(plan, "already published")
                pages = None if folder is None else self.pages(folder, plan, job)
                self._show(plan, pages, self.stored(plan), as_json=wants_json(as_json), is_new=False)
                return
            if threads is not None:
                pa.set_cpu_count(threads)
            self._run(engine, plan, threads, events, None if folder is None else self.pages(folder, plan, job), as_json=wants_json(as_json))

    def _run(
        self, engine: Engine[SomePlan, Any], plan: SomePlan, threads: int | None, events: RunLog, pages: Any, *, as_json: bool
    ) -> None:
        with words.truthful(plan.publication):
            with shown_on(sys.stderr, count_rows=engine.is_local and self.may_count_rows(plan)) as progress:
                result = engine.run(plan, threads=threads, progress=Logged(progress, events))
            events.done(plan, "published")
            self._show(plan, pages, self.found(result), as_json=as_json, is_new=True)

    def _show(self, plan: SomePlan, pages: Any, found: Found, *, as_json: bool, is_new: bool) -> None:
        if pages is not None:
            words.write_reports(pages, found)  # before standard output, which may be a closed pipe
        (self.print_new if is_new else self.print_stored)(plan, found, as_json=as_json)
        if pages is not None:
            words.name_reports(pages.paths)

    @abstractmethod
    def local(self) -> Engine[SomePlan, Any]:
        """The engine of this process."""

    @abstractmethod
    def load(self, path: Path, settings: Settings) -> Any:
        """The job of a file."""

    @abstractmethod
    def reports(self, folder: Path, job: Any) -> Sequence[Path]:
        """The files of `--report`."""

    def unused(self, job: Any) -> Iterable[str]:  # noqa: ARG002
        """What is declared and not used, in words."""
        return ()

    def may_count_rows(self, plan: SomePlan) -> bool:  # noqa: ARG002
        """Whether the number of rows that are done may be shown."""
        return True

    @abstractmethod
    def pages(self, folder: Path, plan: SomePlan, job: Path) -> Any:
        """The pages of `--report`."""

    @abstractmethod
    def found(self, result: Any) -> Found:
        """What a run has published."""

    @abstractmethod
    def stored(self, plan: SomePlan) -> Found:
        """The same of an earlier run, from its output alone."""

    @abstractmethod
    def print_plan(self, plan: SomePlan, *, as_json: bool) -> None:
        """What `--dry-run` says."""

    @abstractmethod
    def print_new(self, plan: SomePlan, found: Found, *, as_json: bool) -> None:
        """What is said after a run."""

    @abstractmethod
    def print_stored(self, plan: SomePlan, found: Found, *, as_json: bool) -> None:
        """What is said of an earlier run."""
