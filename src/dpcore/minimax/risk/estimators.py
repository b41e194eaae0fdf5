"""The interface of estimators and distributions for the functions of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpcore._validation import REAL_DTYPES, check_array
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.minimax.spaces.matrices import channel_matrix, check_distributions

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.minimax.spaces.models import Model

    Array = npt.NDArray[np.float64]


class CountEstimator(Protocol):
    """An estimator from n reports that uses only how often each outcome was reported."""

    @property
    def model(self) -> Model:
        """The distributions of a record."""

    @property
    def n(self) -> int:
        """Number of reports."""

    @property
    def channel(self) -> Any:
        """A matrix of shape (X, K), or an object with a method `channel` that gives one."""

    def estimate(self, counts: Any) -> Any:
        """Estimate θ from counts of shape (B, K)."""


def channel_of(estimator: CountEstimator) -> Array:
    """Return the channel of an estimator at the points of its model, or raise if the estimator does not know its model."""
    if not all(hasattr(estimator, name) for name in ("model", "n", "channel", "estimate")):
        raise ParameterTypeError(
            f"estimator must know its model and its number of reports, got {type(estimator).__name__}; "
            "for a LinearEstimator, pass estimator.on(model, n=n)"
        )
    return channel_matrix(estimator.channel, estimator.model.points)


def distribution_on(p: Any, size: int) -> Array:
    """Return p as one distribution on `size` points. Masses that a solver left slightly below 0 become 0."""
    masses = check_array("p", p, REAL_DTYPES).astype(np.float64)
    if masses.shape != (size,):
        raise ParameterError(f"p must have {size} masses, one for each point of the model, got shape {masses.shape}")
    masses = check_distributions("p", np.where((masses < 0) & (masses > -1e-9), 0.0, masses))
    return masses / float(masses.sum())
