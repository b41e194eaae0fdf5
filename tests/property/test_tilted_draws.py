"""Tilted draws of the exponential mechanism for series: probabilities of at most 1, exactly, and how many trials there are."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpcore import ParameterError, _backend
from dpcore._exact.intervals import exactly
from dpcore.distributions import _tilted_draws, l2_exponential
from dpcore.distributions._series_distance import SeriesDistance
from dpcore.distributions._tilted_draws import tilt_of, tilted_trials
from dpcore.distributions.exponential import MOST_DRAWS
from dpcore.testing import KeyedRandom
from support.densities import GRID, cosines
from support.kernels import KEY

CASES = [(4, 3, 1, 1, 1.0), (57, 8, 2, 1, 1.0), (100, 10, 3, 2, 1.0), (400, 20, 1, 2, 3.0), (2000, 45, 5, 2, 1.0), (300, 17, 3, 5, 2.0)]
"""n, k, terms of the data and of the draws, ε."""


def data_sets(n: int) -> dict[str, np.ndarray]:
    """Data at ends, in the middle, at two points, even, and anyhow."""
    half = n // 2
    return {
        "left": np.zeros(n),
        "right": np.ones(n),
        "middle": np.full(n, 0.5),
        "ends": np.repeat([0.0, 1.0], [half, n - half]),
        "two": np.repeat([0.3, 0.9], [half, n - half]),
        "even": (np.arange(n) + 0.5) / n,
        "random": np.random.default_rng(n).beta(2, 1, n),
    }


def distances(case) -> list[SeriesDistance]:
    n, k, terms, terms_k, epsilon = case
    sums = (tuple(_backend.cosine_sums(x, terms, threads=1)) for x in data_sets(n).values())
    return [SeriesDistance(each, n, k, terms_k, epsilon) for each in sums]


def largest(slopes) -> Fraction:
    """The largest Σ θ_j·(rounded cosine) over the best of 4,097 even points, and of as many near it, in rational numbers."""
    theta = np.array([float(t) for t in slopes])
    even = np.arange(4097) / 4096
    waves = math.sqrt(2) * np.cos(np.pi * even[:, None] * np.arange(1, len(theta) + 1))
    best = even[np.argmax(waves @ theta)]
    points = np.clip(np.concatenate([even, best + np.linspace(-1, 1, 4097) / 4096]), 0, 1)
    near = np.argsort(_backend.rounded_cosines(points, len(theta)) @ theta)[-50:]
    rows = cosines(points[near], len(theta))
    return max(sum((t * int(c) for t, c in zip(slopes, row, strict=True)), Fraction(0)) for row in rows) * Fraction(GRID)


@pytest.mark.some(2)
@pytest.mark.parametrize("case", CASES)
def test_no_draw_is_accepted_with_a_probability_above_one(case):
    for own in distances(case):
        tilt = tilt_of(own)
        most = largest(tilt.slopes)
        assert most <= tilt.top
        assert most >= tilt.top - Fraction(1, 50)  # nor with less than it could be
        if any(tilt.slopes):  # a twin whose bound is the mean of the exponent
            assert most > tilt.top / 2


def exponent(own: SeriesDistance, tilt, sums) -> Fraction:
    """G to 2^-100."""
    root = Fraction(math.isqrt(int(own.square(sums) * 2**200)), 2**100)
    return root - own.linear(tilt.slopes, sums) - tilt.floor


def steepest(own: SeriesDistance, tilt) -> np.ndarray:
    """Whole sums next to where E − η·w is least: w = w₀·η/√(α² − ‖η‖²)."""
    eta = np.array([float(t) for t in tilt.slopes]) * GRID / own.n
    beyond, room = math.sqrt(own.beyond_square), math.sqrt(float(own.rate_square) - float(eta @ eta))
    w = beyond * eta / room
    sums = [*own.totals, *[0] * own.draw_terms][: own.draw_terms]
    return np.array([round((own.k * s - each) / own.n) for s, each in zip(sums, w.tolist(), strict=True)], object)


@pytest.mark.some(2)
@pytest.mark.parametrize("case", CASES)
def test_no_trial_is_accepted_with_a_probability_above_one(case):
    """By Cauchy and Schwarz; and the bound is attained, so that a larger K would be wrong."""
    for own in distances(case):
        tilt = tilt_of(own)
        trials = tilted_trials(own, tilt, 40, KeyedRandom(KEY))
        for candidate in trials.candidates:
            assert exponent(own, tilt, cosines(candidate, own.draw_terms).sum(axis=0)) > 0
        at = exponent(own, tilt, steepest(own, tilt))
        assert at + Fraction(1, 2**90) >= 0
        assert at < Fraction(1, 10**6)
        larger = replace(tilt, floor=tilt.floor + Fraction(1, 10**6))
        assert exponent(own, larger, steepest(own, tilt)) < 0


@pytest.mark.some(2)
@pytest.mark.parametrize("case", CASES)
def test_floats_keep_their_bounds(case):
    """Of both decisions, against rational numbers and intervals."""
    for own in distances(case):
        tilt = tilt_of(own)
        trials = tilted_trials(own, tilt, 30, KeyedRandom(KEY))
        z = trials.candidates.ravel()[:50]
        draws = _tilted_draws._tilting(tilt, z, _backend.rounded_cosines(z, own.draw_terms))
        for each in (trials, draws):
            for index, value in enumerate(each.exponents.tolist()):
                exact = each.exact(index)(256)
                assert exactly(exact.high) - exactly(exact.low) < Fraction(1, 2**150)
                assert abs(Fraction(value) - exactly(exact.low)) <= Fraction(each.error)
            assert each.error < 1e-10


def test_a_tilt_beyond_the_limit_is_refused():
    """‖η‖ > α has no K: the draws are uniform then."""
    own = distances(CASES[2])[0]
    unit = Fraction(1, 2**20)
    allowed = math.floor(own.tilt_limit / float(unit) * (1 - 1e-9))
    assert _tilted_draws._checked(own, [allowed, 0], unit).slopes == (allowed * unit, 0)
    assert _tilted_draws._checked(own, [math.ceil(allowed * 1.01), 0], unit).slopes == (0, 0)


@pytest.mark.parametrize(("k", "terms_k", "epsilon"), [(4, 17, 0.1), (4, 2, 5e-324), (2**20, 1, 1e-8)])
def test_where_tilts_are_useless_draws_are_uniform(k, terms_k, epsilon):
    tilt = tilt_of(SeriesDistance((5, 3), 10, k, terms_k, epsilon))
    assert (tilt.top, set(tilt.slopes)) == (0, {0})
    assert tilt.floor >= 0


@pytest.mark.parametrize(
    ("n", "draws", "terms", "draw_terms", "epsilon"),
    [(1, 1, 1, 1, 1e-6), (1, 1, 1, 1, 40.0), (10**6, 4, 1, 1, 1e-6), (3, 4, 1, 1, 700.0), (50, 200, 40, 3, 0.5), (2, 1, 3, 20, 1.0)],
)
def test_extreme_sizes(n, draws, terms, draw_terms, epsilon):
    for x in (np.zeros(n), np.ones(n), np.linspace(0, 1, n)):
        found = l2_exponential(x, epsilon, (0, 1), draws=draws, terms=terms, draw_terms=draw_terms, max_trials=10**7)
        assert found.draws.shape == (draws,)
        assert ((found.draws >= 0) & (found.draws < 1)).all()


def test_sums_of_cosines_fit_into_their_integers():
    """A tilt can put all draws near an end: 2^23 of them would leave int64, and the law would be another one."""
    assert MOST_DRAWS * _backend.COSINE_LARGEST < 2**63 <= 2 * MOST_DRAWS * _backend.COSINE_LARGEST
    with pytest.raises(ParameterError, match=r"draws must be in \[1, 4194304\], got 8388608"):
        l2_exponential(np.zeros(10), 100.0, (0, 1), draws=2**23, terms=1)


def test_sizes_that_could_take_too_long_are_refused_by_public_numbers():
    """The estimate allows 9,505 records at ε = 1 with two coefficients of the draws; a third one, or 10^12 records, are too many."""
    sizes = SeriesDistance((0,) * 6, 9505, 97, 2, 1.0)
    assert sizes.most_records(10**6) > 9505
    assert sizes.most_records(10**6) == pytest.approx(
        math.exp((math.log(10**6 - 1) - sizes.log_trials() + 2 * math.log(9505)) / 2), rel=1e-3
    )
    assert SeriesDistance((0,) * 6, 9510, 98, 3, 1.0).most_records(10**6) < 9510
    assert SeriesDistance((0,) * 6, 10**12, 10**6, 16, 1.0).most_records(10**12) < 1000
    with pytest.raises(ParameterError, match=r"epsilon·n must be at most 8300 .* draw_terms=3 and draws=98, got epsilon=1.0 and n=9510"):
        l2_exponential(np.full(9510, math.nan), 1.0, (0, 1), draws=98, terms=6, draw_terms=3)


def trials_needed(own: SeriesDistance, size: int = 12_000) -> float:
    """1/P(accept), from the mean of e^−G."""
    tilt, stream = tilt_of(own), KeyedRandom(KEY)
    block = max(1, 2**17 // own.k)
    parts = [np.exp(-tilted_trials(own, tilt, block, stream).exponents).mean() for _ in range(-(-size // block))]
    return 1 / float(np.mean(parts))


@pytest.mark.some(2)
@pytest.mark.parametrize("case", [(57, 8, 2, 1, 1.0), (100, 10, 3, 2, 1.0), (60, 6, 2, 2, 1.0), (30, 8, 2, 3, 2.0), (1000, 32, 4, 2, 1.0)])
def test_the_estimate_of_trials_is_above_what_the_worst_data_need(case):
    every = distances(case)
    estimate = math.exp(every[0].log_trials())
    needed = max(map(trials_needed, every))
    assert needed <= estimate
    assert needed >= estimate / 5  # and a twin of the estimate without the variances of 2 would be exceeded where draws are few


@pytest.mark.some(2)
@pytest.mark.parametrize("case", [(9, 3, 2, 1, 1.0), (16, 4, 2, 2, 1.0), (12, 6, 3, 2, 1.0)])
def test_tilted_draws_need_fewer_trials_than_uniform_ones(case):
    for own in distances(case):
        stream, zero = KeyedRandom(KEY), _tilted_draws._checked(own, [0] * own.draw_terms, Fraction(1))
        uniform = 1 / float(np.exp(-tilted_trials(own, replace(zero, floor=Fraction(0)), 12_000, stream).exponents).mean())
        assert trials_needed(own) <= 1.1 * uniform
        assert uniform <= math.exp(own.mean_rate() * own.epsilon * own.n)


def test_nine_thousand_records_take_few_trials():
    """The exact sampler of uniform draws would need some e^3000 trials."""
    n = 9000
    totals = _backend.cosine_sums(np.random.default_rng(0).beta(2, 1, n), 6, threads=1)
    own = SeriesDistance(tuple(totals), n, 95, 2, 1.0)
    assert trials_needed(own) < 2000
    assert own.mean_rate() * n > 2000
    assert math.exp(own.log_trials()) < 10**5
