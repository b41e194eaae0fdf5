"""Every output of every pair of neighbours of small cases: partition selection is (ε, δ)-private. Broken twins are not.

A decision is independent of the others, so the law of the outputs of a table is a product; Σ max(0, P − e^ε·P') over all of them is the
least δ for ε.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import mpmath
import pytest

from dpcore import selection
from dpcore._exact import intervals
from dpcore._exact.partitions import ReleaseProbabilities
from dpcore.selection._partition_rules import GaussianThreshold, partition_rule

DIGITS = 60
SLACK = mpmath.mpf(10) ** -50
CASES = [(1.0, 1e-5), (0.2, 1e-3), (3.0, 0.1), (0.5, 0.6), (2.0, 1e-30)]


def exact(epsilon: Fraction, delta: Fraction, most: int) -> list[mpmath.mpf]:
    """π(0) … π(most)."""
    law = ReleaseProbabilities(epsilon, delta)
    values = (intervals.exactly(law.enclosure(n, 300).low) for n in range(most + 1))
    return [mpmath.mpf(value.numerator) / value.denominator for value in values]


def loss(one: list[mpmath.mpf], other: list[mpmath.mpf], epsilon: float) -> mpmath.mpf:
    """The least δ of two tables, whose partitions are released with these probabilities."""
    total = mpmath.mpf(0)
    for outcome in itertools.product((False, True), repeat=len(one)):
        p, q = (mpmath.fprod(x if kept else 1 - x for x, kept in zip(law, outcome, strict=True)) for law in (one, other))
        total += max(mpmath.mpf(0), p - mpmath.exp(epsilon) * q)
    return total


def worst(pi: list[mpmath.mpf], epsilon: float, change: tuple[int, ...], choices: Sequence[int] | None = None) -> mpmath.mpf:
    """The largest loss over neighbours: counts n of these choices, which `change` moves each by −1 or 1."""
    found = mpmath.mpf(0)
    for counts in itertools.product(choices or range(len(pi)), repeat=len(change)):
        moved = [n + d for n, d in zip(counts, change, strict=True)]
        if min(moved) >= 0 and max(moved) < len(pi):
            before, after = [pi[n] for n in counts], [pi[n] for n in moved]
            found = max(found, loss(before, after, epsilon), loss(after, before, epsilon))
    return found


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_one_partition_a_unit(epsilon, delta):
    with mpmath.workdps(DIGITS):
        certain = ReleaseProbabilities(Fraction(epsilon), Fraction(delta)).certain
        pi = exact(Fraction(epsilon), Fraction(delta), certain + 2)
        assert worst(pi, epsilon, (-1,)) <= delta + SLACK
        # A threshold that is one lower: counts of 1 are released as those of 2, and those of none as before.
        assert worst([pi[0], *pi[2:]], epsilon, (-1,)) > delta * (1 + SLACK)
        # No probability may be larger: each one is the largest for the one before.
        for n in range(1, certain):
            raised = pi[n] * (1 + mpmath.mpf(10) ** -20)
            assert max(loss([raised], [pi[n - 1]], epsilon), loss([pi[n - 1]], [raised], epsilon)) > delta * (1 + SLACK)


def ends(certain: int, count: int) -> list[int]:
    """The smallest counts, and those before the first that is certain: where a unit shows most."""
    return sorted({*range(min(count, certain)), *range(max(0, certain - count), certain + 1)})


@pytest.mark.some(2)
@pytest.mark.parametrize(("epsilon", "delta"), CASES)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("g", [1, 2])
def test_several_partitions_a_unit(epsilon, delta, relation, g):
    """All changes of a unit: it leaves or enters up to g partitions, and under replace leaves g and enters g others."""
    change = (-1,) * g + ((1,) * g if relation == "replace" else ())
    touched = len(change)
    with mpmath.workdps(DIGITS):
        certain = ReleaseProbabilities(Fraction(epsilon) / touched, Fraction(delta) / touched).certain
        pi = exact(Fraction(epsilon) / touched, Fraction(delta) / touched, certain + 1)
        assert worst(pi, epsilon, change, ends(certain, 2 if touched > 2 else 5)) <= delta + SLACK


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.2, 1e-3)])
def test_what_suits_add_remove_does_not_suit_replace(epsilon, delta):
    """δ for each of the two partitions that a replaced unit changes."""
    with mpmath.workdps(DIGITS):
        certain = ReleaseProbabilities(Fraction(epsilon) / 2, Fraction(delta)).certain
        pi = exact(Fraction(epsilon) / 2, Fraction(delta), certain + 1)
        assert worst(pi, epsilon, (-1, 1), ends(certain, 3)) > delta * 1.5


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.2, 1e-3), (3.0, 1e-2)])
def test_add_remove_twice_is_replace(epsilon, delta):
    """The general way: (ε/2, δ/(1 + e^(ε/2))) for one that goes and one that comes."""
    with mpmath.workdps(DIGITS):
        part = delta / (1 + math.exp(epsilon / 2)) * (1 - 1e-9)
        certain = ReleaseProbabilities(Fraction(epsilon) / 2, Fraction(part)).certain
        pi = exact(Fraction(epsilon) / 2, Fraction(part), certain + 1)
        assert worst(pi, epsilon, (-1, 1), ends(certain, 4)) <= delta + SLACK
        assert worst(pi, epsilon / 2, (-1,)) <= part + SLACK


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.5, 1e-8), (4.0, 1e-3)])
@pytest.mark.parametrize("touched", [1, 2, 5])
def test_thresholds_on_noisy_counts(epsilon, delta, touched):
    """The δ of the noise for what exists on both sides, and of release for what exists on one: any split of the touched partitions."""
    rule = partition_rule(epsilon, delta, touched, "add_remove", "gaussian")
    assert isinstance(rule, GaussianThreshold)
    for on_one_side in range(touched + 1):
        assert sum(parts(rule, epsilon, touched, on_one_side)) <= delta
    one_lower = GaussianThreshold(rule.scale, rule.threshold - 1)
    assert sum(parts(one_lower, epsilon, touched, touched)) > delta / 2 * 1.0001


def parts(rule: GaussianThreshold, epsilon: float, touched: int, on_one_side: int) -> tuple[float, float]:
    """δ of both parts of the proof."""
    changed = math.sqrt(touched - on_one_side)
    with mpmath.workdps(DIGITS):
        far, e = changed / mpmath.mpf(rule.scale), mpmath.mpf(epsilon)
        noise = mpmath.ncdf(far / 2 - e / far) - mpmath.exp(e) * mpmath.ncdf(-far / 2 - e / far) if changed else mpmath.mpf(0)
        return float(noise), float(1 - (1 - mpmath.mpf(rule.probability(1))) ** on_one_side)


def test_the_public_function_uses_these_probabilities():
    for relation, touched in (("add_remove", 3), ("replace", 6)):
        with mpmath.workdps(DIGITS):
            pi = exact(Fraction(0.7) / touched, Fraction(1e-3) / touched, 20)
        found = [
            selection.partition_probability(n, 0.7, 1e-3, max_partitions=3, relation=relation, method="truncated_geometric")
            for n in range(21)
        ]
        assert found == pytest.approx([float(p) for p in pi], rel=1e-15)
