"""Wasserman & Zhou (2010): both tables of rates and their theorems, with measured slopes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dpcore.distributions.exponential import l2_exponential
from dpcore.distributions.tuning import l2_exponential_draws
from dpcore.errors import ParameterError
from dpcore.reproduce import point_masses
from dpcore.reproduce.estimates import Mean, mean_of
from dpcore.reproduce.rate_curves import SERIES, Curve, Curves, as_computed, near
from dpcore.reproduce.registry import Study
from dpcore.reproduce.results import Check, Figure, Panel, Role, Section, Series, Slope, Table, floats
from dpcore.reproduce.setting import Setting

TITLES = (
    "Wasserman & Zhou (2010), Section 1.1, first table: rates of histograms and of the exponential mechanism",
    "Wasserman & Zhou (2010), Section 1.1, second table: rates of orthogonal series",
    "Wasserman & Zhou (2010), Theorem 3.2: no private release is consistent at a point mass",
    "Wasserman & Zhou (2010), Theorem 4.2: KS distance of smoothed histograms",
    "Wasserman & Zhou (2010), Theorem 4.3: squared L2 distance of smoothed histograms",
    "Wasserman & Zhou (2010), Theorem 4.4, L2: squared L2 distance of perturbed histograms",
    "Wasserman & Zhou (2010), Theorem 4.4, KS: KS distance of perturbed histograms",
    "Wasserman & Zhou (2010), Theorem 5.4: KS distance of the exponential mechanism",
    "Wasserman & Zhou (2010), Theorem 6.2: squared L2 distance of the exponential mechanism",
    "Wasserman & Zhou (2010), Theorem 6.3: squared L2 distance of orthogonal series",
)
SETUP = (
    "Records have the Lipschitz density ½ + x; with r = 2, both coordinates do. ε = 1. Counts of cells are multinomial, which is the exact "
    "distribution of the counts of n records, and go through the functions of the release. "
)
NO_LOGARITHM = (
    "The logarithm comes from the Vapnik-Chervonenkis inequality. For r = 1 the Dvoretzky-Kiefer-Wolfowitz inequality has none, and the "
    "measured slope lies between the exponents with and without the logarithm."
)
L2, KS, RECORDS = "squared L2 distance", "KS distance", "records n"
GAMMA = SERIES.smoothness
SMOOTHED, PERTURBED, EXPONENTIAL = "smoothed histogram", "perturbed histogram", "exponential mechanism"
ROLES: dict[str, Role] = {SMOOTHED: "measured", PERTURBED: "second", EXPONENTIAL: "third"}
CONSISTENT = 0.5
"""Largest ratio of the last to the first distance, for one that goes to 0."""


def sections(setting: Setting) -> Iterator[Section]:
    """Measure all sections."""
    curves = Curves(setting)
    yield _first_table(curves)
    yield _second_table(curves)
    yield _point_mass(curves)
    yield _smoothed_ks(curves)
    yield _smoothed_l2(curves)
    yield _perturbed_l2(curves)
    yield _perturbed_ks(curves)
    yield _exponential(curves)
    yield _series_draws(curves)
    yield _orthogonal(curves)


def _signed(number: float) -> str:
    return f"{number:.3f}".replace("-", "−")


# The tables

HEADER = "distance", "release", "order", "slope of the order", "measured slope", "records up to", ""


def _order(curve: Curve) -> str:
    """n^a, with a power of ln n."""
    rate = curve.rates[0]
    logarithm = {0.0: "", 0.5: "√ln n · ", 1.0: "ln n · "}[rate.log_power]
    return f"{logarithm}n^{_signed(rate.exponent)}"


def _row(distance: str, release: str, curve: Curve, remark: str = "") -> tuple[str, ...]:
    slope = curve.slope
    measured = f"{_signed(slope.measured)} ± {slope.stderr:.3f}"
    return distance, release, _order(curve), _signed(slope.theory), measured, f"{curve.n[-1]:,}", remark


def _first_table(curves: Curves) -> Section:
    histograms = (*curves.smoothed_l2, *curves.perturbed_l2, curves.smoothed_ks, curves.perturbed_ks)
    slopes = tuple(curve.slope for curve in histograms)
    faster = replace(curves.exponential.truth.slope, part=f"{EXPONENTIAL}, KS")
    return Section(
        TITLES[0],
        "If the density is Lipschitz, the squared L2 distance of the release falls like n^(−2/(2r+3)) for smoothed and like the "
        "minimax n^(−2/(2+r)) for perturbed histograms; the KS distance like √ln n·n^(−2/(6+r)) for smoothed and, where r = 1, like "
        "√(ln n/n) for perturbed histograms, and like n^(−1/3) for the exponential mechanism. Its minimax rate is n^(−1/2).",
        SETUP + "The exponential mechanism runs on records. The table's entry for perturbed histograms and the KS distance, "
        "ln n·n^(−2/(2+r)), is below the minimax rate for r = 1; the text of the paper has the right one.",
        (_both_distances(curves),),
        (*slopes, faster),
        (*(near(slope, curves.setting) for slope in slopes), _at_least_as_fast(faster)),
        "Orders are upper bounds, so a release may be better. Each row has a separate section below.",
        (Table("Orders of the document's table, their slopes at the sizes measured, and measured slopes.", HEADER, _first_rows(curves)),),
    )


def _first_rows(curves: Curves) -> tuple[tuple[str, ...], ...]:
    (smoothed, smoothed_plane), (perturbed, perturbed_plane) = curves.smoothed_l2, curves.perturbed_l2
    return (
        _row(L2, f"{SMOOTHED}, r = 1", smoothed),
        _row(L2, f"{SMOOTHED}, r = 2", smoothed_plane),
        _row(L2, f"{PERTURBED}, r = 1", perturbed, "minimax"),
        _row(L2, f"{PERTURBED}, r = 2", perturbed_plane, "minimax"),
        (L2, EXPONENTIAL, "NA", "–", "–", "–", "in the second table"),
        _row(KS, f"{SMOOTHED}, r = 1", curves.smoothed_ks),
        _row(KS, f"{PERTURBED}, r = 1", curves.perturbed_ks, "minimax except for √ln n"),
        _row(KS, f"{EXPONENTIAL}, r = 1", curves.exponential.truth, "faster than its bound: Theorem 5.4"),
    )


def _both_distances(curves: Curves) -> Figure:
    """Errors for r = 1, beside lines of the minimax rates."""

    def panel(distance: str, every: dict[str, Curve], exponent: float) -> Panel:
        n, last = floats(every[PERTURBED].n), every[PERTURBED].means[-1].value
        minimax = Series("minimax rate", n, floats(last * (x / n[-1]) ** exponent for x in n), None, "theory")
        return Panel(RECORDS, distance, (*(_means(name, curve.n, curve.means) for name, curve in every.items()), minimax))

    l2 = {SMOOTHED: curves.smoothed_l2[0], PERTURBED: curves.perturbed_l2[0]}
    return Figure("Distances from the truth, r = 1, with standard errors.", (panel(L2, l2, -2 / 3), panel(KS, _of_ks(curves), -1 / 2)))


def _of_ks(curves: Curves) -> dict[str, Curve]:
    return {SMOOTHED: curves.smoothed_ks, PERTURBED: curves.perturbed_ks, EXPONENTIAL: curves.exponential.truth}


def _means(name: str, n: Sequence[int], means: Sequence[Mean]) -> Series:
    return Series(name, floats(n), floats(mean.value for mean in means), floats(mean.stderr for mean in means), ROLES[name])


def _at_least_as_fast(slope: Slope) -> Check:
    """The error may fall faster than its upper bound."""
    limit = slope.theory + 2 * slope.stderr
    return Check(
        f"{slope.part}: the error falls at least as fast as the order",
        f"slope {_signed(slope.measured)}",
        _signed(limit),
        slope.measured <= limit,
    )


def _second_table(curves: Curves) -> Section:
    curve, exponential = curves.series, curves.exponential_l2
    rows = (
        _row(L2, EXPONENTIAL, exponential, "faster than its bound: Theorem 6.2"),
        _row(L2, "orthogonal series, with noise", curve, "minimax"),
    )
    slow = exponential.through(f"rate of the {EXPONENTIAL}", "second theory")
    panel = Panel(RECORDS, L2, (curve.measured(), curve.through("minimax rate"), exponential.measured("second", name=EXPONENTIAL), slow))
    return Section(
        TITLES[1],
        "In a Sobolev space of order γ, r = 1, the squared L2 distance falls like n^(−γ/(2γ+1)) for the exponential mechanism and like the "
        "minimax n^(−2γ/(2γ+1)) for orthogonal series with noise in the coefficients.",
        f"γ = {GAMMA:g}: the coefficients of the density are proportional to j^(−γ−½), so the squared bias of m terms is of the order "
        "m^(−2γ). ε = 1. The exact sampler of the exponential mechanism takes fewer records; each release has a section of its own.",
        (Figure("Squared L2 distance of both releases, with standard errors.", (panel,)),),
        (curve.slope, exponential.slope),
        (near(curve.slope, curves.setting), _at_least_as_fast(exponential.slope)),
        "",
        (Table("Orders of the document's table, and the measured slope.", HEADER, rows),),
    )


# Theorem 3.2


def _point_mass(curves: Curves) -> Section:
    found = point_masses.distances(curves.setting)
    least = min(float(each.min()) for every in found.values() for each in every.values())
    falls = max(curve.means[-1].value / curve.means[0].value for curve in _of_ks(curves).values())
    return Section(
        TITLES[2],
        "If all records are one point x, the KS distance of a differentially private release does not go to 0: there is a δ with "
        "liminf P(ρ > δ) > 0. So some assumption on the distribution is necessary.",
        "Left: all n records are one point, drawn uniformly from [0, 1] for each data set. Right: they have the density ½ + x. Releases "
        "are "
        "tuned as for Lipschitz densities, ε = 1.",
        (_beside_a_density(found, curves),),
        (),
        (
            Check(
                "the distance of a release from a point mass is at least ½",
                f"{least:.3f} or more in all runs",
                "½",
                least >= 0.5,
                "identity",
            ),
            Check(
                "the distance from a Lipschitz density falls as n grows", f"to {falls:.3f} of its first distance", "½", falls <= CONSISTENT
            ),
        ),
        "The distribution function F̂ of a release is continuous at x, so max(F̂(x), 1 − F̂(x)) ≥ ½. The mean is about ¾ if all mass is "
        "uniform "
        "in the cell of x.",
    )


def _beside_a_density(found: point_masses.Distances, curves: Curves) -> Figure:
    left = [_means(name, list(every), [mean_of(each) for each in every.values()]) for name, every in found.items()]
    right = [_means(name, curve.n, curve.means) for name, curve in _of_ks(curves).items()]
    panels = []
    for title, series in (("point mass", left), ("Lipschitz density", right)):
        ends = min(each.x[0] for each in series), max(each.x[-1] for each in series)
        panels.append(Panel(RECORDS, KS, (*series, Series("½", ends, (0.5, 0.5), None, "theory")), title=title))
    return Figure("KS distance from a point mass, and from a Lipschitz density.", tuple(panels))


# The theorems


def _with_and_without(curve: Curve, caption: str, with_logarithm: str, without: str) -> Figure:
    lines = curve.through(with_logarithm), curve.through(without, "second theory", logarithm=False)
    return Figure(caption, (Panel(RECORDS, KS, (curve.measured(), *lines)),))


def _smoothed_ks(curves: Curves) -> Section:
    curve = curves.smoothed_ks
    return Section(
        TITLES[3],
        "With m ≍ n^(r/(6+r)) cells, k ≍ n^(4/(6+r)) draws and δ = mk/(nα), the expected KS distance is O(√ln n·n^(−2/(6+r))).",
        SETUP + "Draws are uniform in their cells, and the supremum is over all of [0, 1]. r = 1.",
        (_with_and_without(curve, "KS distance of k draws from the truth.", "√ln n · n^(−2/7)", "n^(−2/7)"),),
        (curve.slope, curve.plain),
        (near(curve.slope, curves.setting),),
        NO_LOGARITHM,
    )


def _exactly(caption: str, pair: tuple[Curve, Curve], orders: tuple[str, str]) -> Figure:
    """r = 1 and r = 2."""
    panels = []
    for r, (curve, order) in enumerate(zip(pair, orders, strict=True), 1):
        lines = curve.through("the order"), curve.exactly("exact expectation")
        panels.append(Panel(RECORDS, L2, (curve.measured(name="measured"), *lines), title=f"r = {r}, the order is {order}"))
    return Figure(caption, tuple(panels))


def _exact_checks(every: Sequence[Curve], setting: Setting) -> tuple[Check, ...]:
    return tuple(check for curve in every for check in (near(curve.slope, setting), as_computed(curve)))


def _smoothed_l2(curves: Curves) -> Section:
    return Section(
        TITLES[4],
        "With m ≍ n^(r/(2r+3)) cells, k ≍ n^((r+2)/(2r+3)) draws and δ ≍ n^(−1/(2r+3)), the expected squared L2 distance is "
        "O(n^(−2/(2r+3))), slower than the minimax rate. The theorem prints δ ≍ n^(−1/(r+3)), which its proof does not use.",
        SETUP + "The distance is that of the histogram of the k draws, computed from its cells without discretisation.",
        (_exactly("Squared L2 distance of the histogram of k draws.", curves.smoothed_l2, ("n^(−2/5)", "n^(−2/7)")),),
        tuple(curve.slope for curve in curves.smoothed_l2),
        _exact_checks(curves.smoothed_l2, curves.setting),
        "The exact expectation of the error has four parts: bias, the variances of counts and of draws, and the effect of δ. It has steps "
        "because the number of cells is an integer.",
    )


def _perturbed_l2(curves: Curves) -> Section:
    return Section(
        TITLES[5],
        "With m ≍ n^(r/(2+r)) cells and k ≥ n draws, the expected squared L2 distance is O(n^(−2/(2+r))), the minimax rate.",
        SETUP + "Any number of draws is possible; the study measures the limit of many draws, which is the released density.",
        (_exactly("Squared L2 distance of the released density.", curves.perturbed_l2, ("n^(−2/3)", "n^(−1/2)")),),
        tuple(curve.slope for curve in curves.perturbed_l2),
        _exact_checks(curves.perturbed_l2, curves.setting),
        "The exact expectation has bias, the variance of counts and that of the noise; counts that become 0 are too rare to matter. For "
        "cells "
        "with few records, as for r = 2, noise makes the slope a little steeper than the order.",
    )


def _perturbed_ks(curves: Curves) -> Section:
    curve = curves.perturbed_ks
    return Section(
        TITLES[6],
        "With m ≍ n^(r/(2+r)) cells, the expected KS distance is of the order of the larger of ln n·n^(−2/(2+r)) and √(ln n/n), which is "
        "the latter for r = 1. The theorem prints the smaller one, which would be below the minimax rate n^(−1/2).",
        SETUP + "The supremum is over all of [0, 1]. r = 1.",
        (_with_and_without(curve, "KS distance of the released distribution from the truth.", "√(ln n/n)", "n^(−1/2), minimax"),),
        (curve.slope, curve.plain),
        (near(curve.slope, curves.setting), _above_the_smaller_order(curve)),
        NO_LOGARITHM,
    )


def _above_the_smaller_order(curve: Curve) -> Check:
    """Of the two orders at r = 1, ln n·n^(−2/3) falls faster than the measured distance."""
    log_n = np.log(np.array(curve.n, np.float64))
    printed = -2 / 3 + float(np.polyfit(log_n, np.log(log_n), 1)[0])
    limit = printed + 4 * curve.slope.stderr
    return Check(
        "the distance falls more slowly than the smaller of the two orders",
        f"slope {_signed(curve.slope.measured)}",
        f"more than {_signed(limit)}, with 4 standard errors",
        curve.slope.measured > limit,
    )


def _exponential(curves: Curves) -> Section:
    found, setting = curves.exponential, curves.setting
    every = found.truth, found.data, found.records
    lines = found.truth.through("n^(−1/3)"), found.data.exactly("n^(−5/9), weight times small ball")
    panel = Panel(RECORDS, KS, (found.truth.measured(), found.data.measured("second"), found.records.measured("third"), *lines))
    kept = Check("the distance from the truth is at most ε_n", f"in all but {found.beyond} of {found.runs} runs", "all", not found.beyond)
    return Section(
        TITLES[7],
        "With k ≍ (3α/B)^(2/3)·n^(2/3) draws, B = ln sup p, the KS distance of the draws from the truth is O_P(ε_n), where "
        "ε_n = 2(B/(3α))^(1/3)·n^(−1/3). The paper leaves open whether this rate can be improved.",
        f"Records have the density ½ + x; ε = 1. The exact sampler runs on {found.runs // len(found.truth.n)} data sets at each size, "
        "with k as in the theorem and √k bins. The plot has the distances of the draws from the truth, of the draws from the data, and "
        "of the "
        "data from the truth.",
        (Figure("KS distances, with standard errors.", (panel,)),),
        tuple(curve.slope for curve in every),
        (kept, _at_least_as_fast(found.truth.slope), *(near(curve.slope, setting, own=True) for curve in every)),
        "The bound holds, and is not tight for this density. The mechanism's weight e^(−εnt/2) times the small ball probability "
        "e^(−π²/(8kt²)) of k draws is largest at t = (π²/(2εnk))^(1/3), of the order n^(−5/9) with the theorem's k. So the draws are "
        "nearer to the data than the data are to the truth, and the distance from the truth is of the order n^(−1/2): these are the "
        "estimator's own slopes. The proof loses a factor (sup p)^k by the change from the uniform distribution, which gives n^(−1/3).",
    )


def _series_draws(curves: Curves) -> Section:
    curve, setting = curves.exponential_l2, curves.setting
    lines = curve.through(f"n^(−{GAMMA:g}/{2 * GAMMA + 1:g})"), curve.exactly("expectation")
    return Section(
        TITLES[8],
        "In a Sobolev space of order γ > 1, with k ≍ √n draws, the squared L2 distance of the exponential mechanism is O_P(n^(−γ/(2γ+1))), "
        "slower than the minimax rate. The paper leaves open whether the mechanism or its bound is the reason.",
        f"γ = {GAMMA:g}, ε = 1; {curve.runs[0]} data sets at each size, with the density of Theorem 6.3. The exact sampler proposes draws "
        "from a density e^(θ·ψ) that is near the data. It refuses sizes that could need more than 10⁶ trials for some data: from 9,506 "
        "records on, where draws have a third coefficient.",
        (Figure("Squared L2 distance of the series of the draws.", (Panel(RECORDS, L2, (curve.measured(), *lines)),)),),
        (curve.slope,),
        (_falls(curve), _at_least_as_fast(curve.slope), near(curve.slope, setting, own=True), _refused(10**5)),
        "The expectation is that of the squared bias of the draws' k^(1/(2γ+1)) coefficients, of the variance of the data's, and of what "
        "the mechanism adds, of the order of (m/(εn))², or √m/(εn^(3/2)) where coefficients of the data are beyond those of the draws. "
        "Among these the bias is the largest for large n: n^(−γ/(2γ+1)). So the theorem's bound is attained, and the few coefficients of "
        "the draws are the reason: the mechanism adds less than the data do.",
    )


def _falls(curve: Curve) -> Check:
    first, last = curve.means[0], curve.means[-1]
    off = (first.value - last.value) / math.hypot(first.stderr, last.stderr)
    return Check(f"the distance falls from n = {curve.n[0]:,} to {curve.n[-1]:,}", f"by {off:.1f} standard errors", "more than 2", off > 2)


def _refused(n: int) -> Check:
    """Whether the exact sampler refuses, by public sizes only."""
    tuned = l2_exponential_draws(n=n, smoothness=GAMMA)
    try:
        l2_exponential(np.zeros(n), 1.0, (0, 1), draws=tuned.draws or 1, terms=tuned.terms or 1, draw_terms=tuned.draw_terms)
        found = "released"
    except ParameterError:
        found = "refused"
    return Check(f"{n:,} records are refused", found, "refused", found == "refused", "identity")


def _orthogonal(curves: Curves) -> Section:
    curve = curves.series
    lines = curve.through(f"n^(−{2 * GAMMA:g}/{2 * GAMMA + 1:g})"), curve.exactly("exact expectation")
    return Section(
        TITLES[9],
        "In a Sobolev space of order γ > 1, with m ≍ n^(1/(2γ+1)) terms and k ≥ n draws, the squared L2 distance is "
        "O_P(n^(−2γ/(2γ+1))), the minimax rate.",
        f"γ = {GAMMA:g}, ε = 1; β_j = 0.4·j^(−γ−½), so that p > ½. Records are drawn and go through the release, whose noise has twice the "
        "scale that the document prints. The distance is that of the released density, without its negative parts.",
        (Figure("Squared L2 distance of the released density.", (Panel(RECORDS, L2, (curve.measured(), *lines)),)),),
        (curve.slope,),
        _exact_checks([curve], curves.setting),
        "The exact expectation is the sum of the squared bias, of the variance of the coefficients, and of that of the noise, 16m³/(n²ε²), "
        "which is of smaller order than m/n but visible for small n.",
    )


STUDY = Study("rates", "How fast the errors of releases fall, and both tables of rates.", TITLES, sections)
