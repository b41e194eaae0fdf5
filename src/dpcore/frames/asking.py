"""From a call of a method to the `[[query]]` of a job that it stands for."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol

import numpy as np

if TYPE_CHECKING:
    from dpcore.frames.results import TableResult

Parameters = ParamSpec("Parameters")
NAMED = {"top": "top_s"}
"""Kinds of queries whose methods have another name."""


class Asked(Protocol):
    """Answers queries."""

    def _asked(self, entry: dict[str, Any]) -> TableResult:
        """The answer to a query."""


def asks(method: Callable[Parameters, TableResult]) -> Callable[Parameters, TableResult]:
    """Make a method ask the query of its name; the arguments that are given are its keys."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def asked(*args: Parameters.args, **kwargs: Parameters.kwargs) -> TableResult:
        bound = signature.bind(*args, **kwargs)
        _, *given = bound.arguments.items()
        table: Asked = bound.arguments["self"]
        return table._asked(entry_of(method.__name__, dict(given)))  # noqa: SLF001

    return asked


def entry_of(method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The `[[query]]` of a call; what is None is not given."""
    return {"kind": NAMED.get(method, method), **{key: plain(value) for key, value in arguments.items() if value is not None}}


def plain(value: Any) -> Any:
    """A value as a job file has it: lists and numbers of Python."""
    if isinstance(value, str | bytes | int | float):
        return value
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, range):
        return list(value)
    for name in ("tolist", "to_list", "to_pylist"):  # arrays of NumPy, Series and indices of pandas and polars, arrays of Arrow
        listed = getattr(value, name, None)
        if callable(listed):
            return listed()
    return value
