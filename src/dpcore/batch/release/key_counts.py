"""The pass that counts the distinct units of each key, and the decision which keys are released."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore.batch.release.answers import HistogramAnswer
from dpcore.batch.release.choices import QuantileAnswer, TopAnswer
from dpcore.batch.release.draws import Draw
from dpcore.batch.release.group_bounds import BoundedEach
from dpcore.batch.release.group_fields import MAX_GROUPS
from dpcore.batch.release.groups import GroupedAnswer
from dpcore.batch.release.octaves import FEWEST_POINTS
from dpcore.batch.release.people import OfWholeUnits
from dpcore.batch.release.private_grouping import PrivateGrouping
from dpcore.batch.release.private_groups import Keys, KeysAnswer
from dpcore.batch.release.queries import GridQuery
from dpcore.batch.release.query_fields import MAX_CELLS
from dpcore.batch.tables.contributions import PIECE_ROWS, compared, compared_type
from dpcore.batch.tables.database import Progress, in_database
from dpcore.batch.tables.derivation import Derivations, Passing
from dpcore.batch.tables.pieces import Cut
from dpcore.batch.tables.plain import decoded
from dpcore.batch.tables.rows import read_rows
from dpcore.batch.tables.units import CHANGED
from dpcore.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import duckdb

    from dpcore.batch.release.answers import Answer
    from dpcore.batch.release.plan import ReleasePlan
    from dpcore.batch.tables import progress
    from dpcore.batch.tables.units import Kept
    from dpcore.rng import Stream

# Keys come in order, so that the draw of a key depends on its place among them and not on the order of rows. A null unit is one of its own.
OF_ROWS = "select key, count(*) as n from keys where key is not null group by key order by key"
OF_UNITS = """
select key, cast(sum(n) as bigint) as n from (
    select key, unit, case when unit is null then count(*) else 1 end as n from keys where key is not null group by key, unit
) group by key order by key
"""
FETCHED_KEYS = 1 << 16


def select_keys(
    plan: ReleasePlan, kept: Kept | None, stream: Callable[[int], Stream | None], spill: Path, threads: int, shown: progress.Progress
) -> dict[int, Keys]:
    """The keys of each query that asks for them, by its place; each takes one pass over the columns of its groups.

    Parameters
    ----------
    plan : ReleasePlan
        The job.
    kept : Kept or None
        The rows that take part; None if all do.
    stream : callable
        The stream of a query by its place.
    spill : Path
        Folder for what does not fit into memory.
    threads : int
        Threads that count.
    shown : Progress
        Told of each pass.
    """
    found = {}
    for place, answer in enumerate(plan.answers):
        if isinstance(answer, KeysAnswer):
            what = f"counting {plan.job.privacy.unit!r} per {', '.join(map(repr, answer.grouping.names))}"
            shown.begin(what)
            counting = _Counting(plan, place, answer, kept, Draw(stream(place)), threads)
            found[place] = in_database(spill, threads, counting.progress, shown.update, counting.made, what)
    return found


class _Counting:
    """The pass for one query, in a database."""

    def __init__(self, plan: ReleasePlan, place: int, answer: KeysAnswer, kept: Kept | None, draw: Draw, threads: int) -> None:
        self.progress = Progress()
        self._plan, self._place, self._answer, self._kept, self._draw, self._threads = plan, place, answer, kept, draw, threads
        self._most = most_keys(plan.answers, answer.grouping)

    def made(self, database: duckdb.DuckDBPyConnection) -> Keys:
        """Count the units of all keys, and decide about each."""
        kind, grouping = self._plan.unit_type, self._answer.grouping
        unit = [] if kind is None else [("unit", compared_type(kind))]
        schema = pa.schema([*unit, ("key", grouping.key_type)])
        database.register("piece", schema.empty_table())
        database.execute("create table keys as select * from piece")
        # A piece is complete before the database sees it: to evaluate conditions takes a database, too, and none may call another.
        for batch in self._batches(schema):
            database.register("piece", pa.Table.from_batches([batch]))
            database.execute("insert into keys select * from piece")
        counted = database.sql(OF_ROWS if kind is None else OF_UNITS).to_arrow_reader(FETCHED_KEYS)
        keys = list(self._released(counted))
        if self._kept is not None and self.progress.rows != self._kept.rows:
            raise StorageError(CHANGED)
        return Keys(grouping.released(keys[: self._most]), len(keys) > self._most)

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The unit and the key of each row that takes part and that the conditions let through."""
        plan, grouping = self._plan, self._answer.grouping
        derivations = Derivations() if plan.derivations is None else plan.derivations
        named = (*grouping.names, *(() if plan.unit_type is None else (plan.job.privacy.unit,)))
        cut = Cut(min(PIECE_ROWS, derivations.adding.most_rows), use_threads=False)
        with derivations.adding.opened() as deriving:
            for rows in read_rows(plan.inputs, self._types(derivations.adding.reads), cut):
                kept = None if self._kept is None else self._kept.mask(rows.first, len(rows.batch))
                part = Passing(deriving.of(rows), kept, derivations.conditions, named).of(self._place)
                keys = grouping.keyed(part.rows.batch)
                if part.kept is not None and not part.kept.all():
                    keys = pc.if_else(pa.array(part.kept), keys, pa.scalar(None, keys.type))
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
        types = {name: plan.read_types[name] for name in (*self._answer.grouping.names, *sources) if name in plan.read_types}
        return types if plan.unit_type is None else {**types, plan.job.privacy.unit: plan.unit_type}

    def _released(self, counted: Any) -> Iterator[bytes]:
        """The released keys, in order, and one more than are wanted if there are more."""
        first = found = 0
        for batch in counted:
            counts = batch.column("n").to_numpy()
            mask = self._answer.rule.release(counts, self._draw.at(first), self._threads)
            first += len(counts)
            keys = batch.column("key").take(pa.array(np.flatnonzero(mask))).to_pylist()
            yield from keys[: self._most + 1 - found]
            found += len(keys)
            if found > self._most:
                return


def most_keys(answers: Sequence[Answer | GroupedAnswer], grouping: PrivateGrouping) -> int:
    """How many keys may be released, so that no answer has more cells than are allowed."""
    most = MAX_GROUPS
    for answer in answers:
        if isinstance(answer, GroupedAnswer) and answer.grouping.names == grouping.names:
            most = min(most, MAX_CELLS // _cells(answer.each))
    return most


def _cells(each: Answer) -> int:
    """How many cells the answer to one group has at least."""
    if isinstance(each, BoundedEach):
        return FEWEST_POINTS if isinstance(each.section, GridQuery) else 1
    return each.cells.size if isinstance(each, HistogramAnswer | QuantileAnswer | TopAnswer) else 1


def with_keys(plan: ReleasePlan, tallies: Sequence[Any]) -> ReleasePlan:
    """The plan for the groups whose keys were released: those among the statistics of its queries."""
    found = {keys.grouping.names: keys.grouping for keys in tallies if isinstance(keys, Keys)}
    # Queries that share their groups go on to share them: the group of a row is then looked up once.
    both = {(names, listed): replace(grouping, listed=listed) for names, grouping in found.items() for listed in (False, True)}

    def known(answer: Any) -> Any:
        grouping = getattr(answer, "grouping", None)
        if not isinstance(grouping, PrivateGrouping) or isinstance(answer, KeysAnswer):
            return answer
        now: dict[str, Any] = {"grouping": both[grouping.names, grouping.listed]}
        return replace(answer, **({"whole": replace(answer.whole, **now)} if isinstance(answer, OfWholeUnits) else now))

    return replace(plan, answers=tuple(map(known, plan.answers)))
