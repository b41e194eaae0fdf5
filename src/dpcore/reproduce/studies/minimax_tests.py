"""Steinberger (2019), chapter 2: tests between models, the minimax identity, products and the chain rule."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from dpcore import local
from dpcore._dataclasses import dataclass
from dpcore.minimax import (
    MinimaxTest,
    Model,
    affinity_of_models,
    apply,
    draw_counts,
    hellinger_affinity,
    minimax_test,
    testing_affinity,
    tv_of_products,
)
from dpcore.reproduce.draws import normals
from dpcore.reproduce.estimates import Mean
from dpcore.reproduce.products import chain, records
from dpcore.reproduce.regions import random_experiment, scientific
from dpcore.reproduce.registry import Study
from dpcore.reproduce.results import Check, Figure, Panel, Role, Section, Series, floats
from dpcore.reproduce.setting import Setting

Array = npt.NDArray[np.float64]
TITLES = (
    "Steinberger (2019), Satz 2.5: affinities of hulls of products multiply",
    "Steinberger (2019), Satz 2.6: supremum and infimum may be exchanged",
    "Steinberger (2019), Korollar 2.7 and Abschnitt 2.2.1: the best test of two models errs as often as that of their hardest members",
    "Steinberger (2019), Aufgabe 2.1: some test attains the smallest sum of errors",
    "Steinberger (2019), Aufgabe 2.7: what each report adds to a divergence",
    "Steinberger (2019), Aufgabe 2.8 and Bemerkung 2.11: products are n times as far apart as their factors, at most and sometimes",
)
SLACK = 1e-6
"""Accuracy of the cone programs."""
LINEAR_SLACK = 1e-8
"""Accuracy of the linear programs."""


def sections(setting: Setting) -> Iterator[Section]:
    """Measure all sections."""
    yield _products(setting)
    yield _exchange(setting)
    yield _identity(setting)
    yield _attained(setting)
    yield chain(TITLES[4], setting)
    yield records(TITLES[5], setting)


# Satz 2.5


@dataclass(frozen=True, slots=True)
class _Joint:
    """Affinities of two pairs of lists: of hulls of all products, of hulls of squares, and products of affinities."""

    joint: float
    joint_upper: float
    squares: float
    product: float
    product_lower: float
    lists: float


def _hull(vertices: Array) -> Model:
    return Model.hull(np.arange(float(vertices.shape[1])), vertices)


def _outer(first: Array, second: Array) -> Array:
    return np.array([np.outer(p, q).ravel() for p in first for q in second])


def _joint(lists: list[tuple[Array, Array]]) -> _Joint:
    found = [affinity_of_models(_hull(zero), _hull(one)) for zero, one in lists]
    (zero, one), (other_zero, other_one) = lists
    joint = affinity_of_models(_hull(_outer(zero, other_zero)), _hull(_outer(one, other_one)))
    squares = [np.array([np.outer(p, p).ravel() for p in side]) for side in lists[0]]
    of_squares = affinity_of_models(*map(_hull, squares)).value / max(found[0].upper ** 2, 1e-300)
    of_lists = [max(hellinger_affinity(p, q) for p in zero for q in one) for zero, one in lists]
    return _Joint(
        joint.value, joint.upper, of_squares, found[0].upper * found[1].upper, found[0].value * found[1].value, of_lists[0] * of_lists[1]
    )


def _products(setting: Setting) -> Section:
    stream = setting.stream("minimax-tests", "products")
    cases = []
    for _ in range(setting.sized(24, 8)):
        lists = [(random_experiment(stream, 2, 3, 1.0).matrix, random_experiment(stream, 3, 3, 1.0).matrix) for _ in range(2)]
        cases.append(_joint(lists))
    x = floats(case.product for case in cases)
    diagonal = (min(*x, *(case.lists for case in cases)), 1.0)
    panels = (
        Panel(
            "product of the affinities of the hulls",
            "affinity",
            (
                Series("hulls of all products", x, floats(case.joint for case in cases), None, "measured", "points"),
                Series("product of the lists’ affinities", x, floats(case.lists for case in cases), None, "second", "points"),
                Series("equal", diagonal, diagonal, None, "theory"),
            ),
            "",
        ),
        Panel(
            "product of the affinities of the hulls",
            "relative to it",
            (
                Series("hulls of all products", x, floats(case.joint / case.product for case in cases), None, "measured", "points"),
                Series(
                    "hulls of squares", floats(case.product for case in cases), floats(c.squares for c in cases), None, "third", "points"
                ),
                Series("equal", (min(x), max(x)), (1.0, 1.0), None, "theory"),
            ),
            "",
        ),
    )
    above = max(case.joint / case.product - 1 for case in cases)
    below = max(1 - case.joint_upper / case.product_lower for case in cases)
    square = max(case.squares for case in cases)
    coin = _joint([(np.eye(2), np.array([[0.5, 0.5]]))] * 2)
    return Section(
        TITLES[0],
        "For models 𝒫₀, 𝒫₁ and 𝒫₀′, 𝒫₁′, the Hellinger affinity of the hulls of all products is at most the product of the affinities "
        "of the hulls. So n independent reports have an affinity of at most ρⁿ, and tests of LeCam and Birgé have errors of at most ρⁿ.",
        f"{len(cases)} random pairs of lists of two and three distributions on three points, with their products on nine. Affinities "
        "of hulls are computed by cone programming, with a lower bound from members and an upper bound by weak duality.",
        (Figure("Left: affinities of hulls of products beside products of affinities; right: their ratio, also for squares P⊗P.", panels),),
        (),
        (
            Check(
                "affinities of hulls of products are at most the product",
                f"at most {scientific(max(above, 0.0))} above it, relatively",
                "10⁻⁶",
                above <= SLACK,
                "identity",
            ),
            Check(
                "they are at least the product: it is an equality",
                f"at most {scientific(max(below, 0.0))} below it, relatively",
                "10⁻⁶",
                below <= SLACK,
                "identity",
            ),
            Check("hulls of squares are at most as close", f"{square:.4f} times the square or less", "1", square <= 1 + SLACK, "identity"),
            Check(
                "without hulls the inequality fails: two point masses and a fair coin",
                f"hull of products {coin.joint:.3f}, product of the lists’ affinities {coin.lists:.3f}",
                "more than it",
                coin.joint > coin.lists + 0.4,
                "identity",
            ),
        ),
        "Products of members of the hulls belong to the hull of all products, so the inequality is an equality there. It is strict for the "
        "squares P⊗P, which are fewer. This is where the bound of a binary search loses: its n reports have one distribution.",
    )


# Satz 2.6


@dataclass(frozen=True, slots=True)
class _Exchange:
    """Both sides of the identity, with φ from a linear program and a mixture from another, and two twins without convexity."""

    left: float
    right: float
    corners: float
    listed: float


def _exchanged(vertices: Array, low: float, high: float) -> _Exchange:
    """Solve sup_φ min_j φ·σ_j and min_w Σ max(low·σ_w, high·σ_w) apart. Each answer is evaluated where it is feasible, so left ≤ right."""
    count, size = vertices.shape
    solved = linprog(
        np.append(np.zeros(size), -1.0),
        A_ub=np.hstack([-vertices, np.ones((count, 1))]),
        b_ub=np.zeros(count),
        bounds=[(low, high)] * size + [(None, None)],
    ).x
    phi = np.asarray(solved)[:-1]
    rows = np.vstack([np.hstack([end * vertices.T, -np.eye(size)]) for end in (low, high)])
    mixture = linprog(
        np.append(np.zeros(count), np.ones(size)),
        A_ub=rows,
        b_ub=np.zeros(2 * size),
        A_eq=np.append(np.ones(count), np.zeros(size))[None],
        b_eq=[1.0],
        bounds=[(0, None)] * count + [(None, None)] * size,
    ).x
    weights = np.asarray(mixture)[:count]
    weights = np.maximum(weights, 0) / np.maximum(weights, 0).sum()
    corners = np.array(list(itertools.product((low, high), repeat=size)))
    ends = np.maximum(low * vertices, high * vertices).sum(axis=1)
    mixed = weights @ vertices
    return _Exchange(
        float((vertices @ np.clip(phi, low, high)).min()),
        float(np.maximum(low * mixed, high * mixed).sum()),
        float((corners @ vertices.T).min(axis=1).max()),
        float(ends.min()),
    )


def _exchange(setting: Setting) -> Section:
    stream = setting.stream("minimax-tests", "exchange")
    drawn = [(normals((4, 6), 0.0, stream), np.sort(normals((2,), 0.0, stream))) for _ in range(setting.sized(40, 12))]
    cases = [_exchanged(vertices, float(low), float(high)) for vertices, (low, high) in drawn]
    gap = max(abs(case.right - case.left) for case in cases)
    x = floats(case.right for case in cases)
    opposite = _exchanged(np.array([[1.0, -1.0], [-1.0, 1.0]]), -1.0, 1.0)
    series = (
        Series("sup inf over all φ and mixtures", x, floats(case.left for case in cases), None, "measured", "points"),
        Series("φ with values a and b alone", x, floats(case.corners for case in cases), None, "second", "points"),
        Series("without mixtures", x, floats(case.listed for case in cases), None, "third", "points"),
        Series("equal", (min(x), max(x)), (min(x), max(x)), None, "theory"),
    )
    return Section(
        TITLES[1],
        "Let 𝕊 be a convex, dominated set of finite signed measures and 𝕋 all functions with values in [a, b]. Then sup_φ inf_σ ∫φ dσ "
        "equals inf_σ sup_φ ∫φ dσ. A test has values in [0, 1], and differences of two models are such a set.",
        f"{len(cases)} random hulls of four signed measures on six points, and random a and b. Two separate linear programs find a "
        "function and a mixture; each side is then computed at what was found, so the left one cannot exceed the right one by an error "
        "of a solver.",
        (
            Figure(
                "Both sides of the identity, and two sets that are not convex: functions with two values, and lists.",
                (Panel("inf sup", "value", series, ""),),
            ),
        ),
        (),
        (
            Check("both sides are equal", f"at most {scientific(gap)} apart", "10⁻⁸", gap <= LINEAR_SLACK, "identity"),
            Check(
                "functions with two values are never better",
                f"up to {max(case.right - case.corners for case in cases):.2g} smaller",
                "0 or more",
                all(case.corners <= case.right + LINEAR_SLACK for case in cases),
                "identity",
            ),
            Check(
                "without mixtures the sides differ: two opposite measures",
                f"sup inf {opposite.left:.3g}, smallest sup of a listed measure {opposite.listed:.3g}",
                "0 and 2",
                abs(opposite.left) <= LINEAR_SLACK and abs(opposite.listed - 2) <= LINEAR_SLACK,
                "identity",
            ),
        ),
        "Randomised tests are not a convenience: with functions of two values alone, the left side is smaller. In large samples this "
        "matters little, as a single outcome has little mass.",
    )


# Korollar 2.7


@dataclass(frozen=True, slots=True)
class _Tested:
    """A minimax test, and its errors at the hardest pair as measured."""

    theta: float
    found: MinimaxTest
    measured: Mean


def _hypotheses(theta: float) -> tuple[Model, Model]:
    f = np.linspace(-2.0, 2.0, 17)
    moment, bound = f**2, 1.0
    return Model(f, [moment, f], [bound, -theta]), Model(f, [moment, -f], [bound, -theta])


def _tested(theta: float, channel: object, setting: Setting) -> _Tested:
    found = minimax_test(*_hypotheses(theta), channel=channel)
    reports = setting.sized(1_000_000, 200_000)
    values, errors = 0.0, 0.0
    for side, (p, wrong) in enumerate(((found.p0, found.phi), (found.p1, 1 - found.phi))):
        q = p if channel is None else apply(channel, p)
        rng = setting.stream("minimax-tests", "identity", theta, channel, side)
        share = draw_counts(q / q.sum(), n=reports, replicates=1, rng=rng)[0] / reports
        mean = float(share @ wrong)
        values, errors = values + mean, errors + float(share @ wrong**2 - mean**2) / reports
    return _Tested(theta, found, Mean(values, math.sqrt(max(errors, 0.0))))


def _identity(setting: Setting) -> Section:
    thetas = np.linspace(0.1, 0.9, setting.sized(9, 5))
    channels = {"open records": None, "ε = 2": local.KaryResponse(2.0, k=17), "ε = 4": local.KaryResponse(4.0, k=17)}
    every = {name: [_tested(float(theta), channel, setting) for theta in thetas] for name, channel in channels.items()}
    cases = [case for column in every.values() for case in column]
    gap = max(case.found.value - case.found.lower for case in cases)
    off = max(abs(case.measured.value - case.found.value) / max(case.measured.stderr, 1e-12) for case in cases)
    twin = minimax_test(_hull(np.eye(2)), _hull(np.array([[0.5, 0.5]])))
    roles: tuple[Role, ...] = ("measured", "second", "third")
    (figure, checks), x = _many(setting), floats(thetas)
    series = [
        Series(name, x, floats(c.measured.value for c in column), floats(c.measured.stderr for c in column), role, "points")
        for (name, column), role in zip(every.items(), roles, strict=True)
    ] + [Series("hardest pair, as computed", x, floats(c.found.lower for c in every["open records"]), None, "theory")]
    series += [Series("hardest pair, ε = 2", x, floats(c.found.lower for c in every["ε = 2"]), None, "second theory")]
    return Section(
        TITLES[2],
        "For two dominated models, the smallest worst sum of the errors of both kinds over all tests φ equals the testing affinity of the "
        "hulls: the sum of errors that the best test of the hardest pair of members has. A minimax test is one that attains it.",
        "Hypotheses E x ≤ −t and E x ≥ t for numbers in [−2, 2] with E x² ≤ 1, from one record and from one private report. For each "
        f"test, {setting.sized('a million', '200,000')} reports are drawn from each member of the hardest pair, and the test errs as "
        "often as shown.",
        (
            Figure(
                "Sum of both errors of the minimax test at the hardest pair, measured and as the identity says.",
                (Panel("t", "sum of errors", tuple(series), ""),),
            ),
            figure,
        ),
        (),
        (
            Check(
                "the worst errors of the test and the affinity of the pair agree",
                f"at most {scientific(max(gap, 0.0))} apart",
                "10⁻⁸",
                gap <= LINEAR_SLACK,
                "identity",
            ),
            Check("measured sums of errors agree with the value", f"at most {off:.1f} standard errors off", "5", off < 5),
            Check(
                "for lists without mixtures the identity fails: two point masses and a fair coin",
                f"best test {twin.value:.3f}, hardest listed pair {testing_affinity([1.0, 0.0], [0.5, 0.5]):.3f}",
                "1 and 0.5",
                abs(twin.value - 1) < LINEAR_SLACK,
                "identity",
            ),
            *checks,
        ),
        "The test of one report decides at random where the hardest members are equally probable. For many reports, the Hellinger test "
        "adds a weight for each report and has a proved bound for every n; the best test of n reports is not known in a closed form.",
    )


def _many(setting: Setting) -> tuple[Figure, tuple[Check, ...]]:
    """Errors of the Hellinger test of n reports, beside its bound and the best possible sum."""
    channel, models = local.KaryResponse(2.0, k=17), _hypotheses(0.5)
    found = affinity_of_models(*models, channel=channel)
    sizes = setting.sized((1, 5, 20, 50, 100, 200, 400), (1, 20, 100))
    laws = apply(channel, found.p0 / found.p0.sum()), apply(channel, found.p1 / found.p1.sum())
    replicates, shares, least = setting.sized(200_000, 50_000), [], []
    for n in sizes:
        errors = []
        for side, q in enumerate(laws):
            counts = draw_counts(q, n=n, replicates=replicates, rng=setting.stream("minimax-tests", "many", n, side))
            errors.append(float((found.decide(counts) != bool(side)).mean()))
        shares.append(max(errors))
        least.append(max((1 - tv_of_products(*laws, n).upper) / 2, 1e-300))
    bounds = [found.error_bound(n) for n in sizes]
    stderr = [math.sqrt(max(share * (1 - share), 1 / replicates) / replicates) for share in shares]
    x = floats(sizes)
    series = (
        Series("measured", x, floats(shares), floats(stderr), "measured", "points"),
        Series("bound ρⁿ", x, floats(bounds), None, "theory"),
        Series("lower bound for every test", x, floats(least), None, "second theory"),
    )
    figure = Figure(
        "Larger error of the Hellinger test of n private reports at the closest members, E x = −½ and E x = ½.",
        (Panel("reports n", "error", series, "x"),),
    )
    above = max(share - 5 * error - bound for share, error, bound in zip(shares, stderr, bounds, strict=True))
    below = max(low - share - 5 * error for low, share, error in zip(least, shares, stderr, strict=True))
    return figure, (
        Check(
            "errors of the test of n reports are at most ρ_Hⁿ",
            f"at most {scientific(max(above, 0.0))} above",
            "0, with 5 standard errors",
            above <= 0,
        ),
        Check(
            "no test has two smaller errors than half of ρ_T",
            f"at most {scientific(max(below, 0.0))} below",
            "0, with 5 standard errors",
            below <= 0,
        ),
    )


# Aufgabe 2.1


def _scales(cells: int) -> tuple[Model, Model]:
    """Mixtures of uniform distributions on [0, ϑ] with a mean ϑ of ½ or less, and of 0.8 or more."""
    middles = (np.arange(cells) + 0.5) / cells
    step = np.eye(cells, k=1)[:-1] - np.eye(cells)[:-1]
    low = np.vstack([step, 2 * middles]), np.append(np.zeros(cells - 1), 0.5)
    high = np.vstack([step, -2 * middles]), np.append(np.zeros(cells - 1), -0.8)
    return Model(middles, *low, points=middles), Model(middles, *high, points=middles)


def _attained(setting: Setting) -> Section:
    sizes = setting.sized((5, 10, 20, 40, 80), (5, 10, 20, 40))
    found = {cells: minimax_test(*_scales(cells)) for cells in sizes}
    tried = {cells: _best_random(cells, setting) for cells in sizes}
    gap = max(test.value - test.lower for test in found.values())
    better = max(found[cells].lower - tried[cells] for cells in sizes)
    values = [found[cells].value for cells in sizes]
    falling = max(0.0, *(a - b for a, b in itertools.pairwise(values)))
    x = floats(sizes)
    shown: tuple[tuple[int, Role], ...] = (sizes[0], "second"), (sizes[-2], "theory"), (sizes[-1], "measured")
    integrals = [
        Series(
            f"{cells} cells", floats(np.arange(cells + 1) / cells), floats(np.append(0.0, found[cells].phi.cumsum()) / cells), None, role
        )
        for cells, role in shown
    ]
    panels = (
        Panel(
            "cells",
            "sum of errors",
            (
                Series("minimax test", x, floats(values), None, "measured", "points"),
                Series("best of random tests", x, floats(tried.values()), None, "second", "points"),
                Series("hardest pair, as computed", x, floats(test.lower for test in found.values()), None, "theory"),
            ),
            "x",
        ),
        Panel("x", "integral of φ from 0 to x", tuple(integrals), ""),
    )
    return Section(
        TITLES[3],
        "If a model is dominated by a σ-finite measure, then for any two hypotheses some randomised test attains the smallest possible "
        "worst sum of errors. The proof takes a weakly convergent sequence of tests; on finitely many points, tests form a compact cube.",
        "Mixtures of uniform distributions on [0, ϑ] with a mean of ϑ of ½ or less, and of 0.8 or more, on finer and finer cells; each "
        "grid has all distributions of the coarser ones. For each, the test of a linear program beside random monotone tests.",
        (Figure("Left: sums of errors on finer grids. Right: integrals of the tests of three grids.", panels),),
        (),
        (
            Check(
                "the test attains the infimum on every grid",
                f"at most {scientific(max(gap, 0.0))} above the affinity of a pair",
                "10⁻⁸",
                gap <= LINEAR_SLACK,
                "identity",
            ),
            Check(
                "no random test is better", f"at most {scientific(max(better, 0.0))} below the lower bound", "0", better <= 0, "identity"
            ),
            Check(
                "finer grids hold more distributions, so the sum does not fall",
                f"at most {scientific(falling)}",
                "10⁻⁸",
                falling <= LINEAR_SLACK,
                "identity",
            ),
        ),
        "The integrals of the tests of finer grids approach those of one test, as the weak compactness of the proof says; the tests "
        "themselves may oscillate. Where the hardest pair has equal densities, φ is not determined by them but by the other members.",
    )


def _best_random(cells: int, setting: Setting) -> float:
    """The smallest worst sum of errors of random monotone tests."""
    models, best = _scales(cells), math.inf
    heights = np.abs(normals((setting.sized(60, 20), 2), 0.0, setting.stream("minimax-tests", "attained", cells)))
    middles = np.asarray(models[0].points)
    for start, width in heights:
        phi = np.clip((middles - min(start, 1.0) / 2) / max(width, 1e-3), 0.0, 1.0)
        best = min(best, models[0].extreme(phi)[0] + models[1].extreme(1 - phi)[0])
    return best


STUDY = Study(
    "minimax-tests",
    "Tests between models, products and the chain rule.",
    TITLES,
    sections,
    ("minimax", "clarabel"),
)
