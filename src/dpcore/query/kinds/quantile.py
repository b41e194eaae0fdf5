"""`quantile` and `median`: points of a declared grid, or of one between bounds that are found privately."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from dpcore import accounting, selection
from dpcore._dataclasses import dataclass
from dpcore._exact.intervals import fraction_up
from dpcore._validation import check_real
from dpcore.pages.numbers import counted, percentage_of, plain_number
from dpcore.privacy import Relation
from dpcore.query.encoders import Clamped, Grid, Present
from dpcore.query.estimators import OneColumn, cells_in, given
from dpcore.query.fields import MAX_CELLS, Confidence, Edges, FoundKeys, Levels, NumberOrSkip, check_cells_of_groups, check_one_sort
from dpcore.query.grids import EDGES, FEWEST_POINTS, POINTS, WIDEST, log_grid
from dpcore.query.group_fields import size_of
from dpcore.query.kinds.base import StatisticKind, as_parameter
from dpcore.query.methods import KNOWN, Method
from dpcore.query.noise import Draw, Noise, share_of
from dpcore.query.private_bounds import NUMBERS
from dpcore.query.prose import as_list, declared_parts, of_column, quantile_name, sentence_of
from dpcore.query.query_sections import INSTEAD, PROGRESSION, GroupedQuery, skips
from dpcore.query.rehearsal_columns import like
from dpcore.query.statistics import CellsOf
from dpcore.selection._plan import argmax_scale
from dpcore.selection._rows import best_of_rows
from dpcore.tables.fields import Name, Positive, checked

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.query.assumed import Assumed
    from dpcore.query.estimators import Estimator
    from dpcore.query.kinds.base import Columns, Entry
    from dpcore.query.rehearsal_columns import Seen
    from dpcore.query.sensitivity import Contribution
    from dpcore.query.statistics import Statistic
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]


UP_TO = "Points in order, to which values are rounded up"


class GridQuery(FoundKeys, GroupedQuery):
    """A statistic that is a point of a declared grid, or several: quantiles."""

    column: Annotated[Name, Field(description="Column of numbers, dates or times.")]
    grid: Annotated[Edges, Field(description=f"{UP_TO}, or {PROGRESSION}. {KNOWN} Required without `bounds`.")]
    missing: Annotated[NumberOrSkip | None, Field(description=f"{INSTEAD}. Required with a ledger.")] = None
    delta: Annotated[float, checked(check_real, low=0.0, high=0.0), Field(description="0, which is the default.")] = 0.0
    confidence: Annotated[Confidence, Field(description="Of the error in ranks, in (0, 1). Default: 0.95.")] = 0.95

    @model_validator(mode="after")
    def _groups_times_grid_fit(self) -> Self:
        self.check_found(self.epsilon, self.weight)
        check_one_sort(grid=self.grid[0], missing=self.missing)
        groups = 1 if self.groups is None else size_of(self.groups)
        if groups is not None:
            check_points_of_groups(len(self.grid), groups, found=self.bounds is not None)
        return self


class QuantileQuery(GridQuery):
    """`kind = "quantile"`: for each level q the first point of a declared grid that has about q of the rows at or below it."""

    kind: Literal["quantile"]
    epsilon: Annotated[Positive, Field(description="ε of all levels together, in (0, ∞).")] = 0.0
    q: Annotated[Levels, Field(description="Levels in (0, 1), in order, with at most 6 decimals.")]


class MedianQuery(GridQuery):
    """`kind = "median"`: the quantile at 0.5."""

    kind: Literal["median"]

    @property
    def q(self) -> tuple[float, ...]:
        """The level of the median."""
        return (0.5,)


GRID_KEYS = ("grid", "bounds", "bounds_epsilon", "delta", "missing")


class Quantile(StatisticKind):
    """A point for each level, by the exponential mechanism."""

    names, fields = ("quantile", "median"), (QuantileQuery, MedianQuery)
    methods = (
        Method(
            "quantile",
            "Choose quantiles of a column among the points of a grid.",
            "A point of the grid for each level, for each group if there are groups.",
            ("q", *GRID_KEYS),
        ),
        Method(
            "median",
            "Choose the median of a column among the points of a grid.",
            "A point of the grid, for each group if there are groups.",
            GRID_KEYS,
        ),
    )
    cells_are = "grid"
    numbers_of_answer = (*NUMBERS, "rank_error")
    picture = "levels"
    measured = "unit_of_measure"

    def columns(self, position: int, query: Any) -> Columns:  # noqa: ARG002
        missing = None if isinstance(query.missing, str) else query.missing
        grid = Grid.of(query.grid, missing, skip=skips(query), are_floats=query.bounds is not None)
        return ((query.column, grid),)

    def calibrate(self, query: Any, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Estimator:
        grid: Any = columns[0][1]
        return QuantileEstimator.calibrate(query, grid, bound, relation, groups)

    def check_groups(self, query: Any, estimator: Estimator, groups: int) -> None:
        """Among the points of the job, or of the bounds that are found."""
        if query.bounds is None:
            super().check_groups(query, estimator, groups)
        else:
            as_parameter(check_points_of_groups, FEWEST_POINTS, groups, found=True)

    def numbers(self, query: Any, columns: Columns) -> Columns:  # noqa: ARG002
        """The numbers of the column, and where they are if other rows are skipped."""
        reals = Clamped(WIDEST, WIDEST[0] if isinstance(query.missing, str) else query.missing, are_floats=True)
        numbers = ((query.column, reals),)
        return (*numbers, (query.column, Present(reals))) if skips(query) else numbers

    def between(self, query: Any, columns: Columns, low: int, high: int, groups: int) -> tuple[Any, Columns]:  # noqa: ARG002
        """Among the points of the powers of two between the bounds: as many as so many groups may have."""
        points = POINTS
        while points > 1 and len(_grid(low, high, points)) * groups > MAX_CELLS:
            points //= 2
        between = query.model_copy(update={"grid": _grid(low, high, points)})
        return between, self.columns(0, between)

    def unclamped(self, query: Any, seen: Seen) -> Any:
        """Among the numbers of the column themselves, or of very many as many as groups may have."""
        first = query.grid[0]
        values = seen.values(query.column, first)
        if query.missing is not None and not skips(query):
            values = np.union1d(values, [float(query.missing)])
        apart = -(-len(values) * max(seen.groups, 1) // MAX_CELLS)
        grid = tuple(like(first, value) for value in values[::-1][::apart][::-1].tolist())
        return query.model_copy(update={"grid": grid, "bounds": None, "bounds_epsilon": None})

    def question(self, query: Entry) -> str:
        levels, of = as_list(query.get("q"), 1), of_column(query)
        return f"Quantiles{of}" if len(levels) > 1 else f"The {quantile_name(levels[0]).replace(' %', ' % quantile')}{of}"

    def declared(self, query: Entry) -> str:
        parts = declared_parts(query)
        if isinstance(query.get("grid"), list | tuple | np.ndarray):
            parts.append(f"chosen from a grid of {counted(len(query['grid']), 'point')}")
        return sentence_of(parts)

    def caveats(self, query: Entry) -> list[str]:
        if query.get("rank_error") is None:
            return []
        rows = counted(math.ceil(float(np.max(query["rank_error"]))), "row")
        each = "it" if query.get("groups") is None and not isinstance(query["value"], list) else "each"
        return [
            "A quantile has no interval in its own unit, since its error depends on how close the values lie to each other. "
            f"Values were rounded up to the points of the grid{_widest_step(query)}. Among the rounded values {each} is off by at most "
            f"{rows} in rank, with a probability of {percentage_of(query['confidence'])}."
        ]

    def heads(self, query: Entry) -> list[str]:
        return [quantile_name(level) for level in as_list(query.get("q"), 1)]

    def head(self, query: Entry) -> str:  # noqa: ARG002
        return "quantile"


def _widest_step(query: Entry) -> str:
    """By how much numbers are rounded up at most, where the points are known."""
    grid = query.get("grid")
    if not isinstance(grid, list | tuple | np.ndarray) or len(grid) < 2 or not isinstance(grid[0], int | float | np.number):
        return ""
    return f", by less than {plain_number(float(np.diff(np.asarray(grid, np.float64)).max()), 6)}"


@dataclass(frozen=True, slots=True)
class QuantileEstimator(OneColumn):
    r"""A point of the grid by the exponential mechanism, for each level q.

    Numbers are rounded up to the grid (and those beyond it to its last point). With C(g) of n rows at or below g the utility of g is
    −max(0, C(g⁻) − q·n, q·n − C(g)), g⁻ the point before g: the distance in rows of g from being a q-quantile. It is 0 for some g,
    and is computed exactly, as an integer: q = a/b, and everything is multiplied by b.
    """

    section: QuantileQuery | MedianQuery
    cells: Grid
    sensitivities: tuple[int, ...]
    epsilon: float
    relation: Relation
    moved: int = 1

    @classmethod
    def calibrate(
        cls, section: QuantileQuery | MedianQuery, cells: Grid, bound: Contribution, relation: Relation, groups: int = 0
    ) -> QuantileEstimator:
        """Levels share ε equally. Of several groups each has the ε of one row, of which all rows that a unit moves take their share."""
        apart = groups > 1
        moved, one = (bound.moved, bound.of_one_row) if apart else (1, bound)
        epsilon = share_of(section.epsilon, len(section.q) * moved)
        relation = "add_remove" if apart else relation
        sensitivities = tuple(one.rank(level) for level in _levels(section))
        # A trial: what the mechanism refuses must be refused before anything is spent.
        selection.exponential_mechanism(np.zeros(1, np.int64), epsilon, max(sensitivities), relation=relation)
        return cls(section, cells, sensitivities, epsilon, relation, moved)

    @property
    def fewest_cells(self) -> int:
        return self.cells.size

    @property
    def noise(self) -> tuple[Noise, ...]:
        """The noise for each level; sensitivity and scale in rows."""
        ranks = [sensitivity / level.denominator for sensitivity, level in zip(self.sensitivities, _levels(self.section), strict=True)]
        return tuple(Noise("gumbel", rank * self.moved, 2 * rank / self.epsilon) for rank in ranks)

    @property
    def rho(self) -> float | None:
        """ρ of the draws for all levels: those for all groups together have the bounded range of all rows that move."""
        whole = fraction_up(self.moved * Fraction(self.epsilon))
        return fraction_up(len(self.section.q) * Fraction(accounting.rho_bounded_range(whole)))

    def parameters(self) -> dict[str, Any]:
        q = self.section.q
        return {"q": q[0] if len(q) == 1 else list(q), "grid": list(self.cells.grid), **given(self.section, "missing")}

    @property
    def statistic(self) -> Statistic:
        return CellsOf(self.groups, self.cells.size)

    def utilities(self, tally: Array, level: Fraction) -> Array:
        """Utility of each point, times the denominator of the level; of several groups a row for each."""
        at_or_below = np.cumsum(tally, axis=-1)
        # below 2^62, of 2^40 rows and 10^6, the largest denominator
        target, b = level.numerator * at_or_below[..., -1:], level.denominator
        utilities: Array = np.minimum(0, np.minimum(target - b * (at_or_below - tally), b * at_or_below - target))
        return utilities

    def release_each(self, total: Array, rng: Stream | None) -> dict[str, list[Any]]:
        """The chosen points of each group, by draws that no other group has; how far off in rows they can be."""
        counts, found = cells_in(total), []
        for level, sensitivity in zip(_levels(self.section), self.sensitivities, strict=True):
            scale = argmax_scale(self.epsilon, sensitivity, 1, self.relation, monotone=False)
            found.append(best_of_rows(self.utilities(counts, level), scale, Draw(rng).of_groups(len(counts))))
        grid, chosen, groups = self.cells.grid, np.sort(np.stack(found, axis=1), axis=1), len(counts)
        values = [grid[row] for row in chosen[:, 0].tolist()] if len(found) == 1 else [[grid[i] for i in row] for row in chosen.tolist()]
        return {"value": values, "stderr": [None] * groups, "interval": [None] * groups, "rank_error": [self._rank_error()] * groups}

    errs_in_rows = True

    def half_width(self, assumed: Assumed) -> float | None:  # noqa: ARG002
        """Rows by which ranks miss."""
        return max(self.rank_errors())

    def _rank_error(self) -> float | list[float]:
        errors = self.rank_errors()
        return errors[0] if len(errors) == 1 else errors

    def rank_errors(self) -> list[float]:
        """Rows by which the ranks of all answers miss q·n at most, together, at the query's confidence."""
        levels = len(self.section.q)
        tail = math.log(levels * self.cells.size / (1 - self.section.confidence))
        return [max(noise.scale for noise in self.noise) * tail] * levels


def _levels(section: QuantileQuery | MedianQuery) -> tuple[Fraction, ...]:
    """The levels as the decimals that were written."""
    return tuple(Fraction(repr(level)) for level in section.q)


def _grid(low: int, high: int, points: int) -> tuple[float, ...]:
    """The points between two ends of bins."""
    return tuple(point for point in log_grid(points) if EDGES[low] <= point <= EDGES[high])


def check_points_of_groups(points: int, groups: int, *, found: bool) -> None:
    """Raise ValueError if a grid of so many points has too many for all groups; one between found bounds may be as coarse as needed."""
    if not found:
        check_cells_of_groups("grid", points, groups)
    elif FEWEST_POINTS * groups > MAX_CELLS:
        raise ValueError(
            f'groups must be at most {MAX_CELLS // FEWEST_POINTS} for a quantile with bounds = "private", got {groups}; with a grid of few '
            "points there may be more"
        )
