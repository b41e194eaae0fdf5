"""What `dpcore init` does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcore._disk.addresses import argument
from dpcore._terminal import echo
from dpcore.errors import JobError, StorageError, reason
from dpcore.jobs.commands import draft
from dpcore.jobs.loading import OPEN
from dpcore.tables.discovery import discover
from dpcore.tables.local_paths import check_local
from dpcore.tables.places import output_place

if TYPE_CHECKING:
    from collections.abc import Sequence

NEEDS_CURATOR = (
    "{path}: the names of a CSV are its first line, which is a row of data if the file has no header. If it has one, and you may see the "
    "data, give --curator"
)


MADE_UP = 10_000
"""Rows of a made-up table, if nothing else is said."""


def run(
    path: str,
    kind: str,
    job: Path | None,
    *,
    curator: bool,
    table: Path | None = None,
    rows: int | None = None,
    each: int | None = None,
    joined: str | None = None,
    given: Sequence[str] = (),
) -> None:
    """Print or write a draft, or make a table for a job; the entry point turns errors into exit codes."""
    if table is not None:
        make_table(Path(path), table, MADE_UP if rows is None else rows, each, joined, given)
        return
    inputs = discover(path, None, "FILE")
    info = inputs.inspect(inputs.paths[0])
    if info.types is None and not curator:
        raise JobError(NEEDS_CURATOR.format(path=inputs.paths[0]))
    columns = dict.fromkeys(info.names) if info.types is None else info.types
    text = draft.job_for(path, inputs.format, columns, kind)
    if job is None:
        click.echo(text, nl=False)
        return
    _write("--job", job, text.encode())
    echo(f"{job}: fill in each {OPEN}, then try: dpcore {kind} {argument(job)} --dry-run", err=True)


def make_table(path: Path, table: Path, rows: int, each: int | None, joined: str | None, given: Sequence[str]) -> None:
    """Write a made-up table for a job."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dpcore.jobs.release_job import load_release_job
    from dpcore.jobs.settings import Settings
    from dpcore.query.rehearsal import made_up_table

    if table.suffix.lower() != ".parquet":
        raise JobError(f"--table {str(table)!r} must end in .parquet")
    job = load_release_job(path, settings=Settings.read(given))
    if each is not None and job.privacy.unit == "row":
        raise JobError(f"--rows-per-unit {each} is for jobs whose privacy.unit is a column, and this one protects rows; leave it out")
    made = made_up_table(job, rows, each or (1 if joined is not None else job.privacy.max_rows_per_unit) or 1, joined)
    sink = pa.BufferOutputStream()
    pq.write_table(made, sink)
    _write("--table", table, sink.getvalue().to_pybytes())
    stands = argument(table) if joined is None else argument(f"{joined}={table}")
    echo(f"{table}: {rows:,} made-up rows, then try: dpcore rehearse {argument(path)} --on {stands} --public", err=True)


def _write(key: str, path: Path, content: bytes) -> None:
    """Write a file that does not exist yet."""
    check_local(key, str(path))
    place = Path(str(output_place(path, key)))
    try:
        with place.open("xb") as file:
            file.write(content)
    except FileExistsError:
        raise JobError(f"{key} {str(path)!r} exists; name another file") from None
    except OSError as error:
        raise StorageError(f"cannot write {path}{reason(error)}") from None
