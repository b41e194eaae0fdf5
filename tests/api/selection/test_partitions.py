"""Selection of partitions: its closed forms, its decisions against a slow twin, and what it refuses. docs/exactness-partitions.md."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcore import _backend, noise, selection
from dpcore._exact import intervals
from dpcore._exact.partitions import LARGEST_EPSILON, ReleaseProbabilities
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.selection._partition_rules import GaussianThreshold, TruncatedGeometric, partition_rule
from dpcore.testing import KeyedRandom
from support.kernels import AES_LEVELS, KEY, LEVELS, Array, SecureCipher, at_level

PARAMETERS = [
    (1.0, 1e-8),
    (0.1, 1e-5),
    (0.01, 1e-10),
    (1e-3, 1e-3),
    (2.0, 0.3),
    (1.0, 0.5),
    (0.5, 0.7),
    (3.0, math.nextafter(0.5, 0)),
    (5.0, 1e-300),
    (900.0, 1e-6),
    (5000.0, 0.1),
    (1e-300, 0.01),
]
DIGITS = 500


def ends(interval):
    return [mpmath.mpf(each.numerator) / each.denominator for each in map(intervals.exactly, (interval.low, interval.high))]


def recursion(epsilon: float, delta: float, most: int) -> list[mpmath.mpf]:
    """π(0) … π(most) by its definition, in 500 digits."""
    e, d = mpmath.exp(min(epsilon, LARGEST_EPSILON)), mpmath.mpf(delta)
    found = [mpmath.mpf(0)]
    while len(found) <= most:
        before = found[-1]
        found.append(min(e * before + d, 1 - (1 - before - d) / e, mpmath.mpf(1)))
    return found


@pytest.mark.some(2)
@pytest.mark.parametrize(("epsilon", "delta"), PARAMETERS)
def test_closed_forms_and_brackets_hold_what_the_recursion_gives(epsilon, delta):
    with mpmath.workdps(DIGITS):
        law = ReleaseProbabilities(Fraction(epsilon), Fraction(delta))
        low, high, shift = law.brackets(2**16)
        assert len(low) == len(high) == law.certain + 1
        assert shift == 0
        tiny = mpmath.mpf(10) ** (20 - DIGITS)
        for n, wanted in enumerate(recursion(epsilon, delta, law.certain)):
            least, most = ends(law.enclosure(n, 256))
            assert least * (1 - tiny) <= wanted <= most * (1 + tiny)
            assert most - least <= mpmath.mpf(2) ** -200
            assert low[n] <= wanted * 2**64 <= high[n] + 1
            assert high[n] - low[n] <= 1
            assert (wanted == 1) == (n >= law.certain)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-10), (1e-9, 1e-300), (1e-300, 1e-8), (1e-300, 1e-300), (1e-3, 0.2)])
def test_wide_brackets_hold_the_probabilities_of_all_their_counts(epsilon, delta):
    law = ReleaseProbabilities(Fraction(epsilon), Fraction(delta))
    low, high, shift = law.brackets(64)
    assert len(low) <= 65
    for n in {
        *range(20),
        law.rising - 1,
        law.rising,
        law.rising + 1,
        law.certain - 1,
        law.certain,
        2**62,
        *(b << shift for b in range(65)),
    }:
        if 0 <= n <= 2**62:
            b = min(n >> shift, len(low) - 1)
            value = law.enclosure(n, 1500)
            assert intervals.floor(value.low, 64) >= low[b]
            assert intervals.exactly(value.high) * 2**64 <= high[b] + 1


def published_closed_form(n: int, epsilon: float, delta: float, touched: int) -> float:
    """The probability as Google's differential privacy library has it, and so PyDP and PipelineDP, in floats."""
    epsilon, delta = epsilon / touched, -math.expm1(math.log1p(-delta) / touched)
    first = 1 + math.floor(math.log1p(math.tanh(epsilon / 2) * (1 / delta - 1)) / epsilon)
    rising = math.expm1(min(n, first) * epsilon) / math.expm1(epsilon) * delta
    if n <= first:
        return rising
    further = n - first
    fallen = math.expm1(-further * epsilon) / math.expm1(-epsilon) * math.exp(-epsilon) * delta
    return min(1.0, 1 + math.exp(-further * epsilon) * (rising - 1) + fallen)


@pytest.mark.parametrize("touched", [1, 2, 7])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-8), (0.3, 1e-5), (2.0, 1e-3)])
def test_probabilities_are_those_that_other_libraries_publish(epsilon, delta, touched):
    for n in range(1, 300):
        ours = selection.partition_probability(n, epsilon, delta, max_partitions=touched, method="truncated_geometric")
        # They give each partition 1 − (1 − δ)^(1/m) instead of δ/m.
        assert ours == pytest.approx(published_closed_form(n, epsilon, delta, touched), rel=delta + 1e-9)


# Decisions


def slow_twin(counts: Array, law: ReleaseProbabilities, first: int = 0, *, secure: bool = False) -> list[bool]:
    """U < π(n) with 64 bits of U beside a fraction; a word that does not tell would stop the test."""
    words = _backend.uniform_words((KEY, 0, first, secure), len(counts)).tolist()
    found = []
    for n, word in zip(counts.tolist(), words, strict=True):
        value = law.enclosure(n, 256)
        low, high = intervals.exactly(value.low), intervals.exactly(value.high)
        assert not Fraction(word, 2**64) < high < Fraction(word + 1, 2**64) or n == 0
        found.append(Fraction(word + 1, 2**64) <= low)
    return found


def drawn(counts: Array, first: int = 0, **options) -> Array:
    return selection.select_partitions(counts, 0.3, 1e-3, rng=KeyedRandom(KEY).at(0, first), **options)


COUNTS = np.random.default_rng(1).integers(0, 60, 5000)
LAW = ReleaseProbabilities(Fraction(0.3), Fraction(1e-3))


@pytest.mark.long
@pytest.mark.parametrize("level", LEVELS)
def test_decisions_are_those_of_a_slow_twin(level):
    with at_level(level):
        for first in (0, 1, 127, 1000, 2**40 + 5):
            assert drawn(COUNTS, first).tolist() == slow_twin(COUNTS, LAW, first)


@pytest.mark.parametrize("level", AES_LEVELS[-1:])
def test_so_are_those_of_the_secure_cipher(level):
    with at_level(level):
        found = selection.select_partitions(COUNTS, 0.3, 1e-3, rng=SecureCipher())
    assert found.tolist() == slow_twin(COUNTS, LAW, secure=True)


def test_threads_pieces_and_dtypes_do_not_matter():
    counts = np.random.default_rng(2).integers(0, 60, 300_000)
    whole = drawn(counts, threads=1)
    assert np.array_equal(whole, drawn(counts, threads=3))
    assert np.array_equal(whole[:1000], drawn(counts[:1000]))
    assert np.array_equal(whole[1000:2000], drawn(counts[1000:2000], 1000))
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32"):
        assert np.array_equal(whole, drawn(counts.astype(dtype)))
    assert np.array_equal(whole[::-3], drawn(counts)[::-3])
    assert np.array_equal(drawn(counts[::2]), drawn(counts[::2].copy()))
    assert drawn(counts[:500].tolist()).tolist() == whole[:500].tolist()


def test_the_exact_tier_decides_as_the_brackets_do():
    rule = partition_rule(0.3, 1e-3, 1, "add_remove", "best")
    assert isinstance(rule, TruncatedGeometric)
    top = 2**64 - 1
    nothing = _backend.Brackets(np.zeros(1, np.uint64), np.array([top], np.uint64), 0)
    wide = ReleaseProbabilities(Fraction(0.3), Fraction(1e-3)).brackets(5)
    coarse = _backend.Brackets(np.array(wide[0], np.uint64), np.array(wide[1], np.uint64), wide[2])
    counts = COUNTS[:400]
    for brackets in (nothing, coarse):
        twin = TruncatedGeometric(rule.probabilities, brackets, rule.half)
        assert np.array_equal(twin.release(counts, KeyedRandom(KEY).at(0, 0), 1), drawn(counts))


@pytest.mark.long
def test_extreme_parameters_and_counts():
    rng = KeyedRandom(KEY)
    counts = np.array([0, 1, 2, 10**6, 2**62])
    for epsilon, delta in ((1e-300, 1e-300), (1e-9, 1e-300), (2.0**-1022, 2.0**-1022), (1e308, 1e-300)):
        found = selection.select_partitions(np.repeat(counts, 1000), epsilon, delta, rng=rng).reshape(5, 1000)
        assert not found[:2].any()
        assert found[4].all() == (epsilon > 1e-300)
    assert selection.select_partitions(counts, 1e308, 1e-300, rng=rng).tolist() == [False, False, True, True, True]
    assert selection.select_partitions(np.zeros(0, np.int64), 1.0, 0.5, rng=rng).shape == (0,)
    assert selection.select_partitions([0, 2], 1.0, 0.5, rng=rng).tolist() == [False, True]


# The threshold


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("touched", [2, 9, 10**6])
def test_gaussian_decisions_are_a_threshold_on_noisy_counts(touched, relation):
    rule = partition_rule(0.7, 1e-6, touched, relation, "gaussian")
    assert isinstance(rule, GaussianThreshold)
    counts = np.random.default_rng(3).integers(0, 2 * rule.half, 2000)
    rng = KeyedRandom(KEY).at(0)
    found = selection.select_partitions(counts, 0.7, 1e-6, max_partitions=touched, relation=relation, method="gaussian", rng=rng)
    noisy = noise.gaussian(counts, rule.scale, rng=rng)
    assert np.array_equal(found, (noisy >= rule.threshold) & (counts > 0))
    assert not found[counts == 0].any()
    assert rule.probability(1) <= 1e-6 / (2 * touched * (2 if relation == "replace" else 1))
    assert rule.probability(rule.half) >= 0.5 > rule.probability(rule.half - 1)


@pytest.mark.parametrize("method", ["truncated_geometric", "gaussian"])
def test_a_rule_that_was_sent_decides_as_before(method):
    counts = np.arange(60) % 20
    rule = partition_rule(1.0, 1e-3, 2, "add_remove", method)
    rule.release(counts, None, None)
    sent = pickle.loads(pickle.dumps(rule))
    found = [each.release(counts, KeyedRandom(KEY), None).tolist() for each in (rule, sent)]
    assert found[0] == found[1]
    assert sent.release(np.full(5, 10**6), None, None).all()


@pytest.mark.long
def test_the_best_method_depends_on_the_parameters_alone():
    names = [partition_rule(1.0, 1e-8, g, "add_remove", "best").method for g in (1, 2, 3, 4, 5, 50)]
    assert names == ["truncated_geometric"] * 3 + ["gaussian"] * 3
    assert partition_rule(1.0, 1e-8, 1, "replace", "best").method == "truncated_geometric"
    for g in (2, 3, 4, 50):
        one, two = (partition_rule(1.0, 1e-8, g, "add_remove", name).half for name in ("truncated_geometric", "gaussian"))
        assert partition_rule(1.0, 1e-8, g, "add_remove", "best").half == min(one, two)
    assert partition_rule(1e-300, 1e-300, 2, "add_remove", "best").method == "truncated_geometric"


# What is refused


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"epsilon": 0.0}, "epsilon must be positive"),
        ({"delta": 0.0}, r"delta must be in \(0.0, 1.0\), got 0.0"),
        ({"delta": 1.0}, r"delta must be in \(0.0, 1.0\), got 1.0"),
        ({"max_partitions": 0}, "max_partitions must be in"),
        ({"relation": "neighbour"}, "relation must be one of"),
        ({"method": "laplace"}, "method must be one of"),
        ({"threads": 0}, "threads must be in"),
        ({"counts": [[1]]}, "counts must be one-dimensional"),
    ],
)
def test_parameters_are_checked(changed, words):
    with pytest.raises(ParameterError, match=words):
        selection.select_partitions(**{"counts": [1], "epsilon": 1.0, "delta": 0.1, **changed})


def test_counts_are_integers_from_0_to_2_62():
    for bad in ([1, -1], [2**62 + 1, 3], np.array([-1], np.int8)):
        with pytest.raises(DataError, match=r"counts must be in \[0, 2\*\*62\], but the one at index [01] is not"):
            selection.select_partitions(bad, 1.0, 0.1)
    with pytest.raises(ParameterTypeError, match="counts must hold integers"):
        selection.select_partitions([1.0], 1.0, 0.1)
    with pytest.raises(ParameterError, match="Gaussian noise"):
        selection.partition_probability(1, 1e-300, 1e-300, max_partitions=2, method="gaussian")
    with pytest.raises(ParameterError, match="count must be in"):
        selection.partition_probability(-1, 1.0, 0.1)
