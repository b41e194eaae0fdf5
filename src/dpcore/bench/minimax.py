"""Benchmarks of the minimax engine: counts and estimates against NumPy and memory, and whole builds against a time limit."""

from __future__ import annotations

from functools import lru_cache, partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend, local
from dpcore.bench.noise import at_levels
from dpcore.bench.table import Row
from dpcore.bench.timing import Timing, Work, take_turns
from dpcore.minimax import BinarySearchEstimator, Model, optimal_channel

Array = npt.NDArray[Any]
EPSILON = 1.0
REPORTS = 5000
"""Number of reports of a data set."""
INTERVALS = 200
"""N of the timed estimators."""
LOOK_UP_NS, WALK_RATIO, BANDWIDTH = 20.0, 20.0, 0.5
"""Limits: time of an estimate behind a binary channel, ratio of a walk to NumPy's, and ratio of counting bits to copying them."""
BUILD_SECONDS, END_SECONDS = 10.0, 5.0
"""Limits: an estimator with N = 200 over 500 points, and from the model to the estimate of 10^7 records on two cores."""


def moment_model(points: int) -> Model:
    """Return the model E x² ≤ 1 on a grid of [−10, 10]."""
    return Model.moment(np.linspace(-10.0, 10.0, points), kappa=2.0, C=1.0)


def step_of(model: Model, intervals: int = INTERVALS) -> float:
    """Return the Δ for a number of intervals."""
    low, high = model.theta_range
    return (high - low) / (intervals - 0.5)


def build(points: int = 500) -> BinarySearchEstimator:
    """Build the optimal channel of a model, and its estimator with N = 200."""
    model = moment_model(points)
    return BinarySearchEstimator(model, optimal_channel(model, EPSILON, n=REPORTS), n=REPORTS, step=step_of(model))


@lru_cache(maxsize=1)
def binary_estimator() -> BinarySearchEstimator:
    """Return an estimator behind a binary channel, built once."""
    return build(81)


@lru_cache(maxsize=1)
def finite_estimator() -> BinarySearchEstimator:
    """Return an estimator of a mean from reports with 8 outcomes, with N = 200, built once."""
    model = Model(np.linspace(0.0, 1.0, 8))
    return BinarySearchEstimator(model, local.KaryResponse(EPSILON, k=8), n=REPORTS, step=step_of(model))


def binary_counts(sets: int) -> Array:
    """Return counts of +z0 over their whole range, the same on every run."""
    return np.random.default_rng(1).integers(0, REPORTS + 1, sets)


def finite_counts(sets: int) -> Array:
    """Return counts of data sets of one distribution, the same on every run."""
    p = np.arange(8.0, 0.0, -1.0) / 36
    return np.random.default_rng(1).multinomial(REPORTS, p @ finite_estimator().matrix, size=sets)


def numpy_look_up(estimator: BinarySearchEstimator, counts: Array) -> Array:
    """Compute the same estimates with NumPy's binary search."""
    found: Array = estimator.values[np.searchsorted(estimator.thresholds, counts, side="right")]
    return found


def numpy_walk(estimator: BinarySearchEstimator, weights: Array, counts: Array) -> Array:
    """Compute the same estimates by a walk of all data sets at once, level by level. The weights are those of visited tests."""
    places = np.zeros(len(counts), np.int64)
    rows = counts.astype(np.float64)
    for level in range(estimator.N - 2):
        tests = weights[level * (level + 1) // 2 + places, : rows.shape[1]]
        places += np.einsum("ij,ij->i", rows, tests) > 0
    found: Array = estimator.theta_range[0] + estimator.step * (places + 1)
    return found


def check_equal(name: str, ours: Array, other: Array) -> None:
    """Raise if two ways give different estimates."""
    if not np.allclose(ours, other, rtol=0.0, atol=1e-9):
        raise AssertionError(f"{name}: {int((~np.isclose(ours, other, rtol=0.0, atol=1e-9)).sum())} of {len(ours)} estimates differ")


def _row(ours: str, against: str, level: str, timing: Timing, n: int, *, threads: int = 1, **more: Any) -> Row:
    ratio = 1 / timing.ratio if more.get("bound") else timing.ratio
    return Row(ours, against, level, threads, timing.ours * 1e9 / n, timing.other * 1e9 / n, ratio, **more)


def _allowed(work: Work, seconds: float, rounds: int) -> Timing:
    ours = take_turns(work, work, rounds).ours
    return Timing(ours, seconds, seconds / ours)


def look_up_rows(level: str, sets: int, rounds: int) -> list[Row]:
    """Time `estimate` for K = 2 against its limit, and against NumPy."""
    estimator, counts = binary_estimator(), binary_counts(sets)
    check_equal("estimate, K=2", np.asarray(estimator.estimate(counts)), numpy_look_up(estimator, counts))
    ours = partial(estimator.estimate, counts, threads=1)
    name = f"estimate, K=2, N={estimator.N}, {sets:,} data sets"
    allowed = _allowed(ours, LOOK_UP_NS * sets * 1e-9, rounds)
    return [
        _row(name, f"{LOOK_UP_NS:g} ns a data set", level, allowed, sets, target=1.0, bound=True),
        _row(name, "NumPy searchsorted", level, take_turns(ours, partial(numpy_look_up, estimator, counts), rounds), sets),
    ]


def walk_row(level: str, sets: int, rounds: int) -> Row:
    """Time `estimate` for K = 8 against a vectorized walk in NumPy over the same tests, which are all known by then."""
    estimator, counts = finite_estimator(), finite_counts(sets)
    ours = np.asarray(estimator.estimate(counts, threads=1))
    weights = estimator.tests
    check_equal("estimate, K=8", ours, numpy_walk(estimator, weights, counts))
    timing = take_turns(partial(estimator.estimate, counts, threads=1), partial(numpy_walk, estimator, weights, counts), rounds)
    target = None if level == "baseline" else WALK_RATIO
    return _row(f"estimate, K=8, N={estimator.N}, {sets:,} data sets", "NumPy walk", level, timing, sets, target=target)


def packed_row(level: str, reports: int, rounds: int) -> Row:
    """Time `estimate_reports` of packed bits against a copy of them."""
    model = moment_model(81)
    channel = optimal_channel(model, EPSILON, n=REPORTS)
    estimator = BinarySearchEstimator(model, channel, n=reports, step=step_of(model))
    bits = np.random.default_rng(1).integers(0, 256, (reports + 7) // 8, dtype=np.uint8)
    bits[-1] &= 0xFF >> (-reports % 8)
    check_equal(
        "estimate_reports",
        np.atleast_1d(estimator.estimate_reports(bits, packed=True)),
        np.atleast_1d(estimator.estimate(int(np.unpackbits(bits).sum()))),
    )
    out = np.empty_like(bits)
    timing = take_turns(partial(estimator.estimate_reports, bits, packed=True, threads=1), partial(np.copyto, out, bits), rounds)
    return _row(f"estimate_reports, {reports:,} packed bits", "copy of the bits", level, timing, reports, target=BANDWIDTH)


def check_build(estimator: BinarySearchEstimator) -> None:
    """Raise unless an estimator has N intervals, and estimates that rise with the counts over the whole range of θ."""
    found = np.asarray(estimator.estimate(np.arange(estimator.n + 1)))
    (low, high), span = estimator.theta_range, found[-1] - found[0]
    if estimator.N != INTERVALS or (np.diff(found) < 0).any() or not 0.9 * (high - low) <= span <= high - low:
        raise AssertionError(f"build: N = {estimator.N}, and the estimates span {span:.4g} of {high - low:.4g}")


def build_row(level: str, points: int = 500) -> Row:
    """Time a build, from a model of 500 points to an estimator with N = 200, against its limit."""
    check_build(build(points))
    timing = _allowed(partial(build, points), BUILD_SECONDS, 1)
    return _row(f"model of {points} points to estimator, N={INTERVALS}", f"{BUILD_SECONDS:g} s", level, timing, 1, target=1.0, bound=True)


def end_to_end(codes: Array, threads: int) -> float:
    """Go from the model to the estimate: optimal channel, estimator, private reports of all records, estimate."""
    model, n = moment_model(81), len(codes)
    found = optimal_channel(model, EPSILON, n=n)
    estimator = BinarySearchEstimator(model, found, n=n, step="theory")
    reports = found.channel.privatize(codes, threads=threads)
    return float(estimator.estimate_reports(reports, threads=threads))


def end_row(level: str, records: int) -> Row:
    """Time the way from model to estimate on two cores against its limit. Raise if the estimate is far off."""
    rng, threads = np.random.default_rng(1), min(2, _backend.default_threads())
    codes = np.asarray(moment_model(81).codes(np.clip(rng.normal(0.25, 0.5, records), -10.0, 10.0)))
    estimate = end_to_end(codes, threads)
    if not abs(estimate - 0.25) < 3 / records**0.25:
        raise AssertionError(f"end to end: the estimate is {estimate:.3f}, of a mean of 0.25")
    timing = _allowed(partial(end_to_end, codes, threads), END_SECONDS, 1)
    name = f"model to estimate of {records:,} records"
    return _row(name, f"{END_SECONDS:g} s", level, timing, records, threads=threads, target=1.0, bound=True)


WALKED = 10**6
"""The walk is timed only from this number of values on, because computing its tests takes half a minute."""


def minimax_bounds(n: int, rounds: int) -> list[Row]:
    """Return all rows at every level of this machine, for n values; none without the extra `minimax`."""
    rows: list[Row] = []
    if find_spec("clarabel") is None:
        return rows
    for level in at_levels():
        rows += look_up_rows(level, max(1, n // 10), rounds)
        if n >= WALKED:
            rows.append(walk_row(level, n // 10, min(rounds, 3)))
        rows.append(packed_row(level, 10 * n, rounds))
        rows.append(end_row(level, n))
    return rows
