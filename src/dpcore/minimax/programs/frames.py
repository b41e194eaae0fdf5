"""The units in which programs are solved. This is the only place where a functional is centred and scaled.

Solvers have absolute tolerances, drop small coefficients and refuse large ones. So every model has a standard form, in which its functional
takes values in [−1, 1] on the points that may have mass. All programs are about that form, and a `Frame` converts their results. The unit
is a power of two, and subtracting the origin rounds each value once. So what is proved in the standard form holds in the original one, up
to 2^−53 of the functional's length.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dpcore._dataclasses import dataclass

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Frame:
    """θ = origin + 2^exponent·t, where t is θ in the standard form.

    Attributes
    ----------
    origin : float
        θ of t = 0.
    exponent : int
        The unit is 2^exponent.
    """

    origin: float = 0.0
    exponent: int = 0

    def difference(self, t: float) -> float:
        """Convert a difference from the standard form."""
        return times_power_of_two(t, self.exponent)

    def standard_difference(self, theta: float) -> float:
        """Convert a difference to the standard form."""
        return times_power_of_two(theta, -self.exponent)

    def points(self, t: Array) -> Array:
        """Convert values from the standard form."""
        values: Array = self.origin + np.ldexp(t, self.exponent)
        return values

    def point(self, t: float) -> float:
        """Convert a value from the standard form."""
        return self.origin + self.difference(t)

    def outwards(self, low: float, high: float) -> tuple[float, float]:
        """Convert an interval from the standard form. Its ends are rounded outwards unless they are exact."""
        found = self.point(low), self.point(high)
        if self == STANDARD:
            return found
        return math.nextafter(found[0], -math.inf), math.nextafter(found[1], math.inf)

    def intervals_outwards(self, ends: Array) -> Array:
        """Convert intervals, shape (…, 2), from the standard form. Their ends are rounded outwards unless they are exact."""
        found = self.points(ends)
        return found if self == STANDARD else np.nextafter(found, np.array([-np.inf, np.inf]))


LEAST_MASS = 2.0**-200
"""Smallest unit of the mass of a point."""
STANDARD = Frame()
"""The frame of a model in its standard form."""


def times_power_of_two(value: float, exponent: float) -> float:
    """Return value·2^exponent for any real exponent, and infinity beyond the range of float64."""
    whole = math.floor(exponent)
    try:
        return math.ldexp(value * 2.0 ** (exponent - whole), whole)
    except OverflowError:
        return math.copysign(math.inf, value)


def frame_of(f: Array, possible: npt.NDArray[np.bool_]) -> tuple[Frame, Array]:
    """Return the frame of a functional, and the functional in it: within [−1, 1], and 0 where no mass is possible."""
    own = f[possible]
    shift = math.frexp(float(np.abs(own).max()))[1]
    near = np.ldexp(own, -shift)  # |near| ≤ 1: no difference overflows
    middle = float(near.min() / 2 + near.max() / 2)
    centred = near - middle
    spread = float(np.abs(centred).max())
    # A constant has no length. Its unit is that of its last digit.
    more = math.frexp(spread)[1] if spread > 0 else -52
    standard = np.zeros(len(f))
    standard[possible] = np.ldexp(centred, -more)
    return Frame(times_power_of_two(middle, shift), shift + more), standard


def moves(region: Any) -> Any:
    """Return the effect of variables on a difference of two members, shape (X, Y): the image without the mass that all have in common.

    The variables of a member have a fixed sum, so the common mass cancels. In a mixture of distributions that nearly agree, its rounding
    would hide their differences. Here each entry is exact up to its own last digit.
    """
    image = sp.csr_array(region.image, copy=True)
    if region.equal.shape[0] != 1 or (region.equal.toarray() != 1.0).any() or region.free.any():
        return image
    full = np.diff(image.indptr) == image.shape[1]
    if not full.any():
        return image
    common = np.where(full, image.min(axis=1).toarray().ravel(), 0.0)
    image.data -= np.repeat(common, np.diff(image.indptr))
    image.eliminate_zeros()
    return image


def most_moved(moving: Any) -> Array:
    """Return the largest mass that a variable moves to or from each point, as a power of two: 1 if variables are masses."""
    largest = abs(moving).max(axis=1).toarray().ravel()
    return np.asarray(np.exp2(np.round(np.log2(np.clip(largest, LEAST_MASS, 1.0)))))


def possible_points(region: Any) -> npt.NDArray[np.bool_]:
    """Return which points may have mass, as far as single conditions determine it, exactly and without a tolerance.

    Masses sum to 1, so a row a·y ≤ b with b = min a allows mass only where a is smallest. Several conditions that forbid a point together
    are not detected. Such a point then influences the unit.
    """
    usable = ~region.free
    below = region.below.tocsr()
    rows = np.repeat(np.arange(below.shape[0]), np.diff(below.indptr))
    bounded = np.ones(below.shape[0], np.bool_)
    bounded[rows[region.free[below.indices]]] = False  # a free variable can satisfy the row
    while True:
        counted = usable[below.indices]
        entries = np.bincount(rows[counted], minlength=below.shape[0])
        least = np.where(entries < usable.sum(), 0.0, np.inf)
        np.minimum.at(least, rows[counted], below.data[counted])
        tight = bounded & (region.at_most == least)
        if not tight.any():
            break
        before = int(usable.sum())
        for row in np.flatnonzero(tight):
            dense = np.zeros(len(usable))
            part = slice(below.indptr[row], below.indptr[row + 1])
            dense[below.indices[part]] = below.data[part]
            usable &= (dense <= least[row]) | region.free
        if int(usable.sum()) == before:
            break
    reached: npt.NDArray[np.bool_] = (np.abs(region.image[:, usable]) > 0).sum(axis=1) > 0
    return reached if reached.any() else np.ones(region.image.shape[0], np.bool_)
