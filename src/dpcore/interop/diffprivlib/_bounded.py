"""`randomise` of the bounded Laplace mechanisms, whose proofs are in docs/interop/diffprivlib.md: noise on a grid, drawn until it fits."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore.interop import _entering
from dpcore.interop._entering import EXACT
from dpcore.interop.diffprivlib import _scales
from dpcore.interop.diffprivlib._draws import INT64, Array, Reals, float_call, laplace, pairs, plain, stream_of
from dpcore.interop.diffprivlib._numbers import Randomise, check_numbers, is_own, one_by_one
from dpcore.rng import Stream

_SINGLE, _FIRST = 8, 16
"""Draws for one number that are made one by one, and draws of the first try of several."""
_MOST = 1 << 18
"""Draws of one try."""


def in_domain(original: Randomise, *, vectorise: bool) -> Randomise:
    """The method of LaplaceBoundedDomain: a value is clamped to the grid points of the domain, and drawn again until the sum is there."""

    def randomise(self: Any, value: Any) -> Any:
        if vectorise and type(value) is np.ndarray and value.ndim:
            self._check_all(check_numbers(value, whole=False))
            return _domain_array(self, value, original)
        self._check_all(value)
        number, domain = plain(value), _domain(self)
        if domain is None:
            return original(self, value)
        inside = min(max(number, domain.lower), domain.upper)
        if type(inside) is int:
            return _domain_draw_of_whole(inside, domain, stream_of(self))
        return _domain_draw(inside, domain, stream_of(self)) if math.isfinite(inside) else original(self, value)

    return randomise


def _domain(mechanism: Any) -> _scales.Domain | None:
    if not is_own(mechanism):
        return None
    lower, upper = float(mechanism.lower), float(mechanism.upper)
    domain = _scales.bounded_domain(mechanism.epsilon, mechanism.delta, mechanism.sensitivity, lower, upper)
    if domain is not None and mechanism._scale != domain.scale:
        mechanism._scale = domain.scale  # for `bias`, `variance` and `effective_epsilon`
    return domain


def _domain_array(mechanism: Any, values: Array, original: Randomise) -> Array:
    domain = _domain(mechanism)
    if domain is None:
        return one_by_one(mechanism, values, original)
    values = _entering.array("value", values)
    if values.dtype == np.int64 and max(-domain.lower, domain.upper) > EXACT:
        return _domain_draws(_clamped(pairs(values.ravel()), domain), domain, stream_of(mechanism)).reshape(values.shape)
    inside = np.clip(values.astype(np.float64), domain.lower, domain.upper).ravel()  # integers that are rounded here lie beyond the domain
    known = np.isfinite(inside)
    inside[known] = _domain_draws(inside[known], domain, stream_of(mechanism))
    return inside.reshape(values.shape)


def _clamped(values: npt.NDArray[np.complex128], domain: _scales.Domain) -> npt.NDArray[np.complex128]:
    """Pairs within the domain."""
    nearest, rest = values.real, values.imag
    below = (nearest < domain.lower) | ((nearest == domain.lower) & (rest < 0))
    above = (nearest > domain.upper) | ((nearest == domain.upper) & (rest > 0))
    return np.where(below, domain.lower, np.where(above, domain.upper, values))


def domain_sums(mechanism: Any, values: Reals) -> Reals:
    """Floats with the noise of LaplaceBoundedDomain; without noise, themselves."""
    mechanism._check_all(0.0)
    domain = _domain(mechanism)
    return values if domain is None else _domain_draws(np.clip(values, domain.lower, domain.upper), domain, stream_of(mechanism))


def _domain_draw(inside: float, domain: _scales.Domain, stream: Stream) -> np.float64:
    """One draw: a few times by itself, then several at a time."""
    release = float_call("laplace", domain.scale, domain.grid).release
    for _ in range(_SINGLE):
        if domain.lower <= (drawn := release(inside, stream)) <= domain.upper:
            return np.float64(drawn)
    found: np.float64 = _domain_draws(np.array([inside]), domain, stream)[0]
    return found


def _domain_draw_of_whole(inside: int, domain: _scales.Domain, stream: Stream) -> np.float64:
    """The same for an integer that float64 might lack."""
    if INT64.min <= inside <= INT64.max:
        found: np.float64 = _domain_draws(pairs(np.array([inside])), domain, stream)[0]
        return found
    while True:
        if domain.lower <= (drawn := _entering.released("laplace", inside, domain.scale, stream, domain.grid)) <= domain.upper:
            return np.float64(drawn)


def _domain_draws(inside: Array, domain: _scales.Domain, stream: Stream) -> Reals:
    scale, grid, lower, upper = domain

    def draw(missing: Array, times: int) -> tuple[Reals, Array]:
        sums = laplace(np.tile(inside[missing], (times, 1)), scale, grid, stream)
        return sums, (lower <= sums) & (sums <= upper)

    return _first_that_fit(draw, len(inside))


def with_bound(original: Randomise, *, vectorise: bool) -> Randomise:
    """The method of LaplaceBoundedNoise: a value is put on the grid, and gets the first noise that is within the bound."""

    def randomise(self: Any, value: Any) -> Any:
        if vectorise and type(value) is np.ndarray and value.ndim:
            self._check_all(check_numbers(value, whole=False))
            return _cut_array(self, value, original)
        self._check_all(value)
        number, cut = plain(value), _cut(self)
        if cut is None or not math.isfinite(number):
            return original(self, value)
        added = _cut_draw(cut, stream_of(self))
        return np.float64(_exact_sum(number, added, cut.grid) if type(number) is int else _near(number, cut.grid) + added)

    return randomise


def _cut(mechanism: Any) -> _scales.Cut | None:
    if not is_own(mechanism):
        return None
    cut = _scales.bounded_noise(mechanism.epsilon, mechanism.delta, mechanism.sensitivity)
    if cut is not None:
        mechanism._scale, mechanism._noise_bound = cut.scale, cut.bound
    return cut


def _cut_array(mechanism: Any, values: Array, original: Randomise) -> Array:
    cut = _cut(mechanism)
    if cut is None:
        return one_by_one(mechanism, values, original)
    values = _entering.array("value", values)
    added = _cut_noise(values.size, cut, stream_of(mechanism)).reshape(values.shape)
    noisy = _on_grid(values.astype(np.float64), cut.grid) + added  # NaN and infinities stay what they are
    if values.dtype == np.int64 and (long := (values > EXACT) | (values < -EXACT)).any():
        noisy[long] = [_exact_sum(number, each, cut.grid) for number, each in zip(values[long].tolist(), added[long].tolist(), strict=True)]
    return noisy


def _on_grid(values: Reals, grid: float) -> Reals:
    """The nearest multiples of the grid, the upper one of two: so this commutes with every step, and ties to even would not.

    From 2^53 of its steps on every float64 is one.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        steps = values / grid
        whole = np.floor(steps)
        return np.where(np.abs(values) < grid * 2.0**53, (whole + (steps - whole >= 0.5)) * grid, values)


def _near(number: float, grid: float) -> float:
    """The same for one float."""
    if abs(number) >= grid * 2.0**53:
        return number
    steps = number / grid
    whole = math.floor(steps)
    return (whole + (steps - whole >= 0.5)) * grid


def _exact_sum(number: int, added: float, grid: float) -> float:
    """The same for an integer that float64 might lack, with noise added."""
    step = Fraction(grid)
    total = math.floor(number / step + Fraction(1, 2)) * step + Fraction(added)
    try:
        return float(total)
    except OverflowError:  # beyond the floats
        return math.inf if total > 0 else -math.inf


def _cut_draw(cut: _scales.Cut, stream: Stream) -> float:
    release = float_call("laplace", cut.scale, cut.grid).release
    for _ in range(_SINGLE):
        if abs(drawn := release(0.0, stream)) <= cut.bound:
            return float(drawn)
    return float(_cut_noise(1, cut, stream)[0])


def _cut_noise(size: int, cut: _scales.Cut, stream: Stream) -> Reals:
    def draw(missing: Array, times: int) -> tuple[Reals, Array]:
        drawn = laplace(np.zeros((times, missing.size)), cut.scale, cut.grid, stream)
        return drawn, np.abs(drawn) <= cut.bound

    return _first_that_fit(draw, size)


def _first_that_fit(draw: Callable[[Array, int], tuple[Reals, Array]], size: int) -> Reals:
    """For each place the first of independent draws that fits; as many as it takes, more at a time where it takes many."""
    out = np.empty(size)
    missing, times = np.arange(size), _FIRST if size == 1 else 1
    while missing.size:
        drawn, fits = draw(missing, times)
        found = fits.any(axis=0)
        out[missing[found]] = drawn[fits.argmax(axis=0)[found], np.flatnonzero(found)]
        missing = missing[~found]
        times = max(1, min(2 * times, _MOST // max(1, missing.size)))
    return out
