"""The queries of tables as methods: their arguments are the keys of `[[query]]` in a job."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal

from dpcore.frames.asking import asks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from dpcore.frames.results import TableResult

    Listed = Sequence[str] | Sequence[int] | npt.NDArray[Any]
    Points = Sequence[float] | Mapping[str, float] | npt.NDArray[Any]


def methods() -> tuple[str, ...]:
    """Names of the methods that ask queries."""
    return tuple(name for name, member in vars(Questions).items() if inspect.isfunction(member) and not name.startswith("_"))


class Questions(ABC):
    """The queries that a table answers."""

    @abstractmethod
    def _asked(self, entry: dict[str, Any]) -> TableResult:
        """The answer to a query."""

    @asks
    def count(
        self,
        column: str | None = None,
        *,
        epsilon: float,
        delta: float | None = None,
        categories: Listed | None = None,
        lower: float | None = None,
        upper: float | None = None,
        confidence: float | None = None,
        name: str | None = None,
    ) -> TableResult:
        """Count rows: all, or those whose column holds one of some categories or a number in an interval.

        Parameters
        ----------
        column : str, optional
            Column of the condition. Default: all rows are counted.
        epsilon : float
            Its ε, in (0, ∞). Where the number of rows is public (unit "row", relation "replace", no filter), all rows cost nothing.
        delta : float, optional
            Its δ, in [0, 1). Default: 0. A positive one gives Gaussian noise.
        categories : sequence of str or of int, optional
            Count the rows that hold one of these.
        lower, upper : float, optional
            Count the rows with a number in [lower, upper].
        confidence : float, optional
            Of the interval, in (0, 1). Default: 0.95.
        name : str, optional
            Name of the answer. Default: made of kind and column.

        Returns
        -------
        TableResult
            The noisy number of rows, for each group if there are groups.
        """
        raise NotImplementedError

    @asks
    def sum(
        self,
        column: str,
        *,
        epsilon: float,
        lower: float,
        upper: float,
        delta: float | None = None,
        missing: float | Literal["skip"] | None = None,
        confidence: float | None = None,
        name: str | None = None,
    ) -> TableResult:
        """Add up the numbers of a column, each clamped to [lower, upper].

        Parameters
        ----------
        column : str
            Column of numbers.
        epsilon : float
            Its ε, in (0, ∞).
        lower, upper : float
            Bounds of one number, lower < upper. Take them from what you know about the subject, never from the data.
        delta : float, optional
            Its δ, in [0, 1). Default: 0. A positive one gives Gaussian noise.
        missing : float or "skip", optional
            Stands for missing cells; "skip" leaves such rows out. Required with a ledger.
        confidence : float, optional
            Of the interval, in (0, 1). Default: 0.95.
        name : str, optional
            Name of the answer. Default: made of kind and column.

        Returns
        -------
        TableResult
            The noisy sum, for each group if there are groups.
        """
        raise NotImplementedError

    @asks
    def mean(
        self,
        column: str,
        *,
        epsilon: float,
        lower: float,
        upper: float,
        delta: float | None = None,
        missing: float | Literal["skip"] | None = None,
        confidence: float | None = None,
        name: str | None = None,
    ) -> TableResult:
        """Average the numbers of a column, each clamped to [lower, upper].

        Parameters
        ----------
        column : str
            Column of numbers.
        epsilon : float
            Its ε, in (0, ∞).
        lower, upper : float
            Bounds of one number, lower < upper. Take them from what you know about the subject, never from the data.
        delta : float, optional
            Its δ, in [0, 1). Default: 0. A positive one gives Gaussian noise.
        missing : float or "skip", optional
            Stands for missing cells; "skip" leaves such rows out, as AVG in SQL does. Required with a ledger.
        confidence : float, optional
            Of the interval, in (0, 1). Default: 0.95.
        name : str, optional
            Name of the answer. Default: made of kind and column.

        Returns
        -------
        TableResult
            The noisy mean, for each group if there are groups.
        """
        raise NotImplementedError

    @asks
    def var(
        self,
        column: str,
        *,
        epsilon: float,
        lower: float,
        upper: float,
        delta: float | None = None,
        ddof: Literal[0, 1] | None = None,
        missing: float | Literal["skip"] | None = None,
        confidence: float | None = None,
        name: str | None = None,
    ) -> TableResult:
        """Compute the variance of the numbers of a column, each clamped to [lower, upper].

        Parameters
        ----------
        column : str
            Column of numbers.
        epsilon : float
            Its ε, in (0, ∞).
        lower, upper : float
            Bounds of one number, lower < upper. Take them from what you know about the subject, never from the data.
        delta : float, optional
            Its δ, in [0, 1). Default: 0. A positive one gives Gaussian noise.
        ddof : {0, 1}, optional
            The divisor is n − ddof. Default: 1.
        missing : float or "skip", optional
            Stands for missing cells; "skip" leaves such rows out. Required with a ledger.
        confidence : float, optional
            Of the interval, in (0, 1). Default: 0.95.
        name : str, optional
            Name of the answer. Default: made of kind and column.

        Returns
        -------
        TableResult
            The noisy variance, for each group if there are groups.
        """
        raise NotImplementedError

    @asks
    def std(
        self,
        column: str,
        *,
        epsilon: float,
        lower: float,
        upper: float,
        delta: float | None = None,
        ddof: Literal[0, 1] | None = None,
        missing: float | Literal["skip"] | None = None,
        confidence: float | None = None,
        name: str | None = None,
    ) -> TableResult:
        """Compute the standard deviation of the numbers of a column, each clamped to [lower, upper].

        Parameters
        ----------
        column : str
            Column of numbers.
        epsilon : float
            Its ε, in (0, ∞).
        lower, upper : float
            Bounds of one number, lower < upper. Take them from what you know about the subject, never from the data.
        delta : float, optional
            Its δ, in [0, 1). Default: 0. A positive one gives Gaussian noise.
        ddof : {0, 1}, optional
            The divisor is n − ddof. Default: 1.
        missing : float or "skip", optional
            Stands for missing cells; "skip" leaves such rows out. Required with a ledger.
        confidence : float, optional
            Of the interval, in (0, 1). Default: 0.95.
        name : str, optional
            Name of the answer. Default: made of kind and column.

        Returns
        -------
        TableResult
            The noisy standard deviation, for each group if there are groups.
        """
        raise NotImplementedError

    @asks
    def covariance(
        self,
        columns: Sequence[str],
        *,
        epsilon: float,
        lower: Sequence[float],
        upper: Sequence[float],
        delta: float | None = None,
        ddof: Literal[0, 1] | None = None,
        missing: Sequence[float] | Literal["skip"] | None = None,
        confidence: float | None = None,
        name: str | None = None,
    ) -> TableResult:
        """Compute the covariance of two columns, each clamped to its bounds.

        Parameters
        ----------
        columns : sequence of two str
            Columns of numbers.
        epsilon : float
            Its ε, in (0, ∞).
        lower, upper : sequence of two floats
            Bounds of one number of each column. Take them from what you know about the subject, never from the data.
        delta : float, optional
            Its δ, in [0, 1). Default: 0. A positive one gives Gaussian noise.
        ddof : {0, 1}, optional
            The divisor is n − ddof. Default: 1.
        missing : sequence of two floats or "skip", optional
            Stand for missing cells; "skip" leaves such rows out. Required with a ledger.
        confidence : float, optional
            Of the interval, in (0, 1). Default: 0.95.
        name : str, optional
            Name of the answer. Default: made of kind and columns.

        Returns
        -------
        TableResult
            The noisy covariance, for each group if there are groups.
        """
        raise NotImplementedError

    @asks
    def quantile(
        self,
        column: str,
        *,
        epsilon: float,
        q: float | Sequence[float],
        grid: Points,
        delta: float | None = None,
        missing: float | Literal["skip"] | None = None,
        confidence: float | None = None,
        name: str | None = None,
    ) -> TableResult:
        """Choose quantiles of a column among the points of a grid.

        Parameters
        ----------
        column : str
            Column of numbers.
        epsilon : float
            ε of all levels together, in (0, ∞).
        q : float or sequence of float
            Levels in (0, 1), in order, with at most 6 decimals.
        grid : sequence of float or mapping
            Points in order, or `{"start": a, "stop": b, "step": c}`. Take them from what you know about the subject, never from the data.
        delta : float, optional
            0, which is the default.
        missing : float or "skip", optional
            Stands for missing cells; "skip" leaves such rows out. Required with a ledger.
        confidence : float, optional
            Of the error in ranks, in (0, 1). Default: 0.95.
        name : str, optional
            Name of the answer. Default: made of kind and column.

        Returns
        -------
        TableResult
            A point of the grid for each level, for each group if there are groups.
        """
        raise NotImplementedError

    @asks
    def median(
        self,
        column: str,
        *,
        epsilon: float,
        grid: Points,
        delta: float | None = None,
        missing: float | Literal["skip"] | None = None,
        confidence: float | None = None,
        name: str | None = None,
    ) -> TableResult:
        """Choose the median of a column among the points of a grid.

        Parameters
        ----------
        column : str
            Column of numbers.
        epsilon : float
            Its ε, in (0, ∞).
        grid : sequence of float or mapping
            Points in order, or `{"start": a, "stop": b, "step": c}`. Take them from what you know about the subject, never from the data.
        delta : float, optional
            0, which is the default.
        missing : float or "skip", optional
            Stands for missing cells; "skip" leaves such rows out. Required with a ledger.
        confidence : float, optional
            Of the error in ranks, in (0, 1). Default: 0.95.
        name : str, optional
            Name of the answer. Default: made of kind and column.

        Returns
        -------
        TableResult
            A point of the grid, for each group if there are groups.
        """
        raise NotImplementedError

    @asks
    def histogram(
        self,
        column: str,
        *,
        epsilon: float,
        delta: float | None = None,
        categories: Listed | None = None,
        categories_file: str | None = None,
        k: int | None = None,
        edges: Points | None = None,
        bins: int | None = None,
        lower: float | None = None,
        upper: float | None = None,
        missing: str | float | None = None,
        unknown: str | int | None = None,
        confidence: float | None = None,
        name: str | None = None,
    ) -> TableResult:
        """Count the rows of each category, or in each bin of numbers.

        Parameters
        ----------
        column : str
            The column.
        epsilon : float
            ε of all cells together, in (0, ∞).
        delta : float, optional
            Its δ, in [0, 1). Default: 0. A positive one gives Gaussian noise.
        categories : sequence of str or of int, optional
            The cells. Take them from what you know about the subject, never from the data.
        categories_file : str, optional
            A CSV file that lists them.
        k : int, optional
            The cells are the codes 0 … k − 1.
        edges : sequence of float or mapping, optional
            Edges of bins in order, or `{"start": a, "stop": b, "step": c}`.
        bins : int, optional
            Number of bins of equal width between `lower` and `upper`.
        lower, upper : float, optional
            Ends of those bins.
        missing : str or float, optional
            Category or number that stands for missing cells, or "skip". Required with a ledger.
        unknown : str or int, optional
            Category that stands for others. Required with a ledger.
        confidence : float, optional
            Of the intervals, one by one, in (0, 1). Default: 0.95.
        name : str, optional
            Name of the answer. Default: made of kind and column.

        Returns
        -------
        TableResult
            The noisy number of rows of each cell.
        """
        raise NotImplementedError

    @asks
    def top(
        self,
        column: str,
        *,
        s: int,
        epsilon: float,
        delta: float | None = None,
        candidates: Listed | None = None,
        candidates_file: str | None = None,
        k: int | None = None,
        method: Literal["gumbel", "peeling", "oneshot_laplace"] | None = None,
        values: bool | None = None,
        confidence: float | None = None,
        name: str | None = None,
    ) -> TableResult:
        """Choose the most frequent of declared candidates.

        Parameters
        ----------
        column : str
            The column.
        s : int
            How many to choose.
        epsilon : float
            Its ε, in (0, ∞).
        delta : float, optional
            Its δ, in [0, 1). Default: 0.
        candidates : sequence of str or of int, optional
            Take them from what you know about the subject, never from the data.
        candidates_file : str, optional
            A CSV file that lists them.
        k : int, optional
            The candidates are the codes 0 … k − 1.
        method : {"gumbel", "peeling", "oneshot_laplace"}, optional
            How they are chosen; see `dpcore.selection.top_s`. Default: "gumbel".
        values : bool, optional
            Whether to release their counts, too. Default: False.
        confidence : float, optional
            Of the intervals of counts, in (0, 1). Default: 0.95.
        name : str, optional
            Name of the answer. Default: made of kind and column.

        Returns
        -------
        TableResult
            The chosen candidates, the most frequent first.
        """
        raise NotImplementedError
