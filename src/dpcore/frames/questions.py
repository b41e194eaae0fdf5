"""The queries of tables as methods: their arguments are the keys of `[[query]]` in a job."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from dpcore.frames.averaging import Averaging
from dpcore.frames.counting import Counting

if TYPE_CHECKING:
    from dpcore.frames.results import TableResult


def methods() -> tuple[str, ...]:
    """Names of the methods that ask queries."""
    members = {**vars(Counting), **vars(Averaging)}
    return tuple(name for name, member in members.items() if inspect.isfunction(member) and not name.startswith("_"))


class Questions(Counting, Averaging, ABC):
    """The queries that a table answers."""

    @abstractmethod
    def _asked(self, entry: dict[str, Any]) -> TableResult:
        """The answer to a query."""
