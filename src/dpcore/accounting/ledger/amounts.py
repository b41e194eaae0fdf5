"""Exact decimal amounts of privacy loss, which ledgers add up without rounding."""

from __future__ import annotations

import math
import numbers
import re
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from typing import TYPE_CHECKING

from dpcore._dataclasses import dataclass
from dpcore._validation import NO_NUMBERS
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.privacy import as_written, written_down, written_up

if TYPE_CHECKING:
    from collections.abc import Callable

# The least float64 has 751 digits and a spend may count 10^18 uses: an amount that needs more than 2000 digits is not valid.
_DIGITS = Context(prec=2000, Emin=-(10**6), Emax=10**6, traps=[Inexact])
ZERO = Fraction(0)
_WRITTEN = re.compile(r"[0-9]{1,2001}(?:\.[0-9]{1,2001})?(?:[Ee][+-]?[0-9]{1,4})?", re.ASCII)
_SMALLEST = Decimal("1e-400")
"""Nearer to 0 than any other float64. Smaller numbers round as this one does."""


def read_number(name: str, value: object, rounded: Callable[[Fraction], float]) -> float:
    """Return a finite real number ≥ 0 as a float, else raise; `rounded` rounds numbers that float64 does not represent."""
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
    """Return a number as a fraction. A decimal far below the range of float64 may have billions of digits; `_SMALLEST` replaces it."""
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
    """An exact (ε, δ) and ρ. None stands for an unknown part. No part is negative, so that no amount increases a budget."""

    epsilon: Fraction | None
    delta: Fraction
    rho: Fraction | None

    @property
    def nothing(self) -> Amount:
        """Nothing of the parts that are known."""
        epsilon, rho = (None if part is None else ZERO for part in (self.epsilon, self.rho))
        return Amount(epsilon, ZERO, rho)

    def __post_init__(self) -> None:
        if self.delta < 0 or (self.epsilon or ZERO) < 0 or (self.rho or ZERO) < 0:
            raise ParameterError("amount must not be negative: a Privacy or Uses object was changed after it was checked")

    def __add__(self, other: Amount) -> Amount:
        return Amount(_sum(self.epsilon, other.epsilon), self.delta + other.delta, _sum(self.rho, other.rho))

    def texts(self) -> tuple[str | None, str, str | None]:
        """Write ε, δ and ρ with all their digits."""
        return _text(self.epsilon), _text(self.delta) or "0", _text(self.rho)

    def words(self, kind: str, *, up: bool = True) -> str:
        """Describe the parts that a ledger of this kind counts, rounded to float64."""
        rounded = written_up if up else written_down
        if kind == "gdp":
            return f"mu {mu_of(self.rho or ZERO, up=up)!r}, delta {rounded(self.delta)!r}"
        name, value = ("epsilon", self.epsilon) if kind == "basic" else ("rho", self.rho)
        return f"{name} {rounded(value or ZERO)!r}, delta {rounded(self.delta)!r}"


NOTHING = Amount(ZERO, ZERO, ZERO)


def _sum(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    return None if one is None or other is None else one + other


def rho_of_mu(mu: float) -> Fraction:
    """ρ = μ²/2 of a μ as it is written, exactly: Gaussian privacy adds up as these do."""
    return as_written(mu) ** 2 / 2


def mu_of(rho: Fraction, *, up: bool) -> float:
    """Return μ = √(2ρ) as the nearest float on one side that is written as such a number."""
    from dpcore._exact.intervals import LARGEST_FLOAT, Interval, sqrt

    above = sqrt(Interval.of(2 * rho, 128)).upper()
    if above == math.inf:
        return above if up else LARGEST_FLOAT
    mu = math.nextafter(above, math.inf)  # a float may be written as a number below itself
    while mu > 0 and rho_of_mu(math.nextafter(mu, 0.0)) >= rho:
        mu = math.nextafter(mu, 0.0)
    return mu if up or rho_of_mu(mu) == rho else max(math.nextafter(mu, 0.0), 0.0)


def _text(exact: Fraction | None) -> str | None:
    return None if exact is None else str(_DIGITS.divide(Decimal(exact.numerator), Decimal(exact.denominator)))


def amount_in_file(text: object) -> Fraction | None:
    """Parse one part of an amount. Raises ValueError for what is no number as `Amount.texts` writes it: bounded in length and exponent."""
    if text is None:
        return None
    if not isinstance(text, str) or not _WRITTEN.fullmatch(text):
        raise ValueError("an amount that no ledger has written")
    return Fraction(text)
