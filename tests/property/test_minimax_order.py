"""A lower bound never exceeds the upper bound beside it, whatever the solver's tolerance: moduli, certificates and bounds of the risk.

If the conditions of a model are equations, its members satisfy them to about 1e-10 only, so their θ may differ by more than θ can.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpcore import local
from dpcore.errors import DpcoreError
from dpcore.minimax import Certificate, Model, lower_bound, modulus_hellinger, modulus_tv, optimal_channel, upper_bound
from dpcore.minimax.spaces.moduli import Modulus
from support.minimax_models import NAMES, model

RADII = (1e-6, 1e-3, 0.05, 0.7)


def with_equations(seed: int) -> Model:
    """A random model whose conditions are equations, written as two inequalities, and perhaps an inequality."""
    generator = np.random.default_rng(seed)
    size, rows = int(generator.integers(4, 12)), int(generator.integers(1, 3))
    inside = generator.dirichlet(np.ones(size))
    equal = generator.normal(size=(rows, size)) * 10.0 ** generator.integers(-2, 4)
    conditions, limits = np.concatenate([equal, -equal]), np.concatenate([equal @ inside, -(equal @ inside)])
    if seed % 2:
        extra = generator.normal(size=(1, size))
        conditions, limits = np.concatenate([conditions, extra]), np.append(limits, extra @ inside + 0.1)
    return Model(generator.normal(size=size) * 10.0 ** generator.integers(-3, 4), conditions, limits)


def pairs_of_bounds(of: Model) -> list[tuple[float, float]]:
    """Every lower bound that the engine gives about a model, with the upper bound beside it."""
    found: list[Modulus] = []
    for radius in RADII:
        found += [modulus_tv(of, radius), modulus_hellinger(of, radius)]
        found.append(modulus_hellinger(of, radius, channel=local.KaryResponse(1.0, k=of.size)))
    high = upper_bound(of, 1.0, n=10_000)
    bounds = [(each.value, each.upper) for each in (*found, high.modulus)]
    bounds.append((lower_bound(of, 1.0, n=10_000).value, high.value))
    try:
        certificate = optimal_channel(of, 1.0, n=10_000).certificate
    except DpcoreError:  # a constant functional, or conditions that leave a solver no certificate
        return bounds
    return [*bounds, (certificate.modulus, certificate.attained)]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_lower_bounds_are_below_upper_bounds_on_models_with_equations(seed):
    assert all(0 <= lower <= upper for lower, upper in pairs_of_bounds(with_equations(seed)))


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_lower_bounds_are_below_upper_bounds_on_every_kind_of_model(name):
    assert all(0 <= lower <= upper for lower, upper in pairs_of_bounds(model(name)))


def test_bounds_that_cross_are_put_in_order_where_they_are_made():
    """The proved bound is the upper one; the members move together until they keep it."""
    p0, p1 = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    crossed = Modulus(1.0, p0, p1, 1.0, 0.75)
    assert (crossed.value, crossed.upper) == (0.75, 0.75)
    assert crossed.p1.tolist() == [0.25, 0.75]
    assert Certificate(0.1, 1.0, 0.5).modulus == 0.5
    ordered: Any = Modulus(0.5, p0, p1, 1.0, 0.75)
    assert ordered.value == 0.5
    assert ordered.p1 is p1
