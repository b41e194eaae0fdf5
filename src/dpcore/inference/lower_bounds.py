"""What no private estimator of a mean can do better (Private inference, chapter 9, Theorems 9.2.1 and 9.2.3, with constants)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore._validation import check_integer, check_real
from dpcore.inference._parameters import MOST_RECORDS, check_failure

Array = npt.NDArray[np.float64]

MOST_COORDINATES = 2**40
_DOWN = 1 - 2.0**-30
"""Outweighs the roundings of a bound; `_RESERVE` of its first term is taken off where numbers are subtracted."""
_RESERVE = 2.0**-30


@dataclass(frozen=True, slots=True)
class MeanLowerBound:
    """A lower bound of the minimax risk of private means.

    Attributes
    ----------
    value : float
        For every (ε, δ)-private estimator M there is a distribution of the class with E‖M − μ‖² ≥ value. The larger one of the two parts.
    statistical : float
        The part that holds without privacy.
    privacy : float
        The part of privacy; 0 if nothing is proved.
    """

    value: float
    statistical: float
    privacy: float


def mean_lower_bound(epsilon: float, delta: float, *, n: int, d: int, radius: float, s: int | None = None) -> MeanLowerBound:
    r"""Bound from below the squared error of every private estimator of a mean.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, in (0, 700].
    delta : float
        Failure mass δ, in [0, 1).
    n : int
        Number of records, in [1, 2^50].
    d : int
        Number of coordinates, in [1, 2^40].
    radius : float
        R: records are in [−R, R]^d, R in [2^-400, 2^400].
    s : int, optional
        If given, at most s coordinates of the mean are not 0, 1 ≤ s ≤ d.

    Returns
    -------
    MeanLowerBound
        Bounds of sup E‖M(X) − μ‖₂² over the distributions on [−R, R]^d, rounded down.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    The statistical part is R²d/(1 + √n)². The privacy part is the largest, over m ≥ 2, of R² times the square of

    [2d/3 − t√(2dm/(3(m − 1)))] / [2√(d/3) + mt],  t² = 2 + 2εn/m + 4dδ̄,  δ̄ = δ[(1 + (e^ε − 1)/m)^n − 1]/(e^ε − 1),

    where 0 replaces a negative numerator. For d ≥ c·ln(1/δ), δ ≪ 1/d and m ≈ εn/ln(1/δ) its order is R²d² ln(1/δ)/(n²ε²), as in
    Theorem 9.2.1. With s, both parts are the larger ones of those for s coordinates that are known, and those of s blocks of ⌊d/s⌋
    coordinates with one non-zero mean each, of the orders R²s ln(d/s)/n and R²s ln²(d/s)/(n²ε²). This is not the (s ln d)² of Theorem
    9.2.3, whose proof fails: see docs/exactness-lower-bounds.md, which has all proofs.

    Cost: about 1 ms.

    References
    ----------
    Private inference (chapter 9), Theorems 9.2.1 and 9.2.3; Steinke & Ullman (2016), for the factor ln(1/δ).

    Examples
    --------
    >>> from dpcore import inference
    >>> bound = inference.mean_lower_bound(0.5, 1e-9, n=4000, d=1000, radius=1.0)
    >>> reached = inference.mean(np.zeros((4000, 1000)), 0.5, 1e-9, radius=1.0).stderr ** 2 * 1000
    >>> round(bound.privacy, 2), round(reached, 2)
    (0.28, 28.48)
    """
    epsilon = check_real("epsilon", epsilon, low=0.0, high=700.0, include_low=False)
    delta = check_failure(delta)
    n, d = check_integer("n", n, low=1, high=MOST_RECORDS), check_integer("d", d, low=1, high=MOST_COORDINATES)
    radius = check_real("radius", radius, low=2.0**-400, high=2.0**400)
    square = radius * radius
    known = d if s is None else check_integer("s", s, low=1, high=d)
    statistical, privacy = known / (1 + math.sqrt(n)) ** 2, traced_bound(epsilon, delta, n, known)
    if s is not None and (block := d // s) >= 2:
        statistical = max(statistical, _fano_blocks(n, s, block))
        privacy = max(privacy, packed_blocks(epsilon, delta, n, s, block))
    statistical, privacy = statistical * square * _DOWN, privacy * square * _DOWN
    return MeanLowerBound(max(statistical, privacy), statistical, privacy)


def traced_bound(epsilon: float, delta: float, n: int, d: int) -> float:
    """The privacy part for d coordinates and R = 1: the largest over numbers m of groups, all of which are valid."""
    if n < 2:
        return 0.0
    groups = np.unique(np.rint(np.exp(np.linspace(math.log(2.0), math.log(float(n)), 400))))
    with np.errstate(over="ignore"):
        failure = delta / math.expm1(epsilon) * np.expm1(n * np.log1p(math.expm1(epsilon) / groups)) if delta else np.zeros(len(groups))
        spread = np.sqrt(2 + 2 * epsilon * n / groups + 4 * d * failure) * (1 + _RESERVE)
    top = 2 * d / 3 * (1 - _RESERVE) - spread * np.sqrt(2 * d / 3 * groups / (groups - 1))
    return float(np.square(np.maximum(top, 0.0) / (2 * math.sqrt(d / 3) + groups * spread)).max())


def packed_blocks(epsilon: float, delta: float, n: int, s: int, block: int) -> float:
    """The privacy part of s blocks, in each of which one coordinate of `block` has a mean, for R = 1.

    A record has a non-zero number in a block with probability α, and at most k of them have one, except with probability P(K > k).
    """
    from scipy import special

    most = math.log(block) / epsilon
    counts = np.unique(np.floor(np.concatenate([[0.0], np.exp(np.linspace(0.0, math.log(min(max(2.0, most), 2.0**50)), 40))])))
    counts = counts[(counts == 0) | (counts < n)]
    shares = np.exp2(-np.linspace(0.0, 8.0, 33))[:, None] * np.minimum(1.0 / s, (counts + 1) / n)
    with np.errstate(over="ignore"):
        failure = delta * np.expm1(counts * epsilon) / math.expm1(epsilon)
        # P(K > k) of the binomial law; betainc is good to about 2^-30, and to much more where it is not small.
        tail = special.betainc(counts + 1, n - counts, np.minimum(shares, 1.0))
        lost = (tail + failure + np.exp(counts * epsilon) / block) * (1 + 2.0**-20)
    right = np.maximum(1 - _RESERVE - lost, 0.0)
    return float((s * shares**2 / 2 * right).max())


def _fano_blocks(n: int, s: int, block: int) -> float:
    """The statistical part of s blocks for R = 1: signs of mean θ in one coordinate of each, and Fano's inequality."""
    theta = np.exp2(-np.linspace(0.01, 40.0, 800))
    divergence = ((1 + theta) * np.log1p(theta) + (1 - theta) * np.log1p(-theta)) / 2
    # For small θ the two terms cancel: θ²/2 + θ⁴ is an upper bound up to θ = ½.
    divergence = np.where(theta < 2.0**-8, theta**2 / 2 + theta**4, divergence)
    right = 1 - _RESERVE - (n * divergence + math.log(2.0)) / math.log(block)
    return float((s * theta**2 / 2 * np.maximum(right, 0.0)).max())
