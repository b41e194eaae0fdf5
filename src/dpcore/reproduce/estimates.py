"""Means, standard errors and slopes of replicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpcore.reproduce.results import Slope

Numbers = Sequence[float] | npt.NDArray[np.float64]
SIGNIFICANCE = 1e-6
"""Share of right results that a Monte-Carlo check may refuse."""


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean of replicates.

    Attributes
    ----------
    value, stderr : float
        Mean and its standard error.
    """

    value: float
    stderr: float


def mean_of(replicates: Numbers) -> Mean:
    """Mean and standard error of at least two replicates.

    Examples
    --------
    >>> mean_of([1.0, 3.0])
    Mean(value=2.0, stderr=1.0)
    """
    values = np.asarray(replicates, np.float64)
    return Mean(float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size)))


def log_slope(x: Numbers, y: Numbers, stderr: Numbers | None = None) -> tuple[float, float]:
    """Slope of log y in log x by least squares, each point weighted by its relative precision, and its standard error.

    Parameters
    ----------
    x, y : sequence of float
        Positive; at least two different x.
    stderr : sequence of float, optional
        Standard errors of y, which are independent. Without them all points weigh the same, and the standard error is 0.

    Returns
    -------
    tuple of float
        Slope and standard error.

    Examples
    --------
    >>> slope, stderr = log_slope([1.0, 10.0, 100.0], [3.0, 0.3, 0.03])
    >>> round(slope, 12), stderr
    (-1.0, 0.0)
    """
    log_x, log_y = np.log(np.asarray(x, np.float64)), np.log(np.asarray(y, np.float64))
    weights = np.ones_like(log_y) if stderr is None else (np.asarray(y) / np.asarray(stderr)) ** 2
    centred = log_x - np.average(log_x, weights=weights)
    spread = float(np.sum(weights * centred**2))
    return float(np.sum(weights * centred * log_y) / spread), 0.0 if stderr is None else spread**-0.5


def compared(part: str, variable: str, x: Numbers, means: Sequence[Mean], theory: Numbers, own: Numbers | None = None) -> Slope:
    """The slope of measured means beside that of a formula on the same points and with the same weights.

    Parameters
    ----------
    part, variable : str
        As in `Slope`.
    x : sequence of float
        The variable.
    means : sequence of Mean
        Measured there.
    theory : sequence of float
        The formula there.
    own : sequence of float, optional
        The exact expectation of the estimator there.
    """
    values, errors = np.array([mean.value for mean in means]), np.array([mean.stderr for mean in means])

    def slope_of(formula: Numbers) -> float:
        return log_slope(x, formula, np.asarray(formula, np.float64) * errors / values)[0]

    return Slope(part, variable, *log_slope(x, values, errors), slope_of(theory), None if own is None else slope_of(own))


def at_most(successes: int, n: int, share: float) -> bool:
    """Whether a probability may be at most `share`, having seen `successes` of n: one-sided Clopper-Pearson at 10^-6.

    Examples
    --------
    >>> at_most(3, 40, 0.05), at_most(30, 40, 0.05)
    (True, False)
    """
    from scipy import stats

    return bool(successes == 0 or stats.beta.ppf(SIGNIFICANCE, successes, n - successes + 1) <= share)
