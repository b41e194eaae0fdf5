"""What docs/interop/diffprivlib.md proves about the bounded Laplace mechanisms, on whole laws: grids are so coarse that all is added up.

Each check has a twin, a scale or a bound that is a little smaller, which fails it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import diffprivlib.mechanisms as peer
import numpy as np
import pytest

from dpcore import noise
from dpcore.interop import diffprivlib as backend
from dpcore.interop.diffprivlib import _scales
from dpcore.testing import KeyedRandom
from support.kernels import KEY, Array

CASES = [
    (0.7, 0.0, 1.0, -1.0, 2.0),
    (0.05, 0.0, 0.5, 0.0, 1.0),
    (4.0, 0.0, 1.0, 0.3, 1.3),
    (1.0, 0.1, 2.0, 0.0, 3.0),
    (0.0, 0.3, 1.0, -5.0, 5.0),
    (1.0, 0.0, 2.0, 0.0, math.inf),
    (0.3, 0.0, 1.0, -math.inf, math.inf),
    (2.0, 0.0, 9.0, 0.1, 1.2),
]


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Grids of an eighth of the width, or of the scale."""
    monkeypatch.setattr(_scales, "_grid", lambda scale, width, _: _scales._power_below(min(width, scale) / 8))
    _scales.bounded_domain.cache_clear()
    yield
    _scales.bounded_domain.cache_clear()


def upper_tail(t: Array) -> Array:
    """P(W > t) of the unit Laplace law."""
    return np.where(t > 0, 0.5 * np.exp(-np.abs(t)), 1 - 0.5 * np.exp(-np.abs(t)))


def steps_law(x: float, scale: float, grid: float, steps: Array) -> Array:
    """P(R(x + bW) = kg) for steps k."""
    edges = (np.append(steps - 0.5, steps[-1] + 0.5) * grid - x) / scale
    right, left = upper_tail(edges[:-1]) - upper_tail(edges[1:]), upper_tail(-edges[1:]) - upper_tail(-edges[:-1])
    return np.where(edges[:-1] >= 0, right, left)


def domain_law(x: float, domain: _scales.Domain) -> Array:
    """The law of the released number for a value: all its points, or those that are not too far away."""
    far = 60 * domain.scale
    low, high = max(domain.lower, -far), min(domain.upper, far)
    steps = np.arange(math.ceil(low / domain.grid), math.floor(high / domain.grid) + 1)
    law = steps_law(min(max(x, domain.lower), domain.upper), domain.scale, domain.grid, steps)
    return law / law.sum()


def largest_loss(domain: _scales.Domain, sensitivity: float, lower: float, upper: float) -> float:
    """The largest log-ratio over outputs and neighbouring values, the bounds among them."""
    start, stop = max(lower, -20.0), min(upper, 20.0)
    values = np.unique(
        np.concatenate([np.linspace(start, stop, 25), [start, min(start + sensitivity, stop), max(stop - sensitivity, start)]])
    )
    laws = {x: domain_law(x, domain) for x in values}
    pairs = ((a, b) for a, b in itertools.permutations(values, 2) if abs(a - b) <= sensitivity)
    return max(float(np.log(laws[a] / laws[b]).max()) for a, b in pairs)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_loss_in_a_domain_is_at_most_what_is_claimed(case: Any, coarse: None) -> None:
    epsilon, delta, sensitivity, lower, upper = case
    domain = _scales.bounded_domain(*case)
    assert domain is not None
    allowed = epsilon - math.log(1 - delta)
    assert largest_loss(domain, sensitivity, lower, upper) <= allowed * (1 + 1e-9)
    # bounds that are infinite on both sides leave a plain Laplace mechanism, which the scale of one bound is too large for
    thin = domain._replace(scale=domain.scale * (0.8 if math.isfinite(lower) else 0.5))
    assert largest_loss(thin, sensitivity, lower, upper) > allowed * (1 + 1e-6) or sensitivity > upper - lower


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_scale_is_that_of_diffprivlib_but_for_its_rounding(case: Any) -> None:
    epsilon, delta, sensitivity, lower, upper = case
    domain = _scales.bounded_domain(*case)
    assert domain is not None
    mechanism = peer.LaplaceBoundedDomain(epsilon=epsilon, delta=delta, sensitivity=sensitivity, lower=lower, upper=upper)
    if sensitivity <= upper - lower:  # beyond, the formula of diffprivlib is that of values which do not exist
        assert domain.scale == pytest.approx(mechanism._find_scale(), rel=1e-6)
    assert domain.lower >= lower
    assert domain.upper <= upper
    assert domain.scale * 2.0**-40 <= domain.grid <= noise.default_grid(domain.scale)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 0.9, 3.0])
@pytest.mark.parametrize("delta", [1e-6, 0.01, 0.4])
@pytest.mark.parametrize("sensitivity", [1.0, 0.37])
def test_bounded_noise_keeps_its_epsilon_and_its_delta(epsilon: float, delta: float, sensitivity: float, monkeypatch: Any) -> None:
    monkeypatch.setattr(_scales, "default_grid", lambda scale: _scales._power_below(scale / 64))
    monkeypatch.setattr(_scales, "_power_below", lambda x: 2.0 ** math.floor(math.log2(x * 2.0**16 if x < sensitivity * 2.0**-10 else x)))
    cut = _scales.bounded_noise.__wrapped__(epsilon, delta, sensitivity)
    assert cut is not None
    moved = math.ceil(sensitivity / cut.grid)
    half = round(cut.bound / cut.grid)
    assert half < 10**6

    def losses(bound: int) -> tuple[float, float]:
        law = steps_law(0.0, cut.scale, cut.grid, np.arange(-bound, bound + 1))
        law /= law.sum()
        shares = []
        for shift in {1, moved // 2, moved}:
            here, there = law[shift:], law[: len(law) - shift]
            shares.append((float(np.abs(np.log(here / there)).max()), float(law[:shift].sum()) if shift else 0.0))
        return max(ratio for ratio, _ in shares), max(rest for _, rest in shares)

    ratio, rest = losses(half)
    assert ratio <= epsilon + 1e-9
    assert rest <= delta * (1 + 1e-9)
    assert losses(half - 1)[1] > delta
    assert (half + 0.5) * cut.grid >= sensitivity / epsilon * math.log(1 + math.expm1(epsilon) / 2 / delta) * (1 - 1e-12)


def test_released_sums_lie_on_the_grid_and_within_the_bound() -> None:
    with backend.install(vectorise=True):
        mechanism = peer.LaplaceBoundedNoise(epsilon=0.5, delta=0.1, sensitivity=1.0, random_state=3)
        cut = _scales.bounded_noise(0.5, 0.1, 1.0)
        assert cut is not None
        values = np.linspace(-1e6, 1e6, 5001) / 3
        moved = mechanism.randomise(values) - np.round(values / cut.grid) * cut.grid
        assert np.abs(moved).max() <= cut.bound == mechanism._noise_bound
        assert np.all(np.mod(moved, cut.grid) == 0)
        domain = peer.LaplaceBoundedDomain(epsilon=0.5, sensitivity=1.0, lower=-1 / 3, upper=1e-3, random_state=3)
        drawn = domain.randomise(np.full(20_000, -0.2))
        found = _scales.bounded_domain(0.5, 0.0, 1.0, -1 / 3, 1e-3)
        assert found is not None
        assert domain._scale == found.scale
        assert drawn.min() >= -1 / 3
        assert drawn.max() <= 1e-3
        assert np.all(np.mod(drawn, found.grid) == 0)


def test_noise_on_a_coarse_grid_has_the_law_that_the_proofs_assume() -> None:
    drawn = noise.laplace(np.full(100_000, 0.3), 1.0, grid=0.5, rng=KeyedRandom(KEY))
    steps = np.arange(-12, 13)
    expected = steps_law(0.3, 1.0, 0.5, steps) * len(drawn)
    counts = np.bincount(np.clip(np.round(drawn / 0.5).astype(int), -12, 12) + 12, minlength=25)
    assert np.abs(counts[4:-4] - expected[4:-4]).max() < 6 * np.sqrt(expected.max())
