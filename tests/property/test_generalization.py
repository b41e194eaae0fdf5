"""`generalization_error`: its lemma by exact enumeration, its rounding, the constants of the lecture, and what it refuses.

The proof is in docs/exactness-adaptive.md. Rational levels e^ε make every probability here exact.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.inference import AdaptiveQueries, generalization_error
from dpcore.inference.generalization import error_bound

HALF = Fraction(1, 2)


def query_values(m):
    """All queries on m values with values 0, ½ and 1."""
    return list(itertools.product((Fraction(0), HALF, Fraction(1)), repeat=m))


def chosen_law(sample, m, ratio):
    """W: query q with weight ratio^(sum of q over the sample, in steps of ½): ratio² = e^(ε/2) makes it ε-private."""
    weights = [ratio ** int(2 * sum(q[x] for x in sample)) for q in query_values(m)]
    return [Fraction(w) / sum(weights) for w in weights]


def errors(n, m, ratio):
    """Pairs (q(S) − q(𝒟), probability) of W on n uniform records of m values, exactly."""
    for sample in itertools.product(range(m), repeat=n):
        for q, p in zip(query_values(m), chosen_law(sample, m, ratio), strict=True):
            if p:
                yield sum(q[x] for x in sample) / n - sum(q) / m, p / m**n


def level(n, m, ratio):
    """e^ε of W, from all neighbouring samples."""
    laws = {sample: chosen_law(sample, m, ratio) for sample in itertools.product(range(m), repeat=n)}
    pairs = [(a, b) for a in laws for b in laws if sum(x != y for x, y in zip(a, b, strict=True)) == 1]
    return max(p / q for a, b in pairs for p, q in zip(laws[a], laws[b], strict=True))


@pytest.mark.parametrize(("n", "m", "ratio"), [(1, 2, 2), (1, 3, 3), (2, 2, 2), (2, 3, 2), (3, 2, 3)])
def test_the_expected_error_of_private_choices_is_below_the_lemma(n, m, ratio):
    mean, epsilon = sum(error * p for error, p in errors(n, m, ratio)), math.log(level(n, m, ratio))
    assert 0 < mean <= math.tanh(epsilon / 4)


def subset_error(m, ratio):
    """Exact E[q(x) − q(𝒟)] for one uniform record of m values and one value chosen by k-ary response of level e^ε = ratio²."""
    return Fraction(ratio**2, ratio**2 + m - 1) - Fraction(1, m)


def test_the_lemma_is_sharp():
    for ratio in (2, 3, 4):
        epsilon = 2 * math.log(ratio)
        assert float(subset_error(ratio + 1, ratio)) == pytest.approx(math.tanh(epsilon / 4), rel=1e-14)
        # broken twins: a smaller constant than ¼
        assert float(subset_error(ratio + 1, ratio)) > math.tanh(epsilon / 4.01)


def test_a_failure_mass_enters_the_lemma_in_full():
    """W names its record with probability δ, and tells nothing otherwise: E[q(S) − q(𝒟)] = δ(1 − 1/m)."""
    m, delta = 10**6, Fraction(1, 10)
    assert float(delta * (1 - Fraction(1, m))) > 0.999 * float(delta)


@pytest.mark.parametrize(("n", "m", "ratio"), [(2, 3, 2), (3, 2, 2), (4, 2, 2)])
def test_no_private_choice_errs_more_often_than_the_bound_allows(n, m, ratio):
    epsilon, law = math.log(level(n, m, ratio)), list(errors(n, m, ratio))
    for beta in (0.02, 0.1, 0.3, 0.6, 0.9):
        bound = generalization_error(epsilon, 0.0, n=n, beta=beta)
        assert sum(p for error, p in law if abs(error) > bound) < beta


def test_a_choice_that_is_not_private_breaks_the_bound():
    """The query that holds for the sample's values only is always 1 off on a continuous distribution."""
    assert generalization_error(0.01, 0.0, n=10**6, beta=0.5) < 0.03


def test_the_bound_is_rounded_up():
    rng = np.random.default_rng(1)
    with mpmath.workdps(50):
        for _ in range(200):
            epsilon, n = float(10 ** rng.uniform(-6, 1)), int(10 ** rng.uniform(0, 14))
            delta, beta = float(10 ** rng.uniform(-300, -1)), float(10 ** rng.uniform(-150, -0.1))
            copies, choice = float(np.rint(max(1.0, 10 ** rng.uniform(-1, 1) / beta))), float(10 ** rng.uniform(-6, 1))
            lost = mpmath.tanh((mpmath.mpf(epsilon) + choice) / 4) + mpmath.mpf(copies) * delta
            lost += 2 * mpmath.log(2 * mpmath.mpf(copies)) / (mpmath.mpf(choice) * n)
            exact = lost / -mpmath.expm1(copies * mpmath.log1p(-mpmath.mpf(beta)))
            found = float(error_bound(epsilon, delta, n, beta, np.array(copies), np.array(choice)))
            assert found * (1 + 2.0**-40) >= exact >= found * (1 - 2.0**-40)


CASES = [(epsilon, delta) for epsilon in (0.099, 0.05, 0.01, 1e-3, 1e-5) for delta in (0.9, 0.5, 0.3, 0.1, 1e-3, 1e-9, 1e-200)]


@pytest.mark.parametrize(("epsilon", "share"), CASES)
def test_the_theorem_of_the_lecture_holds_with_the_constant_one_seventh(epsilon, share):
    """P(|q(S) − q(𝒟)| > 10ε) < δ/ε for δ < ε; from ε = 1/10 and from δ = ε on it is trivial."""
    delta = share * epsilon
    for constant in (1 / 7, 1.0):
        n = math.ceil(constant * math.log(1 / delta) / epsilon**2)
        assert generalization_error(epsilon, delta, n=n, beta=max(share, 2.0**-600)) <= 10 * epsilon


def test_a_tenth_of_that_constant_would_not_do():
    epsilon, delta = 0.001, 1e-9
    n = math.ceil(math.log(1 / delta) / (70 * epsilon**2))
    assert generalization_error(epsilon, delta, n=n, beta=delta / epsilon) > 10 * epsilon


def test_the_bound_falls_and_rises_where_it_should():
    def bound(epsilon=0.05, delta=1e-9, n=10**5, beta=1e-3):
        return generalization_error(epsilon, delta, n=n, beta=beta)

    assert bound(epsilon=0.04) < bound() < bound(epsilon=0.06)
    assert bound(delta=0.0) < bound() < bound(delta=1e-6)
    assert bound(n=10**6) < bound() < bound(n=10**4)
    assert bound(beta=1e-2) < bound() < bound(beta=1e-4)


@pytest.mark.parametrize(("epsilon", "n"), [(700.0, 10), (1e-6, 1), (1e-6, 10)])
def test_it_is_one_where_nothing_is_proved(epsilon, n):
    assert generalization_error(epsilon, 1e-9, n=n, beta=0.01) == 1.0


def test_extremes_are_computed():
    assert 0 < generalization_error(1e-300, 0.0, n=2**50, beta=2.0**-600) < 1e-5
    assert generalization_error(1.0, 0.999, n=10**6, beta=0.5) == 1.0


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((0.0, 0.0), {"n": 10, "beta": 0.1}),
        ((math.nan, 0.0), {"n": 10, "beta": 0.1}),
        ((math.inf, 0.0), {"n": 10, "beta": 0.1}),
        ((1.0, 1.0), {"n": 10, "beta": 0.1}),
        ((1.0, -1e-9), {"n": 10, "beta": 0.1}),
        ((1.0, 0.0), {"n": 0, "beta": 0.1}),
        ((1.0, 0.0), {"n": 2**50 + 1, "beta": 0.1}),
        ((1.0, 0.0), {"n": 10, "beta": 0.0}),
        ((1.0, 0.0), {"n": 10, "beta": 1.0}),
        (("1", 0.0), {"n": 10, "beta": 0.1}),
        ((1.0, 0.0), {"n": 10.5, "beta": 0.1}),
    ],
)
def test_bad_parameters_are_refused(arguments, options):
    with pytest.raises((ParameterError, ParameterTypeError), match="must be"):
        generalization_error(*arguments, **options)


def test_adaptive_queries_have_both_accuracies():
    queries = AdaptiveQueries(np.zeros(10**6), 0.05, 1e-9, uses=100)
    accuracy, failure = queries.statistical_accuracy(0.05, method="proved")
    error = generalization_error(0.05, 1e-9, n=10**6, beta=0.05 / 100)
    assert (accuracy, failure) == (queries.empirical_accuracy(0.05) + error, 0.1)
    assert accuracy < queries.statistical_accuracy(0.05)[0] == queries.empirical_accuracy(0.05) + 0.5
    few = AdaptiveQueries(np.zeros(10), 0.05, 1e-9, uses=100)
    with pytest.warns(UserWarning, match="beta is the probability of missing"):
        assert few.statistical_accuracy(0.6, method="proved")[1] == 1.0
    # β/k below the least β of the bound: by a larger one the answers would miss more often than they say
    many, beta = AdaptiveQueries(np.zeros(10**6), 1e-4, 1e-300, uses=10**6), 2.0**-600
    assert generalization_error(1e-4, 1e-300, n=10**6, beta=beta) < 0.1
    assert many.statistical_accuracy(beta, method="proved")[0] == many.empirical_accuracy(beta) + 1.0
    with pytest.raises(ParameterError, match="method must be"):
        few.statistical_accuracy(0.05, method="exact")


# All answers at once


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("delta", [0.0, 0.01, 0.2])
def test_conditional_means_rarely_leave_the_population(epsilon, delta):
    """K-ary response or, with probability δ, the record itself: P(error > tanh(ε/4) + d) ≤ δ/d for the worst query of each output."""
    rng, broken = np.random.default_rng(4), 0
    for k in (2, 3, 8):
        response = (np.full((k, k), 1.0) + np.eye(k) * math.expm1(epsilon)) / (k + math.expm1(epsilon))
        rows = np.hstack([(1 - delta) * response, delta * np.eye(k)])
        for _ in range(200):
            p = rng.dirichlet(np.full(k, rng.choice([0.1, 1.0])))
            p = (p + 1e-9) / (1 + 1e-9 * k)
            joint = p[:, None] * rows
            mass = np.maximum(joint.sum(axis=0), 1e-300)
            errors = np.maximum(joint / mass - p[:, None], 0).sum(axis=0)  # of the query that asks for what became likelier
            for d in (0.001, 0.02, 0.3):
                assert mass[errors > math.tanh(epsilon / 4) + d + 1e-12].sum() <= delta / d + 1e-12
                broken += mass[errors > math.tanh(epsilon / 6) + d].sum() > delta / d + 1e-9
    assert broken > 0 or delta > 0


def test_the_bound_of_conditional_means_is_attained_by_one_record():
    epsilon = 1.0
    share = 1 / (1 + math.exp(epsilon / 2))
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    posterior = share * truth / (share * truth + (1 - share) * (1 - truth))
    assert posterior - share == pytest.approx(math.tanh(epsilon / 4), rel=1e-12)


def test_the_accuracy_of_all_answers_is_the_smaller_one_and_rounded_up():
    mpmath = pytest.importorskip("mpmath")
    from dpcore.inference._population import deviation

    with mpmath.workdps(40):
        for scale, uses, epsilon, delta, beta in [
            (1e-3, 10**6, 0.1, 1e-6, 0.05),
            (0.9, 1, 1e-6, 1e-300, 0.999),
            (1e-9, 10, 0.9, 0.01, 1e-9),
        ]:
            s, b = mpmath.mpf(scale), mpmath.mpf(beta)
            exact = s * (1 + mpmath.log(2 * uses / (s * b))) + mpmath.tanh(mpmath.mpf(epsilon) / 4) + 2 * mpmath.mpf(delta) / b
            found = float(deviation(scale, uses, epsilon, delta, beta))
            assert exact < found < exact * (1 + 1e-6) + 1e-11
    assert float(deviation(1.0, 10, 0.1, 1e-6, 0.05)) == math.inf
    many = AdaptiveQueries(np.zeros(10**6), 0.2, 1e-5, uses=1000)
    error = generalization_error(0.2, 1e-5, n=10**6, beta=0.05 / 1000)
    accuracy, _ = many.statistical_accuracy(0.05, method="proved")
    assert accuracy == float(deviation(many.scale, 1000, 0.2, 1e-5, 0.1)) < many.empirical_accuracy(0.05) + error
