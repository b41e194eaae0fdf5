"""The exponential mechanism with a base measure: its law, its privacy, its slow twin. Each check has a twin that it must reject.

A coin corrects proposals that are too high by 2^-46 of their size. No sample shows that, so most checks run with `_RAISED` far larger
as well: the law must stay what it is, because the coins take back all of it.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from dpcore import selection
from dpcore._backend.words import KernelWords
from dpcore.selection import _measure
from dpcore.testing import KeyedRandom
from support.kernels import KEY, Array
from support.laws import ERROR_RATE, p_value
from support.selection import Twin
from support.selection_laws import DIGITS, Law, largest_log_ratio, units

N = 100_000
FEWER = 1_500
"""Draws where many coins are decided in interval arithmetic."""
CASES = (
    ((0.0, 1.0, 2.0, 0.5), (1.0, 0.25, 0.05, 3.0)),
    ((0.0, 0.0, 0.0), (1.0, 2.0, 5.0)),
    ((1060.0, 0.0, 3.0, 1.0), (5e-308, 1.0, 0.5, 2.0)),
    ((0.0, -1036.0, 2.0, 1.0), (1.0, 1e300, 0.0, 2.0)),
)
each_case = pytest.mark.parametrize(("scores", "measure"), CASES, ids=str)


def tilted_law(scores: Any, measure: Any, scale: float | Fraction) -> Law:
    """P(i) ∝ m_i e^(u_i/b), in 60 digits."""
    with mpmath.workdps(DIGITS):
        weights = [mpmath.mpf(m) * mpmath.exp(x - max(units(scores, scale))) for m, x in zip(measure, units(scores, scale), strict=True)]
        return {(i,): w / mpmath.fsum(weights) for i, w in enumerate(weights)}


def raise_proposals(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """Proposals that are higher by this share of their parts."""
    monkeypatch.setattr(_measure, "_RAISED", share)
    monkeypatch.setattr(_measure, "_MARGIN", 4 * share)


def drawn(scores: Any, measure: Any, scale: float, draws: int) -> Array:
    return selection.exponential_mechanism(scores, 2.0 * draws / scale, 1.0, draws=draws, measure=measure, rng=KeyedRandom(KEY))


def fit(found: Array, law: Law) -> float:
    if any(law[i,] < 1e-30 for i in set(found.tolist())):
        return 0.0
    order = sorted(range(len(law)), key=lambda i: law[i,])
    return p_value(np.bincount(found, minlength=len(law))[order], np.array([float(law[i,]) for i in order]))


@pytest.mark.some(2)
@pytest.mark.parametrize(("share", "draws"), [(_measure._RAISED, N), (2.0**-10, FEWER)])
@each_case
def test_the_law_is_the_product_of_weight_and_exponential(scores, measure, share, draws, monkeypatch):
    raise_proposals(monkeypatch, share)
    found = drawn(scores, measure, 1.5, draws)
    assert fit(found, tilted_law(scores, measure, 1.5)) > ERROR_RATE
    assert fit(found, tilted_law(scores, measure, 0.75)) < ERROR_RATE or len(set(scores)) == 1
    squared = [m**2 if 1e-100 < m < 1e100 else m for m in measure]
    assert fit(found, tilted_law(scores, squared, 1.5)) < ERROR_RATE


def test_proposals_without_their_coins_have_another_law(monkeypatch):
    scores, measure = CASES[0]
    raise_proposals(monkeypatch, 0.5)
    law = tilted_law(scores, measure, 1.5)
    assert fit(drawn(scores, measure, 1.5, FEWER), law) > ERROR_RATE
    monkeypatch.setattr(_measure.Tilted, "_decided", lambda *_: True)
    assert fit(drawn(scores, measure, 1.5, FEWER), law) < ERROR_RATE


def test_one_draw_has_the_law_of_several():
    scores, measure = CASES[0]
    rng = KeyedRandom(KEY)
    found = np.array([selection.exponential_mechanism(scores, 1.0, 0.75, measure=measure, rng=rng) for _ in range(4_000)])
    assert fit(found, tilted_law(scores, measure, 1.5)) > ERROR_RATE
    assert fit(found, tilted_law(scores, (1.0,) * 4, 1.5)) < ERROR_RATE


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0.3, 1.0), (2.0, 0.5)])
@pytest.mark.parametrize("measure", [(1.0, 1e-9, 7.0), (1e250, 3.0, 3.0), (1.0, 1.0, 1.0)], ids=str)
@pytest.mark.parametrize("scores", [(0.0, 8.0, 1.0), (0.0, 0.0, 0.0)], ids=str)
def test_the_loss_is_at_most_epsilon_for_every_measure(scores, measure, epsilon, sensitivity):
    needed = 2 * Fraction(sensitivity) / Fraction(epsilon)
    loss = largest_log_ratio(lambda u: tilted_law(u, measure, needed), scores, sensitivity, together=False)
    assert loss <= epsilon + 1e-12
    dominant = (1e-9, 1e-9, 1.0) if scores[0] == scores[1] else measure
    halved = largest_log_ratio(lambda u: tilted_law(u, dominant, needed / 2), scores, sensitivity, together=False)
    assert halved > epsilon


def slow_coin(nonce: int, number: int, bound: Any) -> bool:
    """Whether a uniform number is below a bound: as documented, from 64 and from 576 bits, which must agree."""
    words = KernelWords(KEY, nonce, 0)
    value = words.group(0, number // 128)[number % 128]
    long = value
    for word in words.more(2, number, 0, 0):
        long = long << 64 | word
    with mpmath.workprec(900):
        return mpmath.mpf(long) / mpmath.mpf(2) ** 576 < bound


def slow(scores: Array, measure: Array, scale: float, draws: int) -> list[int]:
    """Rounds of proposals and coins, each at its place in the stream; proposals from the library, checked to be high enough."""
    kept = [i for i, m in enumerate(measure.tolist()) if m > 0]
    proposed = _measure.Tilted(scores, measure, scale)._proposed
    largest = max(Fraction(scores[i].item()) for i in kept)
    with mpmath.workprec(900):
        b = mpmath.mpf(scale)
        accepted = []
        for place, i in enumerate(kept):
            ahead = Fraction(scores[i].item()) - largest - Fraction(proposed[place].item())
            bound = mpmath.mpf(measure[i].item()) * mpmath.exp(mpmath.mpf(ahead.numerator) / ahead.denominator / b)
            assert bound <= 1
            accepted.append(bound)
    found, missing = [-1] * draws, list(range(draws))
    for attempt in itertools.count():
        twin = Twin("gumbel", Fraction(scale), KernelWords(KEY, 2 * attempt, 0))
        places = twin.rounds(proposed, len(missing))
        left = []
        for number, (draw, place) in enumerate(zip(missing, places, strict=True)):
            if slow_coin(2 * attempt + 1, number, accepted[place]):
                found[draw] = kept[place]
            else:
                left.append(draw)
        if not left:
            return found
        missing = left
    raise AssertionError


@pytest.mark.some(2)
@pytest.mark.parametrize("share", [_measure._RAISED, 2.0**-3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_the_slow_twin_draws_the_same(dtype, share, monkeypatch):
    raise_proposals(monkeypatch, share)
    scores = np.array([3, 1, 4, 1, 5, 9, 2, 6]).astype(dtype)
    if dtype == np.int64:
        scores += 2**62  # floats cannot tell them apart
    measure = np.array([1.0, 2.0, 0.0, 1e-3, 0.5, 1e-4, 7.0, 1e-2])
    found = selection.exponential_mechanism(scores, 150.0 * 2, 3.0, draws=150, measure=measure, rng=KeyedRandom(KEY))
    assert found.tolist() == slow(scores, measure, 3.0, 150)
    single = selection.exponential_mechanism(scores, 2.0, 3.0, measure=measure, rng=KeyedRandom(KEY))
    assert [single] == slow(scores, measure, 3.0, 1)
    other = selection.exponential_mechanism(scores, 150.0 * 2, 3.0, draws=150, measure=measure[::-1], rng=KeyedRandom(KEY))
    assert found.tolist() != other.tolist()


@pytest.mark.parametrize("exponent", [-940, 0, 940])
def test_proposals_are_never_below_what_they_stand_for(exponent):
    generator = np.random.default_rng(1)
    scale = 2.0**exponent
    scores = np.concatenate([generator.normal(size=200) * 10 * scale, generator.normal(size=40) * scale * 2.0**40, [0.0, -1e308, 2.0**52]])
    measure = np.ldexp(generator.random(len(scores)) + 0.5, generator.integers(-1060, 1000, len(scores)))
    measure[:50] = 1 + generator.integers(-3, 4, 50) * 2.0**-52
    tilted = _measure.Tilted(scores, measure, scale)
    top = _measure._clamped(scores.max())
    with np.errstate(over="ignore"):
        surely = 1 - tilted._size / scale * _measure._MARGIN
    with mpmath.workprec(4_000):
        for score, weight, proposed, sure in zip(scores, measure, tilted._proposed, surely, strict=True):
            ahead = _measure._clamped(score) - top - Fraction(proposed.item())
            true = mpmath.mpf(ahead.numerator) / ahead.denominator / scale + mpmath.log(mpmath.mpf(weight.item()))
            assert true <= 0
            assert sure < 0 or mpmath.exp(true) >= sure


def test_logarithms_of_weights_against_200_bits():
    """Off by at most 5·2^-53 of themselves: next to 1, at both ends of the floats, and where a block ends."""
    rng = np.random.default_rng(5)
    near_one = 1 + rng.uniform(-1, 1, 3000) * 2.0 ** -rng.integers(0, 53, 3000)
    beside = [*np.nextafter(0.5**0.5, [0, 1]), *np.nextafter(1.0, [0, 2])]
    ends = [5e-324, 2.0**-1022, float(np.nextafter(2.0**1023, 0)) * 2, 0.5, 1.0, 2.0, *beside]
    weights = np.concatenate([near_one, rng.random(3000), np.exp(rng.uniform(-745, 709, 3000)), ends])
    weights = weights[weights > 0]
    found = _measure.logarithms(weights)
    with mpmath.workprec(200):
        pairs = [(mpmath.log(weight), log) for weight, log in zip(weights.tolist(), found.tolist(), strict=True)]
        assert max(abs(exact - log) - 5 * mpmath.ldexp(abs(exact), -53) for exact, log in pairs) <= 0
    assert not found[weights == 1.0].any()
    for size in (0, 1, _measure._BLOCK - 1, _measure._BLOCK, _measure._BLOCK + 1):
        assert _measure.logarithms(weights[:size]).tolist() == found[:size].tolist()
