"""The peers of the private means. None has a sensitivity that holds in the arithmetic it runs in, but OpenDP's bounded sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore.bench._peers.sources import PCG64
from dpcore.bench.benchmark import Work

Array = npt.NDArray[Any]
EPSILON = 1.0
RADIUS = 1.0


@dataclass(frozen=True)
class MeanPeer:
    """A peer of the private mean of one column. A slow one gets a `share` of the values."""

    name: str
    prepare: Callable[[Array], Work]
    package: str = "numpy"
    share: float = 1.0
    safe: bool = False


def plain(x: Array) -> Work:
    return lambda: np.clip(x, -RADIUS, RADIUS).mean() + PCG64.laplace(scale=2 * RADIUS / (EPSILON * x.size))


def diffprivlib(x: Array) -> Work:
    from diffprivlib import tools

    return lambda: tools.mean(x, epsilon=EPSILON, bounds=(-RADIUS, RADIUS))


def opendp(x: Array) -> Work:
    """Clamp, resize to a known number, pairwise float sum with its rounding in the sensitivity, Laplace noise."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=x.size), dp.symmetric_distance()
    bounded = dp.t.make_clamp(*space, bounds=(-RADIUS, RADIUS))
    total = bounded >> dp.t.then_sum()
    release = total >> dp.m.then_laplace(scale=2 * RADIUS / EPSILON)
    return lambda: release(x) / x.size


PEERS = (
    MeanPeer("NumPy clip, mean, laplace", plain),
    MeanPeer("diffprivlib tools.mean", diffprivlib, "diffprivlib"),
    MeanPeer("OpenDP clamp, sum, laplace", opendp, "opendp", 0.1, safe=True),
)
