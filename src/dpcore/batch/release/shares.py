"""The ε of queries that have a weight: shares of what the other queries of a job leave, rounded down."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from dpcore.errors import BudgetError
from dpcore.privacy import as_written, written_down

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ZERO = Fraction(0)


def shares_of(limit: float, spent: Iterable[float], weights: Mapping[int, float]) -> dict[int, float]:
    """Divide what is left of a limit in proportion to weights.

    All numbers are read as they are written. The sum of what is spent and of the shares is at most the limit, exactly.

    Raises
    ------
    BudgetError
        If nothing is left, or a share is too small.
    """
    left = as_written(limit) - sum(map(as_written, spent), ZERO)
    if left <= 0:
        raise BudgetError(f"nothing is left of max_epsilon = {limit!r} for the queries with a weight")
    whole = sum(map(Fraction, weights.values()), ZERO)
    return {place: check_share(written_down(left * Fraction(weight) / whole)) for place, weight in weights.items()}


def check_share(epsilon: float) -> float:
    """Return the ε of a query, else raise `BudgetError`."""
    if epsilon <= 0:
        raise BudgetError("the share of a query with a weight is too small to be used; give it a larger weight, or the other queries less")
    return epsilon
