"""Which files an input is: one, a folder, what a glob matches, a table in shards or of Delta Lake; here or in a store."""

from __future__ import annotations

import fnmatch
import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore._disk import stores
from dpcore._disk.addresses import Address
from dpcore.errors import JobError, StorageError, reason
from dpcore.tables.formats.logs import check_no_log, check_no_log_in
from dpcore.tables.inputs import Inputs
from dpcore.tables.local_paths import address_of, check_local
from dpcore.tables.objects import named_objects, pattern_of
from dpcore.tables.output.shards import is_manifest, named_shards, shards_of
from dpcore.tables.partitions import is_hidden, partitioned, without_values
from dpcore.tables.sections import SUFFIXES
from dpcore.tables.sources import place_of, version_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dpcore._disk.addresses import Location
    from dpcore._disk.stores import ObjectVersion
    from dpcore.tables.partitions import Found
    from dpcore.tables.sections import Format, InputSection
    from dpcore.tables.sources import InputFile, Version

OF_OTHER_PROGRAMS = {".xlsx", ".xls", ".xlsm", ".ods", ".sas7bdat", ".sav", ".dta", ".rds", ".json", ".jsonl", ".db", ".sqlite"}
"""Endings of tables that are saved in another format first."""


def discover(path: str, given: Format | None = None, key: str = "input.path", declared: Mapping[str, str] | None = None) -> Inputs:
    """Find files: one, every file of a folder and its subfolders, what a glob matches, or the shards that a manifest names.

    Names that start with "." or "_" inside a folder are not data (they are what Spark and others leave there). Unless the format is
    given the endings decide, and they must agree. Links are followed, and each file is read once. Folders named `column=value` below what
    the path names are columns. An address of a store names an object, all below a prefix, or what a glob matches.

    Parameters
    ----------
    path : str
        A file, a folder, a glob or a manifest, or such an address.
    given : Format, optional
        Of all files.
    key : str, default "input.path"
        What messages call the path.
    declared : mapping of str to str, optional
        What a job says of the values of columns, "text" or "integer", for those that are names of folders.

    Raises
    ------
    JobError
        If the format is unknown, a file would be read twice, is no regular file, or belongs to a table with a log.
    DataError
        If a shard of a table is missing, or not the one that its manifest names.
    StorageError
        If there is nothing to read.
    """
    address = address_of(key, path)
    root = _root_of_delta(Path(path) if address is None else address)
    if root is not None:
        return _delta(root, given, key)
    found = _named(path, given, key) if address is None else _objects(address, given, key)
    if not found:
        raise StorageError(f"{key} = {path!r}: no {given or 'parquet, csv or arrow'} file found")
    names, columns = partitioned(found, declared or {})
    versions = tuple(map(version_of, names))
    for _ in named_shards(map(place_of, names)):
        pass  # Every table in shards is complete.
    check_read_once(names, versions)
    check_no_log(place for place in map(place_of, names) if isinstance(place, Path))
    files = [name for name, _, _ in found]
    return Inputs(given or _common_format(path, key, files), tuple(names), dict(zip(names, versions, strict=True)), columns=columns)


def _root_of_delta(root: Location) -> Location | None:
    """The folder of a table of Delta Lake, if that is what is named and what reads its log is installed."""
    from dpcore.tables.formats.delta import LOG, is_installed

    if not is_installed():
        return None
    try:
        log = stores.kind(root.below(LOG)) == "folder" if isinstance(root, Address) else (root / LOG).is_dir()
    except (OSError, ValueError) as error:  # What is wrong with the path is said where it is read.
        if isinstance(error, StorageError):
            raise
        return None
    return root if log else None


def _delta(root: Location, given: Format | None, key: str) -> Inputs:
    """The files that count in a table of Delta Lake."""
    from dpcore.tables.formats.delta import delta_files

    if given not in {None, "parquet"}:
        raise JobError(f"{key} = {str(root)!r} is a table of Delta Lake, whose files are Parquet, and input.format says {given!r}")
    check_no_log([root]) if isinstance(root, Path) else check_no_log_in(root, [])
    names, columns = delta_files(root)
    if not names:
        raise StorageError(f"{key} = {str(root)!r}: this table of Delta Lake has no rows")
    return Inputs("parquet", tuple(names), {name: version_of(name) for name in names}, columns=columns)


def _objects(address: Address, given: Format | None, key: str) -> list[Found]:
    """The objects that an address names, in their order."""
    if is_manifest(address.name):
        return [(shard.path, (), str(address.parent)) for shard in shards_of(address)]
    return named_objects(address, key, () if given else tuple(SUFFIXES))


def _named(path: str, given: Format | None, key: str) -> list[Found]:
    """The files that a path names, in their order."""
    root = Path(path)
    try:
        folder, there = root.is_dir(), root.exists()
    except (OSError, ValueError) as error:  # A ValueError is how a name with a zero in it is refused.
        raise StorageError(f"{key} = {path!r}: cannot be read{reason(error)}") from None
    if folder:
        return [(file, file.relative_to(root).parts[:-1], str(root)) for file in _files_below(root, given)]
    if there:
        return [(each, (), str(root.parent)) for each in ([shard.path for shard in shards_of(root)] if is_manifest(root) else [root])]
    if not glob.has_magic(path):
        raise StorageError(f"{key} = {path!r}: no such file or folder")
    # Path.glob takes no absolute pattern. "**" may find one name more than once.
    names = {os.path.normpath(name) for name in glob.iglob(path, recursive=True)}  # noqa: PTH207
    parts = Path(os.path.normpath(path)).parts
    fixed = next(place for place, part in enumerate(parts) if glob.has_magic(part))
    above = str(Path(*parts[:fixed]))
    files = _sorted(Path(name) for name in names if not os.path.isdir(name))  # noqa: PTH112
    return [(file, file.parts[fixed:-1], above) for file in files]


def _files_below(root: Path, wanted: Format | None) -> list[Path]:
    found: list[Path] = []
    seen: dict[tuple[int, int], str] = {}
    for folder, subfolders, names in os.walk(root, followlinks=True, onerror=_refuse_folder):
        state = Path(folder).stat()
        before = seen.setdefault((state.st_dev, state.st_ino), folder)
        if before != folder:
            one, two = (Path(root, *without_values(Path(each).relative_to(root).parts)) for each in (folder, before))
            raise JobError(f"{one} and {two} are one folder, whose rows would be read twice; remove the link, or name what to read")
        subfolders[:] = sorted(name for name in subfolders if not is_hidden(name))
        found += [Path(folder, name) for name in names if not name.startswith((".", "_"))]
    if wanted is None:
        found = [path for path in found if path.suffix.lower() in SUFFIXES]
    return _sorted(found)


def _sorted(paths: Iterable[Path]) -> list[Path]:
    """Paths in their own order, which two of them would compare in Python."""
    return sorted(paths, key=lambda path: path.parts)


def check_read_once(paths: list[InputFile], found: tuple[Version | ObjectVersion, ...]) -> None:
    """Raise `JobError` if two names are of one file: each of its rows would be in the output twice, at the price of once."""
    seen: dict[object, InputFile] = {}
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
    check_local(key, path)
    found = discover(path, None, key)
    if found.paths != (Path(path),):
        raise JobError(f"{key} = {path!r} must be one file by its own name, and no folder, glob or manifest")
    return found


def _refuse_folder(error: OSError) -> None:
    raise StorageError(f"cannot read the folder {error.filename}: {error.strerror}")


def _common_format(path: str, key: str, paths: list[Path | Address]) -> Format:
    endings = sorted({file.suffix.lower() for file in paths})
    if len(endings) > 1 or endings[0] not in SUFFIXES:
        takes_format = key.rpartition(".")[2] == "path" and (key.startswith("input") or "join" in key)
        if not SUFFIXES.keys() & set(endings) and OF_OTHER_PROGRAMS & set(endings):
            raise JobError(f"{key} = {path!r}: dpcore does not read {', '.join(map(repr, endings))}; save the table as CSV or Parquet")
        said = f"; set {key.removesuffix('path')}format to one of {', '.join(map(repr, SUFFIXES.values()))}"
        remedy = said if takes_format else ""
        raise JobError(
            f"{key} = {path!r}: cannot tell the format from the ending{'s' if len(endings) > 1 else ''} "
            f"{', '.join(map(repr, endings))}{remedy or '; name files that all end in one of ' + ', '.join(SUFFIXES)}"
        )
    return SUFFIXES[endings[0]]


def check_output_is_outside(output: Path | Address, section: InputSection, key: str = "output.path", read_as: str = "input.path") -> None:
    """Raise `JobError` if the next run would read `output` as a part of its input, or of what else it reads."""
    read = address_of("input.path", section.path)
    if read is not None or isinstance(output, Address):
        inside = read is not None and isinstance(output, Address) and _is_in_store(output, read)
    else:
        root = Path(section.path)
        below = root.is_dir() and output.resolve().is_relative_to(root.resolve())
        inside = below or (glob.has_magic(section.path) and not root.exists() and _glob_matches(section.path, output))
    if inside:
        raise JobError(f"{key} = {str(output)!r} is inside the input ({read_as} = {section.path!r}); write it somewhere else")


def _is_in_store(output: Address, read: Address) -> bool:
    """Whether an object would be below a prefix that is read, or match a glob."""
    same = (output.scheme, output.bucket) == (read.scheme, read.bucket)
    return same and ((output.is_relative_to(read) and output != read) or pattern_of(read.key.split("/")).fullmatch(output.key) is not None)


def _glob_matches(pattern: str, path: Path) -> bool:
    full_pattern, full_path = (Path(os.path.normpath(Path.cwd() / each)) for each in (pattern, path))
    wanted, given = full_pattern.parts, full_path.parts
    if "**" in wanted:
        return fnmatch.fnmatch(str(full_path), str(full_pattern))
    return len(wanted) == len(given) and all(map(fnmatch.fnmatch, given, wanted))
