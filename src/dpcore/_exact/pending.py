"""What the fast and the exact tiers must agree on about a sample. Light: the exact tier itself loads when needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["laplace", "gaussian", "discrete_laplace", "discrete_gaussian"]
SelectionNoise = Literal["gumbel", "exponential", "laplace"]

TABLE_LIMIT = 8.0
"""Below this σ the discrete Gaussian is inverted from a table, from it on it is a rounded normal with an acceptance step."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A sample the faster tiers left undecided: its place in the arrays and in the keystream, its input, and which law it follows."""

    index: int
    element: int
    x: float
    x_low: float
    x_int: int
    law: int
