"""Linear regression by perturbed sufficient statistics with an adaptive ridge (AdaSSP)."""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from dpcore import accounting
from dpcore._dataclasses import dataclass
from dpcore._html import columns_table, guarantee
from dpcore._spread import check_confidence
from dpcore._validation import check_beta, check_positive, check_real, check_threads
from dpcore.errors import ParameterError
from dpcore.inference import _gram
from dpcore.inference._parameters import check_records
from dpcore.inference._regression_limits import RegressionLimits
from dpcore.inference._tails import check_target
from dpcore.noise import FLOAT_SCALE
from dpcore.privacy import Guaranteed, Privacy
from dpcore.sums import ExactSum

if TYPE_CHECKING:
    from dpcore.rng import Stream

Array = npt.NDArray[np.float64]

SHARES = (0.45, 0.45, 0.1)
"""Shares of X'X, X'y and y'y in the budget: of (sensitivity/σ)², which add up for Gaussian noise."""
_UP = 1 + 2.0**-40
"""Outweighs the roundings of the scales."""


@dataclass(frozen=True, slots=True, eq=False)
class RegressionEstimate(Guaranteed):
    """Private coefficients of a linear regression.

    Attributes
    ----------
    value : ndarray of float64, shape (d,)
        Coefficients θ of y ≈ xθ. For an intercept, add a column of ones to x.
    privacy : Privacy
        (ε, δ), for data sets that differ by the value of one record.
    stderr : ndarray of float64, shape (d,)
        Standard errors that include the privacy noise and the bias of the ridge. They are computed from released numbers.
    ridge : float
        λ that was added to the diagonal of X'X; 0 if there are enough data.
    residual_scale : float
        Estimate of the standard deviation of y − xθ.
    scales : tuple of float
        Standard deviations of the noise in X'X, X'y and y'y.
    n : int
        Number of records.
    limits : object
        The released statistics, from which `interval` is computed.
    """

    value: Array
    privacy: Privacy
    stderr: Array
    ridge: float
    residual_scale: float
    scales: tuple[float, float, float]
    n: int
    limits: RegressionLimits = field(kw_only=True, repr=False)

    def interval(self, confidence: float = 0.95, *, target: Literal["sample", "population"] = "sample") -> Array:
        """Return intervals of all coefficients, which hold at once.

        Parameters
        ----------
        confidence : float, default 0.95
            Probability, in (0, 1), with which all intervals hold at once.
        target : {"sample", "population"}, default "sample"
            "sample": the coefficients of least squares on the clipped records of this data set, without noise and ridge; the noise alone is
            random. "population": those of the best linear prediction of a clipped response by a clipped row, for records that are
            independent draws of any law; noise and records are random.

        Returns
        -------
        ndarray of float64, shape (d, 2)
            Lower and upper ends. Without a ridge they are about `value`. If the noise is so large that X'X might be singular, all are
            −inf and inf.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.

        Notes
        -----
        At the true θ the released b − Aθ = ν − Nθ is normal with a known covariance, so it is within the quantile of χ² with d degrees of
        freedom, in every direction: that holds for every data set, and needs no law of residuals. For a population, McDiarmid's inequality
        bounds the sum of x(y − xθ) over the records; there the interval is much longer than `stderr`, which assumes equal variances.
        Proof: docs/exactness-bands.md.
        Cost: an inverse and some products of matrices.
        """
        return self.limits(check_confidence(confidence), check_target(target))

    def _repr_html_(self) -> str:
        columns = {"column": list(range(len(self.value))), "coefficient": self.value.tolist(), "standard error": self.stderr.tolist()}
        return columns_table(f"Linear regression on {self.n:,} records, ridge {self.ridge:.4g}: {guarantee(self.privacy)}", columns)


def linear_regression(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    epsilon: float,
    delta: float,
    *,
    x_radius: float,
    y_radius: float,
    beta: float = 0.05,
    rng: Stream | None = None,
    threads: int | None = None,
) -> RegressionEstimate:
    r"""Release the coefficients of a linear regression.

    Parameters
    ----------
    x : array_like
        (n, d) real numbers, d at most 4096. Each row is clipped to the ball of radius `x_radius`.
    y : array_like
        (n,) real numbers, clipped to [−y_radius, y_radius].
    epsilon : float
        Privacy loss ε, positive and finite.
    delta : float
        Failure mass δ, in (0, 1).
    x_radius : float
        ℓ2 radius B of the rows, in [2^-400, 2^400].
    y_radius : float
        Radius Y of the responses, in [2^-400, 2^400].
    beta : float, default 0.05
        Probability, in (0, 1), with which the ridge may be too small for the noise.
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads for the noise; the products use those of NumPy's linear algebra.

    Returns
    -------
    RegressionEstimate
        Coefficients, standard errors, the guarantee, and the ridge that was used.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type, or x and y do not have one length.
    DataError
        If a number is NaN; the message has its index.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: (ε, δ)-differential privacy. The function releases X'X, X'y and y'y with Gaussian noise and computes everything else from
    these. Replacing a record moves the upper triangle of X'X by at most √2·B² in ℓ2 norm, X'y by 2BY, y'y by Y². The (sensitivity/σ)² add
    up to that of one Gaussian mechanism, which `accounting.analytic_gaussian_scale` calibrates.

    The sensitivities hold for the computed numbers: each clipped row is rounded to integers, 2^20 for the radius, its norm is checked as
    an integer, and the products are summed exactly.

    The ridge is λ = max(0, σ√(d ln(2d²/β)) − λ_min), σ the noise in X'X, so that the inverted matrix is positive definite. AdaSSP
    spends a third of the budget on λ_min. Here it is read from the noisy matrix at no cost, and no guarantee depends on the accuracy of an
    eigenvalue routine. Then θ = (X'X + λ)⁻¹X'y, and

    stderr² = diag of (X'X + λ)⁻¹ [s²·X'X + σ₂² + Cov(Nθ)] (X'X + λ)⁻¹, plus the square of λ(X'X + λ)⁻¹θ,

    N the noise in X'X: residuals, noise in X'y, noise in X'X, bias. s² is the residual variance plus one standard deviation of its noise.
    The formula assumes residuals of equal variance, independent of x, and data inside the radii; it does not include the effect of
    clipping. Simulated intervals of ±2 `stderr` covered 94 % or more; with strongly correlated columns and a ridge `stderr` may be too
    small by a factor of two and more, since its bias comes from coefficients that the ridge has shrunk. `interval` needs no assumption.

    Cost: n·d² multiplications, in blocks of 8192 rows.

    References
    ----------
    Wang (2018), Algorithm 2; Private inference (chapter 9), section 9.2.

    Examples
    --------
    >>> import numpy as np
    >>> plain = np.random.default_rng(1)
    >>> x = plain.uniform(-1, 1, (200_000, 2))
    >>> y = x @ [1.0, -0.5] + plain.normal(0, 0.1, 200_000)
    >>> fit = linear_regression(x, y, epsilon=1.0, delta=1e-6, x_radius=1.5, y_radius=2.0)
    >>> bool(np.all(np.abs(fit.value - [1.0, -0.5]) < 6 * fit.stderr)), fit.ridge
    (True, 0.0)
    """
    rows, responses = check_records("x", x, 2), check_records("y", y, 1)
    if len(rows) != len(responses):
        raise ParameterError(f"x and y must have one length, got {len(rows)} and {len(responses)}")
    d = rows.shape[1]
    _gram.check_columns("x", d)
    epsilon = check_positive("epsilon", epsilon)
    delta = check_real("delta", delta, low=0.0, high=1.0, include_low=False, include_high=False)
    x_radius = check_real("x_radius", x_radius, low=2.0**-400, high=2.0**400)
    y_radius = check_real("y_radius", y_radius, low=2.0**-400, high=2.0**400)
    beta = check_beta(beta)
    check_threads(threads)
    scales = noise_scales(epsilon, delta)
    products = _gram.cross_products(rows, responses, x_radius, y_radius)
    released = _noisy(products, d, scales, rng, threads)
    return _solved(released, scales, len(rows), Privacy(epsilon, delta), (x_radius, y_radius), beta)


def noise_scales(epsilon: float, delta: float) -> tuple[float, float, float]:
    """Noise of the three statistics in units of K²: sensitivities √2, 2 and 1, and shares of the budget."""
    unit = accounting.analytic_gaussian_scale(epsilon, delta, 1.0) * _UP
    first, second, third = (s * unit / math.sqrt(share) for s, share in zip((math.sqrt(2.0), 2.0, 1.0), SHARES, strict=True))
    if third * _gram.RADIUS**2 > FLOAT_SCALE[1]:
        raise ParameterError(f"epsilon={epsilon!r} and delta={delta!r} must give a noise scale below 2**960, got {third!r}")
    return first, second, third


@dataclass(frozen=True, slots=True)
class _Statistics:
    """The released statistics, in units of the radii."""

    gram: Array
    cross: Array
    square: float


def _noisy(products: ExactSum, d: int, scales: tuple[float, ...], rng: Stream | None, threads: int | None) -> _Statistics:
    """All statistics in one release: the upper triangle of X'X, X'y, y'y."""
    upper, unit = np.triu_indices(d), float(_gram.RADIUS**2)
    sigma = np.repeat([scale * unit for scale in scales], [len(upper[0]), d, 1])
    noisy = np.asarray(products.noisy("gaussian", sigma, rng=rng, threads=threads)) / unit
    matrix = np.zeros((d, d))
    matrix[upper] = noisy[: len(upper[0])]
    return _Statistics(matrix + np.triu(matrix, 1).T, noisy[-d - 1 : -1], float(noisy[-1]))


def _solved(
    released: _Statistics, scales: tuple[float, float, float], n: int, privacy: Privacy, radii: tuple[float, float], beta: float
) -> RegressionEstimate:
    """Coefficients and standard errors from what was released alone."""
    d, (x_radius, y_radius) = len(released.cross), radii
    eigenvalues, vectors = np.linalg.eigh(released.gram)
    ridge = max(0.0, scales[0] * math.sqrt(d * math.log(2 * d * d / beta)) - float(eigenvalues[0]))
    inverse = (vectors / (eigenvalues + ridge)) @ vectors.T
    theta = inverse @ released.cross
    variance = _residual_variance(released, theta, scales, n)
    centre = variance * (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
    centre += scales[1] ** 2 * np.eye(d)
    centre += scales[0] ** 2 * (theta @ theta * np.eye(d) + np.outer(theta, theta) - np.diag(theta**2))
    stderr = np.sqrt(np.diag(inverse @ centre @ inverse) + (ridge * (inverse @ theta)) ** 2)
    unit, units = y_radius / x_radius, (x_radius**2, x_radius * y_radius, y_radius**2)
    given = tuple(scale * size for scale, size in zip(scales, units, strict=True))
    return RegressionEstimate(
        theta * unit, privacy, stderr * unit, ridge * x_radius**2, math.sqrt(variance) * y_radius, (given[0], given[1], given[2]), n,
        limits=RegressionLimits(released.gram, released.cross, scales[:2], n, unit),
    )  # fmt: skip


def _residual_variance(released: _Statistics, theta: Array, scales: tuple[float, float, float], n: int) -> float:
    """Mean square of y − xθ, at least 0, plus one standard deviation of what the noise does to it."""
    square = released.square - 2 * theta @ released.cross + theta @ released.gram @ theta
    size = float(theta @ theta)
    noise = math.sqrt(scales[2] ** 2 + 4 * scales[1] ** 2 * size + 2 * scales[0] ** 2 * size**2)
    return (max(0.0, float(square)) + noise) / max(1, n - len(theta))
