"""How many records every private test of uniformity or of a normal mean needs (Private inference, chapter 9, Theorem 9.3.3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from dpcore._validation import check_choice, check_integer, check_real
from dpcore.errors import ParameterError
from dpcore.inference._parameters import check_failure

_UP = 1 + 2.0**-30
"""Outweighs the roundings of what is bounded from above."""
_MOST = 2**1000


def sample_size_lower_bound(epsilon: float, delta: float, *, d: int, alpha: float, model: Literal["signs", "normal"] = "signs") -> int:
    r"""Bound from below the number of records of every private test whose errors are at most 1/3.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, in [0, 700]. With ε = 0 the test is (0, δ)-private, as in the chapter.
    delta : float
        Failure mass δ, in [0, 1); ε + δ positive and at least 2^-400.
    d : int
        Number of coordinates of a record, in [1, 2^40].
    alpha : float
        Separation α, in [2^-40, √d].
    model : {"signs", "normal"}, default "signs"
        Uniform signs against product distributions with ‖ν‖₂ ≥ α, or N(0, I) against N(μ, I) with ‖μ‖₂ ≥ α.

    Returns
    -------
    int
        n such that every (ε, δ)-private test with fewer than n records accepts the alternative or rejects the null hypothesis with
        probability above 1/3, for some law. Rounded down.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    The alternative has means ±b, b = α/√d, with random signs. Two bounds hold, and the larger one is returned:

    - without privacy, the χ² divergence of n records must be at least 4/9: d·ln cosh(n·artanh(b²)) ≥ ln(13/9); n·b² for normal records;
    - an (ε, δ)-private test is (0, η)-private, η = (e^ε − 1 + 2δ)/(e^ε + 1), so η times the expected number of records in which two samples
      differ must be at least 1/3. A coupling, record by record, makes this number at most τ·min(n, a√(1 + b²n)·⅔n^(3/2)) for signs, with
      τ = √(d·D(b)/2), a = artanh b and D the divergence of a sign of mean b from a fair one.

    Their orders are √d/α², and d^⅓/(α^(4/3)ε^⅔) and 1/(αε): those of Theorem 9.3.3. docs/exactness-lower-bounds.md has the proof.

    Cost: about 1 ms.

    References
    ----------
    Private inference (chapter 9), Theorem 9.3.3; Acharya, Sun & Zhang (2018), for the coupling.

    Examples
    --------
    >>> from dpcore import inference
    >>> inference.sample_size_lower_bound(0.1, 0.0, d=256, alpha=0.5), inference.sample_size_needed(0.1, 1e-9, d=256, alpha=0.5)
    (114, 86284)
    """
    epsilon, delta = check_real("epsilon", epsilon, low=0.0, high=700.0), check_failure(delta)
    d = check_integer("d", d, low=1, high=2**40)
    alpha = check_real("alpha", alpha, low=2.0**-40, high=math.sqrt(d))
    level = math.expm1(epsilon) / (math.exp(epsilon) + 1) + 2 * delta / (math.exp(epsilon) + 1)
    if epsilon + delta < 2.0**-400:
        raise ParameterError(f"epsilon + delta must be at least 2^-400, got epsilon={epsilon!r} and delta={delta!r}")
    b, moved = alpha / math.sqrt(d), _MOVED[check_choice("model", model, tuple(_MOVED))]
    return max(
        _least(lambda n: divergence(n, d, b, model) * _UP < math.log(13 / 9)), _least(lambda n: 3 * level * moved(n, d, b) * _UP < 1)
    )


def divergence(n: float, d: int, b: float, model: str) -> float:
    """An upper bound of ln(1 + χ²) of n records of random means ±b from those of mean 0."""
    exponent = n * b * b if model == "normal" else n * math.atanh(min(b * b, 1 - 2.0**-53))
    # ln cosh, without cancellation and overflow
    return d * (
        math.log1p(2 * math.sinh(exponent / 2) ** 2) if exponent < 1 else exponent + math.log1p(math.exp(-2 * exponent)) - math.log(2.0)
    )


def moved_signs(n: float, d: int, b: float) -> float:
    """An upper bound of the expected number of records in which n uniform records and n of random means ±b differ, signs."""
    if b >= 1 - 2.0**-40:
        return n
    one = min(1.0, math.sqrt(d * sign_divergence(b) / 2))
    return one * min(n, _growth(n, b, math.atanh(b)))


def moved_normal(n: float, d: int, b: float) -> float:
    """The same for normal records."""
    if b > 1:
        return n * min(1.0, b * math.sqrt(d) / 2)
    fixed, grown = 2 * math.sinh(b * b / 2) ** 2, math.sinh(b * b)  # cosh b² − 1
    found = n * math.sqrt(d * fixed / 2) + math.sqrt(d * grown / 2) * min(n, _growth(n, b, b))
    return min(found, n * min(1.0, b * math.sqrt(d) / 2))


_MOVED: dict[str, Callable[[float, int, float], float]] = {"signs": moved_signs, "normal": moved_normal}


def sign_divergence(b: float) -> float:
    """Kullback-Leibler divergence of a sign of mean b from a fair one, rounded up: ½[(1 + b)ln(1 + b) + (1 − b)ln(1 − b)]."""
    if b < 2.0**-8:
        return (b * b / 2 + b**4 / 8) * _UP  # the next terms are b⁴/12 + b⁶/30 + …
    return ((1 + b) * math.log1p(b) + (1 - b) * math.log1p(-b)) / 2 * _UP


def _growth(n: float, b: float, a: float) -> float:
    """An upper bound of Σ over j < n of a√(j + j²b²): the two estimates √j + bj and √(1 + b²n)√j of the root, integrated."""
    power = 2 * n * math.sqrt(n) / 3
    return a * min(power + b * n * n / 2, math.sqrt(1 + b * b * n) * power)


def _least(excluded: Callable[[float], bool]) -> int:
    """The least n ≥ 1 that is not excluded, or a smaller one."""
    if not excluded(1.0):
        return 1
    low, high = 1, 2
    while high < _MOST and excluded(float(high)):
        low, high = high, 2 * high
    while high - low > 1 and high < _MOST:
        middle = (low + high) // 2
        if middle > 2**53:  # the float of a larger integer may be above it
            break
        low, high = (middle, high) if excluded(float(middle)) else (low, middle)
    return low + 1
