"""Private linear regression."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from dpcore._validation import check_real
from dpcore.errors import ParameterTypeError
from dpcore.inference import RegressionEstimate, _gram, linear_regression
from dpcore.inference.regression import noise_scales
from dpcore.interop.sklearn import _reading
from dpcore.interop.sklearn._base import Fit, PrivateEstimator
from dpcore.interop.sklearn._reading import Array, Reals
from dpcore.rng import Stream


class PrivateLinearRegression(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """Linear regression by noisy exact sums of products, with a ridge where the noise needs one.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one fit, positive and finite.
    delta : float
        Failure mass δ of one fit, in (0, 1).
    x_radius : float
        ℓ2 radius B of the rows of X, in [2^-400, 2^399]; longer rows are clipped to it. Choose it without looking at the data.
    y_radius : float
        Radius of the responses, in [2^-400, 2^399]; they are clipped to [−y_radius, y_radius].
    fit_intercept : bool, default True
        Whether to add a column that is `x_radius` everywhere. It takes part in the noise; without it the model goes through 0.
    beta : float, default 0.05
        Probability, in (0, 1), with which the ridge may be too small for the noise.
    {refit}

    Attributes
    ----------
    coef_ : ndarray of float64, shape (d,)
        Coefficients.
    intercept_ : float
        Intercept; 0 without one.
    stderr_ : ndarray of float64, shape (d,)
        Standard errors of the coefficients, noise included.
    estimate_ : RegressionEstimate
        What was released: intervals, the ridge, scales of the noise. Its last coefficient is that of the column for the intercept.
    {spent}
    n_features_in_ : int
        Columns d of X.

    Raises
    ------
    {raises}

    Notes
    -----
    Guarantee: each fit is (ε, δ)-differentially private for data sets that differ by the value of one record; see
    `dpcore.inference.linear_regression`, which does the work. Rows are clipped, the column for the intercept is added, and both are
    functions of one record. `predict` computes from what was released. `score` compares with the data it is given: it is not private.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.interop.sklearn import PrivateLinearRegression  # doctest: +SKIP
    >>> x = np.random.default_rng(1).uniform(-1, 1, (100_000, 2))
    >>> model = PrivateLinearRegression(1.0, 1e-6, x_radius=1.5, y_radius=3.0).fit(x, x @ [1.0, -0.5] + 1)  # doctest: +SKIP
    >>> model.coef_.round(1), round(model.intercept_, 1)  # doctest: +SKIP
    (array([ 1. , -0.5]), 1.0)
    """

    estimate_: RegressionEstimate
    coef_: Reals
    stderr_: Reals
    intercept_: float

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        x_radius: float | None = None,
        y_radius: float | None = None,
        fit_intercept: bool = True,
        beta: float = 0.05,
        refit: bool = False,
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.x_radius = x_radius
        self.y_radius = y_radius
        self.fit_intercept = fit_intercept
        self.beta = beta
        self.refit = refit
        self.ledger = ledger
        self.random_state = random_state

    def _planned(self, table: Array, y: Any) -> Fit:
        privacy = self._privacy()
        # The column of the intercept makes rows longer by a factor of √2.
        x_radius, y_radius = (check_real(name, self._required(name), low=2.0**-400, high=2.0**399) for name in ("x_radius", "y_radius"))
        beta = check_real("beta", self.beta, low=0.0, high=1.0, include_low=False, include_high=False)
        with_intercept = self.fit_intercept
        if not isinstance(with_intercept, bool):
            raise ParameterTypeError(f"fit_intercept must be True or False, got {with_intercept!r}")
        d = table.shape[1]
        _gram.check_columns("X and the intercept" if with_intercept else "X", d + with_intercept)
        noise_scales(privacy.epsilon, privacy.delta)
        responses = _reading.numeric("y", _reading.target(y, len(table), type(self).__name__))

        def read() -> tuple[Reals, Reals]:
            rows, clipped = _reading.numbers("X", table), _reading.numbers("y", responses)
            if with_intercept:
                rows = np.column_stack([clipped_rows(rows, x_radius), np.full(len(rows), x_radius)])
            return rows, clipped

        def learn(cells: tuple[Reals, Reals], rng: Stream | None) -> dict[str, Any]:
            radius = math.sqrt(2.0) * x_radius if with_intercept else x_radius
            found = linear_regression(*cells, privacy.epsilon, privacy.delta, x_radius=radius, y_radius=y_radius, beta=beta, rng=rng)
            intercept = float(found.value[d]) * x_radius if with_intercept else 0.0
            return {"estimate_": found, "coef_": found.value[:d], "stderr_": found.stderr[:d], "intercept_": intercept}

        return Fit(privacy, {"x_radius": x_radius, "y_radius": y_radius, "features": d}, read, learn)

    def predict(self, X: Any) -> Reals:
        """Predict responses. The coefficients are applied to X as it is, without clipping.

        Parameters
        ----------
        X : array_like, shape (n, d)
            Records.

        Returns
        -------
        ndarray of float64, shape (n,)
            Xθ plus the intercept.
        """
        rows = self._table(X)
        return np.asarray(rows @ self.coef_ + self.intercept_)

    def __sklearn_tags__(self) -> Any:
        """scikit-learn's tags: with few records the score is poor, because the noise is large."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


def clipped_rows(rows: Reals, radius: float) -> Reals:
    """Rows moved into the ball of this radius about 0, each by itself."""
    largest = np.maximum(np.abs(rows).max(axis=1, keepdims=True), radius)
    with np.errstate(all="ignore"):  # a caller may have set NumPy to raise, which would reveal a record
        unit = rows / largest
        size = np.sqrt((unit * unit).sum(axis=1, keepdims=True)) * (largest / radius)
    return np.asarray(rows / np.maximum(size, 1.0))
