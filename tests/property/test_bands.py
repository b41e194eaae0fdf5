"""Bands and intervals of released distributions: their coverage by enumeration, or by the closed form of the noise. Each beside a twin."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.integrate import trapezoid

from dpcore import Privacy
from dpcore._spread import largest_sum_width
from dpcore.distributions import Box, Cells, DrawsRelease, HistogramRelease, SeriesRelease, _results, _simultaneous
from dpcore.distributions._simultaneous import ScoreLink, SmoothedLink, UrnLink
from support.ks import law, vectors

if TYPE_CHECKING:
    from collections.abc import Callable

BOX = Box.of((0.0, 1.0))
SHARES = (0.0, 1e-9, 0.5, 1.0)
TARGETS = ("sample", "population")


def histogram(n: int, epsilon: float, counts: Any) -> HistogramRelease:
    noisy = np.array(counts)
    masses = np.full(len(noisy), 1 / len(noisy))
    return HistogramRelease(Privacy(epsilon), n, BOX, Cells.of(len(noisy), BOX), noisy, masses)


def noise_law(epsilon: float, kind: str) -> Any:
    return stats.dlaplace(epsilon / 2) if kind == "i" else stats.laplace(scale=2 / epsilon)


def covered(holds: Callable[[float], int], kind: str, reach: float) -> tuple[float, float]:
    """The noises at which a band whose ends rise with the noise holds: `holds` is −1 where it is too low, 1 where it is too high."""

    def first(above: int) -> float:
        low, high = -reach, reach
        for _ in range(200):
            middle = math.floor((low + high) / 2) if kind == "i" else (low + high) / 2
            if high - low <= (1 if kind == "i" else 1e-13 * reach):
                break
            low, high = (low, middle) if holds(middle) >= above else (middle, high)
        return high

    return first(0), first(1)


def probability_of(ends: tuple[float, float], epsilon: float, kind: str) -> float:
    """P(first ≤ noise < beyond)."""
    found = noise_law(epsilon, kind)
    return float(found.cdf(ends[1] - 1) - found.cdf(ends[0] - 1)) if kind == "i" else float(found.cdf(ends[1]) - found.cdf(ends[0]))


def side(ends: Any, value: float) -> int:
    low, high = np.asarray(ends).tolist()
    return -1 if high < value else 1 if low > value else 0


def cdf_coverage(n: int, share: float, epsilon: float, kind: str, target: str, confidence: float) -> float:
    """The exact coverage of the band of two cells, the first of which has this probability, or for a sample the least over its counts."""
    found = []
    for count in range(n + 1):
        value = share if target == "population" else count / n

        def holds(z: float, count: int = count, value: float = value) -> int:
            first = count + z
            cells = np.array([int(first), 0]) if kind == "i" else np.array([first, 0.0])
            band = histogram(n, epsilon, cells).cdf_band(confidence, target=target)
            return side((band.lower[1], band.upper[1]), value)

        found.append(probability_of(covered(holds, kind, 200 / epsilon + 2 * n), epsilon, kind))
    weights = stats.binom.pmf(np.arange(n + 1), n, share)
    return float(weights @ found) if target == "population" else min(found)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 1 - 1e-6])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["i", "f"])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 20.0])
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("n", [1, 2, 3, 11])
@pytest.mark.some(14)
def test_a_band_of_two_cells_covers(n, share, epsilon, kind, target, confidence):
    assert cdf_coverage(n, share, epsilon, kind, target, confidence) >= confidence - 1e-9


def test_the_widths_are_those_of_the_theorems():
    """2e^(−2nd²) is the tail for draws, and e^(−2(A + 1)d²) for both sides of each of some masses of a beta law."""
    for n, tail in itertools.product((1, 7, 10**12), (0.9, 0.05, 1e-15)):
        assert 2 * math.exp(-2 * n * _simultaneous.dkw_width(n, tail) ** 2) == pytest.approx(tail, rel=1e-6)
        assert 2 * math.exp(-2 * n * _simultaneous.dkw_width(n, tail) ** 2) <= tail
        d = _simultaneous.dkw_width_of_beta(n, 5, tail)
        assert 5 * 2 * math.exp(-2 * (n + 1) * d**2) == pytest.approx(tail, rel=1e-6)


def test_the_two_walks_of_a_band_stay_within_its_width_at_once():
    """Three cells have a walk of one step from each end: the probability that either leaves has a closed form."""
    for scale, tail in itertools.product((0.1, 1.0, 2e6), (0.5, 0.05, 1e-9)):
        width = _simultaneous.count_sums_width("laplace", scale, 3, tail)
        alone = math.exp(-width / scale)
        assert tail / 1.5 <= alone * (2 - alone) <= tail


def test_bands_without_the_noise_or_without_the_sample_do_not_cover(monkeypatch):
    """Two broken twins: the width of the noise is 0, and the band of the sample is given for the population."""
    with monkeypatch.context() as broken:
        broken.setattr(_results, "count_sums_width", lambda *_: 0.0)
        assert cdf_coverage(11, 0.5, 1.0, "i", "sample", 0.95) < 0.5
    monkeypatch.setattr(_results, "dkw_width", lambda *_: 0.0)
    assert cdf_coverage(11, 0.5, 20.0, "i", "population", 0.95) < 0.9


@pytest.mark.parametrize("target", TARGETS)
def test_a_band_of_three_cells_covers_both_edges_at_once(target):
    epsilon, n, confidence = 4.0, 2, 0.9
    noise = np.arange(-9, 10)
    weights = noise_law(epsilon, "i").pmf(noise)
    shares = (0.5, 0.25, 0.25)
    total, least = 0.0, 1.0
    for counts in vectors(n, 3):
        values = np.cumsum(counts if target == "sample" else np.array(shares) * n)[:2] / n
        own = 0.0
        for (z, p), (w, q) in itertools.product(zip(noise, weights, strict=True), repeat=2):
            if p * q < 1e-8:  # these count as misses
                continue
            band = histogram(n, epsilon, np.array([counts[0] + z, counts[1], counts[2] + w])).cdf_band(confidence, target=target)
            own += p * q * bool(np.all((band.lower[1:3] <= values) & (values <= band.upper[1:3])))
        total, least = total + own * stats.multinomial.pmf(counts, n, shares), min(least, own)
    assert (least if target == "sample" else total) >= confidence


@pytest.mark.long
def test_the_largest_partial_sum_against_its_law():
    """Two Laplace numbers by quadrature, and more on a grid: both know no inequality."""
    assert largest_sum_width("laplace", 1.0, 1, 0.05) == pytest.approx(math.log(20.0))
    for tail in (0.3, 0.05, 1e-6):
        x = largest_sum_width("laplace", 1.0, 2, tail)
        beyond = 1 - 2 * integrate.quad(lambda z, x=x: math.exp(-z) / 2 * _within(x, z), 0.0, x, epsabs=1e-13)[0]
        assert tail / 3 <= beyond <= tail
    for tail, count in itertools.product((0.3, 0.05), (3, 6)):
        x = largest_sum_width("laplace", 1.0, count, tail)
        points = np.linspace(-x, x, 2001)
        step = np.exp(-np.abs(points[:, None] - points)) / 2 * (points[1] - points[0])
        step[:, [0, -1]] /= 2
        inside = np.exp(-np.abs(points)) / 2
        for _ in range(count - 2):
            inside = step @ inside
        beyond = 1 - float(trapezoid(inside * _within(x, points), points))
        assert tail / 3 <= beyond <= tail + 1e-3


def _within(x: float, z: Any) -> Any:
    """P(|z + Z| ≤ x) for |z| ≤ x."""
    return 1 - (np.exp(-(x - z)) + np.exp(-(x + z))) / 2


def test_the_largest_partial_sum_of_whole_noise():
    for scale, tail, count in itertools.product((0.1, 1.0, 4.0), (0.2, 1e-3), (2, 4)):
        h = largest_sum_width("discrete_laplace", scale, count, tail)
        z = np.arange(-int(h), int(h) + 1)
        steps = stats.dlaplace(1 / scale).pmf(z[:, None] - z)
        inside = stats.dlaplace(1 / scale).pmf(z)
        for _ in range(count - 1):
            inside = steps @ inside
        assert 1 - inside.sum() <= tail


@pytest.mark.parametrize("confidence", [0.5, 0.95])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["i", "f"])
@pytest.mark.parametrize(("n", "share", "epsilon"), [(1, 1e-9, 20.0), (2, 0.5, 1.0), (3, 0.0, 1e-3), (8, 0.3, 5.0)])
@pytest.mark.some(2)
def test_a_band_of_cell_averages_covers_all_cells(n, share, epsilon, kind, target, confidence):
    """The noises of the two cells are independent, so that the coverage is a product, given the counts."""
    total, least = 0.0, 1.0
    for count in range(n + 1):
        own = 1.0
        for cell, (held, p) in enumerate(((count, share), (n - count, 1 - share))):
            value = 2 * (p if target == "population" else held / n)

            def holds(z: float, cell: int = cell, held: int = held, value: float = value) -> int:
                noisy = [0, 0] if kind == "i" else [0.0, 0.0]
                noisy[cell] = held + (int(z) if kind == "i" else z)
                band = histogram(n, epsilon, noisy).density_band(confidence, target=target)
                return side(band(0.25 + 0.5 * cell), value)

            own *= probability_of(covered(holds, kind, 200 / epsilon + 2 * n), epsilon, kind)
        total, least = total + own * stats.binom.pmf(count, n, share), min(least, own)
    assert (total if target == "population" else least) >= confidence - 1e-9


# Draws


def drawn(counts: tuple[int, ...], n: int, link: Any) -> DrawsRelease:
    m = len(counts)
    points = np.repeat((np.arange(m) + 0.5) / m, counts)
    return DrawsRelease(Privacy(1.0), n, BOX, points, Cells.of(m, BOX), link=link)


def draws_coverage(law_of: Callable[[Any], dict[Any, float]], link: Any, shares: tuple[float, ...], n: int, target: str, c: float) -> float:
    """Coverage over draws, and over data of a population; the least over data for a sample."""
    total, least, m, bands = 0.0, 1.0, len(shares), {}
    for counts in vectors(n, m):
        values = np.cumsum(counts)[: m - 1] / n if target == "sample" else np.cumsum(shares)[: m - 1]
        own = 0.0
        for outcome, p in law_of(counts).items():
            band = bands.setdefault(outcome, drawn(outcome, n, link).cdf_band(c, target=target))
            own += p * bool(np.all((band.lower[1:m] <= values + 1e-12) & (values <= band.upper[1:m] + 1e-12)))
        total, least = total + own * stats.multinomial.pmf(counts, n, shares), min(least, own)
    return least if target == "sample" else total


def smoothed_law(k: int, smoothing: float) -> Callable[[Any], dict[Any, float]]:
    def of(counts: Any) -> dict[Any, float]:
        n, m = sum(counts), len(counts)
        p = (1 - smoothing) * np.array(counts) / n + smoothing / m
        return {outcome: float(stats.multinomial.pmf(outcome, k, p)) for outcome in vectors(k, m)}

    return of


def urn_law(k: int, prior: float) -> Callable[[Any], dict[Any, float]]:
    def of(counts: Any) -> dict[Any, float]:
        a = np.array(counts) + prior
        return {outcome: float(stats.dirichlet_multinomial.pmf(outcome, a, k)) for outcome in vectors(k, len(a))}

    return of


DRAWS = [
    *(
        (k, delta, shares, n)
        for k in (1, 9)
        for delta in (0.05, 0.9)
        for n in (1, 3)
        for shares in ((0.5, 0.5), (1e-9, 1 - 1e-9), (0.2, 0.3, 0.5))
    ),
    (3, 1.0, (0.5, 0.5), 2),
]


@pytest.mark.parametrize("confidence", [0.3, 0.8, 0.99])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("k", "delta", "shares", "n"), DRAWS)
@pytest.mark.some(4)
def test_bands_of_smoothed_draws_cover(k, delta, shares, n, target, confidence):
    assert draws_coverage(smoothed_law(k, delta), SmoothedLink(delta), shares, n, target, confidence) >= confidence


@pytest.mark.parametrize("confidence", [0.3, 0.8, 0.99])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("k", "prior", "shares", "n"), DRAWS)
@pytest.mark.some(3)
def test_bands_of_draws_from_a_posterior_cover(k, prior, shares, n, target, confidence):
    assert draws_coverage(urn_law(k, 10 * prior), UrnLink(10 * prior), shares, n, target, confidence) >= confidence


@pytest.mark.parametrize("confidence", [0.1, 0.8, 0.99])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("k", "epsilon", "shares", "n"),
    [
        (1, 20.0, (0.5, 0.5), 1),
        (3, 5.0, (0.0, 0.5, 0.5), 4),
        (2, 1e-3, (1.0, 0.0), 3),
        (3, 2.0, (0.3, 0.7), 30),
        (1, 700.0, (1e-9, 1 - 1e-9), 2),
        (4, 1.0, (0.25, 0.25, 0.5), 2),
    ],
)
@pytest.mark.some(3)
def test_bands_of_draws_near_in_distance_cover(k, epsilon, shares, n, target, confidence):
    assert draws_coverage(lambda data: law(data, epsilon, k), ScoreLink(epsilon), shares, n, target, confidence) >= confidence


class Unsolved(SmoothedLink):
    """A broken twin: the draws' own band, which is about the mixture."""

    def ends(self, shares: Any, k: int, n: int, tail: float) -> Any:
        d = _simultaneous.dkw_width(k, tail)
        return shares - d, shares + d


def test_broken_links_do_not_cover():
    assert draws_coverage(smoothed_law(40, 0.9), SmoothedLink(0.9), (0.5, 0.5), 3, "sample", 0.8) >= 0.8
    assert draws_coverage(smoothed_law(40, 0.9), Unsolved(0.9), (0.5, 0.5), 3, "sample", 0.8) < 0.5
    assert draws_coverage(lambda data: law(data, 0.5, 3), ScoreLink(0.5), (0.5, 0.5), 30, "sample", 0.8) >= 0.8
    # as if a larger score were as unlikely as at another ε: without k·ln m
    assert draws_coverage(lambda data: law(data, 0.5, 3), ScoreLink(30.0), (0.5, 0.5), 30, "sample", 0.8) < 0.8


# Series


def test_intervals_of_coefficients_cover():
    """Records at both ends: a coefficient is a binomial count, and the noise has a closed form, so its coverage is a sum."""
    for n, share, epsilon, confidence in itertools.product((1, 3, 50), (0.0, 1e-9, 0.5), (1e-3, 20.0), (0.5, 0.95)):
        scale = SeriesRelease(Privacy(epsilon), n, BOX, np.zeros(1))._scale() / n
        for target in TARGETS:
            half = reach_of(n, epsilon, confidence, target)
            found, weights = [], stats.binom.pmf(np.arange(n + 1), n, share)
            for count in range(n + 1):
                of_data = math.sqrt(2) * (n - 2 * count) / n
                value = of_data if target == "sample" else math.sqrt(2) * (1 - 2 * share)
                found.append(np.diff(stats.laplace.cdf([value - of_data - half, value - of_data + half], scale=scale))[0])
            coverage = min(found) if target == "sample" else float(weights @ found)
            assert coverage >= confidence - 1e-9, (n, share, epsilon, confidence, target)


def reach_of(n: int, epsilon: float, confidence: float, target: str) -> float:
    """Half the length of an interval of the first coefficient before it is cut to ±√2, which loses no true value."""
    released = SeriesRelease(Privacy(epsilon), n, BOX, np.array([0.0]))
    low, high = released.interval(confidence, target=target)[0]
    if high - low < 2 * math.sqrt(2):
        return float(high - low) / 2
    moved = [(1.5 - SeriesRelease(Privacy(epsilon), n, BOX, np.array([c])).interval(confidence, target=target)[0, 0]) for c in (1.5, 1e6)]
    return float(moved[0]) if moved[0] < 1.5 + math.sqrt(2) else math.inf


def band_coverage(terms: int, tail: float, width: float) -> float:
    """Share of 40,000 noises of scale 1 whose series stays within the width, on a fine grid."""
    noise = np.random.default_rng(terms).laplace(size=(40_000, terms))
    x = np.linspace(0, 1, 32 * terms + 1)
    basis = math.sqrt(2) * np.cos(math.pi * np.arange(1, terms + 1)[:, None] * x)
    return float(np.mean(np.abs(noise @ basis).max(axis=1) <= width))


@pytest.mark.parametrize("terms", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(7, marks=pytest.mark.long)])
def test_the_noise_of_a_series_stays_within_its_width(terms):
    for tail in (0.5, 0.05):
        width = _simultaneous.series_noise_width(1.0, terms, tail)
        share = band_coverage(terms, tail, width)
        misses = 40_000 - round(share * 40_000)
        assert stats.binomtest(misses, 40_000, tail, alternative="greater").pvalue > 1e-6
        at_a_point = math.sqrt(2 * terms) * float(stats.laplace.isf(tail / 2))  # the twin: as wide as one coefficient's noise
        if terms > 2:
            assert band_coverage(terms, tail, at_a_point / 2) < 1 - 1.5 * tail


def test_the_band_of_a_series_of_one_term_has_a_closed_form():
    """n records at 0 and 1, one term: the largest error is at the ends, √2 times that of the coefficient."""
    for n, share, epsilon, target in itertools.product((1, 3, 30), (0.0, 1e-9, 0.5), (1e-3, 20.0), TARGETS):
        released = SeriesRelease(Privacy(epsilon), n, BOX, np.zeros(1))
        half = float(np.diff(released.density_band(0.9, target=target)(0.3))[0]) / 2 / math.sqrt(2)
        scale, weights = released._scale() / n, stats.binom.pmf(np.arange(n + 1), n, share)
        found = []
        for count in range(n + 1):
            apart = 0.0 if target == "sample" else math.sqrt(2) * 2 * (count / n - share)
            found.append(np.diff(stats.laplace.cdf([apart - half, apart + half], scale=scale))[0])
        assert (min(found) if target == "sample" else float(weights @ found)) >= 0.9 - 1e-9


def test_the_grid_factor_bounds_a_polynomial_between_its_points():
    plain = np.random.default_rng(3)
    for terms in (1, 3, 20):
        coefficients = plain.normal(size=(50, terms))
        x = np.arange(8 * terms + 1) / (8 * terms)
        fine = np.linspace(0, 1, 256 * terms + 1)
        orders = np.arange(1, terms + 1)[:, None]
        on_grid, true = (np.abs(coefficients @ np.cos(math.pi * orders * points)).max(axis=1) for points in (x, fine))
        assert np.all(true <= on_grid * _simultaneous.GRID_FACTOR)
        squares = 2 * np.cos(math.pi * orders * x) ** 2
        assert np.all(_simultaneous.grid_squares(terms) >= squares.sum(axis=0))
        assert np.allclose(_simultaneous.grid_squares(terms), squares.sum(axis=0), atol=1e-5)
        kernel = 2 * np.cos(math.pi * orders * x).T @ np.cos(math.pi * orders * fine)
        reach = np.sqrt(2 * terms * squares.sum(axis=0))
        assert np.all(kernel.max(axis=1) <= reach + 1e-9)
        assert np.all(kernel.min(axis=1) >= -np.minimum(reach, 0.385 * (2 * terms + 1) + 1) - 1e-9)
