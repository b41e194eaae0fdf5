"""Rules of composition: the guarantee of several releases from the same data, each rounded against its user."""

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
    r"""Compose adaptive releases from the same data by adding: (Σε, Σδ), rounded up.

    Parameters
    ----------
    parts : iterable of Privacy
        The guarantee of every release, all for one relation of neighbours. None at all compose to (0, 0).

    Returns
    -------
    Privacy
        Each sum is the smallest float64 that is not below the exact sum of the float64 values.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the parts speak of different relations, Σδ ≥ 1, or a part is no `Privacy`.

    Notes
    -----
    Source: Private inference (chapter 9), Theorem 9.1.2. What is written 0.1 + 0.2 exceeds what is written 0.3 in float64, and so does the
    result; a `Ledger` adds the decimal numbers instead.

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
    r"""Compose releases of which each sees its own part of the data.

    The maximum if a change touches one part only; the sum of the two largest if a record can leave one part and enter another, that is for
    a partition by value under the relation "replace".

    Parameters
    ----------
    parts : iterable of Privacy
        The guarantee of every release, as a function of the whole data set (the choice of its part included), for one relation.
    partition : {"identity", "value"}
        What decides on the part of a record: a stable identity, such as an account number, that neither a change of its value nor the
        presence of another record moves; or its value, as in a group-by. A place (row number) is no identity: where neighbours differ by
        the presence of a record, every later record moves on by one place and all parts change.

    Returns
    -------
    Privacy
        ε and δ are treated alike, each for itself.

    Raises
    ------
    ParameterError, ParameterTypeError
        If the parts speak of different relations, the sum of the two largest δ is ≥ 1, or an argument is of the wrong type.

    Notes
    -----
    Under "replace", two counts of a group-by can move in opposite directions: with ε each the pair is 2ε-private and no better.

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
    r"""Compose k adaptive (ε, δ)-private releases by the advanced theorem: its formula, rounded up.

    (ε√(2k ln(1/δ')) + kε(e^ε − 1), kδ + δ') in the standard form; (ε√(2k ln(1/δ')) + 2kε², kδ + δ') in the lecture's, for ε ≤ 1.

    Parameters
    ----------
    epsilon, delta : float
        Guarantee of one release: ε in [0, ∞), in (0, 1] for the lecture's form, and δ in [0, 1).
    uses : int
        Number k of releases, in [1, 10^18].
    delta_prime : float, optional
        What the composition adds to δ, in (0, 1). Required, but for the lecture's form with δ > 0: its theorem sets δ' = kδ.
    method : {"standard", "lecture"}, default "standard"
        Private inference (chapter 9), Theorem 9.1.3, or Stemmer (lecture 6), Theorems 2 (δ = 0) and 1 (δ > 0).

    Returns
    -------
    Privacy
        ε is inf above the range of float64. Nothing here compares with kε: `compose` does.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range, kδ + δ' ≥ 1, ε > 1 for the lecture's form, or δ' is given where the theorem sets it.

    Notes
    -----
    Dwork, Rothblum & Vadhan (2010); Dwork & Roth (2014), Theorem 3.20. The lecture's form is weaker, as e^ε − 1 ≤ 2ε for ε ≤ 1, and
    stated for those ε only. `optimal` is never worse than either.

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
        total = total_delta(k * Fraction(delta) + Fraction(extra), "k·delta + delta_prime")
        return Privacy(_composition.advanced_epsilon(epsilon, k, extra), total)
    epsilon = _lecture_epsilon(epsilon)
    added = _lecture_delta(delta, k, delta_prime)
    total = total_delta(k * Fraction(delta) + added, "k·delta + delta_prime")
    return Privacy(_composition.lecture_epsilon(epsilon, k, added), total)


def optimal(epsilon: float, delta: float, *, uses: int, delta_total: float) -> float:
    r"""Give the least ε' that k adaptive (ε, δ)-private releases certainly have together at a total δ: the exact optimum, rounded up.

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
        In [0, kε]: the least ε' with 1 − (1−δ)^k (1 − δ₀(ε')) ≤ `delta_total`, rounded up to a float64;
        δ₀(ε') = Σ_l C(k, l)(e^((k−l)ε) − e^(ε'+lε))₊ / (1+e^ε)^k. Without any such ε', as the k releases alone use up more δ, inf.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    There are (ε, δ)-private mechanisms whose composition attains it; knowing more about a mechanism can do better, see `compose`.
    Cost: some milliseconds, 0.1 s at k = 10^6, 3 s at 10^9. Source: Kairouz, Oh & Viswanath (2015), Theorem 3.3, between
    whose values (k − 2i)ε the bound is interpolated exactly.

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
    r"""Give an ε' that adaptive releases with different guarantees have together at a total δ, close to the least one.

    Parameters
    ----------
    parts : iterable of Privacy
        The guarantee of every release, ε finite.
    delta_total : float
        Total δ, in [0, 1).
    tolerance : float
        How far above the least ε' the result may be, positive.

    Returns
    -------
    float
        In [ε', ε' + tolerance], ε' the least that is certain; inf if the releases alone use up more δ.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type; a tolerance that would take a grid of more than 2^22 points in particular.

    Notes
    -----
    An upper and a lower bound, from rounding the ε_i up and down to a grid, are brought within the tolerance of one another; roundings of
    float64 are counted into both. Cost: grows with Σε/tolerance and the number of parts. If all parts are equal use `optimal`.
    Source: Murtagh & Vadhan (2016), Theorem 1.5 for the optimum, which is #P-hard to compute exactly.

    Examples
    --------
    >>> parts = [Privacy(0.1)] * 50 + [Privacy(0.2)] * 10
    >>> print(f"{optimal_heterogeneous(parts, delta_total=1e-6, tolerance=0.01):.2f} {basic(parts).epsilon:.2f}")
    4.36 7.00
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
        raise ParameterError(f"epsilon must be in (0, 1] for method='lecture', whose theorems are stated for it, got {epsilon!r}")
    return epsilon


def _lecture_delta(delta: float, k: int, delta_prime: float | None) -> Fraction:
    from fractions import Fraction

    if not delta:
        return Fraction(check_open_delta("delta_prime", delta_prime))
    if delta_prime is not None:
        raise ParameterTypeError(f"delta_prime must be left out for method='lecture' with delta > 0: it is k·delta, got {delta_prime!r}")
    return k * Fraction(delta)
