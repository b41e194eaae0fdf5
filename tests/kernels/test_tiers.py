"""Fast, accurate and exact tier give the same bits: the fast path's error bound is large enough, and one that is not is found out.

Samples on the finest grid, and discrete ones at scale 2^40, lie within the fast path's error bound once in about 2^8 times, so that a
bound that is too small shows in 10^5 samples. The last test has such a bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from support.exact_pool import ExactPool, exact_pool
from support.kernels import ACCURATE, EXACT, FAST, LEVELS, Law, at_level, at_tier, same_bits

BELOW_TWO = math.nextafter(2.0, 0.0)  # every bit of the scale is set, and scale/grid is as large as it may be
DEFAULT_GRID = (Law("laplace", BELOW_TWO), Law("gaussian", BELOW_TWO))
FINEST_GRID = (Law("laplace", BELOW_TWO, 2.0**-39), Law("gaussian", BELOW_TWO, 2.0**-39))
DISCRETE_SCALES = (2.0**-19, 0.01, 0.3, 1.0, 3.0, 7.99, 8.0, 10.0, 1000.0, 2.0**40)
DISCRETE = tuple(Law(kind, scale) for kind in ("discrete_laplace", "discrete_gaussian") for scale in DISCRETE_SCALES)
ALL = DEFAULT_GRID + FINEST_GRID + DISCRETE

EXACT_SAMPLES = {
    **dict.fromkeys(DEFAULT_GRID + FINEST_GRID, 25_000),
    Law("discrete_laplace", 10.0): 25_000,
    Law("discrete_laplace", 2.0**40): 25_000,
    Law("discrete_gaussian", 3.0): 25_000,
    Law("discrete_gaussian", 10.0): 10**4,  # these two share one algorithm, the dearest
    Law("discrete_gaussian", 2.0**40): 10**4,
}
FEW = 2000
WRONG_BOUND = 1 / 16


@pytest.fixture(scope="module")
def pool() -> Iterator[ExactPool]:
    with exact_pool() as made:
        yield made


@pytest.mark.some(15)
@pytest.mark.parametrize("law", ALL, ids=str)
def test_accurate_tier_equals_fast_path_at_every_level(law: Law) -> None:
    n = 3 * 10**5 if law.scale > 0.1 else 10**4  # below, nothing but the rare tails needs a tier
    with at_tier(ACCURATE):
        expected = law.draw(n)
    for level in LEVELS:
        with at_level(level):
            assert same_bits(law.draw(n), expected), level


@pytest.mark.parametrize("law", ALL, ids=str)
def test_exact_tier_equals_fast_path(law: Law, pool: ExactPool) -> None:
    n = EXACT_SAMPLES.get(law, FEW)
    assert same_bits(law.draw(n), pool.draw(law, n))


@pytest.mark.long
@pytest.mark.parametrize("law", EXACT_SAMPLES, ids=str)
def test_exact_tier_equals_fast_path_on_a_million(law: Law, pool: ExactPool) -> None:
    n = 10**6
    assert same_bits(law.draw(n), pool.draw(law, n))


@pytest.mark.some(9)
@pytest.mark.parametrize("law", [law for law in ALL if law.scale > 0.1], ids=str)
def test_values_do_not_hide_a_tier(law: Law) -> None:
    values = law.values(500)
    fast = law.add(values)
    for tier in (ACCURATE, EXACT):
        with at_tier(tier):
            assert same_bits(law.add(values), fast)


@pytest.mark.parametrize("law", [law for law in ALL if law.scale > 0.1], ids=str)
def test_scalars_in_the_exact_tier(law: Law) -> None:
    values = law.values(20).tolist()
    with at_tier(EXACT):
        exact = [law.add(value, 1000 + i) for i, value in enumerate(values)]
    assert exact == [law.add(value, 1000 + i) for i, value in enumerate(values)]


@pytest.mark.some(16)
@pytest.mark.parametrize("law", [law for law in ALL if law.scale > 0.1], ids=str)
def test_scale_arrays_in_every_tier(law: Law) -> None:
    values = law.values((100, 3))
    scales = np.array([law.scale, law.scale / 2, law.scale])
    fast = law.add(values, scale=scales)
    for tier in (ACCURATE, EXACT):
        with at_tier(tier):
            assert same_bits(law.add(values, scale=scales), fast)


@pytest.mark.some(2)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("law", [*FINEST_GRID, Law("discrete_laplace", 2.0**40), Law("discrete_gaussian", 2.0**40)], ids=str)
def test_a_bound_divided_by_sixteen_is_found_out(law: Law, level: str) -> None:
    n = 4 * 10**6  # about one sample in 10^5 is wrong then
    with at_level(level), at_tier(FAST, WRONG_BOUND):
        wrong = law.draw(n)
    with at_level(level):
        right = law.draw(n)
    differ = np.flatnonzero(wrong != right)
    assert len(differ) >= 3
    assert len(differ) <= n * 1e-3
    for element in differ[:20].tolist():
        with at_tier(EXACT):
            assert law.draw(1, element)[0] == right[element]
