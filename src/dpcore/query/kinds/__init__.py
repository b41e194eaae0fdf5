"""The kinds of queries: a line of `FILES`, and a file for each, are all that a new one needs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from dpcore.query.kinds.base import Kind
    from dpcore.query.query_sections import QuerySection

FILES: dict[str, dict[str, str | None]] = {
    "count.Count": {"count": "count"},
    "count_distinct.CountDistinct": {"count_distinct": "count_distinct"},
    "histogram.Histogram": {"histogram": "histogram"},
    "sum.Sum": {"sum": "sum"},
    "mean.Mean": {"mean": "mean"},
    "geometric_mean.GeometricMean": {"geometric_mean": "geometric_mean"},
    "moments.Spread": {"var": "var"},
    "moments.Deviation": {"std": "std"},
    "covariance.Covariance": {"covariance": "covariance"},
    "quantile.Quantile": {"quantile": "quantile", "median": "median"},
    "top.Top": {"top_s": "top"},
    "mode.Mode": {"mode": "mode"},
    "rate.Rate": {"rate": "rate"},
    "running_total.RunningTotal": {"running_total": None},
    "groups.Groups": {"groups": None},
    "synthetic.Synthetic": {"synthetic": None},
}
"""The file and the class of each kind, with the words that jobs have for it, each with the method of tables that asks it.

These are names alone: a process imports the kinds that it asks, and no others.
"""
METHODS: dict[str, str] = {method: path for path, words in FILES.items() for method in words.values() if method is not None}
"""The kind that each method of tables asks, by its file and class."""
Made = TypeVar("Made")


def kind_at(path: str) -> Kind:
    """The kind of a file and class."""
    file, _, name = path.partition(".")
    kind: Kind = getattr(importlib.import_module(f"{__name__}.{file}"), name)()
    return kind


def kind_of(query: QuerySection) -> Kind:
    """The kind of a query."""
    return KINDS[query.kind]


class ByWord(Mapping[str, Made]):
    """What each kind has, by the words that jobs have for it; a kind is imported when it is looked up."""

    def __init__(self, of: Callable[[Kind, str], Made]) -> None:
        self._of = of
        self._found: dict[str, Made] = {}

    def __getitem__(self, word: str) -> Made:
        if word not in self._found:
            path = next((path for path, words in FILES.items() if word in words), None)
            if path is None:
                raise KeyError(word)
            self._found[word] = self._of(kind_at(path), word)
        return self._found[word]

    def __contains__(self, word: object) -> bool:
        return any(word in words for words in FILES.values())

    def __iter__(self) -> Iterator[str]:
        return (word for words in FILES.values() for word in words)

    def __len__(self) -> int:
        return len([word for words in FILES.values() for word in words])  # `sum` is a file here


def _fields(kind: Kind, word: str) -> type[QuerySection]:
    return kind.fields[kind.names.index(word)]


def _itself(kind: Kind, _word: str) -> Kind:
    return kind


KINDS: Mapping[str, Kind] = ByWord(_itself)
QUERY_SECTIONS: Mapping[str, type[QuerySection]] = ByWord(_fields)
"""The keys of a `[[query]]`, by its kind."""
