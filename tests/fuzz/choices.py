"""Decisions that follow from bytes: an input of a fuzzer as the script of what is done. Where the bytes end, each decision is the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Option = TypeVar("Option")
NUMBERS = (0, 1, -1, 2, 7, 255, 256, 2**15, 2**31 - 1, -(2**31), 2**31, 2**32, 2**40, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64)
"""Where types end."""


class Choices:
    """Decisions, one after the other.

    Parameters
    ----------
    data : bytes
        Each decision takes one or two of them.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def is_over(self) -> bool:
        """Whether no byte is left."""
        return self._at >= len(self._data)

    def taken(self, size: int) -> bytes:
        """The next bytes."""
        found = self._data[self._at : self._at + size]
        self._at += size
        return found

    def below(self, size: int) -> int:
        """A number from 0 on."""
        return int.from_bytes(self.taken(1 if size <= 256 else 2), "big") % max(size, 1)

    def of(self, options: Sequence[Option]) -> Option:
        """One of some things."""
        return options[self.below(len(options))]

    def number(self) -> int:
        """An integer: one of those where types end, or a small one."""
        chosen = self.below(2 * len(NUMBERS))
        return NUMBERS[chosen] if chosen < len(NUMBERS) else self.below(256)
