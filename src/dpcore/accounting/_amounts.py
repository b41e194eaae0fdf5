"""What a ledger adds up: exact decimal amounts, and whether they fit into a budget."""

from __future__ import annotations

import errno
import math
import numbers
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from typing import TYPE_CHECKING

from dpcore import _calibration
from dpcore._intervals import fraction_up
from dpcore.accounting import _rules
from dpcore.accounting._checks import check_nonnegative
from dpcore.accounting.concentrated import rho_pure
from dpcore.accounting.uses import Uses
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.privacy import Privacy, as_written, written_down, written_up

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from pathlib import Path

    from dpcore.privacy import Relation

# The least float64 has 751 digits and a use may count 10^18 times: what does not fit into 2000 digits is no amount of ours.
_DIGITS = Context(prec=2000, Emin=-(10**6), Emax=10**6, traps=[Inexact])


@dataclass(frozen=True, slots=True)
class Amount:
    """An exact (ε, δ) and ρ; None for what is not known."""

    epsilon: Fraction | None
    delta: Fraction
    rho: Fraction | None

    def __add__(self, other: Amount) -> Amount:
        return Amount(_sum(self.epsilon, other.epsilon), self.delta + other.delta, _sum(self.rho, other.rho))

    def texts(self) -> tuple[str | None, str, str | None]:
        """Write ε, δ and ρ with all their digits."""
        return _text(self.epsilon), _text(self.delta) or "0", _text(self.rho)

    def __str__(self) -> str:
        if self.rho is None:
            return f"epsilon {written_up(self.epsilon or Fraction(0))!r}, delta {written_up(self.delta)!r}"
        return f"rho {written_up(self.rho)!r}" + (f", delta {written_up(self.delta)!r}" if self.delta else "")


def _sum(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    return None if one is None or other is None else one + other


def _text(exact: Fraction | None) -> str | None:
    return None if exact is None else str(_DIGITS.divide(Decimal(exact.numerator), Decimal(exact.denominator)))


def amount_of(amount: object, accounting: str, relation: Relation) -> Amount:
    """Read what a spend costs in a ledger of this accounting, else raise."""
    if isinstance(amount, Privacy):
        if amount.relation != relation:
            raise ParameterError(f"amount must be for the budget's relation, {relation!r}, got {amount.relation!r}")
        if amount.epsilon == math.inf:
            raise ParameterError("amount must have a finite epsilon, got inf")
        rho = Fraction(rho_pure(amount.epsilon)) if accounting == "zcdp" else None
        return Amount(as_written(amount.epsilon), as_written(amount.delta), rho)
    if isinstance(amount, Uses):
        return _amount_of_uses(amount, accounting)
    if isinstance(amount, (bool, str)) or not isinstance(amount, numbers.Real):
        raise ParameterTypeError(f"amount must be a Privacy, a Uses or a number rho, got {amount!r}")
    if accounting != "zcdp":
        raise ParameterTypeError(f"amount must be a Privacy in a ledger with accounting='basic', which adds no rho, got {amount!r}")
    return Amount(None, Fraction(0), as_written(check_nonnegative("amount", amount)))


def _amount_of_uses(uses: Uses, accounting: str) -> Amount:
    epsilon = None if uses.rho is not None else uses.k * as_written(uses.epsilon)
    if accounting == "zcdp":
        rho = as_written(uses.rho) if uses.rho is not None else Fraction(_rules.rho_of(uses))
        return Amount(epsilon, uses.k * as_written(uses.delta), uses.k * rho)
    if epsilon is None:
        raise ParameterError(f"amount must have an epsilon in a ledger with accounting='basic', and mechanism={uses.mechanism!r} has none")
    return Amount(epsilon, uses.k * as_written(uses.delta), None)


def total(connection: sqlite3.Connection, path: Path, accounting: str) -> Amount:
    """Add up all spends of a ledger."""
    epsilon, delta, rho = Fraction(0), Fraction(0), Fraction(0)
    query = "SELECT epsilon, delta, rho, count(*) FROM spend GROUP BY epsilon, delta, rho"
    try:
        for row in connection.execute(query):
            delta += row[3] * amount_in_file(row[1])
            if accounting == "zcdp":
                rho += row[3] * amount_in_file(row[2])
            else:
                epsilon += row[3] * amount_in_file(row[0])
    except (ArithmeticError, ValueError, TypeError) as error:
        raise damaged(path) from error
    return Amount(None, delta, rho) if accounting == "zcdp" else Amount(epsilon, delta, None)


def amount_in_file(text: str) -> Fraction:
    """Read an amount back; one that is none, or is negative, is a ValueError."""
    exact = Fraction(text)
    if exact < 0:
        raise ValueError(text)
    return exact


def damaged(path: Path) -> OSError:
    """Make the error for amounts that no dpcore wrote."""
    return OSError(errno.EIO, "the ledger is damaged: it holds amounts that are no numbers", str(path))


def fits(amount: Amount, budget: Privacy) -> bool:
    """Whether a total is within the budget: exactly for sums, by the certified conversion for ρ."""
    usable = as_written(budget.delta) - amount.delta
    if amount.rho is None:
        return usable >= 0 and (amount.epsilon or Fraction(0)) <= as_written(budget.epsilon)
    if not amount.rho:
        return usable >= 0
    rho = fraction_up(amount.rho)
    return usable > 0 and rho < math.inf and _calibration.zcdp_delta(rho, budget.epsilon) <= usable


def left(amount: Amount, budget: Privacy) -> str:
    """Say what is left, in the units that the ledger adds."""
    if amount.rho is not None:
        return f"rho {remaining_rho(amount, budget):.6g}"
    rest = remaining(amount, budget)
    return f"epsilon {rest.epsilon!r}, delta {rest.delta!r}"


def spent(amount: Amount, budget: Privacy) -> Privacy:
    """Give a total as a guarantee."""
    if amount.rho is None:
        return Privacy(written_up(amount.epsilon or Fraction(0)), written_up(amount.delta), budget.relation)
    if not amount.rho:
        return Privacy(0.0, written_up(amount.delta), budget.relation)
    usable = written_down(as_written(budget.delta) - amount.delta)
    epsilon = _calibration.zcdp_epsilon(fraction_up(amount.rho), usable) if usable > 0 else math.inf
    if fits(amount, budget):
        epsilon = min(epsilon, budget.epsilon)  # the conversion to δ has shown it; the one to ε is rounded elsewhere
    return Privacy(epsilon, budget.delta, budget.relation)


def remaining(amount: Amount, budget: Privacy) -> Privacy:
    """Give the largest guarantee that one more spend may have."""
    if amount.rho is not None:
        more = _largest(lambda epsilon: fits(amount + Amount(None, Fraction(0), Fraction(rho_pure(epsilon))), budget))
        return Privacy(more, 0.0, budget.relation)
    epsilon, delta = as_written(budget.epsilon) - (amount.epsilon or Fraction(0)), as_written(budget.delta) - amount.delta
    return Privacy(max(written_down(epsilon), 0.0), max(written_down(delta), 0.0), budget.relation)  # below 0: not spent by us


def remaining_rho(amount: Amount, budget: Privacy) -> float:
    """Give the largest ρ that one more spend may have."""
    return _largest(lambda rho: fits(amount + Amount(None, Fraction(0), as_written(rho)), budget))


def _largest(fitting: Callable[[float], bool]) -> float:
    """Find the largest number that fits, within 10^−9 of it; 0 if none down to 10^−12 does."""
    low, high = 0.0, 1e-12
    while fitting(high):
        low, high = high, 2 * high
    while low and high - low > 1e-10 * high:
        middle = low + (high - low) / 2
        low, high = (middle, high) if fitting(middle) else (low, middle)
    return low
