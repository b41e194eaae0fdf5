"""Mechanisms: noise whose scale is calibrated to a guarantee."""

from dpcore.mechanisms.continuous import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace

__all__ = ["DiscreteGaussian", "DiscreteLaplace", "Gaussian", "Laplace"]


def __dir__() -> list[str]:
    return __all__
