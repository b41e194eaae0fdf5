"""Reads job files: TOML of bounded size, which is checked before it is used as a job."""

from __future__ import annotations

import hashlib
import re
import tomllib
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dpcore.errors import JobError, ParameterTypeError, StorageError, reason
from dpcore.jobs.parsing import text_keys
from dpcore.jobs.settings import Settings
from dpcore.tables.sections import JobSource, JobTables

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore.tables.mistakes import Entries

Parsed = TypeVar("Parsed", bound=JobTables)
MAX_JOB_BYTES = 16 << 20
MAX_KEY_PARTS = 32
OPEN = "???"
"""The value of a draft that the user replaces; TOML has no such value."""
UNFILLED = re.compile(r"[ \t]*[A-Za-z_]+[ \t]*=[ \t]*\?\?\?")
OF_TABLES = {".csv", ".tsv", ".txt", ".parquet", ".arrow", ".feather", ".xlsx", ".xls", ".json", ".jsonl"}
LONG_KEY = re.compile(rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{MAX_KEY_PARTS}}}""")


def _toml(path: str | Path, content: bytes) -> dict[str, Any]:
    """Parse what is small enough for `tomllib`, whose time grows with the square of a key's parts, and whose calls nest as values do."""
    if len(content) > MAX_JOB_BYTES:
        raise JobError(f"{path} has more than {MAX_JOB_BYTES >> 20} MiB; put long lists of categories into a categories_file")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise JobError(f"{path} is not UTF-8 text, as TOML must be{_of_table(path)}") from None
    if LONG_KEY.search(text):
        raise JobError(f"{path} is not a valid job: a dotted key has more than {MAX_KEY_PARTS} parts")
    _check_filled_in(path, text)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise JobError(f"{path} is not a valid job: its lists or tables are nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        advice = _of_table(path) or _twice(text) or "; text has double quotes, numbers a decimal point, and each key a line of its own"
        raise JobError(f"{path} is not valid TOML: {error}{advice}") from None
    except ValueError:  # an integer of thousands of digits
        raise JobError(f"{path} is not a valid job: a number is too long") from None


def _check_filled_in(path: str | Path, text: str) -> None:
    """Raise `JobError` if values of a draft are still open."""
    found = [(number, line) for number, line in enumerate(text.splitlines(), 1) if UNFILLED.match(line)]
    if found:
        number, line = found[0]
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        key = line.partition("=")[0].strip()
        raise JobError(
            f"{path} is a draft: {key} = {OPEN} in line {number}{more}: write what you know about the subject in place of {OPEN}"
        )


def _of_table(path: str | Path) -> str:
    """What to say where a file that is no job has the name of a table."""
    return "; a job file is expected here, and `dpcore init` drafts one for a table" if Path(path).suffix.lower() in OF_TABLES else ""


def _twice(text: str) -> str:
    """What to write in place of several tables [column] or [query]."""
    for name in ("column", "query", "derive", "lookup"):
        if len(re.findall(rf"^[ \t]*\[[ \t]*{name}[ \t]*\]", text, re.MULTILINE)) > 1:
            return f"; write [[{name}]], with double brackets, above each {name}"
    return ""


def load(
    path: str | Path, parse: Callable[[dict[str, Any]], Parsed], model: type[Parsed], entries: Entries, settings: Settings | None = None
) -> Parsed:
    """Read a TOML file, with the settings of a run, and hand it to `parse`, whose `JobError` then names the file."""
    if not isinstance(path, str | PathLike):
        raise ParameterTypeError(f"path must be that of a job file, a str or Path, got {path!r}")
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_JOB_BYTES + 1)
    except OSError as error:
        raise StorageError(f"cannot read the job file {path}{reason(error)}") from None
    document = _toml(path, content)
    wanted = Settings() if settings is None else settings
    try:
        job = parse(wanted.applied(document, text_keys(model, entries)))
    except JobError as error:
        with_settings = f", with {' and '.join(f'--set {each}' for each in wanted.written())}," if wanted.written() else ""
        raise JobError(f"{path}{with_settings} is not a valid job:\n{error}") from None
    return job.named(JobSource(str(path), hashlib.sha256(content).hexdigest(), tuple(wanted.written())))
