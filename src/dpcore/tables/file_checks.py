"""Checks of the files of every job before any row is read: what it reads and what it writes are apart, and nothing is overwritten."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpcore._disk.addresses import Address
from dpcore._disk.stores import has_bucket
from dpcore.errors import JobError
from dpcore.tables.discovery import check_output_is_outside
from dpcore.tables.output import metadata
from dpcore.tables.places import LOG, REPORT, check_distinct, ledger_places
from dpcore.tables.run_ids import canonical, declared_files
from dpcore.tables.sources import exists, place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpcore._disk.addresses import Location
    from dpcore.tables.inputs import Inputs
    from dpcore.tables.output.charge import Charge
    from dpcore.tables.places import Place
    from dpcore.tables.sections import JobFile
    from dpcore.tables.sources import InputFile


def check_inputs_are_tables(job: JobFile, inputs: Iterable[InputFile], others: Sequence[Place], key: str = "input.path") -> None:
    """Raise `JobError` if a file of the input, or of what `key` names, is also another one that the command reads.

    It comes before a file of categories is read: messages about that quote it, and what is made of it costs nothing.
    """
    check_distinct([(key, place_of(path)) for path in inputs], _read_beside(job, others))


def check_places(job: JobFile, inputs: Iterable[InputFile], written: Sequence[Place], others: Sequence[Place]) -> None:
    """Raise `JobError` if a file that the job writes is also another one of the command."""
    reports = [place for place in others if place[0] == REPORT]
    logs = [place for place in others if place[0] == LOG]
    check_distinct([*written, *reports, *logs], [*(("input.path", place_of(path)) for path in inputs), *_read_beside(job, others)])


def _read_beside(job: JobFile, others: Sequence[Place]) -> list[Place]:
    """The files that a command reads beside its input."""
    read: list[Place] = [("a file of categories or a look-up", Path(path)) for path in declared_files(canonical(job))]
    if job.ledger is not None:
        read += ledger_places(job.ledger.path)
    return [*read, *(place for place in others if place[0] not in (LOG, REPORT))]


def check_output_is_free(output: Location, *, overwrite: bool, key: str = "output.path", instead: str = "use --overwrite") -> None:
    """Raise `JobError` if the output exists already."""
    if isinstance(output, Address) and not has_bucket(output):
        raise JobError(f"{key} = {str(output)!r}: there is no such bucket")
    if not overwrite and exists(output):
        raise JobError(
            f"{key} = {str(output)!r} exists. Running the job again would spend its privacy budget a second time: two outputs "
            f"of one table together protect it only at the sum of both. If that is intended, {instead}"
        )
    sidecar = metadata.sidecar_path(output)
    if output.suffix.lower() == ".csv" and not overwrite and exists(sidecar) and not metadata.is_sidecar(sidecar):
        raise JobError(f"{str(sidecar)!r} exists, where the metadata of {key} belong, and is something else; move it, or {instead}")


def check_files(job: JobFile, inputs: Inputs, files: Sequence[Place], others: Sequence[Place]) -> None:
    """Raise `JobError` if a file that the job writes is part of its input, or another file of the command."""
    for key, path in reversed(files):
        check_output_is_outside(path, job.input, key)
    check_places(job, inputs.paths, files, others)


def check_files_are_free(files: Sequence[Place], charge: Charge, *, overwrite: bool) -> None:
    """Raise `JobError` if something stands where an output would, unless an earlier run of the same job put it there."""
    sidecars = {(key, metadata.sidecar_path(path)) for key, path in files}  # an output of its own may have such a name too
    if charge.earlier is None:
        for key, path in files:
            if (key, path) not in sidecars:
                check_output_is_free(path, overwrite=overwrite, key=key, instead=charge.to_spend_again)
