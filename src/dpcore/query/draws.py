"""The keyed streams of queries: which nonce each draw has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcore.query.query_sections import MAX_QUERIES

if TYPE_CHECKING:
    from dpcore.rng import Numbered, StreamPosition

DRAWS = MAX_QUERIES
"""Nonces between one draw of a query and its next."""


class QueryDraws:
    """The keyed stream of one query: its position in the job is the nonce of its first draw.

    Each further draw takes a separate nonce, that of the draw before plus `DRAWS`.
    """

    def __init__(self, key: Numbered, query: int) -> None:
        self._key, self._next = key, query

    @property
    def secure(self) -> bool:
        """Always False, of a committed key too: such streams are those of ChaCha20 on every processor."""
        return False

    def position(self) -> StreamPosition:
        """The position of the next draw."""
        nonce, self._next = self._next, self._next + DRAWS
        return self._key.at(nonce).position()
