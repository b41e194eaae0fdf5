"""Tails of the normal and of the discrete Gaussian distribution, enclosed in intervals."""

from __future__ import annotations

import math
from fractions import Fraction

from dpcore._exact import elementary
from dpcore._exact.intervals import Interval, ceiling, exp, floor, log, pi, sqrt

GUARD = 32
"""More bits for sums in fixed point than for their results."""


def normal_density(x: Interval) -> Interval:
    """Enclose φ(x) = e^(−x²/2)/√(2π)."""
    return exp(x * x / -2) / sqrt(2 * pi(x.precision))


def mills_ratio(x: Interval) -> Interval:
    """Enclose R(x) = Φ(−x)/φ(x), which neither under- nor overflows as the tail does.

    Source: Laplace's continued fraction for large x (DLMF 7.9.1), the power series of Φ near 0 (DLMF 7.6.2), 1/φ(x) − R(−x) below.
    The border between them grows with the precision, where the fraction would need more terms than the series.
    """
    border = max(4.0, math.sqrt(x.precision) / 2)
    if Interval.of(border, x.precision).at_most(x):
        return _mills_fraction(x)
    if x.at_most(-border):
        return 1 / normal_density(x) - _mills_fraction(-x)
    if x.at_most(2 * border) and Interval.of(-2 * border, x.precision).at_most(x):
        return 1 / (2 * normal_density(x)) - _mills_series(x)
    # Too wide for the series, whose length grows with x²: R falls, so its values at the two ends enclose the rest.
    low, high = (Interval(end, end, x.precision) for end in (x.low, x.high))
    return mills_ratio(high).hull(mills_ratio(low))


def _mills_fraction(x: Interval) -> Interval:
    # R(x) = 1/(x + 1/(x + 2/(x + 3/…))). What is below the cut lies in [0, N/x]; both ends carry that to the top, rounded outward.
    # N terms leave a relative error near exp(−2x√(2N)), and near N!/x^2N while N < x²; the number of terms allows for both.
    if x.low[0].bit_length() + x.low[1] > 2 * x.precision:
        return 1 / (x + (1 / x).hull(0))
    start = max(x.lower(), 4.0)
    terms = math.ceil((x.precision * math.log(2) / start) ** 2 / 5) + x.precision // 8
    bits = x.precision + GUARD
    least = floor(x.low, bits)
    most = ceiling(x.high, bits) if x.high[0].bit_length() + x.high[1] <= 4 * x.precision else None
    low, high = 0, -(-(terms << 2 * bits) // least)
    for n in range(terms - 1, 0, -1):
        numerator = n << 2 * bits
        low, high = 0 if most is None else numerator // (most + high), -(-numerator // (least + low))
    return 1 / (x + Interval((low, -bits), (high, -bits), x.precision))


def _mills_series(x: Interval) -> Interval:
    # (Φ(x) − 1/2)/φ(x) = Σ x^(2n+1)/(1·3·…·(2n+1)) is odd and rises, so that its values at the two ends enclose the others.
    low, high = (Interval(end, end, x.precision) for end in (x.low, x.high))
    below = low * _series_of_squares(low, up=x.low[0] < 0)
    above = high * _series_of_squares(high, up=x.high[0] >= 0)
    return Interval(below.low, above.high, x.precision)


def _series_of_squares(x: Interval, up: bool) -> Interval:
    """Bound Σ x^2n/(1·3·…·(2n+1)) from one side, in fixed point: every step is rounded to that side."""
    bits = x.precision + GUARD
    square = x * x
    factor = ceiling(square.high, bits) if up else floor(square.low, bits)
    term = total = 1 << bits
    fewest, n, least = factor >> bits, 0, 1 if up else 0
    while n <= fewest or term > least:
        n += 1
        term = -(-term * factor // ((2 * n + 1) << bits)) if up else term * factor // ((2 * n + 1) << bits)
        total += term
    if up:
        total += term  # from n ≥ x² on, each term is below half of the one before
    return Interval((total, -bits), (total, -bits), x.precision)


def mills_in_floats(x: float) -> float:
    """Approximate R(x) to some 14 digits, as a start for what is certified afterwards; OverflowError for x below −38."""
    if x < 8:
        return math.sqrt(math.pi / 2) * math.exp(x * x / 2) * math.erfc(x / math.sqrt(2))
    tail = 0.0
    for n in range(40, 0, -1):
        tail = n / (x + tail)
    return 1 / (x + tail)


def normal_upper_quantile(log_tail: Interval) -> Interval:
    """Find a point x ≥ 0 with ln Φ(−x) close to `log_tail` ≤ ln(1/2): not an enclosure; the caller certifies its own result."""
    x = sqrt(-2 * log_tail).middle()  # here Φ(−x) ≤ e^(−x²/2)/2: right of the root
    near, target = x.upper(), log_tail.upper()
    if near < 1e100:
        for _ in range(8):
            share = mills_in_floats(near)
            near = max(near + (math.log(share) - near * near / 2 - math.log(2 * math.pi) / 2 - target) * share, 0.0)
        x = Interval.of(near, x.precision)
    for _ in range(200):
        ratio = mills_ratio(x)
        step = ((log(ratio * normal_density(x)) - log_tail) * ratio).middle()  # ln Φ(−x) is concave: Newton comes from the right
        x = (x + step).middle()
        if (step * step).at_most(x * x * 2.0**-96) or x.at_most(0):
            break
    return x if Interval.of(0, x.precision).at_most(x) else Interval.of(0, x.precision)


EULER_MACLAURIN_TERMS = 30
EULER_MACLAURIN_SMOOTHNESS = 32


def discrete_tail_ratio(m: int, scale: float, precision: int) -> Interval:
    """Enclose D(m) = Σ_{j≥0} e^(−(j² + 2jm)/(2σ²)), so that Σ_{z≥m} e^(−z²/2σ²) = e^(−m²/2σ²)·D(m), for an integer m ≥ 0.

    Summed term by term where the terms change fast, by Euler-Maclaurin where they change slowly: time is bounded for every scale.
    """
    if scale >= EULER_MACLAURIN_SMOOTHNESS and Fraction(scale) ** 2 >= EULER_MACLAURIN_SMOOTHNESS * m:
        return _tail_by_euler_maclaurin(m, scale, precision)
    return _tail_by_terms(m, scale, precision)


def _tail_by_terms(m: int, scale: float, precision: int) -> Interval:
    bits = precision + GUARD
    one, variance = 1 << bits, Fraction(scale) ** 2
    below = above = low = high = one
    (ratio_low, ratio_high), (step_low, step_high) = (
        (floor(end.low, bits), ceiling(end.high, bits))
        for end in (exp(Interval.of(exponent, bits)) for exponent in (-Fraction(2 * m + 1) / (2 * variance), -1 / variance))
    )
    while True:
        low, high = low * ratio_low >> bits, -(-high * ratio_high >> bits)
        ratio_low, ratio_high = ratio_low * step_low >> bits, -(-ratio_high * step_high >> bits)
        below, above = below + low, above + high
        if high <= 1 << GUARD:
            # The ratios fall, so a geometric series lies above what is left out.
            above -= -high * ratio_high // (one - ratio_high)
            return Interval((below, -bits), (above, -bits), precision)


def _tail_by_euler_maclaurin(m: int, scale: float, precision: int) -> Interval:
    # With μ = m/σ and h(t) = e^(−(t² + 2tm)/2σ²):  D = σR(μ) + 1/2 + Σ_{i≤k} B_2i/(2i)!·σ^(1−2i)·He_{2i−1}(μ) + rest.
    # On a circle of radius r = σ/max(1, μ) Cauchy's estimate gives ∫|h^(2k)| ≤ (2k)!·r^(−2k)·e²·√(2π)·σ, and
    # |B_2k|/(2k)! ≤ 2.01·(2π)^(−2k) for k ≥ 5, so that |rest| ≤ 38·σ·(2k)!/(2πr)^(2k).
    sigma = Interval.of(scale, precision)
    mean = Interval.of(Fraction(m) / Fraction(scale), precision)
    total = sigma * mills_ratio(mean) + Fraction(1, 2)
    below, hermite = Interval.of(1, precision), mean
    weight = 1 / sigma
    for i in range(1, EULER_MACLAURIN_TERMS + 1):
        total = total + hermite * weight * (elementary.bernoulli(2 * i) / math.factorial(2 * i))
        for n in (2 * i - 1, 2 * i):
            below, hermite = hermite, mean * hermite - n * below
        weight = weight / (sigma * sigma)
    order = 2 * EULER_MACLAURIN_TERMS
    radius = min(Fraction(scale), Fraction(scale) ** 2 / m) if m else Fraction(scale)
    rest = 38 * sigma * math.factorial(order) / (2 * pi(precision) * Interval.of(radius, precision)).power(order)
    return total + rest.hull(-rest)
