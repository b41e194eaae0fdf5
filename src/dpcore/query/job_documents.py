"""What a job was made of, as JSON: dates and times of TOML, which JSON lacks, are written as their text."""

from __future__ import annotations

import datetime as dt
import math
import tomllib
from collections.abc import Mapping
from typing import Any

from dpcore.errors import JobError

TOML = "toml"
"""The one key of a table that stands for a date or time."""


def as_json(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a job as JSON has it.

    Parameters
    ----------
    document : mapping
        As `tomllib` gives it.

    Raises
    ------
    JobError
        If it holds something that TOML does not have.
    """
    return {str(key): _as_json(value, str(key)) for key, value in document.items()}


def _as_json(value: Any, place: str) -> Any:
    match value:
        case dict() if value.keys() != {TOML}:
            return {str(key): _as_json(each, f"{place}.{key}") for key, each in value.items()}
        case list() | tuple():
            return [_as_json(each, place) for each in value]
        case dt.datetime() | dt.date() | dt.time():
            return {TOML: value.isoformat()}
        case None | bool() | str():
            return value
        case int():
            return int(value)
        case float() if math.isfinite(value):
            return float(value)
    raise JobError(f"{place} has a value of type {type(value).__name__}, which no job file can have: a key file holds its job as one")


def from_json(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document that `as_json` has written."""
    return {key: _from_json(value) for key, value in document.items()}


def _from_json(value: Any) -> Any:
    match value:
        case dict() if value.keys() == {TOML}:
            return tomllib.loads(f"value = {value[TOML]}")["value"]
        case dict():
            return {key: _from_json(each) for key, each in value.items()}
        case list():
            return [_from_json(each) for each in value]
    return value
