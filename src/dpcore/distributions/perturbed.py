"""Histograms with noise in every count (Wasserman & Zhou, 2010, Section 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from dpcore import accounting
from dpcore._validation import INTEGER_DTYPES, check_array, check_choice, check_positive
from dpcore.distributions._boxes import Bounds
from dpcore.distributions._cells import Bins, cells_of_records
from dpcore.distributions._results import HistogramRelease
from dpcore.errors import ParameterError
from dpcore.noise import DISCRETE_SCALE, FLOAT_SCALE, discrete_laplace, laplace
from dpcore.privacy import Privacy

if TYPE_CHECKING:
    from dpcore.rng import Stream

HistogramNoise = Literal["laplace", "discrete_laplace"]
Noisy = npt.NDArray[np.float64] | npt.NDArray[np.int64]


def perturbed_histogram(
    records: npt.ArrayLike,
    epsilon: float,
    bounds: Bounds,
    *,
    bins: Bins,
    noise: HistogramNoise = "laplace",
    rng: Stream | None = None,
    threads: int | None = None,
) -> HistogramRelease:
    r"""Release a histogram with noise in every count; negative counts become 0 and the rest is normalised.

    Parameters
    ----------
    records : array_like, shape (n,) or (n, r)
        n ≥ 1 real records. Those outside the bounds are clamped to them.
    epsilon : float
        Privacy loss ε, positive and finite.
    bounds : (low, high)
        Where records lie: each a number, or a sequence of r numbers. Do not choose them by looking at the data.
    bins : int or sequence of int
        Number m of cells, an r-th power; or the number of bins on each axis.
    noise : {"laplace", "discrete_laplace"}, default "laplace"
        Law of the noise; its scale is 2/ε.
    rng : Stream, optional
        Source of randomness; None is the secure source.
    threads : int, optional
        Number of threads; None chooses.

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
    Guarantee: ε-differential privacy. Replacing a record takes 1 from one count and adds 1 to another, which is 2 in ℓ1 norm; the noise
    has scale 2/ε, rounded up. Everything else is computed from the noisy counts. If all of them are cut to 0, the release is uniform.
    Cost: one pass over the data, and one noisy number for each cell.

    References
    ----------
    Wasserman & Zhou (2010), Section 4.2 and Theorem 4.4.

    Examples
    --------
    >>> import numpy as np
    >>> ages = np.full(1000, 35)
    >>> release = perturbed_histogram(ages, epsilon=1.0, bounds=(0, 120), bins=4)
    >>> bool(release.masses[1] > 0.9), release.sample(5).shape
    (True, (5,))
    """
    array, cells, rng = cells_of_records(records, bounds, bins, rng, threads)
    check_choice("noise", noise, ("laplace", "discrete_laplace"))
    epsilon = check_positive("epsilon", epsilon)
    noise_scale(epsilon, 2.0, noise)
    counts = cells.counts(array, threads=threads)
    noisy, masses = perturbed_masses(counts, epsilon, noise=noise, rng=rng, threads=threads)
    return HistogramRelease(Privacy(epsilon), len(array), cells.box, cells, noisy, masses)


def perturbed_masses(
    counts: npt.ArrayLike,
    epsilon: float,
    sensitivity: float = 2.0,
    *,
    noise: HistogramNoise = "laplace",
    rng: Stream | None = None,
    threads: int | None = None,
) -> tuple[Noisy, npt.NDArray[np.float64]]:
    """Add noise to counts, and turn them into probabilities.

    Parameters
    ----------
    counts : array_like of int, shape (..., m)
        Counts of the cells; each row along the last axis is a separate release.
    epsilon : float
        Privacy loss ε of a row, positive and finite.
    sensitivity : float, default 2.0
        ℓ1 sensitivity of a row: 2 where a neighbour replaces one record, 1 where it adds or removes one.
    noise : {"laplace", "discrete_laplace"}, default "laplace"
        Law of the noise; its scale is `sensitivity`/ε, rounded up.
    rng : Stream, optional
        Source of randomness; None is the secure source.
    threads : int, optional
        Number of threads; None chooses.

    Returns
    -------
    noisy : ndarray of float64 or int64, shape (..., m)
        Counts with noise.
    masses : ndarray of float64, shape (..., m)
        max(noisy, 0) divided by its sum over the row; 1/m where that sum is 0.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type, or no noise has the scale that ε needs.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: ε-differential privacy of a row for neighbours whose counts differ by at most `sensitivity` in ℓ1 norm; the noise has
    scale `sensitivity`/ε, rounded up. The masses are computed from the noisy counts.
    Cost: one noisy number for each cell.

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
    scale = noise_scale(epsilon, sensitivity, noise)
    draw: Any = laplace if noise == "laplace" else discrete_laplace
    noisy: Noisy = draw(array, scale, rng=rng, threads=threads)
    masses = np.maximum(noisy, 0).astype(np.float64, copy=False)
    total = masses.sum(axis=-1, keepdims=True)
    empty = total == 0
    np.divide(masses, np.where(empty, 1.0, total), out=masses)
    masses[empty[..., 0]] = 1 / array.shape[-1]
    return noisy, masses


def noise_scale(epsilon: float, sensitivity: float, noise: str) -> float:
    """Scale sensitivity/ε rounded up, if the noise has it."""
    scale = accounting.laplace_scale(epsilon, sensitivity)
    low, high = FLOAT_SCALE if noise == "laplace" else DISCRETE_SCALE
    if not low <= scale <= high:
        raise ParameterError(f"epsilon must give a noise scale {sensitivity!r}/epsilon in [{low!r}, {high!r}], got epsilon={epsilon!r}")
    return scale
