"""A pass over the column that says whose data a row is, on a thread of its own."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import field
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from dpcore._dataclasses import dataclass
from dpcore.errors import DpcoreError, StorageError
from dpcore.tables.formats.checked import BYTES
from dpcore.tables.formats.csv import NULLS
from dpcore.tables.pieces import Cut
from dpcore.tables.pipeline import POLL_SECONDS, UNFINISHED
from dpcore.tables.rows import read_rows
from dpcore.tables.sql.derivation import Derivation
from dpcore.tables.types.slices import where
from dpcore.tables.types.whole_arrays import decoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from dpcore.tables.inputs import Inputs
    from dpcore.tables.rows import Rows
    from dpcore.tables.sections import JobFile
    from dpcore.tables.sources import InputFile
    from dpcore.tables.sql.derivation import Derivations


Answer = TypeVar("Answer")
PIECE_ROWS = 1 << 16
LONGEST_NAME = 256
"""Bytes of a unit's name that are counted as they are. Of a longer one it is the digest: a few names must not fill the memory."""


class Planned(Protocol):
    """The part of the plan of any job that is about the input and its units."""

    @property
    def job(self) -> JobFile:
        """The job file."""

    @property
    def inputs(self) -> Inputs:
        """The files."""

    @property
    def read_types(self) -> dict[str, pa.DataType]:
        """Type of each column that is read."""

    @property
    def unit_type(self) -> pa.DataType | None:
        """Type of the column that holds the privacy unit; None if the unit is the row."""


class _StoppedError(Exception):
    """The calling thread ended the work."""


@dataclass(slots=True)
class Reading:
    """How far a pass over the unit column and the choice after it have come; each is half of the work."""

    starts: dict[InputFile, int] = field(default_factory=dict)
    rows: int = 0
    done: float = 0.0
    stopped: bool = False

    def check(self) -> None:
        """Raise an error if the work was stopped."""
        if self.stopped:
            raise _StoppedError


def in_background(what: str, reading: Reading, spill: Path, update: Callable[[int, float], None], work: Callable[[], Answer]) -> Answer:
    """Do some work on the units on a separate thread, so that the calling thread stays free for signals.

    Parameters
    ----------
    what : str
        The work in words, for messages.
    reading : Reading
        How far the work has come. The work ends soon after it was stopped.
    spill : Path
        Folder for what does not fit into memory; it is made if it is not there.
    update : callable
        Told the rows read and the fraction of the work that is done, on the calling thread.
    work : callable
        What to do.

    Raises
    ------
    StorageError
        If there is no room.
    """
    # It will hold the units' own names, and lies where results are published.
    spill.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ThreadPoolExecutor(1) as worker:
        working = worker.submit(work)
        try:
            while not wait([working], POLL_SECONDS).done:
                update(reading.rows, min(reading.done, UNFINISHED))
            answer = working.result()
        except DpcoreError:
            raise
        except (OSError, pa.ArrowException):
            raise StorageError(f"{what} failed; it may need more room in {spill.parent}") from None
        except BaseException:
            reading.stopped = True
            raise
    update(reading.rows, 1.0)
    return answer


def unit_batches(
    plan: Planned,
    reading: Reading,
    schema: pa.Schema,
    more: Callable[[Rows], list[pa.Array]],
    columns: Mapping[str, pa.DataType] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The unit column, null where a row names none, beside what `more` makes of rows, which have these `columns`.

    Rows that the condition of the job excludes are left out: they must not take the place of others.
    """
    derivations: Derivations | None = getattr(plan, "derivations", None)  # of a release; a local job has a row for each row
    derivation = Derivation() if derivations is None else derivations.choosing
    needed = {each: plan.read_types[each] for each in derivation.reads}
    name, types = plan.job.privacy.unit, {**(columns or {}), **needed, plan.job.privacy.unit: plan.unit_type}
    with derivation.opened() as deriving:
        for rows in read_rows(plan.inputs, types, Cut(min(PIECE_ROWS, derivation.most_rows), use_threads=False)):
            reading.check()
            for part in rows.parts:
                reading.starts.setdefault(part.path, rows.first + part.start - part.row)
            derived = deriving.of(rows)
            units = compared(decoded(rows.batch.column(name)).cast(plan.unit_type))
            batch = pa.RecordBatch.from_arrays([units, *more(derived.rows)], schema=schema)
            yield batch if derived.passes is None else batch.filter(pa.array(derived.passes))
            reading.rows = rows.first + len(units)
            reading.done = rows.done / 2


def compared(units: pa.Array) -> pa.Array:
    """The units of rows as values of `compared_type`, equal where they were, and null where a row names none."""
    return _comparable(_named(units))


def _named(units: pa.Array) -> pa.Array:
    """The units, null where a row names none: rows of many people must not pass for those of one, whose quota they would share."""
    if units.type != pa.binary():
        return units
    nulls = pa.array([null.encode() for null in NULLS], pa.binary())
    return where(pc.invert(pc.is_in(units, value_set=nulls)), units)


def compared_type(dtype: pa.DataType) -> pa.DataType:
    """The type in which units of a type are compared: integers or bytes."""
    if pa.types.is_temporal(dtype):
        return pa.int32() if dtype.bit_width == 32 else pa.int64()
    return BYTES.get(dtype, dtype)


def _comparable(units: pa.Array) -> pa.Array:
    """The units as values of `compared_type`, equal where they were."""
    units = units.view(compared_type(units.type))
    if pa.types.is_integer(units.type):
        return units
    long = pc.fill_null(pc.greater(pc.binary_length(units), LONGEST_NAME), False)  # noqa: FBT003
    if not pc.any(long).as_py():
        return units
    # Longer than any name that is left as it is, so that no digest is the name of somebody else; and text, as a name is.
    digests = [hashlib.sha256(name).hexdigest().encode().ljust(LONGEST_NAME + 1, b"-") for name in units.filter(long).to_pylist()]
    return pc.replace_with_mask(units, long, pa.array(digests, units.type))


def named_again(units: pa.Array, dtype: pa.DataType) -> pa.Array:
    """What `compared` gave as values of the type of the unit; in place of a long name stands its digest."""
    return units.cast(compared_type(dtype)).view(dtype)


def place_of(reading: Reading, row: int) -> str:
    """File and row of a position in the whole input."""
    path = max((path for path, start in reading.starts.items() if start <= row), key=reading.starts.__getitem__)
    return f"{path}: row {row - reading.starts[path]} (counted from 0)"
