"""The exact tier's own arithmetic, against mpmath and against fractions: every bound that docs/exactness.md proves, and no state."""

from __future__ import annotations

import inspect
import math
import random
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from mpmath import libmp

from dpcore._exact import elementary, intervals
from dpcore._exact.elementary import CONSTANT_BITS, ERROR
from dpcore._exact.intervals import Interval, cos_sin_of_turns, exactly

PRECISIONS = (8, 16, 40, 64, 100, 160, 192, 256, 500, 700, 735, 736, 737, 900, 1600)
MP = mpmath.MPContext()


def units_off(found: int, truth: Any, precision: int) -> Any:
    """Distance from the truth in units of 2^-precision."""
    return abs(MP.mpf(found) - truth * MP.mpf(2) ** precision)


def points(low: Fraction, high: Fraction, precision: int, n: int) -> list[int]:
    """Numbers of the domain: random ones, both ends, and what is next to 0 and 1."""
    source = random.Random(precision)
    first, last = math.ceil(low * 2**precision), math.floor(high * 2**precision)
    near = [middle + step for middle in (0, 1 << precision) for step in range(-3, 4)]
    return [first, last, *(x for x in near if first <= x <= last), *(source.randint(first, last) for _ in range(n))]


FUNCTIONS: dict[str, tuple[Callable[[int, int], int], Callable[[Any], Any], Fraction, Fraction]] = {
    "log": (elementary.log, MP.log, Fraction(2, 3), Fraction(4, 3)),
    "exp": (elementary.exp, MP.exp, Fraction(-1, 8), Fraction(3, 4)),
    "cos": (lambda x, p: elementary.cos_sin(x, p)[0], MP.cos, Fraction(-1), Fraction(1)),
    "sin": (lambda x, p: elementary.cos_sin(x, p)[1], MP.sin, Fraction(-1), Fraction(1)),
}


@pytest.mark.some(26)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_as_near_as_stated(name: str, precision: int) -> None:
    found, truth, low, high = FUNCTIONS[name]
    MP.prec = precision + 100
    worst = max(units_off(found(x, precision), truth(MP.mpf(x) / 2**precision), precision) for x in points(low, high, precision, 60))
    assert worst <= ERROR


@pytest.mark.parametrize("precision", [1, 64, 700, CONSTANT_BITS, CONSTANT_BITS + 1, 10_000])
def test_constants_are_as_near_as_stated(precision: int) -> None:
    MP.prec = precision + 100
    assert units_off(elementary.pi(precision), +MP.pi, precision) <= ERROR
    assert units_off(elementary.ln2(precision), +MP.ln2, precision) <= ERROR


def test_bernoulli_numbers() -> None:
    assert [elementary.bernoulli(n) for n in range(2, 140, 2)] == [Fraction(*map(int, libmp.bernfrac(n))) for n in range(2, 140, 2)]


# Intervals


def some_interval(source: random.Random, precision: int) -> Interval:
    """Ends of both signs, of very different sizes, near one another, or 0."""

    def end() -> Fraction:
        size = source.choice([0, 1, 5, precision // 2, precision, 3 * precision])
        return Fraction(source.randint(-(1 << size), 1 << size)) * Fraction(2) ** source.choice([-900, -60, -3, 0, 2, 70, 900])

    low = end()
    high = low if source.random() < 0.2 else low + abs(end()) if source.random() < 0.7 else end()
    ends = [(x.numerator, 1 - x.denominator.bit_length()) for x in sorted((low, high))]
    return Interval(ends[0], ends[1], precision)


def members(x: Interval) -> list[Fraction]:
    """Both ends and the middle."""
    low, high = exactly(x.low), exactly(x.high)
    return [low, (low + high) / 2, high]


def holds(x: Interval, value: Fraction) -> bool:
    """Whether a number lies inside, ends that are infinite included."""
    return (x.low[1] == math.inf or exactly(x.low) <= value) and (x.high[1] == math.inf or value <= exactly(x.high))


@pytest.mark.long
@pytest.mark.parametrize("precision", [8, 53, 200])
def test_operations_hold_all_results_and_are_hardly_wider(precision: int) -> None:
    source = random.Random(precision)
    for _ in range(500):
        x, y = some_interval(source, precision), some_interval(source, precision)
        a, b = members(x), members(y)
        assert all(holds(x + y, s + t) and holds(x - y, s - t) and holds(x * y, s * t) for s in a for t in b)
        assert all(holds(x / y, s / t) for s in a for t in b if t)
        assert holds(x.middle(), exactly(x.middle().low))
        assert x.at_most(y) == (a[2] <= b[0])
        for found, exact in ((x + y, [a[0] + b[0], a[2] + b[2]]), (x * y, sorted(s * t for s in (a[0], a[2]) for t in (b[0], b[2])))):
            for end, value in ((found.low, exact[0]), (found.high, exact[-1])):
                assert abs(exactly(end) - value) <= abs(value) * Fraction(1, 2 ** (precision - 1))


def test_divisors_that_hold_zero() -> None:
    one, zero_to_two = Interval.of(1, 64), Interval.of(0, 64).hull(2)
    assert ((one / zero_to_two).lower(), (one / zero_to_two).upper()) == (0.5, math.inf)
    assert ((one / -zero_to_two).lower(), (one / -zero_to_two).upper()) == (-math.inf, -0.5)
    assert ((-one / zero_to_two).lower(), (-one / zero_to_two).upper()) == (-math.inf, -0.5)
    assert ((one / (zero_to_two - 1)).lower(), (one / (zero_to_two - 1)).upper()) == (-math.inf, math.inf)
    assert (one / (one / zero_to_two)).at_most(2)


ELEMENTARY = {
    "exp": (intervals.exp, MP.exp, (-3000, 1200)),
    "log": (intervals.log, MP.log, (-1200, 1200)),
    "sqrt": (intervals.sqrt, MP.sqrt, (-1200, 1200)),
    "cos": (lambda x: cos_sin_of_turns(x)[0], lambda x: MP.cos(2 * MP.pi * x), (-1200, 3)),
    "sin": (lambda x: cos_sin_of_turns(x)[1], lambda x: MP.sin(2 * MP.pi * x), (-1200, 3)),
}


def real(point: tuple[int, int | float]) -> Any:
    """An end as mpmath's number."""
    return MP.ldexp(MP.mpf(point[0]), int(point[1]))


@pytest.mark.some(2)
@pytest.mark.parametrize("precision", [53, 160, 300, 900])
@pytest.mark.parametrize("name", ELEMENTARY)
def test_functions_of_intervals_hold_the_truth_and_are_narrow(name: str, precision: int) -> None:
    enclose, truth, (smallest, largest) = ELEMENTARY[name]
    source = random.Random(precision)
    MP.prec = 4000
    for _ in range(60):
        size = source.choice([1, 30, precision, 2 * precision])
        exponent = source.choice([smallest, -precision - 20, -precision, -40, -2, 0, 1, 10 if name == "exp" else min(40, largest)]) - size
        mantissa = source.choice([(1 << size) - 1, source.getrandbits(size) | 1 << (size - 1)])
        if source.random() < 0.2 and name != "exp":
            mantissa, exponent = (1 << size) + source.choice([-1, 1]), -size  # next to 1
        if name in {"exp", "cos", "sin"} and source.random() < 0.5:
            mantissa = -mantissa
        point = mantissa, exponent
        found, exact = enclose(Interval(point, point, precision)), truth(real(point))
        assert real(found.low) <= exact <= real(found.high)
        width = real(found.high) - real(found.low)
        assert width <= MP.ldexp(1 if name in {"cos", "sin"} else abs(exact), 4 - precision)
        wider = Interval(point, (mantissa + source.choice([1, 1 << max(0, size - 3)]), exponent), precision)
        around = enclose(wider)
        for inside in (wider.low, wider.high, ((wider.low[0] + wider.high[0]), exponent - 1)):
            assert real(around.low) <= truth(real(inside)) <= real(around.high)


def test_ends_at_the_edge_of_the_domain() -> None:
    zero_to_one = Interval.of(0, 64).hull(1)
    assert intervals.log(zero_to_one).lower() == -math.inf
    assert intervals.log(zero_to_one).upper() == 0.0
    assert intervals.exp(intervals.log(zero_to_one)).lower() == 0.0
    assert intervals.sqrt(zero_to_one - 0.5).lower() == 0.0
    assert intervals.exp(Interval.of(math.inf, 64)).upper() == math.inf
    with pytest.raises(ValueError, match="negative"):
        intervals.log(zero_to_one - 0.5)


# Nothing is stored


def test_the_modules_store_nothing() -> None:
    """Their names stand for functions, classes, types, modules, numbers and tuples of numbers: nothing that a call could change."""
    for module in (elementary, intervals):
        for name, value in vars(module).items():
            if not name.startswith("__") and name != "annotations":
                constant = isinstance(value, int | float) or (isinstance(value, tuple) and all(isinstance(x, int | float) for x in value))
                assert constant or callable(value) or inspect.ismodule(value) or name in {"Number", "Endpoint"}, name


@pytest.mark.long
def test_run_time_needs_no_mpmath() -> None:
    program = (
        "import sys; sys.modules['mpmath'] = None\n"
        "import pkgutil, importlib, dpcore\n"
        "from dpcore._exact import handover, probability, sampling, tails\n"
        "from dpcore import accounting, local, distributions, selection, inference, noise\n"
        "print(accounting.gaussian_delta if hasattr(accounting, 'gaussian_delta') else 'fine')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
