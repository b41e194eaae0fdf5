"""The guarantee a mechanism carries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from dpcore._validation import check_choice, check_real

Relation = Literal["replace", "add_remove"]


@dataclass(frozen=True, slots=True)
class Privacy:
    r"""An (ε, δ) guarantee: P(M(x) ∈ A) ≤ e^ε P(M(x') ∈ A) + δ for all neighbours x, x' and events A.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, in [0, ∞].
    delta : float, default 0.0
        Failure mass δ, in [0, 1).
    relation : {"replace", "add_remove"}, default "replace"
        Which data sets are neighbours: those that differ by the value of one record, or by its presence.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a value is outside its range or is not a number.

    References
    ----------
    Document 004, Definition 9.1.1; document 000, Definition 1.1.
    """

    epsilon: float
    delta: float = 0.0
    relation: Relation = "replace"

    def __post_init__(self) -> None:
        epsilon = check_real("epsilon", self.epsilon, low=0.0, high=math.inf)
        delta = check_real("delta", self.delta, low=0.0, high=1.0, include_high=False)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)
        check_choice("relation", self.relation, ("replace", "add_remove"))
