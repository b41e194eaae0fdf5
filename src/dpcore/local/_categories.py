"""What the mechanisms for categories share: how a call is checked, and probabilities as fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpcore.local._mechanism import check_codes, open_stream, separate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from dpcore._exact.probability import Probability
    from dpcore.rng import Stream

PRECISION = 1280
"""Bits behind the binary point: e^−700, the least probability of a report, still has 270 of them."""


def fraction(p: Probability) -> Fraction:
    """The probability, cut after `PRECISION` bits."""
    return Fraction(p.floor(PRECISION), 2**PRECISION)


def least_variance(sizes: Iterable[int], support: Callable[[int], tuple[Fraction, Fraction]]) -> int:
    """The size whose reports estimate a category of frequency 0 best, by q(1 − q)/(p − q)² of its (p, q); the smaller one of equals."""

    def variance(size: int) -> Fraction:
        p, q = support(size)
        return q * (1 - q) / (p - q) ** 2

    return min(sorted(set(sizes)), key=variance)


def check_call(
    codes: npt.NDArray[Any], k: int, unknown: int | None, *, rng: Stream | None, out: npt.NDArray[Any] | None, threads: int | None
) -> tuple[npt.NDArray[Any], Stream]:
    """Check the rest of what `privatize` was given, parameters before data.

    Returns
    -------
    codes : ndarray
        Codes that are in [0, k), or are to be replaced, and stay so whatever is written to `out`: a copy where the two overlap.
    stream : Stream
        The source of randomness.
    """
    stream = open_stream(rng, threads)
    return separate(check_codes(codes, k, unknown, threads), out), stream
