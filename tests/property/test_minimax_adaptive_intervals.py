"""Intervals of estimators that adapt or share one ε: their coverage by exact binomial laws of all reports."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dpcore.errors import ParameterError
from dpcore.local import Aggregate
from dpcore.minimax import LinearEstimator, SeveralFunctionals, TwoStageMean
from dpcore.minimax.adaptive.location import TwoStageEstimate

Array = npt.NDArray[np.float64]
ROUNDING = 1e-12
"""Of sums of SciPy's probabilities."""

# A range from a part of the reports

PLACES = {
    "around 0": {"lower": -20.0, "upper": 20.0, "kappa": 2.0, "C": 1.0},
    "heavy tails": {"lower": -1.0, "upper": 1.0, "kappa": 1.5, "C": 1e-3},
    "far from 0": {"lower": 1e6, "upper": 1e6 + 50, "kappa": 4.0, "C": 16.0},
    "a needle": {"lower": -1e3, "upper": 1e3, "kappa": 2.0, "C": 1e-8},
}
STAGES = [
    *((1e-3, 0, 0, n) for n in (1, 2, 9)),
    *((20.0, tests, group, 5) for tests, group in ((0, 0), (1, 1), (1, 3), (2, 3), (3, 5))),
    *((2.0, tests, group, 7) for tests, group in ((0, 0), (1, 5), (1, 9), (2, 15))),
    (1.0, 2, 31, 4),
]
SETTINGS = [(place, *stages) for place in PLACES for stages in STAGES]


def mean_of(place: str, epsilon: float, tests: int, group: int, left: int) -> TwoStageMean:
    keys = PLACES[place]
    return TwoStageMean(epsilon, n=tests * group + left, tests=tests, group=group, **keys)


def laws(theta: float, mean: TwoStageMean) -> Iterator[tuple[Array, Array]]:
    """Distributions with mean θ and a κ-th absolute moment of C: two points, far apart or not, and one point."""
    for p in (0.5, 0.95, 0.05):
        own = p * (1 - p) ** mean.kappa + (1 - p) * p**mean.kappa
        spread = (mean.C / own) ** (1 / mean.kappa) * (1 - 1e-12)
        yield np.array([theta + (1 - p) * spread, theta - p * spread]), np.array([p, 1 - p])
    yield np.array([theta]), np.ones(1)


def answers(mean: TwoStageMean) -> list[tuple[tuple[bool, ...], list[TwoStageEstimate]]]:
    """The estimates of all majorities of the first stage and all counts of the second one."""
    assert mean.tests is not None
    assert mean.group is not None
    left = mean.n - mean.tests * mean.group
    found = []
    for taken in itertools.product((False, True), repeat=mean.tests):
        first = np.repeat(np.array(taken, np.bool_), mean.group)
        found.append((taken, [mean.estimate(np.concatenate([first, np.arange(left) < count])) for count in range(left + 1)]))
    return found


def probabilities(mean: TwoStageMean, taken: tuple[bool, ...], points: Array, masses: Array) -> Array:
    """The probability of each count of the second stage, after these majorities."""
    flip, probability, low, high = 1 / (1 + math.exp(mean.epsilon)), 1.0, mean.lower, mean.upper
    for above in taken:
        middle = low + (high - low) / 2
        share = flip + (1 - 2 * flip) * float(masses @ (points > middle))
        wins = float(stats.binom.sf(mean.group // 2, mean.group, share))
        probability *= wins if above else 1 - wins
        low, high = (middle, high) if above else (low, middle)
    middle, left = low + (high - low) / 2, mean.n - mean.tests * mean.group
    clipped = float(masses @ np.clip(points - middle, -mean.level, mean.level))
    z0 = mean.level / math.tanh(mean.epsilon / 2)
    law: Array = probability * stats.binom.pmf(np.arange(left + 1), left, min(max((1 + clipped / z0) / 2, 0.0), 1.0))
    return law


def least_coverage(mean: TwoStageMean, confidence: float) -> float:
    """Over distributions about the ends of all intervals, the places where a majority is a toss, and the bounds."""
    ends = {taken: np.array([each.interval(confidence) for each in counts]) for taken, counts in answers(mean)}
    beyond = [np.nextafter(ends_[:, side], way) for ends_ in ends.values() for side, way in ((0, -np.inf), (1, np.inf))]
    chosen = np.random.default_rng(3).permutation(np.concatenate(beyond))[:12]
    middles = mean.lower + (mean.upper - mean.lower) * np.array([0.0, 0.25, 0.5, 0.5 + 1e-9, 0.625, 1.0])
    least = 1.0
    for theta in np.clip(np.concatenate([chosen, middles]), mean.lower, mean.upper).tolist():
        for points, masses in laws(theta, mean):
            covered = sum(
                float(probabilities(mean, taken, points, masses) @ ((low_high[:, 0] <= theta) & (theta <= low_high[:, 1])))
                for taken, low_high in ends.items()
            )
            least = min(least, covered)
    return least


@pytest.mark.parametrize(("place", "epsilon", "tests", "group", "left"), SETTINGS)
@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.some(8)
def test_intervals_of_two_stages_cover(place, epsilon, tests, group, left, level):
    mean = mean_of(place, epsilon, tests, group, left)
    confidence = min(level, 0.95 * (1 - mean.failure))
    assert confidence > 0.2
    assert least_coverage(mean, confidence) >= confidence - ROUNDING


def test_there_are_thirty_settings_of_each_kind():
    assert min(len(SETTINGS), len(SHARED)) >= 30


def test_an_interval_that_forgets_what_clipping_changes_does_not_cover(monkeypatch):
    """The broken twin: a second stage without its bias."""
    mean = mean_of("heavy tails", 20.0, 0, 0, 40)
    narrow = TwoStageMean(20.0, n=40, tests=0, **PLACES["heavy tails"])
    object.__setattr__(narrow, "_stages", type(mean._stages)(0, 0, 0.0, mean.radius, 0.0, 0.02, 0.0, 1.0))
    assert least_coverage(mean, 0.95) >= 0.95 - ROUNDING
    assert least_coverage(narrow, 0.95) < 0.9


def test_an_interval_pays_for_the_first_stage():
    """The confidence of the second stage is higher by what the first may miss; the sum is rounded up."""
    mean = mean_of("around 0", 2.0, 2, 9, 40)
    found = mean.estimate(np.arange(mean.n) % 2 == 0)
    assert mean.failure > 0.005
    widened = found.second.interval(math.nextafter(0.9 + mean.failure, 1.0))
    assert found.interval(0.9).tolist() == np.clip(widened, mean.lower, mean.upper).tolist()
    assert np.diff(found.second.interval(0.9)) < np.diff(widened)
    with pytest.raises(ParameterError, match=r"confidence must be below 1 − .* got 0\.999"):
        found.interval(0.999)
    certain = TwoStageMean(2.0, n=10**5, lower=-20.0, upper=20.0, kappa=2.0, C=1.0, tests=2, group=9001)
    assert 0 < certain.failure < 1e-10
    with pytest.raises(ParameterError, match="confidence must be below"):  # no confidence is left between this one and 1
        certain.estimate(np.zeros(10**5, np.bool_)).interval(1 - 2.0**-53)


# Several functionals under one ε

TABLES = [
    [[-1.0, 0.0, 1.0], [1.0, -0.5, 1.0], [0.0, 1.0, 0.0]],
    [[-1e9, 1e9, 0.0], [1e-9, 1e-9, -1e-9]],
]
SHARED = [
    (epsilon, n, split, which)
    for which in range(2)
    for epsilon in (1e-3, 1.0, 12.0)
    for n in (3, 4, 11)
    for split in ("records", "epsilon", "vector")
]
LAWS = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.2, 0.5, 0.3], [1e-9, 1 - 1e-9, 0.0], [0.5, 0.0, 0.5]]


def misses(design: SeveralFunctionals, confidence: float, *, joint: bool) -> Array:
    """The largest probability with which each interval misses, and that of their union at most, over some laws of the records."""
    k, most = len(design.parts), np.zeros(len(design.parts) + 1)
    counts = range(max(design.sizes) + 1)
    ends = [design.estimate(alike(design, count)).interval(confidence, joint=joint) for count in counts]
    for p in np.array(LAWS):
        own = np.array([miss(design, place, p, ends) for place in range(k)])
        most = np.maximum(most, [*own, own.sum()])
    return most


def miss(design: SeveralFunctionals, place: int, p: Array, ends: list[Array]) -> float:
    part, size = design.parts[place], design.sizes[place]
    table = np.array(part.ell)
    if design.vector is None:
        plus = part.channel.channel()[:, 1]
    else:
        values = np.stack([np.array(each.ell) for each in design.parts], axis=-1)
        plus = design.vector.channel(values) @ ((np.arange(2 ** len(design.parts)) >> place) & 1)
    law = stats.binom.pmf(np.arange(size + 1), size, min(max(float(p @ plus), 0.0), 1.0))
    theta = float(p @ table)
    out = np.array([not (ends[count][place, 0] <= theta <= ends[count][place, 1]) for count in range(size + 1)])
    return float(law @ out)


def alike(design: SeveralFunctionals, count: int) -> list[Aggregate]:
    """Counts of all reports, the same for all functionals as far as there are so many."""
    if design.vector is not None:
        return [Aggregate(design.vector, design.n, np.full(len(design.parts), count))]
    return [Aggregate(part.channel, n, np.array([min(count, n)])) for part, n in zip(design.parts, design.sizes, strict=True)]


@pytest.mark.parametrize(("epsilon", "n", "split", "which"), SHARED)
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.some(10)
def test_intervals_of_several_functionals_cover(epsilon, n, split, which, joint):
    design = SeveralFunctionals([LinearEstimator(table, 1.0, bias=0.0) for table in TABLES[which]], epsilon, n=n, split=split)
    for confidence in (0.5, 0.9, 1 - 2.0**-20):
        found = misses(design, confidence, joint=joint)
        assert found[-1 if joint else slice(-1)].max() <= 1 - confidence + ROUNDING


def test_intervals_that_hold_one_by_one_do_not_hold_together():
    """The broken twin: the same confidence for each of them."""
    design = SeveralFunctionals([LinearEstimator(table, 1.0, bias=0.0) for table in TABLES[0]], 12.0, n=30, split="epsilon")
    assert misses(design, 0.8, joint=True)[-1] <= 0.2 < misses(design, 0.8, joint=False)[-1]
