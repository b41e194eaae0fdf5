"""Bit generators of dpcore beside NumPy's own, and beside secure ones that other tools have: the same functions of NumPy on each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore.bench.benchmark import Benchmark, Plan, Side, Work
from dpcore.interop.numpy import KeyedBitGenerator, SecureBitGenerator

Array = npt.NDArray[Any]
Rng = np.random.Generator
MOST, FEW = 1_000_000, 20_000
"""Values of one call, and of one call of peers that take a fifth of a microsecond for each, or more."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A function of NumPy's generators.

    Attributes
    ----------
    name : str
        In the table.
    call : callable
        From a generator and a number of values to the values.
    mean, deviation : float
        Of a value, for the check.
    """

    name: str
    call: Callable[[Rng, int], Array]
    mean: float
    deviation: float

    def on(self, make: Callable[[], Rng], n: int) -> Callable[[Any], Work]:
        """What times it on a generator.

        Parameters
        ----------
        make : callable
            Makes the generator.
        n : int
            Number of values.
        """
        return lambda _made: partial(self.call, make(), n)

    def check(self, _made: object, values: Array) -> None:
        """Raise unless the values have their mean.

        Parameters
        ----------
        _made : object
            Nothing.
        values : ndarray
            What was drawn.
        """
        if not abs(float(values.mean()) - self.mean) < 8 * self.deviation / len(values) ** 0.5:
            raise AssertionError(f"{self.name} with NumPy: values around {self.mean} were expected")


DRAWS = (
    Draw("uniform doubles", lambda rng, n: rng.random(n), 0.5, 12**-0.5),
    Draw("integers of 63 bits", lambda rng, n: rng.integers(0, 1 << 63, n), 2.0**62, 2.0**63 / 12**0.5),
    Draw("integers below 1000", lambda rng, n: rng.integers(0, 1000, n), 499.5, 288.7),
    Draw("normals", lambda rng, n: rng.standard_normal(n), 0.0, 1.0),
)


def _pcg64() -> Rng:
    return np.random.Generator(np.random.PCG64(1))


def _of_randomgen(name: str) -> Rng:
    return np.random.Generator(getattr(import_module("randomgen"), name)())


def _of_opendp() -> Rng:
    generator: Rng = import_module("opendp._lib").get_np_csprng()
    return generator


def _of_tumult() -> Rng:
    generator: Rng = import_module("tmlt.core.random.rng").prng()
    return generator


def _peers(draw: Draw, n: int) -> tuple[Side, ...]:
    few = min(n, FEW)
    return (
        Side(name="NumPy's PCG64", prepare=draw.on(_pcg64, n), judges=True),
        Side(name="ChaCha20 of randomgen", package="randomgen", prepare=draw.on(partial(_of_randomgen, "ChaCha"), n)),
        Side(name="RDRAND of randomgen", package="randomgen", prepare=draw.on(partial(_of_randomgen, "RDRAND"), few), size=few),
        Side(name="what OpenDP gives scikit-learn", package="opendp", prepare=draw.on(_of_opendp, few), size=few),
        Side(name="what Tumult draws from", package="tmlt", prepare=draw.on(_of_tumult, few), size=few),
    )


def benchmarks(plan: Plan) -> Iterator[Benchmark]:
    """Functions of NumPy on the secure bit generator and on the keyed one.

    Parameters
    ----------
    plan : Plan
        How much is measured.
    """
    n = max(FEW, min(plan.size, MOST))
    for draw in DRAWS:
        for name, kind in (("secure", SecureBitGenerator), ("keyed", partial(KeyedBitGenerator, 1))):
            yield Benchmark(
                group="interop", name=f"NumPy, {draw.name}, {name}", size=n, character="compute", inputs=lambda: None,
                ours=draw.on(partial(_generator, kind), n), check=draw.check, sides=_peers(draw, n), quick=name == "secure",
            )  # fmt: skip


def _generator(kind: Callable[[], np.random.BitGenerator]) -> Rng:
    return np.random.Generator(kind())
