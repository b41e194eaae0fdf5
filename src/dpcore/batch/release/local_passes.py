"""The passes of one machine: over files or a frame, with what does not fit into memory in a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dpcore.batch.jobfile.sections import key_of
from dpcore.batch.release.key_counts import count_units
from dpcore.batch.release.totals import Totals
from dpcore.batch.tables.derivation import Derivation
from dpcore.batch.tables.pieces import Cut
from dpcore.batch.tables.pipeline import UNFINISHED, Pipeline
from dpcore.batch.tables.rows import piece_rows_for, read_rows
from dpcore.batch.tables.units import CHANGED, choose_rows
from dpcore.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    import pyarrow as pa

    from dpcore.batch.release.plan import ReleasePlan
    from dpcore.batch.release.statistics import Measure
    from dpcore.batch.tables.progress import Progress
    from dpcore.batch.tables.units import Kept

Found = TypeVar("Found")


class Room(Protocol):
    """Has a folder for what does not fit into memory."""

    @property
    def spill(self) -> Path:
        """The folder; it is made when it is needed."""


class LocalPasses:
    """The passes over an input that this process reads.

    Parameters
    ----------
    room : Room
        For what does not fit into memory.
    threads : int
        Threads that compute; one more reads.
    progress : Progress
        Shows the passes.
    piece_rows : int, optional
        Rows handled at a time.

    Attributes
    ----------
    threads : int
        As given.
    """

    def __init__(self, room: Room, threads: int, progress: Progress, piece_rows: int | None = None) -> None:
        self.threads = threads
        self._room, self._progress, self._piece_rows = room, progress, piece_rows
        self._kept: Kept | None = None

    def choose_rows(self, plan: ReleasePlan) -> None:
        """Choose them now, in a pass over the column of units, or under a test key over all columns; see `tables.units`."""
        self._progress.begin(f"choosing rows per {plan.job.privacy.unit!r}")
        grouping = plan.grouping if plan.job.privacy.max_groups_per_unit is not None else None
        key, spill = key_of(plan.job.testing), self._room.spill
        self._kept = choose_rows(plan, key, spill, self.threads, self._progress.update, grouping=grouping, by_value=plan.by_value)

    def count_units(self, plan: ReleasePlan, place: int, work: Callable[[Iterable[pa.RecordBatch]], Found]) -> Found:
        """Count them in a database."""
        return count_units(plan, place, self._kept, self._room.spill, self.threads, self._progress, work)

    def add_up(self, plan: ReleasePlan, measures: Sequence[Measure | None], stage: str) -> tuple[list[Any], int]:
        """Add up the rows that take part, in pieces that threads share."""
        self._progress.begin(stage)
        derivation = Derivation() if plan.derivations is None else plan.derivations.adding
        read = {*derivation.reads, *(name for measure in measures if measure is not None for name in measure.names)}
        types = {name: kind for name, kind in plan.read_types.items() if name in read} or plan.read_types
        most = min(self._piece_rows or piece_rows_for(types, is_counted=True), derivation.most_rows)
        source = read_rows(plan.inputs, types, Cut(most, use_threads=self.threads > 1))
        progress = self._progress
        with derivation.opened() as deriving:
            totals = Totals(plan, measures, self._kept, deriving, self._room.spill)
            pipeline = Pipeline(source, totals.of, totals.add, threads=self.threads)
            pipeline.run(lambda: progress.update(totals.rows, min(totals.done, UNFINISHED)))
        progress.update(totals.rows, 1.0)
        if self._kept is not None and totals.rows != self._kept.rows:
            raise StorageError(CHANGED)
        return totals.finished(self.threads), totals.rows
