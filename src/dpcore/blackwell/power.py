"""What tests and Bayesian comparisons can learn from the output of a private mechanism."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from dpcore._exact.intervals import Interval, exp, refined, round_up
from dpcore._validation import REAL_DTYPES, check_array, check_choice, check_integer, check_real
from dpcore.errors import ParameterError

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.noise import Real
    from dpcore.privacy import Relation

_LARGEST_EXPONENT = 746
"""e^746 and e^−746 are beyond float64."""


@overload
def max_power(level: Real, epsilon: float, delta: float = ...) -> float: ...
@overload
def max_power(level: npt.ArrayLike, epsilon: float, delta: float = ...) -> npt.NDArray[np.float64]: ...
def max_power(level: Any, epsilon: float, delta: float = 0.0) -> Any:
    r"""Return the largest power of a test of one input against a neighbour that sees only the output of an (ε, δ)-private mechanism.

    Parameters
    ----------
    level : float or array_like
        Probability γ, in [0, 1], that the test rejects the first input when it is true. Any shape.
    epsilon : float
        Privacy loss ε, in [0, ∞].
    delta : float, default 0.0
        Failure mass δ, in [0, 1].

    Returns
    -------
    float or ndarray of float64
        min(1, γe^ε + δ, 1 − e^−ε(1 − δ − γ)), of the shape of `level`; a Python float for a scalar.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    The bound is tight: for each (ε, δ), one mechanism with four outcomes attains it at every level. The term γe^ε is that of
    Wasserman & Zhou (2010), Theorem 2.4, and Steinberger (2019), Aufgabe 2.2. The δ and the third term, which is smaller where
    γ > (1 − δ)/(e^ε + 1), follow from the region of Mechanisms as experiments (2014), Theorem 2.

    Cost: a few elementwise operations; 10^6 levels take some 20 ms.

    Source: Mechanisms as experiments (2014), Theorem 2.

    Examples
    --------
    >>> round(max_power(0.05, epsilon=1.0), 4)
    0.1359
    >>> max_power([0.0, 0.5, 1.0], epsilon=0.0, delta=0.25)
    array([0.25, 0.75, 1.  ])
    """
    epsilon = check_real("epsilon", epsilon, low=0.0, high=math.inf)
    delta = check_real("delta", delta, low=0.0, high=1.0)
    levels = check_array("level", level, REAL_DTYPES).astype(np.float64)
    if not ((levels >= 0) & (levels <= 1)).all():
        raise ParameterError(f"level must be in [0.0, 1.0], got {float(levels[~((levels >= 0) & (levels <= 1))].flat[0])!r}")
    with np.errstate(over="ignore"):
        # e^ε·0 is 0 for ε = ∞ too
        rise = np.where(levels > 0, np.exp(epsilon) * np.where(levels > 0, levels, 1.0), 0.0) + delta
    power = np.minimum(1.0, np.minimum(rise, 1 - math.exp(-epsilon) * np.maximum(0.0, 1 - delta - levels)))
    return float(power) if np.ndim(level) == 0 else power


def bayes_factors(epsilon: float, *, records: int = 1, relation: Relation = "replace") -> tuple[float, float]:
    r"""Return the range of Bayes factors between two hypotheses about the values of some records, given only a private output.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, in [0, ∞], of everything that is seen: of several releases, the sum.
    records : int, default 1
        Number k of records whose values differ between the hypotheses, ≥ 1.
    relation : {"replace", "add_remove"}, default "replace"
        Relation of the guarantee. Under "add_remove" a changed value is two steps, one record less and one more.

    Returns
    -------
    tuple of float
        (e^(−s), e^s), s = kε or 2kε, rounded outwards: P(z | H₁)/P(z | H₀) lies between them for every output z.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Guarantee: for any beliefs about the other records, the laws of the output under H₁ and H₀ are mixtures of laws that differ, pair by
    pair, by at most e^s; so does their ratio. Posterior odds are prior odds times the Bayes factor.
    Wasserman & Zhou (2010), after Theorem 2.4, print e^(±2ε) for one record. That is the range under "add_remove"; under "replace", their
    relation, it is e^(±ε), and binary randomised response attains it. If the hypotheses are about the presence of records and not about
    values, each is one step under "add_remove": its range is the one that this function gives for "replace".
    For δ > 0 there is no such range: outputs of probability δ may decide between the hypotheses. `max_power` has the bound for tests.
    Cost: one exponential in interval arithmetic.

    References
    ----------
    Wasserman & Zhou (2010), Theorem 2.4 and the text after it.

    Examples
    --------
    >>> low, high = bayes_factors(1.0)
    >>> round(low, 4), round(high, 4)
    (0.3679, 2.7183)
    >>> round(bayes_factors(1.0, relation="add_remove")[1], 4)
    7.3891
    """
    epsilon = check_real("epsilon", epsilon, low=0.0, high=math.inf)
    both = check_choice("relation", relation, ("replace", "add_remove")) == "add_remove"
    steps = check_integer("records", records, low=1) * (2 if both else 1)
    if math.isinf(epsilon) or steps * Fraction(epsilon) > _LARGEST_EXPONENT:
        return 0.0, math.inf
    exponent = steps * Fraction(epsilon)
    high = refined(lambda precision: exp(Interval.of(exponent, precision)))
    low = refined(lambda precision: exp(Interval.of(-exponent, precision)))
    return -round_up((-low).high), round_up(high.high)
