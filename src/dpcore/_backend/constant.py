"""Constant work: calls whose branches and addresses depend on sizes and parameters alone. docs/constant-work.md."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpcore._backend.levels import cipher_code
from dpcore._backend.memory import wiped_empty
from dpcore._backend.noise import Bounds, default_grid
from dpcore._backend.threads import for_ranges
from dpcore._backend.words import Position
from dpcore._exact.pending import Kind
from dpcore._exact.probability import Probability
from dpcore._kernels import _constant
from dpcore.errors import DataError, ParameterError, ParameterTypeError

if TYPE_CHECKING:
    from dpcore._exact.digits import Digit

Array = npt.NDArray[Any]
COST = 256.0
"""One number costs as much as so many ordinary ones, for the chunks of `for_ranges`."""
FINE_BITS = 80
"""log2 of the scale in units of the fine grid, on which noise is drawn: the law is off by less than 2^−80."""
CHOICE_BITS = 90
"""The same for selections, where ties and distances count too."""
LEAST_STEPS, MOST_STEPS = 2.0**18, 2.0**40
"""Scales in units of the released grid."""
SCALES = (2.0**-900, 2.0**900)
MOST_ELEMENTS = 2**60
MOST_SHIFTS = 4096
"""Categories of a cyclic shift, each of which is one comparison a record."""


_LIMB_BITS, _LIMBS = 40, 3
"""How the kernels hold a weight."""


def _prepared(digits: list[Digit]) -> Any:
    """What the kernels need of a law's digits. Lower halves of thresholds are compared as signed numbers."""
    limb = (1 << _LIMB_BITS) - 1
    return _constant.Digits(
        [
            (
                tuple(weight >> _LIMB_BITS * i & limb for i in range(_LIMBS)),
                [threshold >> 64 for threshold in thresholds],
                [(threshold & 2**64 - 1) - 2**63 for threshold in thresholds],
                is_signed,
            )
            for weight, thresholds, is_signed in digits
        ]
    )


@lru_cache(maxsize=512)
def _digits(kind: str, scale: float) -> Any:
    from dpcore._exact import digits

    laws = {"discrete_laplace": digits.laplace, "discrete_gaussian": digits.gaussian, "exponential": digits.geometric}
    return _prepared(laws[kind](scale))


@lru_cache(maxsize=512)
def _two_digits(unset: Probability, is_set: Probability) -> Any:
    from dpcore._exact import digits

    return _prepared([digits.unless(min(p.floor(127), 2**127 - 1)) for p in (unset, is_set)])


def _source(position: Position, size: int) -> tuple[Any, int, int, int]:
    key, nonce, first, secure = position
    if first + size > MOST_ELEMENTS:
        raise ParameterError(f"rng must be at an element below 2**60 − {size} for constant work, got {first}")
    return key, nonce, first, cipher_code(secure=secure)


def _run(call: Any, size: int, threads: int | None) -> None:
    for_ranges(call.run, size, threads, elements_per_unit=1 / COST)


def constant_noise(
    kind: Kind, values: Array, scale: float | Array, grid: float | None, position: Callable[[], Position], *, out: Array | None,
    threads: int | None, bounds: Bounds | None,
) -> Array:  # fmt: skip
    """x + noise on every element. Each distinct scale takes a position of its own, and its elements in their order."""
    is_real = kind in {"laplace", "gaussian"}
    check_constant_dtype("values", values)
    if is_real:
        _check_values(values, bounds)
    result = np.empty(values.shape, np.float64 if is_real else np.int64) if out is None else out

    def add(part: Array, own: float, out: Array) -> None:
        if is_real:
            constant_float_noise(kind, part, own, grid, position(), out, threads=threads, bounds=bounds)
        else:
            constant_int_noise(kind, part, own, position(), out, threads=threads, bounds=bounds)

    if isinstance(scale, float):
        add(values, scale, result)
        return result
    spread = np.broadcast_to(scale, values.shape)
    for own in np.unique(scale).tolist():
        places = spread == own
        part = wiped_empty(int(np.count_nonzero(places)), values.dtype)
        part[...] = values[places]
        released = np.empty(part.shape, result.dtype)
        add(part, own, released)
        result[places] = released
    return result


def check_constant_dtype(name: str, values: Array) -> None:
    """Refuse types whose conversion takes longer for some numbers: subnormal ones, and integers beyond int64."""
    if values.dtype in (np.float32, np.float16, np.uint64):
        raise ParameterTypeError(
            f"{name} must be of float64 or of integers up to int64 for constant work, got {values.dtype.name}; conversions take longer "
            "for some numbers than for others, so do it where nobody measures the time"
        )


def _check_values(values: Array, bounds: Bounds | None) -> None:
    if values.dtype.kind not in "fc" or (bounds is not None and bounds.missing is not None):
        return
    refused = ~np.isfinite(values) if bounds is None else np.isnan(values)
    if not refused.any():
        return
    index = tuple(int(i) for i in np.argwhere(refused)[0])
    if bounds is None:
        raise DataError(f"values must be finite; the number at index {index} is not")
    raise DataError(f"records must not hold NaN unless `missing` names a number for it; the number at index {index} is NaN")


def constant_float_noise(
    kind: Kind, values: Array, scale: float, grid: float | None, position: Position, out: Array, *, threads: int | None,
    bounds: Bounds | None,
) -> None:  # fmt: skip
    """x + noise on every element; values are finite or there are bounds."""
    step = default_grid(scale) if grid is None else grid
    if not SCALES[0] <= scale <= SCALES[1]:
        raise ParameterError(f"scale must be in [2^-900, 2^900] for constant work, got {scale!r}")
    steps = scale / step
    if steps < LEAST_STEPS:
        raise ParameterError(f"grid must be at most scale·2^-18 for constant work, got {step!r}")
    fraction_bits = FINE_BITS - math.floor(math.log2(steps))
    fine = math.ldexp(steps, fraction_bits)
    call = _constant.Noise(
        _digits("discrete_laplace" if kind == "laplace" else "discrete_gaussian", fine), values, out, *_source(position, values.size),
        bounds=None if bounds is None else bounds.fields(), fraction_bits=fraction_bits, grid=step,
        least=max(math.ldexp(step, -70), 2.0**-1022), most=math.ldexp(step, 200) if step < 2.0**800 else 1.7976931348623157e308,
    )  # fmt: skip
    _run(call, values.size, threads)


def constant_int_noise(
    kind: Kind, values: Array, scale: float, position: Position, out: Array, *, threads: int | None, bounds: Bounds | None
) -> None:
    """x + integer noise on every element, saturating."""
    fields = None if bounds is None else bounds.fields()
    _run(_constant.Noise(_digits(kind, scale), values, out, *_source(position, values.size), bounds=fields), values.size, threads)


def constant_bits(unset: Probability, is_set: Probability, bits: Array, position: Position, *, threads: int | None) -> Array:
    """Reports that are 1 with the probability of their bit; bits are C-contiguous bytes 0 and 1."""
    out = np.empty(bits.shape, np.uint8)
    _run(_constant.Bits(_two_digits(unset, is_set), bits.reshape(-1), out.reshape(-1), *_source(position, bits.size)), bits.size, threads)
    return out


def constant_shifts(k: int, own: Probability, codes: Array, position: Position, *, threads: int | None) -> Array:
    """Codes in [0, k) moved cyclically by 0 with probability `own`, else by 1 to k − 1 with equal probabilities."""
    if k > MOST_SHIFTS:
        raise ParameterError(f"k must be at most {MOST_SHIFTS} for constant work, got {k}")
    moved = np.empty(codes.shape, np.int64)
    _run(_constant.Noise(_shift_digits(k, own), codes, moved, *_source(position, codes.size)), codes.size, threads)
    moved -= k * (moved >= k)
    return moved


@lru_cache(maxsize=128)
def _shift_digits(k: int, own: Probability) -> Any:
    first = min(own.floor(127), 2**127 - 1)
    rest = 2**127 - first
    return _prepared([(1, [first + rest * j // (k - 1) for j in range(k - 1)], False)])


def constant_choice(noise: str, scores: Array, scale: float, position: Position) -> int:
    """The element with the largest key; scores are finite float64 or int64."""
    if not SCALES[0] <= scale <= SCALES[1]:
        raise ParameterError(f"the scale of the noise must be in [2^-900, 2^900] for constant work, got {scale!r}")
    grid = math.ldexp(1.0, math.frexp(scale)[1] - 1 - CHOICE_BITS)
    top = scores.max()
    largest = float(top)
    rest = float(int(top) - int(largest)) if scores.dtype == np.int64 else 0.0
    kind = "discrete_laplace" if noise == "laplace" else noise
    call = _constant.Choice(
        _digits(kind, scale / grid), scores, *_source(position, scores.size), grid=grid, least=max(grid / 4, 2.0**-1022),
        most=math.ldexp(grid, 12 + CHOICE_BITS), largest=largest, largest_low=rest,
    )  # fmt: skip
    return int(call.largest(scores.size))
