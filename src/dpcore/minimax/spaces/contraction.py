"""How much a private channel leaves of a distance between two distributions, with a proof that a machine checks."""

from __future__ import annotations

import itertools
import math
import operator
from fractions import Fraction
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from dpcore._exact.intervals import Interval, exactly, exp
from dpcore._validation import REAL_DTYPES, TINY_NORMAL, check_array, check_choice, check_real
from dpcore.errors import ParameterError
from dpcore.minimax.spaces.matrices import Array, plain

EPSILON_HIGH = 700.0
METHODS = ("chi2", "steinberger")
ROUNDING = 2.0**-48
"""More than the rounding errors of the formulas of this module."""
PRECISION = 128
"""Bits of the enclosure of e^ε in proofs."""


def chi2_constant(epsilon: float) -> float:
    """Return c(ε) = (E − 1)²·max(1/E, 2/(E + 2)) with E = e^ε, rounded up.

    Every ε-private channel Q has χ²(Qp‖Qr) ≤ c·tv(p, r)² for all p and r; docs/exactness-minimax.md has the proof.
    """
    grown, E = math.expm1(epsilon), math.exp(epsilon)
    return 0.0 if epsilon == 0 else grown * max(grown / E, 2 * (grown / (E + 2))) * (1 + ROUNDING)


def proved_constant(epsilon: float) -> Fraction:
    """Prove that c(ε) is at most the returned number, in exact rationals, for one E ≥ e^ε.

    The vectors y are feasible in the duals of two linear programs over the columns of private channels with three and two rows. Their
    values bound Σ (Q₁ − Q₂)²/Q₃ and χ²(Q₁‖Q₂). Both are sublinear in the columns, which are mixtures of those with entries 1 and E.
    """
    E = exactly(exp(Interval.of(epsilon, PRECISION)).high)
    pairs, triples = itertools.product((Fraction(1), E), repeat=2), itertools.product((Fraction(1), E), repeat=3)
    near = _proved((1 / E, Fraction(0)), {(a, b): Fraction(a != b) / b for a, b in pairs})
    far = _proved(_multipliers(E), {(a, b, c): Fraction(a != b) / c for a, b, c in triples})
    return (E - 1) ** 2 * max(near, far)


def _multipliers(E: Fraction) -> tuple[Fraction, Fraction, Fraction]:
    """Return the multipliers of three rows for Σ (Q₁ − Q₂)²/Q₃, in units of (E − 1)²."""
    if E <= 2:
        return 1 / E, 1 / E, -1 / E
    unit = 1 / ((E + 2) * (E - 1))
    return E * unit, E * unit, -2 * unit


def _proved(y: tuple[Fraction, ...], gains: dict[tuple[Fraction, ...], Fraction]) -> Fraction:
    """Return Σy, which bounds the programme if no column gains more than y charges for it."""
    for column, gain in gains.items():
        if sum(map(operator.mul, y, column)) < gain:
            raise AssertionError(f"the multipliers are not feasible at {column}")
    return sum(y, Fraction(0))


@overload
def contraction_bound(epsilon: float, tv: float, *, method: str = ...) -> float: ...
@overload
def contraction_bound(epsilon: float, tv: npt.ArrayLike, *, method: str = ...) -> float | Array: ...
def contraction_bound(epsilon: float, tv: Any, *, method: str = "chi2") -> Any:
    r"""Bound the divergences that remain after an ε-private channel Q.

    D(Qp‖Qq) + D(Qq‖Qp) ≤ c·tv(p, q)² for every such channel.

    Parameters
    ----------
    epsilon : float
        Privacy loss of the channel, in [0, 700].
    tv : array_like of float
        Total variation distances before the channel, in [0, 1].
    method : {"chi2", "steinberger"}, default "chi2"
        "chi2" is c = (e^ε − 1)²·max(e^−ε, 2/(e^ε + 2)), which also bounds each of χ²(Qp‖Qq) and χ²(Qq‖Qp), and eight times the loss of the
        Hellinger affinity: 1 − Σ√(Qp·Qq) ≤ c·tv²/8. "steinberger" is c = min(4, e^{2ε})(e^ε − 1)² of the literature, which is larger.

    Returns
    -------
    float or ndarray of float64, of the shape of `tv`
        The bound, rounded up; ∞ where it exceeds the range of float64.

    Raises
    ------
    ParameterError, ParameterTypeError
        If an argument is outside its range or of the wrong type.

    Notes
    -----
    For n records behind a sequentially interactive channel, each of the two divergences is at most the sum of the n bounds, and the
    affinity at least (1 − c·tv²/8)^n. The constant of "chi2" cannot be smaller: three-ary and binary randomised response attain it as
    tv → 0. The often-quoted (e^ε − 1)²/e^ε holds up to ε = ln 2 only.
    Cost: a few operations an entry.
    Source: "steinberger" is Steinberger (2019), Satz 2.9 and Korollar 2.10 (Duchi, Jordan & Wainwright, 2013); "chi2" is ours.

    Examples
    --------
    >>> from dpcore.minimax import contraction_bound
    >>> round(contraction_bound(1.0, 0.1), 6), round(contraction_bound(1.0, 0.1, method="steinberger"), 6)
    (0.012515, 0.1181)
    """
    epsilon = check_real("epsilon", epsilon, low=0.0, high=EPSILON_HIGH)
    distances = check_array("tv", tv, REAL_DTYPES).astype(np.float64, copy=False)
    if not ((distances >= 0) & (distances <= 1)).all():
        raise ParameterError("tv must hold numbers in [0, 1], and one is outside")
    if check_choice("method", method, METHODS) == "chi2":
        # c first: the square of a distance may be too small for float64 where the bound is not.
        found = chi2_constant(epsilon) * distances * distances
    else:
        with np.errstate(over="ignore"):
            found = np.square(min(2.0, math.exp(epsilon)) * math.expm1(epsilon) * distances)
    least = np.where((distances > 0) & (epsilon > 0), TINY_NORMAL, 0.0)
    return plain(np.maximum(found * (1 + ROUNDING), least))
