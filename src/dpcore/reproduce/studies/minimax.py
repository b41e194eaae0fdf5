"""Steinberger (2019), chapter 3: estimation under local privacy, its bounds, and the binary search of tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore.local import BinaryChannel
from dpcore.minimax import OptimalChannel, UpperBound, modulus_hellinger, modulus_tv, optimal_channel, upper_bound
from dpcore.reproduce.estimates import Mean, compared
from dpcore.reproduce.minimax_examples import EXAMPLES, Case, Measured, measure
from dpcore.reproduce.regions import scientific
from dpcore.reproduce.registry import Study
from dpcore.reproduce.results import Check, Figure, Panel, Section, Series, Slope, floats
from dpcore.reproduce.searches import intervals, tails, trace
from dpcore.reproduce.setting import Setting

if TYPE_CHECKING:
    from dpcore.minimax import BinarySearchEstimator, LinearOnModel

EPSILON = 1.0
"""α of the document."""
TITLES = (
    "Steinberger (2019), Abbildung 3.1: the intervals of a binary search of tests",
    "Steinberger (2019), Abbildung 3.2: the course of a binary search of tests",
    "Steinberger (2019), Beispiel 3.6 A: the mean of bounded numbers",
    "Steinberger (2019), Beispiel 3.6 B: the mean of numbers with heavy tails",
    "Steinberger (2019), Beispiel 3.7: the end of a uniform distribution",
    "Steinberger (2019), Beispiel 3.8, density: a smooth density at a point",
    "Steinberger (2019), Beispiel 3.8, derivative: the derivative of a smooth density at a point",
    "Steinberger (2019), Satz 3.13: the best bit of a record",
    "Steinberger (2019), Lemma 3.16: how often a binary search errs by how much",
)
STATEMENTS = {
    "3.6 A": "If f is bounded, ω_TV(η) is of order η. The squared risk is of order 1/n with privacy and without, so privacy costs a "
    "constant factor.",
    "3.6 B": "Over all distributions with E|x|^κ ≤ C, ω_TV(η) is at least (C/2)^(1/κ) η^((κ−1)/κ). With privacy no estimator has a risk of "
    "smaller order than n^(−(κ−1)/κ). For κ = 2 this is n^(−1/2); without privacy it is 1/n.",
    "3.7": "Without privacy the largest observation estimates ϑ with a risk of order 1/n². But ω_TV(η) ≥ η, and with privacy no risk is of "
    "smaller order than 1/n.",
    "3.8, m = 0": "For densities of the Hölder class H(β, C), ω_TV(η) is at least of order η^((β−m)/(β+1)) for the m-th derivative at a "
    "point. With β = 2 and m = 0 the risk is of order n^(−2/3); without privacy it is n^(−4/5).",
    "3.8, m = 1": "Higher derivatives have larger risks: with β = 2 and m = 1 the risk is of order n^(−1/3); without privacy it is "
    "n^(−2/5).",
}
BOUNDS = (
    " Korollar 3.4 bounds the risk of every private method from below, and by Korollar 3.14 a one-bit channel and a binary search have "
    "at most C₀ l(ω_TV)."
)
UNITS = {-1.0: "n", -1 / 2: "√n", -2 / 3: "n^⅔", -1 / 3: "n^⅓"}
"""Factors that remove the rate from a risk."""
LINEAR, SEARCH = "linear estimator", "tuned binary search"
SHOWN = 1000
"""Number of reports for the plots of functions."""
TOLERANCE = 0.05
"""Tolerance of slopes."""
NEAR_THE_LINE = 1e-3
"""How far a modulus on a grid may be below that on the line, relatively: the grid need not hold the largest value."""
SLACK = 1e-6
"""Relative tolerance of certificates: the accuracy of the linear programs."""


def sections(setting: Setting) -> Iterator[Section]:
    """Measure all sections."""
    yield intervals(TITLES[0], setting)
    yield trace(TITLES[1], setting)
    for title, name in zip(TITLES[2:7], EXAMPLES, strict=True):
        yield _example(title, name, setting)
    yield _certificates(setting)
    yield tails(TITLES[8], setting)


# Beispiele 3.6 to 3.8


@dataclass(frozen=True, slots=True)
class _Size:
    """Computed and measured risks at one n."""

    n: int
    lower: float
    upper: UpperBound
    linear: Measured
    search: Measured


def _measured(name: str, n: int, setting: Setting) -> _Size:
    case, replicates = Case(EXAMPLES[name], n, EPSILON), setting.sized(200_000, 50_000)

    def at_worst(estimator: LinearOnModel | BinarySearchEstimator, kind: str) -> Measured:
        return measure(estimator, rng=setting.stream("minimax", name, n, kind), replicates=replicates)

    upper = upper_bound(case.model, EPSILON, n=n, loss="squared")
    found = at_worst(case.linear, LINEAR), at_worst(case.search, SEARCH)
    return _Size(n, case.lower_bound, upper, *found)


def _example(title: str, name: str, setting: Setting) -> Section:
    sizes = [_measured(name, n, setting) for n in setting.sized((2000, 10_000, 50_000), (1000, 4000))]
    replicates = sizes[0].linear.risk.replicates
    example = EXAMPLES[name]
    return Section(
        title,
        STATEMENTS[name] + BOUNDS,
        f"The parameter is {example.title}, on a grid that is finer and wider for larger n; ε = 1. For both estimators, a search "
        f"finds the worst distribution of the model, and {replicates:,} data sets of n reports are drawn from it. The linear estimator is "
        "the mean of one-bit reports of truncated values or of a kernel. The binary search uses reports of the optimal channel, with the "
        "step that has the least proven risk.",
        (_risks(example.exponent, sizes),),
        _slopes(example.exponent, sizes),
        (*_between(sizes), _as_computed(sizes), _near_theory(example.exponent, sizes, setting), *_modulus(name)),
        f"C₀ is {sizes[0].upper.C0:,.0f} for squared loss. Only the proof needs this constant: the proven risk of the estimator "
        f"is within {_excess(sizes):.1f} % of the worst risk that was found.",
    )


def _excess(sizes: Sequence[_Size]) -> float:
    return 100 * max(found.bound / found.worst.risk - 1 for size in sizes for found in (size.linear, size.search))


def _risks(exponent: float, sizes: Sequence[_Size]) -> Figure:
    n = floats(size.n for size in sizes)
    measured = [
        Series(LINEAR, n, floats(size.linear.risk.value for size in sizes), floats(size.linear.risk.stderr for size in sizes), "measured"),
        Series(SEARCH, n, floats(size.search.risk.value for size in sizes), floats(size.search.risk.stderr for size in sizes), "second"),
    ]
    bounds = [
        Series(f"{LINEAR}, proven", n, floats(size.linear.bound for size in sizes), None, "third", "points"),
        Series(f"{SEARCH}, proven", n, floats(size.search.bound for size in sizes), None, "fourth", "points"),
    ]
    theory = [
        Series("lower bound, Korollar 3.4", n, floats(size.lower for size in sizes), None, "theory"),
        Series("upper bound, Korollar 3.14", n, floats(size.upper.value for size in sizes), None, "second theory"),
    ]
    scaled = [
        Series(
            each.name,
            n,
            floats(y * x**-exponent for x, y in zip(each.x, each.y, strict=True)),
            None if each.stderr is None else floats(y * x**-exponent for x, y in zip(each.x, each.stderr, strict=True)),
            each.role,
            each.form,
        )
        for each in (*measured, *bounds)
    ]
    panels = (
        Panel("reports n", "squared risk at worst", (*measured, *bounds, *theory)),
        Panel("reports n", f"{UNITS[exponent]} · risk", tuple(scaled), "x"),
    )
    return Figure(
        "Risks at the worst distribution, measured and proven, and the bounds of every private method; right: in units of the rate.", panels
    )


def _slopes(exponent: float, sizes: Sequence[_Size]) -> tuple[Slope, ...]:
    n = [float(size.n) for size in sizes]
    found = []
    for name, every in ((LINEAR, [size.linear for size in sizes]), (SEARCH, [size.search for size in sizes])):
        means = [Mean(each.risk.value, each.risk.stderr) for each in every]
        found.append(compared(name, "n", n, means, [x**exponent for x in n], [each.worst.risk for each in every]))
    return tuple(found)


def _between(sizes: Sequence[_Size]) -> tuple[Check, ...]:
    every = [(size, found) for size in sizes for found in (size.linear, size.search)]
    above = min((found.risk.value + 4 * found.risk.stderr) / size.lower for size, found in every)
    below = max((found.risk.value - 4 * found.risk.stderr) / found.bound for _, found in every)
    proven = max(size.search.bound / size.upper.value for size in sizes)
    return (
        Check("measured risks are at least the lower bound", f"{above:.3g} times it or more", "1, with 4 standard errors", above >= 1),
        Check(
            "measured risks are at most the proven risk of the estimator",
            f"{below:.4f} of it or less",
            "1, with 4 standard errors",
            below <= 1,
        ),
        Check(
            "the proven risk of the search is at most the upper bound", f"{scientific(proven)} of it or less", "1", proven <= 1, "identity"
        ),
    )


def _as_computed(sizes: Sequence[_Size]) -> Check:
    """Whether simulation and the sum over all counts agree."""
    every = [found for size in sizes for found in (size.linear, size.search)]
    worst = max(abs(found.risk.value - found.worst.risk) / found.risk.stderr for found in every)
    return Check(
        "measured risks agree with those computed from binomial probabilities", f"at most {worst:.1f} standard errors off", "5", worst < 5
    )


def _near_theory(exponent: float, sizes: Sequence[_Size], setting: Setting) -> Check:
    tolerance = setting.sized(TOLERANCE, 3 * TOLERANCE)
    worst = max(abs(slope.measured - exponent) for slope in _slopes(exponent, sizes))
    return Check("both slopes agree with the theory", f"at most {worst:.3f} off", f"{tolerance:g}", worst <= tolerance)


MODULI: dict[str, tuple[Callable[[float], float], Callable[[float], float] | None]] = {
    "3.6 A": (lambda radius: radius, lambda radius: 2 * radius),
    "3.6 B": (lambda radius: math.sqrt(radius / 2), lambda radius: 2 * math.sqrt(radius)),
    "3.7": (lambda radius: radius, None),
}
"""What the document proves that ω_TV is at least, and ω_TV on the line where it has a formula: each part of mass η has second moment C."""


def _modulus(name: str) -> tuple[Check, ...]:
    """Compare ω_TV with the document's Behauptung at radii that the grids hold."""
    if name not in MODULI:
        return ()
    model, (claimed, exact), radii = Case(EXAMPLES[name], 10_000, EPSILON).model, MODULI[name], (0.25, 0.2, 0.1)
    found = [modulus_tv(model, radius) for radius in radii]
    least = min(each.value / claimed(radius) for each, radius in zip(found, radii, strict=True))
    checks = [Check("ω_TV is at least what the document claims", f"{least:.4f} times that or more", "1", least >= 1 - SLACK, "identity")]
    if exact is not None:
        off = max(abs(each.value / exact(radius) - 1) for each, radius in zip(found, radii, strict=True))
        above = max(each.upper / exact(radius) for each, radius in zip(found, radii, strict=True))
        formula = "2η" if name == "3.6 A" else "2√η"
        holds = off <= NEAR_THE_LINE and above <= 1 + SLACK
        checks.append(
            Check(f"on the line it is {formula}", f"{scientific(off)} off at most, never above", f"{NEAR_THE_LINE:g}", holds, "identity")
        )
    return tuple(checks)


# Satz 3.13


@dataclass(frozen=True, slots=True)
class _Certified:
    """An optimal channel, and ω_H of the reports of three channels, relative to ω_TV(η)."""

    case: Case
    found: OptimalChannel
    optimal: float
    linear: float
    sign: float


def _certified(name: str, n: int) -> _Certified:
    case = Case(EXAMPLES[name], n, EPSILON)
    found = optimal_channel(case.model, EPSILON, n=n)
    f, middle = case.model.f, sum(case.model.theta_range) / 2
    sign = BinaryChannel(EPSILON, tuple(np.where(f >= middle, 1.0, -1.0).tolist()))
    channels = found.channel, case.linear.channel, sign
    hidden = [modulus_hellinger(case.model, n**-0.5, channel=channel).value / found.certificate.modulus for channel in channels]
    return _Certified(case, found, *hidden)


def _certificates(setting: Setting) -> Section:
    sizes = setting.sized((100, 1000, 10_000), (100, 1000))
    every = {name: [_certified(name, n) for n in sizes] for name in EXAMPLES}
    return Section(
        TITLES[7],
        "For each n there is a function φ with values in [−1, 1] such that one-bit reports, ±z₀ with probability (1 ± φ(x)/z₀)/2, "
        "separate the members of the model as well as one bit can: ω_H of the reports at n^(−1/2) is at most ω_TV of the records at "
        "η = n^(−1/2)(e^ε + 1)/(e^ε − 1). The document proves that φ exists; the dual of a linear program computes it.",
        f"The five examples at n = {', '.join(f'{n:,}' for n in sizes)}. The certificate is Φ_φ(2η), the largest change of θ while "
        "E φ changes by at most 2η, bounded from above by weak duality. ω_H of reports is computed by cone programming, also for two other "
        "channels: that of the linear estimator, and a φ that is the sign of f minus the middle of the range of θ.",
        (_moduli_figure(every), _functions_figure(every)),
        (),
        _certificate_checks(every),
        "For reports that are nearly fair coins, the Hellinger distance and the total variation are nearly equal, so ω_H reaches its "
        "bound. For the mean of heavy tails, the optimal φ is the clipped line of the linear estimator. For a density at a point, it "
        "weights the neighbourhood of the point, as a kernel does.",
    )


def _moduli_figure(every: dict[str, list[_Certified]]) -> Figure:
    panels = []
    for name in ("3.6 B", "3.7", "3.8, m = 0"):
        cases = every[name]
        n = floats(each.case.n for each in cases)
        series = (
            Series("Φ_φ(2η), optimal φ", n, floats(each.found.certificate.ratio for each in cases), None, "measured", "points"),
            Series("ω_H of its reports", n, floats(each.optimal for each in cases), None, "second", "points"),
            Series("ω_H, the linear estimator's φ", n, floats(each.linear for each in cases), None, "third"),
            Series("ω_H, φ a sign", n, floats(each.sign for each in cases), None, "fourth"),
            Series("ω_TV(η) of the records", n, (1.0,) * len(n), None, "theory"),
        )
        panels.append(Panel("reports n", "change of θ ÷ ω_TV(η)", series, title=f"Beispiel {name}"))
    return Figure("Largest change of θ that one-bit reports do not show at n^(−1/2), relative to that of the records at η.", tuple(panels))


def _functions_figure(every: dict[str, list[_Certified]]) -> Figure:
    panels = []
    for name in ("3.6 B", "3.8, m = 0"):
        each = next(case for case in every[name] if case.case.n == SHOWN)
        points = np.asarray(each.case.model.points, np.float64)
        tilt = np.asarray(each.case.linear.channel)[:, 1] - 0.5
        near = np.abs(points) <= 2.5 * np.abs(points[np.abs(tilt) < np.abs(tilt).max() * (1 - 1e-9)]).max(initial=0.8)
        x, chosen = floats(points[near]), np.asarray(each.found.channel.phi)[near]
        series = (
            Series("optimal φ", x, floats(chosen), None, "measured", "points"),
            Series("the linear estimator's φ", x, floats((tilt / np.abs(tilt).max())[near]), None, "theory"),
        )
        panels.append(Panel("record x", "φ(x)", series, "", (-1.1, 1.1), f"Beispiel {name}, n = {each.case.n:,}"))
    return Figure("The function φ, which determines the bit of a report from a record.", tuple(panels))


def _certificate_checks(every: dict[str, list[_Certified]]) -> tuple[Check, ...]:
    cases = [case for column in every.values() for case in column]
    ratio = max(case.found.certificate.ratio for case in cases)
    seen = max(case.optimal for case in cases)
    return (
        Check(
            f"Φ_φ(2η) equals ω_TV(η) for all {len(cases)} channels",
            f"at most {scientific(max(ratio - 1, 0.0))} above it, relatively",
            "10⁻⁶",
            ratio <= 1 + SLACK,
            "identity",
        ),
        Check("ω_H of the reports is at most ω_TV(η)", f"{seen:.4f} of it or less", "1", seen <= 1 + SLACK, "identity"),
    )


STUDY = Study(
    "minimax", "Estimation under local privacy: bounds, risks and the binary search of tests.", TITLES, sections, ("minimax", "clarabel")
)
