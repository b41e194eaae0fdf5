"""Does a call's time depend on what it draws or holds? Welch's test between two classes of calls (Reparaz, Balasch & Verbauwhede, 2017).

The calls are in random order. One class has one key and one record, the key chosen to be slow; the other has fresh keys and records. Both
read theirs from arrays of one size and copy them to one place before the clock starts: the least work that depends on a value, even
before, warms what a call then uses. What is returned is public: Python holds one object for each small integer, and a cold one takes
some 20 ns longer to return, so all of them are touched before. Slow calls, which the system has interrupted, are cropped at several
quantiles of both classes together.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dpcore import _backend
from dpcore._backend import constant
from dpcore._backend.levels import cipher_code
from dpcore._exact.probability import complement, logistic_complement
from dpcore._kernels import _noise

CALLS = 10**6
BATCH = 20_000
LIMIT = 4.5
CROPS = (0.5, 0.7, 0.8, 0.9, 0.95)
SECURE = cipher_code(secure=True)
Array = npt.NDArray[np.float64]
Timed = Callable[[bytes, Any], int]
"""Nanoseconds of one call with a key and a row of values."""
Rows = Callable[[Array], Any]
"""The rows of values that stand for records, which are numbers."""
Search = Callable[[Timed, Any], bytes]
"""A key for the calls of the first class, whose row of values is given."""


def largest_t(times: Array, is_fixed: npt.NDArray[np.bool_]) -> float:
    """The largest |t| of all crops; infinity if a crop leaves one class alone."""
    found = []
    for crop in CROPS:
        kept = times <= np.quantile(times, crop)
        a, b = times[kept & is_fixed], times[kept & ~is_fixed]
        if min(a.size, b.size) < 2:
            return math.inf
        found.append(abs(a.mean() - b.mean()) / np.sqrt(a.var() / a.size + b.var() / b.size))
    return float(max(found))


def slowest_key(timed: Timed, row: Any) -> bytes:
    """A key whose words take long, if any do."""
    keys = [os.urandom(32) for _ in range(4000)]
    first = sorted(keys, key=lambda key: min(timed(key, row) for _ in range(3)))[-40:]
    return max(first, key=lambda key: min(timed(key, row) for _ in range(20)))


def slow_key(timed: Timed, row: Any) -> bytes:
    """A key whose words take a third longer than those of others; one in some ten thousand does in the ordinary mode."""
    for _ in range(100):
        key, other = slowest_key(timed, row), os.urandom(32)
        times = np.array([[timed(key, row), timed(other, row)] for _ in range(50)]).min(axis=0)
        if times[0] > 1.33 * times[1]:
            return key
    raise AssertionError("no key is slow")


def measured(timed: Timed, rows: Rows, calls: int, record: float = 0.0, search: Search = slowest_key) -> float:
    """|t| between calls with a slow key and this record and calls with others."""
    key, plain = search(timed, rows(np.array([record]))[0]), np.random.default_rng()
    times, classes = [], []
    for _ in range(0, calls, BATCH):
        is_fixed = np.frombuffer(os.urandom(BATCH), np.uint8) % 2 == 0
        keys = np.frombuffer(os.urandom(32 * BATCH), np.uint8).reshape(BATCH, 32).copy()
        keys[is_fixed] = np.frombuffer(key, np.uint8)
        records = plain.standard_normal(BATCH) * 10.0 ** plain.integers(-6, 9, BATCH)
        records[is_fixed] = record
        values = rows(records)
        times.append(np.array([timed(keys[i].tobytes(), values[i]) for i in range(BATCH)], np.float64))
        classes.append(is_fixed)
    return largest_t(np.concatenate(times), np.concatenate(classes))


def reals(records: Array) -> Any:
    """One number a row."""
    return records.reshape(-1, 1)


def integers(records: Array) -> Any:
    """One integer a row."""
    return records.astype(np.int64).reshape(-1, 1)


def bits(records: Array) -> Any:
    """One bit a row."""
    return (records > 0).astype(np.uint8).reshape(-1, 1)


def constant_noise(kind: str, scale: float) -> Timed:
    """Constant work on one number."""
    is_real = not kind.startswith("discrete")
    x, out = np.zeros(1, np.float64 if is_real else np.int64), np.zeros(1, np.float64 if is_real else np.int64)
    if is_real:
        grid = _backend.default_grid(scale)
        law = constant._digits("discrete_laplace" if kind == "laplace" else "discrete_gaussian", np.ldexp(scale / grid, 80 - 25))
        options = {"fraction_bits": 55, "grid": grid, "least": grid * 2.0**-70, "most": grid * 2.0**200}
    else:
        law, options = constant._digits(kind, scale), {}

    def timed(key: bytes, row: Any) -> int:
        x[...] = row
        call = constant._constant.Noise(law, x, out, key, 0, 0, SECURE, **options)
        start = time.perf_counter_ns()
        call.run(0, 1)
        return time.perf_counter_ns() - start

    return timed


def ordinary_noise(scale: float) -> Timed:
    """Discrete Gaussian noise as it is by default: one proposal in 24σ² is drawn again."""
    from dpcore._backend.noise import _discrete_law

    law, x, out = _discrete_law("discrete_gaussian", scale), np.zeros(1, np.int64), np.zeros(1, np.int64)

    def timed(key: bytes, row: Any) -> int:
        x[...] = row
        call = _noise.Call(_noise.GAUSSIAN_ROUNDED, (law,), x, out, key, 0, 0, SECURE)
        start = time.perf_counter_ns()
        call.run(0, 1)
        return time.perf_counter_ns() - start

    return timed


def constant_bits() -> Timed:
    """Constant work on one bit."""
    flip = logistic_complement(1.0)
    law = constant._two_digits(flip, complement(flip))
    bit, out = np.zeros(1, np.uint8), np.zeros(1, np.uint8)

    def timed(key: bytes, row: Any) -> int:
        bit[...] = row
        call = constant._constant.Bits(law, bit, out, key, 0, 0, SECURE)
        start = time.perf_counter_ns()
        call.run(0, 1)
        return time.perf_counter_ns() - start

    return timed


SCORES = 128


def spreads(records: Array) -> Any:
    """Scores that are all equal, or spread as far as the record says."""
    return records.reshape(-1, 1) * np.linspace(-1.0, 1.0, SCORES)


def choice(noise: str, *, is_constant: bool) -> Timed:
    """A selection."""
    scores, winners = np.zeros(SCORES), tuple(range(SCORES))

    def timed(key: bytes, row: Any) -> int:
        scores[...] = row
        for winner in winners:
            hash(winner)
        start = time.perf_counter_ns()
        if is_constant:
            constant.constant_choice(noise, scores, 1.0, (key, 0, 0, True))
        else:
            _backend.select_largest(noise, scores, 1.0, 1, (key, 0, 0, True), threads=1)  # type: ignore[arg-type]
        return time.perf_counter_ns() - start

    return timed


@pytest.mark.long
@pytest.mark.parametrize(("kind", "scale"), [("discrete_gaussian", 10.0), ("discrete_laplace", 3.0), ("laplace", 1.0), ("gaussian", 1.0)])
def test_the_time_of_noise_tells_nothing(kind, scale):
    assert measured(constant_noise(kind, scale), integers if kind.startswith("discrete") else reals, CALLS) < LIMIT


@pytest.mark.long
def test_the_time_of_a_bit_tells_nothing():
    assert measured(constant_bits(), bits, CALLS, record=1.0) < LIMIT


@pytest.mark.long
def test_the_time_of_a_choice_tells_nothing():
    assert measured(choice("laplace", is_constant=True), spreads, CALLS) < LIMIT


@pytest.mark.long
def test_ordinary_noise_is_rejected():
    """Its retries and its exact tier take time."""
    assert measured(ordinary_noise(10.0), integers, 10**5, search=slow_key) > LIMIT


@pytest.mark.long
def test_an_ordinary_choice_is_rejected():
    """Equal scores leave more contenders than scores that are far apart."""
    assert measured(choice("laplace", is_constant=False), spreads, 10**5) > LIMIT
