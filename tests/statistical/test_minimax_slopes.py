"""Steinberger (2019), Beispiele 3.6 to 3.8: risks at the worst distribution fall with n as the theory says, between the proven bounds.

Squared loss, ε = 1, n = 10^3 … 10^6, 10^6 data sets each; grids become finer and wider with n. The draws are keyed.
"""

from __future__ import annotations

from functools import cache

import pytest

from dpcore.minimax import density_at, simulate_risk, worst_distribution
from dpcore.reproduce.estimates import log_slope
from dpcore.reproduce.minimax_examples import EXAMPLES, FEWEST_INTERVALS, Case, measure
from dpcore.testing import KeyedRandom
from support.kernels import KEY

pytest.importorskip("clarabel")

SIZES = 10**3, 10**4, 10**5, 10**6
TOLERANCE = 0.05
EPSILON = 1.0


@cache
def case(name, n):
    return Case(EXAMPLES[name], n, EPSILON)


def measured(name, kind, n, replicates=1_000_000):
    """The measured risk, once it lies where it has to."""
    here = case(name, n)
    estimator = here.linear if kind == "linear" else here.search
    if kind == "search" and estimator.N < FEWEST_INTERVALS:
        return None
    found = measure(estimator, rng=KeyedRandom(KEY), replicates=replicates)
    assert here.model.contains(found.worst.p, tolerance=1e-7)
    assert found.worst.risk <= found.bound * (1 + 1e-9)
    assert abs(found.risk.value - found.worst.risk) < 5 * found.risk.stderr
    assert here.lower_bound - 4 * found.risk.stderr <= found.risk.value <= found.bound + 4 * found.risk.stderr
    return found.risk.value


@pytest.mark.long
@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("kind", ["linear", "search"])
def test_slopes_are_those_of_theory(name, kind):
    risks = {n: risk for n in SIZES if (risk := measured(name, kind, n)) is not None}
    assert len(risks) >= 3
    assert log_slope(list(risks), list(risks.values()))[0] == pytest.approx(EXAMPLES[name].exponent, abs=TOLERANCE)


@pytest.mark.long
def test_a_bandwidth_that_does_not_depend_on_n_is_found_out():
    fixed = density_at(0.0, EPSILON, n=SIZES[0], smoothness=2.0, C=1.0)
    risks = []
    for n in SIZES:
        twin = fixed.on(case("3.8, m = 0", SIZES[0]).model, n=n)
        risks.append(simulate_risk(twin, worst_distribution(twin).p, replicates=100_000, rng=KeyedRandom(KEY)).value)
    assert abs(log_slope(SIZES, risks)[0] - EXAMPLES["3.8, m = 0"].exponent) > TOLERANCE


@pytest.mark.long
@pytest.mark.parametrize("kind", ["linear", "search"])
def test_measuring_an_example(kind):
    assert 0.004 < measured("3.6 A", kind, 1000, replicates=100_000) < 0.006


@pytest.mark.parametrize("name", EXAMPLES)
def test_grids_are_as_fine_and_as_wide_as_the_bandwidth_asks(name):
    for n in (10**3, 10**5):
        here = case(name, n)
        h, points = here.linear.linear.h, here.model.points
        if name == "3.6 A":
            assert here.linear.linear.bound == pytest.approx(1.0, abs=0.1)
            continue
        spacing = points[1] - points[0]
        assert spacing <= (h or (n * 0.2135) ** (-1 / 3)) / 4 * (1 + 1e-3)
        if name != "3.7":
            assert points[-1] - points[0] >= 2 / h
        if name == "3.6 B":
            assert points[-1] >= 2 / h * (1 - 1e-12)
