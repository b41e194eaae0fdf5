"""Estimators that are made of noisy counts: a histogram density, and naive Bayes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, DensityMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from dpcore._validation import check_choice, check_integer, check_positive
from dpcore.distributions import HistogramRelease, perturbed_histogram
from dpcore.distributions._boxes import Box
from dpcore.distributions._cells import MOST_CELLS, Cells
from dpcore.distributions.perturbed import noise_scale
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.inference._parameters import l2_of_equal
from dpcore.interop.sklearn import _reading
from dpcore.interop.sklearn._base import Fit, PrivateEstimator, stream_for
from dpcore.interop.sklearn._cells import cells_of_columns, numbers_of_bins, sides
from dpcore.interop.sklearn._reading import Array, Reals
from dpcore.mechanisms import DiscreteLaplace, Gaussian
from dpcore.privacy import Privacy
from dpcore.rng import Stream


class PrivateHistogramDensity(DensityMixin, PrivateEstimator):  # type: ignore[misc]
    """A density that is constant on the cells of a grid, from counts with Laplace noise.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one fit, positive and finite.
    bounds : (low, high)
        Where records lie: each a number, or a sequence with one number for each feature. Records outside count as if they lay on the
        border. Choose them without looking at the data.
    bins : int or sequence of int, default 8
        Bins of each feature. All cells together are at most 2^26.
    noise : {"laplace", "discrete_laplace"}, default "laplace"
        Law of the noise in each count.
    {refit}

    Attributes
    ----------
    estimate_ : HistogramRelease
        What was released: noisy counts, density, distribution function, bands.
    {spent}
    n_features_in_ : int
        Columns d of X, at most 16.

    Raises
    ------
    {raises}

    Notes
    -----
    Guarantee: each fit is ε-differentially private for data sets that differ by the value of one record: replacing one moves two counts by
    1, and the noise has the scale 2/ε. `dpcore.distributions.perturbed_histogram` does the work. Samples are computed from the release.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.interop.sklearn import PrivateHistogramDensity  # doctest: +SKIP
    >>> x = np.random.default_rng(1).uniform(0, 1, (100_000, 1))
    >>> density = PrivateHistogramDensity(1.0, bounds=(0, 1), bins=4).fit(x)  # doctest: +SKIP
    >>> density.score_samples([[0.5]]).round(1)  # doctest: +SKIP
    array([0.])
    """

    estimate_: HistogramRelease

    def __init__(
        self,
        epsilon: float | None = None,
        *,
        bounds: Any = None,
        bins: Any = 8,
        noise: str = "laplace",
        refit: bool = False,
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.bins = bins
        self.noise = noise
        self.refit = refit
        self.ledger = ledger
        self.random_state = random_state

    def _planned(self, table: Array, y: Any) -> Fit:  # noqa: ARG002
        privacy = Privacy(self._checked_epsilon())
        law: Any = check_choice("noise", self.noise, ("laplace", "discrete_laplace"))
        noise_scale(privacy.epsilon, 2.0, law)
        d = table.shape[1]
        bins, box = numbers_of_bins(self.bins, d), sides(self._required("bounds"), d)
        bounds = ([low for low, _ in box], [high for _, high in box])
        Cells.of(bins, Box.of(bounds, d))  # refuses what does not fit before anything is spent

        def learn(rows: Reals, rng: Stream | None) -> dict[str, Any]:
            return {"estimate_": perturbed_histogram(rows, privacy.epsilon, bounds, bins=bins, noise=law, rng=rng)}

        return Fit(privacy, {"bins": list(bins), "features": d}, lambda: _reading.numbers("X", table), learn)

    def score_samples(self, X: Any) -> Reals:
        """Return the logarithm of the density at each record.

        Parameters
        ----------
        X : array_like, shape (n, d)
            Points.

        Returns
        -------
        ndarray of float64, shape (n,)
            −inf outside the bounds and in cells without mass.
        """
        rows = self._table(X)
        points = rows[:, 0] if rows.shape[1] == 1 else rows
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.atleast_1d(np.asarray(self.estimate_.density(points)))))

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Return the logarithm of the likelihood of records.

        Parameters
        ----------
        X : array_like, shape (n, d)
            Points. The score is a function of them, and not private for them.
        y : object
            Ignored.

        Returns
        -------
        float
            Sum of `score_samples`.
        """
        return float(self.score_samples(X).sum())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Reals:
        """Draw synthetic records from the density.

        Parameters
        ----------
        n_samples : int, default 1
            How many.
        random_state : None, int, bytes or generator, optional
            As for the estimator.

        Returns
        -------
        ndarray of float64, shape (n_samples, d)
            Records. Any number of them costs no more privacy.
        """
        check_is_fitted(self)
        n_samples = check_integer("n_samples", n_samples, low=0)
        return self.estimate_.sample(n_samples, rng=stream_for(random_state)).reshape(n_samples, self.n_features_in_)


class PrivateNaiveBayes(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Naive Bayes on binned features, from counts with noise.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one fit, positive and finite.
    delta : float, default 0.0
        Failure mass δ of one fit, in [0, 1). A positive one gives Gaussian noise, which is smaller from a few features on.
    bounds : (low, high)
        Where features lie: each a number, or a sequence with one number for each feature. Values outside count as if they lay on the
        border. Choose them without looking at the data.
    bins : int or sequence of int, default 8
        Bins of each feature. For a feature of k codes 0 … k − 1 take the bounds (0, k) and k bins.
    classes : sequence or "public"
        The labels that y may hold. "public" takes the labels that y holds, and declares that everyone may know which ones these are: the
        guarantee is then for data sets with the same labels.
    smoothing : float, default 1.0
        What is added to each count, positive and finite.
    {refit}

    Attributes
    ----------
    classes_ : ndarray, shape (K,)
        The labels in ascending order.
    class_count_ : ndarray of float64 or int64, shape (K,)
        Noisy numbers of records.
    feature_count_ : list of ndarray, each of shape (K, bins)
        Noisy counts of each feature.
    class_log_prior_ : ndarray of float64, shape (K,)
        Logarithms of the shares of the classes.
    feature_log_prob_ : list of ndarray of float64, each of shape (K, bins)
        Logarithms of the shares of the bins in a class.
    estimate_ : DiscreteLaplace or Gaussian
        The mechanism that all counts were released with.
    {spent}
    n_features_in_ : int
        Columns d of X.

    Raises
    ------
    {raises}

    Notes
    -----
    Guarantee: each fit is (ε, δ)-differentially private for data sets that differ by the value of one record. d features have one table of
    counts each, and the classes another. Replacing a record takes 1 from one count of each table and adds 1 to another, which is 2(d + 1)
    in ℓ1 and √(2(d + 1)) in ℓ2 norm. Counts are integers, and exact. Negative counts become 0, `smoothing` is added, and shares are
    computed from the sums: all of that from what was released.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.interop.sklearn import PrivateNaiveBayes  # doctest: +SKIP
    >>> x = np.random.default_rng(1).uniform(0, 1, (10_000, 2))
    >>> model = PrivateNaiveBayes(1.0, bounds=(0, 1), classes=[False, True]).fit(x, x[:, 0] > 0.5)  # doctest: +SKIP
    >>> model.predict([[0.1, 0.5], [0.9, 0.5]])  # doctest: +SKIP
    array([False,  True])
    """

    classes_: Array
    class_count_: Array
    feature_count_: list[Array]
    class_log_prior_: Reals
    feature_log_prob_: list[Reals]
    _cells: list[Cells]

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float = 0.0,
        *,
        bounds: Any = None,
        bins: Any = 8,
        classes: Any = None,
        smoothing: float = 1.0,
        refit: bool = False,
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.bins = bins
        self.classes = classes
        self.smoothing = smoothing
        self.refit = refit
        self.ledger = ledger
        self.random_state = random_state

    def _planned(self, table: Array, y: Any) -> Fit:
        privacy = self._privacy(zero_delta=True)
        smoothing = check_positive("smoothing", self.smoothing)
        declared = self._declared()
        d = table.shape[1]
        mechanism = _mechanism(privacy.epsilon, privacy.delta, d)
        cells = cells_of_columns(self._required("bounds"), self.bins, d)
        if declared is not None:
            _check_size(len(declared), cells)
        labels = _reading.target(y, len(table), type(self).__name__)

        def read() -> tuple[Array, list[Array]]:
            rows = _reading.numbers("X", table)
            classes = _labels_there(labels) if declared is None else declared
            _check_size(len(classes), cells)
            which = _reading.codes("y", labels, classes.tolist())
            counts = [np.bincount(which, minlength=len(classes))[:, None]]
            for j, each in enumerate(cells):
                codes = which * each.m + each.codes(rows[:, j])
                counts.append(np.bincount(codes, minlength=len(classes) * each.m).reshape(len(classes), each.m))
            return classes, counts

        def learn(found: tuple[Array, list[Array]], rng: Stream | None) -> dict[str, Any]:
            classes, counts = found
            exact = np.concatenate([each.ravel() for each in counts]).astype(np.int64)
            noisy: Array = mechanism.release(exact, rng=rng)
            ends = np.cumsum([each.size for each in counts])
            first, *others = [part.reshape(each.shape) for part, each in zip(np.split(noisy, ends[:-1]), counts, strict=True)]
            return {
                "classes_": classes,
                "class_count_": first[:, 0],
                "feature_count_": others,
                "class_log_prior_": _log_shares(first[:, 0], smoothing),
                "feature_log_prob_": [_log_shares(each, smoothing) for each in others],
                "estimate_": mechanism,
                "_cells": cells,
            }

        return Fit(mechanism.privacy, {"bins": [each.m for each in cells], "features": d}, read, learn)

    def _declared(self) -> Array | None:
        """The labels in ascending order; None if those of the data are public."""
        classes = self._required("classes")
        if isinstance(classes, str):
            check_choice("classes", classes, ("public",))
            return None
        labels = list(classes) if isinstance(classes, list | tuple | set | frozenset | range | np.ndarray) else None
        if not labels:
            raise ParameterTypeError(f"classes must be 'public' or a sequence of labels, got {classes!r}")
        array = np.asarray(labels)
        if array.ndim != 1 or array.dtype.kind not in "biufUS" or array.tolist() != list(map(_reading.plain, labels)):
            raise ParameterTypeError(f"classes must be labels of one type, numbers or text, got {classes!r}")
        found = np.unique(array)
        if len(found) < len(labels):
            raise ParameterError(f"classes must be distinct, got {classes!r}")
        return found

    def _joint(self, X: Any) -> Reals:
        """Logarithms of the joint shares of a record and each class."""
        rows = self._table(X)
        total = np.tile(self.class_log_prior_, (len(rows), 1))
        for j, cells in enumerate(self._cells):
            total += self.feature_log_prob_[j].T[cells.codes(rows[:, j])]
        return total

    def predict(self, X: Any) -> Array:
        """Return the most likely label of each record.

        Parameters
        ----------
        X : array_like, shape (n, d)
            Records.

        Returns
        -------
        ndarray, shape (n,)
            Labels.
        """
        joint = self._joint(X)
        return np.asarray(self.classes_[joint.argmax(axis=1)])

    def predict_log_proba(self, X: Any) -> Reals:
        """Return the logarithms of the probabilities of the labels.

        Parameters
        ----------
        X : array_like, shape (n, d)
            Records.

        Returns
        -------
        ndarray of float64, shape (n, K)
            One row a record.
        """
        joint = self._joint(X)
        joint -= joint.max(axis=1, keepdims=True)
        return np.asarray(joint - np.log(np.exp(joint).sum(axis=1, keepdims=True)))

    def predict_proba(self, X: Any) -> Reals:
        """Return the probabilities of the labels.

        Parameters
        ----------
        X : array_like, shape (n, d)
            Records.

        Returns
        -------
        ndarray of float64, shape (n, K)
            One row a record, of sum 1.
        """
        return np.exp(self.predict_log_proba(X))

    def __sklearn_tags__(self) -> Any:
        """scikit-learn's tags: with few records the score is poor, because the noise is large."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


def _check_size(classes: int, cells: Sequence[Cells]) -> None:
    """Raise if all counts together are more than `MOST_CELLS`."""
    total = classes * (1 + sum(each.m for each in cells))
    if total > MOST_CELLS:
        raise ParameterError(f"classes and bins must give at most 2^26 counts, got {total}")


def _mechanism(epsilon: float, delta: float, d: int) -> DiscreteLaplace | Gaussian:
    """The noise of d + 1 tables in each of which one record moves two counts by 1."""
    moved = 2 * (d + 1)
    return Gaussian(epsilon, delta, l2_of_equal(1.0, moved)) if delta else DiscreteLaplace(epsilon, moved)


def _labels_there(labels: Array) -> npt.NDArray[Any]:
    """The labels that occur, which were declared to be public."""
    if labels.dtype.kind == "O" and set(map(type, cells := labels.tolist())) <= {int, bool, float}:
        labels = np.array(cells)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        index = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise DataError(f"y must hold labels, and the one at index {index} is NaN or infinite")
    check_classification_targets(labels)
    return np.unique(labels)


def _log_shares(counts: Array, smoothing: float) -> Reals:
    """Logarithms of (max(count, 0) + smoothing) over their sum along the last axis."""
    positive = np.maximum(counts, 0) + smoothing
    return np.asarray(np.log(positive) - np.log(positive.sum(axis=-1, keepdims=True)))
