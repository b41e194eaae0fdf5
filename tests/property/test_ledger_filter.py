"""What a ledger promises holds for amounts that are chosen after seeing answers.

The true privacy of whole interactions, by enumeration in rational numbers, against the promise of a real ledger that grants or refuses each
step. Rules that do not fix their limits beforehand are the broken twins.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore import Privacy
from dpcore.accounting import GaussianPrivacy, Ledger, gdp_delta, mu_pure, rho_pure, zcdp_delta, zcdp_rho
from support.strategies import Mechanism, Worst, exponential, played, randomised_response, repeated

SLACK = 1 + Fraction(1, 10**30)
"""e^ε has fifty digits here."""


def grants(ledger):
    """Whether a real ledger has room for a sequence of releases; nothing is spent, so that every sequence can be asked for."""
    known = {}

    def granted(used):
        names = tuple(sorted(mechanism.name for mechanism in used))
        if names not in known:
            known[names] = ledger.fits([mechanism.amount for mechanism in used])
        return known[names]

    return granted


# The rule of zCDP ledgers before: what Σρ does not take of δ₀ by its conversion may be spent on failures, and the other way round


def traded(epsilon, delta):
    """The old rule: the total has to be convertible to (ε₀, δ₀) at the end."""

    @cache
    def of_rho(rho):
        return Fraction(zcdp_delta(float(rho) * (1 + 2.0**-50), epsilon)) if rho else Fraction(0)

    def granted(used):
        rho, failures = Fraction(0), Fraction(0)
        for mechanism in used:
            amount = mechanism.amount
            rho += getattr(amount, "uses", 1) * Fraction(rho_pure(amount.epsilon))
            failures += Fraction(amount.delta)
        return of_rho(rho) + failures <= Fraction(repr(delta))

    return granted


def trader(epsilon, delta, odds, parts):
    """A menu for strategies that trade: parts of the largest ρ, and failures of all that each number of parts leaves of δ."""
    rho = Fraction(rho_pure(randomised_response(odds).amount.epsilon))
    times = int(Fraction(zcdp_rho(epsilon, delta)) / rho) // parts
    part = repeated(odds, times)
    left = [Fraction(repr(delta)) - (Fraction(zcdp_delta(float(n * times * rho), epsilon)) if n else 0) for n in range(parts)]
    return [part, *(randomised_response(Fraction(1), each * (1 - Fraction(1, 10**9))) for each in left)]


TARGETS = [
    (1.0, 1e-6, Fraction(101, 99), 2, 1.10),
    (0.3, 1e-3, Fraction(201, 199), 2, 1.16),
    pytest.param(0.1, 1e-6, Fraction(2001, 1999), 2, 1.19, marks=pytest.mark.long),
]


@pytest.mark.parametrize(("epsilon", "delta", "odds", "parts", "excess"), TARGETS)
def test_trading_rho_for_failures_breaks_the_promise(epsilon, delta, odds, parts, excess):
    """The twin. Its true δ is a lower bound of the worst, so this is a proof that the rule was wrong, and that the check sees it."""
    worst = Worst(trader(epsilon, delta, odds, parts), traded(epsilon, delta), epsilon, parts + 1)
    assert float(worst.delta()) > excess * delta


@pytest.mark.some(2)
@pytest.mark.parametrize(("epsilon", "delta", "odds", "parts", "excess"), TARGETS)
@pytest.mark.parametrize("share", [0.0, 0.99])
def test_fixed_limits_keep_the_promise_where_trading_broke_it(tmp_path, epsilon, delta, odds, parts, excess, share):
    failures = share * delta
    ledger = Ledger.create(tmp_path / "x", rho=zcdp_rho(epsilon, delta, failure_delta=failures), failure_delta=failures)
    assert ledger.privacy(delta).epsilon <= epsilon
    menu = trader(epsilon, delta, odds, parts)
    if failures:
        menu.append(randomised_response(Fraction(1), Fraction(repr(failures)) * (1 - Fraction(1, 10**9))))
    granted = grants(ledger)
    assert not failures or granted(menu[-1:])
    worst = Worst(menu, granted, epsilon, parts + 1).delta()
    assert failures * 0.9 <= float(worst) <= delta
    assert worst <= Fraction(repr(delta)) * SLACK


def test_the_ledger_itself_refuses_the_trade(tmp_path):
    """The same with spends that are made: ρ first, and then the failures that the rest of δ would allow; or failures first, then ρ."""
    epsilon, delta = 0.3, 1e-3
    part, *fails = trader(epsilon, delta, Fraction(201, 199), 2)
    for order, steps in enumerate(((part, fails[1]), (fails[0], part))):
        failures = 5e-4
        ledger = Ledger.create(tmp_path / str(order), rho=zcdp_rho(epsilon, delta, failure_delta=failures), failure_delta=failures)
        allowed = [ledger.fits(step.amount) and bool(ledger.spend(step.amount, what="x")) for step in steps]
        assert allowed == [step is part for step in steps]
        assert ledger.spent.delta == 0.0


# Any menu


def rational_odds(most):
    return st.builds(Fraction, st.integers(21, most), st.just(20))


FAILURES = st.one_of(st.just(Fraction(0)), st.builds(Fraction, st.integers(1, 40), st.just(400)))
MECHANISMS = st.builds(randomised_response, rational_odds(60), FAILURES)


def lopsided(odds, weight):
    """A private pair that favours neither answer: (ln odds)-private in one direction much more than in the other."""
    q = weight / (1 + odds)
    p = q * odds
    epsilon = math.nextafter(math.log(max(odds, (1 - q) / (1 - p))), math.inf) * (1 + 2.0**-50)
    return Mechanism(f"lopsided {odds} {weight}", ((p, q), (1 - p, 1 - q)), Privacy(epsilon))


LOPSIDED = st.builds(lopsided, rational_odds(60), st.builds(Fraction, st.integers(1, 9), st.just(10)))
MENUS = st.lists(st.one_of(MECHANISMS, LOPSIDED), min_size=2, max_size=3, unique_by=lambda mechanism: mechanism.name)


def turned(mechanism):
    """The same with the data sets exchanged."""
    return Mechanism(mechanism.name, tuple((q, p) for p, q in mechanism.laws), mechanism.amount)


@settings(max_examples=12)
@given(MENUS, st.floats(0.3, 3.0), st.floats(0.0, 0.3))
def test_no_strategy_beats_a_basic_ledger(tmp_path_factory, menu, epsilon, delta):
    ledger = Ledger.create(tmp_path_factory.mktemp("ledger") / "x", epsilon=epsilon, delta=delta)
    granted = grants(ledger)
    for way in (menu, [turned(mechanism) for mechanism in menu]):
        assert Worst(way, granted, epsilon, 4).delta() <= Fraction(repr(delta)) * SLACK + Fraction(1, 10**15)


@settings(max_examples=12)
@given(MENUS, st.floats(0.05, 1.0), st.floats(0.0, 0.3), st.floats(0.05, 4.0))
def test_no_strategy_beats_a_zcdp_ledger(tmp_path_factory, menu, rho, failures, epsilon):
    ledger = Ledger.create(tmp_path_factory.mktemp("ledger") / "x", rho=rho, failure_delta=failures)
    granted = grants(ledger)
    promised = Fraction(failures) + Fraction(zcdp_delta(rho, epsilon))
    for way in (menu, [turned(mechanism) for mechanism in menu]):
        assert Worst(way, granted, epsilon, 4).delta() <= promised * SLACK + Fraction(1, 10**15)


@settings(max_examples=12)
@given(MENUS, st.floats(0.05, 1.0), st.floats(0.0, 0.3), st.data())
def test_strategies_drawn_at_random_keep_the_promise(tmp_path_factory, menu, rho, failures, data):
    """Trees that need not be clever: each history has a choice of its own."""
    ledger = Ledger.create(tmp_path_factory.mktemp("ledger") / "x", rho=rho, failure_delta=failures)
    tree = {}

    def choose(history):
        if len(history) >= 3:
            return None
        if history not in tree:
            tree[history] = data.draw(st.sampled_from([*menu, None]))
        return tree[history]

    granted = grants(ledger)
    for epsilon in (0.1, 0.5, 1.5):
        promised = Fraction(failures) + Fraction(zcdp_delta(rho, epsilon))
        assert played(choose, granted, epsilon) <= promised * SLACK + Fraction(1, 10**15)


def test_choosing_the_kind_afterwards_breaks_the_promise():
    """The other twin: what fits by basic sums or by zCDP, whichever the analyst likes better at the end."""
    epsilon, delta, odds = 0.3, 1e-3, Fraction(201, 199)
    limit, once = zcdp_rho(epsilon, delta), randomised_response(odds).amount.epsilon
    few, times = int(epsilon / once), int(limit / rho_pure(once))
    menu = [repeated(odds, few), repeated(odds, times - few), randomised_response(Fraction(1), Fraction(repr(delta)) * Fraction(999, 1000))]

    def granted(used):
        responses = sum(getattr(mechanism.amount, "uses", 0) for mechanism in used)
        failures = sum(mechanism.amount.delta for mechanism in used)
        return (responses * once <= epsilon and failures <= delta) or (responses * rho_pure(once) <= limit and not failures)

    assert float(Worst(menu, granted, epsilon, 2).delta()) > 1.05 * delta


def test_the_mechanisms_are_as_private_as_they_cost_and_no_more():
    every = [randomised_response(Fraction(3, 2), failure) for failure in (Fraction(0), Fraction(1, 100))]
    for mechanism in (*every, lopsided(Fraction(2), Fraction(1, 2))):
        assert sum(p for p, _ in mechanism.laws) == sum(q for _, q in mechanism.laws) == 1
        claimed = Fraction(repr(mechanism.amount.delta))
        for factor, kept in ((1.0, True), (0.99, False)):
            bound = exponential(mechanism.amount.epsilon * factor)
            ways = (mechanism.laws, turned(mechanism).laws)
            true = max(sum((max(p - bound * q, Fraction(0)) for p, q in laws), Fraction(0)) for laws in ways)
            assert (true <= claimed) == kept


# Ledgers of kind "gdp"


def cut_normal(mu, cuts):
    """N(0, 1) against N(μ, 1), of which an analyst sees between which of the cuts it lies: Gaussian noise that was rounded."""
    context = mpmath.MPContext()
    context.dps = 60

    def law(mean):
        below = [Fraction(0), *(Fraction(str(context.ncdf(context.mpf(cut) - mean))) for cut in cuts), Fraction(1)]
        return [high - low for low, high in itertools.pairwise(below)]

    return Mechanism(f"normal {mu} {cuts}", tuple(zip(law(0), law(mu), strict=True)), GaussianPrivacy(mu))


CUTS = st.lists(st.integers(-20, 30), min_size=1, max_size=3, unique=True).map(lambda tenths: tuple(sorted(k / 10 for k in tenths)))
NORMALS = st.builds(cut_normal, st.sampled_from([0.1, 0.25, 0.5, 1.0]), CUTS)


@settings(max_examples=12)
@given(
    st.lists(st.one_of(MECHANISMS, LOPSIDED, NORMALS), min_size=2, max_size=3, unique_by=lambda mechanism: mechanism.name),
    st.floats(0.3, 1.5), st.floats(0.0, 0.3), st.floats(0.05, 4.0),
)  # fmt: skip
def test_no_strategy_beats_a_gdp_ledger(tmp_path_factory, menu, mu, failures, epsilon):
    ledger = Ledger.create(tmp_path_factory.mktemp("ledger") / "x", mu=mu, failure_delta=failures)
    granted = grants(ledger)
    promised = Fraction(failures) + Fraction(gdp_delta(mu, epsilon))
    for way in (menu, [turned(mechanism) for mechanism in menu]):
        assert Worst(way, granted, epsilon, 4).delta() <= promised * SLACK + Fraction(1, 10**15)


@pytest.mark.parametrize(("twin", "broken"), [("mu_pure", False), ("the root of 2ρ", True), ("ε", True)])
def test_a_pure_release_costs_more_than_the_normal_one_of_its_rho(twin, broken):
    """One response at odds 3, cut as the budget: with μ = √(2ρ), or μ = ε, it would be more than the promise allows."""
    response = randomised_response(Fraction(3))
    epsilon = response.amount.epsilon
    mu = {"mu_pure": mu_pure(epsilon), "the root of 2ρ": math.sqrt(2 * rho_pure(epsilon)), "ε": epsilon}[twin]
    worst = max(Worst([response], lambda _: True, loss, 1).delta() - Fraction(gdp_delta(mu, loss)) for loss in (0.0, 0.2, 0.5, 0.8))
    assert (worst > 0) == broken
