"""How the numbers of a peer enter the noise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpcore import noise
from dpcore.interop._entering import fraction_noise
from dpcore.testing import KeyedRandom
from support.distances import keeps_distance
from support.jobs import KEY


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_of_a_float_the_noise_of_fractions_is_that_of_floats(kind):
    rng = np.random.default_rng(28)
    for scale in (1e-250, 2.0**-30, 0.3, 1.0, 7e5, 1e250):
        for value in (0.0, 0.1, -3.5, 1e300, -1e-300, *rng.standard_normal(10).tolist()):
            one, two = KeyedRandom(KEY), KeyedRandom(KEY)
            for _ in range(3):
                draw = getattr(noise, kind)
                assert fraction_noise(kind, Fraction(value), scale, one) == draw(value, scale, rng=two)


def test_neighbours_among_fractions_keep_their_distance_and_a_twin_that_rounds_is_rejected():
    def exact(value, scale):
        return [fraction_noise("laplace", value, scale, None) for _ in range(500)]

    def rounded(value, scale):
        return noise.laplace(np.full(500, float(value)), scale)

    pairs = [(Fraction(2**63) + Fraction(1023), Fraction(2**63) + Fraction(1025)), (Fraction(1, 3), Fraction(1, 3) + Fraction(1, 2**80))]
    assert all(keeps_distance(exact, *pair) for pair in pairs)
    assert not keeps_distance(rounded, *pairs[0])
    assert fraction_noise("gaussian", Fraction(10**400), 1.0, None) == np.finfo(float).max
