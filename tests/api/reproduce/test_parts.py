"""What the studies are made of: draws, the analyst, means, slopes and shares. Each statistical check has a broken twin."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpcore.reproduce import Setting
from dpcore.reproduce.analyst import Agreement, Vote, accuracy, asked, exact_agreements, noise_data, vote_of
from dpcore.reproduce.draws import fair_bits, normals, signs
from dpcore.reproduce.estimates import Mean, at_most, compared, log_slope, mean_of
from dpcore.testing import KeyedRandom
from support.laws import ERROR_RATE, binomial_p_value

N = 400_000


@pytest.fixture
def stream():
    return KeyedRandom(bytes(range(32)))


def test_bits_are_fair_and_independent(stream):
    bits = fair_bits((2, N), stream)
    for p_value in (binomial_p_value(int(row.sum()), N, 0.5) for row in (*bits, bits[0] ^ bits[1])):
        assert p_value > ERROR_RATE
    assert binomial_p_value(int((bits[0] & bits[1]).sum()), N, 0.5) < ERROR_RATE


@pytest.mark.parametrize("mean", [0.0, 0.25, -0.6, 1e-9])
def test_signs_have_their_mean(stream, mean):
    drawn = signs((N,), mean, stream)
    assert drawn.dtype == np.int8
    assert set(np.unique(drawn)) == {-1, 1}
    up = int((drawn > 0).sum())
    assert binomial_p_value(up, N, (1 + mean) / 2) > ERROR_RATE
    assert binomial_p_value(up, N, (1.02 + mean) / 2) < ERROR_RATE


def test_normals_have_their_law(stream):
    drawn = normals((N,), 0.25, stream)
    assert stats.kstest(drawn - 0.25, "norm").pvalue > ERROR_RATE
    assert stats.kstest(1.02 * drawn - 0.25, "norm").pvalue < ERROR_RATE


# The analyst


@pytest.mark.parametrize("k", [1, 2, 127, 128, 129, 300])
def test_a_vote_is_the_majority(stream, k):
    records = noise_data(501, 300, stream)
    agrees = fair_bits((k,), stream)
    # a feature votes for its own value if it agrees, else for the opposite
    votes = np.where(agrees, records[:, :k], ~records[:, :k]).astype(int).sum(1)
    expected = (votes > k / 2) == records[:, -1]
    assert np.array_equal(Vote(agrees)(records), expected)
    assert accuracy(Vote(agrees), records) == expected.mean()


def test_exact_agreements_are_the_averages_of_the_queries(stream):
    records = noise_data(200, 9, stream)
    assert records.shape == (200, 10)
    found = exact_agreements(records)
    assert found.tolist() == asked(lambda query: accuracy(query, records), 9).tolist()
    assert found[3] == np.mean(Agreement(3)(records))


def test_exact_answers_overfit_as_far_as_theory_says(stream):
    n, k = 2000, 2000
    records, fresh = (noise_data(n, k, stream) for _ in range(2))
    vote = vote_of(exact_agreements(records))
    assert abs(accuracy(vote, records) - stats.norm.cdf(math.sqrt(2 / math.pi))) < 0.05
    assert binomial_p_value(round(n * accuracy(vote, fresh)), n, 0.5) > ERROR_RATE
    assert binomial_p_value(round(n * accuracy(vote, records)), n, 0.5) < ERROR_RATE


# Means and slopes


def test_mean_and_standard_error():
    replicates = np.array([1.0, 2.0, 4.0, 7.0])
    assert mean_of(replicates) == Mean(3.5, float(stats.sem(replicates)))


def test_a_slope_is_that_of_least_squares():
    x, y = [1.0, 3.0, 10.0, 50.0], [2.0, 0.9, 0.13, 0.02]
    assert log_slope(x, y)[0] == pytest.approx(np.polyfit(np.log(x), np.log(y), 1)[0])


def test_the_standard_error_of_a_slope_is_that_of_repetitions():
    rng, x = np.random.default_rng(1), np.array([1.0, 2.0, 4.0, 8.0])
    relative = np.array([0.01, 0.02, 0.01, 0.03])
    slopes, errors = zip(*(log_slope(x, y, relative * y) for y in x**-2 * (1 + relative * rng.standard_normal((4000, 4)))), strict=True)
    assert np.std(slopes) == pytest.approx(np.mean(errors), rel=0.06)
    assert np.mean(slopes) == pytest.approx(-2.0, abs=1e-3)


def test_slopes_are_compared_on_the_same_points():
    means = [Mean(10.0, 0.1), Mean(1.0, 0.01), Mean(0.1, 0.001)]
    slope = compared("part", "n", [1.0, 10.0, 100.0], means, [5.0, 0.05, 0.0005], [2.0, 0.2, 0.02])
    assert (slope.measured, slope.theory, slope.own) == pytest.approx((-1.0, -2.0, -1.0))
    assert slope.stderr > 0


@pytest.mark.parametrize(("successes", "n", "share"), [(0, 10, 0.0), (1, 20, 0.05), (30, 40, 0.05), (200, 1000, 0.15), (9, 10, 0.05)])
def test_shares_are_judged_by_clopper_and_pearson(successes, n, share):
    expected = stats.binomtest(successes, n, max(share, 1e-300), alternative="greater").pvalue >= 1e-6
    assert at_most(successes, n, share) is bool(expected)


@pytest.mark.long
def test_slopes_of_a_full_run_are_those_of_the_theory():
    from dpcore.reproduce import run

    findings = run(["privacy-cost"], Setting(1))
    slopes = {(study.titles.index(section.title), slope.part, slope.variable): slope
              for study, sections in findings.studies.items() for section in sections for slope in section.slopes}  # fmt: skip
    for (section, part, variable), slope in slopes.items():
        exact = slope.own if slope.own is not None else slope.theory
        # the sparse rates are bounds whose logarithms are not yet large: docs/reproduce.md
        if section < 2 or (part, variable) in {("statistical part", "n"), ("privacy part", "n"), ("privacy part", "ε")}:
            assert abs(slope.measured - exact) < 5 * slope.stderr, (section, part, variable)
    assert abs(slopes[2, "statistical part", "s ln(d/s)"].measured - 1) < 0.2
    assert 1.3 < slopes[2, "privacy part", "s"].measured < 2.2
    assert findings.hold
