"""Questions about the numbers of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from dpcore.frames.asking import asks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcore.frames.counting import Bound, Points
    from dpcore.frames.results import TableResult


class Averaging:
    """Queries of numbers."""

    @asks
    def sum(
        self,
        column: str,
        *,
        epsilon: float | None = None,
        weight: float | None = None,
        lower: Bound | None = None,
        upper: Bound | None = None,
        max_sum_per_unit: float | None = None,
        bounds: Literal["private"] | None = None,
        bounds_epsilon: float | None = None,
        delta: float | None = None,
        missing: Bound | None = None,
        confidence: float | None = None,
        name: str | None = None,
    ) -> TableResult:
        """Add up the numbers of a column, each clamped to [lower, upper].

        Parameters
        ----------
        column : str
            Column of numbers or durations.
        epsilon : float, optional
            Its ε, in (0, ∞).
        weight : float, optional
            In a batch, in place of `epsilon`: its share of what the batch has left for queries with a weight.
        lower, upper : float or duration, optional
            Bounds of one number, lower < upper. Take them from what you know about the subject, never from the data. Required without
            `max_sum_per_unit` or `bounds`.
        max_sum_per_unit : float, optional
            Bound of the sum of the absolute values of one unit, which are scaled down if it is larger; rows are then not left out.
        bounds : "private", optional
            Find bounds privately, instead of declaring them, for `bounds_epsilon` of the query's ε.
        bounds_epsilon : float, optional
            That part, in (0, epsilon).
        delta : float, optional
            Its δ, in [0, 1). Default: 0. A positive one gives Gaussian noise.
        missing : number or date like the bounds, or "skip", optional
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
        epsilon: float | None = None,
        weight: float | None = None,
        lower: Bound | None = None,
        upper: Bound | None = None,
        bounds: Literal["private"] | None = None,
        bounds_epsilon: float | None = None,
        delta: float | None = None,
        missing: Bound | None = None,
        confidence: float | None = None,
        name: str | None = None,
    ) -> TableResult:
        """Average the numbers of a column, each clamped to [lower, upper].

        Parameters
        ----------
        column : str
            Column of numbers, dates or times.
        epsilon : float, optional
            Its ε, in (0, ∞).
        weight : float, optional
            In a batch, in place of `epsilon`: its share of what the batch has left for queries with a weight.
        lower, upper : float, date, time or duration, optional
            Bounds of one number or date, lower < upper. Take them from what you know about the subject, never from the data. Required
            without `bounds`.
        bounds : "private", optional
            Find bounds privately, instead of declaring them, for `bounds_epsilon` of the query's ε.
        bounds_epsilon : float, optional
            That part, in (0, epsilon).
        delta : float, optional
            Its δ, in [0, 1). Default: 0. A positive one gives Gaussian noise.
        missing : number or date like the bounds, or "skip", optional
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
        epsilon: float | None = None,
        weight: float | None = None,
        lower: float | None = None,
        upper: float | None = None,
        bounds: Literal["private"] | None = None,
        bounds_epsilon: float | None = None,
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
        epsilon : float, optional
            Its ε, in (0, ∞).
        weight : float, optional
            In a batch, in place of `epsilon`: its share of what the batch has left for queries with a weight.
        lower, upper : float, optional
            Bounds of one number, lower < upper. Take them from what you know about the subject, never from the data. Required without
            `bounds`.
        bounds : "private", optional
            Find bounds privately, instead of declaring them, for `bounds_epsilon` of the query's ε.
        bounds_epsilon : float, optional
            That part, in (0, epsilon).
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
        epsilon: float | None = None,
        weight: float | None = None,
        lower: float | None = None,
        upper: float | None = None,
        bounds: Literal["private"] | None = None,
        bounds_epsilon: float | None = None,
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
        epsilon : float, optional
            Its ε, in (0, ∞).
        weight : float, optional
            In a batch, in place of `epsilon`: its share of what the batch has left for queries with a weight.
        lower, upper : float, optional
            Bounds of one number, lower < upper. Take them from what you know about the subject, never from the data. Required without
            `bounds`.
        bounds : "private", optional
            Find bounds privately, instead of declaring them, for `bounds_epsilon` of the query's ε.
        bounds_epsilon : float, optional
            That part, in (0, epsilon).
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
        epsilon: float | None = None,
        weight: float | None = None,
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
        epsilon : float, optional
            Its ε, in (0, ∞).
        weight : float, optional
            In a batch, in place of `epsilon`: its share of what the batch has left for queries with a weight.
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
        epsilon: float | None = None,
        weight: float | None = None,
        q: float | Sequence[float],
        grid: Points | None = None,
        bounds: Literal["private"] | None = None,
        bounds_epsilon: float | None = None,
        delta: float | None = None,
        missing: Bound | None = None,
        confidence: float | None = None,
        name: str | None = None,
    ) -> TableResult:
        """Choose quantiles of a column among the points of a grid.

        Parameters
        ----------
        column : str
            Column of numbers, dates or times.
        epsilon : float, optional
            ε of all levels together, in (0, ∞).
        weight : float, optional
            In a batch, in place of `epsilon`: its share of what the batch has left for queries with a weight.
        q : float or sequence of float
            Levels in (0, 1), in order, with at most 6 decimals.
        grid : sequence of float, date or time, or mapping, optional
            Points in order, or `{"start": a, "stop": b, "step": c}`. Take them from what you know about the subject, never from the data.
            Required without `bounds`.
        bounds : "private", optional
            Find bounds privately, instead of declaring them, for `bounds_epsilon` of the query's ε.
        bounds_epsilon : float, optional
            That part, in (0, epsilon).
        delta : float, optional
            0, which is the default.
        missing : number or date like the bounds, or "skip", optional
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
        epsilon: float | None = None,
        weight: float | None = None,
        grid: Points | None = None,
        bounds: Literal["private"] | None = None,
        bounds_epsilon: float | None = None,
        delta: float | None = None,
        missing: Bound | None = None,
        confidence: float | None = None,
        name: str | None = None,
    ) -> TableResult:
        """Choose the median of a column among the points of a grid.

        Parameters
        ----------
        column : str
            Column of numbers, dates or times.
        epsilon : float, optional
            Its ε, in (0, ∞).
        weight : float, optional
            In a batch, in place of `epsilon`: its share of what the batch has left for queries with a weight.
        grid : sequence of float, date or time, or mapping, optional
            Points in order, or `{"start": a, "stop": b, "step": c}`. Take them from what you know about the subject, never from the data.
            Required without `bounds`.
        bounds : "private", optional
            Find bounds privately, instead of declaring them, for `bounds_epsilon` of the query's ε.
        bounds_epsilon : float, optional
            That part, in (0, epsilon).
        delta : float, optional
            0, which is the default.
        missing : number or date like the bounds, or "skip", optional
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
