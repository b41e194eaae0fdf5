"""What belongs to the process that made it: two copies of a count of what is spent could each spend all of it."""

from __future__ import annotations

import os
from typing import ClassVar, NoReturn

from dpcore.errors import BudgetError, ParameterTypeError

_forks = 0
"""Forks between the first process of this program and this one."""


def _note_fork() -> None:
    global _forks  # noqa: PLW0603
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def _process() -> tuple[int, int]:
    """The process that asks. Its number alone may be that of an ancestor: in a container of its own, or of one that has ended."""
    return os.getpid(), _forks


class OneProcess:
    """An object that counts in memory: forked children refuse to use it, and it is neither copied nor pickled.

    Attributes
    ----------
    WORDS : str
        Its name and what two of it would do, for messages.
    """

    WORDS: ClassVar[str]

    def __init__(self) -> None:
        self._made_in = _process()

    def refuse_elsewhere(self) -> None:
        """Raise `BudgetError` in any process but the one that made the object. No lock is taken: a child may have it locked for ever."""
        if _process() != self._made_in:
            raise BudgetError(f"{self.WORDS}; this is another process than the one that made it")

    def __reduce__(self) -> NoReturn:
        raise ParameterTypeError(f"{self.WORDS}; it must not be copied or pickled")
