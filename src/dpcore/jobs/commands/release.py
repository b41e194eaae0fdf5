"""What `dpcore release` does."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpcore._disk.signals import Deferred
from dpcore._terminal import echo, print_table, wants_json
from dpcore.errors import StorageError, reason
from dpcore.jobs.commands import words
from dpcore.jobs.commands.engines import Engine
from dpcore.jobs.commands.running import JobCommand
from dpcore.jobs.release_job import load_release_job
from dpcore.jobs.settings import Settings
from dpcore.pages.numbers import json_text
from dpcore.pages.page import report_paths
from dpcore.query.document import plan_document, statement
from dpcore.query.plan import ReleasePlan
from dpcore.query.request import unused_in_words
from dpcore.tables.provenance import provenance_of, spent_again
from dpcore.tables.sources import bytes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcore.query.page import ReleasePages
    from dpcore.query.request import ReleaseJob

    Document = dict[str, Any]


CONFIDENTIAL = "{path} is as secret as the data: with the answers it gives the exact statistics. Destroy every copy to end verification."
DEPOSIT = (
    "Deposit the commitment with a third party now. After a public announcement that nobody could foresee, run the same job with --commit "
    "and --public-randomness."
)


class _Release(JobCommand[ReleasePlan, "Document"]):
    """What is found is the document of the answers."""

    name, wanted = "release", "answers"

    def __init__(self, commit: str | None = None, public_randomness: str | None = None) -> None:
        self._commit, self._randomness = commit, public_randomness

    def local(self) -> Engine[ReleasePlan, Document]:
        from dpcore.query.written_plans import make_release_plan

        return Engine("local", partial(make_release_plan, commit=self._commit, public_randomness=self._randomness), _release)

    def load(self, path: Path, settings: Settings) -> ReleaseJob:
        return load_release_job(path, settings=settings)

    def reports(self, folder: Path, job: ReleaseJob) -> tuple[Path, ...]:
        return report_paths(folder, Path(job.output.path).stem, Path(job.output.path))

    def unused(self, job: ReleaseJob) -> list[str]:
        return unused_in_words(job)

    def may_count_rows(self, plan: ReleasePlan) -> bool:
        return plan.job.n_is_public

    def pages(self, folder: Path, plan: ReleasePlan, job: Path) -> ReleasePages:
        from dpcore.query.page import ReleasePages

        origin = provenance_of(plan, plan.job.input.path, plan.job.output.path, job)
        return ReleasePages(folder, plan.output.stem, plan.output if isinstance(plan.output, Path) else None, provenance=origin)

    def found(self, result: Document) -> Document:
        return result

    def stored(self, plan: ReleasePlan) -> Document:
        try:
            document: Document = json.loads(bytes_of(plan.output))
        except StorageError:
            raise
        except (OSError, ValueError) as error:
            raise StorageError(f"cannot read {plan.output}{reason(error)}") from None
        return document

    def print_plan(self, plan: ReleasePlan, *, as_json: bool) -> None:
        from dpcore.jobs.commands import release_text

        if as_json:
            click.echo(json_text(plan_document(plan)))
            return
        ends = [
            release_text.ERRORS,
            *release_text.open_cells(plan),
            "",
            words.budget(plan.job),
            statement(plan.job),
            spent_again(plan),
            words.DRY_RUN,
        ]
        print_table(release_text.describe(plan) + "\n", release_text.query_table(plan), "\n".join(ends))

    def print_new(self, plan: ReleasePlan, found: Document, *, as_json: bool) -> None:
        self.print_stored(plan, found, as_json=as_json)
        for estimator in plan.estimators:
            if estimator.table is not None:
                echo(f"{estimator.section.output}: synthetic rows of {estimator.section.name!r}", err=True)
        echo(f"{plan.output}: {len(plan.estimators)} quer{'ies' if len(plan.estimators) > 1 else 'y'} answered", err=True)
        echo(f"spent {statement(plan.job)}", err=True)
        echo(spent_again(plan), err=True)
        if "commitment" in found:
            echo(f"commitment {found['commitment']['hmac_sha256']}\n{CONFIDENTIAL.format(path=self._commit)}", err=True)

    def print_stored(self, plan: ReleasePlan, found: Document, *, as_json: bool) -> None:  # noqa: ARG002
        from dpcore.jobs.commands import answers_text

        if as_json:
            click.echo(json_text(found))
            return
        print_table(answers_text.answer_table(found), *answers_text.notes(found))


def _release(plan: ReleasePlan, **options: Any) -> Document:
    """Run a plan; what only a run needs is loaded now."""
    with Deferred():
        from dpcore.query.run import run as release
    return release(plan, **options)


def run(*, commit: str | None = None, public_randomness: str | None = None, **options: Any) -> None:
    """Run or describe a job; `commit` is its key file, of a release that can be replayed."""
    _Release(commit, public_randomness).run(**options)


def commit_only(commit: str, job: Path, *, source: str | None, target: str | None, given: Sequence[str], as_json: bool | None) -> None:
    """Make the key file of a job, and print its commitment."""
    from dpcore.query.written_plans import deposit

    said = deposit(load_release_job(job, settings=Settings.read(given, source=source, target=target)), commit)
    if wants_json(as_json):
        click.echo(json_text(said))
    else:
        code = said["code"]
        version = f"{code['version']}, stream {code['stream_version']}, {code['sha256']}"
        echo(f"commitment  {said['commitment']}\nrun         {said['run']}\ncode        {version}")
    echo(f"{CONFIDENTIAL.format(path=commit)}\n{DEPOSIT}", err=True)
