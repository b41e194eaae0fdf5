"""Sums, means and variances of cells, exactly, and their noise: what `diffprivlib.tools` computes in floats.

A float sum depends on the order of its terms, and one record can move it by more than the formula says (Casacuberta et al., 2022). Here
a record becomes an integer within bounds, by one function of this record alone, and all up to the noise is arithmetic of integers.

Records may be missing (NaN) in the functions for NaN, and their number m is private then. A sum about the middle of the bounds moves by at
most the width if a record gets another value, and by half of it if the record appears or goes; only then m changes, by 1. So the noise of
the sum at ε leaves ε/2 for m.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.interop import _entering
from dpcore.interop.diffprivlib import _bounded, _numbers
from dpcore.interop.diffprivlib._draws import INT64, Array, Reals
from dpcore.sums import ExactSum, clamped_sum

_BITS = 49
"""A record of a variance has so many bits: 2^13 squares of halves fit into an int64."""
_HALF = 25
_BLOCK = 1 << 13
_WIDEST = 2.0**511
_KINDS = "biuf"

Object = npt.NDArray[np.object_]


class Cells(NamedTuple):
    """Records of several results.

    Attributes
    ----------
    table : ndarray of shape (results, records)
        The records.
    lower, upper : float or int
        Their bounds.
    whole : bool
        Whether they are cut to integers.
    missing : bool
        Whether NaN is a record that is missing, whose number is private; else a result with a NaN is NaN.
    """

    table: Array
    lower: Any
    upper: Any
    whole: bool
    missing: bool

    @property
    def n(self) -> int:
        """Records of one result, missing ones too."""
        return int(self.table.shape[1])

    @property
    def holes(self) -> Array | None:
        """Where NaN is; None if nowhere."""
        holes = np.isnan(self.table) if self.table.dtype.kind == "f" else None
        return holes if holes is not None and holes.any() else None


def numbers(table: Array, *, whole: bool) -> Array:
    """The records with a dtype that sums take: each one by itself, so that none decides how another is read.

    If records are cut to integers, what is beyond int64 counts as its end. Else it is the nearest float, as is what has more digits.
    """
    kind, size = table.dtype.kind, table.dtype.itemsize
    if kind not in _KINDS:
        raise ParameterTypeError(f"array must hold real numbers, got the dtype {table.dtype.name if kind not in 'US' else 'str'}")
    wide = (kind == "f" and size > 8) or (kind == "u" and size == 8 and not whole)
    return _entering.array("array", table.astype(np.float64) if wide else table)


def released_sums(peer: Any, cells: Cells, epsilon: float, state: Any) -> Reals:
    """Sums with the noise of LaplaceTruncated. A missing record counts as 0, or as the bound that is nearer to it."""
    lower, upper, n = cells.lower, cells.upper, cells.n
    if lower == upper:
        return _without(cells, float(n * lower))
    total, holes = _total(cells, lower, upper, min(max(0.0, lower), upper))
    return _unknown(cells, holes, _noisy(peer, total, lower, upper, epsilon, state))


def released_means(peer: Any, cells: Cells, epsilon: float, state: Any) -> Reals:
    """Noisy sums over the number of records; over their noisy number if some may be missing."""
    lower, upper, n = cells.lower, cells.upper, cells.n
    if lower == upper:
        return _without(cells, float(lower))
    if not cells.missing:
        total, holes = _total(cells, lower, upper, lower)
        return np.clip(_unknown(cells, holes, _noisy(peer, total, lower, upper, epsilon, state) / n), lower, upper)
    low, high = _even(lower, upper)
    if low == high:
        return np.full(len(cells.table), low)
    middle = (low + high) / 2  # exact: an even number of steps lies between them
    total, holes = _total(cells, low, high, middle)
    noisy = _noisy(peer, total, lower, upper, epsilon, state)
    return np.clip(middle + (noisy - n * middle) / _noisy_counts(peer, cells, holes, epsilon, state), lower, upper)


def released_variances(peer: Any, cells: Cells, epsilon: float, state: Any) -> Reals:
    """n²·variance, an integer of steps, with the noise of LaplaceBoundedDomain; with that of Laplace if records may be missing."""
    lower, upper = float(cells.lower), float(cells.upper)
    if not upper - lower < _WIDEST:
        raise ParameterError(f"bounds of a variance must be less than 2**511 apart, got {lower!r} and {upper!r}")
    shift = _BITS - math.frexp(upper - lower)[1]
    width = round(math.ldexp(upper - lower, shift))
    release = _variances_of_some if cells.missing else _variances_of_all
    steps, exponent, holes = release(peer, cells, shift, width, epsilon, state)
    variances = np.clip(np.ldexp(steps, exponent - 2 * shift), 0.0, ((upper - lower) ** 2) / 4)
    return _unknown(cells, holes, variances)


def released_integers(peer: Any, cells: Cells, epsilon: float, state: Any) -> Array:
    """Sums of integers with the noise of GeometricTruncated."""
    n, (lower, upper) = cells.n, (min(max(int(bound), INT64.min), INT64.max) for bound in (cells.lower, cells.upper))
    whole = _whole(cells.table, lower, upper)
    totals = (whole >> 32).sum(axis=1).astype(object) * (1 << 32) + (whole & 0xFFFFFFFF).sum(axis=1).astype(object)
    mechanism = peer.GeometricTruncated(epsilon=epsilon, sensitivity=upper - lower, lower=lower * n, upper=upper * n, random_state=state)
    return _numbers.whole_sums(mechanism, np.clip(totals, INT64.min, INT64.max).astype(np.int64))


def _whole(table: Array, lower: int, upper: int) -> npt.NDArray[np.int64]:
    """Records as integers within the bounds: cut towards 0, and a NaN counts as 0."""
    if table.dtype.kind == "f":
        ends = np.nextafter([-(2.0**63), 2.0**63], 0.0)
        table = np.trunc(np.nan_to_num(np.clip(table.astype(np.float64), *ends), nan=0.0)).astype(np.int64)
    return np.clip(table.astype(np.int64, copy=False), lower, upper)


def _total(cells: Cells, lower: float, upper: float, fill: float) -> tuple[ExactSum, Array | None]:
    """The exact sums, a NaN being counted as `fill`, and where one is."""
    table = np.trunc(cells.table) if cells.whole and cells.table.dtype.kind == "f" else cells.table
    try:
        return clamped_sum(table.T, lower, upper), None
    except DataError:
        holes = np.isnan(table)
        return clamped_sum(np.where(holes, fill, table.astype(np.float64)).T, lower, upper), holes


def _noisy(peer: Any, total: ExactSum, lower: float, upper: float, epsilon: float, state: Any) -> Reals:
    mechanism = peer.LaplaceTruncated(
        epsilon=epsilon, delta=0, sensitivity=total.sensitivity(), lower=lower * total.n, upper=upper * total.n, random_state=state
    )
    return _numbers.exact_sums(mechanism, np.asarray(total.high), np.asarray(total.low))


def _noisy_counts(peer: Any, cells: Cells, holes: Array | None, epsilon: float, state: Any) -> Reals:
    """The numbers of records that are not missing, at ε/2, and at least 1."""
    counts = np.full(len(cells.table), cells.n) if holes is None else cells.n - holes.sum(axis=1)
    mechanism = peer.GeometricTruncated(epsilon=epsilon / 2, sensitivity=1, lower=1, upper=cells.n, random_state=state)
    return _numbers.whole_sums(mechanism, np.maximum(counts, 1)).astype(np.float64)


def _even(lower: float, upper: float) -> tuple[float, float]:
    """Bounds within these, with an even number of steps of the grid of their sums between them."""
    empty = clamped_sum(np.empty(0), lower, upper)
    odd = round((empty.upper - empty.lower) / empty.grid) % 2
    return empty.lower, empty.upper - odd * empty.grid


def _without(cells: Cells, constant: float) -> Reals:
    """Results that the bounds alone decide."""
    return _unknown(cells, cells.holes, np.full(len(cells.table), constant))


def _unknown(cells: Cells, holes: Array | None, released: Reals) -> Reals:
    """NaN for results with a NaN, where that is not a missing record."""
    return released if holes is None or cells.missing else np.where(holes.any(axis=1), math.nan, released)


_Steps = tuple[Reals, int, "Array | None"]
"""Noisy variances in steps, the exponent of a step before `shift`, and where NaN is."""


def _variances_of_all(peer: Any, cells: Cells, shift: int, width: int, epsilon: float, state: Any) -> _Steps:
    n = cells.n
    sums, squares, _, holes = _moments(cells, shift)
    most = n * n * width * width // 4
    exponent = max(0, most.bit_length() - 53)  # multiples of 2^exponent are floats; rounding down moves two values apart by less than one
    mechanism = peer.LaplaceBoundedDomain(
        epsilon=epsilon, delta=0, sensitivity=float(_up(width * width * (n - 1), exponent)), lower=0, upper=float(most >> exponent),
        random_state=state,
    )  # fmt: skip
    exact = (n * squares - sums * sums) >> exponent
    return _bounded.domain_sums(mechanism, exact.astype(np.float64)) / (n * n), exponent, holes


def _variances_of_some(peer: Any, cells: Cells, shift: int, width: int, epsilon: float, state: Any) -> _Steps:
    """The sum of squares about the mean moves by at most W²(n − 1)/n, and in one direction only if a record appears or goes."""
    n = cells.n
    sums, squares, counts, holes = _moments(cells, shift)
    exponent = max(0, (n * width * width).bit_length() - 52)
    sensitivity = 2 * _up(-(-width * width * (n - 1) // n), exponent + 1)  # even, so that half of it is a whole number of steps
    present = np.maximum(counts, 1)
    about = ((present * squares - sums * sums) // present - counts * ((sensitivity << exponent) // 2)) >> exponent
    mechanism = peer.Laplace(epsilon=epsilon, sensitivity=float(sensitivity), random_state=state)
    noisy = _numbers.exact_sums(mechanism, about.astype(np.float64), np.zeros(len(about)))
    return noisy / _noisy_counts(peer, cells, holes, epsilon, state) + sensitivity / 2, exponent, holes


def _up(number: int, bits: int) -> int:
    """number/2^bits, rounded up."""
    return -(-number >> bits)


def _moments(cells: Cells, shift: int) -> tuple[Object, Object, Object, Array | None]:
    """Σd and Σd² of d = (x − lower)·2^shift, rounded, as integers of Python; how many there are, and where NaN is."""
    table, lower, upper = cells.table, float(cells.lower), float(cells.upper)
    sums = np.zeros(len(table), object)
    squares, holes = sums.copy(), cells.holes
    for start in range(0, cells.n, _BLOCK):
        block = table[:, start : start + _BLOCK].astype(np.float64)
        block = np.clip(np.trunc(block) if cells.whole else block, lower, upper)
        steps = np.rint(np.ldexp(block - lower, shift))
        if holes is not None:
            steps[holes[:, start : start + _BLOCK]] = 0.0
        whole = steps.astype(np.int64)
        far, near = whole >> _HALF, whole & ((1 << _HALF) - 1)
        sums += whole.sum(axis=1).astype(object)
        for a, b, bits in ((far, far, 2 * _HALF), (far, near, _HALF + 1), (near, near, 0)):
            squares += np.einsum("ij,ij->i", a, b).astype(object) * (1 << bits)
    counts = np.full(len(table), cells.n) if holes is None else cells.n - holes.sum(axis=1)
    return sums, squares, counts.astype(object), holes


Release = Callable[[Any, Cells, float, Any], Array]
