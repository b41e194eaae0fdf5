"""Aggregates of reports, and estimates from them."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore._validation import REAL_DTYPES, check_array, check_real
from dpcore.errors import ParameterError
from dpcore.local._limits import FrequencyLimits, MovedLimits
from dpcore.local._support import support_variance
from dpcore.local._table import estimate_table
from dpcore.privacy import LocallyGuaranteed

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.local._limits import Limits
    from dpcore.local._support import Support
    from dpcore.privacy import Privacy

    Counts = npt.NDArray[np.int64] | tuple[int, ...]

Target = Literal["population", "sample"]
TARGETS = ("population", "sample")


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
    """Counts of a set of reports. Add aggregates of parts with `+` to get that of the whole.

    Attributes
    ----------
    mechanism : object
        The mechanism that made the reports.
    n : int
        Number of reports.
    counts : ndarray of int64, or tuple of int
        Exact integers, whose meaning the mechanism's `aggregate` states. Their sums do not depend on the order.
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
class Estimate(LocallyGuaranteed):
    """An unbiased estimate with its uncertainty.

    Attributes
    ----------
    value : float or ndarray of float64, shape (k,)
        The estimate. It is unbiased, so a frequency may come out below 0 or above 1; see `dpcore.local.project_to_simplex`.
    stderr : float or ndarray of float64, shape (k,)
        Standard error.
    n : int
        Number of reports.
    privacy : Privacy
        Guarantee of each report. The estimate is computed from the reports alone and has the same guarantee.
    categories : tuple of str or None
        Labels of the k categories, of a mechanism made by `from_categories`.
    limits : callable
        Gives the ends of the intervals for a confidence; `interval` calls it.

    Notes
    -----
    `interval` gives confidence intervals at any level. In a notebook an estimate shows as a table.
    """

    value: float | npt.NDArray[np.float64]
    stderr: float | npt.NDArray[np.float64]
    n: int
    privacy: Privacy
    categories: tuple[str, ...] | None = None
    limits: Limits = field(kw_only=True, repr=False)

    def interval(self, confidence: float = 0.95) -> npt.NDArray[np.float64]:
        """Return the lower and upper end of a confidence interval for each number.

        Parameters
        ----------
        confidence : float, default 0.95
            Coverage of each interval on its own, in (0, 1).

        Returns
        -------
        ndarray of float64, shape (2,) or (k, 2)
            The ends. They follow the exact law of the counts where these are few, and a normal law with a correction for skewness
            elsewhere. An interval holds the value and need not be symmetric about it.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the confidence is not a number in (0, 1).

        Examples
        --------
        >>> import numpy as np
        >>> from dpcore.local import Aggregate, BinaryResponse
        >>> mechanism = BinaryResponse(epsilon=1.0)
        >>> found = mechanism.estimate(Aggregate(mechanism, 1000, np.array([400])))
        >>> found.interval().round(3).tolist(), found.interval(0.5).round(3).tolist()
        ([0.218, 0.351], [0.26, 0.307])
        """
        return self.limits(check_confidence(confidence))

    def _repr_html_(self) -> str:
        """Return the table that a notebook shows."""
        return estimate_table(self.value, self.stderr, self.interval(), self.n, self.categories, self.privacy)


def check_same_mechanism(one: object, other: object) -> None:
    """Raise unless two sets of reports were made by the same mechanism."""
    if one != other:
        why = "their categories differ" if repr(one) == repr(other) else f"{one!r} and {other!r}"
        raise ParameterError(f"reports of different mechanisms cannot be taken together: {why}")


def check_confidence(value: object) -> float:
    """Return a confidence as a float if it is in (0, 1), else raise."""
    return check_real("confidence", value, low=0.0, high=1.0, include_low=False, include_high=False)


def frequencies(
    counts: Any, n: int, support: Support, *, target: str, privacy: Privacy, categories: tuple[str, ...] | None = None
) -> Estimate:
    """Estimate frequencies from support counts: f = (count/n − q)/(p − q), the standard error at f cut to [0, 1]."""
    kept = np.array(counts)  # a copy, so that a later change of the counts does not change the estimate
    value = (kept / n - support.q) / (support.p - support.q)
    stderr = np.sqrt(support_variance(np.clip(value, 0.0, 1.0), support, target) / n)
    limits = FrequencyLimits(kept, n, support, target)
    if np.ndim(value) == 0:
        return Estimate(float(value), float(stderr), n, privacy, limits=limits)
    return Estimate(value, stderr, n, privacy, categories, limits=limits)


def moved(found: Estimate, by: float, *, margin: float) -> Estimate:
    """Return the estimate plus a number, with intervals that are wider by `margin` on both sides."""
    limits = MovedLimits(found.limits, by, margin)
    return Estimate(found.value + by, found.stderr, found.n, found.privacy, found.categories, limits=limits)


def project_to_simplex(frequencies: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the nearest probability vector, in Euclidean distance.

    This is post-processing and costs no privacy. The result has no negative frequency and sums to 1; it is no longer unbiased.

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
    Cost: O(k log k).

    Source: Wang & Carreira-Perpiñán (2013), Algorithm 1.

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
