"""The mean by the exponential mechanism (Wasserman & Zhou, 2010, Section 5.2)."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore._exact.intervals import Interval
from dpcore._html import columns_table, guarantee
from dpcore._spread import check_confidence, half_width
from dpcore._validation import check_integer, check_positive, check_threads
from dpcore.distributions._boxes import Bounds, Box, Reals
from dpcore.distributions._choices import unit_floats
from dpcore.distributions._records import BLOCK, check_records, columns_of, dimension_of, nan_error
from dpcore.distributions._rejection import Progress, Trials, first_accepted
from dpcore.errors import ParameterError
from dpcore.privacy import Guaranteed, Privacy
from dpcore.rng import resolve
from dpcore.sums import clamped_sum

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore.rng import Stream

MOST_TRIALS = 10**9
"""So that σ is 2^-31 or more: far above the grid of the draws."""
_LARGEST_RATE = Fraction(2) ** 1000
_BEYOND = 64.0
"""An exponent at which float64 accepts no trial for certain: e^−64 is below every margin."""
_LESS = 2.0**-20
"""Share of the probability of a miss that is left for the grid of the draws."""


@dataclass(frozen=True, slots=True, eq=False)
class MeanRelease(Guaranteed):
    """A mean that was drawn by the exponential mechanism.

    Attributes
    ----------
    value : float or ndarray of float64, shape (r,)
        The draw, in the units of the bounds; read-only.
    privacy : Privacy
        Its guarantee.
    n : int
        Number of records it was made from.
    box : Box
        Bounds of the records.
    scale : float
        σ of the normal density around the mean, as a share of the width of the bounds: √(r/(nε)).
    """

    value: float | npt.NDArray[np.float64]
    privacy: Privacy
    n: int
    box: Box
    scale: float

    @property
    def stderr(self) -> float | npt.NDArray[np.float64]:
        """Bound of the root of the mean squared distance from the mean of the clamped records, for each coordinate: σ times the width."""
        widths = np.array(self.box.widths) * self.scale
        return float(widths[0]) if isinstance(self.value, float) else widths

    def interval(self, confidence: float = 0.95) -> Reals:
        """Return an interval for each coordinate of the mean of the clamped records.

        Parameters
        ----------
        confidence : float, default 0.95
            Coverage of each interval on its own, in (0, 1).

        Returns
        -------
        ndarray of float64, shape (2,) or (r, 2)
            The lower and upper ends, inside the bounds. The mean of this data set's clamped records lies in the interval with probability
            at least `confidence`, for every data set; the probability is that of the draw.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `confidence` is not in (0, 1).

        Notes
        -----
        A normal number that is kept only inside an interval around its centre is nearer to the centre, on each side, than one that is
        always kept. So the normal half-width covers. It is increased for the grid of the draws and for rounding.
        """
        confidence = check_confidence(confidence)
        covered = min(confidence + (1 - confidence) * _LESS, math.nextafter(1.0, 0.0))
        half = half_width("gaussian", self.scale, covered)
        value, widths = np.atleast_1d(np.asarray(self.value, np.float64)), np.array(self.box.widths)
        reach = (half + 2.0**-50) * widths * (1 + 2.0**-50) + 2.0**-50 * np.maximum(np.abs(self.box.low), np.abs(self.box.high))
        ends = np.stack([np.maximum(value - reach, self.box.low), np.minimum(value + reach, self.box.high)], axis=-1)
        return ends[0] if isinstance(self.value, float) else ends

    def _repr_html_(self) -> str:
        ends = self.interval().reshape(-1, 2)
        columns = {
            "coordinate": list(range(len(ends))),
            "mean": np.atleast_1d(np.asarray(self.value)).tolist(),
            "from": ends[:, 0].tolist(),
            "to": ends[:, 1].tolist(),
        }
        return columns_table(f"Mean of {self.n:,} records and 95 % intervals of the draw: {guarantee(self.privacy)}", columns)


def exponential_mean(
    records: npt.ArrayLike,
    epsilon: float,
    bounds: Bounds,
    *,
    max_trials: int = 10**7,
    progress: Progress | None = None,
    rng: Stream | None = None,
    threads: int | None = None,
) -> MeanRelease:
    r"""Release a mean by the exponential mechanism with the squared distance: one exact draw of a normal density inside the bounds.

    Parameters
    ----------
    records : array_like, shape (n,) or (n, r)
        n ≥ 1 real records. Those outside the bounds are clamped to them.
    epsilon : float
        Privacy loss ε, positive and finite.
    bounds : (low, high)
        Where records lie: each a number, or a sequence of r numbers. Do not choose them by looking at the data.
    max_trials : int, default 10**7
        Refuse parameters whose expected number of trials of a coordinate could exceed this, in [1, 10^9].
    progress : callable, optional
        Called as ``progress(done, total)`` after each batch of trials of a coordinate, with the number of its trials so far and the bound
        of their expected number, or more if that is passed; done = total at the end of a coordinate. Like the running time, the numbers
        depend on the data.
    rng : Stream, optional
        Source of randomness; None is the secure source.
    threads : int, optional
        Number of threads of the sum; None chooses.

    Returns
    -------
    MeanRelease
        The draw, with its scale and intervals.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type, or n·ε/r is so large that more than `max_trials` trials could be expected. The
        refusal does not depend on the data.
    DataError
        If a number is NaN; the message has its index.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Law: with the records mapped to [0, 1]^r and their exact mean x̄, z is drawn from the multiples of 2^-53 in [0, 1)^r with probability
    ∝ exp(−ε·n·‖x̄ − z‖²/(2r)), and mapped to the bounds.
    Guarantee: P(z | x) ≤ e^ε·P(z | x') for data sets that differ by the value of one record. The laws of a coordinate with
    means c form an exponential family in c/σ², σ² = r/(nε). For c < d the log-ratio is largest at an end of [0, 1], where it is
    ∫_c^d E_u[z] du/σ², or the same with 1 − z: at most \|c − d\|/σ² ≤ ε/r. The paper has exp(−ε·ξ/(2Δ)) with Δ ≤ r/n. The sensitivity of
    ξ = ‖x̄ − z‖² is r·(2/n − 1/n²), nearly twice that, and the general theorem would ask for it; this density is private with r/n.
    Its print exp(−nξ/(2ε)) is not.
    Rate: E‖z − x̄‖² ≤ r²/(nε), of the order 1/n of the mean itself (`stderr`). Laplace noise on the mean has 2r³/(nε)²,
    which is less for nε > 2r: take `dpcore.inference.mean`.
    Sampling: each coordinate by exact rejection from uniform numbers, at most 1 + √(2nε/(πr)) trials on average.
    **The number of trials depends on the data, and so does the running time**: an observer who can time a call learns more than ε covers.
    Cost: one pass over the data, and the trials: at n = 10^9 and ε = 1 some 25,000 trials a coordinate, a millisecond.

    References
    ----------
    Wasserman & Zhou (2010), Section 5.2.

    Examples
    --------
    >>> import numpy as np
    >>> released = exponential_mean(np.linspace(20, 40, 10_000), epsilon=1.0, bounds=(0, 100))
    >>> released.scale, released.stderr
    (0.01, 1.0)
    >>> bool(abs(released.value - 30) < 6)
    True
    """
    epsilon, max_trials = check_positive("epsilon", epsilon), check_integer("max_trials", max_trials, low=1, high=MOST_TRIALS)
    check_threads(threads)
    array = check_records(records)
    n, box = len(array), Box.of(bounds, dimension_of(array))
    rate = Fraction(epsilon) * n / (2 * box.dimension)
    most, allowed = _most_trials(rate), 2 * box.dimension * _largest_rate(max_trials)
    if most > max_trials:
        raise ParameterError(
            f"epsilon·n must be at most {allowed:.4g} for exact sampling, got epsilon={epsilon!r} and "
            f"n={n}: take a smaller epsilon or fewer records, or raise max_trials, which is {max_trials}; or take dpcore.inference.mean"
        )
    stream = resolve(rng)
    draws = np.array([_draw(mean, rate, math.ceil(most), stream, progress) for mean in _means(array, box, threads)])
    value = box.from_unit(draws[None, :])[0]
    scale = math.sqrt(box.dimension / n / epsilon)
    if array.ndim == 1:
        return MeanRelease(float(value), Privacy(epsilon), n, box, scale)
    value.flags.writeable = False
    return MeanRelease(value, Privacy(epsilon), n, box, scale)


def _means(records: npt.NDArray[np.float64], box: Box, threads: int | None) -> list[Fraction]:
    """The mean of every coordinate between the bounds, exactly; a record counts to 2^-50."""
    rows, parts = columns_of(records), []
    for start in range(0, len(rows), BLOCK):
        unit = box.to_unit(rows[start : start + BLOCK])
        if np.isnan(unit).any():
            raise nan_error(records)
        parts.append(clamped_sum(unit, 0.0, 1.0, threads=threads))
    total = reduce(add, parts)
    pairs = zip(np.asarray(total.high).tolist(), np.asarray(total.low).tolist(), strict=True)
    return [(Fraction(high) + Fraction(low)) / len(rows) for high, low in pairs]


def _draw(mean: Fraction, rate: Fraction, expected: int, stream: Stream, progress: Progress | None) -> float:
    """One coordinate: z with probability ∝ e^(−rate·(z − mean)²)."""
    centre, factor = float(mean), float(rate)
    # where the exponent is below 64, z is within √(64/rate) of the mean; the difference is off by 2^-53 at most, squares and products by
    # three roundings
    error = (2 * math.sqrt(_BEYOND * factor) + factor * 2.0**-52 + 4 * _BEYOND) * 2.0**-52

    def trials(size: int) -> Trials:
        z = unit_floats((size,), rng=stream)

        def exact(index: int) -> Callable[[int], Interval]:
            exponent = rate * (Fraction(float(z[index])) - mean) ** 2
            return lambda precision: Interval.of(exponent, precision)

        return Trials(z, np.minimum(factor * (z - centre) ** 2, _BEYOND), error, exact)

    return float(first_accepted(trials, 1, rng=stream, progress=progress, expected=expected))


def _most_trials(rate: Fraction) -> float:
    """Bound the expected number of trials.

    A mean at an end has the least probability to accept, ∫_0^1 e^(−rate·u²) du = erf(s)/x with s = √rate and x = 2s/√π. It is at least
    1/(1 + x), because erfc(s)·(1 + x) falls from 1 at 0. The last factor is for the grid.
    """
    return (1 + 2 * math.sqrt(float(min(rate, _LARGEST_RATE)) / math.pi)) * (1 + 2.0**-20)


def _largest_rate(max_trials: int) -> float:
    """The rate whose bound is `max_trials`."""
    return math.pi * (max(0.0, max_trials / (1 + 2.0**-20) - 1) / 2) ** 2
