"""A transformer that privatises columns, each record by itself."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpcore import noise
from dpcore._validation import check_choice
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.inference._parameters import l2_of_equal
from dpcore.interop.sklearn import _reading
from dpcore.interop.sklearn._base import Budgeted, opened, per_column, stream_for
from dpcore.interop.sklearn._reading import Array
from dpcore.local import KaryResponse, LocalLaplace
from dpcore.mechanisms import Gaussian
from dpcore.privacy import Privacy
from dpcore.rng import Stream, resolve


class LocalRandomizer(OneToOneFeatureMixin, TransformerMixin, Budgeted):  # type: ignore[misc]
    """Randomise each record on its own, so that those who train on the result need not be trusted.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one record, all of its columns together: positive and finite. Each of d columns gets ε/d.
    lower, upper : float or sequence of float
        Bounds of the columns, for the methods "laplace" and "gaussian"; numbers outside are clamped. One number for all columns, or one for
        each. Choose them without looking at the data.
    delta : float, default 0.0
        Failure mass δ of one record, in (0, 1) for "gaussian" and 0 for the others.
    method : {"laplace", "gaussian", "kary"}, default "laplace"
        Noise on numbers, or randomised response on categories.
    categories : sequence, optional
        For "kary": the categories of the columns, numbers or text. Either at least two that all columns share, or a list of such lists, one
        for each column.
    unknown : object, optional
        For "kary": the category that stands for all that is none. By default it is refused.
    ledger : str, path or Ledger, optional
        Where each `transform` is paid for before its noise is drawn. Clones share it.
    {random_state}

    Attributes
    ----------
    privacy_ : Privacy
        Guarantee of one record in one `transform`.
    secure_ : bool
        Whether the noise of the last `transform`, or of the next one after `fit`, comes from the operating system's randomness.
    n_features_in_ : int
        Columns d of X.

    Raises
    ------
    ParameterError, ParameterTypeError
        From `fit` and `transform`, if a parameter is missing, out of range or of the wrong type.
    DataError
        From `transform`, if a number is NaN or infinite, or a category is unknown; the message has its index.
    BudgetError
        From `transform`, if the ledger has not enough.

    Notes
    -----
    Guarantee: a row of the result is (ε, δ)-private for any two values of the record, whatever happens to it afterwards. **Each
    `transform` of the same records spends again**, and so does each `fit_transform`; `fit` uses no cell and spends nothing. In a
    pipeline the training data are transformed once by each `fit`, and the records of a `predict` once by each `predict`.

    "laplace" adds Laplace noise of scale (upper − lower)·d/ε to each column, "gaussian" normal noise of deviation (upper − lower)·σ, where
    σ suffices for a vector that moves by √d. "kary" reports each category with probability e^(ε/d)/(e^(ε/d) + k − 1), else another one.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.interop.sklearn import LocalRandomizer  # doctest: +SKIP
    >>> ages = np.array([[18.0], [44.0], [71.0]])
    >>> LocalRandomizer(1.0, 18, 90).fit_transform(ages).shape  # doctest: +SKIP
    (3, 1)
    """

    _randomizer: _Numbers | _Categories
    privacy_: Privacy
    secure_: bool

    def __init__(
        self,
        epsilon: float | None = None,
        lower: Any = None,
        upper: Any = None,
        *,
        delta: float = 0.0,
        method: str = "laplace",
        categories: Any = None,
        unknown: Any = None,
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.lower = lower
        self.upper = upper
        self.delta = delta
        self.method = method
        self.categories = categories
        self.unknown = unknown
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Check the parameters against the columns. Cells are looked at for NaN alone, and nothing is spent.

        Parameters
        ----------
        X : array_like, shape (n, d)
            Records.
        y : object
            Ignored.

        Returns
        -------
        LocalRandomizer
            This transformer.
        """
        table = _reading.table(X)
        columns, randomizer = _reading.columns_of(X), self._columns(table.shape[1])
        randomizer.check(randomizer.typed(table))  # scikit-learn's rule: what `transform` refuses, `fit` refuses
        opened(self.ledger)
        learned = {"privacy_": self._privacy(zero_delta=True), "secure_": stream_for(self.random_state) is None, "_randomizer": randomizer}
        return self._fitted(columns, learned)

    def transform(self, X: Any) -> Array:
        """Randomise each record, which spends the budget of each. Parameters are those of the fit.

        Parameters
        ----------
        X : array_like, shape (n, d)
            Records.

        Returns
        -------
        ndarray, shape (n, d)
            Noisy numbers of float64, or categories.
        """
        check_is_fitted(self)
        randomizer = self._randomizer
        table = randomizer.typed(_reading.table(X))
        _reading.check_columns(self, X)
        rng = stream_for(self.random_state)
        self.secure_ = rng is None
        with self._paid("transform", self.privacy_, {"method": randomizer.method}, secure=rng is None):
            return randomizer(table, resolve(rng))

    def _columns(self, d: int) -> _Numbers | _Categories:
        """The randomiser of a table of d columns; raises if a parameter does not fit."""
        method, privacy = check_choice("method", self.method, ("laplace", "gaussian", "kary")), self._privacy(zero_delta=True)
        if (privacy.delta > 0) != (method == "gaussian"):
            raise ParameterError(f"delta must be {'in (0, 1)' if method == 'gaussian' else '0'} for method={method!r}, got {self.delta!r}")
        if method == "kary":
            if self.lower is not None or self.upper is not None:
                raise ParameterError("lower and upper must be left out for method='kary'")
            return _Categories(part_of(privacy.epsilon, d), _lists(self._required("categories"), d), self.unknown)
        if self.categories is not None or self.unknown is not None:
            raise ParameterError(f"categories and unknown must be left out for method={method!r}")
        ends = [per_column(name, self._required(name), d) for name in ("lower", "upper")]
        each = part_of(privacy.epsilon, d)
        clamps = [LocalLaplace(each, low, high) for low, high in zip(*ends, strict=True)]
        return _Numbers(clamps, Gaussian(privacy.epsilon, privacy.delta, l2_of_equal(1.0, d)) if privacy.delta else None)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the number of columns is known."""
        return hasattr(self, "privacy_")

    def __sklearn_tags__(self) -> Any:
        """scikit-learn's tags: each call draws noise, and categories may be text."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        method: Any = self.method  # which need not be text
        is_categorical = isinstance(method, str) and method == "kary"
        tags.input_tags.categorical = tags.input_tags.string = tags.input_tags.allow_nan = is_categorical
        if is_categorical:
            tags.transformer_tags.preserves_dtype = []
        return tags


class _Numbers:
    """Noise on columns of numbers.

    Parameters
    ----------
    clamps : list of LocalLaplace
        One for each column; with a Gaussian, their bounds are used.
    gaussian : Gaussian or None
        The noise of a vector of d numbers in [0, 1].
    """

    def __init__(self, clamps: list[LocalLaplace], gaussian: Gaussian | None) -> None:
        self._clamps, self._gaussian = clamps, gaussian

    @property
    def method(self) -> str:
        """The parameter of that name."""
        return "laplace" if self._gaussian is None else "gaussian"

    def typed(self, table: Array) -> Array:
        """The same table, unless its type says that its cells are text."""
        return _reading.numeric("X", table)

    def check(self, table: Array) -> Array:
        """The cells as numbers; raises for one that is none."""
        return _reading.numbers("X", table)

    def __call__(self, table: Array, rng: Stream) -> Array:
        """Noisy numbers."""
        rows = self.check(table)
        if self._gaussian is None:
            return np.column_stack([each.privatize(rows[:, j], rng=rng) for j, each in enumerate(self._clamps)])
        low, high = (np.array([getattr(each, name) for each in self._clamps]) for name in ("lower", "upper"))
        return np.asarray(noise.gaussian(np.clip(rows, low, high), np.array(self._scales(self._gaussian.scale)), rng=rng))

    def _scales(self, sigma: float) -> list[float]:
        """(upper − lower)·σ of each column, rounded up."""
        found = []
        for each in self._clamps:
            exact = (Fraction(each.upper) - Fraction(each.lower)) * Fraction(sigma)
            near = float(exact)
            found.append(near if Fraction(near) >= exact else math.nextafter(near, math.inf))
        return found


class _Categories:
    """Randomised response on columns of categories."""

    method = "kary"

    def __init__(self, epsilon: float, categories: list[Any], unknown: Any) -> None:
        self._labels = [_labels(each) for each in categories]
        self._unknown = [self._code_of(unknown, labels) for labels in self._labels]
        self._mechanisms = [KaryResponse(epsilon, k=len(labels)) for labels in self._labels]

    def typed(self, table: Array) -> Array:
        """Categories have any type."""
        return table

    def check(self, table: Array) -> None:
        """A category that is unknown is refused when it is read."""

    @staticmethod
    def _code_of(unknown: Any, labels: Array) -> int | None:
        if unknown is None:
            return None
        known = labels.tolist()
        if _reading.plain(unknown) not in known:
            raise ParameterError(f"unknown must be one of the categories of each column, got {unknown!r}")
        return int(known.index(_reading.plain(unknown)))

    def __call__(self, table: Array, rng: Stream) -> Array:
        """Categories, most of them others."""
        codes = [
            _reading.codes(f"column {j} of X", table[:, j], labels.tolist(), unknown)
            for j, (labels, unknown) in enumerate(zip(self._labels, self._unknown, strict=True))
        ]
        reports = [labels[each.privatize(code, rng=rng)] for labels, each, code in zip(self._labels, self._mechanisms, codes, strict=True)]
        kinds = {labels.dtype.kind for labels in self._labels}
        if len(kinds) > 1:
            reports = [report.astype(object) for report in reports]
        return np.column_stack(reports)


def _lists(categories: Any, d: int) -> list[Any]:
    """The categories of each column."""
    if isinstance(categories, str | bytes) or not isinstance(categories, list | tuple | range | np.ndarray) or len(categories) == 0:
        raise ParameterTypeError(f"categories must be a list of categories, or a list of such lists, got {categories!r}")
    if all(isinstance(each, list | tuple | range | np.ndarray) for each in categories):
        if len(categories) != d:
            raise ParameterError(f"categories must have one list for each of the {d} features, got {len(categories)}")
        return list(categories)
    return [categories] * d


def _labels(categories: Any) -> Array:
    labels = np.asarray(list(categories))
    if labels.ndim != 1 or labels.dtype.kind not in "biufUS" or labels.tolist() != list(map(_reading.plain, categories)):
        raise ParameterTypeError(f"categories must be of one type, numbers or text, got {categories!r}")
    if labels.dtype.kind in "iu" and np.abs(labels.astype(object)).max() >= _reading.EXACT:
        raise ParameterError(f"categories must be below 2^53 in magnitude if they are integers, got {categories!r}")
    if len(labels) < 2 or len(set(labels.tolist())) < len(labels):
        raise ParameterError(f"categories must be at least two, and distinct, got {categories!r}")
    return labels


def part_of(epsilon: float, d: int) -> float:
    """The largest float64 of which d are at most ε."""
    part = epsilon / d
    while Fraction(part) * d > Fraction(epsilon):
        part = math.nextafter(part, 0.0)
    return part
