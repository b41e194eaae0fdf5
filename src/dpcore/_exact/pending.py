"""The description of a sample that the fast and the exact tiers share. The exact tier itself is imported when needed."""

from __future__ import annotations

from typing import Literal

from dpcore._dataclasses import dataclass

Kind = Literal["laplace", "gaussian", "discrete_laplace", "discrete_gaussian"]
SelectionNoise = Literal["gumbel", "exponential", "laplace"]

TABLE_LIMIT = 8.0
"""Below this σ the discrete Gaussian is inverted from a table; from it on, a normal is rounded and accepted or rejected."""

MOST_UNITS = 2**62
"""Largest count of units of a partition."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A sample that the faster tiers did not decide: its place in the arrays and in the keystream, its input and its law."""

    index: int
    element: int
    x: float
    x_low: float
    x_int: int
    law: int
