"""A question about a table: the rows, columns and groups that it is about, and its query."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from dpcore._dataclasses import dataclass
from dpcore.errors import JobError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dpcore.frames.source import FrameSource


@dataclass(slots=True, eq=False)
class FoundGroups:
    """The keys of a grouped table, which are released once.

    Attributes
    ----------
    columns : tuple of str
        The columns of the groups.
    epsilon : float or None
        What naming the keys costs; None is half of what the first query about them costs.
    delta : float or None
        The same for δ.
    records : list of dict or None
        The keys, when they have been released.
    """

    columns: tuple[str, ...]
    epsilon: float | None
    delta: float | None
    records: list[dict[str, Any]] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)


@dataclass(frozen=True, slots=True)
class View:
    """What is read of a frame: the rows, the columns, and the groups.

    Attributes
    ----------
    condition : str or None
        `where` of a job: other rows are not there.
    derived : tuple of dict
        The `[[derive]]` tables of a job.
    lookups : tuple of dict
        Its `[[lookup]]` tables.
    tables : tuple of (str, Source)
        Those of them that are frames, with their paths.
    joins : tuple of dict
        Its `[[join]]` tables.
    joined : tuple of (str, Source)
        Those of them that are frames.
    query : dict
        Keys of every query: `where`, `group_by`, `groups`.
    found : FoundGroups or None
        Groups that only the data know.
    made : dict or None
        Of the rows that are made of units: `per_unit` of a job, and its `where`, `join`, `derive` and `lookup`, which come before. The
        condition, the joins, the derived columns and the look-ups above are then those of `per_unit`.
    """

    condition: str | None = None
    derived: tuple[dict[str, Any], ...] = ()
    lookups: tuple[dict[str, Any], ...] = ()
    tables: tuple[tuple[str, FrameSource], ...] = ()
    joins: tuple[dict[str, Any], ...] = ()
    joined: tuple[tuple[str, FrameSource], ...] = ()
    query: Mapping[str, Any] = field(default_factory=dict)
    found: FoundGroups | None = None
    made: Mapping[str, Any] | None = None

    def of_rows(self, sql: str) -> View:
        """With the rows for which an expression is true, too; others are not there."""
        return replace(self, condition=_both(self.condition, sql))

    def of_units(self, section: Mapping[str, Any]) -> View:
        """With the rows that are made of each unit's rows."""
        return View(tables=self.tables, joined=self.joined, made={**self.stage, "per_unit": section})

    @property
    def stage(self) -> dict[str, Any]:
        """The condition, the joins, the derived columns and the look-ups, as far as there are any, as a job has them."""
        said = {"where": self.condition, "join": list(self.joins), "derive": list(self.derived), "lookup": list(self.lookups)}
        return {key: each for key, each in said.items() if each}

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until nobody else asks for the keys of its groups: they are paid for once."""
        if self.found is None:
            yield
            return
        with self.found.lock:
            yield

    def of_query(self, sql: str) -> View:
        """With queries about the rows for which an expression is true, too."""
        return replace(self, query={**self.query, "where": _both(self.query.get("where"), sql)})


def _both(condition: str | None, sql: str) -> str:
    """Both conditions; raises `JobError` unless each is an expression by itself, so that no bracket of one ends the other."""
    if condition is None:
        return sql
    from dpcore.tables.sql.database import connected
    from dpcore.tables.sql.syntax import SyntaxRefusedError, both, parsed

    with connected() as database:
        for text in (condition, sql):
            try:
                parsed(text, database)
            except SyntaxRefusedError as error:
                raise JobError(f"where = {text!r} {error}") from None
        try:
            return both(condition, sql, database)
        except SyntaxRefusedError as error:
            raise JobError(f"where = {sql!r} after where = {condition!r} {error}") from None


@dataclass(frozen=True, slots=True)
class Question:
    """A query of a view."""

    view: View
    entry: dict[str, Any]
