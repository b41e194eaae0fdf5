"""Several quantiles in one query lose one ε together: the exact law of the sorted answers, on all neighbours of tiny tables."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpcore.query.encoders import Grid
from dpcore.query.kinds.quantile import QuantileEstimator, QuantileQuery
from dpcore.query.sensitivity import Contribution

EPSILON = 0.9
GRID = (0.0, 1.0, 2.0)
LEVELS = (0.25, 0.5, 0.75)
UNITS = [
    Contribution(1, replaced=True, n_is_public=True),
    Contribution(1, replaced=True, n_is_public=True).of_some_rows(),
    Contribution(1, replaced=False, n_is_public=False),
    Contribution(2, replaced=True, n_is_public=False),
]


def answer_of(bound):
    section = QuantileQuery(name="q", kind="quantile", column="x", q=LEVELS, grid=GRID, epsilon=EPSILON)
    return QuantileEstimator.calibrate(section, Grid.of(GRID, 0.0), bound, "replace" if bound.replaced else "add_remove")


def law(answer, rows):
    """Probability of each list of places, in order."""
    tally = np.bincount(np.array(rows, int), minlength=len(GRID))
    each = []
    for level, sensitivity in zip(LEVELS, answer.sensitivities, strict=True):
        weights = np.exp(answer.epsilon * answer.utilities(tally, Fraction(level)) / (2 * sensitivity))
        each.append(weights / weights.sum())
    found = Counter()
    for chosen in itertools.product(range(len(GRID)), repeat=len(LEVELS)):
        found[tuple(sorted(chosen))] += math.prod(masses[place] for masses, place in zip(each, chosen, strict=True))
    return found


def owned(bound):
    places = range(len(GRID))
    if bound.n_is_public:
        return [((one,), (other,)) for one, other in itertools.combinations(places, 2)]
    own = [rows for k in range(bound.rows + 1) for rows in itertools.combinations_with_replacement(places, k)]
    return list(itertools.combinations(own, 2)) if bound.replaced else [(rows, ()) for rows in own]


def largest_loss(answer, bound, others):
    worst = 0.0
    for rest in itertools.combinations_with_replacement(range(len(GRID)), others):
        for one, other in owned(bound):
            first, second = law(answer, [*rest, *one]), law(answer, [*rest, *other])
            assert math.isclose(sum(first.values()), 1)
            worst = max(worst, *(abs(math.log(first[key] / second[key])) for key in first))
    return worst


@pytest.mark.parametrize("bound", UNITS, ids=str)
def test_sorted_quantiles_lose_no_more_than_epsilon(bound):
    answer = answer_of(bound)
    worst = max(largest_loss(answer, bound, others) for others in (0, 3, 5))
    assert 0.3 * EPSILON < worst <= EPSILON * (1 + 1e-12)
    # The broken twin: each level is charged, and takes, all of ε.
    assert largest_loss(replace(answer, epsilon=EPSILON), bound, 5) > EPSILON


@pytest.mark.long
def test_the_answers_follow_that_law():
    """20,000 keyed answers; even shares are rejected."""
    from dpcore.testing import KeyedRandom
    from support.laws import ERROR_RATE, p_value

    answer = answer_of(UNITS[0])
    rows = [0, 0, 1, 2, 2]
    rng = KeyedRandom(b"law of quantiles, for tests only")
    tally = np.zeros((2, len(GRID) + 1), np.int64)
    tally[0, :-1] = np.bincount(rows, minlength=len(GRID))
    seen = Counter(tuple(map(GRID.index, answer.release(tally, rng)["value"])) for _ in range(20_000))
    masses = law(answer, rows)
    keys = sorted(masses, key=masses.get, reverse=True)
    assert set(seen) <= set(keys)
    assert p_value(np.array([seen[key] for key in keys]), np.array([masses[key] for key in keys])) > ERROR_RATE
    even = np.full(len(keys), 1 / len(keys))
    assert p_value(np.array([seen[key] for key in keys]), even) < ERROR_RATE
