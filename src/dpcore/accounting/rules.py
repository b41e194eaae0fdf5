"""Rules of composition: the guarantee of several releases from the same data, each rounded against its user."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from dpcore._validation import check_choice, check_real
from dpcore.accounting._checks import check_delta, check_open_delta, check_parts, check_uses, total_delta
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.privacy import Privacy

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction


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
    Source: document 004, Theorem 9.1.2. What is written 0.1 + 0.2 exceeds what is written 0.3 in float64, and so does the result; a
    `Ledger` adds the decimal numbers instead.

    Examples
    --------
    >>> basic([Privacy(0.5), Privacy(0.25, 1e-6)])
    Privacy(epsilon=0.75, delta=1e-06, relation='replace')
    """
    from fractions import Fraction

    from dpcore._intervals import fraction_up

    checked, relation = check_parts(parts)
    delta = total_delta(sum((Fraction(part.delta) for part in checked), Fraction(0)), "the sum of the parts' delta")
    if any(part.epsilon == math.inf for part in checked):
        return Privacy(math.inf, delta, relation)
    return Privacy(fraction_up(sum((Fraction(part.epsilon) for part in checked), Fraction(0))), delta, relation)


def parallel(parts: Iterable[Privacy], *, partition: Literal["index", "value"]) -> Privacy:
    r"""Compose releases of which each sees its own part of the data.

    The maximum if a change touches one part only; the sum of the two largest if a record can leave one part and enter another, that is for
    a partition by value under the relation "replace".

    Parameters
    ----------
    parts : iterable of Privacy
        The guarantee of every release, as a function of the whole data set (the choice of its part included), for one relation.
    partition : {"index", "value"}
        What decides on the part of a record: its place or identity, which no change of its value moves, or its value, as in a group-by.

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
    >>> parallel(counts, partition="index").epsilon, parallel(counts, partition="value").epsilon
    (0.5, 1.0)
    """
    check_choice("partition", partition, ("index", "value"))
    checked, relation = check_parts(parts)
    touched = 2 if partition == "value" and relation == "replace" else 1
    largest_epsilon = sorted((part.epsilon for part in checked), reverse=True)[:touched]
    largest_delta = sorted((part.delta for part in checked), reverse=True)[:touched]
    pairs = zip(largest_epsilon, largest_delta, strict=True)
    total = basic(Privacy(epsilon, delta) for epsilon, delta in pairs)
    return Privacy(total.epsilon, total.delta, relation)


def advanced(
    epsilon: float, delta: float, k: int, delta_prime: float | None = None, *, form: Literal["standard", "lecture"] = "standard"
) -> Privacy:
    r"""Compose k adaptive (ε, δ)-private releases by the advanced theorem: its formula, rounded up.

    (ε√(2k ln(1/δ')) + kε(e^ε − 1), kδ + δ') in the standard form; (ε√(2k ln(1/δ')) + 2kε², kδ + δ') in the lecture's, for ε ≤ 1.

    Parameters
    ----------
    epsilon, delta : float
        Guarantee of one release: ε in [0, ∞), in (0, 1] for the lecture's form, and δ in [0, 1).
    k : int
        Number of releases, in [1, 10^18].
    delta_prime : float, optional
        What the composition adds to δ, in (0, 1). Required, but for the lecture's form with δ > 0: its theorem sets δ' = kδ.
    form : {"standard", "lecture"}, default "standard"
        Document 004's Theorem 9.1.3, or document 002's Theorems 2 (δ = 0) and 1 (δ > 0).

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
    Dwork, Rothblum and Vadhan, FOCS 2010; Dwork and Roth, "The algorithmic foundations of differential privacy", Theorem 3.20. The
    lecture's form is weaker, as e^ε − 1 ≤ 2ε for ε ≤ 1, and stated for those ε only. `optimal` is never worse than either.

    Examples
    --------
    >>> print(f"{advanced(0.1, 0.0, 100, 1e-6).epsilon:.4f} {advanced(0.1, 0.0, 100, 1e-6, form='lecture').epsilon:.4f}")
    6.3082 7.2565
    """
    from fractions import Fraction

    from dpcore.accounting import _composition

    check_choice("form", form, ("standard", "lecture"))
    delta, k = check_delta("delta", delta), check_uses(k)
    if form == "standard":
        epsilon = check_real("epsilon", epsilon, low=0.0, high=math.inf, include_high=False)
        extra = check_open_delta("delta_prime", delta_prime)
        total = total_delta(k * Fraction(delta) + Fraction(extra), "k·delta + delta_prime")
        return Privacy(_composition.advanced_epsilon(epsilon, k, extra), total)
    epsilon = _lecture_epsilon(epsilon)
    added = _lecture_delta(delta, k, delta_prime)
    total = total_delta(k * Fraction(delta) + added, "k·delta + delta_prime")
    return Privacy(_composition.lecture_epsilon(epsilon, k, added), total)


def _lecture_epsilon(epsilon: float) -> float:
    epsilon = check_real("epsilon", epsilon, low=0.0, high=math.inf, include_low=False, include_high=False)
    if epsilon > 1:
        raise ParameterError(f"epsilon must be in (0, 1] for form='lecture', whose theorems are stated for it, got {epsilon!r}")
    return epsilon


def _lecture_delta(delta: float, k: int, delta_prime: float | None) -> Fraction:
    from fractions import Fraction

    if not delta:
        return Fraction(check_open_delta("delta_prime", delta_prime))
    if delta_prime is not None:
        raise ParameterTypeError(f"delta_prime must be left out for form='lecture' with delta > 0: it is k·delta, got {delta_prime!r}")
    return k * Fraction(delta)
