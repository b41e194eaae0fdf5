"""Intervals of θ that are inverted from tests: their coverage by enumeration of all counts, in exact rationals."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dpcore.minimax import BinarySearchEstimator, LinearEstimator, Model, event_probability
from dpcore.minimax.linear.counts import biased_region
from dpcore.minimax.spaces import inversion

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.minimax.search.search import Search

LEVELS = (0.5, 0.95, 1 - 2.0**-20)


def multinomial(counts: tuple[int, ...], shares: list[Fraction]) -> Fraction:
    ways = math.factorial(sum(counts))
    total = Fraction(1)
    for count, share in zip(counts, shares, strict=True):
        ways //= math.factorial(count)
        total *= share**count
    return ways * total


def compositions(n: int, k: int) -> list[tuple[int, ...]]:
    return [c for c in itertools.product(range(n + 1), repeat=k) if sum(c) == n]


def coverage(outcomes: list[tuple[int, ...]], ends: npt.NDArray[np.float64], shares: list[Fraction], theta: Fraction) -> Fraction:
    """P(lower ≤ θ ≤ upper) for counts of reports with these probabilities."""
    hits = (multinomial(counts, shares) for counts, (low, high) in zip(outcomes, ends.tolist(), strict=True) if low <= theta <= high)
    return sum(hits, Fraction(0))


def images(matrix: npt.NDArray[np.float64], f: list[float]) -> list[tuple[list[Fraction], Fraction]]:
    """The law of a report and θ, for all points and for mixtures of two of them in many shares: exactly."""
    rows = [[Fraction(x) for x in row] for row in matrix.tolist()]
    rows = [[*row[:-1], 1 - sum(row[:-1])] for row in rows]
    found = []
    for i, j in itertools.combinations_with_replacement(range(len(rows)), 2):
        for part in range(9 if i < j else 1):
            share = Fraction(part, 8)
            law = [(1 - share) * a + share * b for a, b in zip(rows[i], rows[j], strict=True)]
            found.append((law, (1 - share) * Fraction(f[i]) + share * Fraction(f[j])))
    return found


def response(epsilon: float, tilts: list[float]) -> npt.NDArray[np.float64]:
    """Rows P(−), P(+) of a binary channel."""
    t = math.tanh(epsilon / 2)
    return np.array([[(1 - t * x) / 2, (1 + t * x) / 2] for x in tilts])


BINARY = [
    *((n, response(epsilon, [-1.0, -0.25, 1.0]), [0.0, 1.0, 4.0]) for n in (1, 2, 3) for epsilon in (1e-3, 1.0, 20.0)),
    *((n, response(epsilon, [1.0, -1.0, 1.0, 0.0]), [0.0, 0.0, 1.0, 0.5]) for n in (1, 3, 9) for epsilon in (0.1, 20.0)),  # θ says little
    *((n, np.array([[1.0, 0.0], [1 - 1e-9, 1e-9], [0.5, 0.5]]), [0.0, 1.0, 2.0]) for n in (1, 2, 30)),
    *((n, np.array([[1.0, 0.0], [0.0, 1.0]]), [-1.0, 1.0]) for n in (1, 2, 3, 17)),  # open data
    *((n, np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]), [1e9, 1e9 + 1.0, 1e9 + 0.5]) for n in (1, 12)),  # falls, far from 0
    *((n, np.array([[0.5, 0.5], [0.5, 0.5]]), [0.0, 1.0]) for n in (1, 5)),  # reports say nothing
    *((n, response(2.0, [-1.0, -0.5, 0.5, 1.0]), [0.0, 1e-9, 2e-9, 3e-9]) for n in (2, 25)),
    (3, np.array([[1.0, 0.0], [1.0, 0.0]]), [0.0, 1.0]),
    (40, response(1.0, [-1.0, 0.0, 1.0]), [-1.0, 0.0, 1.0]),
]


def estimator_of(n: int, matrix: npt.NDArray[np.float64], f: list[float]) -> BinarySearchEstimator:
    return BinarySearchEstimator(Model(f), matrix, n=n, step=(max(f) - min(f)) / 3.5)


def search_of(n: int, matrix: npt.NDArray[np.float64], f: list[float]) -> Search:
    return estimator_of(n, matrix, f)._search


def worst_of_binary(n: int, matrix: npt.NDArray[np.float64], f: list[float], confidence: float) -> Fraction:
    ends = search_of(n, matrix, f).inverted(np.arange(n + 1), inversion.rejected_share(confidence))
    outcomes = [(n - plus, plus) for plus in range(n + 1)]
    return min(coverage(outcomes, ends, law, theta) for law, theta in images(matrix, f))


@pytest.mark.parametrize("confidence", LEVELS)
@pytest.mark.parametrize(("n", "matrix", "f"), BINARY)
@pytest.mark.some(21)
def test_intervals_of_a_binary_search_cover(n, matrix, f, confidence):
    assert worst_of_binary(n, matrix, f, confidence) >= Fraction(confidence)


def test_a_tail_that_is_spent_on_both_sides_does_not_cover(monkeypatch):
    """The broken twin: 1 − confidence on each side, as if the count could err to one side only."""

    def one_sided(n: int, count: int, low: Any, high: Any, highest: Any) -> Any:
        return inversion.at_least(count, n, highest)

    def other_side(n: int, count: int, lowest: Any, low: Any, high: Any) -> Any:
        return inversion.below(count + 1, n, lowest)

    monkeypatch.setattr(inversion, "_too_many", one_sided)
    monkeypatch.setattr(inversion, "_too_few", other_side)
    monkeypatch.setattr(inversion, "share_limits", lambda hits, n, rate: (0.0, 1.0))
    assert min(worst_of_binary(n, matrix, f, 0.95) for n, matrix, f in BINARY if 8 < n < 30) < Fraction(0.95)


def test_one_side_gets_almost_everything_where_the_range_of_q_is_wide():
    """θ is known from P(+) up to much: both envelopes are apart, so the ends are those of one-sided bounds."""
    n, model = 10_000, Model.hull([0.0, 0.0, 1.0, 1.0], np.eye(4))
    matrix = response(1.0, [-1.0, 0.0, 0.0, 1.0])
    search = BinarySearchEstimator(model, matrix, n=n, step=0.3)._search
    plus = 6_500
    low, high = search.inverted(np.array([plus]), 0.05)[0]
    one_sided = inversion._over_shares(search.polygon, *inversion.share_limits(plus, n, 0.05))
    two_sided = inversion._over_shares(search.polygon, *inversion.share_limits(plus, n, 0.025))
    assert two_sided[0] < low < high
    assert high == pytest.approx(1.0)
    unit = 2.0**search.frame.exponent
    assert search.frame.origin + unit * one_sided[0] - low < 0.1 * unit * (one_sided[0] - two_sided[0])


KARY = [
    *(
        (n, np.array([[w, 1.0, 1.0], [1.0, w, 1.0], [1.0, 1.0, w]]) / (w + 2), [0.0, 1.0, 3.0])
        for n in (1, 2, 3)
        for w in (1.001, 3.0, 1e8)
    ),
    *((n, np.eye(3), [0.0, 1.0, 2.0]) for n in (1, 2, 6)),
    *((n, np.array([[1.0, 0.0, 0.0], [1 - 1e-9, 1e-9, 0.0], [0.25, 0.25, 0.5]]), [1.0, 0.0, 0.5]) for n in (1, 5)),
    *((n, np.array([[3.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 3.0]]) / 6, [-1e-9, 1e-9]) for n in (2, 4)),
    *((n, np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.5, 0.25, 0.25]]), [0.0, 1.0, 1.0]) for n in (1, 4, 8)),  # θ says little
    *((n, np.array([[1 - 2e-12, 1e-12, 1e-12], [1 - 1e-3, 0.0, 1e-3]]), [0.0, 1.0]) for n in (1, 3, 20)),  # rare reports
    *((n, np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]]), [1e9, 1e9 + 1.0, 1e9 + 3.0]) for n in (1, 2, 6)),  # far from 0
    *((n, np.full((2, 3), 0.25) + np.array([[0.25, 0.0, 0.0]]), [0.0, 1.0]) for n in (1, 5)),  # reports say nothing
    *(
        (n, np.array([[4.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 4.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 4.0]]) / 8, [1.0, 0.0, -1.0])
        for n in (1, 3)
    ),
    (14, np.array([[3.0, 1.0, 1.0], [1.0, 3.0, 1.0], [1.0, 1.0, 3.0], [2.0, 2.0, 1.0]]) / 5, [0.0, 1.0, 2.0, 5.0]),
]


def worst_of_kary(n: int, matrix: npt.NDArray[np.float64], f: list[float], confidence: float) -> Fraction:
    outcomes = compositions(n, matrix.shape[1])
    ends = search_of(n, matrix, f).inverted(np.array(outcomes), inversion.rejected_share(confidence))
    return min(coverage(outcomes, ends, law, theta) for law, theta in images(matrix, f))


@pytest.mark.parametrize("confidence", LEVELS)
@pytest.mark.parametrize(("n", "matrix", "f"), KARY)
@pytest.mark.some(6)
def test_intervals_of_a_search_of_many_outcomes_cover(n, matrix, f, confidence):
    assert worst_of_kary(n, matrix, f, confidence) >= Fraction(confidence)


def test_two_reports_that_hardly_lie_need_half_of_the_level_for_each_side():
    """Markov's inequality is nearly an equality here: an e-value at the whole level misses too often."""
    matrix = np.array([[1e8, 1.0, 1.0], [1.0, 1e8, 1.0], [1.0, 1.0, 1e8]]) / (1e8 + 2)
    assert worst_of_kary(2, matrix, [0.0, 1.0, 3.0], 0.5) >= Fraction(1, 2)


def test_an_expectation_over_a_part_of_the_model_does_not_cover(monkeypatch):
    """The broken twin: E r under the two ends of the model only, instead of every member with this θ."""
    n, matrix, f = 9, np.array([[3.0, 1.0, 1.0], [1.0, 1.0, 3.0], [1.0, 3.0, 1.0]]) / 5, [0.0, 1.0, 0.5]
    matrix[2] = [0.0, 0.1, 0.9]  # a member in the middle whose reports look like those of the upper end
    assert worst_of_kary(n, matrix, f, 0.5) >= Fraction(1, 2)
    of = inversion.RatioIntervals.of
    monkeypatch.setattr(inversion.RatioIntervals, "of", lambda model, matrix, logs: of(Model(model.f[:2]), matrix[:2], logs))
    assert worst_of_kary(n, matrix, f, 0.5) < Fraction(1, 2)


def test_every_kind_of_interval_has_thirty_settings():
    assert min(len(BINARY), len(KARY), len(ON_MODELS)) >= 30


def worst_of_margins(n: int, matrix: npt.NDArray[np.float64], f: list[float], confidence: float) -> Fraction:
    outcomes = compositions(n, matrix.shape[1])
    estimator = estimator_of(n, matrix, f)
    ends = estimator.interval(estimator.estimate(np.array(outcomes)), confidence)
    return min(coverage(outcomes, ends, law, theta) for law, theta in images(matrix, f))


@pytest.mark.parametrize("confidence", LEVELS)
@pytest.mark.parametrize(("n", "matrix", "f"), [*BINARY, *KARY])
@pytest.mark.some(12)
def test_estimates_with_their_margins_cover(n, matrix, f, confidence):
    assert worst_of_margins(n, matrix, f, confidence) >= Fraction(confidence)


def test_a_margin_of_one_step_does_not_cover(monkeypatch):
    """The broken twin: Δ, whatever the confidence is."""
    monkeypatch.setattr(BinarySearchEstimator, "margin", lambda self, confidence: self.step)
    assert min(worst_of_margins(n, matrix, f, 0.95) for n, matrix, f in BINARY if n < 10) < Fraction(1, 2)


ON_MODELS = [
    (n, epsilon, ell, f, center)
    for ell, f, center in (
        ([-1.0, -0.5, 0.5, 1.0], [-1.0, -0.9, 0.1, 1.0], 0.0),  # a bias in the middle
        ([0.0, 1.0, 0.0], [0.0, 0.0, 5.0], 1.0),  # θ says little about E ℓ
        ([1e-9, -1e-9], [1e9, 1e9 + 2e-7], 1e9),  # far from 0, and falling
        ([-1e12, 1e12, 0.0], [-1.0, 1.0, 0.0], 0.0),
    )
    for epsilon in (1e-3, 1.0, 20.0)
    for n in (1, 2, 17)
]


def worst_on_model(n: int, epsilon: float, ell: list[float], f: list[float], center: float, confidence: float) -> Fraction:
    on_model = LinearEstimator(ell, epsilon, center=center).on(Model(f), n=n)
    ends = on_model.interval(np.arange(n + 1), confidence)
    outcomes = [(n - c, c) for c in range(n + 1)]
    return min(coverage(outcomes, ends, law, theta) for law, theta in images(on_model.channel, f))


@pytest.mark.parametrize("confidence", LEVELS)
@pytest.mark.parametrize(("n", "epsilon", "ell", "f", "center"), ON_MODELS)
@pytest.mark.some(9)
def test_intervals_of_a_linear_estimator_on_a_model_cover(n, epsilon, ell, f, center, confidence):
    assert worst_on_model(n, epsilon, ell, f, center, confidence) >= Fraction(confidence)


@pytest.mark.parametrize("bias", [0.0, 0.125, 4.0])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 20.0])
@pytest.mark.parametrize("n", [1, 2, 3, 24])
@pytest.mark.some(5)
def test_intervals_of_a_linear_estimator_cover_whatever_the_bias_is(n, epsilon, bias):
    estimator = LinearEstimator([-1.0, 0.5, 1.0], epsilon, bias=bias, center=0.25)
    z0 = Fraction(estimator.channel.z0)
    for confidence in LEVELS:
        ends = estimator.interval(np.arange(n + 1), confidence, n=n)
        for mean in (-1.0, -1 + 1e-9, 0.0, 0.5, 1.0):
            plus = (1 + Fraction(mean) / z0) / 2
            for b in (-bias, 0.0, bias):
                theta = Fraction(0.25) + Fraction(mean) + Fraction(b)
                outcomes = [(n - c, c) for c in range(n + 1)]
                assert coverage(outcomes, ends, [1 - plus, plus], theta) >= Fraction(confidence)


def test_an_interval_without_the_bias_does_not_cover():
    estimator = LinearEstimator([-1.0, 1.0], 1.0, bias=0.0)
    n, theta, plus = 24, Fraction(3, 2), (1 + Fraction(1) / Fraction(estimator.channel.z0)) / 2
    outcomes = [(n - c, c) for c in range(n + 1)]
    ends = np.clip(estimator.interval(np.arange(n + 1), 0.95, n=n), -9, 9)
    assert coverage(outcomes, ends, [1 - plus, plus], theta) < Fraction(1, 2)  # of a θ that the bias 1/2 hides
    known = replace(estimator, bias=0.5).interval(np.arange(n + 1), 0.95, n=n)
    assert coverage(outcomes, known, [1 - plus, plus], theta) >= Fraction(19, 20)


def test_the_region_of_a_bias_holds_its_corners():
    channel = LinearEstimator([-2.0, 1.0], 0.7).channel
    polygon, frame = biased_region(channel, 5.0, 0.5)
    for mean, b in itertools.product((-2.0, 0.0, 2.0), (-0.5, 0.5)):
        theta, q = frame.standard_difference(mean + b), (1 + mean / channel.z0) / 2
        low, high = polygon.range_over(np.array([theta]), np.array([theta]))
        assert low[0] <= q <= high[0]
        widest = (channel.norm + 0.5 - abs(mean + b)) / channel.z0 / 2
        assert high[0] - low[0] <= min(0.5 / channel.z0, widest) + 1e-12


def test_the_model_knows_more_than_the_largest_bias():
    """On a model, θ near the end of its range has no bias, so its interval is shorter than that of the estimator."""
    ell, f = [-1.0, -0.5, 0.5, 1.0], [-1.0, -0.9, 0.1, 1.0]
    linear = LinearEstimator(ell, 1.0)
    on_model = linear.on(Model(f), n=60)
    known = replace(linear, bias=on_model.bias)
    counts = np.arange(0, 61, 5)
    own, general = np.diff(on_model.interval(counts)), np.diff(known.interval(counts, n=60))
    assert np.all(own <= general + 1e-9)
    assert own.mean() < 0.9 * general.mean()
    matrix = on_model.channel
    outcomes = [(60 - c, c) for c in range(61)]
    ends = on_model.interval(np.arange(61))
    for law, theta in images(matrix, f)[::7]:
        assert coverage(outcomes, ends, law, theta) >= Fraction(0.95)


def test_intervals_of_an_event_are_those_of_clopper_and_pearson():
    """Without a bias the range of q is a point, and both sides have half of 1 − confidence, up to the strips."""
    share = event_probability([False, True], 2.0)
    n, plus = 100, 44
    low, high = share.interval(plus, 0.9, n=n)
    z0 = share.channel.z0
    for end, counts in ((low, range(plus, n + 1)), (high, range(plus + 1))):
        tail = sum(multinomial((n - c, c), _law(end, z0)) for c in counts)
        assert 0 < end < 1
        assert Fraction(45, 1000) < tail <= Fraction(1, 20)
    reports = np.arange(n) < plus
    assert share.estimate(reports).interval(0.9).tolist() == [low, high]


def _law(theta: float, z0: float) -> list[Fraction]:
    plus = (1 + (Fraction(theta) - Fraction(1, 2)) / Fraction(z0)) / 2
    return [1 - plus, plus]
