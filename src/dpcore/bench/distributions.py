"""Times of `dpcore.distributions` and of private tests: kernels and whole calls compared with NumPy, or with a time limit."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend, distributions, inference
from dpcore.bench.noise import at_levels
from dpcore.bench.table import Row
from dpcore.bench.timing import Timing, Work, take_turns

Array = npt.NDArray[Any]
EPSILON = 1.0
CELLS, TERMS, COLUMNS = 1000, 100, 1000
KS_RECORDS, KS_SIZE, KS_SECONDS = 10**4, 200, 5.0
"""Records, bins and draws of the Kolmogorov-Smirnov mechanism, and its time limit."""
TEST_RECORDS, TEST_SECONDS = 10**6, 10.0
"""Rows of the uniformity test on two cores, and its time limit."""
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


def _row(ours: str, against: str, level: str, timing: Timing, n: int, *, threads: int = 1, **more: Any) -> Row:
    ratio = 1 / timing.ratio if more.get("bound") else timing.ratio
    return Row(ours, against, level, threads, timing.ours * 1e9 / n, timing.other * 1e9 / n, ratio, **more)


def _within(work: Work, seconds: float, rounds: int) -> Timing:
    ours = take_turns(work, lambda: None, rounds).ours
    return Timing(ours, seconds, seconds / ours)


def choice_row(level: str, n: int, rounds: int) -> Row:
    """Exact codes of cells against NumPy's inversion in floats."""
    from dpcore.distributions._choices import draw_codes

    w = weights()
    cumulative = np.cumsum(w) / sum(w)
    frequencies = np.bincount(draw_codes(w, n, threads=1), minlength=CELLS) / n
    # a frequency is beyond ten standard deviations with probability below 10^-20
    check_close("codes", frequencies, np.array(w) / sum(w), 10 * np.sqrt(max(w) / sum(w) / n) + 20 / n)
    timing = take_turns(partial(draw_codes, w, n, threads=1), partial(numpy_codes, cumulative, n), rounds)
    return _row(f"exact codes of {CELLS:,} cells", "NumPy's floats", level, timing, n, target=2.0)


def cosine_row(level: str, n: int, rounds: int) -> Row:
    """Exact sums of rounded cosines against NumPy's float sums."""
    x = records(n)
    exact = np.array(_backend.cosine_sums(x, TERMS, threads=1), np.float64) * _backend.COSINE_GRID
    check_close("cosine sums", exact, numpy_cosine_sums(x), 2 * _backend.COSINE_GRID * n + 1e-6)
    timing = take_turns(partial(_backend.cosine_sums, x, TERMS, threads=1), partial(numpy_cosine_sums, x), rounds)
    return _row(f"cosine sums, {TERMS} terms", "NumPy's floats", level, timing, n * TERMS, target=2.0)


def product_row(level: str, n: int, rounds: int) -> Row:
    """Products of packed rows of signs with integers against unpacked rows and BLAS."""
    rng = np.random.default_rng(1)
    packed = rng.integers(0, 256, (min(n, LARGEST_ROWS), COLUMNS // 8), dtype=np.uint8)
    values = rng.integers(-20_000, 20_000, COLUMNS)
    check_close("products with signs", _backend.sign_products(packed, values, threads=1), numpy_products(packed, values), 0.0)
    timing = take_turns(partial(_backend.sign_products, packed, values, threads=1), partial(numpy_products, packed, values), rounds)
    return _row(f"products with {COLUMNS:,} packed signs", "NumPy unpacked", level, timing, len(packed), target=2.0)


def histogram_row(level: str, n: int, rounds: int) -> Row:
    """A perturbed histogram against NumPy's, whose noise is not private."""
    x = records(n)
    ours = partial(distributions.perturbed_histogram, x, EPSILON, (0, 1), bins=CELLS, threads=1)
    theirs = partial(numpy_histogram, x, CELLS)
    # both noises beyond 40 scales have probability below 10^-14; cutting at 0 moves the sum by at most the noise of empty cells
    check_close("perturbed histogram", ours().masses, theirs(), 200 * CELLS**0.5 / EPSILON / n)
    return _row(f"perturbed_histogram, {CELLS:,} bins", "NumPy, unsafe", level, take_turns(ours, theirs, rounds), n, target=1.0)


def sample_row(level: str, n: int, rounds: int) -> Row:
    """Synthetic records from a released histogram against NumPy's codes and places in floats."""
    released = distributions.perturbed_histogram(records(10**5), EPSILON, (0, 1), bins=CELLS)
    cumulative = np.cumsum(released.masses)

    def numpy_records() -> Array:
        found: Array = (numpy_codes(cumulative / cumulative[-1], n) + np.random.default_rng().random(n)) / CELLS
        return found

    ours = partial(released.sample, n)
    # the mean of so many numbers in [0, 1] is beyond ten standard errors with probability below 10^-20
    check_close("synthetic records", ours().mean(), numpy_records().mean(), 10 / np.sqrt(n))
    timing, threads = take_turns(ours, numpy_records, rounds), _backend.default_threads()
    return _row(f"synthetic records, {CELLS:,} bins", "NumPy's floats", level, timing, n, threads=threads, target=1.0)


def ks_row(level: str, rounds: int) -> Row:
    """The exact draw of the Kolmogorov-Smirnov mechanism against its time limit."""
    x = records(KS_RECORDS)
    ours = partial(distributions.ks_exponential, x, EPSILON, (0, 1), draws=KS_SIZE, bins=KS_SIZE)
    drawn = np.sort(np.asarray(ours().draws))
    check_close("ks_exponential", np.searchsorted(drawn, np.linspace(0, 1, 21)) / KS_SIZE,
                np.searchsorted(np.sort(x), np.linspace(0, 1, 21)) / KS_RECORDS, 0.5)  # fmt: skip
    timing = _within(ours, KS_SECONDS, min(rounds, 3))
    name = f"ks_exponential, n={KS_RECORDS:,}, k=m={KS_SIZE}"
    return _row(name, f"{KS_SECONDS:g} s", level, timing, 1, target=1.0, bound=True)


def uniformity_row(level: str, n: int = TEST_RECORDS) -> Row:
    """The private uniformity test of packed rows on two cores, against its time limit."""
    threads = min(2, _backend.default_threads())
    packed = np.random.default_rng(1).integers(0, 256, (n, COLUMNS // 8), dtype=np.uint8)
    ours = partial(inference.uniformity_test, packed, EPSILON, 1e-6, alpha=0.5, columns=COLUMNS, threads=threads)
    outcome = ours()
    # far beyond the size at which it errs in a third of the runs, it almost never errs
    if outcome.reject and n >= 10 * outcome.sample_size_needed:
        raise AssertionError("uniformity_test: uniform signs were rejected")
    timing = _within(ours, TEST_SECONDS, 1)
    name = f"uniformity_test, {n:,} rows of {COLUMNS:,} signs"
    return _row(name, f"{TEST_SECONDS:g} s", level, timing, n, threads=threads, target=1.0, bound=True)


def distribution_bounds(n: int, rounds: int) -> list[Row]:
    """All rows at every level of this machine, sized for a report of n values."""
    rows: list[Row] = []
    for level in at_levels():
        rows += [
            choice_row(level, n, rounds),
            cosine_row(level, max(1, n // 100), rounds),
            product_row(level, max(1, n // 100), rounds),
            histogram_row(level, n, rounds),
            sample_row(level, n, rounds),
            ks_row(level, rounds),
            uniformity_row(level, min(n, TEST_RECORDS)),
        ]
    return rows
