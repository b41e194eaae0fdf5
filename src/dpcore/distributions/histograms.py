"""Histograms under pure differential privacy: smoothed, perturbed, Dirichlet-multinomial (Wasserman & Zhou, 2010, Section 4)."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from dpcore import accounting
from dpcore._exact.intervals import fraction_up
from dpcore._validation import (
    INTEGER_DTYPES,
    REAL_DTYPES,
    TINY_NORMAL,
    check_array,
    check_choice,
    check_integer,
    check_positive,
    check_real,
    check_threads,
)
from dpcore.distributions._cells import Bins, Bounds, Box, Cells, check_data
from dpcore.distributions._choices import draw_codes
from dpcore.distributions._results import DrawsRelease, HistogramRelease, check_draws
from dpcore.distributions._thresholds import exp_at_least, growth_below
from dpcore.distributions._urn import Codes, mixed_codes, record_codes, uniform_integers, urn_codes, urn_parents
from dpcore.errors import ParameterError
from dpcore.noise import DISCRETE_SCALE, FLOAT_SCALE, discrete_laplace, laplace
from dpcore.privacy import Privacy
from dpcore.rng import resolve

if TYPE_CHECKING:
    from dpcore.rng import Stream

HistogramNoise = Literal["laplace", "discrete_laplace"]
Noisy = npt.NDArray[np.float64] | npt.NDArray[np.int64]

LARGEST_PRIOR = 2.0**900


def smoothed_histogram(
    x: npt.ArrayLike,
    epsilon: float,
    k: int,
    *,
    bins: Bins,
    smoothing: float | None = None,
    bounds: Bounds = None,
    rng: Stream | None = None,
    threads: int | None = None,
) -> DrawsRelease:
    r"""Release k independent draws from a histogram that is mixed with the uniform density: (1 − δ)·f̂_m + δ.

    Parameters
    ----------
    x : array_like
        (n,) or (n, r) real records; those outside the bounds are clamped to them.
    epsilon : float
        Privacy loss ε of all draws together, positive and finite.
    k : int
        Number of draws, ≥ 1.
    bins : int or tuple of int
        Number m of cells, an r-th power; or the number of bins on each axis.
    smoothing : float, optional
        Weight δ of the uniform density, in (0, 1]. None is the least that is private, `least_smoothing`.
    bounds : pair of float, or r pairs, optional
        Where records lie; None is [0, 1]^r. It must not be chosen by looking at the data.
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads; None picks.

    Returns
    -------
    DrawsRelease
        The draws; its density is the histogram of the draws on the same cells.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type, or k·ln((1 − δ)m/(nδ) + 1) > ε.
    DataError
        If a number is NaN; the message has its index.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: ε-differential privacy if and only if k·ln((1 − δ)m/(nδ) + 1) ≤ ε (for m ≥ 2), which is decided in interval arithmetic. A
    draw has cell j with probability (1 − δ)C_j/n + δ/m exactly, and lies uniformly in it; the histogram itself is not kept.
    Cost: one pass over the data, and a few numbers for each draw.

    References
    ----------
    Wasserman & Zhou (2010), Theorem 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> release = smoothed_histogram(np.linspace(0, 1, 10_000), epsilon=1.0, k=100, bins=10)
    >>> release.draws.shape, release.privacy.epsilon
    ((100,), 1.0)
    """
    array, cells, rng = _checked(x, bins, bounds, rng, threads)
    epsilon, k, n = check_positive("epsilon", epsilon), check_draws(k, low=1), len(array)
    delta = _check_smoothing(smoothing, epsilon, k, cells.m, n)
    counts = cells.counts(array, threads=threads)
    codes = smoothed_codes(counts, k, delta, rng=rng)
    return DrawsRelease(Privacy(epsilon), n, cells.box, cells.places(codes, rng=rng), cells)


def smoothed_codes(counts: Codes, k: int, smoothing: float, *, rng: Stream | None = None) -> Codes:
    """Cells of k draws from a smoothed histogram: j with probability (1 − δ)·counts[j]/n + δ/m exactly, for δ in (0, 1].

    Parameters
    ----------
    counts : ndarray of int64, shape (m,)
        Records in each cell, not all 0.
    k : int
        Number of draws.
    smoothing : float
        Weight δ. That it is private is for the caller to see.
    rng : Stream, optional
        None is the secure source.

    Returns
    -------
    ndarray of int64, shape (k,)
        Numbers of cells.
    """
    rng = resolve(rng)
    weight, whole = Fraction(smoothing).as_integer_ratio()
    parts = (partial(record_codes, counts, rng=rng), partial(uniform_integers, len(counts), rng=rng))
    return mixed_codes((whole - weight, weight), parts, k, rng=rng)


def least_smoothing(epsilon: float, k: int, m: int, n: int) -> float:
    """Give the least δ for which k draws of a smoothed histogram are ε-private, rounded up.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, positive and finite.
    k : int
        Number of draws.
    m : int
        Number of cells.
    n : int
        Number of records.

    Returns
    -------
    float
        δ = m/(m + n·(e^(ε/k) − 1)), rounded up: k·ln((1 − δ)m/(nδ) + 1) ≤ ε holds for the float64 number.

    References
    ----------
    Wasserman & Zhou (2010), Theorem 4.1.

    Examples
    --------
    >>> round(least_smoothing(1.0, 100, 10, 10_000), 4)
    0.0905
    """
    epsilon, k = check_positive("epsilon", epsilon), check_draws(k, low=1)
    m, n = check_integer("m", m, low=1), check_integer("n", n, low=1)
    growth = growth_below(Fraction(epsilon) / k)
    return min(1.0, fraction_up(m / (m + n * growth)))


def _check_smoothing(smoothing: object, epsilon: float, k: int, m: int, n: int) -> float:
    """Return δ if it is private, the least one for None; else raise."""
    if smoothing is None:
        return least_smoothing(epsilon, k, m, n)
    delta = check_real("smoothing", smoothing, low=0.0, high=1.0, include_low=False)
    exact = Fraction(delta)
    if not exp_at_least(Fraction(epsilon) / k, 1 + (1 - exact) * m / (n * exact)):
        least = least_smoothing(epsilon, k, m, n)
        raise ParameterError(
            f"smoothing must be in [{least!r}, 1.0], so that k·ln((1 − smoothing)·m/(n·smoothing) + 1) ≤ epsilon, for "
            f"epsilon={epsilon!r}, k={k}, m={m} and n={n}; got {delta!r}"
        )
    return delta


def perturbed_histogram(
    x: npt.ArrayLike,
    epsilon: float,
    *,
    bins: Bins,
    noise: HistogramNoise = "laplace",
    bounds: Bounds = None,
    rng: Stream | None = None,
    threads: int | None = None,
) -> HistogramRelease:
    r"""Release a histogram with noise in every count; negative counts become 0 and the rest is normalised.

    Parameters
    ----------
    x : array_like
        (n,) or (n, r) real records; those outside the bounds are clamped to them.
    epsilon : float
        Privacy loss ε, positive and finite.
    bins : int or tuple of int
        Number m of cells, an r-th power; or the number of bins on each axis.
    noise : {"laplace", "discrete_laplace"}, default "laplace"
        Law of the noise; its scale is 2/ε.
    bounds : pair of float, or r pairs, optional
        Where records lie; None is [0, 1]^r. It must not be chosen by looking at the data.
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads; None picks.

    Returns
    -------
    HistogramRelease
        The density; any number of records may be drawn from it.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.
    DataError
        If a number is NaN; the message has its index.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: ε-differential privacy. Replacing a record takes 1 from one count and adds 1 to another: 2 in ℓ1 norm, and the noise has
    scale 2/ε, rounded up. All else is a function of the noisy counts. If all of them are cut to 0, the release is uniform.
    Cost: one pass over the data, and one noisy number for each cell.

    References
    ----------
    Wasserman & Zhou (2010), Section 4.2 and Theorem 4.4.

    Examples
    --------
    >>> import numpy as np
    >>> release = perturbed_histogram(np.full(1000, 0.25), epsilon=1.0, bins=4)
    >>> bool(release.masses[1] > 0.9), release.sample(5).shape
    (True, (5,))
    """
    array, cells, rng = _checked(x, bins, bounds, rng, threads)
    check_choice("noise", noise, ("laplace", "discrete_laplace"))
    epsilon = check_positive("epsilon", epsilon)
    _noise_scale(epsilon, 2.0, noise)
    counts = cells.counts(array, threads=threads)
    noisy, masses = perturbed_masses(counts, epsilon, noise=noise, rng=rng, threads=threads)
    return HistogramRelease(Privacy(epsilon), len(array), cells.box, cells, noisy, masses)


def perturbed_masses(
    counts: npt.ArrayLike,
    epsilon: float,
    *,
    noise: HistogramNoise = "laplace",
    sensitivity: float = 2.0,
    rng: Stream | None = None,
    threads: int | None = None,
) -> tuple[Noisy, npt.NDArray[np.float64]]:
    """Add noise to counts, and make probabilities of them.

    Parameters
    ----------
    counts : array_like of int, shape (..., m)
        Counts of the cells; each row along the last axis is a release of its own.
    epsilon : float
        Privacy loss ε of a row, positive and finite.
    noise : {"laplace", "discrete_laplace"}, default "laplace"
        Law of the noise; its scale is `sensitivity`/ε, rounded up.
    sensitivity : float, default 2.0
        ℓ1 sensitivity of a row: 2 where a neighbour replaces one record, 1 where it adds or removes one.
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads; None picks.

    Returns
    -------
    noisy : ndarray of float64 or int64, shape (..., m)
        Counts with noise.
    masses : ndarray of float64, shape (..., m)
        max(noisy, 0) divided by its sum over the row; 1/m where that sum is 0.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type, or ε gives a scale that the noise does not have.
    EntropyError
        If the operating system gives no randomness.

    References
    ----------
    Wasserman & Zhou (2010), Section 4.2.

    Examples
    --------
    >>> noisy, masses = perturbed_masses([[900, 100, 0], [0, 0, 0]], epsilon=1.0)
    >>> masses.shape, bool(abs(masses.sum(axis=1) - 1).max() < 1e-12)
    ((2, 3), True)
    """
    array = check_array("counts", counts, INTEGER_DTYPES)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ParameterError(f"counts must have shape (..., m) with m ≥ 1, got {array.shape}")
    check_choice("noise", noise, ("laplace", "discrete_laplace"))
    scale = _noise_scale(epsilon, sensitivity, noise)
    draw: Any = laplace if noise == "laplace" else discrete_laplace
    noisy: Noisy = draw(array, scale, rng=rng, threads=threads)
    masses = np.maximum(noisy, 0).astype(np.float64, copy=False)
    total = masses.sum(axis=-1, keepdims=True)
    empty = total == 0
    np.divide(masses, np.where(empty, 1.0, total), out=masses)
    masses[empty[..., 0]] = 1 / array.shape[-1]
    return noisy, masses


def _noise_scale(epsilon: float, sensitivity: float, noise: str) -> float:
    """Scale sensitivity/ε rounded up, if the noise has it."""
    scale = accounting.laplace_scale(epsilon, sensitivity)
    low, high = FLOAT_SCALE if noise == "laplace" else DISCRETE_SCALE
    if not low <= scale <= high:
        raise ParameterError(f"epsilon must give a noise scale {sensitivity!r}/epsilon in [{low!r}, {high!r}], got {epsilon!r}")
    return scale


def dirichlet_histogram(
    x: npt.ArrayLike,
    epsilon: float,
    k: int,
    *,
    bins: Bins,
    prior: npt.ArrayLike | None = None,
    bounds: Bounds = None,
    rng: Stream | None = None,
    threads: int | None = None,
) -> DrawsRelease:
    r"""Release k draws from a histogram whose masses are drawn from their Dirichlet posterior.

    Parameters
    ----------
    x : array_like
        (n,) or (n, r) real records; those outside the bounds are clamped to them.
    epsilon : float
        Privacy loss ε of all draws together, positive and finite.
    k : int
        Number of draws, ≥ 1.
    bins : int or tuple of int
        Number m of cells, an r-th power; or the number of bins on each axis.
    prior : float or array_like of float, shape (m,), optional
        Parameters a_j of the Dirichlet prior, in C order of the cells. None is the least that is private for every cell, `least_prior`.
    bounds : pair of float, or r pairs, optional
        Where records lie; None is [0, 1]^r. It must not be chosen by looking at the data.
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads; None picks.

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
    A = n + Σ a_j, or has cell j with probability (a_j + C_j)/(A + t). The posterior is never drawn, let alone kept.
    Cost: one pass over the data, and a few numbers for each draw; an array of priors takes a pass in rational numbers.

    References
    ----------
    Wasserman & Zhou (2010), end of Section 4.2, after Machanavajjhala et al. (2008).

    Examples
    --------
    >>> import numpy as np
    >>> release = dirichlet_histogram(np.linspace(0, 1, 10_000), epsilon=1.0, k=100, bins=10)
    >>> release.draws.shape, release.privacy.epsilon
    ((100,), 1.0)
    """
    array, cells, rng = _checked(x, bins, bounds, rng, threads)
    epsilon, k, n = check_positive("epsilon", epsilon), check_draws(k, low=1), len(array)
    priors = _check_prior(prior, epsilon, k, cells.m)
    counts = cells.counts(array, threads=threads)
    codes = dirichlet_codes(counts, k, priors, rng=rng)
    return DrawsRelease(Privacy(epsilon), n, cells.box, cells.places(codes, rng=rng), cells)


def dirichlet_codes(counts: Codes, k: int, prior: float | npt.NDArray[np.float64], *, rng: Stream | None = None) -> Codes:
    """Cells of k draws from a Dirichlet-multinomial law with parameters prior + counts, exactly.

    Parameters
    ----------
    counts : ndarray of int64, shape (m,)
        Records in each cell, not all 0.
    k : int
        Number of draws.
    prior : float or ndarray of float64, shape (m,)
        Parameters of the prior, positive. That they are private is for the caller to see.
    rng : Stream, optional
        None is the secure source.

    Returns
    -------
    ndarray of int64, shape (k,)
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
    return urn_codes(urn_parents(n + mass, k, rng=rng), of_cells)


def least_prior(epsilon: float, k: int) -> float:
    """Give the least parameter of a Dirichlet prior for which k draws are ε-private, rounded up.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, positive and finite.
    k : int
        Number of draws.

    Returns
    -------
    float
        k/(e^ε − 1), rounded up; at least 2^-1022.

    References
    ----------
    Wasserman & Zhou (2010), end of Section 4.2.

    Examples
    --------
    >>> round(least_prior(1.0, 100), 4)
    58.1977
    """
    epsilon, k = check_positive("epsilon", epsilon), check_draws(k, low=1)
    return max(TINY_NORMAL, fraction_up(k / growth_below(Fraction(epsilon))))


def _check_prior(prior: npt.ArrayLike | None, epsilon: float, k: int, m: int) -> float | npt.NDArray[np.float64]:
    """Return parameters of a prior if they are private, the least ones for None; else raise."""
    if prior is None:
        least = least_prior(epsilon, k)
        if least > LARGEST_PRIOR:
            raise ParameterError(f"epsilon must give a prior k/(e^epsilon − 1) ≤ 2^900, got {epsilon!r} for k={k}")
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
            f"prior must be at least k/(e^epsilon − 1) = {least_prior(epsilon, k)!r} for epsilon={epsilon!r} and k={k}, "
            f"got {smallest!r}{where}"
        )
    return priors


def _integers(numbers: npt.NDArray[np.float64]) -> tuple[list[int], Fraction]:
    """Positive float64 numbers as integers times a common unit, exactly."""
    mantissas, exponents = np.frexp(numbers)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    shifts = exponents - exponents.min()
    return [w << s for w, s in zip(whole.tolist(), shifts.tolist(), strict=True)], Fraction(2) ** (int(exponents.min()) - 53)


def _checked(
    x: npt.ArrayLike, bins: Bins, bounds: Bounds, rng: Stream | None, threads: int | None
) -> tuple[npt.NDArray[Any], Cells, Stream]:
    """The data, not yet looked at, the cells, and the call's stream."""
    array = check_data(x)
    check_threads(threads)
    stream = resolve(rng)  # one that is none is refused before the data are looked at
    return array, Cells.of(bins, Box.of(bounds, 1 if array.ndim == 1 else array.shape[1])), stream
