"""Wasserman & Zhou (2010): what releases tell about one record and about a distribution, in L2, in Kullback-Leibler, and in the plane."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dpcore.blackwell import bayes_factors, max_power
from dpcore.distributions import convergence, tuning
from dpcore.distributions.distances import squared_l2_distance
from dpcore.distributions.exponential import l2_exponential
from dpcore.distributions.perturbed import perturbed_histogram
from dpcore.distributions.series_balls import l2_accuracy_bound, l2_small_ball_probability, series_covariance
from dpcore.reproduce import information as own
from dpcore.reproduce.estimates import SIGNIFICANCE, compared, mean_of
from dpcore.reproduce.rate_curves import EPSILON, LINE, SERIES, Curve, near
from dpcore.reproduce.regions import scientific
from dpcore.reproduce.registry import Study
from dpcore.reproduce.results import Check, Figure, Panel, Role, Section, Series, Table, floats
from dpcore.reproduce.setting import Setting

TITLES = (
    "Wasserman & Zhou (2010), Theorem 2.4: power and Bayes factor of a test of one record",
    "Wasserman & Zhou (2010), Definition 3.1: consistent and informative releases in three distances",
    "Wasserman & Zhou (2010), Theorem 4.2, plane: KS distance of smoothed histograms of two coordinates",
    "Wasserman & Zhou (2010), Theorem 4.4, KS in the plane: KS distance of perturbed histograms of two coordinates",
    "Wasserman & Zhou (2010), Definition 5.2 and Theorem 5.3: small balls in L2, and the accuracy that follows",
    "Wasserman & Zhou (2010), Section 5.2: the mean by the exponential mechanism",
    "Wasserman & Zhou (2010), Lemma 9.3: the covariance of the coefficients is bounded",
)
RECORDS = "records n"
ROLES: tuple[Role, ...] = "measured", "second", "third"
GAMMA = SERIES.smoothness
BETA = 0.05
"""Share of releases that may be beyond the radius of the accuracy."""


def sections(setting: Setting) -> Iterator[Section]:
    """Measure all sections."""
    yield _one_record(setting)
    yield _informative(setting)
    yield _smoothed_plane(setting)
    yield _perturbed_plane(setting)
    yield _small_balls(setting)
    yield _mean(setting)
    yield _covariance(setting)


# One record


def _one_record(setting: Setting) -> Section:
    n, others = 12, np.linspace(0, 1, setting.sized(41, 11))
    laws = [own.two_laws(EPSILON, n, p) for p in others.tolist()]
    low, high = bayes_factors(EPSILON)
    factors = [law.matrix[1] / law.matrix[0] for law in laws]
    largest = floats(float(np.abs(np.log(each)).max()) for each in factors)
    levels = np.linspace(0, 1, 101)
    lines = {p: _powers(own.two_laws(EPSILON, n, p).matrix, levels) for p in (0.0, 0.1, 0.5)}
    over = max(float((power - max_power(levels, EPSILON)).max()) for power in lines.values())
    beyond = max(max(float(each.max()) / high, low / float(each.min())) for each in factors)
    ends = floats((0.0, 1.0))
    panels = (
        Panel(
            "level γ",
            "power",
            (
                *(
                    Series(f"others are 1 with {p:g}", floats(levels), floats(power), None, role)
                    for (p, power), role in zip(lines.items(), ROLES, strict=True)
                ),
                Series("γe^ε", floats(levels), floats(np.minimum(1, levels * math.e**EPSILON)), None, "theory"),
                Series("both bounds", floats(levels), floats(max_power(levels, EPSILON)), None, "second theory"),
            ),
            log="",
        ),
        Panel(
            "probability that another record is 1",
            "largest |ln Bayes factor|",
            (
                Series("of the outputs", floats(others), largest, None, "measured"),
                Series("ε", ends, (EPSILON, EPSILON), None, "theory"),
                Series("2ε, as printed", ends, (2 * EPSILON, 2 * EPSILON), None, "second theory"),
            ),
            log="",
        ),
    )
    return Section(
        TITLES[0],
        "A test of X_i = s against X_i = t that sees only the output has power at most γe^ε at level γ. The text after the theorem has "
        "Bayes factors between e^(−2ε) and e^(2ε).",
        f"A count of {n} bits goes through discrete Laplace noise; one of the bits is tested, and the others are 1 with a probability "
        f"that the "
        "tester knows. All laws are computed, ε = 1.",
        (Figure("Power of the best test at each level, and the largest Bayes factor of an output.", panels),),
        (),
        (
            Check(
                "no test has more power than γe^ε allows", f"{scientific(max(0.0, over))} above at most", "10⁻¹²", over <= 1e-12, "identity"
            ),
            Check(
                "all Bayes factors are between e^(−ε) and e^ε",
                f"{beyond:.12f} of the bound at most",
                "1 + 10⁻¹²",
                beyond <= 1 + 1e-12,
                "identity",
            ),
            Check(
                "the bound is attained where the others are known",
                f"ln of the largest factor is {largest[0]:.9f}",
                f"ln of the bound, {math.log(high):.9f}",
                abs(largest[0] - math.log(high)) < 1e-9,
                "identity",
            ),
        ),
        "The proof of the theorem bounds a ratio by e^ε, in both directions. Factors up to e^(2ε) belong to guarantees for the presence "
        "of a "
        "record, as a changed value is then two steps. Several releases multiply: their ε add up.",
    )


def _powers(rows: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The power of the best randomised test at each level, by Neyman and Pearson."""
    order = np.argsort(-rows[1] / rows[0])
    x, y = (np.concatenate([[0.0], np.cumsum(row[order])]) for row in rows)
    return np.asarray(np.interp(levels, x, y), np.float64)


# Distances


def _informative(setting: Setting) -> Section:
    sizes = setting.sized((1000, 10_000, 100_000), (1000, 20_000))
    repeats = setting.sized(80, 40)

    def released(distance: convergence.Distance) -> convergence.Consistency:
        stream = setting.stream("informative", distance)

        def mechanism(x: np.ndarray) -> object:
            bins = tuning.perturbed_histogram_bins(n=len(x)).bins or 1
            return perturbed_histogram(x, EPSILON, (0, 1), bins=bins, rng=stream)

        cdf, density = (LINE.cdf, None) if distance == "ks" else (None, LINE.pdf)
        draw = lambda n: LINE.records(n, stream)  # noqa: E731
        return convergence.consistency(mechanism, draw, cdf, sizes=sizes, repeats=repeats, distance=distance, density=density)

    found = {distance: released(distance) for distance in convergence.NAMES}
    ks = [tuning.rate("perturbed_histogram", "ks", n=n).value for n in sizes]
    l2 = [tuning.rate("perturbed_histogram", "l2", n=n).value for n in sizes]
    rates = {"ks": ks, "l2": l2, "kl": l2}
    slopes = tuple(
        compared(convergence.NAMES[d], "n", sizes, [mean_of(row) for row in each.distances], rates[d]) for d, each in found.items()
    )
    measured = {distance: each.informative(rates[distance], beta=0.1) for distance, each in found.items()}
    faster = found["l2"].informative([1 / n for n in sizes], beta=0.1)
    shown = [
        Series(convergence.NAMES[d], floats(sizes), floats(each.mean), floats(each.stderr), role)
        for (d, each), role in zip(found.items(), ROLES, strict=True)
    ]
    last_l2 = float(found["l2"].mean[-1])
    shown.append(Series("ε_n of the squared L2 distance", floats(sizes), floats(last_l2 * rate / l2[-1] for rate in l2), None, "theory"))
    factors = [
        Series(convergence.NAMES[d], floats(sizes), floats(each.factors), None, role)
        for (d, each), role in zip(measured.items(), ROLES, strict=True)
    ]
    last = max(float(each.mean[-1] / each.mean[0]) for each in found.values())
    return Section(
        TITLES[1],
        "A release is consistent with respect to ρ if ρ(F, F̂_Z) → 0 in probability, and ε_n-informative if ρ(F, F̂_Z) = O_P(ε_n). The "
        "paper "
        "has the KS and the squared L2 distance and says that its results carry over to others.",
        f"Perturbed histograms with n^(1/3) cells of records with the density ½ + x, ε = 1, {repeats} data sets at each size. ε_n is "
        f"the rate "
        "of Theorem 4.4; for the Kullback-Leibler divergence it is that of the squared L2 distance.",
        (
            Figure(
                "Mean distances with standard errors; and the factor of ε_n that one release in ten exceeds.",
                (Panel(RECORDS, "distance", tuple(shown)), Panel(RECORDS, "90 % quantile / ε_n", tuple(factors), log="x")),
            ),
        ),
        slopes,
        (
            Check("all three distances go to 0", f"to {last:.3f} of the first at most", "½", last <= 0.5),
            *(near(slope, setting) for slope in slopes if slope.part != convergence.NAMES["ks"]),
            *(
                Check(
                    f"{convergence.NAMES[d]}: its quotient by ε_n does not grow",
                    f"{each.factors[0]:.2f} first, {each.factors[-1]:.2f} last",
                    "intervals of 95 % that overlap, or a fall",
                    not each.grows,
                )
                for d, each in measured.items()
            ),
            Check(
                "the squared L2 distance over 1/n grows",
                f"{faster.factors[0]:.2f} first, {faster.factors[-1]:.2f} last",
                "intervals of 95 % apart",
                faster.grows,
            ),
        ),
        "The divergence is infinite if a count becomes 0; cells of n^(2/3)/2 records or more are too large for this. About ½∫(p − "
        "q)²/p, it "
        "has the rate of the squared L2 distance. For the KS distance, the rate of the theorem has a logarithm that is not needed.",
    )


# The plane


def _plane(curve: Curve, with_logarithm: str, without: str) -> Figure:
    lines = curve.through(with_logarithm), curve.through(without, "second theory", logarithm=False)
    return Figure("KS distance from the truth, with standard errors.", (Panel(RECORDS, "KS distance", (curve.measured(), *lines)),))


def _smoothed_plane(setting: Setting) -> Section:
    curve = own.smoothed_plane(setting)
    return Section(
        TITLES[2],
        "With m ≍ n^(r/(6+r)) cells, k ≍ n^(4/(6+r)) draws and δ = mk/(nα), the expected KS distance is O(√ln n·n^(−2/(6+r))); r = 2.",
        "Both coordinates have the density ½ + x, ε = 1. Draws are uniform in their cells; the supremum is over the whole square, at all "
        "steps of the draws' distribution function and just before them.",
        (_plane(curve, "√ln n · n^(−1/4)", "n^(−1/4)"),),
        (curve.slope, curve.plain),
        (_no_slower(curve), _between(curve, setting)),
        "The logarithm comes from an inequality for all sets of the class; the measured slope is that of the order without it, or steeper.",
    )


def _perturbed_plane(setting: Setting) -> Section:
    curve = own.perturbed_plane(setting)
    return Section(
        TITLES[3],
        "With m ≍ n^(r/(2+r)) cells, the expected KS distance is O(ln n·n^(−2/(2+r))); r = 2. The paper calls this slower than the "
        "exponential "
        "mechanism's n^(−1/3), which it is for r ≥ 4 only.",
        "Both coordinates have the density ½ + x, ε = 1. The supremum is over eight points of each axis of a cell.",
        (_plane(curve, "ln n · n^(−1/2)", "n^(−1/2), minimax"),),
        (curve.slope, curve.plain),
        (_no_slower(curve), _between(curve, setting)),
        "The noise of m cells adds up to √m/(nε) in a corner, far below n^(−1/2), and the bias of cells is of the order 1/m. The measured "
        "slope is the minimax one.",
    )


def _no_slower(curve: Curve) -> Check:
    limit = curve.slope.theory + 2 * curve.slope.stderr
    return Check(
        "the distance falls at least as fast as the order",
        f"slope {curve.slope.measured:.3f}".replace("-", "−"),
        f"{limit:.3f}".replace("-", "−"),
        curve.slope.measured <= limit,
    )


def _between(curve: Curve, setting: Setting) -> Check:
    room = setting.sized(0.06, 0.12) + 2 * curve.slope.stderr
    off = curve.plain.measured - curve.plain.theory
    return Check("the slope is that of the order without logarithm", f"{abs(off):.3f} off", f"{room:.3f}", abs(off) <= room)


# Small balls


def _small_balls(setting: Setting) -> Section:
    beta, n = SERIES.coefficients, 10_000
    tuned = tuning.l2_exponential_draws(n=n, smoothness=GAMMA)
    k, m, runs = tuned.draws or 1, tuned.draw_terms or 1, setting.sized(20_000, 2000)
    radii = np.linspace(0.05, 0.5, 10)
    stream = setting.stream("small balls")
    shares = [l2_small_ball_probability(r, beta, draws=k, terms=m, runs=runs, rng=stream) for r in radii.tolist()]
    bounds = [l2_small_ball_probability(r, beta, draws=k, terms=m) for r in radii.tolist()]
    sizes = setting.sized((1000, 3000, 9000), (1000, 3000))
    beyond = {size: _accuracy(size, setting) for size in sizes}
    panels = (
        Panel(
            "radius",
            "probability",
            (
                Series("simulated", floats(radii), floats(shares), floats(math.sqrt(s * (1 - s) / runs) for s in shares), "measured"),
                Series("proved bound", floats(radii), floats(bounds), None, "theory"),
            ),
            log="",
        ),
        Panel(
            RECORDS,
            "‖p − p̂*‖",
            (
                Series("95 % quantile of releases", floats(sizes), floats(each[1] for each in beyond.values()), None, "measured"),
                Series("radius of the bound", floats(sizes), floats(each[0] for each in beyond.values()), None, "theory"),
            ),
        ),
    )
    return Section(
        TITLES[4],
        "R(k, ε) = P(ρ(F, Ĝ) ≤ ε), Ĝ of k draws from F, is the small ball probability; by Theorem 5.3 the exponential mechanism is "
        "within ε of "
        "the truth but for (sup p)^k·e^(−3αε/(16Δ))/R(k, ε/2), and the probability that the data are ε/16 away.",
        f"ρ is the L2 distance of cosine series, γ = {GAMMA:g}. Left: {k} draws with {m} coefficients. Right: the radius that the "
        f"bound, with "
        f"all constants, allows {BETA:g} of the releases to exceed, beside what releases do; sizes as in Theorem 6.2, ε = 1.",
        (Figure("Small ball probabilities, and the accuracy of releases.", panels),),
        (),
        (_below(shares, bounds, runs), _within(beyond)),
        "Cantelli's inequality gives the probability of ½ that the proof of Theorem 6.2 needs for every k, without a normal limit. The "
        "bound of "
        "the accuracy loses (sup p)^k and is many times too large.",
    )


def _below(shares: list[float], bounds: list[float], runs: int) -> Check:
    from scipy import stats

    above = [float(stats.beta.ppf(1 - SIGNIFICANCE, share * runs + 1, runs - share * runs)) if share < 1 else 1.0 for share in shares]
    holds = all(bound <= limit for bound, limit in zip(bounds, above, strict=True))
    return Check("the proved bound is below every simulated probability", f"{max(bounds):.3f} at most", "Clopper-Pearson at 10⁻⁶", holds)


def _accuracy(n: int, setting: Setting) -> tuple[float, float]:
    """The radius of the bound, and the quantile of the distances of releases."""
    tuned, stream = tuning.l2_exponential_draws(n=n, smoothness=GAMMA), setting.stream("accuracy", n)
    k, m, m_k = tuned.draws or 1, tuned.terms or 1, tuned.draw_terms or 1
    low, high = 0.0, 1.0
    while l2_accuracy_bound(EPSILON, high, SERIES.coefficients, n=n, draws=k, terms=m, draw_terms=m_k) > BETA:
        low, high = high, 2 * high
    for _ in range(12):
        middle = (low + high) / 2
        enough = l2_accuracy_bound(EPSILON, middle, SERIES.coefficients, n=n, draws=k, terms=m, draw_terms=m_k) <= BETA
        low, high = (low, middle) if enough else (middle, high)
    found = []
    for _ in range(setting.sized(60, 20)):
        released = l2_exponential(SERIES.records(n, stream), EPSILON, (0, 1), draws=k, terms=m, draw_terms=m_k, rng=stream)
        found.append(math.sqrt(squared_l2_distance(released, SERIES.pdf)))
    return high, float(np.quantile(found, 1 - BETA))


def _within(beyond: dict[int, tuple[float, float]]) -> Check:
    worst = max(quantile / radius for radius, quantile in beyond.values())
    return Check("releases are nearer than the bound's radius", f"{worst:.3f} of it at most", "1", worst <= 1)


# The mean


def _mean(setting: Setting) -> Section:
    sizes = setting.sized((100, 1000, 10_000, 100_000), (100, 10_000))
    errors = {n: own.mean_errors(n, setting.sized(400, 200), setting.stream("mean", n)) for n in sizes}
    variance = 1 / 12 - 1 / 144
    own_parts = {
        "the data's mean": [variance / n for n in sizes],
        "exponential mechanism": [(variance + 1 / EPSILON) / n for n in sizes],
        "Laplace noise": [variance / n + 2 / (n * EPSILON) ** 2 for n in sizes],
    }
    every = {name: own.means_of(errors, name) for name in own_parts}
    slopes = tuple(compared(name, "n", sizes, means, [1 / n for n in sizes], own_parts[name]) for name, means in every.items())
    series = [
        Series(name, floats(sizes), floats(m.value for m in means), floats(m.stderr for m in means), role)
        for (name, means), role in zip(every.items(), ROLES, strict=True)
    ]
    theory = Series("(variance + 1/ε)/n", floats(sizes), floats(own_parts["exponential mechanism"]), None, "theory")
    off = max(
        abs(m.value - own_part) / m.stderr for name, means in every.items() for m, own_part in zip(means, own_parts[name], strict=True)
    )
    rows = tuple((f"{n:,}", *(f"{math.sqrt(every[name][i].value):.2g}" for name in every)) for i, n in enumerate(sizes))
    return Section(
        TITLES[5],
        "For ρ = ‖μ − Z̄‖² one draw suffices: Z = X̄ + O_P(1/√n), so Z converges at the rate of X̄. The paper prints Δ ≤ r/n and the "
        "density "
        "∝ e^(−n‖X̄ − z‖²/(2α)).",
        "Records have the density ½ + x, r = 1, ε = 1. The density is e^(−εn(X̄ − z)²/(2r)) inside [0, 1].",
        (Figure("Squared errors of means, with standard errors.", (Panel(RECORDS, "squared error", (*series, theory)),)),),
        slopes,
        (
            *(near(slope, setting) for slope in slopes[:2]),
            *(near(slope, setting, own=True) for slope in slopes[2:]),
            Check("all errors agree with their expectations", f"at most {off:.1f} standard errors off", "6", off <= 6),
        ),
        "Δ ≤ r/n is no bound of the sensitivity, which is r(2/n − 1/n²), yet the density with r/n is ε-private; the printed one with α "
        "in the "
        "denominator is not. The rate is that of the mean, but the variance is 1 + r²/(ε·variance) times as large for ever, while that of "
        "Laplace noise vanishes.",
        (Table("Root of the mean squared error.", (RECORDS, *every), rows),),
    )


# Lemma 9.3


def _covariance(setting: Setting) -> Section:
    beta = SERIES.coefficients
    terms = (1, 2, 4, 8, 16, 32, 64, 128)
    values = floats(float(np.linalg.eigvalsh(series_covariance(beta, terms=m)).max()) for m in terms)
    lemma = 1 + (float(np.abs(beta).max()) + math.sqrt(2)) * float(np.abs(beta).sum())
    largest = float(SERIES.pdf(np.zeros(1))[0])  # all coefficients are positive
    off = float(np.abs(series_covariance(beta, terms=12) - _by_quadrature(12)).max())
    n = setting.sized(400_000, 40_000)
    x = SERIES.records(n, setting.stream("covariance"))
    waves = math.sqrt(2) * np.cos(math.pi * x[:, None] * np.arange(1, 9))
    apart = float(np.abs(np.cov(waves.T) - series_covariance(beta, terms=8)).max()) * math.sqrt(n)
    line = floats((terms[0], terms[-1]))
    return Section(
        TITLES[6],
        "The largest eigenvalue of the covariance matrix Σ_m of ψ_1(X), …, ψ_m(X) is bounded for all m: its rows sum to at most "
        "1 + (|β_j| + √2)·Σ|β_j| in absolute value.",
        f"γ = {GAMMA:g}, β_j = 0.4·j^(−γ−½). The formula Σ_jk = (β_(|j−k|) + β_(j+k))/√2 − β_j β_k is compared with the integrals, and "
        f"with {n:,} "
        "records.",
        (
            Figure(
                "The largest eigenvalue and its bounds.",
                (
                    Panel(
                        "terms m",
                        "largest eigenvalue",
                        (
                            Series("largest eigenvalue", floats(terms), values, None, "measured"),
                            Series("Lemma 9.3", line, (lemma, lemma), None, "theory"),
                            Series("sup p", line, (largest, largest), None, "second theory"),
                        ),
                        log="x",
                    ),
                ),
            ),
        ),
        (),
        (
            Check("the formula agrees with the integrals", f"{scientific(off)} off at most", "10⁻¹²", off <= 1e-12, "identity"),
            Check("no eigenvalue is above the lemma's bound", f"{max(values):.4f}", f"{lemma:.4f}", max(values) <= lemma, "identity"),
            Check("nor above sup p", f"{max(values):.4f}", f"{largest:.4f}", max(values) <= largest + 1e-12, "identity"),
            Check("the records' covariances agree", f"{apart:.1f}/√n off at most", "15/√n", apart <= 15),
        ),
        "The printed line for Σ_jj has a ½ too many; the next one is right. A shorter argument gives a smaller bound: the variance of "
        "a·ψ(X) is "
        "at most ∫(a·ψ)²p ≤ sup p·‖a‖².",
    )


def _by_quadrature(terms: int) -> np.ndarray:
    """Σ from integrals over [0, 1], by the midpoint rule, which is exact for cosines of these frequencies."""
    x = (np.arange(2**10) + 0.5) / 2**10
    waves, p = math.sqrt(2) * np.cos(math.pi * x[:, None] * np.arange(1, terms + 1)), SERIES.pdf(x)
    mean = (waves * p[:, None]).mean(axis=0)
    return (waves * p[:, None]).T @ waves / len(x) - np.outer(mean, mean)


STUDY = Study("information", "What releases tell about one record and about the distribution, in several distances.", TITLES, sections)
