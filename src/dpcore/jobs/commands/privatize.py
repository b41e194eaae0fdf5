"""What `dpcore privatize` does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcore._disk.addresses import argument
from dpcore._terminal import echo, print_table
from dpcore.jobs import privatize_page as page
from dpcore.jobs.commands import privatize_text, words
from dpcore.jobs.commands.engines import Engine, Finished
from dpcore.jobs.commands.running import JobCommand
from dpcore.jobs.privatize import privatize
from dpcore.jobs.privatize_job import load_job
from dpcore.jobs.privatize_plan import Plan, make_plan
from dpcore.pages.numbers import json_text
from dpcore.pages.page import report_paths
from dpcore.tables.discovery import discover
from dpcore.tables.provenance import spent_again

if TYPE_CHECKING:
    from dpcore.jobs.privatize_job import Job
    from dpcore.jobs.settings import Settings


class _Privatize(JobCommand[Plan, "int | None"]):
    """What is found is the number of rows."""

    name, wanted = "privatize", "rows"

    def local(self) -> Engine[Plan, Finished]:
        return Engine("local", make_plan, privatize)

    def load(self, path: Path, settings: Settings) -> Job:
        return load_job(path, settings=settings)

    def reports(self, folder: Path, job: Job) -> tuple[Path, ...]:
        return report_paths(folder, Path(job.output.path).stem)

    def pages(self, folder: Path, plan: Plan, job: Path) -> page.PrivatizePages:
        return page.PrivatizePages(folder, plan, job)

    def found(self, result: Finished) -> int | None:
        return result.rows

    def stored(self, plan: Plan) -> int | None:
        stored = discover(str(plan.output), plan.job.output.resolved_format)
        counted = [stored.inspect(path).rows for path in stored.paths]
        return None if None in counted else sum(each or 0 for each in counted)

    def print_plan(self, plan: Plan, *, as_json: bool) -> None:
        if as_json:
            click.echo(json_text(page.report_document(plan, None) | {"dry_run": True}))
            return
        print_table(
            privatize_text.describe(plan) + "\n",
            privatize_text.column_table(plan),
            "\n".join(
                [
                    page.PRECISION,
                    *privatize_text.open_cells(plan),
                    "",
                    words.budget(plan.job),
                    page.privacy_statement(plan.job),
                    *_notes(plan),
                    words.DRY_RUN,
                ]
            ),
        )

    def print_new(self, plan: Plan, found: int | None, *, as_json: bool) -> None:
        if not self._print_head(plan, found, as_json=as_json):
            echo("\n".join([f"spent {page.privacy_statement(plan.job)}", *_notes(plan)]))
            echo(f"To read it: dpcore estimate {argument(plan.output)}")

    def print_stored(self, plan: Plan, found: int | None, *, as_json: bool) -> None:
        if not self._print_head(plan, found, as_json=as_json):
            echo(f"What it says: dpcore estimate {argument(plan.output)}")

    def _print_head(self, plan: Plan, rows: int | None, *, as_json: bool) -> bool:
        """Print the document, or a line; returns whether it is the document."""
        if as_json:
            click.echo(json_text(page.report_document(plan, rows)))
        else:
            echo(f"{plan.output}: {'' if rows is None else f'{rows:,} rows, '}{_columns_in_words(plan)}")
        return as_json


def _columns_in_words(plan: Plan) -> str:
    names = ", ".join(column.name for column in plan.columns[:8]) + (", …" if len(plan.columns) > 8 else "")
    return f"{len(plan.columns)} column{'s' if len(plan.columns) > 1 else ''} randomised ({names})"


def _notes(plan: Plan) -> list[str]:
    return [*([page.KEPT] if plan.job.keep else []), page.PUBLIC_ROWS, spent_again(plan)]


run = _Privatize().run
