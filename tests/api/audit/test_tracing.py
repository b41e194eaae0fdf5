"""The tracing attack: its scores, its guarantee, its use in an audit, and what it refuses."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpcore import Privacy, noise
from dpcore.audit import TracingAttack, audit
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.testing import KeyedRandom


def test_scores_are_inner_products():
    rng = np.random.default_rng(1)
    mean, records, released = rng.normal(size=5), rng.normal(size=(7, 5)), rng.normal(size=5)
    slow = [sum((x[j] - mean[j]) * (released[j] - mean[j]) for j in range(5)) for x in records]
    assert TracingAttack(mean).scores(records, released) == pytest.approx(slow)
    some = [sum((x[j] - mean[j]) * (released[j] - mean[j]) for j in (3, 1)) for x in records]
    attack = TracingAttack(mean, support=[3, 1])
    assert attack.scores(records, released) == pytest.approx(some)
    assert attack.statistic(records[2])(np.stack([released, 2 * released]))[0] == pytest.approx(some[2])
    assert repr(attack) == "TracingAttack(<5 coordinates, 2 counted>)"


@pytest.mark.parametrize("beta", [0.3, 0.05, 0.003])
def test_strangers_are_accused_with_at_most_the_stated_probability(beta):
    """Exactly, over all records of eight fair signs."""
    every = np.array(list(itertools.product((-1.0, 1.0), repeat=8)))
    attack = TracingAttack(np.zeros(8))
    for released in (np.ones(8), np.array([1.0, 0, 0, 0, 0, 0, 0, 0]), np.arange(8.0), np.array([1.0, 1, 1, 0.5, 0.25, 0, 0, 0])):
        assert attack.accused(every, released, radius=1.0, beta=beta).mean() <= beta


def test_a_smaller_threshold_accuses_too_many():
    every = np.array(list(itertools.product((-1.0, 1.0), repeat=8)))
    scores, length = TracingAttack(np.zeros(8)).scores(every, np.ones(8)), math.sqrt(8)
    assert (scores > 0.5 * length * math.sqrt(2 * math.log(1 / 0.05))).mean() > 0.05


def test_members_of_an_exact_mean_have_their_expected_score():
    rng = np.random.default_rng(2)
    n, d = 20, 3000
    records = rng.choice([-1.0, 1.0], (n, d))
    scores = TracingAttack(np.zeros(d)).scores(records, records.mean(axis=0))
    assert scores.sum() == pytest.approx(n * float(np.square(records.mean(axis=0)).sum()))
    assert scores.mean() == pytest.approx(d / n, rel=0.1)


def release(scale):
    def run(x, size, rng):
        return noise.gaussian(np.tile(x.mean(axis=0), (size, 1)), scale, rng=rng)

    return run


def test_an_audit_with_the_score_finds_too_little_noise_and_nothing_else():
    data = np.ones((20, 40))
    other = data.copy()
    other[0] = -1.0
    score = TracingAttack(np.zeros(40)).statistic(data[0])
    # √40·2/20 in ℓ2 norm; the classical scale for ε = 1 and δ = 10⁻⁵
    scale = 2 * math.sqrt(40) / 20 * math.sqrt(2 * math.log(1.25e5))
    options = {"privacy": Privacy(1.0, 1e-5), "events": [score], "runs": 4_000, "confidence": 1 - 1e-6}
    assert audit(release(scale), data, other, rng=KeyedRandom(bytes(32)), **options).refuted is False
    assert audit(release(scale / 6), data, other, rng=KeyedRandom(bytes(32)), **options).refuted is True


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        (([],), {}, ParameterError),
        (([[1.0]],), {}, ParameterError),
        (([math.nan],), {}, DataError),
        ((["a"],), {}, ParameterTypeError),
        (([0.0, 0.0],), {"support": []}, ParameterError),
        (([0.0, 0.0],), {"support": [0, 0]}, ParameterError),
        (([0.0, 0.0],), {"support": [2]}, ParameterError),
        (([0.0, 0.0],), {"support": [-1]}, ParameterError),
        (([0.0, 0.0],), {"support": 1}, ParameterError),
        (([0.0, 0.0],), {"support": [[0], [1]]}, ParameterError),
        (([0.0, 0.0],), {"support": [[0], [1, 2]]}, ParameterTypeError),
        (([0.0, 0.0],), {"support": [0.0]}, ParameterTypeError),
        (([0.0, 0.0],), {"support": [True]}, ParameterTypeError),
        (([0.0, 0.0],), {"support": "01"}, ParameterTypeError),
    ],
)
def test_bad_attacks_are_refused(arguments, options, error):
    with pytest.raises(error):
        TracingAttack(*arguments, **options)


def test_bad_records_and_releases_are_refused():
    attack = TracingAttack([0.0, 0.0])
    for records, released in (([[1.0]], [0.0, 0.0]), ([1.0, 1.0], [0.0, 0.0]), ([[1.0, 1.0]], [0.0]), ([[1.0, 1.0]], 0.0)):
        with pytest.raises(ParameterError, match="must have"):
            attack.scores(records, released)
    with pytest.raises(DataError, match="records must be finite; the one at index 1 is not"):
        attack.scores([[1.0, math.inf]], [0.0, 0.0])
    for options in (
        {"radius": 0.0, "beta": 0.1},
        {"radius": 1.0, "beta": 0.0},
        {"radius": 1.0, "beta": 1.0},
        {"radius": math.nan, "beta": 0.5},
    ):
        with pytest.raises(ParameterError, match="must be"):
            attack.accused([[1.0, 1.0]], [0.0, 0.0], **options)
    assert attack.scores(np.zeros((0, 2)), [1.0, 1.0]).shape == (0,)
