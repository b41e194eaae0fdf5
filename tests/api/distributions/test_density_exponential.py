"""Exponential mechanisms for densities: what they give, and what is refused before the data are looked at."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import trapezoid

from dpcore import DataError, ParameterError, ParameterTypeError, Privacy, distributions
from dpcore.distributions import _rejection
from dpcore.testing import KeyedRandom
from support.densities import cosines, series
from support.kernels import KEY

X = np.array([0.1, 0.2, 0.15, 0.7])


def l2(**changes):
    """A small release of draws."""
    arguments = {"records": X, "epsilon": 2.0, "bounds": (0, 1), "draws": 5, "terms": 2, "rng": KeyedRandom(KEY)} | changes
    return distributions.l2_exponential(**arguments)


def test_the_release_is_its_draws():
    found = l2()
    assert (found.privacy, found.n, found.dimension) == (Privacy(2.0), 4, 1)
    assert found.draws.shape == (5,)
    assert not found.draws.flags.writeable
    assert found.draws.min() >= 0
    assert found.draws.max() < 1
    expected = cosines(found.draws, 2).sum(axis=0).astype(float) * 2.0**-40 / 5
    assert found.coefficients == pytest.approx(expected, abs=1e-15)
    x = np.linspace(0, 1, 501)
    assert found.cdf(x) == pytest.approx((found.draws[:, None] <= x).mean(axis=0))
    positive = np.maximum(series(found.coefficients, x), 0)
    assert found.density(x) == pytest.approx(positive / trapezoid(positive, x), abs=1e-4)
    assert found.sample(1000).shape == (1000,)


def test_the_release_is_in_the_units_of_its_bounds():
    unit, scaled = l2(), l2(records=X * 40 - 10, bounds=(-10, 30))
    assert scaled.draws == pytest.approx(unit.draws * 40 - 10)
    assert scaled.coefficients == pytest.approx(unit.coefficients)
    assert scaled.density(0.0) == pytest.approx(unit.density(0.25) / 40)
    assert scaled.density([-11.0, 31.0]).tolist() == [0.0, 0.0]
    assert scaled.cdf([-11.0, 31.0]).tolist() == [0.0, 1.0]


def test_fewer_and_more_coefficients_of_the_draws():
    assert l2(terms=3, draw_terms=1).coefficients.shape == (1,)
    assert l2(terms=1, draw_terms=3).coefficients.shape == (3,)


def test_draws_follow_the_data_where_epsilon_allows():
    near = [l2(records=np.full(12, at), epsilon=3.0, draws=1, terms=3, rng=KeyedRandom(KEY)).draws[0] for at in (0.1, 0.9)]
    assert near == pytest.approx([0.1, 0.9], abs=0.15)


def test_only_public_numbers_refuse():
    """Every data set of one size is treated alike: εn ≤ 2D·ln(max_trials)/√(2m + m_k/k), with D² = 10.29 at two terms."""
    most = 2 * math.sqrt(10.2892135) * math.log(10**6) / math.sqrt(4 + 2 / 5)
    for x in (np.zeros(20), np.ones(20), np.full(20, 0.5), np.full(20, math.nan)):
        with pytest.raises(
            ParameterError, match=r"epsilon·n must be at most .* take a smaller epsilon or fewer records, or raise max_trials"
        ):
            l2(records=x, epsilon=most / 20 * 1.0001)
    distributions.exponential._refuse_long(distributions.exponential.SeriesDistance((0, 0), 20, 5, 2, most / 20 * 0.9999), 10**6)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"epsilon": -1.0}, ParameterError, "epsilon must be positive"),
        ({"epsilon": 1e308}, ParameterError, "epsilon·n must be at most"),
        ({"draws": 0}, ParameterError, "draws must be in"),
        ({"draws": 2**23 + 1}, ParameterError, "draws must be in"),
        ({"terms": 0}, ParameterError, "terms must be in"),
        ({"draw_terms": 0}, ParameterError, "draw_terms must be in"),
        ({"max_trials": 0}, ParameterError, "max_trials must be in"),
        ({"max_trials": 1}, ParameterError, "epsilon·n must be at most 0 "),
        ({"threads": 5000}, ParameterError, "threads must be in"),
        ({"records": np.zeros((3, 2))}, ParameterError, "records must have one coordinate"),
        ({"records": [0.2, 0.1, math.nan]}, DataError, "index 2 is NaN"),
        ({"records": "abc"}, ParameterTypeError, "records must have one of the dtypes"),
        ({"rng": 7}, ParameterTypeError, "rng must be None"),
    ],
)
def test_what_the_l2_mechanism_refuses(changes, error, words):
    with pytest.raises(error, match=words):
        l2(**changes)


# Wasserman & Zhou (2010), Eq. 2


def choose(**changes):
    """One candidate near 0.3."""
    arguments = {
        "score": lambda z: np.abs(np.asarray(z) - 0.3),
        "bounds": (0, 1),
        "epsilon": 2.0,
        "sensitivity": 0.25,
        "largest": 1.0,
        "rng": KeyedRandom(KEY),
    }
    return distributions.exponential_density(**arguments | changes)


def finite(**changes):
    """One of four candidates."""
    return choose(**({"candidates": [0.0, 0.3, 0.6, 1.0], "bounds": None, "largest": None} | changes))


def test_candidates_keep_their_kind():
    assert isinstance(finite(), float)
    assert isinstance(finite(candidates=np.array([0, 1, 2])), int)
    rows = np.arange(12.0).reshape(4, 3)
    found = finite(candidates=rows, score=lambda z: z.sum(axis=1) * 0)
    assert found.tolist() in rows.tolist()
    found[0] = 100.0
    assert rows.max() == 11.0


def test_scores_may_be_given_as_numbers():
    for scores in ([5.0, 0.0, 5.0, 5.0], np.array([5, 0, 5, 5], np.uint8), np.array([2**62 + 50, 2**62, 2**62 + 50, 2**62 + 50])):
        assert finite(score=scores, epsilon=100.0, sensitivity=1.0) == 0.3


def test_the_least_integer_is_the_best_score():
    for best in (-(2**63), 2**63 - 101):
        scores = np.array([best + 100, best, best + 100, best + 100])
        assert finite(score=scores, epsilon=100.0, sensitivity=1.0) == 0.3


def test_points_of_a_box():
    assert isinstance(choose(), float)
    found = choose(score=lambda z: np.zeros(len(z)), bounds=((0, -5, 100), (1, -4, 200)))
    assert found.shape == (3,)
    assert 0 <= found[0] < 1
    assert -5 <= found[1] < -4
    assert 100 <= found[2] < 200
    far = [choose(score=lambda z: np.abs(z - 7.5) / 10, bounds=(0, 10), epsilon=6.0, rng=KeyedRandom(KEY).at(i)) for i in range(50)]
    assert np.mean(far) == pytest.approx(7.5, abs=1.0)


def test_batches_grow_to_a_public_size_and_go_on(monkeypatch):
    sizes = []

    def score(z):
        sizes.append(len(z))
        return np.full(len(z), 1.0)

    monkeypatch.setattr(_rejection, "_BATCH_NUMBERS", 1000)
    choose(score=score, epsilon=5.5, sensitivity=0.25, max_trials=10**5)  # e^11 trials on average
    assert sizes[:6] == [64, 128, 256, 512, 1000, 1000]
    assert set(sizes[4:]) == {1000}


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"epsilon": 0}, ParameterError, "epsilon must be positive"),
        ({"sensitivity": 0.0}, ParameterError, "sensitivity must be positive"),
        ({"threads": 0}, ParameterError, r"threads must be in \[1, 4096\], got 0"),
        ({"largest": None}, ParameterError, "largest its public upper bound"),
        ({"score": [1.0, 2.0]}, ParameterError, "score must be callable"),
        ({"largest": math.inf}, ParameterError, "largest must be in"),
        ({"epsilon": 30.0}, ParameterError, r"epsilon·largest/\(2·sensitivity\) must be at most ln\(max_trials\)"),
        ({"epsilon": 1e300, "sensitivity": 1e-300}, ParameterError, "take a smaller epsilon or raise max_trials"),
        ({"bounds": ((), ())}, ParameterError, "dimension must be in"),
        ({"bounds": None}, ParameterError, "either candidates, a finite set, or bounds, a box"),
        ({"score": lambda z: z[:3]}, ParameterTypeError, "score must give one number for each of 64 candidates"),
        ({"score": lambda z: np.where(np.arange(len(z)) == 5, np.nan, z)}, DataError, "that of candidate 5 of a batch is"),
        ({"score": lambda z: z.astype(str)}, ParameterTypeError, "score must have one of the dtypes"),
    ],
)
def test_what_a_box_refuses(changes, error, words):
    with pytest.raises(error, match=words):
        choose(**changes)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"candidates": []}, ParameterError, "candidates must have shape"),
        ({"candidates": np.zeros((2, 2, 2))}, ParameterError, "candidates must have shape"),
        ({"candidates": ["a"]}, ParameterTypeError, "candidates must have one of the dtypes"),
        ({"score": [1.0, 2.0]}, ParameterError, "score must give one number for each of 4 candidates"),
        ({"score": [1.0, math.nan, 1.0, 1.0]}, DataError, "index 1"),
        ({"largest": 1.0}, ParameterError, "largest must be None for a finite set"),
        ({"bounds": (0, 1)}, ParameterError, "either candidates, a finite set, or bounds, a box"),
    ],
)
def test_what_a_finite_set_refuses(changes, error, words):
    with pytest.raises(error, match=words):
        finite(**changes)


@pytest.mark.parametrize("make", [l2, choose], ids=["l2", "box"])
def test_progress_counts_trials_and_ends(make):
    seen = []
    make(progress=lambda *at: seen.append(at))
    assert seen[-1][0] == seen[-1][1]
    assert all(done < total for done, total in seen[:-1])
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_progress_changes_no_draw():
    assert np.array_equal(l2().draws, l2(progress=lambda done, total: None).draws)
