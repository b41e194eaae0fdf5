"""Linear estimators under local privacy: the mean of one-bit reports about a bounded function ℓ_h, with bias and variance bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._validation import INTEGER_DTYPES, REAL_DTYPES, check_array, check_integer, check_positive, check_real
from dpcore.errors import DataError, ParameterError
from dpcore.local import BinaryChannel, Estimate
from dpcore.local.estimates import moved
from dpcore.minimax._binomial import MOST_REPORTS
from dpcore.minimax.losses import as_loss, squared
from dpcore.minimax.spaces.certified import Maximiser

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.minimax.losses import Loss
    from dpcore.minimax.spaces.models import Model
    from dpcore.rng import Stream

    Array = npt.NDArray[np.float64]

CELLS = 4096
"""Cells of the integral that bounds a risk."""


@dataclass(frozen=True, slots=True)
class _OfRecords:
    """A function of records of several numbers, for a channel that takes records as items."""

    ell: Callable[[Any], Any]

    def __call__(self, records: Any) -> Any:
        return self.ell(records["numbers"])


@dataclass(frozen=True)
class LinearEstimator:
    r"""The mean of ±z0 reports about a bounded function ℓ of a record, which is unbiased for E ℓ and estimates θ with bias E ℓ − θ.

    Parameters
    ----------
    ell : sequence of float, or callable
        Table on codes, or vectorised function of records.
    epsilon : float
        Privacy loss ε of one report, in [2^−20, 700].
    bound : float, optional
        ‖ℓ‖∞: values are clamped to [−bound, bound]. Required for a callable; by default the largest magnitude of a table.
    bias : float, optional
        Bound of \|center + E ℓ − θ\| over the model of interest, if it is known; for `risk_bound` and intervals.
    center : float, default 0.0
        What is added to every estimate: a function that is centred has a smaller bound.
    dimension : int, optional
        Numbers of a record, which lie along the last axis of the data; by default a record is one number, or one code.
    h : float, optional
        The bandwidth or inverse clipping level behind `ell`, for information.

    Attributes
    ----------
    channel : BinaryChannel
        What privatises a record: ±z0 with probability ½(1 ± ℓ/z0), z0 = bound·(e^ε + 1)/(e^ε − 1).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    With t = (e^ε − 1)/(e^ε + 1), the variance of the estimate is (z0² − (E ℓ)²)/n ≤ bound²/(n t²): of ℓ only its largest magnitude counts,
    not its variance. Hence the squared risk is at most bias² + bound²/(n t²), which the ready-made estimators minimise in h.
    Steinberger (2019) announces these estimators in Section 3.2.3, which is empty; source: Rohde & Steinberger (2020), Section 4.

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
            raise ParameterError("dimension is for a callable ell; a table is of codes, one a record")
        values = check_array("ell", self.ell, REAL_DTYPES).astype(np.float64)
        if self.bound is not None:
            bound = check_positive("bound", self.bound)
            values = np.clip(values, -bound, bound)
        channel = BinaryChannel(self.epsilon, tuple(values.tolist()))
        object.__setattr__(self, "ell", channel.phi)
        return channel

    def privatize(
        self, records: Any, *, rng: Stream | None = None, out: npt.NDArray[np.bool_] | None = None, threads: int | None = None
    ) -> Any:
        """Report one bit about every record.

        Parameters
        ----------
        records : array_like
            Records, any shape; with `dimension` the numbers of a record along the last axis.
        rng : Stream, optional
            None is the secure source.
        out : ndarray of bool, optional
            Of the records' shape.
        threads : int, optional
            Number of threads; None picks.

        Returns
        -------
        bool or ndarray of bool
            True stands for +z0; see `BinaryChannel.privatize`, also for errors.
        """
        return self.channel.privatize(self._records(records), rng=rng, out=out, threads=threads)

    def _records(self, records: Any) -> Any:
        """The data as the channel takes them: with `dimension`, an item for each record."""
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
            What `privatize` made, or what `channel.aggregate` made of it.

        Returns
        -------
        Estimate
            center + mean of Z, its standard error, and an interval: the normal one for center + E ℓ, wider on both sides by the bias if it
            is known, so that it covers θ.
        """
        return moved(self.channel.estimate(reports), self.center, margin=self.bias or 0.0)

    def estimate_counts(self, counts: Any, *, n: int) -> Any:
        """Estimate θ from the numbers of +z0 among n reports, of many data sets at once.

        Parameters
        ----------
        counts : array_like of int, shape (...) or (..., 2)
            Counts of True; with a last axis of 2, of False and of True, as the channel's columns are.
        n : int
            Number of reports.

        Returns
        -------
        float or ndarray of float64, shape (...)

        Raises
        ------
        DataError, ParameterError
            If counts are not in [0, n], or do not sum to n.
        """
        n = check_integer("n", n, low=1, high=MOST_REPORTS)
        return mean_of_signs(plus_counts(counts, n), n, self.channel.z0) + self.center

    def risk_bound(self, *, n: int, loss: Loss | str = "squared") -> float:
        """Bound the risk at n reports over the model that `bias` speaks of.

        Parameters
        ----------
        n : int
            Number of reports.
        loss : Loss or str, default "squared"
            As in `dpcore.minimax.losses`.

        Returns
        -------
        float
            bias² + z0²/n for squared loss; see `risk_of`.

        Raises
        ------
        ParameterError
            If `bias` is not known.
        """
        if self.bias is None:
            raise ParameterError("bias must be given to the estimator before its risk can be bounded; `on(model, n=n)` computes it")
        n = check_integer("n", n, low=1, high=MOST_REPORTS)
        return risk_of(as_loss(loss), self.bias, self.channel.z0 / math.sqrt(n), 2 * self.channel.z0)

    def on(self, model: Model, *, n: int) -> LinearOnModel:
        """Look at the estimator on a model on finitely many points, with n reports.

        Parameters
        ----------
        model : Model
            Its points are the records; a table ℓ needs a value for each point.
        n : int
            Number of reports.

        Returns
        -------
        LinearOnModel
            For `simulate_risk`, `worst_distribution`, and a risk bound with the bias that the estimator has there.
        """
        return LinearOnModel(self, model, check_integer("n", n, low=1, high=MOST_REPORTS))


@dataclass(frozen=True, eq=False)
class LinearOnModel:
    """A linear estimator from n reports about records of a model; made by `LinearEstimator.on`.

    Attributes
    ----------
    linear : LinearEstimator
        The estimator.
    model : Model
        The distributions, on finitely many points.
    n : int
        Number of reports.
    """

    linear: LinearEstimator
    model: Model
    n: int

    def __post_init__(self) -> None:
        _ = self.weights

    @cached_property
    def weights(self) -> Array:
        """ℓ at the model's points, shape (X,): values of a callable at the points, clamped, or a table of that length."""
        linear, model = self.linear, self.model
        if isinstance(linear.ell, tuple):
            if len(linear.ell) != model.size:
                raise ParameterError(f"model must have {len(linear.ell)} points, as many as the table of the estimator, got {model.size}")
            return np.array(linear.ell)
        if model.points is None:
            raise ParameterError("model must have points where the function of the estimator is evaluated")
        ell: Any = linear.ell
        found = np.asarray(ell(model.points), np.float64)
        if found.shape != (model.size,) or np.isnan(found).any():
            raise ParameterError(f"ell must give a number at each of the {model.size} points, got shape {found.shape}")
        return np.clip(found, -linear.channel.norm, linear.channel.norm)

    @cached_property
    def channel(self) -> Array:
        """The channel at the model's points, shape (X, 2): P(−z0) and P(+z0)."""
        tilt = self.weights / self.linear.channel.z0
        return np.stack([(1 - tilt) / 2, (1 + tilt) / 2], axis=1)

    @cached_property
    def bias(self) -> float:
        r"""The largest \|center + E ℓ − θ\| over the model, by two linear programmes, rounded up by weak duality."""
        difference, maximise = self.linear.center + self.weights - self.model.f, Maximiser(self.model)
        return max(0.0, maximise(difference)[0], maximise(-difference)[0])

    def estimate(self, counts: Any) -> Any:
        """Estimate θ from counts; see `LinearEstimator.estimate_counts`."""
        return self.linear.estimate_counts(counts, n=self.n)

    def risk_bound(self, loss: Loss | str = "squared") -> float:
        """Bound the risk over the model; see `LinearEstimator.risk_bound`."""
        z0 = self.linear.channel.z0
        return risk_of(as_loss(loss), self.bias, z0 / math.sqrt(self.n), 2 * z0)


# What both share


def plus_counts(counts: Any, n: int) -> npt.NDArray[np.int64]:
    """Return the counts of +z0 as int64, shape (...), if they are such counts."""
    array = check_array("counts", counts, INTEGER_DTYPES)
    pairs = array.ndim > 1 and array.shape[-1] == 2
    plus = array[..., 1] if pairs else array
    bad = (plus < 0) | (plus > n)
    if pairs:
        bad |= array[..., 0] != n - plus.astype(np.int64)
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise DataError(f"counts must be in [0, {n}] and sum to {n}; those at index {index} are not")
    return plus.astype(np.int64)


def mean_of_signs(plus: npt.NDArray[np.int64], n: int, z0: float) -> Any:
    """The mean of n reports ±z0, `plus` of which are +z0."""
    means = z0 * ((2 * plus - n) / n)
    return float(means) if means.ndim == 0 else means


def risk_of(loss: Loss, bias: float, spread: float, reach: float) -> float:
    r"""Bound E l(\|e\|) for an error e = b + Y, \|b\| ≤ bias, of which Y is a mean of ±z0 reports less its expectation.

    Parameters
    ----------
    loss : Loss
        Not decreasing.
    bias : float
        Bound of b.
    spread : float
        z0/√n, which the standard deviation of Y does not exceed.
    reach : float
        2 z0, which \|Y\| does not exceed.

    Returns
    -------
    float
        bias² + spread² for squared loss. For others the smaller of two bounds: by Jensen's inequality l(√(bias² + spread²)), if l is a
        concave function of the square; and ∫ P(\|Y\| > y) dl(bias + y) with Hoeffding's P(\|Y\| > y) ≤ 2 exp(−y²/(2 spread²)), the
        integral as an upper sum.
    """
    if loss == squared():
        return bias**2 + spread**2
    steps = np.append(np.linspace(0.0, min(40 * spread, reach), CELLS), reach)
    tails = np.minimum(1.0, 2 * np.exp(-((steps[:-1] / spread) ** 2) / 2))
    values = np.asarray(loss(bias + steps), np.float64)
    bound = float(values[0] + tails @ np.diff(values)) * (1 + 1e-12)
    return min(bound, float(loss(math.hypot(bias, spread)))) if loss.kind == "huber" or loss.parameter <= 2 else bound
