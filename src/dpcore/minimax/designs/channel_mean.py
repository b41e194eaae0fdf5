"""Linear estimators from reports of any finite channel: every outcome stands for a number, and their mean is the estimate."""

from __future__ import annotations

import math
from dataclasses import field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore._series import like
from dpcore._validation import INTEGER_DTYPES, REAL_DTYPES, check_array, check_integer, check_real
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.local import Estimate, FiniteChannel
from dpcore.local._mechanism import open_stream
from dpcore.local.estimates import check_confidence, moved
from dpcore.minimax._binomial import MOST_REPORTS
from dpcore.minimax.designs.curves import mean_curve
from dpcore.minimax.designs.rounding import random_codes
from dpcore.minimax.designs.worst_case import Moments, Risk
from dpcore.minimax.losses import as_loss, loss_of
from dpcore.minimax.programs.frames import times_power_of_two
from dpcore.privacy import LocallyGuaranteed

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore._error_curves import Aim, ErrorCurve
    from dpcore.minimax.losses import Loss
    from dpcore.minimax.spaces.models import Model
    from dpcore.privacy import Privacy
    from dpcore.rng import Stream

    Array = npt.NDArray[np.float64]

LARGEST = 2.0**1000


@dataclass(frozen=True, eq=False)
class ChannelMean(LocallyGuaranteed):
    r"""Estimate θ by center + the mean of the numbers that the reports of a finite channel stand for.

    Parameters
    ----------
    channel : FiniteChannel
        The channel, with `values`: the number v_k for each outcome.
    center : float, default 0.0
        Added to every estimate.
    points : sequence of float, shape (X,), optional
        Numbers that the inputs of the channel stand for, ascending. Records are then real numbers and are rounded to one of the two
        neighbouring points at random, so that their mean stays the same; a record beyond an end counts as the end. Without it, records are
        the channel's codes.
    bias : float, optional
        Bound of \|E estimate − θ\| over your model, if you know it. Intervals and `risk_bound` use it.
    second_moment : float, optional
        Bound of E v² over your model; by default the largest for any distribution of the inputs.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Guarantee: P(report | x) ≤ e^ε·P(report | x') for all records x, x', exactly, with the ε of the channel. What happens to a record before
    it enters the channel does not matter for it.
    Behind random rounding the channel is Q(x, ·) = the mixture of the rows of the two points, linear in x.

    Examples
    --------
    >>> from dpcore.local import FiniteChannel
    >>> from dpcore.minimax import ChannelMean
    >>> channel = FiniteChannel([[3, 2, 1], [2, 2, 2], [1, 2, 3]], values=[-3.0, 0.0, 3.0])  # E v = −1, 0, 1
    >>> mean = ChannelMean(channel, points=[-1.0, 0.0, 1.0], bias=0.0)
    >>> reports = mean.privatize([0.3] * 50_000)
    >>> bool(abs(mean.estimate(reports).value - 0.3) < 0.1), round(mean.risk_bound(n=50_000), 7)
    (True, 0.00012)
    """

    channel: FiniteChannel
    center: float = field(default=0.0, kw_only=True)
    points: tuple[float, ...] | None = field(default=None, kw_only=True, repr=False)
    bias: float | None = field(default=None, kw_only=True)
    second_moment: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.channel, FiniteChannel):
            raise ParameterTypeError(f"channel must be a FiniteChannel, got {type(self.channel).__name__}")
        if self.channel.values is None:
            raise ParameterError("channel must have values, the numbers that its outcomes stand for")
        object.__setattr__(self, "center", check_real("center", self.center, low=-LARGEST, high=LARGEST))
        for name in ("bias", "second_moment"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, check_real(name, given, low=0.0, high=math.inf, include_high=False))
        if self.points is not None:
            grid = check_array("points", self.points, REAL_DTYPES).astype(np.float64)
            if grid.shape != (self.channel.inputs,) or not np.isfinite(grid).all() or not (np.diff(grid) > 0).all() or len(grid) < 2:
                raise ParameterError(f"points must be {self.channel.inputs} ascending finite numbers, one for each input of the channel")
            object.__setattr__(self, "points", tuple(grid.tolist()))

    @property
    def epsilon(self) -> float:
        """Privacy loss of one report."""
        return float(self.channel.epsilon)

    @property
    def privacy(self) -> Privacy:
        """The guarantee of one report, (ε, 0)."""
        return self.channel.privacy

    @property
    def values(self) -> Array:
        """The numbers that the outcomes stand for, shape (K,)."""
        return np.array(self.channel.values)

    def privatize(self, records: Any, *, rng: Stream | None = None, threads: int | None = None) -> Any:
        """Report an outcome for every record.

        Parameters
        ----------
        records : array_like
            Numbers if the estimator has `points`, and otherwise codes of the channel's inputs; any shape.
        rng : Stream, optional
            None is the secure source; `dpcore.testing.KeyedRandom` for tests.
        threads : int, optional
            Number of threads; None chooses it by the number of records and of processors.

        Returns
        -------
        int or ndarray
            Codes of outcomes, of the smallest unsigned dtype.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument is outside its range or of the wrong type.
        DataError
            If a record is NaN, or a code is not an input. The message names its position. Nothing was released.

        Notes
        -----
        Guarantee: P(report | x) ≤ e^ε·P(report | x') for all x, x', exactly. Cost: that of the channel, and 10 ns a number to round it.
        """
        if self.points is None:
            return self.channel.privatize(records, rng=rng, threads=threads)
        stream = open_stream(rng, threads)
        codes = random_codes(np.array(self.points), records, stream.position(), threads)
        reports = self.channel.privatize(codes, rng=stream, threads=threads)
        return reports if codes.ndim == 0 else like(records, reports)

    def estimate(self, reports: Any) -> Estimate:
        """Estimate θ from reports.

        Parameters
        ----------
        reports : array_like of int, or Aggregate
            Reports from `privatize`, or their `channel.aggregate(reports)`.

        Returns
        -------
        Estimate
            The estimate with its standard error, which does not include the bias. Its intervals are extended on both sides by the bias if
            it is known.

        Raises
        ------
        ParameterError, ParameterTypeError, DataError
            If there are no reports, or they are not of this channel.

        Notes
        -----
        Cost: that of counting.
        """
        return moved(self.channel.estimate(reports), self.center, margin=self.bias or 0.0)

    def risk_bound(self, *, n: int, loss: Loss | str = "squared") -> float:
        """Bound the expected loss with n reports, for all distributions for which `bias` and `second_moment` hold.

        Parameters
        ----------
        n : int
            Number of reports, in [1, 2^40].
        loss : Loss or {"absolute", "squared"}, default "squared"
            Loss of the absolute error.

        Returns
        -------
        float
            bias² + second_moment/n for squared loss, rounded up; see `loss_of`.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `bias` is not known, or an argument is outside its range or of the wrong type.
        """
        if self.bias is None:
            raise ParameterError("bias is not known, so the risk has no bound: give the estimator `bias`, or use on(model, n=n)")
        n = check_integer("n", n, low=1, high=MOST_REPORTS)
        return loss_of(as_loss(loss), (self.bias**2 + self._moment / n) * (1 + 2.0**-50), self.bias + float(np.ptp(self.values)))

    @property
    def _moment(self) -> float:
        """`second_moment`, or the largest for any distribution of the inputs, rounded up."""
        if self.second_moment is not None:
            return self.second_moment
        return float((self.channel.channel() @ self.values**2).max()) * (1 + 2.0**-40)

    def error_curve(self, aim: Aim) -> ErrorCurve:
        """Return the error of the estimate as a function of n, for `dpcore.planning`; the channel, and so its ε, is this one.

        Parameters
        ----------
        aim : planning.Aim
            Root mean square error.

        Returns
        -------
        planning.ErrorCurve
            √(bias² + second_moment/n).

        Raises
        ------
        ParameterError
            If `bias` is not known, or the measure is another one: intervals follow the spread of the reports.
        """
        aim.one_of("a channel mean without a model", "rmse")
        if self.bias is None:
            raise ParameterError("bias is not known, so the error has no bound: give the estimator `bias`, or plan on(model, n=n)")
        return mean_curve(self.bias, self._moment, self.epsilon, aim)

    def on(self, model: Model, *, n: int) -> ChannelMeanOnModel:
        """Combine the estimator with a model on finitely many points and a number of reports.

        Parameters
        ----------
        model : Model
            Its points are the records: inputs of the channel, or numbers if the estimator has `points`.
        n : int
            Number of reports, in [1, 2^40].

        Returns
        -------
        ChannelMeanOnModel
            An estimator for `simulate_risk` and `worst_distribution`, with proved bounds over the model.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the points do not fit, or `n` is outside its range.
        """
        return ChannelMeanOnModel(self, model, check_integer("n", n, low=1, high=MOST_REPORTS))

    def matrix_at(self, records: npt.ArrayLike) -> Array:
        """Return the channel at records, with the random rounding if there is one.

        Parameters
        ----------
        records : array_like of float, shape (m,)
            Numbers, for an estimator with `points`.

        Returns
        -------
        ndarray of float64, shape (m, K)
            Probabilities of the outcomes.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the estimator has no points, or an argument is of the wrong type.
        """
        if self.points is None:
            raise ParameterError("the estimator must have points to be evaluated at numbers")
        grid, rows = np.array(self.points), self.channel.channel()
        numbers = check_array("records", records, REAL_DTYPES).astype(np.float64)
        lower = np.clip(np.searchsorted(grid, numbers, side="right") - 1, 0, len(grid) - 2)
        share = np.clip((numbers - grid[lower]) / (grid[lower + 1] - grid[lower]), 0.0, 1.0)[:, None]
        return np.asarray((1 - share) * rows[lower] + share * rows[lower + 1], np.float64)


@dataclass(frozen=True, eq=False)
class ChannelMeanOnModel:
    """A linear estimator from n reports of a finite channel about records of a model, with proved bounds.

    Attributes
    ----------
    mean : ChannelMean
        The estimator.
    model : Model
        The distributions that the records may have.
    n : int
        Number of reports.
    """

    mean: ChannelMean
    model: Model
    n: int

    def __post_init__(self) -> None:
        _ = self.channel

    @cached_property
    def channel(self) -> Array:
        """The channel at the points of the model, shape (X, K)."""
        if self.mean.points is None:
            if self.mean.channel.inputs != self.model.size:
                raise ParameterError(
                    f"model must have {self.mean.channel.inputs} points, one for each input of the channel, got {self.model.size}"
                )
            return self.mean.channel.channel()
        if self.model.points is None or self.model.points.ndim != 1:
            raise ParameterError("model must have points that are numbers, like the records of the estimator")
        return self.mean.matrix_at(self.model.points)

    @cached_property
    def _moments(self) -> Moments:
        frame = self.model.frame
        # Exact until the last step: the center may be far from 0 in the units of the model.
        center = float((Fraction(self.mean.center) - Fraction(frame.origin)) / Fraction(2) ** frame.exponent)
        return Moments(self.model.standard, self.n, center, self.channel, np.ldexp(self.mean.values, -frame.exponent))

    @property
    def bias(self) -> float:
        r"""The largest \|E estimate − θ\| over the model, rounded up by weak duality."""
        low, high = self._moments.biases
        return self._up(max(-low, high, 0.0))

    @property
    def second_moment(self) -> float:
        """The largest E v² over the model, rounded up."""
        return times_power_of_two(self._moments.second_moment, 2 * self.model.frame.exponent)

    def _up(self, difference: float) -> float:
        return self.model.frame.difference(difference) * (1 + 2.0**-50)

    @cached_property
    def _risk(self) -> Risk:
        return self._moments.risk

    @property
    def worst(self) -> Array:
        """A distribution of the model whose mean square error is within about 1e-6 of the bound, shape (X,)."""
        return self._risk.p

    def risk_bound(self, loss: Loss | str = "squared") -> float:
        r"""Bound the expected loss, for every distribution of the model.

        Parameters
        ----------
        loss : Loss or {"absolute", "squared"}, default "squared"
            Loss of the absolute error.

        Returns
        -------
        float
            For squared loss the largest mean square error over the model, rounded up by a relative 10^−6 at most unless the search for it
            was cut off; for other losses what follows from it, see `loss_of`.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `loss` is not a loss.

        Notes
        -----
        Cost: 5 to 200 linear programs for the first call.
        """
        square = times_power_of_two(self._risk.upper, 2 * self.model.frame.exponent) * (1 + 2.0**-48)
        return loss_of(as_loss(loss), square, self.bias + float(np.ptp(self.mean.values)))

    def margin(self, confidence: float) -> float:
        r"""Return a t with P(\|estimate − θ\| ≤ t) ≥ confidence for every distribution of the model.

        Parameters
        ----------
        confidence : float
            The probability, in (0, 1).

        Returns
        -------
        float
            From Chernoff's inequality for the worst distribution, with its bias: for this n and not only in the limit.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `confidence` is outside its range or not a number.

        Notes
        -----
        P(e ≥ t) ≤ exp(n·(log E e^{λ(v + center − θ)} − λt)) for every λ > 0, and the largest exponent over the model is a linear program
        for each tangent of the logarithm.
        Cost: about 60 linear programs for each side.
        """
        error = math.nextafter(1.0 - check_confidence(confidence), 0.0)
        rounding = (len(self.mean.values) + 4) * math.ulp(max(abs(self.mean.center), float(np.abs(self.mean.values).max())))
        return self._up(self._moments.deviation(error)) + rounding

    def error_curve(self, aim: Aim) -> ErrorCurve:
        """Return the error over the model as a function of n, for `dpcore.planning`; the own `n` is not used.

        Parameters
        ----------
        aim : planning.Aim
            Root mean square error, or width of the interval.

        Returns
        -------
        planning.ErrorCurve
            √(bias² + second_moment/n), or 2·`margin(confidence)` at each n, which takes about 120 linear programs.

        Raises
        ------
        ParameterError
            If the measure is "power".
        """
        aim.one_of("a channel mean", "rmse", "width")
        low, high = self.model.theta_range

        def width(n: int) -> float:
            return min(2 * ChannelMeanOnModel(self.mean, self.model, n).margin(aim.confidence), high - low)

        return mean_curve(self.bias, self.second_moment, self.mean.epsilon, aim, width)

    def interval(self, estimate: npt.ArrayLike, confidence: float = 0.95) -> Array:
        """Return the confidence interval of an estimate: the estimate ± `margin(confidence)`, cut to the range of θ.

        Parameters
        ----------
        estimate : float or array_like of float, shape (...)
            What `estimate` or `estimate_reports` returned.
        confidence : float, default 0.95
            Probability with which the interval covers θ, in (0, 1), for every distribution of the model.

        Returns
        -------
        ndarray of float64, shape (..., 2)
            Lower and upper ends. Both are the same end of the range if the estimate lies further outside than the margin.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument is outside its range or of the wrong type.
        """
        values = check_array("estimate", estimate, REAL_DTYPES).astype(np.float64)
        margin, (low, high) = self.margin(confidence), self.model.theta_range
        return np.stack([np.clip(values - margin, low, high), np.clip(values + margin, low, high)], axis=-1)

    def estimate(self, counts: npt.ArrayLike) -> float | Array:
        """Estimate θ from counts of outcomes.

        Parameters
        ----------
        counts : array_like of int, shape (..., K)
            How often each outcome was reported; each row sums to n.

        Returns
        -------
        float or ndarray of float64, shape (...)
            A float for a single data set.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the shape or dtype is wrong.
        DataError
            If counts are negative or do not sum to n.
        """
        rows, values = check_array("counts", counts, INTEGER_DTYPES), self.mean.values
        if rows.ndim < 1 or rows.shape[-1] != len(values):
            raise ParameterError(f"counts must have {len(values)} numbers along the last axis, one an outcome, got shape {rows.shape}")
        bad = (rows < 0).any(axis=-1) | (rows.sum(axis=-1, dtype=np.int64) != self.n)
        if bad.any():
            index = tuple(int(i) for i in np.argwhere(bad)[0]) if bad.ndim else ()
            raise DataError(f"counts must be ≥ 0 and sum to {self.n}; those at index {index} do not")
        found = self.mean.center + rows @ (values / self.n)
        return float(found) if np.ndim(found) == 0 else np.asarray(found, np.float64)

    def estimate_reports(self, reports: Any, *, threads: int | None = None) -> float:
        """Estimate θ from raw reports of one data set.

        Parameters
        ----------
        reports : array_like of int
            Codes of outcomes, as `mean.privatize` made them; n of them.
        threads : int, optional
            Number of threads.

        Returns
        -------
        float

        Raises
        ------
        ParameterError, ParameterTypeError, DataError
            If a report is not an outcome, or there are not n of them.
        """
        return float(self.estimate(self.mean.channel.aggregate(reports, threads=threads).counts))
