"""The kinds of queries: this list, and a file for each, are all that a new one needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from dpcore.query.kinds.count import Count
from dpcore.query.kinds.count_distinct import CountDistinct
from dpcore.query.kinds.covariance import Covariance
from dpcore.query.kinds.groups import Groups
from dpcore.query.kinds.histogram import Histogram
from dpcore.query.kinds.mean import Mean
from dpcore.query.kinds.moments import Deviation, Spread
from dpcore.query.kinds.quantile import Quantile
from dpcore.query.kinds.sum import Sum
from dpcore.query.kinds.synthetic import Synthetic
from dpcore.query.kinds.top import Top
from dpcore.query.query_sections import QuerySection

if TYPE_CHECKING:
    from dpcore.query.kinds.base import Kind
    from dpcore.tables.fields import Section

KINDS: dict[str, Kind] = {
    name: kind
    for kind in (
        Count(),
        CountDistinct(),
        Histogram(),
        Sum(),
        Mean(),
        Spread(),
        Deviation(),
        Covariance(),
        Quantile(),
        Top(),
        Groups(),
        Synthetic(),
    )
    for name in kind.names
}
"""Each kind by the words that job files have for it."""
QUERY_SECTIONS: dict[str, type[QuerySection]] = {
    name: keys for kind in KINDS.values() for name, keys in zip(kind.names, kind.fields, strict=True)
}
"""The keys of a `[[query]]`, by its kind."""
PARTS: dict[str, type[Section]] = {key: part for kind in KINDS.values() for key, part in kind.parts}
"""Those of the tables inside of a query."""
if TYPE_CHECKING:
    JobQuery = QuerySection
else:
    JobQuery = Annotated[Union[tuple(dict.fromkeys(QUERY_SECTIONS.values()))], Field(discriminator="kind")]  # noqa: UP007


def kind_of(query: QuerySection) -> Kind:
    """The kind of a query."""
    return KINDS[query.kind]
