"""Mean and covariance of clipped records from one release of exact sums of products."""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpcore import accounting
from dpcore._dataclasses import dataclass
from dpcore._html import columns_table, guarantee
from dpcore._spread import check_confidence, tail_of, tail_width
from dpcore._validation import REAL_DTYPES, check_array, check_positive, check_real, check_threads
from dpcore.errors import ParameterError
from dpcore.inference import _gram
from dpcore.inference._parameters import check_records
from dpcore.noise import FLOAT_SCALE
from dpcore.privacy import Guaranteed, Privacy

if TYPE_CHECKING:
    from dpcore.rng import Stream

Array = npt.NDArray[np.float64]

MEAN_SHARE = 0.5
"""s: the sum of the records is released as √s·B times itself. With 1/2, the noise in products and that in sums are each 1.25 times what
they are alone."""
_UP = 1 + 2.0**-40
"""Outweighs the roundings of the scales."""


@dataclass(frozen=True, slots=True, eq=False)
class CovarianceEstimate(Guaranteed):
    """A private covariance matrix, with the mean that belongs to it.

    Attributes
    ----------
    value : ndarray of float64, shape (d, d)
        The covariance matrix, symmetric and with eigenvalues of at least 0: those below are raised to 0, which needs no data.
    mean : ndarray of float64, shape (d,)
        The mean of the clipped records.
    privacy : Privacy
        (ε, δ) of both together, for data sets that differ by the value of one record.
    stderr : ndarray of float64, shape (d, d)
        Standard deviation of the noise in each mean product of two clipped and centred coordinates; beside the diagonal 1/√2 of that on it.
    mean_stderr : float
        Standard deviation of the noise in each coordinate of the mean.
    radius : float
        Clipping radius B about the centre.
    n : int
        Number of records.
    raw : ndarray of float64, shape (d, d)
        The covariance matrix before its eigenvalues are raised.
    centred_mean : ndarray of float64, shape (d,)
        The mean as a distance from the centre.
    """

    value: Array
    mean: Array
    privacy: Privacy
    stderr: Array
    mean_stderr: float
    radius: float
    n: int
    raw: Array = field(kw_only=True, repr=False)
    centred_mean: Array = field(kw_only=True, repr=False)

    def interval(self, confidence: float = 0.95) -> Array:
        """Return an interval for each entry of the covariance matrix of the clipped and rounded records.

        Parameters
        ----------
        confidence : float, default 0.95
            Coverage of each interval on its own, in (0, 1).

        Returns
        -------
        ndarray of float64, shape (d, d, 2)
            Lower and upper ends, about `raw`. The entry lies between them with probability at least `confidence`, for every data set; the
            probability is that of the noise.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `confidence` is not in (0, 1).

        Notes
        -----
        An entry is S − m·m', three numbers with normal noise. Each is within its own width of the exact number with probability
        1 − (1 − confidence)/3, and then S − m·m' is within ``h + |m|h' + |m'|h' + h'²``. Clipping is not covered, nor a population.
        """
        tail = tail_of(check_confidence(confidence)) / 3
        single, square = (tail_width("gaussian", scale, tail) * (1 + 1e-9) for scale in (self.mean_stderr, float(self.stderr[0, 0])))
        size = np.abs(self.centred_mean)
        products = np.full(self.raw.shape, square)
        if len(size) > 1:
            products[~np.eye(len(size), dtype=bool)] = tail_width("gaussian", float(self.stderr[0, 1]), tail) * (1 + 1e-9)
        half = products + single * (size[:, None] + size[None, :]) + single**2
        half += 2.0**-40 * (np.abs(self.raw) + np.outer(size, size) + self.radius**2)  # what float64 rounds
        return np.stack([self.raw - half, self.raw + half], axis=-1)

    def _repr_html_(self) -> str:
        columns = {"coordinate": list(range(len(self.mean))), "mean": self.mean.tolist(), "variance": np.diag(self.value).tolist()}
        return columns_table(f"Mean and covariance of {self.n:,} records: {guarantee(self.privacy)}", columns)


def covariance(
    records: npt.ArrayLike,
    epsilon: float,
    delta: float,
    radius: float,
    *,
    center: npt.ArrayLike = 0.0,
    rng: Stream | None = None,
    threads: int | None = None,
) -> CovarianceEstimate:
    r"""Release the mean and the covariance matrix of records that are clipped to a ball.

    Parameters
    ----------
    records : array_like, shape (n, d)
        n ≥ 1 records of any strides, d at most 4096. Each is moved into the ball of this radius about `center`, along the line between
        them; infinite coordinates count as the largest number.
    epsilon : float
        Privacy loss ε, positive and finite.
    delta : float
        Failure mass δ, in (0, 1).
    radius : float
        ℓ2 radius B of the ball, in [2^-400, 2^400]. Do not choose it by looking at the data.
    center : float or array_like of float, shape (d,), default 0.0
        Centre of the ball, finite. A centre near the mean allows a smaller radius. Do not choose it by looking at the data.
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads for the noise; the products use those of NumPy's linear algebra.

    Returns
    -------
    CovarianceEstimate
        The covariance matrix, the mean, their guarantee and standard errors.

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
    Guarantee: (ε, δ)-differential privacy. The function releases Σxx' and Σx of the clipped, centred records with Gaussian noise, and
    computes everything else from these. Replacing a record v by w moves all entries of Σxx' and √s·B·Σx, s = ½, together by at most
    √2·B²(1 + s/2) in ℓ2 norm: with u = (v, B√(s/2)) and z = (w, B√(s/2)), the square is ‖uu' − zz'‖² = ‖u‖⁴ + ‖z‖⁴ − 2(u'z)².
    `accounting.analytic_gaussian_scale` calibrates one noise to that. Entries beside the diagonal count twice, once with 1/√2 of the noise.

    The sensitivity holds for the computed numbers: each clipped row is rounded to integers, 2^20 for the radius, its norm is checked as an
    integer, and the products are summed exactly. Rounding moves a coordinate by at most B·2⁻²⁰(1 + √d/2).

    Cost: n·d² multiplications, in blocks of 8192 rows, and an eigenvalue decomposition.

    References
    ----------
    Dwork, Talwar, Thakurta & Zhang (2014), Algorithm 1, for the products; Balle & Wang (2018), Theorem 8.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(1).normal(0, 1, (100_000, 2)) @ [[1.0, 0.5], [0.0, 1.0]]
    >>> estimate = covariance(x, epsilon=1.0, delta=1e-6, radius=5.0)
    >>> bool(np.abs(estimate.value - [[1.0, 0.5], [0.5, 1.25]]).max() < 0.05), round(float(estimate.stderr[0, 0]), 4)
    (True, 0.0019)
    """
    rows = check_records("records", records, 2)
    d = rows.shape[1]
    _gram.check_columns("records", d)
    epsilon = check_positive("epsilon", epsilon)
    delta = check_real("delta", delta, low=0.0, high=1.0, include_low=False, include_high=False)
    radius = check_real("radius", radius, low=2.0**-400, high=2.0**400)
    middle = checked_center(center, d)
    check_threads(threads)
    scales = noise_scales(epsilon, delta)
    n, unit = len(rows), float(_gram.RADIUS**2)
    products = _gram.cross_products(rows, np.ones(n), radius, 1.0, center=middle, name="records")
    upper = np.triu_indices(d)
    # the last number is n·K², which is public; its noise is not used
    split = np.where(np.equal(*upper), 1.0, math.sqrt(0.5) * _UP)
    sigma = np.concatenate([scales[0] * split, np.full(d + 1, scales[1])]) * unit
    noisy = np.asarray(products.noisy("gaussian", sigma, rng=rng, threads=threads)) / unit / n
    second = np.zeros((d, d))
    second[upper] = noisy[: len(upper[0])]
    second += np.triu(second, 1).T
    mean = noisy[len(upper[0]) : -1]
    raw = (second - np.outer(mean, mean)) * radius**2
    stderr = np.where(np.eye(d, dtype=bool), 1.0, math.sqrt(0.5) * _UP) * (scales[0] / n * radius**2)
    return CovarianceEstimate(
        _raised(raw), middle + mean * radius, Privacy(epsilon, delta), stderr, scales[1] / n * radius, radius, n,
        raw=raw, centred_mean=mean * radius,
    )  # fmt: skip


def noise_scales(epsilon: float, delta: float) -> tuple[float, float]:
    """Noise of the squares and of the sums, in units of B² and B."""
    unit = accounting.analytic_gaussian_scale(epsilon, delta, 1.0) * _UP
    first = math.sqrt(2.0) * (1 + MEAN_SHARE / 2) * unit
    second = first / math.sqrt(MEAN_SHARE) * _UP
    if second * _gram.RADIUS**2 > FLOAT_SCALE[1]:
        raise ParameterError(f"epsilon={epsilon!r} and delta={delta!r} must give a noise scale below 2**960, got {second!r}")
    return first, second


def checked_center(center: npt.ArrayLike, d: int) -> Array:
    """The centre as d finite numbers, else raise."""
    array = check_array("center", center, REAL_DTYPES).astype(np.float64)
    if array.shape not in {(), (d,)}:
        raise ParameterError(f"center must be a number or have shape ({d},), one number for each column, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ParameterError(f"center must be finite, got {float(array[~np.isfinite(array)][0])!r}")
    return np.broadcast_to(array, (d,)).copy()


def _raised(raw: Array) -> Array:
    """The nearest matrix without negative eigenvalues."""
    eigenvalues, vectors = np.linalg.eigh(raw)
    if eigenvalues[0] >= 0:
        return raw
    raised = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
    return np.asarray((raised + raised.T) / 2)
