"""The kinds of queries: this list, and a file for each, are all that a new one needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcore.batch.release.kinds.count import Count
from dpcore.batch.release.kinds.count_distinct import CountDistinct
from dpcore.batch.release.kinds.groups import Groups
from dpcore.batch.release.kinds.histogram import Histogram
from dpcore.batch.release.kinds.mean import Mean
from dpcore.batch.release.kinds.moments import Covariance, Deviation, Spread
from dpcore.batch.release.kinds.quantile import Quantile
from dpcore.batch.release.kinds.sum import Sum
from dpcore.batch.release.kinds.synthetic import Synthetic
from dpcore.batch.release.kinds.top import Top

if TYPE_CHECKING:
    from dpcore.batch.release.kinds.base import Kind
    from dpcore.batch.release.queries import Query

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


def kind_of(query: Query) -> Kind:
    """The kind of a query."""
    return KINDS[query.kind]
