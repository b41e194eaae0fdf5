"""What `dpcore privatize` does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from dpcore._addresses import argument
from dpcore._terminal import echo, print_table, wants_json
from dpcore.jobs import privatize_page as page
from dpcore.jobs.commands import privatize_text, words
from dpcore.jobs.commands.engines import Engine, Finished
from dpcore.jobs.commands.log import Logged, logged
from dpcore.jobs.commands.progress import shown_on
from dpcore.jobs.privatize import privatize
from dpcore.jobs.privatize_job import load_job
from dpcore.jobs.privatize_plan import Plan, make_plan
from dpcore.jobs.settings import Settings
from dpcore.pages.numbers import json_text
from dpcore.pages.page import report_paths
from dpcore.tables.inputs import discover
from dpcore.tables.provenance import spent_again

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcore.jobs.commands.log import RunLog


def run(
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
    engine: Engine[Plan, Finished] | None = None,
) -> None:
    """Run or describe a job; the entry point turns errors into exit codes."""
    engine = Engine("local", make_plan, privatize) if engine is None else engine
    words.begin(dry_run=dry_run, folder=folder, curator=curator)
    settings = Settings.read(given, source=source, target=target)
    with logged(log, "privatize", job=str(job), settings=settings.written(), curator=curator, **engine.facts()) as events:
        loaded = load_job(job, settings=settings)
        reports = [] if folder is None else report_paths(folder, Path(loaded.output.path).stem)
        options = {"overwrite": overwrite, "curator": curator, "others": words.other_files(job, reports, log)}
        plan, refusal = words.planned(engine.plan, loaded, dry_run=dry_run, **options)
        events.planned(plan, dry_run=dry_run)
        words.warn(loaded)
        if dry_run:
            _print_plan(plan, as_json=wants_json(as_json))
            words.end_dry_run(plan, refusal, "rows")
            return
        if words.is_published(plan.publication, "rows"):
            events.done(plan, "already published")
            _print_stored(plan, None if folder is None else page.PrivatizePages(folder, plan, job), as_json=wants_json(as_json))
            return
        if threads is not None:
            pa.set_cpu_count(threads)
        _run(engine, plan, threads, events, None if folder is None else page.PrivatizePages(folder, plan, job), as_json=wants_json(as_json))


def _run(
    engine: Engine[Plan, Finished],
    plan: Plan,
    threads: int | None,
    events: RunLog,
    pages: page.PrivatizePages | None,
    *,
    as_json: bool,
) -> None:
    with words.truthful(plan.publication):
        with shown_on(sys.stderr, count_rows=engine.is_local) as progress:
            summary = engine.run(plan, threads=threads, progress=Logged(progress, events))
        events.done(plan, "published")
        if pages is not None:
            pages.write(summary.rows)  # before standard output, which may be a closed pipe
        _print_summary(plan, summary.rows, as_json=as_json)
        if pages is not None:
            words.name_reports(pages.paths)


def _print_stored(plan: Plan, pages: page.PrivatizePages | None, *, as_json: bool) -> None:
    """Describe what an earlier run has published, from the job and its output."""
    stored = discover(str(plan.output), plan.job.output.resolved_format)
    counted = [stored.inspect(path).rows for path in stored.paths]
    rows = None if None in counted else sum(each or 0 for each in counted)
    if pages is not None:
        pages.write(rows)  # before standard output, which may be a closed pipe
    if as_json:
        click.echo(json_text(page.report_document(plan, rows)))
    else:
        echo(f"{plan.output}: {'' if rows is None else f'{rows:,} rows, '}{_columns_in_words(plan)}")
        echo(f"What it says: dpcore estimate {argument(plan.output)}")
    if pages is not None:
        words.name_reports(pages.paths)


def _columns_in_words(plan: Plan) -> str:
    names = ", ".join(column.name for column in plan.columns[:8]) + (", …" if len(plan.columns) > 8 else "")
    return f"{len(plan.columns)} column{'s' if len(plan.columns) > 1 else ''} randomised ({names})"


def _print_plan(plan: Plan, *, as_json: bool) -> None:
    if as_json:
        click.echo(json_text(page.report_document(plan, None) | {"dry_run": True}))
        return
    print_table(
        privatize_text.describe(plan) + "\n",
        privatize_text.column_table(plan),
        "\n".join([page.PRECISION, "", words.budget(plan.job), page.privacy_statement(plan.job), *_notes(plan), words.DRY_RUN]),
    )


def _print_summary(plan: Plan, rows: int | None, *, as_json: bool) -> None:
    if as_json:
        click.echo(json_text(page.report_document(plan, rows)))
        return
    echo(f"{plan.output}: {'' if rows is None else f'{rows:,} rows, '}{_columns_in_words(plan)}")
    echo("\n".join([f"spent {page.privacy_statement(plan.job)}", *_notes(plan)]))
    echo(f"To read it: dpcore estimate {argument(plan.output)}")


def _notes(plan: Plan) -> list[str]:
    return [*([page.KEPT] if plan.job.keep else []), page.PUBLIC_ROWS, spent_again(plan.job)]
