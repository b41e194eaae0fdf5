"""What reaches the noise of diffprivlib's mechanisms: no conversion moves two neighbours further apart.

Distances are computed in rationals. The twins that are rejected are the conversions of before: `float`, and ties to even.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import diffprivlib.mechanisms as peer
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpcore.interop import diffprivlib as backend

LONG = np.finfo(np.longdouble).nmant > np.finfo(float).nmant


@pytest.fixture
def served() -> Iterator[None]:
    """dpcore beneath diffprivlib, arrays included."""
    with backend.install(vectorise=True):
        yield


# One number: every type that diffprivlib's check admits, at the borders of what float64 and int64 hold

BORDERS = [2**53, 2**62, 2**63, 2**64, 2**70]


def around(border: int) -> Iterator[tuple[int, int]]:
    """Integers beside each other: at the border, and where the nearest float changes."""
    half = max(1, border >> 53)
    for start in (border - 1, border, border + half // 2, border + half - 1, border + half, border + 3 * half):
        yield start, start + 1
        yield -start, -start - 1


INTEGERS: dict[str, Callable[[int], Any]] = {
    "int": int, "int64": np.int64, "uint64": np.uint64, "int32": np.int32, "uint32": np.uint32, "int16": np.int16, "uint16": np.uint16,
    "int8": np.int8, "uint8": np.uint8, "longlong": np.longlong, "ulonglong": np.ulonglong,
}  # fmt: skip
FLOATS = {"float": float, "float64": np.float64, "float32": np.float32, "float16": np.float16}
REAL_MECHANISMS: dict[str, Callable[[float], Any]] = {
    "Laplace": lambda d: peer.Laplace(epsilon=1, sensitivity=d),
    "LaplaceTruncated": lambda d: peer.LaplaceTruncated(epsilon=1, sensitivity=d, lower=-1e30, upper=1e30),
    "LaplaceFolded": lambda d: peer.LaplaceFolded(epsilon=1, sensitivity=d, lower=-1e30, upper=1e30),
    "LaplaceBoundedDomain": lambda d: peer.LaplaceBoundedDomain(epsilon=1, sensitivity=d, lower=-(2.0**90), upper=2.0**90),
    "LaplaceBoundedNoise": lambda d: peer.LaplaceBoundedNoise(epsilon=1, delta=1e-6, sensitivity=d),
    "Gaussian": lambda d: peer.Gaussian(epsilon=1, delta=1e-2, sensitivity=d),
    "GaussianAnalytic": lambda d: peer.GaussianAnalytic(epsilon=1, delta=1e-2, sensitivity=d),
}
WHOLE_MECHANISMS: dict[str, Callable[[int], Any]] = {
    "Geometric": lambda d: peer.Geometric(epsilon=1, sensitivity=d),
    "GeometricTruncated": lambda d: peer.GeometricTruncated(epsilon=1, sensitivity=d, lower=-(2**80), upper=2**80),
    "GeometricFolded": lambda d: peer.GeometricFolded(epsilon=1, sensitivity=d, lower=-(2**61), upper=2**61),
    "GaussianDiscrete": lambda d: peer.GaussianDiscrete(epsilon=1, delta=1e-2, sensitivity=d),
}
MECHANISMS = {**REAL_MECHANISMS, **WHOLE_MECHANISMS}


def neighbours(kind: str) -> list[tuple[Any, Any]]:
    """Pairs of one type at distance 1."""
    make, found = INTEGERS[kind], []
    for border in [*BORDERS, 127, 255, 32767, 65535]:
        for pair in around(border):
            held = kind == "int" or all(np.iinfo(make).min <= each <= np.iinfo(make).max for each in pair)
            found += [(make(pair[0]), make(pair[1]))] if held else []
    return found


def overlap(mechanism: Any, one: Any, other: Any, draws: int = 40) -> bool:
    """Whether two values give some result in common: at distances of a scale, 40 draws of each on a few floats miss one with 10^-9."""
    first = {mechanism.randomise(one) for _ in range(draws)}
    return any(mechanism.randomise(other) in first for _ in range(4 * draws))


@pytest.mark.parametrize("number", [2**64, -(2**70), 2**89, 10**400])
@pytest.mark.parametrize("name", REAL_MECHANISMS)
def test_an_integer_and_the_same_float_have_results_in_common(name: str, number: int, served: None) -> None:
    """Which of two types a sum has may depend on a record."""
    same = float(min(number, int(np.finfo(float).max)))
    mechanism = REAL_MECHANISMS[name](1)
    assert mechanism.randomise(number) == mechanism.randomise(same)


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("name", MECHANISMS)
def test_integers_beside_each_other_have_results_in_common(name: str, kind: str, served: None) -> None:
    mechanism = MECHANISMS[name](1)
    pairs = neighbours(kind)
    if name in REAL_MECHANISMS:  # results of real mechanisms are as fine as 2^-26, and meet only where floats are rarer than that
        pairs = [pair for pair in pairs if abs(int(pair[0])) >= 2**53]
    for one, other in pairs:
        assert overlap(mechanism, one, other), f"a pair of {kind} beside each other"


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("name", REAL_MECHANISMS)
def test_a_float_and_the_next_have_results_in_common(name: str, kind: str, served: None) -> None:
    make = FLOATS[kind]
    for border in (2.0**53, 2.0**63, 2.0**64, 2.0**70):
        one = make(border) if kind != "float16" else make(60000)
        other = make(np.nextafter(one, make(math.inf)))
        if kind in ("float32", "float16"):  # their distance is of many floats; that it is exact is tested below
            assert math.isfinite(REAL_MECHANISMS[name](float(other) - float(one)).randomise(other))
        else:
            assert overlap(REAL_MECHANISMS[name](float(other) - float(one)), one, other)


@pytest.mark.parametrize("dtype", ["<i8", "<u8", "<f8", ">i8", ">u8", ">f8"])
@pytest.mark.parametrize("name", MECHANISMS)
def test_arrays_have_results_in_common(name: str, dtype: str, served: None) -> None:
    floats = dtype.endswith("f8")
    if floats and name in WHOLE_MECHANISMS:
        with pytest.raises(TypeError, match="must be an integer"):
            MECHANISMS[name](1).randomise(np.zeros(3))
        return
    ends = {"i": (-(2**63), 2**63 - 1), "u": (0, 2**64 - 1), "f": (-(2**62), 2**62)}[dtype[1]]
    pairs = [pair for border in BORDERS for pair in around(border) if ends[0] <= min(pair) and max(pair) <= ends[1] and border <= 2**64]
    mechanism = MECHANISMS[name](1)
    for one, other in pairs:
        if (floats and float(one) != one) or abs(one) < 2**53:
            continue
        far = np.nextafter(float(one), math.copysign(math.inf, one)) if floats else other
        if floats:
            mechanism = MECHANISMS[name](abs(far - one))
        first, second = (mechanism.randomise(np.full(300, each, dtype)) for each in (one, far))
        assert set(first.tolist()) & set(second.tolist())


@pytest.mark.parametrize("name", MECHANISMS)
def test_arrays_of_bools_are_zeros_and_ones(name: str, served: None) -> None:
    noisy = MECHANISMS[name](1).randomise(np.array([True, False]))
    assert noisy.shape == (2,)
    assert np.isfinite(noisy).all()


REFUSED: dict[str, Any] = {"Fraction": Fraction(1, 3), "timedelta64": np.timedelta64(3, "s")}
if LONG:
    REFUSED["longdouble"] = np.longdouble(1) / 3


class Number(int):
    """An integer of somebody else."""


REFUSED["a class of one's own"] = Number(3)


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("name", MECHANISMS)
def test_what_passes_the_peers_check_and_is_not_exact_is_refused_without_its_value(name: str, kind: str, served: None) -> None:
    mechanism = MECHANISMS[name](1)
    with pytest.raises(TypeError) as found:
        mechanism.randomise(REFUSED[kind])
    if kind != "Fraction" or name in REAL_MECHANISMS:
        if kind == "longdouble" and name in WHOLE_MECHANISMS:
            return  # diffprivlib's own words
        assert "must be a float or an integer of Python or NumPy" in str(found.value)
    assert "3" not in str(found.value).replace("float64", "").replace("int64", "")


@pytest.mark.skipif(not LONG, reason="here longdouble is float64")
@pytest.mark.parametrize("name", MECHANISMS)
def test_arrays_of_longdouble_are_refused(name: str, served: None) -> None:
    with pytest.raises(TypeError, match="must be"):
        MECHANISMS[name](1).randomise(np.zeros(3, np.longdouble))


def test_what_diffprivlib_itself_refuses_is_refused_in_its_words(served: None) -> None:
    from decimal import Decimal

    for value in ("3", Decimal(3), None, 3j, np.True_):
        with pytest.raises(TypeError, match="Value to be randomised must be"):
            peer.Laplace(epsilon=1, sensitivity=1).randomise(value)


def exactly(number: Any) -> Fraction:
    return Fraction(int(number)) if isinstance(number, int | np.integer) else Fraction(float(number))


numbers = st.one_of(
    st.integers(-(2**75), 2**75),
    st.sampled_from([sign * (border + step) for border in BORDERS for step in range(-3, 4) for sign in (1, -1)]),
)


def comes_no_further_apart(plain: Callable[[Any], Any], number: int, step: int) -> bool:
    """Whether what enters the noise of two integers keeps their order, and is at most as far apart as they are."""
    return 0 <= exactly(plain(number + step)) - exactly(plain(number)) <= step


@given(numbers, st.integers(1, 2**20))
def test_integers_are_never_moved_apart(number: int, step: int) -> None:
    from dpcore.interop.diffprivlib import _draws

    assert comes_no_further_apart(_draws.plain, number, step)
    inside = [each for each in (number, number + step) if -(2**63) <= each < 2**63]
    if inside:
        pairs = _draws.pairs(np.array(inside, np.int64))
        assert [Fraction(pair.real) + Fraction(pair.imag) for pair in pairs.tolist()] == inside
        assert all(pair.real == float(each) for pair, each in zip(pairs.tolist(), inside, strict=True))


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_floats_are_exact(kind: str) -> None:
    from dpcore.interop.diffprivlib import _draws

    for value in (0.1, -3.3, 6e4, 2.0**-24):
        one = np.dtype(kind).type(value)
        for each in (one, np.nextafter(one, np.dtype(kind).type(math.inf))):
            assert Fraction(_draws.plain(each)) == Fraction(float(each))


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name != "LaplaceBoundedDomain"])
def test_rounding_to_the_nearest_float_is_rejected(name: str, served: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the property of what enters, and by what comes out of each mechanism whose results are finer than floats near its bounds."""
    from dpcore.interop.diffprivlib import _bounded, _draws

    pairs = [pair for border in BORDERS for pair in around(border)]
    assert not all(comes_no_further_apart(float, near, 1) for near, far in pairs if far > near)
    monkeypatch.setattr(_draws, "plain", float)
    monkeypatch.setattr(_bounded, "plain", float)
    assert not all(overlap(MECHANISMS[name](1), one, other) for one, other in pairs)


def commutes(near: Callable[[float, float], float], steps: float, move: int, grid: float) -> bool:
    """Whether rounding to a grid commutes with a move along it, where floats have both ends, and goes no further than half a step."""
    one, other = steps * grid, steps * grid + move * grid
    if Fraction(other) - Fraction(one) != move * Fraction(grid):
        return True
    return near(other, grid) - near(one, grid) == move * grid and abs(near(one, grid) - one) <= grid / 2


@given(st.floats(-100, 100), st.integers(1, 1000), st.integers(-3, 3))
@example(0.5, 3, 0)
def test_the_grid_of_bounded_noise_commutes_with_steps(steps: float, move: int, scale: int) -> None:
    from dpcore.interop.diffprivlib import _bounded

    for near in (_bounded._near, lambda x, grid: float(_bounded._on_grid(np.array([x]), grid)[0])):
        assert commutes(near, steps, move, 2.0**scale)


def test_ties_to_even_are_rejected() -> None:
    def to_even(x: float, grid: float) -> float:
        return round(x / grid) * grid

    for scale in range(-3, 4):
        assert not commutes(to_even, 0.5, 3, 2.0**scale)
        assert commutes(to_even, 0.25, 3, 2.0**scale)


UTILITIES = [[2**60 + 1, 0], [2**60 + 1, 0.5], [2**63, 0], [2**63, -0.5]]


@pytest.mark.parametrize("utility", UTILITIES, ids=str)
@pytest.mark.parametrize("kind", [peer.Exponential, peer.PermuteAndFlip])
def test_a_score_is_the_same_in_any_company(kind: Any, utility: list[Any]) -> None:
    from dpcore.interop.diffprivlib import _choices

    together, alone = _choices._floats("utility", utility), [_choices._floats("utility", [each])[0] for each in utility]
    assert together.dtype == np.float64
    assert together.tolist() == alone
    moved = _choices._floats("utility", [utility[0] + 1, utility[1]])
    assert np.abs(moved - together).max() <= 1
    with backend.install():
        assert kind(epsilon=1, sensitivity=1, utility=utility).randomise() == 0
        if LONG:
            with pytest.raises(TypeError, match="utility must hold floats and integers"):
                kind(epsilon=1, sensitivity=1, utility=[np.longdouble(1) / 3, 1]).randomise()
