"""Checks of every job before any row is read: its columns, its unit, its files, and its messages."""

from __future__ import annotations

import reprlib
from collections import Counter
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from dpcore.errors import JobError, ParameterTypeError
from dpcore.tables.mistakes import Keys, Mistake, MistakesError
from dpcore.tables.near_names import suggestion
from dpcore.tables.types.plain import unit_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dpcore.tables.pieces import FileInfo
    from dpcore.tables.sections import JobFile
    from dpcore.tables.sources import InputFile

Wanted = TypeVar("Wanted")
LISTED_FOR_CURATORS = "If you may see the data, --curator lists the columns"


def check_is(name: str, value: object, kind: type[Wanted], made_by: str) -> Wanted:
    """Return `value` if it is of a kind, else raise `ParameterTypeError` that says how such an object is made."""
    if not isinstance(value, kind):
        raise ParameterTypeError(f"{name} must be a {kind.__name__}, which {made_by} makes, got {reprlib.repr(value)}")
    return value


def check_names(info: FileInfo, path: InputFile, wanted: Iterable[str], *, curator: bool = False) -> None:
    """Raise `JobError` if the file lacks one of these columns, or two have one name.

    The first line of a CSV that has no header is a record. A message therefore quotes from it only names that are nearly the one that the
    job gives, unless `curator` is set.
    """
    public = info.types is not None or curator
    asked = list(wanted)
    for name, times in Counter(info.names).items():
        if times > 1:
            called = f"{times} columns are named {name!r}" if public or name in asked else "two columns have one name"
            raise JobError(f"{path}: {called}; rename all but one")
    present = set(info.names)
    for name in asked:
        if name not in present:
            guess = suggestion(name, info.names)
            if not public:
                said = f"{path}: there is no column {name!r} in the header, which is the first line."
                raise JobError(f"{said}{_separator(info.names, asked) or guess} {LISTED_FOR_CURATORS}")
            listed = ", ".join(info.names[:30]) + (", …" if len(info.names) > 30 else "")
            raise JobError(f"{path}: there is no column {name!r}.{guess} The columns are: {listed}")


def _separator(names: tuple[str, ...], asked: list[str]) -> str:
    """What to say of a CSV with another separator, which a name that the job gives shows; nothing else of the first line."""
    for separator, word in ((";", "';'"), ("\t", "tabs"), ("|", "'|'")):
        parts = {part.strip(" \"'") for name in names if separator in name for part in name.split(separator)}
        if parts & set(asked):
            return f" dpcore reads comma-separated files; this one seems to be separated by {word}: save it with commas."
    return ""


def type_of_unit(info: FileInfo, path: InputFile, unit: str, before: pa.DataType | None) -> pa.DataType:
    """Type of the unit, decoded; units are counted by equality, which floats do not have."""
    if info.types is None:
        return pa.binary()
    kind = info.types[unit]
    kind = unit_type(kind)
    kinds = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string, pa.types.is_date, pa.types.is_timestamp)
    if not any(is_kind(kind) for is_kind in kinds):
        raise JobError(f"{path}: privacy.unit = {unit!r} has type {kind}; a unit is an integer, a string, a date or a timestamp")
    if before is not None and before != kind:
        raise JobError(f"{path}: privacy.unit = {unit!r} has type {kind}, but the files before have it as {before}")
    return kind


def check_curator(job: JobFile, *, curator: bool) -> None:
    """Raise `JobError` if a job with a ledger is run with `--curator`, or one that refuses units without it."""
    if curator and job.ledger is not None:
        raise JobError(
            "--curator is for jobs without a [ledger]: what its messages say about rows is outside the guarantee that the ledger counts. "
            "To inspect the input, run a job without a ledger"
        )
    if getattr(job.privacy, "refuses_units", False) and not curator:
        raise JobError(
            "privacy.over_limit = 'refuse' needs --curator: whether some unit has too many rows is an answer about the data, outside the "
            "guarantee. With 'suppress' (the default) such rows are noised from the declared missing values"
        )


MEANT = {"missing": "a cell that is missing or does not parse", "unknown": "a cell that is no category"}
"""What the keys are about that say what stands for a cell."""


def to_declare(keys: tuple[str, ...], skipped: tuple[str, ...] = ("missing", "unknown")) -> str:
    """What to add where these keys are not given; rows with cells of the kinds `skipped` can be left out."""
    wording = [f'{key} = "skip"' if key in skipped else f"{key} = one of the possible answers" for key in keys]
    return f"add {' and '.join(wording)}" + (', or a value in place of "skip"' if set(keys) & set(skipped) else "")


def undeclared(
    path: Keys, about: str, keys: tuple[str, ...], part: str = "", skipped: tuple[str, ...] = ("missing", "unknown")
) -> JobError:
    """The error for a job with a ledger whose rows could end it; rows with cells of the kinds `skipped` can be left out."""
    advice, meant = to_declare(keys, skipped), MEANT
    text = (
        f"{' and '.join(keys)} must be declared where a ledger pays: without, a row could end the run, and whether one does "
        f"is an answer about the data. State what stands for {' and '.join(meant[key] for key in keys)}: {advice}"
    )
    return MistakesError(Mistake(path, text, about=about, part=part))
