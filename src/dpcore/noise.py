"""Exact noise: each released number is the correctly rounded value of the ideal mechanism.

Let W be ideal noise of unit scale and Y = x + scale·W, a real number. Floats are released as

    R(Y) = the float64 nearest to [the multiple of the grid nearest to Y],

one fixed function of Y. So R(Y) is post-processing of the ideal mechanism and has exactly its guarantee; docs/exactness.md has the
derivation. These functions take a scale; `dpcore.mechanisms` computes one from ε and a sensitivity.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._exact.pending import Kind
from dpcore._series import SeriesT, like
from dpcore._validation import (
    INTEGER_DTYPES,
    REAL_DTYPES,
    check_array,
    check_out,
    check_real,
    check_scale,
    check_threads,
    plain_number,
    plain_scale,
)
from dpcore.errors import ParameterError
from dpcore.rng import Stream, is_constant_work, resolve

__all__ = ["default_grid", "discrete_gaussian", "discrete_laplace", "gaussian", "laplace"]

Real: TypeAlias = float | int | np.floating[Any] | np.integer[Any]
Scale: TypeAlias = float | npt.ArrayLike

FLOAT_SCALE = (2.0**-960, 2.0**960)
"""Range of the scale of float noise."""
DISCRETE_SCALE = (2.0**-20, 2.0**40)
"""Range of the scale of discrete noise, without its lower end."""
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
FINEST_GRID_BITS, _GRID_RANGE = 40, (2.0**-1000, 2.0**1023)
_REAL_VALUES = "; use a mechanism for real numbers (laplace, gaussian), or convert whole numbers with .astype(np.int64)"


def default_grid(scale: float) -> float:
    """Return the grid on which float noise of this scale is released: 2^(⌊log2 scale⌋ − 25).

    Parameters
    ----------
    scale : float
        Noise scale in [2^-960, 2^960].

    Returns
    -------
    float
        A power of two.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the scale is out of range or not a number.

    Notes
    -----
    Cost: less than a microsecond.

    Examples
    --------
    >>> default_grid(1.0) == 2.0**-25
    True
    """
    return _backend.default_grid(check_real("scale", scale, low=FLOAT_SCALE[0], high=FLOAT_SCALE[1]))


@overload
def laplace(
    values: Real, scale: float, *, grid: float | None = ..., rng: Stream | None = ..., out: None = ..., threads: int | None = ...
) -> float: ...
@overload
def laplace(
    values: SeriesT, scale: Scale, *, grid: float | None = ..., rng: Stream | None = ..., out: None = ..., threads: int | None = ...
) -> SeriesT: ...
@overload
def laplace(  # type: ignore[overload-overlap]  # dtypes, which no array has both of
    values: npt.ArrayLike,
    scale: Scale,
    *,
    grid: float | None = ...,
    rng: Stream | None = ...,
    out: npt.NDArray[np.float32],
    threads: int | None = ...,
) -> npt.NDArray[np.float32]: ...
@overload
def laplace(
    values: npt.ArrayLike,
    scale: Scale,
    *,
    grid: float | None = ...,
    rng: Stream | None = ...,
    out: npt.NDArray[np.float64] | None = ...,
    threads: int | None = ...,
) -> npt.NDArray[np.float64]: ...
def laplace(
    values: Any, scale: Any, *, grid: float | None = None, rng: Stream | None = None, out: Any = None, threads: int | None = None
) -> Any:
    r"""Add Laplace noise with density e^(−|w|/b)/(2b), b = `scale`, to every value.

    Parameters
    ----------
    values : array_like
        Finite numbers of any shape and strides: float64, float32, float16, or integers up to int64, which enter exactly. A pandas Series is
        returned as a Series with the same index, which must not depend on the records.
    scale : float or array_like
        Noise scale b in [2^-960, 2^960]; an array must broadcast against `values`.
    grid : float, optional
        Power of two ≥ scale·2^-40: the result is a multiple of it. Default 2^(⌊log2 scale⌋ − 25), for each scale of an array.
    rng : Stream, optional
        None is the secure source. Tests use `dpcore.testing.KeyedRandom`.
    out : ndarray of float64 or float32, optional
        Written in place; may be `values` itself. In float32, each released number is rounded to the nearest one, which is post-processing;
        it becomes infinite beyond the range of float32.
    threads : int, optional
        Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

    Returns
    -------
    float or ndarray of float64
        A Python float for a number, else an array of the shape of `values`.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type; nothing has been written.
    DataError
        If a value is NaN or infinite. An `out` that is `values` has not been changed; another one may hold released values before the one
        that is refused, and these count as released.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: with ℓ1 sensitivity Δ and b ≥ Δ/ε, P(M(x) ∈ A) ≤ e^ε·P(M(x') ∈ A) for every event A, exactly, for the floats released.

    Cost: one 64-bit random word a value, about 3 ns; one value in 2^12 needs double-double arithmetic, one in 2^40 interval arithmetic.

    Source: Private inference (chapter 9), Definition 9.1.3; Steinberger (2019), Beispiel 1.7 (c, d).

    Examples
    --------
    >>> from dpcore import noise
    >>> import numpy as np
    >>> released = noise.laplace(np.array([1.0, 2.0, 3.0]), 0.5)
    >>> released.shape
    (3,)
    """
    return float_noise("laplace", values, scale, grid, rng, out, threads)


@overload
def gaussian(
    values: Real, scale: float, *, grid: float | None = ..., rng: Stream | None = ..., out: None = ..., threads: int | None = ...
) -> float: ...
@overload
def gaussian(
    values: SeriesT, scale: Scale, *, grid: float | None = ..., rng: Stream | None = ..., out: None = ..., threads: int | None = ...
) -> SeriesT: ...
@overload
def gaussian(  # type: ignore[overload-overlap]  # dtypes, which no array has both of
    values: npt.ArrayLike,
    scale: Scale,
    *,
    grid: float | None = ...,
    rng: Stream | None = ...,
    out: npt.NDArray[np.float32],
    threads: int | None = ...,
) -> npt.NDArray[np.float32]: ...
@overload
def gaussian(
    values: npt.ArrayLike,
    scale: Scale,
    *,
    grid: float | None = ...,
    rng: Stream | None = ...,
    out: npt.NDArray[np.float64] | None = ...,
    threads: int | None = ...,
) -> npt.NDArray[np.float64]: ...
def gaussian(
    values: Any, scale: Any, *, grid: float | None = None, rng: Stream | None = None, out: Any = None, threads: int | None = None
) -> Any:
    r"""Add Gaussian noise with standard deviation `scale` to every value.

    Parameters
    ----------
    values : array_like
        Finite numbers of any shape and strides: float64, float32, float16, or integers up to int64, which enter exactly. A pandas Series is
        returned as a Series with the same index, which must not depend on the records.
    scale : float or array_like
        Standard deviation σ in [2^-960, 2^960]; an array must broadcast against `values`.
    grid : float, optional
        Power of two ≥ scale·2^-40: the result is a multiple of it. Default 2^(⌊log2 scale⌋ − 25), for each scale of an array.
    rng : Stream, optional
        None is the secure source. Tests use `dpcore.testing.KeyedRandom`.
    out : ndarray of float64 or float32, optional
        Written in place; may be `values` itself. In float32, each released number is rounded to the nearest one, which is post-processing;
        it becomes infinite beyond the range of float32.
    threads : int, optional
        Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

    Returns
    -------
    float or ndarray of float64
        A Python float for a number, else an array of the shape of `values`.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type; nothing has been written.
    DataError
        If a value is NaN or infinite. An `out` that is `values` has not been changed; another one may hold released values before the one
        that is refused, and these count as released.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: with ℓ2 sensitivity Δ, (ε, δ) for δ = Φ(Δ/2σ − εσ/Δ) − e^ε·Φ(−Δ/2σ − εσ/Δ), exactly, for the floats released.

    Cost: one 64-bit random word a value, about 3 ns.

    Source: Private inference (chapter 9), Definition 9.1.4; Balle & Wang (2018), Theorem 8.

    Examples
    --------
    >>> from dpcore import noise
    >>> isinstance(noise.gaussian(0, 2.0), float)
    True
    """
    return float_noise("gaussian", values, scale, grid, rng, out, threads)


@overload
def discrete_laplace(
    values: int | np.integer[Any], scale: float, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...
) -> int: ...
@overload
def discrete_laplace(values: SeriesT, scale: Scale, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...) -> SeriesT: ...
@overload
def discrete_laplace(
    values: npt.ArrayLike, scale: Scale, *, rng: Stream | None = ..., out: npt.NDArray[np.int64] | None = ..., threads: int | None = ...
) -> npt.NDArray[np.int64]: ...
def discrete_laplace(values: Any, scale: Any, *, rng: Stream | None = None, out: Any = None, threads: int | None = None) -> Any:
    r"""Add discrete Laplace noise, P(z) = (1 − r)/(1 + r)·r^|z| with r = e^(−1/t), t = `scale`, to every integer.

    Parameters
    ----------
    values : array_like of int
        Integers of any shape and strides, int64 or narrower. A pandas Series is returned as a Series with the same index, which must not
        depend on the records.
    scale : float or array_like
        Scale t in (2^-20, 2^40]; an array must broadcast against `values`. Each distinct scale needs a table of constants.
    rng : Stream, optional
        None is the secure source. Tests use `dpcore.testing.KeyedRandom`.
    out : ndarray of int64, optional
        Written in place; may be `values` itself.
    threads : int, optional
        Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

    Returns
    -------
    int or ndarray of int64
        Sums, saturated at the ends of int64. A Python int for a number, else an array of the shape of `values`.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type; nothing has been written.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: with integer ℓ1 sensitivity Δ and t ≥ Δ/ε, ε-differential privacy, exactly.

    Cost: one 64-bit random word a value, about 3 ns.

    Source: Ghosh, Roughgarden & Sundararajan (2009); Steinberger (2019), Beispiel 1.7 (d).

    Examples
    --------
    >>> from dpcore import noise
    >>> isinstance(noise.discrete_laplace(41, 1.0), int)
    True
    """
    return int_noise("discrete_laplace", values, scale, rng, out, threads)


@overload
def discrete_gaussian(
    values: int | np.integer[Any], scale: float, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...
) -> int: ...
@overload
def discrete_gaussian(
    values: SeriesT, scale: Scale, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...
) -> SeriesT: ...
@overload
def discrete_gaussian(
    values: npt.ArrayLike, scale: Scale, *, rng: Stream | None = ..., out: npt.NDArray[np.int64] | None = ..., threads: int | None = ...
) -> npt.NDArray[np.int64]: ...
def discrete_gaussian(values: Any, scale: Any, *, rng: Stream | None = None, out: Any = None, threads: int | None = None) -> Any:
    r"""Add discrete Gaussian noise, P(z) ∝ e^(−z²/2σ²) on the integers, σ = `scale`, to every integer.

    Parameters
    ----------
    values : array_like of int
        Integers of any shape and strides, int64 or narrower. A pandas Series is returned as a Series with the same index, which must not
        depend on the records.
    scale : float or array_like
        Parameter σ in (2^-20, 2^40] (close to the standard deviation for σ ≥ 1); an array must broadcast against `values`. Each
        distinct scale needs a table of constants.
    rng : Stream, optional
        None is the secure source. Tests use `dpcore.testing.KeyedRandom`.
    out : ndarray of int64, optional
        Written in place; may be `values` itself.
    threads : int, optional
        Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

    Returns
    -------
    int or ndarray of int64
        Sums, saturated at the ends of int64. A Python int for a number, else an array of the shape of `values`.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type; nothing has been written.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: with ℓ2 sensitivity Δ, ρ-zCDP for ρ = Δ²/2σ², exactly.

    Cost: about 3 ns a value. For σ < 8 a table is inverted, with one word a value; above, a rounded Box-Muller pair takes 16 bits more.

    Source: Canonne, Kamath & Steinke (2020), Definition 1 and Theorem 4.

    Examples
    --------
    >>> from dpcore import noise
    >>> isinstance(noise.discrete_gaussian(41, 10.0), int)
    True
    """
    return int_noise("discrete_gaussian", values, scale, rng, out, threads)


def _check_grid(grid: object, largest_scale: float) -> float:
    number = check_real("grid", grid, low=_GRID_RANGE[0], high=_GRID_RANGE[1])
    if math.frexp(number)[0] != 0.5:
        raise ParameterError(f"grid must be a power of two, got {number!r}")
    if number < math.ldexp(largest_scale, -FINEST_GRID_BITS):
        raise ParameterError(
            f"grid must be at least scale·2^-{FINEST_GRID_BITS} = {math.ldexp(largest_scale, -FINEST_GRID_BITS)!r}, got {number!r}"
        )
    return number


Interval: TypeAlias = tuple[float, float, float | None]
"""Bounds to which records are clamped, and the number for NaN."""
_CLAMPED_REALS, _CLAMPED_INTEGERS = (*REAL_DTYPES, "uint64"), (*INTEGER_DTYPES, "uint64")


@lru_cache(maxsize=1024)
def _short_float(kind: Kind, scale: float, grid: float | None, bounds: Interval | None) -> Any:
    """Check scale and grid, and make the entry for single numbers and short arrays."""
    step = check_real("scale", scale, low=FLOAT_SCALE[0], high=FLOAT_SCALE[1])
    fixed = _backend.default_grid(step) if grid is None else _check_grid(grid, step)
    return _backend.short_float_call(kind, step, fixed, None if bounds is None else _backend.Bounds(*bounds))


@lru_cache(maxsize=4096)
def _short_int(kind: Kind, scale: float, bounds: Interval | None) -> Any:
    """Check the scale, and make the entry for single integers and short arrays."""
    t = check_real("scale", scale, low=DISCRETE_SCALE[0], high=DISCRETE_SCALE[1], include_low=False)
    return _backend.short_int_call(kind, t, None if bounds is None else _backend.Bounds(*bounds))


def float_noise(
    kind: Kind, values: Any, scale: Any, grid: float | None, rng: Stream | None, out: Any, threads: int | None,
    bounds: Interval | None = None,
) -> Any:  # fmt: skip
    """Check everything and add noise. With bounds the values are records, which are clamped block by block as the noise is added."""
    constant = rng is not None and is_constant_work(rng)
    scale = scale if type(scale) is float else plain_scale(scale)
    short = _short_float(kind, scale, grid, bounds) if type(scale) is float and (grid is None or type(grid) is float) else None
    if short is not None and rng is None and threads is None and (released := short.release(values, None, out)) is not None:
        return released
    array = values if type(values) is np.ndarray or type(values) is float else _real(values, bounds)
    if short is not None and not constant:
        released = _short(short, array, rng, out, threads, np.float64)
        if released is not None:
            return released if type(values) is np.ndarray or out is not None else _in_the_form_of(values, released)
    array = _real_array(array, bounds)
    scales = check_scale(scale, low=FLOAT_SCALE[0], high=FLOAT_SCALE[1], shape=array.shape)
    grid = None if grid is None else _check_grid(grid, scales if isinstance(scales, float) else float(scales.max(initial=0.0)))
    if grid is None and isinstance(scales, float):
        grid = _backend.default_grid(scales)
    stream, array, out = _check_rest(array, rng, out, threads, np.float64)
    within: Any = None if bounds is None else _backend.Bounds(*bounds)
    draw: Any = _backend.constant_noise if constant else _backend.float_noise
    result = draw(kind, array, scales, grid, stream.position if constant else stream.position(), out=out, threads=threads, bounds=within)
    return result if type(values) is np.ndarray or out is not None else _in_the_form_of(values, result)


def int_noise(
    kind: Kind, values: Any, scale: Any, rng: Stream | None, out: Any, threads: int | None, bounds: Interval | None = None
) -> Any:
    """As `float_noise`, for integers."""
    constant = rng is not None and is_constant_work(rng)
    scale = scale if type(scale) is float else plain_scale(scale)
    low, high = DISCRETE_SCALE
    short = _short_int(kind, scale, bounds) if type(scale) is float else None
    if short is not None and rng is None and threads is None and (released := short.release(values, None, out)) is not None:
        return released
    array = values if type(values) is np.ndarray or type(values) is int else _whole(values, bounds)
    if short is not None and not constant:
        released = _short(short, array, rng, out, threads, np.int64)
        if released is not None:
            return released if type(values) is np.ndarray or out is not None else _in_the_form_of(values, released)
    array = _integer_array(array, bounds)
    laws: Any = None if constant else _backend.numbered_scales(scale, low, high, array.shape)
    laws = check_scale(scale, low=low, high=high, shape=array.shape, include_low=False) if laws is None else laws
    stream, array, out = _check_rest(array, rng, out, threads, np.int64)
    more: Any = {"out": out, "threads": threads, "bounds": None if bounds is None else _backend.Bounds(*bounds)}
    if constant:
        result = _backend.constant_noise(kind, array, laws, None, stream.position, **more)
    else:
        result = _backend.int_noise(kind, array, laws, stream.position(), **more)
    return result if type(values) is np.ndarray or out is not None else _in_the_form_of(values, result)


def _real(values: Any, bounds: Interval | None) -> Any:
    """A single number as a float that is the same number, anything else as an array."""
    number = plain_number(values)
    if type(number) is float or (type(number) is int and -(2**53) <= number <= 2**53):
        return float(number)
    return _real_array(values, bounds)


def _whole(values: Any, bounds: Interval | None) -> Any:
    """A single integer as an int, anything else as an array."""
    number = plain_number(values)
    return number if type(number) is int else _integer_array(values, bounds)


def _real_array(values: Any, bounds: Interval | None) -> npt.NDArray[Any]:
    if bounds is not None:
        return check_array("records", values, _CLAMPED_REALS)
    return check_array("values", values, REAL_DTYPES, exact_columns=True)


def _integer_array(values: Any, bounds: Interval | None) -> npt.NDArray[Any]:
    if bounds is None:
        return check_array("values", values, INTEGER_DTYPES, advice=_REAL_VALUES)
    return check_array("records", values, _CLAMPED_INTEGERS)


def _short(call: Any, values: Any, rng: Stream | None, out: Any, threads: int | None, dtype: type) -> Any:
    """Noise on a single number or a short array, or None for anything else. The kernels write to a fresh array: `out` has it as a whole."""
    stream = resolve(rng)
    check_threads(threads)
    if out is None:
        return call.release(values, stream)
    check_out(out, dtype, np.shape(values), or_dtype=np.float32 if dtype is np.float64 else None)
    return call.release(values, stream, out)


def _check_rest(array: Any, rng: Stream | None, out: Any, threads: int | None, dtype: type) -> tuple[Stream, npt.NDArray[Any], Any]:
    stream = resolve(rng, constant_work=True)
    check_threads(threads)
    if out is not None:
        check_out(out, dtype, array.shape, or_dtype=np.float32 if dtype is np.float64 else None)
        array = _backend.separate(array, out)
    return stream, array, out


def _in_the_form_of(values: Any, result: Any) -> Any:
    """A Python number for a number, a Series for a Series, else the array."""
    if type(result) is float or type(result) is int or type(values) is list:
        return result
    return like(values, result) if isinstance(values, np.ndarray) or result.ndim > 0 else result.item()


def __dir__() -> list[str]:
    return __all__
