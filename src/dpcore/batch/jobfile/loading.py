"""Reads job files: TOML of bounded size, which is checked before it is used as a job."""

from __future__ import annotations

import re
import tomllib
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dpcore.errors import JobError, ParameterTypeError, StorageError, reason

if TYPE_CHECKING:
    from collections.abc import Callable

Parsed = TypeVar("Parsed")
MAX_JOB_BYTES = 16 << 20
MAX_KEY_PARTS = 32
LONG_KEY = re.compile(rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{MAX_KEY_PARTS}}}""")


def _toml(path: str | Path, content: bytes) -> dict[str, Any]:
    """Parse what is small enough for `tomllib`, whose time grows with the square of a key's parts, and whose calls nest as values do."""
    if len(content) > MAX_JOB_BYTES:
        raise JobError(f"{path} has more than {MAX_JOB_BYTES >> 20} MiB; put long lists of categories into a categories_file")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise JobError(f"{path} is not UTF-8 text, as TOML must be") from None
    if LONG_KEY.search(text):
        raise JobError(f"{path} is not a valid job: a dotted key has more than {MAX_KEY_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise JobError(f"{path} is not a valid job: its lists or tables are nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"{path} is not valid TOML: {error}{_twice(text)}") from None
    except ValueError:  # an integer of thousands of digits
        raise JobError(f"{path} is not a valid job: a number is too long") from None


def _twice(text: str) -> str:
    """What to write in place of several tables [column] or [query]."""
    for name in ("column", "query", "derive", "lookup"):
        if len(re.findall(rf"^[ \t]*\[[ \t]*{name}[ \t]*\]", text, re.MULTILINE)) > 1:
            return f"; write [[{name}]], with double brackets, above each {name}"
    return ""


def load(path: str | Path, parse: Callable[[dict[str, Any]], Parsed]) -> Parsed:
    """Read a TOML file and hand it to `parse`, whose `JobError` then names the file."""
    if not isinstance(path, str | PathLike):
        raise ParameterTypeError(f"path must be that of a job file, a str or Path, got {path!r}")
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_JOB_BYTES + 1)
    except OSError as error:
        raise StorageError(f"cannot read the job file {path}{reason(error)}") from None
    document = _toml(path, content)
    try:
        return parse(document)
    except JobError as error:
        raise JobError(f"{path} is not a valid job:\n{error}") from None
