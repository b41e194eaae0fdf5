"""Simulated data, from the same kernels and keys as the noise."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpcore import local, noise
from dpcore.rng import Stream

FAIR = 2.0**-20
"""Least ε of a response: its reports of False are True with probability ½ − 2^-22."""


def fair_bits(shape: tuple[int, ...], rng: Stream) -> npt.NDArray[np.bool_]:
    """Draw independent bits that are True with probability ½ (within 2^-22; two bits are equal with probability ½ within 2^-43).

    Parameters
    ----------
    shape : tuple of int
        Shape of the result.
    rng : Stream
        A keyed stream.
    """
    zeros = np.zeros(shape, np.bool_)
    return local.BinaryResponse(FAIR).privatize(zeros, rng=rng, out=zeros)


def signs(shape: tuple[int, ...], mean: float, rng: Stream) -> npt.NDArray[np.int8]:
    """Draw independent ±1 of a mean.

    Parameters
    ----------
    shape : tuple of int
        Shape of the result.
    mean : float
        Mean in (−1, 1). If its absolute value is below 10^-6, it counts as 0.
    rng : Stream
        A keyed stream.
    """
    # P(+1) = (1 + m)/2 is the probability that a response at ε = 2 artanh |m| tells the truth.
    epsilon = max(FAIR, 2 * math.atanh(abs(mean)))
    drawn = np.full(shape, mean >= 0, np.bool_)
    local.BinaryResponse(epsilon).privatize(drawn, rng=rng, out=drawn)
    numbers = drawn.view(np.int8)
    numbers *= 2
    numbers -= 1
    return numbers


def packed_signs(n: int, d: int, mean: float, rng: Stream) -> npt.NDArray[np.uint8]:
    """Draw n records of d independent ±1 of a mean, eight in a byte; a set bit is +1.

    Parameters
    ----------
    n : int
        Number of records.
    d : int
        Number of signs of a record, a multiple of 8.
    mean : float
        Mean in [0, 1). Below 10^-6 it counts as 0.
    rng : Stream
        A keyed stream.
    """
    packed = np.full(n * d // 8, 255, np.uint8)
    response = local.BinaryResponse(max(FAIR, 2 * math.atanh(mean)))
    return response.privatize_packed(packed, n=n * d, rng=rng, out=packed).reshape(n, d // 8)


def normals(shape: tuple[int, ...], mean: float, rng: Stream) -> npt.NDArray[np.float64]:
    """Draw independent normal numbers of standard deviation 1, on a grid of 2^-25.

    Parameters
    ----------
    shape : tuple of int
        Shape of the result.
    mean : float
        Mean of the numbers.
    rng : Stream
        A keyed stream.
    """
    numbers = np.full(shape, mean)
    return noise.gaussian(numbers, 1.0, rng=rng, out=numbers)
