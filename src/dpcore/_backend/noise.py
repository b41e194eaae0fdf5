"""Exact noise: laws, calls, and the hand-over to the exact tier."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._backend.hooks import Testing
from dpcore._backend.levels import cipher_code
from dpcore._backend.threads import for_ranges
from dpcore._backend.words import KernelWords, Position
from dpcore._kernels import _noise
from dpcore._sample import TABLE_LIMIT, Kind, Pending
from dpcore.errors import DataError

_FLOAT_KINDS = {"laplace": _noise.LAPLACE, "gaussian": _noise.GAUSSIAN}


def _exact_real(kind: Kind, words: KernelWords, item: Pending, scale: float, grid: float) -> float:
    from dpcore._slow_path import real  # the exact tier, which most processes never need

    return real(kind, words, item, scale, grid)


def _exact_integer(kind: Kind, words: KernelWords, item: Pending, scale: float) -> int:
    from dpcore._slow_path import integer

    return integer(kind, words, item, scale)


# Laws


@lru_cache(maxsize=1024)
def _float_law(kind: int, scale: float, grid: float) -> Any:
    return _noise.Law(kind, scale, grid)


@lru_cache(maxsize=4096)
def _discrete_law(kind: Kind, scale: float) -> Any:
    from dpcore import _exact  # the exact tier, which floats never need

    if kind == "discrete_laplace":
        return _noise.Law(_noise.DISCRETE_LAPLACE, scale, offset=_exact.laplace_offset(scale))
    if scale < TABLE_LIMIT:
        short, long = _exact.threshold_integers(scale)
        return _noise.Law(_noise.GAUSSIAN_TABLE, scale, short=short, long=long)
    terms = [term.upper() for term in _exact.acceptance_terms(scale, 128, 12)]
    quick = 2.0**16 / 24 / scale / scale / scale / scale * (1 + 2.0**-40)
    return _noise.Law(_noise.GAUSSIAN_ROUNDED, scale, terms=terms, quick=quick)


def _finish(call: Any, out: npt.NDArray[Any], resolve: Callable[[Pending], Any], start: int, stop: int) -> None:
    while start < stop:
        status, reached, pending = call.run(start, stop)
        for fields in pending:
            out.flat[fields[0]] = resolve(Pending(*fields))
        if status == _noise.NONFINITE:
            _refuse_nonfinite(out.shape, reached)
        start = reached


def _refuse_nonfinite(shape: tuple[int, ...], position: int) -> None:
    index = tuple(int(i) for i in np.unravel_index(position, shape)) if shape else ()
    raise DataError(f"values must be finite; the number at index {index} is not")


def _check_finite(call: Any, values: npt.NDArray[Any], threads: int | None) -> None:
    if values.dtype.kind != "f":
        return

    def check(start: int, stop: int) -> None:
        found = call.first_nonfinite(start, stop)
        if found >= 0:
            _refuse_nonfinite(values.shape, found)

    for_ranges(check, values.size, threads)


def float_noise(
    kind: Kind,
    values: npt.NDArray[Any],
    scale: float | npt.NDArray[np.float64],
    grid: float | None,
    position: Position,
    *,
    secure: bool,
    out: npt.NDArray[np.float64] | None,
    threads: int | None,
) -> npt.NDArray[np.float64]:
    """x + noise on every element; arguments are valid. `grid` None only with an array of scales: the default of each."""
    key, nonce, first = position
    cipher = cipher_code(secure=secure)
    result = np.empty(values.shape, np.float64) if out is None else out
    code = _FLOAT_KINDS[kind]
    scales = None if isinstance(scale, float) else np.broadcast_to(scale, values.shape)
    laws = (_float_law(code, scale, grid),) if isinstance(scale, float) and grid is not None else (_noise.Law(code, 1.0),)
    call = _noise.Call(
        code, laws, values, result, key, nonce, first, cipher, scales=scales, fixed_grid=grid or 0.0, tier=Testing.tier,
        bound_factor=Testing.bound_factor,
    )  # fmt: skip
    if out is not None:
        _check_finite(call, values, threads)
    words = KernelWords(key, nonce, cipher)

    def resolve(item: Pending) -> float:
        own = scale if isinstance(scale, float) else float(scales.flat[item.index])  # type: ignore[union-attr]
        return _exact_real(kind, words, item, own, grid if grid is not None else default_grid(own))

    for_ranges(lambda start, stop: _finish(call, result, resolve, start, stop), values.size, threads)
    return result


def default_grid(scale: float) -> float:
    """2^(⌊log2 scale⌋ − 25)."""
    return math.ldexp(1.0, math.frexp(scale)[1] - 26)


def scalar_float_noise(kind: Kind, value: float, scale: float, grid: float, position: Position, *, secure: bool) -> float:
    """One finite float; the path that latency counts on."""
    key, nonce, first = position
    cipher = cipher_code(secure=secure)
    code = _FLOAT_KINDS[kind]
    if not Testing.tier:
        result = _noise.scalar(_float_law(code, scale, grid), value, key, nonce, first, cipher)
        if result is not None:
            return float(result)
    return _exact_real(kind, KernelWords(key, nonce, cipher), Pending(0, first, value, 0.0, 0, 0), scale, grid)


def scalar_int_noise(kind: Kind, value: int, scale: float, position: Position, *, secure: bool) -> int:
    """One integer of int64's range."""
    key, nonce, first = position
    cipher = cipher_code(secure=secure)
    if not Testing.tier:
        result = _noise.scalar_int(_discrete_law(kind, scale), value, key, nonce, first, cipher)
        if result is not None:
            return int(result)
    return _exact_integer(kind, KernelWords(key, nonce, cipher), Pending(0, first, 0.0, 0.0, value, 0), scale)


def _distinct(scale: float | npt.NDArray[np.float64], shape: tuple[int, ...]) -> tuple[list[float], npt.NDArray[np.int64] | None]:
    """Distinct scales, and which one each element has; taken from the array as given, so that a row of per-column scales stays a row."""
    if isinstance(scale, float):
        return [scale], None
    distinct, inverse = np.unique(scale, return_inverse=True)
    if len(distinct) <= 1:
        return [float(s) for s in distinct] or [1.0], None
    return [float(s) for s in distinct], np.broadcast_to(inverse.reshape(scale.shape).astype(np.int64), shape)


def int_noise(
    kind: Kind,
    values: npt.NDArray[Any],
    scale: float | npt.NDArray[np.float64],
    position: Position,
    *,
    secure: bool,
    out: npt.NDArray[np.int64] | None,
    threads: int | None,
) -> npt.NDArray[np.int64]:
    """x + integer noise on every element, saturating; arguments are valid."""
    key, nonce, first = position
    cipher = cipher_code(secure=secure)
    result = np.empty(values.shape, np.int64) if out is None else out
    scales, which = _distinct(scale, values.shape)
    if kind == "discrete_gaussian" and which is not None:
        code = _noise.GAUSSIAN_TABLE  # lane by lane: each law knows its own kind
    else:
        code = {"discrete_laplace": _noise.DISCRETE_LAPLACE}.get(
            kind, _noise.GAUSSIAN_TABLE if scales[0] < TABLE_LIMIT else _noise.GAUSSIAN_ROUNDED
        )
    laws = tuple(_discrete_law(kind, s) for s in scales)
    call = _noise.Call(
        code, laws, values, result, key, nonce, first, cipher, which=which, tier=Testing.tier, bound_factor=Testing.bound_factor
    )
    words = KernelWords(key, nonce, cipher)

    def resolve(item: Pending) -> int:
        return _exact_integer(kind, words, item, scales[item.law])

    for_ranges(lambda start, stop: _finish(call, result, resolve, start, stop), values.size, threads)
    return result
