"""Laws of series releases and of exponential mechanisms for densities, each with a broken twin that the same test rejects."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from dpcore import Privacy, _backend, distributions, noise
from dpcore._exact.intervals import Interval, exactly, log, sqrt
from dpcore.distributions import _rejection
from dpcore.distributions._choices import Uniforms, unit_floats
from dpcore.distributions._cosine_distances import largest_square
from dpcore.distributions._rejection import Trials, accepted, first_accepted, is_accepted
from dpcore.distributions._series_distance import SeriesDistance
from dpcore.distributions._tilted_draws import Tilt, _root_down, tilt_of, tilted_trials
from dpcore.distributions.series import SeriesRelease, cosine_totals, series_scale
from dpcore.testing import KeyedRandom
from support.densities import GRID, cosines, primitive, series
from support.kernels import KEY
from support.laws import ERROR_RATE, interval_masses, p_value

CALLS = 8_000
BINS = 24


def rng() -> KeyedRandom:
    return KeyedRandom(KEY)


def histogram(draws, bins: int = BINS) -> np.ndarray:
    """Counts of draws in equal bins of [0, 1]."""
    return np.histogram(draws, bins, (0.0, 1.0))[0]


# Orthogonal series: the noise, and the records


def noise_counts(coefficients: np.ndarray, x: float, scale: float, edges: np.ndarray) -> np.ndarray:
    """How often the noise on the coefficients of one record, in units of the scale, falls between the edges."""
    exact = cosines([x], len(coefficients))[0].astype(float) * GRID
    return np.histogram((coefficients - exact) / scale, edges)[0]


def test_the_noise_of_the_coefficients():
    """65,536 coefficients of one record at once."""
    terms, x, epsilon = 2**16, 0.3, 2.0
    released = distributions.orthogonal_series([x], epsilon, (0, 1), terms=terms, rng=rng())
    edges = np.concatenate([[-np.inf], np.linspace(-6, 6, 61), [np.inf]])
    masses = interval_masses(edges, "laplace")
    scale = 1.217243 * math.sqrt(2) * terms / epsilon
    assert p_value(noise_counts(released.coefficients, x, scale, edges), masses) > ERROR_RATE
    # a twin with the scale that the document prints
    exact = cosines([x], terms)[0].astype(float) * GRID
    printed = noise.laplace(exact, math.sqrt(2) * terms / epsilon, rng=rng())
    assert p_value(noise_counts(printed, x, scale, edges), masses) < ERROR_RATE


def test_noise_is_divided_by_the_number_of_records():
    x, terms = np.random.default_rng(0).random(1000), 4000
    released = distributions.orthogonal_series(x, 1.0, (0, 1), terms=terms, rng=rng())
    exact = np.array(cosine_totals(x, distributions.Box.of((0, 1)), terms), float) * GRID
    edges = np.concatenate([[-np.inf], np.linspace(-5, 5, 21), [np.inf]])
    counts = np.histogram((released.coefficients * 1000 - exact) / series_scale(1.0, terms), edges)[0]
    assert p_value(counts, interval_masses(edges, "laplace")) > ERROR_RATE


@pytest.mark.long
@pytest.mark.parametrize("coefficients", [(0.9,), (1.4, -0.8, 0.6, 2.0), (0.2, 0.1)])
def test_records_of_a_cut_series(coefficients):
    b = np.array(coefficients)
    found = SeriesRelease(Privacy(1.0), 10, distributions.Box.of((0, 1)), b)
    edges = np.linspace(0, 1, 201)
    masses = np.diff(found.cdf(edges))
    draws = found.sample(10**6, rng=rng())
    assert p_value(histogram(draws, 200), masses) > ERROR_RATE
    # a twin that takes |f| for the density, as rejection with a forgotten sign would; without negative parts it is the same
    fine = np.abs(series(b, (np.arange(200_000) + 0.5) / 200_000)).reshape(200, 1000).sum(axis=1)
    wrong = np.random.default_rng(1).choice(200, 10**6, p=fine / fine.sum())
    negative = series(b, edges).min() < 0
    assert (p_value(np.bincount(wrong, minlength=200), masses) < ERROR_RATE) == negative
    # and the distribution function is the sum of sines where nothing is cut
    assert negative or np.abs(np.diff(primitive(b, edges)) - masses).max() < 1e-14


# The exponential mechanism with the distance of series


def own_distance(terms: int, k: int, terms_k: int, epsilon: float, x=(0.0, 0.05, 0.1, 0.8)) -> SeriesDistance:
    return SeriesDistance(_backend.cosine_sums(np.array(x), terms, threads=1), len(x), k, terms_k, epsilon)


def density_masses(own: SeriesDistance, bins: int) -> np.ndarray:
    """Masses of bins of [0, 1]^k under density ∝ e^(−E), from the real cosines, by the midpoint rule: shape (bins,)*k, k ≤ 2."""
    per, n = (400, own.n) if own.k == 1 else (12, own.n)
    z = (np.arange(bins * per) + 0.5) / (bins * per)
    size = max(len(own.totals), own.draw_terms)
    target = np.zeros(size)
    target[: len(own.totals)] = np.array(own.totals, float) * GRID / n
    waves = np.zeros((len(z), size))
    waves[:, : own.draw_terms] = math.sqrt(2) * np.cos(np.pi * z[:, None] * np.arange(1, own.draw_terms + 1))
    means = waves if own.k == 1 else (waves[:, None, :] + waves[None, :, :]) / 2
    delta = math.sqrt(largest_square(len(own.totals))) * GRID / n
    weights = np.exp(-own.epsilon * np.sqrt(((means - target) ** 2).sum(axis=-1)) / (2 * delta))
    shape = (bins, per) if own.k == 1 else (bins, per, bins, per)
    masses = weights.reshape(shape).sum(axis=(1,) if own.k == 1 else (1, 3))
    return masses / masses.sum()


def l2_draws(own: SeriesDistance, calls: int, draw: Callable | None = None) -> np.ndarray:
    """First accepted candidates of many calls: shape (calls, k)."""
    stream, tilt = rng(), tilt_of(own)
    make = draw or (lambda size: tilted_trials(own, tilt, size, stream))
    return np.array([first_accepted(make, own.k * own.draw_terms, rng=stream) for _ in range(calls)])


def cell_counts(draws: np.ndarray, bins: int) -> np.ndarray:
    """Counts of the cells of [0, 1]^k."""
    return np.histogramdd(draws, bins, [(0.0, 1.0)] * draws.shape[1])[0].ravel()


@pytest.mark.long
@pytest.mark.parametrize(("terms", "terms_k", "k", "bins"), [(1, 1, 1, 24), (3, 2, 1, 24), (2, 2, 2, 6)])
def test_the_law_of_the_l2_mechanism(terms, terms_k, k, bins):
    own = own_distance(terms, k, terms_k, 6.0)
    masses = density_masses(own, bins).ravel()
    assert p_value(cell_counts(l2_draws(own, CALLS), bins), masses) > ERROR_RATE
    # a twin with the printed exponent, which is twice ours
    twice = own_distance(terms, k, terms_k, 12.0)
    assert p_value(cell_counts(l2_draws(twice, CALLS // 4), bins), masses) < ERROR_RATE
    # a twin that takes no account of the density that its draws have
    assert p_value(cell_counts(l2_draws(own, CALLS // 4, unthinned(own, rng())), bins), masses) < ERROR_RATE


def unthinned(own: SeriesDistance, stream: KeyedRandom) -> Callable:
    """Trials of tilted draws that are accepted with probability e^(least E − E), as uniform draws could be."""
    tilt, least = tilt_of(own), _root_down(own.rate_square * own.beyond_square)
    assert any(tilt.slopes)

    def draw(size: int) -> Trials:
        candidates = tilted_trials(own, tilt, size, stream).candidates
        sums = _backend.rounded_cosines(candidates.ravel(), own.draw_terms).reshape(size, own.k, own.draw_terms).sum(axis=1)
        exact = lambda index: lambda precision: sqrt(Interval.of(own.square(sums[index]), precision)) - least  # noqa: E731
        return Trials(candidates, own.exponents(sums) - float(least), own.error() + 1e-15, exact)

    return draw


@pytest.mark.parametrize(("k", "bins"), [(1, 24), (2, 6)])
@pytest.mark.parametrize("x", [(0.0,) * 12, (0.2,) * 8 + (0.9,) * 4], ids=["a point", "two points"])
def test_the_law_where_tilts_are_steep(x, k, bins):
    """Data far from uniform: every trial of a large batch that is accepted has the law, with or without others before it."""
    own, stream = own_distance(2, k, 1, 3.0, x), rng()
    masses, tilt = density_masses(own, bins).ravel(), tilt_of(own)

    def draws(make: Callable) -> np.ndarray:
        trials = make(30_000)
        return trials.candidates[accepted(trials, Uniforms(stream))]

    assert p_value(cell_counts(draws(lambda size: tilted_trials(own, tilt, size, stream)), bins), masses) > ERROR_RATE
    assert p_value(cell_counts(draws(unthinned(own, stream)), bins), masses) < ERROR_RATE


def test_the_best_of_a_batch_has_another_law():
    """A twin that makes the most of the trials it has: the candidate of least E."""
    own = own_distance(2, 1, 2, 8.0)
    masses, stream, tilt = density_masses(own, BINS).ravel(), rng(), tilt_of(own)

    def best() -> np.ndarray:
        trials = tilted_trials(own, tilt, 64, stream)
        return trials.candidates[np.argmin(trials.exponents)]

    wrong = np.array([best() for _ in range(CALLS // 4)])
    assert p_value(cell_counts(wrong, BINS), masses) < ERROR_RATE


@pytest.mark.long
def test_the_public_function_has_this_law():
    x, calls = np.array([0.0, 0.05, 0.1, 0.8]), 3000
    own, stream = own_distance(2, 1, 2, 4.0), rng()
    draws = np.array([distributions.l2_exponential(x, 4.0, (0, 1), draws=1, terms=2, rng=stream).draws for _ in range(calls)])
    assert p_value(cell_counts(draws, BINS), density_masses(own, BINS).ravel()) > ERROR_RATE
    scaled = np.array(
        [distributions.l2_exponential(x * 9 - 3, 4.0, draws=1, terms=2, bounds=(-3, 6), rng=stream).draws for _ in range(calls)]
    )
    assert p_value(cell_counts((scaled + 3) / 9, BINS), density_masses(own, BINS).ravel()) > ERROR_RATE


def slow_draws(tilt: Tilt, count: int, stream: KeyedRandom) -> list[float]:
    """Draws one after the other, on floats."""
    found: list[float] = []
    while len(found) < count:
        size = max(256, 2 * (count - len(found))) if tilt.top else count
        z = unit_floats((size,), rng=stream)
        words = Uniforms(stream).words(size).tolist() if tilt.top else [0] * size
        waves = cosines(z, len(tilt.slopes)) * GRID
        logs = [sum(float(t) * w for t, w in zip(tilt.slopes, wave, strict=True)) - float(tilt.top) for wave in waves]
        found += [at for at, word, log in zip(z.tolist(), words, logs, strict=True) if word / 2**64 < math.exp(log)]
    return found[:count]


def slow_first_accepted(own: SeriesDistance, stream: KeyedRandom) -> list[float]:
    """Trials one after the other, in batches of 64, 128, …, on floats."""
    size, tilt = 64, tilt_of(own)
    while True:
        candidates = np.array(slow_draws(tilt, size * own.k, stream)).reshape(size, own.k)
        for z, word in zip(candidates, Uniforms(stream).words(size).tolist(), strict=True):
            sums = cosines(z, own.draw_terms).sum(axis=0)
            own_sums = [*own.totals, *[0] * own.draw_terms]
            products = (
                float(t) * (own.k * s / own.n - int(other)) * GRID for t, s, other in zip(tilt.slopes, own_sums, sums, strict=False)
            )
            if word / 2**64 < math.exp(sum(products) + float(tilt.floor) - math.sqrt(own.square(sums))):
                return z.tolist()
        size *= 2


@pytest.mark.parametrize("x", [(0.0, 0.05, 0.1, 0.8), (0.0,) * 30, (0.0, 1.0) * 3])
def test_the_first_accepted_trial_is_taken(x):
    own = own_distance(3, 2, 2, 4.0, x)
    tilt = tilt_of(own)
    for call in range(20):
        stream = KeyedRandom(KEY).at(1000 * call)
        fast = first_accepted(lambda size, stream=stream: tilted_trials(own, tilt, size, stream), 6, rng=stream)
        assert fast.tolist() == slow_first_accepted(own, KeyedRandom(KEY).at(1000 * call))


@pytest.mark.long
def test_every_decision_in_intervals_gives_the_same_draws(monkeypatch):
    own = own_distance(2, 2, 3, 8.0)
    fast = l2_draws(own, 60)
    monkeypatch.setattr(_rejection, "_ROUNDING", 2.0)  # nothing is certain on floats
    assert np.array_equal(l2_draws(own, 60), fast)


def test_what_floats_leave_open_is_decided_by_further_bits():
    """Probabilities at the very word of the uniform number: the words that follow decide, and so does a bound a hair away."""
    uniforms = Uniforms(rng())
    for index, word in enumerate(uniforms.words(50).tolist()):
        tail = uniforms[index].at(320)
        further = exactly(tail.low)
        assert Fraction(word, 2**64) <= further <= Fraction(word + 1, 2**64)
        for shift, below in ((Fraction(1, 2**200), True), (-Fraction(1, 2**200), False)):
            bound = further + shift

            def exponent(precision: int, bound: Fraction = bound) -> Interval:
                return -log(Interval.of(bound, precision))

            assert is_accepted(uniforms[index], exponent) == below
            at_float = Trials(np.zeros(50), np.full(50, -math.log(bound)), 0.0, lambda _: exponent)
            gap = word * 2.0**-64 - math.exp(-float(at_float.exponents[index]))
            assert abs(gap) < _rejection._ROUNDING  # so that the margin of the fast path does leave it open


# Wasserman & Zhou (2010), Eq. 2


def mean_of_two(r: int) -> tuple[np.ndarray, float, Callable]:
    """Section 5.2 for two records in [0, 1]^r: the mean, the sensitivity, and ξ."""
    mean = np.array([0.9, 0.2])[:r]
    return mean, r * (1 - 1 / 4), lambda z: ((np.asarray(z).reshape(len(z), r) - mean) ** 2).sum(axis=1)


def square_masses(mean: np.ndarray, rate: float, bins: int) -> np.ndarray:
    """Masses of bins under ∏ exp(−rate·(z_a − mean_a)²), by the midpoint rule."""
    z = (np.arange(bins * 200) + 0.5) / (bins * 200)
    axes = [np.exp(-rate * (z - m) ** 2).reshape(bins, 200).sum(axis=1) for m in mean]
    masses = axes[0] if len(axes) == 1 else np.outer(axes[0], axes[1]).ravel()
    return masses / masses.sum()


@pytest.mark.long
@pytest.mark.parametrize(("r", "bins"), [(1, 24), (2, 5)])
def test_eq_2_on_a_box(r, bins):
    mean, sensitivity, score = mean_of_two(r)
    epsilon, stream = 8.0, rng()

    def run(loss: float, calls: int) -> np.ndarray:
        draws = [
            distributions.exponential_density(score, loss, sensitivity, bounds=([0] * r, [1] * r), largest=r, rng=stream, max_trials=10**9)
            for _ in range(calls)
        ]
        return cell_counts(np.array(draws).reshape(calls, r), bins)

    masses = square_masses(mean, epsilon / (2 * sensitivity), bins)
    assert p_value(run(epsilon, CALLS), masses) > ERROR_RATE
    # a twin without the 2
    assert p_value(run(2 * epsilon, CALLS // 2), masses) < ERROR_RATE


def test_eq_2_on_finite_candidates():
    _, sensitivity, score = mean_of_two(1)
    candidates, epsilon, stream = np.arange(11) / 10, 6.0, rng()
    weights = np.exp(-epsilon * score(candidates) / (2 * sensitivity))

    def run(loss: float) -> np.ndarray:
        draws = [distributions.exponential_density(score, loss, sensitivity, candidates=candidates, rng=stream) for _ in range(5_000)]
        return np.bincount(np.rint(np.array(draws) * 10).astype(int), minlength=11)

    assert p_value(run(epsilon), weights / weights.sum()) > ERROR_RATE
    # twins: without the 2, and with the sign of a score that is to be large
    assert p_value(run(2 * epsilon), weights / weights.sum()) < ERROR_RATE
    flipped = 1 / weights
    assert p_value(run(epsilon), flipped / flipped.sum()) < ERROR_RATE


@pytest.mark.long
def test_scores_beyond_the_range_are_clamped():
    stream = rng()
    draws = [
        distributions.exponential_density(lambda z: np.where(z < 0.5, -100.0, 100.0), 4.0, 1.0, bounds=(0, 1), largest=1.0, rng=stream)
        for _ in range(9000)
    ]
    low = math.exp(0.0) / (math.exp(0.0) + math.exp(-2.0))
    assert p_value(histogram(draws, 2), np.array([low, 1 - low])) > ERROR_RATE
