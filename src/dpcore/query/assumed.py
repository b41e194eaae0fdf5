"""What somebody who plans assumes of data that nobody has looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from dpcore._dataclasses import dataclass
from dpcore._validation import check_real
from dpcore.errors import ParameterError, ParameterTypeError

LARGEST = 2.0**1000
MEANINGS = {
    "n": "rows of the table, or of each group",
    "mean": "the mean of the column",
    "variance": "the variance of the column, or for a covariance that of each",
}
"""What may be assumed."""


@dataclass(frozen=True, slots=True)
class Assumed:
    """Numbers that are assumed, by their names in `MEANINGS`.

    Attributes
    ----------
    numbers : mapping of str to float
        What is assumed.
    """

    numbers: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Any) -> Assumed:
        """What a caller gives: a mapping, or nothing."""
        if given is None:
            return cls()
        if not isinstance(given, Mapping):
            raise ParameterTypeError(f"assume must be a mapping such as {{'n': 10000}}, got {type(given).__name__}")
        for key in given:
            if key not in MEANINGS:
                known = "; ".join(f"{name}: {meaning}" for name, meaning in MEANINGS.items())
                raise ParameterError(f"assume has {key!r}, but what can be assumed is {known}")
        low = {"n": 1.0, "variance": 0.0}
        return cls({key: check_real(f"assume[{key!r}]", value, low=low.get(key, -LARGEST), high=LARGEST) for key, value in given.items()})

    def known(self, key: str) -> float:
        """One of the numbers; raises `ParameterError` if it is not assumed."""
        if key not in self.numbers:
            example = f"{key} = {10000 if key == 'n' else 1}"
            raise ParameterError(
                f"how far the answer may be off depends on {key}, {MEANINGS[key]}: assume one, such as {example}, from what you know about "
                "the subject; taken from the data it would be a leak"
            )
        return self.numbers[key]
