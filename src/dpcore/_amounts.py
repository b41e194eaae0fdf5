"""Amounts of privacy as people read them. Rounded up: what was spent, and the factor that follows from it. Rounded down: what is left."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

LARGE = 2000.0
"""From this ε on the factor is written as a power of e."""
DIGITS = 50
"""Of e^ε. It is no decimal number unless ε is 0, so a number above the nearest one of so many digits is above it."""
NAMED = 15
"""A factor of more digits is a power of ten."""
LEAST = Decimal("0.0001")
"""A factor is above 1 by this or more, unless ε is 0."""


def written(value: float, form: str) -> str:
    """Format a number; everything that shows a number to people does it with this function.

    Parameters
    ----------
    value : float
        A finite number.
    form : str
        A format specification, such as ",.10g".

    Returns
    -------
    str
        With a minus sign in place of a hyphen. An exponent is written as in JSON and TOML.

    Examples
    --------
    >>> written(-1234.5, ",.1f"), written(1e-6, ",.10g")
    ('−1,234.5', '1e-06')
    """
    text = format(value, form)
    return "−" + text[1:] if text.startswith("-") else text


def rounded_up(value: float, digits: int = 10) -> str:
    """A privacy loss or a failure probability with so many digits at most. What is written is never less than the value."""
    return _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 10) -> str:
    """A budget, or what is left of one, with so many digits at most. What is written is never more than the value.

    Examples
    --------
    >>> rounded_up(0.12345678901), rounded_down(0.12345678909)
    ('0.1234567891', '0.123456789')
    """
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, rounding: str) -> str:
    return written(float(Context(prec=digits, rounding=rounding).create_decimal(repr(value))), f",.{digits}g")


def factor(epsilon: float) -> str:
    """e^ε as a number to read, rounded up because it is a bound.

    Parameters
    ----------
    epsilon : float
        In [0, ∞).

    Returns
    -------
    str
        With two digits behind 1, one decimal below 10, then whole numbers of at most three digits that count; large ones as a power of ten.

    Examples
    --------
    >>> factor(0.1), factor(1), factor(3.5), factor(10), factor(70)
    ('1.11', '2.8', '34', '22,100', '10^31')
    """
    if epsilon == 0:
        return "1"
    if epsilon >= LARGE:
        return f"e^{rounded_up(epsilon, 4)}"
    exact = Context(prec=DIGITS).next_plus(Decimal(epsilon).exp(Context(prec=DIGITS)))
    if exact.adjusted() >= NAMED:
        return f"10^{exact.adjusted() + 1}"
    if exact < 2:
        excess = exact - 1
        step = max(LEAST, Decimal(1).scaleb(excess.adjusted() - 1))
    else:
        step = Decimal("0.1") if exact < 10 else Decimal(1).scaleb(max(exact.adjusted() - 2, 0))
    return _plain((exact / step).to_integral_value(ROUND_CEILING) * step)


def share_after(epsilon: float) -> str:
    """The most that ε makes of a chance of 1 %, in per cent, rounded up: odds of 1 to 99 times e^ε."""
    if epsilon == 0:
        return "1"
    context = Context(prec=DIGITS)
    odds = context.next_plus(Decimal(min(float(epsilon), 99.0)).exp(context))
    percent = context.next_plus(context.divide(100 * odds, odds + 99))
    step = Decimal("0.1") if percent < 10 else Decimal(1)
    return _plain(min((percent / step).to_integral_value(ROUND_CEILING) * step, Decimal(100)))


def _plain(value: Decimal) -> str:
    text = f"{value:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
