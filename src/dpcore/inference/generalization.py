"""How far a privately chosen query can be from its average over the population (Stemmer, lecture 6, Theorem 11)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpcore._validation import check_integer, check_positive, check_real
from dpcore.inference._parameters import MOST_RECORDS, check_failure

_UP = 1 + 2.0**-40
"""Outweighs the roundings of one bound: some thirty of 2^-53 each, none of them amplified."""
_COPIES = np.exp2(np.linspace(-10.0, 6.0, 129))
"""Numbers of copies to try, in units of 1/β."""
_SHARES = np.exp2(np.linspace(-3.0, 3.0, 97))
"""Losses of the choice to try, in units of the one that is best if tanh were linear."""
_MOST_COPIES = 2.0**900
LEAST_BETA = 2.0**-600


def generalization_error(epsilon: float, delta: float, *, n: int, beta: float) -> float:
    r"""Bound how far the sample average of a privately chosen query is from its average over the population.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of the choice, positive and finite.
    delta : float
        Failure mass δ of the choice, in [0, 1).
    n : int
        Number of records, drawn independently from one distribution, in [1, 2^50].
    beta : float
        Probability β, in [2^-600, 1), with which the bound may be exceeded.

    Returns
    -------
    float
        a in (0, 1] with P(\|q(S) − q(𝒟)\| > a) < β for every (ε, δ)-private W that makes a query q = W(S) with values in [0, 1] from n
        records S ~ 𝒟ⁿ, and for every distribution 𝒟. Rounded up; 1 if nothing is proved.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    The bound is the least, over the T ≥ 1 and η > 0 that are tried, of

    a = [tanh((ε + η)/4) + Tδ + 2 ln(2T)/(ηn)] / (1 − (1 − β)^T).

    The proof, in docs/exactness-adaptive.md, lets an observer run W on T independent samples and choose the query that is the most wrong,
    with privacy loss η. It implies the theorem of the lecture, P(\|q(S) − q(𝒟)\| > 10ε) < δ/ε, for every n ≥ ln(1/δ)/(7ε²): the constant in
    its n = Ω(ln(1/δ)/ε²) may be any number from 1/7 on.

    Cost: about 1 ms.

    References
    ----------
    Stemmer (lecture 6), Theorem 11; the proof follows Bassily et al. (2016) with smaller constants.

    Examples
    --------
    >>> epsilon, delta = 0.01, 1e-6
    >>> n = round(math.log(1 / delta) / epsilon**2)
    >>> round(generalization_error(epsilon, delta, n=n, beta=delta / epsilon) / epsilon, 1)  # the lecture has 10
    3.8
    """
    epsilon, delta = check_positive("epsilon", epsilon), check_failure(delta)
    n = check_integer("n", n, low=1, high=MOST_RECORDS)
    beta = check_real("beta", beta, low=LEAST_BETA, high=1.0, include_high=False)
    copies = np.unique(np.clip(np.rint(_COPIES / beta), 1.0, _MOST_COPIES))
    choice = np.sqrt(8 * np.log(2 * copies) / n)[:, None] * _SHARES
    return min(1.0, float(error_bound(epsilon, delta, n, beta, copies[:, None], choice).min()) * _UP)


def error_bound(
    epsilon: float, delta: float, n: int, beta: float, copies: npt.NDArray[np.float64], choice: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The bound a for T = copies and η = choice, which broadcast; each is valid."""
    lost = np.tanh((epsilon + choice) / 4) + copies * delta + 2 * np.log(2 * copies) / (choice * n)
    bound: npt.NDArray[np.float64] = lost / -np.expm1(copies * math.log1p(-beta))
    return bound
