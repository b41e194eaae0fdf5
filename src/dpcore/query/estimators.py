"""Estimators: a query with its noise, what it needs of the rows, and the private answer that it makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore.pages.numbers import counted
from dpcore.query.encoders import Clamped, Present
from dpcore.query.fields import SKIP
from dpcore.query.noise import described, half_width_of, rho_of, standard_deviation
from dpcore.query.query_sections import BoundedQuery
from dpcore.query.statistics import Measure, SumOf
from dpcore.tables.arrays import listed

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from dpcore.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
    from dpcore.query.assumed import Assumed
    from dpcore.query.encoders import Encoder
    from dpcore.query.made_rows import SyntheticTable, TableColumn
    from dpcore.query.noise import Noise
    from dpcore.query.statistics import Statistic
    from dpcore.rng import Stream
    from dpcore.tables.fields import Section

    RealNoise = Laplace | Gaussian
    Array = npt.NDArray[Any]
    IntegerNoise = DiscreteLaplace | DiscreteGaussian


AT_LEAST = {"coverage": "at least"}
"""In the document of an answer whose interval holds the true value more often than its confidence says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """Base: a query with its noise, ready to run.

    Attributes
    ----------
    section : Query
        The query of the job.
    grouping : Grouping or PrivateGrouping or None
        The groups that it is answered for, calibrated for all of them together; None for the whole table, which is one group.
    waits_for_keys : bool
        Whether the answer is found by a pass that counts the units of keys.
    """

    grouping: Any = None

    waits_for_keys: ClassVar[bool] = False

    if TYPE_CHECKING:  # what each has, as a field, a property or a method

        @property
        def section(self) -> Any:
            """The query of the job."""

        @property
        def reads(self) -> tuple[tuple[str, Encoder], ...]:
            """The columns that it needs, and how each is read."""

        @property
        def statistic(self) -> Statistic:
            """What is computed of them."""

        def release_each(self, total: Any, rng: Stream | None) -> dict[str, Any]:
            """For each key of a private answer the list or array over groups, given the total of the statistic."""

        def go_on(self, kept: Any, total: Any, rng: Stream | None) -> tuple[Any, list[int], list[Any]]:
            """Make a step of a series: what the next one needs, what is released, and the private answers, one for each group."""

        def can_go_on(self, kept: Any, step: int) -> bool:
            """Whether something is what such a step keeps for the next one."""

        def of_step(self, totals: list[Any]) -> dict[str, list[Any]]:
            """What `release_each` would say, of the private answers of a step."""

    @property
    def groups(self) -> int:
        """Number of groups; 1 of the whole table."""
        return 1 if self.grouping is None else int(self.grouping.size)

    @property
    def measure(self) -> Measure | None:
        """What a pass over the rows computes for it, if one does."""
        return Measure(self.reads, self.statistic, self.grouping)

    @property
    def measure_of_bins(self) -> Measure | None:
        """What a pass before it counts, to find bounds, if they are not known."""
        return None

    @property
    def noise(self) -> tuple[Noise, ...]:
        """The noise that it draws."""
        return ()

    @property
    def rho(self) -> float | None:
        """ρ of zero-concentrated privacy of the answer, rounded up; None if none is known."""
        return None

    @property
    def fewest_cells(self) -> int:
        """Cells that the answer to one group has at least."""
        return 1

    @property
    def ways(self) -> tuple[tuple[str, str], ...]:
        """What follows from public parameters about how it is made: a word for what, and how."""
        return ()

    @property
    def table(self) -> tuple[TableColumn, ...] | None:
        """The columns of a table that it writes beside the answer."""
        return None

    def parameters(self) -> dict[str, Any]:
        """What the query declares."""
        return {}

    def public_parameters(self) -> dict[str, Any]:
        """The groups, and what the query declares, for the document."""
        return {**({} if self.grouping is None else self.grouping.parameters()), **self.parameters()}

    def release(self, total: Any, rng: Stream | None) -> dict[str, Any]:
        """A private answer: the keys of the document except name, kind and budget; with groups the list or array over them for each."""
        said = self.release_each(total, rng)
        return {key: listed(values[0]) for key, values in said.items()} if self.grouping is None else said

    def released_with_table(self, total: Any, rng: Stream | None, write: Callable[[SyntheticTable], None]) -> dict[str, Any]:  # noqa: ARG002
        """As `release`, of an answer that writes a table."""
        return self.release(total, rng)

    def finished(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document of the answer, in the unit of its column, with what follows from the numbers that it has: post-processing."""
        return document

    def expected_error(self, rows: int | None) -> float | None:  # noqa: ARG002
        """Standard error of the answer's noise for a table of so many rows, if it is known."""
        return None

    errs_in_rows: ClassVar[bool] = False
    """Whether how far an answer may be off is a number of rows, and not of the unit of the answer."""

    @property
    def numbers(self) -> int:
        """Numbers in all groups together, of which each may be off by `half_width`."""
        return self.groups

    @property
    def behind(self) -> int | None:
        """Rows that a choice may be behind the best, at the query's confidence; None of answers that choose nothing."""
        return None

    @property
    def in_place_of_error(self) -> str | None:
        """What a plan shows where other answers have a standard error."""
        return None if self.behind is None else f"behind by ≤ {counted(self.behind, 'row')}"

    def half_width(self, assumed: Assumed) -> float | None:  # noqa: ARG002
        """How far one number of the answer may be off, at the query's confidence, before there are data; None if nothing is known.

        It falls, or stays, as ε grows: searches for an ε rely on that.
        """
        return None


def given(section: Section, *keys: str) -> dict[str, Any]:
    """Return those of the keys that the job sets."""
    found = {key: getattr(section, key) for key in keys}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in found.items() if value is not None}


def cells_in(total: Array) -> Array:
    """Rows of each group in each cell, without those of no group or in no cell."""
    return np.ascontiguousarray(total[:-1, :-1])


def reals_of(section: BoundedQuery, cells: Clamped) -> tuple[tuple[str, Encoder], ...]:
    """The column of numbers, and where they are if other rows are skipped."""
    column = (section.column, cells)
    return (column, (section.column, Present(cells))) if section.missing == SKIP else (column,)


class OneColumn(Estimator):
    """Base of the answers that read one column."""

    __slots__ = ()
    cells: Any

    @property
    def reads(self) -> tuple[tuple[str, Encoder], ...]:
        return ((self.section.column, self.cells),)


class OneDraw(Estimator):
    """Base of the answers with one draw of noise, on a number or on each of several."""

    __slots__ = ()
    mechanism: IntegerNoise | RealNoise

    @property
    def noise(self) -> tuple[Noise, ...]:
        return (described(self.mechanism),)

    @property
    def rho(self) -> float | None:
        return rho_of(self.mechanism)

    def expected_error(self, rows: int | None) -> float | None:  # noqa: ARG002
        return standard_deviation(self.mechanism)

    def half_width(self, assumed: Assumed) -> float | None:  # noqa: ARG002
        return half_width_of(self.mechanism, 1 - self.section.confidence)


@dataclass(frozen=True, slots=True)
class OneSum(OneColumn, OneDraw):
    """Base of the answers with one draw of noise on one exact sum of clamped numbers."""

    section: BoundedQuery
    cells: Clamped
    mechanism: RealNoise

    @property
    def reads(self) -> tuple[tuple[str, Encoder], ...]:
        return reals_of(self.section, self.cells)

    def parameters(self) -> dict[str, Any]:
        return given(self.section, "lower", "upper", "missing")

    @property
    def statistic(self) -> Statistic:
        return SumOf(self.groups, self.section.lower, self.section.upper)
