"""Our exact results lie in the bracket of Google's dp-accounting, and `pld` passes on what it says."""

from __future__ import annotations

import math
import sys

import pytest
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as library

from dpcore import accounting
from dpcore.accounting import Uses
from dpcore.errors import ParameterError, ParameterTypeError

ROUNDING = 1e-9  # of dp-accounting's float64 convolutions, relative


def bracket(one, k, delta):
    """ε at δ from an optimistic and a pessimistic grid of dp-accounting."""
    return tuple(one(pessimistic).self_compose(k).get_epsilon_for_delta(delta) for pessimistic in (False, True))


def gaussian(scale, interval=1e-4):
    return lambda pessimistic: library.from_gaussian_mechanism(
        scale, pessimistic_estimate=pessimistic, value_discretization_interval=interval, use_connect_dots=False
    )


def laplace(epsilon, interval=1e-4):
    return lambda pessimistic: library.from_laplace_mechanism(
        1 / epsilon, pessimistic_estimate=pessimistic, value_discretization_interval=interval, use_connect_dots=False
    )


@pytest.mark.long
@pytest.mark.parametrize("delta", [1e-8, 1e-5, 1e-2])
@pytest.mark.parametrize(("scale", "k"), [(1.0, 1), (5.0, 10), (50.0, 300)])
def test_gaussians_are_in_the_bracket(scale, k, delta):
    low, high = bracket(gaussian(scale), k, delta)
    ours = accounting.compose(Uses("gaussian", uses=k, rho=accounting.rho_gaussian(scale, 1.0)), delta)
    assert ours.rule == "gaussian"
    assert low * (1 - ROUNDING) <= ours.privacy.epsilon <= high * (1 + ROUNDING)
    assert high - low < 0.05 * high + 0.01  # a bracket that says something


@pytest.mark.parametrize("delta", [1e-8, 1e-5, 1e-2])
@pytest.mark.parametrize(("epsilon", "failure", "k"), [(0.1, 0.0, 100), (1.0, 0.0, 10), (0.05, 1e-10, 500), (2.0, 1e-9, 3)])
def test_optimal_composition_is_what_the_worst_loss_distribution_gives(epsilon, failure, k, delta):
    one = library.from_privacy_parameters(common.DifferentialPrivacyParameters(epsilon, failure), 1e-3)
    ours = accounting.optimal(epsilon, failure, uses=k, delta_total=delta)
    # ε is a multiple of the grid here: no rounding of losses, so the pessimistic estimate is the exact value.
    assert one.self_compose(k).get_epsilon_for_delta(delta) == pytest.approx(ours, rel=1e-6, abs=1e-9)


@pytest.mark.some(3)
@pytest.mark.parametrize("delta", [1e-8, 1e-5, 1e-2])
@pytest.mark.parametrize(("epsilon", "k"), [(0.1, 100), (1.0, 10), (0.02, 1000)])
def test_every_rule_for_laplace_noise_is_above_the_lower_end(epsilon, k, delta):
    """No rule of ours knows the whole law of Laplace noise; a bound below the optimistic estimate would be wrong."""
    low, _ = bracket(laplace(epsilon), k, delta)
    exact = Uses("laplace", uses=k, epsilon=epsilon)
    assert low * (1 - ROUNDING) <= accounting.compose(exact, delta).privacy.epsilon
    rho = k * accounting.rho_laplace(epsilon)
    assert low * (1 - ROUNDING) <= accounting.zcdp_epsilon(rho, delta)
    if k == 1000:
        # The twin: a quarter of the true ρ, as if Laplace noise had a bounded range.
        assert low > accounting.zcdp_epsilon(k * accounting.rho_bounded_range(epsilon), delta)


@pytest.mark.some(3)
@pytest.mark.parametrize(
    "uses",
    [
        Uses("gaussian", uses=20, rho=0.002),
        Uses("laplace", uses=50, epsilon=0.1),
        Uses("pure", uses=50, epsilon=0.1),
        Uses("approximate", uses=50, epsilon=0.1, delta=1e-9),
        [Uses("gaussian", uses=3, rho=0.01), Uses("laplace", uses=5, epsilon=0.2), Uses("bounded_range", uses=2, epsilon=0.1)],
        Uses("pure", uses=3, epsilon=0.0),
        [],
    ],
    ids=repr,
)
def test_pld_is_never_far_above_our_rules(uses):
    found = accounting.pld(uses, sampling="none")
    assert found.method == "pld"
    assert found.epsilon(1e-6) <= accounting.epsilon_for_delta(uses, 1e-6) + 1e-4 * (1 + found.epsilon(1e-6))
    assert found.delta(found.epsilon(1e-6)) == pytest.approx(1e-6, rel=1e-3) or found.epsilon(1e-6) == 0.0


def test_published_value_of_sampled_gaussians():
    """Abadi et al. (2016), Section 5.2: q = 0.01, σ = 4, 10,000 steps: ε ≈ 1.26 at δ = 10⁻⁵
    by the moments accountant; the loss distribution is tighter."""
    steps = Uses("gaussian", uses=10_000, rho=accounting.rho_gaussian(4.0, 1.0))
    epsilon = accounting.pld(steps, sampling="poisson", rate=0.01, relation="add_remove").epsilon(1e-5)
    assert 0.8 < epsilon < 1.26


@pytest.mark.long
def test_sampling_amplifies_and_everything_sampled_is_no_sampling():
    uses = Uses("gaussian", uses=50, rho=0.02)
    whole = accounting.pld(uses, sampling="none", relation="add_remove").epsilon(1e-6)
    assert accounting.pld(uses, sampling="poisson", rate=1.0, relation="add_remove").epsilon(1e-6) == pytest.approx(whole, rel=1e-3)
    assert accounting.pld(uses, sampling="poisson", rate=0.1, relation="add_remove").epsilon(1e-6) < whole / 3
    laplace_uses = Uses("laplace", uses=50, epsilon=0.2)
    sampled = accounting.pld(laplace_uses, sampling="poisson", rate=0.1, relation="add_remove").epsilon(1e-6)
    assert sampled < accounting.pld(laplace_uses, sampling="none").epsilon(1e-6) / 3


@pytest.mark.long
def test_the_numbers_of_the_documentation():
    steps = Uses("gaussian", uses=1000, rho=accounting.rho_gaussian(1.0, 1.0))
    sampled = accounting.pld(steps, sampling="poisson", rate=0.01, relation="add_remove").epsilon(1e-6)
    drawn = accounting.pld(steps, sampling="without_replacement", sample_size=100, population=10_000).epsilon(1e-6)
    assert (f"{sampled:.2f}", f"{drawn:.2f}") == ("2.12", "4.02")


def test_sampling_without_replacement_goes_by_renyi_divergences():
    uses = Uses("gaussian", uses=50, rho=0.02)
    found = accounting.pld(uses, sampling="without_replacement", sample_size=100, population=10_000)
    assert found.method == "rdp"
    assert 0 < found.epsilon(1e-6) < accounting.compose(uses, 1e-6).privacy.epsilon / 3
    assert found.delta(found.epsilon(1e-6)) <= 1e-6 * (1 + 1e-6)
    everyone = accounting.pld(uses, sampling="without_replacement", sample_size=10, population=10)
    assert everyone.epsilon(1e-6) == pytest.approx(accounting.zcdp_epsilon(50 * 0.02, 1e-6), rel=0.02)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, TypeError, "sampling"),
        ({"sampling": "shuffle"}, ParameterError, "sampling must be one of 'none', 'poisson', 'without_replacement'"),
        ({"sampling": "poisson", "rate": 0.1}, ParameterError, "relation must be 'add_remove' for sampling='poisson', got 'replace'"),
        ({"sampling": "poisson", "relation": "add_remove"}, ParameterTypeError, "rate must be a real number, got None"),
        ({"sampling": "poisson", "relation": "add_remove", "rate": 0.0}, ParameterError, r"rate must be in \(0\.0, 1\.0\]"),
        ({"sampling": "none", "rate": 0.5}, ParameterTypeError, "rate must be left out for sampling='none'"),
        ({"sampling": "none", "population": 5}, ParameterTypeError, "population must be left out for sampling='none'"),
        ({"sampling": "without_replacement", "relation": "add_remove"}, ParameterError, "relation must be 'replace'"),
        ({"sampling": "without_replacement", "sample_size": 3}, ParameterTypeError, "population must be an integer, got None"),
        ({"sampling": "without_replacement", "sample_size": 3, "population": 2}, ParameterError, r"population must be in \[3"),
        ({"sampling": "none", "discretization": 0.0}, ParameterError, "discretization must be in"),
    ],
)
def test_amplification_is_claimed_in_so_many_words(options, error, message):
    with pytest.raises(error, match=message):
        accounting.pld(Uses("gaussian", rho=0.1), **options)


@pytest.mark.parametrize(
    ("uses", "options"),
    [
        (Uses("concentrated", rho=0.1), {"sampling": "none"}),
        (Uses("pure", epsilon=0.1), {"sampling": "poisson", "rate": 0.1, "relation": "add_remove"}),
        (Uses("laplace", epsilon=0.1), {"sampling": "without_replacement", "sample_size": 1, "population": 2}),
    ],
)
def test_what_has_no_answer_is_refused(uses, options):
    with pytest.raises(ParameterError, match=r"uses\[0\]\.mechanism must be one of"):
        accounting.pld(uses, **options)


def test_results_are_asked_for_within_their_range():
    found = accounting.pld(Uses("gaussian", rho=0.1), sampling="none")
    assert found.epsilon(0.0) == math.inf
    for ask, value in ((found.epsilon, 1.0), (found.delta, -0.1), (found.delta, math.inf)):
        with pytest.raises(ParameterError):
            ask(value)


def test_without_the_extra_the_message_has_the_line_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\S*\[accounting\]'"):
        accounting.pld(Uses("pure", epsilon=0.1), sampling="none")
