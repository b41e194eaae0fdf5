"""The guarantee of several uses of mechanisms together, under the best rule of composition that applies to them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpcore.accounting._checks import check_delta, check_nonnegative
from dpcore.accounting.uses import Composition, Uses, check_all_uses
from dpcore.privacy import Privacy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcore.privacy import Relation


def compose(uses: Sequence[Uses] | Uses, delta: float, *, relation: Relation = "replace") -> Composition:
    """Return the least ε that adaptive uses of mechanisms have together at a total δ, under the best single rule.

    Parameters
    ----------
    uses : Uses or sequence of Uses
        What is used, in any order: every rule here holds for adaptive composition.
    delta : float
        Total failure mass δ, in [0, 1). At 0 only "basic" applies.
    relation : {"replace", "add_remove"}, default "replace"
        Relation of neighbours that all uses refer to. It becomes the relation of the result.

    Returns
    -------
    Composition
        Its `privacy` has a δ of at most `delta`, or less if the best rule needs less. Its ε is inf if no rule gives a finite one.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or has the wrong type.

    Notes
    -----
    The parameters of all uses must be fixed before the first of them. If an ε may depend on earlier answers, use a `Ledger`.

    Every rule that applies is evaluated, and each result is rounded up:

    - "basic": (Σε, Σδ); Private inference (chapter 9), Theorem 9.1.2;
    - "advanced": 1 − δ ≤ (1−δ')·Π(1−δ_i) and ε = Σ ε_i·tanh(ε_i/2) + √(2 ln(1/δ')·Σε_i²), never above
      Private inference (chapter 9), Theorem 9.1.3; Kairouz, Oh & Viswanath (2015), Theorem 3.5;
    - "optimal": the same theorem exactly: `optimal` if all (ε_i, δ_i) are equal, a double sum for two values of ε (with failures as for
      "advanced"). If there are more values, all but the largest count as the second largest;
    - "zcdp": Σρ_i, converted at the best order (`zcdp_epsilon`) with the δ that the Σδ_i leave;
    - "gaussian": several Gaussians are one with Σρ_i, whose δ is known exactly (`gaussian_delta`);
    - "gdp": the same for Gaussians beside ε_i-private uses, which count as Gaussians with μ_i = `mu_pure(ε_i)`.

    The best of several bounds on the same uses is a bound. No rule is applied to one part of the uses and another to the rest.

    Cost: some milliseconds; up to a second for more than 10^6 uses.

    Examples
    --------
    >>> compose(Uses("pure", uses=3, epsilon=0.5), 0.0)
    Composition(privacy=Privacy(epsilon=1.5, delta=0.0, relation='replace'), rule='basic')
    >>> many = compose(Uses("laplace", uses=1000, epsilon=0.05), 1e-6)
    >>> many.rule, round(many.privacy.epsilon, 2)
    ('optimal', 8.28)
    """
    from dpcore.accounting import _rules

    every, delta = check_all_uses(uses), check_delta("delta", delta)
    best = Composition(Privacy(math.inf, delta, relation), "basic")
    for rule in _rules.applicable(every):
        epsilon, used = rule.guarantee(delta)
        if epsilon < best.privacy.epsilon:
            best = Composition(Privacy(epsilon, used, relation), rule.name)
    return best


def epsilon_for_delta(uses: Sequence[Uses] | Uses, delta: float) -> float:
    """Return the least ε that uses have together at a total δ, under the best single rule. It is the ε of `compose`.

    Parameters
    ----------
    uses : Uses or sequence of Uses
        What is used.
    delta : float
        Total failure mass δ, in [0, 1).

    Returns
    -------
    float
        In [0, ∞], rounded up.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or has the wrong type.

    Notes
    -----
    Cost: as `compose`.

    Examples
    --------
    >>> epsilon_for_delta(Uses("pure", uses=4, epsilon=0.25), 0.0)
    1.0
    """
    return compose(uses, delta).privacy.epsilon


def delta_for_epsilon(uses: Sequence[Uses] | Uses, epsilon: float) -> float:
    """Return the least δ that uses have together at a total ε, under the best single rule.

    Parameters
    ----------
    uses : Uses or sequence of Uses
        What is used.
    epsilon : float
        Total privacy loss ε, in [0, ∞).

    Returns
    -------
    float
        In [0, 1], rounded up. The value 1 means that no rule gives a guarantee at this ε.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or has the wrong type.

    Notes
    -----
    Cost: as `compose`.

    Examples
    --------
    >>> delta_for_epsilon(Uses("pure", uses=4, epsilon=0.25), 1.0)
    0.0
    """
    from dpcore.accounting import _rules

    every, epsilon = check_all_uses(uses), check_nonnegative("epsilon", epsilon)
    return min([rule.delta(epsilon) for rule in _rules.applicable(every)], default=1.0)
