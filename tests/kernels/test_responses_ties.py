"""Probabilities made from the bits of U itself: comparisons that only the last bit of many decides, and those that nothing decides."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpcore import EntropyError, _backend
from dpcore._backend import response
from dpcore._exact.probability import HALF, Probability, tilted
from dpcore.rng import StreamPosition
from support.kernels import EXACT, FAST, KEY, LEVELS, at_level, at_tier
from support.responses import MORE, MORE_ACCEPT, Twin, Uniform, constant

DEPTHS = (7, 8, 9, 16, 31, 32, 33, 63, 64, 71, 72, 73, 90, 95, 96, 97, 128, 256, 300, 520, 521, 1000, 2040)
MOST_BITS = 2048
each_limbs = pytest.mark.parametrize("limbs", [0, 3], ids=["default limbs", "three limbs"])
FARTHEST = 2**40 + 9


@pytest.fixture(autouse=True)
def first_limbs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start with as many limbs as the test says."""
    monkeypatch.setattr(_backend.Testing, "limbs", request.node.callspec.params.get("limbs", 0) if hasattr(request.node, "callspec") else 0)


def options(first: int) -> dict[str, Any]:
    return {"position": StreamPosition(KEY, 3, first), "threads": 1}


def around(u: Uniform, bits: int, share: int = 1) -> Iterator[Probability]:
    """U cut after some bits; a unit of that place less and more; and numbers with endless expansions above each. All divided by `share`."""
    for offset in (-1, 0, 1):
        for tail in (Fraction(0), Fraction(1, 3), Fraction(2**40 - 1, 2**40)):
            value = (u.floor(bits) + offset + tail) / 2**bits / share
            if 0 <= value <= 1:
                yield constant(value)


@pytest.mark.some(24)
@each_limbs
@pytest.mark.parametrize("bits", DEPTHS)
def test_flips_packed_flips_and_unary_bits(bits: int, limbs: int) -> None:
    twin, wrong, rejected = Twin.keyed(), Twin.keyed(ties_below=True), 0
    for lane in (0, 63, 700, 1500, FARTHEST):
        for p in around(twin.lane(lane), bits):
            expected = twin.flip(lane, False, p)
            rejected += wrong.flip(lane, False, p) != expected
            x = np.zeros(3, bool)
            assert bool(_backend.flip_bools(x, p, **options(lane))[0]) == expected
            _backend.flip_bools(x, p, out=x, **options(lane))  # in place: a tie that needs more limbs must not flip twice
            assert bool(x[0]) == expected
            packed = np.zeros(1, np.uint8)
            _backend.flip_packed(packed, 3, p, out=packed, **options(lane))
            assert bool(packed[0] & 1) == expected
            # lane 8 r + j is bit j of record r of a unary report with k <= 8: once as another's bit, once as its own
            record, j = divmod(lane, 8)
            for code in (j, (j + 1) % 8):
                own, other = (p, HALF) if code == j else (HALF, p)
                report = _backend.unary_response(np.array([code]), 8, own, other, None, **options(record))
                assert bool(report[0, 0] >> j & 1) == expected
    assert rejected > 0


@pytest.mark.some(21)
@each_limbs
@pytest.mark.parametrize("bits", [b for b in DEPTHS if b >= 31])
def test_inclusions_and_signs(bits: int, limbs: int) -> None:
    twin, wrong, rejected = Twin.keyed(), Twin.keyed(ties_below=True), 0
    for element in (0, 129, FARTHEST):
        for p in around(Uniform(twin.words, element, twin.piece(4 * element, 32), 32, MORE_ACCEPT), bits):
            expected = twin.subset(element, 4, 9, 3, p)
            rejected += wrong.subset(element, 4, 9, 3, p) != expected
            assert _backend.subset_response(np.array([4]), 9, 3, p, None, **options(element)).tolist() == [expected]
        for p in around(Uniform(twin.words, element, twin.word(element) >> 32, 32, MORE), bits):
            expected_sign = twin.hadamard(element, 77, 100, p)
            rejected += wrong.hadamard(element, 77, 100, p) != expected_sign
            assert _backend.hadamard_response(np.array([77]), 100, p, None, **options(element)).tolist() == [expected_sign]
    assert rejected > 0


def small_uniforms(twin: Twin, k: int) -> Iterator[tuple[int, int]]:
    """Elements, and multiples m <= k - 1 such that m q = U for some q < 1/k."""
    for element in (*range(40), *range(FARTHEST, FARTHEST + 40)):
        for m in range(1, k):
            if twin.uniform(element, 32).first * k < (m - 0.01) * 2**32:
                yield element, m
                break


def forget() -> None:
    """Let the laws be made anew."""
    for cached in (response._kary_scale, response.kary_law, response.hashing_law):
        cached.cache_clear()


@pytest.mark.some(2)
@each_limbs
@pytest.mark.parametrize("bits", [b for b in DEPTHS if b >= 31])
def test_kary_and_hashed_codes(bits: int, limbs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    k, twin, wrong, rejected = 5, Twin.keyed(), Twin.keyed(ties_below=True), 0
    x = np.array([2])
    for element, m in small_uniforms(twin, k):
        for q in around(twin.uniform(element, 32), bits, share=m):
            if q.constant == 0:
                continue
            monkeypatch.setattr(response, "one_of", lambda *_, q=q: q)
            forget()
            expected = twin.kary(element, 2, q, k)
            rejected += wrong.kary(element, 2, q, k) != expected
            assert _backend.kary_response(x, 1.0, k, None, **options(element)).tolist() == [expected]
            mine = x.copy()
            assert _backend.kary_response(mine, 1.0, k, None, out=mine, **options(element)).tolist() == [expected]
            assert _backend.hashing_response(x, 1.0, 9, k, None, **options(element)).tolist() == [twin.hashing(element, 2, q, k)]
    forget()
    assert rejected > 0


def tilt(u: Fraction, epsilon: float, bits: int = 3000) -> Fraction:
    """The t in [-1, 1] for which ½(1 + t (e^ε − 1)/(e^ε + 1)) is nearly u."""
    slope = 2 * Fraction(tilted(epsilon, Fraction(1)).floor(bits), 2**bits) - 1
    return (2 * u - 1) / slope


@pytest.mark.long
@each_limbs
@pytest.mark.parametrize("epsilon", [1.0, *(pytest.param(epsilon, marks=pytest.mark.long) for epsilon in (0.01, 50.0))])
def test_tables_with_endless_expansions(epsilon: float, limbs: int) -> None:
    twin, wrong, rejected, seen = Twin.keyed(), Twin.keyed(ties_below=True), 0, 0
    for element in (*range(400), *range(FARTHEST, FARTHEST + 400)):
        u = twin.uniform(element, 16)
        for bits in (16, 64, 80, 96, 256, 1500, 2000):
            for end in (0, 1):
                t = tilt(Fraction(u.floor(bits) + end, 2**bits), epsilon)
                if abs(t) > 1:
                    continue
                phi = (Fraction(0), t)
                expected = twin.table(element, 1, epsilon, phi)
                rejected += wrong.table(element, 1, epsilon, phi) != expected
                seen += 1
                assert _backend.table_response(np.array([1]), epsilon, phi, None, **options(element)).tolist() == [expected]
        if seen >= 14 * 20:
            break
    assert seen >= 14
    assert rejected > 0


def convergents(t: Fraction, most: int) -> list[tuple[int, int]]:
    """Continued fractions of t, alternately below and above it, with numerators and denominators up to `most`."""
    before, now, rest, found = (0, 1), (1, 0), t, []
    while now[1] <= most:
        whole = rest.numerator // rest.denominator
        before, now = now, (whole * now[0] + before[0], whole * now[1] + before[1])
        if now[1] > most or rest == whole:
            break
        found.append(now)
        rest = 1 / (rest - whole)
    return found


@pytest.mark.long
@pytest.mark.parametrize("tier", [FAST, 1, EXACT])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_bounded_means_within_every_tiers_error(epsilon: float, tier: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """x/upper with 53 bits each comes within 2^-100 of what makes p = U: more than the middle tier can tell."""
    twin, rejected, exact, answers = Twin.keyed(), 0, [], set()
    decide = _backend.response.is_below
    monkeypatch.setattr(_backend.response, "is_below", lambda *a: exact.append(a[3]) or decide(*a))
    for element in (*range(60), *range(FARTHEST, FARTHEST + 60)):
        t = (1 + tilt(Fraction(twin.uniform(element, 16).floor(528), 2**528), epsilon)) / 2
        if not 0 < t < 1:
            continue
        for x, upper in convergents(t, 2**53)[-12:]:
            expected = twin.bounded(element, x, 0, upper, epsilon)
            rejected += Twin.keyed(ties_below=True).bounded(element, x, 0, upper, epsilon) != expected
            answers.add(expected)
            for level in LEVELS:
                with at_level(level), at_tier(tier):
                    for values in (np.array([float(x)]), np.array([x])):
                        found = _backend.bounded_response(values, 0.0, float(upper), epsilon, None, **options(element))
                        assert found.tolist() == [expected]
    assert answers == {False, True}
    assert exact  # the fast and the middle tier hand over what they cannot tell
    assert rejected > 0


def test_a_probability_that_is_a_half_meets_u_exactly() -> None:
    """At t = 0 the first bit decides, in every tier, though the middle tier's interval may touch ½."""
    twin = Twin.keyed()
    for tier in (FAST, 1, EXACT):
        with at_tier(tier):
            found = _backend.bounded_response(np.zeros(5000), -1.0, 1.0, 3.0, None, **options(0))
        assert found.tolist() == [twin.piece(e, 16) < 2**15 for e in range(5000)]
    table = _backend.table_response(np.zeros(5000, np.int64), 3.0, (Fraction(0), Fraction(1)), None, **options(0))
    assert table.tolist() == found.tolist()


@each_limbs
def test_what_2048_bits_do_not_decide_is_refused_and_what_they_do_is_not(limbs: int) -> None:
    twin, lane = Twin.keyed(), 1500
    whole = twin.lane(lane).floor(MOST_BITS)
    x = np.zeros(1, bool)
    for offset, expected in ((-1, False), (0, False), (1, True)):
        p = constant(Fraction(whole + offset, 2**MOST_BITS))
        assert _backend.flip_bools(x, p, **options(lane)).tolist() == [expected]
    for p in (constant(Fraction(3 * whole + 1, 3 * 2**MOST_BITS)), constant(Fraction(2 * whole + 1, 2 ** (MOST_BITS + 1)))):
        with pytest.raises(EntropyError, match="not random"):
            _backend.flip_bools(x, p, **options(lane))
