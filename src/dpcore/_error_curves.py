"""The error of an estimate before there are data, as a function of n and ε, and the search for the least of either.

A class that can be planned has a method `error_curve(aim, **assumed)`, which returns an `ErrorCurve`. `dpcore.planning` asks that method
and no class. This module is a leaf, so that mechanisms, models and jobs can return curves without an import of what stands above them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal

from dpcore._dataclasses import dataclass
from dpcore.errors import ParameterError

Measure = Literal["rmse", "width", "power"]
MEASURES: tuple[Measure, ...] = ("rmse", "width", "power")
LOWEST, HIGHEST = -6, 3
"""Powers of ten of the first and of the last ε of the grid."""
STEPS = 900
"""Numbers of three digits between two powers of ten."""
MOST_RECORDS = 2**40
OUTWARDS = 1 + 2.0**-45
"""Outweighs some forty roundings of float64, of a relative 2^-53 each."""


def three_digits(place: int, lowest: int) -> float:
    """A number of three digits as it is written: at place 0 it is 10^lowest, then 1.01·10^lowest, and so on."""
    power, step = divmod(place, STEPS)
    return float(f"{100 + step}e{lowest + power - 2}")


def grid(place: int) -> float:
    """An ε of the grid: 1.00e-6, 1.01e-6, …, 1000."""
    return three_digits(place, LOWEST)


SIZE = STEPS * (HIGHEST - LOWEST) + 1
"""Numbers of the grid of ε."""


def least(meets: Callable[[int], bool], low: int, high: int) -> int:
    """The place in (low, high] at which `meets` becomes true: it does at the place, and not at the one before, unless that is `low`.

    `high` meets, and `low` is not asked. If `meets` never becomes false again, this is the least place.
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high


@dataclass(frozen=True, slots=True)
class Aim:
    """What shall be small.

    Attributes
    ----------
    measure : {"rmse", "width", "power"}
        Root mean square error; width of a confidence interval; probability that a test rejects.
    target : float
        The largest root mean square error or width, or the least power.
    confidence : float
        Coverage of the interval. Other measures do not use it.
    """

    measure: Measure
    target: float
    confidence: float = 0.95

    @property
    def allowed(self) -> float:
        """The largest value of the curve: the target, or 1 − power, the probability of a miss."""
        return math.nextafter(1 - self.target, 0.0) if self.measure == "power" else self.target

    def one_of(self, what: str, *measures: Measure) -> None:
        """Raise unless the measure is one of those that something has."""
        if self.measure not in measures:
            raise ParameterError(f"{what} can be planned for {' or '.join(measures)}, got {self.measure}")


@dataclass(frozen=True, slots=True)
class ErrorCurve:
    r"""The error of an estimate, as a function of the number of records and of ε.

    Attributes
    ----------
    error : callable
        error(n, epsilon): the measure, or a bound of it. It is at least the true one for all data that `formula` allows, in float64 as
        well. Infinite where nothing is known.
    what : str
        What errs.
    formula : str
        The bound as a formula.
    source : str
        The theorem or the page that proves it.
    exact : bool
        Whether the measure itself is returned, at the worst case that `formula` names, and not a larger bound.
    epsilon : float or None
        The ε of what is planned, unless the caller gives another one.
    best_epsilon : callable or None
        best_epsilon(n): the ε with the smallest error, where privacy is no aim of its own.
    sizes : tuple of int
        The smallest and the largest n.
    epsilons : tuple of float
        The smallest and the largest ε.
    falls_in_n, falls_in_epsilon : bool
        Whether it is proved that the error never grows with n, or with ε.
    slow : bool
        Whether the error takes long to compute: n is then searched among the numbers of three digits, and fewer are tried.
    limit_in_n, limit_in_epsilon : str
        What remains of the error, however large n or ε.
    details : callable or None
        details(n, epsilon): what a user needs to reach the error.
    """

    error: Callable[[int, float], float]
    what: str
    formula: str
    source: str
    exact: bool = False
    epsilon: float | None = None
    best_epsilon: Callable[[int], float] | None = None
    sizes: tuple[int, int] = (1, MOST_RECORDS)
    epsilons: tuple[float, float] = (2.0**-20, 700.0)
    falls_in_n: bool = False
    falls_in_epsilon: bool = False
    slow: bool = False
    limit_in_n: str = "the largest n that is planned"
    limit_in_epsilon: str = "the error that remains without privacy"
    details: Callable[[int, float], Mapping[str, Any]] | None = field(default=None)
