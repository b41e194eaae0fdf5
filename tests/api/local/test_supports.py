"""What follows from the channels of the frequency oracles: supports, variances, sizes, and estimates of expected counts."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpcore import errors
from dpcore.local import Aggregate, HadamardResponse, KaryResponse, LocalHashing, SubsetSelection, Support, UnaryEncoding
from dpcore.local._support import support_variance
from dpcore.local.hashing import collision
from support.channels import EPSILONS, EXTREME, HASHED, MP, ORACLES, each, exact_exp, nearest, optimal, symmetric

# Support


def support_sets(mechanism):
    """S[v, y]: whether output y supports category v, by the definition of each report."""
    k = mechanism.k
    if isinstance(mechanism, KaryResponse):
        return np.eye(k, dtype=bool)
    if isinstance(mechanism, UnaryEncoding):
        return np.array([[y >> v & 1 for y in range(2**k)] for v in range(k)], bool)
    if isinstance(mechanism, SubsetSelection):
        return np.array([[v in members for members in itertools.combinations(range(k), mechanism.w)] for v in range(k)])
    return np.array([[((row & v).bit_count() % 2 == 0) == bit for row in range(mechanism.rows) for bit in (False, True)] for v in range(k)])


def sums_where(channel, sets):
    """Probabilities that a report of x is in each set."""
    return np.array([[math.fsum(row[inside]) for inside in sets] for row in channel])


def assert_two_values(probabilities, on_diagonal, elsewhere):
    expected = np.where(np.eye(len(probabilities), dtype=bool), on_diagonal, elsewhere)
    np.testing.assert_allclose(probabilities, expected, rtol=1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
@each(ORACLES)
def test_support_is_what_the_channel_says(kind, k, epsilon):
    mechanism = kind(epsilon, k=k)
    channel, sets = mechanism.channel(), support_sets(mechanism)
    p, q, miss = mechanism.support
    assert_two_values(sums_where(channel, sets), p, q)
    assert_two_values(sums_where(channel, ~sets), miss, 1 - q)
    broken = channel * np.where(np.eye(k, dtype=bool)[:, : channel.shape[1]], 1.01, 1.0) if channel.shape[1] == k else channel**1.01
    assert abs(sums_where(broken, sets) / sums_where(channel, sets) - 1).max() > 1e-4


@pytest.mark.parametrize("k", [3, 5, 16])
def test_leaving_out_the_first_row_biases_a_hadamard_response(k):
    mechanism = HadamardResponse(1.0, k=k)
    channel, sets = mechanism.channel()[:, 2:], support_sets(mechanism)[:, 2:]
    support = sums_where(channel / channel.sum(axis=1, keepdims=True), sets)
    np.testing.assert_allclose(np.diag(support), mechanism.support.p, rtol=1e-12)
    assert (support[~np.eye(k, dtype=bool)] < 0.5 - 1e-3).all()


@pytest.mark.parametrize("g", [2, 3, 4, 7, 12, 13, 20, 30])
@pytest.mark.parametrize("prime", [13, 31])
def test_collision_probability_is_the_familys_own(prime, g):
    seeds = [(a, b) for a in range(1, prime) for b in range(prime)]
    for v, w in ((0, 1), (0, prime - 1), (3, 8)):
        alike = sum((a * v + b) % prime % g == (a * w + b) % prime % g for a, b in seeds)
        assert collision(g, prime) == Fraction(alike, len(seeds))
    assert abs(collision(g, prime) - Fraction(1, g)) > Fraction(1, 1000)  # the naive value is wrong


@pytest.mark.parametrize("g", [2, 3, 5])
def test_support_of_hashing_is_the_average_over_all_seeds(g):
    prime, k = 31, 6  # the same formula with a prime small enough for all of its seeds
    answers = KaryResponse(1.0, k=g).channel()
    total = np.zeros((k, k))
    for a, b in itertools.product(range(1, prime), range(prime)):
        hashes = [(a * v + b) % prime % g for v in range(k)]
        total += answers[np.ix_(hashes, hashes)]  # P(report = h(v) | x)
    p, wrong = answers[0, 0], answers[0, 1]

    def q(c):
        return float(c) * p + (1 - float(c)) * wrong

    average = total / (prime * (prime - 1))
    assert_two_values(average, p, q(collision(g, prime)))
    assert abs(average[0, 1] - q(Fraction(1, g))) > 1e-4


@pytest.mark.parametrize("epsilon", EPSILONS + EXTREME)
@pytest.mark.parametrize("k", [2, 3, 1000, 2**24])
def test_support_of_hashing_has_the_exact_collision_probability(k, epsilon):
    mechanism, prime = LocalHashing(epsilon, k=k), 2**31 - 1
    E, g = exact_exp(epsilon), mechanism.g
    classes = [prime // g + (r < prime % g) for r in range(g)] if g < 1000 else None
    c = MP.mpf(collision(g).numerator) / collision(g).denominator
    if classes is not None:
        assert collision(g) == Fraction(sum(m * (m - 1) for m in classes), prime * (prime - 1))
    p, wrong = E / (E + g - 1), 1 / (E + g - 1)
    found = mechanism.support
    assert tuple(found) == tuple(map(nearest, (p, c * p + (1 - c) * wrong, (g - 1) * wrong)))
    assert found.q != nearest(p / g + (1 - MP.mpf(1) / g) * wrong)  # 1/g for c


@pytest.mark.parametrize("epsilon", EPSILONS + EXTREME)
@pytest.mark.parametrize("k", [2, 3, 100, 2**24])
def test_supports_are_the_floats_nearest_to_their_definitions(k, epsilon):
    E = exact_exp(epsilon)
    root, w = MP.sqrt(E), SubsetSelection(epsilon, k=k).w
    p = w * E / (w * E + k - w)
    half = MP.mpf(1) / 2
    for mechanism, (true, other) in (
        (KaryResponse(epsilon, k=k), (E / (E + k - 1), 1 / (E + k - 1))),
        (optimal(epsilon, k), (half, 1 / (E + 1))),
        (symmetric(epsilon, k), (root / (root + 1), 1 / (root + 1))),
        (SubsetSelection(epsilon, k=k), (p, p * (w - 1) / (k - 1) + (1 - p) * w / (k - 1))),
        (HadamardResponse(epsilon, k=k), (E / (E + 1), half)),
    ):
        assert tuple(mechanism.support) == tuple(map(nearest, (true, other, 1 - true)))


# Variances


def published(kind, epsilon, k):
    """The table of the specification: variance of one user's contribution at frequency 0."""
    E = exact_exp(epsilon)
    root = MP.sqrt(E)
    if kind is LocalHashing:
        g = LocalHashing(epsilon, k=k).g
        return (E - 1 + g) ** 2 / ((E - 1) ** 2 * (g - 1))
    return {
        KaryResponse: (k - 2 + E) / (E - 1) ** 2,
        optimal: 4 * E / (E - 1) ** 2,
        symmetric: root / (root - 1) ** 2,
        HadamardResponse: ((E + 1) / (E - 1)) ** 2,
    }[kind]


@pytest.mark.parametrize("epsilon", EPSILONS + EXTREME)
@each([(kind, k) for kind in (KaryResponse, optimal, symmetric, HadamardResponse) for k in (2, 7, 1024, 2**24)])
def test_variance_of_a_rare_category_is_the_published_one(kind, k, epsilon):
    expected = float(published(kind, epsilon, k))
    tolerance = 2.0**-49 / min(epsilon, 1.0)  # p − q of two floats costs about ulp(p)/(p − q) of relative accuracy
    assert kind(epsilon, k=k).variance() == pytest.approx(expected, rel=tolerance, abs=0.0)
    if epsilon <= 20:  # beyond, a Hadamard response's is 1 to within a float
        assert kind(epsilon * 1.001, k=k).variance() != pytest.approx(expected, rel=tolerance, abs=0.0)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("k", [2, 3, 100, 1000])
def test_variance_of_hashing_is_the_published_one_at_collision_1_over_g(k, epsilon):
    mechanism = LocalHashing(epsilon, k=k)
    E, g = exact_exp(epsilon), mechanism.g
    p, wrong = E / (E + g - 1), 1 / (E + g - 1)

    def variance(c):
        q = c * p + (1 - c) * wrong
        return float(q * (1 - q) / (p - q) ** 2)

    at_real_collision = variance(MP.mpf(collision(g).numerator) / collision(g).denominator)
    assert variance(MP.mpf(1) / g) == pytest.approx(float(published(LocalHashing, epsilon, k)), rel=1e-14)
    assert mechanism.variance() == pytest.approx(at_real_collision, rel=1e-12)
    assert mechanism.variance() == pytest.approx(float(published(LocalHashing, epsilon, k)), rel=1e-5)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("k", [2, 3, 7, 100, 4096])
def test_subset_selection_has_the_risk_that_ye_and_barg_published(k, epsilon):
    # n·E‖f̂ − f‖² at the uniform law: (k−1)²(w·e^ε + k − w)²/(k·w(k−w)(e^ε − 1)²); Ye & Barg (2018)
    mechanism = SubsetSelection(epsilon, k=k)
    E, w = exact_exp(epsilon), mechanism.w
    risk = MP.mpf((k - 1) ** 2) * (w * E + k - w) ** 2 / (k * w * (k - w) * (E - 1) ** 2)
    assert k * mechanism.variance(1 / k, target="population") == pytest.approx(float(risk), rel=2e-13)
    assert k * mechanism.variance(1 / k, target="sample") < float(risk) * (1 - 1e-12) or epsilon < 0.1


@pytest.mark.parametrize("f", [0.0, 0.03, 0.5, 1.0])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 50.0])
@each(ORACLES + HASHED)
def test_variance_at_any_frequency_is_that_of_what_a_user_adds(kind, k, epsilon, f):
    mechanism = kind(epsilon, k=k)
    p, q, _ = (MP.mpf(value) for value in mechanism.support)
    supported = f * p + (1 - f) * q
    # the population's: one Bernoulli variable; the sample's: what is left of it when the record is known
    total = supported * (1 - supported) / (p - q) ** 2
    tolerance = 1e-12 if epsilon < 50 else 1e-2  # at ε = 50 these very floats say p = 1
    assert mechanism.variance(f, target="population") == pytest.approx(float(total), rel=tolerance, abs=1e-12)
    assert mechanism.variance(f, target="sample") == pytest.approx(float(total) - f * (1 - f), rel=tolerance, abs=1e-12)


@pytest.mark.parametrize("epsilon", [50.0, 200.0, 700.0])
@pytest.mark.parametrize("k", [2, 1000, 2**24])
def test_variance_of_a_sure_category_keeps_its_accuracy_where_p_is_1(k, epsilon):
    E = exact_exp(epsilon)
    exact = E * (k - 1) / (E - 1) ** 2  # p(1 − p)/(p − q)²
    mechanism = KaryResponse(epsilon, k=k)
    assert mechanism.variance(1.0) == pytest.approx(float(exact), rel=1e-14, abs=0.0)
    p, q, _ = mechanism.support
    naive = support_variance(1.0, Support(p, q, 1 - p), "sample")
    assert naive != pytest.approx(float(exact), rel=1e-4, abs=0.0)


# Sizes


def subset_variance(epsilon, k, w):
    E = exact_exp(epsilon)
    p = w * E / (w * E + k - w)
    q = (w - p) / (k - 1)
    return q * (1 - q) / (p - q) ** 2


def hashing_variance(epsilon, g):
    E, c = exact_exp(epsilon), MP.mpf(collision(g).numerator) / collision(g).denominator
    p, wrong = E / (E + g - 1), 1 / (E + g - 1)
    q = c * p + (1 - c) * wrong
    return q * (1 - q) / (p - q) ** 2


# ln 2, ln 3, ln 9: e^ε is an integer to within float64's accuracy, the candidates are not what math.exp says
NEAR_INTEGERS = [math.log(2), math.log(3), math.log(9), math.log(1024)]


@pytest.mark.parametrize("epsilon", EPSILONS + NEAR_INTEGERS)
@pytest.mark.parametrize("k", [2, 3, 4, 5, 8, 30, 100])
def test_subsets_have_the_size_of_least_variance(k, epsilon):
    least = min(range(1, k), key=lambda w: subset_variance(epsilon, k, w))
    assert SubsetSelection(epsilon, k=k).w == least
    assert SubsetSelection(epsilon, k=k).variance() == pytest.approx(float(subset_variance(epsilon, k, least)), rel=1e-12)


@pytest.mark.parametrize(("k", "epsilon"), [(2**24, 1.0), (2**24, 2.0**-20), (2**24, 20.0), (12_345_678, 3.0)])
def test_subsets_of_many_categories_have_the_better_one_of_two_sizes(k, epsilon):
    ideal = k / (exact_exp(epsilon) + 1)
    sizes = sorted({min(max(int(w), 1), k - 1) for w in (MP.floor(ideal), MP.ceil(ideal))})
    assert SubsetSelection(epsilon, k=k).w == min(sizes, key=lambda w: subset_variance(epsilon, k, w))


@pytest.mark.parametrize("epsilon", [*EPSILONS, *NEAR_INTEGERS, 10.0, math.log(1_000_023), 15.0, 700.0])
@pytest.mark.parametrize("k", [2, 3, 5, 1000, 2**24])
def test_hashing_has_the_better_one_of_two_sizes(k, epsilon):
    E = exact_exp(epsilon)
    sizes = sorted({min(max(int(g) + 1, 2), max(2, k)) for g in (MP.floor(E), MP.ceil(E))})
    mechanism = LocalHashing(epsilon, k=k)
    assert mechanism.g == min(sizes, key=lambda g: hashing_variance(epsilon, g))
    assert 2 <= mechanism.g <= max(2, k)


@pytest.mark.parametrize(("k", "rows"), [(2, 2), (3, 4), (4, 4), (5, 8), (1000, 1024), (1024, 1024), (1025, 2048), (2**24, 2**24)])
def test_hadamard_has_the_least_power_of_two(k, rows):
    assert HadamardResponse(1.0, k=k).rows == rows


# Estimates of counts as they are expected


def expected_counts(mechanism, f, n):
    """Counts of n reports, as near to their expectation as integers are."""
    if isinstance(mechanism, HadamardResponse):
        signs = np.array([[(-1) ** (row & v).bit_count() for v in range(mechanism.k)] for row in range(mechanism.rows)])
        return np.rint(n / mechanism.rows * (2 * mechanism.support.p - 1) * (signs @ f)).astype(np.int64)
    p, q, _ = mechanism.support
    return np.rint(n * (q + f * (p - q))).astype(np.int64)


@pytest.mark.parametrize("target", ["population", "sample"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 20.0])
@each([(kind, 6) for kind in (KaryResponse, optimal, symmetric, SubsetSelection, LocalHashing, HadamardResponse)])
def test_expected_counts_give_back_the_frequencies(kind, k, epsilon, target):
    mechanism, n = kind(epsilon, k=k), 10**12
    f = np.array([0.5, 0.3, 0.15, 0.05, 0.0, 0.0])
    estimate = mechanism.estimate(Aggregate(mechanism, n, expected_counts(mechanism, f, n)), target=target)
    interval = estimate.interval(0.9)
    np.testing.assert_allclose(estimate.value, f, atol=1e-9)
    np.testing.assert_allclose(estimate.stderr, [math.sqrt(mechanism.variance(x, target) / n) for x in f], rtol=1e-5)
    half = 1.6448536269514722 * estimate.stderr
    common = (f > 0) | (n * mechanism.support.q > 1e6)  # elsewhere intervals are not those of the normal law
    near = np.stack([estimate.value - half, estimate.value + half], axis=1)
    if target == "sample":
        near = np.clip(near, 0.0, 1.0)  # no other frequencies are possible
    np.testing.assert_allclose(interval[common], near[common], atol=2e-2 * half[common].max())
    assert (interval[:, 0] <= estimate.value).all()
    assert (estimate.value <= interval[:, 1]).all()
    assert (estimate.n, interval.shape) == (n, (k, 2))


def test_counts_of_another_mechanism_are_refused():
    counted = Aggregate(KaryResponse(1.0, k=4), 100, np.full(4, 25))
    for other in (KaryResponse(1.5, k=4), KaryResponse(1.0, k=5), optimal(1.0, 4), SubsetSelection(1.0, k=4), LocalHashing(1.0, k=4)):
        with pytest.raises(errors.ParameterError, match="different mechanisms"):
            other.estimate(counted)
    with pytest.raises(errors.ParameterError, match="different mechanisms"):
        symmetric(1.0, 4).estimate(Aggregate(optimal(1.0, 4), 100, np.full(4, 25)))
