"""Selection of partitions follows its law: exact binomial tests at an error rate of 10^-6; keyed, so runs repeat.

Each count is tested against its probability, and against that of a threshold that is one lower, which must be rejected.
"""

from __future__ import annotations

import numpy as np
import pytest

from dpcore import selection
from dpcore.testing import KeyedRandom
from support.kernels import AES_LEVELS, KEY, SecureCipher, at_level
from support.laws import ERROR_RATE, binomial_p_value

N = 10**6
CASES = [
    (1.0, 1e-3, {}, (1, 2, 5, 7, 9, 12)),
    (0.1, 1e-4, {"relation": "replace"}, (90, 120, 140)),
    (0.5, 1e-2, {"max_partitions": 2, "method": "truncated_geometric"}, (1, 10, 20)),
    (1.0, 1e-3, {"max_partitions": 8}, (20, 30, 40)),
]


def shares(epsilon, delta, options, count, rng):
    return int(selection.select_partitions(np.full(N, count), epsilon, delta, rng=rng, **options).sum())


@pytest.mark.parametrize(("epsilon", "delta", "options", "counts"), CASES)
def test_partitions_are_released_with_their_probabilities(epsilon, delta, options, counts):
    rng, rejected = KeyedRandom(KEY), 0
    for count in counts:
        released = shares(epsilon, delta, options, count, rng)
        assert binomial_p_value(released, N, selection.partition_probability(count, epsilon, delta, **options)) > ERROR_RATE
        rejected += binomial_p_value(released, N, selection.partition_probability(count + 1, epsilon, delta, **options)) < ERROR_RATE
    assert rejected == len(counts)


@pytest.mark.parametrize("level", AES_LEVELS[-1:])
def test_the_secure_cipher_follows_the_same_law(level):
    with at_level(level):
        released = shares(1.0, 1e-3, {}, 7, SecureCipher())
    assert binomial_p_value(released, N, selection.partition_probability(7, 1.0, 1e-3)) > ERROR_RATE


def test_decisions_of_neighbouring_elements_are_independent():
    kept = selection.select_partitions(np.full(N, 8), 1.0, 1e-3, rng=KeyedRandom(KEY))
    p = selection.partition_probability(8, 1.0, 1e-3)
    for distance in (1, 2, 64, 128, 512):
        both = int((kept[:-distance] & kept[distance:]).sum())
        # Pairs overlap, so that the variance is that of the sum of a 1-dependent sequence: at most three times the binomial one.
        wanted, deviation = (N - distance) * p * p, (3 * N * p * p * (1 - p * p)) ** 0.5
        assert abs(both - wanted) < 5 * deviation
