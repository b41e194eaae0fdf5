"""Decimals and integers as whole steps of a power of ten: exact, in integers, whatever a column stores; each cell by itself.

A decimal(p, s) is an integer times 10^-s. A query that needs it counts in steps of 10^-t, which is 10^-s unless numbers that the job
declares would then have more than 62 bits. What lies beyond 64 bits of steps becomes the largest or the smallest integer: it is beyond
everything declared, and bounds, bins and grids give both the same place.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from dpcore.tables.fields import INT64_MAX, INT64_MIN
from dpcore.tables.types.slices import stored

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Integers = npt.NDArray[np.int64]
    Rounding = Literal["down", "up", "nearest"]

MOST_STEPS = INT64_MAX - 1
"""Declared numbers have at most so many steps, so that saturated cells lie beyond them."""
WHOLE = 2.0**63
"""Whole floats below it stand for themselves, others for the shortest decimal that is written as the float."""
INT64_DIGITS = 18
"""Powers of ten up to this one fit into 64 bits."""
LIMB_BITS = 32
"""Wide integers have words of so many bits, with room for a power of ten that is added."""
_LIMB = np.uint64(2**LIMB_BITS - 1)
CHUNK_DIGITS = 9
"""A power of ten by which a word and a remainder are divided within 64 bits."""


def digits_of(dtype: pa.DataType) -> int | None:
    """Digits behind the point of a decimal type, or of labels of one; None of other types. Hundreds are counted in ones."""
    dtype = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
    return max(int(dtype.scale), 0) if pa.types.is_decimal(dtype) else None


def reach_of(dtype: pa.DataType) -> int:
    """A number that every cell of this type of decimals or integers, or of labels of one, is below, and above its negative."""
    dtype = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
    return int(10 ** max(dtype.precision - dtype.scale, 0)) if pa.types.is_decimal(dtype) else 2**64


def ratio_of(number: float) -> tuple[int, int]:
    """Numerator and denominator of the number that a float of a job stands for: 0.1 is a tenth."""
    if number.is_integer() and abs(number) < WHOLE:
        return int(number), 1
    return Decimal(repr(float(number))).as_integer_ratio()


def counted(number: float, digits: int) -> tuple[int, bool]:
    """Steps of 10^-digits in the number that a float of a job stands for, rounded down, and whether they are whole."""
    over, under = ratio_of(number)
    whole, rest = divmod(over * 10 ** max(digits, 0), under * 10 ** max(-digits, 0))
    return whole, rest == 0


def fitting_digits(number: float, digits: int) -> int:
    """Digits behind the point of the finest steps, at most those of a column, of which a declared number has at most `MOST_STEPS`."""
    while counted(abs(number), digits)[0] >= MOST_STEPS:
        digits -= 1
    return digits


def common_type(kinds: list[pa.DataType]) -> pa.DataType:
    """The type of a column that has these types in some files: the first of them, or what decimals and others have in common.

    Different decimals, or decimals and integers, have as many digits behind the point as any. Beside floats decimals are floats.
    """
    plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds]
    digits = [kind.scale for kind in plain if pa.types.is_decimal(kind)]
    if not digits or len(set(plain)) == 1:
        return kinds[0] if kinds else pa.null()
    if any(pa.types.is_floating(kind) for kind in plain):
        return pa.float64()
    whole = all(pa.types.is_decimal(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind) for kind in plain)
    return pa.decimal256(76, max(0, *digits)) if whole else kinds[0]


def steps(cells: pa.Array, digits: int, rounding: Rounding = "nearest") -> pa.Array:
    """Cells as int64 counts of steps of 10^-digits.

    Parameters
    ----------
    cells : pyarrow.Array
        Decimals, integers, truth values or nulls, or labels of these.
    digits : int
        May be negative.
    rounding : {"nearest", "down", "up"}
        To a whole step; what lies in the middle goes up.
    """
    kind = cells.type
    if pa.types.is_dictionary(kind):
        return steps(cells.dictionary, digits, rounding).take(cells.indices)
    if pa.types.is_null(kind):
        return pa.nulls(len(cells), pa.int64())
    absent = cells.is_null().to_numpy(zero_copy_only=False) if cells.null_count else None
    return pa.array(
        _of_decimals(cells, digits, rounding) if pa.types.is_decimal(kind) else _of_integers(cells, digits, rounding), mask=absent
    )


def _of_integers(cells: pa.Array, digits: int, rounding: Rounding) -> Integers:
    if pa.types.is_boolean(cells.type):
        cells = cells.cast(pa.int8())
    numbers = np.asarray(cells.fill_null(0).to_numpy(zero_copy_only=False))
    if numbers.dtype != np.uint64:
        return _shifted(numbers.astype(np.int64), digits, rounding)
    small = numbers <= np.uint64(INT64_MAX)
    found = _shifted(np.where(small, numbers, np.uint64(0)).view(np.int64), digits, rounding)
    far = np.flatnonzero(~small)
    if len(far):
        words = np.zeros((len(far), 2), np.uint64)
        words[:, 0] = numbers[far]
        found[far] = _shifted_wide(words, digits, rounding)
    return found


def _of_decimals(cells: pa.Array, digits: int, rounding: Rounding) -> Integers:
    kind = cells.type
    if not len(cells):
        return np.zeros(0, np.int64)
    shift, words = digits - kind.scale, kind.bit_width // 64
    if words <= 1:
        return _shifted(stored(cells, np.int64 if words else np.int32).astype(np.int64), shift, rounding)
    parts = stored(cells, np.uint64, words=words)
    low = np.ascontiguousarray(parts[:, 0]).view(np.int64)
    fits = np.all(parts[:, 1:].view(np.int64) == (low >> 63)[:, None], axis=1)
    found = _shifted(low, shift, rounding)
    if not fits.all():
        far = np.flatnonzero(~fits)
        found[far] = _shifted_wide(np.ascontiguousarray(parts[far]), shift, rounding)
    return found


def _shifted(numbers: Integers, shift: int, rounding: Rounding) -> Integers:
    """Integers of 64 bits times 10^shift."""
    if shift == 0:
        return numbers.copy()
    if shift > INT64_DIGITS:
        return np.where(numbers > 0, INT64_MAX, np.where(numbers < 0, INT64_MIN, 0))
    if shift < -INT64_DIGITS:
        words = np.stack([numbers, numbers >> 63], axis=1).view(np.uint64)
        return _shifted_wide(words, shift, rounding)
    unit = 10 ** abs(shift)
    if shift > 0:
        most = INT64_MAX // unit
        inside = np.clip(numbers, -most, most)
        return np.where(numbers > most, INT64_MAX, np.where(numbers < -most, INT64_MIN, inside * unit))
    whole = numbers // unit
    rest = numbers - whole * unit
    more = {"down": False, "up": rest > 0, "nearest": rest >= unit - rest}[rounding]
    return np.asarray(whole + more, np.int64)


def _shifted_wide(words: Array, shift: int, rounding: Rounding) -> Integers:
    """Integers in two's complement, of several words of 64 bits each, times 10^shift."""
    negative = words[:, -1].view(np.int64) < 0
    saturated = np.where(negative, INT64_MIN, INT64_MAX)
    if shift >= 0:
        return np.where(np.any(words != 0, axis=1), saturated, 0)
    unit = 10**-shift
    limbs = _limbs(words, negative, {"down": 0, "up": unit - 1, "nearest": unit // 2}[rounding])
    # ⌊x / u⌋ of a negative x is −1 − ⌊(−1 − x) / u⌋, and −1 − x has the opposite bits.
    negative = limbs[-1] >> np.uint64(LIMB_BITS - 1) != 0
    limbs = [np.where(negative, each ^ _LIMB, each) for each in limbs]
    left = -shift
    while left > 0:
        _divide(limbs, np.uint64(10 ** min(left, CHUNK_DIGITS)))
        left -= CHUNK_DIGITS
    fits = (limbs[1] < 2 ** (LIMB_BITS - 1)) & ~np.any([each != 0 for each in limbs[2:]], axis=0)
    size = (limbs[0] | (limbs[1] << np.uint64(LIMB_BITS))).view(np.int64)
    return np.where(fits, np.where(negative, -1 - size, size), np.where(negative, INT64_MIN, INT64_MAX))


def _limbs(words: Array, negative: Array, more: int) -> list[Array]:
    """Words of `LIMB_BITS` bits of a number and some more, the lowest first."""
    shift = np.uint64(LIMB_BITS)
    limbs = [each for place in range(words.shape[1]) for each in (words[:, place] & _LIMB, words[:, place] >> shift)]
    sign = np.where(negative, _LIMB, np.uint64(0))
    limbs += [sign] * (1 + max(more.bit_length() // LIMB_BITS + 1 - len(limbs), 0))
    carry = np.zeros(len(words), np.uint64)
    for place, each in enumerate(limbs):
        total = each + carry + np.uint64(more >> (LIMB_BITS * place) & int(_LIMB))
        limbs[place], carry = total & _LIMB, total >> shift
    return limbs


def _divide(limbs: list[Array], unit: np.uint64) -> None:
    """Divide by a number of at most `CHUNK_DIGITS` digits, in place and rounding down."""
    rest = np.zeros_like(limbs[0])
    for place in reversed(range(len(limbs))):
        whole = (rest << np.uint64(LIMB_BITS)) | limbs[place]
        limbs[place] = whole // unit
        rest = whole - limbs[place] * unit
