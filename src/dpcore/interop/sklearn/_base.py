"""What all estimators share: the budget, the one fit that spends it, and who refuses to spend it again."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dpcore import accounting
from dpcore._dataclasses import dataclass
from dpcore._validation import check_positive, check_real
from dpcore.errors import BudgetError, ParameterError, ParameterTypeError
from dpcore.interop._seeds import stream_of
from dpcore.interop.numpy import SecureBitGenerator
from dpcore.interop.sklearn import _reading
from dpcore.interop.sklearn._reading import Array, Reals
from dpcore.privacy import Privacy, composed
from dpcore.rng import Stream

TEXTS = {
    "{refit}": """refit : bool, default False
        Whether an estimator that is fitted may be fitted again, which spends its budget again. See `spent_`.
    ledger : str, path or Ledger, optional
        Where each fit is paid for before its noise is drawn. Clones share it.
    {random_state}""",
    "{random_state}": """random_state : None, int, bytes or generator, optional
        None draws from the operating system's randomness. With anything else results repeat, and are not private.""",
    "{spent}": """privacy_ : Privacy
        Guarantee of the last fit.
    spent_ : Privacy
        All fits of this object together: the sums of their ε and δ. A fit counts from the moment when its noise may have been drawn.
    n_fits_ : int
        How many fits those are.
    secure_ : bool
        Whether the noise of the last fit came from the operating system's randomness.""",
    "{raises}": """ParameterError, ParameterTypeError
        From `fit`, if a parameter is missing, out of range or of the wrong type. Nothing is spent.
    DataError
        If a number is NaN or infinite, or a label was not declared; the message has its index.
    BudgetError
        From `fit`, if it would spend again without leave, or more than the ledger has.""",
}
"""What the documentation of several estimators says; each of them has the name in braces in its place."""
_COUNTING = threading.Lock()


@dataclass(frozen=True, slots=True)
class Fit:
    """One fit: its parameters and the shapes of its data agree, and no cell was read.

    Attributes
    ----------
    privacy : Privacy
        What it spends.
    queries : mapping
        What a ledger notes about it.
    read : callable
        Reads the cells; raises with the place of one that does not fit.
    learn : callable
        Draws noise, and returns the attributes of the fitted estimator, from these cells and the stream of noise.
    """

    privacy: Privacy
    queries: Mapping[str, Any]
    read: Callable[[], Any]
    learn: Callable[[Any, Stream | None], dict[str, Any]]


class Budgeted(BaseEstimator):  # type: ignore[misc]  # scikit-learn publishes no types
    """What has a budget: its parameters, and how records are read."""

    epsilon: Any
    delta: Any
    ledger: Any
    random_state: Any

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, text in TEXTS.items():
            cls.__doc__ = cls.__doc__ and cls.__doc__.replace(name, text)

    def _required(self, name: str) -> Any:
        """A parameter without which there is no fit; its default is None because scikit-learn makes estimators without arguments."""
        value = getattr(self, name)
        if value is None:
            raise ParameterError(
                f"{name} must be given: {type(self).__name__}({name}=...); there is no default, and data must not choose it"
            )
        return value

    def _checked_epsilon(self) -> float:
        return check_positive("epsilon", self._required("epsilon"))

    def _privacy(self, *, zero_delta: bool = False) -> Privacy:
        """ε and δ in (0, 1); with `zero_delta`, δ may be 0."""
        epsilon = self._checked_epsilon()
        return Privacy(epsilon, check_real("delta", self._required("delta"), low=0.0, high=1.0, include_low=zero_delta, include_high=False))

    def _paid(self, step: str, privacy: Privacy, queries: Mapping[str, Any], *, secure: bool) -> AbstractContextManager[Any]:
        """Spend from the ledger, if there is one; what fails inside stays spent."""
        ledger, name = opened(self.ledger), type(self).__name__
        if ledger is None:
            return nullcontext()
        asked = [{"estimator": name, **queries}]
        # A row of X is what is protected, and a ledger of persons must not take its ε for one of theirs.
        return ledger.spend(privacy, what=f"{name}.{step}", unit="row", secure=secure, queries=asked)

    def _table(self, X: Any) -> Reals:
        """Records of the columns of the fit."""
        check_is_fitted(self)
        table = _reading.table(X)
        _reading.check_columns(self, X)
        return _reading.numbers("X", _reading.numeric("X", table))

    def _fitted(self, columns: Mapping[str, Any], learned: Mapping[str, Any]) -> Self:
        """Set all that a fit learns in one step, so that no estimator is half of one fit and half of another."""
        self.__dict__.pop("feature_names_in_", None)
        self.__dict__.update({**columns, **learned})
        return self


class PrivateEstimator(Budgeted):
    """An estimator whose `fit` spends a budget.

    Attributes
    ----------
    {spent}
    """

    refit: Any
    estimate_: Any
    privacy_: Privacy
    spent_: Privacy
    n_fits_: int
    secure_: bool

    def fit(self, X: Any, y: Any = None) -> Self:
        """Estimate from records, which spends the budget once.

        Parameters
        ----------
        X : array_like, shape (n, d)
            Records.
        y : array_like, shape (n,), optional
            Responses of a regression, or labels of a classifier. Estimators without any ignore it.

        Returns
        -------
        estimator
            This estimator.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is missing, out of range or of the wrong type, or does not fit the shape of X. Nothing is spent.
        DataError
            If a cell is refused; the message has its index. A ledger has paid by then.
        BudgetError
            If it would spend again without leave, or more than the ledger has.

        Notes
        -----
        A fit that fails leaves the estimator as it was, but for `spent_` and `n_fits_` if noise may have been drawn.
        """
        if not isinstance(self.refit, bool):
            raise ParameterTypeError(f"refit must be True or False, got {self.refit!r}")
        table = _reading.numeric("X", _reading.table(X))
        columns = _reading.columns_of(X)
        fit = self._planned(table, y)
        rng = stream_for(self.random_state)
        self._refuse_another(fit.privacy)
        with self._paid("fit", fit.privacy, fit.queries, secure=rng is None):
            cells = fit.read()
            self._count(fit.privacy)
            learned = fit.learn(cells, rng)
        return self._fitted(columns, {**learned, "privacy_": fit.privacy, "secure_": rng is None})

    def _planned(self, table: Array, y: Any) -> Fit:
        """Check all that is public: parameters, and the shapes of the data."""
        raise NotImplementedError

    def _refuse_another(self, privacy: Privacy) -> None:
        """Raise if this object has spent before; with a ledger, the ledger decides."""
        if self.ledger is not None or self.refit or not hasattr(self, "n_fits_"):
            return
        raise BudgetError(
            f"this {type(self).__name__} has spent epsilon={self.spent_.epsilon!r}, delta={self.spent_.delta!r}, and another fit would "
            f"spend epsilon={privacy.epsilon!r}, delta={privacy.delta!r} again. For a budget of its own, fit a clone; to add up, pass "
            "refit=True and read spent_, or a ledger"
        )

    def _count(self, privacy: Privacy) -> None:
        """Note that this fit spends; the next step draws noise, so that what fails afterwards has spent, too."""
        with _COUNTING:  # two threads that fit one object spend twice, or one of them is refused
            self._refuse_another(privacy)
            before = (self.spent_,) if hasattr(self, "n_fits_") else ()
            spent = composed((*before, privacy))
            self.__dict__.update(spent_=spent, n_fits_=getattr(self, "n_fits_", 0) + 1)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a result."""
        return hasattr(self, "estimate_")


def stream_for(random_state: Any) -> Stream | None:
    """The stream of a random state: the operating system's randomness for None and for generators that draw from it, else a keyed one."""
    bits = getattr(random_state, "_bit_generator", None) or getattr(random_state, "bit_generator", None)
    return None if isinstance(bits, SecureBitGenerator) else stream_of(random_state)


def opened(ledger: Any) -> accounting.Ledger | None:
    """The ledger that a parameter names."""
    if ledger is None or isinstance(ledger, accounting.Ledger):
        return ledger
    if not isinstance(ledger, str | os.PathLike):
        raise ParameterTypeError(f"ledger must be None, a path or a dpcore.accounting.Ledger, got {type(ledger).__name__}")
    return accounting.Ledger(ledger)


def per_column(name: str, value: Any, d: int) -> tuple[Any, ...]:
    """One value for each of d columns: a sequence of d, or one for all."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, list | tuple | np.ndarray):
        if len(value) != d:
            raise ParameterError(f"{name} must be one value, or have one for each of the {d} features, got {len(value)}")
        return tuple(value)
    return (value,) * d
