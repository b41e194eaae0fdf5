"""What is said in words, the same wherever it is said: the guarantee, whom it protects, and that there is none."""

from __future__ import annotations

import math

from dpcore.pages.numbers import rounded_up

OWN_ROWS = ", or one row without"
"""What the unit of a job is called in addition if rows that name none are units of their own."""
NOT_SECURE = "NOT PRIVATE: the noise comes from the key in [testing]; whoever knows the key can remove it (secure = false)."


def guarantee_in_words(epsilon: float, delta: float, unit: str, rows_per_unit: int | None = None) -> str:
    """What is spent, and whom it protects."""
    spent = f"epsilon = {epsilon!r}, delta = {delta!r}"
    if unit == "row":
        return f"{spent}: the guarantee protects one row; a person with k rows is protected at k·ε."
    bound = f" with at most {rows_per_unit} rows" if rows_per_unit else ""
    return f"{spent}: the guarantee protects {whose(unit)}{bound}.{unnamed(unit)}"


def whose(unit: str) -> str:
    """Whose data neighbouring tables differ in."""
    return "one row" if unit == "row" else f"one {unit.removesuffix(OWN_ROWS)!r}"


def unnamed(unit: str) -> str:
    """What is protected of rows that name no unit, if they are units of their own."""
    if not unit.endswith(OWN_ROWS):
        return ""
    return f" Of rows that name no {unit.removesuffix(OWN_ROWS)!r} it protects one row, and not a person."


def factor_in_words(epsilon: float, delta: float, unit: str, *, presence: bool = False) -> str:
    """The guarantee without its symbols.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee.
    unit : str
        "row", or the column that says whose data a row is.
    presence : bool, default False
        Whether neighbours differ by the presence of a unit and not by its data.
    """
    who = whose(unit)
    # Rounded up: the factor is a bound. The next float is above e^ε, since exp errs by less than a unit in the last place.
    factor = math.nextafter(math.exp(epsilon), math.inf) if 0 < epsilon < 14 else 1.0
    if epsilon < 2:
        times = f"{math.ceil(10 * factor) / 10:,.10g}"
    else:
        times = f"{math.ceil(factor):,}" if epsilon < 14 else f"e^{rounded_up(epsilon, 4)}"
    rest = f", but for a probability of {rounded_up(delta, 6)}" if delta else ""
    if presence:
        other = "without it, and the other way round"
        return f"Whatever the data of {who} are, any output is at most {times} times as likely with it in the table as {other}{rest}."
    return f"Whatever the data of {who} were, any output is at most {times} times as likely as it would be with other data there{rest}."
