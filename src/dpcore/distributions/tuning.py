"""Sizes of releases (bins, draws, terms), and how fast their errors fall: the orders of Wasserman & Zhou (2010)."""

from __future__ import annotations

import math

from dpcore._dataclasses import dataclass
from dpcore._validation import check_choice, check_integer, check_positive, check_real
from dpcore.distributions.smoothed import least_smoothing
from dpcore.errors import ParameterError

MOST_RECORDS = LARGEST = 2**53
LIPSCHITZ = "smoothed_histogram", "perturbed_histogram", "ks_exponential"
SOBOLEV = "orthogonal_series", "l2_exponential"
MECHANISMS = (*LIPSCHITZ, *SOBOLEV, "minimax")
DISTANCES = "l2", "ks"


@dataclass(frozen=True, slots=True)
class Tuning:
    """Sizes of a release. A size that the release does not have is None.

    Attributes
    ----------
    bins : int or None
        Cells m; with r axes an r-th power.
    draws : int or None
        Number k of draws.
    smoothing : float or None
        δ of the smoothed histogram.
    terms : int or None
        Terms of an orthogonal series, for the records.
    draw_terms : int or None
        Terms of the series of the draws.
    """

    bins: int | None = None
    draws: int | None = None
    smoothing: float | None = None
    terms: int | None = None
    draw_terms: int | None = None


def smoothed_histogram_ks(epsilon: float, *, n: int, dimension: int = 1, constant: float = 1.0) -> Tuning:
    """Tune `smoothed_histogram` for the Kolmogorov-Smirnov distance: m ≍ n^(r/(6+r)), k ≍ n^(4/(6+r)).

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of the release, positive and finite.
    n : int
        Number of records, in [1, 2^53].
    dimension : int, default 1
        r ≥ 1.
    constant : float, default 1.0
        Factor of both orders, > 0.

    Returns
    -------
    Tuning
        `bins` and `draws`, the nearest whole numbers, and the least `smoothing` at which they are ε-private: of the order mk/(nε).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    Cost: a few operations.

    References
    ----------
    Wasserman & Zhou (2010), Theorem 4.2: with a Lipschitz density the expected distance is then of the order √(ln n)·n^(−2/(6+r)).

    Examples
    --------
    >>> tuning = smoothed_histogram_ks(1.0, n=10**7)
    >>> tuning.bins, tuning.draws, round(tuning.smoothing, 3)
    (10, 10000, 0.01)
    """
    n, r, constant = _checked(n, dimension, constant)
    return _smoothed(_cells(n ** (r / (6 + r)), r, constant), _whole(constant * n ** (4 / (6 + r))), n, epsilon)


def smoothed_histogram_l2(epsilon: float, *, n: int, dimension: int = 1, constant: float = 1.0) -> Tuning:
    """Tune `smoothed_histogram` for the squared L2 distance: m ≍ n^(r/(2r+3)), k ≍ n^((r+2)/(2r+3)).

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of the release, positive and finite.
    n : int
        Number of records, in [1, 2^53].
    dimension : int, default 1
        r ≥ 1.
    constant : float, default 1.0
        Factor of both orders, > 0.

    Returns
    -------
    Tuning
        `bins` and `draws`, the nearest whole numbers, and the least `smoothing` at which they are ε-private: of the order
        mk/(nε) = n^(−1/(2r+3))/ε. The theorem prints n^(−1/(r+3)), which does not follow from its proof.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    Cost: a few operations.

    References
    ----------
    Wasserman & Zhou (2010), Theorem 4.3: with a Lipschitz density the expected distance is then of the order n^(−2/(2r+3)).

    Examples
    --------
    >>> tuning = smoothed_histogram_l2(1.0, n=10**5)
    >>> tuning.bins, tuning.draws, round(tuning.smoothing, 3)
    (10, 1000, 0.091)
    """
    n, r, constant = _checked(n, dimension, constant)
    return _smoothed(_cells(n ** (r / (2 * r + 3)), r, constant), _whole(constant * n ** ((r + 2) / (2 * r + 3))), n, epsilon)


def perturbed_histogram_bins(*, n: int, dimension: int = 1, constant: float = 1.0) -> Tuning:
    """Tune `perturbed_histogram`, for both distances: m ≍ n^(r/(2+r)).

    Parameters
    ----------
    n : int
        Number of records, in [1, 2^53].
    dimension : int, default 1
        r ≥ 1.
    constant : float, default 1.0
        Factor of the order, > 0.

    Returns
    -------
    Tuning
        `bins`; and `draws` = n: with that many draws or more, the draws do not change the order of the error.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    Cost: a few operations.

    References
    ----------
    Wasserman & Zhou (2010), Theorem 4.4. The order supposes that noise of scale 2/ε is small beside the n/m records of a cell: nε² well
    above 8m.

    Examples
    --------
    >>> perturbed_histogram_bins(n=1000).bins, perturbed_histogram_bins(n=10**4, dimension=2).bins
    (10, 100)
    """
    n, r, constant = _checked(n, dimension, constant)
    return Tuning(bins=_cells(n ** (r / (2 + r)), r, constant), draws=n)


def ks_exponential_draws(epsilon: float, *, n: int, largest_density: float = math.e, constant: float = 1.0) -> Tuning:
    """Tune `ks_exponential`: k = c·(3ε/B)^(2/3)·n^(2/3), where e^B is the largest value of the density.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of the release, positive and finite.
    n : int
        Number of records, in [1, 2^53].
    largest_density : float, default e
        Upper bound of the density of the records, mapped to [0, 1]; > 1.
    constant : float, default 1.0
        c > 0. The proof takes 1/16 or more.

    Returns
    -------
    Tuning
        `draws`; and `bins` = √k, which the theorem does not have: cells add at most e^B/m, of the order of the error.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    Cost: a few operations.

    References
    ----------
    Wasserman & Zhou (2010), Theorem 5.4 and Remark 9.2: the distance is then at most of the order (B/(3ε))^(1/3)·n^(−1/3).

    Examples
    --------
    >>> ks_exponential_draws(1.0, n=9000)
    Tuning(bins=30, draws=900, smoothing=None, terms=None, draw_terms=None)
    """
    n, _, constant = _checked(n, 1, constant)
    epsilon = check_positive("epsilon", epsilon)
    bound = math.log(check_real("largest_density", largest_density, low=1.0, high=math.inf, include_low=False, include_high=False))
    k = _whole(constant * (3 * epsilon / bound * n) ** (2 / 3))
    return Tuning(bins=_whole(math.sqrt(k)), draws=k)


def l2_exponential_draws(*, n: int, smoothness: float, constant: float = 1.0) -> Tuning:
    """Tune `l2_exponential`: k ≍ √n, with n^(1/(2γ+1)) terms for the records and k^(1/(2γ+1)) for the draws.

    Parameters
    ----------
    n : int
        Number of records, in [1, 2^53]. `l2_exponential` refuses large n, as its number of trials grows exponentially.
    smoothness : float
        γ > ½ of the Sobolev space; the theorem has γ > 1.
    constant : float, default 1.0
        Factor of k, > 0.

    Returns
    -------
    Tuning
        `draws`, `terms` and `draw_terms`.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    Cost: a few operations.

    References
    ----------
    Wasserman & Zhou (2010), Theorem 6.2: the squared distance is then at most of the order n^(−γ/(2γ+1)).

    Examples
    --------
    >>> l2_exponential_draws(n=1024, smoothness=2.0)
    Tuning(bins=None, draws=32, smoothing=None, terms=4, draw_terms=2)
    """
    n, _, constant = _checked(n, 1, constant)
    gamma, k = _checked_smoothness(smoothness), _whole(constant * math.sqrt(n))
    return Tuning(draws=k, terms=_whole(n ** (1 / (2 * gamma + 1))), draw_terms=_whole(k ** (1 / (2 * gamma + 1))))


def orthogonal_series_terms(*, n: int, smoothness: float, constant: float = 1.0) -> Tuning:
    """Tune `orthogonal_series`: m ≍ n^(1/(2γ+1)) terms.

    Parameters
    ----------
    n : int
        Number of records, in [1, 2^53].
    smoothness : float
        γ > ½ of the Sobolev space; the theorem has γ > 1.
    constant : float, default 1.0
        Factor of the order, > 0.

    Returns
    -------
    Tuning
        `terms`; and `draws` = n: with that many draws or more, the draws do not change the order of the error.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    Cost: a few operations.

    References
    ----------
    Wasserman & Zhou (2010), Theorem 6.3: the squared L2 distance is then of the order n^(−2γ/(2γ+1)), that of the best estimators without
    privacy.

    Examples
    --------
    >>> orthogonal_series_terms(n=10**5, smoothness=2.0).terms
    10
    """
    n, _, constant = _checked(n, 1, constant)
    gamma = _checked_smoothness(smoothness)
    return Tuning(draws=n, terms=_whole(constant * n ** (1 / (2 * gamma + 1))))


# Rates


@dataclass(frozen=True, slots=True)
class Rate:
    """An order n^exponent·(ln n)^log_power.

    Attributes
    ----------
    exponent, log_power : float
        Of n and of ln n.
    value : float
        The order at n, with the constant 1.
    """

    exponent: float
    log_power: float
    value: float


def rate(mechanism: str, distance: str, *, n: int, dimension: int = 1, smoothness: float = 1.0) -> Rate:
    """Return the order of the error of a release: an entry of the two summary tables of Wasserman & Zhou (2010).

    Parameters
    ----------
    mechanism : str
        "smoothed_histogram", "perturbed_histogram" or "ks_exponential", for Lipschitz densities; "orthogonal_series" or "l2_exponential",
        for a Sobolev space; or "minimax", for the best estimator without privacy.
    distance : str
        "l2", squared, or "ks".
    n : int
        Number of records, in [2, 2^53].
    dimension : int, default 1
        r ≥ 1 of the records; the series and the exponential mechanisms have r = 1 only.
    smoothness : float, default 1.0
        γ of the Sobolev space, > ½. 1 stands for Lipschitz densities, the only value for histograms and for the distance "ks".

    Returns
    -------
    Rate
        Its exponent, the power of ln n, and the order at n.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type, or the tables have no such entry.

    Notes
    -----
    Cost: a few operations.

    References
    ----------
    Wasserman & Zhou (2010), Section 1.1. Theorem 4.4 (2) prints the smaller one of ln n·n^(−2/(2+r)) and √(ln n/n) for the KS distance of
    perturbed histograms. It should be the larger one: the smaller would beat every estimator. For r = 1 that is √(ln n/n), as the text
    beside the table states.

    Examples
    --------
    >>> rate("perturbed_histogram", "l2", n=1000).exponent == rate("minimax", "l2", n=1000).exponent
    True
    >>> rate("perturbed_histogram", "ks", n=1000).exponent
    -0.5
    """
    mechanism, distance = check_choice("mechanism", mechanism, MECHANISMS), check_choice("distance", distance, DISTANCES)
    n, r = check_integer("n", n, low=2, high=MOST_RECORDS), check_integer("dimension", dimension, low=1)
    gamma = _checked_smoothness(smoothness)
    exponent, log_power = _order(mechanism, distance, r, gamma)
    return Rate(exponent, log_power, n**exponent * math.log(n) ** log_power)


def _order(mechanism: str, distance: str, r: int, gamma: float) -> tuple[float, float]:
    """Powers of n and of ln n."""
    _check_entry(mechanism, distance, r, gamma)
    orders = {
        ("smoothed_histogram", "l2"): (-2 / (2 * r + 3), 0.0),
        ("smoothed_histogram", "ks"): (-2 / (6 + r), 0.5),
        ("perturbed_histogram", "l2"): (-2 / (2 + r), 0.0),
        ("perturbed_histogram", "ks"): (-1 / 2, 0.5) if r == 1 else (-2 / (2 + r), 1.0),
        ("ks_exponential", "ks"): (-1 / 3, 0.0),
        ("orthogonal_series", "l2"): (-2 * gamma / (2 * gamma + 1), 0.0),
        ("l2_exponential", "l2"): (-gamma / (2 * gamma + 1), 0.0),
        ("minimax", "l2"): (-2 * gamma / (2 * gamma + r), 0.0),
        ("minimax", "ks"): (-1 / 2, 0.0),
    }
    if (mechanism, distance) not in orders:
        known = " or ".join(repr(name) for m, name in orders if m == mechanism)
        raise ParameterError(f"distance must be {known} for {mechanism}, as the tables have no other, got {distance!r}")
    return orders[mechanism, distance]


def _check_entry(mechanism: str, distance: str, r: int, gamma: float) -> None:
    """Whether a table has an entry for such densities."""
    if r != 1 and mechanism in (*SOBOLEV, "ks_exponential"):
        raise ParameterError(f"dimension must be 1 for {mechanism}, got {r}")
    if gamma != 1.0 and (mechanism in LIPSCHITZ or distance == "ks"):
        raise ParameterError(f"smoothness must be 1 for {mechanism} and the distance {distance}, got {gamma!r}")


# What they share


def _checked(n: int, dimension: int, constant: float) -> tuple[int, int, float]:
    return (
        check_integer("n", n, low=1, high=MOST_RECORDS),
        check_integer("dimension", dimension, low=1),
        check_positive("constant", constant),
    )


def _checked_smoothness(smoothness: float) -> float:
    return check_real("smoothness", smoothness, low=0.5, high=math.inf, include_low=False, include_high=False)


def _whole(number: float) -> int:
    """The nearest whole number, at least 1."""
    if not number <= LARGEST:
        raise ParameterError(f"n, epsilon and constant must make sizes of at most {LARGEST}, got {number:g}")
    return max(1, round(number))


def _cells(order: float, r: int, constant: float) -> int:
    """Nearest r-th power."""
    return int(_whole((constant * order) ** (1 / r)) ** r)


def _smoothed(bins: int, k: int, n: int, epsilon: float) -> Tuning:
    return Tuning(bins=bins, draws=k, smoothing=least_smoothing(epsilon, draws=k, bins=bins, n=n))
