"""The passes of one machine: over files or a frame, with what does not fit into memory in a folder."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.errors import StorageError
from dpcore.query.encoders import read_column
from dpcore.query.statistics import ReadRows
from dpcore.tables.pieces import Cut
from dpcore.tables.pipeline import UNFINISHED, Pipeline
from dpcore.tables.rows import piece_rows_for, read_rows
from dpcore.tables.sql.derivation import Derivation, Passing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from dpcore.query.backend import Room
    from dpcore.query.key_counts import Found
    from dpcore.query.plan import ReleasePlan
    from dpcore.query.statistics import Measure
    from dpcore.tables.inputs import Inputs
    from dpcore.tables.progress import Progress
    from dpcore.tables.rows import Rows
    from dpcore.tables.sql.derivation import Deriving, SelectedRows
    from dpcore.tables.units.row_random_bits import RowWords, ValueWords
    from dpcore.tables.units.unit_joins import UnitJoin
    from dpcore.tables.units.unit_rows import MadeRows, UnitRecipe
    from dpcore.tables.units.units import Kept

FEW_ROWS = 1 << 14
"""So many rows are added up sooner than threads begin."""


@dataclass(frozen=True, slots=True)
class Selected:
    """What is left to be added of some rows: for statistics that are added up in order."""

    parts: dict[int, Any]
    rows: int
    done: float


class Totals:
    """The totals of all rows so far.

    Parameters
    ----------
    plan : ReleasePlan
        The job.
    measures : sequence of Measure or None
        What is computed for each query; None where nothing is.
    kept : Kept or None
        The rows that units keep; None for all.
    deriving : Deriving
        Derives columns and conditions.
    spill : Path
        Folder for what does not fit into memory.
    """

    def __init__(self, plan: ReleasePlan, measures: Sequence[Measure | None], kept: Kept | None, deriving: Deriving, spill: Path) -> None:
        self._plan, self._kept, self._deriving = plan, kept, deriving
        self._conditions = () if plan.derivations is None else plan.derivations.conditions
        self._measures = {place: measure for place, measure in enumerate(measures) if measure is not None}
        self._names = tuple({name: None for measure in self._measures.values() for name in measure.names})
        self._in_order = {
            place: measure.statistic.zero(spill / f"query-{place}")
            for place, measure in self._measures.items()
            if measure.statistic.in_order
        }
        self._in_any_order = _OfThreads({place: measure for place, measure in self._measures.items() if place not in self._in_order}, spill)
        self._words = {place: _words_for(plan, place) for place, measure in self._measures.items() if measure.statistic.draws_words}
        self._count = len(measures)
        self.rows, self.done = 0, 0.0

    def of(self, rows: Rows) -> Selected:
        """Add some rows, but for what has an order. Cells of rows that their unit drops are checked too, but not of those filtered out."""
        n = len(rows.batch)
        kept = None if self._kept is None else self._kept.mask(rows.first, n)
        passing = Passing(self._deriving.of(rows), kept, self._conditions, self._names)
        parts: dict[int, Any] = {}
        with self._in_any_order.borrowed() as totals:
            groups = _GroupsOfRows()
            for place, measure in self._measures.items():
                statistic = measure.statistic
                selected = statistic.select(self._read(place, measure, rows, passing.of(place), groups))
                if statistic.in_order:
                    parts[place] = selected
                else:
                    statistic.add(totals[place], selected)
        return Selected(parts, n, rows.done)

    def add(self, selected: Selected) -> None:
        """Add what has an order."""
        for place, part in selected.parts.items():
            self._measures[place].statistic.add(self._in_order[place], part)
        self.rows += selected.rows
        self.done = selected.done

    def finished(self, threads: int) -> list[Any]:
        """The statistic of each query, once all rows were added; None where nothing is computed."""
        totals = {**self._in_any_order.merged(), **self._in_order}
        finished = {place: measure.statistic.finish(totals[place], threads) for place, measure in self._measures.items()}
        return [finished.get(place) for place in range(self._count)]

    def _read(self, place: int, measure: Measure, rows: Rows, part: SelectedRows, groups: _GroupsOfRows) -> ReadRows:
        """What a query reads of some rows: of those that take part, or of all that pass its condition."""
        columns = [read_column(part.rows, name, cells, curator=self._plan.curator) for name, cells in measure.reads]
        codes = None if measure.grouping is None else groups.of(measure.grouping, part.rows)
        words = self._words_of(place, rows, part.rows, columns, codes) if place in self._words else None
        read = ReadRows(len(part.rows.batch), columns, codes, words)
        return read if measure.statistic.of_all_rows or part.kept is None else read.each(part.taking_part, part.n)

    def _words_of(self, place: int, rows: Rows, some: Rows, columns: list[Any], codes: Any) -> Any:
        """The random words of some of the rows, of which this was read, by which the units of a query choose."""
        drawn: Any = self._words[place]
        if self._plan.by_value is None:
            words = drawn.of(rows).to_numpy()
            return words if some.taken is None else words[some.taken]
        values = columns[1]
        return drawn.of(some.batch, values if isinstance(values, np.ndarray) else None, *([] if codes is None else [codes]))


def _words_for(plan: ReleasePlan, place: int) -> RowWords | ValueWords:
    """The words by which the units of a query choose among their values."""
    if plan.by_value is None:
        from dpcore.tables.units.row_random_bits import RowWords

        return RowWords(None, place)
    position = place if plan.positions is None else plan.positions[place]
    return plan.by_value.values(position, plan.job.privacy.unit, str(plan.job.query[place].column))


class _OfThreads:
    """Totals that can be large: each thread adds to those that no other has, and in the end they are added up."""

    def __init__(self, measures: Mapping[int, Measure], spill: Path) -> None:
        self._measures, self._spill = measures, spill
        self._free: list[dict[int, Any]] = []
        self._lock = threading.Lock()

    def _zero(self) -> dict[int, Any]:
        return {place: measure.statistic.zero(self._spill) for place, measure in self._measures.items()}

    @contextlib.contextmanager
    def borrowed(self) -> Iterator[dict[int, Any]]:
        """Totals by the place of their query, for one thread."""
        with self._lock:
            mine = self._free.pop() if self._free else None
        if mine is None:
            mine = self._zero()
        yield mine
        with self._lock:
            self._free.append(mine)

    def merged(self) -> dict[int, Any]:
        """Those of all threads together."""
        while len(self._free) > 1:
            for place, total in self._free.pop().items():
                self._free[0][place] += total
        return self._free[0] if self._free else self._zero()


class _GroupsOfRows:
    """The groups of rows, which are looked up once for all queries with the same groups of the same rows."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Any] = {}

    def of(self, grouping: Any, rows: Rows) -> Any:
        """The group of each row."""
        key = id(grouping), id(rows)
        if key not in self._known:
            self._known[key] = grouping.codes(rows.batch)
        return self._known[key]


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
        self._held: tuple[Inputs, Inputs] | None = None

    def make_rows(self, plan: ReleasePlan) -> ReleasePlan:
        """Make them now, in one pass over each table."""
        plan = plan.with_joins(self._joined)
        if plan.recipe is None:
            return plan
        table: Any = plan.inputs
        return replace(plan, inputs=replace(table, made=self._made(table.source, table.recipe)))

    def _holding(self, plan: ReleasePlan) -> ReleasePlan:
        """The plan with an input that a pass leaves in memory for the next, if there is one and the files are small."""
        if self._held is None or self._held[0] is not plan.inputs:
            unit = {} if plan.unit_type is None else {plan.job.privacy.unit: plan.unit_type}
            again = plan.reads_again and (not unit or plan.job.chooses_rows)
            self._held = plan.inputs, _held_inputs(plan.inputs, plan.read_types | unit) if again else plan.inputs
        return replace(plan, inputs=self._held[1])

    def _joined(self, join: UnitJoin) -> UnitJoin:
        return join.holding(self._made(join.source, join.recipe))

    def _made(self, source: Inputs, recipe: UnitRecipe) -> MadeRows:
        from dpcore.tables.units.unit_rows import make_rows

        self._progress.begin(recipe.words)
        return make_rows(source, recipe, self._room.spill, self.threads, self._progress.update, self._piece_rows)

    def choose_rows(self, plan: ReleasePlan) -> None:
        """Choose them now, in a pass over the column of units, or under a key that is kept over all columns; see `tables.units`."""
        from dpcore.tables.units.units import choose_rows, choosing_words

        self._progress.begin(choosing_words(plan))
        plan = self._holding(plan)
        grouping = plan.grouping if plan.job.privacy.max_groups_per_unit is not None else None
        self._kept = choose_rows(
            plan, plan.key, self._room.spill, self.threads, self._progress.update, grouping=grouping, by_value=plan.by_value
        )

    def count_units(self, plan: ReleasePlan, place: int, work: Callable[[Iterable[pa.RecordBatch]], Found]) -> Found:
        """Count them in a database."""
        from dpcore.query.key_counts import count_units

        return count_units(self._holding(plan), place, self._kept, self._room.spill, self.threads, self._progress, work)

    def add_up(self, plan: ReleasePlan, measures: Sequence[Measure | None], stage: str) -> tuple[list[Any], int]:
        """Add up the rows that take part, in pieces that threads share."""
        self._progress.begin(stage)
        plan = self._holding(plan)
        derivation = Derivation() if plan.derivations is None else plan.derivations.adding
        read = {*derivation.reads, *(name for measure in measures if measure is not None for name in measure.names)}
        types = {name: kind for name, kind in plan.read_types.items() if name in read} or plan.read_types
        most = min(self._piece_rows or piece_rows_for(types, is_counted=True), derivation.most_rows)
        source = read_rows(plan.inputs, types, Cut(most, use_threads=self.threads > 1))
        progress = self._progress
        with derivation.opened() as deriving:
            totals = Totals(plan, measures, self._kept, deriving, self._room.spill)
            if plan.rows is not None and plan.rows <= FEW_ROWS:
                for piece in source:
                    totals.add(totals.of(piece))
            else:
                pipeline = Pipeline(source, totals.of, totals.add, threads=self.threads)
                pipeline.run(lambda: progress.update(totals.rows, min(totals.done, UNFINISHED)))
        progress.update(totals.rows, 1.0)
        if self._kept is not None and totals.rows != self._kept.rows:
            from dpcore.tables.units.units import CHANGED

            raise StorageError(CHANGED)
        return totals.finished(self.threads), totals.rows


def _held_inputs(inputs: Inputs, types: Mapping[str, pa.DataType]) -> Inputs:
    from dpcore.tables.held import HeldInputs  # which a frame does without

    return HeldInputs.of(inputs, types)
