"""`ks_exponential` as a function: parameters, shapes, extreme data, and what may not change the answer."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpcore import Privacy, SecureRandom, errors
from dpcore.distributions import DrawsRelease, ks_distance, ks_exponential
from dpcore.distributions._bands import Band
from dpcore.distributions._ks_levels import Levels, draw_counts, make_envelope
from dpcore.testing import KeyedRandom
from support.ids import shown
from support.kernels import KEY

X = np.linspace(0.0, 0.5, 200)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"epsilon": 0.0}, errors.ParameterError, "epsilon"),
        ({"epsilon": math.inf}, errors.ParameterError, "epsilon"),
        ({"epsilon": True}, errors.ParameterTypeError, "epsilon"),
        ({"draws": 0}, errors.ParameterError, r"draws must be in \[1"),
        ({"draws": 2.0}, errors.ParameterTypeError, "draws must be an integer"),
        ({"bins": 0}, errors.ParameterError, "bins"),
        ({"bins": 2**12, "draws": 2**12}, errors.ParameterError, r"bins·\(draws \+ 1\) must be at most 2\^24 .* bins=4096 and draws=4096"),
        ({"bins": 16, "draws": 2**16}, errors.ParameterError, r"bins·\(draws \+ 1\)² at most 2\^36, got bins=16 and draws=65536"),
        ({"bins": 2**17 + 1, "draws": 1}, errors.ParameterError, r"bins must be in \[1, 2\^17\], got 131073"),
        ({"bounds": (1.0, 0.0)}, errors.ParameterError, "bounds"),
        ({"threads": 0}, errors.ParameterError, "threads"),
        ({"rng": np.random.default_rng(1)}, errors.ParameterTypeError, "rng"),
        ({"records": np.zeros((5, 2))}, errors.ParameterError, "one coordinate"),
        ({"records": np.zeros(0)}, errors.ParameterError, "at least one record"),
        ({"records": np.array([0.1, np.nan])}, errors.DataError, "index 1"),
    ],
    ids=shown,
)
def test_what_is_refused(changes, error, message):
    arguments = {"records": X, "epsilon": 1.0, "bounds": (0, 1), "draws": 10, "bins": 5} | changes
    with pytest.raises(error, match=message):
        ks_exponential(**arguments)


def test_parameters_are_refused_before_data_are_looked_at():
    with pytest.raises(errors.ParameterError, match="bins"):
        ks_exponential(np.array([np.nan]), 1.0, (0, 1), draws=2**20, bins=2**10)


def test_what_a_release_holds():
    release = ks_exponential(X, 0.5, (0, 1), draws=30, bins=10)
    assert isinstance(release, DrawsRelease)
    assert release.privacy == Privacy(0.5)
    assert release.n == 200
    assert release.draws.shape == (30,)
    assert not release.draws.flags.writeable
    assert np.all((release.draws >= 0) & (release.draws <= 1))
    assert release.sample(7).shape == (7,)
    assert not np.array_equal(ks_exponential(X, 0.5, (0, 1), draws=30, bins=10, rng=SecureRandom()).draws, release.draws)


def test_the_same_key_gives_the_same_draws_whatever_does_not_matter():
    wanted = ks_exponential(X, 1.0, (0, 1), draws=20, bins=8, rng=KeyedRandom(KEY)).draws
    for x in (X[::-1], X[:, None], np.repeat(X, 2)[::2], X.astype(np.float32), list(X)):
        assert np.array_equal(ks_exponential(x, 1.0, (0, 1), draws=20, bins=8, rng=KeyedRandom(KEY)).draws, wanted)
    assert np.array_equal(ks_exponential(X, 1.0, (0, 1), draws=20, bins=8, rng=KeyedRandom(KEY), threads=3).draws, wanted)
    shifted = ks_exponential(4 * X - 1, 1.0, draws=20, bins=8, bounds=(-1.0, 3.0), rng=KeyedRandom(KEY)).draws
    assert np.allclose((shifted + 1) / 4, wanted, atol=1e-12)
    clamped = np.where(X == 0.0, -1e300, X)
    assert np.array_equal(ks_exponential(clamped, 1.0, (0, 1), draws=20, bins=8, rng=KeyedRandom(KEY)).draws, wanted)
    assert not np.array_equal(ks_exponential(X, 1.0, (0, 1), draws=20, bins=8, rng=KeyedRandom(bytes(32))).draws, wanted)


EXTREMES = {
    "one bin holds all": (np.eye(1, 40, 7, dtype=np.int64)[0] * 5000, 30),
    "first bin holds all": (np.eye(1, 40, 0, dtype=np.int64)[0] * 5000, 30),
    "last bin holds all": (np.eye(1, 40, 39, dtype=np.int64)[0] * 5000, 30),
    "more draws than records": (np.array([1, 0, 0, 2]), 500),
    "one draw": (np.arange(50), 1),
    "one bin": (np.array([12]), 40),
    "one record": (np.eye(1, 60, 20, dtype=np.int64)[0], 60),
    "many records": (np.full(100, 1000), 50),
    "2^50 records": (np.array([2**49, 2**48, 2**48 - 1, 1]), 4096),
}


@pytest.mark.some(28)
@pytest.mark.parametrize("epsilon", [2.3e-308, 1e-9, 0.1, 50.0, 1e12, 1.7e308])
@pytest.mark.parametrize(("data", "k"), EXTREMES.values(), ids=EXTREMES)
def test_extreme_data_and_budgets(data, k, epsilon):
    drawn = draw_counts(data, epsilon, k, KeyedRandom(KEY), 5)
    assert drawn.shape == (5, len(data))
    assert drawn.min() >= 0
    assert np.all(drawn.sum(axis=1) == k)
    if epsilon >= 1e12:  # nothing but a least score is left
        n = int(data.sum())
        sums, drawn_sums = np.cumsum(data).astype(object), np.cumsum(drawn, axis=1).astype(object)
        scores = [max(-(-abs(k * a - n * c) // k) for a, c in zip(sums, row, strict=True)) for row in drawn_sums]
        assert set(scores) == {int(Levels(data, k).at[0])}


def test_any_data_and_budget_give_a_draw():
    rng = np.random.default_rng(9)
    for _ in range(150):
        m, k, n = rng.integers(1, 30), int(rng.integers(1, 60)), int(10 ** rng.uniform(0, 6))
        data = rng.multinomial(n, rng.dirichlet(np.full(m, 10 ** rng.uniform(-2, 1))))
        drawn = draw_counts(data, float(10 ** rng.uniform(-8, 3)), k, KeyedRandom(KEY), 2)
        assert drawn.min() >= 0
        assert np.all(drawn.sum(axis=1) == k)


def test_logarithms_that_fall_by_rounding_stop_nothing(monkeypatch):
    """Where nearly all paths are inside, N rises by less than its error."""
    heights = itertools.count(0, -1e-13)
    monkeypatch.setattr(Band, "log2_weight", property(lambda self: next(heights)))
    assert draw_counts(np.full(10, 3), 0.5, 40, KeyedRandom(KEY), 3).sum() == 120


def test_a_large_budget_follows_the_data_and_a_small_one_does_not():
    x = np.linspace(0, 0.25, 10_000)
    assert ks_distance(ks_exponential(x, 50.0, (0, 1), draws=100, bins=100), x) < 0.06
    assert ks_distance(ks_exponential(x, 1e-6, (0, 1), draws=100, bins=100), x) > 0.5


def test_ten_thousand_records_two_hundred_bins_and_draws():
    """The size that the specification names; how few tables it takes is what makes it fast."""
    x = np.linspace(0, 1, 10_000) ** 2
    release = ks_exponential(x, 1.0, (0, 1), draws=200, bins=200, rng=KeyedRandom(KEY))
    assert ks_distance(release, x) < 0.1
    levels = Levels(np.bincount((x * 199.999).astype(int), minlength=200), 200)
    for epsilon in (0.01, 0.1, 1.0):
        assert len(make_envelope(levels, epsilon).starts) < 120


def test_progress_counts_tables_and_ends():
    seen = []
    plain = ks_exponential(X, 1.0, (0, 1), draws=20, bins=8, rng=KeyedRandom(KEY)).draws
    reported = ks_exponential(X, 1.0, (0, 1), draws=20, bins=8, rng=KeyedRandom(KEY), progress=lambda *at: seen.append(at)).draws
    assert np.array_equal(plain, reported)
    assert [done for done, _ in seen[:-1]] == list(range(1, len(seen)))
    assert all(done < total for done, total in seen[:-1])
    assert seen[-1][0] == seen[-1][1]
