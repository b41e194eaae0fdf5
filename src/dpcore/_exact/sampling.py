"""The exact tier: samples in interval arithmetic of growing precision, and the constants that the faster tiers are built from.

A sample is a function of infinite bit strings. Each function here reads as many bits as it takes until every number that the bits seen
so far allow gives the same answer, so what it returns is the value of the ideal mechanism. Derivations: docs/exactness.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from dpcore._exact.intervals import Interval, ceiling, cos_sin_of_turns, exactly, exp, floor, log, refined, sqrt
from dpcore._exact.pending import SelectionNoise
from dpcore._exact.tails import GUARD

FIRST_PRECISION = 160
LARGEST_FLOAT = math.ldexp(2.0 - 2.0**-52, 1023)
TABLE_TAIL = Fraction(1, 2**12)
"""The table of a small discrete Gaussian in the fast tier stops where less than this probability is left."""

MoreWords = Callable[[int], list[int]]


class Uniform:
    """A uniform number in (0, 1), bit by bit: a prefix, then chunks of eight 64-bit words."""

    def __init__(self, prefix: int, prefix_bits: int, more: MoreWords, *, complement: bool = False) -> None:
        self._value, self._bits, self._more, self._complement = prefix, prefix_bits, more, complement
        self._chunks = 0

    def at(self, precision: int) -> Interval:
        """An interval that holds the number, its ends `precision` leading bits apart or nearer; never 0."""
        while self._bits < precision or self._value.bit_length() < precision // 2:
            for word in self._more(self._chunks):
                self._value = self._value << 64 | (word ^ (2**64 - 1) if self._complement else word)
                self._bits += 64
            self._chunks += 1
        value, bits = self._value, self._bits
        return Interval.of(1, precision) * Interval((value, -bits), (value + 1, -bits), precision)


def signed_uniform(word: int, more: MoreWords) -> tuple[Uniform, bool]:
    """|X| and whether X is negative, for X uniform on (−1, 1) whose two's complement bits start with `word`."""
    negative = bool(word >> 63)
    magnitude = (word ^ (2**64 - 1) if negative else word) & (2**63 - 1)
    return Uniform(magnitude, 63, more, complement=negative), negative


def _decided(evaluate: Callable[[int], Interval], offset: Fraction) -> int:
    """⌊y + offset⌋ for the real y that `evaluate` encloses ever more tightly; offset a dyadic fraction."""
    bits = offset.denominator.bit_length() - 1
    precision = FIRST_PRECISION
    while True:
        y = evaluate(precision)
        low, high = ((floor(end, bits) + offset.numerator) >> bits for end in (y.low, y.high))
        if low == high:
            return low
        precision *= 2


def round_release(value: Fraction, scale: float, grid: float, unit_sample: Callable[[int], Interval]) -> float:
    """R(value + scale·W): the float64 nearest to the nearest multiple of the grid, saturating at the largest float64."""
    scaled = value / Fraction(grid)
    whole = round(scaled)
    part, step = scaled - whole, Fraction(scale) / Fraction(grid)

    def distance(precision: int) -> Interval:
        return Interval.of(part, precision) + unit_sample(precision) * Interval.of(step, precision)

    released = Fraction(whole + _decided(distance, Fraction(1, 2))) * Fraction(grid)
    try:
        return float(released)
    except OverflowError:
        return LARGEST_FLOAT if released > 0 else -LARGEST_FLOAT


def standard_laplace(word: int, more: MoreWords) -> Callable[[int], Interval]:
    """±(−ln|X|)."""
    magnitude, negative = signed_uniform(word, more)

    def sample(precision: int) -> Interval:
        e = -log(magnitude.at(precision))
        return -e if negative else e

    return sample


def standard_normal(radius: Uniform, angle: Uniform, member: int) -> Callable[[int], Interval]:
    """√(−2 ln U)·cos(2πV), or the sine for member 1."""

    def sample(precision: int) -> Interval:
        r = sqrt(-2 * log(radius.at(precision)))
        return r * cos_sin_of_turns(angle.at(precision))[member]

    return sample


@lru_cache(maxsize=4096)
def _laplace_offset(scale: float, precision: int) -> Interval:
    """c = ln(2/(1 + e^(−1/t)))."""
    inverse = Interval.of(-1, precision) / Interval.of(scale, precision)
    return log(2 / (1 + exp(inverse)))


def laplace_offset(scale: float) -> tuple[float, float]:
    """c as a double-double."""
    return _double_double(refined(lambda precision: _laplace_offset(scale, precision), bits=120))


def _double_double(x: Interval) -> tuple[float, float]:
    middle = exactly(x.middle().low)
    high = float(middle)
    return high, float(middle - Fraction(high))


def discrete_laplace(scale: float, word: int, more: MoreWords) -> int:
    """±⌊t(E + c)⌋."""
    magnitude, negative = signed_uniform(word, more)

    def shifted(precision: int) -> Interval:
        return (_laplace_offset(scale, precision) - log(magnitude.at(precision))) * Interval.of(scale, precision)

    z = _decided(shifted, Fraction(0))
    return -z if negative else z


@lru_cache(maxsize=256)
def gaussian_thresholds(scale: float, precision: int) -> tuple[Interval, ...]:
    """P(|Z| ≤ k) for k = 0, 1, …, up to where less than 2^−precision is left; for σ < 8."""
    return thresholds_of_variance(Fraction(scale) ** 2, precision)


def thresholds_of_variance(variance: Fraction, precision: int) -> tuple[Interval, ...]:
    """The same for the parameter σ² of the law, which need not be the square of a float."""
    bits = precision + GUARD
    one = 1 << bits
    last = max(1, math.ceil(math.sqrt(variance) * math.sqrt(2 * precision * math.log(2)))) + 1
    # The weights 2e^(−z²/2σ²) from ratios that fall by a factor, in fixed point: lower and upper bounds of each.
    (ratio_low, ratio_high), (step_low, step_high) = (
        (floor(end.low, bits), ceiling(end.high, bits)) for end in (exp(Interval.of(-1 / (d * variance), bits)) for d in (2, 1))
    )
    low = high = 2 * one
    weights = []
    for _ in range(last):
        low, high = low * ratio_low >> bits, -(-high * ratio_high >> bits)
        ratio_low, ratio_high = ratio_low * step_low >> bits, -(-ratio_high * step_high >> bits)
        weights.append((low, high))
    tails = [(0, -(-high * ratio_high // (one - ratio_high)))]  # a geometric series lies above what is left out
    for low, high in reversed(weights):
        tails.append((tails[-1][0] + low, tails[-1][1] + high))
    total_low, total_high = (one + tail for tail in tails[-1])
    shares = ((low * one // total_high, -(-high * one // total_low)) for low, high in reversed(tails))
    return tuple(Interval((one - high, -bits), (one - low, -bits), precision) for low, high in shares)


def discrete_gaussian_by_table(scale: float, word: int, more: MoreWords) -> int:
    """± the least k with |X| < P(|Z| ≤ k)."""
    magnitude, negative = signed_uniform(word, more)
    precision = FIRST_PRECISION
    while True:
        x = magnitude.at(precision)
        for k, threshold in enumerate(gaussian_thresholds(scale, precision)):
            if x.at_most(threshold):
                return -k if negative else k
            if not threshold.at_most(x):
                break
        precision *= 2


@lru_cache(maxsize=256)
def acceptance_terms(scale: float, precision: int, count: int) -> tuple[Interval, ...]:
    """Terms a_j of I(y)/I(0) = Σ_j a_j (y/σ)^(2j): a_j = E[(t/σ)^(2j)]/(2j)! for t normal(0, σ²) cut to [−½, ½]; σ ≥ 8."""
    bits = precision + GUARD
    halved = Fraction(1, 4) / Fraction(scale) ** 2  # (½/σ)²
    # ∫ (t/σ)^(2j) e^(−t²/2σ²) dt over [−½, ½] is halved^j·S_j, the exponential as its series: S_j = Σ_i (−halved/2)^i/(i!·(2(j + i) + 1)).
    # It alternates and its terms fall, so that the next one bounds the rest.
    least, most = (halved.numerator << bits) // (2 * halved.denominator), -(-(halved.numerator << bits) // (2 * halved.denominator))
    powers = [(1 << bits, 1 << bits)]
    while powers[-1][1] > 1:
        low, high = powers[-1]
        i = len(powers)
        powers.append((low * least // (i << bits), -(-high * most // (i << bits))))

    def series(j: int) -> Interval:
        low, high = 0, powers[-1][1]
        for i, power in enumerate(powers):
            below, above = power if i % 2 == 0 else (-power[1], -power[0])
            divisor = 2 * (j + i) + 1
            low, high = low + below // divisor, high - (-above // divisor)
        return Interval((low - powers[-1][1], -bits), (high, -bits), precision)

    base, factor = series(0), Interval.of(1, precision)
    terms = []
    for j in range(count):
        terms.append(series(j) * factor / base)
        factor = factor * halved / ((2 * j + 1) * (2 * j + 2))
    return tuple(terms)


def _acceptance(scale: float, y: int, precision: int) -> Interval:
    """I(0)/I(y)."""
    square = Interval.of(Fraction(y * y) / Fraction(scale) ** 2, precision)
    count = 8 + precision // 4
    total = Interval.of(0, precision)
    power = Interval.of(1, precision)
    for term in acceptance_terms(scale, precision, count):
        total = total + term * power
        power = power * square
    # |y|/σ < 200 and (t/σ)² ≤ 1/256: the terms left out are below ((y/σ)/16)^(2j)/(2j)!, which falls by half each time from here on
    while not square.at_most(512 * count * count):
        count *= 2
    left = power * Interval.of(Fraction(1, 256**count * math.factorial(2 * count)), precision) * 2
    return 1 / (total + Interval.of(0, precision).hull(left))


def round_normal(scale: float, sample: Callable[[int], Interval]) -> int:
    """The integer nearest to σN."""
    return _decided(lambda precision: sample(precision) * Interval.of(scale, precision), Fraction(1, 2))


def is_below(uniform: Uniform, bound: Callable[[int], Interval]) -> bool:
    """Whether a uniform number lies below the real number that `bound` encloses ever more tightly; they are never equal."""
    precision = FIRST_PRECISION
    while True:
        u, enclosed = uniform.at(precision), bound(precision)
        if u.at_most(enclosed):
            return True
        if enclosed.at_most(u):
            return False
        precision *= 2


def is_accepted(scale: float, y: int, uniform: Uniform) -> bool:
    """Whether the acceptance uniform lies below I(0)/I(y)."""
    return is_below(uniform, lambda precision: _acceptance(scale, y, precision))


def threshold_integers(scale: float) -> tuple[list[int], list[int]]:
    """⌊2^31 P(|Z| ≤ k)⌋ up to the fast path's tail, and ⌊2^127 P(|Z| ≤ k)⌋; exact floors."""
    precision = 320
    thresholds = gaussian_thresholds(scale, precision)
    long: list[int] = []
    for threshold in thresholds:
        # below 1 whatever the interval says, so the floor is at most 2^127 − 1; equality with an entry counts as undecided
        low, high = (min(floor(end, 127), 2**127 - 1) for end in (threshold.low, threshold.high))
        if low != high:
            break
        long.append(low)
        if low == 2**127 - 1:
            break
    short = [t >> 96 for t in long]
    limit = 2**31 - int(2**31 * TABLE_TAIL)
    enough = next((k for k, t in enumerate(short) if t >= limit), len(short) - 1)
    return short[: enough + 1], long


def selection_noise(kind: SelectionNoise, piece: int, more: MoreWords) -> Callable[[int], Interval]:
    """Noise of a contender: a decreasing function of the uniform V whose first 16 bits are `piece`."""
    is_lower = kind == "laplace" and piece >> 15 == 1
    complement = kind == "gumbel" or is_lower
    uniform = Uniform(piece ^ 0xFFFF if complement else piece, 16, more, complement=complement)  # V, or 1 − V

    def sample(precision: int) -> Interval:
        e = -log(uniform.at(precision) * (2 if kind == "laplace" else 1))
        if kind == "gumbel":
            return -log(e)
        return -e if is_lower else e

    return sample
