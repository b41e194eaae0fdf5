"""Intervals of private quantiles: their coverage by enumeration of data and choices, with the law of the exponential mechanism."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpcore import Privacy
from dpcore._proportions import quantile_ranks
from dpcore.errors import DataError, ParameterError
from dpcore.inference import QuantileEstimate, order_statistics, quantiles
from dpcore.inference.order_statistics import _end_ranks, _utilities, quantile_rank, rank_reach
from dpcore.testing import KeyedRandom
from support.kernels import KEY
from support.ks import vectors


def choice_law(counts: tuple[int, ...], rank: int, scale: float) -> np.ndarray:
    """P(candidate) of the exponential mechanism: utilities from their definition."""
    at_or_below = np.cumsum(counts)
    before = at_or_below - counts
    utility = -np.maximum(0, np.maximum(before - (rank - 1), rank - at_or_below))
    weights = np.exp(utility / scale)
    return weights / weights.sum()


def coverage(shares, n: int, q: float, epsilon: float, confidence: float, *, asked: float | None = None, target: str = "population"):
    """Coverage over data, or the least over data for a sample, and over independent choices for all ranks: of one level and its two ends.

    Records lie at the candidates 0 … m − 1; each stands for those in the half-open interval below it.
    """
    m, scale = len(shares), 2 * 3 / epsilon
    ranks = [quantile_rank(q, n), *_end_ranks(q, n, scale, m, (1 - (asked or confidence)) / 2)]
    points, ends = np.arange(m, dtype=np.float64), {}
    for chosen in itertools.product(range(m), repeat=3):
        found = QuantileEstimate(float(chosen[0]), Privacy(epsilon), q, n, points, np.array(ranks), np.array(chosen), scale)
        ends[chosen] = found._ends(q, (1 - confidence) / 2, target)
    truth = int(np.flatnonzero(np.cumsum(shares) >= q - 1e-15)[0])
    whole, least = 0.0, 1.0
    for counts in vectors(n, m):
        aim = truth if target == "population" else int(np.flatnonzero(np.cumsum(counts) >= quantile_rank(q, n))[0])
        laws = [choice_law(counts, rank, scale) for rank in ranks]
        own = sum(
            math.prod(law[c] for law, c in zip(laws, chosen, strict=True)) for chosen, (low, high) in ends.items() if low < aim <= high
        )
        whole, least = whole + own * float(stats.multinomial.pmf(counts, n, shares)), min(least, own)
    return whole if target == "population" else least


SETTINGS = [
    *((n, epsilon, shares) for n in (1, 2, 3) for epsilon in (1e-3, 20.0) for shares in ((0.5, 0.5), (1.0, 0.0, 0.0))),
    *((12, epsilon, shares) for epsilon in (3.0, 20.0) for shares in ((0.5, 0.5), (1e-9, 0.5, 0.5 - 1e-9), (0.2, 0.3, 0.5))),
    (17, 20.0, (0.3, 0.3, 0.4)),
    (15, 200.0, (0.25, 0.5, 0.25)),
    (1, 1.0, (1.0,)),
]


@pytest.mark.parametrize("confidence", [0.3, 0.8, 0.99])
@pytest.mark.parametrize("q", [0.5, 0.01, 0.9])
@pytest.mark.parametrize(("n", "epsilon", "shares"), SETTINGS)
@pytest.mark.some(8)
def test_intervals_cover_the_quantile_of_the_population_and_of_the_data(n, epsilon, shares, q, confidence):
    assert coverage(shares, n, q, epsilon, confidence) >= confidence
    assert coverage(shares, n, q, epsilon, confidence, target="sample") >= confidence
    assert coverage(shares, n, q, epsilon, confidence, asked=0.5) >= confidence


def test_ends_without_the_noise_or_without_the_sample_do_not_cover(monkeypatch):
    """Two broken twins: no rank for the noise; and the ranks of the sample's quantile for the population."""
    assert coverage((0.3, 0.25, 0.45), 9, 0.5, 1.0, 0.8, target="sample") >= 0.8
    assert coverage((0.2,) * 5, 6, 0.5, 2000.0, 0.8) >= 0.8
    monkeypatch.setattr(order_statistics, "rank_reach", lambda *_: 0)
    order_statistics._splits.cache_clear()
    assert coverage((0.3, 0.25, 0.45), 9, 0.5, 1.0, 0.8, target="sample") < 0.8
    monkeypatch.setattr(order_statistics, "quantile_ranks", lambda q, n, _: (quantile_rank(q, n), quantile_rank(q, n)))
    order_statistics._splits.cache_clear()
    assert coverage((0.2,) * 5, 6, 0.5, 2000.0, 0.8) < 0.8
    order_statistics._splits.cache_clear()


def test_ranks_of_quantiles_against_exact_sums():
    def below(n: int, q: Fraction, rank: int) -> Fraction:
        return sum((math.comb(n, i) * q**i * (1 - q) ** (n - i) for i in range(rank)), Fraction(0))

    for n, q, rate in itertools.product((1, 2, 3, 60), (1e-9, 0.1, 0.5, 1 - 1e-9), (1e-6, 0.025, 0.4)):
        low, high = quantile_ranks(q, n, rate)
        exact = Fraction(q)
        assert below(n, exact, low) <= rate
        assert low == n + 1 or low == n or below(n, exact, low + 1) > rate * (1 - 1e-9)
        assert 1 - below(n, exact, high) <= rate
        assert high == 0 or 1 - below(n, exact, high - 1) > rate * (1 - 1e-9)


def test_the_reach_of_a_choice_is_that_of_the_worst_data():
    """One candidate at the rank, all others t + 1 ranks above it: the probability of these is the bound itself."""
    for m, scale, tail in itertools.product((2, 5, 100), (0.1, 3.0, 2000.0), (0.4, 0.01, 1e-9)):
        t = rank_reach(scale, m, tail)
        x = (m - 1) * math.exp(-(t + 1) / scale)
        assert x / (1 + x) <= tail * (1 + 1e-9)
        before = (m - 1) * math.exp(-t / scale)
        assert t == 0 or before / (1 + before) > tail
    assert rank_reach(5.0, 1, 0.01) == 0
    assert _utilities(np.array([0, 3, 3, 7]), 3).tolist() == [-3, 0, -1, -1]


def test_one_record_moves_utilities_by_at_most_one():
    for n, m in ((3, 3), (4, 2)):
        for counts in vectors(n, m):
            for i, j in itertools.permutations(range(m), 2):
                if counts[i]:
                    other = list(counts)
                    other[i] -= 1
                    other[j] += 1
                    for rank in range(1, n + 1):
                        apart = _utilities(np.cumsum(counts), rank) - _utilities(np.cumsum(other), rank)
                        assert np.abs(apart).max() <= 1


def test_what_users_get():
    data = np.random.default_rng(2).gamma(8.0, 5.0, 20_000)
    grid = np.arange(0.0, 121.0)
    found = quantiles(data, 1.0, [0.25, 0.5], candidates=grid, rng=KeyedRandom(KEY))
    assert found.value.shape == (2,)
    assert found.interval().shape == (2, 2)
    for target in ("population", "sample"):
        low, high = found.interval(target=target).T
        assert np.all((low < np.quantile(data, [0.25, 0.5])) & (np.quantile(data, [0.25, 0.5]) <= high))
        assert np.all(np.isfinite(found.interval(target=target)))
    assert np.isinf(found.interval(1 - 1e-12)).any()
    assert found.rank_error() < found.rank_error(0.999)
    bare = quantiles(data, 1.0, 0.5, candidates=grid, confidence=None, rng=KeyedRandom(KEY))
    assert isinstance(bare.value, float)
    assert len(bare.ranks) == 1
    assert bare.interval().tolist() == [-math.inf, math.inf]
    assert "Quantiles of 20,000 records" in found._repr_html_()
    assert quantiles([-math.inf, 5.0, math.inf], 700.0, 0.5, candidates=[5.0, 6.0]).value == 5.0


def test_bad_input():
    grid = [0.0, 1.0]
    for q in (0.0, 1.0, math.nan, [], [[0.5]], 2.0):
        with pytest.raises(ParameterError, match="q must be"):
            quantiles([0.5], 1.0, q, candidates=grid)
    for candidates in ([], [1.0, 1.0], [2.0, 1.0], [math.nan], [0.0, math.inf], [[0.0]]):
        with pytest.raises(ParameterError, match="candidates must be"):
            quantiles([0.5], 1.0, 0.5, candidates=candidates)
    with pytest.raises(DataError, match="index 1 is NaN"):
        quantiles([0.5, math.nan], 1.0, 0.5, candidates=grid)
    with pytest.raises(ParameterError, match="at least one record"):
        quantiles([], 1.0, 0.5, candidates=grid)
    for epsilon in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ParameterError, match="epsilon"):
            quantiles([0.5], epsilon, 0.5, candidates=grid)
    found = quantiles([0.5], 1e-6, 0.5, candidates=grid)
    assert found.interval(1 - 2**-50).tolist() == [-math.inf, math.inf]
    with pytest.raises(ParameterError, match="target"):
        found.interval(target="nobody")
