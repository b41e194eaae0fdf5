"""Exact rejection: candidates from a fixed law, each accepted with probability e^−E, decided as with real numbers E and e^−E."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore._exact.intervals import Interval, exp
from dpcore._exact.sampling import Uniform, is_below
from dpcore._validation import check_integer
from dpcore.distributions._boxes import Reals
from dpcore.distributions._choices import Uniforms
from dpcore.errors import ParameterError
from dpcore.rng import Stream

Progress = Callable[[int, int], object]

MOST_TRIALS = 10**12
_FIRST_BATCH = 64
_BATCH_NUMBERS = 1 << 19
"""Numbers that the largest batch of trials may need."""
_ROUNDING = 2.0**-48
"""Bounds what float64 adds to a comparison: a word's rounding, 4 units in the last place of exp, and the product with the margin."""


@dataclass(frozen=True, slots=True, eq=False)
class Trials:
    """Candidates in the order in which they were drawn.

    Attributes
    ----------
    candidates : ndarray of float64, shape (t, …)
        The candidates.
    exponents : ndarray of float64, shape (t,)
        E ≥ 0 of each, computed in float64.
    error : float
        Bound of the errors of `exponents`.
    exact : callable
        Takes the number of a candidate and gives E as a function of the precision: an interval that narrows as it grows.
    """

    candidates: Reals
    exponents: Reals
    error: float
    exact: Callable[[int], Callable[[int], Interval]]


def first_accepted(
    draw: Callable[[int], Trials], numbers: int, *, rng: Stream | None, progress: Progress | None = None, expected: int = 1
) -> Reals:
    """Return the first candidate that is accepted, for as many trials as it takes; `draw` makes a stated number of trials.

    Trials are made in batches, whose sizes depend on `numbers` per trial alone. Each trial has a separate uniform number, and the one
    returned is the first in order whose number is below e^−E: its law has density e^−E, normalised, with respect to that of candidates.
    """
    size, largest, done = _FIRST_BATCH, max(1, _BATCH_NUMBERS // numbers), 0
    while True:
        trials = draw(min(size, largest))
        index = _first(trials, Uniforms(rng))
        done += len(trials.exponents)
        if progress is not None:
            progress(done, done if index is not None else max(expected, done + 1))
        if index is not None:
            return np.asarray(trials.candidates[index])
        size *= 2


def _first(trials: Trials, uniforms: Uniforms) -> int | None:
    """The number of the first accepted trial, or None."""
    gap, margin = _gaps(trials, uniforms)
    for index in np.flatnonzero(gap <= margin).tolist():
        if gap[index] < -margin or is_accepted(uniforms[index], trials.exact(index)):
            return int(index)
    return None


def accepted(trials: Trials, uniforms: Uniforms) -> npt.NDArray[np.bool_]:
    """Which of the trials are accepted, each by a separate uniform number."""
    gap, margin = _gaps(trials, uniforms)
    found = gap < -margin
    for index in np.flatnonzero(np.abs(gap) <= margin).tolist():
        found[index] = is_accepted(uniforms[index], trials.exact(index))
    return found


def _gaps(trials: Trials, uniforms: Uniforms) -> tuple[Reals, float]:
    """U − e^−E in float64, and how far from 0 it decides; what is nearer is decided in interval arithmetic."""
    gaps: Reals = uniforms.words(len(trials.exponents)) * np.float64(2.0**-64) - np.exp(-trials.exponents)
    return gaps, 2 * trials.error + _ROUNDING


def is_accepted(uniform: Uniform, exponent: Callable[[int], Interval]) -> bool:
    """Whether a uniform number is below e^−E, for the real number E."""
    return is_below(uniform, lambda precision: exp(-exponent(precision)))


def check_trials(max_trials: object) -> int:
    """Return the largest expected number of trials that is allowed, else raise."""
    return check_integer("max_trials", max_trials, low=1, high=MOST_TRIALS)


def refuse_long(exponent: float, max_trials: int, why: str) -> None:
    """Raise if e^exponent, a bound of the expected number of trials for every data set, is above `max_trials`."""
    if not exponent <= math.log(max_trials):
        raise ParameterError(f"{why}; the expected number of trials could come up to e^{exponent:.4g}, max_trials is {max_trials}")
