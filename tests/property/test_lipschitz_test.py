"""The test by Lipschitz extension: private by enumeration of all neighbours, exact on C(Δ), and wrong as printed."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpcore import DataError, ParameterError, ParameterTypeError, Privacy
from dpcore.inference import lipschitz_uniformity_test
from dpcore.inference._lipschitz import DOCUMENT, States, Step, error_bounds, least_sample_size, steps
from dpcore.inference._signs import check_signs
from dpcore.inference.lipschitz_test import _codes
from dpcore.testing import KeyedRandom
from support.kernels import KEY
from support.laws import laplace_upper

SHRUNK = (0.01, 0.02, 0.05)
"""Constants with which the loop runs, and C(Δ) is neither everything nor nothing."""
STEEP = (0.0001, 0.1, 0.001)
"""Constants with which three comparisons spend nearly four fifths of ε = 8 on eight records of one sign."""
SIZES = [(2, 1), (2, 3), (3, 2), (4, 2), (5, 1), (8, 1), (3, 3)]


def data_sets(n, d):
    """All data sets, in the order of `States`."""
    rows = [[2 * (code >> i & 1) - 1 for i in range(d)] for code in range(2**d)]
    return np.array([tuple(rows[s >> j * d & (2**d - 1)] for j in range(n)) for s in range(2 ** (n * d))])


def distances_of(sets):
    return (sets[:, None] != sets[None]).any(axis=3).sum(axis=2)


def slow_extensions(sets, width):
    """min of T + 4Δ·d_H over C(Δ) for every data set, and who is in C(Δ)."""
    n, d = sets.shape[1:]
    sums = sets.sum(axis=1)
    inner = np.einsum("snd,sd->sn", sets, sums)
    inside = (np.abs(inner) <= width).all(axis=1)
    statistics = (sums**2).sum(axis=1) - n * d
    candidates = statistics[None] + 4 * width * distances_of(sets)
    return np.where(inside, candidates, np.inf).min(axis=1), inside, statistics


def extensions(n, d, width):
    states = States(n, d)
    codes = (np.arange(2 ** (n * d))[:, None] >> np.arange(n) * d) & (2**d - 1)
    return np.array([states.extension(states.distances(c), width) for c in codes])


def laws(n, d, epsilon, alpha, factors, *, share=None):
    """log P of each outcome, "step m rejects" for each m and "accepted", for all data sets: shape (sets, outcomes)."""
    passed, columns = np.zeros(2 ** (n * d)), []
    comparisons = steps(n, d, epsilon, alpha, factors)
    for m, step in enumerate(comparisons):
        scale = step.scale if share is None or m < len(comparisons) - 1 else 4 * step.width / share
        t = (step.limit - extensions(n, d, step.width)) / scale
        columns.append(passed + np.log(laplace_upper(t)))
        passed = passed + np.log(laplace_upper(-t))
    return np.stack([*columns, passed], axis=1)


def loss(logs, sets):
    """Largest log-ratio of any event over all neighbours: that of single outcomes, as they are its mediant."""
    pairs = np.argwhere(distances_of(sets) == 1)
    return float(np.abs(logs[pairs[:, 0]] - logs[pairs[:, 1]]).max())


# The extension


@pytest.mark.some(2)
@pytest.mark.parametrize(("n", "d"), SIZES)
def test_the_extension_has_a_slow_twin_and_is_exact_on_its_set(n, d):
    sets = data_sets(n, d)
    neighbours = distances_of(sets) == 1
    proper = 0
    for width in (0.0, 0.5, 1.0, 2.0, 2.5, 3.0, 4.75, 6.0, float(n * d)):
        found = extensions(n, d, width)
        slow, inside, statistics = slow_extensions(sets, width)
        if not inside.any():
            assert np.all(found == 0)
            continue
        assert np.array_equal(found, slow)
        assert np.array_equal(found[inside], statistics[inside])
        assert np.abs(found[:, None] - found[None])[neighbours].max() <= 4 * width
        proper += 0 < inside.sum() < len(inside)
    assert proper


def test_records_are_coded_as_the_data_sets_are():
    sets = data_sets(3, 3)
    for s in range(0, 512, 37):
        codes = _codes(check_signs(sets[s], None), None)
        assert sum(int(c) << 3 * j for j, c in enumerate(codes)) == s
        assert States(3, 3).distances(codes)[s] == 0


def test_distances_and_statistics_of_larger_data_sets():
    n, d = 5, 4
    states, random = States(n, d), np.random.default_rng(1)
    codes = random.integers(0, 16, n)
    found = states.distances(codes)
    for s in random.integers(0, 2**20, 50).tolist():
        rows = [s >> j * d & 15 for j in range(n)]
        signs = np.array([[2 * (r >> i & 1) - 1 for i in range(d)] for r in rows])
        sums = signs.sum(axis=0)
        assert states.statistics[s] == (sums**2).sum() - n * d
        assert states.reaches[s] == np.abs(signs @ sums).max()
        assert found[s] == sum(r != c for r, c in zip(rows, codes.tolist(), strict=True))


def test_without_the_absolute_value_there_is_no_extension():
    """Line 1 as printed: two neighbours with every ⟨X^(j), X̄⟩ ≤ Δ whose T differ by more than 4Δ, so no T̂ can be T on both."""
    block = np.array([[1 if (j - i) % 16 < 7 else -1 for j in range(16)] for i in range(16)])  # rows and columns sum to −2
    rest, against, mixed = np.tile(block, (6, 1)), np.ones((1, 16), int), np.tile([1, -1], 8)[None]
    mixed[0, 1] = 1
    pair = [np.vstack([rest, mixed]), np.vstack([rest, against])]
    inner = [x @ x.sum(axis=0) for x in pair]
    change = abs(int((pair[0].sum(axis=0) ** 2).sum()) - int((pair[1].sum(axis=0) ** 2).sum()))
    printed, corrected = max(int(v.max()) for v in inner), max(int(np.abs(v).max()) for v in inner)
    assert change > 2 * 4 * printed
    assert change <= 4 * corrected


def compositions(total, parts):
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


@pytest.mark.parametrize(("d", "ns"), [(1, range(9, 29)), (2, range(9, 15))])
def test_the_statistic_is_lipschitz_on_every_set_that_can_be_enumerated(d, ns):
    """More than 8 records: (n, d) with n·d ≤ 28, by multisets; 8 or fewer are covered by a proof. (9, 3) is a long test."""
    assert max(largest_quotient(n, d) for n in ns) <= 1


@pytest.mark.long
def test_the_statistic_is_lipschitz_for_nine_records_of_three_signs():
    assert largest_quotient(9, 3) <= 1


def largest_quotient(n, d):
    """Largest |T(X) − T(X')|/(4Δ·d_H) over pairs, Δ being the least whose C(Δ) holds both."""
    signs = np.array([[2 * (c >> i & 1) - 1 for i in range(d)] for c in range(2**d)])
    counts = np.array(list(compositions(n, 2**d)))
    sums = counts @ signs
    statistics = (sums**2).sum(axis=1) - n * d
    reaches = np.where(counts > 0, np.abs(sums @ signs.T), 0).max(axis=1)
    largest = 0.0
    for count, statistic, reach in zip(counts, statistics, reaches, strict=True):
        allowed = 4 * np.maximum(reaches, reach) * (np.abs(counts - count).sum(axis=1) // 2)
        moves = np.abs(statistics - statistic)
        assert np.all(moves[allowed == 0] == 0)
        largest = max(largest, float((moves / np.maximum(allowed, 1)).max()))
    return largest


def test_the_statistic_is_not_lipschitz_on_every_set():
    """A gap of the document's: X and X' in C(4) differ in two records, and T by 64 > 4·4·2."""
    block = np.array([[1 if (j - i) % 16 < 7 else -1 for j in range(16)] for i in range(16)])
    along, across = np.ones(16, int), np.tile([1, -1], 8)
    pair = [np.vstack([block, across, -across]), np.vstack([block, along, along])]
    sums = [x.sum(axis=0) for x in pair]
    assert [int(np.abs(x @ s).max()) for x, s in zip(pair, sums, strict=True)] == [4, 0]
    statistics = [int((s**2).sum()) - x.size for x, s in zip(pair, sums, strict=True)]
    assert statistics[0] - statistics[1] == 64
    assert (pair[0] != pair[1]).any(axis=1).sum() == 2


# Privacy


@pytest.mark.some(8)
@pytest.mark.parametrize(("n", "d"), SIZES)
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize("factors", [DOCUMENT, SHRUNK, STEEP])
def test_every_outcome_is_private_by_enumeration(n, d, epsilon, factors):
    sets = data_sets(n, d)
    logs = laws(n, d, epsilon, math.sqrt(d) / 2, factors)
    assert np.allclose(np.exp(logs).sum(axis=1), 1)
    assert loss(logs, sets) <= epsilon + 1e-12


def test_the_loop_runs_with_small_constants_and_spends_much_of_the_budget():
    assert len(steps(8, 1, 3.0, 0.5, DOCUMENT)) == 1
    found = steps(8, 1, 3.0, 0.5, SHRUNK)
    assert len(found) == math.ceil(math.log(8)) == 3
    inside = [np.mean(States(8, 1).reaches <= step.width) for step in found]
    assert inside[0] == 1
    assert 0 < inside[-1] < 1
    assert loss(laws(8, 1, 8.0, 0.5, STEEP), data_sets(8, 1)) > 0.75 * 8.0


def test_widths_follow_the_documents_rule_on_their_grid():
    n, d, epsilon = 20, 3, 2.0
    found = steps(n, d, epsilon, 0.5, STEEP)
    share, log_beta = epsilon / 3, math.log(10 * n)
    assert [len(found), found[0].width] == [3, n * d]
    for before, after in itertools.pairwise(found):
        exact = STEEP[1] * (d + math.sqrt(n * d) + before.width / (n * share) + math.sqrt(before.width / share)) * log_beta
        assert exact <= after.width < exact + 2.0**-10
        assert before.limit == pytest.approx(STEEP[2] * n * math.sqrt(d) + 4 * before.width * log_beta / share)
    assert found[-1].limit == n * (n - 1) / 16


def test_the_last_noise_as_printed_exceeds_the_budget():
    """Line 11 with 4Δ/ε in place of 4Δ/ε': the loop's comparisons have spent their shares already."""
    sets = data_sets(8, 1)
    assert loss(laws(8, 1, 8.0, 0.5, STEEP), sets) < 0.8 * 8.0
    assert loss(laws(8, 1, 8.0, 0.5, STEEP, share=8.0), sets) > 1.4 * 8.0


def test_shares_add_up_to_the_budget():
    for n, epsilon in itertools.product([2, 3, 8, 20, 21, 10**6], [0.1, 1.0, 5.0]):
        found = steps(n, 1, epsilon, 0.5, (1e-9, 0.02, 0.05))
        assert len(found) == math.ceil(math.log(n))
        assert sum(Fraction(4 * s.width) / Fraction(s.scale) for s in found) <= Fraction(epsilon)


# The function


def test_the_decision_is_that_of_the_noisy_extension():
    sets = data_sets(4, 2)
    for s in range(0, 256, 31):
        outcome = lipschitz_uniformity_test(sets[s], 1.0, alpha=0.5, constants=SHRUNK, rng=KeyedRandom(KEY))
        again = lipschitz_uniformity_test(sets[s] > 0, 1.0, alpha=0.5, constants=SHRUNK, rng=KeyedRandom(KEY), threads=1)
        assert outcome == again
        assert outcome.privacy == Privacy(1.0)
        assert math.isfinite(outcome.statistic)


def test_frequencies_of_decisions_are_the_exact_ones():
    runs = 3000  # of data in which everyone is +1 everywhere
    logs = laws(2, 2, 4.0, math.sqrt(2), (0.001, 0.05, 0.01))[15]
    p = 1 - math.exp(logs[-1])
    rng, x = KeyedRandom(KEY), data_sets(2, 2)[15]
    hits = sum(lipschitz_uniformity_test(x, 4.0, alpha=math.sqrt(2), constants=(0.001, 0.05, 0.01), rng=rng).reject for _ in range(runs))
    assert abs(hits - runs * p) < 5 * math.sqrt(runs * p * (1 - p))


def test_what_cannot_be_enumerated_is_refused():
    with pytest.raises(ParameterError, match=r"max_states=4194304 must be at least 2\^\(n·d\).* got n·d = 12·2"):
        lipschitz_uniformity_test(np.ones((12, 2)), 1.0, alpha=0.5)
    assert lipschitz_uniformity_test(np.ones((2, 1)), 1.0, alpha=0.5, max_states=4).privacy == Privacy(1.0)
    with pytest.raises(ParameterError, match="max_states=4 must be"):
        lipschitz_uniformity_test(np.ones((3, 1)), 1.0, alpha=0.5, max_states=4)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"epsilon": 0.0}, ParameterError, "epsilon must be in"),
        ({"alpha": 1.5}, ParameterError, "alpha must be in"),
        ({"max_states": 2**29}, ParameterError, "max_states must be in"),
        ({"constants": (1.0, 2.0)}, ParameterTypeError, "three positive numbers"),
        ({"constants": (1.0, 0.0, 2.0)}, ParameterError, r"constants\[1\] must be positive"),
    ],
)
def test_parameters_are_checked(options, error, message):
    arguments = {"epsilon": 1.0, "alpha": 0.5, **options}
    with pytest.raises(error, match=message):
        lipschitz_uniformity_test(np.ones((3, 2)), **arguments)


def test_entries_and_numbers_of_records_are_checked():
    with pytest.raises(DataError, match="row 1, column 0"):
        lipschitz_uniformity_test([[1, 1], [0, 1]], 1.0, alpha=0.5)
    with pytest.raises(ParameterError, match="at least two records"):
        lipschitz_uniformity_test([[1, 1]], 1.0, alpha=0.5)


def test_sample_sizes_follow_from_the_last_comparison():
    n = least_sample_size(4, 1.0, 1.0)
    assert max(error_bounds(n, 4, 1.0, 1.0)) <= 1 / 3 < max(error_bounds(n - 1, 4, 1.0, 1.0))
    assert isinstance(steps(n, 4, 1.0, 1.0, DOCUMENT)[-1], Step)


def test_progress_counts_data_sets():
    seen = []
    plain = lipschitz_uniformity_test(np.ones((9, 2)), 1.0, alpha=0.5, rng=KeyedRandom(KEY))
    reported = lipschitz_uniformity_test(np.ones((9, 2)), 1.0, alpha=0.5, rng=KeyedRandom(KEY), progress=lambda *at: seen.append(at))
    assert plain == reported
    assert seen[-1] == (2**18, 2**18)
    assert len(seen) == 4
