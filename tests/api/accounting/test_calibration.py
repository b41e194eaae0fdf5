"""From targets to noise: certified, close to the least, and the inverse of `compose`."""

from __future__ import annotations

import math

import pytest

from dpcore import Privacy, accounting
from dpcore.accounting import Uses
from dpcore.errors import ParameterError, ParameterTypeError

TARGETS = [Privacy(1.0, 1e-6), Privacy(0.1, 1e-9, "add_remove"), Privacy(8.0, 1e-3), Privacy(0.5)]


def uses_at(mechanism, k, parameter, sensitivity=1.0):
    if mechanism == "gaussian":
        return Uses("gaussian", uses=k, rho=accounting.rho_gaussian(parameter, sensitivity))
    if mechanism == "laplace":
        ratio = sensitivity / parameter
        return Uses("laplace", uses=k, epsilon=ratio)
    return Uses(mechanism, uses=k, epsilon=parameter)


@pytest.mark.some(3)
@pytest.mark.parametrize("k", [1, 2, 13, 400])
@pytest.mark.parametrize(
    ("target", "mechanism"),
    [(t, m) for t in TARGETS for m in ("pure", "bounded_range", "laplace", "gaussian") if t.delta or m != "gaussian"],
    ids=repr,
)
def test_calibrated_noise_meets_its_target_and_little_less_does_not(target, k, mechanism):
    found = accounting.calibrate(target, mechanism, uses=k)
    assert found.privacy.epsilon <= target.epsilon
    assert found.privacy.delta <= target.delta
    assert found.privacy.relation == target.relation
    certified = accounting.compose(uses_at(mechanism, k, found.parameter), target.delta)
    assert certified.privacy.epsilon <= target.epsilon
    assert certified.rule == found.rule
    worse = found.parameter * (1 - 1e-8) if mechanism in {"laplace", "gaussian"} else found.parameter * (1 + 1e-8)
    assert accounting.compose(uses_at(mechanism, k, worse), target.delta).privacy.epsilon > target.epsilon


def test_one_gaussian_is_the_analytic_one():
    found = accounting.calibrate(Privacy(1.0, 1e-5), "gaussian", uses=1, sensitivity=3.0)
    assert found.parameter == pytest.approx(accounting.analytic_gaussian_scale(1.0, 1e-5, 3.0), rel=1e-13)
    assert found.parameter >= accounting.analytic_gaussian_scale(1.0, 1e-5, 3.0)
    assert found.rule == "gaussian"


def test_basic_composition_is_divided_out_exactly():
    assert accounting.calibrate(Privacy(1.0), "pure", uses=8).parameter == 0.125
    assert accounting.calibrate(Privacy(1.0), "laplace", uses=8, sensitivity=3.0).parameter == 24.0
    tenth = accounting.calibrate(Privacy(1.0), "pure", uses=10).parameter
    assert tenth == math.nextafter(0.1, 0.0)  # 0.1 itself is above a tenth


def test_a_better_rule_needs_less_noise_than_each_worse_one():
    target, k = Privacy(1.0, 1e-6), 100
    scale = accounting.calibrate(target, "laplace", uses=k).parameter
    assert scale < k  # basic
    assert scale < math.sqrt(8 * k * math.log(1e6))  # Stemmer (lecture 6), Corollary 5
    selection = accounting.calibrate(target, "bounded_range", uses=k).parameter
    assert selection > 1.8 * accounting.calibrate(target, "pure", uses=k).parameter  # ρ is a quarter


@pytest.mark.parametrize("k", [1, 50, 10_000])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-2), (20.0, 1e-5)])
def test_corollary_5_of_document_002_holds_within_its_condition(epsilon, delta, k):
    """k Laplace answers with γ = ε/√(8k ln(1/δ)) each are (ε, δ)-private while ε ≤ 2 ln(1/δ)."""
    assert epsilon <= 2 * math.log(1 / delta)
    gamma = epsilon / math.sqrt(8 * k * math.log(1 / delta))
    assert accounting.epsilon_for_delta(Uses("laplace", uses=k, epsilon=gamma), delta) <= epsilon


def test_least_scale_finds_the_same_from_everywhere():
    def uses_of(b):
        return [Uses("bounded_range", uses=10, epsilon=2 / b), Uses("laplace", uses=10, epsilon=1 / b)]

    target = Privacy(1.0, 1e-6)
    found = [accounting.least_scale(uses_of, target, start=start) for start in (1e-6, 20.0, 1e9)]
    assert {round(one.parameter, 6) for one in found} == {round(found[0].parameter, 6)}
    for one in found:
        assert accounting.compose(uses_of(one.parameter), target.delta).privacy.epsilon <= target.epsilon
        assert accounting.compose(uses_of(one.parameter * (1 - 1e-8)), target.delta).privacy.epsilon > target.epsilon


def test_peeling_needs_less_than_the_printed_noise():
    """Private inference (chapter 9), Algorithm 9.2.2: b = 2λ√(3s ln(1/δ))/ε; accounting finds a smaller one for the same guarantee."""
    s, epsilon, delta = 100, 1.0, 1e-6

    def uses_of(b):
        return [Uses("pure", uses=s, epsilon=2 / b), Uses("laplace", uses=s, epsilon=1 / b)]

    printed = 2 * math.sqrt(3 * s * math.log(1 / delta)) / epsilon
    assert accounting.compose(uses_of(printed), delta).privacy.epsilon <= epsilon
    assert accounting.least_scale(uses_of, Privacy(epsilon, delta), start=printed).parameter < 0.95 * printed


@pytest.mark.parametrize("mechanism", ["pure", "laplace", "bounded_range"])
@pytest.mark.parametrize("target", [Privacy(1.0), Privacy(1.0, 1e-6), Privacy(0.01, 1e-9)], ids=repr)
def test_max_queries_fit_and_one_more_does_not(target, mechanism):
    use = Uses(mechanism, epsilon=0.003)
    k = accounting.max_queries(target, use)
    assert k == 0 or accounting.delta_for_epsilon(Uses(mechanism, uses=k, epsilon=0.003), target.epsilon) <= target.delta
    assert accounting.delta_for_epsilon(Uses(mechanism, uses=k + 1, epsilon=0.003), target.epsilon) > target.delta


def test_max_queries_at_the_ends():
    assert accounting.max_queries(Privacy(1.0), Uses("pure", epsilon=1.5)) == 0
    assert accounting.max_queries(Privacy(1.0), Uses("gaussian", rho=0.1)) == 0
    assert accounting.max_queries(Privacy(1.0), Uses("pure", epsilon=0.0)) == 10**18
    assert accounting.max_queries(Privacy(1.0), Uses("pure", uses=3, epsilon=0.125)) == 2


@pytest.mark.parametrize(
    "uses",
    [
        Uses("pure", uses=30, epsilon=0.2),
        Uses("laplace", uses=300, epsilon=0.02),
        Uses("gaussian", uses=7, rho=0.03),
        Uses("concentrated", uses=7, rho=0.03),
        [Uses("approximate", uses=20, epsilon=0.1, delta=1e-9), Uses("bounded_range", uses=5, epsilon=0.4)],
    ],
    ids=repr,
)
@pytest.mark.parametrize("delta", [1e-7, 1e-3])
def test_epsilon_and_delta_are_inverse_to_one_another(uses, delta):
    epsilon = accounting.epsilon_for_delta(uses, delta)
    assert accounting.delta_for_epsilon(uses, epsilon) <= delta * (1 + 1e-9)
    assert accounting.delta_for_epsilon(uses, epsilon * (1 - 1e-6)) > delta
    assert accounting.delta_for_epsilon(uses, 0.0) <= 1.0


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: accounting.calibrate(Privacy(1.0), "gaussian", uses=3),
            ParameterError,
            "target must have delta > 0 for mechanism='gaussian'",
        ),
        (lambda: accounting.calibrate(Privacy(0.0), "pure", uses=3), ParameterError, r"target\.epsilon must be positive"),
        (lambda: accounting.calibrate(Privacy(math.inf), "pure", uses=3), ParameterError, r"target\.epsilon must be positive"),
        (lambda: accounting.calibrate(1.0, "pure", uses=3), ParameterTypeError, "target must be a dpcore.Privacy"),
        (lambda: accounting.calibrate(Privacy(1.0), "approximate", uses=3), ParameterError, "mechanism must be one of 'pure', 'laplace'"),
        (lambda: accounting.calibrate(Privacy(1.0), "pure", uses=3, sensitivity=2.0), ParameterError, "sensitivity must be left at 1"),
        (lambda: accounting.calibrate(Privacy(1.0), "pure", uses=0), ParameterError, "uses must be in"),
        (
            lambda: accounting.least_scale(lambda b: Uses("gaussian", rho=1 / b), Privacy(1.0)),
            ParameterError,
            r"met by some scale",
        ),
        (lambda: accounting.least_scale(lambda b: [b], Privacy(1.0)), ParameterTypeError, r"uses\[0\] must be"),
        (lambda: accounting.max_queries(Privacy(1.0), "pure"), ParameterTypeError, "use must be a dpcore.accounting.Uses"),
    ],
)
def test_wrong_arguments_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
