"""The KS sampler's tables, envelope and law, against enumeration: exact wherever integers or intervals are, and private."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp

from dpcore._exact.intervals import exactly
from dpcore._exact.sampling import Uniform
from dpcore.distributions import _bands, _ks_levels
from dpcore.distributions._bands import Sums
from dpcore.distributions._ks_levels import Levels, draw_counts, make_envelope
from dpcore.testing import KeyedRandom
from support.kernels import KEY, LEVELS, at_level
from support.ks import distance, law, loss, neighbours, score, vectors, ways

SMALL = [(data, k) for n, m, k in itertools.product((1, 2, 3, 4), repeat=3) for data in vectors(n, m)]
"""Every data set with n, m ≤ 4, and every k ≤ 4."""
ODD = [((7, 0, 0, 0, 5), 5), ((0, 9, 0), 13), ((1, 1, 1), 2), ((3, 8, 2, 0, 1), 4), ((100, 3), 6), ((2**40, 2**41, 5), 4)]
EPSILONS = (0.1, 1.0, 6.0)


def number(interval) -> float:
    return float(exactly(interval.low))


def exact_law(data, epsilon, k):
    """What the sampler's integer tables make: P(c) = Σ_t P(t)·Π_i P(C_{i-1} | C_i, band t)."""
    levels, total = Levels(np.array(data), k), 0.0
    at, found = levels.at.tolist(), dict.fromkeys(vectors(k, len(data)), 0.0)
    for i, t in enumerate(at):
        later = math.exp(-epsilon * (at[i + 1] - at[0]) / 2) if i + 1 < len(at) else 0.0
        band = levels.band(i)
        mass = (math.exp(-epsilon * (t - at[0]) / 2) - later) * band._integers[-1][0]
        total += mass
        for drawn in found:
            found[drawn] += mass * float(path_probability(band, drawn))
    return {drawn: p / total for drawn, p in found.items()}


def path_probability(band, drawn):
    sums, p = list(itertools.accumulate(drawn)), Fraction(1)
    for row in range(len(drawn) - 2, -1, -1):
        first = int(band._table.lower[row])
        choices = _bands._ways(sums[row + 1], first, band._integers[row])
        if not 0 <= sums[row] - first < len(choices):
            return Fraction(0)
        p *= Fraction(choices[sums[row] - first], sum(choices))
    return p if band._table.lower[0] <= sums[0] <= band._table.upper[0] else Fraction(0)


@pytest.mark.long
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_law_of_the_tables_is_the_law_by_enumeration(epsilon):
    for data, k in SMALL[::3] + ODD[:4]:
        made, wanted = exact_law(data, epsilon, k), law(data, epsilon, k)
        assert max(abs(made[c] - p) / p for c, p in wanted.items()) < 1e-12


@pytest.mark.long
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_privacy_by_enumeration_of_all_neighbours(epsilon):
    """n, m, k ≤ 4: at most ε, and more if e^(−εs) is used where e^(−εs/2) belongs."""
    largest = largest_of_twin = 0.0
    for n, m, k in itertools.product((1, 2, 3, 4), (2, 3, 4), (1, 2, 3, 4)):
        laws = {data: law(data, epsilon, k) for data in vectors(n, m)}
        twins = {data: law(data, 2 * epsilon, k) for data in laws} if m < 4 else {}
        pairs = [(data, other) for data in laws for other in neighbours(data)]
        largest = max(largest, *(loss(laws[data], laws[other]) for data, other in pairs))
        if twins:
            largest_of_twin = max(largest_of_twin, *(loss(twins[data], twins[other]) for data, other in pairs))
    assert largest <= epsilon + 1e-12
    assert largest > 0.6 * epsilon
    assert largest_of_twin > epsilon * 1.2


@pytest.mark.long
def test_score_moves_by_one_at_most():
    for data, k in SMALL:
        for drawn in vectors(k, len(data)):
            assert all(abs(score(data, drawn) - score(other, drawn)) <= 1 for other in neighbours(data))


@pytest.mark.parametrize(("data", "k"), ODD, ids=str)
def test_bands_hold_what_scores_at_most_their_level(data, k):
    levels = Levels(np.array(data), k)
    scores = {drawn: score(data, drawn) for drawn in vectors(k, len(data))}
    assert levels.at[0] == min(scores.values())
    assert set(scores.values()) <= set(levels.at.tolist())
    for t in {*levels.at.tolist(), *(levels.at[1:] - 1).tolist(), int(levels.at[-1]) + 3}:
        inside = sum(ways(drawn) for drawn, s in scores.items() if s <= t)
        band = levels.sums.band(t)
        mantissa, exponent = band.weight
        assert band._integers[-1][0] == inside
        assert abs(Fraction(mantissa) * Fraction(2) ** exponent * math.factorial(k) / inside - 1) <= band.error
        upper, shift = band.ceiling
        assert 0 <= upper * Fraction(2) ** shift * math.factorial(k) - inside <= inside * (4 * band.error + 2.0**-50)
        assert levels.sums.band(int(levels.at[levels.number(np.array([t]))[0]])).weight == band.weight


@pytest.mark.parametrize(("data", "k"), [*ODD, (tuple(range(1, 13)), 9)], ids=str)
def test_steps_of_paths_have_their_probabilities(data, k):
    band = Levels(np.array(data), k).band(0)
    for row in range(len(data) - 1):
        first = int(band._table.lower[row])
        for c in range(int(band._table.lower[row + 1]), int(band._table.upper[row + 1]) + 1):
            choices = _bands._ways(c, first, band._integers[row])
            if sum(choices):
                made, error = band._thresholds(row, c)
                exact = [Fraction(part, sum(choices)) for part in itertools.accumulate(choices)][:-1]
                assert all(abs(Fraction(p) - q) <= error for p, q in zip(made.tolist(), exact, strict=True))


@pytest.mark.parametrize("epsilon", [1e-300, 1e-4, 0.2, 3.0, 1e5])
@pytest.mark.parametrize(("data", "k"), ODD, ids=str)
def test_what_is_proposed_and_accepted_has_the_weights_of_the_law(data, k, epsilon):
    """P(segment)·P(t | segment)·N(t)/ceiling ∝ N(t)·ω_t, from the intervals that decide; every N is below its ceiling."""
    levels = Levels(np.array(data), k)
    envelope = make_envelope(levels, epsilon)
    shares = [0.0, *(number(p) for p in envelope.shares(200)), 1.0]
    ratios = []
    for j, start in enumerate(envelope.starts):
        upper, shift = envelope.ceilings[j]
        share = shares[j + 1] - shares[j]
        for t in range(start, start + min(envelope.length(j) or 3, 40)):
            weight, e = levels.band(int(levels.number(np.array([t]))[0])).weight
            assert weight * 2.0 ** (e - shift) <= upper
            if share > 1e-6:
                within = [0.0 if g == 0 else number(envelope.share_within(j, g, 200)) for g in (t - start, t - start + 1)]
                expected = math.exp(-epsilon * (t - envelope.starts[0]) / 2) * upper * 2.0 ** (shift + 60)
                ratios.append((within[1] - within[0]) * share / expected if within[1] - within[0] > 1e-6 else None)
    known = [r for r in ratios if r is not None]
    assert epsilon == 1e-300 or known
    assert not known or max(known) / min(known) < 1 + 1e-6
    twin = [r * 1.1**i for i, r in enumerate(known)]  # a rate that is wrong by a tenth a level
    assert len(known) < 2 or max(twin) / min(twin) > 1 + 1e-6


@pytest.mark.long
@pytest.mark.parametrize(("data", "k"), [((3, 0, 2), 4), ((1, 2, 0, 5, 1), 5), ((40, 0, 25, 35), 12), (tuple([5] * 20), 30)], ids=str)
def test_integers_decide_as_floats_do(data, k, monkeypatch):
    """With the proved errors blown up, every choice is made by integers and intervals: the same answers under the same key."""
    fast = draw_counts(np.array(data), 0.7, k, KeyedRandom(KEY), 300)
    monkeypatch.setattr(_bands, "MARGIN", 1e30)
    monkeypatch.setattr(_ks_levels, "FIRST_PRECISION", 5)
    decided = []
    for name in ("_step_exactly", "_accepts_exactly"):
        original = getattr(_bands.Band, name)
        monkeypatch.setattr(_bands.Band, name, lambda *args, original=original, name=name: (decided.append(name), original(*args))[1])
    for name in ("_segment_exactly", "_steps_exactly"):
        original = getattr(_ks_levels.Envelope, name)
        monkeypatch.setattr(
            _ks_levels.Envelope, name, lambda *args, original=original, name=name: (decided.append(name), original(*args))[1]
        )
    assert np.array_equal(draw_counts(np.array(data), 0.7, k, KeyedRandom(KEY), 300), fast)
    assert {"_step_exactly", "_accepts_exactly", "_segment_exactly"} <= set(decided)


class Words:
    """Uniform numbers that are their first 64 bits and nothing more."""

    def __init__(self, words):
        self._words = np.array(words, np.uint64)

    def words(self, n):
        return self._words[:n]

    def __getitem__(self, index):
        return Uniform(int(self._words[index]), 64, lambda chunk: [0] * 8)


def near(threshold: Fraction) -> list[int]:
    """Words on both sides of a threshold, from the nearest on to where float64 decides."""
    word = math.floor(threshold * 2**64)
    steps = [0, *(sign * 2**e for e in range(20) for sign in (-1, 1))]
    return [word + step for step in steps if 0 <= word + step < 2**64]


def steps_near_thresholds(band) -> tuple[list[int], list[int]]:
    """Steps as drawn and as they are, for uniform numbers near every threshold of a band."""
    drawn, true = [], []
    for row in range(band.m - 1):
        first = int(band._table.lower[row])
        for c in range(int(band._table.lower[row + 1]), int(band._table.upper[row + 1]) + 1):
            choices = _bands._ways(c, first, band._integers[row])
            if sum(choices):
                exact = [Fraction(part, sum(choices)) for part in itertools.accumulate(choices)][:-1]
                words = [word for q in exact for word in near(q)]
                drawn += band._step(row, c, np.array(words, np.uint64), Words(words), np.arange(len(words))).tolist()
                true += [first + sum(q <= Fraction(word, 2**64) for q in exact) for word in words]
    return drawn, true


def test_uniform_numbers_next_to_a_threshold_are_decided_exactly(monkeypatch):
    band = Levels(np.array([2, 7, 0, 3, 1]), 9).band(1)
    drawn, true = steps_near_thresholds(band)
    assert len(true) > 500
    assert drawn == true
    monkeypatch.setattr(_bands, "MARGIN", 0.0)
    assert steps_near_thresholds(band)[0] != true


def acceptances_near_ratios(data, k) -> tuple[list[bool], list[bool]]:
    """Acceptances as decided and as they are, for uniform numbers near N(t)/ceiling at every level under the same ceiling."""
    decided, true = [], []
    levels = Levels(np.array(data), k)
    top = levels.band(len(levels) - 1).ceiling
    for level in range(len(levels) - 1):
        band = levels.band(level)
        ratio = Fraction(band._integers[-1][0]) / (math.factorial(k) * Fraction(2) ** top[1] * top[0])
        words = near(ratio)
        decided += band.accepts(Words(words), 0, len(words), top).tolist()
        true += [Fraction(word, 2**64) < ratio for word in words]
    return decided, true


def test_acceptance_next_to_its_ratio_is_decided_exactly(monkeypatch):
    decided, true = acceptances_near_ratios((2, 7, 0, 3, 1, 20), 15)
    assert len(true) > 500
    assert decided == true
    monkeypatch.setattr(_bands, "MARGIN", 0.0)
    assert acceptances_near_ratios((2, 7, 0, 3, 1, 20), 15)[0] != true


def test_shares_next_to_a_word_are_decided_exactly():
    """The three words at every share of a segment and of a step inside it, against 40 digits of the exponentials."""
    levels = Levels(np.array([20, 7, 0, 33, 11]), 12)
    envelope = make_envelope(levels, 0.3)
    with mp.workdps(40):
        rate = mp.mpf(0.3) / 2
        starts = [*envelope.starts, mp.inf]
        weights = [
            u * mp.mpf(2) ** e * (mp.exp(-rate * a) - mp.exp(-rate * b))
            for a, b, (u, e) in zip(starts, starts[1:], envelope.ceilings, strict=False)
        ]
        shares = [part / mp.fsum(weights) for part in itertools.accumulate(weights)][:-1]
        words = [int(mp.floor(share * 2**64)) + step for share in shares for step in (-1, 0, 1)]
        true = [sum(share * 2**64 <= word for share in shares) for word in words]
        assert envelope.segments(Words(words), 0, len(words)).tolist() == true
        j = max(range(len(weights) - 1), key=envelope.length)
        length = envelope.length(j)
        inner = [(1 - mp.exp(-rate * g)) / (1 - mp.exp(-rate * length)) for g in range(1, length)]
        words = [int(mp.floor(share * 2**64)) + step for share in inner for step in (-1, 0, 1)]
        true = [envelope.starts[j] + sum(share * 2**64 <= word for share in inner) for word in words]
        assert length > 3
        assert envelope.scores(np.full(len(words), j), Words(words), 0).tolist() == true


@pytest.mark.parametrize("level", LEVELS)
def test_a_key_gives_the_same_counts_at_every_level_of_the_processor(level):
    data = np.bincount(np.arange(3000) ** 2 // 90_000, minlength=100)
    wanted = draw_counts(data, 0.2, 60, KeyedRandom(KEY), 4)
    with at_level(level):
        assert np.array_equal(draw_counts(data, 0.2, 60, KeyedRandom(KEY), 4), wanted)


def test_counts_beyond_64_bits_give_the_same_bands():
    data = np.array([2**46, 3, 2**45, 2**44 + 1])
    for k in (2, 9):
        narrow = Sums.of(data, k)
        wide = Sums(narrow.partial.astype(object), k)
        assert narrow.partial.dtype == np.int64
        assert np.array_equal(narrow.levels(), wide.levels())
        for t in (int(narrow.levels()[0]), 2**44, int(narrow.levels()[-1])):
            assert np.array_equal(narrow.band(t)._table.mantissas, wide.band(t)._table.mantissas)
    huge = Sums.of(np.array([2**49, 2**49]), 2**12)
    assert huge.partial.dtype == object
    assert huge.levels()[0] == 0
    assert score((2**49, 2**49), (2**11, 2**11)) == 0


def test_rounding_up_matters():
    """The score of Wasserman & Zhou (2010) is a real number; that of the sampler is whole records, less than one above it."""
    assert distance((2, 1), (1, 1)) == Fraction(1, 2)
    assert score((2, 1), (1, 1)) == 1


@pytest.mark.parametrize(("m", "k"), [(1, 1), (1, 9), (2, 1), (2, 64), (3, 40), (5, 7), (1000, 200), (7, 3000)])
def test_all_sequences_have_their_weight_without_a_table(m, k):
    log2, (upper, exponent) = Sums.of(np.ones(m, np.int64), k).all_sequences()
    exact = Fraction(m**k, math.factorial(k))
    assert exact <= Fraction(2) ** exponent * upper <= exact * (1 + Fraction(1, 2**49))
    assert abs(log2 - (math.log2(upper) + exponent)) < 1e-9


def test_no_table_is_filled_for_rare_levels():
    """Levels above the first rare one have less than 2^-16 of all; the widest of all tables is never needed."""
    counts, epsilon, k = np.array([900, 50, 30, 20]), 1.0, 60
    levels = Levels(counts, k)
    filled = []
    levels.band = lambda level, original=levels.band: (filled.append(level), original(level))[1]
    envelope = make_envelope(levels, epsilon)
    assert max(filled) < len(levels) // 2
    shares = [share.upper() for share in envelope.shares(200)]
    assert 1 - shares[-1] < 2**-15


@pytest.mark.parametrize("size", [1, 2, 5])
def test_acceptance_has_uniform_numbers_of_its_own(size):
    """One draw, as of a release, is accepted by its third number: neither the segment's nor the score's decides it again."""

    class Stated:
        def __init__(self, words):
            self._words = np.array(words, np.uint64)

        def __getitem__(self, index):
            return Uniform(int(self._words[index]), 64, lambda chunk: [0] * 8)

        def words(self, n):
            return self._words[:n]

    levels = Levels(np.array([10, 20, 30, 0, 7]), 5)
    envelope = make_envelope(levels, 0.08)
    rejected = 0
    for segment in range(0, 2**64, 2**60):
        for word in (0, 2**63, 2**64 - 1):
            made = [segment] * size + [word] * size
            accepted, _ = _ks_levels._round(levels, envelope, Stated([*made, *[0] * size]), size)
            assert accepted.all()
            rejected += size - int(_ks_levels._round(levels, envelope, Stated([*made, *[2**64 - 1] * size]), size)[0].sum())
    assert rejected > 16 * size
