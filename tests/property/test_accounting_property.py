"""Composition over the whole range of its parameters: monotone in every argument, never an overflow, and the rules in their order."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpcore import Privacy, accounting
from dpcore.accounting import Uses


def logarithmic(low: float, high: float) -> st.SearchStrategy[float]:
    """Positive floats spread evenly over their exponents."""
    return st.floats(math.log(low), math.log(high)).map(math.exp)


EPSILONS = st.one_of(logarithmic(1e-12, 700.0), st.sampled_from([0.1, 1.0, 700.0]))
DELTAS = st.one_of(logarithmic(1e-300, 0.999), logarithmic(1e-12, 1e-3))
NONE_OR_TINY = st.one_of(st.just(0.0), logarithmic(1e-300, 1e-3))
COUNTS = st.one_of(st.integers(1, 40), st.integers(1, 10**6))
MORE = st.floats(1.0, 3.0)


@pytest.mark.long
@given(epsilon=EPSILONS, delta=NONE_OR_TINY, k=COUNTS, total=DELTAS, more=MORE, further=st.integers(0, 1000))
@example(epsilon=700.0, delta=0.0, k=10**6, total=1e-300, more=1.0, further=0)
@example(epsilon=1e-12, delta=0.0, k=10**6, total=1e-300, more=1.0, further=1)
def test_optimal_is_monotone_in_every_argument_and_never_overflows(epsilon, delta, k, total, more, further):
    found = accounting.optimal(epsilon, delta, uses=k, delta_total=total)
    assert found == math.inf or 0 <= found <= k * epsilon * (1 + 1e-15)
    assert found <= accounting.optimal(epsilon * more, delta, uses=k, delta_total=total)
    assert found <= accounting.optimal(epsilon, min(delta * more, 0.9), uses=k, delta_total=total)
    assert found <= accounting.optimal(epsilon, delta, uses=k + further, delta_total=total)
    assert found >= accounting.optimal(epsilon, delta, uses=k, delta_total=min(total * more, 0.9999))


@pytest.mark.long
@given(epsilon=logarithmic(1e-9, 60.0), k=st.integers(1, 25), total=DELTAS)
def test_optimal_is_the_least_float_that_the_definition_allows(epsilon, k, total):
    context = mpmath.MPContext()
    context.dps = 400 + int(k * epsilon)

    def least_delta(budget):
        likely = 1 / (1 + context.exp(-context.mpf(epsilon)))
        unlikely, gain = likely * context.exp(-context.mpf(epsilon)), context.exp(budget)
        terms = (math.comb(k, i) * (likely ** (k - i) * unlikely**i - gain * likely**i * unlikely ** (k - i)) for i in range(k + 1))
        return context.fsum(term for term in terms if term > 0)

    found = accounting.optimal(epsilon, 0.0, uses=k, delta_total=total)
    if Fraction(found) < k * Fraction(epsilon):
        assert least_delta(found) <= total
    assert found == 0.0 or least_delta(math.nextafter(found, 0.0)) > total


@given(epsilon=EPSILONS, k=COUNTS, delta_prime=DELTAS, more=MORE, further=st.integers(0, 1000))
def test_advanced_is_monotone_in_every_argument(epsilon, k, delta_prime, more, further):
    found = accounting.advanced(epsilon, 0.0, uses=k, delta_prime=delta_prime).epsilon
    assert found > 0
    assert found <= accounting.advanced(epsilon * more, 0.0, uses=k, delta_prime=delta_prime).epsilon
    assert found <= accounting.advanced(epsilon, 0.0, uses=k + further, delta_prime=delta_prime).epsilon
    assert found >= accounting.advanced(epsilon, 0.0, uses=k, delta_prime=min(delta_prime * more, 0.9999)).epsilon


@pytest.mark.long
@given(epsilon=EPSILONS, k=COUNTS, delta=DELTAS)
def test_rules_are_in_their_order(epsilon, k, delta):
    optimal = accounting.optimal(epsilon, 0.0, uses=k, delta_total=delta)
    assert optimal <= accounting.advanced(epsilon, 0.0, uses=k, delta_prime=delta).epsilon
    assert optimal <= accounting.zcdp_epsilon(min(k * accounting.rho_pure(epsilon), 1e300), delta) * (1 + 1e-12)
    assert Fraction(optimal) <= k * Fraction(epsilon) * (1 + Fraction(1, 2**52))
    if epsilon <= 1:
        lecture = accounting.advanced(epsilon, 0.0, uses=k, delta_prime=delta, method="lecture").epsilon
        assert accounting.advanced(epsilon, 0.0, uses=k, delta_prime=delta).epsilon <= lecture


USES = st.one_of(
    st.builds(Uses, st.sampled_from(["pure", "laplace", "bounded_range"]), uses=COUNTS, epsilon=EPSILONS),
    st.builds(Uses, st.just("approximate"), uses=COUNTS, epsilon=EPSILONS, delta=logarithmic(1e-300, 1e-9)),
    st.builds(Uses, st.sampled_from(["gaussian", "concentrated"]), uses=COUNTS, rho=logarithmic(1e-12, 1e3)),
)


@pytest.mark.long
@settings(max_examples=50)
@given(uses=st.lists(USES, min_size=1, max_size=3), one=USES, delta=DELTAS, more=MORE)
@example(
    uses=[Uses("pure", epsilon=1.0), Uses("approximate", epsilon=1.0, delta=1e-9)],
    one=Uses("pure", epsilon=0.4),
    delta=0.4,
    more=1.0,
)
@example(
    uses=[Uses("pure", epsilon=1.0), Uses("pure", epsilon=0.5), Uses("pure", epsilon=0.25)],
    one=Uses("pure", epsilon=2.0),
    delta=0.4,
    more=1.0,
)
def test_compose_is_monotone_and_never_overflows(uses, one, delta, more):
    found = accounting.compose(uses, delta)
    assert not math.isnan(found.privacy.epsilon)
    assert found.privacy.epsilon >= 0
    assert found.privacy.delta <= delta
    slack = 1 + 1e-9  # searches end within 10^−14, and roundings are in different places
    assert found.privacy.epsilon >= accounting.compose(uses, min(delta * more, 0.9999)).privacy.epsilon / slack
    assert found.privacy.epsilon <= accounting.compose([*uses, one], delta).privacy.epsilon * slack
    parts = [Privacy(use.epsilon, use.delta) for use in uses for _ in range(min(use.uses, 3))]
    if all(use.rho is None and use.uses <= 3 for use in uses):
        basic = accounting.basic(parts)
        assert basic.delta > delta or found.privacy.epsilon <= basic.epsilon


@settings(max_examples=50)
@given(epsilon=EPSILONS, k=COUNTS, total=logarithmic(1e-9, 1e3), more=MORE)
def test_least_delta_is_monotone(epsilon, k, total, more):
    uses = Uses("pure", uses=k, epsilon=epsilon)
    found = accounting.delta_for_epsilon(uses, total)
    slack = 1 + 1e-12
    assert 0 <= found <= 1
    assert found >= accounting.delta_for_epsilon(uses, total * more) / slack
    assert found <= accounting.delta_for_epsilon(Uses("pure", uses=k, epsilon=epsilon * more), total) * slack
    assert found <= accounting.delta_for_epsilon(Uses("pure", uses=k + 1, epsilon=epsilon), total) * slack


@given(epsilon=st.one_of(logarithmic(1e-300, 1e300), logarithmic(1e-9, 700.0)), more=MORE)
def test_rho_is_monotone_and_in_its_order(epsilon, more):
    for rho in (accounting.rho_pure, accounting.rho_laplace, accounting.rho_bounded_range):
        assert 0 < rho(epsilon) <= rho(epsilon * more)
    assert accounting.rho_bounded_range(epsilon) <= accounting.rho_pure(epsilon)
    assert accounting.rho_laplace(epsilon) <= accounting.rho_pure(epsilon)


@pytest.mark.long
@settings(max_examples=25)
@given(
    mechanism=st.sampled_from(["pure", "bounded_range", "laplace", "gaussian"]),
    epsilon=logarithmic(1e-4, 700.0),
    delta=logarithmic(1e-30, 0.5),
    k=st.one_of(st.integers(1, 50), st.integers(1, 10**6)),
)
def test_calibrated_noise_meets_its_target(mechanism, epsilon, delta, k):
    found = accounting.calibrate(Privacy(epsilon, delta), mechanism, uses=k)
    assert 0 < found.parameter < math.inf
    assert found.privacy.epsilon <= epsilon
    assert found.privacy.delta <= delta
    more = accounting.calibrate(Privacy(epsilon, delta), mechanism, uses=k + 1).parameter
    if mechanism in {"laplace", "gaussian"}:
        assert more >= found.parameter * (1 - 2e-9)
    else:
        assert more <= found.parameter * (1 + 2e-9)


@given(epsilons=st.lists(st.floats(0.01, 2.0), min_size=1, max_size=8), delta=logarithmic(1e-12, 0.5))
def test_unequal_parts_lie_between_bounds_of_equal_ones(epsilons, delta):
    tolerance = 0.05
    found = accounting.optimal_heterogeneous([Privacy(e) for e in epsilons], delta_total=delta, tolerance=tolerance)
    k = len(epsilons)
    assert accounting.optimal(min(epsilons), 0.0, uses=k, delta_total=delta) <= found * (1 + 1e-9)
    assert found <= accounting.optimal(max(epsilons), 0.0, uses=k, delta_total=delta) + tolerance
    assert found <= accounting.basic([Privacy(e) for e in epsilons]).epsilon


@pytest.mark.parametrize("partition", ["identity", "value"])
@given(
    parts=st.lists(st.tuples(st.floats(0.0, 10.0), st.floats(0.0, 0.05)), min_size=1, max_size=6),
    relation=st.sampled_from(["replace", "add_remove"]),
)
def test_parallel_is_between_one_part_and_all(partition, parts, relation):
    guarantees = [Privacy(epsilon, delta, relation) for epsilon, delta in parts]
    found, every = accounting.parallel(guarantees, partition=partition), accounting.basic(guarantees)
    assert max(epsilon for epsilon, _ in parts) <= found.epsilon <= every.epsilon
    assert max(delta for _, delta in parts) <= found.delta <= every.delta
