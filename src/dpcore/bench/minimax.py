"""The minimax engine beside NumPy and the memory: counts, estimates, and the way from a model to an estimate."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend, local
from dpcore.bench.benchmark import Benchmark, Plan, Side
from dpcore.bench.noise import copy
from dpcore.minimax import BestLinear, BinarySearchEstimator, Model, best_linear, clipped_response, dp_level, optimal_channel

Array = npt.NDArray[Any]
EPSILON = 1.0
REPORTS = 5000
"""Number of reports of a data set."""
MANY = 10**7
"""Number of reports for which a step is tuned."""
INTERVALS = 200
"""N of the timed estimators."""
SEVERAL_BITS, DESIGNED, OUTPUTS = 3.0, 10**4, 41
"""ε, number of reports and number of outputs of the best linear estimator."""
SOLVER = "clarabel"
"""What the extra `minimax` installs."""


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


def check_build(estimator: BinarySearchEstimator) -> None:
    """Raise unless an estimator has N intervals, and estimates that rise with the counts over the whole range of θ."""
    found = np.asarray(estimator.estimate(np.arange(estimator.n + 1)))
    (low, high), span = estimator.theta_range, found[-1] - found[0]
    if estimator.N != INTERVALS or (np.diff(found) < 0).any() or not 0.9 * (high - low) <= span <= high - low:
        raise AssertionError(f"build: N = {estimator.N}, and the estimates span {span:.4g} of {high - low:.4g}")


def end_to_end(codes: Array, threads: int) -> float:
    """Go from the model to the estimate: optimal channel, estimator, private reports of all records, estimate."""
    model, n = moment_model(81), len(codes)
    found = optimal_channel(model, EPSILON, n=n)
    estimator = BinarySearchEstimator(model, found, n=n, step="theory")
    reports = found.channel.privatize(codes, threads=threads)
    return float(estimator.estimate_reports(reports, threads=threads))


def _look_up(sets: int) -> Benchmark:
    """`estimate` for K = 2 beside NumPy."""
    return Benchmark(
        group="minimax", name=f"estimate, K=2, N={INTERVALS}", size=sets, unit="data set", package=SOLVER, levels=True,
        inputs=lambda: (binary_counts(sets),), ours=lambda made: partial(binary_estimator().estimate, made[0], threads=1),
        check=lambda made, result: check_equal("estimate, K=2", np.asarray(result), numpy_look_up(binary_estimator(), made[0])),
        sides=(
            Side(name="NumPy searchsorted", prepare=lambda made: partial(numpy_look_up, binary_estimator(), made[0])),
            Side(name="copy of the counts", prepare=copy, kind="bound", judges=True),
        ),
    )  # fmt: skip


def _walk(sets: int) -> Benchmark:
    """`estimate` for K = 8 beside a vectorised walk in NumPy over the same tests, which are all known by then."""

    def tests() -> Array:
        found: Array = finite_estimator().tests
        return found

    return Benchmark(
        group="minimax", name=f"estimate, K=8, N={INTERVALS}", size=sets, unit="data set", package=SOLVER, levels=True, quick=False,
        inputs=lambda: (finite_counts(sets),), ours=lambda made: partial(finite_estimator().estimate, made[0], threads=1),
        check=lambda made, result: check_equal("estimate, K=8", np.asarray(result), numpy_walk(finite_estimator(), tests(), made[0])),
        sides=(
            Side(name="NumPy walk", prepare=lambda made: partial(numpy_walk, finite_estimator(), tests(), made[0]), judges=True),
        ),
    )  # fmt: skip


def _packed(reports: int) -> Benchmark:
    """`estimate_reports` of packed bits beside a copy of them."""

    @lru_cache(maxsize=1)
    def estimator() -> BinarySearchEstimator:
        model = moment_model(81)
        return BinarySearchEstimator(model, optimal_channel(model, EPSILON, n=REPORTS), n=reports, step=step_of(model))

    def inputs() -> tuple[Array]:
        bits = np.random.default_rng(1).integers(0, 256, (reports + 7) // 8, dtype=np.uint8)
        bits[-1] &= 0xFF >> (-reports % 8)
        return (bits,)

    def check(made: tuple[Array], result: Any) -> None:
        ones = int(np.bitwise_count(made[0]).sum(dtype=np.int64)) if hasattr(np, "bitwise_count") else int(np.unpackbits(made[0]).sum())
        check_equal("estimate_reports", np.atleast_1d(result), np.atleast_1d(estimator().estimate(ones)))

    return Benchmark(
        group="minimax", name="estimate_reports, packed bits", size=reports, unit="report", package=SOLVER, inputs=inputs, check=check,
        ours=lambda made: partial(estimator().estimate_reports, made[0], packed=True, threads=1), levels=True,
        sides=(Side(name="copy of the bits", prepare=copy, kind="bound", judges=True),),
    )  # fmt: skip


def _build(points: int = 500) -> Benchmark:
    """From a model of 500 points to an estimator with N = 200."""
    return Benchmark(
        group="minimax", name=f"model of {points} points to estimator, N={INTERVALS}", size=1, unit="call", package=SOLVER,
        inputs=lambda: points, ours=lambda made: partial(build, made), check=lambda _made, result: check_build(result),
        character="whole", quick=False,
    )  # fmt: skip


def tune(model: Model) -> BinarySearchEstimator:
    """Find the step of an estimator from ten million reports."""
    channel = local.BinaryChannel(EPSILON, np.clip(np.asarray(model.points), -4.0, 4.0).tolist())
    return BinarySearchEstimator(model, channel, n=MANY)


def check_tuned(estimator: BinarySearchEstimator) -> None:
    """Raise if another step has a smaller risk bound, beyond the tolerance of the search."""
    for factor in (0.7, 1.4):
        other = BinarySearchEstimator(estimator.model, estimator.channel, n=estimator.n, step=factor * estimator.step)
        if not estimator.risk_bound() <= 1.03 * other.risk_bound():
            raise AssertionError(
                f"tuned: {factor} times the step has a risk bound of {other.risk_bound():.4g} < {estimator.risk_bound():.4g}"
            )


def _tuned(points: int = 100) -> Benchmark:
    """From a model of 100 points to an estimator with a tuned step for ten million reports."""
    return Benchmark(
        group="minimax", name=f"tuned step, {points} points, n=10^7", size=1, unit="call",
        inputs=lambda: moment_model(points), ours=lambda made: partial(tune, made), check=lambda _made, result: check_tuned(result),
        character="whole", quick=False,
    )  # fmt: skip


def design(model: Model) -> BestLinear:
    """Find the best linear estimator for ten thousand reports at ε = 3, where several bits a report count."""
    return best_linear(model, SEVERAL_BITS, n=DESIGNED, outputs=OUTPUTS)


def check_design(found: BestLinear) -> None:
    """Raise unless the channel keeps its level and the certified numbers are in order, near each other and below three outcomes' risk."""
    proved, level = found.certificate, dp_level(found.mean.channel.channel())
    three = clipped_response(SEVERAL_BITS, n=DESIGNED, kappa=2.0, C=1.0).risk_bound(n=DESIGNED)
    line = found.for_records().risk_bound(n=DESIGNED)
    if not proved.lower.value <= proved.risk <= proved.objective <= line * (1 + 1e-9) <= min(three, 4.5 * proved.lower.value):
        raise AssertionError(
            f"best linear: {proved.lower.value:.4g}, {proved.risk:.4g}, {proved.objective:.4g}, {line:.4g} and {three:.4g} are not in order"
        )
    if not (proved.everywhere <= proved.on_outputs <= proved.objective <= proved.on_outputs * (1 + 1e-4) and proved.lost < 0.05):
        raise AssertionError(
            f"best linear: {proved.objective:.6g} is above {proved.on_outputs:.6g} of its outputs and {proved.everywhere:.6g} of all"
        )
    if level > SEVERAL_BITS + 1e-12:
        raise AssertionError(f"best linear: the level of the channel is {level!r}")


def _designed(points: int = 200) -> Benchmark:
    """From a model of 200 points to the best linear estimator with 41 outputs, certified."""
    return Benchmark(
        group="minimax", name=f"best_linear, {points} points, K={OUTPUTS}", size=1, unit="call", package=SOLVER,
        inputs=lambda: Model.moment(np.linspace(-30.0, 30.0, points), kappa=2.0, C=1.0), ours=lambda made: partial(design, made),
        check=lambda _made, result: check_design(result), character="whole", quick=False,
    )  # fmt: skip


def _end_to_end(records: int) -> Benchmark:
    """From the model to the estimate on two cores."""
    threads = min(2, _backend.default_threads())

    def inputs() -> tuple[Array]:
        rng = np.random.default_rng(1)
        return (np.asarray(moment_model(81).codes(np.clip(rng.normal(0.25, 0.5, records), -10.0, 10.0))),)

    def check(_made: Any, estimate: Any) -> None:
        if not abs(estimate - 0.25) < 3 / records**0.25:
            raise AssertionError(f"end to end: the estimate is {estimate:.3f}, of a mean of 0.25")

    return Benchmark(
        group="minimax", name="model to estimate", size=records, unit="record", threads=threads, package=SOLVER, inputs=inputs, check=check,
        ours=lambda made: partial(end_to_end, made[0], threads), character="whole", quick=False,
        sides=(Side(name="copy of the records", prepare=copy, kind="bound"),),
    )  # fmt: skip


def minimax_benchmarks(plan: Plan) -> Iterator[Benchmark]:
    """Everything of this module, which needs the extra `minimax`.

    Parameters
    ----------
    plan : Plan
        How much is measured.
    """
    yield _look_up(max(1, plan.size // 10))
    yield _walk(max(1, plan.size // 10))
    yield _packed(10 * plan.size)
    yield _build()
    yield _tuned()
    yield _designed()
    yield _end_to_end(plan.size)
