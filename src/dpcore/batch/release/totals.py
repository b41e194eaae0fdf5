"""What a pass over rows adds up: for each query its statistic, from any part of the rows."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore.batch.release.cells import read_column
from dpcore.batch.release.statistics import ReadRows
from dpcore.batch.tables.derivation import Passing
from dpcore.batch.tables.row_words import RowWords

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from dpcore.batch.release.plan import ReleasePlan
    from dpcore.batch.release.statistics import Measure
    from dpcore.batch.tables.derivation import Deriving, Part
    from dpcore.batch.tables.row_words import ValueWords
    from dpcore.batch.tables.rows import Rows
    from dpcore.batch.tables.units import Kept


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

    def _read(self, place: int, measure: Measure, rows: Rows, part: Part, groups: _GroupsOfRows) -> ReadRows:
        """What a query reads of some rows: of those that take part, or of all that pass its condition."""
        columns = [read_column(part.rows, name, cells, curator=self._plan.curator) for name, cells in measure.reads]
        codes = None if measure.grouping is None else groups.of(measure.grouping, part.rows)
        words = self._words_of(place, rows, part.rows, columns, codes) if place in self._words else None
        read = ReadRows(len(part.rows.batch), columns, codes, words)
        return read if measure.statistic.of_all_rows or part.kept is None else read.each(part.taking_part, part.n)

    def _words_of(self, place: int, rows: Rows, some: Rows, columns: list[Any], codes: Any) -> Any:
        """The random words of some of the rows, of which this was read, by which the units of a query choose."""
        drawn = self._words[place]
        if isinstance(drawn, RowWords):
            words = drawn.of(rows).to_numpy()
            return words if some.taken is None else words[some.taken]
        values = columns[1]
        return drawn.of(some.batch, values if isinstance(values, np.ndarray) else None, *([] if codes is None else [codes]))


def _words_for(plan: ReleasePlan, place: int) -> RowWords | ValueWords:
    """The words by which the units of a query choose among their values."""
    if plan.by_value is None:
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
