"""The estimator that finds θ by a binary search of tests: a constructive version of Steinberger (2019), Lemma 3.16."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._html import facts_table
from dpcore._validation import INTEGER_DTYPES, REAL_DTYPES, check_array, check_integer, check_threads
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.local.estimates import check_confidence
from dpcore.minimax._binomial import MOST_REPORTS
from dpcore.minimax.losses import as_loss
from dpcore.minimax.programs.frames import times_power_of_two
from dpcore.minimax.search.count_tests import CountSearch
from dpcore.minimax.search.finite_tests import FiniteSearch
from dpcore.minimax.search.steps import search_for
from dpcore.minimax.search.trace import Trace, plot_trace, trace_search
from dpcore.minimax.spaces.inversion import rejected_share
from dpcore.minimax.spaces.matrices import channel_matrix, check_inputs
from dpcore.minimax.spaces.models import Model

if TYPE_CHECKING:
    from pathlib import Path

    from dpcore.minimax._progress import Progress
    from dpcore.minimax.losses import Loss
    from dpcore.minimax.search.search import Search

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Integer = int | np.integer[Any]


class BinarySearchEstimator:
    r"""Estimate θ from private reports, with error bounds that hold for every distribution of the model.

    The estimator starts with the whole range of θ. Each of N − 2 tests removes a piece of length Δ at one end of the interval that is
    left. The estimate is the middle of the last interval.

    Parameters
    ----------
    model : Model
        The distributions 𝒫 that the records may have, and θ; X points.
    channel : BinaryChannel, OptimalChannel, local mechanism, or array_like of shape (X, K)
        The channel that makes the reports: a mechanism of `dpcore.local` with a finite `channel()`, such as `FiniteChannel`, or a matrix
        whose rows sum to 1. The columns of a one-bit mechanism are P(−z0), P(+z0).
    n : int
        Number of reports, in [1, 2^40].
    step : {"tuned", "theory"} or float, default "tuned"
        Δ. "tuned" searches for the Δ with the smallest `risk_bound(loss)`, using the model only and never data. "theory" is
        C̄²·ω_H(n^{−1/2}) from the proof of Satz 3.10; it is about ten times larger. A number is Δ itself.
    loss : Loss or {"absolute", "squared"}, default "squared"
        The loss for which "tuned" and "theory" choose Δ, and the default of `risk_bound`.
    progress : callable, optional
        Called as progress(done, total) while the step is tuned.

    Attributes
    ----------
    step : float
        Δ.
    N : int
        min{N: NΔ > R}, where R is the length of `theta_range`.
    theta_range : tuple of float
        The range of θ over the model, rounded outwards.
    matrix : ndarray, shape (X, K)
        The channel.
    values : ndarray, shape (N − 1,)
        All possible estimates. If N ≤ 2, the only one is the middle of `theta_range`.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type, or if channel and model have different numbers of points.
    ModuleNotFoundError
        If the extra `minimax` is not installed, and step is "theory" or K > 2.

    Notes
    -----
    Test (k, j) decides between H0: θ ≤ θ_min + jΔ and H1: θ ≥ θ_min + (j + N − k − 1)Δ. For K = 2, it compares the count of +z0 with n
    times the point at which the likelihood ratio of the closest ends of the two ranges of P(+z0) is 1. All tests together are one monotone
    step function of the count. For K > 2, it is the likelihood ratio test of the Hellinger projections of the two hypotheses, which is
    computed when the first data set needs it.

    With very few reports, or much privacy, no test is worth making: "tuned" then gives N ≤ 2, and every estimate is the middle of
    `theta_range`. The same happens if θ is constant on the model, or if a given step is larger than half the range. `error_bound`,
    `margin` and `risk_bound` are valid in all these cases. For rates of 1/n, "tuned" stops at N of about 6,000 for K = 2 and 256 for K > 2;
    beyond n of about 10^7 and 10^6, the risk bound then no longer falls.

    Bounds hold for every distribution of the model: linear programs are rounded up by weak duality, probabilities by the error of SciPy's
    incomplete beta function, and results of the cone solver are used only if a linear program confirms them.
    Cost: for K = 2, a few hundred linear programs, then O(N), or O(N²) if the images of the hypotheses overlap in an unusual way; "tuned"
    takes 0.5 to 3 s for 100 to 500 points, also at n = 10^7 and more, a given step 0.1 s. For K > 2, one cone program for each test that is
    visited, and about 40 for "tuned": 0.5 s for 100 points and K ≤ 11, 6 s for K = 41.
    Source: Steinberger (2019), Lemma 3.16 to 3.18 and Satz 3.10. "theory" corrects a misprint in its proof and uses C̄ = √(2 ln 2a) + 1.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.local import BinaryChannel
    >>> from dpcore.minimax import BinarySearchEstimator, Model
    >>> grid = np.linspace(-4.0, 4.0, 33)
    >>> model = Model.moment(grid, kappa=2.0, C=1.0)  # E x² ≤ 1
    >>> channel = BinaryChannel(1.0, np.clip(grid, -2.0, 2.0))
    >>> estimator = BinarySearchEstimator(model, channel, n=10_000, step=0.23)
    >>> estimator.N, estimator.estimate(np.array([4_000, 5_000, 6_000])).round(3).tolist()
    (9, [-0.77, -0.08, 0.84])
    >>> [round(estimator.error_bound(l), 4) for l in range(3)]
    [0.5574, 0.0, 0.0]
    """

    def __init__(
        self,
        model: Model,
        channel: Any,
        *,
        n: int,
        step: str | float = "tuned",
        loss: Loss | str = "squared",
        progress: Progress | None = None,
    ) -> None:
        if not isinstance(model, Model):
            raise ParameterTypeError(f"model must be a Model, got {type(model).__name__}")
        self.model, self.channel = model, channel
        self.n = check_integer("n", n, low=1, high=MOST_REPORTS)
        self.loss = as_loss(loss)
        self.matrix = check_inputs(channel_matrix(channel, model.points), model.size)
        # Row sums within 10^-9·K of 1 are accepted, and made exact.
        self.matrix = self.matrix / self.matrix.sum(axis=1, keepdims=True)
        scaled = self.loss.scaled(model.frame.exponent)[0]
        self._search: Search = search_for(model, self.matrix, self.n, step, scaled, progress=progress)

    @property
    def step(self) -> float:
        """Δ."""
        return self._search.frame.difference(self._search.step)

    @property
    def N(self) -> int:  # noqa: N802  the letter of the source
        """min{N: NΔ > R}."""
        return self._search.intervals

    @property
    def theta_range(self) -> tuple[float, float]:
        """The range of θ over the model, rounded outwards."""
        return self._search.frame.outwards(*self._search.theta_range)

    @property
    def values(self) -> Array:
        """All possible estimates: for K = 2 in the order of the counts of +z0, otherwise ascending."""
        return self._search.values

    @property
    def thresholds(self) -> Counts:
        """The counts of +z0 at which the estimate changes, shape (N − 2,); for K = 2 only.

        The estimate of a count is values[number of thresholds ≤ count].
        """
        if not isinstance(self._search, CountSearch):
            raise ParameterError(f"thresholds exist for channels with 2 outcomes only, and this one has {self.matrix.shape[1]}; see tests")
        return self._search.thresholds

    @property
    def tests(self) -> Array:
        """The tests computed so far, for K > 2 only.

        Row k(k − 1)/2 + j − 1 holds the weights of test (k, j), or NaN if no data set has needed it. Rows are padded with zeros.
        """
        if not isinstance(self._search, FiniteSearch):
            raise ParameterError("tests exist for channels with more than 2 outcomes only, and this one has 2; see thresholds")
        return self._search.weights

    @overload
    def estimate(self, counts: Integer, *, threads: int | None = ...) -> float: ...
    @overload
    def estimate(self, counts: npt.ArrayLike, *, threads: int | None = ...) -> float | Array: ...
    def estimate(self, counts: Any, *, threads: int | None = None) -> Any:
        """Estimate θ from counts of reports.

        Parameters
        ----------
        counts : array_like of int, shape (B,), (B, K) or (K,)
            How often each outcome was reported, in the order of the channel's columns. Each row is a data set and sums to n. For K = 2, a
            number is the count of +z0 of one data set, and a vector holds those of B data sets.
        threads : int, optional
            Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

        Returns
        -------
        float or ndarray of float64, shape (B,)
            A float for a single data set.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the shape or dtype is wrong.
        DataError
            If counts are negative or do not sum to n.

        Notes
        -----
        Cost: for K = 2 a look-up among the thresholds, 5 ns. For K > 2 N − 2 scalar products, after new tests have been computed.
        """
        check_threads(threads)
        rows, single = self._data_sets(counts)
        found = self._search.estimates(rows, threads)
        return float(found[0]) if single else found

    @property
    def _binary(self) -> bool:
        return bool(self.matrix.shape[1] == 2)

    def _data_sets(self, counts: Any) -> tuple[Counts, bool]:
        """Return counts in the form that the search takes, and whether they are those of a single data set."""
        array = check_array("counts", counts, INTEGER_DTYPES)
        bare = self._binary and array.ndim < 2
        return (self._plus(array.reshape(-1)), array.ndim == 0) if bare else (self._reduced(self._rows(array)), array.ndim == 1)

    def _reduced(self, rows: Counts) -> Counts:
        """Return the counts that the search takes: for K = 2 those of +z0, otherwise all."""
        return np.ascontiguousarray(rows[:, 1]) if isinstance(self._search, CountSearch) else rows

    def _plus(self, counts: npt.NDArray[Any]) -> Counts:
        bad = (counts < 0) | (counts > self.n)
        if bad.any():
            raise DataError(f"counts must be in [0, {self.n}]; the one at index {int(bad.argmax())} is not")
        return np.ascontiguousarray(counts, np.int64)

    def _rows(self, counts: npt.NDArray[Any]) -> Counts:
        outcomes = self.matrix.shape[1]
        if counts.ndim not in (1, 2) or counts.shape[-1] != outcomes:
            shapes = f"(B, {outcomes})" + (" or (B,)" if outcomes == 2 else f" or ({outcomes},)")
            raise ParameterError(f"counts must have shape {shapes}, got {counts.shape}")
        rows = np.ascontiguousarray(counts.reshape(-1, outcomes), np.int64)
        wrong = _backend.first_wrong_counts(rows, self.n)
        if wrong >= 0:
            raise DataError(f"counts must be in [0, {self.n}] and each row must sum to {self.n}; row {wrong} does not")
        return rows

    def estimate_reports(self, reports: npt.ArrayLike, *, packed: bool = False, threads: int | None = None) -> float | Array:
        """Estimate θ from raw reports.

        Parameters
        ----------
        reports : array_like, shape (n,) or (B, n); packed (⌈n/8⌉,) or (B, ⌈n/8⌉)
            For K = 2 bools, where True is +z0, or packed bits. For any K, codes of outcomes in the order of the channel's columns. Each
            row is a data set.
        packed : bool, default False
            Whether `reports` holds packed bits: uint8, least significant bit first. For K = 2 only. Bits beyond n are ignored.
        threads : int, optional
            Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

        Returns
        -------
        float or ndarray of float64, shape (B,)
            A float for a single data set.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the shape or dtype is wrong.
        DataError
            If a code is outside [0, K).

        Notes
        -----
        Cost: that of counting, which for bits is the speed of memory and for uint8 codes 0.2 to 0.4 ns each, and that of `estimate`.
        """
        check_threads(threads)
        width = (self.n + 7) // 8 if packed else self.n
        dtypes = ("uint8",) if packed else ("bool", *INTEGER_DTYPES)
        reports = check_array("reports", reports, dtypes)
        outcomes = self.matrix.shape[1]
        if outcomes != 2 and (packed or reports.dtype == np.bool_):
            kind = "packed bits" if packed else "bools"
            raise ParameterTypeError(f"reports must hold codes of outcomes, as the channel has {outcomes} of them, got {kind}")
        if reports.ndim not in (1, 2) or reports.shape[-1] != width:
            raise ParameterError(f"reports must have shape ({width},) or (B, {width}) for n = {self.n}, got {reports.shape}")
        count = self._count_one if reports.ndim == 1 else self._count_rows
        found = self._search.estimates(count(reports, packed=packed, threads=threads), threads)
        return float(found[0]) if reports.ndim == 1 else found

    def _count_one(self, reports: npt.NDArray[Any], *, packed: bool, threads: int | None) -> Counts:
        """Count one data set on all threads, in the form that the search takes."""
        if packed:
            return np.array([_backend.count_packed(reports, self.n, threads=threads)], np.int64)
        if reports.dtype == np.bool_:
            return np.array([_backend.count_true(reports)], np.int64)
        return self._reduced(_backend.code_counts(reports, self.matrix.shape[1], threads=threads)[None])

    def _count_rows(self, rows: npt.NDArray[Any], *, packed: bool, threads: int | None) -> Counts:
        """Count many data sets, in the form that the search takes: +z0, shape (B,), for K = 2, and all outcomes, (B, K), otherwise."""
        if packed:
            return _backend.count_packed_rows(rows, self.n, threads=threads)
        if rows.dtype == np.bool_:
            return _backend.count_true_rows(rows, threads=threads)
        return self._reduced(_backend.code_counts_rows(rows, self.matrix.shape[1], threads=threads))

    def error_bound(self, l: int) -> float:  # noqa: E741  the letter of the source
        r"""Bound the probability of an error beyond (l + 1)Δ, for every distribution of the model.

        Parameters
        ----------
        l : int
            l ≥ 0.

        Returns
        -------
        float
            An upper bound of sup P(\|θ̂ − θ\| > (l + 1)Δ). For K = 2 it is the supremum itself, from exact binomial tails, rounded up; if
            the last cell is narrower than 10⁻⁸ of the range of θ, errors that exceed (l + 1)Δ by less than that do not count. For K > 2 it
            is the sum of the bounds ρ_H(dΔ)^n over the tests, d > l, that can cause such an error.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `l` is negative or not an integer.

        Notes
        -----
        Cost: for K = 2 O(N) binomial tails. For K > 2 the first call solves N − 2 cone programs.
        Source: Steinberger (2019), Lemma 3.16 and 3.17. The constant is 2 instead of 4, because the tests are not randomized.
        """
        return self._search.error_bound(min(check_integer("l", l, low=0), self.N))

    def margin(self, confidence: float = 0.95) -> float:
        r"""Return a margin of error that holds with a given probability, for every distribution of the model.

        Parameters
        ----------
        confidence : float, default 0.95
            The probability, in (0, 1).

        Returns
        -------
        float
            The smallest (l + 1)Δ with `error_bound(l)` ≤ 1 − confidence. Hence P(\|θ̂ − θ\| ≤ margin) ≥ confidence, for this n and not
            only in the limit. What rounding can change is added, and the width of a last cell that `error_bound` leaves out. If N ≤ 2, it
            is half the length of `theta_range`, which no error exceeds. Cost: that of about log2(N) calls of `error_bound`.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `confidence` is outside its range or not a number.

        Examples
        --------
        >>> import numpy as np
        >>> from dpcore.minimax import BinarySearchEstimator, Model, optimal_channel
        >>> model = Model.moment(np.linspace(-8.0, 8.0, 65), kappa=2.0, C=1.0)
        >>> search = BinarySearchEstimator(model, optimal_channel(model, 1.0, n=10_000), n=10_000, step=0.05)
        >>> f"{search.margin(0.95):.2f}", search.interval(counts=5_030).round(2).tolist()
        ('0.25', [-0.15, 0.24])
        """
        confidence = check_confidence(confidence)
        low, high = self.theta_range
        if self.N <= 2:
            return math.nextafter(max(high - float(self.values[0]), float(self.values[0]) - low), math.inf)
        steps = self._search.first_allowed(math.nextafter(1.0 - confidence, 0.0)) + 1
        rounding = 4 * math.ulp(max(abs(low), abs(high)))  # of estimates and of the ends of intervals
        return steps * self.step + self._search.frame.difference(self._search.uncounted) + rounding

    def interval(self, estimate: npt.ArrayLike | None = None, confidence: float = 0.95, *, counts: npt.ArrayLike | None = None) -> Array:
        """Return a confidence interval of θ from counts of reports, or from an estimate alone.

        Parameters
        ----------
        estimate : float or array_like of float, shape (...), optional
            What `estimate` or `estimate_reports` returned. Gives the estimate ± `margin(confidence)`, cut to `theta_range`.
        confidence : float, default 0.95
            Probability with which the interval covers θ, in (0, 1), for every distribution of the model.
        counts : array_like of int, optional
            Counts, in a shape that `estimate` takes. The interval holds the θ that tests do not reject, and is shorter as a rule.

        Returns
        -------
        ndarray of float64, shape (..., 2)
            Lower and upper ends.

        Raises
        ------
        ParameterError, ParameterTypeError, DataError
            If not one of `estimate` and `counts` is given, or an argument is invalid.

        Notes
        -----
        K = 2: exact binomial tests of all P(+z0) that members with one θ have; 5 ms for each distinct count. K > 2: two e-values
        (docs/exactness-minimax.md); some 20 cone programs and 200 linear ones for each confidence.
        """
        confidence = check_confidence(confidence)
        if (estimate is None) == (counts is None):
            raise ParameterError(f"give either estimate or counts: {'neither was' if counts is None else 'both were'} given")
        if counts is None:
            values = check_array("estimate", estimate, REAL_DTYPES).astype(np.float64)
            margin, (low, high) = self.margin(confidence), self.theta_range
            return np.stack([np.maximum(values - margin, low), np.minimum(values + margin, high)], axis=-1)
        rows, single = self._data_sets(counts)
        found = self._search.inverted(rows, rejected_share(confidence))
        return np.asarray(found[0] if single else found)

    def risk_bound(self, loss: Loss | str | None = None) -> float:
        r"""Bound the expected loss E loss(\|θ̂ − θ\|), for every distribution of the model.

        Parameters
        ----------
        loss : Loss or {"absolute", "squared"}, optional
            By default the loss of the estimator.

        Returns
        -------
        float
            An upper bound of the supremum. For K = 2 it is within half a percent of it; for K > 2 it is derived from `error_bound`. The
            square root of the bound for squared loss bounds the root mean square error.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `loss` is not a loss.

        Notes
        -----
        Cost: for K = 2 0.1 to 6 s. For K > 2 that of `error_bound`.
        """
        own, power = (self.loss if loss is None else as_loss(loss)).scaled(self._search.frame.exponent)
        return times_power_of_two(self._search.risk_bound(own), power)

    def trace(self, counts: npt.ArrayLike) -> Trace:
        """Follow one data set through the tests.

        Parameters
        ----------
        counts : int, or array_like of int, shape (K,)
            As in `estimate`.

        Returns
        -------
        Trace
            The intervals that were visited, the decisions made there, and the estimate, all in units of θ.

        Raises
        ------
        ParameterError, ParameterTypeError, DataError
            If `counts` is not that of one data set.
        """
        return trace_search(self._search, self._single(counts))

    def _single(self, counts: Any) -> Counts:
        array = check_array("counts", counts, INTEGER_DTYPES)
        if array.ndim == 0 and self._binary:
            plus = int(self._plus(array.reshape(1))[0])
            return np.array([self.n - plus, plus], np.int64)
        if array.ndim != 1:
            raise ParameterError(f"counts must be those of a single data set, got shape {array.shape}")
        row: Counts = self._rows(array)[0]
        return row

    @overload
    def plot_trace(self, counts: npt.ArrayLike, target: str | Path) -> Path: ...
    @overload
    def plot_trace(self, counts: npt.ArrayLike, target: Any) -> Any: ...
    def plot_trace(self, counts: npt.ArrayLike, target: Any) -> Any:
        """Draw the result of `trace`, as in Steinberger (2019), Abbildungen 3.1 and 3.2.

        Parameters
        ----------
        counts : int, or array_like of int, shape (K,)
            As in `estimate`.
        target : path, or matplotlib axes
            File to write, in the format of its ending; or axes to draw on.

        Returns
        -------
        Path or axes
            The file or the axes.

        Raises
        ------
        ModuleNotFoundError
            If matplotlib is not installed, which the extra `report` installs.
        """
        return plot_trace(self.trace(counts), self._search, target)

    def __repr__(self) -> str:
        return f"BinarySearchEstimator({self.model!r}, K={self.matrix.shape[1]}, n={self.n}, step={self.step:.6g}, N={self.N})"

    def _repr_html_(self) -> str:
        low, high = self.theta_range
        rows = (
            ("reports", f"{self.n:,}"),
            ("outcomes of a report", f"{self.matrix.shape[1]}"),
            ("range of θ", f"{low:.6g} to {high:.6g}"),
            ("step Δ", f"{self.step:.6g}"),
            ("tests", f"{max(self.N - 2, 0):,}"),
            ("loss", f"{self.loss.kind}, {self.loss.parameter:g}"),
        )
        return facts_table("Binary search of tests", rows)
