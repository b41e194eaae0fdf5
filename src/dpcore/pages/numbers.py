"""Numbers, names and JSON as people read them."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._amounts import rounded_down as rounded_down  # noqa: PLC0414  for pages
from dpcore._amounts import rounded_up as rounded_up  # noqa: PLC0414
from dpcore._amounts import written as written  # noqa: PLC0414
from dpcore.pages.printable import json_escaped, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

WORDS = {0.8: "one in five", 0.9: "one in ten", 0.95: "one in twenty", 0.99: "one in a hundred", 0.999: "one in a thousand"}
MOST_DECIMALS = 12
MOST_DIGITS = 10
"""Digits of a number of the job; of more before the point it has an exponent."""
LONGEST = 1e15
"""A number beyond either is shown with an exponent."""


def plain_number(value: object, digits: int = 10) -> str:
    """A number of the job, rounded to so many digits; text as it is, true and false in lower case, nothing as a dash.

    Examples
    --------
    >>> plain_number(1234.5), plain_number(123456.789, 4), plain_number(0.000123456, 2)
    ('1,234.5', '123,500', '0.00012')
    """
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return plain_name(value)
    # Fewer digits are a matter of rounding, and bring no exponent with them.
    return written(value if digits >= MOST_DIGITS else float(f"{value:.{digits}g}"), f",.{max(digits, MOST_DIGITS)}g")


def plain_name(value: object) -> str:
    """A category or a group as the job has it. Codes are names: their thousands are not set apart."""
    return str(value).lower() if isinstance(value, bool) else printable(str(value))


def quoted(category: object) -> str:
    """A category inside a sentence: in quotes if it is text, since a category may be called "none"."""
    return f"“{plain_name(category)}”" if isinstance(category, str) else plain_name(category)


def plain_range(lower: float | None, upper: float | None) -> str:
    """The numbers from one to another."""
    return f"{plain_number(lower)} to {plain_number(upper)}"


def percentage_of(share: float, digits: int = 10) -> str:
    """A share or a probability in per cent, with so many digits at most."""
    return f"{written(100 * share, f',.{digits}g')} %"


def counted(number: int, one: str, several: str | None = None) -> str:
    """A number of things.

    Examples
    --------
    >>> counted(1, "row"), counted(2500, "row"), counted(2, "query", "queries")
    ('1 row', '2,500 rows', '2 queries')
    """
    return f"{written(number, ',')} {one if number == 1 else several or one + 's'}"


def readable(values: list[float], stderr: float, *, percent: bool) -> list[str]:
    """Write numbers with the digits that two digits of their standard error call for.

    Parameters
    ----------
    values : list of float
        Such as an estimate and the ends of its interval.
    stderr : float
        Their standard error; 0 gives six decimals.
    percent : bool
        Whether the values are shares that are shown in per cent.

    Returns
    -------
    list of str
        One text a value. Where the digits would be too many, all have the same exponent.
    """
    scale = 100.0 if percent else 1.0
    places = 1 - math.floor(math.log10(stderr * scale)) if stderr > 0 else 6
    largest = max(map(abs, values))
    if not percent and largest > 0 and (places > MOST_DECIMALS or largest >= LONGEST):
        return _with_exponent(values, math.floor(math.log10(largest)), places)
    decimals = min(max(places, 0), MOST_DECIMALS)
    unit = " %" if percent else ""
    return [written(_no_negative_zero(float(v) * scale, decimals), f",.{decimals}f") + unit for v in values]


def with_digits(values: Sequence[float], stderr: float | None) -> list[str]:
    """Write numbers with the digits that two digits of their standard error call for, but whole numbers as they are.

    Parameters
    ----------
    values : sequence of float
        A number that was released, then others such as the ends of its interval.
    stderr : float or None
        Its standard error.

    Returns
    -------
    list of str
        One text a value. Unless all of them are whole, only the first can be written as a whole number.

    Examples
    --------
    >>> with_digits([1234, 1200, 1268], 17.0), with_digits([1234, 1200.5, 1267.5], 17.0), with_digits([0.5, 0.123, 0.877], 0.19)
    (['1,234', '1,200', '1,268'], ['1,234', '1,200', '1,268'], ['0.50', '0.12', '0.88'])
    """
    numbers = readable([float(value) for value in values], float(stderr or 0.0), percent=False)
    whole = [float(value).is_integer() and abs(float(value)) < LONGEST for value in values]
    if all(whole):
        return [written(int(value), ",") for value in values]
    return [written(int(values[0]), ",") if whole[0] else numbers[0], *numbers[1:]]


def _with_exponent(values: list[float], exponent: int, places: int) -> list[str]:
    """Numbers as multiples of one power of ten, which makes the ends of an interval comparable at a glance."""
    decimals = min(max(places + exponent, 0), MOST_DECIMALS)
    # Decimals: the power itself may leave the range of float64.
    multiples = (float(Decimal(float(v)).scaleb(-exponent)) for v in values)
    return [f"{written(_no_negative_zero(multiple, decimals), f'.{decimals}f')}e{exponent:+03d}" for multiple in multiples]


def ends_of(lower: str, upper: str) -> str:
    """An interval whose ends are written out; a per cent sign is written only once, at the end.

    Examples
    --------
    >>> ends_of("1.80", "3.17"), ends_of("36.0 %", "39.0 %")
    ('1.80 to 3.17', '36.0 to 39.0 %')
    """
    shared = " %" if upper.endswith(" %") else ""
    return f"{lower.removesuffix(shared)} to {upper}"


def misses(confidence: float) -> str:
    """Describe how many of the intervals do not contain the true value."""
    known = next((words for level, words in WORDS.items() if math.isclose(level, confidence)), None)
    return known or f"one in {written(rounded(1 / (1 - confidence)), ',')}"


def rounded(value: float) -> int | float:
    """A number that is known roughly: with two digits if it is below 3, else without decimals."""
    return round(value) if value >= 3 else float(f"{value:.2g}")


def _no_negative_zero(value: float, decimals: int) -> float:
    return 0.0 if round(value, decimals) == 0 else value


def json_text(document: Any) -> str:
    """JSON without control characters: a line for each key, and each list or array on one line.

    Parameters
    ----------
    document : object
        What `json.dumps` takes. NumPy arrays may stand for lists.

    Raises
    ------
    ValueError
        If a number is not finite.
    """
    return json_escaped(_json(document, ""))


def _json(document: Any, indent: str) -> str:
    deeper = indent + "  "
    if isinstance(document, dict) and document:
        parts = [f"{deeper}{json.dumps(key, ensure_ascii=False)}: {_json(value, deeper)}" for key, value in document.items()]
        return "{\n" + ",\n".join(parts) + "\n" + indent + "}"
    if isinstance(document, list) and document and isinstance(document[0], dict):
        return "[\n" + ",\n".join(deeper + _json(item, deeper) for item in document) + "\n" + indent + "]"
    plain = document.tolist() if isinstance(document, np.ndarray) else document
    return json.dumps(plain, ensure_ascii=False, allow_nan=False)
