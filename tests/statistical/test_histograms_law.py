"""Released histograms follow their laws: χ² against exact probabilities. Error rate 10^-6; keyed, so runs repeat.

Every check has a broken twin that it must reject.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpcore import Privacy, noise
from dpcore._exact.intervals import exactly
from dpcore._exact.sampling import Uniform
from dpcore.distributions import HistogramRelease, _urn, perturbed_histogram, smoothed_histogram
from dpcore.distributions._boxes import Box
from dpcore.distributions._cells import Cells
from dpcore.distributions._choices import Uniforms
from dpcore.distributions.dirichlet import dirichlet_codes
from dpcore.distributions.smoothed import smoothed_codes
from dpcore.testing import KeyedRandom
from support.histograms import dirichlet_law, smoothed_cells
from support.kernels import Law
from support.laws import ERROR_RATE, binomial_p_value, count, p_value, steps_law

N = 10**6
COUNTS = np.array([0, 7, 1, 0, 30, 2, 60])


def rng(nonce=0):
    return KeyedRandom(bytes([nonce]) + bytes(31))


def uniform_p_value(parts):
    """χ² of numbers that should be uniform on [0, 1)."""
    return p_value(np.bincount((np.asarray(parts) * 64).astype(np.int64), minlength=64), np.full(64, 1 / 64))


@pytest.mark.parametrize("smoothing", [0.05, 1 / 3, 0.9])
def test_draws_of_a_smoothed_histogram(smoothing):
    seen = np.bincount(smoothed_codes(COUNTS, N, smoothing, rng=rng()), minlength=7)

    def fit(smoothing):
        return p_value(seen, np.array(smoothed_cells(tuple(COUNTS.tolist()), smoothing), float))

    assert fit(smoothing) > ERROR_RATE
    assert fit(0.9 * smoothing) < ERROR_RATE


def test_a_whole_release_from_data_to_draws():
    """Draws of the public function, binned anew: cells by their law, places inside a cell uniform."""
    x = np.repeat([-0.9, -0.1, 0.4, 1.7], [5, 10, 0, 85])
    release = smoothed_histogram(x, 2.0 * N, draws=N, bins=5, bounds=(-1, 2), smoothing=0.25, rng=rng())
    cells = smoothed_cells((5, 10, 0, 0, 85), 0.25)
    seen = np.bincount(release.cells.codes(release.draws), minlength=5)
    assert p_value(seen, np.array(cells, float)) > ERROR_RATE
    assert p_value(seen, np.array(smoothed_cells((5, 10, 0, 1, 84), 0.25), float)) < ERROR_RATE
    parts = (release.draws + 1) / 0.6 % 1
    assert uniform_p_value(parts) > ERROR_RATE
    assert uniform_p_value(parts**1.01) < ERROR_RATE


SMALL = (3, 0, 1)
CALLS = 12_000


@pytest.mark.long
def test_draws_of_a_dirichlet_histogram():
    """Sequences of three draws, call by call."""
    source = rng(1)
    seen = Counter(tuple(dirichlet_codes(np.array(SMALL), 3, 0.8, rng=source).tolist()) for _ in range(CALLS))

    def fit(law):
        order = sorted(law, key=law.__getitem__)
        return p_value(np.array([seen[z] for z in order]), np.array([float(law[z]) for z in order]))

    assert fit(dirichlet_law(SMALL, 3, [0.8] * 3)) > ERROR_RATE
    assert fit(dirichlet_law(SMALL, 3, [1.2] * 3)) < ERROR_RATE
    # three independent draws from the posterior's mean: the right law of each draw, but not of all three
    mean = [float(p) for p in dirichlet_law(SMALL, 1, [0.8] * 3).values()]
    assert fit({z: math.prod(mean[j] for j in z) for z in itertools.product(range(3), repeat=3)}) < ERROR_RATE


@pytest.mark.long
@pytest.mark.parametrize("prior", [np.array([4.0, 0.5, 2.5]), 2.5])
def test_shares_of_cells_in_a_long_run_follow_the_dirichlet_law(prior):
    """With k draws the number in a cell is beta-binomial; 3,000 runs against its distribution function."""
    source, k, runs = rng(2), 400, 3000
    seen = np.array([np.bincount(dirichlet_codes(np.array(SMALL), k, prior, rng=source), minlength=3) for _ in range(runs)])
    alpha = np.array(SMALL) + prior
    for cell in range(3):
        law = stats.betabinom(k, alpha[cell], alpha.sum() - alpha[cell])
        assert p_value(np.bincount(seen[:, cell], minlength=k + 1), law.pmf(np.arange(k + 1))) > ERROR_RATE
        broken = stats.betabinom(k, alpha[cell] * 4, (alpha.sum() - alpha[cell]) * 4)
        assert p_value(np.bincount(seen[:, cell], minlength=k + 1), broken.pmf(np.arange(k + 1))) < ERROR_RATE


def slow_parents(mass, k, source):
    uniforms = Uniforms(source)
    return [min(t, math.floor(Fraction(int(word), 2**64) * (mass + t))) for t, word in enumerate(uniforms.words(k))]


@pytest.mark.some(3)
@pytest.mark.parametrize("mass", [Fraction(1, 7), Fraction(3), Fraction(10**6) + Fraction(1, 3), Fraction(2) ** 900, Fraction(1, 2**900)])
def test_parents_are_those_of_rational_arithmetic(mass, monkeypatch):
    fast = _urn.urn_parents(mass, 3000, rng=rng(3))
    assert fast.tolist() == slow_parents(mass, 3000, rng(3))
    monkeypatch.setattr(_urn, "_URN_ERROR", 0.5)  # nothing is decided in float64 any more
    assert np.array_equal(_urn.urn_parents(mass, 3000, rng=rng(3)), fast)


@pytest.mark.some(2)
@pytest.mark.parametrize("mass", [Fraction(1, 7), Fraction(3), Fraction(10**6) + Fraction(1, 3), Fraction(10**12)])
@pytest.mark.parametrize("more", [0, 2**63, 2**64 - 2])
def test_numbers_beside_a_border_are_decided_by_rational_arithmetic(mass, more, monkeypatch):
    """Words one or a few thousand units beside 2^64·j/(A + t), where float64 would often be wrong."""
    random, k = np.random.default_rng(1), 4000
    words = []
    for t in range(k):
        border = math.floor(Fraction(int(random.integers(0, t + 1))) / (mass + t) * 2**64)
        words.append(min(max(border + int(random.choice([-3000, -1, 0, 1, 3000])), 0), 2**64 - 1))

    class Crafted:
        def __init__(self, rng):
            pass

        def words(self, n):
            return np.array(words, np.uint64)

        def __getitem__(self, index):
            return Uniform(words[index], 64, lambda chunk: [more] * 8)

    monkeypatch.setattr(_urn, "Uniforms", Crafted)
    parents = _urn.urn_parents(mass, k)
    rest = Fraction(more, 2**64 - 1)  # 0.more more more …
    assert parents.tolist() == [min(t, math.floor((word + rest) / 2**64 * (mass + t))) for t, word in enumerate(words)]


class Stated:
    """Uniform numbers with these first 64 bits, and zeros after them."""

    def __init__(self, words):
        self._words = np.array(words, np.uint64)

    def __getitem__(self, index):
        return Uniform(int(self._words[index]), 64, lambda chunk: [0] * 8)

    def words(self, n):
        return self._words[:n]


@pytest.mark.parametrize("bound", [3, 2**32 + 1, 3 * 2**50, 2**61 + 12_345, 2**62])
def test_uniform_integers_are_exact_next_to_the_borders(bound, monkeypatch):
    """Words that leave the integer open, as bound·U may be below it or not: zeros after them say that it is not reached."""
    wholes = [1, 2, bound // 2, bound - 1]
    words = [(whole << 64) // bound for whole in wholes]
    monkeypatch.setattr(_urn, "Uniforms", lambda rng: Stated(words))
    assert _urn.uniform_integers(bound, 4).tolist() == [word * bound >> 64 for word in words]
    monkeypatch.setattr(Stated, "__getitem__", lambda self, i: Uniform(int(self._words[i]), 64, lambda chunk: [2**64 - 1] * 8))
    assert _urn.uniform_integers(bound, 4).tolist() == wholes


def test_copies_are_as_frequent_as_they_should_be():
    mass, k = Fraction(1000), 400_000
    parents, t = _urn.urn_parents(mass, k, rng=rng(4)), np.arange(k)
    copies = parents < t
    p = t / (1000 + t)
    deviation = (copies.sum() - p.sum()) / math.sqrt((p * (1 - p)).sum())
    assert 2 * stats.norm.sf(abs(deviation)) > ERROR_RATE
    p = t / (1100 + t)
    assert 2 * stats.norm.sf(abs(copies.sum() - p.sum()) / math.sqrt((p * (1 - p)).sum())) < ERROR_RATE
    late = copies & (t > 1000)
    assert uniform_p_value((parents[late] + 0.5) / t[late]) > ERROR_RATE
    assert uniform_p_value((parents[late] / 2 + 0.5) / t[late]) < ERROR_RATE


def test_chains_of_copies_end_at_their_roots():
    random = np.random.default_rng(1)
    for k in (1, 2, 50, 3000):
        parents = np.array([random.integers(0, t + 1) for t in range(k)])
        base = iter(range(k))
        slow: list[int] = []
        for t, parent in enumerate(parents.tolist()):
            slow.append(next(base) if parent == t else slow[parent])
        assert _urn.urn_codes(parents, np.arange).tolist() == slow
    chain = np.maximum(np.arange(5000) - 1, 0)
    assert (_urn.urn_codes(chain, lambda size: np.full(size, 7)) == 7).all()


@pytest.mark.parametrize("bound", [1, 2, 3, 1000, 2**32 - 1, 2**32, 2**32 + 1, 3 * 2**50, 2**61 + 12_345, 2**62])
def test_uniform_integers_are_those_of_rational_arithmetic(bound):
    words = Uniforms(rng(5)).words(2000).tolist()
    uniforms = Uniforms(rng(5))
    expected = []
    for index, word in enumerate(words):
        low, high = word * bound >> 64, ((word + 1) * bound - 1) >> 64
        if low != high:  # 64 bits are not enough: 512 are
            low = math.floor(exactly(uniforms[index].at(512).low) * bound)
        expected.append(low)
    assert _urn.uniform_integers(bound, 2000, rng=rng(5)).tolist() == expected


@pytest.mark.parametrize("bound", [3, 2**61 + 1, 2**62])
def test_uniform_integers_are_uniform(bound):
    integers = _urn.uniform_integers(bound, 100_000, rng=rng(6))
    assert ((integers >= 0) & (integers < bound)).all()
    if bound == 3:
        assert p_value(np.bincount(integers), np.full(3, 1 / 3)) > ERROR_RATE
        assert p_value(np.bincount(integers), np.array([0.35, 0.33, 0.32])) < ERROR_RATE
    else:
        assert uniform_p_value(integers / bound) > ERROR_RATE
        assert uniform_p_value((integers / bound) ** 1.05) < ERROR_RATE


@pytest.mark.parametrize("kind", ["laplace", "discrete_laplace"])
def test_noise_of_a_perturbed_histogram(kind):
    """One release of many cells; twice the privacy loss is rejected."""
    epsilon, m = 0.7, 300_000
    x = np.array([0.25, 0.25, 0.75])
    release = perturbed_histogram(x, epsilon, (0, 1), bins=m, noise=kind, rng=rng(7))
    rest = release.noisy_counts - release.cells.counts(x)

    def fit(scale):
        if kind == "discrete_laplace":
            r, z = math.exp(-1 / scale), np.arange(-60, 61)
            return p_value(count(rest, 60), (1 - r) / (1 + r) * r ** np.abs(z))
        width = 0.25
        return p_value(count(np.round(rest / width), 80), steps_law(Law("laplace", scale, width), 0.0, 80))

    assert fit(2 / epsilon) > ERROR_RATE
    assert fit(1 / epsilon) < ERROR_RATE
    assert fit(1.02 * 2 / epsilon) < ERROR_RATE
    assert noise.default_grid(2 / epsilon) < 0.25


def test_samples_of_a_histogram_follow_its_masses_and_its_distribution_function():
    cells = Cells.of((4, 5), Box.of(((-1, 0), (1, 10))))
    masses = np.random.default_rng(1).dirichlet(np.full(20, 0.5))
    masses[3] = 0.0
    masses /= masses.sum()
    release = HistogramRelease(Privacy(1.0), 10, cells.box, cells, masses.copy(), masses)
    points = release.sample(N, rng=rng(8))
    seen = np.bincount(cells.codes(points), minlength=20)
    assert seen[3] == 0
    present = masses > 0
    assert p_value(seen[present], masses[present]) > ERROR_RATE
    assert p_value(np.roll(seen, 1), np.maximum(masses, 1e-9)) < ERROR_RATE
    for corner in ([0.1, 3.3], [-0.4, 9.0], [0.9, 0.7]):
        below = int((points <= corner).all(axis=1).sum())
        assert binomial_p_value(below, N, release.cdf(corner)) > ERROR_RATE
        assert binomial_p_value(below, N, release.cdf(np.add(corner, [0.05, 0.2]))) < ERROR_RATE
