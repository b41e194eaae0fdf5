"""What reports add up to, and what is inferred from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from dpcore._validation import REAL_DTYPES, check_array, check_choice, check_real
from dpcore.errors import ParameterError
from dpcore.local._count_intervals import frequency_interval

if TYPE_CHECKING:
    import numpy.typing as npt

    Counts = npt.NDArray[np.int64] | tuple[int, ...]

Target = Literal["population", "sample"]
TARGETS = ("population", "sample")


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
    """What an estimator needs of a set of reports; partitions are combined by `+`.

    Attributes
    ----------
    mechanism : object
        The mechanism that made the reports.
    n : int
        Number of reports.
    counts : ndarray of int64, or tuple of int
        What was counted, as the mechanism's `aggregate` says; exact integers, so that sums do not depend on their order.
    """

    mechanism: Any
    n: int
    counts: Counts

    def __add__(self, other: object) -> Aggregate:
        if not isinstance(other, Aggregate):
            return NotImplemented
        check_same_mechanism(self.mechanism, other.mechanism)
        if isinstance(self.counts, tuple) or isinstance(other.counts, tuple):
            total: Counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        else:
            total = self.counts + other.counts
        return Aggregate(self.mechanism, self.n + other.n, total)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Aggregate):
            return NotImplemented
        return bool(self.mechanism == other.mechanism and self.n == other.n and np.array_equal(self.counts, other.counts))

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """An unbiased estimate with its uncertainty.

    Attributes
    ----------
    value : float or ndarray of float64, shape (k,)
        The estimate. It is unbiased, so a frequency may come out below 0 or above 1; see `dpcore.local.project_to_simplex`.
    stderr : float or ndarray of float64, shape (k,)
        Standard error.
    interval : ndarray of float64, shape (2,) or (k, 2)
        Lower and upper end of a confidence interval, pointwise: by the exact law of the counts where they are few, with a correction for
        their skewness elsewhere. It holds the value, and need not be symmetric about it.
    n : int
        Number of reports.
    confidence : float
        Coverage of each interval, in (0, 1).
    """

    value: float | npt.NDArray[np.float64]
    stderr: float | npt.NDArray[np.float64]
    interval: npt.NDArray[np.float64]
    n: int
    confidence: float


def check_same_mechanism(one: object, other: object) -> None:
    """Raise unless two sets of reports were made alike."""
    if one != other:
        raise ParameterError(f"reports of different mechanisms cannot be taken together: {one!r} and {other!r}")


def check_estimation(confidence: float, target: str) -> float:
    """Check what every estimator takes; returns the confidence as a float."""
    check_choice("target", target, TARGETS)
    return check_real("confidence", confidence, low=0.0, high=1.0, include_low=False, include_high=False)


class Support(NamedTuple):
    """How often a report supports a category: what turns counts into frequencies, whatever the mechanism.

    Attributes
    ----------
    p : float
        Probability that a report supports the true category.
    q : float
        Probability that it supports another, fixed one; q < p.
    miss : float
        1 − p, to full relative precision where p is close to 1.
    """

    p: float
    q: float
    miss: float


def support_variance(f: Any, support: Support, target: str = "population") -> Any:
    """Variance of one user's contribution to the estimate of a frequency f.

    [f·p(1−p) + (1−f)·q(1−q)]/(p−q)² for the sample's frequency, plus f(1−f) for the population's.
    """
    p, q, miss = support
    within = (f * p * miss + (1 - f) * q * (1 - q)) / (p - q) ** 2
    return within + f * (1 - f) if target == "population" else within


def frequencies(counts: Any, n: int, support: Support, *, confidence: float, target: str) -> Estimate:
    """Estimate frequencies from support counts: f = (count/n − q)/(p − q), the standard error at f cut to [0, 1]."""
    value = (np.asarray(counts, np.float64) / n - support.q) / (support.p - support.q)
    stderr = np.sqrt(support_variance(np.clip(value, 0.0, 1.0), support, target) / n)
    interval = frequency_interval(counts, n, support, confidence=confidence, target=target)
    if np.ndim(value) == 0:
        return Estimate(float(value), float(stderr), interval, n, confidence)
    return Estimate(value, stderr, interval, n, confidence)


def project_to_simplex(frequencies: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the nearest probability vector, in Euclidean distance.

    Post-processing: it costs no privacy. The result is consistent (no negative frequency, sum 1) and no longer unbiased.

    Parameters
    ----------
    frequencies : array_like of float, shape (k,)
        Raw unbiased estimates; finite, k ≥ 1.

    Returns
    -------
    ndarray of float64, shape (k,)
        argmin ‖f − frequencies‖₂ over f ≥ 0, Σf = 1.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the argument is not a non-empty vector of finite numbers.

    Notes
    -----
    Cost: O(k log k). Source: Wang & Carreira-Perpiñán (2013), Algorithm 1.

    Examples
    --------
    >>> import dpcore
    >>> dpcore.local.project_to_simplex([0.75, 0.5, -0.05]).tolist()
    [0.625, 0.375, 0.0]
    """
    raw = check_array("frequencies", frequencies, REAL_DTYPES).astype(np.float64)
    if raw.ndim != 1 or raw.size == 0 or not np.isfinite(raw).all():
        raise ParameterError(f"frequencies must be a non-empty vector of finite numbers, got shape {raw.shape}")
    # Only distances to the largest one matter, and what is 1 or more below it becomes 0: so nothing is too large for float64.
    with np.errstate(over="ignore"):
        below = np.maximum(raw - raw.max(), -1.0)
    falling = np.sort(below)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(falling) + 1)
    last = np.flatnonzero(falling > excess)[-1]
    projected: npt.NDArray[np.float64] = np.maximum(below - excess[last], 0.0)
    return projected
