"""The guarantee of a mechanism."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from dpcore._dataclasses import dataclass
from dpcore._guarantee import sentences
from dpcore._validation import check_choice, check_real

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Privacy", "Relation"]

Relation = Literal["replace", "add_remove"]


@dataclass(frozen=True, slots=True)
class Privacy:
    r"""An (ε, δ) guarantee: P(M(x) ∈ A) ≤ e^ε P(M(x') ∈ A) + δ for all neighbours x, x' and events A.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, in [0, ∞]. A number that float64 does not hold is rounded up, as is δ, so that the guarantee stays true.
    delta : float, default 0.0
        Failure mass δ, in [0, 1).
    relation : {"replace", "add_remove"}, default "replace"
        Which data sets are neighbours: those that differ by the value of one record, or by its presence.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a value is outside its range or is not a number.

    Notes
    -----
    Source: Private inference (chapter 9), Definition 9.1.1; Steinberger (2019), Definition 1.1.

    Examples
    --------
    >>> Privacy(0.5, delta=1e-6)
    Privacy(epsilon=0.5, delta=1e-06, relation='replace')
    >>> Privacy(0.5).guarantee.partition(". ")[0]
    'Whatever one record says, these results would be at most 1.65 times as likely as with any other record in its place'
    """

    epsilon: float
    delta: float = 0.0
    relation: Relation = "replace"

    def __post_init__(self) -> None:
        epsilon = check_real("epsilon", self.epsilon, low=0.0, high=math.inf, rounding="up")
        delta = check_real("delta", self.delta, low=0.0, high=1.0, include_high=False, rounding="up")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)
        check_choice("relation", self.relation, ("replace", "add_remove"))

    @property
    def guarantee(self) -> str:
        """The guarantee in words, for a report or a publication."""
        return sentences(self.epsilon, self.delta, relation=self.relation)


class Guaranteed:
    """The base of everything that has a `privacy`: mechanisms, and their results."""

    __slots__ = ()

    LOCAL = False
    """Whether each person's report is protected by itself."""

    if TYPE_CHECKING:

        @property
        def privacy(self) -> Privacy:
            """What is guaranteed."""

    @property
    def guarantee(self) -> str:
        """The guarantee in words, for a report or a publication."""
        privacy = self.privacy
        return sentences(privacy.epsilon, privacy.delta, relation=privacy.relation, local=self.LOCAL)


class LocallyGuaranteed(Guaranteed):
    """The base of those about reports of single persons."""

    __slots__ = ()
    LOCAL = True


MOST_DELTA = 1 - 2.0**-53
"""The largest δ of a `Privacy`. A sum of 1 or more, which means no protection, becomes this; every budget has a smaller δ."""


def as_written(value: float) -> Fraction:
    """Read a float as its shortest decimal number: 0.1 is a tenth."""
    return Fraction(repr(float(value)))


def written_up(exact: Fraction) -> float:
    """Return the least float that is written as a number ≥ `exact`, infinite beyond float64."""
    try:
        value = float(exact)
    except OverflowError:
        return math.inf
    return value if as_written(value) >= exact else math.nextafter(value, math.inf)


def written_down(exact: Fraction) -> float:
    """Return the largest float that is written as a number ≤ `exact`; the largest of all beyond float64."""
    try:
        value = float(exact)
    except OverflowError:
        value = sys.float_info.max
    return value if as_written(value) <= exact else math.nextafter(value, -math.inf)


def written_sum(amounts: Iterable[float], times: int = 1) -> float:
    """Add up numbers as they are written, exactly, and round the sum up: 0.3 for 0.1 + 0.2.

    Jobs, ledgers and pages compute their totals here, so that no total is below what was spent, and no two totals differ.

    Parameters
    ----------
    amounts : iterable of float
        Finite numbers.
    times : int, default 1
        How often all of them are spent.
    """
    parts = [float(amount) for amount in amounts if amount]
    if times == 1 and len(parts) <= 1:
        return parts[0] if parts else 0.0
    return written_up(times * sum(map(as_written, parts), Fraction(0)))


def composed(parts: Iterable[Privacy], times: int = 1, relation: Relation = "replace") -> Privacy:
    """Compose the parts of one job, `times` times: Σε and Σδ by `written_sum`, for this relation."""
    spent = tuple(parts)
    delta = written_sum((part.delta for part in spent), times)
    return Privacy(written_sum((part.epsilon for part in spent), times), min(delta, MOST_DELTA), relation)


def left_of(limit: Privacy, parts: Iterable[Privacy]) -> Privacy:
    """The most that one part may spend beside these: `limit` less their sums, as numbers are written, rounded down."""
    spent = tuple(parts)
    epsilon, delta = (
        written_down(max(as_written(whole) - sum(map(as_written, taken), Fraction(0)), Fraction(0)))
        for whole, taken in (
            (limit.epsilon, [part.epsilon for part in spent]),
            (limit.delta, [part.delta for part in spent]),
        )
    )
    return Privacy(epsilon, delta, limit.relation)


def __dir__() -> list[str]:
    return __all__
