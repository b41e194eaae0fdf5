"""Sentences of pages and commands: whom the guarantee protects, and how to read an interval. `dpcore._guarantee` has the rest."""

from __future__ import annotations

from dpcore._guarantee import OWN_ROWS as OWN_ROWS  # noqa: PLC0414  part of the names of units
from dpcore._guarantee import guess, promise, whose_data
from dpcore.pages.numbers import counted, misses, percentage_of, rounded_up

NOT_SECURE = "NOT PRIVATE: the noise comes from the key in [testing]; anyone who knows the key can remove it (secure = false)."


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
    return whose_data(unit)


def unnamed(unit: str) -> str:
    """Describe what is protected of rows that name no unit, if they count as separate units."""
    if not unit.endswith(OWN_ROWS):
        return ""
    return f" For rows that name no {unit.removesuffix(OWN_ROWS)!r} it protects one row, and not the person behind it."


def odds_in_words(epsilon: float, delta: float, unit: str, *, presence: bool = False) -> str:
    """Describe the guarantee for somebody who guesses; empty if δ is not 0, since a factor alone would then claim too much.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee.
    unit : str
        "row", or the column that says whose data a row is.
    presence : bool, default False
        Whether neighbours differ by the presence of a unit and not by its data.
    """
    rest = "all other rows" if unit == "row" else f"the rows of every other {unit.removesuffix(OWN_ROWS)!r}"
    return guess(epsilon, delta, rest, "whether this one is in the table" if presence else "the data of this one")


def guarantee_shown(
    epsilon: float,
    delta: float,
    unit: str,
    *,
    rows_per_unit: int | None = None,
    protection: str | None = None,
    presence: bool = False,
    local: bool = False,
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
    local : bool, default False
        Whether each row was randomised by itself.
    """
    said = protection_in_words(delta, unit, rows_per_unit) if protection is None else protection
    relation = "add_remove" if presence else "replace"
    return {
        "epsilon": rounded_up(epsilon),
        "delta": rounded_up(delta),
        "protection": said[:1].upper() + said[1:],
        "factor": promise(epsilon, delta, relation=relation, unit=unit, local=local),
        "odds": odds_in_words(epsilon, delta, unit, presence=presence),
    }


def misses_in_words(confidences: list[float], *, at_most: bool = False) -> str:
    """Describe how many intervals of each confidence do not contain the true value."""
    about = "at most about" if at_most else "about"
    parts = [f"{about} {misses(confidence)} of the {percentage_of(confidence)} intervals" for confidence in confidences]
    listed = " and ".join(parts)
    verb = "does" if len(parts) == 1 else "do"
    return f"{listed[:1].upper()}{listed[1:]} {verb} not contain the true value. The results do not show which."
