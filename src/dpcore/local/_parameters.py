"""Limits that the mechanisms of this package share."""

from __future__ import annotations

from dpcore._validation import check_integer, check_real
from dpcore.errors import ParameterError

EPSILON_LOW, EPSILON_HIGH = 2.0**-20, 700.0
"""Below, a report has almost no information; above, e^ε leaves the range of float64."""
MAX_CATEGORIES = 2**24
MAX_CHANNEL_ENTRIES = 2**26
MAX_ENUMERATED_OUTPUTS = 2**12


def check_epsilon(value: object) -> float:
    """Return ε as a float if a local randomiser can have it, else raise."""
    return check_real("epsilon", value, low=EPSILON_LOW, high=EPSILON_HIGH)


def check_categories(value: object) -> int:
    """Return the number of categories k as an int if it is in [2, 2^24], else raise."""
    return check_integer("k", value, low=2, high=MAX_CATEGORIES)


def check_channel_size(rows: int, columns: int) -> None:
    """Raise if a channel matrix would be too large to be useful."""
    if rows * columns > MAX_CHANNEL_ENTRIES:
        raise ParameterError(f"the channel matrix would have {rows} × {columns} entries; at most 2**26 = {MAX_CHANNEL_ENTRIES} are made")
