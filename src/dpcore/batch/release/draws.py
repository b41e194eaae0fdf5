"""Parts of one draw: its elements are taken a few at a time, or apart from each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcore.rng import StreamPosition, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpcore.rng import Stream

APART = 2**40
"""Elements between the draws for one group and those for the next: more than a choice among all cells takes, in every round."""


class Draw:
    """One draw of a stream, which can begin at any of its elements."""

    def __init__(self, rng: Stream | None) -> None:
        self._position = resolve(rng).position()

    @property
    def secure(self) -> bool:
        """Whether the words are those of the secure source."""
        return self._position.secure

    def at(self, element: int) -> At:
        """A stream whose only call begins at an element."""
        return At(self._position._replace(first_element=self._position.first_element + element))

    def of_groups(self, count: int) -> Iterator[StreamPosition]:
        """Where the draws for each of so many groups begin: where those for other groups cannot reach, so that no random word is shared."""
        key, nonce, first, secure = self._position
        for group in range(count):
            yield StreamPosition(key, nonce, first + group * APART, secure)


class At:
    """A stream with a fixed position."""

    def __init__(self, position: StreamPosition) -> None:
        self._position = position

    @property
    def secure(self) -> bool:
        """Whether the words are those of the secure source."""
        return self._position.secure

    def position(self) -> StreamPosition:
        """The position of the stream."""
        return self._position
