"""The pass of one machine that counts the units of each key, for groups that only the data know: in a database, which sorts on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from dpcore.errors import StorageError
from dpcore.tables.pieces import Cut
from dpcore.tables.rows import read_rows
from dpcore.tables.sql.derivation import Derivations, Passing
from dpcore.tables.types.slices import where
from dpcore.tables.types.whole_arrays import decoded
from dpcore.tables.units.contributions import PIECE_ROWS, compared, compared_type
from dpcore.tables.units.database import Advance, in_database
from dpcore.tables.units.units import CHANGED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import duckdb

    from dpcore.query.plan import ReleasePlan
    from dpcore.tables.progress import Progress
    from dpcore.tables.units.units import Kept


# Keys come in order, so that the draw of a key depends on its place among them and not on the order of rows. A null unit is one of its own.
OF_ROWS = "select key, count(*) as n from keys where key is not null group by key order by key"
OF_UNITS = """
select key, cast(sum(n) as bigint) as n from (
    select key, unit, case when unit is null then count(*) else 1 end as n from keys where key is not null group by key, unit
) group by key order by key
"""
FETCHED_KEYS = 1 << 16
Found = TypeVar("Found")


def count_units(
    plan: ReleasePlan,
    place: int,
    kept: Kept | None,
    spill: Path,
    threads: int,
    shown: Progress,
    work: Callable[[Iterable[pa.RecordBatch]], Found],
) -> Found:
    """What `work` makes of the keys of one query, in order, with the number of distinct units of each.

    Parameters
    ----------
    plan : ReleasePlan
        The job.
    place : int
        The place of the query, which is a `KeysEstimator`.
    kept : Kept or None
        The rows that take part; None if all do.
    spill : Path
        Folder for what does not fit into memory.
    threads : int
        Threads that count.
    shown : Progress
        Shows the pass.
    work : callable
        Takes batches of `key` and `n`.
    """
    what = words_of(plan, place)
    shown.begin(what)
    counting = _Counting(plan, place, kept)
    return in_database(spill, threads, counting.progress, shown.update, lambda database: work(counting.made(database)), what)


def words_of(plan: ReleasePlan, place: int) -> str:
    """The pass in words."""
    return f"counting {plan.job.privacy.unit!r} per {', '.join(map(repr, grouping_of(plan, place).names))}"


def grouping_of(plan: ReleasePlan, place: int) -> Any:
    """The groups of a query for keys."""
    estimator: Any = plan.estimators[place]
    return estimator.private


class _Counting:
    """The pass for one query, in a database."""

    def __init__(self, plan: ReleasePlan, place: int, kept: Kept | None) -> None:
        self.progress = Advance()
        self._plan, self._place, self._kept = plan, place, kept
        self._grouping = grouping_of(plan, place)

    def made(self, database: duckdb.DuckDBPyConnection) -> Iterable[pa.RecordBatch]:
        """Count the units of all keys."""
        kind = self._plan.unit_type
        unit = [] if kind is None else [("unit", compared_type(kind))]
        schema = pa.schema([*unit, ("key", self._grouping.key_type)])
        database.register("piece", schema.empty_table())
        database.execute("create table keys as select * from piece")
        # A piece is complete before the database sees it: to evaluate conditions takes a database, too, and none may call another.
        for batch in self._batches(schema):
            database.register("piece", pa.Table.from_batches([batch]))
            database.execute("insert into keys select * from piece")
        if self._kept is not None and self.progress.rows != self._kept.rows:
            raise StorageError(CHANGED)
        counted: Iterable[pa.RecordBatch] = database.sql(OF_ROWS if kind is None else OF_UNITS).to_arrow_reader(FETCHED_KEYS)
        return counted

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The unit and the key of each row that takes part and that the conditions let through."""
        plan, grouping = self._plan, self._grouping
        derivations = Derivations() if plan.derivations is None else plan.derivations
        named = (*grouping.names, *(() if plan.unit_type is None else (plan.job.privacy.unit,)))
        cut = Cut(min(PIECE_ROWS, derivations.adding.most_rows), use_threads=False)
        with derivations.adding.opened() as deriving:
            for rows in read_rows(plan.inputs, self._types(derivations.adding.reads), cut):
                kept = None if self._kept is None else self._kept.mask(rows.first, len(rows.batch))
                part = Passing(deriving.of(rows), kept, derivations.conditions, named).of(self._place)
                keys = grouping.keyed(part.rows.batch)
                if part.kept is not None and not part.kept.all():
                    keys = where(pa.array(part.kept), keys)
                units = (
                    []
                    if plan.unit_type is None
                    else [compared(decoded(part.rows.batch.column(plan.job.privacy.unit)).cast(plan.unit_type))]
                )
                yield pa.RecordBatch.from_arrays([*units, keys], schema=schema)
                self.progress.rows, self.progress.done = rows.first + len(rows.batch), rows.done

    def _types(self, sources: Sequence[str]) -> dict[str, pa.DataType]:
        """Types of the columns of the input that say the group of a row, or that others are derived from, and of the unit."""
        plan = self._plan
        types = {name: plan.read_types[name] for name in (*self._grouping.names, *sources) if name in plan.read_types}
        return types if plan.unit_type is None else {**types, plan.job.privacy.unit: plan.unit_type}
