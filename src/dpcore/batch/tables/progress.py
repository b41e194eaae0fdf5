"""Whom a job tells how far it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Who wants to know how far the job is."""

    def begin(self, stage: str) -> None:
        """A stage begins: rates and times count from here."""

    def update(self, rows: int, fraction: float) -> None:
        """`rows` are done, and about `fraction` of the input is read."""


class Silent:
    """Nobody wants to know."""

    def begin(self, stage: str) -> None:
        """Say nothing."""

    def update(self, rows: int, fraction: float) -> None:
        """Say nothing."""
