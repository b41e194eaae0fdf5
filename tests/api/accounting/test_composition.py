"""Rules of composition against their definitions, published values, and twins that must fail."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import special

from dpcore import Privacy, accounting
from dpcore.accounting import Uses
from dpcore.errors import ParameterError, ParameterTypeError
from support.composed import enumerated

MP = mpmath.MPContext()
MP.dps = 80


# Sums


def test_basic_adds_and_rounds_up():
    assert accounting.basic([Privacy(0.5), Privacy(0.25, 1e-6), Privacy(0.0, 2.0**-30)]) == Privacy(0.75, 1e-6 + 2.0**-30)
    total = accounting.basic([Privacy(0.1)] * 3).epsilon
    assert Fraction(math.nextafter(total, 0.0)) < 3 * Fraction(0.1) <= Fraction(total)
    assert accounting.basic([]) == Privacy(0.0)
    assert accounting.basic([Privacy(math.inf), Privacy(1.0)]).epsilon == math.inf
    assert accounting.basic([Privacy(1.7e308)] * 3).epsilon == math.inf
    assert accounting.basic(Privacy(0.5, relation="add_remove") for _ in range(2)).relation == "add_remove"


@pytest.mark.parametrize(
    ("relation", "partition", "expected"),
    [
        ("replace", "identity", Privacy(0.5, 2e-6)),
        ("replace", "value", Privacy(0.75, 3e-6)),
        ("add_remove", "identity", Privacy(0.5, 2e-6, "add_remove")),
        ("add_remove", "value", Privacy(0.5, 2e-6, "add_remove")),
    ],
)
def test_parallel_is_the_maximum_or_the_sum_of_the_two_largest(relation, partition, expected):
    parts = [Privacy(0.25, 2e-6, relation), Privacy(0.5, 0.0, relation), Privacy(0.125, 1e-6, relation)]
    found = accounting.parallel(parts, partition=partition)
    assert (found.epsilon, found.relation) == (expected.epsilon, relation)
    assert found.delta == pytest.approx(expected.delta, rel=1e-15)
    assert accounting.parallel([], partition=partition) == Privacy(0.0)
    assert accounting.parallel(parts[:1], partition=partition) == parts[0]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_two_counts_of_a_group_by_lose_twice_epsilon_under_replacement(epsilon):
    """A record that changes its group moves two counts: the maximum, which holds for a partition by identity, would be wrong here."""

    def log_law(noise):
        r = MP.exp(-MP.mpf(epsilon))
        return MP.log((1 - r) / (1 + r) * r ** abs(noise))

    pairs = itertools.product(range(-4, 5), repeat=2)
    worst = max(log_law(a) + log_law(b) - log_law(a + 1) - log_law(b - 1) for a, b in pairs)
    counts = [Privacy(epsilon)] * 7
    slack = MP.mpf(10) ** -60
    assert worst <= accounting.parallel(counts, partition="value").epsilon + slack
    assert worst > accounting.parallel(counts, partition="identity").epsilon * 1.9


def test_a_place_is_no_identity():
    """Parts are cut by row number, and the first of the rows is taken away: every part gets another record, and each count can move."""
    epsilon, parts, size = 0.5, 3, 3
    rows = dict(enumerate([1, 0, 0, 0, 0, 0, 1, 0, 0]))  # with an identity for each record
    after = {identity: value for identity, value in rows.items() if identity}
    by_place = [[sum(list(table.values())[i * size : (i + 1) * size]) for i in range(parts)] for table in (rows, after)]
    by_identity = [[sum(table.get(i, 0) for i in range(j, parts * size, parts)) for j in range(parts)] for table in (rows, after)]
    moved = [sum(abs(a - b) for a, b in zip(*counts, strict=True)) for counts in (by_place, by_identity)]
    assert moved == [parts, 1]
    counts = [Privacy(epsilon, relation="add_remove")] * parts
    promised = accounting.parallel(counts, partition="identity").epsilon
    # Discrete Laplace noise of scale 1/ε: the loss is ε for each unit that a count moves.
    assert epsilon * moved[1] <= promised < epsilon * moved[0] == accounting.basic(counts).epsilon
    with pytest.raises(ParameterError, match="partition must be one of 'identity', 'value', got 'index'"):
        accounting.parallel(counts, partition="index")


# Advanced composition


@pytest.mark.parametrize("k", [1, 7, 10**4, 10**6])
@pytest.mark.parametrize("epsilon", [1e-12, 0.01, 0.7, 5.0, 300.0])
@pytest.mark.parametrize("delta_prime", [1e-300, 1e-6, 0.5])
def test_advanced_is_its_formula_rounded_up(epsilon, k, delta_prime):
    found = accounting.advanced(epsilon, 0.0, uses=k, delta_prime=delta_prime)
    exact = MP.mpf(epsilon)
    exact = exact * MP.sqrt(2 * k * MP.log(1 / MP.mpf(delta_prime))) + k * exact * MP.expm1(exact)
    assert exact <= found.epsilon <= exact * (1 + MP.mpf(2) ** -51)
    assert found.delta == delta_prime


def test_advanced_beyond_float64_is_infinite_and_not_an_error():
    assert accounting.advanced(710.0, 0.0, uses=10**6, delta_prime=1e-6).epsilon == math.inf
    assert math.isfinite(accounting.advanced(650.0, 0.0, uses=10**6, delta_prime=1e-6).epsilon)
    assert accounting.advanced(0.0, 0.0, uses=10**18, delta_prime=1e-6).epsilon == 0.0


def test_published_example_of_advanced_composition():
    # Dwork and Roth, "The algorithmic foundations of differential privacy", Section 3.5.2: 10,000 databases with ε = 1/801 each
    # add up to about 1 at δ' = e^−32.
    assert accounting.advanced(1 / 801, 0.0, uses=10_000, delta_prime=math.exp(-32)).epsilon == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize("k", [1, 100, 10_000])
@pytest.mark.parametrize("epsilon", [1e-4, 0.3, 1.0])
def test_lecture_form_is_theorems_1_and_2_of_document_002(epsilon, k):
    delta = 1e-9
    square, root = 2 * k * MP.mpf(epsilon) ** 2, MP.sqrt(2 * k) * epsilon
    first = accounting.advanced(epsilon, delta, uses=k, method="lecture")
    exact = square + root * MP.sqrt(MP.log(1 / (k * MP.mpf(delta))))
    assert exact <= first.epsilon <= exact * (1 + MP.mpf(2) ** -51)
    assert first.delta == pytest.approx(2 * k * delta, rel=1e-15)
    second = accounting.advanced(epsilon, 0.0, uses=k, delta_prime=1e-5, method="lecture")
    exact = square + root * MP.sqrt(MP.log(1 / MP.mpf(1e-5)))
    assert exact <= second.epsilon <= exact * (1 + MP.mpf(2) ** -51)
    assert second.delta == 1e-5
    assert accounting.advanced(epsilon, 0.0, uses=k, delta_prime=1e-5).epsilon <= second.epsilon


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: accounting.basic([Privacy(1.0), Privacy(1.0, 0.0, "add_remove")]),
            ParameterError,
            "one relation .* and 'replace'",
        ),
        (lambda: accounting.basic([Privacy(1.0, 0.6)] * 2), ParameterError, r"below 1 .* got 1\.2"),
        (lambda: accounting.basic([1.0]), ParameterTypeError, r"parts\[0\] must be a dpcore\.Privacy, got 1\.0"),
        (lambda: accounting.parallel([Privacy(1.0)], partition="group"), ParameterError, "partition must be one of 'identity', 'value'"),
        (
            lambda: accounting.advanced(1.5, 0.0, uses=10, delta_prime=1e-6, method="lecture"),
            ParameterError,
            r"epsilon must be in \(0, 1\].* got 1\.5",
        ),
        (
            lambda: accounting.advanced(0.5, 1e-9, uses=10, delta_prime=1e-6, method="lecture"),
            ParameterTypeError,
            "delta_prime must be left out",
        ),
        (
            lambda: accounting.advanced(0.5, 0.0, uses=10, method="lecture"),
            ParameterTypeError,
            "delta_prime must be a real number, got None",
        ),
        (lambda: accounting.advanced(0.5, 0.0, uses=10), ParameterTypeError, "delta_prime must be a real number, got None"),
        (lambda: accounting.advanced(0.5, 0.1, uses=10, delta_prime=1e-6), ParameterError, "delta .* below 1"),
        (
            lambda: accounting.advanced(0.5, 0.0, uses=0, delta_prime=1e-6),
            ParameterError,
            r"uses must be in \[1, 1000000000000000000\], got 0",
        ),
        (lambda: accounting.advanced(0.5, 0.0, uses=True, delta_prime=1e-6), ParameterTypeError, "uses must be an integer, got True"),
        (
            lambda: accounting.advanced(math.nan, 0.0, uses=1, delta_prime=1e-6),
            ParameterError,
            r"epsilon must be in \[0\.0, inf\), got nan",
        ),
        (lambda: accounting.optimal(0.5, 1.0, uses=1, delta_total=0.5), ParameterError, r"delta must be in \[0\.0, 1\.0\), got 1\.0"),
        (lambda: accounting.optimal(0.5, 0.0, uses=10**9 + 1, delta_total=0.5), ParameterError, r"uses must be in \[1, 1000000000\]"),
        (
            lambda: accounting.optimal_heterogeneous([Privacy(math.inf)], delta_total=0.5, tolerance=0.1),
            ParameterError,
            r"parts\[0\]\.epsilon .* inf",
        ),
        (
            lambda: accounting.optimal_heterogeneous([Privacy(1 / i) for i in range(1, 19)], delta_total=0.1, tolerance=1e-12),
            ParameterError,
            "tolerance must be larger",
        ),
        (
            lambda: accounting.optimal_heterogeneous([Privacy(1.0)], delta_total=0.5, tolerance=0.0),
            ParameterError,
            "tolerance must be positive",
        ),
    ],
)
def test_wrong_arguments_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


# Optimal composition


def hockey_stick(epsilon, k, total):
    """δ₀(ε') of k randomised responses by its definition."""
    context = mpmath.MPContext()
    context.dps = 60 + int(k * epsilon / 2)
    likely = 1 / (1 + context.exp(-context.mpf(epsilon)))
    unlikely = 1 - likely
    return context.fsum(
        max(context.mpf(0), math.comb(k, i) * (likely ** (k - i) * unlikely**i - context.exp(total) * likely**i * unlikely ** (k - i)))
        for i in range(k + 1)
    )


CASES = [
    (0.1, 1, 1e-3),
    (0.1, 2, 1e-6),
    (0.3, 2, 0.1),
    (1.0, 10, 1e-6),
    (0.1, 100, 1e-6),
    (0.05, 601, 1e-9),
    (5.0, 7, 0.3),
    (1e-9, 5, 1e-10),
    (30.0, 40, 1e-300),
    (0.2, 33, 0.9),
    (0.2, 1000, 0.999),
]


@pytest.mark.parametrize(("epsilon", "k", "delta"), CASES)
def test_optimal_is_the_least_float_that_the_definition_allows(epsilon, k, delta):
    found = accounting.optimal(epsilon, 0.0, uses=k, delta_total=delta)
    assert hockey_stick(epsilon, k, found) <= delta
    assert found == 0.0 or hockey_stick(epsilon, k, math.nextafter(found, 0.0)) > delta


@pytest.mark.parametrize("delta", [1e-9, 1e-3])
def test_optimal_with_failures_is_the_definition_too(delta):
    epsilon, k, total = 0.2, 50, 0.06
    found = accounting.optimal(epsilon, delta, uses=k, delta_total=total)
    lost = (1 - MP.mpf(delta)) ** k
    assert 1 - lost * (1 - hockey_stick(epsilon, k, found)) <= total
    assert 1 - lost * (1 - hockey_stick(epsilon, k, math.nextafter(found, 0.0))) > total


@pytest.mark.parametrize("k", [1, 2, 5, 12])
@pytest.mark.parametrize("delta", [0.0, 1e-4])
def test_optimal_has_the_points_of_the_theorem(k, delta):
    """Kairouz, Oh & Viswanath (2015), Theorem 3.3, as printed: ((k−2i)ε, 1−(1−δ)^k(1−δ_i))."""
    epsilon = 0.4
    for i in range(1, k // 2 + 1):
        terms = (math.comb(k, j) * (MP.exp((k - j) * epsilon) - MP.exp((k - 2 * i + j) * epsilon)) for j in range(i))
        point = 1 - (1 - MP.mpf(delta)) ** k * (1 - MP.fsum(terms) / (1 + MP.exp(epsilon)) ** k)
        assert accounting.optimal(epsilon, delta, uses=k, delta_total=float(point)) == pytest.approx(
            (k - 2 * i) * epsilon, rel=1e-9, abs=1e-9
        )


def test_optimal_at_the_ends():
    assert accounting.optimal(0.3, 0.0, uses=10, delta_total=0.0) == 3.0
    assert accounting.optimal(0.3, 0.01, uses=1, delta_total=0.01) == 0.3
    assert accounting.optimal(0.3, 0.01, uses=3, delta_total=0.01) == math.inf  # the releases alone use up more
    assert accounting.optimal(0.0, 0.0, uses=10, delta_total=0.0) == 0.0
    assert accounting.optimal(0.0, 1e-3, uses=10, delta_total=0.5) == 0.0
    assert accounting.optimal(1e-3, 0.0, uses=10**6, delta_total=0.5) == 0.0
    assert accounting.optimal(700.0, 0.0, uses=10**6, delta_total=1e-6) == pytest.approx(7e8, rel=1e-12)
    assert accounting.optimal(5e-324, 0.0, uses=3, delta_total=1e-300) <= 2e-323


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("k", [2, 30, 1000])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_optimal_is_below_every_other_rule(epsilon, k, delta):
    best = accounting.optimal(epsilon, 0.0, uses=k, delta_total=delta)
    others = [
        accounting.basic([Privacy(epsilon)] * k).epsilon,
        accounting.advanced(epsilon, 0.0, uses=k, delta_prime=delta).epsilon,
        accounting.advanced(epsilon, 0.0, uses=k, delta_prime=delta, method="lecture").epsilon,
        accounting.zcdp_epsilon(k * accounting.rho_pure(epsilon), delta),
    ]
    assert best <= min(others)
    assert others[1] <= others[2]
    if k == 1000 and epsilon < 0.5:
        assert others[1] < others[0]  # where advanced composition pays


def test_a_composition_theorem_with_half_the_deviation_is_caught():
    """The twin: δ of k randomised responses at the ε that a formula claims is at most the formula's δ, and not so for half of it."""
    epsilon, k, delta = 0.05, 400, 1e-6
    assert hockey_stick(epsilon, k, accounting.advanced(epsilon, 0.0, uses=k, delta_prime=delta).epsilon) <= delta
    assert hockey_stick(epsilon, k, accounting.optimal(epsilon, 0.0, uses=k, delta_total=delta)) <= delta
    broken = epsilon * math.sqrt(2 * k * math.log(1 / delta)) / 2 + k * epsilon * math.expm1(epsilon)
    assert hockey_stick(epsilon, k, broken) > 10 * delta


# What several uses cost


def test_compose_names_the_best_rule():
    assert accounting.compose(Uses("pure", uses=3, epsilon=0.5), 0.0).rule == "basic"
    assert accounting.compose(Uses("pure", uses=1000, epsilon=0.01), 1e-6).rule == "optimal"
    assert accounting.compose(Uses("bounded_range", uses=1000, epsilon=0.01), 1e-6).rule == "zcdp"
    assert accounting.compose(Uses("gaussian", uses=1000, rho=1e-4), 1e-6).rule == "gaussian"
    assert accounting.compose(Uses("concentrated", uses=1000, rho=1e-4), 1e-6).rule == "zcdp"
    mixed = [Uses("pure", uses=2000, epsilon=0.01), Uses("pure", epsilon=1.0)]
    assert accounting.compose(mixed, 1e-6).rule == "optimal"
    assert accounting.compose([*mixed, Uses("pure", epsilon=0.99)], 1e-6).rule == "zcdp"


def test_compose_reports_what_it_used_of_delta():
    spent = accounting.compose(Uses("pure", uses=2, epsilon=0.5), 1e-300).privacy
    assert spent.delta in {0.0, 1e-300}
    assert accounting.compose(Uses("approximate", uses=4, epsilon=0.25, delta=2.0**-30), 2.0**-28).privacy == Privacy(1.0, 2.0**-28)
    assert accounting.compose(Uses("approximate", uses=4, epsilon=0.25, delta=2.0**-30), 2.0**-29).privacy.epsilon == math.inf
    assert accounting.compose(Uses("gaussian", rho=0.5), 0.0).privacy.epsilon == math.inf
    assert accounting.compose([], 0.0).privacy == Privacy(0.0)
    assert accounting.compose(Uses("pure", epsilon=1.0), 0.0, relation="add_remove").privacy.relation == "add_remove"


def test_several_gaussians_are_one():
    scale, k = 20.0, 50
    uses = Uses("gaussian", uses=k, rho=accounting.rho_gaussian(scale, 1.0))
    epsilon = accounting.compose(uses, 1e-6).privacy.epsilon
    assert accounting.gaussian_delta(epsilon, scale, math.sqrt(k)) == pytest.approx(1e-6, rel=1e-9)
    assert epsilon < accounting.zcdp_epsilon(k * uses.rho, 1e-6)


def test_failures_are_taken_off_delta_before_a_conversion():
    """(ε, δ)-private uses fail with probability 1 − (1−δ)^k; a twin that forgets it claims less ε."""
    k, epsilon, delta, total = 10**4, 0.01, 5e-11, 1e-6
    found = accounting.compose(Uses("approximate", uses=k, epsilon=epsilon, delta=delta), total)
    assert found.rule == "optimal"
    assert accounting.compose(Uses("pure", uses=k, epsilon=epsilon), total).privacy.epsilon < found.privacy.epsilon
    left = (total - k * delta) / (1 - k * delta)
    assert found.privacy.epsilon == pytest.approx(accounting.compose(Uses("pure", uses=k, epsilon=epsilon), left).privacy.epsilon, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"mechanism": "gaussian"}, ParameterTypeError, "rho must be given for mechanism='gaussian'"),
        ({"mechanism": "gaussian", "rho": 0.1, "epsilon": 0.1}, ParameterError, "epsilon must be left out for mechanism='gaussian'"),
        ({"mechanism": "pure", "rho": 0.1}, ParameterError, "rho must be left out for mechanism='pure'"),
        ({"mechanism": "pure", "delta": 0.1}, ParameterError, "delta must be 0 for mechanism='pure'"),
        ({"mechanism": "noise"}, ParameterError, "mechanism must be one of 'pure', 'approximate'"),
        ({"mechanism": "pure", "uses": 0}, ParameterError, r"uses must be in \[1, 10+\], got 0"),
        ({"mechanism": "pure", "epsilon": math.inf}, ParameterError, r"epsilon must be in \[0\.0, inf\), got inf"),
        ({"mechanism": "pure", "epsilon": "1"}, ParameterTypeError, "epsilon must be a real number, got '1'"),
        ({"mechanism": "concentrated", "rho": -0.1}, ParameterError, r"rho must be in \[0\.0, inf\), got -0\.1"),
    ],
)
def test_wrong_uses_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        Uses(**arguments)


def test_uses_that_are_none_are_refused():
    with pytest.raises(ParameterTypeError, match=r"uses\[1\] must be a dpcore\.accounting\.Uses, got 'pure'"):
        accounting.compose([Uses("pure", epsilon=1.0), "pure"], 1e-6)


@pytest.mark.some(2)
@pytest.mark.parametrize(("epsilon", "k"), [(1e-3, 10**6), (0.01, 10**6), (1.0, 10**6), (0.1, 10**5), (5.0, 10**3)])
@pytest.mark.parametrize("delta", [1e-9, 0.2])
def test_optimal_for_many_uses_is_a_sum_of_positive_terms(epsilon, k, delta):
    """The same δ₀ another way: Σ P(l)·(1 − e^(ε' − (k−2l)ε)) in float64, whose binomial law is good to some 10^−9."""
    total = accounting.optimal(epsilon, 0.0, uses=k, delta_total=delta)
    excess = (k - 2 * np.arange(k // 2 + 1)) * epsilon - total
    choose = special.gammaln(k + 1) - special.gammaln(np.arange(k // 2 + 1) + 1) - special.gammaln(k + 1 - np.arange(k // 2 + 1))
    law = np.exp(choose - np.arange(k // 2 + 1) * epsilon - k * math.log1p(math.exp(-epsilon)))
    found = np.sum(law * -np.expm1(-np.maximum(excess, 0.0)))
    assert total == 0.0 or found == pytest.approx(delta, rel=1e-5)
    assert found <= delta * (1 + 1e-5)


# Two kinds of uses


def two_kinds(one, other, total):
    """δ₀(ε') of k₁ responses with ε₁ and k₂ with ε₂ by its definition."""
    result = MP.mpf(0)
    for a, b in itertools.product(range(one[0] + 1), range(other[0] + 1)):
        loss, weight = MP.mpf(0), MP.mpf(1)
        for (k, epsilon), unlikely in ((one, a), (other, b)):
            loss += (k - 2 * unlikely) * MP.mpf(epsilon)
            weight *= math.comb(k, unlikely) * MP.exp(-MP.mpf(epsilon) * unlikely) / (1 + MP.exp(-MP.mpf(epsilon))) ** k
        if loss > total:
            result += weight * -MP.expm1(total - loss)
    return result


@pytest.mark.some(3)
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2, 0.5])
@pytest.mark.parametrize(
    ("one", "other"),
    [((1, 0.3), (1, 0.1)), ((30, 0.2), (30, 0.1)), ((3, 5.0), (40, 1e-6)), ((7, 20.0), (9, 0.01)), ((2, 700.0), (3, 1.0))],
)
def test_two_kinds_compose_to_the_definition_rounded_up(one, other, delta):
    uses = [Uses("pure", uses=k, epsilon=epsilon) for k, epsilon in (one, other)]
    found = accounting.compose(uses, delta)
    assert found.rule in {"optimal", "basic"} or found.privacy.epsilon == 0.0
    epsilon = found.privacy.epsilon
    assert two_kinds(one, other, epsilon) <= delta
    assert epsilon == 0.0 or two_kinds(one, other, epsilon * (1 - 1e-6)) > delta * (1 - 1e-9)
    bound = accounting.delta_for_epsilon(uses, epsilon * 0.9)
    exact = two_kinds(one, other, epsilon * 0.9)
    assert exact <= bound <= exact * (1 + MP.mpf(10) ** -6) + MP.mpf(10) ** -280


def test_two_kinds_that_may_fail():
    uses = [Uses("approximate", uses=30, epsilon=0.1, delta=1e-9), Uses("approximate", uses=5, epsilon=0.5, delta=1e-8)]
    found = accounting.compose(uses, 1e-6)
    kept = (1 - MP.mpf(1e-9)) ** 30 * (1 - MP.mpf(1e-8)) ** 5
    assert 1 - kept * (1 - two_kinds((30, 0.1), (5, 0.5), found.privacy.epsilon)) <= 1e-6
    assert 1 - kept * (1 - two_kinds((30, 0.1), (5, 0.5), found.privacy.epsilon * (1 - 1e-6))) > 1e-6
    assert accounting.compose(uses, 7e-8).privacy.epsilon == math.inf  # they fail more often than that


def test_uses_that_differ_in_delta_only():
    uses = [
        Uses("pure", uses=20, epsilon=0.2),
        Uses("approximate", uses=30, epsilon=0.2, delta=1e-9),
        Uses("approximate", uses=2, delta=1e-8),
    ]
    found = accounting.compose(uses, 1e-6)
    assert found.rule == "optimal"
    kept = (1 - MP.mpf(1e-9)) ** 30 * (1 - MP.mpf(1e-8)) ** 2
    assert 1 - kept * (1 - hockey_stick(0.2, 50, found.privacy.epsilon)) <= 1e-6
    assert 1 - kept * (1 - hockey_stick(0.2, 50, found.privacy.epsilon * (1 - 1e-12))) > 1e-6


@pytest.mark.parametrize("epsilons", [(0.3, 0.2, 0.1), (0.7, 0.7, 0.01, 0.2, 0.2), (1.0, 0.5, 0.25, 0.125, 0.0625)])
def test_more_than_two_kinds_are_bounded_from_above(epsilons):
    for delta in (1e-9, 1e-3, 0.3):
        found = accounting.compose([Uses("pure", epsilon=epsilon) for epsilon in epsilons], delta).privacy.epsilon
        assert enumerated(epsilons, found) <= delta


@pytest.mark.parametrize(("k", "epsilon"), [(10**6, 1e-3), (10**5, 0.1), (10**6, 1.0)])
def test_two_kinds_that_are_one(k, epsilon):
    """Nearly equal ε: the double sum and the single one meet, for many uses as well."""
    uses = [Uses("pure", uses=k // 2, epsilon=epsilon), Uses("pure", uses=k - k // 2, epsilon=math.nextafter(epsilon, 0.0))]
    exact = accounting.optimal(epsilon, 0.0, uses=k, delta_total=1e-6)
    found = accounting.compose(uses, 1e-6)
    assert found.rule == "optimal"
    assert exact * (1 - 1e-12) <= found.privacy.epsilon <= exact * (1 + 1e-8)
