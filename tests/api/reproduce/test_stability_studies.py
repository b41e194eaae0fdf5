"""What the sections about Stemmer (lecture 6), Claims 3 and 4 and Theorems 9 to 11, are made of; each check refuses a broken twin."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpcore.inference import AdaptiveQueries
from dpcore.reproduce import Setting
from dpcore.reproduce.studies import generalization, privacy_loss
from dpcore.reproduce.studies.generalization import BETA, lecture_records, proved_records, split
from dpcore.reproduce.studies.privacy_loss import mean_loss, profile, tail


@pytest.mark.parametrize(("k", "total"), [(1, 0.5), (3, 1.0), (5, 0.3), (6, 2.5)])
def test_losses_of_several_responses_are_those_of_all_sequences(k, total):
    """Exact rationals over all 2^k sequences of reports, e^ε = 3."""
    right, level = Fraction(3, 4), math.log(3.0)
    above, excess = Fraction(0), Fraction(0)
    for reports in itertools.product((0, 1), repeat=k):
        p = math.prod((right if report else 1 - right) for report in reports)
        q = math.prod((1 - right if report else right) for report in reports)
        above += p if (2 * sum(reports) - k) * level > total else 0
        excess += max(Fraction(0), p - Fraction(math.exp(total)) * q)
    pair = privacy_loss._uses(level, k)
    assert tail(*pair, total) == pytest.approx(float(above), rel=1e-12)
    assert profile(*pair, total) == pytest.approx(float(excess), rel=1e-12)
    assert mean_loss(*pair) == pytest.approx(k * level * math.tanh(level / 2), rel=1e-12)


def test_an_infinite_loss_counts_and_an_impossible_output_does_not():
    p, q = np.array([0.25, 0.75, 0.0]), np.array([0.0, 0.75, 0.25])
    assert tail(p, q, 5.0) == profile(p, q, 5.0) == 0.25
    assert mean_loss(p, q) == math.inf


def test_a_mean_loss_beyond_the_exact_one_would_be_found(monkeypatch):
    excess, pairs = privacy_loss._largest_mean_loss(Setting(1, quick=True))
    assert excess < 0 < pairs
    monkeypatch.setattr(privacy_loss, "mean_loss", lambda p, q: float(np.abs(np.log(p / q)).max()))  # ε in place of the mean
    assert privacy_loss._largest_mean_loss(Setting(1, quick=True))[0] > 1e-3


@pytest.mark.parametrize(("alpha", "k"), [(0.25, 4), (0.1, 100), (0.4, 1)])
def test_records_are_the_least_that_the_theorem_needs(alpha, k):
    epsilon, delta = split(alpha, k)
    n = lecture_records(alpha, k)

    def promised(records):
        # a view of one zero: n records without memory
        queries = AdaptiveQueries(np.broadcast_to(0.0, records), epsilon, delta, uses=k)
        return queries.statistical_accuracy(BETA / 2)

    accuracy, failure = promised(n)
    assert accuracy <= alpha * (1 + 1e-9)
    assert failure <= BETA * (1 + 1e-9)
    if math.log(1 / delta) / epsilon**2 > 0.999 * n:
        with pytest.raises(ValueError, match="constant·ln"):
            promised(round(0.999 * n))
    else:
        assert promised(round(0.999 * n))[0] > alpha


@pytest.mark.parametrize(("alpha", "k"), [(0.25, 4), (0.1, 100)])
def test_proved_records_are_those_of_the_public_function(alpha, k):
    n, epsilon, delta = proved_records(alpha, k)
    accuracy, failure = AdaptiveQueries(np.broadcast_to(0.0, n), epsilon, delta, uses=k).statistical_accuracy(BETA / 2, method="proved")
    assert accuracy <= alpha * (1 + 1e-9)
    assert failure == BETA
    fewer = AdaptiveQueries(np.broadcast_to(0.0, round(0.99 * n)), epsilon, delta, uses=k)
    assert fewer.statistical_accuracy(BETA / 2, method="proved")[0] > alpha
    assert n < lecture_records(alpha, k)


def test_k_ary_response_attains_the_mean_error():
    for ratio in (2, 3, 5):
        assert generalization._named_exactly(ratio) == pytest.approx(math.tanh(math.log(ratio) / 2), rel=1e-14)
        assert generalization._values(2 * math.log(ratio)) == ratio + 1
    assert 8 * generalization._named_exactly(2) != pytest.approx(math.tanh(math.log(2)), rel=1e-3)
