"""The input files of a job, and one interface to their three formats."""

from __future__ import annotations

import fnmatch
import glob
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dpcore.batch.jobfile.local_paths import check_local
from dpcore.batch.jobfile.sections import SUFFIXES
from dpcore.batch.tables import arrow_input, csv_input, parquet_input
from dpcore.batch.tables.pieces import slices
from dpcore.batch.tables.shards import is_manifest, named_shards, shards_of
from dpcore.batch.tables.sources import opened, version_of
from dpcore.errors import JobError, StorageError, reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from dpcore.batch.jobfile.sections import Format, InputSection
    from dpcore.batch.tables.pieces import Cut, FileInfo, Piece
    from dpcore.batch.tables.sources import Source, Version


class Reader(Protocol):
    """A module that reads one input format."""

    def inspect(self, source: Source) -> FileInfo:
        """The file's schema and, where the format says, its number of rows."""

    def pieces(self, source: Source, types: Mapping[str, pa.DataType], cut: Cut) -> Iterator[Piece]:
        """The columns of `types`, cut into batches, in the file's order."""


READERS: dict[Format, Reader] = {"parquet": parquet_input, "csv": csv_input, "arrow": arrow_input}


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files of a job, in the order in which they are read: sorted by path.

    Attributes
    ----------
    format : Format
        Of all of them.
    paths : tuple of Path
        Their names, each file once.
    found : dict of Path to Version
        What each was when the job was planned; a file that is another when it is read, or becomes another, ends the job.
    """

    format: Format
    paths: tuple[Path, ...]
    found: dict[Path, Version]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the files in bytes."""
        return tuple(self.found[path].size for path in self.paths)

    def inspect(self, path: Path) -> FileInfo:
        """The schema of one of the files."""
        with opened(path, self.found[path]) as source:
            return READERS[self.format].inspect(source)

    def pieces(self, path: Path, types: Mapping[str, pa.DataType], cut: Cut) -> Iterator[Piece]:
        """The columns in `types` of one of the files, in pieces of bounded rows and bytes."""
        with opened(path, self.found[path]) as source:
            for whole in READERS[self.format].pieces(source, types, cut):
                yield from slices(whole, cut.rows)


def discover(path: str, given: Format | None = None, key: str = "input.path") -> Inputs:
    """Find files: one, every file of a folder and its subfolders, what a glob matches, or the shards that a manifest names.

    Names that start with "." or "_" inside a folder are not data (they are what Spark and others leave there). Unless the format is
    given the endings decide, and they must agree. Links are followed, and each file is read once.

    Parameters
    ----------
    path : str
        A file, a folder, a glob or a manifest.
    given : Format, optional
        Of all files.
    key : str, default "input.path"
        What messages call the path.

    Raises
    ------
    JobError
        If the format is unknown, a file would be read twice, is no regular file, or belongs to a table with a log.
    DataError
        If a shard of a table is missing, or not the one that its manifest names.
    StorageError
        If there is nothing to read.
    """
    check_local(key, path)
    paths = _named(path, given, key)
    if not paths:
        raise StorageError(f"{key} = {path!r}: no {given or 'parquet, csv or arrow'} file found")
    found = tuple(map(version_of, paths))
    for _ in named_shards(paths):
        pass  # Every table in shards is complete.
    _check_read_once(paths, found)
    check_no_log(paths)
    return Inputs(given or _common_format(path, key, paths), tuple(paths), dict(zip(paths, found, strict=True)))


def _named(path: str, given: Format | None, key: str) -> list[Path]:
    """The files that a path names, in their order."""
    root = Path(path)
    try:
        folder, there = root.is_dir(), root.exists()
    except (OSError, ValueError) as error:  # A ValueError is how a name with a zero in it is refused.
        raise StorageError(f"{key} = {path!r}: cannot be read{reason(error)}") from None
    if folder:
        return _files_below(root, given)
    if there:
        return [shard.path for shard in shards_of(root)] if is_manifest(root) else [root]
    if not glob.has_magic(path):
        raise StorageError(f"{key} = {path!r}: no such file or folder")
    # Path.glob takes no absolute pattern. "**" may find one name more than once.
    names = {os.path.normpath(name) for name in glob.iglob(path, recursive=True)}  # noqa: PTH207
    return sorted(found for found in map(Path, names) if not found.is_dir())


def _files_below(root: Path, wanted: Format | None) -> list[Path]:
    found: list[Path] = []
    seen: dict[tuple[int, int], str] = {}
    for folder, subfolders, names in os.walk(root, followlinks=True, onerror=_refuse_folder):
        state = Path(folder).stat()
        before = seen.setdefault((state.st_dev, state.st_ino), folder)
        if before != folder:
            raise JobError(f"{folder} and {before} are one folder, whose rows would be read twice; remove the link, or name what to read")
        subfolders[:] = sorted(name for name in subfolders if not name.startswith((".", "_")))
        found += [Path(folder, name) for name in names if not name.startswith((".", "_"))]
    if wanted is None:
        found = [path for path in found if path.suffix.lower() in SUFFIXES]
    return sorted(found)


def _check_read_once(paths: list[Path], found: tuple[Version, ...]) -> None:
    """Raise `JobError` if two names are of one file: each of its rows would be in the output twice, at the price of once."""
    seen: dict[tuple[int, int], Path] = {}
    for path, version in zip(paths, found, strict=True):
        before = seen.setdefault(version.identity, path)
        if before != path:
            raise JobError(f"{path} and {before} are one file, whose rows would be read twice; remove the link, or name what to read")


def discover_one(path: str, key: str) -> Inputs:
    """Find a public table: one file, by its own name.

    A folder, a glob or a manifest could name files of the input, which are compared with the names that a job gives to its public tables.

    Raises
    ------
    JobError
        If it is something else, or its format is unknown.
    StorageError
        If there is nothing to read.
    """
    found = discover(path, None, key)
    if found.paths != (Path(path),):
        raise JobError(f"{key} = {path!r} must be one file by its own name, and no folder, glob or manifest")
    return found


def check_no_log(paths: Iterable[Path]) -> None:
    """Raise `JobError` for files of a table whose log says which of them still count: reading all would bring removed rows back."""
    for folder in sorted({parent for path in paths for name in (path.absolute(), path.resolve()) for parent in name.parents}):
        kind = _kind_of_log(folder)
        if kind is not None:
            raise JobError(
                f"{folder} is a table of {kind}, whose log says which files and rows still count, and dpcore does not read it; "
                "export the table, and read the export"
            )


def _kind_of_log(folder: Path) -> str | None:
    if (folder / "_delta_log").is_dir():
        return "Delta Lake"
    if (folder / ".hoodie").is_dir():
        return "Hudi"
    return "Iceberg" if any(folder.glob("metadata/*.metadata.json*")) else None


def _refuse_folder(error: OSError) -> None:
    raise StorageError(f"cannot read the folder {error.filename}: {error.strerror}")


def _common_format(path: str, key: str, paths: list[Path]) -> Format:
    endings = sorted({file.suffix.lower() for file in paths})
    if len(endings) > 1 or endings[0] not in SUFFIXES:
        remedy = f"; set input.format to one of {', '.join(map(repr, SUFFIXES.values()))}" if key == "input.path" else ""
        raise JobError(
            f"{key} = {path!r}: cannot tell the format from the ending{'s' if len(endings) > 1 else ''} "
            f"{', '.join(map(repr, endings))}{remedy or '; name files that all end in one of ' + ', '.join(SUFFIXES)}"
        )
    return SUFFIXES[endings[0]]


def check_output_is_outside(output: Path, section: InputSection, key: str = "output.path") -> None:
    """Raise `JobError` if the next run would read `output` as a part of its input."""
    root = Path(section.path)
    below = root.is_dir() and output.resolve().is_relative_to(root.resolve())
    if below or (glob.has_magic(section.path) and not root.exists() and _glob_matches(section.path, output)):
        raise JobError(f"{key} = {str(output)!r} is inside the input (input.path = {section.path!r}); write it somewhere else")


def _glob_matches(pattern: str, path: Path) -> bool:
    full_pattern, full_path = (Path(os.path.normpath(Path.cwd() / each)) for each in (pattern, path))
    wanted, given = full_pattern.parts, full_path.parts
    if "**" in wanted:
        return fnmatch.fnmatch(str(full_path), str(full_pattern))
    return len(wanted) == len(given) and all(map(fnmatch.fnmatch, given, wanted))
