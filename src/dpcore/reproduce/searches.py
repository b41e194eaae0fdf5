"""Steinberger (2019), Abbildungen 3.1 and 3.2 and Lemma 3.16: the steps of the binary search of tests."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from dpcore import local
from dpcore._dataclasses import dataclass
from dpcore.minimax import BinarySearchEstimator, Model, draw_counts, optimal_channel
from dpcore.reproduce.draws import normals
from dpcore.reproduce.estimates import at_most
from dpcore.reproduce.results import Check, Figure, Panel, Section, Series, floats
from dpcore.reproduce.setting import Setting
from dpcore.rng import Stream

Array = npt.NDArray[np.float64]
EPSILON = 1.0
REACH = 1e-9
"""Rounding error, relative to Δ."""
STACKED = 0.11
"""Height of the intervals of one level."""
TILTS = 32
"""Directions in which members of a model are extreme."""


def _heavy(n: int, step: float | str) -> BinarySearchEstimator:
    """The mean of numbers with E x² ≤ 1 on a small grid, with the optimal channel."""
    model = Model.moment(np.linspace(-2.0, 2.0, 33), kappa=2.0, C=1.0)
    return BinarySearchEstimator(model, optimal_channel(model, EPSILON, n=n), n=n, step=step)


# Abbildung 3.1


def intervals(title: str, _setting: Setting) -> Section:
    """All intervals of a search.

    Parameters
    ----------
    title : str
        Title of the section.
    """
    estimator = _heavy(400, 0.35)
    return Section(
        title,
        "The range of θ is covered by N steps Δ. Test (k, j) knows θ to lie in [l, u), which is N − k + 1 steps long, and decides "
        "between θ ≤ a = l + Δ and θ ≥ b = u − Δ: either [l, a) or [b, u) is removed. After N − 2 tests an interval of 2Δ is left, and "
        "its middle is the estimate.",
        f"The mean of numbers with E x² ≤ 1, n = 400 reports of one bit, Δ = {estimator.step:g}, so that N = {estimator.N}. Every "
        "possible data set is taken through the tests: for one-bit reports that is each count of +z₀ from 0 to n.",
        (_family(estimator),),
        (),
        _visited(estimator),
        "Intervals of one level overlap; they are drawn above each other.",
    )


def _place(estimator: BinarySearchEstimator, level: int, node: int) -> tuple[float, float]:
    """Ends of [l, u)."""
    lower = estimator.theta_range[0] + (node - 1) * estimator.step
    return lower, lower + (estimator.N - level + 1) * estimator.step


def _family(estimator: BinarySearchEstimator) -> Figure:
    step, total = estimator.step, estimator.N
    kept: list[tuple[float, float, float]] = []
    removed: list[tuple[float, float, float]] = []
    for level, node in ((k, j) for k in range(1, total) for j in range(1, k + 1)):
        lower, upper = _place(estimator, level, node)
        height = total - level + 1 - STACKED * (node - 1)
        kept.append((lower + step, upper - step, height))
        removed += [(lower, lower + step, height), (upper - step, upper, height)]
    low, high = estimator.theta_range
    middles = [low + j * step for j in range(1, total)]
    heights = [2 - STACKED * j for j in range(total - 1)]
    series = (
        _pairs("between a and b", kept, "measured"),
        _pairs("[l, a) and [b, u): one is removed", removed, "third"),
        Series("estimate", tuple(middles), tuple(heights), None, "second", "points"),
        Series("range of θ", (low, low, high, high), (1.2, total + 0.2, 1.2, total + 0.2), None, "theory", "pairs"),
    )
    panel = Panel("θ", "length of the interval, in Δ", series, "", (1.2, total + 0.3))
    return Figure("All intervals that a search may come to; from top to bottom with each test.", (panel,))


def _pairs(name: str, segments: Sequence[tuple[float, float, float]], role: str) -> Series:
    """Horizontal lines: left end, right end, height."""
    x = floats(end for left, right, _ in segments for end in (left, right))
    y = floats(height for *_, height in segments for _ in range(2))
    return Series(name, x, y, None, role, "pairs")  # type: ignore[arg-type]


def _visited(estimator: BinarySearchEstimator) -> tuple[Check, ...]:
    counts = range(estimator.n + 1)
    traces = [estimator.trace(count) for count in counts]
    total, near = estimator.N, 1e-9 * estimator.step
    family = {level: [_place(estimator, level, node) for node in range(1, level + 1)] for level in range(1, total)}
    strange = sum(
        not any(math.dist((step.lower, step.upper), place) < near for place in family[level])
        for walk in traces
        for level, step in enumerate(walk.intervals, 1)
    )
    tests = {len(walk.intervals) for walk in traces}
    seen = {(level, round(step.lower, 9)) for walk in traces for level, step in enumerate(walk.intervals, 1)}
    different = sum(abs(walk.estimate - estimator.estimate(count)) > near for count, walk in zip(counts, traces, strict=True))
    of = (total - 1) * (total - 2) // 2
    return (
        Check(
            "every data set visits only intervals of the figure",
            f"{strange} others; {len(seen)} of {of} visited",
            "0 others",
            not strange,
            "identity",
        ),
        Check(
            "every search ends after N − 2 tests",
            f"{', '.join(map(str, sorted(tests)))} tests",
            f"{total - 2}",
            tests == {total - 2},
            "identity",
        ),
        Check(
            "the end of each search agrees with the table of estimates",
            f"{different} of {len(traces)} counts differ",
            "0",
            not different,
            "identity",
        ),
    )


# Abbildung 3.2


def trace(title: str, setting: Setting) -> Section:
    """The course of a search, for one data set.

    Parameters
    ----------
    title : str
        Title of the section.
    setting : Setting
        Seed and size.
    """
    courses = [_Course.drawn(_heavy(400, 0.27), setting.stream("course", "short"))]
    courses.append(_Course.drawn(_heavy(10_000, 0.05), setting.stream("course", "long")))
    return Section(
        title,
        "A test errs if it removes the piece that contains θ. If no test errs, θ stays in the interval, and the estimate is within Δ of "
        "it. "
        "An error of the estimate by more than (l + 1)Δ needs an error of a test before the last l tests.",
        "Records are drawn from a distribution with E x² ≤ 1, the optimal channel at ε = 1 makes one bit of each, and the bits are "
        f"counted. Above n = 400 and Δ = {courses[0].estimator.step:g}, below n = 10,000 and Δ = {courses[1].estimator.step:g}.",
        tuple(Figure(f"One search with {course.estimator.N - 2} tests, from top to bottom.", (course.panel,)) for course in courses),
        (),
        (_end_to_end(courses), *_without_error(courses, setting)),
        "The first tests compare distant hypotheses and rarely err. The last tests compare neighbours and often err, which changes the "
        "estimate only little.",
    )


@dataclass(frozen=True, eq=False)
class _Course:
    """One data set and its search.

    Attributes
    ----------
    estimator : BinarySearchEstimator
        The estimator.
    p : ndarray
        Distribution of the records.
    plus : int
        Number of reports +z0.
    estimate : float
        Estimate from the raw reports.
    """

    estimator: BinarySearchEstimator
    p: Array
    plus: int
    estimate: float

    @classmethod
    def drawn(cls, estimator: BinarySearchEstimator, stream: Stream) -> _Course:
        """Draw records and privatise them."""
        model = estimator.model
        top, bottom = (np.asarray(model.extreme(direction)[1]) for direction in (model.f, -model.f))
        p = 0.7 * top + 0.3 * bottom
        records = np.repeat(np.arange(model.size), draw_counts(p, n=estimator.n, replicates=1, rng=stream)[0])
        reports = estimator.channel.channel.privatize(records, rng=stream)
        return cls(estimator, p, int(np.count_nonzero(reports)), float(estimator.estimate_reports(reports)))

    @property
    def theta(self) -> float:
        """The true parameter."""
        return float(self.p @ self.estimator.model.f)

    @property
    def panel(self) -> Panel:
        """Kept and removed pieces, and the true parameter."""
        kept, removed, total = [], [], self.estimator.N
        found = self.estimator.trace(self.plus)
        for level, step in enumerate(found.intervals, 1):
            height = float(total - level + 1)
            kept.append((step.a, step.upper, height) if step.outcome else (step.lower, step.b, height))
            removed.append((step.lower, step.a, height) if step.outcome else (step.b, step.upper, height))
        kept.append((found.estimate - self.estimator.step, found.estimate + self.estimator.step, 2.0))
        series = (
            _pairs("kept", kept, "measured"),
            _pairs("removed", removed, "third"),
            Series("estimate", (found.estimate,) * 2, (2.0, 2.0), None, "second", "points"),
            Series("θ", (self.theta, self.theta), (1.0, total + 0.5), None, "second theory"),
        )
        return Panel("θ", "length of the interval, in Δ", series, "", (1.0, total + 0.6))


def _end_to_end(courses: Sequence[_Course]) -> Check:
    off = max(abs(course.estimate - course.estimator.trace(course.plus).estimate) for course in courses)
    return Check("estimates from raw reports agree with the ends of the searches", f"{off:.1g} apart", "0", off < 1e-12, "identity")


def _without_error(courses: Sequence[_Course], setting: Setting) -> tuple[Check, ...]:
    """Whether θ stays in the interval, and the error of the estimate, for every count, weighted by its frequency."""
    kept_inside, far, early, total = 0, 0, 0, 0
    for course in courses:
        estimator, replicates = course.estimator, setting.sized(50_000, 5000)
        drawn = draw_counts(course.p @ estimator.matrix, n=estimator.n, replicates=replicates, rng=setting.stream("courses", estimator.n))[
            :, 1
        ]
        for plus, times in zip(*(each.tolist() for each in np.unique(drawn, return_counts=True)), strict=True):
            wrong = _first_error(course, plus)
            error = abs(estimator.estimate(plus) - course.theta) / estimator.step * (1 - REACH)
            kept_inside += times * (wrong is None)
            far += times * (wrong is None and error > 1)
            # an error by more than (l + 1)Δ comes from one of the first N − 2 − l tests
            early += times * (wrong is not None and error > estimator.N - wrong)
            total += times
    return (
        Check("searches that never remove θ end within Δ of it", f"{far} of {kept_inside:,} do not", "0", far == 0, "identity"),
        Check(
            "the other searches end as near to θ as their first error allows",
            f"{early} of {total - kept_inside:,} do not",
            "0",
            early == 0,
            "identity",
        ),
    )


def _first_error(course: _Course, plus: int) -> int | None:
    for level, step in enumerate(course.estimator.trace(plus).intervals, 1):
        if course.theta < step.a if step.outcome else course.theta >= step.b:
            return level
    return None


# Lemma 3.16


def tails(title: str, setting: Setting) -> Section:
    """Frequencies of errors beside the certified bounds.

    Parameters
    ----------
    title : str
        Title of the section.
    setting : Setting
        Seed and size.
    """
    replicates = setting.sized(100_000, 20_000)
    two, eight = _heavy(400, 0.1), _eight_outcomes()
    found = [_frequencies(estimator, replicates, setting) for estimator in (two, eight)]
    names = f"two outcomes, n = {two.n:,}, Δ = {two.step:g}", f"eight outcomes, n = {eight.n:,}, Δ = {eight.step:g}"
    return Section(
        title,
        "sup P(|θ̂ − θ| > (l + 1)Δ) ≤ 4 Σ_{k > l} η_A(kΔ), the sum over all tests that can cause such an error. The certified bound "
        "is smaller: for reports of one bit it is the supremum, from binomial probabilities; for more outcomes it is 2 Σ ρ_H(kΔ)ⁿ, because "
        "the tests are not randomised.",
        "Left: the mean of numbers with E x² ≤ 1 from one-bit reports. Right: the mean of a code in 0 … 7 from 8-ary responses at ε = "
        f"1.5. For each l, {replicates:,} data sets come from the worst distribution that a search of the model found.",
        (_tail_figure(found, names),),
        (),
        (_never_above(found), _tight(found[0])),
        "The bound for eight outcomes is a sum over all tests, and no distribution attains all terms.",
    )


def _eight_outcomes() -> BinarySearchEstimator:
    return BinarySearchEstimator(Model(np.arange(8.0)), local.KaryResponse(1.5, k=8), n=1000, step=0.7)


@dataclass(frozen=True, slots=True)
class _Tail:
    """Errors by more than (l + 1)Δ, for one l.

    Attributes
    ----------
    l : int
        Number of steps.
    bound : float
        Certified bound.
    likely : float
        The probability at the chosen distribution, where it is known.
    errors, replicates : int
        Counted errors, and number of data sets.
    """

    l: int  # noqa: E741  the document's letter
    bound: float
    likely: float
    errors: int
    replicates: int


def _frequencies(estimator: BinarySearchEstimator, replicates: int, setting: Setting) -> list[_Tail]:
    stream = setting.stream("tails", estimator.n, estimator.matrix.shape[1])
    members = _members(estimator.model, estimator.matrix, _ends(estimator), stream)
    chances = _chances(estimator, members, stream)
    drawn = cache(lambda index: _errors(estimator, members[index], replicates, stream))
    found = []
    for index in range(estimator.N - 1):
        bound = estimator.error_bound(index)
        if bound < 1e-7:
            break
        worst = int(chances[:, index].argmax())
        errors = int(np.count_nonzero(drawn(worst) > index + 1))
        found.append(_Tail(index, bound, float(chances[worst, index]), errors, replicates))
    return found


def _ends(estimator: BinarySearchEstimator) -> Array:
    """Just on either side of θ_min + mΔ, where errors change the most."""
    ends = estimator.theta_range[0] + estimator.step * np.arange(1, estimator.N)
    return np.concatenate([ends - 1e-7 * estimator.step, ends + 1e-7 * estimator.step])


def _members(model: Model, matrix: Array, ends: Array, stream: Stream) -> Array:
    """Extreme members, and mixtures of two whose θ are at the ends; for one-bit reports all around the range of (θ, P(+z0))."""
    angles = 2 * np.pi * np.arange(TILTS) / TILTS
    if matrix.shape[1] == 2:
        plus = matrix[:, 1] / np.ptp(matrix[:, 1])
        directions = np.cos(angles)[:, None] * model.f / np.ptp(model.f) + np.sin(angles)[:, None] * plus
        around = np.array([model.extreme(direction)[1] for direction in directions]).clip(0)
        couples = list(itertools.pairwise([*around, around[0]]))
    else:
        around = np.array([model.extreme(d)[1] for d in (model.f, -model.f, *normals((TILTS // 2, model.size), 0.0, stream))]).clip(0)
        couples, ends = list(itertools.combinations(np.unique(around, axis=0), 2)), ends[len(ends) // 2 :]
    found = list(around)
    for one, other in couples:
        left, right = one @ model.f, other @ model.f
        shares = (ends - left) / (right - left) if abs(right - left) > 1e-9 else np.zeros(0)
        found += [(1 - share) * one + share * other for share in shares[(shares > 0) & (shares < 1)]]
    members = np.array(found)
    return np.asarray(members / members.sum(axis=1, keepdims=True))


def _chances(estimator: BinarySearchEstimator, members: Array, stream: Stream) -> Array:
    """P(error > (l + 1)Δ) at each member for each l: exactly for one-bit reports, else as roughly simulated."""
    limits = np.arange(1, estimator.N)
    if estimator.matrix.shape[1] > 2:
        sizes = [_errors(estimator, p, 1000, stream) for p in members]
        return np.array([[np.mean(size > limit) for limit in limits] for size in sizes])
    from scipy import stats

    counts = np.arange(estimator.n + 1)
    estimates = estimator.estimate(counts)
    chances = np.empty((len(members), len(limits)))
    for row, p in zip(chances, members, strict=True):
        size = np.abs(estimates - p @ estimator.model.f) / estimator.step * (1 - REACH)
        mass = stats.binom.pmf(counts, estimator.n, float(p @ estimator.matrix[:, 1]))
        row[:] = [mass[size > limit].sum() for limit in limits]
    return chances


def _errors(estimator: BinarySearchEstimator, p: Array, replicates: int, stream: Stream) -> Array:
    """Sizes of errors in units of Δ."""
    counts = draw_counts(p @ estimator.matrix, n=estimator.n, replicates=replicates, rng=stream)
    return np.asarray(np.abs(estimator.estimate(counts) - p @ estimator.model.f) / estimator.step * (1 - REACH))


def _tail_figure(found: Sequence[list[_Tail]], names: Sequence[str]) -> Figure:
    panels = []
    for column, name in zip(found, names, strict=True):
        seen = [tail for tail in column if tail.errors]
        share = [tail.errors / tail.replicates for tail in seen]
        stderr = floats(math.sqrt(p * (1 - p) / tail.replicates) for p, tail in zip(share, seen, strict=True))
        series = (
            Series("frequency at worst", floats(tail.l for tail in seen), floats(share), stderr, "measured"),
            Series("certified bound", floats(tail.l for tail in column), floats(tail.bound for tail in column), None, "theory"),
        )
        panels.append(Panel("l", "errors by more than (l + 1)Δ", series, "y", (1e-6, 1.5), name))
    return Figure("How often estimates are off by more than l + 1 steps.", tuple(panels))


def _never_above(found: Sequence[list[_Tail]]) -> Check:
    every = [tail for column in found for tail in column]
    above = sum(not at_most(tail.errors, tail.replicates, tail.bound) for tail in every if tail.bound < 1)
    return Check("errors are not more frequent than the bound, for any l", f"{above} of {len(every)} above", "0", above == 0)


def _tight(column: Sequence[_Tail]) -> Check:
    least = min(tail.likely / tail.bound for tail in column if tail.bound > 1e-3)
    most = max(tail.likely / tail.bound for tail in column)
    promise = "one-bit reports attain the bound where it exceeds 10⁻³"
    return Check(promise, f"{least:.4f} of it or more", "0.99, and never above 1", least >= 0.99 and most <= 1 + 1e-9)
