"""The methods that ask queries, as their kinds describe them. `make stubs` writes this file; do not edit it."""

from collections.abc import Sequence
from typing import Literal

from dpcore.frames.results import TableResult
from dpcore.query.methods import Bound, Listed, Points

class Methods:
    """The queries that a table answers."""

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
        categories : sequence of str, int, bool or date, optional
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

    def geometric_mean(
        self,
        column: str,
        *,
        epsilon: float | None = None,
        weight: float | None = None,
        lower: float,
        upper: float,
        delta: float | None = None,
        missing: Bound | None = None,
        confidence: float | None = None,
        name: str | None = None,
    ) -> TableResult:
        """Compute the geometric mean of the numbers of a column, each clamped to [lower, upper].

        Parameters
        ----------
        column : str
            Column of numbers.
        epsilon : float, optional
            Its ε, in (0, ∞).
        weight : float, optional
            In a batch, in place of `epsilon`: its share of what the batch has left for queries with a weight.
        lower, upper : float
            Bounds of one number, 0 < lower < upper. Smaller numbers, also zero and negative ones, count as lower. Take them from what you
            know about the subject, never from the data.
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
            The noisy geometric mean, for each group if there are groups.
        """

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
            Points in order, to which values are rounded up, or `{"start": a, "stop": b, "step": c}`. Take them from what you know about the
            subject, never from the data. Required without `bounds`.
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
            Points in order, to which values are rounded up, or `{"start": a, "stop": b, "step": c}`. Take them from what you know about the
            subject, never from the data. Required without `bounds`.
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
        candidates : sequence of str, int, bool or date, optional
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
            Of intervals of counts and of how good the choice is, in (0, 1). Default: 0.95.
        name : str, optional
            Name of the answer. Default: made of kind and column.

        Returns
        -------
        TableResult
            The chosen candidates, the most frequent first; `behind` says by how many rows one of them may fall short.
        """

    def mode(
        self,
        column: str,
        *,
        epsilon: float | None = None,
        weight: float | None = None,
        delta: float | None = None,
        candidates: Listed | None = None,
        candidates_file: str | None = None,
        k: int | None = None,
        confidence: float | None = None,
        name: str | None = None,
    ) -> TableResult:
        """Choose the most frequent of declared candidates.

        Parameters
        ----------
        column : str
            The column.
        epsilon : float, optional
            Its ε, in (0, ∞).
        weight : float, optional
            In a batch, in place of `epsilon`: its share of what the batch has left for queries with a weight.
        delta : float, optional
            Its δ, in [0, 1). Default: 0.
        candidates : sequence of str, int, bool or date, optional
            Take them from what you know about the subject, never from the data.
        candidates_file : str, optional
            A CSV file that lists them.
        k : int, optional
            The candidates are the codes 0 … k − 1.
        confidence : float, optional
            Of what is said about other candidates, in (0, 1). Default: 0.95.
        name : str, optional
            Name of the answer. Default: made of kind and column.

        Returns
        -------
        TableResult
            The chosen candidate, for each group if there are groups; `behind` says by how many rows others may be ahead.
        """

    def rate(
        self,
        column: str,
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
        """Compute the share of rows whose column holds one of some categories or a number in an interval.

        Parameters
        ----------
        column : str
            Column of the condition.
        epsilon : float, optional
            Its ε, in (0, ∞).
        weight : float, optional
            In a batch, in place of `epsilon`: its share of what the batch has left for queries with a weight.
        delta : float, optional
            Its δ, in [0, 1). Default: 0. A positive one gives Gaussian noise.
        categories : sequence of str, int, bool or date, optional
            Count the rows that hold one of these.
        lower, upper : float, date, time or duration, optional
            Count the rows with a number, or date or time, in [lower, upper].
        missing : "skip", optional
            Leaves rows without a value out. Default: they do not fulfil the condition.
        confidence : float, optional
            Of the interval, in (0, 1). Default: 0.95.
        name : str, optional
            Name of the answer. Default: made of kind and column.

        Returns
        -------
        TableResult
            The noisy share, for each group if there are groups; `document` has both noisy counts, `matching` and `count`.
        """
