"""Questions about how many rows, units or values there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from dpcore.frames.asking import asks

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from dpcore.frames.results import TableResult

    Listed = Sequence[str] | Sequence[int] | Sequence[dt.date] | npt.NDArray[Any]
    Bound = float | str | dt.date | dt.time | dt.timedelta
    Points = Sequence[Bound] | Mapping[str, Bound] | npt.NDArray[Any]


class Counting:
    """Queries that count."""

    @asks
    def count(
        self,
        column: str | None = None,
        *,
        epsilon: float | None = None,
        weight: float | None = None,
        delta: float | None = None,
        categories: Listed | None = None,
        lower: Bound | None = None,
        upper: Bound | None = None,
        missing: Literal["skip"] | None = None,
        confidence: float | None = None,
        name: str | None = None,
    ) -> TableResult:
        """Count rows: all, or those whose column holds one of some categories or a number in an interval.

        Parameters
        ----------
        column : str, optional
            Column of the condition. Default: all rows are counted.
        epsilon : float, optional
            Its ε, in (0, ∞). Where the number of rows is public (unit "row", relation "replace", no filter or groups), a count of all rows
            is exact and costs nothing, and needs no ε: one that is given is not used, and `UnusedEpsilonWarning` says so.
        weight : float, optional
            In a batch, in place of `epsilon`: its share of what the batch has left for queries with a weight.
        delta : float, optional
            Its δ, in [0, 1). Default: 0. A positive one gives Gaussian noise.
        categories : sequence of str, int, bool or date, optional
            Count the rows that hold one of these.
        lower, upper : float, date, time or duration, optional
            Count the rows with a number, or date or time, in [lower, upper].
        missing : "skip", optional
            Count the rows that have a value in the column, as COUNT(column) in SQL does.
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
    def count_distinct(
        self,
        column: str | None = None,
        *,
        epsilon: float | None = None,
        weight: float | None = None,
        delta: float | None = None,
        categories: Listed | None = None,
        categories_file: str | None = None,
        k: int | None = None,
        max_values_per_unit: int | None = None,
        confidence: float | None = None,
        name: str | None = None,
    ) -> TableResult:
        """Count units, or the different values of a column.

        Parameters
        ----------
        column : str, optional
            Column whose values are counted. Default: units are counted.
        epsilon : float, optional
            Its ε, in (0, ∞).
        weight : float, optional
            In a batch, in place of `epsilon`: its share of what the batch has left for queries with a weight.
        delta : float, optional
            Its δ, in [0, 1). Default: 0. A positive one gives Gaussian noise.
        categories : sequence of str or of int, optional
            Only these values count.
        categories_file : str, optional
            A CSV file that lists them.
        k : int, optional
            Only the codes 0 … k − 1 count.
        max_values_per_unit : int, optional
            How many values one unit may add; required for a column if the unit is one, too.
        confidence : float, optional
            Of the interval, in (0, 1). Default: 0.95.
        name : str, optional
            Name of the answer. Default: made of kind and column.

        Returns
        -------
        TableResult
            The noisy number, for each group if there are groups.
        """
        raise NotImplementedError

    @asks
    def histogram(
        self,
        column: str,
        *,
        epsilon: float | None = None,
        weight: float | None = None,
        delta: float | None = None,
        categories: Listed | None = None,
        categories_file: str | None = None,
        k: int | None = None,
        edges: Points | None = None,
        bins: int | None = None,
        lower: float | None = None,
        upper: float | None = None,
        missing: Bound | None = None,
        unknown: str | int | None = None,
        confidence: float | None = None,
        name: str | None = None,
    ) -> TableResult:
        """Count the rows of each category, or in each bin of numbers.

        Parameters
        ----------
        column : str
            The column.
        epsilon : float, optional
            ε of all cells together, in (0, ∞).
        weight : float, optional
            In a batch, in place of `epsilon`: its share of what the batch has left for queries with a weight.
        delta : float, optional
            Its δ, in [0, 1). Default: 0. A positive one gives Gaussian noise.
        categories : sequence of str, int, bool or date, optional
            The cells. Take them from what you know about the subject, never from the data.
        categories_file : str, optional
            A CSV file that lists them.
        k : int, optional
            The cells are the codes 0 … k − 1.
        edges : sequence of float, date or time, or mapping, optional
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
        epsilon: float | None = None,
        weight: float | None = None,
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
        epsilon : float, optional
            Its ε, in (0, ∞).
        weight : float, optional
            In a batch, in place of `epsilon`: its share of what the batch has left for queries with a weight.
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
