"""Low bits of floats, which can reveal the number that noise was added to.

Three functions of an output decide events that an ideal mechanism does not have. A float64 sum x + w of noise w in floats is a multiple of
the coarser of the two units in the last place. So the number of its trailing zeros, and whether it is x plus a float at all, depend on x.
And a sampler that inverts a uniform number of 53 bits reaches only some floats.

Sources: Mironov (2012); Haney et al. (2022).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Codes = npt.NDArray[np.int64]

NEIGHBOURS = 4
"""Uniform numbers to try on either side of the nearest one; exp, log and sum err by fewer units."""
ZERO, MINUS_ZERO, NOT_FINITE = -1, -2, -3


def trailing_zeros(y: Floats) -> Codes:
    """64·(e + 1074) + t for numbers in [2^e, 2^(e + 1)) whose 53-bit mantissa ends in t zeros; negative codes for 0, −0 and the rest."""
    with np.errstate(invalid="ignore"):
        finite = np.isfinite(y)
        fraction, exponent = np.frexp(np.where(finite, y, 0.0))
        mantissa = np.ldexp(np.abs(fraction), 53).astype(np.int64)
    lowest = (mantissa & -mantissa).astype(np.float64)  # a power of two, so the conversion is exact
    code = 64 * (exponent.astype(np.int64) + 1073) + np.frexp(lowest)[1] - 1
    code[mantissa == 0] = np.where(np.signbit(y[mantissa == 0]), MINUS_ZERO, ZERO)
    code[~finite] = NOT_FINITE
    return code


def representable(y: Floats, x0: float, x1: float) -> Codes:
    """For each x two bits, whether y is x plus a float and whether y − x is a float, and 16 times the side of both that y lies on."""
    low, high = min(x0, x1), max(x0, x1)
    code = ((y >= low).astype(np.int64) + (y > high)) * 16
    with np.errstate(invalid="ignore", over="ignore"):
        for bit, x in ((4, x0), (1, x1)):
            difference = y - x
            again = difference + x
            error = (y - again) - (x - (again - difference))  # of y − x, exactly: the two-sum of Knuth (1997)
            code += bit * ((again == y) + 2 * (error == 0.0).astype(np.int64))
    return code


def reachable(y: Floats, x0: float, x1: float, scale: float) -> Codes:
    """Two bits, one for each x: whether x ∓ scale·ln(v·2^-52) is y for some integer v, as in samplers that invert a uniform number."""
    code = np.zeros(y.shape, np.int64)
    with np.errstate(all="ignore"):
        for bit, x in ((2, x0), (1, x1)):
            w = y - x
            middle = np.rint(np.exp(-np.abs(w) / scale) * 2.0**52)
            found = np.zeros(y.shape, np.bool_)
            for step in range(-NEIGHBOURS, NEIGHBOURS + 1):
                v = np.clip(middle + step, 1.0, 2.0**52)
                found |= x - np.copysign(scale * np.log(v * 2.0**-52), -w) == y
            code += bit * found
    return code
