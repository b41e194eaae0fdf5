"""The exact statistics of rows: each query's, from any part of the rows, and added up over the parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore.batch.release.cells import read_column
from dpcore.batch.release.groups import GroupedAnswer, TalliesOfGroups
from dpcore.batch.release.people import OfWholeUnits
from dpcore.batch.tables.derivation import Passing
from dpcore.batch.tables.row_words import RowWords
from dpcore.batch.tables.whole_units import Gathered

if TYPE_CHECKING:
    from pathlib import Path

    from dpcore.batch.release.answers import Answer
    from dpcore.batch.release.plan import ReleasePlan
    from dpcore.batch.tables.derivation import Deriving
    from dpcore.batch.tables.row_words import ValueWords
    from dpcore.batch.tables.rows import Rows
    from dpcore.batch.tables.units import Kept


@dataclass(frozen=True, slots=True)
class Part:
    """The statistics of some rows."""

    tallies: list[Any]
    rows: int
    done: float


class Tallies:
    """The statistics of all rows so far."""

    def __init__(self, plan: ReleasePlan, kept: Kept | None, deriving: Deriving, spill: Path) -> None:
        self._plan, self._kept, self._deriving = plan, kept, deriving
        self._conditions = () if plan.derivations is None else plan.derivations.conditions
        self._names = tuple({name: None for answer in plan.answers for name in names_of(answer)})
        self._total = [self._begun(place, answer, spill) for place, answer in enumerate(plan.answers)]
        self._of_groups = TalliesOfGroups(plan.answers)
        self._words = {
            place: _words_for(plan, place)
            for place, answer in enumerate(plan.answers)
            if isinstance(answer, OfWholeUnits) and answer.draws_words
        }
        self.rows, self.done = 0, 0.0

    @property
    def total(self) -> list[Any]:
        """The statistic of each query, once all rows were added."""
        for place, tally in self._of_groups.merged().items():
            self._total[place] = tally
        return self._total

    def _begun(self, place: int, answer: Answer, spill: Path) -> Any:
        """The statistic of no rows; those of groups are kept apart."""
        if isinstance(answer, GroupedAnswer):
            return None
        if isinstance(answer, OfWholeUnits):
            return answer.gathering(spill / f"query-{place}")
        return answer.tally(0, [np.empty(0, np.int64)] * len(answer.reads))

    def of(self, rows: Rows) -> Part:
        """The statistics of some rows; every cell is checked, also of rows that their unit does not keep, but not of those filtered out."""
        n = len(rows.batch)
        kept = None if self._kept is None else self._kept.mask(rows.first, n)
        passing = Passing(self._deriving.of(rows), kept, self._conditions, self._names)
        tallies: list[Any] = []
        with self._of_groups.borrowed() as of_groups:
            groups = _GroupsOfRows()
            for place, answer in enumerate(self._plan.answers):
                part = passing.of(place)
                read = [read_column(part.rows, name, cells, curator=self._plan.curator) for name, cells in answer.reads]
                grouping = _grouping_of(answer)
                read += [] if grouping is None else [groups.of(grouping, part.rows)]
                read += [self._words_of(place, rows, part.rows, read)] if place in self._words else []
                if isinstance(answer, GroupedAnswer):
                    answer.add(of_groups[place], [part.taking_part(each) for each in read])
                elif isinstance(answer, OfWholeUnits) and not answer.of_kept_rows:
                    tallies.append(answer.tally(len(part.rows.batch), read))
                else:
                    tallies.append(answer.tally(part.n, [part.taking_part(each) for each in read]))
        return Part(tallies, n, rows.done)

    def _words_of(self, place: int, rows: Rows, some: Rows, read: list[Any]) -> Any:
        """The random words of some of the rows, of which this was read, by which the units of a query choose."""
        drawn = self._words[place]
        if isinstance(drawn, RowWords):
            words = drawn.of(rows).to_numpy()
            return words if some.taken is None else words[some.taken]
        _, values, *groups = read
        return drawn.of(some.batch, values if isinstance(values, np.ndarray) else None, *groups)

    def made(self, threads: int) -> list[Any]:
        """The statistics of all rows; those of whole units are made now."""
        return [total.made(threads) if isinstance(total, Gathered) else total for total in self.total]

    def add(self, part: Part) -> None:
        """Add those of further rows."""
        ungrouped = (place for place, answer in enumerate(self._plan.answers) if not isinstance(answer, GroupedAnswer))
        for place, tally in zip(ungrouped, part.tallies, strict=True):
            self._total[place] += tally  # in place, where the statistic is long
        self.rows += part.rows
        self.done = part.done


def _words_for(plan: ReleasePlan, place: int) -> RowWords | ValueWords:
    """The words by which the units of a query choose among their values."""
    if plan.by_value is None:
        return RowWords(None, place)
    position = place if plan.positions is None else plan.positions[place]
    return plan.by_value.values(position, plan.job.privacy.unit, str(plan.job.query[place].column))


def _grouping_of(answer: Answer) -> Any:
    """The groups of an answer, if it has some."""
    return answer.keyed_by


def names_of(answer: Answer) -> list[str]:
    """The columns that an answer needs."""
    grouping = _grouping_of(answer)
    return [*(name for name, _ in answer.reads), *(() if grouping is None else grouping.names)]


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
