"""Where outputs may lie: never on, around or inside what the job reads, and never around its ledger. It holds with `overwrite`, too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from dpcore.errors import JobError
from dpcore.tables.discovery import check_output_is_outside
from dpcore.tables.local_paths import SCHEME
from dpcore.tables.places import ledger_places
from dpcore.tables.run_ids import canonical, declared_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from dpcore.jobs.privatize_job import Job

INPUT = "a file of the input"


def input_places(names: Iterable[str]) -> list[tuple[str, Path]]:
    """The files of this machine among those that a frame reads, which Spark names by their addresses."""
    parts = [urlsplit(name) for name in names]
    return [(INPUT, Path(unquote(part.path))) for part in parts if part.scheme in ("", "file")]


def check_folder_is_apart(folder: Path, job: Job, names: Iterable[str]) -> None:
    """Raise `JobError` if writing a folder would replace what the job reads, or its ledger, or if the next run would read the folder.

    Parameters
    ----------
    folder : Path
        The output.
    job : Job
        The job, which names its ledger and the files of its declarations.
    names : iterable of str
        Addresses of the files that the frame reads.

    Raises
    ------
    JobError
        With the file that would be replaced.
    """
    places = input_places(names)
    if SCHEME.match(job.input.path) is None:
        places.append(("input.path", Path(job.input.path)))
        check_output_is_outside(folder, job.input)
    places += [("a file of categories", Path(path)) for path in declared_files(canonical(job))]
    if job.ledger is not None:
        places += [(key, Path(str(place))) for key, place in ledger_places(job.ledger.path)]
    root = folder.resolve()
    for key, place in places:
        if place.resolve().is_relative_to(root):
            raise JobError(f"path = {str(folder)!r} is or holds {key} ({str(place)!r}), which the output would replace; name another")


def check_address_is_apart(address: str, names: Iterable[str]) -> None:
    """Raise `JobError` if a file that the frame reads is, or is below, an address that is written."""
    root = _plain(address)
    for name in names:
        found = _plain(unquote(name))
        if found == root or found.startswith(f"{root}/"):
            raise JobError(f"path = {address!r} is or holds {INPUT}, which the output would replace; name another folder")


def qualified(session: SparkSession, address: str) -> str:
    """An address with all that Hadoop adds to it, as the addresses of files that Spark reads have it; what is none stays as it is."""
    context: Any = session.sparkContext
    try:
        place = context._jvm.org.apache.hadoop.fs.Path(address)  # noqa: SLF001 - Python has no access to the file systems of Hadoop
        found: str = place.getFileSystem(context._jsc.hadoopConfiguration()).makeQualified(place).toString()  # noqa: SLF001
    except Exception:
        return address
    return found


def _plain(address: str) -> str:
    """An address without what may differ between two names of one place."""
    scheme, _, rest = address.partition(":")
    scheme = "s3" if scheme.lower() in ("s3a", "s3n") else scheme.lower()
    authority = rest[2:].partition("/")[0] if rest.startswith("//") else ""
    path = rest[2 + len(authority) :] if rest.startswith("//") else rest
    return f"{scheme}://{authority}/{'/'.join(part for part in path.split('/') if part)}"
