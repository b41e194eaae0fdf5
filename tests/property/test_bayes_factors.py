"""Bayes factors of private outputs: the range is kept by every belief about the others, attained, and not that of the print."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

from dpcore import ParameterError, ParameterTypeError
from dpcore.blackwell import bayes_factors, max_power
from dpcore.reproduce.information import two_laws


def discrete_laplace(counts: int, epsilon: float, cut: int = 60) -> np.ndarray:
    """Laws of a count under discrete Laplace noise of scale 1/ε, one row for each value."""
    z = np.arange(-cut, counts + cut + 1)
    r = math.exp(-epsilon)
    return (1 - r) / (1 + r) * r ** np.abs(np.arange(counts + 1)[:, None] - z)


@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 1.0, 5.0, 700.0])
def test_the_range_is_rounded_outwards(epsilon):
    with mp.workdps(60):
        for records, relation in itertools.product((1, 2, 7), ("replace", "add_remove")):
            steps = records * (2 if relation == "add_remove" else 1)
            low, high = bayes_factors(epsilon, records=records, relation=relation)
            true = mp.exp(steps * mpf(epsilon))
            assert low <= 1 / true
            assert high >= true
            if high < math.inf:
                assert high <= math.nextafter(float(true), math.inf)
                assert low >= math.nextafter(float(1 / true), 0.0)
    assert bayes_factors(0.0) == (1.0, 1.0)
    assert bayes_factors(math.inf) == (0.0, math.inf)


def mixtures(rows: np.ndarray, n: int, random: np.random.Generator) -> np.ndarray:
    """Largest Bayes factor of a noisy count, one bit 0 or 1, under a random belief about the other n − 1: any law, not independent ones."""
    belief = random.dirichlet(np.full(n, 0.2))
    return (belief @ rows[1 : n + 1]) / (belief @ rows[:n])


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_no_belief_about_others_leads_beyond_the_range(epsilon):
    random, n = np.random.default_rng(3), 6
    low, high = bayes_factors(epsilon)
    for _ in range(200):
        factors = mixtures(discrete_laplace(n, epsilon), n, random)
        assert low * (1 - 1e-12) <= factors.min()
        assert factors.max() <= high * (1 + 1e-12)
    # a mechanism that keeps 1.01·ε alone is noticed
    broken = mixtures(discrete_laplace(n, 1.01 * epsilon), n, random)
    assert broken.max() > high * (1 + 1e-4)


def test_randomised_response_attains_it():
    p = Fraction(3, 4)
    assert math.log(p / (1 - p)) <= math.log(bayes_factors(math.log(3))[1]) <= math.log(p / (1 - p)) * (1 + 1e-15)


def test_a_guarantee_of_presence_attains_the_printed_range():
    """The number of ones less that of zeros moves by 1 as a record is added, and by 2 as its value changes."""
    epsilon = 0.7
    rows = discrete_laplace(2, epsilon)
    assert np.log(rows[1] / rows[0]).max() == pytest.approx(epsilon)  # one record more
    changed = float(np.log(rows[2] / rows[0]).max())
    assert changed == pytest.approx(math.log(bayes_factors(epsilon, relation="add_remove")[1]))
    assert changed > 1.9 * math.log(bayes_factors(epsilon)[1])


def test_the_laws_of_the_study_are_mixtures_of_counts():
    """All 2^(n − 1) values of the other bits, one by one."""
    epsilon, n, others = 0.8, 5, 0.3
    r = math.exp(-epsilon)
    rows = np.zeros((2, n + 1))
    for bit in (0, 1):
        for rest in itertools.product((0, 1), repeat=n - 1):
            weight = math.prod(others if each else 1 - others for each in rest)
            count = bit + sum(rest)
            for z in range(-80, n + 81):
                rows[bit, min(max(z, 0), n)] += weight * (1 - r) / (1 + r) * r ** abs(z - count)
    assert np.abs(two_laws(epsilon, n, others).matrix - rows).max() < 1e-12


def test_power_of_every_set_stays_below_the_bound():
    """All 2^6 rejection regions of the laws of a count."""
    rows = two_laws(1.0, 5, 0.4).matrix
    for inside in itertools.product((0, 1), repeat=6):
        level, power = rows @ np.array(inside, float)
        assert power <= min(1.0, level * math.e) + 1e-12
        assert power <= max_power(min(1.0, level), 1.0) + 1e-12


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"epsilon": -1.0}, ParameterError),
        ({"epsilon": math.nan}, ParameterError),
        ({"epsilon": "1"}, ParameterTypeError),
        ({"epsilon": 1.0, "records": 0}, ParameterError),
        ({"epsilon": 1.0, "relation": "swap"}, ParameterError),
    ],
)
def test_what_is_refused(arguments, error):
    with pytest.raises(error):
        bayes_factors(**arguments)
