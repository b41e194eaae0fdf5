"""What `dpcore release` does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from dpcore._terminal import echo, print_table, wants_json
from dpcore.errors import StorageError, reason
from dpcore.jobs.commands import words
from dpcore.jobs.commands.engines import Engine
from dpcore.jobs.commands.log import Logged, logged
from dpcore.jobs.commands.progress import shown_on
from dpcore.jobs.release_job import load_release_job
from dpcore.jobs.settings import Settings
from dpcore.pages.numbers import json_text
from dpcore.pages.page import report_paths
from dpcore.query.document import plan_document, statement
from dpcore.query.request import unused_in_words
from dpcore.tables.provenance import provenance_of, spent_again
from dpcore.tables.sources import bytes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcore.jobs.commands.log import RunLog
    from dpcore.query.page import ReleasePages
    from dpcore.query.plan import ReleasePlan


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
    engine: Engine[ReleasePlan, dict[str, Any]] | None = None,
) -> None:
    """Run or describe a job; the entry point turns errors into exit codes."""
    engine = _local() if engine is None else engine
    words.begin(dry_run=dry_run, folder=folder, curator=curator)
    settings = Settings.read(given, source=source, target=target)
    with logged(log, "release", job=str(job), settings=settings.written(), curator=curator, **engine.facts()) as events:
        loaded = load_release_job(job, settings=settings)
        reports = [] if folder is None else report_paths(folder, Path(loaded.output.path).stem, Path(loaded.output.path))
        options = {"overwrite": overwrite, "curator": curator, "others": words.other_files(job, reports, log)}
        plan, refusal = words.planned(engine.plan, loaded, dry_run=dry_run, **options)
        events.planned(plan, dry_run=dry_run)
        words.warn(loaded, unused_in_words(loaded))
        if dry_run:
            _print_plan(plan, as_json=wants_json(as_json))
            words.end_dry_run(plan, refusal, "answers")
            return
        if words.is_published(plan.publication, "answers"):
            events.done(plan, "already published")
            _print_stored(plan, None if folder is None else _pages(folder, plan, job), as_json=wants_json(as_json))
            return
        if threads is not None:
            pa.set_cpu_count(threads)
        _run(engine, plan, threads, events, None if folder is None else _pages(folder, plan, job), as_json=wants_json(as_json))


def _local() -> Engine[ReleasePlan, dict[str, Any]]:
    from dpcore.query.plan import make_release_plan
    from dpcore.query.run import run as release

    return Engine("local", make_release_plan, release)


def _run(
    engine: Engine[ReleasePlan, dict[str, Any]],
    plan: ReleasePlan,
    threads: int | None,
    events: RunLog,
    pages: ReleasePages | None,
    *,
    as_json: bool,
) -> None:
    with words.truthful(plan.publication):
        with shown_on(sys.stderr, count_rows=plan.job.n_is_public and engine.is_local) as progress:
            document = engine.run(plan, threads=threads, progress=Logged(progress, events))
        events.done(plan, "published")
        if pages is not None:
            pages.write(document)  # before standard output, which may be a closed pipe
        _print_answers(document, as_json=as_json)
        _print_end(plan)
        if pages is not None:
            words.name_reports(pages.paths)


def _pages(folder: Path, plan: ReleasePlan, job: Path) -> ReleasePages:
    """The pages, made before any row is read: a wrong folder or a missing extra is found first."""
    from dpcore.query.page import ReleasePages

    origin = provenance_of(plan, plan.job.input.path, plan.job.output.path, job)
    return ReleasePages(folder, plan.output.stem, plan.output if isinstance(plan.output, Path) else None, provenance=origin)


def _print_stored(plan: ReleasePlan, pages: ReleasePages | None, *, as_json: bool) -> None:
    """Show what an earlier run has published, from its output alone."""
    try:
        document = json.loads(bytes_of(plan.output))
    except StorageError:
        raise
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot read {plan.output}{reason(error)}") from None
    if pages is not None:
        pages.write(document)
    _print_answers(document, as_json=as_json)
    if pages is not None:
        words.name_reports(pages.paths)


def _print_answers(document: dict[str, Any], *, as_json: bool) -> None:
    from dpcore.jobs.commands import answers_text

    if as_json:
        click.echo(json_text(document))
        return
    print_table(answers_text.answer_table(document), *answers_text.notes(document))


def _print_plan(plan: ReleasePlan, *, as_json: bool) -> None:
    from dpcore.jobs.commands import release_text

    if as_json:
        click.echo(json_text(plan_document(plan)))
        return
    ends = [release_text.ERRORS, "", words.budget(plan.job), statement(plan.job), spent_again(plan.job), words.DRY_RUN]
    print_table(release_text.describe(plan) + "\n", release_text.query_table(plan), "\n".join(ends))


def _print_end(plan: ReleasePlan) -> None:

    for answer in plan.estimators:
        if answer.table is not None:
            echo(f"{answer.section.output}: synthetic rows of {answer.section.name!r}", err=True)
    echo(f"{plan.output}: {len(plan.estimators)} quer{'ies' if len(plan.estimators) > 1 else 'y'} answered", err=True)
    echo(f"spent {statement(plan.job)}", err=True)
    echo(spent_again(plan.job), err=True)
