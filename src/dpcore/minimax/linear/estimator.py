"""Linear estimators under local privacy: means of one-bit reports about a bounded function, with bounds of bias and variance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore._series import SeriesT
from dpcore._validation import REAL_DTYPES, check_array, check_integer, check_positive, check_real
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.local import Aggregate, BinaryChannel, Estimate
from dpcore.local.estimates import check_confidence, moved
from dpcore.minimax._binomial import MOST_REPORTS
from dpcore.minimax.linear.counts import biased_region, exact_difference, inverted, mean_of_signs, plus_counts, risk_of
from dpcore.minimax.linear.curves import linear_curve
from dpcore.minimax.losses import as_loss
from dpcore.minimax.spaces.certified import Maximiser
from dpcore.minimax.spaces.models import Model
from dpcore.minimax.spaces.polygon import Polygon, trace_polygon

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore._error_curves import Aim, ErrorCurve
    from dpcore.minimax.losses import Loss
    from dpcore.rng import Stream

    Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _OfRecords:
    """A function of records of several numbers, in the form that a channel of single items takes."""

    ell: Callable[[Any], Any]

    def __call__(self, records: Any) -> Any:
        return self.ell(records["numbers"])


@dataclass(frozen=True)
class LinearEstimator:
    r"""Estimate θ by the mean of one-bit reports about a bounded function ℓ of a record.

    The mean of the reports is unbiased for E ℓ, so its bias for θ is E ℓ − θ. The functions `truncated_moment`, `covariance`, `density_at`,
    `uniform_scale` and `event_probability` choose ℓ for you.

    Parameters
    ----------
    ell : sequence of float, or callable
        ℓ: a table on codes, or a vectorized function of records.
    epsilon : float
        Privacy loss ε of one report, in [2^−20, 700].
    bound : float, optional
        ‖ℓ‖∞. Values of ℓ are clamped to [−bound, bound]. Required for a function; for a table, the default is its largest magnitude.
    bias : float, optional
        Bound of \|center + E ℓ − θ\| over your model, if you know it. `risk_bound` requires it, and intervals use it.
    center : float, default 0.0
        Added to every estimate. Subtracting the middle of the range of ℓ, and adding it here, makes `bound` smaller.
    dimension : int, optional
        Number of numbers in a record, which lie along the last axis of the records. By default a record is one number or one code.
    h : float, optional
        The bandwidth, or the inverse of the clipping level, that `ell` was made with. For information only.

    Attributes
    ----------
    channel : BinaryChannel
        Reports ±z0 with probability ½(1 ± ℓ/z0), where z0 = bound·(e^ε + 1)/(e^ε − 1).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Guarantee: P(report | x) ≤ e^ε·P(report | x') for all records x, x', exactly.
    With t = (e^ε − 1)/(e^ε + 1), the variance of the estimate is (z0² − (E ℓ)²)/n ≤ bound²/(n t²). It depends on the largest magnitude of
    ℓ, not on the variance of ℓ. Hence the squared risk is at most bias² + bound²/(n t²).
    Source: Rohde & Steinberger (2020), Section 4. Steinberger (2019) announces these estimators in Section 3.2.3, which is empty.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.minimax import LinearEstimator
    >>> share = LinearEstimator([-0.5, 0.5], 1.0, center=0.5, bias=0.0)
    >>> reports = share.privatize((np.arange(100_000) % 4 == 0).astype(int))
    >>> bool(abs(share.estimate(reports).value - 0.25) < 0.04), round(share.risk_bound(n=100_000), 9)
    (True, 1.1707e-05)
    """

    ell: tuple[float, ...] | Callable[[Any], Any]
    epsilon: float
    bound: float | None = field(default=None, kw_only=True)
    bias: float | None = field(default=None, kw_only=True)
    center: float = field(default=0.0, kw_only=True)
    dimension: int | None = field(default=None, kw_only=True)
    h: float | None = field(default=None, kw_only=True)
    channel: BinaryChannel = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.bias is not None:
            object.__setattr__(self, "bias", check_real("bias", self.bias, low=0.0, high=math.inf, include_high=False))
        object.__setattr__(self, "center", check_real("center", self.center, low=-(2.0**1000), high=2.0**1000))
        channel = self._of_function() if callable(self.ell) else self._of_table()
        object.__setattr__(self, "channel", channel)
        object.__setattr__(self, "epsilon", channel.epsilon)
        object.__setattr__(self, "bound", channel.norm)

    def _of_function(self) -> BinaryChannel:
        ell: Any = self.ell
        if self.dimension is not None:
            object.__setattr__(self, "dimension", check_integer("dimension", self.dimension, low=1))
            ell = _OfRecords(ell)
        return BinaryChannel(self.epsilon, ell, bound=self.bound)

    def _of_table(self) -> BinaryChannel:
        if self.dimension is not None:
            raise ParameterError("dimension is for a function ell only; a table takes one code a record")
        values = check_array("ell", self.ell, REAL_DTYPES).astype(np.float64)
        if self.bound is not None:
            bound = check_positive("bound", self.bound)
            values = np.clip(values, -bound, bound)
        channel = BinaryChannel(self.epsilon, tuple(values.tolist()))
        object.__setattr__(self, "ell", channel.phi)
        return channel

    @overload
    def privatize(self, records: float, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...) -> bool: ...
    @overload
    def privatize(self, records: SeriesT, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...) -> SeriesT: ...
    @overload
    def privatize(
        self, records: npt.ArrayLike, *, rng: Stream | None = ..., out: npt.NDArray[np.bool_] | None = ..., threads: int | None = ...
    ) -> npt.NDArray[np.bool_]: ...
    def privatize(
        self, records: Any, *, rng: Stream | None = None, out: npt.NDArray[np.bool_] | None = None, threads: int | None = None
    ) -> Any:
        """Report one bit about each record.

        Parameters
        ----------
        records : array_like
            Records of any shape. With `dimension`, the numbers of a record lie along the last axis.
        rng : Stream, optional
            None is the secure source; `dpcore.testing.KeyedRandom` for tests.
        out : ndarray of bool, optional
            Written in place; of the shape of the records.
        threads : int, optional
            Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

        Returns
        -------
        bool or ndarray of bool
            True stands for +z0.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument is outside its range or of the wrong type.
        DataError
            If ℓ of a record is NaN, or a code is outside the table. Nothing was released.

        Notes
        -----
        Guarantee: P(report | x) ≤ e^ε·P(report | x') for all records x, x', exactly.
        Cost: about 5 ns a record, and the evaluation of ℓ.
        """
        return self.channel.privatize(self._records(records), rng=rng, out=out, threads=threads)

    def _records(self, records: Any) -> Any:
        """Return the records as the channel takes them: with `dimension`, one item for each."""
        if self.dimension is None:
            return records
        values = check_array("records", records, REAL_DTYPES)
        if values.ndim < 1 or values.shape[-1] != self.dimension:
            raise ParameterError(f"records must have {self.dimension} numbers along its last axis, got shape {values.shape}")
        values = np.ascontiguousarray(values, np.float64)
        return values.view([("numbers", np.float64, (self.dimension,))])[..., 0]

    def estimate(self, reports: Any) -> Estimate:
        """Estimate θ from reports.

        Parameters
        ----------
        reports : array_like of bool, or Aggregate
            Reports from `privatize`, or their `channel.aggregate(reports)`.

        Returns
        -------
        Estimate
            center + mean of the reports ±z0, with its standard error, which does not include the bias. Its intervals are those of
            `interval`, or, if the bias is not known, of center + E ℓ.

        Raises
        ------
        ParameterError, ParameterTypeError
            If there are no reports, or they are not of this estimator.

        Notes
        -----
        Cost: that of counting bits.
        """
        counted = reports if isinstance(reports, Aggregate) else self.channel.aggregate(reports)
        found = moved(self.channel.estimate(counted), self.center, margin=self.bias or 0.0)
        return replace(found, limits=_Limits(self, int(counted.counts[0]), counted.n))

    @overload
    def estimate_counts(self, counts: int, *, n: int) -> float: ...
    @overload
    def estimate_counts(self, counts: npt.ArrayLike, *, n: int) -> float | Array: ...
    def estimate_counts(self, counts: Any, *, n: int) -> Any:
        """Estimate θ of many data sets from the counts of their reports.

        Parameters
        ----------
        counts : array_like of int, shape (...) or (..., 2)
            Counts of True. With a last axis of 2, counts of False and of True.
        n : int
            Number of reports of a data set.

        Returns
        -------
        float or ndarray of float64, shape (...)
            A float for a single data set.

        Raises
        ------
        DataError, ParameterError, ParameterTypeError
            If counts are not in [0, n], or do not sum to n, or `n` is outside its range.
        """
        n = check_integer("n", n, low=1, high=MOST_REPORTS)
        return mean_of_signs(plus_counts(counts, n), n, self.channel.z0) + self.center

    def interval(self, counts: npt.ArrayLike, confidence: float = 0.95, *, n: int) -> Array:
        """Return confidence intervals of θ, for all distributions for which `bias` holds.

        Parameters
        ----------
        counts : array_like of int, shape (...) or (..., 2)
            As in `estimate_counts`.
        confidence : float, default 0.95
            Probability with which an interval covers θ, in (0, 1), for this n and every such distribution.
        n : int
            Number of reports of a data set.

        Returns
        -------
        ndarray of float64, shape (..., 2)
            Lower and upper ends, within center ± (bound + bias).

        Raises
        ------
        DataError, ParameterError, ParameterTypeError
            If the bias is not known, or an argument is outside its range or of the wrong type.

        Notes
        -----
        The interval holds the θ that exact binomial tests do not reject, for any P(+z0) within bias/(2 z0) of (1 + (θ − center)/z0)/2. No
        interval by Bernstein's or Hoeffding's inequality is shorter. Where the bias is large beside the spread of the reports, almost all
        of 1 − confidence is spent on one side, so it is shorter than the interval of E ℓ, extended by the bias.
        Cost: about 5 ms for each distinct count.

        Examples
        --------
        >>> from dpcore.minimax import event_probability
        >>> event_probability([False, True], 1.0).interval(5_200, n=10_000).round(3).tolist()
        [0.522, 0.565]
        """
        if self.bias is None:
            raise ParameterError(
                "bias is not known, so θ has no interval: give the estimator `bias`, or use on(model, n=n), which knows the model"
            )
        n = check_integer("n", n, low=1, high=MOST_REPORTS)
        polygon, frame = biased_region(self.channel, self.center, self.bias)
        return inverted(polygon, frame, counts, n, check_confidence(confidence))

    def risk_bound(self, *, n: int, loss: Loss | str = "squared") -> float:
        """Bound the expected loss with n reports, for all distributions for which `bias` holds.

        Parameters
        ----------
        n : int
            Number of reports.
        loss : Loss or {"absolute", "squared"}, default "squared"
            Loss of the absolute error.

        Returns
        -------
        float
            bias² + z0²/n for squared loss; its square root bounds the root mean square error.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `bias` is not known, or an argument is outside its range or of the wrong type.
        """
        if self.bias is None:
            raise ParameterError(
                "bias is not known, so the risk has no bound: give the estimator `bias`, or use on(model, n=n), which computes it"
            )
        n = check_integer("n", n, low=1, high=MOST_REPORTS)
        return risk_of(as_loss(loss), self.bias, self.channel.z0 / math.sqrt(n), 2 * self.channel.z0)

    def error_curve(self, aim: Aim, *, model: Model | None = None) -> ErrorCurve:
        """Return the error of the estimate as a function of n and ε, for `dpcore.planning`.

        Parameters
        ----------
        aim : planning.Aim
            Root mean square error, or width of the interval.
        model : Model, optional
            Takes the bias over this model in place of `bias`.

        Returns
        -------
        planning.ErrorCurve
            The bound, for this ℓ and any ε.

        Raises
        ------
        ParameterError, ParameterTypeError
            If neither `bias` nor a model is known, or the measure is "power".
        """
        aim.one_of("a linear estimator", "rmse", "width")
        bias = self.bias if model is None else LinearOnModel(self, model, 1).bias
        if bias is None:
            raise ParameterError("bias is not known, so the error has no bound: give the estimator `bias`, or a model=")
        return linear_curve(bias, self.channel.norm, self.epsilon, aim)

    def on(self, model: Model, *, n: int) -> LinearOnModel:
        """Combine the estimator with a model on finitely many points and a number of reports.

        Parameters
        ----------
        model : Model
            Its points are the records. A table ℓ needs one value for each point.
        n : int
            Number of reports.

        Returns
        -------
        LinearOnModel
            An estimator for `simulate_risk` and `worst_distribution`. Its risk bound uses the bias over the model.

        Raises
        ------
        ParameterError, ParameterTypeError
            If ℓ cannot be evaluated at the points of the model, or `n` is outside its range.
        """
        return LinearOnModel(self, model, check_integer("n", n, low=1, high=MOST_REPORTS))


@dataclass(frozen=True, eq=False)
class LinearOnModel:
    """A linear estimator from n reports about records of a model, made by `LinearEstimator.on`.

    Attributes
    ----------
    linear : LinearEstimator
        The estimator.
    model : Model
        The distributions that the records may have.
    n : int
        Number of reports.
    """

    linear: LinearEstimator
    model: Model
    n: int

    def __post_init__(self) -> None:
        if not isinstance(self.model, Model):
            raise ParameterTypeError(f"model must be a Model, got {type(self.model).__name__}")
        _ = self.weights

    @cached_property
    def weights(self) -> Array:
        """ℓ at the points of the model, clamped, shape (X,)."""
        linear, model = self.linear, self.model
        if isinstance(linear.ell, tuple):
            if len(linear.ell) != model.size:
                raise ParameterError(
                    f"model must have {len(linear.ell)} points, one for each entry of the estimator's table, got {model.size}"
                )
            return np.array(linear.ell)
        if model.points is None:
            raise ParameterError("model must have points, at which the function of the estimator is evaluated")
        ell: Any = linear.ell
        found = np.asarray(ell(model.points), np.float64)
        if found.shape != (model.size,) or np.isnan(found).any():
            raise ParameterError(f"ell must give a number at each of the {model.size} points, got shape {found.shape}")
        return np.clip(found, -linear.channel.norm, linear.channel.norm)

    @cached_property
    def channel(self) -> Array:
        """The channel at the points of the model, shape (X, 2): P(−z0) and P(+z0)."""
        tilt = self.weights / self.linear.channel.z0
        return np.stack([(1 - tilt) / 2, (1 + tilt) / 2], axis=1)

    @cached_property
    def bias(self) -> float:
        r"""The largest \|center + E ℓ − θ\| over the model, from two linear programs, rounded up by weak duality."""
        difference, rounding = exact_difference(self.linear.center, self.weights, self.model.f)
        maximise = Maximiser(self.model)
        return max(0.0, maximise(difference)[0], maximise(-difference)[0]) + rounding

    @overload
    def estimate(self, counts: int) -> float: ...
    @overload
    def estimate(self, counts: npt.ArrayLike) -> float | Array: ...
    def estimate(self, counts: Any) -> Any:
        """Estimate θ from counts.

        Parameters
        ----------
        counts : array_like of int, shape (...) or (..., 2)
            As in `LinearEstimator.estimate_counts`.

        Returns
        -------
        float or ndarray of float64, shape (...)
            A float for a single data set.
        """
        return self.linear.estimate_counts(counts, n=self.n)

    def error_curve(self, aim: Aim) -> ErrorCurve:
        """Return the error over the model as a function of n and ε, for `dpcore.planning`; the own `n` is not used.

        Parameters
        ----------
        aim : planning.Aim
            Root mean square error, or width of the interval.

        Returns
        -------
        planning.ErrorCurve
            As in `LinearEstimator.error_curve`, with the bias over the model.
        """
        return replace(self.linear, bias=self.bias).error_curve(aim)

    @cached_property
    def _polygon(self) -> Polygon:
        """The pairs (θ, P(+z0)) of the model, in its standard form."""
        standard = self.model.standard
        return trace_polygon(Maximiser(standard), standard.f, self.channel[:, 1])

    def interval(self, counts: npt.ArrayLike, confidence: float = 0.95) -> Array:
        """Return confidence intervals of θ, for every distribution of the model.

        Parameters
        ----------
        counts : array_like of int, shape (...) or (..., 2)
            As in `LinearEstimator.estimate_counts`.
        confidence : float, default 0.95
            Probability with which an interval covers θ, in (0, 1), for this n and every distribution of the model.

        Returns
        -------
        ndarray of float64, shape (..., 2)
            Lower and upper ends. As in `LinearEstimator.interval`, with the P(+z0) that the members with each θ have, instead of the bias:
            one part of the model may have less of it than another.
        """
        return inverted(self._polygon, self.model.frame, counts, self.n, check_confidence(confidence))

    def risk_bound(self, loss: Loss | str = "squared") -> float:
        """Bound the expected loss, for every distribution of the model.

        Parameters
        ----------
        loss : Loss or {"absolute", "squared"}, default "squared"
            Loss of the absolute error.

        Returns
        -------
        float
            As in `LinearEstimator.risk_bound`, with the bias over the model.
        """
        z0 = self.linear.channel.z0
        return risk_of(as_loss(loss), self.bias, z0 / math.sqrt(self.n), 2 * z0)


@dataclass(frozen=True, slots=True)
class _Limits:
    """The intervals of one data set; those of center + E ℓ if the bias is not known."""

    linear: LinearEstimator
    plus: int
    n: int

    def __call__(self, confidence: float, /) -> Array:
        known = self.linear if self.linear.bias is not None else replace(self.linear, bias=0.0)
        return known.interval(self.plus, confidence, n=self.n)
