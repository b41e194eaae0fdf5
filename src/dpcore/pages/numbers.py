"""Numbers as people write them."""

from __future__ import annotations

import json
import math
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

import numpy as np

from dpcore.pages.printable import json_escaped, printable

WORDS = {0.8: "one in five", 0.9: "one in ten", 0.95: "one in twenty", 0.99: "one in a hundred", 0.999: "one in a thousand"}
MOST_DECIMALS = 12
LONGEST = 1e15
"""Beyond either, numbers are shown with an exponent."""


def plain_number(value: object) -> str:
    """A number of the job as a reader would write it; anything else as text, nothing as a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value).lower() if isinstance(value, bool) else printable(str(value))
    return f"{value:,.10g}"


def rounded_up(value: float, digits: int = 10) -> str:
    """A privacy loss or a failure probability with so many digits at most, never less than it is."""
    return f"{float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(value))):,.{digits}g}"


def readable(values: list[float], stderr: float, *, percent: bool) -> list[str]:
    """Numbers with the digits that two digits of the standard error call for; with a common exponent where they would be too many."""
    scale = 100.0 if percent else 1.0
    places = 1 - math.floor(math.log10(stderr * scale)) if stderr > 0 else 6
    largest = max(map(abs, values))
    if not percent and largest > 0 and (places > MOST_DECIMALS or largest >= LONGEST):
        numbers = _with_exponent(values, math.floor(math.log10(largest)), places)
    else:
        decimals = min(max(places, 0), MOST_DECIMALS)
        numbers = [f"{_no_negative_zero(float(v) * scale, decimals):,.{decimals}f}{' %' if percent else ''}" for v in values]
    return [number.replace("-", "−") for number in numbers]


def _with_exponent(values: list[float], exponent: int, places: int) -> list[str]:
    """Numbers as multiples of one power of ten, which makes the ends of an interval comparable at a glance."""
    decimals = min(max(places + exponent, 0), MOST_DECIMALS)
    # Decimals: the power itself may leave the range of float64.
    multiples = (float(Decimal(float(v)).scaleb(-exponent)) for v in values)
    return [f"{_no_negative_zero(multiple, decimals):.{decimals}f}e{exponent:+03d}" for multiple in multiples]


def misses(confidence: float) -> str:
    """How many intervals miss, in words."""
    known = next((words for level, words in WORDS.items() if math.isclose(level, confidence)), None)
    return known or f"one in {rounded(1 / (1 - confidence)):,}"


def rounded(value: float) -> int | float:
    """A number that is known roughly."""
    return round(value) if value >= 3 else float(f"{value:.2g}")


def _no_negative_zero(value: float, decimals: int) -> float:
    return 0.0 if round(value, decimals) == 0 else value


def json_text(document: Any) -> str:
    """JSON without control characters and with a line for each key, but lists and arrays on one line.

    An array becomes a list only for as long as it is written.
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
