"""Series of pandas, which is not a dependency: they are recognised by their methods."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar


class Series(Protocol):
    """One-dimensional data with labels, such as `pandas.Series`."""

    @property
    def index(self) -> Any:
        """Labels of the values."""

    @property
    def iloc(self) -> Any:
        """Access by position."""

    def to_frame(self) -> Any:
        """Return a table with one column."""


SeriesT = TypeVar("SeriesT", bound=Series)


def is_series(values: object) -> bool:
    """Whether this is a Series; data frames, indexes and arrays are not."""
    kind = type(values)
    return hasattr(kind, "iloc") and hasattr(kind, "to_frame")


def like(values: Any, result: Any) -> Any:
    """Return `result`, an array with one entry for each value, as a Series with the index and name of `values` if that is a Series."""
    if not is_series(values):
        return result
    make = getattr(values, "_constructor", type(values))  # a subclass may have another constructor
    return make(result, index=values.index, name=values.name, copy=False)
