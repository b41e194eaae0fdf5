"""What a ledger adds up: exact decimal amounts, and whether they fit into a budget."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from typing import TYPE_CHECKING

from dpcore._validation import NO_NUMBERS
from dpcore.accounting import _rules
from dpcore.accounting.concentrated import rho_pure
from dpcore.accounting.uses import Uses
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.privacy import Privacy, as_written, written_down, written_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore.privacy import Relation

# The least float64 has 751 digits and a use may count 10^18 times: what does not fit into 2000 digits is no amount of ours.
_DIGITS = Context(prec=2000, Emin=-(10**6), Emax=10**6, traps=[Inexact])
_ZERO = Fraction(0)
_SMALLEST = Decimal("1e-400")
"""Nearer to 0 than any other float64; what is smaller still rounds as it does."""


def read_number(name: str, value: object, rounded: Callable[[Fraction], float]) -> float:
    """Return a finite real number ≥ 0 as a float that is `rounded` where float64 does not hold the number, else raise."""
    if isinstance(value, NO_NUMBERS) or not isinstance(value, (numbers.Real, Decimal)):
        raise ParameterTypeError(f"{name} must be a real number, got {value!r} of type {type(value).__name__}")
    if isinstance(value, float):  # NumPy's float64 too
        number = float(value)
    else:
        try:
            number = rounded(_exactly(value))
        except (OverflowError, ValueError):  # infinite, NaN, or beyond float64
            raise ParameterError(f"{name} must be in [0.0, inf), got {value!r}") from None
    if not 0 <= number < math.inf:
        raise ParameterError(f"{name} must be in [0.0, inf), got {value!r}")
    return number


def _exactly(value: numbers.Real | Decimal) -> Fraction:
    """A number as a fraction. That of a decimal far below float64's range could have billions of digits: `_SMALLEST` rounds as it does."""
    if isinstance(value, numbers.Integral):
        return Fraction(int(value))
    if isinstance(value, Decimal) and value.is_finite() and value:
        if value.adjusted() > 400:
            raise OverflowError
        if value.adjusted() < _SMALLEST.adjusted():
            value = _SMALLEST.copy_sign(value)
    return Fraction(*value.as_integer_ratio())  # type: ignore[union-attr]


@dataclass(frozen=True, slots=True)
class Amount:
    """An exact (ε, δ) and ρ; None for what is not known, or does not count. Nothing is negative: no amount gives a budget back."""

    epsilon: Fraction | None
    delta: Fraction
    rho: Fraction | None

    def __post_init__(self) -> None:
        if self.delta < 0 or (self.epsilon or _ZERO) < 0 or (self.rho or _ZERO) < 0:
            raise ParameterError("amount must not be negative: a guarantee or a use was changed after it was checked")

    def __add__(self, other: Amount) -> Amount:
        return Amount(_sum(self.epsilon, other.epsilon), self.delta + other.delta, _sum(self.rho, other.rho))

    def texts(self) -> tuple[str | None, str, str | None]:
        """Write ε, δ and ρ with all their digits."""
        return _text(self.epsilon), _text(self.delta) or "0", _text(self.rho)

    def words(self, kind: str, *, up: bool = True) -> str:
        """Name what a ledger of this kind counts, rounded to float64."""
        rounded = written_up if up else written_down
        name, value = ("epsilon", self.epsilon) if kind == "basic" else ("rho", self.rho)
        return f"{name} {rounded(value or _ZERO)!r}, delta {rounded(self.delta)!r}"


NOTHING = Amount(_ZERO, _ZERO, _ZERO)


def _sum(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    return None if one is None or other is None else one + other


def _text(exact: Fraction | None) -> str | None:
    return None if exact is None else str(_DIGITS.divide(Decimal(exact.numerator), Decimal(exact.denominator)))


def amount_of(amount: object, kind: str, relation: Relation) -> Amount:
    """Read what a spend costs in a ledger of this kind, else raise; several together cost their sum."""
    if isinstance(amount, Privacy):
        return _amount_of_guarantee(amount, kind, relation)
    if isinstance(amount, Uses):
        return _amount_of_uses(amount, kind)
    if isinstance(amount, Sequence) and not isinstance(amount, (str, bytes)):
        if not amount:
            raise ParameterError("amount must have at least one part, got none")
        parts = [amount_of(part, kind, relation) for part in amount]
        return sum(parts[1:], parts[0])
    if isinstance(amount, NO_NUMBERS) or not isinstance(amount, (numbers.Real, Decimal)):
        raise ParameterTypeError(f"amount must be a Privacy, a Uses, a number rho, or a sequence of these, got {amount!r}")
    if kind != "zcdp":
        raise ParameterTypeError(f"amount must be a Privacy or Uses in a ledger of kind 'basic', which adds no rho, got {amount!r}")
    return Amount(None, _ZERO, as_written(read_number("amount", amount, written_up)))


def _amount_of_guarantee(amount: Privacy, kind: str, relation: Relation) -> Amount:
    if amount.relation != relation:
        raise ParameterError(f"amount must be for the ledger's relation, {relation!r}, got {amount.relation!r}")
    if amount.epsilon == math.inf:
        raise ParameterError("amount must have a finite epsilon, got inf")
    rho = Fraction(rho_pure(amount.epsilon)) if kind == "zcdp" else None
    return Amount(as_written(amount.epsilon), as_written(amount.delta), rho)


def _amount_of_uses(uses: Uses, kind: str) -> Amount:
    epsilon = None if uses.rho is not None else uses.uses * as_written(uses.epsilon)
    if kind == "zcdp":
        rho = as_written(uses.rho) if uses.rho is not None else Fraction(_rules.rho_of(uses))
        return Amount(epsilon, uses.uses * as_written(uses.delta), uses.uses * rho)
    if epsilon is None:
        raise ParameterError(f"amount must have an epsilon in a ledger of kind 'basic', and mechanism={uses.mechanism!r} has none")
    return Amount(epsilon, uses.uses * as_written(uses.delta), None)


def amount_in_file(text: str | None) -> Fraction | None:
    """Read an amount back; one that is none, or is negative, is a ValueError."""
    if text is None:
        return None
    exact = Fraction(text)
    if exact < 0:
        raise ValueError(text)
    return exact


def fits(total: Amount, budget: Amount, kind: str) -> bool:
    """Whether a total is within the budget. Both limits were fixed when the ledger was made, and neither is traded for the other."""
    wanted, most = (total.epsilon, budget.epsilon) if kind == "basic" else (total.rho, budget.rho)
    return (wanted or _ZERO) <= (most or _ZERO) and total.delta <= budget.delta


def rest(total: Amount, budget: Amount) -> Amount:
    """Give what is left of a budget; never below 0, should somebody else have written beyond it."""
    epsilon = None if budget.epsilon is None else max(budget.epsilon - (total.epsilon or _ZERO), _ZERO)
    rho = None if budget.rho is None else max(budget.rho - (total.rho or _ZERO), _ZERO)
    return Amount(epsilon, max(budget.delta - total.delta, _ZERO), rho)
