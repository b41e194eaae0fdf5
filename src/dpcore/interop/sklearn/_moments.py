"""Private mean and covariance, and the principal components that follow from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpcore._validation import check_integer, check_real
from dpcore.errors import ParameterError
from dpcore.inference import CovarianceEstimate, _gram, covariance
from dpcore.inference.covariances import checked_center, noise_scales
from dpcore.interop.sklearn import _reading
from dpcore.interop.sklearn._base import Fit, PrivateEstimator
from dpcore.interop.sklearn._reading import Array, Reals
from dpcore.rng import Stream


class _Moments(PrivateEstimator):
    """What needs the mean and the covariance matrix."""

    radius: Any
    center: Any

    estimate_: CovarianceEstimate

    def _planned(self, table: Array, y: Any) -> Fit:  # noqa: ARG002
        privacy, d = self._privacy(), table.shape[1]
        radius = check_real("radius", self._required("radius"), low=2.0**-400, high=2.0**400)
        center = checked_center(self.center, d)
        _gram.check_columns("X", d)
        noise_scales(privacy.epsilon, privacy.delta)
        follow = self._following(d)

        def learn(rows: Reals, rng: Stream | None) -> dict[str, Any]:
            found = covariance(rows, privacy.epsilon, privacy.delta, radius, center=center, rng=rng)
            return {"estimate_": found, **follow(found)}

        return Fit(privacy, {"radius": radius, "features": d}, lambda: _reading.numbers("X", table), learn)

    def _following(self, d: int) -> Callable[[CovarianceEstimate], dict[str, Any]]:
        """Check the parameters against the number of columns; return what computes attributes from the release."""
        raise NotImplementedError


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
    {refit}

    Attributes
    ----------
    location_ : ndarray of float64, shape (d,)
        The mean.
    covariance_ : ndarray of float64, shape (d, d)
        The covariance matrix, without negative eigenvalues.
    estimate_ : CovarianceEstimate
        What was released, with standard errors and intervals.
    {spent}
    n_features_in_ : int
        Columns d of X.

    Raises
    ------
    {raises}

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

    location_: Reals
    covariance_: Reals

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

    def _following(self, d: int) -> Callable[[CovarianceEstimate], dict[str, Any]]:  # noqa: ARG002
        return lambda found: {"location_": found.mean, "covariance_": found.value}

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
    {refit}

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
    {spent}
    n_features_in_ : int
        Columns d of X.

    Raises
    ------
    {raises}

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

    n_components_: int
    components_: Reals
    mean_: Reals
    explained_variance_: Reals
    explained_variance_ratio_: Reals

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

    def _following(self, d: int) -> Callable[[CovarianceEstimate], dict[str, Any]]:
        k = d if self.n_components is None else check_integer("n_components", self.n_components, low=1, high=d)
        return lambda found: _components(found, k)

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
        coordinates = _reading.numbers("X", _reading.numeric("X", _reading.table(X)))
        if coordinates.shape[1] != self.n_components_:
            raise ParameterError(f"X must have {self.n_components_} columns, one for each component, got {coordinates.shape[1]}")
        return np.asarray(coordinates @ self.components_ + self.mean_)


def _components(found: CovarianceEstimate, k: int) -> dict[str, Any]:
    """The first k principal components of a released covariance matrix."""
    values, vectors = np.linalg.eigh(found.value)
    values, vectors = np.maximum(values[::-1], 0.0), vectors.T[::-1]
    largest = np.abs(vectors).argmax(axis=1)
    vectors = vectors * np.where(vectors[np.arange(len(vectors)), largest] < 0, -1.0, 1.0)[:, None]
    total = float(values.sum())
    return {
        "mean_": found.mean,
        "n_components_": k,
        "components_": vectors[:k].copy(),
        "explained_variance_": values[:k].copy(),
        "explained_variance_ratio_": values[:k] / total if total > 0 else np.zeros(k),
    }
