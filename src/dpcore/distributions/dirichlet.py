"""Draws from a histogram whose masses follow their Dirichlet posterior (Wasserman & Zhou, 2010, end of Section 4.2)."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpcore._exact.intervals import fraction_up
from dpcore._validation import REAL_DTYPES, TINY_NORMAL, check_array, check_positive, check_real
from dpcore.distributions._base import check_draws
from dpcore.distributions._boxes import Bounds
from dpcore.distributions._cells import Bins, cells_of_records
from dpcore.distributions._choices import draw_codes
from dpcore.distributions._results import DrawsRelease
from dpcore.distributions._simultaneous import UrnLink
from dpcore.distributions._thresholds import exp_at_least, growth_below
from dpcore.distributions._urn import Codes, mixed_codes, record_codes, uniform_integers, urn_codes, urn_parents
from dpcore.errors import ParameterError
from dpcore.privacy import Privacy
from dpcore.rng import resolve

if TYPE_CHECKING:
    from dpcore.rng import Stream

LARGEST_PRIOR = 2.0**900


def dirichlet_histogram(
    records: npt.ArrayLike,
    epsilon: float,
    bounds: Bounds,
    *,
    draws: int,
    bins: Bins,
    prior: npt.ArrayLike | None = None,
    rng: Stream | None = None,
    threads: int | None = None,
) -> DrawsRelease:
    r"""Release k draws from a histogram whose masses are drawn from their Dirichlet posterior.

    Parameters
    ----------
    records : array_like, shape (n,) or (n, r)
        n ≥ 1 real records. Those outside the bounds are clamped to them.
    epsilon : float
        Privacy loss ε of all draws together, positive and finite.
    bounds : (low, high)
        Where records lie: each a number, or a sequence of r numbers. Do not choose them by looking at the data.
    draws : int
        Number k of draws, ≥ 1.
    bins : int or sequence of int
        Number m of cells, an r-th power; or the number of bins on each axis.
    prior : float or array_like of float, shape (m,), optional
        Parameters a_j of the Dirichlet prior, in C order of the cells. None is the least that is private for every cell, `least_prior`.
    rng : Stream, optional
        Source of randomness; None is the secure source.
    threads : int, optional
        Number of threads; None chooses.

    Returns
    -------
    DrawsRelease
        The draws; its density is the histogram of the draws on the same cells.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type, or a parameter of the prior is below k/(e^ε − 1).
    DataError
        If a number is NaN; the message has its index.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: ε-differential privacy if and only if every a_j ≥ k/(e^ε − 1) (for m ≥ 2), which is decided in interval arithmetic: the
    largest ratio of probabilities is (a_j + k)/a_j, where all draws lie in a cell that holds one record of one data set and none of the
    other.
    The cells are Dirichlet-multinomial, drawn exactly as Pólya's urn: draw t copies an earlier one, each with probability 1/(A + t) for
    A = n + Σ a_j, or has cell j with probability (a_j + C_j)/(A + t). The posterior itself is never drawn.
    Cost: one pass over the data, and a few numbers for each draw; an array of priors takes a pass in rational numbers.

    References
    ----------
    Wasserman & Zhou (2010), end of Section 4.2, after Machanavajjhala et al. (2008).

    Examples
    --------
    >>> import numpy as np
    >>> release = dirichlet_histogram(np.linspace(0, 1, 10_000), epsilon=1.0, bounds=(0, 1), draws=100, bins=10)
    >>> release.draws.shape, release.privacy.epsilon
    ((100,), 1.0)
    """
    array, cells, rng = cells_of_records(records, bounds, bins, rng, threads)
    epsilon, k, n = check_positive("epsilon", epsilon), check_draws(draws, low=1), len(array)
    priors = _check_prior(prior, epsilon, k, cells.m)
    counts = cells.counts(array, threads=threads)
    codes = dirichlet_codes(counts, k, priors, rng=rng)
    return DrawsRelease(Privacy(epsilon), n, cells.box, cells.places(codes, rng=rng), cells, link=UrnLink(priors))


def dirichlet_codes(counts: Codes, draws: int, prior: float | npt.NDArray[np.float64], *, rng: Stream | None = None) -> Codes:
    """Cells of k draws from a Dirichlet-multinomial law with parameters prior + counts, exactly.

    Parameters
    ----------
    counts : ndarray of int64, shape (m,)
        Records in each cell, not all 0.
    draws : int
        Number k of draws.
    prior : float or ndarray of float64, shape (m,)
        Parameters of the prior, positive. The caller must check that they are private.
    rng : Stream, optional
        Source of randomness; None is the secure source.

    Returns
    -------
    ndarray of int64, shape (draws,)
        Numbers of cells, an exchangeable sequence.
    """
    n, rng = int(counts.sum()), resolve(rng)
    if isinstance(prior, float):
        of_prior, mass = partial(uniform_integers, len(counts), rng=rng), len(counts) * Fraction(prior)
    else:
        weights, unit = _integers(prior)
        of_prior, mass = partial(draw_codes, weights, rng=rng), sum(weights) * unit
    parts = (partial(record_codes, counts, rng=rng), of_prior)
    of_cells = partial(mixed_codes, (n * mass.denominator, mass.numerator), parts, rng=rng)
    return urn_codes(urn_parents(n + mass, draws, rng=rng), of_cells)


def least_prior(epsilon: float, *, draws: int) -> float:
    """Return the least parameter of a Dirichlet prior for which k draws are ε-private, rounded up.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, positive and finite.
    draws : int
        Number k of draws.

    Returns
    -------
    float
        k/(e^ε − 1), rounded up; at least 2^-1022.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    Cost: one exponential in interval arithmetic, some microseconds.

    References
    ----------
    Wasserman & Zhou (2010), end of Section 4.2.

    Examples
    --------
    >>> round(least_prior(1.0, draws=100), 4)
    58.1977
    """
    epsilon, k = check_positive("epsilon", epsilon), check_draws(draws, low=1)
    return max(TINY_NORMAL, fraction_up(k / growth_below(Fraction(epsilon))))


def _check_prior(prior: npt.ArrayLike | None, epsilon: float, k: int, m: int) -> float | npt.NDArray[np.float64]:
    """Return parameters of a prior if they are private, the least ones for None; else raise."""
    if prior is None:
        least = least_prior(epsilon, draws=k)
        if least > LARGEST_PRIOR:
            raise ParameterError(f"epsilon must give a prior k/(e^epsilon − 1) ≤ 2^900, got {epsilon!r} for draws={k}")
        return least
    if np.ndim(prior) == 0 and not isinstance(prior, np.ndarray):
        smallest = check_real("prior", prior, low=TINY_NORMAL, high=LARGEST_PRIOR)
        priors: float | npt.NDArray[np.float64] = smallest
        where = ""
    else:
        array = check_array("prior", prior, REAL_DTYPES).astype(np.float64)
        if array.shape != (m,):
            raise ParameterError(f"prior must be a number or have shape ({m},), got shape {array.shape}")
        for index in (int(array.argmin()), int(array.argmax())):  # NaN is both
            check_real(f"prior[{index}]", float(array[index]), low=TINY_NORMAL, high=LARGEST_PRIOR)
        smallest, priors, where = float(array.min()), array, f" at index {int(array.argmin())}"
    if not exp_at_least(Fraction(epsilon), 1 + k / Fraction(smallest)):
        raise ParameterError(
            f"prior must be at least k/(e^epsilon − 1) = {least_prior(epsilon, draws=k)!r} for epsilon={epsilon!r} and draws={k}, "
            f"got {smallest!r}{where}"
        )
    return priors


def _integers(numbers: npt.NDArray[np.float64]) -> tuple[list[int], Fraction]:
    """Positive float64 numbers as integers times a common unit, exactly."""
    mantissas, exponents = np.frexp(numbers)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    shifts = exponents - exponents.min()
    return [w << s for w, s in zip(whole.tolist(), shifts.tolist(), strict=True)], Fraction(2) ** (int(exponents.min()) - 53)
