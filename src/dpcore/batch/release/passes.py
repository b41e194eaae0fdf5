"""The passes over the rows of a release, on whatever engine runs them: what they find is exact, and not yet private.

Every engine finds the same: sums are integers, counts are of distinct values, and the rows of a unit are chosen by what they are. So the
driver of any engine draws the same noise on the same numbers, by the same code (`run.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from dpcore.batch.release.plan import ReleasePlan
    from dpcore.batch.release.statistics import Measure

Found = TypeVar("Found")


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

    def choose_rows(self, plan: ReleasePlan) -> None:
        """Let at most so many rows and groups of each unit take part in the passes that follow."""

    def count_units(self, plan: ReleasePlan, place: int, work: Callable[[Iterable[pa.RecordBatch]], Found]) -> Found:
        """What `work` makes of the keys of the query at a place, in order, with the number of distinct units of each: `key` and `n`."""

    def add_up(self, plan: ReleasePlan, measures: Sequence[Measure | None], stage: str) -> tuple[list[Any], int]:
        """What is measured for each query of the plan, if anything is, and the number of rows."""
