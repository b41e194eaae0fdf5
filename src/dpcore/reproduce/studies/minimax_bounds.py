"""Steinberger (2019), chapter 3: bounds for a given channel, open records, and how far the theorems reach."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.optimize import linprog

from dpcore import local
from dpcore._dataclasses import dataclass
from dpcore.minimax import (
    BinarySearchEstimator,
    ChannelLowerBound,
    ChannelUpperBound,
    Model,
    channel_lower_bound,
    channel_upper_bound,
    hellinger,
    indistinguishable_difference,
    optimal_channel,
    reports_testing_affinity,
    tv,
)
from dpcore.reproduce.estimates import Mean, compared, log_slope, mean_of
from dpcore.reproduce.open_records import OPEN_EXAMPLES, OpenExample
from dpcore.reproduce.regions import scientific
from dpcore.reproduce.registry import Study
from dpcore.reproduce.results import Check, Figure, Panel, Section, Series, floats
from dpcore.reproduce.scope import discontinuity, one_bit_scope, theorem_scope
from dpcore.reproduce.setting import Setting

Array = npt.NDArray[np.float64]
TITLES = (
    "Steinberger (2019), Satz 2.2 and Bemerkung 3.11: without privacy the risk has the order of the Hellinger modulus",
    "Steinberger (2019), Satz 3.1: no estimator behind a given channel is better than its hardest test",
    "Steinberger (2019), Lemma 3.2: members that are close in any metric cannot be distinguished",
    "Steinberger (2019), Satz 3.10: some estimator behind a given channel attains the order of its modulus",
    "Steinberger (2019), Lemma 3.17: testing affinities of n reports are at most powers of one affinity",
    "Steinberger (2019), Satz 3.13, scope: one bit loses to three outcomes from e^ε = √3 on",
    "Steinberger (2019), Korollar 3.14, scope: from which sample size on the theorem is better than a guess",
    "Steinberger (2019), Aufgabe 3.5, part 3: a modulus that jumps at 0",
)
EPSILON = 1.0
HULL = "3.7"
"""The example whose own model is not convex."""
COIN = Model([0.0, 1.0])
"""The probability of a bit."""
SLACK = 1e-6
"""Accuracy of the cone programs."""


def sections(setting: Setting) -> Iterator[Section]:
    """Measure all sections."""
    yield _open(setting)
    yield _least(setting)
    yield _metrics(setting)
    yield _attained(setting)
    yield _powers(setting)
    yield one_bit_scope(TITLES[5], setting)
    yield theorem_scope(TITLES[6], setting)
    yield discontinuity(TITLES[7], setting)


# Satz 2.2


@dataclass(frozen=True, slots=True)
class _Size:
    """Bounds and the measured risk of an estimator from n open records."""

    n: int
    lower: ChannelLowerBound
    upper: ChannelUpperBound
    measured: Mean
    exact: float
    pair: float
    """The lower bound of the document's own model: that of two members where it is not convex."""


def _of(example: OpenExample, setting: Setting) -> list[_Size]:
    found = []
    for n in setting.sized(*example.sizes):
        model, replicates = example.model(n), setting.sized(20_000, 2000)
        errors = example.errors(n, replicates, setting.stream("minimax-bounds", example.name, n))
        bounds = channel_lower_bound(model, n=n), channel_upper_bound(model, n=n)
        own = bounds[0].value if example.pair is None else example.pair(n)
        found.append(_Size(n, *bounds, mean_of(errors**2), example.risk(n), own))
    return found


def _open(setting: Setting) -> Section:
    every = {name: _of(example, setting) for name, example in OPEN_EXAMPLES.items()}
    panels, slopes, orders = [], [], []
    for name, sizes in every.items():
        n, exponent = floats(size.n for size in sizes), OPEN_EXAMPLES[name].exponent
        series = (
            Series(
                "estimator, measured",
                n,
                floats(s.measured.value for s in sizes),
                floats(s.measured.stderr for s in sizes),
                "measured",
                "points",
            ),
            Series("lower bound", n, floats(s.pair for s in sizes), None, "theory"),
            *([] if name != HULL else [Series("lower bound of mixtures", n, floats(s.lower.value for s in sizes), None, "second")]),
            Series("upper bound ÷ C₀", n, floats(s.upper.value / s.upper.C0 for s in sizes), None, "second theory"),
        )
        panels.append(Panel("records n", "squared risk", series, title=f"Beispiel {name}"))
        theory = [float(x) ** exponent for x in n]
        slopes.append(compared(f"Beispiel {name}", "n", n, [s.measured for s in sizes], theory, [s.exact for s in sizes]))
        ratios = [s.upper.value / s.upper.C0 / s.lower.value for s in sizes]
        orders.append(max(ratios) / min(ratios))
    every_size = [size for sizes in every.values() for size in sizes]
    off = max(abs(size.measured.value - size.exact) / size.measured.stderr for size in every_size)
    above = min((size.measured.value + 5 * size.measured.stderr) / size.lower.value for size in every["3.6 B"])
    relative = [[size.measured.value / size.pair for size in sizes] for sizes in every.values()]
    changes = max(max(ratios) / min(ratios) for ratios in relative)
    mixed, _ = log_slope([size.n for size in every[HULL]], [size.lower.value for size in every[HULL]])
    tolerance = setting.sized(0.1, 0.2)
    worst = max(abs(float(slope.own or 0.0) - slope.theory) for slope in slopes)
    return Section(
        TITLES[0],
        "For a convex model and a linear, bounded functional, the minimax risk without privacy is of the order l(ω_H(n^(−1/2))) (Donoho & "
        "Liu). By Bemerkung 3.11 a this follows from Satz 3.10 for the channel that keeps the record, without a condition on ω_H.",
        "Beispiele 3.6 to 3.8 with open records: "
        + "; ".join(f"{name}: {example.estimator}" for name, example in OPEN_EXAMPLES.items())
        + ". The models are on grids that become finer with n; bounds are those of `channel_lower_bound` and `channel_upper_bound`.",
        (
            Figure(
                "Squared risks from open records, measured, and the bounds of the model; the upper one without its constant C₀.",
                tuple(panels),
            ),
        ),
        tuple(slopes),
        (
            Check(
                "the ratio of both bounds does not depend on n",
                f"changes by a factor of {max(orders):.3f} or less",
                "1.3",
                max(orders) <= 1.3,
                "identity",
            ),
            Check(
                "the worst risk of the mean is at least the lower bound",
                f"{above:.3g} times it or more",
                "1, with 5 standard errors",
                above >= 1,
            ),
            Check(
                "mixtures of uniform distributions have the order 1/n and not 1/n²",
                f"slope {mixed:.2f} of the lower bound".replace("-", "−"),
                "−1, within 0.1",
                abs(mixed + 1) <= 0.1,
                "identity",
            ),
            Check(
                "measured risks have the order of the lower bounds",
                f"their ratio changes by a factor of {changes:.2f} or less",
                "2",
                changes <= 2,
            ),
            Check("measured risks agree with the exact ones", f"at most {off:.1f} standard errors off", "5", off < 5),
            Check(
                "slopes of the exact risks are near −1, −2, −4/5 and −2/5", f"at most {worst:.3f} off", f"{tolerance:g}", worst <= tolerance
            ),
        ),
        "With privacy at any fixed ε the exponents are −½, −1, −2/3 and −1/3 (the sections on Beispiele 3.6 to 3.8). Satz 2.2 is about "
        "convex models, and the uniform distributions of Beispiel 3.7 are none: their lower bound is that of two members, of order "
        "1/n², while their mixtures have a modulus of order ε and a risk of order 1/n, private or not. The estimators are those of "
        "textbooks. For the mean, the distribution is the worst one; for densities it is an easy one.",
    )


# Satz 3.1


def _least_risk(n: int, slope: float, grid: int) -> tuple[float, float]:
    """The least worst squared risk of θ of a coin over estimators on a grid, by a linear program: among members of the grid, and all."""
    places = np.linspace(0.0, 1.0, grid)
    counts = np.arange(n + 1)
    laws = np.asarray(stats.binom.pmf(counts[None], n, (0.5 + slope * (places - 0.5))[:, None]))
    errors = (places[:, None] - places[None]) ** 2
    rows = np.hstack([(laws[:, :, None] * errors[:, None, :]).reshape(grid, -1), -np.ones((grid, 1))])
    whole = np.hstack([np.kron(np.eye(n + 1), np.ones((1, grid))), np.zeros((n + 1, 1))])
    cost = np.append(np.zeros((n + 1) * grid), 1.0)
    solved = np.asarray(linprog(cost, A_ub=rows, b_ub=np.zeros(grid), A_eq=whole, b_eq=np.ones(n + 1)).x)
    rule = solved[:-1].reshape(n + 1, grid)
    fine = np.linspace(0.0, 1.0, 1001)
    law = np.asarray(stats.binom.pmf(counts[None], n, (0.5 + slope * (fine - 0.5))[:, None]))
    risks = (law @ rule * (fine[:, None] - places[None]) ** 2).sum(axis=1)
    return float((laws @ rule * errors).sum(axis=1).max()), float(risks.max())


def _misstated(bound: ChannelLowerBound, response: local.BinaryResponse, n: int) -> float:
    """How far a bound is, relatively, from l(½Δ) η/2 of its own pair, with η by enumeration of the counts."""
    laws = [stats.binom.pmf(np.arange(n + 1), n, float(p @ response.channel()[:, 1])) for p in (bound.p0, bound.p1)]
    eta, difference = float(np.minimum(*laws).sum()), float((bound.p1 - bound.p0) @ COIN.f)
    return abs(bound.value / ((difference / 2) ** 2 * eta / 2) - 1)


def _majority_off(response: local.BinaryResponse, n: int) -> float:
    """How far the error of the majority about θ = 0 or 1 is from half of the testing affinity of the two, ties at random."""
    law = stats.binom.pmf(np.arange(n + 1), n, float(response.channel()[1, 1]))
    wrong = float(law[2 * np.arange(n + 1) < n].sum() + law[2 * np.arange(n + 1) == n].sum() / 2)
    bounds = reports_testing_affinity(COIN, response, difference=1.0, n=n)
    return max(abs(wrong - bounds.lower / 2), wrong - bounds.upper / 2)


def _least(setting: Setting) -> Section:
    sizes = setting.sized((1, 2, 4, 8, 16, 32), (1, 4, 16))
    channels = {"ε = 1": local.BinaryResponse(1.0), "ε = 3": local.BinaryResponse(3.0)}
    found = {name: [channel_lower_bound(COIN, channel, n=n) for n in sizes] for name, channel in channels.items()}
    least = {
        name: [_least_risk(n, float(np.ptp(channel.channel()[:, 0])), setting.sized(31, 21))[1] for n in sizes]
        for name, channel in channels.items()
    }
    n = floats(sizes)
    series = []
    for name, role, line in (("ε = 1", "measured", "theory"), ("ε = 3", "second", "second theory")):
        series += [
            Series(f"least risk, {name}", n, floats(least[name]), None, "measured" if role == "measured" else "second", "points"),
            Series(
                f"lower bound, {name}",
                n,
                floats(bound.value for bound in found[name]),
                None,
                "theory" if line == "theory" else "second theory",
            ),
        ]
    ratios = [bound.value / risk for name in channels for bound, risk in zip(found[name], least[name], strict=True)]
    stated = max(_misstated(found[name][i], channel, n) for name, channel in channels.items() for i, n in enumerate(sizes))
    sharp = max(_majority_off(channel, n) for channel in channels.values() for n in sizes)
    # The twin takes η of one report for n of them: the difference that one report hides.
    far = indistinguishable_difference(COIN, channels["ε = 1"], eta=0.5, n=1).value
    twin = (far / 2) ** 2 * 0.25 / least["ε = 1"][-1]
    return Section(
        TITLES[1],
        "For every channel Q, private or not, and every η, the minimax risk behind Q is at least l(½Δ_A(Q, η)) η/2. Here Δ_A is how far "
        "the values of θ may differ while no test of the reports has a sum of errors of η or less.",
        "The probability θ of a bit, from n one-bit reports. The least worst-case risk of all estimators, randomised ones included, is "
        "found by linear programming on a grid of values, and evaluated at 1,001 values of θ.",
        (
            Figure(
                "Least worst-case risk behind a given channel, and its lower bound.", (Panel("reports n", "squared risk", tuple(series)),)
            ),
        ),
        (),
        (
            Check(
                "no estimator goes below the bound",
                f"the bound is {max(ratios):.3f} of the least risk or less",
                "1",
                max(ratios) <= 1,
                "identity",
            ),
            Check("the bound is of the right size", f"{min(ratios):.3f} of it or more", "0.05", min(ratios) >= 0.05, "identity"),
            Check(
                "each bound is l(½Δ) η/2 for the testing affinity η of the reports of its pair",
                f"relatively {scientific(stated)} off",
                "10⁻⁶",
                stated <= SLACK,
                "identity",
            ),
            Check(
                "the majority of the reports errs by Δ = ½ or more with probability ½η_A(2Δ): the ½ of (3.1.1) is sharp",
                f"at most {scientific(sharp)} off",
                "10⁻⁹",
                sharp <= 1e-9,
                "identity",
            ),
            Check("η of a single report would be too much", f"{twin:.2f} of the least risk", "more than 1", twin > 1, "identity"),
        ),
        "The bound comes from two members alone, so it is the smaller bound with Δ₂ of the document. It loses a factor of two to five "
        "by Markov’s inequality, and because two members are easier than all. Nothing is lost in the probability of a large error.",
    )


# Lemma 3.2


def _family() -> Array:
    """Distributions on −1, 0, 1 in steps of ⅛."""
    return np.array([(a, 8 - a - b, b) for a in range(9) for b in range(9 - a)]) / 8


def _metrics(setting: Setting) -> Section:
    members, f, n = _family(), np.array([-1.0, 0.0, 1.0]), setting.sized(4, 2)
    matrix = local.KaryResponse(1.5, k=3).channel()
    counts = np.array([c for c in itertools.product(range(n + 1), repeat=3) if sum(c) == n])
    laws = np.array([stats.multinomial.pmf(counts, n, q) for q in members @ matrix])
    errors = np.minimum(laws[:, None], laws[None]).sum(axis=2)
    apart = np.abs(members @ f - (members @ f)[:, None])
    metrics = {"total variation": tv(members[:, None], members[None]), "Hellinger": hellinger(members[:, None], members[None])}
    etas = np.linspace(0.05, 0.95, setting.sized(19, 10))
    hidden = [float(apart[errors > eta].max()) for eta in etas]
    found: dict[str, list[float]] = {name: [] for name in metrics}
    twin = 0
    for name, distances in metrics.items():
        table = np.asarray(distances)
        for eta, most in zip(etas, hidden, strict=True):
            within = errors <= eta
            g = float(table[within].min()) if within.any() else math.inf
            found[name].append(float(apart[table < g - 1e-12].max(initial=0.0)))
            twin += bool(within.any() and apart[table <= 2 * g].max() > most + 1e-12)
    whole = Model(f)
    upper = [indistinguishable_difference(whole, matrix, eta=float(eta), n=n).upper for eta in etas]
    below = max(value - most for values in found.values() for value, most in zip(values, hidden, strict=True))
    above = max(most - most_of_all for most, most_of_all in zip(hidden, upper, strict=True))
    x = floats(etas)
    series = (
        Series("Δ₂(η), by enumeration", x, floats(hidden), None, "measured", "points"),
        Series("ω(g⁻), Hellinger distance", x, floats(found["Hellinger"]), None, "second", "points"),
        Series("ω(g⁻), total variation", x, floats(found["total variation"]), None, "theory"),
        Series("upper bound of Δ for hulls", x, floats(upper), None, "second theory"),
    )
    return Section(
        TITLES[2],
        "Let g be the least distance, in any metric, of two members whose reports some test distinguishes with a sum of errors of η or "
        "less. Then the modulus of θ just below g is at most Δ₂(η) ≤ Δ_A(η): closer members cannot be distinguished.",
        f"All {len(members)} distributions on three points in steps of ⅛, n = {n} reports of a 3-ary response at ε = 1.5. The errors "
        "of the best test of each pair are summed over all counts. The convex model has an upper bound of Δ_A by Lemma 3.17.",
        (Figure("How much θ can differ while no test has a sum of errors of η or less.", (Panel("η", "difference of θ", series, ""),)),),
        (),
        (
            Check(
                "ω(g⁻) is at most Δ₂(η), for both metrics and every η",
                f"at most {scientific(max(below, 0.0))} above",
                "0",
                below <= 1e-12,
                "identity",
            ),
            Check(
                "Δ₂(η) is at most the bound of Δ_A(η)", f"at most {scientific(max(above, 0.0))} above", "10⁻⁶", above <= SLACK, "identity"
            ),
            Check("at twice the distance g it fails", f"for {twin} of {2 * len(etas)}", "1 or more", twin >= 1, "identity"),
        ),
        "`lower_bound` uses distances g that hold for every private channel (Satz 3.3), `indistinguishable_radius` one for the given "
        "channel.",
    )


# Satz 3.10


def _attained(setting: Setting) -> Section:
    model = Model.moment(np.linspace(-4.0, 4.0, 17), kappa=2.0, C=1.0)
    sizes = setting.sized((100, 1000, 10_000), (100, 10_000))
    f = np.asarray(model.f)
    outcomes = np.digitize(f, [-0.75, 0.75])
    named = {
        "the best bit": None,
        "the sign of a record": local.BinaryChannel(EPSILON, tuple(np.sign(f).tolist())),
        "three outcomes": local.KaryResponse(EPSILON, k=3).channel()[outcomes],
    }
    panels, proven, order, lowest = [], [], [], []
    for name, channel in named.items():
        used = [optimal_channel(model, EPSILON, n=n).channel if channel is None else channel for n in sizes]
        uppers = [channel_upper_bound(model, each, n=n) for each, n in zip(used, sizes, strict=True)]
        lowers = [channel_lower_bound(model, each, n=n) for each, n in zip(used, sizes, strict=True)]
        risks = [BinarySearchEstimator(model, each, n=n, step="tuned").risk_bound() for each, n in zip(used, sizes, strict=True)]
        n = floats(sizes)
        series = (
            Series("binary search, proven", n, floats(risks), None, "measured", "points"),
            Series("lower bound", n, floats(bound.value for bound in lowers), None, "theory"),
            Series("upper bound", n, floats(bound.value for bound in uppers), None, "second theory"),
        )
        panels.append(Panel("reports n", "squared risk", series, title=name))
        proven += [risk / bound.value for risk, bound in zip(risks, uppers, strict=True)]
        lowest += [risk / bound.value for risk, bound in zip(risks, lowers, strict=True)]
        order += [bound.value / bound.C0 / low.value for bound, low in zip(uppers, lowers, strict=True)]
    constant = channel_upper_bound(model, n=sizes[0]).C0
    return Section(
        TITLES[3],
        "For a convex model, a linear and bounded functional, a regular loss and any channel, some estimator has a risk of at most "
        "C₀ l(ω_H(n^(−1/2))), with the Hellinger modulus ω_H of the reports and a constant that only depends on the loss.",
        "The mean of numbers with E x² ≤ 1 on 17 points, behind three channels at ε = 1: the best bit of Satz 3.13, the sign, and a 3-ary "
        "response to low, middle and high. The binary search of tests is run behind each, and its proven risk shown.",
        (Figure("Proven risk of a binary search behind three channels, between the bounds of each.", tuple(panels)),),
        (),
        (
            Check("the search attains the theorem", f"{scientific(max(proven))} of the bound or less", "1", max(proven) <= 1, "identity"),
            Check("its risk is at least the lower bound", f"{min(lowest):.3g} times it or more", "1", min(lowest) >= 1, "identity"),
            Check(
                "l(ω_H) and the lower bound have one order",
                f"between {min(order):.3g} and {max(order):.3g} times it",
                "factor 40",
                max(order) / min(order) <= 40,
                "identity",
            ),
        ),
        f"C₀ is {constant:,.0f}, and only the proof needs it. The sign and the three outcomes hide sizes, so their moduli and risks "
        "stay large: the theorem is about the given channel, and a bad channel has no good estimator.",
    )


# Lemma 3.17


def _powers(setting: Setting) -> Section:
    response, sizes = local.BinaryResponse(EPSILON), setting.sized((1, 10, 100, 1000), (1, 100))
    slope = float(np.ptp(response.channel()[:, 0]))
    panels, gaps, below, halved = [], [], [], []
    for n in sizes:
        differences = np.linspace(0.0, min(1.0, 8 / math.sqrt(n)), setting.sized(13, 7))[1:]
        bounds = [reports_testing_affinity(COIN, response, difference=float(d), n=n) for d in differences]
        exact = [_hardest(n, slope, float(d)) for d in differences]
        gaps += [value - bound.upper for value, bound in zip(exact, bounds, strict=True)]
        below += [bound.lower - value for value, bound in zip(exact, bounds, strict=True)]
        halved += [
            value - (2 * bound.upper ** (1 / n) - 1) ** n
            for value, bound in zip(exact, bounds, strict=True)
            if 2 * bound.upper ** (1 / n) > 1
        ]
        x = floats(differences)
        series = (
            Series("testing affinity of hulls", x, floats(exact), None, "measured", "points"),
            Series("bound of Lemma 3.17", x, floats(bound.upper for bound in bounds), None, "theory"),
            Series("from two members", x, floats(bound.lower for bound in bounds), None, "second theory"),
        )
        panels.append(Panel("Δ", "sum of errors", series, "", (0.0, 1.05), f"n = {n:,}"))
    above, under, without = max(gaps), max(below), max(halved)
    return Section(
        TITLES[4],
        "For a convex model, a linear functional and independent reports of one channel, η_A(Δ), the largest testing affinity of hulls "
        "of n reports of θ ≤ t and of θ ≥ t + Δ, is at most the largest (1 − ½d_H²)ⁿ of the reports of two members that are Δ apart.",
        "The probability θ of a bit behind a one-bit response at ε = 1. Behind one bit the closest members are least favourable for "
        "the whole hulls, so η_A is a maximum over t of sums of binomial probabilities.",
        (Figure("Testing affinity of n reports, and its bound by the affinity of one.", tuple(panels)),),
        (),
        (
            Check("η_A(Δ) is at most the bound", f"at most {scientific(max(above, 0.0))} above", "10⁻⁹", above <= 1e-9, "identity"),
            Check("two members prove a lower bound", f"at most {scientific(max(under, 0.0))} above", "10⁻⁹", under <= 1e-9, "identity"),
            Check(
                "without the factor ½ the bound is false",
                f"η_A is up to {without:.2g} above (1 − d_H²)ⁿ",
                "above 0",
                without > 0,
                "identity",
            ),
        ),
        "The bound loses only a polynomial factor in n: its exponent is right. It proves the errors of every test of the binary "
        "search, and so the upper bounds of Lemma 3.16 and Satz 3.10.",
    )


def _hardest(n: int, slope: float, difference: float) -> float:
    """η_A of n one-bit reports about a coin, over a grid of t that holds the least and the greatest."""
    starts = np.linspace(0.0, 1.0 - difference, 41)
    shares = [0.5 + slope * (theta - 0.5) for theta in (starts, starts + difference)]
    laws = [np.asarray(stats.binom.pmf(np.arange(n + 1)[None], n, share[:, None])) for share in shares]
    return float(np.minimum(laws[0], laws[1]).sum(axis=1).max())


STUDY = Study(
    "minimax-bounds",
    "Bounds for a given channel and for open records.",
    TITLES,
    sections,
    ("minimax", "clarabel"),
)
