"""What is released, in a form whose privacy loss between two tables is a maximum and a sum.

A release is one part after the other. A part is a choice among outcomes, each with its log-probability, and after each outcome numbers that
get Laplace or discrete Laplace noise: over the scale of their noise, |change| is what they lose. The loss of a part between two tables is
that of its worst outcome, and that of an answer is the sum over its parts: parts that are drawn independently, or one given the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
FREE = 1e-12
"""The scale of a number without noise: if it changes at all, everything is lost."""


@dataclass(frozen=True)
class Part:
    """A choice, and the noisy numbers after it.

    Attributes
    ----------
    logs : ndarray of shape (outcomes,)
        Log-probabilities.
    numbers : ndarray of shape (outcomes, numbers)
        Over the scales of their noise.
    """

    logs: Array
    numbers: Array


def noisy(numbers: Iterable[Any], scale: float) -> Part:
    """Numbers that get noise of one scale, without any choice; exact until they are divided."""
    scale = Fraction(scale)
    return Part(np.zeros(1), np.array([[float(Fraction(number) / scale) for number in numbers]]))


def exact_sums(total: Any) -> list[Fraction]:
    """The sum of each group."""
    return [each * Fraction(total.sums.grid) for each in total.sums.integers]


def softmax_logs(weights: Sequence[float]) -> Array:
    """Logarithms of probabilities that are proportional to e^weights."""
    exponents = np.asarray(weights, float)
    exponents = exponents - exponents.max()
    return np.asarray(exponents - np.log(np.exp(exponents).sum()))


def losses(ways: Sequence[Sequence[Sequence[Part]]], pairs: Array) -> Array:
    """The loss of the worst way between the tables of each pair, given the ways of each table."""
    worst = np.zeros(len(pairs))
    for way in zip(*ways, strict=True):
        total = np.zeros(len(pairs))
        for part in zip(*way, strict=True):
            logs, numbers = np.array([each.logs for each in part]), np.array([each.numbers for each in part])
            one, other = pairs.T
            apart = np.abs(numbers[one] - numbers[other]).sum(axis=2)
            # Either table may be the likelier one.
            total += np.max(np.abs(logs[one] - logs[other]) + apart, axis=1)
        worst = np.maximum(worst, total)
    return worst
