"""Gaussian privacy: against exact normal tails, against the trade-off curves of enumerated mechanisms, and in ledgers."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from fractions import Fraction

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpcore import BudgetError, ParameterError, ParameterTypeError, Privacy, accounting
from dpcore.accounting import Budget, GaussianPrivacy, Ledger, Uses

EXACT = mpmath.MPContext()
EXACT.dps = 80


def tail(x):
    """Φ(−x)."""
    return EXACT.erfc(x / EXACT.sqrt(2)) / 2


def quantile(level):
    """Φ⁻¹(1 − level)."""
    start = math.sqrt(2) * float(mpmath.erfinv(1 - 2 * mpmath.mpf(level))) if 1e-12 < level < 1 - 1e-12 else math.copysign(7.0, 0.5 - level)
    return EXACT.findroot(lambda x: EXACT.log(tail(x)) - EXACT.log(EXACT.mpf(level)), start)


def profile(mu, epsilon):
    mu, epsilon = EXACT.mpf(mu), EXACT.mpf(epsilon)
    return tail(epsilon / mu - mu / 2) - EXACT.exp(epsilon) * tail(epsilon / mu + mu / 2)


@settings(max_examples=25)
@given(mu=st.floats(1e-4, 20.0), epsilon=st.floats(0.0, 30.0))
@example(mu=1e-6, epsilon=1e-6)
@example(mu=0.5, epsilon=0.0)
def test_delta_is_the_exact_one_rounded_up(mu, epsilon):
    exact, found = profile(mu, epsilon), accounting.gdp_delta(mu, epsilon)
    assert exact <= found <= exact * (1 + 2.0**-51) + 5e-324


@settings(max_examples=4)
@given(mu=st.floats(1e-3, 10.0), delta=st.floats(-40, -0.5).map(lambda x: 10**x))
def test_epsilon_inverts_delta(mu, delta):
    found = accounting.gdp_epsilon(mu, delta)
    assert profile(mu, found) <= delta
    assert found == 0 or profile(mu, found * (1 - 1e-12)) > delta * (1 - 1e-9)


@settings(max_examples=3)
@given(epsilon=st.floats(0.01, 20.0), delta=st.floats(-40, -0.5).map(lambda x: 10**x))
def test_the_largest_mu_keeps_the_guarantee(epsilon, delta):
    mu = accounting.gdp_mu(epsilon, delta)
    assert profile(mu, epsilon) <= delta
    assert accounting.gdp_epsilon(mu, delta) <= epsilon
    assert profile(mu * (1 + 1e-11), epsilon) > delta


@pytest.mark.parametrize("epsilon", [1e-6, pytest.param(700.0, marks=pytest.mark.long)])
def test_the_largest_mu_at_the_ends(epsilon):
    mu = accounting.gdp_mu(epsilon, 1e-6)
    assert profile(mu, epsilon) <= 1e-6 < profile(mu * (1 + 1e-11), epsilon)


@pytest.mark.parametrize("epsilon", [1.7e308, pytest.param(3e-308, marks=pytest.mark.long)])
def test_searches_end_at_the_ends_of_float64(epsilon):
    delta = 1e-300 if epsilon < 1 else 1e-310
    mu = accounting.gdp_mu(epsilon, delta)
    assert 0 < accounting.gdp_epsilon(mu, delta) <= epsilon
    assert accounting.gdp_epsilon(1.7e308, 0.5) == math.inf


def test_failures_leave_the_rest_of_delta():
    assert accounting.gdp_mu(1.0, 2e-6, failure_delta=1e-6) == pytest.approx(accounting.gdp_mu(1.0, 1e-6), rel=1e-12)


@settings(max_examples=15)
@given(mu=st.floats(0.0, 8.0), level=st.floats(1e-9, 1 - 1e-9))
@example(mu=0.0, level=0.5)
@example(mu=1.0, level=math.nextafter(0.5, 1))
@example(mu=3.0, level=1e-300)
def test_the_curve_is_the_exact_one_rounded_down(mu, level):
    found = GaussianPrivacy(mu).type_two(level)
    if level > 1e-200:
        exact = tail(EXACT.mpf(mu) - quantile(level))
        assert exact * (1 - 1e-15) <= found <= exact
    assert 0 <= found <= 1


def test_the_ends_of_the_curve():
    one = GaussianPrivacy(1.0)
    assert (one.type_two(0.0), one.type_two(1.0)) == (1.0, 0.0)
    with pytest.raises(ParameterError, match=r"level must be in \[0.0, 1.0\], got 1.5"):
        one.type_two(1.5)


@pytest.mark.parametrize("epsilon", [1e-300, 1e-9, 0.01, 1.0, 5.0, 40.0, 700.0])
def test_mu_of_pure_privacy_is_the_least(epsilon):
    """The curves touch at p = 1/(1+e^ε): Φ(−μ/2) ≤ p, and hardly less."""
    context = mpmath.MPContext()
    context.dps = 660 if epsilon < 1e-100 else 80
    mu, error = accounting.mu_pure(epsilon), 1 / (1 + context.exp(context.mpf(epsilon)))

    def below(x):
        return context.erfc(context.mpf(x) / 2 / context.sqrt(2)) / 2

    assert below(mu) <= error < below(mu * (1 - 2.0**-50))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_pure_privacy_lies_below_its_gaussian_everywhere(epsilon):
    """δ of randomised response, which is the worst, at every ε'; a μ that is 1 % smaller fails."""
    grown, mu = math.exp(epsilon), accounting.mu_pure(epsilon)
    losses = [epsilon * k / 40 for k in range(41)]
    true = [(grown - math.exp(loss)) / (grown + 1) for loss in losses]
    assert all(delta <= accounting.gdp_delta(mu, loss) * (1 + 1e-15) for delta, loss in zip(true, losses, strict=True))
    assert any(delta > accounting.gdp_delta(0.99 * mu, loss) for delta, loss in zip(true, losses, strict=True))


@pytest.mark.parametrize(
    ("scale", "epsilon", "least"),
    [(0.5, 5.38, 2.3), (0.5, 9.6, 3.7), (0.5, 17.78, 6.5), (1.0, 4.3, 1.8), (2.0, 2.04, 1.2), (10.0, 0.39, 1.007), (10.0, 0.74, 1.02)],
)
def test_discrete_gaussian_noise_is_not_gaussian_private(scale, epsilon, least):
    """Its δ exceeds that of μ = Δ/σ, so a ledger of kind "gdp" must not take it by its ρ; by zCDP it is what it says."""
    true = accounting.discrete_gaussian_delta(epsilon, scale, 1)
    assert true > least * accounting.gdp_delta(1 / scale, epsilon)
    assert true <= accounting.zcdp_delta(accounting.rho_gaussian(scale, 1.0), epsilon)


@given(parts=st.lists(st.floats(0.0, 1e6), max_size=6))
@example(parts=[1e-320, 5e-324])
@example(parts=[1e154, 1e160])
def test_composition_is_the_root_of_the_sum_of_squares(parts):
    found = accounting.gdp(*parts).mu
    square = sum((Fraction(mu) ** 2 for mu in parts), Fraction(0))
    assert Fraction(found) ** 2 >= square
    assert found == 0 or Fraction(math.nextafter(found, 0.0)) ** 2 < square
    assert accounting.gdp(accounting.gdp(*parts)) == accounting.gdp(*parts)


def test_names_agree_with_those_for_scales():
    mu = accounting.mu_gaussian(3.0, 2.0)
    assert accounting.gdp_delta(mu, 1.0) == pytest.approx(accounting.gaussian_delta(1.0, 3.0, 2.0), rel=1e-14)
    assert Fraction(mu) >= Fraction(2, 3) > Fraction(math.nextafter(mu, 0.0))
    assert GaussianPrivacy(mu).rho == pytest.approx(accounting.rho_gaussian(3.0, 2.0), rel=1e-15)
    assert GaussianPrivacy(0.5).privacy(1e-6, relation="add_remove") == Privacy(accounting.gdp_epsilon(0.5, 1e-6), 1e-6, "add_remove")
    assert (accounting.gdp_delta(0.0, 0.0), accounting.gdp_epsilon(0.0, 1e-9)) == (0.0, 0.0)
    # better than by ρ, at any δ
    assert all(accounting.gdp_epsilon(0.5, delta) < accounting.zcdp_epsilon(0.125, delta) for delta in (1e-3, 1e-6, 1e-12))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: accounting.gdp_delta(-1.0, 1.0), ParameterError, r"mu must be in \[0.0, inf\), got -1.0"),
        (lambda: accounting.gdp_delta(math.nan, 1.0), ParameterError, "mu must be"),
        (lambda: accounting.gdp_delta(1.0, -1.0), ParameterError, "epsilon must be"),
        (lambda: accounting.gdp_epsilon(1.0, 0.0), ParameterError, r"delta must be in \(0.0, 1.0\)"),
        (lambda: accounting.gdp_epsilon("1", 0.1), ParameterTypeError, "mu must be a real number"),
        (lambda: accounting.gdp_mu(0.0, 0.1), ParameterError, "epsilon must be positive"),
        (lambda: accounting.gdp_mu(1.0, 1e-6, failure_delta=1e-6), ParameterError, "failure_delta must be"),
        (lambda: accounting.mu_pure(math.inf), ParameterError, "epsilon must be"),
        (lambda: accounting.mu_gaussian(0.0, 1.0), ParameterError, "scale must be positive"),
        (lambda: accounting.gdp(0.5, True), ParameterTypeError, "mu must be a real number"),
        (lambda: GaussianPrivacy(math.inf), ParameterError, "mu must be"),
    ],
)
def test_what_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


# Composition with other mechanisms


def test_gaussian_noise_beside_other_uses():
    normal, laplace = Uses("gaussian", uses=20, rho=0.005), Uses("laplace", epsilon=0.1)
    found = accounting.compose([normal, laplace], 1e-6)
    squares = 2 * 20 * 0.005 + accounting.mu_pure(0.1) ** 2
    assert found.rule == "gdp"
    assert found.privacy.epsilon == pytest.approx(accounting.gdp_epsilon(math.sqrt(squares), 1e-6), rel=1e-9)
    assert accounting.delta_for_epsilon([normal, laplace], found.privacy.epsilon) <= 1e-6
    failing = Uses("approximate", epsilon=0.1, delta=1e-7)
    assert found.privacy.epsilon < accounting.compose([normal, failing], 1e-6).privacy.epsilon < found.privacy.epsilon * 1.02
    # what has only ρ is not known to be normal
    assert accounting.compose([normal, Uses("concentrated", rho=0.005)], 1e-6).rule == "zcdp"


# Ledgers


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "x.ledger", mu=1.0, failure_delta=1e-7)


def test_squares_add_up_exactly(ledger):
    assert ledger.kind == "gdp"
    assert ledger.budget == Budget(None, 1e-7, None, 1.0)
    with ledger.spend(GaussianPrivacy(0.6), what="a"):
        pass
    assert ledger.remaining == Budget(None, 1e-7, mu=0.8)
    assert repr(ledger.spent) == "Budget(epsilon=None, delta=0.0, mu=0.6)"
    with pytest.raises(BudgetError, match=r"'b' needs mu 0\.81, delta 0\.0; the ledger has mu 0\.8, delta 1e-07 left"):
        ledger.spend(GaussianPrivacy(0.81), what="b")
    ledger.spend(GaussianPrivacy(0.8), what="c")
    assert ledger.remaining.mu == 0.0
    assert [entry.rho for entry in ledger.entries()] == [0.18, 0.32]
    assert "spent      mu 1.0" in repr(ledger)
    assert "<td>mu 1.0, delta 1e-07</td>" in ledger._repr_html_()


def test_what_each_release_costs(ledger):
    assert ledger.cost(Uses("gaussian", uses=8, rho=0.01)).mu == 0.4
    for uses in (Uses("pure", epsilon=0.5), Uses("laplace", epsilon=0.5), Uses("bounded_range", epsilon=0.5)):
        assert ledger.cost(uses).mu == pytest.approx(accounting.mu_pure(0.5), rel=1e-15)
    cost = ledger.cost([Privacy(0.5, 1e-8), Uses("approximate", uses=3, epsilon=0.5, delta=1e-8)])
    assert cost.mu == pytest.approx(2 * accounting.mu_pure(0.5), rel=1e-15)
    assert cost.delta == 4e-8
    assert ledger.cost(Privacy(0.5)).mu >= accounting.mu_pure(0.5)


@pytest.mark.parametrize("amount", [0.1, Fraction(1, 10)])
def test_a_plain_rho_does_not_enter(ledger, amount):
    with pytest.raises(ParameterTypeError, match="a rho does not show that noise is normal; for a mu write GaussianPrivacy"):
        ledger.spend(amount, what="x")
    assert list(ledger.entries()) == []


def test_what_has_only_a_rho_does_not_enter(ledger):
    with pytest.raises(ParameterError, match="discrete Gaussian noise is not mu-GDP with the mu of its rho"):
        ledger.spend([GaussianPrivacy(0.1), Uses("concentrated", rho=0.01)], what="x")
    assert ledger.spent == Budget(None, 0.0, mu=0.0)


def test_other_kinds_and_gaussian_privacy(tmp_path):
    by_rho = Ledger.create(tmp_path / "r", rho=1.0)
    assert by_rho.cost(GaussianPrivacy(0.5)).rho == 0.125
    with pytest.raises(ParameterError, match="amount must have an epsilon in a ledger of kind 'basic'"):
        Ledger.create(tmp_path / "b", epsilon=1.0).spend(GaussianPrivacy(0.5), what="x")


def test_the_promise_is_the_exact_conversion(ledger):
    assert ledger.privacy(1e-6).epsilon == pytest.approx(accounting.gdp_epsilon(1.0, 9e-7), rel=1e-12)
    assert ledger.privacy(1e-6).epsilon < accounting.zcdp_epsilon(0.5, 9e-7)
    with pytest.raises(ParameterError, match="delta must be above the failure_delta"):
        ledger.privacy(1e-7)
    with pytest.raises(ParameterTypeError, match="delta must be given for a ledger of kind 'gdp'"):
        ledger.privacy()


@pytest.mark.parametrize(
    ("limits", "error", "words"),
    [
        ({"mu": 1.0, "rho": 1.0}, ParameterTypeError, r"rho and mu must not both be given, got 1\.0 and 1\.0"),
        ({"mu": 1.0, "rho": 1.0, "epsilon": 1.0}, ParameterTypeError, "epsilon and rho and mu must not all be given"),
        ({"mu": 1.0, "delta": 1e-6}, ParameterError, "delta must be left out together with mu"),
        ({"mu": -1.0}, ParameterError, "mu must be in"),
        ({"mu": math.nan}, ParameterError, "mu must be in"),
        ({"mu": 1.0, "failure_delta": 1.0}, ParameterError, "failure_delta must be in"),
    ],
)
def test_budgets_that_are_refused(tmp_path, limits, error, words):
    with pytest.raises(error, match=words):
        Ledger.create(tmp_path / "x", **limits)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("mu", [5e-324, 1e-160, 0.1, 1 / 3, 1e154, 1.7976931348623157e308])
def test_any_mu_survives_the_file(tmp_path, mu):
    made = Ledger.create(tmp_path / "x", mu=mu)
    assert Ledger(made.path).budget.mu == mu
    made.spend(GaussianPrivacy(mu), what="all")
    assert Ledger(made.path).spent.mu == mu
    assert not made.fits(GaussianPrivacy(mu))


def test_earlier_versions_refuse_the_file(tmp_path):
    """They read format 2 alone, and would take any ρ in a ledger whose kind they do not know."""
    for limits, expected in (({"mu": 1.0}, 3), ({"rho": 1.0}, 2), ({"epsilon": 1.0}, 2)):
        made = Ledger.create(tmp_path / str(limits), **limits)
        with contextlib.closing(sqlite3.connect(made.path)) as connection, connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (expected,)


def test_a_job_pays_by_its_epsilon(ledger):
    from dpcore.tables.output.charge import Spend

    spend = Spend("a job", Privacy(0.5, 1e-8), parts=(0.01, 0.02))
    assert spend.amount("zcdp") == (0.01, 0.02)
    assert spend.amount("gdp") == spend.amount("basic") == Privacy(0.5, 1e-8)
    assert ledger.fits(spend.amount(ledger.kind))


def test_documents_and_pages_show_mu(ledger):
    from dpcore.query.page import ledger_shown
    from dpcore.tables.ledger_state import ledger_state, ledger_summary

    with ledger.spend(GaussianPrivacy(0.6), what="a"):
        pass
    state = json.loads(json.dumps(ledger_state(ledger, "x")))
    assert state["spent"] == {"mu": 0.6, "delta": 0.0}
    assert state["unfinished"] == {"mu": 0.0, "delta": 0.0}
    shown = ledger_shown(ledger_summary(ledger, "x"), {"epsilon": 0.5, "delta": 0.0})
    assert [row["symbol"] for row in shown["rows"]] == ["μ", "δ of failures"]
    assert shown["shares"] == {"earlier": "36.00", "job": None}
