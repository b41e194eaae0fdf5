"""ρ of mechanisms against their Rényi divergences; a ρ that is a little smaller fails."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest

from dpcore import accounting
from dpcore.errors import ParameterError

MP = mpmath.MPContext()
MP.dps = 60
ORDERS = [1 + MP.mpf(10) ** e for e in (-12, -6, -3, -2, -1)] + [MP.mpf(x) for x in (1.5, 2, 3, 5, 10, 33, 200)]
EPSILONS = [1e-6, 0.01, 0.3, 1.0, 2.5, 8.0, 40.0, 700.0]


def divergence(p, q, order):
    """D_α(P ‖ Q) of two laws on the same outcomes."""
    return MP.log(MP.fsum(a**order * b ** (1 - order) for a, b in zip(p, q, strict=True))) / (order - 1)


def laplace_divergence(epsilon, order):
    """Mironov (2017), Proposition 6."""
    epsilon = MP.mpf(epsilon)
    near = order / (2 * order - 1) * MP.exp((order - 1) * epsilon)
    far = (order - 1) / (2 * order - 1) * MP.exp(-order * epsilon)
    return MP.log(near + far) / (order - 1)


def response(epsilon):
    likely = 1 / (1 + MP.exp(-MP.mpf(epsilon)))
    unlikely = likely * MP.exp(-MP.mpf(epsilon))
    return (likely, unlikely), (unlikely, likely)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_rho_of_laplace_noise_holds_at_every_order_and_is_attained(epsilon):
    rho = accounting.rho_laplace(epsilon)
    assert all(laplace_divergence(epsilon, order) <= order * MP.mpf(rho) for order in ORDERS)
    assert any(laplace_divergence(epsilon, order) > order * MP.mpf(rho) * (1 - MP.mpf(10) ** -6) for order in ORDERS)
    exact = MP.mpf(epsilon) + MP.exp(-MP.mpf(epsilon)) - 1
    assert exact <= rho <= exact * (1 + MP.mpf(2) ** -52)


@pytest.mark.parametrize("parts", [(0.5, 0.5), (0.1, 0.2, 0.7), (0.01,) * 100])
def test_rho_of_laplace_noise_holds_for_vectors(parts):
    """The move of a vector is spread over coordinates in any way; their divergences add."""
    rho = accounting.rho_laplace(math.fsum(parts))
    assert all(MP.fsum(laplace_divergence(part, order) for part in parts) <= order * MP.mpf(rho) for order in ORDERS)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_rho_of_pure_privacy_holds_for_randomised_response_and_is_attained(epsilon):
    rho = accounting.rho_pure(epsilon)
    p, q = response(epsilon)
    assert all(divergence(p, q, order) <= order * MP.mpf(rho) * (1 + MP.mpf(10) ** -30) for order in ORDERS)
    assert any(divergence(p, q, order) > order * MP.mpf(rho) * (1 - MP.mpf(10) ** -6) for order in ORDERS)
    assert rho <= epsilon**2 / 2 * (1 + 1e-15)
    assert accounting.rho_laplace(epsilon) <= rho


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.35, 0.5, 0.8, 1.0])
def test_rho_of_a_bounded_range_holds_for_two_outcomes(epsilon, share):
    """Losses εt and ε(t − 1) have a range of ε; two outcomes are the worst case (Dong, Durfee & Rogers, 2020)."""
    top, bottom = MP.exp(MP.mpf(epsilon) * share), MP.exp(MP.mpf(epsilon) * (share - 1))
    second = (1 - bottom) / (top - bottom)  # q with q·top + (1−q)·bottom = 1
    p, q = (second * top, 1 - second * top), (second, 1 - second)
    if min(*p, *q) > 0:
        rho = MP.mpf(accounting.rho_bounded_range(epsilon))
        assert all(divergence(p, q, order) <= order * rho * (1 + MP.mpf(10) ** -30) for order in ORDERS)


def test_permute_and_flip_is_no_bounded_range_mechanism():
    """Two candidates half a unit apart change places: the loss is within ε but not ε²/8-concentrated, so only `rho_pure` may be claimed."""
    epsilon = MP.mpf(1)
    second = MP.exp(-epsilon / 2) / 2
    p, q = (1 - second, second), (second, 1 - second)
    assert MP.log(p[0] / q[0]) <= epsilon
    near_one = ORDERS[0]
    assert divergence(p, q, near_one) > 2 * near_one * accounting.rho_bounded_range(1.0)
    assert all(divergence(p, q, order) <= order * accounting.rho_pure(1.0) for order in ORDERS)


@pytest.mark.parametrize("epsilon", [0.0, 5e-324, 1e-200, 1e-30, 1e-20, 1e-17])
def test_rho_of_tiny_losses(epsilon):
    for rho in (accounting.rho_pure, accounting.rho_laplace, accounting.rho_bounded_range):
        found = rho(epsilon)
        half = MP.mpf(epsilon) ** 2 / (8 if rho is accounting.rho_bounded_range else 2)
        assert half * (1 - MP.mpf(10) ** -15) <= found <= max(half * (1 + MP.mpf(10) ** -15), 5e-324 if epsilon else 0)


def test_rho_of_gaussian_noise():
    assert accounting.rho_gaussian(2.0, 1.0) == 0.125
    assert accounting.rho_gaussian(1e-200, 1e200) == math.inf
    assert accounting.rho_gaussian(3.0, 1.0) * 18 >= 1


def test_what_float64_does_not_hold_is_rounded_against_the_user():
    between = (Fraction(0.3) + Fraction(math.nextafter(0.3, 0.0))) / 2
    assert Fraction(accounting.rho_gaussian(between, 1.0)) >= 1 / (2 * between**2)
    small = Fraction(math.nextafter(0.03, 0.0)) + Fraction(1, 10**30)
    assert accounting.gaussian_delta(1.0, small, 1.0) == accounting.gaussian_delta(1.0, math.nextafter(0.03, 0.0), 1.0)
    assert accounting.advanced(0.1, between, uses=1, delta_prime=0.1).delta >= between + Fraction(0.1)


def test_the_part_of_failures_is_rounded_up():
    delta = 1e-6
    left = Fraction(delta) - Fraction(math.nextafter(delta, 0.0))
    rho = accounting.zcdp_rho(1.0, delta, failure_delta=math.nextafter(delta, 0.0))
    assert accounting.zcdp_delta(rho, 1.0) <= 2 * left
    with pytest.raises(ParameterError, match="failure_delta must be in"):
        accounting.zcdp_rho(1.0, delta, failure_delta=Fraction(delta) - left / 1000)  # rounded down, it would leave all of `left`


def test_peeling_with_the_printed_noise_is_private_only_in_its_range():
    """Private inference (chapter 9), Algorithm 9.2.2: s rounds at 2λ/b, s releases at λ/b, b = 2λ√(3s ln(1/δ))/ε: ρ = 5ε²/(24 ln(1/δ))."""
    s = 10

    def total(epsilon, log_inverse):
        b = 2 * math.sqrt(3 * s * log_inverse) / epsilon
        return s * (2 / b) ** 2 / 2 + s * (1 / b) ** 2 / 2

    for log_inverse in (3.0, 14.0, 50.0, 300.0):
        assert total(1.0, log_inverse) == pytest.approx(5 / (24 * log_inverse), rel=1e-12)
        within = 0.41 * log_inverse
        assert accounting.zcdp_epsilon(total(within, log_inverse), math.exp(-log_inverse)) <= within
    # The better conversion reaches a little further than 0.418·ln(1/δ), and less so the smaller δ is.
    beyond = 0.5 * 300.0
    assert accounting.zcdp_epsilon(total(beyond, 300.0), math.exp(-300.0)) > beyond
