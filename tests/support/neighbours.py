"""All tables of a few rows, and the neighbours of each, through the parts of the engine that look at rows.

A table has the rows of others and those of one unit. Neighbours differ in the latter. All tables are derived, filtered and read as one
batch, in which a column says whose table a row is; then each has its own statistics.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpcore.query.encoders import read_column
from dpcore.query.per_unit import UnitTable
from dpcore.query.plan import ReleasePlan
from dpcore.query.private_bounds import PrivateBounds
from dpcore.query.private_groups import Keys, KeysEstimator
from dpcore.query.reads import PrivateGrouping
from dpcore.query.run import with_keys
from dpcore.query.statistics import Measure
from dpcore.query.whole_unit_queries import OfUnits
from dpcore.tables.rows import Rows, RowsOfFile
from dpcore.tables.sql.database import opened
from dpcore.tables.sql.derivation import Derivation, Passing
from dpcore.tables.units.unit_rows import UnitRecipe
from support.answers import between_bounds
from support.totals import total_of

Array = npt.NDArray[Any]
Row = tuple[Any, ...]
UNIT, TABLE = "unit", "table"
UNITS = 1 << 20
"""More units than a table has rows."""


@dataclass(frozen=True)
class Tables:
    """Tables, and pairs of them that are neighbours.

    Attributes
    ----------
    rows : list
        For each table the rows of others, and those of the one unit.
    joined : list
        The same of the table that is joined to it; without rows of one that is joined to nothing.
    pairs : ndarray of shape (pairs, 2)
        Places of neighbours.
    """

    rows: list[tuple[Sequence[Row], Sequence[Row]]]
    pairs: Array
    joined: list[tuple[Sequence[Row], Sequence[Row]]] = field(default_factory=list)

    @classmethod
    def of(cls, others: Sequence[Sequence[Row]], own: Sequence[Row], most: int, relation: str, *, public: bool) -> Tables:
        """All that one unit may own, at most so many rows, beside each of several tables of others; a replaced row is always there."""
        owned = [rows for size in range(int(public), most + 1) for rows in itertools.combinations_with_replacement(own, size)]
        tables = [(rest, mine) for rest in others for mine in owned]
        return cls(tables, _pairs(owned, (), len(others), relation))

    @classmethod
    def pairs_of(
        cls, others: Sequence[tuple[Sequence[Row], Sequence[Row]]], own: Sequence[Row], most: int, relation: str, theirs: Sequence[Any]
    ) -> Tables:
        """All pairs of tables that one unit may be in: at most so many rows of the one, and one of several choices of rows of the other."""
        mine = [rows for size in range(most + 1) for rows in itertools.combinations_with_replacement(own, size)]
        owned = list(itertools.product(mine, theirs))
        both = [(rest, mine) for rest in others for mine in owned]
        rows, joined = ([(rest[side], mine[side]) for rest, mine in both] for side in (0, 1))
        return cls(rows, _pairs(owned, ((), ()), len(others), relation), joined)

    def batch(self, columns: Mapping[str, pa.DataType]) -> pa.RecordBatch:
        """The rows of all tables, with their units and tables; units of different tables are different, and the one unit is the first."""
        return _batch(self.rows, columns)

    def other_batch(self, columns: Mapping[str, pa.DataType]) -> pa.RecordBatch:
        """The same of the tables that are joined."""
        return _batch(self.joined, columns)


def _pairs(owned: Sequence[Any], nothing: Any, others: int, relation: str) -> Array:
    """Places of neighbours among all that one unit may own, beside each of several tables of others."""
    there, empty = range(len(owned)), owned.index(nothing) if nothing in owned else None
    inside = list(itertools.combinations(there, 2)) if relation == "replace" else [(empty, place) for place in there if place != empty]
    return np.array([(start + one, start + other) for start in range(0, others * len(owned), len(owned)) for one, other in inside])


def _batch(tables: list[tuple[Sequence[Row], Sequence[Row]]], columns: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    everything = [(place, 0 if mine else 1 + i, row) for place, parts in enumerate(tables) for mine, i, row in _of_table(parts)]
    values = list(zip(*(row for _, _, row in everything), strict=True))
    arrays = [pa.array(column, kind) for column, kind in zip(values, columns.values(), strict=True)]
    tables = np.array([place for place, _, _ in everything])
    units = tables * UNITS + np.array([unit for _, unit, _ in everything])
    return pa.RecordBatch.from_arrays([*arrays, pa.array(units), pa.array(tables)], [*columns, UNIT, TABLE])


def _of_table(parts: tuple[Sequence[Row], Sequence[Row]]) -> Iterator[tuple[bool, int, Row]]:
    for mine, rows in zip((False, True), parts, strict=True):
        for i, row in enumerate(rows):
            yield mine, i, row


def knowing(plan: ReleasePlan, keys: Sequence[bytes]) -> ReleasePlan:
    """The plan where these keys were released for its private groups."""
    tallies = [Keys(answer.private.released(keys), False) if isinstance(answer, KeysEstimator) else None for answer in plan.estimators]
    known = with_keys(plan, tallies)
    assert not any(
        isinstance(getattr(each, "grouping", None), PrivateGrouping) for each in known.estimators if not isinstance(each, KeysEstimator)
    )
    return known


def _made(recipe: UnitRecipe, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that are made of each unit, table by table."""
    with recipe.derivation.opened() as deriving, opened() as database:
        encoded = recipe.encoded(Rows(batch, (RowsOfFile(0, Path("in"), 0),), 0, 1.0), deriving)
        made = pa.Table.from_batches(recipe.made(database, encoded), recipe.schema).combine_chunks()
    made = made.append_column(TABLE, pa.array(made.column(UNIT).to_numpy() // UNITS)).sort_by([(TABLE, "ascending"), (UNIT, "ascending")])
    (rows,) = made.to_batches(max_chunksize=len(made))
    return rows


class Statistics:
    """The exact statistics of each query of a plan, for all tables.

    Parameters
    ----------
    plan : ReleasePlan
        The job; private groups are known.
    tables : Tables
        The tables.
    columns : mapping of str to pyarrow.DataType
        Their columns.
    spill : Path
        A folder.
    other_columns : mapping of str to pyarrow.DataType, optional
        Columns of the tables that are joined.
    """

    def __init__(
        self, plan: ReleasePlan, tables: Tables, columns: Mapping[str, pa.DataType], spill: Path,
        other_columns: Mapping[str, pa.DataType] | None = None,
    ) -> None:  # fmt: skip
        self._plan, self._tables, self._spill = plan, tables, spill
        batch = tables.batch(columns)
        if isinstance(plan.inputs, UnitTable):
            batch = _made(plan.inputs.recipe, batch)
        if plan.joins:
            other = tables.other_batch(other_columns or {})
            plan = plan.with_joins(lambda join: join.holding([_made(join.recipe, other)]))
        derivations = plan.derivations
        with (Derivation() if derivations is None else derivations.adding).opened() as deriving:
            derived = deriving.of(Rows(batch, (RowsOfFile(0, Path("in"), 0),), 0, 1.0))
        names = tuple(dict.fromkeys([*derived.rows.batch.schema.names]))
        self._passing = Passing(derived, None, () if derivations is None else derivations.conditions, names)

    def of(self, place: int) -> list[Any]:
        """The statistic of a query, of each table."""
        answer = self._plan.estimators[place]
        if isinstance(answer, PrivateBounds):
            between = zip(*(self._measured(place, inner.measure) for inner in between_bounds(answer)), strict=True)
            return list(zip(self._measured(place, answer.measure_of_bins), between, strict=True))
        return self._measured(place, answer.measure)

    def _measured(self, place: int, measure: Measure) -> list[Any]:
        part = self._passing.of(place)
        columns = [read_column(part.rows, name, cells) for name, cells in measure.reads]
        codes = None if measure.grouping is None else measure.grouping.codes(part.rows.batch)
        tables = part.rows.batch.column(TABLE).to_numpy()
        if isinstance(measure.statistic, OfUnits):
            return self._of_whole_units(measure.statistic, tables, columns, codes)
        ends = np.searchsorted(tables, np.arange(len(self._tables.rows) + 1)).tolist()
        return [
            total_of(measure, [each[start:stop] for each in columns], None if codes is None else codes[start:stop], rows=stop - start)
            for start, stop in itertools.pairwise(ends)
        ]

    def _of_whole_units(self, statistic: OfUnits, tables: Array, columns: list[Any], codes: Any) -> list[Any]:
        """All tables at once: their units and groups are made different."""
        groups, words = statistic.groups, None
        if statistic.draws_words:
            # A word for each place in a table: the same for neighbours, where the one unit stands behind all others.
            starts = np.searchsorted(tables, tables)
            words = ((np.arange(len(tables)) - starts) * 7 % 11).astype(np.uint64)
        wide = replace(statistic, groups=len(self._tables.rows) * groups)
        codes = np.zeros(len(tables), np.int64) if codes is None else codes
        codes = np.where(codes < groups, tables * groups + codes, wide.groups)
        found = total_of(Measure((), wide), columns, codes, words, rows=len(tables), spill=self._spill)
        return [each.tolist() for each in np.array(found, dtype=object).reshape(len(self._tables.rows), groups)]
