"""Code that the mechanisms with one-bit reports share."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import _backend
from dpcore._exact.probability import complement, logistic_complement, tilted
from dpcore._validation import check_array, check_real, check_threads
from dpcore.errors import ParameterError
from dpcore.local._error_curves import Spread, widest_share
from dpcore.local._limits import CERTAIN, OneBitLimits
from dpcore.local._mechanism import LocalMechanism, check_packed
from dpcore.local.estimates import Aggregate, Estimate

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from dpcore.local._support import Support


LARGEST = 2.0**1021


@lru_cache(maxsize=1024)
def expansion(epsilon: float) -> float:
    """(e^ε + 1)/(e^ε − 1): how far apart reports must lie to be unbiased."""
    q = logistic_complement(epsilon)
    exact = Fraction(q.floor(1280), 2**1280)
    return float(1 / (1 - 2 * exact))


def _share_of_true(reports: Any) -> tuple[int, int]:
    bits = check_array("reports", reports, ("bool",))
    return bits.size, _backend.count_true(bits)


class OneBit(LocalMechanism):
    """A mechanism whose report is True (+z0) or False (−z0)."""

    __slots__ = ()
    FALLS = True

    def aggregate(self, reports: Any, *, threads: int | None = None) -> Aggregate:
        """Count the reports that are True.

        Parameters
        ----------
        reports : array_like of bool
            What `privatize` made, any shape.
        threads : int, optional
            Not used; counting is as fast as memory on one thread.

        Returns
        -------
        Aggregate
            counts[0] is the number of True.
        """
        check_threads(threads)
        n, ones = _share_of_true(reports)
        return Aggregate(self, n, np.array([ones], np.int64))

    def aggregate_packed(self, reports: Any, *, n: int) -> Aggregate:
        """Count the reports that are True among packed ones.

        Parameters
        ----------
        reports : ndarray of uint8, shape (⌈n/8⌉,)
            Packed reports, least significant bit first.
        n : int
            Number of reports.

        Returns
        -------
        Aggregate
            As `aggregate` gives of the unpacked reports.
        """
        packed, n = check_packed("reports", reports, n)
        return Aggregate(self, n, np.array([_backend.count_packed(packed, n)], np.int64))

    def _mean(self, counted: Aggregate, middle: float, reach: float) -> Estimate:
        """Estimate the mean of reports middle ± reach."""
        ones = int(counted.counts[0])
        share = ones / counted.n
        # Var(±1): exact for the population; for the sample it is an upper bound, for any records. No record makes a
        # report rarer than q, so a few reports that agree do not pass for certainty.
        rarest = float(logistic_complement(self.epsilon))
        possible = max(min(share, 1 - share), rarest)  # 1 − rarest would be 1 from ε = 37 on
        stderr = 2 * reach * math.sqrt(possible * (1 - possible) / counted.n)
        limits = OneBitLimits(ones, counted.n, middle, reach)
        return Estimate(middle + reach * (2 * share - 1), stderr, counted.n, self.privacy, limits=limits)

    def _spread_of_mean(self, at: float | None, target: str, variance: float, reach: float, words: str) -> Spread:
        """The spread of a mechanism for means with reports middle ± reach."""
        exact = target == "population" or at is None
        return Spread(variance, words if at is None else f"{words}, at a mean of {at:g}", exact, self._widest(2 * reach))

    @staticmethod
    def _widest(factor: float, support: Support = CERTAIN) -> Callable[[int, float], float]:
        """The widest interval, for an estimate that moves by `factor` while the share of True goes from 0 to 1."""
        return lambda n, confidence: factor * widest_share(n, confidence, support)

    @staticmethod
    def _variance(mean: object, middle: float, half: float, reach: float) -> float:
        """reach² − (mean − middle)², the variance of middle ± reach with this mean; None is the middle, where it is largest."""
        tilt = 0.0 if mean is None else (check_real("mean", mean, low=middle - half, high=middle + half) - middle) / reach
        return reach * reach * (1 - tilt) * (1 + tilt)


def two_columns(epsilon: float, tilts: list[Fraction]) -> npt.NDArray[np.float64]:
    """Rows P(−), P(+) of a binary channel."""
    plus = [tilted(epsilon, t) for t in tilts]
    return np.array([[float(complement(p)), float(p)] for p in plus]).reshape(-1, 2)


def check_reach(reach: float) -> None:
    """Raise unless the two values that a report stands for are finite."""
    if not math.isfinite(reach):
        raise ParameterError(
            "the bounds and epsilon must give finite values of a report, got z0 times the bound beyond float64: take narrower bounds"
        )


def check_bounds(lower: object, upper: object, missing: object) -> tuple[float, float, float | None]:
    """Return bounds as floats if they are in order and not too far apart, and the value for missing numbers if it lies between."""
    low, high = (check_real(name, value, low=-LARGEST, high=LARGEST) for name, value in (("lower", lower), ("upper", upper)))
    if not high - low >= 2.0**-960:
        raise ParameterError(f"lower must be less than upper, and by at least 2**-960, got lower {low!r} and upper {high!r}")
    return low, high, None if missing is None else check_real("missing", missing, low=low, high=high)


def vector_of(points: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the inputs of a channel as a vector; a single one may be a scalar."""
    if points.ndim > 1:
        raise ParameterError(f"points must be a single one or a vector, got shape {points.shape}")
    return points.reshape(-1)
