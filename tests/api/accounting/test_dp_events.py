"""DpEvents of dp-accounting: what is read is at least what its own accountants find, and what is written promises no more."""

from __future__ import annotations

import functools
import importlib
import math
import sys
from fractions import Fraction

import dp_accounting as dp
import mpmath
import pytest
from dp_accounting import dp_event as events
from dp_accounting import pld, rdp

from dpcore import ParameterError, ParameterTypeError, Privacy, accounting
from dpcore.accounting import GaussianPrivacy, Ledger, Uses, compose, from_dp_event, to_dp_event

Rel = dp.NeighboringRelation
IS_NEW = hasattr(events, "ZCDpEvent")
"""Whether this dp-accounting has events of zero-concentrated privacy and of randomised response, as it has since 0.6."""
new = pytest.mark.skipif(not IS_NEW, reason="this dp-accounting has no such event")
ROUNDING = 1e-9
"""Of dp-accounting's float64, relative."""


def epsilon_of(make, event, delta, relation):
    accountant = make(neighboring_relation=relation)
    assert accountant.supports(event)
    return accountant.compose(event).get_epsilon(delta)


def spread(one, k, delta, **options):
    """ε at δ from an optimistic and a pessimistic grid of dp-accounting: the exact one lies between."""
    return tuple(one(pessimistic_estimate=way, **options).self_compose(k).get_epsilon_for_delta(delta) for way in (False, True))


# Into ours


@pytest.mark.parametrize("k", [1, 30])
@pytest.mark.parametrize("noise", [0.7, 4.0])
def test_gaussian_events_are_read_as_their_rho(noise, k):
    event = events.SelfComposedDpEvent(events.GaussianDpEvent(noise), k)
    (use,) = from_dp_event(event, relation="add_remove")
    assert (use.mechanism, use.uses) == ("gaussian", k)
    exact = 1 / (2 * Fraction(noise) ** 2)
    assert exact <= Fraction(use.rho) <= exact * (1 + Fraction(1, 2**50))
    ours = compose(use, 1e-6, relation="add_remove").privacy.epsilon
    library = pld.privacy_loss_distribution
    one = functools.partial(library.from_gaussian_mechanism, noise, use_connect_dots=False, value_discretization_interval=1e-3)
    low, high = spread(one, k, 1e-6)
    assert low * (1 - ROUNDING) <= ours <= high * (1 + ROUNDING)
    assert ours <= epsilon_of(rdp.RdpAccountant, event, 1e-6, Rel.ADD_OR_REMOVE_ONE)


def test_replacing_a_record_moves_a_sum_by_twice_its_norm():
    """dp-accounting's own distribution for REPLACE_ONE agrees, and one that forgets the factor is found."""
    event = events.GaussianDpEvent(3.0)
    ours, forgotten = (compose(from_dp_event(event, relation=r), 1e-6).privacy.epsilon for r in ("replace", "add_remove"))
    theirs = epsilon_of(pld.PLDAccountant, event, 1e-6, Rel.REPLACE_ONE)
    assert ours == pytest.approx(theirs, rel=1e-3)
    assert ours >= theirs * (1 - 1e-3) > 1.5 * forgotten


@pytest.mark.parametrize("k", [1, 20])
def test_laplace_events_are_at_least_what_their_loss_distribution_says(k):
    event = events.SelfComposedDpEvent(events.LaplaceDpEvent(5.0), k)
    (use,) = from_dp_event(event, relation="add_remove")
    assert use == Uses("laplace", uses=k, epsilon=0.2)
    assert compose(use, 1e-6).privacy.epsilon >= epsilon_of(pld.PLDAccountant, event, 1e-6, Rel.ADD_OR_REMOVE_ONE) * (1 - 1e-3)
    assert from_dp_event(event, relation="replace")[0].epsilon == 0.4
    three = from_dp_event(events.LaplaceDpEvent(3.0), relation="add_remove")[0].epsilon
    assert Fraction(1, 3) <= Fraction(three) <= Fraction(1, 3) * (1 + Fraction(1, 2**50))


def test_discrete_laplace_and_responses_are_read_as_epsilon_private():
    (use,) = from_dp_event(events.DiscreteLaplaceDpEvent(0.25, 3), relation="add_remove")
    assert use == Uses("pure", epsilon=0.75)
    assert from_dp_event(events.DiscreteLaplaceDpEvent(0.25, 3), relation="replace") == (Uses("pure", epsilon=1.5),)
    for p, k in ((0.5, 2), (0.01, 7), (1e-9, 1000), (0.999, 3)):
        event = events.RandomizedResponseDpEvent(p, k)
        (use,) = from_dp_event(event, relation="replace")
        assert use.mechanism == "pure"
        assert use.epsilon == pytest.approx(math.log1p(k * (1 - p) / p), rel=1e-12)
        # the share of the true answer over that of another, in exact numbers
        ratio = (1 - Fraction(p) + Fraction(p) / k) / (Fraction(p) / k)
        with mpmath.workprec(300):
            exact = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
            assert exact <= use.epsilon <= exact * (1 + mpmath.mpf(2) ** -52)
        assert epsilon_of(pld.PLDAccountant, event, 0.0, Rel.REPLACE_ONE) <= use.epsilon + 2e-4
    assert from_dp_event(events.RandomizedResponseDpEvent(1.0, 5), relation="replace") == ()
    assert from_dp_event(events.RandomizedResponseDpEvent(0.0001, 1), relation="replace") == ()
    with pytest.raises(ParameterError, match="relation must be 'replace' for a RandomizedResponseDpEvent"):
        from_dp_event(events.RandomizedResponseDpEvent(0.5, 2), relation="add_remove")


@new
def test_events_are_flattened_in_their_order():
    inner = events.ComposedDpEvent([events.LaplaceDpEvent(1.0), events.NoOpDpEvent(), events.ZCDpEvent(0.5), events.ZCDpEvent(0.0)])
    event = events.ComposedDpEvent(
        [events.SelfComposedDpEvent(inner, 3), events.SelfComposedDpEvent(inner, 0), events.GaussianDpEvent(1.0)]
    )
    found = from_dp_event(event, relation="add_remove")
    assert found == (Uses("laplace", uses=3, epsilon=1.0), Uses("concentrated", uses=3, rho=0.5), Uses("gaussian", rho=0.5))
    nested = events.GaussianDpEvent(1.0)
    for _ in range(3000):  # deeper than Python recurses
        nested = events.ComposedDpEvent([nested])
    assert from_dp_event(nested, relation="add_remove") == (Uses("gaussian", rho=0.5),)


def test_a_ledger_pays_for_the_events_of_another_tool(tmp_path):
    spent = from_dp_event(events.SelfComposedDpEvent(events.GaussianDpEvent(20.0), 100), relation="add_remove")
    ledger = Ledger.create(tmp_path / "l", rho=0.2, relation="add_remove")
    with ledger.spend(list(spent), what="a training by another tool"):
        pass
    assert ledger.spent.rho == pytest.approx(100 / 800)


# Samples, trees and mixtures, which dp-accounting computes

TRAINING = events.SelfComposedDpEvent(events.PoissonSampledDpEvent(0.01, events.GaussianDpEvent(1.0)), 20)


def test_samples_are_computed_together_by_dp_accounting():
    event = events.ComposedDpEvent([events.LaplaceDpEvent(10.0), TRAINING, events.PoissonSampledDpEvent(0.5, events.GaussianDpEvent(9.0))])
    laplace, rest = from_dp_event(event, relation="add_remove", delta=1e-6)
    assert laplace == Uses("laplace", epsilon=0.1)
    sampled = events.ComposedDpEvent([TRAINING, event.events[2]])
    assert (rest.mechanism, rest.delta, rest.uses) == ("approximate", 1e-6, 1)
    both = [epsilon_of(make, sampled, 1e-6, Rel.ADD_OR_REMOVE_ONE) for make in (pld.PLDAccountant, rdp.RdpAccountant)]
    assert rest.epsilon == pytest.approx(min(both), rel=1e-12)
    assert compose([laplace, rest], 2e-6, relation="add_remove").privacy.epsilon >= min(both)


@pytest.mark.parametrize("noise", [0.7, 1.0, 4.0])
def test_computed_events_count_twice_the_norm_for_replaced_records(noise):
    """A sample of all records is the noise itself, and a best of several costs no less; the curve of the Gaussian is that of mpmath."""
    one = events.GaussianDpEvent(noise)
    exact = mpmath.findroot(lambda epsilon: mpmath.log(gaussian_delta(2 / noise, epsilon) / 1e-6), (0.1, 60), solver="bisect")
    wholes = (
        events.SampledWithoutReplacementDpEvent(1000, 1000, one),
        events.ComposedDpEvent([events.SelfComposedDpEvent(events.SampledWithoutReplacementDpEvent(50, 50, one), 1)]),
        events.RepeatAndSelectDpEvent(one, 2, 0.5),
        events.PoissonSampledDpEvent(1.0, one),
    )
    for whole in wholes:
        (found,) = from_dp_event(whole, relation="replace", delta=1e-6)
        assert exact <= found.epsilon * (1 + ROUNDING)
    assert from_dp_event(wholes[0], relation="replace", delta=1e-6)[0].epsilon <= 1.1 * exact
    # A twin: the accountant of moments takes the norm once for all relations.
    assert epsilon_of(rdp.RdpAccountant, wholes[0], 1e-6, Rel.REPLACE_ONE) < 0.8 * exact


def gaussian_delta(mu, epsilon):
    """Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), of Balle & Wang (2018)."""
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize(
    ("event", "options", "message"),
    [
        (TRAINING, {}, "got a PoissonSampledDpEvent: pass delta="),
        (
            events.SampledWithoutReplacementDpEvent(9, 3, events.GaussianDpEvent(1.0)),
            {"delta": 1e-6},
            "no accountant of SampledWithoutReplacementDpEvent",
        ),
        (events.SingleEpochTreeAggregationDpEvent(1.0, 8), {"delta": 1e-6}, "no accountant of SingleEpochTreeAggregationDpEvent"),
        (events.PoissonSampledDpEvent(0.1, events.GaussianDpEvent(0.0)), {"delta": 1e-6}, "no finite epsilon"),
        (events.NonPrivateDpEvent(), {}, "a NonPrivateDpEvent, which protects nothing"),
        (events.UnsupportedDpEvent(), {}, "got a UnsupportedDpEvent"),
        (events.GaussianDpEvent(0.0), {}, "noise_multiplier of a GaussianDpEvent must be positive and finite, got 0.0"),
        (events.LaplaceDpEvent(math.nan), {}, "noise_multiplier of a LaplaceDpEvent"),
        *(
            (
                (events.ZCDpEvent(0.5, 0.1), {}, "a ZCDpEvent must have xi = 0, got 0.1"),
                (events.RandomizedResponseDpEvent(0.0, 2), {"relation": "replace"}, "noise_parameter of a RandomizedResponseDpEvent"),
            )
            if IS_NEW
            else ()
        ),
        (events.SelfComposedDpEvent(events.GaussianDpEvent(1.0), -1), {}, "count of a SelfComposedDpEvent"),
        (events.GaussianDpEvent(1.0), {"relation": "special"}, "relation"),
        (events.GaussianDpEvent(1.0), {"delta": 0.0}, "delta"),
    ],
)
def test_events_that_are_not_known_are_refused_by_their_class(event, options, message):
    with pytest.raises(ParameterError, match=message):
        from_dp_event(event, **{"relation": "add_remove"} | options)


def test_what_is_no_event_or_an_event_of_somebody_else_is_refused():
    class Ours(events.GaussianDpEvent):
        """With another meaning, perhaps."""

    with pytest.raises(ParameterError, match="got a Ours"):
        from_dp_event(Ours(1.0), relation="add_remove")
    with pytest.raises(ParameterTypeError, match="a DpEvent of dp-accounting, got one of type float"):
        from_dp_event(1.0, relation="add_remove")


# Out of ours


@pytest.mark.parametrize(
    "use",
    [
        Uses("gaussian", uses=10, rho=0.013),
        Uses("laplace", uses=7, epsilon=0.3),
        pytest.param(Uses("concentrated", uses=3, rho=0.1), marks=new),
        Uses("gaussian", rho=1e-300),
        Uses("laplace", epsilon=1e-308),
        Uses("laplace", epsilon=50.0),
    ],
)
def test_a_round_trip_loses_a_rounding_and_never_gains(use):
    (again,) = from_dp_event(to_dp_event(use), relation="add_remove")
    assert (again.mechanism, again.uses) == (use.mechanism, use.uses)
    before, after = (Fraction(each.rho or each.epsilon) for each in (use, again))
    assert before <= after <= before * (1 + Fraction(1, 2**47))


@new
def test_round_trips_of_what_has_another_form():
    (pure,) = from_dp_event(to_dp_event(Uses("pure", uses=2, epsilon=1.0)), relation="replace")
    assert pure == Uses("concentrated", uses=2, rho=accounting.rho_pure(1.0))
    for epsilon in (1e-6, 0.1, 1.0, 30.0, 600.0):
        (response,) = from_dp_event(to_dp_event(Privacy(epsilon), pure="response"), relation="replace")
        assert epsilon <= response.epsilon <= epsilon * (1 + 1e-9) + 1e-14
    assert to_dp_event(Privacy(800.0), pure="response").noise_parameter == 0  # which accountants count as no protection
    (ranged,) = from_dp_event(to_dp_event(Uses("bounded_range", epsilon=2.0)), relation="replace")
    assert ranged == Uses("concentrated", rho=accounting.rho_bounded_range(2.0))
    (normal,) = from_dp_event(to_dp_event(GaussianPrivacy(0.3)), relation="add_remove")
    assert normal.rho == pytest.approx(0.045, rel=1e-12)
    assert normal.rho >= 0.045


@new
def test_accountants_of_dp_accounting_agree_with_ours():
    """Ours is never below the exact ε, which lies above dp-accounting's optimistic estimate; its own result is near."""
    uses = [Uses("gaussian", uses=20, rho=accounting.rho_gaussian(10.0, 1.0)), Uses("gaussian", rho=0.02)]
    event = to_dp_event(uses)
    ours = compose(uses, 1e-6).privacy.epsilon
    theirs = epsilon_of(pld.PLDAccountant, event, 1e-6, Rel.REPLACE_SPECIAL)
    assert ours == pytest.approx(theirs, rel=2e-3)
    distribution = pld.privacy_loss_distribution
    total = Fraction(uses[0].rho) * 20 + Fraction(uses[1].rho)
    low = distribution.from_gaussian_mechanism(1 / math.sqrt(2 * total), pessimistic_estimate=False, use_connect_dots=False)
    assert low.get_epsilon_for_delta(1e-6) <= ours
    concentrated = [Uses("concentrated", uses=5, rho=0.01), Privacy(0.1)]
    bound = epsilon_of(rdp.RdpAccountant, to_dp_event(concentrated), 1e-6, Rel.REPLACE_ONE)
    zcdp = accounting.zcdp_epsilon(0.05 + accounting.rho_pure(0.1), 1e-6)
    assert zcdp <= bound <= 1.2 * zcdp  # it tries some orders only
    response = to_dp_event([Privacy(0.5)] * 8, pure="response")
    exact = accounting.optimal(0.5, 0.0, uses=8, delta_total=1e-3)
    assert epsilon_of(pld.PLDAccountant, response, 1e-3, Rel.REPLACE_ONE) == pytest.approx(exact, abs=2e-3)


@new
def test_what_has_no_event_is_refused():
    assert isinstance(to_dp_event([]), events.ComposedDpEvent)
    assert isinstance(to_dp_event(Privacy(0.0)), events.NoOpDpEvent)
    assert isinstance(to_dp_event(GaussianPrivacy(0.0)), events.NoOpDpEvent)
    with pytest.raises(ParameterError, match=r"amount\[1\] must have delta 0.*got delta=1e-06"):
        to_dp_event([Privacy(1.0), Privacy(1.0, 1e-6)])
    with pytest.raises(ParameterTypeError, match="amount must be a Privacy"):
        to_dp_event(1.0)
    with pytest.raises(ParameterError, match="pure must be one of"):
        to_dp_event(Privacy(1.0), pure="best")


def test_without_dp_accounting_the_pip_line_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    module = importlib.import_module("dpcore.accounting.dp_events")
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\S*\[accounting\]'"):
        module.to_dp_event(Privacy(1.0))
