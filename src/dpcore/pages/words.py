"""Sentences of pages and commands: the guarantee, whom it protects, and how to read an interval."""

from __future__ import annotations

import math

from dpcore.pages.numbers import counted, misses, percentage_of, rounded_up

OWN_ROWS = ", or one row without"
"""Part of the name of a job's unit if rows that name no unit count as separate units."""
NOT_SECURE = "NOT PRIVATE: the noise comes from the key in [testing]; anyone who knows the key can remove it (secure = false)."
LARGE = 14
"""From this ε on the factor is written as a power of e."""


def guarantee_in_words(epsilon: float, delta: float, unit: str, rows_per_unit: int | None = None) -> str:
    """Describe the privacy that is spent, and whom it protects."""
    return f"epsilon = {epsilon!r}, delta = {delta!r}: {protection_in_words(delta, unit, rows_per_unit)}"


def protection_in_words(delta: float, unit: str, rows_per_unit: int | None = None) -> str:
    """Whom the guarantee protects."""
    if unit == "row":
        more = " and k·e^((k−1)ε)·δ" if delta else ""
        return f"the guarantee protects one row; a person with k rows is protected at k·ε{more}."
    bound = f" with at most {counted(rows_per_unit, 'row')}" if rows_per_unit else ""
    return f"the guarantee protects {whose(unit)}{bound}.{unnamed(unit)}"


def whose(unit: str) -> str:
    """Whose data neighbouring tables differ in."""
    return "one row" if unit == "row" else f"one {unit.removesuffix(OWN_ROWS)!r}"


def unnamed(unit: str) -> str:
    """Describe what is protected of rows that name no unit, if they count as separate units."""
    if not unit.endswith(OWN_ROWS):
        return ""
    return f" For rows that name no {unit.removesuffix(OWN_ROWS)!r} it protects one row, and not the person behind it."


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
    who, times = whose(unit), _factor(epsilon)
    rest = f", plus a probability of {rounded_up(delta, 6)}" if delta else ""
    if presence:
        return (
            f"These results would be at most {times} times as likely with {who} in the table as without it, and the other way round{rest}."
        )
    return f"Whatever the data of {who}, these results would be at most {times} times as likely as with any other data in its place{rest}."


def odds_in_words(epsilon: float, delta: float, unit: str, *, presence: bool = False) -> str:
    """Describe the guarantee for somebody who guesses; empty if δ is not 0, since a factor alone would then claim too much.

    Parameters
    ----------
    epsilon, delta, unit, presence
        As for `factor_in_words`.
    """
    if delta:
        return ""
    rest = "all other rows" if unit == "row" else f"the rows of every other {unit.removesuffix(OWN_ROWS)!r}"
    guess = "whether this one is in the table" if presence else "the data of this one"
    return (
        f"Suppose that somebody knows {rest} and guesses {guess}. These results change the odds of the guess by a factor of at most "
        f"{_factor(epsilon)}. With ε = 0 they would not change at all; 0.69 more in ε doubles the factor."
    )


def _factor(epsilon: float) -> str:
    """e^ε, rounded up because it is a bound."""
    # The next float is above e^ε, since exp errs by less than a unit in the last place.
    factor = math.nextafter(math.exp(epsilon), math.inf) if 0 < epsilon < LARGE else 1.0
    if epsilon < 2:
        return f"{math.ceil(10 * factor) / 10:,.10g}"
    return f"{math.ceil(factor):,}" if epsilon < LARGE else f"e^{rounded_up(epsilon, 4)}"


def guarantee_shown(
    epsilon: float, delta: float, unit: str, *, rows_per_unit: int | None = None, protection: str | None = None, presence: bool = False
) -> dict[str, str]:
    """Return the texts of the card about the guarantee.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee.
    unit : str
        "row", or the column that says whose data a row is.
    rows_per_unit : int, optional
        How many rows a unit has at most.
    protection : str, optional
        Whom it protects, if the command says that in its own words.
    presence : bool, default False
        Whether neighbours differ by the presence of a unit and not by its data.
    """
    said = protection_in_words(delta, unit, rows_per_unit) if protection is None else protection
    return {
        "epsilon": rounded_up(epsilon),
        "delta": rounded_up(delta),
        "protection": said[:1].upper() + said[1:],
        "factor": factor_in_words(epsilon, delta, unit, presence=presence),
        "odds": odds_in_words(epsilon, delta, unit, presence=presence),
    }


def misses_in_words(confidences: list[float]) -> str:
    """Describe how many intervals of each confidence do not contain the true value."""
    parts = [f"about {misses(confidence)} of the {percentage_of(confidence)} intervals" for confidence in confidences]
    listed = " and ".join(parts)
    verb = "does" if len(parts) == 1 else "do"
    return f"{listed[:1].upper()}{listed[1:]} {verb} not contain the true value. The results do not show which."
