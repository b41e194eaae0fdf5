"""Mechanisms: noise whose scale is calibrated to a guarantee.

Each is an immutable description that draws nothing until you call `release`. A sensitivity is that of the whole array released together: ℓ1
for the Laplace kinds, ℓ2 for the Gaussian kinds, over all pairs of neighbours in the sense of `relation`.
"""

from dpcore.mechanisms.continuous import Gaussian, Laplace
from dpcore.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpcore.mechanisms.totals import RunningTotal, RunningTotals

__all__ = ["DiscreteGaussian", "DiscreteLaplace", "Gaussian", "Laplace", "RunningTotal", "RunningTotals"]


def __dir__() -> list[str]:
    return __all__
