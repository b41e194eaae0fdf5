"""An engine for tests: parts of a table, each with a task of its own, on one machine and without Spark."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from dpcore.query.plan import ReleasePlan
from dpcore.query.statistics import Measure
from dpcore.spark.joined_rows import joined_infos
from dpcore.spark.part_tasks import PartJob, counts_of, listing, together
from dpcore.spark.part_totals import merged
from dpcore.tables.pieces import Cut, FileInfo
from dpcore.tables.rows import read_rows


class PartPasses:
    """The passes over parts that rows fall into at random, or with all rows of their unit."""

    threads = 1

    def __init__(self, plan: ReleasePlan, rows: pa.Table, parts: int, seed: int = 1, *, together: bool = True) -> None:
        chance = random.Random(seed)
        places = [chance.randrange(parts) for _ in range(len(rows))]
        self._by_value = plan.by_value
        of_units: dict[Any, int] = {}
        if plan.unit_type is not None and together:
            units = rows.column(plan.job.privacy.unit).to_pylist()
            places = [place if unit is None else of_units.setdefault(unit, place) for unit, place in zip(units, places, strict=True)]
        order = chance.sample(range(len(rows)), len(rows))
        self._parts = [
            rows.take(pa.array([i for i in order if places[i] == part], pa.int64())).to_batches(max_chunksize=100) for part in range(parts)
        ]
        self._info = FileInfo(tuple(rows.column_names), rows.schema, None)
        self._joined = joined_infos(plan)
        for number, (join, info) in enumerate(zip(plan.joins, self._joined, strict=True), 1):
            other = pa.Table.from_batches([each.batch for each in read_rows(join.source, dict(info.types or {}), Cut(40))])
            units = other.column(join.recipe.unit).to_pylist()
            where = [None if unit is None else of_units.setdefault(unit, chance.randrange(parts)) for unit in units]
            for part, batches in enumerate(self._parts):
                own = other.take(pa.array([i for i, place in enumerate(where) if place == part], pa.int64()))
                batches += [self._of_table(number, batch) for batch in own.to_batches(max_chunksize=30)]
        if self._joined:
            self._parts = [
                [self._of_table(0, each) if len(each.schema) == len(rows.schema) else each for each in part] for part in self._parts
            ]

    def _of_table(self, number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of one of the tables among those of all."""
        columns = []
        for table, info in enumerate([self._info, *self._joined]):
            types = info.types or {}
            columns += [batch.column(name) if table == number else pa.nulls(len(batch), types[name]) for name in info.names]
        columns.append(pa.array([number] * len(batch), pa.int32()))
        return pa.RecordBatch.from_arrays(columns, [*map(str, range(len(columns)))])

    def make_rows(self, plan: ReleasePlan) -> ReleasePlan:
        """Each task makes those of its units."""
        return plan

    def choose_rows(self, plan: ReleasePlan) -> None:
        """Each task chooses."""

    def add_up(self, plan: ReleasePlan, measures: Sequence[Measure | None], stage: str) -> tuple[list[Any], int]:
        """The statistics of all parts."""
        job = PartJob.of(replace(plan, by_value=self._by_value), together(measures), self._info, self._joined)
        found = merged(piece for part in reversed(self._parts) for piece in job.added_up(iter(part)).pieces())
        total = job.added_up([]).filled(merged(found.pieces()))
        job = replace(job, measures=listing(measures))
        values = {tuple(row.values()) for part in self._parts for batch in job.listed(iter(part)) for row in batch.to_pylist()}
        counted = Counter((place, group) for place, group, _ in values)
        different = counts_of(((place, group, count) for (place, group), count in counted.items()), job.measures)
        return [different.get(place, each) for place, each in enumerate(total.totals)], total.rows

    def count_units(self, plan: ReleasePlan, place: int, work: Callable[[Iterable[pa.RecordBatch]], Any]) -> Any:
        """The keys of all parts."""
        job = PartJob.of(replace(plan, by_value=self._by_value), [], self._info, self._joined)
        batches = [batch for part in self._parts for batch in job.counted(place, iter(part))]
        counted = pa.Table.from_batches(batches).group_by("key").aggregate([("n", "sum")]).sort_by("key")
        return work(pa.table({"key": counted.column("key"), "n": counted.column("n_sum")}).to_batches())
