"""Mechanisms: noise whose scale is calibrated to a guarantee.

Each is an immutable description that draws nothing until you call `release`. A sensitivity is that of the whole array released together: ℓ1
for the Laplace kinds, ℓ2 for the Gaussian kinds, over all pairs of neighbours in the sense of `relation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcore._lazy import found_in
from dpcore.mechanisms.continuous import Gaussian, Laplace
from dpcore.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace

if TYPE_CHECKING:
    from dpcore.mechanisms.totals import RunningTotal, RunningTotals
else:
    __getattr__ = found_in(__name__, {"totals": "RunningTotal RunningTotals"})


__all__ = ["DiscreteGaussian", "DiscreteLaplace", "Gaussian", "Laplace", "RunningTotal", "RunningTotals"]


def __dir__() -> list[str]:
    return __all__
