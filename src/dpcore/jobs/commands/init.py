"""What `dpcore init` does."""

from __future__ import annotations

from pathlib import Path

import click

from dpcore._disk.addresses import argument
from dpcore._terminal import echo
from dpcore.errors import JobError, StorageError, reason
from dpcore.jobs.commands import draft
from dpcore.jobs.loading import OPEN
from dpcore.tables.inputs import discover
from dpcore.tables.local_paths import check_local
from dpcore.tables.places import output_place

NEEDS_CURATOR = (
    "{path}: the names of a CSV are its first line, which is a row of data if the file has no header. If it has one, and you may see the "
    "data, give --curator"
)


def run(path: str, kind: str, job: Path | None, *, curator: bool) -> None:
    """Print or write a draft; the entry point turns errors into exit codes."""
    inputs = discover(path, None, "FILE")
    info = inputs.inspect(inputs.paths[0])
    if info.types is None and not curator:
        raise JobError(NEEDS_CURATOR.format(path=inputs.paths[0]))
    columns = dict.fromkeys(info.names) if info.types is None else info.types
    text = draft.job_for(path, inputs.format, columns, kind)
    if job is None:
        click.echo(text, nl=False)
        return
    check_local("--job", str(job))
    place = Path(str(output_place(job, "--job")))
    try:
        with place.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise JobError(f"--job {str(job)!r} exists; name another file") from None
    except OSError as error:
        raise StorageError(f"cannot write {job}{reason(error)}") from None
    echo(f"{job}: fill in each {OPEN}, then try: dpcore {kind} {argument(job)} --dry-run", err=True)
