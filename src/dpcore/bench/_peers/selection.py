"""The peers of the selection, each in the form its users write. Only OpenDP's is made for hostile scores; none decides ties exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore.bench._peers.sources import PCG64, mkl_state
from dpcore.bench.benchmark import Work

Array = npt.NDArray[Any]
EPSILON, DELTA, SENSITIVITY = 1.0, 1e-6, 1.0
Prepare = Callable[[Any, Array], Work]
"""Takes a case and its scores, and returns the work that is timed. The work returns the choice."""


@dataclass(frozen=True)
class SelectionPeer:
    """A peer of one case.

    `share` is the number of scores a slow peer gets, as a part of the case's own number.
    """

    ours: str
    name: str
    prepare: Prepare
    package: str = "numpy"
    share: float = 1.0
    shape: str = "near-tied"
    safe: bool = False


# NumPy


def largest(keys: Array, s: int) -> Array:
    return np.argpartition(keys, keys.size - s)[-s:]


def gumbel_top(case: Any, v: Array) -> Work:
    return lambda: largest(v + PCG64.gumbel(scale=case.scale, size=v.size), case.s)


def exponentials_top(case: Any, v: Array) -> Work:
    """NumPy's best route: −ln of an exponential is Gumbel noise, and its exponentials are its fastest; everything in place."""

    def work() -> Array:
        keys = PCG64.standard_exponential(v.size)
        np.log(keys, out=keys)
        keys *= -case.scale
        keys += v
        return largest(keys, case.s)

    return work


def mkl_top(case: Any, v: Array) -> Work:
    state = mkl_state()
    return lambda: largest(v + state.gumbel(0.0, case.scale, v.size), case.s)


def peel(case: Any, v: Array) -> Work:
    def work() -> Array:
        chosen = np.empty(case.s, np.int64)
        for r in range(case.s):
            keys = v + PCG64.laplace(scale=case.scale, size=v.size)
            keys[chosen[:r]] = -np.inf
            chosen[r] = keys.argmax()
        return chosen

    return work


def laplace_argmax(case: Any, v: Array) -> Work:
    return lambda: np.argmax(v + PCG64.laplace(scale=case.scale, size=v.size))


def gumbel_argmax(case: Any, v: Array) -> Work:
    return lambda: np.argmax(v + PCG64.gumbel(scale=case.scale, size=v.size))


def exponential_argmax(case: Any, v: Array) -> Work:
    return lambda: np.argmax(v + case.scale * PCG64.standard_exponential(v.size))


def inversion(case: Any, v: Array) -> Work:
    """The textbook: probabilities, their running sum, one uniform number."""

    def work() -> Any:
        running = np.cumsum(np.exp((v - v.max()) / case.scale))
        return np.searchsorted(running, PCG64.random() * running[-1])

    return work


# Packages


def diffprivlib(mechanism: str) -> Prepare:
    def prepare(case: Any, v: Array) -> Work:
        from diffprivlib import mechanisms

        utility, make = v.tolist(), getattr(mechanisms, mechanism)
        return lambda: make(epsilon=EPSILON, sensitivity=SENSITIVITY, utility=utility).randomise()

    return prepare


def opendp(name: str, measure: str, **options: int) -> Prepare:
    def prepare(case: Any, v: Array) -> Work:
        import opendp.prelude as dp

        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
        choose = getattr(dp.m, name)(*space, getattr(dp, measure)(), scale=case.scale, **options)
        return lambda: choose(v)

    return prepare


TOP, PEELING, ARGMAX = "top_s gumbel, s=100", "top_s peeling, s=100", "noisy_argmax laplace"
PEERS = (
    SelectionPeer(TOP, "NumPy gumbel + argpartition", gumbel_top),
    SelectionPeer(TOP, "NumPy exponentials in place + argpartition", exponentials_top),
    SelectionPeer(TOP, "MKL gumbel (SFMT) + argpartition", mkl_top, "mkl_random"),
    SelectionPeer(TOP, "OpenDP noisy top k", opendp("make_noisy_top_k", "max_divergence", k=100), "opendp", 0.1, safe=True),
    SelectionPeer(PEELING, "NumPy laplace + argmax, 100 times", peel),
    SelectionPeer(ARGMAX, "NumPy laplace + argmax", laplace_argmax),
    SelectionPeer("noisy_argmax gumbel", "NumPy gumbel + argmax", gumbel_argmax),
    SelectionPeer(
        "noisy_argmax gumbel", "OpenDP noisy max, Gumbel", opendp("make_noisy_max", "zero_concentrated_divergence"), "opendp",
        0.1, safe=True,
    ),
    SelectionPeer("exponential_mechanism", "NumPy gumbel + argmax", gumbel_argmax),
    SelectionPeer("exponential_mechanism", "NumPy running sum + searchsorted", inversion),
    SelectionPeer("exponential_mechanism", "diffprivlib Exponential", diffprivlib("Exponential"), "diffprivlib", 0.1),
    SelectionPeer("permute_and_flip", "NumPy exponentials + argmax", exponential_argmax),
    SelectionPeer("permute_and_flip", "diffprivlib PermuteAndFlip", diffprivlib("PermuteAndFlip"), "diffprivlib", 0.1),
    SelectionPeer(
        "permute_and_flip", "OpenDP noisy max, exponential", opendp("make_noisy_max", "max_divergence"), "opendp", 0.1, safe=True
    ),
)  # fmt: skip
