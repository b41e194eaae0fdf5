"""The functional mechanism: noise in the coefficients of a polynomial objective (Private inference, chapter 9, Exercise 2)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from dpcore import accounting
from dpcore._dataclasses import dataclass
from dpcore._html import columns_table, guarantee
from dpcore._validation import check_choice, check_positive, check_real, check_threads
from dpcore.errors import DataError, ParameterError
from dpcore.inference import _gram
from dpcore.inference._parameters import check_records
from dpcore.noise import FLOAT_SCALE
from dpcore.privacy import Guaranteed, Privacy
from dpcore.sums import ExactSum

if TYPE_CHECKING:
    from dpcore.rng import Stream

Array = npt.NDArray[np.float64]
Loss = Literal["squared", "logistic"]

RIDGE = 4.0
"""The least eigenvalue of the noisy matrix after the ridge, in standard deviations of its noise."""


@dataclass(frozen=True, slots=True, eq=False)
class FunctionalEstimate(Guaranteed):
    """The minimiser of a noisy objective θ'Qθ − ℓ'θ.

    Attributes
    ----------
    value : ndarray of float64, shape (d,)
        Coefficients θ that minimise the noisy objective with its ridge.
    privacy : Privacy
        (ε, 0), for data sets that differ by the value of one record.
    stderr : ndarray of float64, shape (d,)
        Standard deviation of the coefficients by the noise alone, to first order, with the bias of the ridge. Computed from released
        numbers.
    quadratic : ndarray of float64, shape (d, d)
        Q with its noise, symmetric: X'X for the squared loss, X'X/8 for the logistic one.
    linear : ndarray of float64, shape (d,)
        ℓ with its noise: 2X'y, or X'(y − ½).
    ridge : float
        λ that was added to the diagonal of Q; 0 if there are enough data.
    scales : tuple of float
        Laplace scales of the noise in the entries of Q, with j ≤ l, and of ℓ.
    loss : {"squared", "logistic"}
        The loss.
    n : int
        Number of records.
    """

    value: Array
    privacy: Privacy
    stderr: Array
    quadratic: Array
    linear: Array
    ridge: float
    scales: tuple[float, float]
    loss: Loss
    n: int

    def objective(self, theta: npt.ArrayLike) -> float:
        """Return the noisy objective θ'Qθ − ℓ'θ, without the ridge.

        Parameters
        ----------
        theta : array_like
            (d,) numbers.

        Returns
        -------
        float
            The sum of squares less y'y, or of logistic losses less n ln 2 and the remainder of its expansion, with noise.

        Raises
        ------
        ParameterError
            If `theta` does not have d numbers.
        """
        at = np.asarray(theta, np.float64)
        if at.shape != self.linear.shape:
            raise ParameterError(f"theta must have {len(self.linear)} numbers, got shape {at.shape}")
        return float(at @ self.quadratic @ at - self.linear @ at)

    def _repr_html_(self) -> str:
        columns = {"coefficient": list(range(len(self.value))), "value": self.value.tolist(), "standard error": self.stderr.tolist()}
        return columns_table(f"Regression on {self.n:,} records by a noisy objective: {guarantee(self.privacy)}", columns)


def coefficient_sensitivity(d: int) -> float:
    """Return the ℓ1 sensitivity of the coefficients of one record with ‖x‖₂ ≤ 1 and |y| ≤ 1, rounded up.

    Parameters
    ----------
    d : int
        Number of columns of x.

    Returns
    -------
    float
        √(d(d + 3)/2) + 2√d for the products x_j x_l, j ≤ l, and x_j y together; 9/4 for d = 1.

    Examples
    --------
    >>> from dpcore.inference.functional import coefficient_sensitivity
    >>> coefficient_sensitivity(1), round(coefficient_sensitivity(6), 3)
    (2.25, 10.095)
    """
    if d == 1:
        return 2.25
    return (math.sqrt(d * (d + 3) / 2) + 2 * math.sqrt(d)) * (1 + 2.0**-50)


def functional_regression(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    epsilon: float,
    *,
    x_radius: float,
    y_radius: float | None = None,
    loss: Loss = "squared",
    rng: Stream | None = None,
    threads: int | None = None,
) -> FunctionalEstimate:
    r"""Release the coefficients of a linear or logistic regression by noise in its objective, with pure differential privacy.

    Parameters
    ----------
    x : array_like
        (n, d) real numbers, d at most 4096. Each row is clipped to the ball of radius `x_radius`.
    y : array_like
        (n,) real numbers, clipped to [−y_radius, y_radius]; for the logistic loss 0 and 1, or an array of bool.
    epsilon : float
        Privacy loss ε, positive and finite.
    x_radius : float
        ℓ2 radius B of the rows, in [2^-400, 2^400].
    y_radius : float, optional
        Radius Y of the responses, in [2^-400, 2^400]. Required for the squared loss, and not used by the logistic one.
    loss : {"squared", "logistic"}, default "squared"
        Σ(y − x'θ)², or Σ ln(1 + e^(x'θ)) − y·x'θ to second order at θ = 0.
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads for the noise; the products use those of NumPy's linear algebra.

    Returns
    -------
    FunctionalEstimate
        Coefficients, the noisy objective, and the guarantee.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type, or x and y do not have one length.
    DataError
        If a number is NaN, or a response of the logistic loss is neither 0 nor 1; the message has its index.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: (ε, 0)-differential privacy. The objective is a polynomial in θ whose coefficients are sums over records: Σ x_j x_l for j ≤ l
    and Σ x_j y, in units of B², BY. Replacing a record moves them by at most Δ = √(d(d + 3)/2) + 2√d in ℓ1 norm (9/4 for d = 1), so Laplace
    noise of the scale Δ/ε in each of them is enough; all else is computed from them. The Frobenius norm of xx' − zz' is at most √2, which
    gives the first term by Cauchy's inequality; ‖yx − wz‖₁ ≤ 2√d gives the second. The sensitivity holds for the computed numbers: rows are
    rounded to integers, 2^20 for the radius, and products are summed exactly.

    For the logistic loss ln(1 + e^u) = ln 2 + u/2 + u²/8 + r with \|r\| ≤ u⁴/192, so the objective is ⅛θ'X'Xθ − θ'X'(y − ½). Its
    minimiser is near that of the loss only where \|x'θ\| is about 1 or less.

    The ridge is λ = max(0, 4√2·b − λ_min), b the scale of the noise in Q and λ_min its least eigenvalue, so that the objective has a
    minimum. The source adds 4√2·b always, and drops directions in which Q still has a negative eigenvalue.

    `linear_regression` has less noise if (ε, δ) will do.

    Cost: n·d² multiplications, in blocks of 8192 rows.

    References
    ----------
    Private inference (chapter 9), Exercise 2; Zhang et al. (2012), with a smaller sensitivity.

    Examples
    --------
    >>> import numpy as np
    >>> plain = np.random.default_rng(1)
    >>> x = plain.uniform(-1, 1, (200_000, 2))
    >>> y = x @ [1.0, -0.5] + plain.normal(0, 0.1, 200_000)
    >>> fit = functional_regression(x, y, epsilon=1.0, x_radius=1.5, y_radius=2.0)
    >>> bool(np.all(np.abs(fit.value - [1.0, -0.5]) < 0.01)), fit.ridge, fit.privacy
    (True, 0.0, Privacy(epsilon=1.0, delta=0.0, relation='replace'))
    """
    if loss == "logistic" and type(y) is np.ndarray and y.dtype == np.bool_:
        y = y.view(np.uint8)
    rows, responses = check_records("x", x, 2), check_records("y", y, 1)
    if len(rows) != len(responses):
        raise ParameterError(f"x and y must have one length, got {len(rows)} and {len(responses)}")
    d = rows.shape[1]
    if d > _gram.MOST_COLUMNS:
        raise ParameterError(f"x must have at most {_gram.MOST_COLUMNS} columns, got {d}")
    epsilon = check_positive("epsilon", epsilon)
    x_radius = check_real("x_radius", x_radius, low=2.0**-400, high=2.0**400)
    chosen: Loss = "logistic" if check_choice("loss", loss, ("squared", "logistic")) == "logistic" else "squared"
    if chosen == "squared" and y_radius is None:
        raise ParameterError("y_radius must be given for loss='squared', got None")
    y_radius = 0.5 if chosen == "logistic" else check_real("y_radius", y_radius, low=2.0**-400, high=2.0**400)
    check_threads(threads)
    unit = float(_gram.RADIUS**2)
    scale = accounting.laplace_scale(epsilon, Fraction(coefficient_sensitivity(d)))  # type: ignore[arg-type]
    if scale * unit > FLOAT_SCALE[1] or scale * unit < FLOAT_SCALE[0]:
        raise ParameterError(f"epsilon={epsilon!r} must give a noise scale in [2**-960, 2**960], got {scale * unit!r}")
    if chosen == "logistic":
        responses = _centred(responses)
    products = _gram.cross_products(rows, responses, x_radius, y_radius)
    without_square = ExactSum(
        np.asarray(products.high)[:-1], np.asarray(products.low)[:-1], products.grid, products.n, products.lower, products.upper
    )
    noisy = np.asarray(without_square.noisy("laplace", scale * unit, rng=rng, threads=threads)) / unit
    return _minimised(noisy, d, scale, len(rows), epsilon, (x_radius, y_radius), chosen)


def _centred(responses: npt.NDArray[np.generic]) -> Array:
    """y − ½ of zeros and ones."""
    values: Array = responses.astype(np.float64)
    wrong = np.flatnonzero((values != 0) & (values != 1))
    if len(wrong):
        raise DataError(f"y must be 0 or 1 for loss='logistic'; the number at index {int(wrong[0])} is not")
    return values - 0.5


def _minimised(noisy: Array, d: int, scale: float, n: int, epsilon: float, radii: tuple[float, float], loss: Loss) -> FunctionalEstimate:
    """Everything from what was released: the upper triangle of X'X, and X'y, in units of the radii."""
    matrix = np.zeros((d, d))
    matrix[np.triu_indices(d)] = noisy[:-d]
    matrix += np.triu(matrix, 1).T
    sigma = math.sqrt(2.0) * scale
    eigenvalues, vectors = np.linalg.eigh(matrix)
    # The ratio of the quadratic part to the linear one is that of θ: 1 for the squared loss, 1/4 for the logistic one.
    ridge = max(0.0, RIDGE * sigma - float(eigenvalues[0]))
    inverse = (vectors / (eigenvalues + ridge)) @ vectors.T
    theta = inverse @ noisy[-d:]
    centre = sigma**2 * ((1 + theta @ theta) * np.eye(d) + np.outer(theta, theta) - np.diag(theta**2))
    stderr = np.sqrt(np.diag(inverse @ centre @ inverse) + (ridge * (inverse @ theta)) ** 2)
    x_radius, y_radius = radii
    curvature, slope, step = (0.125, 1.0, 4.0) if loss == "logistic" else (1.0, 2.0, 1.0)
    quadratic, linear = curvature * x_radius**2, slope * x_radius * y_radius
    unit = step * y_radius / x_radius
    return FunctionalEstimate(
        theta * unit, Privacy(epsilon), stderr * unit, matrix * quadratic, noisy[-d:] * linear, ridge * quadratic,
        (scale * quadratic, scale * linear), loss, n,
    )  # fmt: skip
