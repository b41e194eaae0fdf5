"""What a job makes of the columns of its input before anything is counted: looked-up and derived columns, and conditions on rows.

All of it is a function of each row alone, so a table that differs in some rows still differs in those rows alone, and in no more of them.
"""

from __future__ import annotations

import contextlib
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.tables.types.plain import without_views

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from dpcore.tables.rows import Rows
    from dpcore.tables.sql.evaluation import Evaluation
    from dpcore.tables.sql.lookups import LookUp
    from dpcore.tables.sql.program import Program

    Mask = npt.NDArray[np.bool_]


MADE_BYTES = 1 << 27
"""Texts that are made of a piece, at most: Arrow has no array of text with 2^31 bytes, so that one row more would end a job."""


class Joined(Protocol):
    """A private table that is joined to rows; see `tables.units.unit_joins`."""

    @property
    def key(self) -> str:
        """The column of units of the rows."""

    @property
    def columns(self) -> dict[str, pa.Array]:
        """What is joined."""

    @property
    def row_bytes(self) -> int:
        """The most bytes of text that one row may get."""

    def of(self, cells: pa.Array) -> tuple[dict[str, pa.Array], Mask | None]:
        """The columns for rows of these units, and which rows stay; None if all do."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """What is derived in one pass over the rows.

    Attributes
    ----------
    joins : tuple of Joined
        Private tables whose columns are joined, those that the pass needs and those that decide which rows are there.
    lookups : tuple of LookUp
        Public tables whose columns are joined after them, those that the pass needs.
    program : Program or None
        Derived columns and conditions; None if there are none.
    where : str or None
        The condition of the job, by which the program gives it: other rows are not there.
    """

    joins: tuple[Joined, ...] = ()
    lookups: tuple[LookUp, ...] = ()
    program: Program | None = None
    where: str | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of the input that it needs."""
        tables: tuple[Joined | LookUp, ...] = (*self.joins, *self.lookups)
        joined = {name for table in tables for name in table.columns}
        read = [*(table.key for table in tables), *(() if self.program is None else self.program.reads)]
        return tuple(dict.fromkeys(name for name in read if name not in joined))

    @property
    def most_rows(self) -> int:
        """Rows of a piece, at most. It follows from the expressions and public tables alone, not from how long texts are."""
        made = 0 if self.program is None else self.program.row_bytes
        made += sum(join.row_bytes for join in self.joins) + sum(lookup.row_bytes for lookup in self.lookups)
        return max(MADE_BYTES // max(made, 1), 1)

    @contextlib.contextmanager
    def opened(self) -> Iterator[Deriving]:
        """Make it ready for a pass."""
        if self.program is None:
            yield Deriving(self, None)
            return
        from dpcore.tables.sql.evaluation import Evaluation  # loads a database, which the compiler has loaded before

        with Evaluation(self.program) as evaluation:
            yield Deriving(self, evaluation)


@dataclass(frozen=True, slots=True)
class Derivations:
    """What a job derives, in the pass that chooses rows of each unit and in the one that adds up.

    Attributes
    ----------
    choosing, adding : Derivation
        In each of the passes.
    types : dict
        Types of the derived and looked-up columns that queries read.
    conditions : tuple of (str or None)
        The condition of each query.
    """

    choosing: Derivation = field(default_factory=Derivation)
    adding: Derivation = field(default_factory=Derivation)
    types: dict[str, pa.DataType] = field(default_factory=dict)
    conditions: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Derived:
    """Rows with their derived columns.

    Attributes
    ----------
    rows : Rows
        All of them.
    passes : ndarray of bool or None
        Those that the condition of the job lets through; None if all do.
    conditions : dict of str to ndarray of bool
        The other conditions.
    """

    rows: Rows
    passes: Mask | None
    conditions: dict[str, Mask]


class Deriving:
    """A derivation at work, for as many threads as call it."""

    def __init__(self, derivation: Derivation, evaluation: Evaluation | None) -> None:
        self._derivation, self._evaluation = derivation, evaluation

    def of(self, rows: Rows) -> Derived:
        """What is derived of some rows."""
        batch, passes = rows.batch, None
        conditions: dict[str, Mask] = {}
        for join in self._derivation.joins:
            columns, known = join.of(batch.column(join.key))
            batch, passes = _beside(batch, columns), _both(passes, known)
        for lookup in self._derivation.lookups:
            batch = _beside(batch, lookup.of(batch.column(lookup.key)))
        program = self._derivation.program
        if self._evaluation is not None and program is not None:
            found = self._evaluation.of(batch)
            conditions = found.conditions
            batch = _beside(batch, found.columns)
            passes = passes if self._derivation.where is None else _both(passes, conditions[self._derivation.where])
        return Derived(rows if batch is rows.batch else replace(rows, batch=batch), passes, conditions)


def _beside(batch: pa.RecordBatch, columns: dict[str, Any]) -> pa.RecordBatch:
    if not columns:
        return batch
    return pa.RecordBatch.from_arrays([*batch.columns, *columns.values()], [*batch.schema.names, *columns])


class Passing:
    """The rows that take part in each query of a job.

    Parameters
    ----------
    derived : Derived
        The rows.
    kept : ndarray of bool or None
        Those that their units keep.
    queries : tuple of (str or None)
        The condition of each query.
    names : tuple of str
        The columns that queries read.
    """

    def __init__(self, derived: Derived, kept: Mask | None, queries: tuple[str | None, ...], names: tuple[str, ...]) -> None:
        self._derived, self._kept, self._queries, self._names = derived, kept, queries, names
        self._known: dict[str | None, SelectedRows] = {}

    def of(self, query: int) -> SelectedRows:
        """The rows of one query."""
        key = self._queries[query] if self._queries else None
        if key not in self._known:
            condition = None if key is None else self._derived.conditions[key]
            self._known[key] = self._part(_both(self._derived.passes, condition))
        return self._known[key]

    def _part(self, passes: Mask | None) -> SelectedRows:
        rows, kept = self._derived.rows, self._kept
        if passes is not None and not passes.all():
            places = np.flatnonzero(passes)
            names = [name for name in self._names if name in rows.batch.schema.names] or rows.batch.schema.names[:1]
            rows = replace(rows, batch=without_views(rows.batch.select(names)).filter(pa.array(passes)), taken=places)
            kept = None if kept is None else kept[places]
        n = len(rows.batch) if kept is None else int(np.count_nonzero(kept))
        return SelectedRows(rows, kept, n)


@dataclass(frozen=True, slots=True)
class SelectedRows:
    """Rows that a query is asked about.

    Attributes
    ----------
    rows : Rows
        Those that pass; the cells of others are not looked at.
    kept : ndarray of bool or None
        Those of them that take part; None if all do.
    n : int
        How many take part.
    """

    rows: Rows
    kept: Mask | None
    n: int

    def taking_part(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The values of the rows that take part, of values of all rows."""
        return values if self.kept is None else values[self.kept]


def _both(one: Mask | None, other: Mask | None) -> Mask | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other
