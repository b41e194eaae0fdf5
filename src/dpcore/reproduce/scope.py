"""Steinberger (2019), Satz 3.13, Korollar 3.14 and Aufgabe 3.5: what the theorems do not say, and from which sample size on they help."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpcore import local
from dpcore.minimax import BinarySearchEstimator, Model, modulus_hellinger, modulus_tv, optimal_channel, upper_bound
from dpcore.reproduce.regions import scientific
from dpcore.reproduce.results import Check, Figure, Panel, Role, Section, Series, floats
from dpcore.reproduce.setting import Setting

Array = npt.NDArray[np.float64]
CROSSING = math.log(3) / 2
"""From here on three outcomes resolve more than any one bit."""
SLACK = 1e-6
MOST_SEARCHED = 10_000
"""Largest n at which a binary search is built."""


def one_bit_scope(title: str, setting: Setting) -> Section:
    """Compare the best one-bit channel with a 3-ary response on a model where one bit loses.

    Parameters
    ----------
    title : str
        Title of the section.
    setting : Setting
        Size of the run.
    """
    nearly, n = Model([1.0, -1.0, 0.0], A=[[0.0, 0.0, -1.0]], b=[1e-6 - 1.0]), 10**14
    epsilons = np.array(setting.sized((0.25, 0.3, 0.4, 0.5, 0.6, 0.75, 1.0, 1.5, 2.0, 3.0), (0.25, 0.5, 0.6, 1.0, 2.0)))
    unit = math.sqrt(n)
    one, three = [], []
    for epsilon in epsilons.tolist():
        one.append(optimal_channel(nearly, epsilon, n=n).certificate.modulus * unit)
        three.append(modulus_hellinger(nearly, n**-0.5, channel=local.KaryResponse(epsilon, k=3)))
    e = np.exp(epsilons)
    theory = 2 * (e + 1) / (e - 1), 2 * np.sqrt(2 * (e + 2)) / (e - 1)
    x = floats(epsilons)
    upper = [found.upper * unit for found in three]
    off = max(
        float(np.abs(np.array(found) / line - 1).max()) for found, line in ((one, theory[0]), ([t.value * unit for t in three], theory[1]))
    )
    wins = [better < bit for better, bit in zip(upper, one, strict=True)]
    right = all(win == (epsilon > CROSSING) for win, epsilon in zip(wins, epsilons.tolist(), strict=True))
    best = max(bit / better for better, bit in zip(upper, one, strict=True))
    series = (
        Series("best bit, certified", x, floats(one), None, "measured", "points"),
        Series("3-ary response", x, floats(upper), None, "second", "points"),
        Series("best bit, formula", x, floats(theory[0]), None, "theory"),
        Series("3-ary response, formula", x, floats(theory[1]), None, "second theory"),
    )
    ratio = (
        Series("one bit ÷ three outcomes", x, floats(b / t for b, t in zip(one, upper, strict=True)), None, "measured", "points"),
        Series("by the formulas", x, floats(theory[0] / theory[1]), None, "theory"),
    )
    return Section(
        title,
        "Satz 3.13 is about binary channels: the infimum over φ of the Hellinger modulus of one-bit reports is at most ω_TV of the "
        "records at ε(e^α + 1)/(e^α − 1). It does not say that one bit is the best private report.",
        "Three points, nearly all of the mass at the third, and θ is the difference of the first two: most records say little, and a "
        f"report that says “neither” is worth having. Certified moduli of reports at n = 10¹⁴ and {len(epsilons)} levels ε.",
        (
            Figure(
                "Difference of θ that n reports do not show, in units of n^(−1/2).",
                (Panel("ε", "√n · modulus", series, "y"), Panel("ε", "ratio", ratio, "")),
            ),
        ),
        (),
        (
            Check("moduli agree with the formulas", f"relatively {scientific(off)} off", "10⁻³", off <= 1e-3, "identity"),
            Check(
                "three outcomes are better exactly above ε = ½ ln 3",
                f"for {sum(wins)} of {len(wins)} levels",
                f"ε > {CROSSING:.3f}",
                right,
                "identity",
            ),
            Check("and by a growing factor", f"up to {best:.2f} in the error", "more than 1.4", best > 1.4, "identity"),
        ),
        "The formulas are 2(e^ε + 1)/((e^ε − 1)√n) and 2√(2(e^ε + 2))/((e^ε − 1)√n). Up to e^ε = √3 one bit is the better report even "
        "here. The order in n is the same for both; what the theorem gives up is a constant, which grows as e^(ε/2).",
    )


def theorem_scope(title: str, setting: Setting) -> Section:
    """Find the sizes from which the bound of the theorem is below the trivial one.

    Parameters
    ----------
    title : str
        Title of the section.
    setting : Setting
        Size of the run.
    """
    models = {
        "the mean, E x² ≤ 1": Model.moment(np.linspace(-4.0, 4.0, 17), kappa=2.0, C=1.0),
        "the probability of a bit": Model([0.0, 1.0]),
    }
    sizes = setting.sized(tuple(10**k for k in range(2, 15, 2)), (100, 10**4, 10**6, 10**10))
    panels, ratios, starts = [], [], {}
    for name, model in models.items():
        low, high = model.theta_range
        trivial = ((high - low) / 2) ** 2
        bounds = [upper_bound(model, 1.0, n=n) for n in sizes]
        searches = [_search_risk(model, n) for n in sizes if n <= MOST_SEARCHED]
        ratios += [risk / bound.value for risk, bound in zip(searches, bounds, strict=False)]
        starts[name] = next((n for n, bound in zip(sizes, bounds, strict=True) if bound.value < trivial), math.inf)
        n = floats(sizes)
        series = (
            Series("binary search, proven", n[: len(searches)], floats(searches), None, "measured", "points"),
            Series("bound of Korollar 3.14", n, floats(bound.value for bound in bounds), None, "theory"),
            Series("the middle of the range", n, (trivial,) * len(n), None, "second theory"),
        )
        panels.append(Panel("reports n", "squared risk", series, title=name))
    constants = {loss: upper_bound(models["the probability of a bit"], 1.0, n=100, loss=loss).C0 for loss in ("absolute", "squared")}
    huge = upper_bound(models["the probability of a bit"], 2.0**-20, n=100)
    return Section(
        title,
        "For a convex, dominated model, a linear and bounded functional and a regular loss, some private method has a risk of at most "
        "C₀ l(ω_TV(√2(e^α + 1)/((e^α − 1)√n))), for every n and α.",
        "The bound at ε = 1 for two models, beside the proven risk of a binary search behind the best bit, and the risk of an estimate "
        "that is the middle of the range, whatever the data.",
        (Figure("The theorem’s upper bound, an estimator’s proven risk, and the trivial risk.", tuple(panels)),),
        (),
        (
            Check("the search is within the theorem", f"{scientific(max(ratios))} of the bound or less", "1", max(ratios) <= 1, "identity"),
            Check(
                "the bound is below that of the middle of the range from large n on",
                ", ".join(f"{name}: n = {start:.0e}" for name, start in starts.items()),
                "above 10⁴",
                all(start > 10**4 for start in starts.values()),
                "identity",
            ),
            Check(
                "with little privacy budget it is C₀ l of the whole range",
                f"{huge.value / huge.C0:.3f}",
                "1",
                abs(huge.value / huge.C0 - 1) < SLACK,
                "identity",
            ),
        ),
        f"C₀ is {constants['squared']:,.0f} for the squared and {constants['absolute']:,.0f} for the absolute loss. The corollary "
        "gives the order of the risk. For a number that a sample size can be planned with, take `risk_bound` of an estimator.",
    )


def _search_risk(model: Model, n: int) -> float:
    return BinarySearchEstimator(model, optimal_channel(model, 1.0, n=n), n=n, step="tuned").risk_bound()


def discontinuity(title: str, setting: Setting) -> Section:
    """Show a modulus that jumps at 0 as the limit of models on finitely many points.

    Parameters
    ----------
    title : str
        Title of the section.
    setting : Setting
        Size of the run.
    """
    sizes = setting.sized((4, 16, 64, 256), (4, 16, 64))
    radii = np.geomspace(1e-4, 1.0, setting.sized(17, 9))
    found = {size: [modulus_tv(_rare(size), float(radius)) for radius in radii] for size in sizes}
    exact = {size: np.minimum(1.0, size * radii) for size in sizes}
    off = max(
        max(abs(each.value - line), abs(each.upper - line)) for size in sizes for each, line in zip(found[size], exact[size], strict=True)
    )
    outside = max(abs(_rare(size).theta_range[1] - 1) for size in sizes)
    at_zero = modulus_tv(_rare(sizes[-1]), 0.0).upper
    x = floats(radii)
    dots: tuple[Role, ...] = ("second", "measured")
    lines: tuple[Role, ...] = ("theory", "second theory")
    series = [
        Series(f"K = {size}", x, floats(each.value for each in found[size]), None, role, "points")
        for size, role in zip(sizes[-2:], dots, strict=True)
    ]
    series += [Series(f"min(1, Kε), K = {size}", x, floats(exact[size]), None, line) for size, line in zip(sizes[-2:], lines, strict=True)]
    return Section(
        title,
        "Find a convex model and a linear, bounded functional whose ω_TV is not continuous at 0. Parts 1 and 2 say that ω_TV(ε)/ε and "
        "ω_H(ε)/ε² stay away from 0, and that ω_TV is subadditive; they allow a jump.",
        "Take mixtures of P₀, a point mass at 0, and P_k = (1 − 1/k)P₀ + (1/k)δ_k for k = 1, 2, …, and θ the mean. θ(P_k) = 1 for all "
        f"k, so θ lies in [0, 1], and P_k is 1/k from P₀. Moduli of the models with k ≤ K, for K up to {sizes[-1]}.",
        (
            Figure(
                "ω_TV of the models with k ≤ K: with growing K it tends to 1 for every ε > 0, and to 0 at ε = 0.",
                (Panel("ε", "modulus", tuple(series), "x"),),
            ),
        ),
        (),
        (
            Check("ω_TV(ε) is min(1, Kε)", f"at most {scientific(off)} off", "10⁻⁸", off <= 1e-8, "identity"),
            Check("the functional stays bounded", f"largest θ at most {scientific(outside)} from 1", "10⁻⁸", outside <= 1e-8, "identity"),
            Check("at 0 the modulus is 0", scientific(at_zero), "10⁻⁸", at_zero <= 1e-8, "identity"),
        ),
        "This is Beispiel 3.6 B with κ = 1, where the exponent (κ − 1)/κ is 0: with E|x| ≤ 1 alone, no method can estimate a mean, "
        "private or not. It is also why Satz 3.13 takes the right-hand limit of ω_TV, which matters at 0 only, as ω_TV is concave.",
    )


def _rare(size: int) -> Model:
    """The hull of the P_k, on the points 0, 1, …, K."""
    k = np.arange(1, size + 1)
    vertices = np.zeros((size + 1, size + 1))
    vertices[0, 0] = 1.0
    vertices[k, 0], vertices[k, k] = 1 - 1 / k, 1 / k
    return Model.hull(np.arange(size + 1.0), vertices)
