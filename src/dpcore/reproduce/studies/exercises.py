"""Private inference (chapter 9), Exercises 2, 5 and 6: the functional mechanism, private regression on real data, and a trade-off."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from dpcore import inference
from dpcore.audit import TracingAttack
from dpcore.inference import functional_regression, linear_regression, mean_lower_bound
from dpcore.inference.functional import coefficient_sensitivity
from dpcore.mechanisms import Gaussian
from dpcore.reproduce.draws import normals, signs
from dpcore.reproduce.estimates import Mean, compared, mean_of, proportion, share_check
from dpcore.reproduce.lines import computed, measured
from dpcore.reproduce.real_data import COLUMNS, visits
from dpcore.reproduce.registry import Study
from dpcore.reproduce.results import Check, Figure, Panel, Section, Table
from dpcore.reproduce.setting import Setting
from dpcore.rng import Stream

TITLES = (
    "Private inference (chapter 9), Exercise 2: the functional mechanism perturbs the coefficients of an objective",
    "Private inference (chapter 9), Exercise 5: private linear regression on simulated and on real data",
    "Private inference (chapter 9), Exercise 6: accuracy of a mean against what it tells about its records",
)
DELTA = 1e-6
TRUTH = np.array([0.8, -0.4, 0.2, 0.0])
"""Coefficients of simulated data."""

Array = npt.NDArray[np.float64]
Fit = Callable[[Array, Array, float, Stream], Array]


def sections(setting: Setting) -> Iterator[Section]:
    """Measure all sections."""
    yield _functional(setting)
    yield _regression(setting)
    yield _trade_off(setting)


def _simulated(n: int, stream: Stream) -> tuple[Array, Array]:
    """Rows within the unit ball up to a few, and responses with normal residuals of standard deviation 0.3."""
    x = 0.4 * normals((n, len(TRUTH)), 0.0, stream)
    return x, x @ TRUTH + 0.3 * normals((n,), 0.0, stream)


def _exact(x: Array, y: Array, *_: object) -> Array:
    """Least squares of clipped records: what the private fits estimate."""
    length = np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True))
    clipped = x / length
    return np.linalg.solve(clipped.T @ clipped, clipped.T @ np.clip(y, -2.0, 2.0))


def _by_functional(x: Array, y: Array, epsilon: float, stream: Stream) -> Array:
    return functional_regression(x, y, epsilon, x_radius=1.0, y_radius=2.0, rng=stream).value


def _by_adassp(x: Array, y: Array, epsilon: float, stream: Stream) -> Array:
    return linear_regression(x, y, epsilon, DELTA, x_radius=1.0, y_radius=2.0, rng=stream).value


def _distance(setting: Setting, fit: Fit, n: int, epsilon: float, replicates: int) -> Mean:
    """Mean distance of private coefficients from those of the clipped records."""
    found = []
    for replicate in range(replicates):
        x, y = _simulated(n, setting.stream("simulated", n, replicate))
        private = fit(x, y, epsilon, setting.stream(fit.__name__, n, epsilon, replicate))
        found.append(float(np.linalg.norm(private - _exact(x, y))))
    return mean_of(found)


# Exercise 2


def _functional(setting: Setting) -> Section:
    replicates, n, epsilon = setting.sized(40, 12), 20_000, 1.0
    levels, sizes = (
        setting.sized((0.25, 0.5, 1.0, 2.0, 4.0), (0.5, 1.0, 2.0)),
        setting.sized((5000, 10_000, 20_000, 40_000, 80_000), (5000, 20_000)),
    )
    by_level = [_distance(setting, _by_functional, n, level, replicates) for level in levels]
    by_size = [_distance(setting, _by_functional, size, epsilon, replicates) for size in sizes]
    predicted = [_predicted(n, level) for level in levels], [_predicted(size, epsilon) for size in sizes]
    panels = (
        Panel("ε", "distance from the clipped least squares", (
            measured("functional mechanism", levels, by_level), computed("expected noise, to first order", levels, predicted[0]),
        )),
        Panel("records n", "distance from the clipped least squares", (
            measured("functional mechanism", sizes, by_size), computed("expected noise, to first order", sizes, predicted[1]),
        )),
        _logistic_panel(setting),
    )  # fmt: skip
    noise = _coefficient_noise(setting)
    reached = [_reached(d, setting) / coefficient_sensitivity(d) for d in (1, 2, 4, 8)]
    return Section(
        TITLES[0],
        "The functional mechanism writes the objective of a regression as a polynomial in its coefficients, adds Laplace noise to the "
        "coefficients of the polynomial, which are sums over records, and minimises the noisy polynomial. That is ε-private.",
        f"functional_regression on {n:,} simulated records of {len(TRUTH)} columns, ε = {epsilon:g}, where they do not vary; {replicates} "
        "samples. Right: a logistic regression, with the second-order expansion at 0, beside the expansion without noise.",
        (Figure("Error of the functional mechanism.", panels),),
        (
            compared("distance", "ε", levels, by_level, [1 / level for level in levels], predicted[0]),
            compared("distance", "n", sizes, by_size, [1 / size for size in sizes], predicted[1]),
        ),
        (
            Check("noise in the coefficients has the standard deviation √2·Δ/ε", f"{100 * noise:.1f} % off", "5 %", abs(noise) < 0.05),
            Check(
                "no pair of records that a search finds moves the coefficients by more than Δ", f"at most {max(reached):.3f} of it", "1",
                max(reached) <= 1, "identity",
            ),
            Check("Δ is not far above: a search reaches more than half", f"at least {min(reached):.3f} of it", "0.5", min(reached) > 0.5),
        ),
        "Δ = √(d(d + 3)/2) + 2√d for rows of length 1 and responses up to 1, where the source has 2(d + 1)². The expansion of the logistic "
        "loss is good where |x'θ| is small, and its own error does not depend on the noise.",
    )  # fmt: skip


def _predicted(n: int, epsilon: float) -> float:
    """Distance by noise of scale b in X'X and X'y, to first order, with its second moments: √(2b²(…)) with the spectrum of X'X."""
    scale = math.sqrt(2.0) * coefficient_sensitivity(len(TRUTH)) / epsilon
    x, y = _simulated(100_000, Setting(0).stream("prediction"))
    rows = x / np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True))
    theta = _exact(x, y)
    # Y times noise in X'y, and noise in X'X times θ: entries (j, l) with j ≤ l are independent.
    centre = scale**2 * ((4.0 + theta @ theta) * np.eye(len(theta)) + np.outer(theta, theta) - np.diag(theta**2))
    inverse = np.linalg.inv(rows.T @ rows / len(rows)) / n
    return math.sqrt(float(np.trace(inverse @ centre @ inverse)))


def _logistic_panel(setting: Setting) -> Panel:
    from scipy import special

    levels, n, replicates = (0.5, 1.0, 2.0, 4.0), 40_000, setting.sized(20, 6)
    found, exact = {level: [] for level in levels}, []  # type: ignore[var-annotated]
    for replicate in range(replicates):
        x, _ = _simulated(n, setting.stream("logistic", replicate))
        x /= np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True))
        y = special.ndtr(normals((n,), 0.0, setting.stream("logistic y", replicate))) < special.expit(x @ TRUTH)
        exact.append(float(np.linalg.norm(4 * np.linalg.solve(x.T @ x, x.T @ (y - 0.5)) - TRUTH)))
        for level in levels:
            fit = functional_regression(x, y, level, x_radius=1.0, loss="logistic", rng=setting.stream("logistic noise", level, replicate))
            found[level].append(float(np.linalg.norm(fit.value - TRUTH)))
    return Panel(
        "ε", "distance from the true coefficients", (
            measured("logistic, private", levels, [mean_of(found[level]) for level in levels]),
            computed("logistic, without noise", (levels[0], levels[-1]), (mean_of(exact).value,) * 2),
        ),
    )  # fmt: skip


def _coefficient_noise(setting: Setting) -> float:
    """Relative difference of the measured standard deviation of noise from √2·Δ/ε."""
    d, runs = 8, setting.sized(400, 100)
    stream = setting.stream("coefficients")
    fits = [functional_regression(np.zeros((1, d)), np.zeros(1), 1.0, x_radius=1.0, y_radius=1.0, rng=stream) for _ in range(runs)]
    values = np.concatenate([np.append(fit.quadratic[np.triu_indices(d)], fit.linear / 2) for fit in fits])
    return float(values.std() / (math.sqrt(2) * coefficient_sensitivity(d)) - 1)


def _reached(d: int, setting: Setting) -> float:
    """The largest ℓ1 distance of coefficients that a random search finds for two records."""
    stream, upper, best = setting.stream("search", d), np.triu_indices(d), 0.0

    def coefficients(record: Array) -> Array:
        x = record[:-1] / max(1.0, float(np.linalg.norm(record[:-1])))
        return np.append(np.outer(x, x)[upper], x * np.clip(record[-1], -1, 1))

    for _ in range(setting.sized(6, 3)):
        pair, step, found = 2 * normals((2, d + 1), 0.0, stream), 1.0, 0.0
        moves = iter(normals((400, 2, d + 1), 0.0, stream))
        for move in moves:
            other = pair + step * move
            value = float(np.abs(coefficients(other[0]) - coefficients(other[1])).sum())
            pair, found, step = (other, value, step) if value > found else (pair, found, step * 0.97)
        best = max(best, found)
    return best


# Exercise 5


def _regression(setting: Setting) -> Section:
    replicates, epsilon = setting.sized(40, 12), 1.0
    sizes = setting.sized((1000, 4000, 16_000, 64_000), (1000, 4000))
    adassp, functional = ([_distance(setting, fit, n, epsilon, replicates) for n in sizes] for fit in (_by_adassp, _by_functional))
    sampling = [0.3 * math.sqrt(len(TRUTH) / n) / 0.4 for n in sizes]
    covered, intervals = _covered(setting, 16_000, epsilon, setting.sized(200, 60))
    simulated = Panel(
        "records n", "distance from the clipped least squares", (
            measured("linear_regression, δ = 10⁻⁶", sizes, adassp),
            measured("functional_regression, pure", sizes, functional, "second"),
            computed("of the order 1/(εn)", sizes, [adassp[-1].value * sizes[-1] / n for n in sizes]),
            computed("error of sampling", sizes, sampling, "second theory"),
        ),
    )  # fmt: skip
    real, table, within = _real(setting)
    return Section(
        TITLES[1],
        "Consider the steps of a private estimate of a linear regression, and show its effect on simulated and on real data.",
        f"Simulated: {len(TRUTH)} columns, ε = {epsilon:g}, {replicates} samples. Real: {len(visits().y):,} rows of the RAND Health "
        f"Insurance Experiment, ln(1 + visits to a doctor) on {len(COLUMNS)} columns, against the least squares of the same rows; one row "
        "is protected. Steps: clip rows and responses, sum their products exactly, add noise, solve with a ridge if needed.",
        (Figure("Distance of private coefficients from those without noise.", (simulated, real)),),
        (compared("distance, simulated", "n", sizes[-2:], adassp[-2:], [1 / n for n in sizes[-2:]]),),
        (
            share_check(
                "simulated: an interval of ±3 standard errors misses its coefficient rarely", intervals - covered, intervals, 0.01,
                "intervals",
            ),
            Check(
                "real data, without a ridge: within 5 standard errors of the least squares", f"at most {within:.2f}", "5", 0 < within < 5,
            ),
        ),
        "Real columns are correlated and few rows have poor health, so small directions of X'X are lost in noise at small ε, and the ridge "
        "shrinks them. There the standard errors are too small, because they take the bias of the ridge from the shrunken coefficients. "
        "The page docs/private-regression.md shows the calls.",
        (table,),
    )  # fmt: skip


def _covered(setting: Setting, n: int, epsilon: float, runs: int) -> tuple[int, int]:
    """Intervals of ±3 standard errors that cover, and all."""
    covered = 0
    for run in range(runs):
        x, y = _simulated(n, setting.stream("covered", run))
        fit = linear_regression(x, y, epsilon, DELTA, x_radius=2.5, y_radius=3.0, rng=setting.stream("covered noise", run))
        covered += int(np.count_nonzero(np.abs(fit.value - TRUTH) <= 3 * fit.stderr))
    return covered, runs * len(TRUTH)


SHOWN = 8.0
"""ε of the table."""


def _both(epsilon: float, stream: Stream) -> tuple[inference.RegressionEstimate, inference.FunctionalEstimate]:
    """Both private fits of the real table."""
    table = visits()
    x_radius, y_radius = table.x_radius, table.y_radius
    return (
        linear_regression(table.x, table.y, epsilon, DELTA, x_radius=x_radius, y_radius=y_radius, rng=stream),
        functional_regression(table.x, table.y, epsilon, x_radius=x_radius, y_radius=y_radius, rng=stream),
    )


def _real(setting: Setting) -> tuple[Panel, Table, float]:
    table, levels, replicates = visits(), (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), setting.sized(20, 6)
    exact = np.linalg.solve(table.x.T @ table.x, table.x.T @ table.y)
    adassp, functional, worst = [], [], 0.0
    for level in levels:
        pairs = [_both(level, setting.stream("real", level, r)) for r in range(replicates)]
        adassp.append(mean_of([float(np.linalg.norm(fit.value - exact)) for fit, _ in pairs]))
        functional.append(mean_of([float(np.linalg.norm(fit.value - exact)) for _, fit in pairs]))
        if all(fit.ridge == 0 for fit, _ in pairs):
            worst = max(worst, *(float((np.abs(fit.value - exact) / fit.stderr).max()) for fit, _ in pairs))
    shown = _both(SHOWN, setting.stream("real", "shown"))
    size = float(np.linalg.norm(exact))
    panel = Panel(
        "ε", "distance from the least squares of all rows", (
            measured("linear_regression, δ = 10⁻⁶", levels, adassp), measured("functional_regression, pure", levels, functional, "second"),
            computed("length of the coefficients", (levels[0], levels[-1]), (size, size)),
        ), title="real data",
    )  # fmt: skip
    rows = tuple(
        (
            name,
            f"{exact[i]:.3f}",
            f"{shown[0].value[i]:.3f} ± {shown[0].stderr[i]:.3f}",
            f"{shown[1].value[i]:.3f} ± {shown[1].stderr[i]:.3f}",
        )
        for i, name in enumerate(COLUMNS)
    )
    return (
        panel,
        Table(
            f"Coefficients of ln(1 + visits) − 1 at ε = {SHOWN:g}, with standard errors.",
            ("column", "least squares", "δ = 10⁻⁶", "δ = 0"),
            rows,
        ),
        worst,
    )


# Exercise 6


def _trade_off(setting: Setting) -> Section:
    n, d, runs, beta, delta = 200, setting.sized(4096, 2048), setting.sized(30, 8), 0.01, 1e-9
    levels = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
    risks, caught, others = [], [], 0
    for level in levels:
        errors, inside = [], 0
        for run in range(runs):
            x = signs((2 * n, d), 0.0, setting.stream("trade-off", run)).astype(np.float64)
            released = np.asarray(inference.mean(x[:n], level, delta, 1.0, rng=setting.stream("trade-off noise", level, run)).value)
            accused = TracingAttack(np.zeros(d)).accused(x, released, radius=1.0, beta=beta)
            inside, others = inside + int(accused[:n].sum()), others + int(accused[n:].sum())
            errors.append(float(np.square(released).sum()))
        risks.append(mean_of(errors))
        caught.append(proportion(inside, runs * n))
    exact = [d / n + d * (Gaussian(level, delta, sensitivity=2 * math.sqrt(d)).scale / n) ** 2 for level in levels]
    bounds = [mean_lower_bound(level, delta, n=n, d=d, radius=1.0).value for level in levels]
    allowed = [min(1.0, math.exp(level) * beta + delta) for level in levels]
    off = max(abs(risk.value - e) / risk.stderr for risk, e in zip(risks, exact, strict=True))
    over = all(share.value - 5 * share.stderr <= limit for share, limit in zip(caught, allowed, strict=True))
    panels = (
        Panel("ε", "squared error", (
            measured("mean with noise", levels, risks), computed("its exact risk", levels, exact),
            computed("proved: no private mean is below", levels, bounds, "second theory"),
            computed("d/n: of sampling", (levels[0], levels[-1]), (d / n, d / n), "third"),
        )),
        Panel("ε", "share of the records that are traced", (
            measured("traced", levels, caught), computed("allowed by privacy: e^ε β + δ", levels, allowed),
            computed("β: others, at most", (levels[0], levels[-1]), (beta, beta), "second theory"),
        ), "x", (-0.02, 1.02)),
        Panel("squared error", "share of the records that are traced", (
            measured("one point for each ε", [risk.value for risk in risks], caught),
            computed("β", (min(exact), max(exact)), (beta, beta)),
        ), "x", (-0.02, 1.02)),
    )  # fmt: skip
    knee = next(level for level, e in zip(levels, exact, strict=True) if e < 3 * d / n)
    return Section(
        TITLES[2],
        "Consider how to weigh the privacy of a private estimate against its usefulness.",
        f"{n} records of d = {d:,} fair signs, inference.mean with δ = {delta:g}, {runs} samples. The attack is TracingAttack with β = "
        f"{beta:g}; the attacker knows the population's mean and a record exactly.",
        (Figure("Error of a mean, what an attack finds, and one against the other.", panels),),
        (),
        (
            Check("risks agree with the exact ones", f"at most {off:.1f} standard errors off", "5 standard errors", off < 5),
            share_check("others are accused with probability at most β", others, runs * n * len(levels), beta, "records"),
            Check("no more are traced than e^ε β + δ allows", f"{len(levels)} levels", "all", over),
        ),
        f"From about ε = {knee:g} on the error of sampling dominates, and a larger ε buys no accuracy, but the attack finds more and more "
        "records. The steps of a choice: the error that the use allows, the ε that gives it (privacy part d(2√d·c/(nε))²), the largest "
        "gain e^ε of any attack at this ε; and if both cannot be had, more records, fewer coordinates, or a sparse mean.",
    )  # fmt: skip


STUDY = Study("exercises", "The functional mechanism, private regression on real data, and accuracy against privacy.", TITLES, sections)
