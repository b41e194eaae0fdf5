"""The kinds of queries: a line of `FILES`, and a file for each, are all that a new one needs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Annotated, Any, Union

if TYPE_CHECKING:
    from dpcore.query.kinds.base import Kind
    from dpcore.query.query_sections import QuerySection
    from dpcore.tables.fields import Section

FILES: dict[str, tuple[str, ...]] = {
    "count.Count": ("count",),
    "count_distinct.CountDistinct": ("count_distinct",),
    "histogram.Histogram": ("histogram",),
    "sum.Sum": ("sum",),
    "mean.Mean": ("mean",),
    "geometric_mean.GeometricMean": ("geometric_mean",),
    "moments.Spread": ("var",),
    "moments.Deviation": ("std",),
    "covariance.Covariance": ("covariance",),
    "quantile.Quantile": ("quantile", "median"),
    "top.Top": ("top",),
    "mode.Mode": ("mode",),
    "rate.Rate": ("rate",),
    "groups.Groups": (),
    "synthetic.Synthetic": (),
}
"""The file and the class of each kind, with the methods of tables that ask it: names alone, so that files are imported when needed."""
METHODS: dict[str, str] = {method: path for path, methods in FILES.items() for method in methods}
"""The kind that each method of tables asks, by its file and class."""


def kind_at(path: str) -> Kind:
    """The kind of a file and class."""
    file, _, name = path.partition(".")
    kind: Kind = getattr(importlib.import_module(f"{__name__}.{file}"), name)()
    return kind


def kind_of(query: QuerySection) -> Kind:
    """The kind of a query."""
    from dpcore.query.kinds import KINDS  # not a global before it is looked up

    return KINDS[query.kind]


if TYPE_CHECKING:
    KINDS: dict[str, Kind]
    """Each kind by the words that job files have for it."""
    QUERY_SECTIONS: dict[str, type[QuerySection]]
    """The keys of a `[[query]]`, by its kind."""
    PARTS: dict[str, type[Section]]
    """Those of the tables inside of a query."""
    JobQuery = QuerySection
else:

    def __getattr__(name: str) -> Any:
        """Import all kinds when they are first looked up."""
        if name not in ("KINDS", "QUERY_SECTIONS", "PARTS", "JobQuery"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from pydantic import Field

        kinds = [kind_at(path) for path in FILES]
        sections = {word: keys for kind in kinds for word, keys in zip(kind.names, kind.fields, strict=True)}
        globals().update(
            KINDS={word: kind for kind in kinds for word in kind.names},
            QUERY_SECTIONS=sections,
            PARTS={key: part for kind in kinds for key, part in kind.parts},
            JobQuery=Annotated[Union[tuple(dict.fromkeys(sections.values()))], Field(discriminator="kind")],  # noqa: UP007
        )
        return globals()[name]
