"""Exact risks of estimators of binary reports: sums over all counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpcore.errors import ParameterError
from dpcore.minimax.losses import as_loss
from dpcore.minimax.risk.draws import binomial
from dpcore.minimax.risk.estimators import channel_of, distribution_on

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.minimax.losses import Loss
    from dpcore.minimax.risk.estimators import CountEstimator

    Array = npt.NDArray[np.float64]

MOST_TABULATED = 2**22
"""Up to this many reports, the estimates of all counts are kept in a table."""


def exact_risk(estimator: CountEstimator, p: npt.ArrayLike, *, loss: Loss | str = "squared") -> float:
    """Compute the risk of an estimator of binary reports at one distribution.

    Parameters
    ----------
    estimator : BinarySearchEstimator or LinearOnModel
        As in `simulate_risk`. Its channel must be binary.
    p : array_like of float, shape (X,)
        Masses of the points of the model.
    loss : Loss or {"absolute", "squared"}, default "squared"
        Loss of the absolute error.

    Returns
    -------
    float
        The expected loss, up to rounding. Counts with a total probability below 2^-60 are left out.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the channel is not binary, or an argument is outside its range or of the wrong type.

    Notes
    -----
    Cost: estimates of about 20 √n counts; up to n = 2^22, the estimates of all counts.

    Examples
    --------
    >>> from dpcore.minimax import LinearEstimator, Model, exact_risk
    >>> estimator = LinearEstimator([-1.0, 0.0, 1.0], 1.0).on(Model([-1.0, 0.0, 1.0]), n=1000)
    >>> round(exact_risk(estimator, [0.1, 0.2, 0.7]), 9), round(estimator.risk_bound(), 9)
    (0.004322694, 0.004682694)
    """
    channel = channel_of(estimator)
    masses = distribution_on(p, estimator.model.size)
    if channel.shape[1] != 2:
        raise ParameterError(f"estimator must have a channel with 2 outcomes, got {channel.shape[1]}; use simulate_risk")
    return BinaryRisk(estimator, as_loss(loss)).at(float(masses @ estimator.model.f), float(masses @ channel[:, 1]))


class BinaryRisk:
    """Exact risks of an estimator of binary reports, as a function of θ and q = P(+)."""

    def __init__(self, estimator: CountEstimator, loss: Loss) -> None:
        self._estimator, self._loss = estimator, loss
        every = estimator.n <= MOST_TABULATED
        self._table: Array | None = np.asarray(estimator.estimate(np.arange(estimator.n + 1)), np.float64) if every else None

    def at(self, theta: float, q: float) -> float:
        """Return the expected loss at one θ and q."""
        law = binomial(self._estimator.n, min(max(q, 0.0), 1.0))
        estimates = self._estimator.estimate(law.numbers) if self._table is None else self._table[law.first : law.last + 1]
        return float(law.masses @ np.asarray(self._loss(np.abs(estimates - theta)), np.float64))
