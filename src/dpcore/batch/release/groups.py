"""An answer for each of several declared groups of rows."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpcore.batch.release.answers import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from dpcore.batch.release.answers import Noise
    from dpcore.batch.release.cells import Cells
    from dpcore.batch.release.group_tallies import GroupTallies
    from dpcore.batch.release.grouping import Grouping
    from dpcore.batch.release.private_grouping import PrivateGrouping
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class GroupedAnswer(Answer):
    """The answers of a query to each group; a row of no declared group counts nowhere.

    Attributes
    ----------
    each : Answer
        The answer to one group, calibrated for all of them together.
    grouping : Grouping
        The groups.
    tallies : GroupTallies
        The statistics of all groups.
    """

    each: Answer
    grouping: Grouping | PrivateGrouping
    tallies: GroupTallies[Any]

    @property
    def section(self) -> Any:
        """The query of the job."""
        return self.each.section

    @property
    def keyed_by(self) -> Grouping | PrivateGrouping:
        """The groups."""
        return self.grouping

    @property
    def waits_for_bounds(self) -> bool:
        """Whether bounds are found before rows are added up."""
        return self.each.waits_for_bounds

    @property
    def fewest_cells(self) -> int:
        """Those of one group."""
        return self.each.fewest_cells

    @property
    def ways(self) -> tuple[tuple[str, str], ...]:
        """Those of each group."""
        return self.each.ways

    def of_groups(self, grouping: Grouping | PrivateGrouping) -> GroupedAnswer:
        """The same for groups whose keys are known now."""
        return replace(self, grouping=grouping)

    @property
    def reads(self) -> tuple[tuple[str, Cells], ...]:
        """The columns of each group's answer; `grouping` reads its own."""
        return self.each.reads

    @property
    def noise(self) -> tuple[Noise, ...]:
        """The noise for each group."""
        return self.each.noise

    @property
    def rho(self) -> float | None:
        """ρ of all groups together."""
        return self.each.rho

    def declared(self) -> dict[str, Any]:
        """The groups, and what the query declares."""
        return {**self.grouping.declared(), **self.each.declared()}

    def nothing(self) -> Any:
        """The statistics of no rows, to which rows are added in place."""
        return self.tallies.nothing(self.grouping.size)

    def add(self, tally: Any, read: list[Array]) -> None:
        """Add rows, given what `reads` read and the group of each."""
        *values, codes = read
        self.tallies.add(tally, codes, values)

    def tally(self, rows: int, read: list[Array]) -> Any:
        """The statistics of some rows, given what `reads` read and the group of each."""
        tally = self.nothing()
        if rows:
            self.add(tally, read)
        return tally

    def release(self, tally: Any, rng: Stream | None) -> dict[str, Any]:
        """For each key of an answer the list over groups."""
        return self.tallies.release(tally, rng)

    def expected_error(self, rows: int | None) -> float | None:  # noqa: ARG002
        """Standard error for one group, whose number of rows is not known."""
        return self.each.expected_error(None)


class TalliesOfGroups:
    """The statistics of groups, which can be many: each thread adds to one that no other has, and in the end they are added up.

    They are exact, so that it does not matter which rows each has.
    """

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._grouped = {place: answer for place, answer in enumerate(answers) if isinstance(answer, GroupedAnswer)}
        self._free: list[dict[int, Any]] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def borrowed(self) -> Iterator[dict[int, Any]]:
        """Statistics by the place of their query, for one thread."""
        with self._lock:
            mine = self._free.pop() if self._free else None
        if mine is None:
            mine = {place: answer.nothing() for place, answer in self._grouped.items()}
        yield mine
        with self._lock:
            self._free.append(mine)

    def merged(self) -> dict[int, Any]:
        """Those of all threads together."""
        while len(self._free) > 1:
            for place, tally in self._free.pop().items():
                self._free[0][place] += tally
        return self._free[0] if self._free else {place: answer.nothing() for place, answer in self._grouped.items()}
