"""Private inference (chapter 9), Section 9.3: private tests of distributions, how often they reject and how many records they need."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore.inference._lipschitz import Constants
from dpcore.inference._sample_size import ALLOWED
from dpcore.inference.distribution_tests import sample_size_needed, sign_separation
from dpcore.reproduce import private_tests
from dpcore.reproduce.draws import signs
from dpcore.reproduce.estimates import compared, share_check
from dpcore.reproduce.private_tests import DELTA, Case, Least, Share
from dpcore.reproduce.registry import Study
from dpcore.reproduce.results import Check, Figure, Panel, Role, Section, Series, Slope, floats
from dpcore.reproduce.setting import Setting
from dpcore.rng import Stream

TITLES = (
    "Private inference (chapter 9), Theorem 9.3.1: a private test of the mean of normal records",
    "Private inference (chapter 9), Theorem 9.3.2: the test by Lipschitz extension, on data that can be enumerated",
    "Private inference (chapter 9), Theorem 9.3.4, power: how often the private test of uniformity rejects",
    "Private inference (chapter 9), Theorem 9.3.4, sample size: how many records the private test of uniformity needs",
)
REJECTED = "share rejected"
ACROSS = (0.0, 1.0)
COIN = "With few records the noise dominates, and the test is a fair coin."

Array = npt.NDArray[np.float64]


def sections(setting: Setting) -> Iterator[Section]:
    """Measure all sections."""
    yield _identity(setting)
    yield _lipschitz(setting)
    yield _power(setting)
    yield _sample_size(setting)


def _shares(name: str, x: Sequence[float], found: Sequence[Share], role: Role) -> Series:
    means = [share.mean for share in found]
    return Series(name, floats(x), floats(mean.value for mean in means), floats(mean.stderr for mean in means), role)


def _line(name: str, x: Sequence[float], y: Sequence[float], role: Role) -> Series:
    return Series(name, floats(x), floats(y), None, role)


@dataclass(frozen=True, slots=True)
class _Rejections:
    """Shares of rejections under the null hypothesis and the alternative, at sizes that include `needed`."""

    case: Case
    norm: float
    needed: int
    sizes: list[int]
    null: list[Share]
    far: list[Share]

    def panel(self, title: str) -> Panel:
        """Shares, and those that noise on the mean of the statistic gives; `norm` is ‖ν‖₂ of the alternative."""
        by_noise = {norm: [self.case.by_noise(n, norm) for n in self.sizes] for norm in (self.norm, 0.0)}
        series = (
            _shares("at separation α", self.sizes, self.far, "measured"),
            _shares("null hypothesis", self.sizes, self.null, "second"),
            _line("at separation α, by noise alone", self.sizes, by_noise[self.norm], "theory"),
            _line("null hypothesis, by noise alone", self.sizes, by_noise[0.0], "second theory"),
        )
        return Panel("records n", REJECTED, series, "x", ACROSS, title)

    def errors(self) -> tuple[Check, Check]:
        """Both errors at the size where the test guarantees at most ⅓."""
        at = self.sizes.index(self.needed)
        null, far = self.null[at], self.far[at]
        where = f"d = {self.case.d}, n = {self.needed:,}"
        return (
            share_check(f"{where}: rejects the null hypothesis with probability at most ⅓", null.rejected, null.runs, ALLOWED),
            share_check(f"{where}: accepts at separation α with probability at most ⅓", far.runs - far.rejected, far.runs, ALLOWED),
        )


def _sizes(needed: int, setting: Setting) -> list[int]:
    return [round(needed * factor) for factor in setting.sized((0.25, 0.5, 0.75, 1.0, 1.5), (0.5, 1.0))]


# Theorem 9.3.1

DIMENSION = 8
ROOT: Array = np.tril(np.full((DIMENSION, DIMENSION), 0.5)) + 0.5 * np.eye(DIMENSION)
"""L of Σ = LL'."""
ALONG: dict[str, Array] = {"one axis": np.eye(DIMENSION)[0], "the diagonal": np.full(DIMENSION, 1 / math.sqrt(DIMENSION))}
"""Directions of length 1."""
LENGTHS = 0.25, 0.5, 1.0, 2.0, 4.0, 10.0
"""Lengths of means."""


def _identity(setting: Setting) -> Section:
    alpha, epsilon, runs = 1.0, 4.0, setting.sized(300, 60)
    found = _identity_rejections(alpha, epsilon, runs, setting)
    figure, kept = _sign_norms(setting)
    caption = f"How often the test rejects; {found.needed:,} records are needed."
    return Section(
        TITLES[0],
        "There is a map F of normal records to {±1}^d, the signs of the coordinates, under which N(0, I) becomes uniform and N(μ, I) a "
        "product distribution at the same distance up to a constant: its mean is ν_i = erf(μ_i/√2), with ‖ν‖₂ ≥ 0.84·min(‖μ‖₂/√2, 1). The "
        "document prints the wrong sign of erf, and √d in place of 1.",
        f"First, identity_test on records of d = {DIMENSION} correlated normal numbers, total ε = {epsilon:g}, δ = {DELTA:g}, α = "
        f"{alpha:g}: {runs} runs for each point. Then the mean of signs, for means along one axis and along the diagonal.",
        (Figure(caption, (found.panel(""),)), figure),
        (),
        (*found.errors(), *kept),
        COIN,
    )


def _identity_rejections(alpha: float, epsilon: float, runs: int, setting: Setting) -> _Rejections:
    needed, shift = sample_size_needed(epsilon, DELTA, d=DIMENSION, alpha=sign_separation(alpha)), alpha * ALONG["the diagonal"]
    sizes = _sizes(needed, setting)

    def shares(name: str, mean: Array) -> list[Share]:
        return [private_tests.identity(n, mean, ROOT, epsilon, alpha, runs, setting.stream("identity", name, n)) for n in sizes]

    case = Case(DIMENSION, sign_separation(alpha), epsilon)
    return _Rejections(case, private_tests.sign_norm(shift), needed, sizes, shares("null", 0 * shift), shares("far", shift))


def _sign_norms(setting: Setting) -> tuple[Figure, tuple[Check, ...]]:
    """‖ν‖₂ of signs against ‖μ‖₂."""
    n, series, off = setting.sized(100_000, 10_000), [], []
    exact = {name: [private_tests.sign_norm(direction * m) for m in LENGTHS] for name, direction in ALONG.items()}
    roles: tuple[tuple[Role, Role], ...] = (("measured", "theory"), ("second", "second theory"))
    for (name, direction), (role, line) in zip(ALONG.items(), roles, strict=True):
        found = [private_tests.measured_sign_norm(direction * m, n, setting.stream("signs", name, m)) for m in LENGTHS]
        series += [
            Series(name, LENGTHS, floats(each.value for each in found), floats(each.stderr for each in found), role),
            _line(f"{name}, √Σ erf²", LENGTHS, exact[name], line),
        ]
        off += [abs(each.value - norm) / each.stderr for each, norm in zip(found, exact[name], strict=True) if each.stderr]
    panel = Panel("length ‖μ‖₂ of the mean", "‖ν‖₂", tuple(series))
    return Figure("Length of the mean of the signs of normal records.", (panel,)), _norm_checks(exact, max(off))


def _norm_checks(exact: dict[str, list[float]], off: float) -> tuple[Check, ...]:
    every = [(m, norm) for norms in exact.values() for m, norm in zip(LENGTHS, norms, strict=True)]
    ratio = min(norm / sign_separation(m) for m, norm in every)
    printed = min(norm / (0.84 * min(m / math.sqrt(2), math.sqrt(DIMENSION))) for m, norm in every)
    return (
        Check("‖ν‖₂ as measured is √Σ erf(μ_i/√2)²", f"at most {off:.1f} standard errors off", "5", off < 5),
        Check("‖ν‖₂ is at least 0.84·min(‖μ‖₂/√2, 1)", f"{ratio:.3f} times it or more", "1", ratio >= 1, "identity"),
        Check("with √d in place of 1, as printed, it is not", f"{printed:.3f} times it", "less than 1", printed < 1, "identity"),
    )


# Theorem 9.3.2

TINY = 4, 2
"""Records, and signs of each."""
PRINTED: Constants = (1000.0, 11.0, 10.0)
SHRUNK: Constants = (0.05, 0.05, 3.0)
"""Constants that are small enough for the loop to run on tiny data."""


Draw = Callable[[Stream], Array]


def _tiny_uniform(stream: Stream) -> Array:
    return signs(TINY, 0.0, stream).astype(np.float64)


def _tiny_constant(_stream: Stream) -> Array:
    return np.ones(TINY)


def _lipschitz(setting: Setting) -> Section:
    budgets, runs = setting.sized((1.0, 4.0, 16.0, 64.0, 256.0), (4.0, 64.0)), setting.sized(1000, 200)
    panels, off = [], []
    for title, constants in (("constants as printed", PRINTED), ("constants for which the loop runs", SHRUNK)):
        series, worst = _tiny_series(budgets, constants, runs, setting)
        panels.append(Panel("ε", REJECTED, series, "x", ACROSS, title))
        off.append(worst)
    n, d = TINY
    return Section(
        TITLES[1],
        "If a statistic has a small sensitivity only on typical data sets, a Lipschitz extension has this sensitivity on all data sets. "
        "With it, Algorithm 9.3.2 tests uniformity with pure ε-differential privacy, in exponential time.",
        f"All {2 ** (n * d)} data sets of n = {n} records of d = {d} signs are enumerated for each test; α = √2, the largest possible "
        f"value. "
        f"{runs:,} runs for each point; the lines are exact, from the enumeration and the tails of the noise.",
        (Figure("How often the test rejects, against its ε.", tuple(panels)),),
        (),
        (Check("measured shares agree with the exact ones", f"at most {max(off):.1f} standard errors off", "5", max(off) < 5),),
        "Data sets that can be enumerated are too small for a useful test at a common ε; this section is a reference for the extension. "
        "The guarantee needs the absolute value in C(Δ) and ε' = ε/M in the last noise, which dpcore uses. With smaller constants, C(Δ) "
        "excludes some data sets, such as that of all signs +1, and T̂ is less than T there.",
    )


def _tiny_series(budgets: Sequence[float], constants: Constants, runs: int, setting: Setting) -> tuple[tuple[Series, ...], float]:
    n, d = TINY
    every = list(product(range(2**d), repeat=n))
    series, off = [], []
    laws: tuple[tuple[str, Draw, Sequence[tuple[int, ...]], Role, Role], ...] = (
        ("all signs +1", _tiny_constant, [(2**d - 1,) * n], "measured", "theory"),
        ("uniform", _tiny_uniform, every, "second", "second theory"),
    )
    for name, draw, sets, role, line in laws:
        streams = [setting.stream("lipschitz", name, constants, epsilon) for epsilon in budgets]
        found = [
            private_tests.lipschitz(draw, epsilon, math.sqrt(d), constants, runs, stream)
            for epsilon, stream in zip(budgets, streams, strict=True)
        ]
        exact = [private_tests.lipschitz_exactly(sets, d, epsilon, math.sqrt(d), constants) for epsilon in budgets]
        series += [_shares(name, budgets, found, role), _line(f"{name}, exactly", budgets, exact, line)]
        off += [abs(share.mean.value - p) / share.mean.stderr for share, p in zip(found, exact, strict=True)]
    return tuple(series), max(off)


# Theorem 9.3.4

CASES = Case(16, 0.5, 4.0), Case(64, 1.0, 2.0), Case(256, 1.0, 1.0)


def _power(setting: Setting) -> Section:
    runs = setting.sized(500, 80)
    found = [_rejections(case, runs, setting) for case in CASES]
    panels = [each.panel(f"d = {each.case.d}, α = {each.case.alpha:g}, ε = {each.case.epsilon:g}") for each in found]
    return Section(
        TITLES[2],
        "Algorithm 9.3.3 is (4ε, 14δ)-private and separates uniform signs from product distributions whose mean has ‖ν‖₂ ≥ α, with errors "
        "of at most ⅓ on either side, given Õ(√d/α² + d^¼/(αε)) records.",
        f"uniformity_test with the total budget ε and δ = {DELTA:g}, {runs} runs for each point, up to one and a half times the number "
        "of records at which both errors are proved to be at most ⅓. The alternative has ν_i = α/√d.",
        (Figure("How often the test rejects, and how often the noise on the mean of the statistic alone would.", tuple(panels)),),
        (),
        tuple(check for each in found for check in each.errors()),
        f"{COIN} The limit n(n − 1)α²/4 is nearer to 0, the mean under uniformity, than to n(n − 1)α², so errors under "
        "uniformity determine the number of records. At separation α the test rejects more often than by this noise alone, because its "
        "first steps reject, too.",
    )


def _rejections(case: Case, runs: int, setting: Setting) -> _Rejections:
    sizes = _sizes(case.needed, setting)
    null, far = (
        [private_tests.uniformity(case, n, norm, runs, setting.stream("power", case, norm, n)) for n in sizes] for norm in (0.0, case.alpha)
    )
    return _Rejections(case, case.alpha, case.needed, sizes, null, far)


# The sample size


@dataclass(frozen=True, slots=True)
class _Sweep:
    """Cases in which one variable changes."""

    variable: str
    values: tuple[float, ...]
    least: tuple[Least, ...]

    @property
    def cases(self) -> list[Case]:
        return [each.case for each in self.least]

    @property
    def slope(self) -> Slope:
        means, own = [each.found for each in self.least], [float(case.least) for case in self.cases]
        return compared("records for errors of ⅓", self.variable, self.values, means, [case.order for case in self.cases], own)


BASE = Case(16, 1.0, 4.0)
SWEEPS: dict[str, tuple[float, ...]] = {"d": (16, 64, 256, 1024), "α": (1.0, 0.5, 0.25, 0.125), "ε": (4.0, 1.0, 0.25, 0.0625)}


def _sweep(variable: str, values: tuple[float, ...], runs: int, setting: Setting) -> _Sweep:
    def changed(value: float) -> Case:
        return {"d": replace(BASE, d=int(value)), "α": replace(BASE, alpha=value), "ε": replace(BASE, epsilon=value)}[variable]

    least = tuple(private_tests.measured_least(case, runs, setting.stream("sample size", case)) for case in map(changed, values))
    return _Sweep(variable, values, least)


def _sample_size(setting: Setting) -> Section:
    runs = setting.sized(600, 100)
    sweeps = [_sweep(variable, setting.sized(values, values[:2]), runs, setting) for variable, values in SWEEPS.items()]
    tiny = _at_tiny_epsilon()
    return Section(
        TITLES[3],
        "Õ(√d/α² + d^¼/(αε)) records are enough. The first term is needed without privacy, the second one is the cost of privacy.",
        f"Records at which uniformity_test rejects uniform data with probability ⅓, from {runs} runs at each of three sizes; d = 16, α = "
        f"1 and a total ε of 4 where they do not vary, δ = {DELTA:g}. The plot also has the number at which noise alone does, and "
        "the order of the theorem, moved to the first point.",
        (Figure("Records needed.", tuple(_needed_panel(sweep) for sweep in sweeps)),),
        tuple(sweep.slope for sweep in sweeps),
        (*(_own(sweep.slope, setting) for sweep in sweeps), _proved(sweeps), tiny),
        "At such sizes the cost of privacy dominates, and its order is not the printed one. The noise of the statistic has the scale "
        "(4Δ_δ + 12ρ)/ε. Its part "
        "with Δ_δ ≥ 16√(nd)·ln(d/δ) makes n of the order d^(1/3)/(α^(4/3)ε^(2/3)), a geometric mean of the two printed terms; its part "
        "with ρ = (4d/ε)·√(ln(5/4δ)·ln(n/δ)) makes it √d/(αε), which for small ε is more than d^¼/(αε): the last check shows the exponent "
        "of d. The printed proof belongs to another algorithm, with a matrix V and a threshold γN² that Algorithm 9.3.3 does not have. The "
        "estimator's own slopes are those of noise alone in the same cases.",
    )


def _needed_panel(sweep: _Sweep) -> Panel:
    means, own = [each.found for each in sweep.least], [case.least for case in sweep.cases]
    x, orders = sweep.values, [case.order for case in sweep.cases]
    series = (
        Series("measured", x, floats(mean.value for mean in means), floats(mean.stderr for mean in means)),
        _line("order of the theorem", x, [order * own[0] / orders[0] for order in orders], "theory"),
        _line("by noise alone", x, own, "second theory"),
    )
    return Panel(sweep.variable, "records n", series)


def _own(slope: Slope, setting: Setting) -> Check:
    allowed = setting.sized(0.05, 0.1) + 2 * slope.stderr
    off = abs(slope.measured - (slope.own or 0.0))
    return Check(f"in {slope.variable}: the slope is that of the algorithm's own noise", f"{off:.3f} off", f"{allowed:.3f}", off <= allowed)


def _proved(sweeps: Sequence[_Sweep]) -> Check:
    ratios = [(each.found.value - 4 * each.found.stderr) / each.case.needed for sweep in sweeps for each in sweep.least]
    return Check(
        "the number that is proved to be enough is enough",
        f"at most {max(ratios):.3f} of it are",
        "1, with 4 standard errors",
        max(ratios) <= 1,
    )


def _at_tiny_epsilon() -> Check:
    """The exponent of d where the term with 1/ε dominates."""
    cases = [Case(d, 1.0, 2.0**-20) for d in (2**16, 2**24)]
    exponent = math.log(cases[1].least / cases[0].least) / math.log(2**8)
    order = math.log(cases[1].order / cases[0].order) / math.log(2**8)
    return Check(
        "ε = 2^−20, d from 2^16 to 2^24: the exponent of d is ½, as in √d/(αε)",
        f"{exponent:.3f}",
        f"½, where the theorem has {order:.3f}",
        abs(exponent - 0.5) < 0.02 < abs(exponent - order),
    )


STUDY = Study("tests", "How often private tests of distributions reject, and how many records they need.", TITLES, sections)
