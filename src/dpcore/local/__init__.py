"""Local randomisers: each record is randomised on its own, reports are counted, and counts become estimates with intervals.

A mechanism is an immutable object with the methods `privatize`, `aggregate` and `estimate`, the attribute `privacy`, and `channel` if its
reports can be listed. Probabilities are exact: random bits are compared with the binary expansion of the real probability, as many as it
takes until they differ.
"""

from dpcore.local._support import Support
from dpcore.local.additive import LocalDiscreteGaussian, LocalDiscreteLaplace, LocalGaussian, LocalLaplace
from dpcore.local.binary import BinaryResponse
from dpcore.local.bounded import BoundedMean
from dpcore.local.channel import BinaryChannel
from dpcore.local.estimates import Aggregate, Estimate, project_to_simplex
from dpcore.local.finite import FiniteChannel
from dpcore.local.hadamard import HadamardResponse
from dpcore.local.hashing import LocalHashing
from dpcore.local.kary import KaryResponse
from dpcore.local.projective import ProjectiveGeometryResponse
from dpcore.local.sequential import QuantileEstimate, SequentialChannel, SequentialQuantile
from dpcore.local.subset import SubsetSelection
from dpcore.local.unary import UnaryEncoding
from dpcore.local.vectors import VectorMean

__all__ = [
    "Aggregate",
    "BinaryChannel",
    "BinaryResponse",
    "BoundedMean",
    "Estimate",
    "FiniteChannel",
    "HadamardResponse",
    "KaryResponse",
    "LocalDiscreteGaussian",
    "LocalDiscreteLaplace",
    "LocalGaussian",
    "LocalHashing",
    "LocalLaplace",
    "ProjectiveGeometryResponse",
    "QuantileEstimate",
    "SequentialChannel",
    "SequentialQuantile",
    "SubsetSelection",
    "Support",
    "UnaryEncoding",
    "VectorMean",
    "project_to_simplex",
]


def __dir__() -> list[str]:
    return __all__
