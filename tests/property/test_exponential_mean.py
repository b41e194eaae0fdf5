"""The mean by the exponential mechanism: its level by enumeration, its law, its intervals, and how many trials it takes."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpcore import DataError, ParameterError, ParameterTypeError, Privacy
from dpcore.distributions import exponential_mean, mean
from dpcore.testing import KeyedRandom
from support.densities import data_sets, largest_loss, log_laws, neighbours
from support.kernels import KEY
from support.laws import ERROR_RATE, p_value

SLACK = 1e-12


def logs(sets, points, rate: float) -> np.ndarray:
    """ln of the laws on a finite set of points, one row a data set."""
    means = np.array([np.mean(np.array(records, float).reshape(len(records), -1), axis=0) for records in sets])
    return log_laws(rate * ((means[:, None, :] - np.array(points, float)[None]) ** 2).sum(axis=2))


@pytest.mark.some(3)
@pytest.mark.parametrize(("n", "r"), [(1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (3, 2)])
def test_every_neighbour_on_any_grid_of_draws(n, r):
    """The proof holds for every set of draws in the cube: even ones, and only the corners."""
    records = list(itertools.product((0.0, 0.3, 1.0) if r > 1 else (0.0, 0.25, 0.5, 0.75, 1.0), repeat=r))
    sets = data_sets(records, n)
    pairs = neighbours(sets)
    for steps in (2, 9):
        points = list(itertools.product(np.linspace(0, 1, steps), repeat=r))
        for epsilon in (0.1, 1.0, 3.0, 30.0):
            assert largest_loss(logs(sets, points, epsilon * n / (2 * r)), pairs) <= epsilon + SLACK


def test_the_level_is_attained_where_records_are_many():
    """One of 10,000 records leaves the end of the interval; a twin with 1 % less variance loses more than ε."""
    n, points = 10_000, np.linspace(0, 1, 20_001)[:, None]
    sets = [(1.0,) * n, (1.0,) * (n - 1) + (0.0,)]
    loss = largest_loss(logs(sets, points, n / 2), [(0, 1), (1, 0)])
    assert 0.99 < loss <= 1 + SLACK
    assert largest_loss(logs(sets, points, 1.01 * n / 2), [(0, 1), (1, 0)]) > 1 + SLACK


def test_the_printed_density_is_not_private():
    """Section 5.2 prints exp(−n‖x̄ − z‖²/(2ε)): the less the ε, the more it tells."""
    n, points = 100, np.linspace(0, 1, 2001)[:, None]
    sets = [(1.0,) * n, (1.0,) * (n - 1) + (0.0,)]
    for epsilon in (0.1, 0.5):
        assert largest_loss(logs(sets, points, n / (2 * epsilon)), [(0, 1), (1, 0)]) > 1.5 * epsilon


def masses(centre: float, rate: float, bins: int) -> np.ndarray:
    scale = math.sqrt(1 / (2 * rate))
    parts = np.diff(stats.norm.cdf(np.linspace(0, 1, bins + 1), centre, scale))
    return parts / parts.sum()


@pytest.mark.parametrize("column", [(0.0, 0.0, 0.0), (0.9, 0.2, 0.4)], ids=["at an end", "inside"])
def test_the_law(column):
    """Sixteen coordinates of equal data a call, each of which is a draw."""
    stream, epsilon, bins = KeyedRandom(KEY), 60.0, 20
    x = np.repeat(np.array(column)[:, None], 16, axis=1)
    draws = np.concatenate([np.asarray(exponential_mean(x, epsilon, (0, 1), rng=stream).value) for _ in range(200)])
    counts, rate = np.histogram(draws, bins, (0, 1))[0], 3 * epsilon / 32
    assert p_value(counts, masses(float(np.mean(column)), rate, bins)) > ERROR_RATE
    assert p_value(counts, masses(float(np.mean(column)), 2 * rate, bins)) < ERROR_RATE  # a twin with the factor of the general theorem


def covered(centre: float, scale: float, half: float) -> float:
    """P(|z − centre| ≤ half) of a normal number inside [0, 1]."""
    law = stats.truncnorm((0 - centre) / scale, (1 - centre) / scale, centre, scale)
    return float(law.cdf(centre + half) - law.cdf(centre - half))


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("n_epsilon", [1e-3, 0.5, 3.0, 50.0, 1e6])
def test_intervals_cover_for_every_mean(n_epsilon, confidence):
    """In the middle of wide bounds they are as wide as they must be: a twin of 97 % of the width does not cover."""
    released = mean.MeanRelease(0.5, Privacy(1.0), 1, mean.Box.of((0, 1)), 1 / math.sqrt(n_epsilon))
    wide = mean.MeanRelease(0.0, Privacy(1.0), 1, mean.Box.of((-1024, 1024)), released.scale / 2048)
    half = float(wide.interval(confidence)[1])
    least = min(covered(c, released.scale, half) for c in (0.0, 1e-6, 0.01, 0.1, 0.3, 0.5, 0.77, 0.999, 1.0))
    assert least >= confidence
    if n_epsilon > 1000:
        assert covered(0.5, released.scale, 0.97 * half) < confidence
    low, high = released.interval(confidence)
    assert (low, high) == pytest.approx((max(0.0, 0.5 - half), min(1.0, 0.5 + half)), abs=1e-6)


@pytest.mark.parametrize("rate", [1e-6, 0.1, 0.785, 3.0, 100.0, 1e8])
def test_bounds_of_trials_and_of_the_error(rate):
    """For means at ends, in the middle, and between, from the normal distribution."""
    scale = math.sqrt(1 / (2 * rate))
    shares = [stats.norm.cdf(1, c, scale) - stats.norm.cdf(0, c, scale) for c in (0.0, 0.1, 0.5, 0.9, 1.0)]
    needed = 1 / min(math.sqrt(math.pi / rate) * share for share in shares)
    assert needed <= mean._most_trials(Fraction(rate)) <= needed * (1 + 2e-6) + 1.001
    most = mean._most_trials(Fraction(rate))
    assert (most / (1 + 2.0**-20) - 1) ** 2 * math.pi / 4 == pytest.approx(rate, rel=1e-6)  # which is what the message of a refusal inverts
    for centre in (0.0, 0.2, 0.5, 1.0):
        law = stats.truncnorm((0 - centre) / scale, (1 - centre) / scale, centre, scale)
        assert law.var() + (law.mean() - centre) ** 2 <= scale**2 * (1 + 1e-9)


def test_what_is_released():
    x = np.random.default_rng(0).random((500, 2)) * [10, 2]
    found = exponential_mean(x, 2.0, ((0, 0), (10, 2)), rng=KeyedRandom(KEY))
    assert (found.privacy, found.n, found.scale) == (Privacy(2.0), 500, math.sqrt(2 / 1000))
    assert found.stderr == pytest.approx([10 * found.scale, 2 * found.scale])
    assert np.abs(found.value - x.mean(axis=0)).max() < 6 * found.stderr[0]
    assert found.interval().shape == (2, 2)
    assert not found.value.flags.writeable
    assert "Mean of 500 records" in found._repr_html_()
    line = exponential_mean(x[:, 0], 2.0, (0, 10), rng=KeyedRandom(KEY))
    assert isinstance(line.value, float)
    assert line.interval().shape == (2,)


def test_the_mean_is_exact_in_blocks_of_any_size(monkeypatch):
    x = np.concatenate([np.full(999, 2.0**-50), [1.0, 7.0, -3.0, np.inf]])
    expected = [(Fraction(999, 2**50) + 3) / 1003]
    for block in (1, 10, 10_000):
        monkeypatch.setattr(mean, "BLOCK", block)
        assert mean._means(x, mean.Box.of((0, 1)), 2) == expected


@pytest.mark.parametrize("epsilon", [1e-6, 700.0])
@pytest.mark.parametrize("n", [1, 30_000])
def test_extreme_levels(n, epsilon):
    for x in (np.zeros(n), np.ones(n)):
        found = exponential_mean(x, epsilon, (0, 1), rng=KeyedRandom(KEY))
        low, high = found.interval(1 - 1e-9)
        assert low <= x[0] <= high


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"epsilon": 0.0}, ParameterError, "epsilon must be"),
        ({"epsilon": 1e300}, ParameterError, r"epsilon·n must be at most 1.571e\+14"),
        ({"max_trials": 1}, ParameterError, "epsilon·n must be at most 0 "),
        ({"max_trials": 10**10}, ParameterError, "max_trials must be in"),
        ({"records": []}, ParameterError, "at least one record"),
        ({"records": [0.1, math.nan]}, DataError, "index 1 is NaN"),
        ({"records": "abc"}, ParameterTypeError, "records must have one of the dtypes"),
        ({"bounds": (1, 0)}, ParameterError, "bounds must have low"),
        ({"threads": -1}, ParameterError, "threads must be in"),
        ({"rng": 7}, ParameterTypeError, "rng must be None"),
    ],
)
def test_what_is_refused(changes, error, words):
    arguments = {"records": [0.1, 0.4], "epsilon": 1.0, "bounds": (0, 1)} | changes
    with pytest.raises(error, match=words):
        exponential_mean(**arguments)


def test_progress_counts_trials_of_each_coordinate():
    seen = []
    exponential_mean(np.full((10**6, 2), 0.3), 100.0, (0, 1), progress=lambda *at: seen.append(at), rng=KeyedRandom(KEY))
    assert sum(done == total for done, total in seen) == 2
    assert seen[-1][0] == seen[-1][1]
