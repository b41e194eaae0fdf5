"""How tables in Python ask a kind of query: its methods, and the types that their arguments have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore._dataclasses import dataclass

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    Listed = Sequence[str] | Sequence[int] | Sequence[dt.date] | npt.NDArray[Any]
    Bound = float | str | dt.date | dt.time | dt.timedelta
    Points = Sequence[Bound] | Mapping[str, Bound] | npt.NDArray[Any]

KNOWN = "Take them from what you know about the subject, never from the data."
"""Where bounds, categories and grids come from."""


@dataclass(frozen=True, slots=True)
class InPython:
    """The type of a key for callers of Python, where it is another one than that of the job; its meaning is the description of the field.

    Attributes
    ----------
    annotation : str
        In a signature.
    words : str
        In a docstring.
    lists_values : bool
        Whether it lists values of a column, where text stands for dates.
    """

    annotation: str
    words: str
    lists_values: bool = False


@dataclass(frozen=True, slots=True)
class Method:
    """A method of tables that asks a query; the fields of the query say what its arguments mean.

    Attributes
    ----------
    name : str
        Its name.
    does : str
        The first line of its docstring.
    returns : str
        What is returned.
    keys : tuple of str
        The keys that are its own, in the order of the signature, between those of the cost and those of the answer.
    first : tuple of str
        Sizes, which follow the column at once.
    """

    name: str
    does: str
    returns: str
    keys: tuple[str, ...]
    first: tuple[str, ...] = ()

    def arguments(self, column: str) -> tuple[str, ...]:
        """All arguments, in order, given the key of the column: the one that needs no name."""
        return (column, *self.first, "epsilon", "weight", *self.keys, "confidence", "name")
