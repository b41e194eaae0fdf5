"""Means, standard errors and slopes of replicates."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore.reproduce.results import Check, Slope

Numbers = Sequence[float] | npt.NDArray[np.float64]
SIGNIFICANCE = 1e-6
"""Error rate of a Monte-Carlo check."""


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


def proportion(successes: int, n: int) -> Mean:
    """Share of n trials, with a standard error as if one or more had succeeded: none of n is not never.

    Examples
    --------
    >>> proportion(0, 100), proportion(50, 100)
    (Mean(value=0.0, stderr=0.01), Mean(value=0.5, stderr=0.05))
    """
    share = successes / n
    return Mean(share, math.sqrt(max(share * (1 - share), 1 / n) / n))


def log_slope(x: Numbers, y: Numbers, stderr: Numbers | None = None) -> tuple[float, float]:
    """Slope of log y in log x by least squares, and its standard error.

    All points have one weight, because weights from few replicates would favour points with a standard error that is small by chance.

    Parameters
    ----------
    x, y : sequence of float
        Positive; at least two different x.
    stderr : sequence of float, optional
        Standard errors of y, which are independent; 0 by default.

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
    log_x, values = np.log(np.asarray(x, np.float64)), np.asarray(y, np.float64)
    centred = log_x - log_x.mean()
    coefficients = centred / np.sum(centred**2)
    relative = 0.0 if stderr is None else np.asarray(stderr) / values
    return float(coefficients @ np.log(values)), float(np.sqrt(np.sum((coefficients * relative) ** 2)))


def compared(part: str, variable: str, x: Numbers, means: Sequence[Mean], theory: Numbers, own: Numbers | None = None) -> Slope:
    """The slope of measured means beside that of a formula on the same points.

    Parameters
    ----------
    part, variable : str
        As in `Slope`.
    x : sequence of float
        Values of the variable.
    means : sequence of Mean
        Measured means at these values.
    theory : sequence of float
        The formula at these values.
    own : sequence of float, optional
        The exact expectation of the estimator at these values.
    """
    measured, stderr = log_slope(x, [mean.value for mean in means], [mean.stderr for mean in means])
    return Slope(part, variable, measured, stderr, log_slope(x, theory)[0], None if own is None else log_slope(x, own)[0])


def at_most(successes: int, n: int, share: float) -> bool:
    """Whether a probability may be at most `share` after `successes` of n trials: one-sided Clopper-Pearson at 10^-6.

    Examples
    --------
    >>> at_most(3, 40, 0.05), at_most(30, 40, 0.05)
    (True, False)
    """
    from scipy import stats

    return bool(successes == 0 or stats.beta.ppf(SIGNIFICANCE, successes, n - successes + 1) <= share)


def share_check(claim: str, broken: int, n: int, allowed: float, unit: str = "runs") -> Check:
    """Check a claim that may fail with some probability.

    Parameters
    ----------
    claim : str
        The claim in words.
    broken, n : int
        Number of failures, and number of trials.
    allowed : float
        The probability.
    unit : str, default "runs"
        Name of the trials.
    """
    return Check(claim, f"{broken:,} of {n:,} {unit}", f"{allowed:.3g} of the {unit}", at_most(broken, n, allowed))
