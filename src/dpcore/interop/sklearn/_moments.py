"""Private mean and covariance, and the principal components that follow from them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpcore._validation import check_integer, check_real
from dpcore.inference import CovarianceEstimate, covariance
from dpcore.interop.sklearn import _reading
from dpcore.interop.sklearn._base import PrivateEstimator
from dpcore.interop.sklearn._reading import Reals
from dpcore.privacy import Privacy


class _Moments(PrivateEstimator):
    """What needs the mean and the covariance matrix."""

    radius: Any
    center: Any

    def _estimated(self, X: Any) -> CovarianceEstimate:
        """Mean and covariance of the records, which spends the budget."""
        privacy = Privacy(self._checked_epsilon(), self._checked_delta())
        radius = check_real("radius", self._required("radius"), low=2.0**-400, high=2.0**400)
        table = self._training_table(X)
        self._check_columns(table.shape[1])
        with self._paid(privacy, {"radius": radius, "features": table.shape[1]}) as rng:
            rows = _reading.numbers("X", table)
            self._count(privacy, rng)
            return covariance(rows, privacy.epsilon, privacy.delta, radius, center=self.center, rng=rng)

    def _check_columns(self, d: int) -> None:
        """Raise if a parameter does not fit the number of columns."""


class PrivateCovariance(_Moments):
    """Mean and covariance matrix by noisy exact sums of products.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one fit, positive and finite.
    delta : float
        Failure mass δ of one fit, in (0, 1).
    radius : float
        ℓ2 radius of the ball about `center` to which records are clipped. Choose it without looking at the data.
    center : float or array_like of float, shape (d,), default 0.0
        Centre of that ball. Choose it without looking at the data.
    refit : bool, default False
        Whether an estimator that is fitted may be fitted again, which spends ε and δ again. See `spent_`.
    ledger : str, path or Ledger, optional
        Where each fit is paid for before its noise is drawn. Clones share it.
    random_state : None, int, bytes or generator, optional
        None draws from the operating system's randomness. With anything else results repeat, and are not private.

    Attributes
    ----------
    location_ : ndarray of float64, shape (d,)
        The mean.
    covariance_ : ndarray of float64, shape (d, d)
        The covariance matrix, without negative eigenvalues.
    estimate_ : CovarianceEstimate
        What was released, with standard errors and intervals.
    privacy_, spent_ : Privacy
        Guarantee of the last fit, and of all fits of this object together.
    n_fits_ : int
        Fits of this object.
    secure_ : bool
        Whether the noise came from the operating system's randomness.
    n_features_in_ : int
        Columns d of X.

    Raises
    ------
    ParameterError, ParameterTypeError
        From `fit`, if a parameter is missing, out of range or of the wrong type.
    DataError
        From `fit`, if a number is NaN or infinite; the message has its index.
    BudgetError
        From `fit`, if it would spend again without leave, or more than the ledger has.

    Notes
    -----
    Guarantee: each fit is (ε, δ)-differentially private for data sets that differ by the value of one record; see
    `dpcore.inference.covariance`, which does the work.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.interop.sklearn import PrivateCovariance  # doctest: +SKIP
    >>> x = np.random.default_rng(1).normal(0, 1, (100_000, 2))
    >>> PrivateCovariance(1.0, 1e-6, radius=4.0).fit(x).covariance_.shape  # doctest: +SKIP
    (2, 2)
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        radius: float | None = None,
        center: Any = 0.0,
        refit: bool = False,
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.radius = radius
        self.center = center
        self.refit = refit
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Estimate mean and covariance, which spends the budget.

        Parameters
        ----------
        X : array_like, shape (n, d)
            Records.
        y : object
            Ignored.

        Returns
        -------
        PrivateCovariance
            This estimator.
        """
        self.estimate_ = self._estimated(X)
        self.location_, self.covariance_ = self.estimate_.mean, self.estimate_.value
        return self

    def get_precision(self) -> Reals:
        """Return the pseudo-inverse of the covariance matrix.

        Returns
        -------
        ndarray of float64, shape (d, d)
            Computed from what was released.
        """
        check_is_fitted(self)
        return np.asarray(np.linalg.pinv(self.covariance_, hermitian=True))

    def mahalanobis(self, X: Any) -> Reals:
        """Return the squared Mahalanobis distance of each record from the mean.

        Parameters
        ----------
        X : array_like, shape (n, d)
            Records. The distances are of these records, and not private for them.

        Returns
        -------
        ndarray of float64, shape (n,)
            (x − mean)' P (x − mean), P the pseudo-inverse.
        """
        away = self._table(X) - self.location_
        return np.asarray(np.einsum("ij,jk,ik->i", away, self.get_precision(), away))


class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _Moments):  # type: ignore[misc]
    """Principal components of a private covariance matrix.

    Parameters
    ----------
    n_components : int, optional
        How many components, in [1, d]. None keeps all.
    epsilon : float
        Privacy loss ε of one fit, positive and finite.
    delta : float
        Failure mass δ of one fit, in (0, 1).
    radius : float
        ℓ2 radius of the ball about `center` to which records are clipped. Choose it without looking at the data.
    center : float or array_like of float, shape (d,), default 0.0
        Centre of that ball. Choose it without looking at the data.
    refit : bool, default False
        Whether an estimator that is fitted may be fitted again, which spends ε and δ again. See `spent_`.
    ledger : str, path or Ledger, optional
        Where each fit is paid for before its noise is drawn. Clones share it.
    random_state : None, int, bytes or generator, optional
        None draws from the operating system's randomness. With anything else results repeat, and are not private.

    Attributes
    ----------
    components_ : ndarray of float64, shape (n_components, d)
        Directions, the largest variance first; the largest entry of each is positive.
    explained_variance_, explained_variance_ratio_ : ndarray of float64, shape (n_components,)
        Eigenvalues of the covariance matrix, and their parts of the sum of all.
    mean_ : ndarray of float64, shape (d,)
        The mean.
    n_components_ : int
        Number of components.
    estimate_ : CovarianceEstimate
        What was released.
    privacy_, spent_ : Privacy
        Guarantee of the last fit, and of all fits of this object together.
    n_fits_ : int
        Fits of this object.
    secure_ : bool
        Whether the noise came from the operating system's randomness.
    n_features_in_ : int
        Columns d of X.

    Raises
    ------
    ParameterError, ParameterTypeError
        From `fit`, if a parameter is missing, out of range or of the wrong type.
    DataError
        From `fit` and `transform`, if a number is NaN or infinite; the message has its index.
    BudgetError
        From `fit`, if it would spend again without leave, or more than the ledger has.

    Notes
    -----
    Guarantee: each fit is (ε, δ)-differentially private for data sets that differ by the value of one record. Directions and variances are
    computed from the private covariance matrix. **What `transform` returns is not private**: each of its rows is a function of a record.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.interop.sklearn import PrivatePCA  # doctest: +SKIP
    >>> x = np.random.default_rng(1).normal(0, 1, (100_000, 1)) @ [[0.6, 0.8]]
    >>> PrivatePCA(1, epsilon=1.0, delta=1e-6, radius=4.0).fit(x).components_.round(1)  # doctest: +SKIP
    array([[0.6, 0.8]])
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        radius: float | None = None,
        center: Any = 0.0,
        refit: bool = False,
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.radius = radius
        self.center = center
        self.refit = refit
        self.ledger = ledger
        self.random_state = random_state

    def _check_columns(self, d: int) -> None:
        if self.n_components is not None:
            check_integer("n_components", self.n_components, low=1, high=d)

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Find the components, which spends the budget.

        Parameters
        ----------
        X : array_like, shape (n, d)
            Records.
        y : object
            Ignored.

        Returns
        -------
        PrivatePCA
            This estimator.
        """
        self.estimate_ = self._estimated(X)
        values, vectors = np.linalg.eigh(self.estimate_.value)
        values, vectors = np.maximum(values[::-1], 0.0), vectors.T[::-1]
        largest = np.abs(vectors).argmax(axis=1)
        vectors = vectors * np.where(vectors[np.arange(len(vectors)), largest] < 0, -1.0, 1.0)[:, None]
        k = len(values) if self.n_components is None else int(self.n_components)
        total = float(values.sum())
        self.mean_, self.n_components_ = self.estimate_.mean, k
        self.components_, self.explained_variance_ = vectors[:k].copy(), values[:k].copy()
        self.explained_variance_ratio_ = self.explained_variance_ / total if total > 0 else np.zeros(k)
        return self

    @property
    def _n_features_out(self) -> int:
        """Number of columns that `transform` makes."""
        return self.n_components_

    def transform(self, X: Any) -> Reals:
        """Express records in the components.

        Parameters
        ----------
        X : array_like, shape (n, d)
            Records.

        Returns
        -------
        ndarray of float64, shape (n, n_components)
            Their coordinates, which are not private.
        """
        return np.asarray((self._table(X) - self.mean_) @ self.components_.T)

    def inverse_transform(self, X: Any) -> Reals:
        """Map coordinates back to records.

        Parameters
        ----------
        X : array_like, shape (n, n_components)
            Coordinates.

        Returns
        -------
        ndarray of float64, shape (n, d)
            The points that have these coordinates.
        """
        check_is_fitted(self)
        return np.asarray(np.asarray(X, np.float64) @ self.components_ + self.mean_)
