"""Calls on few values: what a call itself costs, beside the key that every call takes from the system, and beside NumPy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import local, mechanisms, selection
from dpcore.bench._peers.sources import PCG64
from dpcore.bench.benchmark import Benchmark, Plan, Prepare, Side, Work
from dpcore.bench.noise import Case, cases

Array = npt.NDArray[Any]
FEW, SIZES = 100, (5, 16, 1000)
EPSILON, DELTA = 1.0, 1e-6
CHANNEL = 1 + np.eye(16, 12, dtype=np.int64) + np.eye(16, 12, -12, dtype=np.int64)
"""From sixteen inputs to twelve outcomes, each of which stands for its number."""


def key(_inputs: object) -> Work:
    """Prepare the draw of a key, which every call that makes noise needs.

    Parameters
    ----------
    _inputs : object
        Not used.
    """
    return partial(os.urandom, 32)


KEY = Side(name="os.urandom(32)", prepare=key, kind="bound", judges=True)


def _numpy_noise(case: Case, size: int | None) -> Side:
    draw: Callable[[], Any]
    if case.name == "laplace":
        draw = partial(PCG64.laplace, 0.0, case.scale, size)
    elif case.name == "discrete_laplace":
        p = -float(np.expm1(-1 / case.scale))
        draw = lambda: PCG64.geometric(p, size) - PCG64.geometric(p, size)  # noqa: E731
    else:
        draw = partial(PCG64.normal, 0.0, case.scale, size)
    return Side(name="NumPy draws", prepare=lambda values: lambda: values + draw())


def _noise_calls(case: Case) -> Iterator[Benchmark]:
    number = 3 if case.dtype is np.int64 else 3.0

    def check_scalar(_values: Any, result: Any) -> None:
        if type(result) is not type(number):
            raise AssertionError(f"{case.name}: a scalar became {type(result).__name__}")

    def check_array(values: Array, result: Any) -> None:
        if result.shape != values.shape or result.dtype != values.dtype:
            raise AssertionError(f"{case.name}: shape or type of the result is wrong")

    yield Benchmark(
        group="calls", name=f"{case.name}, a scalar", size=1, unit="call", character="call", inputs=lambda: number, check=check_scalar,
        ours=lambda value: partial(case.function, value, case.scale), sides=(_numpy_noise(case, None), KEY),
    )  # fmt: skip
    for size in SIZES:
        yield Benchmark(
            group="calls", name=f"{case.name}, {size:,} values", size=1, unit="call", character="call", check=check_array,
            inputs=partial(np.zeros, size, case.dtype), ours=lambda values: partial(case.function, values, case.scale),
            sides=(_numpy_noise(case, size), KEY),
        )  # fmt: skip


def _call(name: str, inputs: Callable[[], Any], ours: Prepare, *sides: Side, quick: bool = True) -> Benchmark:
    return Benchmark(group="calls", name=name, size=1, unit="call", character="call", inputs=inputs, ours=ours, sides=sides, quick=quick)


def _curators() -> Iterator[Benchmark]:
    """Releases of 100 values, and the construction of what releases them."""
    makers: tuple[tuple[str, Callable[[], Any], type], ...] = (
        ("Laplace", partial(mechanisms.Laplace, EPSILON, 1.0), np.float64),
        ("Gaussian", partial(mechanisms.Gaussian, EPSILON, DELTA, 1.0), np.float64),
        ("DiscreteLaplace", partial(mechanisms.DiscreteLaplace, EPSILON, 1), np.int64),
        ("DiscreteGaussian", partial(mechanisms.DiscreteGaussian, EPSILON, DELTA, 1.0), np.int64),
    )
    for name, make, dtype in makers:
        yield _call(f"{name}.release, {FEW} values", partial(np.zeros, FEW, dtype), _releasing(make), KEY)
        yield _call(f"{name}(…)", lambda: None, _constructing(make), KEY)


def _releasing(make: Callable[[], Any]) -> Prepare:
    return lambda values: partial(make().release, values)


def _constructing(make: Callable[[], Any]) -> Prepare:
    return lambda _inputs: make


def _randomisers() -> tuple[tuple[str, Callable[[], Any], Array], ...]:
    """Every local randomiser, with records for it."""
    codes, numbers = np.arange(FEW) % 16, np.linspace(0.0, 8.0, FEW)
    return (
        ("BinaryResponse", partial(local.BinaryResponse, EPSILON), codes < 5),
        ("BoundedMean", partial(local.BoundedMean, EPSILON, 0.0, 8.0), numbers),
        ("KaryResponse", partial(local.KaryResponse, EPSILON, k=16), codes),
        ("FiniteChannel", partial(local.FiniteChannel, CHANNEL, values=tuple(range(12))), codes),
        ("UnaryEncoding", partial(local.UnaryEncoding, EPSILON, k=16), codes),
        ("SubsetSelection", partial(local.SubsetSelection, EPSILON, k=16), codes),
        ("LocalHashing", partial(local.LocalHashing, EPSILON, k=16), codes),
        ("HadamardResponse", partial(local.HadamardResponse, EPSILON, k=16), codes),
        ("ProjectiveGeometryResponse", partial(local.ProjectiveGeometryResponse, EPSILON, k=16), codes),
        ("VectorMean", partial(local.VectorMean, EPSILON, 0.0, 8.0, d=4), np.stack([numbers] * 4, axis=1)),
        ("LocalLaplace", partial(local.LocalLaplace, EPSILON, 0.0, 8.0), numbers),
        ("LocalGaussian", partial(local.LocalGaussian, EPSILON, DELTA, 0.0, 8.0), numbers),
        ("LocalDiscreteLaplace", partial(local.LocalDiscreteLaplace, EPSILON, 0, 16), codes),
        ("LocalDiscreteGaussian", partial(local.LocalDiscreteGaussian, EPSILON, DELTA, 0, 16), codes),
    )


def _local_calls() -> Iterator[Benchmark]:
    for name, make, records in _randomisers():
        yield from _of_randomiser(name, make, records)


def _of_randomiser(name: str, make: Callable[[], Any], records: Array) -> Iterator[Benchmark]:
    def aggregate() -> tuple[Any, Any]:
        mechanism = make()
        return mechanism, mechanism.aggregate(mechanism.privatize(records))

    yield _call(f"{name}.privatize, {FEW} records", lambda: records, lambda values: partial(make().privatize, values), KEY)
    yield _call(f"{name}.estimate of an aggregate", aggregate, lambda made: partial(made[0].estimate, made[1]), KEY)
    yield _call(f"{name}(…)", lambda: None, _constructing(make), KEY, quick=False)


def _choices() -> Iterator[Benchmark]:
    scores = np.linspace(0.0, 10.0, FEW)
    chosen: tuple[tuple[str, Work], ...] = (
        ("noisy_argmax", partial(selection.noisy_argmax, scores, EPSILON, 1.0)),
        ("noisy_argmax gumbel", partial(selection.noisy_argmax, scores, EPSILON, 1.0, noise="gumbel")),
        ("exponential_mechanism", partial(selection.exponential_mechanism, scores, EPSILON, 1.0)),
        ("permute_and_flip", partial(selection.permute_and_flip, scores, EPSILON, 1.0)),
        ("top_s gumbel, s=3", partial(selection.top_s, scores, EPSILON, 1.0, s=3)),
        ("top_s peeling, s=3", partial(selection.top_s, scores, EPSILON, 1.0, s=3, delta=DELTA, method="peeling")),
    )
    for name, work in chosen:
        yield _call(f"{name}, {FEW} scores", lambda: None, _constructing(work), KEY)
    counts = np.arange(FEW)
    yield _call(
        f"select_partitions, {FEW} counts", lambda: None, _constructing(partial(selection.select_partitions, counts, EPSILON, DELTA)), KEY
    )


def call_benchmarks(_plan: Plan) -> Iterator[Benchmark]:
    """Every call on few values that users make often.

    Parameters
    ----------
    _plan : Plan
        Not used: these sizes are always the same.
    """
    for case in cases():
        yield from _noise_calls(case)
    yield from _curators()
    yield from _local_calls()
    yield from _choices()
