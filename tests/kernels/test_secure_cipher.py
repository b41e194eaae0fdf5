"""The secure source's faster cipher, AES-256 in counter mode: the same way from words to noise as under ChaCha20, at other words."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from dpcore import _backend
from support.kernels import ACCURATE, AES_LEVELS, EXACT, LAWS, LEVELS, Law, at_level, at_tier, same_bits

FINE = (
    Law("laplace", 1.99, 2.0**-39),
    Law("gaussian", 1.99, 2.0**-39),
    Law("discrete_laplace", 2.0**40),
    Law("discrete_gaussian", 2.0**40),
)
each_law = pytest.mark.parametrize("law", LAWS + FINE, ids=str)


@pytest.fixture(params=AES_LEVELS)  # where no level has AES, pytest reports an empty set as skipped
def aes_level(request: pytest.FixtureRequest) -> Iterator[str]:
    with at_level(request.param):
        yield request.param


@each_law
def test_levels_agree(law: Law, aes_level: str) -> None:
    values = law.values(5000)
    with at_level(AES_LEVELS[0]):
        expected = law.add(values, 77, secure=True)
    assert same_bits(law.add(values, 77, secure=True), expected)
    assert not np.array_equal(expected, law.add(values, 77))


@pytest.mark.some(3)
@each_law
def test_tiers_agree(law: Law, aes_level: str) -> None:
    n = 2 * 10**5
    fast = law.draw(n, secure=True)
    with at_tier(ACCURATE):
        assert same_bits(law.draw(n, secure=True), fast)
    with at_tier(EXACT):
        assert same_bits(law.draw(500, secure=True), fast[:500])


@each_law
def test_threads_pieces_and_scalars_agree(law: Law, aes_level: str) -> None:
    values = law.values(2 * _backend.threads.CHUNK + 5)
    whole = law.add(values, threads=1, secure=True)
    assert same_bits(law.add(values, threads=3, secure=True), whole)
    cuts = [0, 1, 64, 129, 500, 1024, 2000]
    pieces = [law.add(values[a:b], a, secure=True) for a, b in pairwise(cuts)]
    assert same_bits(np.concatenate(pieces), whole[:2000])
    assert [law.add(value, i, secure=True) for i, value in enumerate(values[:200].tolist())] == whole[:200].tolist()


@each_law
def test_a_level_without_aes_uses_chacha20(law: Law) -> None:
    for level in set(LEVELS) - set(AES_LEVELS):
        with at_level(level):
            assert same_bits(law.draw(1000, secure=True), law.draw(1000))
