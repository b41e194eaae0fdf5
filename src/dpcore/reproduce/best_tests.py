"""The best private test of one sign a record, by linear programming: what bounds of all private tests must stay below."""

from __future__ import annotations

import math

import numpy as np

from dpcore.inference._sample_size import least_allowed

ACCURACY = 1e-9
"""Of the linear programs."""


def least_error(n: int, alpha: float, epsilon: float, delta: float) -> float:
    """Return the smallest worst error of a private test of a fair sign against one of mean α or −α.

    A test of n signs may as well depend on their number of +1 only: averaging over the order of records keeps its guarantee and errors.

    Parameters
    ----------
    n : int
        Number of records.
    alpha : float
        Separation, in (0, 1].
    epsilon, delta : float
        Guarantee for a replaced record, which moves the number of +1 by one; ε up to 20, where ratios are within the solver's accuracy.

    Examples
    --------
    >>> round(least_error(1, 1.0, 0.0, 0.5), 6), round(least_error(2, 1.0, 20.0, 0.0), 6)
    (0.5, 0.333333)
    """
    from scipy import stats
    from scipy.optimize import linprog

    laws = [stats.binom.pmf(np.arange(n + 1), n, share) for share in (0.5, (1 + alpha) / 2, (1 - alpha) / 2)]
    factor, here, next_one = math.exp(epsilon), np.eye(n, n + 1), np.eye(n, n + 1, k=1)
    ratios = np.vstack([here - factor * next_one, next_one - factor * here])
    # φ ≤ e^ε φ' + δ and 1 − φ ≤ e^ε (1 − φ') + δ, for each two neighbouring counts in both orders
    private = np.hstack([np.vstack([ratios, -ratios]), np.zeros((4 * n, 1))])
    errors = np.column_stack([np.vstack([laws[0], -laws[1], -laws[2]]), np.full(3, -1.0)])
    solved = linprog(
        np.append(np.zeros(n + 1), 1.0),
        A_ub=np.vstack([private, errors]),
        b_ub=np.concatenate([np.full(2 * n, delta), np.full(2 * n, factor - 1 + delta), [0.0, -1.0, -1.0]]),
        bounds=[(0, 1)] * (n + 2),
    )
    return float(np.asarray(solved.x)[-1])


def least_records(alpha: float, epsilon: float, delta: float) -> int:
    """Return the least number of records at which some private test of a fair sign has errors of at most ⅓.

    Parameters
    ----------
    alpha : float
        Separation, in (0, 1].
    epsilon, delta : float
        Guarantee for a replaced record.

    Examples
    --------
    >>> least_records(0.5, 1.0, 0.0), least_records(0.5, 0.0, 0.3)
    (11, 10)
    """
    return least_allowed(lambda n: (least_error(n, alpha, epsilon, delta) - ACCURACY,))
