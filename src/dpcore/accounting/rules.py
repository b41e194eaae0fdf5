"""Rules of composition: the guarantee of several releases from the same data, rounded towards privacy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from dpcore._validation import check_choice, check_integer, check_positive, check_real
from dpcore.accounting._checks import check_delta, check_loss, check_open_delta, check_parts, check_uses, total_delta
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.privacy import Privacy

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

MOST_OPTIMAL = 10**9


def basic(parts: Iterable[Privacy]) -> Privacy:
    """Compose adaptive releases from the same data by adding their guarantees: (Σε, Σδ), rounded up.

    Parameters
    ----------
    parts : iterable of Privacy
        Guarantee of every release, all for one relation of neighbours. No parts at all compose to (0, 0).

    Returns
    -------
    Privacy
        Each sum is the smallest float64 that is not below the exact sum of the float64 values.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the parts have different relations, Σδ ≥ 1, or a part is not a `Privacy`.

    Notes
    -----
    In float64, 0.1 + 0.2 exceeds 0.3, and so does the result for these values. A `Ledger` adds the decimal numbers instead.

    Cost: some microseconds for each part.

    Source: Private inference (chapter 9), Theorem 9.1.2.

    Examples
    --------
    >>> basic([Privacy(0.5), Privacy(0.25, 1e-6)])
    Privacy(epsilon=0.75, delta=1e-06, relation='replace')
    """
    from fractions import Fraction

    from dpcore._exact.intervals import fraction_up

    checked, relation = check_parts(parts)
    delta = total_delta(sum((Fraction(part.delta) for part in checked), Fraction(0)), "the sum of the parts' delta")
    if any(part.epsilon == math.inf for part in checked):
        return Privacy(math.inf, delta, relation)
    return Privacy(fraction_up(sum((Fraction(part.epsilon) for part in checked), Fraction(0))), delta, relation)


def parallel(parts: Iterable[Privacy], *, partition: Literal["identity", "value"]) -> Privacy:
    """Compose releases that each see their own part of the records.

    The result is the maximum if a change of the data affects one part only. It is the sum of the two largest if a record can leave one part
    and enter another, which happens for a partition by value under the relation "replace".

    Parameters
    ----------
    parts : iterable of Privacy
        Guarantee of every release as a function of the whole data set, including the choice of its part. All for one relation.
    partition : {"identity", "value"}
        What decides to which part a record belongs. "identity" is a stable property, such as an account number, that stays the same when
        the record's value changes or another record appears. "value" is the record's value, as in a group-by. A row number is neither:
        where neighbours differ by the presence of a record, every later record moves on by one row, and all parts change.

    Returns
    -------
    Privacy
        The ε and the δ are computed separately, each by this rule.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the parts have different relations, the sum of the two largest δ is at least 1, or an argument has the wrong type.

    Notes
    -----
    Under "replace" one record can lower one count of a group-by and raise another. Two such counts with ε each are 2ε-private, and no
    better.

    Cost: some microseconds for each part.

    Examples
    --------
    >>> counts = [Privacy(0.5), Privacy(0.5), Privacy(0.25)]
    >>> parallel(counts, partition="identity").epsilon, parallel(counts, partition="value").epsilon
    (0.5, 1.0)
    """
    check_choice("partition", partition, ("identity", "value"))
    checked, relation = check_parts(parts)
    touched = 2 if partition == "value" and relation == "replace" else 1
    largest_epsilon = sorted((part.epsilon for part in checked), reverse=True)[:touched]
    largest_delta = sorted((part.delta for part in checked), reverse=True)[:touched]
    pairs = zip(largest_epsilon, largest_delta, strict=True)
    total = basic(Privacy(epsilon, delta) for epsilon, delta in pairs)
    return Privacy(total.epsilon, total.delta, relation)


def advanced(
    epsilon: float, delta: float, *, uses: int, delta_prime: float | None = None, method: Literal["standard", "lecture"] = "standard"
) -> Privacy:
    """Compose k adaptive (ε, δ)-private releases by the advanced composition theorem, rounded up.

    The guarantee is (ε√(2k ln(1/δ')) + kε(e^ε − 1), kδ + δ') with `method="standard"`, and (ε√(2k ln(1/δ')) + 2kε², kδ + δ') with
    `method="lecture"`, which needs ε ≤ 1.

    Parameters
    ----------
    epsilon, delta : float
        Guarantee of one release: ε in [0, ∞), or in (0, 1] with `method="lecture"`, and δ in [0, 1).
    uses : int
        Number k of releases, in [1, 10^18].
    delta_prime : float, optional
        Part δ' that the composition adds to δ, in (0, 1). Required, except with `method="lecture"` and δ > 0, where the theorem sets δ' =
        kδ.
    method : {"standard", "lecture"}, default "standard"
        Which theorem: Private inference (chapter 9), Theorem 9.1.3, or Stemmer (lecture 6), Theorem 2 (δ = 0) and Theorem 1 (δ > 0).

    Returns
    -------
    Privacy
        The guarantee of the formula. Its ε is inf beyond the range of float64, and may exceed kε; `compose` takes the smaller one.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range, kδ + δ' ≥ 1, ε > 1 with `method="lecture"`, or δ' is given where the theorem sets it.

    Notes
    -----
    "lecture" gives the larger ε, because e^ε − 1 ≤ 2ε for ε ≤ 1. `optimal` is never above either.

    Cost: 0.1 ms.

    Source: Dwork, Rothblum & Vadhan (2010); Dwork & Roth (2014), Theorem 3.20.

    Examples
    --------
    >>> print(f"{advanced(0.1, 0.0, uses=100, delta_prime=1e-6).epsilon:.4f}")
    6.3082
    """
    from fractions import Fraction

    from dpcore.accounting import _composition

    check_choice("method", method, ("standard", "lecture"))
    delta, k = check_loss("delta", delta, high=1.0), check_uses(uses)
    if method == "standard":
        epsilon = check_loss("epsilon", epsilon)
        extra = check_open_delta("delta_prime", delta_prime)
        total = total_delta(k * Fraction(delta) + Fraction(extra), "uses·delta + delta_prime")
        return Privacy(_composition.advanced_epsilon(epsilon, k, extra), total)
    epsilon = _lecture_epsilon(epsilon)
    added = _lecture_delta(delta, k, delta_prime)
    total = total_delta(k * Fraction(delta) + added, "uses·delta + delta_prime")
    return Privacy(_composition.lecture_epsilon(epsilon, k, added), total)


def optimal(epsilon: float, delta: float, *, uses: int, delta_total: float) -> float:
    """Return the least ε' that k adaptive (ε, δ)-private releases certainly have together at a total δ: the exact optimum, rounded up.

    Parameters
    ----------
    epsilon, delta : float
        Guarantee of one release: ε in [0, ∞) and δ in [0, 1).
    uses : int
        Number k of releases, in [1, 10^9].
    delta_total : float
        Total δ, in [0, 1).

    Returns
    -------
    float
        In [0, kε]: the least ε' with 1 − (1−δ)^k (1 − δ₀(ε')) ≤ `delta_total`, rounded up to a float64, where
        δ₀(ε') = Σ_l C(k, l)(e^((k−l)ε) − e^(ε'+lε))₊ / (1+e^ε)^k. If the k releases alone need a larger δ, the result is inf.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or has the wrong type.

    Notes
    -----
    Some (ε, δ)-private mechanisms attain this bound. If you know more about a mechanism than its (ε, δ), `compose` can give a smaller ε'.

    Cost: 2 ms at k = 100, 0.1 s at k = 10^6, 3 s at 10^9.

    Source: Kairouz, Oh & Viswanath (2015), Theorem 3.3, with exact interpolation between its values (k − 2i)ε.

    Examples
    --------
    >>> print(f"{optimal(0.1, 0.0, uses=100, delta_total=1e-6):.4f}")
    4.7746
    """
    from dpcore.accounting import _optimal

    epsilon, delta = check_loss("epsilon", epsilon), check_loss("delta", delta, high=1.0)
    k = check_integer("uses", uses, low=1, high=MOST_OPTIMAL)
    return _optimal.optimal_epsilon(epsilon, delta, k, check_delta("delta_total", delta_total))


def optimal_heterogeneous(parts: Iterable[Privacy], *, delta_total: float, tolerance: float) -> float:
    """Return an ε' of adaptive releases with different guarantees together at a total δ, within a tolerance of the least one.

    Parameters
    ----------
    parts : iterable of Privacy
        Guarantee of every release, with finite ε.
    delta_total : float
        Total δ, in [0, 1).
    tolerance : float
        How far above the least ε' the result may be, positive.

    Returns
    -------
    float
        In [ε', ε' + tolerance], where ε' is the least value that is certain. If the releases alone need a larger δ, the result is inf.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or has the wrong type, or the tolerance needs a grid of too many points.

    Notes
    -----
    Every ε_i is replaced by a mixture of its neighbours on a grid, which is never more private; by how much less is bounded, too. The grid
    is refined until the result is certain. Both bounds include the rounding of float64. If all parts are equal, use `optimal`.

    Cost: grows with Σε, with the number of parts, and with √(1/tolerance) as far as the ε_i lie on no grid; 30 ms for the example, 3 s for
    400 parts of ε from 0.05 to 1 and a tolerance of 0.01. What cannot be answered is refused in a second or less.

    Source: Murtagh & Vadhan (2016), Theorem 1.5 for the optimum, which is #P-hard to compute exactly.

    Examples
    --------
    >>> parts = [Privacy(0.1)] * 50 + [Privacy(0.2)] * 10
    >>> print(f"{optimal_heterogeneous(parts, delta_total=1e-6, tolerance=0.01):.2f} {basic(parts).epsilon:.2f}")
    4.35 7.00
    """
    from dpcore.accounting import _unequal

    checked, _ = check_parts(parts)
    for i, part in enumerate(checked):
        check_loss(f"parts[{i}].epsilon", part.epsilon)
    total, tolerance = check_delta("delta_total", delta_total), check_positive("tolerance", tolerance)
    return _unequal.optimal_epsilon([(part.epsilon, part.delta) for part in checked], total, tolerance)


def _lecture_epsilon(epsilon: float) -> float:
    epsilon = check_real("epsilon", epsilon, low=0.0, high=math.inf, include_low=False, include_high=False, rounding="up")
    if epsilon > 1:
        raise ParameterError(f"epsilon must be in (0, 1] for method='lecture', the range of its theorems, got {epsilon!r}")
    return epsilon


def _lecture_delta(delta: float, k: int, delta_prime: float | None) -> Fraction:
    from fractions import Fraction

    if not delta:
        return Fraction(check_open_delta("delta_prime", delta_prime))
    if delta_prime is not None:
        raise ParameterTypeError(
            f"delta_prime must be left out for method='lecture' with delta > 0, where it is uses·delta, got {delta_prime!r}"
        )
    return k * Fraction(delta)
