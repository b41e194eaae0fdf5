"""The design of a private mean."""

from __future__ import annotations

import math
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore._error_curves import MOST_RECORDS, OUTWARDS, ErrorCurve
from dpcore._validation import check_choice, check_integer
from dpcore.errors import ParameterError
from dpcore.inference._parameters import check_failure, check_sigma, clipping_radius
from dpcore.inference._tails import half_width_of
from dpcore.inference.means import noise_of_sums
from dpcore.sums import clipped_sum

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore._error_curves import Aim
    from dpcore.inference._parameters import Radius

ABOUT = ("records", "population")


@dataclass(frozen=True)
class Mean:
    r"""The mean of n records that `inference.mean` releases, for `sample_size` and `epsilon_for`.

    Parameters
    ----------
    radius : float or "sqrt_log_n"
        Clipping radius R, as in `inference.mean`.
    delta : float, default 0.0
        Failure mass δ in [0, 1).
    d : int, default 1
        Coordinates of a record, in [1, 2^40]. Errors are those of each coordinate.
    sigma : float, optional
        Sub-Gaussian parameter σ of each coordinate, as in `inference.mean`.
    constant : float, default 2.0
        K of "sqrt_log_n".
    about : {"records", "population"}, default "records"
        What the error refers to: the mean of these records once clipped, of which it is the noise alone; or the mean of the clipped
        distribution that they come from, for which sampling is added.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    With s the standard deviation of the noise of a sum, the root mean square error is s/n about the records. About the population it is
    at most √(s²/n² + v/n), v = min(R, √2·σ)², or R² without σ. The width is that of `MeanEstimate.interval`, for all data, with the target
    "sample" or "population". All of them fall with n and with ε, but for the width about the population, of which this is not proved,
    and the error about the population at "sqrt_log_n", which rises from n = 2 to 3 where sampling outweighs the noise.

    Examples
    --------
    >>> from dpcore.planning import Mean, epsilon_for, sample_size
    >>> sample_size(Mean(radius=50.0), epsilon=0.5, rmse=1.0).n
    283
    >>> epsilon_for(Mean(radius=50.0, delta=1e-6), n=1000, width=2.0).epsilon
    0.817
    """

    radius: Radius
    delta: float = field(default=0.0, kw_only=True)
    d: int = field(default=1, kw_only=True)
    sigma: float | None = field(default=None, kw_only=True)
    constant: float = field(default=2.0, kw_only=True)
    about: Literal["records", "population"] = field(default="records", kw_only=True)

    def __post_init__(self) -> None:
        check_failure(self.delta)
        check_integer("d", self.d, low=1, high=2**40)
        check_sigma(self.sigma)
        check_choice("about", self.about, ABOUT)
        clipping_radius(self.radius, self.sigma, self.constant, 2)

    def error_curve(self, aim: Aim) -> ErrorCurve:
        """Return the error of the mean as a function of n and ε.

        Parameters
        ----------
        aim : planning.Aim
            Root mean square error, or width of the interval.

        Returns
        -------
        planning.ErrorCurve
            The error of each coordinate.

        Raises
        ------
        ParameterError
            If the measure is "power".
        """
        population = self.about == "population"
        aim.one_of("a mean", "rmse", "width")
        sampling = 0.0 if not population else math.inf if self.sigma is None else math.sqrt(2.0) * self.sigma
        words = "standard deviation of the noise of a sum"
        formulas = {"rmse": f"s/n, s the {words}" if not population else f"√(s²/n² + v/n), s the {words}, v = min(R, √2σ)²"}
        return ErrorCurve(
            self._width(aim.confidence) if aim.measure == "width" else self._rmse(sampling),
            what=f"mean of the {self.about}, clipped at R = {self.radius}",
            formula=formulas.get(
                aim.measure, f"twice the half-width of the noise{' and of the records' if population else ''} at the confidence, over n"
            ),
            source="Private inference (chapter 9), Algorithm 9.2.1; docs/inference.md",
            exact=aim.measure == "rmse" and not population,
            sizes=(2 if isinstance(self.radius, str) else 1, MOST_RECORDS),
            epsilons=(1e-6, 700.0),
            # R = K·σ·√(ln n) grows, and R²/n of a population with it from n = 2 to n = 3
            falls_in_n=not population or (aim.measure == "rmse" and not isinstance(self.radius, str)),
            falls_in_epsilon=aim.measure == "rmse" or not population,
            limit_in_n="the noise of the largest n",
            limit_in_epsilon="the spread of the records, or the noise of the largest ε",
        )

    def _noise(self, n: int, epsilon: float) -> tuple[Literal["gaussian", "laplace"], float, float]:
        """Law and scale of the noise of a sum, and the radius on its grid; without end where the scale leaves its range."""
        radius = clipping_radius(self.radius, self.sigma, self.constant, n)
        return _noise_of(radius, self.delta, self.d, epsilon)

    def _rmse(self, sampling: float) -> Callable[[int, float], float]:
        def error(n: int, epsilon: float) -> float:
            law, scale, radius = self._noise(n, epsilon)
            noise = (math.sqrt(2.0) if law == "laplace" else 1.0) * scale / n
            return math.hypot(noise, min(radius, sampling) / math.sqrt(n)) * OUTWARDS

        return error

    def _width(self, confidence: float) -> Callable[[int, float], float]:
        target = "population" if self.about == "population" else "sample"

        def wide(law: Literal["gaussian", "laplace"], scale: float, n: int, radius: float) -> float:
            return half_width_of(law, scale, confidence, target, n=n, radius=radius)

        def error(n: int, epsilon: float) -> float:
            law, scale, radius = self._noise(n, epsilon)
            if math.isinf(scale):
                return math.inf
            half = (_half_width(law, scale, confidence) if target == "sample" else wide(law, scale, n, radius)) / n
            # the ends are rounded, and stretched for it: values are within the radius and some half-widths of noise
            return 2 * (half + 5 * float(np.spacing(radius + 64 * half))) * OUTWARDS

        return error


@lru_cache(maxsize=1024)
def _noise_of(radius: float, delta: float, d: int, epsilon: float) -> tuple[Literal["gaussian", "laplace"], float, float]:
    steps = clipped_sum(np.empty(0), radius)
    try:
        return (*noise_of_sums(epsilon, delta, steps, d), steps.radius)
    except ParameterError:  # the scale leaves its range
        return "laplace", math.inf, steps.radius


@lru_cache(maxsize=1024)
def _half_width(law: Literal["gaussian", "laplace"], scale: float, confidence: float) -> float:
    return half_width_of(law, scale, confidence, "sample", n=1, radius=1.0)
