"""The guarantee in words: the one place for the sentences that results, documents, pages and commands have about it."""

from __future__ import annotations

import math

from dpcore._amounts import factor, rounded_up, share_after

OWN_ROWS = ", or one row without"
"""Part of the name of a job's unit if rows that name no unit count as separate units."""
RECORD, ROW = "record", "row"
"""Units of a program, and of a job: everything else names a column."""
TINY = 1e-3
"""A δ above it is not called tiny."""


def sentences(
    epsilon: float,
    delta: float = 0.0,
    *,
    relation: str = "replace",
    unit: str = RECORD,
    local: bool = False,
    rho: float | None = None,
    mu: float | None = None,
) -> str:
    """State what is guaranteed, in words and then in numbers.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee.
    relation : {"replace", "add_remove"}, default "replace"
        Which data sets are neighbours.
    unit : str, default "record"
        "record", "row", or the column that says whose data a row is.
    local : bool, default False
        Whether each person's report is protected by itself.
    rho, mu : float, optional
        The amount of zero-concentrated or Gaussian privacy that the guarantee follows from.

    Examples
    --------
    >>> sentences(3.5, local=True).partition(". ")[0]
    'Whatever one person answered, these results would be at most 34 times as likely as with any other answer'
    """
    said = promise(epsilon, delta, relation=relation, unit=unit, local=local)
    amounts = f"ε = {amount(epsilon)}" + (f" and δ = {rounded_up(delta)}" if delta else "")
    if local and unit in {RECORD, ROW}:
        numbers = f"This is local differential privacy with {amounts} for each report; k reports of one person together have k times that."
    else:
        change = "the presence" if relation == "add_remove" else "the value"
        whose = f"{change} of one {unit}" if unit in {RECORD, ROW} else f"{change} of the rows of {whose_data(unit)}"
        numbers = f"This is differential privacy with {amounts} for data sets that differ by {whose}."
    for symbol, name, value in (("ρ", "zero-concentrated", rho), ("μ", "Gaussian", mu)):
        if value is not None:
            numbers += f" It follows from {symbol} = {rounded_up(value)}, in terms of {name} differential privacy."
    return f"{said} {numbers}"


def amount(epsilon: float, digits: int = 10) -> str:
    """An ε as it is shown."""
    return "∞" if math.isinf(epsilon) else rounded_up(epsilon, digits)


def promise(epsilon: float, delta: float = 0.0, *, relation: str = "replace", unit: str = RECORD, local: bool = False) -> str:
    """State what is guaranteed, without symbols other than δ.

    Parameters
    ----------
    epsilon, delta, relation, unit, local
        As for `sentences`.
    """
    if math.isinf(epsilon):
        return "These results carry no promise: with ε = ∞ they may show everything."
    any_value, other = _alternatives(relation, unit, local=local)
    times = "just as likely" if epsilon == 0 else f"at most {factor(epsilon)} times as likely"
    said = f"{any_value}, these results would be {times} as {other}."
    if not delta:
        return said
    small = "a tiny probability" if delta <= TINY else "the probability"
    return f"{said} δ = {rounded_up(delta, 6)} is {small} with which {'this' if epsilon == 0 else 'the ε'} promise may fail."


def _alternatives(relation: str, unit: str, *, local: bool) -> tuple[str, str]:
    """What may be otherwise in neighbouring data, and the other case."""
    if unit not in {RECORD, ROW}:
        whose = whose_data(unit)
        if relation == "add_remove":
            return f"Whether or not the rows of {whose} are in the data", "in the other case"
        return f"Whatever the rows of {whose} say", "with any other rows in their place"
    if relation == "add_remove":
        return f"Whether or not one {unit} is in the data", "in the other case"
    if local:
        return f"Whatever one person answered{' in one row' if unit == ROW else ''}", "with any other answer"
    return f"Whatever one {unit} says", f"with any other {unit} in its place"


def whose_data(unit: str) -> str:
    """Whose data neighbouring tables differ in."""
    return f"one {unit}" if unit in {RECORD, ROW} else f"one {unit.removesuffix(OWN_ROWS)!r}"


def guess(epsilon: float, delta: float, others: str, what: str) -> str:
    """Describe the guarantee for somebody who guesses; empty if δ is not 0, since a factor alone would then claim too much.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee.
    others, what : str
        What is known, and what is guessed.
    """
    if delta or math.isinf(epsilon):
        return ""
    return (
        f"Suppose that somebody knows {others} and guesses {what}. These results change the odds of the guess by a factor of at most "
        f"{factor(epsilon)}. A guess that had a chance of 1 % before has one of at most {share_after(epsilon)} % after."
    )
