"""Parts of one draw: its elements are taken a few at a time, or apart from each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcore.rng import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpcore.rng import Stream, StreamPosition

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


class OfGroup:
    """The stream of one group: each draw begins where those of the same draws for other groups cannot reach.

    So all groups share the key and the nonce of a draw, and no random word.
    """

    def __init__(self, draws: Sequence[Draw], group: int) -> None:
        self._draws: Iterator[Draw] = iter(draws)
        self._secure, self._element = draws[0].secure, group * APART

    @property
    def secure(self) -> bool:
        """Whether the words are those of the secure source."""
        return self._secure

    def position(self) -> StreamPosition:
        """The position of the group in the next draw."""
        return next(self._draws).at(self._element).position()
