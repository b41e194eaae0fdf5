"""diffprivlib with dpcore beneath it and without: histograms, statistics along an axis, arrays, and single numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from dpcore.bench.benchmark import Benchmark, Plan, Side, Work
from dpcore.interop import diffprivlib as backend

BINS, POINTS = 200, 50_000
ROWS, COLUMNS, FEW_COLUMNS = 10, 100_000, 300
ARRAY, FEW, CALLS = 1_000_000, 2_000, 2_000
BOUNDS = (0.0, 1.0)


def _tools() -> Any:
    import diffprivlib.tools

    return diffprivlib.tools


def _mechanisms() -> Any:
    import diffprivlib.mechanisms

    return diffprivlib.mechanisms


def _served(work: Work) -> Work:
    """A call with dpcore beneath it, and only then: both sides take turns in one process."""

    def call() -> Any:
        with backend.install(vectorise=True):
            return work()

    return call


def _native(prepare: Callable[[Any], Work], check: Callable[[Any, Any], None], size: int | None = None) -> Side:
    return Side(name="diffprivlib's own", package="diffprivlib", safe=True, size=size, prepare=prepare, check=check)


def _histogram() -> Benchmark:
    def prepare(made: tuple[Any, Any]) -> Work:
        return partial(_tools().histogram2d, *made, epsilon=1.0, bins=BINS, range=[BOUNDS, BOUNDS])

    def check(_made: object, released: Any) -> None:
        counts = released[0]
        if counts.shape != (BINS, BINS) or not abs(counts.sum() / POINTS - 1) < 0.8:
            raise AssertionError("diffprivlib with a histogram: as many points as there are were expected, but for noise")

    def points() -> tuple[Any, Any]:
        generator = np.random.default_rng(1)
        return generator.random(POINTS), generator.random(POINTS)

    return Benchmark(
        group="interop", name=f"diffprivlib, histogram2d of {BINS} × {BINS} bins", size=BINS * BINS, unit="bin", package="diffprivlib",
        inputs=points, ours=lambda made: _served(prepare(made)), check=check, sides=(_native(prepare, check),),
    )  # fmt: skip


def _along_an_axis() -> Benchmark:
    def prepare(table: Any) -> Work:
        return partial(_tools().mean, table, epsilon=float(table.shape[1]), bounds=BOUNDS, axis=0)

    def check(_made: object, released: Any) -> None:
        if not abs(released.mean() - 0.5) < 0.05:
            raise AssertionError("diffprivlib with means: numbers around 0.5 were expected")

    return Benchmark(
        group="interop", name="diffprivlib, mean of columns", size=COLUMNS, unit="column", package="diffprivlib",
        inputs=lambda: np.random.default_rng(1).random((ROWS, COLUMNS)), ours=lambda table: _served(prepare(table)), check=check,
        sides=(_native(lambda table: prepare(table[:, :FEW_COLUMNS]), check, FEW_COLUMNS),),
    )  # fmt: skip


ARRAYS: dict[str, tuple[Callable[[], Any], type[np.generic], float]] = {
    "Laplace": (lambda: _mechanisms().Laplace(epsilon=0.5, sensitivity=1), np.float64, 8**0.5),
    "Geometric": (lambda: _mechanisms().Geometric(epsilon=0.5), np.int64, 2.7992),
    "GaussianAnalytic": (lambda: _mechanisms().GaussianAnalytic(epsilon=1.0, delta=1e-5, sensitivity=1), np.float64, 3.7306),
}


def _array(name: str) -> Benchmark:
    make, dtype, deviation = ARRAYS[name]

    def native(values: Any) -> Work:
        mechanism, some = make(), values[:FEW].tolist()
        return lambda: [mechanism.randomise(value) for value in some]

    def served(values: Any) -> Work:
        mechanism = make()
        return _served(lambda: mechanism.randomise(values))

    def check(values: Any, released: Any) -> None:
        noise = np.asarray(released) - values[: len(released)]
        if not 0.8 < noise.std() / deviation < 1.2:
            raise AssertionError(f"diffprivlib with {name}: noise of another size was expected")

    return Benchmark(
        group="interop", name=f"diffprivlib, {name} on an array", size=ARRAY, package="diffprivlib",
        inputs=lambda: np.random.default_rng(1).integers(-1000, 1000, ARRAY).astype(dtype),
        ours=served, check=check, sides=(_native(native, check, FEW),),
    )  # fmt: skip


PAIRS = [(a, b, 1.0 + ord(b) - ord(a)) for a in "ABCDE" for b in "ABCDE" if a < b]
SINGLE: dict[str, tuple[Callable[[], Any], Any]] = {
    "Laplace": (lambda: _mechanisms().Laplace(epsilon=1.0, sensitivity=1), 1.0),
    "LaplaceTruncated": (lambda: _mechanisms().LaplaceTruncated(epsilon=1.0, sensitivity=1, lower=0, upper=2), 1.0),
    "LaplaceFolded": (lambda: _mechanisms().LaplaceFolded(epsilon=1.0, sensitivity=1, lower=0, upper=2), 1.0),
    "LaplaceBoundedDomain": (lambda: _mechanisms().LaplaceBoundedDomain(epsilon=1.0, sensitivity=1, lower=0, upper=2), 1.0),
    "LaplaceBoundedNoise": (lambda: _mechanisms().LaplaceBoundedNoise(epsilon=1.0, delta=0.1, sensitivity=1), 1.0),
    "Geometric": (lambda: _mechanisms().Geometric(epsilon=1.0), 1),
    "GeometricTruncated": (lambda: _mechanisms().GeometricTruncated(epsilon=1.0, lower=0, upper=9), 1),
    "GeometricFolded": (lambda: _mechanisms().GeometricFolded(epsilon=1.0, lower=0, upper=9), 1),
    "Gaussian": (lambda: _mechanisms().Gaussian(epsilon=1.0, delta=0.1, sensitivity=1), 1.0),
    "GaussianAnalytic": (lambda: _mechanisms().GaussianAnalytic(epsilon=1.0, delta=0.1, sensitivity=1), 1.0),
    "GaussianDiscrete": (lambda: _mechanisms().GaussianDiscrete(epsilon=1.0, delta=0.1), 1),
    "Binary": (lambda: _mechanisms().Binary(epsilon=1.0, value0="a", value1="b"), "a"),
    "Exponential": (lambda: _mechanisms().Exponential(epsilon=1.0, sensitivity=1, utility=[1.0] * 10), None),
    "Exponential, measure": (lambda: _mechanisms().Exponential(epsilon=1.0, sensitivity=1, utility=[1.0] * 10, measure=[1.0] * 10), None),
    "PermuteAndFlip": (lambda: _mechanisms().PermuteAndFlip(epsilon=1.0, sensitivity=1, utility=[1.0] * 10), None),
    "ExponentialCategorical": (lambda: _mechanisms().ExponentialCategorical(epsilon=1.0, utility_list=PAIRS), "C"),
    "ExponentialHierarchical": (lambda: _mechanisms().ExponentialHierarchical(epsilon=1.0, hierarchy=[["A", "B"], ["C", "D"]]), "C"),
}


def _single(name: str) -> Benchmark:
    make, value = SINGLE[name]

    def prepare(_made: object) -> Work:
        mechanism = make()

        def work() -> list[Any]:
            randomise = mechanism.randomise
            return [randomise(value) for _ in range(CALLS)]

        return work

    def check(_made: object, released: Any) -> None:
        if len(set(released)) < 2:
            raise AssertionError(f"diffprivlib with {name}: answers that differ were expected")

    return Benchmark(
        group="interop", name=f"diffprivlib, {name}, one by one", size=CALLS, unit="call", package="diffprivlib",
        inputs=lambda: None, ours=lambda made: _served(prepare(made)), check=check, sides=(_native(prepare, check),),
    )  # fmt: skip


def benchmarks(plan: Plan) -> Iterator[Benchmark]:
    """Yield the benchmarks of diffprivlib.

    Parameters
    ----------
    plan : Plan
        How much is measured; these are small whatever it says.

    Yields
    ------
    Benchmark
        A call through diffprivlib with dpcore beneath it and without.
    """
    del plan
    yield _histogram()
    yield _along_an_axis()
    yield from map(_array, ARRAYS)
    yield from map(_single, SINGLE)
