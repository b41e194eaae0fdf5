"""Steinberger (2019): private densities, normal noise, and several functionals under one privacy budget."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from dpcore import local, noise
from dpcore._dataclasses import dataclass
from dpcore.accounting import gaussian_delta
from dpcore.minimax import channel_densities, density_level, dp_level
from dpcore.reproduce.draws import signs
from dpcore.reproduce.estimates import Mean, at_most, mean_of
from dpcore.reproduce.regions import random_experiment, scientific
from dpcore.reproduce.registry import Study
from dpcore.reproduce.results import Check, Figure, Panel, Role, Section, Series, Table, floats
from dpcore.reproduce.setting import Setting

Array = npt.NDArray[np.float64]
TITLES = (
    "Steinberger (2019), Satz 1.12: private channels have densities that obey the bound at every report",
    "Steinberger (2019), Aufgabe 1.3: normal noise is private for no standard deviation",
    "Steinberger (2019), Aufgabe 3.1: several functionals under one privacy budget",
)
ROUNDING = 1e-9
SIGMAS = (1.0, 2.0, 4.0)
CONFIDENCE = 0.9


def sections(setting: Setting) -> Iterator[Section]:
    """Measure all sections."""
    yield _densities(setting)
    yield _normal(setting)
    yield _several(setting)


# Satz 1.12


def _channels(setting: Setting) -> dict[str, Array]:
    """Matrices of private channels, one of which has a report that nobody makes."""
    stream = setting.stream("minimax-channels", "densities")
    random = random_experiment(stream, 4, 5, 0.5).matrix
    return {
        "one bit, ε = 1": local.BinaryResponse(1.0).channel(),
        "k-ary response, k = 5, ε = 2": local.KaryResponse(2.0, k=5).channel(),
        "subset selection, k = 6, ε = 1": local.SubsetSelection(1.0, k=6).channel(),
        "a random channel": random,
        "the same with a report that nobody makes": np.hstack([random, np.zeros((4, 1))]),
    }


def _largest_event(matrix: Array) -> float:
    """The largest log-ratio of an event, over all sets of reports and pairs of inputs."""
    outcomes = matrix.shape[1]
    masks = np.array(list(itertools.product((0.0, 1.0), repeat=outcomes)))
    events = matrix @ masks.T
    ratios = [np.log(a[b > 0] / b[b > 0]).max() for a in events for b in events]
    return float(max(ratios))


def _pointwise(densities: Array) -> float:
    """The largest log-ratio of densities at a report; ∞ if one is 0 and another is not."""
    low, high = densities.min(axis=0), densities.max(axis=0)
    if ((low == 0) & (high > 0)).any():
        return math.inf
    kept = high > 0
    return float(np.log(high[kept] / low[kept]).max())


def _laplace(*, clamped: bool) -> Callable[[Array, float], Array]:
    def logarithms(z: Array, x: float) -> Array:
        return np.asarray(-0.5 * np.abs(z - (np.clip(x, -1.0, 1.0) if clamped else x)))

    return logarithms


def _densities(setting: Setting) -> Section:
    channels = _channels(setting)
    rows, worst, events = [], 0.0, 0.0
    for name, matrix in channels.items():
        every = [channel_densities(matrix, reference=reference) for reference in range(len(matrix))]
        level, pointwise = dp_level(matrix), max(map(_pointwise, every))
        worst, events = max(worst, pointwise - level), max(events, abs(_largest_event(matrix) - level))
        rows.append((name, f"{level:.4f}", f"{pointwise:.4f}"))
    matrix = channels["the same with a report that nobody makes"]
    twin = np.where(matrix[0] > 0, matrix / np.where(matrix[0] > 0, matrix[0], 1.0), np.arange(4.0)[:, None])
    z = np.linspace(-6.0, 6.0, 241)
    found = density_level(_laplace(clamped=True), inputs=[-4.0, -1.0, 0.0, 1.0, 4.0], outputs=z, slope=1.0)
    wider = [density_level(_laplace(clamped=False), inputs=[-reach, reach], outputs=z).value for reach in (1.0, 2.0, 4.0)]
    clamped, unclamped = (_laplace(clamped=kind)(z, 2.0) - _laplace(clamped=kind)(z, -2.0) for kind in (True, False))
    centres, measured, off = _laplace_ratios(setting)
    panel = Panel(
        "report z",
        "ln q(z|2) − ln q(z|−2)",
        (
            Series(
                "clamped to [−1, 1], measured",
                centres,
                floats(m.value for m in measured),
                floats(m.stderr for m in measured),
                "measured",
                "points",
            ),
            Series("clamped to [−1, 1]", floats(z), floats(clamped), None, "theory"),
            Series("not clamped, Beispiel 1.7 c", floats(z), floats(unclamped), None, "second theory"),
        ),
        "",
    )
    return Section(
        TITLES[0],
        "A channel on ℝᵐ is α-differentially private exactly if it has densities with q(z|x) ≤ e^α q(z|x′) for all x, x′ and for every z, "
        "not only for almost every one. The measure of the proof is the law of the reports of one input.",
        "For five finite channels, densities with respect to the reports of each input, and all events. For Laplace noise at ε = 1, "
        f"log-ratios of densities at {len(z)} reports, beside those of histograms of {setting.sized('ten million', 'a million')} reports.",
        (Figure("Log-ratio of the densities of reports of 2 and of −2 with Laplace noise of scale 2.", (panel,)),),
        (),
        (
            Check(
                "densities obey the bound at every report, for every reference",
                f"at most {scientific(max(worst, 0.0))} above ε",
                "10⁻⁹",
                worst <= ROUNDING,
                "identity",
            ),
            Check(
                "no event has a larger ratio than a single report",
                f"at most {scientific(events)} off",
                "10⁻⁹",
                events <= ROUNDING,
                "identity",
            ),
            Check(
                "other values on a null set break the bound",
                "log-ratio ∞" if math.isinf(_pointwise(twin)) else f"{_pointwise(twin):.3g}",
                "∞",
                math.isinf(_pointwise(twin)),
                "identity",
            ),
            Check(
                "Laplace noise on clamped numbers has ε = 1",
                f"{found.value:.6f} at the reports, {found.upper:.3f} or less between them",
                "1 and 1 + the step of the grid",
                abs(found.value - 1) <= ROUNDING and found.upper < 1.03,
                "identity",
            ),
            Check(
                "without clamping the level grows with the range",
                ", ".join(f"{value:.1f}" for value in wider),
                "1, 2, 4",
                all(abs(value - reach) <= ROUNDING for value, reach in zip(wider, (1.0, 2.0, 4.0), strict=True)),
                "identity",
            ),
            Check("measured log-ratios agree with the densities", f"at most {off:.1f} standard errors off", "5", off < 5),
        ),
        "Aufgabe 2.4: all densities of a private channel have one support, as the last two rows of the table show: a report that "
        "nobody makes is one that no input makes. A density that is changed on a null set belongs to the same channel and may break "
        "the bound there.",
        (
            Table(
                "Largest log-ratio of probabilities of a channel, and of its densities over all references.",
                ("channel", "ε", "densities"),
                tuple(rows),
            ),
        ),
    )


def _laplace_ratios(setting: Setting) -> tuple[tuple[float, ...], list[Mean], float]:
    """Log-ratios of histograms of Laplace reports of 2 and −2, clamped to ±1; how far from those of the cells, in standard errors."""
    count = setting.sized(10_000_000, 1_000_000)
    edges = np.linspace(-5.0, 5.0, 21)
    shares = []
    for x in (2.0, -2.0):
        rng = setting.stream("minimax-channels", "laplace", x)
        reports = noise.laplace(np.full(count, np.clip(x, -1.0, 1.0)), 2.0, rng=rng)
        shares.append(np.histogram(reports, edges)[0] / count)
    exact = [np.diff(stats.laplace.cdf(edges, loc=x, scale=2.0)) for x in (1.0, -1.0)]
    values = np.log(shares[0] / shares[1])
    stderr = np.sqrt(sum((1 - share) / (share * count) for share in shares))
    off = float((np.abs(values - np.log(exact[0] / exact[1])) / stderr).max())
    return floats((edges[1:] + edges[:-1]) / 2), [Mean(float(v), float(s)) for v, s in zip(values, stderr, strict=True)], off


# Aufgabe 1.3


def _tail_ratio(z: Array, sigma: float) -> Array:
    """ln P(Z ≥ z | x = 1) − ln P(Z ≥ z | x = −1)."""
    return np.asarray(special.log_ndtr((1 - z) / sigma) - special.log_ndtr((-1 - z) / sigma))


def _normal(setting: Setting) -> Section:
    count, series, off, worst, deltas = setting.sized(4_000_000, 400_000), [], 0.0, math.inf, []
    roles: tuple[Role, ...] = ("measured", "second", "third")
    for sigma, role in zip(SIGMAS, roles, strict=True):
        z = np.linspace(-2 * sigma, 2 * sigma + 1, 9)
        tails = []
        for x in (1.0, -1.0):
            drawn = noise.gaussian(np.full(count, x), sigma, rng=setting.stream("minimax-channels", "normal", sigma, x))
            tails.append(np.array([(drawn >= place).mean() for place in z]))
        values, stderr = np.log(tails[0] / tails[1]), np.sqrt(sum((1 - tail) / (tail * count) for tail in tails))
        off = max(off, float((np.abs(values - _tail_ratio(z, sigma)) / np.maximum(stderr, 1e-9)).max()))
        series.append(Series(f"σ = {sigma:g}, measured", floats(z), floats(values), floats(stderr), role, "points"))
    far = np.linspace(-4.0, 9.0, 53)
    lines = [
        Series("σ = 1", floats(far), floats(_tail_ratio(far, 1.0)), None, "theory"),
        Series("σ = 4", floats(far), floats(_tail_ratio(far, 4.0)), None, "second theory"),
    ]
    for sigma, epsilon in itertools.product((*SIGMAS, 100.0), (0.1, 1.0, 5.0)):
        # From z = σ²ε/2 on, the density of x = 1 is more than e^ε times that of x = −1.
        worst = min(worst, float(_tail_ratio(np.array([sigma**2 * epsilon / 2]), sigma)[0]) - epsilon)
        deltas += [gaussian_delta(epsilon, sigma, 2.0)] if sigma in SIGMAS else []
    sigmas = np.geomspace(0.5, 50.0, 25)
    delta = Panel(
        "σ",
        "least δ at ε",
        (
            Series("ε = 0.1", floats(sigmas), floats(gaussian_delta(0.1, float(s), 2.0) for s in sigmas), None, "measured"),
            Series("ε = 1", floats(sigmas), floats(max(gaussian_delta(1.0, float(s), 2.0), 1e-300) for s in sigmas), None, "second"),
        ),
        "xy",
        (1e-30, 1.0),
    )
    return Section(
        TITLES[1],
        "Each person clamps a number to [−1, 1] and adds normal noise of standard deviation σ. Is there a σ(α) for which this is "
        "α-differentially private? No: the ratio of the densities of 1 and −1 at z is e^(2z/σ²), which has no bound.",
        f"For four σ and three ε, the event Z ≥ σ²ε/2. Tails are also measured on {count:,} reports of 1 and of −1. The right plot has the "
        "least δ for which the noise is (ε, δ)-private.",
        (
            Figure(
                "Left: log-ratio of the tails of the reports of 1 and of −1. Right: no σ has δ = 0.",
                (Panel("z", "ln P(Z ≥ z|1)/P(Z ≥ z|−1)", (*series, *lines), ""), delta),
            ),
        ),
        (),
        (
            Check(
                "the event Z ≥ σ²ε/2 breaks the bound for every σ and ε",
                f"log-ratio at least {worst:.3g} above ε",
                "above 0",
                worst > 0,
                "identity",
            ),
            Check("so the least δ is positive", f"at least {scientific(min(deltas))}", "above 0", min(deltas) > 0, "identity"),
            Check("measured tails agree with the normal law", f"at most {off:.1f} standard errors off", "5", off < 5),
        ),
        "Normal noise is (ε, δ)-private for a δ that falls fast as σ grows, so `mechanisms.Gaussian` takes a δ and no δ of 0. On "
        "finite data the events that break the bound are never seen: at σ = 4 and ε = 5 their probability is below 10⁻²².",
    )


# Aufgabe 3.1


@dataclass(frozen=True, slots=True)
class _Several:
    """Mean squared errors of k means: budget split, people split; share of data sets in which all k intervals cover."""

    k: int
    budget: Mean
    people: Mean
    covered: int
    level: float


def _product(channels: list[Array]) -> Array:
    """The channel that reports each of several channels' answers about the same record."""
    matrix = channels[0]
    for other in channels[1:]:
        matrix = np.einsum("xa,xb->xab", matrix, other).reshape(len(matrix), -1)
    return matrix


def _bits(k: int, epsilon: float) -> list[Array]:
    """One-bit channels about the k signs of a record, on all 2^k records."""
    records = np.array(list(itertools.product((0, 1), repeat=k)))
    response = local.BinaryResponse(epsilon).channel()
    return [response[records[:, j]] for j in range(k)]


def _estimates(k: int, replicates: int, n: int, setting: Setting) -> _Several:
    epsilon, mean = 1.0, 0.2
    size = n * replicates
    errors, covers = [], np.ones(replicates, np.bool_)
    for j in range(k):
        stream = setting.stream("minimax-channels", "several", k, j)
        values = signs((size,), mean, stream).astype(np.float64)
        mechanism = local.BoundedMean(epsilon / k, -1.0, 1.0)
        z0 = 1 / math.tanh(epsilon / k / 2)
        reports = mechanism.privatize(values, rng=stream).reshape(replicates, n)
        found = z0 * (2 * reports.mean(axis=1) - 1)
        errors.append((found - mean) ** 2)
        # Bonferroni: each of k intervals at 1 − 0.1/k, from exact binomial quantiles of the count
        probability = 0.5 * (1 + mean / z0)
        count = reports.sum(axis=1)
        tail = (1 - CONFIDENCE) / (2 * k)
        covers &= (stats.binom.cdf(count, n, probability) > tail) & (stats.binom.sf(count - 1, n, probability) > tail)
    share = n // k
    stream = setting.stream("minimax-channels", "people", k)
    values = signs((share * replicates,), mean, stream).astype(np.float64)
    reports = local.BoundedMean(epsilon, -1.0, 1.0).privatize(values, rng=stream).reshape(replicates, share)
    people = (2 * reports.mean(axis=1) - 1) / math.tanh(epsilon / 2)
    level = dp_level(_product(_bits(k, epsilon / k))) if k <= 5 else math.nan
    return _Several(k, mean_of(np.mean(errors, axis=0)), mean_of((people - mean) ** 2), int((~covers).sum()), level)


def _several(setting: Setting) -> Section:
    n, replicates = 1000, setting.sized(4000, 500)
    cases = [_estimates(k, replicates, n, setting) for k in setting.sized((1, 2, 3, 4, 6, 8), (1, 2, 4))]
    uneven = [_product([_bits(3, eps)[j] for j, eps in enumerate(split)]) for split in ((0.2, 0.3, 0.5), (0.1, 0.1, 0.8))]
    off = max([abs(case.level - 1) for case in cases if case.k <= 5] + [abs(dp_level(matrix) - 1) for matrix in uneven])
    over = dp_level(_product(_bits(3, 0.4)))
    # Channels whose answers depend on different inputs: no two inputs are the worst for all of them.
    three = np.eye(3)
    apart = [local.BinaryResponse(0.5).channel()[three[j].astype(int)] for j in range(3)]
    less = dp_level(_product(apart))
    k = floats(case.k for case in cases)
    budget = floats((1 / math.tanh(1 / case.k / 2) ** 2 - 0.04) / n for case in cases)
    people = floats((1 / math.tanh(0.5) ** 2 - 0.04) / (n // case.k) for case in cases)
    worst = max(
        abs(found.value - theory) / found.stderr
        for every, line in ((budget, "budget"), (people, "people"))
        for theory, found in zip(every, [getattr(c, line) for c in cases], strict=True)
    )
    broken = max(cases, key=lambda case: case.covered)
    series = (
        Series(
            "budget split: k reports at α/k",
            k,
            floats(c.budget.value for c in cases),
            floats(c.budget.stderr for c in cases),
            "measured",
            "points",
        ),
        Series(
            "people split: one report at α",
            k,
            floats(c.people.value for c in cases),
            floats(c.people.stderr for c in cases),
            "second",
            "points",
        ),
        Series("(z₀(α/k)² − θ²)/n", k, budget, None, "theory"),
        Series("k(z₀(α)² − θ²)/n", k, people, None, "second theory"),
    )
    return Section(
        TITLES[2],
        "For each of k functionals there are an α_j-differentially private channel and an estimator. Build a private procedure for all "
        "k, and find a condition on the α_j: each record is reported by all channels, independently, and α₁ + … + α_k ≤ α suffices.",
        f"Records of k independent signs with mean 0.2, α = 1 and n = {n:,}, in {replicates:,} data sets: all k means with reports at "
        "α/k, and beside it each person reporting one of the k signs at α. The levels of product channels are computed from all "
        "records and reports.",
        (Figure("Mean squared error of one of k means.", (Panel("functionals k", "squared error", series),)),),
        (),
        (
            Check("the product channel has the level α₁ + … + α_k", f"at most {scientific(off)} off", "10⁻⁹", off <= ROUNDING, "identity"),
            Check(
                "with a larger sum the product is not α-private", f"0.4 three times: {over:.4f}", "more than 1", over > 1 + 0.19, "identity"
            ),
            Check(
                "the condition is sufficient and not necessary",
                f"three channels at 0.5 about different inputs: {less:.4f}",
                "less than 1.5",
                less < 1.1,
                "identity",
            ),
            Check("measured errors agree with the exact variances", f"at most {worst:.1f} standard errors off", "5", worst < 5),
            Check(
                "intervals at 1 − 0.1/k cover all k means together",
                f"{broken.covered:,} of {replicates:,} data sets missed",
                "at most one in ten",
                at_most(broken.covered, replicates, 1 - CONFIDENCE),
            ),
        ),
        "As a Bonferroni correction divides the level of significance among k tests, composition divides the privacy among k channels, and "
        "both are sums. But the squared error of a report grows as k², while splitting the people costs a factor of k only. The "
        "condition is necessary if two inputs are the worst for all channels, as here, and not in general.",
    )


STUDY = Study("minimax-channels", "Densities of private channels, and several functionals.", TITLES, sections)
