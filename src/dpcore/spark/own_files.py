"""Outputs in dpcore's own files, on a file system that all machines of the job share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcore.jobs.privatize_plan import spend_of
from dpcore.spark import settings
from dpcore.spark.file_tasks import ANSWER_DDL, FileTask
from dpcore.spark.folders import AcceptedAttempts, FolderPublication, check_folder
from dpcore.spark.noise_plans import NoisePlan, Written
from dpcore.spark.output_places import check_address_is_apart, check_folder_is_apart, qualified
from dpcore.spark.reading import TABLE
from dpcore.spark.snapshots import pinned
from dpcore.spark.watching import watched
from dpcore.spark.workers import check_workers, stamp
from dpcore.tables.local_paths import SCHEME
from dpcore.tables.output import metadata
from dpcore.tables.output.charge import Charge

if TYPE_CHECKING:
    from dpcore.rng import JobKey
    from dpcore.spark.sinks import Sink
    from dpcore.tables.progress import Shown


def write_files(plan: NoisePlan, sink: Sink, progress: Shown, publication: FolderPublication | None = None) -> Written:
    """Run a job whose tasks write one file each; the folder gets its name when all of them are accepted.

    Parameters
    ----------
    plan : NoisePlan
        What is written.
    sink : Sink
        And where: on a file system of this machine.
    progress : callable or Progress, optional
        Shows it.
    publication : FolderPublication, optional
        The commit of the job, for a caller that follows it. Default: one of its own.

    Raises
    ------
    JobError
        If the output exists, or the ledger has this run already.
    BudgetError
        If the ledger does not have what the job spends.
    DataError
        If a cell is missing or unknown, and the job declares nothing for it.
    StorageError
        If the input changes or the output cannot be written. Nothing has the final name then.
    """
    job, place = sink.job, Path(sink.path)
    publication = published_by(plan, sink) if publication is None else publication
    charge = publication.charge
    if charge.earlier is None:
        check_folder(place, overwrite=sink.overwrite)
    workers = check_workers(plan.session)
    snapshot = pinned(plan.frame)
    said = metadata.sidecar(job, plan.columns)
    with publication.truth(), publication, plan.key() as key:
        folder = publication.open_folder(is_private=workers.have_own_user)
        publication.reserve()
        needs_digest = charge.is_recorded or sink.format == "csv"
        noise = FileTask(plan.noise(key), plan.types, str(folder.spill.absolute()), sink.format, sink.compression, stamp(), needs_digest)
        answers, covers = _run(plan, noise, key, progress)
        snapshot.check(plan.frame)
        files = answers.gathered(folder, plan.schema, sink.format, sink.compression, said)
        publication.publish([folder.seal(files)])
    count = sum(not name.endswith(metadata.SIDECAR) for name in files)
    return Written(str(place), answers.rows, count, job.total, job.secure, covers, charge.entry)


def published_by(plan: NoisePlan, sink: Sink) -> FolderPublication:
    """The commit of a write."""
    return FolderPublication([Path(sink.path)], charged(plan, sink), overwrite=sink.overwrite)


def charged(plan: NoisePlan, sink: Sink, *, is_repeatable: bool = True) -> Charge:
    """The charge of a write to the ledger of its job, whose disk must outlive the driver, and which the output must not replace."""
    names = pinned(plan.frame).files
    if SCHEME.match(sink.path) is None and not sink.path.startswith(TABLE):
        check_folder_is_apart(Path(sink.path), sink.job, names)
    else:
        check_address_is_apart(qualified(plan.session, sink.path), names)
    if sink.job.ledger is not None:
        settings.check_durable(plan.session, sink.job.ledger.path)
    # A run that the ledger does not know again is a new one each time.
    return Charge(sink.job, spend_of(sink.job), overwrite=sink.overwrite or not is_repeatable, is_repeatable=is_repeatable)


def _run(plan: NoisePlan, task: FileTask, key: JobKey, progress: Shown) -> tuple[AcceptedAttempts, bool]:
    rows, covers = plan.rows(key)

    def work(batches: Any) -> Any:
        return task(batches)

    found = watched(plan.session, lambda: rows.mapInArrow(work, ANSWER_DDL).collect(), progress, "privatising")
    return AcceptedAttempts(found), covers
