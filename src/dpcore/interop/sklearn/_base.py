"""What all estimators share: the budget, how often it was spent, and who refuses to spend it again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dpcore import accounting
from dpcore._validation import check_positive, check_real
from dpcore.errors import BudgetError, ParameterError, ParameterTypeError
from dpcore.interop._seeds import stream_of
from dpcore.interop.numpy import SecureBitGenerator
from dpcore.interop.sklearn import _reading
from dpcore.interop.sklearn._reading import Array, Reals
from dpcore.privacy import Privacy, composed
from dpcore.rng import Stream


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn publishes no types
    """An estimator whose `fit` spends a budget.

    Attributes
    ----------
    privacy_ : Privacy
        Guarantee of the last fit.
    spent_ : Privacy
        All fits of this object together: the sums of their ε and δ.
    n_fits_ : int
        How many fits those are.
    secure_ : bool
        Whether the noise of the last fit came from the operating system's randomness.
    """

    epsilon: Any
    delta: Any
    refit: Any
    ledger: Any
    random_state: Any
    spent_: Privacy
    n_fits_: int

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

    def _checked_delta(self) -> float:
        """δ in (0, 1)."""
        return check_real("delta", self._required("delta"), low=0.0, high=1.0, include_low=False, include_high=False)

    @contextmanager
    def _paid(self, privacy: Privacy, queries: Mapping[str, Any]) -> Iterator[Stream | None]:
        """Spend from the ledger, or refuse; the stream of this fit. With a ledger, what fails inside stays spent."""
        if not isinstance(self.refit, bool):
            raise ParameterTypeError(f"refit must be True or False, got {self.refit!r}")
        rng, ledger, name = stream_for(self.random_state), opened(self.ledger), type(self).__name__
        if ledger is None:
            if getattr(self, "n_fits_", 0) and not self.refit:
                spent = self.spent_
                raise BudgetError(
                    f"this {name} is fitted, and another fit would spend epsilon={privacy.epsilon!r}, delta={privacy.delta!r} again "
                    f"(so far epsilon={spent.epsilon!r}, delta={spent.delta!r}). For a budget of its own, fit a clone; to add up, pass "
                    "refit=True and read spent_, or a ledger"
                )
            yield rng
            return
        with ledger.spend(privacy, what=f"{name}.fit", secure=rng is None, queries=[{"estimator": name, **queries}]):
            yield rng

    def _count(self, privacy: Privacy, rng: Stream | None) -> None:
        """Note that this fit spends; the next step draws noise, so that what fails afterwards has spent, too."""
        before = (self.spent_,) if getattr(self, "n_fits_", 0) else ()
        self.n_fits_ = getattr(self, "n_fits_", 0) + 1
        self.spent_ = composed((*before, privacy))
        self.privacy_, self.secure_ = privacy, rng is None

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a result."""
        return hasattr(self, "estimate_")

    def _table(self, X: Any) -> Reals:
        """Records of the columns of the fit."""
        check_is_fitted(self)
        return _reading.numbers("X", _reading.numeric("X", _reading.table(self, X, reset=False)))

    def _training_table(self, X: Any) -> Array:
        """Records to fit: their shape is checked, and no cell is read yet."""
        return _reading.numeric("X", _reading.table(self, X, reset=True))


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
