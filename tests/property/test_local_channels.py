"""Laws of finite channels, of signs of vectors and of points of projective spaces over the range of ε: their ratios in rationals."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpcore.local import FiniteChannel, ProjectiveGeometryResponse
from dpcore.local._geometry import factors, is_order, space_of
from dpcore.local._hypercube import hypercube, law_of_signs

MP = mpmath.MPContext()
MP.prec = 6000
BITS = 4000
EPSILONS = st.one_of(
    st.sampled_from([2.0**-20, 1e-6, 0.1, math.log(2), 1.0, 3.0, 8.0, 700.0]),
    st.floats(math.log(2.0**-20), math.log(700.0)).map(lambda x: min(max(math.exp(x), 2.0**-20), 700.0)),
)
ENTRIES = st.one_of(st.integers(0, 3).map(float), st.floats(-600.0, 0.0).map(math.exp), st.floats(0.1, 1.0))


def real(x):
    return MP.mpf(x.numerator) / x.denominator


def enclosed(probability):
    """Two fractions around a probability, 2^−4000 apart."""
    floor = probability.floor(BITS)
    return Fraction(floor, 2**BITS), Fraction(floor + 1, 2**BITS)


@st.composite
def matrices(draw):
    """Rows of floats that sum to 1 up to rounding."""
    width = draw(st.integers(1, 6))
    rows = np.array(draw(st.lists(st.lists(ENTRIES, min_size=width, max_size=width), min_size=1, max_size=5)))
    rows[rows.sum(axis=1) == 0] = 1.0
    return rows / rows.sum(axis=1, keepdims=True)


@given(matrices(), EPSILONS)
@example(np.eye(3), 2.0**-20)
@example(np.array([[1.0, 5e-324], [0.5, 0.5]]), 1.0)
def test_mixed_rows_keep_their_level_in_rationals(rows, epsilon):
    channel = FiniteChannel.at_level(rows, epsilon)
    weights, ratio = channel.rows.tolist(), Fraction(1)
    assert {sum(row) for row in weights} == {channel.denominator}
    for column in zip(*weights, strict=True):
        assert min(column) > 0 or max(column) == 0
        if max(column):
            ratio = max(ratio, Fraction(max(column), min(column)))
    assert real(ratio) <= MP.exp(MP.mpf(epsilon))
    exact = FiniteChannel(channel.rows).epsilon
    assert MP.mpf(exact) >= MP.log(real(ratio))
    assert exact == 0 or MP.mpf(math.nextafter(exact, 0.0)) < MP.log(real(ratio))


@given(st.integers(1, 60), EPSILONS)
@example(2, 1.0)
@example(4, 700.0)
def test_signs_are_as_likely_as_their_side_and_no_constant_is_less(d, epsilon):
    """All reports of a side have one probability, and those of the two sides the ratio e^ε; the debiasing constant by its definition."""
    law, made, factor = law_of_signs(epsilon, d), hypercube(epsilon, d), MP.exp(MP.mpf(epsilon))
    steps = [p.constant for p in law.table]
    sides = [[Fraction(0), *steps[: law.w], Fraction(1)], [Fraction(0), *steps[law.w :], Fraction(1)]]
    each = [{(high - low) / math.comb(d, first + i) for i, (low, high) in enumerate(pairwise(side))}
            for side, first in zip(sides, (0, law.w + 1), strict=True)]  # fmt: skip
    (near,), (far,) = each
    low, high = enclosed(law.likely)
    assert real(low * near / ((1 - low) * far)) <= factor <= real(high * near / ((1 - high) * far))

    def gain(a):
        agree = sum(math.comb(d, k) * (2 * k - d) for k in range(a, d + 1))
        return (factor - 1) * agree / d / ((factor - 1) * sum(math.comb(d, k) for k in range(a, d + 1)) + 2**d)

    gains = [gain(a) for a in range(1, d + 1)]
    assert abs(real(made.gain) / max(gains) - 1) < MP.mpf(2) ** -250
    assert gains[made.agreements - 1] == max(gains)


@given(EPSILONS, st.integers(2, 2**24))
def test_points_of_a_hyperplane_are_e_to_epsilon_times_as_likely(epsilon, k):
    from dpcore._exact.probability import inclusion

    space = ProjectiveGeometryResponse(epsilon, k=k)._space
    low, high = enclosed(inclusion(epsilon, space.points, space.hyperplane))
    odds = [p * (space.points - space.hyperplane) / ((1 - p) * space.hyperplane) for p in (low, high)]
    assert real(odds[0]) <= MP.exp(MP.mpf(epsilon)) <= real(odds[1])
    assert k <= space.points
    assert space.t == 2 or is_order(space.q)


@pytest.mark.parametrize("q", [q if q < 130 else pytest.param(q, marks=pytest.mark.long) for q in range(2, 1025) if is_order(q)])
def test_tables_of_every_order_are_those_of_a_field(q):
    """Sums are digit by digit, x ↦ gx is additive for the generator g, and its powers are all elements but 0: hence the axioms."""
    (p, m), tables = factors(q), space_of(q, 3)
    a, log, exp = np.arange(q), tables.log.astype(np.int64), tables.exp.astype(np.int64)
    digits = np.stack([a // p**i % p for i in range(m)], axis=1)
    sums = (a[:, None] + a) % q if tables.sums is None else tables.sums.reshape(q, q).astype(np.int64)
    assert np.array_equal(sums, (digits[:, None] + digits) % p @ p ** np.arange(m))
    assert sorted(exp[: q - 1].tolist()) == a[1:].tolist()
    assert np.array_equal(exp[log[1:]], a[1:])
    assert np.array_equal(exp[q - 1 : 2 * q - 2], exp[: q - 1])
    times = np.concatenate([[0], exp[log[1:] + log[exp[1]]]])  # by the generator; the element 1 is its power 0
    assert exp[0] == 1
    assert np.array_equal(times[sums], sums[times[:, None], times])
