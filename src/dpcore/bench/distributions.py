"""Releases of distributions and private tests beside NumPy: kernels and whole calls."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend, distributions, inference
from dpcore.bench.benchmark import Benchmark, Plan, Side, Work
from dpcore.bench.noise import copy

Array = npt.NDArray[Any]
EPSILON = 1.0
CELLS, TERMS, COLUMNS = 1000, 100, 1000
KS_RECORDS, KS_SIZE = 10**4, 200
"""Records, bins and draws of the Kolmogorov-Smirnov mechanism."""
TEST_RECORDS = 10**6
"""Rows of the uniformity test on two cores."""
LARGEST_ROWS = 10**5
"""Largest number of rows of signs that NumPy unpacks: a byte for each sign, and eight as an integer."""


def weights() -> list[int]:
    """Weights of cells, some of them 0; the same on every run."""
    return [int(w) for w in np.random.default_rng(1).poisson(np.linspace(0.0, 20.0, CELLS))]


def records(n: int) -> Array:
    """Records in [0, 1]; the same on every run."""
    return np.random.default_rng(2).beta(10, 3, n)


def numpy_codes(cumulative: Array, n: int) -> Array:
    """Codes from NumPy's generator, inverted in floats."""
    found: Array = np.searchsorted(cumulative, np.random.default_rng().random(n), side="right")
    return found


def numpy_cosine_sums(x: Array) -> Array:
    """Sums of cosines in floats, a block of records at a time."""
    j = np.arange(1, TERMS + 1)
    total = np.zeros(TERMS)
    for start in range(0, len(x), 4096):
        total += np.cos(np.pi * x[start : start + 4096, None] * j).sum(axis=0)
    found: Array = np.sqrt(2) * total
    return found


def numpy_products(packed: Array, values: Array) -> Array:
    """Products with rows of signs, unpacked."""
    signs = 2.0 * np.unpackbits(packed, axis=1, count=len(values), bitorder="little") - 1.0
    found: Array = signs @ values
    return found


def numpy_histogram(x: Array, bins: int) -> Array:
    """A noisy histogram in floats, cut at 0 and normalised."""
    noisy = np.histogram(x, bins, (0.0, 1.0))[0] + np.random.default_rng().laplace(0.0, 2 / EPSILON, bins)
    positive = np.maximum(noisy, 0.0)
    found: Array = positive / positive.sum()
    return found


def check_close(name: str, ours: Array, other: Array, tolerance: float) -> None:
    """Raise if two ways differ by more than rounding or noise can explain."""
    worst = float(np.abs(np.asarray(ours) - np.asarray(other)).max())
    if not worst <= tolerance:
        raise AssertionError(f"{name}: two ways differ by {worst:.3g}, more than {tolerance:.3g}")


def _codes(n: int) -> Benchmark:
    """Exact codes of cells beside NumPy's inversion in floats."""
    from dpcore.distributions._choices import draw_codes

    w = weights()
    cumulative = np.cumsum(w) / sum(w)

    def check(_made: Any, result: Any) -> None:
        frequencies = np.bincount(result, minlength=CELLS) / n
        # a frequency is beyond ten standard deviations with probability below 10^-20
        check_close("codes", frequencies, np.array(w) / sum(w), 10 * np.sqrt(max(w) / sum(w) / n) + 20 / n)

    return Benchmark(
        group="distributions", name=f"exact codes of {CELLS:,} cells", size=n, unit="code", inputs=lambda: w, check=check, levels=True,
        ours=lambda made: partial(draw_codes, made, n, threads=1),
        sides=(Side(name="NumPy searchsorted of floats", prepare=lambda _made: partial(numpy_codes, cumulative, n), judges=True),),
    )  # fmt: skip


def _cosines(n: int) -> Benchmark:
    """Exact sums of rounded cosines beside NumPy's float sums."""

    def check(made: tuple[Array], result: Any) -> None:
        exact = np.array(result, np.float64) * _backend.COSINE_GRID
        check_close("cosine sums", exact, numpy_cosine_sums(made[0]), 2 * _backend.COSINE_GRID * n + 1e-6)

    return Benchmark(
        group="distributions", name=f"cosine sums, {TERMS} terms", size=n * TERMS, unit="cosine", inputs=lambda: (records(n),), check=check,
        levels=True, ours=lambda made: partial(_backend.cosine_sums, made[0], TERMS, threads=1),
        sides=(Side(name="NumPy cos", prepare=lambda made: partial(numpy_cosine_sums, made[0]), judges=True),),
    )  # fmt: skip


def _products(n: int) -> Benchmark:
    """Products of packed rows of signs with integers beside unpacked rows and BLAS."""
    rows = min(n, LARGEST_ROWS)

    def inputs() -> tuple[Array, Array]:
        rng = np.random.default_rng(1)
        return rng.integers(0, 256, (rows, COLUMNS // 8), dtype=np.uint8), rng.integers(-20_000, 20_000, COLUMNS)

    return Benchmark(
        group="distributions", name=f"products with {COLUMNS:,} packed signs", size=rows, unit="row", inputs=inputs, levels=True,
        ours=lambda made: partial(_backend.sign_products, *made, threads=1),
        check=lambda made, result: check_close("products with signs", result, numpy_products(*made), 0.0),
        sides=(
            Side(name="NumPy unpacked, all cores", prepare=lambda made: partial(numpy_products, *made)),
            Side(name="copy of the signs", prepare=copy, kind="bound", judges=True),
        ),
    )  # fmt: skip


def _histogram(n: int) -> Benchmark:
    """A perturbed histogram beside NumPy's, whose noise is not private."""

    def check(made: tuple[Array], result: Any) -> None:
        # both noises beyond 40 scales have probability below 10^-14; cutting at 0 moves the sum by at most the noise of empty cells
        check_close("perturbed histogram", result.masses, numpy_histogram(made[0], CELLS), 200 * CELLS**0.5 / EPSILON / n)

    return Benchmark(
        group="distributions", name=f"perturbed_histogram, {CELLS:,} bins", size=n, unit="record", inputs=lambda: (records(n),),
        check=check, levels=True,
        ours=lambda made: partial(distributions.perturbed_histogram, made[0], EPSILON, (0, 1), bins=CELLS, threads=1),
        sides=(
            Side(name="NumPy histogram + laplace", prepare=lambda made: partial(numpy_histogram, made[0], CELLS)),
            Side(name="copy of the records", prepare=copy, kind="bound", judges=True),
        ),
    )  # fmt: skip


def _synthetic(n: int) -> Benchmark:
    """Synthetic records from a released histogram beside NumPy's codes and places in floats."""

    def inputs() -> Any:
        return distributions.perturbed_histogram(records(10**5), EPSILON, (0, 1), bins=CELLS)

    def numpy_records(released: Any) -> Work:
        cumulative = np.cumsum(released.masses)
        return lambda: (numpy_codes(cumulative / cumulative[-1], n) + np.random.default_rng().random(n)) / CELLS

    def check(released: Any, result: Any) -> None:
        # the mean of so many numbers in [0, 1] is beyond ten standard errors with probability below 10^-20
        expected = float(released.masses @ (np.arange(CELLS) + 0.5)) / CELLS
        check_close("synthetic records", np.asarray(result.mean()), np.asarray(expected), 10 / np.sqrt(n))

    return Benchmark(
        group="distributions", name=f"synthetic records, {CELLS:,} bins", size=n, unit="record", threads=_backend.default_threads(),
        inputs=inputs, check=check, ours=lambda released: partial(released.sample, n),
        sides=(Side(name="NumPy, codes and places", prepare=numpy_records, judges=True),),
    )  # fmt: skip


def _ks() -> Benchmark:
    """The exact draw of the Kolmogorov-Smirnov mechanism."""

    def check(made: tuple[Array], result: Any) -> None:
        drawn = np.sort(np.asarray(result.draws))
        grid = np.linspace(0, 1, 21)
        check_close("ks_exponential", np.searchsorted(drawn, grid) / KS_SIZE, np.searchsorted(np.sort(made[0]), grid) / KS_RECORDS, 0.5)

    return Benchmark(
        group="distributions", name=f"ks_exponential, {KS_RECORDS:,} records, {KS_SIZE} bins and draws", size=1, unit="call",
        inputs=lambda: (records(KS_RECORDS),), check=check, character="whole",
        ours=lambda made: partial(distributions.ks_exponential, made[0], EPSILON, (0, 1), draws=KS_SIZE, bins=KS_SIZE),
        sides=(Side(name="NumPy sort, 100 times", prepare=_sorting, kind="bound", judges=True),),
    )  # fmt: skip


def _sorting(made: tuple[Array]) -> Work:
    return lambda: [np.sort(made[0], kind="stable") for _ in range(100)]


def _uniformity(n: int) -> Benchmark:
    """The private uniformity test of packed rows on two cores."""
    threads = min(2, _backend.default_threads())

    def check(_made: Any, outcome: Any) -> None:
        # far beyond the size at which it errs in a third of the runs, it almost never errs
        if outcome.reject and n >= 10 * outcome.sample_size_needed:
            raise AssertionError("uniformity_test: uniform signs were rejected")

    return Benchmark(
        group="distributions", name=f"uniformity_test, {COLUMNS:,} signs a row", size=n, unit="row", threads=threads, quick=False,
        inputs=lambda: (np.random.default_rng(1).integers(0, 256, (n, COLUMNS // 8), dtype=np.uint8),), check=check,
        ours=lambda made: partial(inference.uniformity_test, made[0], EPSILON, 1e-6, alpha=0.5, columns=COLUMNS, threads=threads),
        sides=(Side(name="copy of the rows", prepare=copy, kind="bound", judges=True),),
    )  # fmt: skip


def distribution_benchmarks(plan: Plan) -> Iterator[Benchmark]:
    """Everything of this module.

    Parameters
    ----------
    plan : Plan
        How much is measured.
    """
    yield _codes(plan.size)
    yield _cosines(max(1, plan.size // 100))
    yield _products(max(1, plan.size // 100))
    yield _histogram(plan.size)
    yield _synthetic(plan.size)
    yield _ks()
    yield _uniformity(min(plan.size, TEST_RECORDS))
