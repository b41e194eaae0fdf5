"""Means of clipped records: dense (Private inference, chapter 9, Algorithm 9.2.1) and sparse (Algorithm 9.2.2)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from dpcore import accounting, selection
from dpcore._dataclasses import dataclass
from dpcore._html import columns_table, guarantee
from dpcore._spread import check_confidence
from dpcore._validation import REAL_DTYPES, check_array, check_choice, check_integer, check_positive, check_threads
from dpcore.errors import ParameterError
from dpcore.inference._parameters import (
    Radius,
    check_failure,
    check_records,
    check_sigma,
    clipping_radius,
    l2_of_equal,
)
from dpcore.inference._tails import check_target, half_width_of, noise_p_value, sum_p_value
from dpcore.noise import FLOAT_SCALE
from dpcore.privacy import Guaranteed, Privacy
from dpcore.sums import ExactSum, clipped_sum

if TYPE_CHECKING:
    import scipy.sparse

    from dpcore.rng import Stream

Array = npt.NDArray[np.float64]
Target = Literal["sample", "population"]


@dataclass(frozen=True, slots=True, eq=False)
class MeanEstimate(Guaranteed):
    """A private mean.

    Attributes
    ----------
    value : float or ndarray of float64, shape (d,)
        An unbiased estimate of the mean of the clipped records.
    privacy : Privacy
        (ε, δ), for data sets that differ by the value of one record.
    stderr : float
        Standard deviation of the noise in each coordinate: the exact standard error about the mean of the clipped records.
    population_stderr : float
        Upper bound of the standard error about the expectation of a clipped record, for independent records: √(stderr² + v/n) with
        v = min(R², 2σ²), or R² if no σ was given.
    radius : float
        Clipping radius R that was used.
    noise : {"gaussian", "laplace"}
        Law of the noise.
    scale : float
        Gaussian σ or Laplace b of the noise in the sum of the records.
    n : int
        Number of records.
    """

    value: float | npt.NDArray[np.float64]
    privacy: Privacy
    stderr: float
    population_stderr: float
    radius: float
    noise: Literal["gaussian", "laplace"]
    scale: float
    n: int

    def interval(self, confidence: float = 0.95, *, target: Target = "sample") -> Array:
        """Return an interval for each coordinate of the mean of the clipped records, or of their expectation.

        Parameters
        ----------
        confidence : float, default 0.95
            Coverage of each interval on its own, in (0, 1).
        target : {"sample", "population"}, default "sample"
            Whether to cover the mean of the clipped records of this data set, where the noise alone is random, or the expectation of a
            clipped record, where records are independent draws.

        Returns
        -------
        ndarray of float64, shape (2,) or (d, 2)
            The lower and upper ends: `value` minus and plus the same half-width. The target lies in the interval with probability at least
            `confidence`, for every data set or every law of the records.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.

        Notes
        -----
        The interval does not cover what clipping changed. For the sample it is that of the exact noise, and for the population that of
        Hoeffding's and Chernoff's bounds for records in [−R, R] and noise together. To cover all d coordinates at once, ask for the
        confidence 1 − (1 − c)/d.
        """
        half = half_width_of(self.noise, self.scale, check_confidence(confidence), check_target(target), n=self.n, radius=self.radius)
        return _interval(self.value, half / self.n)

    def p_value(self, null: npt.ArrayLike, *, target: Target = "sample") -> float | Array:
        """Return a p-value for each coordinate of the hypothesis that the mean of the clipped records is `null`.

        Parameters
        ----------
        null : float or array_like of float, shape (d,)
            The hypothetical mean, finite.
        target : {"sample", "population"}, default "sample"
            As in `interval`.

        Returns
        -------
        float or ndarray of float64, shape (d,)
            Under the hypothesis it is at most t with probability at most t, for every t: by the exact law of the noise for the sample. It
            is computed from `value`, so it costs no privacy. An interval of confidence c holds the means with a p-value above 1 − c.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.

        Examples
        --------
        >>> import numpy as np
        >>> estimate = mean(np.full(10_000, 0.5), epsilon=1.0, delta=0.0, radius=1.0)
        >>> bool(estimate.p_value(0.0) < 1e-9), bool(estimate.p_value(estimate.value) > 0.99)
        (True, True)
        """
        value, expected = np.asarray(self.value), check_array("null", null, REAL_DTYPES).astype(np.float64)
        if not np.isfinite(expected).all() or expected.shape not in {(), value.shape}:
            raise ParameterError(f"null must be finite and of the shape of value, {value.shape}, got shape {expected.shape}")
        # what the division by n and the difference round
        with np.errstate(over="ignore"):  # beyond the range of float64 is far enough
            apart = (np.abs(value - expected) - 4 * np.spacing(np.maximum(np.abs(value), np.abs(expected)))) * self.n
        if check_target(target) == "sample":
            found = noise_p_value(self.noise, self.scale, apart)
        else:
            found = sum_p_value(self.noise, self.scale, apart, n=self.n, radius=self.radius)
        return float(found) if found.ndim == 0 else found

    def _repr_html_(self) -> str:
        value = np.atleast_1d(self.value)
        interval = self.interval().reshape(-1, 2)
        columns = {
            "coordinate": list(range(len(value))),
            "mean": value.tolist(),
            "from": interval[:, 0].tolist(),
            "to": interval[:, 1].tolist(),
        }
        return columns_table(f"Mean of {self.n:,} records and 95 % intervals of the noise: {guarantee(self.privacy)}", columns)


@dataclass(frozen=True, slots=True, eq=False)
class SparseMeanEstimate(Guaranteed):
    """A private mean with s coordinates other than 0.

    Attributes
    ----------
    value : scipy.sparse.coo_array, shape (d,)
        The chosen coordinates, in order of selection. Given the choice, each is an unbiased estimate of the clipped mean of its coordinate.
    privacy : Privacy
        (ε, δ) of choice and values together, for data sets that differ by the value of one record.
    stderr : float
        Standard deviation of the noise of each value.
    population_stderr : float
        As in `MeanEstimate`, for each chosen coordinate.
    indices : ndarray of int64, shape (s,)
        The chosen coordinates in order of selection.
    radius : float
        Clipping radius R that was used.
    scale, value_scale : float
        Scale of the noise that chose, and Laplace scale of the values, both for sums of the records.
    rule : str
        Rule of composition that proves (ε, δ).
    n : int
        Number of records.
    """

    value: scipy.sparse.coo_array
    privacy: Privacy
    stderr: float
    population_stderr: float
    indices: npt.NDArray[np.int64]
    radius: float
    scale: float
    value_scale: float
    rule: str
    n: int

    def interval(self, confidence: float = 0.95) -> Array:
        """Return an interval for each chosen coordinate of the mean of the clipped records.

        Parameters
        ----------
        confidence : float, default 0.95
            Coverage of each interval on its own, in (0, 1).

        Returns
        -------
        ndarray of float64, shape (s, 2)
            The lower and upper ends, in the order of `indices`. For any choice of coordinates, the mean of the clipped records lies in the
            interval with probability at least `confidence`: the noise in the values is independent of the choice.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `confidence` is not in (0, 1).

        Notes
        -----
        The intervals cover neither what clipping changed, nor the population, nor coordinates that were not chosen.
        """
        width = half_width_of("laplace", self.value_scale, check_confidence(confidence), "sample", n=self.n, radius=self.radius)
        half = width / self.n
        return _interval(self.value.data, half + self.radius * 2.0**-50)  # the sums were rounded to multiples of one number

    def _repr_html_(self) -> str:
        interval = self.interval()
        columns = {
            "coordinate": self.indices.tolist(),
            "mean": self.value.data.tolist(),
            "from": interval[:, 0].tolist(),
            "to": interval[:, 1].tolist(),
        }
        return columns_table(f"Sparse mean of {self.n:,} records and 95 % intervals of the noise: {guarantee(self.privacy)}", columns)


def _interval(value: float | Array, half: float) -> Array:
    """Stack value ∓ half, widened by what the division by n and these additions round."""
    half += 4 * float(np.spacing(min(np.abs(value).max() + half, 2.0**1000)))
    return np.stack([value - half, value + half], axis=-1)


def mean(
    records: npt.ArrayLike,
    epsilon: float,
    delta: float,
    radius: Radius,
    *,
    sigma: float | None = None,
    constant: float = 2.0,
    rng: Stream | None = None,
    threads: int | None = None,
) -> MeanEstimate:
    r"""Release the mean of records whose coordinates are clipped to [−R, R].

    Parameters
    ----------
    records : array_like, shape (n,) or (n, d)
        n ≥ 1 records of any strides; infinities are clipped.
    epsilon : float
        Privacy loss ε, positive and finite.
    delta : float
        Failure mass δ in [0, 1). The noise is Gaussian if δ > 0, else Laplace.
    radius : float or "sqrt_log_n"
        Clipping radius R in [2^-900, 2^900], or K·σ·√(ln n) of Theorem 9.2.2. Do not choose it by looking at the data.
    sigma : float, optional
        Sub-Gaussian parameter σ of each coordinate, E e^(λ(X−EX)) ≤ e^(λ²σ²); needed for "sqrt_log_n", else only for `population_stderr`.
    constant : float, default 2.0
        K of "sqrt_log_n".
    rng : Stream, optional
        Source of randomness; None is the secure source.
    threads : int, optional
        Number of threads; None chooses.

    Returns
    -------
    MeanEstimate
        The mean, its guarantee and standard errors.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.
    DataError
        If a number is NaN; the message has its index.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: (ε, δ)-differential privacy, for the released floats. Replacing a record moves each exact sum by at most 2R, so all of them
    by 2R√d in ℓ2 and 2Rd in ℓ1 norm. `accounting.analytic_gaussian_scale` or `accounting.laplace_scale` calibrates the noise to that. It
    is added to the exact sums; the division by n comes after.
    Cost: one pass over the data.

    The variance 4R²d·ln(1/δ)/(n²ε²) that the chapter prints is too small: at ε = 0.5 and δ = 10⁻⁶ the true δ is 4.16·10⁻⁶.

    References
    ----------
    Private inference (chapter 9), Algorithm 9.2.1 and Theorem 9.2.2, corrected; Balle & Wang (2018), Theorem 8.

    Examples
    --------
    >>> import numpy as np
    >>> estimate = mean(np.full((1000, 3), 0.5), epsilon=1.0, delta=1e-6, radius=1.0)
    >>> estimate.value.shape, round(estimate.stderr, 4)
    ((3,), 0.0146)
    """
    array = check_records("records", records, 1, 2)
    epsilon, delta, sigma = check_positive("epsilon", epsilon), check_failure(delta), check_sigma(sigma)
    bound = clipping_radius(radius, sigma, constant, len(array))
    check_threads(threads)
    d = 1 if array.ndim == 1 else array.shape[1]
    steps = clipped_sum(array[:0], bound)  # the radius on its grid, before any data
    kind, scale = noise_of_sums(epsilon, delta, steps, d)
    total = clipped_sum(array, bound, threads=threads)
    value = total.noisy(kind, scale, rng=rng, threads=threads) / len(array)
    stderr = (math.sqrt(2.0) if kind == "laplace" else 1.0) * scale / len(array)
    population = population_stderr(stderr, total, sigma)
    return MeanEstimate(value, Privacy(epsilon, delta), stderr, population, total.radius, kind, scale, len(array))


def noise_of_sums(epsilon: float, delta: float, total: ExactSum, d: int) -> tuple[Literal["gaussian", "laplace"], float]:
    """Law and scale of the noise that d sums need."""
    if delta > 0:
        scale = accounting.analytic_gaussian_scale(epsilon, delta, l2_of_equal(total.sensitivity(), d))
    else:
        scale = accounting.laplace_scale(epsilon, Fraction(total.sensitivity()) * d)  # type: ignore[arg-type]
    if not FLOAT_SCALE[0] <= scale <= FLOAT_SCALE[1]:
        raise ParameterError(
            f"epsilon={epsilon!r} and radius={total.radius!r} must give a noise scale in [2**-960, 2**960], got scale {scale!r}"
        )
    return ("gaussian" if delta > 0 else "laplace"), scale


def population_stderr(stderr: float, total: ExactSum, sigma: float | None) -> float:
    """Noise and sampling together; clipping is a contraction, so a clipped coordinate's variance is at most 2σ², and at most R²."""
    deviation = total.radius if sigma is None else min(total.radius, math.sqrt(2.0) * sigma)
    return math.hypot(stderr, deviation / math.sqrt(total.n))


def sparse_mean(
    records: npt.ArrayLike,
    epsilon: float,
    delta: float,
    radius: Radius,
    *,
    s: int,
    method: Literal["peeling", "gumbel"] = "peeling",
    scale: float | Literal["calibrated"] | None = None,
    sigma: float | None = None,
    constant: float = 2.0,
    rng: Stream | None = None,
    threads: int | None = None,
) -> SparseMeanEstimate:
    r"""Release the s coordinates of a mean that are likely the largest in magnitude; all others are 0.

    Parameters
    ----------
    records : array_like, shape (n, d)
        n ≥ 1 records of any strides; d may be 10^6. Infinities are clipped.
    epsilon : float
        Privacy loss ε of choice and values together, positive and finite.
    delta : float
        Failure mass δ in [0, 1).
    radius : float or "sqrt_log_n"
        As in `mean`.
    s : int
        Number of coordinates to release, in [1, d].
    method : {"peeling", "gumbel"}, default "peeling"
        Algorithm 9.2.2 step by step, or its one-shot variant with Gumbel noise, which needs less noise.
    scale : float or "calibrated", optional
        As in `dpcore.selection.top_s`; for "peeling", None is b = 2λ√(3 s ln(1/δ))/ε of Algorithm 9.2.2, after a check.
    sigma : float, optional
        As in `mean`.
    constant : float, default 2.0
        As in `mean`.
    rng : Stream, optional
        Source of randomness; None is the secure source.
    threads : int, optional
        Number of threads; None chooses.

    Returns
    -------
    SparseMeanEstimate
        The mean, its guarantee and standard errors.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type, or composition does not prove (ε, δ) for the scale.
    DataError
        If a number is NaN; the message has its index.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: (ε, δ)-differential privacy of choice and values together. Scores and values are made of `ExactSum.rounded`: float64 numbers
    that one record moves by at most λ = 2R, rounded up by less than n·2⁻⁵² of it.
    Cost: one pass over the data and `dpcore.selection.top_s` on d scores.

    References
    ----------
    Private inference (chapter 9), Algorithm 9.2.2 and Theorem 9.2.4.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.zeros((10_000, 50))
    >>> x[:, [7, 30]] = 1.0, -1.0
    >>> estimate = sparse_mean(x, epsilon=1.0, delta=1e-6, radius=1.0, s=2)
    >>> sorted(estimate.indices.tolist()), estimate.value.shape
    ([7, 30], (50,))
    """
    array = check_records("records", records, 2)
    epsilon, delta, sigma = check_positive("epsilon", epsilon), check_failure(delta), check_sigma(sigma)
    bound = clipping_radius(radius, sigma, constant, len(array))
    s = check_integer("s", s, low=1, high=array.shape[1])
    check_choice("method", method, ("peeling", "gumbel"))
    check_threads(threads)
    total = clipped_sum(array, bound, threads=threads)
    sums, sensitivity = total.rounded()
    chosen = selection.top_s(
        np.abs(sums), epsilon, sensitivity, s=s, delta=delta, method=method, scale=scale, values=sums, rng=rng, threads=threads
    )
    n = len(array)
    stderr = math.sqrt(2.0) * float(chosen.value_scale or 0.0) / n
    return SparseMeanEstimate(
        _sparse(chosen, n, array.shape[1]), chosen.privacy, stderr, population_stderr(stderr, total, sigma), chosen.indices, total.radius,
        chosen.scale, float(chosen.value_scale or 0.0), chosen.rule, n,
    )  # fmt: skip


def _sparse(chosen: selection.Selection, n: int, d: int) -> Any:
    from scipy.sparse import coo_array  # loaded only where a sparse array is made

    return coo_array((np.asarray(chosen.values) / n, (chosen.indices,)), shape=(d,))
