"""dpcore's measurements beside OpenDP's own, both called through OpenDP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore.bench.benchmark import Benchmark, Plan, Side, Work
from dpcore.interop import opendp

Array = npt.NDArray[Any]
Measurement = Any
SCALE = 2.0
MOST, FEW = 1_000_000, 500
"""Values of one call, and of one call of the peer, which takes some 20 µs for each."""


def _dp() -> Any:
    """OpenDP, with what it asks for: this process measures and releases nothing."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")
    return dp


@dataclass(frozen=True, slots=True)
class Noise:
    """One kind of noise on many numbers.

    Attributes
    ----------
    name : str
        Of OpenDP's constructor, without ``make_``.
    metric : str
        Of OpenDP's metric.
    atom : str
        OpenDP's name of the type of the numbers.
    dtype : type
        NumPy's.
    deviation : float
        Of the noise, at the scale that is timed.
    """

    name: str
    metric: str
    atom: str
    dtype: type[np.generic]
    deviation: float

    def values(self, n: int) -> Array:
        """Made-up numbers, the same on every run."""
        return np.random.default_rng(1).integers(-1000, 1000, n).astype(self.dtype)

    def measurement(self, make: Callable[..., Measurement], n: int | None = None) -> Measurement:
        """A measurement of lists, or with a number of values of arrays."""
        dp = _dp()
        atoms = dp.atom_domain(T=self.atom, nan=False) if self.atom == "f64" else dp.atom_domain(T=self.atom)
        domain = dp.vector_domain(atoms) if n is None else dp.numpy.arrayd_domain(shape=(n,), T=self.atom)
        return make(domain, getattr(dp, self.metric)(T="f64"), SCALE)

    def native(self) -> Measurement:
        """OpenDP's own measurement of lists."""
        return self.measurement(getattr(_dp().m, f"make_{self.name}"))

    def check(self, made: tuple[Array], released: Any) -> None:
        """Raise unless the answers have noise of the right size around the values."""
        noise = np.asarray(released, np.float64) - made[0][: len(released)]
        if not (abs(noise.mean()) < 8 * self.deviation / len(noise) ** 0.5 and 0.8 < noise.std() / self.deviation < 1.2):
            raise AssertionError(f"OpenDP with {self.name}: noise of another size was expected")


NOISES = (
    Noise("laplace", "l1_distance", "f64", np.float64, SCALE * 2**0.5),
    Noise("gaussian", "l2_distance", "f64", np.float64, SCALE),
    Noise("laplace", "l1_distance", "i64", np.int64, 2.7992),
    Noise("gaussian", "l2_distance", "i64", np.int64, SCALE),
)
_OURS = {"laplace": opendp.make_laplace, "gaussian": opendp.make_gaussian}


def _noise(noise: Noise, n: int, *, arrays: bool) -> Benchmark:
    def ours(made: tuple[Array]) -> Work:
        return partial(noise.measurement(_OURS[noise.name], n if arrays else None), made[0])

    native = Side(
        name="OpenDP's own, as a list", package="opendp", safe=True, size=min(n, FEW), check=noise.check,
        prepare=lambda made: partial(noise.native(), made[0][:FEW]),
    )  # fmt: skip
    kind = {"f64": "floats", "i64": "integers"}[noise.atom]
    return Benchmark(
        group="interop", name=f"OpenDP, {noise.name} on {kind}, {'an array' if arrays else 'as a list'}", size=n, package="opendp",
        inputs=lambda: (noise.values(n),), ours=ours, check=noise.check, sides=(native,),
    )  # fmt: skip


def _choice(k: int | None, n: int, *, arrays: bool) -> Benchmark:
    """One index, or k of them, of n scores of which the last are far above the others."""

    def prepare(constructors: Any, made: tuple[Array], arrays: bool) -> Work:
        dp = _dp()
        domain = dp.numpy.arrayd_domain(shape=(n,), T=float) if arrays else dp.vector_domain(dp.atom_domain(T=float, nan=False))
        space = domain, dp.linf_distance(T=float), dp.max_divergence()
        if k is None:
            return partial(constructors.make_noisy_max(*space, SCALE), made[0])
        return partial(constructors.make_noisy_top_k(*space, k, SCALE), made[0])

    def check(_made: tuple[Array], chosen: Any) -> None:
        if sorted(np.atleast_1d(chosen)) != list(range(n - (k or 1), n)):
            raise AssertionError("OpenDP with a choice: the scores far above the others were expected")

    def scores() -> tuple[Array]:
        values = np.random.default_rng(1).random(n)
        values[n - (k or 1) :] += 1e4
        return (values,)

    name = "noisy max" if k is None else f"noisy top {k}"
    native = Side(
        name="OpenDP's own, as a list", package="opendp", safe=True, prepare=lambda made: prepare(_dp().m, made, arrays=False), check=check
    )
    return Benchmark(
        group="interop", name=f"OpenDP, {name}, {'an array' if arrays else 'as a list'}", size=n, unit="score", package="opendp",
        inputs=scores, ours=lambda made: prepare(opendp, made, arrays=arrays), check=check, sides=(native,),
    )  # fmt: skip


def _responses(n: int) -> Benchmark:
    """Each bool of an array; OpenDP's own takes one at a time."""

    def ours(made: tuple[Array]) -> Work:
        dp = _dp()
        space = dp.numpy.arrayd_domain(shape=(n,), T=bool), dp.hamming_distance()
        return partial(opendp.make_randomized_response_bool(*space, 0.75), made[0])

    def native(made: tuple[Array]) -> Work:
        measurement, bools = _dp().m.make_randomized_response_bool(0.75), made[0][:FEW].tolist()
        return lambda: [measurement(value) for value in bools]

    def check(made: tuple[Array], reports: Any) -> None:
        kept = np.mean(np.asarray(reports) == made[0][: len(reports)])
        if not abs(kept - 0.75) < 8 * 0.44 / len(reports) ** 0.5:
            raise AssertionError("OpenDP with randomised response: three of four true answers were expected")

    return Benchmark(
        group="interop", name="OpenDP, randomised response, an array", size=n, unit="record", package="opendp",
        inputs=lambda: (np.random.default_rng(1).random(n) < 0.3,), ours=ours, check=check,
        sides=(Side(name="OpenDP's own, one by one", package="opendp", safe=True, size=min(n, FEW), prepare=native, check=check),),
    )  # fmt: skip


def _one_number() -> Benchmark:
    def prepare(make: Callable[..., Measurement]) -> Work:
        dp = _dp()
        return partial(make(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), SCALE), 5.0)

    def check(_made: object, released: Any) -> None:
        if not abs(released - 5.0) < 40 * SCALE:
            raise AssertionError("OpenDP with one number: noise of another size was expected")

    return Benchmark(
        group="interop", name="OpenDP, laplace on one float", size=1, unit="call", package="opendp", character="call",
        inputs=lambda: None, ours=lambda _made: prepare(opendp.make_laplace), check=check,
        sides=(
            Side(name="OpenDP's own", package="opendp", safe=True, check=check, prepare=lambda _made: prepare(_dp().m.make_laplace)),
        ),
    )  # fmt: skip


def benchmarks(plan: Plan) -> Iterator[Benchmark]:
    """Measurements of numbers, choices and responses.

    Parameters
    ----------
    plan : Plan
        How much is measured.
    """
    n = max(FEW, min(plan.size, MOST))
    for noise in NOISES:
        for arrays in (True, False):
            yield _noise(noise, n if arrays else min(n, MOST // 10), arrays=arrays)
    for k in (None, 10):
        for arrays in (True, False):
            yield _choice(k, min(n, MOST // 50), arrays=arrays)
    yield _responses(n)
    yield _one_number()
