"""`histogram`: rows in each declared category or bin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from dpcore._dataclasses import dataclass
from dpcore.query.encoders import Bins, Categorical
from dpcore.query.estimators import OneColumn, OneDraw, cells_in, given
from dpcore.query.fields import Confidence
from dpcore.query.kinds.base import StatisticKind
from dpcore.query.methods import Method
from dpcore.query.noise import around, integer_noise
from dpcore.query.prose import cell_names, of_column
from dpcore.query.query_sections import AddsUp, CellsSection
from dpcore.query.reads import celled, check_stand_ins
from dpcore.query.statistics import CellsOf
from dpcore.tables.fields import Name, Positive

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.mechanisms import DiscreteGaussian, DiscreteLaplace
    from dpcore.privacy import Relation
    from dpcore.query.estimators import Estimator
    from dpcore.query.kinds.base import Columns, Entry
    from dpcore.query.sensitivity import Contribution
    from dpcore.query.statistics import Statistic
    from dpcore.rng import Stream

    IntegerNoise = DiscreteLaplace | DiscreteGaussian
    Array = npt.NDArray[Any]


class HistogramQuery(CellsSection, AddsUp):
    """`kind = "histogram"`: rows for each declared category, or in each bin between declared edges."""

    kind: Literal["histogram"]
    column: Annotated[Name, Field(description="The column.")]
    epsilon: Annotated[Positive, Field(description="ε of all cells together, in (0, ∞).")] = 0.0
    confidence: Annotated[Confidence, Field(description="Of the intervals, one by one, in (0, 1). Default: 0.95.")] = 0.95


class Histogram(StatisticKind):
    """Rows in each cell, with discrete noise for all of them together."""

    names, fields = ("histogram",), (HistogramQuery,)
    methods = (
        Method(
            "histogram",
            "Count the rows of each category, or in each bin of numbers.",
            "The noisy number of rows of each cell.",
            ("delta", "categories", "categories_file", "k", "edges", "bins", "lower", "upper", "missing", "unknown"),
        ),
    )
    cells_are = "categories or bins"
    measured = "unit_of_bins"
    counts_rows = True

    def columns(self, position: int, query: HistogramQuery) -> Columns:
        return ((query.column, celled(position, query, query)),)

    def calibrate(self, query: HistogramQuery, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Estimator:  # noqa: ARG002
        """With the sensitivity of all cells of all groups: those of groups are cells too."""
        cells: Any = columns[0][1]
        check_stand_ins(query, cells, skips=True)
        return HistogramEstimator.calibrate(query, cells, bound, relation)

    def question(self, query: Entry) -> str:
        parts = "bin" if query.get("edges") is not None else "declared value"
        return f"How many rows fall into each {parts}{of_column(query)}"

    def heads(self, query: Entry) -> list[str]:
        return list(cell_names({**query, "groups": None}))

    def head(self, query: Entry) -> str:
        return str(query["column"])

    def keys(self, query: Entry) -> dict[str, list[Any]]:
        if query.get("edges") is not None:
            return {"left": list(query["edges"][:-1]), "right": list(query["edges"][1:])}
        return {str(query["column"]): list(query["categories"])}


@dataclass(frozen=True, slots=True)
class HistogramEstimator(OneColumn, OneDraw):
    """Rows in each cell, with discrete noise for the ℓ1 or ℓ2 sensitivity of all cells together."""

    section: HistogramQuery
    cells: Bins | Categorical
    mechanism: IntegerNoise

    @property
    def fewest_cells(self) -> int:
        return self.cells.size

    @property
    def numbers(self) -> int:
        return self.groups * self.cells.size

    @classmethod
    def calibrate(cls, section: HistogramQuery, cells: Bins | Categorical, bound: Contribution, relation: Relation) -> HistogramEstimator:
        """Calibrate it."""
        return cls(section, cells, integer_noise(section.epsilon, section.delta, bound.cells, relation))

    def parameters(self) -> dict[str, Any]:
        if isinstance(self.cells, Bins):
            return {"edges": list(self.cells.edges), **given(self.section, "missing")}
        return {"categories": self.cells.categories.listed(), **given(self.section, "missing", "unknown")}

    @property
    def statistic(self) -> Statistic:
        return CellsOf(self.groups, self.cells.size)

    def release_each(self, total: Array, rng: Stream | None) -> dict[str, Any]:
        return around(self.mechanism.release(cells_in(total), rng=rng, threads=1), self.mechanism, self.section.confidence)
