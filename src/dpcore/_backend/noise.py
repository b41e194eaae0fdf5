"""Exact noise: laws, calls, and the hand-over to the exact tier."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpcore._backend import threads as sizes
from dpcore._backend.hooks import Testing
from dpcore._backend.levels import cipher_code, secure_cipher
from dpcore._backend.threads import for_ranges
from dpcore._backend.words import KernelWords, Position, call_words
from dpcore._exact.pending import TABLE_LIMIT, Kind, Pending
from dpcore._kernels import _noise
from dpcore.errors import DataError

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_STREAMED = 1 << 24
"""Bytes of results from which on none of them is expected to be read again from a cache."""
_FLOAT_KINDS = {"laplace": _noise.LAPLACE, "gaussian": _noise.GAUSSIAN}


def _exact_real(kind: Kind, words: KernelWords, item: Pending, scale: float, grid: float) -> float:
    from dpcore._exact.handover import real  # the exact tier, which most processes do not need

    return real(kind, words, item, scale, grid)


def _exact_integer(kind: Kind, words: KernelWords, item: Pending, scale: float) -> int:
    from dpcore._exact.handover import integer

    return integer(kind, words, item, scale)


# Laws


@lru_cache(maxsize=1024)
def _float_law(kind: Kind, scale: float, grid: float) -> Any:
    return _noise.Law(_FLOAT_KINDS[kind], scale, grid)


@lru_cache(maxsize=4096)
def _discrete_law(kind: Kind, scale: float) -> Any:
    from dpcore._exact import sampling

    if kind == "discrete_laplace":
        return _noise.Law(_noise.DISCRETE_LAPLACE, scale, offset=sampling.laplace_offset(scale))
    if scale < TABLE_LIMIT:
        short, long = sampling.threshold_integers(scale)
        return _noise.Law(_noise.GAUSSIAN_TABLE, scale, short=short, long=long)
    terms = [term.upper() for term in sampling.acceptance_terms(scale, 128, 12)]
    quick = 2.0**16 / 24 / scale / scale / scale / scale * (1 + 2.0**-40)
    return _noise.Law(_noise.GAUSSIAN_ROUNDED, scale, terms=terms, quick=quick)


class Bounds(NamedTuple):
    """Bounds to which the kernels clamp numbers, and the number for NaN; without `missing`, NaN is refused."""

    lower: float
    upper: float
    missing: float | None

    def fields(self) -> tuple[float, float, float, int, int, bool]:
        """The arguments of the kernels. Integers are clamped as integers if every bound is in int64."""
        given = [number for number in self if number is not None]
        integral = all(float(number).is_integer() and INT64_MIN <= number <= INT64_MAX for number in given)
        lower, upper = (int(self.lower), int(self.upper)) if integral else (0, 0)
        return float(self.lower), float(self.upper), math.nan if self.missing is None else float(self.missing), lower, upper, integral


def short_float_call(kind: Kind, scale: float, grid: float, bounds: Bounds | None) -> Any:
    """The entry for numbers and short arrays, whose `release(values, stream)` is None for anything else. Keep it for further calls."""

    def whole(values: npt.NDArray[Any], position: Position) -> npt.NDArray[np.float64]:
        return float_noise(kind, values, scale, grid, position, out=None, threads=1, bounds=bounds)

    return _short_call(_float_law(kind, scale, grid), bounds, whole)


def short_int_call(kind: Kind, scale: float, bounds: Bounds | None) -> Any:
    """As `short_float_call`, for integers."""

    def whole(values: npt.NDArray[Any], position: Position) -> npt.NDArray[np.int64]:
        return int_noise(kind, values, scale, position, out=None, threads=1, bounds=bounds)

    return _short_call(_discrete_law(kind, scale), bounds, whole)


def _short_call(law: Any, bounds: Bounds | None, whole: Callable[[npt.NDArray[Any], Position], npt.NDArray[Any]]) -> Any:
    return _noise.ShortCall(law, None if bounds is None else bounds.fields(), sizes, Testing, secure_cipher, whole)


def _finish(call: Any, out: npt.NDArray[Any], resolve: Callable[[Pending], Any], start: int, stop: int) -> None:
    """Run one range. The kernels do not write pending samples; each is written when the exact tier has decided it."""
    while start < stop:
        status, reached, pending = call.run(start, stop)
        if pending:
            with np.errstate(over="ignore"):  # of an array of float32
                for fields in pending:
                    out.flat[fields[0]] = resolve(Pending(*fields))
        if status == _noise.NONFINITE:
            raise _UnfitError
        start = reached


class _UnfitError(Exception):
    """A value to which no noise is added. The first one is searched for afterwards, because threads find them in any order."""


def _first(search: Callable[[int, int], int], size: int, threads: int | None) -> int:
    """The first position that `search` finds, or -1."""
    if size <= sizes.SMALL:
        return search(0, size)
    found: list[int] = []

    def look(start: int, stop: int) -> None:
        position = search(start, stop)
        if position >= 0:
            found.append(position)

    for_ranges(look, size, threads)
    return min(found, default=-1)


def _check_values(call: Any, values: npt.NDArray[Any], bounds: Bounds | None, threads: int | None) -> None:
    """Refuse NaN, and infinities if there are no bounds."""
    if values.dtype.kind not in "fc" or (bounds is not None and bounds.missing is not None):
        return
    position = _first(call.first_nonfinite if bounds is None else call.first_nan, values.size, threads)
    if position < 0:
        return
    index = tuple(int(i) for i in np.unravel_index(position, values.shape)) if values.shape else ()
    if bounds is None:
        raise DataError(f"values must be finite; the number at index {index} is not")
    raise DataError(f"records must not hold NaN unless `missing` names a number for it; the number at index {index} is NaN")


def float_noise(
    kind: Kind,
    values: npt.NDArray[Any],
    scale: float | npt.NDArray[np.float64],
    grid: float | None,
    position: Position,
    *,
    out: npt.NDArray[np.float64] | None,
    threads: int | None,
    bounds: Bounds | None = None,
) -> npt.NDArray[np.float64]:
    """x + noise on every element, x clamped if there are bounds; arguments are valid.

    `grid` None only with an array of scales: the default of each. At every instant an element of `out` is what it was before or what is
    released.
    """
    key, nonce, first, secure = position
    cipher = cipher_code(secure=secure)
    result = np.empty(values.shape, np.float64) if out is None else out
    scales = None if isinstance(scale, float) else _spread(scale, values.shape)
    law = _float_law(kind, scale, grid) if isinstance(scale, float) and grid is not None else _float_law(kind, 1.0, 1.0)
    call = _noise.Call(
        _FLOAT_KINDS[kind], (law,), values, result, key, nonce, first, cipher, scales=scales,
        bounds=None if bounds is None else bounds.fields(), fixed_grid=grid or 0.0, tier=Testing.tier, bound_factor=Testing.bound_factor,
        streams=streams(values, out),
    )  # fmt: skip
    if out is not None and np.may_share_memory(out, values):  # elsewhere, blocks before the number that is refused stay released
        _check_values(call, values, bounds, threads)
    words = KernelWords(key, nonce, cipher)

    def resolve(item: Pending) -> float:
        own = scale if isinstance(scale, float) else float(scales.flat[item.index])  # type: ignore[union-attr]
        return _exact_real(kind, words, item, own, grid if grid is not None else default_grid(own))

    try:
        for_ranges(lambda start, stop: _finish(call, result, resolve, start, stop), values.size, threads)
    except _UnfitError:
        _check_values(call, values, bounds, threads)
        raise DataError("values must not be changed by another thread during the call") from None
    return result


def fraction_noise(kind: Kind, value: Fraction, scale: float, grid: float, position: Position) -> float:
    """x + noise for a number that may be no float, by the exact tier. Of a float it is what `float_noise` gives."""
    from dpcore._exact.handover import fraction

    first = position[2]
    return fraction(kind, call_words(position), first, value, scale, grid)


def streams(values: npt.NDArray[Any], out: npt.NDArray[Any] | None) -> bool:
    """Whether results are stored past the cache: those that do not fit, where memory that the system has just cleared is in it."""
    return out is not None and out.nbytes >= _STREAMED and not np.may_share_memory(out, values)


def _spread(scales: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    return scales if scales.shape == shape else np.broadcast_to(scales, shape)


def default_grid(scale: float) -> float:
    """2^(⌊log2 scale⌋ − 25)."""
    return math.ldexp(1.0, math.frexp(scale)[1] - 26)


class Numbered(NamedTuple):
    """An array of scales as its distinct ones, and the index of each element's; None if there is one."""

    distinct: tuple[float, ...]
    which: npt.NDArray[Any] | None


def numbered(scales: npt.NDArray[Any], low: float = -math.inf, high: float = math.inf) -> Numbered | None:
    """Number scales by their bits, each being read once; None if they are too many for that, or one is not in (low, high]."""
    which = np.empty(scales.size, np.uint16)
    distinct = _noise.number_distinct(scales, which, low, high)
    return None if distinct is None else Numbered(distinct, which.reshape(scales.shape) if len(distinct) > 1 else None)


def numbered_scales(scale: object, low: float, high: float, shape: tuple[int, ...]) -> Numbered | None:
    """Number a scale for each of some values, the distinct ones in (low, high]; None for all else, and where one is refused."""
    if type(scale) is not np.ndarray or scale.shape != shape or not scale.size or not shape or scale.dtype not in _noise.REALS:
        return None
    return numbered(scale, low, high)


def _distinct(
    scale: float | npt.NDArray[np.float64] | Numbered, shape: tuple[int, ...]
) -> tuple[tuple[float, ...], npt.NDArray[Any] | None]:
    """The distinct scales, and the index of each element's scale; computed before broadcasting, so a row of scales costs one row."""
    if isinstance(scale, float):
        return (scale,), None
    found = scale if isinstance(scale, Numbered) else numbered(scale) or _sorted(scale)
    return found.distinct or (1.0,), None if found.which is None else _spread(found.which, shape)


def _sorted(scales: npt.NDArray[np.float64]) -> Numbered:
    """The same for any number of distinct scales."""
    distinct, inverse = np.unique(scales, return_inverse=True)
    return Numbered(tuple(distinct.tolist()), inverse.reshape(scales.shape).astype(np.int64))


@lru_cache(maxsize=16)
def _laws(kind: Kind, scales: tuple[float, ...]) -> Any:
    return _noise.Laws(tuple(_discrete_law(kind, scale) for scale in scales))


def int_noise(
    kind: Kind,
    values: npt.NDArray[Any],
    scale: float | npt.NDArray[np.float64] | Numbered,
    position: Position,
    *,
    out: npt.NDArray[np.int64] | None,
    threads: int | None,
    bounds: Bounds | None = None,
) -> npt.NDArray[np.int64]:
    """x + integer noise on every element, saturating, x clamped if there are bounds; arguments are valid. `out` as in `float_noise`."""
    key, nonce, first, secure = position
    cipher = cipher_code(secure=secure)
    result = np.empty(values.shape, np.int64) if out is None else out
    scales, which = _distinct(scale, values.shape)
    if kind == "discrete_laplace":
        code = _noise.DISCRETE_LAPLACE
    else:  # of several laws each has its own kind
        code = _noise.GAUSSIAN_TABLE if which is not None or scales[0] < TABLE_LIMIT else _noise.GAUSSIAN_ROUNDED
    call = _noise.Call(
        code, _laws(kind, scales), values, result, key, nonce, first, cipher, which=which,
        bounds=None if bounds is None else bounds.fields(), tier=Testing.tier, bound_factor=Testing.bound_factor,
        streams=streams(values, out),
    )  # fmt: skip
    words = KernelWords(key, nonce, cipher)

    def resolve(item: Pending) -> int:
        return _exact_integer(kind, words, item, scales[item.law])

    for_ranges(lambda start, stop: _finish(call, result, resolve, start, stop), values.size, threads)
    return result
