"""Cases of the noise functions, and two bounds of any implementation: the time to make the random words, and to copy the array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend, noise
from dpcore.bench.table import Row
from dpcore.bench.timing import Work, take_turns
from dpcore.rng import Stream

Array = npt.NDArray[Any]
BOUND_TARGETS = {"x86_v4": 1.6, "x86_v3": 2.0}
"""Our time ÷ (keystream of the same words + one copy) stays below this."""


@dataclass(frozen=True, slots=True)
class Case:
    """One noise function at one scale.

    Attributes
    ----------
    name : str
        Name in the report.
    function : callable
        A function of `dpcore.noise`.
    scale : float
        Scale of the noise.
    variance : float
        Variance of the noise, for the check of the answer.
    words : float
        64-bit random words for each value.
    """

    name: str
    function: Callable[..., Any]
    scale: float
    variance: float
    words: float = 1.0

    @property
    def dtype(self) -> type:
        """Type of values and results."""
        return np.int64 if self.name.startswith("discrete") else np.float64

    def work(self, values: Array, out: Array, threads: int, rng: Stream | None = None) -> Work:
        """Return the work to time: noise is added to `values`, into `out`.

        Parameters
        ----------
        values, out : ndarray
            Input and output, of one shape.
        threads : int
            Number of threads.
        rng : Stream, optional
            None is the secure source.

        Returns
        -------
        callable
            A function without arguments.

        Notes
        -----
        Guarantee: that of `function` at `scale`, for each call.
        """
        return partial(self.function, values, self.scale, out=out, threads=threads, rng=rng)


def _geometric_variance(t: float) -> float:
    r = np.exp(-1 / t)
    return float(2 * r / (1 - r) ** 2)


def cases() -> tuple[Case, ...]:
    """Return the cases of the speed table of the noise functions.

    Returns
    -------
    tuple of Case
        One for each function and scale.

    Notes
    -----
    Cost: some microseconds; nothing is timed.

    Examples
    --------
    >>> from dpcore.bench import cases
    >>> cases()[0].name
    'laplace'
    """
    gaussians = (Case(f"discrete_gaussian σ={s:g}", noise.discrete_gaussian, s, s * s, 1.0 if s < 8 else 1.25) for s in (3.0, 10.0, 1000.0))
    return (
        Case("laplace", noise.laplace, 1.7, 2 * 1.7**2),
        Case("gaussian", noise.gaussian, 1.7, 1.7**2),
        Case("discrete_laplace", noise.discrete_laplace, 9.5, _geometric_variance(9.5)),
        *gaussians,
    )


def check_answer(case: Case, noise_of_zeros: Array) -> None:
    """Raise if the mean or the variance of noise is more than seven standard errors off.

    Parameters
    ----------
    case : Case
        The function that made the noise.
    noise_of_zeros : ndarray
        Noise that was added to zeros.

    Returns
    -------
    None
        If both agree.

    Raises
    ------
    AssertionError
        If one of them is off.

    Notes
    -----
    Cost: two passes over the array.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.bench import cases, check_answer
    >>> check_answer(cases()[0], np.zeros(1000))
    Traceback (most recent call last):
    ...
    AssertionError: laplace: mean 0.0, mean square 0.0, expected 0 and 5.779999999999999
    """
    n = noise_of_zeros.size
    mean, variance = float(noise_of_zeros.mean()), float(np.square(noise_of_zeros, dtype=np.float64).mean())
    # the variance of the square is at most five variances squared for these laws (Laplace has the most)
    off = abs(mean) > 7 * (case.variance / n) ** 0.5, abs(variance - case.variance) > 7 * (5 / n) ** 0.5 * case.variance
    if any(off):
        raise AssertionError(f"{case.name}: mean {mean!r}, mean square {variance!r}, expected 0 and {case.variance!r}")


def bound_row(case: Case, values: Array, out: Array, level: str, threads: int, rounds: int) -> Row:
    """Ours against ChaCha20's keystream of the same words plus one copy of the array, one thread each."""
    words, copy_to = int(case.words * values.size), np.empty_like(values)

    def bound() -> None:
        _backend.make_keystream(words)
        np.copyto(copy_to, values)

    timing = take_turns(case.work(values, out, threads), bound, rounds)
    scale = 1e9 / values.size
    return Row(
        case.name,
        "ChaCha20 keystream + copy",
        level,
        threads,
        timing.ours * scale,
        timing.other * scale,
        1 / timing.ratio,
        BOUND_TARGETS.get(level) if threads == 1 else None,
        bound=True,
    )


def thread_row(case: Case, values: Array, out: Array, level: str, threads: int, rounds: int) -> Row:
    """One thread against all."""
    timing = take_turns(case.work(values, out, threads), case.work(values, out, 1), rounds)
    scale = 1e9 / values.size
    target = 0.85 * min(4, threads)
    return Row(case.name, "itself on one thread", level, threads, timing.ours * scale, timing.other * scale, timing.ratio, target)


def at_levels() -> Iterator[str]:
    """Select each CPU level of this machine in turn, and the first one again at the end."""
    before = _backend.selected_level()
    try:
        for level in reversed(_backend.available_levels()):
            _backend.select_level(level)
            yield level
    finally:
        _backend.select_level(before)


def bounds(n: int, rounds: int) -> list[Row]:
    """The rows that need no peer, at every level of this machine."""
    rows, threads = [], _backend.default_threads()
    for level in at_levels():
        for case in cases():
            values: Array = np.zeros(n, case.dtype)
            out = np.empty_like(values)
            rows.append(bound_row(case, values, out, level, 1, rounds))
            check_answer(case, out)
            if threads > 1:
                rows.append(thread_row(case, values, out, level, threads, rounds))
    return rows
