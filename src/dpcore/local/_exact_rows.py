"""Rows of a finite channel as exact numbers: integers over a common denominator, their level, and the mixture that restores a level."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import _backend
from dpcore._validation import INTEGER_DTYPES, REAL_DTYPES, check_array, check_unmasked
from dpcore.errors import ParameterError, ParameterTypeError

if TYPE_CHECKING:
    import numpy.typing as npt

    Weights = npt.NDArray[Any]

MOST_OUTCOMES = 2**16
MOST_INPUTS = 2**24
BITS = 62
"""Rows of floats are rounded to multiples of 2^−62 if no entry is so small that this would change it much."""
FINE_BITS = 31
"""Entries keep at least so many bits."""
SLACK = 1e-9
"""Tolerance of the sum of a row of floats, per entry."""
MOST_BIG = 2**22
"""Largest number of entries that may be integers beyond 64 bits."""
MOST_DENOMINATOR_BITS = 4096
_BIG_DTYPES = ("uint64",)


def exact_rows(rows: object) -> tuple[Weights, int]:
    """Return rows as integers, shape (X, K), int64 or Python's own, and the sum D < 2^4096 of every row; P(z|x) = weights[x, z]/D."""
    array = _array(rows)
    if array.ndim != 2 or 0 in array.shape:
        raise ParameterError(f"rows must be a matrix, one row of probabilities for each input, got shape {array.shape}")
    _check_shape(*array.shape)
    weights = _of_floats(array.astype(np.float64)) if array.dtype.kind == "f" else _of_rationals(array)
    totals = weights.sum(axis=1)
    denominator = int(totals[0])
    wrong = np.flatnonzero(totals != denominator)
    if denominator <= 0 or len(wrong):
        where = f", and row {int(wrong[0])} differs from the first" if len(wrong) else ""
        raise ParameterError(f"rows of integers or fractions must all have the same positive sum{where}")
    return _reduced(weights, denominator)


def _check_shape(inputs: int, outcomes: int) -> None:
    if inputs > MOST_INPUTS or outcomes > MOST_OUTCOMES:
        raise ParameterError(f"rows must have a shape of at most (2**24, 2**16), got {inputs} × {outcomes}")
    cells = 1 << _backend.guide_bits(outcomes)
    if inputs * cells > _backend.MOST_CELLS:
        raise ParameterError(
            f"rows must have at most {_backend.MOST_CELLS // cells} inputs for {outcomes} outcomes, whose tables take {cells} cells an "
            f"input, got {inputs}"
        )


def _array(rows: object) -> npt.NDArray[Any]:
    """The rows as an array of floats, integers, or rational objects."""
    check_unmasked("rows", rows)
    if not isinstance(rows, np.ndarray):
        try:
            found = np.asarray(rows, object)
        except ValueError:
            raise ParameterTypeError("rows must be a matrix, got rows of different lengths") from None
        rows = found if any(isinstance(item, Fraction) or _is_big(item) for item in found.flat) else rows
    if isinstance(rows, np.ndarray) and rows.dtype == object:
        for position, item in enumerate(rows.flat):
            if isinstance(item, bool | np.bool_) or not isinstance(item, int | np.integer | Fraction):
                raise ParameterTypeError(
                    f"rows must hold floats, integers or fractions, got {type(item).__name__} among fractions at position {position}"
                )
        return rows
    return check_array("rows", rows, (*REAL_DTYPES, *_BIG_DTYPES))


def _is_big(item: object) -> bool:
    return isinstance(item, int) and not -(2**63) <= item < 2**63


def _of_rationals(array: npt.NDArray[Any]) -> Weights:
    if array.dtype.name in INTEGER_DTYPES:
        _refuse_where(array < 0)
        most = int(array.max(initial=0)) * array.shape[1]
        return array.astype(np.int64 if most < 2**63 else object)
    exact = [[item if isinstance(item, Fraction) else int(item) for item in row] for row in array]
    denominator = math.lcm(*{item.denominator for row in exact for item in row})
    _check_size(denominator, array.size)
    weights = np.empty(array.shape, object)
    for x, row in enumerate(exact):
        weights[x] = [item.numerator * (denominator // item.denominator) for item in row]
    _refuse_where(weights < 0)
    return weights


def _of_floats(array: npt.NDArray[np.float64]) -> Weights:
    """Integers over 2^s near the floats, with rows that sum to 2^s. Zeros stay zeros, and no positive entry becomes one."""
    _refuse_where(~(array >= 0))
    width = array.shape[1]
    with np.errstate(over="ignore"):  # an infinite sum is refused like any other
        wrong = np.flatnonzero(~(np.abs(array.sum(axis=1) - 1) <= SLACK * width))
    if len(wrong):
        raise ParameterError(f"rows must have entries that sum to 1 within {SLACK * width:.1e}, which row {int(wrong[0])} does not")
    bits = bits_for(float(array[array > 0].min()))
    if bits == BITS:
        return _settled(np.rint(np.ldexp(array, bits)).astype(np.int64), 1 << bits)
    _check_size(1 << bits, array.size)
    weights = np.empty(array.shape, object)
    for x, row in enumerate(array.tolist()):
        weights[x] = [round(Fraction(item) * (1 << bits)) for item in row]
    return _settled(weights, 1 << bits)


def bits_for(least: float) -> int:
    """Return s such that multiples of 2^−s keep `FINE_BITS` bits of the least positive entry."""
    return max(BITS, FINE_BITS - math.frexp(least)[1])


def _settled(weights: Weights, denominator: int) -> Weights:
    """Make every row sum to the denominator: what is missing is spread in proportion, and its last units go to the largest entry."""
    missing = denominator - weights.sum(axis=1)
    if weights.dtype == object:
        weights = weights + missing[:, None] * weights // denominator
    else:
        weights = weights + np.rint(missing[:, None] * (weights / denominator)).astype(np.int64)
    rows = np.arange(len(weights))
    weights[rows, weights.argmax(axis=1)] += denominator - weights.sum(axis=1)
    return weights


def _refuse_where(bad: npt.NDArray[np.bool_]) -> None:
    if bad.any():
        x, z = (int(i) for i in np.argwhere(bad)[0])
        raise ParameterError(f"rows must have entries ≥ 0, which the one at index ({x}, {z}) is not")


def _check_size(denominator: int, entries: int) -> None:
    if denominator.bit_length() > MOST_DENOMINATOR_BITS:
        raise ParameterError(
            f"rows must have a common denominator below 2**{MOST_DENOMINATOR_BITS}, got one of {denominator.bit_length()} bits"
        )
    if denominator >= 2**63 and entries > MOST_BIG:
        raise ParameterError(
            f"rows must have at most 2**22 = {MOST_BIG} entries if they need a denominator of more than 63 bits, got {entries}"
        )


def _reduced(weights: Weights, denominator: int) -> tuple[Weights, int]:
    """Divide by the greatest common divisor: one channel has one form. It is int64 if that is enough."""
    if denominator & (denominator - 1):
        common = math.gcd(denominator, *map(int, weights.flat)) if weights.dtype == object else int(np.gcd.reduce(weights, axis=None))
    else:
        ones = int(np.bitwise_or.reduce(weights, axis=None)) | denominator
        common = ones & -ones
    denominator //= common
    _check_size(denominator, weights.size)
    reduced = weights // common if common > 1 else weights
    reduced = np.ascontiguousarray(reduced, np.int64 if denominator < 2**63 else object)
    reduced.flags.writeable = False
    return reduced, denominator


# Levels


def largest_ratio(weights: Weights) -> Fraction | None:
    """Return the largest P(z|x)/P(z|x') over all x, x', z; None if it is infinite."""
    worst_most, worst_least = 1, 1
    for most, least in zip(weights.max(axis=0).tolist(), weights.min(axis=0).tolist(), strict=True):
        if most * worst_least > worst_most * least:
            worst_most, worst_least = most, least
        if worst_least == 0:
            return None
    return Fraction(worst_most, worst_least)


def level(ratio: Fraction | None) -> float:
    """Return the logarithm of a ratio ≥ 1, rounded up."""
    if ratio is None:
        return math.inf
    from dpcore._exact.intervals import Interval, log  # loads when needed

    return log(Interval.of(ratio, 256 + ratio.numerator.bit_length())).upper() if ratio > 1 else 0.0


def exceeds(ratio: Fraction | None, epsilon: float) -> bool:
    """Whether a ratio ≥ 1 is above e^ε. Both are equal for 1 and ε = 0 only, since logarithms of other rationals are irrational."""
    if ratio is None:
        return True
    if ratio == 1:
        return False
    from dpcore._exact.intervals import Interval, log

    precision = 128 + ratio.numerator.bit_length()
    while True:
        logarithm = log(Interval.of(ratio, precision))
        if logarithm.at_most(epsilon):
            return False
        if Interval.of(epsilon, precision).at_most(logarithm):
            return True
        precision *= 2


def mixed(weights: Weights, denominator: int, epsilon: float, toward: Weights, total: int) -> tuple[Weights, Fraction]:
    """Mix rows with a share λ of the law `toward`/`total`, so that no ratio is above e^ε; returns the new rows and λ.

    With a = M − Em for the largest and least entry of an outcome and b = π(E − 1), E ≤ e^ε, the mixture is private if (1 − λ)a ≤ λb.
    New rows are rounded by less than a unit 2^−s. That is made up for if (1 − λ)a + u ≤ λb, u = (1 + E)·2^−s: for λ ≥ (a + u)/(a + b).
    """
    from dpcore._exact.intervals import Interval, exactly, exp

    _check_size(1 << 63, weights.size)
    factor = exactly(exp(Interval.of(epsilon, 256)).low)
    most, least = ([Fraction(int(w), denominator) for w in ends] for ends in (weights.max(axis=0), weights.min(axis=0)))
    law = [Fraction(int(w), total) for w in toward]
    smallest = min(max(low, high / factor) for high, low in zip(most, least, strict=True) if high)
    bits = max(BITS, FINE_BITS - 1 + (smallest.denominator // smallest.numerator).bit_length())
    unit, share = (1 + factor) / (1 << bits), Fraction(0)
    for z, (high, low, p) in enumerate(zip(most, least, law, strict=True)):
        above, below = high - factor * low, p * (factor - 1)
        if above + unit <= 0 or high == p == 0:
            continue
        if below <= unit:
            raise ParameterError(
                f"toward must be larger for outcome {z}: the rows differ too much there, and mixing with it does not make up for that"
            )
        share = max(share, (above + unit) / (above + below))
    places = bits + 8
    part = -(-share.numerator * (1 << places) // share.denominator)
    base = (1 << places) * denominator * total
    big = weights.astype(object) * (((1 << places) - part) * total) + toward.astype(object)[None] * (part * denominator)
    return _rounded_rows(big, base, bits), Fraction(part, 1 << places)


def _rounded_rows(numerators: Weights, base: int, bits: int) -> Weights:
    """Round rows of numerators/base to multiples of 2^−bits: down, and up where most is lost, until they sum to 1."""
    scaled = numerators * (1 << bits)
    rounded = scaled // base
    lost = scaled - rounded * base
    for x, missing in enumerate(((1 << bits) - rounded.sum(axis=1)).tolist()):
        for z in sorted(range(rounded.shape[1]), key=lost[x].__getitem__, reverse=True)[:missing]:
            rounded[x, z] += 1
    return rounded
