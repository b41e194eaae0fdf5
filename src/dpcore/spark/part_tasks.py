"""What a task makes of its rows: exact partial statistics, by the passes of one machine, and how those of tasks are put together.

Nothing here knows Spark. A statistic is a sum of integers, or counts, over the rows; so it does not matter which rows a task has, in which
order they come, and in which order parts are merged. What looks at a whole unit needs all rows of the unit in one task.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore._dataclasses import dataclass
from dpcore.errors import DataError, DpcoreError, StorageError
from dpcore.query.backend import UnitTable
from dpcore.query.local_backend import LocalPasses
from dpcore.spark.part_input import PartInput, planned
from dpcore.spark.part_totals import PartOfTotals
from dpcore.spark.spill_folders import spill_folder
from dpcore.tables.progress import Silent
from dpcore.tables.rows import rows_of_batch
from dpcore.tables.sql.derivation import Derivations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from dpcore.query.backend import Measure
    from dpcore.query.plan import ReleasePlan
    from dpcore.tables.inputs import Inputs
    from dpcore.tables.pieces import FileInfo
    from dpcore.tables.units.unit_joins import UnitJoin
    from dpcore.tables.units.unit_rows import UnitRecipe

REPLACEMENT = "\ufffd"


@dataclass(frozen=True, slots=True)
class _Room:
    """A folder of the task, which goes when it ends."""

    spill: Path


@dataclass(frozen=True, slots=True)
class PartJob:
    """What tasks need of a job, to be pickled into them.

    Attributes
    ----------
    plan : ReleasePlan
        Without its input and its publication.
    recipe : UnitRecipe or None
        How a task makes the rows of the units that it has, which its queries are about.
    measures : sequence of Measure or None
        What a pass adds up for each query.
    info : FileInfo
        The columns of the rows, in their order, with their types.
    joined : tuple of FileInfo, default ()
        The same of the tables that are joined. A batch then has rows of all: the columns of each table, and last the number of the one that
        its row is of, 0 for the table itself.
    """

    plan: ReleasePlan = field(repr=False)
    recipe: UnitRecipe | None = field(repr=False)
    measures: Sequence[Measure | None] = field(repr=False)
    info: FileInfo = field(repr=False)
    joined: tuple[FileInfo, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, plan: ReleasePlan, measures: Sequence[Measure | None], info: FileInfo, joined: tuple[FileInfo, ...] = ()) -> PartJob:
        """Of a plan on the driver, which keeps the ledger and the output."""
        nothing = cast("Any", None)
        job = plan.job.model_copy(update={"ledger": None})
        plan = plan.with_joins(lambda join: replace(join, source=nothing))
        return cls(replace(plan, inputs=nothing, publication=nothing, output=Path(), job=job), plan.recipe, measures, info, joined)

    @property
    def chooses_rows(self) -> bool:
        """Whether units take part with some of their rows only."""
        return self.plan.unit_type is not None and self.plan.job.chooses_rows

    @property
    def holds_rows(self) -> bool:
        """Whether a task has all of its rows in memory at a time."""
        return self.chooses_rows or self.recipe is not None or bool(self.joined)

    def added_up(self, batches: Iterable[pa.RecordBatch]) -> PartOfTotals:
        """The statistic of each query."""
        with self._passes(batches) as (passes, plan):
            return PartOfTotals(*passes.add_up(plan, self.measures, ""))

    def counted(self, place: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The keys of the query at a place, each with the number of units that have it."""
        with self._passes(batches) as (passes, plan):
            yield from passes.count_units(plan, place, list)

    def listed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The different values that queries count: each with its group, and with the place of the query."""
        with self._passes(batches) as (passes, plan):
            for place, found in enumerate(passes.add_up(plan, self.measures, "")[0]):
                for values, groups in found or ():
                    yield _listed(place, values, groups)

    def filtered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that the condition of the job lets through, with the types that they came with."""
        derivation = (self.plan.derivations or Derivations()).choosing if self.recipe is None else self.recipe.derivation
        read = self.plan.read_types if self.recipe is None else self.recipe.read_types
        types = {name: read[name] for name in derivation.reads}
        with guarded(), derivation.opened() as deriving:
            for whole in batches:
                for start in range(0, len(whole), derivation.most_rows):
                    batch = whole.slice(start, derivation.most_rows)
                    passes = deriving.of(rows_of_batch(planned(batch, self.info.names, types))).passes
                    yield batch if passes is None else batch.filter(pa.array(passes))

    def _planned(self, batches: Iterable[pa.RecordBatch]) -> ReleasePlan:
        """The plan for the rows of a task."""
        plan, tables = self.plan, _split(batches, [self.info, *self.joined]) if self.joined else [batches]
        unit = None if plan.unit_type is None else plan.job.privacy.unit
        inputs: Inputs = _input(self.info, unit, tables[0])
        if self.recipe is not None:
            inputs = UnitTable.of(inputs, self.recipe)
        others = zip(self.joined, tables[1:], strict=True)

        def sourced(join: UnitJoin) -> UnitJoin:
            info, rows = next(others)
            return replace(join, source=_input(info, join.recipe.unit, rows))

        return replace(plan, inputs=inputs).with_joins(sourced)

    @contextlib.contextmanager
    def _passes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[LocalPasses, ReleasePlan]]:
        """The passes over the rows of a task, and the plan for them."""
        with guarded(), spill_folder() as folder:
            passes = LocalPasses(_Room(folder / "spill"), 1, Silent())
            batches = list(batches) if self.chooses_rows and self.recipe is None else batches
            plan = self._planned(batches)
            if self.recipe is not None or self.joined:
                plan = passes.make_rows(plan)
            if self.chooses_rows:
                passes.choose_rows(plan)
            yield passes, plan


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Let no error out whose message may quote a cell: Spark writes it into logs and event files."""
    try:
        yield
    except (DpcoreError, MemoryError, GeneratorExit):
        raise
    except Exception as error:
        kind = type(error).__name__
        raise StorageError(f"a task could not read its rows ({kind}); what the library says is not shown") from None


def _input(info: FileInfo, unit: str | None, batches: Iterable[pa.RecordBatch]) -> PartInput:
    """Rows of a table whose units are text as it is written, if there are units."""
    if info.types is None and unit is not None:
        place = info.names.index(unit)
        batches = [_legible(batch, place) for batch in batches] if isinstance(batches, list) else (_legible(b, place) for b in batches)
    return PartInput.of(info, batches)


def _split(batches: Iterable[pa.RecordBatch], infos: Sequence[FileInfo]) -> list[list[pa.RecordBatch]]:
    """The rows of each table: they have their places in batches whose last column says of which one a row is."""
    ends = list(itertools.accumulate(len(info.names) for info in infos))
    found: list[list[pa.RecordBatch]] = [[] for _ in infos]
    for batch in batches:
        tables = batch.column(ends[-1]).to_numpy()
        for number, (info, end) in enumerate(zip(infos, ends, strict=True)):
            rows = batch.select(range(end - len(info.names), end)).filter(pa.array(tables == number))
            if len(rows):
                found[number].append(rows)
    return found


def _legible(batch: pa.RecordBatch, unit: int) -> pa.RecordBatch:
    """A batch of a CSV whose units all came as they are written: Spark reads all bytes that are no UTF-8 as one character."""
    if pc.any(pc.match_substring(batch.column(unit).cast(pa.string()), REPLACEMENT)).as_py():
        raise DataError(
            "the unit of a row has bytes that are not UTF-8, or the character U+FFFD that Spark reads in their place, so units that differ "
            "could become one; write the table as UTF-8, or as Parquet"
        )
    return batch


def _listed(place: int, values: pa.Array, groups: Any) -> pa.RecordBatch:
    """Values as bytes; those of one query are all integers or all bytes."""
    if pa.types.is_integer(values.type):
        values = values.view(pa.binary(8))
    columns = [pa.array(np.full(len(values), place, np.int32)), pa.array(groups.astype(np.int32)), values.cast(pa.binary())]
    return pa.RecordBatch.from_arrays(columns, ["place", "part", "value"])


def together(measures: Iterable[Measure | None]) -> list[Measure | None]:
    """What tasks add up each for itself."""
    return [None if measure is None or measure.statistic.listed is not None else measure for measure in measures]


def listing(measures: Iterable[Measure | None]) -> list[Measure | None]:
    """What tasks list, where only all of them together can count."""
    listed = [(measure, None if measure is None else measure.statistic.listed) for measure in measures]
    return [None if measure is None or statistic is None else replace(measure, statistic=statistic) for measure, statistic in listed]


def counts_of(found: Iterable[tuple[int, int, int]], listed: Sequence[Measure | None]) -> dict[int, npt.NDArray[np.int64]]:
    """Numbers of different values, for a query and a group each, as arrays over the groups of each query."""
    groups = {place: measure.grouping for place, measure in enumerate(listed) if measure is not None}
    counts = {place: np.zeros(1 if each is None else each.size, np.int64) for place, each in groups.items()}
    for place, group, count in found:
        counts[place][group] = count
    return counts
