"""Ids of runs: a digest of what a job says, by which a ledger finds the run again and does not spend twice.

An id never changes: the job of a schedule that ran yesterday must be known today, whatever version of dpcore runs it. What is digested is
therefore a form of its own, which no name of a class and no order of fields enters:

- the word of the job, `WORD`, which is fixed for good;
- every key that has a value, by its name;
- every key that a job of version 0.1 could leave out, `EMPTY`, also where it is left out, because the ids of 0.1 had them;
- the version of the stream, and digests of the files that the job names.

A key that is added later is left out while it is empty, so it changes no id of a job that does not use it. Its default must be one of
`ABSENT`; a default that is a number would change the id of every job of 0.1.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from dpcore._disk.addresses import is_address
from dpcore.errors import StorageError, reason
from dpcore.rng import STREAM_VERSION
from dpcore.tables.types.timed import PLAIN, copied

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpcore.tables.sections import JobFile

FIRST_STREAM = 2
"""Version of the stream of dpcore 0.1, the first whose runs have ids."""
ABSENT: tuple[Any, ...] = (None, False, (), [], {})
"""Values that stand for a key that is not used."""
GROUPED = ("group_by", "groups")
CHOSEN = ("categories", "categories_file", "k")
BINS = ("edges", "bins", "lower", "upper")
STAND_INS = ("missing", "unknown")
EMPTY: dict[str, tuple[str, ...]] = {
    "": ("keep", "ledger", "testing"),
    "input": ("format", "dataset"),
    "output": ("format", "compression"),
    "privacy": ("max_rows_per_unit", "null_unit", "over_limit", "max_groups_per_unit"),
    "column": ("label", "unit_of_measure"),
    **dict.fromkeys(("column.laplace", "column.gaussian", "column.discrete_laplace", "column.discrete_gaussian"), ("missing",)),
    "column.bounded_mean": ("missing",),
    "column.binary": ("categories", *STAND_INS),
    **dict.fromkeys(("column.binary_channel", "column.kary", "column.unary", "column.subset"), (*CHOSEN, *STAND_INS)),
    **dict.fromkeys(("column.hashing", "column.hadamard", "column.projective"), (*CHOSEN, *STAND_INS)),
    "query.count": (*GROUPED, "column", "categories", "lower", "upper", "missing"),
    "query.count_distinct": (*GROUPED, "column", *CHOSEN, "max_values_per_unit"),
    "query.histogram": (*GROUPED, *CHOSEN, *BINS, *STAND_INS),
    **dict.fromkeys(("query.sum", "query.mean", "query.var", "query.std", "query.covariance"), (*GROUPED, "missing")),
    **dict.fromkeys(("query.quantile", "query.median"), (*GROUPED, "missing")),
    "query.top_s": (*GROUPED, "candidates", "candidates_file", "k", "values"),
    "query.synthetic": ("method", "marginals", "draws"),
    "query.columns": (*CHOSEN, *BINS, *STAND_INS, "integers"),
    "query.groups": ("values", "k", *BINS, "by", "first", "last", "null", "groups_file", "records"),
}
"""Keys that are digested also where they are empty, by table and kind of the table. They are those of 0.1: nothing is added."""


def run_ids(job: JobFile, folder: str = "", files: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return the ids of a run: the one of today, and those that the same run had under earlier versions of the stream, newest first.

    Two runs of one job on changed data have one id: a ledger must not reveal whether the data have changed. Declare a new version of the
    data by the name in `[input] dataset`.

    Parameters
    ----------
    job : JobFile
        The job.
    folder : str, default ""
        What its relative paths are relative to. Default: the working directory.
    files : sequence of str, optional
        `digests_of_files` of the job, if they are known. Default: those of the files as they are.

    Raises
    ------
    StorageError
        If a file that the job names cannot be read.
    """
    said = canonical(job)
    for section in ("input", "output", "ledger"):
        if said[section]:
            path = said[section]["path"]
            said[section]["path"] = _absolute(path, folder)
    for stage in (said, said.get("per_unit", {})):
        for joined in stage.get("join", ()):
            joined["path"] = _absolute(joined["path"], folder)
            if joined.get("dataset") == said["input"].get("dataset"):
                joined.pop("dataset", None)
    known = {"kind": job.WORD, "job": said, "files": _digests(said) if files is None else list(files)}
    return tuple(_digest(known | {"stream_version": stream}) for stream in range(STREAM_VERSION, FIRST_STREAM - 1, -1))


def _absolute(path: str, folder: str) -> str:
    return path if is_address(path) else str(Path(folder, path).absolute())


def digests_of_files(job: JobFile) -> list[str]:
    """SHA-256 of each file that a job names beside input, output and ledger; raises `StorageError` if one cannot be read."""
    return _digests(canonical(job))


def canonical(job: JobFile) -> dict[str, Any]:
    """What a job says, as plain values, in the form that its ids are made from."""
    said: dict[str, Any] = _section(job, "")
    if said["privacy"].get("accounting") == "basic":
        del said["privacy"]["accounting"]  # which is what a job without the key has
    for query in said.get("query", ()):
        if "weight" in query:
            del query["epsilon"]  # It follows from the other settings.
    return said


def declared_files(settings: Any) -> list[str]:
    """Files that a job names beside input, output and ledger: those of categories and candidates, and public tables."""
    return list(_named_files(settings))


def _named_files(settings: Any) -> Iterator[str]:
    if isinstance(settings, dict):
        keys = sorted(settings)
        yield from (settings[key] for key in keys if key.endswith("_file") and isinstance(settings[key], str))
        yield from (each["path"] for each in settings.get("lookup") or () if isinstance(each, dict))
        for key in keys:
            if key != "columns" or not isinstance(settings[key], dict):  # whose keys are names that a job gives
                yield from _named_files(settings[key])
    elif isinstance(settings, list):
        for value in () if set(map(type, settings)) <= PLAIN else settings:  # texts and numbers name no file
            yield from _named_files(value)


def _section(section: Any, place: str) -> dict[str, Any]:
    """A table of the job: its keys by their names, without those that are empty and were not in 0.1."""
    values = {key: getattr(section, key) for key in type(section).model_fields}
    kind = values.get("kind", values.get("mechanism"))
    written = EMPTY.get(f"{place}.{kind}" if kind else place, ())
    return {
        key: plain(value, f"{place}.{key}" if place else key) for key, value in values.items() if key in written or not _is_absent(value)
    }


def _is_absent(value: Any) -> bool:
    return any(type(value) is type(empty) and value == empty for empty in ABSENT)


def plain(value: Any, place: str) -> Any:
    """A value of a job as JSON has it.

    Parameters
    ----------
    value : Any
        What a key of a table is.
    place : str
        The table that it would be, as `EMPTY` has it.
    """
    match value:
        case BaseModel():
            return _section(value, place)
        case dict():
            return {str(key): plain(each, place) for key, each in value.items()}
        case list() | tuple():
            same = copied(value)
            return [plain(each, place) for each in value] if same is None else same
        case None | bool() | str():
            return value
        case int():
            return int(value)
        case float():
            return float(value)  # also of a date or time, which is its number
        case dt.date():
            return f"datetime.date({value.year}, {value.month}, {value.day})"
    raise AssertionError(f"{place} has a value of type {type(value).__name__}, which has no form that stays the same")


def _digests(said: Any) -> list[str]:
    """Digests of the files that a job names, which are a part of it."""
    try:
        return [hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in declared_files(said)]
    except OSError as error:
        raise StorageError(f"cannot read {error.filename}{reason(error)}") from None


def _digest(known: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
