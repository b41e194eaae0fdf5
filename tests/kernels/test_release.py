"""Kernels of releases against slow twins in exact arithmetic, at every level."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp

from dpcore import _backend
from dpcore._exact.intervals import floor
from dpcore.distributions._choices import Uniforms, draw_codes, unit_floats
from dpcore.testing import KeyedRandom
from support.kernels import KEY, LEVELS, at_level
from support.laws import ERROR_RATE, p_value

at_each_level = pytest.mark.parametrize("level", LEVELS)


def random() -> np.random.Generator:
    return np.random.default_rng(23)


def stream() -> KeyedRandom:
    return KeyedRandom(KEY)


# Choices


@at_each_level
@pytest.mark.parametrize("m", [0, 1, 2, 3, 1000, 70_000])
@pytest.mark.parametrize("crowded", [False, True])
def test_codes_are_counts_of_thresholds(level, m, crowded):
    top = 2**20 if crowded else 2**64 - 1  # crowded: all thresholds in one bucket of the guide
    thresholds = np.sort(random().integers(0, top, m, dtype=np.uint64, endpoint=True))
    thresholds[-m // 3 :] = thresholds[-1:]  # weights of 0
    position = stream().position()
    words = _backend.uniform_words(position, 5000)
    with at_level(level):
        codes, tied = _backend.choose_codes(thresholds, 5000, position, threads=1)
    assert codes.tolist() == np.searchsorted(thresholds, words, side="right").tolist()
    assert tied.tolist() == []


@at_each_level
def test_words_that_are_thresholds_are_reported(level):
    position = stream().position()
    words = _backend.uniform_words(position, 200_000)
    chosen = np.array([0, 17, 65_536, 199_999])
    with at_level(level):
        codes, tied = _backend.choose_codes(np.sort(words[chosen]), len(words), position, threads=3)
    assert tied.tolist() == chosen.tolist()
    assert codes[chosen].tolist() == (np.argsort(np.argsort(words[chosen])) + 1).tolist()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_codes_do_not_depend_on_threads_or_on_how_many_there_are(threads):
    weights = random().integers(0, 2**40, 300).tolist()
    codes = draw_codes(weights, 300_000, rng=stream(), threads=threads)
    assert codes.tolist() == draw_codes(weights, 400_000, rng=stream(), threads=1)[:300_000].tolist()


def test_codes_have_their_law_and_a_wrong_one_is_rejected():
    weights = [3, 0, 1, 10**30, 2 * 10**30, 7 * 10**29]
    counts = np.bincount(draw_codes(weights, 200_000, rng=stream()), minlength=6)
    exact = np.array([float(Fraction(w, sum(weights))) for w in weights])
    assert counts[:3].sum() == 0
    assert p_value(counts[3:], exact[3:]) >= ERROR_RATE
    assert p_value(counts[3:], exact[3:] + np.array([0.008, -0.008, 0.0])) < ERROR_RATE


@pytest.mark.parametrize("part", [0, 1, 17, 2**20 - 1])
def test_a_tie_is_decided_by_further_bits(part):
    """The threshold lies inside the unit of the first word: part/2^20 of the way into it."""
    uniforms = Uniforms(stream())
    word, total = int(uniforms.words(1)[0]), 2**84
    cumulative = word * 2**20 + part
    bits = floor(uniforms[0].at(200).low, 84)
    assert draw_codes([cumulative, total - cumulative], 1, rng=stream()).tolist() == [int(bits >= cumulative)]
    assert bits >> 20 == word


def test_no_weights_are_refused():
    with pytest.raises(ValueError, match="weights must have a positive sum"):
        draw_codes([0, 0], 3)


def test_unit_floats_are_the_leading_bits():
    words = Uniforms(stream()).words(6)
    assert (unit_floats((2, 3), rng=stream()) * 2.0**53).tolist() == (words >> np.uint64(11)).reshape(2, 3).tolist()


# Cosines


@at_each_level
def test_cosines_are_rounded_towards_zero(level):
    x = np.concatenate([[0.0, 0.25, 0.5, 0.75, 1.0, 1e-300, 2.0**-60, 1 - 2.0**-53], random().random(400)])
    with at_level(level):
        found = _backend.rounded_cosines(x, 300)
    assert found.shape == (408, 300)
    assert np.abs(found).max() == _backend.COSINE_LARGEST == math.isqrt(2 * 4**40)
    for i in (*range(8), *range(8, 408, 41)):
        for j in (1, 2, 3, 64, 299, 300):
            with mp.workprec(150):
                exact = mp.sqrt(2) * mp.cos(mp.pi * j * mp.mpf(float(x[i]))) * 2**40
                distance = abs(exact) - abs(int(found[i, j - 1]))
            # towards zero, up to the polynomial's error and that of x below 2^-63
            assert -0.2 <= distance <= 1.2
            assert found[i, j - 1] == 0 or (found[i, j - 1] > 0) == (exact > 0)


@at_each_level
@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 5000])
@pytest.mark.parametrize("threads", [1, 3])
def test_sums_of_cosines_are_exact(level, n, threads):
    x = random().random(n)
    with at_level(level):
        sums = _backend.cosine_sums(x, 40, threads=threads)
        terms = _backend.rounded_cosines(x, 40)
    assert list(sums) == [int(total) for total in terms.astype(object).sum(axis=0)] if n else [0] * 40
    assert _backend.cosine_sums(x[::-1], 40, threads=1) == sums


# Bands


def slow_band(lower, upper):
    """Every f_i(C) as a fraction."""
    rows, found = {0: Fraction(1)}, []
    for low, high in zip(lower, upper, strict=True):
        steps = {c: sum((f / math.factorial(c - b) for b, f in rows.items() if b <= c), Fraction(0)) for c in range(low, high + 1)}
        rows = steps
        found += steps.values()
    return found


BANDS = {
    "all": ([0] * 9 + [30], [30] * 10),
    "narrow": (list(range(1, 31)), list(range(1, 31))),
    "steps": ([0, 1, 1, 3, 6], [3, 4, 5, 6, 6]),
    "jump": ([0] * 6 + [150] * 6 + [160], [10] * 6 + [160] * 7),
    "gap": ([0, 5, 5], [2, 4, 5]),  # the second row is empty
    "one": ([7], [7]),
    "none": ([0, 0, 0], [0, 0, 0]),
}


@at_each_level
@pytest.mark.parametrize("name", BANDS)
def test_paths_are_summed_within_the_stated_error(level, name):
    lower, upper = BANDS[name]
    with at_level(level):
        paths = _backend.band_paths(np.array(lower), np.array(upper))
    exact = slow_band(lower, upper)
    assert len(exact) == len(paths.mantissas) == paths.offsets[-1]
    for mantissa, exponent, truth in zip(paths.mantissas.tolist(), paths.exponents.tolist(), exact, strict=True):
        assert mantissa == 0 or 1 <= mantissa < 2
        assert abs(Fraction(mantissa) * Fraction(2) ** (exponent if mantissa else 0) - truth) <= Fraction(paths.relative_error) * truth


def test_paths_agree_at_every_level():
    lower = np.maximum(0, np.arange(1, 41) * 10 - 77)
    upper = np.minimum(400, np.arange(1, 41) * 10 + 77)
    lower[-1] = 400
    found = []
    for level in LEVELS:
        with at_level(level):
            paths = _backend.band_paths(lower, upper)
        found.append((paths.mantissas.tolist(), paths.exponents.tolist()))
    assert all(table == found[0] for table in found)


def test_exponents_reach_beyond_those_of_floats():
    """All sequences: k!·f is m^k, far outside float64."""
    m, k = 300, 700
    paths = _backend.band_paths(np.array([0] * (m - 1) + [k]), np.array([k] * m))
    log2 = math.log2(paths.mantissas[-1]) + int(paths.exponents[-1]) + math.lgamma(k + 1) / math.log(2)
    assert abs(log2 - k * math.log2(m)) < 1e-9 * k


@pytest.mark.parametrize("k", [0, 1, 2, 33, 170, 171, 5000, 300_000])
def test_weights_of_steps(k):
    """1/c!, also where c! itself has millions of digits and would take minutes."""
    mantissas, exponents = _backend.step_weights(k)
    assert len(mantissas) == len(exponents) == k + 1
    assert ((mantissas >= 1) & (mantissas < 2)).all()
    for c in {0, 1, 2, 3, 17, k // 2, k - 1, k} & set(range(k + 1)):
        with mp.workprec(400):
            exact = mp.rgamma(c + 1) * mp.mpf(2) ** -int(exponents[k - c])
            assert abs(mp.mpf(float(mantissas[k - c])) / exact - 1) <= mp.mpf(2) ** -53 + mp.mpf(2) ** -100


# Signs


@at_each_level
@pytest.mark.parametrize("d", [1, 7, 8, 9, 63, 64, 65, 200])
@pytest.mark.parametrize("size", [0, 1, 100, 2**40])
def test_products_with_signs(level, d, size):
    values = random().integers(-size, size, d, endpoint=True)
    rows = random().integers(0, 256, (300, -(-d // 8)), dtype=np.uint8)
    signs = 2 * np.unpackbits(rows, axis=1, count=d, bitorder="little").astype(np.int64) - 1
    with at_level(level):
        assert _backend.sign_products(rows, values, threads=1).tolist() == (signs @ values).tolist()
        padded = np.concatenate([rows, rows], axis=1)[:, : rows.shape[1]]
        assert _backend.sign_products(padded[::-1], values, threads=2).tolist() == (signs[::-1] @ values).tolist()


def test_products_of_rows_that_are_not_contiguous():
    rows = np.asfortranarray(random().integers(0, 256, (50, 4), dtype=np.uint8))
    values = np.arange(-16, 16)
    assert (
        _backend.sign_products(rows, values, threads=1).tolist() == _backend.sign_products(rows.copy(order="C"), values, threads=1).tolist()
    )
