"""What a private channel leaves of χ², of affinities and of ratios, beside enumerations that know nothing of the proofs."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from dpcore import minimax
from dpcore.minimax.spaces.contraction import proved_constant
from dpcore.minimax.spaces.lower_bounds import _largest_ratio
from dpcore.minimax.spaces.two_members import ratio_lost

EPSILONS = st.sampled_from([0.01, 0.3, math.log(2), 1.0, 2.0, 5.0])


@st.composite
def staircases(draw, inputs: int, epsilon: float):
    """A private channel whose columns have entries w and e^ε·w: the extreme ones, of which all others are mixtures."""
    count = draw(st.integers(2, 2**inputs))
    patterns = np.array(list(itertools.product([1.0, math.exp(epsilon)], repeat=inputs)))
    seed = draw(st.integers(0, 2**32 - 1))
    generator = np.random.default_rng(seed)
    cost = generator.normal(size=len(patterns))
    cost[generator.permutation(len(patterns))[count:]] += 1.0
    found = linprog(cost, A_eq=patterns.T, b_eq=np.ones(inputs), bounds=(0, None))
    rows = patterns.T * found.x
    rows = rows[:, found.x > 1e-12]
    return rows / rows.sum(axis=1, keepdims=True)


@st.composite
def laws(draw, size: int):
    masses = np.array(draw(st.lists(st.floats(0.0, 1.0), min_size=size, max_size=size)))
    return (masses + (masses.sum() == 0)) / (masses + (masses.sum() == 0)).sum()


@given(st.data())
@settings(max_examples=150)
def test_private_channels_contract_chi_squared_and_affinities(data):
    epsilon, size = data.draw(EPSILONS), data.draw(st.integers(2, 4))
    channel, p, q = data.draw(staircases(size, epsilon)), data.draw(laws(size)), data.draw(laws(size))
    apart = min(minimax.tv(p, q), 1.0)
    bound = minimax.contraction_bound(epsilon, apart)
    after = p @ channel, q @ channel
    for a, b in (after, after[::-1]):
        assert float(((a - b) ** 2 / b).sum()) <= bound * (1 + 1e-9) + 1e-15
    assert minimax.kl(*after) + minimax.kl(*after[::-1]) <= bound * (1 + 1e-9) + 1e-15
    lost = minimax.hellinger(*after) ** 2 / 2
    assert lost <= bound / 8 * (1 + 1e-9) + 1e-15
    assert minimax.tv(*after) <= math.tanh(epsilon / 2) * apart + 1e-12
    largest = float(_largest_ratio(*(_fractions(law) for law in (p, q)), Fraction(math.exp(epsilon))))
    assert max(float((after[0] / after[1]).max()), float((after[1] / after[0]).max())) <= largest * (1 + 1e-9)
    assert lost <= ratio_lost(largest) * (1 + 1e-9) + 1e-15


def _fractions(law):
    masses = [Fraction(mass) for mass in law.tolist()]
    return [mass / sum(masses) for mass in masses]


@given(st.data())
@settings(max_examples=40)
def test_the_largest_ratio_by_all_columns(data):
    size, E = data.draw(st.integers(2, 6)), Fraction(data.draw(st.integers(9, 400)), 8)
    p, q = (_fractions(data.draw(laws(size))) for _ in range(2))
    columns = list(itertools.product((Fraction(1), E), repeat=size))
    ratios = [sum(map(Fraction.__mul__, column, p)) / sum(map(Fraction.__mul__, column, q)) for column in columns]
    assert _largest_ratio(p, q, E) == max(*ratios, *(1 / ratio for ratio in ratios))


@pytest.mark.parametrize("epsilon", [0.2, 0.6, math.log(2), 1.0, 3.0])
def test_the_constant_cannot_be_smaller(epsilon):
    # Three-ary response, with nearly all the mass at the third point, attains it above ln 2; binary response below, at distance 1.
    three, two, T = (
        np.full((3, 3), 1.0) + np.eye(3) * math.expm1(epsilon),
        np.array([[math.exp(epsilon), 1.0], [1.0, math.exp(epsilon)]]),
        1e-6,
    )
    three, two = three / three.sum(axis=1)[:, None], two / two.sum(axis=1)[:, None]
    p, q = (np.array([T, 0, 1 - T]) @ three, np.array([0, T, 1 - T]) @ three) if epsilon > math.log(2) else (two[0], two[1])
    chi = float(((p - q) ** 2 / q).sum())
    bound = minimax.contraction_bound(epsilon, T if epsilon > math.log(2) else 1.0)
    assert (1 - 1e-4) * bound <= chi <= bound
    # The often-quoted constant is too small above ln 2.
    quoted = math.expm1(epsilon) ** 2 / math.exp(epsilon) * (T if epsilon > math.log(2) else 1.0) ** 2
    assert (chi > quoted * (1 + 1e-6)) == (epsilon > math.log(2))


@pytest.mark.parametrize("E", [Fraction(1001, 1000), Fraction(3, 2), Fraction(2), Fraction(5, 2), Fraction(7), Fraction(1000)])
def test_the_duals_by_another_solver(E):
    # max Σ (Q1 − Q2)²/Q3 over private channels is a linear program over columns with entries 1 and E.
    columns = np.array([[float(v) for v in column] for column in itertools.product((Fraction(1), E), repeat=3)])
    gains = (columns[:, 0] - columns[:, 1]) ** 2 / columns[:, 2]
    far = -linprog(-gains, A_eq=columns.T, b_eq=np.ones(3), bounds=(0, None)).fun
    pairs = np.array([[float(v) for v in column] for column in itertools.product((Fraction(1), E), repeat=2)])
    near = -linprog(-((pairs[:, 0] - pairs[:, 1]) ** 2) / pairs[:, 1], A_eq=pairs.T, b_eq=np.ones(2), bounds=(0, None)).fun
    epsilon = math.log(E)
    proved = proved_constant(epsilon)
    assert float(proved) == pytest.approx(max(far, near), rel=1e-9)
    assert minimax.contraction_bound(epsilon, 1.0) >= float(proved)
    assert minimax.contraction_bound(epsilon, 1.0) == pytest.approx(float(proved), rel=1e-12)


@pytest.mark.parametrize("method", ["chi2", "steinberger"])
@pytest.mark.parametrize(("epsilon", "tv"), [(700.0, 1e-170), (700.0, 5e-324), (1.0, 1e-200), (1e-9, 1e-150), (2.0**-20, 1.0)])
def test_small_distances_are_rounded_up(method, epsilon, tv):
    # The square of a distance may be below the range of float64 where the bound is not.
    least = proved_constant(epsilon) if method == "chi2" else Fraction(math.expm1(epsilon)) ** 2 * (1 - Fraction(1, 10**12))
    assert Fraction(minimax.contraction_bound(epsilon, tv, method=method)) >= least * Fraction(tv) ** 2 * (1 - Fraction(1, 10**30))
    assert minimax.contraction_bound(epsilon, 0.0, method=method) == 0.0


@given(st.data())
@settings(max_examples=25)
def test_affinities_of_interactive_channels(data):
    # The second record's channel depends on the first report.
    epsilon, n = data.draw(EPSILONS), 2
    p, q = data.draw(laws(3)), data.draw(laws(3))
    first = data.draw(staircases(3, epsilon))
    second = [data.draw(staircases(3, epsilon)) for _ in range(first.shape[1])]
    law_p = np.concatenate([mass * (p @ channel) for mass, channel in zip(p @ first, second, strict=True)])
    law_q = np.concatenate([mass * (q @ channel) for mass, channel in zip(q @ first, second, strict=True)])
    lost = minimax.contraction_bound(epsilon, min(minimax.tv(p, q), 1.0)) / 8
    assert float(np.sqrt(law_p * law_q).sum()) >= max(1 - lost, 0.0) ** n * (1 - 1e-9) - 1e-12
