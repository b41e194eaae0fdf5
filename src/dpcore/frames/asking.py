"""From a call of a method to the `[[query]]` of a job that it stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpcore.errors import ParameterTypeError
from dpcore.frames.calls import refused_call
from dpcore.frames.dated import TIMES
from dpcore.frames.signatures import RETURNED, Described

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from dpcore.frames.results import TableResult

BOUNDS = ("edges",)
"""Keys of a group's declaration that are no values of a column."""


class Asking(Protocol):
    """Answers queries."""

    def _asked(self, entry: dict[str, Any]) -> TableResult:
        """The answer to a query."""


class Asks:
    """A method that asks the query of its name; the arguments that are given are its keys.

    It becomes a function when it is first looked up: what kinds say of signatures is not read before.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, table: object, owner: type | None = None) -> Any:
        method = vars(self).setdefault("_method", _made(self._owner, Described.of(self._name)))  # the same one in all threads
        setattr(self._owner, self._name, method)
        return method.__get__(table, owner)


def _made(owner: type, described: Described) -> Callable[..., TableResult]:
    """The function of a method of a class."""
    signature, name = described.signature, described.method.name

    def asks(*args: Any, **kwargs: Any) -> TableResult:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            raise refused_call(name, signature, args, kwargs) from None
        _, *given = bound.arguments.items()
        table: Asking = bound.arguments["self"]
        return table._asked(entry_of(described, dict(given)))  # noqa: SLF001

    asks.__name__, asks.__qualname__, asks.__module__ = name, f"{owner.__qualname__}.{name}", owner.__module__
    asks.__doc__, asks.__dict__["__signature__"] = described.docstring, signature
    asks.__annotations__ = {each.name: each.annotation for each in described.arguments} | {"return": RETURNED}
    return asks


def entry_of(described: Described, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The `[[query]]` of a call; what is None is not given."""
    given = {key: value for key, value in arguments.items() if value is not None}
    column = given.get("column", "")
    if not isinstance(column, str):
        label = f"; the column of pandas with the label {column!r} is {str(column)!r}" if isinstance(column, int | tuple) else ""
        raise ParameterTypeError(f"column must be a str, got {type(column).__name__}{label}")
    listing = {each.name for each in described.arguments if each.lists_values}
    return {"kind": described.kind, **{key: labels(value) if key in listing else plain(value) for key, value in given.items()}}


def labels(value: Any) -> Any:
    """Declared categories, candidates or groups, with the text that stands for each date or time in a column."""
    from dpcore.tables.types.timed import copied, timed

    if isinstance(value, AbstractSet | Iterator):
        raise ParameterTypeError(f"values must be in a list, got a {type(value).__name__}; write sorted(...) or list(...)")
    listed = plain(value)
    if isinstance(listed, list) and copied(listed) is not None:
        return listed

    def label(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: label(part) for key, part in item.items()}
        return repr(timed(item)) if isinstance(item, TIMES) else item

    if isinstance(listed, dict):
        return {key: labels(item) if isinstance(item, list | dict) and key not in BOUNDS else item for key, item in listed.items()}
    return [label(item) for item in listed] if isinstance(listed, list) else listed


def plain(value: Any) -> Any:
    """A value as a job file has it: lists and numbers of Python."""
    if isinstance(value, str | bytes | int | float):
        return value
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, np.generic | np.ndarray) and value.dtype.kind in "mM":
        return _moments(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        from dpcore.tables.types.timed import copied

        same = copied(value)
        return [plain(item) for item in value] if same is None else same
    if isinstance(value, range):
        return list(value)
    for name in ("tolist", "to_list", "to_pylist"):  # arrays of NumPy, Series and indices of pandas and polars, arrays of Arrow
        listed = getattr(value, name, None)
        if callable(listed):
            return listed()
    return value


def _moments(value: np.generic | npt.NDArray[Any]) -> Any:
    """Dates, timestamps or durations of NumPy as those of Python, of which nanoseconds are no part."""
    unit = value.dtype.name.partition("[")[2].rstrip("]")
    kind = "D" if value.dtype.kind == "M" and unit in {"Y", "M", "W", "D"} else "us"
    return value.astype(f"{value.dtype.kind}8[{kind}]").tolist()
