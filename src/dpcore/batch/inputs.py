"""Which files a job reads, and the one face that their three formats show."""

from __future__ import annotations

import fnmatch
import glob
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dpcore.batch import arrow_input, csv_input, parquet_input
from dpcore.batch.errors import JobError, StorageError
from dpcore.batch.job import SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from dpcore.batch.job import Format, InputSection
    from dpcore.batch.pieces import Cut, FileInfo, Piece


class Reader(Protocol):
    """What the module of an input format offers."""

    def inspect(self, path: Path) -> FileInfo:
        """The file's schema and, where the format says, its number of rows."""

    def pieces(self, path: Path, types: Mapping[str, pa.DataType], cut: Cut) -> Iterator[Piece]:
        """The columns of `types`, cut into batches, in the file's order."""


READERS: dict[Format, Reader] = {"parquet": parquet_input, "csv": csv_input, "arrow": arrow_input}


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files of a job with their sizes in bytes, in the order in which they are read: sorted by path."""

    format: Format
    paths: tuple[Path, ...]
    sizes: tuple[int, ...]

    @property
    def reader(self) -> Reader:
        """The module that reads the files."""
        return READERS[self.format]

    def versions(self) -> list[tuple[int, ...]]:
        """What tells each file from one that was written to since, or has taken its place."""
        found: list[tuple[int, ...]] = []
        for path in self.paths:
            try:
                state = path.stat()
                found.append((state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns))
            except OSError:
                found.append(())  # reading it says what is wrong
        return found


def discover(path: str, given: Format | None = None, key: str = "input.path") -> Inputs:
    """Find files: one, every file of a folder and its subfolders, or what a glob matches.

    Names that start with "." or "_" inside a folder are not data (they are what Spark and others leave there). Unless the format is
    given the endings decide, and they must agree.

    Parameters
    ----------
    path : str
        A file, a folder or a glob.
    given : Format, optional
        Of all files.
    key : str, default "input.path"
        What messages call the path.

    Raises
    ------
    JobError
        If the format cannot be told.
    StorageError
        If there is nothing to read.
    """
    root = Path(path)
    if root.is_file():
        paths = [root]
    elif root.is_dir():
        paths = _files_below(root, given)
    elif glob.has_magic(path):
        # Path.glob takes no absolute pattern.
        paths = [found for found in map(Path, sorted(glob.glob(path, recursive=True))) if found.is_file()]  # noqa: PTH207
    else:
        raise StorageError(f"{key} = {path!r}: no such file or folder")
    if not paths:
        raise StorageError(f"{key} = {path!r}: no {given or 'parquet, csv or arrow'} file found")
    sizes = tuple(found.stat().st_size for found in paths)
    return Inputs(given or _common_format(path, key, paths), tuple(paths), sizes)


def _files_below(root: Path, wanted: Format | None) -> list[Path]:
    found: list[Path] = []
    for folder, subfolders, names in os.walk(root, onerror=_refuse_folder):
        subfolders[:] = [name for name in subfolders if not name.startswith((".", "_"))]
        found += [Path(folder, name) for name in names if not name.startswith((".", "_"))]
    if wanted is None:
        found = [path for path in found if path.suffix.lower() in SUFFIXES]
    return sorted(found)


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


def check_output_is_not_input(output: Path, section: InputSection, inputs: Inputs, key: str = "output.path") -> None:
    """Raise `JobError` if writing `output` would destroy the input or make the next run read it."""
    target = output.resolve()
    same = any(path.resolve() == target or (output.exists() and path.samefile(output)) for path in inputs.paths)
    root = Path(section.path)
    below = root.is_dir() and target.is_relative_to(root.resolve())
    if same or below or (glob.has_magic(section.path) and not root.exists() and _glob_matches(section.path, output)):
        raise JobError(
            f"{key} = {str(output)!r} is {'the input itself' if same else 'inside the input'} "
            f"(input.path = {section.path!r}); write it somewhere else"
        )


def _glob_matches(pattern: str, path: Path) -> bool:
    full_pattern, full_path = (Path(os.path.normpath(Path.cwd() / each)) for each in (pattern, path))
    wanted, given = full_pattern.parts, full_path.parts
    if "**" in wanted:
        return fnmatch.fnmatch(str(full_path), str(full_pattern))
    return len(wanted) == len(given) and all(map(fnmatch.fnmatch, given, wanted))
