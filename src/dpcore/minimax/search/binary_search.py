"""The estimator that searches θ by tests: Steinberger (2019), Lemma 3.16, made constructive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._validation import INTEGER_DTYPES, check_array, check_integer, check_threads
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.minimax._binomial import MOST_REPORTS
from dpcore.minimax.losses import as_loss
from dpcore.minimax.programs.frames import times_power_of_two
from dpcore.minimax.search.count_tests import CountSearch
from dpcore.minimax.search.finite_tests import FiniteSearch
from dpcore.minimax.search.steps import search_for
from dpcore.minimax.search.trace import Trace, plot_trace, trace_search
from dpcore.minimax.spaces.matrices import channel_matrix, check_inputs
from dpcore.minimax.spaces.models import Model

if TYPE_CHECKING:
    from dpcore.minimax.losses import Loss
    from dpcore.minimax.search.searched import Searched

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


class BinarySearchEstimator:
    r"""Estimate θ from privatised reports by N − 2 tests, each of which shortens the interval that θ is looked for in by Δ.

    Parameters
    ----------
    model : Model
        𝒫 and θ; X points.
    channel : BinaryChannel, OptimalChannel, local mechanism, or array_like of shape (X, K)
        What every record goes through: a mechanism of `dpcore.local` with a finite `channel()`, or a matrix whose rows sum to 1. The
        columns of a one-bit mechanism are P(−z0), P(+z0).
    n : int
        Number of reports, in [1, 2^40].
    step : {"tuned", "theory"} or float, default "tuned"
        Δ. "theory" is C̄²·ω_H(n^{−1/2}) of the proof of Satz 3.10, "tuned" the Δ whose `risk_bound(loss)` is least.
    loss : Loss or {"absolute", "squared"}, default "squared"
        A regular loss.

    Attributes
    ----------
    step : float
        Δ.
    N : int
        min{N: NΔ > R}, R the length of `theta_range`.
    theta_range : tuple of float
        Between these lies θ of every member of the model, rounded outwards.
    matrix : ndarray, shape (X, K)
        The channel.
    values : ndarray, shape (N − 1,)
        What can be estimated; the middle of `theta_range` alone if N ≤ 2.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type, or channel and model have different numbers of points.
    ModuleNotFoundError
        If step is "theory", or K > 2, without the extra `minimax`.

    Notes
    -----
    Test (k, j) decides between H0: θ ≤ θ_min + jΔ and H1: θ ≥ θ_min + (j + N − k − 1)Δ. For K = 2 it compares the count of +z0 with n times
    the point where the likelihood ratio of the closest ends of the two ranges of P(+z0) is 1; all tests together are one monotone step
    function of the count. For K > 2 it is the likelihood ratio test of the Hellinger projections of the two hypotheses, each computed when
    a data set first comes to it. All bounds hold for every distribution of the model up to the rounding of the values themselves: linear
    programmes are rounded up by weak duality, probabilities by the error of SciPy's incomplete beta function, and what the cone solver
    finds is only used where a linear programme confirms it.
    Cost: a few hundred linear programmes for K = 2; then O(N²). For K > 2 one cone programme for each test that is visited.
    Source: Steinberger (2019), Lemma 3.16 to 3.18, Satz 3.10; the errata of its proof in `docs`.

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

    def __init__(self, model: Model, channel: Any, *, n: int, step: str | float = "tuned", loss: Loss | str = "squared") -> None:
        if not isinstance(model, Model):
            raise ParameterTypeError(f"model must be a Model, got {type(model).__name__}")
        self.model, self.channel = model, channel
        self.n = check_integer("n", n, low=1, high=MOST_REPORTS)
        self.loss = as_loss(loss)
        self.matrix = check_inputs(channel_matrix(channel, model.points), model.size)
        # sums of 1 within 10^-9·K are accepted, and made exact
        self.matrix = self.matrix / self.matrix.sum(axis=1, keepdims=True)
        self._search: Searched = search_for(model, self.matrix, self.n, step, self.loss.scaled(model.frame.exponent)[0])

    @property
    def step(self) -> float:
        """Δ."""
        return self._search.frame.difference(self._search.step)

    @property
    def N(self) -> int:  # noqa: N802  the document's letter
        """min{N: NΔ > R}."""
        return self._search.intervals

    @property
    def theta_range(self) -> tuple[float, float]:
        """Between these lies θ of every member of the model, rounded outwards."""
        return self._search.frame.outwards(*self._search.theta_range)

    @property
    def values(self) -> Array:
        """What can be estimated, ascending; for a binary channel in the order of the counts of +z0."""
        return self._search.values

    @property
    def thresholds(self) -> Counts:
        """For K = 2 the counts of +z0 where the estimate changes: it is values[number of thresholds ≤ count]; shape (N − 2,)."""
        if not isinstance(self._search, CountSearch):
            raise ParameterError(f"thresholds are those of binary channels, got one with {self.matrix.shape[1]} outcomes")
        return self._search.thresholds

    @property
    def tests(self) -> Array:
        """For K > 2 the tests computed so far: row k(k − 1)/2 + j − 1 holds the weights of test (k, j), or NaN; padded with zeros."""
        if not isinstance(self._search, FiniteSearch):
            raise ParameterError("tests are those of channels with more than two outcomes; a binary channel's are its thresholds")
        return self._search.weights

    def estimate(self, counts: Any, *, threads: int | None = None) -> Any:
        """Estimate θ from counts of reports.

        Parameters
        ----------
        counts : array_like of int, shape (B,), (B, K) or (K,)
            How often each outcome was reported, in the order of the channel's columns; rows sum to n. For K = 2 a vector is the counts of
            +z0 of B data sets, and a number that of one.
        threads : int, optional
            Number of threads; None picks.

        Returns
        -------
        float or ndarray of float64, shape (B,)

        Raises
        ------
        ParameterError, ParameterTypeError
            If the shape or dtype does not fit.
        DataError
            If counts are negative or do not sum to n.

        Notes
        -----
        Cost: for K = 2 a look-up among the thresholds; else N − 2 scalar products, after the tests that are new have been computed.
        """
        check_threads(threads)
        array = check_array("counts", counts, INTEGER_DTYPES)
        if self._binary and array.ndim < 2:
            found = self._search.estimates(self._plus(array.reshape(-1)), threads)
            return float(found[0]) if array.ndim == 0 else found
        found = self._search.estimates(self._reduced(self._rows(array)), threads)
        return float(found[0]) if array.ndim == 1 else found

    @property
    def _binary(self) -> bool:
        return bool(self.matrix.shape[1] == 2)

    def _reduced(self, rows: Counts) -> Counts:
        """What the search takes of counts of all outcomes: for K = 2 those of +z0."""
        return np.ascontiguousarray(rows[:, 1]) if isinstance(self._search, CountSearch) else rows

    def _plus(self, counts: npt.NDArray[Any]) -> Counts:
        bad = (counts < 0) | (counts > self.n)
        if bad.any():
            raise DataError(f"counts must be in [0, n]; the one at index {int(bad.argmax())} is not")
        return np.ascontiguousarray(counts, np.int64)

    def _rows(self, counts: npt.NDArray[Any]) -> Counts:
        outcomes = self.matrix.shape[1]
        if counts.ndim not in (1, 2) or counts.shape[-1] != outcomes:
            shapes = f"(B, {outcomes})" + (" or (B,)" if outcomes == 2 else f" or ({outcomes},)")
            raise ParameterError(f"counts must have shape {shapes}, got {counts.shape}")
        rows = np.ascontiguousarray(counts.reshape(-1, outcomes), np.int64)
        wrong = _backend.first_wrong_counts(rows, self.n)
        if wrong >= 0:
            raise DataError(f"counts must be in [0, n] and sum to n; those of row {wrong} do not")
        return rows

    def estimate_reports(self, reports: Any, *, packed: bool = False, threads: int | None = None) -> Any:
        """Estimate θ from raw reports.

        Parameters
        ----------
        reports : array_like, shape (n,) or (B, n); packed (⌈n/8⌉,) or (B, ⌈n/8⌉)
            Bools for K = 2, True being +z0; or codes of outcomes, in the order of the channel's columns; or packed bits.
        packed : bool, default False
            Whether `reports` are packed bits, uint8, least significant bit first; for K = 2. Bits beyond n are ignored.
        threads : int, optional
            Number of threads; None picks.

        Returns
        -------
        float or ndarray of float64, shape (B,)

        Raises
        ------
        ParameterError, ParameterTypeError
            If the shape or dtype does not fit.
        DataError
            If a code is outside [0, K).
        """
        check_threads(threads)
        width = (self.n + 7) // 8 if packed else self.n
        dtypes = ("uint8",) if packed else ("bool", *INTEGER_DTYPES)
        reports = check_array("reports", reports, dtypes)
        outcomes = self.matrix.shape[1]
        if outcomes != 2 and (packed or reports.dtype == np.bool_):
            kind = "packed bits" if packed else "bools"
            raise ParameterTypeError(f"reports must hold codes of outcomes for a channel with {outcomes}, got {kind}")
        if reports.ndim not in (1, 2) or reports.shape[-1] != width:
            raise ParameterError(f"reports must have shape ({width},) or (B, {width}) for n = {self.n}, got {reports.shape}")
        count = self._count_one if reports.ndim == 1 else self._count_rows
        found = self._search.estimates(count(reports, packed=packed, threads=threads), threads)
        return float(found[0]) if reports.ndim == 1 else found

    def _count_one(self, reports: npt.NDArray[Any], *, packed: bool, threads: int | None) -> Counts:
        """Counts of one data set, which all threads share, as the search takes them."""
        if packed:
            return np.array([_backend.count_packed(reports, self.n, threads=threads)], np.int64)
        if reports.dtype == np.bool_:
            return np.array([_backend.count_true(reports)], np.int64)
        return self._reduced(_backend.code_counts(reports, self.matrix.shape[1], threads=threads)[None])

    def _count_rows(self, rows: npt.NDArray[Any], *, packed: bool, threads: int | None) -> Counts:
        """Counts of many data sets, as the search takes them: of +z0, shape (B,), for K = 2, else of all outcomes, shape (B, K)."""
        if packed:
            return _backend.count_packed_rows(rows, self.n, threads=threads)
        if rows.dtype == np.bool_:
            return _backend.count_true_rows(rows, threads=threads)
        return self._reduced(_backend.code_counts_rows(rows, self.matrix.shape[1], threads=threads))

    def error_bound(self, l: int) -> float:  # noqa: E741  the document's letter
        r"""Bound sup P(\|θ̂ − θ\| > (l + 1)Δ) over the model.

        Parameters
        ----------
        l : int
            ≥ 0.

        Returns
        -------
        float
            For K = 2 the supremum itself, from exact binomial tails, rounded up; errors beyond (l + 1)Δ by less than 10⁻⁸ of the range
            of θ, which a last cell that narrow allows, count as (l + 1)Δ. For K > 2 the sum of the bounds ρ_H(dΔ)^n of the errors
            of those tests, d > l, that can cause such an error.

        Notes
        -----
        Source: Steinberger (2019), Lemma 3.16 and 3.17; the constant is 2 instead of 4, as the tests are not randomised.
        """
        return self._search.error_bound(min(check_integer("l", l, low=0), self.N))

    def risk_bound(self, loss: Loss | str | None = None) -> float:
        r"""Bound sup E loss(\|θ̂ − θ\|) over the model.

        Parameters
        ----------
        loss : Loss or {"absolute", "squared"}, optional
            By default the one the estimator was made with.

        Returns
        -------
        float
            For K = 2 within half a percent of the supremum; for K > 2 what follows from `error_bound`.
        """
        own, power = (self.loss if loss is None else as_loss(loss)).scaled(self._search.frame.exponent)
        return times_power_of_two(self._search.risk_bound(own), power)

    def trace(self, counts: Any) -> Trace:
        """Follow one data set through the tests.

        Parameters
        ----------
        counts : int, or array_like of int, shape (K,)
            As in `estimate`.

        Returns
        -------
        Trace
            The intervals that were visited and what was decided there, in units of θ, and the estimate.
        """
        return trace_search(self._search, self._single(counts))

    def _single(self, counts: Any) -> Counts:
        array = check_array("counts", counts, INTEGER_DTYPES)
        if array.ndim == 0 and self._binary:
            plus = int(self._plus(array.reshape(1))[0])
            return np.array([self.n - plus, plus], np.int64)
        if array.ndim != 1:
            raise ParameterError(f"counts must be those of one data set, got shape {array.shape}")
        row: Counts = self._rows(array)[0]
        return row

    def plot_trace(self, counts: Any, target: Any) -> Any:
        """Draw what `trace` tells, in the manner of Steinberger (2019), Abbildungen 3.1 and 3.2.

        Parameters
        ----------
        counts : int, or array_like of int, shape (K,)
            As in `estimate`.
        target : path, or matplotlib axes
            File to write, its ending says the format; or axes to draw on.

        Returns
        -------
        Path or axes
            What was drawn on.

        Raises
        ------
        ModuleNotFoundError
            Without matplotlib, which is in the extra `report`.
        """
        return plot_trace(self.trace(counts), self._search, target)

    def __repr__(self) -> str:
        return f"BinarySearchEstimator({self.model!r}, K={self.matrix.shape[1]}, n={self.n}, step={self.step:.6g}, N={self.N})"
