"""The base class of local mechanisms, and checks of their arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dpcore import _backend
from dpcore._validation import (
    check_array,
    check_choice,
    check_integer,
    check_threads,
)
from dpcore.errors import DataError, ParameterError
from dpcore.local._error_curves import Spread, curve_of
from dpcore.local.estimates import (
    TARGETS,
    Aggregate,
    Estimate,
    check_same_mechanism,
)
from dpcore.privacy import LocallyGuaranteed, Privacy
from dpcore.rng import resolve

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore._error_curves import Aim, ErrorCurve
    from dpcore.local.estimates import Target
    from dpcore.rng import Stream


Real: TypeAlias = "float | np.floating[Any] | np.integer[Any]"
"""A single number."""
Answer: TypeAlias = "bool | int | np.bool_ | np.integer[Any]"
"""A single yes or no."""


class LocalMechanism(LocallyGuaranteed, ABC):
    """A randomiser of single records, and the estimator that belongs to it."""

    __slots__ = ()

    epsilon: float

    @property
    def privacy(self) -> Privacy:
        """Guarantee of one report: (ε, 0)."""
        return Privacy(self.epsilon)

    @abstractmethod
    def aggregate(self, reports: Any, *, threads: int | None = None) -> Aggregate:
        """Count reports; see the mechanism."""

    ESTIMATES = "mean"
    """What the mechanism estimates, for plans."""
    FALLS = False
    """Whether it is proved that the variance never grows with ε; a class that proves it says so."""

    def _spread(self, at: float | None, target: str) -> Spread:  # noqa: ARG002  overridden
        """What one report contributes to the error, for records with this mean or frequency; None is the worst."""
        raise ParameterError(f"{type(self).__name__} has no variance that is known before there are reports")

    def error_curve(self, aim: Aim, *, at: float | None = None, target: Target = "population") -> ErrorCurve:
        """Return the error of an estimate as a function of n and ε, for `dpcore.planning`.

        Parameters
        ----------
        aim : planning.Aim
            Root mean square error, or width of an interval.
        at : float, optional
            The frequency or the mean of the records, where the root mean square error depends on it. By default the worst.
        target : {"population", "sample"}, default "population"
            As in `estimate`.

        Returns
        -------
        planning.ErrorCurve
            The error, for this mechanism and those that differ from it in ε alone.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument is outside its range, or the mechanism has no such bound.
        """
        check_choice("target", target, TARGETS)
        return curve_of(
            self,
            aim,
            lambda mechanism: mechanism._spread(at, target),  # noqa: SLF001  its own method, with another ε
            f"{self.ESTIMATES} of the {target}, estimated by {self!r}",
            falls=self.FALLS,
            of=self._with_epsilon,
        )

    def _with_epsilon(self, epsilon: float) -> LocalMechanism:
        """The mechanism with another ε."""
        own: Any = self  # every mechanism is a dataclass
        changed: LocalMechanism = replace(own, epsilon=epsilon)
        return changed

    @abstractmethod
    def _estimate(self, counted: Aggregate, target: str) -> Estimate: ...

    def estimate(self, reports: Any, *, target: Target = "population") -> Estimate:
        """Estimate from reports, without bias and with confidence intervals.

        Parameters
        ----------
        reports : array_like or Aggregate
            What `privatize` made, or what `aggregate` made of it.
        target : {"population", "sample"}, default "population"
            What standard errors and intervals refer to: the distribution that the records were drawn from, or these records.

        Returns
        -------
        Estimate
            Value, standard error, and intervals at any confidence.

        Raises
        ------
        ParameterError, ParameterTypeError
            If there are no reports, if another mechanism made them, or if a parameter is outside its range.
        DataError
            If a report is not one that the mechanism can make.
        """
        check_choice("target", target, TARGETS)
        counted = reports if isinstance(reports, Aggregate) else self.aggregate(reports)
        check_same_mechanism(self, counted.mechanism)
        if counted.n < 1:
            raise ParameterError(f"reports must hold at least one, got {counted.n}")
        return self._estimate(counted, target)


def open_stream(rng: Stream | None, threads: object) -> Stream:
    """Check what every drawing method takes besides its data; returns the source of randomness."""
    check_threads(threads)
    return resolve(rng)


def check_unknown(value: object, k: int) -> int | None:
    """Return the category that stands for unknown codes, or None."""
    return None if value is None else check_integer("unknown", value, low=0, high=k - 1)


def check_codes(
    codes: npt.NDArray[Any], k: int, unknown: int | None, threads: int | None = None, *, labelled: bool = False
) -> npt.NDArray[Any]:
    """Return codes if all are in [0, k), or if `unknown` stands for others; raises at the first other one."""
    if unknown is None:
        position = _backend.first_outside(codes, k, threads)
        if position >= 0:
            known = "labels of the categories" if labelled else f"codes in [0, {k - 1}]"
            call = 'from_categories(…, unknown="none")' if labelled else "KaryResponse(ε, k=3, unknown=2)"
            missing = f"; a missing value is none either (its code in pandas is −1): give `unknown`, as in {call}; leaving it out tells who"
            others = f"unless `unknown` names one for others; the one at {place(codes, position)} is not"
            raise DataError(f"records must hold {known} {others}{missing}")
    return codes


def place(array: npt.NDArray[Any], position: int) -> str:
    index = tuple(int(i) for i in np.unravel_index(position, array.shape)) if array.ndim else ()
    return f"index {index}"


def check_packed(name: str, bits: object, n: object) -> tuple[npt.NDArray[np.uint8], int]:
    """Return packed bits and their number if the bytes are as many as that takes."""
    array = check_array(name, bits, ("uint8",))
    n = check_integer("n", n, low=0)
    if array.ndim != 1 or len(array) != (n + 7) // 8:
        raise ParameterError(f"{name} must be a vector of ⌈n/8⌉ = {(n + 7) // 8} bytes for n = {n}, got shape {array.shape}")
    return _backend.contiguous(array), n
