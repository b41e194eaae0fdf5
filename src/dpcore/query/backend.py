"""What the engine asks of that which reads the rows, this process or Spark. A backend implements `Passes`, and knows no kind of query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dpcore.query.estimators import Estimator
from dpcore.query.per_unit import UnitTable
from dpcore.query.reads import PrivateGrouping
from dpcore.query.statistics import WIDTH, Measure, wholes, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    import pyarrow as pa

    from dpcore.query.plan import ReleasePlan

Found = TypeVar("Found")
__all__ = ["WIDTH", "Estimator", "Measure", "Passes", "PrivateGrouping", "Room", "UnitTable", "wholes", "words_of"]


class Passes(Protocol):
    """What an engine does with the rows of a job.

    Attributes
    ----------
    threads : int
        Threads that draw noise.
    """

    @property
    def threads(self) -> int:
        """Threads that draw noise."""

    def make_rows(self, plan: ReleasePlan) -> ReleasePlan:
        """Make the rows of each unit that its queries are about, and those that are joined; the plan for these rows."""

    def choose_rows(self, plan: ReleasePlan) -> None:
        """Let at most so many rows and groups of each unit take part in the passes that follow."""

    def count_units(self, plan: ReleasePlan, place: int, work: Callable[[Iterable[pa.RecordBatch]], Found]) -> Found:
        """What `work` makes of the keys of the query at a place, in order, with the number of distinct units of each: `key` and `n`."""

    def add_up(self, plan: ReleasePlan, measures: Sequence[Measure | None], stage: str) -> tuple[list[Any], int]:
        """What is measured for each query of the plan, if anything is, and the number of rows."""


class Room(Protocol):
    """Has a folder for what does not fit into memory."""

    @property
    def spill(self) -> Path:
        """The folder; it is made when it is needed."""
